"""The service with a true live model: the same answers as without HTTP, durable, and stopped cleanly by signals."""

import errno
import gc
import json
import logging
import os
import signal
import socket
import subprocess
import sys
import threading
from types import SimpleNamespace
from urllib.parse import urlencode

import numpy as np
import pytest
from typer.testing import CliRunner

from openapi import is_described
from serving import Client, serving
from tdlg import EdgeOutlierDetector, PropagationClassifier, make_payments
from tdlg.cli import app
from tdlg.live.model import LiveModel

pytestmark = pytest.mark.usefixtures("few_trees")

N_FITTED = 1200
PAYMENTS = make_payments(1600, random_state=3)


@pytest.fixture(scope="module")
def model():
    edges = PAYMENTS.edges[:N_FITTED]
    known = PropagationClassifier(setting="stream", random_state=0, n_threads=1)
    return known.fit(edges, label_time=PAYMENTS.label_time[:N_FITTED])


@pytest.fixture(scope="module")
def model_file(model, tmp_path_factory):
    path = tmp_path_factory.mktemp("model") / "model.tdlg"
    model.save(path)
    return path


@pytest.fixture
def live(model_file, tmp_path):
    with LiveModel.open(tmp_path / "state", model_file, threshold=0.0) as live:  # every event is an alert
        yield live


def event(k, **more):
    edges = PAYMENTS.edges
    ends = {"src": str(edges.src[k]), "dst": str(edges.dst[k]), "time": str(edges.time[k])}
    return {"id": f"p{k}", **ends, "amount": float(edges.features[k, 0]), **more}


def events(n):
    return [event(k) for k in range(N_FITTED, N_FITTED + n)]


def test_the_same_answers_as_without_http(live, model_file, tmp_path):
    given = events(60)
    with LiveModel.open(tmp_path / "other", model_file, threshold=0.0) as other:
        expected = [other.submit([one])[0] for one in given]
    with serving(live) as client:
        found = [client.post("/score", one).json for one in given[:20]]
        found += client.post("/score", given[20:40]).json
        lines = "".join(json.dumps(one) + "\n" for one in given[40:])
        found += map(json.loads, client.post("/score", lines.encode(), "application/x-ndjson").body.splitlines())
    assert [answer["id"] for answer in found] == [answer.id for answer in expected]
    np.testing.assert_allclose([answer["score"] for answer in found], [answer.score for answer in expected], rtol=1e-12)
    assert [answer["predicted"] for answer in found] == [answer.predicted for answer in expected]
    assert found[0]["probabilities"] == dict(zip("01", expected[0].probabilities, strict=True))


def test_many_clients_at_once(live):
    given = events(120)
    with serving(live) as client:
        answers = {}

        def send(part):
            own = Client(client.service)
            for one in part:
                answers[one["id"]] = own.post("/score", one).json
            own.close()

        threads = [threading.Thread(target=send, args=(given[k::6],)) for k in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert client.get("/health").json["n_events"] == 120
        again = client.post("/score", given).json
    assert all(answer["repeated"] for answer in again)
    assert [answer["score"] for answer in again] == [answers[one["id"]]["score"] for one in given]


def test_bad_events_are_named_and_the_good_ones_count(live):
    with serving(live) as client:
        bad = [{**event(1), "time": "soon"}, {"id": "x", "src": "a"}, {**event(2), "amount": "much"}]
        answer = client.post("/score", [*bad, event(N_FITTED + 1)])
        assert answer.status == 200
        assert [item["error"]["field"] for item in answer.json[:3]] == ["time", "dst", "amount"]
        assert "score" in answer.json[3]
        assert client.post("/score", bad[0]).status == 422
        assert client.get("/health").json["n_events"] == 1


def test_what_a_client_gets_wrong_is_said_and_counted(live):
    good = event(N_FITTED + 1)
    bare = {name: value for name, value in good.items() if name != "amount"}
    with serving(live) as client:
        for bad, field in (
            ({**bare, "amt": 5}, "amount"),
            ({**good, "id": "a\ud800"}, "id"),
            ({**good, "time": 10**19}, "time"),
            ({**good, "label": 1, "label_time": 10**19}, "label_time"),
        ):
            answer = client.post("/score", bad)
            assert (answer.status, answer.json["error"]["field"]) == (422, field)
        assert client.post("/labels", {"id": "a\ud800", "label": 1}).status == 422
        assert "differs" not in client.post("/score", good).json
        assert "differs" not in client.post("/score", good).json
        assert client.post("/score", {**good, "amount": 77_777}).json["differs"] is True
        health, metrics = client.get("/health").json, client.get("/metrics").body.decode()
        assert (health["n_differing"], health["n_unseen_categories"], health["set_aside"]) == (1, 0, [])
        for line in ("tdlg_differing_repetitions 1", "tdlg_unseen_categories 0", "tdlg_records_set_aside 0"):
            assert line in metrics


@pytest.mark.parametrize(
    ("id", "path"), [("--5", "--5"), ("²", "%C2%B2"), (1.5, "1.5"), (-7, "-7"), ("007", "007"), (7, "7")]
)
def test_ids_in_addresses(live, id, path):
    with serving(live) as client:
        assert client.get(f"/explain?id={path}").status == 404
        client.post("/score", event(N_FITTED, id=id))
        assert client.get(f"/explain?id={path}").json["id"] == id
        assert client.get(f"/events?id={path}").json["id"] == id
        assert client.post("/labels", {"id": path if path[0] != "%" else id, "label": 1}).status == 200


def test_a_fitted_edge_has_no_score(live):
    with serving(live) as client:
        answer = client.post("/score", event(N_FITTED - 1)).json
        assert (answer["score"], answer["predicted"], answer["repeated"]) == (None, None, True)
        assert "probabilities" not in answer


def test_the_label_of_a_repeated_event_is_learnt(live):
    with serving(live) as client:
        one = client.post("/score", event(N_FITTED)).json
        again = client.post("/score", event(N_FITTED, label=1)).json
        assert again == {**one, "repeated": True}
        assert client.get(f"/events?id={one['id']}").json["label"] == 1
        wrong = client.post("/score", event(N_FITTED, label="odd"))
        assert (wrong.status, wrong.json["score"]) == (200, one["score"])
        assert wrong.json["label_error"]["field"] == "label"


def test_a_withdrawn_event_is_gone(live):
    with serving(live) as client:
        client.post("/score", events(3))
        first, unknown = client.post("/withdrawals", [{"id": "p1200"}, {"id": "nobody"}]).json
        assert first == {"id": "p1200"}
        assert unknown["error"]["field"] == "id"
        assert client.get("/events?id=p1200").status == 404
        assert {one["id"] for one in client.get("/alerts").json["alerts"]} == {"p1201", "p1202"}
        assert client.post("/withdrawals", {"id": "p1200"}).status == 404
        changes = client.get("/changes")
        assert changes.json["changes"][-1]["status"] == "withdrawn"
        assert is_described("GET", "/changes", changes)
        assert not client.post("/score", event(N_FITTED)).json["repeated"]


def test_a_decision_is_known_to_the_next_scores(live):
    given = events(60)
    last = given[-1]
    with serving(live) as client:

        def decide(label):
            """Give all events of a terminal the same label, and score another one there a day later."""
            ids = [one["id"] for one in given if one["dst"] == last["dst"]]
            answers = client.post("/labels", [{"id": id, "label": label} for id in ids]).json
            assert not any("error" in answer for answer in answers)
            decide.day += 1
            time = str(np.datetime64(last["time"]) + np.timedelta64(decide.day, "D"))
            return client.post("/score", {**last, "id": f"probe {decide.day}", "time": time}).json["score"]

        decide.day = 0
        client.post("/score", given)
        before, confirmed, dismissed = decide(None), decide(1), decide(0)
        statuses = {alert["status"] for alert in client.get("/alerts?status=dismissed").json["alerts"]}
        undone = decide(None)
    assert confirmed > max(before, dismissed, undone)
    assert statuses == {"dismissed"}


def test_what_is_known(live):
    given = events(50)
    with serving(live) as client:
        client.post("/score", given)
        explained = client.get(f"/explain?id={given[-1]['id']}").json
        assert explained["reasons"]
        assert {"what", "effect", "reason", "events"} <= set(explained["reasons"][0])
        alerts = client.get("/alerts?limit=3").json
        assert [alert["id"] for alert in alerts["alerts"]] == [one["id"] for one in given[:-4:-1]]
        assert alerts["more"]
        assert alerts["alerts"][0]["features"] == {"amount": given[-1]["amount"]}
        assert isinstance(alerts["alerts"][0]["reason"], str)
        node = client.get(f"/nodes?id={given[-1]['src'].replace(' ', '%20')}").json
        assert node["events"][-1]["id"] == given[-1]["id"]
        assert client.get(f"/charts/node.svg?id={given[-1]['src'].replace(' ', '%20')}").body.startswith(b"<svg")
        assert client.get("/nodes?id=nobody").json["events"] == []
        about = client.get("/about").json
        assert (about["positive"], about["dismiss"]) == (1, 0)
        assert client.get("/statistics").json["events"] == 50
        for path in ("/charts/days.svg", "/charts/scores.svg", "/metrics"):
            assert client.get(path).status == 200
        assert client.post("/labels", {"id": "nobody", "label": 1}).status == 404
        assert client.post("/labels", {"id": given[0]["id"], "label": "odd"}).status == 422


def test_answers_are_described(live):
    """Every address of a true model gives what the OpenAPI document says."""
    given = events(40)
    labels = [{"id": one["id"], "label": k % 2} for k, one in enumerate(given[:6])]
    id, node = given[3]["id"], given[-1]["src"].replace(" ", "%20")
    with serving(live) as client:

        def ask(method, address, body=None):
            answer = client(method, address, body)
            assert is_described(method, address, answer), (address, answer.body)
            return answer

        ask("POST", "/score", [*given, event(N_FITTED - 1), {**event(1), "time": "soon"}, {**given[0], "amount": 1.0}])
        ask("POST", "/score", {**given[1], "label": "odd"})
        ask("POST", "/labels", [*labels, {"id": "nobody", "label": 1}, {"id": id, "label": "odd"}])
        known = ("alerts?status=all", "statistics", "about", "changes", "changes?since=3", "health", "metrics")
        for address in (f"explain?id={id}", f"events?id={id}", f"nodes?id={node}", *known):
            assert ask("GET", f"/{address}").status == 200
        shown = client.get("/nodes?id=terminal%201&limit=1000").json
        known = [one for one in shown["events"] if one["label"] is not None]
        assert len(known) == shown["labelled"] > 0
        assert sum(one["is_positive"] for one in known) == shown["positive"]
        assert all(one["is_positive"] == (one["label"] == 1) for one in known)
        week = client.get("/statistics").json["weeks"]["this"]
        assert (week["reviewed"], week["confirmed"]) == (6, 3)


def test_a_full_disk_and_the_return(live, monkeypatch):
    monkeypatch.setattr("tdlg.live.log.PROBE_EVERY", 0.0)
    with serving(live) as client:
        client.post("/score", events(5))

        def full(file):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        with monkeypatch.context() as patch:
            patch.setattr("tdlg.live.log.sync_file", full)
            answer = client.post("/score", event(N_FITTED + 10))
            assert answer.status == 503
            assert "No space left" in answer.json["error"]["message"]
            health = client.get("/health")
            assert (health.status, health.json["n_events"]) == (503, 5)
        assert client.get("/health").status == 200, "there is space again"
        assert client.post("/score", event(N_FITTED + 10)).json["repeated"] is False
        health = client.get("/health")
        assert (health.status, health.json["n_events"]) == (200, 6)


def test_bursts(tmp_path):
    detector = EdgeOutlierDetector("burst").fit(PAYMENTS.edges[:N_FITTED].with_label(None))
    with LiveModel.open(tmp_path / "state", detector, threshold=0.0) as live, serving(live) as client:
        sent = client.post("/score", [{**one, "amount": None} for one in events(20)])
        answers = sent.json
        assert is_described("POST", "/score", sent)
        assert all("probabilities" not in answer for answer in answers)
        about = client.get("/about").json
        assert (about["confirm"], about["dismiss"], about["is_probability"]) == (1, 0, False)
        answer = client.get(f"/explain?id={answers[-1]['id']}")
        assert is_described("GET", "/explain", answer)
        explained = answer.json
        assert explained["score"] >= 0
        assert all(reason["effect"] > 0 for reason in explained["reasons"])
        assert client.get("/charts/node.svg?id=terminal%201").status == 200


def test_outliers_of_all_notions(tmp_path):
    """Alerts with the reason of the notion that spoke, scores as of the whole table, also after a restart."""
    detector = EdgeOutlierDetector().fit(PAYMENTS.edges[:N_FITTED].with_label(None))
    sent = [*events(60)]
    odd = {**sent[-1], "id": "odd", "src": "customer unknown", "amount": 10.0 * PAYMENTS.edges.features.max()}
    with LiveModel.open(tmp_path / "state", detector) as live, serving(live) as client:
        answers = [*client.post("/score", sent).json, client.post("/score", odd).json]
        assert answers[-1]["alert"]
        assert answers[-1]["predicted"] == 1
        explained = client.get("/explain?id=odd")
        assert is_described("GET", "/explain", explained)
        reasons = explained.json["reasons"]
        assert {reason["what"].split()[0] for reason in reasons} == {"rare", "value"}
        assert any(reason["reason"] == "source 'customer unknown' was never seen before" for reason in reasons)
        assert client.get("/alerts").json["alerts"][0]["id"] == "odd"
    with LiveModel.open(tmp_path / "state") as live:
        assert [answer.score for answer in live.submit([*sent, odd])] == [answer["score"] for answer in answers]
    edges = PAYMENTS.edges[: N_FITTED + 60].with_label(None)
    np.testing.assert_allclose([a["score"] for a in answers[:-1]], -detector.score_samples(edges)[N_FITTED:], rtol=1e-9)


# ---- the command


def started(*arguments):
    """A service in a process of its own, and a client."""
    command = [sys.executable, "-m", "tdlg", "serve", *map(str, arguments), "--port", "0"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    line = process.stderr.readline()
    if "compiling" in line:  # the first start of a new installation
        line = process.stderr.readline()
    assert line.startswith("desk: http://127.0.0.1:"), line + process.stderr.read()
    return process, Client(SimpleNamespace(url=line.split()[1]))


def ended(process, client, *signals):
    """Send signals to the service; its exit code and what it said after the first line."""
    for number in signals:
        process.send_signal(number)
    said = process.communicate(timeout=60)[1].splitlines(keepends=True)
    client.close()
    return process.returncode, "".join(line for line in said if "compiling" not in line)  # in a new installation


@pytest.mark.parametrize("number", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.needs("time"))])
def test_it_stops_cleanly_and_nothing_is_lost_if_it_does_not(model_file, tmp_path, number):
    process, client = started(model_file, "--state", tmp_path / "state", "--threshold", 0)
    first = client.post("/score", events(20)).json
    assert ended(process, client, *[number] * (1 + (number == signal.SIGTERM))) == (
        0,
        "stopping\n",
    )  # nor is it hurried
    process, client = started("--state", tmp_path / "state")  # the model is in the state
    second = [client.post("/score", one).json for one in events(30)]
    assert second[:20] == [{**answer, "repeated": True} for answer in first]
    client.post("/labels", {"id": first[0]["id"], "label": 1})
    assert ended(process, client, signal.SIGKILL)[0] == -signal.SIGKILL
    with LiveModel.open(tmp_path / "state") as live:
        third = live.submit(events(30))
        assert all(answer.repeated for answer in third)
        assert [(answer.id, answer.score) for answer in third] == [(one["id"], one["score"]) for one in second]
        assert live.statistics()["alerts"] == {"open": 29, "confirmed": 1, "dismissed": 0, "expired": 0}


@pytest.mark.parametrize("number", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.needs("time"))])
def test_requests_in_flight_are_answered_before_it_stops(model_file, tmp_path, number):
    process, client = started(model_file, "--state", tmp_path / "state")
    clients = [client, *(Client(SimpleNamespace(url=f"http://{client.host}/")) for _ in range(4))]
    for k, one in enumerate(clients):
        body = json.dumps([event(N_FITTED + at % 400, id=f"{k}.{at}") for at in range(3000)])
        one.connection.request("POST", "/score", body, {"content-type": "application/json"})
    answers = [clients[0].connection.getresponse()]  # now all have been read, and the others wait for their turn
    process.send_signal(number)
    answers += [one.connection.getresponse() for one in clients[1:]]
    assert [(answer.status, len(json.loads(answer.read()))) for answer in answers] == [(200, 3000)] * 5
    for one in clients[1:]:
        one.close()
    assert ended(process, client) == (0, "stopping\n")


@pytest.mark.parametrize(
    ("number", "code", "words"), [(signal.SIGTERM, 143, "terminated"), (signal.SIGINT, 130, "interrupted")]
)
def test_a_signal_while_it_starts(model_file, tmp_path, number, code, words):
    script = (
        "import os, sys; from tdlg.cli import main; from tdlg.live.model import LiveModel;"
        f"LiveModel.open = lambda *a, **o: os.kill(os.getpid(), {int(number)});"
        "sys.argv = ['tdlg', 'serve', *sys.argv[1:]]; main()"
    )
    command = [sys.executable, "-c", script, str(model_file), "--state", str(tmp_path / "state"), "--port", "0"]
    done = subprocess.run(command, stderr=subprocess.PIPE, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (code, f"{words}\n")


def refused(*arguments):
    """What the command says when it does not start."""
    result = CliRunner().invoke(app, ["serve", *map(str, arguments)])
    assert result.exit_code == 1, result.output
    (line,) = result.stderr.splitlines()
    return line


@pytest.fixture
def own_signals():
    """The command changes what SIGTERM does."""
    before = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, before)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--host", "0.0.0.0"], "Pass --token-file, or --host 127.0.0.1."),
        (["--token-file", "{short}"], "a token has at least 16 printable characters"),
        (["--token-file", "{nowhere}"], "No such file"),
        (["--port", "{taken}"], "cannot listen on '127.0.0.1'"),
    ],
)
def test_mistakes_are_told_in_a_line(model_file, tmp_path, options, words, own_signals):
    (tmp_path / "short").write_text("short")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        values = {"short": tmp_path / "short", "nowhere": tmp_path / "nowhere", "taken": taken.getsockname()[1]}
        said = refused(model_file, "--state", tmp_path / "state", *(option.format(**values) for option in options))
    assert words in said


def test_the_log_of_a_supervisor_says_that_it_compiles(tmp_path, monkeypatch, own_signals):
    def compiling(*arguments, **options):
        logging.getLogger("tdlg").info("tdlg: compiling")
        raise ValueError("enough")

    monkeypatch.setattr(LiveModel, "open", compiling)
    for _ in range(2):
        result = CliRunner().invoke(app, ["serve", "--state", str(tmp_path / "state")])
        assert result.stderr == "tdlg: compiling\nerror: enough\n"


def test_a_state_is_served_once(live, tmp_path, own_signals):
    assert "state" in refused("--state", tmp_path / "state", "--port", 0)


def test_a_service_avoids_pauses(model_file, tmp_path, monkeypatch, own_signals):
    before, found = (gc.get_threshold(), sys.getswitchinterval()), []

    class Waiting:
        url = "http://127.0.0.1:1/"

        def __init__(self, live, **options):
            pass

        def __enter__(self):
            return self

        def __exit__(self, *error):
            pass

        def wait(self, seconds):
            found.append((gc.get_freeze_count(), gc.get_threshold()[2], sys.getswitchinterval()))
            return len(found) > 1  # after an hour, then stopped

    monkeypatch.setattr("tdlg.serve.service.Service", Waiting)
    try:
        result = CliRunner().invoke(app, ["serve", str(model_file), "--state", str(tmp_path / "state")])
    finally:
        gc.unfreeze()
        gc.set_threshold(*before[0])
        sys.setswitchinterval(before[1])
    assert result.exit_code == 0, result.output
    assert len(found) == 2
    n_frozen, most, interval = found[0]
    assert n_frozen > 10_000
    assert most > 1000
    assert interval < before[1]


def test_what_to_install_is_told(tmp_path, monkeypatch):
    monkeypatch.setattr("tdlg.cli.serve.find_spec", lambda name: None)
    assert 'pip install ".[serve]"' in refused("--state", tmp_path / "state")


def test_the_live_demo(monkeypatch):
    from tdlg.serve.demo import run_live_demo

    said, shown, done = [], [], []
    close = LiveModel.close
    monkeypatch.setattr(LiveModel, "close", lambda live: (done.extend(live.audit(10_000)), close(live)))
    run_live_demo(n_payments=2500, seconds_per_day=0.0, say=said.append, show=shown.append, stay=False)
    (address,) = shown
    by_lee = [one for one in done if one["by"] == "lee"]
    truth = make_payments(2500, random_state=0).scenario > 0
    decided = [one for one in by_lee if one["do"] == "label"]
    assert len(decided) > 5
    assert all(one["label"] == truth[int(one["id"].split()[1])] for one in decided)
    assert any(one.get("assignee") == "anna" for one in by_lee)
    assert [one["name"] for one in done if one["do"] == "person"] == ["lee", "anna"]
    assert f"desk: {address} (Ctrl-C stops)\n" in said
    assert sum(line.endswith("in truth a fraud") for line in said) > 2


@pytest.mark.needs("chromium")
def test_the_desk_of_a_true_model(live, browser):
    given = events(40)
    with serving(live) as client:
        client.post("/score", given)
        browser.open(client.service.url)
        browser.wait("document.getElementById('n-open').textContent === '40'")
        browser.run("document.querySelector('input[value=newest]').click()")
        browser.wait("document.getElementById('list').dataset.order === 'newest'")
        browser.wait("document.querySelectorAll('.why-list li').length > 0")
        browser.wait("document.querySelectorAll('.pictures svg.chart').length === 2")
        (first, *_) = client.get("/cases?order=newest").json["cases"]
        ids = [one["id"] for one in first["alerts"]]
        assert given[-1]["id"] in ids
        browser.press("y")
        browser.wait(f"document.getElementById('n-open').textContent === '{40 - len(ids)}'")
        assert [live.event(id)["label"] for id in ids] == [1] * len(ids)
        browser.press("u")
        browser.wait("document.getElementById('n-open').textContent === '40'")
        assert [live.event(id)["label"] for id in ids] == [None] * len(ids)
        assert client.get(f"/case.html?{urlencode({'id': ids[0]})}").status == 200
        for part in ("figures", "decided", "snoozed", "audit", "node=terminal%201"):
            browser.run(f"location.hash = {part!r}")
            browser.wait(f"!document.getElementById({part.partition('=')[0]!r}).hidden")
        assert not browser.complaints()
        browser.call("Page.navigate", url="about:blank")
