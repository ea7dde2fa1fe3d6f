"""Sort the ends of edges by (key, time) in linear time: radix sorts, first by time, then by key.

An *event* is an end of an edge, filed under its key (a node, or a pair of nodes). Events of one key lie together, in the
order of their times, so that a walk along them meets every neighbour of every edge. All that a walk needs to know of
time is the *gap* to the event before, infinite at the first event of a key.
"""

import numpy as np

from tdlg._kernels.compiled import compiled
from tdlg._kernels.vectors import pointer, prefetch

DIGIT_BITS = 11  # 2,048 counters: as many as stay in the first cache beside the data
AHEAD = 16  # edges between asking for one and filing it
INDEX_BITS = 31  # of an edge's number
RANK_BITS = 64 - INDEX_BITS


@compiled
def stable_argsort(values):
    """The stable order of int64 or float64 values.

    Each value is ranked on a grid of 2^33 steps and packed with its number into one word, so that three digits sort all
    but those that share a step; the few that do are compared.
    """
    n = values.size
    if _is_sorted(values):
        return np.arange(n).astype(np.int32)
    low, high = values.min(), values.max()
    words = np.empty(n, np.uint64)
    exact = _rank(values, low, high, words)
    shift = INDEX_BITS
    other = np.empty(n, np.uint64)
    while shift < 64:
        if _sort_by_digit(words, np.uint64(shift), other):
            words, other = other, words
        shift += DIGIT_BITS
    order = np.empty(n, np.int32)
    for i in range(n):
        order[i] = words[i] & np.uint64((1 << INDEX_BITS) - 1)
    if not exact:
        _compare_within_steps(values, words, order)
    return order


@compiled
def _is_sorted(values):
    for i in range(1, values.size):
        if values[i] < values[i - 1]:
            return False
    return True


@compiled
def _rank(values, low, high, words):  # out: words
    """Rank of each value on the grid, above its number; returns whether equal ranks mean equal values."""
    most = (1 << RANK_BITS) - 1
    per_step = (np.float64(high) - np.float64(low)) / most
    for i in range(values.size):
        rank = np.uint64((values[i] - low) / per_step) if per_step > 1e-290 else np.uint64(0)
        words[i] = (min(rank, np.uint64(most)) << np.uint64(INDEX_BITS)) | np.uint64(i)
    return low == high


@compiled
def _sort_by_digit(words, shift, other):  # out: other
    """Sort by the digit at `shift`, stably; returns False, with nothing done, where all share it."""
    mask = np.uint64((1 << DIGIT_BITS) - 1)
    cursor = np.zeros((1 << DIGIT_BITS) + 1, np.int64)
    for i in range(words.size):
        cursor[np.int64((words[i] >> shift) & mask) + 1] += 1
    if cursor.max() == words.size:
        return False
    cursor = np.cumsum(cursor)
    for i in range(words.size):
        digit = np.int64((words[i] >> shift) & mask)
        other[cursor[digit]] = words[i]
        cursor[digit] += 1
    return True


@compiled
def _compare_within_steps(values, words, order):  # out: order
    first = 0
    for i in range(1, order.size + 1):
        if i < order.size and words[i] >> np.uint64(INDEX_BITS) == words[first] >> np.uint64(INDEX_BITS):
            continue
        if i - first > 1:
            these = order[first:i].copy()
            if not _is_sorted(values[these]):
                order[first:i] = these[np.argsort(values[these], kind="mergesort")]
        first = i


@compiled
def dense_codes(keys, order):
    """Number the distinct values of `keys` from 0, given their argsort."""
    codes = np.empty(keys.size, np.int32)
    code = -1
    for i in range(keys.size):
        if i == 0 or keys[order[i]] != keys[order[i - 1]]:
            code += 1
        codes[order[i]] = code
    return codes


@compiled
def place_symmetric(keys, n_keys, ticks, order):
    """File every end of every edge; an edge is both a row and a column.

    keys : (n_edges, ends) int32, -1 for an end that does not count; order : edges by time.
    Returns source (edge of an event), gap (one longer, closed by an infinity) and slots (events of an edge; the number
    of events if there is none).
    """
    n_ends = keys.shape[1]
    n_events = _count(keys)
    code, tick = np.empty(n_events, np.int64), np.empty(n_events, ticks.dtype)
    position = 0
    for i in range(order.size):
        soon = order[min(i + AHEAD, order.size - 1)]
        prefetch(pointer(keys), soon * n_ends)
        prefetch(pointer(ticks), soon)
        position = _file(keys, order[i], 0, ticks[order[i]], position, code, tick)
    source, gap = _sort_by_key(code, tick, n_keys)
    slots = np.full(keys.size, n_events, np.int32)
    for event in range(n_events):
        slots[source[event]] = event
        source[event] //= n_ends
    return source, gap, slots.reshape(keys.shape)


@compiled
def _count(keys):
    n = 0
    for edge in range(keys.shape[0]):
        for e in range(keys.shape[1]):
            n += keys[edge, e] >= 0
    return n


@compiled
def _file(keys, edge, offset, now, position, code, tick):  # out: code, tick
    """Write down the events of an edge: key and number of the end in one code, and time; returns the next position."""
    for e in range(keys.shape[1]):
        if keys[edge, e] >= 0:
            code[position] = (np.int64(keys[edge, e]) << 32) | (offset + edge * keys.shape[1] + e)
            tick[position] = now
            position += 1
    return position


@compiled
def _sort_by_key(code, tick, n_keys):
    """Sort events, given by time, by key; events of one key stay in their order. Returns the ends' numbers and gap."""
    n = code.size
    other_code, other_tick = np.empty_like(code), np.empty_like(tick)
    n_bits = 1
    while (n_keys - 1) >> n_bits > 0:
        n_bits += 1
    n_passes = -(-n_bits // DIGIT_BITS)
    digit_bits = -(-n_bits // n_passes)
    mask = (1 << digit_bits) - 1
    for turn in range(n_passes):
        shift = 32 + turn * digit_bits
        cursor = np.zeros(mask + 2, np.int64)
        for i in range(n):
            cursor[((code[i] >> shift) & mask) + 1] += 1
        cursor = np.cumsum(cursor)
        for i in range(n):
            digit = (code[i] >> shift) & mask
            position = cursor[digit]
            cursor[digit] += 1
            other_code[position], other_tick[position] = code[i], tick[i]
        code, other_code = other_code, code
        tick, other_tick = other_tick, tick
    end, gap = np.empty(n, np.int32), np.empty(n + 1, np.float64)
    gap[n] = np.inf
    for i in range(n):
        end[i] = code[i] & 0x7FFFFFFF
        gap[i] = tick[i] - tick[i - 1] if i > 0 and code[i] >> 32 == code[i - 1] >> 32 else np.inf
    return end, gap


@compiled
def place_rectangular(row_keys, col_keys, n_keys, row_ticks, col_ticks, row_order, col_order, own):
    """File the ends of rows and of columns together, an end of a row and the same end of its own column as one event.

    own : for each row the column that is the same edge, or -1.
    Returns source and target (column and row of an event; their number if there is none), gap, row_slots, col_slots.
    """
    n_rows, n_cols, n_ends = row_keys.shape[0], col_keys.shape[0], col_keys.shape[1]
    shares = _shared_ends(row_keys, col_keys, own)
    new_row_keys = np.where(shares >= 0, np.int32(-1), row_keys)
    n_events = _count(col_keys) + _count(new_row_keys)
    code, tick = np.empty(n_events, np.int64), np.empty(n_events, col_ticks.dtype)
    r = c = position = 0
    while r < n_rows or c < n_cols:  # merge the two by time
        if r == n_rows or (c < n_cols and col_ticks[col_order[c]] <= row_ticks[row_order[r]]):
            col = col_order[c]
            position = _file(col_keys, col, 0, col_ticks[col], position, code, tick)
            c += 1
        else:
            row = row_order[r]
            position = _file(new_row_keys, row, col_keys.size, row_ticks[row], position, code, tick)
            r += 1
    end, gap = _sort_by_key(code, tick, n_keys)

    slots = np.full(col_keys.size + row_keys.size, n_events, np.int32)
    for event in range(n_events):
        slots[end[event]] = event
    col_slots = slots[: col_keys.size].reshape(col_keys.shape)
    row_slots = slots[col_keys.size :].reshape(row_keys.shape)
    for row in range(n_rows):
        for e in range(n_ends):
            if shares[row, e] >= 0:
                row_slots[row, e] = col_slots[own[row], shares[row, e]]
    return _owners(col_slots, n_events), _owners(row_slots, n_events), gap, row_slots, col_slots


@compiled
def _owners(slots, n_events):
    """The edge of each event; the number of edges where it has none."""
    owner = np.full(n_events, slots.shape[0], np.int32)
    for edge in range(slots.shape[0]):
        for e in range(slots.shape[1]):
            if slots[edge, e] < n_events:
                owner[slots[edge, e]] = edge
    return owner


@compiled
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


@compiled
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
