"""What a stream keeps: events under way, decayed sums by key, and the last labelled edges of nodes.

All are arrays that grow and are saved. Their saved states are arrays by name, of which those of a part begin with its name.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tdlg._kernels import CATEGORIES_FROM, CODE_BITS, DST, LEAST_SUM, RECENT, SRC
from tdlg._kernels.running import add_keys, find_slots, hash_table, is_faded, release_rows
from tdlg.edges import TemporalEdges
from tdlg.linegraph.match import ENDS, KINDS, MATCHES
from tdlg.propagate.plan import CATEGORY_ENDS, Floats, Positions
from tdlg.tables.ids import id_key

SavedArrays = Mapping[str, NDArray[Any]]

FIRST_SIZE = 1024  # number of rows and nodes at first; a power of two
GROWTH = 1.25  # of the arrays when they are full
KEYED_AT_ONCE = 8192  # for whose keys room is made at once

PAIR, FIRST_CATEGORY = KINDS.index("pair"), len(KINDS)  # kinds of keys: those of matches, then those of categories
MOST_MANY = (2 ** (63 - 2 * CODE_BITS) - FIRST_CATEGORY) // len(CATEGORY_ENDS)  # features that positive keys tell apart
LOW_CODE = 2**CODE_BITS - 1
BOTH_ENDS = np.array([SRC, DST])


class StreamEvents(NamedTuple):
    """Events in the codes of a stream, on its clock; own, categories : their features, see `evidence.Query`."""

    src: Positions
    dst: Positions
    ticks: NDArray[Any]
    own: Floats
    categories: Positions


class PrefixedArrays(Mapping[str, NDArray[Any]]):
    """The arrays whose names have a prefix, by the rest of their names; from a file, one after the other is read."""

    def __init__(self, whole: SavedArrays, prefix: str) -> None:
        self._whole, self._prefix = whole, prefix

    def __getitem__(self, name: str) -> NDArray[Any]:
        return self._whole[self._prefix + name]

    def __iter__(self) -> Iterator[str]:
        return (name.removeprefix(self._prefix) for name in self._whole if name.startswith(self._prefix))

    def __len__(self) -> int:
        return sum(1 for _ in self)


# ---- arrays that grow


def grown(array: NDArray[Any], size: int, fill: Any = 0) -> NDArray[Any]:
    """A longer copy of an array, the new places being filled."""
    shape = size, *array.shape[1:]
    longer = np.full(shape, fill, array.dtype) if fill else np.zeros(shape, array.dtype)
    longer[: len(array)] = array
    return longer


def index_of(rows: Positions) -> Positions | slice:
    """Rows as an index; that of a single row takes much less time."""
    return slice(rows[0], rows[0] + 1) if len(rows) == 1 else rows


def doubled(size: int, needed: float) -> int:
    """A size, doubled until it is large enough."""
    while size < needed:
        size *= 2
    return size


# ---- sums by key


def reads_of(
    matches: Iterable[str], categories: Mapping[str, tuple[int, str]] | None = None, *, skip_loops: bool = False
) -> Positions:
    """Where the sums of matches are, (n_matches, 4), see `_kernels.running.key_of`; `ColumnPlan` has the categories."""
    reads = []
    for match in matches:
        if categories and match in categories:
            feature, end = categories[match]
            place = tuple(CATEGORY_ENDS).index(end)  # none, source, destination
            kind = FIRST_CATEGORY + len(CATEGORY_ENDS) * feature + place
            reads.append((kind, CATEGORIES_FROM + feature, place - 1, skip_loops))
        else:
            first, second = (*ENDS[MATCHES[match].row], -1)[:2]
            reads.append((KINDS.index(MATCHES[match].col), first, second, skip_loops))
    return np.array(reads, np.int64).reshape(-1, 4)


class _Slots:
    """Arrays by slot, of which the first `n` are used."""

    NAMES: ClassVar[tuple[str, ...]]
    INDEX: ClassVar[str]  # the array that leads to slots
    FIRST = FIRST_SIZE
    n: int

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        return sum(getattr(self, name).nbytes for name in (*self.NAMES, self.INDEX))

    def some(self, slots: Any) -> tuple[NDArray[Any], ...]:
        """What some slots have."""
        return tuple(getattr(self, name)[slots] for name in self.NAMES)

    def put_back(self, slots: Positions, saved: tuple[NDArray[Any], ...]) -> None:
        """Undo changes of slots: `saved` is what they had."""
        for name, array in zip(self.NAMES, saved, strict=True):
            getattr(self, name)[slots] = array

    def state(self) -> dict[str, NDArray[Any]]:
        """All that is needed to go on, as arrays, which are not copied."""
        return dict(zip(self.NAMES, self.some(slice(self.n)), strict=True))

    def restore(self, state: SavedArrays) -> None:
        """Take over what `state` returned."""
        self._take(*(state[name] for name in self.NAMES))

    def _take(self, *arrays: NDArray[Any], room: int = 0) -> None:
        """Have these slots and no others, and room for some more."""
        self.n = len(arrays[0])
        for name, array in zip(self.NAMES, arrays, strict=True):
            setattr(self, name, grown(array, max(self.FIRST, int(GROWTH * max(self.n, room)))))


class RunningSums(_Slots):
    """Sums of values per key at several bandwidths, each as of the time of its last change.

    The widths are those of Laplace decays in ticks, infinite for no decay. By slot: the key, the time of the last change,
    the time of the last edge (`last`), the sums, (n_widths, n_values), and what is usual: how many levels of each number
    there were in all of the past, and their sum, (n_numbers, 2). With `has_rare`, the time of the last edge known to be of
    the rarest class (`labelled`), (1,), and how many edges there were in all, and before that one (`counts`), (2,).
    """

    NAMES, INDEX = ("keys", "time", "last", "sums", "usual", "labelled", "counts"), "_table"
    keys: Positions
    time: NDArray[Any]
    last: NDArray[Any]
    sums: Floats
    usual: Floats
    labelled: NDArray[Any]
    counts: Floats
    _table: NDArray[np.int32]

    def __init__(
        self, widths: Floats, n_values: int, dtype: np.dtype[Any], n_numbers: int = 0, *, has_rare: bool = False
    ) -> None:
        self.rates = 1.0 / np.asarray(widths, np.float64)
        self._never = np.array([np.iinfo(np.int64).min if dtype.kind == "i" else -np.inf], dtype)
        nothing = np.zeros(0, dtype)
        sums, usual = np.zeros((0, len(self.rates), n_values)), np.zeros((0, n_numbers, 2))
        pasts = usual, np.zeros((0, int(has_rare)), dtype), np.zeros((0, 2 * has_rare))
        self._take(np.zeros(0, np.int64), nothing, nothing, sums, *pasts)

    @property
    def arrays(self) -> tuple[Floats, NDArray[Any], NDArray[Any], Floats, NDArray[Any]]:
        """What the kernels take: rates, time, last, sums, and the value of `last` for a key without an edge."""
        return self.rates, self.time, self.last, self.sums, self._never

    def find(self, reads: Positions, rows: Positions, nodes: Positions, categories: Positions) -> Positions:
        """The slots of the keys of some rows of events, (n_rows, n_reads); -1 for a key that has none."""
        slots = np.empty((len(rows), len(reads)), np.int64)
        find_slots(reads, rows, nodes, categories, self._table, self.keys, slots)
        return slots

    def add(
        self, reads: Positions, rows: Positions, nodes: Positions, categories: Positions, ticks: NDArray[Any]
    ) -> Positions:
        """The slots of the keys of events, as `find`; a key that has none gets one from a time on, (n_rows,)."""
        slots = np.empty((len(rows), len(reads)), np.int64)
        for start in range(0, len(rows), KEYED_AT_ONCE):
            part = slice(start, start + KEYED_AT_ONCE)
            needed = self.n + slots[part].size
            if needed > len(self.keys):
                self._take(*self.some(slice(self.n)), room=needed)
            memory = self._table, self.keys, self.time, slots[part]
            self.n = int(add_keys(reads, rows[part], nodes, categories, ticks[part], self.n, *memory))
        return slots

    def _take(self, *arrays: NDArray[Any], room: int = 0) -> None:
        super()._take(*arrays, room=room)
        self.last[self.n :] = self.labelled[self.n :] = self._never
        self._table = hash_table(self.n, self.keys)

    def forget(self, now: Any, least_gap: float, after: float | None) -> None:
        """Forget keys with tiny sums whose last edge is at least `least_gap` ago, and those without a change for `after`."""
        faded, last = np.empty(self.n, np.bool_), self.last[: self.n]
        is_faded(now, LEAST_SUM, self.rates, self.time, self.sums, faded)
        faded &= (last == self._never) | (last < now - least_gap)
        if after is not None:
            faded |= self.time[: self.n] < now - after
        self._take(*self.some(np.flatnonzero(~faded)))

    def codes(self) -> tuple[Positions, Positions, Positions]:
        """The kinds and the two codes of the keys."""
        keys = self.keys[: self.n]
        return keys >> CODE_BITS >> CODE_BITS, (keys >> CODE_BITS) & LOW_CODE, keys & LOW_CODE

    def category_codes(self, feature: int) -> Positions:
        """The codes plus 1 of the categories of a feature, given by its number, that keys have."""
        kind, code, _ = self.codes()
        return code[(kind - FIRST_CATEGORY) // len(CATEGORY_ENDS) == feature]

    def saved(self, slots: Positions, n_before: int, now: Any) -> tuple[Positions, tuple[NDArray[Any], ...]]:
        """Distinct slots and what they have, for `put_back`; those from `n_before` on are new, and are empty as of now."""
        self.time[n_before : self.n] = now
        slots = np.unique(slots[slots >= 0])
        return slots, self.some(slots)


def unused_codes(n_codes: int, held: Positions, every: Iterable[RunningSums]) -> Positions:
    """The codes of nodes, of those below `n_codes`, that are not held and that no key of these sums has."""
    used = np.zeros(n_codes, bool)
    used[held] = True
    for sums in every:
        kind, first, second = sums.codes()
        has_end = (kind > FIRST_CATEGORY) & ((kind - FIRST_CATEGORY) % len(CATEGORY_ENDS) > 0)
        used[first[kind <= PAIR]] = True
        used[second[(kind == PAIR) | has_end]] = True
    return np.flatnonzero(~used)


# ---- labelled edges by node


class Rings(_Slots):
    """Per node and end, its last labelled edges: other end, time known and residuals, the oldest first.

    of_node : the ring of each node and end, (n_nodes, 2), -1 for none; a ring has RECENT places.
    """

    NAMES, INDEX, FIRST = ("n_edges", "other", "known", "residual"), "of_node", 64
    n_edges: Positions
    other: NDArray[np.int32]
    known: NDArray[Any]
    residual: Floats

    def __init__(self, n_targets: int, dtype: np.dtype[Any]) -> None:
        self.of_node = np.full((FIRST_SIZE, 2), -1, np.int32)
        of_edges = np.zeros((0, RECENT), np.int32), np.zeros((0, RECENT), dtype), np.zeros((0, RECENT, n_targets))
        self._take(np.zeros(0, np.int64), *of_edges)

    @property
    def arrays(self) -> tuple[NDArray[Any], ...]:
        """What the kernels take."""
        return self.of_node, self.n_edges, self.other, self.known, self.residual

    def make_room(self, n_nodes: int) -> None:
        """Be ready for nodes with codes below this number."""
        if n_nodes > len(self.of_node):
            self.of_node = grown(self.of_node, doubled(len(self.of_node), n_nodes), -1)

    def add(self, nodes: Positions) -> None:
        """Give the sources and destinations of labelled edges, (n, 2), a ring each, if they have none."""
        lacks = self.of_node[nodes, BOTH_ENDS] < 0
        for end in (SRC, DST) if lacks.any() else ():
            new = np.unique(nodes[lacks[:, end], end])
            n = self.n + len(new)
            if n > len(self.n_edges):
                self._take(*self.some(slice(self.n)), room=n)
            self.of_node[new, end], self.n = np.arange(self.n, n), n

    def forget(self, nodes: Positions) -> None:
        """Forget nodes: their rings, and their edges in the rings of others."""
        gone = np.zeros(len(self.of_node), bool)
        gone[nodes] = True
        order = np.unique(self.of_node[~gone])
        order = order[order >= 0]
        number = np.full(self.n + 1, -1, np.int32)
        number[order] = np.arange(len(order))
        self.of_node = np.where(gone[:, np.newaxis], -1, number[self.of_node]).astype(np.int32)
        n_edges, *edges = self.some(order)
        leaves = gone[edges[0]] & (np.arange(RECENT) < n_edges[:, np.newaxis])
        for ring in np.flatnonzero(leaves.any(axis=1)):
            stay = np.flatnonzero(~leaves[ring, : n_edges[ring]])
            for array in edges:
                array[ring, : len(stay)] = array[ring, stay]
            n_edges[ring] = len(stay)
        self._take(n_edges, *edges)

    def saved(self, nodes: Positions) -> tuple[Positions, tuple[NDArray[Any], ...]]:
        """The rings of the sources and destinations of some edges, (n, 2), and what they have, for `put_back`."""
        rings = np.unique(self.of_node[nodes, BOTH_ENDS].astype(np.int64))
        rings = rings[rings >= 0]
        return rings, self.some(rings)

    def state(self) -> dict[str, NDArray[Any]]:
        """All that is needed to go on, as arrays, which are not copied."""
        return {"of_node": self.of_node, **super().state()}

    def restore(self, state: SavedArrays) -> None:
        """Take over what `state` returned."""
        self.of_node = state["of_node"].copy()
        super().restore(state)


# ---- events under way


class EventRows:
    """Arrays by row, given without rows. A row is taken, may be held several times, and is free when released as often."""

    def __init__(self, **arrays: NDArray[Any]) -> None:
        self.arrays = {name: grown(array, FIRST_SIZE) for name, array in arrays.items()}
        self._uses = np.zeros(FIRST_SIZE, np.int64)
        self._free = np.arange(FIRST_SIZE)[::-1].copy()
        self._n_free = FIRST_SIZE

    def __getitem__(self, name: str) -> NDArray[Any]:
        return self.arrays[name]

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
            size = len(self._uses)
            larger = doubled(2 * size, self.n_used + n)
            self.arrays = {name: grown(array, larger) for name, array in self.arrays.items()}
            self._uses, self._free = grown(self._uses, larger), grown(self._free, larger)
            self._free[self._n_free : self._n_free + larger - size] = np.arange(size, larger)[::-1]
            self._n_free += larger - size
        self._n_free -= n
        rows = self._free[self._n_free : self._n_free + n][::-1].copy()
        self._uses[index_of(rows)] = 1
        return rows

    def hold(self, rows: Positions) -> None:
        """Hold distinct rows once more."""
        self._uses[index_of(rows)] += 1

    def release(self, rows: Positions) -> None:
        """Hold rows once less, each as often as it is named."""
        self._n_free = int(release_rows(rows, self._n_free, self._uses, self._free))

    def state(self) -> dict[str, NDArray[Any]]:
        """All that is needed to go on: the rows that are taken, which are copied."""
        rows = np.flatnonzero(self.in_use)
        return {**{name: array[rows] for name, array in self.arrays.items()}, "rows": rows, "uses": self._uses[rows]}

    def restore(self, state: SavedArrays) -> None:
        """Take over what `state` returned."""
        rows = state["rows"]
        size = doubled(FIRST_SIZE, 1 + rows.max(initial=0))
        self.arrays = {name: grown(array[:0], size) for name, array in self.arrays.items()}
        self._uses = np.zeros(size, np.int64)
        for name, array in self.arrays.items():
            array[rows] = state[name]
        self._uses[rows] = state["uses"]
        free = np.flatnonzero(self._uses == 0)[::-1]
        self._free, self._n_free = grown(free, size), len(free)


# ---- nodes by their ids


class NodeCodes:
    """A code for each node: those of the fitted edges first, then in the order of arrival; free codes are used again.

    Ids are compared by `tdlg.tables.ids.id_key`: 17, 17.0 and "17" are one node, "017" is another.
    """

    def __init__(self, edges: TemporalEdges) -> None:
        self._ids: list[Any] = edges.node_ids.tolist()  # by code, as first written; None where a code is free
        self._free: list[int] = []
        n_src = edges.n_src_nodes
        sources: dict[Hashable, int] = {}
        self._codes = sources, (sources if n_src is None else {})  # by key, of sources and of destinations
        for code, id in enumerate(self._ids):
            self._codes[SRC if n_src is None or code < n_src else DST].setdefault(id_key(id), code)

    @property
    def n_codes(self) -> int:
        """The number of codes, used or not."""
        return len(self._ids)

    @property
    def n_nodes(self) -> int:
        """The number of nodes."""
        return len(self._ids) - len(self._free)

    @property
    def by_key(self) -> tuple[Mapping[Hashable, int], Mapping[Hashable, int]]:
        """The codes of sources and of destinations by the keys of their ids."""
        return self._codes

    def id_of(self, code: int) -> Any:
        """The id of a node."""
        return self._ids[code]

    def codes(self, ids: Iterable[Any], end: int) -> Positions:
        """The codes of sources (end 0) or destinations (end 1); new ones get a code."""
        codes, found = self._codes[end], []
        for id in ids:
            key = id_key(id)
            code = codes.get(key)
            if code is None:
                code = codes[key] = self._free.pop() if self._free else len(self._ids)
                if code == len(self._ids):
                    self._ids.append(id)
                else:
                    self._ids[code] = id
            found.append(code)
        return np.array(found, np.int64)

    def find(self, id: Any, end: int) -> int | None:
        """The code of a node; None if it is not there."""
        return self._codes[end].get(id_key(id))

    @contextmanager
    def borrowed(self) -> Iterator[None]:
        """Take back the codes of all nodes that are added inside."""
        n, free, sizes = len(self._ids), list(self._free), [len(codes) for codes in self._codes]
        try:
            yield
        finally:
            for codes, size in zip(self._codes, sizes, strict=True):
                while len(codes) > size:
                    self._ids[codes.popitem()[1]] = None
            del self._ids[n:]
            self._free = free

    def forget(self, codes: Positions) -> None:
        """Forget nodes; their codes are given to new ones."""
        free = set(self._free)
        for code in codes.tolist():
            if code in free:
                continue
            key = id_key(self._ids[code])
            for of_end in self._codes:
                if of_end.get(key) == code:
                    del of_end[key]
            self._ids[code] = None
            self._free.append(code)

    def listed(self) -> tuple[list[Any], list[Any], list[int]]:
        """Ids and codes of the sources, then of the destinations (empty if both are one), and the free codes."""
        sources, destinations = self._codes
        sides = [[[self._ids[code], code] for code in codes.values()] for codes in self._codes]
        return sides[0], ([] if sources is destinations else sides[1]), list(self._free)

    def restore(self, sources: list[Any], destinations: list[Any], free: list[int]) -> None:
        """Take over what `listed` returned."""
        self._free = list(free)
        used = [*sources, *destinations]
        self._ids = [None] * (1 + max([-1, *free, *(code for _, code in used)]))
        for id, code in used:
            self._ids[code] = id
        of_sources = {id_key(id): code for id, code in sources}
        is_one = self._codes[SRC] is self._codes[DST]
        self._codes = of_sources, (of_sources if is_one else {id_key(id): code for id, code in destinations})
