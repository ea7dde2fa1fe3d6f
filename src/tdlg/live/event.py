"""Events of a stream, mappings or the rows of a table, as arrays and as they are logged; faults, each with its field.

Reading keeps nothing: nodes and categories get their codes when the events are learnt.
"""

from __future__ import annotations

import datetime
import json
import math
import re
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from itertools import compress, count
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tdlg._kernels import DST, SRC
from tdlg.clock import rounded_up
from tdlg.edges import TemporalEdges
from tdlg.estimator import edges_of_table
from tdlg.exceptions import EdgesError, ParameterError, TdlgError
from tdlg.io.columns import usual_at
from tdlg.live.log import Record
from tdlg.live.outcome import is_same_label, time_as_json
from tdlg.propagate.plan import (
    CALENDAR,
    CategoryNumbers,
    OwnColumn,
    calendar_values,
    category_codes,
    category_numbers,
    own_values,
    raw_values,
)
from tdlg.propagate.state import NodeCodes, StreamEvents
from tdlg.sampling.index import feature_values
from tdlg.tables.column import EXACT
from tdlg.tables.ids import id_key
from tdlg.tables.labels import label_ticks
from tdlg.tables.times import as_times

__all__ = ["EventError", "EventReader", "Events", "Fields"]

Floats = NDArray[np.float64]

ROLES = ("id", "src", "dst", "time", "label", "label_time")
DETECTED = ("src", "dst", "time")
PLAIN = frozenset({str, int, float, bool, type(None)})
FAR_AHEAD = 10.0  # horizons after its event from which on a label counts as never known
MOST_SHOWN = 5  # fields in a message
EPOCH = datetime.datetime(1970, 1, 1)
MICROSECOND = datetime.timedelta(microseconds=1)
LATEST_TIME = 2**62  # time that is a whole number, so that differences of times are whole numbers too
NUMBER = re.compile(r"\s*[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?\s*")
SURROGATE = re.compile("[\ud800-\udfff]")
OFFSET = re.compile(r":[0-9.]+[+-](?:2[4-9]|[3-9][0-9]):?[0-9]{2}")  # at the end of a time, of more than a day
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
    """Events that can be scored, as columns."""

    src: list[Any]
    dst: list[Any]
    ticks: NDArray[Any]
    own: Floats  # features as numbers
    categories: list[list[Hashable | None]]  # of features that have many, by `id_key`, one list per feature
    unseen: NDArray[np.bool_]  # which have a category that no fitted edge has
    ids: list[Hashable | None]  # by `id_key`; None for an event without one
    labels: list[tuple[int, Any]]  # place and label of those that have one
    known: list[Any]  # when these labels became known, in ticks
    positions: list[int]  # among the events given

    def some(self, places: Sequence[int]) -> Events:
        """Those at some places, in ascending order."""
        if len(places) == len(self.ids):
            return self
        at = {place: k for k, place in enumerate(places)}
        labels = [((at[k], label), known) for (k, label), known in zip(self.labels, self.known, strict=True) if k in at]
        src, dst, ids, positions, *categories = (
            [column[k] for k in places] for column in (self.src, self.dst, self.ids, self.positions, *self.categories)
        )
        arrays = self.ticks[places], self.own[places]
        given, known = [label for label, _ in labels], [known for _, known in labels]
        return Events(src, dst, *arrays, categories, self.unseen[places], ids, given, known, positions)


class _FaultError(Exception):
    """What is wrong with a field."""


# ---- fields


def plain(value: Any) -> Any:
    """A value that JSON can hold and gives back unchanged; datetimes as text.

    >>> plain(np.int64(3)), plain(np.datetime64("2025-01-31")), plain("a")
    (3, '2025-01-31', 'a')
    """
    if type(value) in PLAIN:
        return value
    if isinstance(value, np.datetime64):
        return None if np.isnat(value) else str(value)
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, datetime.datetime | datetime.date):
        return value.isoformat()
    return value if isinstance(value, dict | list) else str(value)


def absent(
    event: Mapping[str, Any], fields: Mapping[str, str], used: Collection[str] = ROLES
) -> tuple[str, str] | None:
    """The first feature that an event has no field for, and what to do; `used` are the fields that have another use."""
    lacking = [name for name, field in fields.items() if field not in event]
    if not lacking:
        return None
    others = [repr(name) for name in event if name not in used and name not in fields.values()][:MOST_SHOWN]
    has = f" It has {', '.join(others)}, which the model does not use: is a field renamed?" if others else ""
    return lacking[0], (
        f"The event lacks {', '.join(repr(fields[name]) for name in lacking)}, which the model was fitted on.{has} Send "
        "null for what is unknown, or allow that fields are missing (allow_missing=True, --allow-missing)."
    )


class Fields:
    """The names that events use for roles and features; src, dst and time are also found by common names.

    features : those of the fitted edges; needed : those of them that scores depend on.

    >>> fields = Fields({"src": "customer", "amount": "EUR"}, ["amount"])
    >>> fields.event({"customer": "ann", "dst": "shop", "time": 5, "EUR": 9.5, "other": 1})
    {'src': 'ann', 'dst': 'shop', 'time': 5, 'amount': 9.5}
    """

    def __init__(
        self, columns: Mapping[str, str] | None, features: Iterable[str], needed: Collection[str] = ()
    ) -> None:
        self.columns = dict(columns or {})
        self.names = (*ROLES, *features)
        unknown = [name for name in self.columns if name not in self.names]
        if unknown:
            raise ParameterError(
                f"The 'columns' must name roles or features: {', '.join(self.names)}. Got {unknown[0]!r} instead.",
                "Pass columns={'src': 'customer', 'dst': 'terminal', 'time': 'when'}, for example.",
                parameter="columns",
            )
        strange = [field for field in self.columns.values() if not isinstance(field, str)]
        if strange:
            raise ParameterError(
                f"The 'columns' must give the name of a field for each role. Got {strange[0]!r} instead.",
                parameter="columns",
            )
        self._fields = [(name, self.columns.get(name, name)) for name in self.names]
        self._needed = {name: field for name, field in self._fields if name in needed}

    def found_in(self, event: Mapping[str, Any]) -> Fields:
        """The same fields, with the names of src, dst and time that an event has in place of those that it lacks."""
        names = [str(name) for name in event]
        usual = {role: [names[k] for k in usual_at(names, role)] for role in DETECTED if role not in self.columns}
        found = {role: at[0] for role, at in usual.items() if role not in event and len(at) == 1}
        return Fields({**found, **self.columns}, self.names[len(ROLES) :], self._needed) if found else self

    def event(self, given: Any) -> dict[str, Any]:
        """The event with the usual names and plain values; features without a field are missing, other fields left out."""
        if type(given) is not dict and not isinstance(given, Mapping):  # whose test takes longer
            return {}  # which lacks everything
        event = {}
        for name, field in self._fields:
            if field in given:
                value = given[field]
                event[name] = value if type(value) in PLAIN else plain(value)
        for name in self._needed:
            event.setdefault(name, None)
        if "id" in event and (event["id"] == "" or event["id"] != event["id"]):
            event["id"] = None  # an empty cell of a table
        return event

    def absent(self, given: Any) -> tuple[str, str] | None:
        """The first feature that an event has no field for, and what to do."""
        if type(given) is not dict and not isinstance(given, Mapping):
            return None
        if all(map(given.__contains__, self._needed.values())):
            return None
        return absent(given, self._needed, {field for _, field in self._fields} if self.columns else self.names)


# ---- ids


def made_id(src: Any, dst: Any, time: Any) -> str:
    r"""The id of an event that comes without one; the time is as `time_as_json` writes it, 5.0 as 5.

    A ">" in the id of the source is marked with a backslash, so that no other source and destination have the same id.

    >>> made_id("ann", "007", "2025-01-31T00:00:00"), made_id("a>b", "c>d", 5.0)
    ('ann>007@2025-01-31T00:00:00', 'a\\>b>c>d@5')
    """
    first = str(id_key(src)).replace("\\", r"\\").replace(">", r"\>")
    return f"{first}>{id_key(dst)}@{id_key(time)}"


def copies_of(id: str) -> Iterator[str]:
    """The ids of all edges that would have this one: a>b@1, a>b@1#2 and so on."""
    return (id if k == 1 else f"{id}#{k}" for k in count(1))


def numbered(ids: Iterable[str]) -> list[str]:
    """The ids, with a number for the second and further copies of an id.

    >>> numbered(["a>b@1", "a>c@1", "a>b@1"])
    ['a>b@1', 'a>c@1', 'a>b@1#2']
    """
    copies: dict[str, Iterator[str]] = {}
    return [next(copies.setdefault(id, copies_of(id))) for id in ids]


def ids_of_edges(edges: TemporalEdges, unit: str | None) -> list[str]:
    """The ids that edges have as events without ids, on a clock of this unit; copies of the same edge have a number."""
    ticks = rounded_up(edges.ticks, edges.time_unit, unit, edges.ticks.dtype)
    times = [time_as_json(each, unit) for each in ticks.tolist()]
    return numbered(map(made_id, edges.src.tolist(), edges.dst.tolist(), times))


def id_problem(id: Any) -> str | None:
    """What an id must be, if it is not; None for text and numbers."""
    if type(id) is str or type(id) is int:
        if type(id) is str and not id.isascii() and SURROGATE.search(id):
            return "valid Unicode: this holds a lone surrogate, half of a character"
        return None
    try:
        hash(id)
    except TypeError:
        return "text or a number"
    if isinstance(id, bool | np.bool_):
        return "text or a number"
    if isinstance(id, float) and not abs(id) < EXACT:  # as in a table
        return "text or a whole number: floats of this size have no distinct values"
    return None


# ---- reading


class EventReader:
    """Reads mappings with the usual fields, and tables.

    model, engine, nodes : the model, what scores its events, and the nodes of the stream.
    """

    def __init__(self, model: Any, engine: Any, nodes: NodeCodes) -> None:
        self._model, self._engine, self._nodes, self.allow_missing = model, engine, nodes, False
        self.horizon: float | None = None  # for how long labels of an event are accepted, in ticks
        self._delay = getattr(model, "label_delay_", None)
        edges = engine.edges
        self._columns: list[OwnColumn] = [column for column in engine.own if column.name not in CALENDAR]
        self.features = [column.name for column in self._columns]  # that an event must have
        self._needed = dict(zip(self.features, self.features, strict=True))
        self._has_calendar = len(self._columns) < len(engine.own)
        self._places = {c.name: {id_key(word): k for k, word in enumerate(c.categories)} for c in self._columns}
        words = {column.name: edges.feature_categories.get(column.name, ()) for column in self._columns}
        self._seen = {name: frozenset(map(id_key, categories)) for name, categories in words.items()}
        self._numbers = {c.name: _Number.of(edges, c.name) for c in self._columns if not c.categories}
        self._categories = category_numbers(edges, [column.name for column in self._columns if column.has_more])

    def read(self, events: Sequence[Mapping[str, Any]]) -> tuple[Events, list[EventError]]:
        """The events that can be scored, and what is wrong with the others."""
        read, errors, of_labels = self.read_all(events)
        if of_labels:
            read = read.some([k for k, position in enumerate(read.positions) if position not in of_labels])
        return read, sorted([*errors.values(), *of_labels.values()])

    def read_all(
        self, events: Sequence[Mapping[str, Any]]
    ) -> tuple[Events, dict[int, EventError], dict[int, EventError]]:
        """The events that can be scored but for their labels, and by position what is wrong with others, and with labels."""
        errors: dict[int, EventError] = {}
        of_labels: dict[int, EventError] = {}
        columns = self._columns
        src, dst, ticks, ids, positions, labels, known = ([] for _ in range(7))
        values: list[list[Any]] = [[] for _ in columns]
        for position, event in enumerate(events):
            field, is_read, mine = "", False, []
            try:
                if type(event) is not dict and not isinstance(event, Mapping):
                    raise _FaultError("An event must be an object with the fields src, dst and time.")
                field = "src"
                source = _node(event.get(field))
                field = "dst"
                destination = _node(event.get(field))
                field = "time"
                tick = self._tick(event.get(field))
                for column in columns:
                    field = column.name
                    mine.append(self._value(event.get(field), column))
                is_whole = self.allow_missing or all(map(event.__contains__, self._needed))
                lacking = None if is_whole else absent(event, self._needed)
                if lacking is not None:
                    field, message = lacking
                    raise _FaultError(message)
                field = "id"
                ids.append(_identity(event.get(field)))
                src.append(source)
                dst.append(destination)
                ticks.append(tick)
                positions.append(position)
                for of_column, value in zip(values, mine, strict=True):
                    of_column.append(value)
                is_read, field = True, "label"
                if (label := event.get(field)) is not None:
                    label = self._label(label)
                field = "label_time"
                if (at := event.get(field)) is not None:
                    at = self._tick(at)
                if label is not None:
                    labels.append((len(ids) - 1, label))
                    known.append(self._known_at(tick) if at is None else at)
            except _FaultError as fault:
                value = event.get(field) if isinstance(event, Mapping) else event
                (of_labels if is_read else errors)[position] = EventError(position, field, value, str(fault))
        read = self._events(src, dst, np.array(ticks, self._engine.dtype), values, ids, labels, known, positions)
        return read, errors, of_labels

    def read_columns(
        self, columns: dict[str, list[Any]]
    ) -> tuple[Events, dict[int, EventError], dict[int, EventError]]:
        """As `read_all` for a table that `columns` gave."""
        n = len(columns["id"])
        ticks, values = np.array(columns["time"], self._engine.dtype), []
        errors: dict[int, EventError] = {}
        of_labels: dict[int, EventError] = {}
        for column in self._columns:
            x = columns[column.name]
            if column.categories:
                x = [None if one is None else id_key(one) for one in x]
            else:
                largest = self._numbers[column.name].largest
                for k in np.flatnonzero(np.abs(np.array(x, np.float64)) > largest).tolist():
                    errors[k] = EventError(k, column.name, x[k], f"This must be between -{largest:g} and {largest:g}.")
            values.append(x)
        if ticks.dtype.kind == "i":
            for k in np.flatnonzero(np.abs(ticks) > LATEST_TIME).tolist():
                errors[k] = EventError(k, "time", columns["time"][k], f"It must be within {LATEST_TIME} ticks of 0.")
        ids: list[Hashable | None] = []
        labels, known, late = [], [], columns.get("label_time", [None] * n)
        for k, id in enumerate(columns["id"]):
            try:
                ids.append(_identity(id))
            except _FaultError as fault:
                ids.append(None)
                errors[k] = EventError(k, "id", id, str(fault))
        for k, label in enumerate(columns.get("label", ())):
            try:
                if label is not None:
                    labels.append((k, self.check_label(label)))
                    known.append(self._known_at(columns["time"][k]) if late[k] is None else late[k])
            except _FaultError as fault:
                of_labels[k] = EventError(k, "label", label, str(fault))
        read = self._events(columns["src"], columns["dst"], ticks, values, ids, labels, known, list(range(n)))
        return read.some([k for k in range(n) if k not in errors]) if errors else read, errors, of_labels

    def columns(self, edges: TemporalEdges, ids: Sequence[Any]) -> dict[str, list[Any]]:
        """Edges as columns by the usual names, for `read_columns`: plain values, with times in ticks of the stream."""
        unit, dtype = self._engine.unit, self._engine.dtype
        columns = {"id": list(ids), "src": edges.src.tolist(), "dst": edges.dst.tolist()}
        columns["time"] = self._engine.ticks_of(edges.ticks, edges.time_unit).tolist()
        for name in edges.feature_names:
            values = feature_values(edges, name).tolist()
            columns[name] = [None if one is None or one != one else one for one in values]
        if edges.weight is not None:
            columns["weight"] = edges.weight.tolist()
        if edges.label is not None and edges.labelled.any() and self._engine.takes_labels:
            has = edges.labelled.tolist()
            columns["label"] = [
                label if there else None for label, there in zip(edges.label.tolist(), has, strict=True)
            ]
            if edges.label_time is not None:
                known = rounded_up(edges.known_at, edges.time_unit, unit, dtype).tolist()
                columns["label_time"] = [at if there else None for at, there in zip(known, has, strict=True)]
        return columns

    def is_same(self, event: Mapping[str, Any], first: Mapping[str, Any]) -> bool:
        """Whether two events have the same source, destination, time and features, as far as `event` has them."""
        try:
            for end in ("src", "dst"):
                if id_key(_node(event.get(end))) != id_key(_node(first.get(end))):
                    return False
            if self._tick(event.get("time")) != self._tick(first.get("time")):
                return False
            pairs = [(c, event[c.name], first.get(c.name)) for c in self._columns if event.get(c.name) is not None]
            return all(self._value(given, column) == self._value(other, column) for column, given, other in pairs)
        except _FaultError:
            return False

    def check_label(self, label: Any) -> Any:
        """A label as the model has it; another value is a fault."""
        if not self._engine.takes_labels:
            raise _FaultError("Burst scores use no labels. Leave it out.")
        classes = self._engine.classes
        if classes is None:
            return _finite_number(label, "The label must be a finite number.")
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

    def _events(
        self, src: Any, dst: Any, ticks: NDArray[Any], values: Any, ids: Any, labels: Any, known: Any, positions: Any
    ) -> Events:
        labels, known = self.timely(ticks, labels, known)
        return Events(src, dst, ticks, *self._features(values, ticks), ids, labels, known, positions)

    def timely(
        self, ticks: NDArray[Any], labels: list[tuple[int, Any]], known: list[Any]
    ) -> tuple[list[tuple[int, Any]], list[Any]]:
        """Labels and when they become known, without those of the far future, for which memory would be held."""
        if not labels:
            return labels, known
        is_timely = (~self.is_far_ahead(ticks[[at for at, _ in labels]], np.array(known))).tolist()
        return list(compress(labels, is_timely)), list(compress(known, is_timely))

    def is_far_ahead(self, tick: Any, known: Any) -> Any:
        """Whether labels become known so long after their events that they count as never known."""
        return known > tick + FAR_AHEAD * (self.horizon or np.inf)

    def _features(
        self, values: list[list[Any]], ticks: NDArray[Any]
    ) -> tuple[Floats, list[list[Hashable | None]], NDArray[np.bool_]]:
        """Features as numbers, the categories of those that have many, and which events have one that no fitted edge has."""
        parts, many, unseen = [], [], np.zeros(len(ticks), bool)
        for column, mine in zip(self._columns, values, strict=True):
            if not column.categories:
                parts.append(column.numbers(np.array(mine, np.float64)))  # None is NaN
                continue
            places, seen = self._places[column.name], self._seen[column.name]
            unseen |= np.array([category is not None and category not in seen for category in mine], bool)
            parts.append(column.numbers(np.array([places.get(category, -1) for category in mine], np.int64)))
            if column.has_more:
                many.append(mine)
        if self._has_calendar:
            parts += [calendar_values(ticks, self._engine.unit or "s", name)[:, np.newaxis] for name in CALENDAR]
        own = parts[0] if len(parts) == 1 else np.concatenate([np.empty((len(ticks), 0)), *parts], axis=1)
        return own, many, unseen

    def _known_at(self, tick: Any) -> Any:
        """When a label becomes known that comes without a time, in ticks."""
        if self._delay is None:
            return tick
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
        if value is None or value != value:
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
        return None if isinstance(label, float) and math.isnan(label) else self.check_label(label)

    # ---- in the codes of the stream, which are given here

    def edges(self, X: Any, y: Any = None, label_time: Any = None) -> TemporalEdges:
        """Edges, or a table as edges, with their labels; see `StreamScorer.update`."""
        edges: TemporalEdges = X if isinstance(X, TemporalEdges) else edges_of_table(self._model, X, reset=False)
        if edges.bipartite != self._engine.edges.bipartite:
            raise EdgesError(
                "These edges and the fitted edges must both be bipartite, or neither.",
                f"Create them with bipartite={self._engine.edges.bipartite!r}.",
            )
        if y is not None or label_time is not None:
            edges = edges.with_label(edges.label if y is None else y, label_time)
        if edges.label is not None and edges.label_ticks is None and self._delay is not None:
            edges = edges.with_label(edges.label, label_delay=self._delay)
        return edges

    def arrived(self, edges: TemporalEdges, *, keep: bool = True) -> StreamEvents:
        """Edges in the codes of the stream; without `keep`, codes of new categories are given to others later."""
        ticks = self._engine.ticks_of(edges.ticks, edges.time_unit)
        edges = edges.with_ids_of(self._engine.edges) if edges.feature_names else edges
        numbers = self._categories if keep else {name: own.copy() for name, own in self._categories.items()}
        own, categories, sides = own_values(edges, self._engine.own), category_codes(edges, numbers), []
        for end, code in ((SRC, edges.src_code), (DST, edges.dst_code)):
            used, place = np.unique(code, return_inverse=True)
            sides.append(self._nodes.codes(edges.node_ids[used].tolist(), end)[place])
        return StreamEvents(sides[0], sides[1], ticks, own, categories)

    def entered(self, events: Events, new: NDArray[np.bool_]) -> StreamEvents:
        """Events in the codes of the stream; only `new` ones get codes, since nothing is kept of the others."""
        which, sides = new.tolist(), []
        for end, ids in ((SRC, events.src), (DST, events.dst)):
            if all(which):
                sides.append(self._nodes.codes(ids, end))
            else:
                sides.append(np.zeros(len(which), np.int64))
                sides[end][new] = self._nodes.codes(compress(ids, which), end)
        codes = np.empty((len(which), len(self._categories)), np.int64)
        for k, (numbers, mine) in enumerate(zip(self._categories.values(), events.categories, strict=True)):
            codes[:, k] = [
                numbers[c] if c is not None and is_new else -1 for c, is_new in zip(mine, which, strict=True)
            ]
        return StreamEvents(sides[SRC], sides[DST], events.ticks, events.own, codes)

    def fitted(self, edges: TemporalEdges) -> tuple[StreamEvents, NDArray[np.bool_], NDArray[Any]]:
        """The fitted edges, whose codes are those of the stream, which have a label, and when it became known."""
        ticks, categories = self._engine.ticks_of(edges.ticks, edges.time_unit), category_codes(edges, self._categories)
        codes = edges.src_code.astype(np.int64), edges.dst_code.astype(np.int64)
        events = StreamEvents(*codes, ticks, own_values(edges, self._engine.own), categories)
        if not self._engine.takes_labels:
            return events, np.zeros(len(edges), bool), ticks
        late = self._model.label_ticks_
        known = edges.ticks if late is None else np.maximum(late, edges.ticks)
        known = rounded_up(known, edges.time_unit, self._engine.unit, self._engine.dtype)
        return events, edges.with_label(self._model.labels_).labelled, known

    def labels(self, edges: TemporalEdges) -> tuple[list[tuple[int, Any]], list[Any]]:
        """Position and label of the labelled edges, and when the labels became known."""
        if edges.label is None or not self._engine.takes_labels:
            return [], []
        at = np.flatnonzero(edges.labelled)
        known = rounded_up(edges.known_at[at], edges.time_unit, self._engine.unit, self._engine.dtype)
        return list(zip(at.tolist(), edges.label[at].tolist(), strict=True)), known.tolist()

    # ---- categories

    def forget_categories(self) -> None:
        """Forget categories of which nothing is left in the state."""
        for feature, numbers in enumerate(self._categories.values()):
            numbers.forget(self._engine.running.used_categories(feature, numbers.n_codes))

    def categories(self) -> dict[str, list[Any]]:
        """The categories of features that have many, with their codes, and the codes that are free."""
        return {name: [list(numbers.items()), numbers.free] for name, numbers in self._categories.items()}

    def restore_categories(self, categories: dict[str, list[Any]]) -> None:
        """Take over what `categories` returned."""
        for name, (codes, free) in categories.items():
            self._categories[name] = CategoryNumbers([(category, code) for category, code in codes], free)


class _Number(NamedTuple):
    """What a feature that is a number can be."""

    largest: float  # its largest absolute value: one wrong amount would stay in the means of its nodes for long
    is_boolean: bool  # the fitted edges have nothing but 0 and 1, so that true and false are values too

    @classmethod
    def of(cls, edges: TemporalEdges, name: str) -> _Number:
        x = raw_values(edges, name)
        x = x[np.isfinite(x)]
        return cls(float(np.abs(x).max(initial=LARGEST_AMOUNT)), bool(np.isin(x, (0.0, 1.0)).all()))

    def read(self, value: Any) -> float:
        """A value as a number."""
        if type(value) is float and abs(value) <= self.largest:
            return value
        if self.is_boolean and isinstance(value, bool | np.bool_):
            return float(value)
        number = _finite_number(value, "This must be a finite number.")
        if abs(number) > self.largest:
            raise _FaultError(f"This must be between -{self.largest:g} and {self.largest:g}.")
        return number


def _finite_number(value: Any, problem: str) -> float:
    """A finite number, or the text that writes one with the digits 0 to 9; else the problem. True is not a number."""
    is_other = not NUMBER.fullmatch(value) if isinstance(value, str) else isinstance(value, bool | np.bool_)
    try:
        number = math.nan if is_other else float(value)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if not math.isfinite(number):
        raise _FaultError(problem)
    return number


def _node(value: Any) -> Any:
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


# ---- what the records of the log say, and events as they are logged

EVENTS, LABELS, SETTINGS, TABLE, WITHDRAWAL, SWITCH, REVIEW, SHADOW = 1, 2, 3, 4, 5, 6, 7, 8  # kinds of records
RECORDS_IN_WORDS = {
    EVENTS: "events",
    LABELS: "labels",
    SETTINGS: "settings",
    TABLE: "events",
    WITHDRAWAL: "withdrawals",
    SWITCH: "models",
    REVIEW: "actions of reviewers",
    SHADOW: "challengers",
}
ALIAS = "@id"  # field of a logged event that is a fitted edge: the id that it came with

encode = json.JSONEncoder(separators=(",", ":")).encode


def decode(lines: Sequence[bytes]) -> list[Any]:
    """The values that `encode` wrote, one per line."""
    objects: list[Any] = json.loads(b"[" + b",".join(lines) + b"]")
    return objects


def events_payload(position: Any, lines: Sequence[bytes]) -> bytes:
    """The payload of a record of events, each of them as JSON, or of a table."""
    return b"\n".join([encode({"position": position}).encode(), *lines])


def labels_payload(labels: Sequence[Mapping[str, Any]]) -> bytes:
    """The payload of a record of labels."""
    return "\n".join(map(encode, labels)).encode()


def events_of(record: Record, unit: str | None) -> list[dict[str, Any]]:
    """The events of a record."""
    if record.kind not in (EVENTS, TABLE):
        return []
    events = logged_events(record.payload, unit, is_table=record.kind == TABLE)[1]
    return events if isinstance(events, list) else [events.content(k) for k in range(len(events.ids))]


def labels_of(record: Record) -> list[dict[str, Any]]:
    """The labels of a record."""
    return decode(record.payload.split(b"\n")) if record.kind == LABELS else []


def withdrawn_by(record: Record) -> list[Any]:
    """The ids of the events that a record withdraws."""
    return [one["id"] for one in decode(record.payload.split(b"\n"))] if record.kind == WITHDRAWAL else []


class Mappings:
    """Events as mappings, which the log holds as lines of JSON.

    given : as they were passed; contents : with the usual names and plain values.
    """

    def __init__(self, given: Sequence[Any], fields: Fields) -> None:
        self.given, self.fields = given, fields
        self.contents = [fields.event(event) for event in given]
        self.ids = [content.get("id") for content in self.contents]

    def content(self, k: int) -> dict[str, Any]:
        """An event with the usual names and plain values."""
        return self.contents[k]

    def change(self, k: int, **fields: Any) -> None:
        """Set fields of an event before it is logged, such as the id by which it is known."""
        self.contents[k] = {**self.contents[k], **fields}

    def ids_at(self, places: Sequence[int]) -> list[Any]:
        """The ids of some events."""
        return [self.contents[k]["id"] for k in places]

    def kept(self, places: Sequence[int]) -> list[Any]:
        """What is stored of some events, for `stored_content`."""
        return [encode(self.contents[k]).encode() for k in places]

    def payload(self, stored: list[Any]) -> list[bytes]:
        """The lines of a record of events of which this is stored."""
        return stored


class EventTable:
    """Events as columns by the usual names, with times in ticks, which the log holds as one object of lists.

    It has the methods of `Mappings`.
    """

    def __init__(self, columns: dict[str, list[Any]], unit: str | None) -> None:
        self.columns, self.unit = columns, unit
        self.ids = list(columns["id"])

    def content(self, k: int) -> dict[str, Any]:
        content = {name: column[k] for name, column in self.columns.items()}
        for name in ("time", "label_time"):
            if content.get(name) is not None:
                content[name] = time_as_json(content[name], self.unit)
        if content.get(ALIAS, 0) is None:
            del content[ALIAS]
        return content

    def change(self, k: int, **fields: Any) -> None:
        for name, value in fields.items():
            self.columns.setdefault(name, [None] * len(self.ids))[k] = value

    def ids_at(self, places: Sequence[int]) -> list[Any]:
        return [self.columns["id"][k] for k in places]

    def kept(self, places: Sequence[int]) -> list[Any]:
        part = self
        if len(places) < len(self.ids):
            part = EventTable({name: [column[k] for k in places] for name, column in self.columns.items()}, self.unit)
        return [(part, k) for k in range(len(places))]

    def payload(self, stored: list[Any]) -> list[bytes]:
        return [encode(stored[0][0].columns).encode()]


def stored_content(stored: Any) -> dict[str, Any]:
    """An event as it was logged, from what `kept` gave."""
    if isinstance(stored, bytes):
        content: dict[str, Any] = decode([stored])[0]
        return content
    table, k = stored
    return dict(table.content(k))


def stored_contents(stored: Sequence[Any]) -> list[dict[str, Any]]:
    """Events as they were logged, from what `kept` gave of them."""
    lines = iter(decode([one for one in stored if isinstance(one, bytes)]))
    return [next(lines) if isinstance(one, bytes) else one[0].content(one[1]) for one in stored]


def stored_fields(stored: Sequence[Any], names: Sequence[str]) -> dict[str, list[Any]]:
    """Fields of events, from what `kept` gave of them; None where one is missing."""
    if not names:
        return {}
    lines = iter(decode([one for one in stored if isinstance(one, bytes)]))
    rows = [next(lines) if isinstance(one, bytes) else one for one in stored]

    def value(row: Any, name: str) -> Any:
        if isinstance(row, dict):
            return row.get(name)
        column = row[0].columns.get(name)
        return None if column is None else column[row[1]]

    return {name: [value(row, name) for row in rows] for name in names}


def logged_events(payload: bytes, unit: str | None, *, is_table: bool) -> tuple[Any, list[dict[str, Any]] | EventTable]:
    """The position and the events of a record: mappings, or a table."""
    header, *lines = payload.split(b"\n")
    position, events = decode([header])[0]["position"], decode(lines)
    return position, EventTable(events[0], unit) if is_table else events
