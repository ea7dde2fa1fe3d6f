"""The recipe of docs/ranking.md: rows are measured once, kept as they come, and shown with their spread."""

import numpy as np
import pytest

from paper import ranking
from tdlg import TemporalEdges
from tdlg.judge.ranking import RankingTask
from tdlg.models import ranking_fit

pytest.importorskip("lightgbm", reason="needs LightGBM")


@pytest.fixture
def small(monkeypatch):
    rng = np.random.default_rng(0)
    user = rng.integers(0, 20, 900)
    edges = TemporalEdges(user, user % 4 + 4 * rng.integers(0, 2, 900), np.arange(900), bipartite=True)
    monkeypatch.setattr(ranking, "DATASETS", {"wikipedia": lambda: RankingTask(edges)})
    monkeypatch.setattr(ranking, "is_available", lambda name: name == "wikipedia")
    monkeypatch.setattr(ranking_fit, "QUERIES", 500)
    monkeypatch.setattr(ranking_fit, "CUTS", 2)
    train = ranking_fit._trees
    monkeypatch.setattr(ranking_fit, "_trees", lambda *given, **more: train(*given[:3], 5, given[4], **more))


def test_rows_are_measured_once(small, tmp_path):
    told = []
    rows, links = ranking.run_ranking(tmp_path, told.append)
    steps = [f"wikipedia, {name}" for name in ("edgebank, seed 0", "recency, seed 0", *trees_in_words())]
    assert told == [f"{file}: {step}" for file in ("ranking-links.csv", "ranking.csv") for step in steps]
    assert [row.method for row in rows] == ["edgebank", "recency", "trees", "trees", "trees"]
    assert all(0 < row.soon <= row.later <= 1 for row in links)
    for row in rows:
        assert 0.3 < row.batch_mrr <= row.mrr + 0.1 <= 1.1
        assert row.hits_1 <= row.hits_3 <= row.hits_10
        assert (row.n_queries, row.n_candidates) == (135, 8)
        assert row.fit_seconds > 0
        assert row.peak_bytes > 1e7
    assert ranking.run_ranking(tmp_path, told.append) == (rows, links)
    assert len(told) == 10


def trees_in_words():
    return [f"trees, seed {seed}" for seed in ranking.SEEDS]


def test_the_tables_show_means_and_spread(small, tmp_path):
    rows, links = ranking.run_ranking(tmp_path)
    lines = ranking.tables(rows, links).splitlines()
    (line,) = [line for line in lines if line.startswith("| wikipedia | trees | ") and line.count("|") == 8]
    mrr = [row.mrr for row in rows if row.method == "trees"]
    assert f"{np.mean(mrr):.4f} ± {np.std(mrr, ddof=1):.4f}" in line
    assert "| fb-forum | recency | not run | not run |" in lines
