"""The page's charts and signs as inline SVG, from the values of its model.

Colours come from classes of the style sheet, so that light and dark need no second drawing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import groupby, pairwise
from typing import Any

import numpy as np

from tdlg.report.text import escaped, figure, nice_step, percent, share

Values = dict[str, Any]
Ticks = Sequence[tuple[float, str]]

SIGNS = ("circle", "triangle", "circle", "square", "diamond", "plus", "cross")  # of the groups, as the script has them
STROKES = {"this model": "ours", "propagation": "ours", "label rates": "theirs", "windows": "windows"}
SHARES = {"among the labelled": ("triangle", "g1"), "expected among the unlabelled": ("circle", "ours")}
UNIT_TICKS = [(value, f"{value:g}") for value in (0.0, 0.25, 0.5, 0.75, 1.0)]


# ---- signs beside names


def swatch(group: int) -> str:
    """The sign of a group."""
    return _sign(marker(SIGNS[group], 7, 7, 3.8, f"g{group} hollow" if group == 0 else f"g{group}"))


def square(group: int) -> str:
    """The colour of a group in a stack of bars."""
    return _sign(f'<path class="g{group}" d="M2 2H12V12H2Z"/>')


def _sign(drawing: str) -> str:
    return f'<svg class="swatch" viewBox="0 0 14 14" aria-hidden="true">{drawing}</svg>'


def stroke(name: str) -> str:
    """The line of a curve, or the mark of a series, by its name."""
    if name in SHARES:
        shape, css = SHARES[name]
        return _sign(marker(shape, 7, 7, 3.8, f"dot {css}"))
    line = f'<path class="line {STROKES.get(name, "theirs")}" d="M0 3H22"/>'
    return f'<svg class="stroke" viewBox="0 0 22 6" aria-hidden="true">{line}</svg>'


def meter(part: float, css: str) -> str:
    """A share of 1 as a bar."""
    return (
        '<svg class="meter" viewBox="0 0 100 8" preserveAspectRatio="none" aria-hidden="true">'
        f'<rect class="rail" width="100" height="8"/><rect class="{css}" width="{100 * part:.2f}" height="8"/></svg>'
    )


# ---- charts of quality


def roc(quality: Values) -> str:
    """The ROC curves."""
    panel = Panel()
    panel.axes(UNIT_TICKS, UNIT_TICKS, "false positive rate", "recall (true positive rate)")
    curve(panel, [0.0, 1.0], [0.0, 1.0], "chance")
    areas = _curves(panel, quality, "roc", "auc")
    return chart(panel, f"ROC curves, with their areas: {areas}")


def precision_recall(quality: Values) -> str:
    """The curves of precision against recall."""
    panel = Panel()
    panel.axes(UNIT_TICKS, UNIT_TICKS, "recall", "precision")
    curve(panel, [0.0, 1.0], [quality["prevalence"]] * 2, "chance")
    areas = _curves(panel, quality, "precision_recall", "average_precision")
    return chart(panel, f"Precision-recall curves, with their average precision: {areas}")


def learning(histories: Sequence[str], names: Sequence[str], precision: dict[str, Sequence[float | None]]) -> str:
    """The average precision of each method by the days of history that it saw."""
    values = [value for name in names for value in precision[name] if value is not None]
    ticks = _steps(max([0.01, *values]), percent, 1.0)
    panel = Panel(920, 300, (0.0, max(len(histories) - 1, 1)), (0.0, ticks[-1][0]), left=56)
    panel.axes(list(enumerate(histories)), ticks, "days of history", "average precision")
    for name in reversed(names):
        css = STROKES.get(name, "theirs")
        known = [(k, value) for k, value in enumerate(precision[name]) if value is not None]
        curve(panel, [k for k, _ in known], [value for _, value in known], css)
        for k, value in known:
            panel.dot(k, value, f"{name}, {histories[k]}: {percent(value)}", css, size=3.4)
    return chart(panel, "Average precision by days of history")


def _curves(panel: Panel, quality: Values, curves: str, areas: str) -> str:
    """Draw a curve of each ranking, that of the model last and so on top; returns their areas in words."""
    for name, (x, y) in reversed(list(zip(quality["names"], quality[curves], strict=True))):
        curve(panel, x, y, STROKES[name])
    return ", ".join(f"{name} {figure(area)}" for name, area in zip(quality["names"], quality[areas], strict=True))


def calibration(quality: Values) -> str:
    """Observed shares against predicted probabilities, in groups."""
    groups = quality["calibration"]
    ticks = _steps(
        max(0.02, *(max(group["probability"], group["high"]) for group in groups)), lambda at: f"{at:g}", 1.0
    )
    end = ticks[-1][0]
    panel = Panel(x=(0, end), y=(0, end))
    panel.axes(ticks, ticks, "predicted probability", "observed share")
    curve(panel, [0.0, end], [0.0, end], "chance")
    curve(panel, [group["probability"] for group in groups], [group["share"] for group in groups], "ours thin")
    for group in groups:
        x = panel.at_x(group["probability"])
        whisker = f'y1="{panel.at_y(group["low"]):.1f}" y2="{panel.at_y(group["high"]):.1f}"'
        panel.parts.append(f'<line class="whisker" x1="{x:.1f}" x2="{x:.1f}" {whisker}/>')
        found = f"probability {share(group['probability'])} on average, {share(group['share'])} observed"
        panel.dot(group["probability"], group["share"], f"{group['n']:,} interactions: {found}", "ours", size=4.2)
    return chart(panel, "Calibration")


def _steps(most: float, written: Callable[[float], str], limit: float = np.inf, least: float = 0.0) -> Ticks:
    """Ticks from 0 by round steps to beyond a value, but not beyond the limit."""
    step = max(least, nice_step(most, 4))
    end = min(limit, step * float(np.ceil(most / step)))
    places = np.arange(0, end + step / 2, step).round(9).tolist()
    inside = [place for place in places if place <= end + 1e-9]
    return [(place, written(place)) for place in ([*inside, end] if inside[-1] < end - 1e-9 else inside)]


# ---- charts of activity


def counts(activity: Values) -> str:
    """Interactions in each interval of time, by label."""
    layers, bounds = activity["layers"], activity["bounds"]
    most = max(map(sum, zip(*(layer["n"] for layer in layers), strict=True)))

    def draw(panel: Panel) -> None:
        for k, span in enumerate(pairwise(bounds)):
            found = ", ".join(f"{layer['n'][k]:,} {layer['name']}" for layer in layers)
            heights = [(layer["n"][k], f"g{layer['group']}") for layer in layers]
            stack(panel, span, heights, f"{activity['spans'][k]}: {found}")

    ticks = _steps(most, lambda value: f"{value:,.0f}", least=1.0)
    return _twice(activity, ticks, "interactions", draw, "Interactions over time, by label")


def shares(activity: Values) -> str:
    """The share of the positive class in each interval of time."""
    series, middles = activity["shares"], activity["middles"]
    most = max(0.01, *(value for values in series.values() for value in values if value is not None))

    def draw(panel: Panel) -> None:
        for name, values in series.items():
            shape, css = SHARES[name]
            known = [k for k, value in enumerate(values) if value is not None]
            for _, run in groupby(enumerate(known), lambda at: at[1] - at[0]):  # without gaps
                places = [k for _, k in run]
                curve(panel, [middles[k] for k in places], [values[k] for k in places], f"{css} thin")
            for k in known:
                panel.dot(middles[k], values[k], f"{activity['times'][k]}: {percent(values[k])} {name}", css, shape, 3)

    return _twice(activity, _steps(most, percent, 1.0), "share", draw, "Share over time")


def _twice(activity: Values, ticks: Ticks, name: str, draw: Callable[[Panel], None], label: str) -> str:
    """A chart wide and for narrow screens; the style sheet shows one of them."""
    drawn = []
    for css, width in (("long", 920), ("short", 420)):
        ends = activity["bounds"][0], activity["bounds"][-1]
        panel = Panel(width, 230, ends, (0.0, ticks[-1][0]), left=56, bottom=30)
        panel.axes(activity["ticks"][css], ticks, "", name)
        draw(panel)
        drawn.append(chart(panel, label, css))
    return "".join(drawn)


# ---- what charts are drawn with


@dataclass
class Panel:
    """A rectangle of a drawing with its two scales; what is drawn in it is collected as SVG."""

    width: float = 420
    height: float = 320
    x: tuple[float, float] = (0.0, 1.0)  # the ranges of the data
    y: tuple[float, float] = (0.0, 1.0)
    left: float = 46  # margins for what the axes say
    right: float = 14
    top: float = 26  # the y axis has its name there
    bottom: float = 44
    parts: list[str] = field(default_factory=list)

    def at_x(self, value: float) -> float:
        """Where a value is drawn, from the left."""
        low, high = self.x
        return self.left + (value - low) / ((high - low) or 1.0) * (self.width - self.left - self.right)

    def at_y(self, value: float) -> float:
        """Where a value is drawn, from the top."""
        low, high = self.y
        return (
            self.height - self.bottom - (value - low) / ((high - low) or 1.0) * (self.height - self.top - self.bottom)
        )

    def dot(self, x: float, y: float, tip: str, css: str, shape: str = "circle", size: float = 4) -> None:
        """Draw a mark with what it says."""
        place = self.at_x(x), self.at_y(y)
        self.parts.append(tipped(tip, marker(shape, *place, size, f"dot {css}"), *place))

    def axes(self, x_ticks: Ticks, y_ticks: Ticks, x_title: str = "", y_title: str = "") -> None:
        """Draw hairlines for the y ticks, marks for the x ticks, and what they say."""
        left, floor, right = self.left, self.height - self.bottom, self.width - self.right
        for value, text in y_ticks:
            y = self.at_y(value)
            self.parts.append(f'<line class="grid" x1="{left:.1f}" x2="{right:.1f}" y1="{y:.1f}" y2="{y:.1f}"/>')
            self._text("tick", left - 7, y + 3.5, text, "end")
        self.parts.append(f'<line class="axis" x1="{left:.1f}" x2="{right:.1f}" y1="{floor:.1f}" y2="{floor:.1f}"/>')
        for value, text in x_ticks:
            x, anchor = self.at_x(value), "middle"
            if len(text) > 4 and x > right - 18:
                anchor = "end"
            elif len(text) > 4 and x < left + 12:
                anchor = "start"
            self.parts.append(f'<line class="axis" x1="{x:.1f}" x2="{x:.1f}" y1="{floor:.1f}" y2="{floor + 4:.1f}"/>')
            self._text("tick", x, floor + 17, text, anchor)
        if x_title:
            self._text("name", right, self.height - 6, x_title, "end")
        if y_title:
            self._text("name", left, self.top - 10, y_title, "start")

    def _text(self, css: str, x: float, y: float, text: str, anchor: str) -> None:
        place = f'x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"'
        self.parts.append(f'<text class="{css}" {place}>{escaped(text)}</text>')


def chart(panel: Panel, label: str, css: str = "") -> str:
    """The drawing as an element; its label is what a screen reader says."""
    return (
        f'<svg class="chart {css}" viewBox="0 0 {panel.width:g} {panel.height:g}" role="img" '
        f'aria-label="{escaped(label)}">{"".join(panel.parts)}</svg>'
    )


def curve(panel: Panel, xs: Sequence[float], ys: Sequence[float], css: str) -> None:
    """Draw a line through points."""
    points = [(panel.at_x(x), panel.at_y(y)) for x, y in zip(xs, ys, strict=True)]
    if not points:
        return
    path = "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in points)
    panel.parts.append(f'<path class="line {css}" d="{path}"/>')


def bar(panel: Panel, x: tuple[float, float], y: tuple[float, float], css: str) -> None:
    """Draw a bar from one height to another, with a hairline of air to the next."""
    left, right = panel.at_x(x[0]), panel.at_x(x[1])
    top, bottom = panel.at_y(y[1]), panel.at_y(y[0])
    air = min(1.0, (right - left) / 4)
    if bottom - top > 0:
        panel.parts.append(
            f'<rect class="{css}" x="{left:.1f}" y="{top:.2f}" width="{right - left - air:.1f}" '
            f'height="{bottom - top:.2f}"/>'
        )


def stack(panel: Panel, span: tuple[float, float], layers: Sequence[tuple[float, str]], tip: str) -> None:
    """Draw bars of these heights one on another; they say something when they, or what is above them, are pointed at."""
    panel.parts.append(f'<g data-tip="{escaped(tip)}">')
    base = 0.0
    for height, css in layers:
        bar(panel, span, (base, base + height), css)
        base += height
    bar(panel, span, panel.y, "target")
    panel.parts.append("</g>")


def marker(shape: str, x: float, y: float, size: float, css: str) -> str:
    """A small sign of a shape around a place."""
    s, d = size, "l{0} {0}l-{0} {0}l-{0} -{0}Z".format(f"{1.3 * size:.1f}")
    if shape == "circle":
        return f'<circle class="{css}" cx="{x:.1f}" cy="{y:.1f}" r="{s:.1f}"/>'
    paths = {
        "triangle": f"M{x:.1f} {y - 1.2 * s:.1f}L{x + 1.15 * s:.1f} {y + 0.9 * s:.1f}H{x - 1.15 * s:.1f}Z",
        "square": f"M{x - s:.1f} {y - s:.1f}h{2 * s:.1f}v{2 * s:.1f}h{-2 * s:.1f}Z",
        "diamond": f"M{x:.1f} {y - 1.3 * s:.1f}{d}",
        "plus": f"M{x - 1.2 * s:.1f} {y:.1f}h{2.4 * s:.1f}M{x:.1f} {y - 1.2 * s:.1f}v{2.4 * s:.1f}",
        "cross": f"M{x - s:.1f} {y - s:.1f}l{2 * s:.1f} {2 * s:.1f}M{x + s:.1f} {y - s:.1f}l{-2 * s:.1f} {2 * s:.1f}",
    }
    stroked = " stroked" if shape in ("plus", "cross") else ""
    return f'<path class="{css}{stroked}" d="{paths[shape]}"/>'


def tipped(tip: str, drawing: str, x: float, y: float) -> str:
    """A small drawing that says something when it, or what is near it, is pointed at."""
    return f'<g data-tip="{escaped(tip)}">{drawing}<circle class="target" cx="{x:.1f}" cy="{y:.1f}" r="10"/></g>'
