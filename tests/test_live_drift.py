"""Drift: a planted change is seen within days, and nothing before; the counts are bounded, and the same after a replay."""

import numpy as np
import pytest
from typer.testing import CliRunner

from conftest import fewer_trees
from live_payments import classifier, event, events, label
from tdlg import PropagationClassifier, TemporalEdges
from tdlg.cli import app
from tdlg.live.drift import FIRST, FLAGS, WEEK, Drift, drift_of, quantities_of
from tdlg.live.model import LiveModel
from tdlg.live.outcome import Outcome, start_of
from tdlg.live.replay import read_state
from tdlg.live.scorer import StreamScorer
from tdlg.propagate.plan import own_values

pytestmark = pytest.mark.usefixtures("few_trees")

DAY = 86_400 * 1_000_000  # microseconds, the ticks of a stream
DAYS, PLANTED, PER_DAY = 40, 26, 120
KINDS = ["scores", "alerts", "new nodes", "amount", "shop", "new categories", "label delay"]


def payments(rng, n_days, start, more=1.0, shops=("food", "fuel", "toys")):
    """Payments, of which some more come at weekends, and of which each week has its own mean."""
    n = rng.poisson(PER_DAY * np.where(np.arange(n_days) % 7 < 2, 1.3, 0.9))
    day = np.repeat(np.arange(n_days), n)
    time = np.datetime64(start, "us") + day * DAY + np.sort(rng.integers(0, DAY, len(day)))
    week = rng.normal(0, 0.05, n_days // 7 + 1)[day // 7]
    features = {"amount": more * rng.lognormal(3 + week, 0.8), "shop": rng.choice(shops, len(day))}
    src, dst = rng.zipf(1.5, len(day)) % 5000, rng.integers(0, 50, len(day))
    delay = rng.integers(1, 30 * 86_400, len(day)).astype("timedelta64[s]")
    edges = TemporalEdges(
        src, [f"m{k}" for k in dst], time, features=features, label=(rng.random(len(day)) < 0.1).astype(int)
    )
    return edges, time + delay, day


@pytest.fixture(scope="module")
def fit():
    edges, label_time, _ = payments(np.random.default_rng(0), 120, "2025-01-01")
    with fewer_trees():
        model = PropagationClassifier(setting="stream", two_ends=False, random_state=0, n_threads=1)
        model.fit(edges, label_time=label_time)
    scorer = StreamScorer(model)
    outcome = Outcome(model)
    return model, scorer.own, outcome, quantities_of(model, outcome, scorer.own, *start_of(model, outcome).latest)


def first_days(fit, seed, kind):
    """The days on which each quantity first drifts, in a stream of which one quantity changes on a day."""
    model, own, outcome, quantities = fit
    rng = np.random.default_rng(seed)
    known_shops = ("food", "fuel", "toys")
    parts = [payments(rng, PLANTED, "2025-05-01"), payments(
        rng, DAYS - PLANTED, np.datetime64("2025-05-01") + PLANTED,
        more=1.8 if kind == "amount" else 1.0,
        shops={"shop": (*known_shops[:1] * 4, *known_shops), "new categories": (*known_shops * 5, "bets")}.get(
            kind, known_shops
        ),
    )]  # fmt: skip
    drift, found, rate = (
        Drift(quantities, own, outcome.day),
        {},
        {"alerts": 0.02, "new nodes": 0.05, "new categories": 0.0},
    )
    labels = []
    for part, (edges, label_time, days) in enumerate(parts):
        values, is_late = own_values(edges.with_ids_of(model.edges_), own), kind == "label delay" and part
        for day in range(days.max() + 1):
            rows, today = np.flatnonzero(days == day), part * PLANTED + day
            n, flags = len(rows), np.zeros(len(rows), int)
            for name, share in rate.items():
                more = 4 * share if part and kind == name else share
                flags += FLAGS[name] * (rng.random(n) < more)
            if kind == "new categories":
                flags |= FLAGS[kind] * np.isin(edges.features[rows, 1], np.flatnonzero([
                    name == "bets" for name in edges.feature_categories["shop"]]))  # fmt: skip
            scores = rng.beta(0.5, 5 if not (part and kind == "scores") else 2, n)
            ticks = outcome.on_clock(edges.ticks[rows], edges.time_unit).tolist()
            drift.add(ticks, scores.tolist(), values[rows], flags.tolist())
            delays = (label_time[rows] - edges.time[rows]).astype("timedelta64[us]").astype(int)
            delays = delays * 3 // 2 + 5 * DAY if is_late else delays
            labels += [(tick, tick + delay) for tick, delay in zip(ticks, delays.tolist(), strict=True)]
            for tick, known in [one for one in labels if one[1] <= ticks[-1]]:
                drift.add_label(tick, known, ticks[-1])
            labels = [one for one in labels if one[1] > ticks[-1]]
            for one in drift.compared():
                if one["drifts"]:
                    found.setdefault(one["of"], today)
    assert len(drift.days) <= FIRST + WEEK, "memory is bounded"
    return found


def test_all_is_compared(fit):
    assert [one.name for one in fit[3]] == KINDS
    assert all(one.spread >= 1 for one in fit[3])


@pytest.mark.parametrize("kind", KINDS)
def test_a_change_is_seen_within_days_and_nothing_before(fit, kind):
    seeds = range(20) if kind == "amount" else range(20, 23)
    for seed in seeds:
        found = first_days(fit, seed, kind)
        late = 13 if kind == "label delay" else WEEK  # longer delays are seen when they are over
        assert PLANTED <= found.get(kind, 0) <= PLANTED + late, (seed, found)
        assert min(found.values()) >= PLANTED, (seed, found)


def test_without_a_change_nothing_is_said(fit):
    """Twenty streams of five weeks: with one false alarm in a thousand weeks, more than one is unlikely."""
    assert sum(bool(first_days(fit, seed, None)) for seed in range(100, 120)) <= 1


# ---- in a live model


@pytest.fixture
def live(tmp_path):
    with LiveModel.open(tmp_path / "live", classifier(), threshold=0.5) as opened:
        for at in range(500, 900, 20):
            opened.submit([event(row) for row in range(at, at + 20)])
            opened.label([label(row) for row in range(at - 40, at - 20) if row >= 500])
        yield opened


def test_a_replay_and_a_snapshot_give_the_same(live):
    folder, want = live.folder, live.drift()
    days = live._state.drift.arrays()["content"].tobytes()
    live._directory.close()
    assert drift_of(read_state(folder)) == want, "as another process reads it"
    for _ in range(2):  # of the log, then of the snapshot
        with LiveModel.open(folder) as again:
            assert again.drift() == want
            assert again._state.drift.arrays()["content"].tobytes() == days


def test_repeated_events_count_once(live):
    before = live._state.drift.arrays()["content"].tobytes()
    live.submit(events()[:30])
    assert live._state.drift.arrays()["content"].tobytes() == before


def test_new_nodes_are_noted_once(live):
    drift = live._state.drift
    drift.count()
    at = [one.name for one in drift.quantities].index("new nodes")
    live.submit([{**event(899), "id": f"n{k}", "time": "2025-07-01", "src": f"new {k // 2}"} for k in range(6)])
    drift.count()
    assert drift.days[max(drift.days)][at].tolist() == [3, 3]


def test_the_expected_precision_follows_what_was_confirmed(live):
    alerts = live.alerts("all", 1000, explained=False)
    before = live.drift()["expected_precision"]
    live.decide([{"id": one.id, "label": 0} for one in alerts], by="anna")
    assert live.drift()["expected_precision"] < before < 1


def test_the_command_reads_beside_the_process_that_holds_the_state(live):
    result = CliRunner().invoke(app, ["drift", "--state", str(live.folder)])
    assert result.exit_code == 0, result.output
    assert "amount" in result.output
    assert "label delay" in result.output
