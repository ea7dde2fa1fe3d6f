"""How much an evaluation that uses the future overstates: the same methods evaluated at random and in the order of time.

`python -m tdlg_paper.leakage results/leakage.csv docs/evaluation-without-leakage.md docs/images/questions.png [MINUTES]`
measures what is not in the file yet, writes the table into the page, and draws the picture. MINUTES is the longest time for
learning in one trial, 25 by default.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tdlg.datasets.fetch import is_available
from tdlg.datasets.load import load_dataset
from tdlg.edges import TemporalEdges
from tdlg.exceptions import ReadError
from tdlg.judge.methods import make_method
from tdlg.judge.results import read_results, summarise
from tdlg.judge.run import evaluate
from tdlg.judge.trials import ChronologicalClassification, EdgeClassification, Task
from tdlg_paper.budget import EPOCHS, TRIAL_SECONDS, as_measured, in_epochs, trial_seconds, within_budget
from tdlg_paper.lineup import LINEUP, Entry
from tdlg_paper.plots import question_bars

if TYPE_CHECKING:
    import polars as pl

__all__ = ["leakage_table", "run_leakage", "write_table"]

DATASETS = ("bitcoinalpha", "bitcoinotc", "escorts", "wikielect")
METHODS = ("tdlg", "label-rates", "propagation")
COMPARED = [entry for entry in LINEUP if entry.kind in ("prior method", "further method")]  # once, in the order of time
TASKS: dict[str, tuple[Callable[[TemporalEdges], Task], int]] = {  # with the number of trials
    "random": (EdgeClassification, 3),
    "frozen": (ChronologicalClassification, 1),
    "prequential": (lambda edges: ChronologicalClassification(edges, prequential=True), 1),
}
NAMES = {
    "edge classification": "random",
    "chronological, frozen": "frozen",
    "chronological, prequential": "prequential",
}
BEGIN, END = "<!-- table -->\n", "<!-- /table -->"
SHOWN = {"TDLG": "the paper's rows", "label rates": "label rates", "propagation": "propagation"}
QUESTIONS = {
    "edge classification": "labels missing at random",
    "chronological, frozen": "labels end, then forecast",
    "chronological, prequential": "labels come as time goes on",
}


def run_leakage(
    path: Path, callback: Callable[[str], None] | None = None, seconds: float = TRIAL_SECONDS
) -> pl.DataFrame:
    """Run what is not in the file yet; escorts as the bipartite network that it is.

    Parameters
    ----------
    path
        The csv file of rows.
    callback
        Called with a description of what is about to run.
    seconds
        The longest time for learning in one trial; methods that would take longer have fewer epochs.
    """
    tell = callback or (lambda step: None)
    edges = {name: load_dataset(name, bipartite=name == "escorts" or None) for name in DATASETS if is_available(name)}
    for dataset in edges:
        for name, (make_task, trials) in TASKS.items():
            for method in METHODS:
                tell(f"{dataset}, {name}, {method}")
                evaluate(method, make_task(edges[dataset]), trials, dataset=dataset, path=path, any_version=True)
    for entry in sorted(COMPARED, key=lambda entry: trial_seconds(entry.key, 1)):
        for dataset in edges:
            tell(f"{dataset}, frozen, {entry.key}")
            try:
                _run_compared(entry, dataset, ChronologicalClassification(edges[dataset]), path, seconds)
            except ImportError as error:
                tell(f"{entry.key}: not run ({error})")
    return read_results(path)


def _run_compared(entry: Entry, dataset: str, task: Task, path: Path, seconds: float) -> None:
    """One trial in the order of time, with fewer epochs where it would take too long."""
    method = make_method(entry.key)
    rows = read_results(path).filter(dataset=dataset, method=method.name, task=task.name)
    chosen = as_measured(method, rows["settings"]) or within_budget(method, task.draw(0).seen(), seconds)
    evaluate(chosen, task, 1, dataset=dataset, path=path, any_version=True)


def leakage_table(rows: pl.DataFrame) -> str:
    """The table of the page, in markdown: AUC in per cent, with the epochs if there were fewer; "not run" without a row."""
    found = {(row["dataset"], NAMES[row["task"]], _method_of(row)): row for row in summarise(rows).to_dicts()}
    lines = [
        "| | " + " | ".join(f"{dataset}" for dataset in DATASETS) + " |",
        "|---|" + "---|" * len(DATASETS),
    ]
    for task in TASKS:
        compared = {entry.name: entry.name for entry in COMPARED} if task == "frozen" else {}
        for method, shown in (SHOWN | compared).items():
            cells = [found.get((dataset, task, method)) for dataset in DATASETS]
            values = ["not run" if cell is None else _shown(cell) for cell in cells]
            lines.append(f"| {task}, {shown} | " + " | ".join(values) + " |")
    return "\n".join(lines)


def _method_of(row: dict[str, Any]) -> str:
    """The name of a row's method in the table: of variants of one method, the one whose settings the row has."""
    same = [e for e in COMPARED if e.row_key[0] == row["method"] and e.row_key[1] in row["settings"]]
    return max(same, key=lambda entry: len(entry.row_key[1])).name if same else row["method"]


def _shown(cell: dict[str, Any]) -> str:
    """A mean in per cent, and the number of epochs if there were fewer than usual."""
    epochs = EPOCHS.search(cell["settings"])
    return f"{100 * cell['mean']:.1f}" + (f" ({in_epochs(int(epochs[1]))})" if epochs else "")


def write_table(page: Path, table: str) -> None:
    """Put the table between the marks of the page."""
    head, mark, rest = page.read_text(encoding="utf-8").partition(BEGIN)
    _, end, tail = rest.partition(END)
    if not (mark and end):
        raise ReadError(f"{page} has no place for the table: a line {BEGIN.strip()!r} and a line {END!r}.")
    new = page.with_suffix(".new")
    new.write_text(f"{head}{mark}{table}\n{end}{tail}", encoding="utf-8")
    new.replace(page)


if __name__ == "__main__":
    rows_file, page_file, picture_file = map(Path, sys.argv[1:4])
    longest = 60 * float(sys.argv[4]) if len(sys.argv) > 4 else TRIAL_SECONDS
    measured = run_leakage(rows_file, lambda step: print(step, file=sys.stderr, flush=True), longest)
    write_table(page_file, leakage_table(measured))
    question_bars(summarise(measured), QUESTIONS, SHOWN).savefig(picture_file, dpi=130)
