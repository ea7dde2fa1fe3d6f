"""Text that has another meaning: words for a missing value, and numbers; and numbers of things as text."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import polars as pl

SCORE_DIGITS = 6  # of computed values in tables and answers
WITH_DECIMAL_COMMA = (";", "\t", "|")  # separators of tables in which 52,98 is a number
CODE = r"^[+-]?0\d"  # 007 is not a number
MISSING_WORDS = ("", "na", "nan", "nat", "null", "none", "n/a")
NUMBER_WITH_SIGNS = re.compile(r"[+-]?(\d{1,3}([,.' ]\d{3})+([,.]\d+)?|\d+,\d+)")  # 1,234.50 and 3,20
PLAIN_NUMBER = re.compile(r"[+-]?\d+(\.\d+)?")
NEARLY_ALL = 0.9  # share of the words
DECIMAL_COMMA = r"^[+-]?(\d+|\d{1,3}(\.\d{3})+)(,\d+)?$"  # 52,98 and 1.234,50
ONLY_DECIMAL = (
    r"^[+-]?(0,\d|\d{4,},|\d+,(\d{1,2}|\d{4,})$|[\d.]+\.\d{3},)"  # 3,200 may also be three thousand two hundred
)
BEYOND_INT64 = r"^[+-]?(\d{19}$|\d{20})"


def count(n: int, noun: str) -> str:
    """A number with its noun."""
    plural = noun[:-1] + "ies" if noun.endswith("y") else noun + ("es" if noun.endswith("s") else "s")
    return f"{n:,} {noun if n == 1 else plural}"


def numbers(text: pl.Series) -> pl.Series | None:
    """Convert text to integers, or else floats, if all of it is numbers or words for a missing value; else None.

    Integers beyond int64 give None: floats cannot represent them exactly.
    """
    import polars as pl

    first = text.drop_nulls().head(1)
    if first.cast(pl.Float64, strict=False).null_count() and not first.str.to_lowercase().is_in(MISSING_WORDS).all():
        return None  # this check is faster than trying to convert
    for dtype in (pl.Int64, pl.Float64):
        read = text.cast(dtype, strict=False)
        failed = text.filter(read.is_null() & text.is_not_null())
        if failed.str.to_lowercase().is_in(MISSING_WORDS).all() and len(failed) < len(text):
            return read
        if failed.str.contains(BEYOND_INT64).any():
            return None
    return None


def numbers_with_comma(text: pl.Series) -> pl.Series | None:
    """Convert text to floats if all of it is numbers with a decimal comma, or words for a missing value; else None."""
    if not text.str.contains(ONLY_DECIMAL).any():
        return None
    written = text.filter(~text.str.to_lowercase().is_in(MISSING_WORDS))
    if not written.str.contains(DECIMAL_COMMA).all():
        return None
    return numbers(text.str.replace_all(".", "", literal=True).str.replace(",", ".", literal=True))


def unread_number(words: Iterable[Any]) -> str | None:
    """Find a word that is a number with thousands separators or a decimal comma, if nearly all words are numbers."""
    texts = [str(word) for word in words]
    signed = [text for text in texts if NUMBER_WITH_SIGNS.fullmatch(text)]
    plain = [text for text in texts if PLAIN_NUMBER.fullmatch(text) and not NUMBER_WITH_SIGNS.fullmatch(text)]
    return signed[0] if signed and len(signed) + len(plain) >= NEARLY_ALL * len(texts) else None


def typed(text: pl.Series, separator: str = "") -> pl.Series:
    """Convert text to integers, floats or booleans if all of it can be converted, else keep it.

    Where the separator is none that a decimal comma could be taken for, numbers may have one.
    """
    import polars as pl

    if not len(text):
        return text.cast(pl.Int64)
    is_code = text.str.contains(CODE).any()
    read = None if is_code else numbers(text)
    if read is None and not is_code and separator in WITH_DECIMAL_COMMA:
        read = numbers_with_comma(text)
    if read is not None:
        return read
    truth = text.str.to_lowercase()
    if len(text) and truth.is_in(["true", "false"]).all() and not truth.null_count():
        return truth == "true"
    return text
