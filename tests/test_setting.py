"""Which setting is chosen for labels that are missing, end, or become known late; and when labels became known."""

import warnings

import numpy as np
import pytest
from sklearn.dummy import DummyClassifier

from tdlg import PropagationClassifier, PropagationRegressor, TemporalEdges
from tdlg.exceptions import EdgesError, ParameterError, TdlgWarning
from tdlg.models import training
from tdlg.models.training import choose_setting, warn_of_late_classes
from tdlg.propagate.plan import choose_scales

N = 1000


def edges(label=None, **options):
    rng = np.random.default_rng(0)
    return TemporalEdges(rng.integers(0, 30, N), rng.integers(0, 30, N), np.arange(N), label=label, **options)


def chosen(known, setting="auto", late=False):
    return choose_setting("Model", setting, np.arange(N), known, late)[0]


class TestChoice:
    def test_missing_here_and_there(self):
        assert chosen(np.random.default_rng(1).random(N) < 0.7) == "interpolate"

    def test_a_gap_in_the_middle(self):
        assert chosen((np.arange(N) < 400) | (np.arange(N) >= 600)) == "interpolate"

    def test_labels_that_end(self):
        assert chosen(np.arange(N) < 700) == "forecast"
        assert chosen(np.ones(N, bool)) == "forecast"

    @pytest.mark.parametrize("seed", range(5))
    def test_labels_that_trickle_in(self, seed):
        """Known after 5 to 40 of 180 days: the missing labels lie among known ones, but nearly all of these are earlier."""
        rng = np.random.default_rng(seed)
        day = np.arange(N) / N * 180
        assert chosen(day + rng.uniform(5, 40, N) < 180) == "forecast"

    def test_trickling_labels_and_some_that_are_never_known(self):
        rng = np.random.default_rng(0)
        day = np.arange(N) / N * 180
        assert chosen((day + rng.uniform(5, 40, N) < 180) & (rng.random(N) > 0.02)) == "forecast"

    def test_times_of_labels(self):
        assert chosen(np.random.default_rng(1).random(N) < 0.7, late=True) == "stream"
        assert chosen(np.ones(N, bool), "forecast", late=True) == "forecast"
        with pytest.raises(ParameterError, match="interpolate"):
            chosen(np.ones(N, bool), "interpolate", late=True)

    @pytest.mark.parametrize(("days", "used"), [(13, False), (15, True)])
    def test_the_calendar_is_used_from_two_weeks_of_dates_on(self, days, used):
        time = np.datetime64("2025-01-01", "s") + (np.arange(N) * days * 86_400 // (N - 1)).astype("timedelta64[s]")
        later = time[-1] + np.arange(1, N + 1).astype("timedelta64[D]")  # to score: they change nothing
        label = [*(np.arange(N) % 2), *[None] * N]
        dated = TemporalEdges([*range(N)] * 2, [*range(N)] * 2, np.append(time, later), label=label)
        model = PropagationClassifier(setting="stream", random_state=0).fit(dated)
        assert ("hour of day" in {column.name for column in model.features_.plan_.own}) == used
        model.set_params(calendar=not used).fit(dated)
        assert ("hour of day" in {column.name for column in model.features_.plan_.own}) != used

    def test_no_calendar_of_numbers(self):
        model = PropagationClassifier(random_state=0).fit(edges(np.arange(N) % 2))
        assert not model.features_.plan_.own
        with pytest.raises(ParameterError, match=r"'calendar' .* must be True, False or 'auto'\. Got 'always'"):
            PropagationClassifier(calendar="always").fit(edges(np.arange(N) % 2))

    def test_says_why(self):
        model = PropagationClassifier(random_state=0).fit(edges(np.where(np.arange(N) < 700, np.arange(N) % 2, np.nan)))
        assert model.setting_ == "forecast"
        assert model.setting_reason_ == "all missing labels are after the known ones"


class TestLateClasses:
    def test_warns_of_a_class_that_the_latest_labels_lack(self):
        label = (np.random.default_rng(0).random(N) < 0.3).astype(float)
        label[-200:] = 0.0
        with pytest.warns(
            TdlgWarning, match=r"None of the latest 50 known labels is 1.0, although 2\d.\d% .*label_delay"
        ):
            PropagationClassifier(random_state=0).fit(edges(label))

    def test_is_silent_if_that_is_chance(self):
        label = np.zeros(N)
        label[[10, 20, 30]] = 1.0
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            for codes in (label.astype(int), np.arange(N) % 2):
                warn_of_late_classes(np.arange(N), codes, np.array([0, 1]))


def label_ticks(edges, label_time=None, label_delay=None):
    label = np.zeros(len(edges)) if edges.label is None else edges.label
    return edges.with_label(label, label_time, label_delay).label_ticks


class TestLabelTicks:
    def test_a_delay(self):
        few = TemporalEdges([1, 2], [2, 3], np.array(["2025-01-01", "2025-01-03"], "datetime64[s]"), label=[0, 1])
        np.testing.assert_array_equal(label_ticks(few, label_delay="7d"), few.ticks + 7 * 86_400)
        decimals = TemporalEdges([1, 2], [2, 3], [0.5, 1.5], label=[0, 1])
        np.testing.assert_array_equal(label_ticks(decimals, label_delay=0.25), [0.75, 1.75])

    def test_a_delay_is_rounded_up(self):
        assert label_ticks(TemporalEdges([1], [2], [5], label=[0]), label_delay=0.1).tolist() == [6]

    def test_far_ahead(self):
        largest = np.iinfo(np.int64).max
        assert label_ticks(edges(np.arange(N) % 2), label_delay=1e30).tolist() == [largest] * N
        few = TemporalEdges([1, 2], [2, 3], [0, 1], label=[0, 1])
        assert label_ticks(few, [np.inf, 1e19]).tolist() == [largest, largest]

    @pytest.mark.parametrize(
        ("delay", "message"), [("7d", "number"), (-1, "not negative"), (np.inf, "not negative"), (True, "number")]
    )
    def test_bad_delays(self, delay, message):
        with pytest.raises(ParameterError, match=rf"'label_delay' must be .*{message}.* Got {delay!r}"):
            label_ticks(edges(), label_delay=delay)

    def test_a_number_of_datetimes(self):
        dated = TemporalEdges([1], [2], np.array(["2025-01-01"], "datetime64[s]"))
        with pytest.raises(ParameterError, match=r"duration such as '7d'. Got 7 instead"):
            label_ticks(dated, label_delay=7)

    def test_both(self):
        with pytest.raises(ParameterError, match="both given"):
            label_ticks(edges(), np.arange(N), label_delay=7)

    def test_one_per_edge(self):
        with pytest.raises(EdgesError, match=r"one value per edge: 1,000. Got 3"):
            label_ticks(edges(), [1, 2, 3])

    def test_a_delay_is_a_label_time(self):
        labels = np.where(np.arange(N) < 800, np.arange(N) % 2, np.nan)
        one = PropagationClassifier(random_state=0).fit(edges(labels), label_delay=30)
        two = PropagationClassifier(random_state=0).fit(edges(labels), label_time=np.arange(N) + 30)
        assert one.setting_ == "stream"
        later = edges(np.arange(N) % 2)[750:]
        np.testing.assert_array_equal(
            one.predict_proba(later), two.predict_proba(later, label_time=np.arange(750, N) + 30)
        )
        assert not np.array_equal(one.predict_proba(later), two.predict_proba(later, label_time=np.arange(750, N)))


class TestScales:
    def test_reach_down_to_the_usual_gap(self):
        rng = np.random.default_rng(0)
        rare = TemporalEdges(rng.integers(0, 300, N), rng.integers(0, 300, N), np.arange(N))
        often = TemporalEdges(rng.integers(0, 2, N), rng.integers(0, 2, N), np.arange(N))
        assert choose_scales(rare) == [4.0**-k for k in range(4)]
        assert choose_scales(often) == [4.0**-k for k in range(6)]

    def test_no_node_acts_twice(self):
        assert len(choose_scales(TemporalEdges(range(5), range(5, 10), range(5)))) == 4

    def test_nodes_of_one_edge_do_not_count(self):
        rng = np.random.default_rng(0)
        dst = rng.integers(0, 300, N)
        assert choose_scales(TemporalEdges(np.arange(N) + N, dst, np.arange(N))) == [4.0**-k for k in range(4)]


@pytest.mark.usefixtures("few_trees_here")
class TestDoubtfulTables:
    @staticmethod
    def edges(n, twice=False, amount=None):
        rng = np.random.default_rng(0)
        src, dst, time = rng.integers(0, 9, n), rng.integers(0, 9, n), rng.random(n)
        at = np.tile(np.arange(n), 2) if twice else np.arange(n)
        features = {
            "amount": np.where(np.arange(len(at)) % 7, rng.random(n)[at % n], np.nan) if amount is None else amount
        }
        return TemporalEdges(src[at], dst[at], time[at], label=(dst % 2)[at], features=features)

    def test_rows_that_were_read_twice(self, monkeypatch):
        with pytest.warns(TdlgWarning, match="50% of the edges are exact copies"):
            PropagationClassifier(DummyClassifier(), setting="interpolate").fit(self.edges(210, twice=True))
        monkeypatch.setattr(training, "LOOKED_AT", 300)
        with pytest.warns(TdlgWarning, match="exact copies"):
            PropagationRegressor(setting="stream", random_state=0).fit(self.edges(2100, twice=True))

    def test_rows_that_differ_in_amount_are_no_copies(self):
        edges = self.edges(210, twice=True, amount=np.arange(420.0))
        PropagationClassifier(DummyClassifier(), setting="interpolate").fit(edges)

    def test_few_labels_of_a_class(self):
        with pytest.warns(TdlgWarning, match=r"Only 1\d of the 30 known labels are \d, which is hardly enough"):
            PropagationClassifier(DummyClassifier()).fit(self.edges(30))

    @pytest.mark.parametrize(
        ("n", "expected"), [(16, r"at least 25%.* about 4 of them"), (4, "at least 50%.* about 1 of them")]
    )
    def test_fewer_than_twenty_say_what_can_be_expected(self, n, expected):
        edges = self.edges(300)
        label = np.arange(300) < n
        with pytest.warns(
            TdlgWarning, match=f"Only {n} of the 300 known labels are 1, .*order of the scores.*{expected}"
        ):
            PropagationClassifier(DummyClassifier(), setting="interpolate").fit(edges.with_label(label.astype(int)))

    def test_twenty_labels_of_a_class_are_enough(self):
        label = (np.arange(300) < 20).astype(int)
        PropagationClassifier(DummyClassifier(), setting="interpolate").fit(self.edges(300).with_label(label))

    def test_many_classes(self):
        edges = self.edges(600).with_label([f"class {k % 25}" for k in range(600)])
        with pytest.warns(TdlgWarning, match="The labels have 25 classes, and each gets its own columns and trees"):
            model = PropagationClassifier(setting="interpolate", random_state=0, matches=["dst"]).fit(edges)
        assert len(model.estimators_) == 25
        assert model.predict_proba(edges).shape == (600, 25)
