"""Edges of several tables: joined, found by source, destination and time; and folds that keep equal edges together."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tdlg.checks import as_generator
from tdlg.clock import common_clock, rounded_up, times_of
from tdlg.edges import TemporalEdges, check_alike
from tdlg.linegraph.events import Copies
from tdlg.tables.ids import concatenate_ids

Codes: TypeAlias = NDArray[np.int64]


def concatenate_edges(*parts: TemporalEdges) -> TemporalEdges:
    """Put the sources, destinations and times of several sets of edges into one new table; the rest is dropped."""
    check_alike(parts)
    first = parts[0]
    for part in parts[1:]:  # times that would lose digits or overflow beside the others are refused
        common_clock(first.ticks, first.time_unit, part.ticks, part.time_unit)
    src, dst = (concatenate_ids([getattr(part, end) for part in parts]) for end in ("src", "dst"))
    return TemporalEdges(src, dst, np.concatenate([part.time for part in parts]), bipartite=first.bipartite)


def joined_edges(first: TemporalEdges, more: TemporalEdges) -> TemporalEdges:
    """The edges of two tables in one new table, with labels, their times, weights and features.

    Both have the same features, and either both or neither have weights and datetimes.
    """
    copies = Copies(first)
    once = copies.distinct, more
    bare = concatenate_edges(*once)
    weights = [np.ones(len(edges)) if edges.weight is None else edges.weight for edges in once]
    weight = None if first.weight is None else np.concatenate(weights)
    features = {name: np.concatenate([feature_values(edges, name) for edges in once]) for name in first.feature_names}
    table = TemporalEdges(
        bare.src, bare.dst, bare.time, weight=weight, features=features or None, bipartite=first.bipartite
    )
    places = np.append(copies.place, len(copies.distinct) + np.arange(len(more)))
    edges = table if copies.none else table[places]  # copies of an edge stay one edge
    given = [label for label in (first.label, more.label) if label is not None]
    if not given:
        return edges.with_label(None)
    kind = float if all(label.dtype.kind in "iuf" for label in given) else object  # of missing labels, and of several
    labels = [np.full(len(part), None, kind) if part.label is None else part.label for part in (first, more)]
    both = np.concatenate(labels if kind is float else [label.astype(object) for label in labels])
    if first.label_ticks is None and more.label_ticks is None:
        return edges.with_label(both)
    clock = edges.time_unit, edges.ticks.dtype
    ticks = np.concatenate([rounded_up(part.known_at, part.time_unit, *clock) for part in (first, more)])
    return edges.with_label(both, times_of(ticks, edges.time_unit))


def feature_values(edges: TemporalEdges, name: str) -> NDArray[Any]:
    """A feature as it was passed: numbers with NaN, or categories with None where it is missing."""
    assert edges.features is not None
    values = edges.features[:, edges.feature_names.index(name)]
    if name not in edges.feature_categories:
        return values
    categories = np.array([*edges.feature_categories[name], None], object)
    return categories[np.where(np.isfinite(values), values, len(categories) - 1).astype(np.int64)]


class EdgeIndex:
    """Find edges by source, destination and time, from any table.

    at : one number per edge, from 0 in order of appearance; edges with the same source, destination and time share it.
    """

    def __init__(self, edges: TemporalEdges) -> None:
        self._nodes = edges[:0]  # the ids without the edges: these cache this index and would never be freed
        self._time = edges.time
        self._pairs, pair = np.unique(_pair(edges, edges), return_inverse=True)
        self._times, time = np.unique(edges.time, return_inverse=True)
        triple = pair * len(self._times) + time
        self._triples, self._first, at = np.unique(triple, return_index=True, return_inverse=True)
        self.at, self._pair_at = np.argsort(np.argsort(self._first))[at], pair

    def find(self, other: TemporalEdges) -> Codes:
        """Position of the first edge that equals each of the other edges; -1 if there is none."""
        check_alike((self._nodes, other))
        pair, time = self._find_pairs(other), positions_of(other.time, self._times)
        triple = positions_of(np.where((pair >= 0) & (time >= 0), pair * len(self._times) + time, -1), self._triples)
        return np.where(triple >= 0, self._first[triple], -1)

    def find_each(self, other: TemporalEdges) -> Codes:
        """Like `find`, but several copies of an edge are matched one by one; surplus copies get the first one."""
        first = self.find(other)
        alike = np.where(first >= 0, self.at[first], -1)
        order = np.argsort(alike, kind="stable")
        copy = np.empty(len(order), np.int64)  # number of earlier copies among the other edges
        copy[order] = np.arange(len(order)) - np.searchsorted(alike[order], alike[order])
        mine = np.argsort(self.at, kind="stable")
        start = np.searchsorted(self.at[mine], np.arange(len(self._first) + 1))
        there = (first >= 0) & (copy < np.diff(start)[alike])
        return np.where(there, mine[np.where(there, start[alike] + copy, 0)], first)

    def seen_by(self, other: TemporalEdges) -> NDArray[np.bool_]:
        """Whether the pair of each other edge, in this direction, occurred at its time or before."""
        pair = self._find_pairs(other)
        newest_first = np.argsort(self._time, kind="stable")[::-1]
        start = np.empty(len(self._pairs), self._time.dtype)
        start[self._pair_at[newest_first]] = self._time[newest_first]  # the oldest is written last
        return (pair >= 0) & (start[pair] <= other.time)

    def has_pair(self, other: TemporalEdges) -> NDArray[np.bool_]:
        """Whether the pair of each other edge, in this direction, occurs at any time."""
        return self._find_pairs(other) >= 0

    def _find_pairs(self, other: TemporalEdges) -> Codes:
        return positions_of(_pair(self._nodes, other), self._pairs)


def _pair(edges: TemporalEdges, other: TemporalEdges) -> Codes:
    """One number per ordered pair of nodes of the other edges; -1 if `edges` lack one of the nodes."""
    src, dst = edges.codes_of(other)
    return np.where((src >= 0) & (dst >= 0), src.astype(np.int64) * edges.n_nodes + dst, -1)


def positions_of(wanted: NDArray[Any], values: NDArray[Any]) -> Codes:
    """Position of each wanted value in ascending values; -1 if it is not there."""
    if not len(values):
        return np.full(len(wanted), -1)
    at = np.minimum(np.searchsorted(values, wanted), len(values) - 1)
    return np.where(values[at] == wanted, at, -1)


def without_repeats(at: Codes) -> Codes:
    """Positions of which each occurs once; further ones, those of surplus copies in `find_each`, become -1."""
    again = np.ones(len(at), bool)
    again[np.unique(at, return_index=True)[1]] = False
    return np.where(again, -1, at)


def edge_folds(edges: TemporalEdges, n_folds: int, random_state: Any = None) -> Codes:
    """Assign a random fold to each edge; edges with the same source, destination and time share a fold.

    Parameters
    ----------
    edges
        The edges.
    n_folds
        The number of folds. There are fewer if there are fewer distinct edges.
    random_state
        Seed or generator for the assignment.

    Returns
    -------
    numpy.ndarray
        Fold of each edge, from 0 to n_folds - 1, shape (n_edges,). The numbers of distinct edges per fold differ by at most
        1.

    Examples
    --------
    >>> edge_folds(TemporalEdges([1, 2, 1, 3], [2, 3, 2, 1], [0, 1, 0, 2]), 3, random_state=0).tolist()
    [2, 0, 2, 1]
    """
    at = edge_index(edges).at
    fold = np.arange(at.max(initial=-1) + 1) % n_folds
    return as_generator(random_state).permutation(fold)[at]


def edge_index(edges: TemporalEdges) -> EdgeIndex:
    """The index of these edges, which is cached with them."""
    return edges.cached("edge index", lambda: EdgeIndex(edges))
