"""Bodies of requests to events and labels within limits, queries to values, and answers to JSON."""

from __future__ import annotations

import asyncio
import io
import json
import re
import struct
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn, TypeVar

import msgspec
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from tdlg.checks import check_count
from tdlg.exceptions import ParameterError
from tdlg.live.event import plain
from tdlg.serve.schema import ARROW, JSON, LINES, Problem, Refused, properties

if TYPE_CHECKING:
    import polars as pl

__all__ = ["Body", "Limits", "RefusedError", "answered", "as_json", "query_of", "read_items", "whole_body"]

SHOWN = 80  # characters of a value in a message
MOST_FAULTS = 100  # of a request that are described
NESTED_BYTES = 50  # of the largest request, for each list or object in it
PER_BYTE = 4  # how much longer text may be once it is repeated
CELL_BYTES = 4  # of a request, for each value of a table: what JSON needs at least

Query = TypeVar("Query", bound=msgspec.Struct)


@dataclass(frozen=True)
class Limits:
    """How much the service accepts at once; what is beyond is refused with a status that says so.

    Attributes
    ----------
    body
        Bytes of a request, 8 MiB by default: about 40,000 events as JSON.
    events
        Events or labels of a request. A turn of 10,000 events takes a fraction of a second, in which others wait.
    queue
        Events and labels that may wait for their turn; beyond it a request gets 429.
    batch
        Events and labels that are taken in one turn, with one sync of the log. A larger request is one turn of its own.
    questions
        Reasons that may be asked for at the same time; beyond it a request gets 503.
    desks
        Pages that may listen for changes at the same time.
    connections
        Connections that may be open at the same time, those of the desks included. One without a request is closed when
        another needs its place.
    seconds
        Time in which a request must have arrived whole.
    head_seconds
        Time in which the head of a request must have arrived, from the start of the connection or the first byte of it.
    """

    body: int = 8 << 20
    events: int = 10_000
    queue: int = 20_000
    batch: int = 2_000
    questions: int = 200
    desks: int = 32
    connections: int = 1_000
    seconds: int = 30
    head_seconds: int = 10

    def __post_init__(self) -> None:
        for field in fields(self):
            check_count("Limits", field.name, getattr(self, field.name), 1)
        if self.queue < self.events:
            raise ParameterError(
                f"The 'queue' parameter of Limits must be at least 'events', {self.events}: a larger request would never be "
                f"taken. Got {self.queue} instead.",
                f"Pass queue={self.events!r} or more.",
                parameter="queue",
            )


class RefusedError(Exception):
    """A request that is not answered: the status, what is wrong and what to do, and what it is about."""

    def __init__(
        self, status: int, message: str, headers: Mapping[str, str] | None = None, *, field: str | None = None
    ) -> None:
        super().__init__(message)
        self.status, self.headers = status, headers
        self.problem = Problem(message, field)


# ---- requests


class Body(NamedTuple):
    """The events or labels of a request, with refusals in the places of those that cannot be read; how to answer them."""

    items: list[Mapping[str, Any] | Refused]
    single: bool = False
    lines: bool = False


async def whole_body(request: Request, most: int, seconds: float) -> bytes:
    """The body of a request, which is refused if it has more bytes than `most` or is not complete after `seconds`."""
    parts, size = [], 0
    too_large = RefusedError(413, f"A request may have {most} bytes. Send the items in parts.")
    declared = request.headers.get("content-length", "0")
    if declared.isdecimal() and int(declared) > most:
        raise too_large
    try:
        async with asyncio.timeout(seconds):
            async for part in request.stream():
                size += len(part)
                if size > most:
                    raise too_large
                parts.append(part)
    except TimeoutError:
        raise RefusedError(408, f"The request was not complete after {seconds} seconds.") from None
    except ClientDisconnect:
        raise RefusedError(400, "The request was not complete.") from None
    return parts[0] if len(parts) == 1 else b"".join(parts)


def query_of(request: Request, kind: type[Query]) -> Query:
    """The query of a request as a type of the schema, which says what may be asked."""
    given = dict(request.query_params)
    try:
        return msgspec.convert(given, kind, strict=False)
    except msgspec.ValidationError as error:
        found = re.search(r"`(?:\$\.)?(\w+)`$", str(error))
        name = found[1] if found else ""
    known = properties(kind).get(name, {})
    if "minimum" in known:
        allowed = f"a whole number from {known['minimum']} to {known['maximum']}"
    else:
        allowed = f"one of {', '.join(known['enum'])}" if "enum" in known else f"given: ?{name}={name.upper()}"
    got = f" Got {given[name][:SHOWN]!r} instead." if given.get(name) else ""
    raise RefusedError(422, f"The {name!r} must be {allowed}.{got}", field=name)


def read_items(body: bytes, media: str, limits: Limits, noun: str) -> Body:
    """Read the events or labels (`noun`) of a request whose header Content-Type is `media`."""
    kind = media.partition(";")[0].strip().lower()
    if kind == ARROW:
        return Body([*read_arrow(body, limits)])
    if kind != JSON and kind not in LINES:
        known = ", ".join((JSON, LINES[0], ARROW))
        raise RefusedError(415, f"The Content-Type must be one of {known}. Got {kind or 'none'!r} instead.")
    most = limits.body // NESTED_BYTES
    if body.count(b"[") + body.count(b"{") > most:
        raise RefusedError(413, f"A request may hold {most} lists and objects. Send the items in parts.")
    if kind in LINES:
        return Body(_described(_read_lines(body, limits), noun), lines=True)
    try:
        value = _json_of(body)
    except ValueError as error:
        raise RefusedError(
            400, f"The body is not JSON: {error}. For JSON lines, set Content-Type: {LINES[0]}."
        ) from None
    if not isinstance(value, list):
        return Body(_described([value], noun), single=True)
    _check_count(len(value), limits)
    return Body(_described(value, noun))


def _check_count(n: int, limits: Limits) -> None:
    if n > limits.events:
        raise RefusedError(413, f"A request may hold {limits.events} items. Got {n}: send them in parts.")


class _BadLine(NamedTuple):
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
        return _json_of(line)
    except ValueError as error:
        return _BadLine(at, line, error)


def _json_of(text: bytes) -> Any:
    """A value of JSON. What msgspec refuses, the standard library reads: halves of characters, or says where it is wrong."""
    with suppress(msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return msgspec.json.decode(text)
    try:
        return json.loads(text, parse_constant=_refuse_constant)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    except UnicodeDecodeError as error:
        raise ValueError(f"it is not UTF-8 at byte {error.start}") from None


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a value of JSON; leave the field out, or give null")


def _described(values: list[Any], noun: str) -> list[Mapping[str, Any] | Refused]:
    """The objects among values, and refusals in the places of all others: the first of them say what was found."""
    words = f"This {noun} cannot be read. Only the first {MOST_FAULTS} faults of a request are described."
    other = Refused(error=Problem(words))
    items: list[Mapping[str, Any] | Refused] = []
    n_faults = 0
    for value in values:
        if isinstance(value, dict):
            items.append(value)
        else:
            n_faults += 1
            items.append(Refused(error=_item_problem(value, noun)) if n_faults <= MOST_FAULTS else other)
    return items


def _item_problem(value: Any, noun: str) -> Problem:
    if isinstance(value, _BadLine):
        shown = value.line[:SHOWN].decode(errors="replace")
        return Problem(f"Line {value.at} is not JSON: {value.error}.", value=shown)
    return Problem(f"One {noun} is a JSON object. Got {json.dumps(value)[:SHOWN]} instead.")


# ---- Arrow streams. What a small body could blow up to is checked before it is read


def read_arrow(body: bytes, limits: Limits) -> list[dict[str, Any]]:
    """The rows of an Arrow IPC stream that is not compressed."""
    import polars as pl

    try:
        if any(_is_compressed(body, message) for message in _messages(body)):
            raise RefusedError(415, "The Arrow stream is compressed. Write it without compression.")
        frame = pl.read_ipc_stream(io.BytesIO(body), n_rows=limits.events + 1)
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError, struct.error, IndexError) as error:
        why = f": {error}" if isinstance(error, pl.exceptions.PolarsError) else ""
        raise RefusedError(400, f"The body is not an Arrow IPC stream{why}.") from None
    if len(frame) > limits.events:
        raise RefusedError(413, f"A request may hold {limits.events} rows. Got more: send them in parts.")
    flat = _flat_columns(frame, limits)
    try:
        return flat.to_dicts()
    except (ValueError, OverflowError, pl.exceptions.PanicException) as error:  # a time that Python has no value for
        raise RefusedError(422, f"A value of the Arrow stream cannot be read: {error}.") from None


def _flat_columns(frame: pl.DataFrame, limits: Limits) -> pl.DataFrame:
    """The columns, if all are flat; categories as text, which is not too long when it is repeated in each row."""
    import polars as pl

    nested = [name for name, kind in frame.schema.items() if kind.is_nested() or kind in (pl.Object, pl.Binary)]
    if nested:
        message = f"The column {nested[0]!r} holds {frame.schema[nested[0]]}: give numbers, text or times."
        raise RefusedError(422, message, field=nested[0])
    cells, most = frame.height * frame.width, limits.body // CELL_BYTES
    if cells > most:
        raise RefusedError(413, f"{frame.height} rows of {frame.width} columns are {cells} values, of at most {most}.")
    text = pl.col(pl.String, pl.Categorical, pl.Enum).cast(pl.String)
    longest = sum(column.str.len_bytes().sum() for column in frame.select(text).iter_columns())
    if longest > PER_BYTE * limits.body:
        raise RefusedError(413, f"The text of all rows has {longest} bytes, of at most {PER_BYTE * limits.body}.")
    return frame.with_columns(text)


def _messages(body: bytes) -> Iterator[int]:
    """Where the table of each message starts, in the layout of flatbuffers."""
    at = 0
    while at < len(body):
        at += 4 if body[at : at + 4] == b"\xff\xff\xff\xff" else 0
        (length,) = struct.unpack_from("<i", body, at)
        if length == 0:
            return
        start = at + 4
        message = start + struct.unpack_from("<I", body, start)[0]
        yield message
        size = _field(body, message, 3)  # of the buffers behind it
        at = start + length + (struct.unpack_from("<q", body, size)[0] if size else 0)
        if at <= start:
            raise struct.error("a message that ends before it starts")


def _is_compressed(body: bytes, message: int) -> bool:
    """Whether a message holds a batch of records, or one of a dictionary, whose buffers are compressed."""
    kind, table = _field(body, message, 1), _nested_table(body, message, 2)
    name = body[kind] if kind else 0
    if name == 2:  # a dictionary
        table = _nested_table(body, table, 1)
    return name in (2, 3) and _field(body, table, 3) > 0


def _field(body: bytes, table: int, field: int) -> int:
    """Where a field of a table is; 0 if it is absent."""
    entries = table - struct.unpack_from("<i", body, table)[0]
    if entries < 0 or 4 + 2 * field >= struct.unpack_from("<H", body, entries)[0]:
        return 0
    (offset,) = struct.unpack_from("<H", body, entries + 4 + 2 * field)
    return table + offset if offset else 0


def _nested_table(body: bytes, table: int, field: int) -> int:
    at = _field(body, table, field)
    return at + int(struct.unpack_from("<I", body, at)[0]) if at else 0


# ---- answers

LARGEST_INTEGER = 2**53 - 1  # whole number that a browser holds exactly
LARGE = re.compile(rb"(?:^|[:,\[])-?[0-9]{16,}")  # what may be a larger one
ENCODER = msgspec.json.Encoder(enc_hook=plain)


def answered(value: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """A response with a value as JSON."""
    return Response(as_json(value), status, headers, media_type=JSON)


def as_json(value: Any) -> bytes:
    """JSON of an answer; numbers that JSON lacks are null, and whole numbers that a browser would round are text."""
    with suppress(UnicodeEncodeError):  # half of a character, which the standard library writes as \\ud800
        text = ENCODER.encode(value)
        if LARGE.search(text) is None:
            return text
    exact = _exact(msgspec.to_builtins(value, enc_hook=plain))
    return json.dumps(exact, allow_nan=False, separators=(",", ":")).encode()


def _exact(value: Any) -> Any:
    """The same with None in place of NaN and infinity, and text in place of large whole numbers, however deep."""
    if isinstance(value, float):
        return value if value - value == 0 else None
    if isinstance(value, dict):
        return {key: _exact(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_exact(item) for item in value]
    return str(value) if isinstance(value, int) and abs(value) > LARGEST_INTEGER else value
