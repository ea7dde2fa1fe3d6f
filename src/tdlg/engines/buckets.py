"""Buckets: the edges of a table as records by ranges of keys, in split files, and what is computed of a bucket.

Of a bucket are computed: the gaps of its nodes, the columns of one match, the bursts of one kind of keys. Tasks are frozen
dataclasses of plain data, which an engine sends to where they are run.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tdlg.edges import TemporalEdges
from tdlg.engines.executors import Callback, run_all
from tdlg.engines.files import Records, SplitFile, exists, read_split, write_split
from tdlg.engines.table import (
    Block,
    LabelCodes,
    ScannedEdges,
    TableClock,
    bucket_of,
    joint_keys,
    pair_keys,
    reversed_pairs,
)
from tdlg.exceptions import ReadError
from tdlg.propagate.bursts import surprises_of_key
from tdlg.propagate.match import BLOCK, Keyed, Labels, MatchSums
from tdlg.propagate.plan import (
    LARGEST_SINGLE,
    ColumnPlan,
    Floats,
    OwnColumn,
    Positions,
    category_places,
    gaps_of_nodes,
    levels,
    raw_values,
    to_sum,
    usual_gap,
)
from tdlg.sampling.index import positions_of
from tdlg.tables.rows import Keys, Sample, key_limit, text_keys

NEVER_KNOWN = np.iinfo(np.uint32).max  # a label that is never known, where times take 4 bytes


# ---- records of edges


@dataclass(frozen=True)
class RecordForm:
    """What a record of an edge has.

    It has the row (from 0), the key, the time (whole ticks within 32 bits as steps from the first one), the class (-1 if the
    label is missing), when the label became known if some are `late`, and the features: numbers as they are, categories as
    positions among those that have an indicator.
    """

    n_rows: int
    clock: TableClock
    late: bool
    n_classes: int
    own: tuple[OwnColumn, ...] = ()

    @property
    def is_short(self) -> bool:
        """Whether times take 4 bytes."""
        return self.clock.dtype == "i8" and (self.clock.high - self.clock.low) // self.clock.step < NEVER_KNOWN - 1

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the records."""
        time = "<u4" if self.is_short else f"<{self.clock.dtype}"
        fields = [("row", "<u4" if self.n_rows <= NEVER_KNOWN else "<u8"), ("key", "<u8"), ("tick", time)]
        fields += [("label", "<i1" if self.n_classes <= 127 else "<i2")]
        fields += [("known", time)] if self.late else []
        return np.dtype(fields + [(f"own{k}", "<i1" if c.categories else "<f8") for k, c in enumerate(self.own)])

    def times(self, stored: NDArray[Any]) -> NDArray[Any]:
        """Stored times as ticks; short ones are counted from the first time."""
        return stored.astype(np.int64) * self.clock.step if self.is_short else stored

    def stored(self, ticks: NDArray[Any]) -> NDArray[Any]:
        """Ticks as they are stored; times far ahead are shortened."""
        if not self.is_short:
            return ticks
        low, step = int(self.clock.low), int(self.clock.step)
        far = low + NEVER_KNOWN * step
        if ticks.size and (ticks.min() < low or ticks.max() > far):
            ticks = np.clip(ticks, low, min(far, np.iinfo(np.int64).max))  # first: differences may overflow
        steps = ticks - low if step == 1 else -(-(ticks - low) // step)  # rounded up
        return steps.astype(np.uint32)

    def fill(self, edges: TemporalEdges, labels: LabelCodes, first_row: int) -> Records:
        """The records of edges, without keys."""
        records = np.zeros(len(edges), self.dtype)
        records["row"] = np.arange(first_row, first_row + len(edges))
        records["label"] = labels.codes_of(edges)
        records["tick"] = self.stored(self.clock.ticks(edges))
        if self.late:
            known = self.clock.known(edges.with_label(np.where(records["label"] >= 0, records["label"], np.nan)))
            records["known"] = self.stored(known if known is not None else self.clock.ticks(edges))
        for k, column in enumerate(self.own):
            records[f"own{k}"] = category_places(edges, column) if column.categories else raw_values(edges, column.name)
        return records


@dataclass(frozen=True)
class Buckets:
    """Where the records of all edges are.

    For each block of the table and each kind of key there is one split file, whose destinations are the buckets.

    kinds : the kinds of keys, "src", "dst", "pair", and for features with many categories "category[x]", "src+category[x]"
    and "dst+category[x]"; at_once : how many buckets are worked on at once in a process, None for as many as it has threads;
    alone : the numbers of those that are so large that nothing else may run beside them.
    """

    folder: str
    form: RecordForm
    kinds: tuple[str, ...]
    n_buckets: int
    n_blocks: int
    at_once: int | None = None
    alone: frozenset[int] = frozenset()

    def path(self, kind: str, block: int) -> str:
        """The file of a kind of keys and a block."""
        return f"{self.folder}/bucket-{self.kinds.index(kind)}-{block:06d}"

    def paths(self, kind: str) -> list[str]:
        """The files of a kind of keys, in the order of the rows."""
        return [self.path(kind, block) for block in range(self.n_blocks)]

    def records(self, kind: str, bucket: int) -> Records:
        """The records of a bucket, in the order of the rows."""
        return read_split(self.paths(kind), range(bucket, bucket + 1))


@dataclass(frozen=True)
class PartitionTask:
    """Sort the rows of a block, which has this number among all blocks, into buckets."""

    table: ScannedEdges
    block: Block
    number: int
    labels: LabelCodes
    buckets: Buckets


def partition(task: PartitionTask) -> None:
    """Write the bucket files of a block. Files that are there already stay."""
    buckets = task.buckets
    kinds = [kind for kind in buckets.kinds if not exists(buckets.path(kind, task.number))]
    if not kinds:
        return
    edges = task.table.read(task.block)
    records = buckets.form.fill(edges, task.labels, task.block.start)
    src, dst = (np.asarray(ids, np.int64).view(np.uint64) for ids in (edges.src, edges.dst))
    n = buckets.n_buckets
    for kind in kinds:
        records["key"] = _keys_of_kind(kind, src, dst, edges)
        write_split(buckets.path(kind, task.number), records, bucket_of(records["key"], n), n)


def map_buckets(
    engine: Executor, function: Callable[[Any], Any], tasks: Sequence[Any], callback: Callback | None = None
) -> list[Any]:
    """Run the function on tasks of buckets, as many at once as fit and large ones alone; give the results in order."""
    large = [k for k, task in enumerate(tasks) if task.bucket in task.buckets.alone]
    groups = [[k for k, task in enumerate(tasks) if task.bucket not in task.buckets.alone], *([k] for k in large)]
    at_once = tasks[0].buckets.at_once if tasks else None
    found: dict[int, Any] = {}
    for group in groups:
        n_done = len(found)
        of_all = None if callback is None else lambda done, _, n=n_done: callback(n + done, len(tasks))
        results = run_all(engine, function, [tasks[k] for k in group], of_all, at_once=at_once)
        found |= zip(group, results, strict=True)
    return [found[k] for k in range(len(tasks))]


def bucket_sizes(buckets: Buckets, kind: str) -> NDArray[np.int64]:
    """The number of records in each bucket of a kind."""
    sizes = np.zeros(buckets.n_buckets, np.int64)
    for path in buckets.paths(kind):
        sizes += SplitFile.of(path).counts
    return sizes


def _keys_of_kind(kind: str, src: Keys, dst: Keys, edges: TemporalEdges) -> Keys:
    import polars as pl

    if kind in ("src", "dst", "pair"):
        return pair_keys(src, dst) if kind == "pair" else {"src": src, "dst": dst}[kind]
    end, name = kind.partition("category[")[::2]
    name = name.removesuffix("]")
    every = [str(category) for category in edges.feature_categories.get(name, ())]
    of_code = text_keys(pl.Series([*every, None], dtype=pl.String))
    values = raw_values(edges, name)
    category = of_code[np.where(np.isfinite(values), values, len(every)).astype(np.int64)]
    return joint_keys({"src+": src, "dst+": dst}[end], category) if end else category


# ---- nodes


@dataclass(frozen=True)
class NodesTask:
    """The sources or destinations of a bucket; of all edges, or only of those with a known label."""

    buckets: Buckets
    bucket: int
    kind: str = "src"
    only_known: bool = False


def usual_gap_of_nodes(engine: Executor, buckets: Buckets, *, only_known: bool) -> float:
    """The usual time between two edges of a node, in ticks, from the nodes that `choose_scales` looks at in memory."""
    last = bucket_of(np.array([key_limit(buckets.form.n_rows) - 1], np.uint64), buckets.n_buckets)[0]
    gap = math.inf
    for kind in ("src", "dst"):
        tasks = [NodesTask(buckets, bucket, kind, only_known) for bucket in range(last + 1)]
        gap = min(gap, usual_gap(np.concatenate(map_buckets(engine, gaps_in_bucket, tasks))))
    return gap


def gaps_in_bucket(task: NodesTask) -> Floats:
    """The times between consecutive edges of each node of a bucket whose key is below the limit."""
    records = task.buckets.records(task.kind, task.bucket)
    records = records[records["key"] <= np.uint64(key_limit(task.buckets.form.n_rows) - 1)]
    if task.only_known:
        records = records[records["label"] >= 0]
    return gaps_of_nodes(task.buckets.form.times(records["tick"]), records["key"])


def nodes_are_shared(engine: Executor, buckets: Buckets) -> bool:
    """Whether some id is the source of an edge and the destination of an edge."""
    return any(map_buckets(engine, has_shared_nodes, [NodesTask(buckets, k) for k in range(buckets.n_buckets)]))


def has_shared_nodes(task: NodesTask) -> bool:
    """`nodes_are_shared` within a bucket."""
    src, dst = (np.unique(task.buckets.records(kind, task.bucket)["key"]) for kind in ("src", "dst"))
    return bool(np.isin(src, dst, assume_unique=True).any())


# ---- columns


@dataclass(frozen=True)
class BucketPlan:
    """Which columns are made of which rows.

    plan, unit : what the columns are, and the unit of the ticks; samples : the edges to learn from, in several groups;
    seed : for sampling; dtype : type of the columns in the files, "f4" or "f8".
    """

    plan: ColumnPlan
    unit: str | None
    samples: tuple[Sample, ...] = ()
    seed: int = 0
    dtype: str = "f4"

    @property
    def matches(self) -> tuple[str, ...]:
        """The matches, in order."""
        return self.plan.all_matches

    def n_columns(self, match: str) -> int:
        """The number of columns of a match; the first match also has the edges' own features."""
        n_own = len(self.plan.own_columns) if match == self.matches[0] else 0
        return len(self.plan.of_match(match)) + n_own

    def record(self, match: str, form: RecordForm) -> np.dtype[Any]:
        """Type of the records with the columns of a match."""
        fields: list[Any] = [("row", form.dtype["row"])]
        if match == self.matches[0]:
            fields += [("label", form.dtype["label"]), ("tick", form.dtype["tick"])]
        return np.dtype([*fields, ("columns", f"<{self.dtype}", (self.n_columns(match),))])


@dataclass(frozen=True)
class ColumnFiles:
    """Where columns go: for each match and bucket one split file.

    Its destinations are ranges of rows to score, then the samples. `bounds` are the first row of each range and, at the
    end, the number of rows.
    """

    folder: str
    bounds: tuple[int, ...]

    def path(self, plan: BucketPlan, match: str, bucket: int) -> str:
        """The file of a match and a bucket."""
        return f"{self.folder}/columns-{plan.matches.index(match)}-{bucket:06d}"


@dataclass(frozen=True)
class ColumnsTask:
    """Make the columns of one match for the edges of one bucket."""

    plan: BucketPlan
    buckets: Buckets
    files: ColumnFiles
    match: str
    bucket: int


def make_columns(task: ColumnsTask) -> None:
    """Write the columns of a bucket. A file that is there already stays."""
    path = task.files.path(task.plan, task.match, task.bucket)
    if exists(path):
        return
    plan, form = task.plan.plan, task.buckets.form
    kinds = plan.kinds(task.match)
    rows = task.buckets.records(kinds[0], task.bucket)
    cols = rows if kinds[0] == kinds[1] else task.buckets.records(kinds[1], task.bucket)
    chosen = _chosen_rows(rows, task)
    at = np.unique(np.concatenate([some for _, some, _ in chosen]))
    compares, is_first = plan.compares(task.match), task.match == task.plan.matches[0]
    mine, values = _own_numbers(rows, plan.own if compares or is_first else ()), np.ones((len(cols), 1))
    if compares:
        theirs = mine if rows is cols else _own_numbers(cols, plan.own)
        values = np.hstack([values, to_sum(theirs, plan.own)])
    known = np.flatnonzero(cols["label"] >= 0)
    targets = plan.class_targets[cols["label"][known]]
    labels = Labels(
        known,
        np.hstack([np.ones((len(known), 1)), targets]),
        plan.is_rare(targets),
        form.times(cols["known"][known]) if form.late and plan.past_only else None,
    )
    keyed = _keyed(task.match, form, rows, cols, at)
    groups = [
        (np.searchsorted(at, some), None if before is None else form.times(np.array([before]))[0])
        for before, some, _ in chosen
    ]
    of_edges = levels(mine, plan.own if compares else ()), np.arange(len(cols))
    sums = MatchSums(plan, task.match, task.plan.unit, keyed, values, labels, groups, *of_edges)
    out = np.zeros(sum(len(some) for _, some, _ in chosen), task.plan.record(task.match, form))
    n_columns, start = len(plan.of_match(task.match)), 0
    for group, (_, some, _) in enumerate(chosen):
        for first in range(0, len(some), BLOCK):
            block = some[first : first + BLOCK]
            part = out[start : start + len(block)]
            start += len(block)
            part["row"] = rows["row"][block]
            if "label" in (out.dtype.names or ()):
                part["label"], part["tick"] = rows["label"][block], rows["tick"][block]
            lines = np.empty((n_columns, len(block)))
            sums.write(group, mine[block], 0, lines, slice(first, first + BLOCK))
            part["columns"][:, :n_columns] = np.clip(lines.T, -LARGEST_SINGLE, LARGEST_SINGLE)
            if is_first:
                part["columns"][:, n_columns:] = plan.compressed(mine[block])
    n_places = len(task.files.bounds) - 1 + len(task.plan.samples)
    write_split(path, out, np.concatenate([places for _, _, places in chosen]), n_places)


def _own_numbers(rows: Records, columns: Sequence[OwnColumn]) -> Floats:
    """The features as numbers, (n_rows, sum of widths)."""
    parts = [column.numbers(rows[f"own{k}"]) for k, column in enumerate(columns)]
    return np.hstack([np.empty((len(rows), 0)), *parts])


def _keyed(match: str, form: RecordForm, rows: Records, cols: Records, at: Positions) -> Keyed:
    """Some rows among all columns of a bucket."""
    from tdlg._kernels.layout import factorise_integers

    col_keys, row_keys = (np.ascontiguousarray(records["key"]) for records in (cols, rows))
    same = rows is cols and match != "reversed"
    row_keys = reversed_pairs(row_keys) if match == "reversed" else row_keys
    keys_of_rows = row_keys.view(np.int64)[: 0 if same else None]
    keys, col_codes, row_codes = factorise_integers(col_keys.view(np.int64), keys_of_rows)
    own = at if rows is cols else positions_of(rows["row"][at], cols["row"])
    row_ticks, col_ticks = (np.ascontiguousarray(form.times(records["tick"])) for records in (rows, cols))
    is_square = same and len(at) == len(cols)
    row_codes = col_codes if same else row_codes
    return Keyed(row_codes[at], row_ticks[at], col_codes, col_ticks, len(keys), None if is_square else own)


def read_columns(
    plan: BucketPlan, buckets: Buckets, files: ColumnFiles, destinations: range
) -> tuple[Records, NDArray[np.floating[Any]]]:
    """The rows of some destinations in ascending order, and their columns, (n_rows, n_columns).

    The rows are records of the first match: row, label and time.
    """
    first, at = np.empty(0, np.void), 0
    columns = np.empty((0, sum(map(plan.n_columns, plan.matches))), plan.dtype)
    for match in plan.matches:
        paths = [files.path(plan, match, bucket) for bucket in range(buckets.n_buckets)]
        part = read_split(paths, destinations)
        order, n_match = np.argsort(part["row"], kind="stable"), len(plan.plan.of_match(match))
        if match == plan.matches[0]:
            columns, names = np.empty((len(part), columns.shape[1]), plan.dtype), (part.dtype.names or ())[:-1]
            first = np.empty(len(part), [(name, part.dtype[name]) for name in names])
            for name in names:
                first[name] = part[name][order]
            columns[:, columns.shape[1] - (plan.n_columns(match) - n_match) :] = part["columns"][order, n_match:]
        elif not np.array_equal(part["row"][order], first["row"]):
            raise ReadError(
                f"{files.folder}: the column files of {plan.matches[0]!r} and {match!r} are about different rows. "
                "Remove the folder and run again."
            )
        columns[:, at : at + n_match] = part["columns"][order, :n_match]
        at += n_match
    return first, columns


def _chosen_rows(rows: Records, task: ColumnsTask) -> list[tuple[Any, Positions, Positions]]:
    """Which rows get columns: for each group when labels had to be known, the positions, and the destinations."""
    bounds = np.array(task.files.bounds)
    row = rows["row"].astype(np.int64)
    at = np.flatnonzero(rows["label"] < 0)
    chosen: list[tuple[Any, Positions, Positions]] = [(None, at, np.searchsorted(bounds, row[at], side="right") - 1)]
    for k, sample in enumerate(task.plan.samples):
        stored = task.buckets.form.stored
        first, last, before = (None if tick is None else stored(np.array([tick]))[0] for tick in sample[:3])
        sample = Sample(first, last, before, sample.shares)  # on the clock of the records
        at = sample.rows(rows["tick"], rows["label"], task.plan.seed + k, row)
        chosen.append((sample.before, at, np.full(len(at), len(bounds) - 1 + k)))
    return chosen


# ---- bursts


@dataclass(frozen=True)
class RowValues:
    """Where the surprises of rows go, sorted back by blocks of rows.

    Each of `n_files` tasks writes one split file into the folder, whose destinations are the blocks of the table: `block`
    rows each, but the last one.
    """

    folder: str
    n_rows: int
    block: int
    n_files: int

    def path(self, number: int) -> str:
        """The file of a task."""
        return f"{self.folder}/values-{number:06d}"

    def write(self, number: int, rows: NDArray[Any], values: Floats) -> None:
        """Write the values that a task computed."""
        records = np.empty(len(rows), [("row", rows.dtype.str), ("value", "<f8")])
        records["row"], records["value"] = rows, values
        n_blocks = -(-self.n_rows // self.block)
        write_split(self.path(number), records, rows // rows.dtype.type(self.block), n_blocks)

    def largest(self, first_row: int, n: int) -> Floats:
        """The largest value of each of the n rows of a block."""
        values = np.zeros(n)
        number = first_row // self.block
        records = read_split([self.path(k) for k in range(self.n_files)], range(number, number + 1))
        np.maximum.at(values, records["row"].astype(np.int64) - first_row, records["value"])
        return values


@dataclass(frozen=True)
class BurstsTask:
    """Compute the surprises of one kind of keys and one bucket, with decays of these widths in ticks; `number`: its file."""

    buckets: Buckets
    kind: str
    bucket: int
    values: RowValues
    number: int
    fast: float
    slow: float


def find_bursts(task: BurstsTask) -> None:
    """Write the surprises of a bucket. A file that is there already stays."""
    from tdlg._kernels.layout import factorise_integers, stable_argsort

    if exists(task.values.path(task.number)):
        return
    form = task.buckets.form
    records = task.buckets.records(task.kind, task.bucket)
    keys = np.ascontiguousarray(records["key"]).view(np.int64)
    codes = factorise_integers(keys, keys[:0])[1]
    ticks = np.ascontiguousarray(form.times(records["tick"]))
    start = form.times(form.stored(np.array([form.clock.low])))[0]
    surprises = surprises_of_key(codes, ticks, stable_argsort(ticks), start, task.fast, task.slow)
    task.values.write(task.number, records["row"], surprises)
