"""Random review: events drawn with a known chance, unmarked on the list, and precision, recall and weights from them."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import binom

from live_payments import classifier, events
from tdlg import PropagationClassifier, TemporalEdges
from tdlg.judge.metrics import auc_and_precision
from tdlg.live import refit as refits
from tdlg.live.explore import Explorer, quality_of, review_weights, share
from tdlg.live.model import LiveModel
from tdlg.live.refit import refit
from tdlg.serve.api import _alert

pytestmark = pytest.mark.usefixtures("few_trees")


@pytest.fixture
def live(tmp_path):
    with LiveModel.open(tmp_path / "live", classifier(), threshold=0.5, explore=1.5) as opened:
        opened._use({"explore_seed": 7})
        for one in events():
            opened.submit([one])
        yield opened


def drawn(live, status="all"):
    return [one for one in live.alerts(status, 1000, explained=False) if one.blind is not None]


def test_events_are_drawn_with_the_chance_that_is_recorded(live):
    found = drawn(live)
    days = (found[0].ticks - found[-1].ticks) / live._state.outcome.day
    assert 0.7 < len(found) / days / 1.5 < 1.4, "about as many a day as were asked for"
    assert all(0 < one.chance <= 1 and one.blind[0] < 0.5 for one in found)
    explorer = Explorer(1.5, 7)
    assert all(explorer.uniforms(one.id)[0] < one.chance for one in found)
    assert all(one.chance == 1.0 for one in live.alerts("all", 1000) if one.blind is None)
    chances = [explorer.uniforms(k)[0] for k in range(4000)]
    assert abs(np.mean(chances) - 0.5) < 4 * np.sqrt(1 / 12 / 4000)


def test_they_cannot_be_told_from_alerts(live):
    assert all(not one.alert for one in live.submit([{**events()[0], "id": "later", "time": "2025-07-02"}]))
    for one in drawn(live)[:20]:
        shown = [live.event(one.id)["score"], live.explain(one.id)["score"], _alert(one).score]
        assert shown == [one.score] * 3
        assert one.score >= 0.5
        nodes = [event for event in live.node(one.src)["events"] if event.get("id") == one.id]
        assert [event["score"] for event in nodes] == [one.score]
        assert all(reason["effect"] > 0 for reason in live.explain(one.id, 2)["reasons"])
    names = _alert(drawn(live)[0]).__struct_fields__
    assert not {"chance", "blind"} & set(names)
    listed = [one.blind is not None for one in live.alerts("open", 1000, order="highest")]
    half = len(listed) // 2
    assert min(sum(listed[:half]), sum(listed[half:])) > 0.2 * sum(listed), "they are all over the list"


def test_a_decision_shows_the_score_and_opening_again_hides_it(live):
    one = drawn(live)[0]
    live.decide([{"id": one.id, "label": 0}], by="anna")
    assert live.event(one.id)["score"] == drawn(live, "decided")[0].score == one.blind[0]
    assert live.audit(1)[0]["chance"] == one.chance
    live.decide([{"id": one.id, "label": None}], by="anna")
    assert live.event(one.id)["score"] == one.score


def test_a_replay_and_a_snapshot_give_the_same(live):
    live.decide([{"id": drawn(live)[3].id, "label": 1}], by="anna")
    folder, want = live.folder, [vars(replace(one, columns=None, reason=None)) for one in live.alerts("all", 1000)]
    rate = live._state._threshold.events_per_day
    live._directory.close()
    for _ in range(2):  # of the log, then of the snapshot
        with LiveModel.open(folder) as again:
            assert [vars(replace(one, columns=None, reason=None)) for one in again.alerts("all", 1000)] == want
            assert again.settings.explore_seed == 7
            assert again._state._threshold.events_per_day == rate


def test_zero_ends_it_and_the_seed_stays(live):
    folder, n = live.folder, len(drawn(live))
    live.close()
    later = [{**one, "id": f"later {one['id']}", "time": "2025-07-03"} for one in events()]
    with LiveModel.open(folder, explore=0) as again:
        again.submit(later)
        assert len(drawn(again)) == n
        assert again.settings.explore_seed == 7
        assert again.alerts("all", 1)[0].chance is None


# ---- what they tell


class Seen:
    def __init__(self, status, chance, is_drawn):
        self.status, self.chance, self.blind = status, chance, [0.1, 0.9] if is_drawn else None


def reviewed_days(rng, days, per_day, n_alerts, precision, rate, explore, decided):
    """What a desk has decided after some days; `rate`: the share of positive events among those below the threshold."""
    found = []
    for _ in range(days):
        n = per_day * np.exp(rng.normal(0, 0.3))
        chance = min(1.0, explore / n)
        n_drawn = rng.binomial(rng.poisson(n), chance)
        for is_drawn, count, share_positive in ((False, rng.poisson(n_alerts), precision), (True, n_drawn, rate)):
            for is_positive, is_decided in zip(
                rng.random(count) < share_positive, rng.random(count) < decided, strict=True
            ):
                status = "open" if not is_decided else "confirmed" if is_positive else "dismissed"
                found.append(Seen(status, chance if is_drawn else 1.0, is_drawn))
    return found


@pytest.mark.parametrize(
    ("world", "most"),
    [
        ((180, 500, 5, 0.5, 0.02, 2, 1.0), 0.999),
        ((90, 166, 3, 0.4, 0.03, 4, 0.8), 0.999),
        ((60, 2000, 10, 0.6, 0.004, 2, 1.0), 1.0),  # hardly any is found among the drawn ones: more often than it says
    ],
    ids=["common", "partly decided", "rare"],
)
def test_the_interval_of_recall_covers_it_about_as_often_as_it_says(world, most):
    _, per_day, n_alerts, precision, rate, *_ = world
    truth = n_alerts * precision / (n_alerts * precision + per_day * np.exp(0.045) * rate)
    n, found = 100, []
    for seed in range(n):
        figures = quality_of(reviewed_days(np.random.default_rng(seed), *world))
        found.append([figures["recall"]["low"] <= truth <= figures["recall"]["high"],
                      figures["precision"]["low"] <= precision <= figures["precision"]["high"]])  # fmt: skip
    least, highest = binom.ppf([0.001, most], n, 0.9)
    n_recall, n_precision = np.sum(found, axis=0)
    assert least <= n_recall <= highest
    assert least <= n_precision <= binom.ppf(0.999, n, 0.9)


def test_intervals_of_few_events():
    assert share([], [], 1.0, 1.0) is None
    one = share([1.0] * 8, [], 1.0, 80.0)
    assert one["value"] == 1.0
    assert one["low"] < 0.2, "no positive among the drawn ones says little"
    known = share([1.0] * 8, [1.0] * 2, 1.0, 1.0)
    assert np.allclose([known["low"], known["high"]], [0.541, 0.946], atol=0.01), "mid-P, 8 of 10"
    assert quality_of([])["recall"] is None


def test_rows_stand_for_those_that_nobody_looked_at():
    assert review_weights([None, 0.1, 0.05], 1000).tolist() == [1.0, 10.0, 20.0]
    assert review_weights([None, 0.1, 0.05], 8).tolist() == pytest.approx([1.0, 10 / 3, 20 / 3]), "others have labels"
    assert review_weights([None, None], 0).tolist() == [1.0, 1.0]


# ---- what a new model learns from them


class World:
    """Payments of which some large ones are frauds, and later some others too."""

    def __init__(self, seed, per_day, start, days, is_new):
        rng, n = np.random.default_rng(seed), per_day * days
        self.day = np.sort(rng.integers(0, days, n))
        seconds = np.sort(rng.integers(0, 86_400, n)).astype("timedelta64[s]")
        self.time = np.datetime64(start, "s") + np.sort(self.day.astype("timedelta64[D]") + seconds)
        self.day = ((self.time - self.time[0]) / np.timedelta64(1, "D")).astype(int)
        self.src, self.dst = rng.integers(0, 100, n), rng.integers(0, 40, n)
        is_large, kind = rng.random(n) < 0.12, rng.random(n)
        self.amount = np.where(is_large, rng.uniform(200, 900, n), rng.uniform(5, 100, n)).round(2)
        is_other = is_new & ~is_large & (kind < 0.06)
        self.amount[is_other] = rng.uniform(40, 44, is_other.sum()).round(2)
        self.label = ((is_large & (kind < 0.5)) | is_other).astype(int)

    def edges(self):
        src, dst = ([f"{letter}{k}" for k in ends] for letter, ends in (("c", self.src), ("m", self.dst)))
        return TemporalEdges(src, dst, self.time, features={"amount": self.amount}, label=self.label)

    def events(self, rows):
        return [
            {"id": str(k), "src": f"c{self.src[k]}", "dst": f"m{self.dst[k]}", "time": str(self.time[k]),
             "amount": self.amount[k]}
            for k in rows
        ]  # fmt: skip


def precision_of(live, world, rows):
    scores = np.array([one.score for one in live.submit(world.events(rows))])
    return auc_and_precision(world.label[rows] == 1, scores)[1]


@pytest.mark.needs("time")
def test_with_random_review_a_new_model_learns_what_no_alert_tells(tmp_path):
    past, later = World(0, 40, "2025-01-01", 60, False), World(1, 40, "2025-03-02", 180, True)
    model = PropagationClassifier(setting="stream", two_ends=False, random_state=0, n_threads=1)
    model.fit(past.edges(), label_time=past.time)
    found, asked = {}, np.flatnonzero(later.day >= 160)
    before = World(2, 40, "2025-03-02", 20, False)
    with LiveModel.open(tmp_path / "before", model) as live:
        found["before"] = precision_of(live, before, np.arange(len(before.label)))
    for explore in (None, 3):
        folder = tmp_path / f"live {explore}"
        with LiveModel.open(folder, model, alerts_per_day=3, explore=explore) as live:
            live._use({"explore_seed": 0})
            for day in range(160):
                live.submit(later.events(np.flatnonzero(later.day == day)))
                decided = [{"id": one.id, "label": int(later.label[int(one.id)])} for one in live.alerts("open", 1000)]
                live.decide(decided, by="anna")
        refit(folder, force=True)
        with LiveModel.open(folder) as live:
            found[explore] = precision_of(live, later, asked)
    assert found[None] < found["before"] - 0.1
    assert found[3] > found["before"] - 0.02, found


def test_a_refit_weighs_rows_by_their_chance_to_be_looked_at(live, monkeypatch):
    """Also those of an earlier refit."""
    monkeypatch.setattr(refits, "LEAST_OF_CLASS", 1)
    some, alerts = drawn(live)[5:40], [one for one in live.alerts("open", 1000) if one.blind is None]
    live.decide([{"id": one.id, "label": k % 2} for k, one in enumerate([*some, *alerts])], by="anna")
    folder = live.folder
    live.close()
    seen, fit = [], PropagationClassifier.fit

    def noting(model, X, y=None, sample_weight=None, **options):
        seen.append(np.unique(np.ones(1) if sample_weight is None else sample_weight))
        return fit(model, X, y, sample_weight, **options)

    monkeypatch.setattr(PropagationClassifier, "fit", noting)
    found = refit(folder, force=True)
    assert found.share_of_alerts < found.n_alerts / found.n_events, "a drawn event stands for more than an alert"
    want = np.unique([1.0, *(1.0 / one.chance for one in some)])
    assert np.allclose(seen[-1], want)
    with LiveModel.open(folder) as again:
        again.submit([{**one, "id": f"later {one['id']}", "time": "2025-07-03"} for one in events()[:50]])
    refit(folder, force=True)
    assert np.allclose(seen[-1], want)
