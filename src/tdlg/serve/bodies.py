"""Bodies of requests as events: JSON, JSON lines, Arrow."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple, NoReturn

from tdlg.serve.arrow import read_arrow
from tdlg.serve.limits import Limits
from tdlg.serve.refusals import RefusedError

__all__ = ["ARROW", "JSON", "LINES", "Body", "Fault", "read_items"]

JSON = "application/json"
LINES = ("application/x-ndjson", "application/jsonlines", "application/jsonl")
ARROW = "application/vnd.apache.arrow.stream"
SHOWN = 80  # characters of a value in a message


class Fault(NamedTuple):
    """An item that cannot be read as an event, in the words of an event's error."""

    message: str
    field: str | None = None
    value: Any = None


class Body(NamedTuple):
    """What a request holds.

    Attributes
    ----------
    items
        The events or labels, and faults in the places of those that cannot be read.
    single
        Whether it was one object rather than a list: then the answer is one object too.
    lines
        Whether it was JSON lines: then the answer is JSON lines too.
    """

    items: list[Mapping[str, Any] | Fault]
    single: bool = False
    lines: bool = False


def read_items(body: bytes, media: str, limits: Limits, noun: str) -> Body:
    """Read the events or labels of a request.

    Parameters
    ----------
    body
        The bytes.
    media
        The header Content-Type.
    limits
        How many items are accepted.
    noun
        What an item is called: "event" or "label".
    """
    kind = media.partition(";")[0].strip().lower()
    if kind == JSON:
        found = _read_json(body, noun)
    elif kind in LINES:
        found = Body([_read_line(line, at, noun) for at, line in _lines(body)], lines=True)
    elif kind == ARROW:
        found = Body(list(read_arrow(body, limits)))
    else:
        known = ", ".join((JSON, LINES[0], ARROW))
        raise RefusedError(415, f"The Content-Type must be one of {known}. Got {kind or 'none'!r} instead.")
    if len(found.items) > limits.events:
        raise too_many(len(found.items), limits)
    return found


def too_many(n: int, limits: Limits) -> RefusedError:
    """The refusal of a request with more items than are accepted."""
    return RefusedError(413, f"A request may hold {limits.events} items. Got {n}: send them in parts.")


def _read_json(body: bytes, noun: str) -> Body:
    try:
        value = _parsed(body)
    except ValueError as error:
        raise RefusedError(
            400, f"The body is not JSON: {error}. For JSON lines, set Content-Type: {LINES[0]}."
        ) from None
    if isinstance(value, list):
        return Body([_checked(item, noun) for item in value])
    checked = _checked(value, noun)
    return Body([checked], single=True)


def _lines(body: bytes) -> list[tuple[int, bytes]]:
    """The lines that are not blank, with their numbers."""
    return [(at, line) for at, line in enumerate(body.split(b"\n"), 1) if line.strip()]


def _read_line(line: bytes, at: int, noun: str) -> Mapping[str, Any] | Fault:
    try:
        return _checked(_parsed(line), noun)
    except ValueError as error:
        return Fault(f"Line {at} is not JSON: {error}.", value=line[:SHOWN].decode(errors="replace"))


def _parsed(text: bytes) -> Any:
    try:
        return json.loads(text, parse_constant=_refuse_constant)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    except UnicodeDecodeError as error:
        raise ValueError(f"it is not UTF-8 at byte {error.start}") from None


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a value of JSON; leave the field out, or give null")


def _checked(item: Any, noun: str) -> Mapping[str, Any] | Fault:
    if isinstance(item, dict):
        return item
    return Fault(f"One {noun} is a JSON object. Got {json.dumps(item)[:SHOWN]} instead.", value=None)
