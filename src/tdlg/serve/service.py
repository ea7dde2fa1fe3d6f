"""A service in a thread of this process: for the command, for tests, and for Python."""

from __future__ import annotations

import asyncio
import ipaddress
import socket
import threading
from collections.abc import Iterable
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from tdlg.exceptions import ParameterError
from tdlg.serve.app import make_app
from tdlg.serve.http import Limits
from tdlg.serve.webhook import check_webhook

if TYPE_CHECKING:
    from tdlg.live.model import LiveModel

__all__ = ["Service", "bounded_protocol", "check_address"]

BACKLOG = 1024
MOST_HEAD = 1 << 16  # bytes of a head that comes in several parts; h11 has such a limit itself
DRAIN = 30  # seconds until requests that are still open are cut off


class Service:
    """Serves a live model over HTTP until it is stopped.

    Parameters
    ----------
    live
        The live model, which the service alone uses until it is stopped. The caller closes it afterwards.
    host
        The address to listen on, "127.0.0.1" by default: then only this machine can connect. Any other address needs a
        token.
    port
        The port. 0 takes a free one.
    token
        What clients must know; none by default.
    allowed_hosts
        Names by which the service is reached, such as "desk.example.org".
    user_header, trusted_proxies
        A header in which a proxy that has signed a reviewer in gives the name, such as "X-Forwarded-User", and the addresses
        of such proxies; both or neither, and with a token, which programs then need.
    webhook, webhook_secret
        The address to which new and decided alerts are sent, and the secret with which requests to it are signed.
    limits
        How much is accepted at once; `Limits()` by default.
    apart
        Whether a process of its own finds reasons, so that scores do not wait for them. True by default; it loads the model.

    Attributes
    ----------
    url
        The address of the desk.

    Examples
    --------
    >>> from tdlg.serve.service import Service
    >>> with Service(live) as service:  # doctest: +SKIP
    ...     service.wait()  # until Ctrl-C
    """

    def __init__(
        self,
        live: LiveModel,
        *,
        host: str = "127.0.0.1",
        port: int = 8000,
        token: str | None = None,
        allowed_hosts: Iterable[str] = (),
        user_header: str | None = None,
        trusted_proxies: Iterable[str] = (),
        webhook: str | None = None,
        webhook_secret: str | None = None,
        limits: Limits | None = None,
        apart: bool = True,
    ) -> None:
        import uvicorn

        limits = Limits() if limits is None else limits
        check_address(host, token)
        check_proxy(user_header, [*trusted_proxies], token)
        check_webhook(webhook, webhook_secret)
        self._socket = _listening(host, port)
        self._app = make_app(
            live,
            token=token,
            allowed_hosts=allowed_hosts,
            user_header=user_header,
            trusted_proxies=trusted_proxies,
            webhook=webhook,
            webhook_secret=webhook_secret,
            limits=limits,
            apart=apart,
        )
        config = uvicorn.Config(
            self._app,
            http=bounded_protocol(limits),
            lifespan="on",
            ws="none",
            log_config=None,
            access_log=False,
            server_header=False,
            limit_concurrency=limits.connections,
            timeout_keep_alive=60,
            timeout_graceful_shutdown=DRAIN,
        )
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._run, name="tdlg-serve", daemon=True)
        # An event, since a signal during Thread.join makes Python 3.11 and 3.12 believe that the thread has ended.
        self._ended = threading.Event()
        self.url = _url(*self._socket.getsockname()[:2])

    def __enter__(self) -> Self:
        """Start, and return when requests are answered."""
        self._thread.start()
        try:
            while not self._server.started:
                if self._ended.wait(0.005):
                    raise RuntimeError("the server did not start")
        except BaseException:  # such as Ctrl-C
            self.stop()
            raise
        return self

    def _run(self) -> None:
        try:
            self._server.run([self._socket])
        finally:
            self._ended.set()

    def wait(self, seconds: float | None = None) -> bool:
        """Wait until the service has stopped, at most for a number of seconds; return whether it has stopped."""
        return self._ended.wait(seconds)

    def stop(self) -> None:
        """Accept nothing new, finish all that was accepted, and stop. A stopped service can be stopped again."""
        self._server.should_exit = True
        self._app.state.feed.close()
        if self._thread.ident is not None:  # it was started
            self._ended.wait()
        self._socket.close()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.stop()


def check_address(host: str, token: str | None) -> None:
    """Refuse an address that others can reach, if no token is needed."""
    if token is None and not _is_loopback(host):
        raise ParameterError(
            f"Others can reach the address {host!r}, so the service needs a token that its clients know.",
            "Pass token=, or host='127.0.0.1'.",
            parameter="host",
        )


def check_proxy(user_header: str | None, trusted_proxies: list[str], token: str | None) -> None:
    """Refuse a header that names reviewers, if anybody could send it."""
    if (user_header is None) != (not trusted_proxies) or (user_header is not None and token is None):
        raise ParameterError(
            "A header that names reviewers needs the address of the proxy that sets it, and a token for programs.",
            "Pass user_header=, trusted_proxies= and token= together.",
            parameter="user_header",
        )


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _listening(host: str, port: int) -> socket.socket:
    """A socket whose protocol is given, since asyncio turns off the delay of small packets for such sockets only."""
    listening = None
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        listening = socket.socket(found[0], socket.SOCK_STREAM, socket.IPPROTO_TCP)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(found[4])
        listening.listen(BACKLOG)
    except OSError as error:
        if listening is not None:
            listening.close()
        raise ParameterError(
            f"The service cannot listen on {host!r}, port {port}: {error.strerror or error}.",
            "Pass another port=; 0 takes a free one.",
            parameter="port",
        ) from error
    return listening


def _url(host: str, port: int) -> str:
    return f"http://[{host}]:{port}/" if ":" in host else f"http://{host}:{port}/"


# ---- connections that keep nobody out


def bounded_protocol(limits: Limits) -> type[asyncio.Protocol]:
    """Uvicorn's protocol, where a client has `limits.head_seconds` to send the head of a request.

    When as many connections are open as may be, a new one takes the place of the one that is without a request for longest,
    first of all of one that never had any.
    """
    from uvicorn.protocols.http.auto import AutoHTTPProtocol

    class Connection(AutoHTTPProtocol):  # type: ignore[misc, valid-type]
        transport: asyncio.Transport
        cycle: Any = None  # uvicorn's current or last request
        timer: asyncio.TimerHandle | None = None
        in_head, n_head = False, 0

        @property
        def is_busy(self) -> bool:
            return self.cycle is not None and not self.cycle.response_complete

        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            super().connection_made(transport)
            self.since = self.loop.time()
            self._time_head()
            if len(self.connections) >= limits.connections:
                self._make_room()

        def _make_room(self) -> None:
            idle = [other for other in self.connections if other is not self and not other.is_busy]
            if idle:
                longest = min(idle, key=lambda other: (other.cycle is not None, other.since))
                self.connections.discard(longest)
                longest.transport.abort()

        def data_received(self, data: bytes) -> None:
            self.since = self.loop.time()
            self.n_head += len(data) if self.in_head else 0
            if self.n_head > MOST_HEAD:
                self.send_400_response("The head of the request is too long.")
            else:
                super().data_received(data)
            self._time_head()

        def connection_lost(self, error: Exception | None) -> None:
            super().connection_lost(error)
            if self.timer is not None:
                self.timer.cancel()

        def _time_head(self) -> None:
            """Start the clock when the head of a request is waited for, and stop it when there is a request."""
            if not self.is_busy and self.timer is None:
                self.timer = self.loop.call_later(limits.head_seconds, self._give_up)
            elif self.is_busy and self.timer is not None:
                self.timer.cancel()
                self.timer = None

        def _give_up(self) -> None:
            self.timer = None
            if not self.is_busy:
                self.transport.abort()

        def on_message_begin(self) -> None:  # called by httptools
            super().on_message_begin()
            self.in_head, self.n_head = True, 0

        def on_headers_complete(self) -> None:
            self.in_head, self.n_head = False, 0
            super().on_headers_complete()

    return Connection
