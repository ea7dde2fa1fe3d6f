"""A path as a table, for all supported types of files."""

from __future__ import annotations

import difflib
import gzip
import json
import os
import shlex
import zlib
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tdlg.exceptions import ReadError
from tdlg.tables.column import check_polars_works
from tdlg.tables.csv import Source, csv_source
from tdlg.tables.find_columns import usual_at
from tdlg.tables.frames import parquet_source
from tdlg.tables.jsonlines import jsonl_source
from tdlg.tables.packed import GZIP

__all__ = ["JSON_LINES", "PARQUET", "check_path", "file_source", "is_csv", "parquet_command"]

PARQUET = (".parquet", ".pq")
JSON_LINES = (".jsonl", ".ndjson", ".json")
START = 1 << 20  # bytes of a large csv file by which it is seen how it is written


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


def parquet_command(path: Path | str) -> str:
    """The command that writes a text file of any size as parquet, with ids as they are written."""
    target = str(Path(path).with_suffix(".parquet")) if "://" not in str(path) else f"{Path(path).stem}.parquet"
    options = ""
    if is_csv(Path(path)):
        options = ', schema_overrides={"src": polars.String, "dst": polars.String}'
        with suppress(OSError, EOFError, zlib.error, ReadError):  # such as of a store, or of a file that is damaged
            options = "".join(f", {name}={value}" for name, value in _scan_options(Path(path)).items())
        options += ', infer_schema_length=None, null_values=["", "NA", "null", "NULL"]'
    scan = "scan_csv" if is_csv(Path(path)) else "scan_ndjson"
    code = f"import polars; polars.{scan}({json.dumps(str(path))}{options}).sink_parquet({json.dumps(target)})"
    return f"python -c {shlex.quote(code)}"


def _scan_options(path: Path) -> dict[str, str]:
    """How polars has to read a csv file, by its first rows: columns of ids and of other text are text for it."""
    with path.open("rb") as raw, gzip.open(raw) if raw.read(2) == GZIP else raw as file:
        raw.seek(0)
        start = file.read(START)
    with TemporaryDirectory() as folder:
        part = Path(folder) / "start.csv"
        part.write_bytes(start[: start.rfind(b"\n") + 1] if len(start) == START else start)
        source = csv_source(part, None, None, None)
        every = list(range(len(source.names)))
        typed, written = (source.read(every, set(), as_is) for as_is in (set(), set(every)))
    third = "time" if len(every) == 3 else "column_2"
    names = (
        source.names if source.has_names else ["src", "dst", third, *(f"column_{k}" for k in every[3:])][: len(every)]
    )
    ids = {*usual_at(names, "src"), *usual_at(names, "dst")}
    text = [names[k] for k in every if k in ids or not typed[k].dtype.is_numeric()]
    options = {"schema_overrides": "{" + ", ".join(f"{json.dumps(name)}: polars.String" for name in text) + "}"}
    if not source.has_names:
        options |= {"has_header": "False", "new_columns": json.dumps(names)}
    if source.separator != ",":
        options["separator"] = json.dumps(source.separator)
    if any(typed[k].dtype.is_float() and written[k].str.contains(",").any() for k in every):
        options["decimal_comma"] = "True"
    return options


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
                f"Leave out {name}=.",
                parameter=name,
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
