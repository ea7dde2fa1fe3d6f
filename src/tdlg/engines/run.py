"""FileRun: one run over edges on disk, with its engine, its folder of temporary files, its limits, and its result.

One rule for memory: a bucket has at most 500,000 records, as many tasks run at once as fit into the limit, a larger bucket
is worked on alone, and one that does not fit even alone is refused. The disk is checked once, before the first file is
written. The result is the table with more columns, written in blocks to one file or to a folder of files.
"""

from __future__ import annotations

import hashlib
import io
import math
import os
import re
import shutil
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, Self

import numpy as np
from filelock import FileLock, Timeout

from tdlg.atomic import as_path, replacing, target_of
from tdlg.engines import files as store
from tdlg.engines.buckets import Buckets, PartitionTask, RecordForm, bucket_sizes, partition
from tdlg.engines.executors import check_sees, opened_engine, run_all, workers_of
from tdlg.engines.table import Block, LabelCodes, ScannedEdges
from tdlg.exceptions import ParameterError, ReadError, TooLargeError
from tdlg.memory import LEAST_MEMORY, as_bytes, free_bytes, in_bytes, most_learnt

if TYPE_CHECKING:
    import polars as pl

Callback = Callable[[int, int, str], object]
Progress = Callable[[int, int], object]

BASE = 420_000_000  # bytes of the interpreter with all libraries, and what it keeps
ROW_BYTES, FEATURE_BYTES = 500, 60  # memory per row of a block that is sorted into buckets, and per feature of a row
EVENT_BYTES = 130  # memory per record of a bucket for sorting, in addition to the record and what is summed
TRAINING_BYTES = 40  # memory per value of a training row
SCORED_BYTES = 56  # memory per value of a row to score
MOST_BLOCK, LEAST_BLOCK = 500_000, 10_000  # rows
MOST_BUCKET = 500_000  # records of an average bucket: more would leave the caches
MOST_SCORED = 250_000  # rows that are scored at once
FREE_SHARE = 0.6  # of the free memory that is used by default
SHARES = 4  # tasks per thread of a cluster: a lost one costs little, and slow ones are made up for
UNEVEN = 1.5  # size of a bucket that runs beside others, compared with the usual one
ALONE = 0.7  # share of the memory that a bucket may need by estimate, if nothing runs beside it
LIMIT_STEP = 100_000_000  # bytes to which a limit of memory that is suggested is rounded up
SPARE_DISK = 1.1
CSV_SIZE = 6  # bytes of a csv file per byte of the same table as parquet, roughly
ROW_GROUP = 250_000
FILES = (".parquet", ".pq", ".csv")
PART_NAME = re.compile(r"part-\d{12}\.parquet")


@dataclass(frozen=True)
class MemoryLimits:
    """What fits into the memory of a process, of which a cluster has several.

    n_threads : the tasks that it can run at once; n_shares : into how many tasks rows are divided at least.
    """

    memory: int
    n_threads: int
    n_shares: int = 1

    @classmethod
    def of(cls, engine: Executor, memory: Any = None) -> Self:
        """The given limit, such as "2GB"; by default 60 % of the free memory, or of what a worker was started with."""
        given = None if memory is None else as_bytes(memory)
        workers = workers_of(engine)
        available = workers.memory or free_bytes()
        if given is None and available < LEAST_MEMORY:
            what = "The smallest worker of the cluster has" if workers.memory else "Only"
            raise TooLargeError(
                f"{what} {in_bytes(available)} of memory{'' if workers.memory else ' are free'}, and at least "
                f"{in_bytes(LEAST_MEMORY)} are needed.",
                "Start the workers with '--memory-limit 2GB'." if workers.memory else "End other programs.",
            )
        shares = SHARES * workers.n_threads if workers.is_cluster else 1
        return cls(given or int(FREE_SHARE * available), workers.threads_each, shares)

    @property
    def free(self) -> int:
        """Bytes for the tasks that run at once."""
        return self.memory - BASE

    def block(self, n_rows: int, n_features: int) -> int:
        """Rows of a block of the input."""
        most = min(self.free / self.n_threads / self.row_bytes(n_features), self._share(n_rows), MOST_BLOCK)
        return max(int(most), LEAST_BLOCK)

    def row_bytes(self, n_features: int) -> int:
        """Bytes of memory per row of a block while it is sorted into buckets."""
        return ROW_BYTES + FEATURE_BYTES * n_features

    def n_buckets(self, n_rows: int, record_bytes: float) -> int:
        """The number of buckets; with very many features, they have fewer records than usual."""
        most = min(MOST_BUCKET, self.free / 4 / record_bytes)
        return min(max(math.ceil(n_rows / most), self.n_shares), 1 << 16)

    def training_rows(self, n_rows: int, n_columns: int) -> int:
        """Rows to learn from, at most."""
        return int(min(most_learnt(n_rows), self.free / (TRAINING_BYTES * n_columns)))

    def scored_rows(self, n_rows: int, n_columns: int) -> int:
        """Rows that are scored at once, of this number of rows to score."""
        per_task = self.free / self.n_threads
        return max(int(min(per_task / (SCORED_BYTES * n_columns), self._share(n_rows), MOST_SCORED)), 1000)

    def at_once(self, n_bytes: float) -> int:
        """How many tasks run at once that need this memory each."""
        return int(min(max(self.free // max(n_bytes, 1), 1), self.n_threads))

    def _share(self, n_rows: int) -> float:
        return math.inf if self.n_shares == 1 else math.ceil(n_rows / self.n_shares)


def record_memory(n_bytes: int, n_values: int, n_widths: int, n_columns: int, share: float) -> float:
    """Memory per record of n_bytes in a bucket: n_values are summed at n_widths scales, and a share gets n_columns."""
    per_row = 8 * n_widths * n_values + 3 * 8 * n_columns
    return 2 * n_bytes + EVENT_BYTES + 2 * 8 * n_values + share * per_row


@dataclass
class FileRun:
    """One run over scanned edges: their blocks, the engine and its limits, the folder, the output, and what is reported.

    `version` is that of the files at the start; see `ScannedEdges.version`.
    """

    table: ScannedEdges
    engine: Executor
    limits: MemoryLimits
    folder: str
    output: Output
    callback: Callback
    version: tuple[Any, ...] = ()
    blocks: list[Block] = field(init=False)

    def __post_init__(self) -> None:
        self.blocks = self.table.blocks(self.limits.block(self.table.n_rows, len(self.table.features)))

    @classmethod
    @contextmanager
    def opened(
        cls,
        table: ScannedEdges,
        output: Any,
        *,
        engine: Executor | str | None,
        memory: Any,
        folder: Any,
        callback: Callback | None,
        n_threads: int | None = None,
    ) -> Iterator[Self]:
        """Open the engine and the folder, which are left at the end; for the parameters see `PropagationClassifier.fill`."""
        target = Output.of(output)
        with opened_engine(engine, n_threads) as opened:
            limits, version = MemoryLimits.of(opened, memory), table.version()
            target.check_empty()
            with work_folder(target.work_folder(folder), opened) as files:
                check_sees(opened, table.path)
                yield cls(table, opened, limits, files, target, callback or (lambda *_: None), version)

    def partition(self, form: RecordForm, labels: LabelCodes, kinds: Sequence[str], record_bytes: float) -> Buckets:
        """Sort all edges into buckets; each record needs this memory while a bucket is worked on, at most."""
        n_buckets = self.limits.n_buckets(self.table.n_rows, record_bytes)
        buckets = Buckets(self.folder, form, tuple(kinds), n_buckets, len(self.blocks))
        tasks = [PartitionTask(self.table, block, k, labels, buckets) for k, block in enumerate(self.blocks)]
        run_all(self.engine, partition, tasks, self.progress("sorting into buckets"))
        return buckets

    def checked(self, buckets: Buckets, record_bytes: Mapping[str, float]) -> Buckets:
        """Refuse buckets that do not fit into memory, and decide how many run at once and which of them alone.

        record_bytes : the memory per record of each kind while a bucket is worked on.
        """
        by_kind = {kind: n_bytes * bucket_sizes(buckets, kind) for kind, n_bytes in record_bytes.items()}
        kind = max(by_kind, key=lambda kind: by_kind[kind].max())
        largest = by_kind[kind].max()
        if largest > ALONE * self.limits.free:
            raise self._too_large(kind, round(largest / record_bytes[kind]), largest)
        need = np.max(list(by_kind.values()), axis=0)
        at_once = self.limits.at_once(UNEVEN * float(np.median(need)))
        alone = np.flatnonzero(need > self.limits.free / at_once)
        return replace(buckets, at_once=at_once, alone=frozenset(alone.tolist()))

    def _too_large(self, kind: str, n_records: int, n_bytes: float) -> TooLargeError:
        enough = math.ceil((n_bytes / ALONE + BASE) / LIMIT_STEP) * LIMIT_STEP
        return TooLargeError(
            f"A bucket by {kind} has {n_records:,} edges, which need {in_bytes(n_bytes)} of memory at once: probably one "
            f"{kind} has most of them. With a limit of {in_bytes(self.limits.memory)}, a bucket may need "
            f"{in_bytes(ALONE * self.limits.free)}.",
            f"Pass at least memory={f'{enough / 1e9:.10g}GB'!r}.",
            parameter="memory",
        )

    def write(self, answers: Answers) -> None:
        """Write the table with more columns; the result appears when it is complete, except on a store."""
        progress, write = self.progress("writing"), _write_folder if self.output.is_folder else _write_file
        self.check_input()
        taken, numbers = self.table.frame(Block(0, 0)).columns, range(2, 1000)  # a column that is there gets a number
        names = [
            next(one for one in (name, *(f"{name}_{k}" for k in numbers)) if one not in taken) for name in answers.names
        ]
        write(self, answers, names, progress)

    def check_input(self) -> None:
        """Refuse a file that was replaced or changed since the start: blocks of two versions would be mixed."""
        now = self.table.version()
        if self.version and now and now != self.version:
            raise ReadError(f"{self.table.path}: the file changed while it was worked on. Run again for the new file.")

    def check_disk(self, n_bytes: float) -> None:
        """Refuse work whose temporary files, of this size at most, and whose result do not fit on their disks."""
        size = sum(0 if store.is_remote(file) else os.path.getsize(file) for file in self.table.files())
        result = (CSV_SIZE if self.output.path.lower().endswith(".csv") else 1.0) * size
        needs = [(self.folder, "the temporary files need", n_bytes), (self.output.parent, "the result needs", result)]
        if _same_disk(self.folder, self.output.parent):
            needs = [(self.folder, "the temporary files and the result need", n_bytes + result)]
        for place, words, needed in needs:
            free = _free_on_disk(place)
            if free < SPARE_DISK * needed:
                raise TooLargeError(
                    f"{place}: {words} {in_bytes(SPARE_DISK * needed)}, and the disk has {in_bytes(free)} free.",
                    "Make room, or pass another folder=.",
                    parameter="folder",
                )

    def progress(self, text: str) -> Progress:
        """Report a step, which begins now, and give a callback for its tasks."""
        self.callback(0, 1, text)
        return lambda done, total: self.callback(done, total, text)


def _free_on_disk(folder: str) -> float:
    """Free bytes of the disk of a local folder; a store is not asked."""
    return math.inf if store.is_remote(folder) else shutil.disk_usage(folder).free


def _same_disk(one: str, other: str) -> bool:
    return not store.is_remote(one) and not store.is_remote(other) and os.stat(one).st_dev == os.stat(other).st_dev


@contextmanager
def work_folder(path: str, engine: Executor) -> Iterator[str]:
    """A new folder in `path` for the temporary files of one run, which is removed at the end, also after an error.

    A local path is locked, and what a killed run left in it is removed; a store has no locks, so there it stays. The folder
    has a new name, so that tasks of a killed run that a cluster is still working on do no harm.
    """
    files = f"{path}/{uuid.uuid4().hex[:16]}"
    if store.is_remote(path):
        store.make_folder(files)
        try:
            yield files
        finally:
            store.remove_folder(files)
            store.remove_empty_folder(path)
        return
    _make_private(path)
    lock = FileLock(f"{path}/lock")
    try:
        lock.acquire(timeout=0)
    except Timeout:
        raise ParameterError(
            f"{path}: another process works in this folder. Wait until it is done.",
            "Or pass another folder=.",
            parameter="folder",
        ) from None
    try:
        for entry in Path(path).iterdir():
            if entry.is_dir():
                store.remove_folder(str(entry))
            elif entry.name != "lock":
                entry.unlink()
        store.make_folder(files)
        check_sees(engine, files)
        yield files
    finally:
        store.remove_folder(path)
        lock.release()


def _make_private(folder: str) -> None:
    """Create a folder that only this user can read and write: tasks trust what is in it."""
    os.makedirs(folder, mode=0o700, exist_ok=True)
    if hasattr(os, "getuid") and os.stat(folder).st_uid != os.getuid():
        raise ParameterError(
            f"{folder}: this folder is of another user, who could change the temporary files.",
            "Remove it, or pass another folder=.",
            parameter="folder",
        )
    with suppress(OSError):  # a file system without modes
        os.chmod(folder, 0o700)


# ---- the result


class Answers(Protocol):
    """The columns that are added to a table."""

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the columns."""

    def columns(self, block: Block) -> list[pl.Series]:
        """The columns of a block, which may be empty."""

    def of_block(self, block: Block) -> Self:
        """What is needed for the columns of one block."""


class Output(NamedTuple):
    """Where the result goes: a file, or a folder to which the workers write one file per block."""

    path: str
    is_folder: bool

    @classmethod
    def of(cls, path: Any) -> Self:
        """Refuse a file that is neither parquet nor csv, and a local folder with files.

        An address, and a path without an ending such as ".parquet", is a folder.
        """
        text = str(path)
        if store.is_remote(text):
            return cls(text.rstrip("/"), True)
        target = as_path(text)
        if target.suffix.lower() in FILES:
            return cls(str(target_of(target)), False)
        if target.suffix:
            raise ParameterError(
                f"{path}: a table that is made in blocks is written as .parquet or .csv, or to a folder.",
                parameter="path",
            )
        if target.is_file() or (target.is_dir() and any(target.iterdir())):
            raise _not_empty(path)
        return cls(str(target_of(target.with_name(target.name + FILES[0])).with_name(target.name)), True)

    @property
    def parent(self) -> str:
        """The folder in which it is."""
        return self.path.rpartition("/")[0] if store.is_remote(self.path) else str(Path(self.path).parent)

    @property
    def name(self) -> str:
        """Its name in this folder."""
        return self.path.rpartition("/")[2] if store.is_remote(self.path) else Path(self.path).name

    def work_folder(self, folder: Any = None) -> str:
        """A hidden folder for temporary files: beside it, or in another folder where no other output has the same."""
        if folder is None:
            return f"{self.parent.rstrip('/')}/.{self.name}.tdlg-work"
        number = hashlib.sha256(self.path.encode()).hexdigest()[:12]
        return f"{str(folder).rstrip('/')}/.{self.name}-{number}.tdlg-work"

    def check_empty(self) -> None:
        """Refuse a folder of a store with files."""
        if store.is_remote(self.path) and store.files_under(self.path):
            raise _not_empty(self.path)


def _not_empty(path: Any) -> ParameterError:
    return ParameterError(
        f"{path}: the folder to write to must be new or empty. Remove it, or give another one.", parameter="path"
    )


def _frame_with_answers(table: ScannedEdges, answers: Answers, block: Block, names: Sequence[str]) -> pl.DataFrame:
    """A block of the table with the columns added."""
    columns = zip(names, answers.columns(block), strict=True)
    return table.frame(block).with_columns(column.alias(name) for name, column in columns)


def _write_folder(run: FileRun, answers: Answers, names: list[str], progress: Progress) -> None:
    """The engine writes one file per block."""
    output, folder = run.output, run.output.path
    if store.is_remote(folder):
        if any(map(PART_NAME.fullmatch, store.files_under(folder))):  # of another run meanwhile; other files do no harm
            raise _not_empty(folder)
    else:  # a hidden folder on the disk of the output, which gets its name at the end
        hidden = f".{output.name}.tdlg-parts-"
        for left in Path(output.parent).glob(f"{hidden}*"):  # by killed runs to the same output
            store.remove_folder(str(left))
        folder = f"{output.parent.rstrip('/')}/{hidden}{uuid.uuid4().hex[:16]}"
    store.make_folder(folder)
    tasks = [_PartTask(run.table, answers.of_block(block), block, names, folder) for block in run.blocks]
    try:
        run_all(run.engine, write_part, tasks, progress)
        run.check_input()
        if folder != output.path:
            os.replace(folder, output.path)
    except BaseException:
        for task in tasks:  # only these: others may have put files there
            store.remove_file(task.path)
        store.remove_empty_folder(folder)
        raise


@dataclass(frozen=True)
class _PartTask:
    """Write a block to a file of its own."""

    table: ScannedEdges
    answers: Answers
    block: Block
    names: Sequence[str]
    folder: str

    @property
    def path(self) -> str:
        """The file."""
        return f"{self.folder}/part-{self.block.start:012d}.parquet"


def write_part(task: _PartTask) -> None:
    """Write the file of a block. A file that is there already stays."""
    if store.exists(task.path):
        return
    buffer = io.BytesIO()
    _frame_with_answers(task.table, task.answers, task.block, task.names).write_parquet(
        buffer, row_group_size=ROW_GROUP
    )
    store.write_whole(task.path, [buffer.getbuffer()])


def _write_file(run: FileRun, answers: Answers, names: list[str], progress: Progress) -> None:
    """Write one block after the other to a single file, in this process."""
    from polars.io.plugins import register_io_source

    path, blocks = Path(run.output.path), run.blocks
    raised: list[BaseException] = []  # by a block; polars raises an error of its own instead

    def frames(*_: Any) -> Iterator[pl.DataFrame]:
        try:
            for done, block in enumerate(blocks, start=1):
                yield _frame_with_answers(run.table, answers, block, names)
                progress(done, len(blocks))
        except GeneratorExit:
            raise
        except BaseException as error:
            raised.append(error)
            raise

    lazy = register_io_source(frames, schema=_frame_with_answers(run.table, answers, Block(0, 0), names).schema)
    with replacing(path) as draft:
        try:
            if path.suffix.lower() == ".csv":
                lazy.sink_csv(draft)
            else:
                lazy.sink_parquet(draft, row_group_size=ROW_GROUP)
        except Exception as error:
            found = re.search(r"os error (\d+)", str(error))  # of the system, such as a full disk: it names the path
            number = int(found[1]) if found else 0
            raise (raised or [OSError(number, os.strerror(number), str(path)) if found else error])[0] from None
        run.check_input()
