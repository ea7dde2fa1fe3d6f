"""The OpenAPI document is made of the types of the schema, and every answer has the form that it describes."""

import msgspec
import pytest

import tdlg
from fake_live import FakeLive
from openapi import DOCUMENT, conforms, is_described, resolved
from serving import alert, event, serving
from tdlg.serve.app import make_app
from tdlg.serve.schema import ADDRESSES, LINES, Event, Label

SECRET = "correct-horse-battery"


def references(value):
    if isinstance(value, dict):
        yield from [value["$ref"]] if "$ref" in value else []
        for item in value.values():
            yield from references(item)
    elif isinstance(value, list):
        for item in value:
            yield from references(item)


def test_it_lists_every_address():
    routes = [route for route in make_app(FakeLive()).routes if hasattr(route, "methods")]
    served = {(route.path, method.lower()) for route in routes for method in route.methods - {"HEAD"}}
    served = {(path, method) for path, method in served if not path.startswith(("/desk", "/charts", "/log"))}
    assert served == {("/", "get")} | {(path, method) for path, known in DOCUMENT["paths"].items() for method in known}


def test_references_lead_somewhere():
    found = list(references(DOCUMENT))
    assert len(found) > 50
    for reference in found:
        assert resolved({"$ref": reference})


def test_everything_is_described():
    for path, methods in DOCUMENT["paths"].items():
        for described in methods.values():
            assert described["summary"], path
            assert all(resolved(response)["description"] for response in described["responses"].values())
            for parameter in described.get("parameters", []):
                assert parameter["in"] == "query"
                assert parameter["schema"]["description"]


def test_what_a_parameter_may_be():
    parameters = {one["name"]: one for one in DOCUMENT["paths"]["/alerts"]["get"]["parameters"]}
    limit = parameters["limit"]["schema"]
    assert (limit["minimum"], limit["maximum"], limit["default"]) == (1, 1000, 50)
    assert set(parameters["status"]["schema"]["enum"]) == {
        "open",
        "confirmed",
        "dismissed",
        "expired",
        "decided",
        "all",
    }
    assert not any(one["required"] for one in parameters.values())
    (id, top) = DOCUMENT["paths"]["/explain"]["get"]["parameters"]
    assert (id["name"], id["required"], top["name"], top["required"]) == ("id", True, "top", False)


REQUESTS = [
    ("POST", "/score", event("e"), 200),
    ("POST", "/score", [alert("a"), event("b", src=None), 7], 200),
    ("POST", "/score", event("b", src=None), 422),
    ("POST", "/score", [event("b", src=None)], 422),
    ("POST", "/score", b"nonsense", 400),
    ("POST", "/score", b"[" + b"0," * 10_000 + b"0]", 413),
    ("POST", "/labels", {"id": "a", "label": 1}, 200),
    ("POST", "/labels", [{"id": "a", "label": 1}, {}], 200),
    ("POST", "/labels", {"id": "x", "label": 1}, 404),
    ("POST", "/labels", {"id": "a", "label": 9}, 422),
    ("POST", "/withdrawals", {"id": "e"}, 200),
    ("POST", "/withdrawals", [{"id": "e"}, {"id": "x"}, {}], 422),
    ("POST", "/withdrawals", {"id": "x"}, 404),
    ("POST", "/decisions", {"id": "a", "label": 0, "reason": "other", "note": "seen"}, 200),
    ("POST", "/decisions", [{"id": "a", "assignee": None}, {"id": "x", "note": "?"}, 5], 200),
    ("POST", "/decisions", {"id": "a", "label": 1, "version": 1}, 409),
    ("POST", "/decisions", {"id": "x", "label": 1}, 404),
    ("POST", "/decisions", {"id": "a", "assignee": "nobody"}, 422),
    ("POST", "/actions", {"do": "snooze", "nodes": ["ann", "shop"], "until": "2026-01-01", "note": "on holiday"}, 200),
    ("POST", "/actions", {"do": "snooze", "nodes": []}, 422),
    ("POST", "/actions", {"do": "nothing"}, 422),
    ("POST", "/actions", [], 422),
    ("POST", "/actions", {"do": "rules", "text": '[[rule]]\nname = "large"\nall = ["amount > 5"]'}, 200),
    ("POST", "/actions", {"do": "rules", "text": "nonsense"}, 422),
    ("POST", "/actions", {"do": "promote", "generation": "generation-0002"}, 422),
    ("POST", "/score", alert("by a rule"), 200),
    ("GET", "/alerts", None, 200),
    ("GET", "/rules", None, 200),
    ("GET", "/challenger", None, 200),
    ("GET", "/card", None, 404),
    ("GET", "/card.html", None, 404),
    ("GET", "/team", None, 200),
    ("GET", "/audit?limit=2", None, 200),
    ("GET", "/audit?limit=0", None, 422),
    ("GET", "/explain?id=a", None, 200),
    ("GET", "/explain?id=x", None, 404),
    ("GET", "/explain", None, 422),
    ("GET", "/events?id=a", None, 200),
    ("GET", "/events?id=x", None, 404),
    ("GET", "/nodes?id=ann", None, 200),
    ("GET", "/nodes?id=ann&limit=0", None, 422),
    ("GET", "/alerts?status=all", None, 200),
    ("GET", "/alerts?status=some", None, 422),
    ("GET", "/alerts?q=ann&least=0.1&feature=amount&low=1&high=1e9&order=highest&assignee=-&since=2024", None, 200),
    ("GET", "/alerts?least=much", None, 422),
    ("GET", "/alerts.csv?status=all", None, 200),
    ("GET", "/cases", None, 200),
    ("GET", "/cases?order=newest&q=ann", None, 200),
    ("GET", "/cases?limit=0", None, 422),
    ("GET", "/case?id=a", None, 200),
    ("GET", "/case?id=x", None, 404),
    ("GET", "/case", None, 422),
    ("GET", "/case.html?id=a", None, 200),
    ("GET", "/case.html?id=x", None, 404),
    ("GET", "/alerts?status=decided&order=latest", None, 200),
    ("GET", "/statistics", None, 200),
    ("GET", "/drift", None, 200),
    ("GET", "/about", None, 200),
    ("GET", "/changes", None, 200),
    ("GET", "/health", None, 200),
    ("GET", "/metrics", None, 200),
    ("GET", "/openapi.json", None, 200),
]


def test_answers_and_refusals_are_described():
    with serving(FakeLive()) as client:
        for method, address, body, status in REQUESTS:
            answer = client(method, address, body, "application/json" if isinstance(body, bytes) else None)
            assert answer.status == status, address
            assert is_described(method, address, answer), (address, answer.body)
        assert client.get("/openapi.json").json["info"]["version"] == tdlg.__version__
        assert client.get("/openapi.json").json == DOCUMENT
    assert {address.partition("?")[0] for _, address, _, _ in REQUESTS} == set(DOCUMENT["paths"])


@pytest.mark.parametrize("address", ADDRESSES, ids=lambda address: address.name)
def test_refusals_of_every_address_are_described(address):
    live = FakeLive()
    with serving(live, token=SECRET) as client:
        for headers, status in (({}, 401), ({"origin": "http://evil.example"}, 403), ({"host": "evil.example"}, 421)):
            answer = client(address.method, address.path, **headers)
            if address.name == "health" and status != 403:
                status = 200
            assert answer.status == status
            assert is_described(address.method, address.path, answer)
        live.disk_is_full = True
        if address.name in ("score", "labels", "health"):
            body = {"id": "a", "src": 1, "dst": 2, "time": 3, "label": 1} if address.body else None
            answer = client(address.method, address.path, body, authorization=f"Bearer {SECRET}")
            assert answer.status == 503
            assert is_described(address.method, address.path, answer)


def test_the_check_can_fail():
    answer = {"id": 1, "score": 0.5, "alert": False, "predicted": 1, "late": False, "repeated": False}
    schema = {"$ref": "#/components/schemas/Answer"}
    assert conforms(answer, schema)
    for wrong in ({"score": "0.5"}, {"alert": 0}, {"late": None}, {"more": 1}, {"probabilities": {"1": None}}):
        assert not conforms({**answer, **wrong}, schema)
    assert not conforms({name: value for name, value in answer.items() if name != "repeated"}, schema)
    assert not conforms({"error": {}}, {"$ref": "#/components/schemas/Refused"})
    assert conforms({"error": {"message": "x", "field": None}}, {"$ref": "#/components/schemas/Refused"})


@pytest.mark.parametrize(
    ("kind", "example"),
    [
        (Event, {"id": "p1", "src": "ann", "dst": 7, "time": "2025-07-01T10:00:00", "amount": 9.5, "label": None}),
        (Event, {"src": "ann", "dst": 7, "time": 3.5}),
        (Label, {"id": 17, "label": 1, "time": "2025-07-20T00:00:00"}),
    ],
)
def test_what_is_sent_is_described(kind, example):
    assert msgspec.convert(example, kind)
    assert conforms(example, {"$ref": f"#/components/schemas/{kind.__name__}"})


def test_bodies_are_of_three_kinds():
    for path in ("/score", "/labels"):
        content = DOCUMENT["paths"][path]["post"]["requestBody"]["content"]
        assert set(content) == {"application/json", LINES[0], "application/vnd.apache.arrow.stream"}
