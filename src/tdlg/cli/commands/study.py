"""Commands that judge methods on the user's data, and the demo."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tdlg.cli.labels import as_two_numbers, labels_to_learn
from tdlg.cli.options import Columns, EdgesPath, Evaluate, Missing, Output, Positive, Seed, example, with_columns
from tdlg.cli.output import check_output, give
from tdlg.cli.quality import drawn
from tdlg.cli.table import read_table
from tdlg.cli.terminal import count, note, progress
from tdlg.exceptions import ParameterError

if TYPE_CHECKING:
    import polars as pl

__all__ = ["register"]

USUAL = ("propagation", "tdlg", "tdlg-dense", "label-rates")
ALL = "all"
OF_LINKS = ("propagation-links", "edgebank")  # which know nothing of labels
TRIALS = {"random": 3, "time": 1}  # there is only one way to cut by time


def register(app: typer.Typer) -> None:
    """Add these commands."""
    app.command(
        short_help="Compare methods on your own data.",
        epilog=example("tdlg compare payments.csv --label fraud --evaluate time"),
    )(compare)
    app.command(short_help="See it work, in less than a minute.", epilog=example("tdlg demo --report demo.html"))(demo)


def _of_labels() -> list[str]:
    from tdlg.methods.ours import METHODS

    return [name for name in METHODS if name not in OF_LINKS]


def _methods(incomplete: str) -> list[str]:
    done, _, last = incomplete.rpartition(",")
    return [f"{done},{name}".lstrip(",") for name in (*_of_labels(), ALL) if name.startswith(last)]


@with_columns
def compare(
    edges: EdgesPath,
    *,
    label: Annotated[str, typer.Option(metavar="COLUMN", help="The column with the labels.")],
    positive: Positive = None,
    missing: Missing = None,
    methods: Annotated[str, typer.Option(metavar="A,B", help="Methods, or all.", autocompletion=_methods)] = ",".join(
        USUAL
    ),
    evaluate: Annotated[Evaluate, typer.Option(help="Hold out labels at random, or the last ones.")] = "random",
    trials: Annotated[int | None, typer.Option(min=1, help="How often. Default: 3 at random, 1 by time.")] = None,
    output: Output = None,
    seed: Seed = 0,
    columns: Columns,
) -> None:
    """Compare methods on your own data: hold out labels, and see how well each finds them."""
    import polars as pl

    from tdlg.judge.evaluate import evaluate as judge
    from tdlg.judge.tasks import ChronologicalClassification, EdgeClassification

    check_output(output)
    chosen = _chosen(methods)
    known, looked_for = as_two_numbers(
        *labels_to_learn(read_table(edges, columns, label).edges, label, positive, missing)
    )
    task: Any = (ChronologicalClassification if evaluate == "time" else EdgeClassification)(known)
    n_trials = trials or TRIALS[evaluate]
    for trial in range(n_trials):
        drawn(task, evaluate, seed + trial, "Give more labels.")  # refuses, before any work is done, where it cannot be
    rows = []
    with progress() as tell:
        for number, name in enumerate(chosen):
            start, total = number * n_trials, len(chosen) * n_trials
            tell(start, total, name)
            try:
                rows.append(judge(name, task, n_trials, seed, callback=lambda done, _: tell(start + done, total, name)))  # noqa: B023
            except ImportError as error:
                note(f"{name}: not run ({error})")
    if not rows:
        raise ParameterError("None of the methods could be run.")
    found = pl.concat(rows)
    precise = "AUC and average precision are means over the classes"
    precise = precise if looked_for is None else f"average precision for {looked_for!r}"
    note(f"held out {count(found['n_test'][0], 'label')}, {task.name}; learnt from {found['n_train'][0]:,}; {precise}")
    give(_summary(found), output, first="auc")


def _chosen(methods: str) -> list[str]:
    there = _of_labels()
    if methods == ALL:
        return there
    chosen = [name.strip() for name in methods.split(",") if name.strip()]
    unknown = [name for name in chosen if name not in there]
    if unknown or not chosen:
        what = repr(unknown[0]) if unknown else "nothing"
        raise typer.BadParameter(f"must be some of {', '.join(there)}. Got {what} instead.", param_hint="--methods")
    return chosen


def _summary(rows: pl.DataFrame) -> pl.DataFrame:
    """One line a method: the means, and how sure the first is."""
    import polars as pl

    from tdlg.judge.evaluate import summarise

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
    report: Annotated[Path, typer.Option(metavar="PAGE", help="The page to write.")] = Path("tdlg-demo.html"),
    seed: Seed = 0,
) -> None:
    """See it work, in less than a minute, on a network that is made up on the spot."""
    from tdlg.cli.output import check_folder
    from tdlg.demo import run_demo

    check_folder(report)
    run_demo(report, random_state=seed, say=typer.echo)
