"""Reviewers and what they do: logged, the same after a replay, never over another's decision, and beside a service."""

import json
import os

import pytest
from typer.testing import CliRunner

from live_payments import N_FITTED, classifier, event, events
from tdlg.cli import app
from tdlg.cli.output import one_line
from tdlg.exceptions import ParameterError, TdlgError, TdlgWarning
from tdlg.live.model import LiveModel
from tdlg.live.review import ConflictError, hash_of, leave_action, new_person
from tdlg.live.scorer import UnknownEventError
from tdlg.tables.ids import id_key

pytestmark = pytest.mark.usefixtures("few_trees")

FIRST = range(N_FITTED, N_FITTED + 12)
LATER = range(N_FITTED + 12, N_FITTED + 60)


@pytest.fixture
def live(tmp_path):
    """Every event is an alert; anna and lee review."""
    with LiveModel.open(tmp_path / "live", classifier(), threshold=-1.0) as opened:
        opened.act(new_person("anna")[0])
        opened.act(new_person("lee", "lead")[0], by="lee")
        opened.submit(events(FIRST))
        yield opened


def ids(rows=FIRST):
    return [event(row)["id"] for row in rows]


def alert_of(live, id):
    return next(one for one in live.alerts("all", 1000, explained=False) if one.id == id)


def crash(live):
    """Let go of the directory without a snapshot, as a killed process does."""
    folder = live._directory.folder
    live._directory.close()
    return LiveModel.open(folder)


def everything(live):
    alerts = [{**vars(alert), "columns": None, "reason": None} for alert in live.alerts("all", 1000, explained=False)]
    return (
        alerts,
        live.people,
        live.team(),
        live.audit(),
        live.changes(),
        live.statistics()["by_reviewer"],
    )


def do_all(live):
    """Something of each kind."""
    a, b, c, d = ids()[:4]
    live.act({"do": "reasons", "reasons": ["travels", "other"]}, by="lee")
    live.decide([{"id": a, "label": 1, "note": "called: it was not them"}], by="anna")
    live.decide([{"id": b, "label": 0, "reason": "travels"}, {"id": c, "assignee": "lee"}], by="anna")
    live.decide([{"id": c, "note": "waits for an answer"}], by="lee")
    live.decide([{"id": d, "label": 1}], by="lee")
    live.decide([{"id": d, "label": None}], by="lee")
    live.act({"do": "snooze", "nodes": [event(FIRST[4])["src"]], "until": "2099-01-01", "note": "abroad"}, by="anna")
    live.act({"do": "snooze", "nodes": ["x", 7]}, by="anna")
    live.act({"do": "wake", "nodes": ["x", "7"]}, by="anna")
    live.act({"do": "person", "name": "lee", "role": "lead", "token": None})


def test_what_was_done_is_known(live):
    do_all(live)
    a, b, c, d = (alert_of(live, id) for id in ids()[:4])
    assert (a.status, a.by, a.model, a.notes[0]["note"]) == (
        "confirmed",
        "anna",
        "generation-0001",
        "called: it was not them",
    )
    assert (b.status, b.by, b.dismissal, b.label) == ("dismissed", "anna", "travels", 0)
    assert (c.status, c.assignee, [note["by"] for note in c.notes]) == ("open", "lee", ["lee"])
    assert (d.status, d.by, d.label) == ("open", "lee", None)
    assert a.at.endswith("Z")
    found = live.statistics()
    assert found["by_reviewer"] == [{"reviewer": "anna", "reviewed": 2, "confirmed": 1}]
    assert found["by_reason"] == [{"reason": "travels", "dismissed": 1}]
    assert [*live.people] == ["anna"]
    assert [one["nodes"] for one in live.team()["snoozed"]] == [[event(FIRST[4])["src"]]]
    assert [entry["do"] for entry in live.audit(3)] == ["person", "wake", "snooze"]
    assert "token" not in json.dumps(live.audit())


@pytest.mark.parametrize("with_snapshot", [False, True, "before"])
def test_a_replay_and_a_snapshot_give_the_same(live, with_snapshot):
    if with_snapshot == "before":
        live.snapshot()
    do_all(live)
    if with_snapshot is True:
        live.snapshot()
    live.submit(events(LATER))
    before, scores = everything(live), [answer.score for answer in live.submit(events(LATER))]
    with crash(live) as again:
        assert everything(again) == before
        assert [answer.score for answer in again.submit(events(LATER))] == scores


def test_nobody_overwrites_a_decision_without_seeing_it(live):
    id = ids()[0]
    seen = alert_of(live, id).version
    (first,) = live.decide([{"id": id, "label": 1, "version": seen}], by="anna")
    assert first.error is None
    (second,) = live.decide([{"id": id, "label": 0, "version": seen}], by="lee")
    assert isinstance(second.error, ConflictError)
    assert str(second.error) == "The alert was changed by anna meanwhile: it is confirmed now. Look at it again."
    assert alert_of(live, id).label == 1
    (third,) = live.decide([{"id": id, "label": None, "version": first.alert.version}], by="lee")
    assert (third.error, third.alert.status) == (None, "open")


def test_an_alert_has_its_latest_notes(live, monkeypatch):
    monkeypatch.setattr("tdlg.live.review.MOST_NOTES", 3)
    for k in range(5):
        live.decide([{"id": ids()[0], "note": str(k)}], by="anna")
    before = everything(live)
    assert [note["note"] for note in alert_of(live, ids()[0]).notes] == ["2", "3", "4"]
    assert [entry["note"] for entry in live.audit(5)] == ["4", "3", "2", "1", "0"], "the log has all"
    with crash(live) as again:
        assert everything(again) == before


def test_an_answer_has_the_version_of_its_change(live):
    """Else its reader would undo by it what somebody else did in between."""
    id = ids()[0]
    (first,) = live.decide([{"id": id, "label": 1}], by="anna")
    live.decide([{"id": id, "note": "wait", "label": 0}], by="lee")
    assert (first.alert.status, first.alert.by, first.alert.notes) == ("confirmed", "anna", [])
    (undone,) = live.decide([{"id": id, "label": None, "version": first.alert.version}], by="anna")
    assert isinstance(undone.error, ConflictError)


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        ({"id": "nobody", "label": 1}, UnknownEventError, "no alert with the id 'nobody'"),
        ({"id": [1], "label": 1}, UnknownEventError, "no alert"),
        ({"label": "odd"}, TdlgError, "odd"),
        ({}, ParameterError, "needs a label, a note or an assignee"),
        ({"label": 0, "reason": "no such"}, ParameterError, "must be one of 'known customer'"),
        ({"assignee": "bob"}, ParameterError, r"\(anna, lee\). Got 'bob'"),
        ({"assignee": []}, ParameterError, r"\(anna, lee\). Got \[\]"),
        ({"assignee": {"a": 1}}, ParameterError, "Got {'a': 1}"),
        ({"label": [], "assignee": "anna"}, TdlgError, r"\[\]"),
        ({"note": []}, ParameterError, "at most 2000 characters"),
        ({"label": 0, "reason": []}, ParameterError, "must be one of"),
        ({"label": 0, "version": []}, ConflictError, "Look at it again"),
        ({"note": 5}, ParameterError, "at most 2000 characters"),
        ({"note": "x" * 2001}, ParameterError, "at most 2000 characters"),
        ({"note": "\ud800"}, ParameterError, "half of a character"),
    ],
)
def test_what_cannot_be_done_is_said_and_not_logged(live, change, error, words):
    end = live.health()["last_sequence"]
    (answer,) = live.decide([{"id": ids()[0], **change}])
    assert isinstance(answer.error, error)
    with pytest.raises(error, match=words):
        raise answer.error
    assert live.health()["last_sequence"] == end


@pytest.mark.parametrize(
    ("action", "words"),
    [
        ({"do": "dance"}, "Got 'dance'"),
        ({"do": "person", "name": "a b", "role": "lead", "token": "x"}, "Got 'a b'"),
        ({"do": "person", "name": "bob", "role": "boss", "token": "x"}, "Got 'boss'"),
        ({"do": "person", "name": "bob", "role": "lead", "token": None}, "no reviewer 'bob'"),
        ({"do": "reasons", "reasons": []}, "list of 1 to 50"),
        ({"do": "reasons", "reasons": [""]}, "text of at most 80"),
        ({"do": "snooze", "nodes": ["a", "b", "c"]}, "one, or two"),
        ({"do": "snooze", "nodes": [True]}, "Got True"),
        ({"do": "snooze", "nodes": ["a"], "until": "2001-01-01"}, "A snooze ends after now"),
        ({"do": "snooze", "nodes": ["a"], "until": "soon"}, "soon"),
        ({"do": "wake", "nodes": ["a"]}, "a is not snoozed"),
    ],
)
def test_other_actions_are_checked(live, action, words):
    end = live.health()["last_sequence"]
    with pytest.raises(Exception, match=words):
        live.act(action)
    assert live.health()["last_sequence"] == end


def test_the_snoozed_are_scored_and_learnt_from_but_raise_no_alert(live, tmp_path):
    rows = [*LATER]
    src, pair = event(rows[0])["src"], [event(rows[1])["src"], event(rows[1])["dst"]]
    until = event(rows[30])["time"]
    live.act({"do": "snooze", "nodes": [src], "until": until})
    live.act({"do": "snooze", "nodes": pair})
    with LiveModel.open(tmp_path / "other", classifier(), threshold=-1.0) as other:
        other.submit(events(FIRST))
        for row in rows:
            (found,), (expected,) = live.submit([event(row)]), other.submit([event(row)])
            one = event(row)
            is_snoozed = (one["src"] == src and row < rows[30]) or [one["src"], one["dst"]] == pair
            assert found.score == expected.score
            assert found.alert is not is_snoozed
    assert [one["nodes"] for one in live.team()["snoozed"]] == [pair], "the other one has ended"


def test_a_question_changes_nothing(live):
    """A late event in a snooze that has ended raises no alert, whether somebody opened the desk meanwhile or not."""
    late, now = LATER[5], LATER[-1]
    live.act({"do": "snooze", "nodes": [event(late)["src"]], "until": event(late + 1)["time"]})
    live.submit([event(now)])
    assert live.team()["snoozed"] == []
    assert not live.submit([event(late)])[0].alert
    before = everything(live)
    with crash(live) as again:
        assert everything(again) == before


def test_only_what_is_still_snoozed_counts_as_snoozed(live, monkeypatch):
    monkeypatch.setattr("tdlg.live.review.MOST_SNOOZED", 2)
    live.act({"do": "snooze", "nodes": ["a"], "until": event(LATER[1])["time"]})
    live.act({"do": "snooze", "nodes": ["b"]})
    with pytest.raises(ParameterError, match="2 nodes and pairs are snoozed"):
        live.act({"do": "snooze", "nodes": ["c"]})
    live.act({"do": "snooze", "nodes": ["b"], "note": "again"})
    live.submit([event(LATER[2])])
    live.act({"do": "snooze", "nodes": ["c"]})
    assert [one["nodes"] for one in live.team()["snoozed"]] == [["b"], ["c"]]


class TestCommands:
    def run(self, *arguments):
        return CliRunner().invoke(app, [*map(str, arguments)])

    def test_a_token_is_added_beside_the_process_that_holds_the_state(self, live, tmp_path):
        result = self.run("token", "add", "zoe", "--state", tmp_path / "live", "--role", "lead")
        assert result.exit_code == 0, result.output
        token = result.stdout.strip()
        live._looked_at = 0.0
        live.work()
        assert live.people["zoe"][1:] == ("lead", hash_of(token))
        assert token.encode() not in b"".join(path.read_bytes() for path in (tmp_path / "live").glob("log-*"))
        assert self.run("token", "revoke", "zoe", "--state", tmp_path / "live").stdout == ""
        with crash(live) as again:
            assert [*again.people] == ["anna", "lee"], "what is left is done at the next start"

    @pytest.mark.parametrize(
        ("arguments", "words"),
        [
            (("give", "zoe"), "'give' is not one of"),
            (("add", "zoe zoe"), "Got 'zoe zoe'"),
            (("add", "zoe", "--role", "boss"), "'boss' is not one of"),
        ],
    )
    def test_mistakes_are_told(self, live, tmp_path, arguments, words):
        result = self.run("token", *arguments, "--state", tmp_path / "live")
        assert result.exit_code
        assert words in result.stderr
        assert self.run("token", "add", "zoe", "--state", tmp_path / "nowhere").exit_code

    def test_what_cannot_be_done_is_told_and_dropped(self, live, tmp_path):
        leave_action(tmp_path / "live", {"do": "person", "name": "bob", "role": "lead", "token": None})
        (tmp_path / "live" / "actions" / "0.json").write_text("nonsense")
        live._looked_at = 0.0
        with pytest.warns(TdlgWarning, match=r"cannot be (done|read)") as told:
            live.work()
        assert len(told) == 2
        assert not [*(tmp_path / "live" / "actions").iterdir()]
        assert live.submit([event(LATER[0])])[0].score is not None

    def test_what_this_user_may_not_take_is_never_done(self, live, tmp_path, monkeypatch):
        leave_action(tmp_path / "live", new_person("zoe")[0])

        def refuse(*paths, **options):
            raise PermissionError(13, "Permission denied")

        end = live.health()["last_sequence"]
        with monkeypatch.context() as patch:
            for name in ("replace", "unlink"):
                patch.setattr(os, name, refuse)
            for _ in range(3):
                live._looked_at = 0.0
                with pytest.warns(TdlgWarning, match="this user may not take: Permission denied"):
                    live.work()
            assert live.health()["last_sequence"] == end
            assert live.health()["snapshot_failure"] is None
            with pytest.warns(TdlgWarning, match="may not take"), crash(live) as again:
                assert "zoe" not in again.people
        with LiveModel.open(tmp_path / "live") as again:
            assert "zoe" in again.people

    def test_what_was_taken_before_a_crash_is_done(self, live, tmp_path):
        leave_action(tmp_path / "live", new_person("zoe")[0])
        (path,) = (tmp_path / "live" / "actions").iterdir()
        path.rename(path.with_suffix(".json-taken"))
        with crash(live) as again:
            assert "zoe" in again.people
        assert not [*(tmp_path / "live" / "actions").iterdir()]

    @pytest.mark.skipif(os.name != "posix" or os.geteuid() != 0, reason="only root can give files away")
    def test_what_root_leaves_belongs_to_the_user_of_the_state(self, live, tmp_path):
        os.chown(tmp_path / "live", 12345, 23456)
        leave_action(tmp_path / "live", new_person("zoe")[0])
        (path,) = (tmp_path / "live" / "actions").iterdir()
        assert {(one.stat().st_uid, one.stat().st_gid) for one in (path, path.parent)} == {(12345, 23456)}

    def test_snoozes_come_from_a_file_and_are_ended_by_it(self, live, tmp_path):
        file = tmp_path / "known.csv"
        file.write_text(
            "\ufeffnode,to,until,note\n17,,,our own account\n 17 ,18,2099-01-01,\nbob,,2001-01-01,too late\n"
        )
        result = self.run("snooze", file, "--state", tmp_path / "live")
        assert (result.exit_code, result.stderr) == (0, "left for the process that uses the state: 3 snoozes\n")
        live._looked_at = 0.0
        with pytest.warns(TdlgWarning, match="A snooze ends after now") as told:
            live.work()
        assert len(told) == 1, "the others are done"
        found = [(one["nodes"], one["until"], one["note"]) for one in live.team()["snoozed"]]
        assert found == [(["17"], None, "our own account"), (["17", "18"], "2099-01-01", "")]
        assert live._state.review.is_snoozed(id_key(17), id_key("x"), 0)
        assert self.run("snooze", file, "--state", tmp_path / "live", "--end").exit_code == 0
        live._looked_at = 0.0
        with pytest.warns(TdlgWarning, match="bob is not snoozed"):
            live.work()
        assert live.team()["snoozed"] == []

    def test_a_file_of_snoozes_is_one_sync(self, live, tmp_path, monkeypatch):
        log = live._directory.log
        synced, sync = [], log.sync
        monkeypatch.setattr(log, "sync", lambda: synced.append(sync()))
        monkeypatch.setattr("tdlg.live.review.MOST_SNOOZED", 300)
        leave_action(tmp_path / "live", [{"do": "snooze", "nodes": [f"n{k}"]} for k in range(302)])
        live._looked_at = 0.0
        with pytest.warns(TdlgWarning, match="300 nodes and pairs are snoozed") as told:
            live.work()
        assert (len(synced), len(told), len(live.team()["snoozed"])) == (1, 2, 300)
        before = everything(live)
        monkeypatch.undo()
        with crash(live) as again:
            assert everything(again) == before

    @pytest.mark.parametrize(
        ("text", "words"),
        [
            ("node,why\nann,x\n", "the columns are node, to, until and note; node is needed. Got node, why."),
            ("", "Got ."),
            ("node,until\nann,\n,2030-01-01\n", "line 3: A node is text or a number. Got ''"),
            (f"node,note\nann,{'x' * 2001}\n", "line 2: The note must be text of at most 2000"),
            ("node\n\xff", "no csv file in UTF-8"),
        ],
    )
    def test_mistakes_in_a_file_of_snoozes_are_told(self, live, tmp_path, text, words):
        (tmp_path / "known.csv").write_text(text, encoding="latin-1")
        result = self.run("snooze", tmp_path / "known.csv", "--state", tmp_path / "live")
        assert result.exit_code
        assert words in one_line(result.stderr)
        assert not (tmp_path / "live" / "actions").exists(), "all or nothing"
        assert self.run("snooze", tmp_path / "nowhere.csv", "--state", tmp_path / "live").exit_code

    def test_the_audit_of_the_log(self, live, tmp_path):
        do_all(live)
        result = self.run("audit", "--state", tmp_path / "live")
        assert result.exit_code == 0, result.output
        found = [json.loads(line) for line in result.stdout.splitlines()]
        assert found == live.audit()[::-1]
