"""Who may ask: by the service's own address, from its own pages, with a token; and headers that protect the desk."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import ipaddress
import logging
import os
import secrets
import stat
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from starlette.requests import cookie_parser
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tdlg.exceptions import ParameterError, warn
from tdlg.live.review import NAME, Person, hash_of
from tdlg.serve.http import RefusedError, answered
from tdlg.serve.schema import Refused

__all__ = [
    "COOKIE",
    "LIFETIME",
    "VISITOR",
    "Guard",
    "Tokens",
    "TooManyError",
    "Visitor",
    "client_of",
    "read_token",
]

logger = logging.getLogger(__name__)

# ---- the token, and the cookie of a desk that has proved that it knows it

COOKIE = "tdlg_desk"
LIFETIME = 30 * 86_400  # seconds until a desk asks for the token again
SHORTEST = 16  # characters
WRONG_PER_MINUTE = 20  # tokens of one client
SLOWED = 0.5  # seconds that a client waits for the answer to each further one
MOST_HELD = 32  # answers at a time; more would take the connections that others need
MOST_CLIENTS = 10_000  # whose wrong tokens are counted apart
MAKE_ONE = "Make one, for example with: (umask 077; openssl rand -hex 32 > token)"


def read_token(path: str | os.PathLike[str]) -> str:
    """The token in a file, without the space around it."""
    try:
        token = Path(path).read_text(encoding="utf-8").strip()
    except UnicodeDecodeError:
        token = ""
    if len(token) < SHORTEST or not (token.isascii() and token.isprintable()) or " " in token:
        raise ParameterError(
            f"{path}: a token has at least {SHORTEST} printable characters of ASCII, in one line. {MAKE_ONE}",
            parameter="token_file",
        )
    if os.name == "posix" and os.stat(path).st_mode & (stat.S_IWGRP | stat.S_IROTH | stat.S_IWOTH):
        warn(f"{path}: others on this machine can read or change the token.", "Run: chmod 600 on the file.")
    return token


class Visitor(NamedTuple):
    """Who asks: a reviewer with a name, or a program (or anybody, where no token is needed) without one."""

    name: str = ""
    role: str = "service"

    def may(self, role: str) -> bool:
        """Whether this is the role, or one that may do more."""
        return ROLES.index(self.role) >= ROLES.index(role)


class TooManyError(RefusedError):
    """Many tokens of a client were wrong; the answer is to be held back, see `Tokens.hold`."""


class Tokens:
    """Checks what clients give: the token of the service, or that of a reviewer.

    secret : the token of the service, None if none is needed; people : the reviewers of now, by name. Comparing takes the
    same time however much of a token is right.
    """

    def __init__(self, secret: str | None, people: Callable[[], Mapping[str, Person]] = dict) -> None:
        self._secret, self.people = None if secret is None else secret.encode(), people
        self._key = self._secret or secrets.token_bytes()  # of cookies
        self.is_needed = secret is not None
        self._wrong: Counter[str] = Counter()  # by client, in this minute
        self._minute_ends = 0.0
        self._n_held = 0

    def check(self, given: str, client: str, now: float) -> Visitor | None:
        """Whose token this is. A client that gives many wrong ones is slowed down and logged, but a right one passes.

        Guesses are not prevented, since clients behind one proxy share an address: so a token must be long.
        """
        if self._secret is not None and hmac.compare_digest(given.encode(errors="replace"), self._secret):
            return Visitor()
        digest = hash_of(given)
        for person in self.people().values():
            if hmac.compare_digest(digest, person.token):
                return Visitor(person.name, person.role)
        if now > self._minute_ends:
            self._wrong.clear()
            self._minute_ends = now + 60.0
        client = client if client in self._wrong or len(self._wrong) < MOST_CLIENTS else "others"
        self._wrong[client] += 1
        if self._wrong[client] > WRONG_PER_MINUTE:
            raise TooManyError(429, "Too many wrong tokens. Wait a minute.", {"retry-after": "60"})
        if self._wrong[client] == WRONG_PER_MINUTE:
            logger.warning("%d requests from %r had a wrong token within a minute.", WRONG_PER_MINUTE, client)
        return None

    async def hold(self) -> None:
        """Hold an answer to a wrong token back, unless so many are held already that they would keep others out."""
        if self._n_held < MOST_HELD:
            self._n_held += 1
            try:
                await asyncio.sleep(SLOWED)
            finally:
                self._n_held -= 1

    def cookie(self, name: str, now: float) -> str:
        """What the cookie of a desk holds: when it ends, a proof that the service made it, and who it is. Not the token."""
        end = str(int(now) + LIFETIME)
        return f"{end}.{self._proof(end, name)}.{name}"

    def of_cookie(self, value: str, now: float) -> Visitor | None:
        """Whose cookie this is, if the service made it, and neither it nor the token of a reviewer has ended."""
        end, proof, name = [*value.split(".", 2), "", ""][:3]
        person = self.people().get(name)
        if name and person is None:
            return None
        made_here = hmac.compare_digest(proof.encode(errors="replace"), self._proof(end, name).encode())
        if not made_here or int(end) <= now:
            return None
        return Visitor() if person is None else Visitor(person.name, person.role)

    def _proof(self, end: str, name: str) -> str:
        key = self._key + (self.people()[name].token.encode() if name else b"")  # what the log has is not enough
        return hmac.new(key, f"tdlg desk until {end} {name}".encode(errors="replace"), hashlib.sha256).hexdigest()


# ---- the guard

HEADERS = [
    (b"content-security-policy", b"default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
     b"img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cache-control", b"no-store"),
]  # fmt: skip
PUBLIC = ("/", "/login", "/health")  # with a token: asked without it, they give nothing away
PUBLIC_FOLDER = "/desk/"  # the style and the scripts of the desk
VISITOR = "tdlg.visitor"  # key of the scope: who asks, None for somebody without a token that is needed
ROLES = ("analyst", "lead", "service")  # each may do what those before it may
MOST_HEADERS, MOST_HEADER_BYTES = 100, 1 << 15  # of a request, its body not counted
DEFAULT_PORTS = {"http": 80, "https": 443}


class Guard:
    """Lets requests through to the application, or refuses them.

    A page of another site that a browser shows can send requests to this machine too, and by DNS rebinding even read the
    answers. So the header Host must name the service itself (the address of its socket, or one of `allowed_hosts`), and
    Origin, where there is one, must be the same. Without a token everybody who reaches the address may ask. A request of one
    of `trusted_proxies` names the reviewer in the header `user_header`. needed : the role that an address needs, where it is
    not that of an analyst.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        tokens: Tokens,
        allowed_hosts: Iterable[str] = (),
        user_header: str | None = None,
        trusted_proxies: Iterable[str] = (),
        needed: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self._app, self._tokens, self._needed = app, tokens, needed
        self._allowed = {name.lower() for name in allowed_hosts}
        self._user_header = None if user_header is None else user_header.lower().encode("latin-1")
        self._proxies = frozenset(trusted_proxies)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or pass it on."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        started = False

        async def send_guarded(message: Message) -> None:
            nonlocal started
            if message["type"] == "http.response.start":
                started = True
                message["headers"] = [*message.get("headers", ()), *HEADERS]
            await send(message)

        try:
            self._check(scope)
            await self._app(scope, receive, send_guarded)
            return
        except RefusedError as refusal:
            refused = refusal
            if isinstance(refusal, TooManyError):
                await self._tokens.hold()
        except Exception:
            if started:
                raise
            logger.exception("%s %s failed", scope["method"], scope["path"])
            refused = RefusedError(500, "An error of the service, which is described in its log.")
        response = answered(Refused(error=refused.problem), refused.status, refused.headers)
        await response(scope, receive, send_guarded)

    def _check(self, scope: Scope) -> None:
        headers: dict[bytes, bytes] = dict(scope["headers"])
        path = scope["path"]
        size = sum(len(name) + len(value) for name, value in scope["headers"])
        if len(scope["headers"]) > MOST_HEADERS or size > MOST_HEADER_BYTES:
            raise RefusedError(
                431,
                f"A request may have {MOST_HEADERS} headers of {MOST_HEADER_BYTES} bytes in all. "
                f"Got {len(scope['headers'])} of {size} bytes: leave out what is not needed, such as cookies.",
            )
        if len(headers) < len(scope["headers"]):
            _refuse_repeated(scope["headers"], () if self._user_header is None else [self._user_header])
        is_own = self._is_own(scope, headers.get(b"host", b"").decode("latin-1").lower())
        _check_origin(headers)
        visitor = scope[VISITOR] = self._visitor(headers, client_of(scope)) if is_own else None
        if path in PUBLIC or path.startswith(PUBLIC_FOLDER):
            return
        if visitor is None:
            raise RefusedError(
                401,
                "This needs the token: send the header 'Authorization: Bearer TOKEN', or sign in at the desk.",
                {"www-authenticate": "Bearer"},
            )
        if not visitor.may(role := self._needed.get(path, "analyst")):
            raise RefusedError(403, f"This needs the role {role!r}. You are {visitor.name!r} with {visitor.role!r}.")

    def _is_own(self, scope: Scope, host: str) -> bool:
        """Whether the service is asked by a name of its own; others may only ask for its health, as load balancers do."""
        name, port = _split(host, DEFAULT_PORTS.get(scope["scheme"], 80))
        address, own_port = scope.get("server") or ("", None)
        if host in self._allowed or name in self._allowed or (port == own_port and _is_name_of(name, address)):
            return True
        if scope["path"] == "/health":
            return False
        raise RefusedError(
            421, f"The Host header {host!r} is not allowed. Add it with --allowed-host {name or 'NAME'}."
        )

    def _visitor(self, headers: dict[bytes, bytes], client: str) -> Visitor | None:
        tokens, anybody = self._tokens, None if self._tokens.is_needed else Visitor()
        if self._user_header is not None and client in self._proxies and self._user_header in headers:
            name = headers[self._user_header].decode("latin-1")
            if not NAME.fullmatch(name):
                raise RefusedError(
                    403, f"The proxy names a reviewer by at most 64 letters, digits and .@+-_. Got {name!r}."
                )
            known = tokens.people().get(name)
            return Visitor(name, "analyst" if known is None else known.role)
        scheme, _, given = headers.get(b"authorization", b"").decode("latin-1").partition(" ")
        if scheme.lower() == "bearer" and (tokens.is_needed or tokens.people()):
            return tokens.check(given.strip(), client, time.time()) or anybody
        cookie = cookie_parser(headers.get(b"cookie", b"").decode("latin-1")).get(COOKIE)
        return (None if cookie is None else tokens.of_cookie(cookie, time.time())) or anybody


def client_of(scope: Scope) -> str:
    """The address of a client; behind a proxy on another machine it is that of the proxy."""
    return str((scope.get("client") or ("",))[0])[:80]


def _refuse_repeated(headers: Iterable[tuple[bytes, bytes]], also: Iterable[bytes]) -> None:
    """Refuse headers that come twice, so that nobody before this service can have decided by the other one."""
    names = [name for name, _ in headers]
    for name in {b"host", b"origin", b"authorization", b"content-type", *also}:
        if names.count(name) > 1:
            raise RefusedError(400, f"The header {name.decode()!r} comes more than once.")


def _check_origin(headers: dict[bytes, bytes]) -> None:
    """Refuse what another site's page sent; programs send no Origin."""
    origin = headers.get(b"origin")
    if origin is None:
        return
    text = origin.decode("latin-1").lower()
    scheme, _, host = text.partition("://")
    if scheme not in DEFAULT_PORTS or host.encode("latin-1") != headers.get(b"host", b"").lower():
        raise RefusedError(403, f"Cross-origin request refused: origin {text!r} is not this service.")


def _split(host: str, port: int) -> tuple[str, int]:
    """The name and the port of a Host; -1 where the port is not a number."""
    name, colon, given = host.rpartition(":")
    if not colon or host.endswith("]"):
        name, given = host, str(port)
    return name.strip("[]"), int(given) if given.isascii() and given.isdigit() and len(given) < 6 else -1


@lru_cache(maxsize=256)
def _is_name_of(name: str, address: str) -> bool:
    """Whether a name is the address of a socket itself, or that of this machine if only it can connect to the address."""
    try:
        own = ipaddress.ip_address(address.partition("%")[0])
        return own.is_loopback if name == "localhost" else ipaddress.ip_address(name) == own
    except ValueError:
        return False
