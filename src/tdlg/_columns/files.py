"""Files as tables whose columns are read when wanted: csv text of any separator, with or without header."""

from __future__ import annotations

import csv
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import median_low
from typing import TYPE_CHECKING, Any

import numpy as np

from tdlg.exceptions import ReadError

if TYPE_CHECKING:
    import polars as pl

__all__ = ["Source", "csv_source"]

SEPARATORS = ("\t", ";", "|", ",", " ")  # a comma may be a decimal point, a blank may be inside a date
MISSING_WORDS = ("na", "nan", "null", "none", "n/a")
NOT_A_NUMBER = r"^[+-]?0\d|^[+-]?\d{20}"  # 007 is a code, and more digits than int64 has an id
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
    text = text[re.match(rb"(?:[#%].*(?:\n|$)|[ \t\r]*\n)*", text).end() :]  # type: ignore[union-attr]
    if any(sign in text for sign in (b"\n#", b"\n%")):
        text = re.sub(rb"\n[#%].*", b"", text)
    if any(sign in text for sign in (b"\n\n", b"\n\r", b"\n ", b"\n\t")):  # looking is faster than replacing
        text = re.sub(rb"\n[ \t\r]*(?=\n)", b"", text)
    text = text.rstrip(b"\r\n") + b"\n" if text.strip() else b""
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
        raise ReadError(f"{path}: the .gz file is truncated or damaged ({error}). Download it again.") from None


def _decoded(lines: list[bytes], path: Path) -> list[str]:
    try:
        decoded = [line.rstrip(b"\r").decode() for line in lines if line]
    except UnicodeDecodeError as error:
        raise _not_utf8(path, error) from None
    if any("\0" in line for line in decoded):
        raise ReadError(f"{path}: this is no text. Unpack it, or save it as csv in UTF-8 or as parquet.")
    return decoded


def _not_utf8(path: Path, error: Exception) -> ReadError:
    return ReadError(f"{path}: the text is not UTF-8 ({error}). Save it in UTF-8, or pass a dataframe to from_frame.")


def _checked_separator(separator: str) -> str:
    if separator in (r"\s+", r"\s"):
        return " "
    if len(separator.encode()) != 1:
        raise ReadError(f"The 'separator' must be one character, or ' ' for runs of blanks. Got {separator!r} instead.")
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
    number_or_date = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$|\d{1,4}[-/.]\d{1,2}[-/.]\d{1,4}|nan$", re.I)
    return not any(number_or_date.match(field) for field in fields)


def _single_blanks(text: bytes) -> bytes:
    """Runs of blanks and tabs to one blank, none at either end of a line; most files need no change."""
    if b"\t" in text or b"  " in text:
        text = re.sub(rb"[ \t]+", b" ", text)
    if text[:1] == b" " or b"\n " in text or b" \n" in text or b" \r" in text or text.endswith(b" "):
        text = re.sub(rb"(?m)^ | (?=\r?$)", b"", text)
    return text


def _read_columns(body: bytes, separator: str, n_columns: int, positions: list[int], path: Path) -> dict[int, Any]:
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
        raise _bad_line(body, separator, n_columns, path, error) from None
    ends = separator.encode()
    n_empty = body.count(ends + b"\n") + body.count(ends + b"\r\n") + body.endswith((ends, ends + b"\r"))
    if frame[names[last]].null_count() > n_empty:  # a null that is no empty field: the line was too short
        raise _bad_line(body, separator, n_columns, path, None)
    return {position: _typed(frame[names[position]]) for position in positions}


def _bad_line(body: bytes, separator: str, n_columns: int, path: Path, error: Exception | None) -> ReadError:
    """Look for the line that has too many or too few fields, to show it."""
    try:
        lines = body.decode().splitlines()
    except UnicodeDecodeError as not_utf8:
        return _not_utf8(path, not_utf8)
    for row, fields in enumerate(csv.reader(lines, delimiter=separator)):
        if len(fields) != n_columns:
            return ReadError(
                f"{path}: data row {row + 1} has {len(fields)} fields, the first line has {n_columns}: "
                f"{separator.join(fields)!r}. Correct that row, or pass the right separator=."
            )
    return ReadError(f"{path}: the file cannot be read as csv ({error}). Check its quotes and separator=.")


def _typed(text: pl.Series) -> pl.Series:
    """Text as integers, floats or booleans where all of it is, else as it is; empty is missing."""
    import polars as pl

    text = text.str.strip_chars()
    missing = text.is_null() | (text == "")
    plain = pl.select(pl.when(~missing).then(text)).to_series()
    numbers = None if plain.str.contains(NOT_A_NUMBER).any() else _numbers(plain)
    if numbers is not None:
        return numbers
    truth = plain.str.to_lowercase()
    if len(plain) and truth.is_in(["true", "false"]).all() and not truth.null_count():
        return truth == "true"
    return plain


def _numbers(text: pl.Series) -> pl.Series | None:
    """Integers or floats if all of the text is numbers or words for a missing one."""
    import polars as pl

    for dtype in (pl.Int64, pl.Float64):
        numbers = text.cast(dtype, strict=False)
        failed = text.filter(numbers.is_null() & text.is_not_null())
        if failed.str.to_lowercase().is_in(MISSING_WORDS).all() and len(failed) < len(text):
            return numbers
        if failed.str.contains(r"^[+-]?\d{19}$").any():  # beyond int64: floats would take two ids for one
            return None
    return None
