import numpy as np
import pytest

from tdlg import Gaussian, Laplace, LineGraph, Mixture, NoDecay, TemporalEdges
from tdlg._kernels import fading, waves
from tdlg._kernels.fading import loss
from tdlg.linegraph import product
from tdlg.linegraph.walks import walks_of


def test_losses_to_the_last_digits():
    r = np.concatenate([np.linspace(0, 50, 20_001), np.geomspace(1e-300, 700, 2001)])
    np.testing.assert_allclose([loss(value) for value in r], np.expm1(-r), rtol=5e-16)
    assert loss(0.0) == 0.0
    assert loss(1e9) == loss(np.inf) == -1.0


@pytest.mark.parametrize("tol", [1e-3, 1e-6, 1e-9, 1e-10])
@pytest.mark.parametrize("per_bandwidth", [2, 31, 32, 33, 64, 1000])
def test_equal_gaps_do_not_add_up_their_errors(tol, per_bandwidth):
    # The worst case of a table: every gap at the same distance from a cell's middle.
    n = 40 * per_bandwidth
    edges = TemporalEdges(np.zeros(n, int), np.arange(1, n + 1), np.arange(n))
    H = LineGraph(edges, decay=Gaussian(float(per_bandwidth)), tol=tol)
    x = np.random.default_rng(0).choice([-1.0, 1.0], (n, 3))
    rows = np.linspace(0, n - 1, 20).astype(int)
    for X in (x, np.ones((n, 1))):
        Y = H @ X
        error = max(np.abs(Y[i] - H.row(i) @ X).max() for i in rows)
        assert error <= (tol + 1e-14) * H.row_sums().max()


def test_vectors_and_plain_loops_give_the_same():
    rng = np.random.default_rng(0)
    edges = TemporalEdges(*rng.integers(0, 9, (2, 500)), rng.uniform(0, 100, 500))
    for decay in (Gaussian(5.0), Laplace(5.0)):
        H, plain = LineGraph(edges, decay=decay), LineGraph(edges, decay=decay)
        plain.__dict__["_walks"] = walks_of(plain._parts, plain.tol, use_vectors=False)
        for columns in (1, 8):
            X = rng.normal(size=(500, columns))
            np.testing.assert_allclose(H @ X, plain @ X, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("past_only", [False, True], ids=["both", "past"])
@pytest.mark.parametrize("decay", [Gaussian(40.0), Laplace(40.0), Mixture([Laplace(3.0), Gaussian(90.0), NoDecay()])])
def test_keys_as_long_as_chunks(decay, past_only, monkeypatch):
    # Keys that end before, at and behind the border of a chunk, with equal times across it.
    monkeypatch.setattr(product, "EVENTS_PER_THREAD", 1)
    chunks = waves.WAVE_EVENTS, fading.FADING_EVENTS
    sizes = [size + more for size in chunks for more in (-1, 0, 1)] + [2 * waves.WAVE_EVENTS + 1, 3]
    key = np.repeat(np.arange(len(sizes)), sizes)
    rng = np.random.default_rng(0)
    edges = TemporalEdges(key, key, rng.integers(0, 3000, key.size))
    graphs = [LineGraph(edges, decay=decay, match="src", past_only=past_only, n_threads=n) for n in (1, 3)]
    M = graphs[0].to_csr()
    allowed = (graphs[0].tol + 1e-13) * LineGraph(edges, decay=decay, match="src").row_sums().max()
    for columns in (1, 3):
        X = rng.uniform(-1, 1, (key.size, columns))
        Y, transposed = M @ X, M.T @ X
        for H in graphs:
            assert np.abs(H @ X - Y).max() <= allowed
            assert np.abs(H.T @ X - transposed).max() <= allowed


def test_large_values_stay_with_their_neighbours():
    edges = TemporalEdges([0, 0, 5, 7], [1, 2, 6, 8], [0, 1, 2, 3])
    y = LineGraph(edges, decay=Gaussian(1.0)) @ [1e307, 0, 1, 1]
    np.testing.assert_allclose(y, [2e307, np.exp(-0.5) * 1e307, 2, 2], rtol=1e-9)
