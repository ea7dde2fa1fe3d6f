"""Options that several commands share, and how their values are read."""

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import typer

from tdlg.exceptions import ParameterError

EdgesPath = Annotated[
    Path,
    typer.Argument(
        metavar="EDGES",
        help="Table of interactions: csv, JSON lines (both may be gzipped) or parquet. Use - for stdin.",
    ),
]
ModelPath = Annotated[Path, typer.Argument(metavar="MODEL", help="Model file that another command wrote with --save.")]
ModelOrNot = Annotated[
    Path | None,
    typer.Argument(metavar="[MODEL]", help="Model file that another command wrote with --save; for a new state only."),
]
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
At = Annotated[
    str | None,
    typer.Option(
        metavar="TIME",
        help="Time of the interactions to predict, for example 2024-06-01; only rows strictly before it are used. By "
        "default all rows are used, and the time is the latest one.",
    ),
]
Memory = Annotated[
    str | None,
    typer.Option(
        metavar="SIZE",
        help="Memory limit, for example 2GB. The table is then processed on disk, next to the output. By default this "
        "is done for folders of parquet files, and for files that do not fit into the free memory.",
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
LabelColumn = Annotated[str, typer.Option(metavar="COLUMN", help="Label column: name or 0-based position.")]
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
Evaluate = Literal["random", "forecast", "stream"]
EVALUATE_HELP = (
    "Hold out known labels: random ones; the latest ones (forecast); or the latest ones, each of which counts for later "
    "rows from when it became known (stream)."
)
RankingMethod = Annotated[
    Literal["trees", "recency"] | None,
    typer.Option(
        help="trees: learnt from the table, needs LightGBM; recency: the latest partners first. By default trees if "
        "LightGBM is installed and the table is long enough."
    ),
]

# ---- of live models

StateFolder = Annotated[
    Path,
    typer.Option(
        "--state",
        metavar="DIR",
        help="Folder with all that was scored and learnt before. A new one is made if it does not exist.",
    ),
]
IdColumn = Annotated[
    str | None,
    typer.Option(
        "--id",
        metavar="COLUMN",
        help="Column or field of the event id, by which repetitions and later labels are recognised. By default an id is "
        "made of source, destination and time.",
    ),
]
Keep = Annotated[
    str | None,
    typer.Option(metavar="DURATION", help="How long the log is kept, for example 400d. By default all of it is kept."),
]
LateEvents = Annotated[
    Literal["score", "refuse"] | None,
    typer.Option(
        help="What to do with events that are before the latest one: score them as of now (default), or refuse."
    ),
]
Ahead = Annotated[
    str | None,
    typer.Option(
        metavar="DURATION",
        help="How far an event may be ahead of the latest one, for example 30d; a later one is refused. By default "
        "twice the longest time scale. Events that are not in the future are always accepted.",
    ),
]
AllowMissing = Annotated[
    bool | None,
    typer.Option(
        "--allow-missing/--no-allow-missing",
        help="Whether an event may lack the field of a feature. By default it is refused: what is unknown is null.",
        show_default=False,
    ),
]
Threshold = Annotated[
    float | None,
    typer.Option(
        help="Score from which on an event is an alert. By default as many events as --alerts-per-day reach it."
    ),
]
AlertsPerDay = Annotated[
    float | None,
    typer.Option(metavar="NUMBER", help="Number of alerts that somebody can check per day. By default 20."),
]


def field_option(role: str, example: str) -> Any:
    """An option for the name of a field of events."""
    return typer.Option(metavar="FIELD", help=f"Field of the {role}, for example {example}. Stored with the state.")


SrcField = Annotated[str | None, field_option("source", "customer")]
DstField = Annotated[str | None, field_option("destination", "terminal")]
TimeField = Annotated[str | None, field_option("time", "when")]


# ---- values


def number_or_text(text: str) -> float | str:
    """A number if the text is one, else the text: times and durations may be both."""
    try:
        return float(text)
    except ValueError:
        return text


def duration(text: str | None, option: str, *, zero: bool = False) -> float | str | None:
    """A duration such as 7d, or a number where the times are numbers, as the library takes it; zero : 0 is allowed."""
    if text is None:
        return None
    from tdlg.clock import as_seconds

    value = number_or_text(text)
    try:
        number = as_seconds(value) if isinstance(value, str) else value
    except ParameterError:
        number = -1.0
    if 0 < number < float("inf") or (zero and number == 0):
        return value
    problem = f"it must be a duration such as 7d, 12h, 30min or 90s, or a positive number. Got {text!r} instead."
    raise wrong(option, problem)


def wrong(option: str, problem: str) -> typer.BadParameter:
    """The error for an option whose value is wrong, whatever the table."""
    return typer.BadParameter(problem, param_hint=option)


@contextmanager
def as_usage(parameter: str, option: str) -> Iterator[None]:
    """Let an error of the library about this parameter be one about the option."""
    try:
        yield
    except ParameterError as error:
        if error.parameter != parameter:
            raise
        raise wrong(option, error.problem) from None


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
    """Check the options about late labels."""
    if label_time is not None and label_delay is not None:
        raise wrong("--label-delay", "it says the same as --label-time in another way. Leave out one of the two.")
    needs_label(label, label_time=label_time, label_delay=label_delay)
    late = Late(label_time, label_delay)
    _ = late.delay  # is refused before any work is done
    return late


def needs_label(label: str | None, **options: str | None) -> None:
    """Refuse options about labels, if no label column is given."""
    for name, value in options.items():
        if label is None and value is not None:
            problem = "it needs --label, which is missing. Give the label column with --label."
            raise wrong(f"--{name.replace('_', '-')}", problem)


# ---- columns


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


def with_columns(*left_out: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Add the options of `Columns`, which the command gets as one argument, but those that would have no effect on it."""
    names = [field.name for field in fields(Columns) if field.name not in left_out]

    def decorated(command: Callable[..., None]) -> Callable[..., None]:
        @wraps(command)
        def run(**given: Any) -> None:
            columns = Columns(**{name: given.pop(name) for name in names})
            command(**given, columns=columns)

        own = [one for one in inspect.signature(command, eval_str=True).parameters.values() if one.name != "columns"]
        shared = [one for name, one in inspect.signature(Columns).parameters.items() if name in names]
        every = [one.replace(kind=inspect.Parameter.KEYWORD_ONLY) for one in (*own, *shared)]
        run.__signature__ = inspect.Signature(every)  # type: ignore[attr-defined]
        return run

    return decorated


def example(*lines: str) -> str:
    """The example at the end of a help text; its line breaks are kept."""
    return "\b\n" + "\n".join(["Example:", *(f"  {line}" for line in lines)])
