"""Edges that did not happen and edges that might: shuffled negatives, folds, and candidates for what comes next."""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tdlg._columns.ids import concatenate_ids
from tdlg.edges import TemporalEdges
from tdlg.exceptions import EdgesError, ParameterError

__all__ = [
    "EdgeIndex",
    "as_generator",
    "candidate_pairs",
    "concatenate_edges",
    "edge_folds",
    "edge_index",
    "shuffled_edges",
]

Codes: TypeAlias = NDArray[np.int64]

MOST_SOURCES = 1000  # the most sources that candidates are made for, those that acted last
SEEN, TWO_STEPS, POPULAR = 50, 30, 20  # the most candidates of each kind a source: 100 together
STEP = 10  # how many of a node's latest partners a step goes to
RECENT = 1000  # popular is who was met most in so many last edges


def as_generator(random_state: Any) -> np.random.Generator:
    """Give a generator for any `random_state`: None, a seed, a numpy Generator or a RandomState."""
    if isinstance(random_state, np.random.RandomState):
        return np.random.default_rng(random_state.randint(2**31))
    try:
        return np.random.default_rng(random_state)
    except (TypeError, ValueError):
        raise ParameterError(
            f"The 'random_state' parameter must be None, a whole number at least 0, or a numpy Generator or RandomState. "
            f"Got {random_state!r} instead."
        ) from None


def shuffled_edges(edges: TemporalEdges, random_state: Any = None) -> TemporalEdges:
    """Make edges that did not happen: sources, destinations and times, each column shuffled on its own.

    These are the paper's negatives, one an edge. Each column keeps its distribution, so that only what belongs together is
    lost. As in the paper, a shuffled edge may happen to be a real one, or a self-loop.

    Parameters
    ----------
    edges
        The edges that happened. Their labels, weights and features are left behind.
    random_state
        A seed or generator.

    Returns
    -------
    TemporalEdges
        A new table of as many edges, bipartite where `edges` are.

    Examples
    --------
    >>> edges = TemporalEdges(["ann", "bob", "cat"], ["x", "y", "z"], [1, 2, 3])
    >>> negatives = shuffled_edges(edges, random_state=1)
    >>> sorted(negatives.src.tolist()), sorted(negatives.time.tolist())
    (['ann', 'bob', 'cat'], [1, 2, 3])
    """
    rng = as_generator(random_state)
    src, dst, time = (column[rng.permutation(len(edges))] for column in (edges.src, edges.dst, edges.time))
    return TemporalEdges(src, dst, time, bipartite=edges.bipartite)


def concatenate_edges(*parts: TemporalEdges) -> TemporalEdges:
    """Put the sources, destinations and times of several sets of edges into one new table, in the order given.

    Labels, weights and features are left behind.

    Examples
    --------
    >>> first, second = TemporalEdges(["a"], ["b"], [0]), TemporalEdges(["b"], ["c"], [1])
    >>> concatenate_edges(first, second)
    TemporalEdges(2 edges, 3 nodes, time 0 to 1)
    """
    _check_alike(parts)
    src, dst = (concatenate_ids([getattr(part, end) for part in parts]) for end in ("src", "dst"))
    return TemporalEdges(src, dst, np.concatenate([part.time for part in parts]), bipartite=parts[0].bipartite)


def _check_alike(parts: tuple[TemporalEdges, ...]) -> None:
    for what, of in (
        ("bipartite", lambda part: part.bipartite),
        ("with datetimes", lambda part: part.time_unit is not None),
    ):
        found = [of(part) for part in parts]
        if len(set(found)) > 1:
            raise EdgesError(
                f"Edges that belong together must all be {what}, or none of them. Got {found} instead: make them alike."
            )


class EdgeIndex:
    """Finds edges by their source, destination and time, whatever table they are from.

    Parameters
    ----------
    edges
        The edges to find.

    Attributes
    ----------
    at
        A number for each edge, from 0 in order of appearance; the same for edges with the same source, destination and
        time.

    Examples
    --------
    >>> index = EdgeIndex(TemporalEdges(["a", "b", "a"], ["b", "c", "b"], [0, 1, 0]))
    >>> index.at.tolist(), index.find(TemporalEdges(["b", "b"], ["c", "c"], [1, 2])).tolist()
    ([0, 1, 0], [1, -1])
    """

    def __init__(self, edges: TemporalEdges) -> None:
        self._edges = edges
        self._pairs, pair = np.unique(_pair(edges, edges), return_inverse=True)
        self._times, time = np.unique(edges.time, return_inverse=True)
        self._triples, self._first, at = np.unique(
            pair * len(self._times) + time, return_index=True, return_inverse=True
        )
        self.at, self._pair_at = np.argsort(np.argsort(self._first))[at], pair

    def find(self, other: TemporalEdges) -> Codes:
        """Position of the first edge like each of the others; -1 where there is none."""
        _check_alike((self._edges, other))
        pair, time = self._find_pairs(other), _positions(self._times, other.time)
        triple = _positions(self._triples, np.where((pair >= 0) & (time >= 0), pair * len(self._times) + time, -1))
        return np.where(triple >= 0, self._first[triple], -1)

    def seen_by(self, other: TemporalEdges) -> NDArray[np.bool_]:
        """Whether the pair of each of the others, in this direction, was there at its time or before."""
        pair = self._find_pairs(other)
        newest_first = np.argsort(self._edges.time, kind="stable")[::-1]
        start = np.empty(len(self._pairs), self._edges.time.dtype)
        start[self._pair_at[newest_first]] = self._edges.time[newest_first]  # the oldest is written last
        return (pair >= 0) & (start[pair] <= other.time)

    def _find_pairs(self, other: TemporalEdges) -> Codes:
        return _positions(self._pairs, _pair(self._edges, other))


def _pair(edges: TemporalEdges, other: TemporalEdges) -> Codes:
    """One number for the ordered pair of each of the others; -1 where `edges` do not know a node."""
    src, dst = edges.codes_of(other)
    return np.where((src >= 0) & (dst >= 0), src.astype(np.int64) * edges.n_nodes + dst, -1)


def _positions(values: NDArray[Any], wanted: NDArray[Any]) -> Codes:
    """Position of each wanted one in ascending values; -1 where it is not there."""
    at = np.minimum(np.searchsorted(values, wanted), len(values) - 1)
    return np.where(values[at] == wanted, at, -1)


def edge_folds(edges: TemporalEdges, n_folds: int, random_state: Any = None) -> Codes:
    """Draw a fold for each edge; those with the same source, destination and time are in one.

    Parameters
    ----------
    edges
        The edges.
    n_folds
        How many folds; fewer where there are fewer distinct edges.
    random_state
        A seed or generator.

    Returns
    -------
    numpy.ndarray
        (n_edges,), from 0 to n_folds - 1. The folds have the same number of distinct edges, but for 1.

    Examples
    --------
    >>> edge_folds(TemporalEdges([1, 2, 1, 3], [2, 3, 2, 1], [0, 1, 0, 2]), 3, random_state=0).tolist()
    [2, 0, 2, 1]
    """
    at = edge_index(edges).at
    fold = np.arange(at.max(initial=-1) + 1) % n_folds
    return as_generator(random_state).permutation(fold)[at]


def edge_index(edges: TemporalEdges) -> EdgeIndex:
    """The index of these edges, kept beside them."""
    return edges.cached("edge index", lambda: EdgeIndex(edges))


# ---- candidates


class _Met(NamedTuple):
    """Who met whom last and when; times are ranks, the larger the later."""

    node: Codes
    other: Codes
    when: Codes


def candidate_pairs(edges: TemporalEdges) -> tuple[Codes, Codes]:
    """Pairs that may come next, never all: for each of the 1,000 sources that acted last, at most 100 destinations.

    These are, each once: the 50 destinations that it met last; the 30 latest two steps away, partners of its partners (its
    10 latest, and their 10 latest) that have been a destination; and the 20 destinations met most in the last 1,000 edges.
    Where no source is ever a destination, as in bipartite networks, a partner's partner is a source, and one more step
    leads to what those similar to it met. A path is as late as the oldest meeting in it.

    Parameters
    ----------
    edges
        What has happened so far.

    Returns
    -------
    src, dst
        Positions in `edges.node_ids`; sources that acted last first. The same edges give the same pairs.

    Examples
    --------
    >>> edges = TemporalEdges(["ann", "bob"], ["bob", "cat"], [1, 2])
    >>> src, dst = candidate_pairs(edges)
    >>> list(zip(edges.node_ids[src].tolist(), edges.node_ids[dst].tolist()))
    [('bob', 'cat'), ('ann', 'bob'), ('ann', 'cat')]
    """
    time = np.unique(edges.ticks, return_inverse=True)[1]
    met = _Met(edges.src_code.astype(np.int64), edges.dst_code.astype(np.int64), time)
    sources = _latest(met._replace(node=np.zeros_like(time), other=met.node), MOST_SOURCES).other
    seen = _of(_latest(met, SEEN), sources, edges.n_nodes)
    near = _two_steps_away(met, sources, seen, edges.n_nodes)
    popular = _popular(met)
    src = np.concatenate([seen.node, near.node, np.repeat(sources, len(popular))])
    dst = np.concatenate([seen.other, near.other, np.tile(popular, len(sources))])
    new = np.arange(len(src)) < len(seen.node) + len(near.node)
    keep = new | (src != dst)  # nobody is a popular partner of its own
    return _by_source(src[keep], dst[keep], sources, edges.n_nodes)


def _latest(met: _Met, limit: int) -> _Met:
    """For each node at most `limit` others, each once, the latest first."""
    order = np.lexsort((met.when, met.other, met.node))
    node, other = met.node[order], met.other[order]
    last = np.append((np.diff(node) != 0) | (np.diff(other) != 0), True)[: len(order)]  # meeting of the two
    order = order[last]
    order = order[np.lexsort((met.other[order], -met.when[order], met.node[order]))]
    node = met.node[order]
    order = order[np.arange(len(order)) - np.searchsorted(node, node) < limit]
    return _Met(*(column[order] for column in met))


def _of(met: _Met, nodes: Codes, n_nodes: int) -> _Met:
    """The meetings of these nodes only."""
    wanted = np.zeros(n_nodes, bool)
    wanted[nodes] = True
    return _Met(*(column[wanted[met.node]] for column in met))


def _two_steps_away(met: _Met, sources: Codes, seen: _Met, n_nodes: int) -> _Met:
    """Destinations that are partners of partners of a source, the latest of them; none of those in `seen`."""
    both = _Met(*map(np.concatenate, ((met.node, met.other), (met.other, met.node), (met.when, met.when))))
    partners = _latest(both, STEP)
    is_destination = np.zeros(n_nodes, bool)
    is_destination[met.other] = True
    reached = _Met(sources, sources, np.full(len(sources), met.when.max(initial=0)))
    for _ in range(2 if is_destination[met.node].any() else 3):
        reached = _step(reached, partners, n_nodes)
    known = np.isin(reached.node * n_nodes + reached.other, seen.node * n_nodes + seen.other)
    keep = is_destination[reached.other] & (reached.other != reached.node) & ~known
    return _latest(_Met(*(column[keep] for column in reached)), TWO_STEPS)


def _step(reached: _Met, partners: _Met, n_nodes: int) -> _Met:
    """From each node reached to its partners."""
    start = np.searchsorted(partners.node, np.arange(n_nodes + 1))
    count = (start[1:] - start[:-1])[reached.other]
    within = np.arange(count.sum()) - np.repeat(np.cumsum(count) - count, count)
    at = np.repeat(start[reached.other], count) + within
    when = np.minimum(np.repeat(reached.when, count), partners.when[at])
    return _latest(_Met(np.repeat(reached.node, count), partners.other[at], when), len(at))


def _popular(met: _Met) -> Codes:
    """The destinations met most in the last edges; the latest first among those met as often."""
    recent = met.other[np.argsort(-met.when, kind="stable")[:RECENT]]
    nodes, first, count = np.unique(recent, return_index=True, return_counts=True)
    return nodes[np.lexsort((first, -count))][:POPULAR]


def _by_source(src: Codes, dst: Codes, sources: Codes, n_nodes: int) -> tuple[Codes, Codes]:
    """Each pair once, in the order of the sources and else as given."""
    first = np.sort(np.unique(src * n_nodes + dst, return_index=True)[1])
    place = np.empty(n_nodes, np.int64)
    place[sources] = np.arange(len(sources))
    order = first[np.argsort(place[src[first]], kind="stable")]
    return src[order], dst[order]
