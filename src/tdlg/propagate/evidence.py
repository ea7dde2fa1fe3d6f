"""What is known when edges are scored: edges, labels and features, and the times when labels became known."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tdlg.edges import TemporalEdges
from tdlg.linegraph.events import Copies

__all__ = ["Around", "Evidence", "Query", "around_category", "late_labels"]

Floats = NDArray[np.float64]


class Evidence(NamedTuple):
    """The edges and labels from which columns are made.

    Attributes
    ----------
    edges
        All edges that count, in one table.
    own
        Their features as numbers, (n_edges, n_own).
    targets
        Their labels minus the prior, (n_edges, n_targets); values of unlabelled edges are not used.
    labelled
        Mask of the known labels, (n_edges,).
    categories
        Integer codes of the features with many categories, (n_edges, n_features with many categories).
    label_ticks
        Times at which the labels became known, in ticks of the edges; None if each is known at the time of its edge.
    """

    edges: TemporalEdges
    own: Floats
    targets: Floats
    labelled: NDArray[np.bool_]
    categories: NDArray[np.int64]
    label_ticks: NDArray[Any] | None = None


class Query(NamedTuple):
    """Edges to score.

    Attributes
    ----------
    evidence
        The edges and labels from which their columns are made.
    at
        Their positions in the evidence, (n_edges,).
    own, categories
        Their features and categories as passed, (n_edges, n_own) and (n_edges, n_features with many categories). For a
        fitted edge from another table they may differ from those in the evidence.
    """

    evidence: Evidence
    at: NDArray[np.int64]
    own: Floats
    categories: NDArray[np.int64]

    def some(self, which: NDArray[np.int64]) -> Query:
        """Some of these edges, with the same evidence."""
        return Query(self.evidence, self.at[which], self.own[which], self.categories[which])

    def rows(self) -> TemporalEdges:
        """The edges to score, as a part of the evidence."""
        edges, at = self.evidence.edges, self.at
        everything = len(at) == len(edges) and np.array_equal(at, np.arange(len(at)))
        return edges if everything else edges[at]  # the same edges share one layout


class Around(NamedTuple):
    """Whose sums are made over which edges: rows and columns of a line graph, and labels that became known late.

    Attributes
    ----------
    match
        Which ends must be the same, see `LineGraph`.
    rows, cols
        The edges to score, and the edges around them.
    late
        The edges whose labels are known, at the times when they became known, and their positions in the evidence; None if
        labels are known at the times of their edges.
    """

    match: str
    rows: TemporalEdges
    cols: TemporalEdges
    late: tuple[TemporalEdges, NDArray[np.int64]] | None


def late_labels(evidence: Evidence, edges: TemporalEdges) -> tuple[TemporalEdges, NDArray[np.int64]] | None:
    """The labelled edges at the times when their labels became known, and their positions; None if labels are not late.

    Parameters
    ----------
    evidence
        What is known, with one label time per edge.
    edges
        The same edges, perhaps with other nodes.
    """
    if evidence.label_ticks is None:
        return None
    known_at = np.maximum(evidence.label_ticks, edges.ticks)
    # labels that become known after all edges are left out: their times may be far beyond all others
    known = np.flatnonzero(evidence.labelled & (known_at < edges.ticks.max(initial=known_at.min(initial=0))))
    return edges[known].at_ticks(known_at[known]), known


def around_category(query: Query, k: int, end: str) -> Around:
    """The edges around those to score with the same category of the k-th feature that has many.

    Parameters
    ----------
    query
        The edges to score.
    k
        Position of the feature among those with many categories.
    end
        "src" or "dst" for edges that also share this end; "" for all edges.
    """
    evidence, at, _, categories = query
    changed = np.flatnonzero(evidence.categories[at, k] != categories[:, k])  # fitted edges with another category
    copies = Copies(evidence.edges)
    first = np.unique(copies.at, return_index=True)[1]
    whole = np.concatenate([first, at[changed]])
    code = np.concatenate([evidence.categories[first, k], categories[changed, k]])
    if end:
        node = getattr(evidence.edges, f"{end}_code")[whole].astype(np.int64)
        code = code * evidence.edges.n_nodes + node
    table = TemporalEdges(code, np.zeros(len(code), np.int64), evidence.edges[whole].time, bipartite=True)
    places = copies.at[at]
    places[changed] = len(first) + np.arange(len(changed))
    edges = table[copies.at]
    return Around("src", table[places], edges, late_labels(evidence, edges))
