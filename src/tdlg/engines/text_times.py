"""Times that are text, in a table that is read in blocks: how they are written is decided once, for the whole column."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tdlg.exceptions import ReadError
from tdlg.tables.times import PATTERNS, YEAR_LAST, format_of

if TYPE_CHECKING:
    import polars as pl

__all__ = ["DAY_FIRST", "MONTH_FIRST", "order_of_days", "year_first"]

NUMBERS = r"^(\d{1,2})[-/.](\d{1,2})[-/.](\d{4})"  # how YEAR_LAST begins
ZONE = r":\d{2}\S*\s*(?:[Zz]|UTC|GMT|[+-]\d{2}(?::?\d{2})?)$"
DAY_FIRST, MONTH_FIRST = "$3-$2-$1", "$3-$1-$2"  # the year, the month and the day


def order_of_days(lazy: pl.LazyFrame, name: str, path: str) -> str | None:
    """Whether the day or the month comes first in a column of dates such as 31/01/2020; None for other times.

    Parameters
    ----------
    lazy
        The table, of which this column is read once, in constant memory.
    name
        The column of text.
    path
        The file, for messages.
    """
    import polars as pl

    text = pl.col(name).str.strip_chars()
    forms = {f"form {k}": text.str.contains(pattern).sum() for k, pattern in enumerate(PATTERNS)}
    numbers = {f"number {k}": text.str.extract(NUMBERS, k).cast(pl.Int64).max().fill_null(0) for k in (1, 2)}
    differ = text.str.extract(NUMBERS, 1).cast(pl.Int64) != text.str.extract(NUMBERS, 2).cast(pl.Int64)
    asked = lazy.select(**forms, **numbers, zone=text.str.contains(ZONE).sum(), first=text.first(), differ=differ.any())
    found = asked.collect(engine="streaming").row(0, named=True)
    used = [found[key] for key in forms if found[key]]
    if len(used) > 1:
        raise ReadError(
            f"{path}: the dates in the column {name!r} are written in several ways. Write all in the same way."
        )
    if 0 < found["zone"] < sum(used):
        raise ReadError(f"{path}: some times in the column {name!r} have a time zone, and others have none.")
    if not found[f"form {PATTERNS.index(YEAR_LAST)}"]:
        return None
    day, month = (found[f"number {k}"] > 12 for k in (1, 2))
    if day and month:
        raise ReadError(
            f"{path}: in the column {name!r} the day comes first in some dates and the month in others. Write all in the "
            "same order."
        )
    if not day and not month and found["differ"]:
        raise ReadError(
            f"{path}: the column {name!r} is ambiguous: dates such as {found['first']!r} can be day/month or month/day, and "
            "no row has a number above 12, which would be the day.",
            f"Pass time_format={format_of(found['first'], 'dm')!r} if the day comes first.",
            f"Pass time_format={format_of(found['first'], 'md')!r} if the month comes first.",
        )
    return MONTH_FIRST if month else DAY_FIRST


def year_first(column: pl.Series, order: str) -> pl.Series:
    """Dates with the year, the month and the day in this order, which can be read in any block."""
    return column.str.strip_chars().str.replace(NUMBERS, order)
