"""Options: the help of each from a docstring, those that several commands share, and how their values are read."""

import inspect
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from copy import copy
from dataclasses import asdict, dataclass, field, fields, is_dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin

import typer

from tdlg.atomic import is_special
from tdlg.cli import output
from tdlg.exceptions import ParameterError

SHARED = """Options that mean the same in every command that has them.

Parameters
----------
edges : EDGES
    Table of interactions: csv, JSON lines (both may be gzipped) or parquet. Use - for stdin. With --from, a query.
database : DATABASE
    DuckDB database of which the table is queried: EDGES is then SQL, such as 'select * from payments'.
model : MODEL
    Model file that another command wrote with --save.
output : FILE
    File to write: .csv, .tsv, .jsonl or .parquet. By default the table goes to stdout.
save : MODEL
    File to save the model to, for score.
seed : NUMBER
    Random seed; the same seed gives the same result.
top : NUMBER
    Number of rows in the result.
at : TIME
    Time of the interactions to predict, for example 2024-06-01; only rows strictly before it are used. By default all
    rows are used, and the time is the latest one.
memory : SIZE
    Memory limit, for example 2GB. The table is then processed on disk, next to the output. By default this is done for
    folders of parquet files, and for files that do not fit into the free memory.
engine : ADDRESS
    Work on a Dask cluster whose scheduler has this address, for example tcp://host:8786. Table, output and temporary
    files must be on a path or a store that all machines see. By default this machine does the work.
evaluate
    Hold out known labels: random ones; the latest ones (forecast); or the latest ones, each of which counts for later
    rows from when it became known (stream).
state : DIR
    Folder with all that was scored and learnt before. A new one is made if it does not exist.
id : COLUMN
    Column or field of the event id, by which repetitions and later labels are recognised. By default an id is made of
    source, destination and time.
alerts_per_day : NUMBER
    Number of alerts that somebody can check per day. By default 20.
quiet
    Show only warnings and errors on stderr.
"""

NO_HELP = (None, "")  # of python -OO, which drops docstrings
SHORT = {"output": ("-o",), "quiet": ("-q",)}
LONG = {"database": "from"}  # which Python keeps for itself

Seed = Annotated[int, typer.Option(min=0, max=2**32 - 1)]
Count = Annotated[int, typer.Option(min=1)]
Evaluate = Literal["random", "forecast", "stream"]


# ---- groups of options, which a command gets as one argument


@dataclass(frozen=True, kw_only=True)
class Columns:
    """How a table is read.

    Parameters
    ----------
    src : COLUMN
        Source column: name or 0-based position. Common names are detected.
    dst : COLUMN
        Destination column: name or 0-based position. Common names are detected.
    time : COLUMN
        Time column, with numbers or dates: name or 0-based position. Common names are detected.
    separator : SIGN
        Column separator of a csv file, for example ';'. Detected by default.
    time_format : FORMAT
        Format of the dates, for example '%d/%m/%Y'. Detected by default.
    time_unit
        Read numeric times as dates: the unit in which they count from 1970. By default they stay numbers.
    """

    src: str | None = None
    dst: str | None = None
    time: str | None = None
    separator: str | None = None
    time_format: str | None = None
    time_unit: Literal["s", "ms", "us", "ns"] | None = None


@dataclass(frozen=True, kw_only=True)
class EdgeColumns(Columns):
    """How a table is read, of which no model knows yet whether it has two kinds of nodes.

    Parameters
    ----------
    bipartite
        Treat sources and destinations as separate sets of nodes: user 1 and item 1 are different nodes.
    """

    bipartite: bool = False


@dataclass(frozen=True, kw_only=True)
class FeatureColumns(EdgeColumns):
    """How a table with features is read.

    Parameters
    ----------
    features : A,B
        Columns to use as features, for example amount,channel; none for no features. By default all columns of numbers
        or of few words, except ids, dates and columns that give the label away; all takes the last ones too. Text is
        used as categories.
    categories : A,B
        Columns of codes to use as categorical features, even if they are numbers, for example mcc,country.
    """

    features: str | None = None
    categories: str | None = None


@dataclass(frozen=True, kw_only=True)
class Labels:
    """How labels are read, if there are any.

    Parameters
    ----------
    label : COLUMN
        Column with known labels of earlier rows, which a model with --setting stream uses for later rows. By default no
        labels are used.
    positive : CONDITION
        Positive class: a label value such as fraud, or a condition such as '> 0'. By default the larger of two numbers,
        else the rarest label.
    missing : WORDS
        Additional words that mark a missing label, for example '?,unknown'. Empty cells, NA, null and similar words
        always do.
    label_time : COLUMN
        Column of the times at which the labels became known, for example chargeback_at; it may be empty where the label
        is missing. By default labels count as known at the time of their row.
    label_delay : DURATION
        Time from a row to its label, for example 7d, or a number if the times are numbers. By default there is no delay.
    """

    label: str | None = None
    positive: str | None = None
    missing: str | None = None
    label_time: str | None = None
    label_delay: str | None = None

    def __post_init__(self) -> None:
        if self.label_time is not None and self.label_delay is not None:
            raise wrong("--label-delay", "it says the same as --label-time in another way. Leave out one of the two.")
        _ = self.delay
        for name, value in asdict(self).items():
            if self.label is None and value is not None:
                problem = "it needs --label, which is missing. Give the label column with --label."
                raise wrong(f"--{name.replace('_', '-')}", problem)

    @property
    def delay(self) -> str | float | None:
        """The delay as the library takes it."""
        return duration(self.label_delay, "--label-delay", zero=True)

    @property
    def are_late(self) -> bool:
        """Whether it is given when they became known."""
        return self.label_time is not None or self.label_delay is not None

    def as_given(self) -> dict[str, Any]:
        """The arguments of functions of the library that read labels."""
        words = None if self.missing is None else self.missing.split(",")
        return asdict(self) | {"missing": words, "label_delay": self.delay}


@dataclass(frozen=True, kw_only=True)
class NeededLabels(Labels):
    """How labels are read, without which the command cannot work.

    Parameters
    ----------
    label : COLUMN
        Label column: name or 0-based position.
    """

    label: str = field()


@dataclass(frozen=True, kw_only=True)
class EventFields:
    """How events are read.

    Parameters
    ----------
    src : FIELD
        Field of the source, for example customer. Stored with the state.
    dst : FIELD
        Field of the destination, for example terminal. Stored with the state.
    time : FIELD
        Field of the time, for example when. Stored with the state.
    """

    src: str | None = None
    dst: str | None = None
    time: str | None = None
    id: str | None = None


@dataclass(frozen=True, kw_only=True)
class LiveOptions:
    """How events are scored and kept.

    Parameters
    ----------
    alerts_per_day : NUMBER
        Number of alerts that somebody can check per day. By default 20.
    threshold : SCORE
        Score from which on an event is an alert. By default as many events as --alerts-per-day reach it.
    explore : NUMBER
        Number of other events per day that are drawn and put among the alerts, unmarked, so that the desk knows its recall
        and a refit what alerts alone cannot tell. By default none; 0 ends it.
    late
        What to do with events that are before the latest one: score them as of now (default), or refuse.
    ahead : DURATION
        How far an event may be ahead of the latest one, for example 30d; a later one is refused. By default twice the
        longest time scale. Events that are not in the future are always accepted.
    keep : DURATION
        How long the log is kept, for example 400d. By default all of it is kept.
    allow_missing
        Whether an event may lack the field of a feature. By default it is refused: what is unknown is null.
    """

    alerts_per_day: float | None = None
    threshold: float | None = None
    explore: float | None = None
    late: Literal["score", "refuse"] | None = None
    ahead: str | None = None
    keep: str | None = None
    allow_missing: bool | None = None


# ---- from a signature and its docstrings to options


def documented(docstring: str | None) -> dict[str, tuple[str | None, str]]:
    """The placeholder and the help of each parameter, as a docstring has them."""
    _, _, section = inspect.cleandoc(docstring or "").partition("Parameters\n----------\n")
    found = re.findall(r"^(\w+)(?: : (.+))?\n((?:(?: {4}.*)?\n)*(?: {4}.*)?)", section, re.MULTILINE)
    return {name: (placeholder or None, " ".join(text.split())) for name, placeholder, text in found}


def as_options(function: Callable[..., None]) -> tuple[Callable[..., None], str]:
    """A command with an option for each parameter, also for each field of those that are groups; and what it is for."""
    texts = documented(SHARED)
    groups: dict[str, type[Any]] = {}
    flat = []
    for one in inspect.signature(function, eval_str=True).parameters.values():
        if is_dataclass(one.annotation):
            group: Any = one.annotation
            groups[one.name] = group
            flat += [(each, True) for each in inspect.signature(group, eval_str=True).parameters.values()]
            for base in reversed(inspect.getmro(group)):
                texts |= documented(base.__dict__.get("__doc__"))
        else:
            flat.append((one, one.kind is one.KEYWORD_ONLY))
    texts |= documented(function.__doc__)
    if reads_table := any(one.name == "edges" for one, _ in flat):  # as text: a path would change a query with // in it
        flat = [(one.replace(annotation=str) if one.name == "edges" else one, is_option) for one, is_option in flat]
        kept = inspect.Parameter("database", inspect.Parameter.KEYWORD_ONLY, default=None, annotation=Path | None)
        flat.append((kept, True))

    def run(**given: Any) -> None:
        output.quiet = given.pop("quiet")
        _check_files(given)
        for name, group in groups.items():
            given[name] = group(**{each.name: given.pop(each.name) for each in fields(group)})
        if reads_table:
            from tdlg.cli.tables import queried

            text, database = given.pop("edges"), given.pop("database")
            with nullcontext(Path(text)) if database is None else queried(text, database) as edges:
                function(edges=edges, **given)
        else:
            function(**given)

    run.__name__ = function.__name__
    quiet = inspect.Parameter("quiet", inspect.Parameter.KEYWORD_ONLY, default=False, annotation=bool)
    shown = [(one, is_option, texts[one.name] if __doc__ else NO_HELP) for one, is_option in [*flat, (quiet, True)]]
    options = [_as_option(one, *text, is_option=is_option) for one, is_option, text in shown]
    run.__signature__ = inspect.Signature(options)  # type: ignore[attr-defined]
    return run, inspect.cleandoc(function.__doc__ or "").partition("Parameters\n----------\n")[0]


def _check_files(given: dict[str, Any]) -> None:
    """Refuse files that cannot be written, before any work is done."""
    from tdlg.io.files import check_folder, check_output

    table = given.get("output")
    if table is not None and str(table) != "-" and not (given.get("memory") or given.get("engine")):
        with as_usage("output", "--output"):
            check_output(table)
    for path in filter(None, (given.get("report"), given.get("save"))):
        check_folder(path)
        if path == given.get("save") and is_special(path):
            problem = f"{path}: a model is kept in a file, and this is a device or a pipe. Give another name."
            raise ParameterError(problem, parameter="save")


def _as_option(one: inspect.Parameter, placeholder: str | None, text: str, *, is_option: bool) -> inspect.Parameter:
    kind, made = one.annotation, None
    if get_origin(kind) is Annotated:  # an option with limits or completion
        kind, made = get_args(kind)
    made = copy(made) or (typer.Option() if is_option else typer.Argument())
    if is_option:
        long = "--" + LONG.get(one.name, one.name).replace("_", "-")
        long += f"/--no-{long[2:]}" if bool in get_args(kind) else ""
        made.param_decls = (*SHORT.get(one.name, ()), long)
    made.metavar, made.help = placeholder, text
    return one.replace(kind=one.KEYWORD_ONLY, annotation=Annotated[kind, made])


def example(*lines: str) -> str:
    """The example at the end of a help text; its line breaks are kept."""
    return "\b\n" + "\n".join(["Example:", *(f"  {line}" for line in lines)])


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
        problem = error.problem.removeprefix(f"The {parameter!r} ")
        raise wrong(option, problem if problem == error.problem else f"it {problem}") from None


def given_options(**options: Any) -> Any:
    """The options that were given; the library has defaults for the others."""
    return {name: value for name, value in options.items() if value is not None}
