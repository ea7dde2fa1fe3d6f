"""Trees as arrays against the library that fitted them: every number has to be the same."""

import time

import numpy as np
import pytest
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.linear_model import LogisticRegression
from sklearn.utils.validation import NotFittedError

import tdlg.models.trees
from tdlg import PropagationClassifier, PropagationRegressor, TemporalEdges, load_model
from tdlg._kernels import MOST_LEAVES
from tdlg._kernels.trees import BLOCK_ROWS
from tdlg.models.propagation import SURE
from tdlg.models.trees import Trees, predict, predict_one_against_rest, predict_proba

SIZES = (1, 2, BLOCK_ROWS - 1, BLOCK_ROWS, BLOCK_ROWS + 1, 3 * BLOCK_ROWS, 500)
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


def assert_same(estimator, columns):
    """The same raw scores, probabilities and predictions, to the last bit."""
    trees = Trees.from_boosting([estimator])
    np.testing.assert_array_equal(trees.sums(columns), estimator._raw_predict(columns))
    if hasattr(estimator, "predict_proba"):
        np.testing.assert_array_equal(predict_proba(estimator, columns), estimator.predict_proba(columns))
    else:
        np.testing.assert_array_equal(predict(estimator, columns), estimator.predict(columns))


def trees_of(estimator):
    return [tree for trees in estimator._predictors for tree in trees]


def splits_of(estimator):
    nodes = np.concatenate([tree.nodes for tree in trees_of(estimator)])
    return nodes[nodes["is_leaf"] == 0]


@pytest.fixture(scope="module")
def columns():
    return table()


@pytest.fixture(scope="module", params=["two", "three", "nine", "number"])
def estimator(request, columns):
    return fitted(request.param, columns)


class TestTrees:
    @pytest.mark.parametrize("layout", LAYOUTS)
    @pytest.mark.parametrize("n_rows", SIZES)
    def test_equals_the_library(self, estimator, n_rows, layout):
        assert_same(estimator, np.array(table(n_rows, seed=1), order=layout))

    def test_views_that_skip_rows_and_columns(self, estimator, columns):
        wide = np.repeat(columns[:200], 2, axis=1)
        assert_same(estimator, wide[::3, ::2])
        assert_same(estimator, wide[::-1, ::2])
        assert_same(estimator, np.asfortranarray(wide)[5:20, ::2])

    def test_other_types_of_numbers(self, estimator, columns):
        assert_same(estimator, columns[:30].astype(np.float32))
        assert_same(estimator, columns[:30].astype(">f8"))
        assert_same(estimator, np.nan_to_num(columns[:30]).astype(int).tolist())

    def test_values_at_and_beside_the_thresholds(self, estimator):
        splits = splits_of(estimator)
        at = splits["num_threshold"]
        for values in (at, np.nextafter(at, -np.inf), np.nextafter(at, np.inf)):
            rows = np.zeros((len(splits), 12))
            rows[np.arange(len(splits)), splits["feature_idx"]] = values
            assert_same(estimator, rows)

    @pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 0.0, -0.0, 1e300, 5e-324])
    def test_rows_of_one_value(self, estimator, value):
        assert_same(estimator, np.full((BLOCK_ROWS + 3, 12), value))

    def test_no_rows(self, estimator):
        sums = Trees.from_boosting([estimator]).sums(np.empty((0, 12)))
        assert sums.shape == (0, estimator.n_trees_per_iteration_)

    def test_missing_values_go_both_ways(self, estimator):
        splits = splits_of(estimator)
        assert set(splits["missing_go_to_left"]) == {0, 1}
        assert np.isposinf(splits["num_threshold"]).any()  # a split between known and missing values

    @pytest.mark.parametrize("n_leaves", [2, 31, MOST_LEAVES])
    def test_sizes_of_trees(self, columns, n_leaves):
        estimator = fitted("two", columns, max_leaf_nodes=n_leaves, min_samples_leaf=1, max_iter=5)
        assert max(tree.get_n_leaf_nodes() for tree in trees_of(estimator)) == n_leaves
        assert_same(estimator, columns[:100])

    def test_trees_of_a_single_leaf(self):
        constant = np.ones((50, 3))
        assert_same(HistGradientBoostingRegressor(max_iter=3).fit(constant, np.arange(50.0)), constant)

    def test_without_missing_values_in_training(self, columns):
        assert_same(fitted("two", np.nan_to_num(columns)), columns)

    def test_weighted_rows(self, columns):
        weight = np.random.default_rng(0).exponential(size=len(columns))
        estimator = HistGradientBoostingClassifier(max_iter=10, random_state=0)
        assert_same(estimator.fit(columns, target_of(columns) > 0, sample_weight=weight), columns)

    def test_many_columns(self):
        rng = np.random.default_rng(0)
        wide = rng.normal(size=(400, 300))
        estimator = HistGradientBoostingClassifier(max_iter=10, max_features=0.1, random_state=0)
        assert_same(estimator.fit(wide, wide[:, :20].sum(axis=1) > 0), wide)

    def test_several_estimators_of_some_columns_each(self, columns):
        places = [np.array([0, 3, 8, 10]), np.array([1, 4, 9, 11]), np.arange(12)]
        target = target_of(columns)
        estimators = [
            HistGradientBoostingClassifier(max_iter=5 + k).fit(columns[:, own], target > k)
            for k, own in enumerate(places)
        ]
        found = predict_one_against_rest(estimators, columns, lambda: places)
        expected = [one.predict_proba(columns[:, own])[:, 1] for one, own in zip(estimators, places, strict=True)]
        np.testing.assert_array_equal(found, np.column_stack(expected))

    def test_columns_of_another_shape(self, estimator):
        for wrong in (np.zeros((3, 11)), np.zeros((3, 13)), np.zeros(12)):
            with pytest.raises(ValueError, match=r"fitted on 12 columns\. Got shape"):
                Trees.from_boosting([estimator]).sums(wrong)

    def test_nodes_in_another_order(self, columns):
        """A tree whose nodes come level by level, which scikit-learn walks as well."""
        estimator = fitted("number", columns, max_iter=5)
        before = estimator.predict(columns)
        for tree in trees_of(estimator):
            order = [0]
            for node in order:
                if not tree.nodes["is_leaf"][node]:
                    order += [tree.nodes["left"][node], tree.nodes["right"][node]]
            place = np.argsort(order)
            nodes = tree.nodes[order]
            nodes["left"], nodes["right"] = place[nodes["left"]], place[nodes["right"]]
            tree.nodes = nodes
        np.testing.assert_array_equal(estimator.predict(columns), before)
        assert_same(estimator, columns)

    def test_one_row_takes_far_less_than_a_millisecond(self, columns):
        estimator, row = fitted("two", columns, max_iter=200), columns[:1]
        predict_proba(estimator, row)
        seconds = []
        for _ in range(50):
            start = time.process_time()
            predict_proba(estimator, row)
            seconds.append(time.process_time() - start)
        assert min(seconds) < 0.3e-3


class TestByTheLibrary:
    """What cannot be arrays is predicted by the estimators themselves."""

    @pytest.mark.parametrize("loss", ["poisson", "absolute_error"])
    def test_other_losses(self, columns, loss):
        estimator = HistGradientBoostingRegressor(loss=loss, max_iter=2).fit(columns, np.abs(target_of(columns)))
        np.testing.assert_array_equal(predict(estimator, columns), estimator.predict(columns))

    def test_categorical_columns(self, columns):
        estimator = fitted("two", columns, categorical_features=[3], max_iter=2)
        assert Trees.from_boosting([estimator]) is None
        np.testing.assert_array_equal(predict_proba(estimator, columns), estimator.predict_proba(columns))

    def test_too_many_leaves(self, columns):
        settings = {"max_leaf_nodes": MOST_LEAVES + 1, "min_samples_leaf": 1, "max_iter": 2}
        estimator = fitted("two", columns, **settings)
        assert Trees.from_boosting([estimator]) is None
        np.testing.assert_array_equal(predict_proba(estimator, columns), estimator.predict_proba(columns))

    def test_nodes_with_two_parents(self, columns):
        estimator = fitted("number", columns, max_iter=2)
        nodes = trees_of(estimator)[1].nodes
        nodes["left"][0] = nodes["right"][0]
        assert Trees.from_boosting([estimator]) is None
        np.testing.assert_array_equal(predict(estimator, columns), estimator.predict(columns))

    def test_other_estimators(self, columns):
        class Other(HistGradientBoostingRegressor):
            def predict(self, X):
                return np.full(len(X), 7.0)

        assert set(predict(Other(max_iter=2).fit(columns, target_of(columns)), columns)) == {7.0}
        known = np.nan_to_num(columns)
        linear = LogisticRegression().fit(known, target_of(columns) > 0)
        np.testing.assert_array_equal(predict_proba(linear, known), linear.predict_proba(known))

    def test_an_estimator_that_is_not_fitted(self, columns):
        with pytest.raises((NotFittedError, AttributeError)):
            predict_proba(HistGradientBoostingClassifier(), columns)


def test_arrays_follow_a_new_fit(columns):
    estimator = fitted("number", columns)
    assert_same(estimator, columns)
    estimator.fit(columns, -target_of(columns))
    assert_same(estimator, columns)


def test_arrays_are_made_once(columns, monkeypatch):
    estimator = fitted("two", columns)
    predict_proba(estimator, columns)
    monkeypatch.setattr(Trees, "from_boosting", None)
    predict_proba(estimator, columns)


def stream(n_classes=2, n_edges=900, seed=0):
    """Edges whose label depends on the destination and the time, with an amount that is sometimes missing."""
    rng = np.random.default_rng(seed)
    src, dst = rng.integers(0, 40, (2, n_edges))
    time = np.sort(rng.uniform(0, 100, n_edges))
    amount = np.where(rng.random(n_edges) < 0.1, np.nan, rng.exponential(size=n_edges))
    mood = np.sin(dst * 1.7 + time / 15) + rng.normal(0, 0.5, n_edges)
    label = np.searchsorted(np.quantile(mood, np.linspace(0.6, 1, n_classes)[:-1]), mood)
    return TemporalEdges(src, dst, time, label=label, features={"amount": amount})


def assert_same_values(model, edges, as_arrays=True):
    """The values that the members' own methods give, of one row, no rows, few and all rows, in both layouts."""
    columns = model.scored(edges).columns
    for n_rows in (0, 1, 2, 50, len(columns)):
        for layout in LAYOUTS:
            rows = np.array(columns[:n_rows], order=layout)
            with pytest.MonkeyPatch.context() as patch:
                if as_arrays:
                    patch.setattr(model.estimators_[0], "_raw_predict", None)
                found = model.values_of(rows)
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(tdlg.models.trees, "_trees_of", lambda *_: None)
                np.testing.assert_array_equal(found, model.values_of(rows), strict=True)


@pytest.mark.usefixtures("few_trees")
class TestModels:
    def test_two_classes(self):
        edges = stream()
        assert_same_values(PropagationClassifier(setting="stream", random_state=0).fit(edges), edges)

    def test_two_classes_of_a_sample(self, monkeypatch):
        monkeypatch.setattr("tdlg.memory.MOST_LEARNT", 500)
        edges = stream()
        model = PropagationClassifier(setting="stream", random_state=0).fit(edges)
        assert np.ptp(model.log_shares_) > 0
        assert_same_values(model, edges)

    @pytest.mark.parametrize("n_classes", [3, SEVEN])
    def test_more_classes(self, n_classes, monkeypatch):
        monkeypatch.setattr("tdlg.memory.MOST_LEARNT", 500)
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

    def test_other_members_predict_themselves(self):
        edges = stream()
        own = PropagationClassifier(LogisticRegression(max_iter=2000), setting="stream", random_state=0)
        columns = TemporalEdges(edges.src, edges.dst, edges.time, label=edges.label)  # no missing values
        assert_same_values(own.fit(columns), columns, as_arrays=False)

    @pytest.mark.parametrize("n_classes", [2, SEVEN])
    def test_trees_beside_linear_models(self, n_classes):
        edges = stream(n_classes)
        plain = TemporalEdges(edges.src, edges.dst, edges.time, label=edges.label)  # no missing values
        assert_same_values(PropagationRegressor(setting="forecast", random_state=0).fit(plain), plain)
        model = PropagationClassifier(setting="forecast", random_state=0).fit(plain)
        assert len(model.estimators_) == (2 if n_classes == 2 else 2 * SEVEN)
        assert_same_values(model, plain)

    def test_trees_that_cannot_be_arrays_predict_themselves(self):
        edges = stream()
        own = HistGradientBoostingRegressor(loss="absolute_error", max_iter=5)
        assert_same_values(PropagationRegressor(own, setting="stream").fit(edges), edges, as_arrays=False)

    def test_classes_as_numbers_are_predicted_by_the_library(self):
        edges = stream(3, n_edges=400)
        own = HistGradientBoostingClassifier(max_iter=3, random_state=0)
        assert_same_values(PropagationRegressor(own, setting="stream").fit(edges), edges, as_arrays=False)
