"""Files as tables whose columns are read when wanted: csv text of any separator, with or without header."""

from __future__ import annotations

import csv
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import median_low
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from tdlg.exceptions import ReadError

if TYPE_CHECKING:
    import polars as pl

__all__ = ["Source", "csv_source"]

SEPARATORS = ("\t", ";", "|", ",", " ")  # a comma may be a decimal point, a blank may be inside a date
MISSING_WORDS = ("na", "nan", "null", "none", "n/a")
SAMPLE_LINES = 50


@dataclass(frozen=True)
class Source:
    """A table whose columns are read only when it is known which are wanted."""

    origin: str
    names: list[str]
    has_names: bool
    first_row: list[str]
    read: Callable[[list[int]], dict[int, Any]]


def csv_source(path: Path, separator: str | None, header: bool | None) -> Source:
    """Look at the first lines of a csv file for its separator and names; see `tdlg.io.read_edges`."""
    text = _text(path)
    lines = _decoded(text.split(b"\n", SAMPLE_LINES)[:SAMPLE_LINES], path)
    separator = _found_separator(lines, path) if separator is None else _checked_separator(separator)
    if separator == " ":
        text = _single_blanks(text)
    first = _fields(lines[0], separator)
    if len(first) == 1:
        raise ReadError(
            f"{path}: only one column found with separator={separator!r}; the first line is {lines[0]!r}. "
            f"Pass the right separator=."
        )
    has_names = _looks_like_names(first) if header is None else header
    body = text.partition(b"\n")[2] if has_names else text
    names = first if has_names else [str(k) for k in range(len(first))]

    def read(positions: list[int]) -> dict[int, Any]:
        return _read_columns(body, separator, len(first), positions, path)

    return Source(str(path), names, has_names, first, read)


def _text(path: Path) -> bytes:
    """The file's bytes without byte order mark, comments and blank lines."""
    text = _unpacked(path).removeprefix(b"\xef\xbb\xbf")
    if text[:1] in (b"#", b"%") or b"\n#" in text or b"\n%" in text:
        text = re.sub(rb"(?m)^[#%].*\n?", b"", text)
    if re.search(rb"(?m)^[ \t]*\r?$", text):
        text = re.sub(rb"(?m)^[ \t]*\r?(?:\n|\Z)", b"", text)
    if not text:
        raise ReadError(f"{path}: the file has no rows. Check that it was written or downloaded in full.")
    return text


def _unpacked(path: Path) -> bytes:
    import gzip
    import zlib

    data = path.read_bytes()
    if data[:2] != b"\x1f\x8b":
        return data
    try:
        return gzip.decompress(data)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise ReadError(
            f"{path}: the .gz file is truncated or damaged ({error}). Download it again."
        ) from None


def _decoded(lines: list[bytes], path: Path) -> list[str]:
    try:
        decoded = [line.rstrip(b"\r").decode() for line in lines if line]
    except UnicodeDecodeError as error:
        raise _not_utf8(path, error) from None
    if any("\0" in line for line in decoded):
        raise ReadError(f"{path}: this is no text. Unpack it, or save it as csv in UTF-8 or as parquet.")
    return decoded


def _not_utf8(path: Path, error: Exception) -> ReadError:
    return ReadError(
        f"{path}: the text is not UTF-8 ({error}). Save it in UTF-8, or pass a dataframe to from_frame."
    )


def _checked_separator(separator: str) -> str:
    if separator in (r"\s+", r"\s"):
        return " "
    if len(separator.encode()) != 1:
        raise ReadError(
            f"The 'separator' must be one character, or ' ' for runs of blanks. Got {separator!r} instead."
        )
    return separator


def _fields(line: str, separator: str) -> list[str]:
    if separator == " ":
        line = re.sub(r"[ \t]+", " ", line.strip())
    return [field.strip() for field in next(csv.reader([line], delimiter=separator), [])]


def _found_separator(lines: list[str], path: Path) -> str:
    """The first that splits all sample lines into as many fields, at least 3; else most lines, at least 2."""
    counts = {separator: [len(_fields(line, separator)) for line in lines] for separator in SEPARATORS}
    for separator, found in counts.items():
        if min(found) == max(found) >= 3:
            return separator
    for least in (3, 2):
        for separator, found in counts.items():
            if median_low(found) >= least:
                return separator
    raise ReadError(f"{path}: only one column found; the first line is {lines[0]!r}. Pass separator=.")


def _looks_like_names(fields: list[str]) -> bool:
    number_or_date = re.compile(
        r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$|\d{1,4}[-/.]\d{1,2}[-/.]\d{1,4}|nan$", re.I
    )
    return not any(number_or_date.match(field) for field in fields)


def _single_blanks(text: bytes) -> bytes:
    """Runs of blanks and tabs to one blank, none at either end of a line; most files need no change."""
    if b"\t" in text or b"  " in text:
        text = re.sub(rb"[ \t]+", b" ", text)
    if text[:1] == b" " or b"\n " in text or b" \n" in text or b" \r" in text or text.endswith(b" "):
        text = re.sub(rb"(?m)^ | (?=\r?$)", b"", text)
    return text


def _read_columns(
    body: bytes, separator: str, n_columns: int, positions: list[int], path: Path
) -> dict[int, Any]:
    import polars as pl

    names = [f"column_{k}" for k in range(n_columns)]
    last = n_columns - 1
    if not body:
        return {position: np.empty(0, np.int64) for position in positions}
    try:
        frame = pl.read_csv(
            body,
            has_header=False,
            separator=separator,
            schema=dict.fromkeys(names, pl.String),
            columns=[names[position] for position in sorted({*positions, last})],
        )
    except pl.exceptions.PolarsError as error:
        _fail_at_line(body, separator, n_columns, path, error)
    ends = separator.encode()
    n_empty = body.count(ends + b"\n") + body.count(ends + b"\r\n") + body.endswith((ends, ends + b"\r"))
    if frame[names[last]].null_count() > n_empty:  # a null that is no empty field: the line was too short
        _fail_at_line(body, separator, n_columns, path, None)
    return {position: _typed(frame[names[position]]) for position in positions}


def _fail_at_line(
    body: bytes, separator: str, n_columns: int, path: Path, error: Exception | None
) -> NoReturn:
    """Look for the line that has too many or too few fields, to show it."""
    try:
        lines = body.decode().splitlines()
    except UnicodeDecodeError as not_utf8:
        raise _not_utf8(path, not_utf8) from None
    for row, fields in enumerate(csv.reader(lines, delimiter=separator)):
        if len(fields) != n_columns:
            raise ReadError(
                f"{path}: data row {row + 1} has {len(fields)} fields, the first line has {n_columns}: "
                f"{separator.join(fields)!r}. Correct that row, or pass the right separator=."
            )
    raise ReadError(f"{path}: the file cannot be read as csv ({error}). Check its quotes and separator=.")


def _typed(text: pl.Series) -> pl.Series:
    """Text as integers, floats or booleans where all of it is, else as it is; empty is missing."""
    import polars as pl

    text = text.str.strip_chars()
    missing = text.is_null() | (text == "")
    plain = pl.select(pl.when(~missing).then(text)).to_series()
    if not text.str.contains(r"^[+-]?0\d").any():  # 007 is a code, not a number
        for dtype in (pl.Int64, pl.Float64):
            numbers = plain.cast(dtype, strict=False)
            failed = plain.filter(numbers.is_null() & plain.is_not_null())
            if failed.str.to_lowercase().is_in(MISSING_WORDS).all() and len(failed) < len(plain):
                return numbers
    truth = plain.str.to_lowercase()
    if len(plain) and truth.is_in(["true", "false"]).all() and not truth.null_count():
        return truth == "true"
    return plain
