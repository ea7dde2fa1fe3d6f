"""Charts as inline SVG: colours come from classes of the style sheet, so that light and dark need no second drawing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from tdlg.report.text import escaped

__all__ = ["Panel", "bar", "chart", "curve", "marker", "stack", "tipped"]

Ticks = Sequence[tuple[float, str]]


@dataclass
class Panel:
    """A rectangle of a drawing with its two scales; what is drawn in it is collected as SVG.

    Attributes
    ----------
    width, height
        Of the whole, in the drawing's own units.
    x, y
        The ranges of the data.
    left, right, top, bottom
        Margins for what the axes say.
    """

    width: float = 420
    height: float = 320
    x: tuple[float, float] = (0.0, 1.0)
    y: tuple[float, float] = (0.0, 1.0)
    left: float = 46
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
