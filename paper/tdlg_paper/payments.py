"""Payments and bans: what is missing is measured, and the tables beside published figures are written.

Rows are kept in results/payments.csv as they come, those of card payments by the number of days in
results/handbook-days.csv beside it, so that an interrupted run goes on where it stopped.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from statistics import fmean
from time import process_time
from typing import NamedTuple

from sklearn.metrics import roc_auc_score

from tdlg import __version__
from tdlg.datasets.fetch import is_available
from tdlg.datasets.load import load_dataset
from tdlg.edges import TemporalEdges
from tdlg.exceptions import ParameterError
from tdlg_paper import bans, handbook
from tdlg_paper.rows import keep_row, read_rows
from tdlg_paper.tables import NOT_RUN, table, write_sections

__all__ = ["DATASETS", "Row", "Run", "all_rows", "main", "measure", "write_page"]

BY_DAYS = "handbook-days"  # the handbook with the payments of the last days only
BOOK = (".879", ".687", ".305")  # the book's best AUC, average precision and card precision, each of its own model
WIKIPEDIA = {"CTDNE": "75.9", "TGAT": "83.7", "DyRep": "84.6", "JODIE": "84.8", "TGN": "87.8"}
METRICS = {"auc": "AUC", "average_precision": "average precision", "card_precision": "card precision at 100"}
COLUMNS = {
    "the book's 15 columns, pandas": handbook.PANDAS,
    "the book's 15 columns, numpy": "the book's columns, our boosting, 30 days",
    "snapml's 333 graph features": "snapml's graph features, our boosting, 30 days",
    "the columns of PropagationFeatures": handbook.OURS,
}

Lines = list[str]


@dataclass(frozen=True)
class Row:
    """What was measured in one run, as text; empty where a metric does not belong to the data set.

    The part is the number of a fold or a seed; `low` and `high` are a 95 % bootstrap interval of the AUC over the test rows;
    seconds are CPU seconds, of making the columns alone and of the whole run.
    """

    dataset: str
    method: str
    part: str
    auc: str = ""
    average_precision: str = ""
    card_precision: str = ""
    low: str = ""
    high: str = ""
    column_seconds: str = ""
    seconds: str = ""
    tdlg: str = ""

    @property
    def key(self) -> tuple[str, str, str]:
        """What was run."""
        return self.dataset, self.method, self.part


class Run(NamedTuple):
    """One row to measure: what it is, and a function from the edges to its metrics."""

    dataset: str
    method: str
    part: str
    metrics: Callable[[TemporalEdges], dict[str, float]]

    @property
    def key(self) -> tuple[str, str, str]:
        """What is run."""
        return self.dataset, self.method, self.part


# ---- what is run on each data set


def _handbook_runs() -> Iterator[Run]:
    for name, method in handbook.METHODS.items():
        for fold in method.folds if method.is_possible else ():
            yield Run("handbook", name, str(fold), partial(_fold_metrics, method, fold))
    if find_spec("pandas") is not None:
        yield Run("handbook", handbook.PANDAS, "0", _pandas_seconds)


def _handbook_days_runs() -> Iterator[Run]:
    for days in handbook.DAYS:
        for fold in handbook.FOLDS:
            for name, method in handbook.BY_DAYS.items():
                if method.is_possible:
                    metrics = partial(_fold_metrics, method, fold, days=days)
                    yield Run(BY_DAYS, f"{name}, {handbook.last_days(days)}", str(fold), metrics)


def _fold_metrics(
    method: handbook.Method, fold: int, edges: TemporalEdges, *, days: int | None = None
) -> dict[str, float]:
    week, label = handbook.week(edges, fold, days)
    score, column_seconds = method.score(week)
    return {**handbook.measures(week, label, score), "column_seconds": column_seconds}


def _pandas_seconds(edges: TemporalEdges) -> dict[str, float]:
    week, _ = handbook.week(edges, 0)
    clock = process_time()
    handbook.pandas_columns(week.edges)
    return {"column_seconds": process_time() - clock}


def _bans_runs() -> Iterator[Run]:
    for setting in bans.SETTINGS:
        yield Run("wikipedia-bans", f"{setting}, validation", "0", partial(_validation_metrics, setting))
    for setting in bans.SETTINGS:
        for seed in bans.SEEDS:
            yield Run("wikipedia-bans", setting, str(seed), partial(_test_metrics, setting, seed))


def _validation_metrics(setting: bans.PastSetting, edges: TemporalEdges) -> dict[str, float]:
    label, score = bans.split_scores(edges, setting, 0, bans.TRAINED, bans.VALIDATED)
    return {"auc": float(roc_auc_score(label, score))}


def _test_metrics(setting: bans.PastSetting, seed: int, edges: TemporalEdges) -> dict[str, float]:
    label, score = bans.split_scores(edges, setting, seed)
    low, high = bans.bootstrap_interval(label, score)
    return {"auc": float(roc_auc_score(label, score)), "low": low, "high": high}


DATASETS: dict[str, Callable[[], Iterator[Run]]] = {
    "handbook": _handbook_runs,
    BY_DAYS: _handbook_days_runs,
    "wikipedia-bans": _bans_runs,
}


# ---- running


def measure(dataset: str, path: Path, method: str | None = None, again: bool = False) -> None:
    """Measure the runs of a data set that have no row yet."""
    done = set() if again else {row.key for row in read_rows(path, Row)}
    runs = [run for run in DATASETS[dataset]() if run.key not in done and (method or "") in run.method]
    if not runs:
        return
    edges = load_dataset(_file(dataset), dates=_file(dataset) == "handbook")
    for run in runs:
        print(*run.key, sep=", ", file=sys.stderr, flush=True)
        clock = process_time()
        try:
            metrics = run.metrics(edges)
        except ParameterError as error:  # a method that this version of the package does not have
            print(f"not run: {error}", file=sys.stderr)
            continue
        measured = {name: f"{value:.6g}" for name, value in metrics.items()}
        keep_row(path, Row(*run.key, **measured, seconds=f"{process_time() - clock:.1f}", tdlg=__version__))


def all_rows(folder: Path) -> list[Row]:
    """The rows of both files of a folder."""
    return [row for name in ("payments", BY_DAYS) for row in read_rows(folder / f"{name}.csv", Row)]


def main(folder: Path, page: Path, names: Sequence[str] = (), method: str | None = None, again: bool = False) -> None:
    """Measure what is missing of some data sets, by default all, and write the tables into the page."""
    for name in names or DATASETS:
        if is_available(_file(name)):
            measure(name, folder / f"{BY_DAYS if name == BY_DAYS else 'payments'}.csv", method, again)
        else:
            print(f"{name}: not run, its file is not on this machine", file=sys.stderr)
    write_page(all_rows(folder), page)


def _file(dataset: str) -> str:
    """The data set whose file is read."""
    return "handbook" if dataset == BY_DAYS else dataset


# ---- tables


def write_page(rows: Sequence[Row], page: Path) -> None:
    """Write the tables into a page. What has no row is shown as not run."""
    names = {
        "handbook": _handbook,
        "handbook-days": _by_days,
        "column-seconds": _columns,
        "bans": _bans,
    }
    write_sections(page, {name: lines(rows) for name, lines in names.items()})


def _handbook(rows: Sequence[Row]) -> Lines:
    best = "the book's best per metric (XGBoost, balanced bagging), published"
    lines: list[tuple[str, ...]] = [(best, *BOOK, "", "by the book: parameters")]
    for name, method in handbook.METHODS.items():
        found = _of(rows, "handbook", name)
        folds = f"{len(found)} of {len(handbook.FOLDS)}" if found else ""
        lines.append((name, *_means(found), folds, method.choices))
    return table(("method", *METRICS.values(), "folds", "chosen on this data set"), lines)


def _by_days(rows: Sequence[Row]) -> Lines:
    lines = []
    for days in handbook.DAYS:
        for name in handbook.BY_DAYS:
            found = _of(rows, "handbook-days", f"{name}, {handbook.last_days(days)}")
            folds = (_mean([row.average_precision]) for row in sorted(found, key=lambda row: row.part))
            lines.append((handbook.last_days(days), name, *_means(found), ", ".join(folds)))
    return table(("payments of", "method", *METRICS.values(), "average precision by fold"), lines, left=2)


def _columns(rows: Sequence[Row]) -> Lines:
    lines = []
    for shown, name in COLUMNS.items():
        found = [row.column_seconds for row in _of(rows, "handbook", name) if row.part == "0"]
        lines.append((shown, f"{float(found[0]):.1f}" if found else NOT_RUN))
    return table(("columns", "CPU seconds"), lines)


def _bans(rows: Sequence[Row]) -> Lines:
    """The table, and which setting the validation part chooses."""
    lines = [(f"{name}, published, with 172 text features per edit", value, "") for name, value in WIKIPEDIA.items()]
    for setting in bans.SETTINGS:
        found = _of(rows, "wikipedia-bans", setting)
        auc, interval = NOT_RUN, ""
        if found:
            mean, low, high = (100 * fmean(float(getattr(row, end)) for row in found) for end in ("auc", "low", "high"))
            auc, interval = f"{mean:.1f}", f"{low:.1f} to {high:.1f}"
        lines.append((f"ours, PropagationClassifier(setting={setting!r})", auc, interval))
    head = ("method", "AUC, %", "95 % interval (bootstrap of the test rows, mean of the seeds)")
    chosen = {setting: _of(rows, "wikipedia-bans", f"{setting}, validation") for setting in bans.SETTINGS}
    text = NOT_RUN
    if all(chosen.values()):
        aucs = {setting: 100 * float(found[0].auc) for setting, found in chosen.items()}
        words = " and ".join(f"`{setting}` {value:.1f}" for setting, value in aucs.items())
        text = f"{words}, so `{max(aucs, key=lambda setting: aucs[setting])}` is the figure to compare"
    choice = "Chosen on this data set: the setting, on the edits between 70 % and 85 % after training on the first 70 %"
    return [*table(head, lines), "", f"{choice}: {text}."]


def _of(rows: Sequence[Row], dataset: str, method: str) -> list[Row]:
    return [row for row in rows if (row.dataset, row.method) == (dataset, method)]


def _means(rows: Sequence[Row]) -> list[str]:
    return [_mean([getattr(row, metric) for row in rows]) for metric in METRICS]


def _mean(values: Sequence[str]) -> str:
    """The mean to three decimals, written as the published figures are."""
    return f"{fmean(map(float, values)):.3f}".removeprefix("0") if values else NOT_RUN
