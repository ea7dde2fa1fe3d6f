"""Compiled trees against the library that fitted them: every number has to be the same."""

import numpy as np
import pytest
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.linear_model import LogisticRegression
from sklearn.utils.validation import NotFittedError

from tdlg import ParameterError, PropagationClassifier, PropagationRegressor, TemporalEdges, load_model
from tdlg._kernels.trees import LANES, MOST_LEAVES
from tdlg.live.trees import CompiledModel, CompiledTrees
from tdlg.models.propagation_classifier import SURE

SIZES = (1, 2, LANES - 1, LANES, LANES + 1, 3 * LANES, 500)
LAYOUTS = ("C", "F")
SEVEN = 7  # more classes than `FEW_CLASSES`


def table(n_rows=1500, seed=0):
    """Continuous, coarse and constant columns, some with missing values, and one where being missing matters."""
    rng = np.random.default_rng(seed)
    columns = rng.normal(size=(n_rows, 12))
    columns[:, 3:6] = np.round(columns[:, 3:6])
    columns[:, 6] = 5.0
    columns[rng.random(n_rows) < 0.2, 8] = np.nan
    columns[rng.random(n_rows) < 0.2, 9] = np.nan
    columns[:, 10] = np.where(rng.random(n_rows) < 0.3, np.nan, 1.0)
    return columns


def target_of(columns):
    known = np.nan_to_num(columns, nan=-1.0)
    return known[:, 0] + known[:, 3] * known[:, 4] + 2 * known[:, 8] + known[:, 10] + np.sin(3 * known[:, 1])


def fitted(kind, columns, **settings):
    number = target_of(columns)
    settings = {"max_iter": 15, "max_leaf_nodes": 15, "random_state": 0} | settings
    if kind == "number":
        return HistGradientBoostingRegressor(**settings).fit(columns, number)
    n_classes = {"two": 2, "three": 3, "nine": 9}[kind]
    codes = np.searchsorted(np.quantile(number, np.arange(1, n_classes) / n_classes), number)
    return HistGradientBoostingClassifier(**settings).fit(columns, np.array(list("abcdefghi"))[codes])


def assert_same(trees, estimator, columns):
    """The same raw scores, probabilities and predictions, to the last bit."""
    np.testing.assert_array_equal(trees.raw(columns), estimator._raw_predict(columns))
    np.testing.assert_array_equal(trees.predict(columns), estimator.predict(columns))
    if hasattr(estimator, "predict_proba"):
        np.testing.assert_array_equal(trees.predict_proba(columns), estimator.predict_proba(columns))


@pytest.fixture(scope="module")
def columns():
    return table()


@pytest.fixture(scope="module", params=["two", "three", "nine", "number"])
def pair(request, columns):
    estimator = fitted(request.param, columns)
    return CompiledTrees.from_boosting(estimator), estimator


class TestCompiledTrees:
    @pytest.mark.parametrize("layout", LAYOUTS)
    @pytest.mark.parametrize("n_rows", SIZES)
    def test_equals_the_library(self, pair, n_rows, layout):
        assert_same(*pair, np.array(table(n_rows, seed=1), order=layout))

    def test_views_that_skip_rows_and_columns(self, pair, columns):
        wide = np.repeat(columns[:200], 2, axis=1)
        assert_same(*pair, wide[::3, ::2])
        assert_same(*pair, wide[::-1, ::2])
        assert_same(*pair, np.asfortranarray(wide)[5:20, ::2])

    def test_other_types_of_numbers(self, pair, columns):
        assert_same(*pair, columns[:30].astype(np.float32))
        assert_same(*pair, columns[:30].astype(">f8"))
        assert_same(*pair, np.nan_to_num(columns[:30]).astype(int).tolist())

    def test_values_at_and_beside_the_thresholds(self, pair):
        trees, estimator = pair
        nodes = np.concatenate([tree.nodes for trees in estimator._predictors for tree in trees])
        nodes = nodes[nodes["is_leaf"] == 0]
        at = nodes["num_threshold"]
        for values in (at, np.nextafter(at, -np.inf), np.nextafter(at, np.inf)):
            rows = np.zeros((len(nodes), 12))
            rows[np.arange(len(nodes)), nodes["feature_idx"]] = values
            assert_same(trees, estimator, rows)

    @pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 0.0, -0.0, 1e300, 5e-324])
    def test_rows_of_one_value(self, pair, value):
        assert_same(*pair, np.full((LANES + 3, 12), value))

    def test_no_rows(self, pair):
        trees, estimator = pair
        assert trees.raw(np.empty((0, 12))).shape == (0, estimator.n_trees_per_iteration_)
        assert trees.predict(np.empty((0, 12))).shape == (0,)

    def test_missing_values_go_both_ways(self, pair):
        _, estimator = pair
        nodes = np.concatenate([tree.nodes for trees in estimator._predictors for tree in trees])
        nodes = nodes[nodes["is_leaf"] == 0]
        assert set(nodes["missing_go_to_left"]) == {0, 1}
        assert np.isposinf(nodes["num_threshold"]).any()  # a split between known and missing values

    @pytest.mark.parametrize("n_leaves", [2, 31, MOST_LEAVES])
    def test_sizes_of_trees(self, columns, n_leaves):
        estimator = fitted("two", columns, max_leaf_nodes=n_leaves, min_samples_leaf=1, max_iter=5)
        assert max(tree.get_n_leaf_nodes() for trees in estimator._predictors for tree in trees) == n_leaves
        assert_same(CompiledTrees.from_boosting(estimator), estimator, columns[:100])

    def test_trees_of_a_single_leaf(self):
        constant = np.ones((50, 3))
        estimator = HistGradientBoostingRegressor(max_iter=3).fit(constant, np.arange(50.0))
        assert_same(CompiledTrees.from_boosting(estimator), estimator, constant)

    def test_without_missing_values_in_training(self, columns):
        estimator = fitted("two", np.nan_to_num(columns))
        assert_same(CompiledTrees.from_boosting(estimator), estimator, columns)

    def test_many_columns(self):
        rng = np.random.default_rng(0)
        wide = rng.normal(size=(400, 300))
        estimator = HistGradientBoostingClassifier(max_iter=10, max_features=0.1, random_state=0)
        estimator.fit(wide, wide[:, :20].sum(axis=1) > 0)
        assert_same(CompiledTrees.from_boosting(estimator), estimator, wide)

    def test_a_regressor_has_no_probabilities(self, columns):
        trees = CompiledTrees.from_boosting(fitted("number", columns, max_iter=2))
        with pytest.raises(AttributeError, match="predict_proba"):
            trees.predict_proba(columns)


class TestRefused:
    def test_columns_of_another_shape(self, pair):
        for wrong in (np.zeros((3, 11)), np.zeros((3, 13)), np.zeros(12)):
            with pytest.raises(ParameterError, match=r"fitted on 12 columns\. Got an array of shape"):
                pair[0].raw(wrong)

    @pytest.mark.parametrize("loss", ["poisson", "absolute_error"])
    def test_other_losses(self, columns, loss):
        estimator = HistGradientBoostingRegressor(loss=loss, max_iter=2).fit(columns, np.abs(target_of(columns)))
        with pytest.raises(ParameterError, match=f"its loss is '{loss}'"):
            CompiledTrees.from_boosting(estimator)

    def test_categorical_columns(self, columns):
        with pytest.raises(ParameterError, match="categorical columns"):
            CompiledTrees.from_boosting(fitted("two", columns, categorical_features=[3], max_iter=2))

    def test_too_many_leaves(self, columns):
        settings = {"max_leaf_nodes": MOST_LEAVES + 1, "min_samples_leaf": 1, "max_iter": 2}
        with pytest.raises(ParameterError, match="65 leaves, more than 64"):
            CompiledTrees.from_boosting(fitted("two", columns, **settings))

    def test_other_estimators(self, columns):
        class Other(HistGradientBoostingRegressor):
            pass

        for estimator in (LogisticRegression(), Other(max_iter=2).fit(columns, target_of(columns))):
            with pytest.raises(ParameterError, match="only HistGradientBoostingClassifier"):
                CompiledTrees.from_boosting(estimator)

    def test_an_estimator_that_is_not_fitted(self):
        with pytest.raises(NotFittedError):
            CompiledTrees.from_boosting(HistGradientBoostingClassifier())

    @pytest.mark.parametrize(("field", "node", "value"), [("left", 0, 2), ("right", 0, 2), ("is_leaf", -1, 0)])
    def test_nodes_in_another_order(self, columns, field, node, value):
        estimator = fitted("number", columns, max_iter=2)
        estimator._predictors[1][0].nodes[field][node] = value
        with pytest.raises(ParameterError, match="not in the order"):
            CompiledTrees.from_boosting(estimator)


def stream(n_classes=2, n_edges=900, seed=0):
    """Edges whose label depends on the destination and the time, with an amount that is sometimes missing."""
    rng = np.random.default_rng(seed)
    src, dst = rng.integers(0, 40, (2, n_edges))
    time = np.sort(rng.uniform(0, 100, n_edges))
    amount = np.where(rng.random(n_edges) < 0.1, np.nan, rng.exponential(size=n_edges))
    mood = np.sin(dst * 1.7 + time / 15) + rng.normal(0, 0.5, n_edges)
    label = np.searchsorted(np.quantile(mood, np.linspace(0.6, 1, n_classes)[:-1]), mood)
    return TemporalEdges(src, dst, time, label=label, features={"amount": amount})


def assert_same_values(model, edges, compiled=True):
    """The model's own values of one row, no rows, few and all rows, in both layouts."""
    columns = model.scored(edges).columns
    fast = CompiledModel(model)
    assert (fast.forest is not None) == compiled
    for n_rows in (0, 1, 2, 50, len(columns)):
        for layout in LAYOUTS:
            rows = np.array(columns[:n_rows], order=layout)
            np.testing.assert_array_equal(fast.values(rows), model.values_of(rows), strict=True)


@pytest.mark.usefixtures("few_trees")
class TestCompiledModel:
    def test_two_classes(self):
        edges = stream()
        assert_same_values(PropagationClassifier(setting="stream", random_state=0).fit(edges), edges)

    def test_two_classes_of_a_sample(self, monkeypatch):
        monkeypatch.setattr("tdlg.models.training.MOST_ROWS", 500)
        edges = stream()
        model = PropagationClassifier(setting="stream", random_state=0).fit(edges)
        assert np.ptp(model.log_shares_) > 0
        assert_same_values(model, edges)

    @pytest.mark.parametrize("n_classes", [3, SEVEN])
    def test_more_classes(self, n_classes, monkeypatch):
        monkeypatch.setattr("tdlg.models.training.MOST_ROWS", 500)
        edges = stream(n_classes)
        model = PropagationClassifier(setting="stream", random_state=0).fit(edges)
        assert len(model.estimators_) == (n_classes if n_classes == SEVEN else 1)
        assert_same_values(model, edges)

    def test_a_number(self):
        edges = stream(5)
        assert_same_values(PropagationRegressor(setting="stream", random_state=0).fit(edges), edges)

    def test_a_loaded_model(self, tmp_path):
        edges = stream()
        PropagationClassifier(setting="stream", random_state=0).fit(edges).save(tmp_path / "model.tdlg")
        assert_same_values(load_model(tmp_path / "model.tdlg"), edges)

    def test_boosted_trees_of_the_user(self):
        edges = stream(9, n_edges=400)
        own = HistGradientBoostingClassifier(max_iter=3, random_state=0)
        assert_same_values(PropagationClassifier(own, setting="stream").fit(edges), edges)

    def test_probabilities_next_to_0_are_bounded(self):
        rng = np.random.default_rng(0)
        src, dst = rng.integers(0, 20, (2, 400))
        edges = TemporalEdges(src, dst, np.arange(400.0), label=src % 2)
        own = HistGradientBoostingClassifier(learning_rate=3.0, max_iter=10, random_state=0)
        model = PropagationClassifier(own, setting="stream").fit(edges)
        assert model.estimators_[0].predict_proba(model.scored(edges).columns).min() < SURE
        assert_same_values(model, edges)

    def test_other_members_are_asked_themselves(self):
        edges = stream()
        own = PropagationClassifier(LogisticRegression(max_iter=2000), setting="stream", random_state=0)
        columns = TemporalEdges(edges.src, edges.dst, edges.time, label=edges.label)  # no missing values
        assert_same_values(own.fit(columns), columns, compiled=False)
        forecast = PropagationRegressor(setting="forecast", random_state=0).fit(columns)
        assert_same_values(forecast, columns, compiled=False)

    def test_trees_that_cannot_be_compiled_are_asked_themselves(self):
        edges = stream()
        own = HistGradientBoostingRegressor(loss="absolute_error", max_iter=5)
        assert_same_values(PropagationRegressor(own, setting="stream").fit(edges), edges, compiled=False)

    def test_classes_as_numbers_are_asked_for_themselves(self):
        edges = stream(3, n_edges=400)
        own = HistGradientBoostingClassifier(max_iter=3, random_state=0)
        assert_same_values(PropagationRegressor(own, setting="stream").fit(edges), edges, compiled=False)

    def test_a_model_that_is_not_fitted(self):
        with pytest.raises(NotFittedError):
            CompiledModel(PropagationClassifier())
