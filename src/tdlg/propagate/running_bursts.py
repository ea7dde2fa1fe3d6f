"""RunningBursts: the burst scores of a stream, event by event, from counts that are carried along."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tdlg.propagate.running import IN, OUT, PAIR, Arrived
from tdlg.propagate.state import RunningSums, parts_of

__all__ = ["RunningBursts"]

Floats = NDArray[np.float64]
Positions = NDArray[np.int64]

COUNTED = np.array([(OUT, 0, -1, 0), (IN, 1, -1, 0), (PAIR, 0, 1, 0)])


class RunningBursts:
    """How surprising each event is as part of a burst of its source, its destination or its pair; see `burst_surprises`.

    Parameters
    ----------
    fast, slow
        The widths of the decays, in ticks.
    start
        The ticks of the first observation.
    dtype
        Type of the ticks.
    """

    def __init__(self, fast: float, slow: float, start: Any, dtype: np.dtype[Any]) -> None:
        self._widths, self._start = (fast, slow), start
        self.counts = RunningSums(np.array([fast, slow]), 1, dtype)
        self.clock: Any = None

    def surprises(self, events: Arrived, *, keep: bool = True) -> Floats:
        """The surprises of events in the order of time, (n_events,); each counts itself and those before it.

        Events before the present time are scored as of now, with all that has happened.

        Parameters
        ----------
        events
            The events.
        keep
            Whether they count for later events. True by default.
        """
        from tdlg._kernels.bursts import running_bursts

        now = events.ticks if self.clock is None else np.maximum(events.ticks, self.clock)
        n_before = self.counts.n
        nodes, rows = np.column_stack([events.src, events.dst]), np.arange(len(events.ticks))
        slots = self.counts.add(COUNTED, rows, nodes, np.empty((len(rows), 0), np.int64), events.ticks)
        saved = None if keep else self.counts.saved(slots, n_before, self.clock)
        surprises = np.empty(len(events.ticks))
        running_bursts(slots, events.ticks, now, self._start, *self._widths, *self.counts.arrays[:4], surprises)
        if saved is not None:
            self.counts.put_back(*saved)
        elif len(now):
            self.clock = now[-1]
        return surprises

    def forget(self, n_codes: int, after: float | None, held: Positions) -> Positions:
        """Forget keys whose counts have faded, and return the codes of nodes that are not used now, except those held."""
        faded = self.counts.faded(self.clock, 0.0)
        if after is not None:
            faded |= self.counts.time[: self.counts.n] < self.clock - after
        self.counts.keep(~faded)
        used = np.zeros(n_codes, bool)
        used[held] = True
        kind, a, b = parts_of(self.counts.keys[: self.counts.n])
        used[a] = True
        used[b[kind == PAIR]] = True
        return np.flatnonzero(~used)
