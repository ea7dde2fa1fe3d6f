"""LiveModel: log first, then score. The oracle is the model itself on the whole table, and an undisturbed run."""

import errno
import json
import os
import threading

import numpy as np
import pytest

from live_payments import (
    EDGES,
    LABEL_TIME,
    N_FITTED,
    OPTIONS,
    N,
    acts,
    batch_scores,
    classifier,
    detector,
    event,
    events,
    id_of,
    label,
    play,
    regressor,
)
from tdlg import PropagationClassifier, TemporalEdges
from tdlg.exceptions import ParameterError, TdlgWarning
from tdlg.live import model as models
from tdlg.live.event import EVENTS, LABELS, SETTINGS, events_payload
from tdlg.live.log import LogFullError, StateError
from tdlg.live.model import LiveModel
from tdlg.live.refit import refit
from tdlg.live.scorer import UnknownEventError

pytestmark = pytest.mark.usefixtures("few_trees")


@pytest.fixture
def live(tmp_path):
    with LiveModel.open(tmp_path / "live", classifier(), threshold=0.2) as opened:
        yield opened


def crash(live):
    """End as a killed process does: no snapshot, and the lock is free."""
    live._failure = StateError("killed")
    live._directory.close()


def records(live, kind):
    return [record for record in live._directory.log.replay() if record.kind == kind]


def full_disk(file):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def scores(answers):
    return [answer.score for answer in answers]


# ---- scores


@pytest.mark.parametrize("size", [3, 100, N])
def test_scores_are_those_of_the_whole_table(tmp_path, size):
    plain = classifier().predict_proba(EDGES[N_FITTED:].with_label(None))[:, 1]
    with LiveModel.open(tmp_path / "live", classifier()) as live:
        given = events()
        answers = [answer for k in range(0, len(given), size) for answer in live.submit(given[k : k + size])]
        assert [answer.id for answer in answers] == [one["id"] for one in given]
        np.testing.assert_allclose(scores(answers), plain, rtol=0, atol=1e-12)
        assert not any(answer.late or answer.repeated for answer in answers)


def test_labels_count_from_the_time_when_they_became_known(live):
    answers = play(live, acts())
    np.testing.assert_allclose([answers[row].score for row in range(N_FITTED, N)], batch_scores(), rtol=0, atol=1e-10)


def test_an_event_may_bring_its_label(live):
    labels = np.where(EDGES.time[-1] >= LABEL_TIME, EDGES.label, np.nan)
    given = [event(row, label=labels[row], label_time=str(LABEL_TIME[row])) for row in range(N_FITTED, N)]
    np.testing.assert_allclose(scores(live.submit(given)), batch_scores(), rtol=0, atol=1e-10)
    unlabelled = {id_of(row) for row in np.flatnonzero(np.isnan(labels))}
    assert {alert.id for alert in live.alerts("all", 1000)} <= unlabelled, "a labelled event needs no decision"
    assert live.event(id_of(N_FITTED))["label"] in (0, 1)


def test_the_delay_of_labels_holds_for_labels_that_come_with_their_events(tmp_path):
    model = PropagationClassifier(**OPTIONS).fit(EDGES[:N_FITTED], label_delay="7d")
    given = [event(row, label=int(EDGES.label[row])) for row in range(N_FITTED, N)]
    with LiveModel.open(tmp_path / "live", model) as live:
        want = model.predict_proba(EDGES[N_FITTED:])[:, 1]
        np.testing.assert_allclose(scores(live.submit(given)), want, rtol=0, atol=1e-10)


def test_a_regressor_and_bursts(tmp_path):
    with LiveModel.open(tmp_path / "numbers", regressor()) as live:
        want = regressor().predict(EDGES[N_FITTED:].with_label(None))
        np.testing.assert_allclose(scores(live.submit(events())), want, rtol=0, atol=1e-9)
        assert (live.classes, live.positive, live.negative) == ([], None, None)
    with LiveModel.open(tmp_path / "bursts", detector()) as live:
        answers = live.submit(events())
        want = detector().score_samples(EDGES[N_FITTED:])
        np.testing.assert_allclose(scores(answers), -want, rtol=0, atol=1e-9)
        assert live.threshold == -detector().offset_
        assert [answer.predicted for answer in answers] == (want < detector().offset_).tolist()
        last = id_of(N - 1)
        assert live.label([{"id": last, "label": 1}])[0].error is None, (
            "a decision about a burst is kept, though not learnt"
        )
        assert live.event(last)["label"] == 1
        assert isinstance(live.label([{"id": "x", "label": 1}])[0].error, UnknownEventError)


def test_other_models_are_refused(tmp_path):
    model = PropagationClassifier(setting="forecast", random_state=0).fit(EDGES[:300])
    with pytest.raises(ParameterError, match="stream"):
        LiveModel.open(tmp_path / "live", model)
    assert not (tmp_path / "live" / "current").exists()


# ---- repetitions


def test_a_repeated_event_counts_once(tmp_path):
    first, second = events([N_FITTED, N_FITTED + 1])
    with LiveModel.open(tmp_path / "live", classifier()) as live:
        one, again, other = live.submit([first, first, second])
        assert (one.repeated, again.repeated, other.repeated) == (False, True, False)
        assert one.score == again.score
        n_records = len(records(live, EVENTS))
        assert live.submit([first])[0] == again
        assert len(records(live, EVENTS)) == n_records, "a repetition is not logged"
    with LiveModel.open(tmp_path / "live") as live:
        assert live.submit([first])[0] == again
        assert live.health()["n_events"] == 2


def test_a_repetition_is_recognised_when_it_is_not_recent_any_more(tmp_path):
    given = events()
    with LiveModel.open(tmp_path / "live", classifier(), n_recent=10, threshold=2.0) as live:
        answers = live.submit(given)
        assert live.event(given[0]["id"]) is None
        again = live.submit(given[:5])
        assert scores(again) == scores(answers[:5])
        assert all(answer.repeated for answer in again)
        assert live.health()["n_events"] == len(given)


def test_events_without_ids(live):
    bare = {name: value for name, value in event(N_FITTED).items() if name != "id"}
    (first,) = live.submit([bare])
    assert first.id == f"{bare['src']}>{bare['dst']}@{bare['time']}"
    (again,) = live.submit([{**bare, "time": bare["time"].replace("T", " ")}])
    assert again.repeated
    assert again.id == first.id
    assert live.label([{"id": first.id, "label": 1}])[0].error is None


@pytest.mark.parametrize("n_recent", [1000, 1])
@pytest.mark.parametrize(("id", "same"), [(17, "17"), ("17", 17), (17, 17.0), ("017", "017"), (1.5, "1.5")])
def test_ids_that_mean_the_same_are_one_event(tmp_path, n_recent, id, same):
    one, other = event(N_FITTED, id=id), event(N_FITTED + 1)
    with LiveModel.open(tmp_path / "live", classifier(), n_recent=n_recent, threshold=0.0) as live:
        first = live.submit([one])[0]
        again = live.submit([other, {**one, "id": same}, {**one, "id": same}])
        assert [answer.repeated for answer in again] == [False, True, True]
        assert [answer.score for answer in again[1:]] == [first.score, first.score]
        assert again[1].id == same, "an answer has the id that was given"
        assert live.label([{"id": same, "label": 1}])[0].error is None
        assert live.alerts("confirmed")[0].id == id, "alerts have the first one"
        assert live.explain(same)["id"] == id
    with LiveModel.open(tmp_path / "live") as live:
        assert live.knows(same)
        assert live.event(same)["label"] == 1


def test_an_empty_id_is_none_and_a_truth_value_is_refused(live):
    made, named = live.submit([event(N_FITTED, id=""), event(N_FITTED + 1, id=True)])
    assert made.id == f"{EDGES.src[N_FITTED]}>{EDGES.dst[N_FITTED]}@{EDGES.time[N_FITTED]}"
    assert (named.error.field, named.error.value) == ("id", True)
    assert live.label([{"id": True, "label": 1}])[0].error is not None


@pytest.mark.parametrize("n_recent", [1000, 1])
def test_a_repetition_is_as_late_as_the_event_was(tmp_path, n_recent):
    with LiveModel.open(tmp_path / "live", classifier(), n_recent=n_recent) as live:
        given = [events()[k] for k in (5, 3, 6)]
        late = [live.submit([one])[0].late for one in given]
        assert late == [False, True, False]
        assert [live.submit([one])[0].late for one in given] == late
    with LiveModel.open(tmp_path / "live") as live:
        assert [live.submit([one])[0].late for one in given] == late


def test_nodes_that_a_snapshot_cannot_hold_are_refused_by_name(tmp_path):
    src = [("a", k % 3) for k in range(60)]
    edges = TemporalEdges(src, ["x", "y"] * 30, range(60), label=[0, 1, 1] * 20)
    model = PropagationClassifier(**OPTIONS).fit(edges)
    with pytest.raises(ParameterError, match=r"\('a', 0\)"):
        LiveModel.open(tmp_path / "live", model)
    assert not (tmp_path / "live" / "current").exists()


def test_fitted_edges_can_be_labelled_and_are_recognised(tmp_path):
    row = N_FITTED - 1
    bare = {name: value for name, value in event(row).items() if name != "id"}
    with LiveModel.open(tmp_path / "live", classifier()) as live:
        (named,) = live.submit([event(row)])
        assert named.repeated
        assert named.id == id_of(row)
        assert (named.score, named.probabilities, named.predicted) == (None, (), None), "it was never scored"
        (answer,) = live.submit([bare])
        assert answer.repeated
        assert live.health()["n_events"] == 0
        (learnt,) = live.label([{"id": answer.id, "label": 1, "time": str(LABEL_TIME[row])}])
        assert learnt.error is None
        found = scores(live.submit(events()))
    labelled = classifier().update(EDGES[row : row + 1].with_label([1], LABEL_TIME[row : row + 1]))
    try:
        want = labelled.predict_proba(EDGES[N_FITTED:].with_label(None))[:, 1]
    finally:
        classifier.cache_clear()
    np.testing.assert_allclose(found, want, rtol=0, atol=1e-10)


# ---- errors


def test_a_bad_event_is_refused_and_the_others_are_scored(live):
    good = events(range(N_FITTED, N_FITTED + 3))
    bad = [{**good[1], "id": "a", "time": "yesterday"}, {**good[1], "id": "b", "amount": "much"}, {"id": "c"}, [1]]
    answers = live.submit([good[0], *bad, *good[1:]])
    errors = [answer.error for answer in answers]
    assert [error and error.field for error in errors] == [None, "time", "amount", "src", "src", None, None]
    assert [error.position for error in errors[1:5]] == [1, 2, 3, 4]
    assert errors[1].value == "yesterday"
    assert scores(answers)[1:5] == [None] * 4
    with_label = live.submit([{**events([N_FITTED + 3])[0], "label": "perhaps"}])[0]
    assert with_label.error.field == "label"
    assert live.health()["n_events"] == 3


def test_what_is_not_an_event_is_an_error(live):
    answers = live.submit([5, None, events()[0]])
    assert [answer.error is None for answer in answers] == [False, False, True]


def test_bad_events_are_not_logged(tmp_path):
    with LiveModel.open(tmp_path / "live", classifier()) as live:
        live.submit([{**event(N_FITTED), "time": None}])
        assert not records(live, EVENTS)
        assert [error.field for error in live.check([event(N_FITTED), {"src": "a"}])] == ["dst"]


def test_late_events(tmp_path):
    early, late = events([N_FITTED, N_FITTED + 50])
    with LiveModel.open(tmp_path / "live", classifier(), late="refuse") as live:
        live.submit([late])
        (answer,) = live.submit([early])
        assert answer.error.field == "time"
        assert "late events are refused" in answer.error.message
    with LiveModel.open(tmp_path / "live") as live:
        assert live.submit([early])[0].error is not None, "the choice is stored"
    with LiveModel.open(tmp_path / "live", late="score") as live:
        (answer,) = live.submit([early])
        assert answer.late
        assert answer.error is None
        (answer,) = live.submit([{**early, "id": "old", "time": "2001-01-01"}])
        assert "repetition would not be recognised" in answer.error.message


# ---- labels


def test_an_event_in_the_far_future_does_not_make_all_others_late(tmp_path):
    given, future = events()[:20], event(N_FITTED + 30, time="2999-01-01T00:00:00")
    want = classifier().predict_proba(EDGES[N_FITTED : N_FITTED + 20].with_label(None))[:, 1]
    with LiveModel.open(tmp_path / "live", classifier()) as live:
        answers = [answer for one in given for answer in live.submit([future, one])]  # also as the first of all
        assert {answer.error.field for answer in answers[::2]} == {"time"}
        assert "'ahead'" in answers[0].error.message
        assert not any(answer.late for answer in answers[1::2])
        np.testing.assert_allclose(scores(answers[1::2]), want, rtol=0, atol=1e-12)
    with LiveModel.open(tmp_path / "live", ahead="1000000d") as live:
        assert live.submit([future])[0].error is None
    with LiveModel.open(tmp_path / "live") as live:
        assert live.settings.ahead == "1000000d", "it is stored"


def test_a_long_pause_does_not_stop_a_stream(live, monkeypatch):
    """What is not in the future is accepted, however long nothing came."""
    live.submit(events()[:5])
    monkeypatch.setattr("tdlg.live.state.time.time", lambda: np.datetime64("2990-01-01", "s").astype(int).item())
    assert live.submit([event(N_FITTED + 6, time="2990-01-01T20:00:00")])[0].error is None
    assert live.submit([event(N_FITTED + 7, time="2999-01-01T00:00:00")])[0].error is not None


def test_numbers_that_are_far_ahead(tmp_path):
    edges = TemporalEdges(["a", "b", "c"] * 20, ["x", "y"] * 30, range(60), label=[0, 1, 1] * 20)
    model = PropagationClassifier(**OPTIONS).fit(edges)

    def answer(live, *times):
        return [one.error is None for one in live.submit([{"src": "a", "dst": "x", "time": time} for time in times])]

    with LiveModel.open(tmp_path / "live", model) as live:
        assert answer(live, 1e9, 5000, 5001) == [False, True, True], "the first time is free"
        assert answer(live, 1e9, 5002) == [False, True]
    with LiveModel.open(tmp_path / "live") as live:
        assert answer(live, 100_000) == [True], "also when it is opened again"
    with LiveModel.open(tmp_path / "live", ahead="2e9") as live:  # as the shell passes it
        assert answer(live, 100_001, 1e9) == [True, True]
    with pytest.raises(ParameterError, match="'ahead'"):
        LiveModel.open(tmp_path / "live", ahead="a week")


def test_labels_of_unknown_events_and_unknown_labels(live):
    live.submit(events([N_FITTED]))
    unknown, wrong, right = live.label(
        [{"id": "x", "label": 1}, {"id": id_of(N_FITTED), "label": 7}, {"id": id_of(N_FITTED), "label": "1"}]
    )
    assert isinstance(unknown.error, UnknownEventError)
    assert "'x'" in str(unknown.error)
    assert "7" in str(wrong.error)
    assert right.error is None
    assert live.event(id_of(N_FITTED))["label"] == 1


@pytest.mark.parametrize(("first", "second"), [(0, 1), (1, None)])
def test_a_second_label_replaces_the_first_and_the_log_keeps_both(tmp_path, first, second):
    given = events()
    with LiveModel.open(tmp_path / "a", classifier()) as live, LiveModel.open(tmp_path / "b", classifier()) as plain:
        for one in (live, plain):
            one.submit(given[:200])
        live.label([label(N_FITTED, label=first)])
        live.label([label(N_FITTED, label=second)])
        assert [json.loads(record.payload)["label"] for record in records(live, LABELS)] == [first, second]
        if second is not None:
            plain.label([label(N_FITTED, label=second)])
        found = live.submit(given[200:])
        close = 1e-12 if second is not None else 0.01  # a node keeps its last 32 labels, and one that left is lost
        assert scores(found) == pytest.approx(scores(plain.submit(given[200:])), abs=close)
        assert live.event(id_of(N_FITTED))["label"] == second


@pytest.mark.parametrize("n_recent", [1, 1000])
def test_a_repeated_label_changes_nothing(tmp_path, n_recent):
    with LiveModel.open(tmp_path / "live", classifier(), n_recent=n_recent, threshold=2.0) as live:
        live.submit(events())
        for _ in range(3):
            (answer,) = live.label([{"id": id_of(N_FITTED), "label": 1}])
            assert answer.error is None
        assert len(records(live, LABELS)) == live.n_labels == 1


def test_a_label_without_a_time_becomes_known_now(live):
    live.submit(events(range(N_FITTED, N_FITTED + 9)))
    live.label([{"id": id_of(N_FITTED), "label": 1}])
    (record,) = records(live, LABELS)
    assert json.loads(record.payload)["time"] == str(EDGES.time[N_FITTED + 8])


# ---- crashes and restarts


@pytest.mark.parametrize("snapshot_every", [1, 40, 10**6])
def test_a_crash_changes_nothing(tmp_path, snapshot_every):
    doings = acts()[:200]
    with LiveModel.open(tmp_path / "whole", classifier()) as live:
        want, end = play(live, doings), live.statistics()
    answers = {}
    options = {"snapshot_every": snapshot_every}
    LiveModel.open(tmp_path / "torn", classifier(), **options).close()
    for start in range(0, len(doings), 45):
        live = LiveModel.open(tmp_path / "torn", **options)
        answers |= play(live, doings[start : start + 45])
        crash(live)
    assert answers == want
    with LiveModel.open(tmp_path / "torn") as live:
        rate = "events_per_second"
        assert {**live.statistics(), rate: 0} == {**end, rate: 0}
        assert live.submit([event(row) for row in want])[0].repeated


def test_what_is_replayed_counts_towards_the_next_snapshot(tmp_path):
    """Else a process that is killed often would never write one."""
    given = events()
    LiveModel.open(tmp_path / "live", classifier()).close()
    for start in range(0, 40, 10):
        live = LiveModel.open(tmp_path / "live", snapshot_every=25)
        live.submit(given[start : start + 10])
        crash(live)
    with LiveModel.open(tmp_path / "live") as live:
        assert live.health()["snapshot_sequence"] == 3


def test_the_position_of_the_source_survives(tmp_path):
    with LiveModel.open(tmp_path / "live", classifier()) as live:
        assert live.position is None
        live.submit(events([N_FITTED]), position={"partition": 3, "offset": 17})
        live.submit(events([N_FITTED]), position={"partition": 3, "offset": 18})
        live.submit(events([N_FITTED + 1]))
        crash(live)
    with LiveModel.open(tmp_path / "live") as live:
        assert live.position == {"partition": 3, "offset": 18}


def test_a_full_disk_learns_nothing(live, monkeypatch):
    monkeypatch.setattr("tdlg.live.log.PROBE_EVERY", 0.0)
    given = events()
    live.submit(given[:10])
    with monkeypatch.context() as patch:
        patch.setattr("tdlg.live.log.sync_file", full_disk)
        for act in (lambda: live.submit(given[10:20]), lambda: live.label([{"id": given[0]["id"], "label": 1}])):
            with pytest.raises(LogFullError):
                act()
        health = live.health()
        assert not health["ok"]
        assert "No space left" in health["reason"]
        assert live.event(given[0]["id"])["label"] is None
    assert live.health()["ok"], "before the next event comes"
    assert not [*live._directory.folder.glob(".*")], "nothing is left of the write that was tried"
    found = scores(live.submit(given[10:]))
    want = classifier().predict_proba(EDGES[N_FITTED:].with_label(None))[10:, 1]
    np.testing.assert_allclose(found, want, rtol=0, atol=1e-12)


def test_a_snapshot_that_cannot_be_written_does_no_harm(tmp_path, monkeypatch):
    given = events()
    with LiveModel.open(tmp_path / "live", classifier(), snapshot_every=10) as live:
        monkeypatch.setattr(
            models, "write_arrays", lambda path, arrays: (_ for _ in ()).throw(OSError(28, "No space left"))
        )
        answers = live.submit(given[:25])
        assert "No space left" in live.health()["snapshot_failure"]
        assert live.health()["ok"]
        crash(live)
    monkeypatch.undo()
    with LiveModel.open(tmp_path / "live", snapshot_every=10) as live:
        assert scores(live.submit(given[:25])) == scores(answers)
        live.submit(given[25:40])
        assert live.health()["snapshot_failure"] is None


def test_an_interrupt_while_learning_is_made_good_by_the_log(tmp_path, monkeypatch):
    given = events()
    live = LiveModel.open(tmp_path / "live", classifier())
    live.submit(given[:10])

    def interrupted(read):
        raise KeyboardInterrupt

    monkeypatch.setattr(live._state.scorer, "process", interrupted)
    with pytest.raises(KeyboardInterrupt):
        live.submit(given[10:20])
    with pytest.raises(StateError, match="logged but not learnt"):
        live.submit(given[20:30])
    assert not live.health()["ok"]
    live.close()  # without a snapshot of what is half done
    with LiveModel.open(tmp_path / "live") as live:
        again = live.submit(given[:30])
        assert [answer.repeated for answer in again] == [True] * 20 + [False] * 10
        want = classifier().predict_proba(EDGES[N_FITTED : N_FITTED + 30].with_label(None))[:, 1]
        np.testing.assert_allclose(scores(again), want, rtol=0, atol=1e-12)


def test_a_closed_model_says_so(live):
    live.close()
    live.close()
    with pytest.raises(StateError, match="closed"):
        live.submit(events([N_FITTED]))


def test_one_process_at_a_time(live, tmp_path):
    with pytest.raises(StateError, match="in use"):
        LiveModel.open(tmp_path / "live")


def test_another_model_and_a_newer_version_are_refused(tmp_path):
    folder = tmp_path / "live"
    with pytest.raises(StateError, match="no state directory"):
        LiveModel.open(folder)
    LiveModel.open(folder, classifier()).close()
    with pytest.raises(StateError, match="another model"):
        LiveModel.open(folder, regressor())
    state = json.loads((folder / "state.json").read_text())
    (folder / "state.json").write_text(json.dumps({**state, "format": 99, "tdlg": "9.1"}))
    with pytest.raises(StateError, match=r"format 99 of tdlg 9\.1"):
        LiveModel.open(folder)


def test_a_record_and_a_snapshot_of_a_newer_version_are_refused(tmp_path, monkeypatch):
    with LiveModel.open(tmp_path / "a", classifier()) as live:
        live._write((77, b"?", 1))
        crash(live)
    with pytest.raises(StateError, match="kind 77"):
        LiveModel.open(tmp_path / "a")
    monkeypatch.setattr("tdlg.live.state.SNAPSHOT_FORMAT", 99)
    LiveModel.open(tmp_path / "b", classifier()).close()
    monkeypatch.undo()
    with pytest.raises(StateError, match="format 99"):
        LiveModel.open(tmp_path / "b")


def test_old_parts_of_the_log_are_removed(tmp_path, monkeypatch):
    given = events()
    with LiveModel.open(tmp_path / "live", classifier(), keep="1d", snapshot_every=20) as live:
        for k in range(0, 100, 20):
            live.submit(given[k : k + 20])
        assert live.health()["first_sequence"] == 1
        now = models.time.time()
        monkeypatch.setattr(models.time, "time", lambda: now + 3 * 86_400)
        live.submit(given[100:120])
        assert live.health()["first_sequence"] > 1
    with LiveModel.open(tmp_path / "live") as live:
        assert [answer.repeated for answer in live.submit(given[:121])] == [True] * 120 + [False]


# ---- settings


def test_fields_are_named_once(tmp_path):
    names = {"src": "customer", "dst": "terminal", "time": "when", "id": "payment", "amount": "EUR"}
    given = [{names[name]: value for name, value in one.items()} for one in events()[:50]]
    with LiveModel.open(tmp_path / "live", classifier(), columns=names) as live:
        first = live.submit(given[:10])
        assert first[0].id == id_of(N_FITTED)
    with LiveModel.open(tmp_path / "live") as live:
        found = scores(first) + scores(live.submit(given[10:]))
    want = classifier().predict_proba(EDGES[N_FITTED : N_FITTED + 50].with_label(None))[:, 1]
    np.testing.assert_allclose(found, want, rtol=0, atol=1e-12)
    with pytest.raises(ParameterError, match="'shop'"):
        LiveModel.open(tmp_path / "other", classifier(), columns={"shop": "x"})


def test_common_names_of_fields_are_found(live):
    one = event(N_FITTED)
    renamed = {
        "id": one["id"],
        "customer": one["src"],
        "terminal_id": one["dst"],
        "timestamp": one["time"],
        "amount": 3,
    }
    assert live.check([renamed]) == []
    assert live.settings.columns == {}
    assert live.submit([renamed])[0].error is None
    assert live.settings.columns == {"src": "customer", "dst": "terminal_id", "time": "timestamp"}


def test_a_wrong_event_does_not_name_the_fields(live):
    one = event(N_FITTED)
    renamed = {"customer": one["src"], "dst": one["dst"], "time": one["time"], "amount": 3}
    assert live.submit([{"payer": "x"}, {**renamed, "time": "soon"}])[0].error is not None
    assert live.settings.columns == {}
    found = live.submit([{"sender": "x"}, renamed])
    assert [answer.error is None for answer in found] == [False, True]
    assert live.settings.columns == {"src": "customer"}


@pytest.mark.parametrize(
    ("options", "name"),
    [({"late": "drop"}, "late"), ({"threshold": np.nan}, "threshold"), ({"alerts_per_day": 0}, "alerts_per_day"),
     ({"snapshot_every": 0}, "snapshot_every"), ({"n_recent": 0}, "n_recent"), ({"keep": "long"}, "duration"),
     ({"threshold": "0.5"}, "threshold"), ({"threshold": [1]}, "threshold"), ({"threshold": True}, "threshold"),
     ({"columns": "customer"}, "columns"), ({"columns": [("src", "customer")]}, "columns")],
)  # fmt: skip
def test_options_are_checked(tmp_path, options, name):
    with pytest.raises(ParameterError, match=name):
        LiveModel.open(tmp_path / "live", classifier(), **options)


def test_numbers_of_alerts(tmp_path):
    with LiveModel.open(tmp_path / "live", classifier(), alerts_per_day=0.5) as live:
        live.submit(events(range(N_FITTED, N_FITTED + 100)))
        before = len(live.alerts("all", 1000))
        answers = live.submit(events(range(N_FITTED + 100, N)))
        n_days = (EDGES.time[-1] - EDGES.time[N_FITTED + 100]) / np.timedelta64(1, "D")
        assert 0.2 < sum(answer.alert for answer in answers) / n_days < 1.0
        assert len(live.alerts("all", 1000)) == before + sum(answer.alert for answer in answers)
    with LiveModel.open(tmp_path / "live", threshold=0.9) as live:
        assert live.threshold == 0.9
        crash(live)
    with LiveModel.open(tmp_path / "live") as live:
        assert live.threshold == 0.9


# ---- alerts


def decided(live):
    live.submit(events())
    rows = [alert for alert in live.alerts("all", 1000)]
    live.label([{"id": rows[0].id, "label": 1}, {"id": rows[1].id, "label": 0}])
    return rows


def test_a_number_of_alerts_replaces_a_threshold(tmp_path):
    LiveModel.open(tmp_path / "live", classifier(), threshold=0.99).close()
    with LiveModel.open(tmp_path / "live", alerts_per_day=3) as live:
        found = live.threshold
        assert found != 0.99
    with LiveModel.open(tmp_path / "other", classifier(), alerts_per_day=3) as other:
        assert other.threshold == found
    with LiveModel.open(tmp_path / "live") as live:
        assert (live.settings.threshold, live.settings.alerts_per_day) == (None, 3), "also later"
    with LiveModel.open(tmp_path / "live", threshold=0.5, alerts_per_day=3) as live:
        assert live.threshold == 0.5


def test_decisions(live):
    rows = decided(live)
    assert len(rows) > 5
    assert [alert.score >= 0.2 for alert in rows] == [True] * len(rows)
    assert [alert.sequence for alert in rows] == sorted((alert.sequence for alert in rows), reverse=True)
    assert [alert.id for alert in live.alerts("confirmed")] == [rows[0].id]
    assert [alert.id for alert in live.alerts("dismissed")] == [rows[1].id]
    assert [alert.id for alert in live.alerts(limit=2)] == [alert.id for alert in rows[2:4]]
    assert [alert.id for alert in live.alerts(limit=2, before=rows[3].sequence)] == [alert.id for alert in rows[4:6]]
    (confirmed,) = live.alerts("confirmed")
    assert confirmed.decided_at == str(EDGES.time[-1])
    live.label([{"id": rows[0].id, "label": None}])
    assert not live.alerts("confirmed")
    assert live.alerts()[0].decided_at is None
    with pytest.raises(ParameterError, match="status"):
        live.alerts("done")


def test_an_alert_that_cannot_be_labelled_any_more_is_not_open(tmp_path):
    with LiveModel.open(tmp_path / "live", classifier(), threshold=0.0) as live:
        first, second = live.submit(events()[:2])
        live.label([{"id": second.id, "label": 1}])
        later = live.submit([event(N_FITTED + 2, time="2026-06-01")])[0]  # beyond the horizon
        assert live.label([{"id": first.id, "label": 1}])[0].error is not None
        assert [alert.id for alert in live.alerts()] == [later.id]
        assert [(alert.id, alert.status) for alert in live.alerts("expired")] == [(first.id, "expired")]
        assert [alert.status for alert in live.alerts("all")] == ["open", "confirmed", "expired"]
        assert live.statistics()["alerts"] == {"open": 1, "confirmed": 1, "dismissed": 0, "expired": 1}
    with LiveModel.open(tmp_path / "bursts", detector(), threshold=-100.0) as live:
        live.submit([*events()[:1], event(N_FITTED + 2, time="2026-06-01")])
        assert len(live.alerts()) == 2, "decisions about bursts are always accepted"


def test_changes_are_numbered_also_after_a_crash(tmp_path):
    with LiveModel.open(tmp_path / "live", classifier(), threshold=0.2) as live:
        rows, sequence = decided(live), live.sequence
        changes = live.changes(sequence - 2)
        assert [(change["kind"], change["id"], change["status"]) for change in changes] == [
            ("decision", rows[0].id, "confirmed"),
            ("decision", rows[1].id, "dismissed"),
        ]
        assert len(live.changes()) == sequence == len(rows) + 2
        crash(live)
    with LiveModel.open(tmp_path / "live") as live:
        assert live.changes(sequence - 2) == changes
        assert live.changes(live.sequence) == []


def test_statistics(live):
    rows = decided(live)
    found = live.statistics()
    assert found["events"] == N - N_FITTED
    assert found["alerts"] == {"open": len(rows) - 2, "confirmed": 1, "dismissed": 1, "expired": 0}
    assert len(found["days"]) == 30
    last = found["days"][-1]
    assert last["day"] == str(EDGES.time[-1])[:10]
    assert (last["reviewed"], last["confirmed"]) == (2, 1)
    days = EDGES.time[N_FITTED:].astype("datetime64[D]")
    assert last["events"] == (days == days[-1]).sum()
    assert found["weeks"]["this"]["events"] == (days > days[-1] - 7).sum()
    assert found["weeks"]["last"]["events"] == ((days > days[-1] - 14) & (days <= days[-1] - 7)).sum()
    assert sum(part["reviewed"] for part in found["by_score"]) == 2
    assert sum(part["confirmed"] for part in found["by_score"]) == 1
    assert found["events_per_second"] > 0


def test_numbers_as_times_have_days_too(tmp_path):
    days = (EDGES.time - EDGES.time[0]) / np.timedelta64(1, "D")
    numbers = type(EDGES)(EDGES.src, EDGES.dst, days, label=EDGES.label, label_delay=3.0, bipartite=True)
    model = PropagationClassifier(setting="stream", random_state=0).fit(numbers[:N_FITTED])
    with LiveModel.open(tmp_path / "live", model) as live:
        given = [{"id": k, "src": EDGES.src[k], "dst": EDGES.dst[k], "time": days[k]} for k in range(N_FITTED, N)]
        assert live.submit(given)[-1].error is None
        assert live.health()["clock"] == days[-1]
        assert sum(day["events"] for day in live.statistics()["days"]) <= len(given)
        live.label([{"id": given[-1]["id"], "label": 1}])
        assert live.event(given[-1]["id"])["label"] == 1


def test_several_threads(live):
    given, errors = events(), []

    def work(part):
        try:
            for one in part:
                live.submit([one])
                live.statistics()
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(given[k::4],)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    assert live.health()["n_events"] == len(given)


# ---- what comes wrong must neither stop the model nor stay in its log


@pytest.mark.parametrize("time", ["0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00"])
def test_a_label_at_the_ends_of_the_calendar_does_no_harm(tmp_path, time):
    given = events()[0]
    with LiveModel.open(tmp_path / "live", classifier()) as live:
        live.submit([given])
        live.label([{"id": given["id"], "label": 1, "time": time}])
    with LiveModel.open(tmp_path / "live") as live:
        assert live.submit(events()[1:2])[0].error is None


@pytest.mark.parametrize("time", [10**400, "soon", [1], float("inf")], ids=["large", "soon", "list", "inf"])
def test_a_label_at_an_impossible_time_is_refused_before_it_is_logged(tmp_path, time):
    given = events()[0]
    with LiveModel.open(tmp_path / "live", classifier()) as live:
        live.submit([given])
        assert live.label([{"id": given["id"], "label": 1, "time": time}])[0].error is not None
        assert not records(live, LABELS)
        assert live.label([{"id": given["id"], "label": 1}])[0].error is None
    with LiveModel.open(tmp_path / "live") as live:
        assert live.event(given["id"])["label"] == 1


@pytest.mark.parametrize("id", [[1], {"a": 1}, "nobody"], ids=str)
def test_a_label_of_no_event_is_refused_before_it_is_logged(live, id):
    live.submit(events()[:1])
    assert live.label([{"id": id, "label": 1}])[0].error is not None
    assert not records(live, LABELS)


def test_labels_of_one_call_follow_each_other(live):
    given = events()[0]
    live.submit([given])
    set_it, withdraw_it = {"id": given["id"], "label": 1}, {"id": given["id"], "label": None}
    live.label([set_it, withdraw_it])
    assert live.event(given["id"])["label"] is None
    live.label([withdraw_it, set_it])
    assert live.event(given["id"])["label"] == 1


def test_an_event_without_source_is_an_error_also_if_its_id_is_known(live):
    given = events()[0]
    live.submit([given])
    answer = live.submit([{"id": given["id"], "is fraud": 1}])[0]
    assert answer.error is not None
    assert answer.error.field == "src"


@pytest.mark.parametrize("n_recent", [1000, 1])
def test_the_label_of_a_repeated_event_is_learnt(tmp_path, n_recent):
    """As if it had come by itself: labels with a time before the events of the batch, the others after them."""
    given, more = events()[:6], events()[6:]
    times = [str(LABEL_TIME[N_FITTED + k]) for k in range(4)]
    with LiveModel.open(tmp_path / "by itself", classifier(), n_recent=n_recent) as live:
        live.submit(given)
        first = scores(live.submit(given))
        live.label([{"id": given[k]["id"], "label": k % 2, "time": times[k]} for k in range(4)])
        live.submit(more[:50])
        live.label([{"id": given[k]["id"], "label": 1} for k in (4, 5)])
        want = scores(live.submit(more[50:]))
    with LiveModel.open(tmp_path / "together", classifier(), n_recent=n_recent) as live:
        live.submit(given)
        again = [{**given[k], "label": k % 2, "label_time": times[k]} for k in range(4)]
        again += [{**given[k], "label": 1} for k in (4, 5)]
        answers = live.submit([*again, *more[:50]])
        assert scores(answers[:6]) == first
        assert all(answer.repeated and answer.label_error is None for answer in answers[:6])
        assert live.n_labels == 6
        crash(live)
    with LiveModel.open(tmp_path / "together") as live:
        assert live.submit(again)[0].repeated
        assert live.n_labels == 6, "they are known"
        np.testing.assert_allclose(scores(live.submit(more[50:])), want, rtol=0, atol=1e-10)


def test_the_label_of_a_repetition_in_the_same_batch_is_learnt(live):
    one, two = events()[:2]
    answers = live.submit([one, {**one, "label": 1}, two, {**two, "label": "odd"}])
    assert [answer.repeated for answer in answers] == [False, True, False, True]
    assert live.event(one["id"])["label"] == 1
    assert live.event(two["id"])["label"] is None
    assert (answers[3].label_error.position, answers[3].label_error.field) == (3, "label")


@pytest.mark.parametrize("n_recent", [1000, 1])
def test_a_wrong_label_of_a_repeated_event_is_an_error_beside_its_score(tmp_path, n_recent):
    one, two = events()[:2]
    with LiveModel.open(tmp_path / "live", classifier(), n_recent=n_recent) as live:
        first = live.submit([one, two])[0]
        size = live._directory.log.n_bytes
        again = live.submit([{**one, "label": "odd"}, {**two, "label": 1, "label_time": "soon"}])
        assert (again[0].score, again[0].error, again[0].repeated) == (first.score, None, True)
        assert [(answer.label_error.field, answer.label_error.value) for answer in again] == [
            ("label", "odd"),
            ("label_time", "soon"),
        ]
        assert live.n_labels == 0
        assert (live._directory.log.n_bytes == size) == (n_recent > 1), "a repetition that is not recent is logged"


def test_a_full_disk_learns_no_label_of_a_repeated_event(live, monkeypatch):
    one, two = events()[:2]
    live.submit([one])
    with monkeypatch.context() as patch:
        patch.setattr("tdlg.live.log.sync_file", full_disk)
        with pytest.raises(LogFullError):
            live.submit([{**one, "label": 1}, two])
    assert live.event(one["id"])["label"] is None
    assert live.event(two["id"]) is None


def test_names_of_columns_are_added_to_those_that_are_stored(tmp_path):
    LiveModel.open(tmp_path / "live", classifier(), columns={"src": "customer"}).close()
    with LiveModel.open(tmp_path / "live", columns={"id": "ref"}) as live:
        assert live.settings.columns == {"src": "customer", "id": "ref"}


@pytest.mark.parametrize("label", ["nan", float("inf"), 10**400, "much"], ids=["nan", "inf", "large", "much"])
def test_numbers_to_learn_must_be_finite(tmp_path, label):
    given = events()[0]
    with LiveModel.open(tmp_path / "live", regressor()) as live:
        live.submit([given])
        assert live.label([{"id": given["id"], "label": label}])[0].error is not None


def test_a_large_state_is_written_less_often(tmp_path, monkeypatch):
    monkeypatch.setattr("tdlg.live.model.SNAPSHOT_EVERY", 5)
    for share, n_snapshots in ((10**9, 4), (1, 0)):  # bytes per event that may be written: many, and nearly none
        monkeypatch.setattr("tdlg.live.model.SNAPSHOT_BYTES", share)
        written = []
        with LiveModel.open(tmp_path / str(share), classifier()) as live:
            monkeypatch.setattr(live._directory, "write_snapshot", lambda *_, written=written: written.append(1))
            for k in range(0, 20, 5):
                live.submit(events(range(N_FITTED + k, N_FITTED + k + 5)))
            assert len(written) == n_snapshots


# ---- a directory that always opens


@pytest.mark.parametrize("wrong", [{"customer": "src"}, {"src": 5}, {"src": ["a"]}])
def test_a_wrong_setting_is_refused_before_it_is_logged(tmp_path, wrong):
    with LiveModel.open(tmp_path / "live", classifier()) as live:
        n_records = live._directory.log.synced
    with pytest.raises(ParameterError, match="columns"):
        LiveModel.open(tmp_path / "live", columns=wrong)
    with LiveModel.open(tmp_path / "live") as live:
        assert live._directory.log.synced == n_records
        assert live.settings.columns == {}
        with pytest.raises(ParameterError, match="columns"):
            live.remember(wrong, {})
        assert live.submit(events([N_FITTED]))[0].error is None, "it goes on"


BAD_EVENT = event(N_FITTED + 1, id="bad", label=1, label_time="no time")
BAD_RECORDS = {
    SETTINGS: [b'{"columns":{"customer":"src"}}', b'{"never":1}', b"{"],
    EVENTS: [events_payload("x", [json.dumps(BAD_EVENT).encode()]), b'{"position":null}\n5', b"[]"],
    LABELS: [
        b"\n".join([json.dumps(label(N_FITTED)).encode(), b'{"id":"p501"}']),  # the first one is learnt, then it fails
        b"5",
    ],
}


@pytest.mark.parametrize(("kind", "payload"), [(kind, one) for kind, many in BAD_RECORDS.items() for one in many])
def test_a_record_that_cannot_be_learnt_is_set_aside(tmp_path, kind, payload):
    first, later = events(range(N_FITTED, N_FITTED + 5)), events(range(N_FITTED + 5, N_FITTED + 60))
    with LiveModel.open(tmp_path / "never", classifier(), threshold=0.2) as live:
        live.submit(first, position="a")
        want = scores(live.submit(later))
    live = LiveModel.open(tmp_path / "live", classifier(), threshold=0.2)
    live.submit(first, position="a")
    sequence = live._directory.log.append(kind, payload, 2)
    live._directory.log.sync()
    live.label([{"id": id_of(N_FITTED), "label": 1}])
    live.label([{"id": id_of(N_FITTED), "label": None}])
    crash(live)
    with pytest.warns(TdlgWarning, match=rf"Record {sequence} of the log \(2 .* is set aside.*[^.]\. It was never"):
        live = LiveModel.open(tmp_path / "live")
    (aside,) = live.health()["set_aside"]
    assert (aside["sequence"], aside["count"]) == (sequence, 2)
    assert aside["kind"] in ("events", "labels", "settings")
    assert live.health()["ok"]
    assert (live.position, live.settings.columns) == ("a", {})
    assert scores(live.submit(later)) == want
    live.close()
    with LiveModel.open(tmp_path / "live") as live:  # without a warning
        assert live.health()["set_aside"] == [aside], "it is remembered"


def test_a_refit_leaves_out_what_was_set_aside(tmp_path):
    with LiveModel.open(tmp_path / "live", classifier()) as live:
        play(live, acts())
        live._directory.log.append(EVENTS, BAD_RECORDS[EVENTS][0])
        live._directory.log.sync()
        crash(live)
    with pytest.warns(TdlgWarning, match="is set aside"):
        LiveModel.open(tmp_path / "live").close()
    refit(tmp_path / "live", force=True)
    with LiveModel.open(tmp_path / "live") as live:
        assert not live.knows("bad")


@pytest.mark.parametrize("field", ["time", "label_time"])
@pytest.mark.parametrize("value", [10**19, -(10**19), 1e300, 2**63])
def test_numbers_beyond_the_clock_are_refused(tmp_path, field, value):
    start = 2**60
    edges = TemporalEdges(["a", "b", "c"] * 20, ["x", "y"] * 30, start + np.arange(60), label=[0, 1, 1] * 20)
    model = PropagationClassifier(**OPTIONS).fit(edges)
    with LiveModel.open(tmp_path / "live", model) as live:
        bad = {"id": "e", "src": "a", "dst": "x", "time": start + 60, "label": 1, field: value}
        (answer,) = live.submit([bad])
        assert (answer.error.field, answer.error.value) == (field, value)
        assert live.submit([{"id": "f", "src": "a", "dst": "x", "time": start + 61}])[0].error is None
        if field == "label_time":
            assert live.label([{"id": "f", "label": 1, "time": value}])[0].error.parameter == "time"
    with LiveModel.open(tmp_path / "live") as live:
        assert live.health()["n_events"] == 1


@pytest.mark.parametrize("time", ["9999-12-31T23:59:59", "0001-01-01T00:00:00", "1500-01-01", "2500-01-01"])
@pytest.mark.parametrize("field", ["time", "label_time"])
def test_datetimes_beyond_nanoseconds(tmp_path, field, time):
    """As in batch, a label that becomes known in the far future is not known yet."""
    start = np.datetime64("2025-01-01T00:00:00.000000001")
    times = start + np.arange(60) * np.timedelta64(1, "h")
    edges = TemporalEdges(["a", "b", "c"] * 20, ["x", "y"] * 30, times, label=[0, 1, 1] * 20)
    with LiveModel.open(tmp_path / "live", PropagationClassifier(**OPTIONS).fit(edges)) as live:
        good = {"src": "a", "dst": "x", "time": "2025-01-04T00:00:00", "label": 1}
        (answer,) = live.submit([{"id": "e", **good, field: time}])
        assert (answer.error is None) == (field == "label_time")
        assert live.submit([{"id": "f", **good}])[0].error is None
        crash(live)
    with LiveModel.open(tmp_path / "live") as live:
        assert live.health()["set_aside"] == []


# ---- ids, repetitions and fields


def test_refused_events_leave_nothing(tmp_path):
    with LiveModel.open(tmp_path / "live", classifier(), late="refuse") as live:
        live.submit(events([N_FITTED + 5]))
        before = live.health()["n_nodes"]
        late = event(N_FITTED)
        answers = live.submit([{**late, "id": f"x{k}", "src": f"s{k}", "dst": f"d{k}"} for k in range(3000)])
        assert all(answer.error is not None for answer in answers)
        live.check([{**late, "src": f"s{k}"} for k in range(10)])
        assert live.health()["n_nodes"] == before


@pytest.mark.filterwarnings("ignore:Only .* known labels are .* hardly enough")
def test_nodes_are_compared_as_they_are_written(tmp_path):
    """7, 7.0 and "7" are one node, "007" is another; also after a restart, as in batch."""
    names = ["7", "007", "8", "a"]
    rng = np.random.default_rng(0)
    src, dst = rng.choice(names, 120), rng.choice(["x", "y"], 120)
    edges = TemporalEdges(src, dst, np.arange(120), label=(src == "007").astype(int))
    model = PropagationClassifier(**OPTIONS).fit(edges[:80])
    new = edges[80:].with_label(None)
    want = model.predict_proba(new)[:, 1]
    forms = {"7": [7, 7.0, "7"], "007": ["007"], "8": [8, "8"], "a": ["a"]}
    given = [
        {"src": forms[str(new.src[k])][k % len(forms[str(new.src[k])])], "dst": str(new.dst[k]), "time": 80 + k}
        for k in range(40)
    ]
    live = LiveModel.open(tmp_path / "live", model)
    found = scores(live.submit(given[:20]))
    n_nodes = live.health()["n_nodes"]
    assert n_nodes == 6
    crash(live)
    with LiveModel.open(tmp_path / "live") as live:  # by a replay, then by a snapshot
        found += scores(live.submit(given[20:30]))
    with LiveModel.open(tmp_path / "live") as live:
        found += scores(live.submit(given[30:]))
        assert live.health()["n_nodes"] == n_nodes
        assert live.node("7")["n_live"] == live.node(7)["n_live"] == (new.src == "7").sum()
        assert live.node("007")["n_live"] == (new.src == "007").sum()
        assert live.node("007")["n_fitted"] == (edges.src[:80] == "007").sum()
    np.testing.assert_allclose(found, want, rtol=0, atol=1e-12)


def test_new_nodes_keep_their_codes_when_it_is_opened_again(tmp_path):
    given = [event(N_FITTED + k, src=src) for k, src in enumerate(["00007", "7", 7, "new", "007"])]
    with LiveModel.open(tmp_path / "live", classifier()) as live:
        live.submit(given)
        codes = live._state.scorer.nodes._codes
    assert len({codes[0][key] for key in ("00007", 7, "new", "007")}) == 4
    with LiveModel.open(tmp_path / "live") as live:
        assert live._state.scorer.nodes._codes == codes


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (("a>b", "c"), ("a", "b>c")),
        (("a\\", "b>c"), ("a\\>b", "c")),
        (("a", "b@1"), ("a>b", "1")),
        (("a\\>", "b"), ("a\\", ">b")),
    ],
)
def test_ids_made_of_odd_names_are_distinct(live, one, other):
    first, second = live.submit([{**event(N_FITTED), "id": None, "src": src, "dst": dst} for src, dst in (one, other)])
    assert first.id != second.id
    assert not second.repeated
    assert live.health()["n_events"] == 2


ENDS_AND_TIME = [{"src": "another"}, {"dst": "another"}, {"time": event(N_FITTED + 9)["time"]}]


@pytest.mark.parametrize(
    ("n_recent", "change"),
    [(1, change) for change in ENDS_AND_TIME]  # all that is known of older events
    + [(1000, change) for change in [*ENDS_AND_TIME, {"amount": 7.0}, {"time": "x"}]],
)
def test_a_repeated_id_with_another_content_is_marked(tmp_path, n_recent, change):
    one, other = events([N_FITTED, N_FITTED + 1])
    with LiveModel.open(tmp_path / "live", classifier(), n_recent=n_recent) as live:
        first = live.submit([one])[0]
        live.submit([other])
        same, differs, bare = live.submit([one, {**one, **change}, {**one, "amount": str(one["amount"])}])
        assert (same.repeated, same.differs, bare.differs) == (True, False, False)
        assert (differs.repeated, differs.differs, differs.score) == (True, True, first.score)
        assert live.health()["n_differing"] == 1
        (label_only,) = live.submit([{**one, "label": 1}])
        assert not label_only.differs


def test_differing_within_a_batch(live):
    one = event(N_FITTED)
    first, same, differs = live.submit([one, one, {**one, "amount": 77_777}])
    assert [answer.differs for answer in (first, same, differs)] == [False, False, True]
    assert differs.score == first.score


@pytest.mark.parametrize("name", ["src", "dst", "time"])
def test_a_repetition_of_an_event_that_lacks_a_field(live, name):
    one = event(N_FITTED)
    found = live.submit([{key: value for key, value in one.items() if key != name}, one, event(N_FITTED + 1)])
    assert [answer.error and answer.error.field for answer in found] == [name, None, None]


def test_a_fitted_edge_is_recognised_by_a_time_that_is_a_whole_number(tmp_path):
    edges = TemporalEdges(["a", "b", "c"] * 20, ["x", "y"] * 30, range(60), label=[0, 1, 1] * 20)
    last = {"src": "c", "dst": "y", "time": 59}
    with LiveModel.open(tmp_path / "live", PropagationClassifier(**OPTIONS).fit(edges)) as live:
        assert live.id_of(last) == live.id_of({**last, "time": 59.0}) == "c>y@59"
        given = [last, {**last, "id": "own"}, {**last, "id": "other"}, last]
        assert [(answer.repeated, answer.differs) for answer in live.submit(given)] == 4 * [(True, False)]
        assert live.health()["n_events"] == 0
        answers = live.label([{"id": id, "label": 0} for id in ("own", "other")])
        assert [answer.error for answer in answers] == [None, None]
        assert live.submit([{**last, "time": 59.5}])[0].id == "c>y@59.5"


def test_a_fitted_edge_is_labelled_by_the_id_that_it_came_with(tmp_path):
    row = N_FITTED - 1
    live = LiveModel.open(tmp_path / "live", classifier())
    assert live.submit([event(row)])[0].repeated
    again = live.submit([event(row)])[0]
    assert (again.id, again.repeated, again.differs) == (id_of(row), True, False)
    assert live.submit([event(row, src="another")])[0].differs
    assert live.health()["n_events"] == 0
    crash(live)
    with LiveModel.open(tmp_path / "live") as live:  # by a replay
        assert live.knows(id_of(row))
    with LiveModel.open(tmp_path / "live") as live:  # by a snapshot
        (answer,) = live.label([{"id": id_of(row), "label": 1, "time": str(LABEL_TIME[row])}])
        assert (answer.id, answer.error) == (id_of(row), None)
        assert live.n_labels == 1
        live.label([{"id": id_of(row), "label": 1, "time": str(LABEL_TIME[row])}])
        assert live.n_labels == 1, "it has this label"
        found = scores(live.submit(events()))
    labelled = classifier().update(EDGES[row : row + 1].with_label([1], LABEL_TIME[row : row + 1]))
    try:
        want = labelled.predict_proba(EDGES[N_FITTED:].with_label(None))[:, 1]
    finally:
        classifier.cache_clear()
    np.testing.assert_allclose(found, want, rtol=0, atol=1e-10)


def test_copies_of_a_fitted_edge_have_an_id_each(tmp_path):
    edges = EDGES[[*range(N_FITTED), N_FITTED - 1]]  # the last one twice
    copied = TemporalEdges(
        edges.src, edges.dst, edges.time, label=edges.label, features={"amount": edges.features[:, 0]}, bipartite=True
    )
    model = PropagationClassifier(**OPTIONS).fit(copied)
    row = N_FITTED - 1
    with LiveModel.open(tmp_path / "live", model) as live:
        answers = live.submit([event(row, id="a"), event(row, id="b"), event(row, id="a")])
        assert [answer.repeated for answer in answers] == [True, True, True]
        assert not any(answer.differs for answer in answers)
        live.label([{"id": "a", "label": 1}, {"id": "b", "label": 0}])
        assert live.n_labels == 1, "one of the two has its label already"
        assert live.health()["n_events"] == 0


def test_events_must_have_the_fields_of_features(tmp_path):
    good = event(N_FITTED)
    bare = {name: value for name, value in good.items() if name != "amount"}
    live = LiveModel.open(tmp_path / "live", classifier())
    (answer,) = live.submit([bare])
    assert (answer.error.field, answer.error.value) == ("amount", None)
    assert "'amount'" in answer.error.message
    renamed = live.submit([{**bare, "amt": 5.0}])[0].error.message
    assert "'amt'" in renamed
    assert "renamed" in renamed
    assert [error.field for error in live.check([good, bare])] == ["amount"]
    assert live.submit([{**bare, "amount": None}])[0].error is None
    assert live.submit([bare])[0].repeated, "an event that came before is known"
    live.close()
    live = LiveModel.open(tmp_path / "live", allow_missing=True)
    first = live.submit([{**bare, "id": "q", "src": "another"}])[0]
    assert first.error is None
    crash(live)
    with LiveModel.open(tmp_path / "live", allow_missing=False) as live:
        assert live.health()["set_aside"] == [], "it is replayed"
        assert live.submit([{**bare, "id": "q", "src": "another"}])[0].score == first.score
        assert live.submit([{**bare, "id": "r"}])[0].error is not None
    with LiveModel.open(tmp_path / "live") as live:
        assert live.settings.allow_missing is False, "it is stored"
    with pytest.raises(ParameterError, match="allow_missing"):
        LiveModel.open(tmp_path / "live", allow_missing="yes")


def test_the_field_of_a_feature_is_named_as_events_name_it(tmp_path):
    with LiveModel.open(tmp_path / "live", classifier(), columns={"amount": "EUR"}) as live:
        (answer,) = live.submit([event(N_FITTED)])
        assert answer.error.field == "amount"
        assert "lacks 'EUR'" in answer.error.message
        assert "'amount', which the model does not use" in answer.error.message


def test_bursts_need_no_features(tmp_path):
    bare = {name: value for name, value in event(N_FITTED).items() if name != "amount"}
    with LiveModel.open(tmp_path / "live", detector()) as live:
        assert live.submit([bare])[0].error is None


def test_ids_that_no_answer_can_show_are_refused(live):
    answers = live.submit([event(N_FITTED, id="a\ud800"), event(N_FITTED, src="b\udfff")])
    assert [answer.error.field for answer in answers] == ["id", "src"]
    answers = live.submit([event(N_FITTED, id=np.inf), event(N_FITTED, src=-np.inf), event(N_FITTED + 1, dst=1e300)])
    assert [answer.error.field for answer in answers] == ["id", "src", "dst"]
    (answer,) = live.label([{"id": "a\ud800", "label": 1}])
    assert answer.error.parameter == "id"
    assert not isinstance(answer.error, UnknownEventError)


def test_a_forgotten_node_still_has_its_fitted_interactions(live):
    node = str(EDGES.src[0])
    fitted_before = live.node(node)["n_fitted"]
    assert fitted_before == (EDGES.src[:N_FITTED] == node).sum()
    nodes = live._state.scorer.nodes
    nodes.forget(np.array([nodes.find(node, 0)]))
    assert live.node(node)["n_fitted"] == fitted_before
    assert live.node("nobody")["n_fitted"] == 0
    listed = live.node(node, limit=3)["events"]
    assert [one["time"] for one in listed] == sorted(one["time"] for one in live.node(node, limit=500)["events"])[-3:]
