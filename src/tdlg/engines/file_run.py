"""FileRun: what every run over a file in buckets does."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np

from tdlg.engines.buckets import Buckets, PartitionTask, RecordForm, bucket_sizes, partition
from tdlg.engines.executors import check_sees, opened_engine, run_all
from tdlg.engines.output import Answers, Output, write_answers
from tdlg.engines.sizes import Sizes, in_bytes
from tdlg.engines.store import (
    exists,
    free_on_disk,
    joined,
    make_folder,
    parted,
    reading,
    remove_folder,
    same_disk,
    size_of,
    write_whole,
)
from tdlg.engines.summary import Labels
from tdlg.engines.table import Block, InputTable
from tdlg.engines.work_folder import WorkFolder, fingerprint
from tdlg.exceptions import ReadError, TooLargeError

__all__ = ["Callback", "FileRun", "RecordMemory"]

Callback = Callable[[int, int, str], object]
RecordMemory = Callable[[Sizes], Mapping[str, float]]  # bytes per record of each kind, which may depend on the limit

SPARE_DISK = 1.1
SMALLER, LARGER = 3.0, 1.5  # a limit of memory that was chosen before is kept if it differs by at most these factors
WRITING = "writing"  # the name of a number that a run keeps as soon as it writes the result
CSV_SIZE = 6  # bytes of a csv file per byte of the same table as parquet, roughly


@dataclass
class FileRun:
    """One run over a file: its table and blocks, the engine, and the folder of its temporary files.

    Attributes
    ----------
    table, blocks
        The file, and its blocks in order.
    engine, sizes
        What runs the tasks, and what fits into its memory.
    folder
        The folder of the temporary files.
    output
        Where the result goes.
    callback
        Called with the number of finished tasks, the number of all, and what is done.
    version
        The version of the file at the start; see `InputTable.version`.
    """

    table: InputTable
    engine: Executor
    sizes: Sizes
    folder: str
    output: Output
    callback: Callback
    version: tuple[Any, ...] = ()
    blocks: list[Block] = field(init=False)

    def __post_init__(self) -> None:
        self.blocks = self.table.blocks(self.sizes.block)

    @classmethod
    @contextmanager
    def opened(
        cls,
        table: InputTable,
        output: Output,
        parameters: Any,
        *,
        engine: Executor | str | None,
        memory: Any,
        folder: Any,
        callback: Callback | None,
        n_threads: int | None = None,
    ) -> Iterator[Self]:
        """Open the engine and the folder, which are left at the end.

        Parameters
        ----------
        table, output
            The file, and where the result goes.
        parameters
            All else that temporary files depend on.
        engine, memory, folder, callback
            The same as for `classify_file`.
        n_threads
            Number of threads of this process.
        """
        place = output.work_folder if folder is None else output.work_folder_in(str(folder))
        with opened_engine(engine, n_threads) as opened:
            sizes = Sizes.of(opened, memory, table.n_rows, len(table.features))
            version = table.version()
            identity = fingerprint(table, version, parameters, replace(sizes, memory=0) if memory is None else sizes)
            goes_on = exists(joined(joined(place, identity), WRITING))
            output.check_empty(goes_on=goes_on)
            work = WorkFolder(place, identity, opened)
            with work as files:
                output = output._replace(owner=work.owner)
                output.remove_draft(goes_on=goes_on)
                check_sees(opened, table.path)
                sizes = sizes if memory is not None else _as_before(sizes, files)
                said = callback or (lambda done, total, text: None)
                yield cls(table, opened, sizes, files, output, said, version)

    def as_before(self, name: str, value: int) -> int:
        """The number that the same run used before it was stopped; else this one, which is kept for the next run."""
        before = _kept(self.folder, name)
        return _keep(self.folder, name, value) if before is None else before

    def partition(self, form: RecordForm, labels: Labels, kinds: Sequence[str], record_memory: float) -> Buckets:
        """Sort all edges into buckets. Whether each of them fits into memory is not checked: see `checked`.

        Parameters
        ----------
        form, labels
            What a record of an edge has, and what labels mean.
        kinds
            The kinds of keys.
        record_memory
            The bytes of memory per record while a bucket is worked on, at most.
        """
        n_buckets = self.sizes.n_buckets(self.table.n_rows, record_memory)
        buckets = Buckets(self.folder, form, tuple(kinds), n_buckets, len(self.blocks))
        tasks = [PartitionTask(self.table, block, k, labels, buckets) for k, block in enumerate(self.blocks)]
        run_all(self.engine, partition, tasks, self.progress("sorting into buckets"))
        return buckets

    def checked(self, buckets: Buckets, record_memory: RecordMemory) -> Buckets:
        """Refuse buckets that do not fit into memory, and find those beside which nothing else may run.

        Parameters
        ----------
        buckets
            The buckets.
        record_memory
            The bytes of memory per record of each kind while a bucket is worked on, as a function of the sizes.
        """
        alone: set[int] = set()
        sizes = {kind: bucket_sizes(buckets, kind) for kind in buckets.kinds}
        for kind, per_record in record_memory(self.sizes).items():
            if sizes[kind].max() * per_record > self.sizes.alone:
                largest = {kind: int(of_kind.max()) for kind, of_kind in sizes.items()}
                raise self._too_large(kind, largest, buckets.n_buckets, record_memory)
            alone.update(np.flatnonzero(sizes[kind] * per_record > self.sizes.per_task).tolist())
        return replace(buckets, alone=frozenset(alone))

    def write(self, answers: Answers) -> None:
        """Write the table with more columns."""
        progress = self.progress("writing")
        self.check_input()
        _keep(self.folder, WRITING, 1)
        write_answers(self.engine, self.table, self.blocks, answers, self.output, progress, self.check_input)

    def check_input(self) -> None:
        """Refuse a file that was replaced or changed since the start: blocks of two versions would be mixed."""
        now = self.table.version()
        if self.version and now and now != self.version:
            raise ReadError(f"{self.table.path}: the file changed while it was worked on. Run again for the new file.")

    def check_disk(self, n_bytes: float) -> None:
        """Refuse work whose temporary files and whose result do not fit on their disks.

        Parameters
        ----------
        n_bytes
            The size of all temporary files, at most.
        """
        target, size = parted(self.output.path)[0], sum(size_of(file) or 0 for file in self.table.files())
        result = (CSV_SIZE if self.output.path.lower().endswith(".csv") else 1.0) * size
        needs = [(self.folder, "the temporary files need", n_bytes), (target, "the result needs", result)]
        if same_disk(self.folder, target):
            needs = [(self.folder, "the temporary files and the result need", n_bytes + result)]
        for place, words, needed in needs:
            free = free_on_disk(place)
            if free is not None and free < SPARE_DISK * needed:
                raise TooLargeError(
                    f"{place}: {words} {in_bytes(SPARE_DISK * needed)}, and the disk has {in_bytes(free)} free.",
                    "Make room, or pass another folder=.",
                    parameter="folder",
                )

    def say(self, text: str) -> None:
        """Report what is done next."""
        self.callback(0, 1, text)

    def progress(self, text: str) -> Callable[[int, int], object]:
        """Report a step, which begins now, and give a callback for its tasks."""
        self.say(text)
        return lambda done, total: self.callback(done, total, text)

    def _too_large(
        self, kind: str, largest: Mapping[str, int], n_buckets: int, record_memory: RecordMemory
    ) -> TooLargeError:
        n_bytes = largest[kind] * record_memory(self.sizes)[kind]
        enough = self._enough(largest, n_buckets, record_memory)
        return TooLargeError(
            f"A bucket by {kind} has {largest[kind]:,} edges, which need {in_bytes(n_bytes)} of memory at once: probably "
            f"one {kind} has most of them. With a limit of {in_bytes(self.sizes.memory)}, a bucket may need "
            f"{in_bytes(self.sizes.alone)}.",
            f"Pass at least memory={f'{enough / 1000000000.0:.10g}GB'!r}.",
            parameter="memory",
        )

    def _enough(self, largest: Mapping[str, int], n_buckets: int, record_memory: RecordMemory) -> int:
        """A limit of memory in which the largest buckets fit, though a larger limit makes them larger."""
        n_rows, sizes = self.table.n_rows, self.sizes
        while True:
            per_record = record_memory(sizes)
            more = n_rows / sizes.n_buckets(n_rows, max(per_record.values())) - n_rows / n_buckets
            records = {kind: min(largest[kind] + max(more, 0.0), n_rows) for kind in per_record}
            n_bytes = max(records[kind] * per_record[kind] for kind in per_record)
            if n_bytes <= sizes.alone:
                return sizes.memory
            sizes = sizes.with_alone(n_bytes)


def _as_before(sizes: Sizes, folder: str) -> Sizes:
    """The sizes with the limit of the run whose files are in the folder, if there are some and the limit still holds.

    By default the limit depends on the memory that is free at the moment, and the files of a run depend on its limit.
    """
    before = _kept(folder, "memory")
    if before is not None and sizes.memory / SMALLER <= before <= sizes.memory * LARGER:
        return replace(sizes, memory=before)
    if before is not None:
        remove_folder(folder)
        make_folder(folder)
    return replace(sizes, memory=_keep(folder, "memory", sizes.memory))


def _kept(folder: str, name: str) -> int | None:
    """A number that a run kept in its folder; None if there is no such number."""
    path = joined(folder, name)
    if not exists(path):
        return None
    with reading(path) as file:
        return int(file.read())


def _keep(folder: str, name: str, value: int) -> int:
    write_whole(joined(folder, name), [str(value).encode()])
    return value
