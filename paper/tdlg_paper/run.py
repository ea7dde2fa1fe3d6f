"""reproduce: run recipes into a folder of rows, and write what they show."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from tdlg.atomic import new_file
from tdlg.checks import check_choice
from tdlg.datasets.load import describe, load_dataset
from tdlg.edges import TemporalEdges
from tdlg.exceptions import ParameterError, ReadError
from tdlg.judge.run import evaluate, read_results, settings_of
from tdlg.judge.trials import EdgeClassification, LinkPrediction, Task
from tdlg_paper import synthetic
from tdlg_paper.budget import TRIAL_SECONDS, as_measured, with_epochs, within_budget
from tdlg_paper.machine import Watch
from tdlg_paper.page import write_page
from tdlg_paper.recipes import DATASETS, EDGE, EXTRAPOLATIVE, INTERPOLATIVE, RECIPES, Protocol, Recipe, Run
from tdlg_paper.results import NO_DATA, Dataset
from tdlg_paper.rows import keep_row, read_rows

TASKS: dict[str, Callable[[TemporalEdges], Task]] = {"edge": EdgeClassification, "link": LinkPrediction}
SETTINGS = {"edge": (EDGE,), "link": (INTERPOLATIVE, EXTRAPOLATIVE)}
WARM_UP = 2000  # edges on which kernels are compiled before anything is timed


class Step(NamedTuple):
    """Progress: trials done, trials in total, and what is running."""

    done: int
    total: int
    text: str


class _StopError(Exception):
    """The callback asked to stop."""


def reproduce(
    name: str | Sequence[str] | None = None,
    *,
    folder: str | os.PathLike[str] = "results",
    trials: int | None = None,
    datasets: Sequence[str] | None = None,
    protocol: Protocol = "paper",
    again: bool = False,
    minutes: float = TRIAL_SECONDS / 60,
    page: str | os.PathLike[str] | None = None,
    callback: Callable[[Step], Any] = lambda step: None,
) -> Path:
    """Measure the paper's tables and figures, and write a page that shows them beside the paper's.

    Rows are written as they are measured, and trials that have a row are not run again, so that an interrupted run can be
    continued. `callback` gets each step; if it returns True, no more trials are run, and the page is still written.

    Examples
    --------
    >>> from tdlg_paper import reproduce
    >>> reproduce("edge-classification", trials=2, datasets=["bitcoinalpha"])  # doctest: +SKIP
    PosixPath('results/reproduction.md')
    """
    if find_spec("matplotlib") is None:  # before the measurements, which take an hour
        raise ImportError('The figures need matplotlib: pip install ".[plots]".')
    named, folder = _named(name, protocol), Path(folder)
    for one in DATASETS if datasets is None else datasets:
        check_choice("reproduce", "datasets", one, DATASETS)
    kept = tuple(one for one in DATASETS if datasets is None or one in datasets)
    if again:
        for recipe in named:
            _forget(recipe, folder / f"{recipe.name}.csv", kept, protocol)
    with_needs = dict.fromkeys(one for recipe in named for one in (*recipe.needs, recipe.name))
    work = _Work(folder, trials, kept, protocol, 60 * minutes, callback)
    with suppress(_StopError):
        work.do([RECIPES[one] for one in with_needs])
    target = folder / "reproduction.md" if page is None else Path(page)
    write_page(folder, target)
    return target


class _Work:
    """The runs of recipes, one after the other."""

    def __init__(
        self,
        folder: Path,
        trials: int | None,
        datasets: tuple[str, ...],
        protocol: Protocol,
        seconds: float,
        report: Callable[[Step], Any],
    ) -> None:
        self.folder, self.trials, self.datasets, self.protocol = folder, trials, datasets, protocol
        self.seconds, self.report = seconds, report
        self.done = self.total = 0
        self.warm: set[tuple[str, str]] = set()
        self.missing: set[str] = set()

    def do(self, recipes: list[Recipe]) -> None:
        plans = {recipe.name: self._plan(recipe) for recipe in recipes}
        self.total = sum(run.trials for runs in plans.values() for run in runs)
        self.total += (self.trials or synthetic.DRAWS) * ("synthetic-method" in plans)
        for name, runs in plans.items():
            if name == "datasets":
                self._count_datasets()
            elif name == "synthetic-method":
                self._draw()
            else:
                self._execute(name, runs)

    def _plan(self, recipe: Recipe) -> list[Run]:
        runs = [run for run in recipe.runs(self.protocol) if run.is_possible and run.dataset in self.datasets]
        return [replace(run, trials=self.trials) for run in runs] if self.trials else runs

    def _execute(self, name: str, runs: list[Run]) -> None:
        path, watch, first = self.folder / f"{name}.csv", Watch(name), None
        for run in runs:
            rows = _rows(path)
            first = len(rows) if first is None else first
            if run.dataset in self.missing or _is_complete(run, rows):
                self.done += run.trials
                continue
            text, start = f"{name}: {run.dataset}, {run.method}{f' {run.value}' if run.value else ''}", self.done
            try:
                self._evaluate(run, path, text, start)
            except ReadError as error:
                self.missing.add(run.dataset)
                self._note(f"{text}: {NO_DATA} ({error})")
            except ImportError as error:
                self._note(f"{text}: not run ({error})")
            finally:
                if added := len(_rows(path)) - first:
                    keep_row(self.folder / "machines.csv", watch.session(added))
            self.done = start + run.trials

    def _evaluate(self, run: Run, path: Path, text: str, start: int) -> None:
        edges = _edges(run.dataset)
        task = TASKS[run.task](edges)
        self._note(text)
        self._warm_up(run, edges)
        method = _measured(run, _rows(path)) or within_budget(run.build(), task.draw(0).seen(), self.seconds)
        stopped = False

        def progress(done: int, total: int) -> bool:
            nonlocal stopped
            self.done = start + done
            stopped = bool(self.report(Step(self.done, self.total, text)))
            return stopped

        evaluate(method, task, run.trials, dataset=run.dataset, path=path, any_version=True, callback=progress)
        if stopped:
            raise _StopError

    def _warm_up(self, run: Run, edges: TemporalEdges) -> None:
        """Compile the kernels on a few edges, so that the first trial does not include it."""
        kind = run.method, f"{sorted(run.settings.items())} {edges.ticks.dtype}"  # kernels are compiled for each type
        if kind not in self.warm:
            few = np.sort(np.random.default_rng(0).permutation(len(edges))[:WARM_UP])
            evaluate(with_epochs(run.build(), 1), TASKS[run.task](edges[few]), trials=1)
            self.warm.add(kind)

    def _count_datasets(self) -> None:
        path = self.folder / "datasets.csv"
        known = {row.dataset for row in read_rows(path, Dataset)}
        for dataset in self.datasets:
            self._note(f"datasets: {dataset}")
            try:
                found = {name: str(value) for name, value in describe(_edges(dataset)).items()}
                keep_row(path, Dataset(dataset, **found, status="measured"))
            except ReadError as error:
                self.missing.add(dataset)
                self._note(f"datasets: {dataset}: {NO_DATA} ({error})")
                if dataset not in known:
                    keep_row(path, Dataset(dataset))

    def _draw(self) -> None:
        for _ in synthetic.measure(self.folder / "synthetic-method.csv", self.trials or synthetic.DRAWS):
            self.done += 1
            self._note("synthetic-method: samples of the network")

    def _note(self, text: str) -> None:
        if self.report(Step(self.done, self.total, text)):
            raise _StopError


@lru_cache(maxsize=len(DATASETS))
def _edges(dataset: str) -> TemporalEdges:
    return load_dataset(dataset)


def _rows(path: Path) -> pl.DataFrame:
    """The rows of a file, with at least the columns that identify them."""
    columns = dict.fromkeys(("dataset", "task", "method", "settings"), pl.String)
    return read_results(path) if path.exists() else pl.DataFrame(schema={**columns, "seed": pl.Int64})


def _is_complete(run: Run, rows: pl.DataFrame) -> bool:
    """Whether there are rows of all trials of a run, in all settings; the data are then not needed."""
    method = _measured(run, rows)
    if method is None:
        return False
    rows = rows.filter(dataset=run.dataset, method=method.name, settings=settings_of(method))
    found = set(rows.select("task", "seed").iter_rows())
    return all((task, seed) in found for task in SETTINGS[run.task] for seed in range(run.trials))


def _measured(run: Run, rows: pl.DataFrame) -> Any:
    """The method of a run as the rows have it, perhaps with fewer epochs; None if there are none."""
    method = run.build()
    return as_measured(method, rows.filter(dataset=run.dataset, method=method.name)["settings"])


def _forget(recipe: Recipe, path: Path, datasets: Sequence[str], protocol: Protocol) -> None:
    """Remove from a file the rows of a recipe's runs on these data sets under this protocol."""
    if recipe.name == "synthetic-method":  # its rows are samples of the network, not trials
        path.unlink(missing_ok=True)
    runs = [run for run in recipe.runs(protocol) if run.is_possible and run.dataset in datasets]
    if not runs or not path.exists():
        return
    rows = _rows(path)
    methods = [(run.dataset, _measured(run, rows)) for run in runs]
    forgotten = {(dataset, method.name, settings_of(method)) for dataset, method in methods if method is not None}
    table = pl.read_csv(path, infer_schema=False)
    keys = table.select("dataset", pl.col("method", "settings").fill_null("")).iter_rows()
    with new_file(path) as draft:
        table.filter([key not in forgotten for key in keys]).write_csv(draft)


def _named(name: str | Sequence[str] | None, protocol: Protocol) -> list[Recipe]:
    check_choice("reproduce", "protocol", protocol, ("paper", "notebook"))
    with_it = [recipe.name for recipe in RECIPES.values() if protocol in recipe.protocols]
    names = with_it if name is None else [name] if isinstance(name, str) else list(name)
    for one in names:
        check_choice("reproduce", "name", one, RECIPES)
        if one not in with_it:
            raise ParameterError(
                f"The recipe {one!r} has no protocol {protocol!r}. Name one of {', '.join(with_it)}, or leave it out.",
                parameter="protocol",
            )
    return [RECIPES[one] for one in dict.fromkeys(names)]
