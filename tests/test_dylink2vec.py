"""DyLink2Vec: neighbourhoods by plain loops, gradients by finite differences, and communities that are found."""

import numpy as np
import pytest
from scipy.sparse import csr_array

from tdlg import TemporalEdges
from tdlg.datasets.blocks import make_tsbm
from tdlg.exceptions import ParameterError
from tdlg.judge.run import evaluate
from tdlg.judge.trials import EdgeClassification
from tdlg_paper.baselines.dylink2vec import Code, DyLink2Vec, gradient, neighbourhoods, reconstruction_error
from tdlg_paper.baselines.snapshots import Snapshots


@pytest.fixture
def rng():
    return np.random.default_rng(0)


def random_code(rng, n_inputs=9, n_components=3):
    shapes = (n_inputs, n_components), (n_components,), (n_components, n_inputs), (n_inputs,)
    return Code(*(rng.normal(size=shape) for shape in shapes))


def random_pairs(rng, n_pairs=5, n_inputs=9):
    return csr_array(np.where(rng.random((n_pairs, n_inputs)) < 0.4, rng.random((n_pairs, n_inputs)), 0))


def plain_error(code, pairs):
    """The formula, with the reconstruction as a dense matrix."""
    hidden = 1 / (1 + np.exp(-(pairs.toarray() @ code.into + code.bias)))
    return ((hidden @ code.back + code.mean - pairs.toarray()) ** 2).sum() / (2 * pairs.shape[0])


def test_the_error(rng):
    code, pairs = random_code(rng), random_pairs(rng)
    assert reconstruction_error(code, pairs) == pytest.approx(plain_error(code, pairs))


def test_the_gradient_against_finite_differences(rng):
    code, pairs = random_code(rng), random_pairs(rng)
    for part, slope in enumerate(gradient(code, pairs)):
        assert slope.shape == code[part].shape
        for place in np.ndindex(slope.shape):
            sides = []
            for step in (1e-5, -1e-5):
                moved = [weight.copy() for weight in code]
                moved[part][place] += step
                sides.append(plain_error(Code(*moved), pairs))
            assert slope[place] == pytest.approx((sides[0] - sides[1]) / 2e-5, abs=1e-7)


def test_neighbourhoods_by_plain_loops(rng):
    edges = TemporalEdges(*rng.integers(0, 8, (2, 60)), np.arange(60))
    snapshots = Snapshots(edges, 3)
    index, src, dst = np.array([0, 2, 1, -1, 1]), np.array([0, 3, 5, 2, -1]), np.array([1, 4, 5, 1, 6])
    found = neighbourhoods(snapshots, index, src, dst).toarray()
    for row, (k, u, v) in enumerate(zip(index, src, dst, strict=True)):
        expected = np.zeros(snapshots.n_nodes)
        for node in (u, v):
            if k >= 0 and node >= 0:
                expected += snapshots.adjacency(k).toarray()[node]
        assert np.allclose(found[row], expected / (np.linalg.norm(expected) or 1))


def test_features_are_the_codes_of_the_last_snapshots():
    edges = TemporalEdges([0, 1, 2, 0], [1, 2, 0, 2], [0, 1, 2, 3])
    method = DyLink2Vec(5, history=3, epochs=2, n_snapshots=2, random_state=0)
    method.embed(edges)
    features = method.features(edges)
    now = method.vectors_.of(neighbourhoods(method.snapshots_, np.array([1]), np.array([0]), np.array([2])))
    past = method.vectors_.of(neighbourhoods(method.snapshots_, np.array([0]), np.array([0]), np.array([2])))
    assert features.shape == (4, 15)
    assert np.allclose(features[3], np.hstack([now[0], past[0], np.zeros(5)]))


def test_the_error_falls():
    method = DyLink2Vec(8, epochs=20, n_snapshots=4, random_state=0)
    method.embed(make_tsbm(random_state=0).edges)
    assert len(method.errors_) == 20
    assert method.errors_[-1] < method.errors_[0] / 2


def test_communities_of_each_period_are_found():
    """All edges together show no communities: early ones stay within, late ones go between."""
    sample = make_tsbm(random_state=0)
    is_within = sample.community[sample.edges.src_code] + sample.community[sample.edges.dst_code] == 0
    task = EdgeClassification(sample.edges.with_label(is_within.astype(int)))
    assert evaluate(DyLink2Vec(8, history=1, epochs=20, n_snapshots=4), task, trials=1)["auc"][0] > 0.85


@pytest.mark.parametrize(("parameter", "value"), [("history", 0), ("epochs", 0), ("learning_rate", -1)])
def test_what_is_refused(parameter, value):
    with pytest.raises(ParameterError, match=parameter):
        DyLink2Vec(**{parameter: value}).embed(TemporalEdges([0], [1], [0]))
