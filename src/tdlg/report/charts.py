"""The page's charts and signs, from the values of its model."""

from __future__ import annotations

from collections.abc import Callable
from itertools import groupby, pairwise
from typing import Any

import numpy as np

from tdlg.report.svg import Panel, Ticks, chart, curve, marker, stack, tipped
from tdlg.report.text import figure, nice_step, percent, share

__all__ = [
    "calibration",
    "counts",
    "meter",
    "precision_recall",
    "roc",
    "shares",
    "square",
    "stroke",
    "swatch",
]

Values = dict[str, Any]

SIGNS = ("circle", "triangle", "circle", "square", "diamond", "plus", "cross")  # of the groups, as the script has them
STROKES = {"this model": "ours", "label rates": "theirs", "windows": "windows"}
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
    line = f'<path class="line {STROKES[name]}" d="M0 3H22"/>'
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
        x, y = panel.at_x(group["probability"]), panel.at_y(group["share"])
        whisker = f'y1="{panel.at_y(group["low"]):.1f}" y2="{panel.at_y(group["high"]):.1f}"'
        panel.parts.append(f'<line class="whisker" x1="{x:.1f}" x2="{x:.1f}" {whisker}/>')
        found = f"probability {share(group['probability'])} on average, {share(group['share'])} observed"
        panel.parts.append(
            tipped(f"{group['n']:,} interactions: {found}", marker("circle", x, y, 4.2, "dot ours"), x, y)
        )
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
                x, y = panel.at_x(middles[k]), panel.at_y(values[k])
                tip = f"{activity['times'][k]}: {percent(values[k])} {name}"
                panel.parts.append(tipped(tip, marker(shape, x, y, 3, f"dot {css}"), x, y))

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
