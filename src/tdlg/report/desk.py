"""The charts of the desk as SVG, drawn with the parts of the report."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tdlg.report.charts import Panel, chart, marker, stack, tipped
from tdlg.report.text import Clock, escaped, figure, name_of, nice_step, percent

Row = Mapping[str, Any]

WIDE, HALF, NARROW = 1040, 520, 700  # widths of drawings; below the last one there is room for fewer words
MOST_NEIGHBOURS = 8  # of an end that are drawn
ROW = 26  # height of one of them
TICKS = 5  # places of an axis that have a text
SIGNS = {True: ("triangle", "g1"), False: ("square", "g2"), None: ("circle", "g0 hollow")}  # by label, as in the report


def days_chart(days: Sequence[Row]) -> str:
    """Bars of the reviewed alerts, one per day, with the confirmed ones below the others."""
    most = max((day["reviewed"] for day in days), default=0)
    step = max(1.0, nice_step(most, 3))
    end = step * max(1, math.ceil(most / step))
    panel = Panel(width=HALF, height=210, x=(0, max(len(days), 7)), y=(0, end), bottom=30)
    every = max(1, math.ceil(len(days) / (TICKS - 1)))
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
        clock.axis(*panel.x, TICKS if width >= NARROW else TICKS // 2),
        [(k * step, f"{k * step:.4g}") for k in range(math.ceil(low / step), math.floor(top / step) + 1)],
        y_title="score",
    )
    if low <= threshold <= top:
        y, right = panel.at_y(threshold), panel.width - panel.right
        panel.parts.append(f'<path class="line chance" d="M{panel.left} {y:.1f}H{right}"/>')
        panel.parts.append(f'<text class="tick" x="{right}" y="{y - 5:.1f}" text-anchor="end">alert</text>')
    for event, tick, score in zip(events, ticks, scores, strict=True):
        shape, css = SIGNS[event["is_positive"]]
        when = clock.text(int(tick) if clock.unit else tick)
        panel.dot(tick, low if score is None else score, f"{when}: {_words(event)}", css, shape)
    return _drawn(panel, f"Interactions of {name_of(node['id'])} in time, by score")


def ends_chart(ends: tuple[Row, Row], *, width: int = WIDE) -> str:
    """Two nodes, each with the neighbours that it has interacted with most; the sign of an end is that of its labels."""
    src, dst = ends
    pair = name_of(src["id"]), name_of(dst["id"])
    sides = [_neighbours(src, pair[1]), _neighbours(dst, pair[0])]
    rows = max(1, *map(len, sides))
    panel = Panel(width=width, height=ROW * rows + 30)
    middle, longest = panel.height / 2, int(width / 30)
    inner, outer = (0.38 * width, 0.62 * width), (0.24 * width, 0.76 * width)
    panel.parts.append(f'<path class="line g1" d="M{inner[0]:.1f} {middle:.1f}H{inner[1]:.1f}"/>')
    for side, (found, x, x_end) in enumerate(zip(sides, outer, inner, strict=True)):
        anchor, shift = ("end", -10) if side == 0 else ("start", 10)
        for k, (name, n, is_positive) in enumerate(found):
            y = middle + ROW * (k - (len(found) - 1) / 2)
            thin = "" if n > 2 else " thin"
            panel.parts.append(f'<path class="line windows{thin}" d="M{x:.1f} {y:.1f}L{x_end:.1f} {middle:.1f}"/>')
            shape, css = SIGNS[is_positive]
            mark = marker(shape, x, y, 4, f"dot {css}")
            text = f'<text x="{x + shift:.1f}" y="{y + 4:.1f}" text-anchor="{anchor}">{_short(name, longest)}</text>'
            panel.parts.append(tipped(f"{name}: {n:,} with {pair[side]}", mark + text, x, y))
        end = marker("circle", x_end, middle, 6, "dot ours")
        over = -14 if side == 0 else 24  # so that long names do not touch
        text = f'<text class="end-name" x="{x_end:.1f}" y="{middle + over:.1f}" text-anchor="middle">'
        drawn = f"{end}{text}{_short(pair[side], longest)}</text>"
        panel.parts.append(tipped(f"{pair[side]}: {len(ends[side]['events']):,} interactions", drawn, x_end, middle))
    return _drawn(panel, f"{pair[0]} and {pair[1]}, and those that they interacted with")


def _neighbours(node: Row, other: str) -> list[tuple[str, int, bool | None]]:
    """Those of a node but for the other end: name, how often, and whether a label of theirs was positive; None without."""
    own, n = name_of(node["id"]), Counter[str]()
    labels: dict[str, bool] = {}
    for event in node["events"]:
        name = next((name_of(end) for end in (event["src"], event["dst"]) if name_of(end) != own), own)
        n[name] += 1
        if event["is_positive"] is not None:
            labels[name] = labels.get(name, False) or event["is_positive"]
    n.pop(other, None)
    return [(name, count, labels.get(name)) for name, count in n.most_common(MOST_NEIGHBOURS)]


def _short(name: str, longest: int) -> str:
    """A name that fits, without its middle: ids often differ at their ends."""
    tail = longest // 2
    return escaped(name if len(name) <= longest else f"{name[: longest - tail - 1]}…{name[-tail:]}")


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
