"""Integer ids to codes: which ids occur, ascending, and the position of each endpoint among them."""

from typing import cast

import numpy as np
from numpy.typing import NDArray

from tdlg._kernels.compiled import compiled
from tdlg._kernels.running import hash_table, number_keys

SPARE = 1 << 16  # a table of ids this small is always worth its memory


def factorise_integers(
    src: NDArray[np.integer], dst: NDArray[np.integer]
) -> tuple[NDArray[np.integer], NDArray[np.int32], NDArray[np.int32]]:
    """Give the distinct ids of both columns, ascending, and the int32 position of every endpoint.

    Ids from a range not much wider than their number are addressed directly, all others through a hash table. Where the ids
    are int32 and already 0..n-1 the codes are the columns themselves, not copies. The columns have one dtype, int32 or
    int64, and may differ in length.
    """
    columns = [column for column in (src, dst) if len(column)]
    if not columns:
        return src[:0], np.empty(0, np.int32), np.empty(0, np.int32)
    low = int(min(column.min() for column in columns))
    width = int(max(column.max() for column in columns)) - low + 1
    if width > 4 * (len(src) + len(dst)) + SPARE:
        return _through_hash(src, dst)
    position = np.full(width, -1, np.int32)
    for column in columns:
        _mark(column, low, position)
    found = np.flatnonzero(position == 0)
    position[found] = np.arange(len(found))
    ids = (found + low).astype(src.dtype)
    if low == 0 and len(ids) == width and src.dtype == np.int32:
        return ids, cast(NDArray[np.int32], src), cast(NDArray[np.int32], dst)
    return ids, _dense_codes(src, low, position), _dense_codes(dst, low, position)


def _through_hash(
    src: NDArray[np.integer], dst: NDArray[np.integer]
) -> tuple[NDArray[np.integer], NDArray[np.int32], NDArray[np.int32]]:
    """Number the ids as they come, by the hash index of running sums, and then in ascending order."""
    keys, n_ids, found = np.empty(0, np.int64), 0, []
    for column in (src, dst):
        codes = np.empty(len(column), np.int32)
        for start in range(0, len(column), SPARE):
            part = slice(start, start + SPARE)
            if n_ids + len(codes[part]) > len(keys):
                keys = np.append(keys, np.empty(len(codes[part]) + 3 * len(keys), np.int64))
                table = hash_table(n_ids, keys)
            n_ids = number_keys(column[part], n_ids, table, keys, codes[part])
        found.append(codes)
    order = np.argsort(keys[:n_ids])
    place = np.empty(n_ids, np.int32)
    place[order] = np.arange(n_ids)
    return keys[order].astype(src.dtype), place[found[0]], place[found[1]]


@compiled
def _mark(column, low, position):
    """Set to 0 what occurs among low, low + 1, ..."""
    for value in column:
        position[value - low] = 0  # out


@compiled
def _dense_codes(column, low, position):
    codes = np.empty(len(column), np.int32)
    for i in range(len(column)):
        codes[i] = position[column[i] - low]
    return codes
