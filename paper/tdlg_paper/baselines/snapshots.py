"""Snapshots: edges in even intervals of time, as symmetric adjacency matrices over the nodes that occur."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array, csr_array

from tdlg.checks import check_count
from tdlg.clock import common_clock
from tdlg.edges import TemporalEdges
from tdlg.exceptions import EdgesError

Positions = NDArray[np.int64]


class Snapshots:
    """Edges, cut into snapshots by dividing their time span into even intervals.

    Only nodes of the edges themselves have a number, from 0 to `n_nodes` - 1, not all nodes of their table.

    Attributes
    ----------
    edges
        The edges.
    src, dst
        Nodes of each edge, shape (n_edges,).
    index
        The snapshot of each edge, shape (n_edges,).
    n_snapshots, n_nodes
        The number of snapshots and of nodes.

    Examples
    --------
    >>> edges = TemporalEdges(["a", "b", "a"], ["b", "c", "c"], [0, 5, 9])
    >>> snapshots = Snapshots(edges, 2)
    >>> snapshots.index
    array([0, 1, 1])
    >>> snapshots.adjacency(1).toarray()
    array([[0., 0., 1.],
           [0., 0., 1.],
           [1., 1., 0.]])
    """

    def __init__(self, edges: TemporalEdges, n_snapshots: int = 20) -> None:
        check_count("Snapshots", "n_snapshots", n_snapshots, 1)
        if not len(edges):
            raise EdgesError("There are no edges to make snapshots of. Pass at least one edge.")
        self.edges = edges
        self.n_snapshots = n_snapshots
        self._node_at = _numbered(edges)
        self.n_nodes = int(self._node_at.max()) + 1
        self.src, self.dst = self.nodes_of(edges)
        self.index = self.index_of(edges)

    def index_of(self, edges: TemporalEdges) -> Positions:
        """The snapshot that the time of each edge falls into; the first for earlier times, the last for later times."""
        ticks, own, _ = common_clock(edges.ticks, edges.time_unit, self.edges.ticks, self.edges.time_unit)
        first, last = float(own.min()), float(own.max())
        starts = first + (last - first) * np.arange(1, self.n_snapshots) / self.n_snapshots
        return np.searchsorted(starts, ticks.astype(np.float64), side="right")

    def nodes_of(self, edges: TemporalEdges) -> tuple[Positions, Positions]:
        """The nodes of each edge, -1 for a node that has no number."""
        src, dst = (np.where(code >= 0, self._node_at[code], -1) for code in self.edges.codes_of(edges))
        return src, dst

    def adjacency(self, index: int) -> csr_array:
        """The adjacency matrix of one snapshot, shape (n_nodes, n_nodes): symmetric, 1 for each pair, without self-loops.

        Several edges between two nodes count once, and weights are ignored, as in the comparison of the paper.
        """
        return self.adjacencies[index]

    @cached_property
    def adjacencies(self) -> list[csr_array]:
        """The adjacency matrices of all snapshots, in the order of time."""
        is_pair = self.src != self.dst
        return [self._matrix(is_pair & (self.index == k)) for k in range(self.n_snapshots)]

    def _matrix(self, chosen: NDArray[np.bool_]) -> csr_array:
        ends = (
            np.concatenate([self.src[chosen], self.dst[chosen]]),
            np.concatenate([self.dst[chosen], self.src[chosen]]),
        )
        matrix = coo_array((np.ones(len(ends[0])), ends), shape=(self.n_nodes, self.n_nodes)).tocsr()
        matrix.data[:] = 1.0
        return matrix


def _numbered(edges: TemporalEdges) -> Positions:
    """The number of each node of the table, -1 for nodes that these edges do not have."""
    number = np.full(edges.n_nodes, -1)
    used: NDArray[Any] = np.unique(np.concatenate([edges.src_code, edges.dst_code]))
    number[used] = np.arange(len(used))
    return number
