"""Decayed sums that are carried along as events come: a hash index of keys, and the sums of each key.

A key has a *slot*: its sums as they were at the time of its last change (`time`), and the time of its last edge (`last`).
Reading them later multiplies by exp(-rate * passed). What comes late is added as it would have decayed by now, so the sums
do not depend on the order in which they are made.
"""

import numpy as np

from tdlg._kernels.compiled import compiled

HASH = np.uint64(0x9E3779B97F4A7C15)  # 2^64 / golden ratio: spreads neighbouring keys over the table
SHIFT = np.uint64(29)


@compiled
def _place(key, table):
    return np.int64(((np.uint64(key) * HASH) >> SHIFT) & np.uint64(table.size - 1))


@compiled
def find_slot(key, table, keys):
    """The slot of a key, -1 if it has none. table : slots by hash, -1 where empty, a power of two; keys : by slot."""
    at = _place(key, table)
    while table[at] >= 0:
        if keys[table[at]] == key:
            return np.int64(table[at])
        at = (at + 1) & (table.size - 1)
    return np.int64(-1)


@compiled
def find_slots(wanted, table, keys, slots):  # out: slots
    """The slots of some keys, (n, k), -1 for those that have none; a negative key has none."""
    for row in range(wanted.shape[0]):
        for k in range(wanted.shape[1]):
            slots[row, k] = find_slot(wanted[row, k], table, keys) if wanted[row, k] >= 0 else -1


@compiled
def add_keys(wanted, ticks, n_used, table, keys, time, slots):  # out: table, keys, time, slots
    """The slots of some keys, (n, k), which get one if they have none, from a time on, (n,).

    Returns the number of slots used; there must be room for all. Negative keys get the slot -1.
    """
    for row in range(wanted.shape[0]):
        for k in range(wanted.shape[1]):
            key = wanted[row, k]
            if key < 0:
                slots[row, k] = -1
                continue
            at = _place(key, table)
            while table[at] >= 0 and keys[table[at]] != key:
                at = (at + 1) & (table.size - 1)
            if table[at] < 0:
                table[at], keys[n_used], time[n_used] = n_used, key, ticks[row]
                n_used += 1
            slots[row, k] = table[at]
    return n_used


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
