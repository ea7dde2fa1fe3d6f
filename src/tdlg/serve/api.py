"""What the service answers: one function per address."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from functools import cache, partial
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response, StreamingResponse

from tdlg import __version__
from tdlg.live.alerts import n_missed
from tdlg.live.scorer import UnknownEventError
from tdlg.serve.answers import about, as_json, of_alert, of_answer, of_fault, of_label
from tdlg.serve.bodies import JSON, LINES, Body, Fault, read_items
from tdlg.serve.feed import Feed
from tdlg.serve.guard import KNOWN
from tdlg.serve.limits import Limits
from tdlg.serve.metrics import Metrics
from tdlg.serve.refusals import RefusedError
from tdlg.serve.tokens import COOKIE
from tdlg.serve.worker import Worker

if TYPE_CHECKING:
    from tdlg.live.model import LiveModel

__all__ = ["Api", "id_of", "json_response", "option", "whole_body"]

MOST_LISTED = 1000
HEALTH_WITHIN = 5.0  # seconds
STATUSES = ("open", "confirmed", "dismissed", "expired", "all")
STREAM = "text/event-stream"


class Api:
    """The addresses for programs; the desk uses them too.

    Parameters
    ----------
    worker
        The owner of the live model.
    feed
        Notifies open desks of new and decided alerts.
    limits
        How much is accepted.
    metrics
        What is counted.
    classes
        The names of the classes of the model, in the order of probabilities; empty if it has none.
    """

    def __init__(self, worker: Worker, feed: Feed, limits: Limits, metrics: Metrics, classes: Sequence[str]) -> None:
        self._worker, self._feed = worker, feed
        self._limits, self._metrics = limits, metrics
        self._classes = classes

    # ---- what changes the state

    async def score(self, request: Request) -> Response:
        """Score events and learn from them."""
        body = await self._items(request, "event")
        good = [item for item in body.items if not isinstance(item, Fault)]
        answers = iter(await self._worker.submit(good))
        listed = [
            of_fault(item) if isinstance(item, Fault) else of_answer(next(answers), self._classes)
            for item in body.items
        ]
        self._count_events(listed)
        return _listed(body, listed, 422)

    async def labels(self, request: Request) -> Response:
        """Learn labels of earlier events."""
        body = await self._items(request, "label")
        items = [_checked_label(item) for item in body.items]
        answers = iter(await self._worker.label([item for item in items if not isinstance(item, Fault)]))
        found = [item if isinstance(item, Fault) else next(answers) for item in items]
        listed = [of_fault(answer) if isinstance(answer, Fault) else of_label(answer) for answer in found]
        for answer in listed:
            self._metrics.count("tdlg_labels_total", outcome="refused" if "error" in answer else "learnt")
        is_unknown = [not isinstance(answer, Fault) and isinstance(answer.error, UnknownEventError) for answer in found]
        return _listed(body, listed, 404 if all(is_unknown) else 422)

    async def _items(self, request: Request, noun: str) -> Body:
        headers = request.headers
        if headers.get("content-encoding", "identity") != "identity":
            raise RefusedError(415, "The body is compressed. Send it as it is.")
        body = await whole_body(request, self._limits.body, self._limits.seconds)
        return read_items(body, headers.get("content-type", ""), self._limits, noun)

    def _count_events(self, listed: Sequence[Mapping[str, Any]]) -> None:
        for answer in listed:
            outcome = "refused" if "error" in answer else "repeated" if answer["repeated"] else "scored"
            self._metrics.count("tdlg_events_total", outcome=outcome)
            if outcome == "scored":
                self._metrics.count("tdlg_late_events_total", int(answer["late"]))
                self._metrics.count("tdlg_alerts_total", int(answer["alert"]))

    # ---- what is known

    async def explain(self, request: Request) -> Response:
        """The reasons for the score of an event."""
        id, top = id_of(request), option(request, "top", 3, 20)
        return json_response(await self._worker.ask(lambda live: live.explain(id, top=top)))

    async def event(self, request: Request) -> Response:
        """One event, with its score and label."""
        id = id_of(request)
        return json_response(await self._worker.ask(lambda live: _event(live, id)))

    async def node(self, request: Request) -> Response:
        """The latest interactions of a node."""
        id, limit = id_of(request), option(request, "limit", 100, MOST_LISTED)
        return json_response(await self._worker.ask(lambda live: live.node(id, limit=limit)))

    async def alerts(self, request: Request) -> Response:
        """The alerts of a status, the newest first."""
        status, limit = request.query_params.get("status", "open"), option(request, "limit", 50, MOST_LISTED)
        before = option(request, "before", 2**53, 2**53)
        if status not in STATUSES:
            raise RefusedError(
                422, f"The 'status' must be one of {', '.join(STATUSES)}. Got {status!r} instead.", field="status"
            )
        found = await self._worker.ask(
            lambda live: live.alerts(status, limit + 1, before, explained=False)  # type: ignore[arg-type]
        )
        for alert in found[:limit]:
            if alert.reason is None:  # one per turn, so that scoring does not wait for all of them
                alert.reason = await self._worker.ask(partial(_reason, id=alert.id))
        return json_response({"alerts": [of_alert(alert) for alert in found[:limit]], "more": len(found) > limit})

    async def statistics(self, request: Request) -> Response:
        """Figures: how much there is to do, and how many alerts were confirmed."""
        return json_response(await self._worker.ask(lambda live: live.statistics()))

    async def about(self, request: Request) -> Response:
        """What the scores mean."""
        return json_response({**await self._worker.ask(about), "signed_in": COOKIE in request.cookies})

    async def changes(self, request: Request) -> Response:
        """What happened since a change: now as JSON, or from now on as a stream."""
        since = option(request, "since", 0, 2**53, least=0) if "since" in request.query_params else None
        if STREAM not in request.headers.get("accept", ""):
            return json_response(await self._worker.ask(lambda live: _changes(live, since or 0)))
        if len(self._feed) >= self._limits.desks:
            raise RefusedError(503, f"{self._limits.desks} desks are open, which is the most.", {"retry-after": "30"})
        last = request.headers.get("last-event-id", "")
        since = int(last) if last.isascii() and last.isdigit() and len(last) < 16 else since
        return StreamingResponse(self._feed.messages(since), media_type=STREAM, headers={"x-accel-buffering": "no"})

    # ---- how it is

    async def health(self, request: Request) -> Response:
        """Whether events can be scored. Without the token, this alone."""
        try:
            async with asyncio.timeout(HEALTH_WITHIN):
                found = await self._worker.ask(lambda live: live.health())
        except TimeoutError:
            found = {"ok": False, "reason": f"The log did not answer within {HEALTH_WITHIN:g} seconds."}
        shown = {**found, "waiting": self._worker.waiting} if request.scope[KNOWN] else {"ok": found["ok"]}
        return json_response(shown, 200 if found["ok"] else 503)

    async def metrics(self, request: Request) -> Response:
        """Counts and times for Prometheus."""
        found = await self._worker.ask(lambda live: live.health())
        gauges = {
            "tdlg_up": int(found["ok"]),
            "tdlg_queue_events": self._worker.waiting,
            "tdlg_nodes": found["n_nodes"],
            "tdlg_pending_events": found["n_pending"],
            "tdlg_disk_bytes": sum(found["bytes"].values()),
            "tdlg_unseen_categories": found["n_unseen_categories"],
            "tdlg_differing_repetitions": found["n_differing"],
            "tdlg_records_set_aside": len(found["set_aside"]),
        }
        return Response(self._metrics.text(gauges), media_type="text/plain; version=0.0.4; charset=utf-8")

    async def openapi(self, request: Request) -> Response:
        """The description of all this, for programs."""
        return Response(_openapi(), media_type=JSON)


# ---- requests


def id_of(request: Request) -> str:
    """The id after the last part of the address, or as ?id=, since no address can end with an id such as ".."."""
    id = request.path_params.get("id") or request.query_params.get("id")
    if not id:
        raise RefusedError(422, "Give an id: as the last part of the address, or as ?id=...", field="id")
    return str(id)


async def whole_body(request: Request, most: int, seconds: float) -> bytes:
    """The body of a request, which is refused if it is too large or too slow.

    Parameters
    ----------
    request
        The request.
    most
        Bytes that it may have.
    seconds
        Time in which it must be complete.
    """
    parts, size = [], 0
    too_large = RefusedError(413, f"A request may have {most} bytes. Send the items in parts.")
    declared = request.headers.get("content-length", "0")
    if declared.isdecimal() and int(declared) > most:
        raise too_large
    try:
        async with asyncio.timeout(seconds):
            async for part in request.stream():
                size += len(part)
                if size > most:
                    raise too_large
                parts.append(part)
    except TimeoutError:
        raise RefusedError(408, f"The request was not complete after {seconds} seconds.") from None
    except ClientDisconnect:
        raise RefusedError(400, "The request was not complete.") from None
    return parts[0] if len(parts) == 1 else b"".join(parts)


def option(request: Request, name: str, default: int, most: int, *, least: int = 1) -> int:
    """A whole number from the query.

    Parameters
    ----------
    request
        The request.
    name
        Of the number.
    default
        What it is by default.
    most, least
        What it may be.
    """
    text = request.query_params.get(name)
    if text is None:
        return default
    if not (text.isascii() and text.isdigit() and len(text) < 17 and least <= int(text) <= most):
        raise RefusedError(
            422, f"The {name!r} must be a whole number from {least} to {most}. Got {text!r} instead.", field=name
        )
    return int(text)


def _event(live: LiveModel, id: Any) -> dict[str, Any]:
    found = live.event(id)
    if found is None:
        raise UnknownEventError(f"There is no event with the id {id!r}, or it is not kept any more.")
    return found


def _reason(live: LiveModel, id: Any) -> str:
    return live.reason(id)


def _changes(live: LiveModel, since: int) -> dict[str, Any]:
    changes = live.changes(since)
    return {"sequence": live.sequence, "changes": changes, "missed": n_missed(changes, since)}


def _checked_label(item: Mapping[str, Any] | Fault) -> Mapping[str, Any] | Fault:
    if isinstance(item, Fault):
        return item
    if not isinstance(item.get("id"), str | int | float) or isinstance(item["id"], bool):
        return Fault("A label needs the 'id' of its event: text or a number.", "id", item.get("id"))
    if "label" not in item:
        return Fault("The field 'label' is missing; null withdraws a label.", "label")
    return item


# ---- answers


def json_response(value: Any, status: int = 200) -> Response:
    """A response with a value as JSON."""
    return Response(as_json(value), status, media_type=JSON)


def _listed(body: Body, listed: list[dict[str, Any]], status_if_none: int) -> Response:
    """The answers as they were asked for; the status says whether at least one item was good."""
    n_bad = sum("error" in answer for answer in listed)
    status = status_if_none if listed and n_bad == len(listed) else 200
    if body.lines:
        return Response(b"".join(as_json(answer) + b"\n" for answer in listed), status, media_type=LINES[0])
    return json_response(listed[0] if body.single else listed, status)


@cache
def _openapi() -> str:
    text = files("tdlg.serve").joinpath("openapi.json").read_text(encoding="utf-8")
    return text.replace("$version", __version__)
