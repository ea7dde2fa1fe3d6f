"""Results: the rows of a folder, in the form that tables, figures and claims need."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import polars as pl

from tdlg.judge.run import read_results, settings_of, summarise
from tdlg_paper.budget import as_measured
from tdlg_paper.machine import Session
from tdlg_paper.published import Estimate
from tdlg_paper.recipes import ABLATED, EDGE, LINEUP, RECIPES, Entry, Protocol, Run
from tdlg_paper.rows import read_rows
from tdlg_paper.synthetic import Draw

NO_DATA = "not run: data"
Key = tuple[str, str, str]


@dataclass(frozen=True)
class Dataset:
    """What was counted in a data set, and whether it was available: "measured" or `NO_DATA`."""

    dataset: str
    n_nodes: str = ""
    n_edges: str = ""
    days: str = ""
    positive: str = ""
    status: str = NO_DATA

    @property
    def key(self) -> str:
        """The data set."""
        return self.dataset


class Results:
    """The rows of the folder that `reproduce` wrote to; missing files count as empty."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._known: dict[tuple[str, Protocol], dict[Key, Estimate]] = {}

    @cached_property
    def datasets(self) -> dict[str, dict[str, Any]]:
        """What was counted in each data set, and its status."""
        return {row.dataset: asdict(row) for row in read_rows(self.folder / "datasets.csv", Dataset)}

    @cached_property
    def draws(self) -> pl.DataFrame:
        """What was measured on the synthetic network, by seed."""
        draws = sorted(read_rows(self.folder / "synthetic-method.csv", Draw), key=lambda draw: draw.seed)
        return pl.DataFrame([asdict(draw) for draw in draws])

    @cached_property
    def sessions(self) -> list[Session]:
        """When and on what the rows were measured."""
        return read_rows(self.folder / "machines.csv", Session)

    def has_data(self, dataset: str) -> bool:
        """Whether the data set was available, or has not been counted yet."""
        return self.datasets.get(dataset, {}).get("status") != NO_DATA

    def auc(self, task: str, entry: Entry, dataset: str, protocol: Protocol = "paper") -> Estimate | None:
        """The mean AUC of a method, in the table of a task; None if it was not run."""
        name = "edge-classification" if task == EDGE else "link-prediction"
        return self._by_method(name, protocol).get((task, entry.name, dataset))

    def runtime(self, entry: Entry, dataset: str) -> Estimate | None:
        """Mean seconds of one trial of edge classification; those of the deep methods are of its table."""
        name = "edge-classification" if entry.deep else "runtime"
        return self._by_method(name, "paper").get((EDGE, entry.name, dataset))

    def ablation(self, name: str) -> dict[str, dict[str, Estimate]]:
        """Mean AUCs by data set and by the value that an ablation varies."""
        found: dict[str, dict[str, Estimate]] = {dataset: {} for dataset in ABLATED}
        for run, estimates in self._estimates(name, "paper"):
            found.setdefault(run.dataset, {})[run.value] = estimates[EDGE]
        return found

    def _by_method(self, name: str, protocol: Protocol) -> dict[Key, Estimate]:
        if (name, protocol) not in self._known:
            display = {entry.key: entry.name for entry in LINEUP}
            self._known[name, protocol] = {
                (task, display[run.method], run.dataset): estimate
                for run, estimates in self._estimates(name, protocol)
                for task, estimate in estimates.items()
            }
        return self._known[name, protocol]

    def _estimates(self, name: str, protocol: Protocol) -> list[tuple[Run, dict[str, Estimate]]]:
        """Each run of a recipe that has rows, with its estimates by task."""
        path = self.folder / f"{name}.csv"
        if not path.exists():
            return []
        found: dict[tuple[str, str], dict[str, dict[str, Estimate]]] = {}  # by settings, then by task
        for row in summarise(read_results(path)).iter_rows(named=True):
            estimate = Estimate(row["mean"], row["half_width"], row["trials"], row["seconds"])
            by_settings = found.setdefault((row["dataset"], row["method"]), {})
            by_settings.setdefault(row["settings"], {})[row["task"]] = estimate
        estimates = []
        for run in RECIPES[name].runs(protocol):
            method = run.build() if run.is_possible else None
            by_settings = {} if method is None else found.get((run.dataset, method.name), {})
            kept = as_measured(method, by_settings) if by_settings else None
            if kept is not None:
                epochs = kept.get_params().get("epochs")
                fewer = None if epochs == method.get_params().get("epochs") else epochs  # type: ignore[union-attr]
                of_run = by_settings[settings_of(kept)].items()
                estimates.append((run, {task: estimate._replace(epochs=fewer) for task, estimate in of_run}))
        return estimates
