"""Tables to files: csv and JSON lines, both also gzipped, and parquet."""

from __future__ import annotations

import gzip
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from tdlg.atomic import as_path, is_special, new_file
from tdlg.exceptions import ParameterError
from tdlg.io.files import JSON_LINES, PARQUET

if TYPE_CHECKING:
    import polars as pl

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
            text = flat.write_csv(separator=separator, include_header=start == 0, quote_style=style)
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
