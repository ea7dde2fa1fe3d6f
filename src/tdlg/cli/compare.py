"""The commands compare and backtest, which measure how well labels are predicted."""

from __future__ import annotations

import shlex
import sys
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import polars as pl
import typer

from tdlg.cli.group import command
from tdlg.cli.options import Evaluate, FeatureColumns, NeededLabels, Seed, duration, number_or_text, wrong
from tdlg.cli.output import give, note, progress, times_as_text
from tdlg.cli.tables import labels_read, note_known_at_once, note_table, read_table
from tdlg.cli.team import read_rules
from tdlg.edges import TemporalEdges
from tdlg.exceptions import ParameterError
from tdlg.explain.positive import positive_class
from tdlg.io.read import Table
from tdlg.memory import LEARNING
from tdlg.models.fits import check_fits
from tdlg.tables.labels import plain_classes
from tdlg.tables.text import count

USUAL = ("propagation", "tdlg", "tdlg-dense", "label-rates")
ALL = "all"
OF_LINKS = ("propagation-links", "edgebank")  # these do not use labels
HELD_OUT = {"random": "random split", "forecast": "the latest ones", "stream": "the latest ones"}
ALERTS_PER_DAY = 20

commands = typer.Typer(rich_markup_mode=None)


def _label_methods() -> list[str]:
    from tdlg.judge.methods import METHODS

    return [name for name in METHODS if name not in OF_LINKS]


def _methods(incomplete: str) -> list[str]:
    done, _, last = incomplete.rpartition(",")
    return [f"{done},{name}".lstrip(",") for name in (*_label_methods(), ALL) if name.startswith(last)]


@command(commands, "tdlg compare payments.csv --label fraud --evaluate forecast")
def compare(
    edges: Path,
    *,
    labels: NeededLabels,
    methods: Annotated[str, typer.Option(autocompletion=_methods)] = ",".join(USUAL),
    evaluate: Evaluate | None = None,
    trials: Annotated[int | None, typer.Option(min=1)] = None,
    output: Path | None = None,
    seed: Seed = 0,
    columns: FeatureColumns,
) -> None:
    """Compare methods on your own data: hold out labels and measure how well each method predicts them.

    With --label-time or --label-delay, the latest labels are held out: methods learn from the labels that were known at
    the cut, and later labels count from when they became known.

    The methods of this package are propagation, tdlg and tdlg-dense; label-rates and windows are simple references.
    Published methods to compare with are ctdne, timers, dylink2vec, dyngem, evolvegcn, evolvegcn-o, gcrn, vgrnn and
    dyrep. They are slow, and most need PyTorch or gensim; from a clone: pip install "./paper[deep]". With --methods
    all, all of these are run, which may take hours on 100,000 edges; progress shows the remaining time.

    Parameters
    ----------
    methods : A,B
        Methods to compare, for example propagation,ctdne; or all (slow).
    evaluate
        Hold out known labels: random ones; the latest ones (forecast); or the latest ones, each of which counts for
        later rows from when it became known (stream). By default as in the report of classify: random ones where labels
        are missing here and there, else the latest ones.
    trials : NUMBER
        Number of times that labels are held out. By default 3 with --evaluate random, else 1.
    """
    from tdlg.judge.holdout import draw_trial, suitable_split
    from tdlg.judge.run import evaluate as judge
    from tdlg.judge.trials import EdgeClassification, ForecastClassification

    if evaluate == "random" and labels.are_late:
        problem = "labels held out at random have labels before and after them, whenever they became known."
        raise wrong("--evaluate", f"{problem} Leave out --evaluate random, or --label-time and --label-delay.")
    chosen = _chosen(methods)
    table = _table_to_learn(edges, labels, output, columns)
    known, positive = _with_two_classes(table.edges, table.positive)
    note_table(table, columns, labels_read(known))
    if evaluate is None:
        latest: Evaluate = "forecast" if known.label_ticks is None else "stream"
        evaluate = "random" if suitable_split(known, "auto") == "random" else latest
    task: Any = EdgeClassification(known)
    if evaluate != "random":
        note_known_at_once(known)
        task = ForecastClassification(known, stream=evaluate == "stream")
    n_trials = trials or (3 if evaluate == "random" else 1)  # the split by time is always the same
    for trial in range(n_trials):
        draw_trial(task, seed + trial)  # fails before any work is done
    rows = []
    total = len(chosen) * n_trials
    with progress() as show:
        for number, name in enumerate(chosen):
            show(number * n_trials, total, name)

            def tell(done: int, _: int, before: int = number * n_trials, name: str = name) -> None:
                show(before + done, total, name)

            try:
                rows.append(judge(name, task, n_trials, seed, callback=tell))
            except ImportError as error:
                note(f"{name}: not run ({error})")
    if not rows:
        raise ParameterError(
            "None of the methods could be run. Install what they need, or choose others with --methods.",
            parameter="methods",
        )
    found = pl.concat(rows)
    trained, tested = (count(found[name][0], "label") for name in ("n_train", "n_test"))
    precise = "AUC and average precision are means over the classes"
    precise = precise if positive is None else f"average precision for {positive!r}"
    note(f"trained on {trained}, tested on {tested} ({HELD_OUT[evaluate]}); {precise}")
    give(_summary(found), output, first="auc")


@command(commands, "tdlg backtest payments.csv --label fraud --every 30d --label-delay 7d -o periods.csv")
def backtest(
    edges: Path,
    *,
    labels: NeededLabels,
    every: str,
    alerts_per_day: float | None = None,
    start: str | None = None,
    curve: bool = False,
    rules: Path | None = None,
    report: Path | None = None,
    output: Path | None = None,
    seed: Seed = 0,
    columns: FeatureColumns,
) -> None:
    """Go through time as in production: fit at the start of each period on what was known then, and score the period.

    The result has one row per period and method, and a total. "alert_precision" is the share of positive rows among the
    --alerts-per-day highest scores of each day. Labels that become known during a period count from then on. The methods are
    propagation, label rates per node, and the same trees on counts, means and label rates in windows of 1, 7 and 30
    days.

    Parameters
    ----------
    every : DURATION
        Length of a period, for example 30d, or a number if the times are numbers.
    start : TIME
        Start of the first period, for example 2024-06-01. By default after the first 30 % of the time span.
    curve
        Measure how the quality grows with the history instead: predict the periods from the last 7, 14, 28 and more days
        before them only.
    rules : FILE
        Compare the rules in this TOML file with the model instead: alerts per day, precision, recall, and the share of
        the alerts that are the model's too ("overlap"). See `tdlg rules`.
    report : PAGE
        Write a page with the chart and the table of --curve to this file.
    """
    from tdlg.judge.backtest import backtest as go_through
    from tdlg.judge.backtest import learning_curve

    period, n_alerts = duration(every, "--every"), ALERTS_PER_DAY if alerts_per_day is None else int(alerts_per_day)
    if n_alerts < 1 or n_alerts != (alerts_per_day or n_alerts):
        raise wrong("--alerts-per-day", f"it must be a whole number of at least 1. Got {alerts_per_day:g} instead.")
    if report is not None and not curve:
        raise wrong("--report", "it shows how the quality grows with the history: add --curve.")
    if rules is not None and curve:
        raise wrong("--rules", "it cannot be used with --curve.")
    text = "" if rules is None else read_rules(rules)
    table = _table_to_learn(edges, labels, output, columns)
    known, positive = _with_two_classes(table.edges, table.positive)
    if positive is None:
        raise ParameterError(
            f"The column {labels.label!r} has more than two classes. Give the positive class with --positive, for "
            "example --positive fraud.",
            parameter="positive",
        )
    note_table(table, columns, labels_read(known))
    note_known_at_once(known)
    measure: Any = learning_curve if curve else go_through
    if rules is not None:
        from tdlg.live.rules import backtest_rules

        measure = partial(backtest_rules, text=text, file=rules.name)
    with progress() as show:
        show(0, 1, "fitting")
        found = measure(
            known,
            period,
            start=None if start is None else number_or_text(start),
            alerts_per_day=n_alerts,
            random_state=seed,
            callback=lambda done, total: show(done, total, "periods"),
        )
    note(f"positive class: {positive!r}; at most {count(n_alerts, 'alert')} per day")
    if report is not None:
        from tdlg.report import write_curve

        write_curve(report, found, positive=positive, command=shlex.join(["tdlg", *sys.argv[1:]]))
        note(f"wrote the report {report}")
    found = found if curve or rules is not None else _with_total(found)
    shares = ("auc", "average_precision", "alert_precision", "alerts_per_day", "precision", "recall", "overlap")
    give(found, output, rows=len(found), computed=shares)


def _table_to_learn(path: Path, labels: NeededLabels, output: Path | None, columns: FeatureColumns) -> Table:
    check_fits(path, LEARNING)
    return read_table(path, columns, labels, to_learn=True)


def _with_two_classes(edges: TemporalEdges, positive: Any = None) -> tuple[TemporalEdges, Any]:
    """Two classes as 0 and 1, and the positive class, by default by the rule; more classes unchanged, and None."""
    labels = np.asarray(edges.label)
    classes = np.unique(labels[edges.labelled])
    if len(classes) != 2:
        return edges, None
    place = positive_class(classes, labels, positive)
    is_positive = np.where(edges.labelled, labels == classes[place], np.nan)
    return edges.with_label(is_positive), plain_classes(classes).tolist()[place]


def _with_total(found: pl.DataFrame) -> pl.DataFrame:
    """Periods as text, and the word "total" for all of them."""
    dates = [found[name] for name in ("start", "stop")]
    if found["start"].dtype.is_temporal():
        dates = [times_as_text(times) for times in dates]
    return found.with_columns(times.cast(pl.String) for times in dates).with_columns(pl.col("start").fill_null("total"))


def _chosen(methods: str) -> list[str]:
    from tdlg.judge.methods import COMPARED, make_method

    available = _label_methods()
    if methods == ALL:
        return available
    chosen = [name.strip() for name in methods.split(",") if name.strip()]
    unknown = [name for name in chosen if name not in available]
    if missing := [name for name in unknown if name in COMPARED]:
        make_method(missing[0])  # fails, and says how to install it
    if unknown or not chosen:
        what = repr(unknown[0]) if unknown else "nothing"
        raise wrong("--methods", f"must be some of {', '.join(available)}. Got {what} instead.")
    return chosen


def _summary(rows: pl.DataFrame) -> pl.DataFrame:
    """One row per method, with its settings: means over the trials, and half the width of the interval of the AUC."""
    from tdlg.judge.run import summarise

    with_settings = pl.format("{} ({})", "method", "settings")
    rows = rows.with_columns(pl.when(pl.col("settings") == "").then("method").otherwise(with_settings).alias("method"))
    auc, precision = (summarise(rows, ["method"], metric) for metric in ("auc", "average_precision"))
    memory = rows.group_by("method", maintain_order=True).agg(pl.col("peak_bytes").max())["peak_bytes"] / 1e6
    return auc.select(
        "method",
        pl.col("mean").round(4).alias("auc"),
        pl.col("half_width").fill_nan(None).round(4).alias("auc_half_width"),
        precision["mean"].round(4).alias("average_precision"),
        "trials",
        pl.col("seconds").round(2),
        memory.round(0).alias("megabytes"),
    )
