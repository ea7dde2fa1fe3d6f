"""Connections that keep nobody out: without a request they are closed after a while, or when another needs their place."""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.auto import AutoHTTPProtocol

from tdlg.serve.limits import Limits

__all__ = ["bounded_protocol"]

MOST_HEAD = 1 << 16  # bytes of a head that comes in several parts; h11 has such a limit itself


def bounded_protocol(limits: Limits) -> type[asyncio.Protocol]:
    """Uvicorn's protocol, where a client has `limits.head_seconds` to send the head of a request.

    When as many connections are open as may be, a new one takes the place of the one that is without a request for longest,
    first of all of one that never had any.
    """

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
