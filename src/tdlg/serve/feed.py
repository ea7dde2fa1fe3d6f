"""Notifies open desks of new and decided alerts, as a stream of server-sent events."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

from tdlg.live.cases import n_missed
from tdlg.serve.http import as_json
from tdlg.serve.worker import StoppingError, Worker

if TYPE_CHECKING:
    from tdlg.live.model import LiveModel

__all__ = ["Feed", "changes_since"]

PULSE = 2.0  # seconds between figures
GATHER = 0.2  # seconds in which changes are gathered into one message


class Feed:
    """Tells all who listen what changed, and a few figures every two seconds."""

    def __init__(self, worker: Worker) -> None:
        self._worker = worker
        self._listeners: WeakSet[asyncio.Event] = WeakSet()  # each kept by its stream, also by one that is never begun
        self._seen = worker.sequence
        self._closed = False
        self._figures: dict[str, Any] = {}
        self._figures_until = 0.0
        self._asking = asyncio.Lock()

    def __len__(self) -> int:
        return len(self._listeners)

    def notice(self) -> None:
        """Wake those who listen if something changed; called after each call of the live model."""
        if self._worker.sequence != self._seen:
            self._seen, self._figures_until = self._worker.sequence, 0.0
            self._wake()

    def close(self) -> None:
        """End all streams, so that the server can stop; called from another thread."""
        self._closed = True
        with suppress(RuntimeError):  # the event loop has ended already
            self._worker.loop.call_soon_threadsafe(self._wake)

    def _wake(self) -> None:
        for listener in self._listeners:
            listener.set()

    def messages(self, since: int | None) -> AsyncIterator[bytes]:
        """The stream for one listener, who is counted from now on, and knows the changes up to `since`; None: all of now."""
        changed = asyncio.Event()
        self._listeners.add(changed)
        return self._messages(changed, since)

    async def _messages(self, changed: asyncio.Event, since: int | None) -> AsyncIterator[bytes]:
        try:
            while not self._closed:
                changed.clear()
                known = since
                found = await self._worker.ask(lambda live, known=known: changes_since(live, known))  # type: ignore[misc]
                since = found["sequence"]
                if found["changes"]:
                    yield _message("changes", found, since)
                yield _message("pulse", {"sequence": since, **await self._pulse()})
                with suppress(TimeoutError):
                    await asyncio.wait_for(changed.wait(), PULSE)
                    await asyncio.sleep(GATHER)
        except StoppingError:
            return
        finally:
            self._listeners.discard(changed)

    async def _pulse(self) -> dict[str, Any]:
        """Figures at a glance, the same for all listeners within a second."""
        async with self._asking:  # those who come meanwhile wait for the same figures
            if time.monotonic() > self._figures_until:
                self._figures_until = time.monotonic() + PULSE / 2
                self._figures = await self._worker.ask(_figures)
        return self._figures


def changes_since(live: LiveModel, since: int | None) -> dict[str, Any]:
    """What happened after change number `since`; nothing if it is None."""
    changes = [] if since is None else live.changes(since)
    return {"sequence": live.sequence, "changes": changes, "missed": n_missed(changes, since or 0)}


def _figures(live: LiveModel) -> dict[str, Any]:
    found, health = live.statistics(), live.health()
    names = ("events_per_second", "events", "labels", "alerts")
    return {**{name: found[name] for name in names}, "ok": health["ok"], "reason": health["reason"]}


def _message(kind: str, data: Any, number: int | None = None) -> bytes:
    id = b"" if number is None else f"id: {number}\n".encode()
    return id + f"event: {kind}\ndata: ".encode() + as_json(data) + b"\n\n"
