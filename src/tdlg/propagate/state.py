"""Decayed sums that are carried along as events come, in arrays that grow: what a walk over the past would find."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tdlg._kernels import CODE_BITS, LEAST_SUM
from tdlg.propagate.saved import SavedArrays

__all__ = ["FIRST_SIZE", "GROWTH", "MOST_CODES", "RunningSums", "grown", "hash_table", "never", "parts_of"]

Floats = NDArray[np.float64]
Positions = NDArray[np.int64]

FIRST_SIZE = 1024  # number of slots at first; a power of two
MOST_CODES = 2**CODE_BITS  # nodes and categories that a key can tell apart
LOAD = 1.5  # least number of places in the table per slot
GROWTH = 1.25  # of the arrays when they are full
ROWS_AT_ONCE = 8192  # for whose keys room is made at once


def parts_of(keys: Positions) -> tuple[Positions, Positions, Positions]:
    """The kinds and the two codes of keys."""
    return keys >> CODE_BITS >> CODE_BITS, (keys >> CODE_BITS) & (MOST_CODES - 1), keys & (MOST_CODES - 1)


def never(dtype: np.dtype[Any]) -> Any:
    """The time of the last edge of a key that has none."""
    return np.iinfo(np.int64).min if dtype.kind == "i" else -np.inf


def grown(array: NDArray[Any], size: int, fill: Any = 0) -> NDArray[Any]:
    """A longer copy of an array, the new places being filled."""
    shape = size, *array.shape[1:]
    longer = np.full(shape, fill, array.dtype) if fill else np.zeros(shape, array.dtype)
    longer[: len(array)] = array
    return longer


def hash_table(n: int, keys: Positions) -> NDArray[np.int32]:
    """A table from the hashes of the first n keys to their slots, with places for as many as there is room for in `keys`."""
    from tdlg._kernels.running import fill_table

    size = 1
    while size < LOAD * len(keys):
        size *= 2
    table = np.full(size, -1, np.int32)
    fill_table(n, keys, table)
    return table


class RunningSums:
    """Sums of values per key at several bandwidths, each as of the time of its last change.

    Parameters
    ----------
    widths
        Bandwidths of the Laplace decays, in ticks; infinite for no decay.
    n_values
        The number of values that are summed.
    dtype
        Type of the ticks, int64 or float64.

    Attributes
    ----------
    n
        The number of keys.
    keys, time, last, sums
        By slot: the key, the time of the last change, the time of the last edge, and the sums, (n_widths, n_values) each.

    Examples
    --------
    >>> from tdlg._kernels.running import decay_and_add, read_sums
    >>> state = RunningSums(np.array([10.0]), 1, np.dtype(np.int64))
    >>> of_source, event = np.array([[0, 0, -1, 0]]), np.array([0])
    >>> slot = state.add(of_source, event, np.array([[7, 8]]), np.empty((1, 0), int), np.array([0]))[0, 0]
    >>> decay_and_add(slot, 0, 1.0, np.ones(1), 0, state.rates, state.time, state.sums)
    >>> now = np.empty((1, 1))
    >>> read_sums(slot, 10, state.rates, state.time, state.sums, now)
    >>> now.round(3)
    array([[0.368]])
    """

    def __init__(self, widths: Floats, n_values: int, dtype: np.dtype[Any]) -> None:
        self.rates = 1.0 / np.asarray(widths, np.float64)
        self.n = 0
        self._never = np.array([never(dtype)], dtype)
        self.keys = np.zeros(FIRST_SIZE, np.int64)
        self.time, self.last = np.zeros(FIRST_SIZE, dtype), np.full(FIRST_SIZE, never(dtype), dtype)
        self.sums = np.zeros((FIRST_SIZE, len(self.rates), n_values))
        self._table = hash_table(0, self.keys)

    @property
    def arrays(self) -> tuple[Floats, NDArray[Any], NDArray[Any], Floats, NDArray[Any]]:
        """What the kernels take: rates, time, last, sums, and the value of `last` for a key without an edge."""
        return self.rates, self.time, self.last, self.sums, self._never

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        return sum(array.nbytes for array in (self._table, self.keys, self.time, self.last, self.sums))

    def find(self, reads: Positions, rows: Positions, nodes: Positions, categories: Positions) -> Positions:
        """The slots of the keys of events, (n_rows, n_reads); -1 for a key that has none.

        Parameters
        ----------
        reads
            Which keys, see `tdlg._kernels.running.key_of`, (n_reads, 4).
        rows
            The rows of the events in the other two.
        nodes, categories
            Codes of source and destination, and of features with many categories.
        """
        from tdlg._kernels.running import find_slots

        slots = np.empty((len(rows), len(reads)), np.int64)
        find_slots(reads, rows, nodes, categories, self._table, self.keys, slots)
        return slots

    def add(
        self, reads: Positions, rows: Positions, nodes: Positions, categories: Positions, ticks: NDArray[Any]
    ) -> Positions:
        """The slots of the keys of events, as `find`; a key that has none gets one from a time on, (n_rows,)."""
        from tdlg._kernels.running import add_keys

        slots = np.empty((len(rows), len(reads)), np.int64)
        for start in range(0, len(rows), ROWS_AT_ONCE):
            part = slice(start, start + ROWS_AT_ONCE)
            self._reserve(slots[part].size)
            memory = self._table, self.keys, self.time, slots[part]
            self.n = int(add_keys(reads, rows[part], nodes, categories, ticks[part], self.n, *memory))
        return slots

    def _reserve(self, n_more: int) -> None:
        if self.n + n_more > len(self.keys):
            self._resize(int(GROWTH * (self.n + n_more)))

    def _resize(self, size: int) -> None:
        self.keys, self.time, self.sums = (grown(array, size) for array in (self.keys, self.time, self.sums))
        self.last = grown(self.last, size, self._never[0])
        self._table = hash_table(self.n, self.keys)

    def faded(self, now: Any, least_gap: float) -> NDArray[np.bool_]:
        """Mask of the keys of which nothing can be noticed any more, (n,): tiny sums, and the last edge long ago.

        Parameters
        ----------
        now
            The present time.
        least_gap
            The time since the last edge from which on it does not matter how long ago it was, in ticks.
        """
        from tdlg._kernels.running import is_faded

        faded = np.empty(self.n, np.bool_)
        is_faded(now, LEAST_SUM, self.rates, self.time, self.sums, faded)
        last = self.last[: self.n]
        return faded & ((last == never(last.dtype)) | (last < now - least_gap))

    def keep(self, kept: NDArray[np.bool_]) -> None:
        """Forget all other keys; the slots of those kept change, and memory shrinks if much less is needed."""
        some = np.flatnonzero(kept)
        self._take(self.keys[some], self.time[some], self.last[some], self.sums[some])

    def _take(self, keys: Positions, time: NDArray[Any], last: NDArray[Any], sums: Floats) -> None:
        """Have these keys and no others."""
        self.n, self.keys, self.time, self.last, self.sums = len(keys), keys, time, last, sums
        self._resize(max(FIRST_SIZE, int(GROWTH * self.n)))

    def saved(self, slots: Positions, n_before: int, now: Any) -> tuple[Positions, tuple[NDArray[Any], ...]]:
        """What some slots have, for `put_back`; those from `n_before` on are new, and are empty as of now."""
        self.time[n_before : self.n] = now
        some = np.unique(slots)
        some = some[some >= 0]
        return some, (self.time[some], self.last[some], self.sums[some])

    def put_back(self, slots: Positions, saved: tuple[NDArray[Any], ...]) -> None:
        """Undo changes."""
        self.time[slots], self.last[slots], self.sums[slots] = saved

    def state(self) -> dict[str, NDArray[Any]]:
        """All that is needed to go on, as arrays, which are not copied."""
        return {name: getattr(self, name)[: self.n] for name in ("keys", "time", "last", "sums")}

    def restore(self, state: SavedArrays) -> None:
        """Take over what `state` returned."""
        self._take(*(state[name] for name in ("keys", "time", "last", "sums")))
