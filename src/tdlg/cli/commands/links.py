"""The command links: find the pairs most likely to interact next."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from tdlg.cli.cost import LINE_GRAPH_OF_LINKS, RANKING
from tdlg.cli.files import check_fits
from tdlg.cli.options import Columns, EdgesPath, Output, Save, Seed, Top, example, given_options, with_columns_except
from tdlg.cli.output import check_model_file, check_output, give, keep_model, rounded
from tdlg.cli.ranking import header_of, known_at, note_method, time_of
from tdlg.cli.table import note_table, read_pairs, read_table
from tdlg.cli.terminal import count, note, working

__all__ = ["register"]


def register(app: typer.Typer) -> None:
    """Add this command."""
    app.command(
        short_help="Find the pairs most likely to interact next.",
        epilog=example("tdlg links messages.csv --top 10 --at 2024-06-01"),
    )(links)


@with_columns_except("features", "categories")
def links(
    edges: EdgesPath,
    *,
    top: Top = 20,
    at: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help="Time of the links to predict, for example 2024-06-01; only rows strictly before it are used. By default "
            "all rows are used, and the time is the latest one.",
        ),
    ] = None,
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
    from tdlg.io.files import is_csv
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
    time = None if at is None else time_of(at, table.edges)
    known = known_at(table.edges, time)
    predictor = LinkPredictor(**given_options(method=method), random_state=seed)  # scores pairs at any time
    model = predictor if method == "rows" else LinkRanker(random_state=seed)
    with working("fitting the model"):
        found = model.fit(known).top(top, at=time, candidates=pairs)
        if save is not None and model is not predictor:
            predictor.fit(known)
    if model is not predictor:
        note_method(model, pairs=True)
    keep_model(predictor, save)
    give(rounded(found, "score").rename(header_of(getattr(model, "pair_method_", None), table)), output, rows=top)


def _distinct(pairs: list[tuple[Any, Any]]) -> list[tuple[Any, Any]]:
    """Each pair once, in the given order."""
    distinct = list(dict.fromkeys(pairs))
    if len(distinct) < len(pairs):
        note(f"left out {count(len(pairs) - len(distinct), 'repeated candidate')}")
    return distinct
