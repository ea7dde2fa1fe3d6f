"""The options that several commands share: which columns of a table are what, where the answer goes, the seed."""

import inspect
from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

__all__ = [
    "Columns",
    "EdgesPath",
    "Evaluate",
    "Missing",
    "ModelPath",
    "Output",
    "Positive",
    "Seed",
    "Top",
    "example",
    "with_columns",
]

EdgesPath = Annotated[
    Path,
    typer.Argument(
        metavar="EDGES", help="Table of interactions: csv or JSON lines, also gzipped, or parquet; - for stdin."
    ),
]
ModelPath = Annotated[Path, typer.Argument(metavar="MODEL", help="Model that another command wrote with --save.")]
Output = Annotated[
    Path | None,
    typer.Option(
        "-o", "--output", metavar="FILE", help="File to write: .csv, .tsv, .jsonl or .parquet. Default: stdout."
    ),
]
Seed = Annotated[
    int,
    typer.Option(min=0, max=2**32 - 1, help="Of all that is drawn at random: the same seed, the same answer."),
]
Top = Annotated[int, typer.Option(min=1, help="How many to give.")]
Positive = Annotated[str | None, typer.Option(metavar="CONDITION", help='What counts as 1: a value, or such as "> 0".')]
Missing = Annotated[
    str | None, typer.Option(metavar="WORDS", help="More words for a label that is not known, such as '?,unknown'.")
]
Evaluate = Literal["random", "time"]


@dataclass(frozen=True)
class Columns:
    """How the table of interactions is to be read."""

    src: Annotated[
        str | None,
        typer.Option(metavar="COLUMN", help="Of the source: a name, or a position from 0. Usual names are found."),
    ] = None
    dst: Annotated[str | None, typer.Option(metavar="COLUMN", help="Of the destination.")] = None
    time: Annotated[str | None, typer.Option(metavar="COLUMN", help="Of the time: numbers or dates.")] = None
    features: Annotated[
        str | None,
        typer.Option(metavar="A,B", help="Columns with more about each interaction, such as amount,channel."),
    ] = None
    categories: Annotated[
        str | None,
        typer.Option(metavar="A,B", help="Features that are codes and not amounts, such as mcc,country."),
    ] = None
    bipartite: Annotated[
        bool, typer.Option("--bipartite", help="Sources and destinations are of two kinds: user 1 is not item 1.")
    ] = False
    separator: Annotated[
        str | None, typer.Option(metavar="SIGN", help="Between the columns of a csv file, if not found.")
    ] = None
    time_format: Annotated[
        str | None, typer.Option(metavar="FORMAT", help='How dates are written, if not found: "%d/%m/%Y".')
    ] = None
    time_unit: Annotated[
        Literal["s", "ms", "us", "ns"] | None, typer.Option(help="Unit of times that are numbers since 1970.")
    ] = None


def example(*lines: str) -> str:
    """What stands below a help, its lines as they are."""
    return "\b\n" + "\n".join(["Example:", *(f"  {line}" for line in lines)])


def with_columns(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options of `Columns`, which it gets as one argument, `columns`."""
    names = [field.name for field in fields(Columns)]
    own = [given for given in inspect.signature(command, eval_str=True).parameters.values() if given.name != "columns"]

    @wraps(command)
    def run(**given: Any) -> None:
        columns = Columns(**{name: given.pop(name) for name in names})
        command(**given, columns=columns)

    shared = [
        given.replace(kind=inspect.Parameter.KEYWORD_ONLY) for given in inspect.signature(Columns).parameters.values()
    ]
    mine = [given.replace(kind=inspect.Parameter.KEYWORD_ONLY) for given in own]
    run.__signature__ = inspect.Signature([*mine, *shared])  # type: ignore[attr-defined]
    return run
