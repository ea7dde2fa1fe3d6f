"""Any one-dimensional column to one of two plain forms: a numpy array, or a polars series of strings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from decimal import Decimal
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from tdlg.exceptions import EdgesError

if TYPE_CHECKING:
    import polars as pl

__all__ = ["BadRowError", "Column", "as_column", "first_null", "is_text", "read_only"]

Column: TypeAlias = "NDArray[Any] | pl.Series"


class BadRowError(EdgesError):
    """One row is wrong; `io` catches this to show the row as it stands in the file.

    Parameters
    ----------
    message
        With `{row}` where the row is to be named.
    row
        Its position, counted from 0.
    """

    def __init__(self, message: str, row: int = 0) -> None:
        super().__init__(message.replace("{row}", f"row {row} (counted from 0)"))
        self.message = message
        self.row = row


def as_column(values: Any, name: str) -> Column:
    """Take a list, numpy array, or pandas, polars or pyarrow column as one of the two plain forms.

    Missing values become NaN among numbers, NaT among datetimes and None (null) among all else. Datetimes
    with a time zone are moved to UTC.

    Parameters
    ----------
    values
        The column.
    name
        The argument it came from, for the error.

    Examples
    --------
    >>> as_column([1, 2, None], "label")
    array([ 1.,  2., nan])
    """
    module = type(values).__module__.partition(".")[0]
    if isinstance(values, np.ndarray):
        return _from_numpy(np.asarray(values), name)
    if module == "polars" and hasattr(values, "to_numpy"):
        return _from_polars(values, name)
    if module == "pyarrow" and hasattr(values, "to_numpy"):
        return _from_arrow(values, name)
    if hasattr(values, "to_numpy") and hasattr(values, "dtype"):
        return _from_pandas(values, name)
    if hasattr(values, "__array__") and np.ndim(values) > 0:
        return _from_numpy(np.asarray(values), name)
    if isinstance(values, Sequence) and not isinstance(values, str | bytes):
        return _from_objects(list(values))
    raise _not_a_column(values, name)


def is_text(column: Column) -> bool:
    """Whether the column is the polars form, that of strings."""
    return not isinstance(column, np.ndarray)


def first_null(column: Column) -> int | None:
    """Position of the first missing value, or None."""
    if not isinstance(column, np.ndarray):
        mask = column.is_null().to_numpy() if column.null_count() else np.empty(0, bool)
    elif column.dtype.kind in "fc":
        mask = np.isnan(column)
    elif column.dtype.kind in "mM":
        mask = np.isnat(column)
    elif column.dtype.kind == "O":
        mask = np.fromiter((value is None for value in column), bool, len(column))
    else:
        return None
    return int(np.argmax(mask)) if mask.any() else None


def read_only(array: NDArray[Any]) -> NDArray[Any]:
    """Give a view that cannot be written through; the caller's own array stays as it was."""
    view = array.view()
    view.flags.writeable = False
    return view


def _not_a_column(values: Any, name: str) -> EdgesError:
    kind = type(values).__name__
    if isinstance(values, Mapping | Set):
        way_out = f"Pass {name}=list(...), in the order of the rows."
    else:
        way_out = "Pass a list, an array or a dataframe's column, one value a row."
    return EdgesError(f"The '{name}' must be a column. Got {kind} {_short(values)} instead. {way_out}")


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def _from_numpy(array: NDArray[Any], name: str) -> Column:
    if array.ndim != 1:
        raise EdgesError(
            f"The '{name}' must have one dimension. Got an array of shape {array.shape} instead. "
            f"Pass one column, such as array[:, 0]."
        )
    kind = array.dtype.kind
    if kind == "O":
        return _from_objects(array.tolist())
    if kind in "UT":
        return _from_strings(array.tolist())
    if kind in "SV":
        return _objects(array.tolist())
    return array if array.dtype.isnative else array.astype(array.dtype.newbyteorder("="))


def _from_polars(series: Any, name: str) -> Column:
    import polars as pl

    if not isinstance(series, pl.Series):
        raise EdgesError(
            f"The '{name}' must be a column. Got a polars {type(series).__name__} instead. "
            f'Pass one of its columns, such as frame["{name}"], or use from_frame(frame).'
        )
    dtype = series.dtype
    if dtype in (pl.String, pl.Categorical, pl.Enum):
        return series.cast(pl.String)
    if dtype.is_decimal():
        series = series.cast(pl.Float64)
    elif isinstance(dtype, pl.Datetime) and dtype.time_zone is not None:
        series = series.dt.convert_time_zone("UTC").dt.replace_time_zone(None)
    if series.dtype.is_numeric() or (series.dtype.is_temporal() and dtype != pl.Time):
        return _from_numpy(series.to_numpy(), name)
    if dtype == pl.Boolean and not series.null_count():
        return cast("NDArray[Any]", series.to_numpy())
    return _from_objects(series.to_list())


def _from_arrow(values: Any, name: str) -> Column:
    import polars as pl

    return _from_polars(pl.Series(values), name)


def _from_pandas(values: Any, name: str) -> Column:
    if np.ndim(values) != 1:
        raise _not_a_column(values, name)
    if getattr(values.dtype, "tz", None) is not None:
        # numpy's datetime64 of a zoned pandas column is its UTC
        return cast("NDArray[Any]", values.to_numpy(dtype=f"datetime64[{values.dtype.unit}]"))
    return _from_numpy(np.asarray(values.to_numpy()), name)


def _is_null(value: Any) -> bool:
    """None, NaN, NaT and pandas' NA, which is not comparable with itself."""
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    return isinstance(value, float | np.floating | np.datetime64 | Decimal) and bool(value != value)


def _from_objects(values: list[Any]) -> Column:
    """Find the plain form of python objects: numbers stay numbers, strings become a polars series."""
    types = set(map(type, values))
    if not types:
        return np.empty(0, np.int64)
    if types == {str}:
        return _from_strings(values)
    if types != {int} and any(map(_is_null, values)):
        values = [None if _is_null(value) else value for value in values]
        types = set(map(type, values))
    known = types - {type(None)}
    if known == {str}:
        return _from_strings(values)
    if known and all(_is_number(kind) for kind in known):
        return _from_numbers(values, known, None in values)
    if known and types == known and all(issubclass(kind, bool | np.bool_) for kind in known):
        return np.array(values, bool)
    return _objects(values)


def _is_number(kind: type) -> bool:
    return issubclass(kind, int | float | np.integer | np.floating | Decimal) and not issubclass(kind, bool)


def _from_numbers(values: list[Any], types: set[type], has_null: bool) -> NDArray[Any]:
    if has_null or not all(issubclass(kind, int | np.integer) for kind in types):
        return np.array([np.nan if value is None else float(value) for value in values])
    try:
        return np.array(values, np.int64)
    except OverflowError:
        return _objects(values)


def _from_strings(values: list[Any]) -> Column:
    import polars as pl

    try:
        return pl.Series(values, dtype=pl.String)
    except (UnicodeEncodeError, pl.exceptions.PolarsError):  # lone surrogates are not UTF-8
        return _objects(values)


def _objects(values: list[Any]) -> NDArray[Any]:
    column = np.empty(len(values), object)
    for i, value in enumerate(values):  # column[:] would spread tuples over a second dimension
        column[i] = value
    return column
