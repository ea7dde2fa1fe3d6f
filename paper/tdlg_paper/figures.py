"""The figures of the recipes, from rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tdlg.linegraph.decay import Gaussian
from tdlg.linegraph.operator import LineGraph
from tdlg_paper import plots
from tdlg_paper.lineup import ABLATED, DATASETS, EDGE, EXTRAPOLATIVE, INTERPOLATIVE, LINEUP, entries
from tdlg_paper.published import Estimate, paper_auc
from tdlg_paper.results import NO_DATA, Results
from tdlg_paper.synthetic import BANDWIDTH, embeddings, sample

if TYPE_CHECKING:
    import polars as pl
    from matplotlib.figure import Figure

__all__ = ["FIGURES", "draw_figures"]

PLURAL = {
    "TDLG": "TDLG",
    "prior method": "prior methods",
    "further method": "further methods",
    "reference": "references",
}
GROUPS = {entry.name: PLURAL[entry.kind] for entry in LINEUP}
SHORT = {EDGE: "edge classification", INTERPOLATIVE: "interpolative", EXTRAPOLATIVE: "extrapolative"}
DPI = 144


def draw_figures(results: Results, folder: Path) -> dict[str, str]:
    """Draw every figure that has rows.

    Parameters
    ----------
    results
        The rows.
    folder
        The folder for the PNG files.

    Returns
    -------
    dict
        The file names by recipe.
    """
    drawn = {}
    for name, draw in FIGURES.items():
        figure = draw(results)
        if figure is not None:
            folder.mkdir(parents=True, exist_ok=True)
            figure.savefig(folder / f"{name}.png", dpi=DPI, metadata={"Software": None})
            drawn[name] = f"{name}.png"
    return drawn


def _network(results: Results) -> Figure | None:
    return None if results.draws.is_empty() else plots.synthetic_network(sample())


def _method(results: Results) -> Figure | None:
    if results.draws.is_empty():
        return None
    drawn = sample()
    H = LineGraph(drawn.edges, decay=Gaussian(BANDWIDTH)).to_csr()
    return plots.synthetic_method(drawn, H, *embeddings(drawn))


def _edges(results: Results) -> Figure | None:
    return _bars(results, (EDGE,))


def _links(results: Results) -> Figure | None:
    return _bars(results, (INTERPOLATIVE, EXTRAPOLATIVE))


def _bars(results: Results, tasks: tuple[str, ...]) -> Figure | None:
    methods = [entry.name for entry in entries(tasks[0], selected=True)]
    ours, paper = [], []
    for task in tasks:
        for entry in entries(task, selected=True):
            for name in DATASETS:
                place = {"dataset": name, "task": SHORT[task], "method": entry.name}
                ours += _row(place, results.auc(task, entry, name))
                paper += _row(place, paper_auc().get((task, entry.name, name)))
    if not ours:
        return None
    missing = {name: NO_DATA for name in DATASETS if not results.has_data(name)}
    return plots.auc_bars(
        _frame(ours), _frame(paper), datasets=DATASETS, methods=methods, groups=GROUPS, missing=missing
    )


def _row(place: dict[str, str], estimate: Estimate | None) -> list[dict[str, Any]]:
    return [] if estimate is None else [{**place, "mean": estimate.mean, "half_width": estimate.half_width}]


def _means(results: Results) -> Figure | None:
    """Means over the four data sets that all methods can be run on, for methods that have rows of all four."""
    ours, paper = [], []
    for task in SHORT:
        for entry in entries(task):
            place = {"task": SHORT[task], "method": entry.name}
            ours += _mean_row(place, (results.auc(task, entry, name) for name in ABLATED))
            paper += _mean_row(place, (paper_auc().get((task, entry.name, name)) for name in ABLATED))
    if not ours:
        return None
    methods = [entry.name for entry in LINEUP]
    return plots.mean_bars(_frame(ours), _frame(paper), methods=methods, groups=GROUPS)


def _mean_row(place: dict[str, str], estimates: Iterable[Estimate | None]) -> list[dict[str, Any]]:
    known = [estimate.mean for estimate in estimates if estimate is not None]
    return [{**place, "mean": sum(known) / len(known)}] if len(known) == len(ABLATED) else []


def _runtime(results: Results) -> Figure | None:
    rows = [
        {"dataset": name, "method": entry.name, "seconds": estimate.seconds}
        for entry in LINEUP
        for name in DATASETS
        if (estimate := results.runtime(entry, name)) is not None
    ]
    return plots.runtime_bars(_frame(rows), datasets=_timed(rows), groups=GROUPS) if rows else None


def _timed(rows: list[dict[str, Any]]) -> list[str]:
    return [name for name in DATASETS if any(row["dataset"] == name for row in rows)]


def _ablations(results: Results) -> Figure | None:
    tables = [_ablation(results, "bandwidth", float), _ablation(results, "normalisation", str)]
    return plots.ablations(*tables) if any(table is not None for table in tables) else None


def _ablation(results: Results, name: str, kind: Callable[[str], Any]) -> pl.DataFrame | None:
    rows = [
        {"dataset": dataset, "value": kind(value), "mean": estimate.mean}
        for dataset, estimates in results.ablation(name).items()
        for value, estimate in estimates.items()
    ]
    return _frame(rows) if rows else None


def _frame(rows: list[dict[str, Any]]) -> pl.DataFrame:
    import polars as pl

    return pl.DataFrame(rows)


FIGURES: dict[str, Callable[[Results], Any]] = {
    "synthetic-network": _network,
    "synthetic-method": _method,
    "edge-classification-figure": _edges,
    "means": _means,
    "runtime": _runtime,
    "link-prediction-figure": _links,
    "ablations": _ablations,
}
