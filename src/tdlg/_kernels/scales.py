"""Decayed sums of several values at several rates in one walk, and the time to the nearest event; for `propagate`.

The recurrence is that of `recurrence.py`; what differs is that every rate keeps its own sums, that a column may have
happened before its event (a label that became known late), and that an event never meets its own column.
"""

import numpy as np
from numba import jit

from tdlg._kernels import JIT


@jit(**JIT)
def walk_scales(gap, source, target, x, age, rates, strict, step, sums, nearest):  # out: sums, nearest
    """Add to each row the decayed sums of the columns passed, and give the distance to the last one.

    x : (n_cols, values); age : (n_cols,), how long before its event a column happened, or empty where none did.
    rates : 1 / width of each scale, in ticks; strict : events at the same time do not see each other.
    step : 1 walks up from the past, -1 down from the future.
    sums : (n_rows, rates, values), added to; nearest : (n_rows,), infinite where no column was passed.
    """
    n_rows, n_cols, n_events = sums.shape[0], x.shape[0], source.size
    n_rates, n_values = rates.size, x.shape[1]
    state, waiting = np.zeros((n_rates, n_values)), np.zeros((n_rates, n_values))
    waits = False
    distance = np.inf
    for at in range(n_events):
        event = at if step > 0 else n_events - 1 - at
        passed = gap[event] if step > 0 else gap[event + 1]
        if passed == np.inf:  # another key
            state[:], waiting[:] = 0.0, 0.0
            waits = False
            distance = np.inf
        elif passed > 0.0:
            if waits:
                state += waiting
                waiting[:] = 0.0
                waits = False
                distance = 0.0
            distance += passed
            for k in range(n_rates):
                factor = np.exp(-rates[k] * passed)
                for v in range(n_values):
                    state[k, v] *= factor
        row, col = target[event], source[event]
        if row < n_rows:
            for k in range(n_rates):
                for v in range(n_values):
                    sums[row, k, v] += state[k, v]
            nearest[row] = distance
        if col < n_cols:
            into = waiting if strict else state
            for k in range(n_rates):
                factor = np.exp(-rates[k] * age[col]) if age.size else 1.0
                for v in range(n_values):
                    into[k, v] += factor * x[col, v]
            if strict:
                waits = True
            else:
                distance = 0.0
