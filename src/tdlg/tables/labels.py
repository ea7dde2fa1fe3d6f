"""Labels and weights of edges, and when labels became known, in ticks of the clock of their edges."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tdlg.checks import is_number, sealed
from tdlg.clock import LAST_TICK, as_seconds, is_duration, rounded_up, ticks_per_second
from tdlg.exceptions import EdgesError, ParameterError
from tdlg.tables.column import Column, as_column, bad_row, check_unicode, converted, frozen, nulls, refuse
from tdlg.tables.text import MISSING_WORDS, PLAIN_NUMBER, typed
from tdlg.tables.times import as_times_or_missing

Ticks = NDArray[Any]

OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    ">=": operator.ge,
    "<=": operator.le,
    "==": operator.eq,
    "!=": operator.ne,
    ">": operator.gt,
    "<": operator.lt,
    "=": operator.eq,
}
EQUAL = ("==", "=", "!=")
MOST_CLASSES = 100  # different values; with more, a label column needs a condition
TRUTH = {"true": True, "false": False}


def as_labels(values: Any, name: str = "label") -> NDArray[Any]:
    """Check a column of labels: integers, booleans, floats (NaN missing) or objects (None missing)."""
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
        problem = f"The '{name}' must be finite, or NaN where missing. Got {{value}} in {{row}}."
        refuse(np.isinf(column), column, f"{problem} Replace it by a number, or by NaN.")
        return frozen(converted(column, np.float64))
    if kind == "O":
        _check_objects(column, name)
        check_unicode(column, name)
    return frozen(column)


def known(label: NDArray[Any]) -> NDArray[np.bool_]:
    """Mask of the labels that are not missing."""
    return ~nulls(label)


def as_weights(values: Any, name: str = "weight") -> NDArray[np.float64]:
    """Check a column of weights: finite numbers, as float64."""
    column = as_numbers(as_column(values, name))
    if not isinstance(column, np.ndarray) or column.dtype.kind not in "iufb":
        raise EdgesError(
            f"The '{name}' must hold numbers. Got {first_value(column)} instead. Pass one number per edge."
        )
    problem = f"The '{name}' must be finite. Got {{value}} in {{row}}. Drop that row, or give it a weight such as 1."
    refuse(~np.isfinite(column), column, problem)
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


def _check_objects(column: NDArray[Any], name: str) -> None:
    """Refuse labels of several types, and whole numbers beyond int64, which models could not learn as numbers."""
    first = next((value for value in column if value is not None), None)
    for row, value in enumerate(column):
        if value is not None and type(value) is not type(first):
            raise bad_row(
                f"The '{name}' mixes {type(first).__name__} and {type(value).__name__}: {first!r}, and "
                f"{value!r} in {{row}}. Labels must be of one type.",
                row,
                "Pass them as text, `[str(y) for y in label]`.",
            )
    beyond = np.fromiter((type(value) is int and not -(2**63) <= value < 2**63 for value in column), bool, len(column))
    problem = f"The '{name}' has the whole number {{value}} in {{row}}, which is beyond 64 bits."
    refuse(beyond, column, f"{problem} Pass labels as text, or as small numbers.")


def without_words(labels: NDArray[Any], missing: Iterable[Any] | None) -> NDArray[Any]:
    """Labels with words for a missing label, in any case, as missing; numbers if only these words made them text."""
    words = {*MISSING_WORDS, *(str(word).strip().lower() for word in missing or ())}
    if labels.dtype.kind == "O":
        values = [None if isinstance(value, str) and value.lower() in words else value for value in labels]
        if missing is None or not all(value is None or isinstance(value, str) for value in values):
            return np.array(values, object)
        import polars as pl

        column = typed(pl.Series(values, dtype=pl.String))
        return column.cast(pl.Float64).to_numpy() if column.dtype.is_numeric() else np.array(values, object)
    codes = [float(word) for word in words if PLAIN_NUMBER.fullmatch(word)]
    return np.where(np.isin(labels, codes), np.nan, labels) if labels.dtype.kind in "iuf" and codes else labels


def label_ticks(ticks: Ticks, unit: str | None, label_time: Any = None, label_delay: Any = None) -> Ticks | None:
    """The times at which labels became known, in ticks of the edges; None if neither times nor a delay are given.

    A missing time is the least integer or NaN, see `filled_label_ticks`. Times are rounded up to whole ticks, so that no
    label is known too early.
    """
    if label_delay is None:
        return None if label_time is None else _given(ticks, unit, label_time)
    if label_time is not None:
        raise ParameterError(
            "The 'label_time' and the 'label_delay' are both given, and say the same in two ways.",
            "Leave out label_delay=.",
            parameter="label_delay",
        )
    if unit is not None and is_duration(label_delay):
        delay = as_seconds(label_delay, "label_delay") * ticks_per_second(unit)
    elif unit is None and is_number(label_delay) and 0 <= label_delay < np.inf:
        delay = float(label_delay)
    else:
        form = "a number that is not negative, in the unit of the times" if unit is None else "a duration such as '7d'"
        raise ParameterError(f"The 'label_delay' must be {form}. Got {label_delay!r} instead.", parameter="label_delay")
    if ticks.dtype.kind == "f":
        return np.minimum(ticks + delay, np.finfo(np.float64).max)
    whole = int(min(np.ceil(delay), LAST_TICK))
    return np.where(ticks > LAST_TICK - whole, LAST_TICK, np.minimum(ticks, LAST_TICK - whole) + whole)


def filled_label_ticks(ticks: Ticks, labelled: NDArray[np.bool_]) -> Ticks:
    """Let labels without a time never become known; refuse a known label without a time."""
    missing = np.isnan(ticks) if ticks.dtype.kind == "f" else ticks == np.iinfo(np.int64).min
    problem = "The 'label_time' is missing in {row}, whose label is known."
    refuse(missing & labelled, ticks, f"{problem} Pass the time when it became known, or make the label missing too.")
    return np.where(missing, _last(ticks.dtype), ticks)


def without_infinity(label_time: Any) -> tuple[Column, NDArray[np.bool_]]:
    """The times with NaN for infinity, and the mask of infinite ones: those labels never become known."""
    times = as_column(label_time, "label_time")
    if not isinstance(times, np.ndarray) or times.dtype.kind != "f":
        return times, np.zeros(len(times), bool)
    return np.where(np.isposinf(times), np.nan, times), np.isposinf(times)


def _last(dtype: np.dtype[Any]) -> Any:
    return LAST_TICK if dtype.kind == "i" else np.finfo(np.float64).max


def _given(ticks: Ticks, unit: str | None, label_time: Any) -> Ticks:
    label_time, never = without_infinity(label_time)
    found, found_unit, missing = as_times_or_missing(label_time, "label_time")
    if len(found) != len(ticks):
        raise EdgesError(f"The 'label_time' must have one value per edge: {len(ticks):,}. Got {len(found):,} instead.")
    if not missing.all() and (found_unit is None) != (unit is None):
        form = "numbers" if unit is None else "datetimes"
        raise EdgesError(f"The 'label_time' must be {form}, like the times of the edges. Convert one of the two.")
    is_float = ticks.dtype.kind == "f"
    known_at = np.zeros(len(ticks), ticks.dtype)
    known_at[~missing] = rounded_up(found[~missing], found_unit, unit, ticks.dtype)
    known_at[missing] = np.nan if is_float else np.iinfo(np.int64).min
    known_at[never] = _last(ticks.dtype)
    return known_at


def plain_classes(values: NDArray[Any]) -> NDArray[Any]:
    """Floats that are whole numbers as integers; they are floats only because of missing labels."""
    return values.astype(np.int64) if values.dtype.kind == "f" and (values % 1 == 0).all() else values


# ---- conditions and missing words


@dataclass(frozen=True)
class LabelRule:
    """How the values of a label column become labels: the words for a missing label, and a condition for two classes.

    The one rule for tables in memory and on disk, in Python and on the shell.

    positive : a label value such as "fraud", or a condition such as "> 0". Words and two different numbers keep their
    values; more numbers become 1 where the condition holds and 0 elsewhere. By default the values are the classes.
    missing : words and values that mark a missing label, beside empty cells, NA and similar words; column : its name, for
    messages.
    """

    positive: str | None = None
    missing: tuple[Any, ...] | None = None
    column: str = "label"

    def read(
        self, values: NDArray[Any], *, to_learn: bool = True, classes: tuple[Any, Any] | None = None
    ) -> tuple[NDArray[Any] | None, Any]:
        """The labels, None if all are missing, and the positive class, None without a condition.

        to_learn : whether known labels of both classes are needed; classes : the two classes of a fitted model, first the
        one where the condition does not hold.
        """
        labels = without_words(values, self.missing)
        is_known = known(as_labels(labels))
        if not is_known.any():
            if not to_learn:
                return None, None
            problem = f"All labels in the column {self.column!r} are missing: there is nothing to learn from."
            raise self._wrong(problem, parameter="label")
        if self.positive is None:
            if to_learn:
                self._check_classes(labels[is_known])
            return labels, None
        holds = np.asarray(self._holds(labels[is_known], to_learn), bool)
        if to_learn and (holds.all() or not holds.any()):
            which, shown = "every" if holds.all() else "no", _few(labels[is_known])
            raise self._wrong(
                f"The condition {self.positive!r} holds for {which} known label of {self.column!r}: {shown}."
            )
        if classes is None:
            classes = self._two_classes(labels[is_known], holds)
        elif isinstance(classes[1], str):
            sign, text = self._parsed()
            if sign not in EQUAL or [OPERATORS[sign](word, text) for word in classes] != [False, True]:
                raise self._wrong(
                    f"The positive class of the model is {classes[1]!r}, but {self.positive!r} is another condition. Give "
                    "the same one as for the model, or none."
                )
        are_numbers = all(isinstance(value, int | float) and not isinstance(value, bool) for value in classes)
        turned = np.full(len(labels), np.nan if are_numbers else None, float if are_numbers else object)
        turned[is_known] = np.array(classes, turned.dtype)[holds.astype(int)]
        return turned, classes[1]

    def to_learn(self, values: NDArray[Any]) -> tuple[NDArray[Any], Any]:
        """`read`, for labels of which at least two classes must be known."""
        labels, positive = self.read(values)
        assert labels is not None
        found = plain_classes(labels[known(as_labels(labels))])
        if len(set(found.tolist())) == 1:
            raise self._wrong(
                f"The known labels in the column {self.column!r} have only 1 class, {_few(found)}: there is nothing to "
                "classify. Give labels of at least two classes.",
                parameter="label",
            )
        return labels, positive

    def classes(self, values: Sequence[Any]) -> tuple[list[Any], Any]:
        """The class of each distinct value of a column, None for a missing label, and the positive class."""
        labels, positive = self.to_learn(np.asarray(as_labels(list(values))))
        is_known = known(as_labels(labels)).tolist()
        return [value if there else None for value, there in zip(labels.tolist(), is_known, strict=True)], positive

    def named(self, positive: Any = None) -> str:
        """The label for display: its column, or the condition if labels are 1 where it holds."""
        if self.positive is None:
            return self.column
        sign, text = self._parsed()
        is_value = sign in EQUAL and (isinstance(positive, str) or str(positive) == text)
        return self.column if is_value else f"({self.column} {sign} {text})"

    def _two_classes(self, labels: NDArray[Any], holds: NDArray[np.bool_]) -> tuple[Any, Any]:
        """The names of the two classes, from the user's labels: condition does not hold, condition holds."""
        sign, text = self._parsed()
        if sign not in EQUAL:
            return 0, 1
        sides = [plain_classes(np.unique(labels[mask])).tolist() for mask in (~holds, holds)]
        are_plain = all(len(values) == 1 and not isinstance(values[0], float) for values in sides)
        if not are_plain and not isinstance(labels[0], str):
            return 0, 1
        without, with_it = (values[0] if len(values) == 1 else f"not {text}" for values in sides)
        return without, with_it

    def _check_classes(self, labels: NDArray[Any]) -> None:
        n_classes = len(np.unique(labels.astype(str)))
        if labels.dtype.kind == "f" and (labels % 1 != 0).any():
            what = f"numbers that are not classes: {_few(labels)}."
        elif n_classes > MOST_CLASSES:
            what = f"{n_classes:,} different values: {_few(labels)}."
        else:
            return
        way_out = "Give the positive class, for example positive='> 0'."
        raise self._wrong(f"The column {self.column!r} has {what}", way_out, parameter="label")

    def _holds(self, labels: NDArray[Any], to_learn: bool) -> Any:
        """Whether the condition holds for each known label."""
        sign, text = self._parsed()
        if labels.dtype.kind == "O" and all(isinstance(value, bool) for value in labels):
            labels = labels.astype(bool)  # objects, because some labels are missing
        if labels.dtype.kind == "b":
            if text.lower() not in TRUTH or sign not in EQUAL:
                raise self._wrong(
                    f"The labels of {self.column!r} are true or false. Got the condition {self.positive!r} instead.",
                    "Give positive='true' or positive='false'.",
                )
            return OPERATORS[sign](labels, TRUTH[text.lower()])
        if labels.dtype.kind in "iuf":
            with suppress(ValueError):
                if not np.isnan(float(text)):
                    return OPERATORS[sign](labels, float(text))
            raise self._wrong(
                f"The labels of {self.column!r} are numbers: {_few(labels)}. {text!r} in the condition is not a number."
            )
        if sign not in EQUAL:
            raise self._wrong(
                f"The labels of {self.column!r} are words: {_few(labels)}. {self.positive!r} compares numbers.",
                f"Give one of the words, such as positive={labels[0]!r}.",
            )
        if to_learn and not (labels == text).any():
            raise self._wrong(f"No known label of {self.column!r} is {text!r}. They are {_few(labels)}.")
        return OPERATORS[sign](labels, text)

    def _parsed(self) -> tuple[str, str]:
        """The operator and the value of the condition; == and the value, if it is only a value."""
        found = re.fullmatch(r"\s*(>=|<=|==|!=|>|<|=)?\s*(.*?)\s*", str(self.positive), re.DOTALL)
        if found is None or not found[2]:
            raise self._wrong(
                f"The 'positive' must be a value or a condition such as '> 0'. Got {self.positive!r} instead."
            )
        return found[1] or "==", found[2]

    def _wrong(self, problem: str, *hints: str, parameter: str = "positive") -> ParameterError:
        return ParameterError(problem, *hints, parameter=parameter)


def _few(labels: NDArray[Any]) -> str:
    """Some of the values, for example "'fair', 'fraud'" or "-10, -9, ... 10"."""
    values = [f"{value:g}" if isinstance(value, float) else repr(value) for value in np.unique(labels).tolist()]
    return ", ".join(values if len(values) <= 6 else [*values[:4], "...", values[-1]])
