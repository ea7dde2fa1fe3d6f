"""Integer ids to codes: which ids occur, ascending, and the position of each endpoint among them."""

from typing import Any, cast

import numpy as np
from numba import njit
from numpy.typing import NDArray

__all__ = ["factorise_integers"]

FLAGS: dict[str, Any] = {"cache": True, "nogil": True}
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
    n_ends = len(src) + len(dst)
    if n_ends == 0:
        return src[:0], np.empty(0, np.int32), np.empty(0, np.int32)
    low, high = (int(bound) for bound in _bounds(src, dst))
    width = high - low + 1
    if width > 4 * n_ends + SPARE:
        return _through_hash(src, dst)
    position = _dense_positions(src, dst, low, width)
    ids = (np.flatnonzero(position >= 0) + low).astype(src.dtype)
    if low == 0 and len(ids) == width and src.dtype == np.int32:
        return ids, cast(NDArray[np.int32], src), cast(NDArray[np.int32], dst)
    return ids, _dense_codes(src, low, position), _dense_codes(dst, low, position)


def _through_hash(
    src: NDArray[np.integer], dst: NDArray[np.integer]
) -> tuple[NDArray[np.integer], NDArray[np.int32], NDArray[np.int32]]:
    ids = np.sort(_distinct(src, dst))
    slots, codes = _hash_table(ids)
    return ids, _hash_codes(src, slots, codes), _hash_codes(dst, slots, codes)


@njit(**FLAGS)
def _bounds(src, dst):  # type: ignore[no-untyped-def]
    low = high = src[0] if len(src) else dst[0]
    for column in (src, dst):
        for value in column:
            low = min(low, value)
            high = max(high, value)
    return low, high


@njit(**FLAGS)
def _dense_positions(src, dst, low, width):  # type: ignore[no-untyped-def]
    """Position of low, low + 1, ... among the ids that occur, -1 for those that do not."""
    position = np.full(width, -1, np.int32)
    for column in (src, dst):
        for value in column:
            position[value - low] = 0
    n = 0
    for k in range(width):
        if position[k] == 0:
            position[k] = n
            n += 1
    return position


@njit(**FLAGS)
def _dense_codes(column, low, position):  # type: ignore[no-untyped-def]
    codes = np.empty(len(column), np.int32)
    for i in range(len(column)):
        codes[i] = position[column[i] - low]
    return codes


@njit(**FLAGS)
def _slot_of(value, slots, filled):  # type: ignore[no-untyped-def]
    """The slot that holds value, or the empty one where it belongs (linear probing)."""
    mask = np.uint64(len(slots) - 1)
    slot = (np.uint64(value) * HASH >> np.uint64(20)) & mask
    while filled[slot] and slots[slot] != value:
        slot = (slot + np.uint64(1)) & mask
    return slot


@njit(**FLAGS)
def _grown(slots, filled):  # type: ignore[no-untyped-def]
    larger = np.empty(4 * len(slots), slots.dtype)
    taken = np.zeros(4 * len(slots), np.bool_)
    for k in range(len(slots)):
        if filled[k]:
            slot = _slot_of(slots[k], larger, taken)
            larger[slot] = slots[k]
            taken[slot] = True
    return larger, taken


@njit(**FLAGS)
def _distinct(src, dst):  # type: ignore[no-untyped-def]
    """The distinct values of both columns, in no order."""
    slots = np.empty(SPARE, src.dtype)
    filled = np.zeros(SPARE, np.bool_)
    n = 0
    for column in (src, dst):
        for value in column:
            slot = _slot_of(value, slots, filled)
            if not filled[slot]:
                slots[slot] = value
                filled[slot] = True
                n += 1
                if 2 * n > len(slots):
                    slots, filled = _grown(slots, filled)
    return slots[filled]


@njit(**FLAGS)
def _hash_table(ids):  # type: ignore[no-untyped-def]
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


@njit(**FLAGS)
def _hash_codes(column, slots, codes):  # type: ignore[no-untyped-def]
    mask = np.uint64(len(slots) - 1)
    found = np.empty(len(column), np.int32)
    for i in range(len(column)):
        slot = (np.uint64(column[i]) * HASH >> np.uint64(20)) & mask
        while slots[slot] != column[i] or codes[slot] < 0:
            slot = (slot + np.uint64(1)) & mask
        found[i] = codes[slot]
    return found
