"""The page of a detector: which notion spoke how often, and the outliers to look at first, with their reasons."""

from __future__ import annotations

import json
import math
import os
from pathlib import Path
from typing import Any

import numpy as np

from tdlg import __version__
from tdlg.atomic import new_file, target_of
from tdlg.estimator import Scored
from tdlg.report.charts import Panel, chart
from tdlg.report.model import MOST_EDGES, REASONS
from tdlg.report.page import render_outliers
from tdlg.report.text import Clock, figure, name_of, nice_step

__all__ = ["NOTIONS_IN_WORDS", "write_outliers"]

NOTIONS_IN_WORDS = {
    "burst": "bursts",
    "rare": "new and rare",
    "value": "unusual values",
    "misplaced": "misplaced",
}


def write_outliers(
    path: str | os.PathLike[str], model: Any, scored: Scored | None = None, *, command: str | None = None
) -> Path:
    """Write a page about outliers, without a script; or what it says as JSON.

    Parameters
    ----------
    path
        The file to write. If its name ends in ".json", it gets all that the page says as JSON. It is replaced only when it
        is complete.
    model
        A fitted `EdgeOutlierDetector` or one of the detectors that it stands for.
    scored
        What `model.scored` returned for the edges to report on; by default the fitted edges.
    command
        The shell command that wrote the page, to be shown at its end.

    Returns
    -------
    pathlib.Path
        The file written.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from tdlg import EdgeOutlierDetector, TemporalEdges
    >>> from tdlg.report import write_outliers
    >>> edges = TemporalEdges([*["ann", "bob"] * 300, "mallory"], [*["x", "y"] * 300, "x"], range(601))
    >>> write_outliers(pathlib.Path(tempfile.mkdtemp()) / "page.html", EdgeOutlierDetector().fit(edges)).name
    'page.html'
    """
    target = target_of(path)
    said = outliers_model(model, model.scored(model.edges_) if scored is None else scored, command)
    if Path(path).suffix.lower() == ".json":
        text = json.dumps(said, allow_nan=False, indent=1) + "\n"
    else:
        text = render_outliers(said, _drawing(said))
    with new_file(target) as file:
        file.write(text.encode())
    return target


def outliers_model(model: Any, scored: Scored, command: str | None) -> dict[str, Any]:
    """All that the page says."""
    edges, scores, detector = scored.edges, scored.values, getattr(model, "detector_", model)
    flagged = np.flatnonzero(scores < model.offset_)
    shown = flagged[np.argsort(scores[flagged], kind="stable")[:MOST_EDGES]]
    clock, reasons = Clock(edges.time_unit, edges.ticks), detector.explain(scored, REASONS, rows=shown)
    why: dict[int, list[dict[str, Any]]] = {}
    for edge, what, reason in reasons.select("edge", "what", "reason").iter_rows():
        why.setdefault(edge, []).append({"what": what, "reason": reason})
    notions = detector.overview().to_dicts() if hasattr(detector, "overview") else []
    widths = [(name, str(getattr(model, f"{name}_"))) for name in ("fast", "slow") if hasattr(model, f"{name}_")]
    parameters = [(name, name_of(repr(value), 200)) for name, value in sorted(model.get_params(deep=False).items())]
    return {
        "title": "Which interactions are unusual, and why",
        "version": __version__,
        "n_edges": len(edges),
        "n_nodes": int(edges.n_nodes),
        "is_dated": edges.time_unit is not None,
        "time_name": "Time (UTC)" if edges.time_unit is not None else "Time",
        "span": clock.span(edges.ticks.min(), edges.ticks.max()),
        "n_outliers": len(flagged),
        "threshold": float(-model.offset_),
        "weights": None if getattr(detector, "weights_", None) is None else detector.weights_.tolist(),
        "notions": [
            {
                "notion": NOTIONS_IN_WORDS[one["notion"]],
                "flagged": one["flagged"],
                "alone": one["alone"],
                "rows": [row + 1 for row in one["examples"]],
            }
            for one in notions
        ],
        "rows": [
            {
                "row": i + 1,
                "src": name_of(edges.src[i]),
                "dst": name_of(edges.dst[i]),
                "tick": float(edges.ticks[i]),
                "time": clock.text(edges.ticks[i]),
                "score": float(-scores[i]),
                "reasons": why.get(i, []),
            }
            for i in shown.tolist()
        ],
        "settings": [("detector", type(detector).__name__), *widths, *parameters],
        "axis": clock.axis(float(edges.ticks.min()), float(edges.ticks.max())),
        "ends": [float(edges.ticks.min()), float(edges.ticks.max())],
        "command": command,
    }


def _drawing(said: dict[str, Any]) -> str:
    """The outliers in time, by their score."""
    top = max((row["score"] for row in said["rows"]), default=1.0)
    low = min(said["threshold"], 0.0)
    first, last = said["ends"]
    air = 0.015 * (last - first) or 1.0
    panel, step = Panel(width=1040, height=230, x=(first - air, last + air), y=(low, top), bottom=30), 1.0
    step = nice_step(top - low or 1.0, 5)
    marks = range(math.ceil(low / step), math.floor(top / step) + 1)
    panel.axes([tuple(mark) for mark in said["axis"]], [(k * step, f"{k * step:.4g}") for k in marks], y_title="score")
    for row in said["rows"]:
        tip = f"row {row['row']:,}, {row['time']}: {row['src']} → {row['dst']}, score {figure(row['score'])}"
        panel.dot(row["tick"], row["score"], tip, "g1", "triangle")
    return chart(panel, "Outliers in time, by score")
