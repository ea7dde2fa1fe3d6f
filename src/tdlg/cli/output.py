"""What commands print and write: messages on stderr, tables to files, pipes and terminals, progress, and Ctrl-C."""

from __future__ import annotations

import gzip
import json
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

import typer

from tdlg.atomic import is_special, new_file
from tdlg.cli.options import wrong
from tdlg.exceptions import ParameterError
from tdlg.io.files import JSON_LINES, PARQUET

if TYPE_CHECKING:
    import polars as pl

SEPARATORS = {".csv": ",", ".tsv": "\t"}
STDOUT = "-"
DIGITS = 6
ROWS_AS_TEXT = 100_000  # rows that are turned into text at once
MOST_COLUMNS = 9  # of a table, shown on a terminal
CELL = 40  # characters of a value that are shown
EXACT = 1e4  # larger numbers, such as times, are shown with all digits
WIDE = "reason"  # the column that is never shortened

quiet = False  # whether messages that are neither warnings nor errors are left out
_interrupted_by = 0  # the number of the signal


# ---- Ctrl-C, which compiled code may turn into another error, or swallow


def interrupt(number: int, frame: FrameType | None) -> None:
    """Handle a signal: record it, and end the command."""
    global _interrupted_by
    _interrupted_by = number
    raise KeyboardInterrupt


def was_interrupted() -> int:
    """The number of the signal that ends the command; 0 if none came."""
    return _interrupted_by


def check_interrupt() -> None:
    """Raise KeyboardInterrupt if compiled code swallowed it, so that no incomplete result is used."""
    if _interrupted_by:
        raise KeyboardInterrupt


# ---- messages


def note(text: str) -> None:
    """Print a message on stderr, unless --quiet is given."""
    if not quiet:
        typer.secho(one_line(text, keep="\n"), err=True, color=_colour())


def warn(text: str) -> None:
    """Print a warning on stderr."""
    typer.secho(f"warning: {one_line(text)}", err=True, fg="yellow", bold=True, color=_colour())


def red(text: str) -> None:
    """Print an error on stderr."""
    typer.secho(one_line(text), err=True, fg="red", color=_colour())


def one_line(text: str, keep: str = "") -> str:
    r"""The text without line breaks and control characters.

    Examples
    --------
    >>> one_line("a\nb")
    'a b'
    """
    text = text if keep else " ".join(text.split("\n"))
    return "".join(sign if sign.isprintable() or sign in keep else "\N{REPLACEMENT CHARACTER}" for sign in text)


def count(number: int, noun: str, plural: str = "") -> str:
    """A number with its noun, for example "1 edge" or "2,000 edges"."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {plural or noun + 's'}"


def aligned(rows: Sequence[Sequence[str]]) -> str:
    """Rows of cells as lines with aligned columns."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows)
    return "\n".join(lines)


def is_terminal(stream: Any) -> bool:
    """Whether the stream is a terminal."""
    return bool(stream.isatty())


def _colour() -> bool | None:
    return False if os.environ.get("NO_COLOR") else None  # None: on a terminal only


# ---- tables


def show(frame: pl.DataFrame, rows: int) -> None:
    """Print the first rows of a table on a terminal."""
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    names = frame.columns
    half = MOST_COLUMNS // 2
    chosen = names if len(names) <= MOST_COLUMNS else [*names[:half], None, *names[-half:]]
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    for name in chosen:
        is_number = name is not None and frame[name].dtype.is_numeric()
        table.add_column(Text("..." if name is None else one_line(name)), justify="right" if is_number else "left")
    for row in frame.head(rows).iter_rows(named=True):
        table.add_row(*(Text("..." if name is None else _cell(row[name], name)) for name in chosen))
    Console(highlight=False).print(table)


def _cell(value: Any, name: str) -> str:
    if value is None:
        return ""
    text = f"{value:.4g}" if isinstance(value, float) and abs(value) < EXACT else one_line(str(value))
    return text if len(text) <= CELL or name == WIDE else text[: CELL - 3] + "..."


# ---- progress


@contextmanager
def working(text: str) -> Iterator[None]:
    """Show a spinner for work without known progress; nothing if stderr is not a terminal."""
    if quiet or not is_terminal(sys.stderr):
        yield
        check_interrupt()
        return
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True, force_terminal=True), transient=True) as bar:
        bar.add_task(text, total=None)
        yield
        check_interrupt()


@contextmanager
def progress() -> Iterator[Callable[[int, int, str], None]]:
    """A progress bar with the remaining time, updated by calls with (done, total, text); nothing if stderr is no terminal.

    An update stops the work if Ctrl-C was pressed.
    """
    if quiet or not is_terminal(sys.stderr):
        yield lambda done, total, text: check_interrupt()
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    text = TextColumn("{task.description}", markup=False)
    columns = (BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), text, TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True, force_terminal=True), transient=True) as bar:
        task = bar.add_task("", total=None)

        def show(done: int, total: int, text: str) -> None:
            check_interrupt()
            bar.update(task, completed=done, total=total, description=text)

        yield show


# ---- files


def check_output(path: Path | None) -> None:
    """Refuse an output file that cannot be written, before any work is done."""
    if path is None or str(path) == STDOUT:
        return

    kind = _kind(path)
    if kind not in (*SEPARATORS, *PARQUET, *JSON_LINES) and not is_special(path):
        raise wrong(
            "--output",
            f"the file must end in .csv, .tsv or .jsonl, also with .gz, or in .parquet. Got {str(path)!r} instead.",
        )
    if kind in PARQUET and _is_packed(path):
        raise wrong(
            "--output", f"parquet is packed already, and not read from a .gz. Leave out the .gz of {str(path)!r}."
        )
    check_folder(path)


def check_folder(*paths: Path | None) -> None:
    """Refuse files whose folder does not exist."""
    for path in paths:
        if path is not None and path.is_dir():
            raise ParameterError(f"{path}: this is a folder. Give the name of a file in it.", parameter="path")
        if path is not None and not path.parent.is_dir():
            raise ParameterError(
                f"{path}: there is no folder {str(path.parent)!r}. Make it, or give another file.",
                parameter="path",
            )


def check_model_file(path: Path | None) -> None:
    """Refuse a file to which no model can be written, before any work is done."""
    check_folder(path)
    if path is not None and is_special(path):
        raise ParameterError(
            f"{path}: a model is kept in a file, and this is a device or a pipe. Give another name.",
            parameter="path",
        )


def keep_model(model: Any, path: Path | None) -> None:
    """Save a fitted model if a file is given."""
    if path is not None:
        model.save(path)
        note(f"saved the model to {path}")


def give(
    frame: pl.DataFrame,
    output: Path | None,
    *,
    first: str | None = None,
    rows: int = 20,
    shown: Sequence[str] | None = None,
) -> None:
    """Write a table to a file or to stdout: csv in a pipe, the first rows on a terminal.

    On a terminal: first : the column to sort by, highest values first; rows : how many; shown : which columns.
    """
    if output is not None and str(output) != STDOUT:
        _write(frame, output)
        note(f"wrote {count(len(frame), 'row')} to {output}")
    elif not is_terminal(sys.stdout):
        _write_text(frame, sys.stdout.buffer, ".csv")
    else:
        frame = _without_objects(frame)
        ordered = frame if first is None else frame.sort(first, descending=True, nulls_last=True)
        show(ordered if shown is None else ordered.select(shown), rows)
        if len(frame) > rows:
            note(f"{rows} of {count(len(frame), 'row')}; use -o FILE or a pipe to get all rows")


def _kind(path: Path) -> str:
    return Path(path.name.lower().removesuffix(".gz")).suffix


def _is_packed(path: Path) -> bool:
    return path.suffix.lower() == ".gz"


def rounded(frame: pl.DataFrame, *names: str) -> pl.DataFrame:
    """The table with these computed columns, where it has them, rounded to the digits that are shown; times stay exact."""
    import polars as pl

    return frame.with_columns(pl.col(name).round_sig_figs(DIGITS) for name in names if name in frame.columns)


def _without_objects(frame: pl.DataFrame) -> pl.DataFrame:
    """Columns of mixed types as text, because only JSON can hold them."""
    import polars as pl

    return _as_text(frame, [name for name, dtype in frame.schema.items() if dtype == pl.Object])


def _flat(frame: pl.DataFrame) -> pl.DataFrame:
    """Nested and binary columns as JSON text too, because csv can hold only text."""
    import polars as pl

    return _as_text(
        frame, [name for name, dtype in frame.schema.items() if dtype in (pl.Object, pl.Binary) or dtype.is_nested()]
    )


def _as_text(frame: pl.DataFrame, names: list[str]) -> pl.DataFrame:
    import polars as pl

    def text(value: Any) -> str | None:
        is_json = isinstance(value, dict | list | bool)
        return None if value is None else json.dumps(value, default=str) if is_json else str(value)

    return frame.with_columns(pl.Series(name, map(text, frame[name].to_list()), dtype=pl.String) for name in names)


def _write(frame: pl.DataFrame, path: Path) -> None:

    kind = _kind(path)
    with new_file(path) as file:
        if kind in PARQUET:
            _without_objects(frame).write_parquet(file)
        elif _is_packed(path):
            with gzip.GzipFile(
                "", "wb", fileobj=file, mtime=0
            ) as packed:  # no name and no time, so that the same rows give the same bytes
                _write_text(frame, packed, kind)
        else:
            _write_text(frame, file, kind)


def _write_text(frame: pl.DataFrame, file: Any, kind: str) -> None:

    for start in range(0, max(len(frame), 1), ROWS_AS_TEXT):
        block = frame[start : start + ROWS_AS_TEXT]
        if kind in JSON_LINES:
            text = _json_lines(block)
        else:
            flat = _flat(block)
            style: Any = "non_numeric" if _looks_like_comments(flat) else "necessary"
            separator = SEPARATORS.get(kind, ",")
            text = flat.write_csv(separator=separator, include_header=start == 0, quote_style=style)
        file.write(text.encode())
    file.flush()


def _looks_like_comments(frame: pl.DataFrame) -> bool:
    """Whether some rows start with # or %: without quotes, they would be read as comments."""
    import polars as pl

    first = frame.to_series(0) if frame.width else pl.Series([], dtype=pl.Int64)
    return first.dtype == pl.String and bool(first.str.contains("^[#%]").any())


def _json_lines(frame: pl.DataFrame) -> str:
    """One JSON object per line: dates in ISO format, NaN as null."""
    import polars as pl
    import polars.selectors as cs

    frame = frame.with_columns(cs.temporal().dt.to_string("iso:strict"))
    if pl.Object not in frame.dtypes and pl.Binary not in frame.dtypes:
        return frame.write_ndjson()
    finite = [pl.when(pl.col(name).is_finite()).then(name) for name in frame.select(cs.float()).columns]
    rows = frame.with_columns(finite).iter_rows(named=True)
    return "".join(json.dumps(row, ensure_ascii=False, separators=(",", ":"), default=str) + "\n" for row in rows)
