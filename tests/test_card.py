"""The model card: its slices are what a plain loop finds, and it says the same as data, as JSON and as a page."""

import json
import re

import numpy as np
import pytest
from sklearn.metrics import average_precision_score, roc_auc_score
from typer.testing import CliRunner

from tdlg import BurstDetector, LineGraphClassifier, PropagationClassifier, PropagationRegressor, TemporalEdges
from tdlg.cli import app
from tdlg.exceptions import ParameterError
from tdlg.judge.holdout import hold_out
from tdlg.report import ModelCard, build_report
from tdlg.report.model import page_model
from test_report import HOSTILE, ratings

pytestmark = pytest.mark.usefixtures("few_trees")

DAY = 86_400


def shops(n=900, **more):
    """Payments of a year with a category that matters; some nodes come late, and a tenth of the labels is missing."""
    rng = np.random.default_rng(0)
    time = np.datetime64("2025-01-01", "s") + np.sort(rng.integers(0, 365 * DAY, n))
    src = np.minimum(rng.integers(0, 60, n), np.arange(n) // 12)
    kind = rng.choice(["food", "games", HOSTILE], n, p=[0.6, 0.3, 0.1])
    label = (rng.random(n) < np.where(kind == "games", 0.4, 0.05)).astype(int).astype(object)
    label[rng.random(n) < 0.1] = None
    features = {"kind": kind.tolist(), "amount": rng.random(n)}
    return TemporalEdges(src, 100 + rng.integers(0, 15, n), time, label=label.tolist(), features=features, **more)


@pytest.fixture(scope="module")
def model():
    return PropagationClassifier(random_state=0).fit(shops())


@pytest.fixture(scope="module")
def card(model):
    return model.card(label_name="fraud", alerts_per_day=0.2, evaluate="time")


def test_slices_are_what_a_plain_loop_finds(model, card):
    held = hold_out(model, model.edges_.with_label(model.labels_), "time", 0)
    edges, times = model.edges_, model.edges_.time.astype(np.int64)
    score = held.probability[:, held.classes.tolist().index(1)]
    days = (held.edges.time.max() - held.edges.time.min()) / np.timedelta64(1, "D")
    n_then = sum(held.edges.time.min() <= time <= held.edges.time.max() for time in model.edges_.time)
    k = min(round(0.05 * len(score)), round(0.2 * days * len(score) / n_then))
    assert n_then > len(score)  # some had no label
    alerts = set(sorted(range(len(score)), key=lambda at: (-score[at], at))[:k])
    slices = card.content["slices"]
    assert slices["k"] == k > 5
    rows = {(group["name"], row["name"]): row for group in slices["groups"] for row in group["rows"]}
    whole = rows["", "everything"]
    assert (whole["n"], whole["alerts"]) == (len(score), k)

    def expected(test):
        at = [j for j in range(len(score)) if test(held.positions[j])]
        truth = np.array([held.classes[held.truth[j]] for j in at]).astype(int)
        hits = sum(truth[i] for i, j in enumerate(at) if j in alerts)
        n_alerts = sum(j in alerts for j in at)
        return {
            "n": len(at), "positive": int(truth.sum()), "expected": pytest.approx(score[at].sum()),
            "auc": pytest.approx(roc_auc_score(truth, score[at])), "alerts": n_alerts,
            "average_precision": pytest.approx(average_precision_score(truth, score[at])),
            "precision": pytest.approx(hits / n_alerts) if n_alerts else None,
            "recall": pytest.approx(hits / truth.sum()),
        }  # fmt: skip

    words, column = edges.feature_categories["kind"], edges.features[:, edges.feature_names.index("kind")]
    for word in ("food", "games"):
        row = {**rows["kind", word]}
        assert row.pop("name") == word
        assert row == expected(lambda at, word=word: words[int(column[at])] == word)
    assert rows["kind", "games"]["positive"] > rows["kind", "food"]["positive"]

    def age(at):
        first = min(times[j] for j in range(len(edges)) if edges.src[at] in (edges.src[j], edges.dst[j]))
        return times[at] - first

    name = "Time since the first interaction of the source"
    ages = sorted(age(at) for at in held.positions if age(at) > 0)
    low, high = np.quantile(ages, [1 / 3, 2 / 3])
    first, middle, _ = (row for (group, part), row in rows.items() if group == name and part != "first interaction")
    assert first["n"] == sum(0 < a <= low for a in ages)
    assert {**middle, "name": ""} == {**expected(lambda at: low < age(at) <= high), "name": ""}
    assert sum(row["n"] for (group, _), row in rows.items() if group == name) == len(score)


def test_it_says_the_same_as_data_as_json_and_as_a_page(card, tmp_path):
    assert json.loads(card.save(tmp_path / "card.json").read_text(encoding="utf-8")) == card.content
    page = card.save(tmp_path / "card.HTML").read_text(encoding="utf-8")
    assert page == card.to_html()
    assert not re.search(r"<script|<img|\son\w+=|https?:", page)
    text = re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", page))
    content = card.content
    for words in (
        "PropagationClassifier for fraud = 1", f"Fitted on {content['data']['n_edges']:,} interactions",
        f"{content['quality']['auc'][0]:.3f}", f"Measured on the last {content['quality']['n']:,} labelled", "Calibration",
        "games", "over ", content["reproduce"]["data"],
    ):  # fmt: skip
        assert words in text, words
    assert all(limit in text for limit in content["limits"])
    assert repr(card) == f"ModelCard(PropagationClassifier for fraud = 1, 900 interactions, {content['data']['span']})"


def test_limits_are_those_of_the_data(model, card):
    said = " ".join(card.content["limits"])
    n_missing = int((~model.edges_.labelled).sum())
    assert f"{100 * n_missing / 900:.2g} % of the interactions have no label" in said
    assert "The figures are of one split" in said
    assert "chosen at random" not in said
    assert "chosen at random" in " ".join(model.card(evaluate="random").content["limits"])
    few = ModelCard(
        LineGraphClassifier().fit(TemporalEdges(list("abcd"), list("wxyz"), [1, 2, 3, 4], label=[0, 1, 0, None]))
    )
    assert few.content["slices"] is None
    assert few.content["limits"][-1] == "The quality is not known."
    assert "The quality could not be measured" in few.to_html()


def test_the_report_has_the_same_slices(model):
    said = page_model(model)
    assert said["slices"] == model.card().content["slices"]
    page = build_report(model)
    assert 'id="slices"' in page
    assert "Time since the first interaction of the source" in page
    assert HOSTILE not in page


def test_times_that_are_numbers_have_no_days():
    card = PropagationClassifier(random_state=0).fit(ratings()).card(alerts_per_day=1)
    slices = card.content["slices"]
    assert slices["k"] == round(0.05 * slices["groups"][0]["rows"][0]["n"])


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"evaluate": "never"}, "evaluate"),
        ({"alerts_per_day": 0}, "alerts_per_day"),
        ({"seed": -1}, "seed"),
        ({"positive": "x"}, "'x'"),
    ],
)
def test_mistakes_are_told(model, options, words):
    with pytest.raises(ParameterError, match=words):
        model.card(**options)


def test_other_models_and_names_are_refused(card, tmp_path):
    with pytest.raises(ParameterError, match=r"ends in \.html or \.json. Got .*card.txt"):
        card.save(tmp_path / "card.txt")
    with pytest.raises(ParameterError, match="Got BurstDetector"):
        ModelCard(BurstDetector().fit(ratings()))


class TestCommand:
    def run(self, *arguments):
        return CliRunner().invoke(app, ["card", *map(str, arguments)])

    def test_a_saved_model_has_the_card_of_the_model(self, model, tmp_path):
        model.save(tmp_path / "model.tdlg")
        result = self.run(tmp_path / "model.tdlg")
        assert result.exit_code == 0, result.output
        assert json.loads(result.stdout) == model.card().content
        result = self.run(tmp_path / "model.tdlg", "--report", tmp_path / "card.html")
        assert (tmp_path / "card.html").read_text(encoding="utf-8") == model.card().to_html()
        assert f"wrote the card of the model to {tmp_path / 'card.html'}" in result.stderr
        assert "limit: The figures are of one split" in result.stderr

    def test_mistakes_are_told(self, model, tmp_path):
        model.save(tmp_path / "model.tdlg")
        edges = ratings()
        PropagationRegressor(random_state=0).fit(edges, np.arange(len(edges)) % 7).save(tmp_path / "numbers.tdlg")
        assert "ends in .html or .json" in self.run(tmp_path / "model.tdlg", "--report", "card.pdf").stderr
        assert "about a classifier" in self.run(tmp_path / "numbers.tdlg").stderr
        assert self.run(tmp_path / "none.tdlg").exit_code
