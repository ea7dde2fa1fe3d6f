"""No column and no score uses the future, the own label, or a label that is not known yet: for every kind of column."""

import re
from dataclasses import replace

import numpy as np
import pytest
from sklearn.dummy import DummyClassifier

from tdlg import PropagationClassifier, PropagationFeatures, TemporalEdges
from tdlg.models.training import training_windows
from tdlg.propagate.features import gather_evidence

N = 400
DAY = np.timedelta64(1, "D")
START = np.datetime64("2024-01-01", "s")
NOW = START + 60 * DAY  # half of the edges are earlier
TOKENS = [f"code {k}" for k in range(30)]  # more than get an indicator each

OF_LABELS = {
    "rates": r"^[a-z-]+:rate@",
    "known labels": r"^[a-z-]+:known@",
    "rates of many categories": r"category\[code\]:rate@",
    "known labels of many categories": r"category\[code\]:known@",
    "partners": "partners",
    "agreement": "trust|agreement|common",
    "the last label": r"^[a-z-]+:(recency|since)$",
}
OF_EDGES = {
    "counts": r"^[a-z-]+:count@",
    "gaps": r"^[a-z-]+:before$",
    "counts of many categories": r"category\[code\]:(count@|before)",
    "amounts": r"(mean|deviation|score|ratio)\[amount\]@",
    "weights": r"(mean|deviation|score|ratio)\[weight\]@",
    "signed numbers": r"(mean|deviation|score)\[balance\]@",
    "how unusual numbers are": r":unusual\[(amount|weight|balance)\]$",
    "how unusual they were lately": r"lately\[(amount|weight|balance)\]@",
    "shares of categories": r"share\[(channel|code)\]@",
}
OF_ITSELF = {
    "own features": r"^(amount|balance|weight|channel=\w+|code=code \d+)$",
    "calendar": "^(hour of|day of)",
}
KINDS = OF_LABELS | OF_EDGES | OF_ITSELF
USES = [pytest.param("all", id="stream"), pytest.param("partners", id="forecast")]
DELAYS = [pytest.param(None, id="at once"), pytest.param("5d", id="late")]
NEVER = ["9999-12-31", np.inf, 1e19]


def columns_of(rng, n=N):
    """The columns of a table of payments; few nodes, so that all kinds of neighbours occur."""
    src, dst = rng.integers(0, 8, (2, n))
    return {
        "src": src,
        "dst": dst,
        "time": START + np.sort(rng.integers(0, 120 * 2, n)) * np.timedelta64(12, "h"),  # with ties
        "label": ((src + rng.integers(0, 8, n)) % 8 < 3).astype(float),
        "weight": rng.lognormal(size=n),
        "features": {
            "amount": rng.lognormal(size=n),
            "balance": rng.normal(size=n),
            "channel": rng.choice(["card", "cash", "web"], n),
            "code": rng.choice(TOKENS, n),
        },
    }


def payments(**changed):
    return TemporalEdges(**columns_of(np.random.default_rng(0)) | changed)


def with_other(which, since=START):
    """The payments with other values in some rows, such as new nodes and categories, and at other times after `since`."""
    mine, other = columns_of(np.random.default_rng(0)), columns_of(np.random.default_rng(1))
    other["features"]["amount"] *= 1e6
    other["features"]["channel"] = np.char.add("another ", other["features"]["channel"])
    other["features"]["code"] = np.char.add("another ", other["features"]["code"])
    other["dst"] = other["dst"] + 4
    mixed = {name: np.where(which, other[name], mine[name]) for name in ("src", "dst", "label", "weight")}
    features = {name: np.where(which, other["features"][name], values) for name, values in mine["features"].items()}
    time = np.where(which & (since > START), since + 3 * (mine["time"] - since), mine["time"])
    return TemporalEdges(time=time, features=features, **mixed)


def others_since(edges, moment):
    """The edges at a moment and later, but for one edge at that moment, which must not see the others."""
    since = edges.time >= moment
    assert (edges.time == moment).sum() > 1
    since[np.argmax(edges.time == moment)] = False
    return since


def known_until(edges, end=NOW):
    return edges.with_label(np.where(edges.time < end, edges.label, np.nan))


def fitted(edges, two_ends="all", past_only=True, **late):
    features = PropagationFeatures(past_only=past_only, two_ends=two_ends, calendar=True)
    return features.fit(edges, **{name: value for name, value in late.items() if value is not None})


def of_kind(features, pattern):
    return [re.search(pattern, name) is not None for name in (column.name for column in features.plan_.columns)]


def existing(kinds, two_ends):
    """Forecasts have no columns of agreement."""
    return [kind for kind in kinds if not (kind == "agreement" and two_ends == "partners")]


def test_every_column_is_of_a_kind():
    """A column of a new kind needs tests here."""
    names = [column.name for column in fitted(payments()).plan_.columns]
    assert [name for name in names if not any(re.search(pattern, name) for pattern in KINDS.values())] == []
    assert all(any(re.search(pattern, name) for name in names) for pattern in KINDS.values())


@pytest.mark.parametrize("delay", DELAYS)
@pytest.mark.parametrize("two_ends", USES)
class TestFuture:
    def test_moves_no_earlier_row(self, two_ends, delay):
        """Other nodes, amounts and categories from now on, in the fit too; their labels are missing."""
        edges = payments()
        later = others_since(edges, NOW)
        other = with_other(later, NOW)
        one, two = (fitted(known_until(e), two_ends, label_delay=delay) for e in (edges, other))
        assert one.get_feature_names_out().tolist() == two.get_feature_names_out().tolist()
        before, after = one.transform(edges)[~later], two.transform(other)[~later]
        for kind in existing(KINDS, two_ends):
            columns = of_kind(one, KINDS[kind])
            atol = 1e-12 if kind in ("partners", "agreement") else 0.0  # sums over partners in another order
            np.testing.assert_allclose(after[:, columns], before[:, columns], rtol=0, atol=atol, err_msg=kind)

    def test_the_past_moves_later_rows(self, two_ends, delay):
        """The same change in the past is seen in columns of every kind: the test above can fail."""
        edges = payments()
        features = fitted(known_until(edges), two_ends, label_delay=delay)
        rows = edges.time > NOW - 20 * DAY
        other = fitted(known_until(with_other(~rows)), two_ends, label_delay=delay)
        for kind in existing(OF_LABELS | OF_EDGES, two_ends):
            before, after = (f.transform(edges[rows])[:, of_kind(f, KINDS[kind])] for f in (features, other))
            assert before.shape == after.shape, kind
            assert not np.allclose(before, after), kind

    def test_labels_that_become_known_later_move_no_row(self, two_ends, delay):
        edges = payments()
        label = edges.label.copy()
        later = np.flatnonzero(edges.time + (np.timedelta64(5, "D") if delay else 0 * DAY) >= NOW)
        label[later] = np.random.default_rng(2).permutation(label[later])  # the prior stays
        one, two = (fitted(edges.with_label(y), two_ends, label_delay=delay) for y in (edges.label, label))
        rows = edges.time <= NOW
        np.testing.assert_array_equal(two.transform(edges)[rows], one.transform(edges)[rows])
        for kind in existing(("rates", "rates of many categories", "partners", "agreement"), two_ends):
            columns = of_kind(one, KINDS[kind])
            assert not np.allclose(two.transform(edges)[~rows][:, columns], one.transform(edges)[~rows][:, columns])


@pytest.mark.parametrize(
    ("past_only", "delay"), [(False, None), (True, None), (True, "5d")], ids=["interpolate", "past", "late"]
)
class TestOwnLabel:
    def test_is_seen_only_in_the_prior_of_all(self, past_only, delay):
        edges = payments()
        features = fitted(edges, past_only=past_only, label_delay=delay)
        moved = np.zeros(len(features.get_feature_names_out()), bool)
        for row in range(0, N, 37):
            label = edges.label.copy()
            label[row] = 1 - label[row]
            other = fitted(edges.with_label(label), past_only=past_only, label_delay=delay)
            one = edges[row : row + 1]
            assert np.abs(other.transform(one) - features.transform(one)).max() <= 2 / N
            assert abs(other.prior_[0] - features.prior_[0]) == pytest.approx(1 / N)
            other.plan_ = replace(other.plan_, prior=features.plan_.prior)
            np.testing.assert_array_equal(other.transform(one), features.transform(one))
            moved |= (other.transform(edges) != features.transform(edges)).any(axis=0)
        for kind in ("rates", "rates of many categories", "partners", "agreement", *["the last label"] * past_only):
            assert moved[of_kind(features, KINDS[kind])].any(), kind

    def test_does_not_matter_where_it_is_not_used(self, past_only, delay):
        """Known counts, counts, amounts and the like do not depend on which labels are known."""
        edges = payments()
        one, two = (
            fitted(edges.with_label(y), past_only=past_only, label_delay=delay) for y in (edges.label, 1 - edges.label)
        )
        for kind in ("known labels", "known labels of many categories", *OF_EDGES, *OF_ITSELF):
            columns = of_kind(one, KINDS[kind])
            np.testing.assert_array_equal(two.transform(edges)[:, columns], one.transform(edges)[:, columns], kind)


def numbered(edges):
    """The same edges with numbers as times; calendars need datetimes."""
    hours = (edges.time - START) // np.timedelta64(3600, "s")
    names = edges.feature_names
    features = {name: edges.features[:, k] for k, name in enumerate(names) if name in ("amount", "balance")}
    code = np.array(edges.feature_categories["code"])[edges.features[:, names.index("code")].astype(int)]
    return TemporalEdges(edges.src, edges.dst, hours, label=edges.label, features={**features, "code": code})


def far_ahead(never):
    """Edges, and times of labels that no edge reaches."""
    edges = payments() if isinstance(never, str) else numbered(payments())
    return edges, np.full(N, np.datetime64(never, "s") if isinstance(never, str) else never)


def plain(two_ends="all"):
    return PropagationFeatures(past_only=True, two_ends=two_ends)


@pytest.mark.parametrize("never", NEVER, ids=str)
class TestFarAhead:
    @pytest.mark.parametrize("two_ends", USES)
    def test_labels_are_in_no_column(self, never, two_ends):
        edges, label_time = far_ahead(never)
        features = plain(two_ends).fit(edges, label_time=label_time)
        known = plain(two_ends).fit(edges)
        for kind in existing(OF_LABELS, two_ends):
            columns = of_kind(features, KINDS[kind])
            assert not features.transform(edges)[:, columns].any(), kind
            assert known.transform(edges)[:, columns].any(), kind

    @pytest.mark.parametrize("two_ends", USES)
    def test_some_labels_move_no_column(self, never, two_ends):
        edges, label_time = far_ahead(never)
        hidden = np.arange(N) % 3 == 0
        label_time = np.where(hidden, label_time, edges.time.astype(label_time.dtype))
        label = edges.label.copy()
        label[hidden] = np.random.default_rng(2).permutation(label[hidden])
        one, two = (plain(two_ends).fit(edges.with_label(y), label_time=label_time) for y in (edges.label, label))
        np.testing.assert_array_equal(two.transform(edges), one.transform(edges))
        assert not np.allclose(
            *(plain(two_ends).fit(edges.with_label(y)).transform(edges) for y in (edges.label, label))
        )

    def test_labels_of_edges_to_score_stay_hidden(self, never):
        edges, label_time = far_ahead(never)
        model = PropagationClassifier(DummyClassifier(), setting="stream").fit(edges[:250])
        unseen = model._columns(edges[250:].with_label(None), None)[2]
        np.testing.assert_allclose(model._columns(edges[250:], label_time[250:])[2], unseen, rtol=0, atol=1e-12)
        for kind in OF_LABELS:
            columns = of_kind(model.features_, KINDS[kind])
            assert not np.allclose(model._columns(edges[250:], None)[2][:, columns], unseen[:, columns]), kind

    def test_no_cut_of_a_forecast_knows_them(self, never):
        edges, label_time = far_ahead(never)
        hidden = np.arange(N) % 3 == 0
        late = np.where(hidden, label_time, edges.time.astype(label_time.dtype))
        model = PropagationClassifier(DummyClassifier(), setting="forecast").fit(edges, label_time=late)
        evidence = gather_evidence(model.features_, model.edges_).evidence
        for window in training_windows("forecast", edges.ticks, edges.label.astype(int), np.array([1, 1])).windows:
            counts = evidence.labelled & (evidence.known_at < window.before)
            assert not (counts & hidden).any()
            assert counts.any()
            assert window.before <= window.first


@pytest.mark.usefixtures("few_trees_here")
class TestScores:
    END = NOW + 31 * DAY

    @pytest.mark.parametrize("setting", ["forecast", "stream"])
    @pytest.mark.parametrize("delay", DELAYS)
    def test_the_future_moves_none(self, setting, delay):
        """Other edges, amounts, categories and labels at a time move no score up to that time, though all are fitted to."""
        edges = payments()
        later = others_since(edges, self.END)
        before, after = (self.scores(e, setting, delay) for e in (edges, with_other(later, self.END)))
        later = later[edges.time >= NOW]
        np.testing.assert_allclose(after[~later], before[~later], rtol=0, atol=1e-9)
        assert not np.allclose(after[later], before[later])

    @pytest.mark.parametrize("delay", DELAYS)
    def test_labels_move_later_scores_of_a_stream_only(self, delay):
        edges = payments()
        row = np.flatnonzero(edges.time >= NOW)[20]
        label = edges.label.copy()
        label[row] = 1 - label[row]
        rows = edges.time >= NOW
        known_at = edges.time[row] + (5 * DAY if delay else 0 * DAY)
        for setting in ("forecast", "stream"):
            model = self.model(edges, setting, delay)
            one, two = (model._columns(edges.with_label(y)[rows], None)[2] for y in (edges.label, label))
            moved = edges.time[rows][(one != two).any(axis=1)]
            assert len(moved) == 0 if setting == "forecast" else moved.min() > known_at

    @staticmethod
    def model(edges, setting, delay):
        late = {} if delay is None else {"label_delay": delay}
        return PropagationClassifier(setting=setting, calendar=True, random_state=0).fit(known_until(edges), **late)

    def scores(self, edges, setting, delay):
        """Scores of the edges from now on, by a model that is fitted to all edges."""
        return self.model(edges, setting, delay).predict_proba(edges[edges.time >= NOW])[:, 1]
