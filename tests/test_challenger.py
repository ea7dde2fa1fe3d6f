"""A challenger scores beside the model in place: what it says is what it would answer, a worse one is never promoted."""

import json
import shutil
import time

import numpy as np
import pytest
from sklearn.metrics import average_precision_score
from typer.testing import CliRunner

from conftest import fewer_trees
from live_payments import N_FITTED, N, acts, classifier, event, play
from serving import serving
from tdlg import PropagationClassifier, TemporalEdges
from tdlg.cli import app
from tdlg.exceptions import ParameterError
from tdlg.live import log as logs
from tdlg.live import refit as refits
from tdlg.live import replay
from tdlg.live.challenger import Evidence
from tdlg.live.model import LiveModel
from tdlg.live.refit import go_back, refit

pytestmark = pytest.mark.usefixtures("few_trees")
ACTS = acts()
FIRST, REST = ACTS[: len(ACTS) // 2], ACTS[len(ACTS) // 2 :]
LATER = [{**event(row), "id": f"later {row}", "time": "2025-09-01"} for row in range(500, 560)]
DAY = 86_400


@pytest.fixture(autouse=True)
def at_once(monkeypatch):
    monkeypatch.setattr(logs, "END_EVERY", 0.0)
    monkeypatch.setattr(replay, "LOOK_EVERY", 0.0)


def work(live, until, seconds=60.0):
    end = time.monotonic() + seconds
    while not until():
        live.work()
        time.sleep(0.001)
        assert time.monotonic() < end
    return live


def crash(live):
    live._failure = RuntimeError("killed")
    live._directory._lock.release()


def scores(live, given=LATER):
    return [(answer.id, answer.score) for answer in live.submit(given)]


def challenged(folder, **options):
    live = LiveModel.open(folder, classifier(), **{"threshold": 0.3, **options})
    live.in_steps = True
    play(live, FIRST)
    found = refit(folder, shadow=True)
    assert found.is_requested
    assert found.gain is None
    return work(live, lambda: live.health()["challenger"] is not None)


@pytest.fixture
def live(tmp_path):
    live = challenged(tmp_path / "live")
    yield live
    live.close()


def same(told):
    return json.loads(json.dumps(told, default=float))


def test_it_scores_as_if_it_were_in_place_and_answers_nothing(live, tmp_path):
    with LiveModel.open(tmp_path / "old", classifier(), threshold=0.3) as old:
        play(old, FIRST)
        want = play(old, REST)
    live.snapshot()
    shutil.copytree(tmp_path / "live", tmp_path / "promoted")
    (tmp_path / "promoted" / "lock").unlink()
    assert {row: answer.score for row, answer in play(live, REST).items()} == {row: a.score for row, a in want.items()}
    with LiveModel.open(tmp_path / "promoted") as new:
        new.act({"do": "promote"}, by="lee")
        assert new.health()["challenger"] is None
        answers = play(new, REST)
        assert new.audit()[0]["do"] == "promote"
    rows = {key: row for key, row in live._state.challenger.rows.items() if key[1:].isdigit() and int(key[1:]) in want}
    assert len(rows) > 50
    for key, (_, old_score, old_alert, new_score, new_alert, _) in rows.items():
        at = int(key[1:])
        assert (old_score, new_score) == (want[at].score, answers[at].score)
        if old_alert or new_alert:
            assert (bool(old_alert), bool(new_alert)) == (want[at].alert, answers[at].alert)
    told = live.challenger()
    n_alerts = [sum(one.alert for one in of.values()) for of in (want, answers)]
    assert [told["old"]["alerts"], told["new"]["alerts"]] == n_alerts
    assert told["n_events"] == len(want)


def test_the_comparison_is_that_of_plain_loops(live):
    play(live, REST)
    told, rows = live.challenger(), np.array([*live._state.challenger.rows.values()])
    labelled = rows[~np.isnan(rows[:, 5])]
    assert told["n_labelled"] == len(labelled) > 50
    assert told["n_positive"] == labelled[:, 5].sum()
    assert told["n_of_alerts"] == labelled[:, 2].sum()
    for name, at in (("old", 1), ("new", 3)):
        of = labelled[labelled[:, at + 1] > 0]
        assert (told[name]["reviewed"], told[name]["confirmed"]) == (len(of), of[:, 5].sum())
        assert told[name]["precision"] == pytest.approx(of[:, 5].mean())
        assert told[name]["quality"] == pytest.approx(average_precision_score(labelled[:, 5], labelled[:, at]))
    gain = told["gain"]
    assert gain["value"] == pytest.approx(told["new"]["quality"] - told["old"]["quality"])
    assert gain["low"] < gain["value"] < gain["high"]


def test_the_interval_is_over_days():
    """Days that are all good or all bad tell less than as many events one by one."""
    rng = np.random.default_rng(0)
    day = np.repeat(np.arange(30), 40)
    is_good = rng.random(30)[day] < 0.6
    label = rng.random(len(day)) < 0.3
    old = rng.random(len(day)) + 0.3 * label
    new = np.where(is_good, label + rng.random(len(day)), 1 - label + rng.random(len(day)))

    def width(ticks):
        rows = np.column_stack([ticks, old, old > 0.9, new, new > 0.9, label]).astype(float)
        gain = Evidence("g", rows, (len(rows), 1, 1), (0, 1), 1.0, True).compared()["gain"]
        return gain["high"] - gain["low"]

    assert width(day) > 1.5 * width(np.arange(len(day)))


def test_numbers_are_compared_by_their_error():
    rng = np.random.default_rng(0)
    label = rng.random(400)
    rows = np.column_stack([np.arange(400) // 10, label + 0.3, np.zeros(400), label + 0.1, np.zeros(400), label])
    told = Evidence("g", rows, (400, 0, 0), (0, 1), 1.0, False).compared()
    assert (told["old"]["quality"], told["new"]["quality"]) == (pytest.approx(0.3), pytest.approx(0.1))
    assert told["gain"]["value"] == pytest.approx(0.2)
    assert told["verdict"] == "better"
    assert (told["old"]["precision"], told["precision_gain"]) == (None, None)


@pytest.mark.parametrize(
    ("of_alerts", "n_positive", "verdict"),
    [(0.8, 50, "too few other labels"), (0.1, 4, "too few labels"), (0.1, 50, "better")],
)
def test_labels_that_cannot_tell_promote_nothing(of_alerts, n_positive, verdict):
    label = np.arange(200) < n_positive
    alert = np.arange(200) % 10 < 10 * of_alerts
    old = np.random.default_rng(0).random(200)
    rows = np.column_stack([np.arange(200) % 20, old, alert, label, alert, label]).astype(float)
    assert Evidence("g", rows, (200, 1, 1), (0, 1), 1.0, True).compared()["verdict"] == verdict


def test_a_replay_and_a_snapshot_give_the_same(live, tmp_path):
    play(live, REST[:150])
    told, clock = same(live.challenger()), live.health()["clock"]
    shutil.copytree(tmp_path / "live", tmp_path / "replayed")
    live.close()
    for folder in ("live", "replayed"):
        with LiveModel.open(tmp_path / folder) as again:
            assert again.health()["clock"] == clock
            assert same(again.challenger()) == told
            play(again, REST[150:])
            told_later = same(again.challenger())
        with LiveModel.open(tmp_path / folder) as again:
            assert same(again.challenger()) == told_later


@pytest.mark.parametrize("moment", ["request", "taken", "record", "shadowed", "promoted", "snapshot"])
def test_a_kill_at_any_moment(tmp_path, monkeypatch, moment):
    live = LiveModel.open(tmp_path / "live", classifier(), threshold=0.3)
    live.in_steps = True
    play(live, FIRST)
    refit(tmp_path / "live", shadow=True)
    if moment == "taken":  # the folder has its name, and no record says so

        def killed(*records):
            raise RuntimeError("killed")

        monkeypatch.setattr(live, "_write", killed)
        with pytest.raises(RuntimeError):
            work(live, lambda: False, 5.0)
        assert not (tmp_path / "live" / "request").exists()
    elif moment == "record":  # it is logged, and not learnt
        monkeypatch.setattr(replay.Successor, "challenger", lambda self, *given: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            work(live, lambda: False, 5.0)
        monkeypatch.undo()
    elif moment != "request":
        work(live, lambda: live.health()["challenger"] is not None)
        play(live, REST[:20])
    if moment in ("promoted", "snapshot"):
        live.act({"do": "promote", "generation": "generation-0002"})
        play(live, REST[20:40])
    if moment == "snapshot":
        work(live, lambda: live.health()["generation"] == "generation-0002")
    n_events = live._state.n_events
    crash(live)
    monkeypatch.setattr(replay, "LOOK_EVERY", 0.0)
    is_promoted = moment in ("promoted", "snapshot")
    with LiveModel.open(tmp_path / "live") as again:
        again.in_steps = True
        assert again._state.n_events == n_events
        if not is_promoted:
            work(again, lambda: again.health()["challenger"] == "generation-0002")
        assert again._state.generation == ("generation-0002" if is_promoted else "generation-0001")
        found = scores(again)
        told = same(again.challenger())
    with LiveModel.open(tmp_path / "live") as again:
        assert scores(again) == found
        assert same(again.challenger()) == told
        assert (again.health()["generation"] == "generation-0002") is is_promoted
    if is_promoted:
        assert go_back(tmp_path / "live") == "generation-0001"
        with LiveModel.open(tmp_path / "live") as again:
            assert again._state.generation == "generation-0001"
            assert again.challenger() is None


def test_a_challenger_is_dropped_or_replaced_without_a_trace(live, tmp_path):
    with pytest.raises(ParameterError, match=r"There is no challenger 'generation-0009'\. It is 'generation-0002'"):
        live.act({"do": "promote", "generation": "generation-0009"})
    refit(tmp_path / "live", shadow=True)
    work(live, lambda: live.health()["challenger"] == "generation-0003")
    assert not (tmp_path / "live" / "generation-0002").exists()
    live.act({"do": "drop"})
    assert live.challenger() is None
    assert not (tmp_path / "live" / "generation-0003").exists()
    with pytest.raises(ParameterError, match=r"There is no challenger\. There is none"):
        live.act({"do": "promote"})
    crash(live)
    with LiveModel.open(tmp_path / "live") as again:
        assert again.challenger() is None


def test_a_challenger_that_fails_is_none_of_the_model_in_place(live, monkeypatch):
    monkeypatch.setattr(live._state.challenger.scorer, "process", lambda read: 1 / 0)
    play(live, REST[:30])
    assert live.challenger() is None
    assert live.health()["challenger_failure"] == "generation-0002: ZeroDivisionError: division by zero"
    assert live.health()["ok"]


def test_labels_that_are_withdrawn_or_late_count_as_they_are(live):
    (answer,) = live.submit([event(N - 1, id="x", time="2025-08-01")])
    before = live.challenger()["n_labelled"]
    for label, n in ((1, 1), (0, 1), (None, 0), (1, 1)):
        live.label([{"id": "x", "label": label}])
        assert live.challenger()["n_labelled"] == before + n
    assert live._state.challenger.rows["x"][1] == answer.score
    live.withdraw(["x"])
    assert live.challenger()["n_labelled"] == before
    live.label([{"id": f"p{N_FITTED - 1}", "label": 1}])  # both were fitted on it
    assert f"p{N_FITTED - 1}" not in live._state.challenger.rows


# ---- planted changes


def stream(seed, n_days=60, per_day=50):
    """From day 20 on, other payments are frauds than before; a label is known on the next day."""
    rng = np.random.default_rng(seed)
    n = n_days * per_day
    day = np.repeat(np.arange(n_days), per_day)
    time = np.datetime64("2025-01-01", "s") + np.sort(day * DAY + rng.integers(0, DAY, n)).astype("timedelta64[s]")
    src, dst, amount = rng.integers(0, 40, n), rng.integers(0, 20, n), rng.random(n) * 100
    label = np.where(day < 20, dst < 2, amount > 90) ^ (rng.random(n) < 0.02)
    return time, src, dst, amount, label.astype(int), day


def fitted_then_live(folder, seed):
    time, src, dst, amount, label, day = stream(seed)
    past = np.flatnonzero(day < 20)
    known = TemporalEdges(
        src[past], 100 + dst[past], time[past], label=label[past], label_time=time[past] + np.timedelta64(1, "D"),
        features={"amount": amount[past]},
    )  # fmt: skip
    with fewer_trees():
        model = PropagationClassifier(setting="stream", random_state=0, n_threads=1).fit(known)
    live = LiveModel.open(folder, model, alerts_per_day=4)
    live.in_steps = True

    def play_days(first, last, after_day=lambda at: None):
        for at in range(first, last):
            rows = np.flatnonzero(day == at)
            given = zip(
                rows.tolist(), src[rows].tolist(), dst[rows].tolist(), time[rows].astype(str), amount[rows], strict=True
            )
            live.submit([{"id": k, "src": s, "dst": 100 + d, "time": t, "amount": float(a)} for k, s, d, t, a in given])
            before = np.flatnonzero(day == at - 1)
            labels = [{"id": k, "label": int(label[k])} for k in before.tolist() if at > 20]
            live.label(labels)
            after_day(at)

    return live, play_days


def look(live):
    """What `work` does at the end of a day: look for a verdict, and wait for it."""
    live.work()
    if live._refits._thread is not None:
        live._refits._thread.join()
    live.work()


@pytest.mark.parametrize("seed", range(3))
def test_a_better_challenger_is_promoted_within_two_weeks(tmp_path, seed):
    live, play_days = fitted_then_live(tmp_path / "live", seed)
    play_days(20, 30)
    refit(tmp_path / "live", shadow=True)
    work(live, lambda: live.health()["challenger"] is not None)
    live.refit_every("900d")
    promoted = []
    play_days(30, 44, lambda at: look(live) or (live._state.generation == "generation-0002" and promoted.append(at)))
    assert promoted, live.challenger()
    assert live.audit()[0] | {"at": ""} == {"do": "promote", "generation": "generation-0002", "by": "tdlg", "at": ""}
    live.close()


@pytest.mark.parametrize("seed", range(3))
def test_a_worse_challenger_is_never_promoted(tmp_path, monkeypatch, seed):
    real = refits._LoggedHistory.edges_before

    def shuffled(self, record):
        edges, ids = real(self, record)
        label, known = np.array(edges.label), np.flatnonzero(edges.labelled)
        label[known] = np.random.default_rng(seed).permutation(label[known])
        return edges.with_label(None).with_label(label, edges.label_time), ids

    monkeypatch.setattr(refits._LoggedHistory, "edges_before", shuffled)
    live, play_days = fitted_then_live(tmp_path / "live", seed)
    play_days(20, 22)
    refit(tmp_path / "live", shadow=True)
    work(live, lambda: live.health()["challenger"] is not None)
    live.refit_every("900d")
    verdicts = set()
    play_days(22, 60, lambda at: look(live) or verdicts.add(live.challenger()["verdict"]))
    assert live._state.generation == "generation-0001"
    assert "better" not in verdicts
    live.close()


@pytest.mark.needs("time")
def test_the_service_fits_challengers_by_itself(tmp_path):
    """A child process fits; here the simulated days wait for it."""
    live, play_days = fitted_then_live(tmp_path / "live", 0)
    live.refit_every("7d")

    def after_day(at):
        look(live)
        if live._refits._child is not None:
            work(live, lambda: live._refits._child is None, 120.0)
            assert not live._refits.failure
            work(live, lambda: live.health()["challenger"] is not None)
            began.append(at)

    began = []
    play_days(20, 44, after_day)
    assert began[0] in (26, 27)
    assert live._state.generation != "generation-0001"
    live.close()


def test_a_fit_that_fails_is_told_and_tried_again_later(tmp_path, monkeypatch):
    from tdlg.live import challenger

    monkeypatch.setattr(challenger, "CHILD", "raise SystemExit('no labels yet')")
    live, play_days = fitted_then_live(tmp_path / "live", 0)
    live.refit_every("7d")
    tried = []

    def after_day(at):
        live.work()
        if live._refits._child is not None:
            tried.append(at)
            live._refits._child.wait()
            live.work()
            assert live.health()["refit_failure"] == "no labels yet"

    play_days(20, 31, after_day)
    assert 2 <= len(tried) <= 5
    live.close()


# ---- the service and the commands


def test_the_service_shows_promotes_and_has_the_card(tmp_path):
    live = challenged(tmp_path / "live")
    live.in_steps = False
    with serving(live, apart=False) as client:
        rules = '[[rule]]\nname = "any"\nall = ["amount > 0", "count(src, 1d) >= 1"]'
        assert client.post("/actions", {"do": "rules", "text": rules}).status == 200
        answers = client.post("/score", [event(row) for row in range(N_FITTED + 300, N)]).json
        assert {name for one in answers for name in one["rules"]} == {"any"}
        (first, *_) = client.get("/alerts").json["alerts"]
        assert first["rules"][0]["why"].startswith("amount = ")
        assert first["reason"] == f"rule 'any': {first['rules'][0]['why']}"
        assert client.get("/rules").json["rules"][0]["alerts"] > 0
        told = client.get("/challenger").json
        assert told["challenger"]["n_events"] == N - N_FITTED - 300
        assert client.post("/actions", {"do": "promote", "generation": "generation-0007"}).status == 422
        assert client.post("/actions", {"do": "promote", "generation": "generation-0002"}).status == 200
        assert client.get("/challenger").json == {"challenger": None, "generation": "generation-0002", "failure": None}
        client.connection.sock.settimeout(300)  # a process of its own fits a copy of the model
        card = client.get("/card").json
        assert card["data"]["n_edges"] == len(live.model.edges_)
        page = client.get("/card.html")
        assert b"Model card" in page.body
        assert page.headers["content-type"].startswith("text/html")
    live.close()


def test_the_commands_work_beside_the_process_and_alone(tmp_path):
    def run(*arguments):
        result = CliRunner().invoke(app, [*map(str, arguments)])
        assert result.exit_code == 0, result.output
        return result.stderr

    live = LiveModel.open(tmp_path / "live", classifier(), threshold=0.3)
    live.in_steps = True
    play(live, FIRST)
    assert "scores beside the one in place" in run("refit", "--state", tmp_path / "live", "--shadow")
    work(live, lambda: live.health()["challenger"] is not None)
    (tmp_path / "rules.toml").write_text('[[rule]]\nname = "a"\nall = ["amount > 5"]')
    assert "1 rule" in run("rules", tmp_path / "rules.toml", "--state", tmp_path / "live")
    work(live, lambda: live.rules()["rules"])
    (tmp_path / "rules.toml").write_text('[[rule]]\nname = "a"\nall = ["size > 5"]')
    wrong = CliRunner().invoke(app, ["rules", str(tmp_path / "rules.toml"), "--state", str(tmp_path / "live")])
    assert "rules.toml, line 3: 'size > 5': the events have no field 'size'" in wrong.stderr
    live.close()
    run("promote", "--state", tmp_path / "live")
    with LiveModel.open(tmp_path / "live") as again:
        assert again.health()["generation"] == "generation-0002"
    run("refit", "--state", tmp_path / "live", "--back")
    with LiveModel.open(tmp_path / "live") as again:
        assert again.health()["generation"] == "generation-0001"
        assert again.rules()["rules"][0]["conditions"] == ["amount > 5"]
