"""Charts of the desk as SVG, drawn with the parts of the report."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tdlg.report.svg import Panel, chart, marker, stack, tipped
from tdlg.report.text import Clock, figure, name_of, nice_step, percent

__all__ = ["NARROW", "WIDE", "days_chart", "node_chart", "scores_chart"]

Row = Mapping[str, Any]

WIDE, HALF, NARROW = 1040, 520, 420  # widths of drawings
TICKS = 5  # places of an axis that have a text
SIGNS = {True: ("triangle", "g1"), False: ("square", "g2"), None: ("circle", "g0 hollow")}  # by label, as in the report


def days_chart(days: Sequence[Row]) -> str:
    """Bars of the reviewed alerts, one per day, with the confirmed ones below the others."""
    most = max((day["reviewed"] for day in days), default=0)
    step = max(1.0, nice_step(most, 3))
    end = step * max(1, math.ceil(most / step))
    panel = Panel(width=HALF, height=210, x=(0, max(len(days), 7)), y=(0, end), bottom=30)
    every = max(1, math.ceil(len(days) / TICKS))
    panel.axes(
        [(k + 0.5, str(days[k]["day"])) for k in range(0, len(days), every)],
        [(k * step, f"{k * step:,.0f}") for k in range(int(end / step) + 1)],
        y_title="reviewed alerts",
    )
    for k, day in enumerate(days):
        if day["reviewed"]:
            layers = [(day["confirmed"], "g1"), (day["reviewed"] - day["confirmed"], "g0")]
            stack(panel, (k + 0.08, k + 0.94), layers, _tip(str(day["day"]), day))
    return _drawn(panel, "Alerts reviewed per day, and how many of them were confirmed")


def scores_chart(bins: Sequence[Row]) -> str:
    """The share of reviewed alerts that were confirmed, in each bin of their scores; empty bins have no bar."""
    low, high = (bins[0]["from"], bins[-1]["to"]) if bins else (0.0, 1.0)
    panel = Panel(width=HALF, height=210, x=(low, high), bottom=30)
    panel.axes(
        [(at, figure(at, 2)) for at in np.linspace(low, high, TICKS).tolist()],
        [(at, percent(at)) for at in (0, 0.25, 0.5, 0.75, 1)],
        y_title="precision",
    )
    for found in bins:
        if found["reviewed"]:
            span = found["from"], found["to"]
            layers = [(max(found["confirmed"] / found["reviewed"], 0.006), "g1")]
            stack(panel, span, layers, _tip(f"score {figure(span[0], 2)} to {figure(span[1], 2)}", found))
    return _drawn(panel, "Precision: share of the reviewed alerts that were confirmed, by score")


def node_chart(node: Row, threshold: float, *, is_probability: bool, width: int = WIDE) -> str:
    """The interactions of a node in time: the height is the score, the sign is the label.

    Interactions that have no score, such as fitted ones, stand on the axis.
    """
    events = node["events"]
    clock, ticks = _times([event["time"] for event in events])
    scores = [event.get("score") for event in events]
    top = max([1.0 if is_probability else threshold, *(score for score in scores if score is not None)])
    low = min([0.0, *(score for score in scores if score is not None)])
    first, last = (min(ticks), max(ticks)) if ticks else (0.0, 1.0)
    air = 0.015 * (last - first) or 1.0
    panel = Panel(width=width, height=230, x=(first - air, last + air), y=(low, top), bottom=30)
    step = nice_step(top - low, 5)
    panel.axes(
        clock.axis(*panel.x, TICKS if width == WIDE else TICKS // 2),
        [(k * step, f"{k * step:.4g}") for k in range(math.ceil(low / step), math.floor(top / step) + 1)],
        y_title="score",
    )
    if low <= threshold <= top:
        y, right = panel.at_y(threshold), panel.width - panel.right
        panel.parts.append(f'<path class="line chance" d="M{panel.left} {y:.1f}H{right}"/>')
        panel.parts.append(f'<text class="tick" x="{right}" y="{y - 5:.1f}" text-anchor="end">alert</text>')
    for event, tick, score in zip(events, ticks, scores, strict=True):
        place = panel.at_x(tick), panel.at_y(low if score is None else score)
        shape, css = SIGNS[event["is_positive"]]
        when = clock.text(int(tick) if clock.unit else tick)
        panel.parts.append(tipped(f"{when}: {_words(event)}", marker(shape, *place, 4, f"dot {css}"), *place))
    return _drawn(panel, f"Interactions of {name_of(node['id'])} in time, by score")


def _tip(name: str, row: Row) -> str:
    share = percent(row["confirmed"] / row["reviewed"])
    return f"{name}: {row['confirmed']} of {row['reviewed']} confirmed, {share}"


def _drawn(panel: Panel, label: str) -> str:
    return chart(panel, label).replace("<svg ", '<svg xmlns="http://www.w3.org/2000/svg" ', 1)


def _times(times: Sequence[Any]) -> tuple[Clock, list[float]]:
    """Times as JSON holds them, as numbers and what writes these numbers."""
    if times and isinstance(times[0], str):
        ticks = np.array(times, "datetime64[s]").astype(np.int64)
        return Clock("s", ticks), ticks.astype(np.float64).tolist()
    return Clock(None, np.array(times)), [float(time) for time in times]


def _words(event: Row) -> str:
    score, label = event.get("score"), event.get("label")
    ends = f"{name_of(event['src'])} → {name_of(event['dst'])}"
    scored = f"{ends}, {'no score' if score is None else f'score {figure(score)}'}"
    return scored if label is None else f"{scored}, label {name_of(label)}"
