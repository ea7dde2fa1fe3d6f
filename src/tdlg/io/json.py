"""JSON lines as tables: one object per line, whose keys are the names of the columns.

They are read with Python's own parser. That of polars is faster, but changes values without a word, even where it looks at
all lines first (seen with polars 2.1): 1 beside "x" becomes "1", keys of one object are added to others, and half of a
character becomes a zero byte. It refuses NaN, Infinity, and true in a column with 1.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import chain
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tdlg.exceptions import ReadError
from tdlg.io.columns import Source, agreed
from tdlg.io.files import text_bytes
from tdlg.tables.text import typed

if TYPE_CHECKING:
    import polars as pl

LINES_AT_ONCE = 5000  # lines that are parsed together, which is faster than one by one
CONSTANTS = {"NaN": None, "Infinity": inf, "-Infinity": -inf}  # not valid JSON, but Python writes them
SHOWN = 80  # maximum number of characters of a line in a message


def jsonl_source(path: Path) -> Source:
    """Read the objects of a file, and their columns on demand; see `tdlg.io.read_edges`."""
    table = _table(text_bytes(path), path)
    columns = list(table.values())

    def read(positions: list[int], alike: set[int], as_is: set[int]) -> dict[int, Any]:
        found = {k: _column(columns[k]) for k in positions}
        mixed = {k for k in positions if str(found[k].dtype) == "Object" and not {dict, list} & _types(columns[k])}
        found |= {k: typed(_text(columns[k])) for k in mixed - as_is}  # several types are read like a csv file
        return agreed(found, alike, lambda k: found[k] if {dict, list} & _types(columns[k]) else _text(columns[k]))

    return Source(str(path), list(table), True, [], read)


# ---- lines to values


def _table(text: bytes, path: Path) -> dict[str, list[Any]]:
    """The values of each key in the order of the lines, None if a line lacks the key."""
    table: dict[str, list[Any]] = {}
    n_rows = 0
    for rows in _chunks(text.split(b"\n"), path):
        for name in dict.fromkeys(chain.from_iterable(rows)):
            table.setdefault(name, [None] * n_rows)
        for name, column in table.items():
            column.extend([row.get(name) for row in rows])
        n_rows += len(rows)
    if not n_rows:
        raise ReadError(f"{path}: the file has no rows. Check that it was written or downloaded in full.")
    return table


def _chunks(lines: list[bytes], path: Path) -> Iterator[list[dict[str, Any]]]:
    for start in range(0, len(lines), LINES_AT_ONCE):
        chunk = lines[start : start + LINES_AT_ONCE]
        written = [line for line in chunk if line.strip()]
        held = _parsed(b"[[" + b"],[".join(written) + b"]]")
        is_whole = isinstance(held, list) and len(held) == max(len(written), 1)  # False if a line contains "],["
        if is_whole and all(len(row) == 1 and isinstance(row[0], dict) for row in held):
            yield [row[0] for row in held]
        else:
            yield [_row(line, start + k, path) for k, line in enumerate(chunk, 1) if line.strip()]


def _row(line: bytes, number: int, path: Path) -> dict[str, Any]:
    row = _parsed(line)
    if isinstance(row, dict):
        return row
    text = line.decode(errors="replace").strip()
    shown = text if len(text) <= SHOWN else text[: SHOWN - 3] + "..."
    why = f" ({getattr(row, 'msg', row)})" if isinstance(row, Exception) else ""
    array = " An array of objects must be split into lines first." if shown.startswith("[") else ""
    raise ReadError(
        f"{path}: line {number} is not a JSON object: {shown!r}{why}. Write one object per line, in UTF-8 and without "
        f"commas between them.{array}"
    )


def _parsed(text: bytes) -> Any:
    """The value, or the error."""
    try:
        return json.loads(text, parse_constant=CONSTANTS.__getitem__)
    except (ValueError, RecursionError) as error:
        return error


# ---- values to columns


def _column(values: list[Any]) -> pl.Series:
    """The values as a column of their type; several types, and integers beyond int64, as objects."""
    import polars as pl

    types = _types(values)
    if types == {str}:
        return _text(values)
    if types == {int} and max(abs(value) for value in values if value is not None) < 2**63:
        return pl.Series(values, dtype=pl.Int64)
    if types in ({float}, {int, float}):
        return pl.Series(values, dtype=pl.Float64, strict=False)
    return pl.Series(values, dtype=pl.Object if types - {bool} else pl.Boolean)


def _types(values: list[Any]) -> set[type]:
    return set(map(type, values)) - {type(None)}


def _text(values: list[Any]) -> pl.Series:
    """The values as they are written."""
    import polars as pl

    texts = [value if value is None or isinstance(value, str) else json.dumps(value) for value in values]
    try:
        return pl.Series(texts, dtype=pl.String)
    except UnicodeEncodeError:  # half of a character, for example in truncated text
        whole = [text if text is None else text.encode(errors="replace").decode() for text in texts]
        return pl.Series(whole, dtype=pl.String)
