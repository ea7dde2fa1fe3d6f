"""Tables that commands read: in memory, or on disk where they are large, and what is said of them."""

from __future__ import annotations

import gzip
import json
import re
import shlex
import shutil
import sys
import warnings
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from tdlg import memory as memory_of_machine
from tdlg.cli.options import Columns, Late, as_usage, wrong
from tdlg.cli.output import count, note, progress, warn
from tdlg.exceptions import ReadError, TooLargeError
from tdlg.io.files import PARQUET, is_csv
from tdlg.memory import Needs, in_bytes

if TYPE_CHECKING:
    import polars as pl

    from tdlg.edges import TemporalEdges
    from tdlg.engines.table import ScannedEdges
    from tdlg.io.read import Table

STDIN = "-"
AT_ONCE = Late()  # labels are known at the time of their row
LEAST_OF_PAIRS = 2  # least number of columns in a table of pairs
SHOWN_COLUMNS = 10  # that are named in a message
START = 1000  # bytes that are read to detect the file format

RANKING = Needs(5e8, 250, 2500)  # rank, and links by default
LINE_GRAPH = Needs(5e8, 300)  # the line-graph classifier
LINE_GRAPH_OF_LINKS = Needs(4.5e8, 650)  # the paper's link prediction, with as many pairs that are not links
TEXT_BYTES = 12  # memory per byte of a text file, roughly
START_OF_TEXT = 1 << 16  # bytes of a text file by which its number of rows is estimated
COMPRESSED = (".gz", ".zip", ".zst", ".xz", ".bz2")  # their number of rows is not estimated
ROUND = 100_000  # rows to which a number of rows that fit is rounded


# ---- in memory


def read_table(
    path: Path,
    columns: Columns,
    label: str | None = None,
    late: Late = AT_ONCE,
    *,
    features: Sequence[str] | None = None,
    categories: Sequence[str] | None = None,
    **labels: Any,
) -> Table:
    """Read a table of interactions from a file, stdin or a pipe.

    features, categories : the columns, where the user names none; labels : further arguments of `tdlg.io.read_table`.
    """
    from tdlg.io.read import read_table

    given = asdict(columns)
    given["features"] = columns.features if features is None else features
    given["categories"] = columns.categories if categories is None else categories
    with _on_disk(path) as file:
        _check_separator(file, columns)
        late_times: dict[str, Any] = {"label_time": late.label_time, "label_delay": late.delay}
        given["bipartite"] = columns.bipartite or None  # which is found out
        table = read_table(file, label=label, **late_times, **given, **labels)
        if file != path:
            _ = table.frame  # before the file is gone
    return table


def listed(words: str | None) -> list[str] | None:
    """The words of --missing."""
    return None if words is None else words.split(",")


def read_pairs(path: Path, edges: TemporalEdges, columns: Columns) -> list[tuple[Any, Any]]:
    """Candidates for links, as ids of the types of the edges: columns with the names given or usual, else the first two."""
    import polars as pl

    from tdlg.io.columns import usual_at
    from tdlg.io.read import file_source

    with _on_disk(path) as file:
        source = file_source(file, columns.separator if is_csv(file) else None, least=LEAST_OF_PAIRS)
        every = list(range(len(source.names)))
        read = source.read(every, set(), set(every))
    at = []
    for place, (role, given) in enumerate((("src", columns.src), ("dst", columns.dst))):
        named = source.names.index(given) if given in source.names else None
        usual = usual_at(source.names, role) if source.has_names else []
        at.append(named if named is not None else usual[0] if usual else place)
    pairs: list[list[Any]] = []
    for k, ids in zip(at, (edges.src, edges.dst), strict=True):
        column, name = pl.Series(read[k]), source.names[k]
        numbers = column.cast(pl.Int64, strict=False)
        if ids.dtype.kind == "i" and numbers.null_count():
            wrong_id = column.filter(numbers.is_null())[0]
            raise ReadError(
                f"{path}: the ids of the edges are numbers, but {wrong_id!r} in the column {name!r} is not a number."
            )
        pairs.append((numbers if ids.dtype.kind == "i" else column.cast(pl.String)).to_list())
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
    every = list(range(len(names)))
    read = csv_source(path, None, None, None).read(every, set(), set(every))
    return pl.DataFrame({name: read[at] for at, name in enumerate(names)})


def _check_separator(path: Path | str, columns: Columns) -> None:
    if columns.separator is not None and not is_csv(Path(path)):
        raise wrong("--separator", f"it is for csv files, and {Path(path).name} is not one. Leave out --separator.")


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


# ---- what is said of a table


def note_table(table: Table, columns: Columns, more: str = "", *, features: bool = True) -> None:
    """Report what was read, with `more` at the end of the first line, and what is not used.

    features : whether the command can use features.
    """
    note_words(table.edges, columns)
    from tdlg.edges import span_in_words

    edges = table.edges
    kinds = ", bipartite" if edges.bipartite and edges.label is None else ""
    read = f"{count(len(edges), 'edge')}, {count(edges.n_nodes, 'node')}, {span_in_words(edges.time)}{kinds}"
    note(f"read {read}{looks_like_seconds(edges)}{more}")
    if edges.feature_names and columns.features is None and columns.categories is None:
        note(f"features: {', '.join(edges.feature_names)} (change with --features)")
    if table.unused:
        note(f"not used: {unused_in_words(table.unused, features)}")


def unused_in_words(unused: Mapping[str, str], features: bool = True) -> str:
    """The columns that are not used, and why."""
    few, n_more = list(unused.items())[:SHOWN_COLUMNS], len(unused) - SHOWN_COLUMNS
    names = [f"{name} ({why})" if why else name for name, why in few] + [f"{n_more} more"] * (n_more > 0)
    return ", ".join(names) + ("" if features else " (only source, destination and time are)")


def looks_like_seconds(edges: TemporalEdges) -> str:
    """A hint if the numbers are as large as times since 1970."""
    from tdlg.clock import UNITS, ticks_per_second, unit_in_words

    size = float(abs(edges.ticks).max()) if edges.time_unit is None else 0.0
    units = [unit for unit in UNITS if 6e8 < size / ticks_per_second(unit) < 4e9]
    return f"; if {unit_in_words(units[0])} since 1970: --time-unit {units[0]}" if units else ""


def note_words(edges: TemporalEdges, columns: Columns) -> None:
    """Report features with very many different words, or whose words are numbers in another format."""
    from tdlg.io.columns import MANY_WORDS
    from tdlg.tables.text import unread_number

    meant = (columns.categories or "").split(",")
    for name, words in edges.feature_categories.items():
        number = unread_number(words)
        if name not in meant and (number is not None or len(words) > MANY_WORDS):
            hint = "" if number is None else f"; to have numbers, write them as 1234.56 is, not as {number}"
            warn(f"the feature {name!r} is read as {len(words):,} different words, such as {words[0]!r}{hint}")


def labels_read(edges: TemporalEdges) -> str:
    """The numbers of known and of missing labels."""
    n_known = int(edges.labelled.sum())
    return f"; {count(n_known, 'known label')}, {len(edges) - n_known:,} missing"


def note_known_at_once(edges: TemporalEdges) -> None:
    """Say that labels are taken as known at once, if it is not given when they became known."""
    if edges.label_ticks is None:
        note(
            "labels are taken as known at the time of their interaction; use --label-time or --label-delay if they arrive "
            "later"
        )


def note_setting(setting: str, why: str | None, scales: str) -> None:
    """Report the setting of a model and why it was chosen, and its time scales in words."""
    note(
        f"setting: {setting}" + (" (given by --setting)" if why is None else f", because {why} (change with --setting)")
    )
    if scales:
        note(f"time scales: {scales}")


# ---- what fits into memory


def check_fits(path: Path, needs: Needs, *instead: str) -> None:
    """Refuse a table that does not fit into the free memory before it is read, and say what else can be done.

    Of text, the number of rows is estimated; a compressed file is not looked at.
    """
    is_parquet, free = path.suffix.lower() in PARQUET, memory_of_machine.free_bytes()
    n_rows = parquet_rows(path) if is_parquet else _rows_of_text(path)
    if n_rows is None or needs.bytes(n_rows) <= free:
        return
    n_fit = needs.n_rows(free) // ROUND * ROUND
    code = f'import polars; polars.scan_parquet({json.dumps(str(path))}).tail({n_fit}).sink_parquet("part.parquet")'
    fits = f"The last {n_fit:,} rows fit" if n_fit else "Use a machine with more memory"
    raise TooLargeError(
        f"{path}: {'' if is_parquet else 'about '}{n_rows:,} rows need about {in_bytes(needs.bytes(n_rows))} of memory, and "
        f"{in_bytes(free)} are free.",
        *instead,
        f"{fits}: python -c {shlex.quote(code)}" if n_fit and is_parquet else f"{fits}.",
    )


def parquet_rows(path: Path) -> int | None:
    """The number of rows of a parquet file; None for anything else."""
    if path.suffix.lower() not in PARQUET or not path.is_file():
        return None
    import polars as pl

    try:
        return int(pl.scan_parquet(path).select(pl.len()).collect().item())
    except (pl.exceptions.PolarsError, OSError):
        return None  # reported when it is read


def _rows_of_text(path: Path) -> int | None:
    """The number of rows of a text file, estimated from its beginning; None for anything else."""
    if path.suffix.lower() in COMPRESSED or not path.is_file():
        return None
    with path.open("rb") as file:
        start = file.read(START_OF_TEXT)
    n_lines = start.count(b"\n")
    return path.stat().st_size * n_lines // len(start) if n_lines else None


def reason_for_disk(path: Path, *, two_ends: bool | None = None) -> str | None:
    """Why a table is processed on disk, in words; None if it goes through memory. See `why_on_disk` for the rule.

    A folder of nothing but parquet files is, whatever its size, and text that does not fit.
    """
    from tdlg.models.files import why_on_disk

    if path.is_dir():
        files = [file for file in path.iterdir() if file.is_file() and not file.name.startswith((".", "_"))]
        is_table = bool(files) and all(file.suffix == ".parquet" for file in files)
        return "a folder is read in blocks" if is_table else None
    n_rows = parquet_rows(path)
    if n_rows is not None:
        return why_on_disk(n_rows, two_ends=two_ends)
    if path.is_file() and TEXT_BYTES * path.stat().st_size > memory_of_machine.free_bytes():
        needed = in_bytes(TEXT_BYTES * path.stat().st_size)
        return f"the text needs about {needed} of memory, and {in_bytes(memory_of_machine.free_bytes())} are free"
    return None


# ---- on disk


class Where(NamedTuple):
    """A table that is processed on disk: where it is and where the result goes, and the values of --memory and --engine."""

    path: str
    output: str
    memory: str | None
    engine: str | None

    @classmethod
    def of(
        cls, path: Path, output: Path | None, memory: str | None, engine: str | None, others: dict[str, Any]
    ) -> Self:
        """Refuse other options that need all rows in memory, and output that is not a file."""
        from tdlg.engines.run import Output
        from tdlg.memory import as_bytes

        given = "with --engine" if engine is not None else "with --memory" if memory is not None else None
        why = given or ("for a folder" if path.is_dir() else f"for a table as large as {path.name}")
        for name, value in others.items():
            if value:
                problem = f"it needs all rows in memory at once, which is not possible {why}."
                raise wrong(name, f"{problem} Leave out {name}, or take a part of the rows.")
        if output is None or str(output) == "-":
            problem = f"a file is needed {why}: the result is written in blocks. Give -o FILE, .parquet or .csv."
            raise wrong("--output", problem)
        with as_usage("memory", "--memory"), as_usage("path", "--output"):
            Output.of(address(output))
            as_bytes(memory or "2GB")
        return cls(address(path), address(output), memory, engine)

    def fill(self, model: Any, scanned: ScannedEdges, **how: Any) -> Any:
        """Let the model fill in the table, with a progress bar."""
        with progress() as show:
            return model.fill(scanned, self.output, memory=self.memory, engine=self.engine, callback=show, **how)


def address(path: Path) -> str:
    """A path as text; an address such as s3://bucket/folder gets back the slash that paths lose."""
    return re.sub(r"^([a-z][a-z0-9+]+):/(?=[^/])", r"\1://", str(path))


@contextmanager
def scanned(
    path: str,
    columns: Columns,
    label: str | None = None,
    late: Late = AT_ONCE,
    *,
    beside: str | None = None,
    features: bool = True,
    **labels: Any,
) -> Iterator[tuple[ScannedEdges, dict[str, str]]]:
    """A large table, and why columns of it are not used; text is first written as parquet, beside the output.

    labels : the values of positive and missing.
    """
    from tdlg.engines.table import Block, scan_edges

    given = asdict(columns if features else replace(columns, features="none", categories=None))
    given.pop("separator")
    with _as_parquet(path, columns, beside) as (file, as_text):
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "The (column|feature) '")  # what is not used is reported with the reason
            late_times: dict[str, Any] = {"label_time": late.label_time, "label_delay": late.delay}
            found = scan_edges(file, label=label, as_text=as_text, **late_times, **given, **labels)
        used = {*found.roles.values(), *found.features}
        names = found.frame(Block(0, 0)).columns
        yield found, {name: found.left_out.get(name, "") for name in names if name not in used}


@contextmanager
def _as_parquet(path: str, columns: Columns, beside: str | None) -> Iterator[tuple[str, bool]]:
    """The table as parquet, and whether it was text, which is written to a temporary file."""
    file = Path(path)
    if not file.is_file() or file.suffix.lower() in PARQUET:
        _check_separator("folder.parquet" if file.is_dir() else path, columns)
        yield path, False
        return
    from tdlg.io.csv import write_parquet

    _check_separator(path, columns)
    place = None if beside is None or "://" in beside else Path(beside).absolute().parent
    with TemporaryDirectory(prefix=".tdlg-", dir=place) as folder:
        note("writing the text as parquet, to process it on disk")
        target = Path(folder) / f"{file.name}.parquet"
        write_parquet(file, target, separator=columns.separator)
        try:
            yield str(target), is_csv(file)
        except ReadError as error:
            raise error.as_kind(ReadError, error.problem.replace(str(target), path)) from None
