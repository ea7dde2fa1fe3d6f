"""The base classes of the compared methods: a learnt vector per edge, which most make of the vectors of its two nodes."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning

from tdlg.checks import check_choice, check_count, check_number
from tdlg.edges import TemporalEdges
from tdlg.judge.methods import logistic_regression
from tdlg.judge.run import scores_of
from tdlg_paper.baselines.snapshots import Snapshots

Floats = NDArray[np.floating[Any]]
Callback = Callable[[int, int], bool | None]
Operator = Literal["hadamard", "average", "l1", "l2", "concatenate"]

OPERATORS: dict[str, Callable[[Floats, Floats], Floats]] = {
    "hadamard": lambda u, v: u * v,
    "average": lambda u, v: (u + v) / 2,
    "l1": lambda u, v: np.abs(u - v),
    "l2": lambda u, v: (u - v) ** 2,
    "concatenate": lambda u, v: np.hstack([u, v]),
}


@dataclass(repr=False, eq=False)
class EdgeVectorMethod(BaseEstimator, ABC):
    """A method that learns vectors of edges without labels, and classifies them by logistic regression.

    A subclass is a dataclass of its parameters and implements `_embed` and `features`.

    Parameters
    ----------
    n_components
        The length of the vectors.
    n_snapshots
        The number of even intervals of time, 20 by default as in the paper.
    class_weight
        "balanced" (default), as in the paper's edge classification, or None, as in its link prediction.
    random_state
        Seed for every random choice.
    """

    n_components: int = 128
    _: KW_ONLY
    n_snapshots: int = 20
    class_weight: Literal["balanced"] | None = "balanced"
    random_state: Any = None

    COUNTS: ClassVar[dict[str, int]] = {}  # parameters that are counts, with the smallest one
    NUMBERS: ClassVar[tuple[str, ...]] = ()  # parameters that are positive numbers

    @abstractmethod
    def _embed(self, snapshots: Snapshots, callback: Callback) -> Any:
        """What the features of edges are computed from; learning stops where callback(done, total) returns True."""

    @abstractmethod
    def features(self, edges: TemporalEdges) -> NDArray[np.float64]:
        """The vectors of edges of the same or of another table as those passed to `embed`, (n_edges, n_features)."""

    def _check(self) -> None:
        """Refuse invalid parameters."""
        owner = type(self).__name__
        for name, least in {"n_components": 1, **self.COUNTS}.items():
            check_count(owner, name, getattr(self, name), least)
        for name in self.NUMBERS:
            check_number(owner, name, getattr(self, name))

    def embed(self, edges: TemporalEdges, *, callback: Callback | None = None) -> None:
        """Learn the vectors; labels are not used."""
        self._check()
        self.edges_ = edges
        self.vectors_ = self._embed(self.snapshots_, callback or (lambda done, total: None))

    def fit(self, edges: TemporalEdges) -> Self:
        """Learn one weight per feature from the edges with a known label."""
        known = edges[edges.labelled]
        label = np.unique(np.asarray(known.label), return_inverse=True)[1]
        with warnings.catch_warnings():
            # of entries far apart in size; on bitcoinalpha, going on to the end moved the AUC by 0.03 points
            warnings.simplefilter("ignore", ConvergenceWarning)
            self.model_ = logistic_regression(self.class_weight).fit(self.features(known), label)
        return self

    def decision_function(self, edges: TemporalEdges) -> NDArray[np.float64]:
        """Score edges by their vectors."""
        return scores_of(self.model_, self.features(edges))

    @property
    def snapshots_(self) -> Snapshots:
        """The edges that were passed to `embed`, as snapshots."""
        return self.edges_.cached(("snapshots", self.n_snapshots), lambda: Snapshots(self.edges_, self.n_snapshots))


@dataclass(repr=False, eq=False)
class NodeVectorMethod(EdgeVectorMethod):
    """A method that learns vectors of nodes, and classifies edges by logistic regression on the vectors of their two nodes.

    `_embed` returns the vectors, shape (n_snapshots, n_nodes, n_components). For an edge, those of the snapshot that its
    time falls into are used, and those of the last snapshot for a later edge. A node that was not seen has a zero vector.

    Parameters
    ----------
    operator
        How the vectors u and v of the two nodes become the features of an edge: "hadamard" (default) for their product
        entry by entry, "average", "l1" for |u - v|, "l2" for (u - v)**2, or "concatenate".
    """

    _: KW_ONLY
    operator: Operator = "hadamard"

    def _check(self) -> None:
        super()._check()
        check_choice(type(self).__name__, "operator", self.operator, OPERATORS)

    def features(self, edges: TemporalEdges) -> NDArray[np.float64]:
        """The features of edges, shape (n_edges, n_components), twice as many columns with "concatenate"."""
        index = self.snapshots_.index_of(edges)
        u, v = (self._vectors_at(index, node) for node in self.snapshots_.nodes_of(edges))
        return np.asarray(OPERATORS[self.operator](u, v), np.float64)

    def _vectors_at(self, index: NDArray[np.int64], node: NDArray[np.int64]) -> Floats:
        vectors = self.vectors_[index, node].astype(np.float64)
        vectors[node < 0] = 0.0
        return vectors


def unit_scaled(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    """The vectors divided by one number, so that the mean square of their entries is 1; zero vectors do not count.

    The penalty of logistic regression depends on the scale of the features, which the losses of the methods leave open.
    """
    filled = vectors[vectors.any(axis=-1)]
    return vectors / np.sqrt(np.mean(filled**2)) if len(filled) else vectors
