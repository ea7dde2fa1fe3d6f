"""What the service answers: one method per address of the schema, with its name."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from msgspec import UNSET
from prometheus_client import CONTENT_TYPE_LATEST
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from tdlg import __version__
from tdlg.live.scorer import UnknownEventError
from tdlg.serve import schema
from tdlg.serve.auth import COOKIE, KNOWN
from tdlg.serve.feed import Feed, changes_since
from tdlg.serve.http import Body, Limits, RefusedError, answered, as_json, query_of, read_items, whole_body
from tdlg.serve.metrics import Metrics
from tdlg.serve.schema import JSON, LINES, STREAM, Answer, LabelAnswer, Problem, Refused
from tdlg.serve.worker import Worker

if TYPE_CHECKING:
    from tdlg.live.event import EventError
    from tdlg.live.model import LiveModel
    from tdlg.live.state import Answer as LiveAnswer
    from tdlg.live.state import LabelAnswer as LiveLabelAnswer

__all__ = ["Api", "shown_node"]

HEALTH_WITHIN = 5.0  # seconds


class Api:
    """The addresses for programs; the desk uses them too. `classes` are the names of probabilities, if there are any."""

    def __init__(self, worker: Worker, feed: Feed, limits: Limits, metrics: Metrics, classes: Sequence[str]) -> None:
        self._worker, self._feed = worker, feed
        self._limits, self._metrics = limits, metrics
        self._classes = classes

    # ---- events and labels

    async def score(self, request: Request) -> Response:
        """Score events and learn from them."""
        body = await self._items(request, "event")
        found = iter(await self._worker.submit([item for item in body.items if not isinstance(item, Refused)]))
        listed = [item if isinstance(item, Refused) else _answer(next(found), self._classes) for item in body.items]
        scored = [answer for answer in listed if isinstance(answer, Answer) and not answer.repeated]
        self._metrics.late.inc(sum(answer.late for answer in scored))
        self._metrics.alerts.inc(sum(answer.alert for answer in scored))
        n_refused = sum(isinstance(answer, Refused) for answer in listed)
        counts = {"scored": len(scored), "refused": n_refused, "repeated": len(listed) - len(scored) - n_refused}
        for outcome, n in counts.items():
            self._metrics.events.labels(outcome).inc(n)
        return _listed(body, listed, 422)

    async def labels(self, request: Request) -> Response:
        """Learn labels of earlier events."""
        body = await self._items(request, "label")
        items = [_checked_label(item) for item in body.items]
        found = iter(await self._worker.label([item for item in items if not isinstance(item, Refused)]))
        answers = [item if isinstance(item, Refused) else next(found) for item in items]
        listed = [answer if isinstance(answer, Refused) else _label_answer(answer) for answer in answers]
        n_refused = sum(isinstance(one, Refused) for one in listed)
        self._metrics.labels.labels("refused").inc(n_refused)
        self._metrics.labels.labels("learnt").inc(len(listed) - n_refused)
        is_unknown = [isinstance(getattr(answer, "error", None), UnknownEventError) for answer in answers]
        return _listed(body, listed, 404 if all(is_unknown) else 422)

    async def _items(self, request: Request, noun: str) -> Body:
        headers = request.headers
        if headers.get("content-encoding", "identity") != "identity":
            raise RefusedError(415, "The body is compressed. Send it as it is.")
        body = await whole_body(request, self._limits.body, self._limits.seconds)
        return read_items(body, headers.get("content-type", ""), self._limits, noun)

    # ---- questions about the model

    async def explain(self, request: Request) -> Response:
        """The reasons for the score of an event."""
        asked = query_of(request, schema.ExplainQuery)

        def found(live: LiveModel) -> dict[str, Any]:
            explained = live.explain(asked.id, top=asked.top)
            reasons = [
                {**one, "events": [_shown(live, event) for event in one["events"]]} for one in explained["reasons"]
            ]
            return {**explained, "reasons": reasons}

        return answered(await self._worker.ask(found))

    async def events(self, request: Request) -> Response:
        """One event, with its score and label."""
        id = query_of(request, schema.EventQuery).id

        def found(live: LiveModel) -> dict[str, Any]:
            event = live.event(id)
            if event is None:
                raise UnknownEventError(f"There is no event with the id {id!r}, or it is not kept any more.")
            return _shown(live, event)

        return answered(await self._worker.ask(found))

    async def nodes(self, request: Request) -> Response:
        """The latest interactions of a node."""
        asked = query_of(request, schema.NodeQuery)
        return answered(await self._worker.ask(lambda live: shown_node(live, asked.id, asked.limit)))

    async def alerts(self, request: Request) -> Response:
        """The alerts of a status, the newest first."""
        asked = query_of(request, schema.AlertsQuery)
        found = await self._worker.ask(
            lambda live: live.alerts(asked.status, asked.limit + 1, asked.before, explained=False)
        )
        for alert in found[: asked.limit]:
            if alert.reason is None:  # each is a question of its own, so that scoring does not wait for all of them
                alert.reason = await self._worker.ask(lambda live, id=alert.id: live.reason(id))  # type: ignore[misc]
        listed = [
            schema.Alert(**{name: getattr(alert, name) for name in schema.Alert.__struct_fields__}) for alert in found
        ]
        return answered({"alerts": listed[: asked.limit], "more": len(found) > asked.limit})

    async def statistics(self, request: Request) -> Response:
        """Figures: how much there is to do, and how many alerts were confirmed."""
        return answered(await self._worker.ask(lambda live: live.statistics()))

    async def about(self, request: Request) -> Response:
        """What the scores mean, and which labels confirm and dismiss an alert."""

        def found(live: LiveModel) -> schema.About:
            return schema.About(
                version=__version__,
                model=type(live.model).__name__,
                classes=[*live.classes],
                positive=live.positive,
                confirm=1 if live.positive is None else live.positive,
                dismiss=0 if live.positive is None else live.negative,
                threshold=live.threshold,
                is_probability=bool(live.classes),
                signed_in=COOKIE in request.cookies,
            )

        return answered(await self._worker.ask(found))

    async def changes(self, request: Request) -> Response:
        """What happened since a change: now as JSON, or from now on as a stream."""
        asked = query_of(request, schema.ChangesQuery).since
        since = None if asked is UNSET else asked
        if STREAM not in request.headers.get("accept", ""):
            return answered(await self._worker.ask(lambda live: changes_since(live, since or 0)))
        if len(self._feed) >= self._limits.desks:
            raise RefusedError(503, f"{self._limits.desks} desks are open, which is the most.", {"retry-after": "30"})
        last = request.headers.get("last-event-id", "")
        since = int(last) if last.isascii() and last.isdigit() and len(last) < 16 else since
        return StreamingResponse(self._feed.messages(since), media_type=STREAM, headers={"x-accel-buffering": "no"})

    # ---- the service itself

    async def health(self, request: Request) -> Response:
        """Whether events can be scored. Without the token, this alone."""
        try:
            async with asyncio.timeout(HEALTH_WITHIN):
                found = await self._worker.ask(lambda live: live.health())
        except TimeoutError:
            found = {"ok": False, "reason": f"The log did not answer within {HEALTH_WITHIN:g} seconds."}
        shown = {**found, "waiting": self._worker.waiting} if request.scope[KNOWN] else {"ok": found["ok"]}
        return answered(shown, 200 if found["ok"] else 503)

    async def metrics(self, request: Request) -> Response:
        """Counts and times for Prometheus."""
        found = await self._worker.ask(lambda live: live.health())
        gauges = {
            "up": found["ok"],
            "queue_events": self._worker.waiting,
            "nodes": found["n_nodes"],
            "pending_events": found["n_pending"],
            "disk_bytes": sum(found["bytes"].values()),
            "unseen_categories": found["n_unseen_categories"],
            "differing_repetitions": found["n_differing"],
            "records_set_aside": len(found["set_aside"]),
        }
        return Response(self._metrics.text(gauges), media_type=CONTENT_TYPE_LATEST)

    async def openapi(self, request: Request) -> Response:
        """The description of all this, for programs."""
        return Response(_document(), media_type=JSON)


@cache
def _document() -> bytes:
    return as_json(schema.document())


# ---- from and to the types of the live model


def _checked_label(item: Mapping[str, Any] | Refused) -> Mapping[str, Any] | Refused:
    if isinstance(item, Refused):
        return item
    id = item.get("id")
    if not isinstance(id, str | int | float) or isinstance(id, bool):
        return Refused(error=Problem("A label needs the 'id' of its event: text or a number.", "id", id))
    if "label" not in item:
        return Refused(error=Problem("The field 'label' is missing; null withdraws a label.", "label"))
    return item


def _answer(answer: LiveAnswer, classes: Sequence[str]) -> Answer | Refused:
    if answer.error is not None:
        return Refused(id=answer.id, error=_problem(answer.error))
    return Answer(
        id=answer.id,
        score=answer.score,
        alert=answer.alert,
        predicted=answer.predicted,
        late=answer.late,
        repeated=answer.repeated,
        probabilities=dict(zip(classes, answer.probabilities, strict=True)) if answer.probabilities else UNSET,
        differs=answer.differs or UNSET,
        label_error=UNSET if answer.label_error is None else _problem(answer.label_error),
    )


def _problem(error: EventError) -> Problem:
    return Problem(error.message, error.field, error.value)


def _label_answer(answer: LiveLabelAnswer) -> LabelAnswer | Refused:
    if answer.error is None:
        return LabelAnswer(answer.id)
    field = "id" if isinstance(answer.error, UnknownEventError) else answer.error.parameter
    return Refused(id=answer.id, error=Problem(str(answer.error), field))


def shown_node(live: LiveModel, id: str, limit: int) -> dict[str, Any]:
    """The latest interactions of a node."""
    found = live.node(id, limit=limit)
    return {**found, "events": [_shown(live, event) for event in found["events"]]}


def _shown(live: LiveModel, event: Mapping[str, Any]) -> dict[str, Any]:
    label = event["label"]
    return {**event, "is_positive": None if label is None else live.is_positive(label)}


def _listed(body: Body, listed: Sequence[Answer | LabelAnswer | Refused], status_if_none: int) -> Response:
    """The answers as they were asked for; the status says whether at least one item was good."""
    is_bad = listed and all(isinstance(answer, Refused) for answer in listed)
    status = status_if_none if is_bad else 200
    if body.lines:
        return Response(b"".join(as_json(answer) + b"\n" for answer in listed), status, media_type=LINES[0])
    return answered(listed[0] if body.single else listed, status)
