"""Reasons from a process of its own: those that the live model gives, whatever happens to that process."""

import json
import os
import signal
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from live_payments import N_FITTED, N, acts, classifier, detector, event, events, id_of, play
from serving import Client, serving
from tdlg.live.model import LiveModel
from tdlg.serve.http import Limits

pytestmark = [
    pytest.mark.usefixtures("few_trees"),
    pytest.mark.skipif(os.name == "nt", reason="no such signals"),
]
IDS = [id_of(row) for row in range(N_FITTED, N, 23)]


def reasons(found):
    return [
        {**one, "events": [{k: v for k, v in event.items() if k != "is_positive"} for event in one["events"]]}
        for one in found["reasons"]
    ]


def reader_of(client):
    return client.service._app.state.reader


def wait_for_reader(client):
    client.connection.timeout = 300
    while not reader_of(client).is_ready:
        time.sleep(0.01)


def asked_alone(client, id):
    """The answer over a connection of its own, which waits while a process starts beside much other work."""
    mine = Client(client.service, timeout=300)
    answer = mine.get(f"/explain?id={id}")
    mine.close()
    return answer


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    with LiveModel.open(tmp_path_factory.mktemp("live") / "live", classifier(), threshold=0.05) as live:
        play(live, acts())
        with serving(live, apart=True) as client:
            client.live = live
            wait_for_reader(client)
            yield client


def test_they_are_those_of_the_live_model(client):
    want = [json.loads(json.dumps(client.live.explain(id, 5))) for id in IDS]
    found = [client.get(f"/explain?id={id}&top=5").json for id in IDS]
    assert [reasons(one) for one in found] == [reasons(one) for one in want]
    assert reader_of(client)._process.pid != os.getpid()


def test_an_alert_keeps_its_reason(client):
    shown = client.get("/alerts?status=all&limit=3").json["alerts"]
    for alert in shown:
        raised = [one["reason"] for one in client.live.explain(alert["id"])["reasons"] if one["effect"] > 0]
        assert alert["reason"] == raised[0] == client.live._state.alerts.get(alert["id"]).reason


def test_a_question_sees_what_was_answered_before_it(client):
    first = {**event(N_FITTED), "id": "new", "time": "2026-01-01T00:00:00"}
    then = {**first, "id": "newer", "time": "2026-01-02T00:00:00", "amount": 12345.0}
    client.post("/score", first)
    client.post("/labels", {"id": "new", "label": 1})
    client.post("/score", then)
    found = client.get("/explain?id=newer&top=10").json
    behind = [one for reason in found["reasons"] for one in reason["events"] if one.get("id") == "new"]
    assert behind
    assert all(one["label"] == 1 for one in behind)


def test_the_end_of_the_process_hurts_nobody(client):
    before = client.get(f"/explain?id={IDS[0]}").json
    first = reader_of(client)._process
    with ThreadPoolExecutor(8) as pool:
        asked = [pool.submit(asked_alone, client, id) for id in IDS[:8]]
        os.kill(first.pid, signal.SIGKILL)
        given = {**event(N_FITTED + 1), "id": "meanwhile", "time": "2026-01-03T00:00:00"}
        assert client.post("/score", given).json["score"] is not None
        assert {one.result().status for one in asked} == {200}
    assert client.get(f"/explain?id={IDS[0]}").json == before
    assert reader_of(client)._process is not first


def test_one_that_ends_again_and_again(client, monkeypatch):
    monkeypatch.setattr("tdlg.serve.reader.COMMAND", "raise SystemExit")
    os.kill(reader_of(client)._process.pid, signal.SIGKILL)
    answer = client.get(f"/explain?id={IDS[0]}")
    assert (answer.status, answer.headers["retry-after"]) == (503, "1")
    assert "has ended" in answer.json["error"]["message"]
    given = {**event(N_FITTED + 2), "id": "after", "time": "2026-01-04T00:00:00"}
    assert client.post("/score", given).json["score"] is not None


def test_too_many_questions_are_refused(tmp_path):
    with (
        LiveModel.open(tmp_path / "live", detector()) as live,
        serving(live, apart=True, limits=Limits(questions=2)) as client,
    ):
        live.submit(events())
        assert client.get(f"/explain?id={IDS[0]}").status == 200, "before the process is there"
        wait_for_reader(client)
        want = json.loads(json.dumps(live.explain(IDS[0])))
        assert reasons(client.get(f"/explain?id={IDS[0]}").json) == reasons(want)
        os.kill(reader_of(client)._process.pid, signal.SIGSTOP)

        with ThreadPoolExecutor(12) as pool:
            asked = [pool.submit(asked_alone, client, id) for id in IDS[:12]]
            end = time.monotonic() + 60
            while sum(one.done() for one in asked) < 10 and time.monotonic() < end:
                time.sleep(0.01)
            os.kill(reader_of(client)._process.pid, signal.SIGCONT)
            found = [one.result() for one in asked]
        assert sorted(one.status for one in found) == [200] * 2 + [503] * 10
        assert {one.headers["retry-after"] for one in found if one.status == 503} == {"1"}
