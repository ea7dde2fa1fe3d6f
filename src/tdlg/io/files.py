"""Files that hold tables: their kinds, their bytes, unpacked within limits, and how tables are written to them."""

from __future__ import annotations

import difflib
import gzip
import io
import json
import os
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from tdlg.atomic import as_path, is_special, new_file
from tdlg.exceptions import ParameterError, ReadError

if TYPE_CHECKING:
    import polars as pl
PARQUET = (".parquet", ".pq")
JSON_LINES = (".jsonl", ".ndjson", ".json")


def is_csv(path: Path) -> bool:
    """Whether the file is read as csv."""
    return suffix_of(path) not in (*PARQUET, *JSON_LINES)


def suffix_of(path: Path) -> str:
    """The suffix of the name; only text files may be gzipped."""
    suffix = path.suffix.lower()
    inner = Path(path.stem).suffix.lower()
    return inner if suffix == ".gz" and inner in JSON_LINES else suffix


def check_path(path: Path) -> None:
    """Refuse a folder, a file that does not exist, and a link that leads to none."""
    if path.is_dir():
        some_file = min((entry.name for entry in path.iterdir() if entry.is_file()), default="edges.csv")
        raise ReadError(f"{path}: this is a folder. Pass one file of it, such as {some_file!r}.")
    if path.is_symlink() and not path.exists():
        raise ReadError(
            f"{path}: this is a link to {os.readlink(path)!r}, which leads to no file. Pass the file itself."
        )
    if not path.exists():
        near = os.listdir(path.parent) if path.parent.is_dir() else []
        close = difflib.get_close_matches(path.name, near, 3, 0.5)
        hint = f"Did you mean {' or '.join(map(repr, close))}?" if close else "Check the path."
        raise ReadError(f"{path}: there is no such file. {hint}")


# ---- text

GZIP = b"\x1f\x8b"
UNPACKED_AT_ONCE = 1 << 20  # bytes that are unpacked at a time
MOST_TIMES = 100  # largest ratio of unpacked to packed size; tables usually have 3 to 20
MOST_UNPACKED = 200_000_000  # any file may unpack to this size
LIMIT = "TDLG_MAX_UNPACKED"  # environment variable that replaces MOST_UNPACKED

WORKBOOK = "this is an Excel workbook. Export its sheet as csv (in Excel: Save As, CSV UTF-8), or save it as parquet."
OLD_WORKBOOK = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
OTHER_KINDS = {
    b"PAR1": "this is a parquet file. Rename it to .parquet.",
    b"PK\x03\x04": "this is a zip archive. Unpack it and pass the file that it holds.",
    b"BZh": "this is packed by bzip2. Unpack it with bunzip2, or pack it with gzip.",
    b"\xfd7zXZ": "this is packed by xz. Unpack it with unxz, or pack it with gzip.",
    b"\x28\xb5\x2f\xfd": "this is packed by zstd. Unpack it with unzstd, or pack it with gzip.",
    b"ARROW1": "this is an Arrow (Feather) file. Read it with pandas or polars and pass the frame to from_frame.",
    b"SQLite format 3": "this is an SQLite database. Export the table as csv.",
    b"%PDF-": "this is a PDF document. Save the table as csv.",
}
BYTE_ORDER_MARKS = (b"\xff\xfe", b"\xfe\xff")  # of UTF-16, which is text
START = 1000  # bytes at the start of a file that are checked for binary data
CONTROL = bytes(set(range(32)) - set(b"\t\n\r\x0b\x0c\x1a\x1b\x1f"))


def text_bytes(path: Path) -> bytes:
    """Read the bytes of a text file, unpacked if it is gzipped, whatever its name, without byte order mark."""
    data = path.read_bytes()  # once: it may be a pipe
    if data.startswith(GZIP):
        data = _unpacked(data, path)
    _check_is_text(data, path)
    return data.removeprefix(b"\xef\xbb\xbf")


def _unpacked(data: bytes, path: Path) -> bytes:
    """The content of a gzipped file. It is unpacked in pieces, so that a file that is too large never fills the memory."""
    given = os.environ.get(LIMIT, str(MOST_UNPACKED))
    if not given.isdecimal():
        raise ReadError(f"The environment variable {LIMIT} must be a number of bytes. Got {given!r} instead.")
    limit = max(int(given), MOST_TIMES * len(data))
    pieces: list[bytes] = []
    size = 0
    try:
        with gzip.open(io.BytesIO(data)) as packed:
            while piece := packed.read(UNPACKED_AT_ONCE):
                pieces.append(piece)
                size += len(piece)
                if size > limit:
                    raise ReadError(
                        f"{path}: the .gz file has {len(data):,} bytes and unpacks to more than {limit:,}, more than "
                        f"{MOST_TIMES} times as many: it may be made to fill the memory. If you trust it, unpack it "
                        f"yourself (gunzip), or set the environment variable {LIMIT} to the number of bytes that it may "
                        "have."
                    )
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise ReadError(f"{path}: the .gz file is truncated or damaged ({error}). Download it again.") from None
    return b"".join(pieces)


def _check_is_text(data: bytes, path: Path) -> None:
    if data.startswith(OLD_WORKBOOK) or (data.startswith(b"PK\x03\x04") and b"xl/" in data):
        raise ReadError(f"{path}: {WORKBOOK}")
    for start, advice in OTHER_KINDS.items():
        if data.startswith(start):
            raise ReadError(f"{path}: {advice}")
    start = data[:START]
    if not start.startswith(BYTE_ORDER_MARKS) and len(start.translate(None, CONTROL)) < len(start):
        raise ReadError(
            f"{path}: this is not text but binary data; it begins with {start[:16]!r}. "
            f"Pass csv or JSON lines in UTF-8, also gzipped, or parquet."
        )


# ---- written

SEPARATORS = {".csv": ",", ".tsv": "\t"}
ROWS_AS_TEXT = 100_000  # rows that are turned into text at once


def write_table(frame: pl.DataFrame, path: str | os.PathLike[str]) -> None:
    r"""Write a table to a file, so that `read_table` reads the same values.

    Parameters
    ----------
    frame
        The table, such as `Table.with_columns` returns it. In csv, lists, objects and bytes become text.
    path
        The file: .csv, .tsv or .jsonl, also with .gz, or .parquet. It appears when it is complete; until then an older file
        stays. A pipe or a device is written into, as csv if its name shows nothing else.

    Raises
    ------
    ParameterError
        If the name shows another kind of file, or its folder does not exist.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> import polars as pl
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "scores.csv"
    >>> write_table(pl.DataFrame({"src": ["#1", "a"], "score": [0.5, 1.0]}), path)
    >>> path.read_text()
    '"src","score"\n"#1",0.5\n"a",1.0\n'
    """
    check_output(path := as_path(path))
    kind = _kind(path)
    with new_file(path) as file:
        if kind in PARQUET:
            without_objects(frame).write_parquet(file)
        elif _is_packed(path):  # with no name and no time, so that the same rows give the same bytes
            with gzip.GzipFile("", "wb", fileobj=file, mtime=0) as packed:
                write_text(frame, packed, kind)
        else:
            write_text(frame, file, kind)


def write_text(frame: pl.DataFrame, file: BinaryIO | gzip.GzipFile, kind: str = ".csv") -> None:
    """Write the rows as text of the kind that a suffix shows, csv by default."""
    for start in range(0, max(len(frame), 1), ROWS_AS_TEXT):
        block = frame[start : start + ROWS_AS_TEXT]
        if kind in JSON_LINES:
            text = _json_lines(block)
        else:
            flat = _flat(block)
            style: Any = "non_numeric" if _looks_like_comments(flat) else "necessary"
            separator = SEPARATORS.get(kind, ",")
            has_zone = any(getattr(kind, "time_zone", None) for kind in flat.dtypes)
            clock = None if has_zone else "%Y-%m-%dT%H:%M:%S%.f"  # whole seconds without .000
            how: Any = {"separator": separator, "quote_style": style, "datetime_format": clock}
            text = flat.write_csv(include_header=start == 0, **how)
        file.write(text.encode())
    file.flush()


def check_output(path: Path) -> None:
    """Refuse a file that cannot be written, before any work is done."""
    kind = _kind(path)
    if kind not in (*SEPARATORS, *PARQUET, *JSON_LINES) and not is_special(path):
        raise ParameterError(
            f"the file must end in .csv, .tsv or .jsonl, also with .gz, or in .parquet. Got {str(path)!r} instead.",
            parameter="output",
        )
    if kind in PARQUET and _is_packed(path):
        raise ParameterError(
            f"parquet is packed already, and not read from a .gz. Leave out the .gz of {str(path)!r}.",
            parameter="output",
        )
    check_folder(path)


def check_folder(path: Path) -> None:
    """Refuse a file whose folder does not exist."""
    if path.is_dir():
        raise ParameterError(f"{path}: this is a folder. Give the name of a file in it.", parameter="path")
    if not path.parent.is_dir():
        problem = f"{path}: there is no folder {str(path.parent)!r}. Make it, or give another file."
        raise ParameterError(problem, parameter="path")


def without_objects(frame: pl.DataFrame) -> pl.DataFrame:
    """Columns of mixed types as text, because only JSON can hold them."""
    import polars as pl

    return _as_text(frame, [name for name, dtype in frame.schema.items() if dtype == pl.Object])


def _kind(path: Path) -> str:
    return Path(path.name.lower().removesuffix(".gz")).suffix


def _is_packed(path: Path) -> bool:
    return path.suffix.lower() == ".gz"


def _flat(frame: pl.DataFrame) -> pl.DataFrame:
    """Nested and binary columns as JSON text too, because csv can hold only text."""
    import polars as pl

    kinds = frame.schema.items()
    return _as_text(frame, [name for name, kind in kinds if kind in (pl.Object, pl.Binary) or kind.is_nested()])


def _as_text(frame: pl.DataFrame, names: list[str]) -> pl.DataFrame:
    import polars as pl

    def text(value: Any) -> str | None:
        is_json = isinstance(value, dict | list | bool)
        return None if value is None else json.dumps(value, default=str) if is_json else str(value)

    return frame.with_columns(pl.Series(name, map(text, frame[name].to_list()), dtype=pl.String) for name in names)


def _looks_like_comments(frame: pl.DataFrame) -> bool:
    """Whether some rows start with # or %: without quotes, they would be read as comments."""
    import polars as pl

    first = frame.to_series(0) if frame.width else pl.Series([], dtype=pl.Int64)
    return first.dtype == pl.String and bool(first.str.contains("^[#%]").any())


def _json_lines(frame: pl.DataFrame) -> str:
    """One JSON object per line: dates in ISO format, NaN as null."""
    import polars as pl
    import polars.selectors as cs

    frame = frame.with_columns(cs.temporal().dt.to_string("iso:strict"))
    if pl.Object not in frame.dtypes and pl.Binary not in frame.dtypes:
        return frame.write_ndjson()
    finite = [pl.when(pl.col(name).is_finite()).then(name) for name in frame.select(cs.float()).columns]
    rows = frame.with_columns(finite).iter_rows(named=True)
    return "".join(json.dumps(row, ensure_ascii=False, separators=(",", ":"), default=str) + "\n" for row in rows)
