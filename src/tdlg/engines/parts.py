"""Parts: the parquet files of which a table consists, one or all of a folder."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

from tdlg.engines.store import is_folder, is_remote, joined, names_in
from tdlg.exceptions import ReadError
from tdlg.tables.column import check_polars_works
from tdlg.tables.frames import damaged_parquet
from tdlg.tables.parquet import check_parquet
from tdlg.tables.paths import PARQUET, check_path, parquet_command

__all__ = ["Part", "Parts", "find_parts", "parts_of"]

AT_ONCE = 16  # files that are looked at together: stores answer late
ENDING = ".parquet"  # of the files of a folder that belong to the table


class Part(NamedTuple):
    """A file, and the number of its rows."""

    path: str
    n_rows: int


class Parts(NamedTuple):
    """The files of a table.

    Attributes
    ----------
    files
        The files in order.
    names
        The names of their columns.
    listing
        Text that changes with the names and the numbers of rows of the files of a folder; empty for a single file.
    """

    files: tuple[Part, ...]
    names: tuple[str, ...]
    listing: str = ""

    @property
    def n_rows(self) -> int:
        """The number of rows of all files."""
        return sum(part.n_rows for part in self.files)


_FOUND: dict[tuple[str, str], tuple[Part, ...]] = {}  # files of folders by path and listing, in this process


def find_parts(path: str) -> Parts:
    """Look at a parquet file, or at those of a folder in the order of their names, which must have the same columns."""
    if not _is_table(path):
        schema, part = _looked_at(_checked(path))
        return Parts((part,), tuple(schema))
    names = [name for name in names_in(path) if name.endswith(ENDING) and not name.startswith((".", "_"))]
    if not names:
        raise ReadError(f"{path}: there is no file whose name ends in {ENDING} in this folder.")
    with ThreadPoolExecutor(AT_ONCE) as threads:
        seen = list(threads.map(_looked_at, [joined(path, name) for name in names]))
    _check_alike(seen)
    files = tuple(part for _, part in seen)
    facts = [[name, part.n_rows] for name, part in zip(names, files, strict=True)]
    listing = hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:16]
    _FOUND[path, listing] = files
    return Parts(files, tuple(seen[0][0]), listing)


def parts_of(path: str, listing: str) -> tuple[Part, ...]:
    """The files of a folder whose listing is known; another process may have looked at them."""
    found = _FOUND.get((path, listing))
    if found is None:
        parts = find_parts(path)
        if parts.listing != listing:
            raise ReadError(f"{path}: the files in this folder have changed since the work began. Start it again.")
        found = parts.files
    return found


def _is_table(path: str) -> bool:
    """Whether a path is a folder; an address that ends as a parquet file is not, so that its store is not asked."""
    return (not is_remote(path) or not path.lower().endswith(PARQUET)) and is_folder(path)


def _checked(path: str) -> str:
    if not is_remote(path):
        check_path(Path(path))
    if not path.lower().endswith(PARQUET):
        raise ReadError(
            f"{path}: only a parquet file can be read in blocks, or a folder of them. Write it as parquet first: "
            f"{parquet_command(path)}"
        )
    return path


def _looked_at(path: str) -> tuple[dict[str, Any], Part]:
    """The types of the columns of a file by name, and the number of its rows."""
    import polars as pl

    check_polars_works(f"The file {path}", ReadError)
    try:
        if not is_remote(path):
            check_parquet(path)
        lazy = pl.scan_parquet(path, glob=False, hive_partitioning=False)
        return dict(lazy.collect_schema()), Part(path, int(lazy.select(pl.len()).collect().item()))
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError, ValueError) as error:
        raise damaged_parquet(path, error) from None


def _check_alike(seen: Sequence[tuple[dict[str, Any], Part]]) -> None:
    """Refuse files with other columns than the first one."""
    columns, first = seen[0]
    for found, part in seen:
        if list(found.items()) != list(columns.items()):
            raise ReadError(
                f"{part.path}: {_difference(found, columns)} {Path(first.path).name}. All files of a folder must have the "
                "same columns, of the same types and in the same order."
            )


def _difference(found: dict[str, Any], expected: dict[str, Any]) -> str:
    """What differs between the columns of two files, as the beginning of a sentence that ends with the second one."""
    for name, dtype in expected.items():
        if name not in found:
            return f"it has no column {name!r}, unlike"
        if found[name] != dtype:
            return f"the column {name!r} is {found[name]}, and {dtype} in"
    more = [name for name in found if name not in expected]
    return f"it has the column {more[0]!r}, unlike" if more else "its columns are in another order than in"
