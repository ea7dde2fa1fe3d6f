"""Times: numbers stay numbers, dates and datetimes become datetime64 in s, ms, us or ns, in UTC."""

from __future__ import annotations

import datetime
import re
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from tdlg.checks import sealed
from tdlg.clock import UNITS
from tdlg.exceptions import EdgesError
from tdlg.tables.column import (
    Column,
    as_column,
    bad_row,
    check_polars_works,
    converted,
    frozen,
    nulls,
    refuse,
    row_name,
    short,
)
from tdlg.tables.text import MISSING_WORDS, numbers

if TYPE_CHECKING:
    import polars as pl

CLOCK = (
    r"(?:(?:\s*[T,]\s*|\s+)(?P<hour>\d{1,2}):(?P<minute>\d{2})(?::(?P<second>[0-5]\d)(?:[.,](?P<fraction>\d{1,9}))?)?"
    r"(?:\s*(?P<half>[AaPp])[Mm])?)?"
    r"\s*(?P<zone>[Zz]|UTC|GMT|[+-]\d{2}(?::?\d{2})?)?$"
)
ISO = r"^\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d:[0-5]\d)?$"
YEAR_FIRST = r"^(?P<year>\d{4})[-/.](?P<month>\d{1,2})[-/.](?P<day>\d{1,2})" + CLOCK
YEAR_LAST = r"^(?P<first>\d{1,2})[-/.](?P<other>\d{1,2})[-/.](?P<year>\d{4})" + CLOCK
NAMED_MONTH = (
    r"^(?:[A-Za-z]{3,9},?\s+)?(?P<day>\d{1,2})[\s-](?P<month>[A-Za-z]{3})[a-z]*\.?[\s-](?P<year>\d{4})" + CLOCK
)
MONTH_FIRST = (
    r"^(?:[A-Za-z]{3,9},?\s+)?(?P<month>[A-Za-z]{3})[a-z]*\.?\s+(?P<day>\d{1,2})(?:,\s*|\s+)(?P<year>\d{4})" + CLOCK
)
PATTERNS = (YEAR_FIRST, YEAR_LAST, NAMED_MONTH, MONTH_FIRST)

MISSING = "The '{}' is missing in {{row}}. Drop that row: an edge needs a time."
BEYOND = "The '{}' in {{row}} is {{value}}, beyond int64. Subtract a start, or pass floats."

Ticks: TypeAlias = tuple[NDArray[Any], str | None]


def as_times(values: Any, name: str = "time", time_format: str | None = None, time_unit: str | None = None) -> Ticks:
    """Check a column of times and return its ticks (int64 or float64) and their unit, None for plain numbers.

    time_format : of text, or of whole numbers such as 20200131; time_unit : that of numbers which count from 1970.
    """
    column = _as_text(as_column(values, name), time_format)
    if isinstance(column, np.ndarray):
        ticks, unit = _from_array(column, name)
        if time_format is not None and len(column):
            raise EdgesError(
                f"The 'time_format' is only for text and whole numbers, but these {name}s are datetimes or have decimals. "
                "Leave it out.",
                parameter="time_format",
            )
    else:
        ticks, unit = _from_text(column, name, time_format)
        ticks = sealed(ticks)
    if time_unit is not None and unit is not None and (unit != time_unit or len(ticks)):
        raise EdgesError(
            f"The 'time_unit' {time_unit!r} is only for numbers, but these {name}s are dates. Leave it out.",
            parameter="time_unit",
        )
    return (frozen(ticks), unit) if time_unit is None or unit is not None else _since_1970(ticks, time_unit, name)


def _as_text(column: Column, time_format: str | None) -> Column:
    """Whole numbers as text if they have a format."""
    if time_format is None or not isinstance(column, np.ndarray) or column.dtype.kind not in "iu":
        return column
    return as_column([str(value) for value in column.tolist()], "time")


def as_times_or_missing(
    values: Any, name: str, time_format: str | None = None
) -> tuple[NDArray[Any], str | None, NDArray[np.bool_]]:
    """Read a column of times that may have missing values: None, NaN, NaT, pandas NA, or text such as "" or "NaT".

    It gives the ticks, 0 where a time is missing, their unit, and the mask of missing ones. The unit is None for numbers,
    and if all times are missing in a column that has no datetimes.
    """
    column = _as_text(as_column(values, name), time_format)
    missing = nulls(column) if isinstance(column, np.ndarray) else _missing_words(column)
    rows = np.flatnonzero(~missing)
    try:
        known, unit = as_times(column[rows], name, None if isinstance(column, np.ndarray) else time_format)
    except EdgesError as error:
        if error.row is None:
            raise
        row = int(rows[error.row])
        raise bad_row(error.problem.replace(row_name(error.row), "{row}"), row, *error.args[1:]) from None
    ticks = np.zeros(len(column), known.dtype)
    ticks[rows] = known
    return ticks, unit, missing


def has_time(texts: list[str], time_format: str | None) -> bool:
    """Whether some text is a date in a form that `as_times` reads, or in the format."""
    dates = [text for text in texts if any(re.match(pattern, text.strip()) for pattern in PATTERNS)]
    of_format = [] if time_format is None else [text for text in texts if re.search(r"\d", text)]
    return any(_is_time(text, None) for text in dates) or any(_is_time(text, time_format) for text in of_format)


def _is_time(text: str, time_format: str | None) -> bool:
    with suppress(EdgesError):
        as_times([text], time_format=time_format)
        return True
    return False


def _since_1970(ticks: NDArray[Any], unit: str, name: str) -> Ticks:
    """Numbers in a unit as ticks of datetimes; fractions are kept, in a finer unit."""
    if ticks.dtype.kind == "f":
        if unit != "ns" and (ticks != np.floor(ticks)).any():
            finer, factor = {"s": ("us", 1e6), "ms": ("us", 1e3), "us": ("ns", 1e3)}[unit]
            ticks, unit = ticks * factor, finer
        refuse(
            np.abs(ticks) >= 2.0**63,
            ticks,
            f"The '{name}' in {{row}} is beyond the range of dates counted in {unit}.",
            "Pass a finer time_unit=, such as 'ms', or leave it out.",
        )
        ticks = np.round(ticks).astype(np.int64)
    return frozen(ticks), unit


# ---- arrays


def _from_array(column: NDArray[Any], name: str) -> Ticks:
    kind = column.dtype.kind
    if kind in "OM":
        refuse(nulls(column), column, MISSING.format(name))
    if kind == "f":
        problem = f"The '{name}' must be finite. Got {{value}} in {{row}}. Drop that row: an edge needs a time."
        refuse(~np.isfinite(column), column, problem)
        return converted(column, np.float64), None
    if kind in "iu" or (kind == "O" and len(column) and all(isinstance(value, int | np.integer) for value in column)):
        if column.dtype in (np.uint64, object):
            beyond = (column > np.iinfo(np.int64).max) | (column < np.iinfo(np.int64).min)
            refuse(beyond, column, BEYOND.format(name))
        return converted(column, np.int64), None
    if kind in "OM":
        return _datetimes(_from_objects(column, name) if kind == "O" else column, name)
    raise EdgesError(
        f"The '{name}' must hold numbers or datetimes. Got {column.dtype} instead. "
        f"Pass numbers, datetimes or text such as '2020-01-31 12:00:00'."
    )


def _far_nanoseconds(name: str) -> EdgesError:
    return EdgesError(f"The '{name}' has nanoseconds far from 1970, beyond int64. Round the times to microseconds.")


def _datetimes(column: NDArray[Any], name: str) -> Ticks:
    """Ticks in the unit of the column if it is supported, else in s, or in ns for units below ns."""
    own, step = np.datetime_data(column.dtype)
    unit = own if own in UNITS else "ns" if own in ("ps", "fs", "as") else "s"
    if (own, step) == (unit, 1):
        return column.view(np.int64), unit
    stored = sealed(column.astype(f"datetime64[{unit}]"))
    refuse(
        stored.astype(column.dtype) != column,
        column,
        f"The '{name}' in {{row}} is {{value}}, which datetime64[{unit}] cannot hold. "
        f"Pass datetimes in s, ms, us or ns, or plain numbers.",
    )
    return stored.view(np.int64), unit


def _from_objects(column: NDArray[Any], name: str) -> NDArray[Any]:
    """Datetimes of Python, numpy and pandas in UTC, in the finest unit among them."""
    for row, value in enumerate(column):
        if not isinstance(value, datetime.date | np.datetime64):
            problem = f"The '{name}' must hold numbers or datetimes. Got {value!r} in {{row}}."
            raise bad_row(f"{problem} Pass all numbers, all datetimes, or all text.", row)
    _check_zones(np.array([getattr(value, "tzinfo", None) is not None for value in column], bool), name)
    times = [_in_utc(value) for value in column]
    found = np.array(times, "datetime64")
    if np.datetime_data(found.dtype)[0] == "ns":  # to which numpy would convert far datetimes wrongly, without a word
        in_us = np.array([time.astype("datetime64[us]") for time in times])
        if (np.abs(in_us.view(np.int64)) >= 2**63 // 1000).any():
            if any(fine != coarse for fine, coarse in zip(times, in_us, strict=True) if fine.dtype == found.dtype):
                raise _far_nanoseconds(name)
            found = in_us
    return sealed(found)


def _in_utc(value: Any) -> np.datetime64:
    if hasattr(value, "to_datetime64"):  # a pandas Timestamp has nanoseconds, and its datetime64 is in UTC
        return cast("np.datetime64", value.to_datetime64())
    if getattr(value, "tzinfo", None) is None:
        return np.datetime64(value)
    # astimezone() fails at the ends of the calendar, such as on 9999-12-31 west of Greenwich
    return cast("np.datetime64", np.datetime64(value.replace(tzinfo=None)) - np.timedelta64(value.utcoffset()))


def _check_zones(zoned: NDArray[np.bool_], name: str) -> None:
    has, had = ("no", "have one") if zoned[:1].any() else ("a", "have none")
    refuse(
        zoned != zoned[:1],
        zoned,
        f"The '{name}' in {{row}} has {has} time zone, and the rows before it {had}. Pass all times with a zone, or none.",
    )


# ---- text


def _from_text(text: pl.Series, name: str, time_format: str | None) -> Ticks:
    import polars as pl

    refuse(_missing_words(text), text, MISSING.format(name))
    text = text.str.strip_chars()
    if time_format is not None:
        return _by_format(text, name, time_format)
    read = numbers(text)
    if read is not None:
        return as_times(read, name)
    if len(text) and text.str.contains(r"^[+-]?\d+$").all():
        refuse(text.cast(pl.Int64, strict=False).is_null().to_numpy(), text, BEYOND.format(name))
    return _by_pattern(text, name)


def _missing_words(text: pl.Series) -> NDArray[np.bool_]:
    check_polars_works("Times as text")
    words = text.str.strip_chars().str.to_lowercase()
    return np.asarray((text.is_null() | words.is_in(MISSING_WORDS)).to_numpy())


def _unreadable(text: pl.Series, name: str, row: int, wanted: str) -> EdgesError:
    return bad_row(
        f"The '{name}' in {{row}} is {short(text[row])}, which is not {wanted}.",
        row,
        "Correct or drop that row.",
        "Or pass the format of all times, such as time_format='%d.%m.%Y %H:%M'.",
    )


def _by_polars(text: pl.Series, name: str, chrono: str, digits: int) -> pl.Series:
    """Text in a format of polars as UTC, with null where it is not; nanoseconds for more than six digits of a second."""
    read = text.str.to_datetime(chrono, time_unit="us", strict=False)
    if digits > 6:
        fine = text.str.to_datetime(chrono, time_unit="ns", strict=False)
        if (fine.dt.year() != read.dt.year()).any():
            raise _far_nanoseconds(name)
        read = fine
    return read.dt.replace_time_zone(None)


def _by_format(text: pl.Series, name: str, time_format: str) -> Ticks:
    """Read text with polars, which is fast; what it cannot read is left to `datetime.strptime`, which decides."""
    import polars as pl

    read: pl.Series | None = None
    chrono = time_format.replace(".%f", "%.f")  # polars' own %f counts nanoseconds, whatever the digits
    if "%f" not in chrono:
        is_fine = text.str.contains(r"\.\d{7}").any() or "%9f" in chrono
        with suppress(pl.exceptions.PolarsError):
            read = _by_polars(text, name, chrono, 9 if is_fine else 6)
    ticks, unit = as_times(_by_strptime(text, name, time_format, read) if read is None or read.null_count() else read)
    while unit not in ("s", None) and not (ticks % 1000).any():  # the coarsest unit that is exact
        ticks, unit = ticks // 1000, UNITS[UNITS.index(str(unit)) - 1]
    return ticks, unit


def _by_strptime(text: pl.Series, name: str, time_format: str, tried: pl.Series | None) -> list[datetime.datetime]:
    no_row = tried is None or tried.null_count() == len(tried)
    values = text.to_list()
    year, dated_format = _with_a_year(time_format)

    def read(row: int) -> datetime.datetime:
        try:
            return datetime.datetime.strptime(year + values[row], dated_format)
        except ValueError as error:
            if no_row and ("bad directive" in str(error) or "stray" in str(error)):
                raise EdgesError(
                    f"The 'time_format' {time_format!r} does not describe a date: "
                    f"{str(error).replace(dated_format, time_format)}. "
                    f"Pass a format such as '%Y-%m-%d %H:%M:%S'.",
                    parameter="time_format",
                ) from None
            raise _unreadable(text, name, row, f"in the format {time_format!r}") from None

    if values and tried is not None:
        read(int(np.argmax(tried.is_null().to_numpy())))  # if this row is invalid, the other rows need not be read
    return [read(row) for row in range(len(values))]


def _with_a_year(time_format: str) -> tuple[str, str]:
    """The prefix for each text, and the format: if there is a day but no year, the year 1900, the default of strptime.

    Since Python 3.13, strptime warns if it has to choose the year itself, and a later version will choose another one.
    """
    plain = time_format.replace("%%", "")
    has_year = any(directive in plain for directive in ("%Y", "%y", "%G"))
    return ("1900|", f"%Y|{time_format}") if "%d" in plain and not has_year else ("", time_format)


def _by_pattern(text: pl.Series, name: str) -> Ticks:
    """Dates in one of the known forms: taken apart, and put together in the one form that polars reads."""
    import polars as pl

    if not len(text):
        return np.empty(0, np.int64), None
    if text.str.contains(ISO).all():  # the usual form, which polars reads at once
        chrono = "%Y-%m-%d" if len(text[0]) == 10 else f"%Y-%m-%d{text[0][10]}%H:%M:%S"
        read = _by_polars(text, name, chrono, 0)
        if not read.null_count():
            return as_times(read)[0] // 10**6, "s"
    pattern = next((pattern for pattern in PATTERNS if text.head(1).str.contains(pattern)[0]), None)
    if pattern is None:
        raise _unreadable(text, name, 0, "a number or a date in a known format")
    found = text.alias("text").to_frame().lazy().select(pl.col("text").str.extract_groups(pattern))
    parts = found.collect(engine="streaming").unnest("text")
    unread = parts["year"].is_null().to_numpy()
    if unread.any():
        raise _unreadable(text, name, int(np.argmax(unread)), f"a date written as in the first row, {text[0]!r}")
    if pattern == YEAR_LAST:
        parts = parts.rename(_day_or_month_first(parts, text, name))
    month = "%b" if pattern in (NAMED_MONTH, MONTH_FIRST) else "%m"
    digits = cast(int, parts["fraction"].str.len_chars().max() or 0)
    has_half, has_zone = (parts[part].null_count() < len(parts) for part in ("half", "zone"))
    clock = [pl.col(part).fill_null("0") for part in ("hour", "minute", "second", "fraction")]
    zone = pl.col("zone").str.replace("^[A-Za-z]+$", "+0000").str.replace(r"^(.\d\d)$", "${1}00").fill_null("+0000")
    written = pl.format("{}-{}-{} {}:{}:{}.{}", "year", "month", "day", *clock)
    date = f"%Y-{month}-%d %H:%M:%S%.f"
    chosen = parts.lazy().select(written + zone if has_zone else written, pl.col("half")).collect(engine="streaming")
    read = _by_polars(chosen["year"], name, date + "%z" * has_zone, digits)
    if has_half:  # 12 AM is 0 o'clock
        halves = chosen.select(pl.format("{}{}M", "year", "half"))["year"]
        of_halves = _by_polars(halves, name, date.replace("%H", "%I") + "%z" * has_zone + "%p", digits)
        read = pl.select(pl.when(chosen["half"].is_null()).then(read).otherwise(of_halves)).to_series()
    if read.null_count():
        raise _unreadable(text, name, int(np.argmax(read.is_null().to_numpy())), "a date of the calendar")
    _check_zones(parts["zone"].is_not_null().to_numpy(), name)
    power = -(-digits // 3)  # 0 for whole seconds, 1 for up to 3 digits, ...
    ticks, unit = as_times(read)
    return ticks // 1000 ** (UNITS.index(str(unit)) - power), UNITS[power]


def _day_or_month_first(parts: pl.DataFrame, text: pl.Series, name: str) -> dict[str, str]:
    """Which of the two leading numbers is the day: decided by a row with a number above 12, never guessed."""
    import polars as pl

    first, second = (parts[column].cast(pl.Int64).to_numpy() for column in ("first", "other"))
    day_first, month_first = (first > 12).any(), (second > 12).any()
    if day_first and month_first:
        row = int(np.argmax(second > 12 if first[0] > 12 else first > 12))
        raise _unreadable(text, name, row, "in the same order of day and month as the other rows")
    if not day_first and not month_first and (first != second).any():
        row = int(np.argmax(first != second))
        raise bad_row(
            f"The '{name}' is ambiguous: {text[row]!r} in {{row}} can be day/month or month/day.",
            row,
            f"Pass time_format={format_of(text[row], 'dm')!r} if the day comes first.",
            f"Pass time_format={format_of(text[row], 'md')!r} if the month comes first.",
        )
    return {"first": "month", "other": "day"} if month_first else {"first": "day", "other": "month"}


def format_of(text: str, order: str) -> str:
    """The format of a date with the year last, such as %d.%m.%Y %H:%M, given the order of day and month."""
    found = re.match(YEAR_LAST, text)
    start = len(text) if found is None or found["zone"] is None else found.start("zone")
    has_half = found is not None and found["half"] is not None
    letters = iter([*order, *("YIMSf" if has_half else "YHMSf")])
    written = re.sub(r"\d+", lambda _: f"%{next(letters)}", text[:start]) + ("%z" if start < len(text) else "")
    return re.sub(r"(?<!%)[ap]m", "%p", written, flags=re.IGNORECASE) if has_half else written
