"""Candidate pairs for the next edges: met before, not answered yet, two steps away, or currently popular."""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tdlg.edges import TemporalEdges

Codes: TypeAlias = NDArray[np.int64]

MOST_SOURCES = 1000  # maximum number of sources to make candidates for: those that were active last
SEEN, HEARD, TWO_STEPS, POPULAR = 50, 20, 30, 20  # maximum number of candidates of each type per source: 120 in total
PARTNERS_OF_STEP = 10  # number of a node's latest partners that a step leads to
RECENT = 1000  # number of latest edges that decide which destinations are popular


class _Meetings(NamedTuple):
    """Pairs of nodes and when they met; times are ranks, the larger the later."""

    node: Codes
    other: Codes
    when: Codes

    def some(self, which: NDArray[np.integer[Any] | np.bool_]) -> _Meetings:
        """Some of them."""
        return _Meetings(*(column[which] for column in self))


def candidate_pairs(edges: TemporalEdges) -> tuple[Codes, Codes]:
    """Candidate pairs for the next edges: at most 120 destinations for each of the 1,000 sources that were active last.

    The candidates of a source are, each once:

    - the 50 destinations that it met last;
    - the 20 latest sources that contacted it and that it has not answered yet;
    - the 30 latest nodes two steps away: of its 10 latest partners, the 10 latest partners each, if they have been a
      destination. If no source is ever a destination, as in bipartite networks, a partner's partner is a source, and one
      more step leads to the destinations of similar sources. The time of a path is that of its oldest edge;
    - the 20 most frequent destinations of the last 1,000 edges.

    Parameters
    ----------
    edges
        The edges so far.

    Returns
    -------
    src, dst
        Positions in `edges.node_ids`; the sources that were active last come first. The same edges give the same pairs.

    Examples
    --------
    >>> edges = TemporalEdges(["ann", "bob"], ["bob", "cat"], [1, 2])
    >>> src, dst = candidate_pairs(edges)
    >>> list(zip(edges.node_ids[src].tolist(), edges.node_ids[dst].tolist()))
    [('bob', 'cat'), ('bob', 'ann'), ('ann', 'bob'), ('ann', 'cat')]
    """
    time = np.unique(edges.ticks, return_inverse=True)[1]
    met = _Meetings(edges.src_code.astype(np.int64), edges.dst_code.astype(np.int64), time)
    sources = _latest(met._replace(node=np.zeros_like(time), other=met.node), MOST_SOURCES).other
    is_source, is_destination = np.zeros((2, edges.n_nodes), bool)
    is_source[sources], is_destination[met.other] = True, True
    seen = _latest(met, SEEN)
    seen = seen.some(is_source[seen.node])
    heard = _Meetings(met.other, met.node, met.when).some(is_source[met.other])  # nobody, if none is a destination
    heard = _latest(_new(heard, seen, edges.n_nodes), HEARD)
    near = _latest(_new(_two_steps_away(met, sources, is_destination), seen, edges.n_nodes), TWO_STEPS)
    recent = met.other[np.argsort(-met.when, kind="stable")[:RECENT]]
    nodes, first, count = np.unique(recent, return_index=True, return_counts=True)
    popular = nodes[np.lexsort((first, -count))][:POPULAR]  # among equally frequent ones, the latest first
    src = np.concatenate([seen.node, heard.node, near.node, np.repeat(sources, len(popular))])
    dst = np.concatenate([seen.other, heard.other, near.other, np.tile(popular, len(sources))])
    keep = (np.arange(len(src)) < len(seen.node)) | (src != dst)  # nobody is a popular partner of its own
    return _by_source(src[keep], dst[keep], sources, edges.n_nodes)


def _latest(met: _Meetings, limit: int) -> _Meetings:
    """For each node at most `limit` others, each once, the latest first."""
    order = np.lexsort((met.when, met.other, met.node))
    node, other = met.node[order], met.other[order]
    last = np.append((np.diff(node) != 0) | (np.diff(other) != 0), True)[: len(order)]  # meeting of the two
    order = order[last]
    order = order[np.lexsort((met.other[order], -met.when[order], met.node[order]))]
    node = met.node[order]
    order = order[np.arange(len(order)) - np.searchsorted(node, node) < limit]
    return met.some(order)


def _new(met: _Meetings, seen: _Meetings, n_nodes: int) -> _Meetings:
    """The pairs of two different nodes that are not in `seen`."""
    known = np.isin(met.node * n_nodes + met.other, seen.node * n_nodes + seen.other)
    return met.some((met.other != met.node) & ~known)


def _two_steps_away(met: _Meetings, sources: Codes, is_destination: NDArray[np.bool_]) -> _Meetings:
    """Destinations that are partners of partners of a source."""
    n_nodes = len(is_destination)
    both = _Meetings(*map(np.concatenate, ((met.node, met.other), (met.other, met.node), (met.when, met.when))))
    partners = _latest(both, PARTNERS_OF_STEP)
    reached = _Meetings(sources, sources, np.full(len(sources), met.when.max(initial=0)))
    for _ in range(2 if is_destination[met.node].any() else 3):
        reached = _step(reached, partners, n_nodes)
    return reached.some(is_destination[reached.other])


def _step(reached: _Meetings, partners: _Meetings, n_nodes: int) -> _Meetings:
    """From each node reached to its partners."""
    start = np.searchsorted(partners.node, np.arange(n_nodes + 1))
    count = (start[1:] - start[:-1])[reached.other]
    within = np.arange(count.sum()) - np.repeat(np.cumsum(count) - count, count)
    at = np.repeat(start[reached.other], count) + within
    when = np.minimum(np.repeat(reached.when, count), partners.when[at])
    return _latest(_Meetings(np.repeat(reached.node, count), partners.other[at], when), len(at))


def _by_source(src: Codes, dst: Codes, sources: Codes, n_nodes: int) -> tuple[Codes, Codes]:
    """Each pair once, ordered by source; the pairs of a source keep their order."""
    first = np.sort(np.unique(src * n_nodes + dst, return_index=True)[1])
    place = np.empty(n_nodes, np.int64)
    place[sources] = np.arange(len(sources))
    order = first[np.argsort(place[src[first]], kind="stable")]
    return src[order], dst[order]
