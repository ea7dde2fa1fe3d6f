"""Text that may be something else: the words for a missing value, and numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import polars as pl

__all__ = ["MISSING_WORDS", "numbers"]

MISSING_WORDS = ("", "na", "nan", "nat", "null", "none", "n/a")
BEYOND_INT64 = r"^[+-]?(\d{19}$|\d{20})"


def numbers(text: pl.Series) -> pl.Series | None:
    """Give integers, or else floats, if all of the text is numbers or words for a missing one; else None.

    Integers beyond int64 are none: floats would take two of them for one.

    Examples
    --------
    >>> import polars as pl
    >>> numbers(pl.Series(["1", "NA", "3"])).to_list()
    [1, None, 3]
    >>> numbers(pl.Series(["1", "x"])) is None
    True
    """
    import polars as pl

    first = text.drop_nulls().head(1)
    if first.cast(pl.Float64, strict=False).null_count() and not first.str.to_lowercase().is_in(MISSING_WORDS).all():
        return None  # looking is faster than trying
    for dtype in (pl.Int64, pl.Float64):
        read = text.cast(dtype, strict=False)
        failed = text.filter(read.is_null() & text.is_not_null())
        if failed.str.to_lowercase().is_in(MISSING_WORDS).all() and len(failed) < len(text):
            return read
        if failed.str.contains(BEYOND_INT64).any():
            return None
    return None
