"""What waits to be absorbed into running sums until time has moved on: edges, and labels that become known."""

from __future__ import annotations

import heapq
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from tdlg.propagate.state import SavedArrays

__all__ = ["Absorptions", "Waiting"]

Positions = NDArray[np.int64]


class Absorptions(NamedTuple):
    """Edges and labels to absorb, (n,) each, in the order of time.

    tick : when an edge happened, or a label became known; edge_tick, number : the time of the edge, and a number that grows
    with each arrival, the order of what has the same tick; row : that of the event; sign : 1, or -1 to take it away again.
    """

    tick: NDArray[Any]
    edge_tick: NDArray[Any]
    number: Positions
    row: Positions
    is_label: NDArray[np.bool_]
    sign: NDArray[np.float64]

    @classmethod
    def of(cls, entries: list[tuple[Any, ...]], dtype: np.dtype[Any]) -> Self:
        """Entries of the queue, each with the fields in this order."""
        types: tuple[Any, ...] = (dtype, dtype, np.int64, np.int64, np.bool_, np.float64)
        columns = zip(*entries, strict=True) if entries else ((),) * len(types)
        return cls(*(np.array(column, kind) for column, kind in zip(columns, types, strict=True)))

    def some(self, which: Any) -> Absorptions:
        """Some of them."""
        return Absorptions(*(column[which] for column in self))

    def split(self, now: Any) -> tuple[Absorptions, Absorptions]:
        """Those that happened before a time, and the others, of some in the order of time."""
        n_before = self.tick.searchsorted(now)
        return self.some(slice(0, n_before)), (self if n_before == 0 else self.some(slice(n_before, None)))

    def merged(self, other: Absorptions) -> Absorptions:
        """Both together, sorted."""
        if not len(other.tick):
            return self
        if not len(self.tick):
            return other
        return Absorptions(*(np.concatenate(pair) for pair in zip(self, other, strict=True))).sorted()

    def sorted(self) -> Absorptions:
        """The same in the order of time."""
        if len(self.tick) < 2:
            return self
        return self.some(np.lexsort((self.number, self.edge_tick, self.tick)))


class Waiting:
    """A queue by time; dtype : of the ticks."""

    def __init__(self, dtype: np.dtype[Any]) -> None:
        self._dtype = dtype
        self._heap: list[tuple[Any, ...]] = []
        self._label_of: dict[int, int] = {}  # row of an event: number of its label that waits
        self._n_removed = 0  # labels that are still in the heap, though they wait no longer
        self._number = 0
        self.nothing = Absorptions.of([], dtype)

    def __len__(self) -> int:
        return len(self._heap) - self._n_removed

    def new(
        self, rows: Positions, ticks: NDArray[Any], known: NDArray[Any] | None = None, sign: float = 1.0
    ) -> Absorptions:
        """Number the arrival of edges, or of labels that became known at these times."""
        numbers = np.arange(self._number, self._number + len(rows))
        self._number += len(rows)
        at = ticks if known is None else known
        signs, is_label = np.empty(len(rows)), np.empty(len(rows), np.bool_)
        signs.fill(sign)
        is_label.fill(known is not None)
        return Absorptions(at, ticks, numbers, rows, is_label, signs)

    def push(self, some: Absorptions) -> None:
        """Let them wait."""
        entries = list(zip(*(column.tolist() for column in some), strict=True))
        self._label_of.update((row, number) for _, _, number, row, is_label, _ in entries if is_label)
        if len(entries) > len(self._heap):
            self._heap += entries
            heapq.heapify(self._heap)
            return
        for entry in entries:
            heapq.heappush(self._heap, entry)

    def take(self, until: Any) -> Absorptions:
        """Those that happened before a time, which wait no longer."""
        due: list[tuple[Any, ...]] = []
        while self._heap and self._heap[0][0] < until:
            entry = heapq.heappop(self._heap)
            if not self._waits(entry):
                self._n_removed -= 1
                continue
            if entry[4]:
                del self._label_of[entry[3]]
            due.append(entry)
        return Absorptions.of(due, self._dtype) if due else self.nothing

    def _waits(self, entry: tuple[Any, ...]) -> bool:
        """Whether an entry of the heap is an edge, or a label that was not removed."""
        return not entry[4] or self._label_of.get(entry[3]) == entry[2]

    def remove_label(self, row: int) -> bool:
        """Remove the label of an event; False if none waits. It leaves the heap later, with others."""
        if self._label_of.pop(row, None) is None:
            return False
        self._n_removed += 1
        if 2 * self._n_removed > len(self._heap):
            self._heap = [entry for entry in self._heap if self._waits(entry)]
            heapq.heapify(self._heap)
            self._n_removed = 0
        return True

    def all(self) -> Absorptions:
        """All that wait, sorted."""
        return Absorptions.of(sorted(filter(self._waits, self._heap)), self._dtype)

    def state(self) -> dict[str, NDArray[Any]]:
        """All that is needed to go on, as arrays."""
        return {**self.all()._asdict(), "next": np.array(self._number)}

    def restore(self, state: SavedArrays) -> None:
        """Take over what `state` returned."""
        self._heap, self._label_of, self._n_removed, self._number = [], {}, 0, int(state["next"])
        self.push(Absorptions(*(state[name] for name in Absorptions._fields)))
