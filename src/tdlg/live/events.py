"""Events as mappings, such as JSON gives them, to arrays; what is wrong with an event is reported with its field."""

from __future__ import annotations

import datetime
import math
from collections.abc import Hashable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tdlg.edges import TemporalEdges
from tdlg.exceptions import TdlgError
from tdlg.live.engines import Engine
from tdlg.live.meaning import is_same_label
from tdlg.propagate.nodes import DST, SRC, NodeCodes
from tdlg.propagate.own_features import (
    CALENDAR,
    CategoryNumbers,
    OwnColumn,
    calendar_values,
    category_codes,
    category_numbers,
    scaled,
)
from tdlg.propagate.running import Arrived
from tdlg.tables.ids import id_key
from tdlg.tables.label_times import label_ticks
from tdlg.tables.times import as_times

__all__ = ["EventError", "EventReader", "Events"]

Floats = NDArray[np.float64]

EPOCH = datetime.datetime(1970, 1, 1)
MICROSECOND = datetime.timedelta(microseconds=1)
LATEST = 2**62  # time that is a whole number, so that differences of times are whole numbers too
LABEL_FIELDS = ("label", "label_time")


class EventError(NamedTuple):
    """What is wrong with an event.

    Attributes
    ----------
    position
        The position of the event among those given.
    field, value
        The field, and what it has; None if it is missing.
    message
        What is wrong, and what to do.
    """

    position: int
    field: str
    value: Any
    message: str


class Events(NamedTuple):
    """Events that can be scored.

    Attributes
    ----------
    arrived
        The events in the codes of the stream.
    ids
        Their ids as `tdlg.tables.ids.id_key` gives them; None for an event without one.
    labels
        Position and label of those that have one.
    known
        When these labels became known, in ticks.
    positions
        Their positions among the events given.
    """

    arrived: Arrived
    ids: list[Hashable | None]
    labels: list[tuple[int, Any]]
    known: list[Any]
    positions: list[int]


class _FaultError(Exception):
    """What is wrong with a field."""


class EventReader:
    """Reads mappings with the fields "src", "dst", "time", features, and perhaps "id", "label" and "label_time".

    Parameters
    ----------
    engine
        What scores the events.
    nodes
        The nodes of the stream.
    label_delay
        The time from an event to its label, where an event has a label without the time when it became known. By default
        such a label is known at the time of its event.
    """

    def __init__(self, engine: Engine, nodes: NodeCodes, label_delay: Any = None) -> None:
        self._engine, self._nodes, self._delay = engine, nodes, label_delay
        self._fields = [column for column in engine.own if column.name not in CALENDAR]
        self._has_calendar = len(self._fields) < len(engine.own)
        self._places = {column.name: {c: k for k, c in enumerate(column.categories)} for column in self._fields}
        self._categories = category_numbers(engine.edges, [column.name for column in self._fields if column.has_more])

    def read(self, events: Sequence[Mapping[str, Any]]) -> tuple[Events, list[EventError]]:
        """The events that can be scored, and what is wrong with the others."""
        rows, errors = [], []
        for position, event in enumerate(events):
            field = ""
            try:
                if not isinstance(event, Mapping):
                    raise _FaultError("An event must be an object with the fields src, dst and time.")
                field = "src"
                src = _node(event, field)
                field = "dst"
                dst = _node(event, field)
                field = "time"
                tick = self._tick(event.get(field))
                values = []
                for column in self._fields:
                    field = column.name
                    values.append(self._value(event.get(field), column))
                field = "id"
                identity = _identity(event.get(field))
                field = "label"
                label = self._label(event.get(field))
                field = "label_time"
                known = None if event.get(field) is None else self._tick(event[field])
            except _FaultError as fault:
                value = event.get(field) if isinstance(event, Mapping) else event
                errors.append(EventError(position, field, value, str(fault)))
                continue
            rows.append((position, src, dst, tick, values, identity, label, known))
        return self._events(rows), errors

    def categories_of(self, edges: TemporalEdges) -> NDArray[np.int64]:
        """The codes of features with many categories, (n_edges, n_features), in the numbers of the stream."""
        return category_codes(edges, self._categories)

    def forget_categories(self) -> None:
        """Forget categories of which nothing is left in the state."""
        for feature, numbers in enumerate(self._categories.values()):
            numbers.forget(self._engine.used_categories(feature, numbers.n_codes))

    def categories(self) -> dict[str, list[Any]]:
        """The categories of features that have many, with their codes, and the codes that are free."""
        return {name: [list(numbers.items()), numbers.free] for name, numbers in self._categories.items()}

    def restore_categories(self, categories: dict[str, list[Any]]) -> None:
        """Take over what `categories` returned."""
        for name, (codes, free) in categories.items():
            self._categories[name] = CategoryNumbers([(category, code) for category, code in codes], free)

    def _events(self, rows: list[tuple[Any, ...]]) -> Events:
        ticks = np.array([row[3] for row in rows], self._engine.dtype)
        own, categories = self._features([row[4] for row in rows], ticks)
        src = self._nodes.codes([row[1] for row in rows], SRC)
        dst = self._nodes.codes([row[2] for row in rows], DST)
        labels = [(k, row[6]) for k, row in enumerate(rows) if row[6] is not None]
        known = [self._known_at(rows[k][3]) if rows[k][7] is None else rows[k][7] for k, _ in labels]
        ids = [row[5] for row in rows]
        return Events(Arrived(src, dst, ticks, own, categories), ids, labels, known, [row[0] for row in rows])

    def _features(self, values: list[list[Any]], ticks: NDArray[Any]) -> tuple[Floats, NDArray[np.int64]]:
        """Features as numbers, and codes of those with many categories."""
        parts, codes = [np.empty((len(values), 0))], []
        for k, column in enumerate(self._fields):
            mine = [row[k] for row in values]
            if not column.categories:
                x = np.array(mine, np.float64)
                parts.append((scaled(x, column) if column.beside else x)[:, np.newaxis])
                continue
            places = self._places[column.name]
            indicators = np.zeros((len(mine), len(places)))
            for row, category in enumerate(mine):
                if category in places:
                    indicators[row, places[category]] = 1.0
            parts.append(indicators)
            if column.has_more:
                numbers = self._categories[column.name]
                codes.append([-1 if c is None else numbers[c] for c in mine])
        if self._has_calendar:
            parts += [calendar_values(ticks, self._engine.unit or "s", name)[:, np.newaxis] for name in CALENDAR]
        return np.concatenate(parts, axis=1), np.array(codes, np.int64).reshape(len(codes), len(values)).T

    def _known_at(self, tick: Any) -> Any:
        """When a label becomes known that comes without a time, in ticks."""
        late = label_ticks(np.array([tick], self._engine.dtype), self._engine.unit, label_delay=self._delay)
        return tick if late is None else late[0].item()

    def _tick(self, value: Any) -> Any:
        """A time in ticks of the stream."""
        unit = self._engine.unit
        if value is None:
            raise _FaultError("The time is missing.")
        if unit is None:
            return _number_tick(value, self._engine.dtype)
        if unit == "us" and isinstance(value, str | datetime.datetime):
            tick = _microseconds(value)
            if tick is not None:
                return tick
        if isinstance(value, bool | int | float):
            raise _FaultError(
                "The time must be a datetime such as '2025-01-31T12:00:00', like those of the fitted edges."
            )
        try:
            ticks, found = as_times([value])
            return self._engine.ticks_of(ticks, found)[0].item()
        except TdlgError:
            raise _FaultError("This is not a time. Write it as '2025-01-31T12:00:00'.") from None

    def _value(self, value: Any, column: OwnColumn) -> Any:
        """A feature: a number, NaN if it is missing, or a category, None if it is missing."""
        if column.categories:
            if isinstance(value, float) and math.isnan(value):
                return None
            if value is None or isinstance(value, str | int | bool | float):
                return value if value is None or value in self._places[column.name] else _alike(value, column)
            raise _FaultError("A category must be text or a number.")
        if value is None or (isinstance(value, float) and math.isnan(value)):
            return math.nan
        return _finite(value, "This must be a finite number.")

    def _label(self, label: Any) -> Any:
        """A label of the model; None if it is missing."""
        if label is None or (isinstance(label, float) and math.isnan(label)):
            return None
        return self.check_label(label)

    def check_label(self, label: Any) -> Any:
        """A label as the model has it; another value is a fault."""
        if not self._engine.takes_labels:
            raise _FaultError("Burst scores use no labels. Leave it out.")
        classes = self._engine.classes
        if classes is None:
            return _finite(label, "The label must be a finite number.")
        for known in classes.tolist():
            if is_same_label(known, label):
                return known
        raise _FaultError(f"The label must be one of {', '.join(map(repr, classes.tolist()))}.")

    def label_of(self, label: Any) -> Any:
        """A label as the model has it, or an error that says which labels there are."""
        try:
            return self.check_label(label)
        except _FaultError as fault:
            raise TdlgError(f"Got the label {label!r}. {fault}", parameter="label", value=label) from None

    def tick_of(self, time: Any) -> Any:
        """A time in ticks of the stream, or an error."""
        try:
            return self._tick(time.item() if isinstance(time, np.generic) else time)
        except _FaultError as fault:
            raise TdlgError(f"Got the time {time!r}. {fault}", parameter="time", value=time) from None


def _finite(value: Any, problem: str) -> float:
    """A number, or the problem."""
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        raise _FaultError(problem) from None
    if not math.isfinite(number):
        raise _FaultError(problem)
    return number


def _node(event: Mapping[str, Any], field: str) -> Any:
    value = event.get(field)
    if value is None or value != value:
        raise _FaultError("The id of the node is missing.")
    if isinstance(value, float) and value.is_integer():
        return int(value)
    try:
        hash(value)
    except TypeError:
        raise _FaultError("The id of a node must be text or a number.") from None
    return value


def _identity(value: Any) -> Hashable | None:
    if isinstance(value, dict | list | bool):
        raise _FaultError("The id of an event must be text or a number.")
    return None if value is None else id_key(value)


def _number_tick(value: Any, dtype: np.dtype[Any]) -> Any:
    """A time that is a number."""
    if isinstance(value, str | bool) or not isinstance(value, int | float):
        raise _FaultError("The time must be a number, like those of the fitted edges.")
    try:
        is_finite = math.isfinite(value)
    except OverflowError:  # an integer beyond all floats
        is_finite = False
    if not is_finite:
        raise _FaultError("The time must be finite.")
    if dtype.kind == "i" and int(value) != value:
        raise _FaultError("The time must be a whole number, like those of the fitted edges.")
    if dtype.kind == "i" and abs(value) > LATEST:
        raise _FaultError(f"The time must be between -{LATEST} and {LATEST}.")
    return int(value) if dtype.kind == "i" else float(value)


def _microseconds(value: str | datetime.datetime) -> int | None:
    """Microseconds since 1970 of a datetime or its ISO text; None for other text."""
    if isinstance(value, str):
        try:
            value = datetime.datetime.fromisoformat(value)
        except ValueError:
            return None
    if value.tzinfo is not None:
        try:
            value = value.astimezone(datetime.UTC).replace(tzinfo=None)
        except OverflowError:  # before the year 1 or after 9999
            return None
    return (value - EPOCH) // MICROSECOND


def _alike(value: Any, column: OwnColumn) -> Any:
    """The category that means the same, such as 5 for "5"; else the value itself."""
    same = [category for category in column.categories if str(category) == str(value)]
    return same[0] if len(same) == 1 else value
