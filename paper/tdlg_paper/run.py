"""reproduce: run recipes into a folder of rows, and write what they show."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from tdlg.atomic import new_file
from tdlg.datasets.load import describe, load_dataset
from tdlg.edges import TemporalEdges
from tdlg.exceptions import ParameterError, ReadError
from tdlg.judge.run import evaluate, settings_of
from tdlg.judge.trials import EdgeClassification, LinkPrediction, Task
from tdlg_paper import synthetic
from tdlg_paper.budget import TRIAL_SECONDS, as_measured, quick, rows_in, seconds_per_trial, within_budget
from tdlg_paper.lineup import DATASETS, EDGE, EXTRAPOLATIVE, INTERPOLATIVE
from tdlg_paper.machine import Watch
from tdlg_paper.page import write_page
from tdlg_paper.recipes import RECIPES, Protocol, Recipe, Run
from tdlg_paper.results import NO_DATA, Dataset
from tdlg_paper.rows import keep_row, read_rows

__all__ = ["Step", "reproduce"]

TASKS: dict[str, Callable[[TemporalEdges], Task]] = {"edge": EdgeClassification, "link": LinkPrediction}
SETTINGS = {"edge": (EDGE,), "link": (INTERPOLATIVE, EXTRAPOLATIVE)}
WARM_UP = 2000  # edges on which kernels are compiled before anything is timed


class Step(NamedTuple):
    """Progress: trials done, trials in total, what is running, and roughly how many seconds the rest will take."""

    done: int
    total: int
    text: str
    left: float = 0.0


Report = Callable[[Step], Any]


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
    callback: Report = lambda step: None,
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
    _check_matplotlib()
    named = _named(name, protocol)
    chosen, folder = _with_needs(named), Path(folder)
    kept = _checked_datasets(datasets)
    if again:
        for recipe in named:
            _forget(recipe, folder / f"{recipe.name}.csv", kept, protocol)
    work = _Work(folder, trials, kept, protocol, 60 * minutes, callback)
    with suppress(_StopError):
        work.do(chosen)
    target = Path(page) if page is not None else folder / "reproduction.md"
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
        report: Report,
    ) -> None:
        self.folder, self.trials, self.datasets, self.protocol = folder, trials, datasets, protocol
        self.seconds, self.report = seconds, report
        self.done, self.total, self.left = 0, 0, 0.0
        self.warm: set[tuple[str, str]] = set()
        self.missing: set[str] = set()

    def do(self, recipes: list[Recipe]) -> None:
        plans = {recipe.name: self._plan(recipe) for recipe in recipes}
        self.waiting = [(self._path(name), run) for name, runs in plans.items() for run in runs]
        self.total = sum(run.trials for runs in plans.values() for run in runs)
        if "synthetic-method" in plans:
            self.total += self.trials or synthetic.DRAWS
        for name, runs in plans.items():
            if name == "datasets":
                self._count_datasets()
            elif name == "synthetic-method":
                self._draw()
            elif runs:
                self._execute(name, runs)

    def _plan(self, recipe: Recipe) -> list[Run]:
        """The runs of a recipe, those with the quickest trials first."""
        runs = [run for run in recipe.runs(self.protocol) if run.is_possible and run.dataset in self.datasets]
        runs = [replace(run, trials=self.trials) for run in runs] if self.trials else runs
        path = self._path(recipe.name)
        return sorted(runs, key=lambda run: seconds_per_trial(run, path))

    def _path(self, name: str) -> Path:
        return self.folder / f"{name}.csv"

    def _seconds_left(self) -> float:
        """Estimate the seconds of all trials that are still to be run."""
        self.waiting = [(path, run) for path, run in self.waiting if run.dataset not in self.missing]
        return sum(_n_missing(run, path) * seconds_per_trial(run, path) for path, run in self.waiting)

    def _execute(self, name: str, runs: list[Run]) -> None:
        path, watch, added = self._path(name), Watch(name), 0
        for run in runs:
            self.left = self._seconds_left()
            if run.dataset in self.missing or _is_complete(run, path):
                self.done += run.trials
                continue
            text = f"{name}: {run.dataset}, {run.method}{f' {run.value}' if run.value else ''}"
            before, start = _n_rows(path), self.done
            try:
                self._evaluate(run, path, text, start)
            except ReadError as error:
                self.missing.add(run.dataset)
                self._note(f"{text}: {NO_DATA} ({error})")
            except ImportError as error:
                self._note(f"{text}: not run ({error})")
            finally:
                added += _n_rows(path) - before
                if added:
                    keep_row(self.folder / "machines.csv", watch.session(added))
            self.done = start + run.trials

    def _evaluate(self, run: Run, path: Path, text: str, start: int) -> None:
        edges = _edges(run.dataset)
        task = TASKS[run.task](edges)
        self._note(text)
        self._warm_up(run, edges)
        method = _measured(run, path) or within_budget(run.build(), task.draw(0).seen(), self.seconds)
        stopped = False

        def progress(done: int, total: int) -> bool:
            nonlocal stopped
            self.done, self.left = start + done, self._seconds_left()
            stopped = bool(self.report(Step(self.done, self.total, text, self.left)))
            return stopped

        evaluate(method, task, run.trials, dataset=run.dataset, path=path, any_version=True, callback=progress)
        if stopped:
            raise _StopError

    def _warm_up(self, run: Run, edges: TemporalEdges) -> None:
        """Compile the kernels on a few edges, so that the first trial does not include it."""
        kind = run.method, f"{sorted(run.settings.items())} {edges.ticks.dtype}"  # kernels are compiled for each type
        if kind in self.warm:
            return
        few = np.sort(np.random.default_rng(0).permutation(len(edges))[:WARM_UP])
        evaluate(quick(run.build()), TASKS[run.task](edges[few]), trials=1)
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
        start = self.done

        def progress(done: int) -> None:
            self.done = start + done
            self._note("synthetic-method: samples of the network")

        synthetic.measure(self.folder / "synthetic-method.csv", self.trials or synthetic.DRAWS, progress)

    def _note(self, text: str) -> None:
        if self.report(Step(self.done, self.total, text, self.left)):
            raise _StopError


@lru_cache(maxsize=len(DATASETS))
def _edges(dataset: str) -> TemporalEdges:
    return load_dataset(dataset)


def _is_complete(run: Run, path: Path) -> bool:
    """Whether a file has all trials of a run; the data are then not needed."""
    return _n_missing(run, path) == 0


def _n_missing(run: Run, path: Path) -> int:
    """The number of trials of a run that a file does not have in all settings."""
    method, rows = _measured(run, path), rows_in(path)
    if method is None or rows is None:
        return run.trials
    rows = rows.filter(dataset=run.dataset, method=method.name, settings=settings_of(method))
    found = set(rows.select("task", "seed").iter_rows())
    return sum(any((name, seed) not in found for name in SETTINGS[run.task]) for seed in range(run.trials))


def _measured(run: Run, path: Path) -> Any:
    """The method of a run as a file has it, perhaps with fewer epochs; None if the file has no such rows."""
    rows = rows_in(path)
    if rows is None:
        return None
    method = run.build()
    return as_measured(method, rows.filter(dataset=run.dataset, method=method.name)["settings"])


def _n_rows(path: Path) -> int:
    rows = rows_in(path)
    return 0 if rows is None else len(rows)


def _forget(recipe: Recipe, path: Path, datasets: Sequence[str], protocol: Protocol) -> None:
    """Remove from a file the rows of a recipe's runs on these data sets under this protocol."""
    if recipe.name == "synthetic-method":  # its rows are samples of the network, not trials
        path.unlink(missing_ok=True)
    runs = [run for run in recipe.runs(protocol) if run.is_possible and run.dataset in datasets]
    if not runs or not path.exists():
        return
    methods = [(run.dataset, _measured(run, path)) for run in runs]
    forgotten = {(dataset, method.name, settings_of(method)) for dataset, method in methods if method is not None}
    table = pl.read_csv(path, infer_schema=False)
    keys = table.select("dataset", pl.col("method", "settings").fill_null("")).iter_rows()
    kept = table.filter([key not in forgotten for key in keys])
    with new_file(path) as draft:
        kept.write_csv(draft)


# ---- checks


def _named(name: str | Sequence[str] | None, protocol: Protocol) -> list[Recipe]:
    if protocol not in ("paper", "notebook"):
        raise ParameterError(
            f"The 'protocol' must be 'paper' or 'notebook'. Got {protocol!r} instead.",
            parameter="protocol",
        )
    if name is None:
        return [recipe for recipe in RECIPES.values() if protocol in recipe.protocols]
    names = [name] if isinstance(name, str) else list(name)
    unknown = [one for one in names if one not in RECIPES]
    if unknown:
        raise ParameterError(
            f"There is no recipe {unknown[0]!r}. The 'name' must be one of {', '.join(RECIPES)}.",
            parameter="name",
        )
    without_it = [one for one in names if protocol not in RECIPES[one].protocols]
    if without_it:
        both = [recipe.name for recipe in RECIPES.values() if protocol in recipe.protocols]
        raise ParameterError(
            f"The recipe {without_it[0]!r} has no protocol {protocol!r}. Name one of {', '.join(both)}, or leave it out.",
            parameter="protocol",
        )
    return [RECIPES[one] for one in dict.fromkeys(names)]


def _with_needs(recipes: Iterable[Recipe]) -> list[Recipe]:
    """These recipes, each after those whose rows it shows."""

    def names() -> Iterator[str]:
        for recipe in recipes:
            yield from recipe.needs
            yield recipe.name

    return [RECIPES[name] for name in dict.fromkeys(names())]


def _checked_datasets(datasets: Sequence[str] | None) -> tuple[str, ...]:
    if datasets is None:
        return DATASETS
    chosen = [datasets] if isinstance(datasets, str) else list(datasets)
    unknown = [name for name in chosen if name not in DATASETS]
    if unknown:
        raise ParameterError(
            f"The 'datasets' must be among {', '.join(DATASETS)}. Got {unknown[0]!r} instead.",
            parameter="datasets",
        )
    return tuple(name for name in DATASETS if name in chosen)


def _check_matplotlib() -> None:
    """Check before the measurements, which take an hour."""
    if find_spec("matplotlib") is None:
        raise ImportError('The figures need matplotlib: pip install ".[plots]".')
