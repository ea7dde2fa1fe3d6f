"""Commands that take a saved model to other tables."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from tdlg.cli.answers import answers, meaning
from tdlg.cli.options import Columns, EdgesPath, ModelPath, Output, Top, example, with_columns
from tdlg.cli.reading import Table, read_table
from tdlg.cli.terminal import count, note, working
from tdlg.cli.writing import check_output, give, rounded
from tdlg.exceptions import ParameterError

__all__ = ["register"]

SHOWN_OF_NODES = ("node", "role", "n", "mean", "score", "row", "reason")
SHOWN_OF_REASONS = ("what", "effect", "reason")

Label = Annotated[
    str | None,
    typer.Option(
        metavar="COLUMN", help="Labels that have become known since, which count for later rows (setting stream)."
    ),
]


def register(app: typer.Typer) -> None:
    """Add these commands."""
    app.command(
        short_help="Score a table with a saved model.", epilog=example("tdlg score model.tdlg new.csv -o scored.csv")
    )(score)
    app.command(
        short_help="Tell which nodes to look at first.", epilog=example("tdlg nodes model.tdlg payments.csv --top 10")
    )(nodes)
    app.command(
        short_help="Tell why a model says what it says of a row.",
        epilog=example("tdlg explain model.tdlg payments.csv --row 17"),
    )(explain)


@with_columns
def score(
    model: ModelPath,
    edges: EdgesPath,
    *,
    label: Label = None,
    output: Output = None,
    columns: Columns,
) -> None:
    """Score the rows of a table with a saved model.

    The table comes back with the columns that the command which saved the model adds, for every row. Features, and
    whether sources and destinations are of two kinds, are as they were then.
    """
    check_output(output)
    fitted = _load(model)
    table = _read(fitted, edges, columns, label)
    with working(f"scoring {count(len(table.edges), 'row')}"):
        added = answers(fitted, table.edges)
    if "probability" in added:
        note(meaning(fitted))
    first = next((name for name in ("probability", "oddness", "score") if name in added), None)
    give(table.with_columns(**added), output, first=first)


@with_columns
def nodes(model: ModelPath, edges: EdgesPath, *, top: Top = 20, output: Output = None, columns: Columns) -> None:
    """Tell which nodes to look at first: those whose interactions a saved model finds most suspicious.

    "row" is the row of the table that speaks most against a node: `tdlg explain` tells more of it.
    """
    import polars as pl

    from tdlg.models.reasons import node_scores

    check_output(output)
    fitted = _load(model)
    table = _read(fitted, edges, columns)
    with working("scoring nodes"):
        found = node_scores(fitted, table.edges).with_columns(pl.col("edge") + 1).rename({"edge": "row"})
    shown = [name for name in SHOWN_OF_NODES if name in found.columns]
    give(rounded(found.head(top)), output, rows=top, shown=shown)


@with_columns
def explain(
    model: ModelPath,
    edges: EdgesPath,
    *,
    row: Annotated[int, typer.Option(min=1, help="Which row of the table; 1 is the first below the header.")],
    top: Annotated[int, typer.Option(min=1, help="How many reasons to name.")] = 5,
    output: Output = None,
    columns: Columns,
) -> None:
    """Tell why a saved model says what it says of one row: the interactions or facts that moved it most."""
    check_output(output)
    fitted = _load(model)
    if not hasattr(fitted, "explain"):
        raise ParameterError(f"A {type(fitted).__name__} cannot be asked for reasons: only what classify saved.")
    table = _read(fitted, edges, columns)
    if row > len(table.edges):
        raise ParameterError(f"There is no row {row:,}: the table has {len(table.edges):,}.")
    with working("looking for reasons"):
        told = answers(fitted, table.edges)
        reasons = fitted.explain(table.edges, top=top, rows=row - 1)
    note(f"row {row:,}: " + ", ".join(f"{name} = {values[row - 1]}" for name, values in told.items()))
    shown = SHOWN_OF_REASONS if "reason" in reasons.columns else None
    give(rounded(reasons.drop("edge")), output, rows=len(reasons), shown=shown)


def _load(path: Path) -> Any:
    from tdlg.persist.model import load_model

    with working("reading the model"):
        return load_model(path)


def _read(model: Any, path: Path, columns: Columns, label: str | None = None) -> Table:
    """The table, with the features and kinds of nodes that the model knows."""
    fitted = model.edges_
    features = columns.features or ",".join(fitted.feature_names) or None
    return read_table(path, replace(columns, features=features, bipartite=fitted.bipartite), label)
