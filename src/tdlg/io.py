"""Files and dataframes to TemporalEdges: `read_edges` for csv and parquet, `from_frame` for any dataframe."""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tdlg._columns.files import Source, csv_source
from tdlg._columns.frames import frame_source, parquet_source
from tdlg._columns.take import as_column, row_name
from tdlg._columns.times import UNITS, as_times, from_numbers
from tdlg.edges import TemporalEdges
from tdlg.exceptions import EdgesError, ReadError

__all__ = ["from_frame", "read_edges"]

Which: TypeAlias = "str | int | None"
Several: TypeAlias = "Which | Iterable[str | int] | NDArray[Any]"

USUAL_NAMES = {
    "src": "src source source_id from from_id from_node from_node_id fromnodeid from_address u user user_id userid "
    "sender sender_id payer rater reviewer follower buyer customer head node1 i",
    "dst": "dst dest destination target target_id tgt to to_id to_node to_node_id tonodeid to_address v item "
    "item_id itemid receiver receiver_id recipient payee ratee reviewee followee seller product tail node2 j",
    "time": "time timestamp ts t date datetime unixtime unix_time epoch created created_at time_stamp",
}


def read_edges(
    path: str | os.PathLike[str],
    *,
    src: Which = None,
    dst: Which = None,
    time: Which = None,
    label: Which = None,
    weight: Which = None,
    features: Several = None,
    bipartite: bool = False,
    separator: str | None = None,
    header: bool | None = None,
    time_format: str | None = None,
    time_unit: str | None = None,
) -> TemporalEdges:
    r"""Read temporal edges from a csv file, also gzipped, or a parquet file (.parquet, .pq).

    In a csv file, lines that start with % or # and blank lines are skipped, and blanks around a value are
    dropped. A column of whole numbers becomes integers, unless some start with a 0, as codes do; the ids of
    `src` and `dst` are integers only if both are, or if `bipartite`. A file with a header and no rows gives
    no edges; one without any line, or with comments only, is an error.

    Parameters
    ----------
    path
        The file. What does not end in .parquet or .pq is read as csv.
    src, dst, time
        Columns, by name or by position from 0. If not given, a usual name is looked for (source, user_id,
        target, timestamp, ...), in the header or else in a comment above the first row, such as
        "# FromNodeId ToNodeId"; without either they are the columns 0, 1 and, of three, 2.
    label, weight
        Columns of the label and the weight, by name or position; none if not given.
    features
        Columns of the features: a list of names or positions, or one of them. Of columns that share a name,
        each is named with its position.
    bipartite
        Whether the ids of `src` and of `dst` are of two kinds, see `TemporalEdges`.
    separator
        Between the columns of a csv file, of one character or more; " " for any run of blanks. Found from
        the first lines if None.
    header
        Whether the first line of a csv file has the names. If None: whether it has no number or date.
    time_format
        How times are written, as for `datetime.strptime`, if they are text or whole numbers such as
        20200131. If None, numbers stay numbers and dates are read in their usual forms; 03/04/2020 only if
        another row tells the day from the month.
    time_unit
        Unit of times that are numbers since 1970 ("s", "ms", "us" or "ns"), to make datetimes of them.

    Returns
    -------
    TemporalEdges
        In the order of the file.

    Raises
    ------
    ReadError
        If the file is missing, damaged or without such columns; the message shows the row and the way out.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "payments.csv"
    >>> _ = path.write_text("payer,payee,date,fraud\nann,bob,2020-01-31,0\nbob,cat,2020-02-01,1\n")
    >>> read_edges(path, label="fraud")
    TemporalEdges(2 edges, 3 nodes, 2020-01-31 to 2020-02-01, label: 2 values)
    """
    path = Path(path)
    _check_path(path)
    if path.suffix.lower() in (".parquet", ".pq"):
        _check_no_csv_options(path, separator=separator, header=header)
        source = parquet_source(path)
    else:
        source = csv_source(path, separator, header, time_format)
    wanted = {"src": src, "dst": dst, "time": time, "label": label, "weight": weight}
    return _build(source, wanted, features, bipartite, time_format, time_unit)


def from_frame(
    frame: Any,
    *,
    src: Which = None,
    dst: Which = None,
    time: Which = None,
    label: Which = None,
    weight: Which = None,
    features: Several = None,
    bipartite: bool = False,
    time_format: str | None = None,
    time_unit: str | None = None,
) -> TemporalEdges:
    """Take temporal edges from a dataframe: pandas, polars (also lazy), pyarrow or any that narwhals knows.

    Parameters
    ----------
    frame
        The dataframe, one row an edge.
    src, dst, time, label, weight, features, bipartite, time_format, time_unit
        As for `read_edges`.

    Returns
    -------
    TemporalEdges
        In the order of the rows.

    Raises
    ------
    ReadError
        If it is no dataframe or has no such columns, or a row is no edge.

    Examples
    --------
    >>> import polars as pl
    >>> frame = pl.DataFrame({"user": [1, 2], "item": [1, 1], "ts": [0.5, 2.5], "stars": [5, 3]})
    >>> from_frame(frame, label="stars", bipartite=True)
    TemporalEdges(2 edges, 3 nodes, time 0.5 to 2.5, label: 2 values, bipartite)
    """
    wanted = {"src": src, "dst": dst, "time": time, "label": label, "weight": weight}
    return _build(_frame_source(frame), wanted, features, bipartite, time_format, time_unit)


# ---- what both end in


def _build(
    source: Source,
    wanted: dict[str, Which],
    features: Several,
    bipartite: bool,
    time_format: str | None,
    time_unit: str | None,
) -> TemporalEdges:
    if time_unit is not None and time_unit not in UNITS:
        raise ReadError(f"The 'time_unit' must be one of {UNITS}. Got {time_unit!r} instead.")
    listed = _listed(features)
    source = _named_by_comment(source, [*wanted.values(), *listed])
    at = _roles(source, wanted)
    feature_at = [_position(source, "features", which) for which in listed]
    alike = set() if bipartite else {at["src"], at["dst"]}
    as_text = set() if time_format is None else {at["time"]}
    columns = source.read(sorted({*at.values(), *feature_at}), alike, as_text)
    parts = {role: columns[position] for role, position in at.items()}
    try:
        times = _times(parts["time"], time_format, time_unit)
        chosen = {name: columns[k] for name, k in zip(_unlike(source, feature_at), feature_at, strict=True)}
        return TemporalEdges(**{**parts, "time": times}, features=chosen, bipartite=bipartite)
    except EdgesError as error:
        message = str(error)
        if error.row is not None:
            message = message.replace(row_name(error.row), _shown_row(parts, error.row))
        raise ReadError(f"{source.origin}: {message}") from None


def _unlike(source: Source, positions: list[int]) -> list[str]:
    """Names of the columns at these positions, with the position where two have the same."""
    names = [source.names[k] for k in dict.fromkeys(positions)]
    return [
        source.names[k] if names.count(source.names[k]) == 1 else f"{source.names[k]} (column {k})" for k in positions
    ]


def _shown_row(columns: dict[str, Any], row: int) -> str:
    values = ", ".join(f"{role}={_item(column, row)!r}" for role, column in columns.items())
    return f"data row {row + 1} ({values})"


def _item(column: Any, row: int) -> Any:
    value = column.iloc[row] if hasattr(column, "iloc") else column[row]
    return value.item() if isinstance(value, np.generic) else value


def _times(column: Any, time_format: str | None, time_unit: str | None) -> Any:
    """The column as numbers or datetime64."""
    column = as_column(column, "time")
    if time_format is not None and isinstance(column, np.ndarray) and column.dtype.kind in "iu":
        column = as_column([str(value) for value in column.tolist()], "time")  # such as 20200131
    ticks, unit = as_times(column, time_format=time_format)
    if time_format is not None and isinstance(column, np.ndarray) and len(column):
        raise EdgesError(
            "The 'time_format' is for text and whole numbers, and these times are datetimes or have a decimal "
            "point. Leave it out."
        )
    if time_unit is None or (time_unit == unit and not len(ticks)):
        return ticks if unit is None else ticks.view(f"datetime64[{unit}]")
    if unit is not None:
        raise EdgesError(f"The 'time_unit' {time_unit!r} is for numbers, and these times are dates. Leave it out.")
    return from_numbers(ticks, time_unit)


# ---- which column is which


def _listed(features: Several) -> list[Any]:
    if features is None:
        return []
    if isinstance(features, np.ndarray):
        features = features.tolist()
    return list(features) if isinstance(features, Iterable) and not isinstance(features, str) else [features]


def _named_by_comment(source: Source, wanted: list[Any]) -> Source:
    """The table with the names of the last comment that has all that are asked for, or else src and dst."""
    asked = {which for which in wanted if isinstance(which, str)}
    for names in [] if source.has_names else reversed(source.comments):
        if asked <= set(names) if asked else _usual_at(names, "src") and _usual_at(names, "dst"):
            return replace(source, names=names, has_names=True)
    return source


def _roles(source: Source, wanted: dict[str, Which]) -> dict[str, int]:
    """Position of each column that is given, or found by its usual name."""
    at = {role: _position(source, role, which) for role, which in wanted.items() if which is not None}
    if source.has_names:
        for role in ("src", "dst", "time"):
            if role not in at:
                at[role] = _usual(source, role, at)
    else:
        at = {**_by_position(source, at), **at}
    _check_distinct(source, {role: at[role] for role in ("src", "dst", "time")})
    return {role: at[role] for role in wanted if role in at}


def _position(source: Source, role: str, which: Any) -> int:
    n_columns = len(source.names)
    if isinstance(which, str) and source.has_names:
        named = [k for k, name in enumerate(source.names) if name == which]
        if len(named) == 1:
            return named[0]
        if named:
            _fail(source, f"The name {which!r} for '{role}' stands for the columns {named}. Pass a position.")
        close = difflib.get_close_matches(which, source.names, 1, 0.6)
        hint = f" Did you mean {close[0]!r}?" if close else ""
        _fail(source, f"No column {which!r} for '{role}'.{hint} {_present(source)}")
    if isinstance(which, int | np.integer) and not isinstance(which, bool) and 0 <= which < n_columns:
        return int(which)
    allowed = f"a name or a position from 0 to {n_columns - 1}"
    _fail(source, f"The '{role}' must be {allowed}. Got {which!r} instead. {_present(source)}")


def _usual(source: Source, role: str, at: dict[str, int]) -> int:
    usual = _usual_at(source.names, role)
    found = [k for k in usual if k not in at.values()]
    if len(found) == 1:
        return found[0]
    if found:
        names = [source.names[k] for k in found]
        _fail(source, f"More than one column may be '{role}': {names}. Pass {role}={names[0]!r}, or another.")
    way_out = f"{_present(source)} Pass {role}= with a name."
    if usual:
        other = next(other for other, k in at.items() if k == usual[0])
        _fail(source, f"The column {source.names[usual[0]]!r} is '{other}', and no other is '{role}'. {way_out}")
    _fail(source, f"No column has a usual name for '{role}'. {way_out}")


def _usual_at(names: list[str], role: str) -> list[int]:
    usual = USUAL_NAMES[role].split()
    plain = [re.sub(r"[\s-]+", "_", name.strip().lower()) for name in names]
    return [k for k, name in enumerate(plain) if name in usual]


def _by_position(source: Source, at: dict[str, int]) -> dict[str, int]:
    if len(source.names) == 3 or "time" in at:
        return {"src": 0, "dst": 1, "time": 2}
    last = len(source.names) - 1
    way_out = f"Pass src=, dst= and time= with positions, such as src=0, dst=1, time={last}."
    _fail(source, f"There are {last + 1} columns and no names. {_present(source)} {way_out}")


def _present(source: Source) -> str:
    if source.has_names:
        return f"The columns are {source.names}."
    return f"The first row, by position, is {dict(enumerate(source.first_row))}."


def _check_distinct(source: Source, at: dict[str, int]) -> None:
    for role, position in at.items():
        twin = next(other for other in at if at[other] == position)
        if twin != role:
            column = source.names[position]
            _fail(source, f"The column {column!r} is both '{twin}' and '{role}'. {_present(source)} Pass {role}=.")


def _fail(source: Source, message: str) -> NoReturn:
    raise ReadError(f"{source.origin}: {message}")


# ---- files and frames


def _frame_source(frame: Any) -> Source:
    try:
        return frame_source(frame)
    except EdgesError as error:
        raise ReadError(str(error)) from None


def _check_no_csv_options(path: Path, **options: Any) -> None:
    for name, value in options.items():
        if value is not None:
            raise ReadError(f"{path}: {name}={value!r} is for csv files, and this is parquet. Leave it out.")


def _check_path(path: Path) -> None:
    if path.is_dir():
        raise ReadError(f"{path}: this is a folder. Pass one file of it, such as {_some_file(path)!r}.")
    if not path.exists():
        near = os.listdir(path.parent) if path.parent.is_dir() else []
        close = difflib.get_close_matches(path.name, near, 3, 0.5)
        hint = f"Did you mean {' or '.join(map(repr, close))}?" if close else "Check the path."
        raise ReadError(f"{path}: there is no such file. {hint}")


def _some_file(folder: Path) -> str:
    return min((entry.name for entry in folder.iterdir() if entry.is_file()), default="edges.csv")
