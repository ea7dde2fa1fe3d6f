"""Which interactions and nodes to look at first, and the reasons a model gives."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import repeat
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tdlg.edges import TemporalEdges
from tdlg.explain.nodes import node_scores
from tdlg.report.holdout import HeldOut
from tdlg.report.subject import Classifier, Subject, label_times
from tdlg.report.text import name_of

__all__ = ["Alert", "Asked", "NodeAlert", "alerts", "choose_asked", "feature_names", "node_alerts"]

Floats = NDArray[np.float64]

MOST_EDGES = 200  # in the table of interactions
MOST_NODES = 60
MOST_FEATURES = 12  # columns of the table of interactions
REASONS = 3  # for each interaction
ROLES = {"src": "source", "dst": "destination"}


@dataclass(frozen=True, eq=False)
class Asked:
    """The edges that the page ranks.

    Attributes
    ----------
    model
        What scored them: the model, or its copy that was not shown their labels.
    edges
        As they were given to it.
    score
        The probability of the class looked for.
    truth
        Their classes as positions where known, else -1.
    kind
        "unlabelled", "new", "held out", or "learnt" where the model was shown their labels.
    positions
        Where they are among the edges of the page.
    label_time
        When their labels become known, if these times were given.
    """

    model: Classifier
    edges: TemporalEdges
    score: Floats
    truth: NDArray[np.int64]
    kind: str
    positions: NDArray[np.int64]
    label_time: NDArray[Any] | None = None


@dataclass(frozen=True)
class Alert:
    """One interaction to look at, its cells as text; of a feature that is a number, the number too, NaN if missing."""

    row: int
    id: str | None
    src: str
    dst: str
    time: str
    tick: float
    score: float
    label: str
    is_wanted: bool | None
    features: tuple[tuple[str, float | None], ...]
    reasons: tuple[tuple[str, float], ...]


@dataclass(frozen=True)
class NodeAlert:
    """One node to look at."""

    node: str
    role: str
    n: int
    expected: float
    mean: float
    highest: float
    reason: str


def choose_asked(subject: Subject, held: HeldOut | None, probability: Floats) -> Asked:
    """The edges without a label; where there are none those held out; where neither, all."""
    score, truth, every = probability[:, subject.positive], subject.codes, np.arange(len(subject.edges))
    open_ones = np.flatnonzero(~subject.edges.labelled)
    if len(open_ones):
        kind = "unlabelled" if subject.is_learnt else "new"
        times = label_times(subject.model) if subject.is_learnt else None
        times = None if times is None else times[open_ones]
        return Asked(
            subject.model, subject.edges[open_ones], score[open_ones], truth[open_ones], kind, open_ones, times
        )
    if not subject.is_learnt:
        return Asked(subject.model, subject.edges, score, truth, "new", every)
    if held is not None:
        score = held.probability[:, subject.positive]
        return Asked(held.model, held.asked, score, held.truth, "held out", held.positions, held.label_time)
    return Asked(subject.model, subject.edges, score, truth, "learnt", every)


def alerts(subject: Subject, asked: Asked, most: int = MOST_EDGES) -> list[Alert]:
    """The interactions with the highest scores, with the reasons for them."""
    order = np.argsort(-asked.score, kind="stable")[:most]
    edges = asked.edges[order]
    reasons = _reasons(subject, asked, order)
    ids = [subject.ids[1][k] if subject.ids else None for k in asked.positions[order]]
    features = zip(*_features(edges), strict=True) if edges.feature_names or edges.weight is not None else repeat(())
    columns = edges.rows + 1, ids, edges.src, edges.dst, edges.ticks
    found = zip(order, *columns, reasons, features, strict=False)
    return [
        Alert(
            int(row),
            id_,
            name_of(src),
            name_of(dst),
            subject.clock.text(tick),
            float(tick),
            float(asked.score[at]),
            subject.names[asked.truth[at]] if asked.truth[at] >= 0 else "",
            bool(asked.truth[at] == subject.positive) if asked.truth[at] >= 0 else None,
            tuple(of_features),
            tuple(why),
        )
        for at, row, id_, src, dst, tick, why, of_features in found
    ]


def feature_names(edges: TemporalEdges) -> list[str]:
    """The features that the table of interactions shows, and the weight."""
    own = [*edges.feature_names, *["weight"] * (edges.weight is not None)]
    return own[:MOST_FEATURES]


def _features(edges: TemporalEdges) -> list[list[tuple[str, float | None]]]:
    """For each of these, its values as text, and as numbers where they are."""
    columns: list[list[tuple[str, float | None]]] = []
    for name in feature_names(edges):
        at = edges.feature_names.index(name) if name in edges.feature_names else None
        values: Any = edges.weight if at is None or edges.features is None else edges.features[:, at]
        words = edges.feature_categories.get(name)
        if words is None:
            digits = np.finfo(values.dtype).precision
            columns.append([("" if np.isnan(x) else f"{x:.{digits}g}", float(x)) for x in values])
        else:
            columns.append([("" if np.isnan(x) else name_of(words[int(x)]), None) for x in values])
    return columns


# ---- reasons


def _reasons(subject: Subject, asked: Asked, order: NDArray[np.int64]) -> list[list[tuple[str, float]]]:
    """For each edge the sentences of the model, and their effect on the score of the positive class."""
    found: list[list[tuple[str, float]]] = [[] for _ in order]
    of_edge = dict(zip(order.tolist(), found, strict=True))
    positive = subject.classes[subject.positive]
    table = asked.model.explain(asked.edges, REASONS, rows=order, positive=positive, label_time=asked.label_time)
    for edge, reason, effect in table["edge", "reason", "effect"].iter_rows():
        of_edge[edge].append((name_of(reason, 300), effect))
    return found


# ---- nodes


def node_alerts(subject: Subject, asked: Asked, most: int = MOST_NODES) -> list[NodeAlert]:
    """The nodes whose interactions are the riskiest."""
    positive = subject.classes[subject.positive]
    table = node_scores(asked.model, asked.edges, positive, label_time=asked.label_time).head(most)
    return [
        NodeAlert(
            name_of(line["node"]),
            ROLES.get(line["role"], line["role"]),
            line["n"],
            line["expected"],
            line["mean"],
            line["highest"],
            name_of(line["reason"] or "", 300),
        )
        for line in table.iter_rows(named=True)
    ]
