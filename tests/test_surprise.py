from functools import cache

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

import oracle
from tdlg import EdgeOutlierDetector, RarityDetector, StreamScorer, SurpriseDetector, TemporalEdges, load_model
from tdlg.exceptions import ParameterError
from tdlg.models.surprise import NOTIONS
from tdlg.propagate.bursts import SurprisePlan

FAST, SLOW = 4.0, 60.0


def network(n_edges=300, seed=0, start=0.0):
    """Edges of 12 nodes in the order of time, with a number and a category."""
    rng = np.random.default_rng(seed)
    src, dst = rng.integers(0, 12, (2, n_edges))
    return TemporalEdges(
        [f"n{k}" for k in src],
        [f"m{k}" for k in dst],
        np.sort(start + rng.uniform(0, 200, n_edges)),
        features={
            "amount": rng.lognormal(3, 1, n_edges),
            "kind": rng.choice(["a", "b", "c", "d"], n_edges, p=[0.6, 0.3, 0.08, 0.02]),
        },
        bipartite=True,
    )


def detector(**options):
    return SurpriseDetector(**{"fast": FAST, "slow": SLOW, **options})


def joined(*parts):
    features = {
        "amount": np.concatenate([part.features[:, 0] for part in parts]),
        "kind": [part.feature_categories["kind"][int(code)] for part in parts for code in part.features[:, 1]],
    }
    columns = ([value for part in parts for value in getattr(part, name).tolist()] for name in ("src", "dst", "time"))
    return TemporalEdges(*columns, features=features, bipartite=True)


def test_equals_the_loops():
    edges = network()
    plan = SurprisePlan.of(edges)
    found = plan.judged(edges, None, FAST, SLOW)
    assert plan.kinds == ["src", "dst", "pair", "category[kind]", "src+category[kind]"]
    columns = (edges.src.tolist(), edges.dst.tolist(), edges.time.tolist(), edges.features[:, 1].tolist())
    number = plan.numbers_of(edges, None)[:, 0].tolist()
    rare, rush, odd = map(np.array, oracle.surprises(*columns, number, FAST, SLOW))
    np.testing.assert_allclose(found.rush, rush, rtol=1e-9, atol=1e-9)
    for digits, surprise in ((found.rare, rare), (found.odd, odd)):
        expected = [oracle.under_its_past(column, columns[2], FAST, SLOW) for column in surprise.T]
        np.testing.assert_allclose(digits, np.transpose(expected), rtol=1e-9, atol=1e-9)
    bursts = oracle.bursts(*columns[:3], FAST, SLOW)
    np.testing.assert_allclose(found.bursts, bursts, rtol=1e-9, atol=1e-9)


def test_a_flood_of_outliers_is_hardly_learnt():
    from tdlg._kernels.bursts import N_STEPS, _under_its_past

    rng = np.random.default_rng(0)
    surprise, time = rng.exponential(0.2, 3000), np.sort(rng.uniform(0, 3000, 3000))
    surprise[2000:2400], time[2000:2400] = 6.0, time[2000]
    past, pace = np.zeros(1 + N_STEPS), np.zeros(4)
    found = [
        _under_its_past(x, t, 10.0, 40.0, past, pace) for x, t in zip(surprise, time, strict=True)
    ]  # it grows a lot
    np.testing.assert_allclose(found, oracle.under_its_past(surprise, time, 10.0, 40.0), rtol=1e-9, atol=1e-9)
    assert min(found[2000:2400]) > 3
    assert max(found[2400:]) < 3


def test_the_future_moves_no_bit():
    edges, n = network(), 200
    plan = SurprisePlan.of(edges)
    whole, early = (plan.judged(some, None, FAST, SLOW) for some in (edges, edges[:n]))
    for name in ("bursts", "rare", "rush", "odd", "calm"):
        np.testing.assert_array_equal(getattr(whole, name)[:n], getattr(early, name))


@pytest.mark.parametrize("groups", [(), ("kind",)])
def test_a_stream_goes_on_as_the_table(groups):
    edges, n = network(), 200
    model = detector(groups=groups).fit(edges[:n])
    scorer, found = StreamScorer(model), []
    for k in range(n, len(edges), 10):
        scorer = StreamScorer.restore(model, scorer.state())
        np.testing.assert_array_equal(scorer.score(edges[k : k + 10]), scorer.score(edges[k : k + 10]))
        found.append(scorer.score_update(edges[k : k + 10]).values)
    np.testing.assert_allclose(np.concatenate(found), model.score_samples(edges)[n:], rtol=1e-10, atol=1e-10)


def test_each_notion_finds_its_own():
    rng = np.random.default_rng(1)
    n = 3000
    src, dst, time = rng.integers(0, 12, n), rng.integers(0, 12, n), np.arange(n) + 0.5
    amount = rng.lognormal(3, 0.3, n)
    many = np.full(80, 1500.0)
    src, dst, time = np.r_[src, np.full(80, 3)], np.r_[dst, np.full(80, 4)], np.r_[time, many]
    amount = np.r_[amount, rng.lognormal(3, 0.3, 80)]
    src[2500], amount[2700] = 99, 5000.0
    edges = TemporalEdges(src, dst, time, features={"amount": amount})
    fitted = SurpriseDetector().fit(edges)
    flagged = fitted.digits_ >= 3
    assert flagged[-1].tolist() == [True, False, False]
    assert flagged[2500].tolist() == [False, True, False]
    assert flagged[2700].tolist() == [False, False, True]
    assert fitted.predict(edges)[[100, 2500, 2700, -1]].tolist() == [1, -1, -1, -1]
    overview = fitted.overview()
    assert overview["notion"].to_list() == list(NOTIONS)
    assert overview["flagged"].to_list() == flagged.sum(axis=0).tolist()
    tied = RarityDetector(contamination=0.5).fit(edges)
    assert tied.overview()["flagged"][0] == (tied.predict(edges) == -1).sum() < len(edges) / 2
    assert set(overview["examples"].list.len()) <= {1, 2}
    reasons = fitted.explain(edges, top=1, rows=[2500, 2700, n + 79])["reason"].to_list()
    assert reasons[0] == "source node 99 was never seen among 2,580 earlier interactions"
    assert reasons[1].startswith("amount of 5,000, where ")
    assert "interactions" in reasons[2]


def test_far_more_newcomers_than_usual_are_told():
    rng = np.random.default_rng(0)
    n = 4000
    src, time = rng.integers(0, 30, n), np.arange(n, dtype=float)
    scan = slice(3000, 3300)
    src[scan] = 1000 + np.arange(300)
    fitted = RarityDetector().fit(TemporalEdges(src, rng.integers(0, 30, n), time))
    assert roc_auc_score(np.isin(np.arange(n), np.arange(3000, 3300)), -fitted.scores_) > 0.97
    reasons = fitted.explain(fitted.edges_, rows=3200)["reason"].to_list()
    assert any(" new sources among " in reason for reason in reasons)


def test_one_strong_notion_is_enough_and_weak_ones_are_not_added():
    fitted = detector().fit(network())
    assert (-fitted.scores_ == fitted.digits_.max(axis=1)).all()
    assert not ((fitted.digits_[:, 2] > 0) & (fitted.digits_[:, 2] < 1.5)).any()
    assert detector(notions=["value"]).fit(network()).digits_.min() < 0.5


def test_not_all_that_is_new_is_an_outlier_where_all_is_new():
    n = 5000
    rng = np.random.default_rng(0)
    src, dst = (rng.random((2, n)) * np.sqrt(np.arange(n)) * 4).astype(int)  # new nodes all the time, and new pairs
    fitted = detector(slow=2000.0).fit(TemporalEdges(src, dst, np.arange(n)))
    assert (fitted.predict(fitted.edges_) == -1).mean() < 0.02


def test_labels_weigh_the_notions():
    rng = np.random.default_rng(2)
    edges = network(600)
    y = np.full(600, np.nan)
    known = rng.choice(600, 300, replace=False)
    digits = detector().fit(edges).digits_
    y[known] = digits[known, 2] > 1.0
    fitted = detector().fit(edges, y)
    assert fitted.weights_.argmax() == 2
    assert roc_auc_score(digits[:, 2] > 1.0, -fitted.scores_) > 0.95
    with pytest.raises(ParameterError, match="'y' must have two values"):
        detector().fit(edges, np.ones(600))


@pytest.mark.parametrize("method", ["any", "rare", "value", "burst"])
def test_saved_and_by_name(method, tmp_path):
    edges = network()
    fitted = EdgeOutlierDetector(method, fast=FAST, slow=SLOW).fit(edges[:200])
    fitted.save(tmp_path / "model.tdlg")
    loaded = load_model(tmp_path / "model.tdlg")
    np.testing.assert_array_equal(loaded.score_samples(edges), fitted.score_samples(edges))
    assert loaded.explain(edges, rows=[3, 250]).equals(fitted.explain(edges, rows=[3, 250]))
    assert set(fitted.explain(edges)["edge"]) <= set(range(300))


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"notions": ["bursts"]}, r"'notions' parameter of SurpriseDetector must have some of burst, rare, value. Got"),
        ({"groups": ["country"]}, r"'groups' parameter.*the features: kind. Got 'country'"),
        ({"fast": 60.0}, "'fast' parameter"),
        ({"contamination": 0.7}, "'contamination'"),
        ({"n_threads": 0}, "'n_threads'"),
    ],
)
def test_wrong_parameters(options, told):
    with pytest.raises(ParameterError, match=told):
        detector(**options).fit(network())


def test_small_and_equal_tables():
    for edges in (TemporalEdges([1], [2], [3]), TemporalEdges([1, 2, 1], [3, 3, 4], [0, 0, 0])):
        fitted = EdgeOutlierDetector().fit(edges)
        assert np.isfinite(fitted.scores_).all()
        assert (fitted.predict(edges) == 1).all()


def test_a_network_that_grows_is_not_flagged_for_its_newcomers():
    """Many more newcomers than before, in a year in which there is more of everything, are no crowd."""
    rng = np.random.default_rng(0)
    time = np.sort(np.r_[rng.uniform(0, 1000, 2000), rng.uniform(600, 700, 6000)])
    src, dst = (rng.random((2, 8000)) * np.sqrt(np.arange(8000)) * 12).astype(int)
    fitted = EdgeOutlierDetector().fit(TemporalEdges(src, dst, time))
    assert (fitted.digits_[:, 1] > 3).mean() < 0.03
    assert (fitted.predict(fitted.edges_) == -1).mean() < 0.04


def test_values_that_were_all_alike_give_few_digits():
    amount = np.r_[np.full(500, 7.0), 8.0, np.full(499, 7.0)]
    fitted = SurpriseDetector(["value"]).fit(
        TemporalEdges([1, 2] * 500, [3, 3, 4, 4] * 250, range(1000), features={"amount": amount})
    )
    assert 3 < fitted.digits_.max() == fitted.digits_[500, 0] < 20


def habits():
    rng = np.random.default_rng(0)
    src = rng.integers(0, 20, 600)
    return src, 20 + (src + rng.integers(0, 4, 600)) % 20, src * 5.0 + rng.normal(0, 2, 600)


@cache
def misplaced():
    src, dst, time = (np.r_[c, d] for c, d in zip(habits(), ([3, 17], [24, 35], [90.0, 5.0]), strict=True))
    return EdgeOutlierDetector(with_misplaced=True, random_state=0).fit(TemporalEdges(src, dst, time))


class TestMisplaced:
    """The paper's notion, which joins on request."""

    def test_its_digits_are_calibrated_like_the_others(self):
        fitted = misplaced()
        detector = fitted.detector_
        assert detector.names == (*NOTIONS, "misplaced")
        digits = detector.digits_[:, 3]
        assert set(np.argsort(-digits)[:2]) == {600, 601}
        assert digits[600:].min() > 2
        assert (digits[:600] > 1).mean() < 0.15
        assert (-detector.scores_ == detector.digits_.max(axis=1)).all()
        assert detector.overview()["notion"][3] == "misplaced"
        reason = fitted.explain(fitted.edges_, 9, rows=600).filter(what="misplaced src")["reason"].item()
        assert reason.startswith("source node 3 had ")
        assert "other interactions, the nearest " in reason

    def test_new_edges_and_files(self, tmp_path):
        fitted = misplaced()
        new = TemporalEdges([8, 99], [29, 98], [2.0, 92.0])
        found = fitted.detector_.notions_of(new)
        assert found.shape == (2, 4)
        assert found[:, 3].min() > 2
        fitted.save(tmp_path / "model.tdlg")
        loaded = load_model(tmp_path / "model.tdlg")
        np.testing.assert_array_equal(loaded.score_samples(new), fitted.score_samples(new))
        reasons = loaded.explain(new, 9, rows=1).filter(what="misplaced src")["reason"].to_list()
        assert reasons == ["source node 99 had no other interaction"]

    def test_it_cannot_be_streamed(self):
        with pytest.raises(ParameterError, match="cannot tell whether an interaction is misplaced"):
            StreamScorer(misplaced())

    def test_alone_it_has_reasons_too(self):
        for method in ("linegraph", "shuffled"):
            fitted = EdgeOutlierDetector(method, cv=2, random_state=0).fit(TemporalEdges(*habits()))
            reasons = fitted.explain(fitted.edges_, rows=[5])
            assert set(reasons["what"]) == {"src", "dst", "pair"}
            assert reasons["what"][-1] == "pair" or method == "shuffled"
            assert reasons["score"][0] == -fitted.scores_[5]
