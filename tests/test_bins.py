"""Boosted trees on bins that see the tails."""

import numpy as np
import pytest
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.metrics import average_precision_score

from tdlg.models.trees import MISSING, bin_columns, fit_boosting

SETTINGS = {"max_iter": 30, "early_stopping": False, "random_state": 0, "min_samples_leaf": 5}


def rng():
    return np.random.default_rng(0)


def tail(n=20_000, n_positive=20):
    """A column whose highest values are the positive rows, fewer than a 255th of all; and one of noise."""
    columns = rng().normal(size=(n, 2))
    label = np.zeros(n, int)
    label[np.argsort(columns[:, 0])[-n_positive:]] = 1
    return columns, label


def test_the_tail_is_seen():
    columns, label = tail()
    ours = fit_boosting(
        HistGradientBoostingClassifier, SETTINGS, bin_columns(columns, label, rng(), classes=True), label
    )
    usual = HistGradientBoostingClassifier(**SETTINGS).fit(columns, label)
    precision, before = (average_precision_score(label, model.predict_proba(columns)[:, 1]) for model in (ours, usual))
    assert precision > 0.99 > 0.7 > before


def test_what_is_fitted_is_plain():
    columns, label = tail()
    binned = bin_columns(columns, label, rng(), classes=True)
    model = fit_boosting(HistGradientBoostingClassifier, SETTINGS, binned, label)
    assert type(model) is HistGradientBoostingClassifier
    assert not hasattr(model, "binned")
    assert model.n_features_in_ == 2


@pytest.mark.parametrize("n_values", [1, 2, 200, 255, 256, 300, 5000])
def test_codes_follow_the_order_of_values(n_values):
    column = rng().integers(n_values, size=5000).astype(float)
    column[:7] = np.nan
    binned = bin_columns(column[:, np.newaxis], np.arange(5000) % 2, rng(), classes=True)
    codes, known = binned.codes[:, 0], np.isfinite(column)
    assert (codes[:7] == MISSING).all()
    order = np.argsort(column[known])
    assert (np.diff(codes[known][order].astype(int)) >= 0).all()
    n_distinct = len(np.unique(column[known]))
    assert len(np.unique(codes[known])) == n_distinct if n_distinct <= MISSING else len(np.unique(codes[known])) > 200
    (thresholds,) = binned.thresholds
    assert len(thresholds) < MISSING
    assert (np.searchsorted(thresholds, column[known]) == codes[known]).all()


def test_each_tree_sees_some_columns():
    columns = rng().normal(size=(3000, 60))
    label = (columns.sum(axis=1) > 0).astype(int)
    binned = bin_columns(columns, label, rng(), classes=True)
    model = fit_boosting(HistGradientBoostingClassifier, SETTINGS | {"max_leaf_nodes": 63}, binned, label)
    nodes = [trees[0].nodes for trees in model._predictors]
    used = [set(some["feature_idx"][some["is_leaf"] == 0].tolist()) for some in nodes]
    assert max(map(len, used)) <= 27
    assert len(set().union(*used)) > 50, "trees differ"


def test_numbers_and_weights():
    columns = rng().normal(size=(4000, 3))
    target = np.where(columns[:, 0] > 2.5, 100.0, columns[:, 1])
    binned = bin_columns(columns, target, rng(), classes=False)
    model = fit_boosting(HistGradientBoostingRegressor, SETTINGS | {"max_iter": 200}, binned, target)
    assert model.score(columns, target) > 0.95
    weight = (columns[:, 0] > 0).astype(float)
    heavy = fit_boosting(HistGradientBoostingRegressor, SETTINGS, binned, np.sign(columns[:, 0]), weight)
    assert heavy.predict(columns).min() > 0.99, "rows of weight 0 are not learnt from"


def test_the_same_seed_gives_the_same_trees():
    columns, label = tail()
    binned = bin_columns(columns, label, rng(), classes=True)
    first, again = (fit_boosting(HistGradientBoostingClassifier, SETTINGS, binned, label) for _ in range(2))
    np.testing.assert_array_equal(first.predict_proba(columns), again.predict_proba(columns))


def test_constant_and_repeated_columns_are_left_out():
    columns, label = tail()
    noise = columns[:, 1:]
    wide = np.hstack([np.zeros((len(label), 50)), columns, 2.0 * np.repeat(noise, 50, axis=1)])
    models = []
    for some in (columns, wide):
        binned = bin_columns(some, label, rng(), classes=True)
        models.append(fit_boosting(HistGradientBoostingClassifier, SETTINGS, binned, label))
        nodes = np.concatenate([trees[0].nodes for trees in models[-1]._predictors])
        used = set(nodes["feature_idx"][nodes["is_leaf"] == 0].tolist())
        assert used == ({0, 1} if some is columns else {50, 51}), "each tree sees half of two columns"
    np.testing.assert_array_equal(models[0].predict_proba(columns), models[1].predict_proba(wide))


def test_only_constant_columns():
    label = np.arange(100) % 2
    binned = bin_columns(np.ones((100, 3)), label, rng(), classes=True)
    model = fit_boosting(HistGradientBoostingClassifier, SETTINGS, binned, label)
    np.testing.assert_allclose(model.predict_proba(np.ones((4, 3)))[:, 1], 0.5)
