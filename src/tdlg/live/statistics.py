"""Numbers about a live model: how much there is to do, and how many alerts were confirmed."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np

from tdlg.live.alerts import Alert
from tdlg.live.state import LiveState

__all__ = ["Rate", "statistics_of"]

MINUTE = 60.0
SHOWN_DAYS = 30
WEEK = 7
BINS = 10


class Rate:
    """Events per second over the last minute.

    Parameters
    ----------
    clock
        A clock in seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._start = clock()
        self._counts: deque[tuple[int, int]] = deque()  # seconds, and events in them

    def add(self, n: int) -> None:
        """Count events that came now."""
        second = int(self._clock())
        if self._counts and self._counts[-1][0] == second:
            n += self._counts.pop()[1]
        self._counts.append((second, n))
        self._forget()

    def per_second(self) -> float:
        """The mean over the last minute, or over the time since the start."""
        self._forget()
        return sum(n for _, n in self._counts) / min(MINUTE, max(1.0, self._clock() - self._start))

    def _forget(self) -> None:
        while self._counts and self._counts[0][0] < self._clock() - MINUTE:
            self._counts.popleft()


def statistics_of(state: LiveState, rate: Rate) -> dict[str, Any]:
    """Numbers for a page.

    Days are those of the stream's clock: of events by their times, of decisions by the times when they were made.

    Returns
    -------
    dict
        "events_per_second"; "events", "labels"; "alerts", by status; "threshold"; "days": a list of {"day", "events",
        "alerts", "reviewed", "confirmed"} for the last 30 days; "by_score": a list of {"from", "to", "reviewed",
        "confirmed"}; "weeks": {"this", "last"}, each with the sums of 7 days. An alert was reviewed if it has a label, and
        confirmed if this is the positive class.
    """
    decided = [alert for alert in state.alerts if alert.status != "open"]
    days = _days(state, decided)
    return {
        "events_per_second": rate.per_second(),
        "events": state.n_events,
        "labels": state.n_labels,
        "alerts": state.alerts.counts(state.oldest),
        "threshold": state.threshold,
        "days": days[-SHOWN_DAYS:],
        "by_score": _by_score(decided, state.threshold),
        "weeks": {"this": _summed(days[-WEEK:]), "last": _summed(days[-2 * WEEK : -WEEK])},
    }


def _days(state: LiveState, decided: list[Alert]) -> list[dict[str, Any]]:
    """The counts of each day up to the latest one, without gaps."""
    width = state.meaning.day
    found = {day: [*counts, 0, 0] for day, counts in state.days.items()}
    for alert in decided:
        counts = found.setdefault(int(alert.decided_ticks // width), [0, 0, 0, 0])
        counts[2] += 1
        counts[3] += alert.status == "confirmed"
    if not found:
        return []
    latest = max(found)
    names = ("events", "alerts", "reviewed", "confirmed")
    return [
        {"day": _day_in_words(state, day * width), **dict(zip(names, found.get(day, [0] * 4), strict=True))}
        for day in range(max(min(found), latest - SHOWN_DAYS + 1), latest + 1)
    ]


def _day_in_words(state: LiveState, ticks: float) -> Any:
    """The date, or the number at which a day begins."""
    time = state.meaning.time(ticks)
    return time[:10] if isinstance(time, str) else time


def _by_score(decided: list[Alert], threshold: float) -> list[dict[str, Any]]:
    """How many of the reviewed alerts were confirmed, in ten bins of the scores from the threshold up."""
    if not decided:
        return []
    scores = np.array([alert.score for alert in decided])
    is_positive = np.array([alert.status == "confirmed" for alert in decided])
    low, high = min(threshold, scores.min()), scores.max()
    edges = np.linspace(low, high if high > low else low + 1.0, BINS + 1)
    place = np.clip(np.searchsorted(edges, scores, "right") - 1, 0, BINS - 1)
    reviewed, confirmed = np.bincount(place, minlength=BINS), np.bincount(place, is_positive, BINS).astype(int)
    rows = zip(edges[:-1].tolist(), edges[1:].tolist(), reviewed.tolist(), confirmed.tolist(), strict=True)
    return [dict(zip(("from", "to", "reviewed", "confirmed"), row, strict=True)) for row in rows]


def _summed(days: list[dict[str, Any]]) -> dict[str, int]:
    return {name: sum(day[name] for day in days) for name in ("events", "alerts", "reviewed", "confirmed")}
