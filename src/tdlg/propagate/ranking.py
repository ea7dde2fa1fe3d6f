"""What a stream of edges tells about the next destination of a source: the running state, and columns of candidates."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from threading import RLock
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tdlg._kernels.ranking import FOUND, NODE, NONE, PAIR, STEP
from tdlg.clock import common_clock, ticks_per_second
from tdlg.edges import TemporalEdges

__all__ = ["COLUMNS", "SCALES", "History", "RankingState", "Sampled", "history_of"]

Floats = NDArray[np.float64]
Codes = NDArray[np.int64]

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
FIRST_SIZE = 1024  # pairs and steps that there is room for at first; a power of two
AT_ONCE = 65536  # edges for which room is made at once
ROWS_AT_ONCE = 200_000  # rows of columns that are made at once, about 90 MB


class Sampled(NamedTuple):
    """Candidates for the destinations of some edges.

    Attributes
    ----------
    rows
        Their columns, (n_candidates, n_columns), as float32.
    starts
        Where the candidates of each edge begin, and the end; the first one is the true destination.
    """

    rows: NDArray[np.float32]
    starts: Codes


class RankingState:
    """Counts, times and lists of nodes and pairs, carried along a stream of edges.

    Parameters
    ----------
    widths
        Bandwidths of the decayed counts, one for each of `SCALES`, in the unit of the times.
    one_type
        Whether sources and destinations are nodes of one type.

    Examples
    --------
    >>> state = RankingState(np.array([1.0, 2.0, 5.0, 10.0, 100.0]), one_type=True)
    >>> state.absorb(np.array([0, 1]), np.array([1, 2]), np.array([0.0, 4.0]))
    >>> columns = state.columns(1, 5.0, np.array([0, 2]))
    >>> columns[:, COLUMNS.index("pair:count")], columns[:, COLUMNS.index("back:count")]
    (array([0., 1.]), array([1., 0.]))
    """

    def __init__(self, widths: Floats, one_type: bool) -> None:
        self.rates = 1.0 / np.asarray(widths, np.float64)
        self.one_type = one_type
        n = len(self.rates)
        self._counters = np.array([0, 0, 0, NONE])
        self._nodes, self._node_sums, self._fresh_sums = _new_nodes(0), np.zeros((0, 2, n)), np.zeros((0, n))
        self._pairs, self._pair_sums, self._steps = np.zeros(0, PAIR), np.zeros((0, n)), np.zeros(0, STEP)
        self._keys = [np.zeros(0, np.int64)] * 2
        self._tables = [np.full(2, NONE)] * 2
        self._scratch = _new_scratch(0)

    @property
    def n_edges(self) -> int:
        """The number of edges so far."""
        return int(self._counters[0])

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        return sum(array.nbytes for array in (*self._arrays, *self._scratch))

    def absorb(self, src: Codes, dst: Codes, when: Floats) -> None:
        """Add edges, in the order of time."""
        from tdlg._kernels.ranking import absorb

        for start in range(0, len(src), AT_ONCE):
            part = slice(start, start + AT_ONCE)
            self._make_room(int(max(src[part].max(), dst[part].max())) + 1, len(src[part]))
            absorb(self._arrays, src[part], dst[part], when[part], self.rates)

    def columns(self, src: int, when: float, candidates: Codes) -> Floats:
        """The columns of candidates for the next destination of a source, (n_candidates, n_columns).

        Parameters
        ----------
        src, when
            The source, -1 if it is not known, and the time, not before the last edge.
        candidates
            The destinations, -1 for one that is not known.
        """
        return self.run((np.array([src]), np.array([when])), np.array([0, len(candidates)]), candidates)

    def run(
        self,
        queries: tuple[Codes, Floats],
        starts: Codes,
        candidates: Codes,
        edges: tuple[Codes, Codes, Floats] | None = None,
        upto: Codes | None = None,
    ) -> Floats:
        """The columns of the candidates of several queries, in the order of time, absorbing edges in between.

        Parameters
        ----------
        queries
            Sources and times.
        starts, candidates
            Where the candidates of each query begin, and the end; the candidates.
        edges, upto
            Edges to absorb, in the order of time, and how many of them each query knows. None by default.
        """
        from tdlg._kernels.ranking import run

        src, dst, when = edges or (np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0))
        upto = np.zeros(len(queries[0]), np.int64) if upto is None else upto
        known = np.concatenate([queries[0], candidates, src, dst])
        self._make_room(int(known.max(initial=-1)) + 1, len(src))
        rows = np.empty((len(candidates), len(COLUMNS)))
        run(
            self._arrays,
            (src, dst, when),
            upto,
            queries,
            starts,
            candidates,
            self.one_type,
            self.rates,
            self._scratch,
            rows,
        )
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

        Parameters
        ----------
        edges
            Edges to absorb, in the order of time.
        upto, chosen
            How many of them each chosen edge knows, and the positions of the chosen edges, ascending.
        limits
            How many candidates of each kind, see `tdlg._kernels.ranking.gather`.
        everyone, picks
            All destinations, and positions of random ones, (n_chosen, n_random).
        """
        from tdlg._kernels.ranking import sample

        self._make_room(int(max(edges[0].max(), edges[1].max(), everyone.max())) + 1, len(edges[0]))
        most = len(chosen) * (1 + int(limits.sum()) + picks.shape[1])
        rows, candidates = np.empty((most, len(COLUMNS))), np.empty(most, np.int64)
        starts = np.empty(len(chosen) + 1, np.int64)
        scratch = self.one_type, self.rates, self._scratch
        n = sample(self._arrays, edges, upto, chosen, limits, everyone, picks, *scratch, starts, candidates, rows)
        return rows[:n], starts

    @property
    def _arrays(self) -> tuple[Any, ...]:
        """The state as the kernels take it."""
        nodes = self._nodes, self._node_sums, self._fresh_sums
        pairs = self._pairs, self._pair_sums, self._keys[0], self._tables[0]
        return self._counters, *nodes, *pairs, self._steps, self._keys[1], self._tables[1]

    def _make_room(self, n_codes: int, n_edges: int) -> None:
        """Be ready for nodes with codes below a number, and for more edges."""
        if n_codes > len(self._nodes):
            more = max(n_codes, 2 * len(self._nodes)) - len(self._nodes)
            self._nodes = np.concatenate([self._nodes, _new_nodes(more)])
            self._node_sums, self._fresh_sums = _longer(self._node_sums, more), _longer(self._fresh_sums, more)
            self._scratch = _new_scratch(len(self._nodes))
        for which, used in enumerate(self._counters[1:3].tolist()):
            if used + n_edges > len(self._keys[which]):
                self._grow(which, used, used + n_edges)

    def _grow(self, which: int, used: int, least: int) -> None:
        """Make room for pairs (0) or steps (1)."""
        from tdlg._kernels.running import fill_table

        size = FIRST_SIZE
        while size < least:
            size *= 2
        more = size - len(self._keys[which])
        self._keys[which] = _longer(self._keys[which], more)
        if which == 0:
            self._pairs, self._pair_sums = _longer(self._pairs, more), _longer(self._pair_sums, more)
        else:
            self._steps = _longer(self._steps, more)
        self._tables[which] = np.full(2 * size, NONE)
        fill_table(used, self._keys[which], self._tables[which])


def _longer(array: NDArray[Any], more: int) -> NDArray[Any]:
    return np.concatenate([array, np.zeros((more, *array.shape[1:]), array.dtype)])


def _new_nodes(n: int) -> NDArray[Any]:
    nodes = np.zeros(n, NODE)
    for name in ("out_head", "in_head", "newer", "older"):
        nodes[name] = NONE
    return nodes


def _new_scratch(n_nodes: int) -> tuple[Codes, Codes, Codes, Floats]:
    numbers, seen = np.zeros(2, np.int64), np.zeros((n_nodes, 2), np.int64)
    return numbers, seen, np.zeros(n_nodes, np.int64), np.zeros((n_nodes, FOUND))


# ---- edges in the order of time, and the state after any number of them


class History:
    """Edges in the order of time, and the running state after some of them, which later questions continue.

    Parameters
    ----------
    edges
        The edges.
    widths
        Bandwidths of the decayed counts, in ticks of the edges.
    """

    def __init__(self, edges: TemporalEdges, widths: Floats) -> None:
        order = np.argsort(edges.ticks, kind="stable")
        self.src, self.dst = (codes[order].astype(np.int64) for codes in (edges.src_code, edges.dst_code))
        self.ticks, self.unit = edges.ticks[order], edges.time_unit
        self.when = (self.ticks - self.ticks[0]).astype(np.float64)
        self._widths, self._one_type = widths, not edges.bipartite
        self._state, self._lock = self._new(), RLock()

    @cached_property
    def destinations(self) -> tuple[Codes, Codes, Codes]:
        """All destinations, the position of the first edge of each, and that of its first edge from itself."""
        codes, first = np.unique(self.dst, return_index=True)
        loops = np.flatnonzero(self.src == self.dst)[::-1]
        is_own = np.full(len(codes), len(self.dst))
        is_own[np.searchsorted(codes, self.dst[loops])] = loops  # the earliest is written last
        return codes, first, is_own

    def _new(self) -> RankingState:
        return RankingState(self._widths, self._one_type)

    def clock(self, ticks: NDArray[Any], unit: str | None) -> tuple[NDArray[Any], NDArray[Any], Floats]:
        """The times of these edges and other times on one clock, and the other times as the state counts them."""
        mine, others, common = common_clock(self.ticks, self.unit, ticks, unit)
        per_tick = 1 if common is None or self.unit is None else ticks_per_second(common) // ticks_per_second(self.unit)
        return mine, others, (others - mine[0]).astype(np.float64) / per_tick

    def blocks(self, src: Codes, when: Floats, upto: Codes, starts: Codes, candidates: Codes) -> Iterator[Floats]:
        """The columns of the candidates of queries, some queries at a time.

        Parameters
        ----------
        src, when
            Sources and times, in the order of time.
        upto
            How many edges each query knows, ascending.
        starts, candidates
            Where the candidates of each query begin, and the end; the candidates.
        """
        with self._lock:
            first = 0
            while first < len(src):
                end = max(first + 1, int(np.searchsorted(starts, starts[first] + ROWS_AT_ONCE, "right")) - 1)
                some, part = slice(first, end), slice(starts[first], starts[end])
                state = self._at_most(int(upto[first]))
                done, to = state.n_edges, int(upto[end - 1])
                edges = self.src[done:to], self.dst[done:to], self.when[done:to]
                begins = starts[first : end + 1] - starts[first]
                yield state.run((src[some], when[some]), begins, candidates[part], edges, upto[some] - done)
                first = end

    def _at_most(self, n_edges: int) -> RankingState:
        """The state, if it has not absorbed more edges than this; else a new one."""
        if self._state.n_edges > n_edges:
            self._state = self._new()
        if n_edges - self._state.n_edges > AT_ONCE:
            part = slice(self._state.n_edges, n_edges)
            self._state.absorb(self.src[part], self.dst[part], self.when[part])
        return self._state

    def sample(self, chosen: Codes, upto: Codes, limits: Codes, picks: Codes) -> Sampled:
        """Candidates for the destinations of chosen edges; see `RankingState.sample`."""
        everyone = self.destinations[0]
        state, parts, sizes = self._new(), [], [np.zeros(1, np.int64)]
        per_edge = 1 + int(limits.sum()) + picks.shape[1]
        for first in range(0, len(chosen), max(1, ROWS_AT_ONCE // per_edge)):
            some = slice(first, first + max(1, ROWS_AT_ONCE // per_edge))
            done = state.n_edges
            edges = self.src[done:], self.dst[done:], self.when[done:]
            rows, starts = state.sample(edges, upto[some] - done, chosen[some] - done, limits, everyone, picks[some])
            parts.append(rows.astype(np.float32))
            sizes.append(np.diff(starts))
        return Sampled(np.concatenate(parts), np.cumsum(np.concatenate(sizes)))


def history_of(edges: TemporalEdges, widths: Floats) -> History:
    """The history of these edges, which is kept with them."""
    return edges.cached(("ranking history", widths.tobytes()), lambda: History(edges, widths))
