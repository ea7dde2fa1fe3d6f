"""The edges that a ranking knows, in the order of time, the running state that goes along with them, and its columns."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from threading import RLock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tdlg._kernels import DST, SRC
from tdlg._kernels import ranking as kernels
from tdlg._kernels.ranking import EDGES, FOUND, NODE, NONE, PAIR, PAIRS, STEP, STEPS
from tdlg._kernels.running import hash_table
from tdlg.clock import common_clock, rounded_up, ticks_per_second, times_of
from tdlg.edges import TemporalEdges, check_alike
from tdlg.explain.partners import Past
from tdlg.propagate.state import FIRST_SIZE, GROWTH, NodeCodes, grown

Floats = NDArray[np.float64]
Codes = NDArray[np.int64]

EDGES_AT_ONCE = 65536  # for which room is made, before the queries
ROWS_AT_ONCE = 200_000  # rows of columns that are made at once, about 90 MB
SCALES = (0.0005, 0.005, 0.03, 0.1, 1.0)  # bandwidths of decayed counts, in standard deviations of the times
COLUMNS = tuple(
    f"{group}:{name}"
    for group, names in (
        ("pair", ("gap", "rank", "count", "share", "runs", "pace", "own edges since", "edges of dst since", "follows")),
        ("pair", ("not answered", *(f"sum@{scale:g}" for scale in SCALES))),
        ("back", ("gap", "rank", "count", "to answer", *(f"sum@{scale:g}" for scale in SCALES))),
        ("dst", ("gap", "edges since", "gap before", "count", "sources", "gap of new", "pace", "last was src")),
        ("dst", ("gap sent", "count sent", *(f"sum@{scale:g}" for scale in SCALES))),
        ("dst", tuple(f"new@{scale:g}" for scale in SCALES)),
        ("walk", ("two", "three", "step", "step share")),
        (
            "src",
            ("gap", "count", "partners", "run", "gap of switch", "gap received", "count received", "switches", "age"),
        ),
    )
    for name in names
)


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
        found = []
        for end, codes in ((SRC, edges.src_code), (DST, edges.dst_code)):
            distinct, place = np.unique(codes, return_inverse=True)
            found.append((self.nodes.codes if add else self.find)(edges.node_ids[distinct].tolist(), end)[place])
        return found[SRC], found[DST]

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


# ---- the running state


class RankingState:
    """Counts, times and lists of nodes and pairs, carried along a stream of edges; a node that is not known has code -1.

    The widths are bandwidths of the decayed counts, one for each of `SCALES`, in the unit of the times; `one_type` says
    whether sources and destinations are nodes of one type.
    """

    def __init__(self, widths: Floats, one_type: bool) -> None:
        self.rates = 1.0 / np.asarray(widths, np.float64)
        self.one_type = one_type
        no_sums, no_keys = np.zeros((0, len(self.rates))), np.zeros(0, np.int64)
        index = no_keys, hash_table(0, no_keys)
        of_nodes, of_pairs = (_new_nodes(0), no_sums, no_sums), (np.zeros(0, PAIR), no_sums)
        counters = np.array([0, 0, 0, NONE])
        self._state = kernels.RankingArrays(counters, *of_nodes, *of_pairs, *index, np.zeros(0, STEP), *index)
        self._scratch = _new_scratch(0)

    @property
    def n_edges(self) -> int:
        """The number of edges so far."""
        return int(self._state.counters[EDGES])

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        return sum(array.nbytes for array in (*self._state, *self._scratch))

    def absorb(self, src: Codes, dst: Codes, when: Floats) -> None:
        """Add edges, in the order of time."""
        self._make_room(1 + max(int(src.max(initial=-1)), int(dst.max(initial=-1))), len(src))
        kernels.absorb_edges(self._state, (src, dst, when), 0, len(src), self.rates)

    def candidates(self, src: int) -> Codes:
        """The destinations that a source may turn to, those with the latest edges first.

        These are all destinations so far, without the source itself unless it was its own destination; and then, if all
        nodes are of one type, those that turned to the source and were never a destination.
        """
        nodes = self._state.nodes
        found = np.flatnonzero(nodes["in_count"] > 0)
        found = found[np.argsort(-nodes["in_at"][found])]
        if not 0 <= src < len(nodes):
            return found
        if kernels.find_pair(self._state, src, src) < 0:
            found = found[found != src]
        if not self.one_type:
            return found
        sources = np.empty(nodes["in_partners"][src], np.int64)
        kernels.sources_of(self._state, src, sources)
        return np.concatenate([found, sources[nodes["in_count"][sources] == 0]])

    def run(
        self,
        queries: tuple[Codes, Floats],
        starts: Codes,
        candidates: Codes,
        edges: tuple[Codes, Codes, Floats],
        upto: Codes,
    ) -> Floats:
        """The columns of the candidates of several queries, in the order of time, absorbing edges in between.

        The candidates of query k are those from `starts[k]` to `starts[k + 1]`, and it knows the first `upto[k]` edges.
        """
        nodes = queries[0], candidates, *edges[:2]
        self._make_room(1 + max(int(codes.max(initial=-1)) for codes in nodes), len(edges[0]))
        rows = np.empty((len(candidates), len(COLUMNS)))
        scratch = self.one_type, self.rates, self._scratch
        kernels.run_queries(self._state, edges, upto, queries, starts, candidates, *scratch, rows)
        return rows

    def sample(
        self,
        edges: tuple[Codes, Codes, Floats],
        upto: Codes,
        chosen: Codes,
        limits: Codes,
        everyone: Codes,
        picks: Codes,
    ) -> tuple[Floats, Codes]:
        """Columns of the destinations of chosen edges and of other candidates, and where those of each edge begin.

        The chosen edges are given by their positions, ascending; each knows the first `upto` of the edges. For limits,
        everyone and picks see `tdlg._kernels.ranking._gather`.
        """
        self._make_room(int(max(edges[0].max(), edges[1].max(), everyone.max())) + 1, int(upto[-1]))
        most = len(chosen) * (1 + int(limits.sum()) + picks.shape[1])
        rows, candidates = np.empty((most, len(COLUMNS))), np.empty(most, np.int64)
        starts = np.empty(len(chosen) + 1, np.int64)
        scratch = self.one_type, self.rates, self._scratch
        n = kernels.sample(
            self._state, edges, upto, chosen, limits, everyone, picks, *scratch, starts, candidates, rows
        )
        return rows[:n], starts

    def _make_room(self, n_codes: int, n_edges: int) -> None:
        """Be ready for nodes with codes below a number, and for more edges."""
        state = self._state
        if n_codes > len(state.nodes):
            size = max(n_codes, int(GROWTH * len(state.nodes)))
            nodes = np.concatenate([state.nodes, _new_nodes(size - len(state.nodes))])
            sums = {name: grown(getattr(state, name), size) for name in ("node_sums", "fresh_sums")}
            state = state._replace(nodes=nodes, **sums)
            self._scratch = _new_scratch(size)
        for kind, names in ((PAIRS, ("pairs", "pair_sums", "pair_keys")), (STEPS, ("steps", "step_keys"))):
            n_used = int(state.counters[kind])
            if n_used + n_edges > len(getattr(state, names[-1])):
                size = max(FIRST_SIZE, int(GROWTH * (n_used + n_edges)))
                larger = {name: grown(getattr(state, name), size) for name in names}
                table = names[-1].replace("keys", "table")
                state = state._replace(**larger, **{table: hash_table(n_used, larger[names[-1]])})
        self._state = state


def _new_nodes(n: int) -> NDArray[Any]:
    nodes = np.zeros(n, NODE)
    for name in ("head", "newer", "older"):
        nodes[name] = NONE
    return nodes


def _new_scratch(n_nodes: int) -> kernels.Scratch:
    numbers, seen = np.zeros(2, np.int64), np.zeros((n_nodes, 2), np.int64)
    return kernels.Scratch(numbers, seen, np.zeros(n_nodes, np.int64), np.zeros((n_nodes, FOUND)))
