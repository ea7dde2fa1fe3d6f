"""Ranking by TGB's protocol: ranks and metrics against plain loops, the split, negatives, and what may be known when."""

import importlib.util
import json
import subprocess
import sys

import numpy as np
import pytest

import record_tgb
from tdlg import LinkRanker, TemporalEdges
from tdlg.exceptions import EdgesError, ParameterError
from tdlg.judge.ranking import RankingMetrics, RankingTask, evaluate_ranking, rank_of_true, true_ranks
from tdlg_paper.ranking import tgb_negatives


def network(n_edges=300, n_nodes=12, seed=0, **options):
    rng = np.random.default_rng(seed)
    src, dst = rng.integers(0, n_nodes, (2, n_edges))
    return TemporalEdges(src, dst + 20, rng.integers(0, 100, n_edges), **options)


class Told:
    """A ranker whose scores are given, and which remembers what it was asked."""

    def __init__(self, scores):
        self.scores, self.known = scores, None

    def stream_scores(self, queries, candidates, known=None):
        self.candidates, self.known = candidates, known
        yield from self.scores


def test_ranks_are_between_the_best_and_the_worst_that_ties_allow():
    rng = np.random.default_rng(0)
    for _ in range(50):
        others, true = rng.integers(0, 6, 20).astype(float), float(rng.integers(0, 6))
        everyone = sorted([*others, true], reverse=True)
        best = everyone.index(true) + 1
        worst = len(everyone) - everyone[::-1].index(true)
        assert rank_of_true(true, others) == (best + worst) / 2


def test_metrics():
    ranks = np.array([1.0, 2.0, 3.5, 10.0, 10.5])
    metrics = RankingMetrics.of(ranks)
    assert metrics.mrr == pytest.approx(np.mean([1, 1 / 2, 1 / 3.5, 1 / 10, 1 / 10.5]))
    assert metrics.hits == {1: 0.2, 3: 0.4, 10: 0.8}
    assert metrics.n_queries == 5


class TestTask:
    @pytest.mark.parametrize("dates", [False, True])
    def test_the_split_is_by_quantiles_of_time(self, dates):
        edges = network()
        time = edges.time if not dates else np.datetime64("2024-01-01", "ns") + edges.time.astype("timedelta64[h]")
        task = RankingTask(TemporalEdges(edges.src, edges.dst, time))
        first, second = np.quantile(edges.time, [0.70, 0.85])
        right = [
            (edges.time <= first).sum(),
            ((edges.time > first) & (edges.time <= second)).sum(),
            (edges.time > second).sum(),
        ]
        parts = [task.part(name) for name in ("train", "val", "test")]
        assert [len(part) for part in parts] == right
        assert all((np.diff(part.ticks) >= 0).all() for part in parts)
        assert parts[0].ticks.max() < parts[1].ticks.min()

    def test_others_are_all_destinations_but_the_true_ones_of_the_moment(self):
        task = RankingTask(network())
        test = task.part("test")
        everyone = np.unique(task.edges.dst)
        rng = np.random.default_rng(1)
        scores = rng.integers(0, 4, (len(test), len(everyone))).astype(float)
        told = Told(scores)
        ranks = true_ranks(told, task)
        np.testing.assert_array_equal(told.candidates, everyone)
        for k, (u, v, t) in enumerate(zip(test.src, test.dst, test.time, strict=True)):
            hidden = set(test.dst[(test.src == u) & (test.time == t)].tolist())
            others = [score for score, dst in zip(scores[k], everyone, strict=True) if dst not in hidden]
            assert ranks[k] == rank_of_true(scores[k][everyone == v][0], np.array(others))
        assert told.known is None

    def test_batches(self):
        task = RankingTask(network())
        for part in ("val", "test"):
            queries = task.part(part)
            told = Told(np.zeros((len(queries), 12)))
            true_ranks(told, task, part, batch=7)
            before = (task.edges.time < queries.time.min()).sum()
            assert told.known.tolist() == [before + k // 7 * 7 for k in range(len(queries))]

    def test_given_negatives(self):
        edges = network()
        test = RankingTask(edges).part("test")
        negatives = {
            (u, v, t): [20, 21, 22, 99]
            for u, v, t in zip(test.src.tolist(), test.dst.tolist(), test.time.tolist(), strict=True)
        }
        told = Told([np.array([0.5, 0.7, 0.1, 0.5, 0.0])] * len(test))
        ranks = true_ranks(told, RankingTask(edges, negatives))
        assert set(ranks) == {2.5}
        assert told.candidates[0].tolist() == [test.dst[0], 20, 21, 22, 99]
        negatives.pop(next(iter(negatives)))
        with pytest.raises(ParameterError, match="no negatives for the edge"):
            true_ranks(told, RankingTask(edges, negatives))

    def test_a_callback_can_stop(self, monkeypatch):
        monkeypatch.setattr("tdlg.judge.ranking.PROGRESS", 5)
        task = RankingTask(network())
        told = Told(np.zeros((len(task.part("test")), 12)))
        assert len(true_ranks(told, task, callback=lambda done, total: done == 10)) == 10

    @pytest.mark.parametrize(
        ("make", "message"),
        [
            (lambda: RankingTask(network(), val_share=2), "'val_share' parameter"),
            (lambda: RankingTask(network(), val_share=0.5, test_share=0.5), "nothing is left"),
            (lambda: RankingTask(network()[:1]), "has no edges"),
            (lambda: RankingTask(network()).part("x"), "'name' parameter"),
            (lambda: true_ranks(None, RankingTask(network()), batch=0), "'batch' parameter"),
        ],
    )
    def test_what_is_refused(self, make, message):
        with pytest.raises((ParameterError, EdgesError), match=message):
            make()


class TestRules:
    def test_recency_is_what_a_loop_says(self):
        task = RankingTask(network(seed=3))
        for batch in (None, 9):
            model = LinkRanker("recency").fit(task.part("train"))
            ranks = true_ranks(model.update(task.part("val")).update(task.part("test")), task, batch=batch)
            np.testing.assert_array_equal(ranks, self.by_loop(task, batch))

    def by_loop(self, task, batch):
        ordered = [task.part(name) for name in ("train", "val", "test")]
        past = [edge for part in ordered for edge in zip(part.src, part.dst, part.time, strict=True)]
        test = ordered[-1]
        start = len(past) - len(test)
        everyone, ranks = np.unique(task.edges.dst), []
        for k, (u, v, t) in enumerate(zip(test.src, test.dst, test.time, strict=True)):
            known = past if batch is None else past[: start + k // batch * batch]
            known = [edge for edge in known if edge[2] < t]
            hidden = set(test.dst[(test.src == u) & (test.time == t)].tolist())
            keys = {}
            for p in everyone:
                pair = [when for a, b, when in known if (a, b) == (u, p)]
                dst = [when for _, b, when in known if b == p]
                keys[p] = (1, pair[-1]) if pair else (0, dst[-1] if dst else -np.inf)
            better = sum(keys[p] > keys[v] for p in everyone if p not in hidden)
            tied = sum(keys[p] == keys[v] for p in everyone if p not in hidden)
            ranks.append(1 + better + tied / 2)
        return np.array(ranks)

    def test_edgebank_and_a_whole_evaluation(self):
        edges = TemporalEdges(["a", "b"] * 50, ["x", "y"] * 50, range(100))
        result = evaluate_ranking(LinkRanker("edgebank"), RankingTask(edges))
        assert result.by_edge == result.by_batch == RankingMetrics(1.0, {1: 1.0, 3: 1.0, 10: 1.0}, 15)
        assert result.fit_seconds > 0
        assert result.query_milliseconds > 0


# ---- beside the package py-tgb, where it can be had


@pytest.fixture(scope="module")
def tgb(tmp_path_factory):
    """The folder with py-tgb, installed without what it depends on."""
    folder = tmp_path_factory.mktemp("tgb")
    install = [sys.executable, "-m", "pip", "install", "-qq", "--no-deps", "--target", str(folder), "py-tgb==2.3.0"]
    if subprocess.run(install, check=False).returncode:
        pytest.xfail("py-tgb cannot be installed here; what it said is recorded, see TestBesideRecordedTgb")
    sys.path.insert(0, str(folder))
    yield folder
    sys.path.remove(str(folder))


def agree(scores, theirs):
    """Our metrics of each query are those of py-tgb."""
    n = 0
    for (true, others), (mrr, hits) in zip(scores, theirs, strict=True):
        mine = RankingMetrics.of(np.array([rank_of_true(true, others)]))
        assert (mine.mrr, mine.hits[10]) == (pytest.approx(mrr, rel=1e-6), hits)
        n += 1
    assert n >= 50


class TestBesideRecordedTgb:
    """What py-tgb said when it could be installed, see `record_tgb`."""

    recorded = json.loads(record_tgb.RECORDED.read_text(encoding="utf-8"))

    def test_made_scores(self):
        agree(record_tgb.made_scores(), self.recorded["made"])

    @pytest.mark.parametrize("strategy", record_tgb.STRATEGIES)
    def test_negatives(self, strategy):
        mine = tgb_negatives(record_tgb.small_task(), 10, strategy)
        assert record_tgb.digest(mine) == self.recorded["negatives"][strategy]

    @pytest.mark.needs("data", "time")
    def test_scores_of_wikipedia(self, data_dir):
        agree(record_tgb.wikipedia_scores(), self.recorded["wikipedia"])


@pytest.mark.needs("torch", "pyg", "time")
@pytest.mark.filterwarnings("ignore")
class TestBesideTgb:
    @pytest.mark.needs("data")
    def test_the_evaluator_agrees(self, tgb, data_dir):
        for make in (record_tgb.made_scores, record_tgb.wikipedia_scores):
            scores = list(make())
            agree(scores, record_tgb.by_tgb(scores))

    @pytest.mark.parametrize("strategy", record_tgb.STRATEGIES)
    def test_the_negatives_are_theirs(self, tgb, strategy):
        task = record_tgb.small_task()
        mine, theirs = tgb_negatives(task, 10, strategy), record_tgb.negatives_by_tgb(task, strategy)
        assert mine.keys() == theirs.keys()
        for key, ids in mine.items():
            np.testing.assert_array_equal(ids, theirs[key])


@pytest.mark.needs("data", "time")
@pytest.mark.skipif(importlib.util.find_spec("lightgbm") is None, reason="needs LightGBM")
def test_the_next_topic_of_a_forum_is_ranked_better_than_by_recency(data_dir):
    from tdlg.datasets import load_dataset

    task = RankingTask(load_dataset("fb-forum"))
    trees, recency = (evaluate_ranking(LinkRanker(name, random_state=0), task) for name in ("trees", "recency"))
    assert trees.by_edge.mrr > recency.by_edge.mrr + 0.05
