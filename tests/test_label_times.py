"""Labels that become known later than their edges: in the edges, in files, in tasks, in models and in the shell."""

import pickle

import numpy as np
import polars as pl
import pytest
from sklearn.dummy import DummyClassifier

from tdlg import PropagationClassifier, TemporalEdges, from_frame, load_model
from tdlg.exceptions import EdgesError, ParameterError, ReadError
from tdlg.judge.holdout import hold_out
from tdlg.judge.methods import make_method
from tdlg.judge.references import LabelRates
from tdlg.judge.run import evaluate, run_trial
from tdlg.judge.trials import EdgeClassification, ForecastClassification

pytestmark = pytest.mark.usefixtures("few_trees")

NEVER = {
    "infinity": np.inf,
    "beyond int64": 1e19,
    "far ahead": 2.0**61,
}


def network(n=400, seed=0, **options):
    """Nodes with rates of their own; labels of one per second."""
    rng = np.random.default_rng(seed)
    src, dst = rng.integers(0, 20, n), rng.integers(0, 20, n)
    label = (rng.random(n) < np.where(dst < 5, 0.8, 0.1)).astype(float)
    return TemporalEdges(src, dst, np.arange(n), label=label, **options)


class TestEdges:
    def test_are_kept_with_the_rows(self):
        edges = network(label_time=np.arange(400) + 7)
        assert edges[10:20].label_time.tolist() == list(range(17, 27))
        assert edges[[5, 3]].label_time.tolist() == [12, 10]
        assert edges[edges.time > 397].label_ticks.tolist() == [405, 406]
        np.testing.assert_array_equal(pickle.loads(pickle.dumps(edges[::3])).label_time, edges.label_time[::3])
        assert "label: 2 values, label_time" in repr(edges)
        np.testing.assert_array_equal(edges.with_ids_of(network()).label_time, edges.label_time)
        assert not edges.label_time.flags.writeable

    def test_other_labels_keep_them(self):
        edges = network(label_delay=7)
        np.testing.assert_array_equal(edges.with_label(1 - edges.label).label_time, np.arange(400) + 7)
        np.testing.assert_array_equal(edges.with_label(edges.label, label_delay=3).label_time, np.arange(400) + 3)
        assert edges.with_label(None).label_time is None
        assert edges.with_label(None).with_label(edges.label).label_time is None

    def test_without_them_labels_are_known_at_once(self):
        assert network().label_time is None
        np.testing.assert_array_equal(network().known_at, np.arange(400))

    def test_are_not_known_before_their_edges(self):
        edges = network(label_time=np.arange(400) - 50)
        np.testing.assert_array_equal(edges.known_at, np.arange(400))

    def test_a_missing_label_needs_no_time(self):
        edges = TemporalEdges([1, 2], [2, 3], [0, 1], label=[1, None], label_time=[4, None])
        assert edges.label_time.tolist() == [4, np.iinfo(np.int64).max]  # a label given later is not known before
        with pytest.raises(EdgesError, match=r"'label_time' is missing in row 1 .* whose label is known") as caught:
            edges.with_label([1, 0])
        assert caught.value.row == 1
        with pytest.raises(EdgesError, match="is missing in row 0"):
            TemporalEdges([1], [2], [0], label=[1], label_time=[None])

    def test_need_labels(self):
        with pytest.raises(EdgesError, match=r"'label_time' is given without labels. Pass label= too"):
            TemporalEdges([1], [2], [0], label_time=[3])

    def test_are_saved(self, tmp_path):
        edges = network(label_delay=7)
        PropagationClassifier(random_state=0).fit(edges[:300]).save(tmp_path / "m.tdlg")
        model = load_model(tmp_path / "m.tdlg")
        np.testing.assert_array_equal(model.edges_.label_time, edges.label_time[:300])
        np.testing.assert_array_equal(model.label_ticks_, edges.label_time[:300])


class TestTables:
    def test_a_column(self):
        frame = pl.DataFrame({"time": [1, 2], "known_at": [5, 9], "src": [1, 2], "dst": [3, 4], "y": [0, 1]})
        assert from_frame(frame, label="y", label_time="known_at").label_time.tolist() == [5, 9]
        assert from_frame(frame, label="y", label_delay=3).label_time.tolist() == [4, 5]

    def test_is_never_another_role(self):
        frame = pl.DataFrame({"timestamp": [1, 2], "time": [5, 9], "src": [1, 2], "dst": [3, 4], "y": [0, 1]})
        edges = from_frame(frame, label="y", label_time="time")
        assert (edges.time.tolist(), edges.label_time.tolist()) == ([1, 2], [5, 9])
        with pytest.raises(ReadError, match=r"'time' is the 'label_time', .*reveal"):
            from_frame(frame, label="y", label_time="time", features=["time"])
        with pytest.raises(ReadError, match=r"'timestamp' is both 'time' and 'label_time'"):
            from_frame(frame, label="y", time="timestamp", label_time="timestamp")
        with pytest.raises(ReadError, match=r"'y' is both 'label' and 'label_time'"):
            from_frame(frame, label="y", time="timestamp", label_time="y")

    @pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
    def test_numbers_in_a_unit(self, unit):
        frame = pl.DataFrame({"src": [1] * 4, "dst": [2] * 4, "time": [1] * 4, "y": [0, 1, 0, None]})
        frame = frame.with_columns(k=pl.Series([5.0, 1e19, np.inf, None]))
        edges = from_frame(frame, label="y", label_time="k", time_unit=unit)
        assert edges.label_ticks.tolist() == [5, *[np.iinfo(np.int64).max] * 3]


def far_ahead(n):
    """Edges at several kinds of times, with times of labels that are far ahead of them."""
    dates = np.datetime64("2024-01-01", "s") + np.arange(n).astype("timedelta64[s]")
    yield from ((np.arange(n), np.full(n, never)) for never in NEVER.values())
    yield from ((np.arange(n) / 3, np.full(n, never)) for never in NEVER.values())
    for unit in ("s", "ms", "us", "ns"):
        yield dates.astype(f"datetime64[{unit}]"), np.full(n, np.datetime64("9999-12-31", "s"))
        yield dates.astype(f"datetime64[{unit}]"), np.full(n, "9999-12-31")


def rates_of(model, edges):
    columns = model._columns(edges, None)[2]
    return columns[:, ["_rate_" in name for name in model.features_.get_feature_names_out()]]


class TestModels:
    def test_use_those_of_the_edges(self):
        edges = network()
        given = PropagationClassifier(random_state=0).fit(edges[:300], label_time=edges.time[:300] + 9)
        late = network(label_delay=9)
        model = PropagationClassifier(random_state=0).fit(late[:300])
        assert model.setting_ == "stream"
        np.testing.assert_array_equal(
            model.predict_proba(late[300:]), given.predict_proba(edges[300:], label_time=edges.time[300:] + 9)
        )

    def test_those_given_override(self):
        late, edges = network(label_delay=90), network(label_delay=9)
        model = PropagationClassifier(random_state=0).fit(late[:300], label_delay=9)
        same = PropagationClassifier(random_state=0).fit(edges[:300])
        np.testing.assert_array_equal(model.predict_proba(edges[300:]), same.predict_proba(edges[300:]))

    def test_interpolation_does_not_use_them(self):
        late = network(label_delay=90)
        model = PropagationClassifier(setting="interpolate", random_state=0).fit(late)
        plain = PropagationClassifier(setting="interpolate", random_state=0).fit(network())
        np.testing.assert_array_equal(model.predict_proba(late), plain.predict_proba(late))

    def test_labels_far_ahead_stay_hidden(self):
        edges = network(200)
        for times, never in far_ahead(200):
            late = TemporalEdges(edges.src, edges.dst, times, label=edges.label, label_time=never)
            plain = TemporalEdges(edges.src, edges.dst, times, label=edges.label)
            assert not rates_of(PropagationClassifier(DummyClassifier(), setting="stream").fit(late), late).any()
            model = PropagationClassifier(DummyClassifier(), setting="stream").fit(plain[:100])
            unseen = rates_of(model, plain[100:].with_label(None))
            np.testing.assert_allclose(rates_of(model, late[100:]), unseen, atol=1e-12, err_msg=str(never[:1]))


class TestTasks:
    def test_only_labels_known_at_the_cut_are_learnt_from(self):
        edges = network(label_time=np.arange(400) + np.random.default_rng(1).integers(1, 200, 400))
        trial = ForecastClassification(edges).draw()
        cut = 280  # 70 % of 400 edges
        expected = [k for k in range(400) if edges.time[k] < cut and edges.label_time[k] < cut]
        assert trial.train.tolist() == expected
        assert trial.pending.tolist() == [k for k in range(cut) if k not in expected]
        np.testing.assert_array_equal(trial.seen().label_time, edges.label_time)

    def test_blocks_learn_from_labels_known_before_them(self):
        edges = network(label_time=np.arange(400) + np.random.default_rng(1).integers(1, 200, 400))
        trial = ForecastClassification(edges, stream=True).draw()
        (test,) = trial.tests.values()
        for block in trial.blocks(test, 3):
            start = block.tests[""].min()
            assert sorted(block.train) == [k for k in range(400) if edges.label_time[k] < start and k < start]

    def test_random_labels_have_no_times(self):
        assert EdgeClassification(network(label_delay=5)).draw(0).label_time is None

    def test_labels_too_late(self):
        with pytest.raises(EdgesError, match="No label became known before the cut"):
            ForecastClassification(network(label_delay=1000)).draw()
        with pytest.raises(ParameterError, match="became known too late"):
            hold_out(PropagationClassifier(), network(label_delay=1000), "time")

    @pytest.mark.parametrize("method", ["propagation", "label-rates", "tdlg"])
    def test_labels_that_are_not_yet_known_move_no_score(self, method):
        edges = network(label_time=np.where(np.arange(400) % 3 == 0, 10_000, np.arange(400) + 20))
        other = edges.with_label(np.where(np.arange(400) % 3 == 0, 1 - edges.label, edges.label))
        scores = [self.scores(method, e) for e in (edges, other)]
        np.testing.assert_array_equal(*scores)
        at_once = self.scores(method, network())
        assert not np.array_equal(at_once, scores[0])

    @staticmethod
    def scores(method, edges):
        trial = ForecastClassification(edges, stream=True).draw()
        model = make_method(method).set_params(**({} if method == "tdlg" else {"random_state": 0}))
        ((scores, _),) = run_trial(model, trial).values()
        return scores

    def test_pending_labels_count_once_they_are_known(self):
        """Those of edges before the cut that become known soon after it."""
        edges = network(label_time=np.where(np.arange(400) < 270, np.arange(400) + 20, 10_000))
        trial = ForecastClassification(edges, stream=True).draw()
        (test,) = trial.tests.values()
        fitted = LabelRates(random_state=0).streaming().fit(trial.seen())
        with_pending = fitted.decision_function(trial.revealed(test))[: len(test)]
        without = fitted.decision_function(trial.labelled(test)[test])
        late = edges.time[test] > 290  # the last pending label is known at 289
        assert not np.array_equal(with_pending[late], without[late])

    def test_held_out(self):
        late = network(label_delay=60)
        held = hold_out(PropagationClassifier(), late)
        assert (held.how, held.model.setting_, held.n_train) == ("time", "stream", 220)
        assert len(held.truth) == len(held.scored.edges) == 120
        assert {name: len(of) for name, of in held.predictions.items()} == {
            "model": 120,
            "label rates": 120,
            "windows": 120,
        }
        random = hold_out(PropagationClassifier(), late, "random")
        assert (random.model.setting_, random.n_train) == ("interpolate", 280)
        given = hold_out(PropagationClassifier(random_state=0).fit(network(), label_delay=60), network())
        assert given.n_train == 220

    def test_evaluate(self, tmp_path):
        task = ForecastClassification(network(label_delay=60), stream=True)
        rows = evaluate("label-rates", task, path=tmp_path / "rows.csv")
        assert rows["n_train"].to_list() == [220]
        times = np.where(np.arange(400) < 220, np.arange(400) + 60, np.arange(400) + 61)
        task = ForecastClassification(network(label_time=times), stream=True)
        with pytest.raises(ParameterError, match="other"):  # the fingerprint knows the times
            evaluate("label-rates", task, path=tmp_path / "rows.csv")
