"""LinkRanker: what it ranks first, what it may know, and that it can be saved."""

import datetime
import sys

import numpy as np
import polars as pl
import pytest

from tdlg import LinkPredictor, LinkRanker, TemporalEdges, load_model
from tdlg.exceptions import EdgesError, ParameterError
from tdlg.judge.ranking import rank_of_true
from tdlg.models.trees import Trees
from tdlg.rank import fit as ranking_fit
from tdlg.rank.history import COLUMNS, RankingState
from tdlg.rank.ranker import StreamRanker

pytest.importorskip("lightgbm", reason="needs LightGBM")


def messages(n_edges=1500, n_nodes=40, seed=0, **options):
    """Every second message answers the one before it; the others go to one of three friends."""
    rng = np.random.default_rng(seed)
    src, dst = [], []
    for k in range(n_edges):
        if k % 2:
            src.append(dst[-1])
            dst.append(src[-2])
        else:
            src.append(int(rng.integers(n_nodes)))
            dst.append(int(src[-1] + rng.integers(1, 4)) % n_nodes)
    return TemporalEdges(src, dst, np.arange(n_edges) * 10, **options)


@pytest.fixture(scope="module", autouse=True)
def quick():
    """Fewer edges to learn from."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ranking_fit, "SAMPLED", dict.fromkeys((True, False), (600, 50)))
        patch.setattr(ranking_fit, "CUTS", 3)
        patch.setattr(ranking_fit, "ROWS_PER_CUT", 1000)
        yield


@pytest.fixture(scope="module")
def fitted():
    return LinkRanker("trees", n_trees=30, random_state=0).fit(messages()[:1400])


class TestNext:
    def test_answers_come_first(self, fitted):
        edges = messages()
        late = edges[1401:1500:2]
        ranker = LinkRanker("trees", n_trees=30, random_state=0).fit(edges[:1400]).update(edges[1400:])
        found = [ranker.rank(u, t)["dst"][0] for u, t in zip(late.src, late.time, strict=True)]
        recency = LinkRanker("recency").fit(edges)
        by_rule = [recency.rank(u, t)["dst"][0] for u, t in zip(late.src, late.time, strict=True)]
        assert np.mean(found == late.dst) > 0.9
        assert np.mean(found == late.dst) > np.mean(by_rule == late.dst) + 0.3

    def test_the_table(self, fitted):
        table = fitted.rank(5, 14_000)
        assert table.columns == ["src", "dst", "time", "score", "seen", "reason"]
        assert set(table["src"]) == {5}
        assert set(table["time"]) == {14_000}
        assert sorted(table["dst"]) == [k for k in range(40) if k != 5]
        assert (np.diff(table["score"]) <= 0).all()
        edges = fitted.edges_
        assert set(table.filter("seen")["dst"]) == set(edges.dst[edges.src == 5].tolist())

    def test_only_what_is_strictly_before_counts(self, fitted):
        edges = messages()
        for t in (5000, 5005):
            known = edges[:1400][edges.time[:1400] < t]
            fresh = LinkRanker("recency").fit(TemporalEdges(known.src, known.dst, known.time))
            fresh.method_, fresh.widths_, fresh.next_trees_ = "trees", fitted.widths_, fitted.next_trees_
            del fresh._running
            assert fresh.rank(7, t).equals(fitted.rank(7, t))
        assert not fitted.rank(7, 5000).equals(fitted.rank(7, 9000))
        assert fitted.rank(7).equals(fitted.rank(7))

    def test_candidates(self, fitted):
        whole = fitted.rank(5, 14_000)
        some = fitted.rank(5, 14_000, [8, 6, 30])
        assert some["dst"].to_list() == [v for v in whole["dst"] if v in (8, 6, 30)]
        assert (
            dict(zip(some["dst"], some["score"], strict=True)).items()
            <= dict(zip(whole["dst"], whole["score"], strict=True)).items()
        )
        odd = fitted.rank("5", 14_000, ["8", "nobody"])
        assert set(odd["dst"]) == {"8", "nobody"}
        assert odd.filter(pl.col("dst") == "8")["score"][0] == some.filter(pl.col("dst") == 8)["score"][0]

    @pytest.mark.parametrize("method", ["recency", "trees"])
    def test_an_unseen_source_gets_what_is_popular_now(self, method):
        hot = np.repeat(np.arange(30), 40)  # every source comes once, and goes where the others go
        edges = TemporalEdges(np.arange(1000, 2200), hot, np.arange(1200))
        ranker = LinkRanker(method, n_trees=20, random_state=0).fit(edges[:1100]).update(edges[1100:])
        assert [ranker.rank("new", t)["dst"][0] for t in (1090, 1150, 1190)] == [27, 28, 29]

    def test_scores_of_edges_are_those_of_the_ranking(self, fitted):
        scores = fitted.decision_function([[5, 6, 14_000], [9, 10, 3000], [5, 8, 14_000], [5, 99, 14_000]])
        whole = fitted.rank(5, 14_000, [6, 8, 99])
        by_dst = dict(zip(whole["dst"], whole["score"], strict=True))
        assert scores[[0, 2, 3]].tolist() == [by_dst[6], by_dst[8], by_dst[99]]
        assert scores[1] == fitted.rank(9, 3000, [10])["score"][0]

    def test_a_stream_gives_the_same_scores(self, fitted):
        queries = messages()[1000:1040]
        streamed = list(fitted.stream_scores(queries, np.arange(40)))
        each = list(fitted.stream_scores(queries, [np.array([3, k % 40]) for k in range(40)]))
        for k in range(40):
            whole = fitted.rank(queries.src[k], queries.time[k], np.arange(40))
            by_dst = dict(zip(whole["dst"], whole["score"], strict=True))
            assert streamed[k].tolist() == [by_dst[v] for v in range(40)]
            assert each[k].tolist() == [by_dst[3], by_dst[k % 40]]
        with pytest.raises(ParameterError, match="order of time"):
            next(fitted.stream_scores(queries[::-1], np.arange(40)))

    def test_known_is_an_upper_limit(self, fitted):
        queries = messages()[1000:1010]
        limited = list(fitted.stream_scores(queries, np.arange(40), np.full(10, 500)))
        plain = list(fitted.stream_scores(queries, np.arange(40), np.full(10, 10**6)))
        assert not np.array_equal(limited, plain)
        np.testing.assert_array_equal(plain, list(fitted.stream_scores(queries, np.arange(40))))

    @pytest.mark.parametrize("unit", ["s", "ms"])
    def test_datetimes(self, unit):
        edges = messages(800)
        start = np.datetime64("2024-01-01", unit)
        dated = TemporalEdges(edges.src, edges.dst, start + edges.time.astype("timedelta64[s]"))
        plain, ranker = (LinkRanker(n_trees=5, random_state=0).fit(each) for each in (edges, dated))
        asked = datetime.datetime(2024, 1, 1) + datetime.timedelta(seconds=7000)
        for time in (asked, asked.isoformat(), np.datetime64(asked, "ns")):
            table = ranker.rank(4, time)
            assert table["dst"].to_list() == plain.rank(4, 7000)["dst"].to_list()
            assert table["time"][0] == asked
        with pytest.raises(ParameterError, match="'time' parameter of rank must be a datetime"):
            ranker.rank(4, 7000)

    def test_two_types_of_nodes(self):
        rng = np.random.default_rng(0)
        user, item = rng.integers(0, 20, 900), rng.integers(0, 5, 900)
        edges = TemporalEdges(user, (user % 4) * 5 + item, np.arange(900), bipartite=True)
        ranker = LinkRanker(n_trees=20, random_state=0).fit(edges)
        assert ranker.method_ == "trees"
        first = ranker.rank(3, 900)["dst"].to_list()
        assert set(first[:5]) == set(range(15, 20))
        assert 3 in first  # item 3 is not user 3
        assert ranker.top(10)["seen"].all()


class TestPairs:
    def test_pairs_that_come_soon(self):
        """Ten pairs meet all the time, among many that meet once."""
        rng = np.random.default_rng(0)
        src, dst = rng.integers(0, 60, (2, 1200))
        often = rng.random(1200) < 0.4
        src[often], dst[often] = src[often] % 10, src[often] % 10 + 20
        found = LinkRanker("trees", n_trees=120, random_state=0).fit(TemporalEdges(src, dst, np.arange(1200))).top(10)
        assert found.columns == ["src", "dst", "time", "score", "seen", "reason"]
        assert ((found["score"] > 0) & (found["score"] < 1)).all()
        assert (found["dst"] == found["src"] + 20).sum() >= 9

    def test_what_is_later_does_not_count(self, fitted):
        edges = messages()[:700]
        fresh = LinkRanker("recency").fit(TemporalEdges(edges.src, edges.dst, edges.time))
        fresh.method_, fresh.widths_, fresh.pair_trees_ = "trees", fitted.widths_, fitted.pair_trees_
        del fresh._running
        assert fitted.top(30, at=6990).equals(fresh.top(30))

    def test_given_pairs_at_their_times(self, fitted):
        asked = TemporalEdges([5, 9, 5], [6, 12, 6], [2000, 9000, 14_000])
        scores = fitted.pair_scores(asked)
        assert len(set(scores)) == 3
        for k in range(3):
            assert fitted.pair_scores(asked[k : k + 1])[0] == scores[k]
        assert fitted.top(2, candidates=asked)["score"].to_list() == sorted(scores)[::-1][:2]


class TestFit:
    def test_the_seed_decides(self, fitted):
        edges = messages()[:1400]
        again, other = (LinkRanker("trees", n_trees=30, random_state=seed).fit(edges) for seed in (0, 1))
        assert again.rank(5).equals(fitted.rank(5))
        assert not np.array_equal(other.rank(5)["score"], fitted.rank(5)["score"])

    def test_trees_are_those_of_lightgbm(self):
        import lightgbm

        rng = np.random.default_rng(0)
        rows = rng.normal(size=(500, len(COLUMNS)))
        rows[::3, 4] = 1e30
        settings = {"objective": "regression", "num_leaves": 64, "min_data_in_leaf": 2, "verbose": -1, "num_threads": 1}
        booster = lightgbm.train(settings, lightgbm.Dataset(rows, rows[:, 3] + (rows[:, 4] > 1)), 20)
        trees = Trees.from_booster(booster)
        np.testing.assert_allclose(trees.sums(rows)[:, 0], booster.predict(rows), rtol=1e-12)
        trees.check(len(COLUMNS))

    def test_too_few_edges(self):
        few = messages(300)
        assert LinkRanker().fit(few).method_ == "recency"
        with pytest.raises(EdgesError, match=r"300 edges are too few.*589.*method='recency'"):
            LinkRanker("trees").fit(few)
        assert LinkRanker(n_trees=2).fit(messages(589)).method_ == "trees"

    def test_without_lightgbm(self, monkeypatch, fitted, tmp_path):
        fitted.save(tmp_path / "ranker")
        before = fitted.rank(5)
        monkeypatch.setitem(sys.modules, "lightgbm", None)
        ranker = LinkRanker().fit(messages())
        assert ranker.method_ == "recency"
        assert (ranker.next_trees_, ranker.n_queries_) == (None, 0)
        with pytest.raises(ImportError, match=r"not installed \(from a clone of tdlg: pip install '\.\[rank\]'\)"):
            LinkRanker("trees").fit(messages())
        assert load_model(tmp_path / "ranker").rank(5).equals(before)  # scoring needs no LightGBM

    def test_lightgbm_that_cannot_be_loaded(self, monkeypatch, tmp_path):
        (tmp_path / "lightgbm.py").write_text("raise OSError('libgomp.so.1: no such file')")
        monkeypatch.delitem(sys.modules, "lightgbm", raising=False)
        monkeypatch.syspath_prepend(tmp_path)
        assert LinkRanker().fit(messages()).method_ == "recency"
        with pytest.raises(ImportError, match=r"installed but cannot be loaded \(libgomp.so.1: no such file\)"):
            LinkRanker("trees").fit(messages())

    def test_all_at_one_time(self):
        edges = messages()
        tied = TemporalEdges(edges.src, edges.dst, np.zeros(len(edges)))
        ranker = LinkRanker(n_trees=2, random_state=0).fit(tied)
        assert ranker.rank(5)["score"].is_finite().all()
        assert ranker.top(3).height == 3
        with pytest.raises(ParameterError, match="no candidates yet"):
            ranker.rank(5, 0)

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            ({"method": "x"}, "'method' parameter of LinkRanker"),
            ({"n_trees": 0}, "'n_trees' parameter of LinkRanker"),
            ({"random_state": "x"}, "'random_state' parameter"),
        ],
    )
    def test_parameters(self, arguments, message):
        with pytest.raises(ParameterError, match=message):
            LinkRanker(**arguments).fit(messages(50))

    def test_what_is_refused(self, fitted):
        for arguments, message in (((5, "soon"), "must be a number.*'soon'"), ((5, 10, []), "no candidates")):
            with pytest.raises(ParameterError, match=message):
                fitted.rank(*arguments)


class TestHeldOut:
    """The last edges decide how many trees are used, and whether any are."""

    def test_measures(self):
        rng = np.random.default_rng(0)
        scores, came = rng.integers(0, 5, 60).astype(float), rng.random(60)
        starts = np.array([0, 13, 14, 40])
        parts = np.split(scores, starts[1:])
        right = np.mean([1 / rank_of_true(part[0], part[1:]) for part in parts])
        assert ranking_fit._mean_reciprocal(scores, starts) == pytest.approx(right)
        monkey = [sorted(zip(-part, range(60), strict=False)) for part in np.split(scores, [25])]
        right = np.mean(
            [np.mean([c[k] for _, k in p[:100]]) for p, c in zip(monkey, np.split(came, [25]), strict=True)]
        )
        assert ranking_fit._mean_that_came(scores, came, np.array([25])) == pytest.approx(right)

    @pytest.mark.parametrize(
        ("measured", "n_trees"),
        [([0.6, 0.9, 0.9, 0.7, 0.5], 18), ([0.6, 0.7, 0.8, 0.85, 0.86], 30), ([0.3, 0.4, 0.49, 0.4, 0.3], None)],
    )
    def test_the_best_number_of_trees(self, measured, n_trees, monkeypatch):
        """The last measure is that of the recency rule."""
        monkeypatch.setattr(ranking_fit, "STEPS", 5)
        for method in ("auto", "trees"):
            values = {name: iter([*measured, 0.5]) for name in ("_mean_reciprocal", "_mean_that_came")}
            for name, each in values.items():
                monkeypatch.setattr(ranking_fit, name, lambda *_, each=each, **__: next(each))
            ranker = LinkRanker(method, n_trees=30, random_state=0).fit(messages())
            chosen = n_trees if n_trees or method == "auto" else 18
            assert [trees and trees.n_trees for trees in (ranker.next_trees_, ranker.pair_trees_)] == [chosen] * 2
            assert ranker.method_ == ranker.pair_method_ == ("recency" if chosen is None else "trees")
            assert ranker.n_queries_ == (0 if chosen is None else 600)
            ranker.rank(5), ranker.top(3)

    def test_the_position_by_the_recency_rule(self):
        """It orders candidates as the rule does."""
        src, dst = np.random.default_rng(0).integers(0, 9, (2, 300))
        state = RankingState(np.ones(5), True)
        state.absorb(src, dst, np.arange(300.0))
        nothing = src[:0], dst[:0], np.zeros(0)
        rows = state.run((src[:1] * 0 + 3, np.array([300.0])), np.array([0, 9]), np.arange(9), nothing, src[:1] * 0)
        order = np.argsort(-ranking_fit.recency_position(rows))
        np.testing.assert_array_equal(order, np.argsort(-ranking_fit.recency(rows)))
        assert ranking_fit.recency_position(rows).max() == 0

    def test_some_of_the_trees(self, fitted):
        trees, rows = fitted.next_trees_, np.random.default_rng(0).exponential(10.0, (50, len(COLUMNS)))
        parts = [trees.between(a, b) for a, b in ((0, 1), (1, 4), (4, trees.n_trees))]
        np.testing.assert_allclose(sum(part.sums(rows)[:, 0] for part in parts), trees.sums(rows)[:, 0])
        for part in parts:
            part.check(len(COLUMNS))


class TestSaved:
    def test_the_same_answers(self, fitted, tmp_path):
        fitted.save(tmp_path / "ranker")
        loaded = load_model(tmp_path / "ranker")
        assert loaded.rank(5, 9000).equals(fitted.rank(5, 9000))
        assert loaded.top(30).equals(fitted.top(30))

    @pytest.mark.parametrize(
        "damage",
        [
            lambda t: t._replace(column=t.column + 50),
            lambda t: t._replace(keep=t.keep * np.uint64(0)),
            lambda t: t._replace(first_leaf=t.first_leaf + 1),
            lambda t: t._replace(leaves=t.leaves[:-1]),
            lambda t: t._replace(threshold=t.threshold[:-1]),
            lambda t: t._replace(threshold=t.threshold.astype(np.float32)),
            lambda t: t._replace(n_columns=3),
            lambda t: t._replace(first_node=t.first_node[::-1].copy()),
        ],
    )
    def test_damaged_trees(self, fitted, damage):
        with pytest.raises(ValueError, match="damaged"):
            damage(fitted.next_trees_).check(len(COLUMNS))


class TestStream:
    @pytest.mark.parametrize("dates", [False, True])
    def test_the_same_answers_as_with_all_edges(self, dates):
        edges = messages(900)
        if dates:
            start = np.datetime64("2024-01-01", "s")
            edges = TemporalEdges(edges.src, edges.dst, start + edges.time.astype("timedelta64[s]") // 3)
        ranker = LinkRanker(n_trees=5, random_state=0).fit(edges[:800])
        stream = StreamRanker(ranker)
        whole = LinkRanker(n_trees=5, random_state=0).fit(edges[:800]).update(edges[800:])
        for k in range(800, 900):
            u, v, t = edges.src[k], edges.dst[k], edges.time[k]
            if k % 9 == 0:
                table = whole.rank(u, t)
                found = stream.rank(u, t)
                assert dict(found) == dict(zip(table["dst"], table["score"], strict=True))
                assert [score for _, score in found] == table["score"].to_list()
                assert stream.rank(u, t, [v, "nobody"], k=1)[0][0] == v
            stream.add(u, v, t)
        assert stream.n_edges == 900
        assert ranker.edges_.n_edges == 800

    def test_time_goes_on(self):
        stream = StreamRanker(LinkRanker("recency").fit(messages(50)))
        stream.add("new", 3, 600)
        assert "new" not in dict(stream.rank(3, 600))
        stream.add(3, "new", 600)
        assert stream.rank(3, 600.5)[0][0] == "new"
        for call in (lambda: stream.add(1, 2, 599), lambda: stream.rank(1, 599)):
            with pytest.raises(ParameterError, match="before that of the last edge"):
                call()


class TestFaults:
    def test_finer_times_of_an_update_are_rounded_up(self):
        time = np.datetime64("2024-01-01", "s") + np.arange(20)
        ranker = LinkRanker("recency").fit(TemporalEdges([0] * 20, np.arange(20) % 5 + 1, time))
        later = np.array(["2024-01-01T00:01:00.400"], "datetime64[us]")
        ranker.update(TemporalEdges([0], [3], later))
        assert ranker.edges_.time_unit == "s"
        assert ranker.rank(0, "2024-01-01T00:01:02")["dst"][0] == 3
        assert ranker.rank(0, "2024-01-01T00:01:01")["dst"][0] != 3

    def test_an_answer_may_be_the_first_message_to_somebody(self):
        ranker = LinkRanker("recency").fit(TemporalEdges(["ann", "cat"], ["bob", "dan"], [1, 2]))
        assert set(ranker.rank("bob", 3)["dst"]) == {"ann", "dan"}

    def test_links_of_a_second_fit_are_its_own(self):
        model = LinkPredictor(random_state=0).fit(TemporalEdges([0, 1, 2], [1, 2, 0], [1, 2, 3]))
        model.top(2)
        model.fit(TemporalEdges([10, 11, 12], [11, 12, 10], [1, 2, 3]))
        assert set(model.top(3)["src"]) <= {10, 11, 12}
