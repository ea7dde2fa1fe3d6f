"""What the service counts, in the text format of Prometheus."""

import asyncio
import re

import pytest
from prometheus_client import REGISTRY

from fake_live import FakeLive
from serving import alert, event, serving
from tdlg.serve.app import Measured
from tdlg.serve.metrics import Metrics
from tdlg.serve.worker import StoppingError, Worker


@pytest.fixture
def live():
    return FakeLive()


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
        assert re.fullmatch(r"text/plain; version=[0-9.]+; charset=utf-8", answer.headers["content-type"])
        text = answer.body.decode()
        for line in (
            'tdlg_events_total{outcome="scored"} 2.0',
            'tdlg_events_total{outcome="refused"} 1.0',
            'tdlg_events_total{outcome="repeated"} 1.0',
            "tdlg_late_events_total 1.0",
            "tdlg_alerts_total 1.0",
            'tdlg_labels_total{outcome="learnt"} 1.0',
            'tdlg_labels_total{outcome="refused"} 1.0',
            'tdlg_requests_total{path="/score",status="200"} 1.0',
            'tdlg_requests_total{path="other",status="404"} 1.0',
            "tdlg_request_seconds_count 1.0",
            'tdlg_request_seconds_bucket{le="+Inf"} 1.0',
            'tdlg_turn_events_bucket{le="2.0"} 1.0',
            "tdlg_turn_events_sum 6.0",
            "tdlg_up 1.0",
            "tdlg_queue_events 0.0",
            "tdlg_disk_bytes 1234.0",
        ):
            assert f"\n{line}\n" in text

    def test_a_stop_is_no_failure_of_the_log(self, live, monkeypatch):
        async def stopping(worker, events):
            raise StoppingError("The service is being stopped.")

        with serving(live) as client:
            with monkeypatch.context() as patch:
                patch.setattr(Worker, "submit", stopping)
                assert client.post("/score", event("a")).status == 503
            assert "\ntdlg_log_failures_total 0.0\n" in client.get("/metrics").body.decode()
            live.disk_is_full = True
            assert client.post("/score", event("a")).status == 503
            assert "\ntdlg_log_failures_total 1.0\n" in client.get("/metrics").body.decode()

    @pytest.mark.parametrize(
        ("path", "parameters", "name"),
        [("/score", {}, "/score"), ("/desk/a.js", {"name": "a.js"}, "/desk/{name}"), ("/x", None, "other")],
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
        assert f'tdlg_requests_total{{path="{name}",status="200"}} 1.0' in metrics.text({}).decode()

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

    def test_each_service_counts_for_itself(self, client, live):
        client.post("/score", event("a"))
        with serving(FakeLive()) as other:
            assert "\ntdlg_request_seconds_count 0.0\n" in other.get("/metrics").body.decode()
        assert REGISTRY.get_sample_value("tdlg_request_seconds_count") is None
        assert "python_info" not in client.get("/metrics").body.decode()
