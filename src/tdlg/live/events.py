"""Events as mappings, such as JSON gives them, to arrays; what is wrong with an event is reported with its field."""

from __future__ import annotations

import datetime
import math
import re
from collections.abc import Hashable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tdlg.edges import TemporalEdges
from tdlg.exceptions import TdlgError
from tdlg.live.engines import Engine
from tdlg.live.fields import absent
from tdlg.live.meaning import is_same_label
from tdlg.propagate.plan import (
    CALENDAR,
    CategoryNumbers,
    OwnColumn,
    calendar_values,
    category_codes,
    category_numbers,
    raw_values,
)
from tdlg.tables.ids import id_key
from tdlg.tables.labels import label_ticks
from tdlg.tables.times import as_times

__all__ = ["LABEL_FIELDS", "EventError", "EventReader", "Events", "id_problem"]

Floats = NDArray[np.float64]

EPOCH = datetime.datetime(1970, 1, 1)
MICROSECOND = datetime.timedelta(microseconds=1)
LATEST_TIME = 2**62  # time that is a whole number, so that differences of times are whole numbers too
LABEL_FIELDS = ("label", "label_time")
NUMBER = re.compile(r"\s*[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?\s*")
SURROGATE = re.compile("[\ud800-\udfff]")
OFFSET = re.compile(r":[0-9.]+[+-](?:2[4-9]|[3-9][0-9]):?[0-9]{2}")  # at the end of a time, of more than a day
EXACT = 2.0**53  # from which on a float may stand for several whole numbers
LARGEST_AMOUNT = 1e15  # amount, if no fitted one is larger


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

    def in_words(self) -> str:
        """The field, what is wrong with it, and its value if it has one."""
        return f"{self.field}: {self.message}" + ("" if self.value is None else f" Got {self.value!r}.")


class Events(NamedTuple):
    """Events that can be scored. Nothing is kept of them yet: their nodes get codes when they are processed.

    Attributes
    ----------
    src, dst
        The nodes.
    ticks
        Their times in ticks of the stream.
    own
        Their features as numbers.
    categories
        The categories of features that have many, one list per feature, as `tdlg.tables.ids.id_key` gives them.
    unseen
        Whether an event has a category that no fitted edge has.
    ids
        Their ids as `tdlg.tables.ids.id_key` gives them; None for an event without one.
    labels
        Position and label of those that have one.
    known
        When these labels became known, in ticks.
    positions
        Their positions among the events given.
    """

    src: list[Any]
    dst: list[Any]
    ticks: NDArray[Any]
    own: Floats
    categories: list[list[Hashable | None]]
    unseen: list[bool]
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
    label_delay
        The time from an event to its label, where an event has a label without the time when it became known. By default
        such a label is known at the time of its event.
    allow_missing
        Whether an event may lack the field of a feature. False by default: what is unknown is null.

    Attributes
    ----------
    features
        The features that an event must have.
    """

    def __init__(self, engine: Engine, label_delay: Any = None, *, allow_missing: bool = False) -> None:
        self._engine, self._delay, self.allow_missing = engine, label_delay, allow_missing
        self._columns = [column for column in engine.own if column.name not in CALENDAR]
        self.features = [column.name for column in self._columns]
        self._needed = dict(zip(self.features, self.features, strict=True))
        self._has_calendar = len(self._columns) < len(engine.own)
        self._places = {
            column.name: {id_key(c): k for k, c in enumerate(column.categories)} for column in self._columns
        }
        fitted = {column.name: engine.edges.feature_categories.get(column.name, ()) for column in self._columns}
        self._seen = {name: frozenset(map(id_key, categories)) for name, categories in fitted.items()}
        self._numbers = {c.name: _Number.of(engine.edges, c.name) for c in self._columns if not c.categories}
        self._categories = category_numbers(engine.edges, [column.name for column in self._columns if column.has_more])

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
                for column in self._columns:
                    field = column.name
                    values.append(self._value(event.get(field), column))
                lacking = None if self.allow_missing else absent(event, self._needed)
                if lacking is not None:
                    field, message = lacking
                    raise _FaultError(message)
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

    def is_same(self, event: Mapping[str, Any], first: Mapping[str, Any]) -> bool:
        """Whether two events have the same source, destination, time and features, as far as `event` has them."""
        try:
            for end in ("src", "dst"):
                if id_key(_node(event, end)) != id_key(_node(first, end)):
                    return False
            if self._tick(event.get("time")) != self._tick(first.get("time")):
                return False
            both = [
                (column, event[column.name], first.get(column.name)) for column in self._columns if column.name in event
            ]
            return all(
                given is None or self._value(given, column) == self._value(other, column)
                for column, given, other in both
            )
        except _FaultError:
            return False

    def codes_of(self, events: Events, new: NDArray[np.bool_]) -> NDArray[np.int64]:
        """The codes of features with many categories, (n_events, n_features). New categories of the `new` events get one."""
        codes = np.full((len(new), len(self._categories)), -1, np.int64)
        for k, (numbers, mine) in enumerate(zip(self._categories.values(), events.categories, strict=True)):
            codes[:, k] = [numbers[c] if c is not None and is_new else -1 for c, is_new in zip(mine, new, strict=True)]
        return codes

    def categories_of(self, edges: TemporalEdges, *, keep: bool = True) -> NDArray[np.int64]:
        """The codes of features with many categories, (n_edges, n_features), in the numbers of the stream.

        Without `keep`, those of new categories are given to others later.
        """
        numbers = self._categories
        return category_codes(edges, numbers if keep else {name: own.copy() for name, own in numbers.items()})

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
        labels = [(k, row[6]) for k, row in enumerate(rows) if row[6] is not None]
        known = [self._known_at(rows[k][3]) if rows[k][7] is None else rows[k][7] for k, _ in labels]
        return Events(
            [row[1] for row in rows],
            [row[2] for row in rows],
            ticks,
            *self._features([row[4] for row in rows], ticks),
            [row[5] for row in rows],
            labels,
            known,
            [row[0] for row in rows],
        )

    def _features(
        self, values: list[list[Any]], ticks: NDArray[Any]
    ) -> tuple[Floats, list[list[Hashable | None]], list[bool]]:
        """Features as numbers, the categories of those that have many, and which events have one that no fitted edge has."""
        parts, many, unseen = [np.empty((len(values), 0))], [], [False] * len(values)
        for k, column in enumerate(self._columns):
            mine = [row[k] for row in values]
            if not column.categories:
                x = np.array([math.nan if value is None else value for value in mine], np.float64)
                parts.append(column.numbers(x))
                continue
            places, seen = self._places[column.name], self._seen[column.name]
            for row, category in enumerate(mine):
                unseen[row] |= category is not None and category not in seen
            parts.append(column.numbers(np.array([places.get(category, -1) for category in mine], np.int64)))
            if column.has_more:
                many.append(mine)
        if self._has_calendar:
            parts += [calendar_values(ticks, self._engine.unit or "s", name)[:, np.newaxis] for name in CALENDAR]
        return np.concatenate(parts, axis=1), many, unseen

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
        if isinstance(value, str) and OFFSET.search(value):
            raise _FaultError("The offset from UTC must be less than a day. Write the time as '2025-01-31T12:00:00'.")
        try:
            ticks, found = as_times([value])
            return self._engine.ticks_of(ticks, found)[0].item()
        except TdlgError:
            raise _FaultError("This is not a time. Write it as '2025-01-31T12:00:00'.") from None

    def _value(self, value: Any, column: OwnColumn) -> Any:
        """A feature: a number, or a category as `id_key` gives it; None if it is missing."""
        if value is None or (isinstance(value, float) and math.isnan(value)):
            return None
        if not column.categories:
            return self._numbers[column.name].read(value)
        seen = self._seen[column.name]
        if isinstance(value, bool | np.bool_):  # one of two words, if these were fitted
            value = next((key for key in (id_key(value), str(value), str(value).lower()) if key in seen), None)
            if value is not None:
                return value
        if not isinstance(value, str | bytes | int | float | np.number):
            raise _FaultError("A category must be text or a number.")
        return id_key(value)

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
            return _number(label, "The label must be a finite number.")
        for known in classes.tolist():
            if is_same_label(known, label):
                return known
        raise _FaultError(f"The label must be one of {', '.join(map(repr, classes.tolist()))}.")

    def label_of(self, label: Any) -> Any:
        """A label as the model has it, or an error that says which labels there are."""
        try:
            return self.check_label(label)
        except _FaultError as fault:
            raise TdlgError(f"Got the label {label!r}. {fault}", parameter="label") from None

    def tick_of(self, time: Any) -> Any:
        """A time in ticks of the stream, or an error."""
        try:
            return self._tick(time.item() if isinstance(time, np.generic) else time)
        except _FaultError as fault:
            raise TdlgError(f"Got the time {time!r}. {fault}", parameter="time") from None


class _Number(NamedTuple):
    """What a feature that is a number can be.

    Attributes
    ----------
    largest
        Its largest absolute value: one wrong amount would stay in the means of its nodes for long.
    is_boolean
        Whether the fitted edges have nothing but 0 and 1, so that true and false are values too.
    """

    largest: float
    is_boolean: bool

    @classmethod
    def of(cls, edges: TemporalEdges, name: str) -> _Number:
        x = raw_values(edges, name)
        x = x[np.isfinite(x)]
        return cls(float(np.abs(x).max(initial=LARGEST_AMOUNT)), bool(np.isin(x, (0.0, 1.0)).all()))

    def read(self, value: Any) -> float:
        """A value as a number."""
        if self.is_boolean and isinstance(value, bool | np.bool_):
            return float(value)
        number = _number(value, "This must be a finite number.")
        if abs(number) > self.largest:
            raise _FaultError(f"This must be between -{self.largest:g} and {self.largest:g}.")
        return number


def _number(value: Any, problem: str) -> float:
    """A finite number, or the text that writes one with the digits 0 to 9; else the problem. True is not a number."""
    is_other = not NUMBER.fullmatch(value) if isinstance(value, str) else isinstance(value, bool | np.bool_)
    try:
        number = math.nan if is_other else float(value)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if not math.isfinite(number):
        raise _FaultError(problem)
    return number


def _node(event: Mapping[str, Any], field: str) -> Any:
    value = event.get(field)
    if value is None or value != value or (isinstance(value, str) and not value.strip()):
        raise _FaultError("The id of the node is missing.")
    problem = id_problem(value)
    if problem is not None:
        raise _FaultError(f"The id of a node must be {problem}.")
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _identity(value: Any) -> Hashable | None:
    problem = None if value is None else id_problem(value)
    if problem is not None:
        raise _FaultError(f"The id of an event must be {problem}.")
    return None if value is None else id_key(value)


def id_problem(id: Any) -> str | None:
    """What an id must be, if it is not; None for text and numbers."""
    try:
        hash(id)
    except TypeError:
        return "text or a number"
    if isinstance(id, bool | np.bool_):
        return "text or a number"
    if isinstance(id, str) and not id.isascii() and SURROGATE.search(id):
        return "valid Unicode: this holds a lone surrogate, half of a character"
    if isinstance(id, float) and not abs(id) < EXACT:  # as in a table
        return "text or a whole number: floats of this size have no distinct values"
    return None


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
    if dtype.kind == "i" and abs(value) > LATEST_TIME:
        raise _FaultError(f"The time must be between -{LATEST_TIME} and {LATEST_TIME}.")
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
