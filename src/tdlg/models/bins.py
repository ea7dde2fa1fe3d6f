"""Boosted trees of scikit-learn on bins that see the tails, each tree on some of the columns.

Histograms of boosted trees have 255 bins per column. At equal frequencies, the highest 0.4 % of the rows are one bin, and
these are often the rows that matter. Here, a part of the bins follows the rows of rare classes and the tails. They are made
once for all fits of a model. Each tree sees a sample of the columns, so that only their histograms are made, and the trees
differ more. What is fitted is an ordinary estimator of scikit-learn, whose thresholds are values of the columns.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.ensemble._hist_gradient_boosting.binning import _BinMapper
from threadpoolctl import threadpool_limits

from tdlg.memory import free_cores

Floats = NDArray[np.float64]

MISSING = 255  # the bin of missing values
OF_ALL, OF_RARE, OF_TAIL = 100, 130, 12  # thresholds by quantiles of all rows, of rare rows, and in each of both tails
RARE = 0.1  # largest share of a rare class; of numbers, the shares of the lowest and of the highest that are rare
ROWS_LOOKED_AT = 200_000  # of all rows, and of the rare ones
LEAST_GAP = 1e-5  # between two bins, as a share of the value
COLUMNS_PER_TREE = 27  # how many columns each tree sees
SHARES_PER_TREE = (0.2, 0.5)  # and the least and the largest share of them
FEW_CELLS = 2_000_000  # rows times columns of a tree, up to which threads would mostly wait for each other


class BinnedColumns(NamedTuple):
    """Columns as bins.

    codes : the bin of each value, (n_rows, n_columns), one column after the other; thresholds : for each column, the largest
    value of each bin but the last one.
    """

    codes: NDArray[np.uint8]
    thresholds: list[Floats]

    def some(self, rows: NDArray[Any]) -> BinnedColumns:
        """Some of the rows, in the same bins."""
        return BinnedColumns(np.asfortranarray(self.codes[rows]), self.thresholds)


def bin_columns(columns: Floats, target: NDArray[Any], rng: np.random.Generator, *, classes: bool) -> BinnedColumns:
    """Choose bins from training rows, and put the rows into them.

    target : the labels, of which rare classes, or the lowest and the highest numbers, get bins of their own.
    """
    some, rare = _sampled(np.arange(len(target)), rng), _sampled(_rare_rows(target, classes), rng)
    thresholds = [_thresholds(column[some], column[rare]) for column in columns.T]
    mapper = _mapper(thresholds)
    return BinnedColumns(mapper.transform(columns), thresholds)


def _rare_rows(target: NDArray[Any], classes: bool) -> NDArray[np.int64]:
    if not classes:
        low, high = np.quantile(target, [RARE, 1.0 - RARE])
        return np.flatnonzero((target < low) | (target > high))
    _, code, count = np.unique(target, return_inverse=True, return_counts=True)
    return np.flatnonzero((count < RARE * len(target))[code])


def _sampled(rows: NDArray[np.int64], rng: np.random.Generator) -> NDArray[np.int64]:
    return rows if len(rows) <= ROWS_LOOKED_AT else np.sort(rng.choice(rows, ROWS_LOOKED_AT, replace=False))


def _thresholds(column: Floats, rare: Floats) -> Floats:
    """Values halfway between a quantile and the next larger value, without missing ones."""
    values, counts = np.unique(column[~np.isnan(column)], return_counts=True)
    if len(values) > MISSING:
        rare = np.sort(rare[~np.isnan(rare)])
        n_rare = min(OF_RARE, len(rare))
        tail = 0.5 ** np.arange(1, OF_TAIL + 1)
        even = np.arange(1, OF_ALL + OF_RARE - n_rare + 1) / (OF_ALL + OF_RARE - n_rare + 1)
        ends = np.cumsum(counts)
        at = np.searchsorted(ends, np.concatenate([even, tail, 1.0 - tail]) * ends[-1])
        chosen = np.concatenate([values[at], rare[np.linspace(0, len(rare) - 1, n_rare).astype(np.int64)]])
        at = np.unique(np.searchsorted(values, chosen))
    else:
        at = np.arange(len(values))
    at = at[at < len(values) - 1][: MISSING - 1]
    gaps = values[at + 1] - values[at]
    clear = gaps > LEAST_GAP * np.abs(values[at])  # rounding must not decide between two bins
    return values[at[clear]] + gaps[clear] / 2.0


def fit_boosting(
    make: type, settings: dict[str, Any], binned: BinnedColumns, target: NDArray[Any], weight: Floats | None = None
) -> Any:
    """Boosted trees of a class of scikit-learn, fitted to rows in bins.

    Each tree sees a fifth of the columns, of fewer than 135 columns 27, but at most half of them.
    """
    n_rows, n_columns = binned.codes.shape
    settings = settings | {"max_features": 1.0}
    grown = _OURS[make](**settings)
    grown.binned = binned
    grown.n_per_tree = max(round(n_columns * np.clip(COLUMNS_PER_TREE / n_columns, *SHARES_PER_TREE)), 1)
    shape_only = np.broadcast_to(0.0, binned.codes.shape)  # the values themselves are not looked at
    n_threads = free_cores() if n_rows * grown.n_per_tree > FEW_CELLS else 1
    with threadpool_limits(n_threads, user_api="openmp"):
        grown.fit(shape_only, target, sample_weight=weight)
    plain = make(**settings)
    plain.__dict__.update({k: v for k, v in grown.__dict__.items() if k not in ("binned", "n_per_tree")})
    plain._interaction_cst = None
    return plain


class _OnBins:
    """What is changed in scikit-learn's `fit`."""

    binned: BinnedColumns
    n_per_tree: int
    _bin_mapper: Any
    random_state: Any

    def _bin_data(self, X: Any, *args: Any, **kwargs: Any) -> NDArray[np.uint8]:
        self._bin_mapper = _mapper(self.binned.thresholds)
        return self.binned.codes

    def _check_interaction_cst(self, n_features: int) -> Any:
        n = self.n_per_tree
        return _SampledColumns(n_features, n, self.random_state) if n < n_features else None


class _Classifier(_OnBins, HistGradientBoostingClassifier):
    pass


class _Regressor(_OnBins, HistGradientBoostingRegressor):
    pass


_OURS: dict[type, type] = {HistGradientBoostingClassifier: _Classifier, HistGradientBoostingRegressor: _Regressor}


class _SampledColumns:
    """A set of columns that may interact, all others being left out: another set for each tree, which iterates once."""

    def __init__(self, n_columns: int, n: int, seed: Any) -> None:
        self._n_columns, self._n, self._rng = n_columns, n, np.random.default_rng(seed)
        self._now: set[int] = set()

    def __iter__(self) -> Iterator[set[int]]:
        self._now = set(self._rng.choice(self._n_columns, self._n, replace=False).tolist())
        return iter([self._now])

    def __getitem__(self, place: int) -> set[int]:
        return [self._now][place]

    def __len__(self) -> int:
        return 1


def _mapper(thresholds: list[Floats]) -> Any:
    """Bins as scikit-learn keeps them."""
    mapper = _BinMapper(n_bins=MISSING + 1)
    mapper.bin_thresholds_, mapper.missing_values_bin_idx_ = thresholds, MISSING
    mapper.n_bins_non_missing_ = np.array([len(some) + 1 for some in thresholds], np.uint32)
    mapper.is_categorical_ = np.zeros(len(thresholds), np.uint8)
    return mapper
