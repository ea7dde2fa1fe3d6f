"""Labels and weights of edges."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from tdlg.exceptions import EdgesError, Hint
from tdlg.tables.column import Column, as_column, bad_row, check_unicode, converted, frozen, sealed, short
from tdlg.tables.text import MISSING_WORDS, PLAIN_NUMBER

__all__ = ["as_labels", "as_numbers", "as_weights", "first_value", "known", "without_words"]


def as_labels(values: Any, name: str = "label") -> NDArray[Any]:
    """Check a column of labels: integers, booleans, floats (NaN missing) or objects (None missing).

    Examples
    --------
    >>> as_labels(["fraud", None, "fair"])
    array(['fraud', None, 'fair'], dtype=object)
    """
    column = as_column(values, name)
    if not isinstance(column, np.ndarray):
        return sealed(np.array(column.to_list(), object))
    kind = column.dtype.kind
    if kind in "mMc":
        raise EdgesError(
            f"The '{name}' must hold numbers, booleans or strings. Got {column.dtype} instead. "
            f"Pass numbers, such as seconds."
        )
    if kind == "f":
        _check_no_infinity(column, name)
        return frozen(converted(column, np.float64))
    if kind == "O":
        _check_one_type(column, name)
        _check_not_too_long(column, name)
        check_unicode(column, name)
    return frozen(column)


def known(label: NDArray[Any]) -> NDArray[np.bool_]:
    """Mask of the labels that are not missing."""
    if label.dtype.kind == "f":
        return cast("NDArray[np.bool_]", ~np.isnan(label))
    if label.dtype.kind == "O":
        return np.fromiter((value is not None for value in label), bool, len(label))
    return np.ones(len(label), bool)


def as_weights(values: Any, name: str = "weight") -> NDArray[np.float64]:
    """Check a column of weights: finite numbers, as float64."""
    column = as_numbers(as_column(values, name))
    if not isinstance(column, np.ndarray) or column.dtype.kind not in "iufb":
        raise EdgesError(
            f"The '{name}' must hold numbers. Got {first_value(column)} instead. Pass one number per edge."
        )
    finite = np.isfinite(column)
    if not finite.all():
        row = int(np.argmin(finite))
        raise bad_row(
            f"The '{name}' must be finite. Got {float(column[row])} in {{row}}. "
            f"Drop that row, or give it a weight such as 1.",
            row,
        )
    return frozen(converted(column, np.float64))


def as_numbers(column: Column) -> Column:
    """Objects that are whole numbers, booleans or missing as floats; any other column is unchanged."""
    if not isinstance(column, np.ndarray) or column.dtype.kind != "O":
        return column
    types = {type(value) for value in column if value is not None}
    is_long = any(isinstance(value, int) and abs(value) >= 2**64 for value in column)
    return converted(column, np.float64) if types <= {bool} or (types == {int} and not is_long) else column


def first_value(column: Column) -> str:
    """The first value of a column, for a message."""
    return repr(column[0]) if len(column) else "an empty column of strings"


def _check_no_infinity(column: NDArray[Any], name: str) -> None:
    infinite = np.isinf(column)
    if infinite.any():
        row = int(np.argmax(infinite))
        raise bad_row(
            f"The '{name}' must be finite, or NaN where missing. Got {column[row]} in {{row}}. "
            f"Replace it by a number, or by NaN.",
            row,
        )


def _check_one_type(column: NDArray[Any], name: str) -> None:
    first: Any = None
    for row, value in enumerate(column):
        first = value if first is None else first
        if value is not None and type(value) is not type(first):
            raise bad_row(
                f"The '{name}' mixes {type(first).__name__} and {type(value).__name__}: {first!r}, and "
                f"{value!r} in {{row}}. Labels must be of one type.",
                row,
                Hint("Pass them as text, {code}.", code="[str(y) for y in label]"),
            )


def _check_not_too_long(column: NDArray[Any], name: str) -> None:
    """Refuse whole numbers beyond int64: models could not learn them as numbers."""
    for row, value in enumerate(column):
        if type(value) is int and not -(2**63) <= value < 2**63:
            raise bad_row(
                f"The '{name}' has the whole number {short(value)} in {{row}}, which is beyond 64 bits. Pass labels as "
                "text, or as small numbers.",
                row,
            )


def without_words(labels: NDArray[Any], missing: Iterable[Any] | None) -> NDArray[Any]:
    """Labels with words for a missing label, in any case, as missing; numbers if only these words made them text.

    Examples
    --------
    >>> without_words(np.array(["a", "NA", "?"], object), ["?"])
    array(['a', None, None], dtype=object)
    >>> without_words(np.array([0, 1, 2]), [2])
    array([ 0.,  1., nan])
    """
    words = {*MISSING_WORDS, *(str(word).strip().lower() for word in missing or ())}
    if labels.dtype.kind == "O":
        values = [None if isinstance(value, str) and value.lower() in words else value for value in labels]
        is_text = missing is not None and all(value is None or isinstance(value, str) for value in values)
        return _read_again(values) if is_text else np.array(values, object)
    codes = [float(word) for word in words if PLAIN_NUMBER.fullmatch(word)]
    return np.where(np.isin(labels, codes), np.nan, labels) if labels.dtype.kind in "iuf" and codes else labels


def _read_again(values: list[Any]) -> NDArray[Any]:
    """Text as numbers, where all of it is."""
    import polars as pl

    from tdlg.tables.csv import typed

    column = typed(pl.Series(values, dtype=pl.String))
    return column.cast(pl.Float64).to_numpy() if column.dtype.is_numeric() else np.array(values, object)
