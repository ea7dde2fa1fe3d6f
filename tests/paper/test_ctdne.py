"""CTDNE: walks in the order of time, how their edges are sampled, and communities that are found from them."""

import sys
from itertools import pairwise

import numpy as np
import pytest

from tdlg import TemporalEdges
from tdlg.exceptions import ParameterError, TdlgWarning
from tdlg.judge.run import evaluate
from tdlg.judge.trials import EdgeClassification
from tdlg_paper.baselines.ctdne import CTDNE
from tdlg_paper.baselines.snapshots import Snapshots
from tdlg_paper.baselines.temporal_walks import sampled_edge, temporal_walks
from tdlg_paper.blocks import make_tsbm


def random_snapshots(seed, n_edges=80, n_nodes=12):
    rng = np.random.default_rng(seed)
    return Snapshots(TemporalEdges(*rng.integers(0, n_nodes, (2, n_edges)), rng.integers(0, 30, n_edges)), 1)


def times_by_pair(snapshots, directed):
    """The sorted times of each pair of nodes."""
    times = {}
    for u, v, time in zip(snapshots.src, snapshots.dst, snapshots.edges.time, strict=True):
        times.setdefault((u, v), []).append(time)
        if not directed:
            times.setdefault((v, u), []).append(time)
    return {pair: sorted(found) for pair, found in times.items()}


def is_in_order(walk, times):
    """Whether edges along the walk can be chosen so that none is earlier than the one before."""
    now = -np.inf
    for pair in pairwise(walk):
        later = [time for time in times.get(pair, []) if time >= now]
        if not later:
            return False
        now = later[0]
    return True


@pytest.mark.parametrize("directed", [True, False])
@pytest.mark.parametrize("bias", ["uniform", "exponential"])
def test_walks_are_in_the_order_of_time(directed, bias):
    for seed in range(3):
        snapshots = random_snapshots(seed)
        method = CTDNE(n_walks=20, walk_length=9, directed=directed, walk_bias=bias)
        walks = method.walks(snapshots, np.random.default_rng(seed))
        times = times_by_pair(snapshots, directed)
        assert walks.shape == (20 * snapshots.n_nodes, 9)
        for walk in walks:
            nodes = walk[walk >= 0]
            assert (walk[len(nodes) :] == -1).all()
            assert len(nodes) >= 2
            assert is_in_order(nodes.tolist(), times)
        assert ((walks >= 0).sum(axis=1) > 3).any()


def test_a_walk_ends_only_where_no_later_edge_leaves():
    """A chain: from each edge the walk goes on to its end."""
    edges = TemporalEdges([0, 1, 2, 3], [1, 2, 3, 4], [0, 0, 5, 9])
    walks = CTDNE(n_walks=10, walk_length=6).walks(Snapshots(edges, 1), np.random.default_rng(0))
    assert {tuple(walk) for walk in walks} == {
        (0, 1, 2, 3, 4, -1),
        (1, 2, 3, 4, -1, -1),
        (2, 3, 4, -1, -1, -1),
        (3, 4, -1, -1, -1, -1),
    }


def test_a_walk_does_not_go_back_in_time():
    edges = TemporalEdges([0, 1], [1, 2], [5, 3])
    walks = CTDNE(n_walks=5, walk_length=3).walks(Snapshots(edges, 1), np.random.default_rng(0))
    assert {tuple(walk) for walk in walks} == {(0, 1, -1), (1, 2, -1)}


@pytest.mark.parametrize(("is_biased", "weight"), [(False, [1, 1, 1, 1]), (True, np.exp([0, -0.5, -0.5, -2]))])
def test_the_next_edge_is_sampled_by_its_weight(is_biased, weight):
    time, rng = np.array([9.0, 1.0, 2.0, 2.0, 5.0, 0.0]), np.random.default_rng(0)
    counts = np.bincount([sampled_edge(time, 1, 5, is_biased, 2.0, rng) for _ in range(20_000)], minlength=6)
    assert counts[[0, 5]].tolist() == [0, 0]
    assert np.allclose(counts[1:5] / 20_000, np.divide(weight, np.sum(weight)), atol=0.015)


def test_the_kernel_writes_every_entry():
    walks = np.full((2, 4), 99, np.int32)
    starts = np.array([0, 1]), np.array([1, 0]), np.array([0.0, 2.0])
    graph = np.array([0, 1, 2]), np.array([1, 0]), np.array([1.0, 2.0])
    temporal_walks(*graph, starts, False, 1.0, np.random.default_rng(0), walks)
    assert walks.tolist() == [[0, 1, 0, -1], [1, 0, -1, -1]]


@pytest.mark.needs("gensim")
class TestVectors:
    def test_communities_are_found(self):
        sample = make_tsbm(intra=(0.9, 0.9), random_state=0)
        is_within = sample.community[sample.edges.src_code] == sample.community[sample.edges.dst_code]
        task = EdgeClassification(sample.edges.with_label(is_within.astype(int)))
        method = CTDNE(16, n_walks=100, walk_length=5, window=2, min_length=2, epochs=5, directed=False)
        assert evaluate(method, task, trials=1)["auc"][0] > 0.9

    def test_short_walks_are_left_out(self):
        chain = TemporalEdges([0, 1, 2, 10], [1, 2, 3, 11], [0, 1, 2, 3])
        method = CTDNE(4, min_length=4, random_state=0)
        method.embed(chain)
        assert method.vectors_[0].any(axis=1).tolist() == [True] * 4 + [False] * 2

    def test_no_walk_is_long_enough(self):
        edges = TemporalEdges([0, 2], [1, 3], [0, 1])
        method = CTDNE(4)
        with pytest.warns(
            TdlgWarning, match=r"Only 0% of the nodes have a vector.* min_length=10 nodes. Pass a smaller"
        ):
            method.embed(edges)
        assert not method.vectors_.any()

    def test_stopping_after_an_epoch(self):
        edges = make_tsbm(20, 10, random_state=0).edges
        settings = {"n_components": 4, "min_length": 2, "random_state": 0}
        stopped, whole = CTDNE(epochs=3, **settings), CTDNE(epochs=3, **settings)
        steps = []
        stopped.embed(edges, callback=lambda *step: steps.append(step) or True)
        whole.embed(edges)
        assert steps == [(1, 3)]
        assert not np.array_equal(stopped.vectors_, whole.vectors_)


def test_without_gensim_the_message_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "gensim", None)
    monkeypatch.setitem(sys.modules, "gensim.models", None)
    with pytest.raises(ImportError, match=r'pip install "\./paper\[deep\]"'):
        CTDNE().embed(TemporalEdges([0], [1], [0]))


@pytest.mark.parametrize(
    ("parameter", "value"), [("walk_bias", "late"), ("walk_bias", None), ("walk_length", 1), ("epochs", 0)]
)
def test_what_is_refused(parameter, value):
    with pytest.raises(ParameterError, match=parameter):
        CTDNE(**{parameter: value}).embed(TemporalEdges([0], [1], [0]))
