"""StreamRanker: the next partner, with edges that become known one by one."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from tdlg.edges import TemporalEdges
from tdlg.exceptions import Hint, ParameterError
from tdlg.live.nodes import DST, SRC, NodeCodes
from tdlg.models.link_arguments import as_time
from tdlg.models.ranking import LinkRanker
from tdlg.propagate.ranking import RankingState

__all__ = ["StreamRanker"]


class StreamRanker:
    """Rank the next partner while edges come in: the answers of `LinkRanker`, without keeping or sorting the edges again.

    Parameters
    ----------
    ranker
        A fitted `LinkRanker`. It does not change.

    Attributes
    ----------
    n_edges
        The number of edges that are known or wait to be.

    Examples
    --------
    >>> from tdlg import LinkRanker, TemporalEdges
    >>> stream = StreamRanker(LinkRanker("recency").fit(TemporalEdges(["ann"], ["bob"], [1])))
    >>> stream.add("ann", "cat", 2)
    >>> stream.rank("ann", 3, k=1)
    [('cat', 0.5)]
    """

    def __init__(self, ranker: LinkRanker) -> None:
        check_is_fitted(ranker)
        self._ranker, self._fitted = ranker, ranker.edges_[:0]
        edges = ranker.edges_
        order = np.argsort(edges.ticks, kind="stable")
        self._nodes = NodeCodes(edges)
        self._first = edges.ticks[order[0]]
        self._last = edges.time[order[-1]]
        self._state = RankingState(ranker.widths_, not edges.bipartite)
        self._is_known = np.zeros(0, bool)
        self._destinations: list[int] = []
        self._waiting: list[tuple[int, int, Any]] = []  # of the last time: not known before a later one
        done = int(np.searchsorted(edges.ticks[order], edges.ticks[order[-1]]))
        self._absorb(edges[order[:done]])
        for row in order[done:].tolist():
            self._waiting.append((int(edges.src_code[row]), int(edges.dst_code[row]), edges.ticks[row]))

    @property
    def n_edges(self) -> int:
        """The number of edges that are known or wait to be."""
        return self._state.n_edges + len(self._waiting)

    def add(self, src: Any, dst: Any, time: Any) -> None:
        """Add an edge, which is known to all questions about a later time.

        Parameters
        ----------
        src, dst
            The ids of its nodes.
        time
            Its time, not before that of the last edge.
        """
        ticks = self._ticks(time, "add")
        self._let_pass(ticks)
        u, v = (int(self._nodes.codes([one], end)[0]) for one, end in ((src, SRC), (dst, DST)))
        self._waiting.append((u, v, ticks))

    def rank(self, src: Any, time: Any, candidates: Any = None, k: int | None = None) -> list[tuple[Any, float]]:
        """Rank the destinations that a source may turn to next: pairs of an id and a score, the best first.

        Parameters
        ----------
        src, time
            The source and the time, not before that of the last edge. Edges strictly before it are known.
        candidates
            The ids to rank. By default all destinations so far but the source itself.
        k
            How many are returned; all by default.
        """
        ticks = self._ticks(time, "rank")
        self._let_pass(ticks)
        u = self._nodes.find(src, SRC)
        if candidates is None:
            codes = np.array([code for code in self._destinations if code != u], np.int64)
            ids = [self._nodes.id_of(code) for code in codes.tolist()]
        else:
            ids = list(candidates)
            found = [self._nodes.find(one, DST) for one in ids]
            codes = np.array([-1 if code is None else code for code in found], np.int64)
        rows = self._state.columns(-1 if u is None else u, float(ticks - self._first), codes)
        scores = self._ranker._next_scores(rows)
        best = np.argsort(-scores, kind="stable")[: len(ids) if k is None else k]
        return [(ids[at], float(scores[at])) for at in best.tolist()]

    def _ticks(self, time: Any, owner: str) -> Any:
        """A time on the clock of the fitted edges, rounded up to it; it must not be in the past."""
        when = as_time(time, self._fitted, "time", owner)
        if when[0] < self._last:
            raise ParameterError(
                f"The 'time' is {time}, before the last one, {self._last}. A stream goes on in the order of time.",
                Hint("Use {code} for questions about the past.", code="LinkRanker"),
                parameter="time",
                value=time,
            )
        self._last = when[0]
        unit = self._fitted.time_unit
        if unit is None:
            return when[0]
        coarse = when.astype(f"datetime64[{unit}]")
        return (coarse + (coarse < when)).astype(np.int64)[0]

    def _let_pass(self, ticks: Any) -> None:
        """Absorb what waits and happened before a time."""
        if not self._waiting or not self._waiting[-1][2] < ticks:
            return
        src, dst, when = zip(*self._waiting, strict=True)
        self._waiting = []
        self._take(np.array(src), np.array(dst), np.array([float(tick - self._first) for tick in when]))

    def _absorb(self, edges: TemporalEdges) -> None:
        when = (edges.ticks - self._first).astype(np.float64)
        self._take(edges.src_code.astype(np.int64), edges.dst_code.astype(np.int64), when)

    def _take(self, src: NDArray[np.int64], dst: NDArray[np.int64], when: NDArray[np.float64]) -> None:
        if not len(src):
            return
        self._state.absorb(src, dst, when)
        known = np.zeros(self._nodes.n_codes, bool)
        known[: len(self._is_known)] = self._is_known
        new = np.unique(dst[~known[dst]])
        known[new] = True
        self._is_known = known
        self._destinations += new.tolist()
