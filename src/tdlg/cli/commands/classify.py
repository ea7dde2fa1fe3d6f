"""The command classify: fill in missing labels."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from tdlg.cli.answers import answers, meaning, positive_label, spread
from tdlg.cli.cost import LINE_GRAPH, classify_cost, in_time
from tdlg.cli.files import Where, check_fits, classify_large, note_setting, reason_for_disk
from tdlg.cli.labels import label_in_words, labels_to_learn, note_known_at_once, plain_classes
from tdlg.cli.options import (
    Columns,
    EdgesPath,
    EngineAddress,
    Evaluate,
    LabelDelay,
    LabelTime,
    Memory,
    Missing,
    Output,
    Positive,
    Seed,
    duration,
    example,
    given_options,
    late_labels,
    with_columns,
)
from tdlg.cli.output import check_folder, check_model_file, check_output, give, keep_model
from tdlg.cli.quality import evaluated
from tdlg.cli.table import Table, note_table, read_table
from tdlg.cli.terminal import count, note, warn, working
from tdlg.exceptions import ParameterError

if TYPE_CHECKING:
    import polars as pl

    from tdlg.edges import TemporalEdges

__all__ = ["register"]

MANY_CLASSES = 10
LONG = 60  # seconds; a longer run time is announced


def register(app: typer.Typer) -> None:
    """Add this command."""
    app.command(
        short_help="Fill in missing labels.",
        epilog=example("tdlg classify ratings.csv --label stars --positive '> 3' -o filled.csv"),
    )(classify)


@with_columns
def classify(
    edges: EdgesPath,
    *,
    label: Annotated[str, typer.Option(metavar="COLUMN", help="Label column to fill in: name or 0-based position.")],
    positive: Positive = None,
    missing: Missing = None,
    label_time: LabelTime = None,
    label_delay: LabelDelay = None,
    method: Annotated[
        Literal["propagation", "rows"],
        typer.Option(
            help="propagation: boosted trees on propagated labels; rows: the line-graph classifier of the original paper."
        ),
    ] = "propagation",
    setting: Annotated[
        Literal["auto", "interpolate", "forecast", "stream"],
        typer.Option(
            help="Which labels are known when a row is predicted. interpolate: labels before and after it; forecast: labels "
            "up to a fixed time; stream: all labels known before it; auto: stream with --label-time or --label-delay, else "
            "chosen by where labels are missing."
        ),
    ] = "auto",
    scales: Annotated[
        str | None,
        typer.Option(
            metavar="A,B",
            help="Time scales over which the past fades: durations such as 30d,7d,1d, or numbers in standard deviations of "
            "the times. By default four to six are chosen from the data; `tdlg info` shows them.",
        ),
    ] = None,
    calendar: Annotated[
        bool,
        typer.Option(
            "--calendar",
            help="Also use the time of day and the day of the week, in UTC; the times must be dates. Not used by default.",
        ),
    ] = False,
    two_ends: Annotated[
        bool | None,
        typer.Option(
            "--two-ends/--no-two-ends",
            help="Also use what similar sources did with similar destinations, which needs all rows in memory. By default "
            "for up to 10 million rows that need at most half of the free memory; never with --memory or --engine.",
        ),
    ] = None,
    evaluate: Annotated[
        Evaluate | None,
        typer.Option(
            help="Hold out known labels, at random or the latest ones (time), and report how well they are predicted. By "
            "default nothing is evaluated."
        ),
    ] = None,
    report: Annotated[
        Path | None, typer.Option(metavar="PAGE", help="Write an HTML report to this file, for example page.html.")
    ] = None,
    save: Annotated[
        Path | None,
        typer.Option(metavar="MODEL", help="File to save the model to, for score, nodes and explain."),
    ] = None,
    memory: Memory = None,
    engine: EngineAddress = None,
    output: Output = None,
    seed: Seed = 0,
    columns: Columns,
) -> None:
    """Fill in missing labels: each row without a label gets a predicted class and a probability.

    The result is your table with the columns "predicted" and "probability" added. With two classes, it is the
    probability of the positive class: the one given with --positive; by default the larger of two numbers, or the rarer
    label. With more classes, it is the probability of the predicted class.
    """
    on_disk = memory is not None or engine is not None
    of_propagation = {
        "--setting": setting != "auto",
        "--scales": scales is not None,
        "--calendar": calendar,
        "--two-ends" if two_ends else "--no-two-ends": two_ends is not None,
        "--features": columns.features is not None,
        "--categories": columns.categories is not None,
        "--label-time": label_time is not None and evaluate != "time" and report is None,
        "--label-delay": label_delay is not None and evaluate != "time" and report is None,
    }
    _check_method(method, [name for name, is_given in of_propagation.items() if is_given], on_disk)
    late = late_labels(label, label_time, label_delay)
    if setting == "interpolate" and (label_time or label_delay):
        raise typer.BadParameter(
            "it uses labels before and after a row, whenever they became known. Leave out --setting interpolate, or "
            "--label-time and --label-delay.",
            param_hint="--setting",
        )
    if not on_disk:
        check_output(output)
    check_folder(report)
    check_model_file(save)
    parameters = {"setting": setting, "calendar": calendar} | given_options(two_ends=two_ends, scales=_scales(scales))
    why = None if on_disk or method == "rows" else reason_for_disk(edges, two_ends=two_ends)
    if on_disk or why is not None:
        others = {"--evaluate": evaluate, "--report": report, "--save": save, "--two-ends": two_ends}
        where = Where.of(edges, output, memory, engine, others)
        classify_large(where, _unfitted(method, seed, **parameters), label, positive, missing, late, columns, why)
        return
    if method == "rows":
        check_fits(edges, LINE_GRAPH, "Without --method rows, a parquet file is worked on in blocks.")
    table = read_table(edges, columns, label, late=late)
    known, positive_class = labels_to_learn(table.edges, label, positive, missing)
    to_fill = ~known.labelled
    _check_missing(bool(to_fill.any()), label, evaluate or report or save)
    labels = f"; {count(int((~to_fill).sum()), 'known label')}, {int(to_fill.sum()):,} missing"
    note_table(table, columns, labels, features=method != "rows")
    fits = bool(to_fill.any() or report or save)
    _warn_of_time(known, fits + bool(evaluate or report))
    if evaluate == "time" or setting == "stream":
        note_known_at_once(known)
    model = _unfitted(method, seed, **parameters)
    held: Any = evaluate or "auto"
    if evaluate is not None:
        held = evaluated(model, known, evaluate, seed, positive_class, goes_on=fits or output is not None) or evaluate
    if fits:
        delay = {} if late.delay is None or method == "rows" else {"label_delay": late.delay}
        _fit(model, known, positive_class, **delay)
        model.label_name_ = label_in_words(table.names["label"], positive, positive_class)
        keep_model(model, save)
    if report is not None or to_fill.any():
        with working("scoring"):
            scored = model.scored(known if report is not None else known[to_fill])
    if report is not None:
        shown = {"label_name": model.label_name_, "ids": _ids(table), "unused": list(table.unused)}
        _write_page(report, model, scored, held, seed, shown)
        scored = scored.some(to_fill.nonzero()[0])
    if to_fill.any():
        added = answers(model, scored)
        note(meaning(model))
        give(
            table.with_columns(**{name: spread(values, to_fill) for name, values in added.items()}),
            output,
            first=table.free_name("probability"),
        )
    elif output is not None:
        warn(f"no label is missing in the column {label!r}: predicted and probability are empty in every row")
        give(table.with_columns(**_empty_columns(known)), output)


def _check_missing(any_missing: bool, label: str, anything_else: Any) -> None:
    if not any_missing and not anything_else:
        raise ParameterError(
            f"No label is missing in the column {label!r}: there is nothing to fill in. Leave the label empty in the rows "
            "to fill in, or use --evaluate to measure the quality, or --save and `tdlg score` for another table.",
            parameter="label",
        )


def _warn_of_time(edges: TemporalEdges, n_fits: int) -> None:
    import numpy as np

    n_classes = len(set(np.asarray(edges.label)[edges.labelled].tolist()))
    seconds, _ = classify_cost(len(edges), n_classes, n_fits)
    if seconds > LONG:
        note(f"this takes roughly {in_time(seconds)}")
    if n_classes > MANY_CLASSES:
        note(
            f"{n_classes} classes take long; if they are grades, two classes are faster and easier to read: --positive '> 0'"
        )


def _check_method(method: str, of_propagation: list[str], on_disk: bool) -> None:
    """Refuse options that the paper's method does not have."""
    if method == "rows" and on_disk:
        raise typer.BadParameter(
            "rows cannot run on disk or on a cluster. Leave out --method rows, or use a part of the table.",
            param_hint="--method",
        )
    if method == "rows" and of_propagation:
        name = of_propagation[0]
        raise typer.BadParameter(
            f"it works only with --method propagation. Leave out {name} or --method rows.", param_hint=name
        )


def _scales(given: str | None) -> list[Any] | None:
    """Durations and numbers, as the library takes them."""
    if given is None:
        return None
    chosen = [duration(text, "--scales") for text in map(str.strip, given.split(",")) if text]
    if not chosen:
        raise typer.BadParameter("it must have at least one time scale, such as 7d.", param_hint="--scales")
    return chosen


def _unfitted(method: str, seed: int, **options: Any) -> Any:
    from tdlg.models.linegraph import LineGraphClassifier
    from tdlg.models.propagation import PropagationClassifier

    if method == "rows":
        return LineGraphClassifier(random_state=seed)
    return PropagationClassifier(random_state=seed, **options)


def _fit(model: Any, edges: TemporalEdges, positive_class: Any, **delay: Any) -> None:
    """Fit the model. It stores the positive class and the delay of labels, so that `score` uses the same."""
    with working(f"fitting to {count(int(edges.labelled.sum()), 'label')}"):
        model.fit(edges, **delay)
    if positive_class is not None:
        model.positive_ = positive_class
    if hasattr(model, "setting_"):
        in_words = model.features_.plan_.scales_in_words(model.features_.edges_.time_unit)
        note_setting(model.setting_, model.setting_reason_, in_words)


def _empty_columns(edges: TemporalEdges) -> dict[str, pl.Series]:
    """The columns that classify adds, empty in every row."""
    import numpy as np
    import polars as pl

    classes = pl.Series(plain_classes(np.asarray(edges.label)[edges.labelled]).tolist())
    return {name: like.clear(len(edges)) for name, like in (("predicted", classes), ("probability", pl.Series([0.5])))}


def _ids(table: Table) -> pl.Series | None:
    """The user's column that identifies the interactions: named like an id, with a different value in each row."""
    from tdlg.io.columns import ID_NAME

    ends = [table.names[role] for role in ("src", "dst")]
    named = [name for name in table.frame.columns if ID_NAME.fullmatch(name) and name not in ends]
    return next((table.frame[name] for name in named if table.frame[name].n_unique() == table.frame.height), None)


def _write_page(path: Path, model: Any, scored: Any, evaluate: Any, seed: int, shown: dict[str, Any]) -> None:
    from tdlg.report import write_report

    command = shlex.join(["tdlg", *sys.argv[1:]])
    with working("writing the report"):
        shown = {"positive": positive_label(model), **shown}
        write_report(path, model, scored, command=command, evaluate=evaluate, seed=seed, **shown)
    note(f"wrote the report {path}")
