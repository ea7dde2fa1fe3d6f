"""Buckets: the edges of a table as records in files, sorted by ranges of keys.

A task that sorts rows writes one *split file*: records for several destinations, those of each destination side by side. The
task of a destination reads its part of all of them. So no file is ever appended to, no two tasks write the same file, and a
task that is lost can simply be run again: a task whose file is there does nothing.

A split file has the bytes of `MAGIC`; the number of destinations; the position of the first record of each of them, closed
by the number of records; the length of the description of a record, and the description (numpy's, as JSON); and the records.
Numbers are little-endian, 8 bytes each.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Any, BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tdlg.edges import TemporalEdges
from tdlg.engines.executors import Callback, run_all
from tdlg.engines.keys import Keys, bucket_of, joint_keys, pair_keys, text_keys
from tdlg.engines.paths import exists, is_remote, read_ranges, reading, write_whole
from tdlg.engines.summary import Clock, Labels
from tdlg.engines.table import Block, ScannedEdges
from tdlg.exceptions import ReadError
from tdlg.propagate.plan import OwnColumn, category_places, raw_values

Records = NDArray[np.void]

FAR = np.iinfo(np.uint32).max  # a label that is never known, where times take 4 bytes
MAGIC = b"tdlgspl1"
NUMBER = np.dtype("<u8")


# ---- split files


class SplitFile(NamedTuple):
    """What a split file has.

    first : the position of the first record of each destination, closed by the number of records; dtype : the type of the
    records; start : where they start in the file, in bytes.
    """

    first: NDArray[np.int64]
    dtype: np.dtype[Any]
    start: int

    @classmethod
    def of(cls, path: str) -> SplitFile:
        """Read the description of a file."""
        with reading(path) as file:
            if file.read(len(MAGIC)) != MAGIC:
                raise ReadError(f"{path}: this is not a bucket file, or it is damaged. Remove it and run again.")
            n = int(np.frombuffer(file.read(8), NUMBER)[0])
            numbers = np.frombuffer(file.read(8 * (n + 2)), NUMBER).astype(np.int64)
            text = file.read(int(numbers[-1]))
        fields = [(name, dtype, *map(tuple, shape)) for name, dtype, *shape in json.loads(text)]
        return cls(numbers[:-1], np.dtype(fields), len(MAGIC) + 8 * (n + 3) + len(text))

    @property
    def counts(self) -> NDArray[np.int64]:
        """The number of records of each destination."""
        return np.diff(self.first)


def write_split(path: str, records: Records, destination: NDArray[np.integer[Any]], n: int) -> None:
    """Write records sorted by destination, from 0 to n - 1 and n at most 65,536; those of one keep their order."""
    small = destination.astype(np.uint16)  # which numpy sorts by digits
    order = np.argsort(small, kind="stable")
    first = np.append(0, np.cumsum(np.bincount(small, minlength=n)))
    text = json.dumps([list(field) for field in records.dtype.descr]).encode()
    head = np.concatenate([[n], first, [len(text)]]).astype(NUMBER)
    write_whole(path, [MAGIC, head, text, np.take(records, order)])


def read_split(paths: Sequence[str], destinations: range) -> Records:
    """The records of destinations that follow each other, from files with records of one type, file after file."""
    one = SplitFile.of(paths[0])  # the others have as many destinations and the same type, so their heads are not read
    numbers = len(MAGIC) + 8 * (1 + destinations.start), len(MAGIC) + 8 * (2 + destinations.stop)

    def bounds(part: bytes, path: str) -> tuple[int, int]:
        if len(part) < numbers[1] - numbers[0]:
            raise _ends_early(path)
        first, stop = np.frombuffer(part, NUMBER)[[0, -1]].tolist()
        return one.start + first * one.dtype.itemsize, one.start + stop * one.dtype.itemsize

    if is_remote(paths[0]):
        found = read_ranges(paths, [numbers] * len(paths))
        wanted = [bounds(part, path) for part, path in zip(found, paths, strict=True)]
        parts = read_ranges(paths, wanted)
    else:
        parts, wanted = [], []
        for path in paths:
            with reading(path) as file:
                wanted.append(bounds(_read(file, *numbers), path))
                parts.append(_read(file, *wanted[-1]))
    for part, (first, stop), path in zip(parts, wanted, paths, strict=True):
        if len(part) < stop - first:
            raise _ends_early(path)
    return np.frombuffer(bytearray().join(parts), one.dtype)


def _read(file: BinaryIO, first: int, stop: int) -> bytes:
    """Some bytes of a file, fewer at its end; the system may give fewer at a time."""
    file.seek(first)
    parts = []
    while first < stop and (part := file.read(stop - first)):
        parts.append(part)
        first += len(part)
    return parts[0] if len(parts) == 1 else b"".join(parts)


def _ends_early(path: str) -> ReadError:
    return ReadError(f"{path}: the bucket file ends too early. Remove it and run again.")


# ---- records of edges


@dataclass(frozen=True)
class RecordForm:
    """What a record of an edge has.

    It has the row (from 0), the key, the time, the class (-1 if the label is missing), when the label became known, and the
    features: numbers as they are, categories as positions among those that have an indicator.

    n_rows, n_classes : the numbers of rows of the table and of classes; clock : that of the times, of which whole ticks
    within 32 bits are kept as steps from the first time; late : whether labels become known later than their edges; own :
    the features, of which the categories matter here.
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

    def fill(self, edges: TemporalEdges, labels: Labels, first_row: int) -> Records:
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


@dataclass(frozen=True)
class PartitionTask:
    """Sort the rows of a block, which has this number among all blocks, into buckets."""

    table: ScannedEdges
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
    n = buckets.n_buckets
    for kind in kinds:
        records["key"] = _keys(kind, src, dst, edges)
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
        said = None if callback is None else lambda done, _, n=n_done: callback(n + done, len(tasks))
        results = run_all(engine, function, [tasks[k] for k in group], said, at_once=at_once)
        found |= zip(group, results, strict=True)
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
