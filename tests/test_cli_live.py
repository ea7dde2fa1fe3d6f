"""The commands score --state, stream and refit."""

import csv
import json
import os
import signal
import subprocess
import sys
import time
from copy import deepcopy

import numpy as np
import pytest

from live_payments import EDGES, LABEL_TIME, N_FITTED, N, batch_scores, classifier, detector, event, events, id_of
from tdlg.live import refit as refits
from tdlg.live.lines import end_torn_line
from tdlg.live.model import LiveModel
from test_cli import ok, rows_of, run

pytestmark = pytest.mark.usefixtures("few_trees")

NAMES = {"id": "payment", "src": "customer", "dst": "shop", "time": "when", "amount": "amount"}
COLUMNS = ["--src", "customer", "--dst", "shop", "--time", "when"]


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    path = tmp_path_factory.mktemp("model") / "model.tdlg"
    classifier().save(path)
    return path


def write(path, rows, *, known=None, names=("payment", "customer", "shop", "when", "amount", "fraud", "known")):
    """Payments as csv, with the labels that were known at a time; later ones are empty."""
    with path.open("w", newline="") as file:
        out = csv.DictWriter(file, names, extrasaction="ignore")
        out.writeheader()
        for row in rows:
            one = {NAMES[name]: value for name, value in event(row).items()}
            if known is not None and LABEL_TIME[row] <= known:
                one |= {"fraud": int(EDGES.label[row]), "known": str(LABEL_TIME[row])}
            out.writerow({**one, "when": one["when"].replace("T", " ")})
    return path


def probabilities(result):
    return [float(row["probability"]) for row in rows_of(result.stdout)]


def lines(given):
    return "".join(json.dumps(one) + "\n" for one in given)


def answers(result):
    return [json.loads(line) for line in result.stdout.splitlines()]


# ---- nightly tables


def scores_of_tables(parts):
    """The scores of new rows, from the model with all tables before and the labels that these have."""
    model, found, start = deepcopy(classifier()), {}, N_FITTED
    for rows in parts:
        edges = EDGES.with_label(np.where(EDGES.time[rows[-1]] >= LABEL_TIME, EDGES.label, np.nan), LABEL_TIME)
        model.update(edges[rows[0] : start])
        scores = model.predict_proba(edges[start : rows[-1] + 1])[:, 1]
        found |= zip(range(start, rows[-1] + 1), scores, strict=True)
        model.update(edges[start : rows[-1] + 1])
        start = rows[-1] + 1
    return found


def test_tables_that_come_one_after_the_other(model, tmp_path):
    """Each row has the score that it has in one table with all that came before and the labels known then."""
    parts = [range(N_FITTED, 620), range(600, 750), range(700, N)]  # which overlap
    found = {}
    for number, rows in enumerate(parts):
        table = write(tmp_path / f"day {number}.csv", rows, known=EDGES.time[rows[-1]])
        first = [*COLUMNS, "--id", "payment", "--label", "fraud", "--label-time", "known"] if number == 0 else []
        result = ok("score", model, table, "--state", tmp_path / "live", *first)
        again = {row: score for row, score in zip(rows, probabilities(result), strict=True)}
        assert all(found[row] == again[row] for row in found if row in again), (
            "a row that comes again has the same score"
        )
        found |= again
        assert "labels of earlier rows learnt" in result.stderr or number == 0
    want = scores_of_tables(parts)
    assert np.max([abs(found[row] - want[row]) for row in range(N_FITTED, N)]) < 1e-6
    with LiveModel.open(tmp_path / "live") as live:
        assert live.health()["n_events"] == N - N_FITTED
        assert live.position["file"] == "day 2.csv"


def test_a_table_is_scored_like_without_a_state(model, tmp_path):
    table = write(tmp_path / "new.csv", range(N_FITTED, N))
    plain = ok("score", model, table, *COLUMNS)
    kept = ok("score", model, table, "--state", tmp_path / "live", *COLUMNS)
    assert kept.stdout == plain.stdout
    again = ok("score", model, table, "--state", tmp_path / "live")
    assert again.stdout == plain.stdout
    assert f"0 new rows, {N - N_FITTED} seen before" in again.stderr


@pytest.mark.parametrize("with_id", [False, True])
def test_rows_that_the_model_was_fitted_on_do_not_count_again(model, tmp_path, with_id):
    table = write(tmp_path / "all.csv", range(N_FITTED - 100, N_FITTED + 50), known=EDGES.time[N_FITTED + 50])
    labels = ["--label", "fraud", "--label-time", "known"] if with_id else []
    result = ok(
        "score", model, table, "--state", tmp_path / "live", *COLUMNS, *["--id", "payment"][: 2 * with_id], *labels
    )
    assert "50 new rows, 100 seen before" in result.stderr
    assert ("labels of earlier rows learnt" in result.stderr) is with_id
    assert all(0 <= one <= 1 for one in probabilities(result))
    want = classifier().predict_proba(EDGES[N_FITTED : N_FITTED + 50].with_label(None))[:, 1]
    assert with_id or np.allclose(probabilities(result)[100:], want, rtol=0, atol=1e-6)


def test_a_table_without_labels_follows_one_with_labels(model, tmp_path):
    first = write(tmp_path / "a.csv", range(N_FITTED, 600), known=EDGES.time[600])
    options = [*COLUMNS, "--label", "fraud", "--label-time", "known"]
    ok("score", model, first, "--state", tmp_path / "live", *options)
    second = write(tmp_path / "b.csv", range(600, 700), names=("customer", "shop", "when", "amount"))
    result = ok("score", model, second, "--state", tmp_path / "live")
    assert "no column 'fraud': no labels are read" in result.stderr
    assert len(probabilities(result)) == 100
    missing = run("score", model, second, "--state", tmp_path / "live", "--label", "fraud")
    assert missing.exit_code == 1
    assert "'fraud'" in missing.stderr


def test_labels_without_a_time_become_known_when_they_come(model, tmp_path):
    first = write(tmp_path / "a.csv", range(N_FITTED, 600))
    ok("score", model, first, "--state", tmp_path / "live", *COLUMNS, "--id", "payment", "--label", "fraud")
    second = write(tmp_path / "b.csv", range(590, 650), known=EDGES.time[-1])
    result = ok("score", model, second, "--state", tmp_path / "live")
    assert "10 labels of earlier rows learnt" in result.stderr
    assert "10 labels" not in ok("score", model, second, "--state", tmp_path / "live").stderr, "they are known"


def test_a_label_of_an_earlier_row_that_is_refused_is_reported(model, tmp_path):
    one = event(N_FITTED)
    ok("stream", model, "--state", tmp_path / "live", stdin=lines([one]))
    result = ok("stream", "--state", tmp_path / "live", stdin=lines([{**one, "label": "odd"}, {**one, "label": 1}]))
    assert "line 1 has a label that was refused: label: " in result.stderr
    assert [answer["repeated"] for answer in answers(result)] == [True, True]
    with LiveModel.open(tmp_path / "live") as live:
        assert live.event(one["id"])["label"] == 1


def test_a_row_that_is_too_old_is_not_scored(model, tmp_path):
    path = tmp_path / "old.csv"
    path.write_text("customer,shop,when,amount\na,b,2001-01-01,5\na,b,2025-06-01,5\n")
    result = ok("score", model, path, "--state", tmp_path / "live", *COLUMNS)
    rows = rows_of(result.stdout)
    assert rows[0]["probability"] == ""
    assert rows[1]["probability"] != ""
    assert "row 1 is not scored" in result.stderr


def test_a_state_of_another_model_and_a_missing_id(model, tmp_path):
    table = write(tmp_path / "new.csv", range(N_FITTED, 600))
    missing = run("score", model, table, "--state", tmp_path / "live", *COLUMNS, "--id", "number")
    assert missing.exit_code == 1
    assert "no column 'number'" in missing.stderr
    detector().save(tmp_path / "bursts.tdlg")
    other = run("score", tmp_path / "bursts.tdlg", table, "--state", tmp_path / "live", *COLUMNS)
    assert other.exit_code == 1
    assert "another model" in other.stderr


def test_bursts_have_a_state_too(tmp_path):
    detector().save(tmp_path / "bursts.tdlg")
    table = write(tmp_path / "new.csv", range(N_FITTED, N))
    plain = ok("score", tmp_path / "bursts.tdlg", table, *COLUMNS)
    assert ok("score", tmp_path / "bursts.tdlg", table, "--state", tmp_path / "live", *COLUMNS).stdout == plain.stdout


# ---- streams


def test_a_stream_is_answered_line_by_line(model, tmp_path):
    given = events()
    result = ok("stream", model, "--state", tmp_path / "live", stdin=lines(given))
    found = answers(result)
    assert [one["id"] for one in found] == [one["id"] for one in given]
    want = classifier().predict_proba(EDGES[N_FITTED:].with_label(None))[:, 1]
    np.testing.assert_allclose([one["score"] for one in found], want, atol=1e-6)
    assert set(found[0]) == {"id", "score", "predicted", "alert", "late", "repeated"}
    again = answers(ok("stream", "--state", tmp_path / "live", stdin=lines(given)))
    assert [one["score"] for one in again] == [one["score"] for one in found]
    assert all(one["repeated"] for one in again)


def test_the_names_of_a_table_hold_for_events(model, tmp_path):
    table = write(tmp_path / "a.csv", range(N_FITTED, 600), known=EDGES.time[600])
    ok("score", model, table, "--state", tmp_path / "live", *COLUMNS, "--id", "payment", "--label", "fraud")
    given = [{NAMES[name]: value for name, value in event(row).items()} for row in range(600, 610)]
    given.append({"payment": id_of(600), "fraud": 1})
    found = answers(ok("stream", "--state", tmp_path / "live", stdin=lines(given)))
    assert [one["id"] for one in found] == [id_of(row) for row in range(600, 610)]
    with LiveModel.open(tmp_path / "live") as live:
        assert live.event(id_of(600))["label"] == 1


def test_names_given_to_a_stream(model, tmp_path):
    given = [{NAMES[name]: value for name, value in event(row).items()} for row in range(N_FITTED, 510)]
    ok("stream", model, "--state", tmp_path / "live", *COLUMNS, "--id", "payment", stdin=lines(given[:5]))
    assert len(answers(ok("stream", "--state", tmp_path / "live", stdin=lines(given[5:])))) == 5


def test_a_line_with_an_error_is_skipped_or_stops(model, tmp_path):
    good = lines(events(range(N_FITTED, 502))).splitlines()
    bad = ["nonsense", "[1]", json.dumps({**event(502), "time": "soon"}), json.dumps({"id": "x", "label": 1})]
    text = "\n".join([good[0], "", *bad, good[1]])  # and no line break at the end
    result = ok("stream", model, "--state", tmp_path / "a", stdin=text)
    assert [one["id"] for one in answers(result)] == [id_of(N_FITTED), id_of(N_FITTED + 1)]
    for number, why in [(3, "not JSON"), (4, "not a JSON object"), (5, "time: "), (6, "'x'")]:
        assert f"line {number} is skipped: " in result.stderr
        assert why in result.stderr
    for number, line in enumerate(bad):
        strict = run(
            "stream", model, "--state", tmp_path / f"{number}", "--strict", stdin=f"{good[0]}\n{line}\n{good[1]}\n"
        )
        assert strict.exit_code == 1
        assert "error: line 2: " in strict.stderr
        assert [one["id"] for one in answers(strict)] == [id_of(N_FITTED)]
        with LiveModel.open(tmp_path / f"{number}") as live:
            assert live.health()["n_events"] == 1


def test_a_line_in_the_far_future_is_skipped_unless_that_is_wanted(model, tmp_path):
    future = event(N_FITTED + 5, time="2999-01-01T00:00:00")
    result = ok("stream", model, "--state", tmp_path / "live", stdin=lines([future, event(N_FITTED)]))
    assert "line 1 is skipped: time: The time is " in result.stderr
    assert "--ahead" in result.stderr
    (answer,) = answers(result)
    assert (answer["id"], answer["late"]) == (id_of(N_FITTED), False)
    result = ok("stream", "--state", tmp_path / "live", "--ahead", "500000d", stdin=lines([future]))
    assert answers(result)[0]["id"] == future["id"]


def test_a_line_without_the_field_of_a_feature(model, tmp_path):
    bare = {name: value for name, value in event(N_FITTED).items() if name != "amount"}
    result = ok("stream", model, "--state", tmp_path / "live", stdin=lines([{**bare, "amt": 5}]))
    assert "line 1 is skipped: amount: The event lacks 'amount'" in result.stderr
    assert "'amt'" in result.stderr
    assert "None" not in result.stderr
    strict = run("stream", "--state", tmp_path / "live", "--strict", stdin=lines([bare]))
    assert strict.exit_code == 1
    result = ok("stream", "--state", tmp_path / "live", "--allow-missing", stdin=lines([bare]))
    assert answers(result)[0]["id"] == bare["id"]
    again = ok("stream", "--state", tmp_path / "live", stdin=lines([{**bare, "amount": 5}, {**bare, "src": "x"}]))
    assert [one.get("differs") for one in answers(again)] == [True, True]


def test_a_record_that_is_set_aside_is_said(model, tmp_path):
    with LiveModel.open(tmp_path / "live", model) as live:
        live._directory.log.append(3, b'{"columns":{"customer":"src"}}')
        live._directory.log.sync()
        live._failure = RuntimeError("killed")
    result = ok("stream", "--state", tmp_path / "live", stdin=lines(events(range(N_FITTED, 502))))
    assert "warning: Record 1 of the log (1 setting) cannot be learnt and is set aside" in result.stderr
    assert len(answers(result)) == 2


def test_many_complaints_are_not_all_shown(model, tmp_path):
    result = ok("stream", model, "--state", tmp_path / "live", stdin="nonsense\n" * 50)
    assert result.stderr.count("is skipped") == 20
    assert "50 lines were skipped in all" in result.stderr


def test_a_stream_goes_on_where_it_was(model, tmp_path, monkeypatch):
    monkeypatch.setattr("tdlg.cli.stream.MOST_LINES", 10)
    given = lines(events(range(N_FITTED, N_FITTED + 45))).splitlines(keepends=True)
    ok("stream", model, "--state", tmp_path / "live", stdin="".join(given[:25]))
    result = ok("stream", "--state", tmp_path / "live", "--resume", stdin="".join(given))
    assert "continuing after line 20" in result.stderr
    found = answers(result)
    assert [one["id"] for one in found] == [id_of(N_FITTED + k) for k in range(20, 45)]
    assert [one["repeated"] for one in found] == [True] * 5 + [False] * 20, "the last answers may not have been written"


@pytest.mark.skipif(not os.path.exists("/proc/self/fd"), reason="no such files")
@pytest.mark.parametrize(
    ("end", "kept"),
    [(b'{"id":"p9","sco', b""), (b'{"i', b""), (b'{"id":"p9"}', b'{"id":"p9"}\n'), (b"note", b"note\n")],
)
def test_answers_are_not_appended_to_a_torn_line(tmp_path, end, kept):
    """A crash or a full disk can tear the last line; the line after it must not be lost too."""
    path = tmp_path / "scores.jsonl"
    path.write_bytes(b'{"id":"p8"}\n' + end)
    with path.open("ab") as file:
        end_torn_line(file.fileno())
        file.write(b'{"id":"p9"}\n')
    assert path.read_bytes() == b'{"id":"p8"}\n' + kept + b'{"id":"p9"}\n'


def test_labels_in_a_stream(model, tmp_path):
    rows = range(N_FITTED, N)
    known = [row for row in rows if LABEL_TIME[row] <= EDGES.time[-1]]
    both = [(EDGES.time[row], 1, event(row)) for row in rows]
    both += [
        (LABEL_TIME[row], 0, {"id": id_of(row), "label": int(EDGES.label[row]), "label_time": str(LABEL_TIME[row])})
        for row in known
    ]
    given = [one for *_, one in sorted(both, key=lambda act: act[:2])]
    found = answers(ok("stream", model, "--state", tmp_path / "live", stdin=lines(given)))
    np.testing.assert_allclose([one["score"] for one in found], batch_scores(), atol=1e-6)


@pytest.mark.skipif(not os.path.exists("/proc/self/fd"), reason="no such signals and files")
@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGTERM, 0), pytest.param(signal.SIGINT, 130, marks=pytest.mark.needs("time"))]
)
def test_a_signal_ends_a_stream_with_a_snapshot(model, tmp_path, number, code):
    command = [sys.executable, "-m", "tdlg", "stream", model, "--state", tmp_path / "live"]
    path, first = tmp_path / "scores.jsonl", id_of(N_FITTED)
    path.write_text(f'{{"id":"{first}","score":0.0')  # which a crash has torn
    pipes = {"stdin": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with path.open("a") as out, subprocess.Popen([str(one) for one in command], stdout=out, **pipes) as process:
        process.stdin.write(lines(events([N_FITTED])) + lines(events([N_FITTED + 1]))[:-9])
        process.stdin.flush()
        while not path.read_text().endswith("\n"):  # it does not wait for more lines
            assert process.poll() is None, process.stderr.read()
            time.sleep(0.01)
        process.send_signal(number)
        assert process.wait(60) == code, process.stderr.read()
        assert "skipped" not in process.stderr.read(), "a part of a line is not a line"
    assert [json.loads(line)["id"] for line in path.read_text().splitlines()] == [first]
    with LiveModel.open(tmp_path / "live") as live:
        health = live.health()
        assert (health["snapshot_sequence"], health["n_events"]) == (health["last_sequence"], 1)


def test_a_stream_needs_a_model_or_a_state(tmp_path):
    result = run("stream", "--state", tmp_path / "live", stdin="")
    assert result.exit_code == 1
    assert "no state directory" in result.stderr


# ---- refit


def test_refit(model, tmp_path, monkeypatch):
    monkeypatch.setattr(refits, "LEAST_OF_CLASS", 5)
    table = write(tmp_path / "a.csv", range(N_FITTED, N), known=EDGES.time[-1])
    ok("score", model, table, "--state", tmp_path / "live", *COLUMNS, "--label", "fraud", "--label-time", "known")
    result = ok("refit", "--state", tmp_path / "live", "--force")
    assert "labelled events" in result.stderr
    assert [row.split()[0] for row in result.stdout.splitlines()] == ["AUC", "old", "new"]
    assert "of them had been alerts" in result.stderr
    assert "80 % interval" in result.stderr
    assert "the new model is in use, as generation-0002: " in result.stderr
    assert "generation-0001" in ok("refit", "--state", tmp_path / "live", "--back").stderr
    assert run("refit", "--state", tmp_path / "live", "--back").exit_code == 1
    assert run("refit", "--state", tmp_path / "live", "--back", "--force").exit_code == 2
    assert ok("score", model, table, "--state", tmp_path / "live").exit_code == 0, "the first model is still accepted"


def test_refit_without_labels(model, tmp_path):
    ok("stream", model, "--state", tmp_path / "live", stdin=lines(events()))
    result = run("refit", "--state", tmp_path / "live")
    assert result.exit_code == 1
    assert "0 labelled events" in result.stderr
    assert "--force" in result.stderr
    assert "generation-0002" in ok("refit", "--state", tmp_path / "live", "--force").stderr
