"""EventRows: arrays with one row per event under way, which are used again when events are done."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tdlg.propagate.saved import SavedArrays
from tdlg.propagate.state import grown

__all__ = ["EventRows"]

Positions = NDArray[np.int64]

FIRST_SIZE = 1024


class EventRows:
    """Arrays by row. A row is taken, may be held several times, and is free again when it was released as often.

    Parameters
    ----------
    arrays
        Arrays without rows, whose shapes and types are those of one row.

    Examples
    --------
    >>> rows = EventRows(ticks=np.zeros(0))
    >>> mine = rows.take(2)
    >>> rows["ticks"][mine] = 5.0, 6.0
    >>> rows.n_used
    2
    >>> rows.release(mine)
    >>> rows.n_used
    0
    """

    def __init__(self, **arrays: NDArray[Any]) -> None:
        self.arrays = {name: grown(array, FIRST_SIZE) for name, array in arrays.items()}
        self._uses = np.zeros(FIRST_SIZE, np.int64)
        self._free = np.arange(FIRST_SIZE)[::-1].copy()
        self._n_free = FIRST_SIZE

    def __getitem__(self, name: str) -> NDArray[Any]:
        return self.arrays[name]

    def __len__(self) -> int:
        return len(self._uses)

    @property
    def n_used(self) -> int:
        """The number of rows that are taken."""
        return len(self._uses) - self._n_free

    @property
    def in_use(self) -> NDArray[np.bool_]:
        """Mask of the rows that are taken."""
        return self._uses > 0

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        return sum(array.nbytes for array in (*self.arrays.values(), self._uses, self._free))

    def take(self, n: int) -> Positions:
        """Rows that are free, each held once from now on."""
        if n > self._n_free:
            self._grow(n)
        self._n_free -= n
        rows = self._free[self._n_free : self._n_free + n][::-1].copy()
        self._uses[rows] = 1
        return rows

    def _grow(self, n: int) -> None:
        size = len(self)
        larger = 2 * size
        while larger < self.n_used + n:
            larger *= 2
        self.arrays = {name: grown(array, larger) for name, array in self.arrays.items()}
        self._uses, self._free = grown(self._uses, larger), grown(self._free, larger)
        self._free[self._n_free : self._n_free + larger - size] = np.arange(size, larger)[::-1]
        self._n_free += larger - size

    def hold(self, rows: Positions) -> None:
        """Hold distinct rows once more."""
        self._uses[rows] += 1

    def release(self, rows: Positions) -> None:
        """Hold rows once less, each as often as it is named."""
        from tdlg._kernels.running import release_rows

        self._n_free = int(release_rows(rows, self._n_free, self._uses, self._free))

    def state(self) -> dict[str, NDArray[Any]]:
        """All that is needed to go on: the rows that are taken, which are copied."""
        rows = np.flatnonzero(self.in_use)
        return {**{name: array[rows] for name, array in self.arrays.items()}, "rows": rows, "uses": self._uses[rows]}

    def restore(self, state: SavedArrays) -> None:
        """Take over what `state` returned; an older version returned all rows."""
        uses = state["uses"]
        rows = state["rows"] if "rows" in state else np.flatnonzero(uses > 0)
        size = FIRST_SIZE
        while size <= rows.max(initial=0):
            size *= 2
        for name in self.arrays:
            saved = state[name]
            self.arrays[name] = np.zeros((size, *saved.shape[1:]), saved.dtype)
            self.arrays[name][rows] = saved if len(saved) == len(rows) else saved[rows]
        self._uses = np.zeros(size, np.int64)
        self._uses[rows] = uses if len(uses) == len(rows) else uses[rows]
        free = np.flatnonzero(self._uses == 0)[::-1]
        self._free, self._n_free = grown(free, size), len(free)
