"""The command outliers: find unusual interactions."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import typer

from tdlg.cli.answers import answers
from tdlg.cli.cost import LEARNING, LINE_GRAPH_OF_LINKS
from tdlg.cli.files import Where, check_fits, outliers_large, reason_for_disk
from tdlg.cli.options import (
    Columns,
    EdgesPath,
    EngineAddress,
    Memory,
    Output,
    Save,
    Seed,
    duration,
    example,
    given_options,
    with_columns_except,
)
from tdlg.cli.output import check_model_file, check_output, give, keep_model
from tdlg.cli.table import note_table, read_table
from tdlg.cli.terminal import count, note, warn, working

__all__ = ["register"]

LEAST_TO_JUDGE = 30  # rows; with fewer rows, chance alone changes the AUC by 0.1 or more


def register(app: typer.Typer) -> None:
    """Add this command."""
    app.command(
        short_help="Find unusual interactions, without labels.",
        epilog=example("tdlg outliers payments.csv --save outliers.tdlg -o scored.parquet"),
    )(outliers)


@with_columns_except("features", "categories")
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
        raise typer.BadParameter("it must be above 0 and at most 0.5. Got 0 instead.", param_hint="--contamination")
    if method != "burst" and (fast or slow):
        raise typer.BadParameter(
            "it works only with --method burst. Add it, or leave this out.", param_hint="--fast" if fast else "--slow"
        )
    widths = duration(fast, "--fast"), duration(slow, "--slow")
    check_model_file(save)
    if memory is not None or engine is not None or (method == "burst" and reason_for_disk(edges) is not None):
        _check_method(method)
        where = Where.of(edges, output, memory, engine, {"--save": save, "--contamination": contamination})
        outliers_large(where, *widths, columns)
        return
    check_output(output)
    if method != "burst":
        needs = LINE_GRAPH_OF_LINKS if method == "rows" else LEARNING
        check_fits(edges, needs, "With --method burst, a parquet file is worked on in blocks.")
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


def _check_method(method: str) -> None:
    """Refuse methods that cannot work on disk."""
    if method != "burst":
        raise typer.BadParameter(
            f"{method} cannot run on disk or on a cluster. Use --method burst, which finds bursts, or a part of the table.",
            param_hint="--method",
        )


def _burst_widths(model: Any) -> str:
    """The two widths of bursts, in words; nothing for other methods."""
    from tdlg.clock import duration_in_words

    if model.method != "burst":
        return ""
    unit = model.edges_.time_unit
    fast, slow = (duration_in_words(decay.parts(unit)[0].bandwidth, unit) for decay in (model.fast_, model.slow_))
    return f", bursts of {fast} beside what is usual in {slow}; --fast and --slow change it"
