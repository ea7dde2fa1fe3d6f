"""The commands score, nodes and explain, which apply a saved model to a table."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from tdlg.cli.answers import answers, explained, kind_of, meaning, positive_label, two_classes
from tdlg.cli.group import command
from tdlg.cli.options import (
    Columns,
    EdgesPath,
    IdColumn,
    KnownLabel,
    LabelDelay,
    LabelTime,
    Late,
    Missing,
    ModelPath,
    Output,
    Positive,
    Top,
    late_labels,
    needs_label,
    with_columns,
    wrong,
)
from tdlg.cli.output import check_output, count, give, note, rounded, working
from tdlg.cli.tables import check_fits, listed, read_table
from tdlg.exceptions import ParameterError
from tdlg.memory import SCORING

if TYPE_CHECKING:
    import polars as pl

    from tdlg.edges import TemporalEdges
    from tdlg.io.read import Table

SHOWN_OF_NODES = ("node", "role", "n", "mean", "score", "row", "reason")
SHOWN_OF_REASONS = ("what", "effect", "reason")
COMPUTED_OF_NODES = ("expected", "mean", "highest", "score")
COMPUTED_OF_REASONS = ("score", "effect")
MADE_BY = {"outlier_detector": "outliers", "links": "links", "transformer": "embed"}
AMONG_FITTED = ("edge", "neighbours")  # positions in the table that the model was fitted on

ClassifierPath = Annotated[Path, typer.Argument(metavar="MODEL", help="Model that classify wrote with --save.")]

commands = typer.Typer(rich_markup_mode=None)


@command(commands, "tdlg score model.tdlg new.csv -o scored.csv")
@with_columns("features", "categories", "bipartite")
def score(
    model: ModelPath,
    edges: EdgesPath,
    *,
    label: KnownLabel = None,
    positive: Positive = None,
    missing: Missing = None,
    label_time: LabelTime = None,
    label_delay: LabelDelay = None,
    state: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Folder that keeps what was scored and learnt, for the tables that follow. By default nothing is kept.",
        ),
    ] = None,
    id: IdColumn = None,
    output: Output = None,
    columns: Columns,
) -> None:
    """Score the rows of a table with a saved model.

    The result is your table with the same columns added as by the command that saved the model, filled in every row. The
    features, and whether the table is bipartite, are known from the model. With --label, repeat the --positive and
    --missing that you gave to classify. Labels count from the times given by --label-time or --label-delay; by default from
    the --label-delay that you gave to classify.

    With --state, a model of `tdlg classify --setting stream` or `tdlg outliers --method burst` also uses all tables that
    were scored before. Column names and label options are remembered. Rows seen before are not counted again, but new
    labels for them are learnt.
    """
    if state is not None:
        labels = {"label": label, "positive": positive, "missing": missing}
        labels |= {"label_time": label_time, "label_delay": label_delay}
        _score_with_state(state, model, edges, columns, labels, id, output)
        return
    if id is not None:
        raise wrong("--id", "it works only with --state. Add it, or leave out --id.")
    given = _Labels(label, positive, missing, late_labels(label, label_time, label_delay))
    given.check()
    check_output(output)
    fitted = _load(model, given)
    table = _read(fitted, edges, columns, given)
    known = table.edges
    _report_new_nodes(fitted, known)
    with working(f"scoring {count(len(known), 'row')}"):
        added = answers(fitted, known)
    _give_scores(fitted, table, added, output)


def _score_with_state(
    state: Path, model: Path, edges: Path, columns: Columns, labels: dict[str, str | None], id: str | None, output: Any
) -> None:
    from tdlg.cli.nightly import Nightly

    def read(fitted: Any, path: Path, columns: Columns, *given: Any) -> tuple[Table, TemporalEdges]:
        table = _read(fitted, path, columns, _Labels(*given))
        return table, table.edges

    check_output(output)
    table, added, fitted = Nightly(state, model).score(edges, columns, labels, id, read)
    _give_scores(fitted, table, added, output)


def _give_scores(fitted: Any, table: Table, added: dict[str, Any], output: Path | None) -> None:
    if "probability" in added:
        note(meaning(fitted))
    first = next((name for name in ("probability", "outlier_score", "score") if name in added), None)
    give(table.with_columns(**added), output, first=None if first is None else table.free_name(first))


@command(commands, "tdlg nodes model.tdlg payments.csv --top 10")
@with_columns("features", "categories", "bipartite")
def nodes(
    model: ClassifierPath,
    edges: EdgesPath,
    *,
    top: Top = 20,
    label: KnownLabel = None,
    positive: Positive = None,
    missing: Missing = None,
    label_time: LabelTime = None,
    label_delay: LabelDelay = None,
    output: Output = None,
    columns: Columns,
) -> None:
    """Rank the nodes to look at first: those whose interactions are most likely of the positive class.

    The positive class is the one given with --positive to classify; by default the larger of two numbers, else the
    rarest label. "row" is the row of the node's interaction with the highest probability; `tdlg explain` explains it.
    """
    import polars as pl

    from tdlg.explain.nodes import node_scores

    given = _Labels(label, positive, missing, late_labels(label, label_time, label_delay))
    given.check()
    check_output(output)
    fitted = _load_classifier(model, given)
    known = _read(fitted, edges, columns, given).edges
    _report_new_nodes(fitted, known)
    looked_for = positive_label(fitted)
    if looked_for is not None:
        note(f"positive class: {looked_for!r}")
    with working("scoring nodes"):
        found = node_scores(fitted, known, top=top).with_columns(pl.col("edge") + 1).rename({"edge": "row"})
    shown = [name for name in SHOWN_OF_NODES if name in found.columns]
    give(rounded(found, *COMPUTED_OF_NODES), output, rows=top, shown=shown)


@command(commands, "tdlg explain model.tdlg payments.csv --row 17")
@with_columns("features", "categories", "bipartite")
def explain(
    model: ClassifierPath,
    edges: EdgesPath,
    *,
    row: Annotated[int, typer.Option(min=1, help="Number of the row to explain; 1 is the first row below the header.")],
    top: Annotated[int, typer.Option(min=1, help="Number of reasons to show.")] = 5,
    label: KnownLabel = None,
    positive: Positive = None,
    missing: Missing = None,
    label_time: LabelTime = None,
    label_delay: LabelDelay = None,
    output: Output = None,
    columns: Columns,
) -> None:
    """Explain the prediction of a saved model for one row: the reasons that moved its score most.

    With two classes, the reasons are for or against the positive class, whose probability classify reports; with more
    classes, for or against the predicted class. A positive effect raises the score of the class, a negative one lowers it.
    A model of `tdlg outliers --method burst` is explained too: what was how often, and what is usual.
    """
    given = _Labels(label, positive, missing, late_labels(label, label_time, label_delay))
    given.check()
    check_output(output)
    fitted = _load_classifier(model, given, bursts=True)
    known = _read(fitted, edges, columns, given).edges
    _report_new_nodes(fitted, known)
    if row > len(known):
        raise ParameterError(f"There is no row {row:,}: the table has {count(len(known), 'row')}.", parameter="row")
    with working("looking for reasons"):
        scored = fitted.scored(known)
        predicted = answers(fitted, scored)
        reasons = fitted.explain(scored, top, rows=row - 1)
    note(f"row {row:,}: " + ", ".join(f"{name} = {values[row - 1]}" for name, values in predicted.items()))
    note(f"explained: {explained(fitted)}")
    if reasons.is_empty():
        note("nothing sets this row apart from a typical one: no single reason would change its score")
    give(rounded(_tidy(reasons), *COMPUTED_OF_REASONS), output, rows=len(reasons), shown=SHOWN_OF_REASONS)


class _Labels(NamedTuple):
    """The options about labels of rows to score."""

    column: str | None
    positive: str | None
    missing: str | None
    late: Late

    def check(self) -> None:
        """Refuse options that need a label column, if none is given."""
        needs_label(self.column, positive=self.positive, missing=self.missing)


def _load(path: Path, given: _Labels) -> Any:
    """The model, which must use the labels that are given."""
    from tdlg.persist.model import load_model

    with working("reading the model"):
        model = load_model(path)
    setting = getattr(model, "setting_", None)
    if given.column is not None and setting != "stream":
        which = "this model" if setting is None else f"a model with the setting {setting}"
        way_out = "Leave out --label, or use a model of `tdlg classify --setting stream`."
        raise wrong("--label", f"{which} uses no labels of the rows to score. {way_out}")
    return model


def _load_classifier(path: Path, given: _Labels, *, bursts: bool = False) -> Any:
    """A classifier or regressor, or also a detector of bursts."""
    from tdlg.models.outliers import BurstDetector

    model = _load(path, given)
    made_by = MADE_BY.get(kind_of(model))
    is_burst = isinstance(getattr(model, "detector_", model), BurstDetector)
    if made_by is not None and not (is_burst and bursts):
        users = "`tdlg score` and `tdlg explain`" if is_burst else "`tdlg score`"
        raise ParameterError(
            f"{path}: `tdlg {made_by}` saved this model, and only {users} can use it. "
            "Give a model that `tdlg classify` saved.",
            parameter="model",
        )
    return model


def _read(model: Any, path: Path, columns: Columns, given: _Labels) -> Table:
    """The table, read with the features and the bipartite flag of the model, and with its classes as known labels."""
    fitted = model.edges_
    names, categories = fitted.feature_names, tuple(fitted.feature_categories)
    columns = replace(columns, bipartite=fitted.bipartite)
    check_fits(path, SCORING)
    of_labels: dict[str, Any] = {"positive": given.positive, "missing": listed(given.missing)}
    if given.column is not None:
        of_labels["classes"] = two_classes(model)
    table = read_table(path, columns, given.column, given.late, features=names, categories=categories, **of_labels)
    if (table.edges.time_unit is None) != (fitted.time_unit is None):
        here, there = ("numbers", "dates") if table.edges.time_unit is None else ("dates", "numbers")
        way_out = (
            "Pass the same --time-unit or --time-format as for the model"
            if here == "numbers"
            else "Give times as numbers"
        )
        way_out = "Leave out --time-unit" if columns.time_unit else way_out
        raise ParameterError(
            f"{path}: the times are {here}, but the model was fitted on {there}. {way_out}.",
            parameter="edges",
        )
    if given.column is not None:
        _check_known(model, table.edges, given.column)
    return table


def _report_new_nodes(model: Any, edges: TemporalEdges) -> None:
    """Report how many nodes the model does not know; if it knows hardly any of them, the model itself warns."""
    from tdlg.estimator import new_nodes

    n_new, n_nodes = new_nodes(model, edges)
    if n_new:
        note(f"{n_new:,} of {count(n_nodes, 'node')} {'is' if n_new == 1 else 'are'} new to the model")


def _check_known(model: Any, edges: TemporalEdges, column: str) -> None:
    """Refuse labels that the model was not fitted on."""
    import numpy as np

    from tdlg.tables.labels import plain_classes

    if edges.label is None or kind_of(model) != "classifier":
        return
    classes = plain_classes(model.classes_).tolist()
    found = plain_classes(np.unique(np.asarray(edges.label)[edges.labelled])).tolist()
    unknown = [value for value in found if value not in classes]
    if unknown:
        raise ParameterError(
            f"The column {column!r} has the label {unknown[0]!r}, but the model knows only {', '.join(map(repr, classes))}. "
            "Pass the same --positive and --missing as to classify.",
            parameter="label",
        )


def _tidy(reasons: pl.DataFrame) -> pl.DataFrame:
    """Reasons for display: whole labels as integers, whole days without a clock time, no positions of edges."""
    import polars as pl
    import polars.selectors as cs

    reasons = reasons.drop(AMONG_FITTED, strict=False)
    numbers = reasons.select(cs.by_name("class", require_all=False) & cs.float())
    whole = [column.name for column in numbers if (column % 1 == 0).all()]
    times = [_in_words(column) for column in reasons.select(cs.datetime())]
    return reasons.with_columns(pl.col(whole).cast(pl.Int64), *times)


def _in_words(times: pl.Series) -> pl.Series:
    """Times as text: days if none of them has a clock time, else with seconds and the digits that they need."""
    is_day = (times.dt.truncate("1d") == times).all()
    return times.dt.to_string("%Y-%m-%d" if is_day else "%Y-%m-%dT%H:%M:%S%.f")
