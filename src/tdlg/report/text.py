"""Values as text that is safe in a page: numbers, times, ids, labels, and the JSON that the script reads."""

from __future__ import annotations

import html
import json
import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tdlg.clock import duration_in_words, ticks_per_second

LONGEST_ID = 80  # characters of an id that are shown
PLAIN = 1e15  # whole numbers below it are written with all their digits
PERIODS = (  # least span of time in seconds, the precision of its axis, and its steps
    (63_072_000, "Y", (1, 2, 5, 10, 20, 50)),
    (5_184_000, "M", (1, 2, 3, 6, 12)),
    (172_800, "D", (1, 2, 5, 10, 20)),
    (0, "s", (1, 5, 15, 60, 300, 900, 3600, 10_800, 21_600, 43_200)),
)


def escaped(value: Any) -> str:
    """Text for an element or a quoted attribute."""
    return html.escape(str(value), quote=True)


def name_of(value: Any, longest: int = LONGEST_ID) -> str:
    """An id or label as plain text in one line: whole floats as integers, what cannot be seen as its code, cut if long."""
    value = value.item() if isinstance(value, np.generic) else value
    if isinstance(value, float) and value.is_integer() and abs(value) < PLAIN:
        value = int(value)
    text = str(value)
    text = text if len(text) <= longest else text[: longest - 1] + "…"
    return text if text.isprintable() else "".join(one if one.isprintable() else ascii(one)[1:-1] for one in text)


def figure(value: float, digits: int = 3) -> str:
    """A metric with this number of digits after the point, one more where it would be a 0 or 1 that it is not."""
    if not math.isfinite(value):
        return "–"
    away = min(abs(value), abs(1 - value))  # from what it must not seem to be
    if 0 < value < 1 and away <= 0.5 * 10.0 ** -(digits + 1):
        return f"over 0.{'9' * (digits + 1)}" if value > 0.5 else f"under 0.{'0' * digits}1"
    return f"{value:.{digits + (0 < value < 1 and away <= 0.5 * 10.0**-digits)}f}"


def percent(value: float) -> str:
    """A share of 1 as per cent, with a digit after the point near 0 and 1, and never a 0 or 100 that it is not."""
    if not math.isfinite(value):
        return "–"
    if 0 < value < 0.0005:
        return "under 0.1 %"
    if 0.9995 <= value < 1:
        return "over 99.9 %"
    return f"{100 * value:.1f} %" if 0 < value < 0.0995 or 0.9905 < value < 1 else f"{100 * value:.0f} %"


def share(value: float) -> str:
    """A probability: two or three digits, and never a 0 or 1 that it is not."""
    if value < 0.001:
        return "< 0.001" if value > 0 else "0"
    if value > 0.999:
        return "> 0.999" if value < 1 else "1"
    return f"{value:.3f}"


def in_words(names: Sequence[str], joint: str = "and") -> str:
    """Join names as prose does: "a, b and c"."""
    return f" {joint} ".join([", ".join(names[:-1]), names[-1]]) if len(names) > 1 else "".join(names)


def as_json(value: Any) -> str:
    """JSON that no element can be closed or opened by, whatever the strings in it hold."""
    text = json.dumps(value, allow_nan=False, separators=(",", ":"))  # ascii: line separators are escaped too
    for sign in "<>&":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return text


class Clock:
    """Times as text, all to the precision that they need; numbers without a unit since 1970 stay numbers."""

    def __init__(self, unit: str | None, ticks: NDArray[Any]) -> None:
        self.unit = unit
        self._precision = "" if unit is None else _precision(unit, ticks)

    def text(self, tick: Any) -> str:
        """One time."""
        if self.unit is None:
            return _number(float(tick)) if isinstance(tick, float | np.floating) else str(int(tick))
        return str(self._moment(tick, self._precision)).replace("T", " ")

    @property
    def zone(self) -> str:
        """What follows a time that is shown: " UTC", or nothing where times are plain numbers."""
        return "" if self.unit is None else " UTC"

    def texts(self, ticks: Iterable[Any]) -> list[str]:
        """Many times, each with the zone."""
        return [self.text(tick) + self.zone for tick in ticks]

    def short(self, tick: Any) -> str:
        """One time to the day, as prose has it."""
        return self.text(tick) if self.unit is None else str(self._moment(tick, "D"))

    def span(self, first: Any, last: Any) -> str:
        """From one time to another, with the length between them where it is known what a number means."""
        if self.unit is None:
            return f"{self.text(first)} to {self.text(last)}"
        ends = self.short(first), self.short(last)
        if ends[0] == ends[1]:
            ends = self.text(first), self.text(last)
        return f"{ends[0]} to {ends[1]}"

    def length(self, ticks: float) -> str:
        """A duration in words, or the number itself where times are plain numbers."""
        return f"{ticks:.4g}" if self.unit is None else duration_in_words(ticks, self.unit)

    def axis(self, first: float, last: float, wanted: int = 5) -> list[tuple[float, str]]:
        """Places of an axis and their text: round numbers, or round dates."""
        if self.unit is None:
            step = nice_step(last - first, wanted)
            return [(at, f"{at:.10g}") for at in _multiples(first, last, step)]
        return self._dates(first, last, wanted)

    def _dates(self, first: float, last: float, wanted: int) -> list[tuple[float, str]]:
        """Places at round dates, or at round times of a day."""
        per_second = ticks_per_second(str(self.unit))
        seconds = (last - first) / per_second
        period, steps = next((name, steps) for least, name, steps in PERIODS if seconds >= least)
        if period == "s":
            step = next((s for s in steps if seconds / s <= wanted), steps[-1])
            texts = slice(5, 16 if step >= 60 else None)
            places = _multiples(first, last, step * per_second)
            return [(at, str(self._moment(int(at), "s")).replace("T", " ")[texts]) for at in places]
        start = self._moment(first, period)
        n_periods = int((self._moment(last, period) - start).astype(np.int64))
        step = next((step for step in steps if n_periods / step <= wanted), steps[-1])
        marks = start + np.arange(n_periods + 1).astype(f"timedelta64[{period}]")
        whole = marks[marks.astype(np.int64) % step == 0] if period != "D" else marks[::step]
        ticks = whole.astype(f"datetime64[{self.unit}]").astype(np.int64)
        return [(float(at), str(mark)) for at, mark in zip(ticks, whole, strict=True) if first <= at <= last]

    def _moment(self, tick: Any, precision: str) -> NDArray[Any]:
        return np.asarray(int(tick)).astype(f"datetime64[{self.unit}]").astype(f"datetime64[{precision}]")


def _precision(unit: str, ticks: NDArray[Any]) -> str:
    """The coarsest of days, minutes and seconds that loses nothing, or else milliseconds."""
    second = ticks_per_second(unit)
    sizes = (("D", 86_400 * second), ("m", 60 * second), ("s", second))
    return next((name for name, size in sizes if not np.any(ticks % size)), "ms")


def nice_step(span: float, wanted: int) -> float:
    """A step of 1, 2 or 5 times a power of 10 that divides a span into about `wanted` parts."""
    if span <= 0:
        return 1.0
    raw = span / max(wanted, 1)
    power = 10.0 ** math.floor(math.log10(raw))
    return next(factor * power for factor in (1.0, 2.0, 5.0, 10.0) if factor * power >= raw * 0.999)


def _multiples(first: float, last: float, step: float) -> list[float]:
    start, stop = math.ceil(first / step - 1e-9), math.floor(last / step + 1e-9)
    return [float(round(k * step, 12)) if abs(step) < 1 else k * step for k in range(start, stop + 1)]


def _number(value: float) -> str:
    return str(int(value)) if value.is_integer() and abs(value) < PLAIN else f"{value:.6g}"


def rounded(values: NDArray[Any], digits: int = 4) -> list[float]:
    """Numbers for the script, short."""
    return [float(f"{value:.{digits}g}") for value in np.asarray(values, np.float64).tolist()]
