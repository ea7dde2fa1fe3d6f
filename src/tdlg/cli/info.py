"""The commands info, datasets and demo."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tdlg.cli.group import command
from tdlg.cli.options import (
    Columns,
    EdgesPath,
    LabelDelay,
    LabelTime,
    Late,
    Missing,
    Output,
    Positive,
    Seed,
    as_usage,
    example,
    late_labels,
    needs_label,
    with_columns,
    wrong,
)
from tdlg.cli.output import aligned, check_folder, check_output, count, give, note, one_line, working
from tdlg.cli.tables import (
    address,
    listed,
    looks_like_seconds,
    note_words,
    read_table,
    reason_for_disk,
    scanned,
    text_columns,
    unused_in_words,
)
from tdlg.memory import LEARNING, in_bytes, most_learnt

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tdlg.edges import TemporalEdges
    from tdlg.io.read import Table

IDS_IN_WORDS = {"i": "whole numbers", "u": "whole numbers", "f": "numbers", "b": "true or false"}
PEOPLE = {"user", "customer", "client", "payer", "buyer", "reviewer", "rater", "account", "card", "cardholder"}
THINGS = {
    "item",
    "product",
    "movie",
    "song",
    "track",
    "business",
    "shop",
    "store",
    "merchant",
    "terminal",
    "page",
    "device",
}
ENTRY_BYTES = 12  # per entry of a sparse matrix: a float and an index

ROWS_AT_ONCE = 500_000
CLASSES_ON_DISK = 20  # more values become two classes with --positive
CLASS_BYTES = 200  # per row that is learnt from and class

commands = typer.Typer(rich_markup_mode=None)


@command(commands, "tdlg info payments.csv")
@with_columns()
def info(
    edges: EdgesPath,
    *,
    label: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="Label column to describe: name or 0-based position.")
    ] = None,
    missing: Missing = None,
    positive: Positive = None,
    label_time: LabelTime = None,
    label_delay: LabelDelay = None,
    memory: Annotated[
        str | None,
        typer.Option(
            metavar="SIZE",
            help="Show what classify --memory SIZE would take, for example 2GB; the table must be a parquet file, or a "
            "folder of them.",
        ),
    ] = None,
    columns: Columns,
) -> None:
    """Show how a table is read: columns, ids, times and degrees, and what classify would need."""
    late = late_labels(label, label_time, label_delay)
    needs_label(label, missing=missing, positive=positive)
    of_labels = {"positive": positive, "missing": listed(missing)}
    why = None if memory is not None else reason_for_disk(edges)
    if memory is not None or why is not None:
        lines = _describe_on_disk(edges, columns, label, late, of_labels, memory, why)
        typer.echo(aligned([(name, one_line(text)) for name, text in lines]))
        return
    with working("reading"):
        table = read_table(edges, columns, label, late, **of_labels)
    note_words(table.edges, columns)
    lines = [
        *_describe_columns(table),
        *_describe_times(table.edges),
        *_describe_scales(table.edges),
        *_describe_degrees(table.edges),
        *_describe_labels(table),
        *_describe_cost(table.edges),
    ]
    typer.echo(aligned([(name, one_line(text)) for name, text in lines]))


def _describe_columns(table: Table) -> list[tuple[str, str]]:
    edges, names = table.edges, table.names
    shared = len(set(edges.src.tolist()) & set(edges.dst.tolist()))
    kinds = (
        "sources and destinations are separate (--bipartite)"
        if edges.bipartite
        else f"{count(shared, 'id')} in both columns"
    )
    may_be_two = not edges.bipartite and (shared == 0 or _names_suggest_bipartite(names))
    hint = "; if sources and destinations are different things: --bipartite" if may_be_two else ""
    return [
        ("source", f"{names['src']!r}: {_kind(edges.src)}, {len(set(edges.src_code.tolist())):,} different"),
        ("destination", f"{names['dst']!r}: {_kind(edges.dst)}, {len(set(edges.dst_code.tolist())):,} different"),
        ("nodes", f"{edges.n_nodes:,}; {kinds}{hint}"),
        *(
            [("features", ", ".join(_feature(edges, name) for name in edges.feature_names))]
            if edges.feature_names
            else []
        ),
        *([("not used", unused_in_words(table.unused))] if table.unused else []),
    ]


def _names_suggest_bipartite(names: dict[str, str]) -> bool:
    """Whether the column names suggest two kinds of nodes, such as users and items."""
    src, dst = (set(re.findall(r"[a-z]+", names[role].lower())) for role in ("src", "dst"))
    return not src.isdisjoint(PEOPLE) and not dst.isdisjoint(THINGS)


def _feature(edges: TemporalEdges, name: str) -> str:
    words = edges.feature_categories.get(name)
    return f"{name} (number)" if words is None else f"{name} ({count(len(words), 'category').replace('ys', 'ies')})"


def _describe_times(edges: TemporalEdges) -> list[tuple[str, str]]:
    import numpy as np

    from tdlg.clock import unit_in_words

    first, last = edges.time.min(), edges.time.max()
    kind = (
        "numbers"
        if edges.time_unit is None
        else f"dates in {unit_in_words(edges.time_unit)}, in UTC or without time zone"
    )
    days = "" if edges.time_unit is None else f", {(last - first) / np.timedelta64(1, 'D'):,.1f} days"
    in_order = "in" if bool((np.diff(edges.ticks) >= 0).all()) else "not in"
    return [
        ("time", kind + looks_like_seconds(edges)),
        ("span", f"{first} to {last}{days}"),
        (
            "interactions",
            f"{len(edges):,} at {len(np.unique(edges.ticks)):,} different times; {in_order} chronological order",
        ),
    ]


def _describe_scales(edges: TemporalEdges) -> list[tuple[str, str]]:
    """The time scales that classify uses by default; none if all times are equal."""
    import numpy as np

    from tdlg.clock import durations_in_words
    from tdlg.propagate.plan import choose_scales

    spread = float(edges.ticks.astype(np.float64).std())
    if spread == 0.0:
        return []
    scales = durations_in_words([scale * spread for scale in choose_scales(edges)], edges.time_unit)
    return [("time scales", f"{scales}; --scales of classify changes them")]


def _describe_degrees(edges: TemporalEdges) -> list[tuple[str, str]]:
    import numpy as np

    degree = _degrees(edges)
    busiest = edges.node_ids[int(degree.argmax())]
    pairs = len(np.unique(edges.src_code.astype(np.int64) * edges.n_nodes + edges.dst_code))
    return [
        ("pairs", f"{pairs:,} different"),
        ("degrees", f"mean {degree.mean():.1f}, median {np.median(degree):g}, largest {degree.max():,} ({busiest!s})"),
    ]


def _describe_labels(table: Table) -> list[tuple[str, str]]:
    import numpy as np

    from tdlg.clock import duration_in_words
    from tdlg.tables.labels import plain_classes

    edges = table.edges
    if edges.label is None:
        return []
    name = table.names["label"]
    if not edges.labelled.any():
        return [("label", f"{name!r}: all missing")]
    values = plain_classes(np.asarray(edges.label)[edges.labelled])
    described = [("label", f"{name!r}: {_values(values)}; {len(edges) - len(values):,} missing")]
    if edges.label_ticks is not None:
        delay = float(np.median((edges.known_at.astype(np.float64) - edges.ticks)[edges.labelled]))
        in_words = duration_in_words(delay, edges.time_unit)
        described.append(("labels known", f"{in_words} after their row, in the median"))
    return described


def _values(labels: NDArray[Any]) -> str:
    """The shares of the classes; for other numbers their range, for too many different words their count."""
    import numpy as np

    from tdlg.tables.labels import MOST_CLASSES

    classes, counts = np.unique(labels, return_counts=True)
    if labels.dtype.kind in "iuf" and (labels.dtype.kind == "f" or len(classes) > MOST_CLASSES):
        return (
            f"numbers from {classes[0]:g} to {classes[-1]:g}, {len(classes):,} different; "
            f"to classify, give the positive class, for example --positive '> {np.median(labels):g}'"
        )
    if len(classes) > MOST_CLASSES:
        return f"{len(classes):,} different words, too many for classes; to classify, give one with --positive"
    shares = [f"{label!s} {number / len(labels):.1%}" for label, number in zip(classes[:6], counts[:6], strict=True)]
    return ", ".join([*shares, "..."] if len(classes) > 6 else shares)


def _describe_cost(edges: TemporalEdges) -> list[tuple[str, str]]:
    from tdlg.tables.labels import MOST_CLASSES

    degree = _degrees(edges).astype(float)
    entries = float((degree**2).sum())
    n_classes = 2 if edges.label is None else len(set(edges.label[edges.labelled].tolist()))
    if n_classes > MOST_CLASSES:  # an error; --positive turns them into two
        n_classes = 2
    of = f" with {n_classes} classes" if n_classes > 2 else ""
    size = in_bytes(memory_to_classify(len(edges), n_classes))
    matrix = f"as a matrix up to {entries:,.0f} entries, {in_bytes(ENTRY_BYTES * entries)}; tdlg never builds it"
    classify = f"in memory, with the similarity features; {size} of memory{of}"
    return [("line graph", matrix), ("tdlg classify", classify)]


def memory_to_classify(n_edges: int, n_classes: int = 2) -> float:
    """The bytes that classify needs in memory, from measurements with 100,000, 1 and 3 million edges."""
    n_outputs = n_classes if n_classes > 2 else 1
    return LEARNING.bytes(n_edges) + min(n_edges, most_learnt(n_edges)) * CLASS_BYTES * (n_outputs - 1)


def _degrees(edges: TemporalEdges) -> NDArray[Any]:
    import numpy as np

    ends = np.concatenate([edges.src_code, edges.dst_code[edges.src_code != edges.dst_code]])
    return np.bincount(ends, minlength=edges.n_nodes)


def _kind(ids: NDArray[Any]) -> str:
    return IDS_IN_WORDS.get(ids.dtype.kind, "text")


def _describe_on_disk(
    path: Path, columns: Columns, label: str | None, late: Late, of_labels: Any, memory: str | None, why: str | None
) -> list[tuple[str, str]]:
    """What is known of a table that is read in blocks."""
    import numpy as np

    from tdlg.clock import times_of
    from tdlg.edges import TemporalEdges
    from tdlg.engines.executors import opened_engine
    from tdlg.engines.run import Limits
    from tdlg.engines.summary import summarise
    from tdlg.models.files import needs_of_file
    from tdlg.tables.labels import as_labels

    with (
        scanned(address(path), columns, label, late, **of_labels) as (table, unused),
        working("reading"),
        opened_engine(None) as threads,
    ):
        with as_usage("memory", "--memory"):
            limits = Limits.of(threads, memory)
        seen = summarise(threads, table, table.blocks(ROWS_AT_ONCE))
        first, last = times_of(np.array([seen.clock.low, seen.clock.high]), seen.clock.unit)
        values = list(seen.labels)
        named = None if label is None else table.rule.read(np.asarray(as_labels(values)), to_learn=False)[0]
        nodes = [0] * len(values)
        known = TemporalEdges(nodes, nodes, range(len(values)), label=named).labelled
        known_labels = {value: seen.labels[value] for value, is_known in zip(values, known, strict=True) if is_known}
        n_missing = table.n_rows - sum(known_labels.values()) if label is not None else table.n_rows // 10
        n_classes = 2 if label is None else max(min(len(known_labels), CLASSES_ON_DISK), 2)
        needs = needs_of_file(table, seen, n_missing, n_classes, limits)
    names = {"src": "source", "dst": "destination", "time": "time"}
    lines = [(name, repr(table.roles[role])) for role, name in names.items()]
    lines += [("not used", unused_in_words(unused))] if unused else []
    lines += [("span", f"{first} to {last}"), ("interactions", f"{table.n_rows:,}, read in blocks")]
    if label is not None:
        lines.append(("label", f"{table.roles['label']!r}: {len(known_labels):,} values; {n_missing:,} missing"))
    given = "tdlg classify" if memory is None else f"tdlg classify --memory {memory}"
    because = "" if memory is not None or why is None else f" ({why})"
    sizes = f"{in_bytes(needs.memory)} of memory, {in_bytes(needs.disk)} of temporary files"
    return [*lines, (given, f"on disk, without the similarity features{because}; {sizes}")]


# ---- data sets

datasets = typer.Typer(
    invoke_without_command=True,
    rich_markup_mode=None,
    epilog=example("tdlg datasets get bitcoinalpha -o alpha.csv"),
)
commands.add_typer(datasets, name="datasets")


@datasets.callback()
def _datasets(context: typer.Context) -> None:
    """List the public data sets, or download one."""
    if context.invoked_subcommand is None:
        list_datasets(None)


@command(datasets, "tdlg datasets list", name="list")
def list_datasets(output: Output = None) -> None:
    """List the public data sets."""
    import polars as pl

    from tdlg.datasets.fetch import is_available
    from tdlg.datasets.registry import DATASETS

    check_output(output)
    rows = [
        {
            "name": one.name,
            "nodes": one.n_nodes,
            "edges": one.n_edges,
            "days": one.days,
            "positive_percent": one.positive,
            "here": "yes" if is_available(one.name) else "no",
            "label": one.label,
        }
        for one in DATASETS.values()
    ]
    give(pl.DataFrame(rows), output, shown=[name for name in rows[0] if name != "label"])


def _names(incomplete: str) -> list[str]:
    from tdlg.datasets.registry import DATASETS

    return [name for name in DATASETS if name.startswith(incomplete)]


@command(datasets, "tdlg datasets get bitcoinalpha -o alpha.csv", name="get")
def get_dataset(
    name: Annotated[
        str, typer.Argument(help="Name of a data set; `tdlg datasets list` lists them.", autocompletion=_names)
    ],
    output: Output = None,
) -> None:
    """Download a public data set and print the path of its file, or write it as a table with named columns (-o)."""
    from tdlg.datasets.fetch import dataset_file
    from tdlg.datasets.registry import DATASETS

    check_output(output)
    with working(f"downloading {name}"):
        path: Path = dataset_file(name)
    known = DATASETS[name]
    note(f"{name}: {count(known.n_edges, 'edge')}; columns {', '.join(known.columns)}; licence: {known.licence}")
    note(f"cite: {known.citation}")
    if known.note:
        note(f"note: {known.note}")
    if output is None:
        typer.echo(path)
    else:
        give(text_columns(path, known.columns), output)


# ---- the demo


@command(commands, "tdlg demo --report demo.html", "tdlg demo --live")
def demo(
    report: Annotated[
        Path | None,
        typer.Option(metavar="PAGE", help="Path of the HTML report to write. By default tdlg-demo.html."),
    ] = None,
    live: Annotated[
        bool, typer.Option("--live", help="Play synthetic payments into a live service, and show its desk instead.")
    ] = False,
    browser: Annotated[
        bool | None,
        typer.Option("--open/--no-open", help="With --live, open the desk in a browser, which is the default."),
    ] = None,
    port: Annotated[
        int | None, typer.Option(min=0, max=65535, help="With --live, the port; 0, the default, takes a free one.")
    ] = None,
    seed: Seed = 0,
) -> None:
    """Find the frauds among synthetic card payments and say why, in less than a minute."""
    others = {"--report": report} if live else {"--open": browser, "--port": port}
    for name, value in others.items():
        if value is not None:
            raise wrong(name, f"it works only with{'out' * live} --live. Leave out one.")
    if live:
        _live_demo(browser is not False, port or 0, seed)
        return
    from tdlg.demo import run_demo

    report = report or Path("tdlg-demo.html")
    check_folder(report)
    run_demo(report, random_state=seed, say=typer.echo)


def _live_demo(browser: bool, port: int, seed: int) -> None:
    import webbrowser

    from tdlg.cli.group import heed_termination
    from tdlg.cli.serve import check_installed

    check_installed("tdlg demo --live")
    from tdlg.serve.demo import run_live_demo

    heed_termination()
    try:
        run_live_demo(port=port, random_state=seed, say=typer.echo, show=webbrowser.open if browser else None)
    except KeyboardInterrupt:
        note("stopped")
