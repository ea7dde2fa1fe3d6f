"""Sort the ends of edges by (key, time) in linear time: a radix sort by time, then a placement by key.

An *event* is an end of an edge, filed under its key (a node, or a pair of nodes). Events of one key lie together, in the
order of their times, so that a walk along them meets every neighbour of every edge. All that a walk needs to know of time
is the *gap* to the event before, infinite at the first event of a key.
"""

import numpy as np
from numba import jit

from tdlg._kernels import JIT

DIGIT_BITS = 11  # 2,048 counters: as many as stay in the first cache beside the data
_DIGIT_MASK = (1 << DIGIT_BITS) - 1


@jit(**JIT)
def radix_argsort(keys):
    """A stable argsort of uint64 keys, least digit first; digits that all keys share cost one look."""
    n = keys.size
    order = np.arange(n).astype(np.int32)
    if n < 2:
        return order
    same = keys[0]
    different = np.uint64(0)
    is_sorted = True
    for i in range(1, n):
        different |= keys[i] ^ same
        if keys[i] < keys[i - 1]:
            is_sorted = False
    if is_sorted:
        return order
    other = np.empty(n, np.int32)
    values, other_values = keys.copy(), np.empty(n, np.uint64)
    for shift in range(0, 64, DIGIT_BITS):
        if (different >> np.uint64(shift)) & np.uint64(_DIGIT_MASK) == 0:
            continue
        _sort_by_digit(values, order, np.uint64(shift), other_values, other)
        values, other_values = other_values, values
        order, other = other, order
    return order


@jit(**JIT)
def _sort_by_digit(values, order, shift, out_values, out_order):  # out: out_values, out_order
    cursor = np.zeros(_DIGIT_MASK + 2, np.int64)
    for i in range(values.size):
        cursor[np.int64((values[i] >> shift) & np.uint64(_DIGIT_MASK)) + 1] += 1
    cursor = np.cumsum(cursor)
    for i in range(values.size):
        digit = np.int64((values[i] >> shift) & np.uint64(_DIGIT_MASK))
        position = cursor[digit]
        cursor[digit] += 1
        out_values[position] = values[i]
        out_order[position] = order[i]


@jit(**JIT)
def dense_codes(keys, order):
    """Number the distinct values of `keys` from 0, given their argsort."""
    codes = np.empty(keys.size, np.int32)
    code = -1
    for i in range(keys.size):
        if i == 0 or keys[order[i]] != keys[order[i - 1]]:
            code += 1
        codes[order[i]] = code
    return codes


@jit(**JIT)
def place_symmetric(keys, n_keys, ticks, order):
    """File every end of every edge; an edge is both a row and a column.

    keys : (n_edges, ends) int32, -1 for an end that does not count; order : edges by time.
    Returns source (edge of an event), gap (one longer, closed by an infinity) and slots (events of an edge; the number of
    events stands for none).
    """
    n_edges, n_ends = keys.shape
    cursor = _first_positions(keys, n_keys)
    n_events = cursor[n_keys]
    last = np.empty(n_keys, ticks.dtype)
    seen = np.zeros(n_keys, np.bool_)
    source = np.empty(n_events, np.int32)
    gap = np.empty(n_events + 1, np.float64)
    gap[n_events] = np.inf
    slots = np.full((n_edges, n_ends), n_events, np.int32)
    for edge in order:
        for end in range(n_ends):
            key = keys[edge, end]
            if key < 0:
                continue
            position = cursor[key]
            cursor[key] += 1
            source[position] = edge
            gap[position] = ticks[edge] - last[key] if seen[key] else np.inf
            seen[key] = True
            last[key] = ticks[edge]
            slots[edge, end] = position
    return source, gap, slots


@jit(**JIT)
def _first_positions(keys, n_keys):
    """Where the events of each key begin, and last their number."""
    count = np.zeros(n_keys + 1, np.int64)
    for edge in range(keys.shape[0]):
        for end in range(keys.shape[1]):
            if keys[edge, end] >= 0:
                count[keys[edge, end] + 1] += 1
    return np.cumsum(count)


@jit(**JIT)
def place_rectangular(row_keys, col_keys, n_keys, row_ticks, col_ticks, row_order, col_order, own):
    """File the ends of rows and of columns together, an end of a row and the same end of its own column as one event.

    own : for each row the column that is the same edge, or -1.
    Returns source and target (column and row of an event; their number stands for none), gap, row_slots, col_slots.
    """
    n_rows, n_cols, n_ends = row_keys.shape[0], col_keys.shape[0], col_keys.shape[1]
    row_shares = _shared_ends(row_keys, col_keys, own)
    new_row_keys = np.where(row_shares >= 0, np.int32(-1), row_keys)
    cursor = _first_positions(col_keys, n_keys) + _first_positions(new_row_keys, n_keys)
    n_events = cursor[n_keys]
    last = np.empty(n_keys, col_ticks.dtype)
    seen = np.zeros(n_keys, np.bool_)
    source = np.full(n_events, n_cols, np.int32)
    target = np.full(n_events, n_rows, np.int32)
    gap = np.empty(n_events + 1, np.float64)
    gap[n_events] = np.inf
    row_slots = np.full((n_rows, n_ends), n_events, np.int32)
    col_slots = np.full((n_cols, n_ends), n_events, np.int32)
    r = c = 0
    while r < n_rows or c < n_cols:
        is_col = r == n_rows or (c < n_cols and col_ticks[col_order[c]] <= row_ticks[row_order[r]])
        edge = col_order[c] if is_col else row_order[r]
        now = col_ticks[edge] if is_col else row_ticks[edge]
        c, r = (c + 1, r) if is_col else (c, r + 1)
        for end in range(n_ends):
            key = col_keys[edge, end] if is_col else new_row_keys[edge, end]
            if key < 0:
                continue
            position = cursor[key]
            cursor[key] += 1
            gap[position] = now - last[key] if seen[key] else np.inf
            seen[key] = True
            last[key] = now
            if is_col:
                source[position] = edge
                col_slots[edge, end] = position
            else:
                target[position] = edge
                row_slots[edge, end] = position
    for row in range(n_rows):
        for end in range(n_ends):
            if row_shares[row, end] >= 0:
                position = col_slots[own[row], row_shares[row, end]]
                row_slots[row, end] = position
                target[position] = row
    return source, target, gap, row_slots, col_slots


@jit(**JIT)
def _shared_ends(row_keys, col_keys, own):
    """For each end of a row the end of its own column with the same key, or -1."""
    shares = np.full(row_keys.shape, -1, np.int32)
    for row in range(row_keys.shape[0]):
        if own[row] < 0:
            continue
        for end in range(row_keys.shape[1]):
            for other in range(col_keys.shape[1]):
                if row_keys[row, end] >= 0 and row_keys[row, end] == col_keys[own[row], other]:
                    shares[row, end] = other
    return shares


@jit(**JIT)
def chunk_end(gap, low, stop, size):
    """Where a chunk of whole keys, from event `low` on, ends: after at most `size` events, or after one longer key."""
    high = min(low + size, stop)
    if high == stop:
        return stop
    while high > low and gap[high] < np.inf:
        high -= 1
    if high == low:
        high = low + size
        while high < stop and gap[high] < np.inf:
            high += 1
    return high
