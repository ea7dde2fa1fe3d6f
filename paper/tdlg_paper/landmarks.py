"""Landmarks: edges described by their proximities to a sample of the edges, drawn uniformly or by degree or resistance.

From 32 columns on they lose against eigenvectors (docs/reduced-features.md); they are here for the comparison only.
"""

from __future__ import annotations

import warnings
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from tdlg.checks import as_generator, check_choice, check_count, check_number
from tdlg.edges import TemporalEdges
from tdlg.estimator import EdgesEstimator
from tdlg.linegraph.decay import Decay
from tdlg.linegraph.operator import LineGraph

Array = NDArray[np.float64]
Sampling = Literal["uniform", "degree", "resistance"]
SAMPLINGS: tuple[Sampling, ...] = ("uniform", "degree", "resistance")
DENSE_NODES = 2000  # up to this number of nodes, a dense inverse is exact and takes less than a second
TOGETHER = 40  # number of systems that are solved together
MOST_STEPS = 10_000


class LandmarkFeatures(EdgesEstimator, TransformerMixin, BaseEstimator):
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
    random_state
        Seed for sampling.

    Attributes
    ----------
    landmarks_
        Positions of the landmarks among the fitted edges, ascending.
    edges_, decay_
        The fitted edges and the frozen decay.

    Examples
    --------
    >>> from tdlg_paper.landmarks import LandmarkFeatures
    >>> from tdlg import Gaussian, TemporalEdges
    >>> edges = TemporalEdges(["ann", "bob", "ann"], ["bob", "cat", "cat"], [0.0, 1.0, 3.0])
    >>> landmarks = LandmarkFeatures(2, decay=Gaussian(bandwidth=1.0), random_state=0).fit(edges)
    >>> landmarks.landmarks_
    array([0, 2])
    >>> landmarks.transform(edges).toarray().round(3)
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
        random_state: Any = None,
    ) -> None:
        self.n_components = n_components
        self.sampling = sampling
        self.decay = decay
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None) -> LandmarkFeatures:
        """Sample the landmarks; y is ignored."""
        check_count("LandmarkFeatures", "n_components", self.n_components, 1)
        check_choice("LandmarkFeatures", "sampling", self.sampling, SAMPLINGS)
        self.edges_ = self._edges(X, reset=True)
        H, rng = LineGraph(self.edges_, decay=self.decay), as_generator(self.random_state)
        self.decay_ = H.decay
        if self.sampling == "degree":
            chances = H.row_sums()
        elif self.sampling == "resistance":
            chances = effective_resistances(self.edges_, random_state=rng)
        else:
            chances = np.ones(len(self.edges_))
        self.landmarks_ = _sampled(chances, self.n_components, rng)
        return self

    def transform(self, X: Any) -> csr_array:
        """Compute the proximities of edges, fitted or new, to the landmarks."""
        check_is_fitted(self)
        return LineGraph(self._edges(X, reset=False), self.edges_[self.landmarks_], decay=self.decay_).to_csr()


def _sampled(weights: Array, size: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """A weighted sample without replacement: the smallest of exponential arrival times with these rates."""
    with np.errstate(divide="ignore"):
        arrivals = rng.exponential(size=weights.size) / np.maximum(weights, 0.0)
    return np.sort(np.argsort(arrivals, kind="stable")[:size])


def effective_resistances(edges: TemporalEdges, *, tol: float = 0.1, random_state: Any = None) -> Array:
    """Compute the effective resistance of each edge in the undirected multigraph of the edges, ignoring their times.

    Every edge is a wire of resistance 1. An edge that is the only link between two parts has resistance 1, one of m parallel
    edges at most 1 / m, and a self-loop 0. All resistances sum to the number of nodes minus the number of components.

    Up to 2000 nodes the values are exact. Above, they come from random projections (Spielman and Srivastava, 2011): with
    the projection P onto what currents can be, resistances are the diagonal of P, and P q for random signs q is one
    Laplacian system, solved by conjugate gradients. Both (P q)_e^2, whose mean is the resistance r, and (q - P q)_e^2, whose
    mean is 1 - r, enter: so values stay within 0 and 1, and are exact at both ends.

    Examples
    --------
    A triangle with a tail:

    >>> from tdlg_paper.landmarks import effective_resistances
    >>> from tdlg import TemporalEdges
    >>> edges = TemporalEdges(["a", "b", "c", "c"], ["b", "c", "a", "d"], [0, 1, 2, 3])
    >>> effective_resistances(edges).round(3)
    array([0.667, 0.667, 0.667, 1.   ])
    """
    check_number("effective_resistances", "tol", tol, below=1)
    ends = np.unique(np.concatenate([edges.src_code, edges.dst_code]), return_inverse=True)[1]
    src, dst = ends.reshape(2, -1)
    n_nodes = int(ends.max(initial=-1)) + 1
    laplacian = _laplacian(src, dst, n_nodes)
    if n_nodes <= DENSE_NODES:
        return _exact(laplacian, src, dst)
    return _projected(laplacian, src, dst, int(np.ceil(2 / tol**2)), as_generator(random_state))


def _laplacian(src: NDArray[np.intp], dst: NDArray[np.intp], n_nodes: int) -> csr_array:
    """Degrees on the diagonal, minus the number of edges between two nodes; self-loops cancel out."""
    ones = np.ones(src.size)
    values = np.concatenate([ones, ones, -ones, -ones])
    at = np.concatenate([src, dst, src, dst]), np.concatenate([src, dst, dst, src])
    return csr_array((values, at), shape=(n_nodes, n_nodes))


def _exact(laplacian: csr_array, src: NDArray[np.intp], dst: NDArray[np.intp]) -> Array:
    """Exact, from a dense inverse; adding 1 within components makes it invertible and changes no potential difference."""
    component = connected_components(laplacian, directed=False)[1]
    inverse = np.linalg.inv(laplacian.toarray() + (component[:, np.newaxis] == component))
    diagonal = inverse.diagonal()
    return np.clip(diagonal[src] + diagonal[dst] - 2 * inverse[src, dst], 0.0, 1.0)


def _projected(
    laplacian: csr_array, src: NDArray[np.intp], dst: NDArray[np.intp], n_systems: int, rng: np.random.Generator
) -> Array:
    """With y = P q for random signs q: the sum of y^2, over the sum of y^2 and (q - y)^2."""
    within, outside = np.zeros(src.size), np.zeros(src.size)
    for first in range(0, n_systems, TOGETHER):
        signs = rng.choice([-1.0, 1.0], size=(src.size, min(TOGETHER, n_systems - first)))
        potentials = _solve(laplacian, _divergence(signs, src, dst, laplacian.shape[0]))
        flows = potentials[src] - potentials[dst]
        within += (flows**2).sum(axis=1)
        outside += ((signs - flows) ** 2).sum(axis=1)
    return within / (within + outside)


def _divergence(flows: Array, src: NDArray[np.intp], dst: NDArray[np.intp], n_nodes: int) -> Array:
    """Outflow minus inflow of each node, for columns of flows along edges."""
    edge, one = np.arange(src.size), np.ones(src.size)
    incidence = csr_array((np.append(one, -one), (np.append(src, dst), np.append(edge, edge))), (n_nodes, src.size))
    return incidence @ flows


def _solve(laplacian: csr_array, b: Array, tol: float = 1e-4) -> Array:
    """Conjugate gradients on all columns of b at once, preconditioned by the degrees.

    The Laplacian is singular, but every column of b sums to 0 over a component, so that solutions exist.
    """
    degree = laplacian.diagonal()
    inverse = np.where(degree > 0, 1 / np.where(degree > 0, degree, 1.0), 0.0)[:, np.newaxis]
    x, r = np.zeros_like(b), b.copy()
    z = p = inverse * r
    size = _dots(r, z)
    goal = tol**2 * size
    for _ in range(MOST_STEPS):
        if (size <= goal).all():
            return x
        q = laplacian @ p
        step = _ratio(size, _dots(p, q))
        x += step * p
        r -= step * q
        z = inverse * r
        size, before = _dots(r, z), size
        p = z + _ratio(size, before) * p
    warnings.warn(
        "The Laplacian solver did not converge: resistances are inaccurate.", ConvergenceWarning, stacklevel=4
    )
    return x


def _dots(a: Array, b: Array) -> Array:
    """The inner product of each column of one matrix with the same column of the other."""
    dots: Array = np.einsum("ij,ij->j", a, b)
    return dots


def _ratio(a: Array, b: Array) -> Array:
    """A / b, and 0 for a column that is already solved exactly."""
    return np.where(b > 0, a / np.where(b > 0, b, 1.0), 0.0)
