"""The commands classify and outliers: a table with scores added."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
import polars as pl
import typer

from tdlg.cli.group import command
from tdlg.cli.options import Evaluate, FeatureColumns, Labels, NeededLabels, Seed, duration, given_options, wrong
from tdlg.cli.output import aligned, give, keep_model, note, warn, working
from tdlg.cli.tables import OnDisk, labels_read, note_columns, note_known_at_once, note_table, read_table
from tdlg.clock import duration_in_words
from tdlg.edges import TemporalEdges
from tdlg.exceptions import ParameterError, TdlgError
from tdlg.explain.positive import positive_class, probability_in_words
from tdlg.io.columns import ID_NAME
from tdlg.io.read import Table
from tdlg.memory import LEARNING
from tdlg.models.fits import LINE_GRAPH, LINE_GRAPH_OF_LINKS, check_fits, reason_for_disk
from tdlg.tables.labels import LabelRule, plain_classes
from tdlg.tables.text import count

if TYPE_CHECKING:
    from tdlg.judge.holdout import HeldOut, Judged

MANY_CLASSES = 10
LEAST_TO_JUDGE = 30  # rows; with fewer rows, chance alone changes the AUC by 0.1 or more
HELD_OUT = {"random": "random split", "time": "the latest ones"}

commands = typer.Typer(rich_markup_mode=None)


@command(commands, "tdlg classify ratings.csv --label stars --positive '> 3' -o filled.csv")
def classify(
    edges: Path,
    *,
    labels: NeededLabels,
    method: Literal["propagation", "linegraph"] = "propagation",
    setting: Literal["auto", "interpolate", "forecast", "stream"] = "auto",
    scales: str | None = None,
    calendar: bool | None = None,
    two_ends: bool | None = None,
    evaluate: Evaluate | None = None,
    report: Path | None = None,
    save: Path | None = None,
    memory: str | None = None,
    engine: str | None = None,
    output: Path | None = None,
    seed: Seed = 0,
    columns: FeatureColumns,
) -> None:
    """Fill in missing labels: each row without a label gets a predicted class and a probability.

    The result is your table with the columns "predicted" and "probability" added. With two classes, it is the
    probability of the positive class: the one given with --positive; by default the larger of two numbers, or the rarer
    label. With more classes, it is the probability of the predicted class.

    Parameters
    ----------
    label : COLUMN
        Label column to fill in: name or 0-based position.
    method
        propagation: boosted trees on propagated labels; linegraph: the line-graph classifier of the original paper.
    setting
        Which labels are known when a row is predicted. interpolate: labels before and after it; forecast: labels up to a
        fixed time; stream: all labels known before it; auto: stream with --label-time or --label-delay, else chosen by
        where labels are missing.
    scales : A,B
        Time scales over which the past fades: durations such as 30d,7d,1d, or numbers in standard deviations of the
        times. By default four to six are chosen from the data; `tdlg info` shows them.
    calendar
        Also use the time of day and the day of the week, in UTC. By default if the times are dates that span two weeks.
    two_ends
        Also use what similar sources did with similar destinations, which needs all rows in memory. By default for up
        to 10 million rows that need at most half of the free memory; never with --memory or --engine.
    evaluate
        Hold out known labels: random ones; the latest ones (forecast); or the latest ones, each of which counts for
        later rows from when it became known (stream). Then report how well they are predicted. By default nothing is
        evaluated.
    report : PAGE
        Write a report to this file: a page, page.html, or its content, page.json.
    save : MODEL
        File to save the model to, for score, nodes and explain.
    """
    of_propagation = {"setting": setting != "auto", "scales": scales}
    of_propagation |= {"no-calendar" if calendar is False else "calendar": calendar is not None}
    of_propagation |= {"two-ends" if two_ends else "no-two-ends": two_ends is not None}
    of_propagation |= {"features": columns.features, "categories": columns.categories}
    if not (evaluate in ("forecast", "stream") or report is not None):
        of_propagation |= {"label-time": labels.label_time, "label-delay": labels.label_delay}
    is_asked_for = memory is not None or engine is not None
    if method == "linegraph" and is_asked_for:
        problem = "linegraph cannot run on disk or on a cluster."
        raise wrong("--method", f"{problem} Leave out --method linegraph, or use a part of the table.")
    for name, value in of_propagation.items():
        if method == "linegraph" and value:
            problem = f"it works only with --method propagation. Leave out --{name} or --method linegraph."
            raise wrong(f"--{name}", problem)
    if setting == "interpolate" and labels.are_late:
        problem = "it uses labels before and after a row, whenever they became known."
        raise wrong("--setting", f"{problem} Leave out --setting interpolate, or --label-time and --label-delay.")
    options = {"setting": setting, "calendar": calendar, "two_ends": two_ends, "scales": _scales(scales)}
    model: Any
    if method == "linegraph":
        from tdlg.models.linegraph import LineGraphClassifier

        model = LineGraphClassifier(random_state=seed)
    else:
        from tdlg.models.propagation import PropagationClassifier

        model = PropagationClassifier(random_state=seed, **given_options(**options))
    why = None if is_asked_for or method == "linegraph" else reason_for_disk(edges, two_ends=two_ends)
    if is_asked_for or why is not None:
        others = {"--evaluate": evaluate, "--report": report, "--save": save, "--two-ends": two_ends}
        _classify_on_disk(OnDisk.of(edges, output, memory, engine, others), model, columns, labels, why)
        return
    if method == "linegraph":
        check_fits(edges, LINE_GRAPH, "Without --method linegraph, a table is processed on disk.")
    else:  # where too little is free for work on disk
        check_fits(edges, LEARNING)
    table = read_table(edges, columns, labels, to_learn=True)
    known, is_missing = table.edges, ~table.edges.labelled
    if not (is_missing.any() or evaluate or report or save):
        raise ParameterError(
            f"No label is missing in the column {labels.label!r}: there is nothing to fill in. Leave the label empty in the "
            "rows to fill in, or use --evaluate to measure the quality, or --save and `tdlg score` for another table.",
            parameter="label",
        )
    note_table(table, columns, labels_read(known), features=method != "linegraph")
    n_classes = len(set(known.label[known.labelled].tolist())) if known.label is not None else 0
    if n_classes > MANY_CLASSES:
        way_out = "if they are grades, two classes are faster and easier to read: --positive '> 0'"
        note(f"{n_classes} classes take long; {way_out}")
    if evaluate in ("forecast", "stream") or setting == "stream":
        note_known_at_once(known)
    fits = bool(is_missing.any() or report or save)
    held: Any = "auto"
    if evaluate is not None:
        held = _evaluated(model, known, evaluate, seed, table.positive, goes_on=fits or output is not None)
    if fits:
        delay = {} if labels.delay is None or method == "linegraph" else {"label_delay": labels.delay}
        _fit(model, table, labels, **delay)
        keep_model(model, save, table.names)
    _give_answers(model if fits else None, table, report, held, seed, output)


def _give_answers(model: Any, table: Table, report: Path | None, held: Any, seed: int, output: Path | None) -> None:
    """Write the page, if one is wanted, and the table with answers where labels are missing."""
    from tdlg.models.answers import answer_columns, positive_label, spread

    edges, to_fill = table.edges, ~table.edges.labelled
    if report is not None or to_fill.any():
        with working("scoring"):
            scored = model.scored(edges if report is not None else edges[to_fill])
    if report is not None:
        _write_page(report, model, scored, table, held, seed)
        scored = scored.some(to_fill.nonzero()[0])
    if to_fill.any():
        note(probability_in_words(model.classes_, positive_label(model), model.label_name_))
        added = {name: spread(values, to_fill) for name, values in answer_columns(model, scored).items()}
        give(table.with_columns(**added), output, first=table.free_name("probability"))
    elif output is not None:
        column = table.names["label"]
        warn(f"no label is missing in the column {column!r}: predicted and probability are empty in every row")
        classes = pl.Series(plain_classes(np.asarray(edges.label)[edges.labelled]).tolist())
        empty = {"predicted": classes.clear(len(edges)), "probability": pl.Series([0.5]).clear(len(edges))}
        give(table.with_columns(**empty), output)


def _classify_on_disk(
    where: OnDisk, model: Any, columns: FeatureColumns, labels: NeededLabels, why: str | None
) -> None:
    table = where.scan(columns, labels)
    because = "" if why is None else f": {why}"
    note(f"large table: processing on disk, without the similarity features{because}")
    filled = where.fill(model, table, classes=table.rule.classes)
    note(f"read {count(filled.n_rows, 'edge')}; {count(filled.n_known, 'known label')}, {filled.n_scored:,} missing")
    note_columns(table.features, table.unused, columns)
    if filled.n_learnt < filled.n_learnt_from:
        note(f"fitted to a sample of {count(filled.n_learnt, 'row')}; probabilities are corrected for it")
    _note_setting(filled.setting, filled.setting_reason, filled.scales)
    _note_calendar(model, filled.columns)
    note(probability_in_words(filled.classes, filled.positive, table.rule.named(filled.positive)))
    note(f"wrote {count(filled.n_rows, 'row')} to {where.output}")


def _scales(given: str | None) -> list[Any] | None:
    """Durations and numbers, as the library takes them."""
    if given is None:
        return None
    chosen = [duration(text, "--scales") for text in map(str.strip, given.split(",")) if text]
    if not chosen:
        raise wrong("--scales", "it must have at least one time scale, such as 7d.")
    return chosen


def _fit(model: Any, table: Table, labels: NeededLabels, **delay: Any) -> None:
    """Fit the model. It stores the positive class and the delay of labels, so that `score` uses the same."""
    with working(f"fitting to {count(int(table.edges.labelled.sum()), 'label')}"):
        model.fit(table.edges, **delay)
    if table.positive is not None:
        model.positive_ = table.positive
    model.label_name_ = LabelRule(labels.positive, column=table.names["label"]).named(table.positive)
    if hasattr(model, "setting_"):
        in_words = model.features_.plan_.scales_in_words(model.features_.edges_.time_unit)
        _note_setting(model.setting_, model.setting_reason_, in_words)
        _note_calendar(model, model.features_.plan_.names())


def _note_setting(setting: str, why: str | None, scales: str) -> None:
    """Report the setting of a model and why it was chosen, and its time scales in words."""
    because = " (given by --setting)" if why is None else f", because {why} (change with --setting)"
    note(f"setting: {setting}{because}")
    if scales:
        note(f"time scales: {scales}")


def _note_calendar(model: Any, columns: Sequence[str]) -> None:
    """Report that the calendar is used where nobody asked for it."""
    if model.calendar == "auto" and "hour_of_day" in columns:
        note("also used: hour of day, day of week (change with --no-calendar)")


def _ids(table: Table) -> pl.Series | None:
    """The user's column that identifies the interactions: named like an id, with a different value in each row."""
    ends = [table.names[role] for role in ("src", "dst")]
    named = [name for name in table.frame.columns if ID_NAME.fullmatch(name) and name not in ends]
    return next((table.frame[name] for name in named if table.frame[name].n_unique() == table.frame.height), None)


def _write_page(path: Path, model: Any, scored: Any, table: Table, evaluate: Any, seed: int) -> None:
    from tdlg.models.answers import positive_label
    from tdlg.report import write_report

    shown = {"positive": positive_label(model), "label_name": model.label_name_}
    shown |= {"ids": _ids(table), "unused": list(table.unused)}
    with working("writing the report"):
        command = shlex.join(["tdlg", *sys.argv[1:]])
        write_report(path, model, scored, command=command, evaluate=evaluate, seed=seed, **shown)
    note(f"wrote the report {path}")


# ---- the quality on held-out labels


def _evaluated(
    model: Any, edges: TemporalEdges, evaluate: Evaluate, seed: int, positive: Any, *, goes_on: bool
) -> HeldOut | str:
    """Hold out labels and report the quality; with too few labels, print a note instead if the command has more to do.

    Gives what the page is to show: the labels held out, or how they are to be held out.
    """
    from sklearn.base import clone

    from tdlg.judge.holdout import hold_out, judge

    given, how = getattr(model, "setting", None), "random" if evaluate == "random" else "time"
    judged_model = model
    if given is not None and evaluate != "random":
        judged_model = clone(model).set_params(setting=evaluate)
    held = None
    try:
        with working("evaluating on held-out labels"):
            held = hold_out(judged_model, edges, how, seed)  # type: ignore[arg-type]
            judged = judge(held, positive_class(held.classes, np.asarray(edges.label), positive))
        _print_quality(judged, given)
    except TdlgError as error:
        if not goes_on:
            raise
        note(f"not evaluated: {error.problem}")
    return held or how


def _print_quality(judged: Judged, setting: str | None) -> None:
    """The figures that the report shows, as a table."""
    from tdlg.report.text import figure

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
        shown = name if name != "model" else "linegraph" if used is None else "propagation"
        rows.append((shown, *(figure(value) for value in (auc[0], precision[0], ranking.at(k)[0]))))
    note(aligned([*rows, ("chance", "0.500", figure(judged.chance), figure(judged.prevalence))]))


# ---- outliers


@command(commands, "tdlg outliers payments.csv --save outliers.tdlg -o scored.parquet")
def outliers(
    edges: Path,
    *,
    method: Literal["any", "burst", "rare", "value", "shuffled", "linegraph"] = "any",
    fast: str | None = None,
    slow: str | None = None,
    group: str | None = None,
    label: str | None = None,
    positive: str | None = None,
    contamination: Annotated[float | None, typer.Option(min=0.0, max=0.5)] = None,
    with_misplaced: bool = False,
    report: Path | None = None,
    save: Path | None = None,
    memory: str | None = None,
    engine: str | None = None,
    output: Path | None = None,
    seed: Seed = 0,
    columns: FeatureColumns,
) -> None:
    """Find unusual interactions, without labels.

    The result is your table with columns added: "outlier_score"; "outlier", which is 1 or 0; and what makes an outlier
    unusual, "outlier_notion" and "outlier_reason". The score is a number of decimal digits: 3 is as rare as one in a
    thousand. `tdlg explain` gives more reasons for a row.

    Parameters
    ----------
    method
        any: the strongest of the next three; burst: far more rows of a source, a destination or a pair in a short time
        than usual, such as attacks, scans and spam; rare: sources, destinations, pairs and categories that are new or
        rare; value: numbers that are far from those of their nodes; shuffled: rows that do not fit the habits of their
        nodes and look as if they were shuffled at random, which takes longer; linegraph: as shuffled, with the line graph of
        the original paper.
    fast : DURATION
        The time in which a burst happens: for example 1h, or a number if the times are numbers. By default the time in
        which 500 rows usually come, or 2 % of fewer than 25,000 rows.
    slow : DURATION
        The time that shows what is usual: for example 10d, or a number. By default one standard deviation of the times.
    group : A,B
        With --method any or burst, columns of categories, such as an address prefix or a country, whose rows are counted
        for bursts together.
    label : COLUMN
        With --method any, column with known labels of some rows, which weigh the notions against each other.
    positive : CONDITION
        Which labels mark outliers: a label value such as fraud, or a condition such as '> 0'.
    contamination : SHARE
        Share of rows to mark as outliers, for example 0.01. By default the rows with more than 3 digits, the bursts that
        chance would not give once in the whole table, or the rows that look more like shuffled rows than like real ones.
    with_misplaced
        With --method any, also judge whether rows fit the habits of their nodes, by the line graph of the original paper,
        which takes much longer.
    report : PAGE
        Write a report to this file: a page, page.html, or its content, page.json.
    save : MODEL
        File to save the model to, for score and explain.
    """
    import numpy as np

    from tdlg.models.answers import answer_columns
    from tdlg.models.outliers import EdgeOutlierDetector

    if contamination == 0:
        raise wrong("--contamination", "it must be above 0 and at most 0.5. Got 0 instead.")
    is_misplaced, uses_features = method in ("shuffled", "linegraph"), method in ("any", "rare", "value")
    if is_misplaced and (fast or slow):
        raise wrong("--fast" if fast else "--slow", f"--method {method} does not use it. Leave one of the two out.")
    of_any = {"--label": label, "--with-misplaced": with_misplaced, "--group": group if method != "burst" else None}
    for option, value in of_any.items():
        if method != "any" and value:
            raise wrong(option, f"--method {method} does not use it. Leave one of the two out.")
    if not uses_features and (columns.features or columns.categories):
        option = "--features" if columns.features else "--categories"
        raise wrong(option, f"--method {method} does not use it. Leave one of the two out.")
    widths = duration(fast, "--fast"), duration(slow, "--slow")
    is_on_disk = memory is not None or engine is not None
    groups = group.split(",") if group else []
    if is_on_disk or (
        method in ("any", "burst") and not (label or with_misplaced) and reason_for_disk(edges) is not None
    ):
        if method not in ("any", "burst") or label or with_misplaced:
            other = "--label" if label else "--with-misplaced"
            problem = f"{method} cannot run on disk or on a cluster{f' with {other}' * bool(label or with_misplaced)}."
            raise wrong("--method", f"{problem} Use --method burst, which finds bursts, or a part of the table.")
        others = {"--save": save, "--contamination": contamination, "--report": report}
        _bursts_on_disk(OnDisk.of(edges, output, memory, engine, others), *widths, columns, groups)
        return
    if method != "burst":
        needs = LINE_GRAPH_OF_LINKS if method == "linegraph" or with_misplaced else LEARNING
        check_fits(edges, needs, "With --method burst, it is processed on disk.")
    labels = Labels(label=label, positive=positive)
    of_groups = {"features": groups, "categories": groups}  # bursts use no other feature
    table = read_table(edges, columns, labels, **({"without_labels": True} if uses_features else of_groups))
    note_table(table, columns, features=uses_features)
    given: Any = given_options(contamination=contamination, fast=widths[0], slow=widths[1], random_state=seed)
    model = EdgeOutlierDetector(method, with_misplaced=with_misplaced, groups=groups, **given)
    with working("looking for outliers"):
        model.fit(table.edges, table.edges.label)
        scored = model.scored(table.edges)
        answers = answer_columns(model, scored)
    note(f"method: {method}" + ("" if is_misplaced else _in_words(model.fast_, model.slow_, table.edges.time_unit)))
    if is_misplaced and len(table.edges) < LEAST_TO_JUDGE:
        warn(
            f"{count(len(table.edges), 'row')} are too few to measure how well outliers are found: do not rely on the "
            "scores"
        )
    elif is_misplaced:
        note(f"AUC for real against shuffled rows: {model.auc_:.3f} (0.5 would mean that the scores are meaningless)")
    elif method == "any":
        for line in _overview(model.detector_):
            note(line)
    of_notion: dict[str, int] = {}  # the highest score of each
    for row in np.argsort(scored.values, kind="stable")[: int(answers["outlier"].sum())].tolist():
        of_notion.setdefault(answers["outlier_notion"][row], row)
    for row in of_notion.values():
        if answers["outlier_reason"][row]:
            note(f"row {row + 1:,}: {answers['outlier_reason'][row]}")
    keep_model(model, save, table.names)
    if report is not None:
        from tdlg.report import write_outliers

        with working("writing the report"):
            write_outliers(report, model, scored, command=shlex.join(["tdlg", *sys.argv[1:]]))
        note(f"wrote the report {report}")
    give(table.with_columns(**answers), output, first=table.free_name("outlier_score"))


def _overview(detector: Any) -> list[str]:
    """What each notion flags, and which rows to look at."""
    from tdlg.report.outliers import NOTIONS_IN_WORDS

    found = detector.overview()
    lines = [
        (NOTIONS_IN_WORDS[notion], f"{flagged:,}", f"{alone:,}", ", ".join(f"{row + 1:,}" for row in examples))
        for notion, flagged, alone, examples in found.rows()
    ]
    weights = [] if detector.weights_ is None else [f"weights by the labels: {_weights(detector)}"]
    return [*weights, *aligned([("", "outliers", "by no other", "rows to look at"), *lines]).splitlines()]


def _weights(detector: Any) -> str:
    pairs = zip(detector.names, detector.weights_, strict=True)
    if detector.auc_ is None:
        judged = "too few labels to judge them"
    else:
        judged = "AUC of the later labels {:.3f}, without weights {:.3f}".format(*detector.auc_)
    return ", ".join(f"{notion} {weight:.2f}" for notion, weight in pairs) + f" ({judged})"


def _bursts_on_disk(where: OnDisk, fast: Any, slow: Any, columns: FeatureColumns, groups: list[str]) -> None:
    from tdlg.models.bursts import BurstDetector

    named = ",".join(groups)
    table = where.scan(replace(columns, features=named or "none", categories=named or None))
    found = where.fill(BurstDetector(fast, slow, groups=groups), table)
    note(f"read {count(found.n_rows, 'edge')} in blocks")
    note_columns((), table.unused, columns, features=False)
    note(f"method: burst, the only one on disk{_in_words(found.fast, found.slow, found.time_unit)}")
    note(f"wrote {count(found.n_rows, 'row')} to {where.output}")


def _in_words(fast: Any, slow: Any, unit: str | None) -> str:
    widths = [duration_in_words(decay.parts(unit)[0].bandwidth, unit) for decay in (fast, slow)]
    return f", bursts of {widths[0]} beside what is usual in {widths[1]}; --fast and --slow change it"
