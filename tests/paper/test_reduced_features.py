"""Landmarks, effective resistances and the table that compares them."""

from types import SimpleNamespace

import numpy as np
import pytest

from tdlg import LineGraph, NoDecay, TemporalEdges
from tdlg_paper import reduced_features
from tdlg_paper.reduced_features import SAMPLINGS, landmark_features, resistances


def network(n_edges=400, n_nodes=30, seed=0, **more):
    rng = np.random.default_rng(seed)
    src, dst = rng.integers(0, n_nodes, (2, n_edges)) ** 2 // n_nodes  # some nodes are hubs; there are self-loops
    return TemporalEdges(src, dst, rng.uniform(0, 10, n_edges), **more)


@pytest.mark.parametrize("sampling", SAMPLINGS)
def test_landmarks_are_drawn_in_proportion_to_what_the_name_says(sampling):
    edges = TemporalEdges([0, 0, 0, 0, 5], [1, 1, 1, 2, 5], [0, 1, 2, 3, 4])
    whole = LineGraph(edges, decay=NoDecay()).to_csr().toarray()
    odds = {"uniform": np.ones(5), "degree": whole.sum(axis=1), "resistance": np.array([1 / 3, 1 / 3, 1 / 3, 1, 0])}
    kinds = [tuple(column) for column in whole.T]  # the three edges in parallel have one column
    drawn = [landmark_features(edges, sampling, 1, seed, NoDecay()).toarray()[:, 0] for seed in range(1000)]
    for kind in set(kinds):
        share = np.mean([tuple(column) == kind for column in drawn])
        chance = sum(odds[sampling][[one == kind for one in kinds]]) / odds[sampling].sum()
        assert share == pytest.approx(chance, abs=0.06)


def test_landmarks_are_columns_of_the_matrix_each_once():
    edges = network()
    found, whole = landmark_features(edges, "degree", 40, 0), LineGraph(edges).to_csr()
    assert found.shape == (400, 40)
    columns = [np.flatnonzero(abs(whole - found[:, [k]].toarray()).max(axis=0) < 1e-9) for k in range(40)]
    assert all(len(of) for of in columns)
    assert landmark_features(network(20), "uniform", 500, 0).shape == (20, 20)


@pytest.mark.parametrize("n_edges", [1, 12, 40, 400])
def test_resistances_by_the_definition(n_edges):
    edges = network(n_edges)
    L = np.zeros((edges.n_nodes, edges.n_nodes))
    for u, v in zip(edges.src_code, edges.dst_code, strict=True):
        L[u, u], L[v, v] = L[u, u] + 1, L[v, v] + 1
        L[u, v], L[v, u] = L[u, v] - 1, L[v, u] - 1
    P = np.linalg.pinv(L, hermitian=True)
    u, v = edges.src_code, edges.dst_code
    np.testing.assert_allclose(resistances(edges), P[u, u] + P[v, v] - 2 * P[u, v], atol=1e-9)
    assert resistances(edges).sum() == pytest.approx(np.linalg.matrix_rank(L))


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
