"""The commands compare, backtest and demo."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tdlg.cli.commands.serve import check_installed
from tdlg.cli.cost import LEARNING, in_time, trial_seconds
from tdlg.cli.files import check_fits
from tdlg.cli.labels import as_two_numbers, labels_to_learn, note_known_at_once
from tdlg.cli.options import (
    Columns,
    EdgesPath,
    Evaluate,
    LabelDelay,
    LabelTime,
    Missing,
    Output,
    Positive,
    Seed,
    duration,
    example,
    late_labels,
    number_or_text,
    with_columns,
)
from tdlg.cli.output import check_output, give, rounded
from tdlg.cli.process import heed_termination
from tdlg.cli.quality import HELD_OUT
from tdlg.cli.table import note_table, read_table
from tdlg.cli.terminal import count, note, progress
from tdlg.exceptions import ParameterError

if TYPE_CHECKING:
    import polars as pl

    from tdlg.edges import TemporalEdges

__all__ = ["register"]

USUAL = ("propagation", "tdlg", "tdlg-dense", "label-rates")
ALL = "all"
OF_LINKS = ("propagation-links", "edgebank")  # these do not use labels
TRIALS = {"random": 3, "time": 1}  # the split by time is always the same
LONG = 60.0  # seconds from which compare says how long it takes


def register(app: typer.Typer) -> None:
    """Add these commands."""
    app.command(
        short_help="Compare methods on your own data.",
        epilog=example("tdlg compare payments.csv --label fraud --evaluate time"),
    )(compare)
    app.command(
        short_help="Go through time: refit regularly, and measure each period.",
        epilog=example("tdlg backtest payments.csv --label fraud --every 30d --label-delay 7d -o periods.csv"),
    )(backtest)
    app.command(
        short_help="Run the demo, in less than a minute.",
        epilog=example("tdlg demo --report demo.html", "tdlg demo --live"),
    )(demo)


def _label_methods() -> list[str]:
    from tdlg.judge.methods import METHODS

    return [name for name in METHODS if name not in OF_LINKS]


def _methods(incomplete: str) -> list[str]:
    done, _, last = incomplete.rpartition(",")
    return [f"{done},{name}".lstrip(",") for name in (*_label_methods(), ALL) if name.startswith(last)]


@with_columns
def compare(
    edges: EdgesPath,
    *,
    label: Annotated[str, typer.Option(metavar="COLUMN", help="Label column: name or 0-based position.")],
    positive: Positive = None,
    missing: Missing = None,
    label_time: LabelTime = None,
    label_delay: LabelDelay = None,
    methods: Annotated[
        str,
        typer.Option(
            metavar="A,B",
            help="Methods to compare, for example propagation,ctdne; or all (slow).",
            autocompletion=_methods,
        ),
    ] = ",".join(USUAL),
    evaluate: Annotated[
        Evaluate | None,
        typer.Option(
            help="Hold out labels at random, or the latest ones (time). By default as in the report of classify: at random "
            "where labels are missing here and there, else the latest ones."
        ),
    ] = None,
    trials: Annotated[
        int | None,
        typer.Option(
            min=1, help="Number of times that labels are held out. By default 3 with --evaluate random, 1 with time."
        ),
    ] = None,
    output: Output = None,
    seed: Seed = 0,
    columns: Columns,
) -> None:
    """Compare methods on your own data: hold out labels and measure how well each method predicts them.

    With --label-time or --label-delay, the latest labels are held out: methods learn from the labels that were known at
    the cut, and later labels count from when they became known.

    The methods of this package are propagation, tdlg and tdlg-dense; label-rates is a simple reference. Published methods
    to compare with are ctdne, timers, dylink2vec, dyngem, evolvegcn, evolvegcn-o, gcrn, vgrnn and dyrep. They are slow, and
    most need PyTorch or gensim; from a clone: pip install "./paper[deep]". With --methods all, all of these are run, which
    may take hours on 100,000 edges; a note says roughly how long before it starts.
    """
    import polars as pl

    from tdlg.judge.holdout import draw_trial, suitable_split
    from tdlg.judge.run import evaluate as judge
    from tdlg.judge.trials import ChronologicalClassification, EdgeClassification

    check_output(output)
    late = late_labels(label, label_time, label_delay)
    if evaluate == "random" and (label_time or label_delay):
        raise typer.BadParameter(
            "labels held out at random have labels before and after them, whenever they became known. Leave out --evaluate "
            "random, or --label-time and --label-delay.",
            param_hint="--evaluate",
        )
    chosen = _chosen(methods)
    check_fits(edges, LEARNING)
    table = read_table(edges, columns, label, late=late)
    known, positive_class = as_two_numbers(*labels_to_learn(table.edges, label, positive, missing))
    note_table(table, columns, _labels_read(known))
    evaluate = evaluate or suitable_split(known, "auto")
    task: Any = EdgeClassification(known)
    if evaluate == "time":
        note_known_at_once(known)
        task = ChronologicalClassification(known, prequential=known.label_ticks is not None)
    n_trials = trials or TRIALS[evaluate]
    for trial in range(n_trials):
        draw_trial(task, seed + trial)  # fails before any work is done
    _warn_of_time(chosen, len(known), n_trials)
    rows = []
    with progress() as show:
        for number, name in enumerate(chosen):
            start, total = number * n_trials, len(chosen) * n_trials
            show(start, total, name)
            try:
                rows.append(judge(name, task, n_trials, seed, callback=lambda done, _: show(start + done, total, name)))  # noqa: B023
            except ImportError as error:
                note(f"{name}: not run ({error})")
    if not rows:
        raise ParameterError(
            "None of the methods could be run. Install what they need, or choose others with --methods.",
            parameter="methods",
        )
    found = pl.concat(rows)
    precise = "AUC and average precision are means over the classes"
    precise = precise if positive_class is None else f"average precision for {positive_class!r}"
    trained, tested = (count(found[name][0], "label") for name in ("n_train", "n_test"))
    note(f"trained on {trained}, tested on {tested} ({HELD_OUT[evaluate]}); {precise}")
    give(_summary(found), output, first="auc")


@with_columns
def backtest(
    edges: EdgesPath,
    *,
    label: Annotated[str, typer.Option(metavar="COLUMN", help="Label column: name or 0-based position.")],
    every: Annotated[
        str,
        typer.Option(
            metavar="DURATION", help="Length of a period, for example 30d, or a number if the times are numbers."
        ),
    ],
    alerts_per_day: Annotated[
        int,
        typer.Option(
            min=1,
            help="Number of rows that somebody can check per day, in UTC. If the times are numbers, a day is a thirtieth of "
            "--every.",
        ),
    ] = 20,
    start: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help="Start of the first period, for example 2024-06-01. By default after the first 30 % of the time span.",
        ),
    ] = None,
    curve: Annotated[
        bool,
        typer.Option(
            "--curve",
            help="Measure how the quality grows with the history instead: predict the periods from the last 7, 14, 28 and "
            "more days before them only.",
        ),
    ] = False,
    positive: Positive = None,
    missing: Missing = None,
    label_time: LabelTime = None,
    label_delay: LabelDelay = None,
    output: Output = None,
    seed: Seed = 0,
    columns: Columns,
) -> None:
    """Go through time as in production: fit at the start of each period on what was known then, and score the period.

    The result has one row per period and method, and a total. "alert_precision" is the share of positive rows among the
    --alerts-per-day highest scores of each day. Labels that become known during a period count from then on. The methods are
    propagation, label rates per node, and the same trees on counts, means and label rates in windows of 1, 7 and 30 days.
    """
    from tdlg.judge.backtest import backtest as go_through
    from tdlg.judge.backtest import learning_curve

    period = duration(every, "--every")
    check_output(output)
    late = late_labels(label, label_time, label_delay)
    check_fits(edges, LEARNING)
    table = read_table(edges, columns, label, late=late)
    known, positive_class = as_two_numbers(*labels_to_learn(table.edges, label, positive, missing))
    if positive_class is None:
        raise ParameterError(
            f"The column {label!r} has more than two classes. Give the positive class with --positive, for example "
            "--positive fraud.",
            parameter="positive",
        )
    note_table(table, columns, _labels_read(known))
    note_known_at_once(known)
    with progress() as show:
        show(0, 1, "fitting")
        found = (learning_curve if curve else go_through)(
            known,
            period,
            start=None if start is None else number_or_text(start),
            alerts_per_day=alerts_per_day,
            random_state=seed,
            callback=lambda done, total: show(done, total, "periods"),
        )
    note(f"positive class: {positive_class!r}; at most {count(alerts_per_day, 'alert')} per day")
    found = rounded(found if curve else _with_total(found), "auc", "average_precision", "alert_precision")
    give(found, output, rows=len(found))


def _labels_read(edges: TemporalEdges) -> str:
    n_known = int(edges.labelled.sum())
    return f"; {count(n_known, 'known label')}, {len(edges) - n_known:,} missing"


def _with_total(found: pl.DataFrame) -> pl.DataFrame:
    """Periods as text, and the word "total" for all of them."""
    import polars as pl

    dates = found.select(pl.col("start", "stop"))
    if dates["start"].dtype.is_temporal():
        is_day = (dates["start"].dt.truncate("1d") == dates["start"]).all()
        dates = dates.select(pl.all().dt.to_string("%Y-%m-%d" if is_day else "%Y-%m-%dT%H:%M:%S"))
    return found.with_columns(
        dates["start"].cast(pl.String).fill_null("total").alias("start"), dates["stop"].cast(pl.String).alias("stop")
    )


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
        raise typer.BadParameter(f"must be some of {', '.join(available)}. Got {what} instead.", param_hint="--methods")
    return chosen


def _warn_of_time(methods: list[str], n_edges: int, n_trials: int) -> None:
    seconds = {name: n_trials * trial_seconds(name, n_edges) for name in methods}
    if sum(seconds.values()) > LONG:
        longest = max(seconds, key=seconds.__getitem__)
        note(
            f"this takes roughly {in_time(sum(seconds.values()))}, most of it for {longest}; choose fewer with --methods or "
            "--trials"
        )


def _summary(rows: pl.DataFrame) -> pl.DataFrame:
    """One row per method, with its settings: the means over the trials, and half the width of the interval of the AUC."""
    import polars as pl

    from tdlg.judge.results import summarise

    with_settings = pl.format("{} ({})", "method", "settings")
    rows = rows.with_columns(pl.when(pl.col("settings") == "").then("method").otherwise(with_settings).alias("method"))
    auc, precision = (summarise(rows, ["method"], metric) for metric in ("auc", "average_precision"))
    memory = rows.group_by("method", maintain_order=True).agg(pl.col("peak_bytes").max())["peak_bytes"] / 1e6
    table = auc.select(
        "method",
        pl.col("mean").round(4).alias("auc"),
        pl.col("half_width").fill_nan(None).round(4).alias("auc_half_width"),
        precision["mean"].round(4).alias("average_precision"),
        "trials",
        pl.col("seconds").round(2),
        memory.round(0).alias("megabytes"),
    )
    return table


# ---- the demo


def demo(
    report: Annotated[
        Path | None,
        typer.Option(metavar="PAGE", help="Path of the HTML report to write. By default tdlg-demo.html."),
    ] = None,
    live: Annotated[
        bool, typer.Option("--live", help="Play synthetic payments into a live service, and show its desk instead.")
    ] = False,
    browser: Annotated[
        bool | None,
        typer.Option("--open/--no-open", help="With --live, open the desk in a browser, which is the default."),
    ] = None,
    port: Annotated[
        int | None, typer.Option(min=0, max=65535, help="With --live, the port; 0, the default, takes a free one.")
    ] = None,
    seed: Seed = 0,
) -> None:
    """Run the demo on synthetic networks, in less than a minute."""
    others = {"--report": report} if live else {"--open": browser, "--port": port}
    for name, value in others.items():
        if value is not None:
            raise typer.BadParameter(f"it works only with{'out' * live} --live. Leave out one.", param_hint=name)
    if live:
        _live_demo(browser is not False, port or 0, seed)
        return
    from tdlg.cli.output import check_folder
    from tdlg.demo import run_demo

    report = report or Path("tdlg-demo.html")
    check_folder(report)
    run_demo(report, random_state=seed, say=typer.echo)


def _live_demo(browser: bool, port: int, seed: int) -> None:
    import webbrowser

    check_installed("tdlg demo --live")
    from tdlg.serve.demo import run_live_demo

    heed_termination()
    try:
        run_live_demo(port=port, random_state=seed, say=typer.echo, show=webbrowser.open if browser else None)
    except KeyboardInterrupt:
        note("stopped")
