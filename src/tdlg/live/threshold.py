"""The score from which on an event is an alert: as many alerts per day as somebody can look at."""

from __future__ import annotations

import heapq
import math
import warnings
from collections import deque
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tdlg.exceptions import TdlgWarning
from tdlg.live.meaning import Meaning
from tdlg.propagate.state import SavedArrays

__all__ = ["Start", "Threshold", "saved_start", "score_reached", "start_of"]

Arrays = dict[str, NDArray[Any]]
Floats = NDArray[np.float64]

ALERTS_PER_DAY = 20.0
LARGEST_SHARE = 0.05  # of events that are alerts by default
STRETCH = 30  # days at the end of the fitted edges that are looked at
LEAST = 0.1  # share of the fitted edges that are looked at, if these days have fewer
MOST_KEPT = 10_000  # highest scores of the fitted edges that are kept
N_PARTS = 24  # of the window whose scores set the threshold
JUMP = 10  # times as many events as in all parts but the one before: then these tell nothing of the present rate
LEAST_ALERTS = 20  # alerts in a window; it is a day, or longer if there are fewer per day
STEPS = (10, 100)  # number of events after which it is computed again: after an alert, and without one
SHARE = 0.02  # of the scores that are kept: or after this number of events, if that is more


class Start(NamedTuple):
    """What the last days of the fitted edges tell before there are events.

    Attributes
    ----------
    scores
        The highest scores, in ascending order.
    per_day
        The number of edges per day.
    n_edges
        The number of edges that were looked at.
    """

    scores: Floats
    per_day: float
    n_edges: int = 1


@dataclass
class Part:
    """A part of the window: when it begins in ticks, its number of events, and their highest scores as a heap."""

    start: float
    n_events: int = 0
    top: list[float] = field(default_factory=list)


class Threshold:
    """The score of an alert: a given one, or the one that `alerts_per_day` of the latest events reached.

    The window is the last day of the stream, or longer if less than 20 alerts per day are wanted. It has 24 parts, those
    that had events, and keeps the number of events and the highest scores of each: so memory is bounded, and the rate of the
    stream and the rarest scores are known for any number of events. A pause counts as one day at most, and a sudden rise of
    the rate begins a new window. Scores of the fitted edges set the threshold only until there are events: the trees were
    trained on these edges, so that other events have higher scores.

    Parameters
    ----------
    meaning
        What the values of the model mean.
    given
        The threshold; by default it is found.
    alerts_per_day
        The number of alerts per day. By default 20, at most a twentieth of the events; for bursts, the threshold is then
        the score from which on the model itself calls an edge an outlier.
    start
        What the fitted edges tell.

    Attributes
    ----------
    value
        The threshold.
    """

    def __init__(self, meaning: Meaning, given: float | None, alerts_per_day: float | None, start: Start) -> None:
        self._day, self._per_day, self.start = meaning.day, alerts_per_day, start
        is_own = alerts_per_day is None and meaning.kind == "outlier_detector"
        self._is_fixed = given is not None or is_own
        per_day = alerts_per_day or ALERTS_PER_DAY
        n_days = max(1.0, LEAST_ALERTS / per_day)
        self._width = self._day * n_days / N_PARTS
        self._n_top = 2 * math.ceil(per_day * n_days)  # of a part; twice what is needed if parts are alike
        self._parts: deque[Part] = deque(maxlen=N_PARTS)
        self._clock = -math.inf
        self._n_added = self._n_since = self._n_kept = 0
        if given is not None:
            self.value = given
        elif is_own:
            self.value = meaning.outlier_score
        else:
            self.value = self._reached(start.scores, per_day * start.n_edges / start.per_day, start.n_edges)

    def add(self, ticks: Any, score: float) -> None:
        """Count the score of an event, which the threshold of later events depends on. A late event counts now."""
        self._clock = clock = max(self._clock, float(ticks))
        begins = not self._parts or clock - self._parts[-1].start >= self._width
        if begins:
            self._parts.append(Part(clock))
        part = self._parts[-1]
        part.n_events += 1
        if len(part.top) < self._n_top:
            heapq.heappush(part.top, score)
        elif score > part.top[0]:
            heapq.heapreplace(part.top, score)
        self._n_added += 1
        self._n_since += 1
        is_quiet = score < self.value and self._n_added >= STEPS[1]
        if begins or self._n_since >= max(STEPS[is_quiet], SHARE * self._n_kept):
            self._find()

    def _find(self) -> None:
        """Compute the threshold again, once there are enough events."""
        self._n_since = 0
        if self._is_fixed or self._n_added < STEPS[0]:
            return
        *earlier, latest = self._parts
        if latest.n_events > JUMP * max((part.n_events for part in earlier[:-1]), default=math.inf):
            self._parts = deque([earlier[-1], latest], N_PARTS)  # the rise may have begun within the one before
        starts = np.array([*(part.start for part in self._parts), self._clock])
        n_days = np.minimum(np.diff(starts), max(self._day, self._width)).sum() / self._day
        scores = np.concatenate([part.top for part in self._parts])
        n_events, self._n_kept = sum(part.n_events for part in self._parts), len(scores)
        self.value = self._reached(scores, (self._per_day or ALERTS_PER_DAY) * n_days, n_events)

    def _reached(self, scores: Floats, wanted: float, n_events: int) -> float:
        return score_reached(scores, wanted if self._per_day else min(wanted, LARGEST_SHARE * n_events))

    def follow(self, before: Threshold) -> None:
        """Go on with the events that a threshold with other settings has seen."""
        self._parts, self._clock, self._n_added = before._parts, before._clock, before._n_added
        self._find()

    def arrays(self) -> Arrays:
        """All that `restore` needs."""
        counts = self.value, self._n_added, self.start.per_day, self.start.n_edges
        return {
            "counts": np.array([*counts, self._clock, self._n_since, self._n_kept]),
            "start": self.start.scores,
            "parts": np.array([(part.start, part.n_events, len(part.top)) for part in self._parts]).reshape(-1, 3),
            "tops": np.array([score for part in self._parts for score in sorted(part.top)]),
        }

    def restore(self, arrays: SavedArrays) -> None:
        """Take over what `arrays` returned."""
        if "parts" not in arrays:  # of an older version: the latest events
            for ticks, score in zip(arrays["ticks"].tolist(), arrays["scores"].tolist(), strict=True):
                self.add(ticks, score)
            self.value = float(arrays["counts"][0])
            return
        self.value, n_added, _, _, self._clock, *since = arrays["counts"].tolist()
        self._n_added, self._n_since, self._n_kept = map(int, (n_added, *since))
        tops = iter(arrays["tops"].tolist())
        for start, n_events, n_top in arrays["parts"].tolist():
            self._parts.append(Part(start, int(n_events), [next(tops) for _ in range(int(n_top))]))


def saved_start(arrays: SavedArrays) -> Start:
    """What the fitted edges told, as `Threshold.arrays` has it."""
    counts = arrays["counts"].tolist()
    if "start" not in arrays:  # of an older version: the score itself
        return Start(np.array([counts[2]]), counts[3])
    return Start(arrays["start"], counts[2], int(counts[3]))


def start_of(model: Any, meaning: Meaning) -> Start:
    """What the last days of the fitted edges tell.

    Parameters
    ----------
    model, meaning
        The model, and what its values mean.
    """
    ticks = meaning.on_clock(model.edges_.ticks, model.edges_.time_unit).astype(np.float64)
    n_last = math.ceil(LEAST * len(ticks))
    start = min(ticks.max() - STRETCH * meaning.day, np.partition(ticks, -n_last)[-n_last])
    stretch = np.flatnonzero(ticks >= start)
    per_day = len(stretch) / max(1.0, (ticks.max() - max(start, ticks.min())) / meaning.day)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TdlgWarning)
        scores = meaning.scores(model.scored(model.edges_[stretch]).values)
    return Start(np.sort(scores)[-MOST_KEPT:], per_day, len(stretch))


def score_reached(scores: Floats, wanted: float) -> float:
    """The score that about the wanted number of edges reach, and at least one of them.

    If more than twice as many do because of equal scores, it is the next higher score, if there is one.

    Examples
    --------
    >>> score_reached(np.array([0.1, 0.9, 0.5, 0.7]), 2)
    0.7
    """
    k = max(1, round(min(wanted, len(scores))))
    border = np.partition(scores, len(scores) - k)[len(scores) - k]
    above = scores[scores > border]
    if len(above) and np.count_nonzero(scores >= border) > 2 * k:
        border = above.min()
    return float(border)
