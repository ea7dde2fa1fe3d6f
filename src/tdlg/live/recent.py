"""The most recent events of a live model with their answers and labels, found by id and by node."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tdlg.live.fields import decode, encode
from tdlg.propagate.state import SavedArrays
from tdlg.tables.ids import id_key

__all__ = ["RecentEvents", "StoredEvent"]

Arrays = dict[str, NDArray[Any]]
WITH_COLUMNS = 1000  # latest events whose columns are kept
Node = tuple[str, Hashable]  # "src" or "dst", and the id; "" in place of the end if both ends share their ids


@dataclass(slots=True)
class StoredEvent:
    """An event as it was answered.

    Attributes
    ----------
    number
        How many events were stored before it.
    id, src, dst, ticks
        The event, with its time in ticks of the model.
    line
        The whole event as JSON.
    values, score
        The answer: the values of the model, and the score that alerts are about.
    late
        Whether the event came after a later one.
    label, label_ticks
        Its label and when it became known; None if it has none.
    """

    number: int
    id: Any
    src: Any
    dst: Any
    ticks: Any
    line: bytes
    values: tuple[float, ...]
    score: float
    late: bool
    label: Any = None
    label_ticks: Any = None
    before_src: int = -1  # number of the event before it at its source, and at its destination
    before_dst: int = -1
    columns: NDArray[np.float64] | None = None  # as it was scored; of the latest events only
    keys: tuple[Any, Node, Node] | None = None  # what its id and its nodes are found by, once it is stored

    def content(self) -> dict[str, Any]:
        """The event as it was passed: id, src, dst, time, features, and a label that came with it."""
        return decode([self.line])[0]


class RecentEvents:
    """A store of the latest events; older ones are dropped.

    Parameters
    ----------
    capacity
        The most events to keep.
    bipartite
        Whether sources and destinations are separate sets of nodes.
    """

    def __init__(self, capacity: int, bipartite: bool) -> None:
        self.capacity = capacity
        self.n_added = 0
        self._ends = ("src", "dst") if bipartite else ("", "")
        self._slots: list[StoredEvent | None] = [None] * capacity
        self._n_kept = 0
        self._number_of: dict[Any, int] = {}
        self._newest_of: dict[Node, int] = {}

    def __len__(self) -> int:
        return self._n_kept

    def __iter__(self) -> Iterator[StoredEvent]:
        """The events, the oldest first."""
        first = self.n_added - self._n_kept
        return (event for number in range(first, self.n_added) if (event := self.at(number)) is not None)

    def at(self, number: int) -> StoredEvent | None:
        """The event with this number, if it is kept."""
        kept = self.n_added - self._n_kept <= number < self.n_added
        return self._slots[number % self.capacity] if kept else None

    def get(self, id: Any) -> StoredEvent | None:
        """The event with this id, if it is kept."""
        number = self._number_of.get(id_key(id))
        return None if number is None else self.at(number)

    def of_node(self, node: Any, before: int | None = None) -> Iterator[StoredEvent]:
        """The events of a node, the newest first; of those with smaller numbers than `before`, if it is given.

        Events of a node that is a source here and a destination there are in the order of their numbers.
        """
        node = id_key(node)
        heads = {self._newest_of.get((end, node), -1) for end in set(self._ends)}
        heads.discard(-1)
        while heads:
            number = max(heads)
            heads.discard(number)
            event = self.at(number)
            if event is None:
                continue
            if before is None or number < before:
                yield event
            heads |= {event.before_src} if id_key(event.src) == node else set()
            heads |= {event.before_dst} if id_key(event.dst) == node else set()

    def add(self, event: StoredEvent) -> None:
        """Store an event, whose number is set here. The oldest event is dropped if there is no space."""
        event.number = self.n_added
        self._drop(self.at(event.number - self.capacity))
        self._slots[event.number % self.capacity] = event
        self.n_added += 1
        self._n_kept = min(self._n_kept + 1, self.capacity)
        older = self.at(event.number - WITH_COLUMNS)
        if older is not None:
            older.columns = None
        event.keys = key, src, dst = self._keys_of(event)
        event.before_src, event.before_dst = self._newest_of.get(src, -1), self._newest_of.get(dst, -1)
        self._newest_of[src] = self._newest_of[dst] = self._number_of[key] = event.number

    def _drop(self, event: StoredEvent | None) -> None:
        if event is None or event.keys is None:
            return
        key, *nodes = event.keys
        if self._number_of.get(key) == event.number:
            del self._number_of[key]
        for node in nodes:
            if self._newest_of.get(node) == event.number:
                del self._newest_of[node]

    def _keys_of(self, event: StoredEvent) -> tuple[Any, Node, Node]:
        """The id and both ends; 17 and "17" are one id or node."""
        return id_key(event.id), (self._ends[0], id_key(event.src)), (self._ends[1], id_key(event.dst))

    # ---- snapshots

    def arrays(self) -> Arrays:
        """All that `restored` needs, as arrays."""
        events = list(self)
        labelled = [event for event in events if event.label is not None]
        first = self.n_added - len(events)
        return {
            "n_added": np.array(self.n_added),
            "lines": np.frombuffer(b"\n".join(event.line for event in events), np.uint8),
            "ticks": np.array([event.ticks for event in events]),
            "score": np.array([event.score for event in events]),
            "late": np.array([event.late for event in events], bool),
            "values": np.array([event.values for event in events]),
            "labelled": np.array([event.number - first for event in labelled], np.int64),
            "labels": np.frombuffer(encode([event.label for event in labelled]).encode(), np.uint8),
            "label_ticks": np.array([event.label_ticks for event in labelled]),
        }

    @classmethod
    def restored(cls, capacity: int, bipartite: bool, arrays: SavedArrays) -> RecentEvents:
        """The store with these arrays; with a smaller capacity, the newest events."""
        recent = cls(capacity, bipartite)
        events = list(_events_of(arrays))
        labels = decode([arrays["labels"].tobytes()])[0]
        for at, label, ticks in zip(arrays["labelled"], labels, arrays["label_ticks"].tolist(), strict=True):
            events[at].label, events[at].label_ticks = label, ticks
        kept = events[max(0, len(events) - capacity) :]
        recent.n_added = int(arrays["n_added"]) - len(kept)
        for event in kept:
            recent.add(event)
        return recent


def _events_of(arrays: SavedArrays) -> Iterable[StoredEvent]:
    text = arrays["lines"].tobytes()
    lines = text.split(b"\n") if text else []
    columns = (arrays[name].tolist() for name in ("ticks", "values", "score", "late"))
    for line, event, ticks, values, score, late in zip(lines, decode(lines), *columns, strict=True):
        yield StoredEvent(0, event["id"], event["src"], event["dst"], ticks, line, tuple(values), score, late)
