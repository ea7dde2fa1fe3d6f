"""The line graph divided by its degrees, as a linear operator."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array
from scipy.sparse.linalg import LinearOperator

from tdlg._kernels import BOTH, FUTURE, GAUSSIAN
from tdlg.checks import check_choice
from tdlg.linegraph.match import MATCHES
from tdlg.linegraph.operator import LineGraph, Normalization, as_floats
from tdlg.linegraph.walks import Floats


class NormalizedLineGraph(LinearOperator):
    """A line graph divided by its degrees, as an operator without its matrix. `LineGraph.normalized` returns it.

    The degree of a row is its own sum; the degree of a column is its sum in the square line graph of the columns, so that
    new rows are scaled like fitted ones. Degrees within the error of a product count as 0, and 0 / 0 = 0.

    Parameters
    ----------
    graph
        The line graph H.
    kind
        "spectral": D^-1/2 H D^-1/2, whose eigenvalues lie in [-1, 1]. "edge": (D^-1 H + H D^-1) / 2, which gives every edge
        about the same total weight: rows sum to at least 1/2, and all entries to the number of edges.

    Examples
    --------
    >>> from tdlg import LineGraph, NoDecay, TemporalEdges
    >>> edges = TemporalEdges(["a", "b"], ["b", "c"], [0, 1])
    >>> LineGraph(edges, decay=NoDecay()).normalized("edge").row_sums()
    array([1., 1.])
    """

    def __init__(self, graph: LineGraph, kind: Normalization) -> None:
        check_choice("normalized", "kind", kind, ("spectral", "edge"))
        self.graph, self.kind = graph, kind
        power = -0.5 if kind == "spectral" else -1.0
        self._left = self._right = _power(_degrees(graph), power)  # factors of the rows and of the columns
        if not graph.is_symmetric:
            self._right = _power(_degrees(_square_of_columns(graph).T), power)
        super().__init__(graph.dtype, graph.shape)

    def _matmat(self, X: ArrayLike) -> Floats:
        x = as_floats(X)
        left, right = (scale.astype(x.dtype)[:, np.newaxis] for scale in (self._left, self._right))
        if self.kind == "spectral":
            return left * (self.graph @ (right * x))
        both = self.graph @ np.hstack([x, right * x])
        return 0.5 * (left * both[:, : x.shape[1]] + both[:, x.shape[1] :])

    def _transpose(self) -> NormalizedLineGraph:
        """The factors are swapped, not computed again: a column's degree is not the sum of a row of the transpose."""
        twin = object.__new__(NormalizedLineGraph)
        twin.__dict__.update(graph=self.graph.T, kind=self.kind, _left=self._right, _right=self._left)
        LinearOperator.__init__(twin, self.dtype, self.shape[::-1])
        return twin

    _adjoint = _transpose

    def row_sums(self) -> NDArray[np.float64]:
        """The sum of each row."""
        sums: NDArray[np.float64] = self @ np.ones(self.shape[1])
        return sums

    def diagonal(self) -> NDArray[np.float64]:
        """The entries at (i, i)."""
        n = min(self.shape)
        return self.graph.diagonal() * self._scale(self._left[:n], self._right[:n])

    def row(self, i: int) -> csr_array:
        """Row i as a sparse matrix of one row."""
        return self._scaled(self.graph.row(i), self._left[[i]])

    def to_csr(self, cutoff: float = 0.0, max_bytes: int | None = None) -> csr_array:
        """The explicit matrix; see `LineGraph.to_csr`."""
        return self._scaled(self.graph.to_csr(cutoff, max_bytes), self._left)

    def _scaled(self, matrix: csr_array, left: NDArray[np.float64]) -> csr_array:
        by_row = np.repeat(left, np.diff(matrix.indptr))
        data = matrix.data * self._scale(by_row, self._right[matrix.indices])
        return csr_array((data, matrix.indices, matrix.indptr), shape=matrix.shape)

    def _scale(self, left: NDArray[np.float64], right: NDArray[np.float64]) -> NDArray[np.float64]:
        """The factor of an entry of H."""
        return left * right if self.kind == "spectral" else 0.5 * (left + right)

    def __repr__(self) -> str:
        return f"<{self.kind}-normalized {self.graph!r}>"


def _square_of_columns(graph: LineGraph) -> LineGraph:
    """The line graph of the columns alone."""
    if graph.rows is graph.cols:
        return graph
    is_future = graph._view == FUTURE  # the transpose of a line graph with past_only
    square = LineGraph(
        graph.cols,
        decay=graph.decay,
        match=MATCHES[graph.match].transpose if is_future else graph.match,
        past_only=graph._view != BOTH,
        include_self=graph.include_self,
        tol=graph.tol,
        n_threads=graph.n_threads,
    )
    return square.T if is_future else square


def _degrees(graph: LineGraph) -> NDArray[np.float64]:
    """Row sums; sums within the error of a product are 0, but no sum is less than an edge's own entry."""
    sums = graph.row_sums()
    exact = all(part.code != GAUSSIAN for part in graph._parts)
    noise = (1e-14 if exact else graph.tol) * sums.max(initial=0.0)
    own = graph.diagonal() if graph.is_symmetric else 0.0
    degrees: NDArray[np.float64] = np.maximum(np.where(sums > noise, sums, 0.0), own)
    return degrees


def _power(degrees: NDArray[np.float64], exponent: float) -> NDArray[np.float64]:
    """Degrees ** exponent, and 0 where a degree is 0."""
    return np.where(degrees > 0, np.where(degrees > 0, degrees, 1.0) ** exponent, 0.0)
