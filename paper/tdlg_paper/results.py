"""Results: the rows of a folder, in the form that tables, figures and claims need."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tdlg.judge.run import read_results, settings_of, summarise
from tdlg_paper.budget import as_measured
from tdlg_paper.lineup import ABLATED, EDGE, LINEUP, Entry
from tdlg_paper.machine import Session
from tdlg_paper.published import Estimate
from tdlg_paper.recipes import RECIPES, Protocol, Run
from tdlg_paper.rows import read_rows
from tdlg_paper.synthetic import read_draws

if TYPE_CHECKING:
    import polars as pl

__all__ = ["NO_DATA", "Dataset", "Results"]

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

    def rows(self, name: str) -> pl.DataFrame | None:
        """The rows of a recipe; None if it has none."""
        path = self.folder / f"{name}.csv"
        return read_results(path) if path.exists() else None

    @cached_property
    def datasets(self) -> dict[str, dict[str, Any]]:
        """What was counted in each data set, and its status."""
        return {row.dataset: asdict(row) for row in read_rows(self.folder / "datasets.csv", Dataset)}

    @cached_property
    def draws(self) -> pl.DataFrame:
        """What was measured on the synthetic network."""
        return read_draws(self.folder / "synthetic-method.csv")

    @cached_property
    def sessions(self) -> list[Session]:
        """When and on what the rows were measured."""
        return read_rows(self.folder / "machines.csv", Session)

    def has_data(self, dataset: str) -> bool:
        """Whether the data set was available, or has not been counted yet."""
        return self.datasets.get(dataset, {}).get("status") != NO_DATA

    def auc(self, task: str, entry: Entry, dataset: str, protocol: Protocol = "paper") -> Estimate | None:
        """The mean AUC of a method, in the table of a task; None if it was not run."""
        return self._tables(protocol).get((task, entry.name, dataset))

    def runtime(self, entry: Entry, dataset: str) -> Estimate | None:
        """Mean seconds of one trial of edge classification, from the rows that were made for it.

        The deep methods take too long to be timed apart: theirs are of the table of edge classification.
        """
        return (self._tables("paper") if entry.deep else self._runtimes).get((EDGE, entry.name, dataset))

    def ablation(self, name: str) -> dict[str, dict[str, Estimate]]:
        """Mean AUCs by data set and by the value that an ablation varies."""
        found: dict[str, dict[str, Estimate]] = {dataset: {} for dataset in ABLATED}
        for run, estimates in self._estimates(name, "paper"):
            found.setdefault(run.dataset, {})[run.value] = estimates[EDGE]
        return found

    @cached_property
    def _runtimes(self) -> dict[Key, Estimate]:
        return self._by_method("runtime", "paper")

    def _tables(self, protocol: Protocol) -> dict[Key, Estimate]:
        if protocol not in self._kept:
            names = ("edge-classification", "link-prediction")
            self._kept[protocol] = {
                key: found for name in names for key, found in self._by_method(name, protocol).items()
            }
        return self._kept[protocol]

    @cached_property
    def _kept(self) -> dict[Protocol, dict[Key, Estimate]]:
        return {}

    def _by_method(self, name: str, protocol: Protocol) -> dict[Key, Estimate]:
        display = {entry.key: entry.name for entry in LINEUP}
        return {
            (task, display[run.method], run.dataset): estimate
            for run, estimates in self._estimates(name, protocol)
            for task, estimate in estimates.items()
        }

    def _estimates(self, name: str, protocol: Protocol) -> list[tuple[Run, dict[str, Estimate]]]:
        """Each run of a recipe that has rows, with its estimates by task."""
        rows = self.rows(name)
        if rows is None:
            return []
        found: dict[Key, dict[str, Estimate]] = {}
        kept: dict[tuple[str, str], set[str]] = {}
        for row in summarise(rows).iter_rows(named=True):
            estimate = Estimate(row["mean"], row["half_width"], row["trials"], row["seconds"])
            found.setdefault((row["dataset"], row["method"], row["settings"]), {})[row["task"]] = estimate
            kept.setdefault((row["dataset"], row["method"]), set()).add(row["settings"])
        runs = [(run, run.build()) for run in RECIPES[name].runs(protocol) if run.is_possible]
        measured = [(run, as_measured(method, kept.get((run.dataset, method.name), ()))) for run, method in runs]
        return [
            (run, _with_epochs(found[run.dataset, method.name, settings_of(method)], method, run))
            for run, method in measured
            if method is not None
        ]


def _with_epochs(estimates: dict[str, Estimate], method: Any, run: Run) -> dict[str, Estimate]:
    """The estimates, with the number of epochs where it is not that of the run."""
    epochs = method.get_params().get("epochs")
    if epochs == run.build().get_params().get("epochs"):
        return estimates
    return {task: estimate._replace(epochs=epochs) for task, estimate in estimates.items()}
