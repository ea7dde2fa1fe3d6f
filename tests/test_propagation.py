import re
from datetime import datetime

import numpy as np
import polars as pl
import pytest
from sklearn.base import clone
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import r2_score, roc_auc_score
from sklearn.model_selection import KFold, cross_val_score
from sklearn.neighbors import KNeighborsClassifier

from tdlg import PropagationClassifier, PropagationRegressor, TemporalEdges, from_frame, load_model, make_payments
from tdlg.datasets import load_dataset
from tdlg.exceptions import EdgesError, ParameterError, TdlgWarning


def network(n_edges=3000, n_nodes=60, seed=0, rare=0.5, **options):
    """Each destination has moods that last a while: its label depends on it and on the time."""
    rng = np.random.default_rng(seed)
    src, dst = rng.integers(0, n_nodes, (2, n_edges))
    time = np.sort(rng.uniform(0, 100, n_edges))
    mood = np.sin(dst * 1.7 + time / 15) + rng.normal(0, 0.5, n_edges)
    label = (mood > np.quantile(mood, 1 - rare)).astype(int)
    return TemporalEdges(src, dst, time, label=label, **options)


def hide(edges, hidden):
    return edges.with_label(np.where(hidden, np.nan, edges.label.astype(float)))


def random_part(n_edges, share=0.3, seed=1):
    return np.random.default_rng(seed).random(n_edges) < share


def far_ahead(time):
    """Times of edges, and label times that nobody reaches, of every type and unit."""
    for unit in ("s", "ms", "us", "ns"):
        dates = (np.datetime64("2024-01-01", "s") + (time * 3600).astype("timedelta64[s]")).astype(
            f"datetime64[{unit}]"
        )
        for far in ("s", "ms", "us"):
            yield dates, np.full(len(time), np.datetime64("9999-12-31", far))
        yield dates, np.full(len(time), np.datetime64("2200-01-01", "ns"))
    ticks = (time * 1000).astype(np.int64)
    yield ticks, np.full(len(time), 1e19)
    yield ticks, np.full(len(time), 2**62)
    yield time, np.full(len(time), 1e19)
    yield time, np.full(len(time), np.inf)
    yield ticks, np.full(len(time), np.inf)


def in_container(times, kind):
    import pandas as pd
    import polars as pl

    if kind == "numpy":
        return times
    if kind in ("pandas", "zoned"):
        column = pd.Series(times)
        return column.dt.tz_localize("UTC").dt.tz_convert("Europe/Berlin") if kind == "zoned" else column
    if kind == "polars":
        return pl.Series(times.astype("datetime64[ms]"))
    given = [None if np.isnat(value) else value.item() for value in times]
    return given if kind == "list" else [None if value is None else value.isoformat() for value in given]


def auc(model, edges, asked, **options):
    return roc_auc_score(edges.label[asked], model.predict_proba(edges[asked], **options)[:, 1])


@pytest.mark.usefixtures("few_trees_here")
class TestSetting:
    edges = network(400)

    def test_unlabelled_edges_among_the_labelled(self):
        assert PropagationClassifier().fit(hide(self.edges, random_part(400))).setting_ == "interpolate"

    def test_unlabelled_edges_after_the_labelled(self):
        assert PropagationClassifier().fit(hide(self.edges, self.edges.time > 70)).setting_ == "forecast"

    def test_an_unlabelled_edge_at_the_time_of_the_last_label_is_a_forecast(self):
        edges = TemporalEdges(self.edges.src, self.edges.dst, np.round(self.edges.time / 10), label=self.edges.label)
        hidden = np.arange(400) >= np.flatnonzero(edges.time == 7)[3]
        assert PropagationClassifier().fit(hide(edges, hidden)).setting_ == "forecast"

    def test_all_at_one_time_is_no_forecast(self):
        edges = TemporalEdges(self.edges.src, self.edges.dst, np.zeros(400), label=self.edges.label)
        assert PropagationClassifier().fit(hide(edges, random_part(400))).setting_ == "interpolate"

    def test_all_labelled_means_that_others_come(self):
        assert PropagationClassifier().fit(self.edges).setting_ == "forecast"

    def test_times_of_labels_mean_a_stream(self):
        assert PropagationClassifier().fit(self.edges, label_time=self.edges.time + 5).setting_ == "stream"

    def test_as_told(self):
        for setting in ("interpolate", "forecast", "stream"):
            assert PropagationClassifier(setting=setting).fit(self.edges).setting_ == setting

    def test_bad(self):
        with pytest.raises(ParameterError, match=r"'setting' .* Got 'online'"):
            PropagationClassifier(setting="online").fit(self.edges)
        with pytest.raises(ParameterError, match="setting 'interpolate' does not use"):
            PropagationClassifier(setting="interpolate").fit(self.edges, label_time=self.edges.time)
        with pytest.raises(ParameterError, match="used only in the setting 'stream'"):
            PropagationClassifier().fit(self.edges).predict(self.edges, label_time=self.edges.time)
        with pytest.raises(EdgesError, match=r"one value per edge: 400\. Got 3"):
            PropagationClassifier().fit(self.edges, label_time=[1, 2, 3])
        with pytest.raises(EdgesError, match="must be numbers, like the times of the edges"):
            PropagationClassifier().fit(self.edges, label_time=np.full(400, np.datetime64("2020-01-01")))

    def test_later_edges_for_an_interpolating_model_warn(self):
        model = PropagationClassifier(setting="interpolate").fit(self.edges)
        with pytest.warns(UserWarning, match="setting='forecast'"):
            model.predict(TemporalEdges([1], [2], [500.0]))

    @pytest.mark.parametrize("setting", ["forecast", "stream"])
    def test_edges_before_all_labels_warn(self, setting):
        model = PropagationClassifier(setting=setting).fit(self.edges[200:])
        with pytest.warns(TdlgWarning, match="No edge to score is later than the first label") as caught:
            model.predict(self.edges[:200])
        assert caught[0].filename == __file__


class TestClassifier:
    def test_learns_from_before_and_after(self):
        edges, hidden = network(), random_part(3000)
        assert auc(PropagationClassifier(random_state=0).fit(hide(edges, hidden)), edges, hidden) > 0.8

    def test_forecasts(self):
        edges = network()
        late = edges.time > 80
        assert auc(PropagationClassifier(random_state=0).fit(hide(edges, late)), edges, late & (edges.time < 85)) > 0.65

    def test_a_stream_of_labels_is_used_as_it_comes(self):
        edges = network()
        late = edges.time > 70
        model = PropagationClassifier(setting="stream", random_state=0).fit(hide(edges, late))
        fed = auc(model, edges, late)
        starved = roc_auc_score(edges.label[late], model.predict_proba(edges.with_label(None)[late])[:, 1])
        assert fed > 0.85 > starved + 0.05

    def test_permuted_labels_teach_nothing(self):
        edges, hidden = network(), random_part(3000)
        edges = edges.with_label(np.random.default_rng(3).permutation(edges.label))
        for setting in ("interpolate", "forecast", "stream"):
            model = PropagationClassifier(setting=setting, random_state=0).fit(hide(edges, hidden))
            assert abs(auc(model, edges, hidden) - 0.5) < 0.06, setting

    @pytest.mark.needs("time")
    def test_a_rare_class(self):
        edges, hidden = network(40_000, 2000), random_part(40_000)
        rng = np.random.default_rng(0)
        fraud = np.isin(edges.dst, [3, 14, 159, 265]) & (rng.random(40_000) < 0.6)  # 4 of 2,000 sellers
        edges = edges.with_label(fraud.astype(int))
        assert 0.0005 < fraud.mean() < 0.002
        for setting in ("interpolate", "stream"):
            model = PropagationClassifier(setting=setting, random_state=0).fit(hide(edges, hidden))
            assert auc(model, edges, hidden) > 0.95, setting

    @pytest.mark.usefixtures("few_trees_here")
    def test_several_classes_of_text(self):
        edges, hidden = network(), random_part(3000)
        kind = np.array(["a", "b", "c"])[(edges.dst + edges.label) % 3]
        model = PropagationClassifier(random_state=0).fit(edges.with_label(np.where(hidden, None, kind)))
        probability = model.predict_proba(edges[hidden])
        assert model.classes_.tolist() == ["a", "b", "c"]
        np.testing.assert_allclose(probability.sum(axis=1), 1)
        assert np.mean(model.predict(edges[hidden]) == kind[hidden]) > 0.7

    @pytest.mark.usefixtures("few_trees_here")
    @pytest.mark.parametrize("setting", ["interpolate", "forecast"])
    def test_many_classes_have_trees_of_their_own(self, setting, tmp_path):
        edges = network(1200)
        label = np.array([f"grade {k}" for k in edges.dst % 8])
        hidden = edges.time > 70 if setting == "forecast" else random_part(1200)
        known = edges.with_label([None if h else y for h, y in zip(hidden, label, strict=True)])
        model = PropagationClassifier(setting=setting, random_state=0).fit(known)
        assert len(model.estimators_) == 8 * (2 if setting == "forecast" else 1)
        names = model.features_.get_feature_names_out()
        of_others = [name for name in names if "_grade_" in name and "_grade_0" not in name]
        of_others = [
            name for name in of_others if not re.search("_(recency|since)_", name)
        ]  # those are for all classes
        assert {member.n_features_in_ for member in model.estimators_} == {len(names) - len(of_others)}
        proba = model.predict_proba(edges[hidden])
        np.testing.assert_allclose(proba.sum(axis=1), 1)
        assert (model.predict(edges[hidden]) == label[hidden]).mean() > 0.9
        assert "grade" in model.explain(edges[hidden][:3], top=1)["reason"].str.join(" ").item()
        model.save(tmp_path / "many.tdlg")
        np.testing.assert_array_equal(load_model(tmp_path / "many.tdlg").predict_proba(edges[hidden]), proba)

    @pytest.mark.usefixtures("few_trees_here")
    def test_labels_that_are_true_false_or_missing(self):
        edges = network(500)
        label = np.where(random_part(500), None, edges.label.astype(bool))
        model = PropagationClassifier(random_state=0).fit(edges.with_label(label))
        assert model.classes_.tolist() == [False, True]
        assert set(model.predict(edges[:50]).tolist()) <= {False, True}

    def test_any_estimator(self):
        edges, hidden = network(), random_part(3000)
        model = PropagationClassifier(LogisticRegression(max_iter=2000)).fit(hide(edges, hidden))
        assert isinstance(model.estimators_[0], LogisticRegression)
        assert auc(model, edges, hidden) > 0.7
        assert auc(PropagationClassifier(DummyClassifier()).fit(hide(edges, hidden)), edges, hidden) == 0.5

    def test_features_of_the_edges_help(self):
        edges, hidden = network(), random_part(3000)
        amount = np.random.default_rng(2).lognormal(size=3000)
        label = (amount > 1).astype(int)
        plain = TemporalEdges(edges.src, edges.dst, edges.time, label=label)
        rich = TemporalEdges(edges.src, edges.dst, edges.time, label=label, features={"amount": amount})
        assert auc(PropagationClassifier(random_state=0).fit(hide(plain, hidden)), plain, hidden) < 0.6
        assert auc(PropagationClassifier(random_state=0).fit(hide(rich, hidden)), rich, hidden) > 0.99

    def test_an_estimator_that_takes_no_weights(self):
        edges = network(200)
        with pytest.raises(ParameterError, match="KNeighborsClassifier does not support 'sample_weight'"):
            PropagationClassifier(KNeighborsClassifier()).fit(edges, sample_weight=np.ones(200))

    @pytest.mark.usefixtures("few_trees_here")
    def test_sample_weight(self):
        edges = network(400)
        weight = np.where(edges.src < 30, 1.0, 1e-9)
        heavy = PropagationClassifier(setting="interpolate", random_state=0).fit(edges, sample_weight=weight)
        plain = PropagationClassifier(setting="interpolate", random_state=0).fit(edges)
        assert not np.allclose(heavy.predict_proba(edges), plain.predict_proba(edges))
        for setting in ("forecast", "stream"):
            PropagationClassifier(setting=setting).fit(edges, sample_weight=weight)

    @pytest.mark.usefixtures("few_trees_here")
    @pytest.mark.parametrize("model", [PropagationClassifier(), PropagationRegressor()])
    def test_negative_weights(self, model):
        with pytest.raises(ParameterError, match=r"'sample_weight' must not be negative. Got -1\.0 in row 3"):
            model.fit(network(300), sample_weight=np.where(np.arange(300) == 3, -1.0, 1.0))

    @pytest.mark.usefixtures("few_trees_here")
    def test_same_seed_same_answer(self):
        edges, hidden = hide(network(1000), random_part(1000)), random_part(1000)
        one, two = (PropagationClassifier(random_state=5).fit(edges).predict_proba(edges[hidden]) for _ in range(2))
        np.testing.assert_array_equal(one, two)

    @pytest.mark.usefixtures("few_trees_here")
    def test_new_edges_and_no_edges(self):
        model = PropagationClassifier(random_state=0).fit(network(500))
        assert model.predict_proba(TemporalEdges([1, 999], [2, 998], [101.0, 102.0])).shape == (2, 2)
        assert model.predict(network(500)[:0]).shape == (0,)

    @pytest.mark.usefixtures("few_trees_here")
    def test_in_cross_validation(self):
        edges = network(1000)
        model = PropagationClassifier(setting="interpolate", random_state=0)
        folds = KFold(3, shuffle=True, random_state=0)
        assert cross_val_score(model, edges, edges.label, cv=folds, scoring="roc_auc").mean() > 0.6

    @pytest.mark.usefixtures("few_trees_here")
    @pytest.mark.parametrize("setting", ["interpolate", "forecast", "stream"])
    def test_saved_and_loaded(self, tmp_path, setting):
        edges = network(500)
        model = PropagationClassifier(setting=setting, random_state=0).fit(edges, None)
        model.save(tmp_path / "model.tdlg")
        loaded = load_model(tmp_path / "model.tdlg")
        np.testing.assert_array_equal(loaded.predict_proba(edges), model.predict_proba(edges))
        assert loaded.setting_ == setting
        clone(loaded)

    def test_bad_labels(self):
        edges = network(100)
        with pytest.raises(EdgesError, match="only 1 class"):
            PropagationClassifier().fit(edges.with_label(np.ones(100)))
        with pytest.raises(EdgesError, match="All labels are missing"):
            PropagationClassifier().fit(edges.with_label(np.full(100, np.nan)))
        with pytest.raises(EdgesError, match="no labels"):
            PropagationClassifier().fit(edges.with_label(None))

    @pytest.mark.parametrize("n_edges", [2, 3, 5, 12, 30])
    @pytest.mark.filterwarnings("ignore:Only")
    def test_few_edges(self, n_edges):
        edges = TemporalEdges(range(n_edges), range(1, n_edges + 1), range(n_edges), label=np.arange(n_edges) % 2)
        for setting in ("interpolate", "forecast", "stream"):
            assert PropagationClassifier(setting=setting).fit(edges).predict_proba(edges).shape == (n_edges, 2)

    def test_all_at_one_time(self):
        edges = network(300)
        tied = TemporalEdges(edges.src, edges.dst, np.zeros(300), label=edges.dst % 2)
        hidden = random_part(300)
        assert auc(PropagationClassifier(random_state=0).fit(hide(tied, hidden)), tied, hidden) > 0.9


@pytest.mark.usefixtures("few_trees_here")
class TestNoLeak:
    @pytest.mark.parametrize("setting", ["interpolate", "forecast"])
    def test_labels_of_edges_asked_for_change_nothing(self, setting):
        edges = network(1000)
        hidden = edges.time > 70 if setting == "forecast" else random_part(1000)
        model = PropagationClassifier(setting=setting, random_state=0).fit(hide(edges, hidden))
        flipped = edges.with_label(1 - edges.label)
        np.testing.assert_array_equal(model.predict_proba(edges[hidden]), model.predict_proba(flipped[hidden]))

    def test_a_training_edge_does_not_see_its_label_however_it_is_passed(self):
        edges = network(1000)
        model = PropagationClassifier(setting="interpolate", random_state=0).fit(edges)
        expected = model.predict_proba(edges)
        again = TemporalEdges(edges.src, edges.dst, edges.time, label=1 - edges.label)
        np.testing.assert_allclose(model.predict_proba(again), expected, atol=1e-9)
        np.testing.assert_array_equal(model.predict_proba(edges[17:18]), expected[17:18])

    def test_in_a_stream_only_later_edges_see_a_label(self):
        edges = network(1000)
        late = np.flatnonzero(edges.time > 70)
        model = PropagationClassifier(setting="stream", random_state=0).fit(hide(edges, edges.time > 70))
        middle = late[len(late) // 2]
        label = edges.label.astype(float)
        label[middle] = 1 - label[middle]
        before, after = (model._columns(e[late], None)[2] for e in (edges, edges.with_label(label)))
        changed = (before != after).any(axis=1)
        assert changed.any()
        assert edges.time[late[changed]].min() > edges.time[middle]

    def test_a_label_that_is_not_known_yet_is_not_seen(self):
        edges = network(1000)
        late = edges.time > 70
        never = np.full(1000, 1000.0)
        model = PropagationClassifier(setting="stream", random_state=0).fit(hide(edges, late))
        unseen = model.predict_proba(edges.with_label(None)[late])
        np.testing.assert_allclose(model.predict_proba(edges[late], label_time=never[late]), unseen, atol=1e-12)
        at_once = model.predict_proba(edges[late], label_time=edges.time[late])
        np.testing.assert_allclose(at_once, model.predict_proba(edges[late]), atol=1e-9)

    def test_labels_known_late_in_training(self):
        edges = network(1000)
        delayed = PropagationClassifier(random_state=0).fit(edges, label_time=edges.time + 20)
        columns = delayed._columns(edges.with_label(None), None)[2]
        names = delayed.features_.get_feature_names_out().tolist()
        early = edges.time < edges.time.min() + 20
        rates = [k for k, name in enumerate(names) if "_rate_" in name]
        assert not columns[np.ix_(early, rates)].any()
        assert columns[np.ix_(~early, rates)].any()

    def test_labels_without_a_time_warn_where_others_had_one(self):
        edges = network(600)
        model = PropagationClassifier(random_state=0).fit(edges[:400], label_time=edges.time[:400] + 20)
        with pytest.warns(UserWarning, match="each label is taken as known at the time of its edge") as caught:
            model.predict_proba(edges[400:])
        assert caught[0].filename == __file__
        model.predict_proba(edges[:400])  # those of fit have their times
        model.predict_proba(edges[400:].with_label(None))

    def test_labels_far_ahead_stay_hidden(self):
        edges = network(300)
        for times, never in far_ahead(edges.time):
            known = TemporalEdges(edges.src, edges.dst, times, label=edges.label)
            model = PropagationClassifier(DummyClassifier(), setting="stream").fit(known[:200])
            unseen = model._columns(known[200:].with_label(None), None)[2]
            np.testing.assert_allclose(
                model._columns(known[200:], never[200:])[2], unseen, atol=1e-12, err_msg=str(never[:1])
            )

    def test_labels_of_training_far_ahead_stay_hidden(self):
        edges = network(300)
        for times, never in far_ahead(edges.time):
            known = TemporalEdges(edges.src, edges.dst, times, label=edges.label)
            delayed = PropagationClassifier(DummyClassifier(), setting="stream").fit(known, label_time=never)
            rates = ["_rate_" in name for name in delayed.features_.get_feature_names_out()]
            assert not delayed._columns(known, never)[2][:, rates].any(), never[:1]

    @pytest.mark.parametrize("kind", ["numpy", "pandas", "zoned", "polars", "list", "text"])
    def test_a_missing_label_needs_no_label_time(self, kind):
        edges = network(300)
        time = np.datetime64("2024-01-01", "s") + (edges.time * 3600).astype("timedelta64[s]")
        hidden = np.arange(300) >= 250
        dated = TemporalEdges(edges.src, edges.dst, time, label=np.where(hidden, np.nan, edges.label))
        known = np.where(hidden, np.datetime64("NaT"), time + np.timedelta64(1, "D")).astype("datetime64[s]")
        given = in_container(known, kind)
        model = PropagationClassifier(random_state=0).fit(dated, label_time=given)
        expected = np.where(hidden, time, time + np.timedelta64(1, "D"))
        as_filled = PropagationClassifier(random_state=0).fit(dated, label_time=expected)
        np.testing.assert_array_equal(model.predict_proba(dated[250:]), as_filled.predict_proba(dated[250:]))
        with pytest.raises(EdgesError, match=r"'label_time' is missing in row 250 .* whose label is known"):
            PropagationClassifier().fit(dated.with_label(edges.label), label_time=given)

    def test_dates(self):
        edges = network(300)
        start = np.datetime64("2024-01-01T00:00:00", "s")
        time = start + (edges.time * 3600).astype("timedelta64[s]")
        dated = TemporalEdges(edges.src, edges.dst, time, label=edges.label)
        known = time.astype("datetime64[ms]") + np.timedelta64(2, "h")
        model = PropagationClassifier(random_state=0).fit(dated, label_time=known)
        assert model.predict_proba(dated, label_time=known).shape == (300, 2)


class TestRegressor:
    def test_answers_stay_near_the_labels(self):
        edges = network(1500)
        number = np.where(edges.dst % 2, 5.0, 1.0) + np.random.default_rng(0).normal(0, 0.1, 1500)
        model = PropagationRegressor(setting="forecast", random_state=0).fit(edges.with_label(number))
        near = TemporalEdges(edges.src[-50:], edges.dst[-50:], edges.time[-50:] + 1e-9)
        for asked in (edges, near):
            assert np.abs(model.predict(asked) - 3).max() < 4

    @pytest.mark.parametrize("setting", ["interpolate", "forecast", "stream"])
    def test_learns_a_number(self, setting):
        edges, hidden = network(), random_part(3000)
        rng = np.random.default_rng(0)
        number = edges.dst / 10 + np.sin(edges.time / 20) + rng.normal(0, 0.3, 3000)
        hidden = hidden if setting == "interpolate" else edges.time > 80
        model = PropagationRegressor(setting=setting, random_state=0)
        model.fit(edges.with_label(np.where(hidden, np.nan, number)))
        asked = edges.with_label(number)[hidden]
        assert r2_score(number[hidden], model.predict(asked)) > 0.8

    def test_bad_labels(self):
        edges = network(100)
        with pytest.raises(EdgesError, match="needs labels that are numbers"):
            PropagationRegressor().fit(edges.with_label(["x", "y"] * 50))
        with pytest.raises(EdgesError, match="All labels are missing"):
            PropagationRegressor().fit(edges.with_label(np.full(100, np.nan)))


@pytest.mark.needs("data", "time")
def test_beats_the_paper_on_its_own_data(data_dir, monkeypatch):
    monkeypatch.setenv("TDLG_DATA", str(data_dir))
    edges = load_dataset("bitcoinalpha")
    hidden = random_part(len(edges))
    assert auc(PropagationClassifier(random_state=0).fit(hide(edges, hidden)), edges, hidden) > 0.97


@pytest.mark.usefixtures("few_trees_here")
@pytest.mark.parametrize("late", [None, 5.0])
def test_a_forecast_does_not_depend_on_how_much_else_is_scored(late):
    edges = network(1500)
    edges = hide(edges, edges.time >= 40)[np.argsort(edges.time, kind="stable")]
    few, many = (edges[: np.searchsorted(edges.time, end)] for end in (50, 90))
    models = [PropagationClassifier(setting="forecast", random_state=0).fit(e, label_delay=late) for e in (few, many)]
    np.testing.assert_allclose(*(model.predict_proba(few) for model in models), rtol=0, atol=1e-9)  # sums are rounded


class TestLateForecast:
    """Training rows of forecasts are made with the same knowledge as the edges to score."""

    @pytest.mark.usefixtures("few_trees_here")
    def test_labels_of_fitted_edges_count_from_their_own_time_by_default(self):
        edges = network(600)
        hidden = hide(edges, edges.time >= 50)
        model = PropagationClassifier(setting="stream", random_state=0).fit(hidden, label_time=edges.time + 1.0)
        later = edges[edges.time >= 50]
        with pytest.warns(TdlgWarning, match="labels without it"):
            default = model.predict_proba(later)
        np.testing.assert_array_equal(default, model.predict_proba(later, label_time=later.time))
        assert not np.array_equal(default, model.predict_proba(later.with_label(None)))


class TestSmallFaults:
    @pytest.mark.usefixtures("few_trees_here")
    def test_a_category_that_no_labelled_edge_has(self):
        edges = network(300)
        features = {"code": [None if t < 50 else "ab"[k % 2] for k, t in enumerate(edges.time)]}
        edges = TemporalEdges(edges.src, edges.dst, edges.time, label=edges.label, features=features)
        for setting in ("forecast", "stream"):
            model = PropagationClassifier(setting=setting, random_state=0).fit(hide(edges, edges.time >= 50))
            assert np.isfinite(model.predict_proba(edges)).all()

    def test_edges_of_weight_0_do_not_choose_the_settings(self):
        edges = network(6000)
        weight = (edges.time < 50).astype(float)
        model = PropagationClassifier(setting="stream", random_state=0).fit(edges, sample_weight=weight)
        assert np.isfinite(model.predict_proba(edges[:5])).all()

    def test_scales_must_be_a_list(self):
        for scales in ("7d", 1.0, []):
            with pytest.raises(ParameterError, match=r"'scales' parameter .* must be 'auto' or a list"):
                PropagationClassifier(scales=scales).fit(network(100))


class TestProbabilities:
    """As many positive edges as the probabilities add up to, in all and among those of similar probability."""

    @staticmethod
    def assert_calibrated(edges, setting, late=None):
        n = len(edges)
        hidden = random_part(n) if setting == "interpolate" else np.arange(n) >= 0.75 * n
        label = np.asarray(edges.label, float)
        known = ~hidden if late is None else late <= edges.time[hidden].min()
        model = PropagationClassifier(setting=setting, random_state=0)
        model.fit(edges.with_label(np.where(known, label, np.nan), late))
        asked = edges[hidden] if late is not None else edges[hidden].with_label(None)
        asked = asked if late is None else asked.with_label(label[hidden], late[hidden])
        probability, truth = model.predict_proba(asked)[:, 1], label[hidden]
        # the future of a forecast differs from its past: of four tables the totals are .90, 1.20, .94 and 1.30 of the truth
        assert probability.sum() == pytest.approx(truth.sum(), rel=0.25 if setting == "forecast" else 0.2)
        for low, high in ((0.1, 0.3), (0.3, 0.6), (0.6, 1.0)):
            some = (probability >= low) & (probability <= high)
            if some.sum() >= 100:
                expected, found = probability[some].sum(), truth[some].sum()
                assert found / 1.5 - 2 * found**0.5 < expected < 1.5 * found + 2 * found**0.5, (low, expected, found)

    def test_of_forecasts(self):
        """Of single tables the expected number of frauds differs by a third, since the future differs from the past."""
        expected = found = 0.0
        for seed in range(4):
            edges = make_payments(10_000, random_state=seed).edges
            hidden, label = np.arange(len(edges)) >= 0.75 * len(edges), np.asarray(edges.label, float)
            model = PropagationClassifier(setting="forecast", random_state=0)
            model.fit(edges.with_label(np.where(hidden, np.nan, label)))
            expected += model.predict_proba(edges[hidden].with_label(None))[:, 1].sum()
            found += label[hidden].sum()
        assert expected == pytest.approx(found, rel=0.2)

    @pytest.mark.needs("time")
    @pytest.mark.parametrize("seed", [0, 1])
    @pytest.mark.parametrize("setting", ["interpolate", "forecast", "stream"])
    def test_of_generated_payments(self, setting, seed):
        payments = make_payments(60_000, random_state=seed)
        self.assert_calibrated(payments.edges, setting, payments.label_time if setting == "stream" else None)

    @pytest.mark.needs("data", "time")
    @pytest.mark.parametrize("setting", ["interpolate", "forecast"])
    def test_of_the_handbook(self, setting, data_dir):
        in_may = pl.col("time").is_between(datetime(2018, 5, 1), datetime(2018, 6, 5), closed="left")
        table = (
            pl.read_parquet(data_dir / "handbook.parquet").filter((pl.col("customer") % 3 == 2) & in_may).sort("time")
        )
        columns = {"src": "customer", "dst": "terminal", "time": "time", "label": "fraud", "features": ["amount"]}
        edges = from_frame(table, **columns, bipartite=True)
        self.assert_calibrated(edges, setting)
