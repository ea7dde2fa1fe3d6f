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
MOST_FAULTS = 100  # of a request that are described


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
        return _read_json(body, limits, noun)
    if kind in LINES:
        return Body(_described(_read_lines(body, limits), noun), lines=True)
    if kind == ARROW:
        return Body(list(read_arrow(body, limits)))
    known = ", ".join((JSON, LINES[0], ARROW))
    raise RefusedError(415, f"The Content-Type must be one of {known}. Got {kind or 'none'!r} instead.")


def _check_count(n: int, limits: Limits) -> None:
    if n > limits.events:
        raise RefusedError(413, f"A request may hold {limits.events} items. Got {n}: send them in parts.")


def _read_json(body: bytes, limits: Limits, noun: str) -> Body:
    try:
        value = _parsed(body)
    except ValueError as error:
        raise RefusedError(
            400, f"The body is not JSON: {error}. For JSON lines, set Content-Type: {LINES[0]}."
        ) from None
    if not isinstance(value, list):
        return Body(_described([value], noun), single=True)
    _check_count(len(value), limits)
    return Body(_described(value, noun))


class _BadLine(NamedTuple):
    """A line that is not JSON."""

    at: int
    line: bytes
    error: ValueError


def _read_lines(body: bytes, limits: Limits) -> list[Any]:
    """The values of the lines that are not blank."""
    n = body.count(b"\n")
    if n > 2 * limits.events:  # far too many, even if every other line were blank: they need not be cut apart to say so
        _check_count(n, limits)
    lines = [(at, line) for at, line in enumerate(body.split(b"\n"), 1) if line.strip()]
    _check_count(len(lines), limits)
    return [_read_line(at, line) for at, line in lines]


def _read_line(at: int, line: bytes) -> Any:
    try:
        return _parsed(line)
    except ValueError as error:
        return _BadLine(at, line, error)


def _parsed(text: bytes) -> Any:
    try:
        return json.loads(text, parse_constant=_refuse_constant)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    except UnicodeDecodeError as error:
        raise ValueError(f"it is not UTF-8 at byte {error.start}") from None


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a value of JSON; leave the field out, or give null")


def _described(values: list[Any], noun: str) -> list[Mapping[str, Any] | Fault]:
    """The objects among values, and faults in the places of all others: the first of them say what was found."""
    other = Fault(f"This {noun} cannot be read. Only the first {MOST_FAULTS} faults of a request are described.")
    items: list[Mapping[str, Any] | Fault] = []
    n_faults = 0
    for value in values:
        if isinstance(value, dict):
            items.append(value)
        else:
            n_faults += 1
            items.append(_fault(value, noun) if n_faults <= MOST_FAULTS else other)
    return items


def _fault(value: Any, noun: str) -> Fault:
    if isinstance(value, _BadLine):
        return Fault(f"Line {value.at} is not JSON: {value.error}.", value=value.line[:SHOWN].decode(errors="replace"))
    return Fault(f"One {noun} is a JSON object. Got {json.dumps(value)[:SHOWN]} instead.")
