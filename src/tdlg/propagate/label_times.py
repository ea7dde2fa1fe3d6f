"""When labels became known, in ticks of their edges."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tdlg.checks import is_number
from tdlg.clock import LAST_TICK, as_seconds, is_duration, rounded_up, ticks_per_second
from tdlg.edges import TemporalEdges
from tdlg.exceptions import EdgesError, Hint, ParameterError
from tdlg.tables.times import as_times_or_missing

__all__ = ["label_ticks", "on_clock"]


def label_ticks(edges: TemporalEdges, label_time: Any = None, label_delay: Any = None) -> NDArray[Any] | None:
    """The times at which labels became known, in ticks of the edges; None if each is known at the time of its edge.

    Parameters
    ----------
    edges
        The edges, with labels.
    label_time
        One time per edge, like the times of the edges. It may be missing if the label is missing. Infinity, or a time after
        all edges, means that the label is not yet known.
    label_delay
        Instead of `label_time`, the time from an edge to its label: a duration such as "7d" for datetimes, else a number.

    Examples
    --------
    >>> edges = TemporalEdges([1, 2], [2, 3], [0, 5], label=[0, 1])
    >>> label_ticks(edges, [3, 9]), label_ticks(edges, label_delay=2), label_ticks(edges)
    (array([3, 9]), array([2, 7]), None)
    """
    if label_delay is None:
        return None if label_time is None else _given(edges, label_time)
    if label_time is not None:
        raise ParameterError(
            "The 'label_time' and the 'label_delay' are both given, and say the same in two ways.",
            Hint("Leave out {label_delay}.", label_delay=...),
            parameter="label_delay",
            value=label_delay,
        )
    delay = _delay_ticks(label_delay, edges.time_unit)
    if edges.ticks.dtype.kind == "f":
        return edges.ticks + delay
    whole = int(min(np.ceil(delay), LAST_TICK))  # rounded up, so that no label is known too early
    return np.where(edges.ticks > LAST_TICK - whole, LAST_TICK, np.minimum(edges.ticks, LAST_TICK - whole) + whole)


def _delay_ticks(delay: Any, time_unit: str | None) -> float:
    if time_unit is not None and is_duration(delay):
        return as_seconds(delay) * ticks_per_second(time_unit)
    if time_unit is None and is_number(delay) and 0 <= delay < np.inf:
        return float(delay)
    form = "a number that is not negative, in the unit of the times" if time_unit is None else "a duration such as '7d'"
    raise ParameterError(
        f"The 'label_delay' must be {form}. Got {delay!r} instead.", parameter="label_delay", value=delay
    )


def _given(edges: TemporalEdges, label_time: Any) -> NDArray[Any]:
    label_time, never = _without_infinity(label_time)
    ticks, unit, missing = as_times_or_missing(label_time, "label_time")
    if len(ticks) != len(edges):
        raise EdgesError(f"The 'label_time' must have one value per edge: {len(edges):,}. Got {len(ticks):,} instead.")
    without = missing & ~never & edges.labelled
    if without.any():
        raise EdgesError(
            f"The 'label_time' is missing in row {int(np.argmax(without))} (counted from 0), whose label is known. Pass the "
            "time when it became known, or make the label missing too."
        )
    known_at = edges.ticks if missing.all() else np.where(missing, edges.ticks, on_clock(ticks, unit, edges))
    last = LAST_TICK if edges.ticks.dtype.kind == "i" else np.finfo(np.float64).max
    return np.where(never, last, known_at)


def _without_infinity(label_time: Any) -> tuple[Any, NDArray[np.bool_]]:
    """The times with NaN for infinity, and the mask of infinite ones: those labels never become known."""
    times = np.asarray(label_time)
    never = np.isposinf(times) if times.dtype.kind == "f" else np.zeros(len(times), bool)
    return (np.where(never, np.nan, times) if never.any() else label_time), never


def on_clock(ticks: NDArray[Any], unit: str | None, edges: TemporalEdges) -> NDArray[Any]:
    """Ticks on the clock of the edges, rounded up, so that no label is known too early."""
    if (unit is None) != (edges.time_unit is None):
        form = "numbers" if edges.time_unit is None else "datetimes"
        raise EdgesError(f"The 'label_time' must be {form}, like the times of the edges. Convert one of the two.")
    return rounded_up(ticks, unit, edges.time_unit, edges.ticks.dtype)
