"""Decayed sums along sorted events, by recurrences: each event costs the same, however many neighbours it has.

With k(d) = Re sum_k coefs[k] * exp(-rates[k] * d), the sum over all earlier events of one key,

    s_k(i) = sum over j before i of exp(-rates[k] * (t_i - t_j)) * x_j,

follows from the one before: s_k(i) = exp(-rates[k] * gap_i) * (s_k(i - 1) + x_(i - 1)). The same walk from the other end
gives the later events. At the first event of a key the gap is infinite and the sum starts anew; the walk needs to know
nothing else of keys.

This is the plain loop; `waves.py` and `fading.py` do the same faster.
"""

import numpy as np

from tdlg._kernels.compiled import compiled
from tdlg._kernels.vectors import pointer, prefetch

AHEAD = 16  # edges between asking for a row of sums and using it


@compiled
def walk(gap, source, x, first, stop, step, rates, coefs, strict, emit, own, fresh, state, out):  # out: state, out
    """Walk over the events first, first + step, ... before stop, and give each the decayed sum of those passed.

    x : (columns of H, columns); out : (events, columns).
    strict : events at the same time do not see each other.
    emit : whether to write to `out`, or only to bring the state along.
    own : what an event's own value counts; fresh : whether `out` starts here, or is added to.
    state : (terms, columns) complex, the sums at `first` of what was passed before; at the end those at `stop`.
    """
    waiting = np.zeros(state.shape[1])  # values not in the state yet: this event's; under `strict` all at its time
    for i in range(first, stop, step):
        distance = gap[i + 1] if step > 0 else gap[i]
        for c in range(waiting.size):
            value = np.float64(x[source[i], c])
            if emit:
                total = own * value if fresh else np.float64(out[i, c])
                for k in range(rates.size):
                    total += (coefs[k] * state[k, c]).real
                out[i, c] = total
            waiting[c] += value
            if not (strict and distance == 0.0):
                for k in range(rates.size):
                    factor = np.exp(-rates[k] * distance)
                    state[k, c] = factor * (state[k, c] + waiting[c]) if distance < np.inf else 0.0j
                waiting[c] = 0.0


@compiled
def edge_sums(slots, per_event, column, first, stop, y):  # out: y
    """Column by column, y of an edge = the sum over its events.

    per_event : (events + 1, columns); its last row is 0, for an end that is missing.
    """
    n_columns = min(per_event.shape[1], y.shape[1] - column)
    last = slots.shape[1] - 1
    rows = pointer(per_event)
    for i in range(first, stop):
        soon = min(i + AHEAD, stop - 1)
        prefetch(rows, slots[soon, 0] * per_event.shape[1])
        prefetch(rows, slots[soon, last] * per_event.shape[1])
        a, b = slots[i, 0], slots[i, last]
        if last == 0:
            for c in range(n_columns):
                y[i, column + c] = per_event[a, c]
        else:
            for c in range(n_columns):
                y[i, column + c] = per_event[a, c] + per_event[b, c]


@compiled
def edge_sums_one(slots, per_event, first, stop, y):  # out: y
    """`edge_sums` of a single column."""
    if slots.shape[1] == 1:
        for i in range(first, stop):
            y[i] = per_event[slots[i, 0]]
    else:
        for i in range(first, stop):
            y[i] = per_event[slots[i, 0]] + per_event[slots[i, 1]]


@compiled
def span(gap, cut, limit, step, reach):
    """How far events of the key at a cut matter, before it (step -1) or behind it (1): where they end, and the distance."""
    end = cut
    passed = 0.0
    while end != limit and passed + gap[end] <= reach and gap[end] < np.inf:
        passed += gap[end]
        end += step
    return end, passed
