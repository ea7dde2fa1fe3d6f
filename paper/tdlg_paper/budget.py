"""How long trials take: fewer epochs where one would take too long, and estimates of what is still to be run."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

from sklearn.base import clone

from tdlg.edges import TemporalEdges
from tdlg.judge.run import read_results, settings_of
from tdlg_paper.baselines.vectors import EdgeVectorMethod
from tdlg_paper.published import paper_datasets
from tdlg_paper.recipes import Run

if TYPE_CHECKING:
    import polars as pl

__all__ = [
    "EPOCHS",
    "TRIAL_SECONDS",
    "as_measured",
    "in_epochs",
    "in_time",
    "quick",
    "rows_in",
    "seconds_per_trial",
    "trial_seconds",
    "within_budget",
]

PER_EDGES = 10_000
METHOD_SECONDS = {  # of one trial of edge classification per 10,000 edges, measured on 24,000 to 107,000 beside other work
    "propagation": 3.0,
    "tdlg": 0.2,
    "tdlg-dense": 3.0,
    "label-rates": 0.1,
    "windows": 0.5,
    "edgebank": 0.01,
    "ctdne": 1.2,
    "timers": 7.0,
    "evolvegcn": 16.0,
    "evolvegcn-o": 16.0,
    "dyngem": 54.0,
    "gcrn": 17.0,
    "vgrnn": 19.0,
    "dylink2vec": 24.0,
    "dyrep": 48.0,
}
TRIAL_SECONDS = 25 * 60.0
EPOCHS = re.compile(r"\bepochs=(\d+)")  # in the settings of a row


# ---- epochs


def within_budget(method: Any, edges: TemporalEdges, seconds: float = TRIAL_SECONDS) -> Any:
    """The method with as many of its epochs as fit into a time, at least one, estimated from the first epoch."""
    epochs = method.get_params().get("epochs", 1)
    if epochs == 1 or not isinstance(method, EdgeVectorMethod):
        return method
    start = perf_counter()
    clone(method).embed(edges, callback=lambda done, total: True)
    possible = max(int(seconds / (perf_counter() - start)), 1)
    return method if possible >= epochs else _with_epochs(method, possible)


def as_measured(method: Any, settings: Iterable[str]) -> Any:
    """The method as the rows of a file have it: with all its epochs or with fewer; None if there are no such rows."""
    kept = set(settings)
    if settings_of(method) in kept:
        return method
    numbers = {int(match[1]) for match in map(EPOCHS.search, kept) if match}
    most = method.get_params().get("epochs", 1)
    fewer = [_with_epochs(method, number) for number in sorted(numbers, reverse=True) if number < most]
    return next((one for one in fewer if settings_of(one) in kept), None)


def in_epochs(number: int) -> str:
    """A number of epochs as text: "1 epoch", "7 epochs"."""
    return "1 epoch" if number == 1 else f"{number} epochs"


def quick(method: Any) -> Any:
    """The method with one epoch, to compile what it needs."""
    return _with_epochs(method, 1) if "epochs" in method.get_params() else method


def _with_epochs(method: Any, epochs: int) -> Any:
    fewer: Any = clone(method).set_params(epochs=epochs)
    return fewer


# ---- time


def seconds_per_trial(run: Run, path: Path) -> float:
    """Estimate the seconds of one trial: from rows of the same run, else of its method elsewhere, else as usual."""
    rows = _rows(run, path)
    here = [row for row in rows if row["dataset"] == run.dataset]
    n_edges = paper_datasets()[run.dataset]["n_edges"]
    if here:
        return sum(map(_seconds, here)) / len(here)
    if rows:
        counts = [paper_datasets()[row["dataset"]]["n_edges"] for row in rows]
        return n_edges * sum(map(_seconds, rows)) / sum(counts)
    return trial_seconds(run.method, n_edges)


def _rows(run: Run, path: Path) -> list[dict[str, Any]]:
    """The rows of a method, on all data sets."""
    found = rows_in(path)
    if found is None:
        return []
    method = run.build()
    rows = found.filter(method=method.name).to_dicts()
    measured = as_measured(method, (row["settings"] for row in rows))
    return [] if measured is None else [row for row in rows if row["settings"] == settings_of(measured)]


def rows_in(path: Path) -> pl.DataFrame | None:
    """The rows of a file, which is read again only after it changed; None if it does not exist."""
    if not path.exists():
        return None
    found = path.stat()
    return _read(path, (found.st_ino, found.st_mtime_ns, found.st_size))


@lru_cache(maxsize=8)
def _read(path: Path, stamp: tuple[int, int, int]) -> pl.DataFrame:
    return read_results(path)


def _seconds(row: dict[str, Any]) -> float:
    return float(row["embed_seconds"] + row["fit_seconds"] + row["predict_seconds"])


def trial_seconds(method: str, n_edges: int) -> float:
    """Estimate the seconds of one trial of a method of `METHOD_SECONDS`, for two classes."""
    return METHOD_SECONDS[method] * n_edges / PER_EDGES


def in_time(seconds: float) -> str:
    """A duration as text, for example "4 s", "3 min" or "5 h"."""
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.0f} h"
