"""Options that several commands share: the columns of the table, the output file and the seed."""

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

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
    "as_usage",
    "duration",
    "example",
    "given_options",
    "late_labels",
    "needs_label",
    "number_or_text",
    "with_columns",
    "with_columns_except",
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
        help="Memory limit, for example 2GB. A parquet file, or a folder of them, is then processed on disk, next to the "
        "output. By default this is done for folders, and for files that do not fit into the free memory.",
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


def duration(text: str | None, option: str, *, zero: bool = False) -> float | str | None:
    """A duration such as 7d, or a number where the times are numbers, as the library takes it.

    Parameters
    ----------
    text
        The value of the option; None if it is not given.
    option
        The name of the option, for the message.
    zero
        Whether 0 is allowed; by default it is not.
    """
    if text is None:
        return None
    from tdlg.clock import as_seconds
    from tdlg.exceptions import ParameterError

    value = number_or_text(text)
    try:
        number = as_seconds(value) if isinstance(value, str) else value
    except ParameterError:
        number = -1.0
    if 0 < number < float("inf") or (zero and number == 0):
        return value
    raise typer.BadParameter(
        f"it must be a duration such as 7d, 12h, 30min or 90s, or a positive number. Got {text!r} instead.",
        param_hint=option,
    )


@contextmanager
def as_usage(parameter: str, option: str) -> Iterator[None]:
    """Let an error of the library about this parameter be one about the option."""
    from tdlg.exceptions import ParameterError

    try:
        yield
    except ParameterError as error:
        if error.parameter != parameter:
            raise
        raise typer.BadParameter(error.problem, param_hint=option) from None


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
        return duration(self.label_delay, "--label-delay", zero=True)


def late_labels(label: str | None, label_time: str | None, label_delay: str | None) -> Late:
    """Check the options about late labels.

    Parameters
    ----------
    label, label_time, label_delay
        The values of the options; None if they are not given.
    """
    if label_time is not None and label_delay is not None:
        raise typer.BadParameter(
            "it says the same as --label-time in another way. Leave out one of the two.", param_hint="--label-delay"
        )
    needs_label(label, label_time=label_time, label_delay=label_delay)
    late = Late(label_time, label_delay)
    duration(label_delay, "--label-delay", zero=True)  # is refused before any work is done
    return late


def needs_label(label: str | None, **options: str | None) -> None:
    """Refuse options about labels, if no label column is given."""
    for name, value in options.items():
        if label is None and value is not None:
            raise typer.BadParameter(
                "it needs --label, which is missing. Give the label column with --label.",
                param_hint=f"--{name.replace('_', '-')}",
            )


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
            help="Columns to use as features, for example amount,channel; none for no features. By default all columns of "
            "numbers or of few words, except ids, dates and columns that give the label away; all takes the last ones too. "
            "Text is used as categories.",
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
    return with_columns_except()(command)


def with_columns_except(*left_out: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """A decorator like `with_columns` for a command on which these options would have no effect."""
    return lambda command: _with_columns(command, left_out)


def _with_columns(command: Callable[..., None], left_out: tuple[str, ...]) -> Callable[..., None]:
    names = [field.name for field in fields(Columns) if field.name not in left_out]
    own = [given for given in inspect.signature(command, eval_str=True).parameters.values() if given.name != "columns"]

    @wraps(command)
    def run(**given: Any) -> None:
        columns = Columns(**{name: given.pop(name) for name in names})
        command(**given, columns=columns)

    shared = [
        given.replace(kind=inspect.Parameter.KEYWORD_ONLY)
        for name, given in inspect.signature(Columns).parameters.items()
        if name in names
    ]
    mine = [given.replace(kind=inspect.Parameter.KEYWORD_ONLY) for given in own]
    run.__signature__ = inspect.Signature([*mine, *shared])  # type: ignore[attr-defined]
    return run
