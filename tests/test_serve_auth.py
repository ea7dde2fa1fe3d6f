"""Who may ask: the matrix of Host, Origin and token, tokens and cookies, and what a page of another site can do."""

import hmac
import select
import socket
import time

import pytest

from fake_live import FakeLive
from serving import Client, alert, event, opened, serving
from tdlg.exceptions import ParameterError, TdlgWarning
from tdlg.live.review import Person, hash_of
from tdlg.serve.auth import WRONG_PER_MINUTE, Tokens, Visitor, read_token
from tdlg.serve.http import Limits, RefusedError
from tdlg.serve.schema import ADDRESSES
from tdlg.serve.service import Service

SECRET = "correct-horse-battery"


# ---- the matrix

ORIGINS = ("none", "own", "tls", "other", "null")
MATRIX = """
    token     host         none  own   tls   other null
    needless  own          200   200   200   403   403
    needless  localhost    200   200   200   403   403
    needless  allowed      200   200   200   403   403
    needless  other        421   421   421   421   421
    needless  other port   421   421   421   421   421
    needless  empty        421   421   421   421   421
    right     own          200   200   200   403   403
    right     localhost    200   200   200   403   403
    right     allowed      200   200   200   403   403
    right     other        421   421   421   421   421
    cookie    own          200   200   200   403   403
    cookie    localhost    200   200   200   403   403
    cookie    allowed      200   200   200   403   403
    cookie    other        421   421   421   421   421
    wrong     own          401   401   401   403   403
    wrong     localhost    401   401   401   403   403
    wrong     allowed      401   401   401   403   403
    wrong     other        421   421   421   421   421
    forged    own          401   401   401   403   403
    forged    localhost    401   401   401   403   403
    forged    allowed      401   401   401   403   403
    forged    other        421   421   421   421   421
    missing   own          401   401   401   403   403
    missing   localhost    401   401   401   403   403
    missing   allowed      401   401   401   403   403
    missing   other        421   421   421   421   421
    missing   other port   421   421   421   421   421
    missing   empty        421   421   421   421   421
"""
ROWS = [
    (line[4:14].strip(), line[14:27].strip(), [int(status) for status in line[27:].split()])
    for line in MATRIX.strip("\n").splitlines()[1:]
]
PUBLIC = """
    host         none  own   tls   other null
    own          200   200   200   403   403
    localhost    200   200   200   403   403
    allowed      200   200   200   403   403
    other        421   421   421   421   421
    other port   421   421   421   421   421
    empty        421   421   421   421   421
"""
PUBLIC_ROWS = [(line[4:17].strip(), [*map(int, line[17:].split())]) for line in PUBLIC.strip("\n").splitlines()[1:]]
HOSTS = [host for host, _ in PUBLIC_ROWS]
TOKENS = ("needless", "right", "cookie", "wrong", "forged", "missing")


@pytest.fixture(scope="module")
def clients():
    """A service without a token, and one with a token; both are also known as desk.example."""
    with (
        serving(FakeLive(), allowed_hosts=["desk.example"]) as free,
        serving(FakeLive(), allowed_hosts=["desk.example"], token=SECRET) as guarded,
    ):
        cookie = guarded.post("/login", {"token": SECRET}).headers["set-cookie"].partition(";")[0]
        yield {"needless": free, "guarded": guarded, "cookie": cookie}


class TestMatrix:
    @pytest.fixture
    def ask(self, clients, monkeypatch):
        monkeypatch.setattr("tdlg.serve.auth.WRONG_PER_MINUTE", 1_000_000)

        def ask(method, path, token, host, origin, body=None):
            client = clients["needless" if token == "needless" else "guarded"]
            port = client.host.split(":")[1]
            hosts = {"own": client.host, "localhost": f"localhost:{port}", "allowed": "desk.example", "empty": ""}
            hosts |= {"other": f"evil.example:{port}", "other port": "127.0.0.1:1"}
            headers = {"host": hosts[host]}
            origins = {"own": f"http://{hosts[host]}", "tls": f"https://{hosts[host]}"}  # a proxy may speak TLS
            origins |= {"other": "http://evil.example", "null": "null"}
            if origin != "none":
                headers["origin"] = origins[origin]
            cookie = clients["cookie"]
            given = {"right": {"authorization": f"Bearer {SECRET}"}, "wrong": {"authorization": "Bearer no"}}
            given |= {"cookie": {"cookie": cookie}, "forged": {"cookie": cookie[:-4] + "0000"}}
            return client(method, path, body, **headers, **given.get(token, {}))

        return ask

    @pytest.mark.parametrize(("token", "host", "statuses"), ROWS, ids=[f"{token} {host}" for token, host, _ in ROWS])
    def test_what_is_private(self, ask, token, host, statuses):
        for path in ("/alerts", "/statistics", "/openapi.json"):
            assert [ask("GET", path, token, host, origin).status for origin in ORIGINS] == statuses
        for path, body in (("/score", event("a")), ("/labels", {"id": "a", "label": 1})):
            assert [ask("POST", path, token, host, origin, body).status for origin in ORIGINS] == statuses

    @pytest.mark.parametrize("token", TOKENS)
    @pytest.mark.parametrize(("host", "statuses"), PUBLIC_ROWS, ids=HOSTS)
    def test_what_is_public(self, ask, token, host, statuses):
        assert [ask("GET", "/desk/desk.js", token, host, origin).status for origin in ORIGINS] == statuses
        pages = [ask("GET", "/", token, host, origin) for origin in ORIGINS]
        assert [page.status for page in pages] == statuses
        is_desk = ['id="list"' in page.body.decode() for page in pages]
        assert is_desk == [status == 200 and token in ("needless", "right", "cookie") for status in statuses]

    @pytest.mark.parametrize("token", TOKENS)
    @pytest.mark.parametrize("host", HOSTS)
    def test_health(self, ask, token, host):
        found = [ask("GET", "/health", token, host, origin) for origin in ORIGINS]
        assert [answer.status for answer in found] == [200, 200, 200, 403, 403]
        is_known = host in ("own", "localhost", "allowed") and token in ("needless", "right", "cookie")
        assert [set(answer.json) == {"ok"} for answer in found[:3]] == [not is_known] * 3


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
            answer.json["error"]["message"] == f"Cross-origin request refused: origin {origin!r} is not this service."
        )
        assert not live._events

    def test_its_own_page_may(self, client):
        assert client.post("/score", event("a"), origin=f"http://{client.host}").status == 200

    def test_a_form_of_another_site_cannot_be_sent(self, client):
        assert client.post("/score", b"{}", "text/plain").status == 415

    def test_there_is_no_answer_for_other_sites_to_read(self, client):
        answer = client("OPTIONS", "/score", origin=f"http://{client.host}", access_control_request_method="POST")
        assert "access-control-allow-origin" not in answer.headers


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
        monkeypatch.setattr("tdlg.serve.auth.WRONG_PER_MINUTE", 1_000_000)  # the service is that of many tests
        guarded.live.__init__()
        return guarded.live

    @pytest.fixture
    def client(self, guarded, live):
        return guarded

    PRIVATE = ("/alerts", "/explain?id=a", "/nodes?id=a", "/statistics", "/about", "/changes", "/metrics",
               "/openapi.json", "/charts/days.svg", "/events?id=a", "/nothing")  # fmt: skip

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
        assert 'id="list"' not in page
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
        assert 'id="list"' in client.get("/", cookie=value).body.decode()
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
        assert client.get("/desk/auth.py").status == 404


class TestGuesses:
    def test_wrong_tokens_are_refused_in_words_slowed_down_and_told_once(self, live, caplog, monkeypatch):
        monkeypatch.setattr("tdlg.serve.auth.SLOWED", 0.1)
        with serving(live, token=SECRET) as client:
            ways = [
                lambda: client.get("/about", authorization="Bearer no"),
                lambda: client.post("/login", {"token": "no"}),
            ]
            found = [ways[k % 2]().status for k in range(WRONG_PER_MINUTE)]
            start = time.monotonic()
            found += [ways[k % 2]().status for k in range(6)]
            assert time.monotonic() - start > 6 * 0.1, "each of these waits"
            assert found == [401] * WRONG_PER_MINUTE + [429] * 6
            assert client.get("/about", authorization="Bearer no").headers["retry-after"] == "60"
            assert client.get("/about").status == 401, "who gives no token guesses nothing"
            assert client.get("/about", authorization=f"Bearer {SECRET}").status == 200, "the right one always passes"
            assert client.post("/login", {"token": SECRET}).status == 200
        assert [record.getMessage() for record in caplog.records if "wrong token" in record.getMessage()] == [
            "20 requests from '127.0.0.1' had a wrong token within a minute."
        ]

    @pytest.mark.parametrize("way", ["login", "header"])
    def test_few_answers_are_held_back_at_once(self, live, monkeypatch, way):
        """Those beyond are given at once, so that guesses do not take all connections."""
        monkeypatch.setattr("tdlg.serve.auth.SLOWED", 5.0)
        with serving(live, token=SECRET) as client:
            for _ in range(WRONG_PER_MINUTE):
                client.get("/about", authorization="Bearer no")
            head = f" HTTP/1.1\r\nHost: {client.host}\r\n"
            asked = {
                "login": f"POST /login{head}Content-Type: application/json\r\nContent-Length: 14\r\n\r\n"
                '{"token":"no"}',
                "header": f"GET /about{head}Authorization: Bearer no\r\n\r\n",
            }[way].encode()
            lines = [opened(client, asked) for _ in range(40)]
            time.sleep(1.0)
            readable, _, _ = select.select(lines, [], [], 0.0)
            assert len(readable) == 40 - 32
            assert {line.recv(100)[:12] for line in readable} == {b"HTTP/1.1 429"}
            for line in lines:
                line.close()

    def test_each_address_is_counted_for_a_minute(self):
        token = Tokens(SECRET)
        for _ in range(WRONG_PER_MINUTE):
            assert not token.check("no", "a", 1000.0)
        with pytest.raises(RefusedError):
            token.check("no", "a", 1001.0)
        assert not token.check("no", "b", 1001.0)
        assert token.check(SECRET, "a", 1001.0)
        assert not token.check("no", "a", 1061.0)

    def test_no_more_addresses_are_kept_than_needed(self, monkeypatch):
        monkeypatch.setattr("tdlg.serve.auth.MOST_CLIENTS", 100)
        token = Tokens(SECRET)
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
    people = {"j.d@x": Person("j.d@x", "lead", hash_of("of jd"))}
    tokens = Tokens(SECRET, lambda: people)
    for name, visitor in (("", Visitor()), ("j.d@x", Visitor("j.d@x", "lead"))):
        cookie = tokens.cookie(name, 1000.0)
        assert tokens.of_cookie(cookie, 1000.0 + 30 * 86_400 - 1) == visitor
        assert tokens.of_cookie(cookie, 1000.0 + 30 * 86_400 + 1) is None
        end, proof, _ = cookie.split(".", 2)
        for forged in (
            f"{int(end) + 1}.{proof}.{name}",
            f"{end}.{proof}.{'' if name else 'j.d@x'}",
            f"{end}.{proof}.nobody",
        ):
            assert tokens.of_cookie(forged, 1000.0) is None
        others = {"j.d@x": Person("j.d@x", "lead", hash_of("a new token"))}
        assert Tokens("another secret", lambda others=others: others).of_cookie(cookie, 1000.0) is None
    for odd in ("", ".", "x.y", "é.é", "..", f"{2**70}."):
        assert tokens.of_cookie(odd, 1000.0) is None
        assert Tokens(None).of_cookie(odd, 1000.0) is None


@pytest.mark.parametrize("secret", [SECRET, None])
def test_what_the_log_keeps_is_not_enough_for_a_cookie(secret):
    people = {"lee": Person("lee", "lead", hash_of("of lee"))}
    tokens, end = Tokens(secret, lambda: people), 10**10
    keys = (people["lee"].token, "", "None" + people["lee"].token)
    for key in keys:
        proof = hmac.new(key.encode(), f"tdlg desk until {end} lee".encode(), "sha256").hexdigest()
        assert tokens.of_cookie(f"{end}.{proof}.lee", 1000.0) is None
    cookie = tokens.cookie("lee", 1000.0)
    assert tokens.of_cookie(cookie, 1000.0) == Visitor("lee", "lead")
    again = Tokens(secret, lambda: people).of_cookie(cookie, 1000.0)
    assert (again is not None) == (secret is not None), "it holds after a restart if there is a token file"


ROLES = """
    method  address      none  analyst  lead  service  proxy
    POST    /score       401   403      403   200      403
    POST    /labels      401   403      403   200      403
    POST    /withdrawals 401   403      403   404      403
    POST    /decisions   401   200      200   200      200
    POST    /actions     401   200      200   200      200
    POST    /reasons     401   403      200   200      403
    POST    /use_rules   401   403      200   200      403
    POST    /promote     401   403      422   422      403
    POST    /drop        401   403      422   422      403
    GET     /rules       401   200      200   200      200
    GET     /challenger  401   200      200   200      200
    GET     /drift       401   200      200   200      200
    GET     /card        401   404      404   404      404
    GET     /card_page   401   404      404   404      404
    GET     /alerts      401   200      200   200      200
    GET     /cases       401   200      200   200      200
    GET     /case        401   200      200   200      200
    GET     /case_page   401   200      200   200      200
    GET     /export      401   200      200   200      200
    GET     /explain     401   200      200   200      200
    GET     /events      401   200      200   200      200
    GET     /nodes       401   200      200   200      200
    GET     /statistics  401   200      200   200      200
    GET     /about       401   200      200   200      200
    GET     /team        401   200      200   200      200
    GET     /changes     401   200      200   200      200
    GET     /audit       401   403      200   200      403
    GET     /metrics     401   403      403   200      403
    GET     /openapi     401   200      200   200      200
    GET     /nothing     401   404      404   404      404
    GET     /charts/days.svg 401 200    200   200      200
    GET     /health      200   200      200   200      200
"""
ROLE_ROWS = [line.split() for line in ROLES.strip("\n").splitlines()]
BODIES = {
    "/score": event("new"), "/labels": {"id": "a", "label": 1}, "/decisions": {"id": "a", "note": "seen"},
    "/withdrawals": {"id": "nobody"},
    "/actions": {"do": "snooze", "nodes": ["ann"]}, "/reasons": {"do": "reasons", "reasons": ["x"]},
    "/use_rules": {"do": "rules", "text": ""}, "/promote": {"do": "promote"}, "/drop": {"do": "drop"},
}  # fmt: skip


@pytest.fixture(scope="module")
def ask_as():
    live = FakeLive()
    proxy = {"user_header": "X-User", "trusted_proxies": ["127.0.0.1"]}
    with serving(live, token=SECRET, **proxy) as client:
        client.post("/score", alert("a"), authorization=f"Bearer {SECRET}")
        tokens = {"service": SECRET, "analyst": live.add("anna")[0], "lead": live.add("lee", role="lead")[0]}

        def ask(who, method, path):
            headers = {"authorization": f"Bearer {tokens[who]}"} if who in tokens else {}
            headers |= {"x-user": "carl"} if who == "proxy" else {}
            body = BODIES.get(path)
            path = {
                **dict.fromkeys(("/reasons", "/use_rules", "/promote", "/drop"), "/actions"),
                "/card_page": "/card.html",
                "/openapi": "/openapi.json",
                "/export": "/alerts.csv",
                "/case_page": "/case.html",
            }.get(path, path)
            path += {
                "/explain": "?id=a",
                "/case": "?id=a",
                "/case.html": "?id=a",
                "/events": "?id=a",
                "/nodes": "?id=ann",
            }.get(path, "")
            return client(method, path, body, **headers)

        ask.live, ask.tokens, ask.client = live, tokens, client
        yield ask


class TestRoles:
    @pytest.mark.parametrize("row", ROLE_ROWS[1:], ids=lambda row: row[1])
    def test_who_may_do_what(self, ask_as, row):
        method, path, *statuses = row
        found = {who: ask_as(who, method, path) for who in ROLE_ROWS[0][2:]}
        assert [str(answer.status) for answer in found.values()] == statuses
        if "403" in statuses:
            assert "This needs the role" in found["analyst"].json["error"]["message"]

    def test_every_address_is_in_the_table(self):
        assert {f"/{one.name}" for one in ADDRESSES} <= {row[1] for row in ROLE_ROWS}

    def test_decisions_have_the_name_of_who_made_them(self, ask_as):
        for who, name in (("analyst", "anna"), ("lead", "lee"), ("service", ""), ("proxy", "carl")):
            assert ask_as(who, "GET", "/team").json["me"] == name
            assert ask_as(who, "POST", "/decisions").json["notes"][-1]["by"] == name

    def test_who_is_named_by_a_proxy_can_take_an_alert(self, ask_as):
        """Others cannot be assigned to them: the service knows no names but those of its own reviewers."""
        headers = {"authorization": f"Bearer {SECRET}", "x_user": "carl"}
        for assignee, status in (("carl", 200), ("anna", 200), ("dora", 422), ("", 422)):
            answer = ask_as.client.post("/decisions", {"id": "a", "assignee": assignee}, **headers)
            assert answer.status == status, answer.body
        headers = {"authorization": f"Bearer {SECRET}"}
        assert ask_as.client.post("/decisions", {"id": "a", "assignee": ""}, **headers).status == 422

    def test_a_revoked_reviewer_is_out_at_once(self, ask_as):
        (token,) = ask_as.live.add("eve")
        cookie = ask_as.client.post("/login", {"token": token}).headers["set-cookie"].partition(";")[0]
        for given in ({"cookie": cookie}, {"authorization": f"Bearer {token}"}):
            assert ask_as.client.get("/team", **given).json["me"] == "eve"
        ask_as.live.act({"do": "person", "name": "eve", "role": "analyst", "token": None})
        assert ask_as.client.get("/team", cookie=cookie).status == 401
        assert ask_as.client.get("/team", authorization=f"Bearer {token}").status == 401

    @pytest.mark.parametrize("name", ["", "a b", "a" * 65, "<script>", "\xe9"])
    def test_odd_names_of_a_proxy_are_refused(self, ask_as, name):
        assert ask_as.client.get("/team", x_user=name.encode("latin-1")).status == 403

    def test_a_name_that_comes_twice_is_refused(self, ask_as):
        head = f"GET /team HTTP/1.1\r\nHost: {ask_as.client.host}\r\nX-User: a\r\nX-User: b\r\n\r\n"
        with opened(ask_as.client, head.encode()) as line:
            assert line.recv(100).startswith(b"HTTP/1.1 400 ")

    def test_only_a_trusted_proxy_names_reviewers(self, live):
        with serving(live, token=SECRET, user_header="X-User", trusted_proxies=["192.0.2.1"]) as client:
            assert client.get("/team", x_user="carl").status == 401
        for options in ({"user_header": "X-User"}, {"trusted_proxies": ["127.0.0.1"]}):
            with pytest.raises(ParameterError, match="needs the address of the proxy"):
                Service(live, port=0, token=SECRET, **options)
        with pytest.raises(ParameterError, match="and a token for programs"):
            Service(live, port=0, user_header="X-User", trusted_proxies=["127.0.0.1"])

    def test_without_a_token_of_the_service_names_are_a_choice(self, live):
        (token,) = live.add("anna")
        with serving(live) as client:
            assert client.get("/team").json["me"] == ""
            assert client.get("/team", authorization=f"Bearer {token}").json["me"] == "anna"
            assert client.get("/audit", authorization=f"Bearer {token}").status == 403


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
