"""What a stream of edges tells about the next destination of a source: the running state, and columns of candidates."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tdlg._kernels.ranking import FOUND, NODE, NONE, PAIR, STEP

__all__ = ["RankingState", "column_names"]

Floats = NDArray[np.float64]
Codes = NDArray[np.int64]

FIRST_SIZE = 1024  # pairs and steps that there is room for at first; a power of two
AT_ONCE = 65536  # edges for which room is made at once


def column_names(n_scales: int) -> list[str]:
    """Names of the columns, in their order: the pair, the other direction, the destination, walks, the source."""
    scales = range(n_scales)
    return [
        *(f"pair:{name}" for name in ("gap", "rank", "count", "share", "runs", "pace", "own edges since")),
        *(f"pair:{name}" for name in ("edges of dst since", "follows", "not answered")),
        *(f"pair:sum@{k}" for k in scales),
        *(f"back:{name}" for name in ("gap", "rank", "count", "to answer")),
        *(f"back:sum@{k}" for k in scales),
        *(f"dst:{name}" for name in ("gap", "edges since", "gap before", "count", "sources", "new gap", "pace")),
        *(f"dst:{name}" for name in ("last was src", "sent gap", "sent count")),
        *(f"dst:sum@{k}" for k in scales),
        *(f"dst:new@{k}" for k in scales),
        *(f"walk:{name}" for name in ("two", "three", "step", "step share")),
        *(f"src:{name}" for name in ("gap", "count", "partners", "run", "switched", "received gap", "received count")),
        *(f"src:{name}" for name in ("switches", "age")),
    ]


class RankingState:
    """Counts, times and lists of nodes and pairs, carried along a stream.

    Parameters
    ----------
    widths
        Bandwidths of the decayed counts, ascending, in the unit of the times.
    one_type
        Whether sources and destinations are nodes of one type.
    """

    def __init__(self, widths: Floats, one_type: bool) -> None:
        self.rates = 1.0 / np.asarray(widths, np.float64)
        self.one_type = one_type
        n = len(self.rates)
        self.n_columns = len(column_names(n))
        self._counters = np.array([0, 0, 0, NONE])
        self._nodes, self._node_sums, self._fresh_sums = _nodes(0), np.zeros((0, 2, n)), np.zeros((0, n))
        self._pairs, self._pair_sums = np.zeros(0, PAIR), np.zeros((0, n))
        self._steps = np.zeros(0, STEP)
        self._keys = [np.zeros(0, np.int64)] * 2
        self._tables = [np.full(2, NONE)] * 2
        self._scratch = _scratch(0)

    @property
    def n_edges(self) -> int:
        """The number of edges so far."""
        return int(self._counters[0])

    @property
    def n_nodes(self) -> int:
        """The number of codes that there is room for."""
        return len(self._nodes)

    @property
    def _arrays(self) -> tuple[Any, ...]:
        nodes = self._nodes, self._node_sums, self._fresh_sums
        pairs = self._pairs, self._pair_sums, self._keys[0], self._tables[0]
        return self._counters, *nodes, *pairs, self._steps, self._keys[1], self._tables[1]

    def make_room(self, n_codes: int, n_more: int) -> None:
        """Be ready for nodes with codes below a number, and for more edges."""
        from tdlg._kernels.running import fill_table

        if n_codes > self.n_nodes:
            size = max(n_codes, 2 * self.n_nodes)
            more = size - self.n_nodes
            self._nodes = np.concatenate([self._nodes, _nodes(more)])
            self._node_sums = np.concatenate([self._node_sums, np.zeros((more, *self._node_sums.shape[1:]))])
            self._fresh_sums = np.concatenate([self._fresh_sums, np.zeros((more, len(self.rates)))])
            self._scratch = _scratch(size)
        for which, used in enumerate(self._counters[1:3].tolist()):
            if used + n_more <= len(self._keys[which]):
                continue
            size = max(FIRST_SIZE, 2 * len(self._keys[which]))
            while size < used + n_more:
                size *= 2
            more = size - len(self._keys[which])
            self._keys[which] = np.concatenate([self._keys[which], np.zeros(more, np.int64)])
            if which == 0:
                self._pairs = np.concatenate([self._pairs, np.zeros(more, PAIR)])
                self._pair_sums = np.concatenate([self._pair_sums, np.zeros((more, len(self.rates)))])
            else:
                self._steps = np.concatenate([self._steps, np.zeros(more, STEP)])
            self._tables[which] = np.full(2 * size, NONE)
            fill_table(used, self._keys[which], self._tables[which])

    def absorb(self, src: Codes, dst: Codes, when: Floats) -> None:
        """Add edges, in the order of time."""
        from tdlg._kernels.ranking import absorb

        for start in range(0, len(src), AT_ONCE):
            part = slice(start, start + AT_ONCE)
            self.make_room(int(max(src[part].max(), dst[part].max())) + 1, len(src[part]))
            absorb(self._arrays, src[part], dst[part], when[part], self.rates)

    def columns(self, src: int, when: float, candidates: Codes) -> Floats:
        """The columns of candidates for the next destination of a source, (n_candidates, n_columns)."""
        return self.run(*_no_edges(), np.zeros(1, np.int64), np.array([src]), np.array([when]), np.array([0, len(candidates)]), candidates)

    def run(self, src, dst, when, upto, query_src, query_when, starts, candidates) -> Floats:
        from tdlg._kernels.ranking import run

        self.make_room(max(int(src.max(initial=-1)), int(dst.max(initial=-1)))+1, len(src))
        rows = np.empty((len(candidates), self.n_columns))
        run(self._arrays, (src, dst, when), upto, (query_src, query_when), starts, candidates, self.one_type, self.rates, self._scratch, rows)
        return rows

    def sample(self, src, dst, when, upto, chosen, limits, everyone, picks):
        from tdlg._kernels.ranking import sample

        self.make_room(max(int(src.max(initial=-1)), int(dst.max(initial=-1)))+1, len(src))
        most = len(chosen) * (1 + int(limits.sum()) + picks.shape[1])
        rows = np.empty((most, self.n_columns))
        candidates = np.empty(most, np.int64); starts = np.empty(len(chosen) + 1, np.int64)
        n = sample(self._arrays, (src, dst, when), upto, chosen, limits, everyone, picks, self.one_type, self.rates, self._scratch, starts, candidates, rows)
        return rows[:n], starts, candidates[:n]


def _no_edges():
    return np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0)


def _nodes(n: int) -> NDArray[Any]:
    nodes = np.zeros(n, NODE)
    for name in ("out_head", "in_head", "newer", "older"):
        nodes[name] = NONE
    return nodes


def _scratch(n_nodes: int) -> tuple[Codes, Codes, Codes, Floats]:
    return np.zeros(2, np.int64), np.zeros((n_nodes, 2), np.int64), np.zeros(n_nodes, np.int64), np.zeros((n_nodes, FOUND))
