"""Messages on stderr, tables on a terminal, and progress on a terminal only."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import typer

from tdlg.cli.process import check_interrupt

if TYPE_CHECKING:
    import polars as pl

__all__ = [
    "aligned",
    "count",
    "is_terminal",
    "note",
    "one_line",
    "progress",
    "red",
    "show",
    "warn",
    "working",
]

MOST_COLUMNS = 9  # of a table, shown on a terminal
CELL = 40  # characters of a value that are shown
EXACT = 1e4  # larger numbers, such as times, are shown with all digits
WIDE = "reason"  # the column that is never shortened


# ---- messages


def note(text: str) -> None:
    """Print a message on stderr."""
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
    if not is_terminal(sys.stderr):
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
    """A progress bar, updated by calls with (done, total, text); nothing if stderr is not a terminal."""
    if not is_terminal(sys.stderr):
        yield lambda done, total, text: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TextColumn("{task.description}", markup=False))
    with Progress(*columns, console=Console(stderr=True, force_terminal=True), transient=True) as bar:
        task = bar.add_task("", total=None)
        yield lambda done, total, text: bar.update(task, completed=done, total=total, description=text)
