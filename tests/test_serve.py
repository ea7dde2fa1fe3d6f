"""The service over HTTP: what it answers, what it refuses, and that nothing is lost when it is busy, full or stopped."""

import asyncio
import io
import json
import re
import socket
import threading
import time
from contextlib import suppress
from importlib.resources import files
from pkgutil import resolve_name
from urllib.parse import quote
from xml.etree import ElementTree

import numpy as np
import polars as pl
import pytest
from starlette.requests import Request

from fake_live import FakeLive
from serving import Client, serving, working
from tdlg.exceptions import ParameterError, TdlgWarning
from tdlg.live.scorer import UnknownEventError
from tdlg.serve.answers import as_json
from tdlg.serve.api import Api
from tdlg.serve.app import Measured, make_app
from tdlg.serve.arrow import read_arrow
from tdlg.serve.bodies import ARROW, LINES, Fault, read_items
from tdlg.serve.feed import Feed
from tdlg.serve.limits import Limits
from tdlg.serve.metrics import Metrics
from tdlg.serve.refusals import RefusedError
from tdlg.serve.service import Service
from tdlg.serve.tokens import WRONG_PER_MINUTE, Token, read_token
from tdlg.serve.worker import StoppingError, Worker

ODD_IDS = ["a b", "a/b", "ü ✓", "..", ".", "a?b=c&d#e", "<script>", "100%", "%2F", "'", '"', "\\"]


def event(id, src="ann", dst="shop", time="2025-01-01T00:00:00", **more):
    return {"id": id, "src": src, "dst": dst, "time": time, **more}


def alert(id, **more):
    """An event that the stand-in for the live model makes an alert of."""
    return event(id, **{"amount": 900, **more})


@pytest.fixture(scope="module")
def shared():
    """One service for most tests, since to start and stop one takes a fifth of a second."""
    live = FakeLive()
    with serving(live) as client:
        client.live = live
        yield client


@pytest.fixture
def live(shared):
    shared.live.__init__()  # as new
    return shared.live


@pytest.fixture
def client(shared, live):
    client = Client(shared.service)
    client.service = shared.service
    yield client
    client.close()


@pytest.mark.parametrize(
    "name", ["body", "events", "queue", "batch", "desks", "connections", "seconds", "head_seconds"]
)
def test_limits_are_counts(name):
    with pytest.raises(ParameterError, match=name):
        Limits(**{name: 0})


def test_a_request_must_fit_in_the_queue():
    with pytest.raises(ParameterError, match="'queue' parameter of Limits must be at least 'events', 50"):
        Limits(events=50, queue=49)


# ---- bodies


def arrow(frame, **options):
    file = io.BytesIO()
    frame.write_ipc_stream(file, **options)
    return file.getvalue()


class TestBodies:
    def test_one_list_and_lines(self):
        one, two = {"id": 1}, {"id": "ü"}
        found = read_items(json.dumps(one).encode(), "application/json", Limits(), "event")
        assert found == ([one], True, False)
        found = read_items(json.dumps([one, two]).encode(), "Application/JSON; charset=utf-8", Limits(), "event")
        assert found == ([one, two], False, False)
        for media in LINES:
            found = read_items(b'{"id": 1}\r\n\n  \n{"id": "\\u00fc"}', media, Limits(), "event")
            assert found == ([one, two], False, True)

    def test_a_bad_line_is_named_by_its_number(self):
        body = b'{"id": 1}\n\nnonsense\n[1]\n{"x": NaN}\n{"id": 2}\n\xff\n'
        items = read_items(body, LINES[0], Limits(), "event").items
        assert [isinstance(item, Fault) for item in items] == [False, True, True, True, False, True]
        assert items[1].message.startswith("Line 3 is not JSON: ")
        assert items[1].value == "nonsense"
        assert items[2].message == "One event is a JSON object. Got [1] instead."
        assert items[3].message == "Line 5 is not JSON: NaN is not a value of JSON; leave the field out, or give null."
        assert items[5].message.startswith("Line 7 is not JSON: ")

    @pytest.mark.parametrize(
        ("body", "media", "status", "words"),
        [
            (b"nonsense", "application/json", 400, "The body is not JSON: "),
            (
                b'{"id": 1}\n{"id": 2}',
                "application/json",
                400,
                "For JSON lines, set Content-Type: application/x-ndjson",
            ),
            (b"", "application/json", 400, "The body is not JSON"),
            (b"\xff", "application/json", 400, "not UTF-8"),
            (b"[" * 100_000, "application/json", 400, "nested too deeply"),
            (b"[Infinity]", "application/json", 400, "Infinity is not a value of JSON"),
            (b"9" * 5000, "application/json", 400, "The body is not JSON"),
            (b"{}", "", 415, "Got 'none' instead"),
            (b"{}", "text/plain", 415, "Got 'text/plain' instead"),
            (b"a=1", "application/x-www-form-urlencoded", 415, "must be one of"),
            (b"[{},{},{},{}]", "application/json", 413, "A request may hold 3 items. Got 4"),
            (b"{}\n{}\n{}\n{}\n", "application/jsonlines", 413, "A request may hold 3 items. Got 4"),
            (b"nonsense", ARROW, 400, "not an Arrow IPC stream"),
            (b"", ARROW, 400, "not an Arrow IPC stream"),
        ],
    )
    def test_what_cannot_be_read_is_refused(self, body, media, status, words):
        with pytest.raises(RefusedError, match=re.escape(words)) as caught:
            read_items(body, media, Limits(events=3, queue=3), "event")
        assert caught.value.status == status

    @pytest.mark.parametrize(
        ("body", "media"),
        [
            (b"[" + b"0," * 500_000 + b"0]", "application/json"),
            (b"0\n" * 500_000, LINES[0]),
            (b"x\n" * 500_000, LINES[0]),
            (b"\n" * 500_000, LINES[0]),
        ],
    )
    def test_items_are_counted_before_they_are_described(self, body, media, monkeypatch):
        monkeypatch.setattr("tdlg.serve.bodies.Fault", lambda *words, **more: pytest.fail("a fault was made"))
        monkeypatch.setattr("tdlg.serve.bodies._BadLine", lambda *words: pytest.fail("a line was read"))
        with pytest.raises(RefusedError, match=r"may hold 10000 items\. Got 50000[01]:") as caught:
            read_items(body, media, Limits(), "event")
        assert caught.value.status == 413

    @pytest.mark.parametrize(
        ("body", "media"),
        [
            (json.dumps([0, {"id": 1}] * 300).encode(), "application/json"),
            (b'nonsense\n{"id": 1}\n' * 300, LINES[0]),
        ],
    )
    def test_the_first_faults_are_described_and_all_keep_their_places(self, body, media):
        items = read_items(body, media, Limits(), "event").items
        assert items[1::2] == [{"id": 1}] * 300
        assert len(set(map(id, items[0::2]))) == 101
        assert items[198] != items[200] == items[598]
        assert items[200].message == "This event cannot be read. Only the first 100 faults of a request are described."

    def test_something_else_than_an_object(self):
        (fault,) = read_items(b"5", "application/json", Limits(), "label").items
        assert fault.message == "One label is a JSON object. Got 5 instead."


class TestArrow:
    FRAME = pl.DataFrame(
        {
            "id": ["a", "b", None],
            "src": pl.Series(["x", "y", "x"], dtype=pl.Categorical),
            "amount": [1.5, None, 3.0],
            "time": pl.Series([0, 60_000_000, 120_000_000]).cast(pl.Datetime("us")),
        }
    )

    def test_rows_are_events(self):
        assert read_arrow(arrow(self.FRAME), Limits()) == self.FRAME.cast({"src": pl.String}).to_dicts()

    def test_of_another_writer(self):
        pa = pytest.importorskip("pyarrow")
        table = pa.table({"src": pa.array(["q", "q", "r"]).dictionary_encode(), "n": [1, 2, 3]})
        file = io.BytesIO()
        with pa.ipc.new_stream(file, table.schema) as writer:
            writer.write_table(table, max_chunksize=2)
        assert read_arrow(file.getvalue(), Limits()) == table.to_pylist()

    @pytest.mark.parametrize("compression", ["lz4", "zstd"])
    def test_a_compressed_stream_is_refused(self, compression):
        with pytest.raises(RefusedError, match="is compressed"):
            read_arrow(arrow(self.FRAME, compression=compression), Limits())

    def test_a_compressed_dictionary_is_refused(self):
        pa = pytest.importorskip("pyarrow")
        table = pa.table({"src": pa.array(["q" * 100] * 3).dictionary_encode()})
        file = io.BytesIO()
        with pa.ipc.new_stream(file, table.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as writer:
            writer.write_table(table)
        with pytest.raises(RefusedError, match="is compressed"):
            read_arrow(file.getvalue(), Limits())

    def test_text_that_would_be_repeated_many_times(self):
        frame = pl.DataFrame({"src": pl.Series(["x" * 1000] * 5000, dtype=pl.Categorical)})
        limits = Limits(body=100_000)
        assert len(arrow(frame)) < limits.body
        with pytest.raises(RefusedError, match="has 5000000 bytes, of at most 400000"):
            read_arrow(arrow(frame), limits)

    def test_too_many_rows(self):
        with pytest.raises(RefusedError, match="may hold 2 rows"):
            read_arrow(arrow(self.FRAME), Limits(events=2, queue=2))

    @pytest.mark.parametrize("values", [[[1]], [{"a": 1}], [b"x"]])
    def test_nested_columns_are_named(self, values):
        with pytest.raises(RefusedError, match="The column 'odd' holds") as caught:
            read_arrow(arrow(pl.DataFrame({"odd": values})), Limits())
        assert (caught.value.status, caught.value.error["field"]) == (422, "odd")

    def test_a_time_that_python_lacks(self):
        frame = pl.DataFrame({"time": pl.Series([2**60]).cast(pl.Datetime("us"))})
        with pytest.raises(RefusedError, match="cannot be read"):
            read_arrow(arrow(frame), Limits())

    def test_damaged_streams_are_refused_or_read(self):
        import random

        rng, whole, statuses = random.Random(0), arrow(self.FRAME), set()
        for _ in range(300):
            damaged = bytearray(whole)
            for _ in range(rng.randrange(1, 4)):
                damaged[rng.randrange(len(whole))] = rng.randrange(256)
            damaged = damaged[: rng.randrange(len(whole))] if rng.random() < 0.3 else damaged
            try:
                read_arrow(bytes(damaged), Limits())
            except RefusedError as refusal:
                statuses.add(refusal.status)
        assert statuses <= {400, 413, 415, 422}


def test_whole_numbers_that_a_browser_would_round_are_text():
    largest, larger = 2**53 - 1, 2**53 + 1
    value = {"id": larger, "near": [largest, -larger], "score": 0.12345678901234567, "text": ":12345678901234567890"}
    assert json.loads(as_json(value)) == {**value, "id": str(larger), "near": [largest, str(-larger)]}
    assert as_json(larger) == f'"{larger}"'.encode()
    assert as_json([np.int64(larger), True]) == f'["{larger}",true]'.encode()


def test_answers_are_json():
    import datetime

    import numpy as np

    value = {
        "a": float("nan"),
        "b": [np.float64(1.5), np.int64(3), np.array([1, 2])],
        "c": np.datetime64("2025-01-31T10:00"),
        "d": np.datetime64("NaT"),
        "e": datetime.date(2025, 1, 31),
        "f": (1, float("inf")),
        "g": {"x"},
        "h": "ü",
    }
    assert json.loads(as_json(value)) == {
        "a": None, "b": [1.5, 3, [1, 2]], "c": "2025-01-31T10:00", "d": None, "e": "2025-01-31", "f": [1, None], "g": ["x"],
        "h": "ü",
    }  # fmt: skip


# ---- events


def opened(client, start):
    """A connection over which the start of a request was sent."""
    line = socket.create_connection(client.host.split(":"), timeout=20)
    line.sendall(start)
    return line


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
        monkeypatch.setattr("tdlg.serve.connections.AutoHTTPProtocol", resolve_name(f"uvicorn.protocols.http.{parser}"))
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
        if set(id) != {"."}:
            assert client.get(f"/explain/{quote(id, safe='')}").json["id"] == id
            assert len(client.get(f"/nodes/{quote(id, safe='')}").json["events"]) == 1

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
        assert client.get("/explain/17").json["id"] == 17
        assert client.get("/events/-3").json["id"] == -3

    def test_reasons(self, client):
        client.post("/score", alert("a"))
        found = client.get("/explain/a").json
        assert [reason["what"] for reason in found["reasons"]] == ["label", "amount"]
        assert len(client.get("/explain/a?top=1").json["reasons"]) == 1

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

    @pytest.mark.parametrize("path", ["/explain/x", "/explain?id=x", "/events/x", "/explain/17"])
    def test_an_unknown_event(self, client, path):
        answer = client.get(path)
        assert answer.status == 404
        assert answer.json["error"]["field"] == "id"

    @pytest.mark.parametrize(
        ("path", "field"),
        [
            ("/explain", "id"),
            ("/nodes?id=", "id"),
            ("/explain/a?top=0", "top"),
            ("/explain/a?top=x", "top"),
            ("/alerts?limit=9999", "limit"),
            ("/alerts?limit=٣", "limit"),
            ("/alerts?before=-1", "before"),
            ("/alerts?status=some", "status"),
            ("/changes?since=-1", "since"),
        ],
    )
    def test_wrong_parameters_are_named(self, client, path, field):
        answer = client.get(quote(path, safe="/?=&"))
        assert answer.status == 422
        assert answer.json["error"]["field"] == field

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
        assert set(page["alerts"][0]) == {
            "sequence", "id", "src", "dst", "time", "features", "score", "reason", "status", "label", "decided_at",
        }  # fmt: skip

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


# ---- who may ask


class TestHosts:
    @pytest.mark.parametrize("name", ["{host}", "LocalHost:{port}", "127.0.0.1:{port}"])
    def test_its_own_names(self, client, name):
        port = client.host.split(":")[1]
        assert client.get("/alerts", host=name.format(host=client.host, port=port)).status == 200

    @pytest.mark.parametrize(
        "name",
        ["evil.example", "evil.example:{port}", "127.0.0.1", "127.0.0.1:1", "127.0.0.2:{port}", "localhost", "",
         "[::1]:{port}", "localhost.evil.example:{port}", "127.0.0.1:{port}@evil.example", "127.0.0.1:٣"],
    )  # fmt: skip
    def test_other_names_are_refused(self, client, live, name):
        name = name.format(port=client.host.split(":")[1]).encode().decode("latin-1")
        answer = client.get("/alerts", host=name)
        assert answer.status == 421
        assert answer.json["error"]["message"].startswith("The Host header ")
        assert client.post("/score", event("a"), host=name).status == 421
        assert not live._events
        assert client.get("/health", host=name).json == {"ok": True}  # for load balancers

    def test_two_names_are_refused(self, client):
        with socket.create_connection(client.host.split(":")) as line:
            line.sendall(f"GET /alerts HTTP/1.1\r\nHost: evil.example\r\nHost: {client.host}\r\n\r\n".encode())
            assert line.recv(100).split()[1] in (b"400", b"421")

    def test_names_that_are_allowed(self, live):
        with serving(live, allowed_hosts=["Desk.example", "other.example:99"]) as client:
            for name, status in (
                ("desk.example", 200),
                ("desk.example:1234", 200),
                ("other.example:99", 200),
                ("other.example", 421),
                ("other.example:98", 421),
                (client.host, 200),
            ):
                assert client.get("/alerts", host=name).status == status

    @pytest.mark.parametrize(
        "origin",
        [
            "http://evil.example",
            "null",
            "https://127.0.0.1",
            "file://{host}",
            "http://{host}.evil.example",
            "",
            "http://[",
        ],
    )
    def test_pages_of_others_are_refused(self, client, live, origin):
        origin = origin.format(host=client.host)
        assert client.post("/score", event("a"), origin=origin).status == 403
        answer = client.get("/alerts", origin=origin)
        assert answer.status == 403
        assert (
            answer.json["error"]["message"] == f"Cross-origin request refused: Origin {origin!r} is not this service."
        )
        assert not live._events

    def test_its_own_page_may(self, client):
        assert client.post("/score", event("a"), origin=f"http://{client.host}").status == 200

    def test_a_form_of_another_site_cannot_be_sent(self, client):
        assert client.post("/score", b"{}", "text/plain").status == 415

    def test_there_is_no_answer_for_other_sites_to_read(self, client):
        answer = client("OPTIONS", "/score", origin=f"http://{client.host}", access_control_request_method="POST")
        assert "access-control-allow-origin" not in answer.headers


SECRET = "correct horse battery".replace(" ", "-")


@pytest.fixture(scope="module")
def guarded():
    """A service with a token."""
    live = FakeLive()
    with serving(live, token=SECRET) as client:
        client.live = live
        yield client


class TestToken:
    @pytest.fixture
    def live(self, guarded, monkeypatch):
        monkeypatch.setattr("tdlg.serve.tokens.WRONG_PER_MINUTE", 1_000_000)  # the service is that of many tests
        guarded.live.__init__()
        return guarded.live

    @pytest.fixture
    def client(self, guarded, live):
        return guarded

    PRIVATE = ("/alerts", "/explain/a", "/nodes/a", "/statistics", "/about", "/changes", "/metrics", "/openapi.json",
               "/charts/days.svg", "/events/a", "/nothing")  # fmt: skip

    @pytest.mark.parametrize(
        "given", [None, "Bearer wrong", f"Basic {SECRET}", "Bearer", f"Bearer {SECRET}x", "Bearer \xff"]
    )
    def test_without_it_nothing_is_told(self, client, given):
        for path in self.PRIVATE:
            answer = client.get(path, **({} if given is None else {"authorization": given}))
            assert answer.status == 401
            assert answer.headers["www-authenticate"] == "Bearer"

    def test_without_it_nothing_is_done(self, client, live):
        assert client.post("/score", event("a")).status == 401
        assert client.post("/labels", {"id": "a", "label": 1}).status == 401
        assert not live._events

    def test_with_it(self, client):
        for given in (f"Bearer {SECRET}", f"bearer {SECRET}"):
            assert client.post("/score", event("a"), authorization=given).status == 200

    def test_health_without_it_says_only_whether(self, client, live):
        assert client.get("/health").json == {"ok": True}
        assert client.get("/health", authorization=f"Bearer {SECRET}").json["n_nodes"] == 7
        live.disk_is_full = True
        answer = client.get("/health")
        assert (answer.status, answer.json) == (503, {"ok": False})

    def test_the_desk_asks_for_it_once(self, client):
        page = client.get("/").body.decode()
        assert 'type="password"' in page
        assert "Open alerts" not in page
        assert client.post("/login", {"token": "wrong"}).status == 401
        answer = client.post("/login", {"token": SECRET}, origin=f"http://{client.host}")
        assert answer.status == 200
        cookie = answer.headers["set-cookie"]
        for word in ("HttpOnly", "SameSite=strict", "Path=/", "Max-Age=2592000"):
            assert word in cookie
        assert SECRET not in cookie
        value = cookie.partition(";")[0]
        odd = f'a[b]=1; flag; {{x}}="y; {value}; café=1'
        assert client.get("/about", cookie=odd.encode()).status == 200, "cookies of other services on this machine"
        assert "Open alerts" in client.get("/", cookie=value).body.decode()
        assert client.post("/score", event("a"), cookie=value).status == 200
        assert client.get("/about", cookie=value).json["signed_in"] is True
        assert client.post("/score", event("b"), cookie=value, origin="http://evil.example").status == 403
        for changed in (
            value[:-1] + ("0" if value[-1] != "0" else "1"),
            "tdlg_desk=",
            "tdlg_desk=9999999999.0",
            'x="',
        ):
            assert client.get("/alerts", cookie=changed).status == 401

    def test_it_can_leave(self, client):
        cookie = client.post("/login", {"token": SECRET}).headers["set-cookie"].partition(";")[0]
        answer = client.post("/logout", {}, cookie=cookie)
        assert answer.headers["set-cookie"].startswith('tdlg_desk=""')

    @pytest.mark.parametrize(
        ("body", "media", "status"),
        [
            (b'{"token": "x"}', "text/plain", 415),
            (b"nonsense", "application/json", 422),
            (b"[]", "application/json", 422),
            (b"[" * 4000, "application/json", 422),
            (b"{}", "application/json", 422),
            (b" " * 5000, "application/json", 413),
        ],
    )
    def test_other_ways_to_sign_in(self, client, body, media, status):
        assert client.post("/login", body, media).status == status

    def test_the_style_and_the_scripts_are_public(self, client):
        for name in ("parts.css", "desk.css", "desk.js", "login.js"):
            assert client.get(f"/desk/{name}").status == 200
        assert client.get("/desk/tokens.py").status == 404


class TestGuesses:
    def test_wrong_tokens_are_refused_in_words_and_told_once(self, live, caplog):
        with serving(live, token=SECRET) as client:
            ways = [
                lambda: client.get("/about", authorization="Bearer no"),
                lambda: client.post("/login", {"token": "no"}),
            ]
            found = [ways[k % 2]().status for k in range(WRONG_PER_MINUTE + 6)]
            assert found == [401] * WRONG_PER_MINUTE + [429] * 6
            assert client.get("/about", authorization="Bearer no").headers["retry-after"] == "60"
            assert client.get("/about").status == 401, "who gives no token guesses nothing"
            assert client.get("/about", authorization=f"Bearer {SECRET}").status == 200, "the right one always passes"
            assert client.post("/login", {"token": SECRET}).status == 200
        assert [record.getMessage() for record in caplog.records if "wrong token" in record.getMessage()] == [
            "20 requests from '127.0.0.1' had a wrong token within a minute."
        ]

    def test_each_address_is_counted_for_a_minute(self):
        token = Token(SECRET)
        for _ in range(WRONG_PER_MINUTE):
            assert not token.check("no", "a", 1000.0)
        with pytest.raises(RefusedError):
            token.check("no", "a", 1001.0)
        assert not token.check("no", "b", 1001.0)
        assert token.check(SECRET, "a", 1001.0)
        assert not token.check("no", "a", 1061.0)

    def test_no_more_addresses_are_kept_than_needed(self, monkeypatch):
        monkeypatch.setattr("tdlg.serve.tokens.MOST_CLIENTS", 100)
        token = Token(SECRET)
        for k in range(100):
            assert not token.check("no", f"client {k}", 1000.0)
        for k in range(WRONG_PER_MINUTE):
            assert not token.check("no", f"other {k}", 1000.0)
        with pytest.raises(RefusedError):  # those beyond are counted together
            token.check("no", "yet another", 1000.0)

    def test_few_slow_attempts_to_sign_in_at_once(self, live):
        with serving(live, token=SECRET, limits=Limits(seconds=2)) as client:
            start = f"POST /login HTTP/1.1\r\nHost: {client.host}\r\nContent-Type: application/json\r\n"
            lines = [opened(client, f"{start}Content-Length: 9\r\n\r\n".encode()) for _ in range(20)]
            answers = [line.recv(100)[:13] for line in lines]
            for line in lines:
                line.close()
            assert sorted(answers) == [b"HTTP/1.1 408 "] * 16 + [b"HTTP/1.1 503 "] * 4
            assert client.post("/login", {"token": SECRET}).status == 200


def test_a_cookie_ends():
    token = Token(SECRET)
    cookie = token.cookie(1000.0)
    assert token.accepts_cookie(cookie, 1000.0 + 30 * 86_400 - 1)
    assert not token.accepts_cookie(cookie, 1000.0 + 30 * 86_400 + 1)
    end, _, proof = cookie.partition(".")
    assert not token.accepts_cookie(f"{int(end) + 1}.{proof}", 1000.0)
    assert not Token("another secret").accepts_cookie(cookie, 1000.0)
    for odd in ("", ".", "x.y", "é.é"):
        assert not token.accepts_cookie(odd, 1000.0)


class TestTokenFile:
    def test_space_around_it_is_left_out(self, tmp_path):
        file = tmp_path / "token"
        file.write_text(f"\n {SECRET} \n")
        file.chmod(0o600)
        assert read_token(file) == SECRET

    @pytest.mark.parametrize("text", ["", "short", "two words are not a token", "ü" * 20, "a" * 20 + "\n" + "b" * 20])
    def test_what_is_no_token(self, tmp_path, text):
        file = tmp_path / "token"
        file.write_text(text, encoding="utf-8")
        with pytest.raises(ParameterError, match="at least 16 printable characters"):
            read_token(file)

    def test_no_text(self, tmp_path):
        file = tmp_path / "token"
        file.write_bytes(b"\xff" * 40)
        with pytest.raises(ParameterError, match="at least 16 printable characters"):
            read_token(file)

    def test_a_file_that_others_can_read(self, tmp_path):
        file = tmp_path / "token"
        file.write_text(SECRET)
        file.chmod(0o644)
        with pytest.warns(TdlgWarning, match="others on this machine can read"):
            read_token(file)


@pytest.mark.parametrize("host", ["0.0.0.0", "192.0.2.1", "example.org", "::", ""])
def test_an_address_that_others_reach_needs_a_token(live, host):
    with pytest.raises(ParameterError, match="needs a token"):
        Service(live, host=host, port=0)


def test_all_addresses_with_a_token(live):
    with Service(live, host="0.0.0.0", port=0, token=SECRET) as service:
        port = service.url.rstrip("/").rpartition(":")[2]
        client = Client(service, authorization=f"Bearer {SECRET}")
        assert client.get("/alerts", host=f"127.0.0.1:{port}").status == 200
        assert client.get("/alerts", host=f"0.0.0.0:{port}").status == 421
        client.close()


def test_a_port_that_is_taken(live):
    with serving(live) as client, pytest.raises(ParameterError, match=r"cannot listen on '127\.0\.0\.1', port"):
        Service(live, port=int(client.host.split(":")[1]))


def test_every_answer_protects_the_desk(client):
    for path in ("/", "/health", "/nothing", "/desk/desk.js", "/charts/days.svg", "/openapi.json"):
        headers = client.get(path).headers
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["cache-control"] == "no-store"
        assert headers["referrer-policy"] == "no-referrer"
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "frame-ancestors 'none'" in policy
        assert "unsafe" not in policy
        assert "server" not in headers
    assert client.get("/", host="evil.example").headers["x-frame-options"] == "DENY"


# ---- what it says about itself


class TestMetrics:
    @pytest.fixture
    def client(self, live):
        with serving(live) as client:
            yield client

    def test_what_is_counted(self, client):
        client.post("/score", [alert("a"), event("b", src=None), event("c", time="2024-01-01"), alert("a")])
        client.post("/labels", [{"id": "a", "label": 1}, {"id": "x", "label": 1}])
        client.get("/nothing/at/all")
        answer = client.get("/metrics")
        assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
        text = answer.body.decode()
        for line in (
            'tdlg_events_total{outcome="scored"} 2',
            'tdlg_events_total{outcome="refused"} 1',
            'tdlg_events_total{outcome="repeated"} 1',
            "tdlg_late_events_total 1",
            "tdlg_alerts_total 1",
            'tdlg_labels_total{outcome="learnt"} 1',
            'tdlg_labels_total{outcome="refused"} 1',
            'tdlg_requests_total{path="/score",status="200"} 1',
            'tdlg_requests_total{path="other",status="404"} 1',
            "tdlg_request_seconds_count 1",
            'tdlg_request_seconds_bucket{le="+Inf"} 1',
            'tdlg_turn_events_bucket{le="2"} 1',
            "tdlg_turn_events_sum 6",
            "tdlg_up 1",
            "tdlg_queue_events 0",
            "tdlg_disk_bytes 1234",
        ):
            assert f"\n{line}\n" in text

    def test_a_stop_is_no_failure_of_the_log(self, live, monkeypatch):
        async def stopping(worker, events):
            raise StoppingError("The service is being stopped.")

        with serving(live) as client:
            with monkeypatch.context() as patch:
                patch.setattr(Worker, "submit", stopping)
                assert client.post("/score", event("a")).status == 503
            assert "\ntdlg_log_failures_total " not in client.get("/metrics").body.decode()
            live.disk_is_full = True
            assert client.post("/score", event("a")).status == 503
            assert "\ntdlg_log_failures_total 1\n" in client.get("/metrics").body.decode()

    @pytest.mark.parametrize(
        ("path", "parameters", "name"),
        [("/score", {}, "/score"), ("/explain/a/b", {"id": "a/b"}, "/explain/{id}"), ("/x", None, "other")],
    )
    def test_addresses_are_named_without_the_route_in_the_scope(self, path, parameters, name):
        async def app(scope, receive, send):  # older versions of starlette set no more than this
            if parameters is not None:
                scope.update(endpoint=app, path_params=parameters)
            await send({"type": "http.response.start", "status": 200})

        async def send(message):
            pass

        metrics = Metrics()
        asyncio.run(Measured(app, metrics)({"type": "http", "path": path}, None, send))
        assert f'tdlg_requests_total{{path="{name}",status="200"}} 1' in metrics.text({})

    def test_the_text_has_the_format(self, client):
        client.post("/score", alert("a"))
        seen = set()
        for line in client.get("/metrics").body.decode().splitlines():
            if line.startswith("# "):
                word, name, _ = line[2:].split(" ", 2)
                assert word in ("HELP", "TYPE")
                seen.add(name)
                continue
            match = re.fullmatch(r'(\w+)(\{\w+="(?:[^"\\\n]|\\.)*"(?:,\w+="(?:[^"\\\n]|\\.)*")*\})? (\S+)', line)
            assert match, line
            float(match[3])
            assert re.sub("_(bucket|sum|count)$", "", match[1]) in seen

    def test_buckets_are_cumulative_and_bounds_are_included(self):
        metrics = Metrics()
        for value in (0.001, 0.0011, 0.3, 99.0):
            metrics.observe("tdlg_request_seconds", value)
        found = re.findall(r'tdlg_request_seconds_bucket\{le="(.*?)"\} (\d+)', metrics.text({}))
        counts = {bound: int(n) for bound, n in found}
        assert (counts["0.001"], counts["0.002"], counts["0.5"], counts["5"], counts["+Inf"]) == (1, 2, 3, 3, 4)
        assert list(counts.values()) == sorted(counts.values())

    def test_label_values_are_quoted(self):
        metrics = Metrics()
        metrics.count("tdlg_requests_total", path='a"b\\c\nd', status="200")
        assert r'path="a\"b\\c\nd"' in metrics.text({})


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


# ---- the description for programs

DOCUMENT = json.loads(files("tdlg.serve").joinpath("openapi.json").read_text(encoding="utf-8"))


def resolved(schema):
    """A schema, a response or a parameter in place of a reference to it."""
    if "$ref" not in schema:
        return schema
    found = DOCUMENT
    for part in schema["$ref"].removeprefix("#/").split("/"):
        found = found[part]
    return found


TYPES = {"object": dict, "array": list, "string": str, "integer": int, "number": (int, float), "boolean": bool}


def conforms(value, schema):
    """Whether a value has the form of a schema, as far as the document uses schemas."""
    schema = resolved(schema)
    if "oneOf" in schema:
        return sum(conforms(value, one) for one in schema["oneOf"]) == 1
    if "enum" in schema and value not in schema["enum"]:
        return False
    if "const" in schema and value is not schema["const"]:
        return False
    kinds = schema.get("type", [])
    kinds = [kinds] if isinstance(kinds, str) else kinds
    if kinds and not any(value is None if kind == "null" else isinstance(value, TYPES[kind]) for kind in kinds):
        return False
    if isinstance(value, dict):
        known, other = schema.get("properties", {}), schema.get("additionalProperties", {})
        if not set(schema.get("required", ())) <= set(value) or (other is False and not set(value) <= set(known)):
            return False
        return all(
            conforms(item, known.get(key, other if isinstance(other, dict) else {})) for key, item in value.items()
        )
    return not isinstance(value, list) or all(conforms(item, schema.get("items", {})) for item in value)


def references(value):
    if isinstance(value, dict):
        yield from [value["$ref"]] if "$ref" in value else []
        for item in value.values():
            yield from references(item)
    elif isinstance(value, list):
        for item in value:
            yield from references(item)


class TestOpenApi:
    def test_it_is_served_with_the_version(self, client):
        import tdlg

        found = client.get("/openapi.json").json
        assert found["info"]["version"] == tdlg.__version__
        assert found["paths"] == DOCUMENT["paths"]

    def test_it_lists_every_address(self, live):
        app = make_app(live)
        served = {
            (route.path.replace(":path", ""), method.lower())
            for route in app.routes
            for method in route.methods - {"HEAD"}
            if not route.path.startswith(("/desk", "/charts", "/login", "/logout")) and route.path != "/"
        }
        assert served == {(path, method) for path, methods in DOCUMENT["paths"].items() for method in methods}

    def test_references_lead_somewhere(self):
        found = list(references(DOCUMENT))
        assert len(found) > 50
        for reference in found:
            assert resolved({"$ref": reference})

    def test_parameters_of_addresses_are_there(self):
        for path, methods in DOCUMENT["paths"].items():
            for described in methods.values():
                given = [
                    parameter["name"] for parameter in described.get("parameters", []) if parameter["in"] == "path"
                ]
                assert given == re.findall(r"\{(\w+)\}", path)
                assert described["summary"]
                assert all(resolved(response)["description"] for response in described["responses"].values())

    def test_answers_conform(self, client):
        requests = [
            ("POST", "/score", event("e")),
            ("POST", "/score", [alert("a"), event("b", src=None)]),
            ("POST", "/score", event("b", src=None)),
            ("POST", "/score", [event("b", src=None)]),
            ("POST", "/score", b"nonsense"),
            ("POST", "/labels", {"id": "a", "label": 1}),
            ("POST", "/labels", [{"id": "a", "label": 1}, {}]),
            ("POST", "/labels", {"id": "x", "label": 1}),
            ("POST", "/labels", {"id": "a", "label": 9}),
            ("GET", "/explain/a", None),
            ("GET", "/explain/x", None),
            ("GET", "/explain?id=a", None),
            ("GET", "/explain", None),
            ("GET", "/events/a", None),
            ("GET", "/events?id=a", None),
            ("GET", "/nodes/ann", None),
            ("GET", "/nodes?id=ann", None),
            ("GET", "/alerts?status=all", None),
            ("GET", "/alerts?limit=x", None),
            ("GET", "/statistics", None),
            ("GET", "/about", None),
            ("GET", "/changes", None),
            ("GET", "/health", None),
            ("GET", "/openapi.json", None),
        ]
        asked = set()
        for method, address, body in requests:
            answer = client(method, address, body, "application/json" if isinstance(body, bytes) else None)
            path = address.partition("?")[0]
            known = path if path in DOCUMENT["paths"] else re.sub(r"/[^/]+$", "/{id}", path)
            responses = DOCUMENT["paths"][known][method.lower()]["responses"]
            assert str(answer.status) in responses, (address, answer.status)
            schema = resolved(responses[str(answer.status)])["content"]["application/json"]["schema"]
            assert conforms(answer.json, schema), (address, answer.json)
            asked.add(known)
        assert asked == set(DOCUMENT["paths"]) - {"/metrics"}

    def test_the_check_can_fail(self):
        assert not conforms({"id": 1}, {"$ref": "#/components/schemas/Answer"})
        assert not conforms({"error": {}}, {"$ref": "#/components/schemas/Error"})
        assert conforms({"error": {"message": "x", "field": None}}, {"$ref": "#/components/schemas/Error"})

    @pytest.mark.parametrize("name", ["Event", "Label"])
    def test_examples_conform(self, name):
        schema = DOCUMENT["components"]["schemas"][name]
        assert conforms(schema["example"], schema)


def test_unknown_is_an_error_of_keys_too():
    assert issubclass(UnknownEventError, KeyError)
