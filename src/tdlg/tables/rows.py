"""What is chosen by hashes, the same in memory, in every block of a file and on every machine: rows, and nodes by keys.

Keys are 64-bit numbers for ids, pairs and categories, without a table of all ids. Integers become
keys one to one, also if text spells them; those beyond int64 by a hash, because negative ones have the same bits. Other text
becomes a key by a hash: of n different ids two share a key with a probability of about n^2 / 2^65, 0.03 % for a hundred
million ids. Pairs of nodes have 62 bits, so 0.1 % for a hundred million pairs.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tdlg.exceptions import EdgesError
from tdlg.tables.ids import WHOLE_NUMBER, as_ids, is_integers

Positions = NDArray[np.int64]
Keys = NDArray[np.uint64]

KEPT = 2_000_000  # rows from which medians, quartiles, cuts in time, gaps and the setting are computed; of fewer, all
SEED_OF_KEPT = -1  # which no user can give
SEED_OF_TEXT = 20
MOST_SIGNED = (1 << 63) - 1  # the largest integer with a sign


def mixed(keys: NDArray[Any]) -> NDArray[np.uint64]:
    """Integers to other integers, one to one, so that close ones are far apart (the last step of splitmix64)."""
    z = np.array(keys).astype(np.uint64, copy=False)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        z = (z ^ (z >> np.uint64(shift))) * np.uint64(factor)
    return z ^ (z >> np.uint64(31))


def uniform(rows: NDArray[np.integer[Any]], seed: int) -> NDArray[np.float64]:
    """A number from 0 to below 1 for each row, the same wherever it is computed, for sampling."""
    bits = mixed(mixed(rows) + mixed(np.array([seed], np.int64))) >> np.uint64(11)
    return bits.astype(np.float64) * 2.0**-53


def quotas(sizes: NDArray[Any], most: float) -> NDArray[np.float64]:
    """How many rows of each group to take, at most `most` in all: all rows of small groups, as many of the others."""
    quota, left = np.zeros(len(sizes)), most
    for n_groups, k in zip(range(len(sizes), 0, -1), np.argsort(sizes), strict=True):  # small groups first
        quota[k] = min(sizes[k], left / n_groups)
        left -= quota[k]
    return quota


def kept_shares(n_known: int, n_missing: int) -> tuple[float, float]:
    """The shares of the rows with a known label and of those without one that are kept; 1 if these are few."""
    sizes = np.array([n_known, n_missing])
    if sizes.sum() <= KEPT:
        return 1.0, 1.0
    known, missing = np.where(sizes > 0, quotas(sizes, KEPT) / np.maximum(sizes, 1), 1.0).tolist()
    return known, missing


def kept_rows(known: NDArray[np.bool_], shares: tuple[float, float] | None = None, start: int = 0) -> Positions:
    """Positions of the rows from which the statistics of a table are computed: all, or about two million of them.

    known : which rows have a known label; shares : those of `kept_shares`, if the rows are a block of the table; start : the
    number of the first one.
    """
    if shares is None:
        n_known = int(np.count_nonzero(known))
        shares = kept_shares(n_known, len(known) - n_known)
    if shares == (1.0, 1.0):
        return np.arange(len(known))
    return np.flatnonzero(uniform(np.arange(start, start + len(known)), SEED_OF_KEPT) < np.where(known, *shares))


class Sample(NamedTuple):
    """Rows to learn from: a share of the rows of each class with a known label, within a window of time.

    first, last : the window, in ticks, both ends included; None if it has no such end. before : labels count if they were
    known before this time; None if all count. shares : for each class, the share of its rows, above 0.
    """

    first: Any = None
    last: Any = None
    before: Any = None
    shares: tuple[float, ...] = ()

    def inside(self, ticks: NDArray[Any], codes: NDArray[np.integer[Any]]) -> NDArray[np.bool_]:
        """Which rows are within the window and have a known label; `codes` are their classes, below 0 if it is missing."""
        inside = codes >= 0
        if self.first is not None:
            inside &= ticks >= self.first
        if self.last is not None:
            inside &= ticks <= self.last
        return inside

    def rows(
        self,
        ticks: NDArray[Any],
        codes: NDArray[np.integer[Any]],
        seed: int,
        numbers: NDArray[np.integer[Any]] | None = None,
    ) -> Positions:
        """The positions of the sampled rows, whose numbers in the table decide; by default these are their positions."""
        at = np.flatnonzero(self.inside(ticks, codes))
        return at[uniform(at if numbers is None else numbers[at], seed) < np.array(self.shares)[codes[at]]]


# ---- keys


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
    return column.hash(SEED_OF_TEXT).to_numpy(writable=True).astype(np.uint64, copy=False)


def key_limit(n_rows: int) -> int:
    """The nodes whose keys are below it decide about gaps: all, or those with about two million rows of a larger table."""
    return 1 << 64 if n_rows <= KEPT else int(KEPT / n_rows * 2.0**64)


def kept_nodes(edges: Any, n_rows: int) -> NDArray[np.bool_]:
    """Which nodes of edges, of a table with this number of rows, have keys below `key_limit`."""
    if n_rows <= KEPT:
        return np.ones(edges.n_nodes, bool)
    try:
        keys = id_keys(edges.node_ids, "src")
    except EdgesError:  # dates and tuples, which no file has
        keys = mixed(np.arange(edges.n_nodes))
    return keys < np.uint64(key_limit(n_rows))
