"""RunningColumns: the columns of a stream, event by event, from decayed sums that are carried along.

The columns are those of `PropagationFeatures` with `past_only`. An event is *entered*, its columns are read from what
happened strictly before it, and it is absorbed once time has moved on: events at one time do not see each other. A label is
absorbed at the time when it became known. Both can come late: all decayed sums are then as if they had come in time, but for
the excess of a late event's numbers, which is that over what is usual when it comes, and the edges since a late event, which
count from when it comes. If the last label of the rarest class is taken back, the one that it replaced is the last again.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from tdlg import _kernels as kernels
from tdlg._kernels.stream import absorb, run
from tdlg.edges import TemporalEdges
from tdlg.exceptions import ParameterError
from tdlg.linegraph.match import SAME_ENDS
from tdlg.propagate.features import PropagationFeatures
from tdlg.propagate.plan import BOTH_MATCHES, ColumnPlan, Floats, Positions, levels, to_sum
from tdlg.propagate.state import (
    MOST_MANY,
    EventRows,
    PrefixedArrays,
    Rings,
    RunningSums,
    SavedArrays,
    StreamEvents,
    index_of,
    reads_of,
    unused_codes,
)
from tdlg.tables.column import EXACT

READ_ENDS, READ_PAIRS = reads_of(BOTH_MATCHES), reads_of(["pair", "reversed"])
ADDED_ENDS, ADDED_PAIRS = reads_of(["src", "dst"], skip_loops=True), reads_of(["pair"], skip_loops=True)


def stream_clock(edges: TemporalEdges) -> tuple[str | None, np.dtype[Any]]:
    """The unit and the type of the ticks of a stream that goes on from these edges: at least microseconds, or float64."""
    if edges.time_unit is not None:
        return ("ns" if edges.time_unit == "ns" else "us"), np.dtype(np.int64)
    is_whole = edges.ticks.dtype.kind == "i" and len(edges) and np.abs(edges.ticks).max() >= EXACT
    return None, np.dtype(np.int64 if is_whole else np.float64)


# ---- what waits to be absorbed until time has moved on: edges, and labels that become known


class Updates(NamedTuple):
    """Edges and labels to absorb, (n,) each, in the order of time."""

    tick: NDArray[Any]  # when an edge happened, or a label became known
    edge_tick: NDArray[Any]  # the time of the edge, and
    number: Positions  # a number that grows with each arrival: the order of what has the same tick
    row: Positions  # that of the event
    is_label: NDArray[np.bool_]
    sign: NDArray[np.float64]  # 1, or -1 to take it away again

    @classmethod
    def of(cls, entries: list[tuple[Any, ...]], dtype: np.dtype[Any]) -> Self:
        """Entries of the queue, each with the fields in this order."""
        types: tuple[Any, ...] = (dtype, dtype, np.int64, np.int64, np.bool_, np.float64)
        columns = zip(*entries, strict=True) if entries else ((),) * len(types)
        return cls(*(np.array(column, kind) for column, kind in zip(columns, types, strict=True)))

    def some(self, which: Any) -> Updates:
        """Some of them."""
        return Updates(*(column[which] for column in self))

    def split(self, now: Any) -> tuple[Updates, Updates]:
        """Those that happened before a time, and the others, of some in the order of time."""
        n_before = int(self.tick.searchsorted(now))
        if n_before == len(self.tick):
            return self, self.some(slice(n_before, None))
        return self.some(slice(0, n_before)), (self.some(slice(n_before, None)) if n_before else self)

    def merged(self, other: Updates) -> Updates:
        """Both together, sorted."""
        if not len(self.tick) or not len(other.tick):
            return self if len(self.tick) else other
        return Updates(*(np.concatenate(pair) for pair in zip(self, other, strict=True))).sorted()

    def sorted(self) -> Updates:
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
        self.nothing = Updates.of([], dtype)

    def __len__(self) -> int:
        return len(self._heap) - self._n_removed

    def new(
        self, rows: Positions, ticks: NDArray[Any], known: NDArray[Any] | None = None, sign: float = 1.0
    ) -> Updates:
        """Number the arrival of edges, or of labels that became known at these times."""
        numbers = np.arange(self._number, self._number + len(rows))
        self._number += len(rows)
        signs, is_label = np.empty(len(rows)), np.empty(len(rows), np.bool_)
        signs.fill(sign)  # np.full takes much longer for one event
        is_label.fill(known is not None)
        return Updates(ticks if known is None else known, ticks, numbers, rows, is_label, signs)

    def arrived(self, rows: Positions, ticks: NDArray[Any], *, keep: bool) -> Updates:
        """Number the arrival of edges in the order of time; if they are kept, those at the latest time wait.

        The others are returned.
        """
        n = int(ticks.searchsorted(ticks[-1]))
        others = self.new(rows[:n], ticks[:n]) if n else self.nothing
        if keep:
            for row, tick in zip(rows[n:].tolist(), ticks[n:].tolist(), strict=True):
                heapq.heappush(self._heap, (tick, tick, self._number, row, False, 1.0))
                self._number += 1
        return others

    def push(self, some: Updates) -> None:
        """Let them wait."""
        entries = list(zip(*(column.tolist() for column in some), strict=True))
        self._label_of.update((row, number) for _, _, number, row, is_label, _ in entries if is_label)
        if len(entries) > len(self._heap):
            self._heap += entries
            heapq.heapify(self._heap)
            return
        for entry in entries:
            heapq.heappush(self._heap, entry)

    def take(self, until: Any) -> Updates:
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
        return Updates.of(due, self._dtype) if due else self.nothing

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

    def all(self) -> Updates:
        """All that wait, sorted."""
        return Updates.of(sorted(filter(self._waits, self._heap)), self._dtype)

    def state(self) -> dict[str, NDArray[Any]]:
        """All that is needed to go on, as arrays."""
        return {**self.all()._asdict(), "next": np.array(self._number)}

    def restore(self, state: SavedArrays) -> None:
        """Take over what `state` returned."""
        self._heap, self._label_of, self._n_removed, self._number = [], {}, 0, int(state["next"])
        self.push(Updates(*(state[name] for name in Updates._fields)))


# ---- columns


class RunningColumns:
    """The columns of events as they come, for features fitted with `past_only`, whose edges are not absorbed here.

    rows : the memory of events, with `n_answers` values of each in the array "answer"; clock : the latest time of an event
    in ticks, None before the first one; unit, dtype : of the ticks.
    """

    def __init__(self, features: PropagationFeatures, n_answers: int = 1) -> None:
        if not features.past_only:
            raise ParameterError("The columns of a stream need 'past_only=True'.", parameter="past_only")
        self.unit, self.dtype = stream_clock(features.edges_)
        self.clock: Any = None
        plan = self._plan = features.plan_
        if len(plan.many) > MOST_MANY:
            raise ParameterError(
                f"A stream can have at most {MOST_MANY} features with more than 16 categories.", parameter="features"
            )
        filed = {plan.kinds(match)[1] for match in plan.matches}
        added = [*plan.category_matches, *(match for match in SAME_ENDS if match in filed)]
        self._reads, self._added = (reads_of(some, plan.category_matches) for some in (plan.all_matches, added))
        self._writer = _writer_of(plan, self.unit)
        self._per_class = 0  # sums for the columns about both ends
        if plan.has_two_ends:
            self._per_class = kernels.N_BIPARTITE if plan.bipartite else kernels.N_SUMS
        both = plan.two_end_widths(self.unit)
        width = kernels.FIRST + plan.n_targets * self._per_class if self._per_class else 0
        self._no_gap = kernels.NO_GAP * float(both[kernels.LONG])
        n_values, n_numbers = plan.n_edge_values + plan.n_label_values, len(plan.numbers)
        has_rare = plan.rarest is not None
        self._around = RunningSums(plan.widths(self.unit), n_values, self.dtype, n_numbers, has_rare=has_rare)
        self._of_pasts = plan.excesses, _places(added), np.array(plan.rare_sign, np.int64)
        self._ends, self._pairs = (RunningSums(both, n, self.dtype) for n in (width, 2 * width))
        self._all_sums = self._around, self._ends, self._pairs
        self._rings = Rings(plan.n_targets, self.dtype)
        self._waiting = Waiting(self.dtype)
        self.rows = EventRows(
            nodes=np.zeros((0, 2), np.int64),
            values=np.zeros((0, plan.n_edge_values)),
            labels=np.zeros((0, plan.n_label_values)),
            described=np.zeros((0, plan.n_targets, kernels.N_DESCRIBED)),
            levels=np.zeros((0, n_numbers)),
            excess=np.zeros((0, len(SAME_ENDS), n_numbers)),
            n_before=np.zeros((0, len(SAME_ENDS) * has_rare)),
            replaced=np.zeros((0, len(SAME_ENDS) * has_rare), self.dtype),
            n_replaced=np.zeros((0, len(SAME_ENDS) * has_rare)),
            categories=np.zeros((0, len(plan.many)), np.int64),
            ticks=np.zeros(0, self.dtype),
            known=np.zeros(0, self.dtype),
            answer=np.zeros((0, n_answers)),
            late=np.zeros(0, np.bool_),
        )

    # ---- events and labels

    def enter(self, events: StreamEvents) -> Positions:
        """Give events a row each, to be released when it is not needed any more."""
        if self._per_class and len(events.src):
            self._rings.make_room(1 + int(max(events.src.max(), events.dst.max())))
        rows = self.rows.take(len(events.ticks))
        memory, at = self.rows.arrays, index_of(rows)
        memory["nodes"][at, kernels.SRC], memory["nodes"][at, kernels.DST] = events.src, events.dst
        memory["values"][at, 0] = 1.0
        if self._plan.n_edge_values > 1:
            memory["values"][at, 1:] = to_sum(events.own, self._plan.own)
            memory["levels"][at], memory["excess"][at] = levels(events.own, self._plan.own), 0.0
        memory["categories"][at], memory["ticks"][at], memory["labels"][at] = events.categories, events.ticks, 0.0
        return rows

    def columns(
        self, rows: Positions, own: Floats, labels: Updates | None = None, *, wanted: bool = True, keep: bool = True
    ) -> Floats:
        """The columns of events in the order of time, (n_rows, n_columns), or none if they are not wanted.

        Events before the present time are scored as of now. own : the features; labels : those that came with the events.
        Then events and labels are absorbed; unless `keep`, all is as it was before, and there must be no labels.
        """
        lines = np.empty((len(self._plan.columns), len(rows)) if wanted else (0, 0))
        ticks = self.rows["ticks"][index_of(rows)]
        n_late = 0 if self.clock is None else int(ticks.searchsorted(self.clock))
        if n_late or not keep:
            self._absorb(self._due())
        if keep:
            self.rows.hold(rows)
        if n_late:
            now = np.full(n_late, self.clock, self.dtype)
            self._run((rows[:n_late], now, own[:n_late]), self._absorbed(self._waiting.nothing), lines)
        if n_late and keep:
            self._absorb(self._waiting.new(rows[:n_late], ticks[:n_late]))
        if n_late == len(rows):
            if labels is not None:
                self._absorb(self._due(labels))
            return lines.T
        rest = rows[n_late:], ticks[n_late:], own[n_late:]
        new = self._waiting.arrived(*rest[:2], keep=keep)
        if keep:
            self.clock = ticks[-1]
            due = self._due(labels).merged(new)
            self._run(rest, self._absorbed(due), lines, n_late)
            self.rows.release(due.row)
        else:
            waiting = self._waiting.take(ticks[-1])
            with self._undone(waiting.merged(new)) as absorbed:
                self._run(rest, absorbed, lines, n_late)
            self._waiting.push(waiting)
        return lines.T

    def labels(self, rows: Positions, targets: Floats, known: NDArray[Any]) -> Updates:
        """Labels of events that have none yet, minus the prior, and when they became known; for `columns` or `absorb`."""
        self.rows["labels"][rows, 0], self.rows["labels"][rows, 1:] = 1.0, targets
        self.rows.hold(rows)
        ticks = self.rows["ticks"][rows]
        return self._waiting.new(rows, ticks, np.maximum(known, ticks))

    def absorb(self, labels: Updates) -> None:
        """Absorb labels: at once if they became known before the present time, else when time has moved on."""
        self._absorb(self._due(labels))

    def withdraw_label(self, row: int, known: Any) -> None:
        """Take back the label of an event that became known at this time."""
        rows = np.array([row])
        if self._waiting.remove_label(row):
            self.rows.release(rows)
            return
        known_at = np.maximum(np.array([known], self.dtype), self.rows["ticks"][rows])
        self._take_back(rows, self._waiting.new(rows, self.rows["ticks"][rows], known_at, -1.0))

    def withdraw(self, row: int) -> None:
        """Take back an event without a label: all sums are as if it had not been, but the time of the last edge stays."""
        rows = np.array([row])
        self._take_back(rows, self._waiting.new(rows, self.rows["ticks"][rows], sign=-1.0))

    def _take_back(self, rows: Positions, taken: Updates) -> None:
        self.rows.hold(rows)
        n_before = [sums.n for sums in self._all_sums]
        self._absorb(taken)
        for sums, n in zip(self._all_sums, n_before, strict=True):
            sums.sums[n : sums.n] = 0.0  # keys that were forgotten have nothing that could be taken away

    # ---- absorbing

    def _due(self, more: Updates | None = None) -> Updates:
        """What waits and happened before the present time, and those of some more for which this holds."""
        due = self._waiting.take(self.clock)
        if more is None:
            return due
        now, later = more.sorted().split(self.clock)
        self._waiting.push(later)
        return now.merged(due)

    def _absorb(self, due: Updates) -> None:
        """Absorb without scoring anything."""
        if len(due.row):
            absorbed = self._absorbed(due)  # which may move the memory
            absorb(absorbed, *self._memory())
            self.rows.release(due.row)

    @contextmanager
    def _undone(self, due: Updates) -> Iterator[tuple[Any, ...]]:
        """What is to be absorbed, as `_run` takes it; afterwards it is undone."""
        n_before = [sums.n for sums in self._all_sums]
        absorbed = self._absorbed(due)
        changed = zip(self._all_sums, absorbed[-3:], n_before, strict=True)
        saved = [(sums, *sums.saved(slots, n, self.clock)) for sums, slots, n in changed]
        rings = self._rings.saved(self.rows["nodes"][due.row[due.is_label]])
        yield absorbed
        for sums, slots, arrays in saved:
            sums.put_back(slots, arrays)
        self._rings.put_back(*rings)

    def _absorbed(self, due: Updates) -> tuple[Any, ...]:
        """Edges and labels with the slots of all their keys, as the kernel takes them."""
        keys = due.row, self.rows["nodes"], self.rows["categories"]
        slots = self._around.add(self._added, *keys, due.tick)
        ends, pairs = slots[:0], slots[:0]
        if self._per_class:
            ends = self._ends.add(ADDED_ENDS, *keys, due.tick)
            pairs = self._pairs.add(ADDED_PAIRS, *keys, due.tick)
            if due.is_label.any():
                self._rings.add(self.rows["nodes"][due.row[due.is_label]])
        return due.tick, due.row, due.is_label, due.sign, slots, ends, pairs

    def _memory(self) -> tuple[Any, ...]:
        """What the kernels read and change."""
        entered = "nodes", "values", "labels", "described", "levels", "excess"
        of_rows = *entered, "n_before", "ticks", "replaced", "n_replaced"
        both = self._ends.arrays, self._pairs.arrays, self._rings.arrays, self._per_class, not self._plan.bipartite
        around = self._around
        pasts = around.usual, around.labelled, around.counts, *self._of_pasts
        return tuple(self.rows[name] for name in of_rows), (*around.arrays, *pasts), both

    def _run(self, queries: tuple[Any, ...], absorbed: tuple[Any, ...], lines: Floats, start: int = 0) -> None:
        """Write the columns of queries (rows, ticks, own features) from `start` on, absorbing what is due on the way."""
        rows, ticks, own = queries
        keys = rows, self.rows["nodes"], self.rows["categories"]
        slots = ends = pairs = self._around.find(self._reads, *keys)
        if self._per_class:
            ends, pairs = self._ends.find(READ_ENDS, *keys), self._pairs.find(READ_PAIRS, *keys)
        found = ticks, rows, slots, ends, pairs, np.ascontiguousarray(own)
        run(found, absorbed, *self._memory(), self._writer, start, lines)
        if len(lines):
            lines[self._plan.starts[-2] :, start : start + len(rows)] = self._plan.compressed(own).T

    # ---- memory

    @property
    def n_keys(self) -> int:
        """The number of keys that have sums."""
        return sum(sums.n for sums in self._all_sums)

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        return sum(part.nbytes for part in (self.rows, *self._all_sums, self._rings))

    def forget(self, n_codes: int, after: float | None = None) -> Positions:
        """Forget keys that have faded or not changed for a time in ticks; returns the codes of nodes that are not used."""
        for sums in self._all_sums:
            sums.forget(self.clock, self._no_gap, after)
        if (
            self._plan.rarest is not None
        ):  # what was before an edge is forgotten with its key, and so is an absorbed edge
            rows = np.flatnonzero(self.rows.in_use)
            slots = self._around.find(reads_of(SAME_ENDS), rows, self.rows["nodes"], self.rows["categories"])
            of_new_key = np.where(self.rows["ticks"][rows] < self.clock, -1.0, 0.0)[:, np.newaxis]
            self.rows["n_before"][rows] = np.where(slots < 0, of_new_key, self.rows["n_before"][rows])
        gone = unused_codes(n_codes, self.rows["nodes"][self.rows.in_use], self._all_sums)
        if self._per_class:
            self._rings.forget(gone)
        return gone

    def used_categories(self, feature: int, n_codes: int) -> NDArray[np.bool_]:
        """Which codes of a feature with many categories, given by its number, are still used, (n_codes,)."""
        used = np.zeros(1 + n_codes, bool)  # first of a missing category: keys have the codes plus 1
        used[1 + self.rows["categories"][self.rows.in_use, feature]] = True
        used[self._around.category_codes(feature)] = True
        return used[1:]

    @property
    def _parts(self) -> dict[str, Any]:
        """What is saved, by the names in the saved state."""
        sums = {"around": self._around, "ends": self._ends, "pairs": self._pairs}
        return {"rows": self.rows, **sums, "rings": self._rings, "waiting": self._waiting}

    def state(self) -> dict[str, NDArray[Any]]:
        """All that is needed to go on, as arrays, which are not copied."""
        parts = {f"{name}.{key}": array for name, part in self._parts.items() for key, array in part.state().items()}
        return {**parts, "clock": np.array([self.clock], self.dtype)}

    def restore(self, state: SavedArrays) -> None:
        """Take over what `state` returned for the same features."""
        for name, part in self._parts.items():
            part.restore(PrefixedArrays(state, f"{name}."))
        self.clock = state["clock"][0]


def _places(matches: Iterable[str]) -> Positions:
    """Which of source, destination and pair each match is about; -1 for other matches."""
    return np.array([SAME_ENDS.index(match) if match in SAME_ENDS else -1 for match in matches], np.int64)


def _writer_of(plan: ColumnPlan, unit: str | None) -> tuple[Any, ...]:
    """How the kernel writes the columns, see `_kernels.stream._write_rows`."""
    *starts, both_at, own_at, _ = plan.starts.tolist()
    n_two_ends = plan.n_targets * (2 * len(plan.two_end_means) + 8) + 2 if plan.has_two_ends else 0
    if n_two_ends != own_at - both_at:  # kernels do not check bounds
        raise TypeError("The kernel writes other columns about both ends than the plan has.")
    compared = [plan.comparisons(match) for match in plan.all_matches]
    return (
        _places(plan.all_matches),
        np.array([*starts, both_at], np.int64),
        *(np.concatenate(parts) for parts in zip(*compared, strict=True)),
        np.array([plan.smoothing, plan.spread(unit)]),
        both_at,
        plan.n_edge_values,
        plan.two_end_means,
        np.cumsum([0, *(len(kinds) for kinds, _ in compared)]),
    )
