"""Summary: what one pass over a table in blocks gives. What else is decided about a file depends on it alone.

Summaries of blocks can be merged. The values of labels and the clock are exact. The setting, cuts in time, medians and
quartiles are computed from the kept rows, at most about two million. `tdlg.tables.rows` keeps the same ones of a table in
memory, so that both find the same; except where words mean a missing label, which count as labels here.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tdlg.clock import LAST_TICK, finest, rounded_up
from tdlg.edges import TemporalEdges
from tdlg.engines.executors import run_all, workers_of
from tdlg.engines.table import Block, ScannedEdges
from tdlg.exceptions import ReadError
from tdlg.tables.rows import KEPT, kept_rows, kept_shares

if TYPE_CHECKING:
    import polars as pl

BLOCKS_AT_ONCE = 256  # blocks whose results are held at once, at most
MOST_VALUES = 20_000  # different labels before they are grouped into classes


@dataclass(frozen=True)
class LabelCodes:
    """Which class each value of the label column means, from 0; -1 if the value means that the label is missing."""

    values: tuple[Any, ...] = ()
    codes: tuple[int, ...] = ()

    def codes_of(self, edges: TemporalEdges) -> NDArray[np.int16]:
        """The class of each edge; -1 if its label is missing."""
        found = np.full(len(edges), -1, np.int16)
        if edges.label is None or not self.values:
            return found
        known = edges.labelled
        if edges.label.dtype.kind == "O":
            code_of = dict(zip(self.values, self.codes, strict=True))
            found[known] = np.fromiter((code_of[value] for value in edges.label[known]), np.int16)
            return found
        values = np.array(self.values)
        order = np.argsort(values)
        found[known] = np.array(self.codes, np.int16)[order][np.searchsorted(values[order], edges.label[known])]
        return found


@dataclass(frozen=True)
class Clock:
    """On which all times of a table are counted.

    unit : the unit of the ticks, None for numbers; dtype : their type, "i8" or "f8"; low, high : the first and the last
    time, in ticks; step : ticks that divide the distances of all times and times of labels from `low`, such as 1000 for
    whole seconds on a clock of milliseconds; 1 for floats, and 0 as long as there is only one time.
    """

    unit: str | None
    dtype: str
    low: Any
    high: Any
    step: int = 1

    @classmethod
    def of(cls, edges: TemporalEdges) -> Clock:
        """The clock of edges and of their labels."""
        ticks = edges.ticks
        low, step = ticks.min().item(), 1
        if ticks.dtype.kind == "i":
            late = edges.label_ticks
            known = ticks[:0] if late is None else late[edges.labelled & (late < LAST_TICK)]
            step = math.gcd(*(int(np.gcd.reduce(some - low)) for some in (ticks, known)))
        return cls(edges.time_unit, ticks.dtype.str[1:], low, ticks.max().item(), step)

    def merged(self, other: Clock) -> Clock:
        """The clock of the times of both, which are either all datetimes or all numbers."""
        unit, dtype = finest(self.unit, other.unit), max(self.dtype, other.dtype, key=("i8", "f8").index)
        both = [(np.array([clock.low, clock.high]), clock.unit) for clock in (self, other)]
        ends = [rounded_up(*of_clock, unit, np.dtype(dtype)).tolist() for of_clock in both]
        step = 1
        if dtype == "i8" and self.unit == other.unit:
            step = math.gcd(self.step, other.step, self.low - other.low)
        return Clock(unit, dtype, min(low for low, _ in ends), max(high for _, high in ends), step)

    def ticks(self, edges: TemporalEdges) -> NDArray[Any]:
        """The times of edges on this clock."""
        return rounded_up(edges.ticks, edges.time_unit, self.unit, np.dtype(self.dtype))

    def known(self, edges: TemporalEdges) -> NDArray[Any] | None:
        """When the labels of edges became known, on this clock and never before the edge; None if at once."""
        late = edges.label_ticks
        if late is None:
            return None
        return np.maximum(rounded_up(late, edges.time_unit, self.unit, np.dtype(self.dtype)), self.ticks(edges))


class Summary(NamedTuple):
    """What is known of a table, or of some of its blocks.

    clock : the clock of all times; labels : how often each value of the label column occurs; late : whether labels have
    times at which they became known; rows, values : the numbers of the kept rows, and their times, labels and features as
    the file has them; shares : the share of the rows that was kept, of those with a label and of those without.
    """

    clock: Clock
    labels: Counter[Any]
    late: bool
    rows: NDArray[np.int64]
    values: pl.DataFrame
    shares: tuple[float, float]

    def merged(self, other: Summary) -> Summary:
        """The summary of the blocks of both."""
        return self._replace(
            clock=self.clock.merged(other.clock),
            labels=self.labels + other.labels,
            rows=np.append(self.rows, other.rows),
            values=self.values.vstack(other.values),
        )

    def kept(self, table: ScannedEdges, *features: str) -> TemporalEdges:
        """The kept rows as edges with some of their features, all between the same two nodes."""
        categories = tuple(name for name in table.categories if name in features)
        few = replace(table, features=features, categories=categories)
        return few.read(Block(0, len(self.rows)), with_ids=False, frame=self.values)


class BlockTask(NamedTuple):
    """A block of a table to look at; shares : see `Summary`."""

    table: ScannedEdges
    block: Block
    shares: tuple[float, float]


def summarise(engine: Executor, table: ScannedEdges, blocks: Sequence[Block]) -> Summary:
    """Read all blocks once; of a large table, the missing labels are counted before."""
    shares = (1.0, 1.0)
    if table.n_rows > KEPT:
        n_known = run_all(engine, ScannedEdges.n_known, [table])[0]
        shares = kept_shares(n_known, table.n_rows - n_known)
    tasks = [BlockTask(table, block, shares) for block in blocks]
    at_once = min(8 * workers_of(engine).n_threads, BLOCKS_AT_ONCE)
    total: Summary | None = None
    for start in range(0, len(tasks), at_once):
        for part in run_all(engine, summarise_block, tasks[start : start + at_once]):
            if total is not None and (total.clock.unit is None) != (part.clock.unit is None):
                raise ReadError(
                    f"{table.path}: some of the times are dates and others are numbers. Write all in the same way."
                )
            total = part if total is None else total.merged(part)
            _check_values(table, total.labels)
    assert total is not None
    return total._replace(clock=replace(total.clock, step=total.clock.step or 1))


def summarise_block(task: BlockTask) -> Summary:
    """The summary of one block."""
    table = task.table
    frame = table.frame(task.block, table.value_names)
    edges = table.read(task.block, with_ids=False, frame=frame)
    counts: Counter[Any] = Counter()
    if edges.label is not None and edges.label.dtype.kind == "O":
        counts.update(edges.label[edges.labelled].tolist())
    elif edges.label is not None:
        values, times = np.unique(edges.label[edges.labelled], return_counts=True)
        counts.update(dict(zip(values.tolist(), times.tolist(), strict=True)))
    _check_values(table, counts)
    late = edges.label is not None and ("label_time" in table.roles or table.label_delay is not None)
    rows = kept_rows(edges.labelled, task.shares, task.block.start)
    kept = frame if len(rows) == len(frame) else frame[rows]
    return Summary(Clock.of(edges), counts, late, rows + task.block.start, kept, task.shares)


def _check_values(table: ScannedEdges, values: Counter[Any]) -> None:
    if len(values) > MOST_VALUES:
        raise ReadError(
            f"{table.path}: the column {table.roles['label']!r} has more than {MOST_VALUES:,} different values, too many "
            "for classes. Write a column with a few classes to the file."
        )
