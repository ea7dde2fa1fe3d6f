"""Boosted trees as flat arrays, those of scikit-learn and of LightGBM, evaluated by compiled loops in the calling thread.

The numbers of scikit-learn are the same to the last bit, a row takes microseconds, and LightGBM is not needed to score.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from hashlib import blake2b
from typing import Any, NamedTuple, Self
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.ensemble._hist_gradient_boosting.binning import _BinMapper
from threadpoolctl import threadpool_limits

from tdlg._kernels import MOST_LEAVES
from tdlg.memory import fitting_threads

Floats = NDArray[np.float64]
Positions = NDArray[np.int64]

NODE = np.dtype(  # of LightGBM's trees, with the names of scikit-learn's
    [
        ("value", np.float64),
        ("feature_idx", np.int64),
        ("num_threshold", np.float64),
        ("missing_go_to_left", np.bool_),
        ("left", np.int64),
        ("right", np.int64),
        ("is_leaf", np.bool_),
    ]
)


class Trees(NamedTuple):
    """Trees whose nodes send a value above a threshold to the right, as `tdlg._kernels.trees.sum_leaves` takes them."""

    n_columns: int  # of the tables that the trees are evaluated on
    column: Positions  # by node that splits, as are the next three
    threshold: Floats
    keep: NDArray[np.uint64]  # bits of all leaves of its tree but those on its left
    missing_right: NDArray[np.bool_]  # whether missing values go to the right
    first_node: Positions  # where the nodes of each tree begin, and where the last ones end
    first_leaf: Positions  # the same of the leaves
    leaves: Floats  # their values
    outputs: Positions  # the first tree of each output, and the end
    baseline: Floats  # by output

    @classmethod
    def from_boosting(cls, estimators: Sequence[Any], columns_of: Sequence[Positions] | None = None) -> Self | None:
        """The trees of fitted HistGradientBoosting estimators, whose outputs come one after another.

        columns_of : for each estimator, the positions of its columns in the table; by default all use the whole table.
        None if a column has categories or a tree more than 64 leaves: scikit-learn has to evaluate these itself.
        """
        if any(estimator.is_categorical_ is not None for estimator in estimators):
            return None
        columns_of = [np.arange(one.n_features_in_) for one in estimators] if columns_of is None else columns_of
        trees, columns, outputs = [], [], [0]
        for estimator, own in zip(estimators, columns_of, strict=True):
            for of_output in zip(*estimator._predictors, strict=True):
                trees += [tree.nodes for tree in of_output]
                columns += [own] * len(of_output)
                outputs.append(len(trees))
        baseline = np.concatenate([estimator._baseline_prediction.ravel() for estimator in estimators])
        return cls._packed(trees, columns, outputs, baseline)

    @classmethod
    def from_booster(cls, booster: Any) -> Self:
        """The trees of a LightGBM booster that was trained on columns without missing values and without categories."""
        dump = booster.dump_model()
        trees = [_nodes_of(tree["tree_structure"]) for tree in dump["tree_info"]]
        columns = [np.arange(dump["max_feature_idx"] + 1)] * len(trees)
        packed = cls._packed(trees, columns, [0, len(trees)], np.zeros(1))
        if packed is None:
            raise ValueError(f"a tree has more than {MOST_LEAVES} leaves")
        return packed

    @classmethod
    def _packed(
        cls, trees: list[NDArray[Any]], columns: list[Positions], outputs: list[int], baseline: Floats
    ) -> Self | None:
        """Trees of nodes whose children come after them; None if one has too many leaves, or nodes with several parents.

        columns : for each tree, the positions of its columns in the table.
        """
        from tdlg._kernels.trees import number_leaves

        first = _starts(list(map(len, trees)))
        nodes, of_tree = np.concatenate(trees), np.repeat(np.arange(len(trees)), np.diff(first))
        inner = np.flatnonzero(nodes["is_leaf"] == 0)
        leaf = np.flatnonzero(nodes["is_leaf"])
        left, right = (nodes[side].astype(np.int64) + first[of_tree] for side in ("left", "right"))
        n_parents = np.bincount(np.concatenate([left[inner], right[inner], first[:-1]]), minlength=len(nodes))
        n_leaves = np.bincount(of_tree[leaf], minlength=len(trees))
        if n_leaves.max() > MOST_LEAVES or (n_parents != 1).any():
            return None
        n_below, n_before = np.zeros((2, len(nodes)), np.int64)
        number_leaves(left, right, nodes["is_leaf"] != 0, n_below, n_before)
        first_leaf = _starts(n_leaves)
        leaves = np.empty(len(leaf))
        leaves[first_leaf[of_tree[leaf]] + n_before[leaf]] = nodes["value"][leaf]
        column = [own[nodes["feature_idx"][nodes["is_leaf"] == 0]] for own, nodes in zip(columns, trees, strict=True)]
        begin, one = n_before[inner].astype(np.uint64), np.uint64(1)
        end = begin + n_below[left[inner]].astype(np.uint64)
        return cls(
            1 + max(int(own.max()) for own in columns),
            np.concatenate(column),
            nodes["num_threshold"][inner],
            ~((one << end) - (one << begin)),
            nodes["missing_go_to_left"][inner] == 0,
            _starts(np.bincount(of_tree[inner], minlength=len(trees))),
            first_leaf,
            leaves,
            np.array(outputs),
            baseline,
        )

    @property
    def n_trees(self) -> int:
        """The number of trees."""
        return len(self.first_node) - 1

    def between(self, start: int, stop: int) -> Self:
        """Some of the trees of a single output."""
        nodes, leaves = (slice(first[start], first[stop]) for first in (self.first_node, self.first_leaf))
        return self._replace(
            column=self.column[nodes],
            threshold=self.threshold[nodes],
            keep=self.keep[nodes],
            missing_right=self.missing_right[nodes],
            first_node=self.first_node[start : stop + 1] - self.first_node[start],
            first_leaf=self.first_leaf[start : stop + 1] - self.first_leaf[start],
            leaves=self.leaves[leaves],
            outputs=np.array([0, stop - start]),
        )

    def sums(self, columns: Any) -> Floats:
        """The baseline and the leaves of each output and row, (n_rows, n_outputs); rows or columns may lie side by side."""
        from tdlg._kernels.trees import sum_leaves

        columns = np.asarray(columns, np.float64)
        if columns.ndim != 2 or columns.shape[1] != self.n_columns:
            raise ValueError(f"The trees were fitted on {self.n_columns} columns. Got shape {columns.shape} instead.")
        steps = (1, len(columns)) if columns.flags.f_contiguous else (self.n_columns, 1)
        sums = np.empty((len(self.baseline), len(columns)))
        sum_leaves(columns.reshape(-1, order="A"), steps, tuple(self), sums)
        return sums.T

    def check(self, n_columns: int) -> None:
        """Refuse arrays, such as those of a damaged file, that compiled loops could not follow without leaving them."""
        n_nodes, n_leaves = np.diff(self.first_node), np.diff(self.first_leaf)
        arrays = {
            np.int64: (self.column, self.first_node, self.first_leaf, self.outputs),
            np.float64: (self.threshold, self.leaves, self.baseline),
            np.uint64: (self.keep,),
            np.bool_: (self.missing_right,),
        }
        types = all(array.dtype == kind and array.ndim == 1 for kind, some in arrays.items() for array in some)
        ends = len(self.column), len(self.leaves), self.n_trees
        if not (
            types
            and self.n_columns == n_columns
            and len(self.threshold) == len(self.keep) == len(self.missing_right) == len(self.column)
            and (self.first_node[0], self.first_leaf[0], self.outputs[0]) == (0, 0, 0)
            and (self.first_node[-1], self.first_leaf[-1], self.outputs[-1]) == ends
            and np.array_equal(n_leaves, n_nodes + 1)
            and (n_nodes >= 0).all()
            and (n_leaves <= MOST_LEAVES).all()
            and (np.diff(self.outputs) >= 0).all()
            and len(self.baseline) == len(self.outputs) - 1
            and ((self.column >= 0) & (self.column < n_columns)).all()
            and self._all_reach_a_leaf(n_leaves)
        ):
            raise ValueError("the trees of the ranking are damaged")

    def _all_reach_a_leaf(self, n_leaves: Positions) -> bool:
        """Whether the last leaf of each tree is kept by all its nodes, so that some leaf always is."""
        last = np.repeat(n_leaves - 1, np.diff(self.first_node)).astype(np.uint64)
        return bool(((self.keep >> last) & np.uint64(1) == 1).all())


def _starts(sizes: Any) -> Positions:
    """Where parts of these sizes start if all are joined, and where the last one ends."""
    return np.append(0, np.cumsum(sizes))


def _nodes_of(root: dict[str, Any]) -> NDArray[Any]:
    """The nodes of a tree of LightGBM."""
    nodes: list[Any] = []

    def visit(node: dict[str, Any]) -> int:
        place = len(nodes)
        nodes.append(None)
        if "leaf_value" in node:
            nodes[place] = (node["leaf_value"], 0, 0.0, False, 0, 0, True)
        else:
            children = visit(node["left_child"]), visit(node["right_child"])
            nodes[place] = (0.0, node["split_feature"], node["threshold"], True, *children, False)
        return place

    visit(root)
    return np.array(nodes, NODE)


# ---- predictions of estimators, by their trees as arrays if they have such

_KEPT: WeakKeyDictionary[Any, tuple[list[Any], Trees | None]] = WeakKeyDictionary()  # by the first estimator


def predict_proba(estimator: Any, columns: Floats) -> Floats:
    """Probabilities of the classes, (n_rows, n_classes)."""
    trees = _trees_of([estimator], "log_loss")
    if trees is None:
        return np.asarray(estimator.predict_proba(columns))
    raw = trees.sums(columns)
    if raw.shape[1] > 1:
        return softmax(raw)
    probabilities = np.empty((len(raw), 2))
    expit(raw[:, 0], out=probabilities[:, 1])
    np.subtract(1.0, probabilities[:, 1], out=probabilities[:, 0])
    return probabilities


def predict_one_against_rest(
    estimators: Sequence[Any], columns: Floats, columns_of: Callable[[], Sequence[Positions]]
) -> Floats:
    """The probability that each of several two-class estimators gives its second class, (n_rows, n_estimators).

    columns_of : gives, for each estimator, the positions of its columns.
    """
    trees = _trees_of(estimators, "log_loss", columns_of)
    if trees is not None:
        return np.asarray(expit(trees.sums(columns)))
    each = [one.predict_proba(columns[:, own])[:, 1] for one, own in zip(estimators, columns_of(), strict=True)]
    return np.column_stack(each)


def predict(estimator: Any, columns: Floats) -> Floats:
    """Predicted numbers, (n_rows,)."""
    trees = _trees_of([estimator], "squared_error")
    return np.asarray(estimator.predict(columns)) if trees is None else trees.sums(columns)[:, 0]


def softmax(scores: Floats) -> Floats:
    """Softmax of each row: the steps of scikit-learn and scipy, without their checks, which take longer than the steps."""
    powers = np.exp(scores - np.maximum.reduce(scores, axis=1, keepdims=True))
    powers /= np.add.reduce(powers, axis=1, keepdims=True)
    return powers


def _trees_of(
    estimators: Sequence[Any], loss: str, columns_of: Callable[[], Sequence[Positions]] | None = None
) -> Trees | None:
    """The trees of fitted estimators, made when first asked for; None if they are not boosted trees with this loss."""
    kinds = (HistGradientBoostingClassifier, HistGradientBoostingRegressor)
    if any(type(estimator) not in kinds or estimator.loss != loss for estimator in estimators):
        return None
    fitted = [estimator._predictors for estimator in estimators]
    found = _KEPT.get(estimators[0])
    if found is None or found[0] != fitted:  # lists of trees, which are equal only if they are the same
        places = None if columns_of is None else columns_of()
        found = _KEPT[estimators[0]] = fitted, Trees.from_boosting(estimators, places)
    return found[1]


# ---- fitting them, on bins that see the tails


MISSING = 255  # the bin of missing values
OF_ALL, OF_RARE, OF_TAIL = 100, 130, 12  # thresholds by quantiles of all rows, of rare rows, and in each of both tails
RARE = 0.1  # largest share of a rare class; of numbers, the shares of the lowest and of the highest that are rare
ROWS_LOOKED_AT = 200_000  # of all rows, and of the rare ones
LEAST_GAP = 1e-5  # between two bins, as a share of the value
COLUMNS_PER_TREE = 27  # how many columns each tree sees
SHARES_PER_TREE = (0.2, 0.5)  # and the least and the largest share of them


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

    def useful(self) -> Positions:
        """Positions of the columns that tell rows apart, each kind of bins once: a tree could not use the others."""
        kinds: dict[bytes, int] = {}
        for k, codes in enumerate(self.codes.T):
            if len(codes) and (codes != codes[0]).any():
                kinds.setdefault(blake2b(codes.tobytes(), digest_size=16).digest(), k)
        return np.array(list(kinds.values()) or [0], np.int64)


def bin_columns(
    columns: NDArray[np.floating[Any]], target: NDArray[Any], rng: np.random.Generator, *, classes: bool
) -> BinnedColumns:
    """Choose bins from training rows, and put the rows into them.

    target : the labels, of which rare classes, or the lowest and the highest numbers, get bins of their own.
    """
    from tdlg._kernels.trees import put_into_bins

    some, rare = _sampled_rows(np.arange(len(target)), rng), _sampled_rows(_rare_rows(target, classes), rng)
    thresholds = [_thresholds(column[some], column[rare]) for column in columns.T]
    codes = np.empty(columns.shape, np.uint8, order="F")
    for column, limits, of_column in zip(columns.T, thresholds, codes.T, strict=True):
        put_into_bins(np.ascontiguousarray(column), limits, MISSING, of_column)
    return BinnedColumns(codes, thresholds)


def _rare_rows(target: NDArray[Any], classes: bool) -> NDArray[np.int64]:
    if not classes:
        low, high = np.quantile(target, [RARE, 1.0 - RARE])
        return np.flatnonzero((target < low) | (target > high))
    _, code, count = np.unique(target, return_inverse=True, return_counts=True)
    return np.flatnonzero((count < RARE * len(target))[code])


def _sampled_rows(rows: NDArray[np.int64], rng: np.random.Generator) -> NDArray[np.int64]:
    return rows if len(rows) <= ROWS_LOOKED_AT else np.sort(rng.choice(rows, ROWS_LOOKED_AT, replace=False))


def _thresholds(column: NDArray[np.floating[Any]], rare: NDArray[np.floating[Any]]) -> Floats:
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
    low, high = values[at].astype(np.float64), values[at + 1].astype(np.float64)
    clear = high - low > LEAST_GAP * np.abs(low)  # rounding must not decide between two bins
    return (low + (high - low) / 2.0)[clear]


def fit_boosting(
    make: type, settings: dict[str, Any], binned: BinnedColumns, target: NDArray[Any], weight: Floats | None = None
) -> Any:
    """Boosted trees of a class of scikit-learn, fitted to rows in bins.

    Columns that are constant in these rows, or in the same bins as an earlier column, are not used. Each tree sees a fifth
    of the others, of fewer than 135 columns 27, but at most half of them.
    """
    settings = settings | {"max_features": 1.0}
    grown = _OURS[make](**settings)
    grown.binned, grown.useful = binned, binned.useful()
    n_useful = len(grown.useful)
    grown.n_per_tree = max(round(n_useful * np.clip(COLUMNS_PER_TREE / n_useful, *SHARES_PER_TREE)), 1)
    shape_only = np.broadcast_to(0.0, binned.codes.shape)  # the values themselves are not looked at
    with threadpool_limits(fitting_threads(len(binned.codes) * grown.n_per_tree), user_api="openmp"):
        grown.fit(shape_only, target, sample_weight=weight)
    plain = make(**settings)
    plain.__dict__.update({k: v for k, v in grown.__dict__.items() if k not in ("binned", "useful", "n_per_tree")})
    plain._interaction_cst = None
    return plain


class _OnBins:
    """What is changed in scikit-learn's `fit`."""

    binned: BinnedColumns
    useful: Positions
    n_per_tree: int
    _bin_mapper: Any
    random_state: Any

    def _bin_data(self, X: Any, *args: Any, **kwargs: Any) -> NDArray[np.uint8]:
        self._bin_mapper = _mapper(self.binned.thresholds)
        return self.binned.codes

    def _check_interaction_cst(self, n_features: int) -> Any:
        return (
            _SampledColumns(self.useful, self.n_per_tree, self.random_state) if self.n_per_tree < n_features else None
        )


class _Classifier(_OnBins, HistGradientBoostingClassifier):
    pass


class _Regressor(_OnBins, HistGradientBoostingRegressor):
    pass


_OURS: dict[type, type] = {HistGradientBoostingClassifier: _Classifier, HistGradientBoostingRegressor: _Regressor}


class _SampledColumns:
    """A set of columns that may interact, all others being left out: another set for each tree, which iterates once."""

    def __init__(self, columns: Positions, n: int, seed: Any) -> None:
        self._columns, self._n, self._rng = columns, min(n, len(columns)), np.random.default_rng(seed)
        self._now: set[int] = set()

    def __iter__(self) -> Iterator[set[int]]:
        self._now = set(self._rng.choice(self._columns, self._n, replace=False).tolist())
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
