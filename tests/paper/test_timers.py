"""TIMERS: its error, its update and its bound against full decompositions, and communities that it finds."""

import numpy as np
import pytest
from scipy.sparse import csr_array

from tdlg import TemporalEdges
from tdlg.judge.run import evaluate
from tdlg.judge.trials import EdgeClassification
from tdlg_paper.baselines.snapshots import Snapshots
from tdlg_paper.baselines.timers import TIMERS, Spectrum, error_bound, largest, squared_error, updated
from tdlg_paper.blocks import make_tsbm


@pytest.fixture
def rng():
    return np.random.default_rng(0)


def symmetric(rng, n=30, share=0.2):
    """A symmetric 0/1 matrix without a diagonal; some rows are empty."""
    upper = np.triu(rng.random((n, n)) < share, 1)
    upper[:, rng.random(n) < 0.2] = False
    upper[rng.random(n) < 0.2] = False
    return csr_array((upper | upper.T).astype(float))


def best_error(matrix, rank):
    """The error of the best approximation, by a full SVD."""
    return (np.linalg.svd(matrix.toarray(), compute_uv=False)[rank:] ** 2).sum()


def approximation(spectrum):
    return spectrum.vectors @ np.diag(spectrum.values) @ spectrum.vectors.T


@pytest.mark.parametrize("rank", [1, 5, 40])
@pytest.mark.parametrize("small", [0, 4])  # sparse and dense decomposition
def test_largest_is_the_best_approximation(rank, small, monkeypatch, rng):
    monkeypatch.setattr("tdlg_paper.baselines.timers.SMALL", small if rank < 20 else 4)
    matrix = symmetric(rng)
    spectrum = largest(matrix, rank, rng)
    assert spectrum.vectors.shape == (30, rank)
    assert squared_error(matrix, spectrum) == pytest.approx(best_error(matrix, rank), abs=1e-9)
    assert np.allclose(np.diff(np.abs(spectrum.values)).clip(0), 0)
    assert np.allclose(np.abs(spectrum.scaled()) ** 2, np.abs(spectrum.vectors**2 * spectrum.values))


def test_the_error_of_vectors_that_are_not_orthogonal(rng):
    matrix, spectrum = symmetric(rng), Spectrum(rng.normal(size=4), rng.normal(size=(30, 4)))
    expected = ((matrix.toarray() - approximation(spectrum)) ** 2).sum()
    assert squared_error(matrix, spectrum) == pytest.approx(expected)


@pytest.mark.parametrize("small", [0, 4])
@pytest.mark.parametrize("change", ["everything", "one edge", "nothing", "empty"])
def test_no_approximation_is_better_than_the_bound(small, change, monkeypatch, rng):
    monkeypatch.setattr("tdlg_paper.baselines.timers.SMALL", small)
    for _ in range(10):
        before = symmetric(rng)
        after = before.copy() if change == "nothing" else symmetric(rng)
        if change == "one edge":
            after = before.tolil()
            after[3, 8] = after[8, 3] = 1 - after[3, 8]
            after = csr_array(after)
        if change == "empty":
            before = csr_array((30, 30))
        for rank in (1, 4):
            bound = error_bound(before, after, best_error(before, rank), rank, rng)
            assert bound <= best_error(after, rank) + 1e-8
            if change == "nothing":
                assert bound == pytest.approx(best_error(after, rank))


def test_the_update_is_right_to_first_order(rng):
    """Of a full spectrum, so that no direction is missing: a tenth of the change leaves a hundredth of the error."""
    matrix = rng.normal(size=(8, 8))
    matrix = matrix + matrix.T
    change = rng.normal(size=(8, 8))
    change = change + change.T
    spectrum = largest(csr_array(matrix), 8, rng)
    errors = [
        np.linalg.norm(matrix + size * change - approximation(updated(spectrum, csr_array(size * change))))
        for size in (1e-3, 1e-4)
    ]
    assert errors[1] < errors[0] / 50
    assert errors[0] < 0.05 * np.linalg.norm(1e-3 * change)


def test_a_vector_is_never_lost():
    spectrum = Spectrum(np.array([1.0, 0.0]), np.eye(3)[:, :2])
    moved = updated(spectrum, csr_array(np.diag([-1.0, 0.0, 0.0])))
    assert np.allclose(np.linalg.norm(moved.vectors, axis=0), 1)


class TestRestarts:
    @pytest.fixture
    def edges(self):
        return make_tsbm(40, 20, random_state=0).edges

    def test_no_tolerance_decomposes_every_snapshot(self, edges):
        method = TIMERS(5, theta=1e-9, n_snapshots=4, random_state=0)
        method.embed(edges)
        assert method.restarts_ == [0, 1, 2, 3]
        snapshots = Snapshots(edges, 4)
        for index in range(4):
            vectors = np.abs(method.vectors_[index])
            expected = np.abs(largest(snapshots.adjacency(index), 5, np.random.default_rng(1)).scaled())
            assert np.allclose(vectors, expected, atol=1e-6)

    def test_any_error_is_tolerated_where_the_bound_is_above_zero(self, edges):
        snapshots, method = Snapshots(edges, 2), TIMERS(39, theta=1e9, n_snapshots=2, random_state=0)
        method.embed(edges)
        start, rng = snapshots.adjacency(0), np.random.default_rng(0)
        bound = error_bound(start, snapshots.adjacency(1), best_error(start, 39), 39, rng)
        assert method.restarts_ == ([0] if bound > 0 else [0, 1])

    def test_the_same_edges_again_need_no_restart(self):
        rng = np.random.default_rng(0)
        src, dst = rng.integers(0, 30, (2, 150))
        edges = TemporalEdges(np.tile(src, 3), np.tile(dst, 3), np.repeat([0, 1, 2], 150))
        method = TIMERS(4, n_snapshots=3, random_state=0)
        method.embed(edges)
        assert method.restarts_ == [0]
        assert np.allclose(np.abs(method.vectors_), np.abs(method.vectors_[0]), atol=1e-6)


def test_communities_of_each_period_are_found():
    """All edges together show no communities: early ones stay within, late ones go between."""
    sample = make_tsbm(random_state=0)
    is_within = sample.community[sample.edges.src_code] == sample.community[sample.edges.dst_code]
    task = EdgeClassification(sample.edges.with_label(is_within.astype(int)))
    auc = evaluate(TIMERS(8, n_snapshots=4), task, trials=1)["auc"][0]
    blind = evaluate(TIMERS(8, n_snapshots=1), task, trials=1)["auc"][0]
    assert auc > 0.95
    assert blind < 0.65


def test_two_perfect_matchings_change_nothing_that_counts():
    """The squares of both adjacency matrices are the identity, which ARPACK cannot start from."""
    nodes = np.arange(600)
    src, dst = np.append(nodes[::2], nodes[1::2]), np.append(nodes[1::2], np.roll(nodes[::2], -1))
    method = TIMERS(8, n_snapshots=2, random_state=0)
    method.embed(TemporalEdges(src, dst, np.repeat([0, 1], 300)))
    assert np.isfinite(method.vectors_).all()
