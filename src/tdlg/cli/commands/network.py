"""Commands that describe a table, and list or download the public data sets."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tdlg.cli.cost import classify_cost
from tdlg.cli.files import describe_large, reason_for_disk
from tdlg.cli.labels import MOST_CLASSES
from tdlg.cli.options import (
    Columns,
    EdgesPath,
    LabelDelay,
    LabelTime,
    Missing,
    Output,
    example,
    late_labels,
    needs_label,
    with_columns,
)
from tdlg.cli.output import check_output, give
from tdlg.cli.table import Table, looks_like_seconds, note_words, read_table, text_columns, unused_in_words
from tdlg.cli.terminal import aligned, count, note, one_line, working
from tdlg.memory import in_bytes

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tdlg.edges import TemporalEdges

__all__ = ["register"]

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

datasets = typer.Typer(
    invoke_without_command=True,
    rich_markup_mode=None,
    epilog=example("tdlg datasets get bitcoinalpha -o alpha.csv"),
)


def register(app: typer.Typer) -> None:
    """Add these commands."""
    app.command(short_help="Show how a table is read.", epilog=example("tdlg info payments.csv"))(info)
    app.add_typer(datasets, name="datasets")


@with_columns
def info(
    edges: EdgesPath,
    *,
    label: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="Label column to describe: name or 0-based position.")
    ] = None,
    missing: Missing = None,
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
    needs_label(label, missing=missing)
    why = None if memory is not None else reason_for_disk(edges)
    if memory is not None or why is not None:
        lines = describe_large(edges, label, missing, late, memory, why, columns)
        typer.echo(aligned([(name, one_line(text)) for name, text in lines]))
        return
    with working("reading"):
        table = read_table(edges, columns, label, late=late)
    note_words(table.edges, columns)
    lines = [
        *_describe_columns(table),
        *_describe_times(table.edges),
        *_describe_scales(table.edges),
        *_describe_degrees(table.edges),
        *_describe_labels(table, missing),
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


def _describe_labels(table: Table, missing: str | None) -> list[tuple[str, str]]:
    import numpy as np

    from tdlg.cli.labels import labelled_edges, plain_classes

    if table.edges.label is None:
        return []
    name = table.names["label"]
    edges = labelled_edges(table.edges, name, None, missing, to_learn=False)
    if edges.label is None:
        return [("label", f"{name!r}: all missing")]
    values = plain_classes(np.asarray(edges.label)[edges.labelled])
    described = [("label", f"{name!r}: {_values(values)}; {len(edges) - len(values):,} missing")]
    if edges.label_ticks is not None:
        from tdlg.clock import duration_in_words

        delay = float(np.median((edges.known_at.astype(np.float64) - edges.ticks)[edges.labelled]))
        described.append(
            ("labels known", f"{duration_in_words(delay, edges.time_unit)} after their row, in the median")
        )
    return described


def _values(labels: NDArray[Any]) -> str:
    """The shares of the classes; for other numbers their range, for too many different words their count."""
    import numpy as np

    from tdlg.cli.labels import MOST_CLASSES

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
    degree = _degrees(edges).astype(float)
    entries = float((degree**2).sum())
    n_classes = 2 if edges.label is None else len(set(edges.label[edges.labelled].tolist()))
    n_classes = (
        n_classes if n_classes <= MOST_CLASSES else 2
    )  # more classes are an error; --positive turns them into two
    _, memory = classify_cost(len(edges), n_classes)
    of = f" with {n_classes} classes" if n_classes > 2 else ""
    return [
        (
            "line graph",
            f"as a matrix up to {entries:,.0f} entries, {in_bytes(ENTRY_BYTES * entries)}; tdlg never builds it",
        ),
        (
            "tdlg classify",
            f"in memory, with the similarity features; {in_bytes(memory)} of memory{of}",
        ),
    ]


def _degrees(edges: TemporalEdges) -> NDArray[Any]:
    import numpy as np

    ends = np.concatenate([edges.src_code, edges.dst_code[edges.src_code != edges.dst_code]])
    return np.bincount(ends, minlength=edges.n_nodes)


def _kind(ids: NDArray[Any]) -> str:
    return IDS_IN_WORDS.get(ids.dtype.kind, "text")


# ---- data sets


@datasets.callback()
def _datasets(context: typer.Context) -> None:
    """List the public data sets, or download one."""
    if context.invoked_subcommand is None:
        list_datasets(None)


@datasets.command("list", epilog=example("tdlg datasets list"))
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


@datasets.command("get", epilog=example("tdlg datasets get bitcoinalpha -o alpha.csv"))
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
