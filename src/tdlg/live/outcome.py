"""What a score, class and label of a live model mean, and the score from which on an event is an alert."""

from __future__ import annotations

import heapq
import math
import warnings
from collections import deque
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import get_tags

from tdlg.clock import rounded_up, ticks_per_second
from tdlg.exceptions import TdlgWarning
from tdlg.explain.positive import positive_of
from tdlg.propagate.running import stream_clock
from tdlg.propagate.state import SavedArrays

__all__ = ["Outcome", "Start", "Threshold", "saved_start", "score_reached", "start_of"]

Arrays = dict[str, NDArray[Any]]
Floats = NDArray[np.float64]

DAY = 86_400
DAYS = 30  # the span of fitted edges whose times are numbers counts as this many days
ALERTS_PER_DAY = 20.0
LARGEST_SHARE = 0.05  # of events that are alerts by default
START_DAYS = 30  # at the end of the fitted edges that are looked at
LEAST = 0.1  # share of the fitted edges that are looked at, if these days have fewer
MOST_KEPT = 10_000  # highest scores of the fitted edges that are kept
N_PARTS = 24  # of the window whose scores set the threshold
JUMP = 10  # times as many events as in all parts but the one before: then these tell nothing of the present rate
LEAST_ALERTS = 20  # alerts in a window; it is a day, or longer if there are fewer per day
STEPS = (10, 100)  # number of events after which it is computed again: after an alert, and without one
SHARE = 0.02  # of the scores that are kept: or after this number of events, if that is more


class Outcome:
    """What the values of a fitted model mean.

    kind : "classifier", "regressor" or
    "outlier_detector". classes : with whole numbers as integers, empty if there are none. positive : the class that scores
    are about, None without classes.
    """

    def __init__(self, model: Any) -> None:
        self.kind = get_tags(model).estimator_type
        self._edges = model.edges_
        self.unit = stream_clock(model.edges_)[0]
        self._offset = float(getattr(model, "offset_", 0.0))
        self.classes: list[Any] = []
        if self.kind == "classifier":
            whole = model.classes_.dtype.kind == "f" and bool((model.classes_ % 1 == 0).all())
            self.classes = (model.classes_.astype(np.int64) if whole else model.classes_).tolist()
            self._place = positive_of(model)
        self.positive = self.classes[self._place] if self.classes else None

    @property
    def takes_labels(self) -> bool:
        """Whether scores depend on labels."""
        return self.kind != "outlier_detector"

    def scores(self, values: Floats) -> Floats:
        """What alerts are about, high for an alert: probability of the positive class, number, or digits of surprise."""
        if self.classes:
            return values[:, self._place]
        return values if self.kind == "regressor" else -values

    def values(self, score: float | None, probabilities: tuple[float, ...]) -> Any:
        """The values of the model that a score and probabilities come from."""
        if self.classes or score is None:
            return probabilities
        return score if self.kind == "regressor" else -score

    def predicted(self, values: Floats) -> list[Any]:
        """The predicted class or number; for bursts, whether each event is an outlier."""
        if self.classes:
            return [self.classes[code] for code in values.argmax(axis=1).tolist()]
        listed: list[Any] = values.tolist() if self.kind == "regressor" else (values < self._offset).tolist()
        return listed

    def predicted_one(self, values: tuple[float, ...]) -> Any:
        """What `predicted` gives for the values of one event."""
        if self.classes:
            return self.classes[values.index(max(values))]
        return values[0] if self.kind == "regressor" else values[0] < self._offset

    @property
    def outlier_score(self) -> float:
        """The score from which on a detector of bursts itself calls an edge an outlier."""
        return -self._offset

    @property
    def other(self) -> Any:
        """The class that a dismissed alert gets: the other one of two. None with more classes or none."""
        others = [label for label in self.classes if label != self.positive]
        return others[0] if len(others) == 1 else None

    def is_positive(self, label: Any) -> bool:
        """Whether a label is the positive class; any label above 0 for a model without classes."""
        return bool(label) if self.positive is None else is_same_label(self.positive, label)

    def label(self, label: Any) -> Any:
        """A label as the model has it: 1 for "1" and true, if 1 is a class; a label that it does not have as it is."""
        return None if label is None else next((known for known in self.classes if is_same_label(known, label)), label)

    def time(self, ticks: Any) -> Any:
        """Ticks as a time that JSON holds; see `time_as_json`."""
        return time_as_json(ticks, self.unit)

    def on_clock(self, ticks: NDArray[Any], unit: str | None) -> NDArray[Any]:
        """Ticks of another clock, such as those of the fitted edges, on the clock of the stream."""
        return rounded_up(ticks, unit, self.unit, ticks.dtype)

    @property
    def day(self) -> float:
        """The ticks of a day. If times are numbers, a day is a thirtieth of the time span of the fitted edges."""
        if self.unit is not None:
            return float(DAY * ticks_per_second(self.unit))
        ticks = self._edges.ticks
        return float(ticks.max() - ticks.min()) / DAYS or 1.0


def time_as_json(ticks: Any, unit: str | None) -> Any:
    """Ticks as a time that JSON holds: a number, or text in ISO 8601 without needless zeros.

    >>> time_as_json(1_500_000, "us"), time_as_json(np.float64(2.5), None)
    ('1970-01-01T00:00:01.5', 2.5)
    """
    if unit is None:
        return ticks.item() if isinstance(ticks, np.generic) else ticks
    text = str(np.datetime64(int(ticks), cast(Any, unit)))
    return text.rstrip("0").rstrip(".") if "." in text else text


def is_same_label(known: Any, label: Any) -> bool:
    """Whether a label means a class: 1, 1.0, True and "1" mean 1."""
    if known == label or str(known) == str(label):
        return True
    try:
        return not isinstance(known, str) and float(known) == float(label)
    except (TypeError, ValueError, OverflowError):
        return False


# ---- the threshold


class Start(NamedTuple):
    """What the last days of the fitted edges tell before there are events."""

    scores: Floats  # the highest ones, in ascending order
    per_day: float  # number of edges
    n_edges: int = 1  # that were looked at
    latest: tuple[Floats, Floats] = (np.zeros(0), np.zeros(0))  # ticks and scores of these; not saved
    quantities: list[Any] | None = None  # whose drift is looked at, see `tdlg.live.drift`; not saved either


@dataclass
class Part:
    """A part of the window: when it begins in ticks, its number of events, and their highest scores as a heap."""

    start: float
    n_events: int = 0
    top: list[float] = field(default_factory=list)
    scores: Floats | None = None  # the same as an array, once the part is over


class Threshold:
    """The score of an alert, `value`: a given one, or the one that `alerts_per_day` of the latest events reached.

    The window is the last day of the stream, or longer if less than 20 alerts per day are wanted. It has 24 parts, those
    that had events, and keeps the number of events and the highest scores of each: so memory is bounded, and the rate of the
    stream and the rarest scores are known for any number of events. A pause counts as one day at most, and a sudden rise of
    the rate begins a new window. Scores of the fitted edges set the threshold only until there are events: the trees were
    trained on these edges, so that other events have higher scores.

    By default 20 alerts per day, at most a twentieth of the events; for bursts, the threshold is then the score from which
    on the model itself calls an edge an outlier.
    """

    def __init__(self, outcome: Outcome, given: float | None, alerts_per_day: float | None, start: Start) -> None:
        self._day, self._per_day, self.start = outcome.day, alerts_per_day, start
        is_own = alerts_per_day is None and outcome.kind == "outlier_detector"
        self._is_fixed = given is not None or is_own
        self.events_per_day = start.per_day  # of the window; while it is shorter than a day, also of the fitted edges
        per_day = alerts_per_day or ALERTS_PER_DAY
        n_days = max(1.0, LEAST_ALERTS / per_day)
        self._width = self._day * n_days / N_PARTS
        self._n_top = 2 * math.ceil(per_day * n_days)  # of a part; twice what is needed if parts are alike
        self._parts: deque[Part] = deque(maxlen=N_PARTS)
        self._earlier: tuple[Floats, int, float] = (
            np.zeros(0),
            0,
            0.0,
        )  # scores, number and ticks of all parts but the latest
        self._clock = -math.inf
        self._n_added = self._n_since = self._n_kept = 0
        if given is not None:
            self.value = given
        elif is_own:
            self.value = outcome.outlier_score
        else:
            self.value = self._reached(start.scores, per_day * start.n_edges / start.per_day, start.n_edges)

    def add(self, ticks: Any, score: float) -> None:
        """Count the score of an event, which the threshold of later events depends on. A late event counts now."""
        if ticks > self._clock:
            self._clock = float(ticks)
        parts = self._parts
        begins = not parts or self._clock - parts[-1].start >= self._width
        if begins:
            parts.append(Part(self._clock))
            self._close_parts()
        part = parts[-1]
        part.n_events += 1
        if len(part.top) < self._n_top:
            heapq.heappush(part.top, score)
        elif score > part.top[0]:
            heapq.heapreplace(part.top, score)
        self._n_added += 1
        self._n_since += 1
        is_quiet = score < self.value and self._n_added >= STEPS[1]
        if begins or (self._n_since >= STEPS[is_quiet] and self._n_since >= SHARE * self._n_kept):
            self._find()

    def _close_parts(self) -> None:
        *parts, latest = self._parts or [Part(0.0)]
        for part in parts:
            if part.scores is None:
                part.scores = np.array(part.top)
        ticks = sum(self._span(one.start, two.start) for one, two in pairwise([*parts, latest]))
        scores = np.concatenate([np.zeros(0), *(part.scores for part in parts if part.scores is not None)])
        self._earlier = scores, sum(part.n_events for part in parts), ticks

    def _span(self, start: float, stop: float) -> float:
        return min(stop - start, max(self._day, self._width))

    def _find(self) -> None:
        """Compute the threshold again, once there are enough events."""
        self._n_since = 0
        if self._n_added < STEPS[0]:
            return
        latest = self._parts[-1]
        if latest.n_events > JUMP and latest.n_events > JUMP * max(
            (part.n_events for part in [*self._parts][:-2]), default=math.inf
        ):
            earlier = [*self._parts][:-1]
            self._parts = deque([earlier[-1], latest], N_PARTS)  # the rise may have begun within the one before
            self._close_parts()
        scores, n_events, ticks = self._earlier
        n_events, n_days = n_events + latest.n_events, (ticks + self._span(latest.start, self._clock)) / self._day
        self.events_per_day = n_events / max(n_days, 1e-6)
        if n_days < 1.0:
            self.events_per_day = max(self.events_per_day, n_events + (1.0 - n_days) * self.start.per_day)
        if not self._is_fixed:
            scores = np.concatenate([scores, latest.top])
            self._n_kept = len(scores)
            self.value = self._reached(scores, (self._per_day or ALERTS_PER_DAY) * n_days, n_events)

    def _reached(self, scores: Floats, wanted: float, n_events: int) -> float:
        return score_reached(scores, wanted if self._per_day else min(wanted, LARGEST_SHARE * n_events))

    def follow(self, before: Threshold) -> None:
        """Go on with the events that a threshold with other settings has seen."""
        self._parts, self._clock, self._n_added = before._parts, before._clock, before._n_added
        self._close_parts()
        self._find()

    def arrays(self) -> Arrays:
        """All that `restore` needs."""
        counts = self.value, self._n_added, self.start.per_day, self.start.n_edges
        return {
            "counts": np.array([*counts, self._clock, self._n_since, self._n_kept, self.events_per_day]),
            "start": self.start.scores,
            "parts": np.array([(part.start, part.n_events, len(part.top)) for part in self._parts]).reshape(-1, 3),
            "tops": np.array([score for part in self._parts for score in sorted(part.top)]),
        }

    def restore(self, arrays: SavedArrays) -> None:
        """Take over what `arrays` returned."""
        self.value, n_added, _, _, self._clock, n_since, n_kept, *rate = arrays["counts"].tolist()
        self._n_added, self._n_since, self._n_kept = map(int, (n_added, n_since, n_kept))
        self.events_per_day = rate[0] if rate else self.start.per_day  # earlier versions wrote none
        tops = iter(arrays["tops"].tolist())
        for start, n_events, n_top in arrays["parts"].tolist():
            self._parts.append(Part(start, int(n_events), [next(tops) for _ in range(int(n_top))]))
        self._close_parts()


def saved_start(arrays: SavedArrays) -> Start:
    """What the fitted edges told, as `Threshold.arrays` has it."""
    counts = arrays["counts"].tolist()
    return Start(arrays["start"], counts[2], int(counts[3]))


def start_of(model: Any, outcome: Outcome) -> Start:
    """What the last days of the fitted edges tell."""
    ticks = outcome.on_clock(model.edges_.ticks, model.edges_.time_unit).astype(np.float64)
    n_last = math.ceil(LEAST * len(ticks))
    start = min(ticks.max() - START_DAYS * outcome.day, np.partition(ticks, -n_last)[-n_last])
    latest = np.flatnonzero(ticks >= start)
    per_day = len(latest) / max(1.0, (ticks.max() - max(start, ticks.min())) / outcome.day)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TdlgWarning)
        scores = outcome.scores(model.scored(model.edges_[latest]).values)
    return Start(np.sort(scores)[-MOST_KEPT:], per_day, len(latest), (ticks[latest], scores))


def score_reached(scores: Floats, wanted: float) -> float:
    """The score that about the wanted number of edges reach, and at least one of them.

    If more than twice as many do because of equal scores, it is the next higher score, if there is one.

    >>> score_reached(np.array([0.1, 0.9, 0.5, 0.7]), 2)
    0.7
    """
    k = max(1, round(min(wanted, len(scores))))
    border = np.partition(scores, len(scores) - k)[len(scores) - k]
    n_above = np.count_nonzero(scores > border)
    if n_above and np.count_nonzero(scores >= border) > 2 * k:
        border = scores[scores > border].min()
    return float(border)
