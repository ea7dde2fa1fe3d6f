"""A refit beside the process that holds the state: no event is lost, and every answer stays what it was."""

import shutil
import time

import pytest

from live_payments import acts, classifier, event, play
from tdlg.live import log as logs
from tdlg.live import replay
from tdlg.live.model import LiveModel
from tdlg.live.refit import go_back, refit

pytestmark = pytest.mark.usefixtures("few_trees")
ACTS = acts()
FIRST, BETWEEN = ACTS[: len(ACTS) // 2], ACTS[len(ACTS) // 2 : len(ACTS) // 2 + 40]
LATER = [{**event(row), "id": f"later {row}", "time": "2025-09-01"} for row in range(500, 560)]


def scores(live, given=LATER):
    return [(answer.id, answer.score) for answer in live.submit(given)]


def crash(live):
    live._failure = RuntimeError("killed")
    live._directory._lock.release()


@pytest.fixture
def live(tmp_path, monkeypatch):
    monkeypatch.setattr(logs, "END_EVERY", 0.0)
    monkeypatch.setattr(replay, "LOOK_EVERY", 0.0)
    with LiveModel.open(tmp_path / "live", classifier(), threshold=0.3) as live:
        live.in_steps = True
        play(live, FIRST)
        yield live


def work(live, until, seconds=60.0):
    end = time.monotonic() + seconds
    while not until():
        live.work()
        time.sleep(0.001)
        assert time.monotonic() < end
    return live


def test_the_service_takes_the_new_model_over(live, tmp_path):
    shutil.copytree(tmp_path / "live", tmp_path / "alone")
    old, found = live.model, refit(tmp_path / "live", force=True)
    assert (found.is_requested, found.generation) == (True, None)
    answered, slowest = {}, 0.0
    for act in BETWEEN:
        start = time.perf_counter()
        answered |= play(live, [act])
        live.work()
        slowest = max(slowest, time.perf_counter() - start)
    assert slowest < 1.0
    work(live, lambda: live.model is not old)
    before = live.statistics()
    again = {row: live.submit([event(row)])[0] for row in answered}
    assert all(again[row].repeated and again[row].score == answered[row].score for row in answered)
    shutil.copytree(tmp_path / "live", tmp_path / "killed")  # before the first snapshot of the new generation
    work(live, lambda: live.health()["generation"] == "generation-0002")
    assert not (tmp_path / "live" / "request").exists()
    with LiveModel.open(tmp_path / "killed") as killed:
        assert {**killed.statistics(), "events_per_second": 0} == {**before, "events_per_second": 0}
        assert scores(killed) == scores(live)
    refit(tmp_path / "alone", force=True)
    with LiveModel.open(tmp_path / "alone") as alone:
        play(alone, BETWEEN)
        assert scores(alone) == scores(live)


def test_the_new_model_explains_by_its_own_columns(live, tmp_path):
    """The oracle is the same state after a restart, which has no columns of recent events."""
    old = live.model
    refit(tmp_path / "live", force=True)
    work(live, lambda: live.model is not old)
    ids = [event.id for event in live._state.recent][-20:]
    live.snapshot()
    live.close()
    with LiveModel.open(tmp_path / "live") as again:
        expected = [again.explain(id) for id in ids]
    assert [live._explainer.explain(id, 3) for id in ids] == expected


@pytest.mark.parametrize("moment", ["request", "record", "snapshot"])
def test_a_kill_at_any_moment(live, tmp_path, moment):
    old = live.model
    refit(tmp_path / "live", force=True)
    if moment != "request":
        work(live, lambda: live.model is not old)
    if moment == "snapshot":
        work(live, lambda: live.health()["generation"] == "generation-0002")
    crash(live)
    with LiveModel.open(tmp_path / "live") as again:
        again.in_steps = True
        work(again, lambda: again.health()["generation"] == "generation-0002" or again.work() is None)
        found = scores(again)
    with LiveModel.open(tmp_path / "live") as again:
        assert scores(again) == found
    assert go_back(tmp_path / "live") == "generation-0001"
    with LiveModel.open(tmp_path / "live") as again:
        assert again.model.edges_ == old.edges_ or len(again.model.edges_) == len(old.edges_)
        assert again.health()["generation"] == "generation-0001"


def test_a_damaged_request_is_left_out(live, tmp_path):
    refit(tmp_path / "live", force=True)
    (tmp_path / "live" / "request" / "scorer.state").write_bytes(b"damaged")
    old = live.model
    work(live, lambda: not (tmp_path / "live" / "request").exists())
    assert live.health()["refit_failure"]
    assert live.model is old
    assert live.submit(LATER)[0].error is None
