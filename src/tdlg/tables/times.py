"""Times: numbers stay numbers, dates and datetimes become datetime64 in s, ms, us or ns, in UTC."""

from __future__ import annotations

import datetime
import math
import re
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from tdlg.checks import sealed
from tdlg.clock import UNITS
from tdlg.exceptions import EdgesError
from tdlg.tables.column import (
    as_column,
    bad_row,
    check_polars_works,
    converted,
    first_null,
    frozen,
    nulls,
    row_name,
    short,
)
from tdlg.tables.text import MISSING_WORDS, numbers

if TYPE_CHECKING:
    import polars as pl

MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
CLOCK = (
    r"(?:(?:\s*[T,]\s*|\s+)(?P<hour>\d{1,2}):(?P<minute>\d{2})(?::(?P<second>\d{2})(?:[.,](?P<fraction>\d{1,9}))?)?"
    r"(?:\s*(?P<half>[AaPp])[Mm])?)?"
    r"\s*(?P<zone>[Zz]|UTC|GMT|[+-]\d{2}(?::?\d{2})?)?$"
)
YEAR_FIRST = r"^(?P<year>\d{4})[-/.](?P<month>\d{1,2})[-/.](?P<day>\d{1,2})" + CLOCK
YEAR_LAST = r"^(?P<first>\d{1,2})[-/.](?P<other>\d{1,2})[-/.](?P<year>\d{4})" + CLOCK
NAMED_MONTH = (
    r"^(?:[A-Za-z]{3,9},?\s+)?(?P<day>\d{1,2})[\s-](?P<month>[A-Za-z]{3})[a-z]*\.?[\s-](?P<year>\d{4})" + CLOCK
)
MONTH_FIRST = (
    r"^(?:[A-Za-z]{3,9},?\s+)?(?P<month>[A-Za-z]{3})[a-z]*\.?\s+(?P<day>\d{1,2})(?:,\s*|\s+)(?P<year>\d{4})" + CLOCK
)
PATTERNS = (YEAR_FIRST, YEAR_LAST, NAMED_MONTH, MONTH_FIRST)

Ticks: TypeAlias = tuple[NDArray[Any], str | None]
Fields: TypeAlias = dict[str, NDArray[np.int64]]


def as_times(values: Any, name: str = "time", time_format: str | None = None) -> Ticks:
    """Check a column of times and return its ticks (int64 or float64) and their unit, None for plain numbers.

    >>> ticks, unit = as_times(["2020-01-01", "2020-01-02 12:00:00"])
    >>> ticks.tolist(), unit
    ([1577836800, 1577966400], 's')
    """
    column = as_column(values, name)
    if not isinstance(column, np.ndarray):
        ticks, unit = _from_text(column, name, time_format)
        return sealed(ticks), unit
    ticks, unit = _from_array(column, name)
    return frozen(ticks), unit


def as_times_or_missing(
    values: Any, name: str, time_format: str | None = None
) -> tuple[NDArray[Any], str | None, NDArray[np.bool_]]:
    """Read a column of times that may have missing values: None, NaN, NaT, pandas NA, or text such as "" or "NaT".

    It gives the ticks, 0 where a time is missing, their unit, and the mask of missing ones. The unit is None for numbers,
    and if all times are missing in a column that has no datetimes.

    >>> ticks, unit, missing = as_times_or_missing(["1970-01-02", None, ""], "label_time")
    >>> ticks.tolist(), unit, missing.tolist()
    ([86400, 0, 0], 's', [False, True, True])
    """
    column = as_column(values, name)
    missing = nulls(column) if isinstance(column, np.ndarray) else _missing_words(column)
    rows = np.flatnonzero(~missing)
    try:
        known, unit = as_times(column[rows], name, time_format)
    except EdgesError as error:
        if error.row is None:
            raise
        row = int(rows[error.row])
        raise bad_row(error.problem.replace(row_name(error.row), "{row}"), row, *error.args[1:]) from None
    ticks = np.zeros(len(column), known.dtype)
    ticks[rows] = known
    return ticks, unit, missing


def has_time(texts: list[str], time_format: str | None) -> bool:
    """Whether some text is a time: a number, a date in a form that `as_times` reads, or in the format."""
    return any(map(_reads_as_time, texts)) or (time_format is not None and _has_time_in(texts, time_format))


def _reads_as_time(text: str) -> bool:
    written = text.strip()
    if not _is_number(written) and not any(re.match(pattern, written) for pattern in PATTERNS):
        return False
    with suppress(EdgesError):
        as_times([text])
        return True
    return False


def _is_number(text: str) -> bool:
    with suppress(ValueError):
        return math.isfinite(float(text))
    return False


def _has_time_in(texts: list[str], time_format: str) -> bool:
    """Whether some text is in the format, as polars or Python reads it."""
    import polars as pl

    stripped = [text.strip() for text in texts]
    with suppress(EdgesError):
        read = _by_polars(pl.Series(stripped, dtype=pl.String), "time", time_format)
        if read is not None and read.null_count() < len(read):
            return True
    year, dated_format = _with_a_year(time_format)
    for text in stripped:
        with suppress(ValueError):
            datetime.datetime.strptime(year + text, dated_format)
            return True
    return False


def from_numbers(ticks: NDArray[Any], unit: str, name: str = "time") -> NDArray[Any]:
    """Convert numbers in a unit since 1970 to datetimes; fractions are kept, in a finer unit."""
    if ticks.dtype.kind == "f":
        if unit != "ns" and (ticks != np.floor(ticks)).any():
            finer, factor = {"s": ("us", 1e6), "ms": ("us", 1e3), "us": ("ns", 1e3)}[unit]
            ticks, unit = ticks * factor, finer
        beyond = np.abs(ticks) >= 2.0**63
        if beyond.any():
            raise bad_row(
                f"The '{name}' in {{row}} is beyond the range of dates counted in {unit}.",
                int(np.argmax(beyond)),
                "Pass a finer time_unit=, such as 'ms', or leave it out.",
            )
        ticks = sealed(np.round(ticks).astype(np.int64))
    return ticks.view(f"datetime64[{unit}]")


def _from_array(column: NDArray[Any], name: str) -> Ticks:
    kind = column.dtype.kind
    if kind in "iu":
        return _integers(column, name), None
    if kind == "f":
        return _floats(column, name), None
    row = first_null(column)
    if row is not None and kind in "OM":
        raise _missing(name, row)
    if kind == "M":
        return _datetimes(column, name)
    if kind == "O" and len(column) and all(isinstance(value, int | np.integer) for value in column):
        return _integers(column, name), None
    if kind == "O":
        return _datetimes(_from_datetime_objects(column, name), name)
    raise EdgesError(
        f"The '{name}' must hold numbers or datetimes. Got {column.dtype} instead. "
        f"Pass numbers, datetimes or text such as '2020-01-31 12:00:00'."
    )


def _missing(name: str, row: int) -> EdgesError:
    return bad_row(f"The '{name}' is missing in {{row}}. Drop that row: an edge needs a time.", row)


def _integers(column: NDArray[Any], name: str) -> NDArray[np.int64]:
    if column.dtype in (np.uint64, object):
        beyond = (column > np.iinfo(np.int64).max) | (column < np.iinfo(np.int64).min)
        if beyond.any():
            raise _beyond_int64(column, name, int(np.argmax(beyond)))
    return converted(column, np.int64)


def _beyond_int64(column: Any, name: str, row: int) -> EdgesError:
    return bad_row(
        f"The '{name}' in {{row}} is {short(column[row], str)}, beyond int64. Subtract a start, or pass floats.", row
    )


def _floats(column: NDArray[Any], name: str) -> NDArray[np.float64]:
    finite = np.isfinite(column)
    if not finite.all():
        row = int(np.argmin(finite))
        raise bad_row(
            f"The '{name}' must be finite. Got {float(column[row])} in {{row}}. Drop that row: an edge needs a time.",
            row,
        )
    return converted(column, np.float64)


def _datetimes(column: NDArray[Any], name: str) -> Ticks:
    """Ticks in the unit of the column if it is supported, else in s, or in ns for units below ns."""
    own, step = np.datetime_data(column.dtype)
    unit = own if own in UNITS else "ns" if own in ("ps", "fs", "as") else "s"
    if (own, step) == (unit, 1):
        return column.view(np.int64), unit
    stored = sealed(column.astype(f"datetime64[{unit}]"))
    lost = stored.astype(column.dtype) != column
    if lost.any():
        row = int(np.argmax(lost))
        raise bad_row(
            f"The '{name}' in {{row}} is {column[row]}, which datetime64[{unit}] cannot hold. "
            f"Pass datetimes in s, ms, us or ns, or plain numbers.",
            row,
        )
    return stored.view(np.int64), unit


def _from_datetime_objects(column: NDArray[Any], name: str) -> NDArray[Any]:
    zoned = np.empty(len(column), bool)
    naive = np.empty(len(column), object)
    for row, value in enumerate(column):
        if not isinstance(value, datetime.date | np.datetime64):
            raise bad_row(
                f"The '{name}' must hold numbers or datetimes. Got {value!r} in {{row}}. "
                f"Pass all numbers, all datetimes, or all text.",
                row,
            )
        zoned[row], naive[row] = _in_utc(value)
    _check_zones(zoned, name)
    return _in_one_unit(naive.tolist(), name)


def _in_one_unit(times: list[np.datetime64], name: str) -> NDArray[Any]:
    """The datetimes in the finest unit among them; numpy itself would overflow silently."""
    column = np.array(times, "datetime64")
    if np.datetime_data(column.dtype)[0] != "ns":
        return sealed(column)
    in_us = np.array([time.astype("datetime64[us]") for time in times])
    if (np.abs(in_us.view(np.int64)) < 2**63 // 1000).all():
        return sealed(column)
    if all(time == time.astype("datetime64[us]") for time in times if np.datetime_data(time.dtype)[0] == "ns"):
        return sealed(in_us)
    raise _far_nanoseconds(name)


def _in_utc(value: Any) -> tuple[bool, np.datetime64]:
    """Whether the datetime has a zone, and the datetime in UTC if so."""
    zoned = getattr(value, "tzinfo", None) is not None
    if hasattr(value, "to_datetime64"):  # a pandas Timestamp has nanoseconds, and its datetime64 is in UTC
        return zoned, value.to_datetime64()
    if zoned:  # astimezone() fails at the ends of the calendar, such as on 9999-12-31 west of Greenwich
        naive = np.datetime64(value.replace(tzinfo=None))
        return zoned, cast("np.datetime64", naive - np.timedelta64(value.utcoffset()))
    return zoned, np.datetime64(value)


def _check_zones(zoned: NDArray[np.bool_], name: str) -> None:
    if zoned.any() and not zoned.all():
        row = int(np.argmax(zoned != zoned[0]))
        has, had = ("no", "have one") if zoned[0] else ("a", "have none")
        raise bad_row(
            f"The '{name}' in {{row}} has {has} time zone, and the rows before it {had}. "
            f"Pass all times with a zone, or none.",
            row,
        )


def _from_text(text: pl.Series, name: str, time_format: str | None) -> Ticks:
    import polars as pl

    check_polars_works("Times as text")
    text = text.str.strip_chars()
    missing = _missing_words(text)
    if missing.any():
        raise _missing(name, int(np.argmax(missing)))
    if time_format is not None:
        return _by_format(text, name, time_format)
    read = numbers(text)
    if read is not None:
        return as_times(read, name)
    if len(text) and text.str.contains(r"^[+-]?\d+$").all():
        raise _beyond_int64(text, name, int(np.argmax(text.cast(pl.Int64, strict=False).is_null().to_numpy())))
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


def _by_format(text: pl.Series, name: str, time_format: str) -> Ticks:
    """Read text with polars, which is fast; what it cannot read is left to `datetime.strptime`, which decides."""
    read = _by_polars(text, name, time_format)
    if read is None or read.null_count():
        return _by_strptime(text, name, time_format, read)
    return _coarsest(as_times(read, name))


def _by_polars(text: pl.Series, name: str, time_format: str) -> pl.Series | None:
    import polars as pl

    chrono = time_format.replace(".%f", "%.f")  # polars' own %f counts nanoseconds, whatever the digits
    if "%f" in chrono:
        return None
    try:
        read = text.str.strptime(pl.Datetime("us"), chrono, strict=False)
        if not text.str.contains(r"\.\d{7}").any() and "%9f" not in chrono:
            return read
        fine = text.str.strptime(pl.Datetime("ns"), chrono, strict=False)
    except pl.exceptions.PolarsError:
        return None
    if (fine.dt.year() != read.dt.year()).any():
        raise _far_nanoseconds(name)
    return fine


def _by_strptime(text: pl.Series, name: str, time_format: str, tried: pl.Series | None) -> Ticks:
    unread = 0 if tried is None else int(np.argmax(tried.is_null().to_numpy()))
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

    if values:
        read(unread)  # if this row is invalid, the other rows need not be read
    return _coarsest(as_times([read(row) for row in range(len(values))], name))


def _with_a_year(time_format: str) -> tuple[str, str]:
    """The prefix for each text, and the format: if there is a day but no year, the year 1900, the default of strptime.

    Since Python 3.13, strptime warns if it has to choose the year itself, and a later version will choose another one.
    """
    plain = time_format.replace("%%", "")
    has_year = any(directive in plain for directive in ("%Y", "%y", "%G"))
    return ("1900|", f"%Y|{time_format}") if "%d" in plain and not has_year else ("", time_format)


def _coarsest(times: Ticks) -> Ticks:
    """The same times in the coarsest unit that is exact."""
    ticks, unit = times
    while unit not in ("s", None) and not (ticks % 1000).any():
        ticks, unit = ticks // 1000, UNITS[UNITS.index(str(unit)) - 1]
    return ticks, unit


def _by_pattern(text: pl.Series, name: str) -> Ticks:
    if not len(text):
        return np.empty(0, np.int64), None
    for pattern in PATTERNS:
        if text.head(1).str.contains(pattern)[0]:
            return _assemble(_extract(text, pattern, name), text, name)
    raise _unreadable(text, name, 0, "a number or a date in a known format")


def _extract(text: pl.Series, pattern: str, name: str) -> pl.DataFrame:
    """The parts of each date as columns of text, with day and month by name."""
    import polars as pl

    found = text.alias("text").to_frame().lazy().select(pl.col("text").str.extract_groups(pattern))
    parts = found.collect(engine="streaming").unnest("text")
    unread = parts["year"].is_null().to_numpy()
    if unread.any():
        raise _unreadable(text, name, int(np.argmax(unread)), f"a date written as in the first row, {text[0]!r}")
    if pattern == YEAR_LAST:
        return parts.rename(_day_or_month_first(parts, text, name))
    if pattern in (NAMED_MONTH, MONTH_FIRST):
        numbers = {month: str(k + 1) for k, month in enumerate(MONTHS)}
        return parts.with_columns(pl.col("month").str.to_lowercase().replace_strict(numbers, default="0"))
    return parts


def _day_or_month_first(parts: pl.DataFrame, text: pl.Series, name: str) -> dict[str, str]:
    """Which of the two leading numbers is the day: decided by a row with a number above 12, never guessed."""
    first, second = (_number(parts, column) for column in ("first", "other"))
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


def _number(parts: pl.DataFrame, column: str) -> NDArray[np.int64]:
    import polars as pl

    return cast("NDArray[np.int64]", parts[column].cast(pl.Int64).fill_null(0).to_numpy())


def _assemble(parts: pl.DataFrame, text: pl.Series, name: str) -> Ticks:
    fields = {part: _number(parts, part) for part in ("year", "month", "day", "hour", "minute", "second")}
    in_24_hours = _set_hours(fields, parts)
    seconds, valid = _seconds(fields)
    valid &= in_24_hours
    if not valid.all():
        raise _unreadable(text, name, int(np.argmin(valid)), "a date of the calendar")
    _check_zones(parts["zone"].is_not_null().to_numpy(), name)
    return _with_fraction(seconds - _offset(parts), parts, name)


def _set_hours(fields: Fields, parts: pl.DataFrame) -> NDArray[np.bool_]:
    """Convert the hours of AM and PM to 0 to 23, and check that each was from 1 to 12."""
    half, hour = parts["half"].str.to_lowercase(), fields["hour"]
    has_half, is_pm = half.is_not_null().to_numpy(), half.eq_missing("p").to_numpy()
    fields["hour"] = np.where(has_half, hour % 12 + 12 * is_pm, hour)
    return np.asarray(~has_half | ((hour >= 1) & (hour <= 12)))


def _seconds(fields: Fields) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Seconds since 1970, and whether the fields are a valid date and time of day."""
    months = (fields["year"] - 1970) * 12 + fields["month"] - 1
    days = months.astype("datetime64[M]").astype("datetime64[D]") + (fields["day"] - 1)
    valid = (fields["month"] >= 1) & (fields["month"] <= 12) & (fields["day"] >= 1)
    valid &= days.astype("datetime64[M]").astype(np.int64) == months
    valid &= (fields["hour"] < 24) & (fields["minute"] < 60) & (fields["second"] < 60)
    clock = fields["hour"] * 3600 + fields["minute"] * 60 + fields["second"]
    return days.astype(np.int64) * 86400 + clock, valid


def _offset(parts: pl.DataFrame) -> NDArray[np.int64] | int:
    """Seconds by which the clock of each row is ahead of UTC."""
    import polars as pl

    if not parts["zone"].str.contains(r"\d").any():
        return 0
    found = parts["zone"].str.extract_groups(r"^(?P<sign>[+-])(?P<hour>\d{2}):?(?P<minute>\d{2})?").struct.unnest()
    seconds = _number(found, "hour") * 3600 + _number(found, "minute") * 60
    behind = found.select(pl.col("sign").fill_null("+") == "-").to_series().to_numpy()
    return cast("NDArray[np.int64]", np.where(behind, -seconds, seconds))


def _with_fraction(seconds: NDArray[np.int64], parts: pl.DataFrame, name: str) -> Ticks:
    digits = int(cast(int, parts["fraction"].str.len_chars().max() or 0))
    power = -(-digits // 3)  # 0 for whole seconds, 1 for up to 3 digits, ...
    if power == 0:
        return seconds, "s"
    if power == 3 and np.abs(seconds).max() >= 2**63 // 10**9:
        raise _far_nanoseconds(name)
    fraction = parts.select(fraction=parts["fraction"].fill_null("").str.pad_end(3 * power, "0"))
    return seconds * 1000**power + _number(fraction, "fraction"), UNITS[power]


def _far_nanoseconds(name: str) -> EdgesError:
    return EdgesError(f"The '{name}' has nanoseconds far from 1970, beyond int64. Round the times to microseconds.")
