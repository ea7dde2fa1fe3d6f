"""Which way a table goes, in memory or on disk, and whether it fits; light, because commands ask before they load models."""

from __future__ import annotations

import json
import shlex
from contextlib import suppress
from pathlib import Path

from tdlg import memory as machine
from tdlg.exceptions import TooLargeError
from tdlg.io.files import PARQUET
from tdlg.memory import LEARNING, Needs, in_bytes, most_learnt

MOST_IN_MEMORY = 10_000_000  # rows: at twice as many, similarity features make memory take 1.6 times the time of disk
CLASS_BYTES = 200  # per row that is learnt from and class
RANKING = Needs(5e8, 250, 2500)  # LinkRanker, with trees
LINE_GRAPH = Needs(5e8, 300)  # LineGraphClassifier
LINE_GRAPH_OF_LINKS = Needs(4.5e8, 650)  # LinkPredictor on the line graph, with as many pairs that are not links
TEXT_BYTES = 12  # memory per byte of a text file, roughly
START_OF_TEXT = 1 << 16  # bytes of a text file by which its number of rows is estimated
PACKED = (".gz", ".zip", ".zst", ".xz", ".bz2")
ROUND = 100_000  # rows to which a number of rows that fit is rounded


def why_on_disk(n_rows: int, *, two_ends: bool | None = None) -> str | None:
    """Why a table of this number of rows is worked on on disk; None if it goes through memory.

    In memory, the similarity features (`two_ends`) are used too. This is done if the table needs at most half of the free
    memory and has at most 10 million rows; where these features are asked for, wherever it is possible; and always with
    less than 1 GB of free memory, which work on disk needs.
    """
    need, free = LEARNING.bytes(n_rows), machine.free_bytes()
    most, share = (machine.MOST_TWO_ENDS, 1.0) if two_ends else (MOST_IN_MEMORY, 0.5)
    if free < machine.LEAST_MEMORY:
        return None
    if n_rows > most:
        return f"{n_rows:,} rows are more than {most:,}"
    if need > share * free:
        of_free = f"{'' if two_ends else 'half of '}the {in_bytes(free)} that are free"
        return f"{n_rows:,} rows would need about {in_bytes(need)} of memory, more than {of_free}"
    return None


def reason_for_disk(path: Path, *, two_ends: bool | None = None) -> str | None:
    """`why_on_disk` for a file, of text by an estimate of its rows; a folder of nothing but parquet files always is."""
    if path.is_dir():
        files = [file for file in path.iterdir() if file.is_file() and not file.name.startswith((".", "_"))]
        is_table = bool(files) and all(file.suffix == ".parquet" for file in files)
        return "a folder is read in blocks" if is_table else None
    n_rows, is_parquet = rows_of(path), path.suffix.lower() in PARQUET
    why = None if n_rows is None else why_on_disk(n_rows, two_ends=two_ends)
    if why is not None:
        return why if is_parquet else f"about {why}"
    needed, free = TEXT_BYTES * path.stat().st_size if path.is_file() else 0, machine.free_bytes()
    if needed > free and not is_parquet:
        return f"the text needs about {in_bytes(needed)} of memory, and {in_bytes(free)} are free"
    return None


def check_fits(path: Path, needs: Needs, *instead: str) -> None:
    """Refuse a table that does not fit into the free memory before it is read, and say what else can be done."""
    n_rows, free = rows_of(path), machine.free_bytes()
    if n_rows is None or needs.bytes(n_rows) <= free:
        return
    n_fit, fits = needs.n_rows(free) // ROUND * ROUND, "Use a machine with more memory."
    is_parquet = path.suffix.lower() in PARQUET
    if n_fit:
        code = f'import polars; polars.scan_parquet({json.dumps(str(path))}).tail({n_fit}).sink_parquet("part.parquet")'
        fits = f"The last {n_fit:,} rows fit" + (f": python -c {shlex.quote(code)}" if is_parquet else ".")
    raise TooLargeError(
        f"{path}: {'' if is_parquet else 'about '}{n_rows:,} rows need about {in_bytes(needs.bytes(n_rows))} of memory, and "
        f"{in_bytes(free)} are free.",
        *instead,
        fits,
    )


def memory_to_fit(n_edges: int, n_classes: int = 2) -> float:
    """The bytes that a fit in memory needs, from measurements with 100,000, 1 and 3 million edges."""
    n_outputs = n_classes if n_classes > 2 else 1
    return LEARNING.bytes(n_edges) + min(n_edges, most_learnt(n_edges)) * CLASS_BYTES * (n_outputs - 1)


def rows_of(path: Path) -> int | None:
    """The number of rows of a file, of text estimated from its beginning; None if it is packed or cannot be read."""
    if not path.is_file() or path.suffix.lower() in PACKED:
        return None
    if path.suffix.lower() not in PARQUET:
        with path.open("rb") as file:
            start = file.read(START_OF_TEXT)
        n_lines = start.count(b"\n")
        return path.stat().st_size * n_lines // len(start) if n_lines else None
    import polars as pl

    with suppress(pl.exceptions.PolarsError, OSError):  # reported when it is read
        return int(pl.scan_parquet(path).select(pl.len()).collect().item())
    return None
