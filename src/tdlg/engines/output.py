"""The result of a run: the table with more columns, written in blocks to one file or to a folder of files."""

from __future__ import annotations

import hashlib
import io
import os
import re
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, Self

from tdlg.atomic import as_path, draft_of, replacing, target_of
from tdlg.engines.executors import run_all
from tdlg.engines.store import (
    exists,
    files_in,
    is_remote,
    joined,
    make_folder,
    parted,
    remove_empty_folder,
    remove_file,
    remove_folder,
    write_whole,
)
from tdlg.engines.table import Block, InputTable
from tdlg.exceptions import ParameterError

if TYPE_CHECKING:
    import polars as pl

__all__ = ["Answers", "Output", "write_answers"]

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
    """Where the result goes.

    Attributes
    ----------
    path
        The file or the folder.
    is_folder
        Whether each block becomes a file of its own, which the workers write.
    owner
        The text of the lock that the run holds; None without a lock. See `tdlg.atomic.draft_of`.
    """

    path: str
    is_folder: bool
    owner: str | None = None

    @classmethod
    def of(cls, path: Any) -> Self:
        """Refuse a file that is neither parquet nor csv, and a local folder with files.

        An address, and a path without an ending such as ".parquet", is a folder.
        """
        text = str(path)
        if is_remote(text):
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

    def check_empty(self, *, goes_on: bool) -> None:
        """Refuse a folder of a store with files, except the parts that the same run wrote before it was killed.

        Parameters
        ----------
        goes_on
            Whether the same run was killed while it wrote the folder.
        """
        names = files_in(self.path) if is_remote(self.path) else ()
        if names and not (goes_on and all(map(PART.fullmatch, names))):
            raise _not_empty(self.path)

    def remove_draft(self, *, goes_on: bool) -> None:
        """Remove what a killed process wrote of a file while it held the same lock, or of a folder in the same run."""
        if self.owner is not None and not self.is_folder:
            remove_file(str(draft_of(Path(self.path), self.owner)))
        if goes_on:
            for name in self._parts():
                remove_file(joined(self.path, name))

    def _parts(self) -> list[str]:
        """The parts of a table that are in a folder of a store."""
        return [name for name in files_in(self.path) if PART.fullmatch(name)] if is_remote(self.path) else []

    def check_no_parts(self) -> None:
        """Refuse a folder of a store to which another run wrote in the meantime; other files do no harm."""
        if self._parts():
            raise _not_empty(self.path)

    @property
    def work_folder(self) -> str:
        """A hidden folder beside it, for temporary files."""
        folder, name = parted(self.path)
        return joined(folder, f".{name}.tdlg-work")

    def work_folder_in(self, folder: str) -> str:
        """A hidden folder in another folder, which outputs of the same name elsewhere do not have."""
        name = parted(self.path)[1]
        return joined(folder, f".{name}-{hashlib.sha256(self.path.encode()).hexdigest()[:12]}.tdlg-work")


def _not_empty(path: Any) -> ParameterError:
    return ParameterError(
        f"{path}: the folder to write to must be new or empty. Remove it, or give another one. A run that was killed "
        "while it wrote to a store goes on if it is repeated with the same input and parameters.",
        parameter="path",
    )


def write_answers(
    engine: Executor,
    table: InputTable,
    blocks: Sequence[Block],
    answers: Answers,
    output: Output,
    callback: Callable[[int, int], object] | None = None,
    check: Callable[[], object] | None = None,
) -> None:
    """Write the table with more columns.

    Parameters
    ----------
    engine
        What writes the files of a folder; a single file is written by this process, block after block.
    table, blocks
        The table, and its blocks in order.
    answers
        The columns to add.
    output
        Where the result goes. It appears when it is complete, except on a store.
    callback
        Called with the numbers of blocks written and of all blocks.
    check
        Called when all is written, before the result appears. If it raises, there is no result.
    """
    check = check or (lambda: None)
    names = tuple(_free_name(name, table) for name in answers.names)
    if not output.is_folder:
        _write_file(table, blocks, names, answers, output, callback, check)
        return
    folder = output.path if is_remote(output.path) else f"{output.work_folder}-parts"  # on the disk of the output
    tasks = [_PartTask(table, block, names, answers.of_block(block), folder) for block in blocks]
    if folder == output.path:
        output.check_no_parts()
    else:
        remove_folder(folder)
    make_folder(folder)
    try:
        run_all(engine, write_part, tasks, callback)
        check()
        if folder != output.path:
            os.replace(folder, output.path)
    except BaseException:
        if folder != output.path:
            remove_folder(folder)
        else:
            for task in tasks:  # only these: others may have put files there
                remove_file(task.path)
            remove_empty_folder(folder)
        raise


@dataclass(frozen=True)
class _PartTask:
    """Write a block to a file of its own. Plain data, which an engine sends to where it is run."""

    table: InputTable
    block: Block
    names: tuple[str, ...]
    answers: Any
    folder: str

    @property
    def path(self) -> str:
        """The file."""
        return joined(self.folder, f"part-{self.block.start:012d}.parquet")


def write_part(task: _PartTask) -> None:
    """Write the file of a block. A file that is there already stays."""
    if exists(task.path):
        return
    buffer = io.BytesIO()
    _with_answers(task.table, task.block, task.names, task.answers).write_parquet(buffer, row_group_size=ROW_GROUP)
    write_whole(task.path, [buffer.getbuffer()])


def _write_file(
    table: InputTable,
    blocks: Sequence[Block],
    names: tuple[str, ...],
    answers: Answers,
    output: Output,
    callback: Any,
    check: Callable[[], object],
) -> None:
    from polars.io.plugins import register_io_source

    path = Path(output.path)
    raised: list[BaseException] = []  # by a block; polars raises an error of its own instead

    def frames(wanted: list[str] | None, *_: Any) -> Iterator[pl.DataFrame]:
        try:
            for done, block in enumerate(blocks, start=1):
                frame = _with_answers(table, block, names, answers)
                yield frame if wanted is None else frame.select(wanted)
                if callback is not None:
                    callback(done, len(blocks))
        except GeneratorExit:
            raise
        except BaseException as error:
            raised.append(error)
            raise

    lazy = register_io_source(frames, schema=_with_answers(table, Block(0, 0), names, answers).schema)
    with replacing(path, output.owner) as draft:
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


def _with_answers(table: InputTable, block: Block, names: tuple[str, ...], answers: Answers) -> pl.DataFrame:
    columns = answers.columns(block)
    return table.frame(block).with_columns(column.alias(name) for name, column in zip(names, columns, strict=True))


def _free_name(name: str, table: InputTable) -> str:
    """The name, with a number if the table has it already."""
    taken = table.frame(Block(0, 0)).columns
    return next(n for n in (name, *(f"{name}_{k}" for k in range(2, 1000))) if n not in taken)
