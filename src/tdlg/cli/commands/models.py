"""Commands that take a saved model to other tables."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tdlg.cli.answers import answers, explained, kind_of, meaning, positive_label, two_classes
from tdlg.cli.labels import labelled_edges, plain_classes
from tdlg.cli.options import Columns, EdgesPath, Missing, ModelPath, Output, Positive, Top, example, with_columns
from tdlg.cli.output import check_output, give, rounded
from tdlg.cli.table import Table, read_table
from tdlg.cli.terminal import count, note, working
from tdlg.exceptions import ParameterError

if TYPE_CHECKING:
    import polars as pl

    from tdlg.edges import TemporalEdges

__all__ = ["register"]

SHOWN_OF_NODES = ("node", "role", "n", "mean", "score", "row", "reason")
SHOWN_OF_REASONS = ("what", "effect", "reason")
COMPUTED_OF_NODES = ("expected", "mean", "highest", "score")
COMPUTED_OF_REASONS = ("score", "effect")
MADE_BY = {"outlier_detector": "outliers", "links": "links", "transformer": "embed"}
AMONG_FITTED = ("edge", "neighbours")  # positions in a table that only the model has

ClassifierPath = Annotated[Path, typer.Argument(metavar="MODEL", help="Model that classify wrote with --save.")]
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
        short_help="Explain the prediction for a row.",
        epilog=example("tdlg explain model.tdlg payments.csv --row 17"),
    )(explain)


@with_columns
def score(
    model: ModelPath,
    edges: EdgesPath,
    *,
    label: Label = None,
    positive: Positive = None,
    missing: Missing = None,
    output: Output = None,
    columns: Columns,
) -> None:
    """Score the rows of a table with a saved model.

    The table comes back with the columns that the command which saved the model adds, for every row. Features, and
    whether sources and destinations are of two kinds, are as they were then; --positive and --missing are to be given
    again where --label is.
    """
    if label is None and (positive or missing):
        raise typer.BadParameter(
            "it says how a label is read, and there is no --label. Give the column with --label.",
            param_hint="--positive" if positive else "--missing",
        )
    check_output(output)
    fitted = _load(model)
    table = _read(fitted, edges, columns, label)
    known = table.edges
    if label is not None:
        known = labelled_edges(known, label, positive, missing, to_learn=False, classes=two_classes(fitted))
        _check_known(fitted, known, label)
    with working(f"scoring {count(len(known), 'row')}"):
        added = answers(fitted, known)
    if "probability" in added:
        note(meaning(fitted))
    first = next((name for name in ("probability", "oddness", "score") if name in added), None)
    give(table.with_columns(**added), output, first=None if first is None else table.free_name(first))


@with_columns
def nodes(model: ClassifierPath, edges: EdgesPath, *, top: Top = 20, output: Output = None, columns: Columns) -> None:
    """Tell which nodes to look at first: those whose interactions most likely are what a saved model looks for.

    That is the positive class: what --positive of classify says, or of two numbers the larger one, or else the rarest
    class. "row" is the row of the table with the highest probability: `tdlg explain` says why.
    """
    import polars as pl

    from tdlg.explain.nodes import node_scores

    check_output(output)
    fitted = _load_classifier(model)
    table = _read(fitted, edges, columns)
    positive = positive_label(fitted)
    if positive is not None:
        note(f"looked for: {positive!r}")
    with working("scoring nodes"):
        found = node_scores(fitted, table.edges).with_columns(pl.col("edge") + 1).rename({"edge": "row"})
    shown = [name for name in SHOWN_OF_NODES if name in found.columns]
    give(rounded(found.head(top), *COMPUTED_OF_NODES), output, rows=top, shown=shown)


@with_columns
def explain(
    model: ClassifierPath,
    edges: EdgesPath,
    *,
    row: Annotated[int, typer.Option(min=1, help="Which row of the table; 1 is the first below the header.")],
    top: Annotated[int, typer.Option(min=1, help="How many reasons to name.")] = 5,
    output: Output = None,
    columns: Columns,
) -> None:
    """Explain the prediction of a saved model for one row: the reasons that moved its score most.

    With two classes the reasons are for or against the positive class, the one whose probability classify reports; with
    more classes, the predicted class. An effect above 0 speaks for the class, an effect below 0 against it.
    """
    check_output(output)
    fitted = _load_classifier(model)
    table = _read(fitted, edges, columns)
    if row > len(table.edges):
        raise ParameterError(f"There is no row {row:,}: the table has {len(table.edges):,}.")
    with working("looking for reasons"):
        predicted = answers(fitted, table.edges)
        reasons = fitted.explain(table.edges, top, rows=row - 1)
    note(f"row {row:,}: " + ", ".join(f"{name} = {values[row - 1]}" for name, values in predicted.items()))
    note(f"explained: {explained(fitted)}")
    give(rounded(_tidy(reasons), *COMPUTED_OF_REASONS), output, rows=len(reasons), shown=SHOWN_OF_REASONS)


def _load(path: Path) -> Any:
    from tdlg.persist.model import load_model

    with working("reading the model"):
        return load_model(path)


def _load_classifier(path: Path) -> Any:
    model = _load(path)
    made_by = MADE_BY.get(kind_of(model))
    if made_by is not None:
        raise ParameterError(
            f"{path}: this model is of {made_by}, which only score takes. Give one that classify saved."
        )
    return model


def _read(model: Any, path: Path, columns: Columns, label: str | None = None) -> Table:
    """The table, with the features and kinds of nodes that the model knows."""
    fitted = model.edges_
    names, categories = fitted.feature_names, tuple(fitted.feature_categories)
    table = read_table(path, replace(columns, bipartite=fitted.bipartite), label, names, categories)
    if (table.edges.time_unit is None) != (fitted.time_unit is None):
        here, there = ("numbers", "dates") if table.edges.time_unit is None else ("dates", "numbers")
        way_out = "Pass --time-unit or --time-format as then" if here == "numbers" else "Give them as numbers too"
        way_out = "Leave out --time-unit" if columns.time_unit else way_out
        raise ParameterError(
            f"{path}: the times are {here}, and those that the model learnt from are {there}. {way_out}."
        )
    _tell_new_nodes(model, table.edges)
    return table


def _tell_new_nodes(model: Any, edges: TemporalEdges) -> None:
    """Say how many nodes the model does not know; where it knows hardly any, the model itself warns."""
    from tdlg.estimator import new_nodes

    n_new, n_nodes = new_nodes(model, edges)
    if n_new:
        note(f"{n_new:,} of {count(n_nodes, 'node')} {'is' if n_new == 1 else 'are'} new to the model")


def _check_known(model: Any, edges: TemporalEdges, column: str) -> None:
    """Refuse labels that the model has never learnt, with the way out."""
    import numpy as np

    if edges.label is None or kind_of(model) != "classifier":
        return
    classes = plain_classes(model.classes_).tolist()
    found = plain_classes(np.unique(np.asarray(edges.label)[edges.labelled])).tolist()
    strange = [value for value in found if value not in classes]
    if strange:
        raise ParameterError(
            f"The column {column!r} has {strange[0]!r}, and the model knows {', '.join(map(repr, classes))}. "
            f"Pass the --positive and --missing that it was made with."
        )


def _tidy(reasons: pl.DataFrame) -> pl.DataFrame:
    """Reasons as people read them: whole labels as whole numbers, times without needless decimals, no positions."""
    import polars as pl
    import polars.selectors as cs

    reasons = reasons.drop(AMONG_FITTED, strict=False)
    numbers = reasons.select(cs.by_name("class", require_all=False) & cs.float())
    whole = [column.name for column in numbers if (column % 1 == 0).all()]
    return reasons.with_columns(pl.col(whole).cast(pl.Int64), cs.datetime().dt.to_string("%Y-%m-%dT%H:%M:%S%.f"))
