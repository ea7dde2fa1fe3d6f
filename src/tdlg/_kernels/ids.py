"""Integer ids to codes: which ids occur, ascending, and the position of each endpoint among them."""

from typing import cast

import numpy as np
from numpy.typing import NDArray

from tdlg._kernels.compiled import compiled

__all__ = ["factorise_integers"]

SPARE = 1 << 16  # a table of ids this small is always worth its memory
HASH = np.uint64(0x9E3779B97F4A7C15)  # 2^64 / golden ratio: spreads neighbouring ids over the table


def factorise_integers(
    src: NDArray[np.integer], dst: NDArray[np.integer]
) -> tuple[NDArray[np.integer], NDArray[np.int32], NDArray[np.int32]]:
    """Give the distinct ids of both columns, ascending, and the int32 position of every endpoint.

    Ids from a range not much wider than their number are addressed directly, all others through a hash
    table. Where the ids are int32 and already 0..n-1 the codes are the columns themselves, not copies.

    Parameters
    ----------
    src, dst
        Integers of one dtype, int32 or int64; the two may differ in length.

    Examples
    --------
    >>> ids, src_code, dst_code = factorise_integers(np.array([7, 3]), np.array([3, 90]))
    >>> ids.tolist(), src_code.tolist(), dst_code.tolist()
    ([3, 7, 90], [1, 0], [0, 2])
    """
    columns = [column for column in (src, dst) if len(column)]
    if not columns:
        return src[:0], np.empty(0, np.int32), np.empty(0, np.int32)
    bounds = [_bounds(column) for column in columns]
    low, high = int(min(bound[0] for bound in bounds)), int(max(bound[1] for bound in bounds))
    width = high - low + 1
    if width > 4 * (len(src) + len(dst)) + SPARE:
        return _through_hash(src, dst)
    position = np.full(width, -1, np.int32)
    for column in columns:
        _mark(column, low, position)
    n_ids = _number(position)
    ids = (np.flatnonzero(position >= 0) + low).astype(src.dtype)
    if low == 0 and n_ids == width and src.dtype == np.int32:
        return ids, cast(NDArray[np.int32], src), cast(NDArray[np.int32], dst)
    return ids, _dense_codes(src, low, position), _dense_codes(dst, low, position)


def _through_hash(
    src: NDArray[np.integer], dst: NDArray[np.integer]
) -> tuple[NDArray[np.integer], NDArray[np.int32], NDArray[np.int32]]:
    slots, filled = np.empty(SPARE, src.dtype), np.zeros(SPARE, np.bool_)
    n_ids = 0
    for column in (src, dst):
        slots, filled, n_ids = _insert(column, slots, filled, n_ids)
    ids = np.sort(slots[filled])
    slots, codes = _hash_table(ids)
    return ids, _hash_codes(src, slots, codes), _hash_codes(dst, slots, codes)


@compiled
def _bounds(column):
    low = high = column[0]
    for value in column:
        low = min(low, value)
        high = max(high, value)
    return low, high


@compiled
def _mark(column, low, position):
    """Set to 0 what occurs among low, low + 1, ..."""
    for value in column:
        position[value - low] = 0  # out


@compiled
def _number(position):
    """Count up what was marked, and give its number."""
    n = 0
    for k in range(len(position)):
        if position[k] == 0:
            position[k] = n  # out
            n += 1
    return n


@compiled
def _dense_codes(column, low, position):
    codes = np.empty(len(column), np.int32)
    for i in range(len(column)):
        codes[i] = position[column[i] - low]
    return codes


@compiled
def _slot_of(value, slots, filled):
    """The slot that holds value, or the empty one where it belongs (linear probing)."""
    mask = np.uint64(len(slots) - 1)
    slot = (np.uint64(value) * HASH >> np.uint64(20)) & mask
    while filled[slot] and slots[slot] != value:
        slot = (slot + np.uint64(1)) & mask
    return slot


@compiled
def _grown(slots, filled):
    larger = np.empty(4 * len(slots), slots.dtype)
    taken = np.zeros(4 * len(slots), np.bool_)
    for k in range(len(slots)):
        if filled[k]:
            slot = _slot_of(slots[k], larger, taken)
            larger[slot] = slots[k]
            taken[slot] = True
    return larger, taken


@compiled
def _insert(column, slots, filled, n):
    """Add the values of a column to the n in a table, which grows to stay half empty."""
    for value in column:
        slot = _slot_of(value, slots, filled)
        if not filled[slot]:
            slots[slot] = value
            filled[slot] = True
            n += 1
            if 2 * n > len(slots):
                slots, filled = _grown(slots, filled)
    return slots, filled, n


@compiled
def _hash_table(ids):
    """Slots of ids and, beside them, their positions; -1 marks an empty slot."""
    size = SPARE
    while size < 2 * len(ids):
        size *= 2
    slots = np.empty(size, ids.dtype)
    filled = np.zeros(size, np.bool_)
    codes = np.full(size, -1, np.int32)
    for k in range(len(ids)):
        slot = _slot_of(ids[k], slots, filled)
        slots[slot] = ids[k]
        filled[slot] = True
        codes[slot] = k
    return slots, codes


@compiled
def _hash_codes(column, slots, codes):
    mask = np.uint64(len(slots) - 1)
    found = np.empty(len(column), np.int32)
    for i in range(len(column)):
        slot = (np.uint64(column[i]) * HASH >> np.uint64(20)) & mask
        while slots[slot] != column[i] or codes[slot] < 0:
            slot = (slot + np.uint64(1)) & mask
        found[i] = codes[slot]
    return found
