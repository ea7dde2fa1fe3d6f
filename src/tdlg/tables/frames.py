"""Dataframes of any library and parquet files as tables whose columns are read on demand."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from tdlg.exceptions import EdgesError, ReadError
from tdlg.tables.csv import Source
from tdlg.tables.parquet import check_parquet

if TYPE_CHECKING:
    import narwhals as nw
    import polars as pl

__all__ = ["damaged_parquet", "eager_frame", "frame_source", "parquet_source"]


def eager_frame(frame: Any, name: str) -> nw.DataFrame[Any]:
    """Convert any dataframe that narwhals supports; lazy frames are collected, and column names must differ."""
    import narwhals as nw

    try:
        table = nw.from_native(frame)
        eager = table.collect() if isinstance(table, nw.LazyFrame) else table
        _ = eager.columns  # some libraries detect equal names only here
    except TypeError:
        raise EdgesError(
            f"The '{name}' must be a dataframe (pandas, polars, pyarrow, ...). Got {type(frame).__name__} instead.",
            "Use `TemporalEdges(src, dst, time)` for arrays and lists, `read_edges(path)` for a file.",
        ) from None
    except nw.exceptions.DuplicateError:
        names = [str(name) for name in frame.columns]
        raise EdgesError(
            f"The columns of '{name}' must differ in name. Got {names} instead.",
            f"Rename them, such as `{name}.columns = [...]`.",
        ) from None
    return eager


def frame_source(frame: Any) -> Source:
    """A dataframe as a table; see `tdlg.io.from_frame`."""
    eager = eager_frame(frame, "frame")
    keys = eager.columns

    def read(positions: list[int], _alike: set[int], _text: set[int]) -> dict[int, Any]:
        return {position: eager.get_column(keys[position]).to_native() for position in positions}

    return Source("The frame", [str(key) for key in keys], True, [], read)


def parquet_source(path: Path | str) -> Source:
    """A parquet file as a table; see `tdlg.io.read_edges`."""
    import polars as pl

    try:
        check_parquet(path)
        names = list(pl.read_parquet_schema(path))
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError, ValueError) as error:
        raise damaged_parquet(path, error) from None

    columns: dict[int, pl.Series] = {}  # those that are read already

    def read(positions: list[int], _alike: set[int], _text: set[int]) -> dict[int, Any]:
        new = [position for position in positions if position not in columns]
        if new:
            frame = _read_parquet(path, [names[position] for position in new])
            columns.update({position: frame[names[position]] for position in new})
        return {position: columns[position] for position in positions}

    return Source(str(path), names, True, [], read)


def _read_parquet(path: Path | str, names: list[str]) -> pl.DataFrame:
    import polars as pl

    try:
        return pl.read_parquet(path, columns=names)
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError) as error:
        raise damaged_parquet(path, error) from None


def damaged_parquet(path: Path | str, error: BaseException) -> ReadError:
    """The error for a parquet file that cannot be read."""
    why = f" ({error})" if isinstance(error, Exception) else ""  # what a panic says does not help
    return ReadError(
        f"{path}: this is not a parquet file, or it is damaged{why}. "
        f"If it is text, rename it to .csv; else download or write it again."
    )
