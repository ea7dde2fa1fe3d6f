"""Commands that take a table of interactions and give it back with more columns, or another made from it."""

from __future__ import annotations

import re
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from tdlg.cli.answers import answers, meaning, positive_label, spread
from tdlg.cli.cost import classify_cost, in_time
from tdlg.cli.labels import label_in_words, labels_to_learn, note_known_at_once, plain_classes
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
    Top,
    example,
    late_labels,
    with_columns,
)
from tdlg.cli.output import check_folder, check_model_file, check_output, give, rounded
from tdlg.cli.quality import evaluated
from tdlg.cli.table import Table, note_words, read_pairs, read_table
from tdlg.cli.terminal import count, note, warn, working
from tdlg.exceptions import ParameterError

if TYPE_CHECKING:
    import polars as pl

    from tdlg.edges import TemporalEdges

__all__ = ["register"]

MANY_CLASSES = 10
LONG = 60  # seconds; a longer run time is announced
LEAST_TO_JUDGE = 30  # rows; with fewer rows, chance alone changes the AUC by 0.1 or more
ID_COLUMN = re.compile(r"(?i:(.*[ _.-])?(id|uuid|key|reference|number))|\w+(Id|ID)")

Save = Annotated[Path | None, typer.Option(metavar="MODEL", help="File to save the model to, for score.")]

OptionalMethod = Annotated[
    Literal["rows", "propagation"] | None,
    typer.Option(help="propagation (the default): features from the edges around a pair; rows: the paper's method."),
]


def register(app: typer.Typer) -> None:
    """Add these commands."""
    app.command(
        short_help="Fill in missing labels.",
        epilog=example("tdlg classify ratings.csv --label stars --positive '> 3' -o filled.csv"),
    )(classify)
    app.command(
        short_help="Find unusual interactions, without labels.",
        epilog=example("tdlg outliers payments.csv --save outliers.tdlg -o scored.parquet"),
    )(outliers)
    app.command(
        short_help="Find the pairs most likely to interact next.",
        epilog=example("tdlg links messages.csv --top 10 --at 2024-06-01"),
    )(links)
    app.command(
        short_help="Embed interactions or nodes as vectors.",
        epilog=example("tdlg embed messages.csv --nodes --dim 16 -o vectors.parquet"),
    )(embed)


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
        typer.Option(help="propagation: boosted trees on propagated labels; rows: the paper's method."),
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
        bool,
        typer.Option(
            "--two-ends/--no-two-ends",
            help="Use what similar sources and destinations have to do with each other. Without it, classify is faster.",
        ),
    ] = True,
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
    output: Output = None,
    seed: Seed = 0,
    columns: Columns,
) -> None:
    """Fill in missing labels: each row without a label gets a predicted class and a probability.

    The result is your table with the columns "predicted" and "probability" added. With two classes, it is the
    probability of the positive class: the one given with --positive; by default the larger of two numbers, or the rarer
    label. With more classes, it is the probability of the predicted class.
    """
    of_propagation = {
        "--setting": setting != "auto",
        "--scales": scales is not None,
        "--calendar": calendar,
        "--no-two-ends": not two_ends,
    }
    _check_method(method, [name for name, is_given in of_propagation.items() if is_given])
    late = late_labels(label, label_time, label_delay)
    if setting == "interpolate" and (label_time or label_delay):
        raise typer.BadParameter(
            "it uses labels before and after a row, whenever they became known. Leave out --setting interpolate, or "
            "--label-time and --label-delay.",
            param_hint="--setting",
        )
    check_output(output)
    check_folder(report)
    check_model_file(save)
    table = read_table(edges, columns, label, late=late)
    known, positive_class = labels_to_learn(table.edges, label, positive, missing)
    to_fill = ~known.labelled
    _check_missing(bool(to_fill.any()), label, evaluate or report or save)
    note(f"{_described(table, columns)}; {count(int((~to_fill).sum()), 'known label')}, {int(to_fill.sum()):,} missing")
    fits = bool(to_fill.any() or report or save)
    _warn_of_time(known, fits + bool(evaluate or report))
    if evaluate == "time" or setting == "stream":
        note_known_at_once(known)
    model = _unfitted(
        method, seed, setting=setting, calendar=calendar, two_ends=two_ends, **_given(scales=_scales(scales))
    )
    held: Any = evaluate or "auto"
    if evaluate is not None:
        held = evaluated(model, known, evaluate, seed, positive_class, goes_on=fits or output is not None) or evaluate
    if fits:
        delay = {} if late.delay is None or method == "rows" else {"label_delay": late.delay}
        _fit(model, known, positive_class, **delay)
        _keep(model, save)
    if report is not None or to_fill.any():
        with working("scoring"):
            scored = model.scored(known if report is not None else known[to_fill])
    if report is not None:
        shown = {"label_name": label_in_words(label, positive, positive_class), "ids": _ids(table)}
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


@with_columns
def outliers(
    edges: EdgesPath,
    *,
    method: Annotated[
        Literal["shuffled", "rows", "burst"],
        typer.Option(
            help="shuffled: single rows that do not fit the habits of their nodes; burst: far more rows of a source, a "
            "destination or a pair in a short time than it usually has, such as attacks, scans and spam; rows: the paper's "
            "form of shuffled."
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
    output: Output = None,
    seed: Seed = 0,
    columns: Columns,
) -> None:
    """Find unusual interactions, without labels.

    The result is your table with two columns added: "oddness", the outlier score, and "outlier", 1 or 0. With
    --method shuffled, the score is high for rows that look as if they were shuffled at random. With --method burst, it is
    a number of digits: 6 is a burst as rare as one in a million; `tdlg explain` explains a row.
    """
    from tdlg.models.outliers import EdgeOutlierDetector

    if contamination == 0:
        raise typer.BadParameter("it must be above 0 and at most 0.5. Got 0 instead.", param_hint="--contamination")
    check_output(output)
    check_model_file(save)
    table = read_table(edges, columns)
    note(_described(table, columns))
    if method != "burst" and (fast or slow):
        raise typer.BadParameter(
            "it works only with --method burst. Add it, or leave this out.", param_hint="--fast" if fast else "--slow"
        )
    given: Any = _given(
        contamination=contamination, fast=_width(fast, table.edges), slow=_width(slow, table.edges), random_state=seed
    )
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
    _keep(model, save)
    give(table.with_columns(**answers(model, table.edges)), output, first=table.free_name("oddness"))


@with_columns
def links(
    edges: EdgesPath,
    *,
    top: Top = 20,
    at: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help="Time of the links to predict, for example 2024-06-01. By default the latest time in the table.",
        ),
    ] = None,
    candidates: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Table of the pairs to rank, one per row. By default likely pairs are generated."
        ),
    ] = None,
    method: OptionalMethod = None,
    save: Save = None,
    output: Output = None,
    seed: Seed = 0,
    columns: Columns,
) -> None:
    """Find the pairs most likely to interact next, or at a given time.

    "score" ranks the pairs; it is not the frequency of the link. "seen" is true if the pair has interacted before.
    """
    from tdlg.models.links import LinkPredictor

    check_output(output)
    check_model_file(save)
    table = read_table(edges, columns)
    pairs = None if candidates is None else _distinct(read_pairs(candidates, table.edges, columns))
    note(_described(table, columns))
    model = LinkPredictor(**_given(method=method), random_state=seed)
    with working("fitting the model"):
        model.fit(table.edges)
        found = model.top(top, at=None if at is None else _time(at, table.edges), candidates=pairs)
    _keep(model, save)
    own = {role: table.names[role] for role in ("src", "dst", "time") if table.names[role] not in ("score", "seen")}
    give(rounded(found, "score").rename(own), output, rows=top)


@with_columns
def embed(
    edges: EdgesPath,
    *,
    nodes: Annotated[bool, typer.Option("--nodes", help="Write one vector per node instead of one per row.")] = False,
    dim: Annotated[int, typer.Option(min=1, help="Dimension of the vectors.")] = 128,
    save: Save = None,
    output: Output = None,
    seed: Seed = 0,
    columns: Columns,
) -> None:
    """Embed interactions or nodes as vectors for other tools.

    The result is your table with the columns e0, e1, ... added; with --nodes, it is a table with one row per node.
    """
    import polars as pl

    from tdlg.embed.eigenvectors import EdgeEmbedding
    from tdlg.linegraph.decay import NoDecay

    check_output(output)
    check_model_file(save)
    table = read_table(edges, columns)
    note(_described(table, columns))
    is_one_time = table.edges.ticks.min() == table.edges.ticks.max()
    if is_one_time:
        note("all times are equal, so time is ignored")
    model = EdgeEmbedding(dim, decay=NoDecay() if is_one_time else None, random_state=seed)
    with working(f"computing {count(dim, 'dimension')}"):
        vectors = model.fit_transform(table.edges)
    if vectors.shape[1] < dim:
        note(f"these interactions allow only {count(vectors.shape[1], 'dimension')}")
    _keep(model, save)
    if nodes:
        give(_node_vectors(table.edges, vectors), output)
    else:
        added = {f"e{k}": pl.Series(column) for k, column in enumerate(vectors.T)}
        give(table.with_columns(**added), output)


# ---- classify


def _check_missing(any_missing: bool, label: str, anything_else: Any) -> None:
    if not any_missing and not anything_else:
        raise ParameterError(
            f"No label is missing in the column {label!r}: there is nothing to fill in. Leave the label empty in the rows "
            "to fill in, or use --evaluate to measure the quality, or --save and `tdlg score` for another table."
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


def _check_method(method: str, of_propagation: list[str]) -> None:
    """Refuse options that the paper's method does not have."""
    if method == "rows" and of_propagation:
        name = of_propagation[0]
        raise typer.BadParameter(
            f"it works only with --method propagation. Leave out {name} or --method rows.", param_hint=name
        )


def _scales(given: str | None) -> list[float | str] | None:
    """Durations and numbers, as the library takes them."""
    if given is None:
        return None
    scales: list[float | str] = []
    for text in filter(None, map(str.strip, given.split(","))):
        try:
            scales.append(float(text))
        except ValueError:
            scales.append(text)
    return scales


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
        why = model.setting_reason_
        note(f"setting: {model.setting_} ({'given by --setting' if why is None else f'{why}; --setting overrides'})")
        if scales := model.features_.scales_in_words():
            note(f"time scales: {scales}")


def _empty_columns(edges: TemporalEdges) -> dict[str, pl.Series]:
    """The columns that classify adds, empty in every row."""
    import numpy as np
    import polars as pl

    classes = pl.Series(plain_classes(np.asarray(edges.label)[edges.labelled]).tolist())
    return {name: like.clear(len(edges)) for name, like in (("predicted", classes), ("probability", pl.Series([0.5])))}


def _ids(table: Table) -> pl.Series | None:
    """The user's column that identifies the interactions: named like an id, with a different value in each row."""
    ends = [table.names[role] for role in ("src", "dst")]
    named = [name for name in table.frame.columns if ID_COLUMN.fullmatch(name) and name not in ends]
    return next((table.frame[name] for name in named if table.frame[name].n_unique() == table.frame.height), None)


def _write_page(path: Path, model: Any, scored: Any, evaluate: Any, seed: int, shown: dict[str, Any]) -> None:
    from tdlg.report import write_report

    command = shlex.join(["tdlg", *sys.argv[1:]])
    with working("writing the report"):
        shown = {"positive": positive_label(model), **shown}
        write_report(path, model, scored, command=command, evaluate=evaluate, seed=seed, **shown)
    note(f"wrote the report {path}")


# ---- outliers


def _width(given: str | None, edges: TemporalEdges) -> float | str | None:
    """A duration as the library takes it: a number where the times are numbers."""
    if given is None or edges.time_unit is not None:
        return given
    try:
        return float(given)
    except ValueError:
        return given


def _burst_widths(model: Any) -> str:
    """The two widths of bursts, in words; nothing for other methods."""
    from tdlg.clock import duration_in_words

    if model.method != "burst":
        return ""
    unit = model.edges_.time_unit
    fast, slow = (duration_in_words(decay.parts(unit)[0].bandwidth, unit) for decay in (model.fast_, model.slow_))
    return f", bursts of {fast} beside what is usual in {slow}; --fast and --slow change it"


# ---- links


def _distinct(pairs: list[tuple[Any, Any]]) -> list[tuple[Any, Any]]:
    """Each pair once, in the given order."""
    distinct = list(dict.fromkeys(pairs))
    if len(distinct) < len(pairs):
        note(f"left out {count(len(pairs) - len(distinct), 'repeated candidate')}")
    return distinct


# ---- all commands


def _described(table: Table, columns: Columns) -> str:
    note_words(table.edges, columns)
    return f"read {repr(table.edges).removeprefix('TemporalEdges(').partition(', label')[0].removesuffix(')')}"


def _given(**options: Any) -> Any:
    """The options that were given; the library has defaults for the others."""
    return {name: value for name, value in options.items() if value is not None}


def _keep(model: Any, save: Path | None) -> None:
    if save is not None:
        model.save(save)
        note(f"saved the model to {save}")


def _time(at: str, edges: TemporalEdges) -> float | int | str:
    """The time in the type that the edges use."""
    if edges.time_unit is not None:
        return at
    try:
        return int(at) if at.lstrip("+-").isdecimal() else float(at)
    except ValueError:
        raise ParameterError(f"The times of these edges are numbers, but --at {at!r} is not a number.") from None


def _node_vectors(edges: TemporalEdges, vectors: Any) -> pl.DataFrame:
    import numpy as np
    import polars as pl

    from tdlg.embed.nodes import node_embeddings
    from tdlg.explain.rows import as_series

    means = np.asarray(node_embeddings(edges, vectors))
    frame = pl.DataFrame({f"e{k}": column for k, column in enumerate(means.T)})
    frame.insert_column(0, as_series(edges.node_ids).alias("node"))
    if edges.bipartite:
        sides = np.where(np.arange(len(means)) < (edges.n_src_nodes or 0), "src", "dst")
        frame.insert_column(1, pl.Series("side", sides))
    return frame
