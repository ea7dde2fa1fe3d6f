"""InputTable: parquet files of edges that are read in blocks of rows, with keys in place of ids."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np

from tdlg.atomic import as_path
from tdlg.edges import TemporalEdges
from tdlg.engines.keys import id_keys
from tdlg.engines.parts import Part, Parts, find_parts, parts_of
from tdlg.engines.store import is_remote, version_of
from tdlg.engines.text_times import order_of_days, year_first
from tdlg.exceptions import EdgesError, ReadError
from tdlg.io.tables import build_edges
from tdlg.tables.csv import Source
from tdlg.tables.find_columns import Which, position_of, roles
from tdlg.tables.frames import damaged_parquet, frame_source
from tdlg.tables.text import unread_number

if TYPE_CHECKING:
    import polars as pl

__all__ = ["Block", "InputTable"]


FIRST_ROWS = 10_000  # in which features are looked at


class Block(NamedTuple):
    """Rows of an input table, from `start` on and before `stop`. Plain data, which tasks carry."""

    start: int
    stop: int


@dataclass(frozen=True)
class InputTable:
    """A parquet file of edges, or a folder of them, and how it is read. Plain data, which tasks carry.

    Attributes
    ----------
    path
        The file, or the folder, whose files are one table in the order of their names.
    n_rows
        The number of rows of all files.
    roles
        The names of the columns for "src", "dst", "time" and, if they are used, "label" and "label_time".
    features, categories
        The names of the columns of features, and of those features that are codes and not amounts.
    bipartite, time_format, time_unit, label_delay
        The same as for `tdlg.read_edges`.
    orders
        For columns of dates such as 31/01/2020, whether the day or the month comes first; see `text_times`.
    listing
        Text that changes with the files of a folder; empty for a file. See `tdlg.engines.parts`.
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
    listing: str = ""

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
        """Look at the columns and the number of rows. See `tdlg.io.tables.build_edges` for the parameters."""
        path = (
            str(path) if is_remote(str(path)) else os.path.abspath(as_path(path))
        )  # workers have other current folders
        parts = find_parts(path)
        source = Source(path, list(parts.names), True, [], lambda *_: {})  # only its names are used
        at = {role: source.names[position] for role, position in roles(source, wanted).items()}
        listed, codes = ([source.names[position_of(source, "features", which)] for which in some] for some in features)
        listed += [name for name in codes if name not in listed]
        if not parts.n_rows:
            raise ReadError(f"{path}: the table has no rows.")
        _check_numbers(path, parts, [name for name in listed if name not in codes])
        dated = [at[role] for role in ("time", "label_time") if role in at]
        orders = _orders(path, parts, dated) if time_format is None else ()
        of_times = time_format, time_unit, label_delay, orders
        return cls(path, parts.n_rows, at, tuple(listed), tuple(codes), bipartite, *of_times, parts.listing)

    def files(self) -> list[str]:
        """The paths of all files, in the order of the rows."""
        return [part.path for part in self._parts()]

    def version(self) -> tuple[Any, ...]:
        """What differs between two versions of the files; empty if a store cannot be asked."""
        return tuple(fact for file in self.files() for fact in version_of(file))

    def blocks(self, n_rows: int) -> list[Block]:
        """The whole table in blocks of at most this number of rows."""
        return [Block(start, min(start + n_rows, self.n_rows)) for start in range(0, self.n_rows, n_rows)]

    def frame(self, block: Block, names: list[str] | None = None) -> pl.DataFrame:
        """Some columns of a block as they are; by default all columns."""
        import polars as pl

        paths, first = self._files_of(block)
        lazy = _scanned(paths)
        try:
            some = lazy if names is None else lazy.select(list(dict.fromkeys(names)))
            return some.slice(block.start - first, block.stop - block.start).collect()
        except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError) as error:
            raise damaged_parquet(self.path, error) from None

    def _parts(self) -> tuple[Part, ...]:
        return parts_of(self.path, self.listing) if self.listing else (Part(self.path, self.n_rows),)

    def _files_of(self, block: Block) -> tuple[list[str], int]:
        """The files that have rows of a block, at least one of them, and the first row of the first one."""
        parts = self._parts()
        starts = np.append(0, np.cumsum([part.n_rows for part in parts]))
        low = min(int(np.searchsorted(starts, block.start, side="right")) - 1, len(parts) - 1)
        high = max(int(np.searchsorted(starts, block.stop, side="left")), low + 1)
        return [part.path for part in parts[low:high]], int(starts[low])

    @property
    def value_names(self) -> list[str]:
        """The names of the columns that are used, without those of the ids."""
        return [*(name for role, name in self.roles.items() if role not in ("src", "dst")), *self.features]

    def n_known(self) -> int:
        """The number of rows that have a label."""
        import polars as pl

        if "label" not in self.roles:
            return 0
        label = pl.col(self.roles["label"])
        lazy = _scanned(self.files())
        try:
            is_float = lazy.collect_schema()[self.roles["label"]].is_float()
            known = label.is_not_null() & label.is_not_nan() if is_float else label.is_not_null()
            return int(lazy.select(known.sum()).collect(engine="streaming").item())
        except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError) as error:
            raise damaged_parquet(self.path, error) from None

    def read(self, block: Block, *, with_ids: bool = True, frame: pl.DataFrame | None = None) -> TemporalEdges:
        """The edges of a block, whose ids are keys.

        Parameters
        ----------
        block
            The rows.
        with_ids
            Whether ids are read; else all of them are 0. True by default.
        frame
            The columns of these rows, if they were read already.
        """
        import polars as pl

        ends = {role: self.roles[role] for role in ("src", "dst")}
        if frame is None:
            frame = self.frame(block, [*(ends.values() if with_ids else ()), *self.value_names])
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
        listed = list(self.features), list(self.categories)
        how: Any = {"checked": False, "with_ids": False}  # ids are keys here
        return build_edges(source, dict(self.roles), listed, self.bipartite, *of_times, **how)[0]


def _check_numbers(path: str, parts: Parts, names: list[str]) -> None:
    """Refuse features whose first values are text such as 52,98: they would be categories, each of a few rows."""
    import polars as pl

    lazy = _scanned([part.path for part in parts.files])
    text = [name for name in names if lazy.collect_schema()[name] == pl.String]
    try:
        start = lazy.select(text).head(FIRST_ROWS).collect()
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError) as error:
        raise damaged_parquet(path, error) from None
    for name in text:
        number = unread_number(start[name].drop_nulls().unique().to_list())
        if number is not None:
            raise ReadError(
                f"{path}: the feature {name!r} is text such as {number!r}. Write it as numbers such as 1234.56.",
                f"Pass categories={name!r} for codes.",
                parameter="features",
            )


def _orders(path: str, parts: Parts, names: list[str]) -> tuple[tuple[str, str], ...]:
    """The orders of day and month in columns of text."""
    import polars as pl

    lazy = _scanned([part.path for part in parts.files])
    schema = lazy.collect_schema()
    try:
        found = {name: order_of_days(lazy, name, path) for name in names if schema[name] == pl.String}
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError) as error:
        raise damaged_parquet(path, error) from None
    return tuple((name, order) for name, order in found.items() if order is not None)


def _scanned(paths: list[str]) -> pl.LazyFrame:
    """Files as one table, with the columns that are in them and no others."""
    import polars as pl

    return pl.scan_parquet(paths, glob=False, hive_partitioning=False)
