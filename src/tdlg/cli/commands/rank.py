"""The command rank: the next partner of a node."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tdlg.cli.cost import RANKING
from tdlg.cli.files import check_fits
from tdlg.cli.options import Columns, EdgesPath, Output, Seed, Top, example, with_columns_except
from tdlg.cli.output import check_model_file, check_output, give, keep_model, rounded
from tdlg.cli.ranking import RankingMethod, header_of, known_at, note_method, rows_after, time_of
from tdlg.cli.table import Table, note_table, read_table
from tdlg.cli.terminal import count, note, working
from tdlg.exceptions import ParameterError

if TYPE_CHECKING:
    from tdlg.rank.ranker import LinkRanker

__all__ = ["register"]


def register(app: typer.Typer) -> None:
    """Add this command."""
    app.command(
        short_help="Rank the next partner of a node.",
        epilog=example("tdlg rank messages.csv --node ann --at 2024-06-01 --top 10"),
    )(rank)


@with_columns_except("features", "categories")
def rank(
    edges: EdgesPath,
    *,
    node: Annotated[list[str], typer.Option(metavar="ID", help="Node whose next partner is ranked. May be repeated.")],
    top: Top = 10,
    at: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help="Time of the next interaction, for example 2024-06-01; only rows strictly before it are used. By default "
            "all rows are used, and the time is the latest one.",
        ),
    ] = None,
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
        raise typer.BadParameter("the model has its own method. Leave out one of the two.", param_hint="--method")
    check_output(output)
    check_model_file(save)
    check_fits(edges, RANKING)
    table = read_table(edges, columns, features=())
    note_table(table, columns, features=False)
    time = None if at is None else time_of(at, table.edges)
    ranker = _ranker(table, method, model, seed, time)
    note_method(ranker)
    for one in node:
        _note_unknown(ranker, one)
    found = rounded(pl.concat([ranker.rank(one, time).head(top) for one in node], how="vertical_relaxed"), "score")
    keep_model(ranker, save)
    give(found.rename(header_of(ranker.method_, table)), output, rows=top * len(node))


def _ranker(table: Table, method: str | None, path: Path | None, seed: int, time: Any) -> LinkRanker:
    from tdlg.rank.ranker import LinkRanker

    if path is None:
        known = known_at(table.edges, time)
        with working("fitting the model"):
            return LinkRanker(method or "auto", random_state=seed).fit(known)  # type: ignore[arg-type]
    from tdlg.persist.model import load_model

    ranker = load_model(path)
    if not isinstance(ranker, LinkRanker):
        raise ParameterError(
            f"{path}: this is a {type(ranker).__name__}, and rank needs a model that rank saved.",
            parameter="model",
        )
    new = rows_after(table.edges, ranker.edges_)
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
