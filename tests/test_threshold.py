"""The threshold of alerts: as many alerts per day as asked for, whatever the rate of the stream. Days are simulated."""

import numpy as np
import pytest

from tdlg.live.outcome import Start, Threshold, score_reached

DAY = 86_400.0


class Days:
    """What a threshold needs of the meaning of a model."""

    kind, day = "classifier", DAY


def threshold(alerts_per_day=20.0, fitted_per_day=10_000.0, given=None):
    fitted = np.random.default_rng(1).random(5000)
    return Threshold(Days, given, alerts_per_day, Start(np.sort(fitted), fitted_per_day))


def times(per_day, n_days, rng, active=1.0):
    """Times of events, in the first part of each day."""
    at = np.sort(rng.uniform(0, n_days, int(per_day * n_days)))
    return DAY * (np.floor(at) + (at % 1) * active)


def alerts_in(found, at, rng, highest=1.0):
    """The number of alerts of each day, for events with random scores."""
    counts = np.zeros(1 + int(at[-1] // DAY), int)
    for tick, score in zip(at.tolist(), rng.uniform(0, highest, len(at)).tolist(), strict=True):
        counts[int(tick // DAY)] += score >= found.value
        found.add(tick, score)
    return counts


@pytest.mark.parametrize(
    ("per_day", "fitted", "n_days"),
    [(100, 1, 10), (100, 100, 10), (100, 10_000, 10), (10_000, 100, 10), (10_000, 10**6, 10), (10**6, 10_000, 2)],
)
def test_the_number_of_alerts_is_the_one_asked_for(per_day, fitted, n_days):
    rng, found = np.random.default_rng(0), threshold(fitted_per_day=fitted)
    counts = alerts_in(found, times(per_day, n_days, rng), rng)
    assert 10 <= counts[0] <= 40, "on the first day"
    assert 10 <= counts[1:].mean() <= 40


@pytest.mark.parametrize(("before", "after"), [(100, 10_000), (10_000, 100)])
def test_another_rate_is_followed_within_a_day(before, after):
    rng, found = np.random.default_rng(0), threshold()
    alerts_in(found, times(before, 5, rng), rng)
    later = alerts_in(found, 5 * DAY + times(after, 6, rng), rng)[5:]
    assert later[0] <= 50
    assert 10 <= later[1:].mean() <= 40


@pytest.mark.parametrize("active", [1 / 3, 1 / 12])
def test_nights_and_pauses_do_not_change_it(active):
    rng, found = np.random.default_rng(0), threshold()
    assert 10 <= alerts_in(found, times(1000, 8, rng, active), rng)[1:].mean() <= 40
    after = alerts_in(found, 38 * DAY + times(1000, 8, rng, active), rng)[38:]
    assert after[0] <= 60, "after a month without events"
    assert 10 <= after[1:].mean() <= 40


@pytest.mark.parametrize(("asked", "per_day"), [(0.5, 10), (2, 10_000), (400, 10_000)])
def test_few_and_many_alerts(asked, per_day):
    rng, found = np.random.default_rng(0), threshold(asked)
    n_days = 200 if asked < 1 else 6
    counts = alerts_in(found, times(per_day, n_days, rng), rng)
    assert asked / 2 <= counts[n_days // 3 :].mean() <= 2 * asked


def test_other_scores_are_followed():
    rng, found = np.random.default_rng(0), threshold()
    alerts_in(found, times(10_000, 3, rng), rng)
    assert alerts_in(found, 3 * DAY + times(10_000, 4, rng), rng, highest=0.5)[5:].mean() >= 10


def test_by_default_at_most_a_twentieth():
    rng, found = np.random.default_rng(0), threshold(None)
    assert 2 <= alerts_in(found, times(100, 30, rng), rng)[1:].mean() <= 10


def test_late_events_count_now():
    rng, found = np.random.default_rng(0), threshold()
    at = times(10_000, 4, rng)
    at[rng.random(len(at)) < 0.5] -= 30 * DAY
    n_alerts = 0
    for tick, score in zip(at.tolist(), rng.random(len(at)).tolist(), strict=True):
        n_alerts += score >= found.value
        found.add(tick, score)
    assert 40 <= n_alerts <= 160


def test_a_saved_one_goes_on_in_the_same_way():
    rng, whole = np.random.default_rng(0), threshold()
    at, scores = times(5000, 3, rng).tolist(), rng.random(15_000).tolist()
    for k in range(7000):
        whole.add(at[k], scores[k])
    again = threshold()
    again.restore({name: array.copy() for name, array in whole.arrays().items()})
    for k in range(7000, 15_000):
        assert again.value == whole.value
        again.add(at[k], scores[k])
        whole.add(at[k], scores[k])


def test_memory_is_bounded():
    rng, found = np.random.default_rng(0), threshold()
    sizes = []
    for start in (0, 3, 6):
        alerts_in(found, start * DAY + times(10_000, 3, rng), rng)
        sizes.append(sum(array.nbytes for array in found.arrays().values()))
    assert max(sizes) <= sizes[0] + 1000 < 100_000


def test_equal_scores_do_not_multiply_alerts():
    scores = np.repeat([0.1, 0.5, 0.9], [1000, 500, 10])
    assert score_reached(scores, 20) == 0.9
    assert score_reached(scores, 300) == 0.5
    assert score_reached(scores, 2) == 0.9, "there is no higher score"


@pytest.mark.usefixtures("few_trees_here")
def test_another_number_of_alerts_scores_no_fitted_edge_again(tmp_path, monkeypatch):
    from live_payments import classifier, events
    from tdlg.live.model import LiveModel

    with LiveModel.open(tmp_path / "live", classifier()) as live:
        live.submit(events()[:50])
    monkeypatch.setattr(type(classifier()), "scored", lambda *_: pytest.fail("the fitted edges are scored again"))
    with LiveModel.open(tmp_path / "live", alerts_per_day=100) as live:
        many = live.threshold
        live._directory.close()  # as if it were killed: the change is in the log alone
    with LiveModel.open(tmp_path / "live") as live:
        assert live.threshold == many
    with LiveModel.open(tmp_path / "live", alerts_per_day=0.1) as live:
        assert live.threshold > many


def test_more_alerts_than_can_be_counted():
    assert score_reached(np.array([0.3, 0.1, 0.2]), np.inf) == 0.1, "all events are alerts"
