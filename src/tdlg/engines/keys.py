"""Keys: 64-bit numbers for ids, pairs and categories, the same on every machine, without a table of all ids.

Integers become keys one to one, also if text spells them; those beyond int64 by a hash, because negative ones have the same
bits. Other text becomes a key by a hash: of n different ids two share a key with a probability of about n^2 / 2^65, 0.03 %
for a hundred million ids. Pairs of nodes have 62 bits, so 0.1 % for a hundred million pairs.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tdlg.exceptions import EdgesError
from tdlg.tables.ids import WHOLE_NUMBER, as_ids, is_integers
from tdlg.tables.rows import mixed

Keys = NDArray[np.uint64]

SEED = 20  # of the hash of text
UPWARDS, DOWNWARDS, LOOP = 0, 1, 2  # last two bits of a pair: source below destination, above it, the same node
MOST_SIGNED = (1 << 63) - 1  # the largest integer with a sign


def id_keys(values: Any, name: str) -> Keys:
    """The keys of a column of ids, integers or text; `name` is for messages."""
    import polars as pl

    column = as_ids(values, name)
    if is_integers(column):
        return _integer_keys(np.asarray(column, np.int64).view(np.uint64))
    if isinstance(column, np.ndarray):
        if column.dtype.kind == "O" and all(type(value) is int and 0 <= value < 1 << 64 for value in column):
            return _unsigned_keys(column.astype(np.uint64))
        raise EdgesError(
            f"The '{name}' must hold integers or text to be sorted into buckets. Got {column.dtype} instead. "
            "Convert the ids to text."
        )
    keys = text_keys(column)
    rows = column.str.contains(f"^({WHOLE_NUMBER.pattern})$").arg_true()  # 7 and "7" are the same id
    for dtype, keys_of in ((pl.Int64, _integer_keys), (pl.UInt64, _unsigned_keys)):
        numbers = column.gather(rows).cast(dtype, strict=False)
        is_read = numbers.is_not_null()
        keys[rows.filter(is_read).to_numpy()] = keys_of(numbers.drop_nulls().to_numpy().view(np.uint64))
        rows = rows.filter(~is_read)
    return keys


def _unsigned_keys(bits: Keys) -> Keys:
    keys = _integer_keys(bits)
    return np.where(bits > np.uint64(MOST_SIGNED), mixed(keys), keys)  # negative integers have the same bits


def _integer_keys(bits: Keys) -> Keys:
    return mixed(bits + np.uint64(0x9E3779B97F4A7C15))


def text_keys(column: Any) -> Keys:
    """The keys of a polars column of text; a missing value has a key of its own."""
    return column.hash(SEED).to_numpy(writable=True).astype(np.uint64, copy=False)


def joint_keys(first: Keys, second: Keys) -> Keys:
    """A key for two keys, in this order."""
    return mixed(mixed(first) + second)


def pair_keys(src: Keys, dst: Keys) -> Keys:
    """Keys of ordered pairs; a pair and its reverse fall into the same bucket, and differ in the last bit."""
    way = np.where(src < dst, UPWARDS, np.where(src > dst, DOWNWARDS, LOOP)).astype(np.uint64)
    return (joint_keys(np.minimum(src, dst), np.maximum(src, dst)) & ~np.uint64(3)) | way


def reversed_pairs(pairs: Keys) -> Keys:
    """The keys of the same pairs, with source and destination exchanged."""
    return np.where(pairs & np.uint64(LOOP), pairs, pairs ^ np.uint64(1))


def bucket_of(keys: Keys, n_buckets: int) -> NDArray[np.uint16]:
    """The bucket of each key: buckets are ranges of keys of the same width."""
    return ((keys >> np.uint64(32)) * np.uint64(n_buckets) >> np.uint64(32)).astype(np.uint16)
