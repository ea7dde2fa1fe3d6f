"""The desk in a browser: it is live, decisions are learnt and can be undone, and all data is text."""

import json
import re
from importlib.resources import files

import numpy as np
import pytest

from browser import Browser
from fake_live import FakeLive
from serving import serving
from tdlg.live.challenger import Evidence

HOSTILE = '<script>alert("x")</script>'
SECRET = "correct-horse-battery"
ROWS = "[...document.querySelectorAll('#list > li')]"
SELECTED = "document.querySelector('#list [aria-current]')"
DETAIL = "document.getElementById('detail')"
SCRIPTS = sorted(path.name for path in files("tdlg.serve").joinpath("desk").iterdir() if path.name.endswith(".js"))


def event(id, src="ann", dst="shop", time="2025-01-01T00:00:00", **more):
    return {"id": id, "src": src, "dst": dst, "time": time, **more}


def alerts(n, **more):
    """Alerts that share no node."""
    return [
        event(f"p{k}", f"customer {k}", f"shop {k}", amount=900 - k, time=f"2025-01-{k + 1:02}T10:00:00", **more)
        for k in range(n)
    ]


@pytest.fixture
def desk(browser, client):
    """Opens the desk, and waits until it is live."""

    def open_desk(part="", order="newest", **options):
        browser.open(client.service.url + part, **options)
        browser.wait("document.getElementById('state')?.className === 'live'")
        if order == "newest":
            browser.run("document.querySelector('input[value=newest]').click()")
            browser.wait("document.getElementById('list').dataset.order === 'newest'")
        return browser

    yield open_desk
    browser.call("Page.navigate", url="about:blank")


def calm(browser):
    """No errors, and no request to anybody else."""
    assert not browser.complaints()
    own = browser.run("location.origin")
    assert all(url.startswith((own, "data:", "about:")) for url in browser.requests())
    assert "Page.javascriptDialogOpening" not in {event.get("method") for event in browser.events}
    return True


# ---- alerts


@pytest.mark.needs("chromium")
def test_an_alert_appears_without_reloading(desk, client):
    browser = desk()
    assert not browser.run("document.getElementById('empty').hidden")
    browser.run("window.sameness = 1")
    client.post("/score", alerts(1))
    browser.wait(f"{ROWS}.length === 1")
    assert browser.run("document.getElementById('empty').hidden")
    browser.wait("document.title === '(1) tdlg desk'")
    assert browser.run(f"{ROWS}[0].innerText").startswith("0.900\ncustomer 0 → shop 0")
    client.post("/score", event("second", "bob", amount=700))
    browser.wait(f"{ROWS}.length === 2")
    assert browser.run(f"{ROWS}[0].textContent").startswith("0.700bob → shop")  # the newest first
    assert "customer 0" in browser.run(f"{SELECTED}.textContent")  # what was selected stays so
    assert browser.run("document.getElementById('news').textContent") == "1 new alert: bob to shop, score 0.700"
    assert browser.run("window.sameness") == 1
    assert calm(browser)


@pytest.mark.needs("chromium")
def test_a_confirmation_changes_the_next_score(desk, client, live):
    client.post("/score", [*alerts(2), event("calm", "zoe")])
    before = client.post("/score", event("before", "customer 1", "elsewhere")).json["score"]
    browser = desk()
    browser.wait(f"{ROWS}.length === 2")
    browser.press("y")
    browser.wait(f"{ROWS}.length === 1")
    assert live.event("p1")["label"] == 1
    assert client.post("/score", event("after", "customer 1", "elsewhere")).json["score"] > before
    assert browser.run("document.querySelector('#done p').textContent") == "Confirmed: customer 1 → shop 1"
    assert calm(browser)


@pytest.mark.needs("chromium")
def test_undo_by_key_and_by_click(desk, client, live):
    client.post("/score", alerts(3))
    browser = desk()
    browser.wait(f"{ROWS}.length === 3")
    browser.press("n")
    browser.wait(f"{ROWS}.length === 2")
    browser.press("y")
    browser.wait(f"{ROWS}.length === 1")
    assert [live.event(f"p{k}")["label"] for k in range(3)] == [None, 1, 0]
    browser.press("u")
    browser.wait(f"{ROWS}.length === 2 && {SELECTED}.textContent.includes('customer 1')")
    assert live.event("p1")["label"] is None
    browser.run("document.getElementById('undo').click()")  # hidden: the last message offers no undo
    browser.wait(f"{ROWS}.length === 3")
    assert live.event("p2")["label"] is None
    browser.press("u")  # nothing is left
    assert browser.run(f"{ROWS}.length") == 3
    assert calm(browser)


@pytest.mark.needs("chromium")
def test_by_keyboard_alone(desk, client, live):
    client.post("/score", alerts(4))
    browser = desk()
    browser.wait(f"{ROWS}.length === 4")
    selected = f"{SELECTED}.querySelector('.ends').textContent"
    assert browser.run(selected) == "customer 3 → shop 3"
    for key, name in (("j", 2), ("j", 1), ("k", 2), ("k", 3), ("k", 3)):
        browser.press(key)
        assert browser.run(selected) == f"customer {name} → shop {name}"
    assert browser.run(f"document.activeElement === {SELECTED}")
    browser.press("j")
    browser.press("y")
    browser.wait(f"{ROWS}.length === 3")
    assert live.event("p2")["label"] == 1
    browser.wait(f"{selected} === 'customer 1 → shop 1'")  # the next one
    browser.wait(f"document.activeElement === {SELECTED}")
    browser.press("/")
    assert browser.run("document.activeElement.name") == "id"
    browser.press("y")  # is typed, and decides nothing
    assert browser.run(f"{ROWS}.length") == 3
    browser.press("Escape")
    assert browser.run("document.activeElement === document.body")
    assert calm(browser)


@pytest.mark.needs("chromium")
def test_the_selected_alert_is_explained(desk, client):
    client.post("/score", [*(event(f"e{k}", "customer 1", "other") for k in range(3)), *alerts(2)])
    client.post("/labels", {"id": "e0", "label": 1})
    browser = desk()
    browser.wait(f"{DETAIL}.querySelectorAll('.why-list li').length === 2")
    text = browser.run(f"{DETAIL}.innerText")
    for words in ("0.899", "probability of class 1", "customer 1 → shop 1", "Confirm", "Dismiss", "p1", "899"):
        assert words in text
    assert browser.run(f"{DETAIL}.querySelectorAll('table tbody tr').length") == 3
    assert browser.run(f"{DETAIL}.querySelector('.why-list').textContent").startswith("↑raises the score: 1 of 3")
    assert browser.run(f"{DETAIL}.querySelectorAll('.mark.confirmed').length") == 1
    assert calm(browser)


@pytest.mark.needs("chromium")
def test_ids_are_shown_as_text(desk, client):
    client.post("/score", [event(HOSTILE, HOSTILE, "<img src=x onerror=alert(1)>", amount=950)])
    browser = desk()
    browser.wait(f"{DETAIL}.querySelectorAll('.why-list li').length === 2")
    assert browser.run(f"{SELECTED}.querySelector('.ends').textContent") == f"{HOSTILE} → <img src=x onerror=alert(1)>"
    assert browser.run(f"{DETAIL}.querySelector('h3').textContent") == f"{HOSTILE} → <img src=x onerror=alert(1)>"
    assert browser.run("document.querySelectorAll('img, main script').length") == 0
    browser.run(f"{DETAIL}.querySelector('h3 a').click()")
    browser.wait("!document.getElementById('node').hidden && document.querySelector('#node svg.chart [data-tip]')")
    assert browser.run("document.getElementById('node-title').textContent") == HOSTILE
    assert HOSTILE in browser.run("document.querySelector('#node svg.chart [data-tip]').dataset.tip")
    assert browser.run("document.querySelectorAll('#node script').length") == 0
    browser.press("y")  # of no effect on this part
    assert calm(browser)


@pytest.mark.needs("chromium")
def test_the_order_can_be_by_score(desk, client):
    client.post("/score", alerts(3))
    browser = desk(order="")
    browser.wait(f"{ROWS}.length === 3")
    scores = f"{ROWS}.map(row => Number(row.querySelector('.score').textContent))"
    assert browser.run(scores) == [0.9, 0.899, 0.898], "the highest first"
    browser.run("document.querySelector('input[value=newest]').click()")
    browser.wait(f"String({scores}) === '0.898,0.899,0.9'")
    browser.run("document.querySelector('input[value=highest]').click()")
    browser.wait(f"String({scores}) === '0.9,0.899,0.898'")
    client.post("/score", event("more", "bob", amount=899.5))
    browser.wait(f"{ROWS}.length === 4")
    assert browser.run(scores) == [0.9, 0.899, 0.899, 0.898]
    assert calm(browser)


@pytest.mark.needs("chromium")
def test_many_alerts_come_in_pages(desk, client):
    client.post("/score", [event(k, f"c{k}", f"t{k}", amount=900) for k in range(120)])
    browser = desk()
    browser.wait(f"{ROWS}.length === 50")
    browser.run("document.getElementById('more').click()")
    browser.wait(f"{ROWS}.length === 100")
    browser.run("document.getElementById('more').click()")
    browser.wait(f"{ROWS}.length === 120")
    assert browser.run("document.getElementById('more').hidden")
    assert calm(browser)


@pytest.mark.needs("chromium")
def test_what_others_decide_leaves_the_list(desk, client):
    client.post("/score", alerts(2))
    browser = desk()
    browser.wait(f"{ROWS}.length === 2")
    client.post("/labels", {"id": "p1", "label": 0})
    browser.wait(f"{ROWS}.length === 1")
    assert "customer 0" in browser.run(f"{SELECTED}.textContent")
    assert calm(browser)


@pytest.mark.needs("chromium")
def test_a_full_disk_is_told_and_its_end(desk, client, live):
    client.post("/score", alerts(1))
    browser = desk()
    browser.wait(f"{ROWS}.length === 1")
    live.disk_is_full = True
    browser.wait("document.getElementById('state').className === 'trouble'")
    assert browser.run("document.getElementById('state').textContent") == "No space left on device"
    browser.press("y")
    browser.wait("document.querySelector('#done p').textContent.includes('cannot be written')")
    assert browser.run(f"{ROWS}.length") == 1
    live.disk_is_full = False
    browser.wait("document.getElementById('state').className === 'live'")


# ---- other parts


@pytest.mark.needs("chromium")
def test_decisions_can_be_opened_again(desk, client, live):
    client.post("/score", alerts(3))
    client.post("/labels", [{"id": "p0", "label": 1}, {"id": "p1", "label": 0}])
    browser = desk("#decided")
    rows = "[...document.querySelectorAll('#decisions tbody tr')]"
    browser.wait(f"{rows}.length === 2")
    assert browser.run(f"{rows}.map(row => row.querySelector('.mark').textContent)") == ["dismissed", "confirmed"]
    browser.run(f"{rows}[1].querySelector('button').click()")
    browser.wait(f"{rows}.length === 1")
    assert live.event("p0")["label"] is None
    assert calm(browser)


@pytest.mark.needs("chromium")
def test_drift(desk, client):
    browser = desk("#drift")
    browser.wait("document.querySelectorAll('#drifts tbody tr').length === 2")
    assert browser.run("document.getElementById('drift-line').textContent") == "Refit: amount changed."
    rows = browser.run("[...document.querySelectorAll('#drifts tbody tr')].map(row => row.innerText)")
    assert rows[0].split("\t") == ["amount", "0.310", "0.100", "drift", "part 10 of 10: 9.8% then, 31.0% now"]
    assert rows[1].split("\t")[1] == "–"
    assert browser.run("document.querySelector('#drift-tiles dd').textContent").startswith("42 %")
    assert calm(browser)


@pytest.mark.needs("chromium")
def test_figures(desk, client):
    client.post("/score", alerts(4))
    client.post("/labels", [{"id": "p0", "label": 1}, {"id": "p1", "label": 0}, {"id": "p2", "label": 1}])
    browser = desk("#figures")
    browser.wait("document.querySelectorAll('#figures svg.chart [data-tip]').length === 2")
    tiles = browser.run("[...document.querySelectorAll('#tiles div')].map(tile => tile.innerText)")
    assert tiles[0] == "Precision\n67 %\n22 % to 96 % (90 % interval); 2 of 3 alerts confirmed"
    assert tiles[1] == "Recall\n≥ 40 %\n40 % to 90 % (90 % interval); 0 of 12 random events reviewed, 0 confirmed"
    tips = browser.run("[...document.querySelectorAll('#figures [data-tip]')].map(mark => mark.dataset.tip)")
    assert tips == ["2025-01-04: 2 of 3 confirmed, 67 %", "score 0.50 to 1.00: 2 of 3 confirmed, 67 %"]
    weeks = browser.run("[...document.querySelectorAll('#weeks tbody tr')].map(row => row.innerText)")
    assert weeks[-1].split("\t") == ["Precision", "67 %", "50 %", "+17 points"]
    assert weeks[0].split("\t") == ["Events", "4", "40", "−90 %"]
    browser.run("document.querySelector('#figures [data-tip]').focus()")
    assert browser.run("document.getElementById('tip').textContent") == "2025-01-042 of 3 confirmed, 67 %"
    client.post("/labels", {"id": "p1", "label": 1})  # the figures follow
    browser.wait("document.querySelector('#tiles dd').textContent.startsWith('100 %')")
    assert calm(browser)


@pytest.mark.needs("chromium")
def test_a_node_is_found(desk, client):
    client.post("/score", [*(event(k, f"c{k}") for k in range(2)), event("x", "ann", "a=b&c%", amount=100)])
    browser = desk(order="")

    def find(id):
        browser.run(f"document.querySelector('#find input').value = {json.dumps(id)}")
        browser.run("document.getElementById('find').requestSubmit()")
        browser.wait(f"document.getElementById('node-title').textContent === {json.dumps(id)}")

    find("shop")
    browser.wait("document.querySelectorAll('#history tbody tr').length === 2")
    browser.wait("document.querySelectorAll('#node svg.chart [data-tip]').length === 2")
    assert browser.run("document.querySelector('nav [aria-current]').textContent") == "shop"
    find("a=b&c%")
    browser.wait("document.querySelectorAll('#history tbody tr').length === 1")
    find("nobody")
    browser.wait("document.getElementById('history').hidden")
    assert "No interaction of this node" in browser.run("document.getElementById('node-line').textContent")
    browser.run("history.back()")
    browser.wait("document.getElementById('node-title').textContent === 'a=b&c%'")
    assert calm(browser)


@pytest.mark.needs("chromium")
@pytest.mark.parametrize("part", ["", "#decided", "#figures", "#node=shop"])
@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (1280, "dark"), (390, "dark"), (320, "light")])
def test_it_fits_every_screen(desk, client, part, width, scheme):
    long = "a-very-long-id-without-any-space-" * 6
    client.post("/score", [*alerts(2), event(long, long, "shop", amount=940, time="2025-01-09T00:00:00")])
    client.post("/labels", {"id": "p0", "label": 1})
    browser = desk(part, width=width, scheme=scheme)
    browser.wait("document.querySelector('[data-view]:not([hidden]) :is(.alert, td, [data-tip])')")
    assert browser.run("document.documentElement.scrollWidth") <= width
    ground = browser.run("getComputedStyle(document.body).backgroundColor")
    assert ground == ("rgb(20, 23, 26)" if scheme == "dark" else "rgb(253, 253, 251)")
    assert calm(browser)


@pytest.mark.needs("chromium")
def test_on_a_phone_the_alert_opens_in_its_place(desk, client, live):
    client.post("/score", alerts(3))
    browser = desk(width=390)
    browser.wait(f"{ROWS}.length === 3")
    browser.run(f"{ROWS}[1].querySelector('.alert').click()")
    assert browser.run(f"{ROWS}[1].contains({DETAIL})")
    sizes = browser.run(f"[...{DETAIL}.querySelectorAll('.act')].map(b => b.getBoundingClientRect().height)")
    assert min(sizes) >= 44  # a finger's width
    browser.run(f"{DETAIL}.querySelector('.confirm').click()")
    browser.wait(f"{ROWS}.length === 2")
    assert live.event("p1")["label"] == 1
    assert browser.run(f"{ROWS}[1].contains({DETAIL})")
    assert calm(browser)


@pytest.mark.needs("chromium")
def test_controls_have_names(desk, client):
    client.post("/score", alerts(2))
    browser = desk()
    browser.wait(f"{DETAIL}.querySelectorAll('.why-list li').length === 2")
    unnamed = browser.run(
        "[...document.querySelectorAll('button, a, input')].filter(e => !(e.textContent.trim() || e.ariaLabel ||"
        " e.labels?.[0]?.textContent.trim())).map(e => e.outerHTML)"
    )
    assert unnamed == []
    assert browser.run("document.querySelectorAll('h1').length") == 1
    assert browser.run("document.documentElement.lang") == "en-GB"


@pytest.mark.needs("chromium")
def test_signing_in_and_out(browser):
    with serving(FakeLive(), token=SECRET) as client:
        browser.open(client.service.url)
        submit = "document.getElementById('login').requestSubmit()"
        browser.run(f"document.getElementById('token').value = 'wrong'; {submit}")
        browser.wait("document.getElementById('wrong').textContent === 'This is not the token.'")
        browser.run(f"document.getElementById('token').value = {SECRET!r}; {submit}")
        browser.wait("document.getElementById('state')?.className === 'live'")
        assert browser.run("document.cookie") == ""  # no script can read it
        browser.run("document.getElementById('leave').click()")
        browser.wait("document.getElementById('login')")
        browser.call("Page.navigate", url="about:blank")


# ---- a team


@pytest.fixture
def team(browser):
    """anna at the desk, and lee as a program sees him."""
    live = FakeLive()
    anna, lee = live.add("anna"), live.add("lee", role="lead")
    with serving(live, token=SECRET) as client:
        client.headers = {"authorization": f"Bearer {SECRET}"}
        client.post("/score", [*alerts(4), event(HOSTILE, HOSTILE, "shop", amount=800)])
        client.headers = {"authorization": f"Bearer {lee[0]}"}
        browser.open(client.service.url)
        browser.run(
            f"document.getElementById('token').value = {anna[0]!r}; document.getElementById('login').requestSubmit()"
        )
        browser.wait("document.getElementById('state')?.className === 'live'")
        browser.wait(f"{ROWS}.length === 5")
        yield browser, live, client
        browser.call("Page.navigate", url="about:blank")


def choose(browser, select, value):
    browser.run(f"{select}.value = {value!r}; {select}.dispatchEvent(new Event('change'))")


def part(n):
    """The fields of the selected alert: its reason, assignee and note."""
    return f"{DETAIL}.querySelectorAll('.team-part select, .team-part input')[{n}]"


@pytest.mark.needs("chromium")
def test_a_reviewer_dismisses_with_a_reason_assigns_and_notes(team):
    browser, live, _ = team
    assert browser.run("document.getElementById('me').textContent") == "anna, analyst"
    choose(browser, part(1), "lee")
    browser.wait("document.querySelector('#done p').textContent === 'Assigned to lee: customer 0 → shop 0'")
    browser.run(f"{part(2)}.value = {HOSTILE!r}; {part(2)}.form.requestSubmit()")
    browser.wait(f"{DETAIL}.querySelectorAll('.notes li').length === 1")
    assert HOSTILE in browser.run(f"{DETAIL}.querySelector('.notes').textContent")
    choose(browser, part(0), "wrong data")
    browser.press("n")
    browser.wait(f"{ROWS}.length === 4")
    alert = live._alerts["p0"]
    assert (alert.status, alert.by, alert.dismissal, alert.assignee) == ("dismissed", "anna", "wrong data", "lee")
    assert alert.notes[0]["note"] == HOSTILE
    browser.run("location.hash = 'decided'")
    browser.wait("document.querySelector('#decisions tbody td:nth-child(6)')?.textContent === 'anna: wrong data'")
    browser.run("location.hash = 'figures'")
    browser.wait("document.getElementById('by-team').textContent.includes('anna0 of 1 alert confirmed')")
    assert calm(browser)


@pytest.mark.needs("chromium")
def test_two_analysts_at_once(team):
    browser, live, lee = team
    seen = lee.get("/alerts?q=p1").json["alerts"][0]
    assert lee.post("/decisions", {"id": "p0", "label": 1}).json["by"] == "lee"
    browser.wait(
        f"{ROWS}.length === 4",
    )  # what lee decided leaves anna's list
    browser.wait(f"{SELECTED}.textContent.includes('customer 1')")
    browser.press("n")
    browser.wait(f"{ROWS}.length === 3")
    answer = lee.post("/decisions", {"id": "p1", "label": 1, "version": seen["version"]})
    assert answer.status == 409
    assert "changed by anna meanwhile: it is dismissed now" in answer.json["error"]["message"]
    live._alerts["p2"].version += 1  # as if somebody had changed it in this moment
    browser.press("y")
    browser.wait("document.querySelector('#done p').textContent.includes('Look at it again')")
    assert live._alerts["p2"].status == "open"
    browser.press("y")  # it was read again
    browser.wait(f"{ROWS}.length === 2")
    assert live._alerts["p2"].by == "anna"


@pytest.mark.needs("chromium")
def test_marked_alerts_are_decided_and_undone_together(team):
    browser, live, _ = team
    for key in "xjxj":
        browser.press(key)
    assert browser.run("document.getElementById('n-marked').textContent") == "2 alerts marked"
    browser.press("y")
    browser.wait(f"{ROWS}.length === 3")
    assert [live.event(f"p{k}")["label"] for k in range(4)] == [1, 1, None, None]
    assert browser.run("document.querySelector('#done p').textContent") == "Confirmed: 2 alerts"
    assert browser.run("document.getElementById('bulk').hidden")
    browser.press("u")
    browser.wait(f"{ROWS}.length === 5")
    assert [live.event(f"p{k}")["label"] for k in range(4)] == [None] * 4
    assert calm(browser)


@pytest.mark.needs("chromium")
def test_filters_and_help(team):
    browser, *_ = team

    def fill(name, value):
        field = f"document.getElementById('filter').elements.{name}"
        browser.run(f"{field}.value = {value!r}; {field}.dispatchEvent(new Event('input', {{ bubbles: true }}))")

    fill("q", "customer 2")
    browser.wait(f"{ROWS}.length === 1")
    assert browser.run("document.getElementById('export').href").endswith("alerts.csv?order=highest&q=customer+2")
    fill("q", "nobody")
    browser.wait("!document.getElementById('empty').hidden")
    assert browser.run("document.getElementById('calm').textContent") == "No open alert is like this."
    fill("q", "")
    fill("least", "0.8985")
    browser.wait(f"{ROWS}.length === 2")
    fill("least", "")
    fill("assignee", "lee")
    browser.wait("!document.getElementById('empty').hidden")
    browser.press("?")
    assert browser.run("document.getElementById('help').open")
    browser.press("?")
    assert not browser.run("document.getElementById('help').open")
    assert calm(browser)


@pytest.mark.needs("chromium")
def test_a_snooze_is_listed_and_ended(team):
    browser, live, _ = team
    live.clock = "2025-01-31T08:00:00"
    browser.press("s")
    browser.wait(f"{DETAIL}.querySelector('.snooze').open && {DETAIL}.querySelector('[data-kept=until]').value")
    browser.run(f"{DETAIL}.querySelector('[data-kept=why]').value = {HOSTILE!r}")
    browser.run(f"{DETAIL}.querySelector('.snooze form').requestSubmit()")
    told = "document.querySelector('#done p').textContent"
    browser.wait(f"{told} === 'No new alerts of customer 0 until 2025-02-07'")
    (found,) = live.team()["snoozed"]
    assert (found["nodes"], found["until"], found["by"], found["note"]) == (
        ["customer 0"], "2025-02-07", "anna", HOSTILE,
    )  # fmt: skip
    rows = "[...document.querySelectorAll('#snoozes tbody tr')]"
    browser.run("location.hash = 'snoozed'")
    browser.wait(f"{rows}.length === 1 && {rows}[0].textContent.includes({HOSTILE!r})")
    browser.run(f"{rows}[0].querySelector('button').click()")
    browser.wait(f"{rows}.length === 0")
    assert live.team()["snoozed"] == []
    form = "document.getElementById('to-snooze')"
    browser.run(
        f"{form}.elements.node.value = 'a'; {form}.elements.to.value = 'b'; {form}.elements.until.value = '';"
        f"{form}.requestSubmit()"
    )
    browser.wait(f"{rows}.length === 1 && {rows}[0].textContent.startsWith('a → bit is ended')")
    browser.press("u")
    browser.wait(f"{rows}.length === 0")
    assert browser.run(told) == "Alerts of a → b are raised again"
    assert calm(browser)


@pytest.mark.needs("chromium")
def test_mine_decided_and_audit(team):
    browser, _, lee = team
    browser.press("a")
    browser.wait("document.querySelector('#done p').textContent === 'Assigned to anna: customer 0 → shop 0'")
    browser.run("location.hash = 'mine'")
    browser.wait(f"{ROWS}.length === 1")
    assert browser.run("document.getElementById('export').href").endswith("order=highest&assignee=anna")
    lee.post("/decisions", [{"id": "p1", "label": 0, "reason": "other"}, {"id": "p2", "label": 1, "note": HOSTILE}])
    browser.run("location.hash = 'decided'")
    rows = "[...document.querySelectorAll('#decisions tbody tr')]"
    browser.wait(f"{rows}.length === 2")
    reason = "document.getElementById('of-decided').elements.dismissal"
    browser.run(f"{reason}.value = 'other'; {reason}.dispatchEvent(new Event('input', {{ bubbles: true }}))")
    browser.wait(f"{rows}.length === 1 && {rows}[0].textContent.includes('customer 1')")
    assert "dismissal=other" in browser.run("document.getElementById('export-decided').href")
    assert browser.run("document.getElementById('to-audit').hidden"), "anna is no lead"
    assert calm(browser)


@pytest.mark.needs("chromium")
def test_a_lead_reads_who_did_what(browser):
    live = FakeLive()
    (token,) = live.add("lee", role="lead")
    with serving(live) as client:
        client.post("/score", alerts(1))
        client.post("/decisions", {"id": "p0", "label": 1, "note": HOSTILE})
        browser.open(f"{client.service.url}#audit")  # no token is needed, but who gives one has a name
        browser.wait("document.getElementById('state')?.className === 'live'")
        assert browser.run("document.getElementById('me').textContent") == ""
        browser.run("document.getElementById('enter').click()")
        browser.wait("document.getElementById('login') && document.readyState === 'complete'")
        browser.run(
            f"document.getElementById('token').value = {token!r}; document.getElementById('login').requestSubmit()"
        )
        browser.wait("document.getElementById('me')?.textContent === 'lee, lead'")
        browser.run("location.hash = 'audit'")
        rows = "[...document.querySelectorAll('#actions tbody tr')]"
        browser.wait(f"{rows}.length === 2")
        assert f"label 1 “{HOSTILE}”" in browser.run(f"{rows}[0].textContent")
        form = "document.getElementById('to-reasons')"
        browser.run(f"{form}.elements.reasons.value = 'travels\\n\\n {HOSTILE} '; {form}.requestSubmit()")
        browser.wait(f"{rows}.length === 3")
        assert live.team()["reasons"] == ["travels", HOSTILE]
        assert live.audit(1)[0]["by"] == "lee"
        assert calm(browser)
        browser.call("Page.navigate", url="about:blank")


# ---- cases


def of_ann(n):
    return [event(f"a{k}", "ann", f"shop {k}", amount=700 + k, time=f"2025-02-{k + 1:02}") for k in range(n)]


@pytest.mark.needs("chromium")
def test_alerts_of_a_node_are_one_case_with_one_decision(desk, client, live):
    client.post("/score", [*of_ann(3), *alerts(1), event("calm", "ann", HOSTILE)])
    browser = desk(order="")
    browser.wait(f"{ROWS}.length === 2")
    browser.press("j")
    assert browser.run(f"{SELECTED}.querySelector('.ends').textContent") == "ann → …3 alerts"
    browser.wait(f"{DETAIL}.querySelectorAll('.of-case > li > details').length === 3")
    assert "3 open alerts, 2025-02-01 to 2025-02-03" in browser.run(f"{DETAIL}.innerText")
    browser.wait(f"{DETAIL}.querySelectorAll('.pictures svg.chart').length === 2")
    tips = browser.run(f"[...{DETAIL}.querySelectorAll('.pictures [data-tip]')].map(mark => mark.dataset.tip)")
    assert sum("ann → " in tip for tip in tips) == 4, "all its interactions, in time"
    assert f"{HOSTILE}: 1 with ann" in tips
    browser.press("y")
    browser.wait(f"{ROWS}.length === 1")
    assert browser.run("document.querySelector('#done p').textContent") == "Confirmed: 3 alerts"
    assert [live.event(f"a{k}")["label"] for k in range(3)] == [1, 1, 1]
    browser.press("u")
    browser.wait(f"{SELECTED}?.querySelector('.ends').textContent === 'ann → …3 alerts'")
    assert [live.event(f"a{k}")["label"] for k in range(3)] == [None] * 3
    assert calm(browser)


@pytest.mark.needs("chromium")
def test_one_alert_of_a_case_is_decided_alone(desk, client, live):
    client.post("/score", of_ann(3))
    browser = desk()
    browser.wait(f"{DETAIL}.querySelectorAll('.of-case > li').length === 3")
    browser.run(f"{DETAIL}.querySelector('[data-kept=note]').value = 'not sent yet'")
    browser.run(f"{DETAIL}.querySelectorAll('.of-case button')[3].click()")  # dismisses the second
    browser.wait(f"{DETAIL}.querySelectorAll('.of-case > li').length === 2")
    assert [live.event(f"a{k}")["label"] for k in range(3)] == [None, 0, None]
    assert browser.run(f"{DETAIL}.querySelector('[data-kept=note]').value") == "not sent yet"
    client.post("/score", event("a9", "ann", "inn", amount=990))  # joins the selected case
    browser.wait(f"{DETAIL}.querySelectorAll('.of-case > li').length === 3")
    client.post("/labels", [{"id": "a0", "label": 0}, {"id": "a2", "label": 0}])
    browser.wait(f"{DETAIL}.querySelector('h3').textContent === 'ann → inn'")
    links = browser.run(f"[...{DETAIL}.querySelectorAll('a[download]')].map(link => link.getAttribute('href'))")
    assert links == ["case.html?id=a9", "case?id=a9"]
    assert calm(browser)


@pytest.mark.needs("chromium")
def test_two_desks_at_once(team, chromium, tmp_path):
    first, live, lee = team
    token = lee.headers["authorization"].removeprefix("Bearer ")
    second = Browser(chromium, tmp_path)
    try:
        second.open(lee.service.url)
        second.run(
            f"document.getElementById('token').value = {token!r}; document.getElementById('login').requestSubmit()"
        )
        second.wait(f"document.getElementById('me')?.textContent === 'lee, lead' && {ROWS}.length === 5")
        first.press("a")
        second.wait(f"{ROWS}[0].textContent.includes('for anna')")
        second.wait(f"{DETAIL}.querySelectorAll('.team-part select')[1].value === 'anna'")
        first.run(f"{part(2)}.value = 'mine'; {part(2)}.form.requestSubmit()")
        second.wait(f"{DETAIL}.querySelector('.notes')?.textContent.includes('anna: mine')")
        second.press("y")
        first.wait(f"{ROWS}.length === 4")
        assert (live._alerts["p0"].by, live._alerts["p0"].label) == ("lee", 1)
        second.press("u")
        first.wait(f"{ROWS}.length === 5")
        assert calm(first)
        assert not second.complaints()
    finally:
        second.close()


def rival():
    """A challenger that is better."""
    rng = np.random.default_rng(0)
    label = rng.random(400) < 0.2
    old, new = label + 2 * rng.random(400), label + rng.random(400)
    rows = np.column_stack([np.arange(400) // 10, old, old > 2, new, new > 1.4, label]).astype(float)
    times = "2025-05-01T00:00:00", "2025-06-10T00:00:00"
    return Evidence("generation-0002", rows, (400, int((old > 2).sum()), int((new > 1.4).sum())), times, 1.0, True)


RULES = '[[rule]]\nname = "large & <b>"\nall = ["amount > 100", "count(src, 1h) >= 2"]'


@pytest.mark.needs("chromium")
def test_rules_and_the_challenger(team):
    browser, live, lee = team
    live.rival = rival()
    browser.run("location.hash = 'model'")
    browser.wait("document.querySelectorAll('#rivals tbody tr').length === 5")
    assert not browser.run("document.getElementById('promote').checkVisibility()"), "an analyst only looks"
    assert "generation-0002 scores beside it since 2025-05-01" in browser.run(
        "document.getElementById('challenger-line').textContent"
    )
    assert browser.run("document.querySelectorAll('#rivals tbody tr')[4].textContent").startswith("Average precision0.")
    lee.post("/actions", {"do": "rules", "text": RULES})
    lee.post("/score", event("r", "zed", "bar", amount=990), authorization=f"Bearer {SECRET}")
    browser.run("location.hash = 'figures'; location.hash = 'model'")
    browser.wait("document.querySelector('#rules tbody th')?.textContent === 'large & <b>'")
    browser.run("location.hash = 'alerts'")
    browser.wait(f"{ROWS}.some((row) => row.textContent.includes('zed'))")
    browser.run(f"{ROWS}.find((row) => row.textContent.includes('zed')).querySelector('.alert').click()")
    browser.wait(f"{DETAIL}.querySelector('.rule')")
    assert browser.run(f"{DETAIL}.querySelector('.rule').textContent") == "Rule large & <b>: amount = 990"
    assert calm(browser)


@pytest.mark.needs("chromium")
def test_a_lead_promotes_and_changes_rules(desk, client, live):
    live.rival = rival()
    browser = desk("#model", order="")
    browser.wait("document.getElementById('promote').checkVisibility()")
    area = "document.querySelector('#to-rules textarea')"
    browser.run(f"{area}.value = 'nonsense'; {area}.form.requestSubmit()")
    browser.wait("document.querySelector('#done p').textContent.includes('this is not TOML')")
    assert live.rule_text == ""
    browser.run(f"{area}.value = {json.dumps(RULES)}; {area}.form.requestSubmit()")
    browser.wait("document.querySelectorAll('#rules tbody tr').length === 1")
    assert live.rule_text == RULES
    browser.run("document.getElementById('promote').click()")
    browser.wait("!document.getElementById('no-challenger').hidden")
    assert live.rival is None
    assert not [one for one in browser.complaints() if "422" not in json.dumps(one)]


@pytest.mark.needs("chromium", "axe")
@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (390, "dark")])
def test_no_serious_fault_of_accessibility(desk, client, live, width, scheme):
    live.add("anna")
    live.rival, live.rule_text = rival(), RULES
    client.post("/score", [*of_ann(3), *alerts(3)])
    client.post("/decisions", [{"id": "p0", "label": 1, "note": "seen"}, {"id": "p1", "note": "waits"}])
    client.post("/actions", {"do": "snooze", "nodes": ["bob"], "note": "abroad"})
    for place, shown in (
        ("", f"{DETAIL}.querySelector('.pictures svg.chart')"),
        ("#snoozed", "document.querySelector('#snoozes td')"),
        ("#decided", "document.querySelector('#decisions td')"),
        ("#figures", "document.querySelector('#figures [data-tip]')"),
        ("#audit", "document.querySelector('#actions td')"),
        ("#model", "document.querySelector('#rules td') && document.querySelector('#rivals td.figure')"),
        ("#node=ann", "document.querySelector('#history td')"),
    ):
        browser = desk(place, order="", width=width, scheme=scheme)
        browser.wait(shown)
        assert browser.faults() == [], place
    browser.press("?")
    assert browser.faults() == []
    browser.open(f"{client.service.url}login", width=width, scheme=scheme)
    assert browser.faults() == []


@pytest.mark.needs("chromium", "axe")
def test_a_fault_of_accessibility_is_found(desk, client):
    client.post("/score", alerts(1))
    browser = desk()
    browser.run("document.querySelector('#list input').removeAttribute('aria-label')")
    assert any("label" in fault for fault in browser.faults())


# ---- without a browser


def test_nothing_comes_from_elsewhere():
    folder = files("tdlg.serve").joinpath("desk")
    for path in folder.iterdir():
        text = path.read_text(encoding="utf-8").replace("http://www.w3.org/2000/svg", "")
        assert "//" not in re.sub(r"^\s*//.*$|\s// .*$", "", text, flags=re.MULTILINE)
        assert not re.search(r"\son\w+=|javascript:|<style|style=", text)


@pytest.mark.parametrize("name", SCRIPTS)
def test_scripts_never_make_html_of_text(name):
    text = files("tdlg.serve").joinpath("desk", name).read_text(encoding="utf-8")
    assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(|new Function|text/html", text)


def test_every_file_of_the_desk_is_served(client):
    for path in files("tdlg.serve").joinpath("desk").iterdir():
        answer = client.get(f"/desk/{path.name}")
        assert answer.status == 200
        assert answer.body == path.read_bytes()
    page = client.get("/").body.decode()
    for address in re.findall(r'(?:href|src)="(desk/.*?)"', page):
        assert client.get(f"/{address}").status == 200


def test_what_the_scripts_look_for_is_on_the_page():
    folder = files("tdlg.serve").joinpath("desk")
    page = folder.joinpath("index.html").read_text(encoding="utf-8")
    scripts = "".join(folder.joinpath(name).read_text(encoding="utf-8") for name in SCRIPTS if name != "login.js")
    wanted = set(re.findall(r'byId\("([\w-]+)"\)', scripts))
    assert len(wanted) > 15
    assert wanted <= set(re.findall(r'id="([\w-]+)"', page))
