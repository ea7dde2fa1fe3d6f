"""What the records of the log say, and events as they are logged."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from tdlg.live.event import Fields
from tdlg.live.log import Record
from tdlg.live.outcome import time_as_json

__all__ = ["Mappings", "Table", "decode", "encode"]

EVENTS, LABELS, SETTINGS, TABLE, WITHDRAWAL, SWITCH = 1, 2, 3, 4, 5, 6  # kinds of records
RECORDS_IN_WORDS = {
    EVENTS: "events",
    LABELS: "labels",
    SETTINGS: "settings",
    TABLE: "events",
    WITHDRAWAL: "withdrawals",
    SWITCH: "models",
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


class Table:
    """Events as columns by the usual names, with times in ticks, which the log holds as one object of lists.

    It has the methods of `Mappings`.
    """

    def __init__(self, columns: dict[str, list[Any]], unit: str | None) -> None:
        self.columns, self.unit = columns, unit
        self.ids = list(columns["id"])

    def content(self, k: int) -> dict[str, Any]:  # noqa: D102
        content = {name: column[k] for name, column in self.columns.items()}
        for name in ("time", "label_time"):
            if content.get(name) is not None:
                content[name] = time_as_json(content[name], self.unit)
        if content.get(ALIAS, 0) is None:
            del content[ALIAS]
        return content

    def change(self, k: int, **fields: Any) -> None:  # noqa: D102
        for name, value in fields.items():
            self.columns.setdefault(name, [None] * len(self.ids))[k] = value

    def ids_at(self, places: Sequence[int]) -> list[Any]:  # noqa: D102
        return [self.columns["id"][k] for k in places]

    def kept(self, places: Sequence[int]) -> list[Any]:  # noqa: D102
        part = self
        if len(places) < len(self.ids):
            part = Table({name: [column[k] for k in places] for name, column in self.columns.items()}, self.unit)
        return [(part, k) for k in range(len(places))]

    def payload(self, stored: list[Any]) -> list[bytes]:  # noqa: D102
        return [encode(stored[0][0].columns).encode()]


def stored_content(stored: Any) -> dict[str, Any]:
    """An event as it was logged, from what `kept` gave."""
    if isinstance(stored, bytes):
        content: dict[str, Any] = decode([stored])[0]
        return content
    table, k = stored
    return dict(table.content(k))


def logged_events(payload: bytes, unit: str | None, *, is_table: bool) -> tuple[Any, list[dict[str, Any]] | Table]:
    """The position and the events of a record: mappings, or a table."""
    header, *lines = payload.split(b"\n")
    position, events = decode([header])[0]["position"], decode(lines)
    return position, Table(events[0], unit) if is_table else events
