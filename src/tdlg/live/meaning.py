"""What the values of a live model mean: the score that alerts are about, the class predicted, times and labels."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import get_tags

from tdlg.clock import rounded_up, ticks_per_second, times_of
from tdlg.explain.positive import positive_of

__all__ = ["Meaning", "is_same_label", "time_as_json"]

Floats = NDArray[np.float64]
DAYS = 30  # the span of fitted edges whose times are numbers counts as this many days
DAY = 86_400


class Meaning:
    """How to read the values of a model.

    Parameters
    ----------
    model
        A fitted model: classifier, regressor or detector of bursts.
    clock
        A time of the stream, which shows the unit of its ticks.

    Attributes
    ----------
    kind
        "classifier", "regressor" or "outlier_detector".
    classes
        The classes, with whole numbers as integers; empty if the model has none.
    positive
        The class that scores are about; None if the model has no classes.
    """

    def __init__(self, model: Any, clock: Any) -> None:
        self.kind = get_tags(model).estimator_type
        self._edges = model.edges_
        self.unit = np.datetime_data(clock.dtype)[0] if isinstance(clock, np.datetime64) else None
        self._offset = float(getattr(model, "offset_", 0.0))
        self.classes: list[Any] = []
        if self.kind == "classifier":
            whole = model.classes_.dtype.kind == "f" and bool((model.classes_ % 1 == 0).all())
            self.classes = (model.classes_.astype(np.int64) if whole else model.classes_).tolist()
            self._place = positive_of(model)
        self.positive = self.classes[self._place] if self.classes else None

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
        return (
            next((label for label in self.classes if label != self.positive), None) if len(self.classes) == 2 else None
        )

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

    Examples
    --------
    >>> time_as_json(1_500_000, "us"), time_as_json(np.float64(2.5), None)
    ('1970-01-01T00:00:01.5', 2.5)
    """
    if unit is None:
        return ticks.item() if isinstance(ticks, np.generic) else ticks
    text = str(times_of(np.array([ticks], np.int64), unit)[0])
    return text.rstrip("0").rstrip(".") if "." in text else text


def is_same_label(known: Any, label: Any) -> bool:
    """Whether a label means a class: 1, 1.0, True and "1" mean 1."""
    if known == label or str(known) == str(label):
        return True
    try:
        return not isinstance(known, str) and float(known) == float(label)
    except (TypeError, ValueError, OverflowError):
        return False
