"""A path as a table, for all supported types of files."""

from __future__ import annotations

import difflib
import os
from pathlib import Path
from typing import Any

from tdlg.exceptions import Hint, ReadError
from tdlg.tables.column import check_polars_works
from tdlg.tables.csv import Source, csv_source
from tdlg.tables.frames import parquet_source
from tdlg.tables.jsonlines import jsonl_source

__all__ = ["JSON_LINES", "PARQUET", "check_path", "file_source", "is_csv"]

PARQUET = (".parquet", ".pq")
JSON_LINES = (".jsonl", ".ndjson", ".json")


def file_source(
    path: Path,
    separator: str | None = None,
    header: bool | None = None,
    time_format: str | None = None,
    least: int = 3,
) -> Source:
    """Open a file by the type that its name shows, csv by default; see `csv_source` for the other parameters."""
    check_polars_works(f"The file {path}", ReadError)
    check_path(path)
    if is_csv(path):
        return csv_source(path, separator, header, time_format, least)
    is_parquet = _suffix(path) in PARQUET
    _check_no_csv_options(path, "parquet" if is_parquet else "JSON lines", separator=separator, header=header)
    return parquet_source(path) if is_parquet else jsonl_source(path)


def is_csv(path: Path) -> bool:
    """Whether the file is read as csv."""
    return _suffix(path) not in (*PARQUET, *JSON_LINES)


def _suffix(path: Path) -> str:
    """The suffix of the name; only text files may be gzipped."""
    suffix = path.suffix.lower()
    inner = Path(path.stem).suffix.lower()
    return inner if suffix == ".gz" and inner in JSON_LINES else suffix


def _check_no_csv_options(path: Path, file_type: str, **options: Any) -> None:
    for name, value in options.items():
        if value is not None:
            raise ReadError(
                f"{path}: The {name!r} is for csv files, and this is {file_type}. Got {value!r}.",
                Hint("Leave out {}.", **{name: ...}),
                parameter=name,
                value=value,
            )


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
