"""LandmarkFeatures: the proximities of edges to a sample of the fitted edges."""

from __future__ import annotations

from typing import Any, Literal, cast

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from sklearn.utils.validation import check_is_fitted

from tdlg.checks import as_generator, check_choice
from tdlg.embed.features import EdgeFeatures
from tdlg.embed.resistances import effective_resistances
from tdlg.estimator import all_or_nothing
from tdlg.linegraph.decay import Decay
from tdlg.linegraph.normalized import NormalizedLineGraph
from tdlg.linegraph.operator import LineGraph, Normalization

__all__ = ["LandmarkFeatures"]

Sampling = Literal["uniform", "degree", "resistance"]


class LandmarkFeatures(EdgeFeatures):
    """Describe edges by their proximities to landmarks, which are sampled from the fitted edges.

    The result is some columns of the line graph. A row has an entry for every landmark that shares a node with the edge,
    so rows are sparse. Edges that share no node with a landmark get zeros.

    Parameters
    ----------
    n_components
        The number of landmarks; all edges if there are fewer.
    sampling
        How landmarks are sampled, without replacement. "uniform" (default): all are equally likely. "degree": in proportion
        to the row sums of H, which prefers edges that are close to many others. "resistance": in proportion to the effective
        resistance, which prefers edges that are the only link between parts of the network. Edges of probability 0 come
        last.
    decay
        How weights fade with time. By default `Gaussian()`, the paper's choice. Its bandwidth is fixed on the times of the
        fitted edges.
    normalization
        None (default), "spectral" or "edge", see `LineGraph.normalized`. Degrees are those among all fitted edges.
    dense
        Whether to return a numpy array instead of a scipy `csr_array`. False by default.
    n_threads
        Number of threads. By default all cores are used.
    random_state
        Seed for sampling.

    Attributes
    ----------
    landmarks_
        Positions of the landmarks among the fitted edges, ascending, shape (n_components_,).
    n_components_
        The number of columns.
    edges_, decay_
        The fitted edges and the frozen decay.

    See Also
    --------
    effective_resistances : the probabilities of sampling="resistance".

    Examples
    --------
    >>> from tdlg import Gaussian, LandmarkFeatures, TemporalEdges
    >>> edges = TemporalEdges(["ann", "bob", "ann"], ["bob", "cat", "cat"], [0.0, 1.0, 3.0])
    >>> landmarks = LandmarkFeatures(2, decay=Gaussian(bandwidth=1.0), dense=True, random_state=0).fit(edges)
    >>> landmarks.landmarks_
    array([0, 2])
    >>> landmarks.transform(edges).round(3)
    array([[2.   , 0.011],
           [0.607, 0.135],
           [0.011, 2.   ]])
    """

    landmarks_: NDArray[np.int64]

    def __init__(
        self,
        n_components: int = 128,
        *,
        sampling: Sampling = "uniform",
        decay: Decay | None = None,
        normalization: Normalization | None = None,
        dense: bool = False,
        n_threads: int | None = None,
        random_state: Any = None,
    ) -> None:
        self.n_components = n_components
        self.sampling = sampling
        self.decay = decay
        self.normalization = normalization
        self.dense = dense
        self.n_threads = n_threads
        self.random_state = random_state

    @all_or_nothing
    def fit(self, X: Any, y: Any = None) -> LandmarkFeatures:
        """Sample the landmarks.

        Parameters
        ----------
        X
            The edges.
        y
            Ignored.
        """
        check_choice("LandmarkFeatures", "sampling", self.sampling, ("uniform", "degree", "resistance"))
        self._fit_edges(X)
        rng = as_generator(self.random_state)
        self.landmarks_ = _sampled(self._weights(rng), self.n_components, rng)
        self.n_components_ = len(self.landmarks_)
        return self

    def transform(self, X: Any) -> csr_array | NDArray[np.float64]:
        """Compute the proximities of edges to the landmarks.

        Parameters
        ----------
        X
            The edges, fitted or new.
        """
        check_is_fitted(self)
        rows = self._edges(X, reset=False)
        graph = LineGraph(rows, self.edges_[self.landmarks_], decay=self.decay_, n_threads=self.n_threads)
        matrix = (graph if self.normalization is None else self._normalized(graph, self.normalization)).to_csr()
        return matrix.toarray() if self.dense else matrix

    def _normalized(self, columns: LineGraph, normalization: Normalization) -> NormalizedLineGraph:
        """The landmarks' columns of the normalised line graph, with the degrees of the whole line graph."""
        whole = cast(NormalizedLineGraph, self._graph(columns.rows))
        return NormalizedLineGraph(columns, normalization, left=whole.left, right=whole.right[self.landmarks_])

    def _fitted_shapes(self) -> dict[str, tuple[int, ...]]:
        return {"landmarks_": (self.n_components_,)}

    def _weights(self, rng: np.random.Generator) -> NDArray[np.float64]:
        """Unnormalised sampling probabilities of the edges."""
        if self.sampling == "degree":
            return LineGraph(self.edges_, decay=self.decay_, n_threads=self.n_threads).row_sums()
        if self.sampling == "resistance":
            return effective_resistances(self.edges_, random_state=rng)
        return np.ones(self.edges_.n_edges)


def _sampled(weights: NDArray[np.float64], size: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """A weighted sample without replacement: the smallest of exponential arrival times with these rates."""
    with np.errstate(divide="ignore"):
        arrivals = rng.exponential(size=weights.size) / np.maximum(weights, 0.0)
    return np.sort(np.argsort(arrivals, kind="stable")[:size])
