import numpy as np
import pytest

from tdlg import TemporalEdges
from tdlg.exceptions import EdgesError
from tdlg.sampling import candidates, shuffled_edges
from tdlg.sampling.candidates import candidate_pairs
from tdlg.sampling.index import EdgeIndex, concatenate_edges, edge_folds
from tdlg.sampling.negatives import historical_edges, inductive_edges, time_kept_edges


def network(n_edges=200, n_nodes=30, seed=0, **options):
    rng = np.random.default_rng(seed)
    src, dst = rng.integers(0, n_nodes, (2, n_edges))
    return TemporalEdges(src, dst, rng.uniform(0, 100, n_edges), **options)


def triples(edges):
    return list(zip(edges.src.tolist(), edges.dst.tolist(), edges.time.tolist(), strict=True))


def pairs(edges):
    """The candidates by their ids."""
    src, dst = candidate_pairs(edges)
    return list(zip(edges.node_ids[src].tolist(), edges.node_ids[dst].tolist(), strict=True))


class TestShuffledEdges:
    def test_each_column_keeps_its_values_and_loses_its_order(self):
        edges = network()
        shuffled = shuffled_edges(edges, 0)
        orders = []
        for name in ("src", "dst", "time"):
            before, after = getattr(edges, name), getattr(shuffled, name)
            assert before.dtype == after.dtype
            np.testing.assert_array_equal(np.sort(before), np.sort(after))
            orders.append(np.mean(before == after))
        assert max(orders) < 0.2
        assert len(set(triples(edges)) & set(triples(shuffled))) < 5

    def test_columns_are_shuffled_independently(self):
        number = np.arange(1000)
        shuffled = shuffled_edges(TemporalEdges(number, number, number, bipartite=True), 0)
        for one, other in (("src", "dst"), ("src", "time"), ("dst", "time")):
            assert abs(np.corrcoef(getattr(shuffled, one), getattr(shuffled, other))[0, 1]) < 0.15

    @pytest.mark.parametrize("bipartite", [False, True])
    def test_ids_times_and_kind_are_kept(self, bipartite):
        days = np.array(["2020-01-01", "2020-01-02", "2020-01-04"], "datetime64[ns]")
        edges = TemporalEdges(["a", "b", "c"], [1, 2, 3], days, label=[0, 1, 0], bipartite=bipartite)
        shuffled = shuffled_edges(edges, 3)
        assert (shuffled.bipartite, shuffled.time_unit, shuffled.label) == (bipartite, "ns", None)
        assert set(shuffled.src) == {"a", "b", "c"}
        assert set(shuffled.dst) == {1, 2, 3}
        assert not shuffled.same_table(edges)

    def test_a_part_is_shuffled_within_itself(self):
        edges = network()
        assert set(shuffled_edges(edges[:5], 0).time) == set(edges.time[:5])

    @pytest.mark.parametrize("make", [int, np.random.default_rng, np.random.RandomState])
    def test_same_seed_same_edges(self, make):
        first, again, other = (triples(shuffled_edges(network(), make(seed))) for seed in (7, 7, 8))
        assert first == again
        assert first != other


class TestConcatenateEdges:
    def test_order_and_ids(self):
        first, second = TemporalEdges([1], [2], [0.5]), TemporalEdges(["a"], [2], [3])
        assert triples(concatenate_edges(first, second)) == [(1, 2, 0.5), ("a", 2, 3.0)]

    def test_clocks_of_different_units(self):
        coarse = TemporalEdges([1], [2], np.array(["2020-01-01"], "datetime64[s]"))
        fine = TemporalEdges([1], [2], np.array(["2020-01-01T00:00:00.5"], "datetime64[ms]"))
        assert concatenate_edges(coarse, fine).time.tolist() == [*coarse.time.tolist(), *fine.time.tolist()]

    def test_kinds_that_do_not_go_together(self):
        with pytest.raises(EdgesError, match="Some of these edges are bipartite"):
            concatenate_edges(network(), network(bipartite=True))
        with pytest.raises(EdgesError, match="datetimes and others have plain numbers"):
            concatenate_edges(network(), TemporalEdges([1], [2], ["2020-01-01"]))

    def test_times_that_would_change_beside_others(self):
        whole = TemporalEdges([1, 1], [2, 2], [1_700_000_000_000_000_000, 1_700_000_000_000_000_001])
        with pytest.raises(EdgesError, match="without losing digits"):
            concatenate_edges(whole, TemporalEdges([1], [2], [0.5]))
        far = TemporalEdges([1], [2], np.array(["9000-01-01"], "datetime64[s]"))
        with pytest.raises(EdgesError, match="cannot be counted in ns"):
            concatenate_edges(far, TemporalEdges([1], [2], np.array(["2020-01-01"], "datetime64[ns]")))


class TestEdgeIndex:
    def test_finds_what_a_dict_finds(self):
        rng = np.random.default_rng(1)
        edges = TemporalEdges(*rng.integers(0, 4, (3, 100)))
        other = TemporalEdges(*rng.integers(0, 6, (3, 300)))
        first = {}
        for position, triple in enumerate(triples(edges)):
            first.setdefault(triple, position)
        expected = [first.get(triple, -1) for triple in triples(other)]
        assert EdgeIndex(edges).find(other).tolist() == expected
        assert -1 in expected
        assert len(set(expected)) > 20

    def test_seen_is_this_direction_and_not_later(self):
        index = EdgeIndex(TemporalEdges(["a", "a"], ["b", "b"], [5, 3]))
        asked = TemporalEdges(["a", "a", "a", "b", "x"], ["b", "b", "b", "a", "y"], [2, 3, 9, 9, 9])
        assert index.seen_by(asked).tolist() == [False, True, True, False, False]

    def test_no_edges_asked(self):
        assert EdgeIndex(network()).find(network()[:0]).tolist() == []

    def test_clocks_of_different_units(self):
        edges = TemporalEdges([1], [2], np.array(["2020-01-01"], "datetime64[s]"))
        asked = TemporalEdges([1, 1], [2, 2], np.array(["2020-01-01", "2020-01-01T00:00:00.5"], "datetime64[ns]"))
        assert EdgeIndex(edges).find(asked).tolist() == [0, -1]
        with pytest.raises(EdgesError, match="datetimes"):
            EdgeIndex(edges).find(network())


class TestEdgeFolds:
    def test_even_and_random(self):
        folds = edge_folds(network(), 5, 0)
        assert np.bincount(folds).tolist() == [40] * 5
        assert not np.array_equal(folds, edge_folds(network(), 5, 1))
        np.testing.assert_array_equal(folds, edge_folds(network(), 5, 0))

    def test_copies_stay_together(self):
        edges = TemporalEdges([1, 2] * 50, [3, 4] * 50, np.repeat(np.arange(25), 4))
        folds = edge_folds(edges, 5, 0)
        assert len({(*triple, fold) for triple, fold in zip(triples(edges), folds, strict=True)}) == 50
        bootstrap = network()[np.random.default_rng(0).integers(0, 200, 200)]
        folds = edge_folds(bootstrap, 5, 0)
        assert len(set(zip(bootstrap.rows, folds, strict=True))) == len(set(bootstrap.rows))

    def test_fewer_edges_than_folds(self):
        assert sorted(edge_folds(network(3), 5, 0)) == [0, 1, 2]


class TestCandidatePairs:
    def test_seen_two_steps_away_and_popular(self):
        edges = TemporalEdges(["a", "b", "x", "y", "z"], ["b", "c", "hub", "hub", "hub"], [1, 2, 3, 4, 5])
        found = pairs(edges)
        assert {("a", "b"), ("a", "c"), ("a", "hub")} <= set(found)
        assert found[0] == ("z", "hub")  # who acted last, whom it met last
        assert ("hub", "hub") not in found

    def test_whom_they_heard_from(self, monkeypatch):
        monkeypatch.setattr(candidates, "POPULAR", 0)
        monkeypatch.setattr(candidates, "TWO_STEPS", 0)
        edges = TemporalEdges(["a", "new", "b", "d"], ["b", "a", "a", "b"], [1, 2, 3, 4])
        assert pairs(edges) == [("d", "b"), ("b", "a"), ("b", "d"), ("new", "a"), ("a", "b"), ("a", "new")]
        monkeypatch.setattr(candidates, "HEARD", 0)
        assert pairs(edges) == [("d", "b"), ("b", "a"), ("new", "a"), ("a", "b")]

    def test_only_former_destinations_or_whom_they_heard_from(self):
        edges = TemporalEdges(np.arange(200) % 40, np.arange(200) * 7 % 30, range(200))
        found, met = pairs(edges), set(zip(edges.src.tolist(), edges.dst.tolist(), strict=True))
        assert {(dst, src) for src, dst in found if dst >= 30} <= met
        assert any(dst >= 30 for _, dst in found)
        assert {src for src, _ in found} <= set(edges.src.tolist())

    @pytest.mark.parametrize("bipartite", [False, True])
    def test_where_sources_are_no_destinations_another_step_is_taken(self, bipartite, monkeypatch):
        monkeypatch.setattr(candidates, "POPULAR", 0)
        users, items = ["u1", "u2", "u2"], ["i1", "i1", "i2"]
        found = pairs(TemporalEdges(users, items, [1, 2, 3], bipartite=bipartite))
        assert set(found) == {("u1", "i1"), ("u2", "i1"), ("u2", "i2"), ("u1", "i2")}

    def test_self_loops_only_where_seen(self):
        found = pairs(TemporalEdges(["a", "b"], ["a", "a"], [1, 2]))
        assert set(found) == {("a", "a"), ("b", "a"), ("a", "b")}

    def test_caps(self, monkeypatch):
        edges = network(20_000, 3000)
        found = pairs(edges)
        sources, counts = np.unique([src for src, _ in found], return_counts=True)
        assert len(sources) == candidates.MOST_SOURCES
        assert counts.max() <= candidates.SEEN + candidates.HEARD + candidates.TWO_STEPS + candidates.POPULAR
        assert len(set(found)) == len(found)
        last = {edges.src[k] for k in np.argsort(edges.time)[-500:]}
        assert last <= set(sources.tolist())

    def test_the_latest_are_kept(self, monkeypatch):
        monkeypatch.setattr(candidates, "SEEN", 3)
        monkeypatch.setattr(candidates, "TWO_STEPS", 0)
        monkeypatch.setattr(candidates, "POPULAR", 0)
        assert pairs(TemporalEdges([0] * 9, range(1, 10), range(9))) == [(0, 9), (0, 8), (0, 7)]


class TestTimeKeptEdges:
    def test_only_the_partner_moves(self):
        edges = network()
        kept = time_kept_edges(edges, 0)
        np.testing.assert_array_equal(kept.src, edges.src)
        np.testing.assert_array_equal(kept.time, edges.time)
        np.testing.assert_array_equal(np.sort(kept.dst), np.sort(edges.dst))
        assert np.mean(kept.dst == edges.dst) < 0.2

    def test_same_seed_same_edges(self):
        assert triples(time_kept_edges(network(), 3)) == triples(time_kept_edges(network(), 3))
        assert triples(time_kept_edges(network(), 3)) != triples(time_kept_edges(network(), 4))


class TestHistoricalAndInductiveEdges:
    edges = network(400, 12)  # 144 pairs
    past, later = edges[edges.time < 40], edges[edges.time >= 40]

    def pairs_of(self, edges):
        return {(src, dst) for src, dst, _ in triples(edges)}

    @pytest.mark.parametrize("make", [historical_edges, inductive_edges])
    def test_times_are_kept_and_none_of_the_edges_is_real(self, make):
        negatives = make(self.later, self.past, 0)
        np.testing.assert_array_equal(negatives.time, self.later.time)
        assert not set(triples(negatives)) & set(triples(self.later))
        assert triples(negatives) == triples(make(self.later, self.past, 0)) != triples(make(self.later, self.past, 1))

    def test_historical_pairs_have_met(self):
        assert self.pairs_of(historical_edges(self.later, self.past, 0)) <= self.pairs_of(self.past)

    def test_inductive_pairs_are_new(self):
        pairs = self.pairs_of(inductive_edges(self.later, self.past, 0))
        assert pairs <= self.pairs_of(self.later) - self.pairs_of(self.past)
        assert len(pairs) > 10

    def test_every_pair_is_as_likely_however_often_it_met(self):
        past = TemporalEdges([1] * 98 + [2, 3], [9] * 100, np.arange(100))
        later = TemporalEdges([7] * 3000, [8] * 3000, np.arange(3000))
        counts = np.unique(historical_edges(later, past, 0).src, return_counts=True)[1]
        assert (np.abs(counts - 1000) < 130).all()

    def test_a_pair_that_met_at_that_time_is_drawn_anew(self):
        past = TemporalEdges([1, 2], [9, 9], [0, 0])
        later = TemporalEdges([1] * 50, [9] * 50, np.arange(50) + 1)
        assert set(historical_edges(later, past, 0).src.tolist()) == {2}

    def test_kept_where_there_is_nothing_else(self):
        past, later = TemporalEdges([1], [9], [0]), TemporalEdges([1], [9], [5])
        assert triples(historical_edges(later, past, 0)) == [(1, 9, 5)]

    def test_ids_of_another_table_and_bipartite(self):
        past = TemporalEdges(["a", "b"], ["a", "x"], [0, 1], bipartite=True)
        later = TemporalEdges(["b", "c"], ["x", "x"], [2, 3], bipartite=True)
        negatives = inductive_edges(later, past, 0)
        assert negatives.bipartite
        assert set(zip(negatives.src.tolist(), negatives.dst.tolist(), strict=True)) == {("c", "x")}

    def test_without_a_past(self):
        with pytest.raises(EdgesError, match="'past' is empty"):
            historical_edges(self.later, self.past[:0])
        assert len(inductive_edges(self.later, self.past[:0], 0)) == len(self.later)

    def test_no_pair_is_new(self):
        with pytest.raises(EdgesError, match="No pair among the edges is new"):
            inductive_edges(self.past, self.past)
