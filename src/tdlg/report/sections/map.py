"""What the script draws as dots: the held-out scores against time, and a map of the edges with its section."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tdlg.edges import TemporalEdges
from tdlg.embed.lowrank import LowRankFeatures
from tdlg.judge.holdout import HeldOut
from tdlg.linegraph.decay import NoDecay
from tdlg.report.html import group_of, legend, paragraph, section
from tdlg.report.subject import Subject
from tdlg.report.text import escaped, name_of, rounded, share

__all__ = ["MOST_DOTS", "map_dots", "map_section", "score_dots"]

Floats = NDArray[np.float64]
Positions = NDArray[np.int64]

MOST_MAPPED = 1000  # edges that are drawn; more take long to lay out, and hide each other
MOST_EMBEDDED = 200_000  # edges whose line graph is embedded
COMPONENTS = 32
MOST_DOTS = 1000  # in the chart of scores against time


def map_dots(subject: Subject, score: Floats, first: Positions) -> dict[str, Any] | None:
    """Dots of edges that lie close where their neighbourhoods in the line graph are alike; None for a handful of edges.

    Parameters
    ----------
    subject
        What the page is about.
    score
        The probability of the class looked for, of each edge.
    first
        Edges that are drawn in any case, such as the most suspicious.
    """
    from sklearn.manifold import TSNE

    edges, rng = subject.edges, np.random.default_rng(subject.seed)
    base = _sampled(rng, len(edges), MOST_EMBEDDED, first)
    decay = NoDecay() if edges.ticks[base].min() == edges.ticks[base].max() else None
    vectors = LowRankFeatures(COMPONENTS, decay=decay, random_state=subject.seed).fit_transform(edges[base])
    shown = _sampled(rng, len(base), MOST_MAPPED, np.flatnonzero(np.isin(base, first)))
    rows = vectors[shown]
    rows = rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12)
    if len(shown) < 12 or rows.shape[1] < 2 or np.ptp(rows, axis=0).max() < 1e-9:
        return None
    rows = rows + rng.normal(0, 1e-4, rows.shape)  # edges with the same neighbours would lie on one spot
    perplexity = min(30.0, (len(shown) - 1) / 4)
    places = TSNE(init="pca", perplexity=perplexity, max_iter=500, random_state=subject.seed).fit_transform(rows)
    places = (places - places.min(axis=0)) / np.maximum(np.ptp(places, axis=0), 1e-12)
    at = base[shown]
    dots = _dots(subject, edges[at], score[at], subject.codes[at])
    return dots | {
        "x": rounded(places[:, 0]),
        "y": rounded(places[:, 1]),
        "time": rounded(_ranks(edges.ticks[at])),
        "embedded": len(base),
        "range": [[-0.02, 1.02], [-0.02, 1.02]],
    }


def map_section(subject: Subject, dots: dict[str, Any] | None) -> str:
    """The place for the map, with what it can be coloured by."""
    title = "Map of the interactions"
    if dots is None:
        return section("map", title, paragraph("There are too few interactions, or they are too alike, for a map."))
    text = (
        "Each mark is one interaction. Two marks are close if the interactions share nodes, or neighbours of nodes, at "
        "about the same time: the map shows the embedding of the time-decayed line graph. Clusters are meaningful; "
        "distances between clusters are not."
    )
    n, drawn = len(subject.edges), ""
    if dots["n"] < n:
        drawn = f" {dots['n']:,} of {n:,} are shown: those with the highest scores, and others sampled at random."
    if dots["embedded"] < n:
        drawn += f" The embedding was computed from {dots['embedded']:,} interactions, sampled at random."
    choices = "".join(
        f'<label><input type="radio" name="colour" value="{value}"{" checked" * (value == "group")}> {word}</label>'
        for value, word in (
            ("group", "label"),
            ("score", f"probability of {escaped(subject.wanted)}"),
            ("time", "time"),
        )
    )
    body = (
        f'<fieldset class="choices"><legend>Colour by</legend>{choices}</fieldset>'
        f'<div data-for="group">{legend(subject, unknown=not subject.edges.labelled.all())}</div>'
        '<p class="legend ramp" data-for="score" hidden>0 <i class="of-score"></i> 1, larger marks are more probable</p>'
        '<p class="legend ramp" data-for="time" hidden>first <i class="of-time"></i> last</p>'
        '<div class="scatter square" data-scatter="map"><canvas tabindex="0" role="img"></canvas></div>'
        f'<p class="note">Hover, touch, or use the arrow keys to see an interaction.{drawn}</p>'
    )
    return section("map", title, paragraph(text), f"<figure>{body}</figure>")


def score_dots(subject: Subject, held: HeldOut) -> dict[str, Any]:
    """Dots of held-out edges: when, and with which score."""
    rng = np.random.default_rng(subject.seed)
    at = _sampled(rng, len(held.edges), MOST_DOTS, np.empty(0, np.int64))
    edges, score = held.edges[at], held.probability[at, subject.positive]
    first, last = float(held.edges.ticks.min()), float(held.edges.ticks.max())
    width = (last - first) or 1.0
    return _dots(subject, edges, score, held.truth[at]) | {
        "x": rounded((edges.ticks.astype(np.float64) - first) / width, 5),
        "y": rounded(score),
        "range": [[-0.01, 1.01], [-0.02, 1.02]],
        "xTicks": [[(value - first) / width, text] for value, text in subject.clock.axis(first, last, 6)],
        "yTicks": [[value, f"{value:g}"] for value in (0.0, 0.25, 0.5, 0.75, 1.0)],
    }


def _dots(subject: Subject, edges: TemporalEdges, score: Floats, truth: Positions) -> dict[str, Any]:
    """What all dots have: their group (0 unknown, 1 the class looked for, ...), score, and the words shown beside."""
    group = [group_of(subject, k) for k in range(len(subject.classes))]
    return {
        "group": [0 if code < 0 else group[code] for code in truth.tolist()],
        "score": rounded(score, 3),
        "said": [share(value) for value in score.tolist()],
        "src": [name_of(value) for value in edges.src],
        "dst": [name_of(value) for value in edges.dst],
        "when": subject.clock.texts(edges.ticks),
        "label": ["unknown" if code < 0 else subject.names[code] for code in truth.tolist()],
        "n": len(edges),
    }


def _sampled(rng: np.random.Generator, n: int, most: int, first: Positions) -> Positions:
    """Positions in ascending order: all, or a random sample of `most` that includes `first`."""
    if n <= most:
        return np.arange(n)
    first = first[:most]
    others = np.setdiff1d(np.arange(n), first)
    return np.sort(np.concatenate([first, rng.choice(others, most - len(first), replace=False)]))


def _ranks(ticks: NDArray[Any]) -> Floats:
    """Times as shares of the way from the first to the last, by their order."""
    _, rank = np.unique(ticks, return_inverse=True)
    return rank / max(int(rank.max()), 1)
