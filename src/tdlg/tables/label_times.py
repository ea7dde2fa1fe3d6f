"""When labels became known, in ticks of the clock of their edges."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tdlg.checks import is_number
from tdlg.clock import LAST_TICK, as_seconds, is_duration, rounded_up, ticks_per_second
from tdlg.exceptions import EdgesError, Hint, ParameterError
from tdlg.tables.column import bad_row
from tdlg.tables.times import as_times_or_missing

__all__ = ["filled_label_ticks", "label_ticks", "without_infinity"]

Ticks = NDArray[Any]


def label_ticks(ticks: Ticks, unit: str | None, label_time: Any = None, label_delay: Any = None) -> Ticks | None:
    """The times at which labels became known, in ticks of the edges; None if neither times nor a delay are given.

    A missing time is the least integer or NaN, see `filled_label_ticks`. Times are rounded up to whole ticks, so that no
    label is known too early.

    Parameters
    ----------
    ticks, unit
        The ticks of the edges, and their unit.
    label_time
        One time per edge, like the times of the edges. Infinity means that the label never becomes known.
    label_delay
        Instead of `label_time`, the time from an edge to its label: a duration such as "7d" for datetimes, else a number.

    Examples
    --------
    >>> ticks = np.array([0, 5])
    >>> label_ticks(ticks, None, [3, 9]), label_ticks(ticks, None, label_delay=2), label_ticks(ticks, None)
    (array([3, 9]), array([2, 7]), None)
    """
    if label_delay is None:
        return None if label_time is None else _given(ticks, unit, label_time)
    if label_time is not None:
        raise ParameterError(
            "The 'label_time' and the 'label_delay' are both given, and say the same in two ways.",
            Hint("Leave out {label_delay}.", label_delay=...),
            parameter="label_delay",
            value=label_delay,
        )
    delay = _delay_ticks(label_delay, unit)
    if ticks.dtype.kind == "f":
        return np.minimum(ticks + delay, np.finfo(np.float64).max)
    whole = int(min(np.ceil(delay), LAST_TICK))
    return np.where(ticks > LAST_TICK - whole, LAST_TICK, np.minimum(ticks, LAST_TICK - whole) + whole)


def filled_label_ticks(ticks: Ticks, labelled: NDArray[np.bool_]) -> Ticks:
    """Let labels without a time never become known; refuse a known label without a time.

    Parameters
    ----------
    ticks
        What `label_ticks` returned.
    labelled
        Mask of the edges whose label is known.

    Examples
    --------
    >>> filled_label_ticks(np.array([3.0, np.nan]), np.array([True, False]))
    array([3.00000000e+000, 1.79769313e+308])
    """
    missing = np.isnan(ticks) if ticks.dtype.kind == "f" else ticks == np.iinfo(np.int64).min
    without = missing & labelled
    if without.any():
        raise bad_row(
            "The 'label_time' is missing in {row}, whose label is known. Pass the time when it became known, or make the "
            "label missing too.",
            int(np.argmax(without)),
        )
    return np.where(missing, _last(ticks.dtype), ticks)


def without_infinity(label_time: Any) -> tuple[Any, NDArray[np.bool_]]:
    """The times with NaN for infinity, and the mask of infinite ones: those labels never become known."""
    times = np.asarray(label_time)
    never = np.isposinf(times) if times.dtype.kind == "f" else np.zeros(len(times), bool)
    return (np.where(never, np.nan, times) if never.any() else label_time), never


def _last(dtype: np.dtype[Any]) -> Any:
    return LAST_TICK if dtype.kind == "i" else np.finfo(np.float64).max


def _delay_ticks(delay: Any, time_unit: str | None) -> float:
    if time_unit is not None and is_duration(delay):
        return as_seconds(delay, "label_delay") * ticks_per_second(time_unit)
    if time_unit is None and is_number(delay) and 0 <= delay < np.inf:
        return float(delay)
    form = "a number that is not negative, in the unit of the times" if time_unit is None else "a duration such as '7d'"
    raise ParameterError(
        f"The 'label_delay' must be {form}. Got {delay!r} instead.", parameter="label_delay", value=delay
    )


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
