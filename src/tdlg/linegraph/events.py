"""The events of a line graph: the ends of its edges, sorted by key and time. What uses a set of edges shares them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary, WeakValueDictionary

import numpy as np
from numpy.typing import NDArray

from tdlg.clock import common_clock
from tdlg.exceptions import EdgesError, TooLargeError
from tdlg.linegraph.match import MATCHES, Codes, match_keys

if TYPE_CHECKING:
    from tdlg.edges import TemporalEdges

_MOST_EVENTS = np.iinfo(np.int32).max - 1


class _Spare(list[NDArray[Any]]):
    """Work space that is kept between products and is not pickled."""

    def __reduce__(self) -> tuple[type, tuple[()]]:
        return _Spare, ()


@dataclass(frozen=True)
class Layout:
    """Events sorted by (key, time), and the positions of the events of each row and column."""

    source: NDArray[np.int32]  # the column of each event, n_cols if it has none
    target: NDArray[np.int32]  # the row of each event, n_rows if it has none; the same array if rows and columns are
    gap: NDArray[np.float64]  # ticks since the previous event; infinite at the first of a key, and once more at the end
    row_slots: NDArray[np.int32]  # the events of each row, (n_rows, ends); the number of events means none
    col_slots: NDArray[np.int32]  # the same of each column
    row_ticks: NDArray[Any]  # times in ticks of a common unit
    col_ticks: NDArray[Any]
    time_unit: str | None  # the common unit, None for numbers
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
        ends = self.col_slots, self.row_slots, self.col_ticks, self.row_ticks
        return Layout(self.target, self.source, self.gap, *ends, self.time_unit, self._spare)


class Copies:
    """Edges that a selection contains more than once, as in a bootstrap sample. Only distinct edges have events."""

    def __init__(self, edges: TemporalEdges) -> None:
        # Each edge's place in `distinct`; whether there are no copies.
        self.place, distinct = edges.cached(("copies",), lambda: _find_copies(edges))
        self.none = distinct is None
        self.distinct = edges if distinct is None else distinct

    @property
    def count(self) -> NDArray[np.int64]:
        """How often each distinct edge occurs."""
        return np.bincount(self.place, minlength=len(self.distinct))

    def add(self, x: NDArray[Any]) -> NDArray[Any]:
        """Sum the rows of the copies of each edge."""
        if self.none:
            return x
        total = np.zeros((len(self.distinct), x.shape[1]), x.dtype)
        np.add.at(total, self.place, x)
        return total

    def repeat(self, y: Any) -> Any:
        """Repeat the rows of an array or sparse matrix for every copy of an edge."""
        return y if self.none else y[self.place]


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
    _check_number(rows, cols, match)
    partners: WeakKeyDictionary[TemporalEdges, WeakValueDictionary[str, Layout]]
    partners = rows.cached(("layouts",), WeakKeyDictionary)
    layouts = partners.setdefault(cols, WeakValueDictionary())
    layout = layouts.get(match)
    if layout is None:
        row_ticks, col_ticks, unit = _common_ticks(rows, cols)
        check_span(row_ticks, col_ticks)
        codes = cols.src_code, cols.dst_code
        keys = match_keys(codes if rows is cols else cols.codes_of(rows), codes, cols.n_nodes, match)
        own = None if rows is cols and MATCHES[match].same_ends else own_columns(rows, cols)
        layout = layouts[match] = placed(*keys, row_ticks, col_ticks, own, unit)
    return layout


def placed(
    row_keys: Codes,
    col_keys: Codes,
    n_keys: int,
    row_ticks: NDArray[Any],
    col_ticks: NDArray[Any],
    own: NDArray[np.int64] | None,
    unit: str | None = None,
) -> Layout:
    """The events of rows and columns with these keys; own : the column that each row is, or -1, None if all are the rows."""
    from tdlg._kernels.layout import place_rectangular, place_symmetric

    if own is None:
        source, gap, slots = place_symmetric(col_keys, n_keys, col_ticks)
        return Layout(source, source, gap, slots, slots, row_ticks, col_ticks, unit)
    events = place_rectangular(row_keys, col_keys, n_keys, row_ticks, col_ticks, np.ascontiguousarray(own, np.int64))
    return Layout(*events, row_ticks, col_ticks, unit)


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
    once = rows is cols and MATCHES[match].same_ends  # one event for both row and column
    n_events = (2 if match == "any" else 1) * (cols.n_edges + (0 if once else rows.n_edges))
    if n_events > _MOST_EVENTS:
        raise TooLargeError(
            f"{n_events:,} ends of edges are more than a line graph can hold ({_MOST_EVENTS:,}).",
            "Multiply by blocks of rows or columns: `LineGraph(edges[:k], edges)` and so on.",
        )
