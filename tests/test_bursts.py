import numpy as np
import polars as pl
import pytest

import oracle
from tdlg import BurstDetector, EdgeOutlierDetector, StreamScorer, TemporalEdges, load_model, scan_edges
from tdlg.exceptions import EdgesError, ParameterError
from tdlg.explain.reasons import burst_counts
from tdlg.propagate.bursts import Arrivals, burst_surprises


def network(n_edges=400, seed=0, burst=60):
    """Columns of edges at whole times, many at the same time and not sorted; node 3 has a burst at 150."""
    rng = np.random.default_rng(seed)
    src, dst = rng.integers(0, 12, (2, n_edges))
    time = rng.integers(0, 200, n_edges)
    src[:burst], time[:burst] = 3, 150 + rng.integers(0, 2, burst)
    return src, dst, time


def detector(**options):
    return BurstDetector(**{"fast": 4.0, "slow": 60.0, **options})


@pytest.mark.parametrize("kind", [np.int64, np.float64])
def test_equals_the_loop(kind):
    src, dst, time = network()
    wanted = oracle.bursts(src.tolist(), dst.tolist(), time.tolist(), 4.0, 60.0)
    arrivals = Arrivals.of(TemporalEdges(src, dst, time.astype(kind)))
    found = burst_surprises(arrivals, arrivals.keys, 4.0, 60.0)
    np.testing.assert_allclose(found, wanted, rtol=1e-12, atol=1e-12)
    assert max(wanted) > 10
    np.testing.assert_array_equal(detector().fit(TemporalEdges(src, dst, time.astype(kind))).scores_, -found)


def test_threads_do_not_matter():
    edges = TemporalEdges(*network())
    scores = [detector(n_threads=n).fit(edges).scores_ for n in (1, 3)]
    np.testing.assert_array_equal(*scores)


def test_the_future_moves_no_bit():
    """Whatever happens from time 150 on, the scores before it stay as they are."""
    src, dst, time = network()
    before = detector().fit(TemporalEdges(src, dst, time)).scores_
    rng = np.random.default_rng(1)
    late = time >= 150
    src[late], dst[late] = rng.integers(0, 99, (2, late.sum()))
    time[late] = rng.integers(150, 10_000, late.sum())
    after = detector().fit(TemporalEdges(src, dst, time)).scores_
    np.testing.assert_array_equal(before[~late], after[~late])
    assert (before[late] != after[late]).any()


def test_rows_at_the_same_time_come_in_their_order():
    src, dst, time = np.zeros(10, int), np.arange(10) + 1, np.array([0, *[50] * 9])
    scores = detector().fit(TemporalEdges(src, dst, time)).scores_
    assert (np.diff(scores[1:]) < 0).all()
    cut = detector().fit(TemporalEdges(src[:4], dst[:4], time[:4])).scores_
    np.testing.assert_array_equal(cut, scores[:4])


@pytest.mark.parametrize("cut", [20, 151, 199])
def test_new_edges_continue_the_history(cut):
    src, dst, time = network()
    order = np.argsort(time, kind="stable")
    src, dst, time = src[order] + 5, dst[order] + 5, time[order]
    src[-5:] = [77, 77, 78, 5, 77]  # new nodes
    whole = detector().fit(TemporalEdges(src, dst, time)).scores_
    n = np.searchsorted(time, cut)
    fitted = detector().fit(TemporalEdges(src[:n], dst[:n], time[:n]))
    found = fitted.score_samples(TemporalEdges(src[n:], dst[n:], time[n:]))
    np.testing.assert_array_equal(found, whole[n:])
    late = fitted.score_samples(TemporalEdges(src, dst, time))
    np.testing.assert_array_equal(late, whole)


def test_new_edges_in_the_past_see_the_past():
    src, dst, time = network()
    time = time + np.arange(400) / 1000  # no two at the same time
    held = np.arange(400) % 3 == 0
    edges = TemporalEdges(src, dst, time)
    fitted = detector().fit(TemporalEdges(src[~held], dst[~held], time[~held]))
    found = fitted.score_samples(edges[held])
    np.testing.assert_array_equal(found, detector().fit(edges).scores_[held])


def test_fitted_edges_have_their_scores_copies_too():
    src, dst, time = (np.r_[column, column[:60]] for column in network())
    edges = TemporalEdges(src, dst, time)
    fitted = detector().fit(edges)
    np.testing.assert_array_equal(fitted.score_samples(edges), fitted.scores_)
    np.testing.assert_array_equal(fitted.score_samples(edges[[7, 3, 7, 459]]), fitted.scores_[[7, 3, 7, 459]])
    np.testing.assert_array_equal(fitted.score_samples(TemporalEdges(src, dst, time)), fitted.scores_)
    one_more = TemporalEdges(np.r_[src, src[:1]], np.r_[dst, dst[:1]], np.r_[time, time[:1]])
    assert fitted.score_samples(one_more)[-1] < fitted.scores_[0]


def test_finds_the_burst_and_says_why():
    src, dst, time = network()
    fitted = detector().fit(TemporalEdges(src, dst, time))
    flagged = np.flatnonzero(fitted.predict(TemporalEdges(src, dst, time)) < 0)
    assert len(flagged) > 30
    assert (src[flagged] == 3).all()
    assert fitted.offset_ == -np.log10(3 * 400)
    worst = int(fitted.scores_.argmin())
    table = fitted.explain(TemporalEdges(src, dst, time), rows=worst)
    assert table.columns[:6] == ["edge", "src", "dst", "time", "score", "rank"]
    assert table["what"][0] == "src"
    assert table["score"][0] == table["effect"][0] == -fitted.scores_[worst] > 0  # the outlier score of the command
    earlier = np.flatnonzero((src == 3) & (time <= 151) & (time >= 147))
    assert table["reason"][0].startswith(f"{len(earlier)} interactions from node 3 within 4 time units, where 0.")
    assert set(table["neighbours"][0]) <= set(earlier)
    arrivals = Arrivals.of(fitted.edges_)
    usual = burst_counts(arrivals, arrivals.keys, np.array([worst]), 4.0, 60.0)[1][0, 0]
    assert f"where {usual:.2g} are usual" in table["reason"][0]


def test_durations_for_datetimes():
    src, dst, time = network()
    edges = TemporalEdges(src, dst, np.datetime64("2020-01-01T00", "s") + time * np.timedelta64(3600, "s"))
    found = BurstDetector(fast="4h", slow="60h").fit(edges)
    np.testing.assert_allclose(found.scores_, detector().fit(TemporalEdges(src, dst, time)).scores_, rtol=1e-9)
    assert "within 4 hours" in found.explain(edges, 1, rows=int(found.scores_.argmin()))["reason"].item()


def test_default_widths_come_from_the_times():
    edges = TemporalEdges(*network())
    fitted = BurstDetector().fit(edges)
    spread = edges.ticks.std()
    assert fitted.fast_.bandwidth == pytest.approx(0.02 * np.sqrt(12) * spread)  # in which 2 % of 400 edges come
    assert fitted.slow_.bandwidth == pytest.approx(spread)


def test_saved(tmp_path):
    edges = TemporalEdges(*network())
    fitted = BurstDetector().fit(edges[:300])
    fitted.save(tmp_path / "burst.tdlg")
    loaded = load_model(tmp_path / "burst.tdlg")
    np.testing.assert_array_equal(loaded.score_samples(edges), fitted.score_samples(edges))


def test_edge_cases():
    src, dst, time = network()
    assert BurstDetector().fit(TemporalEdges(src, dst, np.zeros(400))).scores_.max() == 0.0
    assert BurstDetector().fit(TemporalEdges([1], [2], [3])).scores_.tolist() == [0.0]
    assert detector().fit(TemporalEdges(src, dst, time)).predict(TemporalEdges(src, dst, time)[:0]).shape == (0,)
    with pytest.raises(EdgesError, match="too far apart"):
        detector().fit(TemporalEdges([1, 1], [2, 2], [-1.7e308, 1.7e308]))


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"fast": -1.0}, "The 'fast' parameter of BurstDetector is -1.0"),
        ({"fast": "1h"}, "The 'fast' parameter of BurstDetector is '1h'.*plain numbers"),
        ({"slow": "soon"}, "The 'slow' parameter.*'soon'"),
        ({"fast": 60.0}, "'fast' parameter of BurstDetector must be shorter than 'slow'"),
        ({"contamination": 0.7}, "'contamination'"),
    ],
)
def test_wrong_parameters(options, told):
    with pytest.raises(ParameterError, match=told):
        detector(**options).fit(TemporalEdges(*network()))


@pytest.mark.filterwarnings("ignore:.*are new to the model:tdlg.exceptions.TdlgWarning")
def test_the_detector_of_outliers_is_a_burst_detector_by_name(tmp_path):
    edges = TemporalEdges(*network())
    alone = detector(contamination=0.05).fit(edges[:300])
    named = EdgeOutlierDetector("burst", fast=4.0, slow=60.0, contamination=0.05).fit(edges[:300])
    named.save(tmp_path / "named.tdlg")
    for model in (named, load_model(tmp_path / "named.tdlg")):
        assert type(model.detector_) is BurstDetector
        assert (model.offset_, model.fast_, model.slow_) == (alone.offset_, alone.fast_, alone.slow_)
        np.testing.assert_array_equal(model.score_samples(edges), alone.score_samples(edges))
        np.testing.assert_array_equal(model.predict(edges), alone.predict(edges))
        for asked in (edges, alone.scored(edges), np.column_stack([edges.src, edges.dst, edges.time])):
            assert model.explain(asked, rows=[3, 350]).equals(alone.explain(asked, rows=[3, 350]))


def test_a_stream_takes_either():
    edges = TemporalEdges(*network())
    edges = edges[np.argsort(edges.time, kind="stable")]
    scores = [
        StreamScorer(model.fit(edges[:300])).score_update(edges[300:])
        for model in (detector(), EdgeOutlierDetector("burst", fast=4.0, slow=60.0))
    ]
    np.testing.assert_array_equal(scores[0].values, scores[1].values)


def test_what_is_usual_is_not_learnt_from_a_burst():
    """A second burst like the first is as surprising, where learning from the first would halve it."""
    usual = np.arange(2000.0)
    time = np.sort(np.r_[usual, np.repeat([1000.0, 1400.0], 60)])
    scores = (
        BurstDetector(fast=5.0, slow=400.0).fit(TemporalEdges(np.zeros(2120, int), np.ones(2120, int), time)).scores_
    )
    first, second = (-scores[time == at].min() for at in (1000.0, 1400.0))
    assert second > 0.8 * first > 30


class TestGroups:
    """An attack from many sources adds up where they have something in common."""

    def edges(self):
        rng = np.random.default_rng(3)
        n, time = 2000, np.sort(np.r_[rng.uniform(0, 1000, 1940), rng.uniform(700, 712, 60)])
        src, dst = rng.integers(0, 400, (2, n))
        country = np.array([f"c{k % 20}" for k in src])
        attack = (time > 700) & (time < 712)
        country[attack], src[attack] = "c7", np.arange(1000, 1000 + attack.sum()) % 1400
        features = {"country": country, "amount": rng.lognormal(0, 1, n)}
        return TemporalEdges(src, dst, time, features=features), attack

    def test_they_add_up(self):
        edges, attack = self.edges()
        alone = detector().fit(edges)
        grouped = detector(groups=["country"]).fit(edges)
        assert (alone.predict(edges) == 1).all()
        assert grouped.offset_ == -np.log10(4 * 2000)
        flagged = np.flatnonzero(grouped.predict(edges) == -1)
        assert attack[flagged].all()
        assert len(flagged) > attack.sum() / 2
        table = grouped.explain(edges, 1, rows=flagged[-1:])
        assert table["what"].item() == "category[country]"
        assert "interactions with country 'c7' within 4 time units, where " in table["reason"].item()
        assert table["effect"].item() == -grouped.scores_[flagged[-1]]
        np.testing.assert_array_equal(np.minimum(grouped.scores_, alone.scores_), grouped.scores_)

    def test_a_stream_goes_on_as_the_table(self):
        edges, _ = self.edges()
        model, found = detector(groups=["country"]).fit(edges[:1200]), []
        scorer = StreamScorer(model)
        for k in range(1200, 2000, 50):
            scorer = StreamScorer.restore(model, scorer.state())
            found.append(scorer.score_update(edges[k : k + 50]).values)
        np.testing.assert_allclose(np.concatenate(found), model.score_samples(edges)[1200:], rtol=1e-10, atol=1e-10)
        assert np.concatenate(found).min() < model.offset_

    def test_a_file_has_the_same_scores(self, tmp_path):
        edges, _ = self.edges()
        edges.to_frame().write_parquet(tmp_path / "edges.parquet")
        scanned = scan_edges(tmp_path / "edges.parquet", features=["country"], categories=["country"])
        model = detector(groups=["country"])
        filled = model.fill(scanned, tmp_path / "out.parquet", memory="2GB")
        fitted = model.fit(edges)
        found = pl.read_parquet(tmp_path / "out.parquet")
        np.testing.assert_allclose(found["outlier_score"], -fitted.scores_, rtol=1e-5, atol=1e-9)
        assert found["outlier"].sum() == (fitted.predict(edges) == -1).sum() > 0
        assert filled.threshold == -fitted.offset_
        with pytest.raises(
            ParameterError, match=r"'groups' parameter of BurstDetector.*the features: country. Got 'amount'"
        ):
            detector(groups=["amount"]).fill(scanned, tmp_path / "no.parquet")

    def test_by_name_and_saved(self, tmp_path):
        edges, _ = self.edges()
        fitted = EdgeOutlierDetector("burst", fast=4.0, slow=60.0, groups=["country"]).fit(edges)
        fitted.save(tmp_path / "model.tdlg")
        np.testing.assert_array_equal(load_model(tmp_path / "model.tdlg").score_samples(edges), fitted.scores_)
        with pytest.raises(ParameterError, match="'groups' parameter of BurstDetector must name categories"):
            detector(groups=["amount"]).fit(edges)
