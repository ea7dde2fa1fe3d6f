"""Decayed sums of several values at several rates in one walk, and the time to the nearest event; for `propagate`.

The recurrence is that of `recurrence.py`; what differs is that every rate keeps its own sums, and that an event never meets
its own column. Sums are written for the events of rows, one after the other, and brought to their rows at the end: one jump
per event instead of two.
"""

import numpy as np

from tdlg._kernels.compiled import compiled
from tdlg._kernels.vectors import pointer, prefetch

AHEAD = 16  # events or rows between asking for memory and using it


@compiled
def walk_scales(gap, source, target, n_rows, x, rates, strict, step, fresh, sums, nearest):  # out: sums, nearest
    """Give each event of a row the decayed sums of the columns passed, and the distance to the last one.

    x : (n_cols, values).
    rates : 1 / width of each scale, in ticks; strict : events at the same time do not see each other.
    step : 1 walks up from the past, -1 down from the future; fresh : whether `sums` start here, or are added to.
    sums : (n_targets, rates, values), for the events of rows one after the other; nearest : (n_targets,), infinite where no
    column was passed.
    """
    n_cols, n_events = x.shape[0], source.size
    n_rates, n_values = rates.size, x.shape[1]
    state, waiting = np.zeros((n_rates, n_values)), np.zeros((n_rates, n_values))
    waits = False
    distance = np.inf
    place = 0 if step > 0 else nearest.size - 1
    to_come = pointer(x)
    for at in range(n_events):
        event = at if step > 0 else n_events - 1 - at
        soon = event + AHEAD * step
        if 0 <= soon < n_events and source[soon] < n_cols:
            prefetch(to_come, source[soon] * n_values)
        passed = gap[event] if step > 0 else gap[event + 1]
        if passed == np.inf:  # another key
            for k in range(n_rates):
                for v in range(n_values):
                    state[k, v] = waiting[k, v] = 0.0
            waits = False
            distance = np.inf
        elif passed > 0.0:
            distance = passed if waits else distance + passed
            for k in range(n_rates):
                factor = np.exp(-rates[k] * passed)
                for v in range(n_values):
                    state[k, v] = factor * (state[k, v] + waiting[k, v])
                    waiting[k, v] = 0.0
            waits = False
        if target[event] < n_rows:
            for k in range(n_rates):
                for v in range(n_values):
                    sums[place, k, v] = state[k, v] if fresh else sums[place, k, v] + state[k, v]
            nearest[place] = distance
            place += step
        col = source[event]
        if col < n_cols:
            into = waiting if strict else state
            for k in range(n_rates):
                for v in range(n_values):
                    into[k, v] += x[col, v]
            waits = strict
            distance = distance if strict else 0.0


@compiled
def gather_scales(slots, sums, before, after, values, gaps):  # out: values, gaps
    """Bring what events have to their rows: values (rates, values, n_rows), and gaps (2, n_rows) before and after.

    slots : the number of each row among the events of rows; their number for a row without an event.

    Of edges at one time each walk meets only some: where one of the gaps is 0, both are.
    """
    n_events = before.size
    rows = pointer(sums)
    size = sums.shape[1] * sums.shape[2]
    for row in range(slots.size):
        soon = slots[min(row + AHEAD, slots.size - 1)]
        if soon < n_events:
            prefetch(rows, soon * size)
            prefetch(rows, soon * size + 8)
        event = slots[row]
        gaps[0, row] = gaps[1, row] = np.inf
        if event < n_events:
            gaps[0, row], gaps[1, row] = before[event], after[event]
            if before[event] == 0.0 or after[event] == 0.0:
                gaps[0, row] = gaps[1, row] = 0.0
        for k in range(values.shape[0]):
            for v in range(values.shape[1]):
                values[k, v, row] = sums[event, k, v] if event < n_events else 0.0
