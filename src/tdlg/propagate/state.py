"""Decayed sums that are carried along as events come, in arrays that grow: what a walk over the past would find."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tdlg._kernels import DUST

__all__ = ["MOST_CODES", "RunningSums", "grown", "key_of", "never", "parts_of"]

Floats = NDArray[np.float64]
Positions = NDArray[np.int64]

FIRST_SIZE = 1024  # number of slots at first; a power of two
MOST_CODES = 2**28  # nodes and categories that a key can tell apart


def key_of(kind: int, a: Any, b: Any = 0) -> Any:
    """One number for a kind of key and up to two codes, each below `MOST_CODES`; arrays are taken element by element."""
    return (np.int64(kind) << 56) | (np.asarray(a, np.int64) << 28) | np.asarray(b, np.int64)


def parts_of(keys: Positions) -> tuple[Positions, Positions, Positions]:
    """The kinds and the two codes of keys."""
    return keys >> 56, (keys >> 28) & (MOST_CODES - 1), keys & (MOST_CODES - 1)


def never(dtype: np.dtype[Any]) -> Any:
    """The time of the last edge of a key that has none."""
    return np.iinfo(np.int64).min if dtype.kind == "i" else -np.inf


def grown(array: NDArray[Any], size: int, fill: Any = 0) -> NDArray[Any]:
    """A longer copy of an array, the new places being filled."""
    longer = np.full((size, *array.shape[1:]), fill, array.dtype)
    longer[: len(array)] = array
    return longer


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
    >>> slot = state.add(np.array([[7]]), np.array([0]))[0, 0]
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
        self._table = np.full(2 * FIRST_SIZE, -1, np.int32)
        self.keys = np.zeros(FIRST_SIZE, np.int64)
        self.time, self.last = np.zeros(FIRST_SIZE, dtype), np.full(FIRST_SIZE, never(dtype), dtype)
        self.sums = np.zeros((FIRST_SIZE, len(self.rates), n_values))

    @property
    def arrays(self) -> tuple[Floats, NDArray[Any], NDArray[Any], Floats, NDArray[Any]]:
        """What the kernels take: rates, time, last, sums, and the time of a last edge that there is not."""
        return self.rates, self.time, self.last, self.sums, self._never

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        return sum(array.nbytes for array in (self._table, self.keys, self.time, self.last, self.sums))

    def find(self, keys: Positions) -> Positions:
        """The slots of keys, (n, k); -1 for a key that has none, and for a negative key."""
        from tdlg._kernels.running import find_slots

        slots = np.empty(keys.shape, np.int64)
        find_slots(keys, self._table, self.keys, slots)
        return slots

    def add(self, keys: Positions, ticks: NDArray[Any]) -> Positions:
        """The slots of keys, (n, k), which get one if they have none, from a time on, (n,). Negative keys get -1."""
        from tdlg._kernels.running import add_keys

        self._reserve(keys.size)
        slots = np.empty(keys.shape, np.int64)
        self.n = int(add_keys(keys, ticks, self.n, self._table, self.keys, self.time, slots))
        return slots

    def _reserve(self, n_more: int) -> None:
        size = len(self.keys)
        if self.n + n_more <= size:
            return
        while size < self.n + n_more:
            size *= 2
        self.keys, self.time, self.sums = (grown(array, size) for array in (self.keys, self.time, self.sums))
        self.last = grown(self.last, size, never(self.last.dtype))
        self._index()

    def _index(self) -> None:
        """Fill the table anew."""
        from tdlg._kernels.running import add_keys

        self._table = np.full(2 * len(self.keys), -1, np.int32)
        mine, ticks = self.keys[: self.n, np.newaxis].copy(), self.time[: self.n].copy()
        add_keys(mine, ticks, 0, self._table, self.keys, self.time, np.empty(mine.shape, np.int64))

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
        is_faded(now, DUST, self.rates, self.time, self.sums, faded)
        last = self.last[: self.n]
        return faded & ((last == never(last.dtype)) | (last < now - least_gap))

    def keep(self, kept: NDArray[np.bool_]) -> None:
        """Forget all other keys; the slots of those kept change, and memory shrinks if much less is needed."""
        some = np.flatnonzero(kept)
        size = FIRST_SIZE
        while size < 2 * len(some):
            size *= 2
        size = min(size, len(self.keys))
        self.keys, self.time, self.sums = (grown(array[some], size) for array in (self.keys, self.time, self.sums))
        self.last = grown(self.last[some], size, never(self.last.dtype))
        self.n = len(some)
        self._index()

    def saved(self, slots: Positions, n_before: int, now: Any) -> tuple[Positions, tuple[NDArray[Any], ...]]:
        """What some slots have, for `put_back`; those from `n_before` on are new, and are empty as of now."""
        self.time[n_before : self.n] = now
        some = np.unique(slots)
        some = some[some >= 0]
        return some, (self.time[some], self.last[some], self.sums[some])

    def put_back(self, slots: Positions, saved: tuple[NDArray[Any], ...]) -> None:
        """Make changes undone."""
        self.time[slots], self.last[slots], self.sums[slots] = saved

    def state(self) -> dict[str, NDArray[Any]]:
        """All that is needed to go on, as arrays."""
        return {name: getattr(self, name)[: self.n].copy() for name in ("keys", "time", "last", "sums")}

    def restore(self, state: dict[str, NDArray[Any]]) -> None:
        """Take over what `state` returned."""
        self.n = len(state["keys"])
        size = len(self.keys)
        while size < self.n:
            size *= 2
        self.keys, self.time, self.sums = (grown(state[name], size) for name in ("keys", "time", "sums"))
        self.last = grown(state["last"], size, never(self.last.dtype))
        self._index()
