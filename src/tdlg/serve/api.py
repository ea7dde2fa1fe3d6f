"""What the service answers: one method per address of the schema, with its name."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec
from msgspec import UNSET
from prometheus_client import CONTENT_TYPE_LATEST
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from tdlg import __version__
from tdlg.live.cases import MOST_ALERTS
from tdlg.live.outcome import ALERTS_PER_DAY
from tdlg.live.review import ChangeAnswer, ConflictError
from tdlg.live.scorer import UnknownEventError
from tdlg.serve import schema
from tdlg.serve.auth import COOKIE, VISITOR
from tdlg.serve.card import Cards
from tdlg.serve.cases import Case, case_with, open_cases, wanted
from tdlg.serve.export import case_page, table_of
from tdlg.serve.feed import Feed, changes_since
from tdlg.serve.http import Body, Limits, RefusedError, answered, as_json, query_of, read_items, whole_body
from tdlg.serve.metrics import Metrics
from tdlg.serve.schema import JSON, LINES, STREAM, Answer, LabelAnswer, Problem, Refused
from tdlg.serve.worker import Worker

if TYPE_CHECKING:
    from tdlg.live.cases import Alert as LiveAlert
    from tdlg.live.event import EventError
    from tdlg.live.model import LiveModel
    from tdlg.live.state import Answer as LiveAnswer
    from tdlg.live.state import LabelAnswer as LiveLabelAnswer

__all__ = ["Api", "shown_node"]

HEALTH_WITHIN = 5.0  # seconds
TOP = 5  # reasons of each alert of a case
MOST_EXPLAINED = 10  # alerts of a case, those with the highest scores
MOST_OF_NODE = 400  # interactions of its node
ATTACHED = 'attachment; filename="{}"'


FIELDS = {  # of an action
    "snooze": ("nodes", "until", "note"),
    "wake": ("nodes",),
    "reasons": ("reasons",),
    "rules": ("text",),
    "promote": ("generation",),
    "drop": ("generation",),
}


class Api:
    """The addresses for programs; the desk uses them too. `classes` are the names of probabilities, if there are any."""

    def __init__(self, worker: Worker, feed: Feed, limits: Limits, metrics: Metrics, classes: Sequence[str]) -> None:
        self._worker, self._feed = worker, feed
        self._limits, self._metrics = limits, metrics
        self._classes, self._cards = classes, Cards()

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
        listed, status = await _done([_checked_label(item) for item in body.items], self._worker.label)
        n_refused = sum(isinstance(one, Refused) for one in listed)
        self._metrics.labels.labels("refused").inc(n_refused)
        self._metrics.labels.labels("learnt").inc(len(listed) - n_refused)
        return _listed(body, listed, status)

    async def withdrawals(self, request: Request) -> Response:
        """Withdraw earlier events."""
        body = await self._items(request, "withdrawal")
        return _listed(body, *await _done([_checked_id(item) for item in body.items], self._worker.withdraw))

    # ---- what reviewers do

    async def decisions(self, request: Request) -> Response:
        """Learn what a reviewer did with alerts."""
        body = await self._items(request, "decision")
        given = [item for item in body.items if not isinstance(item, Refused)]
        found = iter(await self._worker.decide(given, request.scope[VISITOR].name))
        answers = [item if isinstance(item, Refused) else next(found) for item in body.items]
        listed = [
            answer if isinstance(answer, Refused) else _alert(answer.alert) if answer.alert else _refused(answer)
            for answer in answers
        ]
        errors = [getattr(answer, "error", None) for answer in answers]
        is_unknown = all(isinstance(error, UnknownEventError) for error in errors)
        is_changed = all(isinstance(error, ConflictError) for error in errors)
        return _listed(body, listed, 404 if is_unknown else 409 if is_changed else 422)

    async def actions(self, request: Request) -> Response:
        """Learn another action of a reviewer."""
        body, visitor = await self._items(request, "action"), request.scope[VISITOR]
        if len(body.items) != 1 or isinstance(body.items[0], Refused):
            raise RefusedError(422, "The body must be one action: a JSON object.")
        try:
            action = msgspec.convert(body.items[0], schema.Action)
        except msgspec.ValidationError as error:
            raise RefusedError(422, f"This is no action: {error}.") from None
        if action.do not in ("snooze", "wake") and not visitor.may("lead"):
            raise RefusedError(403, f"This needs the role 'lead'. You are {visitor.name!r} with {visitor.role!r}.")
        fields = FIELDS[action.do]
        given = {name: value for name in fields if (value := getattr(action, name)) is not UNSET}
        await self._worker.act({"do": action.do, **given}, visitor.name)
        return answered({"done": True})

    async def team(self, request: Request) -> Response:
        """Who reviews, the reasons for dismissals, and what is snoozed."""
        visitor = request.scope[VISITOR]
        found = await self._worker.ask(lambda live: live.team())
        return answered({"me": visitor.name, "role": visitor.role, **found})

    async def audit(self, request: Request) -> Response:
        """Who did what, the newest first."""
        limit = query_of(request, schema.AuditQuery).limit
        return answered({"actions": await self._worker.ask(lambda live: live.audit(limit))})

    async def rules(self, request: Request) -> Response:
        """The rules beside the model."""
        return answered(await self._worker.ask(lambda live: live.rules()))

    async def challenger(self, request: Request) -> Response:
        """A second model beside the one in place; the interval is computed beside the scores."""
        evidence, health, file = await self._worker.ask(lambda live: (live.evidence(), live.health(), live.model_file))
        compared = None if evidence is None else await asyncio.to_thread(evidence.compared)
        failure = health["challenger_failure"] or health["refit_failure"]
        return answered({"challenger": compared, "generation": file.parent.name, "failure": failure})

    async def card(self, request: Request) -> Response:
        """The model card as JSON."""
        return Response((await self._card())[0], media_type=JSON)

    async def card_page(self, request: Request) -> Response:
        """The model card as a page."""
        return Response((await self._card())[1], media_type=schema.HTML)

    async def _card(self) -> tuple[str, str]:
        model, file, per_day = await self._worker.ask(
            lambda live: (live.model, str(live.model_file), live.settings.alerts_per_day)
        )
        return await self._cards.card(model, file, per_day or ALERTS_PER_DAY)

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
        return answered(await self._explained(asked.id, asked.top))

    async def _explained(self, id: Any, top: int) -> dict[str, Any]:
        found = await self._worker.explain(id, top)
        reasons = [
            {**one, "events": [_shown(self._worker, event) for event in one["events"]]} for one in found["reasons"]
        ]
        return {**found, "reasons": reasons}

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
            lambda live: live.alerts(
                asked.status,
                asked.limit + 1,
                asked.before,
                explained=False,
                where=wanted(asked),
                order=asked.order,
            )
        )
        await self._find_reasons(found[: asked.limit])
        return answered({"alerts": [_alert(alert) for alert in found[: asked.limit]], "more": len(found) > asked.limit})

    async def _find_reasons(self, alerts: Iterable[LiveAlert]) -> None:
        """Each is a question of its own, so that scoring does not wait for all of them."""
        for alert in alerts:
            if alert.reason is None:
                alert.reason = await self._worker.reason(alert.id)

    async def cases(self, request: Request) -> Response:
        """The open alerts as cases."""
        asked = query_of(request, schema.CasesQuery)
        found = await self._worker.ask(lambda live: open_cases(live, wanted(asked)))
        if asked.order == "newest":
            found.sort(key=lambda case: -max(one.sequence for one in case.alerts))
        shown = found[: asked.limit]
        await self._find_reasons(case.alerts[0] for case in shown)
        return answered({"cases": [_case(case) for case in shown], "more": len(found) > asked.limit})

    async def case(self, request: Request) -> Response:
        """All about one case."""
        return answered(await self._whole_case(query_of(request, schema.EventQuery).id))

    async def case_page(self, request: Request) -> Response:
        """The same as a page."""
        id = query_of(request, schema.EventQuery).id
        whole = await self._whole_case(id)
        first = whole["case"].alerts[0]
        ends, threshold, classes = await self._worker.ask(
            lambda live: (
                (shown_node(live, first.src, MOST_OF_NODE), shown_node(live, first.dst, MOST_OF_NODE)),
                live.threshold,
                live.classes,
            )
        )
        written = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        page = case_page(whole, ends, threshold, is_probability=bool(classes), written=written)
        return Response(page, media_type=schema.HTML, headers={"content-disposition": ATTACHED.format("case.html")})

    async def _whole_case(self, id: str) -> dict[str, Any]:
        case = await self._worker.ask(lambda live: case_with(live, id))
        await self._find_reasons(case.alerts[:1])
        explanations = [await self._explained(one.id, TOP) for one in case.alerts[:MOST_EXPLAINED]]
        node = await self._worker.ask(lambda live: shown_node(live, case.node, MOST_OF_NODE))
        return {"case": _case(case), "explanations": explanations, "node": node}

    async def export(self, request: Request) -> Response:
        """The alerts of a query as a table."""
        asked = query_of(request, schema.AlertsQuery)
        found = await self._worker.ask(
            lambda live: live.alerts(
                asked.status,
                MOST_ALERTS,
                asked.before,
                explained=False,
                where=wanted(asked),
                order=asked.order,
            )
        )
        headers = {"content-disposition": ATTACHED.format("alerts.csv")}
        table = await asyncio.to_thread(table_of, found)  # 10,000 alerts take a tenth of a second
        return Response(table, media_type=schema.CSV, headers=headers)

    async def statistics(self, request: Request) -> Response:
        """Figures: how much there is to do, and how many alerts were confirmed."""
        return answered(await self._worker.ask(lambda live: live.statistics()))

    async def drift(self, request: Request) -> Response:
        """How far the last week is from the fit."""
        return answered(await self._worker.ask(lambda live: live.drift()))

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
        shown = {**found, "waiting": self._worker.waiting} if request.scope[VISITOR] else {"ok": found["ok"]}
        return answered(shown, 200 if found["ok"] else 503)

    async def metrics(self, request: Request) -> Response:
        """Counts and times for Prometheus."""
        found, drift = await self._worker.ask(lambda live: (live.health(), live.drift()))
        gauges = {
            "up": found["ok"],
            "queue_events": self._worker.waiting,
            "nodes": found["n_nodes"],
            "pending_events": found["n_pending"],
            "disk_bytes": sum(found["bytes"].values()),
            "unseen_categories": found["n_unseen_categories"],
            "differing_repetitions": found["n_differing"],
            "records_set_aside": len(found["set_aside"]),
            "refit_due": drift["refit"],
            "expected_precision": math.nan if drift["expected_precision"] is None else drift["expected_precision"],
        }
        drifts = {one["of"]: one["value"] / one["threshold"] for one in drift["quantities"] if one["value"] is not None}
        return Response(self._metrics.text(gauges, drifts), media_type=CONTENT_TYPE_LATEST)

    async def openapi(self, request: Request) -> Response:
        """The description of all this, for programs."""
        return Response(_document(), media_type=JSON)


@cache
def _document() -> bytes:
    return as_json(schema.document())


# ---- from and to the types of the live model


Item: TypeAlias = Mapping[str, Any] | Refused


async def _done(
    items: list[Item], act: Callable[[list[Any]], Awaitable[list[LiveLabelAnswer]]]
) -> tuple[list[Any], int]:
    """The answers to items that are about earlier events, and the status if none is good."""
    found = iter(await act([item for item in items if not isinstance(item, Refused)]))
    answers = [item if isinstance(item, Refused) else next(found) for item in items]
    is_unknown = [isinstance(getattr(answer, "error", None), UnknownEventError) for answer in answers]
    listed = [
        answer if isinstance(answer, Refused) else _refused(answer) if answer.error else LabelAnswer(answer.id)
        for answer in answers
    ]
    return listed, 404 if all(is_unknown) else 422


def _checked_id(item: Item) -> Item:
    if isinstance(item, Refused):
        return item
    id = item.get("id")
    if not isinstance(id, str | int | float) or isinstance(id, bool):
        return Refused(error=Problem("The 'id' of the event is needed: text or a number.", "id", id))
    return item


def _checked_label(item: Item) -> Item:
    item = _checked_id(item)
    if not isinstance(item, Refused) and "label" not in item:
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
        rules=[*answer.rules] or UNSET,
        label_error=UNSET if answer.label_error is None else _problem(answer.label_error),
    )


def _problem(error: EventError) -> Problem:
    return Problem(error.message, error.field, error.value)


def _alert(alert: LiveAlert) -> schema.Alert:
    return schema.Alert(**{name: getattr(alert, name) for name in schema.Alert.__struct_fields__})


def _case(case: Case) -> schema.Case:
    return schema.Case(case.id, case.role, case.node, case.alerts[0].score, [_alert(one) for one in case.alerts])


def _refused(answer: LiveLabelAnswer | ChangeAnswer) -> Refused:
    assert answer.error is not None
    field = "id" if isinstance(answer.error, UnknownEventError) else answer.error.parameter
    return Refused(id=answer.id, error=Problem(str(answer.error), field))


def shown_node(live: LiveModel, id: Any, limit: int) -> dict[str, Any]:
    """The latest interactions of a node."""
    found = live.node(id, limit=limit)
    return {**found, "events": [_shown(live, event) for event in found["events"]]}


def _shown(live: LiveModel | Worker, event: Mapping[str, Any]) -> dict[str, Any]:
    label = event["label"]
    return {**event, "is_positive": None if label is None else live.is_positive(label)}


def _listed(
    body: Body, listed: Sequence[Answer | LabelAnswer | schema.Alert | Refused], status_if_none: int
) -> Response:
    """The answers as they were asked for; the status says whether at least one item was good."""
    is_bad = listed and all(isinstance(answer, Refused) for answer in listed)
    status = status_if_none if is_bad else 200
    if body.lines:
        return Response(b"".join(as_json(answer) + b"\n" for answer in listed), status, media_type=LINES[0])
    return answered(listed[0] if body.single else listed, status)
