"""Why an edge is part of a burst, in words: how many edges there were, and how many are usual."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tdlg.checks import check_count
from tdlg.clock import round_duration
from tdlg.edges import TemporalEdges
from tdlg.explain.rows import chosen_rows, reasons_table
from tdlg.explain.sentences import NAMED, WHERE, node_in_words
from tdlg.propagate.bursts import KEYS, Arrivals, surprises_of_key

if TYPE_CHECKING:
    import polars as pl

__all__ = ["burst_counts", "explain_bursts"]

Floats = NDArray[np.float64]
Positions = NDArray[np.int64]


def explain_bursts(
    model: Any, edges: TemporalEdges, places: Positions, top: int = 3, *, rows: Any = None
) -> pl.DataFrame:
    """What makes each edge part of a burst, see `BurstDetector.explain`; places : among the fitted edges, -1 for new ones.

    The neighbours are the latest edges of the burst; positions from the number of fitted edges on are new edges.
    """
    check_count("explain", "top", top, 1)
    which, fitted, new = chosen_rows(rows, len(edges)), model.edges_, np.flatnonzero(places < 0)
    arrivals = Arrivals.of(fitted, edges[new])
    at = places.copy()
    at[new] = len(fitted) + np.arange(len(new))
    fast, slow = (decay.parts(arrivals.time_unit)[0].bandwidth for decay in (model.fast_, model.slow_))
    surprise, usual = burst_counts(arrivals, at[which], fast, slow)
    ranked = np.argsort(-surprise, axis=1, kind="stable")[:, :top]
    lines = [(i, rank, k) for i, keys in enumerate(ranked) for rank, k in enumerate(keys) if surprise[i, k] > 0]
    row, rank, key = np.array(lines, np.int64).reshape(-1, 3).T
    window, words = round_duration(fast, arrivals.time_unit)
    counts = [_Latest(arrivals, k) for k in range(len(KEYS))]
    behind = [counts[k].within(at[which[i]], window) for i, _, k in lines]
    reasons = [
        _reason(edges, which[i], KEYS[k], len(there), usual[i, k] * window / fast, words)
        for (i, _, k), there in zip(lines, behind, strict=True)
    ]
    return reasons_table(
        edges,
        which[row],
        None,
        scores=surprise.max(axis=1, initial=0.0)[row],
        rank=rank + 1,
        what=[KEYS[k] for k in key],
        effects=surprise[row, key],
        reasons=[(reason, there[-NAMED:][::-1].tolist()) for reason, there in zip(reasons, behind, strict=True)],
    )


def burst_counts(arrivals: Arrivals, rows: Positions, fast: float, slow: float) -> tuple[Floats, Floats]:
    """The surprises of some edges, and the fast counts expected from the edges before, NaN if there is no time before.

    Both are of shape (n_rows, 3), in the order of `KEYS`; see `tdlg.propagate.bursts.burst_surprises`.
    """
    ticks, order, start = arrivals.ticks, arrivals.order, arrivals.start
    age = (ticks[rows] - start).astype(np.float64)
    inside, seen = (-width * np.expm1(-age / width) for width in (fast, slow))
    before = np.where(seen > inside, seen - inside, np.nan)
    found, usual = np.empty((2, len(rows), len(KEYS)))
    counts = np.empty((len(order), 2))
    for k, keys in enumerate(arrivals.keys):
        found[:, k] = surprises_of_key(keys, ticks, order, start, fast, slow, counts)[rows]
        count, total = counts[rows].T
        usual[:, k] = (total - count) / before * inside
    return found, usual


class _Latest:
    """The edges of a key, in the order in which they come."""

    def __init__(self, arrivals: Arrivals, key: int) -> None:
        self._ticks, self._keys = arrivals.ticks, arrivals.keys[key]
        self._place = np.empty(len(arrivals.order), np.int64)
        self._place[arrivals.order] = np.arange(len(arrivals.order))
        self._order = np.lexsort((self._place, self._keys))
        self._sorted = self._keys[self._order]

    def within(self, edge: int, window: float) -> Positions:
        """Positions of the edges with the same key as an edge, up to this edge and not older than the window."""
        start, stop = np.searchsorted(self._sorted, [self._keys[edge], self._keys[edge] + 1])
        same = self._order[start : np.searchsorted(self._place[self._order[start:stop]], self._place[edge]) + start + 1]
        return same[self._ticks[edge] - self._ticks[same] <= window]


def _reason(edges: TemporalEdges, i: int, key: str, n: int, usual: float, window: str) -> str:
    where = WHERE[key].format(src=node_in_words(edges.src[i]), dst=node_in_words(edges.dst[i]))
    many = f"{n:,} interactions" if n > 1 else "1 interaction"
    if not usual > 0:
        return f"{many} {where} within {window}, the first ever"
    shown = f"{usual:,.0f}" if usual >= 10 else f"{usual:.2g}"
    return f"{many} {where} within {window}, where {shown} {'is' if shown == '1' else 'are'} usual"
