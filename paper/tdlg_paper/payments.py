"""`python -m tdlg_paper.payments`: measure what is missing on payments, attacks and bans, and write a page from the rows.

Rows are appended to results/payments.csv as they come, those of card payments by the number of days to
results/handbook-days.csv beside it, so that an interrupted run goes on where it stopped.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from time import process_time
from typing import NamedTuple

from sklearn.metrics import roc_auc_score

from tdlg import __version__
from tdlg.datasets.fetch import is_available
from tdlg.datasets.load import load_dataset
from tdlg.edges import TemporalEdges
from tdlg.exceptions import ParameterError
from tdlg_paper import bans, handbook
from tdlg_paper.attacks import DETECTORS, attack_auc
from tdlg_paper.payment_rows import Row, append_row, read_rows
from tdlg_paper.payments_page import write_page

__all__ = ["DATASETS", "Run", "all_rows", "main", "measure"]

ROWS, PAGE = Path("results/payments.csv"), Path("docs/payments.md")
BY_DAYS = "handbook-days"  # the handbook with the payments of the last days only


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


def _darpa_runs() -> Iterator[Run]:
    for name, make in DETECTORS.items():
        yield Run("darpa", name, "0", lambda edges, make=make: {"auc": attack_auc(make(), edges)})  # type: ignore[misc]


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
    "darpa": _darpa_runs,
    "wikipedia-bans": _bans_runs,
}


# ---- running


def measure(dataset: str, path: Path, method: str | None = None, again: bool = False) -> None:
    """Measure the runs of a data set that have no row yet.

    Parameters
    ----------
    dataset
        "handbook", "handbook-days", "darpa" or "wikipedia-bans"; its file must be on this machine.
    path
        The csv file of rows.
    method
        The name of one method, or a part of the name such as "37 days". By default all.
    again
        Whether to measure runs that have a row too. The new row then counts.
    """
    done = set() if again else {row.key for row in read_rows(path)}
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
        append_row(path, Row(*run.key, **measured, seconds=f"{process_time() - clock:.1f}", tdlg=__version__))


def all_rows(path: Path) -> list[Row]:
    """Read the rows of this file, and of the one by the number of days beside it.

    Parameters
    ----------
    path
        The csv file.
    """
    return [row for each in (path, _rows(BY_DAYS, path)) for row in read_rows(each)]


def _rows(dataset: str, path: Path) -> Path:
    """The file of the rows of a data set."""
    return path.with_name(f"{BY_DAYS}.csv") if dataset == BY_DAYS else path


def _file(dataset: str) -> str:
    """The data set whose file is read."""
    return "handbook" if dataset == BY_DAYS else dataset


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure what is missing, write the page, and print its path.

    Parameters
    ----------
    arguments
        By default those of the command line.
    """
    given = _parser().parse_args(arguments)
    for dataset in [] if given.page_only else given.dataset or DATASETS:
        if is_available(_file(dataset)):
            measure(dataset, _rows(dataset, given.rows), given.method, given.again)
        else:
            print(f"{dataset}: not run, its file is not on this machine", file=sys.stderr)
    write_page(all_rows(given.rows), given.page)
    print(given.page)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tdlg_paper.payments", description=__doc__)
    parser.add_argument("dataset", nargs="*", choices=[*DATASETS, []], help="data sets to run (default: all)")
    parser.add_argument("--method", help="run only the methods whose name has this part, e.g. '37 days'")
    parser.add_argument("--again", action="store_true", help="run also what has a row already; the new row counts")
    parser.add_argument("--rows", type=Path, default=ROWS, help=f"the csv file of rows (default: {ROWS})")
    parser.add_argument("--page", type=Path, default=PAGE, help=f"the page to write (default: {PAGE})")
    parser.add_argument("--page-only", action="store_true", help="write the page and run nothing")
    return parser


if __name__ == "__main__":
    sys.exit(main())
