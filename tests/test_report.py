"""The report: one page, honest figures, safe whatever the ids hold, and usable in a browser."""

import html
import itertools
import json
import os
import re
import time
from html.parser import HTMLParser
from importlib.resources import files
from types import SimpleNamespace

import numpy as np
import polars as pl
import pytest
from sklearn.metrics import average_precision_score, roc_auc_score

from tdlg import LineGraphClassifier, PropagationClassifier, PropagationRegressor, TemporalEdges
from tdlg.exceptions import EdgesError, ParameterError
from tdlg.judge.holdout import hold_out, judge
from tdlg.judge.metrics import calibration, class_metrics, rank
from tdlg.report import build_report, write_report
from tdlg.report.model import _how_far_off, _precision, _verdict
from tdlg.report.page import NAVIGATION
from tdlg.report.subject import last_labels, make_subject
from tdlg.report.text import Clock, as_json, figure, in_words, name_of, nice_step, percent, share
from tdlg.tables.text import count

pytestmark = pytest.mark.usefixtures("few_trees")

HOSTILE = "</script><script>alert(1)</script>"


def ratings(n=360, *, hidden="late", names="n{}", labels=("fine", "fraud"), seed=0, **more):
    """Edges in which some destinations are rated badly more often than others, with a tenth of the labels hidden."""
    rng = np.random.default_rng(seed)
    src, dst = rng.integers(0, 25, n), rng.integers(25, 50, n)
    time = more.pop("time", np.sort(rng.random(n)).round(4))
    code = (rng.random(n) < np.where(dst < 32, 0.8, 0.05)).astype(int)
    if len(labels) > 2:
        code = np.where(code, 1, rng.integers(0, len(labels), n))
    label = [labels[k] for k in code]
    for row in {"late": range(n - n // 10, n), "mixed": rng.choice(n, n // 10, replace=False), "none": []}[hidden]:
        label[row] = None
    ids = [[names.format(k) for k in ends] if names else ends for ends in (src, dst)]
    return TemporalEdges(*ids, time, label=label, **more)


@pytest.fixture(scope="module")
def page():
    """One page that many tests look at."""
    edges = ratings(names=HOSTILE + "{}")
    return build_report(PropagationClassifier(random_state=0), edges, title="A <b> & title", command='tdlg "<i>"')


class Reader(HTMLParser):
    """What a page holds: elements, their attributes, the text, and whether all that opens closes."""

    VOID = frozenset({"meta", "link", "input", "br", "line", "circle", "path", "rect"})

    def __init__(self, page):
        super().__init__()
        self.open, self.elements, self.texts = [], [], []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.texts.append((self.open[-1] if self.open else "", data))

    def all(self, tag):
        return [attrs for name, attrs in self.elements if name == tag]

    @property
    def text(self):
        return " ".join(data for tag, data in self.texts if tag not in ("script", "style"))


def data_of(page):
    return json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.S)[1])


# ---- what is on it


def test_every_part_is_there_and_all_elements_close(page):
    reader = Reader(page)
    assert not reader.open
    ids = [attrs["id"] for _, attrs in reader.elements if "id" in attrs]
    assert len(ids) == len(set(ids))
    assert reader.all("a")[0]["href"] == "#interactions" == f"#{NAVIGATION[0][0]}"  # what the title promises
    assert [attrs["id"] for attrs in reader.all("section")] == [key for key, _ in NAVIGATION]
    assert {attrs["href"] for attrs in reader.all("a")} == {f"#{key}" for key, _ in NAVIGATION}
    for words in (
        "Label rates",
        "AUC",
        "Precision in the top",
        "Precision and recall",
        "ROC curve",
        "To predict",
        "Reproduce this page",
        "setting",
        "forecast",
        "fraud",
        "Seed",
        "unlabelled",
    ):
        assert words in reader.text


def test_a_table_that_scrolls_can_be_reached_by_keyboard(page):
    scrolling = [attrs for attrs in Reader(page).all("div") if attrs.get("class") == "scroll"]
    assert len(scrolling) == 3
    for attrs in scrolling:
        assert (attrs["tabindex"], attrs["role"]) == ("0", "region")
        assert attrs["aria-labelledby"] in {heading["id"] for heading in Reader(page).all("h2")}


def test_the_size_of_an_effect_is_text():
    edges = ratings()
    model = PropagationClassifier(random_state=0).fit(edges)
    effect = model.explain(edges, 1, rows=359, positive="fraud")["effect"].item()
    (row,) = (row for row in rows_of(build_report(model, edges, evaluate=None)) if row["Row"] == "360")
    assert re.search(rf" {re.escape(f'{effect:+.2f}')}", row["Why"])


def test_user_text_is_shown_not_run(page):
    reader = Reader(page)
    assert len(reader.all("script")) == 2
    assert HOSTILE in reader.text
    assert "A <b> & title" in reader.text
    assert 'tdlg "<i>"' in reader.text
    assert not reader.all("i") or all("class" in attrs for attrs in reader.all("i"))
    assert any(name.startswith(HOSTILE) for name in data_of(page)["scores"]["src"])


def test_hostile_labels_features_and_weights():
    edges = ratings(
        labels=("fine", '"><img src=x onerror=alert(1)>'), features={"<u>amount": np.arange(360.0)}, weight=np.ones(360)
    )
    reader = Reader(build_report(PropagationClassifier(random_state=0), edges))
    assert not reader.all("img")
    assert not reader.all("u")
    assert "<u>amount" in reader.text
    assert '"><img src=x onerror=alert(1)>' in reader.text


def test_nothing_is_asked_of_the_network(page):
    reader = Reader(page)
    for _, attrs in reader.elements:
        for name in ("src", "href", "action", "data", "poster", "srcset"):
            assert attrs.get(name, "#").startswith(("#", "data:"))
    assert "url(" not in page
    assert "@import" not in page
    assert "//" not in re.sub(r"(?m)^\s*// .*$", "", page)
    policy = next(attrs["content"] for attrs in reader.all("meta") if attrs.get("http-equiv"))
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy


def test_the_same_seed_gives_the_same_page(page):
    edges = ratings(names=HOSTILE + "{}")
    given = {"title": "A <b> & title", "command": 'tdlg "<i>"'}
    assert build_report(PropagationClassifier(random_state=0), edges, **given) == page
    assert build_report(PropagationClassifier(random_state=0), edges, seed=1, **given) != page


def test_a_large_network_makes_a_small_page():
    rng = np.random.default_rng(0)
    n = 100_000
    label = (rng.random(n) < 0.05).astype(float)
    label[-20_000:] = np.nan
    names = np.array([f"an account with a rather long name, number {k}" for k in range(3000)])
    edges = TemporalEdges(names[rng.integers(0, 3000, n)], names[rng.integers(0, 3000, n)], np.arange(n), label=label)
    page = build_report(LineGraphClassifier(max_iter=3, tol=1e-1), edges, evaluate=None)
    assert len(page.encode()) < 2_000_000
    text = Reader(page).text
    assert "The table shows the first 200 of 20,000" in text


def test_a_long_id_is_cut():
    edges = ratings(names="x" * 10_000 + "{}")
    assert len(build_report(PropagationClassifier(random_state=0), edges, evaluate=None)) < 1_000_000


# ---- kinds of data and models


@pytest.mark.parametrize(
    ("model", "given"),
    [
        (LineGraphClassifier(), {"names": "", "labels": (0, 1)}),
        (LineGraphClassifier(), {"bipartite": True, "names": "", "labels": (0, 1)}),
        (PropagationClassifier(), {"bipartite": True, "names": "", "labels": (0, 1)}),
        (PropagationClassifier(), {"time": np.arange(360).astype("datetime64[h]"), "hidden": "mixed"}),
        (PropagationClassifier(), {"labels": ("a", "b", "c"), "hidden": "mixed"}),
    ],
    ids=["numbers", "rows-bipartite", "bipartite", "datetimes", "3 classes"],
)
def test_every_kind_of_edges(model, given):
    reader = Reader(build_report(model, ratings(**given)))
    assert not reader.open
    assert len(reader.all("section")) == len(NAVIGATION)
    assert len([attrs for attrs in reader.all("tr")]) > 30


def test_without_unlabelled_edges_held_out_ones_are_ranked():
    text = Reader(build_report(PropagationClassifier(random_state=0), ratings(hidden="none"))).text
    assert "there is nothing to predict" in text
    assert "To predict" not in text
    assert "✓" in text
    flattering = Reader(build_report(PropagationClassifier(random_state=0), ratings(hidden="none"), evaluate=None)).text
    assert "was shown these labels" in flattering


def test_new_edges_for_a_fitted_model():
    edges = ratings(hidden="none")
    model = PropagationClassifier(random_state=0).fit(edges[:300])
    text = Reader(build_report(model, edges[300:].with_label(None))).text
    assert "The interactions given" in text
    assert "300 other interactions" in text
    assert "AUC" in text


def test_the_model_alone_is_enough():
    edges = ratings()
    unlabelled = edges.with_label(None)
    model = PropagationClassifier(random_state=0).fit(edges)
    page = build_report(model, evaluate=None)
    assert page == build_report(model, edges, evaluate=None)
    assert page == build_report(PropagationClassifier(random_state=0), unlabelled, y=edges.label, evaluate=None)


def test_labels_that_become_known_later():
    edges = ratings(hidden="none")
    model = PropagationClassifier(random_state=0).fit(edges, label_time=edges.time + 0.01)
    text = Reader(build_report(model)).text
    assert "Each label became known after its interaction was scored" in text
    assert "the times at which labels became known are given" in text


def test_labels_that_become_known_later_when_looking_ahead():
    edges = ratings(hidden="none")
    model = PropagationClassifier(setting="forecast", random_state=0).fit(edges, label_time=edges.time + 0.01)
    held = hold_out(model, edges)
    assert held.model.label_ticks_ is not None
    assert held.scored.query.evidence.label_ticks is not None
    build_report(model, edges.with_label([*edges.label[:-9], *[None] * 9]), evaluate=None)


def test_all_at_one_time():
    edges = ratings(time=np.zeros(360), hidden="mixed")
    assert "happened at one time" in Reader(build_report(PropagationClassifier(random_state=0), edges)).text


@pytest.mark.filterwarnings("ignore:Only 1 of the")
def test_one_of_a_class_can_be_held_out():
    labels = ["fine"] * 59 + ["fraud"] + [None] * 10
    edges = TemporalEdges(np.arange(70) % 7, np.arange(70) % 5 + 7, np.arange(70), label=labels)
    text = Reader(build_report(PropagationClassifier(random_state=0), edges)).text
    assert "The quality could not be measured: " in text


def test_the_class_looked_for():
    edges = ratings(labels=(0, 1))
    model = PropagationClassifier(random_state=0).fit(edges)
    for given in (0, "0", 0.0):
        assert make_subject(model, edges, None, given, None, 0).wanted == "class 0"
    assert make_subject(model, edges, None, None, None, 0).wanted == "class 1"
    assert make_subject(model, edges, None, None, None, 0, "is_fraud").wanted == "is_fraud = 1"


def test_numbers_as_dates():
    edges = ratings(time=np.arange(360) * 3600 + 1_400_000_000)
    model = PropagationClassifier(random_state=0).fit(edges)
    assert "as seconds since 1970 they would be 2014-05-13 to 2014-05-28" in build_report(model, evaluate=None)
    assert "from 2014-05-13 to 2014-05-28" in build_report(model, time_unit="s", evaluate=None)


# ---- what the tables and the head of the page name


class Payments:
    """A page about payments with two features, ids and the name of the label."""

    edges = ratings(
        labels=(0, 1),
        hidden="mixed",
        time=np.datetime64("2025-10-03T16:35:37") + np.arange(360) * np.timedelta64(7, "h"),
        features={"amount <EUR>": np.arange(360) * 1.25, "channel": ["web", None, "shop"] * 120},
        weight=np.arange(360.0) ** 2,
    )
    ids = pl.Series("payment_id", [f"P{k:04}" for k in range(360)])

    @classmethod
    def page(cls, **given):
        return build_report(PropagationClassifier(random_state=0), cls.edges, evaluate=None, **given)


@pytest.fixture(scope="module")
def payments():
    return Payments.page(label_name="is_fraud", ids=Payments.ids)


def rows_of(page):
    """The first table's rows, each as the text of its cells by their heads."""
    body = page.partition('id="interactions-table"')[2].partition("</table>")[0]
    found = []
    for row in re.findall(r"<tr><td.*?</tr>", body, re.S):
        cells = re.findall(r'<td class="[^"]*" data-head="([^"]*)"[^>]*>(.*?)</td>', row, re.S)
        found.append({html.unescape(head): html.unescape(re.sub("<[^>]*>", "", text)) for head, text in cells})
    return found


def test_an_interaction_can_be_found_in_the_users_table(payments):
    rows, edges = rows_of(payments), Payments.edges
    assert len(rows) == 36
    assert list(rows[0])[:6] == ["Rank", "Row", "payment_id", "From", "To", "Time (UTC)"]
    for row in rows:
        at = int(row["Row"]) - 1  # as `tdlg explain --row` counts
        assert not edges.labelled[at]
        assert row["payment_id"] == Payments.ids[at]
        assert (row["From"], row["To"]) == (edges.src[at], edges.dst[at])
        assert row["Time (UTC)"] == str(edges.time[at]).replace("T", " ")


def test_features_are_columns(payments):
    for row in rows_of(payments):
        at = int(row["Row"]) - 1
        assert float(row["amount <EUR>"]) == at * 1.25
        assert float(row["weight"]) == at**2
        assert row["channel"] == ("web", "–", "shop")[at % 3]


def test_rows_of_a_part_are_those_of_the_whole_table():
    edges = ratings(hidden="none")
    model = PropagationClassifier(random_state=0).fit(edges[:300])
    rows = rows_of(build_report(model, edges[300:].with_label(None), evaluate=None))
    assert sorted(int(row["Row"]) for row in rows) == list(range(301, 361))


def test_held_out_rows_have_their_ids():
    edges = ratings(hidden="none")
    page = build_report(PropagationClassifier(random_state=0), edges, ids=[f"P{k}" for k in range(360)])
    rows = rows_of(page)
    assert len(rows) > 100
    for row in rows:
        at = int(row["Row"]) - 1
        assert row["Id"] == f"P{at}"
        assert row["Label"].removeprefix("✓ ") == edges.label[at]


def test_only_ids_that_are_shown_are_made_text():
    made = []

    class Id:
        def __str__(self):
            made.append(self)
            return "id"

    build_report(LineGraphClassifier(), ratings(), ids=[Id() for _ in range(360)], evaluate=None)
    assert len(made) == 36


def test_many_features_are_not_all_shown():
    edges = ratings(features={f"f{k}": np.arange(360.0) for k in range(20)}, weight=np.ones(360))
    page = build_report(LineGraphClassifier(), edges, evaluate=None)
    assert [head for head in rows_of(page)[0] if re.fullmatch(r"f\d+", head)] == [f"f{k}" for k in range(12)]
    assert "Not shown: 8 features and the weight." in Reader(page).text


def test_the_zone_is_told(payments, page):
    text = Reader(payments).text
    assert "from 2025-10-03 to 2026-01-16 (UTC)" in text
    assert "times with a zone were converted to UTC" in text
    assert "UTC" not in Reader(page).text  # times are plain numbers


def test_bars_of_labels_are_shares_of_all():
    labels = ["fine"] * 63 + ["fraud"] * 27 + [None] * 10
    edges = TemporalEdges(np.arange(100) % 7, np.arange(100) % 5 + 7, np.arange(100), label=labels)
    page = build_report(PropagationClassifier(random_state=0), edges, evaluate=None)
    bars = page.partition('<table class="labels">')[2].partition("</table>")[0]
    assert re.findall(r'<rect class="g\d" width="([\d.]+)"', bars) == ["27.00", "63.00", "10.00"]


# ---- warnings


def test_last_labels_of_one_class():
    rng = np.random.default_rng(0)
    codes, ticks = (rng.random(1000) < 0.1).astype(int), np.arange(1000)
    assert last_labels(ticks, codes) is None
    codes[-8:] = [-1, 1, 1, 1, -1, 1, 1, 1]
    codes[-9] = 0
    found = last_labels(ticks, codes)
    assert (found.code, found.n, found.start) == (1, 6, 993)
    assert found.share_before == pytest.approx(codes[:992].mean())
    shuffled = rng.permutation(1000)
    assert last_labels(ticks[shuffled], codes[shuffled]) == found
    codes[-200:] = 0  # a tenth is of the other class: two hundred without it are hardly chance, forty may be
    assert last_labels(ticks, codes) is not None
    assert last_labels(ticks[:-160], codes[:-160]) is None
    assert last_labels(ticks // 1000, codes) is None
    assert last_labels(ticks, np.full(1000, -1)) is None
    assert last_labels(ticks, np.zeros(1000, int)) is None


def late_labels():
    """Payments whose frauds become known at once, and whose good ones only after some time."""
    edges = ratings(n=600, hidden="none", time=np.arange(600))
    label = edges.label.copy()
    label[299] = "fine"
    known = (edges.time < 300) | ((edges.time < 400) & (label == "fraud"))
    return edges.with_label(np.where(known, label, None).tolist())


@pytest.mark.filterwarnings("ignore:None of the latest")
def test_latest_labels_of_one_class_are_warned_of():
    edges = late_labels()
    page = build_report(PropagationClassifier(random_state=0, setting="interpolate"), edges)
    text = Reader(page).text
    n = int(edges.labelled[300:].sum())
    assert re.search(rf"The last {n} labels, from 3\d\d on, are all fraud; of the earlier labels, \d+ % are", text)
    assert not re.search(r"100 % among the labelled", page)
    assert re.search(r"The last labels, from 3\d\d on, are left out too", text)
    assert "latest labels" not in Reader(build_report(PropagationClassifier(), ratings(), evaluate=None)).text


@pytest.mark.filterwarnings("ignore:None of the latest")
def test_a_quality_that_answers_another_question_is_warned_of():
    edges, model = late_labels(), PropagationClassifier(random_state=0, setting="interpolate")
    n_asked = int((~edges.labelled).sum())
    late = int((edges.time > edges.time[edges.labelled].max()).sum())
    said = f"{late} of the {n_asked} interactions to predict are later than every label"
    assert said in Reader(build_report(model, edges)).text
    assert said not in Reader(build_report(model, edges, evaluate="time")).text
    assert "another question" not in Reader(build_report(model, ratings(hidden="mixed"))).text


def test_the_quality_stands_beside_what_it_was_measured_on():
    text = Reader(build_report(PropagationClassifier(random_state=0), ratings(time=np.arange(360)))).text
    assert "held out: the last 30 % of the labels, 226 to 323" in text
    assert "Measured on the last 98 labelled interactions, 226 to 323" in text
    assert "The predictions above are for 36 other interactions, 324 to 359" in text


# ---- honest figures


def test_several_classes_have_the_headline_of_the_command_line():
    edges = ratings(labels=("a", "b", "c"), hidden="mixed")
    model = PropagationClassifier(random_state=0)
    subject = make_subject(model, edges, None, None, None, 0)
    held = hold_out(subject.model, subject.learnt)
    judged = judge(held, subject.positive)
    y = subject.learnt.label
    train = np.flatnonzero(held.model.edges_.with_label(held.model.labels_).labelled)
    wanted = class_metrics(y, train, held.edges.rows, held.probability)[:2]
    auc, precision = judged.headline["model"]
    assert (auc[0], precision[0]) == pytest.approx(wanted)
    assert auc[1] < auc[0] < auc[2]
    text = Reader(build_report(model, edges)).text
    assert f"AUC (mean of 3 classes) {auc[0]:.3f}" in re.sub(r"\s+", " ", text)
    assert "Average precision (mean of 3 classes)" in text
    assert f"AUC for {subject.wanted}" in text
    two = Reader(build_report(model, ratings(hidden="mixed"))).text
    assert "mean of" not in two


def subject_of(hidden, model=None):
    edges = ratings(hidden=hidden)
    return make_subject(model or PropagationClassifier(random_state=0), edges, None, None, None, 0)


@pytest.mark.parametrize(
    ("hidden", "evaluate", "how", "setting"),
    [
        ("late", "auto", "time", "forecast"),
        ("none", "auto", "time", "forecast"),
        ("mixed", "auto", "random", "interpolate"),
        ("mixed", "time", "time", "forecast"),
        ("late", "random", "random", "interpolate"),
    ],
)
def test_labels_are_held_out_as_suits_the_setting(hidden, evaluate, how, setting):
    subject = subject_of(hidden)
    held = hold_out(subject.model, subject.learnt, evaluate)
    assert held.how == how
    assert held.model.setting_ == setting


@pytest.mark.parametrize("evaluate", ["random", "time"])
@pytest.mark.parametrize(
    "model", [PropagationClassifier(random_state=0), LineGraphClassifier()], ids=["propagation", "rows"]
)
def test_held_out_labels_are_not_seen(model, evaluate):
    subject = subject_of("mixed", model)
    held = hold_out(subject.model, subject.learnt, evaluate)
    known = held.model.edges_.with_label(held.model.labels_).labelled
    rows = held.edges.rows
    assert not known[rows].any()
    assert known.sum() == held.n_train
    flipped = subject.learnt.label.copy()
    flipped[rows] = np.where(flipped[rows] == "fraud", "fine", "fraud")
    if evaluate == "time":  # the same split, whatever its labels say
        again = hold_out(subject.model, ratings(hidden="mixed").with_label(flipped.tolist()), evaluate)
        np.testing.assert_array_equal(again.probability, held.probability)


def test_areas_are_those_of_scikit_learn():
    rng = np.random.default_rng(0)
    is_it, scores = rng.random(500) < 0.2, rng.random(500).round(1)
    found = rank(is_it, scores)
    assert found.auc[0] == pytest.approx(roc_auc_score(is_it, scores))
    assert found.average_precision[0] == pytest.approx(average_precision_score(is_it, scores))
    assert found.auc[1] < found.auc[0] < found.auc[2]
    assert rank(np.ones(5, bool), np.arange(5.0)) is None


def test_the_verdict_compares_on_the_same_edges():
    """The scores of the reference are those of the model, a little worse: a small difference, and yet a sure one."""
    rng = np.random.default_rng(0)
    is_it = rng.random(800) < 0.2
    good = is_it + rng.normal(0, 1, 800)
    worse, alike = good + rng.normal(0, 0.3, 800), good + rng.normal(0, 0.01, 800)
    model, reference, same = (rank(is_it, scores) for scores in (good, worse, alike))
    assert model.auc[1] < reference.auc[0] < model.auc[2]

    def verdict(model, **references):
        named = {name.replace("_", " "): ranking for name, ranking in references.items()}
        return _verdict(SimpleNamespace(model=model, references=named))

    assert verdict(model, label_rates=reference) == {"reference": "label rates", "sign": 1}
    assert verdict(reference, label_rates=model) == {"reference": "label rates", "sign": -1}
    assert verdict(reference, label_rates=reference, windows=model) == {"reference": "windows", "sign": -1}
    assert verdict(model, label_rates=reference, windows=same) == {"reference": "windows", "sign": 0}


@pytest.mark.parametrize("factor", [1.0, 2.0, 0.5])
def test_the_model_of_the_page_has_how_far_off_probabilities_are(factor):
    rng = np.random.default_rng(0)
    true = rng.uniform(0, 0.4, 20_000)
    judged = SimpleNamespace(model=SimpleNamespace(scores=true * factor, is_positive=rng.random(20_000) < true))
    assert _how_far_off(judged) == (None if factor == 1 else pytest.approx(factor, rel=0.1))


def test_few_labels_say_nothing_about_probabilities():
    judged = SimpleNamespace(model=SimpleNamespace(scores=np.full(10, 0.2), is_positive=np.arange(10) < 1))
    assert _how_far_off(judged) is _how_far_off(None) is None


def test_calibration_of_true_probabilities():
    rng = np.random.default_rng(0)
    probability = rng.random(20_000)
    parts = calibration(rng.random(20_000) < probability, probability)
    assert len(parts) == 10
    assert sum(low <= mean <= high for mean, _, low, high, _ in parts) >= 8


def test_calibration_of_a_rare_class():
    """Of 1 % of the edges, half with high probabilities: these are in several groups, and all groups are as precise."""
    rng = np.random.default_rng(0)
    probability = np.where(rng.random(20_000) < 0.01, rng.uniform(0.2, 0.8, 20_000), rng.uniform(0, 0.01, 20_000))
    parts = calibration(rng.random(20_000) < probability, probability)
    assert len(parts) == 10
    assert sum(n for *_, n in parts) == 20_000
    assert sum(mean > 0.2 for mean, *_ in parts) >= 3
    assert [mean for mean, *_ in parts] == sorted(mean for mean, *_ in parts)
    assert all(5 <= n * mean * (1 - mean) <= 20 for mean, *_, n in parts)


@pytest.mark.parametrize("probability", [np.zeros(40), np.ones(40), np.full(3, 0.5), np.linspace(0, 1, 12)])
def test_calibration_of_few_or_sure(probability):
    parts = calibration(probability > 0.4, probability)
    assert 1 <= len(parts) <= 3
    assert sum(n for *_, n in parts) == len(probability)
    assert np.isfinite(parts).all()


def test_the_calibration_is_a_table_too(page):
    body = page.partition('id="calibration-table"')[2].partition("</details>")[0]
    heads = re.findall("<th scope=.col.>(.*?)</th>", body)
    assert heads == ["Mean predicted probability", "Observed share", "Interactions", "Positive"]
    rows = [
        re.findall(r'<td class="figure[^"]*">([^<]*)', row) for row in re.findall("<tr><th scope=.row.*?</tr>", body)
    ]
    assert len(rows) == page.count('class="whisker"') >= 3
    assert sum(int(row[1].replace(",", "")) for row in rows) > 50


def test_the_settings_say_what_was_sampled():
    model = PropagationClassifier(random_state=0).fit(Payments.edges)
    model.n_rows_sampled_from_ = 1_000
    assert "sampled from 1,000; rare classes were kept" in build_report(model, evaluate=None)


def test_a_long_precision_recall_curve_keeps_its_first_places():
    rng = np.random.default_rng(0)
    is_it = rng.random(4000) < 0.2
    ranking = rank(is_it, rng.random(4000) + is_it)
    x, y = _precision(ranking)
    assert len(x) <= 200 < len(ranking.precision_recall[0])
    assert (x[0], y[0]) == (0.0, ranking.precision_recall[1][0])
    assert x[-1] == 1.0


def test_an_edge_from_a_node_to_itself_counts_once_for_it():
    edges = ratings()
    src, dst = edges.src.astype(object), edges.dst.astype(object)
    src[:100] = dst[:100] = "loop"
    edges = TemporalEdges(src, dst, edges.time, label=edges.label)
    told = Reader(build_report(PropagationClassifier(random_state=0), edges, evaluate=None)).text
    assert re.search(r"loop\s+in 100 interactions", told)


# ---- the file


def test_the_file_is_written_whole_or_not_at_all(tmp_path, monkeypatch):
    path = tmp_path / "report.html"
    model = PropagationClassifier(random_state=0).fit(ratings())
    assert write_report(path, model, evaluate=None) == path
    assert path.read_text(encoding="utf-8") == build_report(model, evaluate=None)
    before = path.read_bytes()
    monkeypatch.setattr(os, "replace", lambda *_: (_ for _ in ()).throw(OSError("full")))
    with pytest.raises(OSError, match="full"):
        write_report(path, model, seed=1, evaluate=None)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_no_file_on_a_wrong_parameter(tmp_path):
    path = tmp_path / "report.html"
    with pytest.raises(ParameterError, match=r"must be one of the classes \['fine', 'fraud'\]"):
        write_report(path, PropagationClassifier(), ratings(), positive="x")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("given", "error", "words"),
    [
        ({"model": PropagationRegressor()}, ParameterError, "must be a PropagationClassifier or a LineGraphClassifier"),
        ({"edges": [[0, 1, 2]]}, EdgesError, "must be TemporalEdges. Got list"),
        ({"edges": None}, ParameterError, "'model' is not fitted, and no 'edges' are given"),
        ({"edges": TemporalEdges([], [], [])}, EdgesError, "no edges to report on"),
        ({"evaluate": "future"}, ParameterError, "'evaluate' .* Got 'future'"),
        ({"seed": -1}, ParameterError, "'seed' .* Got -1"),
        ({"ids": ["a"]}, ParameterError, "'ids' must have one value per edge: 360. Got 1"),
        (
            {"time_unit": "h"},
            ParameterError,
            r"'time_unit' parameter of write_report must be one of \['s', 'ms', 'us', 'ns'\]. Got 'h'",
        ),
    ],
)
def test_errors_name_the_way_out(given, error, words):
    call = {"model": PropagationClassifier(), "edges": ratings()} | given
    with pytest.raises(error, match=words):
        build_report(call.pop("model"), call.pop("edges"), **call)


def test_a_wrong_path(tmp_path):
    with pytest.raises(ParameterError, match="does not exist"):
        write_report(tmp_path / "missing" / "report.html", PropagationClassifier(), ratings())
    with pytest.raises(ParameterError, match="is a folder"):
        write_report(tmp_path, PropagationClassifier(), ratings())


# ---- words and colours


def test_words():
    assert count(1, "node") == "1 node"
    assert count(2000, "class") == "2,000 classes"
    assert (percent(0.5), percent(0.0512), percent(0.0), percent(float("nan"))) == ("50 %", "5.1 %", "0 %", "–")
    assert (share(0.5), share(0.0001), share(0.99999), share(1.0), share(0.0)) == (
        "0.500",
        "< 0.001",
        "> 0.999",
        "1",
        "0",
    )
    assert [figure(value) for value in (0.5, 0.9994, 0.9996, 0.99999, 1.0, float("nan"))] == [
        "0.500", "0.999", "0.9996", "over 0.9999", "1.000", "–",
    ]  # fmt: skip
    assert in_words(["a", "b", "c"]) == "a, b and c"
    assert (name_of(1.0), name_of(1.5), name_of(np.int64(3)), name_of("a\x00\u202eb")) == (
        "1",
        "1.5",
        "3",
        "a\\x00\\u202eb",
    )
    assert len(name_of("x" * 100)) == 80
    assert nice_step(1.0, 4) == 0.5
    assert "<" not in as_json(["</script>", "<!--"])
    assert "\u2028" not in as_json(["\u2028"])


@pytest.mark.parametrize(
    ("first", "last", "wanted"),
    [
        ("2010-11-08", "2016-01-22", ["2011", "2012", "2013", "2014", "2015", "2016"]),
        ("2020-01-15", "2020-06-15", ["2020-02", "2020-03", "2020-04", "2020-05", "2020-06"]),
        ("2020-01-01T09:30", "2020-01-01T12:30", ["01-01 10:00", "01-01 11:00", "01-01 12:00"]),
    ],
)
def test_dates_of_an_axis_are_round(first, last, wanted):
    ticks = np.array([first, last], "datetime64[s]").astype(np.int64)
    found = Clock("s", ticks).axis(*ticks.astype(float).tolist(), 6)
    assert [text for _, text in found] == wanted
    assert all(ticks[0] <= at <= ticks[1] for at, _ in found)


def test_times_are_as_precise_as_needed():
    def said(*times):
        ticks = np.array(times, "datetime64[ms]").astype(np.int64)
        return Clock("ms", ticks).texts(ticks)[0]

    assert said("2020-01-01") == "2020-01-01 UTC"
    assert said("2020-01-01", "2020-01-01T10:30") == "2020-01-01 00:00 UTC"
    assert said("2020-01-01", "2020-01-01T10:30:05.5") == "2020-01-01 00:00:00.000 UTC"
    assert Clock(None, np.arange(3)).texts([2]) == ["2"]


def colours(scheme):
    style = files("tdlg.report").joinpath("parts.css").read_text(encoding="utf-8")
    blocks = re.findall(r":root \{(.*?)\n *\}", style, re.S)
    found = dict(re.findall(r"--([\w]+): (#[0-9a-f]{6})", blocks[scheme == "dark"]))
    return {name: np.array([int(code[k : k + 2], 16) for k in (1, 3, 5)]) / 255 for name, code in found.items()}


def linear(rgb):
    return np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)


def contrast(one, other):
    low, high = sorted(float(linear(rgb) @ [0.2126, 0.7152, 0.0722]) for rgb in (one, other))
    return (high + 0.05) / (low + 0.05)


def lab(rgb):
    xyz = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]]) @ rgb
    f = np.cbrt(np.maximum(xyz / [0.9505, 1.0, 1.089], 0.008856))
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


BLIND = {  # Machado, Oliveira and Fernandes 2009, full severity
    "none": np.eye(3),
    "protan": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "deutan": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
    "tritan": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]],
}


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_can_be_read(scheme):
    found = colours(scheme)
    for ground in ("paper", "raised"):
        assert contrast(found["ink"], found[ground]) > 10
        for name in ("muted", "accent", "g1"):
            assert contrast(found[name], found[ground]) > 4.5
        for k in range(7):
            assert contrast(found[f"g{k}"], found[ground]) > 3


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("kind", BLIND)
def test_the_main_colours_differ_for_the_colour_blind(scheme, kind):
    found = colours(scheme)
    seen = {name: lab(np.clip(BLIND[kind] @ linear(found[name]), 0, 1)) for name in ("g0", "g1", "g2")}
    for one, other in itertools.combinations(seen, 2):
        assert np.linalg.norm(seen[one] - seen[other]) > 18, (one, other)


# ---- in a browser


@pytest.fixture(scope="module")
def file(page, tmp_path_factory):
    path = tmp_path_factory.mktemp("report") / "report.html"
    path.write_text(page, encoding="utf-8")
    return path


@pytest.mark.needs("chromium")
@pytest.mark.parametrize(
    ("width", "scheme"), [(1280, "light"), (1280, "dark"), (390, "light"), (320, "light"), (320, "dark")]
)
def test_it_renders_without_complaints(browser, file, width, scheme):
    browser.open(file, width=width, scheme=scheme)
    assert browser.run("document.documentElement.scrollWidth") <= width  # nothing hangs over the side
    assert browser.run("[...document.querySelectorAll('canvas')].every(c => c.width > 0)")
    ground = browser.run("getComputedStyle(document.body).backgroundColor")
    assert ground == ("rgb(20, 23, 26)" if scheme == "dark" else "rgb(253, 253, 251)")
    assert len(browser.screenshot()) > 10_000
    assert not browser.complaints()
    assert browser.requests() in ([file.as_uri()], [file.as_uri(), "data:,"])


@pytest.mark.needs("chromium", "axe")
@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (390, "dark")])
def test_no_serious_fault_of_accessibility(browser, file, width, scheme):
    browser.open(file, width=width, scheme=scheme)
    assert browser.faults() == []


@pytest.mark.needs("chromium")
def test_hostile_ids_do_not_run(browser, file):
    browser.open(file)
    assert browser.run("document.scripts.length") == 2
    assert browser.run("document.querySelector('#interactions-table .id').textContent").startswith(HOSTILE)
    assert "Page.javascriptDialogOpening" not in {event.get("method") for event in browser.events}


@pytest.mark.needs("chromium")
@pytest.mark.parametrize("width", [1280, 390])
def test_tables_are_tables_on_narrow_screens_too(browser, file, width):
    browser.open(file, width=width)
    parts = {"": "table", "tbody": "rowgroup", "tr": "row", "th": "columnheader", "td": "cell"}
    for tag, role in parts.items():
        found = browser.run(f"[...document.querySelectorAll('#interactions-table {tag}')].map(e => e.role)")
        assert set(found) == {role}


SHOWN = "[...document.querySelectorAll('#interactions-table tbody tr')].filter(r => !r.hidden)"


@pytest.mark.needs("chromium")
@pytest.mark.parametrize("width", [1600, 800])
def test_a_wide_table_stays_inside_its_column(browser, tmp_path, width):
    features = {f"a rather long name of a feature, number {k}": np.arange(360.0) for k in range(12)}
    page = tmp_path / "page.html"
    write_report(page, LineGraphClassifier(), ratings(names="x" * 60 + "{}", features=features), evaluate=None)
    browser.open(page, width=width)
    sides = "(({left, right}) => [left, right])(document.querySelector('%s').getBoundingClientRect())"
    table, column = browser.run(sides % "#interactions .scroll"), browser.run(sides % "#interactions p")
    section = browser.run(sides % "#interactions")
    assert table[0] == column[0] == section[0]
    assert table[1] <= section[1]
    assert browser.run("(s => s.scrollWidth > s.clientWidth)(document.querySelector('#interactions .scroll'))")
    assert browser.run("document.documentElement.scrollWidth") <= width
    browser.run("document.querySelector('#interactions .scroll').focus()")
    assert browser.run("document.activeElement.className") == "scroll"  # from there, arrow keys scroll it


@pytest.mark.needs("chromium")
def test_the_table_sorts(browser, file):
    browser.open(file)
    values = f"{SHOWN}.map(r => Number(r.querySelector('.score').dataset.value))"
    button = (
        "[...document.querySelectorAll('#interactions-table th button')].find(b => b.textContent === 'Probability')"
    )
    order = f"{button}.parentElement.getAttribute('aria-sort')"
    assert browser.run(values) == sorted(browser.run(values), reverse=True)
    assert browser.run("document.querySelectorAll('#interactions-table [aria-sort]').length") == 1
    browser.run(f"{button}.focus()")
    browser.press("Enter")
    assert browser.run(order) == "descending"
    browser.press("Enter")
    assert browser.run(order) == "ascending"
    assert browser.run(values) == sorted(browser.run(values))
    assert browser.run("document.querySelectorAll('#interactions-table [aria-sort]').length") == 1


@pytest.mark.needs("chromium")
def test_the_table_filters_and_unfolds(browser, file):
    browser.open(file)
    total = browser.run("document.querySelectorAll('#interactions-table tbody tr').length")
    assert total == 36
    assert browser.run(f"{SHOWN}.length") == 25
    first = browser.run("document.querySelector('#interactions-table .id').textContent")

    def search(words):
        setting = f"s.value = {json.dumps(words)}; s.dispatchEvent(new Event('input'))"
        browser.run(f"{{ const s = document.querySelector('[data-search=interactions]'); {setting} }}")

    search(first.upper())
    matching = browser.run(f"{SHOWN}.map(r => r.textContent)")
    assert matching
    assert len(matching) < total
    assert all(first in text for text in matching)
    assert browser.run("document.querySelector('[data-found=interactions]').textContent").endswith("of 36 rows")
    search("no such thing")
    assert browser.run(f"{SHOWN}.length") == 0
    search("")
    browser.run("document.querySelector('[data-more=interactions]').click()")
    assert browser.run(f"{SHOWN}.length") == total
    assert browser.run("document.querySelector('[data-more=interactions]').hidden")


@pytest.mark.needs("chromium")
def test_the_shown_table_is_downloaded(browser, tmp_path):
    names = 'an "odd", id {}'
    edges = ratings(names=names, features={"amount": np.r_[np.nan, np.arange(1.0, 360)]}, hidden="mixed")
    page = tmp_path / "page.html"
    write_report(page, PropagationClassifier(random_state=0), edges, evaluate=None)
    browser.open(page)
    browser.call("Page.setDownloadBehavior", behavior="allow", downloadPath=str(tmp_path))
    browser.run("[...document.querySelectorAll('th button')].find(b => b.textContent === 'amount').click()")
    button = "document.querySelector('[data-download=interactions]')"
    assert browser.run(f"{button}.textContent") == "Download 36 rows as CSV"
    browser.run(f"{button}.focus()")
    browser.press("Enter")
    for _ in range(200):
        if (tmp_path / "interactions.csv").exists():
            break
        time.sleep(0.05)
    table = pl.read_csv(tmp_path / "interactions.csv")
    assert table.columns == ["Rank", "Row", "From", "To", "Time", "Probability", "Why", "amount"]
    at = table["Row"].to_numpy() - 1
    assert sorted(at.tolist()) == np.flatnonzero(~edges.labelled).tolist()
    assert table["From"].to_list() == edges.src[at].tolist()
    assert table["amount"].to_list() == sorted(at.astype(float), reverse=True)
    assert table["Why"].str.contains("(raises|lowers) the probability: ").all()
    assert not browser.complaints()


@pytest.mark.needs("chromium")
def test_hovering_shows_an_edge(browser, file, page):
    browser.open(file)
    dots = data_of(page)["scores"]
    canvas = "document.querySelector('[data-scatter=scores] canvas')"
    browser.run(f"{canvas}.scrollIntoView({{ block: 'center' }})")
    box = browser.run(f"(({{x, y, width, height}}) => [x, y, width, height])({canvas}.getBoundingClientRect())")
    assert browser.run("document.getElementById('tip').hidden")
    left, right, top, bottom = 42, 14, 12, 30
    (x0, x1), (y0, y1) = dots["range"]
    x = box[0] + left + (dots["x"][0] - x0) / (x1 - x0) * (box[2] - left - right)
    y = box[1] + box[3] - bottom - (dots["y"][0] - y0) / (y1 - y0) * (box[3] - top - bottom)
    browser.move(x, y)
    assert not browser.run("document.getElementById('tip').hidden")
    said = browser.run("document.getElementById('tip').textContent")
    assert re.fullmatch(r".* → .*label: (fine|fraud)probability: .*", said)
    assert HOSTILE in said
    browser.move(2, 2)
    assert browser.run("document.getElementById('tip').hidden")


@pytest.mark.needs("chromium")
def test_dots_by_keyboard(browser, file):
    browser.open(file)
    canvas = "document.querySelector('[data-scatter=scores] canvas')"
    browser.run(f"{canvas}.focus()")
    said = set()
    for key in ("ArrowRight", "ArrowRight", "ArrowLeft", "ArrowLeft", "ArrowLeft"):
        browser.press(key)
        said.add(browser.run("document.getElementById('tip').textContent"))
    assert len(said) == 4  # first, second, the first again, the last two
    browser.press("Escape")
    assert browser.run("document.getElementById('tip').hidden")
    assert not browser.complaints()


@pytest.mark.needs("chromium")
@pytest.mark.parametrize("width", [320, 1280])
def test_charts_by_keyboard(browser, file, width):
    browser.open(file, width=width)
    charts = browser.run(
        "[...document.querySelectorAll('svg.chart')].filter(c => c.checkVisibility() && c.querySelector('[data-tip]'))"
        ".map(c => [c.getAttribute('role'), c.querySelectorAll('[data-tip]').length,"
        " c.querySelectorAll('[tabindex=\"0\"]').length])"
    )
    assert len(charts) == 3  # calibration, interactions over time, shares over time
    assert all(role == "group" and n > 5 and stops == 1 for role, n, stops in charts)
    browser.run("document.querySelector('.plates [data-tip]').focus()")
    tip = "document.getElementById('tip')"
    said = [browser.run(f"{tip}.textContent")]
    for key in ("ArrowRight", "ArrowLeft", "ArrowLeft"):
        browser.press(key)
        said.append(browser.run(f"{tip}.textContent"))
        assert browser.run("document.activeElement.getAttribute('aria-label').replace(': ', '')") == said[-1]
        assert browser.run("document.activeElement.getAttribute('role')") == "img"
    assert said[0] == said[2]
    assert len(set(said)) == 3  # first, second, the first again, the last
    box = browser.run(f"(({{left, right, top, bottom}}) => [left, right, top, bottom])({tip}.getBoundingClientRect())")
    assert 0 <= box[0] < box[1] <= width
    assert 0 <= box[2] < box[3] <= 900
    assert browser.run("document.querySelectorAll('.plates [tabindex=\"0\"]').length") == 1
    browser.press("Escape")
    assert browser.run(f"{tip}.hidden")
    browser.press("ArrowLeft")
    assert not browser.run(f"{tip}.hidden")
    browser.press("Tab")  # out of this chart
    assert not browser.run("document.querySelector('.plates').contains(document.activeElement)")
    assert browser.run(f"{tip}.hidden")
    assert not browser.complaints()


@pytest.mark.needs("chromium")
@pytest.mark.parametrize("width", [320, 1280])
def test_no_name_of_an_axis_lies_on_a_line(browser, file, width):
    browser.open(file, width=width)
    gaps = browser.run(
        "[...document.querySelectorAll('svg.chart')].filter(c => c.checkVisibility()).flatMap(c => {"
        " const lines = [...c.querySelectorAll('.grid')].map(line => line.getBoundingClientRect().y);"
        " const names = [...c.querySelectorAll('.name')].map(name => name.getBoundingClientRect());"
        " return names.map(box => lines.filter(y => box.top < y && y < box.bottom).length); })"
    )
    assert len(gaps) >= 7
    assert not any(gaps)
