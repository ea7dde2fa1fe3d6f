"""What all published methods share: features from vectors, seeds, progress, files, unseen nodes and several classes."""

from typing import ClassVar

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from tdlg import TemporalEdges
from tdlg.exceptions import ParameterError
from tdlg.judge.methods import COMPARED as COMPARED_NAMES
from tdlg.judge.methods import METHODS, make_method
from tdlg_paper.baselines.snapshots import Snapshots
from tdlg_paper.baselines.vectors import OPERATORS, EdgeVectorMethod, NodeVectorMethod
from tdlg_paper.blocks import make_tsbm

TORCH, GENSIM = pytest.mark.needs("torch"), pytest.mark.needs("gensim")
SMALL = {  # quick settings of each method
    "ctdne": {"n_components": 8, "n_walks": 20, "min_length": 2, "epochs": 2},
    "timers": {"n_components": 8, "n_snapshots": 4},
    "evolvegcn": {"n_components": 8, "n_snapshots": 4, "epochs": 3},
    "evolvegcn-o": {"n_components": 8, "n_snapshots": 4, "epochs": 3},
    "dyngem": {"n_components": 8, "n_snapshots": 4, "epochs": 3},
    "gcrn": {"n_components": 8, "n_snapshots": 4, "epochs": 3},
    "vgrnn": {"n_components": 8, "n_snapshots": 4, "epochs": 3},
    "dylink2vec": {"n_components": 4, "n_snapshots": 4, "epochs": 3},
    "dyrep": {"n_components": 8, "n_snapshots": 4, "epochs": 3},
}
MARKS = {"ctdne": GENSIM, "timers": ()}
COMPARED = [pytest.param(name, marks=MARKS.get(name, TORCH)) for name in SMALL]


@pytest.fixture(scope="module")
def edges():
    return make_tsbm(60, 20, random_state=0).edges  # six classes


def embedded(name, edges, **settings):
    method = make_method(name, **SMALL[name], random_state=0).set_params(**settings)
    method.embed(edges)
    method.fit(edges)
    return method


def test_every_published_method_is_tested():
    ours = {"tdlg", "tdlg-dense", "propagation", "propagation-links", "label-rates", "windows", "edgebank"}
    assert SMALL.keys() == METHODS.keys() - ours
    assert tuple(SMALL) == COMPARED_NAMES


@pytest.mark.parametrize("name", COMPARED)
class TestEachMethod:
    def test_the_seed_decides(self, name, edges):
        scores = [embedded(name, edges, random_state=seed).decision_function(edges) for seed in (0, 0, 1)]
        assert scores[0].shape == (len(edges), 6)
        assert np.isfinite(scores[0]).all()
        assert np.array_equal(scores[0], scores[1])
        assert name == "timers" or not np.allclose(scores[0], scores[2])  # its seed is of starting vectors alone

    def test_progress_is_told_until_the_end(self, name, edges):
        steps = []
        make_method(name, **SMALL[name]).embed(edges, callback=lambda *step: steps.append(step))
        done, totals = zip(*steps, strict=True)
        assert len(set(totals)) == 1
        assert (np.diff(done) > 0).all()
        assert done[-1] == totals[0]

    def test_stopped_early_it_still_scores(self, name, edges):
        method, steps = make_method(name, **SMALL[name], random_state=0), []
        method.embed(edges, callback=lambda *step: steps.append(step) or True)
        method.fit(edges)
        assert len(steps) == 1
        assert np.isfinite(method.decision_function(edges)).all()

    def test_labels_do_not_change_the_vectors(self, name, edges):
        one = embedded(name, edges)
        other = embedded(name, edges.with_label(np.arange(len(edges)) % 2))
        assert np.array_equal(one.features(edges), other.features(edges))

    def test_unseen_nodes_are_scored(self, name, edges):
        method = embedded(name, edges)
        strange = TemporalEdges([10_000, 10_000], [10_001, 1], [0.0, 5.0])
        assert np.isfinite(method.decision_function(strange)).all()

    def test_two_classes_have_one_score(self, name, edges):
        labels = np.where(np.arange(len(edges)) % 3 == 0, None, np.arange(len(edges)) % 2)
        method = embedded(name, edges.with_label(labels), class_weight=None)
        assert method.decision_function(edges[:7]).shape == (7,)


# ---- features from vectors


class Known(NodeVectorMethod):
    """Vectors that are set by the test."""

    name: ClassVar[str] = "known"

    def __init__(self, vectors=None, *, n_snapshots=2, operator="hadamard"):
        super().__init__(n_snapshots=n_snapshots, operator=operator)
        self.vectors = vectors

    def _embed(self, snapshots, callback):
        return self.vectors


VECTORS = np.arange(12, dtype=np.float32).reshape(2, 3, 2) + 1
NETWORK = TemporalEdges(["a", "b", "a"], ["b", "c", "c"], [0, 4, 9])


@pytest.mark.parametrize(
    ("operator", "expected"),
    [
        ("hadamard", [3.0, 8.0]),
        ("average", [2.0, 3.0]),
        ("l1", [2.0, 2.0]),
        ("l2", [4.0, 4.0]),
        ("concatenate", [1.0, 2.0, 3.0, 4.0]),
    ],
)
def test_operators(operator, expected):
    method = Known(VECTORS, operator=operator)
    method.embed(NETWORK)
    assert method.features(NETWORK)[0].tolist() == expected  # of the vectors (1, 2) and (3, 4)
    assert method.features(NETWORK).dtype == np.float64
    assert operator in OPERATORS


def test_the_snapshot_of_an_edge_decides():
    method = Known(VECTORS)
    method.embed(NETWORK)
    first, second = VECTORS[:, 0] * VECTORS[:, 2]
    asked = TemporalEdges(["a"] * 5, ["c"] * 5, [-7, 4, 4.5, 9, 1000])
    assert np.array_equal(method.features(asked), [first, first, second, second, second])


@pytest.mark.parametrize(("operator", "known"), [("hadamard", 0.0), ("average", 0.5), ("l1", 1.0), ("l2", 1.0)])
def test_an_unseen_node_has_a_zero_vector(operator, known):
    method = Known(np.ones((1, 3, 2)), n_snapshots=1, operator=operator)
    method.embed(NETWORK)
    asked = TemporalEdges(["a", "x"], ["x", "y"], [0, 0])
    assert method.features(asked).tolist() == [[known, known], [0.0, 0.0]]


def test_another_operator_is_refused():
    with pytest.raises(ParameterError, match="operator"):
        Known(VECTORS, operator="cross").embed(NETWORK)


def test_a_fit_that_is_stopped_gives_no_warning(edges, monkeypatch):
    monkeypatch.setattr(
        "tdlg_paper.baselines.vectors.logistic_regression", lambda weight: LogisticRegression(max_iter=1)
    )
    assert np.isfinite(embedded("timers", edges).decision_function(edges)).all()  # pytest makes a warning an error


def test_classes_are_balanced_unless_told_otherwise():
    for name in SMALL:
        method = make_method(name)
        assert isinstance(method, EdgeVectorMethod)
        assert method.get_params()["class_weight"] == "balanced"


def test_snapshots_are_made_once(edges):
    method = embedded("timers", edges)
    assert isinstance(method.snapshots_, Snapshots)
    assert method.snapshots_ is method.snapshots_
