"""Figures from result rows and embeddings; needs the extra `plots`.

Each function returns a matplotlib Figure outside of pyplot: show it in a notebook, or call its
`savefig`. Means and half widths are shares of 1, as `summarise` gives them; they are drawn as per cent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import wraps
from typing import TYPE_CHECKING, Any, ParamSpec

import numpy as np
from numpy.typing import NDArray

from tdlg.datasets.blocks import BlockSample

if TYPE_CHECKING:
    import polars as pl
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = [
    "ablations",
    "auc_bars",
    "mean_bars",
    "question_bars",
    "runtime_bars",
    "synthetic_method",
    "synthetic_network",
]

Floats = NDArray[np.float64]
P = ParamSpec("P")

# Okabe and Ito's colours, which colour-blind readers can tell apart
BLUE, VERMILLION, GREEN, ORANGE, SKY, PURPLE = "#0072B2", "#D55E00", "#009E73", "#E69F00", "#56B4E9", "#CC79A7"
INK, GREY, PALE = "#222222", "#767676", "#D9D9D9"
GROUP_COLOURS = (BLUE, GREEN, ORANGE, PURPLE, SKY, VERMILLION)
KIND_COLOURS = (BLUE, ORANGE, GREEN, SKY, VERMILLION, PURPLE)
MARKERS = "osD^vP"
WIDTH = 9.0  # inches
PAPER = "the paper's value, with its 95 % interval"
MEASURED = "measured"  # name in the legend of methods without a group
CHANCE = 50.0  # per cent of AUC
LIFT = 0.15  # distance of our interval above the middle of a bar, and of the paper's below it
ROOM = 0.21  # share of a panel that a bar must have for its figure to fit
CELLS = 200  # a large matrix is drawn as means over a grid with this number of cells per side
STYLE: dict[Any, Any] = {
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


def _styled(draw: Callable[P, Figure]) -> Callable[P, Figure]:
    """Draw with this module's style, and leave that of others as it was."""

    @wraps(draw)
    def styled(*args: P.args, **kwargs: P.kwargs) -> Figure:
        from matplotlib import rc_context

        with rc_context(STYLE):
            return draw(*args, **kwargs)

    return styled


def _figure(width: float, height: float) -> Figure:
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


# ---- bars


@_styled
def auc_bars(
    table: pl.DataFrame,
    paper: pl.DataFrame | None = None,
    *,
    datasets: Sequence[str] | None = None,
    methods: Sequence[str] | None = None,
    groups: Mapping[str, str] | None = None,
    missing: Mapping[str, str] | None = None,
) -> Figure:
    """Draw mean AUCs as bars from chance, with 95 % intervals: one column of panels per data set, one row per task.

    Parameters
    ----------
    table
        Columns dataset, task, method, mean, half_width: see `summarise`.
    paper
        The same columns with published values, drawn as diamonds.
    datasets, methods
        The data sets and methods to show, in this order. By default all of the two tables.
    groups
        The kind of each method, by which it is coloured and listed in the legend.
    missing
        Text in the panel of a data set without bars. By default "not run".

    Returns
    -------
    matplotlib.figure.Figure
    """
    tables = [table] if paper is None else [table, paper]
    datasets = _in_order(tables, "dataset") if datasets is None else list(datasets)
    methods = _in_order(tables, "method") if methods is None else list(methods)
    tasks = _in_order(tables, "task")
    figure = _figure(WIDTH, len(tasks) * (0.26 * len(methods) + 0.75) + 0.6)
    panels = figure.subplots(len(tasks), len(datasets), sharex="row", sharey=True, squeeze=False)
    for task, row in zip(tasks, panels, strict=True):
        _auc_axis(row[0], tables, task)
        for dataset, ax in zip(datasets, row, strict=True):
            said = (missing or {}).get(dataset, "not run")
            _auc_panel(ax, [_picked(one, task=task, dataset=dataset) for one in tables], methods, groups, said)
            if task == tasks[0]:
                ax.set_title(dataset)
        row[0].set_ylabel(task if len(tasks) > 1 else "")
        row[len(row) // 2].set_xlabel("AUC, %")
    _method_axis(panels.ravel(), methods)
    _bar_legend(figure, _barred(table, methods), groups, PAPER if paper is not None else None)
    return figure


@_styled
def mean_bars(
    table: pl.DataFrame,
    paper: pl.DataFrame | None = None,
    *,
    methods: Sequence[str] | None = None,
    groups: Mapping[str, str] | None = None,
) -> Figure:
    """Draw AUCs that are means over data sets as bars from chance, one panel per task.

    Parameters
    ----------
    table
        Columns task, method, mean.
    paper, methods, groups
        The same as for `auc_bars`.

    Returns
    -------
    matplotlib.figure.Figure
    """
    tables = [table] if paper is None else [table, paper]
    methods = _in_order(tables, "method") if methods is None else list(methods)
    tasks = _in_order(tables, "task")
    figure = _figure(WIDTH, 0.28 * len(methods) + 1.2)
    panels = figure.subplots(1, len(tasks), sharex=True, sharey=True, squeeze=False)[0]
    _auc_axis(panels[0], tables)
    for task, ax in zip(tasks, panels, strict=True):
        _auc_panel(ax, [_picked(one, task=task) for one in tables], methods, groups, "not run")
        ax.set_title(task)
        ax.set_xlabel("mean AUC, %")
    _method_axis(panels, methods)
    _bar_legend(figure, _barred(table, methods), groups, "the paper's value" if paper is not None else None)
    return figure


@_styled
def runtime_bars(
    table: pl.DataFrame, *, datasets: Sequence[str] | None = None, groups: Mapping[str, str] | None = None
) -> Figure:
    """Draw the mean seconds of a trial on a logarithmic scale, one panel per data set.

    Parameters
    ----------
    table
        Columns dataset, method, seconds: see `summarise`.
    datasets, groups
        The same as for `auc_bars`.

    Returns
    -------
    matplotlib.figure.Figure
    """
    datasets = _in_order([table], "dataset") if datasets is None else list(datasets)
    methods = _in_order([table], "method")
    figure = _figure(WIDTH, 0.3 * len(methods) + 1.2)
    panels = figure.subplots(1, len(datasets), sharex=True, sharey=True, squeeze=False)[0]
    least, most = 10 ** np.floor(np.log10(table["seconds"].min())), float(np.max(table["seconds"].to_numpy()))  # type: ignore[arg-type]
    for dataset, ax in zip(datasets, panels, strict=True):
        rows = _picked(table, dataset=dataset)
        for method, row in rows.items():
            place, seconds = methods.index(method), row["seconds"]
            ax.barh(place, seconds - least, left=least, color=_colour(method, groups), height=0.62)
            ax.annotate(
                _seconds(seconds), (seconds, place), (3, 0), textcoords="offset points", va="center", fontsize=8
            )
        if not rows:
            _say(ax, "not run")
        ax.set_xscale("log")
        ax.set_xlim(least, most * 8)
        ax.set_title(dataset)
        ax.set_xlabel("seconds per trial")
    _method_axis(panels, methods)
    _bar_legend(figure, methods, groups, None)
    return figure


@_styled
def question_bars(table: pl.DataFrame, questions: Mapping[str, str], methods: Mapping[str, str]) -> Figure:
    """The same methods on several tasks: one panel per task, one group of bars per data set.

    Parameters
    ----------
    table
        The result of `summarise`.
    questions
        Titles of the panels, by the names of the tasks.
    methods
        Names in the legend, by the names of the methods.
    """
    figure = _figure(WIDTH, 2.9)
    panels = figure.subplots(1, len(questions), sharey=True, squeeze=False)[0]
    datasets = _in_order([table], "dataset")
    width = 0.8 / len(methods)
    for ax, (task, title) in zip(panels, questions.items(), strict=True):
        for number, (method, name) in enumerate(methods.items()):
            found = [_picked(table, task=task, dataset=dataset).get(method) for dataset in datasets]
            means = [np.nan if row is None else 100 * row["mean"] for row in found]
            places = np.arange(len(datasets)) + (number - (len(methods) - 1) / 2) * width
            colour = (PALE, SKY, BLUE)[number % 3]
            ax.bar(places, means, 0.92 * width, color=colour, label=name if ax is panels[0] else None)
        ax.set(title=title, ylim=(CHANCE, 100))
        ax.set_xticks(range(len(datasets)), datasets, rotation=20)
        ax.tick_params(length=0)
    panels[0].set_ylabel("AUC, %")
    figure.legend(loc="outside lower center", ncols=len(methods))
    return figure


def _seconds(value: float) -> str:
    return f"{value:.2f}" if value < 10 else f"{value:.0f}"


def _auc_panel(
    ax: Axes,
    tables: Sequence[dict[str, dict[str, Any]]],
    methods: Sequence[str],
    groups: Mapping[str, str] | None,
    missing: str,
) -> None:
    """One panel: our rows by method and, if given, the paper's, with markers a little lower so that both are visible."""
    rows, printed = tables[0], tables[1] if len(tables) > 1 else {}
    ax.axvline(CHANCE, color=GREY, linewidth=0.8, zorder=1)
    for method, row in rows.items():
        place, mean = methods.index(method), 100 * row["mean"]
        ax.barh(place, mean - CHANCE, left=CHANCE, color=_colour(method, groups), height=0.62, zorder=2)
        if np.isfinite(width := 100 * row.get("half_width", np.nan)):
            ax.errorbar(mean, place - LIFT, xerr=width, color=INK, elinewidth=1.2, capsize=2, zorder=4)
        low, high = ax.get_xlim()
        if mean - CHANCE >= ROOM * (high - low):
            _value(ax, mean, place, _colour(method, groups))
    for method, row in printed.items():
        place, mean, width = methods.index(method), 100 * row["mean"], 100 * row.get("half_width", np.nan)
        error = width if np.isfinite(width) else None
        look: dict[str, Any] = {"fmt": "D", "markersize": 4, "mfc": "white", "elinewidth": 0.9, "zorder": 5}
        ax.errorbar(mean, place + LIFT * (method in rows), xerr=error, color=VERMILLION, **look)
    if not rows:
        _say(ax, missing)
    ax.set_axisbelow(True)
    ax.grid(axis="x", color=PALE, linewidth=0.6)


def _value(ax: Axes, mean: float, place: int, colour: str) -> None:
    """The value at the foot of its bar, where there is no marker."""
    ink = "white" if colour in (BLUE, GREEN) else INK
    look: dict[str, Any] = {"va": "center", "fontsize": 7.5, "color": ink, "zorder": 6}
    ax.annotate(f"{mean:.1f}", (CHANCE, place), (3, 0), textcoords="offset points", **look)


def _auc_axis(ax: Axes, tables: Sequence[pl.DataFrame], task: str | None = None) -> None:
    """From a little below the least value, or chance, to 100; panels that share the axis have the same limits."""
    rows = [row for table in tables for row in table.iter_rows(named=True) if task in (None, row["task"])]
    ends = [row["mean"] - np.nan_to_num(row.get("half_width", 0.0)) for row in rows]
    least = min([CHANCE, *(100 * end for end in ends)])
    ax.set_xlim(max(least - 4, -2), 103)
    ax.set_xticks([tick for tick in (0, 25, 50, 75, 100) if tick >= least - 4])


def _method_axis(panels: Iterable[Axes], methods: Sequence[str]) -> None:
    for ax in panels:
        ax.set_yticks(range(len(methods)), methods)
        ax.set_ylim(len(methods) - 0.4, -0.6)
        ax.tick_params(axis="y", length=0)


def _barred(table: pl.DataFrame, methods: Sequence[str]) -> list[str]:
    """The methods that have a bar."""
    return [method for method in methods if method in set(table["method"])]


def _say(ax: Axes, text: str) -> None:
    box = {"facecolor": "white", "edgecolor": "none", "pad": 1.5}
    ax.annotate(text, (0.5, 0.04), xycoords="axes fraction", ha="center", va="bottom", fontsize=8, color=GREY, bbox=box)


def _colour(method: str, groups: Mapping[str, str] | None) -> str:
    """The colour of a method's kind, by the order of the kinds: a kind has the same colour in every figure."""
    kinds = list(dict.fromkeys([*(groups or {}).values(), MEASURED]))
    return GROUP_COLOURS[kinds.index(_kind(method, groups)) % len(GROUP_COLOURS)]


def _kind(method: str, groups: Mapping[str, str] | None) -> str:
    return (groups or {}).get(method, MEASURED)


def _bar_legend(figure: Figure, barred: Sequence[str], groups: Mapping[str, str] | None, paper: str | None) -> None:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    kinds = {_kind(method, groups): _colour(method, groups) for method in barred}
    handles: list[Any] = [Patch(color=colour, label=kind) for kind, colour in kinds.items()]
    if paper is not None:
        marker = {"marker": "D", "linestyle": "-", "markersize": 4, "markerfacecolor": "white"}
        handles.append(Line2D([], [], color=VERMILLION, label=paper, **marker))  # type: ignore[arg-type]
    figure.legend(handles=handles, loc="outside lower center", ncols=len(handles))


def _in_order(tables: Iterable[pl.DataFrame], column: str) -> list[str]:
    return list(dict.fromkeys(value for table in tables for value in table[column]))


def _picked(table: pl.DataFrame, **values: str) -> dict[str, dict[str, Any]]:
    """Rows with these values, by method."""
    rows = table.iter_rows(named=True)
    return {row["method"]: row for row in rows if all(row[column] == value for column, value in values.items())}


# ---- lines


@_styled
def ablations(bandwidth: pl.DataFrame | None, normalisation: pl.DataFrame | None) -> Figure:
    """Draw mean AUCs as a share of the best: by bandwidth on the left, by normalisation on the right.

    Parameters
    ----------
    bandwidth
        Columns dataset, value (in standard deviations of the times), mean; None to leave out the panel.
    normalisation
        Columns dataset, value (its name), mean; None to leave out the panel.

    Returns
    -------
    matplotlib.figure.Figure
    """
    given = [table for table in (bandwidth, normalisation) if table is not None]
    figure = _figure(WIDTH, 3.9)
    widths = [2 if table is bandwidth else 1 for table in given]
    panels = figure.subplots(1, len(given), sharey=True, squeeze=False, width_ratios=widths)[0]
    datasets = _in_order(given, "dataset")
    for table, ax in zip(given, panels, strict=True):
        if table is bandwidth:
            ax.axvline(0.1, color=PALE, linewidth=6, zorder=0)
            where: dict[str, Any] = {"xycoords": ("data", "axes fraction"), "textcoords": "offset points"}
            ax.annotate("the paper's choice", (0.1, 0.02), (4, 0), color=GREY, fontsize=8, **where)
            ax.set_xscale("log")
            ax.set_xlabel("bandwidth, in standard deviations of the times")
        else:
            ax.set_xlabel("normalisation")
            ax.margins(x=0.15)
        _share_lines(ax, table, datasets)
    panels[0].set_ylabel("mean AUC, % of the best")
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(labels))
    return figure


def _share_lines(ax: Axes, table: pl.DataFrame, datasets: Sequence[str]) -> None:
    for place, dataset in enumerate(datasets):
        rows = [row for row in table.iter_rows(named=True) if row["dataset"] == dataset]
        if not rows:
            continue
        top = max(row["mean"] for row in rows)
        ax.plot(
            [row["value"] for row in rows],
            [100 * row["mean"] / top for row in rows],
            color=GROUP_COLOURS[place % len(GROUP_COLOURS)],
            marker=MARKERS[place % len(MARKERS)],
            markersize=5,
            linewidth=1.5,
            label=dataset,
        )
    ax.grid(axis="y", color=PALE, linewidth=0.6)
    ax.set_axisbelow(True)


# ---- the synthetic network


@_styled
def synthetic_network(sample: BlockSample) -> Figure:
    """Draw a network of two periods: the adjacency of early edges, late ones and all, and a histogram of the times.

    Parameters
    ----------
    sample
        The sample of `make_tsbm`.

    Returns
    -------
    matplotlib.figure.Figure
    """
    figure = _figure(WIDTH, 2.75)
    *panels, last = figure.subplots(1, 4)
    parts = {
        "early edges": sample.period == 0,
        "late edges": sample.period > 0,
        "all edges": np.ones(len(sample.kind), bool),
    }
    counts = [_adjacency(sample, kept) for kept in parts.values()]
    for title, count, ax in zip(parts, counts, panels, strict=True):
        ax.imshow(
            count, cmap="Greys", vmin=0, vmax=max(float(one.max()) for one in counts[:2]), interpolation="nearest"
        )
        _community_axes(ax, sample)
        ax.set_title(title)
    _times(last, sample)
    return figure


def _adjacency(sample: BlockSample, kept: NDArray[np.bool_]) -> Floats:
    """The number of selected edges between each two nodes, in the order of their ids."""
    place = np.argsort(np.argsort(sample.edges.node_ids))
    edges = sample.edges[kept]
    count = np.zeros((sample.edges.n_nodes,) * 2)
    np.add.at(count, (place[edges.src_code], place[edges.dst_code]), 1.0)
    return count + count.T


def _community_axes(ax: Axes, sample: BlockSample) -> None:
    """Lines between the communities, and their names at the sides."""
    ends = np.cumsum(np.bincount(sample.community, minlength=len(sample.model.names)))
    middles = ends - np.diff(ends, prepend=0) / 2
    for end in ends[:-1]:
        ax.axhline(end - 0.5, color=VERMILLION, linewidth=0.8)
        ax.axvline(end - 0.5, color=VERMILLION, linewidth=0.8)
    ax.set_xticks(middles - 0.5, sample.model.names)
    ax.set_yticks(middles - 0.5, sample.model.names)
    ax.tick_params(length=0)
    ax.spines[["top", "right"]].set_visible(True)


def _times(ax: Axes, sample: BlockSample) -> None:
    time = np.asarray(sample.edges.time, float)
    bins = np.linspace(time.min(), time.max(), 41)
    for period, (name, colour) in enumerate((("early", BLUE), ("late", ORANGE))):
        kept = (sample.period == 0) == (period == 0)
        ax.hist(time[kept], bins=bins.tolist(), color=colour, alpha=0.75, label=name)
    ax.set_xlabel("time")
    ax.set_ylabel("edges")
    ax.set_title("times")
    ax.set_box_aspect(1)
    ax.set_ylim(0, ax.get_ylim()[1] * 1.22)
    ax.legend(loc="upper center", ncols=2, handlelength=1, columnspacing=1)


@_styled
def synthetic_method(sample: BlockSample, H: Any, edge_vectors: Floats, node_vectors: Floats) -> Figure:
    """Draw the method on a network: its line graph, and the embeddings of edges by kind and of nodes by community.

    Parameters
    ----------
    sample
        The sample of `make_tsbm`; its edges are in the order of their kinds, the early ones first.
    H
        The line graph as a matrix, dense or sparse, (n_edges, n_edges).
    edge_vectors, node_vectors
        Two coordinates per edge, and two per node.

    Returns
    -------
    matplotlib.figure.Figure
    """
    figure = _figure(WIDTH, 3.9)
    graph, edges, nodes = figure.subplots(1, 3)
    image = _line_graph(graph, H, sample)
    bar = graph.inset_axes((0.1, -0.3, 0.8, 0.05))
    figure.colorbar(image, cax=bar, orientation="horizontal", label="mean weight of a cell")
    order = np.random.default_rng(0).permutation(len(sample.kind))  # so that no kind lies on top of all others
    colours = np.array(KIND_COLOURS)[sample.kind % len(KIND_COLOURS)]
    edges.scatter(*edge_vectors[order].T, c=colours[order], s=4, linewidths=0, alpha=0.8)
    edges.set_title("edge embeddings")
    for place, name in enumerate(sample.model.names):
        edges_of = node_vectors[sample.community == place].T
        nodes.scatter(
            *edges_of, color=(BLUE, VERMILLION)[place % 2], marker=MARKERS[place], s=18, label=f"node of {name}"
        )
    nodes.set_title("node embeddings")
    for ax in (edges, nodes):
        ax.set_xlabel("second eigenvector")
        ax.set_ylabel("third eigenvector")
        ax.locator_params(nbins=4)
        ax.set_box_aspect(1)
    _kind_legend(edges, sample)
    nodes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.22))
    return figure


def _line_graph(ax: Axes, H: Any, sample: BlockSample) -> Any:
    means = _cells(H)
    image = ax.imshow(means, cmap="Greys", vmin=0, vmax=float(np.quantile(means, 0.99)), extent=(0, 1, 1, 0))
    border = float(np.mean(sample.period == 0))
    ax.set_xticks([border / 2, (1 + border) / 2], ["early", "late"])
    ax.set_yticks([border / 2, (1 + border) / 2], ["early", "late"], rotation=90, va="center")
    ax.tick_params(length=0)
    ax.axhline(border, color=VERMILLION, linewidth=0.8)
    ax.axvline(border, color=VERMILLION, linewidth=0.8)
    ax.set_title("line graph, early edges first")
    return image


def _cells(H: Any) -> Floats:
    """The means of a matrix over a coarse grid of cells."""
    from scipy.sparse import coo_array

    entries, side = coo_array(H), min(CELLS, H.shape[0])
    cell = np.arange(H.shape[0]) * side // H.shape[0]
    sums = np.zeros((side, side))
    np.add.at(sums, (cell[entries.row], cell[entries.col]), entries.data)
    return sums / np.outer(np.bincount(cell), np.bincount(cell))


def _kind_legend(ax: Axes, sample: BlockSample) -> None:
    from matplotlib.lines import Line2D

    handles = [
        Line2D(
            [], [], color=KIND_COLOURS[place % len(KIND_COLOURS)], marker="o", linestyle="", markersize=5, label=kind
        )
        for place, kind in enumerate(sample.model.kinds)
    ]
    ax.legend(
        handles=handles, loc="upper center", bbox_to_anchor=(0.5, -0.22), ncols=2, columnspacing=1, handletextpad=0.2
    )
