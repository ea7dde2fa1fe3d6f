"""The desk in a browser: it is live, decisions are learnt and can be undone, and all data is text."""

import json
import re
from importlib.resources import files

import pytest

from fake_live import FakeLive
from serving import Client, serving

HOSTILE = '<script>alert("x")</script>'
SECRET = "correct-horse-battery"
ROWS = "[...document.querySelectorAll('#list > li')]"
SELECTED = "document.querySelector('#list [aria-current]')"
DETAIL = "document.getElementById('detail')"
SCRIPTS = sorted(path.name for path in files("tdlg.serve").joinpath("desk").iterdir() if path.name.endswith(".js"))


def event(id, src="ann", dst="shop", time="2025-01-01T00:00:00", **more):
    return {"id": id, "src": src, "dst": dst, "time": time, **more}


def alerts(n, **more):
    return [
        event(f"p{k}", f"customer {k}", amount=900 - k, time=f"2025-01-{k + 1:02}T10:00:00", **more) for k in range(n)
    ]


@pytest.fixture(scope="module")
def shared():
    live = FakeLive()
    with serving(live) as client:
        client.live = live
        yield client


@pytest.fixture
def live(shared):
    shared.live.__init__()
    return shared.live


@pytest.fixture
def client(shared, live):
    client = Client(shared.service)
    client.service = shared.service
    yield client
    client.close()


@pytest.fixture
def desk(browser, client):
    """Opens the desk, and waits until it is live."""

    def open_desk(part="", **options):
        browser.open(client.service.url + part, **options)
        browser.wait("document.getElementById('state')?.className === 'live'")
        return browser

    yield open_desk
    browser.call("Page.navigate", url="about:blank")


def calm(browser):
    """No errors, and no request to anybody else."""
    assert not browser.complaints()
    own = browser.run("location.origin")
    assert all(url.startswith((own, "data:,", "about:")) for url in browser.requests())
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
    assert browser.run(f"{ROWS}[0].innerText").startswith("0.900\ncustomer 0 → shop")
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
    assert browser.run("document.querySelector('#done p').textContent") == "Confirmed: customer 1 → shop"
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
    browser.wait(f"{ROWS}.length === 2")
    assert live.event("p1")["label"] is None
    assert "customer 1" in browser.run(f"{SELECTED}.textContent")
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
    assert browser.run(selected) == "customer 3 → shop"
    for key, name in (("j", 2), ("j", 1), ("k", 2), ("k", 3), ("k", 3)):
        browser.press(key)
        assert browser.run(selected) == f"customer {name} → shop"
    assert browser.run(f"document.activeElement === {SELECTED}")
    browser.press("j")
    browser.press("y")
    browser.wait(f"{ROWS}.length === 3")
    assert live.event("p2")["label"] == 1
    browser.wait(f"{selected} === 'customer 1 → shop'")  # the next one
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
    for words in ("0.899", "probability of class 1", "customer 1 → shop", "Confirm", "Dismiss", "p1", "899"):
        assert words in text
    assert browser.run(f"{DETAIL}.querySelectorAll('table tbody tr').length") == 4
    assert browser.run(f"{DETAIL}.querySelector('.why-list').textContent").startswith("↑raises the score: 1 of 4")
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
    browser = desk()
    browser.wait(f"{ROWS}.length === 3")
    scores = f"{ROWS}.map(row => Number(row.querySelector('.score').textContent))"
    assert browser.run(scores) == [0.898, 0.899, 0.9]
    browser.run("document.querySelector('input[value=highest]').click()")
    assert browser.run(scores) == [0.9, 0.899, 0.898]
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
def test_figures(desk, client):
    client.post("/score", alerts(4))
    client.post("/labels", [{"id": "p0", "label": 1}, {"id": "p1", "label": 0}, {"id": "p2", "label": 1}])
    browser = desk("#figures")
    browser.wait("document.querySelectorAll('#figures svg.chart [data-tip]').length === 2")
    tiles = browser.run("[...document.querySelectorAll('#tiles div')].map(tile => tile.innerText)")
    assert tiles[0] == "Precision\n67 %\n2 of 3 alerts confirmed"
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
    client.post("/score", [*alerts(2), event("x", "ann", "a=b&c%", amount=100)])
    browser = desk()

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
