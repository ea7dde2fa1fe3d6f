"""EdgeEmbedding and LowRankFeatures: columns of edges from the top eigenvectors of the line graph, exact or roughly."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.sparse.linalg import ArpackNoConvergence, LinearOperator, eigsh
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.exceptions import ConvergenceWarning

from tdlg.checks import as_generator, check_choice, check_count, check_number
from tdlg.estimator import EdgesEstimator, all_or_nothing, check_graph, check_shapes, fitted_graph
from tdlg.exceptions import warn
from tdlg.linegraph.decay import Decay
from tdlg.linegraph.operator import LineGraph, Normalization, NormalizedLineGraph

Floats = NDArray[np.float64]
Scaling = Literal["eigenvalue"]
MOST_RESTARTS = 300  # of the Lanczos basis, before a looser tolerance is tried
CHECK = 1e-3  # relative accuracy of the check for eigenvalues that were missed
SPARE = 8  # additional random vectors beyond n_components, because the last directions are inaccurate
RESOLVED = 1e-7  # eigenvalues below this share of the largest are within the error of products


class EdgeFeatures(EdgesEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator, ABC):
    """A transformer from edges to columns: the rows of H(edges, fitted edges) times weights."""

    decay: Decay | None
    n_components: int
    n_components_: int

    def _fit_edges(self, X: Any) -> LineGraph | NormalizedLineGraph:
        """Store the edges, fix the decay on their times, and return their line graph."""
        check_count(type(self).__name__, "n_components", self.n_components, 1)
        check_graph(self)
        self.edges_ = self._edges(X, reset=True)
        self.decay_ = LineGraph(self.edges_, decay=self.decay).decay
        return fitted_graph(self, self.edges_)

    def transform(self, X: Any) -> Floats:
        """Compute the columns of edges, fitted or new."""
        return fitted_graph(self, self._edges(X, reset=False)) @ self._weights()

    @abstractmethod
    def _weights(self) -> Floats:
        """The matrix by which the rows of the line graph are multiplied."""

    @property
    def _n_features_out(self) -> int:
        return self.n_components_


class EdgeEmbedding(EdgeFeatures):
    """Embed edges by the eigenvectors of their line graph with the largest eigenvalues in magnitude.

    This is the paper's "TDLG (Dense)". New edges are embedded by the Nystrom extension
    H(new, fitted) @ eigenvectors / eigenvalues, which gives fitted edges their own embedding again. Edges that share no node
    with the fitted edges get zeros.

    Parameters
    ----------
    n_components
        The number of eigenvectors. Default 128, the paper's choice. There are fewer if there are fewer edges, or fewer
        eigenvalues above `tol` times the largest.
    decay
        How weights fade with time. By default `Gaussian()`, the paper's choice. Its bandwidth is fixed on the times of the
        fitted edges.
    normalization
        None (default), "spectral" or "edge", see `LineGraph.normalized`.
    scaling
        None (default): eigenvectors of length 1, as in the paper. "eigenvalue": times |eigenvalue|, which usually helps
        a penalised linear model.
    tol
        The largest residual |H v - eigenvalue * v|, relative to the largest |eigenvalue|. If a fitted edge is transformed
        again, a column differs by about `tol` times the largest eigenvalue divided by that of the column.
    n_threads
        Number of threads. By default all cores are used.
    random_state
        Seed for the starting vectors; it changes the result only within `tol`.

    Attributes
    ----------
    eigenvalues_
        The eigenvalues by descending magnitude, shape (n_components_,).
    embedding_
        The embedding of the fitted edges, shape (n_edges, n_components_). The largest entry of each column is positive.
    n_components_
        The number of columns.
    edges_, decay_
        The fitted edges and the frozen decay.

    See Also
    --------
    LowRankFeatures : cheaper, and just as good for many purposes.

    Examples
    --------
    >>> from tdlg import EdgeEmbedding, Gaussian, TemporalEdges
    >>> edges = TemporalEdges(["ann", "bob", "ann"], ["bob", "cat", "cat"], [0.0, 1.0, 3.0])
    >>> embedding = EdgeEmbedding(n_components=2, decay=Gaussian(bandwidth=1.0)).fit(edges)
    >>> embedding.eigenvalues_.round(4)
    array([2.6239, 1.9953])
    >>> embedding.transform(edges).round(3)
    array([[ 0.689, -0.218],
           [ 0.706, -0.016],
           [ 0.165,  0.976]])
    """

    eigenvalues_: Floats
    embedding_: Floats

    def __init__(
        self,
        n_components: int = 128,
        *,
        decay: Decay | None = None,
        normalization: Normalization | None = None,
        scaling: Scaling | None = None,
        tol: float = 1e-6,
        n_threads: int | None = None,
        random_state: Any = None,
    ) -> None:
        self.n_components = n_components
        self.decay = decay
        self.normalization = normalization
        self.scaling = scaling
        self.tol = tol
        self.n_threads = n_threads
        self.random_state = random_state

    @all_or_nothing
    def fit(self, X: Any, y: Any = None) -> EdgeEmbedding:
        """Compute the eigenvectors of the line graph of the edges X; y is ignored."""
        check_choice("EdgeEmbedding", "scaling", self.scaling, (None, "eigenvalue"))
        check_number("EdgeEmbedding", "tol", self.tol, below=1)
        H, rng = self._fit_edges(X), as_generator(self.random_state)
        values, vectors, reached = top_eigenpairs(H, min(self.n_components, H.shape[0]), self.tol, rng)
        if reached > self.tol:
            warn(
                f"The eigenvectors reached only the tolerance {reached:g}, not {self.tol:g}.",
                f"Pass tol={float(f'{reached:.1g}')!r}.",
                category=ConvergenceWarning,
            )
        self.n_components_ = n_resolved(values, self.tol)
        self.eigenvalues_ = values[: self.n_components_]
        scales = np.abs(self.eigenvalues_) if self.scaling == "eigenvalue" else 1.0
        self.embedding_ = flip_signs(vectors[:, : self.n_components_]) * scales
        return self

    def fit_transform(self, X: Any, y: Any = None) -> Floats:
        """Compute the eigenvectors and return the embedding of the fitted edges."""
        return self.fit(X).embedding_.copy()

    def _weights(self) -> Floats:
        return self.embedding_ * inverted(self.eigenvalues_)

    def _check_loaded(self) -> None:
        if "edges_" in vars(self):
            check_shapes(self, embedding_=(len(self.edges_), self.n_components_), eigenvalues_=(self.n_components_,))


class LowRankFeatures(EdgeFeatures):
    """Describe edges by the rows of a low-rank factor F, where F @ F.T approximates H.

    A few products with random vectors give a basis Q of the directions in which H is large (a randomised range finder with
    power iterations), and F = H Q (Q^T H Q)^-1/2, the Nystrom approximation. It needs only n_iter + 2 products per column,
    whereas `EdgeEmbedding` continues until its columns are accurate. Edges that share no node with the fitted edges get
    zeros.

    Parameters
    ----------
    n_components
        The number of columns. There are fewer columns if there are fewer edges or H has a lower rank.
    decay
        How weights fade with time. By default `Gaussian()`, the paper's choice. Its bandwidth is fixed on the times of the
        fitted edges.
    normalization
        None (default), "spectral" or "edge", see `LineGraph.normalized`. "edge" may have negative eigenvalues, whose sign
        is dropped.
    n_iter
        The number of power iterations. Each one brings the columns closer to the best ones and costs one more product per
        column.
    n_threads
        Number of threads. By default all cores are used.
    random_state
        Seed for the random vectors.

    Attributes
    ----------
    components_
        The matrix by which rows of H are multiplied to get the features, shape (n_edges, n_components_).
    n_components_
        The number of columns.
    edges_, decay_
        The fitted edges and the frozen decay.

    Examples
    --------
    >>> import numpy as np
    >>> from tdlg import Gaussian, LineGraph, LowRankFeatures, TemporalEdges
    >>> rng = np.random.default_rng(0)
    >>> edges = TemporalEdges(rng.integers(0, 9, 500), rng.integers(0, 9, 500), rng.uniform(0, 1, 500))
    >>> F = LowRankFeatures(n_components=50, decay=Gaussian(bandwidth=0.3), random_state=0).fit_transform(edges)
    >>> H = LineGraph(edges, decay=Gaussian(bandwidth=0.3)).to_csr().toarray()
    >>> bool(np.abs(F @ F.T - H).max() < 0.02)
    True
    """

    components_: Floats

    def __init__(
        self,
        n_components: int = 128,
        *,
        decay: Decay | None = None,
        normalization: Normalization | None = None,
        n_iter: int = 2,
        n_threads: int | None = None,
        random_state: Any = None,
    ) -> None:
        self.n_components = n_components
        self.decay = decay
        self.normalization = normalization
        self.n_iter = n_iter
        self.n_threads = n_threads
        self.random_state = random_state

    @all_or_nothing
    def fit(self, X: Any, y: Any = None) -> LowRankFeatures:
        """Compute the directions from the edges X; y is ignored."""
        check_count("LowRankFeatures", "n_iter", self.n_iter, 0)
        H = self._fit_edges(X)
        width = min(self.n_components + SPARE, H.shape[0])
        Q = as_generator(self.random_state).normal(size=(H.shape[0], width))
        for _ in range(self.n_iter + 1):  # an orthonormal basis of a power of H times random vectors
            Q = np.linalg.qr(H @ Q)[0]
        values, turns = np.linalg.eigh(Q.T @ (H @ Q))
        best = np.argsort(-np.abs(values), kind="stable")[: self.n_components]
        best = best[: n_resolved(values[best], RESOLVED)]
        self.n_components_ = len(best)
        self.components_ = flip_signs(Q @ turns[:, best]) * np.sqrt(inverted(np.abs(values[best])))
        return self

    def _weights(self) -> Floats:
        return self.components_

    def _check_loaded(self) -> None:
        if "edges_" in vars(self):
            check_shapes(self, components_=(len(self.edges_), self.n_components_))


def top_eigenpairs(H: LinearOperator, k: int, tol: float, rng: np.random.Generator) -> tuple[Floats, Floats, float]:
    """The k eigenvalues of a symmetric H by descending magnitude, their vectors as columns, and the tolerance reached.

    Lanczos' method starts from one vector, so it may miss copies of a multiple eigenvalue. What is left of H without the
    vectors found shows whether it did: then its top eigenvectors join, until no larger eigenvalue is left.
    """
    if H.shape[0] <= 4 * k + 128:
        return *_largest(*np.linalg.eigh(H @ np.eye(H.shape[0])), k), tol
    values, vectors, reached = _lanczos(H, k, tol, rng)
    for _round in range(k):  # each round finds at least one
        rest = _without(H, values, vectors)
        (left,), _, _ = _lanczos(rest, 1, max(tol, CHECK), rng)
        if abs(left) <= abs(values[-1]) + tol * abs(values[0]):
            break
        _, more, worse = _lanczos(rest, k, tol, rng)
        basis = np.linalg.qr(np.hstack([vectors, more]))[0]
        inner, turns = np.linalg.eigh(basis.T @ (H @ basis))
        values, vectors = _largest(inner, basis @ turns, k)
        reached = max(reached, worse)
    return values, vectors, reached


def _lanczos(H: LinearOperator, k: int, tol: float, rng: np.random.Generator) -> tuple[Floats, Floats, float]:
    start = rng.normal(size=H.shape[0])
    while True:
        try:
            values, vectors = eigsh(H, k, tol=tol, v0=start, maxiter=MOST_RESTARTS)
            return *_largest(values, vectors, k), tol
        except ArpackNoConvergence:
            tol *= 100


def _without(H: LinearOperator, values: Floats, vectors: Floats) -> LinearOperator:
    """H minus its part in the span of these eigenvectors."""
    return LinearOperator(H.shape, lambda x: H @ x - vectors @ (values * (vectors.T @ x)), dtype=H.dtype)


def _largest(values: Floats, vectors: Floats, k: int) -> tuple[Floats, Floats]:
    order = np.argsort(-np.abs(values), kind="stable")[:k]
    return values[order], vectors[:, order]


def flip_signs(vectors: Floats) -> Floats:
    """Flip the signs of columns in place, so that the largest entry (the first of about equal ones) is positive."""
    sizes = np.abs(vectors)
    largest = (sizes >= (1 - 1e-6) * sizes.max(axis=0)).argmax(axis=0)
    vectors *= np.where(vectors[largest, np.arange(vectors.shape[1])] < 0, -1.0, 1.0)
    return vectors


def n_resolved(values: Floats, tol: float) -> int:
    """The number of eigenvalues, largest in magnitude first, that differ from 0 within the error; at least one."""
    sizes = np.abs(values)
    return max(1, int(np.count_nonzero(sizes > tol * sizes[0])))


def inverted(values: Floats) -> Floats:
    """1 / values, and 0 where a value is 0."""
    return np.divide(1.0, values, out=np.zeros_like(values), where=values != 0)
