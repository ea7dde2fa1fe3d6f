import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.metrics import roc_auc_score

from tdlg import (
    EdgeOutlierDetector,
    Gaussian,
    LinkPredictor,
    MisplacedDetector,
    NoDecay,
    TemporalEdges,
    load_model,
    read_edges,
)
from tdlg.exceptions import EdgesError, ParameterError
from tdlg.models import links
from tdlg.sampling import shuffled_edges


def network(n_edges=600, n_odd=30, n_nodes=40, seed=0):
    """Columns of edges between nodes that are each busy for a while; the last `n_odd` are at any time."""
    rng = np.random.default_rng(seed)
    src, dst = rng.integers(0, n_nodes, (2, n_edges))
    dst = (src + 1 + dst % 4) % n_nodes
    time = 100 * src / n_nodes + rng.normal(0, 2, n_edges)
    time[-n_odd:] = rng.uniform(0, 100, n_odd)
    return src, dst, time


def is_odd(n_edges=600, n_odd=30):
    return np.arange(n_edges) >= n_edges - n_odd


def as_strings(ids):
    return [f"node {i}" for i in ids]


class TestWhatIsFound:
    def test_planted_outliers(self):
        detector = EdgeOutlierDetector("linegraph", random_state=0).fit(TemporalEdges(*network()))
        assert roc_auc_score(is_odd(), -detector.scores_) > 0.9
        assert detector.auc_ > 0.85

    def test_nothing_in_noise(self):
        rng = np.random.default_rng(0)
        src, dst = rng.integers(0, 30, (2, 1000))
        detector = EdgeOutlierDetector("linegraph", random_state=0).fit(
            TemporalEdges(src, dst, rng.uniform(0, 1, 1000))
        )
        assert 0.44 < detector.auc_ < 0.56

    @pytest.mark.parametrize("bipartite", [False, True])
    def test_strings_datetimes_and_two_kinds_of_nodes(self, bipartite):
        src, dst, time = network()
        days = np.datetime64("2020-01-01T00", "s") + (time * 86400).astype("timedelta64[s]")
        edges = TemporalEdges(as_strings(src), as_strings(dst), days, bipartite=bipartite)
        detector = EdgeOutlierDetector("linegraph", random_state=0).fit(edges)
        assert roc_auc_score(is_odd(), -detector.scores_) > 0.85
        if not bipartite:
            plain = EdgeOutlierDetector("linegraph", random_state=0).fit(TemporalEdges(src, dst, time))
            assert np.corrcoef(plain.scores_, detector.scores_)[0, 1] > 0.95

    def test_new_edges(self):
        columns = network(n_edges=1200, n_odd=60)
        edges = TemporalEdges(*columns)
        detector = EdgeOutlierDetector("linegraph", random_state=0).fit(edges[::2])
        scores = detector.score_samples(edges[1::2])
        np.testing.assert_array_equal(scores, detector.model_.decision_function(edges[1::2]))
        assert roc_auc_score(is_odd(1200, 60)[1::2], -scores) > 0.9

    @pytest.mark.needs("data", "time")
    def test_real_ratings_are_told_from_shuffled_ones(self, data_dir):
        edges = read_edges(data_dir / "soc-sign-bitcoinalpha.csv", src=0, dst=1, time=3, header=False)
        held_out = np.random.default_rng(0).random(len(edges)) < 0.3
        detector = EdgeOutlierDetector("linegraph", cv=2, random_state=0).fit(edges[~held_out])
        real, shuffled = (detector.score_samples(part[held_out]) for part in (edges, shuffled_edges(edges, 1)))
        auc = roc_auc_score(np.repeat([1, 0], held_out.sum()), np.concatenate([real, shuffled]))
        assert auc >= 0.9
        assert detector.auc_ >= 0.9


class TestCrossFitting:
    def test_no_edge_has_a_say_in_its_own_score(self):
        """Whatever the last edge is, those of its fold, itself among them, are scored by the same model."""
        src, dst, time = network()
        detector = EdgeOutlierDetector("linegraph", decay=Gaussian(5.0), random_state=0)
        before = detector.fit(TemporalEdges(src, dst, time)).scores_
        folds = folds_of(detector, TemporalEdges(src, dst, time))
        dst[-1], time[-1] = (dst[-1] + 3) % 40, time[-1] / 2
        moved = TemporalEdges(src, dst, time)
        np.testing.assert_array_equal(folds_of(detector, moved), folds)
        after = detector.fit(moved).scores_
        same_fold = (folds == folds[-1]) & (np.arange(600) < 599)
        np.testing.assert_allclose(before[same_fold], after[same_fold], atol=1e-7)
        assert np.abs(before - after)[folds != folds[-1]].max() > 1e-4

    def test_equals_a_model_of_the_other_folds(self, monkeypatch):
        edges = TemporalEdges(*network())
        trained = []
        learn = LinkPredictor._learn
        monkeypatch.setattr(LinkPredictor, "_learn", lambda self, part: trained.append(part) or learn(self, part))
        detector = EdgeOutlierDetector("linegraph", random_state=0).fit(edges)
        folds = folds_of(detector, edges)
        assert [len(part) for part in trained] == [480] * 5 + [600]
        for fold, part in enumerate(trained[:5]):
            assert not set(part.rows) & set(np.flatnonzero(folds == fold))

    def test_copies_do_not_vouch_for_each_other(self):
        src, dst, time = network()
        columns = [np.append(column, np.repeat(column[-1:], 20)) for column in (src, dst, time)]
        alone = EdgeOutlierDetector("linegraph", random_state=0).fit(TemporalEdges(src, dst, time))
        copied = EdgeOutlierDetector("linegraph", random_state=0).fit(TemporalEdges(*columns))
        assert np.ptp(copied.scores_[-21:]) < 1e-7
        assert alone.scores_[-1] < 0
        assert copied.scores_[-1] < 0

    def test_fitted_edges_have_their_scores_however_they_are_passed(self):
        edges = TemporalEdges(*network())
        detector = EdgeOutlierDetector("linegraph", random_state=0).fit(edges[:500])
        np.testing.assert_array_equal(detector.score_samples(edges[:500]), detector.scores_)
        np.testing.assert_array_equal(detector.score_samples(edges[[7, 3, 7]]), detector.scores_[[7, 3, 7]])
        np.testing.assert_array_equal(detector.score_samples(TemporalEdges(*network())[:500]), detector.scores_)
        np.testing.assert_array_equal(detector.score_samples(np.column_stack(network())[:500]), detector.scores_)
        mixed = detector.score_samples(edges)
        np.testing.assert_array_equal(mixed[:500], detector.scores_)
        np.testing.assert_allclose(mixed[500:], detector.model_.decision_function(edges[500:]), atol=1e-8)
        assert np.abs(detector.model_.decision_function(edges[:500]) - detector.scores_).max() > 0.1

    def test_a_pickled_detector_knows_its_edges(self):
        edges = TemporalEdges(*network())
        detector = pickle.loads(pickle.dumps(EdgeOutlierDetector("linegraph", random_state=0).fit(edges)))
        np.testing.assert_array_equal(detector.score_samples(edges[5:50]), detector.scores_[5:50])


def folds_of(detector, edges):
    from tdlg.checks import as_generator
    from tdlg.sampling.index import edge_folds

    return edge_folds(edges, detector.cv, as_generator(detector.random_state))


class TestThreshold:
    @pytest.mark.parametrize("share", [0.01, 0.1, 0.5])
    def test_share(self, share):
        edges = TemporalEdges(*network())
        odd = EdgeOutlierDetector("linegraph", contamination=share, random_state=0).fit_predict(edges) == -1
        assert odd.mean() == pytest.approx(share, abs=0.005)

    def test_auto_is_more_likely_shuffled_than_real(self):
        edges = TemporalEdges(*network())
        detector = EdgeOutlierDetector("linegraph", random_state=0).fit(edges)
        assert detector.offset_ == 0
        np.testing.assert_array_equal(detector.predict(edges), np.where(detector.scores_ < 0, -1, 1))

    def test_decision_is_score_less_offset(self):
        edges = TemporalEdges(*network())
        detector = EdgeOutlierDetector("linegraph", contamination=0.2, random_state=0).fit(edges)
        np.testing.assert_allclose(detector.decision_function(edges), detector.scores_ - detector.offset_)
        assert {*detector.predict(edges)} == {-1, 1}

    def test_fit_predict_of_a_table(self):
        """What scikit-learn's own checks do with two columns."""
        table = np.column_stack(network())
        detector = EdgeOutlierDetector("linegraph", contamination=0.1, random_state=0)
        np.testing.assert_array_equal(detector.fit_predict(table), detector.fit(table).predict(table))
        assert (detector.predict(table) == -1).sum() == 60


class TestEdgeCases:
    def test_same_seed_same_scores(self):
        edges = TemporalEdges(*network())
        first, again, other = (
            EdgeOutlierDetector("linegraph", random_state=seed).fit(edges).scores_ for seed in (1, 1, 2)
        )
        np.testing.assert_array_equal(first, again)
        assert not np.array_equal(first, other)

    def test_one_edge(self):
        with pytest.raises(EdgesError, match=r"one edge.*Pass at least two"):
            EdgeOutlierDetector("linegraph").fit(TemporalEdges(*network())[:1])
        with pytest.raises(EdgesError, match="got no edges"):
            EdgeOutlierDetector("linegraph").fit(TemporalEdges(*network())[:0])

    def test_one_edge_many_times(self):
        with pytest.raises(EdgesError, match="All 4 edges have the same"):
            EdgeOutlierDetector("linegraph", decay=NoDecay()).fit(TemporalEdges([1] * 4, [2] * 4, [0] * 4))

    @pytest.mark.parametrize("n_edges", [2, 3, 4])
    def test_fewer_edges_than_folds(self, n_edges):
        detector = EdgeOutlierDetector("linegraph", decay=Gaussian(1.0), random_state=0).fit(
            TemporalEdges(*network())[:n_edges]
        )
        assert np.isfinite(detector.scores_).all()

    def test_all_at_the_same_time(self):
        edges = TemporalEdges(*network()[:2], np.zeros(600))
        with pytest.raises(ParameterError, match=r"all 600 edges have the same time.*NoDecay.*bandwidth="):
            EdgeOutlierDetector("linegraph").fit(edges)
        assert np.isfinite(EdgeOutlierDetector("linegraph", decay=NoDecay(), random_state=0).fit(edges).scores_).all()

    def test_unseen_nodes(self):
        detector = EdgeOutlierDetector("linegraph", random_state=0).fit(TemporalEdges(*network()))
        scores = detector.score_samples(TemporalEdges([-1, -2], [-3, -4], [50, 50]))
        np.testing.assert_allclose(scores, detector.model_.model_.intercept_[0])

    def test_no_edges_to_score(self):
        edges = TemporalEdges(*network())
        assert EdgeOutlierDetector("linegraph", random_state=0).fit(edges).predict(edges[:0]).shape == (0,)

    def test_labels_are_not_looked_at(self):
        edges = TemporalEdges(*network())
        plain = EdgeOutlierDetector("linegraph", random_state=0).fit(edges).scores_
        labelled = EdgeOutlierDetector("linegraph", random_state=0).fit(edges.with_label(is_odd()), is_odd()).scores_
        np.testing.assert_array_equal(plain, labelled)

    @pytest.mark.parametrize(
        ("name", "value"),
        [
            ("method", "propagation2"),
            ("decay", 3.0),
            ("C", 0),
            ("n_threads", 0),
            ("cv", 1),
            ("contamination", 0.0),
            ("contamination", 0.6),
            ("contamination", "all"),
            ("random_state", "x"),
        ],
    )
    def test_wrong_parameters(self, name, value):
        detector = EdgeOutlierDetector("linegraph").set_params(**{name: value})
        with pytest.raises(ParameterError, match=f"The '{name}' parameter.*Got {value!r} instead"):
            clone(detector).fit(TemporalEdges(*network()))

    def test_the_methods_are_named(self):
        with pytest.raises(
            ParameterError, match=r"one of \['any', 'burst', 'rare', 'value', 'shuffled', 'linegraph'\]"
        ):
            EdgeOutlierDetector("trees").fit(TemporalEdges(*network()))


class TestPropagation:
    def test_finds_partners_that_do_not_belong_together(self):
        rng = np.random.default_rng(0)
        group = rng.integers(0, 2, 1500)
        src, dst = rng.integers(0, 15, (2, 1500)) + 15 * group
        odd = rng.random(1500) < 0.03
        dst = np.where(odd, (dst + 15) % 30, dst)
        edges = TemporalEdges(src, dst + 100, rng.uniform(0, 100, 1500))
        scores = EdgeOutlierDetector("shuffled", random_state=0).fit(edges).score_samples(edges)
        assert roc_auc_score(~odd, scores) > 0.9
        assert roc_auc_score(~odd, EdgeOutlierDetector("linegraph", random_state=0).fit(edges).scores_) < 0.7

    def test_trees_of_many_edges_are_trained_on_a_sample(self, monkeypatch):
        edges, trained = TemporalEdges(*network()), []
        fit = links.HistGradientBoostingClassifier.fit
        monkeypatch.setattr(links, "MOST_LINK_ROWS", 150)  # of 960 real and synthetic edges, and at last of 1,200
        monkeypatch.setattr(
            links.HistGradientBoostingClassifier,
            "fit",
            lambda self, X, y: trained.append(len(X)) or fit(self, X, y),
        )
        assert EdgeOutlierDetector("shuffled", random_state=0).fit(edges).auc_ > 0.8
        assert trained == [150] * 6

    def test_nothing_to_find(self):
        rng = np.random.default_rng(0)
        edges = TemporalEdges(*rng.integers(0, 40, (2, 1500)), rng.uniform(0, 1, 1500))
        assert abs(EdgeOutlierDetector("shuffled", random_state=0).fit(edges).auc_ - 0.5) < 0.06

    def test_saved(self, tmp_path):
        edges = TemporalEdges(*network())[:300]
        detector = EdgeOutlierDetector("shuffled", random_state=0).fit(edges)
        detector.save(tmp_path / "odd.tdlg")
        new = TemporalEdges([1, 2], [3, 4], [5.0, 6.0])
        loaded = load_model(tmp_path / "odd.tdlg")
        np.testing.assert_array_equal(loaded.score_samples(new), detector.score_samples(new))


@pytest.mark.parametrize(("method", "alone"), [("shuffled", "propagation"), ("linegraph", "linegraph")])
def test_the_detector_of_outliers_is_a_misplaced_detector_by_name(method, alone, tmp_path):
    edges = TemporalEdges(*network(300))
    options = {"contamination": 0.1, "cv": 2, "random_state": 0}
    misplaced = MisplacedDetector(alone, **options).fit(edges[:250])
    named = EdgeOutlierDetector(method, **options).fit(edges[:250])
    named.save(tmp_path / "named.tdlg")
    misplaced.save(tmp_path / "misplaced.tdlg")
    for model in (named, load_model(tmp_path / "named.tdlg"), load_model(tmp_path / "misplaced.tdlg")):
        assert (model.auc_, model.offset_) == (misplaced.auc_, misplaced.offset_)
        assert hasattr(model, "decay_") == (method == "linegraph")
        np.testing.assert_array_equal(model.score_samples(edges), misplaced.score_samples(edges))
        np.testing.assert_array_equal(model.predict(edges), misplaced.predict(edges))
