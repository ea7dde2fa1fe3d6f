"""Which entries the line graph has: for single rows and for explicit matrices."""

import numpy as np

from tdlg._kernels import FUTURE, PAST
from tdlg._kernels.compiled import compiled


@compiled
def key_range(gap, event):
    """The events first <= e < stop of the same key."""
    first = event
    while gap[first] < np.inf:
        first -= 1
    stop = event + 1
    while gap[stop] < np.inf:
        stop += 1
    return first, stop


@compiled
def windows(gap, first, stop, direction):
    """For each event of some whole keys, the events low <= e < high that it sees."""
    low, high = np.empty(stop - first, np.int64), np.empty(stop - first, np.int64)
    begin = first
    while begin < stop:
        end = begin + 1
        while end < stop and gap[end] < np.inf:
            end += 1
        low[begin - first : end - first], high[begin - first : end - first] = begin, end
        begin = end
    for i in range(first, stop):  # under a direction, those at the same time are not seen
        if direction == PAST:
            tied = gap[i] == 0.0 and i > first
            high[i - first] = max(low[i - first], high[i - first - 1] if tied else i)
    for i in range(stop - 1, first - 1, -1):
        if direction == FUTURE:
            tied = i + 1 < stop and gap[i + 1] == 0.0
            low[i - first] = min(high[i - first], low[i - first + 1] if tied else i + 1)
    return low, high


@compiled
def fill_entries(source, slots, n_cols, low, high, ticks, include_self, indptr, indices, distances):
    # out: indices, distances
    """The columns of each row's entries and how far away they are, a column met at both ends twice; indptr : row starts."""
    row_ticks, col_ticks = ticks
    for row in range(slots.shape[0]):
        position = indptr[row]
        for end in range(slots.shape[1]):
            slot = slots[row, end]
            if slot == source.size:
                continue
            for event in range(low[slot], high[slot]):
                col = source[event]
                if col < n_cols and (event != slot or include_self):
                    indices[position] = col
                    distances[position] = abs(row_ticks[row] - col_ticks[col])
                    position += 1
