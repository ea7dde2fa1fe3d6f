"""Entries of the line graph one by one, from their formula: for single rows and for explicit matrices."""

import numpy as np
from numba import jit

from tdlg._kernels import JIT

PAST, BOTH, FUTURE = -1, 0, 1  # which columns a row sees


@jit(**JIT)
def decay_value(codes, bandwidths, weights, distance):
    """k(distance): the sum of weight * {0: 1, 1: exp(-d), 2: exp(-d^2 / 2)}, d in bandwidths."""
    total = 0.0
    for part in range(codes.size):
        d = distance / bandwidths[part]
        if codes[part] == 0:
            total += weights[part]
        elif codes[part] == 1:
            total += weights[part] * np.exp(-d)
        else:
            total += weights[part] * np.exp(-0.5 * d * d)
    return total


@jit(**JIT)
def count_entries(rows, layout, view, reach):
    """How many entries each of the given rows has (a column met at both ends counted twice)."""
    source, gap, slots, n_cols = layout
    counts = np.zeros(rows.size, np.int64)
    for at in range(rows.size):
        for end in range(slots.shape[1]):
            slot = slots[rows[at], end]
            if slot == source.size:
                continue
            low, high = _window(slot, gap, view[0], reach)
            for event in range(low, high):
                counts[at] += source[event] < n_cols and (event != slot or view[1])
    return counts


@jit(**JIT)
def fill_entries(rows, layout, ticks, view, reach, decay, indptr, indices, data):  # out: indices, data
    """The columns and values of the entries that `count_entries` counted; indptr says where each row begins."""
    source, gap, slots, n_cols = layout
    row_ticks, col_ticks = ticks
    for at in range(rows.size):
        position = indptr[at]
        for end in range(slots.shape[1]):
            slot = slots[rows[at], end]
            if slot == source.size:
                continue
            low, high = _window(slot, gap, view[0], reach)
            for event in range(low, high):
                col = source[event]
                if col < n_cols and (event != slot or view[1]):
                    indices[position] = col
                    distance = np.float64(abs(row_ticks[rows[at]] - col_ticks[col]))
                    data[position] = decay_value(decay[0], decay[1], decay[2], distance)
                    position += 1


@jit(**JIT)
def _window(slot, gap, direction, reach):
    """The events low <= event < high of a row's key that it sees, no further than `reach` away."""
    low = slot
    passed = 0.0
    while gap[low] < np.inf and passed + gap[low] <= reach:
        passed += gap[low]
        low -= 1
    high = slot + 1
    passed = 0.0
    while gap[high] < np.inf and passed + gap[high] <= reach:
        passed += gap[high]
        high += 1
    if direction == PAST:
        high = slot
        while high > low and gap[high] == 0.0:
            high -= 1
    elif direction == FUTURE:
        low = slot + 1
        while low < high and gap[low] == 0.0:
            low += 1
    return low, high
