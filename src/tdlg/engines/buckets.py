"""Buckets: the edges of a table as records in files, sorted by ranges of keys."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tdlg.edges import TemporalEdges
from tdlg.engines.executors import Callback, run_all
from tdlg.engines.keys import Keys, bucket_of, joint_keys, pair_keys, text_keys
from tdlg.engines.split_file import SplitFile, write_split
from tdlg.engines.store import exists, joined
from tdlg.engines.summary import Clock, Labels
from tdlg.engines.table import Block, InputTable
from tdlg.propagate.own_features import OwnColumn, category_places, raw_values

__all__ = ["Buckets", "PartitionTask", "RecordForm", "bucket_sizes", "map_buckets", "partition"]

FAR = np.iinfo(np.uint32).max  # a label that is never known, where times take 4 bytes


@dataclass(frozen=True)
class RecordForm:
    """What a record of an edge has. Plain data, which tasks carry.

    A record is the row (from 0), the key, the time, the class (-1 if the label is missing), when the label became known, and
    the features: numbers as they are, categories as positions among those that have an indicator.

    Attributes
    ----------
    n_rows
        The number of rows of the table.
    clock
        The clock of the times. Whole ticks within 32 bits are kept as steps from the first time.
    late
        Whether labels become known later than their edges.
    n_classes
        The number of classes.
    own
        The features, of which the categories matter here.
    """

    n_rows: int
    clock: Clock
    late: bool
    n_classes: int
    own: tuple[OwnColumn, ...] = ()

    @property
    def is_short(self) -> bool:
        """Whether times take 4 bytes."""
        return self.clock.dtype == "i8" and (self.clock.high - self.clock.low) // self.clock.step < FAR - 1

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the records."""
        time = "<u4" if self.is_short else f"<{self.clock.dtype}"
        fields = [("row", "<u4" if self.n_rows <= FAR else "<u8"), ("key", "<u8"), ("tick", time)]
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
        far = low + FAR * step
        if ticks.size and (ticks.min() < low or ticks.max() > far):
            ticks = np.clip(ticks, low, min(far, np.iinfo(np.int64).max))  # first: differences may overflow
        steps = ticks - low if step == 1 else -(-(ticks - low) // step)  # rounded up
        return steps.astype(np.uint32)

    def fill(self, edges: TemporalEdges, labels: Labels, first_row: int) -> NDArray[np.void]:
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
    """Where the records of all edges are. Plain data, which tasks carry.

    For each block of the table and each kind of key there is one split file, whose destinations are the buckets.

    Attributes
    ----------
    folder
        The folder of the files: a local path, or an address that fsspec supports.
    form
        What a record has.
    kinds
        The kinds of keys: "src", "dst", "pair", and for features with many categories "category[x]", "src+category[x]" and
        "dst+category[x]".
    n_buckets, n_blocks
        The numbers of buckets and of blocks.
    alone
        The numbers of buckets that are so large that nothing else may run beside them.
    """

    folder: str
    form: RecordForm
    kinds: tuple[str, ...]
    n_buckets: int
    n_blocks: int
    alone: frozenset[int] = frozenset()

    def path(self, kind: str, block: int) -> str:
        """The file of a kind of keys and a block."""
        return joined(self.folder, f"bucket-{self.kinds.index(kind)}-{block:06d}")

    def paths(self, kind: str) -> list[str]:
        """The files of a kind of keys, in the order of the rows."""
        return [self.path(kind, block) for block in range(self.n_blocks)]


@dataclass(frozen=True)
class PartitionTask:
    """Sort the rows of a block into buckets. Plain data, which an engine sends to where it is run.

    Attributes
    ----------
    table, block, number
        The table, its rows, and the number of the block.
    labels
        The classes.
    buckets
        Where the records go.
    """

    table: InputTable
    block: Block
    number: int
    labels: Labels
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
    for kind in kinds:
        records["key"] = _keys(kind, src, dst, edges)
        write_split(
            buckets.path(kind, task.number),
            records,
            bucket_of(records["key"], buckets.n_buckets),
            buckets.n_buckets,
        )


def map_buckets(
    engine: Executor, function: Callable[[Any], Any], tasks: Sequence[Any], callback: Callback | None = None
) -> list[Any]:
    """Run the function on tasks of buckets, those of large buckets one after the other, and give the results in order.

    Parameters
    ----------
    engine, function, callback
        The same as for `run_all`.
    tasks
        Tasks with `buckets` and the number of a `bucket`.
    """
    large = [k for k, task in enumerate(tasks) if task.bucket in task.buckets.alone]
    groups = [[k for k, task in enumerate(tasks) if task.bucket not in task.buckets.alone], *([k] for k in large)]
    found: dict[int, Any] = {}
    for group in groups:
        n_done = len(found)
        said = None if callback is None else lambda done, _, n=n_done: callback(n + done, len(tasks))
        found |= zip(group, run_all(engine, function, [tasks[k] for k in group], said), strict=True)
    return [found[k] for k in range(len(tasks))]


def bucket_sizes(buckets: Buckets, kind: str) -> NDArray[np.int64]:
    """The number of records in each bucket of a kind."""
    sizes = np.zeros(buckets.n_buckets, np.int64)
    for path in buckets.paths(kind):
        sizes += SplitFile.of(path).counts
    return sizes


def _keys(kind: str, src: Keys, dst: Keys, edges: TemporalEdges) -> Keys:
    plain: dict[str, Callable[[], Keys]] = {"src": lambda: src, "dst": lambda: dst, "pair": lambda: pair_keys(src, dst)}
    if kind in plain:
        return plain[kind]()
    end, name = kind.partition("category[")[::2]
    category = _category_keys(edges, name.removesuffix("]"))
    return joint_keys({"src+": src, "dst+": dst}[end], category) if end else category


def _category_keys(edges: TemporalEdges, name: str) -> Keys:
    import polars as pl

    every = [str(category) for category in edges.feature_categories.get(name, ())]
    of_code = text_keys(pl.Series([*every, None], dtype=pl.String))
    values = raw_values(edges, name)
    return of_code[np.where(np.isfinite(values), values, len(every)).astype(np.int64)]
