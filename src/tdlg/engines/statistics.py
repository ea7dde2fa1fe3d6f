"""Statistics of a table that is read in blocks: labels, ranges, exact order statistics, and counts in windows of time.

Each function that takes a `BlockTask` looks at one block, and its result is small. The results of a limited number of blocks
are held at once. What the other functions return is exact, whatever the blocks are; only of features with more than 20,000
categories, rare ones may be lost.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence, Sized
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tdlg.clock import LAST_TICK, finest, rounded_up
from tdlg.edges import TemporalEdges
from tdlg.engines.executors import run_all, workers_of
from tdlg.engines.table import Block, ScannedEdges
from tdlg.exceptions import ReadError
from tdlg.propagate.own_features import raw_values

__all__ = ["BlockTask", "Clock", "Labels", "Look", "Range", "category_counts", "look", "order_statistics", "quantiles"]
__all__ += ["missing_counts", "ranges", "window_counts"]

Codes = NDArray[np.int16]

BINS = 1 << 17  # of all histograms of a block together, by which the search for order statistics is narrowed
COLLECTED = 2_000_000  # values that are sorted at once, of all order statistics together
AT_ONCE = 256  # blocks whose results are held at once, at most
MOST_VALUES = 20_000  # different labels before they are grouped into classes
FEW_VALUES = 4  # different labels that are compared one by one
MOST_WORDS = 20_000  # categories of a feature whose counts are kept
KNOWN, MISSING, ALL = "known", "missing", "all"


@dataclass(frozen=True)
class Labels:
    """Which class each value of the label column means. Plain data, which tasks carry.

    Attributes
    ----------
    values
        The values that occur, without missing ones.
    codes
        The class of each value, from 0; -1 if the value means that the label is missing.
    """

    values: tuple[Any, ...] = ()
    codes: tuple[int, ...] = ()

    def codes_of(self, edges: TemporalEdges) -> Codes:
        """The class of each edge; -1 if its label is missing."""
        found = np.full(len(edges), -1, np.int16)
        if edges.label is None or not self.values:
            return found
        known = edges.labelled
        if edges.label.dtype.kind == "O":
            code_of = dict(zip(self.values, self.codes, strict=True))
            found[known] = np.fromiter((code_of[value] for value in edges.label[known]), np.int16)
            return found
        if len(self.values) <= FEW_VALUES:
            for value, code in zip(self.values, self.codes, strict=True):
                found[known & (edges.label == value)] = code
            return found
        values = np.array(self.values)
        order = np.argsort(values)
        found[known] = np.array(self.codes, np.int16)[order][np.searchsorted(values[order], edges.label[known])]
        return found


@dataclass(frozen=True)
class Clock:
    """On which all times of a table are counted. Plain data, which tasks carry.

    Attributes
    ----------
    unit
        The unit of the ticks; None for numbers.
    dtype
        Type of the ticks: "i8" or "f8".
    low, high
        The first and the last time, in ticks.
    step
        Ticks that divide the distances of all times and times of labels from `low`, such as 1000 for whole seconds on a
        clock of milliseconds; 1 for floats.
    """

    unit: str | None
    dtype: str
    low: Any
    high: Any
    step: int = 1

    def ticks(self, edges: TemporalEdges) -> NDArray[Any]:
        """The times of edges on this clock."""
        return rounded_up(edges.ticks, edges.time_unit, self.unit, np.dtype(self.dtype))

    def known(self, edges: TemporalEdges) -> NDArray[Any] | None:
        """When the labels of edges became known, on this clock and never before the edge; None if at once."""
        late = edges.label_ticks
        if late is None:
            return None
        return np.maximum(rounded_up(late, edges.time_unit, self.unit, np.dtype(self.dtype)), self.ticks(edges))


@dataclass(frozen=True)
class BlockTask:
    """A block of a table to look at. Plain data, which an engine sends to where it is run.

    Attributes
    ----------
    table, block
        The table and its rows.
    labels, clock
        What labels and times mean, once it is known.
    ask
        What is asked for, depending on the function.
    """

    table: ScannedEdges
    block: Block
    labels: Labels = Labels()
    clock: Clock | None = None
    ask: Any = None


def tasks_of(table: ScannedEdges, blocks: Sequence[Block], *of_all: Any) -> list[BlockTask]:
    """One task per block."""
    return [BlockTask(table, block, *of_all) for block in blocks]


def results(engine: Executor, function: Callable[[BlockTask], Any], tasks: Sequence[BlockTask]) -> Iterator[Any]:
    """The results of all tasks in order, of which only some are held at once."""
    at_once = min(8 * workers_of(engine).n_threads, AT_ONCE)
    for start in range(0, len(tasks), at_once):
        yield from run_all(engine, function, tasks[start : start + at_once])


# ---- a first look


class Look(NamedTuple):
    """What a first look at a table gives.

    Attributes
    ----------
    clock
        The clock of all times.
    labels
        How often each value of the label column occurs; None counts missing ones.
    late
        Whether labels have times at which they became known.
    missing
        The number of missing labels of each block.
    numbers, categories
        The names of the features that are numbers, and of those that are categories.
    """

    clock: Clock
    labels: Counter[Any]
    late: bool
    missing: tuple[int, ...]
    numbers: tuple[str, ...]
    categories: tuple[str, ...]


def look(engine: Executor, table: ScannedEdges, blocks: Sequence[Block]) -> Look:
    """Look at all blocks."""
    found, total = [], Counter[Any]()
    for part in results(engine, look_at_block, tasks_of(table, blocks)):
        total.update(part.labels)
        _check_values(table, total)
        found.append(part._replace(labels=Counter()))
    unit = finest(*(part.clock.unit for part in found))
    if len({part.clock.unit is None for part in found}) > 1:
        raise ReadError(f"{table.path}: some of the times are dates and others are numbers. Write all in the same way.")
    dtype = "f8" if any(part.clock.dtype == "f8" for part in found) else "i8"
    ends = [
        rounded_up(np.array([part.clock.low, part.clock.high]), part.clock.unit, unit, np.dtype(dtype))
        for part in found
    ]
    low, high = min(low for low, _ in ends).item(), max(high for _, high in ends).item()
    clock = Clock(unit, dtype, low, high, _common_step(dtype, low, found))
    words = dict.fromkeys(name for part in found for name in part.categories)
    numbers = tuple(name for name in found[0].numbers if name not in words)
    return Look(clock, total, found[0].late, tuple(part.missing[0] for part in found), numbers, tuple(words))


def _common_step(dtype: str, low: Any, found: Sequence[Look]) -> int:
    if dtype == "f8" or len({part.clock.unit for part in found}) > 1:
        return 1
    steps = [math.gcd(part.clock.step, part.clock.low - low) for part in found]
    return math.gcd(*steps) or 1


def look_at_block(task: BlockTask) -> Look:
    """`look` at one block."""
    edges = task.table.read(task.block, with_ids=False)
    ticks = edges.ticks
    low, step = ticks.min().item(), 1
    has_times = edges.label is not None and ("label_time" in task.table.roles or task.table.label_delay is not None)
    if ticks.dtype.kind == "i":
        step = int(np.gcd.reduce(ticks - low))
        if has_times:
            late = edges.label_ticks
            sure = late[edges.labelled & (late < LAST_TICK)] if late is not None else ticks[:0]
            step = math.gcd(step, int(np.gcd.reduce(sure - low)) if len(sure) else 0)
    clock = Clock(edges.time_unit, ticks.dtype.str[1:], low, ticks.max().item(), step)
    words = tuple(edges.feature_categories)
    numbers = tuple(name for name in edges.feature_names if name not in words)
    known = edges.labelled
    counts: Counter[Any] = Counter()
    if edges.label is not None and edges.label.dtype.kind == "O":
        counts.update(edges.label[known].tolist())
    elif edges.label is not None:
        values, times = np.unique(edges.label[known], return_counts=True)
        _check_values(task.table, values)
        counts.update(dict(zip(values.tolist(), times.tolist(), strict=True)))
    _check_values(task.table, counts)
    missing = int(len(edges) - known.sum())
    return Look(clock, counts, has_times, (missing,), numbers, words)


def _check_values(table: ScannedEdges, values: Sized) -> None:
    if len(values) > MOST_VALUES:
        raise ReadError(
            f"{table.path}: the column {table.roles['label']!r} has more than {MOST_VALUES:,} different values, too many "
            "for classes. Write a column with a few classes to the file."
        )


# ---- ranges and order statistics


class Range(NamedTuple):
    """Number, least and largest value, mean and sum of squared deviations of some values."""

    n: int
    low: float
    high: float
    mean: float
    squares: float

    @classmethod
    def of(cls, values: NDArray[Any], origin: Any = 0) -> Range:
        """Of an array; mean and squares are those of the differences from an origin."""
        if not len(values):
            return cls(0, math.inf, -math.inf, 0.0, 0.0)
        differences = (values - origin).astype(np.float64)
        mean = float(differences.mean())
        with np.errstate(over="ignore"):
            return cls(
                len(values), values.min().item(), values.max().item(), mean, float(((differences - mean) ** 2).sum())
            )

    def and_more(self, other: Range) -> Range:
        """Of both together."""
        if not self.n or not other.n:
            return self if self.n else other
        n, apart = self.n + other.n, other.mean - self.mean
        mean = self.mean + apart * other.n / n
        squares = self.squares + other.squares + apart * apart * self.n * other.n / n
        return Range(n, min(self.low, other.low), max(self.high, other.high), mean, squares)

    @property
    def deviation(self) -> float:
        """The standard deviation; 0 if there are no values."""
        return math.sqrt(self.squares / self.n) if self.n else 0.0


def _values(task: BlockTask, names: Sequence[str]) -> dict[str, NDArray[Any]]:
    """The values of each name: "known" and "missing" are times by label, "known amount" and "all amount" a feature."""
    assert task.clock is not None
    edges = task.table.read(task.block, with_ids=False, with_features=any(" " in name for name in names))
    known = task.labels.codes_of(edges) >= 0
    ticks = task.clock.ticks(edges)
    found = {}
    for name in names:
        which, _, feature = name.partition(" ")
        rows = known if which == KNOWN else ~known if which == MISSING else np.ones(len(known), bool)
        values = raw_values(edges, feature) if feature else ticks
        found[name] = values[rows & np.isfinite(values)]
    return found


def ranges(engine: Executor, tasks: Sequence[BlockTask], names: Sequence[str]) -> dict[str, Range]:
    """The range of the values of each name; for names see `_values`."""
    total = {name: Range.of(np.empty(0)) for name in names}
    for part in results(engine, ranges_of_block, [_asking(task, tuple(names)) for task in tasks]):
        total = {name: total[name].and_more(part[name]) for name in names}
    return total


def ranges_of_block(task: BlockTask) -> dict[str, Range]:
    """`ranges` of one block."""
    assert task.clock is not None
    values = _values(task, task.ask)
    return {name: Range.of(some, 0 if " " in name else task.clock.low) for name, some in values.items()}


class _Interval(NamedTuple):
    """Values of a name from `low` to `high`, in ordered bits, and how many values of the name are below."""

    name: str
    low: int
    high: int
    below: int
    n: int


class _Search(NamedTuple):
    """Intervals in which values are looked for; together their results are small, however many there are."""

    intervals: tuple[_Interval, ...]
    n_bins: int
    collected: int

    @classmethod
    def of(cls, intervals: Iterable[_Interval]) -> _Search:
        every = tuple(intervals)
        return cls(every, max(BINS // len(every), 2), COLLECTED // len(every))

    def width(self, interval: _Interval) -> int:
        return (interval.high - interval.low) // self.n_bins + 1


def order_statistics(
    engine: Executor, tasks: Sequence[BlockTask], found: dict[str, Range], wanted: dict[str, Sequence[int]]
) -> dict[str, NDArray[Any]]:
    """The values at some ranks, from 0, of the sorted values of each name.

    Histograms narrow the search, until the values between two neighbouring bins are few enough to be sorted.

    Parameters
    ----------
    engine, tasks
        What runs the tasks, and one task per block.
    found
        The `ranges` of these names.
    wanted
        The ranks of each name.
    """
    assert tasks[0].clock is not None
    kinds = {name: "f8" if " " in name else tasks[0].clock.dtype for name in wanted}
    open_ranks: dict[_Interval, list[int]] = {}
    for name, ranks in wanted.items():
        low, high = (int(_ordered(np.array([end], kinds[name]))[0]) for end in (found[name].low, found[name].high))
        open_ranks[_Interval(name, low, high, 0, found[name].n)] = sorted(set(ranks))
    values: dict[str, dict[int, Any]] = {name: {} for name in wanted}
    while open_ranks:
        search = _Search.of(open_ranks)
        parts = _counted(engine, tasks, search)
        narrower: dict[_Interval, list[int]] = {}
        for (interval, ranks), counts in zip(open_ranks.items(), parts, strict=True):
            if interval.n <= search.collected:
                inside = np.sort(counts)
                for rank in ranks:
                    values[interval.name][rank] = _unordered(inside[[rank - interval.below]], kinds[interval.name])[0]
                continue
            width = search.width(interval)
            first = interval.below + np.append(0, np.cumsum(counts))
            for rank in ranks:
                bin_ = int(np.searchsorted(first, rank, side="right")) - 1
                low = interval.low + bin_ * width
                high = min(low + width - 1, interval.high)
                if low == high:
                    values[interval.name][rank] = _unordered(np.array([low], np.uint64), kinds[interval.name])[0]
                else:
                    inner = _Interval(interval.name, low, high, int(first[bin_]), int(counts[bin_]))
                    narrower.setdefault(inner, []).append(rank)
        open_ranks = narrower
    return {name: np.array([values[name][rank] for rank in ranks]) for name, ranks in wanted.items()}


def _counted(engine: Executor, tasks: Sequence[BlockTask], search: _Search) -> list[NDArray[Any]]:
    """`count_in_block` of all blocks together."""
    values: list[list[NDArray[Any]]] = [[] for _ in search.intervals]
    for part in results(engine, count_in_block, [_asking(task, search) for task in tasks]):
        for interval, found, more in zip(search.intervals, values, part, strict=True):
            found[:] = [*found, more] if interval.n <= search.collected else [sum(found, more.astype(np.int64))]
    return [np.concatenate(found) for found in values]


def count_in_block(task: BlockTask) -> list[NDArray[Any]]:
    """For each interval the number of values in each of its bins, or the values themselves if they are few in all."""
    search: _Search = task.ask
    values = {
        name: _ordered(some) for name, some in _values(task, tuple({one.name for one in search.intervals})).items()
    }
    found: list[NDArray[Any]] = []
    for interval in search.intervals:
        some = values[interval.name]
        inside = some[(some >= np.uint64(interval.low)) & (some <= np.uint64(interval.high))]
        if interval.n <= search.collected:
            found.append(inside)
            continue
        bins = (inside - np.uint64(interval.low)) // np.uint64(search.width(interval))
        found.append(np.bincount(bins.astype(np.int64), minlength=search.n_bins).astype(np.uint32))
    return found


def quantiles(
    engine: Executor, tasks: Sequence[BlockTask], found: dict[str, Range], wanted: dict[str, Sequence[float]]
) -> dict[str, list[float]]:
    """Quantiles of the values of each name, interpolated between two values as numpy does; see `order_statistics`."""
    ranks: dict[str, Sequence[int]] = {}
    for name, shares in wanted.items():
        at = [share * (found[name].n - 1) for share in shares]
        ranks[name] = [rank for place in at for rank in (math.floor(place), math.ceil(place))]
    values = order_statistics(engine, tasks, found, ranks)
    return {
        name: [
            float(low + (high - low) * (share * (found[name].n - 1) % 1.0))
            for share, low, high in zip(shares, values[name][::2], values[name][1::2], strict=True)
        ]
        for name, shares in wanted.items()
    }


def _ordered(values: NDArray[Any]) -> NDArray[np.uint64]:
    """Bits that are in the order of the values, int64 or float64."""
    top = np.uint64(1 << 63)
    if values.dtype.kind == "i":
        return values.astype(np.int64).view(np.uint64) ^ top
    bits = (values + 0.0).view(np.uint64)  # without a negative zero
    return np.where(bits & top, ~bits, bits | top)


def _unordered(bits: NDArray[np.uint64], dtype: str) -> NDArray[Any]:
    top = np.uint64(1 << 63)
    if dtype == "i8":
        return (bits ^ top).view(np.int64)
    return np.where(bits & top, bits ^ top, ~bits).view(np.float64)


# ---- counts


def window_counts(
    engine: Executor, tasks: Sequence[BlockTask], windows: Sequence[tuple[Any, Any]], n_classes: int
) -> NDArray[np.int64]:
    """How many known labels of each class have times within each window, both ends included: (n_windows, n_classes)."""
    asked = [_asking(task, (tuple(windows), n_classes)) for task in tasks]
    total = np.zeros((len(windows), n_classes), np.int64)
    for part in results(engine, window_counts_of_block, asked):
        total += part
    return total


def missing_counts(engine: Executor, tasks: Sequence[BlockTask]) -> NDArray[np.int64]:
    """The number of rows of each block whose label is missing, or means that it is missing."""
    return np.array(list(results(engine, missing_in_block, tasks)))


def missing_in_block(task: BlockTask) -> int:
    """`missing_counts` of one block."""
    edges = task.table.read(task.block, with_ids=False, with_features=False)
    return int(np.count_nonzero(task.labels.codes_of(edges) < 0))


def window_counts_of_block(task: BlockTask) -> NDArray[np.int64]:
    """`window_counts` of one block."""
    assert task.clock is not None
    windows, n_classes = task.ask
    edges = task.table.read(task.block, with_ids=False, with_features=False)
    codes, ticks = task.labels.codes_of(edges), task.clock.ticks(edges)
    inside = [codes[(codes >= 0) & (ticks >= low) & (ticks <= high)] for low, high in windows]
    return np.array([np.bincount(some, minlength=n_classes) for some in inside]).reshape(len(windows), n_classes)


def category_counts(
    engine: Executor, tasks: Sequence[BlockTask], names: Sequence[str], *, only_known: bool
) -> dict[str, Counter[Any]]:
    """How often each category of some features occurs, in all edges or in those with a known label."""
    asked = [_asking(task, (tuple(names), only_known)) for task in tasks]
    total: dict[str, Counter[Any]] = {name: Counter() for name in names}
    for part in results(engine, category_counts_of_block, asked):
        for name in names:
            total[name].update(part[name])
            if len(total[name]) > 2 * MOST_WORDS:
                total[name] = Counter(dict(total[name].most_common(MOST_WORDS)))
    return total


def category_counts_of_block(task: BlockTask) -> dict[str, Counter[Any]]:
    """`category_counts` of one block."""
    names, only_known = task.ask
    edges = task.table.read(task.block, with_ids=False)
    rows = task.labels.codes_of(edges) >= 0 if only_known else np.ones(len(edges), bool)
    found = {}
    for name in names:
        x = raw_values(edges, name)[rows]
        times = np.bincount(x[np.isfinite(x)].astype(np.int64))
        every = edges.feature_categories.get(name, ())
        common = np.argsort(-times, kind="stable")[:MOST_WORDS]
        found[name] = Counter({every[code]: int(times[code]) for code in common if times[code]})
    return found


def _asking(task: BlockTask, ask: Any) -> BlockTask:
    return BlockTask(task.table, task.block, task.labels, task.clock, ask)
