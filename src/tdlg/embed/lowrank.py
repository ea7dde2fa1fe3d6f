"""LowRankFeatures: columns whose inner products approximate the line graph, from a few products with random vectors."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tdlg.checks import as_generator, check_count
from tdlg.embed.features import EdgeFeatures, flip_signs, inverted, n_resolved
from tdlg.estimator import all_or_nothing, check_shapes
from tdlg.linegraph.decay import Decay
from tdlg.linegraph.operator import Normalization

SPARE = 8  # additional random vectors beyond n_components, because the last directions are inaccurate
RESOLVED = 1e-7  # eigenvalues below this share of the largest are within the error of products


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

    components_: NDArray[np.float64]

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

    def _weights(self) -> NDArray[np.float64]:
        return self.components_

    def _check_loaded(self) -> None:
        if "edges_" in vars(self):
            check_shapes(self, components_=(len(self.edges_), self.n_components_))
