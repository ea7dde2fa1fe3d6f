"""Options that several commands share: the columns of the table, the output file and the seed."""

import inspect
from collections.abc import Callable
from copy import copy
from dataclasses import dataclass, fields
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, get_args

import typer

__all__ = [
    "Columns",
    "EdgesPath",
    "EngineAddress",
    "Evaluate",
    "KnownLabel",
    "LabelDelay",
    "LabelTime",
    "Late",
    "Memory",
    "Missing",
    "ModelPath",
    "Output",
    "Positive",
    "Save",
    "Seed",
    "Top",
    "example",
    "given_options",
    "late_labels",
    "number_or_text",
    "with_columns",
    "with_columns_called",
]

EdgesPath = Annotated[
    Path,
    typer.Argument(
        metavar="EDGES",
        help="Table of interactions: csv, JSON lines (both may be gzipped) or parquet. Use - for stdin.",
    ),
]
ModelPath = Annotated[Path, typer.Argument(metavar="MODEL", help="Model file that another command wrote with --save.")]
Output = Annotated[
    Path | None,
    typer.Option(
        "-o",
        "--output",
        metavar="FILE",
        help="File to write: .csv, .tsv, .jsonl or .parquet. By default the table goes to stdout.",
    ),
]
Save = Annotated[Path | None, typer.Option(metavar="MODEL", help="File to save the model to, for score.")]
Seed = Annotated[
    int,
    typer.Option(min=0, max=2**32 - 1, help="Random seed; the same seed gives the same result."),
]
Top = Annotated[int, typer.Option(min=1, help="Number of rows in the result.")]
Memory = Annotated[
    str | None,
    typer.Option(
        metavar="SIZE",
        help="Work within this memory, for example 2GB, by way of temporary files beside the output: for a parquet file, or "
        "a folder of them, with more rows than fit. By default this is done where a table does not fit into the free "
        "memory, and for folders.",
    ),
]
EngineAddress = Annotated[
    str | None,
    typer.Option(
        "--engine",
        metavar="ADDRESS",
        help="Work on a Dask cluster whose scheduler has this address, for example tcp://host:8786. Table, output and "
        "temporary files must be on a path or a store that all machines see. By default this machine does the work.",
    ),
]
Positive = Annotated[
    str | None,
    typer.Option(
        metavar="CONDITION",
        help="Positive class: a label value such as fraud, or a condition such as '> 0'. By default the larger of two "
        "numbers, else the rarest label.",
    ),
]
Missing = Annotated[
    str | None,
    typer.Option(
        metavar="WORDS",
        help="Additional words that mark a missing label, for example '?,unknown'. Empty cells, NA, null and similar words "
        "always do.",
    ),
]
KnownLabel = Annotated[
    str | None,
    typer.Option(
        metavar="COLUMN",
        help="Column with known labels of earlier rows, which a model with --setting stream uses for later rows. By "
        "default no labels are used.",
    ),
]
LabelTime = Annotated[
    str | None,
    typer.Option(
        metavar="COLUMN",
        help="Column of the times at which the labels became known, for example chargeback_at; it may be empty where the "
        "label is missing. By default labels count as known at the time of their row.",
    ),
]
LabelDelay = Annotated[
    str | None,
    typer.Option(
        metavar="DURATION",
        help="Time from a row to its label, for example 7d, or a number if the times are numbers. By default there is no "
        "delay.",
    ),
]
Evaluate = Literal["random", "time"]


def number_or_text(text: str) -> float | str:
    """A number if the text is one, else the text: times and durations may be both."""
    try:
        return float(text)
    except ValueError:
        return text


def given_options(**options: Any) -> Any:
    """The options that were given; the library has defaults for the others."""
    return {name: value for name, value in options.items() if value is not None}


class Late(NamedTuple):
    """When labels became known: the values of --label-time and --label-delay."""

    label_time: str | None = None
    label_delay: str | None = None

    @property
    def delay(self) -> str | float | None:
        """The delay as the library takes it."""
        return None if self.label_delay is None else number_or_text(self.label_delay)


def late_labels(label: str | None, label_time: str | None, label_delay: str | None) -> Late:
    """Check the options about late labels.

    Parameters
    ----------
    label, label_time, label_delay
        The values of the options; None if they are not given.
    """
    given = "--label-delay" if label_time is None else "--label-time"
    if label_time is not None and label_delay is not None:
        raise typer.BadParameter(
            "it says the same as --label-time in another way. Leave out one of the two.", param_hint="--label-delay"
        )
    if label is None and (label_time is not None or label_delay is not None):
        raise typer.BadParameter(
            "it needs --label, which is missing. Give the label column with --label.", param_hint=given
        )
    return Late(label_time, label_delay)


@dataclass(frozen=True)
class Columns:
    """Options for reading the table of interactions."""

    src: Annotated[
        str | None,
        typer.Option(metavar="COLUMN", help="Source column: name or 0-based position. Common names are detected."),
    ] = None
    dst: Annotated[
        str | None,
        typer.Option(metavar="COLUMN", help="Destination column: name or 0-based position. Common names are detected."),
    ] = None
    time: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN",
            help="Time column, with numbers or dates: name or 0-based position. Common names are detected.",
        ),
    ] = None
    features: Annotated[
        str | None,
        typer.Option(
            metavar="A,B",
            help="Columns to use as features, for example amount,channel. Text is used as categories. By default no "
            "features are used.",
        ),
    ] = None
    categories: Annotated[
        str | None,
        typer.Option(
            metavar="A,B",
            help="Columns of codes to use as categorical features, even if they are numbers, for example mcc,country.",
        ),
    ] = None
    bipartite: Annotated[
        bool,
        typer.Option(
            "--bipartite",
            help="Treat sources and destinations as separate sets of nodes: user 1 and item 1 are different nodes.",
        ),
    ] = False
    separator: Annotated[
        str | None,
        typer.Option(metavar="SIGN", help="Column separator of a csv file, for example ';'. Detected by default."),
    ] = None
    time_format: Annotated[
        str | None,
        typer.Option(metavar="FORMAT", help="Format of the dates, for example '%d/%m/%Y'. Detected by default."),
    ] = None
    time_unit: Annotated[
        Literal["s", "ms", "us", "ns"] | None,
        typer.Option(
            help="Read numeric times as dates: the unit in which they count from 1970. By default they stay numbers."
        ),
    ] = None


def example(*lines: str) -> str:
    """The example at the end of a help text; its line breaks are kept."""
    return "\b\n" + "\n".join(["Example:", *(f"  {line}" for line in lines)])


def with_columns(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options of `Columns` to a command, which receives them as one argument, `columns`."""
    return with_columns_called()(command)


def with_columns_called(**other_names: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """A decorator like `with_columns` for a command in which some of these options have other names.

    Parameters
    ----------
    other_names
        The names of options, such as "--src-column", by the name of the parameter.
    """
    return lambda command: _with_columns(command, other_names)


def _with_columns(command: Callable[..., None], other_names: dict[str, str]) -> Callable[..., None]:
    names = [field.name for field in fields(Columns)]
    own = [given for given in inspect.signature(command, eval_str=True).parameters.values() if given.name != "columns"]

    @wraps(command)
    def run(**given: Any) -> None:
        columns = Columns(**{name: given.pop(name) for name in names})
        command(**given, columns=columns)

    shared = [
        _called(given, other_names.get(given.name)).replace(kind=inspect.Parameter.KEYWORD_ONLY)
        for given in inspect.signature(Columns).parameters.values()
    ]
    mine = [given.replace(kind=inspect.Parameter.KEYWORD_ONLY) for given in own]
    run.__signature__ = inspect.Signature([*mine, *shared])  # type: ignore[attr-defined]
    return run


def _called(parameter: inspect.Parameter, name: str | None) -> inspect.Parameter:
    """A parameter whose option has another name; the same one for None."""
    if name is None:
        return parameter
    kind, option = get_args(parameter.annotation)
    renamed = copy(option)
    renamed.param_decls = (name,)
    return parameter.replace(annotation=Annotated[kind, renamed])
