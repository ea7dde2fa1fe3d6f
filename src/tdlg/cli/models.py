"""The commands score, nodes and explain, which apply a saved model to a table, and card, which is about the model itself."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl
import polars.selectors as cs
import typer

from tdlg.cli.group import command
from tdlg.cli.options import Columns, Count, Labels, Seed, wrong
from tdlg.cli.output import give, note, progress, times_as_text, warn, working
from tdlg.cli.tables import how_to_read, on_disk
from tdlg.exceptions import ParameterError
from tdlg.explain.positive import probability_in_words
from tdlg.io.read import Table
from tdlg.memory import SCORING
from tdlg.models.fits import check_fits
from tdlg.tables.text import count

if TYPE_CHECKING:
    from tdlg.live.nightly import ScoredTable

SHOWN_OF_NODES = ("node", "role", "n", "mean", "score", "row", "reason")
SHOWN_OF_REASONS = ("what", "effect", "reason")
COMPUTED_OF_NODES = ("expected", "mean", "highest", "score")
COMPUTED_OF_REASONS = ("score", "effect")
MADE_BY = {"outlier_detector": "outliers", "links": "links", "transformer": "embed"}
AMONG_FITTED = ("edge", "neighbours")  # positions in the table that the model was fitted on

commands = typer.Typer(rich_markup_mode=None)


@dataclass(frozen=True, kw_only=True)
class RememberedLabels(Labels):
    """How labels are read, which the folder of --state may know already."""

    def __post_init__(self) -> None:
        _ = self.delay


@command(commands, "tdlg score model.tdlg new.csv -o scored.csv")
def score(
    model: Path,
    edges: Path,
    *,
    labels: RememberedLabels,
    state: Path | None = None,
    id: str | None = None,
    output: Path | None = None,
    columns: Columns,
) -> None:
    """Score the rows of a table with a saved model.

    The result is your table with the same columns added as by the command that saved the model, filled in every row. The
    names of the columns, the features, and whether the table is bipartite are known from the model. With --label, repeat
    the --positive and --missing that you gave to classify. Labels count from the times given by --label-time or
    --label-delay; by default from the --label-delay that you gave to classify.

    With --state, a model of `tdlg classify --setting stream` or `tdlg outliers` also uses all tables that
    were scored before. Column names and label options are remembered. Rows seen before are not counted again, but new
    labels for them are learnt.

    Parameters
    ----------
    state : DIR
        Folder that keeps what was scored and learnt, for the tables that follow. By default nothing is kept.
    """
    from tdlg.models.answers import answer_columns, classes_of

    if state is None and id is not None:
        raise wrong("--id", "it works only with --state. Add it, or leave out --id.")
    checked = labels if state is not None else Labels(**asdict(labels))
    if state is not None:
        fitted, table, added = _scored_with_state(state, model, edges, columns, labels, id)
    else:
        fitted = _load(model, checked)
        table = _read(fitted, edges, columns, checked)
        with working(f"scoring {count(len(table.edges), 'row')}"):
            added = answer_columns(fitted, table.edges)
    if "probability" in added:
        classes = classes_of(fitted)
        note(probability_in_words(classes, classes[-1], getattr(fitted, "label_name_", None)))
    first = next((name for name in ("probability", "outlier_score", "score") if name in added), None)
    give(table.with_columns(**added), output, first=None if first is None else table.free_name(first))


def _scored_with_state(
    state: Path, model: Path, edges: Path, columns: Columns, labels: Labels, id: str | None
) -> tuple[Any, Table, dict[str, Any]]:
    from tdlg.live.model import LiveModel
    from tdlg.live.nightly import score_table

    with working("reading the state"):
        live = LiveModel.open(state, model)
    with live, on_disk(edges, columns) as file:
        check_fits(file, SCORING)
        with progress() as show:
            found = score_table(
                live,
                file,
                id=id,
                progress=lambda done, n: show(done, n, f"scoring {count(n, 'row')}"),
                **how_to_read(columns, labels),
            )
        _report(found)
        return live.model, found.table, found.columns


def _report(found: ScoredTable) -> None:
    """Say what was new, and which rows were refused."""
    answers = found.answers
    repeated = sum(answer.repeated for answer in answers)
    late = sum(answer.late and not answer.repeated for answer in answers)
    refused = [(row, answer.error) for row, answer in enumerate(answers, start=1) if answer.error is not None]
    parts = [count(len(answers) - repeated - len(refused), "new row")]
    parts += [f"{repeated:,} seen before"] * bool(repeated) + [f"{late:,} late"] * bool(late)
    parts += [f"{count(found.n_learnt, 'label')} of earlier rows learnt"] * bool(found.n_learnt)
    note(", ".join(parts))
    for row, error in refused[:1]:
        more = f" (and {len(refused) - 1:,} more)" * (len(refused) > 1)
        warn(f"row {row} is not scored{more}: {error.in_words()}")
    wrong_labels = [answer.label_error for answer in answers if answer.label_error is not None]
    for label_error in wrong_labels[:1]:
        were = f"{count(len(wrong_labels), 'label')} {'was' if len(wrong_labels) == 1 else 'were'}"
        warn(f"{were} refused, for example: {label_error.message}")


@command(commands, "tdlg nodes model.tdlg payments.csv --top 10")
def nodes(
    model: Path, edges: Path, *, top: Count = 20, labels: Labels, output: Path | None = None, columns: Columns
) -> None:
    """Rank the nodes to look at first: those whose interactions are most likely of the positive class.

    The positive class is the one given with --positive to classify; by default the larger of two numbers, else the
    rarest label. "row" is the row of the node's interaction with the highest probability; `tdlg explain` explains it.

    Parameters
    ----------
    model : MODEL
        Model that classify wrote with --save.
    """
    from tdlg.explain.nodes import node_scores
    from tdlg.models.answers import positive_label

    fitted = _load_classifier(model, labels)
    known = _read(fitted, edges, columns, labels).edges
    looked_for = positive_label(fitted)
    if looked_for is not None:
        note(f"positive class: {looked_for!r}")
    with working("scoring nodes"):
        found = node_scores(fitted, known, top=top).with_columns(pl.col("edge") + 1).rename({"edge": "row"})
    shown = [name for name in SHOWN_OF_NODES if name in found.columns]
    give(found, output, rows=top, shown=shown, computed=COMPUTED_OF_NODES)


@command(commands, "tdlg explain model.tdlg payments.csv --row 17")
def explain(
    model: Path,
    edges: Path,
    *,
    row: Count,
    top: Count = 5,
    labels: Labels,
    output: Path | None = None,
    columns: Columns,
) -> None:
    """Explain the prediction of a saved model for one row: the reasons that moved its score most.

    With two classes, the reasons are for or against the positive class, whose probability classify reports; with more
    classes, for or against the predicted class. A positive effect raises the score of the class, a negative one lowers it.
    A model of `tdlg outliers` is explained too: what was how often, and what is usual.

    Parameters
    ----------
    model : MODEL
        Model that classify wrote with --save.
    row : NUMBER
        Number of the row to explain; 1 is the first row below the header.
    top : NUMBER
        Number of reasons to show.
    """
    from tdlg.models.answers import answer_columns

    fitted = _load_classifier(model, labels, outliers=True)
    known = _read(fitted, edges, columns, labels).edges
    if row > len(known):
        raise ParameterError(f"There is no row {row:,}: the table has {count(len(known), 'row')}.", parameter="row")
    with working("looking for reasons"):
        scored = fitted.scored(known)
        predicted = answer_columns(fitted, scored)
        reasons = fitted.explain(scored, top, rows=row - 1)
    of_row = {name: values[row - 1] for name, values in predicted.items()}
    note(f"row {row:,}: " + ", ".join(f"{name} = {value}" for name, value in of_row.items() if value is not None))
    note(f"explained: {_explained(fitted)}")
    if reasons.is_empty():
        note("nothing sets this row apart from a typical one: no single reason would change its score")
    give(_tidy(reasons), output, rows=len(reasons), shown=SHOWN_OF_REASONS, computed=COMPUTED_OF_REASONS)


@command(commands, "tdlg card model.tdlg --report card.html")
def card(model: Path, *, report: Path | None = None, alerts_per_day: float | None = None, seed: Seed = 0) -> None:
    """Say what a saved model was fitted on, how good it is on held-out labels and on parts of them, and its limits.

    Some of the labels that the model was fitted on, random or the latest ones as suits it, are hidden from a copy of it,
    which is judged on them, so this takes about as long as the fit. Without --report, the card goes to stdout as JSON.

    Parameters
    ----------
    model : MODEL
        Model that classify wrote with --save.
    report : PAGE
        File to write the card to: a page if its name ends in .html, JSON if it ends in .json.
    """
    fitted = _load_classifier(model, Labels())
    if not hasattr(fitted, "card"):
        raise ParameterError(f"{model}: a model card is about a classifier. This is a regressor.", parameter="model")
    if report is not None and report.suffix.lower() not in (".html", ".json"):
        raise wrong("--report", f"{report}: the name of a card ends in .html or .json.")
    with working("judging a copy of the model"):
        named = getattr(fitted, "label_name_", None)
        per_day = 20.0 if alerts_per_day is None else alerts_per_day
        found = fitted.card(label_name=named, alerts_per_day=per_day, seed=seed)
    if report is None:
        typer.echo(found.to_json(), nl=False)
    else:
        note(f"wrote the card of the model to {found.save(report)}")
    for limit in found.content["limits"]:
        note(f"limit: {limit}")


def _load(path: Path, labels: Labels) -> Any:
    """The model, which must use the labels that are given."""
    from tdlg.persist.model import load_model

    with working("reading the model"):
        model = load_model(path)
    setting = getattr(model, "setting_", None)
    if labels.label is not None and setting != "stream":
        which = "this model" if setting is None else f"a model with the setting {setting}"
        way_out = "Leave out --label, or use a model of `tdlg classify --setting stream`."
        raise wrong("--label", f"{which} uses no labels of the rows to score. {way_out}")
    return model


def _load_classifier(path: Path, labels: Labels, *, outliers: bool = False) -> Any:
    """A classifier or regressor, or also a detector of outliers."""
    from tdlg.models.answers import kind_of

    model = _load(path, labels)
    kind = kind_of(model)
    if kind in MADE_BY and not (outliers and kind == "outlier_detector"):
        users = "`tdlg score` and `tdlg explain`" if kind == "outlier_detector" else "`tdlg score`"
        raise ParameterError(
            f"{path}: `tdlg {MADE_BY[kind]}` saved this model, and only {users} can use it. "
            "Give a model that `tdlg classify` saved.",
            parameter="model",
        )
    return model


def _read(model: Any, path: Path, columns: Columns, labels: Labels) -> Table:
    """The table, read as the model needs it; says how many nodes are new. If nearly all are, the model itself warns."""
    from tdlg.estimator import new_nodes
    from tdlg.models.answers import read_table_for

    with on_disk(path, columns) as file:
        check_fits(file, SCORING)
        table = read_table_for(model, file, **how_to_read(columns, labels))
        if file != path:
            _ = table.frame  # before the file is gone
    n_new, n_nodes = new_nodes(model, table.edges)
    if n_new:
        note(f"{n_new:,} of {count(n_nodes, 'node')} {'is' if n_new == 1 else 'are'} new to the model")
    return table


# ---- what an answer means, in words


def _explained(model: Any) -> str:
    from tdlg.models.answers import classes_of, kind_of

    if kind_of(model) == "outlier_detector":
        if hasattr(getattr(model, "detector_", model), "model_"):
            return "how well the row fits its nodes: what has a negative effect does not"
        return "the outlier score, a number of digits: higher is more surprising"
    if kind_of(model) == "regressor":
        return "the predicted number"
    classes = classes_of(model)
    return f"the score of class {classes[1]!r}" if len(classes) == 2 else "the score of the predicted class"


def _tidy(reasons: pl.DataFrame) -> pl.DataFrame:
    """Reasons for display: whole labels as integers, whole days without a clock time, no positions of edges."""
    reasons = reasons.drop(AMONG_FITTED, strict=False)
    numbers = reasons.select(cs.by_name("class", require_all=False) & cs.float())
    whole = [column.name for column in numbers if (column % 1 == 0).all()]
    times = [times_as_text(column) for column in reasons.select(cs.datetime())]
    return reasons.with_columns(pl.col(whole).cast(pl.Int64), *times)
