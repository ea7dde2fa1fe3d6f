"""Tables that do not fit into memory: when classify works on disk, and how."""

from __future__ import annotations

import json
import re
import shlex
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import typer

from tdlg.cli.answers import meaning_of_two
from tdlg.cli.labels import label_in_words, labelled_edges, labels_to_learn
from tdlg.cli.options import Columns, Late, as_usage
from tdlg.cli.process import check_interrupt
from tdlg.cli.table import ALL, AT_ONCE, chosen_columns, unused_in_words
from tdlg.cli.terminal import count, note, progress, working
from tdlg.exceptions import ReadError, TooLargeError
from tdlg.memory import Needs, in_bytes

if TYPE_CHECKING:
    from tdlg.engines.table import ScannedEdges
    from tdlg.models.propagation import PropagationClassifier

__all__ = ["Where", "check_fits", "classify_large", "note_setting", "outliers_large", "parquet_rows", "reason_for_disk"]

PARQUET = (".parquet", ".pq")
ROWS_AT_ONCE = 500_000
MOST_CLASSES = 20  # more values become two classes with --positive
TEXT_BYTES = 12  # memory per byte of a text file, roughly
START_OF_TEXT = 1 << 16  # bytes of a text file by which its number of rows is estimated
COMPRESSED = (".gz", ".zip", ".zst", ".xz", ".bz2")  # their number of rows is not estimated
ROUND = 100_000  # rows to which a number of rows that fit is rounded


def parquet_rows(path: Path) -> int | None:
    """The number of rows of a parquet file; None for anything else."""
    if path.suffix.lower() not in PARQUET or not path.is_file():
        return None
    import polars as pl

    try:
        return int(pl.scan_parquet(path).select(pl.len()).collect().item())
    except (pl.exceptions.PolarsError, OSError):
        return None  # reported when it is read


def reason_for_disk(path: Path, *, two_ends: bool | None = None) -> str | None:
    """Why a table is worked on on disk, in words; None if it goes through memory. See `why_on_disk` for the rule.

    A folder of nothing but parquet files is, whatever its size. A text file that does not fit is an error, which says what
    to do.
    """
    from tdlg.memory import free_bytes
    from tdlg.models.files import why_on_disk
    from tdlg.tables.paths import parquet_command

    if path.is_dir():
        files = [file for file in path.iterdir() if file.is_file() and not file.name.startswith((".", "_"))]
        is_table = bool(files) and all(file.suffix == ".parquet" for file in files)
        return "a folder is read in blocks" if is_table else None
    n_rows = parquet_rows(path)
    if n_rows is not None:
        return why_on_disk(n_rows, two_ends=two_ends)
    if path.is_file() and TEXT_BYTES * path.stat().st_size > free_bytes():
        raise ReadError(
            f"{path}: the table needs about {in_bytes(TEXT_BYTES * path.stat().st_size)} of memory, and "
            f"{in_bytes(free_bytes())} are free. Write it as parquet, which can be read in blocks: {parquet_command(path)}"
        )
    return None


def check_fits(path: Path, needs: Needs, *instead: str) -> None:
    """Refuse a table that does not fit into the free memory, before it is read, and say what would.

    Parameters
    ----------
    path
        The table. Of text, the number of rows is estimated; a compressed file is not looked at.
    needs
        The memory that the command needs.
    instead
        Sentences that say what else can be done.
    """
    from tdlg.memory import free_bytes

    is_parquet, free = path.suffix.lower() in PARQUET, free_bytes()
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


def _rows_of_text(path: Path) -> int | None:
    """The number of rows of a text file, estimated from its beginning; None for anything else."""
    if path.suffix.lower() in COMPRESSED or not path.is_file():
        return None
    with path.open("rb") as file:
        start = file.read(START_OF_TEXT)
    n_lines = start.count(b"\n")
    return path.stat().st_size * n_lines // len(start) if n_lines else None


class Where(NamedTuple):
    """A table that is worked on in blocks: where it is, where the result goes, and what does the work.

    Attributes
    ----------
    path, output
        The table and the file or folder to write, as paths or addresses.
    memory, engine
        The values of --memory and --engine.
    """

    path: str
    output: str
    memory: str | None
    engine: str | None

    @classmethod
    def of(
        cls, path: Path, output: Path | None, memory: str | None, engine: str | None, others: dict[str, Any]
    ) -> Self:
        """Refuse options that need all rows in memory, and output that is not a file.

        Parameters
        ----------
        path, output, memory, engine
            The table, and the values of the options.
        others
            The values of the other options, by their names.
        """
        from tdlg.engines.run import Output
        from tdlg.memory import as_bytes

        given = "with --engine" if engine is not None else "with --memory" if memory is not None else None
        why = given or ("for a folder" if path.is_dir() else f"for a table as large as {path.name}")
        for name, value in others.items():
            if value:
                raise typer.BadParameter(
                    f"it needs all rows in memory at once, which is not possible {why}. Leave out {name}, or take a part "
                    "of the rows.",
                    param_hint=name,
                )
        if output is None or str(output) == "-":
            raise typer.BadParameter(
                f"a file is needed {why}: the result is written in blocks. Give -o FILE, .parquet or .csv.",
                param_hint="--output",
            )
        with as_usage("memory", "--memory"), as_usage("path", "--output"):
            Output.of(_address(output))
            as_bytes(memory or "2GB")
        return cls(_address(path), _address(output), memory, engine)


def _address(path: Path) -> str:
    """A path as text; an address such as s3://bucket/folder gets back the slash that paths lose."""
    return re.sub(r"^([a-z][a-z0-9+]+):/(?=[^/])", r"\1://", str(path))


@contextmanager
def _progress() -> Iterator[Callable[[int, int, str], None]]:
    """A progress bar, whose updates stop the work if the user interrupts it."""
    with progress() as show:

        def said(done: int, total: int, text: str) -> None:
            check_interrupt()
            show(done, total, text)

        yield said


def classify_large(
    where: Where,
    model: PropagationClassifier,
    label: str,
    positive: str | None,
    missing: str | None,
    late: Late,
    columns: Columns,
    why: str | None,
) -> None:
    """Fill in the missing labels of a table on disk, because of `why`; for the other parameters see `classify`."""

    def classes(values: list[Any]) -> tuple[list[Any], Any]:
        edges, looked_for = labels_to_learn(_one_of_each(values), label, positive, missing)
        named = [] if edges.label is None else edges.label.tolist()
        return [value if known else None for value, known in zip(named, edges.labelled, strict=True)], looked_for

    scanned, unused = _scanned(where.path, columns, label, late)
    because = "" if why is None else f": {why}"
    note(f"large table: processing on disk, without the similarity features{because}")
    with _progress() as said:
        filled = model.fill(
            scanned, where.output, memory=where.memory, engine=where.engine, classes=classes, callback=said
        )
    note(f"read {count(filled.n_rows, 'edge')}; {count(filled.n_known, 'known label')}, {filled.n_scored:,} missing")
    if scanned.features and columns.features is None and columns.categories is None:
        note(f"features: {', '.join(scanned.features)} (change with --features)")
    if unused:
        note(f"not used: {unused_in_words(unused)}")
    if filled.n_learnt < filled.n_learnt_from:
        note(f"fitted to a sample of {count(filled.n_learnt, 'row')}; probabilities are corrected for it")
    note_setting(filled.setting, filled.setting_reason, filled.scales)
    if len(filled.classes) == 2:
        named = label_in_words(scanned.roles["label"], positive, filled.positive)
        note(meaning_of_two(named, filled.positive))
    else:
        note('"probability" is the probability of the predicted class')
    note(f"wrote {count(filled.n_rows, 'row')} to {where.output}")


def outliers_large(where: Where, fast: Any, slow: Any, columns: Columns) -> None:
    """Find bursts in a table on disk; for the parameters see `outliers`."""
    from tdlg.clock import duration_in_words
    from tdlg.models.outliers import BurstDetector

    scanned, unused = _scanned(where.path, columns, features=False)
    with _progress() as said:
        found = BurstDetector(fast, slow).fill(
            scanned, where.output, memory=where.memory, engine=where.engine, callback=said
        )
    unit = found.time_unit
    widths = [duration_in_words(decay.parts(unit)[0].bandwidth, unit) for decay in (found.fast, found.slow)]
    note(f"read {count(found.n_rows, 'edge')} in blocks")
    if unused:
        note(f"not used: {unused_in_words(unused, features=False)}")
    note(f"method: burst, bursts of {widths[0]} beside what is usual in {widths[1]}; --fast and --slow change it")
    note(f"wrote {count(found.n_rows, 'row')} to {where.output}")


def describe_large(
    path: Path,
    label: str | None,
    missing: str | None,
    late: Late,
    memory: str | None,
    why: str | None,
    columns: Columns,
) -> list[tuple[str, str]]:
    """What `tdlg info` shows of a table that is read in blocks; for the parameters see `info`."""
    import numpy as np

    from tdlg.clock import times_of
    from tdlg.engines.executors import opened_engine
    from tdlg.engines.run import Limits
    from tdlg.engines.summary import summarise
    from tdlg.models.files import needs_of_file

    scanned, unused = _scanned(_address(path), columns, label, late)
    with working("reading"), opened_engine(None) as threads:
        with as_usage("memory", "--memory"):
            limits = Limits.of(threads, memory)
        seen = summarise(threads, scanned, scanned.blocks(ROWS_AT_ONCE))
    first, last = times_of(np.array([seen.clock.low, seen.clock.high]), seen.clock.unit)
    values = list(seen.labels)
    known: Any = [False] * len(values)
    if label is not None:
        known = labelled_edges(_one_of_each(values), label, None, missing, to_learn=False).labelled
    known_labels = {value: seen.labels[value] for value, is_known in zip(values, known, strict=True) if is_known}
    n_missing = scanned.n_rows - sum(known_labels.values()) if label is not None else scanned.n_rows // 10
    names = {"src": "source", "dst": "destination", "time": "time"}
    lines = [(name, repr(scanned.roles[role])) for role, name in names.items()]
    lines += [("not used", unused_in_words(unused))] if unused else []
    lines += [("span", f"{first} to {last}"), ("interactions", f"{scanned.n_rows:,}, read in blocks")]
    if label is not None:
        lines.append(("label", f"{scanned.roles['label']!r}: {len(known_labels):,} values; {n_missing:,} missing"))
    n_classes = 2 if label is None else max(min(len(known_labels), MOST_CLASSES), 2)
    needs = needs_of_file(scanned, seen, n_missing, n_classes, limits)
    given = "tdlg classify" if memory is None else f"tdlg classify --memory {memory}"
    because = "" if memory is not None or why is None else f" ({why})"
    sizes = f"{in_bytes(needs.memory)} of memory, {in_bytes(needs.disk)} of temporary files"
    return [*lines, (given, f"on disk, without the similarity features{because}; {sizes}")]


def note_setting(setting: str, why: str | None, scales: str) -> None:
    """Report the setting of a model and why it was chosen, and its time scales in words."""
    chosen = " (given by --setting)" if why is None else f", because {why} (change with --setting)"
    note(f"setting: {setting}{chosen}")
    if scales:
        note(f"time scales: {scales}")


def _scanned(
    path: str, columns: Columns, label: str | None = None, late: Late = AT_ONCE, *, features: bool = True
) -> tuple[ScannedEdges, dict[str, str]]:
    """The chosen columns of a parquet file or folder, scanned, and why others are not used."""
    from tdlg.engines.table import find_parts, scan_edges
    from tdlg.tables.csv import Source
    from tdlg.tables.find_columns import roles

    if columns.separator is not None:
        raise typer.BadParameter(
            "it is for csv files, and this table is parquet. Leave out --separator.", param_hint="--separator"
        )
    parts = find_parts(path)
    source = Source(path, list(parts.names), True, [], lambda *_: {})  # only its names are used
    which, (listed, codes) = chosen_columns(source, columns, label, late)
    at = roles(source, which)
    which = {role: None if given is None else source.names[at[role]] for role, given in which.items()}
    if features:
        which |= {"features": listed, "categories": codes, "label_delay": late.delay}
    else:
        which["features"] = ()
    how: Any = {"time_format": columns.time_format, "time_unit": columns.time_unit}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what is not used is reported with the reason
        if features and columns.features == ALL:  # chosen without a look at the label
            ends = {role: which[role] for role in ("src", "dst", "time")}
            every = scan_edges(path, **ends, **how).features
            taken = [*ends.values(), which["label"], which["label_time"], *codes]
            which["features"] = [name for name in every if name not in taken]
        scanned = scan_edges(path, **which, bipartite=columns.bipartite, **how)
    used = {*scanned.roles.values(), *scanned.features}
    return scanned, {name: scanned.left_out.get(name, "") for name in source.names if name not in used}


def _one_of_each(values: list[Any]) -> Any:
    """Edges with these labels, one each."""
    from tdlg.edges import TemporalEdges

    nodes = [0] * len(values)
    return TemporalEdges(nodes, nodes, range(len(values)), label=values)
