"""InputTable: a parquet file of edges that is read in blocks of rows, with keys in place of ids."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np

from tdlg.edges import TemporalEdges
from tdlg.engines.keys import id_keys
from tdlg.engines.store import is_remote
from tdlg.engines.text_times import order_of_days, year_first
from tdlg.exceptions import EdgesError, ReadError
from tdlg.io.tables import build_edges
from tdlg.tables.csv import Source
from tdlg.tables.find_columns import Which, position_of, roles
from tdlg.tables.frames import damaged_parquet, frame_source, parquet_source
from tdlg.tables.paths import PARQUET, check_path

if TYPE_CHECKING:
    import polars as pl

__all__ = ["Block", "InputTable"]


class Block(NamedTuple):
    """Rows of an input table, from `start` on and before `stop`. Plain data, which tasks carry."""

    start: int
    stop: int


@dataclass(frozen=True)
class InputTable:
    """A parquet file of edges, and how it is read. Plain data, which tasks carry.

    Attributes
    ----------
    path
        The file.
    n_rows
        The number of its rows.
    roles
        The names of the columns for "src", "dst", "time" and, if they are used, "label" and "label_time".
    features, categories
        The names of the columns of features, and of those features that are codes and not amounts.
    bipartite, time_format, time_unit, label_delay
        The same as for `tdlg.read_edges`.
    orders
        For columns of dates such as 31/01/2020, whether the day or the month comes first; see `text_times`.
    """

    path: str
    n_rows: int
    roles: dict[str, str]
    features: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    bipartite: bool = False
    time_format: str | None = None
    time_unit: str | None = None
    label_delay: Any = None
    orders: tuple[tuple[str, str], ...] = ()

    @classmethod
    def open(
        cls,
        path: Any,
        wanted: dict[str, Which],
        features: tuple[list[Any], list[Any]] = ([], []),
        *,
        bipartite: bool = False,
        time_format: str | None = None,
        time_unit: str | None = None,
        label_delay: Any = None,
    ) -> Self:
        """Look at a file: its columns and the number of its rows. See `tdlg.io.tables.build_edges` for the parameters."""
        path = str(path) if is_remote(str(path)) else os.path.abspath(path)  # workers may have other current folders
        source, n_rows = _opened(path)
        at = {role: source.names[position] for role, position in roles(source, wanted).items()}
        listed, codes = ([source.names[position_of(source, "features", which)] for which in some] for some in features)
        listed += [name for name in codes if name not in listed]
        if not n_rows:
            raise ReadError(f"{path}: the table has no rows.")
        orders = (
            _orders(path, [at[role] for role in ("time", "label_time") if role in at]) if time_format is None else ()
        )
        of_times = time_format, time_unit, label_delay, orders
        return cls(path, n_rows, at, tuple(listed), tuple(codes), bipartite, *of_times)

    def blocks(self, n_rows: int) -> list[Block]:
        """The whole table in blocks of at most this number of rows."""
        return [Block(start, min(start + n_rows, self.n_rows)) for start in range(0, self.n_rows, n_rows)]

    def frame(self, block: Block, names: list[str] | None = None) -> pl.DataFrame:
        """Some columns of a block as they are; by default all columns."""
        import polars as pl

        lazy = pl.scan_parquet(self.path, glob=False)
        try:
            some = lazy if names is None else lazy.select(list(dict.fromkeys(names)))
            return some.slice(block.start, block.stop - block.start).collect()
        except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError) as error:
            raise damaged_parquet(self.path, error) from None

    def read(self, block: Block, *, with_ids: bool = True, with_features: bool = True) -> TemporalEdges:
        """The edges of a block, whose ids are keys.

        Parameters
        ----------
        block
            The rows.
        with_ids
            Whether ids are read; else all of them are 0. True by default.
        with_features
            Whether features are read. True by default.
        """
        import polars as pl

        ends = {role: self.roles[role] for role in ("src", "dst")}
        others = [name for role, name in self.roles.items() if role not in ends]
        features, categories = (self.features, self.categories) if with_features else ((), ())
        frame = self.frame(block, [*(ends.values() if with_ids else ()), *others, *features])
        origin = f"{self.path}, counted from row {block.start + 1:,}"
        try:
            keys = {role: id_keys(frame[name], role).view(np.int64) for role, name in ends.items() if with_ids}
        except EdgesError as error:
            raise error.as_kind(ReadError, f"{origin}: {error.problem}") from None
        nothing = np.zeros(len(frame), np.int64)
        frame = frame.with_columns(pl.Series(name, keys.get(role, nothing)) for role, name in ends.items())
        frame = frame.with_columns(year_first(frame[name], order) for name, order in self.orders)
        source = replace(frame_source(frame), origin=origin)
        of_times = self.time_format, self.time_unit, self.label_delay
        listed = list(features), list(categories)
        how: Any = {"checked": False, "with_ids": False}  # ids are keys here
        return build_edges(source, dict(self.roles), listed, self.bipartite, *of_times, **how)[0]


def _orders(path: str, names: list[str]) -> tuple[tuple[str, str], ...]:
    """The orders of day and month in columns of text."""
    import polars as pl

    lazy = pl.scan_parquet(path, glob=False)
    schema = lazy.collect_schema()
    try:
        found = {name: order_of_days(lazy, name, path) for name in names if schema[name] == pl.String}
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError) as error:
        raise damaged_parquet(path, error) from None
    return tuple((name, order) for name, order in found.items() if order is not None)


def _opened(path: str) -> tuple[Source, int]:
    """The columns of a parquet file, and the number of its rows."""
    import polars as pl

    if not path.lower().endswith(PARQUET):
        name = Path(path).name
        raise ReadError(
            f"{path}: only a parquet file can be read in blocks. Write it as parquet first: python -c 'import polars; "
            f"""polars.scan_csv("{name}", try_parse_dates=True).sink_parquet("{Path(name).stem}.parquet")', with """
            'separator=";" if columns are not separated by commas.'
        )
    if not is_remote(path):
        check_path(Path(path))
    source = parquet_source(path)
    return source, int(pl.scan_parquet(path, glob=False).select(pl.len()).collect().item())
