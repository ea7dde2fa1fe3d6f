"""The section on interactions: a table of those to look at first, with the reasons that the model gives."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tdlg.edges import TemporalEdges
from tdlg.report.html import Cell, code, paragraph, probability, section, table
from tdlg.report.selection import Selected
from tdlg.report.subject import Subject
from tdlg.report.text import count, escaped, name_of

__all__ = ["interactions"]

MOST_EDGES = 200  # rows of the table
MOST_FEATURES = 12  # columns of the table
REASONS = 3  # for each interaction
TITLE = "Interactions to look at first"
INTRODUCTIONS = {
    "unlabelled": "Interactions without a label, the most likely to be {positive} first.",
    "new": "The interactions given, the most likely to be {positive} first.",
    "held out": (
        "Every interaction has a label, so there is nothing to predict. These are held-out interactions, scored by the copy "
        "of the model that did not see their labels; their labels are shown for comparison."
    ),
    "learnt": (
        "Every interaction has a label, and no labels were held out: the model <b>was shown these labels</b>, so its "
        "scores look better than they are."
    ),
}


class Column(NamedTuple):
    """A column of the table: its heading, what it is sorted as ("" if it is not), and its cells."""

    head: str
    sorted_as: str
    cells: list[Cell]


def interactions(subject: Subject, selected: Selected) -> str:
    """The table of the interactions with the highest scores."""
    order = np.argsort(-selected.score, kind="stable")[:MOST_EDGES]
    if not len(order):
        return section("interactions", TITLE, paragraph("There are no interactions to rank."))
    edges = selected.edges[order]
    reasons = _reasons(subject, selected, order)
    columns = [
        *_columns(subject, selected, order, edges),
        *_labels(subject, selected.truth[order]),
        *_features(edges),
        *reasons,
    ]
    heads = [(column.head, column.sorted_as) for column in columns]
    body = table("interactions", heads, zip(*(column.cells for column in columns), strict=True), "id, date or reason")
    text = _introduction(subject, selected, len(order), bool(reasons))
    return section("interactions", TITLE, paragraph(text), body)


def _introduction(subject: Subject, selected: Selected, n_shown: int, has_reasons: bool) -> str:
    edges = selected.edges
    parts = [INTRODUCTIONS[selected.origin].format(positive=code(subject.wanted))]
    if len(edges) > n_shown:
        parts.append(f"The table shows the first {n_shown:,} of {len(edges):,}.")
    parts.append("“Row” is the row number in your table; 1 is the first row below the header.")
    n_left_out = len(edges.feature_names) - len(_shown_features(edges))
    if n_left_out > 0:
        weight = " and the weight" if edges.weight is not None else ""
        parts.append(f"Not shown: {count(n_left_out, 'feature')}{weight}.")
    if has_reasons:
        parts.append("▲ raises the probability, ▽ lowers it; the number after a reason is its effect on the score.")
    return " ".join(parts)


def _columns(subject: Subject, selected: Selected, order: NDArray[np.int64], edges: TemporalEdges) -> list[Column]:
    """Which interaction it is, and its probability."""
    rows, score = (edges.rows + 1).tolist(), selected.score[order].tolist()
    times = [(subject.clock.text(tick), float(tick)) for tick in edges.ticks]
    columns = [
        Column("Rank", "number", [Cell(str(k), "figure muted", k) for k in range(1, len(order) + 1)]),
        Column("Row", "number", [Cell(str(row), "figure", row) for row in rows]),
        Column("From", "text", [Cell(escaped(name_of(node)), "id") for node in edges.src]),
        Column("To", "text", [Cell(escaped(name_of(node)), "id") for node in edges.dst]),
        Column(
            f"Time{' (UTC)' if subject.clock.unit else ''}",
            "time",
            [Cell(escaped(text), "time", tick, text) for text, tick in times],
        ),
        Column("Probability", "number", [Cell(probability(value), "figure score", value) for value in score]),
    ]
    if subject.ids is not None:
        head, ids = subject.ids
        columns.insert(
            2, Column(head, "text", [Cell(escaped(name_of(ids[k])), "id") for k in selected.positions[order]])
        )
    return columns


def _labels(subject: Subject, truth: NDArray[np.int64]) -> list[Column]:
    """The known labels; no column where all are unknown."""
    if (truth < 0).all():
        return []
    names = [subject.names[k] if k >= 0 else "" for k in truth]
    cells = [
        Cell(f"✓ {escaped(name)}" if k == subject.positive else escaped(name), css, None, name)
        for name, k, css in zip(names, truth, np.where(truth == subject.positive, "hit", "muted").tolist(), strict=True)
    ]
    return [Column("Label" if subject.label_name is None else name_of(subject.label_name, 40), "text", cells)]


def _shown_features(edges: TemporalEdges) -> list[str]:
    """The features that the table shows, and the weight."""
    return [*edges.feature_names, *["weight"] * (edges.weight is not None)][:MOST_FEATURES]


def _features(edges: TemporalEdges) -> list[Column]:
    """Features and weight: numbers are sorted as numbers, categories as text."""
    columns = []
    for name in _shown_features(edges):
        at = edges.feature_names.index(name) if name in edges.feature_names else None
        values: Any = edges.weight if at is None or edges.features is None else edges.features[:, at]
        words = edges.feature_categories.get(name)
        if words is None:
            digits = np.finfo(values.dtype).precision
            texts = ["" if np.isnan(x) else f"{x:.{digits}g}" for x in values]
            cells = [Cell(text or "–", "figure", float(x), text) for text, x in zip(texts, values, strict=True)]
        else:
            texts = ["" if np.isnan(x) else name_of(words[int(x)]) for x in values]
            cells = [Cell(escaped(text) or "–", "", None, text) for text in texts]
        columns.append(Column(name_of(name, 40), "number" if words is None else "text", cells))
    return columns


def _reasons(subject: Subject, selected: Selected, order: NDArray[np.int64]) -> list[Column]:
    """The sentences of the model, and their effect on the score of the positive class; no column without any."""
    positive = subject.classes[subject.positive]
    found = selected.model.explain(selected.scored, REASONS, rows=order, positive=positive)
    items = dict.fromkeys(order.tolist(), "")
    for edge, reason, effect in found["edge", "reason", "effect"].iter_rows():
        items[edge] += f"<li>{_effect(effect)}{escaped(name_of(reason, 300))} <small>{effect:+.2f}</small></li>"
    if not any(items.values()):
        return []
    cells = [Cell(f"<ul>{text}</ul>", "why") if text else Cell("–", "why", None, "") for text in items.values()]
    return [Column("Why", "", cells)]


def _effect(effect: float) -> str:
    css, sign, word = ("up", "▲", "raises") if effect > 0 else ("down", "▽", "lowers")
    shown = f'<span aria-hidden="true">{sign}</span><span class="aside">{word} the probability: </span>'
    return f'<span class="{css}">{shown}</span>'
