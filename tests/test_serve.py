"""The service over HTTP: what it answers, what it refuses, and that nothing is lost when it is busy, full or stopped."""

import asyncio
import csv
import json
import socket
import threading
import time
from contextlib import suppress
from pkgutil import resolve_name
from urllib.parse import quote
from xml.etree import ElementTree

import polars as pl
import pytest
from starlette.requests import Request

from serving import Client, alert, arrow, event, opened, serving, working
from tdlg.exceptions import ParameterError
from tdlg.live.scorer import UnknownEventError
from tdlg.serve.api import Api
from tdlg.serve.feed import Feed
from tdlg.serve.http import Limits, RefusedError
from tdlg.serve.metrics import Metrics
from tdlg.serve.schema import ARROW, LINES
from tdlg.serve.service import Service

SECRET = "correct-horse-battery"
ODD_IDS = ["a b", "a/b", "ü ✓", "..", ".", "a?b=c&d#e", "<script>", "100%", "%2F", "'", '"', "\\"]


# ---- events


def is_closed(line):
    """Whether the service closes a connection, after what it may have said."""
    with line, suppress(ConnectionResetError):
        try:
            while line.recv(1000):
                pass
        except TimeoutError:
            return False
    return True


class TestScore:
    def test_one_event(self, client):
        answer = client.post("/score", event("a", amount=300))
        assert answer.status == 200
        assert answer.json == {
            "id": "a", "score": 0.3, "alert": False, "predicted": 0, "late": False, "repeated": False,
            "probabilities": {"0": 0.7, "1": 0.3},
        }  # fmt: skip

    def test_a_repeated_event_gets_the_first_answer(self, client):
        first = client.post("/score", event("a", amount=300)).json
        again = client.post("/score", event("a", amount=900)).json
        assert again == {**first, "repeated": True}

    def test_a_late_event_is_marked(self, client):
        answers = client.post("/score", [event("a", time="2025-01-02"), event("b", time="2025-01-01")]).json
        assert [answer["late"] for answer in answers] == [False, True]

    def test_a_bad_event_is_named_by_its_field(self, client):
        answer = client.post("/score", event("a", dst=None))
        assert answer.status == 422
        assert answer.json == {
            "id": "a",
            "error": {"field": "dst", "value": None, "message": "The field 'dst' is missing."},
        }

    def test_the_good_events_of_a_list_are_scored(self, client, live):
        answer = client.post("/score", [event("a"), event("b", src=None), 7, event("c")])
        assert answer.status == 200
        assert [item.get("id") for item in answer.json] == ["a", "b", None, "c"]
        assert ["error" in item for item in answer.json] == [False, True, True, False]
        assert answer.json[1]["error"]["field"] == "src"
        assert list(live._events) == ["a", "c"]

    def test_a_list_without_a_good_event(self, client, live):
        answer = client.post("/score", [event("b", src=None), None])
        assert answer.status == 422
        assert ["error" in item for item in answer.json] == [True, True]
        assert not live._events

    def test_an_empty_list_is_no_error(self, client):
        answer = client.post("/score", [])
        assert (answer.status, answer.json) == (200, [])

    @pytest.mark.parametrize("media", LINES)
    def test_lines_are_answered_by_lines(self, client, media):
        lines = f"{json.dumps(event('a'))}\nnonsense\n{json.dumps(event('b'))}\n".encode()
        answer = client.post("/score", lines, media)
        assert answer.status == 200
        assert answer.headers["content-type"] == LINES[0]
        found = [json.loads(line) for line in answer.body.splitlines()]
        assert [item.get("id") for item in found] == ["a", None, "b"]
        assert found[1]["error"]["message"].startswith("Line 2 is not JSON")

    def test_arrow(self, client, live):
        frame = pl.DataFrame([event("a"), event("b", amount=500.0)], infer_schema_length=None)
        answer = client.post("/score", arrow(frame), ARROW)
        assert [item["id"] for item in answer.json] == ["a", "b"]
        assert live.event("b")["amount"] == 500.0

    def test_one_request_is_one_sync(self, client, live):
        client.post("/score", [event(k) for k in range(500)])
        assert live.batches == [500]

    def test_requests_at_the_same_time_share_a_sync(self, live):
        live.delay = 0.2
        with serving(live) as client:
            done = []

            def send(k):
                own = Client(client.service)
                done.append(own.post("/score", event(k)).json["id"])
                own.close()

            threads = [threading.Thread(target=send, args=(k,)) for k in range(20)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        assert sorted(done) == list(range(20))
        assert len(live.batches) <= 4

    def test_too_large_a_body_is_refused_before_it_is_read(self, live):
        with serving(live, limits=Limits(body=1000)) as client:
            answer = client.post("/score", b" " * 2000, "application/json")
            assert answer.status == 413
            assert "1000 bytes" in answer.json["error"]["message"]

    def test_too_large_a_body_of_unknown_length(self, live):
        with serving(live, limits=Limits(body=1000)) as client:
            answer = client.post("/score", iter([b" " * 600, b" " * 600]), "application/json")
            assert answer.status == 413

    def test_a_compressed_body_is_refused(self, client):
        assert client.post("/score", b"x", "application/json", content_encoding="gzip").status == 415

    @pytest.mark.parametrize("path", ["/score", "/login"])
    def test_a_body_that_never_ends_is_given_up(self, live, path):
        with (
            serving(live, token=SECRET, limits=Limits(seconds=1)) as client,
            socket.create_connection(client.host.split(":")) as line,
        ):
            heads = f"Host: {client.host}\r\nContent-Type: application/json\r\nContent-Length: 9\r\n"
            heads += f"Authorization: Bearer {SECRET}\r\n"
            line.settimeout(20)
            line.sendall(f"POST {path} HTTP/1.1\r\n{heads}\r\n[".encode())
            assert line.recv(100).startswith(b"HTTP/1.1 408 ")

    @pytest.mark.parametrize("parser", ["httptools_impl.HttpToolsProtocol", "h11_impl.H11Protocol"])
    def test_half_sent_heads_keep_nobody_out_and_are_given_up(self, live, monkeypatch, parser):
        monkeypatch.setattr(
            "uvicorn.protocols.http.auto.AutoHTTPProtocol", resolve_name(f"uvicorn.protocols.http.{parser}")
        )
        limits = Limits(connections=50, head_seconds=2)
        with serving(live, token=SECRET, limits=limits) as client:
            client.headers = {"authorization": f"Bearer {SECRET}"}
            assert client.post("/score", event("first")).status == 200
            silent = [opened(client, b"GET /x HTTP/1.1\r\nHost: a\r\n") for _ in range(200)]
            assert client.post("/score", event("old")).status == 200, "over a connection that was there before"
            other = Client(client.service, **client.headers)
            assert other.post("/score", event("new")).status == 200
            other.close()
            assert client.get("/health").json["n_events"] == 3
            for line in silent:
                assert is_closed(line)

    @pytest.mark.parametrize("start", [b"", b"GET /health HTTP/1.1\r\nHost: a\r\n\r\n"])
    def test_a_head_must_arrive_in_time(self, live, start):
        with serving(live, limits=Limits(head_seconds=1)) as client:
            line = opened(client, start)
            if start:
                assert line.recv(1000).startswith(b"HTTP/1.1 200 ")
            with suppress(OSError):
                line.sendall(b"GET /health HTTP/1.1\r\nX: ")
                for _ in range(40):  # the clock does not start again with each byte
                    line.sendall(b"x")
                    time.sleep(0.1)
            assert is_closed(line)

    def test_a_head_of_any_length_is_not_kept(self, live):
        with serving(live) as client:
            sent = 0
            with opened(client, b"GET /health HTTP/1.1\r\nHost: a\r\nX: ") as line, suppress(ConnectionError):
                while sent < 1_000_000:
                    line.sendall(b"x" * 1000)
                    sent += 1000
                    time.sleep(0.005)
            assert sent < 1_000_000
            assert client.get("/health").status == 200

    @pytest.mark.parametrize("headers", [{"x": "y" * 40_000}, {f"x{k}": "y" for k in range(99)}])
    def test_too_many_headers(self, live, headers):
        with serving(live) as client:
            answer = client.get("/health", **headers)
            assert answer.status == 431
            assert "A request may have 100 headers of 32768 bytes" in answer.json["error"]["message"]
            assert client.get("/health").status == 200

    def test_a_refusal_of_a_large_body_can_be_read(self, live):
        with serving(live) as client:
            assert client.post("/score", b" " * (20 << 20), "application/json").status == 413
            assert client.get("/health").status == 200

    def test_a_full_queue_says_when_to_come_back(self, live):
        live.delay = 0.3
        with serving(live, limits=Limits(events=3, queue=3)) as client:
            other = Client(client.service)
            other.connection.request(
                "POST", "/score", json.dumps([event(1), event(2)]), {"content-type": "application/json"}
            )
            time.sleep(0.1)
            answer = client.post("/score", [event(3), event(4)])
            assert answer.status == 429
            assert answer.headers["retry-after"] == "1"
            assert other.connection.getresponse().status == 200
            other.close()
            assert client.post("/score", [event(3), event(4)]).status == 200
        assert list(live._events) == [1, 2, 3, 4]

    def test_a_full_disk_and_the_return(self, client, live):
        live.disk_is_full = True
        answer = client.post("/score", event("a"))
        assert answer.status == 503
        assert "No space left" in answer.json["error"]["message"]
        assert answer.headers["retry-after"] == "5"
        assert not live._events
        assert client.post("/labels", {"id": "a", "label": 1}).status == 503
        health = client.get("/health")
        assert (health.status, health.json["ok"]) == (503, False)
        live.disk_is_full = False
        assert client.post("/score", event("a")).status == 200
        assert client.get("/health").status == 200

    def test_an_error_of_ours_is_a_500_and_the_next_request_is_answered(self, client, live, caplog):
        live.submit = lambda events: 1 / 0
        answer = client.post("/score", event("a"))
        assert answer.status == 500
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert "ZeroDivisionError" not in answer.body.decode()
        assert "ZeroDivisionError" in caplog.text
        del live.submit
        assert client.post("/score", event("a")).status == 200


# ---- labels


class TestLabels:
    @pytest.fixture(autouse=True)
    def events(self, client):
        client.post("/score", [alert("a"), event(17)])

    def test_the_next_score_knows_it(self, client):
        before = client.post("/score", event("b")).json["score"]
        assert client.post("/labels", {"id": "a", "label": 1}).json == {"id": "a"}
        assert client.post("/score", event("c")).json["score"] > before

    def test_a_second_label_replaces_the_first_and_null_withdraws_it(self, client, live):
        for label, status in ((1, "confirmed"), (0, "dismissed"), (None, "open")):
            assert client.post("/labels", {"id": "a", "label": label}).status == 200
            assert live.event("a")["label"] == label
            assert client.get("/alerts?status=all").json["alerts"][0]["status"] == status

    def test_an_unknown_id_is_a_404_that_names_it(self, client):
        answer = client.post("/labels", {"id": "nobody", "label": 1})
        assert answer.status == 404
        assert answer.json["error"]["field"] == "id"
        assert "'nobody'" in answer.json["error"]["message"]

    def test_of_a_list_the_good_ones_are_learnt(self, client, live):
        answer = client.post(
            "/labels", [{"id": "nobody", "label": 1}, {"id": 17, "label": 1}, {"label": 1}, {"id": "a"}]
        )
        assert answer.status == 200
        assert ["error" in item for item in answer.json] == [True, False, True, True]
        assert [item["error"]["field"] for item in answer.json if "error" in item] == ["id", "id", "label"]
        assert live.event(17)["label"] == 1

    @pytest.mark.parametrize(
        ("labels", "status"),
        [
            ([{"id": "x", "label": 1}, {"id": "y", "label": 1}], 404),
            ([{"id": "x", "label": 1}, {"id": "a", "label": 5}], 422),
            ({"id": "a", "label": 5}, 422),
            ({"id": True, "label": 1}, 422),
            ({"id": [], "label": 1}, 422),
            ({}, 422),
            ([], 200),
        ],
    )
    def test_the_status_when_none_is_good(self, client, labels, status):
        assert client.post("/labels", labels).status == status


# ---- what is known


class TestQuestions:
    @pytest.mark.parametrize("id", ODD_IDS)
    def test_odd_ids(self, client, id):
        client.post("/score", [event(id, src=id)])
        assert client.get(f"/explain?id={quote(id, safe='')}").json["id"] == id
        assert client.get(f"/events?id={quote(id, safe='')}").json["id"] == id
        assert len(client.get(f"/nodes?id={quote(id, safe='')}").json["events"]) == 1
        assert client.get(f"/charts/node.svg?id={quote(id, safe='')}").status == 200

    @pytest.mark.parametrize("id", ["\ud800", "a\0b", "\x1b[1m", "\uffff", "\u202eabc"])
    def test_ids_that_cannot_be_shown(self, client, id):
        assert client.post("/score", [event("x", src=id)]).status == 200
        chart = client.get("/charts/node.svg?id=shop")
        assert chart.status == 200
        (mark,) = ElementTree.fromstring(chart.body.decode()).findall(".//*[@data-tip]")
        assert ascii(id)[1:-1] in mark.get("data-tip")

    def test_half_of_a_character_in_an_id_comes_back(self, client):
        assert client.post("/score", event("x\ud800y")).json["id"] == "x\ud800y"
        assert client.post("/labels", {"id": "x\ud800y", "label": 1}).json == {"id": "x\ud800y"}

    def test_ids_that_are_numbers(self, client):
        client.post("/score", [event(17), event(-3)])
        assert client.get("/explain?id=17").json["id"] == 17
        assert client.get("/events?id=-3").json["id"] == -3

    def test_reasons(self, client):
        client.post("/score", alert("a"))
        found = client.get("/explain?id=a").json
        assert [reason["what"] for reason in found["reasons"]] == ["label", "amount"]
        assert len(client.get("/explain?id=a&top=1").json["reasons"]) == 1

    def test_scoring_does_not_wait_for_all_reasons(self, client, live):
        client.post("/score", [alert(f"a{k}") for k in range(8)])
        for known in live._alerts.values():
            known.reason = None
        live.delay = 0.05
        other, answers = Client(client.service), []
        asking = threading.Thread(target=lambda: answers.append(other.get("/alerts?limit=1000").json))
        asking.start()
        while "reason" not in live.calls:
            time.sleep(0.001)
        client.post("/score", event("between"))
        asking.join()
        other.close()
        assert live.calls[-1] == "reason", "the event was scored while reasons were missing"
        assert {one["reason"] for one in answers[0]["alerts"]} == {"both ends had frauds"}

    @pytest.mark.parametrize("path", ["/explain?id=x", "/events?id=x", "/explain?id=17"])
    def test_an_unknown_event(self, client, path):
        answer = client.get(path)
        assert answer.status == 404
        assert answer.json["error"]["field"] == "id"

    @pytest.mark.parametrize(
        ("path", "field"),
        [
            ("/explain", "id"),
            ("/nodes?id=", "id"),
            ("/explain?id=a&top=0", "top"),
            ("/explain?id=a&top=x", "top"),
            ("/alerts?limit=9999", "limit"),
            ("/alerts?limit=٣", "limit"),
            ("/alerts?before=-1", "before"),
            ("/alerts?status=some", "status"),
            ("/changes?since=-1", "since"),
            ("/alerts?limit=" + "9" * 5000, "limit"),
            ("/alerts?before=9007199254740993", "before"),
            ("/alerts?limit=null", "limit"),
            ("/explain?id=a&top=nan", "top"),
            ("/charts/node.svg?id=shop&width=2", "width"),
        ],
    )
    def test_wrong_parameters_are_named(self, client, path, field):
        answer = client.get(quote(path, safe="/?=&"))
        assert answer.status == 422
        assert answer.json["error"]["field"] == field

    def test_what_a_parameter_may_be_is_said(self, client):
        def said(path):
            return client.get(path).json["error"]["message"]

        assert said("/alerts?limit=9999") == "The 'limit' must be a whole number from 1 to 1000. Got '9999' instead."
        assert said("/alerts?status=some").startswith(
            "The 'status' must be one of all, confirmed, decided, dismissed, expired, open. Got"
        )
        assert said("/explain") == "The 'id' must be given: ?id=ID."

    def test_alerts_in_pages(self, client):
        client.post("/score", [alert(k) for k in range(7)])
        seen, before = [], ""
        while True:
            page = client.get(f"/alerts?limit=3{before}").json
            seen += [item["id"] for item in page["alerts"]]
            if not page["more"]:
                break
            before = f"&before={page['alerts'][-1]['sequence']}"
        assert seen == [6, 5, 4, 3, 2, 1, 0]

    def test_alerts_are_filtered_and_ordered(self, client, live):
        amounts = {"a": 600, "b": 900, "c": 700}
        client.post("/score", [alert(id, src=f"x{id}", amount=amount) for id, amount in amounts.items()])
        live.add("anna")
        client.post("/decisions", [{"id": "a", "assignee": "anna"}, {"id": "c", "label": 0, "reason": "other"}])
        for query, expected in (
            ("status=all&order=highest", "bca"),
            ("status=all&q=XB", "b"),
            ("status=all&least=0.65", "cb"),
            ("status=all&feature=amount&low=650&high=800", "c"),
            ("status=all&feature=amount&value=900", "b"),
            ("status=all&feature=nothing&low=1", ""),
            ("assignee=anna", "a"),
            ("assignee=-", "b"),
            ("status=all&dismissal=other", "c"),
            ("status=all&since=2025-01-01T00:00:00", "cba"),
            ("status=all&since=2025-01-02", ""),
            ("status=decided", "c"),
            ("status=all&order=latest", "cab"),
        ):
            found = client.get(f"/alerts?{query}").json["alerts"]
            assert "".join(one["id"] for one in found) == expected, query
            rows = client.get(f"/alerts.csv?{query}").body.decode().splitlines()[1:]
            assert "".join(row[0] for row in rows) == expected, query

    def test_an_export_holds_no_formulas(self, client):
        client.post("/score", alert("a", src="=1+1", dst="@x", amount=900))
        client.post("/decisions", {"id": "a", "note": "=cmd()"})
        answer = client.get("/alerts.csv")
        assert answer.headers["content-disposition"] == 'attachment; filename="alerts.csv"'
        (row,) = csv.DictReader(answer.body.decode().splitlines())
        assert (row["src"], row["dst"], row["amount"]) == ("'=1+1", "'@x", "900")
        assert row["notes"].endswith(": =cmd()")

    def test_a_long_export_holds_up_nobody(self, client, monkeypatch):
        making, made = threading.Event(), threading.Event()

        def slow(alerts):
            making.set()
            assert made.wait(10)
            return b"done"

        monkeypatch.setattr("tdlg.serve.api.table_of", slow)
        bodies = []
        exporting = threading.Thread(target=lambda: bodies.append(client.get("/alerts.csv").body))
        exporting.start()
        assert making.wait(10)
        other = Client(client.service)
        try:
            assert other.get("/health").status == 200
        finally:
            other.close()
            made.set()
            exporting.join()
        assert bodies == [b"done"]

    def test_statistics_and_what_scores_mean(self, client):
        client.post("/score", alert("a"))
        assert client.get("/statistics").json["alerts"] == {
            "open": 1,
            "confirmed": 0,
            "dismissed": 0,
            "expired": 0,
        }
        about = client.get("/about").json
        assert (about["confirm"], about["dismiss"], about["threshold"], about["signed_in"]) == (1, 0, 0.5, False)

    def test_changes(self, client):
        client.post("/score", [alert("a"), alert("b")])
        client.post("/labels", {"id": "a", "label": 1})
        found = client.get("/changes").json
        assert found["sequence"] == 3
        assert [(change["kind"], change["id"]) for change in found["changes"]] == [
            ("alert", "a"), ("alert", "b"), ("decision", "a"),
        ]  # fmt: skip
        assert found["missed"] == 0
        assert len(client.get("/changes?since=2").json["changes"]) == 1

    def test_changes_that_are_not_kept_are_said(self, live, client):
        client.post("/score", [alert("a"), alert("b"), alert("c")])
        del live._changes[:2]
        assert [client.get(f"/changes?since={k}").json["missed"] for k in (0, 1, 2, 3, 9)] == [2, 1, 0, 0, 0]
        stream = Stream(client, last_event_id="1")
        assert next(iter(stream))[1]["missed"] == 1
        stream.close()

    @pytest.mark.parametrize(
        ("method", "path", "status"), [("GET", "/nothing", 404), ("GET", "/score", 405), ("POST", "/alerts", 405)]
    )
    def test_other_addresses(self, client, method, path, status):
        answer = client(method, path)
        assert answer.status == status
        assert path in answer.json["error"]["message"]

    def test_head(self, client):
        answer = client("HEAD", "/health")
        assert (answer.status, answer.body) == (200, b"")


# ---- the stream of changes


class Stream:
    """Reads server-sent events."""

    def __init__(self, client, **headers):
        self.client = Client(client.service)
        given = {"accept": "text/event-stream", **{name.replace("_", "-"): value for name, value in headers.items()}}
        self.client.connection.request("GET", "/changes", headers=given)
        self.answer = self.client.connection.getresponse()

    def __iter__(self):
        fields = {}
        while line := self.answer.readline().decode().rstrip("\n") or fields:
            if isinstance(line, dict):
                yield fields.pop("event"), json.loads(fields.pop("data")), fields.pop("id", None)
                fields = {}
            else:
                name, _, value = line.partition(": ")
                fields[name] = value

    def close(self):
        self.answer.close()
        self.client.close()


def request_for(path, **headers):
    """A request as the application gets it."""
    raw = [(name.encode(), value.encode()) for name, value in headers.items()]
    return Request({"type": "http", "method": "GET", "path": path, "query_string": b"", "headers": raw})


def status_of_stream(client):
    stream = Stream(client)
    stream.close()
    return stream.answer.status


class TestStream:
    def test_an_alert_is_told_at_once(self, live, monkeypatch):
        monkeypatch.setattr("tdlg.serve.feed.PULSE", 3600.0)
        with serving(live) as client:
            stream = Stream(client)
            assert stream.answer.headers["content-type"].startswith("text/event-stream")
            messages = iter(stream)
            kind, data, _ = next(messages)
            assert (kind, data["sequence"], data["ok"]) == ("pulse", 0, True)
            client.post("/score", alert("a"))
            kind, data, number = next(messages)
            assert (kind, number, data["changes"][0]["id"]) == ("changes", "1", "a")
            kind, data, _ = next(messages)
            assert (kind, data["alerts"]["open"]) == ("pulse", 1)
            stream.close()

    def test_figures_come_again_and_again(self, live, monkeypatch):
        monkeypatch.setattr("tdlg.serve.feed.PULSE", 0.05)
        with serving(live) as client:
            stream = Stream(client)
            messages = iter(stream)
            assert [next(messages)[0] for _ in range(3)] == ["pulse"] * 3
            stream.close()

    def test_a_stream_continues_after_the_last_known_change(self, client):
        client.post("/score", [alert("a"), alert("b")])
        stream = Stream(client, last_event_id="1")
        kind, data, _ = next(iter(stream))
        assert kind == "changes"
        assert [change["id"] for change in data["changes"]] == ["b"]
        stream.close()

    def test_desks_are_limited_and_come_free(self, live):
        with serving(live, limits=Limits(desks=1)) as client:
            first = Stream(client)
            next(iter(first))
            statuses = [status_of_stream(client)]
            first.close()
            while statuses[-1] == 503 and len(statuses) < 100:
                time.sleep(0.1)
                statuses.append(status_of_stream(client))
            assert statuses[0] == 503
            assert statuses[-1] == 200

    def test_desks_that_connect_at_once_are_counted(self, live):
        async def test(worker):
            api = Api(worker, Feed(worker), Limits(desks=2), Metrics(), [])
            found, refused = [], 0
            for _ in range(4):  # no stream has been started yet
                try:
                    found.append(await api.changes(request_for("/changes", accept="text/event-stream")))
                except RefusedError as refusal:
                    refused += refusal.status == 503
            assert (len(found), refused) == (2, 2)
            found.clear()  # their clients left before the start
            assert (await api.changes(request_for("/changes", accept="text/event-stream"))).status_code == 200

        working(live, test)

    def test_desks_that_connect_at_once_get_figures(self, live):
        async def test(worker):
            feed = Feed(worker)
            streams = [feed.messages(None) for _ in range(3)]
            return await asyncio.gather(*map(anext, streams))

        for message in working(live, test):
            kind, data = message.decode().strip().split("\n")
            assert kind == "event: pulse"
            assert json.loads(data.removeprefix("data: "))["events_per_second"] == 12.5

    def test_a_stop_ends_streams(self, live):
        with serving(live) as client:
            stream = Stream(client)
            messages = iter(stream)
            next(messages)
            client.service.stop()
            assert list(messages) == []
            stream.close()


def test_a_stop_answers_what_was_accepted(live):
    live.delay = 0.3
    with serving(live) as client:
        client.connection.request("POST", "/score", json.dumps(event("a")), {"content-type": "application/json"})
        time.sleep(0.1)
        client.service.stop()
        answer = client.connection.getresponse()
        assert answer.status == 200
        assert json.loads(answer.read())["id"] == "a"
        client.service.stop()  # again is no error


def test_a_port_that_is_taken(live):
    with serving(live) as client, pytest.raises(ParameterError, match=r"cannot listen on '127\.0\.0\.1', port"):
        Service(live, port=int(client.host.split(":")[1]))


def test_health_when_the_log_hangs(live, monkeypatch):
    monkeypatch.setattr("tdlg.serve.api.HEALTH_WITHIN", 0.05)
    live.delay = 0.5
    with serving(live) as client:
        other = Client(client.service)
        other.connection.request("POST", "/score", json.dumps(event(1)), {"content-type": "application/json"})
        time.sleep(0.1)
        answer = client.get("/health")
        assert answer.status == 503
        assert "did not answer" in answer.json["reason"]
        assert other.connection.getresponse().status == 200
        other.close()


def test_unknown_is_an_error_of_keys_too():
    assert issubclass(UnknownEventError, KeyError)
