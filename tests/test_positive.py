"""The positive class is the same wherever the package asks for it."""

import re

import numpy as np
import pytest
from typer.testing import CliRunner

from tdlg import LineGraphClassifier, PropagationClassifier, TemporalEdges, load_model
from tdlg.cli import app
from tdlg.exceptions import ParameterError
from tdlg.explain import node_scores
from tdlg.explain.positive import label_in_words, positive_class, positive_of
from tdlg.judge.methods import make_method
from tdlg.judge.metrics import class_metrics, precision_recall_at
from tdlg.judge.run import evaluate
from tdlg.judge.trials import EdgeClassification
from tdlg.report.subject import make_subject

pytestmark = pytest.mark.usefixtures("few_trees")


@pytest.mark.parametrize(
    ("labels", "positive"),
    [
        ([1] * 9 + [0], 1),
        ([1] + [0] * 9, 1),
        ([-1.0, 1.0, 1.0, np.nan], 1.0),
        ([3, 3, 7], 7),
        ([True, True, False], True),
        (["ok", "ok", "fraud"], "fraud"),
        (["ok", "fraud", "fraud"], "ok"),
        (["ok", "fraud"], "ok"),
        (["a", "b", "b", "c", "c"], "a"),
        (["a", "b", "b", "c"], "c"),
        ([1, 2, 2, 3, 3], 1),
        ([1, 2, 2, 3], 3),
    ],
)
def test_the_rule(labels, positive):
    labels = np.array(labels)
    classes = np.unique(labels[labels == labels])
    assert classes[positive_class(classes, labels)] == positive
    for k, value in enumerate(classes):
        assert positive_class(classes, labels, value) == positive_class(classes, labels, label_in_words(value)) == k
    with pytest.raises(ParameterError, match=r"The 'positive' class must be one of the classes .* Got 'other' instead"):
        positive_class(classes, labels, "other")


def test_what_the_shell_keeps_with_a_model_counts_until_another_class_is_given():
    edges = TemporalEdges(["a", "b"] * 20, ["x", "y"] * 20, range(40), label=[0, 1] * 20)
    model = LineGraphClassifier().fit(edges)
    assert positive_of(model) == 1
    model.positive_ = 0
    assert (positive_of(model), positive_of(model, 1)) == (0, 1)
    assert set(model.explain(edges[:3])["class"]) == {0}
    model.fit(edges.with_label(["p", "q"] * 20))  # which knows no class 0
    assert positive_of(model) == 1


def network(names):
    """Labels that depend on the destination: the k-th name has 10, 30 or 60 per cent of them."""
    rng = np.random.default_rng(0)
    dst = rng.integers(0, 10, 300)
    code = np.digitize(dst, [1] if len(names) == 2 else [1, 4])
    return TemporalEdges(rng.integers(0, 30, 300), dst, range(300), label=np.array(names)[code])


def shell(*arguments):
    result = CliRunner().invoke(app, [str(one) for one in arguments])
    assert result.exit_code == 0, result.output
    return result.stderr


NAMES = {
    "numbers, the smaller is rare": ([0, 1], 1),
    "words": (["fraud", "ok"], "fraud"),
    "three": (["a", "b", "c"], "a"),
}


@pytest.mark.parametrize("method", ["propagation", "linegraph"])
@pytest.mark.parametrize(("names", "positive"), NAMES.values(), ids=NAMES)
def test_shell_page_explain_nodes_and_evaluate_agree(tmp_path, names, positive, method):
    edges = network(names)
    kind = LineGraphClassifier if method == "linegraph" else PropagationClassifier
    model = kind(random_state=0).fit(edges)
    assert model.classes_[positive_of(model)] == positive
    assert make_subject(model, edges, None, None, None, 0).positive == positive_of(model)
    assert node_scores(model, edges).equals(node_scores(model, edges, positive))
    explained = model.explain(edges, 1, rows=range(20))
    of_class = [positive] * 20 if len(names) == 2 else model.predict(edges[:20]).tolist()
    assert explained["class"].to_list() == [of_class[row] for row in explained["edge"]]

    task = EdgeClassification(edges)
    trial = task.draw(0)
    (test,) = trial.tests.values()
    rates = make_method("label-rates", random_state=0)
    rates.fit(trial.seen())
    scores = rates.decision_function(trial.edges[test])
    place = names.index(positive)
    of_positive = scores[:, place] if scores.ndim == 2 else scores * (1 if place else -1)
    wanted = precision_recall_at(trial.y[test] == positive, of_positive, 100)
    assert class_metrics(trial.y, trial.train, test, scores)[2:] == wanted
    assert evaluate("label-rates", task, trials=1)["alert_precision", "alert_recall"].row(0) == wanted

    table, saved, page = tmp_path / "table.csv", tmp_path / "m.tdlg", tmp_path / "page.html"
    lines = [f"{s},{d},{t},{y}" for s, d, t, y in zip(edges.src, edges.dst, edges.time, edges.label, strict=True)]
    table.write_text("\n".join(["src,dst,time,label", *lines]))
    options = ["--method", method, "--evaluate", "random", "--save", saved, "--report", page]
    said = shell("classify", table, "--label", "label", *options)
    assert f"precision in the top 10 for {positive!r}" in re.sub(r"the top \d+", "the top 10", said)
    assert f'This page predicts <b class="value">label = {positive}</b>' in page.read_text()
    assert f"positive class: {positive!r}\n" in shell("nodes", saved, table)
    of = f"class {positive!r}" if len(names) == 2 else "the predicted class"
    label = f"label = {positive}" if len(names) == 2 else of
    assert f'"probability" is the probability of {label}\n' in shell("score", saved, table)
    assert f"explained: the score of {of}\n" in shell("explain", saved, table, "--row", 1)
    loaded = load_model(saved)
    assert loaded.classes_[positive_of(loaded)] == positive
