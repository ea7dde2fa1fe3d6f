"""Number ids, and sort the ends of edges by (key, time): into parts by ranges of keys, then each part within the caches.

An *event* is an end of an edge, filed under its key (a node, or a pair of nodes). Events of one key lie together, in the
order of their times, so that a walk along them meets every neighbour of every edge. All that a walk needs to know of
time is the *gap* to the event before, infinite at the first event of a key.
"""

from typing import Any, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from tdlg._kernels.compiled import compiled

Codes: TypeAlias = NDArray[np.int32]

DIGIT_BITS = 11  # 2,048 counters: as many as stay in the first cache beside the data
INDEX_BITS = 31  # of an edge's number
RANK_BITS = 64 - INDEX_BITS
PART = 1 << 16  # events of a part on average, if no node has more
SPARSE = 64  # possible keys per event above which keys are numbered anew
ROUNDS, MOST_AT_ONCE = 4, 1 << 22  # rounds in which many events are sorted, to save memory; events that take one round
# Events of a key up to which they are inserted one by one, and above which they are sorted by digits.
INSERTED, BY_DIGITS = 48, 4096


@compiled
def stable_argsort(values):
    """The stable order of int64, uint64 or float64 values.

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
            of_step = values[order[first:i]]
            if not _is_sorted(of_step):
                _merge_sort(of_step, order[first:i])
        first = i


@compiled
def _insertion_sort(values, carried):  # out: values, carried
    for i in range(1, values.size):
        value, this, j = values[i], carried[i], i
        while j > 0 and values[j - 1] > value:
            values[j], carried[j] = values[j - 1], carried[j - 1]
            j -= 1
        values[j], carried[j] = value, this


@compiled
def _merge_sort(values, carried):  # out: values, carried
    """Sort values stably, each with what it carries. Numba's own sort takes seconds to compile."""
    n = values.size
    for first in range(0, n, INSERTED):
        _insertion_sort(values[first : first + INSERTED], carried[first : first + INSERTED])
    run, left, left_carried = INSERTED, np.empty_like(values), np.empty_like(carried)
    while run < n:
        for first in range(0, n - run, 2 * run):
            for i in range(run):
                left[i], left_carried[i] = values[first + i], carried[first + i]
            i, j, stop = 0, first + run, min(first + 2 * run, n)
            for k in range(first, stop):
                if i == run:
                    break
                if j == stop or left[i] <= values[j]:
                    values[k], carried[k] = left[i], left_carried[i]
                    i += 1
                else:
                    values[k], carried[k] = values[j], carried[j]
                    j += 1
        run *= 2


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


# ---- codes


def factorise_integers(
    src: NDArray[np.integer], dst: NDArray[np.integer]
) -> tuple[NDArray[np.integer], NDArray[np.int32], NDArray[np.int32]]:
    """Give the distinct ids of both columns, ascending, and the int32 position of every endpoint among them.

    Ids from a range not much wider than their number are addressed directly, all others sorted. Where the ids are int32 and
    already 0..n-1 the codes are the columns themselves, not copies. The columns have one dtype, int32 or int64, and may
    differ in length.
    """
    columns = [column for column in (src, dst) if len(column)]
    if not columns:
        return src[:0], np.empty(0, np.int32), np.empty(0, np.int32)
    low = int(min(column.min() for column in columns))
    width = int(max(column.max() for column in columns)) - low + 1
    if width > 4 * (len(src) + len(dst)) + PART:
        both = np.concatenate([src, dst])
        unsigned = both.astype(np.int64).view(np.uint64) ^ np.uint64(1 << 63)  # in the same order; differences fit
        codes = dense_codes(unsigned, stable_argsort(unsigned))
        ids = np.empty(int(codes.max()) + 1, src.dtype)
        ids[codes] = both
        return ids, codes[: len(src)], codes[len(src) :]
    position = np.full(width, -1, np.int32)
    for column in columns:
        _mark(column, low, position)
    found = np.flatnonzero(position == 0)
    position[found] = np.arange(len(found))
    ids = (found + low).astype(src.dtype)
    if low == 0 and len(ids) == width and src.dtype == np.int32:
        return ids, cast(Codes, src), cast(Codes, dst)
    return ids, _looked_up(src, low, position), _looked_up(dst, low, position)


@compiled
def _mark(column, low, position):
    """Set to 0 what occurs among low, low + 1, ..."""
    for value in column:
        position[value - low] = 0  # out


@compiled
def _looked_up(column, low, position):
    codes = np.empty(len(column), np.int32)
    for i in range(len(column)):
        codes[i] = position[column[i] - low]
    return codes


# ---- events


def place_symmetric(keys: Codes, n_keys: int, ticks: NDArray[Any]) -> tuple[Codes, NDArray[np.float64], Codes]:
    """File every end of every edge; an edge is both a row and a column.

    keys : (n_edges, ends) int32, -1 for an end that does not count.
    Returns source (edge of an event), gap (one longer, closed by an infinity) and slots (events of an edge; the number
    of events if there is none).
    """
    source, gap = _sorted_events(keys, ticks, keys[:0], ticks[:0], n_keys)
    slots = np.empty(keys.size, np.int32)
    _fill_slots(source, slots)
    source //= keys.shape[1]
    return source, gap, slots.reshape(keys.shape)


def place_rectangular(
    row_keys: Codes,
    col_keys: Codes,
    n_keys: int,
    row_ticks: NDArray[Any],
    col_ticks: NDArray[Any],
    own: NDArray[np.int64],
) -> tuple[Codes, Codes, NDArray[np.float64], Codes, Codes]:
    """File the ends of rows and of columns together, an end of a row and the same end of its own column as one event.

    own : for each row the column that is the same edge, or -1.
    Returns source and target (column and row of an event; their number if there is none), gap, row_slots, col_slots.
    """
    shares = _shared_ends(_read_only(row_keys), _read_only(col_keys), own)
    new_row_keys = np.where(shares >= 0, np.int32(-1), row_keys)
    end, gap = _sorted_events(col_keys, col_ticks, new_row_keys, row_ticks, n_keys)
    slots = np.empty(col_keys.size + row_keys.size, np.int32)
    _fill_slots(end, slots)
    col_slots = slots[: col_keys.size].reshape(col_keys.shape)
    row_slots = slots[col_keys.size :].reshape(row_keys.shape)
    _fill_shared(shares, own, col_slots, row_slots)
    return _owners(col_slots, end.size), _owners(row_slots, end.size), gap, row_slots, col_slots


def _sorted_events(
    keys: Codes, ticks: NDArray[Any], more_keys: Codes, more_ticks: NDArray[Any], n_keys: int
) -> tuple[Codes, NDArray[np.float64]]:
    """The ends of two sets of edges by key and time: their numbers, those of the second set after the first, and gap.

    Ends of one key at the same time keep their order. The large arrays are numpy's, which asks for large pages of memory.
    """
    keys, ticks, more_keys, more_ticks = map(_read_only, (keys, ticks, more_keys, more_ticks))
    n_events = int(np.count_nonzero(keys >= 0) + np.count_nonzero(more_keys >= 0))
    if n_keys > SPARSE * n_events + PART:  # few edges of a large network: all keys would be gone through
        keys, more_keys, n_keys = _renumbered(keys, more_keys)
        keys, more_keys = _read_only(keys), _read_only(more_keys)
    shift = 0  # bits of a key within its part
    while (((n_keys - 1) >> shift) + 1) * PART > max(n_events, PART):
        shift += 1
    starts = np.zeros((max(n_keys - 1, 0) >> shift) + 2, np.int64)
    _count_parts(keys, shift, starts)
    _count_parts(more_keys, shift, starts)
    starts = np.cumsum(starts)
    most = int(np.diff(starts).max())
    room = max(n_events // ROUNDS, min(n_events, MOST_AT_ONCE), most)
    code, tick, time = np.empty(room, np.int64), np.empty(room, ticks.dtype), np.empty(most, ticks.dtype)
    end, gap = np.empty(n_events, np.int32), np.empty(n_events + 1, np.float64)
    gap[n_events] = np.inf
    _sort_events(keys, ticks, more_keys, more_ticks, shift, starts, code, tick, time, end, gap)
    return end, gap


def _read_only(array: NDArray[Any]) -> NDArray[Any]:
    """The array as numba's read-only type, so that kernels are compiled once for arrays that may be written and others."""
    view = array.view()
    view.flags.writeable = False
    return view


def _renumbered(keys: Codes, more_keys: Codes) -> tuple[Codes, Codes, int]:
    """The keys that occur, numbered from 0 in the same order; -1 stays."""
    both: Codes = np.concatenate([keys.ravel(), more_keys.ravel()])
    distinct, places = np.unique(both, return_inverse=True)
    n_missing = int(np.count_nonzero(distinct < 0))
    codes: Codes = np.asarray(places - n_missing, np.int32)
    first, second = codes[: keys.size].reshape(keys.shape), codes[keys.size :].reshape(more_keys.shape)
    return first, second, distinct.size - n_missing


@compiled
def _count_parts(keys, shift, starts):  # out: starts
    for edge in range(keys.shape[0]):
        for e in range(keys.shape[1]):
            if keys[edge, e] >= 0:
                starts[(keys[edge, e] >> shift) + 1] += 1


@compiled
def _sort_events(keys, ticks, more_keys, more_ticks, shift, starts, code, tick, time, end, gap):  # out: the last five
    """Sort by key and time: as many parts at once as there is room for in `code` and `tick`."""
    n_parts = starts.size - 1
    cursor = starts[:-1].copy()
    counter = np.empty((1 << shift) + 1, np.int64)
    part = 0
    while part < n_parts:
        last = part + 1
        while last < n_parts and starts[last + 1] - starts[part] <= code.size:
            last += 1
        base, low, high = starts[part], part << shift, last << shift
        _file_ends(keys, ticks, 0, shift, low, high, cursor, base, code, tick)
        _file_ends(more_keys, more_ticks, keys.size, shift, low, high, cursor, base, code, tick)
        for p in range(part, last):
            a, b = starts[p], starts[p + 1]
            of_part, n = slice(a - base, b - base), b - a
            _sort_part(code[of_part], tick[of_part], p << shift, counter, time[:n], end[a:b], gap[a:b])
        part = last


@compiled
def _file_ends(keys, ticks, offset, shift, low, high, cursor, base, code, tick):  # out: cursor, code, tick
    """Write down the ends with keys from low to high, by part: key and number of the end in one code, and time."""
    for edge in range(keys.shape[0]):
        for e in range(keys.shape[1]):
            key = keys[edge, e]
            if low <= key < high:
                at = cursor[key >> shift]
                cursor[key >> shift] = at + 1
                code[at - base] = (np.int64(key) << 32) | (offset + edge * keys.shape[1] + e)
                tick[at - base] = ticks[edge]


@compiled
def _sort_part(code, tick, first, counter, time, end, gap):  # out: counter, time, end, gap
    """Sort the events of a part, small enough for the caches, by key and then those of each key by time."""
    counter[:] = 0
    for i in range(code.size):
        counter[(code[i] >> 32) - first + 1] += 1
    for k in range(1, counter.size):
        counter[k] += counter[k - 1]
    for i in range(code.size):
        k = (code[i] >> 32) - first
        at = counter[k]
        counter[k] = at + 1
        end[at], time[at] = code[i] & 0x7FFFFFFF, tick[i]
    start = 0
    for k in range(counter.size - 1):
        stop = counter[k]
        if stop > start:
            _sort_by_time(time[start:stop], end[start:stop])
            gap[start] = np.inf
            for i in range(start + 1, stop):
                gap[i] = time[i] - time[i - 1]
            start = stop


@compiled
def _sort_by_time(time, end):  # out: time, end
    if time.size <= INSERTED:
        _insertion_sort(time, end)
    elif not _is_sorted(time):
        if time.size <= BY_DIGITS:
            _merge_sort(time, end)
        else:
            order = stable_argsort(time)
            time[:], end[:] = time[order], end[order]


@compiled
def _fill_slots(end, slots):  # out: slots
    slots[:] = end.size
    for event in range(end.size):
        slots[end[event]] = event


@compiled
def _fill_shared(shares, own, col_slots, row_slots):  # out: row_slots
    for row in range(shares.shape[0]):
        for e in range(shares.shape[1]):
            if shares[row, e] >= 0:
                row_slots[row, e] = col_slots[own[row], shares[row, e]]


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
