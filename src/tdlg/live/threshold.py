"""The score from which on an event is an alert: as many alerts per day as somebody can look at."""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tdlg.exceptions import TdlgWarning
from tdlg.live.meaning import Meaning

__all__ = ["ALERTS_PER_DAY", "default_threshold", "score_reached"]

Floats = NDArray[np.float64]

ALERTS_PER_DAY = 20.0
MOST_ALERTS = 0.05  # largest share of events that are alerts by default
STRETCH = 30  # days at the end of the fitted edges that are looked at
LEAST = 0.1  # share of the fitted edges that are looked at, if these days have fewer


def default_threshold(model: Any, meaning: Meaning, alerts_per_day: float | None) -> float:
    """The score that the given number of fitted edges per day reached, in the last days of the fitted edges.

    Parameters
    ----------
    model, meaning
        The model, and what its values mean.
    alerts_per_day
        The number of alerts per day. By default 20, at most a twentieth of the edges; for bursts, the default is the
        score from which on the model itself calls an edge an outlier.
    """
    if alerts_per_day is None and meaning.kind == "outlier_detector":
        return -float(model.offset_)
    ticks = meaning.on_clock(model.edges_.ticks, model.edges_.time_unit).astype(np.float64)
    earliest_of_last = np.partition(ticks, -math.ceil(LEAST * len(ticks)))[-math.ceil(LEAST * len(ticks))]
    start = min(ticks.max() - STRETCH * meaning.day, earliest_of_last)
    stretch = np.flatnonzero(ticks >= start)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TdlgWarning)
        scores = meaning.scores(model.scored(model.edges_[stretch]).values)
    n_days = max(1.0, (ticks.max() - start) / meaning.day)
    wanted = (ALERTS_PER_DAY if alerts_per_day is None else alerts_per_day) * n_days
    if alerts_per_day is None:
        wanted = min(wanted, MOST_ALERTS * len(scores))
    return score_reached(scores, wanted)


def score_reached(scores: Floats, wanted: float) -> float:
    """The score that about the wanted number of edges reach, and at least one of them.

    Examples
    --------
    >>> score_reached(np.array([0.1, 0.9, 0.5, 0.7]), 2)
    0.7
    """
    k = min(max(1, round(wanted)), len(scores))
    return float(np.partition(scores, len(scores) - k)[len(scores) - k])
