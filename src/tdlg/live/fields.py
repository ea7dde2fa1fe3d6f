"""Which fields of an event are its source, destination, time and so on, and events as plain JSON values."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import date, datetime
from typing import Any

import numpy as np

from tdlg.exceptions import ParameterError
from tdlg.io.columns import usual_at

__all__ = ["ROLES", "Fields", "absent", "decode", "encode", "plain"]

ROLES = ("id", "src", "dst", "time", "label", "label_time")
MOST_SHOWN = 5  # fields in a message
DETECTED = ("src", "dst", "time")
PLAIN = (str, int, float, bool, type(None))

encode = json.JSONEncoder(separators=(",", ":")).encode


def decode(lines: Sequence[bytes]) -> list[dict[str, Any]]:
    """The objects that `encode` wrote, one per line."""
    objects: list[dict[str, Any]] = json.loads(b"[" + b",".join(lines) + b"]")
    return objects


def plain(value: Any) -> Any:
    """A value that JSON can hold and gives back unchanged; datetimes as text.

    Examples
    --------
    >>> plain(np.int64(3)), plain(np.datetime64("2025-01-31")), plain("a")
    (3, '2025-01-31', 'a')
    """
    if type(value) in PLAIN:
        return value
    if isinstance(value, np.datetime64):
        return None if np.isnat(value) else str(value)
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, datetime | date):
        return value.isoformat()
    return value if isinstance(value, dict | list) else str(value)


def absent(
    event: Mapping[str, Any], fields: Mapping[str, str], used: Collection[str] = ROLES
) -> tuple[str, str] | None:
    """The first feature that an event has no field for, and what to do; None if it has a field for each of them.

    Parameters
    ----------
    event
        The event as it came.
    fields
        The field of each feature.
    used
        The fields that have another use.
    """
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
    """The names that events use for what a model needs.

    Parameters
    ----------
    columns
        The field of each role ("id", "src", "dst", "time", "label", "label_time") and of each feature. By default a role
        or a feature is in the field of its own name; src, dst and time are then also found by other common names.
    features
        The features of the fitted edges.
    needed
        Those of them that scores depend on; by default none.

    Examples
    --------
    >>> fields = Fields({"src": "customer", "amount": "EUR"}, ["amount"])
    >>> fields.event({"customer": "ann", "dst": "shop", "time": 5, "EUR": 9.5, "other": 1})
    {'src': 'ann', 'dst': 'shop', 'time': 5, 'amount': 9.5}
    """

    def __init__(
        self, columns: Mapping[str, str] | None, features: Iterable[str], needed: Collection[str] = ()
    ) -> None:
        self.columns = dict(columns or {})
        self._names = (*ROLES, *features)
        unknown = [name for name in self.columns if name not in self._names]
        if unknown:
            raise ParameterError(
                f"The 'columns' must name roles or features: {', '.join(self._names)}. Got {unknown[0]!r} instead.",
                "Pass columns={'src': 'customer', 'dst': 'terminal', 'time': 'when'}, for example.",
                parameter="columns",
            )
        strange = [field for field in self.columns.values() if not isinstance(field, str)]
        if strange:
            raise ParameterError(
                f"The 'columns' must give the name of a field for each role. Got {strange[0]!r} instead.",
                parameter="columns",
            )
        self._fields = [(name, self.columns.get(name, name)) for name in self._names]
        self._needed_fields = {name: field for name, field in self._fields if name in needed}

    def found_in(self, event: Mapping[str, Any]) -> Fields:
        """The same fields, with the names of src, dst and time that an event has in place of those that it lacks."""
        names = [str(name) for name in event]
        usual = {role: [names[k] for k in usual_at(names, role)] for role in DETECTED if role not in self.columns}
        found = {role: at[0] for role, at in usual.items() if role not in event and len(at) == 1}
        return Fields({**found, **self.columns}, self._names[len(ROLES) :], self._needed_fields) if found else self

    def event(self, given: Any) -> dict[str, Any]:
        """The event with the names and the plain values that the scorer takes.

        Fields that are not needed are left out, and features that it has no field for are missing.
        """
        if not isinstance(given, Mapping):
            return {}  # which lacks everything
        event = {name: plain(given[field]) for name, field in self._fields if field in given}
        event |= {name: None for name in self._needed_fields if name not in event}
        if "id" in event and (event["id"] == "" or event["id"] != event["id"]):
            event["id"] = None  # an empty cell of a table
        return event

    def absent(self, given: Any) -> tuple[str, str] | None:
        """The first feature that an event has no field for, and what to do; None if it has a field for each of them."""
        if not isinstance(given, Mapping):
            return None
        return absent(given, self._needed_fields, {field for _, field in self._fields} if self.columns else self._names)
