"""Negative edges, which did not happen: the paper's shuffled columns, and the negatives common in the field."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tdlg.checks import as_generator
from tdlg.edges import TemporalEdges
from tdlg.exceptions import EdgesError
from tdlg.sampling.index import EdgeIndex

ATTEMPTS = 10  # how often a pair that did meet at that time is sampled again


def shuffled_edges(edges: TemporalEdges, random_state: Any = None) -> TemporalEdges:
    """Make negative edges by shuffling sources, destinations and times independently.

    These are the paper's negatives, one per edge. Each column keeps its distribution; only the relation between the columns
    is lost. As in the paper, a shuffled edge may by chance be a real edge or a self-loop.

    Parameters
    ----------
    edges
        The edges that happened. Their labels, weights and features are not used.
    random_state
        Seed or generator for sampling.

    Returns
    -------
    TemporalEdges
        A new table with one negative per edge, bipartite if `edges` are.

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
    """Make negative edges by shuffling the destinations only; parameters and result as of `shuffled_edges`.

    Sources and times stay, so that the activity of the source at that time gives no hint: these negatives are harder to
    distinguish from real edges than `shuffled_edges`. Row i is the negative of edge i.
    """
    order = as_generator(random_state).permutation(len(edges))
    return TemporalEdges(edges.src, edges.dst[order], edges.time, bipartite=edges.bipartite)


def historical_edges(edges: TemporalEdges, past: TemporalEdges, random_state: Any = None) -> TemporalEdges:
    """Make edges between pairs that have met in the past, but not at this time.

    A method that only remembers which pairs have met cannot distinguish these from real edges.

    Parameters
    ----------
    edges
        The edges that happened; each gives the time of one negative.
    past
        The edges whose pairs are sampled, for example the training edges; all distinct pairs are equally likely.
    random_state
        Seed or generator for sampling.

    Returns
    -------
    TemporalEdges
        A new table with one negative per edge, bipartite if `edges` are. A pair that did meet at that time is sampled again
        up to ten times, and kept if no other is found.

    Examples
    --------
    >>> past = TemporalEdges(["ann", "bob"], ["x", "y"], [1, 2])
    >>> negatives = historical_edges(TemporalEdges(["ann", "cat"], ["x", "z"], [3, 4]), past, random_state=0)
    >>> list(zip(negatives.src.tolist(), negatives.dst.tolist(), negatives.time.tolist()))
    [('bob', 'y', 3), ('bob', 'y', 4)]
    """
    if not len(past):
        raise EdgesError("The 'past' is empty, so no pair has met before. Pass the training edges.")
    return _pairs_at_times(_distinct_pairs(past), edges, as_generator(random_state))


def inductive_edges(edges: TemporalEdges, past: TemporalEdges, random_state: Any = None) -> TemporalEdges:
    """Make edges between pairs that meet for the first time among these edges, but not at this time.

    A method that only remembers training pairs gives low scores to all of these, and to all new real edges. Parameters and
    result are those of `historical_edges`, but the pairs that are sampled are those of `edges` that never met in the `past`.

    Raises
    ------
    EdgesError
        If every pair among the edges has met in the past.
    """
    pairs = _distinct_pairs(edges)
    pairs = pairs[~EdgeIndex(past).has_pair(pairs)] if len(past) else pairs
    if len(edges) and not len(pairs):
        raise EdgesError(
            "No pair among the edges is new: all have met in the 'past', so there are no inductive negatives to sample. "
            "Use historical_edges or time_kept_edges."
        )
    return _pairs_at_times(pairs, edges, as_generator(random_state))


def _distinct_pairs(edges: TemporalEdges) -> TemporalEdges:
    """The first edge of each ordered pair."""
    code = edges.src_code.astype(np.int64) * edges.n_nodes + edges.dst_code
    return edges[np.sort(np.unique(code, return_index=True)[1])]


def _pairs_at_times(pairs: TemporalEdges, edges: TemporalEdges, rng: np.random.Generator) -> TemporalEdges:
    """Random pairs with the times of the edges; a pair that makes a real edge is sampled again."""
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
