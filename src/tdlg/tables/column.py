"""Any one-dimensional column as a numpy array; text as a polars series, which holds and compares it much faster.

These two forms never overlap: a series is text, and everything else is an array.
"""

from __future__ import annotations

import mmap
import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from contextlib import suppress
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tdlg.checks import sealed
from tdlg.exceptions import EdgesError, TdlgError

if TYPE_CHECKING:
    import narwhals as nw
    import polars as pl

EXACT = 2**53  # float64 represents all whole numbers up to here exactly
SHOWN = 60  # maximum number of characters of a value in a message

Column: TypeAlias = "NDArray[Any] | pl.Series"

# ---- polars after a fork

_lost_threads = False  # whether polars had threads when this process was forked: they are not in it
_has_threads = False  # the same for a process that is just being forked


def polars_works() -> bool:
    """Whether polars can be used for more than single values: after a fork, it would wait for its threads for ever."""
    return not _lost_threads


def check_polars_works(what: str, kind: type[TdlgError] = EdgesError) -> None:
    """Refuse work that needs the threads of polars in a process that was forked."""
    if not polars_works():
        raise kind(
            f"{what} cannot be read in this process: it was forked from one in which polars has threads, and they do not "
            f"survive a fork.",
            'Start processes with `multiprocessing.get_context("spawn")`, or read before the fork.',
        )


def _before_fork() -> None:
    global _has_threads
    _has_threads = _lost_threads
    if "polars" in sys.modules:
        try:
            tasks = Path("/proc/self/task").iterdir()
            _has_threads |= any((task / "comm").read_text().strip() == "polars-0" for task in tasks)
        except OSError:  # other systems than Linux do not tell
            _has_threads = True


def _after_fork() -> None:
    global _lost_threads
    _lost_threads = _has_threads


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_child=_after_fork)


# ---- messages


def bad_row(problem: str, row: int, *hints: str) -> EdgesError:
    """Make the error for one invalid row, whose name replaces `{row}` in the problem; `io` inserts its own name."""
    error = EdgesError(problem.replace("{row}", row_name(row)), *hints)
    error.row = row
    return error


def refuse(wrong: NDArray[np.bool_], column: Any, problem: str, *hints: str) -> None:
    """Raise the error for the first row that is wrong, if one is; `{row}` and `{value}` stand for its name and value."""
    if wrong.any():
        row = int(np.argmax(wrong))
        raise bad_row(problem.replace("{value}", short(column[row], str)), row, *hints)


def row_name(row: int) -> str:
    """The name of a row in error messages."""
    return f"row {row} (counted from 0)"


def short(value: Any, shown: Callable[[Any], str] = repr) -> str:
    """The value for a message; only its first characters if it is long."""
    try:
        text = shown(value)
    except ValueError:  # Python refuses to print integers of more than 4,300 digits
        return "an integer of very many digits"
    return text if len(text) <= SHOWN else text[: SHOWN - 3] + "..."


# ---- columns and tables


def as_column(values: Any, name: str) -> Column:
    """Convert a list, numpy array, or pandas, polars or pyarrow column.

    Missing values become NaN in numbers, NaT in datetimes and None (null) in all other columns, also in whole numbers
    beyond 2**53, which floats cannot represent exactly. Datetimes with a time zone are converted to UTC. Arrays that do not
    share memory with the caller's are read-only, see `frozen`.
    """
    module = type(values).__module__.partition(".")[0]
    if isinstance(values, np.ndarray):
        return _from_numpy(np.asarray(values), name)
    if module in ("polars", "pyarrow") and hasattr(values, "to_numpy"):
        return _from_polars(values, name)
    if hasattr(values, "to_numpy") and hasattr(values, "dtype"):
        if np.ndim(values) == 1:
            return _from_pandas(values, name)
    elif hasattr(values, "__array__") and np.ndim(values) > 0:
        return _from_numpy(np.asarray(values), name)
    if isinstance(values, Sequence) and not isinstance(values, str | bytes):
        return _from_objects(list(values), name)
    if isinstance(values, Mapping | Set):
        hint = f"Pass a list, `{name}=list(...)`, in the order of the rows."
    else:
        hint = "Pass a list, an array or a dataframe's column, one value per row."
    raise EdgesError(f"The '{name}' must be a column. Got {type(values).__name__} {short(values)} instead.", hint)


def eager_frame(frame: Any, name: str) -> nw.DataFrame[Any]:
    """Convert any dataframe that narwhals supports; lazy frames are collected, and column names must differ."""
    import narwhals as nw

    if hasattr(frame, "__arrow_c_stream__") and not type(frame).__module__.startswith(("polars", "pandas", "pyarrow")):
        import polars as pl

        frame = pl.DataFrame(frame)  # without a copy of most columns
    try:
        table = nw.from_native(frame)
        eager = table.collect() if isinstance(table, nw.LazyFrame) else table
        _ = eager.columns  # some libraries detect equal names only here
    except TypeError:
        raise EdgesError(
            f"The '{name}' must be a dataframe (pandas, polars, pyarrow, ...). Got {type(frame).__name__} instead.",
            "Use `TemporalEdges(src, dst, time)` for arrays and lists, `read_edges(path)` for a file.",
        ) from None
    except nw.exceptions.DuplicateError:
        names = [str(name) for name in frame.columns]
        raise EdgesError(
            f"The columns of '{name}' must differ in name. Got {names} instead.",
            f"Rename them, such as `{name}.columns = [...]`.",
        ) from None
    return eager


def nulls(column: Column) -> NDArray[np.bool_]:
    """Mask of the missing values, shape (n_rows,)."""
    if not isinstance(column, np.ndarray):
        return np.asarray(column.is_null().to_numpy())
    if column.dtype.kind in "fc":
        return np.asarray(np.isnan(column))
    if column.dtype.kind in "mM":
        return np.isnat(column)
    if column.dtype.kind == "O":
        return np.fromiter((value is None for value in column), bool, len(column))
    return np.zeros(len(column), bool)


def frozen(array: NDArray[Any]) -> NDArray[Any]:
    """Return an array that the caller cannot change: a copy, unless it is read-only already or memory-mapped."""
    return _private(array) if array.flags.writeable else array


def converted(array: NDArray[Any], dtype: Any) -> NDArray[Any]:
    """Return the array itself if it has the dtype, else a read-only copy."""
    return array if array.dtype == dtype else sealed(array.astype(dtype))


def check_unicode(values: Iterable[Any], name: str) -> None:
    """Refuse text with half of a character, which cannot be written to a file."""
    for row, value in enumerate(values):
        if isinstance(value, str) and not value.isascii():
            try:
                value.encode()
            except UnicodeEncodeError:
                raise bad_row(
                    f"The '{name}' has text that is not valid Unicode in {{row}}: {short(value)} holds a lone surrogate, "
                    f"half of a character.",
                    row,
                    "Replace it, such as by `value.encode(errors='replace').decode()`.",
                ) from None


def _private(array: NDArray[Any]) -> NDArray[Any]:
    base: Any = array
    while base is not None:
        if isinstance(base, mmap.mmap):
            return array
        base = getattr(base, "base", None)
    return sealed(array.copy(order="K"))


# ---- from one library each


def _from_numpy(array: NDArray[Any], name: str) -> Column:
    if array.ndim != 1:
        raise EdgesError(
            f"The '{name}' must have one dimension. Got an array of shape {array.shape} instead.",
            "Pass one column, such as `array[:, 0]`.",
        )
    kind = array.dtype.kind
    if kind in "OUT":
        return (_from_objects if kind == "O" else _from_strings)(array.tolist(), name)
    return _objects(array.tolist()) if kind in "SV" else converted(array, array.dtype.newbyteorder("="))


def _from_polars(values: Any, name: str) -> Column:
    import polars as pl

    series = pl.Series(values) if type(values).__module__.startswith("pyarrow") else values
    if not isinstance(series, pl.Series):
        raise EdgesError(
            f"The '{name}' must be a column. Got a polars {type(series).__name__} instead.",
            f'Pass one of its columns, such as `frame["{name}"]`, or use `from_frame(frame)`.',
        )
    dtype = series.dtype
    if dtype in (pl.String, pl.Categorical, pl.Enum):
        return series.cast(pl.String)
    if dtype.is_nested() or dtype == pl.Object:
        for row, value in enumerate(series.to_list()):
            if isinstance(value, dict | list):
                raise bad_row(
                    f"The '{name}' must have one value per row. Got {short(value)} in {{row}}. "
                    f"Put the value that you need into a column of its own.",
                    row,
                )
    if dtype.is_decimal():
        series = series.cast(pl.Float64)
    elif isinstance(dtype, pl.Datetime) and dtype.time_zone is not None:
        series = series.dt.convert_time_zone("UTC").dt.replace_time_zone(None)
    if dtype.is_integer():
        is_inexact = series.null_count() and max(-(series.min() or 0), series.max() or 0) > EXACT  # type: ignore[operator]
        is_plain = not is_inexact and str(dtype) not in ("Int128", "UInt128")  # numpy has no such types
    else:
        is_plain = series.dtype.is_numeric() or (series.dtype.is_temporal() and dtype != pl.Time)
    if is_plain or (dtype == pl.Boolean and not series.null_count()):
        return _from_numpy(sealed(series.to_numpy()), name)
    return _from_objects(series.to_list(), name)


def _from_pandas(values: Any, name: str) -> Column:
    if getattr(values.dtype, "tz", None) is not None:
        # to_numpy converts pandas datetimes with a time zone to UTC
        return _private(values.to_numpy(dtype=f"datetime64[{values.dtype.unit}]"))
    is_nullable = not isinstance(values.dtype, np.dtype) and getattr(values.dtype, "kind", "") in "iu"
    # as objects, whole numbers keep all their digits if some values are missing
    array = np.asarray(values.to_numpy(dtype=object) if is_nullable and values.isna().any() else values.to_numpy())
    # even a read-only pandas array changes with its column
    return _from_numpy(array if array.dtype.kind == "O" else _private(array), name)


def _from_objects(values: list[Any], name: str) -> Column:
    """Python objects: numbers become an array of numbers, strings a series."""
    types = set(map(type, values))
    if not types:
        return np.empty(0, np.int64)
    if types not in ({int}, {str}) and any(map(_is_null, values)):
        values = [None if _is_null(value) else value for value in values]
        types = set(map(type, values))
    known = types - {type(None)}
    has_null = known != types
    if known == {str}:
        return _from_strings(values, name)
    are_truth = [issubclass(type_, bool | np.bool_) for type_ in known]
    if known and all(are_truth) and not has_null:
        return sealed(np.array(values, bool))
    if known and not any(are_truth) and all(issubclass(type_, NUMBERS) for type_ in known):
        are_whole = all(issubclass(type_, int | np.integer) for type_ in known)
        if not are_whole or (has_null and all(value is None or abs(value) <= EXACT for value in values)):
            return sealed(np.array([np.nan if value is None else float(value) for value in values]))
        if has_null:
            return _objects([None if value is None else int(value) for value in values])
        with suppress(OverflowError):
            return sealed(np.array(values, np.int64))
    return _objects(values)


NUMBERS = (int, float, np.integer, np.floating, Decimal)


def _is_null(value: Any) -> bool:
    """Whether it is None, NaN, NaT or pandas NA, which cannot be compared with itself."""
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    return isinstance(value, float | np.floating | np.datetime64 | Decimal) and bool(value != value)


def _from_strings(values: list[Any], name: str) -> Column:
    import polars as pl

    try:
        return pl.Series(values, dtype=pl.String)
    except (UnicodeEncodeError, pl.exceptions.PolarsError):
        check_unicode(values, name)
        return _objects(values)


def _objects(values: list[Any]) -> NDArray[Any]:
    column = np.empty(len(values), object)
    for i, value in enumerate(values):  # column[:] would spread tuples over a second dimension
        column[i] = value
    return sealed(column)
