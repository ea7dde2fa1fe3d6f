"""The recipe of docs/ranking.md: rows are measured once, kept as they come, and shown with their spread."""

import numpy as np
import pytest

from tdlg import TemporalEdges
from tdlg.judge.ranking import RankingTask
from tdlg.rank import fit as ranking_fit
from tdlg_paper import ranking

pytest.importorskip("lightgbm", reason="needs LightGBM")


@pytest.fixture
def small(monkeypatch):
    rng = np.random.default_rng(0)
    user = rng.integers(0, 20, 900)
    edges = TemporalEdges(user, user % 4 + 4 * rng.integers(0, 2, 900), np.arange(900), bipartite=True)
    monkeypatch.setattr(ranking, "DATASETS", {"wikipedia": lambda: RankingTask(edges)})
    monkeypatch.setattr(ranking, "is_available", lambda name: name == "wikipedia")
    monkeypatch.setattr(ranking._measure_memory, "__defaults__", (5000, 300))
    monkeypatch.setattr(ranking_fit, "SAMPLED", dict.fromkeys((True, False), (500, 50)))
    monkeypatch.setattr(ranking_fit, "CUTS", 2)
    train = ranking_fit._trees
    monkeypatch.setattr(ranking_fit, "_trees", lambda *given, **more: train(*given[:3], 5, given[4], **more))


def test_rows_are_measured_once(small, tmp_path, capsys):
    rows, links, memory = ranking.run_ranking(tmp_path, apart=False)
    assert len(capsys.readouterr().err.splitlines()) == 5 + 5 + 2
    assert [row.method for row in rows] == ["edgebank", "recency", "trees", "trees", "trees"]
    assert all(0 < row.soon <= row.later <= 1 for row in links)
    for row in rows:
        assert 0.3 < row.batch_mrr <= row.mrr + 0.1 <= 1.1
        assert row.hits_1 <= row.hits_3 <= row.hits_10
        assert (row.n_queries, row.n_candidates) == (135, 8)
        assert row.fit_seconds > 0
        assert row.peak_bytes > 1e7
        assert 0 <= row.new_pairs < 0.1
    assert [row.new_share for row in memory] == [0.1, 1.0]
    assert 0 < memory[0].state_bytes < memory[1].state_bytes
    assert str(ranking.run_ranking(tmp_path)) == str((rows, links, memory))  # NaN is not equal to itself
    assert capsys.readouterr().err == ""


def test_new_pairs_are_those_that_did_not_occur_strictly_before():
    rng = np.random.default_rng(0)
    edges = TemporalEdges(*rng.integers(0, 12, (2, 200)), rng.integers(0, 60, 200))
    task = RankingTask(edges)
    test = task.part("test")
    past = list(zip(edges.src, edges.dst, edges.time, strict=True))
    asked = zip(test.src, test.dst, test.time, strict=True)
    right = [not any((u, v) == (a, b) and s < t for a, b, s in past) for u, v, t in asked]
    assert ranking._is_new(task).tolist() == right
    assert 0 < sum(right) < len(right)


def test_a_row_in_its_own_process():
    assert ranking._run(True, abs, -3) == 3


def test_the_tables_show_means_and_spread(small, tmp_path):
    rows, links, memory = ranking.run_ranking(tmp_path, apart=False)
    lines = [line for part in ranking.sections(rows, links, memory).values() for line in part]
    (line,) = [line for line in lines if line.startswith("| wikipedia | trees | ") and line.count("|") == 8]
    mrr = [row.mrr for row in rows if row.method == "trees"]
    assert f"{np.mean(mrr):.4f} ± {np.std(mrr, ddof=1):.4f}" in line
    assert ranking._value([], "mrr") == "not run"
