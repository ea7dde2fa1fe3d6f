"""The application: addresses, errors, and who may ask."""

from __future__ import annotations

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
from tdlg.live.scorer import UnknownEventError
from tdlg.serve.answers import as_json
from tdlg.serve.api import Api
from tdlg.serve.bodies import JSON
from tdlg.serve.feed import Feed
from tdlg.serve.guard import Guard
from tdlg.serve.limits import Limits
from tdlg.serve.metrics import Metrics
from tdlg.serve.pages import Pages
from tdlg.serve.refusals import RefusedError
from tdlg.serve.tokens import Token
from tdlg.serve.worker import BusyError, StoppingError, Worker

if TYPE_CHECKING:
    from tdlg.live.model import LiveModel

__all__ = ["make_app"]


def make_app(
    live: LiveModel, *, token: str | None = None, allowed_hosts: Iterable[str] = (), limits: Limits | None = None
) -> Starlette:
    """Make the application that scores events over HTTP and shows the desk.

    It can be run by any ASGI server, in one process: the live model is used by one thread from the start of the application
    to its end, and the caller closes it afterwards. `tdlg.serve.service.Service` runs it with uvicorn.

    Parameters
    ----------
    live
        The live model.
    token
        What clients must know. By default none is needed; then serve it on a loopback address only.
    allowed_hosts
        Names by which the service is reached, besides the address of its socket, such as "desk.example.org".
    limits
        How much is accepted at once; `Limits()` by default.
    """
    limits = Limits() if limits is None else limits
    checked = None if token is None else Token(token)
    metrics = Metrics()
    worker = Worker(live, limits, lambda n: _turn_ended(n, metrics, feed))
    feed = Feed(worker)
    api = Api(worker, feed, limits, metrics, [str(label) for label in live.classes])
    app = Starlette(
        routes=[*_routes(api), *Pages(worker, checked, limits).routes()],
        middleware=[
            Middleware(Measured, metrics=metrics),
            Middleware(Guard, token=checked, allowed_hosts=tuple(allowed_hosts)),
        ],
        exception_handlers={RefusedError: _refused, TdlgError: _failed, HTTPException: _not_found},
        lifespan=lambda app: _working(worker),
    )
    app.router.redirect_slashes = False
    app.state.feed, app.state.metrics = feed, metrics
    return app


def _routes(api: Api) -> list[Route]:
    gets = {
        "/explain": api.explain,
        "/explain/{id:path}": api.explain,
        "/events": api.event,
        "/events/{id:path}": api.event,
        "/nodes": api.node,
        "/nodes/{id:path}": api.node,
        "/alerts": api.alerts,
        "/statistics": api.statistics,
        "/about": api.about,
        "/changes": api.changes,
        "/health": api.health,
        "/metrics": api.metrics,
        "/openapi.json": api.openapi,
    }
    posts = {"/score": api.score, "/labels": api.labels}
    return [
        *(Route(path, answer, methods=["POST"]) for path, answer in posts.items()),
        *(Route(path, answer, methods=["GET"]) for path, answer in gets.items()),
    ]


@asynccontextmanager
async def _working(worker: Worker) -> AsyncIterator[None]:
    worker.start()
    try:
        yield
    finally:
        await worker.stop()


def _turn_ended(n: int, metrics: Metrics, feed: Feed) -> None:
    if n:
        metrics.observe("tdlg_turn_events", n)
    feed.notice()


class Measured:
    """Counts requests by address and status, and measures how long the answers to /score take.

    Parameters
    ----------
    app
        The application.
    metrics
        What is counted.
    """

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
                self._count(scope, message["status"], time.perf_counter() - start)
            await send(message)

        await self._app(scope, receive, send_counted)

    def _count(self, scope: Scope, status: int, seconds: float) -> None:
        path = scope["path"] if "endpoint" in scope else "other"
        for name, value in scope.get("path_params", {}).items():
            path = f"{path.removesuffix(value)}{{{name}}}"
        self._metrics.count("tdlg_requests_total", path=path, status=str(status))
        if path == "/score":
            self._metrics.observe("tdlg_request_seconds", seconds)


# ---- errors as answers


async def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, RefusedError)
    return _error(error.status, error.error, error.headers)


async def _failed(request: Request, error: Exception) -> Response:
    """An error of the live model: an unknown id, a log that cannot be written, or a value that it does not take."""
    assert isinstance(error, TdlgError)
    if isinstance(error, UnknownEventError):
        return _error(404, {"message": str(error), "field": "id"})
    if isinstance(error, BusyError):
        return _error(429, {"message": str(error)}, {"retry-after": "1"})
    if isinstance(error, LogError):
        request.app.state.metrics.count("tdlg_log_failures_total")
    if isinstance(error, StateError | StoppingError):
        return _error(503, {"message": str(error)}, {"retry-after": "5"})
    return _error(422, {"message": str(error), "field": error.parameter})


async def _not_found(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return _error(error.status_code, {"message": f"{error.detail}: {request.url.path}"}, error.headers)


def _error(status: int, error: dict[str, object], headers: object = None) -> Response:
    return Response(as_json({"error": error}), status, headers, media_type=JSON)  # type: ignore[arg-type]
