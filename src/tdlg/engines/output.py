"""The result of a run: the table with more columns, written in blocks to one file or to a folder of files."""

from __future__ import annotations

import hashlib
import io
import os
import re
import uuid
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, Self

from tdlg.atomic import as_path, replacing, target_of
from tdlg.engines import paths
from tdlg.engines.executors import Callback, run_all
from tdlg.engines.table import Block, ScannedEdges
from tdlg.exceptions import ParameterError

if TYPE_CHECKING:
    import polars as pl

ROW_GROUP = 250_000
FILES = (".parquet", ".pq", ".csv")
PART = re.compile(r"part-\d{12}\.parquet")


class Answers(Protocol):
    """The columns that are added to a table. Plain data, which tasks carry."""

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the columns; a number is added if the table has such a column already."""

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
        if paths.is_remote(text):
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
        return self.path.rpartition("/")[0] if paths.is_remote(self.path) else str(Path(self.path).parent)

    @property
    def name(self) -> str:
        """Its name in this folder."""
        return self.path.rpartition("/")[2] if paths.is_remote(self.path) else Path(self.path).name

    def work_folder(self, folder: Any = None) -> str:
        """A hidden folder for temporary files: beside it, or in another folder where no other output has the same."""
        if folder is None:
            return f"{self.parent.rstrip('/')}/.{self.name}.tdlg-work"
        number = hashlib.sha256(self.path.encode()).hexdigest()[:12]
        return f"{str(folder).rstrip('/')}/.{self.name}-{number}.tdlg-work"

    def check_empty(self) -> None:
        """Refuse a folder of a store with files."""
        if paths.is_remote(self.path) and paths.files_under(self.path):
            raise _not_empty(self.path)


def _not_empty(path: Any) -> ParameterError:
    return ParameterError(
        f"{path}: the folder to write to must be new or empty. Remove it, or give another one.", parameter="path"
    )


@dataclass(frozen=True)
class _Result:
    """A table with columns added, under names that it does not have yet."""

    table: ScannedEdges
    answers: Any

    def names(self) -> list[str]:
        """The names of the columns that are added."""
        taken = self.table.frame(Block(0, 0)).columns
        return [
            next(free for free in (name, *(f"{name}_{k}" for k in range(2, 1000))) if free not in taken)
            for name in self.answers.names
        ]

    def frame(self, block: Block, names: Sequence[str]) -> pl.DataFrame:
        """A block of the result."""
        columns = self.answers.columns(block)
        frame = self.table.frame(block)
        return frame.with_columns(column.alias(name) for name, column in zip(names, columns, strict=True))


def write_answers(
    engine: Executor,
    table: ScannedEdges,
    blocks: Sequence[Block],
    answers: Answers,
    output: Output,
    callback: Callback,
    check: Callable[[], object],
) -> None:
    """Write the table with more columns; it appears when it is complete, except on a store.

    The engine writes the files of a folder; a single file is written by this process, block after block. `check` is called
    when all is written, before the result appears: if it raises, there is no result.
    """
    if not output.is_folder:
        _write_file(_Result(table, answers), blocks, Path(output.path), callback, check)
        return
    folder, names = output.path, _Result(table, answers).names()
    if paths.is_remote(output.path):
        if any(
            map(PART.fullmatch, paths.files_under(folder))
        ):  # of another run in the meantime; other files do no harm
            raise _not_empty(folder)
    else:  # a hidden folder on the disk of the output, which gets its name at the end
        hidden = f".{output.name}.tdlg-parts-"
        for left in Path(output.parent).glob(f"{hidden}*"):  # by killed runs to the same output
            paths.remove_folder(str(left))
        folder = f"{output.parent.rstrip('/')}/{hidden}{uuid.uuid4().hex[:16]}"
    paths.make_folder(folder)
    tasks = [_PartTask(_Result(table, answers.of_block(block)), block, names, folder) for block in blocks]
    try:
        run_all(engine, write_part, tasks, callback)
        check()
        if folder != output.path:
            os.replace(folder, output.path)
    except BaseException:
        for task in tasks:  # only these: others may have put files there
            paths.remove_file(task.path)
        paths.remove_empty_folder(folder)
        raise


@dataclass(frozen=True)
class _PartTask:
    """Write a block to a file of its own."""

    result: _Result
    block: Block
    names: Sequence[str]
    folder: str

    @property
    def path(self) -> str:
        """The file."""
        return f"{self.folder}/part-{self.block.start:012d}.parquet"


def write_part(task: _PartTask) -> None:
    """Write the file of a block. A file that is there already stays."""
    if paths.exists(task.path):
        return
    buffer = io.BytesIO()
    task.result.frame(task.block, task.names).write_parquet(buffer, row_group_size=ROW_GROUP)
    paths.write_whole(task.path, [buffer.getbuffer()])


def _write_file(
    result: _Result, blocks: Sequence[Block], path: Path, callback: Callback, check: Callable[[], object]
) -> None:
    from polars.io.plugins import register_io_source

    names = result.names()
    raised: list[BaseException] = []  # by a block; polars raises an error of its own instead

    def frames(wanted: list[str] | None, *_: Any) -> Iterator[pl.DataFrame]:
        try:
            for done, block in enumerate(blocks, start=1):
                frame = result.frame(block, names)
                yield frame if wanted is None else frame.select(wanted)
                callback(done, len(blocks))
        except GeneratorExit:
            raise
        except BaseException as error:
            raised.append(error)
            raise

    lazy = register_io_source(frames, schema=result.frame(Block(0, 0), names).schema)
    with replacing(path) as draft:
        try:
            if path.suffix.lower() == ".csv":
                lazy.sink_csv(draft)
            else:
                lazy.sink_parquet(draft, row_group_size=ROW_GROUP)
        except Exception as error:
            raise (raised[0] if raised else _of_the_system(error, path)) from None
        check()


def _of_the_system(error: Exception, path: Path) -> Exception:
    """An error of polars as an OSError that names the path, if the system refused to write, for example to a full disk."""
    found = re.search(r"os error (\d+)", str(error))
    return error if found is None else OSError(int(found[1]), os.strerror(int(found[1])), str(path))
