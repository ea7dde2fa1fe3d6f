import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from tdlg import LineGraphClassifier, TemporalEdges
from tdlg.exceptions import EdgesError, ParameterError
from tdlg.judge.trials import EdgeClassification, ForecastClassification, LinkPrediction, TimeOrderedSplit


def network(n_edges=1000, n_nodes=50, seed=0, **options):
    rng = np.random.default_rng(seed)
    src, dst = rng.integers(0, n_nodes, (2, n_edges))
    label = rng.integers(0, 2, n_edges)
    return TemporalEdges(src, dst, rng.uniform(0, 100, n_edges), label=label, **options)


def triples(edges):
    return list(zip(edges.src.tolist(), edges.dst.tolist(), edges.time.tolist(), strict=True))


class TestEdgeClassification:
    def test_every_labelled_edge_is_trained_on_or_asked_for(self):
        edges = network()
        trial = EdgeClassification(edges).draw(0)
        test = trial.tests["edge classification"]
        assert (len(trial.train), len(test)) == (700, 300)
        np.testing.assert_array_equal(np.sort(np.concatenate([trial.train, test])), np.arange(1000))
        np.testing.assert_array_equal(trial.columns, np.arange(1000))
        np.testing.assert_array_equal(trial.y, edges.label)

    def test_labels_asked_for_are_not_seen(self):
        trial = EdgeClassification(network()).draw(0)
        seen = trial.seen()
        assert not seen.labelled[trial.tests["edge classification"]].any()
        np.testing.assert_array_equal(seen.label[trial.train], trial.y[trial.train])
        assert trial.edges.label is None

    def test_unlabelled_edges_are_seen_only(self):
        edges = network()
        edges = edges.with_label(np.where(edges.time < 50, edges.label, np.nan))
        trial = EdgeClassification(edges, train_share=0.5).draw(0)
        asked = np.concatenate([trial.train, trial.tests["edge classification"]])
        assert edges.labelled[asked].all()
        assert len(asked) == edges.labelled.sum() < len(trial.columns)
        assert abs(len(trial.train) - len(asked) / 2) <= 1

    def test_labels_of_text(self):
        edges = network()
        seen = EdgeClassification(edges.with_label(np.where(edges.label > 0, "good", "bad"))).draw(0).seen()
        assert set(seen.label[seen.labelled]) == {"good", "bad"}
        assert (~seen.labelled).sum() == 300

    def test_same_seed_same_trial(self):
        task = EdgeClassification(network())
        np.testing.assert_array_equal(task.draw(1).train, task.draw(1).train)
        assert set(task.draw(1).train) != set(task.draw(2).train)

    def test_bad_input(self):
        with pytest.raises(EdgesError, match=r"at least two different labels\. Got 0"):
            EdgeClassification(network().with_label(None))
        with pytest.raises(EdgesError, match=r"at least two different labels\. Got 1"):
            EdgeClassification(network().with_label(np.ones(1000)))
        with pytest.raises(ParameterError, match=r"'train_share' parameter .* Got 70"):
            EdgeClassification(network(), train_share=70)


class TestLinkPrediction:
    def test_the_parts_are_those_of_the_paper(self):
        edges = network()
        trial = LinkPrediction(edges).draw(0)
        assert triples(trial.edges[:1000]) == triples(edges)
        np.testing.assert_array_equal(trial.y, np.repeat([1, 0], 1000))
        first, last = edges.time.min(), edges.time.max()
        late = trial.edges.time >= first + (last - first) * 19 / 20
        inner, outer = trial.tests["interpolative"], trial.tests["extrapolative"]
        np.testing.assert_array_equal(np.flatnonzero(late), outer)
        np.testing.assert_array_equal(np.sort(np.concatenate([trial.train, inner])), np.flatnonzero(~late))
        assert len(trial.train) == round(0.7 * (~late).sum())
        assert trial.y[outer].mean() == 0.5  # shuffling keeps the times

    def test_only_training_edges_are_seen(self):
        trial = LinkPrediction(network()).draw(0)
        np.testing.assert_array_equal(trial.columns, trial.train)
        seen = trial.seen()
        assert seen.labelled.all()
        np.testing.assert_array_equal(seen.rows, trial.train)
        np.testing.assert_array_equal(seen.label, trial.y[trial.train])

    @pytest.mark.parametrize("negatives", ["shuffled", "time-kept", "historical", "inductive"])
    def test_negatives(self, negatives):
        edges = network(n_nodes=20, bipartite=True)
        trial = LinkPrediction(edges, negatives=negatives).draw(0)
        made = trial.edges[1000:]
        assert trial.edges.bipartite
        assert len(made) == 1000
        np.testing.assert_array_equal(np.sort(made.time), np.sort(edges.time))
        if negatives == "shuffled":
            assert (made.time != edges.time).any()
        if negatives == "time-kept":
            np.testing.assert_array_equal(made.src, edges.src)
        if negatives == "historical":
            real, drawn = ({(s, d) for s, d, _ in triples(part)} for part in (edges, made))
            assert drawn <= real

    def test_inductive_negatives_are_pairs_that_only_the_late_part_has(self):
        edges = network(n_nodes=20)
        trial = LinkPrediction(edges, negatives="inductive", n_intervals=4).draw(0)
        outer = trial.tests["extrapolative"]
        late = trial.edges[outer]
        pairs = [(s, d) for s, d, _ in triples(late)]
        real = {pair for pair, y in zip(pairs, trial.y[outer], strict=True) if y}
        made = {pair for pair, y in zip(pairs, trial.y[outer], strict=True) if not y}
        early = {(s, d) for s, d, t in triples(edges) if t < late.time.min()}
        assert made <= real - early

    def test_names(self):
        edges = network()
        assert LinkPrediction(edges).name == "link prediction"
        assert LinkPrediction(edges, negatives="historical").name == "link prediction, historical negatives"

    def test_same_seed_same_trial(self):
        task = LinkPrediction(network())
        assert triples(task.draw(1).edges) == triples(task.draw(1).edges) != triples(task.draw(2).edges)
        np.testing.assert_array_equal(task.draw(1).train, task.draw(1).train)

    def test_bad_input(self):
        with pytest.raises(ParameterError, match=r"'negatives' parameter .* Got 'hard'"):
            LinkPrediction(network(), negatives="hard")
        with pytest.raises(ParameterError, match=r"'n_intervals' parameter .* Got 1"):
            LinkPrediction(network(), n_intervals=1)
        with pytest.raises(EdgesError, match="All edges happened at one time"):
            LinkPrediction(TemporalEdges([1, 2], [2, 3], [5, 5])).draw(0)


class TestForecastClassification:
    def test_the_last_part_is_asked_for(self):
        edges = network()
        trial = ForecastClassification(edges).draw()
        asked = trial.tests["forecast"]
        assert edges.time[trial.train].max() < edges.time[asked].min()
        assert len(trial.train) == 700
        np.testing.assert_array_equal(np.sort(np.concatenate([trial.train, asked])), np.arange(1000))
        assert not trial.reveals
        assert not trial.seen().labelled[asked].any()

    def test_ties_at_the_cut_are_asked_for(self):
        edges = TemporalEdges(range(6), range(1, 7), [0, 1, 5, 5, 5, 9], label=[0, 1, 0, 1, 0, 1])
        trial = ForecastClassification(edges, train_share=0.5).draw()
        assert trial.train.tolist() == [0, 1]
        with pytest.raises(EdgesError, match="No labelled edge is before the cut"):
            ForecastClassification(edges.with_label([0, 1] * 3)[2:5]).draw()

    def test_blocks_learn_from_all_labels_before_them(self):
        edges = network()
        trial = ForecastClassification(edges, stream=True).draw()
        assert trial.reveals
        asked = trial.tests["stream"]
        blocks = trial.blocks(asked, 6)
        assert len(blocks) == 6
        np.testing.assert_array_equal(np.sort(np.concatenate([b.tests[""] for b in blocks])), np.sort(asked))
        for block in blocks:
            inside = block.tests[""]
            assert len(inside) == 50
            assert set(block.train) == set(np.flatnonzero(edges.time < edges.time[inside].min()))
            assert edges.time[block.columns].max() == edges.time[inside].max()
            assert set(inside) <= set(block.columns)


class TestTimeOrderedSplit:
    @staticmethod
    def edges(n=300, **options):
        rng = np.random.default_rng(0)
        time, label = rng.integers(0, 150, n), rng.integers(0, 2, n).astype(float)
        label[rng.random(n) < 0.2] = np.nan
        return TemporalEdges(rng.integers(0, 9, n), rng.integers(9, 19, n), time, label=label, **options)

    @pytest.mark.parametrize("delay", [None, 11])
    def test_only_labels_known_before_the_test_part_are_learnt_from(self, delay):
        edges = self.edges(label_delay=delay)
        folds, before = list(TimeOrderedSplit(4).split(edges)), np.empty(0, int)
        assert len(folds) == TimeOrderedSplit(4).get_n_splits() == 4
        known_at = edges.time + (delay or 0)
        for train, test in folds:
            cut = edges.time[test].min()
            assert sorted(train) == [
                k for k in range(300) if edges.labelled[k] and max(known_at[k], edges.time[k]) < cut
            ]
            assert np.intersect1d(before, test).size == 0
            before = np.append(before, test)
        assert sorted(before) == [
            k for k in range(300) if edges.labelled[k] and edges.time[k] >= edges.time[folds[0][1]].min()
        ]

    def test_with_cross_validate(self):
        from sklearn.model_selection import cross_validate

        edges = self.edges(label_delay=5)
        model = LineGraphClassifier()
        found = cross_validate(model, edges, edges.label, cv=TimeOrderedSplit(3), scoring="roc_auc")["test_score"]
        for (train, test), auc in zip(TimeOrderedSplit(3).split(edges), found, strict=True):
            scores = model.fit(edges[train]).decision_function(edges[test])
            assert auc == pytest.approx(roc_auc_score(edges.label[test], scores))

    def test_too_few(self):
        edges = TemporalEdges(["a"] * 4, ["b"] * 4, [0, 0, 0, 1], label=[0, 1, 0, 1])
        with pytest.raises(EdgesError, match="Fold 1 of 2 has no labels to learn from"):
            list(TimeOrderedSplit(2).split(edges))
        with pytest.raises(EdgesError, match="4 labelled edges are too few for 4 folds"):
            list(TimeOrderedSplit(4).split(edges))
