"""Arrow streams as events. What a small body could blow up to is checked before it is read."""

from __future__ import annotations

import io
import struct
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from tdlg.serve.limits import Limits
from tdlg.serve.refusals import RefusedError

if TYPE_CHECKING:
    import polars as pl

__all__ = ["read_arrow"]

CONTINUES = b"\xff\xff\xff\xff"
DICTIONARY, RECORDS = 2, 3  # kinds of messages
HEADER_TYPE, HEADER, BODY_LENGTH = 1, 2, 3  # fields of Message
DATA = 1  # field of DictionaryBatch
COMPRESSION = 3  # field of RecordBatch
PER_BYTE = 4  # how much longer text may be once it is repeated


def read_arrow(body: bytes, limits: Limits) -> list[dict[str, Any]]:
    """Read the rows of an Arrow IPC stream.

    Parameters
    ----------
    body
        The stream, not compressed.
    limits
        How many rows are accepted, and how much text.
    """
    import polars as pl

    try:
        _refuse_compressed(body)
        frame = pl.read_ipc_stream(io.BytesIO(body), n_rows=limits.events + 1)
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError, struct.error, IndexError) as error:
        why = f": {error}" if isinstance(error, pl.exceptions.PolarsError) else ""
        raise RefusedError(400, f"The body is not an Arrow IPC stream{why}.") from None
    if len(frame) > limits.events:
        raise RefusedError(413, f"A request may hold {limits.events} rows. Got more: send them in parts.")
    flat = _flat(frame, limits)
    try:
        return flat.to_dicts()
    except (ValueError, OverflowError) as error:  # a time that Python has no value for
        raise RefusedError(422, f"A value of the Arrow stream cannot be read: {error}.") from None


def _flat(frame: pl.DataFrame, limits: Limits) -> pl.DataFrame:
    """The columns, if all are flat; categories as text, which is not too long when it is repeated in each row."""
    import polars as pl

    nested = [name for name, kind in frame.schema.items() if kind.is_nested() or kind in (pl.Object, pl.Binary)]
    if nested:
        raise RefusedError(
            422,
            f"The column {nested[0]!r} holds {frame.schema[nested[0]]}: give numbers, text or times.",
            field=nested[0],
        )
    text = pl.col(pl.String, pl.Categorical, pl.Enum).cast(pl.String)
    longest = sum(column.str.len_bytes().sum() for column in frame.select(text).iter_columns())
    if longest > PER_BYTE * limits.body:
        raise RefusedError(413, f"The text of all rows has {longest} bytes, of at most {PER_BYTE * limits.body}.")
    return frame.with_columns(text)


# ---- what the messages of a stream say, in the layout of flatbuffers


def _refuse_compressed(body: bytes) -> None:
    for message in _messages(body):
        kind, table = _number(body, message, HEADER_TYPE, "B"), _table(body, message, HEADER)
        if kind == DICTIONARY:
            table = _table(body, table, DATA)
        if kind in (DICTIONARY, RECORDS) and _field(body, table, COMPRESSION):
            raise RefusedError(415, "The Arrow stream is compressed. Write it without compression.")


def _messages(body: bytes) -> Iterator[int]:
    """Where the table of each message starts."""
    at = 0
    while at < len(body):
        at += 4 if body[at : at + 4] == CONTINUES else 0
        (length,) = struct.unpack_from("<i", body, at)
        if length == 0:
            return
        start = at + 4
        message = start + struct.unpack_from("<I", body, start)[0]
        yield message
        at = start + length + _number(body, message, BODY_LENGTH, "q")
        if at <= start:
            raise struct.error("a message that ends before it starts")


def _field(body: bytes, table: int, field: int) -> int:
    """Where a field of a table is; 0 if it is absent."""
    entries = table - struct.unpack_from("<i", body, table)[0]
    if entries < 0 or 4 + 2 * field >= struct.unpack_from("<H", body, entries)[0]:
        return 0
    (offset,) = struct.unpack_from("<H", body, entries + 4 + 2 * field)
    return table + offset if offset else 0


def _number(body: bytes, table: int, field: int, code: str) -> int:
    at = _field(body, table, field)
    return int(struct.unpack_from(f"<{code}", body, at)[0]) if at else 0


def _table(body: bytes, table: int, field: int) -> int:
    at = _field(body, table, field)
    return at + int(struct.unpack_from("<I", body, at)[0]) if at else 0
