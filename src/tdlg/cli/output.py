"""Writing of tables: to a file (complete or not at all), to a pipe, or to a terminal."""

from __future__ import annotations

import gzip
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from tdlg.atomic import is_special, new_file
from tdlg.cli.terminal import count, is_terminal, note, show
from tdlg.exceptions import ParameterError

if TYPE_CHECKING:
    import polars as pl

__all__ = ["check_folder", "check_model_file", "check_output", "give", "keep_model", "rounded"]

SEPARATORS = {".csv": ",", ".tsv": "\t"}
STDOUT = "-"
DIGITS = 6
ROWS_AS_TEXT = 100_000  # rows that are turned into text at once


def check_output(path: Path | None) -> None:
    """Refuse an output file that cannot be written, before any work is done."""
    if path is None or str(path) == STDOUT:
        return
    from tdlg.io.files import JSON_LINES, PARQUET

    kind = _kind(path)
    if kind not in (*SEPARATORS, *PARQUET, *JSON_LINES) and not is_special(path):
        raise typer.BadParameter(
            f"the file must end in .csv, .tsv or .jsonl, also with .gz, or in .parquet. Got {str(path)!r} instead.",
            param_hint="--output",
        )
    if kind in PARQUET and _is_packed(path):
        raise typer.BadParameter(
            f"parquet is packed already, and not read from a .gz. Leave out the .gz of {str(path)!r}.",
            param_hint="--output",
        )
    check_folder(path)


def check_folder(*paths: Path | None) -> None:
    """Refuse files whose folder does not exist."""
    for path in paths:
        if path is not None and path.is_dir():
            raise ParameterError(f"{path}: this is a folder. Give the name of a file in it.", parameter="path")
        if path is not None and not path.parent.is_dir():
            raise ParameterError(
                f"{path}: there is no folder {str(path.parent)!r}. Make it, or give another file.",
                parameter="path",
            )


def check_model_file(path: Path | None) -> None:
    """Refuse a file to which no model can be written, before any work is done."""
    check_folder(path)
    if path is not None and is_special(path):
        raise ParameterError(
            f"{path}: a model is kept in a file, and this is a device or a pipe. Give another name.",
            parameter="path",
        )


def keep_model(model: Any, path: Path | None) -> None:
    """Save a fitted model if a file is given."""
    if path is not None:
        model.save(path)
        note(f"saved the model to {path}")


def give(
    frame: pl.DataFrame,
    output: Path | None,
    *,
    first: str | None = None,
    rows: int = 20,
    shown: Sequence[str] | None = None,
) -> None:
    """Write a table to a file or to stdout: csv in a pipe, the first rows on a terminal.

    Parameters
    ----------
    frame
        The table.
    output
        The file to write; stdout by default.
    first
        Column to sort by on a terminal, highest values first. By default the order of the table.
    rows
        Number of rows to show on a terminal.
    shown
        Columns to show on a terminal; all by default.
    """
    if output is not None and str(output) != STDOUT:
        _write(frame, output)
        note(f"wrote {count(len(frame), 'row')} to {output}")
    elif not is_terminal(sys.stdout):
        _write_text(frame, sys.stdout.buffer, ".csv")
    else:
        frame = _without_objects(frame)
        ordered = frame if first is None else frame.sort(first, descending=True, nulls_last=True)
        show(ordered if shown is None else ordered.select(shown), rows)
        if len(frame) > rows:
            note(f"{rows} of {count(len(frame), 'row')}; use -o FILE or a pipe to get all rows")


def _kind(path: Path) -> str:
    return Path(path.name.lower().removesuffix(".gz")).suffix


def _is_packed(path: Path) -> bool:
    return path.suffix.lower() == ".gz"


def rounded(frame: pl.DataFrame, *names: str) -> pl.DataFrame:
    """The table with these computed columns rounded to the significant digits that are shown; times stay exact.

    Parameters
    ----------
    frame
        The table.
    names
        Columns of numbers; names that the table does not have are ignored.
    """
    import polars as pl

    return frame.with_columns(pl.col(name).round_sig_figs(DIGITS) for name in names if name in frame.columns)


def _without_objects(frame: pl.DataFrame) -> pl.DataFrame:
    """Columns of mixed types as text, because only JSON can hold them."""
    import polars as pl

    return _as_text(frame, [name for name, dtype in frame.schema.items() if dtype == pl.Object])


def _flat(frame: pl.DataFrame) -> pl.DataFrame:
    """Nested and binary columns as JSON text too, because csv can hold only text."""
    import polars as pl

    return _as_text(
        frame, [name for name, dtype in frame.schema.items() if dtype in (pl.Object, pl.Binary) or dtype.is_nested()]
    )


def _as_text(frame: pl.DataFrame, names: list[str]) -> pl.DataFrame:
    import polars as pl

    def text(value: Any) -> str | None:
        is_json = isinstance(value, dict | list | bool)
        return None if value is None else json.dumps(value, default=str) if is_json else str(value)

    return frame.with_columns(pl.Series(name, map(text, frame[name].to_list()), dtype=pl.String) for name in names)


def _write(frame: pl.DataFrame, path: Path) -> None:
    from tdlg.io.files import PARQUET

    kind = _kind(path)
    with new_file(path) as file:
        if kind in PARQUET:
            _without_objects(frame).write_parquet(file)
        elif _is_packed(path):
            with gzip.GzipFile(
                "", "wb", fileobj=file, mtime=0
            ) as packed:  # no name and no time, so that the same rows give the same bytes
                _write_text(frame, packed, kind)
        else:
            _write_text(frame, file, kind)


def _write_text(frame: pl.DataFrame, file: Any, kind: str) -> None:
    from tdlg.io.files import JSON_LINES

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
