"""Who may ask: by the service's own address, from its own pages, with the token; and headers that protect the desk."""

from __future__ import annotations

import ipaddress
import logging
import time
from collections.abc import Iterable
from functools import lru_cache

from starlette.requests import cookie_parser
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tdlg.serve.answers import as_json
from tdlg.serve.refusals import RefusedError
from tdlg.serve.tokens import COOKIE, Token

__all__ = ["KNOWN", "Guard", "client_of"]

logger = logging.getLogger(__name__)

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
KNOWN = "tdlg.known"  # key of the scope: whether the client knows the token, or needs none
MOST_HEADERS, MOST_HEADER_BYTES = 100, 1 << 15  # of a request, its body not counted
DEFAULT_PORTS = {"http": 80, "https": 443}


class Guard:
    """Lets requests through to the application, or refuses them.

    A page of another site that a browser shows can send requests to this machine too, and by DNS rebinding even read the
    answers. So the header Host must name the service itself, and Origin, where there is one, must be the same.

    Parameters
    ----------
    app
        The application.
    token
        The token, or None if everybody who reaches the address may ask.
    allowed_hosts
        Names by which the service is reached, besides the address of its socket: "desk.example.org", or with a port.
    """

    def __init__(self, app: ASGIApp, *, token: Token | None = None, allowed_hosts: Iterable[str] = ()) -> None:
        self._app = app
        self._token = token
        self._allowed = {name.lower() for name in allowed_hosts}

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
        except RefusedError as refusal:
            await _send_refusal(refusal, send_guarded)
        except Exception:
            if started:
                raise
            logger.exception("%s %s failed", scope["method"], scope["path"])
            await _send_refusal(
                RefusedError(500, "An error of the service, which is described in its log."), send_guarded
            )

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
            _refuse_repeated(scope["headers"])
        is_own = self._is_own(scope, headers.get(b"host", b"").decode("latin-1").lower())
        _check_origin(headers)
        scope[KNOWN] = is_own and self._knows_token(headers, client_of(scope))
        if not scope[KNOWN] and path not in PUBLIC and not path.startswith(PUBLIC_FOLDER):
            raise RefusedError(
                401,
                "This needs the token: send the header 'Authorization: Bearer TOKEN', or sign in at the desk.",
                {"www-authenticate": "Bearer"},
            )

    def _is_own(self, scope: Scope, host: str) -> bool:
        """Whether the service is asked by a name of its own; others may only ask for its health, as load balancers do."""
        name, port = _split(host, DEFAULT_PORTS.get(scope["scheme"], 80))
        address, own_port = scope.get("server") or ("", None)
        if host in self._allowed or name in self._allowed or (port == own_port and _is_name_of(name, address)):
            return True
        if scope["path"] == "/health":
            return False
        raise RefusedError(
            421,
            f"The Host header {host!r} is not allowed. To allow it, start the service with --allowed-host {name or 'NAME'}.",
        )

    def _knows_token(self, headers: dict[bytes, bytes], client: str) -> bool:
        if self._token is None:
            return True
        scheme, _, given = headers.get(b"authorization", b"").decode("latin-1").partition(" ")
        if scheme.lower() == "bearer":
            return self._token.check(given.strip(), client, time.time())
        cookie = cookie_parser(headers.get(b"cookie", b"").decode("latin-1")).get(COOKIE)
        return cookie is not None and self._token.accepts_cookie(cookie, time.time())


def client_of(scope: Scope) -> str:
    """The address of a client; behind a proxy on another machine it is that of the proxy."""
    return str((scope.get("client") or ("",))[0])[:80]


async def _send_refusal(refusal: RefusedError, send: Send) -> None:
    """Send the response of a refused request."""
    body = as_json({"error": refusal.error})
    headers = {"content-type": "application/json", "content-length": str(len(body)), **(refusal.headers or {})}
    raw = [(name.encode(), value.encode()) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": refusal.status, "headers": raw})
    await send({"type": "http.response.body", "body": body})


def _refuse_repeated(headers: Iterable[tuple[bytes, bytes]]) -> None:
    """Refuse headers that come twice, so that nobody before this service can have decided by the other one."""
    names = [name for name, _ in headers]
    for name in (b"host", b"origin", b"authorization", b"content-type"):
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
        raise RefusedError(403, f"Cross-origin request refused: Origin {text!r} is not this service.")


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
