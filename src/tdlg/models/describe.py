"""What a table is like, and what classification needs for it: facts in words, as `tdlg info` shows them."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tdlg.clock import duration_in_words, durations_in_words, times_of, unit_in_words, unit_since_1970
from tdlg.edges import TemporalEdges
from tdlg.engines.executors import opened_engine
from tdlg.engines.run import MemoryLimits
from tdlg.engines.table import ScannedEdges, summarise_table
from tdlg.io.read import Table, unused_in_words
from tdlg.linegraph.decay import time_spread
from tdlg.memory import in_bytes
from tdlg.models.files import needs_of_file
from tdlg.models.fits import memory_to_fit
from tdlg.propagate.plan import choose_scales
from tdlg.tables.labels import MOST_CLASSES, as_labels, known, plain_classes
from tdlg.tables.text import count

IDS_IN_WORDS = {"i": "whole numbers", "u": "whole numbers", "f": "numbers", "b": "true or false"}
PEOPLE = re.compile(r"(user|customer|client|payer|buyer|reviewer|rater|account|card|cardholder)")
THINGS = re.compile(r"(item|product|movie|song|track|business|shop|store|merchant|terminal|page|device)")
ENTRY_BYTES = 12  # per entry of a sparse matrix: a float and an index
ROWS_SUMMARISED = 500_000
CLASSES_ON_DISK = 20  # more values become two classes with a condition
SHOWN_CLASSES = 6  # in a fact


class Fact(NamedTuple):
    """A fact in words, and a hint about arguments that change it, which continues the text."""

    name: str
    text: str
    hint: str = ""


def describe(table: Table) -> list[Fact]:
    r"""How a table is read, and what `PropagationClassifier` needs for it.

    Parameters
    ----------
    table
        What `tdlg.io.read_table` returns.

    Returns
    -------
    list of Fact
        Columns, ids, times, degrees, labels and memory.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from tdlg.io import read_table
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "payments.csv"
    >>> _ = path.write_text("payer,payee,date,fraud\nann,bob,2020-01-31,0\nbob,cat,2020-02-01,1\n")
    >>> facts = {fact.name: fact.text for fact in describe(read_table(path, label="fraud"))}
    >>> facts["source"], facts["label"]
    ("'payer': text, 2 different", "'fraud': 0 50.0%, 1 50.0%; 0 missing")
    """
    edges = table.edges
    facts = [*_of_columns(table), *_of_times(edges), *_of_nodes(edges), *_of_labels(table), *_of_cost(edges)]
    return [fact for fact in facts if fact.text]


def describe_scanned(table: ScannedEdges, memory: Any = None) -> list[Fact]:
    """The facts of a table that is read in blocks, and what `PropagationClassifier.fill` takes with this memory."""
    with opened_engine(None) as threads:
        limits = MemoryLimits.of(threads, memory)
        seen = summarise_table(threads, table, table.blocks(ROWS_SUMMARISED))
    first, last = times_of(np.array([seen.clock.low, seen.clock.high]), seen.clock.unit)
    facts = [Fact(name, repr(table.roles[role])) for role, name in (("src", "source"), ("dst", "destination"))]
    facts += [Fact("time", repr(table.roles["time"])), Fact("not used", unused_in_words(table.unused))]
    facts += [Fact("span", f"{first} to {last}"), Fact("interactions", f"{table.n_rows:,}, read in blocks")]
    n_classes, n_missing = 2, table.n_rows // 10
    if "label" in table.roles:
        named = table.rule.read(np.asarray(as_labels(list(seen.labels))), to_learn=False)[0]
        are_known = [] if named is None else known(as_labels(named)).tolist()
        counts = [n for n, is_known in zip(seen.labels.values(), are_known, strict=True) if is_known]
        n_missing, n_classes = table.n_rows - sum(counts), max(min(len(counts), CLASSES_ON_DISK), 2)
        facts.append(Fact("label", f"{table.roles['label']!r}: {len(counts):,} values; {n_missing:,} missing"))
    needs = needs_of_file(table, seen, n_missing, n_classes, limits)
    sizes = f"{in_bytes(needs.memory)} of memory, {in_bytes(needs.disk)} of temporary files"
    return [fact for fact in (*facts, Fact("tdlg classify", sizes)) if fact.text]


def _of_columns(table: Table) -> list[Fact]:
    edges, names = table.edges, table.names
    shared = len(set(edges.src.tolist()) & set(edges.dst.tolist()))
    kinds, hint = f"{count(shared, 'id')} in both columns", ""
    words = {role: re.findall(r"[a-z]+", names[role].lower()) for role in ("src", "dst")}
    if edges.bipartite:
        kinds, hint = "sources and destinations are separate", " (bipartite=True)"
    elif shared == 0 or (any(map(PEOPLE.fullmatch, words["src"])) and any(map(THINGS.fullmatch, words["dst"]))):
        hint = "; if sources and destinations are different things: bipartite=True"
    return [
        Fact("source", f"{names['src']!r}: {_kind(edges.src)}, {len(set(edges.src_code.tolist())):,} different"),
        Fact("destination", f"{names['dst']!r}: {_kind(edges.dst)}, {len(set(edges.dst_code.tolist())):,} different"),
        Fact("nodes", f"{edges.n_nodes:,}; {kinds}", hint),
        Fact("features", ", ".join(_feature(edges, name) for name in edges.feature_names)),
        Fact("not used", unused_in_words(table.unused)),
    ]


def _kind(ids: NDArray[Any]) -> str:
    return IDS_IN_WORDS.get(ids.dtype.kind, "text")


def _feature(edges: TemporalEdges, name: str) -> str:
    words = edges.feature_categories.get(name)
    return f"{name} (number)" if words is None else f"{name} ({count(len(words), 'category')})"


def _of_times(edges: TemporalEdges) -> list[Fact]:
    """The times, and the time scales that are used by default; none if all times are equal."""
    first, last, kind, days, hint = edges.time.min(), edges.time.max(), "numbers", "", ""
    unit = None if edges.time_unit is not None else unit_since_1970(edges.ticks)
    if edges.time_unit is not None:
        kind = f"dates in {unit_in_words(edges.time_unit)}, in UTC or without time zone"
        days = f", {(last - first) / np.timedelta64(1, 'D'):,.1f} days"
    elif unit is not None:
        hint = f"; if {unit_in_words(unit)} since 1970: time_unit={unit!r}"
    in_order = "in" if bool((np.diff(edges.ticks) >= 0).all()) else "not in"
    times = f"{len(edges):,} at {len(np.unique(edges.ticks)):,} different times; {in_order} chronological order"
    spread = time_spread(edges.ticks)
    scales = [scale * spread for scale in choose_scales(edges)] if spread else []
    return [
        Fact("time", kind, hint),
        Fact("span", f"{first} to {last}{days}"),
        Fact("interactions", times),
        Fact("time scales", durations_in_words(scales, edges.time_unit), "; scales= of classify changes them"),
    ]


def _of_nodes(edges: TemporalEdges) -> list[Fact]:
    degree = _degrees(edges)
    pairs = len(np.unique(edges.src_code.astype(np.int64) * edges.n_nodes + edges.dst_code))
    largest = f"largest {degree.max():,} ({edges.node_ids[int(degree.argmax())]!s})"
    degrees = f"mean {degree.mean():.1f}, median {np.median(degree):g}, {largest}"
    return [Fact("pairs", f"{pairs:,} different"), Fact("degrees", degrees)]


def _degrees(edges: TemporalEdges) -> NDArray[Any]:
    ends = np.concatenate([edges.src_code, edges.dst_code[edges.src_code != edges.dst_code]])
    return np.bincount(ends, minlength=edges.n_nodes)


def _of_labels(table: Table) -> list[Fact]:
    edges = table.edges
    if edges.label is None:
        return []
    name = table.names["label"]
    if not edges.labelled.any():
        return [Fact("label", f"{name!r}: all missing")]
    values = plain_classes(np.asarray(edges.label)[edges.labelled])
    shares, hint = _values(values)
    facts = [Fact("label", f"{name!r}: {shares}; {len(edges) - len(values):,} missing", hint)]
    if edges.label_ticks is not None:
        delay = float(np.median((edges.known_at.astype(np.float64) - edges.ticks)[edges.labelled]))
        facts.append(
            Fact("labels known", f"{duration_in_words(delay, edges.time_unit)} after their row, in the median")
        )
    return facts


def _values(labels: NDArray[Any]) -> tuple[str, str]:
    """The shares of the classes; for other numbers their range, for too many different words their count; and a hint."""
    classes, counts = np.unique(labels, return_counts=True)
    if labels.dtype.kind == "f" or (labels.dtype.kind in "iu" and len(classes) > MOST_CLASSES):
        hint = f"; to classify, give the positive class, for example positive='> {np.median(labels):g}'"
        return f"numbers from {classes[0]:g} to {classes[-1]:g}, {len(classes):,} different", hint
    if len(classes) > MOST_CLASSES:
        hint = "; to classify, give one with positive="
        return f"{len(classes):,} different words, too many for classes", hint
    shown = zip(classes[:SHOWN_CLASSES], counts, strict=False)
    shares = [f"{label!s} {number / len(labels):.1%}" for label, number in shown]
    return ", ".join([*shares, "..."] if len(classes) > SHOWN_CLASSES else shares), ""


def _of_cost(edges: TemporalEdges) -> list[Fact]:
    entries = float((_degrees(edges).astype(float) ** 2).sum())
    n_classes = 2 if edges.label is None else len(set(edges.label[edges.labelled].tolist()))
    if n_classes > MOST_CLASSES:  # an error; a condition turns them into two
        n_classes = 2
    size = in_bytes(memory_to_fit(len(edges), n_classes)) + " of memory"
    matrix = f"as a matrix up to {entries:,.0f} entries, {in_bytes(ENTRY_BYTES * entries)}; tdlg never builds it"
    of = f" with {n_classes} classes" if n_classes > 2 else ""
    return [
        Fact("line graph", matrix),
        Fact("tdlg classify", f"in memory, with the similarity features; {size}{of}"),
    ]
