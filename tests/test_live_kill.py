"""A live model that is killed again and again answers and ends like one that is left alone."""

import json
import os
import subprocess
import sys
import textwrap

import numpy as np
import pytest

from live_payments import EDGES, N_FITTED, N, classifier, event, label
from tdlg.live.model import LiveModel
from tdlg.live.refit import refit
from tdlg.live.review import MOST_NOTES, audited, new_person

pytestmark = [
    pytest.mark.usefixtures("few_trees"),
    pytest.mark.skipif(not hasattr(os, "fork"), reason="no such signals"),
]

PER_STEP = 3

# The process that is killed is forked from one that has loaded everything, so that a hundred lives take seconds. A step is a
# record of events and a record of labels. After a crash the last step is done again: its answers may not have been written.
NURSERY = """
    import json, os, random, resource, shutil, signal, sys, time
    from pathlib import Path
    from tdlg.live.log import LogFullError
    from tdlg.live.model import LiveModel
    from tdlg.live.lines import end_torn_line

    folder, steps, output = Path(sys.argv[1]), json.loads(Path(sys.argv[2]).read_text()), Path(sys.argv[3])
    n_kills, chance = int(sys.argv[4]), random.Random(0)

    def live_once(full_disk):
        with LiveModel.open(folder, snapshot_every=40, n_recent=500) as live, open(output, "a") as out:
            if full_disk:
                size = max(path.stat().st_size for path in folder.glob("log-*.bin"))
                resource.setrlimit(resource.RLIMIT_FSIZE, (size + 1500, resource.RLIM_INFINITY))
            end_torn_line(out.fileno())
            for number in range(max(0, (live.position or 0) - 1), len(steps)):
                events, labels = steps[number]
                try:
                    answers = live.submit(events, position=number + 1)
                    live.label(labels)
                except LogFullError:
                    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
                    answers = live.submit(events, position=number + 1)
                    live.label(labels)
                out.write("".join(json.dumps({"id": a.id, "score": a.score, "alert": a.alert}) + "\\n" for a in answers))
                out.flush()

    def born(full_disk=False):
        child = os.fork()
        if child == 0:
            try:
                live_once(full_disk)
            finally:
                os._exit(0 if sys.exc_info()[0] is None else 1)
        return child

    def is_running(child):
        return os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None

    def tear():
        newest = max(folder.glob("log-*.bin"))
        with newest.open("ab") as file:
            file.write(newest.read_bytes()[: chance.randrange(1, 120)])

    scratch = shutil.copytree(folder, folder.with_name("scratch"))
    for _ in range(2):  # the first one loads what is compiled
        start = time.perf_counter()
        with LiveModel.open(scratch) as live:
            live.submit(steps[0][0])
    longest, ended = 2 * (time.perf_counter() - start), 0
    output.touch()
    for kill in range(n_kills):
        size, child = output.stat().st_size, born(full_disk=kill % 20 == 7)
        if kill % 2:  # somewhere in its work, else perhaps while it starts
            while output.stat().st_size == size and is_running(child):
                time.sleep(0.001)
        time.sleep(chance.uniform(0.0, longest / (1 + 3 * (kill % 2))))
        os.kill(child, signal.SIGKILL)
        ended += os.waitpid(child, 0)[1] == 0
        if kill % 5 == 3:
            tear()
    n_answers = len(output.read_text().splitlines())
    status = os.waitpid(born(), 0)[1]
    print(json.dumps({"status": status, "ended": ended, "n_answers": n_answers}))
"""


def steps(n_events):
    """Events in the order of time, and labels of earlier ones."""
    rng = np.random.default_rng(0)
    rows = rng.integers(0, N, n_events)
    times = EDGES.time[-1] + np.sort(rng.integers(0, 40 * 86_400, n_events)) * np.timedelta64(1, "s")
    events = [{**event(row), "id": f"e{k}", "time": str(times[k])} for k, row in enumerate(rows.tolist())]
    parts = []
    for start in range(0, n_events, PER_STEP):
        earlier = rng.integers(0, start, 2).tolist() if start else []
        labels = [{"id": f"e{k}", "label": int(rng.random() < 0.3)} for k in earlier]
        parts.append((events[start : start + PER_STEP], labels))
    return parts


def read(path):
    """The answers in the file, of which none is torn."""
    return [json.loads(line) for line in path.read_text().splitlines()]


def final(live):
    """What a state consists of, and what it would answer next."""
    later = [{**event(row), "id": f"later {row}", "time": "2025-09-01"} for row in range(N_FITTED, N)]
    statistics = {name: value for name, value in live.statistics().items() if name != "events_per_second"}
    alerts = [(one.id, one.status, one.decided_at, one.chance, one.blind) for one in live.alerts("all", 10**6)]
    assert sum(one[-1] is not None for one in alerts) > 10, "some were drawn for random review"
    return (
        statistics,
        live.drift(),
        live.changes(),
        alerts,
        live.position,
        [answer.score for answer in live.submit(later)],
    )


@pytest.mark.parametrize(
    ("n_kills", "n_events"), [(8, 1800), pytest.param(100, 10_000, marks=pytest.mark.needs("time"), id="a hundred")]
)
def test_kills_change_nothing(tmp_path, n_kills, n_events):
    parts = steps(n_events)
    with LiveModel.open(tmp_path / "alone", classifier(), threshold=0.5, n_recent=500, explore=2) as live:
        live._use({"explore_seed": 7})
        want = {}
        for number, (events, labels) in enumerate(parts):
            want |= {answer.id: [answer.score, answer.alert] for answer in live.submit(events, position=number + 1)}
            live.label(labels)
        end = final(live)
    with LiveModel.open(tmp_path / "killed", classifier(), threshold=0.5, n_recent=500, explore=2) as live:
        live._use({"explore_seed": 7})
    (tmp_path / "steps.json").write_text(json.dumps(parts))
    arguments = [tmp_path / "killed", tmp_path / "steps.json", tmp_path / "answers.jsonl", n_kills]
    result = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(NURSERY), *map(str, arguments)],
        capture_output=True, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"}, timeout=600, check=False,
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    told = json.loads(result.stdout)
    assert told["status"] == 0, result.stderr
    assert told["ended"] <= n_kills // 4, "most lives were cut short"
    assert told["n_answers"] > n_kills, "and did some work"
    answers = read(tmp_path / "answers.jsonl")
    assert {answer["id"] for answer in answers} == set(want), "every event was answered at least once"
    assert all([answer["score"], answer["alert"]] == want[answer["id"]] for answer in answers), "and always the same"
    with LiveModel.open(tmp_path / "killed") as live:
        assert final(live) == end


@pytest.mark.parametrize("n", [10_000, pytest.param(1_000_000, marks=pytest.mark.needs("time"))])
def test_repeated_ids(tmp_path, n):
    given = [event(row) for row in range(N_FITTED, N)]
    with LiveModel.open(tmp_path / "live", classifier()) as live:
        first = [answer.score for answer in live.submit(given)]
        before = live.health()
        for _ in range(n // len(given)):
            again = live.submit(given)
            assert [answer.score for answer in again] == first
        after = live.health()
    assert (after["n_events"], after["bytes"]["log"]) == (before["n_events"], before["bytes"]["log"])


DECIDING = """
    import itertools, json, os, random, shutil, signal, sys, time
    from pathlib import Path
    from tdlg.live.model import LiveModel

    folder, output, ids = Path(sys.argv[1]), Path(sys.argv[2]), json.loads(sys.argv[3])
    chance = random.Random(0)
    with LiveModel.open(shutil.copytree(folder, folder.with_name("scratch"))) as live:  # loads what is compiled
        live.decide([{"id": ids[0], "label": 1}], by="nobody")

    def live_once():
        with LiveModel.open(folder, snapshot_every=40) as live, open(output, "a") as out:
            for k in itertools.count(len(output.read_text().splitlines())):
                change = [{"label": k % 2}, {"note": f"note {k}"}, {"assignee": "anna"}, {"label": None}][k % 4]
                case = [ids[k % len(ids)], ids[(k + 3) % len(ids)]]  # decided together, or not at all
                answers = live.decide([{"id": id, **change} for id in case], by=f"{k}")
                assert [answer.error for answer in answers] == [None, None]
                live.act({"do": "snooze", "nodes": [f"node {k % 3}"], "note": f"{k}"}, by=f"{k}")
                out.write(f"{k}\\n")
                out.flush()

    for kill in range(8):
        size, child = output.stat().st_size, os.fork()
        if child == 0:
            try:
                live_once()
            finally:
                os._exit(1)
        while output.stat().st_size == size:
            assert os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None
            time.sleep(0.001)
        time.sleep(chance.uniform(0.0, 0.3))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
"""


def test_kills_lose_no_decision(tmp_path):
    with LiveModel.open(tmp_path / "live", classifier(), threshold=-1.0) as live:
        live.act(new_person("anna")[0])
        ids = [answer.id for answer in live.submit([event(row) for row in range(N_FITTED, N_FITTED + 7)])]
    output = tmp_path / "acknowledged"
    output.touch()
    subprocess.run(
        [sys.executable, "-c", textwrap.dedent(DECIDING), tmp_path / "live", output, json.dumps(ids)],
        env={**os.environ, "OMP_NUM_THREADS": "1"}, timeout=600, check=True,
    )  # fmt: skip
    acknowledged = [int(line) for line in output.read_text().splitlines()]
    with LiveModel.open(tmp_path / "live") as live:
        done = live.audit(10_000)[::-1][1:]
        assert [*audited(tmp_path / "live")][1:] == done
        found = [int(entry["by"]) for entry in done]
        assert found == sorted(found), "each once, or again if it was killed before the answer"
        assert set(found) >= set(acknowledged)
        decisions = [int(entry["by"]) for entry in done if entry["do"] != "snooze"]
        assert decisions[::2] == decisions[1::2], "both alerts of a case"
        assert len(decisions) // 2 <= len(acknowledged) + 8 > 16
        snoozed = {one["nodes"][0]: one["note"] for one in live.team()["snoozed"]}
        assert snoozed == {f"node {int(by) % 3}": by for by in [one["by"] for one in done if one["do"] == "snooze"]}
        for id in ids:
            of_id = [entry for entry in done if entry.get("id") == id]
            label = next((entry["label"] for entry in reversed(of_id) if "label" in entry), None)
            alert = next(one for one in live.alerts("all", 100, explained=False) if one.id == id)
            assert alert.label == label
            notes = [entry["note"] for entry in of_id if "note" in entry]
            assert [note["note"] for note in alert.notes] == notes[-MOST_NOTES:]


SWITCHING = """
    import itertools, json, os, random, shutil, signal, sys, time
    from pathlib import Path
    from tdlg.live import replay
    from tdlg.live.model import LiveModel

    folder, output, events = Path(sys.argv[1]), Path(sys.argv[2]), json.loads(Path(sys.argv[3]).read_text())
    template, chance, replay.LOOK_EVERY = folder.with_name("template"), random.Random(0), 0.0

    def leave_request():  # as a refit does beside the service
        draft = shutil.copytree(template, folder / ".left")
        shutil.rmtree(folder / "request", ignore_errors=True)
        draft.rename(folder / "request")

    def live_once():
        shutil.rmtree(folder / ".left", ignore_errors=True)
        with LiveModel.open(folder, snapshot_every=30) as live, open(output, "a") as out:
            live.in_steps = True
            for k in itertools.count(len(output.read_text().splitlines())):
                answers = live.submit(events[3 * k : 3 * k + 3], position=k)
                rule = f'[[rule]]\\nname = "rule {k}"\\nall = ["count(src, 5d) >= {1 + k % 3}"]'
                live.act({"do": "rules", "text": rule}, by=f"{k}")
                promoted = live.health()["challenger"]
                if promoted:
                    live.act({"do": "promote", "generation": promoted}, by=f"{k}")
                elif not (folder / "request").exists():
                    leave_request()
                end = time.monotonic() + 5 * (k % 3 == 0)
                while live.health()["challenger"] is None and time.monotonic() < end:
                    live.work(0.005)
                    time.sleep(0.002)
                told = [[a.id, a.score, a.alert, list(a.rules)] for a in answers]
                out.write(json.dumps([k, promoted, told]) + "\\n")
                out.flush()

    with LiveModel.open(shutil.copytree(folder, folder.with_name("scratch"))) as live:  # loads what is compiled
        live.submit(events[:3])
    for kill in range(int(sys.argv[4])):
        size, child = output.stat().st_size, os.fork()
        if child == 0:
            try:
                live_once()
            finally:
                os._exit(1)
        while output.stat().st_size == size:
            assert os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None
            time.sleep(0.001)
        time.sleep(chance.uniform(0.0, 0.6))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
"""


@pytest.mark.parametrize("n_kills", [6, pytest.param(40, marks=pytest.mark.needs("time"))])
def test_kills_lose_no_promotion_and_no_rules(tmp_path, n_kills):
    folder, output = tmp_path / "live", tmp_path / "acknowledged"
    with LiveModel.open(folder, classifier(), threshold=0.5) as live:
        live.submit([event(row) for row in range(N_FITTED, N_FITTED + 50)])
        live.label([label(row) for row in range(N_FITTED, N_FITTED + 30)])
    refit(folder, shadow=True)
    (folder / "request").rename(tmp_path / "template")
    given = [one for events, _ in steps(3000) for one in events]
    (tmp_path / "events.json").write_text(json.dumps(given))
    output.touch()
    subprocess.run(
        [sys.executable, "-c", textwrap.dedent(SWITCHING), folder, output, tmp_path / "events.json", str(n_kills)],
        env={**os.environ, "OMP_NUM_THREADS": "1"}, timeout=600, check=True,
    )  # fmt: skip
    told = [json.loads(line) for line in output.read_text().splitlines() if line.endswith("]")]
    with LiveModel.open(folder) as live:
        n_done = told[-1][0] + 1
        again = live.submit(given[: 3 * n_done])
        want = [one for _, _, answers in told for one in answers]
        assert [[a.id, a.score, a.alert] for a in again] == [one[:3] for one in want], "every answer is as it was"
        assert all(a.repeated for a in again)
        done = live.audit(10_000)[::-1]
        assert {int(one["by"]) for one in done if one["do"] == "rules"} >= {k for k, _, _ in told}
        promoted = [one["generation"] for one in done if one["do"] == "promote"]
        assert set(promoted) >= {name for _, name, _ in told if name}
        assert promoted
        assert len(set(promoted)) == len(promoted), "each once"
        assert live._state.generation == promoted[-1]
        last = next(one["by"] for one in reversed(done) if one["do"] == "rules")
        assert live.rules()["rules"][0]["name"] == f"rule {last}"
        end = {**live.statistics(), "events_per_second": 0}, live.changes(), live.rules()
    with LiveModel.open(folder) as live:
        assert ({**live.statistics(), "events_per_second": 0}, live.changes(), live.rules()) == end
