"""Tables that commands read: in memory, or on disk where they are large, and what is said of them."""

from __future__ import annotations

import re
import sys
import warnings
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Self

from tdlg.cli.options import Columns, FeatureColumns, Labels, as_usage, wrong
from tdlg.cli.output import note, progress, warn
from tdlg.clock import unit_in_words, unit_since_1970
from tdlg.edges import TemporalEdges, span_in_words
from tdlg.exceptions import ReadError, TdlgError
from tdlg.io import read
from tdlg.io.columns import MANY_WORDS
from tdlg.io.files import PARQUET, is_csv
from tdlg.io.read import Table, unused_in_words
from tdlg.memory import as_bytes
from tdlg.tables.text import count, unread_number

if TYPE_CHECKING:
    from tdlg.engines.table import ScannedEdges

STDIN = "-"
START = 1000  # bytes that are read to detect the file format


def how_to_read(columns: Columns, labels: Labels | None = None) -> dict[str, Any]:
    """The arguments of functions of the library that read a table."""
    given = {**asdict(columns), **({} if labels is None else labels.as_given())}
    return given | {"bipartite": given.get("bipartite") or None}  # by default it is found out


def read_table(path: Path, columns: Columns, labels: Labels | None = None, **more: Any) -> Table:
    """Read a table of interactions from a file, stdin or a pipe, by default without features.

    more : further arguments of `tdlg.io.read_table`.
    """
    with on_disk(path, columns) as file:
        table = read.read_table(file, **{"features": (), **how_to_read(columns, labels), **more})
        if file != path:
            _ = table.frame  # before the file is gone
    return table


@contextmanager
def on_disk(path: Path, columns: Columns) -> Iterator[Path]:
    """The file; stdin and pipes are copied to a temporary file, whose suffix shows what they hold."""
    if str(path) != STDIN and not path.is_fifo():
        check_separator(path, columns)
        yield path
        return
    data = sys.stdin.buffer.read() if str(path) == STDIN else path.read_bytes()
    start = data[:START]
    with suppress(zlib.error):  # reported when the file is read
        start = zlib.decompressobj(31).decompress(data, START) if data.startswith(b"\x1f\x8b") else start
    start = start.removeprefix(b"\xef\xbb\xbf")
    kind = ".parquet" if start[:4] == b"PAR1" else ".jsonl" if re.match(rb"\s*(\{|\[\s*\{)", start) else ".csv"
    with TemporaryDirectory() as folder:
        file = Path(folder) / f"{'stdin' if str(path) == STDIN else 'pipe'}{kind}"
        file.write_bytes(data)
        check_separator(file, columns)
        try:
            yield file
        except TdlgError as error:
            raise error.as_kind(type(error), error.problem.replace(f"{folder}/", "")) from None


@contextmanager
def queried(query: str, database: Path) -> Iterator[Path]:
    """What a query of a DuckDB database gives, as a parquet file while a command runs."""
    try:
        import duckdb
    except ImportError:
        raise wrong("--from", "it needs DuckDB, which is not installed. From a clone: pip install '.[sql]'.") from None
    with TemporaryDirectory() as folder:
        file = Path(folder) / "query.parquet"
        try:
            with duckdb.connect(str(database), read_only=True) as connection:
                connection.execute("set python_enable_replacements = false")  # names are tables, not our variables
                statements = connection.extract_statements(query)
                if [statement.type for statement in statements] != [duckdb.StatementType.SELECT]:
                    raise wrong("--from", f"it takes one query that begins with select or from. Got {query!r}.")
                table = connection.sql(statements[0].query)
                ids = [name for name, kind in zip(table.columns, table.types, strict=True) if str(kind) == "UUID"]
                if ids:  # parquet would hold their bytes
                    quoted = ['"' + name.replace('"', '""') + '"' for name in ids]
                    table = table.project(f"* replace ({', '.join(f'{name}::varchar as {name}' for name in quoted)})")
                table.write_parquet(str(file))
        except duckdb.Error as error:
            raise ReadError(f"{database}: {str(error).splitlines()[0]}") from None
        try:
            yield file
        except TdlgError as error:
            raise error.as_kind(type(error), error.problem.replace(f"{folder}/", "")) from None


def check_separator(path: Path, columns: Columns) -> None:
    """Refuse a separator for what is not csv."""
    if columns.separator is not None and (path.is_dir() or not is_csv(path)):
        raise wrong("--separator", f"it is for csv files, and {path.name} is not one. Leave out --separator.")


# ---- what is said of a table


def note_table(table: Table, columns: Columns, more: str = "", *, features: bool = True) -> None:
    """Report what was read, with `more` at the end of the first line, and what is not used.

    features : whether the command can use features.
    """
    edges = table.edges
    note_words(edges, columns)
    kinds = ", bipartite" if edges.bipartite and edges.label is None else ""
    read = f"{count(len(edges), 'edge')}, {count(edges.n_nodes, 'node')}, {span_in_words(edges.time)}{kinds}"
    unit = None if edges.time_unit is not None else unit_since_1970(edges.ticks)
    hint = "" if unit is None else f"; if {unit_in_words(unit)} since 1970: --time-unit {unit}"
    note(f"read {read}{hint}{more}")
    note_columns(edges.feature_names, table.unused, columns, features=features)


def note_columns(used: tuple[str, ...], unused: Mapping[str, str], columns: Columns, *, features: bool = True) -> None:
    """Report which columns are features where the user names none, and which are not used."""
    is_open = isinstance(columns, FeatureColumns) and columns.features is None and columns.categories is None
    if used and is_open:
        note(f"features: {', '.join(used)} (change with --features)")
    if unused:
        note(f"not used: {unused_in_words(unused)}" + ("" if features else " (only source, destination and time are)"))


def note_words(edges: TemporalEdges, columns: Columns) -> None:
    """Report features with very many different words, or whose words are numbers in another format."""
    meant = (getattr(columns, "categories", None) or "").split(",")
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
        given = "use --label-time or --label-delay if they arrive later"
        note(f"labels are taken as known at the time of their interaction; {given}")


# ---- on disk


@dataclass(frozen=True)
class OnDisk:
    """A table that is processed on disk, where the result goes, and the values of --memory and --engine."""

    path: Path
    output: str
    memory: str | None
    engine: str | None

    @classmethod
    def of(
        cls, path: Path, output: Path | None, memory: str | None, engine: str | None, others: dict[str, Any]
    ) -> Self:
        """Refuse other options that need all rows in memory, and output that is not a file."""
        from tdlg.engines.run import Output

        given = "with --engine" if engine is not None else "with --memory" if memory is not None else None
        why = given or ("for a folder" if path.is_dir() else f"for a table as large as {path.name}")
        for name, value in others.items():
            if value:
                problem = f"it needs all rows in memory at once, which is not possible {why}."
                raise wrong(name, f"{problem} Leave out {name}, or take a part of the rows.")
        if output is None or str(output) == STDIN:
            problem = f"a file is needed {why}: the result is written in blocks. Give -o FILE, .parquet or .csv."
            raise wrong("--output", problem)
        with as_usage("memory", "--memory"), as_usage("path", "--output"):
            Output.of(address(output))
            as_bytes(memory or "2GB")
        return cls(path, address(output), memory, engine)

    def scan(self, columns: Columns, labels: Labels | None = None) -> ScannedEdges:
        """Look at the table; text is written as parquet beside the output."""
        folder = None if "://" in self.output else Path(self.output).absolute().parent
        return scanned(self.path, columns, labels, folder=folder)

    def fill(self, model: Any, table: ScannedEdges, **how: Any) -> Any:
        """Let the model fill in the table, with a progress bar."""
        with progress() as show:
            return model.fill(table, self.output, memory=self.memory, engine=self.engine, callback=show, **how)


def scanned(path: Path, columns: Columns, labels: Labels | None = None, *, folder: Path | None = None) -> ScannedEdges:
    """A large table."""
    from tdlg.engines.table import scan_edges

    check_separator(path, columns)
    if path.is_file() and path.suffix.lower() not in PARQUET:
        note("writing the text as parquet, to process it on disk")
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The (column|feature) '")  # what is not used is reported with the reason
        return scan_edges(address(path), folder=folder, **{"features": (), **how_to_read(columns, labels)})


def address(path: Path) -> str:
    """A path as text; an address such as s3://bucket/folder gets back the slash that paths lose."""
    return re.sub(r"^([a-z][a-z0-9+]+):/(?=[^/])", r"\1://", str(path))
