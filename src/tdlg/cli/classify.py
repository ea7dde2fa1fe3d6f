"""The commands classify and outliers: a table with scores added."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from tdlg.cli.answers import answers, meaning, meaning_of_two, positive_label, spread
from tdlg.cli.group import command
from tdlg.cli.options import (
    EVALUATE_HELP,
    Columns,
    EdgesPath,
    EngineAddress,
    Evaluate,
    LabelDelay,
    LabelTime,
    Late,
    Memory,
    Missing,
    Output,
    Positive,
    Save,
    Seed,
    duration,
    given_options,
    late_labels,
    with_columns,
    wrong,
)
from tdlg.cli.output import (
    aligned,
    check_folder,
    check_model_file,
    check_output,
    count,
    give,
    keep_model,
    note,
    warn,
    working,
)
from tdlg.cli.tables import (
    LINE_GRAPH,
    LINE_GRAPH_OF_LINKS,
    Where,
    check_fits,
    labels_read,
    listed,
    note_known_at_once,
    note_setting,
    note_table,
    read_table,
    reason_for_disk,
    scanned,
    unused_in_words,
)
from tdlg.exceptions import ParameterError, TdlgError
from tdlg.memory import LEARNING

if TYPE_CHECKING:
    import polars as pl

    from tdlg.edges import TemporalEdges
    from tdlg.io.read import Table
    from tdlg.judge.holdout import HeldOut, Judged

MANY_CLASSES = 10
LEAST_TO_JUDGE = 30  # rows; with fewer rows, chance alone changes the AUC by 0.1 or more
HELD_OUT = {"random": "random split", "time": "the latest ones"}

commands = typer.Typer(rich_markup_mode=None)


@command(commands, "tdlg classify ratings.csv --label stars --positive '> 3' -o filled.csv")
@with_columns()
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
        typer.Option(help=f"{EVALUATE_HELP} Then report how well they are predicted. By default nothing is evaluated."),
    ] = None,
    report: Annotated[
        Path | None,
        typer.Option(metavar="PAGE", help="Write a report to this file: a page, page.html, or its content, page.json."),
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
    late_is_used = evaluate in ("forecast", "stream") or report is not None
    of_propagation = {
        "--setting": setting != "auto",
        "--scales": scales is not None,
        "--calendar": calendar,
        "--two-ends" if two_ends else "--no-two-ends": two_ends is not None,
        "--features": columns.features is not None,
        "--categories": columns.categories is not None,
        "--label-time": label_time is not None and not late_is_used,
        "--label-delay": label_delay is not None and not late_is_used,
    }
    _check_method(method, [name for name, is_given in of_propagation.items() if is_given], on_disk)
    late = late_labels(label, label_time, label_delay)
    if setting == "interpolate" and (label_time or label_delay):
        raise wrong(
            "--setting",
            "it uses labels before and after a row, whenever they became known. Leave out --setting interpolate, or "
            "--label-time and --label-delay.",
        )
    if not on_disk:
        check_output(output)
    check_folder(report)
    check_model_file(save)
    model = _unfitted(method, seed, setting=setting, calendar=calendar, two_ends=two_ends, scales=_scales(scales))
    why = None if on_disk or method == "rows" else reason_for_disk(edges, two_ends=two_ends)
    of_labels = {"positive": positive, "missing": listed(missing)}
    if on_disk or why is not None:
        others = {"--evaluate": evaluate, "--report": report, "--save": save, "--two-ends": two_ends}
        where = Where.of(edges, output, memory, engine, others)
        _classify_on_disk(where, model, columns, label, late, of_labels, why)
        return
    if method == "rows":
        check_fits(edges, LINE_GRAPH, "Without --method rows, a table is processed on disk.")
    table = read_table(edges, columns, label, late, to_learn=True, **of_labels)
    known = table.edges
    to_fill = ~known.labelled
    _check_missing(bool(to_fill.any()), label, evaluate or report or save)
    note_table(table, columns, labels_read(known), features=method != "rows")
    _warn_of_classes(known)
    if evaluate in ("forecast", "stream") or setting == "stream":
        note_known_at_once(known)
    fits = bool(to_fill.any() or report or save)
    held: Any = "auto"
    if evaluate is not None:
        goes_on = fits or output is not None
        held = _evaluated(model, known, evaluate, seed, table.positive, goes_on=goes_on)
        held = held or ("random" if evaluate == "random" else "time")
    if fits:
        delay = {} if late.delay is None or method == "rows" else {"label_delay": late.delay}
        _fit(model, known, table.positive, **delay)
        model.label_name_ = _label_name(table.names["label"], of_labels, table.positive)
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


def _classify_on_disk(
    where: Where, model: Any, columns: Columns, label: str, late: Late, of_labels: Any, why: str | None
) -> None:
    because = "" if why is None else f": {why}"
    with scanned(where.path, columns, label, late, beside=where.output, **of_labels) as (table, unused):
        note(f"large table: processing on disk, without the similarity features{because}")
        filled = where.fill(model, table, classes=table.rule.classes)
    note(f"read {count(filled.n_rows, 'edge')}; {count(filled.n_known, 'known label')}, {filled.n_scored:,} missing")
    if table.features and columns.features is None and columns.categories is None:
        note(f"features: {', '.join(table.features)} (change with --features)")
    if unused:
        note(f"not used: {unused_in_words(unused)}")
    if filled.n_learnt < filled.n_learnt_from:
        note(f"fitted to a sample of {count(filled.n_learnt, 'row')}; probabilities are corrected for it")
    note_setting(filled.setting, filled.setting_reason, filled.scales)
    if len(filled.classes) == 2:
        note(meaning_of_two(table.rule.named(filled.positive), filled.positive))
    else:
        note('"probability" is the probability of the predicted class')
    note(f"wrote {count(filled.n_rows, 'row')} to {where.output}")


def _check_missing(any_missing: bool, label: str, anything_else: Any) -> None:
    if not any_missing and not anything_else:
        raise ParameterError(
            f"No label is missing in the column {label!r}: there is nothing to fill in. Leave the label empty in the rows "
            "to fill in, or use --evaluate to measure the quality, or --save and `tdlg score` for another table.",
            parameter="label",
        )


def _check_method(method: str, of_propagation: list[str], on_disk: bool) -> None:
    """Refuse options that the line-graph classifier does not have."""
    if method == "rows" and on_disk:
        problem = "rows cannot run on disk or on a cluster. Leave out --method rows, or use a part of the table."
        raise wrong("--method", problem)
    if method == "rows" and of_propagation:
        name = of_propagation[0]
        raise wrong(name, f"it works only with --method propagation. Leave out {name} or --method rows.")


def _warn_of_classes(edges: TemporalEdges) -> None:
    n_classes = len(set(edges.label[edges.labelled].tolist())) if edges.label is not None else 0
    if n_classes > MANY_CLASSES:
        note(
            f"{n_classes} classes take long; if they are grades, two classes are faster and easier to read: --positive '> 0'"
        )


def _scales(given: str | None) -> list[Any] | None:
    """Durations and numbers, as the library takes them."""
    if given is None:
        return None
    chosen = [duration(text, "--scales") for text in map(str.strip, given.split(",")) if text]
    if not chosen:
        raise wrong("--scales", "it must have at least one time scale, such as 7d.")
    return chosen


def _unfitted(method: str, seed: int, **options: Any) -> Any:
    from tdlg.models.linegraph import LineGraphClassifier
    from tdlg.models.propagation import PropagationClassifier

    if method == "rows":
        return LineGraphClassifier(random_state=seed)
    return PropagationClassifier(random_state=seed, **given_options(**options))


def _fit(model: Any, edges: TemporalEdges, positive: Any, **delay: Any) -> None:
    """Fit the model. It stores the positive class and the delay of labels, so that `score` uses the same."""
    with working(f"fitting to {count(int(edges.labelled.sum()), 'label')}"):
        model.fit(edges, **delay)
    if positive is not None:
        model.positive_ = positive
    if hasattr(model, "setting_"):
        in_words = model.features_.plan_.scales_in_words(model.features_.edges_.time_unit)
        note_setting(model.setting_, model.setting_reason_, in_words)


def _label_name(column: str, of_labels: dict[str, Any], positive: Any) -> str:
    from tdlg.tables.labels import LabelRule

    return LabelRule(of_labels["positive"], column=column).named(positive)


def _empty_columns(edges: TemporalEdges) -> dict[str, pl.Series]:
    """The columns that classify adds, empty in every row."""
    import numpy as np
    import polars as pl

    from tdlg.tables.labels import plain_classes

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


# ---- the quality on held-out labels


def _evaluated(
    model: Any, edges: TemporalEdges, evaluate: Evaluate, seed: int, positive: Any, *, goes_on: bool
) -> HeldOut | None:
    """Hold out labels and report the quality; with too few labels, print a note instead if the command has more to do."""
    import numpy as np
    from sklearn.base import clone

    from tdlg.explain.positive import positive_class
    from tdlg.judge.holdout import hold_out, judge

    given = getattr(model, "setting", None)
    judged_model = model
    if given is not None and evaluate != "random":
        judged_model = clone(model).set_params(setting=evaluate)
    held = None
    try:
        with working("evaluating on held-out labels"):
            held = hold_out(judged_model, edges, "random" if evaluate == "random" else "time", seed)
            judged = judge(held, positive_class(held.classes, np.asarray(edges.label), positive))
        _print_quality(judged, given)
    except TdlgError as error:
        if not goes_on:
            raise
        note(f"not evaluated: {error.problem}")
    return held


def _print_quality(judged: Judged, setting: str | None) -> None:
    """The figures that the report shows, as a table."""
    from tdlg.report.text import figure
    from tdlg.tables.labels import plain_classes

    held, k = judged.held, judged.top
    used = getattr(held.model, "setting_", None)
    other = f" with the setting {used}, which suits these labels" if setting not in (None, "auto", used) else ""
    trained, tested = count(held.n_train, "label"), count(judged.n, "label")
    note(f"trained on {trained}{other}, tested on {tested} ({HELD_OUT[held.how]})")
    positive = plain_classes(held.classes).tolist()[judged.positive]
    precise = judged.titled("average precision") + ("" if judged.is_mean else f" for {positive!r}")
    rows: list[tuple[str, ...]] = [("", judged.titled("AUC"), precise, f"precision in the top {k} for {positive!r}")]
    for name, ranking in judged.by_class[judged.positive].items():
        auc, precision = judged.headline[name]
        shown = name if name != "model" else "rows" if used is None else "propagation"
        rows.append((shown, *(figure(value) for value in (auc[0], precision[0], ranking.at(k)[0]))))
    note(aligned([*rows, ("chance", "0.500", figure(judged.chance), figure(judged.prevalence))]))


# ---- outliers


@command(commands, "tdlg outliers payments.csv --save outliers.tdlg -o scored.parquet")
@with_columns("features", "categories")
def outliers(
    edges: EdgesPath,
    *,
    method: Annotated[
        Literal["shuffled", "rows", "burst"],
        typer.Option(
            help="shuffled: single rows that do not fit the habits of their nodes; burst: far more rows of a source, a "
            "destination or a pair in a short time than it usually has, such as attacks, scans and spam; rows: as "
            "shuffled, with the line graph of the original paper."
        ),
    ] = "shuffled",
    fast: Annotated[
        str | None,
        typer.Option(
            metavar="DURATION",
            help="With --method burst, the time in which a burst happens: for example 1h, or a number if the times are "
            "numbers. By default 0.003 standard deviations of the times.",
        ),
    ] = None,
    slow: Annotated[
        str | None,
        typer.Option(
            metavar="DURATION",
            help="With --method burst, the time that shows what is usual: for example 10d, or a number. By default one "
            "standard deviation of the times.",
        ),
    ] = None,
    contamination: Annotated[
        float | None,
        typer.Option(
            min=0.0,
            max=0.5,
            help="Share of rows to mark as outliers, for example 0.01. By default the rows that look more like shuffled "
            "rows than like real ones, or bursts that chance would not give once in the whole table.",
        ),
    ] = None,
    save: Save = None,
    memory: Memory = None,
    engine: EngineAddress = None,
    output: Output = None,
    seed: Seed = 0,
    columns: Columns,
) -> None:
    """Find unusual interactions, without labels.

    The result is your table with two columns added: "outlier_score", and "outlier", which is 1 or 0. With
    --method shuffled, the score is high for rows that look as if they were shuffled at random. With --method burst, it is
    a number of digits: 6 is a burst as rare as one in a million; `tdlg explain` explains a row.
    """
    from tdlg.models.outliers import EdgeOutlierDetector

    if contamination == 0:
        raise wrong("--contamination", "it must be above 0 and at most 0.5. Got 0 instead.")
    if method != "burst" and (fast or slow):
        raise wrong("--fast" if fast else "--slow", "it works only with --method burst. Add it, or leave this out.")
    widths = duration(fast, "--fast"), duration(slow, "--slow")
    check_model_file(save)
    if memory is not None or engine is not None or (method == "burst" and reason_for_disk(edges) is not None):
        if method != "burst":
            problem = f"{method} cannot run on disk or on a cluster."
            raise wrong("--method", f"{problem} Use --method burst, which finds bursts, or a part of the table.")
        where = Where.of(edges, output, memory, engine, {"--save": save, "--contamination": contamination})
        _outliers_on_disk(where, *widths, columns)
        return
    check_output(output)
    if method != "burst":
        needs = LINE_GRAPH_OF_LINKS if method == "rows" else LEARNING
        check_fits(edges, needs, "With --method burst, it is processed on disk.")
    table = read_table(edges, columns, features=())
    note_table(table, columns, features=False)
    given: Any = given_options(contamination=contamination, fast=widths[0], slow=widths[1], random_state=seed)
    model = EdgeOutlierDetector(method, **given)
    with working("fitting the model"):
        model.fit(table.edges)
    note(f"method: {method}{_burst_widths(model)}")
    if method != "burst" and len(table.edges) < LEAST_TO_JUDGE:
        warn(
            f"{count(len(table.edges), 'row')} are too few to measure how well outliers are found: do not rely on the scores"
        )
    elif method != "burst":
        note(f"AUC for real against shuffled rows: {model.auc_:.3f} (0.5 would mean that the scores are meaningless)")
    keep_model(model, save)
    give(table.with_columns(**answers(model, table.edges)), output, first=table.free_name("outlier_score"))


def _outliers_on_disk(where: Where, fast: Any, slow: Any, columns: Columns) -> None:
    from tdlg.models.outliers import BurstDetector

    with scanned(where.path, columns, beside=where.output, features=False) as (table, unused):
        found = where.fill(BurstDetector(fast, slow), table)
    note(f"read {count(found.n_rows, 'edge')} in blocks")
    if unused:
        note(f"not used: {unused_in_words(unused, features=False)}")
    note(f"method: burst{_widths_in_words(found.fast, found.slow, found.time_unit)}")
    note(f"wrote {count(found.n_rows, 'row')} to {where.output}")


def _burst_widths(model: Any) -> str:
    """The two widths of bursts, in words; nothing for other methods."""
    return "" if model.method != "burst" else _widths_in_words(model.fast_, model.slow_, model.edges_.time_unit)


def _widths_in_words(fast: Any, slow: Any, unit: str | None) -> str:
    from tdlg.clock import duration_in_words

    widths = [duration_in_words(decay.parts(unit)[0].bandwidth, unit) for decay in (fast, slow)]
    return f", bursts of {widths[0]} beside what is usual in {widths[1]}; --fast and --slow change it"
