import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from tdlg import TemporalEdges
from tdlg.exceptions import EdgesError
from tdlg.judge.references import FOLDS, EdgeBank, LabelRates, Windows


def network(n_edges=2000, n_nodes=40, seed=0, noise=0.1):
    """Labels that depend on the source and the destination."""
    rng = np.random.default_rng(seed)
    src, dst = rng.integers(0, n_nodes, (2, n_edges))
    label = ((src + dst) % n_nodes < n_nodes / 2) ^ (rng.random(n_edges) < noise)
    return TemporalEdges(src, dst, rng.uniform(0, 100, n_edges), label=label.astype(int))


def by_hand(method, edges, i):
    """The columns of edge i as plain loops."""
    rows = method.edges_.rows.tolist()
    fold = method.fold_[rows.index(edges.rows[i])] if edges.rows[i] in rows else FOLDS
    learnt = method.edges_[method.fold_ != fold]
    rates, counts = [], []
    for node in (edges.src[i], edges.dst[i]):
        for ends in (learnt.src, learnt.dst):
            labels = learnt.label[ends == node]
            rates.append((labels.sum() + method.prior_[0]) / (len(labels) + 1))
            counts.append(np.log1p(len(labels)))
    return np.array(rates + counts)


class TestLabelRates:
    def test_learns_what_depends_on_nodes(self):
        rng = np.random.default_rng(0)
        src, dst = rng.integers(0, 40, (2, 2000))
        edges = TemporalEdges(src, dst, np.zeros(2000), label=(rng.random(2000) < dst / 40).astype(int))
        method = LabelRates(random_state=0)
        method.fit(edges[:1400])
        assert roc_auc_score(edges.label[1400:], method.decision_function(edges[1400:])) > 0.75

    def test_columns_are_those_of_the_definition(self):
        edges = network(300)
        method = LabelRates(random_state=0)
        method.fit(edges.with_label(np.where(np.arange(300) < 200, edges.label, np.nan)))
        columns = method.columns(edges)
        for i in (0, 7, 199, 200, 299):
            np.testing.assert_allclose(columns[i], by_hand(method, edges, i), rtol=1e-12)

    def test_a_training_edge_does_not_see_its_label(self):
        edges = network(300)
        flipped = edges.label.copy()
        flipped[5] = 1 - flipped[5]
        rows = []
        for label in (edges.label, flipped):
            method = LabelRates(random_state=0)
            method.fit(edges.with_label(label))
            method.prior_ = np.array([0.5])
            rows.append(method.columns(edges[5:6]))
        np.testing.assert_array_equal(*rows)

    def test_permuted_labels_teach_nothing(self):
        edges = network(4000, n_nodes=20)
        label = np.random.default_rng(1).permutation(edges.label)
        method = LabelRates(random_state=0)
        method.fit(edges.with_label(label)[:3000])
        assert abs(roc_auc_score(label[3000:], method.decision_function(edges[3000:])) - 0.5) < 0.05

    def test_several_classes_of_text(self):
        edges = network()
        kind = np.array(["a", "b", "c"])[edges.dst % 3]
        method = LabelRates(random_state=0)
        method.fit(edges.with_label(kind)[:1400])
        scores = method.decision_function(edges[1400:])
        assert scores.shape == (600, 3)
        assert np.mean(np.array(["a", "b", "c"])[scores.argmax(axis=1)] == kind[1400:]) > 0.95

    def test_unseen_nodes_get_the_average(self):
        method = LabelRates(random_state=0)
        method.fit(network())
        columns = method.columns(TemporalEdges([1000], [1001], [0]))
        np.testing.assert_allclose(columns, [[*[method.prior_[0]] * 4, 0, 0, 0, 0]])

    def test_bad_input(self):
        with pytest.raises(EdgesError, match="no labels"):
            LabelRates().fit(network().with_label(None))


class TestEdgeBank:
    def test_remembers_pairs_in_their_direction(self):
        edges = TemporalEdges(["a", "b", "c", "d"], ["x", "y", "x", "y"], [0, 1, 2, 9], label=[1, 1, 0, None])
        method = EdgeBank()
        method.fit(edges)
        asked = TemporalEdges(["a", "b", "c", "d", "x", "z"], ["x", "y", "x", "y", "a", "z"], [5] * 6)
        np.testing.assert_array_equal(method.decision_function(asked), [1, 1, 0, 0, 0, 0])

    def test_bad_input(self):
        with pytest.raises(EdgesError, match="no labels"):
            EdgeBank().fit(network().with_label(None))


def test_windows_learn_from_labels_that_are_true_false_or_missing():
    edges, found = network(), []
    for kind in (int, bool):
        labels = [None if k in (5, 9) else kind(value) for k, value in enumerate(edges.label)]
        method = Windows(random_state=0).fit(edges.with_label(labels)[:1400])
        assert method.classes_.tolist() == [kind(0), kind(1)]
        found.append(method.predict_proba(edges[1400:]))
    np.testing.assert_array_equal(*found)
