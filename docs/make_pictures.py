"""Draw the pictures of these pages: `python docs/make_pictures.py`; needs the extras `plots` and `serve`, and Chromium.

Every curve and bar is computed or measured, none is drawn by hand. Names as arguments draw only these pictures, for example
`python docs/make_pictures.py report`.
"""

from __future__ import annotations

import itertools
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from tdlg import Laplace, LineGraph, TemporalEdges, make_payments
from tdlg.judge.run import read_results, summarise
from tdlg.linegraph.exponentials import _fit_exponentials, product_error
from tdlg.live.model import LiveModel
from tdlg.serve.demo import fit_on_past, steps
from tdlg.serve.service import Service

HERE = Path(__file__).parent
IMAGES = HERE / "images"
RESULTS = HERE.parent / "results"

PEOPLE = ("ann", "bob", "cai", "dan")
PLACES = {"ann": (0.0, 1.0), "bob": (1.0, 1.0), "cai": (0.0, 0.0), "dan": (1.0, 0.0)}
SRC = ("ann", "bob", "ann", "bob", "cai", "bob")
DST = ("bob", "cai", "cai", "dan", "dan", "cai")
TIME = (1, 2, 4, 5, 7, 8)
BANDWIDTH = 2.0
SHOWN = 3  # the meeting followed through the picture
LAST = 9.0  # where the time lines end

# Okabe and Ito's colours, which colour-blind readers can tell apart
BLUE, VERMILLION, GREEN, PURPLE = "#0072B2", "#D55E00", "#009E73", "#CC79A7"
INK, GREY, PALE = "#222222", "#767676", "#C4C4C4"
STYLE = {
    "axes.edgecolor": GREY,
    "axes.labelcolor": INK,
    "axes.labelsize": 9,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlelocation": "left",
    "axes.titlesize": 10,
    "axes.titleweight": "bold",
    "figure.facecolor": "white",
    "font.family": "DejaVu Sans",
    "font.size": 9,
    "svg.hashsalt": "tdlg",
    "text.color": INK,
    "xtick.color": GREY,
    "xtick.labelcolor": INK,
    "ytick.color": GREY,
    "ytick.labelcolor": INK,
}
WIDTH = 600 / 72  # inches: 600 points are 800 pixels of a browser


def main(*names: str) -> None:
    """Draw these pictures, by default all of them."""
    import matplotlib

    matplotlib.use("agg")
    import matplotlib.pyplot as plt

    for name, draw in {"walk": draw_walk, "waves": draw_waves, "bandwidths": draw_bandwidths}.items():
        if name in names or not names:
            with plt.rc_context(STYLE):
                figure = draw(plt)
                figure.savefig(IMAGES / f"{name}.svg", metadata={"Date": None})
                plt.close(figure)
            print(IMAGES / f"{name}.svg")
    for name, shoot in {"report": shoot_report, "desk": shoot_desk}.items():
        if name in names or not names:
            shoot(IMAGES / f"{name}.png")
            print(IMAGES / f"{name}.png")


def draw_walk(plt: Any) -> Any:
    """Meetings, their events walked both ways, and the sums that each meeting gathers."""
    figure = plt.figure(figsize=(WIDTH, 5.2))
    network, key, lines, bars = (
        figure.add_axes(place)
        for place in (
            (0.01, 0.46, 0.215, 0.43),
            (0.015, 0.095, 0.22, 0.30),
            (0.305, 0.11, 0.385, 0.79),
            (0.80, 0.11, 0.13, 0.79),
        )
    )
    draw_network(network)
    draw_key(key)
    draw_time_lines(lines)
    draw_sums(bars)
    titles = ("Six meetings", "A time line a person, walked both ways", "Each adds its two ends")
    for x, title in zip((0.015, 0.265, 0.735), titles, strict=True):
        figure.text(x, 0.95, title, fontsize=10, fontweight="bold")
    return figure


def draw_network(ax: Any) -> None:
    """Draw people as nodes and meetings as edges, each with its number and time."""
    ax.set(xlim=(-0.22, 1.22), ylim=(-0.22, 1.22))
    ax.axis("off")
    pairs = list(zip(SRC, DST, strict=True))
    for edge, (src, dst) in enumerate(pairs):
        bend = {1: 0.12, 5: -0.12}.get(edge, 0.0)
        start, end = np.array(PLACES[src]), np.array(PLACES[dst])
        across = bend * np.array([start[1] - end[1], end[0] - start[0]])
        s = np.linspace(0, 1, 50)[:, np.newaxis]
        path = (1 - s) * start + s * end + 4 * s * (1 - s) * across
        colour = GREEN if edge == SHOWN else GREY
        ax.plot(*path.T, color=colour, lw=2.6 if edge == SHOWN else 1.4, zorder=1, solid_capstyle="round")
        ax.text(
            *path[25],
            f"{edge}: t = {TIME[edge]}",
            ha="center",
            va="center",
            bbox={"facecolor": "white", "edgecolor": "none", "pad": 1.0},
            zorder=2,
            **emphasis(edge),
        )
    for person, place in PLACES.items():
        ax.scatter(*place, s=760, color="white", edgecolor=INK, linewidth=1.2, zorder=3)
        ax.text(*place, person, ha="center", va="center_baseline", zorder=4)


def draw_key(ax: Any) -> None:
    """Say what the colours mean."""
    ax.set(xlim=(0, 1), ylim=(-0.5, 4.5))
    ax.axis("off")
    words = (
        "sum of the past",
        "sum of the future",
        "what an event reads",
        "the event itself, x = 1",
        "meeting 3, followed",
    )
    for line, (word, colour) in enumerate(zip(words, (BLUE, VERMILLION, INK, PALE, GREEN), strict=True)):
        y = 4 - line
        if colour == INK:
            for x, one in ((0.035, BLUE), (0.095, VERMILLION)):
                ax.scatter(x, y, s=24, color=one, edgecolor="white", linewidth=0.7)
        else:
            ax.barh(y, 0.13, height=0.5, color=colour)
        ax.text(0.19, y, word, va="center_baseline")


def meetings_of(person: str) -> list[int]:
    """The meetings of a person, by time."""
    return [edge for edge in np.argsort(TIME) if person in (SRC[edge], DST[edge])]


def state(times: np.ndarray, now: np.ndarray) -> np.ndarray:
    """The decayed sum of the events strictly before each moment."""
    passed = now[:, np.newaxis] - times
    return np.where(passed > 0, np.exp(-np.abs(passed) / BANDWIDTH), 0.0).sum(axis=1)


def curve(times: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The state before and after every event, and often in between."""
    moments = np.sort(np.concatenate([np.linspace(0, LAST, 73), times, times + 1e-9]))
    return moments, state(times, moments)


def draw_time_lines(ax: Any) -> None:
    """Draw the sum of the past above each line, that of the future below it."""
    pitch = 4.5
    for row, person in enumerate(PEOPLE):
        base = -row * pitch
        edges = meetings_of(person)
        times = np.array([TIME[edge] for edge in edges], float)
        for sign, colour in ((1, BLUE), (-1, VERMILLION)):
            moments, sums = curve(times if sign > 0 else LAST - times[::-1])
            moments = moments if sign > 0 else LAST - moments
            ax.fill_between(moments, base, base + sign * sums, color=colour, alpha=0.16, lw=0, zorder=1)
            ax.plot(moments, base + sign * sums, color=colour, lw=1.5, zorder=2)
            seen = state(times, times) if sign > 0 else state(-times, -times)
            some = seen > 0
            dots = {"s": 24, "color": colour, "edgecolor": "white", "linewidth": 0.7, "zorder": 5}
            ax.scatter(times[some], base + sign * seen[some], **dots)
        ax.plot([0, LAST], [base, base], color=INK, lw=1.0, zorder=3)
        for edge, time in zip(edges, times, strict=True):
            peak = state(times, np.array([time]))[0] + 1
            ax.text(time, base + peak + 0.15, str(edge), ha="center", va="bottom", **emphasis(edge))
        ax.text(-0.25, base, person, ha="right", va="center_baseline")
    ax.set(xlim=(0, LAST), ylim=(-3 * pitch - 2.2, 2.4), xticks=range(10), yticks=[], xlabel="time")
    ax.spines["left"].set_visible(False)


def draw_sums(ax: Any) -> None:
    """Draw what each end of each meeting reads: the past, itself, the future; and their sum beside it."""
    totals = []
    for edge in range(len(TIME)):
        total = 0.0
        for end, person in enumerate((SRC[edge], DST[edge])):
            times = np.array([TIME[other] for other in meetings_of(person)], float)
            here = np.array([TIME[edge]], float)
            parts = state(times, here)[0], 1.0, state(-times, -here)[0]
            y = 2.9 * edge + end
            ax.barh([y] * 3, parts, left=np.cumsum((0, *parts[:2])), height=0.62, color=(BLUE, PALE, VERMILLION))
            ax.text(-0.12, y, person, ha="right", va="center_baseline", **emphasis(edge))
            total += sum(parts)
        ax.text(-0.86, 2.9 * edge + 0.5, str(edge), ha="right", va="center_baseline", **emphasis(edge))
        ax.text(2.15, 2.9 * edge + 0.5, f"{total:.2f}", va="center_baseline", **emphasis(edge))
        totals.append(total)
    ax.set(xlim=(0, 2), ylim=(16.3, -0.9), yticks=[], xticks=(0, 1, 2))
    ax.text(2.15, -0.75, "y =", va="center_baseline")
    edges = TemporalEdges(SRC, DST, TIME)
    np.testing.assert_allclose(totals, LineGraph(edges, decay=Laplace(BANDWIDTH)) @ np.ones(len(TIME)))


def emphasis(edge: int) -> dict[str, str]:
    """How the text about a meeting looks."""
    return {"color": GREEN, "fontweight": "bold"} if edge == SHOWN else {"color": INK}


def draw_waves(plt: Any) -> Any:
    """Draw the Gaussian as a sum of two waves, and the bound of the error by the number of waves."""
    figure, (bell, bounds) = plt.subplots(1, 2, figsize=(WIDTH, 2.9), width_ratios=(1.35, 1))
    figure.subplots_adjust(left=0.065, right=0.985, bottom=0.17, top=0.87, wspace=0.24)
    draw_bell(bell)
    draw_bounds(bounds)
    return figure


def draw_bell(ax: Any) -> None:
    """Draw two waves, and their sum over the Gaussian."""
    d = np.linspace(0, 5, 101)
    rates, coefs = _fit_exponentials(2)
    waves = (coefs * np.exp(-np.outer(d, rates))).real
    ax.axhline(0, color=GREY, lw=0.8)
    ax.plot(d, np.exp(-0.5 * d * d), color=PALE, lw=5, solid_capstyle="round")
    ax.plot(d, waves[:, 1], color=BLUE, lw=1.5)
    ax.plot(d, waves[:, 0], color=VERMILLION, lw=1.5)
    ax.plot(d, waves.sum(axis=1), color=INK, lw=1.4, ls=(0, (4, 2)))
    ax.text(0.42, 1.4, "first wave", color=BLUE)
    ax.text(0.62, -0.62, "second wave", color=VERMILLION)
    pointer = {"arrowprops": {"arrowstyle": "-", "color": GREY, "lw": 0.8}, "va": "center"}
    ax.annotate("their sum (dashed), over the Gaussian (grey)", (1.2, 0.487), (1.6, 0.95), **pointer)
    ax.set(xlim=(0, 5), xlabel="distance in time, in bandwidths", title="A Gaussian, nearly: two damped waves")


def draw_bounds(ax: Any) -> None:
    """Draw the bound of a product's error for each number of waves."""
    n_terms = np.arange(2, 9)
    errors = [product_error(_fit_exponentials(n)) for n in n_terms]
    ax.semilogy(n_terms, errors, "o-", color=GREEN, lw=1.5, ms=5)
    ax.axhline(1e-9, color=PURPLE, lw=1.2, ls=(0, (4, 2)))
    ax.text(1.9, 5e-10, "tol = 1e-9, the default", va="top")
    ax.set(xlabel="waves", ylim=(1e-13, 1e-1), title="The error of a product, at most")
    ax.set_yticks([1e-12, 1e-9, 1e-6, 1e-3], ["1e-12", "1e-9", "1e-6", "1e-3"])
    ax.set_yticks([], minor=True)


QUESTIONS = {"edge classification": "labels missing at random", "forecast": "labels end, then forecast"}


def draw_bandwidths(plt: Any) -> Any:
    """Draw AUC by bandwidth: one column per data set, one row per question, one line per decay, and one for propagation."""
    rows = summarise(read_results(RESULTS / "bandwidth-by-question.csv"))
    ours = summarise(read_results(RESULTS / "leakage.csv")).filter(pl.col("method") == "propagation")
    datasets = rows["dataset"].unique(maintain_order=True).to_list()
    figure, panels = plt.subplots(2, len(datasets), figsize=(WIDTH, 4.5), sharex=True, sharey="row")
    figure.subplots_adjust(left=0.075, right=0.985, bottom=0.2, top=0.87, wspace=0.1, hspace=0.3)
    for line, (task, question) in enumerate(QUESTIONS.items()):
        for ax, dataset in zip(panels[line], datasets, strict=True):
            here = (pl.col("task") == task) & (pl.col("dataset") == dataset)
            draw_lines(ax, rows.filter(here), ours.filter(here)["mean"].item())
        panels[line][0].set_ylabel("AUC, per cent")
        figure.text(0.015, panels[line][0].get_position().y1 + (0.08 if line == 0 else 0.03), question, weight="bold")
    for ax, dataset in zip(panels[0], datasets, strict=True):
        ax.set_title(dataset, fontweight="normal", fontsize=9)
    figure.supxlabel("bandwidth, in standard deviations of the times", y=0.085, fontsize=9)
    figure.legend(*panels[0][0].get_legend_handles_labels(), loc="lower center", ncols=3, frameon=False)
    return figure


def draw_lines(ax: Any, rows: pl.DataFrame, ours: float) -> None:
    """Draw one panel: one line per decay, and a dashed one for propagation, which has no bandwidth."""
    for kind, colour in (("Gaussian", BLUE), ("Laplace", VERMILLION)):
        found = rows.filter(pl.col("settings").str.contains(kind))
        widths = found["settings"].str.extract(r"relative=([0-9.]+)").cast(float)
        ax.semilogx(widths, 100 * found["mean"], "o-", color=colour, lw=1.5, ms=3.5, label=f"the paper's rows, {kind}")
    ax.axhline(100 * ours, color=GREEN, lw=1.5, ls=(0, (4, 2)), label="PropagationClassifier")
    ax.set_xticks([0.01, 0.1, 1, 10], ["0.01", "0.1", "1", "10"])
    ax.set_xticks([], minor=True)
    ax.grid(axis="y", color=PALE, lw=0.5)


def shoot_report(place: Path) -> None:
    """Run the commands of README that write the report, and take a picture of its table of interactions."""
    readme = (HERE.parent / "README.md").read_text(encoding="utf-8")
    commands = re.findall(r"^\$ (python -c .*|tdlg classify .*)$", readme, re.MULTILINE)
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    with tempfile.TemporaryDirectory() as scratch:
        for command in commands:
            subprocess.run(command, shell=True, check=True, cwd=scratch, env={**os.environ, "PATH": path})
        browser = open_browser(scratch)
        browser.open(Path(scratch) / "page.html", width=1100, height=860)
        browser.run("document.getElementById('interactions').scrollIntoView(); scrollBy(0, 50)")
        place.write_bytes(browser.screenshot())
        browser.close()


def shoot_desk(place: Path) -> None:
    """Take a picture of the desk after 20 days of the payments of `tdlg demo --live`."""
    payments = make_payments(30_000, random_state=0)
    with (
        tempfile.TemporaryDirectory() as scratch,
        LiveModel.open(Path(scratch) / "state", fit_on_past(payments, 0), alerts_per_day=3) as live,
        Service(live, port=0) as service,
    ):
        for due in itertools.islice(steps(payments, 0), 20):
            live.submit(due.events)
            live.label(due.labels)
        browser = open_browser(scratch)
        browser.open(service.url, width=1200, height=860)
        browser.wait("document.querySelector('.why-list') && document.querySelector('#state.live')")
        browser.run("document.querySelectorAll('.alert')[2].click()")
        browser.wait(
            "document.querySelector('#list li:nth-child(3) [aria-current]') && document.querySelector('.why-list')"
        )
        place.write_bytes(browser.screenshot())
        browser.close()


def open_browser(scratch: str) -> Any:
    """Chromium without scrollbars, which keeps its files in a folder."""
    sys.path.insert(0, str(HERE.parent / "tests"))
    from browser import Browser

    path = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))))
    browser = Browser(path, Path(scratch) / "browser")
    browser.call("Emulation.setScrollbarsHidden", hidden=True)
    return browser


if __name__ == "__main__":
    main(*sys.argv[1:])
