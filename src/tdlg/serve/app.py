"""The application: addresses, errors, and what is counted."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tdlg.exceptions import TdlgError
from tdlg.live.log import LogError, StateError
from tdlg.live.review import ConflictError
from tdlg.live.scorer import UnknownEventError
from tdlg.serve.api import Api
from tdlg.serve.auth import Guard, Tokens
from tdlg.serve.card import NoCardError
from tdlg.serve.feed import Feed
from tdlg.serve.http import Limits, RefusedError, answered
from tdlg.serve.metrics import Metrics
from tdlg.serve.pages import Pages
from tdlg.serve.reader import ReaderError
from tdlg.serve.schema import ADDRESSES, Refused
from tdlg.serve.webhook import Webhook
from tdlg.serve.worker import BusyError, StoppingError, Worker

if TYPE_CHECKING:
    from tdlg.live.model import LiveModel

__all__ = ["make_app"]


def make_app(
    live: LiveModel,
    *,
    token: str | None = None,
    allowed_hosts: Iterable[str] = (),
    user_header: str | None = None,
    trusted_proxies: Iterable[str] = (),
    webhook: str | None = None,
    webhook_secret: str | None = None,
    limits: Limits | None = None,
    apart: bool = True,
) -> Starlette:
    """Make the application that scores events over HTTP and shows the desk.

    It can be run by any ASGI server, in one process: the live model is used by one thread from the start of the application
    to its end, and the caller closes it afterwards. `tdlg.serve.service.Service` runs it with uvicorn.

    The parameters are those of `Service`, which has the address and the port besides.
    """
    limits = Limits() if limits is None else limits
    tokens = Tokens(token, lambda: live.people)
    metrics = Metrics()

    def after(n: int) -> None:
        if n:
            metrics.turns.observe(n)
        feed.notice()

    worker = Worker(live, limits, after, apart=apart)
    feed = Feed(worker)
    api = Api(worker, feed, limits, metrics, [str(label) for label in live.classes])

    @asynccontextmanager
    async def working(app: Starlette) -> AsyncIterator[None]:
        worker.start()
        sending = None
        if webhook is not None and webhook_secret is not None:
            sending = asyncio.create_task(Webhook(worker, webhook, webhook_secret, live.folder / "webhook.json").run())
        try:
            yield
        finally:
            if sending is not None:
                sending.cancel()
            await worker.stop()

    app = Starlette(
        routes=[
            *(Route(one.path, getattr(api, one.name), methods=[one.method]) for one in ADDRESSES),
            *Pages(worker, tokens, limits).routes(),
        ],
        middleware=[
            Middleware(Measured, metrics=metrics),
            Middleware(
                Guard,
                tokens=tokens,
                allowed_hosts=tuple(allowed_hosts),
                user_header=user_header,
                trusted_proxies=tuple(trusted_proxies),
                needed={one.path: one.role for one in ADDRESSES},
            ),
        ],
        exception_handlers={RefusedError: _refused, TdlgError: _failed, HTTPException: _not_found},
        lifespan=working,
    )
    app.router.redirect_slashes = False
    app.state.feed, app.state.metrics, app.state.reader = feed, metrics, worker.reader
    return app


class Measured:
    """Counts requests by address and status, and measures how long the answers to /score take."""

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self._app, self._metrics = app, metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on and count it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        start = time.perf_counter()

        async def send_counted(message: Message) -> None:
            if message["type"] == "http.response.start":
                path = "other"
                if "endpoint" in scope:  # what older versions of starlette set too
                    path = "/desk/{name}" if scope.get("path_params") else scope["path"]
                self._metrics.requests.labels(path, message["status"]).inc()
                if path == "/score":
                    self._metrics.seconds.observe(time.perf_counter() - start)
            await send(message)

        await self._app(scope, receive, send_counted)


# ---- errors as answers


async def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, RefusedError)
    return answered(Refused(error=error.problem), error.status, error.headers)


async def _failed(request: Request, error: Exception) -> Response:
    """An error of the live model: an unknown id, a log that cannot be written, or a value that it does not take."""
    assert isinstance(error, TdlgError)
    status, field, headers = 422, error.parameter, {}
    if isinstance(error, UnknownEventError):
        status, field = 404, "id"
    elif isinstance(error, NoCardError):
        status = 404
    elif isinstance(error, ConflictError):
        status = 409
    elif isinstance(error, BusyError):
        status, headers = 429, {"retry-after": "1"}
    elif isinstance(error, ReaderError):
        status, headers = 503, {"retry-after": "1"}
    elif isinstance(error, StateError | StoppingError):
        status, headers = 503, {"retry-after": "5"}
    if isinstance(error, LogError):
        request.app.state.metrics.log_failures.inc()
    return await _refused(request, RefusedError(status, str(error), headers, field=field))


async def _not_found(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return await _refused(
        request, RefusedError(error.status_code, f"{error.detail}: {request.url.path}", error.headers)
    )
