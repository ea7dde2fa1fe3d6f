"""The edges that a ranking knows, in the order of time, and the running state that goes along with them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from threading import RLock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tdlg._kernels import DST, SRC
from tdlg.clock import common_clock, rounded_up, ticks_per_second, times_of
from tdlg.edges import TemporalEdges, check_alike
from tdlg.explain.partners import Past
from tdlg.propagate.state import GROWTH, NodeCodes, grown
from tdlg.rank.state import COLUMNS, RankingState

Floats = NDArray[np.float64]
Codes = NDArray[np.int64]

EDGES_AT_ONCE = 65536  # for which room is made, before the queries
ROWS_AT_ONCE = 200_000  # rows of columns that are made at once, about 90 MB


class History:
    """Edges in the order of time, to which more can be added, and the running state after some of them.

    A question lets the state absorb the edges that it knows and that were not absorbed yet. The state cannot go back: if
    more edges were absorbed than a question knows, or an edge is added before one of them, the next question starts anew.
    The widths are bandwidths of the decayed counts, in ticks of the first edges, of which there is at least one.
    """

    def __init__(self, edges: TemporalEdges, widths: Floats) -> None:
        order = np.argsort(edges.ticks, kind="stable")
        self.nodes = NodeCodes(edges)  # nodes of the first edges have their codes in `edges`
        self.none, self.unit = edges[:0], edges.time_unit  # no edges, of the type of the first ones
        self._src, self._dst, self._ticks = edges.src_code[order], edges.dst_code[order], edges.ticks[order]
        self._n, self._widths = len(order), widths
        self._state, self._lock = self._new(), RLock()

    def __len__(self) -> int:
        return self._n

    @property
    def ticks(self) -> NDArray[Any]:
        """The times, in ticks, ascending."""
        return self._ticks[: self._n]

    @property
    def nbytes(self) -> tuple[int, int]:
        """Bytes of the edges, and of the running state."""
        return sum(column.nbytes for column in (self._src, self._dst, self._ticks)), self._state.nbytes

    def edges(self, part: slice = slice(None)) -> tuple[Codes, Codes, Floats]:
        """Sources, destinations and times of some edges; times count from the first edge."""
        part = slice(*part.indices(self._n))
        when = (self._ticks[part] - self._ticks[0]).astype(np.float64)
        return self._src[part].astype(np.int64), self._dst[part].astype(np.int64), when

    def past(self, upto: int) -> Past:
        """The first edges, which reasons are made of."""
        with self._lock:
            src, dst, ticks = self._src[:upto].copy(), self._dst[:upto].copy(), self._ticks[:upto].copy()
            return Past(src, dst, ticks, self.unit, self.none.bipartite)

    def _new(self) -> RankingState:
        return RankingState(self._widths, not self.none.bipartite)

    # ---- more edges

    def add(self, edges: TemporalEdges) -> TemporalEdges:
        """Add edges in any order; returns them as they are known here.

        Ids are written as those of the known nodes. Datetimes that are finer than the unit are rounded up to it, so that no
        edge is known before it happened.
        """
        check_alike((self.none, edges))
        with self._lock:
            ticks = self._in_ticks(edges)
            order = np.argsort(ticks, kind="stable")
            src, dst = self.codes_of(edges, add=True)
            self._append(src[order], dst[order], ticks[order])
            sources, destinations = ([self.nodes.id_of(code) for code in codes.tolist()] for codes in (src, dst))
            return TemporalEdges(sources, destinations, times_of(ticks, self.unit), bipartite=self.none.bipartite)

    def _in_ticks(self, edges: TemporalEdges) -> NDArray[Any]:
        """The times of more edges on the clock of the known ones, whose numbers become fractions if need be."""
        known, ticks, unit = common_clock(self.ticks[-1:], self.unit, edges.ticks, edges.time_unit)
        if unit != self.unit:
            return rounded_up(edges.ticks, edges.time_unit, self.unit, self._ticks.dtype)
        if known.dtype != self._ticks.dtype:
            self._ticks = common_clock(self._ticks, None, ticks, None)[0]
        return ticks

    def _append(self, src: Codes, dst: Codes, ticks: NDArray[Any]) -> None:
        """Add edges in the order of time."""
        first, n = int(np.searchsorted(self.ticks, ticks[:1], "right").min(initial=self._n)), self._n
        self._n += len(src)
        if self._n > len(self._ticks):
            size = int(GROWTH * self._n)
            self._src, self._dst, self._ticks = (grown(each, size) for each in (self._src, self._dst, self._ticks))
        self._src[n : self._n], self._dst[n : self._n], self._ticks[n : self._n] = src, dst, ticks
        if first == n:
            return
        order = np.argsort(self.ticks, kind="stable")
        for each in (self._src, self._dst, self._ticks):
            each[: self._n] = each[order]
        if self._state.n_edges > first:
            self._state = self._new()

    # ---- nodes and times of questions

    def codes_of(self, edges: TemporalEdges, *, add: bool = False) -> tuple[Codes, Codes]:
        """Codes of the sources and destinations of edges, -1 for a node that is not known; or new nodes are added."""
        ends = ((edges.src_code, SRC), (edges.dst_code, DST))
        return tuple(self._codes(edges.node_ids, codes, end, add) for codes, end in ends)  # type: ignore[return-value]

    def _codes(self, ids: NDArray[Any], at: NDArray[Any], end: int, add: bool) -> Codes:
        distinct, place = np.unique(at, return_inverse=True)
        found = self.nodes.codes(ids[distinct].tolist(), end) if add else self.find(ids[distinct].tolist(), end)
        return found[place]

    def find(self, ids: Iterable[Any], end: int) -> Codes:
        """The codes of sources (end 0) or destinations (end 1), -1 for one that is not known."""
        found = (self.nodes.find(value, end) for value in ids)
        return np.array([-1 if code is None else code for code in found], np.int64)

    def ask(self, ticks: NDArray[Any], unit: str | None = None, *, with_equal: bool = False) -> tuple[Codes, Floats]:
        """How many edges are known at some times: those strictly before, or also at them; and the times of the state."""
        first, ticks, common = common_clock(self._ticks[:1], self.unit, ticks, unit)
        finer = 1 if common is None or self.unit is None else ticks_per_second(common) // ticks_per_second(self.unit)
        when = (ticks - first[0]).astype(np.float64) / finer
        if self._ticks.dtype.kind == "i":  # the last tick that is not after the time, or the first not before it
            sign = -1 if with_equal else 1
            ticks = sign * rounded_up(sign * ticks, common, self.unit, self._ticks.dtype)
        return np.searchsorted(self.ticks, ticks, "right" if with_equal else "left"), when

    def candidates(self, src: int, upto: int) -> Codes:
        """The destinations that a source may turn to, given the first edges; see `RankingState.candidates`."""
        with self._lock:
            return self._after(upto).candidates(src)

    # ---- columns

    def blocks(self, src: Codes, when: Floats, upto: Codes, starts: Codes, candidates: Codes) -> Iterator[Floats]:
        """The columns of the candidates of queries, in the order of time, some queries at a time; see `RankingState.run`."""
        with self._lock:
            first = 0
            while first < len(src):
                end = max(first + 1, int(np.searchsorted(starts, starts[first] + ROWS_AT_ONCE, "right")) - 1)
                some, part = slice(first, end), slice(starts[first], starts[end])
                state = self._after(int(upto[first]))
                done = state.n_edges
                edges, begins = self.edges(slice(done, int(upto[end - 1]))), starts[first : end + 1] - starts[first]
                yield state.run((src[some], when[some]), begins, candidates[part], edges, upto[some] - done)
                first = end

    def _after(self, n_edges: int) -> RankingState:
        """The state after the first edges."""
        if self._state.n_edges > n_edges:
            self._state = self._new()
        for start in range(self._state.n_edges, n_edges, EDGES_AT_ONCE):
            self._state.absorb(*self.edges(slice(start, min(start + EDGES_AT_ONCE, n_edges))))
        return self._state

    def rows(self, src: Codes, dst: Codes, when: Floats, upto: Codes) -> Floats:
        """The columns of pairs, in the order of the pairs, each of which knows the first `upto` edges."""
        order = np.lexsort((src, when, upto))
        asked = np.column_stack([src[order], upto[order]])
        changes = (np.diff(asked, axis=0) != 0).any(axis=1) | (np.diff(when[order]) != 0)
        first = np.flatnonzero(np.append(True, changes)[: len(order)])
        starts = np.append(first, len(order))
        rows = np.empty((len(order), len(COLUMNS)))
        done = 0
        for block in self.blocks(src[order][first], when[order][first], upto[order][first], starts, dst[order]):
            rows[order[done : done + len(block)]] = block
            done += len(block)
        return rows

    def sample(
        self, chosen: Codes, upto: Codes, limits: Codes, everyone: Codes, picks: Codes
    ) -> tuple[NDArray[np.float32], Codes]:
        """Columns of candidates for the destinations of chosen edges, the true one first; see `RankingState.sample`."""
        state, parts, sizes = self._new(), [], [np.zeros(1, np.int64)]
        per_edge = 1 + int(limits.sum()) + picks.shape[1]
        for first in range(0, len(chosen), max(1, ROWS_AT_ONCE // per_edge)):
            some = slice(first, first + max(1, ROWS_AT_ONCE // per_edge))
            done = state.n_edges
            edges = self.edges(slice(done, int(chosen[some][-1]) + 1))
            rows, starts = state.sample(edges, upto[some] - done, chosen[some] - done, limits, everyone, picks[some])
            parts.append(rows.astype(np.float32))
            sizes.append(np.diff(starts))
        return np.concatenate(parts), np.cumsum(np.concatenate(sizes))
