"""What is computed of a bucket: gaps of its nodes, the columns of one match, the bursts of one kind of keys.

Tasks are frozen dataclasses of plain data, which an engine sends to where they are run.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tdlg.engines.buckets import Buckets, RecordForm, Records, bucket_sizes, map_buckets, read_split, write_split
from tdlg.engines.keys import reversed_pairs
from tdlg.engines.paths import exists
from tdlg.exceptions import ReadError
from tdlg.propagate.bursts import surprises_of_key
from tdlg.propagate.columns import LARGEST
from tdlg.propagate.match import BLOCK, Keyed, Labels, MatchSums
from tdlg.propagate.plan import ColumnPlan, OwnColumn, gaps_of_nodes, levels, to_sum, usual_gap
from tdlg.tables.rows import Sample

Floats = NDArray[np.float64]
Positions = NDArray[np.int64]

ENOUGH = 2_000_000  # records from which the usual gap of nodes is computed; with fewer, all are used


# ---- nodes


@dataclass(frozen=True)
class NodesTask:
    """The sources or destinations ("src", "dst") of a bucket; of all edges, or only of those with a known label."""

    buckets: Buckets
    bucket: int
    kind: str = "src"
    only_known: bool = False


def usual_gap_of_nodes(engine: Executor, buckets: Buckets, *, only_known: bool) -> float:
    """The usual time between two edges of a node, in ticks; see `tdlg.propagate.plan`.

    Of many edges, those of the first buckets are used, which have the nodes of some ranges of keys with all their edges.
    """
    gaps = []
    for kind in ("src", "dst"):
        n_before = np.append(0, np.cumsum(bucket_sizes(buckets, kind)))
        n = int(np.searchsorted(n_before, ENOUGH, side="left"))
        tasks = [NodesTask(buckets, bucket, kind, only_known) for bucket in range(min(max(n, 1), buckets.n_buckets))]
        gaps.append(usual_gap(np.concatenate(map_buckets(engine, gaps_in_bucket, tasks))))
    return min(gaps, default=math.inf)


def gaps_in_bucket(task: NodesTask) -> Floats:
    """The times between consecutive edges of each node of a bucket."""
    records = read_split(task.buckets.paths(task.kind), range(task.bucket, task.bucket + 1))
    if task.only_known:
        records = records[records["label"] >= 0]
    return gaps_of_nodes(task.buckets.form.times(records["tick"]), records["key"])


def nodes_are_shared(engine: Executor, buckets: Buckets) -> bool:
    """Whether some id is the source of an edge and the destination of an edge."""
    return any(map_buckets(engine, has_shared_nodes, [NodesTask(buckets, k) for k in range(buckets.n_buckets)]))


def has_shared_nodes(task: NodesTask) -> bool:
    """`nodes_are_shared` within a bucket."""
    one = range(task.bucket, task.bucket + 1)
    src, dst = (np.unique(read_split(task.buckets.paths(kind), one)["key"]) for kind in ("src", "dst"))
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
    one = range(task.bucket, task.bucket + 1)
    rows = read_split(task.buckets.paths(kinds[0]), one)
    cols = rows if kinds[0] == kinds[1] else read_split(task.buckets.paths(kinds[1]), one)
    chosen = _chosen(rows, task)
    at = np.unique(np.concatenate([some for _, some, _ in chosen]))
    mine = _own(rows, plan.own) if plan.compares(task.match) or task.match == task.plan.matches[0] else _own(rows, ())
    values = np.ones((len(cols), 1))
    if plan.compares(task.match):
        values = np.hstack([values, to_sum(mine, plan.own)])  # of rows, which are the columns
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
    of_edges = levels(mine, plan.own if plan.compares(task.match) else ()), np.arange(len(cols))
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
            part["columns"][:, :n_columns] = np.clip(lines.T, -LARGEST, LARGEST)
            if task.match == task.plan.matches[0]:
                part["columns"][:, n_columns:] = plan.compressed(mine[block])
    n_places = len(task.files.bounds) - 1 + len(task.plan.samples)
    write_split(path, out, np.concatenate([places for _, _, places in chosen]), n_places)


def _keyed(match: str, form: RecordForm, rows: Records, cols: Records, at: Positions) -> Keyed:
    """Some rows among all columns of a bucket."""
    from tdlg._kernels.ids import factorise_integers

    col_keys, row_keys = (np.ascontiguousarray(records["key"]) for records in (cols, rows))
    same = rows is cols and match != "reversed"
    row_keys = reversed_pairs(row_keys) if match == "reversed" else row_keys
    keys_of_rows = row_keys.view(np.int64)[: 0 if same else None]
    keys, col_codes, row_codes = factorise_integers(col_keys.view(np.int64), keys_of_rows)
    own = at if rows is cols else _own_columns(rows["row"][at], cols["row"])
    row_ticks, col_ticks = (np.ascontiguousarray(form.times(records["tick"])) for records in (rows, cols))
    is_square = same and len(at) == len(cols)
    row_codes = col_codes if same else row_codes
    return Keyed(row_codes[at], row_ticks[at], col_codes, col_ticks, len(keys), None if is_square else own)


def read_columns(plan: BucketPlan, buckets: Buckets, files: ColumnFiles, destinations: range) -> tuple[Records, Floats]:
    """The rows of some destinations in ascending order, and their columns, (n_rows, n_columns).

    The rows are records of the first match: row, label and time.
    """
    first: Records | None = None
    columns: Floats | None = None
    at = 0
    for match in plan.matches:
        paths = [files.path(plan, match, bucket) for bucket in range(buckets.n_buckets)]
        part = read_split(paths, destinations)
        order = np.argsort(part["row"], kind="stable")
        if first is None or columns is None:
            n_columns = sum(plan.n_columns(each) for each in plan.matches)
            columns = np.empty((len(part), n_columns))
            names = [name for name in part.dtype.names or () if name != "columns"]
            first = np.empty(len(part), [(name, part.dtype[name]) for name in names])
            for name in names:
                first[name] = part[name][order]
            n_match = len(plan.plan.of_match(match))
            columns[:, n_columns - (plan.n_columns(match) - n_match) :] = part["columns"][order, n_match:]
        else:
            n_match = plan.n_columns(match)
            if not np.array_equal(part["row"][order], first["row"]):
                raise ReadError(
                    f"{files.folder}: the column files of {plan.matches[0]!r} and {match!r} are about different rows. "
                    "Remove the folder and run again."
                )
        columns[:, at : at + n_match] = part["columns"][order, :n_match]
        at += n_match
    assert first is not None
    assert columns is not None
    return first, columns


def _chosen(rows: Records, task: ColumnsTask) -> list[tuple[Any, Positions, Positions]]:
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


def _own(rows: Records, columns: Sequence[OwnColumn]) -> Floats:
    """The features as numbers, (n_rows, sum of widths)."""
    parts = [column.numbers(rows[f"own{k}"]) for k, column in enumerate(columns)]
    return np.hstack([np.empty((len(rows), 0)), *parts])


def _own_columns(rows: NDArray[Any], cols: NDArray[Any]) -> Positions:
    """For each row number its position among other row numbers, or -1."""
    order = np.argsort(cols, kind="stable")
    at = np.searchsorted(cols, rows, sorter=order)
    found = order[np.minimum(at, len(cols) - 1)] if len(cols) else np.zeros(len(rows), np.int64)
    return np.where(cols[found] == rows, found, -1) if len(cols) else np.full(len(rows), -1)


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
    from tdlg._kernels.ids import factorise_integers
    from tdlg._kernels.layout import stable_argsort

    if exists(task.values.path(task.number)):
        return
    form = task.buckets.form
    records = read_split(task.buckets.paths(task.kind), range(task.bucket, task.bucket + 1))  # in the order of the rows
    keys = np.ascontiguousarray(records["key"]).view(np.int64)
    codes = factorise_integers(keys, keys[:0])[1]
    ticks = np.ascontiguousarray(form.times(records["tick"]))
    start = form.times(form.stored(np.array([form.clock.low])))[0]
    surprises = surprises_of_key(codes, ticks, stable_argsort(ticks), start, task.fast, task.slow)
    task.values.write(task.number, records["row"], surprises)
