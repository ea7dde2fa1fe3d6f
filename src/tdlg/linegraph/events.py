"""The events of a line graph: the ends of its edges, sorted by key and time. What uses a set of edges shares them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary, WeakValueDictionary

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from tdlg.clock import common_clock
from tdlg.exceptions import EdgesError, Hint, TooLargeError

if TYPE_CHECKING:
    from tdlg.edges import TemporalEdges

__all__ = ["MATCHES", "Copies", "Layout", "build_layout", "check_span"]

# Which ends of a row edge and a column edge must be the same node, as (row key, column key). "any": any end of both.
MATCHES = {
    "any": ("ends", "ends"),
    "src": ("src", "src"),
    "dst": ("dst", "dst"),
    "src-dst": ("src", "dst"),
    "dst-src": ("dst", "src"),
    "pair": ("pair", "pair"),
    "reversed": ("pair backwards", "pair"),
}

_MOST_EVENTS = np.iinfo(np.int32).max - 1


class _Spare(list[NDArray[Any]]):
    """Work space that is kept between products and is not pickled."""

    def __reduce__(self) -> tuple[type, tuple[()]]:
        return _Spare, ()


@dataclass(frozen=True)
class Layout:
    """Events sorted by (key, time), and the positions of the events of each row and column.

    Attributes
    ----------
    source, target
        The column and the row of each event; n_cols and n_rows mean that it has none. If rows and columns are the same,
        both are the same array.
    gap
        Ticks since the previous event; infinite at the first event of a key, and at an additional last entry.
    row_slots, col_slots
        The events of each row and of each column, shapes (n_rows, ends) and (n_cols, ends); the number of events means
        that there is none.
    row_ticks, col_ticks
        The times in ticks of a common unit.
    time_unit
        The common unit, or None for numbers.
    """

    source: NDArray[np.int32]
    target: NDArray[np.int32]
    gap: NDArray[np.float64]
    row_slots: NDArray[np.int32]
    col_slots: NDArray[np.int32]
    row_ticks: NDArray[Any]
    col_ticks: NDArray[Any]
    time_unit: str | None
    _spare: _Spare = field(default_factory=lambda: _Spare(), repr=False, compare=False)

    @property
    def n_events(self) -> int:
        """The number of events."""
        return int(self.source.size)

    @property
    def is_square(self) -> bool:
        """Whether every event belongs to a row and to a column."""
        return self.source is self.target

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays except the times of the edges."""
        arrays: list[NDArray[Any]] = [self.source, self.target, self.gap, self.row_slots, self.col_slots, *self._spare]
        return sum({id(array): array.nbytes for array in arrays}.values())

    @contextmanager
    def one_value_per_event(self, dtype: Any) -> Iterator[NDArray[Any]]:
        """Work space that the next product reuses, because new memory doubles the cost of writing. Its last entry is 0."""
        try:
            space = self._spare.pop()  # simultaneous products use one each
        except IndexError:
            space = None
        if space is None or space.dtype != dtype:
            space = np.empty(self.n_events + 1, dtype)
        space[-1] = 0.0
        yield space
        self._spare[:] = [space]  # not after an error, when a thread may still write to it

    def transpose(self) -> Layout:
        """The same events with rows and columns swapped."""
        return Layout(
            source=self.target,
            target=self.source,
            gap=self.gap,
            row_slots=self.col_slots,
            col_slots=self.row_slots,
            row_ticks=self.col_ticks,
            col_ticks=self.row_ticks,
            time_unit=self.time_unit,
            _spare=self._spare,
        )


class Copies:
    """Edges that a selection contains more than once, for example in a bootstrap sample.

    Only the distinct edges have events; this class maps between them and the copies.

    Attributes
    ----------
    distinct
        Each edge once.
    at
        For each edge of the selection, its position in `distinct`.
    none
        Whether all edges are distinct.
    """

    def __init__(self, edges: TemporalEdges) -> None:
        self.at, distinct = edges.cached(("copies",), lambda: _find_copies(edges))
        self.none = distinct is None
        self.distinct = edges if distinct is None else distinct

    @property
    def count(self) -> NDArray[np.int64]:
        """How often each distinct edge occurs."""
        return np.bincount(self.at, minlength=len(self.distinct))

    def add(self, x: NDArray[Any]) -> NDArray[Any]:
        """Sum the rows of the copies of each edge."""
        if self.none:
            return x
        total = np.zeros((len(self.distinct), x.shape[1]), x.dtype)
        np.add.at(total, self.at, x)
        return total

    def repeat(self, y: Any) -> Any:
        """Repeat the rows of an array or sparse matrix for every copy of an edge."""
        return y if self.none else y[self.at]

    def repeat_columns(self, matrix: csr_array) -> csr_array:
        """Repeat the columns for every copy of an edge."""
        return matrix if self.none else csr_array(matrix[:, self.at])


def _find_copies(edges: TemporalEdges) -> tuple[NDArray[np.int64], TemporalEdges | None]:
    """The position of each edge among the distinct edges, and the distinct edges, or None if all are distinct.

    The result is cached with the edges, so it must not refer to them: a reference cycle would delay freeing them.
    """
    rows = edges.rows
    if not np.all(rows[1:] > rows[:-1]):  # ascending rows, the usual case, are distinct
        found, first, at = np.unique(rows, return_index=True, return_inverse=True)
        if found.size < rows.size:
            return at, edges[first]
    return np.arange(rows.size), None


def build_layout(rows: TemporalEdges, cols: TemporalEdges, match: str) -> Layout:
    """Sort the events of rows and columns; no row and no column may occur twice.

    A layout is shared by all that use the same edges at the same time, and freed with the last of them.
    """
    row_key, col_key = MATCHES[match]
    _check_number(rows, cols, match)
    partners: WeakKeyDictionary[TemporalEdges, WeakValueDictionary[str, Layout]]
    partners = rows.cached(("layouts",), WeakKeyDictionary)
    layouts = partners.setdefault(cols, WeakValueDictionary())
    layout = layouts.get(match)
    if layout is None:
        same = rows is cols and row_key == col_key
        layout = _symmetric(cols, col_key) if same else _rectangular(rows, cols, row_key, col_key)
        layouts[match] = layout
    return layout


def _symmetric(edges: TemporalEdges, key: str) -> Layout:
    from tdlg._kernels.layout import place_symmetric

    check_span(edges.ticks)
    keys, _, n_keys = _keys(edges, edges, key, key)
    source, gap, slots = place_symmetric(keys, n_keys, edges.ticks)
    return Layout(source, source, gap, slots, slots, edges.ticks, edges.ticks, edges.time_unit)


def _rectangular(rows: TemporalEdges, cols: TemporalEdges, row_key: str, col_key: str) -> Layout:
    from tdlg._kernels.layout import place_rectangular

    row_ticks, col_ticks, time_unit = _common_ticks(rows, cols)
    check_span(row_ticks, col_ticks)
    row_keys, col_keys, n_keys = _keys(rows, cols, row_key, col_key)
    own = own_columns(rows, cols)
    source, target, gap, row_slots, col_slots = place_rectangular(row_keys, col_keys, n_keys, row_ticks, col_ticks, own)
    return Layout(source, target, gap, row_slots, col_slots, row_ticks, col_ticks, time_unit)


def own_columns(rows: TemporalEdges, cols: TemporalEdges) -> NDArray[np.int64]:
    """For each row, the column that is the same edge of the same table, or -1."""
    if rows is cols:
        return np.arange(rows.n_edges)
    if not rows.same_table(cols) or cols.n_edges == 0:
        return np.full(rows.n_edges, -1)
    column_of = np.full(max(int(rows.rows.max(initial=-1)), int(cols.rows.max())) + 1, -1)
    column_of[cols.rows] = np.arange(cols.n_edges)
    own: NDArray[np.int64] = column_of[rows.rows]
    return own


def _keys(
    rows: TemporalEdges, cols: TemporalEdges, row_key: str, col_key: str
) -> tuple[NDArray[np.int32], NDArray[np.int32], int]:
    """The keys of rows and of columns, (edges, ends) each, -1 for an end without a match; and the number of keys."""
    codes = {"cols": (cols.src_code, cols.dst_code)}
    codes["rows"] = codes["cols"] if rows is cols else cols.codes_of(rows)
    if col_key == "pair":
        return _pair_keys(codes["rows"], codes["cols"], cols.n_nodes, backwards=row_key == "pair backwards")
    row_keys = _end_keys(*codes["rows"], row_key)
    col_keys = row_keys if rows is cols and row_key == col_key else _end_keys(*codes["cols"], col_key)
    return row_keys, col_keys, cols.n_nodes


def _end_keys(src: NDArray[np.int32], dst: NDArray[np.int32], key: str) -> NDArray[np.int32]:
    if key == "ends":
        return np.stack([src, np.where(src == dst, np.int32(-1), dst)], axis=1)  # a self-loop has one end
    return (src if key == "src" else dst)[:, np.newaxis]


def _pair_keys(
    row_codes: tuple[NDArray[np.int32], NDArray[np.int32]],
    col_codes: tuple[NDArray[np.int32], NDArray[np.int32]],
    n_nodes: int,
    backwards: bool,
) -> tuple[NDArray[np.int32], NDArray[np.int32], int]:
    """Number the ordered pairs of nodes; the pairs of rows may be reversed."""
    from tdlg._kernels.layout import dense_codes, stable_argsort

    same = row_codes is col_codes and not backwards
    if same:
        row_codes = tuple(code[:0] for code in col_codes)  # type: ignore[assignment]
    src, dst = reversed(row_codes) if backwards else row_codes
    pairs = np.concatenate([_pair(src, dst, n_nodes), _pair(*col_codes, n_nodes)])
    codes = dense_codes(pairs, stable_argsort(pairs))
    n_keys = int(codes.max(initial=-1)) + 1
    row_keys = np.where((src < 0) | (dst < 0), np.int32(-1), codes[: src.size])[:, np.newaxis]
    col_keys = codes[src.size :][:, np.newaxis]
    return col_keys if same else row_keys, col_keys, n_keys


def _pair(src: NDArray[np.int32], dst: NDArray[np.int32], n_nodes: int) -> NDArray[np.int64]:
    return src.astype(np.int64) * n_nodes + dst


def _common_ticks(rows: TemporalEdges, cols: TemporalEdges) -> tuple[NDArray[Any], NDArray[Any], str | None]:
    """Times of rows and columns on one clock, and its unit."""
    if (rows.time_unit is None) != (cols.time_unit is None):
        numbers, dates = ("rows", "cols") if rows.time_unit is None else ("cols", "rows")
        raise EdgesError(
            f"The times of {dates!r} are datetimes and those of {numbers!r} are numbers, so their distances have no "
            f"meaning. Pass both as datetimes or both as numbers."
        )
    return common_clock(rows.ticks, rows.time_unit, cols.ticks, cols.time_unit)


def check_span(*ticks: NDArray[Any]) -> None:
    """Refuse times whose differences overflow."""
    some = [column for column in ticks if column.size]
    if not some:
        return
    low, high = min(column.min().item() for column in some), max(column.max().item() for column in some)
    largest = np.finfo(np.float64).max if isinstance(low, float) else np.iinfo(np.int64).max
    if not high - low <= largest:
        raise EdgesError(
            f"Times from {low} to {high} are too far apart: their difference overflows. Count them in a coarser unit."
        )


def _check_number(rows: TemporalEdges, cols: TemporalEdges, match: str) -> None:
    once = rows is cols and MATCHES[match][0] == MATCHES[match][1]  # one event for both row and column
    n_events = (2 if match == "any" else 1) * (cols.n_edges + (0 if once else rows.n_edges))
    if n_events > _MOST_EVENTS:
        raise TooLargeError(
            f"{n_events:,} ends of edges are more than a line graph can hold ({_MOST_EVENTS:,}).",
            Hint("Multiply by blocks of rows or columns: {code} and so on.", code="LineGraph(edges[:k], edges)"),
        )
