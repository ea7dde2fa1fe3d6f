"""The figures of the paper and of the pages, from rows; matplotlib without pyplot."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import isfinite
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from numpy.typing import NDArray
from scipy.sparse import coo_array

from tdlg.linegraph.decay import Gaussian
from tdlg.linegraph.operator import LineGraph
from tdlg_paper.blocks import BlockSample
from tdlg_paper.published import Estimate, paper_auc
from tdlg_paper.recipes import ABLATED, DATASETS, EDGE, EXTRAPOLATIVE, INTERPOLATIVE, LINEUP, Entry, entries
from tdlg_paper.results import NO_DATA, Results
from tdlg_paper.synthetic import BANDWIDTH, embeddings, sample

Floats = NDArray[np.float64]

# Okabe and Ito's colours, which colour-blind readers can tell apart
BLUE, VERMILLION, GREEN, ORANGE, SKY, PURPLE = "#0072B2", "#D55E00", "#009E73", "#E69F00", "#56B4E9", "#CC79A7"
INK, GREY, PALE = "#222222", "#767676", "#D9D9D9"
COLOURS = (BLUE, GREEN, ORANGE, PURPLE, SKY, VERMILLION)
KIND_COLOURS = (BLUE, ORANGE, GREEN, SKY, VERMILLION, PURPLE)
OF_KIND = {"TDLG": BLUE, "prior method": GREEN, "further method": ORANGE, "reference": PURPLE}
MARKERS = "osD^vP"
WIDTH, DPI = 9.0, 144  # inches, and dots per inch
CHANCE = 50.0  # per cent of AUC
LIFT = 0.15  # distance of our interval above the middle of a bar, and of the paper's below it
CELLS = 200  # the line graph is drawn as means over a grid with this number of cells per side
SHORT = {EDGE: "edge classification", INTERPOLATIVE: "interpolative", EXTRAPOLATIVE: "extrapolative"}
STYLE: dict[Any, Any] = {
    "axes.axisbelow": True,
    "axes.edgecolor": GREY,
    "axes.labelcolor": INK,
    "axes.labelsize": 9,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlesize": 10,
    "figure.facecolor": "white",
    "font.family": "DejaVu Sans",
    "font.size": 9,
    "legend.frameon": False,
    "text.color": INK,
    "xtick.color": GREY,
    "xtick.labelcolor": INK,
    "ytick.color": GREY,
    "ytick.labelcolor": INK,
}


def draw_figures(results: Results, folder: Path) -> dict[str, str]:
    """Draw every figure that has rows into a folder; the file names by recipe."""
    drawn = {}
    for name, draw in FIGURES.items():
        with rc_context(STYLE):
            figure = draw(results)
            if figure is not None:
                folder.mkdir(parents=True, exist_ok=True)
                figure.savefig(folder / f"{name}.png", dpi=DPI, metadata={"Software": None})
                drawn[name] = f"{name}.png"
    return drawn


def _panels(height: float, rows: int, columns: int, **options: Any) -> tuple[Figure, Any]:
    figure = Figure(figsize=(WIDTH, height), layout="constrained")
    return figure, figure.subplots(rows, columns, squeeze=False, **options)


# ---- bars by method


def _auc_bars(results: Results, tasks: Sequence[str]) -> Figure | None:
    """AUCs of the selected methods beside the paper's: one column of panels per data set, one row per task."""
    methods = entries(tasks[0], selected=True)
    found = {(task, name): _by_method(methods, results, task, name) for task in tasks for name in DATASETS}
    if not any(found.values()):
        return None
    height = len(tasks) * (0.26 * len(methods) + 0.75) + 0.6
    figure, panels = _panels(height, len(tasks), len(DATASETS), sharex="row", sharey=True)
    for task, row in zip(tasks, panels, strict=True):
        for name, ax in zip(DATASETS, row, strict=True):
            printed = {entry: auc for entry in methods if (auc := paper_auc().get((task, entry.name, name)))}
            _bars(ax, methods, found[task, name], printed, "not run" if results.has_data(name) else NO_DATA)
            ax.set_title(name if task == tasks[0] else "")
        row[0].set_ylabel(SHORT[task] if len(tasks) > 1 else "")
        row[len(row) // 2].set_xlabel("AUC, %")
    _bar_legend(
        figure, [entry for here in found.values() for entry in here], "the paper's value, with its 95 % interval"
    )
    return figure


def _by_method(methods: Sequence[Entry], results: Results, task: str, dataset: str) -> dict[Entry, Estimate]:
    return {entry: auc for entry in methods if (auc := results.auc(task, entry, dataset))}


def _mean_bars(results: Results) -> Figure | None:
    """Means over the four data sets that all methods can be run on, for methods that have rows of all four."""
    found, printed = {}, {}
    for task in SHORT:
        ours = {entry: [results.auc(task, entry, name) for name in ABLATED] for entry in entries(task)}
        found[task] = {entry: mean for entry, aucs in ours.items() if (mean := _mean(aucs))}
        theirs = {entry: [paper_auc().get((task, entry.name, name)) for name in ABLATED] for entry in entries(task)}
        printed[task] = {entry: mean for entry, aucs in theirs.items() if (mean := _mean(aucs))}
    if not any(found.values()):
        return None
    figure, panels = _panels(0.28 * len(LINEUP) + 1.2, 1, len(SHORT), sharex=True, sharey=True)
    for (task, title), ax in zip(SHORT.items(), panels[0], strict=True):
        _bars(ax, LINEUP, found[task], printed[task], "not run")
        ax.set(title=title, xlabel="mean AUC, %")
    _bar_legend(figure, [entry for here in found.values() for entry in here], "the paper's value")
    return figure


def _mean(aucs: Sequence[Estimate | None]) -> Estimate | None:
    known = [auc.mean for auc in aucs if auc is not None]
    return Estimate(sum(known) / len(known), float("nan"), 0) if len(known) == len(ABLATED) else None


def _bars(
    ax: Axes,
    methods: Sequence[Entry],
    ours: Mapping[Entry, Estimate],
    printed: Mapping[Entry, Estimate],
    missing: str,
) -> None:
    """One panel of bars from chance; the paper's markers are a little lower, so that both intervals are visible."""
    ax.axvline(CHANCE, color=GREY, linewidth=0.8, zorder=1)
    look: dict[str, Any] = {"fmt": "D", "markersize": 4, "mfc": "white", "elinewidth": 0.9, "zorder": 5}
    for place, entry in enumerate(methods):
        if (auc := ours.get(entry)) is not None:
            mean, interval = 100 * auc.mean, 100 * auc.half_width
            ax.barh(place, mean - CHANCE, left=CHANCE, color=OF_KIND[entry.kind], height=0.62, zorder=2)
            if isfinite(interval):
                ax.errorbar(mean, place - LIFT, xerr=interval, color=INK, elinewidth=1.2, capsize=2, zorder=4)
        if (auc := printed.get(entry)) is not None:
            width = 100 * auc.half_width if isfinite(auc.half_width) else None
            at = place + LIFT * (entry in ours)
            ax.errorbar(100 * auc.mean, at, xerr=width, color=VERMILLION, **look)
    if not ours:
        ax.annotate(missing, (0.5, 0.04), xycoords="axes fraction", ha="center", fontsize=8, color=GREY)
    _method_axis(ax, methods)
    ax.set_xlim(min(ax.get_xlim()[0], 46), 103)
    ax.grid(axis="x", color=PALE, linewidth=0.6)


def _method_axis(ax: Axes, methods: Sequence[Entry]) -> None:
    ax.set_yticks(range(len(methods)), [entry.name for entry in methods])
    ax.set_ylim(len(methods) - 0.4, -0.6)
    ax.tick_params(axis="y", length=0)


def _bar_legend(figure: Figure, drawn: Sequence[Entry], paper: str | None = None) -> None:
    kinds = [kind for kind in OF_KIND if any(entry.kind == kind for entry in drawn)]
    handles: list[Any] = [Patch(color=OF_KIND[kind], label=kind if kind == "TDLG" else f"{kind}s") for kind in kinds]
    if paper is not None:
        handles.append(Line2D([], [], color=VERMILLION, label=paper, marker="D", markersize=4, markerfacecolor="white"))
    figure.legend(handles=handles, loc="outside lower center", ncols=len(handles))


def _runtime_bars(results: Results) -> Figure | None:
    """Mean seconds of a trial on a logarithmic scale, one panel per data set."""
    found = {
        (entry, name): one.seconds for entry in LINEUP for name in DATASETS if (one := results.runtime(entry, name))
    }
    if not found:
        return None
    methods = [entry for entry in LINEUP if any(entry == of for of, _ in found)]
    datasets = [name for name in DATASETS if any(name == of for _, of in found)]
    figure, panels = _panels(0.3 * len(methods) + 1.2, 1, len(datasets), sharex=True, sharey=True)
    least, most = 10 ** np.floor(np.log10(min(found.values()))), max(found.values())
    for name, ax in zip(datasets, panels[0], strict=True):
        for place, entry in enumerate(methods):
            if (seconds := found.get((entry, name))) is not None:
                ax.barh(place, seconds - least, left=least, color=OF_KIND[entry.kind], height=0.62)
                text = f"{seconds:.2f}" if seconds < 10 else f"{seconds:.0f}"
                ax.annotate(text, (seconds, place), (3, 0), textcoords="offset points", va="center", fontsize=8)
        ax.set(xscale="log", xlim=(least, most * 8), title=name, xlabel="seconds per trial")
        _method_axis(ax, methods)
    _bar_legend(figure, methods)
    return figure


def question_bars(table: pl.DataFrame, questions: Mapping[str, str], methods: Mapping[str, str]) -> Figure:
    """The same methods on several tasks: one panel per task, one group of bars per data set."""
    with rc_context(STYLE):
        figure, panels = _panels(2.9, 1, len(questions), sharey=True)
        datasets = table["dataset"].unique(maintain_order=True).to_list()
        mean = {(row["task"], row["dataset"], row["method"]): 100 * row["mean"] for row in table.iter_rows(named=True)}
        width = 0.8 / len(methods)
        for ax, (task, title) in zip(panels[0], questions.items(), strict=True):
            for number, (method, name) in enumerate(methods.items()):
                means = [mean.get((task, dataset, method), np.nan) for dataset in datasets]
                places = np.arange(len(datasets)) + (number - (len(methods) - 1) / 2) * width
                label = name if ax is panels[0][0] else None
                ax.bar(places, means, 0.92 * width, color=(PALE, SKY, BLUE)[number % 3], label=label)
            ax.set(title=title, ylim=(CHANCE, 100))
            ax.set_xticks(range(len(datasets)), datasets, rotation=20)
            ax.tick_params(length=0)
        panels[0][0].set_ylabel("AUC, %")
        figure.legend(loc="outside lower center", ncols=len(methods))
        return figure


# ---- lines


def _ablations(results: Results) -> Figure | None:
    """Mean AUCs as a share of the best: by bandwidth on the left, by normalisation on the right."""
    bandwidth, normalisation = results.ablation("bandwidth"), results.ablation("normalisation")
    if not any(bandwidth.values()) and not any(normalisation.values()):
        return None
    figure, (panels,) = _panels(3.9, 1, 2, sharey=True, width_ratios=(2, 1))
    panels[0].axvline(0.1, color=PALE, linewidth=6, zorder=0)
    panels[0].set(xscale="log", xlabel="bandwidth, in standard deviations of the times (grey: the paper's)")
    panels[0].set_ylabel("mean AUC, % of the best")
    panels[1].set_xlabel("normalisation")
    panels[1].margins(x=0.15)
    kinds: tuple[Callable[[str], Any], ...] = (float, str)
    for ax, found, kind in zip(panels, (bandwidth, normalisation), kinds, strict=True):
        for place, dataset in enumerate(ABLATED):
            means = {kind(value): auc.mean for value, auc in found[dataset].items()}
            shares = [100 * mean / max(means.values()) for mean in means.values()]
            look = {"color": COLOURS[place], "marker": MARKERS[place], "markersize": 5, "linewidth": 1.5}
            ax.plot(list(means), shares, label=dataset if ax is panels[0] else None, **look)
        ax.grid(axis="y", color=PALE, linewidth=0.6)
    figure.legend(loc="outside lower center", ncols=len(ABLATED))
    return figure


# ---- the synthetic network


def _network(results: Results) -> Figure | None:
    """A network of two periods: the adjacency of early edges, late ones and all, and a histogram of the times."""
    if results.draws.is_empty():
        return None
    drawn = sample()
    figure, (panels,) = _panels(2.75, 1, 4)
    early = drawn.period == 0
    parts = {"early edges": early, "late edges": ~early, "all edges": np.ones(len(early), bool)}
    counts = [_adjacency(drawn, kept) for kept in parts.values()]
    most = max(float(count.max()) for count in counts[:2])
    for title, count, ax in zip(parts, counts, panels[:3], strict=True):
        ax.imshow(count, cmap="Greys", vmin=0, vmax=most, interpolation="nearest")
        ax.set_title(title)
        border = np.bincount(drawn.community)[0]
        middles = border / 2 - 0.5, (border + len(count)) / 2 - 0.5
        _divided(ax, border - 0.5, middles, drawn.model.names)
    time = np.asarray(drawn.edges.time, float)
    bins = np.linspace(time.min(), time.max(), 41).tolist()
    for kept, name, colour in ((early, "early", BLUE), (~early, "late", ORANGE)):
        panels[3].hist(time[kept], bins=bins, color=colour, alpha=0.75, label=name)
    panels[3].set(xlabel="time", ylabel="edges", title="times", box_aspect=1)
    panels[3].set_ylim(0, panels[3].get_ylim()[1] * 1.22)
    panels[3].legend(loc="upper center", ncols=2, handlelength=1, columnspacing=1)
    return figure


def _adjacency(drawn: BlockSample, kept: NDArray[np.bool_]) -> Floats:
    """The number of selected edges between each two nodes, in the order of their ids."""
    place, edges = np.argsort(np.argsort(drawn.edges.node_ids)), drawn.edges[kept]
    count = np.zeros((drawn.edges.n_nodes,) * 2)
    np.add.at(count, (place[edges.src_code], place[edges.dst_code]), 1.0)
    return count + count.T


def _divided(ax: Axes, border: float, middles: Sequence[float], names: Sequence[str]) -> None:
    """Lines between two parts of a matrix, and their names at the sides."""
    ax.axhline(border, color=VERMILLION, linewidth=0.8)
    ax.axvline(border, color=VERMILLION, linewidth=0.8)
    ax.set_xticks(middles, names)
    ax.set_yticks(middles, names)
    ax.tick_params(length=0)


def _method(results: Results) -> Figure | None:
    """The line graph of a network, and the embeddings of edges by kind and of nodes by community."""
    if results.draws.is_empty():
        return None
    drawn = sample()
    of_edges, of_nodes = embeddings(drawn)
    figure, ((graph, edges, nodes),) = _panels(3.9, 1, 3)
    means = _cells(LineGraph(drawn.edges, decay=Gaussian(BANDWIDTH)).to_csr())
    image = graph.imshow(means, cmap="Greys", vmin=0, vmax=float(np.quantile(means, 0.99)), extent=(0, 1, 1, 0))
    border = float(np.mean(drawn.period == 0))
    _divided(graph, border, (border / 2, (1 + border) / 2), ("early", "late"))
    graph.set_title("line graph, early edges first")
    bar = graph.inset_axes((0.1, -0.3, 0.8, 0.05))
    figure.colorbar(image, cax=bar, orientation="horizontal", label="mean weight of a cell")
    order = np.random.default_rng(0).permutation(len(drawn.kind))  # so that no kind lies on top of all others
    colours = np.array(KIND_COLOURS)[drawn.kind]
    edges.scatter(*of_edges[order].T, c=colours[order], s=4, linewidths=0, alpha=0.8)
    below: dict[str, Any] = {"loc": "upper center", "bbox_to_anchor": (0.5, -0.22)}
    dots = [
        Line2D([], [], color=colour, marker="o", linestyle="", markersize=5, label=kind)
        for colour, kind in zip(KIND_COLOURS, drawn.model.kinds, strict=True)
    ]
    edges.legend(handles=dots, ncols=2, columnspacing=1, handletextpad=0.2, **below)
    for place, name in enumerate(drawn.model.names):
        here, colour = of_nodes[drawn.community == place].T, (BLUE, VERMILLION)[place]
        nodes.scatter(*here, color=colour, marker=MARKERS[place], s=18, label=f"node of {name}")
    nodes.legend(**below)
    for ax, title in ((edges, "edge embeddings"), (nodes, "node embeddings")):
        ax.set(xlabel="second eigenvector", ylabel="third eigenvector", title=title, box_aspect=1)
        ax.locator_params(nbins=4)
    return figure


def _cells(H: Any) -> Floats:
    """The means of a matrix over a coarse grid of cells."""
    entries, side = coo_array(H), min(CELLS, H.shape[0])
    cell = np.arange(H.shape[0]) * side // H.shape[0]
    sums = np.zeros((side, side))
    np.add.at(sums, (cell[entries.row], cell[entries.col]), entries.data)
    return sums / np.outer(np.bincount(cell), np.bincount(cell))


FIGURES: dict[str, Callable[[Results], Figure | None]] = {
    "synthetic-network": _network,
    "synthetic-method": _method,
    "edge-classification-figure": lambda results: _auc_bars(results, (EDGE,)),
    "means": _mean_bars,
    "runtime": _runtime_bars,
    "link-prediction-figure": lambda results: _auc_bars(results, (INTERPOLATIVE, EXTRAPOLATIVE)),
    "ablations": _ablations,
}
