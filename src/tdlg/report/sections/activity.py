"""The section on activity over time."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tdlg.report.cautions import LastLabels
from tdlg.report.html import key, paragraph, plate, section
from tdlg.report.subject import Subject
from tdlg.report.svg import Panel, chart, curve, marker, stack, tipped
from tdlg.report.text import escaped, nice_step, percent

__all__ = ["activity"]

Floats = NDArray[np.float64]
Counts = NDArray[np.int64]

BINS = 48  # stretches of time
LEAST_IN_INTERVAL = 5  # interactions that a share is taken of


def activity(subject: Subject, score: Floats, one_class: LastLabels | None) -> str:
    """How many interactions there were, by label, and the share of the class looked for."""
    edges = subject.edges
    first, last = float(edges.ticks.min()), float(edges.ticks.max())
    if first == last:
        return section("activity", "Activity over time", paragraph("All interactions happened at one time."))
    bounds = np.linspace(first, last, BINS + 1)
    at = np.clip(np.searchsorted(bounds, edges.ticks, side="right") - 1, 0, BINS - 1)
    each = escaped(subject.clock.length((last - first) / BINS))
    text = f"In {BINS} equal intervals of time, each {each}{' long, in UTC' if subject.clock.unit else ' time units long'}. "
    text += "Hover, touch, or use the arrow keys to see the figures."
    return section(
        "activity",
        "Activity over time",
        paragraph(text),
        _counts_chart(subject, bounds, at),
        _shares_chart(subject, bounds, at, score, one_class),
    )


def _counts_chart(subject: Subject, bounds: Floats, at: Counts) -> str:
    codes = subject.codes
    is_wanted, is_known = codes == subject.positive, subject.edges.labelled
    others = [k for k in range(len(subject.classes)) if k != subject.positive]
    layers = [
        (name, css, np.bincount(at[mask], minlength=BINS))
        for name, css, mask in (
            (subject.wanted, "g1", is_wanted),
            (subject.called(others[0]) if len(others) == 1 else "other classes", "g2", is_known & ~is_wanted),
            ("unlabelled", "g0", ~is_known),
        )
        if mask.any()
    ]
    most = float(np.sum([n for *_, n in layers], axis=0).max())
    step = max(1.0, nice_step(most, 4))
    scale = Scale(step * float(np.ceil(most / step)), step, lambda value: f"{value:,.0f}", "interactions")

    def draw(panel: Panel) -> None:
        for k in range(BINS):
            span = float(bounds[k]), float(bounds[k + 1])
            _stack(subject, panel, span, [(name, css, int(n[k])) for name, css, n in layers])

    box = '<svg class="swatch" viewBox="0 0 14 14" aria-hidden="true"><path class="{}" d="M2 2H12V12H2Z"/></svg>'
    keys = key((box.format(css), name) for name, css, _ in layers)
    drawing = _drawn(subject, bounds, scale, draw, "Interactions over time, by label")
    return plate("Interactions", drawing, "Stacked from the bottom in the order of the legend.", keys)


def _stack(subject: Subject, panel: Panel, span: tuple[float, float], layers: list[tuple[str, str, int]]) -> None:
    """The bars of one interval, one on another, and what they say."""
    ends = (int(span[0]), int(span[1])) if subject.clock.unit else span
    tip = f"{subject.clock.span(*ends)}: " + ", ".join(f"{n:,} {name}" for name, _, n in layers)
    stack(panel, span, [(n, css) for _, css, n in layers], tip)


def _shares_chart(subject: Subject, bounds: Floats, at: Counts, score: Floats, one_class: LastLabels | None) -> str:
    is_open, is_wanted = ~subject.edges.labelled, subject.codes == subject.positive
    is_usual = np.ones(len(at), bool) if one_class is None else subject.edges.ticks < one_class.start
    series = [
        (name, sign, css, _shares(at[mask], values[mask]))
        for name, sign, css, mask, values in (
            ("among the labelled", "triangle", "g1", ~is_open & is_usual, is_wanted.astype(np.float64)),
            ("expected among the unlabelled", "circle", "ours", is_open, score),
        )
    ]
    series = [line for line in series if np.isfinite(line[3]).any()]
    if not series:
        return ""
    most = max(0.01, max(float(np.nanmax(shares)) for *_, shares in series))
    step = nice_step(most, 4)
    scale = Scale(min(1.0, step * float(np.ceil(most / step))), step, percent, "share")
    middle = (bounds[:-1] + bounds[1:]) / 2

    def draw(panel: Panel) -> None:
        for name, sign, css, shares in series:
            there = np.flatnonzero(np.isfinite(shares))
            for run in np.split(there, np.flatnonzero(np.diff(there) > 1) + 1):
                curve(panel, middle[run], shares[run], f"{css} thin")
            for k in there.tolist():
                x, y = panel.at_x(middle[k]), panel.at_y(shares[k])
                when = subject.clock.short(int(middle[k]) if subject.clock.unit else middle[k])
                sign_drawn = marker(sign, x, y, 3, f"dot {css}")
                panel.parts.append(tipped(f"{when}: {percent(shares[k])} {name}", sign_drawn, x, y))

    box = '<svg class="swatch" viewBox="0 0 14 14" aria-hidden="true">{}</svg>'
    keys = key((box.format(marker(sign, 7, 7, 3.8, f"dot {css}")), name) for name, sign, css, _ in series)
    note = f"Intervals with fewer than {LEAST_IN_INTERVAL} interactions in the group are left out."
    if one_class is not None and not is_open.all():
        start = escaped(subject.clock.short(one_class.start))
        note += f" The last labels, from {start} on, are left out too, because they are all of one class."
    drawing = _drawn(subject, bounds, scale, draw, "Share over time")
    return plate(f"Share of {escaped(subject.wanted)}", drawing, note, keys)


def _shares(at: Counts, values: Floats) -> Floats:
    """Means by stretch, NaN where there are too few."""
    n = np.bincount(at, minlength=BINS)
    return np.where(n >= LEAST_IN_INTERVAL, np.bincount(at, values, BINS) / np.maximum(n, 1), np.nan)


class Scale(NamedTuple):
    """The y axis of a chart: from 0 to its end by steps, how its values are written, and its name."""

    end: float
    step: float
    words: Callable[[float], str]
    name: str


def _drawn(subject: Subject, bounds: Floats, scale: Scale, draw: Callable[[Panel], None], label: str) -> str:
    """A chart twice: wide, and for narrow screens; the style sheet shows one of them."""
    first, last = float(bounds[0]), float(bounds[-1])
    ticks = [
        value for value in np.arange(0, scale.end + scale.step / 2, scale.step).tolist() if value <= scale.end + 1e-9
    ]
    charts = []
    for css, width, n_ticks in (("long", 920, 6), ("short", 420, 4)):
        panel = Panel(width, 230, (first, last), (0.0, scale.end), left=56, bottom=30)
        panel.axes(
            subject.clock.axis(first, last, n_ticks), [(value, scale.words(value)) for value in ticks], "", scale.name
        )
        draw(panel)
        charts.append(chart(panel, label, css))
    return "".join(charts)
