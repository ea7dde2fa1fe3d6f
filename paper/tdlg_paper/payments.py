"""Payments and bans: what is missing is measured, and the tables beside published figures are written.

The rows of card payments by the number of days are in results/handbook-days.csv, all others in results/payments.csv.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from importlib.util import find_spec
from pathlib import Path
from statistics import fmean
from time import process_time
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import roc_auc_score

from tdlg import __version__
from tdlg.datasets.fetch import is_available
from tdlg.datasets.load import load_dataset
from tdlg.edges import TemporalEdges
from tdlg.models.propagation import PropagationClassifier
from tdlg_paper import handbook
from tdlg_paper.rows import measure, read_rows
from tdlg_paper.tables import NOT_RUN, Lines, table, write_sections

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
PastSetting = Literal["forecast", "stream"]
SETTINGS: tuple[PastSetting, ...] = ("forecast", "stream")  # the settings that never look at later edits
SEEDS = (0, 1, 2)
TRAINED, VALIDATED = 0.7, 0.85  # shares of the edits, by time
DRAWS = 1000

Floats = NDArray[np.float64]
Metrics = Callable[[TemporalEdges], dict[str, float]]


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


# ---- what is run on each data set: the method, the part, and a function from the edges to the metrics


def _handbook_runs() -> Iterator[tuple[str, str, Metrics]]:
    for name, method in handbook.METHODS.items():
        for fold in handbook.FOLDS if method.is_possible else ():
            yield name, str(fold), partial(_fold_metrics, method, fold)
    if find_spec("pandas") is not None:
        yield handbook.PANDAS, "0", _pandas_seconds


def _handbook_days_runs() -> Iterator[tuple[str, str, Metrics]]:
    for days in handbook.DAYS:
        for fold in handbook.FOLDS:
            for name, method in handbook.BY_DAYS.items():
                if method.is_possible:
                    shown = f"{name}, {handbook.last_days(days)}"
                    yield shown, str(fold), partial(_fold_metrics, method, fold, days=days)


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


def _bans_runs() -> Iterator[tuple[str, str, Metrics]]:
    for setting in SETTINGS:
        yield f"{setting}, validation", "0", partial(ban_metrics, setting, 0, TRAINED, VALIDATED)
    for setting in SETTINGS:
        for seed in SEEDS:
            yield setting, str(seed), partial(ban_metrics, setting, seed, VALIDATED, 1.0)


def ban_metrics(setting: PastSetting, seed: int, start: float, stop: float, edges: TemporalEdges) -> dict[str, float]:
    """The AUC of the edits between two shares of all, by a model of the edits before; at the end with its interval."""
    label, score = ban_scores(setting, seed, start, stop, edges)
    found = {"auc": float(roc_auc_score(label, score))}
    return found if stop < 1 else found | dict(zip(("low", "high"), bootstrap_interval(label, score), strict=True))


def ban_scores(
    setting: PastSetting, seed: int, start: float, stop: float, edges: TemporalEdges
) -> tuple[NDArray[Any], Floats]:
    """Labels and scores of the edits between two shares of all, from a model fitted on the edits before."""
    first, last = int(start * len(edges)), int(stop * len(edges))
    model = PropagationClassifier(setting=setting, random_state=seed).fit(edges[:first])
    return np.asarray(edges.label)[first:last], model.predict_proba(edges[first:last])[:, 1]


def bootstrap_interval(label: NDArray[Any], score: Floats) -> tuple[float, float]:
    """A 95 % interval of the AUC over samples of the test rows with replacement."""
    rng = np.random.default_rng(0)
    samples = (rng.integers(0, len(label), len(label)) for _ in range(DRAWS))
    aucs = [roc_auc_score(label[rows], score[rows]) for rows in samples if 0 < label[rows].sum() < len(rows)]
    low, high = np.percentile(aucs, [2.5, 97.5])
    return float(low), float(high)


DATASETS: dict[str, Callable[[], Iterator[tuple[str, str, Metrics]]]] = {
    "handbook": _handbook_runs,
    BY_DAYS: _handbook_days_runs,
    "wikipedia-bans": _bans_runs,
}


def main(given: Any) -> None:
    """Measure what is missing of some data sets, by default all, and write the tables into the page."""
    for name in given.parts or DATASETS:
        if not is_available(_file(name)):
            print(f"{name}: not run, its file is not on this machine", file=sys.stderr)
            continue
        runs = [
            ((name, method, part), partial(_measured, (name, method, part), metrics))
            for method, part, metrics in DATASETS[name]()
            if (given.method or "") in method
        ]
        measure(given.folder / f"{BY_DAYS if name == BY_DAYS else 'payments'}.csv", Row, runs, given.again)
    write_page(all_rows(given.folder), given.page)


def _measured(key: tuple[str, str, str], metrics: Metrics) -> Row:
    edges, clock = _edges(_file(key[0])), process_time()
    found = {name: f"{value:.6g}" for name, value in metrics(edges).items()}
    return Row(*key, **found, seconds=f"{process_time() - clock:.1f}", tdlg=__version__)


def all_rows(folder: Path) -> list[Row]:
    """The rows of both files of a folder."""
    return [row for name in ("payments", BY_DAYS) for row in read_rows(folder / f"{name}.csv", Row)]


def _file(dataset: str) -> str:
    """The data set whose file is read."""
    return "handbook" if dataset == BY_DAYS else dataset


@lru_cache(maxsize=1)
def _edges(file: str) -> TemporalEdges:
    return load_dataset(file, dates=file == "handbook")


# ---- tables


def write_page(rows: Sequence[Row], page: Path) -> None:
    """Write the tables into a page. What has no row is shown as not run."""
    found: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        found.setdefault((row.dataset, row.method), []).append(row)
    names = {"handbook": _handbook, BY_DAYS: _by_days, "column-seconds": _columns, "bans": _bans}
    write_sections(page, {name: lines(found) for name, lines in names.items()})


Found = Mapping[tuple[str, str], Sequence[Row]]


def _handbook(found: Found) -> Lines:
    best = "the book's best per metric (XGBoost, balanced bagging), published"
    lines: list[tuple[str, ...]] = [(best, *BOOK, "", "by the book: parameters")]
    for name, method in handbook.METHODS.items():
        rows = found.get(("handbook", name), ())
        lines.append((name, *_means(rows), f"{len(rows)} of {len(handbook.FOLDS)}" if rows else "", method.choices))
    return table(("method", *METRICS.values(), "folds", "chosen on this data set"), lines)


def _by_days(found: Found) -> Lines:
    lines = []
    for days in map(handbook.last_days, handbook.DAYS):
        for name in handbook.BY_DAYS:
            rows = sorted(found.get((BY_DAYS, f"{name}, {days}"), ()), key=lambda row: row.part)
            lines.append((days, name, *_means(rows), ", ".join(_mean([row.average_precision]) for row in rows)))
    return table(("payments of", "method", *METRICS.values(), "average precision by fold"), lines, left=2)


def _columns(found: Found) -> Lines:
    lines = []
    for shown, name in COLUMNS.items():
        seconds = [row.column_seconds for row in found.get(("handbook", name), ()) if row.part == "0"]
        lines.append((shown, f"{float(seconds[0]):.1f}" if seconds else NOT_RUN))
    return table(("columns", "CPU seconds"), lines)


def _bans(found: Found) -> Lines:
    """The table, and which setting the validation part chooses."""
    lines = [(f"{name}, published, with 172 text features per edit", value, "") for name, value in WIKIPEDIA.items()]
    chosen = {}
    for setting in SETTINGS:
        auc, interval = NOT_RUN, ""
        if rows := found.get(("wikipedia-bans", setting)):
            mean, low, high = (100 * fmean(float(getattr(row, end)) for row in rows) for end in ("auc", "low", "high"))
            auc, interval = f"{mean:.1f}", f"{low:.1f} to {high:.1f}"
        lines.append((f"ours, PropagationClassifier(setting={setting!r})", auc, interval))
        if rows := found.get(("wikipedia-bans", f"{setting}, validation")):
            chosen[setting] = 100 * float(rows[0].auc)
    text = NOT_RUN
    if len(chosen) == len(SETTINGS):
        words = " and ".join(f"`{setting}` {value:.1f}" for setting, value in chosen.items())
        text = f"{words}, so `{max(chosen, key=chosen.__getitem__)}` is the figure to compare"
    head = ("method", "AUC, %", "95 % interval (bootstrap of the test rows, mean of the seeds)")
    choice = "Chosen on this data set: the setting, on the edits between 70 % and 85 % after training on the first 70 %"
    return [*table(head, lines), "", f"{choice}: {text}."]


def _means(rows: Sequence[Row]) -> list[str]:
    return [_mean([getattr(row, metric) for row in rows]) for metric in METRICS]


def _mean(values: Sequence[str]) -> str:
    """The mean to three decimals, written as the published figures are."""
    return f"{fmean(map(float, values)):.3f}".removeprefix("0") if values else NOT_RUN
