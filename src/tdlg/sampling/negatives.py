"""Edges that did not happen, to be told from those that did: the paper's shuffled columns, and what the field uses."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tdlg.checks import as_generator
from tdlg.edges import TemporalEdges
from tdlg.exceptions import EdgesError
from tdlg.sampling.index import EdgeIndex

__all__ = ["historical_edges", "inductive_edges", "shuffled_edges", "time_kept_edges"]

ATTEMPTS = 10  # how often a pair is drawn anew that did happen at that very time


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


def time_kept_edges(edges: TemporalEdges, random_state: Any = None) -> TemporalEdges:
    """Make edges that did not happen by shuffling the destinations alone.

    Who acts, and when, stays as it was, so that "is this node active now" tells nothing of the sources: harder to tell
    from real edges than `shuffled_edges`, row i being the negative of edge i.

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
    >>> negatives = time_kept_edges(edges, random_state=1)
    >>> negatives.src.tolist(), negatives.time.tolist(), sorted(negatives.dst.tolist())
    (['ann', 'bob', 'cat'], [1, 2, 3], ['x', 'y', 'z'])
    """
    order = as_generator(random_state).permutation(len(edges))
    return TemporalEdges(edges.src, edges.dst[order], edges.time, bipartite=edges.bipartite)


def historical_edges(edges: TemporalEdges, past: TemporalEdges, random_state: Any = None) -> TemporalEdges:
    """Make edges between pairs that have met in the past, but not at this time.

    A method that only remembers which pairs have met cannot tell these from real ones.

    Parameters
    ----------
    edges
        The edges that happened; each gives the time of one negative.
    past
        The edges whose pairs are drawn from, such as those trained on; each distinct pair is as likely as any other.
    random_state
        A seed or generator.

    Returns
    -------
    TemporalEdges
        A new table of as many edges, bipartite where `edges` are. A pair that did meet at that time is drawn anew up to ten
        times, and kept where nothing else is found.

    Examples
    --------
    >>> past = TemporalEdges(["ann", "bob"], ["x", "y"], [1, 2])
    >>> negatives = historical_edges(TemporalEdges(["ann", "cat"], ["x", "z"], [3, 4]), past, random_state=0)
    >>> list(zip(negatives.src.tolist(), negatives.dst.tolist(), negatives.time.tolist()))
    [('bob', 'y', 3), ('bob', 'y', 4)]
    """
    if not len(past):
        raise EdgesError("The 'past' edges are none, so no pair has met before. Give the edges that were trained on.")
    return _pairs_at_times(_distinct_pairs(past), edges, as_generator(random_state))


def inductive_edges(edges: TemporalEdges, past: TemporalEdges, random_state: Any = None) -> TemporalEdges:
    """Make edges between pairs that meet for the first time among these edges, but not at this time.

    A method that only remembers training pairs scores all of these low, and so does it all new real ones.

    Parameters
    ----------
    edges
        The edges that happened; each gives the time of one negative, and those pairs are drawn from that never met in the
        past.
    past
        The edges whose pairs are old, such as those trained on.
    random_state
        A seed or generator.

    Returns
    -------
    TemporalEdges
        A new table of as many edges, bipartite where `edges` are. A pair that did meet at that time is drawn anew up to ten
        times, and kept where nothing else is found.

    Raises
    ------
    EdgesError
        If every pair among the edges has met in the past.

    Examples
    --------
    >>> past = TemporalEdges(["ann"], ["x"], [1])
    >>> edges = TemporalEdges(["ann", "cat", "dan"], ["x", "z", "y"], [2, 3, 4])
    >>> negatives = inductive_edges(edges, past, random_state=0)
    >>> list(zip(negatives.src.tolist(), negatives.dst.tolist(), negatives.time.tolist()))
    [('dan', 'y', 2), ('dan', 'y', 3), ('cat', 'z', 4)]
    """
    pairs = _distinct_pairs(edges)
    pairs = pairs[~EdgeIndex(past).has_pair(pairs)] if len(past) else pairs
    if len(edges) and not len(pairs):
        raise EdgesError(
            "No pair among the edges is new: all have met in the 'past', so there is nothing to draw inductive "
            "negatives from. Use historical_edges, or time_kept_edges."
        )
    return _pairs_at_times(pairs, edges, as_generator(random_state))


def _distinct_pairs(edges: TemporalEdges) -> TemporalEdges:
    """The first edge of each ordered pair."""
    code = edges.src_code.astype(np.int64) * edges.n_nodes + edges.dst_code
    return edges[np.sort(np.unique(code, return_index=True)[1])]


def _pairs_at_times(pairs: TemporalEdges, edges: TemporalEdges, rng: np.random.Generator) -> TemporalEdges:
    """Pairs drawn at random, with the times of the edges; drawn anew where they are one of the edges."""
    real = EdgeIndex(edges)
    chosen = rng.integers(len(pairs), size=len(edges))
    for _ in range(ATTEMPTS):
        wrong = np.flatnonzero(real.find(_at(pairs, chosen, edges)) >= 0)
        if not len(wrong):
            break
        chosen[wrong] = rng.integers(len(pairs), size=len(wrong))
    return _at(pairs, chosen, edges)


def _at(pairs: TemporalEdges, chosen: NDArray[np.int64], edges: TemporalEdges) -> TemporalEdges:
    return TemporalEdges(pairs.src[chosen], pairs.dst[chosen], edges.time, bipartite=edges.bipartite)
