"""Columns of a bucket: what `PropagationFeatures` computes for all edges, for the edges of a bucket and one match."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tdlg.engines.buckets import KIND_OF, Buckets, RecordForm
from tdlg.engines.keys import reversed_pairs, uniform
from tdlg.engines.split_file import read_split, write_split
from tdlg.engines.store import exists, joined
from tdlg.exceptions import ReadError
from tdlg.linegraph.events import Layout
from tdlg.propagate.columns import OWN_MATCHES
from tdlg.propagate.features import PropagationFeatures
from tdlg.propagate.own_features import OwnColumn, scaled, tamed, to_sum
from tdlg.propagate.sums import Walk, walk_events
from tdlg.propagate.writer import ColumnWriter

__all__ = ["ColumnFiles", "ColumnPlan", "ColumnsTask", "Sample", "make_columns", "read_columns"]

Floats = NDArray[np.float64]
Positions = NDArray[np.int64]
Records = NDArray[np.void]

BLOCK = 4096  # rows whose columns are made at once, which stay in the cache


class Sample(NamedTuple):
    """Edges to learn from: those with a known label, within a window of time, of which some are sampled.

    Attributes
    ----------
    low, high
        The window, in ticks as the records have them, both ends included.
    shares
        For each class, the share of the edges that are sampled.
    before
        Labels count if they were known before this time; None if all count.
    """

    low: Any
    high: Any
    shares: tuple[float, ...]
    before: Any = None


@dataclass(frozen=True)
class ColumnPlan:
    """All that determines the columns. Plain data, which tasks carry.

    Attributes
    ----------
    matches
        The matches, in order, those of categories included; see `tdlg.propagate.columns.Description`.
    widths, spread
        Bandwidths of the scales, and the standard deviation of the times, in ticks.
    past_only, smoothing
        The same as for `PropagationFeatures`.
    own
        The features.
    targets
        For each class, the values that are summed: its indicators minus the prior, shape (n_classes, n_targets).
    samples
        The edges to learn from, in several groups.
    seed
        Seed for sampling.
    dtype
        Type of the columns in the files: "f4" or "f8".
    """

    matches: tuple[str, ...]
    widths: tuple[float, ...]
    spread: float
    past_only: bool
    smoothing: float
    own: tuple[OwnColumn, ...]
    targets: tuple[tuple[float, ...], ...]
    samples: tuple[Sample, ...]
    seed: int = 0
    dtype: str = "f4"

    @classmethod
    def of(
        cls, features: PropagationFeatures, samples: Sequence[Sample], seed: int = 0, dtype: str = "f4"
    ) -> ColumnPlan:
        """The columns of fitted features, without those about both ends together."""
        widths, (_, spread) = features.widths(features.edges_.time_unit)
        description = features.description()
        n_classes = 0 if features.classes_ is None else len(features.classes_)
        indicators = np.eye(n_classes)[:, n_classes - len(features.prior_) :]
        return cls(
            (*description.matches, *description.category_matches()),
            tuple(widths.tolist()),
            float(spread) if np.isfinite(spread) else 1.0,
            features.past_only,
            float(features.smoothing),
            tuple(features.own_),
            tuple(tuple(line) for line in ((indicators - features.prior_) / features.target_spread_).tolist()),
            tuple(samples),
            seed,
            dtype,
        )

    @property
    def n_targets(self) -> int:
        """The number of values that are summed per label."""
        return len(self.targets[0]) if self.targets else 0

    def n_columns(self, match: str) -> int:
        """The number of columns of a match; the first match also has the edges' own features."""
        n_compared = sum(len(column.beside) for column in self.own) if match in OWN_MATCHES else 0
        per_scale = (self.n_targets + 1 if self.n_targets else 0) + 1 + n_compared
        n_own = sum(column.width for column in self.own) if match == self.matches[0] else 0
        return len(self.widths) * per_scale + (1 if self.past_only else 2) + n_own

    def record(self, match: str, form: RecordForm) -> np.dtype[Any]:
        """Type of the records with the columns of a match."""
        fields: list[Any] = [("row", form.dtype["row"])]
        if match == self.matches[0]:
            fields += [("label", form.dtype["label"]), ("tick", form.dtype["tick"])]
        return np.dtype([*fields, ("columns", f"<{self.dtype}", (self.n_columns(match),))])


@dataclass(frozen=True)
class ColumnFiles:
    """Where columns go. Plain data, which tasks carry.

    For each match and bucket there is one split file. Its destinations are ranges of rows to score, then the samples.

    Attributes
    ----------
    folder
        The folder of the files.
    bounds
        The first row of each range and, at the end, the row after the last one: unlabelled rows from the first to the last
        are scored.
    with_samples
        Whether the samples are wanted too.
    """

    folder: str
    bounds: tuple[int, ...]
    with_samples: bool = True

    def path(self, plan: ColumnPlan, match: str, bucket: int) -> str:
        """The file of a match and a bucket, which depends on the seed: two runs on a store may choose different ones."""
        first = "all" if self.with_samples else str(self.bounds[0])
        return joined(self.folder, f"columns-{plan.seed}-{first}-{plan.matches.index(match)}-{bucket:06d}")


@dataclass(frozen=True)
class ColumnsTask:
    """Make the columns of one match for the edges of one bucket. Plain data, which an engine sends to where it is run.

    Attributes
    ----------
    plan
        The columns.
    buckets
        Where the records are.
    files
        Where the columns go.
    match, bucket
        The match, and the number of the bucket.
    """

    plan: ColumnPlan
    buckets: Buckets
    files: ColumnFiles
    match: str
    bucket: int


def make_columns(task: ColumnsTask) -> None:
    """Write the columns of a bucket. A file that is there already stays."""
    path = task.files.path(task.plan, task.match, task.bucket)
    if exists(path):
        return
    rows, cols = _read(task)
    plan, form = task.plan, task.buckets.form
    chosen = _chosen(rows, task)
    n_places = len(task.files.bounds) - 1 + len(plan.samples)
    out = np.zeros(sum(len(at) for _, at, _ in chosen), plan.record(task.match, form))
    destination = np.empty(len(out), np.int64)
    base = _Base.of(task, rows, cols, np.unique(np.concatenate([at for _, at, _ in chosen])))
    start = 0
    for before, at, places in chosen:
        part = slice(start, start + len(at))
        start = part.stop
        destination[part] = places
        out["row"][part] = rows["row"][at]
        if "label" in out.dtype.names:
            out["label"][part], out["tick"][part] = rows["label"][at], rows["tick"][at]
        base.write(at, base.labels(at, before), out["columns"][part])
    write_split(path, out, destination, n_places)


def read_columns(plan: ColumnPlan, buckets: Buckets, files: ColumnFiles, destinations: range) -> tuple[Records, Floats]:
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
            n_match = plan.n_columns(match) - sum(column.width for column in plan.own)
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


def _read(task: ColumnsTask) -> tuple[Records, Records]:
    """The records whose columns are made, and the records around them; one and the same array for most matches."""
    one = range(task.bucket, task.bucket + 1)
    kind = KIND_OF.get(task.match, task.match)
    rows = read_split(task.buckets.paths(kind), one)
    other = {"src-dst": "dst", "dst-src": "src"}.get(task.match)
    return rows, rows if other is None else read_split(task.buckets.paths(other), one)


def _chosen(rows: Records, task: ColumnsTask) -> list[tuple[Any, Positions, Positions]]:
    """Which rows get columns: for each group when labels had to be known, the positions, and the destinations."""
    bounds = np.array(task.files.bounds)
    row = rows["row"].astype(np.int64)
    at = np.flatnonzero((rows["label"] < 0) & (row >= bounds[0]) & (row < bounds[-1]))
    chosen: list[tuple[Any, Positions, Positions]] = [(None, at, np.searchsorted(bounds, row[at], side="right") - 1)]
    for k, sample in enumerate(task.plan.samples if task.files.with_samples else ()):
        inside = (rows["label"] >= 0) & (rows["tick"] >= sample.low) & (rows["tick"] <= sample.high)
        at = np.flatnonzero(inside)
        share = np.array(sample.shares)[rows["label"][at]]
        at = at[uniform(row[at], task.plan.seed + k) < share]
        chosen.append((sample.before, at, np.full(len(at), len(bounds) - 1 + k)))
    return chosen


class _Base(NamedTuple):
    """The counts and features around some rows of a bucket, to which labels are added.

    Attributes
    ----------
    task
        What is made.
    rows, cols
        The records, and the records around them.
    row_codes, col_codes
        Their keys, numbered from 0.
    own
        The features of the rows as numbers.
    at, walked
        The positions of the rows with sums, ascending, and the sums.
    """

    task: ColumnsTask
    rows: Records
    cols: Records
    row_codes: NDArray[np.int32]
    col_codes: NDArray[np.int32]
    own: Floats
    at: Positions
    walked: Walk

    @classmethod
    def of(cls, task: ColumnsTask, rows: Records, cols: Records, at: Positions) -> _Base:
        """Sum counts and, if they are compared, features."""
        from tdlg._kernels.ids import factorise_integers

        plan, form = task.plan, task.buckets.form
        col_keys = np.ascontiguousarray(cols["key"])
        row_keys = np.ascontiguousarray(rows["key"])
        row_keys = reversed_pairs(row_keys) if task.match == "reversed" else row_keys
        same = row_keys is col_keys or (rows is cols and task.match != "reversed")
        _, col_codes, row_codes = factorise_integers(
            col_keys.view(np.int64), row_keys.view(np.int64)[: 0 if same else None]
        )
        row_codes = col_codes if same else row_codes
        compares = task.match in OWN_MATCHES and any(column.beside for column in plan.own)
        needs_own = compares or task.match == plan.matches[0]
        own = _own(rows, plan.own) if needs_own else np.empty((len(rows), 0))
        values = np.ones((len(cols), 1))
        if compares:
            values = np.hstack([values, to_sum(own, plan.own)])
        ticks = form.times(cols["tick"])
        walked = _walked(
            (row_codes[at], form.times(rows["tick"])[at]),
            (col_codes, ticks),
            at if rows is cols else _own_columns(rows["row"][at], cols["row"]),
            values,
            plan,
        )
        return cls(task, rows, cols, row_codes, col_codes, own, at, walked)

    def labels(self, at: Positions, before: Any) -> Walk | None:
        """Decayed numbers of known labels and sums of targets around some rows; None without targets."""
        plan, form = self.task.plan, self.task.buckets.form
        if not plan.n_targets or not len(at):
            return None
        known = self.cols["known"] if form.late else self.cols["tick"]
        if not plan.past_only:
            counts = self.cols["label"] >= 0
        else:  # labels that become known after all rows are left out: their times may be far beyond all others
            counts = (self.cols["label"] >= 0) & (known < self.rows["tick"][at].max())
        if before is not None:
            counts &= known < before
        cols = np.flatnonzero(counts)
        times = known if plan.past_only else self.cols["tick"]
        own = np.full(len(at), -1)
        if not plan.past_only:
            place = np.full(len(self.cols) + 1, -1)  # the last one is for rows that are not among the columns
            place[cols] = np.arange(len(cols))
            own = place[at if self.rows is self.cols else _own_columns(self.rows["row"][at], self.cols["row"])]
        values = np.hstack([np.ones((len(cols), 1)), np.array(plan.targets)[self.cols["label"][cols]]])
        return _walked(
            (self.row_codes[at], form.times(self.rows["tick"])[at]),
            (self.col_codes[cols], form.times(times[cols])),
            own,
            values,
            plan,
        )

    def write(self, at: Positions, labels: Walk | None, out: NDArray[Any]) -> None:
        """Write the columns of some rows, (n_rows, n_columns)."""
        plan, match = self.task.plan, self.task.match
        compared = plan.own if match in OWN_MATCHES else ()
        writer = ColumnWriter.of(compared, plan.smoothing, plan.spread)
        place = np.searchsorted(self.at, at)
        n_own = sum(column.width for column in plan.own) if match == plan.matches[0] else 0
        n_columns = plan.n_columns(match) - n_own
        slots = self.walked._replace(slots=self.walked.slots[place])
        nothing = np.empty((0, 0, 0))
        for start in range(0, len(at), BLOCK):
            block = slice(start, start + BLOCK)
            sums, gaps = slots.take(block)
            mine = self.own[at[block]]
            lines = np.empty((n_columns, len(mine)))
            known = nothing if labels is None else labels.take(block)[0]
            writer.write(sums, known, gaps[: 1 if plan.past_only else 2], mine, 0, lines)
            out[block, :n_columns] = lines.T
            if n_own:
                out[block, n_columns:] = tamed(mine, list(plan.own))


def _own(rows: Records, columns: Sequence[OwnColumn]) -> Floats:
    """The features as numbers, as `tdlg.propagate.own_features.own_values` gives them."""
    found = np.empty((len(rows), sum(column.width for column in columns)))
    at = 0
    for k, column in enumerate(columns):
        values = rows[f"own{k}"]
        part = found[:, at : at + column.width]
        at += column.width
        if column.categories:
            part[:] = values[:, np.newaxis] == np.arange(column.width)
        else:
            part[:, 0] = scaled(values, column) if column.beside else values
    return found


def _own_columns(rows: NDArray[Any], cols: NDArray[Any]) -> Positions:
    """For each row number its position among other row numbers, or -1."""
    order = np.argsort(cols, kind="stable")
    at = np.searchsorted(cols, rows, sorter=order)
    found = order[np.minimum(at, len(cols) - 1)] if len(cols) else np.zeros(len(rows), np.int64)
    return np.where(cols[found] == rows, found, -1) if len(cols) else np.full(len(rows), -1)


def _walked(
    rows: tuple[NDArray[np.int32], NDArray[Any]],
    cols: tuple[NDArray[np.int32], NDArray[Any]],
    own: Positions,
    values: Floats,
    plan: ColumnPlan,
) -> Walk:
    """Decayed sums over columns for rows, each given by key and time; `own` is the column that is the row itself."""
    from tdlg._kernels.layout import place_rectangular

    n_keys = 1 + max(int(codes.max(initial=-1)) for codes, _ in (rows, cols))
    keys = rows[0][:, np.newaxis], cols[0][:, np.newaxis]
    ticks = np.ascontiguousarray(rows[1]), np.ascontiguousarray(cols[1])
    events = place_rectangular(*keys, n_keys, *ticks, np.asarray(own, np.int64))
    source, target, gap, row_slots, col_slots = events
    layout = Layout(source, target, gap, row_slots, col_slots, *ticks, None)
    return walk_events(layout, values, plan.widths, past_only=plan.past_only)
