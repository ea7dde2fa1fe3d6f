"""The boosted trees of the propagation models: their settings, and the rows that they learn from."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, StandardScaler
from sklearn.utils.validation import has_fit_parameter

from tdlg.exceptions import ParameterError

__all__ = [
    "MOST_ROWS",
    "ROWS_TO_TUNE",
    "TrainingRows",
    "boosting_settings",
    "is_clear",
    "is_enough",
    "latest",
    "linear_member",
    "quotas",
    "sampled_rows",
    "tuned_settings",
    "weights_for",
]

Floats = NDArray[np.float64]
Positions = NDArray[np.int64]

MOST_ROWS = 300_000  # more rows to learn from are sampled
NUMBERS_OF_TREES = (50, 100, 200, 300)
SHAPES: tuple[dict[str, Any], ...] = (  # settings to choose from, the usual ones first
    {},
    {"max_leaf_nodes": 7, "min_samples_leaf": 200, "l2_regularization": 10.0},
)
LEAST_PROBABILITY = 1e-9  # whose log is finite
BINS_OF_WEIGHTED = 63  # instead of 255: the bins of weighted rows are found slowly, one by one
ROWS_TO_TUNE = 60_000  # with more rows, the usual settings are used
INNER = 0.25  # share of the rows on which the settings are compared
ENOUGH_ROWS, ENOUGH_OF_CLASS = 1_000, 50  # in the inner part, for choosing settings


def boosting_settings(n_rows: int, n_columns: int = 0) -> dict[str, Any]:
    """Settings that suit noisy columns; with few rows, a leaf has at least a twentieth of them.

    Each split chooses among 30 % of the columns; of more than 67 columns among 20, but among at least 10 %.
    """
    return {
        "max_iter": 200,
        "learning_rate": 0.05,
        "max_leaf_nodes": 15,
        "min_samples_leaf": max(1, min(40, n_rows // 20)),
        "l2_regularization": 1.0,
        "max_features": float(np.clip(20 / max(n_columns, 1), 0.1, 0.3)),
        "early_stopping": False,
    }


class TrainingRows(NamedTuple):
    """Rows to learn from.

    Attributes
    ----------
    columns, target
        Columns, (n_rows, n_columns), and labels, (n_rows,).
    weight
        How much each row counts; None if all count the same.
    ticks
        Times, in ticks.
    """

    columns: Floats
    target: NDArray[Any]
    weight: Floats | None
    ticks: NDArray[Any]

    def some(self, which: NDArray[Any]) -> TrainingRows:
        """Some of the rows."""
        columns, target, weight, ticks = self
        return TrainingRows(columns[which], target[which], None if weight is None else weight[which], ticks[which])


def tuned_settings(make: Any, rows: TrainingRows, in_time: bool, rng: np.random.Generator) -> dict[str, Any]:
    """Settings of boosted trees that predict an inner part of the rows best.

    These are the usual settings if there are few rows, if no others are better by two standard errors, or if there are many
    rows, for which the usual settings are made: a sample would choose trees that are too small for all rows.

    Parameters
    ----------
    make
        A class of boosted trees.
    rows
        The rows to learn from.
    in_time
        Whether the inner part is the latest rows, else a random part.
    rng
        Generator for the random part, and for the seed of the trees.
    """
    settings = boosting_settings(len(rows.target), rows.columns.shape[1])
    if rows.weight is not None:
        rows, settings = rows.some(rows.weight > 0), settings | {"max_bins": BINS_OF_WEIGHTED}
    group = rows.target if make is HistGradientBoostingClassifier else np.zeros(len(rows.target))
    ticks = rows.ticks
    is_inner = latest(ticks) if in_time else rng.random(len(ticks)) < INNER
    if len(group) > ROWS_TO_TUNE or not is_enough(group[is_inner], group[~is_inner]):
        return settings
    inner, outer = rows.some(is_inner), rows.some(~is_inner)
    losses: dict[tuple[int, int], Floats] = {}
    seed = int(rng.integers(2**31))
    for k, shape in enumerate(SHAPES):
        trees = make(**settings | shape | {"max_iter": NUMBERS_OF_TREES[-1]}, random_state=seed)
        trees.fit(outer.columns, outer.target, sample_weight=outer.weight)
        losses |= {(k, n_trees): loss for n_trees, loss in _staged_losses(trees, inner)}
    usual = losses[0, settings["max_iter"]]
    best = min(losses, key=lambda key: np.average(losses[key], weights=inner.weight))
    if not is_clear(usual - losses[best], inner.weight):
        return settings
    return settings | SHAPES[best[0]] | {"max_iter": best[1]}


def is_clear(gain: Floats, weight: Floats | None) -> bool:
    """Whether the mean gain is more than two standard errors above 0."""
    weight = np.ones(len(gain)) if weight is None else weight
    mean = np.average(gain, weights=weight)
    error = np.sqrt((weight**2 * (gain - mean) ** 2).sum()) / weight.sum()
    return bool(mean > 2.0 * error)


def latest(ticks: NDArray[Any]) -> NDArray[np.bool_]:
    """The latest rows, on which what was learnt from the others is compared."""
    return np.asarray(ticks >= np.quantile(ticks, 1 - INNER))


def is_enough(inner: NDArray[Any], outer: NDArray[Any]) -> bool:
    """Whether there are enough rows of each class to compare models by."""
    of_inner, of_outer = (np.unique(part, return_counts=True)[1] for part in (inner, outer))
    smallest = min(of_inner.min(initial=len(inner)), of_outer.min(initial=len(outer)))
    return len(of_inner) == len(of_outer) and len(inner) >= ENOUGH_ROWS and smallest >= ENOUGH_OF_CLASS


def _staged_losses(trees: Any, rows: TrainingRows) -> Iterator[tuple[int, Floats]]:
    """The loss of each row after each of several numbers of trees."""
    if isinstance(trees, HistGradientBoostingRegressor):
        for n_trees, predicted in enumerate(trees.staged_predict(rows.columns), start=1):
            if n_trees in NUMBERS_OF_TREES:
                yield n_trees, (predicted - rows.target) ** 2
        return
    place = np.searchsorted(trees.classes_, rows.target)[:, np.newaxis]
    for n_trees, probability in enumerate(trees.staged_predict_proba(rows.columns), start=1):
        if n_trees in NUMBERS_OF_TREES:
            of_label = np.take_along_axis(probability, place, axis=1)[:, 0]
            yield n_trees, -np.log(np.maximum(of_label, LEAST_PROBABILITY))


def linear_member(estimator: Any) -> Any:
    """A linear model on scaled columns, each clipped to its range in training.

    Without clipping, a column that was nearly constant in training could outweigh all others.
    """
    return make_pipeline(MinMaxScaler(clip=True), StandardScaler(), estimator)


def weights_for(member: Any, weight: Floats | None) -> dict[str, Floats]:
    """Sample weights as keyword arguments for the member's `fit`."""
    if weight is None:
        return {}
    name, last = member.steps[-1] if hasattr(member, "steps") else ("", member)
    if not has_fit_parameter(last, "sample_weight"):
        raise ParameterError(
            f"The estimator {type(last).__name__} does not support 'sample_weight'. Leave it out, or use another estimator.",
            parameter="sample_weight",
        )
    return {f"{name}__sample_weight" if name else "sample_weight": weight}


def sampled_rows(group: NDArray[Any], most: int, rng: np.random.Generator) -> Positions:
    """Positions of at most `most` rows, in ascending order; rows of small groups are all kept.

    Parameters
    ----------
    group
        The group of each row: its class, or the same value for all rows.
    most
        The number of rows to keep.
    rng
        Generator for the sample.

    Examples
    --------
    >>> rows = sampled_rows(np.repeat([0, 1], [98, 2]), 10, np.random.default_rng(0))
    >>> len(rows), rows[-2:].tolist()
    (10, [98, 99])
    """
    if len(group) <= most:
        return np.arange(len(group))
    _, code, size = np.unique(group, return_inverse=True, return_counts=True)
    quota = quotas(size, most).tolist()
    groups = np.split(np.argsort(code, kind="stable"), np.cumsum(size)[:-1])
    return np.sort(np.concatenate([rng.choice(rows, n, replace=False) for rows, n in zip(groups, quota, strict=True)]))


def quotas(sizes: NDArray[np.int64], most: int) -> Positions:
    """How many rows of each group to keep, at most `most` in all: all rows of small groups, as many of the others.

    Examples
    --------
    >>> quotas(np.array([98, 2]), 10).tolist()
    [8, 2]
    """
    quota, left = np.zeros(len(sizes), np.int64), most
    for n_groups, k in zip(range(len(sizes), 0, -1), np.argsort(sizes), strict=True):  # small groups first
        quota[k] = min(sizes[k], left // n_groups)
        left -= quota[k]
    return quota
