"""The commands links, rank and embed: pairs, partners and vectors."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import polars as pl
import typer

from tdlg.cli.group import command
from tdlg.cli.options import Count, EdgeColumns, Seed, given_options, number_or_text, wrong
from tdlg.cli.output import give, keep_model, note, working
from tdlg.cli.tables import note_table, on_disk, read_table
from tdlg.edges import TemporalEdges
from tdlg.exceptions import EdgesError, ParameterError
from tdlg.io.files import is_csv
from tdlg.io.read import Table
from tdlg.memory import Needs
from tdlg.models.fits import LINE_GRAPH, LINE_GRAPH_OF_LINKS, RANKING, check_fits
from tdlg.tables.text import count
from tdlg.tables.times import as_times

if TYPE_CHECKING:
    from tdlg.rank.ranker import LinkRanker

VECTOR_BYTES = 40  # per row and dimension of its vector

commands = typer.Typer(rich_markup_mode=None)


@command(commands, "tdlg links messages.csv --top 10 --at 2024-06-01")
def links(
    edges: Path,
    *,
    top: Count = 20,
    at: str | None = None,
    candidates: Path | None = None,
    method: Literal["linegraph", "propagation"] | None = None,
    save: Path | None = None,
    output: Path | None = None,
    seed: Seed = 0,
    columns: EdgeColumns,
) -> None:
    """Find the pairs most likely to interact next, or at a given time.

    "score" ranks the pairs; it is not the frequency of the link. It is called "recency_score" if the latest pairs come first
    because LightGBM is not installed, the table is short, or that was better on its last rows. "seen" is true if the pair
    has interacted before; "reason" tells how often and when, or what speaks for a new pair.

    Parameters
    ----------
    candidates : FILE
        Table of the pairs to rank, one per row. By default likely pairs are generated.
    method
        propagation (the default): what is known of a pair and its nodes, ranked as tdlg rank does; linegraph: the
        line graph of the original paper.
    """
    from tdlg.models.links import LinkPredictor
    from tdlg.models.pairs import known_before, read_pairs
    from tdlg.rank.ranker import LinkRanker

    check_fits(edges, LINE_GRAPH_OF_LINKS if method == "linegraph" else RANKING)
    plain = replace(columns, separator=None)
    table = read_table(edges, columns if candidates is None or is_csv(edges) else plain)
    pairs = None
    if candidates is not None:
        with on_disk(candidates, columns if is_csv(candidates) else plain) as file:
            pairs = read_pairs(file, table.edges, columns.src, columns.dst, columns.separator)
        distinct = list(dict.fromkeys(pairs))
        if len(distinct) < len(pairs):
            note(f"left out {count(len(pairs) - len(distinct), 'repeated candidate')}")
        pairs = distinct
    note_table(table, columns, features=False)
    time = _time_of(at, table.edges)
    known = known_before(time, table.edges)
    predictor = LinkPredictor(**given_options(method=method), random_state=seed)  # scores pairs at any time
    model = predictor if method == "linegraph" else LinkRanker(random_state=seed)
    with working("fitting the model"):
        found = model.fit(known).top(top, at=time, candidates=pairs)
        if save is not None and model is not predictor:
            predictor.fit(known)
    if model is not predictor:
        _note_method(model, pairs=True)
    keep_model(predictor, save, table.names)
    _give_pairs(found, getattr(model, "pair_method_", None), table, output, top)


@command(commands, "tdlg rank messages.csv --node ann --at 2024-06-01 --top 10")
def rank(
    edges: Path,
    *,
    node: list[str],
    top: Count = 10,
    at: str | None = None,
    method: Literal["trees", "recency"] | None = None,
    model: Path | None = None,
    save: Path | None = None,
    output: Path | None = None,
    seed: Seed = 0,
    columns: EdgeColumns,
) -> None:
    """Rank the partners that a node may turn to next.

    "score" ranks the partners of one node at one time; it is not a probability. "seen" is true if they have met before, in
    this direction; "reason" tells how often and when, or what speaks for a new partner.

    Parameters
    ----------
    node : ID
        Node whose next partner is ranked. May be repeated.
    method
        trees: learnt from the table, needs LightGBM; recency: the latest partners first. By default trees if LightGBM is
        installed and the table is long enough.
    model : MODEL
        Model that rank saved: it ranks without a new fit, and also knows the rows of EDGES after its last one.
    save : MODEL
        File to save the model to, for rank --model.
    """
    from tdlg.models.pairs import known_before
    from tdlg.rank.ranker import LinkRanker

    if model is not None and method is not None:
        raise wrong("--method", "the model has its own method. Leave out one of the two.")
    check_fits(edges, RANKING)
    ranker = None if model is None else _loaded(model)
    table = read_table(edges, columns, usual=getattr(ranker, "columns_", None))
    note_table(table, columns, features=False)
    time = _time_of(at, table.edges)
    if ranker is not None:
        new = ranker.later(table.edges)
        note(f"the model knows {count(len(ranker.edges_), 'row')}; {len(new):,} later ones are added")
        ranker.update(new)
    else:
        known = known_before(time, table.edges)
        with working("fitting the model"):
            ranker = LinkRanker(method or "auto", random_state=seed).fit(known)
    _note_method(ranker)
    for one in node:
        if not ranker.knows(one):
            first = "the latest destination" if ranker.method_ == "recency" else "what is popular now"
            note(f"{one!r} never occurred: {first} comes first")
    found = pl.concat([ranker.rank(one, time).head(top) for one in node], how="vertical_relaxed")
    keep_model(ranker, save, table.names)
    _give_pairs(found, ranker.method_, table, output, top * len(node))


def _loaded(path: Path) -> LinkRanker:
    from tdlg.persist.model import load_model
    from tdlg.rank.ranker import LinkRanker

    ranker = load_model(path)
    if not isinstance(ranker, LinkRanker):
        problem = f"{path}: this is a {type(ranker).__name__}, and rank needs a model that rank saved."
        raise ParameterError(problem, parameter="model")
    return ranker


# ---- what links and rank share


def _note_method(ranker: LinkRanker, *, pairs: bool = False) -> None:
    """Say what ranks, and why it is only the recency rule if that was not asked for."""
    from tdlg.rank.fit import is_enough, missing_lightgbm

    method = ranker.pair_method_ if pairs else ranker.method_
    if method == "trees":
        note("ranked by boosted trees" + f", which learnt from {count(ranker.n_queries_, 'row')}" * (not pairs))
    elif ranker.method != "auto":
        note(f"ranked by the {method} rule")
    else:
        few = None if is_enough(len(ranker.edges_)) else "the table is too short to learn from"
        why = missing_lightgbm() or few or "it ranks the last rows better than trees do"
        note(f"ranked by the recency rule: {why}")


def _give_pairs(found: pl.DataFrame, method: str | None, table: Table, output: Path | None, rows: int) -> None:
    """Write a ranking with the names of the table's columns, and of a score that says which rule it is of."""
    score = "score" if method in (None, "trees") else f"{method}_score"
    names = {
        role: table.names[role] for role in ("src", "dst", "time") if table.names[role] not in ("seen", "reason", score)
    }
    give(found.rename({**names, "score": score}), output, rows=rows, computed=(score,))


def _time_of(at: str | None, edges: TemporalEdges) -> Any:
    """The time given with --at, in the type that the edges use."""
    if at is None:
        return None
    time: Any = at
    kind, way_out = "dates", "Write it as 2024-06-01 or 2024-06-01T12:30."
    if edges.time_unit is None:
        time = int(at) if at.lstrip("+-").isdecimal() else number_or_text(at)
        kind, way_out = "numbers", "Give a number."
    with suppress(EdgesError):
        if (as_times([time], "at")[1] is None) == (edges.time_unit is None):
            return time
    raise ParameterError(f"The times of these edges are {kind}, but --at {at!r} is not one. {way_out}", parameter="at")


# ---- vectors


@command(commands, "tdlg embed messages.csv --nodes --dim 16 -o vectors.parquet")
def embed(
    edges: Path,
    *,
    nodes: bool = False,
    dim: Count = 128,
    save: Path | None = None,
    output: Path | None = None,
    seed: Seed = 0,
    columns: EdgeColumns,
) -> None:
    """Embed interactions or nodes as vectors for other tools.

    The result is your table with the columns e0, e1, ... added; with --nodes, it is a table with one row per node.

    Parameters
    ----------
    nodes
        Write one vector per node instead of one per row.
    dim : NUMBER
        Dimension of the vectors.
    """
    from tdlg.embed.eigenvectors import EdgeEmbedding
    from tdlg.linegraph.decay import NoDecay

    needs = Needs(LINE_GRAPH.start, LINE_GRAPH.row + VECTOR_BYTES * dim)
    check_fits(edges, needs, "A smaller --dim needs less.")
    table = read_table(edges, columns)
    note_table(table, columns, features=False)
    is_one_time = table.edges.ticks.min() == table.edges.ticks.max()
    if is_one_time:
        note("all times are equal, so time is ignored")
    model = EdgeEmbedding(dim, decay=NoDecay() if is_one_time else None, random_state=seed)
    with working(f"computing {count(dim, 'dimension')}"):
        vectors = model.fit_transform(table.edges)
    if vectors.shape[1] < dim:
        note(f"these interactions allow only {count(vectors.shape[1], 'dimension')}")
    keep_model(model, save, table.names)
    if nodes:
        give(_node_vectors(table.edges, vectors), output)
    else:
        added = {f"e{k}": pl.Series(column) for k, column in enumerate(vectors.T)}
        give(table.with_columns(**added), output)


def _node_vectors(edges: TemporalEdges, vectors: Any) -> pl.DataFrame:
    from tdlg.embed.nodes import node_embeddings
    from tdlg.explain.reasons import as_series

    means = np.asarray(node_embeddings(edges, vectors))
    frame = pl.DataFrame({f"e{k}": column for k, column in enumerate(means.T)})
    frame.insert_column(0, as_series(edges.node_ids).alias("node"))
    if edges.bipartite:
        sides = np.where(np.arange(len(means)) < (edges.n_src_nodes or 0), "src", "dst")
        frame.insert_column(1, pl.Series("side", sides))
    return frame
