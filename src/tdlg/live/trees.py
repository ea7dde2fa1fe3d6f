"""Boosted trees of scikit-learn, evaluated by our own compiled loops: the same numbers in a fraction of the time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.utils.validation import check_is_fitted

from tdlg._kernels.trees import MOST_LEAVES, NODE, sum_leaves
from tdlg.exceptions import ParameterError
from tdlg.models.propagation_classifier import SURE, PropagationClassifier
from tdlg.models.propagation_regressor import PropagationRegressor
from tdlg.propagate.columns import single

__all__ = ["CompiledModel", "CompiledTrees"]

Floats = NDArray[np.float64]
Positions = NDArray[np.int64]

LOSSES = ("log_loss", "squared_error")


class CompiledTrees:
    """A fitted `HistGradientBoostingClassifier` or `HistGradientBoostingRegressor` that is fast for one row and for many.

    All results are equal to those of scikit-learn, bit for bit. Columns may be in row order or in column order; neither is
    copied as a whole.

    Parameters
    ----------
    forest
        The trees as arrays.
    classes
        The classes of a classifier; None for a regressor.

    Examples
    --------
    >>> from sklearn.ensemble import HistGradientBoostingRegressor
    >>> columns = np.arange(100.0).reshape(50, 2)
    >>> estimator = HistGradientBoostingRegressor(max_iter=5).fit(columns, columns[:, 0])
    >>> trees = CompiledTrees.from_boosting(estimator)
    >>> bool((trees.predict(columns) == estimator.predict(columns)).all())
    True
    """

    def __init__(self, forest: Forest, classes: NDArray[Any] | None) -> None:
        self.forest = forest
        self.classes = classes

    @classmethod
    def from_boosting(cls, estimator: Any) -> Self:
        """The trees of a fitted estimator.

        Its loss has to be "log_loss" or "squared_error". An estimator with categorical columns, or with a tree of more than
        64 leaves, is refused.
        """
        if obstacle := _obstacle(estimator):
            raise ParameterError(
                f"The trees of this {type(estimator).__name__} cannot be compiled: {obstacle}.",
                "Use the methods of the estimator itself.",
                parameter="estimator",
            )
        own = np.arange(estimator.n_features_in_)
        return cls(Forest.of([estimator], [own], len(own)), getattr(estimator, "classes_", None))

    def raw(self, columns: Any) -> Floats:
        """Scores before the link function, (n_rows, n_trees_per_iteration)."""
        return self.forest.sums(columns)

    def predict_proba(self, columns: Any) -> Floats:
        """Probabilities of the classes, (n_rows, n_classes)."""
        if self.classes is None:
            raise AttributeError("A regressor has no 'predict_proba'. Call 'predict'.")
        return _probabilities(self.raw(columns))

    def predict(self, columns: Any) -> NDArray[Any]:
        """The most probable class of each row, or the number predicted for it; (n_rows,)."""
        raw = self.raw(columns)
        if self.classes is None:
            return raw[:, 0]
        codes = (raw[:, 0] > 0).astype(int) if raw.shape[1] == 1 else raw.argmax(axis=1)
        return self.classes[codes]


class CompiledModel:
    """A fitted propagation model whose columns are scored by compiled trees.

    If the model does not consist of boosted trees alone, as for forecasts or with an estimator of the user, its own methods
    are called.

    Parameters
    ----------
    model
        A fitted `PropagationClassifier` or `PropagationRegressor`.

    Attributes
    ----------
    model
        The model.
    forest
        All its trees; None if the model's own methods are called.
    """

    def __init__(self, model: PropagationClassifier | PropagationRegressor) -> None:
        check_is_fitted(model)
        self.model = model
        self.forest = _forest_of(model)
        self._of_one_class = _is_one_against_rest(model)

    def values(self, columns: Any) -> Floats:
        """Probabilities of a classifier, (n_rows, n_classes), or numbers of a regressor, (n_rows,)."""
        if self.forest is None:
            return self.model.values_of(columns)
        raw = self.forest.sums(single(columns))
        if isinstance(self.model, PropagationRegressor):
            return raw[:, 0]
        probabilities = expit(raw) if self._of_one_class else _probabilities(raw)
        logs = np.log(np.maximum(probabilities, SURE))
        return _softmax(np.ascontiguousarray(logs) + self.model.log_shares_)


class Forest(NamedTuple):
    """Trees as arrays.

    Attributes
    ----------
    n_columns
        The number of columns of the tables that the trees are evaluated on.
    columns, nodes, trees, leaves, outputs, baseline
        The arguments of `tdlg._kernels.trees.sum_leaves` of the same names.
    """

    n_columns: int
    columns: Positions
    nodes: NDArray[Any]
    trees: Positions
    leaves: Floats
    outputs: Positions
    baseline: Floats

    @classmethod
    def of(cls, estimators: Sequence[Any], columns_of: Sequence[Positions], n_columns: int) -> Self:
        """The trees of several fitted estimators; their outputs come one after another.

        Parameters
        ----------
        estimators
            Boosted trees that can be compiled.
        columns_of
            For each estimator, the positions of its columns among all columns.
        n_columns
            The number of all columns.
        """
        outputs = [
            [_packed(nodes, columns) for nodes in of_output]
            for estimator, columns in zip(estimators, columns_of, strict=True)
            for of_output in _nodes_by_output(estimator)
        ]
        trees = [tree for of_output in outputs for tree in of_output]
        nodes = np.concatenate([tree.nodes for tree in trees])
        used, nodes["column"] = np.unique(nodes["column"], return_inverse=True)
        first_node, first_leaf = _starts([tree.nodes for tree in trees]), _starts([tree.leaves for tree in trees])
        first_missing_right = first_node + np.array([*(tree.n_missing_left for tree in trees), 0])
        return cls(
            n_columns,
            used,
            nodes,
            np.column_stack([first_node, first_missing_right, first_leaf]),
            np.concatenate([tree.leaves for tree in trees]),
            _starts(outputs),
            np.concatenate([estimator._baseline_prediction.ravel() for estimator in estimators]),
        )

    def sums(self, columns: Any) -> Floats:
        """The sum of each output for each row, (n_rows, n_outputs); the rows of one output lie side by side."""
        columns = np.asarray(columns, np.float64)
        if columns.ndim != 2 or columns.shape[1] != self.n_columns:
            raise ParameterError(
                f"The trees were fitted on {self.n_columns} columns. Got an array of shape {columns.shape} instead.",
                f"Pass an array of shape (n_rows, {self.n_columns}).",
                parameter="columns",
            )
        n_rows = len(columns)
        steps = (1, n_rows) if columns.flags.f_contiguous else (self.n_columns, 1)
        sums = np.empty((len(self.baseline), n_rows))
        sum_leaves(columns.reshape(-1, order="A"), steps, *self[1:], sums)
        return sums.T


class _Tree(NamedTuple):
    """The nodes of one tree that split, first those that send missing values to the left; and its leaves."""

    nodes: NDArray[Any]
    n_missing_left: int
    leaves: Floats


def _packed(nodes: NDArray[Any], columns: Positions) -> _Tree:
    """A tree of scikit-learn, whose columns have these positions among all columns.

    Nodes are in preorder: leaves come from left to right, and a left subtree lies between its root and the right child.
    """
    is_leaf = nodes["is_leaf"] != 0
    n_leaves_before = (np.cumsum(is_leaf) - is_leaf).astype(np.uint64)
    inner = nodes[~is_leaf]
    missing_left = inner["missing_go_to_left"] != 0
    inner = np.concatenate([inner[missing_left], inner[~missing_left]])
    packed, one = np.empty(len(inner), NODE), np.uint64(1)
    packed["threshold"] = inner["num_threshold"]
    packed["keep"] = ~((one << n_leaves_before[inner["right"]]) - (one << n_leaves_before[inner["left"]]))
    packed["column"] = columns[inner["feature_idx"]]
    return _Tree(packed, int(missing_left.sum()), nodes["value"][is_leaf])


def _starts(parts: Sequence[Any]) -> Positions:
    """Where each part starts if all are joined, and where the last one ends."""
    return np.cumsum([0, *map(len, parts)])


def _nodes_by_output(estimator: Any) -> Iterator[list[NDArray[Any]]]:
    """For each output of an estimator, the nodes of its trees in their order."""
    for trees in zip(*estimator._predictors, strict=True):
        yield [tree.nodes for tree in trees]


def _obstacle(estimator: Any) -> str:
    """Why the trees of an estimator cannot be compiled; empty if they can."""
    if type(estimator) not in (HistGradientBoostingClassifier, HistGradientBoostingRegressor):
        return "only HistGradientBoostingClassifier and HistGradientBoostingRegressor are supported"
    check_is_fitted(estimator)
    if estimator.loss not in LOSSES:
        return f"its loss is {estimator.loss!r}, and only {' and '.join(map(repr, LOSSES))} are supported"
    if estimator.is_categorical_ is not None:
        return "it has categorical columns"
    trees = [nodes for of_output in _nodes_by_output(estimator) for nodes in of_output]
    n_leaves = max(np.count_nonzero(nodes["is_leaf"]) for nodes in trees)
    if n_leaves > MOST_LEAVES:
        return f"one of them has {n_leaves} leaves, more than {MOST_LEAVES}"
    return "" if all(map(_is_in_preorder, trees)) else "their nodes are not in the order of scikit-learn"


def _is_in_preorder(nodes: NDArray[Any]) -> bool:
    """Whether each left subtree follows its root, and each right subtree the left one; a damaged file may differ."""
    is_leaf, left, right = (nodes[name].tolist() for name in ("is_leaf", "left", "right"))
    ends = list(range(1, len(nodes) + 1))  # where the subtree of each node ends, known for later nodes
    for k in reversed(range(len(nodes))):
        if not is_leaf[k]:
            if left[k] != k + 1 or left[k] >= len(nodes) or right[k] != ends[left[k]] or right[k] >= len(nodes):
                return False
            ends[k] = ends[right[k]]
    return ends[0] == len(nodes)


def _forest_of(model: Any) -> Forest | None:
    """The trees of a propagation model; None if it has other members, or trees that cannot be compiled."""
    members, n_columns = model.estimators_, len(model.typical_)
    if _is_one_against_rest(model):
        columns_of = model.features_.plan_.columns_of_classes()
    else:
        columns_of = [np.arange(n_columns)]
    if len(members) != len(columns_of) or any(type(each) is not model._boosting or _obstacle(each) for each in members):
        return None
    return Forest.of(members, columns_of, n_columns)


def _is_one_against_rest(model: Any) -> bool:
    return isinstance(model, PropagationClassifier) and model._is_one_against_rest


def _probabilities(raw: Floats) -> Floats:
    """Probabilities of the classes: of two by one score per row, of more by one score per class."""
    if raw.shape[1] > 1:
        return _softmax(raw)
    probabilities = np.empty((len(raw), 2))
    expit(raw[:, 0], out=probabilities[:, 1])
    np.subtract(1.0, probabilities[:, 1], out=probabilities[:, 0])
    return probabilities


def _softmax(scores: Floats) -> Floats:
    """Softmax of each row: the steps of scikit-learn and scipy, without their checks, which take longer than the steps."""
    powers = np.exp(scores - np.maximum.reduce(scores, axis=1, keepdims=True))
    powers /= np.add.reduce(powers, axis=1, keepdims=True)
    return powers
