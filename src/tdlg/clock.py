"""Units of time, durations such as "7d", ticks of one clock on another, and durations in words.

Only numbers, arrays and units: edges are not known here. A time is a number of ticks. Ticks of datetimes are int64, count
from 1970 and have a unit, "s", "ms", "us" or "ns"; times that are plain numbers have the unit None.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from datetime import timedelta
from typing import Any, TypeAlias, TypeGuard

import numpy as np
from numpy.typing import NDArray

from tdlg.checks import check_choice
from tdlg.exceptions import EdgesError, ParameterError

Duration: TypeAlias = str | timedelta | np.timedelta64

UNITS = ("s", "ms", "us", "ns")  # of datetimes, each a thousand times finer than the one before
LAST_TICK = np.iinfo(np.int64).max
_NAMES = {  # nanoseconds of a unit and its names; not "m", which may be a minute or a month
    1: "ns nanosecond nanoseconds",
    10**3: "us microsecond microseconds",
    10**6: "ms millisecond milliseconds",
    10**9: "s sec second seconds",
    60 * 10**9: "min minute minutes",
    3_600 * 10**9: "h hour hours",
    86_400 * 10**9: "d D day days",
    604_800 * 10**9: "w W week weeks",
}
_NANOSECONDS = {name: nanoseconds for nanoseconds, names in _NAMES.items() for name in names.split()}
_DURATION = re.compile(r"\s*((?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:e[+-]?[0-9]+)?)\s*([a-zA-Z]+)\s*")
_IN_WORDS = (  # the unit of a duration in words, its nanoseconds, and how many of it there must be at least
    ("year", 31_557_600 * 10**9, 2),
    *((name, _NANOSECONDS[name], 1) for name in ("day", "hour", "minute", "second", "millisecond", "microsecond")),
    ("nanosecond", 1, 0),
)
_SHORT = ("d", "h", "min", "s", "ms", "us", "ns")  # units of short durations, the longest first


# ---- units


def check_unit(owner: str, unit: Any) -> None:
    """Refuse a `time_unit` that is neither None nor one of `UNITS`."""
    if unit is not None:
        check_choice(owner, "time_unit", unit, UNITS)


def unit_in_words(unit: str) -> str:
    """The name of a unit in the plural, such as "milliseconds"."""
    return _NAMES[_NANOSECONDS[unit]].split()[-1]


def ticks_per_second(unit: str) -> int:
    """How many ticks of a unit a second has."""
    return _NANOSECONDS["s"] // _NANOSECONDS[unit]


def seconds_per_tick(unit: str) -> float:
    """How many seconds a tick of a unit lasts."""
    return _NANOSECONDS[unit] / _NANOSECONDS["s"]


def finest(*units: str | None) -> str | None:
    """The finest of several units; None where all of them are None."""
    return max((unit for unit in units if unit is not None), key=UNITS.index, default=None)


def unit_since_1970(ticks: NDArray[Any]) -> str | None:
    """The unit in which numbers as large as these count from 1970 (dates from 1985 to 2096), if any."""
    for unit in UNITS:
        second = ticks_per_second(unit)
        if ticks.min() > 5e8 * second and ticks.max() < 4e9 * second:
            return unit
    return None


def times_of(ticks: NDArray[Any], unit: str | None) -> NDArray[Any]:
    """The times that ticks count, as a view: datetime64, or the plain numbers themselves."""
    return ticks if unit is None else ticks.view(f"datetime64[{unit}]")


# ---- durations


def is_duration(value: object) -> TypeGuard[Duration]:
    """Whether a value is a duration with a unit: text, a timedelta or a timedelta64."""
    return isinstance(value, str | timedelta | np.timedelta64)


def as_seconds(duration: Duration, name: str = "duration") -> float:
    """The length of a duration in seconds; refuses one that is not positive and finite, with the name of its parameter."""
    seconds = math.nan
    if isinstance(duration, str):
        found = _DURATION.fullmatch(duration)
        if found and found[2] in _NANOSECONDS:
            seconds = float(found[1]) * seconds_per_tick(found[2])
    elif isinstance(duration, timedelta):
        seconds = duration.total_seconds()
    elif np.datetime_data(duration.dtype)[0] not in ("Y", "M", "generic"):  # which have no fixed length
        seconds = float(duration / np.timedelta64(1, "ns")) * 1e-9
    if not (math.isfinite(seconds) and seconds > 0):
        raise ParameterError(
            f"A duration must be positive and look like '7d', '12h', '30min', '90s' or '250ms'. Got {duration!r} instead.",
            parameter=name,
        )
    return seconds


# ---- ticks of one clock on another


def common_clock(
    ticks: NDArray[Any], unit: str | None, others: NDArray[Any], other_unit: str | None
) -> tuple[NDArray[Any], NDArray[Any], str | None]:
    """Two columns of ticks on one clock, and its unit: the finer of two units; float64 where one column has fractions.

    Nothing is rounded: ticks that the common clock cannot hold are refused. Both columns must have a unit, or neither.
    """
    if unit is None or other_unit is None:
        if ticks.dtype == others.dtype:
            return ticks, others, None
        return _as_fractions(ticks), _as_fractions(others), None
    finer = max(unit, other_unit, key=UNITS.index)
    return _refined(ticks, unit, finer), _refined(others, other_unit, finer), finer


def _as_fractions(ticks: NDArray[Any]) -> NDArray[np.float64]:
    fractions = ticks.astype(np.float64)
    if ticks.size and np.abs(fractions).max() > 2.0**53 and ticks.dtype == np.int64:
        raise EdgesError(
            f"Whole times up to {ticks.max()} cannot be compared with the fractional times of the other edges without "
            "losing digits. Give both as integers, or count both from a later start."
        )
    return fractions


def _refined(ticks: NDArray[np.int64], unit: str, finer: str) -> NDArray[np.int64]:
    factor = _NANOSECONDS[unit] // _NANOSECONDS[finer]
    if factor == 1:
        return ticks
    if ticks.size and max(-int(ticks.min()), int(ticks.max())) > LAST_TICK // factor:
        first, last = times_of(np.array([ticks.min(), ticks.max()]), unit)
        raise EdgesError(
            f"Times from {first} to {last} cannot be counted in {finer}, the unit of the other edges, within 64 bits. Give "
            "both in the coarser unit.",
            "For instance, use `time.astype('datetime64[s]')`.",
        )
    return ticks * factor


def rounded_up(ticks: NDArray[Any], unit: str | None, clock_unit: str | None, dtype: np.dtype[Any]) -> NDArray[Any]:
    """Ticks of one clock on another, rounded up to its next tick; times beyond its ends stay at its ends."""
    if unit is None or clock_unit is None:
        return _numbers_up(ticks, dtype)
    own, other = _NANOSECONDS[unit], _NANOSECONDS[clock_unit]
    if own <= other:
        return -(-ticks // (other // own))
    factor = own // other
    most = LAST_TICK // factor
    return np.where(np.abs(ticks) > most, np.sign(ticks) * LAST_TICK, np.clip(ticks, -most, most) * factor)


def _numbers_up(numbers: NDArray[Any], dtype: np.dtype[Any]) -> NDArray[Any]:
    if dtype.kind == "f" or numbers.dtype.kind == "i":
        return numbers.astype(dtype)
    inside = np.clip(np.ceil(numbers), -(2.0**62), 2.0**62).astype(dtype)  # int64 cannot hold all floats
    return np.where(np.abs(numbers) > 2.0**62, np.sign(numbers).astype(dtype) * LAST_TICK, inside)


# ---- in words


def time_in_words(ticks: float, unit: str | None) -> str:
    """A distance in time, such as "2 hours before": negative for the past."""
    if ticks == 0:
        return "at the same time"
    return f"{duration_in_words(abs(ticks), unit)} {'before' if ticks < 0 else 'after'}"


def duration_in_words(ticks: float, unit: str | None) -> str:
    """A duration in its largest fitting unit: with one decimal below ten, else as a whole number."""
    return round_duration(ticks, unit)[1]


def durations_in_words(ticks: Iterable[float], unit: str | None) -> str:
    """Several durations as a list, such as "1 day, 1.5 hours" or "4,000, 2.5 time units": these words come once."""
    words = [duration_in_words(each, unit) for each in ticks]
    if unit is None:
        words[:-1] = [each.partition(" ")[0] for each in words[:-1]]
    return ", ".join(words)


def round_duration(ticks: float, unit: str | None) -> tuple[float, str]:
    """The duration that `duration_in_words` names: in ticks, and in words."""
    if unit is None:
        value = float(f"{ticks:.4g}")
        return value, f"{value:,.15g} time unit{'s' * (value != 1)}"
    nanoseconds = ticks * _NANOSECONDS[unit]
    name, size = next((name, size) for name, size, least in _IN_WORDS if nanoseconds >= least * size)
    value = round(nanoseconds / size, 1) if nanoseconds < 10 * size else round(nanoseconds / size)
    return value * size / _NANOSECONDS[unit], f"{value:,g} {name}{'s' * (value != 1)}"


def short_duration(ticks: float, unit: str) -> str:
    """A duration as it is written in a parameter, such as "3.3h": with one decimal below ten, else as a whole number."""
    nanoseconds = ticks * _NANOSECONDS[unit]
    name = next((name for name in _SHORT if nanoseconds >= _NANOSECONDS[name]), _SHORT[-1])
    value = nanoseconds / _NANOSECONDS[name]
    return f"{round(value, 1) if value < 10 else round(value):g}{name}"
