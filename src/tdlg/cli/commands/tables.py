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
from tdlg.cli.labels import label_in_words, labels_to_learn, plain_classes
from tdlg.cli.options import Columns, EdgesPath, Evaluate, Missing, Output, Positive, Seed, Top, example, with_columns
from tdlg.cli.output import check_folder, check_model_file, check_output, give, rounded
from tdlg.cli.quality import print_quality
from tdlg.cli.table import Table, note_words, read_pairs, read_table
from tdlg.cli.terminal import count, in_shell_words, note, warn, working
from tdlg.exceptions import ParameterError, TdlgError

if TYPE_CHECKING:
    import polars as pl

    from tdlg.edges import TemporalEdges

__all__ = ["register"]

MANY_CLASSES = 10
LONG = 60  # seconds that are announced
LEAST_TO_JUDGE = 30  # rows; with fewer, chance alone moves an AUC by 0.1 and more
ID_COLUMN = re.compile(r"(?i:(.*[ _.-])?(id|uuid|key|reference|number))|\w+(Id|ID)")
WHY = {
    "forecast": "every missing label is later than every known one",
    "interpolate": "missing labels are among known ones",
    "stream": "labels of earlier rows are known",
}

Save = Annotated[Path | None, typer.Option(metavar="MODEL", help="Keep the model for score.")]


def register(app: typer.Typer) -> None:
    """Add these commands."""
    app.command(
        short_help="Fill in missing labels.",
        epilog=example("tdlg classify ratings.csv --label stars --positive '> 3' -o filled.csv"),
    )(classify)
    app.command(
        short_help="Find the odd interactions, without labels.",
        epilog=example("tdlg outliers payments.csv --save odd.tdlg -o scored.parquet"),
    )(outliers)
    app.command(
        short_help="Find the pairs most likely to interact next.",
        epilog=example("tdlg links messages.csv --top 10 --at 2024-06-01"),
    )(links)
    app.command(
        short_help="Turn interactions, or nodes, into vectors.",
        epilog=example("tdlg embed messages.csv --nodes --dim 16 -o vectors.parquet"),
    )(embed)


@with_columns
def classify(
    edges: EdgesPath,
    *,
    label: Annotated[str, typer.Option(metavar="COLUMN", help="The column to fill in.")],
    positive: Positive = None,
    missing: Missing = None,
    method: Annotated[Literal["propagation", "rows"], typer.Option(help="rows: the paper's.")] = "propagation",
    setting: Annotated[
        Literal["auto", "interpolate", "forecast", "stream"],
        typer.Option(
            help="What is known when a row is judged. interpolate: labels before and after it; forecast: labels up to some "
            "day; stream: all labels before it."
        ),
    ] = "auto",
    evaluate: Annotated[
        Evaluate | None,
        typer.Option(help="Hold out known labels, at random or the last ones, and tell how well they are found."),
    ] = None,
    report: Annotated[Path | None, typer.Option(metavar="PAGE", help="Write a page to look at in a browser.")] = None,
    save: Annotated[
        Path | None, typer.Option(metavar="MODEL", help="Keep the model for score, nodes and explain.")
    ] = None,
    output: Output = None,
    seed: Seed = 0,
    columns: Columns,
) -> None:
    """Fill in missing labels: each such row gets a class and a probability.

    The table comes back with the columns "predicted" and "probability". With two classes the probability is that of
    what --positive says, or of the larger number, or of the rarer word; with more classes, that of the predicted one.
    """
    if method == "rows" and setting != "auto":
        raise typer.BadParameter(
            "only --method propagation has settings. Leave out --setting or --method rows.", param_hint="--setting"
        )
    check_output(output)
    check_folder(report)
    check_model_file(save)
    table = read_table(edges, columns, label)
    known, looked_for = labels_to_learn(table.edges, label, positive, missing)
    asked = ~known.labelled
    _check_asked(bool(asked.any()), label, evaluate or report or save)
    note(f"{_described(table, columns)}; {count(int((~asked).sum()), 'known label')}, {int(asked.sum()):,} missing")
    fits = bool(asked.any() or report or save)
    _warn_of_time(known, fits + (evaluate is not None) + (report is not None))
    if evaluate is not None:
        _evaluate(known, method, setting, evaluate, seed, looked_for, goes_on=fits or output is not None)
    if fits:
        model = _fitted(known, method, setting, seed, looked_for)
        _keep(model, save)
        if report is not None:
            shown = {"label_name": label_in_words(label, positive, looked_for), "ids": _ids(table)}
            _write_page(report, model, known, evaluate or "auto", seed, shown)
    if asked.any():
        with working("filling in"):
            added = answers(model, known[asked])
        note(meaning(model))
        give(
            table.with_columns(**{name: spread(values, asked) for name, values in added.items()}),
            output,
            first=table.free_name("probability"),
        )
    elif output is not None:
        warn(f"no label is missing in the column {label!r}: predicted and probability are empty in every row")
        give(table.with_columns(**_nothing(known)), output)


@with_columns
def outliers(
    edges: EdgesPath,
    *,
    method: Annotated[Literal["rows", "propagation"] | None, typer.Option(help="rows: the paper's.")] = None,
    contamination: Annotated[
        float | None,
        typer.Option(min=0.0, max=0.5, help="The share of rows to call odd. Default: those more likely made up."),
    ] = None,
    save: Save = None,
    output: Output = None,
    seed: Seed = 0,
    columns: Columns,
) -> None:
    """Find the odd interactions, without labels.

    The table comes back with the columns "oddness", high for what looks as if drawn at random, and "outlier", 1 or 0.
    """
    from tdlg.models.outliers import EdgeOutlierDetector

    check_output(output)
    check_model_file(save)
    table = read_table(edges, columns)
    note(_described(table, columns))
    share: Any = {} if contamination is None else {"contamination": contamination}
    model = EdgeOutlierDetector(**_given(method=method), **share, random_state=seed)
    with working("learning what is usual"):
        model.fit(table.edges)
    if len(table.edges) < LEAST_TO_JUDGE:
        warn(
            f"{count(len(table.edges), 'row')} are too few to measure how well outliers are found: the scores mean little"
        )
    else:
        note(
            f"real rows are told from made-up ones with AUC {model.auc_:.3f} (0.5: nothing learnt, the scores mean little)"
        )
    _keep(model, save)
    give(table.with_columns(**answers(model, table.edges)), output, first=table.free_name("oddness"))


@with_columns
def links(
    edges: EdgesPath,
    *,
    top: Top = 20,
    at: Annotated[str | None, typer.Option(metavar="TIME", help="When. Default: the time of the last row.")] = None,
    candidates: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Pairs to choose from, one a row. Default: likely ones.")
    ] = None,
    method: Annotated[Literal["rows", "propagation"] | None, typer.Option(help="rows: the paper's.")] = None,
    save: Save = None,
    output: Output = None,
    seed: Seed = 0,
    columns: Columns,
) -> None:
    """Find the pairs most likely to interact next, or at a given time.

    "score" orders the pairs and is not how often a link happens; "seen" tells whether the pair was there before.
    """
    from tdlg.models.links import LinkPredictor

    check_output(output)
    check_model_file(save)
    table = read_table(edges, columns)
    pairs = None if candidates is None else _distinct(read_pairs(candidates, table.edges, columns))
    note(_described(table, columns))
    model = LinkPredictor(**_given(method=method), random_state=seed)
    with working("learning what is usual"):
        model.fit(table.edges)
        found = model.top(top, at=None if at is None else _time(at, table.edges), candidates=pairs)
    _keep(model, save)
    own = {role: table.names[role] for role in ("src", "dst", "time") if table.names[role] not in ("score", "seen")}
    give(rounded(found, "score").rename(own), output, rows=top)


@with_columns
def embed(
    edges: EdgesPath,
    *,
    nodes: Annotated[bool, typer.Option("--nodes", help="A vector for each node instead of each row.")] = False,
    dim: Annotated[int, typer.Option(min=1, help="How many numbers a vector has.")] = 128,
    save: Save = None,
    output: Output = None,
    seed: Seed = 0,
    columns: Columns,
) -> None:
    """Turn interactions, or nodes, into vectors for other tools.

    The table comes back with the columns e0, e1, ...; with --nodes, there is one row a node.
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
        note("all times are the same: they do not count")
    model = EdgeEmbedding(dim, decay=NoDecay() if is_one_time else None, random_state=seed)
    with working(f"finding {count(dim, 'direction')}"):
        vectors = model.fit_transform(table.edges)
    if vectors.shape[1] < dim:
        note(f"these interactions have no more than {count(vectors.shape[1], 'direction')}")
    _keep(model, save)
    if nodes:
        give(_node_vectors(table.edges, vectors), output)
    else:
        added = {f"e{k}": pl.Series(column) for k, column in enumerate(vectors.T)}
        give(table.with_columns(**added), output)


# ---- what classify does


def _check_asked(any_missing: bool, label: str, anything_else: Any) -> None:
    if not any_missing and not anything_else:
        raise ParameterError(
            f"No label is missing in the column {label!r}: there is nothing to fill in. Leave the label empty in the rows "
            "to fill in, or use --evaluate to see how well labels are found, or --save and `tdlg score` for another table."
        )


def _warn_of_time(edges: TemporalEdges, n_fits: int) -> None:
    import numpy as np

    n_classes = len(set(np.asarray(edges.label)[edges.labelled].tolist()))
    seconds, _ = classify_cost(len(edges), n_classes, n_fits)
    if seconds > LONG:
        note(f"this takes roughly {in_time(seconds)}")
    if n_classes > MANY_CLASSES:
        note(f"{n_classes} classes take their time; if they are grades, --positive '> 0' is faster and says more")


def _fitted(edges: TemporalEdges, method: str, setting: Any, seed: int, looked_for: Any) -> Any:
    """The model; it knows the class that is looked for, so that `score` tells of the same."""
    from tdlg.models.linegraph import LineGraphClassifier
    from tdlg.models.propagation import PropagationClassifier

    by_rows = method == "rows"
    model: Any = (
        LineGraphClassifier(random_state=seed) if by_rows else PropagationClassifier(setting=setting, random_state=seed)
    )
    with working(f"learning from {count(int(edges.labelled.sum()), 'label')}"):
        model.fit(edges)
    if looked_for is not None:
        model.positive_ = looked_for
    if not by_rows:
        note(f"setting: {model.setting_} ({_why(setting, model.setting_, not edges.labelled.all())})")
    return model


def _nothing(edges: TemporalEdges) -> dict[str, pl.Series]:
    """The columns that classify adds, without a value in any row."""
    import numpy as np
    import polars as pl

    classes = pl.Series(plain_classes(np.asarray(edges.label)[edges.labelled]).tolist())
    return {name: like.clear(len(edges)) for name, like in (("predicted", classes), ("probability", pl.Series([0.5])))}


def _evaluate(
    edges: TemporalEdges, method: str, setting: Any, kind: str, seed: int, looked_for: Any, *, goes_on: bool
) -> None:
    """Tell the quality; where there are too few labels for it and there is more to do, only say so."""
    try:
        print_quality(edges, method, setting, kind, seed, looked_for)
    except TdlgError as error:
        if not goes_on:
            raise
        note(f"not evaluated: {in_shell_words(str(error))}")


def _ids(table: Table) -> pl.Series | None:
    """The user's column that names the interactions: called an id, with another value in each row."""
    ends = [table.names[role] for role in ("src", "dst")]
    named = [name for name in table.frame.columns if ID_COLUMN.fullmatch(name) and name not in ends]
    return next((table.frame[name] for name in named if table.frame[name].n_unique() == table.frame.height), None)


def _write_page(path: Path, model: Any, edges: TemporalEdges, evaluate: Any, seed: int, shown: dict[str, Any]) -> None:
    from tdlg.report import write_report

    command = shlex.join(["tdlg", *sys.argv[1:]])
    with working("writing the page"):
        shown = {"positive": positive_label(model), **shown}
        write_report(path, model, edges, command=command, evaluate=evaluate, seed=seed, **shown)
    note(f"wrote the page {path}")


def _why(wanted: str, chosen: str, any_missing: bool) -> str:
    if wanted != "auto":
        return "as asked"
    return f"{WHY[chosen] if any_missing else 'no label is missing'}; --setting overrides"


# ---- what links does


def _distinct(pairs: list[tuple[Any, Any]]) -> list[tuple[Any, Any]]:
    """Each pair once, in the order in which they came."""
    distinct = list(dict.fromkeys(pairs))
    if len(distinct) < len(pairs):
        note(f"{count(len(pairs) - len(distinct), 'candidate')} repeated others and left out")
    return distinct


# ---- what all do


def _described(table: Table, columns: Columns) -> str:
    note_words(table.edges, columns)
    return f"read {repr(table.edges).removeprefix('TemporalEdges(').partition(', label')[0].removesuffix(')')}"


def _given(**options: Any) -> Any:
    """Those that were given; the library knows the others."""
    return {name: value for name, value in options.items() if value is not None}


def _keep(model: Any, save: Path | None) -> None:
    if save is not None:
        model.save(save)
        note(f"saved the model to {save}")


def _time(at: str, edges: TemporalEdges) -> float | int | str:
    """A time as the edges have it."""
    if edges.time_unit is not None:
        return at
    try:
        return int(at) if at.lstrip("+-").isdecimal() else float(at)
    except ValueError:
        raise ParameterError(f"The times of these edges are numbers, and {at!r} of --at is none.") from None


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
