"""Random walks over edges in the order of time."""

import math

from tdlg._kernels.compiled import compiled


@compiled
def first_from(time, low, high, since):
    """The first position of sorted times, low <= position < high, at `since` or later; high if there is none."""
    while low < high:
        middle = (low + high) // 2
        if time[middle] >= since:
            high = middle
        else:
            low = middle + 1
    return low


@compiled
def sampled_edge(time, low, high, is_biased, scale, rng):
    """One of the edges low <= edge < high, sorted by time; with the bias, sooner ones are more likely."""
    if not is_biased:
        return low + int(rng.random() * (high - low))
    total = 0.0
    for edge in range(low, high):
        total += math.exp((time[low] - time[edge]) / scale)
    rest = rng.random() * total
    for edge in range(low, high):
        rest -= math.exp((time[low] - time[edge]) / scale)
        if rest < 0.0:
            return edge
    return high - 1


@compiled
def temporal_walks(indptr, neighbour, time, starts, is_biased, scale, rng, walks):  # out: walks
    """Walks whose edges are in the order of time; equal times may follow each other.

    The edges of node v are indptr[v] <= edge < indptr[v + 1], sorted by time. `starts` has the source, the destination and
    the time of the first edge of each walk. Row w of `walks` gets the nodes of walk w; -1 after its last node.
    """
    src, dst, since = starts
    for walk in range(src.size):
        walks[walk, :] = -1
        walks[walk, 0], walks[walk, 1] = src[walk], dst[walk]
        node, now = dst[walk], since[walk]
        for step in range(2, walks.shape[1]):
            high = indptr[node + 1]
            low = first_from(time, indptr[node], high, now)
            if low == high:
                break
            edge = sampled_edge(time, low, high, is_biased, scale, rng)
            node, now = neighbour[edge], time[edge]
            walks[walk, step] = node
