import datetime

import numpy as np
import polars as pl
import pytest
from scipy.special import expit
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score

from tdlg import Gaussian, Laplace, LineGraph, LinkPredictor, NoDecay, TemporalEdges, load_model
from tdlg.exceptions import EdgesError, ParameterError
from tdlg.sampling import candidates, shuffled_edges
from tdlg.sampling.index import concatenate_edges


def network(n_edges=600, n_nodes=40, seed=0, **options):
    """Nodes that are busy one after the other; they meet the next four."""
    rng = np.random.default_rng(seed)
    src = np.sort(rng.integers(0, n_nodes, n_edges))
    time = 100 * src / n_nodes + rng.normal(0, 2, n_edges)
    return TemporalEdges(src, (src + rng.integers(1, 5, n_edges)) % n_nodes, time, **options)


def fitted(edges=None, **options):
    return LinkPredictor("linegraph", random_state=0, **options).fit(network() if edges is None else edges)


class TestScores:
    def test_agrees_with_scikit_learn(self):
        edges, candidates = network(), network(seed=1)
        model = fitted(edges, decay=Gaussian(5.0))
        both = concatenate_edges(edges, shuffled_edges(edges, 0))
        reference = LogisticRegression(tol=1e-10, max_iter=10_000)
        reference.fit(LineGraph(both, decay=Gaussian(5.0)).to_csr(), np.repeat([1, 0], 600))
        expected = reference.decision_function(LineGraph(candidates, both, decay=Gaussian(5.0)).to_csr())
        np.testing.assert_allclose(model.decision_function(candidates), expected, atol=0.1)  # where each solver stops
        assert np.ptp(expected) > 2

    def test_real_against_shuffled(self):
        real, candidates = network(), network(seed=1)
        scores = fitted(real).decision_function(concatenate_edges(candidates, shuffled_edges(candidates, 1)))
        assert roc_auc_score(np.repeat([1, 0], 600), scores) > 0.9

    def test_large_sparse_networks_are_learnt_too(self):
        """A mean over all edges is hardly moved by the few around one: scikit-learn's rule to stop would be met at once."""
        real, candidates = (network(60_000, 30_000, seed=seed) for seed in (0, 1))
        model = fitted(real, decay=Gaussian(1.0))
        assert model.model_.n_iter_ > 1
        scores = model.decision_function(concatenate_edges(candidates, shuffled_edges(candidates, 1)))
        assert roc_auc_score(np.repeat([1, 0], 60_000), scores) > 0.8

    def test_probabilities(self):
        model, edges = fitted(), network(seed=1)
        probability = model.predict_proba(edges)
        np.testing.assert_allclose(probability.sum(axis=1), 1)
        np.testing.assert_allclose(probability[:, 1], expit(model.decision_function(edges)))
        assert model.classes_.tolist() == [0, 1]

    def test_tables_are_edges_too(self):
        model, edges = fitted(), network(seed=1)
        table = np.column_stack([edges.src, edges.dst, edges.time])
        np.testing.assert_allclose(model.predict_proba(table), model.predict_proba(edges))

    def test_unseen_nodes(self):
        model = fitted()
        scores = model.decision_function(TemporalEdges([-1], [-2], [50]))
        np.testing.assert_allclose(scores, model.model_.intercept_)

    def test_same_seed_same_model(self):
        edges = network()
        first, again, other = (
            LinkPredictor("linegraph", random_state=seed).fit(edges).model_.coef_ for seed in (1, 1, 2)
        )
        np.testing.assert_array_equal(first, again)
        assert not np.array_equal(first, other)


class TestTop:
    def test_what_is_obviously_next(self):
        """Two who write to each other all day, beside a network whose other nodes are quiet by then."""
        edges = network(n_nodes=20)
        chat = TemporalEdges([-1, -2] * 30, [-2, -1] * 30, np.linspace(102, 106, 60))
        table = fitted(concatenate_edges(edges, chat)).top(5)
        assert table.columns == ["src", "dst", "time", "score", "seen", "reason"]
        assert set(table[["src", "dst"]].rows()[:2]) == {(-1, -2), (-2, -1)}
        assert table["seen"][:2].to_list() == [True, True]
        assert table["time"].unique().to_list() == [106]
        assert (np.diff(table["score"]) <= 0).all()

    def test_the_best_of_the_candidates(self):
        model = fitted()
        table = model.top(10, at=50)
        src, dst = candidates.candidate_pairs(model.edges_[model.edges_.time <= 50])
        ids = model.edges_.node_ids
        scores = model.predict_proba(TemporalEdges(ids[src], ids[dst], np.full(len(src), 50.0)))[:, 1]
        np.testing.assert_allclose(table["score"], np.sort(scores)[::-1][:10], atol=1e-7)
        assert table["seen"].to_list() == [
            any((model.edges_.src == u) & (model.edges_.dst == v) & (model.edges_.time <= 50))
            for u, v in table[["src", "dst"]].rows()
        ]

    def test_is_deterministic(self):
        assert fitted().top(50).equals(fitted().top(50))

    def test_never_more_than_the_cap(self, monkeypatch):
        monkeypatch.setattr(candidates, "MOST_SOURCES", 7)
        table = fitted().top(10**6)
        counts = table["src"].value_counts()["count"]
        assert len(counts) == 7
        assert counts.max() <= 100
        assert table[["src", "dst"]].is_unique().all()

    def test_nothing_later_makes_a_candidate(self):
        early = fitted().top(10**6, at=20)
        nodes = network().node_ids[: int(20 / 100 * 40) + 12]
        assert set(early["src"]) <= set(nodes.tolist())

    @pytest.mark.parametrize("make", [np.array, pl.DataFrame, list], ids=["array", "frame", "list"])
    def test_given_pairs(self, make):
        pairs = [[3, 4], [37, 38], [-1, -2]]
        made = pl.DataFrame(pairs, schema=["a", "b"], orient="row") if make is pl.DataFrame else make(pairs)
        table = fitted().top(candidates=made, at=93)
        assert table.row(0)[:3] == (37, 38, 93)
        assert sorted(table[["src", "dst"]].rows()) == sorted(map(tuple, pairs))
        assert dict(zip(table["src"], table["seen"], strict=True)) == {3: True, 37: True, -1: False}

    def test_columns_of_a_frame_have_names(self):
        table = fitted().top(candidates=pl.DataFrame({"dst": [4], "other": ["x"], "src": [3]}))
        assert table.row(0)[:2] == (3, 4)

    def test_tuples_as_ids(self):
        edges = TemporalEdges([("a", 1), ("b", 2)] * 5, [("b", 2), ("a", 1)] * 5, range(10))
        table = fitted(edges).top(candidates=[[("a", 1), ("b", 2)]])
        assert table.row(0)[:2] == (("a", 1), ("b", 2))

    def test_given_edges_keep_their_times(self):
        candidates = TemporalEdges([3, 3], [4, 4], [7.5, 90.0])
        table = fitted().top(candidates=candidates)
        assert table["time"].to_list() == [7.5, 90.0]
        with pytest.raises(ParameterError, match="have their own times"):
            fitted().top(candidates=candidates, at=3)

    def test_one_candidate_needs_no_order(self):
        assert fitted().top(candidates=[[-1, -2]]).height == 1

    @pytest.mark.parametrize("unit", ["s", "ns"])
    def test_strings_and_datetimes(self, unit):
        edges = network()
        days = np.datetime64("2020-01-01", unit) + (edges.time * 86400).astype("timedelta64[s]")
        named = TemporalEdges([f"n{i}" for i in edges.src], [f"n{i}" for i in edges.dst], days)
        model = fitted(named)
        plain = fitted(edges).top(30, at=50.0)
        for at in ("2020-02-20", datetime.datetime(2020, 2, 20), np.datetime64("2020-02-20")):
            table = model.top(30, at=at)
            assert table["time"].unique().to_list() == [datetime.datetime(2020, 2, 20)]
            assert table.schema["src"] == pl.String
            assert (
                len(set(table[["src", "dst"]].rows()) & {(f"n{u}", f"n{v}") for u, v in plain[["src", "dst"]].rows()})
                > 20
            )
        assert model.top(1)["time"].dtype.is_temporal()

    def test_ids_of_any_kind(self):
        edges = TemporalEdges([("a", 1), "b"] * 5, ["b", ("a", 1)] * 5, range(10))
        assert set(fitted(edges).top(5)["src"].to_list()) == {("a", 1), "b"}

    def test_two_kinds_of_nodes(self):
        model = fitted(network(bipartite=True))
        table = model.top(1000)
        assert set(table["dst"]) <= set(network().dst.tolist())
        assert not table["seen"].all()
        assert model.top(candidates=[[38, 39], [39, 1]]).height == 2


class TestTies:
    @pytest.mark.parametrize("decay", [None, Gaussian(3.0), Laplace(3.0)])
    def test_too_late_to_tell(self, decay):
        model = fitted(decay=decay)
        with pytest.raises(ParameterError, match=r"score the same at 1000.*last fitted.*at=.*decay=.*reaches further"):
            model.top(at=1000)
        with pytest.raises(ParameterError, match="2 candidates score the same at 1000"):
            model.top(at=1000, candidates=[[1, 2], [3, 4]])

    @pytest.mark.parametrize("decay", [NoDecay(), Gaussian(1000.0)])
    def test_the_way_out(self, decay):
        assert fitted(decay=decay).top(at=1000).height == 20

    def test_a_few_bandwidths_later_there_is_an_order(self):
        last = network().time.max()
        assert fitted(decay=Gaussian(3.0)).top(5, at=last + 12).height == 5

    def test_none_of_the_nodes_was_seen(self):
        with pytest.raises(ParameterError, match="none of their nodes"):
            fitted().top(candidates=[[-1, -2], [-3, -4]])

    def test_a_pair_and_its_reverse_are_as_likely(self):
        """The seen one comes first; of two seen ones, or two unseen ones, the one that was given first."""
        model = fitted(decay=Gaussian(3.0))
        pairs = sorted({tuple(pair) for pair in zip(model.edges_.src.tolist(), model.edges_.dst.tolist(), strict=True)})
        both = [pair for u, v in pairs for pair in ((v, u), (u, v))]
        table = model.top(len(both), at=50.0, candidates=both)
        place = {pair: k for k, pair in enumerate(table[["src", "dst"]].rows())}
        score, seen = (dict(zip(place, table[name], strict=True)) for name in ("score", "seen"))
        assert (np.diff(table["score"]) <= 0).all()
        for u, v in pairs:
            assert score[u, v] == score[v, u]
            first = (u, v) if seen[u, v] > seen[v, u] else (v, u)
            assert place[first] == min(place[u, v], place[v, u])


class TestWhatIsRefused:
    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            ({"k": 0}, "'k' parameter of top"),
            ({"k": 2.5}, "'k' parameter of top"),
            ({"at": "2020-01-01"}, "'at' parameter of top must be a number.*'2020-01-01'"),
            ({"at": float("nan")}, "'at' parameter of top must be a number.*nan"),
            ({"at": -1000}, "before the first of the fitted edges"),
            ({"candidates": [[1, 2, 3]]}, r"two columns src and dst. Got \[1, 2, 3\]"),
            ({"candidates": np.zeros((2, 3))}, r"two columns src and dst. Got shape \(2, 3\)"),
            ({"candidates": pl.DataFrame({"a": [1]})}, r"Got the columns \['a'\]"),
            ({"candidates": ["ab", "cd"]}, "Got 'ab'"),
            ({"candidates": "abc"}, "Got 'abc'"),
            ({"candidates": np.empty((0, 2))}, "no candidates"),
            ({"candidates": network()[:0]}, "no candidates"),
        ],
    )
    def test_by_top(self, arguments, message):
        with pytest.raises(ParameterError, match=message):
            fitted().top(**arguments)

    def test_a_number_where_there_are_datetimes(self):
        edges = TemporalEdges([1, 2, 1], [2, 3, 3], ["2020-01-01", "2020-01-02", "2020-01-05"])
        with pytest.raises(ParameterError, match=r"must be a datetime.*Got 5"):
            fitted(edges).top(at=5)

    @pytest.mark.parametrize(
        ("name", "value"),
        [("method", "x"), ("decay", 3.0), ("C", -1), ("C", np.inf), ("n_threads", 0), ("random_state", "x")],
    )
    def test_parameters(self, name, value):
        with pytest.raises(ParameterError, match=f"The '{name}' parameter.*Got {value!r} instead"):
            LinkPredictor("linegraph").set_params(**{name: value}).fit(network())

    def test_one_edge(self):
        with pytest.raises(EdgesError, match="one edge"):
            fitted(network()[:1])

    def test_all_at_the_same_time(self):
        edges = TemporalEdges(network().src, network().dst, np.zeros(600))
        with pytest.raises(ParameterError, match=r"all 600 edges have the same time.*NoDecay.*bandwidth="):
            fitted(edges)
        assert fitted(edges, decay=NoDecay()).top(3).height == 3


def groups(n_edges=600, seed=0, **options):
    """Two groups that keep to themselves."""
    rng = np.random.default_rng(seed)
    group = rng.integers(0, 2, n_edges)
    src, dst = rng.integers(0, 10, (2, n_edges)) + 10 * group
    return TemporalEdges(src, dst + 100, np.sort(rng.uniform(0, 100, n_edges)), **options)


class TestPropagation:
    @pytest.mark.parametrize(("time", "least"), [(50.0, 0.95), (100.5, 0.75)])
    def test_tells_who_belongs_together(self, time, least):
        model = LinkPredictor(random_state=0).fit(groups())
        pairs = [(s, d) for s in range(20) for d in range(100, 120)]
        src, dst = np.array(pairs).T
        together = (src < 10) == (dst < 110)
        scores = model.decision_function(TemporalEdges(src, dst, np.full(400, time)))
        assert roc_auc_score(together, scores) > least
        np.testing.assert_allclose(
            model.predict_proba(np.column_stack([src, dst, np.full(400, time)]))[:, 1], expit(scores)
        )

    def test_the_first_of_the_candidates(self):
        table = LinkPredictor(random_state=0).fit(groups()).top(20, at=101.0)
        assert ((table["src"] < 10) == (table["dst"] < 110)).mean() > 0.9
        assert (table["score"].to_numpy()[:-1] >= table["score"].to_numpy()[1:]).all()

    def test_top_ranks_by_the_fitted_model(self):
        model = LinkPredictor(random_state=0).fit(groups())
        fitted = set(vars(model))
        table = model.top(20, at=101.0)
        assert set(vars(model)) == fitted
        np.testing.assert_array_equal(
            table["score"], model.predict_proba(table[["src", "dst", "time"]].to_numpy())[:, 1]
        )

    def test_edges_that_are_drawn_do_not_give_themselves_away(self):
        rng = np.random.default_rng(0)
        src, dst = rng.integers(0, 40, (2, 2000))
        edges = TemporalEdges(src, dst, rng.uniform(0, 1, 2000))  # nothing to learn
        model = LinkPredictor(random_state=0).fit(edges[:1400])
        others = TemporalEdges(*rng.integers(0, 40, (2, 600)), rng.uniform(0, 1, 600))
        scores = np.concatenate([model.decision_function(edges[1400:]), model.decision_function(others)])
        assert abs(roc_auc_score(np.repeat([1, 0], 600), scores) - 0.5) < 0.06

    def test_nothing_to_tell_candidates_apart(self):
        model = LinkPredictor(random_state=0).fit(groups())
        with pytest.raises(ParameterError, match=r"none of their nodes is among the fitted"):
            model.top(candidates=[[500, 600], [501, 601]])

    def test_same_seed_same_scores_saved_or_not(self, tmp_path):
        edges = groups()
        model = LinkPredictor(random_state=1).fit(edges)
        scores = model.decision_function(edges)
        np.testing.assert_array_equal(LinkPredictor(random_state=1).fit(edges).decision_function(edges), scores)
        model.save(tmp_path / "links.tdlg")
        np.testing.assert_array_equal(load_model(tmp_path / "links.tdlg").decision_function(edges), scores)

    @pytest.mark.parametrize("n_edges", [2, 3, 10])
    def test_few_edges_and_one_time(self, n_edges):
        edges = groups()[:n_edges]
        assert np.isfinite(LinkPredictor(random_state=0).fit(edges).decision_function(edges)).all()
        tied = TemporalEdges(edges.src, edges.dst, np.zeros(n_edges))
        assert np.isfinite(LinkPredictor(random_state=0).fit(tied).decision_function(tied)).all()

    def test_dates(self):
        edges = groups()
        time = np.datetime64("2024-01-01", "s") + (edges.time * 3600).astype("timedelta64[s]")
        model = LinkPredictor(random_state=0).fit(TemporalEdges(edges.src, edges.dst, time))
        asked = TemporalEdges([1, 1], [101, 115], np.array(["2024-02-01T00:00:00.5"] * 2, "datetime64[ms]"))
        near, far = model.decision_function(asked)
        assert near > far
        with pytest.raises(EdgesError, match="datetimes"):
            model.decision_function([[1, 101, 5.0]])
