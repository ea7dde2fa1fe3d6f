"""The time-decayed line graph as a linear operator."""

from __future__ import annotations

import operator
from copy import copy
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array
from scipy.sparse.linalg import LinearOperator

from tdlg._kernels import BOTH, FUTURE, GAUSSIAN, PAST
from tdlg.checks import check_choice, check_count, is_number, refusal
from tdlg.edges import TemporalEdges
from tdlg.exceptions import ParameterError, TooLargeError
from tdlg.linegraph.decay import Decay, Gaussian, decay_values
from tdlg.linegraph.events import Copies, build_layout
from tdlg.linegraph.exponentials import SMALLEST_TOL
from tdlg.linegraph.match import ENDS, MATCHES, MatchName
from tdlg.linegraph.product import multiply
from tdlg.linegraph.walks import Floats, Walk, walks_of
from tdlg.memory import default_threads, free_bytes

Normalization = Literal["spectral", "edge"]

LARGEST_VALUE = 1e290  # larger values of x use the slow walks
ENTRIES_AT_ONCE = 1 << 20  # of an explicit matrix, whose values are computed from distances


class LineGraph(LinearOperator):
    """The time-decayed line graph of temporal edges as a scipy `LinearOperator`, without its matrix.

    Rows and columns are edges. The entry of row i and column j is

        H_ij = (number of shared endpoints of i and j) * k(t_i - t_j),

    which is equation 1 of the paper if k is the Gaussian. A product costs O(edges), whatever the degrees; the matrix would
    have as many entries as the sum of squared degrees.

    Parameters
    ----------
    rows
        The edges that are the rows.
    cols
        The edges that are the columns. By default `rows`, which makes the line graph square. A row whose nodes occur in no
        column has zeros.
    decay
        How weights fade with time: `Gaussian`, `Laplace`, `Mixture` or `NoDecay`. By default a Gaussian with a bandwidth of
        0.1 standard deviations of the columns' times, the paper's choice.
    match
        Which endpoints count as shared. "any", the default and the paper's choice, counts the distinct nodes that two edges
        have in common, so an edge shares 2 with itself and a self-loop 1. "src" and "dst" compare the sources or the
        destinations of both edges; "src-dst" compares the row's source with the column's destination, and "dst-src" the
        row's destination with the column's source. "pair": same source and same destination. "reversed": the source of each
        edge is the destination of the other. All but "any" count 0 or 1.
    past_only
        Whether to keep only columns strictly earlier than the row, so that edges at the same time do not see each other.
        False by default.
    include_self
        Whether a row keeps the entry of its own column; True by default. A row's own column is the same row of the same
        table, so this also works for rectangular line graphs; two equal rows of a table are two different edges.
    tol
        The largest error of a product: |error of H @ x| <= tol * max|x| * R. R is the largest row sum of the square line
        graph of the columns, with self entries and both directions, matched by the columns' own ends ("dst" for "src-dst");
        for a mixture with negative weights, of their absolute values. The bound includes rounding for nodes with up to ten
        million edges within a bandwidth. (On processors other than x86-64 and ARM64, and for x with infinite or huge
        values, rounding is not included: it adds up to 1e-15 per edge that a node has within a bandwidth.) Laplace and
        NoDecay are exact except for rounding, at most 4e-16 per edge that a node has within a bandwidth.
    n_threads
        Number of threads of a product. By default all cores, or the number in the environment variable TDLG_NUM_THREADS.
        The same call gives the same bits; another number of threads may change the last bits.

    See Also
    --------
    NormalizedLineGraph : what `normalized` returns.

    Examples
    --------
    >>> import numpy as np
    >>> from tdlg import Gaussian, LineGraph, TemporalEdges
    >>> edges = TemporalEdges(src=["ann", "bob", "ann"], dst=["bob", "cat", "cat"], time=[0.0, 1.0, 3.0])
    >>> H = LineGraph(edges, decay=Gaussian(bandwidth=1.0))
    >>> H
    <3x3 LineGraph: any match, Gaussian(bandwidth=1.0)>
    >>> np.round(H @ np.ones(3), 6)
    array([2.61764 , 2.741866, 2.146444])
    >>> np.round(H.to_csr().toarray(), 6)
    array([[2.      , 0.606531, 0.011109],
           [0.606531, 2.      , 0.135335],
           [0.011109, 0.135335, 2.      ]])
    """

    def __init__(
        self,
        rows: TemporalEdges,
        cols: TemporalEdges | None = None,
        *,
        decay: Decay | None = None,
        match: MatchName = "any",
        past_only: bool = False,
        include_self: bool = True,
        tol: float = 1e-9,
        n_threads: int | None = None,
    ) -> None:
        cols = rows if cols is None else cols
        _check_arguments(rows, cols, decay, match, n_threads)
        self.rows, self.cols = rows, cols
        self.decay = (Gaussian() if decay is None else decay).freeze(cols)
        self.match: MatchName = match
        self.include_self = bool(include_self)
        self.tol = tol
        self.n_threads = n_threads
        self._view = PAST if past_only else BOTH
        self._row_copies, self._col_copies = Copies(rows), Copies(cols)
        self._layout = build_layout(self._row_copies.distinct, self._col_copies.distinct, match)
        self._parts = self.decay.parts(self._layout.time_unit)
        least = SMALLEST_TOL * max(1, sum(part.code == GAUSSIAN for part in self._parts))
        if not (is_number(tol) and least <= tol < 1):  # float64 allows no other accuracy
            raise refusal("LineGraph", "tol", f"at least {least:g} for this decay, and less than 1", tol)
        super().__init__(np.dtype(np.float64), (rows.n_edges, cols.n_edges))

    # -- must: the product ------------------------------------------------------------------------------------------

    def _matmat(self, X: ArrayLike) -> Floats:
        x = self._col_copies.add(as_floats(X))
        own = sum(part.weight for part in self._parts) if self.include_self and self._view == BOTH else 0.0
        y = multiply(self._layout, self._walks_for(x), x, self._view, own, self.n_threads or default_threads())
        return self._row_copies.repeat(y)

    def _transpose(self) -> LineGraph:
        """H.T: rows and columns are swapped, and past and future too. It shares the layout of H."""
        twin = copy(self)
        twin.rows, twin.cols, twin.match = self.cols, self.rows, MATCHES[self.match].transpose
        twin._row_copies, twin._col_copies = self._col_copies, self._row_copies
        twin._view, twin._layout = -self._view, self._layout.transpose()
        LinearOperator.__init__(twin, self.dtype, self.shape[::-1])
        return twin

    _adjoint = _transpose

    # -- may: what needs no product ----------------------------------------------------------------------------------

    @property
    def past_only(self) -> bool:
        """Whether rows see only earlier columns."""
        return self._view == PAST

    @property
    def nbytes(self) -> int:
        """Bytes of memory used for products, without the edges."""
        return self._layout.nbytes

    @property
    def is_symmetric(self) -> bool:
        """Whether H equals its transpose by construction."""
        return self.rows is self.cols and self._view == BOTH and MATCHES[self.match].transpose == self.match

    def diagonal(self) -> NDArray[np.float64]:
        """The entries H_ii, for every i that is both a row and a column."""
        n = min(self.shape)
        rows, cols = self.rows[:n], self.cols[:n]
        row_places, col_places = self._row_copies.place[:n], self._col_copies.place[:n]
        distance = self._layout.row_ticks[row_places] - self._layout.col_ticks[col_places]
        seen = np.ones(n, bool) if self._view == BOTH else np.sign(distance) == -self._view
        if not self.include_self and rows.same_table(cols):
            seen &= rows.rows != cols.rows
        values: NDArray[np.float64] = _shared_graph(rows, cols, self.match) * seen * decay_values(self._parts, distance)
        return values

    def row(self, i: int) -> csr_array:
        """Row i, computed from the formula, as a sparse matrix of one row."""
        if not -self.shape[0] <= operator.index(i) < self.shape[0]:
            raise IndexError(f"Row {i} is out of range: this line graph has {self.shape[0]} rows.")
        row, layout = self._row_copies.place[i], self._layout
        found = [self._seen_from(slot) for slot in layout.row_slots[row] if slot < layout.n_events]
        cols = np.concatenate([layout.source[events] for events in found] or [np.empty(0, np.int32)])
        data = decay_values(self._parts, layout.row_ticks[row] - layout.col_ticks[cols])
        return self._finished(csr_array((data, cols, [0, cols.size]), shape=(1, layout.col_ticks.size)))

    def to_csr(self) -> csr_array:
        """The explicit matrix, computed from the formula, if it fits into memory; products do not need it."""
        from tdlg._kernels.csr import fill_entries, windows

        layout = self._layout
        low, high = windows(layout.gap, 0, layout.n_events, self._view)
        counts = self._count_entries(low, high)
        self._check_fits(int(counts[self._row_copies.place].sum()))
        source, slots, n_cols = layout.source, layout.row_slots, layout.col_ticks.size
        distinct = counts if self._col_copies.none else self._count_entries(low, high, 1)
        indptr = np.concatenate([[0], np.cumsum(distinct)])
        index_dtype = np.int32 if indptr[-1] < 2**31 else np.int64
        indices, data = np.empty(indptr[-1], index_dtype), np.empty(indptr[-1])
        ticks = layout.row_ticks, layout.col_ticks
        fill_entries(source, slots, n_cols, low, high, ticks, self.include_self, indptr, indices, data)
        for start in range(0, len(data), ENTRIES_AT_ONCE):  # distances become values
            some = slice(start, start + ENTRIES_AT_ONCE)
            data[some] = decay_values(self._parts, data[some])
        matrix = csr_array((data, indices, indptr.astype(index_dtype)), shape=(slots.shape[0], n_cols))
        return self._row_copies.repeat(self._finished(matrix))

    # -- derived -----------------------------------------------------------------------------------------------------

    def row_sums(self) -> NDArray[np.float64]:
        """The sum of each row: the degree of an edge in the line graph."""
        sums: NDArray[np.float64] = self @ np.ones(self.shape[1])
        return sums

    def normalized(self, kind: Normalization) -> NormalizedLineGraph:
        """D^-1/2 H D^-1/2 ("spectral") or (D^-1 H + H D^-1) / 2 ("edge") as an operator, without its matrix."""
        return NormalizedLineGraph(self, kind)

    def __repr__(self) -> str:
        extras = ["past only"] * self.past_only + ["future only"] * (self._view == FUTURE)
        extras += ["without self"] * (not self.include_self)
        details = ", ".join([f"{self.match} match", repr(self.decay), *extras])
        return f"<{self.shape[0]}x{self.shape[1]} LineGraph: {details}>"

    @cached_property
    def _walks(self) -> list[Walk]:
        return walks_of(self._parts, self.tol)

    def _walks_for(self, x: Floats) -> list[Walk]:
        """Fast walks if x is finite and not huge, else the plain ones: fast walks multiply with 0, and 0 * inf is NaN."""
        low, high = (float(x.min()), float(x.max())) if x.size else (0.0, 0.0)
        is_finite = low > -LARGEST_VALUE and high < LARGEST_VALUE  # false with NaN
        return self._walks if is_finite else walks_of(self._parts, self.tol, use_vectors=False)

    def _seen_from(self, slot: int) -> NDArray[np.int64]:
        """The events with a column that the event at `slot` sees."""
        from tdlg._kernels.csr import key_range, windows

        layout = self._layout
        first, stop = key_range(layout.gap, slot)
        low, high = windows(layout.gap, first, stop, self._view)
        events = np.arange(low[slot - first], high[slot - first])
        keep = layout.source[events] < layout.col_ticks.size
        return events[keep if self.include_self else keep & (events != slot)]

    def _count_entries(
        self, low: NDArray[np.int64], high: NDArray[np.int64], copies: NDArray[np.int64] | int | None = None
    ) -> NDArray[np.int64]:
        """Entries per distinct row; a column that shares both nodes counts twice, and every copy of a column counts."""
        layout = self._layout
        copies = self._col_copies.count if copies is None else copies
        weight = np.append(np.broadcast_to(copies, layout.col_ticks.size), 0)
        of_event = weight[layout.source]
        before = np.concatenate([[0], np.cumsum(of_event)])
        seen = before[high] - before[low]
        if not self.include_self and self._view == BOTH:
            seen = seen - np.where(layout.target < layout.row_ticks.size, of_event, 0)
        counts: NDArray[np.int64] = np.append(seen, 0)[layout.row_slots].sum(axis=1)
        return counts

    def _finished(self, matrix: csr_array) -> csr_array:
        matrix.sum_duplicates()  # two edges over the same pair of nodes meet at both ends
        matrix.eliminate_zeros()
        return matrix if self._col_copies.none else csr_array(matrix[:, self._col_copies.place])

    def _check_fits(self, n_entries: int) -> None:
        """Refuse a matrix that does not fit in memory."""
        needed, free = n_entries * (8 + (4 if n_entries < 2**31 else 8)) + self.shape[0] * 8, free_bytes()
        if needed > free:
            raise TooLargeError(
                f"The explicit {self.shape[0]:,} x {self.shape[1]:,} matrix has {n_entries:,} entries and would need "
                f"{needed:,} bytes; {free:,} are free. Products need no matrix.",
                "Use `H @ x`, `H.row(i)` or `H.row_sums()`.",
            )


def _shared_graph(rows: TemporalEdges, cols: TemporalEdges, match: MatchName) -> NDArray[np.int64]:
    """The number of shared endpoints of row i and column i."""
    (u, v), (s, t) = row_codes, col_codes = cols.codes_of(rows), (cols.src_code, cols.dst_code)
    if match == "any":
        return ((u == s) | (u == t)).astype(int) + (((v == s) | (v == t)) & (v != u))
    ends = zip(ENDS[MATCHES[match].row], ENDS[MATCHES[match].col], strict=True)
    return np.logical_and.reduce([row_codes[mine] == col_codes[theirs] for mine, theirs in ends]).astype(int)


def as_floats(x: ArrayLike) -> Floats:
    """Convert x to float64 unless it is float32, with contiguous rows."""
    x = np.asarray(x)
    if x.dtype.kind == "c":
        raise ParameterError(
            "A line graph multiplies real vectors only. Multiply its real and imaginary parts separately.",
            parameter="x",
        )
    x = np.ascontiguousarray(x, np.float32 if x.dtype == np.float32 else np.float64)
    return x if x.flags.writeable else x.copy()  # numba would recompile all kernels for read-only arrays


def _check_arguments(
    rows: TemporalEdges, cols: TemporalEdges, decay: Decay | None, match: str, n_threads: int | None
) -> None:
    for name, edges in (("rows", rows), ("cols", cols)):
        if not isinstance(edges, TemporalEdges):
            raise ParameterError(
                f"The {name!r} parameter of LineGraph must be TemporalEdges. Got {type(edges).__name__} instead.",
                "Wrap columns as `TemporalEdges(src, dst, time)`, or a table with from_frame.",
                parameter=name,
            )
    check_choice("LineGraph", "match", match, MATCHES)
    check_walks("LineGraph", decay, n_threads)


def check_walks(owner: str, decay: object, n_threads: int | None) -> None:
    """Refuse a decay and a number of threads that products cannot use."""
    if not isinstance(decay, Decay | None):
        raise refusal(owner, "decay", "Gaussian(...), Laplace(...), Mixture(...) or NoDecay()", decay)
    if n_threads is not None:
        check_count(owner, "n_threads", n_threads, 1)


# ---- divided by its degrees


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
        self._left = self._right = _power(_row_degrees(graph), power)  # factors of the rows and of the columns
        if not graph.is_symmetric:
            self._right = _power(_row_degrees(_square_of_columns(graph).T), power)
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
        twin = copy(self)
        twin.graph, twin._left, twin._right = self.graph.T, self._right, self._left
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

    def to_csr(self) -> csr_array:
        """The explicit matrix; see `LineGraph.to_csr`."""
        return self._scaled(self.graph.to_csr(), self._left)

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


def _row_degrees(graph: LineGraph) -> NDArray[np.float64]:
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
