"""csv files as tables whose columns are read on demand: any separator, with or without header."""

from __future__ import annotations

import csv
import gzip
import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path
from statistics import median_low
from tempfile import TemporaryDirectory
from typing import IO, TYPE_CHECKING, Any, cast

import numpy as np

from tdlg.atomic import as_path
from tdlg.exceptions import ReadError, warn
from tdlg.io.columns import Source, agreed
from tdlg.io.files import GZIP, check_path, is_csv, text_bytes
from tdlg.tables.text import MISSING_WORDS, typed
from tdlg.tables.times import has_time

if TYPE_CHECKING:
    import polars as pl

SEPARATORS = ("\t", ";", "|", ",", "::", " ")
SURE_SEPARATORS = ("\t", ";", "|", "::")  # a comma may be a decimal comma, a blank may be part of a name or a date
STAND_IN = "\x1f"  # replaces a separator of several characters: polars and csv support only one
NUMBER_OR_DATE = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$|\d{1,4}[-/.]\d{1,2}[-/.]\d{1,4}|[+-]?inf$", re.I)
COMMENT_OR_QUOTED = re.compile(rb'("[^"]*")|(?<=[\r\n])([#%][^\r\n]*)(?:\r\n?|\n|\Z)')
BLANKS = " \t\u00a0"  # removed around a value; a line break in quotes is part of the value
SAMPLE_LINES = 50
START = 1 << 20  # bytes of a large file by which it is seen how it is written
NOT_CLOSED = "A quote in it is not closed: close or remove it."


def csv_source(
    path: Path, separator: str | None, header: bool | None, time_format: str | None, least: int = 3
) -> Source:
    """Detect the separator and the names of a csv file from its first lines; see `tdlg.io.read_edges`.

    Separators that give at least the needed number of columns are tried first.
    """
    content, comments, skipped = _text(path)
    # a line break in quotes does not end a row
    rows = [row[0] for row in islice(re.finditer(rb'(?:[^"\n]+|"[^"]*"|")+', content), SAMPLE_LINES)]
    try:
        lines = [row.decode() for row in rows]
    except UnicodeDecodeError as error:
        raise _not_utf8(path, error) from None
    separator = _found_separator(lines, path, least) if separator is None else _checked_separator(separator)
    first = _fields(lines[0], separator)
    if len(first) == 1:
        raise _one_column(path, lines[0], f" with the separator {separator!r}")
    has_names = _looks_like_names(first, time_format) if header is None else header
    n_rows = 0 if separator == " " else sum(row.count(separator.encode()) == len(first) - 1 for row in skipped)
    if n_rows:
        warn(
            f"{path}: {n_rows:,} of the lines that start with # or % have {len(first)} values, like the rows. They are "
            f"skipped as comments. If they are rows, write their first values in quotes."
        )
    body = content[len(rows[0]) + 1 :] if has_names else content
    if separator == " ":
        body = _outside_quotes(body, _single_blanks)
    names = first if has_names else [str(k) for k in range(len(first))]
    text: dict[int, pl.Series] = {}  # the columns that are parsed already

    def prepare(positions: list[int]) -> None:
        new = [k for k in positions if k not in text]
        if new:
            text.update(_read_columns(body, separator, len(first), new, path))

    def read(positions: list[int], alike: set[int], as_is: set[int]) -> dict[int, Any]:
        prepare(positions)
        columns = {k: text[k] if k in as_is else typed(text[k], separator if k not in alike else "") for k in positions}
        return agreed(columns, alike, text.__getitem__)

    named = _possible_names(comments, separator, len(first))
    return Source(str(path), names, has_names, first, read, named, separator, prepare)


def _text(path: Path) -> tuple[bytes, list[str], list[bytes]]:
    r"""The bytes of the file without comments and blank lines, with \n as line end; comments above the table, and in it.

    Quoted text is kept as it is: in it, a line break and a # are part of the value.
    """
    text = text_bytes(path)
    start = re.match(rb"(?:[#%][^\r\n]*(?:\r\n?|\n|$)|[ \t]*(?:\r\n?|\n))*", text).end()  # type: ignore[union-attr]
    comments, text = text[:start].decode(errors="replace").splitlines(), text[start:]
    skipped: list[bytes] = []
    if any(sign in text for sign in (b"\n#", b"\n%", b"\r#", b"\r%")):  # searching is faster than replacing
        skipped = [found[2] for found in COMMENT_OR_QUOTED.finditer(text) if found[2]]
        text = COMMENT_OR_QUOTED.sub(rb"\1", text)
    text = _outside_quotes(text, _plain_lines) if _has_line_end_in_quotes(text) else _plain_lines(text)
    text = text.strip(b"\n")
    if not text.strip():
        raise ReadError(f"{path}: the file has no rows. Check that it was written or downloaded in full.")
    return text + b"\n", comments, skipped


def _has_line_end_in_quotes(text: bytes) -> bool:
    """Whether some value has several lines. Most tables have none, and this check is ten times as fast as splitting."""
    if b'"' not in text:
        return False
    signs = np.frombuffer(text, np.uint8)
    in_quotes = np.logical_xor.accumulate(signs == ord('"'))
    return bool((in_quotes & ((signs == ord("\n")) | (signs == ord("\r")))).any())


def _outside_quotes(text: bytes, change: Callable[[bytes], bytes]) -> bytes:
    """Change all text outside quotes in one call; the change must not touch quotes."""
    if b'"' not in text:
        return change(text)
    parts = text.split(b'"')
    parts[::2] = change(b'"'.join(parts[::2])).split(b'"')
    return b'"'.join(parts)


def _plain_lines(text: bytes) -> bytes:
    if b"\r" in text:
        text = text.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    if any(sign in text for sign in (b"\n\n", b"\n ", b"\n\t")):
        text = re.sub(rb"\n[ \t]*(?=\n|\Z)", b"", text)
    return text


def _not_utf8(path: Path, error: Exception) -> ReadError:
    return ReadError(f"{path}: the text is not UTF-8 ({error}). Save it in UTF-8.")


def _one_column(path: Path, line: str, how: str) -> ReadError:
    hint = NOT_CLOSED if line.count('"') % 2 else "Pass the right separator=."
    return ReadError(f"{path}: only one column found{how}; the first line is {line[:80]!r}.", hint)


def _checked_separator(separator: Any) -> str:
    if separator in (r"\s+", r"\s"):
        return " "
    if not isinstance(separator, str) or not separator or set(separator) & set('"\r\n'):
        raise ReadError(
            f"The 'separator' must be text without quotes or line ends, such as ',' or '::', or ' ' for runs of "
            f"blanks. Got {separator!r} instead.",
            parameter="separator",
        )
    return separator


def _sign(separator: str) -> str:
    return separator if len(separator.encode()) == 1 else STAND_IN


def _fields(line: str, separator: str) -> list[str]:
    if separator == " ":
        line = re.sub(r"[ \t]+", " ", line.strip())
    sign = _sign(separator)
    line = line.replace(separator, sign)
    try:
        fields = next(csv.reader([line], delimiter=sign), [])
    except csv.Error:  # a field that is longer than the reader allows
        fields = line.split(sign)
    return [value.strip() for value in fields]


def _possible_names(comments: list[str], separator: str, n_columns: int) -> list[list[str]]:
    """Comments with as many words as the table has columns, split by its separator, by others, or at blanks."""
    signs = SEPARATORS if separator == " " else (separator, *SEPARATORS)
    found = []
    for line in comments[-SAMPLE_LINES:]:
        splits = [_fields(line.lstrip("#% \t"), sign) for sign in signs]
        found += [fields for fields in splits if len(fields) == n_columns][:1]
    return found


def _found_separator(lines: list[str], path: Path, least: int) -> str:
    """The first separator that splits all sample lines into the same number of fields; else most lines, at least 2."""
    counts = {separator: [len(_fields(line, separator)) for line in lines] for separator in SEPARATORS}
    even = {separator: found[0] for separator, found in counts.items() if min(found) == max(found)}
    for separator, n_fields in even.items():
        if n_fields >= least:
            return separator
    for separator in SURE_SEPARATORS:
        if even.get(separator) == 2:
            return separator
    for least in (3, 2):
        for separator, found in counts.items():
            if median_low(found) >= least:
                return separator
    raise _one_column(path, lines[0], "")


def _looks_like_names(fields: list[str], time_format: str | None) -> bool:
    """Whether no field is a number, a date or a word for a missing value; pandas leaves a name empty."""
    given = [text for text in fields if text]
    is_value = any(NUMBER_OR_DATE.match(text) or text.lower() in MISSING_WORDS for text in given)
    return not is_value and not has_time(given, time_format)


def _single_blanks(text: bytes) -> bytes:
    """Replace runs of blanks and tabs by one blank, and remove them at line ends; most files need no change."""
    if b"\t" in text or b"  " in text:
        text = re.sub(rb"[ \t]+", b" ", text)
    if text[:1] == b" " or b"\n " in text or b" \n" in text:
        text = re.sub(rb"(?m)^ | $", b"", text)
    return text


def _read_columns(
    body: bytes, separator: str, n_columns: int, positions: list[int], path: Path
) -> dict[int, pl.Series]:
    """The requested columns as text, without blanks around it; empty text is null."""
    import polars as pl

    sign = _sign(separator)
    if sign != separator:
        body = body.replace(separator.encode(), sign.encode())
    names = [f"column_{k}" for k in range(n_columns)]
    if not body:
        return {position: pl.Series([], dtype=pl.String) for position in positions}
    try:
        frame = pl.read_csv(
            body,
            has_header=False,
            separator=sign,
            schema=dict.fromkeys(names, pl.String),
            columns=[names[position] for position in sorted({*positions, n_columns - 1})],
        )
    except pl.exceptions.PolarsError as error:
        raise _bad_line(body, separator, n_columns, path, error) from None
    if frame[names[-1]].null_count() > body.count(sign.encode() + b"\n"):  # a null that is not an empty field
        raise _bad_line(body, separator, n_columns, path, None)
    text = pl.all().str.strip_chars(BLANKS)
    if sign != separator:
        text = text.str.replace_all(sign, separator, literal=True)
    frame = frame.select(text.replace("", None))
    return {position: frame[names[position]] for position in positions}


def _bad_line(body: bytes, separator: str, n_columns: int, path: Path, error: Exception | None) -> ReadError:
    """Find the line that has too many or too few fields, to show it."""
    try:
        lines = body.decode().rstrip("\n").split("\n")
    except UnicodeDecodeError as not_utf8:
        return _not_utf8(path, not_utf8)
    with suppress(csv.Error):
        for row, fields in enumerate(csv.reader(lines, delimiter=_sign(separator))):
            if len(fields) != n_columns:
                shown = separator.join(fields)
                return ReadError(
                    f"{path}: data row {row + 1} has {len(fields)} fields, the first line has {n_columns}: {shown!r}.",
                    NOT_CLOSED if body.count(b'"') % 2 else "Correct that row, or pass the right separator=.",
                )
    return ReadError(f"{path}: the file cannot be read as csv ({error}).", "Check its quotes and separator=.")


# ---- larger than memory


def write_parquet(
    path: str | os.PathLike[str],
    target: str | os.PathLike[str],
    *,
    separator: str | None = None,
    header: bool | None = None,
) -> None:
    r"""Write a csv file or JSON lines of any size as a parquet file, in constant memory.

    All values of a csv file become text, as they are written but for blanks around them; `scan_edges` reads numbers in it
    with `as_text=True`. A separator of several characters, runs of blanks, comments of two kinds, and line breaks within
    values (as far as they are in the first megabyte) are refused. Values of JSON lines get one type per column.

    Parameters
    ----------
    path
        The csv file or JSON lines.
    target
        The parquet file to write.
    separator, header
        The same as for `read_edges`.

    Raises
    ------
    ReadError
        If the file cannot be read in pieces, or a row has too few or too many fields.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> _ = (folder / "x.csv").write_text("src,dst,time,amount\n007,a,1,3.50\n7,b,2,4\n")
    >>> write_parquet(folder / "x.csv", folder / "x.parquet")
    >>> import polars as pl
    >>> pl.read_parquet(folder / "x.parquet").rows()
    [('007', 'a', '1', '3.50'), ('7', 'b', '2', '4')]
    """
    import polars as pl

    path, target = as_path(path), as_path(target)
    check_path(path)
    if not is_csv(path):
        with _told(path):
            pl.scan_ndjson(path, infer_schema_length=None).sink_parquet(target)
        return
    with _unpacked(path) as file:
        start = file.read(START)
    with TemporaryDirectory() as folder:
        part = Path(folder) / path.name.removesuffix(".gz")
        part.write_bytes(start[: start.rfind(b"\n") + 1] or start)
        source = csv_source(part, separator, header, None)
    sign, prefixes = source.separator, {line.decode() for line in re.findall(rb"(?m)^[#%]", start)}
    refused = {
        "lines that start with # and with %": len(prefixes) > 1,
        f"the separator {sign!r}": len(sign.encode()) > 1 or sign == " ",
        "line breaks within values": _has_line_end_in_quotes(start),
        "line ends of old Macs": b"\r" in start and b"\n" not in start,
    }
    for why, is_there in refused.items():
        if is_there:
            raise ReadError(f"{path}: a file with {why} cannot be read in pieces. Write it as parquet.")
    names = [n if source.names.count(n) == 1 else f"{n} (column {k})" for k, n in enumerate(source.names)]
    third = "time" if len(names) == 3 else "column_2"
    names = names if source.has_names else ["src", "dst", third, *(f"column_{k}" for k in range(3, len(names)))]
    with _told(path):
        text = pl.scan_csv(
            path,
            separator=sign,
            has_header=source.has_names,
            schema=dict.fromkeys(names, pl.String),
            comment_prefix=prefixes.pop() if prefixes else "#",
            glob=False,
        )
        n_null = text.select(pl.col(names[-1]).null_count()).collect(engine="streaming").item()
        if n_null > _n_empty_ends(path, sign.encode()):  # a null that is not an empty field
            raise ReadError(f"{path}: some row has fewer than {len(names)} fields, or only blanks. Correct it.")
        text.select(pl.all().str.strip_chars(BLANKS).replace("", None)).sink_parquet(target)


def _unpacked(path: Path) -> IO[bytes]:
    with path.open("rb") as file:
        is_packed = file.read(2) == GZIP
    return cast("IO[bytes]", gzip.open(path) if is_packed else path.open("rb"))


def _n_empty_ends(path: Path, sign: bytes) -> int:
    """The number of lines that end with a separator."""
    n, end = 0, b""
    with _unpacked(path) as file:
        while piece := file.read(START):
            piece = (end + piece).replace(b"\r\n", b"\n")
            cut = piece.rfind(b"\n") + 1
            n, end = n + piece.count(sign + b"\n", 0, cut), piece[cut:]
    return n + end.endswith(sign)


@contextmanager
def _told(path: Path) -> Iterator[None]:
    import polars as pl

    try:
        yield
    except pl.exceptions.PolarsError as error:
        why = str(error).partition("\n")[0]
        raise ReadError(f"{path}: it cannot be read in pieces ({why}). Correct it, or write it as parquet.") from None
