"""Files that may hold a table: their kinds, and their bytes, unpacked within limits."""

from __future__ import annotations

import difflib
import gzip
import io
import os
import zlib
from pathlib import Path

from tdlg.exceptions import ReadError

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
