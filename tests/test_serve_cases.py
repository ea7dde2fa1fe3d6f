"""Cases: open alerts that share a node are one item; a function of these alerts alone."""

import re
from html import escape
from urllib.parse import urlencode
from xml.etree import ElementTree

import numpy as np
import pytest

from fake_live import Alert, FakeLive
from serving import alert, event, serving
from tdlg.report.desk import ends_chart
from tdlg.serve.cases import cases_of, wanted
from tdlg.serve.schema import Filter

HOSTILE = '<script>alert("x")</script>'


def made(*rows):
    return [
        Alert(k + 1, f"p{k}", src, dst, "2025-01-01T00:00:00", {}, score) for k, (src, dst, score) in enumerate(rows)
    ]


def told(cases):
    return [(case.id, [one.id for one in case.alerts]) for case in cases]


@pytest.mark.parametrize(
    ("rows", "cases"),
    [
        ([], []),
        ([("a", "x", 0.9)], [("source a", ["p0"])]),
        ([("a", "x", 0.5), ("a", "y", 0.9)], [("source a", ["p1", "p0"])]),
        ([("a", "x", 0.5), ("b", "x", 0.9)], [("destination x", ["p1", "p0"])]),
        ([("a", "x", 0.5), ("a", "y", 0.6), ("b", "x", 0.9)], [("source b", ["p2"]), ("source a", ["p1", "p0"])]),
        (
            [("a", "x", 0.5), ("a", "x", 0.6), ("b", "x", 0.7), ("c", "x", 0.8)],
            [("destination x", ["p3", "p2"]), ("source a", ["p1", "p0"])],
        ),
        ([(5, "x", 0.5), ("5", "y", 0.5)], [("source 5", ["p1", "p0"])]),  # one node, and the newer first
        ([("a", "b", 0.5), ("b", "c", 0.6)], [("source b", ["p1"]), ("source a", ["p0"])]),  # not the same role
    ],
)
def test_alerts_that_share_a_node_are_a_case(rows, cases):
    assert told(cases_of(made(*rows))) == cases


def test_each_alert_is_in_one_case_whatever_the_order():
    draw = np.random.default_rng(0)
    alerts = made(*zip(*draw.integers(0, 20, (2, 60)).tolist(), draw.random(60).tolist(), strict=True))
    cases = cases_of(alerts)
    assert sorted(one.id for case in cases for one in case.alerts) == sorted(one.id for one in alerts)
    assert told(cases_of([alerts[k] for k in draw.permutation(60)])) == told(cases)
    assert all(len({one.src if case.role == "source" else one.dst for one in case.alerts}) == 1 for case in cases)


@pytest.fixture
def client():
    with serving(FakeLive()) as client:
        client.post("/score", [alert(k, amount=amount) for k, amount in ((1, 600), (2, 900), (3, 700))])
        client.post("/score", [alert(4, src="bob", dst="bar", amount=950), event(5, "ann", "inn")])
        yield client


def test_cases_over_http(client):
    def listed(query=""):
        found = client.get(f"/cases?{query}").json
        return [(case["id"], [one["id"] for one in case["alerts"]]) for case in found["cases"]], found["more"]

    assert listed() == ([("source bob", [4]), ("source ann", [2, 3, 1])], False)
    assert listed("limit=1") == ([("source bob", [4])], True)
    assert listed("least=0.65&q=ann") == ([("source ann", [2, 3])], False)
    client.post("/decisions", {"id": 4, "label": 1})
    assert listed() == ([("source ann", [2, 3, 1])], False)
    client.post("/score", alert(6, src="zoe", dst="zoo", amount=510))
    assert [id for id, _ in listed("order=newest")[0]] == ["source zoe", "source ann"]


def test_all_about_a_case(client):
    found = client.get("/case?id=3").json
    assert [one["id"] for one in found["case"]["alerts"]] == [2, 3, 1]
    assert [one["id"] for one in found["explanations"]] == [2, 3, 1]
    assert {one["id"] for one in found["node"]["events"]} == {1, 2, 3, 5}
    client.post("/decisions", {"id": 3, "label": 0})
    closed = client.get("/case?id=3").json["case"]
    assert [(one["id"], one["status"]) for one in closed["alerts"]] == [(3, "dismissed")]
    assert client.get("/case?id=5").status == 404, "an event that was no alert"


def test_a_case_as_a_page(client):
    client.post("/score", alert(HOSTILE, src=HOSTILE, dst="<img src=x>", amount=990))
    client.post("/decisions", {"id": HOSTILE, "note": HOSTILE})
    answer = client.get(f"/case.html?{urlencode({'id': HOSTILE})}")
    assert answer.headers["content-disposition"] == 'attachment; filename="case.html"'
    page = answer.body.decode()
    assert not re.search(r"<script|<img|\son\w+=|//(?!www.w3.org)", page)
    assert page.count(escape(HOSTILE)) >= 4
    assert "Raises the score: 0 of 0 interactions were frauds" in page
    assert page.count("<svg") == 2
    client.post("/decisions", {"id": 3, "label": 0, "reason": "other"})
    page = client.get("/case.html?id=3").body.decode()
    assert "<dt>Reason</dt><dd>other</dd>" in page
    assert "<dt>Model</dt><dd>generation-0001</dd>" in page


def test_times_that_are_numbers_are_compared_as_numbers():
    (alert,) = made(("a", "x", 0.9))
    wants = wanted(Filter(since="9"))
    for time, expected in ((10, True), (9.0, True), (8, False), ("2025-01-01", False)):
        alert.time = time
        assert wants(alert) is expected
    alert.time = 10
    assert not wanted(Filter(since="2025-01-01"))(alert)


def test_the_ends_of_a_case_and_their_neighbours(client):
    client.post("/score", [event(7, "ann", HOSTILE), event(8, "kim", "shop")])
    client.post("/labels", [{"id": 5, "label": 1}, {"id": 8, "label": 0}])
    answer = client.get("/charts/ends.svg?id=2&width=420")
    assert answer.headers["content-type"] == "image/svg+xml"
    drawn = ElementTree.fromstring(answer.body)
    tips = [one.get("data-tip") for one in drawn.iter() if one.get("data-tip")]
    assert tips == [
        "inn: 1 with ann", f"{HOSTILE}: 1 with ann", "ann: 5 interactions", "kim: 1 with shop", "shop: 4 interactions",
    ]  # fmt: skip
    assert client.get("/charts/ends.svg?id=5").status == 404


def test_an_end_has_at_most_eight_neighbours():
    ends = [
        {"id": "a", "events": [{"src": "a", "dst": f"{HOSTILE} {k // 2}", "is_positive": None} for k in range(60)]},
        {"id": "b", "events": []},
    ]
    drawn = ElementTree.fromstring(ends_chart(tuple(ends), width=420))
    assert sum(" with a" in (one.get("data-tip") or "") for one in drawn.iter()) == 8
