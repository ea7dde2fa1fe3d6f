"""Landmark features, effective resistances and the table that compares them, of paper/."""

from types import SimpleNamespace

import numpy as np
import pytest
from scipy.sparse import csr_array, issparse
from scipy.sparse.csgraph import connected_components
from sklearn.exceptions import ConvergenceWarning

from tdlg import LineGraph, NoDecay, TemporalEdges
from tdlg.exceptions import ParameterError
from tdlg_paper import landmarks, reduced_features
from tdlg_paper.landmarks import SAMPLINGS, LandmarkFeatures, effective_resistances


def network(n_edges=400, n_nodes=30, seed=0, **more):
    rng = np.random.default_rng(seed)
    src, dst = rng.integers(0, n_nodes, (2, n_edges)) ** 2 // n_nodes  # some nodes are hubs; there are self-loops
    return TemporalEdges(src, dst, rng.uniform(0, 10, n_edges), **more)


class TestLandmarkFeatures:
    @pytest.mark.parametrize("sampling", SAMPLINGS)
    def test_columns_of_the_matrix(self, sampling):
        edges = network()
        fitted, new = edges[:300], edges[250:]
        model = LandmarkFeatures(40, sampling=sampling, random_state=0).fit(fitted)
        whole = LineGraph(new, fitted, decay=model.decay_).to_csr()
        assert len(np.unique(model.landmarks_)) == 40
        assert issparse(model.transform(new))
        np.testing.assert_allclose(model.transform(new).toarray(), whole[:, model.landmarks_].toarray(), rtol=1e-7)

    @pytest.mark.parametrize("sampling", SAMPLINGS)
    def test_chances(self, sampling):
        """One landmark, often: it is drawn in proportion to what the name says."""
        edges = TemporalEdges([0, 0, 0, 0, 5], [1, 1, 1, 2, 5], [0, 1, 2, 3, 4])
        odds = {
            "uniform": np.ones(5),
            "degree": LineGraph(edges, decay=NoDecay()).to_csr().sum(axis=1),
            "resistance": np.array([1 / 3, 1 / 3, 1 / 3, 1, 0]),
        }[sampling]
        rng, model = np.random.RandomState(0), LandmarkFeatures(1, sampling=sampling, decay=NoDecay())
        model.set_params(random_state=rng)
        drawn = np.bincount([model.fit(edges).landmarks_[0] for _ in range(2000)], minlength=5)
        np.testing.assert_allclose(drawn / 2000, odds / odds.sum(), atol=0.04)

    def test_edges_without_a_chance_come_last(self):
        edges = TemporalEdges([0, 1, 2, 3], [0, 1, 2, 4], [0, 1, 2, 3])  # three self-loops
        model = LandmarkFeatures(2, sampling="resistance", decay=NoDecay(), random_state=0).fit(edges)
        assert 3 in model.landmarks_
        assert len(model.landmarks_) == 2

    def test_sampling_is_checked(self):
        with pytest.raises(ParameterError, match="'sampling' parameter of LandmarkFeatures"):
            LandmarkFeatures(sampling="leverage").fit(network())

    @pytest.mark.parametrize("n_components", [0, 2.5, None])
    def test_n_components_is_checked(self, n_components):
        with pytest.raises(ParameterError, match="'n_components' parameter of LandmarkFeatures"):
            LandmarkFeatures(n_components).fit(network())

    def test_no_more_columns_than_edges(self):
        assert LandmarkFeatures(500, random_state=0).fit_transform(network(20)).shape == (20, 20)

    def test_unseen_nodes_give_zeros(self):
        model = LandmarkFeatures(5, random_state=0).fit(network())
        assert model.transform(TemporalEdges([1000, 1001], [1001, 1002], [1.0, 2.0])).nnz == 0


class TestEffectiveResistances:
    def of_pinv(self, edges):
        """The definition: (e_u - e_v)^T L^+ (e_u - e_v)."""
        L = np.zeros((edges.n_nodes, edges.n_nodes))
        for u, v in zip(edges.src_code, edges.dst_code, strict=True):
            L[u, u], L[v, v] = L[u, u] + 1, L[v, v] + 1
            L[u, v], L[v, u] = L[u, v] - 1, L[v, u] - 1
        P = np.linalg.pinv(L, hermitian=True)
        u, v = edges.src_code, edges.dst_code
        return P[u, u] + P[v, v] - 2 * P[u, v]

    def rank(self, edges):
        """Nodes less components."""
        graph = csr_array((np.ones(len(edges)), (edges.src_code, edges.dst_code)), (edges.n_nodes, edges.n_nodes))
        return edges.n_nodes - connected_components(graph, directed=False)[0]

    @pytest.mark.parametrize("n_edges", [1, 12, 40, 400])
    def test_small_graphs_are_exact(self, n_edges):
        edges = network(n_edges)
        values = effective_resistances(edges)
        np.testing.assert_allclose(values, self.of_pinv(edges), atol=1e-9)
        np.testing.assert_allclose(values.sum(), self.rank(edges))

    @pytest.mark.parametrize("n_edges", [60, 400])
    def test_projections_come_close(self, n_edges, monkeypatch):
        monkeypatch.setattr(landmarks, "DENSE_NODES", 0)
        edges = network(n_edges)
        exact, found = self.of_pinv(edges), effective_resistances(edges, tol=0.05, random_state=0)
        assert (np.abs(found - exact) <= 4 * 0.05 * exact + 1e-6).all()
        np.testing.assert_allclose(found.sum(), self.rank(edges), rtol=0.02)
        np.testing.assert_allclose(found[exact > 1 - 1e-9], 1, atol=1e-6)  # bridges
        np.testing.assert_array_equal(found[edges.src_code == edges.dst_code], 0)

    def test_large_graphs_sum_to_nodes_less_components(self):
        edges = network(9000, 5000)
        found = effective_resistances(edges, random_state=0)
        assert len(np.unique(np.append(edges.src_code, edges.dst_code))) > landmarks.DENSE_NODES
        np.testing.assert_allclose(found.sum(), self.rank(edges), rtol=0.01)
        assert found.min() >= 0
        assert found.max() <= 1

    def test_a_long_chain(self):
        """Badly conditioned: the solver needs as many steps as there are nodes."""
        edges = TemporalEdges(np.arange(2500), np.arange(1, 2501), np.arange(2500))
        np.testing.assert_allclose(effective_resistances(edges, tol=0.5, random_state=0), 1, atol=1e-3)

    def test_parallel_edges_share(self):
        np.testing.assert_allclose(effective_resistances(TemporalEdges([0, 1, 0], [1, 0, 1], [0, 1, 2])), 1 / 3)

    def test_a_slice_is_a_graph_of_its_own(self):
        edges = network()
        part = edges[100:140]
        alone = TemporalEdges(part.src, part.dst, part.time)
        np.testing.assert_allclose(effective_resistances(part), effective_resistances(alone))

    def test_no_edges(self):
        assert effective_resistances(network()[:0]).shape == (0,)

    @pytest.mark.parametrize("make", [int, np.random.default_rng])
    def test_a_seed_decides(self, make):
        edges = network(9000, 5000)
        one, same = (effective_resistances(edges, tol=0.5, random_state=make(3)) for _ in range(2))
        np.testing.assert_array_equal(one, same)

    def test_what_does_not_converge_says_so(self, monkeypatch):
        monkeypatch.setattr(landmarks, "MOST_STEPS", 2)
        with pytest.warns(ConvergenceWarning, match="Laplacian"):
            effective_resistances(network(9000, 5000), tol=0.5)

    def test_parameters(self):
        with pytest.raises(ParameterError, match="'tol' parameter of effective_resistances"):
            effective_resistances(network(), tol=0)


def test_the_table_is_written_into_the_page(monkeypatch, tmp_path):
    page = tmp_path / "page.md"
    page.write_text("before\n<!-- reduced-features -->\nold\n<!-- /reduced-features -->\nafter\n", encoding="utf-8")
    edges = network(label=np.arange(400) % 3 > 0)
    for name, value in {"DATASETS": ("small",), "WIDTHS": (2, 8), "SEEDS": (0, 1)}.items():
        monkeypatch.setattr(reduced_features, name, value)
    monkeypatch.setattr(reduced_features, "load_dataset", lambda name: edges)
    reduced_features.main(SimpleNamespace(page=page))
    first, begin, _, *table, _, end, last = page.read_text(encoding="utf-8").splitlines()
    assert (first, begin, end, last) == ("before", "<!-- reduced-features -->", "<!-- /reduced-features -->", "after")
    assert table[:2] == ["| network | features | 2 | 8 |", "| --- | --- | ---: | ---: |"]
    assert len(table) == 2 + 3 + len(SAMPLINGS) + 1
    assert all(line.count("|") == 5 for line in table)
    assert table[-1].startswith("| small | full rows, 400 columns |  | ")
