"""update: what came since fit is known. The oracle is the model that is asked for everything at once."""

from copy import deepcopy

import numpy as np
import pytest

from live_payments import EDGES, LABEL_TIME, N_FITTED, OPTIONS, N, classifier
from tdlg import PropagationClassifier, PropagationRegressor, TemporalEdges, load_model
from tdlg.exceptions import EdgesError, ParameterError, TdlgWarning
from tdlg.sampling.index import joined_edges

pytestmark = pytest.mark.usefixtures("few_trees")

MIDDLE = 700


def apart(edges):
    """The same edges as a table of their own."""
    late = edges.label_time
    return TemporalEdges(
        edges.src, edges.dst, edges.time, label=edges.label, label_time=late,
        features={"amount": edges.features[:, 0]}, bipartite=True,
    )  # fmt: skip


@pytest.fixture
def model():
    return deepcopy(classifier())


def labelled(rows):
    return EDGES[rows].with_label(EDGES.label[rows], LABEL_TIME[rows])


def asked_at_once():
    """The probabilities of the last edges, from the model that sees all edges after the fitted ones together."""
    return classifier().predict_proba(labelled(slice(N_FITTED, N)))[MIDDLE - N_FITTED :]


@pytest.mark.parametrize("table", [lambda edges: edges, apart])
@pytest.mark.parametrize("step", [50, 200])
def test_what_came_since_fit_is_known(model, tmp_path, table, step):
    for start in range(N_FITTED, MIDDLE, step):
        model.update(table(labelled(slice(start, start + step))))
    last = table(labelled(slice(MIDDLE, N)))
    np.testing.assert_array_equal(model.predict_proba(last), asked_at_once())
    assert len(model.edges_) == MIDDLE
    model.save(tmp_path / "model.tdlg")
    np.testing.assert_array_equal(load_model(tmp_path / "model.tdlg").predict_proba(last), asked_at_once())


def test_labels_may_come_later_and_may_change(model):
    edges = apart(labelled(slice(N_FITTED, MIDDLE)))
    model.update(edges.with_label(None))
    assert not model.features_.labelled_[N_FITTED:].any()
    model.update(edges, 1 - edges.label, label_time=edges.label_time)
    assert len(model.edges_) == MIDDLE, "the same edges again"
    model.update(edges)
    np.testing.assert_array_equal(model.predict_proba(apart(labelled(slice(MIDDLE, N)))), asked_at_once())


def test_more_copies_than_are_known_are_new_edges():
    edges = TemporalEdges(["a", "b"] * 50, ["x", "y"] * 50, np.repeat(np.arange(50), 2), label=[0, 1] * 50)
    model = PropagationClassifier(**OPTIONS).fit(edges)
    model.update(TemporalEdges(["a"] * 3, ["x"] * 3, [49] * 3))
    assert len(model.edges_) == 102
    model.update(TemporalEdges(["a"] * 3, ["x"] * 3, [49] * 3))
    assert len(model.edges_) == 102


def test_labels_at_once_and_late_labels_together():
    edges = TemporalEdges(["a", "b"] * 50, ["x", "y"] * 50, range(100), label=[0, 1] * 50)
    model = PropagationClassifier(**OPTIONS).fit(edges[:80])
    assert model.label_ticks_ is None
    model.update(edges[80:90], label_time=np.arange(80, 90) + 5)
    assert model.label_ticks_.tolist() == [*range(80), *range(85, 95)]
    model.update(edges[90:])
    assert model.label_ticks_.tolist()[-10:] == [*range(90, 100)]


def test_the_delay_of_fit_holds_for_updates():
    edges = TemporalEdges(["a", "b"] * 50, ["x", "y"] * 50, range(100), label=[0, 1] * 50)
    model = PropagationClassifier(**OPTIONS).fit(edges[:80], label_delay=7)
    model.update(edges[80:])
    assert model.label_ticks_.tolist() == [*range(7, 107)]


def test_features_weights_and_words_as_labels():
    first = TemporalEdges(
        ["a", "b"],
        ["b", "c"],
        [0, 1],
        label=["yes", None],
        weight=[1, 2],
        features={"x": [1.0, np.nan], "k": ["u", None]},
    )
    more = TemporalEdges(["d"], ["a"], [5.5], weight=[3], features={"x": [2.0], "k": ["v"]})
    both = joined_edges(first, more)
    assert both.src.tolist() == ["a", "b", "d"]
    assert both.time.tolist() == [0.0, 1.0, 5.5]
    assert both.label.tolist() == ["yes", None, None]
    assert both.weight.tolist() == [1, 2, 3]
    assert both.feature_categories == {"k": ("u", "v")}
    np.testing.assert_array_equal(both.features, [[1.0, 0.0], [np.nan, np.nan], [2.0, 1.0]])


def test_copies_of_an_edge_stay_one_edge():
    edges = TemporalEdges(["a", "b"], ["x", "y"], [0, 1], label=[0, 1])
    both = joined_edges(edges[[0, 0, 1]], edges[1:].with_label(None))
    assert len(both) == 4
    assert both.rows[0] == both.rows[1] != both.rows[2]
    assert both.label.tolist()[:3] == [0, 0, 1]


def test_what_cannot_be_updated_is_refused(model):
    edges = TemporalEdges(["a", "b"] * 50, ["x", "y"] * 50, range(100), label=[0, 1] * 50)
    other = PropagationClassifier(setting="forecast", random_state=0).fit(edges)
    with pytest.raises(ParameterError, match="stream"):
        other.update(edges)
    before = model.edges_
    with pytest.raises(EdgesError, match="'amount'"):
        model.update(TemporalEdges(["a"], ["b"], [np.datetime64("2025-07-01")], bipartite=True))
    with pytest.raises(EdgesError, match="label 5"):
        model.update(EDGES[N_FITTED:].with_label(np.full(N - N_FITTED, 5)))
    assert model.edges_ is before


def test_a_regressor_is_updated_too():
    number = EDGES.features[:, 0]
    edges = EDGES.with_label(number)
    model = PropagationRegressor(**OPTIONS).fit(edges[:N_FITTED])
    want = model.predict(edges[N_FITTED:])[MIDDLE - N_FITTED :]
    np.testing.assert_array_equal(model.update(edges[N_FITTED:MIDDLE]).predict(edges[MIDDLE:]), want)


# ---- what is missing


def test_a_gap_is_reported(model):
    with pytest.warns(TdlgWarning, match=r"begin \d+ days after the last edge that the model knows.*update\(\)"):
        model.predict_proba(EDGES[MIDDLE:].with_label(None))
    model.update(EDGES[N_FITTED:MIDDLE].with_label(None))
    model.predict_proba(EDGES[MIDDLE:].with_label(None))


@pytest.mark.parametrize("first", [50, 60, 1000])
def test_a_usual_pause_is_no_gap(first, recwarn):
    time = np.r_[np.arange(40), 60 + np.arange(20)]  # with a pause of 20
    edges = TemporalEdges(["a", "b"] * 30, ["x", "y"] * 30, time, label=[0, 1] * 30)
    model = PropagationClassifier(**OPTIONS).fit(edges)
    model.predict(TemporalEdges(["a", "b"], ["x", "y"], [80 + first, 90 + first]))
    assert bool(len(recwarn)) == (first > 40)


def test_clocks_of_different_units_are_compared(recwarn):
    time = np.arange(60).astype("datetime64[s]")
    edges = TemporalEdges(["a", "b"] * 30, ["x", "y"] * 30, time, label=[0, 1] * 30)
    model = PropagationClassifier(**OPTIONS).fit(edges)
    model.predict(TemporalEdges(["a"], ["x"], np.array([60_500], "datetime64[ms]")))
    assert not len(recwarn)
    with pytest.warns(TdlgWarning, match="3.5 seconds after"):
        model.predict(TemporalEdges(["a"], ["x"], np.array([62_500], "datetime64[ms]")))
