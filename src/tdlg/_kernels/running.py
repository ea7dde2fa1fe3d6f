"""Decayed sums that are carried along as events come: a hash index of keys, and the sums of each key.

A key has a *slot*: its sums as they were at the time of its last change (`time`), and the time of its last edge (`last`).
Reading them later multiplies by exp(-rate * passed). What comes late is added as it would have decayed by now, so the sums
do not depend on the order in which they are made.
"""

import math

import numpy as np
from numpy.typing import NDArray

from tdlg._kernels import CATEGORIES_FROM, CODE_BITS, DST, SRC
from tdlg._kernels.compiled import compiled

HASH = np.uint64(0x9E3779B97F4A7C15)  # 2^64 / golden ratio: spreads neighbouring keys over the table
SHIFT = np.uint64(29)
LOAD = 1.5  # least number of places in the table per slot


@compiled
def _place_of_key(key, table):
    return np.int64(((np.uint64(key) * HASH) >> SHIFT) & np.uint64(table.size - 1))


@compiled
def find_slot(key, table, keys):
    """The slot of a key, -1 if it has none. table : slots by hash, -1 where empty, a power of two; keys : by slot."""
    at = _place_of_key(key, table)
    while table[at] >= 0:
        if keys[table[at]] == key:
            return np.int64(table[at])
        at = (at + 1) & (table.size - 1)
    return np.int64(-1)


@compiled
def add_slot(key, n_used, table, keys):  # out: table, keys
    """The slot of a key, which gets the next one, `n_used`, if it has none; there must be room for it."""
    at = _place_of_key(key, table)
    while table[at] >= 0 and keys[table[at]] != key:
        at = (at + 1) & (table.size - 1)
    if table[at] < 0:
        table[at], keys[n_used] = n_used, key
    return np.int64(table[at])


@compiled
def key_of(read, nodes, categories):
    """The key of an event, one number for its kind and up to two codes; -1 for a pair of one node that is not wanted.

    read : the kind; what the first code is (SRC, DST, or CATEGORIES_FROM + k for the k-th category); what the second is,
    or -1; and whether an event whose source is its destination has no key. nodes : (2,); categories : (n_categories,).
    """
    if read[3] and nodes[SRC] == nodes[DST]:
        return np.int64(-1)
    first = np.int64(nodes[read[1]] if read[1] < CATEGORIES_FROM else categories[read[1] - CATEGORIES_FROM] + 1)
    second = np.int64(nodes[read[2]] if read[2] >= 0 else 0)
    return (np.int64(read[0]) << CODE_BITS << CODE_BITS) | (first << CODE_BITS) | second


@compiled
def find_slots(reads, rows, nodes, categories, table, keys, slots):  # out: slots
    """The slots of the keys of some events, (n_rows, n_reads), -1 for those that have none."""
    for k in range(rows.size):
        for r in range(reads.shape[0]):
            key = key_of(reads[r], nodes[rows[k]], categories[rows[k]])
            slots[k, r] = find_slot(key, table, keys) if key >= 0 else -1


@compiled
def add_keys(reads, rows, nodes, categories, ticks, n_used, table, keys, time, slots):  # out: table, keys, time, slots
    """The slots of the keys of some events, (n_rows, n_reads), which get one from a time on, (n_rows,), if they have none.

    Returns the number of slots used; there must be room for all.
    """
    for k in range(rows.size):
        for r in range(reads.shape[0]):
            key = key_of(reads[r], nodes[rows[k]], categories[rows[k]])
            if key < 0:
                slots[k, r] = -1
                continue
            slots[k, r] = add_slot(key, n_used, table, keys)
            if slots[k, r] == n_used:
                time[n_used] = ticks[k]
                n_used += 1
    return n_used


def hash_table(n_used: int, keys: NDArray[np.int64]) -> NDArray[np.int32]:
    """A table from the hashes of the first keys to their slots, with places for as many as there is room for in `keys`."""
    table = np.full(1 << max(0, math.ceil(LOAD * len(keys)) - 1).bit_length(), -1, np.int32)
    _fill_table(n_used, keys, table)
    return table


@compiled
def _fill_table(n_used, keys, table):  # out: table
    for slot in range(n_used):
        add_slot(keys[slot], slot, table, keys)


@compiled
def release_rows(rows, n_free, uses, free):  # out: uses, free
    """Hold rows once less, each as often as it is named; those that are not held any more become free."""
    for row in rows:
        uses[row] -= 1
        if uses[row] == 0:
            free[n_free] = row
            n_free += 1
    return n_free


@compiled
def decay_and_add(slot, tick, sign, x, first, rates, time, sums):  # out: time, sums
    """Add values x, or with sign -1 take them away, from position `first` on, at a time before or after the last change."""
    passed = np.float64(tick - time[slot])
    if passed > 0.0:
        for k in range(rates.size):
            factor = np.exp(-rates[k] * passed)
            for v in range(sums.shape[2]):
                sums[slot, k, v] *= factor
        time[slot] = tick
    for k in range(rates.size):
        factor = sign * (np.exp(rates[k] * passed) if passed < 0.0 else 1.0)
        for v in range(x.size):
            sums[slot, k, first + v] += factor * x[v]


@compiled
def read_sums(slot, tick, rates, time, sums, out):  # out: out
    """The sums of a slot as they are at a time that is not before its last change; zeros for the slot -1."""
    if slot < 0:
        out[:] = 0.0
        return
    passed = np.float64(tick - time[slot])
    for k in range(rates.size):
        factor = np.exp(-rates[k] * passed) if passed > 0.0 else 1.0
        for v in range(sums.shape[2]):
            out[k, v] = factor * sums[slot, k, v]


@compiled
def is_faded(now, least, rates, time, sums, faded):  # out: faded
    """Whether all sums of each slot would be below `least` in size."""
    for slot in range(faded.size):
        faded[slot] = True
        for k in range(rates.size):
            factor = np.exp(-rates[k] * np.float64(now - time[slot]))
            for v in range(sums.shape[2]):
                faded[slot] = faded[slot] and abs(factor * sums[slot, k, v]) < least


@compiled
def spread(bits, values, words):  # out: words
    """Put values at the places whose bits are set, the highest bit of each byte first."""
    at = 0
    for k in range(words.size):
        if bits[k >> 3] >> np.uint8(7 - (k & 7)) & np.uint8(1) and at < values.size:
            words[k] = values[at]
            at += 1
