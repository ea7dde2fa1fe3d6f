"""Tables to TemporalEdges: `read_edges` and `read_table` for csv, JSON lines and parquet, `from_frame` for any dataframe."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from tdlg.atomic import as_path
from tdlg.clock import LAST_TICK, check_unit, rounded_up, times_of
from tdlg.edges import TemporalEdges
from tdlg.exceptions import EdgesError, ReadError, warn
from tdlg.io.columns import (
    ALL,
    NONE,
    Several,
    Source,
    Which,
    choose_features,
    listed,
    listed_features,
    named_by_comment,
    roles,
    split,
    usual_at,
)
from tdlg.io.files import PARQUET, check_path, is_csv, suffix_of
from tdlg.tables.column import check_polars_works, eager_frame, row_name, short
from tdlg.tables.features import as_categories
from tdlg.tables.labels import LabelRule, without_infinity
from tdlg.tables.text import WITH_DECIMAL_COMMA, unread_number
from tdlg.tables.times import as_times, as_times_or_missing

if TYPE_CHECKING:
    import polars as pl
    from numpy.typing import NDArray

ENOUGH_TO_TELL = 100  # rows, with fewer of which nodes of one type may not be at both ends by chance
SHOWN = 10  # columns that are not used
USED_ALREADY = {
    "label": "and as a feature it would reveal the label to predict",
    "src": "which the models use already",
    "dst": "which the models use already",
    "time": "which the models use already",
    "label_time": "and as a feature it would reveal the label to predict",
}


@dataclass(frozen=True)
class Reading:
    """How a table is read: its columns, and what their values mean; see `read_edges`."""

    src: Which = None
    dst: Which = None
    time: Which = None
    label: Which = None
    missing: Iterable[Any] | None = None
    positive: str | None = None
    label_time: Which = None
    label_delay: Any = None
    weight: Which = None
    features: Several = None
    categories: Several = None
    bipartite: bool | None = None
    time_format: str | None = None
    time_unit: str | None = None
    checked: bool = True  # whether a known label without a time is refused at once, else when its time is needed
    with_ids: bool = True  # whether messages show the ids of a row, which are not always those of the user
    raw_labels: bool | None = None  # whether labels stay as they are, by default without missing and positive
    to_learn: bool = False  # this and the next three: see `read_table`
    classes: tuple[Any, Any] | None = None
    usual: Mapping[str, str] | None = None
    without_labels: bool = False

    def wanted(self) -> dict[str, Which]:
        """The column of each role, None to find or to leave it out."""
        return {role: getattr(self, role) for role in ("src", "dst", "time", "label", "label_time", "weight")}

    def wanted_of(self, source: Source) -> dict[str, Which]:
        """`wanted`, with the usual names for what is not given.

        If the table lacks one of them, it is another table: then they do not come before names that are usual anywhere.
        """
        wanted = self.wanted()
        usual = {role: name for role, name in (self.usual or {}).items() if wanted[role] is None}
        known = {role: name for role, name in usual.items() if source.names.count(name) == 1}
        if len(known) < len(usual):
            known = {role: name for role, name in known.items() if not usual_at(source.names, role)}
        return wanted | known


class Built(NamedTuple):
    """Edges; the position of the column of each role; why columns are not features, by name; and the positive class."""

    edges: TemporalEdges
    roles: dict[str, int]
    left_out: dict[str, str]
    positive: Any = None


def read_edges(
    path: str | os.PathLike[str],
    *,
    src: Which = None,
    dst: Which = None,
    time: Which = None,
    label: Which = None,
    missing: Iterable[Any] | None = None,
    positive: str | None = None,
    label_time: Which = None,
    label_delay: Any = None,
    weight: Which = None,
    features: Several = None,
    categories: Several = None,
    bipartite: bool | None = None,
    separator: str | None = None,
    header: bool | None = None,
    time_format: str | None = None,
    time_unit: str | None = None,
) -> TemporalEdges:
    r"""Read temporal edges from a csv file or JSON lines (.jsonl, .ndjson), also gzipped, or a parquet file (.parquet, .pq).

    In a csv file, lines that start with % or # and blank lines are skipped, and blanks around a value are removed; quoted
    text is otherwise kept as it is. A column of whole numbers becomes integers, unless some start with a 0, as codes do.
    The ids of `src` and `dst` become integers only if both columns are integers, or if `bipartite`. A file with a header
    and no rows gives zero edges; a file without any line, or with comments only, is an error.

    In JSON lines, each line is an object whose keys are the names of the columns; a key that a line lacks is a missing
    value. Values keep their JSON types, except that the ids of `src` and `dst` get one type as above, and that a column of
    several types, or of integers beyond int64, is read like the same text in a csv file. A column of objects or lists
    cannot be read.

    A gzipped file may unpack to 100 times its size or to 200 MB, whichever is more, so that a small file cannot fill the
    memory. The environment variable TDLG_MAX_UNPACKED sets another number of bytes in place of the 200 MB.

    Parameters
    ----------
    path
        The file, or a pipe; a ~ at the start is the user's folder. A name that does not end in .jsonl, .ndjson, .json,
        .parquet or .pq is read as csv.
    src, dst, time
        The columns, by name or 0-based position. By default they are detected by common names (source, user_id, target,
        timestamp, ...) in the header or in a comment above the first row, such as "# FromNodeId ToNodeId"; without names
        they are the columns 0, 1 and, if there are three columns, 2.
    label, weight
        The columns of the label and the weight, by name or position. By default the edges have no labels and no weights.
    missing
        Values of the label column that mark a missing label beside empty cells, NA, null and similar words, for example
        ["?", "pending"] or [2]; in any case of letters. By default there are no others.
    positive
        The positive class: a label value such as "fraud", or a condition such as "> 0" (>, >=, <, <=, ==, !=). Words and two
        different numbers keep their values, several other words become "not fraud"; more numbers become 1 where the
        condition holds and 0 elsewhere. By default labels keep their values.
    label_time
        The column of the times at which the labels became known, by name or position, in the same form as the times. It
        may be empty where the label is missing. By default each label counts as known at the time of its edge.
    label_delay
        Instead of `label_time`, the time from each edge to its label: a duration such as "7d" if the times are datetimes,
        else a number.
    features
        The columns of the features: a list of names or positions, or one of them; [] for none. By default all other columns
        of numbers, of truth values and of at most 100 different words, except ids, dates, and those that give the label
        away, with a warning that names them. If several columns share a name, the position is added to it. The columns of
        `src`, `dst`, `time`, `label` and `label_time` are refused. Numbers stay numbers and text becomes categories. Numbers
        with a decimal comma are read where columns are separated by ;, | or tab; else, and with other thousands separators,
        they are text, with a warning.
    categories
        The columns of features that are codes and not amounts, such as merchant category codes: a list of names or
        positions, or one of them. Their values become categories as they are written. They need not be listed in
        `features` too.
    bipartite
        Whether `src` and `dst` are nodes of two types, see `TemporalEdges`. By default they are if the table has at least
        100 rows and no id is in both columns.
    separator
        The separator between the columns of a csv file, one or more characters; " " for any run of blanks. By default it
        is detected from the first lines.
    header
        Whether the first line of a csv file has the column names. By default it has if it contains no number or date.
    time_format
        The format of the times, as in `datetime.strptime`, if they are text or whole numbers such as 20200131. By default
        numbers stay numbers and dates are read in their common forms; a date such as 03/04/2020 is read only if another
        row shows which number is the day.
    time_unit
        The unit of numeric times since 1970 ("s", "ms", "us" or "ns"), to convert them to datetimes. By default they stay
        numbers.

    Returns
    -------
    TemporalEdges
        The edges in the order of the file.

    Raises
    ------
    ReadError
        If the file is missing or damaged or lacks a column; the message shows the row and says what to do.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "payments.csv"
    >>> _ = path.write_text("payer,payee,date,fraud\nann,bob,2020-01-31,0\nbob,cat,2020-02-01,1\n")
    >>> read_edges(path, label="fraud")
    TemporalEdges(2 edges, 3 nodes, 2020-01-31 to 2020-02-01, label: 2 values)
    """
    of_labels = label, missing, positive, label_time, label_delay
    how = Reading(src, dst, time, *of_labels, weight, features, categories, bipartite, time_format, time_unit)
    return build_edges(file_source(as_path(path), separator, header, time_format), how).edges


def from_frame(
    frame: Any,
    *,
    src: Which = None,
    dst: Which = None,
    time: Which = None,
    label: Which = None,
    missing: Iterable[Any] | None = None,
    positive: str | None = None,
    label_time: Which = None,
    label_delay: Any = None,
    weight: Which = None,
    features: Several = None,
    categories: Several = None,
    bipartite: bool | None = None,
    time_format: str | None = None,
    time_unit: str | None = None,
) -> TemporalEdges:
    """Read temporal edges from a dataframe: pandas, polars (also lazy), pyarrow, or any object that exports Arrow columns.

    Parameters
    ----------
    frame
        The dataframe, one row per edge.
    src, dst, time, label, missing, positive, label_time, label_delay, weight, features, categories, bipartite
        The same as for `read_edges`.
    time_format, time_unit
        The same as for `read_edges`.

    Returns
    -------
    TemporalEdges
        The edges in the order of the rows.

    Raises
    ------
    ReadError
        If it is not a dataframe, lacks a column, or has a row that is not a valid edge.

    Examples
    --------
    >>> import polars as pl
    >>> frame = pl.DataFrame({"user": [1, 2], "item": [1, 1], "ts": [0.5, 2.5], "stars": [5, 3]})
    >>> from_frame(frame, label="stars", bipartite=True)
    TemporalEdges(2 edges, 3 nodes, time 0.5 to 2.5, label: 2 values, bipartite)
    """
    of_labels = label, missing, positive, label_time, label_delay
    how = Reading(src, dst, time, *of_labels, weight, features, categories, bipartite, time_format, time_unit)
    try:
        source = frame_source(frame)
    except EdgesError as error:
        raise error.as_kind(ReadError, error.problem) from None
    return build_edges(source, how).edges


class Table:
    """A table and its edges; made by `read_table`.

    Attributes
    ----------
    edges
        Its rows as edges.
    names
        The name of the column for each role: src, dst, time, label, label_time.
    unused
        The columns that are neither a role nor a feature, and why; without a reason if the caller decided it.
    positive
        The positive class that a condition gives; None without a condition.
    """

    def __init__(self, source: Source, built: Built) -> None:
        self._source, self.edges, self.positive = source, built.edges, built.positive
        role_of = {at: role for role, at in built.roles.items()}
        self._columns = [
            (name if source.names.index(name) == at else f"{name} (column {at})")
            if source.has_names
            else role_of.get(at, f"column_{at}")
            for at, name in enumerate(source.names)
        ]
        self.names = {role: self._columns[at] for role, at in built.roles.items()}
        features = set(built.edges.feature_names)
        self.unused = {
            shown: built.left_out.get(name, "")
            for at, (name, shown) in enumerate(zip(source.names, self._columns, strict=True))
            if at not in role_of and not {name, f"{name} (column {at})"} & features
        }

    @cached_property
    def frame(self) -> pl.DataFrame:
        """All columns as they are: text for csv, except for blanks around the values; with their types in other formats."""
        import polars as pl

        every = list(range(len(self._columns)))
        read = self._source.read(every, set(), set(every))
        return pl.DataFrame({name: read[at] for at, name in enumerate(self._columns)})

    def with_columns(self, **added: Any) -> pl.DataFrame:
        """The table with these columns added; a name that is taken gets a number."""
        import polars as pl

        return self.frame.with_columns(pl.Series(self.free_name(name), values) for name, values in added.items())

    def free_name(self, name: str) -> str:
        """The name for an added column, with a number if the name is taken."""
        return next(n for n in (name, *(f"{name}_{k}" for k in range(2, 1000))) if n not in self._columns)


def unused_in_words(unused: Mapping[str, str]) -> str:
    """The columns that are not used, and why."""
    few, n_more = list(unused.items())[:SHOWN], len(unused) - SHOWN
    return ", ".join([f"{name} ({why})" if why else name for name, why in few] + [f"{n_more} more"] * (n_more > 0))


def read_table(
    path: str | os.PathLike[str],
    *,
    separator: str | None = None,
    header: bool | None = None,
    to_learn: bool = False,
    classes: tuple[Any, Any] | None = None,
    usual: Mapping[str, str] | None = None,
    without_labels: bool = False,
    **columns: Any,
) -> Table:
    r"""Read a table of interactions with all its columns, to add some to it.

    Parameters
    ----------
    path, separator, header, columns
        The same as for `read_edges`.
    to_learn
        Whether labels are refused that nothing can be learnt from: of fewer than two classes, or numbers that are no
        classes. False by default.
    classes
        The two classes of a fitted model, the positive one last, which a condition in `positive` refers to. By default they
        are found in the labels.
    usual
        Names of the columns of src, dst and time that are looked for before common names, where no column is given. By
        default there are none.
    without_labels
        Whether columns that are named like labels (label, is_fraud, class, attack, ...) are left out of the features that
        are chosen by default. False by default; for models without labels, which a label among the features would make
        look better than they are.

    Returns
    -------
    Table
        Its edges, the names of their columns, and the table itself, which is read when it is first needed. Columns that are
        not used are in `unused` with the reason, and no warning names them.

    Raises
    ------
    ReadError
        As `read_edges`, and if the table has no rows.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "payments.csv"
    >>> _ = path.write_text("payer,payee,date,note,stars\nann,bob,2020-01-31,x,5\nbob,cat,2020-02-01,y,1\n")
    >>> table = read_table(path, label="stars", positive="> 3", features="none")
    >>> table.edges.label.tolist(), table.names["src"], list(table.unused)
    ([1.0, 0.0], 'payer', ['note'])
    >>> table.with_columns(score=[0.9, 0.1]).columns
    ['payer', 'payee', 'date', 'note', 'stars', 'score']
    """
    special: Any = {"to_learn": to_learn, "classes": classes, "usual": usual, "without_labels": without_labels}
    how = Reading(**columns, raw_labels=False, **special)
    source = file_source(as_path(path), separator, header, how.time_format)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The (column|feature) '")  # what is not used, and why, is in `unused`
        built = build_edges(source, how)
    if not len(built.edges):
        raise ReadError(f"{path}: the table has a header and no rows.")
    return Table(source, built)


# ---- from an open table to edges


def build_edges(source: Source, how: Reading) -> Built:
    """Make edges from a table that is already open."""
    check_unit("read_edges and from_frame", how.time_unit)
    named = [] if isinstance(how.features, str) and how.features in (ALL, NONE) else split(source, how.features)
    source = named_by_comment(source, [*how.wanted().values(), *named, *split(source, how.categories)])
    at = roles(source, how.wanted_of(source))
    used, codes, left_out = _features(source, how, at)
    alike = set() if how.bipartite else {at["src"], at["dst"]}
    dated = [at[role] for role in ("time", "label_time") if role in at]
    as_is = {*codes, *([] if how.time_format is None else dated)}
    columns = source.read(sorted({*at.values(), *used}), alike, as_is)
    for k in (at["src"], at["dst"]):
        if _is_misread_id(columns[k], source, k):
            columns |= source.read([k], set(), {k})
    parts = {role: columns[position] for role, position in at.items()}
    names = dict(zip(used, _unlike(source, used), strict=True))
    positive = None
    try:
        made = {role: column for role, column in parts.items() if role != "label_time"}
        made["time"] = times_of(*as_times(parts["time"], "time", how.time_format, how.time_unit))
        chosen = {name: as_categories(columns[k], name) if k in codes else columns[k] for k, name in names.items()}
        edges = TemporalEdges(**made, features=chosen, bipartite=bool(how.bipartite))
        if how.bipartite is None and len(edges) >= ENOUGH_TO_TELL and not edges.shares_nodes:
            edges = TemporalEdges(**made, features=chosen, bipartite=True)
        if "label" in at:
            edges, positive = _with_rule(edges, how, source.names[at["label"]])
        if "label_time" in parts or how.label_delay is not None:
            late = _label_times(parts["label_time"], how) if "label_time" in parts else None
            dated_edges = edges.unchecked_labels(edges.label, late, how.label_delay)
            edges = dated_edges.with_label(edges.label) if how.checked else dated_edges
    except EdgesError as error:
        problem = error.problem
        if error.row is not None:
            shown = {role: column for role, column in parts.items() if how.with_ids or role not in ("src", "dst")}
            values = ", ".join(f"{role}: {short(_item(column, error.row))}" for role, column in shown.items())
            problem = problem.replace(row_name(error.row), f"data row {error.row + 1} ({values})")
        raise error.as_kind(ReadError, f"{source.origin}: {problem}") from None
    for name, words in edges.feature_categories.items():
        number = None if name in {names[k] for k in codes} else unread_number(words)
        if number is not None:
            warn(
                f"The feature {name!r} is read as {len(words):,} different words, such as {number!r}. "
                f"To have numbers, write them as 1234.56."
            )
    return Built(edges, at, {source.names[k]: why for k, why in left_out.items()}, positive)


def _features(source: Source, how: Reading, at: dict[str, int]) -> tuple[list[int], list[int], dict[int, str]]:
    """The positions of features, those of them that are codes, and why other columns are none."""
    used, codes = listed_features(source, how.features, how.categories)
    left_out: dict[int, str] = {}
    if used is None:
        source.prepare(list(range(len(source.names))))
        others = [k for k in range(len(source.names)) if k not in {*at.values(), *codes}]
        is_told = "label" in at and how.features is None  # by the label columns are left out that give it away
        label = source.read([at["label"]], set(), set())[at["label"]] if is_told else None
        without_labels = how.without_labels and how.features is None
        columns = source.read(others, set(), set())
        used, left_out = choose_features(columns, source.names, label, without_labels=without_labels)
    used = [*used, *(k for k in dict.fromkeys(codes) if k not in used)]
    for role, why in USED_ALREADY.items():
        if role in at and at[role] in used:
            raise ReadError(
                f"{source.origin}: The column {source.names[at[role]]!r} is the '{role}', {why}.",
                "Leave it out of features=.",
                parameter="features",
            )
    return used, codes, left_out


def _with_rule(edges: TemporalEdges, how: Reading, column: str) -> tuple[TemporalEdges, Any]:
    """The edges with labels as conditions and words for missing ones define them, and the positive class."""
    is_raw = how.missing is None and how.positive is None if how.raw_labels is None else how.raw_labels
    if is_raw or edges.label is None:
        return edges, None
    rule = LabelRule(how.positive, None if how.missing is None else tuple(listed(how.missing)), column)
    labels: NDArray[Any] | None
    if how.to_learn:
        labels, positive = rule.to_learn(edges.label)
    else:
        must_hold = how.positive is not None and how.classes is None and bool(edges.labelled.any())
        labels, positive = rule.read(edges.label, to_learn=must_hold, classes=how.classes)
    if labels is None:
        labels = np.full(len(edges), np.nan)
    return (edges if labels is edges.label else edges.with_label(labels)), positive


def _label_times(column: Any, how: Reading) -> Any:
    """The column as numbers or datetimes that may be missing; numbers in a unit become datetimes, rounded up."""
    column, never = without_infinity(column)
    ticks, unit, missing = as_times_or_missing(column, "label_time", how.time_format)
    if unit is None and how.time_unit is None:
        return np.where(never, np.inf, np.where(missing, np.nan, ticks)) if missing.any() else ticks
    whole = rounded_up(ticks, None, None, np.dtype(np.int64)) if unit is None else ticks.copy()
    whole[missing], whole[never] = np.iinfo(np.int64).min, LAST_TICK
    return times_of(whole, unit or how.time_unit)  # the least integer is NaT


def _is_misread_id(column: Any, source: Source, at: int) -> bool:
    """Whether ids of a file without types were read as truth values, or as numbers with a decimal comma."""
    kind = str(getattr(column, "dtype", ""))
    if kind == "Float64" and source.separator in WITH_DECIMAL_COMMA:
        return bool(source.read([at], set(), {at})[at].str.contains(",").any())
    return kind == "Boolean"


def _unlike(source: Source, positions: list[int]) -> list[str]:
    """Names of the columns at these positions, with the position added to a name that occurs twice."""
    names = [source.names[k] for k in dict.fromkeys(positions)]
    return [
        source.names[k] if names.count(source.names[k]) == 1 else f"{source.names[k]} (column {k})" for k in positions
    ]


def _item(column: Any, row: int) -> Any:
    value = column.iloc[row] if hasattr(column, "iloc") else column[row]
    if isinstance(value, np.generic):
        return value.item()
    plain = getattr(value, "as_py", None) or getattr(value, "to_list", None)  # values of pyarrow; lists in polars
    return value if plain is None else plain()


# ---- sources


def file_source(
    path: Path, separator: str | None = None, header: bool | None = None, time_format: str | None = None, least: int = 3
) -> Source:
    """Open a file by the type that its name shows, csv by default; see `csv_source` for the other parameters."""
    check_polars_works(f"The file {path}", ReadError)
    check_path(path)
    if is_csv(path):  # a kind of file is imported where it is read
        from tdlg.io.csv import csv_source

        return csv_source(path, separator, header, time_format, least)
    is_parquet = suffix_of(path) in PARQUET
    for name, value in {"separator": separator, "header": header}.items():
        if value is not None:
            raise ReadError(
                f"{path}: The {name!r} is for csv files, and this is {'parquet' if is_parquet else 'JSON lines'}. "
                f"Got {value!r}.",
                f"Leave out {name}=.",
                parameter=name,
            )
    if is_parquet:
        from tdlg.io.parquet import parquet_source

        return parquet_source(path)
    from tdlg.io.json import jsonl_source

    return jsonl_source(path)


def frame_source(frame: Any) -> Source:
    """A dataframe as a table; see `from_frame`."""
    eager = eager_frame(frame, "frame")
    keys = eager.columns

    def read(positions: list[int], _alike: set[int], _text: set[int]) -> dict[int, Any]:
        return {position: eager.get_column(keys[position]).to_native() for position in positions}

    return Source("The frame", [str(key) for key in keys], True, [], read)
