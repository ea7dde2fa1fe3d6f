"""The score from which on an event is an alert: as many alerts per day as somebody can look at."""

from __future__ import annotations

import math
import warnings
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tdlg.exceptions import TdlgWarning
from tdlg.live.meaning import Meaning
from tdlg.propagate.saved import SavedArrays

__all__ = ["Start", "Threshold", "score_reached", "start_of"]

Arrays = dict[str, NDArray[Any]]
Floats = NDArray[np.float64]

ALERTS_PER_DAY = 20.0
LARGEST_SHARE = 0.05  # of events that are alerts by default
STRETCH = 30  # days at the end of the fitted edges that are looked at
LEAST = 0.1  # share of the fitted edges that are looked at, if these days have fewer
WINDOW = 10_000  # latest events whose scores set the threshold
STEPS = (10, 100)  # number of events after which it is computed again, at first and later


class Start(NamedTuple):
    """What the fitted edges tell before there are events.

    Attributes
    ----------
    score
        The score from which on an event is an alert.
    per_day
        The number of edges per day.
    """

    score: float
    per_day: float


class Threshold:
    """The score of an alert: a given one, or the one that a share of the latest events reached.

    The share is that of `alerts_per_day` among the events of a day. Scores of the fitted edges cannot tell it for long: the
    trees were trained on these edges, so that other events have higher scores.

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
        self._meaning, self._per_day, self.start = meaning, alerts_per_day, start
        self._is_fixed = given is not None or (alerts_per_day is None and meaning.kind == "outlier_detector")
        self.value = start.score if given is None else given
        self._ticks = np.empty(0 if self._is_fixed else WINDOW, np.float64)  # of the latest events, the oldest replaced
        self._scores = np.empty(len(self._ticks))
        self._n_added = 0

    def add(self, ticks: Any, score: float) -> None:
        """Count the score of an event, which the threshold of later events depends on."""
        if self._is_fixed:
            return
        self._ticks[self._n_added % WINDOW], self._scores[self._n_added % WINDOW] = ticks, score
        self._n_added += 1
        if self._n_added % STEPS[self._n_added >= STEPS[1]] == 0:
            self.value = self._found()

    def _found(self) -> float:
        ticks, scores = self._ticks[: self._n_added], self._scores[: self._n_added]
        n_days = (ticks.max() - ticks.min()) / self._meaning.day
        share = (self._per_day or ALERTS_PER_DAY) / (len(scores) / n_days if n_days >= 1.0 else self.start.per_day)
        return score_reached(scores, len(scores) * (share if self._per_day else min(share, LARGEST_SHARE)))

    def arrays(self) -> Arrays:
        """All that `restore` needs."""
        counts = np.array([self.value, self._n_added, *self.start])
        return {"counts": counts, "ticks": self._ticks[: self._n_added], "scores": self._scores[: self._n_added]}

    def restore(self, arrays: SavedArrays) -> None:
        """Take over what `arrays` returned."""
        self.value, n_added, *start = arrays["counts"].tolist()
        self._n_added, self.start = int(n_added), Start(*start)
        n = len(arrays["ticks"])
        self._ticks[:n], self._scores[:n] = arrays["ticks"], arrays["scores"]


def start_of(model: Any, meaning: Meaning, alerts_per_day: float | None = None) -> Start:
    """What the last days of the fitted edges tell.

    Parameters
    ----------
    model, meaning
        The model, and what its values mean.
    alerts_per_day
        The number of alerts per day, see `Threshold`.
    """
    ticks = meaning.on_clock(model.edges_.ticks, model.edges_.time_unit).astype(np.float64)
    n_last = math.ceil(LEAST * len(ticks))
    start = min(ticks.max() - STRETCH * meaning.day, np.partition(ticks, -n_last)[-n_last])
    stretch = np.flatnonzero(ticks >= start)
    per_day = len(stretch) / max(1.0, (ticks.max() - max(start, ticks.min())) / meaning.day)
    if alerts_per_day is None and meaning.kind == "outlier_detector":
        return Start(-float(model.offset_), per_day)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TdlgWarning)
        scores = meaning.scores(model.scored(model.edges_[stretch]).values)
    share = (alerts_per_day or ALERTS_PER_DAY) / per_day
    return Start(score_reached(scores, len(scores) * (share if alerts_per_day else min(share, LARGEST_SHARE))), per_day)


def score_reached(scores: Floats, wanted: float) -> float:
    """The score that about the wanted number of edges reach, and at least one of them.

    Examples
    --------
    >>> score_reached(np.array([0.1, 0.9, 0.5, 0.7]), 2)
    0.7
    """
    k = min(max(1, round(wanted)), len(scores))
    return float(np.partition(scores, len(scores) - k)[len(scores) - k])
