"""No reason contradicts the direction of its effect, and the largest effect is always among the reasons shown."""

import re

import numpy as np
import polars as pl
import pytest

from tdlg import PropagationClassifier, PropagationRegressor, TemporalEdges, make_payments

CLAIMS = [  # a sentence, and what it says about the score: 1 if it raises, -1 if it lowers it
    (r"\S+ is (?:far above|above|[0-9.,]+ times) what is usual .*", 1),
    (r"\S+ is (?:far below|below|only .* of) what is usual .*", -1),
    (r"\S+ \S+ is unusual among interactions .*", 1),
    (r"\S+ \S+ is usual among interactions .*", -1),
    (r"the labels of interactions .* say little against .*", 1),
    (r"the labels of interactions .* say little for .*", -1),
]
SINCE = r"the last labelled interaction .* that (?:was|had) .* was .*, and (?:no|[\d,]+) interactions? came after it"
NEUTRAL = [  # sentences that state facts without comparing them
    r"no labelled interaction .*",
    r"(?:\d+|more than 50) labelled interactions? (?:from|to|of) .*",
    r"(?:more|less) is known than is typical about interactions .*: (?:\d+ labels?|more than 50 labels), .*",
    r"(?:first|the only|no earlier|no other) interaction .*",
    r"[\d,]+ (?:earlier|other) interactions? .*",
    r".* (?:made|received) (?:no|[\d,]+) (?:other )?interactions?(?: in the| within| before).*",
    r"the last interaction .* was .*",
    r"another interaction .* is at the same time",
    r"the (?:nearest interaction|interactions) .* (?:is|are) .*",
    r"\S+ is \S+, where about \S+ is usual .*",
    r"\S+ \S+ is (?:more|less) common among .* than among all: (?:none|\d+) of the .* against .*",
    r"\S+ \S+ is new: no interaction that the model learnt from has it",
    r"\S+ is \S+, (?:as|unlike) in the (?:only|last|nearest) .* \(\S+ of all\)",
    r"about \S+ is the usual \S+ .* \(the median of all is \S+\)",
    r"(?:(?:none|\d+) of the|the (?:only|last|nearest)) .* (?:had|did not have) an? \S+ .*what was usual then",
    r"so far no labelled interaction .* (?:was|had) .*",
    SINCE,
    r"\S+ is missing.*",
    r"it happened (?:at \d\d:\d\d UTC|on a \w+day)",
    r"\S+ is \S+(?: \(the median is \S+\))?",
]
LABELS = r"(none|\d+) of the (?:last |nearest )?(\d+) labelled interactions (.*)"
ONE_LABEL = (
    r"the (?:only|last|nearest) labelled interaction (.*) (was not|did not have|was|had) (?:\S+|\S+ = \S+|label \S+)"
)
NUMBERS = r"the .*labelled interactions? (.*) had (\S+)(?: on average)? \(all: (\S+)\).*"


def claim(reason, base):
    """What a sentence says about the score, read from its numbers: 1, -1, or 0 if it says nothing."""
    assert "none of the only" not in reason
    if found := re.fullmatch(LABELS, reason):
        share = (0 if found[1] == "none" else int(found[1])) / int(found[2])
        return int(np.sign(share - base))
    if found := re.fullmatch(NUMBERS, reason):
        had, usual = (float(text.replace(",", "")) for text in (found[2], found[3]))
        return int(np.sign(had - usual))
    if (found := re.match(ONE_LABEL, reason)) and not re.fullmatch(SINCE, reason):
        return -1 if "not" in found[2] else 1
    for pattern, direction in CLAIMS:
        if re.fullmatch(pattern, reason):
            return direction
    assert any(re.fullmatch(pattern, reason) for pattern in NEUTRAL), reason
    return 0


def check(model, asked):
    """Every reason agrees with its direction, and for the riskiest edges the largest of all effects has a sentence."""
    scored = model.scored(asked)
    shown = model.explain(scored)
    riskiest = shown.sort("score", descending=True)["edge"].unique(maintain_order=True)[:200]
    everything = model.explain(scored, top=1000, rows=riskiest.to_numpy())
    rates = {} if "class" not in shown.columns else rates_of(model)
    for line in pl.concat([shown, everything]).iter_rows(named=True):
        assert line["reason"]
        said = claim(line["reason"], rates.get(line.get("class")))
        assert said in (0, np.sign(line["effect"])), (line["what"], line["effect"], line["reason"])
        if "say little" in line["reason"]:
            assert is_weaker(model, scored, line), line["reason"]
    largest = everything.group_by("edge").agg(pl.col("effect").abs().max())
    most = shown.group_by("edge").agg(pl.col("effect").abs().max().alias("shown"))
    both = largest.join(most, "edge")
    assert (both["effect"] - both["shown"] < 1e-9).sum() >= 0.95 * len(riskiest)


def is_weaker(model, scored, line):
    """Whether the rate that the model sees is nearer to the average than a typical rate, on the side of the effect."""
    match, names = line["what"].split()[0], [column.name for column in model.features_.plan_.columns]
    at = [
        k
        for k, name in enumerate(names)
        if re.match(rf"{match}:(rate|mean)(\[{re.escape(str(line.get('class')))}\])?@", name)
    ]
    first_of_two = "class" in line and len(model.classes_) == 2 and line["class"] == model.classes_[0]
    sign = -1 if first_of_two else 1
    return sign * (scored.columns[line["edge"], at] - model.typical_[at]).mean() * line["effect"] > 0


def rates_of(model):
    known = model.labels_[model.edges_.with_label(model.labels_).labelled]
    return {label: np.mean(known == label) for label in model.classes_.tolist()}


def few_rows():
    """A small table, in which trees learn much noise."""
    rng = np.random.default_rng(0)
    n = 1500
    src, dst = rng.integers(0, 150, n), rng.integers(0, 20, n)
    late = rng.random(n) < np.where(dst < 2, 0.5, 0.05)
    return TemporalEdges(
        [f"customer {k}" for k in src],
        [f"shop {k}" for k in dst],
        np.datetime64("2025-01-01", "s") + np.sort(rng.integers(0, 90 * 86400, n)),
        label=np.where(late, "late", "fine"),
        features={"amount": rng.lognormal(3, 1, n), "kind": rng.choice(["card", "cash", "wire"], n, p=[0.7, 0.2, 0.1])},
    )


@pytest.mark.usefixtures("few_trees_here")
@pytest.mark.parametrize("setting", ["interpolate", "forecast", "stream"])
def test_few_rows(setting):
    edges = few_rows()
    model = PropagationClassifier(setting=setting, random_state=0).fit(edges[:1200])
    check(model, edges[1000:1200] if setting == "interpolate" else edges[1200:].with_label(None))


@pytest.mark.usefixtures("few_trees_here")
def test_numbers():
    edges = few_rows()
    number = (edges.label == "late") + np.random.default_rng(1).random(len(edges))
    model = PropagationRegressor(setting="stream", random_state=0).fit(edges[:1200], number[:1200])
    check(model, edges[1200:].with_label(None))


@pytest.mark.usefixtures("few_trees_here")
def test_several_classes():
    edges = few_rows()
    label = np.where(np.arange(len(edges)) % 7 == 0, "lost", edges.label)
    model = PropagationClassifier(setting="stream", random_state=0).fit(edges[:1200], label[:1200])
    check(model, edges[1200:].with_label(None))


@pytest.mark.needs("time")
def test_payments():
    """The model of README."""
    edges = make_payments(random_state=2).known_at("2025-06-01")
    model = PropagationClassifier(setting="forecast", random_state=0).fit(edges)
    check(model, edges[~edges.labelled])


@pytest.mark.needs("time")
def test_payments_with_categories():
    payments, rng = make_payments(random_state=3), np.random.default_rng(0)
    edges, fraud = payments.edges, payments.scenario > 0
    kinds, n = ["web", "till", "phone", "gambling"], len(edges)
    of_fraud, of_fine = (rng.choice(kinds, n, p=p) for p in ([0.5, 0.1, 0.1, 0.3], [0.2, 0.6, 0.15, 0.05]))
    edges = TemporalEdges(
        edges.src,
        edges.dst,
        edges.time,
        label=np.where(fraud, "yes", "no"),
        features={"amount": edges.features[:, 0], "category": np.where(fraud, of_fraud, of_fine)},
        bipartite=True,
    )
    model = PropagationClassifier(setting="stream", random_state=0).fit(edges[:7000])
    check(model, edges[7000:])
