"""Snapshots: which interval a time falls into, and which pairs are linked in it."""

import numpy as np
import pytest

from tdlg import TemporalEdges
from tdlg.exceptions import EdgesError, ParameterError
from tdlg_paper.baselines.snapshots import Snapshots


def random_edges(seed, n_edges=60, n_nodes=9):
    rng = np.random.default_rng(seed)
    ends = rng.integers(0, n_nodes, (2, n_edges)) * 7
    return TemporalEdges(*ends, rng.integers(0, 50, n_edges))


def plain_index(time, first, last, n_snapshots):
    """The interval of one time, by comparing it with every start."""
    found = 0
    for k in range(n_snapshots):
        if time >= first + (last - first) * k / n_snapshots:
            found = k
    return found


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("n_snapshots", [1, 4, 20])
def test_each_time_is_in_its_interval(seed, n_snapshots):
    edges = random_edges(seed)
    others = TemporalEdges([0] * 9, [7] * 9, [-100, *range(0, 56, 8), 1e9])
    first, last = edges.time.min(), edges.time.max()
    snapshots = Snapshots(edges, n_snapshots)
    assert snapshots.index.tolist() == [plain_index(time, first, last, n_snapshots) for time in edges.time]
    assert snapshots.index_of(others).tolist() == [plain_index(time, first, last, n_snapshots) for time in others.time]


def test_times_on_another_clock():
    edges = TemporalEdges(["a"] * 3, ["b"] * 3, np.array([0, 50, 100], "datetime64[s]"))
    late = TemporalEdges(["a"], ["b"], np.array([30_000], "datetime64[ms]"))
    assert Snapshots(edges, 10).index_of(late).tolist() == [3]


def test_one_time_is_the_last_snapshot():
    assert Snapshots(TemporalEdges([1, 2], [2, 3], [5, 5]), 3).index.tolist() == [2, 2]


@pytest.mark.parametrize("seed", range(3))
def test_adjacency_has_each_pair_once(seed):
    edges = random_edges(seed)
    snapshots = Snapshots(edges, 5)
    dense = np.zeros((5, snapshots.n_nodes, snapshots.n_nodes))
    for k, u, v in zip(snapshots.index, snapshots.src, snapshots.dst, strict=True):
        if u != v:
            dense[k, u, v] = dense[k, v, u] = 1
    assert np.array_equal([snapshots.adjacency(k).toarray() for k in range(5)], dense)


def test_only_nodes_of_the_edges_are_numbered():
    edges = TemporalEdges(["a", "b", "c", "d"], ["b", "c", "d", "e"], range(4))
    snapshots = Snapshots(edges[1:3], 2)
    assert snapshots.n_nodes == 3
    assert [nodes.tolist() for nodes in snapshots.nodes_of(edges)] == [[-1, 0, 1, 2], [0, 1, 2, -1]]
    assert [nodes.tolist() for nodes in snapshots.nodes_of(TemporalEdges(["d"], ["x"], [0]))] == [[2], [-1]]


def test_what_is_refused():
    edges = TemporalEdges([1, 2], [2, 3], [0, 1])
    with pytest.raises(ParameterError, match="n_snapshots"):
        Snapshots(edges, 0)
    with pytest.raises(EdgesError, match="no edges"):
        Snapshots(edges[:0])
