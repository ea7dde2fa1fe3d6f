"""RunningColumns: the columns of a stream, event by event, from decayed sums that are carried along.

The columns are those of `PropagationFeatures` with `past_only`. An event is *entered*, its columns are read from what
happened strictly before it, and it is absorbed once time has moved on: events at one time do not see each other. A label is
absorbed at the time when it became known. Both can come late: all decayed sums are then as if they had come in time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tdlg._kernels import NO_GAP
from tdlg.edges import TemporalEdges
from tdlg.exceptions import ParameterError
from tdlg.propagate.columns import OWN_MATCHES
from tdlg.propagate.event_rows import EventRows
from tdlg.propagate.features import PropagationFeatures
from tdlg.propagate.own_features import is_scaled, to_sum
from tdlg.propagate.rings import Rings
from tdlg.propagate.saved import Part, SavedArrays
from tdlg.propagate.state import RunningSums, parts_of
from tdlg.propagate.waiting import Absorptions, Waiting
from tdlg.propagate.writer import ColumnWriter

__all__ = ["Arrived", "RunningColumns", "stream_clock"]

Floats = NDArray[np.float64]
Positions = NDArray[np.int64]

OUT, IN, PAIR, FIRST_CATEGORY = range(4)  # kinds of keys: edges from a node, to a node, of a pair, of a category
READ = {  # where the sums of each match are: kind of key, first and second code (0 source, 1 destination, -1 none)
    "src": (OUT, 0, -1),
    "dst": (IN, 1, -1),
    "src-dst": (IN, 0, -1),
    "dst-src": (OUT, 1, -1),
    "pair": (PAIR, 0, 1),
    "reversed": (PAIR, 1, 0),
}
CATEGORY_ENDS = ("", "src", "dst")
CATEGORIES_FROM = 2  # codes from here on are those of categories
MOST_KINDS = 127
N_DESCRIBED = 8  # numbers of step 1 of the columns about both ends, see `_kernels.stream`
SUMS_PER_CLASS = {True: 6, False: 8}  # of those columns, by whether the edges are bipartite
EXACT = 2**53  # whole numbers that floats hold exactly


def _as_reads(reads: Iterable[tuple[int, int, int]], *, skip_loops: bool = False) -> Positions:
    """Which keys to find, as the kernels take them."""
    return np.array([(*read, skip_loops) for read in reads], np.int64).reshape(-1, 4)


READ_ENDS = _as_reads([READ[match] for match in ("src", "dst", "src-dst", "dst-src")])
READ_PAIRS = _as_reads([READ["pair"], READ["reversed"]])
ADDED_ENDS = _as_reads([READ["src"], READ["dst"]], skip_loops=True)
ADDED_PAIRS = _as_reads([READ["pair"]], skip_loops=True)


class Arrived(NamedTuple):
    """Events to score, in the codes of a stream.

    Attributes
    ----------
    src, dst
        Codes of the nodes, (n,).
    ticks
        Times in ticks of the stream's clock, (n,).
    own, categories
        Features and categories of the events, see `tdlg.propagate.evidence.Query`.
    """

    src: Positions
    dst: Positions
    ticks: NDArray[Any]
    own: Floats
    categories: Positions


def stream_clock(edges: TemporalEdges) -> tuple[str | None, np.dtype[Any]]:
    """The unit and the type of the ticks of a stream that goes on from these edges.

    Datetimes are counted in microseconds, in nanoseconds if the edges are. Numbers are float64, except whole numbers that
    floats cannot hold.
    """
    if edges.time_unit is not None:
        return ("ns" if edges.time_unit == "ns" else "us"), np.dtype(np.int64)
    is_whole = edges.ticks.dtype.kind == "i" and len(edges) and np.abs(edges.ticks).max() >= EXACT
    return None, np.dtype(np.int64 if is_whole else np.float64)


class RunningColumns:
    """The columns of events as they come.

    Parameters
    ----------
    features
        A fitted `PropagationFeatures` with `past_only`. The fitted edges are not absorbed here.
    n_answers
        The number of values that are kept per event in the array "answer" of `rows`.

    Attributes
    ----------
    clock
        The latest time of an event, in ticks; None before the first one.
    unit, dtype
        Unit and type of the ticks.
    rows
        Memory of the events.
    """

    def __init__(self, features: PropagationFeatures, n_answers: int = 1) -> None:
        if not features.past_only:
            raise ParameterError("The columns of a stream need 'past_only=True'.", parameter="past_only", value=False)
        self.unit, self.dtype = stream_clock(features.edges_)
        self.clock: Any = None
        self._describe(features)
        widths, both = features.widths(self.unit)
        self._around = RunningSums(widths, self._n_edge_values + 1 + self._n_targets, self.dtype)
        width = 2 + self._n_targets * self._per_class if self._per_class else 0
        self._ends, self._pairs = (RunningSums(both, n, self.dtype) for n in (width, 2 * width))
        self._all_sums = self._around, self._ends, self._pairs
        self._rings = Rings(self._n_targets, self.dtype)
        self._no_gap = NO_GAP * float(both[1])
        self._writer = self._writer_of(features, float(both[1]))
        self._waiting = Waiting(self.dtype)
        n_categories = sum(column.has_more for column in self._own)
        self.rows = EventRows(
            nodes=np.zeros((0, 2), np.int64),
            values=np.zeros((0, self._n_edge_values)),
            labels=np.zeros((0, 1 + self._n_targets)),
            described=np.zeros((0, self._n_targets, N_DESCRIBED)),
            categories=np.zeros((0, n_categories), np.int64),
            ticks=np.zeros(0, self.dtype),
            known=np.zeros(0, self.dtype),
            answer=np.zeros((0, n_answers)),
            late=np.zeros(0, np.bool_),
        )

    def _describe(self, features: PropagationFeatures) -> None:
        """Which columns there are, and which keys they read."""
        description = features.description()
        self.n_columns = len(description.columns())
        self._n_targets = len(features.prior_)
        self._n_edge_values = 1 + sum(column.n_sums for column in features.own_)
        self._own = features.own_
        self._one_type = not features.edges_.bipartite
        self._per_class = SUMS_PER_CLASS[features.edges_.bipartite] if description.two_ends else 0
        self.matches = [*features.matches_, *description.category_matches()]
        names = [column.name for column in features.own_ if column.has_more]
        reads = {match: READ[match] for match in features.matches_}
        for match, (feature, end) in description.category_matches().items():
            kind = FIRST_CATEGORY + len(CATEGORY_ENDS) * names.index(feature) + CATEGORY_ENDS.index(end)
            reads[match] = kind, CATEGORIES_FROM + names.index(feature), CATEGORY_ENDS.index(end) - 1
        if max((kind for kind, _, _ in reads.values()), default=0) > MOST_KINDS:
            raise ParameterError(
                "A stream can have at most 41 features with more than 16 categories.", parameter="features"
            )
        added = {kind: read for match, read in reads.items() for kind in read[:1] if kind >= FIRST_CATEGORY}
        kinds = {kind for kind, _, _ in reads.values()}
        added |= {READ[match][0]: READ[match] for match in OWN_MATCHES if READ[match][0] in kinds}
        self._reads, self._added = _as_reads(reads.values()), _as_reads(added.values())
        self._starts = np.cumsum([0, *(len(description.of_match(match)) for match in self.matches)])
        self._own_at = int(self._starts[-1]) + len(description.two_ends)

    def _writer_of(self, features: PropagationFeatures, spread: float) -> tuple[Any, ...]:
        """How the kernel writes columns, see `_kernels.stream._write`."""
        spread = spread if np.isfinite(spread) else 1.0
        writer = ColumnWriter.of(self._own, features.smoothing, spread)
        compares = np.array([match in OWN_MATCHES for match in self.matches], np.bool_)
        scaled = np.repeat([is_scaled(column) for column in self._own], [column.width for column in self._own])
        numbers = np.array([features.smoothing, spread])
        places = self._starts.astype(np.int64), writer.compared, writer.amounts, numbers, self._own_at
        return compares, *places, int(self._starts[-1]), scaled.astype(np.bool_), self._n_edge_values

    # ---- events

    def enter(self, events: Arrived) -> Positions:
        """Give events a row each; `release` it when it is not needed any more."""
        rows = self.rows.take(len(events.ticks))
        memory = self.rows.arrays
        memory["nodes"][rows, 0], memory["nodes"][rows, 1] = events.src, events.dst
        memory["values"][rows, 0] = 1.0
        if self._n_edge_values > 1:
            memory["values"][rows, 1:] = to_sum(events.own, self._own)
        memory["categories"][rows], memory["ticks"][rows], memory["labels"][rows] = events.categories, events.ticks, 0.0
        return rows

    def release(self, rows: Positions) -> None:
        """Give rows back; they are used again once nothing waits for them."""
        self.rows.release(rows)

    # ---- scoring and absorbing

    def columns(
        self, rows: Positions, own: Floats, labels: Absorptions | None = None, *, wanted: bool = True
    ) -> Floats | None:
        """The columns of events, (n_rows, n_columns), given in the order of time; then the events are absorbed.

        Events before the present time are scored as of now.

        Parameters
        ----------
        rows, own
            The rows of the events, and their features.
        labels
            Labels that came with the events, see `labels`. None by default.
        wanted
            Whether the columns are made. True by default.
        """
        lines = np.empty((self.n_columns, len(rows))) if wanted else np.empty((0, 0))
        ticks = self.rows["ticks"][rows]
        n_late = 0 if self.clock is None else int(ticks.searchsorted(self.clock))
        late, rest = slice(0, n_late), slice(n_late, len(rows))
        self.rows.hold(rows)
        if n_late:
            self._absorb(self._due())
            now, nothing = np.full(n_late, self.clock, self.dtype), self._waiting.new(rows[:0], ticks[:0])
            self._run(rows[late], now, own[late], self._absorbed(nothing), lines)
            self._absorb(self._waiting.new(rows[late], ticks[late]))
        if n_late < len(rows):
            self.clock = ticks[-1]  # the last events wait until time has moved on
            new, last = self._waiting.new(rows[rest], ticks[rest]).split_sorted(self.clock)
            due = self._due(labels).merged(new)
            self._run(rows[rest], ticks[rest], own[rest], self._absorbed(due), lines, n_late)
            self._waiting.push(last)
            self.release(due.row)
        elif labels is not None:
            self._absorb(self._due(labels))
        return lines.T if wanted else None

    def labels(self, rows: Positions, targets: Floats, known: NDArray[Any]) -> Absorptions:
        """Labels of events, to be passed to `columns` or `absorb_labels`.

        Parameters
        ----------
        rows
            The rows of the events, which have no label yet.
        targets
            The labels minus the prior, (n_rows, n_targets).
        known
            When they became known, in ticks; a label is never known before its event.
        """
        self.rows["labels"][rows, 0], self.rows["labels"][rows, 1:] = 1.0, targets
        self.rows.hold(rows)
        return self._waiting.new(rows, self.rows["ticks"][rows], np.maximum(known, self.rows["ticks"][rows]))

    def absorb_labels(self, labels: Absorptions) -> None:
        """Absorb labels: at once if they became known before the present time, else when time has moved on."""
        self._absorb(self._due(labels))

    def withdraw_label(self, row: int, known: Any) -> None:
        """Take back the label of an event that became known at this time."""
        rows = np.array([row])
        if self._waiting.remove_label(row):
            self.release(rows)
            return
        self.rows.hold(rows)
        known_at = np.maximum(np.array([known], self.dtype), self.rows["ticks"][rows])
        n_before = [sums.n for sums in self._all_sums]
        self._absorb(self._waiting.new(rows, self.rows["ticks"][rows], known_at, -1.0))
        for sums, n in zip(self._all_sums, n_before, strict=True):
            sums.sums[n : sums.n] = 0.0  # keys that were forgotten have nothing that could be taken away

    def peek(self, rows: Positions, own: Floats) -> Floats:
        """The columns that `columns` would make of events in the order of time, without absorbing anything."""
        lines = np.empty((self.n_columns, len(rows)))
        ticks = self.rows["ticks"][rows]
        self._absorb(self._due())
        n_late = int(np.searchsorted(ticks, self.clock))
        late, rest = slice(0, n_late), slice(n_late, len(rows))
        nothing = self._absorbed(self._waiting.new(rows[:0], ticks[:0]))
        if n_late:
            now = np.full(n_late, self.clock, self.dtype)
            self._run(rows[late], now, own[late], nothing, lines)
        if n_late < len(rows):
            waiting = self._waiting.take(ticks[-1])
            new, _ = self._waiting.new(rows[rest], ticks[rest]).split(ticks[-1])
            with self._undone(waiting.merged(new)) as absorbed:
                self._run(rows[rest], ticks[rest], own[rest], absorbed, lines, n_late)
            self._waiting.push(waiting)
        return lines.T

    @contextmanager
    def _undone(self, due: Absorptions) -> Iterator[tuple[Any, ...]]:
        """Absorb something, and undo it afterwards."""
        n_before = [sums.n for sums in self._all_sums]
        absorbed = self._absorbed(due)
        changed = zip(self._all_sums, absorbed[-3:], n_before, strict=True)
        saved = [(sums, *sums.saved(slots, n, self.clock)) for sums, slots, n in changed]
        rings = self._rings.saved(self.rows["nodes"][due.row[due.is_label]])
        yield absorbed
        for sums, slots, arrays in saved:
            sums.put_back(slots, arrays)
        self._rings.put_back(*rings)

    def _due(self, more: Absorptions | None = None) -> Absorptions:
        """What waits and happened before the present time, and those of some more for which this holds."""
        due = self._waiting.take(self.clock)
        if more is None:
            return due
        now, later = more.split(self.clock)
        self._waiting.push(later)
        return now.sorted().merged(due)

    def _absorb(self, due: Absorptions) -> None:
        """Absorb without scoring anything."""
        if not len(due.row):
            return
        own = np.empty((0, sum(column.width for column in self._own)))
        self._run(due.row[:0], due.tick[:0], own, self._absorbed(due), np.empty((0, 0)))
        self.release(due.row)

    def _run(
        self,
        rows: Positions,
        ticks: NDArray[Any],
        own: Floats,
        absorbed: tuple[Any, ...],
        lines: Floats,
        start: int = 0,
    ) -> None:
        """Write the columns of events from `start` on, and absorb what is due on the way; then the rest of it."""
        from tdlg._kernels.stream import absorb_all, run

        queries = ticks, rows, *self._read_slots(rows), np.ascontiguousarray(own)
        events = tuple(self.rows[name] for name in ("nodes", "values", "labels", "described"))
        two_ends = self._ends.arrays, self._pairs.arrays, self._rings.arrays, self._per_class, self._one_type
        done = run(queries, absorbed, events, self._around.arrays, two_ends, self._writer, start, lines)
        if done < len(absorbed[0]):
            absorb_all(absorbed, done, events, self._around.arrays, two_ends)

    # ---- keys

    def _absorbed(self, due: Absorptions) -> tuple[Any, ...]:
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

    def _read_slots(self, rows: Positions) -> tuple[Positions, Positions, Positions]:
        """The slots from which the columns of events are read."""
        keys = rows, self.rows["nodes"], self.rows["categories"]
        slots = self._around.find(self._reads, *keys)
        if not self._per_class:
            return slots, slots, slots
        return slots, self._ends.find(READ_ENDS, *keys), self._pairs.find(READ_PAIRS, *keys)

    # ---- memory

    @property
    def n_keys(self) -> int:
        """The number of keys that have sums."""
        return self._around.n + self._ends.n + self._pairs.n

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        return sum(part.nbytes for part in (self.rows, self._around, self._ends, self._pairs, self._rings))

    def make_room(self, events: Arrived) -> None:
        """Be ready for the nodes of events."""
        if self._per_class and len(events.src):
            self._rings.make_room(1 + int(max(events.src.max(), events.dst.max())))

    def forget(self, n_codes: int, after: float | None = None) -> Positions:
        """Forget keys whose sums have faded, and return the codes of nodes, of those below `n_codes`, that are not used now.

        Parameters
        ----------
        n_codes
            The number of codes that were given to nodes.
        after
            Forget keys without a change for this time, in ticks, even if they have not faded. By default none.
        """
        for sums in self._all_sums:
            faded = sums.faded(self.clock, self._no_gap)
            if after is not None:
                faded |= sums.time[: sums.n] < self.clock - after
            sums.keep(~faded)
        used = np.zeros(n_codes, bool)
        used[self.rows["nodes"][self.rows.in_use]] = True
        for sums in self._all_sums:
            kind, a, b = parts_of(sums.keys[: sums.n])
            used[a[kind <= PAIR]] = True
            used[b[(kind == PAIR) | (kind > FIRST_CATEGORY) & ((kind - FIRST_CATEGORY) % len(CATEGORY_ENDS) > 0)]] = (
                True
            )
        gone = np.flatnonzero(~used)
        if self._per_class:
            self._rings.forget(gone)
        return gone

    def used_categories(self, feature: int, n_codes: int) -> NDArray[np.bool_]:
        """Which codes of a feature with many categories, given by its number, are still used, (n_codes,)."""
        used = np.zeros(1 + n_codes, bool)  # first of a missing category: keys have the codes plus 1
        used[1 + self.rows["categories"][self.rows.in_use, feature]] = True
        kind, code, _ = parts_of(self._around.keys[: self._around.n])
        used[code[(kind - FIRST_CATEGORY) // len(CATEGORY_ENDS) == feature]] = True
        return used[1:]

    PARTS = ("rows", "_around", "_ends", "_pairs", "_rings", "_waiting")

    def state(self) -> dict[str, NDArray[Any]]:
        """All that is needed to go on, as arrays, which are not copied."""
        parts = {f"{name}.{key}": array for name in self.PARTS for key, array in getattr(self, name).state().items()}
        return {name.lstrip("_"): array for name, array in parts.items()} | {
            "clock": np.array([self.clock], self.dtype)
        }

    def restore(self, state: SavedArrays) -> None:
        """Take over what `state` returned for the same features."""
        for name in self.PARTS:
            getattr(self, name).restore(Part(state, f"{name.lstrip('_')}."))
        self.clock = state["clock"][0]
