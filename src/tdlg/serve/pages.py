"""The desk: its page, style and scripts, its charts, and how a browser signs in."""

from __future__ import annotations

import asyncio
import time
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from tdlg.report.desk import WIDE, days_chart, ends_chart, node_chart, scores_chart
from tdlg.serve.api import shown_node
from tdlg.serve.auth import COOKIE, LIFETIME, VISITOR, Tokens, TooManyError, client_of
from tdlg.serve.cases import case_with
from tdlg.serve.http import Limits, RefusedError, answered, query_of, whole_body
from tdlg.serve.schema import JSON, NodeQuery
from tdlg.serve.worker import Worker

if TYPE_CHECKING:
    from tdlg.live.model import LiveModel

__all__ = ["Pages"]

Row = dict[str, Any]

REPORT, DESK = ("tdlg.report", "."), ("tdlg.serve", "desk")  # package and folder
FILES = {
    "parts.css": REPORT,
    "charts.js": REPORT,
    **dict.fromkeys(("index.html", "login.html", "desk.css", "desk.js"), DESK),
    **dict.fromkeys(
        ("dom.js", "cases.js", "case.js", "lists.js", "figures.js", "model.js", "node.js", "login.js"), DESK
    ),
}
MEDIA_TYPES = {"html": "text/html", "css": "text/css", "js": "text/javascript"}
SVG = "image/svg+xml"
MOST_DOTS = 400  # interactions of a node that are drawn
MOST_FORM_BYTES = 4096  # of what a browser sends to sign in
MOST_SIGNING_IN = 16  # at the same time, so that those who send a body slowly keep nobody else out


class ChartQuery(NodeQuery):
    """The node of a chart, and how many pixels there are for it."""

    width: Annotated[int, msgspec.Meta(ge=300, le=1600)] = WIDE


class Form(msgspec.Struct):
    """What a browser sends to sign in."""

    token: str


class Pages:
    """The addresses for people."""

    def __init__(self, worker: Worker, tokens: Tokens, limits: Limits) -> None:
        self._worker, self._tokens, self._limits = worker, tokens, limits
        self._signing_in = asyncio.Semaphore(MOST_SIGNING_IN)

    def routes(self) -> list[Route]:
        """The addresses."""
        return [
            Route("/", self.page),
            Route("/desk/{name}", self.file),
            Route("/charts/days.svg", self.days),
            Route("/charts/scores.svg", self.scores),
            Route("/charts/node.svg", self.node),
            Route("/charts/ends.svg", self.ends),
            Route("/login", self.door),
            Route("/login", self.login, methods=["POST"]),
            Route("/logout", self.logout, methods=["POST"]),
        ]

    async def page(self, request: Request) -> Response:
        """The desk, or the page that asks for the token."""
        return _file("index.html" if request.scope[VISITOR] else "login.html")

    async def door(self, request: Request) -> Response:
        """The page that asks for a token, also where none is needed: who gives one has a name."""
        return _file("login.html")

    async def file(self, request: Request) -> Response:
        """The style and the scripts."""
        name = request.path_params["name"]
        if name not in FILES:
            raise RefusedError(404, f"The desk has no file {name!r}.")
        return _file(name)

    # ---- charts

    async def days(self, request: Request) -> Response:
        """How many alerts were reviewed per day, and how many of them were confirmed."""
        found = await self._worker.ask(lambda live: live.statistics())
        return Response(days_chart(found["days"]), media_type=SVG)

    async def scores(self, request: Request) -> Response:
        """The share of reviewed alerts that were confirmed, by score."""
        found = await self._worker.ask(lambda live: live.statistics())
        return Response(scores_chart(found["by_score"]), media_type=SVG)

    async def node(self, request: Request) -> Response:
        """The latest interactions of a node in time."""
        asked = query_of(request, ChartQuery)
        node, threshold, classes = await self._worker.ask(
            lambda live: (shown_node(live, asked.id, MOST_DOTS), live.threshold, live.classes)
        )
        return Response(node_chart(node, threshold, is_probability=bool(classes), width=asked.width), media_type=SVG)

    async def ends(self, request: Request) -> Response:
        """The two ends of the highest alert of a case, and their neighbours; `id` is that of an event."""
        asked = query_of(request, ChartQuery)

        def found(live: LiveModel) -> tuple[Row, Row]:
            alert = case_with(live, asked.id).alerts[0]
            return shown_node(live, alert.src, MOST_DOTS), shown_node(live, alert.dst, MOST_DOTS)

        return Response(ends_chart(await self._worker.ask(found), width=asked.width), media_type=SVG)

    # ---- signing in

    async def login(self, request: Request) -> Response:
        """Give the browser a cookie if it knows the token."""
        response = answered({})
        if not self._tokens.is_needed and not self._tokens.people():
            return response
        if request.headers.get("content-type", "").partition(";")[0] != JSON:
            raise RefusedError(415, f"The Content-Type must be {JSON}.")
        if self._signing_in.locked():
            raise RefusedError(503, "Too many are signing in at once. Try again later.", {"retry-after": "5"})
        async with self._signing_in:
            body = await whole_body(request, MOST_FORM_BYTES, self._limits.seconds)
        try:
            given = msgspec.json.decode(body, type=Form).token
        except (ValueError, RecursionError):
            raise RefusedError(422, 'The body must be {"token": "..."}.', field="token") from None
        now = time.time()
        try:
            visitor = self._tokens.check(given, client_of(request.scope), now)
        except TooManyError:
            await self._tokens.hold()
            raise
        if visitor is None:
            raise RefusedError(401, "This is not the token.")
        is_secure = request.url.scheme == "https"
        response.set_cookie(
            COOKIE,
            self._tokens.cookie(visitor.name, now),
            LIFETIME,
            path="/",
            secure=is_secure,
            httponly=True,
            samesite="strict",
        )
        return response

    async def logout(self, request: Request) -> Response:
        """Take the cookie away."""
        response = answered({})
        response.delete_cookie(COOKIE, path="/", httponly=True, samesite="strict")
        return response


def _file(name: str) -> Response:
    return Response(_content(name), media_type=MEDIA_TYPES[name.rpartition(".")[2]])


@cache
def _content(name: str) -> bytes:
    package, folder = FILES[name]
    return files(package).joinpath(folder, name).read_bytes()
