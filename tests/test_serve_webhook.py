"""The webhook: signed, in order, at least once, and from where it was after a restart."""

import hashlib
import hmac
import json
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from fake_live import FakeLive
from serving import alert, serving
from tdlg.exceptions import ParameterError
from tdlg.serve.service import Service
from tdlg.serve.webhook import SIGNATURE

SECRET = "correct-horse-battery"


class Receiver:
    """Keeps what it receives, and answers with the next of `statuses`, then 200."""

    def __init__(self):
        self.bodies, self.statuses, self.came = [], [], threading.Condition()
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["content-length"]))
                proof = hmac.new(SECRET.encode(), body, hashlib.sha256).hexdigest()
                status = receiver.statuses.pop(0) if receiver.statuses else 200
                with receiver.came:
                    assert self.headers[SIGNATURE] == f"sha256={proof}"
                    receiver.bodies.append((status, json.loads(body)))
                    receiver.came.notify_all()
                self.send_response(status)
                self.send_header("location", "/elsewhere")
                self.end_headers()

            def log_message(self, *words):
                pass

        self.server = HTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/hook"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def seen(self, n):
        """The changes of requests that were received with 200, once there are `n`."""

        def found():
            return [change for status, body in self.bodies if status == 200 for change in body["changes"]]

        with self.came:
            assert self.came.wait_for(lambda: len(found()) >= n, 20), self.bodies
            return found()


@pytest.fixture
def receiver():
    found = Receiver()
    yield found
    found.server.shutdown()
    found.server.server_close()


@pytest.fixture
def live(tmp_path, monkeypatch):
    monkeypatch.setattr("tdlg.serve.webhook.EVERY", 0.01)
    live = FakeLive()
    live.folder = tmp_path
    return live


def test_new_and_decided_alerts_are_sent_in_order(receiver, live):
    with serving(live, webhook=receiver.url, webhook_secret=SECRET) as client:
        client.post("/score", [alert("a"), alert("b")])
        receiver.seen(2)
        client.post("/decisions", {"id": "b", "label": 0, "reason": "other"})
        found = receiver.seen(3)
    assert [(one["sequence"], one["kind"], one["id"]) for one in found] == [
        (1, "alert", "a"), (2, "alert", "b"), (3, "decision", "b"),
    ]  # fmt: skip
    texts = "\n".join(body["text"] for _, body in receiver.bodies)
    assert "open: ann → shop, score 0.9 (2 open alerts of source ann)" in texts
    assert texts.endswith("dismissed: ann → shop, score 0.9")
    assert (found[0]["score"], found[0]["src"], found[2]["dismissal"]) == (0.9, "ann", "other")


def test_what_is_not_received_is_sent_again(receiver, live, caplog):
    receiver.statuses = [500, 302, 503]
    with serving(live, webhook=receiver.url, webhook_secret=SECRET) as client:
        client.post("/score", [alert("a"), alert("b")])
        assert [one["id"] for one in receiver.seen(2)] == ["a", "b"]
    assert [status for status, _ in receiver.bodies][:4] == [500, 302, 503, 200]
    assert "was not received: HTTP Error 500" in caplog.text


def test_a_restart_goes_on_where_it_was(receiver, live):
    with serving(live, webhook=receiver.url, webhook_secret=SECRET) as client:
        client.post("/score", [alert("a")])
        receiver.seen(1)
    with serving(live, webhook=receiver.url, webhook_secret=SECRET) as client:
        client.post("/score", [alert("b")])
        ids = [one["id"] for one in receiver.seen(2)]
    assert ids in (["a", "b"], ["a", "a", "b"]), "at least once"
    assert json.loads((live.folder / "webhook.json").read_text())["sequence"] == 2


@pytest.mark.parametrize(
    ("url", "secret", "words"),
    [
        ("ftp://x/y", SECRET, "Got 'ftp://x/y'"),
        ("http://", SECRET, "an address of http"),
        ("http://x", None, "needs a secret"),
    ],
)
def test_mistakes_are_told(url, secret, words):
    with pytest.raises(ParameterError, match=words):
        Service(FakeLive(), port=0, webhook=url, webhook_secret=secret)
