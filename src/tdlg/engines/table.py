"""`scan_edges`: parquet files of edges that are larger than memory, read in blocks of rows, with keys in place of ids.

A `Summary` is what one pass gives; what else is decided about a file depends on it alone. Summaries of blocks can be merged.
The values of labels and the clock are exact. The setting, cuts in time, medians and quartiles are computed from the kept
rows, at most about two million. `tdlg.tables.rows` keeps the same ones of a table in memory, so that both find the same;
except where words mean a missing label, which count as labels here.
"""

from __future__ import annotations

import math
import os
import weakref
from collections import Counter
from collections.abc import Iterable, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from tdlg.atomic import as_path
from tdlg.clock import LAST_TICK, finest, rounded_up
from tdlg.edges import TemporalEdges
from tdlg.engines.executors import run_all, workers_of
from tdlg.engines.files import as_place, is_remote, version_of
from tdlg.exceptions import EdgesError, ReadError
from tdlg.io.columns import Several, Source, Which, choose_features, listed, listed_features, roles
from tdlg.io.csv import write_parquet
from tdlg.io.files import PARQUET, check_path, is_csv
from tdlg.io.parquet import check_parquet, damage_named
from tdlg.io.read import Reading, build_edges, frame_source
from tdlg.tables.column import check_polars_works
from tdlg.tables.labels import LabelRule
from tdlg.tables.rows import KEPT, Keys, id_keys, kept_rows, kept_shares, mixed
from tdlg.tables.text import BEYOND_INT64, CODE, DECIMAL_COMMA, MISSING_WORDS, ONLY_DECIMAL, unread_number
from tdlg.tables.times import PATTERNS, YEAR_LAST, format_of

if TYPE_CHECKING:
    import polars as pl

UPWARDS, DOWNWARDS, LOOP = 0, 1, 2  # last two bits of a pair: source below destination, above it, the same node

FIRST_ROWS = 10_000  # in which features are looked at
ROWS_TO_CHOOSE_BY = 100_000  # from which features are chosen
FILES_AT_ONCE = 16  # files that are looked at together: stores answer late
NUMBERS_AS: dict[str, Any] = {"Int64": int, "Float64": float}
DATE_NUMBERS = r"^(\d{1,2})[-/.](\d{1,2})[-/.](\d{4})"  # how YEAR_LAST begins
ZONE = r":\d{2}\S*\s*(?:[Zz]|UTC|GMT|[+-]\d{2}(?::?\d{2})?)$"
FROM_DAY_FIRST, FROM_MONTH_FIRST = "$3-$2-$1", "$3-$1-$2"  # the year, the month and the day
BLOCKS_AT_ONCE = 256  # blocks whose results are held at once, at most
MOST_VALUES = 20_000  # different labels before they are grouped into classes


class Block(NamedTuple):
    """Rows of a table, from `start` on and before `stop`."""

    start: int
    stop: int


class TableFile(NamedTuple):
    """A file of a table, and the number of its rows."""

    path: str
    n_rows: int


@dataclass(frozen=True, repr=False)
class ScannedEdges:
    """Edges in parquet files that are not read yet; made by `scan_edges`.

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
        For columns of dates such as 31/01/2020, whether the day or the month comes first; alike in all blocks.
    parts
        The files and their numbers of rows.
    unused
        The columns that are neither a role nor a feature, and why; without a reason if the caller decided it.
    rule
        Which values of the label column are missing labels, and which the positive class.
    numbers
        Columns of text that hold numbers, and their type: "Int64", "Float64", or "comma" for numbers with a decimal comma.
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
    parts: tuple[TableFile, ...] = ()
    unused: dict[str, str] = field(default_factory=dict)
    rule: LabelRule = field(default_factory=LabelRule)
    numbers: tuple[tuple[str, str], ...] = ()

    def __repr__(self) -> str:
        parts = [f"{self.n_rows:,} rows of {self.path!r}", *(f"{role}: {name}" for role, name in self.roles.items())]
        parts += [f"features: {', '.join(self.features)}"] if self.features else []
        return f"ScannedEdges({'; '.join(parts)}; not in memory)"

    def __array__(self, *_: Any, **__: Any) -> Any:
        raise self.not_in_memory()

    def not_in_memory(self) -> ReadError:
        """The error of what needs edges in memory."""
        return ReadError(
            f"{self.path}: these edges were scanned and are not in memory.",
            "Use `fill` of PropagationClassifier or BurstDetector.",
            "Or read a table that fits into memory with `read_edges`.",
        )

    def files(self) -> list[str]:
        """The paths of all files, in the order of the rows."""
        return [part.path for part in self.parts]

    def version(self) -> tuple[Any, ...]:
        """What differs between two versions of the files; empty if a store cannot be asked."""
        return tuple(fact for file in self.files() for fact in version_of(file))

    def blocks(self, n_rows: int) -> list[Block]:
        """The whole table in blocks of at most this number of rows."""
        return [Block(start, min(start + n_rows, self.n_rows)) for start in range(0, self.n_rows, n_rows)]

    def frame(self, block: Block, names: list[str] | None = None) -> pl.DataFrame:
        """Some columns of a block as they are; by default all columns."""
        starts = np.append(0, np.cumsum([part.n_rows for part in self.parts]))
        low = min(int(np.searchsorted(starts, block.start, side="right")) - 1, len(self.parts) - 1)
        high = max(int(np.searchsorted(starts, block.stop, side="left")), low + 1)
        lazy = _lazy(self.files()[low:high])
        with damage_named(self.path):
            some = lazy if names is None else lazy.select(list(dict.fromkeys(names)))
            return some.slice(block.start - int(starts[low]), block.stop - block.start).collect()

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
        lazy = _lazy(self.files())
        with damage_named(self.path):
            is_float = lazy.collect_schema()[self.roles["label"]].is_float()
            known = label.is_not_null() & label.is_not_nan() if is_float else label.is_not_null()
            return int(lazy.select(known.sum()).collect(engine="streaming").item())

    def read(self, block: Block, *, with_ids: bool = True, frame: pl.DataFrame | None = None) -> TemporalEdges:
        """The edges of a block, whose ids are keys, or all 0 where ids are not wanted; frame : its rows, if read already."""
        import polars as pl

        ends = {role: self.roles[role] for role in ("src", "dst")}
        if frame is None:
            frame = self.frame(block, [*(ends.values() if with_ids else ()), *self.value_names])
        origin = f"{self.path}, counted from row {block.start + 1:,}"
        try:
            keys = {role: id_keys(frame[name], role).view(np.int64) for role, name in ends.items() if with_ids}
        except EdgesError as error:
            raise error.as_kind(ReadError, f"{origin}: {error.problem}") from None
        frame = frame.with_columns(_as_number(name, kind) for name, kind in self.numbers if name in frame.columns)
        nothing = np.zeros(len(frame), np.int64)
        frame = frame.with_columns(pl.Series(name, keys.get(role, nothing)) for role, name in ends.items())
        frame = frame.with_columns(
            pl.col(name).str.strip_chars().str.replace(DATE_NUMBERS, to) for name, to in self.orders
        )
        source = replace(frame_source(frame), origin=origin)
        how = Reading(
            **cast("dict[str, Any]", self.roles),
            features=list(self.features),
            categories=list(self.categories),
            bipartite=self.bipartite,
            time_format=self.time_format,
            time_unit=self.time_unit,
            label_delay=self.label_delay,
            checked=False,
            with_ids=False,  # they are keys here
            raw_labels=True,
        )
        return build_edges(source, how).edges


def scan_edges(
    path: str | os.PathLike[str],
    *,
    label: Which = None,
    src: Which = None,
    dst: Which = None,
    time: Which = None,
    missing: Iterable[Any] | None = None,
    positive: str | None = None,
    label_time: Which = None,
    label_delay: Any = None,
    features: Several = None,
    categories: Several = None,
    bipartite: bool | None = None,
    time_format: str | None = None,
    time_unit: str | None = None,
    separator: str | None = None,
    as_text: bool = False,
    folder: str | os.PathLike[str] | None = None,
) -> ScannedEdges:
    """Look at a file of edges that may be larger than memory, or at a folder of parquet files, without reading it.

    `PropagationClassifier.fill` and `BurstDetector.fill` work on what is returned, in blocks of rows.

    Parameters
    ----------
    path
        The parquet file, or a folder: its files *.parquet, in the order of their names, are one table. They must have the
        same columns. An address such as "s3://bucket/folder" is read by polars. A csv file or JSON lines are first written
        as parquet, see `tdlg.io.write_parquet`, to a temporary file that is there as long as what is returned.
    label
        The column of labels, by name or position. By default the edges have no labels.
    src, dst, time, missing, positive, label_time, label_delay, categories, bipartite, time_format, time_unit, separator
        The same as for `read_edges`.
    features
        The columns of features. By default they are chosen as by `read_edges`, from the first 100,000 rows; [] for none.
    as_text
        Whether numbers may be written as text, as in a file that was made from csv. The columns of label and features are
        then read once more, to find them. False by default: text is text, but in a csv file.
    folder
        Where the temporary file is made. By default the usual folder of the system for such files.

    Returns
    -------
    ScannedEdges
        The path, the number of rows and the meaning of the columns. It holds no edges.

    Raises
    ------
    ReadError
        If a file is missing, damaged, not parquet or lacks a column, or if dates cannot be read alike in all rows.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from tdlg import scan_edges, write_payments
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "payments.parquet"
    >>> write_payments(path, 2000, random_state=0)
    >>> edges = scan_edges(path, label="fraud")
    >>> edges.n_rows, edges.roles["src"], edges.features
    (2000, 'customer', ('amount',))
    """
    # An absolute path: workers have other current folders.
    place = str(path) if is_remote(str(path)) else os.path.abspath(as_path(path))
    of_labels = label, missing, positive, label_time, label_delay
    how = Reading(src, dst, time, *of_labels, None, features, categories, bipartite, time_format, time_unit)
    file = Path(place)
    if not file.is_file() or file.suffix.lower() in PARQUET:
        return _scanned(place, place, how, as_text)
    with ExitStack() as undo:
        made = undo.enter_context(TemporaryDirectory(prefix=".tdlg-", dir=folder))
        write_parquet(file, target := f"{made}/edges.parquet", separator=separator)
        found = _scanned(place, target, how, as_text or is_csv(file))
        weakref.finalize(found, undo.pop_all().close)
    return found


def _scanned(place: str, path: str, how: Reading, as_text: bool) -> ScannedEdges:
    """The edges of parquet files at a path; `place` is what the user calls it."""
    import polars as pl

    parts = find_parts(path)
    source = Source(place, list(parts.names), True, [], lambda *_: {})  # only its names are used
    at = {role: source.names[position] for role, position in roles(source, how.wanted()).items()}
    n_rows = sum(part.n_rows for part in parts.files)
    if not n_rows:
        raise ReadError(f"{place}: the table has no rows.")
    lazy, left_out = _lazy([part.path for part in parts.files]), {}
    chosen, code_at = listed_features(source, how.features, how.categories)
    codes = [source.names[position] for position in code_at]
    ends_and_times = {at[role] for role in ("src", "dst", "time", "label_time") if role in at}
    if chosen is None:
        values = [name for name in source.names if name not in {*ends_and_times, *codes}]
    else:
        values = [source.names[k] for k in chosen if source.names[k] not in codes]
        values += [at["label"]] if "label" in at else []
    numbers = _numbers(place, lazy, list(dict.fromkeys(values))) if as_text else ()
    lazy = lazy.with_columns(_as_number(name, kind) for name, kind in numbers)
    if chosen is None:
        with damage_named(place):
            first = lazy.head(ROWS_TO_CHOOSE_BY).collect()
        others = {k: first[name] for k, name in enumerate(first.columns) if name not in {*at.values(), *codes}}
        of_label = first[at["label"]] if "label" in at and how.features is None else None
        found = choose_features(others, first.columns, of_label)
        chosen, left_out = found.features, {first.columns[k]: why for k, why in found.left_out.items()}
    every = [source.names[k] for k in chosen]
    every += [name for name in codes if name not in every]
    _check_numbers(place, lazy, [name for name in every if name not in codes])
    orders = []  # of day and month in those columns of times that are text
    for name in [at[role] for role in ("time", "label_time") if role in at and how.time_format is None]:
        with damage_named(place):
            order = _order_of_days(place, lazy, name) if lazy.collect_schema()[name] == pl.String else None
        orders += [] if order is None else [(name, order)]
    unused = {name: left_out.get(name, "") for name in source.names if name not in {*at.values(), *every}}
    of_times = how.time_format, how.time_unit, how.label_delay, tuple(orders)
    of_columns = at, tuple(every), tuple(codes), bool(how.bipartite), *of_times
    missing = None if how.missing is None else tuple(listed(how.missing))
    rule = LabelRule(how.positive, missing, at.get("label", "label"))
    return ScannedEdges(place, n_rows, *of_columns, parts.files, unused, rule, numbers)


# ---- the files of a table


class Parts(NamedTuple):
    """The files of a table in order, and the names of their columns."""

    files: tuple[TableFile, ...]
    names: tuple[str, ...]


def find_parts(path: str) -> Parts:
    """Look at a parquet file, or at those of a folder in the order of their names, which must have the same columns."""
    is_file = path.lower().endswith(PARQUET) if is_remote(path) else not os.path.isdir(path)
    if is_file or not as_place(path).is_dir():  # of an address that ends as a parquet file, the store is not asked
        if not is_remote(path) and not os.path.exists(path):
            check_path(Path(path))  # which says what is missing
        if not path.lower().endswith(PARQUET):
            raise ReadError(f"{path}: only a parquet file can be read in blocks, or a folder of them.")
        paths = [path]
    else:
        found = sorted(file.name for file in as_place(path).iterdir() if file.is_file())
        names = [name for name in found if name.endswith(".parquet") and not name.startswith((".", "_"))]
        paths = [f"{path.rstrip('/')}/{name}" for name in names]
    if not paths:
        raise ReadError(f"{path}: there is no file whose name ends in .parquet in this folder.")
    with ThreadPoolExecutor(FILES_AT_ONCE) as threads:
        seen = list(threads.map(_looked_at, paths))
    columns, first = seen[0]
    for schema, part in seen:
        if list(schema.items()) != list(columns.items()):
            raise ReadError(
                f"{part.path}: {_difference(schema, columns)} {Path(first.path).name}. All files of a folder must have the "
                "same columns, of the same types and in the same order."
            )
    return Parts(tuple(part for _, part in seen), tuple(columns))


def _looked_at(path: str) -> tuple[dict[str, Any], TableFile]:
    """The types of the columns of a file by name, and the number of its rows."""
    import polars as pl

    check_polars_works(f"The file {path}", ReadError)
    with damage_named(path):
        if not is_remote(path):
            check_parquet(path)
        lazy = _lazy([path])
        return dict(lazy.collect_schema()), TableFile(path, int(lazy.select(pl.len()).collect().item()))


def _difference(found: dict[str, Any], expected: dict[str, Any]) -> str:
    """What differs between the columns of two files, as the beginning of a sentence that ends with the second one."""
    for name, dtype in expected.items():
        if name not in found:
            return f"it has no column {name!r}, unlike"
        if found[name] != dtype:
            return f"the column {name!r} is {found[name]}, and {dtype} in"
    more = [name for name in found if name not in expected]
    return f"it has the column {more[0]!r}, unlike" if more else "its columns are in another order than in"


def _lazy(paths: list[str]) -> pl.LazyFrame:
    """Files as one table, with the columns that are in them and no others."""
    import polars as pl

    return pl.scan_parquet(paths, glob=False, hive_partitioning=False)


# ---- what is decided once for the whole table


def _numbers(path: str, lazy: pl.LazyFrame, names: list[str]) -> tuple[tuple[str, str], ...]:
    """Those columns of text that hold nothing but numbers, with their types; in constant memory."""
    import polars as pl

    text = [name for name in names if lazy.collect_schema()[name] == pl.String]
    asked: dict[str, pl.Expr] = {}
    for k, name in enumerate(text):
        written = pl.col(name).filter(~pl.col(name).str.to_lowercase().is_in(MISSING_WORDS))
        failed = {kind: written.cast(dtype, strict=False).null_count() for kind, dtype in NUMBERS_AS.items()}
        asked |= {f"{k} {kind}": count for kind, count in failed.items()}
        asked |= {f"{k} none": written.len() == 0, f"{k} code": written.str.contains(CODE).any()}
        asked |= {f"{k} comma": (~written.str.contains(DECIMAL_COMMA)).sum()}
        asked |= {f"{k} sure": written.str.contains(ONLY_DECIMAL).any()}
        asked |= {f"{k} beyond": written.str.contains(BEYOND_INT64).any()}
    if not text:
        return ()
    with damage_named(path):
        found = lazy.select(**asked).collect(engine="streaming").row(0, named=True)
    kinds = {}
    for k, name in enumerate(text):
        if found[f"{k} none"] or found[f"{k} code"]:
            continue
        fits = [kind for kind in (*NUMBERS_AS, "comma") if not found[f"{k} {kind}"]]
        if fits[:1] != ["Int64"] and found[f"{k} beyond"]:  # a float could not hold it exactly
            continue
        if fits and (fits[0] != "comma" or found[f"{k} sure"]):
            kinds[name] = fits[0]
    return tuple(kinds.items())


def _as_number(name: str, kind: str) -> pl.Expr:
    import polars as pl

    text = pl.col(name)
    if kind == "comma":
        text = text.str.replace_all(".", "", literal=True).str.replace(",", ".", literal=True)
    return text.cast(pl.Int64 if kind == "Int64" else pl.Float64, strict=False)


def _check_numbers(path: str, lazy: pl.LazyFrame, names: list[str]) -> None:
    """Refuse features whose first values are text such as 52,98: they would be categories, each of a few rows."""
    import polars as pl

    text = [name for name in names if lazy.collect_schema()[name] == pl.String]
    with damage_named(path):
        start = lazy.select(text).head(FIRST_ROWS).collect()
    for name in text:
        number = unread_number(start[name].drop_nulls().unique().to_list())
        if number is not None:
            raise ReadError(
                f"{path}: the feature {name!r} is text such as {number!r}. Write it as numbers such as 1234.56.",
                f"Pass categories={name!r} for codes.",
                parameter="features",
            )


def _order_of_days(path: str, lazy: pl.LazyFrame, name: str) -> str | None:
    """Whether the day or the month comes first in a column of dates such as 31/01/2020; None for other times.

    The column is read once, in constant memory.
    """
    import polars as pl

    text = pl.col(name).str.strip_chars()
    forms = {f"form {k}": text.str.contains(pattern).sum() for k, pattern in enumerate(PATTERNS)}
    numbers = {f"number {k}": text.str.extract(DATE_NUMBERS, k).cast(pl.Int64).max().fill_null(0) for k in (1, 2)}
    differ = text.str.extract(DATE_NUMBERS, 1).cast(pl.Int64) != text.str.extract(DATE_NUMBERS, 2).cast(pl.Int64)
    asked = lazy.select(**forms, **numbers, zone=text.str.contains(ZONE).sum(), first=text.first(), differ=differ.any())
    found = asked.collect(engine="streaming").row(0, named=True)
    used = [found[key] for key in forms if found[key]]
    if len(used) > 1:
        raise ReadError(
            f"{path}: the dates in the column {name!r} are written in several ways. Write all in the same way."
        )
    if 0 < found["zone"] < sum(used):
        raise ReadError(f"{path}: some times in the column {name!r} have a time zone, and others have none.")
    if not found[f"form {PATTERNS.index(YEAR_LAST)}"]:
        return None
    day, month = (found[f"number {k}"] > 12 for k in (1, 2))
    if day and month:
        raise ReadError(
            f"{path}: in the column {name!r} the day comes first in some dates and the month in others. Write all in the "
            "same order."
        )
    if not day and not month and found["differ"]:
        raise ReadError(
            f"{path}: the column {name!r} is ambiguous: dates such as {found['first']!r} can be day/month or month/day, and "
            "no row has a number above 12, which would be the day.",
            f"Pass time_format={format_of(found['first'], 'dm')!r} if the day comes first.",
            f"Pass time_format={format_of(found['first'], 'md')!r} if the month comes first.",
        )
    return FROM_MONTH_FIRST if month else FROM_DAY_FIRST


# ---- keys


def joint_keys(first: Keys, second: Keys) -> Keys:
    """A key for two keys, in this order."""
    return mixed(mixed(first) + second)


def pair_keys(src: Keys, dst: Keys) -> Keys:
    """Keys of ordered pairs; a pair and its reverse fall into the same bucket, and differ in the last bit."""
    way = np.where(src < dst, UPWARDS, np.where(src > dst, DOWNWARDS, LOOP)).astype(np.uint64)
    return (joint_keys(np.minimum(src, dst), np.maximum(src, dst)) & ~np.uint64(3)) | way


def reversed_pairs(pairs: Keys) -> Keys:
    """The keys of the same pairs, with source and destination exchanged."""
    return np.where(pairs & np.uint64(LOOP), pairs, pairs ^ np.uint64(1))


def bucket_of(keys: Keys, n_buckets: int) -> NDArray[np.uint16]:
    """The bucket of each key: buckets are ranges of keys of the same width."""
    return ((keys >> np.uint64(32)) * np.uint64(n_buckets) >> np.uint64(32)).astype(np.uint16)


# ---- the summary: what one pass over all blocks gives


@dataclass(frozen=True)
class LabelCodes:
    """Which class each value of the label column means, from 0; -1 if the value means that the label is missing."""

    values: tuple[Any, ...] = ()
    codes: tuple[int, ...] = ()

    def codes_of(self, edges: TemporalEdges) -> NDArray[np.int16]:
        """The class of each edge; -1 if its label is missing."""
        found = np.full(len(edges), -1, np.int16)
        if edges.label is None or not self.values:
            return found
        known = edges.labelled
        if edges.label.dtype.kind == "O":
            code_of = dict(zip(self.values, self.codes, strict=True))
            found[known] = np.fromiter((code_of[value] for value in edges.label[known]), np.int16)
            return found
        values = np.array(self.values)
        order = np.argsort(values)
        found[known] = np.array(self.codes, np.int16)[order][np.searchsorted(values[order], edges.label[known])]
        return found


@dataclass(frozen=True)
class TableClock:
    """On which all times of a table are counted.

    unit : the unit of the ticks, None for numbers; dtype : their type, "i8" or "f8"; low, high : the first and the last
    time, in ticks; step : ticks that divide the distances of all times and times of labels from `low`, such as 1000 for
    whole seconds on a clock of milliseconds; 1 for floats, and 0 as long as there is only one time.
    """

    unit: str | None
    dtype: str
    low: Any
    high: Any
    step: int = 1

    @classmethod
    def of(cls, edges: TemporalEdges) -> TableClock:
        """The clock of edges and of their labels."""
        ticks = edges.ticks
        low, step = ticks.min().item(), 1
        if ticks.dtype.kind == "i":
            late = edges.label_ticks
            known = ticks[:0] if late is None else late[edges.labelled & (late < LAST_TICK)]
            step = math.gcd(*(int(np.gcd.reduce(some - low)) for some in (ticks, known)))
        return cls(edges.time_unit, ticks.dtype.str[1:], low, ticks.max().item(), step)

    def merged(self, other: TableClock) -> TableClock:
        """The clock of the times of both, which are either all datetimes or all numbers."""
        unit, dtype = finest(self.unit, other.unit), max(self.dtype, other.dtype, key=("i8", "f8").index)
        both = [(np.array([clock.low, clock.high]), clock.unit) for clock in (self, other)]
        ends = [rounded_up(*of_clock, unit, np.dtype(dtype)).tolist() for of_clock in both]
        step = 1
        if dtype == "i8" and self.unit == other.unit:
            step = math.gcd(self.step, other.step, self.low - other.low)
        return TableClock(unit, dtype, min(low for low, _ in ends), max(high for _, high in ends), step)

    def ticks(self, edges: TemporalEdges) -> NDArray[Any]:
        """The times of edges on this clock."""
        return rounded_up(edges.ticks, edges.time_unit, self.unit, np.dtype(self.dtype))

    def known(self, edges: TemporalEdges) -> NDArray[Any] | None:
        """When the labels of edges became known, on this clock and never before the edge; None if at once."""
        late = edges.label_ticks
        if late is None:
            return None
        return np.maximum(rounded_up(late, edges.time_unit, self.unit, np.dtype(self.dtype)), self.ticks(edges))


class Summary(NamedTuple):
    """What is known of a table, or of some of its blocks.

    clock : the clock of all times; labels : how often each value of the label column occurs; late : whether labels have
    times at which they became known; rows, values : the numbers of the kept rows, and their times, labels and features as
    the file has them; shares : the share of the rows that was kept, of those with a label and of those without.
    """

    clock: TableClock
    labels: Counter[Any]
    late: bool
    rows: NDArray[np.int64]
    values: pl.DataFrame
    shares: tuple[float, float]

    def merged(self, other: Summary) -> Summary:
        """The summary of the blocks of both."""
        return self._replace(
            clock=self.clock.merged(other.clock),
            labels=self.labels + other.labels,
            rows=np.append(self.rows, other.rows),
            values=self.values.vstack(other.values),
        )

    def kept(self, table: ScannedEdges, *features: str) -> TemporalEdges:
        """The kept rows as edges with some of their features, all between the same two nodes."""
        categories = tuple(name for name in table.categories if name in features)
        few = replace(table, features=features, categories=categories)
        return few.read(Block(0, len(self.rows)), with_ids=False, frame=self.values)


class BlockTask(NamedTuple):
    """A block of a table to look at; shares : see `Summary`."""

    table: ScannedEdges
    block: Block
    shares: tuple[float, float]


def summarise_table(engine: Executor, table: ScannedEdges, blocks: Sequence[Block]) -> Summary:
    """Read all blocks once; of a large table, the missing labels are counted before."""
    shares = (1.0, 1.0)
    if table.n_rows > KEPT:
        n_known = run_all(engine, ScannedEdges.n_known, [table])[0]
        shares = kept_shares(n_known, table.n_rows - n_known)
    tasks = [BlockTask(table, block, shares) for block in blocks]
    at_once = min(8 * workers_of(engine).n_threads, BLOCKS_AT_ONCE)
    total: Summary | None = None
    for start in range(0, len(tasks), at_once):
        for part in run_all(engine, summarise_block, tasks[start : start + at_once]):
            if total is not None and (total.clock.unit is None) != (part.clock.unit is None):
                raise ReadError(
                    f"{table.path}: some of the times are dates and others are numbers. Write all in the same way."
                )
            total = part if total is None else total.merged(part)
            _check_values(table, total.labels)
    assert total is not None
    return total._replace(clock=replace(total.clock, step=total.clock.step or 1))


def summarise_block(task: BlockTask) -> Summary:
    """The summary of one block."""
    table = task.table
    frame = table.frame(task.block, table.value_names)
    edges = table.read(task.block, with_ids=False, frame=frame)
    counts: Counter[Any] = Counter()
    if edges.label is not None and edges.label.dtype.kind == "O":
        counts.update(edges.label[edges.labelled].tolist())
    elif edges.label is not None:
        values, times = np.unique(edges.label[edges.labelled], return_counts=True)
        counts.update(dict(zip(values.tolist(), times.tolist(), strict=True)))
    _check_values(table, counts)
    late = edges.label is not None and ("label_time" in table.roles or table.label_delay is not None)
    rows = kept_rows(edges.labelled, task.shares, task.block.start)
    kept = frame if len(rows) == len(frame) else frame[rows]
    return Summary(TableClock.of(edges), counts, late, rows + task.block.start, kept, task.shares)


def _check_values(table: ScannedEdges, values: Counter[Any]) -> None:
    if len(values) > MOST_VALUES:
        raise ReadError(
            f"{table.path}: the column {table.roles['label']!r} has more than {MOST_VALUES:,} different values, too many "
            "for classes. Write a column with a few classes to the file."
        )
