"""What commands print and write: messages on stderr, tables to files, pipes and terminals, progress, and Ctrl-C."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

import typer

from tdlg.tables.text import SCORE_DIGITS, count

if TYPE_CHECKING:
    import polars as pl

STDOUT = "-"
MOST_COLUMNS = 9  # of a table, shown on a terminal
CELL = 40  # characters of a value that are shown
SHORT_BELOW = 1e4  # larger numbers, such as times, are shown with all digits
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
    r"""The text without line breaks and control characters."""
    text = text if keep else " ".join(text.split("\n"))
    return "".join(sign if sign.isprintable() or sign in keep else "\N{REPLACEMENT CHARACTER}" for sign in text)


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
    text = f"{value:.4g}" if isinstance(value, float) and abs(value) < SHORT_BELOW else one_line(str(value))
    return text if len(text) <= CELL or name == WIDE else text[: CELL - 3] + "..."


def times_as_text(times: pl.Series) -> pl.Series:
    """Days if none of the times has a clock time, else with seconds and the digits that they need."""
    is_day = (times.dt.truncate("1d") == times).all()
    return times.dt.to_string("%Y-%m-%d" if is_day else "%Y-%m-%dT%H:%M:%S%.f")


# ---- progress


@contextmanager
def working(text: str) -> Iterator[None]:
    """Show a spinner for work without known progress; nothing if stderr is not a terminal."""
    with progress(is_known=False) as show:
        show(0, 0, text)
        yield
    check_interrupt()


@contextmanager
def progress(*, is_known: bool = True) -> Iterator[Callable[[int, int, str], None]]:
    """A progress bar with the remaining time, updated by calls with (done, total, text); nothing if stderr is no terminal.

    An update stops the work if Ctrl-C was pressed. is_known : whether there is a total; else the bar is a spinner.
    """
    if quiet or not is_terminal(sys.stderr):
        yield lambda done, total, text: check_interrupt()
        return
    from tdlg.progress import terminal_bar

    with terminal_bar(is_known=is_known) as bar:

        def show(done: int, total: int, text: str) -> None:
            check_interrupt()
            bar(done, total, text)

        yield show


# ---- files


def keep_model(model: Any, path: Path | None, names: Mapping[str, str] | None = None) -> None:
    """Save a fitted model if a file is given; names : of the columns, so that the next table is read alike."""
    if path is not None:
        if names is not None:
            model.columns_ = {role: names[role] for role in ("src", "dst", "time")}
        model.save(path)
        note(f"saved the model to {path}")


def give(
    frame: pl.DataFrame,
    output: Path | None,
    *,
    first: str | None = None,
    rows: int = 20,
    shown: Sequence[str] | None = None,
    computed: Sequence[str] = (),
) -> None:
    """Write a table to a file or to stdout: csv in a pipe, the first rows on a terminal.

    computed : columns that are rounded to the digits that are shown. On a terminal: first : the column to sort by, highest
    values first; rows : how many; shown : which columns.
    """
    import polars as pl

    from tdlg.io.files import without_objects, write_table, write_text

    frame = frame.with_columns(pl.col(name).round_sig_figs(SCORE_DIGITS) for name in computed if name in frame.columns)
    if output is not None and str(output) != STDOUT:
        write_table(frame, output)
        note(f"wrote {count(len(frame), 'row')} to {output}")
    elif not is_terminal(sys.stdout):
        write_text(frame, sys.stdout.buffer)
    else:
        frame = without_objects(frame)
        ordered = frame if first is None else frame.sort(first, descending=True, nulls_last=True)
        show(ordered if shown is None else ordered.select(shown), rows)
        if len(frame) > rows:
            note(f"{rows} of {count(len(frame), 'row')}; use -o FILE or a pipe to get all rows")
