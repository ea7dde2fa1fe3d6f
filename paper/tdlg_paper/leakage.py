"""How much an evaluation that uses the future overstates: the same methods evaluated at random and in the order of time."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl

from tdlg.datasets.fetch import is_available
from tdlg.datasets.load import load_dataset
from tdlg.edges import TemporalEdges
from tdlg.judge.methods import make_method
from tdlg.judge.run import evaluate, read_results, summarise
from tdlg.judge.trials import EdgeClassification, ForecastClassification, Task
from tdlg_paper.budget import EPOCHS, TRIAL_SECONDS, as_measured, in_epochs, within_budget
from tdlg_paper.figures import question_bars
from tdlg_paper.recipes import LINEUP, Entry
from tdlg_paper.tables import NOT_RUN, PAGE, table, write_sections

DATASETS = ("bitcoinalpha", "bitcoinotc", "escorts", "wikielect")
METHODS = ("tdlg", "label-rates", "propagation")
COMPARED = [entry for entry in LINEUP if entry.kind in ("prior method", "further method")]  # once, in the order of time
TASKS: dict[str, tuple[Callable[[TemporalEdges], Task], int]] = {  # with the number of trials
    "random": (EdgeClassification, 3),
    "forecast": (ForecastClassification, 1),
    "stream": (lambda edges: ForecastClassification(edges, stream=True), 1),
}
NAMES = {"edge classification": "random", "forecast": "forecast", "stream": "stream"}
SHOWN = {"TDLG": "the paper's rows", "label rates": "label rates", "propagation": "propagation"}
QUESTIONS = {
    "edge classification": "labels missing at random",
    "forecast": "labels end, then forecast",
    "stream": "labels come as time goes on",
}


def run_leakage(path: Path, seconds: float = TRIAL_SECONDS) -> pl.DataFrame:
    """Run what is not in the file yet; escorts as the bipartite network that it is."""
    edges = {name: load_dataset(name, bipartite=name == "escorts" or None) for name in DATASETS if is_available(name)}
    for dataset in edges:
        for name, (make_task, trials) in TASKS.items():
            for method in METHODS:
                _tell(f"{dataset}, {name}, {method}")
                evaluate(method, make_task(edges[dataset]), trials, dataset=dataset, path=path, any_version=True)
    for entry in COMPARED:
        for dataset in edges:
            _tell(f"{dataset}, forecast, {entry.key}")
            try:
                _run_compared(entry, dataset, ForecastClassification(edges[dataset]), path, seconds)
            except ImportError as error:
                _tell(f"{entry.key}: not run ({error})")
    return read_results(path)


def _tell(step: str) -> None:
    print(step, file=sys.stderr, flush=True)


def _run_compared(entry: Entry, dataset: str, task: Task, path: Path, seconds: float) -> None:
    """One trial in the order of time, with fewer epochs where it would take too long."""
    method = make_method(entry.key)
    rows = read_results(path).filter(dataset=dataset, method=method.name, task=task.name)
    chosen = as_measured(method, rows["settings"]) or within_budget(method, task.draw(0).seen(), seconds)
    evaluate(chosen, task, 1, dataset=dataset, path=path, any_version=True)


def leakage_table(rows: pl.DataFrame) -> list[str]:
    """AUC in per cent, with the epochs if there were fewer; "not run" without a row."""
    found = {(row["dataset"], NAMES[row["task"]], _method_of(row)): row for row in summarise(rows).to_dicts()}
    lines = []
    for task in TASKS:
        compared = {entry.name: entry.name for entry in COMPARED} if task == "forecast" else {}
        for method, shown in (SHOWN | compared).items():
            cells = [found.get((dataset, task, method)) for dataset in DATASETS]
            lines.append((f"{task}, {shown}", *(NOT_RUN if cell is None else _shown(cell) for cell in cells)))
    return table(("", *DATASETS), lines)


def _method_of(row: dict[str, Any]) -> str:
    """The name of a row's method in the table: of variants of one method, the one whose settings the row has."""
    same = [e for e in COMPARED if e.row_key[0] == row["method"] and e.row_key[1] in row["settings"]]
    return max(same, key=lambda entry: len(entry.row_key[1])).name if same else row["method"]


def _shown(cell: dict[str, Any]) -> str:
    """A mean in per cent, and the number of epochs if there were fewer than usual."""
    epochs = EPOCHS.search(cell["settings"])
    return f"{100 * cell['mean']:.1f}" + (f" ({in_epochs(int(epochs[1]))})" if epochs else "")


def main(given: Any) -> None:
    """Measure what is missing, write the table into the page, and draw the picture beside it."""
    page = PAGE.with_name("evaluate.md") if given.page == PAGE else given.page
    rows = run_leakage(given.folder / "leakage.csv", 60 * given.minutes)
    write_sections(page, {"leakage": leakage_table(rows)})
    (page.parent / "images").mkdir(exist_ok=True)
    question_bars(summarise(rows), QUESTIONS, SHOWN).savefig(page.parent / "images" / "questions.png", dpi=130)
