"""Bursts: more edges of a pair, a source or a destination in a short time than its own longer past suggests."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from tdlg.edges import TemporalEdges
from tdlg.linegraph.events import check_span
from tdlg.linegraph.match import SAME_ENDS
from tdlg.memory import default_threads
from tdlg.propagate.columns import Network
from tdlg.propagate.state import RunningSums, StreamEvents, reads_of, unused_codes

Floats = NDArray[np.float64]
Positions = NDArray[np.int64]
Codes = NDArray[np.int32]

KEYS = SAME_ENDS  # what edges are counted by: source, destination and pair
COUNTED = reads_of(KEYS)


class Arrivals(NamedTuple):
    """Edges as a stream sees them: what they are counted by, and the order in which they come."""

    keys: tuple[Codes, ...]  # for each of `KEYS`, one number from 0 per edge
    ticks: NDArray[Any]
    time_unit: str | None
    order: Codes  # positions of the edges by time, those at the same time in the order of their rows

    @classmethod
    def of(cls, edges: TemporalEdges, more: TemporalEdges | None = None) -> Self:
        """The arrivals of edges and, at the same time after them, of more edges, whose nodes may be new."""
        from tdlg._kernels.layout import dense_codes, stable_argsort

        src, dst, ticks, unit, *_ = Network.of(edges, more)
        check_span(ticks)
        pairs = src.astype(np.int64) * (int(dst.max(initial=-1)) + 1) + dst
        return cls((src, dst, dense_codes(pairs, stable_argsort(pairs))), ticks, unit, stable_argsort(ticks))

    @property
    def start(self) -> Any:
        """The ticks of the first edge; 0 if there are no edges."""
        return self.ticks[self.order[0]] if len(self.order) else 0


def burst_surprises(arrivals: Arrivals, fast: float, slow: float, n_threads: int | None = None) -> Floats:
    """How surprising each edge is as part of a burst, in decimal digits of a probability, shape (n_edges,).

    Every edge is counted by its source, its destination and its pair, with itself and all edges that come before it; an
    edge that is d ticks old counts exp(-d / width). If a key has the count f for the fast width and s for the slow width,
    and a share p of s was expected in f, the surprise is that of f or more successes among s trials of probability p:

        s * KL(f / s || p) / ln 10      if f > p * s, else 0        (the Chernoff bound of the binomial tail)

    with p = fast * (1 - exp(-a / fast)) / (slow * (1 - exp(-a / slow))), a being the ticks since the first edge of all. The
    result is the largest surprise of the three. By default all cores are used, at most one per key.
    """

    def surprises(keys: Codes) -> Floats:
        return surprises_of_key(keys, arrivals.ticks, arrivals.order, arrivals.start, fast, slow)

    with ThreadPoolExecutor(min(n_threads or default_threads(), len(KEYS))) as pool:  # walks need no lock
        return np.maximum.reduce(list(pool.map(surprises, arrivals.keys)))


def surprises_of_key(
    keys: Codes, ticks: NDArray[Any], order: Codes, start: Any, fast: float, slow: float, counts: Floats | None = None
) -> Floats:
    """The surprises of edges that are counted by one key, shape (n_edges,); see `burst_surprises`.

    keys : numbers from 0; order : positions of the edges as they come; start : ticks of the first edge of all; counts : if
    given, it gets the fast and the slow counts, (n_edges, 2).
    """
    from tdlg._kernels.bursts import count_bursts

    n_keys = int(keys.max(initial=-1)) + 1
    time, sums = np.full(n_keys, start, ticks.dtype), np.zeros((n_keys, 2, 1))
    counts, surprises = np.empty((0, 2)) if counts is None else counts, np.empty(len(keys))
    count_bursts(keys[:, np.newaxis], ticks, ticks, order, start, fast, slow, time, sums, counts, surprises)
    return surprises


class RunningBursts:
    """The burst scores of a stream, event by event, from counts that are carried along.

    fast, slow : the widths of the decays, in ticks; start : the ticks of the first observation; dtype : of the ticks.
    """

    def __init__(self, fast: float, slow: float, start: Any, dtype: np.dtype[Any]) -> None:
        self._widths, self._start = (fast, slow), start
        self.counts = RunningSums(np.array([fast, slow]), 1, dtype)
        self.clock: Any = None

    def surprises(self, events: StreamEvents, *, keep: bool = True) -> Floats:
        """The surprises of events in the order of time, (n_events,); each counts itself and those before it.

        Events before the present time are scored as of now, with all that has happened. They count for later events if
        `keep`.
        """
        from tdlg._kernels.bursts import count_bursts

        ticks, counts, n_before = events.ticks, self.counts, self.counts.n
        now = ticks if self.clock is None else np.maximum(ticks, self.clock)
        nodes, rows = np.column_stack([events.src, events.dst]), np.arange(len(ticks))
        slots = counts.add(COUNTED, rows, nodes, np.empty((len(rows), 0), np.int64), ticks)
        saved = None if keep else counts.saved(slots, n_before, self.clock)
        surprises, times = np.empty(len(ticks)), (ticks, now, rows, self._start)
        count_bursts(slots, *times, *self._widths, counts.time, counts.sums, np.empty((0, 2)), surprises)
        if saved is not None:
            counts.put_back(*saved)
        elif len(now):
            counts.last[slots] = np.maximum(counts.last[slots], ticks[:, np.newaxis])  # the latest comes last
            self.clock = now[-1]
        return surprises

    def forget(self, n_codes: int, after: float | None, held: Positions) -> Positions:
        """Forget keys whose counts have faded, and return the codes of nodes that are not used now, except those held."""
        self.counts.forget(self.clock, 0.0, after)
        return unused_codes(n_codes, held, [self.counts])
