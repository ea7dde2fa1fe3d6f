"""The commands links, rank and embed: pairs, partners and vectors."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from tdlg.cli.group import command
from tdlg.cli.options import (
    At,
    Columns,
    EdgesPath,
    Output,
    RankingMethod,
    Save,
    Seed,
    Top,
    given_options,
    with_columns,
    wrong,
)
from tdlg.cli.output import check_model_file, check_output, count, give, keep_model, note, rounded, working
from tdlg.cli.tables import LINE_GRAPH, LINE_GRAPH_OF_LINKS, RANKING, check_fits, note_table, read_pairs, read_table
from tdlg.exceptions import ParameterError
from tdlg.io.files import is_csv
from tdlg.memory import Needs

if TYPE_CHECKING:
    import polars as pl

    from tdlg.edges import TemporalEdges
    from tdlg.io.read import Table
    from tdlg.rank.ranker import LinkRanker

VECTOR_BYTES = 40  # per row and dimension of its vector

commands = typer.Typer(rich_markup_mode=None)


@command(commands, "tdlg links messages.csv --top 10 --at 2024-06-01")
@with_columns("features", "categories")
def links(
    edges: EdgesPath,
    *,
    top: Top = 20,
    at: At = None,
    candidates: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Table of the pairs to rank, one per row. By default likely pairs are generated."
        ),
    ] = None,
    method: Annotated[
        Literal["rows", "propagation"] | None,
        typer.Option(
            help="propagation (the default): what is known of a pair and its nodes, ranked as tdlg rank does; rows: the "
            "line graph of the original paper."
        ),
    ] = None,
    save: Save = None,
    output: Output = None,
    seed: Seed = 0,
    columns: Columns,
) -> None:
    """Find the pairs most likely to interact next, or at a given time.

    "score" ranks the pairs; it is not the frequency of the link. It is called "recency_score" if the latest pairs come first
    because LightGBM is not installed, the table is short, or that was better on its last rows. "seen" is true if the pair
    has interacted before.
    """
    from tdlg.models.links import LinkPredictor
    from tdlg.rank.ranker import LinkRanker

    check_output(output)
    check_model_file(save)
    check_fits(edges, LINE_GRAPH_OF_LINKS if method == "rows" else RANKING)
    table = read_table(
        edges,
        columns if candidates is None or is_csv(edges) else replace(columns, separator=None),
        features=(),
    )
    pairs = None if candidates is None else _distinct(read_pairs(candidates, table.edges, columns))
    note_table(table, columns, features=False)
    time = None if at is None else _time_of(at, table.edges)
    known = _known_at(table.edges, time)
    predictor = LinkPredictor(**given_options(method=method), random_state=seed)  # scores pairs at any time
    model = predictor if method == "rows" else LinkRanker(random_state=seed)
    with working("fitting the model"):
        found = model.fit(known).top(top, at=time, candidates=pairs)
        if save is not None and model is not predictor:
            predictor.fit(known)
    if model is not predictor:
        _note_method(model, pairs=True)
    keep_model(predictor, save)
    give(rounded(found, "score").rename(_header_of(getattr(model, "pair_method_", None), table)), output, rows=top)


def _distinct(pairs: list[tuple[Any, Any]]) -> list[tuple[Any, Any]]:
    """Each pair once, in the given order."""
    distinct = list(dict.fromkeys(pairs))
    if len(distinct) < len(pairs):
        note(f"left out {count(len(pairs) - len(distinct), 'repeated candidate')}")
    return distinct


@command(commands, "tdlg rank messages.csv --node ann --at 2024-06-01 --top 10")
@with_columns("features", "categories")
def rank(
    edges: EdgesPath,
    *,
    node: Annotated[list[str], typer.Option(metavar="ID", help="Node whose next partner is ranked. May be repeated.")],
    top: Top = 10,
    at: At = None,
    method: RankingMethod = None,
    model: Annotated[
        Path | None,
        typer.Option(
            metavar="MODEL",
            help="Model that rank saved: it ranks without a new fit, and also knows the rows of EDGES after its last one.",
        ),
    ] = None,
    save: Annotated[
        Path | None, typer.Option(metavar="MODEL", help="File to save the model to, for rank --model.")
    ] = None,
    output: Output = None,
    seed: Seed = 0,
    columns: Columns,
) -> None:
    """Rank the partners that a node may turn to next.

    "score" ranks the partners of one node at one time; it is not a probability. "seen" is true if they have met before, in
    this direction.
    """
    import polars as pl

    if model is not None and method is not None:
        raise wrong("--method", "the model has its own method. Leave out one of the two.")
    check_output(output)
    check_model_file(save)
    check_fits(edges, RANKING)
    table = read_table(edges, columns, features=())
    note_table(table, columns, features=False)
    time = None if at is None else _time_of(at, table.edges)
    ranker = _ranker(table, method, model, seed, time)
    _note_method(ranker)
    for one in node:
        _note_unknown(ranker, one)
    found = rounded(pl.concat([ranker.rank(one, time).head(top) for one in node], how="vertical_relaxed"), "score")
    keep_model(ranker, save)
    give(found.rename(_header_of(ranker.method_, table)), output, rows=top * len(node))


def _ranker(table: Table, method: str | None, path: Path | None, seed: int, time: Any) -> LinkRanker:
    from tdlg.rank.ranker import LinkRanker

    if path is None:
        known = _known_at(table.edges, time)
        with working("fitting the model"):
            return LinkRanker(method or "auto", random_state=seed).fit(known)  # type: ignore[arg-type]
    from tdlg.persist.model import load_model

    ranker = load_model(path)
    if not isinstance(ranker, LinkRanker):
        raise ParameterError(
            f"{path}: this is a {type(ranker).__name__}, and rank needs a model that rank saved.",
            parameter="model",
        )
    new = _rows_after(table.edges, ranker.edges_)
    note(f"the model knows {count(len(ranker.edges_), 'row')}; {len(new):,} later ones are added")
    return ranker.update(new)


def _note_unknown(ranker: Any, source: str) -> None:
    """Say that nothing is known of a node."""
    from tdlg.edges import TemporalEdges

    known = ranker.edges_
    asked = TemporalEdges([source], known.dst[:1], known.time[:1], bipartite=known.bipartite).with_ids_of(known)
    if known.codes_of(asked)[0][0] < 0:
        first = "the latest destination" if ranker.method_ == "recency" else "what is popular now"
        note(f"{source!r} never occurred: {first} comes first")


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
        note(
            f"ranked by the recency rule: {missing_lightgbm() or few or 'it ranks the last rows better than trees do'}"
        )


def _header_of(method: str | None, table: Table) -> dict[str, str]:
    """New names of the columns of a ranking: those of the table, and a score that says which rule it is of."""
    names = {role: table.names[role] for role in ("src", "dst", "time")}
    if method not in (None, "trees"):
        names["score"] = f"{method}_score"
    taken = {"seen", names.get("score", "score")}
    return {role: name for role, name in names.items() if role == "score" or name not in taken}


def _time_of(at: str, edges: TemporalEdges) -> float | int | str:
    """The time given with --at, in the type that the edges use."""
    if edges.time_unit is not None:
        return at
    try:
        return int(at) if at.lstrip("+-").isdecimal() else float(at)
    except ValueError:
        raise ParameterError(
            f"The times of these edges are numbers, but --at {at!r} is not a number.", parameter="at"
        ) from None


def _known_at(edges: TemporalEdges, time: Any) -> TemporalEdges:
    """The edges strictly before a time, from which alone may be learnt what is asked about it; all edges for None."""
    from tdlg.models.pairs import as_time

    if time is None:
        return edges
    (at,) = as_time(time, edges, "--at", "tdlg")
    known = edges[edges.time < at]
    if len(known) == 0:
        raise ParameterError(f"No row happened before {time}. Choose a later time.", parameter="at")
    return known


def _rows_after(edges: TemporalEdges, known: TemporalEdges) -> TemporalEdges:
    """The edges that happened after known ones, and those at exactly the last known time that are not among them."""
    import numpy as np

    from tdlg.edges import check_alike

    kinds = ["numbers" if each.time_unit is None else "datetimes" for each in (edges, known)]
    if len(set(kinds)) > 1:
        hints = ["Name the unit that they count, as with time_unit='s'."] * (kinds[0] == "numbers")
        problem = f"The times of the table are {kinds[0]}, and those of the model {kinds[1]}."
        raise ParameterError(problem, *hints, parameter="time")
    check_alike((known, edges))
    last = known.time.max()
    there, at_last = (each[each.time == last] for each in (known, edges.with_ids_of(known)))
    left = Counter(zip(there.src.tolist(), there.dst.tolist(), strict=True))
    is_new = edges.time > last
    for row, pair in zip(
        np.flatnonzero(edges.time == last), zip(at_last.src.tolist(), at_last.dst.tolist(), strict=True), strict=True
    ):
        is_new[row] = left[pair] == 0
        left[pair] -= not is_new[row]
    return edges[is_new]


# ---- vectors


@command(commands, "tdlg embed messages.csv --nodes --dim 16 -o vectors.parquet")
@with_columns("features", "categories")
def embed(
    edges: EdgesPath,
    *,
    nodes: Annotated[bool, typer.Option("--nodes", help="Write one vector per node instead of one per row.")] = False,
    dim: Annotated[int, typer.Option(min=1, help="Dimension of the vectors.")] = 128,
    save: Save = None,
    output: Output = None,
    seed: Seed = 0,
    columns: Columns,
) -> None:
    """Embed interactions or nodes as vectors for other tools.

    The result is your table with the columns e0, e1, ... added; with --nodes, it is a table with one row per node.
    """
    import polars as pl

    from tdlg.embed.eigenvectors import EdgeEmbedding
    from tdlg.linegraph.decay import NoDecay

    check_output(output)
    check_model_file(save)
    needs = Needs(LINE_GRAPH.start, LINE_GRAPH.row + VECTOR_BYTES * dim)
    check_fits(edges, needs, "A smaller --dim needs less.")
    table = read_table(edges, columns, features=())
    note_table(table, columns, features=False)
    is_one_time = table.edges.ticks.min() == table.edges.ticks.max()
    if is_one_time:
        note("all times are equal, so time is ignored")
    model = EdgeEmbedding(dim, decay=NoDecay() if is_one_time else None, random_state=seed)
    with working(f"computing {count(dim, 'dimension')}"):
        vectors = model.fit_transform(table.edges)
    if vectors.shape[1] < dim:
        note(f"these interactions allow only {count(vectors.shape[1], 'dimension')}")
    keep_model(model, save)
    if nodes:
        give(_node_vectors(table.edges, vectors), output)
    else:
        added = {f"e{k}": pl.Series(column) for k, column in enumerate(vectors.T)}
        give(table.with_columns(**added), output)


def _node_vectors(edges: TemporalEdges, vectors: Any) -> pl.DataFrame:
    import numpy as np
    import polars as pl

    from tdlg.embed.nodes import node_embeddings
    from tdlg.explain.reasons import as_series

    means = np.asarray(node_embeddings(edges, vectors))
    frame = pl.DataFrame({f"e{k}": column for k, column in enumerate(means.T)})
    frame.insert_column(0, as_series(edges.node_ids).alias("node"))
    if edges.bipartite:
        sides = np.where(np.arange(len(means)) < (edges.n_src_nodes or 0), "src", "dst")
        frame.insert_column(1, pl.Series("side", sides))
    return frame
