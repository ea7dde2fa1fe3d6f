import re
from functools import cache

import numpy as np
import polars as pl
import pytest
from scipy.special import softmax
from sklearn.dummy import DummyClassifier
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression, Ridge

from tdlg import (
    LineGraphClassifier,
    LinkPredictor,
    PropagationClassifier,
    PropagationFeatures,
    PropagationRegressor,
    TemporalEdges,
    load_model,
)
from tdlg.clock import time_in_words
from tdlg.exceptions import ParameterError
from tdlg.explain import node_scores, nodes, reasons
from tdlg.explain.positive import label_in_words
from tdlg.explain.sentences import Words, node_in_words
from tdlg.models.training import training_windows
from tdlg.propagate.features import gather_evidence

pytestmark = [
    pytest.mark.usefixtures("few_trees"),
    pytest.mark.filterwarnings("ignore:Only .* known labels are .* hardly enough"),
]

MATCHES = {  # (ends of the edge explained, ends of the other that must be the same), and the words for it
    "src": ((0,), (0,), "from {0}"),
    "dst": ((1,), (1,), "to {1}"),
    "src-dst": ((0,), (1,), "to {0}"),
    "dst-src": ((1,), (0,), "from {1}"),
    "pair": ((0, 1), (0, 1), "from {0} to {1}"),
    "reversed": ((1, 0), (0, 1), "from {1} back to {0}"),
}
SETTINGS = ["interpolate", "forecast", "stream"]
IDS = {
    "strings": ["ann", "bob", "cat", "d{0}n", "o'e", "fay"],
    "ints": [7, 11, 13, 17, 19, 23],
    "mixed": ["ann", 11, ("c", 1), "7", 8, ("c", 2)],
}


def small(n=70, ids="strings", dated=False, classes=2, seed=0, features=False, n_nodes=6):
    """Few nodes and times, so that there are ties, pairs that meet again, and self-loops."""
    rng = np.random.default_rng(seed)
    nodes = np.empty(n_nodes, object)
    nodes[:] = IDS[ids][:n_nodes]
    time = np.sort(rng.integers(0, 9, n))
    extra = {}
    if features:
        amount = np.where(rng.random(n) < 0.15, np.nan, rng.lognormal(3, 1.5, n))
        kind = np.where(rng.random(n) < 0.15, None, rng.choice(["card", "cash", "wire"], n))
        extra = {"features": {"amount": amount, "kind": kind}, "weight": rng.random(n)}
    return TemporalEdges(
        nodes[rng.integers(0, n_nodes, n)].tolist(),
        nodes[rng.integers(0, n_nodes, n)].tolist(),
        np.datetime64("2024-01-01", "s") + time.astype("timedelta64[D]") if dated else time,
        label=np.array(["fine", "fraud", "spam"])[rng.integers(0, classes, n)],
        **extra,
    )


def hide(edges, hidden):
    return edges.with_label(np.where(hidden, None, edges.label))


def hidden_part(edges, setting):
    return (
        np.random.default_rng(5).random(len(edges)) < 0.4 if setting == "interpolate" else edges.ticks > edges.ticks[45]
    )


def fitted(edges, setting, **options):
    """A model of which nearly every group of columns has an effect."""
    model = PropagationClassifier(LogisticRegression(C=10, max_iter=5000), setting=setting, **options)
    return model.fit(hide(edges, hidden_part(edges, setting)))


def planted(n=1500, seed=0):
    """Whatever goes to the destination "bad" is fraud, nearly always; all else is fine."""
    rng = np.random.default_rng(seed)
    src = rng.choice([f"user {k}" for k in range(200)], n)
    dst = rng.choice(["bad", "x", "y", "z"], n)
    label = np.where((dst == "bad") ^ (rng.random(n) < 0.03), "fraud", "fine")
    return TemporalEdges(src.tolist(), dst.tolist(), np.sort(rng.uniform(0, 100, n)), label=label)


# ---- the plain loops


class Loops:
    """What an edge may see, found by looking at every other one. Fitted edges only."""

    def __init__(self, edges, known, past_only, known_at=None):
        self.edges, self.known, self.past_only, self.known_at = edges, known, past_only, known_at
        self.time = edges.ticks.tolist()
        if edges.time_unit == "s":
            self.time = [tick // 86400 for tick in self.time]
        self.last, self.other = ("last", "earlier") if past_only else ("nearest", "other")
        self.around, self.labelled = cache(self.around), cache(self.labelled)

    def ends(self, i):
        return self.edges.src[i], self.edges.dst[i]

    def around(self, i, match):
        mine, theirs, _ = MATCHES[match]
        found = []
        for j in range(len(self.edges)):
            same = all(self.ends(i)[a] == self.ends(j)[b] for a, b in zip(mine, theirs, strict=True))
            if same and j != i and (self.time[j] < self.time[i] or not self.past_only):
                found.append(j)
        return sorted(found, key=lambda j: (abs(self.time[j] - self.time[i]), j))

    def labelled(self, i, match):
        seen = [j for j in self.around(i, match) if self.known[j]]
        return seen if self.known_at is None else [j for j in seen if self.known_at[j] < self.time[i]]

    def where(self, i, match):
        ends = [repr(end) if not isinstance(end, int | np.integer) else f"node {end}" for end in self.ends(i)]
        return re.sub(r"\{(\d)\}", lambda found: ends[int(found[1])], MATCHES[match][2])

    def when(self, i, j):
        gap = self.time[j] - self.time[i]
        unit = "time unit" if self.edges.time_unit is None else "day"
        return f"{plural(abs(gap), unit)} {'before' if gap < 0 else 'after'}" if gap else "at the same time"

    def rate(self, i, match, label, effect):
        """The sentence about the labels that agrees with the effect; how it starts if no number of labels does."""
        known, where = self.labelled(i, match), self.where(i, match)
        if not known:
            return f"no labelled interaction {where}" + (" yet" if self.past_only else "")
        base = np.mean([self.edges.label[j] == label for j in range(len(self.edges)) if self.known[j]])
        for n in (10, 50, *range(9, 0, -1)):
            share = np.mean([self.edges.label[j] == label for j in known[:n]])
            if share > base if effect > 0 else share < base:
                return self.labels(i, known, known[:n], where, label, base)
        return (
            f"the labels of interactions {where} say little ",
            f"{plural(len(known), 'labelled interaction')} {where}, ",
        )

    def labels(self, i, known, recent, where, label, base):
        when, n_class = self.when(i, recent[0]), sum(self.edges.label[j] == label for j in recent)
        if len(recent) == 1:
            which = "only" if len(known) == 1 else self.last
            return f"the {which} labelled interaction {where} {'was' if n_class else 'was not'} {label}, {when}"
        last = f"{self.last} " if len(known) > len(recent) else ""
        beside = "" if n_class in (0, len(recent)) else f" ({base:.0%} of all)"
        told = f"{n_class or 'none'} of the {last}{len(recent)} labelled interactions {where} were {label}{beside}"
        return f"{told}, the {self.last} {when}"

    def known_labels(self, i, match):
        known, where = self.labelled(i, match), self.where(i, match)
        if not known:
            return [f"no labelled interaction {where}" + (" yet" if self.past_only else "")]
        last = "" if len(known) == 1 else f"the {self.last} "
        told = f"{plural(len(known), 'label')}, {last}{self.when(i, known[0])}"
        return [f"{how} is known than is typical about interactions {where}: {told}" for how in ("more", "less")]

    def first(self, i, match):
        first = "first" if self.past_only else "the only"
        return f"{first if match in ('src', 'dst', 'pair') else f'no {self.other}'} interaction {self.where(i, match)}"

    def gaps(self, i, match):
        around, where = self.around(i, match), self.where(i, match)
        if not around:
            return self.first(i, match)
        if self.past_only:
            return f"the last interaction {where} was {self.when(i, around[0])}"
        if self.time[around[0]] == self.time[i]:
            return f"another interaction {where} is at the same time"
        before = [j for j in around if self.time[j] < self.time[i]]
        after = [j for j in around if self.time[j] > self.time[i]]
        if before and after:
            return (
                f"the interactions {where} nearest in time are {self.when(i, before[0])} and {self.when(i, after[0])}"
            )
        none = "none is before" if after else "none is after"
        return f"the nearest interaction {where} is {self.when(i, around[0])}, {none}"

    def count(self, i, match, sentence):
        """Of a node's, the window is read from the sentence."""
        around, where = self.around(i, match), self.where(i, match)
        if not around:
            return self.first(i, match)
        if match in ("pair", "reversed"):
            last = "" if len(around) == 1 else f"the {self.last} "
            return f"{plural(len(around), f'{self.other} interaction')} {where}, {last}{self.when(i, around[0])}"
        window, unit = re.search(r"(?:within|in the) ([\d.]+) (\w+?(?: unit)?)s? before", sentence).groups()
        longest = float(window) * {"time unit": 1, "day": 1, "hour": 1 / 24, "minute": 1 / 1440}[unit]
        inside = [j for j in around if abs(self.time[j] - self.time[i]) <= longest]
        noun = "interaction" if self.past_only else "other interaction"
        who = where.replace("from ", "").replace("to ", "") + (" made" if where.startswith("from") else " received")
        within, side = ("in the", "before") if self.past_only else ("within", "before or after")
        within = re.search(rf"{within} [\d.]+ \w+( units?)?", sentence)[0]
        told = f"{who} {plural(len(inside), noun)} {within} {side}"
        if not self.past_only or len(around) > 20:
            return told
        return f"{told} ({len(around)} in all, the first {self.when(i, around[-1])})"


def assert_said(line, wanted):
    """A sentence as it should be, or one of two that it may start with."""
    if isinstance(wanted, str):
        assert line["reason"] == wanted
    else:
        assert line["reason"].startswith(wanted)


def plural(n, noun):
    return f"{n} {noun}s" if n > 1 else f"{n or 'no'} {noun}"


def words_for(edges):
    features = PropagationFeatures(past_only=True).fit(edges)
    query = gather_evidence(features, edges)
    return Words(features, edges, query.evidence, query.at)


def everything(model, edges, **options):
    return model.explain(edges, top=1000, **options)


class TestSentencesAgreeWithLoops:
    @pytest.mark.parametrize("setting", SETTINGS)
    @pytest.mark.parametrize(("ids", "dated"), [("strings", True), ("ints", False), ("mixed", True)])
    def test_labels_counts_and_gaps(self, setting, ids, dated):
        edges = small(ids=ids, dated=dated)
        model, known = fitted(edges, setting), ~hidden_part(edges, setting)
        loops = Loops(edges, known, past_only=setting != "interpolate")
        seen = set()
        for line in everything(model, edges.with_label(None)).iter_rows(named=True):
            i, (match, kind) = line["edge"], line["what"].split()
            if kind == "rate":
                assert_said(line, loops.rate(i, match, "fraud", line["effect"]))
                assert set(line["neighbours"]) <= set(loops.labelled(i, match)[:50])
            elif kind == "known":
                assert line["reason"] in loops.known_labels(i, match)
                assert line["neighbours"] == loops.labelled(i, match)[:5]
            elif kind == "count":
                assert line["reason"] == loops.count(i, match, line["reason"])
                assert line["neighbours"] == loops.around(i, match)[: len(line["neighbours"])]
            elif kind == "gaps":
                assert line["reason"] == loops.gaps(i, match)
                assert line["neighbours"][:1] == loops.around(i, match)[:1]
            seen.add((match, kind))
        kinds = {kind for _, kind in seen}
        assert {"count", "gaps", "known", "partners", "rate"} <= kinds
        assert kinds <= {"agreement", "common", "count", "gaps", "known", "partners", "rate", "since"}
        assert len(seen) >= 24

    def test_ids_with_braces_and_quotes(self):
        said = " ".join(everything(fitted(small(), "interpolate"), small())["reason"])
        assert "from 'd{0}n'" in said
        assert 'to "o\'e"' in said

    def test_an_ids_type_is_seen(self):
        said = " ".join(everything(fitted(small(ids="mixed"), "interpolate"), small(ids="mixed"))["reason"])
        for words in ("from 'ann'", "from node 11", "from ('c', 1)", "from '7'", "from node 8"):
            assert f"{words} " in said

    def test_several_classes_explain_the_predicted_one(self):
        edges = small(classes=3)
        model = fitted(edges, "interpolate")
        loops = Loops(edges, ~hidden_part(edges, "interpolate"), past_only=False)
        table = everything(model, edges)
        assert set(table["class"]) == {"fine", "fraud", "spam"}
        assert table.unique("edge", maintain_order=True)["class"].to_list() == model.predict(edges).tolist()
        for line in table.filter(pl.col("what").str.ends_with("rate")).iter_rows(named=True):
            assert_said(line, loops.rate(line["edge"], line["what"].split()[0], line["class"], line["effect"]))

    @pytest.mark.parametrize("label", ["fine", "fraud"])
    def test_the_class_asked_for(self, label):
        edges = small()
        model = fitted(edges, "forecast")
        loops = Loops(edges, ~hidden_part(edges, "forecast"), past_only=True)
        table = everything(model, edges, positive=label)
        assert set(table["class"]) == {label}
        for line in table.filter(pl.col("what").str.ends_with("rate")).iter_rows(named=True):
            assert_said(line, loops.rate(line["edge"], line["what"].split()[0], label, line["effect"]))
        told = table.unique("edge", maintain_order=True)
        assert len(told) > 50, "of some nothing has an effect: their probability is cut"
        sign = 1 if label == "fraud" else -1
        np.testing.assert_allclose(told["score"], sign * model.decision_function(edges)[told["edge"].to_numpy()])

    def test_labels_known_late(self):
        edges = small()
        known_at = edges.time + np.random.default_rng(2).integers(0, 5, len(edges))
        model = PropagationClassifier(LogisticRegression(C=10, max_iter=5000)).fit(edges, label_time=known_at)
        late, at_once = (Loops(edges, np.ones(70, bool), True, when) for when in (known_at.tolist(), None))
        told = 0
        for line in everything(model, edges.with_label(None), positive="fraud").iter_rows(named=True):
            i, (match, kind) = line["edge"], line["what"].split()
            if kind == "rate" and late.labelled(i, match):
                wanted = late.rate(i, match, "fraud", line["effect"])
                assert_said(line, wanted)
                assert all(known_at[j] < edges.time[i] for j in line["neighbours"])
                told += wanted != at_once.rate(i, match, "fraud", line["effect"])
        assert told > 20

    @pytest.mark.parametrize("setting", SETTINGS)
    def test_numbers(self, setting):
        edges = small()
        number = np.random.default_rng(1).normal(5, 2, len(edges))
        known = ~hidden_part(edges, setting)
        model = PropagationRegressor(Ridge(0.01), setting=setting).fit(
            edges.with_label(np.where(known, number, np.nan))
        )
        loops = Loops(edges, known, past_only=setting != "interpolate")
        edges = edges.with_label(None)
        table = everything(model, edges)
        assert "class" not in table.columns
        score = table.unique("edge", maintain_order=True)["score"].to_numpy()
        np.testing.assert_allclose(score, model.predict(edges))
        told = 0
        for line in table.filter(pl.col("what").str.ends_with(" mean")).iter_rows(named=True):
            near = loops.labelled(line["edge"], line["what"].split()[0])
            if found := re.search(r" had (\S+)(?: on average)? \(all: (\S+)\)", line["reason"]):
                had, of_all = map(float, found.groups())
                wanted = next(n for n in (10, 50, *range(9, 0, -1)) if abs(number[near[:n]].mean() - had) < 2e-3)
                assert f" {min(wanted, len(near))} labelled" in line["reason"] or wanted == 1 or len(near) == 1
                assert of_all == pytest.approx(number[known].mean(), abs=2e-3)
                assert (had > of_all) == (line["effect"] > 0)
                assert line["reason"].endswith(loops.when(line["edge"], near[0]))
                told += 1
            elif near:
                assert re.match("the labels of interactions .* say little |\\d+ labelled interaction", line["reason"])
            else:
                assert line["reason"].startswith("no labelled interaction")
        assert told > 100

    @pytest.mark.parametrize("setting", SETTINGS)
    def test_features(self, setting):
        edges = small(features=True)
        model, past_only = fitted(edges, setting), setting != "interpolate"
        loops = Loops(edges, ~hidden_part(edges, setting), past_only)
        amount, codes = edges.features.T
        kind = [None if np.isnan(code) else edges.feature_categories["kind"][int(code)] for code in codes]
        table = everything(model, edges)
        assert {"src amount", "pair kind", "dst weight", "amount", "kind", "weight"} <= set(table["what"])
        assert {"src usual amount", "dst usual weight"} <= set(table["what"])
        seen = set()
        for line in table.iter_rows(named=True):
            i, words = line["edge"], line["what"].split()
            if words == ["amount"]:
                said = "is missing" if np.isnan(amount[i]) else f"is {show(amount[i])} (the median is "
                assert line["reason"].startswith(f"amount {said}")
            elif words == ["kind"]:
                assert line["reason"] == ("kind is missing" if kind[i] is None else f"kind is {kind[i]!r}")
            elif words[-1] in ("amount", "kind") and words[1] != "lately":
                values = (
                    amount if words[-1] == "amount" else np.array([np.nan if k is None else k for k in kind], object)
                )
                around = loops.around(i, words[0])
                near = [j for j in around if values[j] == values[j]]
                mine = self.usual if words[1] == "usual" else self.of_amount if words[-1] == "amount" else self.of_kind
                if not around:
                    assert line["reason"] == loops.first(i, words[0])
                elif not near:
                    n = f"the {len(around)} {loops.other} interactions"
                    n = f"the only {loops.other} interaction" if len(around) == 1 else n
                    assert line["reason"] == f"{words[-1]} is missing in {n} {loops.where(i, words[0])}"
                else:
                    mine(loops, i, words[0], values, near, line)
                seen.update(
                    re.findall(
                        "times|only .* of|where about|unusual|usual among|than among all|as among all", line["reason"]
                    )
                )
        assert len(seen) >= 5

    @staticmethod
    def span(loops, i, some):
        longest = max(abs(loops.time[j] - loops.time[i]) for j in some)
        words = plural(longest, "time unit")
        return (f" in the last {words}" if loops.past_only else f" within {words}") if longest else ""

    def usual(self, loops, i, match, amount, near, line):
        about = f"about {show(np.median(amount[near[:10]]))} is the usual amount {loops.where(i, match)}"
        assert line["reason"].startswith(f"{about}{self.span(loops, i, near[:10])} (the median of all is ")
        assert line["neighbours"] == near[:5]

    def of_amount(self, loops, i, match, amount, near, line):
        where, mine = loops.where(i, match), amount[i]
        if np.isnan(mine):
            assert line["reason"] == f"amount is missing, unlike {where}"
            return
        if ", where about" in line["reason"]:
            usual = np.median(amount[near[:10]])
            said = f"amount is {show(mine)}, where about {show(usual)} is usual {where}{self.span(loops, i, near[:10])}"
            assert line["reason"] == said
            return
        how, usual = re.match(r"amount is (.*) what is usual .* against about (\S+)\)", line["reason"]).groups()
        usual = float(usual.replace(",", ""))
        medians = [np.median(amount[near[:n]]) for n in range(1, len(near) + 1)]
        assert any(median == pytest.approx(usual, rel=1e-3) for median in medians)
        assert where in line["reason"]
        assert (mine > usual) == (line["effect"] > 0)
        assert ("above" in how) <= (mine > usual)
        assert ("below" in how) <= (mine < usual)
        if found := re.match(r"([0-9.,]+) times", how):
            assert float(found[1].replace(",", "")) == pytest.approx(mine / usual, rel=0.05)
        if found := re.match(r"only ([0-9.]+)% of", how):
            assert float(found[1]) == pytest.approx(100 * mine / usual, abs=0.5)

    @staticmethod
    def of_kind(loops, i, match, kind, near, line):
        where, mine = loops.where(i, match), kind[i]
        if mine != mine:
            assert line["reason"] == f"kind is missing, unlike {where}"
            return
        alike, n = sum(kind[j] == mine for j in near[:10]), min(10, len(near))
        many = "the only" if len(near) == 1 else f"the {f'{loops.last} ' if len(near) > 10 else ''}{n}"
        said = f"{alike or 'none'} of {many}" if n > 1 else "that of the only" if alike else "not that of the only"
        if line["effect"] > 0 and alike <= n / 4:
            assert line["reason"] == f"kind {mine!r} is unusual among interactions {where}: {said}"
        elif line["effect"] < 0 and alike >= n / 2:
            assert line["reason"] == f"kind {mine!r} is usual among interactions {where}: {said}"
        else:
            # as many as of all, rounded to whole interactions, is as common, which is no reason
            given = [value for value in kind if value == value]
            of_all = sum(value == mine for value in given) / len(given)
            if n == 1:
                alone = f"{'as' if alike else 'unlike'} in {many} interaction {where}"
                assert line["reason"] == f"kind is {mine!r}, {alone} ({of_all:.0%} of all)"
            else:
                more = alike - of_all * n
                assert abs(more) >= 0.5
                beside = f"among interactions {where} than among all: {said} against {of_all:.0%}"
                assert line["reason"] == f"kind {mine!r} is {'more' if more > 0 else 'less'} common {beside}"
        assert line["neighbours"] == near[:5]

    def test_how_far_above(self):
        n = 200
        amount = np.resize([35.0, 40.0, 45.0], n)
        amount[-3:] = 41, -900, 950
        edges = TemporalEdges(["ann"] * n, ["bob"] * n, range(n), label=np.arange(n) % 2, features={"amount": amount})
        model = PropagationClassifier(LogisticRegression(max_iter=5000), setting="stream").fit(edges)
        said = [self.both_ways(model, edges[[row]]) for row in (-3, -2, -1)]
        usual, span = show(np.median(amount[-11:-1])), "in the last 10 time units"
        assert said[2] == (
            f"amount is far above what is usual from 'ann' {span} (950 against about {usual})",
            f"amount is 950, where about {usual} is usual from 'ann' {span}",
        )
        assert said[1][1].startswith(f"amount is far below what is usual from 'ann' {span} (-900 against about ")
        assert said[1][0].startswith("amount is -900, where about ")
        assert said[0][0] == said[0][1] == f"amount is 41, where about 40 is usual from 'ann' {span}"

    @staticmethod
    def both_ways(model, edge):
        """What is said of the amount where that raises, and where it lowers the score of a class."""
        tables = [everything(model, edge, positive=label).filter(pl.col("what") == "src amount") for label in (0, 1)]
        raises, lowers = sorted(tables, key=lambda table: -table["effect"].item())
        return raises["reason"].item(), lowers["reason"].item()

    @pytest.mark.parametrize(
        ("mine", "how"),
        [
            (210, "5.2 times"),
            (80, "2 times"),
            (79, "above"),
            (8000, "200 times"),
            (19, "only 48% of"),
            (0.2, "only 0.5% of"),
        ],
    )
    def test_how_many_times(self, mine, how):
        amount = np.r_[np.tile([30.0, 40.0, 50.0], 40), mine]
        n = len(amount)
        edges = TemporalEdges(["ann"] * n, ["bob"] * n, range(n), label=np.arange(n) % 2, features={"amount": amount})
        model = PropagationClassifier(LogisticRegression(max_iter=5000), setting="stream").fit(edges)
        comparing, plain = self.both_ways(model, edges[-1:])[:: 1 if mine > 40 else -1]
        span = "in the last 10 time units"
        assert comparing == f"amount is {how} what is usual from 'ann' {span} ({mine:,} against about 40)"
        assert plain == f"amount is {mine:,}, where about 40 is usual from 'ann' {span}"

    def test_the_calendar(self):
        time = np.datetime64("2024-01-01T00:30", "s") + np.arange(100) * np.timedelta64(5, "h")  # a Monday
        edges = TemporalEdges(["ann"] * 100, ["bob"] * 100, time, label=np.arange(100) % 2)
        model = PropagationClassifier(LogisticRegression(max_iter=5000), setting="stream", calendar=True).fit(edges)
        said = dict(everything(model, edges[[97]])["what", "reason"].iter_rows())
        assert (said["hour of day"], said["day of week"]) == ("it happened at 05:30 UTC", "it happened on a Sunday")

    def test_a_window_is_as_long_as_it_says(self):
        """2.54 days are said as 2.5 days, so that what is 60 hours away is inside, and what is 60.5 away is not."""
        hours = np.r_[0, 39.5, 40, np.linspace(0, 99, 40), 100]
        time = np.datetime64("2024-01-01", "s") + (hours * 3600).astype("timedelta64[s]")
        src = [*["ann"] * 3, *["bob"] * 40, "ann"]
        edges = TemporalEdges(src, range(44), time, label=[0, 1] * 22)
        model = PropagationClassifier(LogisticRegression(), setting="stream", scales=["61h"]).fit(edges)
        table = everything(model, edges[-1:]).filter(pl.col("what") == "src count")
        assert table["reason"].item() == (
            "'ann' made 1 interaction in the 2.5 days before (3 in all, the first 4.2 days before)"
        )
        assert table["neighbours"].item().to_list() == [2]

    def test_features_of_fitted_and_new_edges_asked_for_together(self):
        edges = small(features=True)
        model = PropagationClassifier(LogisticRegression(max_iter=5000), setting="forecast").fit(edges[:50])
        told = everything(model, edges[40:]).filter(pl.col("what") == "weight")
        assert set(told["edge"]) == set(range(30))
        for i, reason in told["edge", "reason"].iter_rows():
            assert reason.startswith(f"weight is {show(edges.weight[40 + i])} (")

    def test_one_time_for_all(self):
        edges = small()
        tied = TemporalEdges(edges.src, edges.dst, np.zeros(70), label=edges.label)
        table = everything(fitted(tied, "interpolate"), tied)
        table = table.filter(pl.col("what") == "src count")
        assert len(table) > 10
        for line in table.iter_rows(named=True):
            n = (edges.src == line["src"]).sum() - 1
            assert line["reason"] == f"{line['src']!r} made {n} other interactions before or after"

    def test_a_table_that_holds_an_edge_twice(self):
        edges = small()
        rows = np.r_[np.arange(70), 3, 3]
        model = fitted(edges, "interpolate").fit(edges[rows])
        seen = everything(model, edges[[3]])["neighbours"].explode().drop_nulls()
        assert len(seen)
        assert not set(seen) & {3, 70, 71}


def show(x):
    return f"{x:,.0f}" if abs(x) >= 1000 else f"{x:.4g}"


class TestEffects:
    def test_groups_are_the_columns_of_their_name(self):
        edges = small(features=True, classes=3)
        for setting in SETTINGS:
            features = fitted(edges, setting).features_
            names = [column.name for column in features.plan_.columns]
            groups = reasons._groups(features)
            assert sorted(k for group in groups for k in group.columns) == list(range(len(names)))
            for group in groups:
                kind = {
                    "rate": r"(rate|partners-(?:residual|trusted|reputed))\[\w+\]@.*|trust\[\w+\]",
                    "known": "known@.*",
                    "partners": r"partners(-reputation)?\[\w+\]@.*",
                    "count": "count@.*",
                    "gaps": "before|after",
                    "since": r"(recency|since)(\[\w+\])?",
                    "feature": rf"(deviation|score|ratio|share)\[{group.feature}\]@.*|unusual\[{group.feature}\]",
                    "lately": rf"lately\[{group.feature}\]@.*",
                    "usual": rf"mean\[{group.feature}\]@.*",
                    "own": rf"{group.feature}(=.*)?",
                    "agreement": r"agreement[a-z-]*\[\w+\]",
                    "common": "common",
                }[group.kind]
                pattern = f"{group.match}:({kind})" if group.match else kind
                assert all(re.fullmatch(pattern, names[k]) for k in group.columns), group
                every = [k for k, name in enumerate(names) if re.fullmatch(pattern, name)]
                assert every == group.columns

    @pytest.mark.parametrize("setting", SETTINGS)
    def test_is_the_score_less_that_without_the_group(self, setting):
        edges = small(features=True)
        hidden = hidden_part(edges, setting)
        model = PropagationClassifier(setting=setting, random_state=0).fit(hide(edges, hidden))
        columns = model._columns(edges[hidden], None)[2]
        table = everything(model, edges[hidden], positive="fraud")
        names = [column.name for column in model.features_.plan_.columns]
        codes = np.where(model.edges_.labelled, 0, -1)
        windows = training_windows(setting, edges.ticks, codes, np.array([len(edges)])).windows
        rows = [np.flatnonzero(window.inside(edges.ticks, codes)) for window in windows]
        typical = np.median(model._training_columns(windows, rows)[1], axis=0)
        np.testing.assert_allclose(model.typical_, typical, rtol=1e-6, atol=1e-8)  # of columns in single precision
        checked = 0
        for line in table.filter(pl.col("what").is_in(["dst rate", "src amount"])).iter_rows(named=True):
            wanted = (
                "dst:(rate|partners-(residual|trusted|reputed))@.*|dst:trust"
                if line["what"] == "dst rate"
                else r"src:(?!mean|lately)\w+\[amount\](@.*)?"
            )
            group = [k for k, name in enumerate(names) if re.fullmatch(wanted, name)]
            changed = columns[[line["edge"]]].copy()
            changed[:, group] = typical[group]
            before, after = (model._answer(c)[0] for c in (columns[[line["edge"]]], changed))
            assert line["score"] == pytest.approx(before[1] - before[0])
            assert line["effect"] == pytest.approx((before[1] - before[0]) - (after[1] - after[0]))
            checked += 1
        assert checked > 10

    def test_of_several_classes_is_of_the_odds(self):
        edges = small(classes=3)
        model = fitted(edges, "interpolate")
        probability = model.predict_proba(edges).max(axis=1)
        score = everything(model, edges).unique("edge", maintain_order=True)["score"].to_numpy()
        np.testing.assert_allclose(score, np.log(probability / (1 - probability)))
        columns = model._columns(edges, None)[2]
        names = [column.name for column in model.features_.plan_.columns]
        group = [
            k
            for k, name in enumerate(names)
            if re.match("dst:(rate|trust|partners-re[sp].*ed|partners-(residual|trusted))", name)
        ]
        columns[:, group] = model.typical_[group]
        changed = softmax(model._answer(columns), axis=1)
        table = everything(model, edges).filter(pl.col("what") == "dst rate")
        assert len(table) > 50
        for line in table.iter_rows(named=True):
            p = changed[line["edge"], model.classes_.tolist().index(line["class"])]
            assert line["effect"] == pytest.approx(line["score"] - np.log(p / (1 - p)), abs=1e-6)

    @pytest.mark.parametrize("setting", SETTINGS)
    def test_has_the_right_sign(self, setting):
        edges = planted()
        hidden = np.random.default_rng(1).random(1500) < 0.3 if setting == "interpolate" else edges.time > 80
        model = PropagationClassifier(setting=setting, random_state=0).fit(hide(edges, hidden))
        bad = model.explain(edges[hidden & (edges.dst == "bad")], top=1)
        assert len(bad) > 50
        assert (bad["what"] == "dst rate").mean() > 0.8
        assert (bad["effect"] > 0).all()
        against = model.explain(edges[hidden & (edges.dst == "bad")], top=1, positive="fine")
        np.testing.assert_allclose(against["effect"], -bad["effect"])
        every = everything(model, edges[hidden & (edges.dst != "bad")]).filter(pl.col("what") == "dst rate")
        assert every["effect"].quantile(0.95) < bad["effect"].quantile(0.05)

    def test_the_influential_labels_come_first(self):
        """Fraud is rare: one such label tells more than several others, unless it is long ago."""
        n = 400
        label = np.array(["fine"] * n, object)
        label[[395, 300]] = "fraud"
        label[-1] = None
        edges = TemporalEdges(["ann"] * n, [f"x{k}" for k in range(n)], range(n), label=label)
        sentence, behind = words_for(edges).labels(n - 1, "src", 1, raises=True)
        assert sentence.startswith("1 of the last 10 labelled interactions from 'ann' were fraud (0.5% of all)")
        assert behind == [395, 398, 397, 396, 394]
        sentence, behind = words_for(edges).labels(n - 1, "src", 1, raises=False)
        assert sentence == "none of the last 3 labelled interactions from 'ann' were fraud, the last 1 time unit before"
        assert behind == [398, 397, 396]

    def test_labels_long_ago_come_last(self):
        rng = np.random.default_rng(0)
        label = np.where(rng.random(300) < 0.3, "fraud", "fine").astype(object)
        label[[0, 297, 298, 299]] = "fraud", "fine", "fine", None
        src = np.full(300, "bob", object)
        src[[0, 297, 298, 299]] = "ann"
        edges = TemporalEdges(src.tolist(), list(range(300)), range(300), label=label.tolist())
        assert words_for(edges).labels(299, "src", 1, raises=True)[1] == [298, 297, 0]

    def test_ranks_by_size(self):
        edges = small()
        table = fitted(edges, "interpolate").explain(edges, top=4)
        for _, part in table.group_by("edge"):
            assert part["rank"].to_list() == list(range(1, len(part) + 1))
            size = part["effect"].abs().to_list()
            assert size == sorted(size, reverse=True)
        largest = everything(fitted(edges, "interpolate"), edges).group_by("edge").agg(pl.col("effect").abs().max())
        assert table.filter(pl.col("rank") == 1)["effect"].abs().sort().equals(largest["effect"].sort())

    def test_the_same_words_stand_once_and_never_with_both_arrows(self):
        table = everything(fitted(small(features=True), "stream"), small(features=True))
        assert table.select("edge", "reason").is_duplicated().sum() == 0
        assert len(table.filter(pl.col("reason").str.starts_with("first interaction"))) > 10

    def test_what_has_no_effect_is_no_reason(self):
        edges = small()
        table = everything(PropagationClassifier(DummyClassifier()).fit(edges), edges)
        assert table.is_empty()
        assert table.columns[-2:] == ["reason", "neighbours"]

    def test_in_blocks(self, monkeypatch):
        edges = small(features=True)
        model = fitted(edges, "forecast")
        whole = model.explain(edges)
        monkeypatch.setattr(reasons, "ROWS_AT_ONCE", 70)
        parts = model.explain(edges)
        assert parts["reason"].equals(whole["reason"])
        np.testing.assert_allclose(parts["effect"], whole["effect"], atol=1e-12)


class TestNoLeak:
    @pytest.mark.parametrize("setting", SETTINGS)
    def test_the_own_label_is_never_used(self, setting):
        edges = planted(400)
        model = PropagationClassifier(setting=setting, random_state=0).fit(edges)
        other = ["fine" if label == "fraud" else "fraud" for label in edges.label]
        for i in (5, 200, 399):
            table = model.explain(edges[[i]], top=18)
            assert i not in table["neighbours"].explode().to_list()
            label = edges.label.copy()
            label[i] = other[i]
            assert model.explain(edges.with_label(label)[[i]], top=18).equals(table)

    @pytest.mark.parametrize("setting", ["forecast", "stream"])
    def test_nothing_later_is_seen(self, setting):
        edges = small()
        hidden = hidden_part(edges, setting)
        model = PropagationClassifier(LogisticRegression(C=10, max_iter=5000), setting=setting).fit(edges[~hidden])
        middle = edges.time[-1] - 1
        late = edges[hidden]
        table = everything(model, late)
        n_fitted = len(edges) - hidden.sum()
        both = np.r_[edges.time[~hidden], late.time]
        new = 0
        for line in table.iter_rows(named=True):
            assert all(both[j] < line["time"] for j in line["neighbours"])
            new += sum(j >= n_fitted for j in line["neighbours"])
        assert new > 20
        early = late.time <= middle
        assert 0 < early.sum() < len(late)
        alone = everything(model, late[early])
        with_later = table.filter(pl.col("time") <= middle)
        same = ["edge", "rank", "what", "reason", "neighbours"]
        assert with_later[same].equals(alone[same])
        np.testing.assert_allclose(with_later["effect"], alone["effect"], atol=1e-9)

    @pytest.mark.parametrize("setting", SETTINGS)
    def test_labels_of_edges_asked_for_count_only_in_a_stream_and_for_later_ones(self, setting):
        edges = small()
        hidden = hidden_part(edges, setting)
        model = PropagationClassifier(LogisticRegression(C=10, max_iter=5000), setting=setting).fit(edges[~hidden])
        asked = edges[hidden]
        changed = np.flatnonzero(asked.time == 7)[0]
        label = asked.label.copy()
        label[changed] = "fine" if label[changed] == "fraud" else "fraud"
        one, two = (everything(model, e).sort("edge", "what") for e in (asked, asked.with_label(label)))
        assert one["edge", "what"].equals(two["edge", "what"])
        differ = one.filter(one["reason"] != two["reason"])
        if setting == "stream":
            assert differ["time"].min() == 8
            assert set(differ["what"].str.split(" ").list.last()) <= {
                "rate", "known", "partners", "agreement", "common", "since",
            }  # fmt: skip
            unlabelled = everything(model, asked.with_label(None))
            assert set(unlabelled["reason"]) != set(one["reason"])
        else:
            assert differ.is_empty()

    def test_label_time_of_those_asked_for(self):
        edges = small()
        hidden = hidden_part(edges, "stream")
        model = PropagationClassifier(LogisticRegression(C=10, max_iter=5000), setting="stream").fit(edges[~hidden])
        asked = edges[hidden]
        never = everything(model, asked, label_time=np.full(len(asked), 100))
        assert never["reason"].equals(everything(model, asked.with_label(None))["reason"])
        assert not never["reason"].equals(everything(model, asked)["reason"])

    def test_neighbours_among_those_asked_for(self):
        fitted_on = small()
        model = PropagationClassifier(LogisticRegression(C=0.1, max_iter=5000), setting="forecast").fit(fitted_on)
        known = [fitted_on.src[69], fitted_on.dst[69], 8]
        asked = TemporalEdges(["new", known[0], "new"], ["bob", known[1], "bob"], [10, 8, 12])
        table = everything(model, asked).filter((pl.col("edge") == 2) & (pl.col("what") == "pair count"))
        assert table["reason"].item() == "1 earlier interaction from 'new' to 'bob', 2 time units before"
        assert table["neighbours"].item().to_list() == [70]
        asked = asked[[1, 0, 2]]
        table = everything(model, asked).filter((pl.col("edge") == 2) & (pl.col("what") == "pair count"))
        assert table["neighbours"].item().to_list() == [71]


class TestTable:
    def test_columns(self):
        edges = small(dated=True)
        table = fitted(edges, "stream").explain(edges[10:20])
        assert table.columns == [
            "edge", "src", "dst", "time", "class", "score", "rank", "what", "effect", "reason", "neighbours",
        ]  # fmt: skip
        assert table["src"].to_list() == edges.src[10 + table["edge"].to_numpy()].tolist()
        assert table["dst"].to_list() == edges.dst[10 + table["edge"].to_numpy()].tolist()
        assert table["time"].dtype == pl.Datetime("us")
        assert len(table) == 30

    @pytest.mark.parametrize("make", [PropagationClassifier, PropagationRegressor])
    def test_no_edges(self, make):
        edges = small(features=True, dated=True)
        edges = edges if make is PropagationClassifier else edges.with_label(np.arange(70.0))
        model = make(random_state=0).fit(edges)
        empty, some = model.explain(edges[:0]), model.explain(edges[:5])
        assert empty.is_empty()
        assert empty.schema == some.schema

    def test_an_array(self):
        rng = np.random.default_rng(0)
        X = np.column_stack([rng.integers(0, 5, (60, 2)), np.arange(60)])
        model = PropagationClassifier(random_state=0).fit(X, X[:, 1] % 2)
        assert model.explain(X[50:]).equals(model.explain(TemporalEdges(*X.T.astype(int))[50:]))

    def test_bipartite_nodes_of_one_id_are_two(self):
        edges = TemporalEdges([1, 2, 1, 2] * 10, [1, 1, 2, 2] * 10, range(40), label=[0, 1] * 20, bipartite=True)
        table = everything(PropagationClassifier(LogisticRegression(), setting="interpolate").fit(edges), edges)
        crossed = table.filter(pl.col("what").is_in(["src-dst count", "dst-src count", "reversed count"]))
        assert crossed["reason"].str.starts_with("no other interaction").all()

    def test_numeric_labels_are_classes(self):
        edges = small()
        table = everything(
            fitted(edges.with_label(edges.label), "stream").fit(edges, (edges.label == "fraud") * 1.0),
            edges.with_label(None),
        )
        said = table.filter(pl.col("what") == "src rate")["reason"]
        assert said.str.contains(r"labelled interactions? from \S+ (had|did not have) label 1, ").any()

    @pytest.mark.parametrize(("name", "said"), [(None, "label yes"), ("is_fraud", "is_fraud = yes")])
    def test_yes_and_no_are_named_by_their_column(self, tmp_path, name, said):
        edges = small()
        model = fitted(edges.with_label(np.where(edges.label == "fraud", "yes", "no")), "stream")
        if name is not None:
            model.label_name_ = name
        model.save(tmp_path / "model.tdlg")
        reasons = everything(load_model(tmp_path / "model.tdlg"), edges.with_label(None), positive="yes")["reason"]
        assert not reasons.str.contains("(was|were|was not) yes").any()
        assert reasons.str.contains(rf"\d of the \d+ labelled interactions .* had {said}( \(\d+% of all\))?, ").any()
        assert reasons.str.contains(f"labelled interaction from .* did not have {said}, ").any()

    def test_a_condition_is_named_as_it_is(self):
        edges = small()
        model = fitted(edges.with_label((edges.label == "fraud") * 1), "stream")
        model.label_name_ = "(stars > 3)"
        reasons = everything(model, edges.with_label(None), positive=1)["reason"]
        assert reasons.str.contains(r"labelled interactions .* had stars > 3( \(\d+% of all\))?, ").any()
        assert not reasons.str.contains(r"(stars > 3)", literal=True).any()

    @pytest.mark.parametrize("dated", [True, False])
    def test_saved_and_loaded(self, tmp_path, dated):
        edges = small(features=True, dated=dated)
        model = fitted(edges, "forecast")
        model.save(tmp_path / "model.tdlg")
        loaded = load_model(tmp_path / "model.tdlg")
        assert loaded.explain(edges).equals(model.explain(edges))
        asked = TemporalEdges(
            edges.src, edges.dst, edges.time, features={"amount": [1.0] * 70, "kind": ["wire"] * 70}, weight=[2.0] * 70
        )
        assert loaded.explain(asked).equals(model.explain(asked))
        assert node_scores(loaded, edges).equals(node_scores(model, edges))

    def test_other_categories_in_a_new_table(self):
        edges = small(features=True)
        model = fitted(edges, "forecast")
        asked = TemporalEdges(
            ["ann"] * 2,
            ["bob"] * 2,
            [20, 21],
            features={"amount": [1.0, 2.0], "kind": ["wire", "barter"]},
            weight=[1, 1],
        )
        table = everything(model, asked).filter(pl.col("what") == "src kind")
        assert "kind 'wire' is usual among interactions from 'ann': 6 of the last 10" in table["reason"][0]
        assert re.match(
            "kind 'barter' is (unusual .* none of the|new: no interaction that the model learnt from has it)",
            table["reason"][1],
        )

    @pytest.mark.parametrize("make", [PropagationClassifier, LineGraphClassifier])
    def test_some_rows_are_explained_as_they_were_scored(self, make):
        edges = small(140)
        model = make().fit(edges[:70])
        new = edges[70:].with_label(None)
        whole = model.explain(new, top=2)
        some = model.explain(new, top=2, rows=[40, 3])
        assert some["edge"].unique(maintain_order=True).to_list() == [40, 3]
        expected = pl.concat([whole.filter(pl.col("edge") == row) for row in (40, 3)])
        floats = [name for name, dtype in whole.schema.items() if dtype == pl.Float64]
        assert some.drop(floats).equals(expected.drop(floats))
        np.testing.assert_allclose(some[floats].to_numpy(), expected[floats].to_numpy(), atol=1e-9)

    def test_edges_asked_for_alone_may_see_less(self):
        edges = small(140)
        model = PropagationClassifier(LogisticRegression(max_iter=5000)).fit(edges[:70])
        new = edges[70:].with_label(None)
        alone, among = model.explain(new[[40]]), model.explain(new, rows=40)
        assert alone["score"][0] != among["score"][0]
        odds = model.decision_function(new)
        assert among["score"][0] == pytest.approx(odds[40])

    @pytest.mark.parametrize("rows", [70, -1, [0, 99], [0.5], ["a"], [[1]], [True]])
    @pytest.mark.parametrize("make", [PropagationClassifier, LineGraphClassifier])
    def test_bad_rows(self, make, rows):
        model = make().fit(small(70))
        with pytest.raises(ParameterError, match="'rows' must be positions of edges, whole numbers from 0 to 69"):
            model.explain(small(70), rows=rows)

    @pytest.mark.parametrize("make", [PropagationClassifier, LineGraphClassifier])
    def test_no_rows(self, make):
        assert make().fit(small(70)).explain(small(70), rows=[]).is_empty()

    @pytest.mark.parametrize("top", [0, -1, 2.5, "3", None, True])
    def test_bad_top(self, top):
        with pytest.raises(ParameterError, match=r"'top' parameter of explain .* Got "):
            fitted(small(), "stream").explain(small(), top=top)

    def test_bad_label_and_label_time(self):
        model = fitted(small(), "forecast")
        with pytest.raises(ParameterError, match=r"one of the classes \['fine', 'fraud'\]\. Got 'spam'"):
            model.explain(small(), positive="spam")
        with pytest.raises(ParameterError, match="used only in the setting 'stream'"):
            model.explain(small(), label_time=small().time)

    def test_not_fitted(self):
        for model in (PropagationClassifier(), PropagationRegressor(), LineGraphClassifier()):
            with pytest.raises(NotFittedError):
                model.explain(small())

    def test_later_edges_for_an_interpolating_model_warn_where_they_are_asked_for(self):
        model = fitted(small(), "interpolate")
        for ask in (model.explain, lambda edges: node_scores(model, edges)):
            with pytest.warns(UserWarning, match="setting='forecast'") as found:
                ask(TemporalEdges(["ann"], ["bob"], [50]))
            assert len(found) == 1
        with pytest.warns(UserWarning, match="setting='forecast'") as found:
            model.explain(TemporalEdges(["ann"], ["bob"], [50]))
        assert found[0].filename == __file__


def test_single_words():
    assert [label_in_words(x) for x in ("fraud", 1, 1.0, np.float64(0.5), True, np.int64(3))] == [
        "fraud", "1", "1", "0.5", "True", "3",
    ]  # fmt: skip
    assert [node_in_words(x) for x in ("a", np.int64(3), ("a", 1), np.str_("b"))] == [
        "'a'",
        "node 3",
        "('a', 1)",
        "'b'",
    ]


@pytest.fixture(scope="module")
def model():
    return PropagationClassifier(random_state=0).fit(planted())


class TestNodeScores:
    edges = planted()

    def test_finds_the_bad_node(self, model):
        table = node_scores(model, self.edges[1200:])
        assert table["node"][0] == "bad"
        assert table["role"][0] == "dst"
        assert table["score"][0] > 0.8 > 0.6 > table["score"][1]
        said = r"\d+ of the last 10 labelled interactions to 'bad' were fraud(?: \(26% of all\))?, the last .* before"
        assert re.fullmatch(said, table["reason"][0])

    def test_finds_bad_sources_among_many(self):
        rng = np.random.default_rng(0)
        src, dst = rng.integers(0, 300, (2, 8000))
        bad = [3, 77, 210]
        label = (np.isin(src, bad) & (rng.random(8000) < 0.8)).astype(int)
        edges = TemporalEdges(src, dst, np.sort(rng.uniform(0, 100, 8000)), label=label)
        model = PropagationClassifier(random_state=0).fit(edges)
        assert set(node_scores(model, edges[6000:])["node"][:3]) == set(bad)
        assert set(node_scores(model, edges[6000:], role="src")["node"][:3]) == set(bad)

    @pytest.mark.parametrize("role", ["both", "src", "dst"])
    def test_agrees_with_loops(self, role):
        edges = small()
        model = fitted(edges, "stream")
        p = model.predict_proba(edges)[:, model.classes_.tolist().index("fine")]
        table = node_scores(model, edges, positive="fine", role=role)
        ends = {"src": [edges.src], "dst": [edges.dst], "both": [edges.src, edges.dst]}[role]
        found = {}
        for node in {str(end) for column in ends for end in column}:
            mine = [i for i in range(70) if any(column[i] == node for column in ends)]
            as_src = role != "dst" and node in edges.src
            as_dst = role != "src" and node in edges.dst
            total = sum(p[i] for i in mine)
            worst = max(mine, key=lambda i: (p[i], -i))
            score = (total + 5 * p.mean()) / (len(mine) + 5)
            what = "both" if as_src and as_dst else "src" if as_src else "dst"
            found[node] = (what, len(mine), total, total / len(mine), p[worst], score, worst)
        assert len(table) == len(found) == 6
        assert table["score"].to_list() == sorted(table["score"], reverse=True)
        for node, what, n, total, mean, highest, score, _, worst in table.iter_rows():
            assert (what, n, worst) == (found[node][0], found[node][1], found[node][6])
            np.testing.assert_allclose([total, mean, highest, score], found[node][2:6])

    @pytest.mark.parametrize("role", ["both", "src", "dst"])
    def test_the_reason_is_the_one_that_most_of_the_riskiest_interactions_share(self, role):
        edges = small(features=True)
        model = fitted(edges, "stream")
        every = self.of_each_group(model, edges, "fraud").filter(pl.col("effect") > 0)
        every = every.sort("edge", -pl.col("effect"), maintain_order=True)
        risk = model.predict_proba(edges)[:, model.classes_.tolist().index("fraud")]
        not_of_the_riskiest = 0
        for node, reason, edge in node_scores(model, edges, "fraud", role)["node", "reason", "edge"].iter_rows():
            ends = [getattr(edges, end) for end in (("src", "dst") if role == "both" else (role,))]
            mine = [i for i in range(len(edges)) if any(column[i] == node for column in ends)]
            mine = sorted(mine, key=lambda i: (-risk[i], i))
            shared = {}
            for i in self.sampled(mine, risk - risk.min() + 1e-9):
                for line in every.filter(pl.col("edge") == i).head(3).iter_rows(named=True):
                    shared.setdefault(self.fact(edges, line), []).append((line["effect"], line["reason"]))
            most = max(shared.values(), key=lambda found: (len(found), sum(effect for effect, _ in found)))
            assert reason == most[0][1]
            not_of_the_riskiest += reason != every.filter(pl.col("edge") == edge)["reason"][0]
        assert not_of_the_riskiest

    @staticmethod
    def of_each_group(model, edges, positive):
        """One row per group, also where two say the same."""
        found = reasons._Explained.of(model, model.scored(edges), np.arange(len(edges)), positive)
        lines = [
            (i, g.what, found.effects[i, k], found.reason(i, k)[0])
            for i in range(len(edges))
            for k, g in enumerate(found.groups)
        ]
        return pl.DataFrame(lines, schema=["edge", "what", "effect", "reason"], orient="row")

    @staticmethod
    def sampled(mine, risk):
        """Ten of the interactions, in proportion to their risk."""
        total = sum(risk[i] for i in mine)
        found, added_up = [], 0.0
        for i in mine:
            added_up += risk[i]
            while len(found) < 10 and (len(found) + 0.5) / 10 * total < added_up:
                found.append(i)
        return found

    @staticmethod
    def fact(edges, line):
        """What a reason is about: a group of columns, and the nodes or the category that it names."""
        match, i = line["what"].split()[0], line["edge"]
        if match == "kind":
            return line["reason"]
        if match in ("pair", "reversed"):
            return line["what"], edges.src[i], edges.dst[i]
        ends = {"src": edges.src, "src-dst": edges.src, "dst": edges.dst, "dst-src": edges.dst}
        return line["what"], ends[match][i] if match in ends else None

    def test_what_only_the_riskiest_have_is_not_the_reason(self):
        """Payments to a bad shop are risky because of the shop; the riskiest are also from the web, which most are not."""
        rng = np.random.default_rng(0)
        n = 4000
        shop, web = rng.integers(0, 30, n), rng.random(n) < 0.2
        fraud = rng.random(n) < np.where(shop == 0, 0.35, 0.01) + 0.6 * web
        edges = TemporalEdges(
            [f"payer {k}" for k in rng.integers(0, 400, n)],
            [f"shop {k}" for k in shop],
            np.arange(n),
            label=np.where(fraud, "fraud", "fine"),
            features={"channel": np.where(web, "web", "till")},
        )
        model, asked = PropagationClassifier(random_state=0).fit(edges[:3200]), edges[3200:]
        table = node_scores(model, asked, "fraud", "dst")
        riskiest = model.explain(asked, 4, rows=table["edge"][:1].to_numpy(), positive="fraud")
        assert table["node"][0] == "shop 0"
        assert "channel is 'web'" in riskiest["reason"].to_list()
        assert re.match(r"\d+ of the last 10 labelled interactions to 'shop 0' were fraud", table["reason"][0])

    def test_two_of_two_comes_before_five_of_five_hundred(self):
        n = np.array([2, 500, 20, 600])
        node, risk = np.repeat(np.arange(4), n), np.zeros(n.sum())
        for k, n_risky in enumerate([2, 5, 20, 0]):
            risk[np.flatnonzero(node == k)[:n_risky]] = 1.0
        score = nodes._summed(node, np.arange(len(node)), risk).score
        assert np.argsort(-score).tolist() == [2, 0, 1, 3]

    def test_the_rarer_word_by_default(self, model):
        default, told, other = (node_scores(model, self.edges[1200:], label) for label in (None, "fraud", "fine"))
        assert default.equals(told)
        assert other["node"][0] != "bad"
        assert other["expected"].sum() > default["expected"].sum()

    def test_of_classes_as_rare_the_last(self):
        edges = TemporalEdges(["a", "b"] * 20, ["x", "y"] * 20, range(40), label=["p", "q"] * 20)
        model = PropagationClassifier(random_state=0).fit(edges)
        assert node_scores(model, edges).equals(node_scores(model, edges, "q"))

    def test_several_classes(self):
        edges = small(classes=3)
        model = fitted(edges, "interpolate")
        table = node_scores(model, edges, "spam")
        spam = model.predict_proba(edges)[:, 2]
        np.testing.assert_allclose(table["highest"], spam[table["edge"]])
        assert "were fraud" not in " ".join(table["reason"])

    def test_a_node_of_two_kinds(self):
        edges = TemporalEdges([1, 2] * 30, [1, 1, 2] * 20, range(60), label=[0, 1, 1] * 20, bipartite=True)
        table = node_scores(PropagationClassifier(random_state=0).fit(edges), edges)
        assert sorted(table["node", "role", "n"].rows()) == [
            (1, "dst", 40),
            (1, "src", 30),
            (2, "dst", 20),
            (2, "src", 30),
        ]

    def test_a_regressor(self):
        edges = planted()
        number = np.where(edges.dst == "bad", 5.0, 1.0) + np.random.default_rng(0).normal(0, 0.1, 1500)
        model = PropagationRegressor(setting="stream", random_state=0).fit(edges, number)
        table = node_scores(model, edges.with_label(None)[1200:])
        assert table["node"][0] == "bad"
        assert table["mean"][0] == pytest.approx(5, abs=0.3)
        assert re.match(r"the last 10 labelled interactions to 'bad' had 5|the last 10 .* had 4\.9", table["reason"][0])
        with pytest.raises(ParameterError, match=r"this is a regressor\. Got 1\. Leave out positive="):
            node_scores(model, edges, positive=1)

    @pytest.mark.parametrize("label", ["fraud", "fine"])
    def test_the_rows_model(self, label):
        hidden = np.random.default_rng(1).random(1500) < 0.3
        model = LineGraphClassifier().fit(hide(self.edges, hidden))
        table = node_scores(model, self.edges[hidden], label)
        assert (table["node"][0] == "bad") == (label == "fraud")
        asked = self.edges[hidden]
        said = r"near the interaction from '(user \d+)' to '(\w+)', .* time units (before|after), labelled (\w+)"
        for node, reason, edge in table["node", "reason", "edge"].head(2).iter_rows():
            src, dst, _, of = re.fullmatch(said, reason).groups()
            assert of == label
            assert src == asked.src[edge] or dst == asked.dst[edge]
            same = self.edges[(self.edges.src == src) & (self.edges.dst == dst)]
            assert any(time_in_words(time - asked.time[edge], None) in reason for time in same.time)
            assert node in (asked.src[edge], asked.dst[edge])

    def test_the_rows_model_of_several_classes_and_dates(self):
        edges = small(classes=3, dated=True)
        hidden = hidden_part(edges, "interpolate")
        model, asked = LineGraphClassifier().fit(hide(edges, hidden)), edges[hidden]
        for label in model.classes_:
            table = node_scores(model, asked, label)
            assert table["reason"].str.contains(r"days? (before|after)|at the same time").all()
            every = everything(model, asked, positive=label).filter(
                pl.col("what") == "interaction", pl.col("effect") > 0
            )
            for reason, edge in table["reason", "edge"].iter_rows():
                assert reason == every.filter(pl.col("edge") == edge)["reason"][0]

    def test_labels_known_late(self):
        edges = planted(400)
        asked, late = edges[200:], edges.time[200:] + 1000.0
        model = PropagationClassifier(setting="stream", random_state=0).fit(edges[:200])
        table = node_scores(model, asked, positive="fraud", label_time=late)
        unseen = node_scores(model, asked.with_label(None), positive="fraud")
        assert table["score"].to_numpy() == pytest.approx(unseen["score"].to_numpy())
        assert table["reason"].to_list() == unseen["reason"].to_list()
        assert table["score"].to_list() != node_scores(model, asked, positive="fraud")["score"].to_list()
        with pytest.raises(ParameterError, match="Leave out label_time="):
            node_scores(LineGraphClassifier().fit(edges), edges, label_time=late)

    def test_reasons_for_the_first_only(self, model, monkeypatch):
        whole = node_scores(model, self.edges[1200:])
        monkeypatch.setattr(nodes, "NODES_EXPLAINED", 2)
        some = node_scores(model, self.edges[1200:])
        assert some["reason"].to_list() == [*whole["reason"][:2], *[None] * (len(whole) - 2)]
        assert some.drop("reason").equals(whole.drop("reason"))

    def test_no_edges(self, model):
        empty = node_scores(model, self.edges[:0])
        assert empty.is_empty()
        assert empty.schema == node_scores(model, self.edges[:5]).schema

    def test_where_nothing_raised_it_there_is_no_reason(self):
        model = PropagationClassifier(DummyClassifier()).fit(self.edges)
        assert node_scores(model, self.edges[:10])["reason"].is_null().all()

    def test_bad(self, model):
        with pytest.raises(ParameterError, match=r"'model' parameter of node_scores .* Got LinkPredictor"):
            node_scores(LinkPredictor(), self.edges)
        with pytest.raises(ParameterError, match=r"'role' parameter of node_scores .* Got 'all'"):
            node_scores(model, self.edges, role="all")
        with pytest.raises(ParameterError, match=r"one of the classes .* Got 1"):
            node_scores(model, self.edges, positive=1)
        with pytest.raises(NotFittedError):
            node_scores(PropagationClassifier(), self.edges)
