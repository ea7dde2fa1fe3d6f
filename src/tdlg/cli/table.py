"""The user's table: its edges, and its columns unchanged for the output."""

from __future__ import annotations

import gzip
import re
import shutil
import sys
import warnings
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import typer

from tdlg.cli.options import Columns, Late
from tdlg.cli.terminal import note, warn
from tdlg.exceptions import ReadError

if TYPE_CHECKING:
    import polars as pl

    from tdlg.edges import TemporalEdges
    from tdlg.io.columns import Source

__all__ = [
    "Table",
    "chosen_columns",
    "looks_like_seconds",
    "note_table",
    "note_words",
    "places",
    "read_pairs",
    "read_table",
]
__all__ += ["text_columns", "unused_in_words"]

STDIN = "-"
AT_ONCE = Late()  # labels are known at the time of their row
LEAST_OF_PAIRS = 2  # least number of columns in a table of pairs
ALL, NONE = "all", "none"  # what --features takes for every column that can be one, and for no features
SHOWN_COLUMNS = 10  # that are named in a message
START = 1000  # bytes that are read to detect the file format


@dataclass(frozen=True)
class Table:
    """A table of interactions.

    Attributes
    ----------
    edges
        Its rows as edges.
    frame
        All columns of the table: as text for csv, with their types for other formats.
    names
        The name of the column for each role: src, dst, time, label, label_time.
    unused
        The columns that are neither a role nor a feature, and why; without a reason if user or command decided it.
    """

    edges: TemporalEdges
    frame: pl.DataFrame
    names: dict[str, str]
    unused: dict[str, str] = field(default_factory=dict)

    def with_columns(self, **added: Any) -> pl.DataFrame:
        """The table with these columns added; a name that is taken gets a number."""
        import polars as pl

        return self.frame.with_columns(pl.Series(self.free_name(name), values) for name, values in added.items())

    def free_name(self, name: str) -> str:
        """The name for an added column, with a number if the name is taken."""
        return next(n for n in (name, *(f"{name}_{k}" for k in range(2, 1000))) if n not in self.frame.columns)


def read_table(
    path: Path,
    columns: Columns,
    label: str | None = None,
    features: Sequence[str] | None = None,
    categories: Sequence[str] | None = None,
    late: Late = AT_ONCE,
) -> Table:
    """Read a table of interactions.

    Parameters
    ----------
    path
        The file, or - for stdin.
    columns
        How to read it.
    label
        The label column; none by default.
    features
        Names of the feature columns; by default those of `columns`, and if it names none, all that can be features.
    categories
        Names of the categorical features; by default those of `columns`.
    late
        When labels became known; by default at the time of their row. A label without a time is refused later, when the
        words for missing labels are known.
    """
    from tdlg.io.read import build_edges

    with _on_disk(path) as file:
        source, frame = _frame(file, columns)
        which, listed = chosen_columns(source, columns, label, late, (features, categories))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # `note_words` reports the same with names of options
            of_times = columns.time_format, columns.time_unit, late.delay
            bipartite = columns.bipartite or None  # which is found out
            how: Any = {"checked": False, "keep_revealing": columns.features == ALL}
            edges, roles, left_out = build_edges(source, which, listed, bipartite, *of_times, **how)
    if not len(edges):
        raise ReadError(f"{path}: the table has a header and no rows.")
    used = {*roles.values(), *places(frame.columns, edges.feature_names)}
    why = [left_out.get(name, "") for name in source.names]
    frame = _without_numbers(frame, source, roles)
    unused = {name: why[at] for at, name in enumerate(frame.columns) if at not in used}
    return Table(edges, frame, {role: frame.columns[at] for role, at in roles.items()}, unused)


def chosen_columns(
    source: Source,
    columns: Columns,
    label: str | None,
    late: Late,
    features: tuple[Sequence[str] | None, Sequence[str] | None] = (None, None),
) -> tuple[dict[str, Any], tuple[list[Any] | None, list[Any]]]:
    """The columns that the user chose, as the library takes them: of each role, features (None if all) and categories.

    Parameters
    ----------
    source
        The table, for its names.
    columns, label, late
        The options of the user.
    features
        Names of features and of categories where the user gives none. By default features are chosen by the library.
    """
    wanted = {"src": columns.src, "dst": columns.dst, "time": columns.time, "label": label}
    which = {role: _which(source, text) for role, text in (wanted | {"label_time": late.label_time}).items()}
    codes = _features(source, columns.categories, features[1])
    text = columns.features
    if text in (ALL, NONE) and text in source.names:
        raise typer.BadParameter(
            f"{text!r} is also the name of a column. Name all columns to use, for example {text},amount.",
            param_hint="--features",
        )
    if text == ALL or (text is None and features[0] is None):
        return which, (None, codes)
    listed = _features(source, "" if text == NONE else text, features[0])
    return which, (listed, codes)


def places(names: Sequence[str], chosen: Sequence[Any]) -> list[int]:
    """The positions of chosen columns, by position, by name, or by a name such as "x (column 4)"."""
    return [at for at, name in enumerate(names) if {at, name, f"{name} (column {at})"} & set(chosen)]


def note_table(table: Table, columns: Columns, more: str = "", *, features: bool = True) -> None:
    """Report what was read, with `more` at the end, what is not used, and suspicious features as in `note_words`.

    Parameters
    ----------
    table, columns, more
        The table, the options it was read with, and what is added to the first line.
    features
        Whether the command can use features; True by default.
    """
    note_words(table.edges, columns)
    what = repr(table.edges).removeprefix("TemporalEdges(").partition(", label")[0].removesuffix(")")
    note(f"read {what}{looks_like_seconds(table.edges)}{more}")
    if table.edges.feature_names and columns.features is None and columns.categories is None:
        note(f"features: {', '.join(table.edges.feature_names)} (change with --features)")
    if table.unused:
        note(f"not used: {unused_in_words(table.unused, features)}")


def unused_in_words(unused: Mapping[str, str], features: bool = True) -> str:
    """The columns that are not used, and why."""
    few, n_more = list(unused.items())[:SHOWN_COLUMNS], len(unused) - SHOWN_COLUMNS
    names = ", ".join(
        [f"{name} ({why})" if why else name for name, why in few] + ([f"{n_more} more"] if n_more > 0 else [])
    )
    return names if features else f"{names} (only source, destination and time are)"


def looks_like_seconds(edges: TemporalEdges) -> str:
    """A hint if the numbers are as large as times since 1970."""
    from tdlg.clock import UNITS, ticks_per_second, unit_in_words

    size = float(abs(edges.ticks).max()) if edges.time_unit is None else 0.0
    units = [unit for unit in UNITS if 6e8 < size / ticks_per_second(unit) < 4e9]
    return f"; if {unit_in_words(units[0])} since 1970: --time-unit {units[0]}" if units else ""


def note_words(edges: TemporalEdges, columns: Columns) -> None:
    """Report features with very many different words, or whose words are numbers in another format.

    Parameters
    ----------
    edges
        The edges that were read.
    columns
        The options they were read with; features named in --categories are not reported.
    """
    from tdlg.io.columns import MANY_WORDS
    from tdlg.tables.text import unread_number

    meant = (columns.categories or "").split(",")
    for name, words in edges.feature_categories.items():
        number = unread_number(words)
        if name not in meant and (number is not None or len(words) > MANY_WORDS):
            hint = "" if number is None else f"; to have numbers, write them as 1234.56 is, not as {number}"
            warn(f"the feature {name!r} is read as {len(words):,} different words, such as {words[0]!r}{hint}")


def read_pairs(path: Path, edges: TemporalEdges, columns: Columns) -> list[tuple[Any, Any]]:
    """Read candidates for links: pairs of ids with the same types as in the edges.

    Parameters
    ----------
    path
        A table of pairs. Its source and destination columns have the given names or common names, or are the first two.
    edges
        The edges whose ids the candidates use.
    columns
        How to read it.
    """
    from tdlg.io.columns import usual_at
    from tdlg.io.files import is_csv

    with _on_disk(path) as file:
        own = columns if is_csv(file) else replace(columns, separator=None)  # it is meant for the other file
        source, frame = _frame(file, own, LEAST_OF_PAIRS)
    at = []
    for place, (role, given) in enumerate((("src", columns.src), ("dst", columns.dst))):
        named = source.names.index(given) if given in source.names else None
        usual = usual_at(source.names, role) if source.has_names else []
        at.append(named if named is not None else usual[0] if usual else place)
    pairs = [
        _as_ids(frame[:, k], ids.dtype.kind == "i", path) for k, ids in zip(at, (edges.src, edges.dst), strict=True)
    ]
    first = tuple(source.names[k] for k in at)
    is_pair = source.has_names and all(name in ids for name, ids in zip(first, (edges.src, edges.dst), strict=True))
    return [*([first] if is_pair else []), *zip(*pairs, strict=True)]  # the first line has ids, not column names


def text_columns(path: Path, names: tuple[str, ...]) -> pl.DataFrame:
    """The first columns of a csv file, as text, or of a parquet file, with these names."""
    import polars as pl

    from tdlg.io.csv import csv_source

    if path.suffix == ".parquet":
        table = pl.read_parquet(path)
        return pl.DataFrame({name: table.to_series(at) for at, name in enumerate(names)})
    source = csv_source(path, None, None, None)
    every = list(range(len(names)))
    read = source.read(every, set(), set(every))
    return pl.DataFrame({name: read[at] for at, name in enumerate(names)})


# ---- reading the file


@contextmanager
def _on_disk(path: Path) -> Iterator[Path]:
    """The file; stdin and pipes are copied to a temporary file."""
    if str(path) != STDIN and not path.is_fifo():
        yield path
        return
    with TemporaryDirectory() as folder:
        file = Path(folder) / ("stdin.csv" if str(path) == STDIN else "pipe.csv")
        with file.open("wb") as copy:
            if str(path) == STDIN:
                shutil.copyfileobj(sys.stdin.buffer, copy)
            else:
                copy.write(path.read_bytes())
        try:
            yield file.rename(file.with_suffix(_suffix(file)))
        except ReadError as error:
            raise error.as_kind(ReadError, error.problem.replace(f"{folder}/", "")) from None


def _suffix(file: Path) -> str:
    """The suffix of the file format, detected from the first bytes."""
    start = _start(file).removeprefix(b"\xef\xbb\xbf")
    return ".parquet" if start[:4] == b"PAR1" else ".jsonl" if re.match(rb"\s*(\{|\[\s*\{)", start) else ".csv"


def _start(file: Path) -> bytes:
    """The first bytes, unpacked; the packed bytes if unpacking fails, which is reported when the file is read."""
    with file.open("rb") as raw:
        start = raw.read(START)
    if not start.startswith(b"\x1f\x8b"):
        return start
    with suppress(OSError, EOFError, zlib.error), gzip.open(file) as packed:
        return packed.read(START)
    return start


def _frame(file: Path, columns: Columns, least: int = 3) -> tuple[Source, pl.DataFrame]:
    """The source and all its columns unchanged, except for blanks around csv values."""
    import polars as pl

    from tdlg.io.files import is_csv
    from tdlg.io.read import file_source

    if columns.separator is not None and not is_csv(file):
        raise typer.BadParameter(
            f"it is for csv files, and {file.name} is not one. Leave out --separator.", param_hint="--separator"
        )
    source = file_source(file, columns.separator, None, columns.time_format, least)
    every = list(range(len(source.names)))
    read = source.read(every, set(), set(every))
    names = [
        name if source.names.index(name) == at else f"{name} (column {at})" for at, name in enumerate(source.names)
    ]
    return source, pl.DataFrame({name: read[at] for at, name in enumerate(names)})


def _which(source: Source, text: str | None) -> str | int | None:
    """The column that the user gave: a name if the table has it, else a position if it is a number."""
    if text is None or (source.has_names and text in source.names) or not text.isdecimal():
        return text
    return int(text)


def _features(source: Source, text: str | None, names: Sequence[str] | None) -> list[Any]:
    """The columns in the comma-separated text, or by default these names."""
    listed = [_ours(source, name) for name in names or []]
    if text is not None:
        listed = [text] if text in source.names else [name.strip() for name in text.split(",") if name.strip()]
    return [_which(source, name) for name in listed]


def _ours(source: Source, name: str) -> str:
    """The position for a name such as "x (column 4)", which features with a repeated name have."""
    found = re.fullmatch(r"(.*) \(column (\d+)\)", name, re.DOTALL)
    return found[2] if found and name not in source.names and source.names.count(found[1]) > 1 else name


def _without_numbers(frame: pl.DataFrame, source: Source, at: dict[str, int]) -> pl.DataFrame:
    """Name the columns of a table without names for the output: src, dst, time, label, column_3."""
    if source.has_names:
        return frame
    role_of = {position: role for role, position in at.items()}
    frame.columns = [role_of.get(position, f"column_{position}") for position in range(frame.width)]
    return frame


def _as_ids(column: pl.Series, are_numbers: bool, path: Path) -> list[Any]:
    import polars as pl

    if not are_numbers:
        return column.cast(pl.String).to_list()
    numbers = column.cast(pl.Int64, strict=False)
    if numbers.null_count():
        wrong = column.filter(numbers.is_null())[0]
        raise ReadError(
            f"{path}: the ids of the edges are numbers, but {wrong!r} in the column {column.name!r} is not a number."
        )
    return numbers.to_list()
