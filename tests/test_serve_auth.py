"""Who may ask: the matrix of Host, Origin and token, tokens and cookies, and what a page of another site can do."""

import socket

import pytest

from fake_live import FakeLive
from serving import Client, event, opened, serving
from tdlg.exceptions import ParameterError, TdlgWarning
from tdlg.serve.auth import WRONG_PER_MINUTE, Token, read_token
from tdlg.serve.http import Limits, RefusedError
from tdlg.serve.service import Service

SECRET = "correct-horse-battery"


@pytest.fixture(scope="module")
def shared():
    """One service without a token for most tests."""
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
        is_desk = ["Open alerts" in page.body.decode() for page in pages]
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
        assert client.get("/desk/auth.py").status == 404


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
        monkeypatch.setattr("tdlg.serve.auth.MOST_CLIENTS", 100)
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
