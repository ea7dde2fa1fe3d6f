"""The addresses for programs, with what they take and give as types: the OpenAPI document is made of these."""

from __future__ import annotations

from functools import cache
from typing import Annotated, Any, Literal, NamedTuple

from msgspec import UNSET, Meta, Struct, UnsetType, field
from msgspec.json import schema_components

from tdlg import __version__
from tdlg.live.cases import Order, Status

__all__ = [
    "ADDRESSES", "ARROW", "JSON", "LINES", "MOST_LISTED", "STREAM", "About", "Action", "Address", "Alert", "Alerts",
    "AlertsQuery", "Answer", "AuditQuery", "Case", "CasesQuery", "ChangesQuery", "EventQuery", "ExplainQuery", "Filter",
    "LabelAnswer", "NodeQuery", "Problem", "Refused", "document", "properties",
]  # fmt: skip

JSON, TEXT, CSV, HTML, STREAM = "application/json", "text/plain", "text/csv", "text/html", "text/event-stream"
LINES = ("application/x-ndjson", "application/jsonlines", "application/jsonl")
ARROW = "application/vnd.apache.arrow.stream"
MOST_LISTED = 1000
LARGEST = 2**53 - 1  # number of an alert or a change that a browser holds exactly


def says(text: str) -> Meta:
    """What a field is, for the document."""
    return Meta(description=text)


Id = str | int | float
Time = Annotated[Id, says("ISO 8601, or a number if the model was fitted on numbers.")]


# ---- what is sent


class Event(Struct):
    """An interaction, with the features of the model. Fields have the names of the model's columns, or chosen ones."""

    src: Annotated[Any, says("The source.")]
    dst: Annotated[Any, says("The destination.")]
    time: Time
    id: Annotated[Id | None, says("For its label and repetitions; by default made of src, dst and time.")] = None
    label: Annotated[Any, says("Its label, if it is known already.")] = None
    label_time: Annotated[Id | None, says("When the label became known.")] = None


class Label(Struct):
    """The label of an earlier event."""

    id: Annotated[Id, says("The id of the event.")]
    label: Annotated[Any, says("A second label replaces the first, and the log keeps both; null withdraws it.")]
    time: Annotated[Id | None, says("When it became known; by default now, on the clock of the events.")] = None


class Withdrawal(Struct):
    """An event that was none, such as a payment that was cancelled: sums are as if it had not been."""

    id: Annotated[Id, says("The id of the event.")]


class Decision(Struct):
    """What a reviewer does with an alert: a label decides it, and opens it again if it is null; a note or an assignee."""

    id: Annotated[Id, says("The id of the event.")]
    label: Annotated[Any, says("As in /about: 'confirm', 'dismiss', or null.")] = UNSET
    reason: Annotated[str | None, says("Why it is dismissed: one of the reasons in /team.")] = None
    note: Annotated[str | None, says("A note.")] = None
    assignee: Annotated[str | None, says("The reviewer who is to look at it; null for nobody.")] | UnsetType = UNSET
    version: Annotated[int | None, says("The alert's version as it was read. If it has changed, this is refused.")] = (
        None
    )


class Action(Struct):
    """Another action of a reviewer."""

    do: Annotated[
        Literal["snooze", "wake", "reasons", "rules", "promote", "drop"],
        says(
            "Raise no alerts of nodes for a while, end that; and for the role lead: set the reasons for dismissals or the "
            "rules, let the challenger answer from now on, or drop it."
        ),
    ]
    nodes: Annotated[list[Id], says("One node, or the source and the destination of a pair.")] | UnsetType = UNSET
    until: Annotated[Id | None, says("When a snooze ends, on the clock of the events; null: when it is ended.")] = None
    note: Annotated[str | None, says("A note.")] = None
    reasons: Annotated[list[str], says("The reasons.")] | UnsetType = UNSET
    text: Annotated[str, says("The rules, as TOML; an empty text ends all rules.")] | UnsetType = UNSET
    generation: Annotated[str, says("The challenger that is meant.")] | UnsetType = UNSET


class EventQuery(Struct):
    """Which event."""

    id: Annotated[str, Meta(min_length=1), says("The id of the event.")]


class ExplainQuery(EventQuery):
    """Which event, and how many reasons."""

    top: Annotated[int, Meta(ge=1, le=20), says("The most reasons to give.")] = 3


class NodeQuery(Struct):
    """Which node, and how much of it."""

    id: Annotated[str, Meta(min_length=1), says("The id of the node.")]
    limit: Annotated[int, Meta(ge=1, le=MOST_LISTED), says("The most interactions to give.")] = 100


class Filter(Struct):
    """Which alerts."""

    limit: Annotated[int, Meta(ge=1, le=MOST_LISTED), says("The most alerts or cases to give.")] = 50
    q: Annotated[str, says("Text in the id, a node or a feature.")] = ""
    least: Annotated[float | None, says("The least score.")] = None
    since: Annotated[str, says("The earliest time of the event: the beginning of a date, or a number.")] = ""
    assignee: Annotated[str, says("A reviewer; '-' for nobody.")] = ""
    dismissal: Annotated[str, says("The reason of a dismissal.")] = ""
    feature: Annotated[str, says("A feature, for 'low', 'high' and 'value'.")] = ""
    low: Annotated[float | None, says("The least value of the feature.")] = None
    high: Annotated[float | None, says("The largest value of the feature.")] = None
    value: Annotated[str, says("The value of the feature, such as a category.")] = ""


class AlertsQuery(Filter):
    """Which alerts, and in which order."""

    status: Annotated[Status, says("Which alerts.")] = "open"
    before: Annotated[int, Meta(ge=1, le=LARGEST), says("The 'sequence' of an alert: older ones.")] = LARGEST
    order: Annotated[Order, says("The newest, the highest scores, or the latest changes first.")] = "newest"


class CasesQuery(Filter):
    """Which open alerts, as cases, and in which order."""

    order: Annotated[Literal["newest", "highest"], says("The newest or the highest scores first.")] = "highest"


class AuditQuery(Struct):
    """How much of the audit."""

    limit: Annotated[int, Meta(ge=1, le=10_000), says("The most actions to give.")] = 100


class ChangesQuery(Struct):
    """From which change on."""

    since: Annotated[int, Meta(ge=0, le=LARGEST), says("Number of the last known change.")] | UnsetType = UNSET


# ---- what is answered


class Problem(Struct, forbid_unknown_fields=True):
    """What is wrong, and what to do."""

    message: str
    field: Annotated[str | None, says("The field or parameter that is wrong.")] = None
    value: Annotated[Any, says("Its value.")] = None


class Refused(Struct, kw_only=True, forbid_unknown_fields=True):
    """A request, an event or a label that was refused."""

    id: Annotated[Any, says("The id of the event.")] = UNSET
    error: Problem


class Answer(Struct, forbid_unknown_fields=True):
    """The answer to one event. An event that the model was fitted on has no score."""

    id: Any
    score: Annotated[float | None, says("Probability of the positive class, predicted number, or digits of surprise.")]
    alert: bool
    predicted: Annotated[Any, says("The predicted class or number; for bursts, whether it is an outlier.")]
    late: Annotated[bool, says("A later event had come before it, so its score is as of now.")]
    repeated: Annotated[bool, says("Its id was seen before: this is the answer of then, and it counts once.")]
    probabilities: Annotated[dict[str, float], says("By class.")] | UnsetType = UNSET
    differs: Annotated[bool, says("Whether a repeated event has other contents; left out if not.")] | UnsetType = UNSET
    rules: Annotated[list[str], says("Names of the rules that hold for it; left out if none.")] | UnsetType = UNSET
    label_error: Problem | UnsetType = UNSET


class LabelAnswer(Struct, forbid_unknown_fields=True):
    """A label that was learnt, or an event that was withdrawn."""

    id: Annotated[Any, says("The id of the event.")]


class KnownEvent(Struct):
    """An interaction with its features. One that the model was fitted on has no id and no score."""

    src: Any
    dst: Any
    time: Any
    label: Any
    is_positive: Annotated[bool | None, says("Whether the label is the positive class; null without a label.")]
    id: Any = UNSET
    score: float | UnsetType | None = UNSET


class Reason(Struct, forbid_unknown_fields=True):
    what: Any
    effect: Annotated[float, says("Above 0 if it raises the score.")]
    reason: Annotated[str, says("In words.")]
    events: Annotated[list[KnownEvent], says("The interactions behind it.")]


class Explanation(Struct, forbid_unknown_fields=True):
    """The reasons for a score, those of the largest effect first."""

    id: Any
    score: float | None
    reasons: list[Reason]


class Node(Struct, forbid_unknown_fields=True):
    """The latest interactions of a node, the latest last; how many there are, and how many of the listed have a label."""

    id: Any
    events: list[KnownEvent]
    n_live: int
    n_fitted: int
    labelled: int
    positive: int


class Note(Struct, forbid_unknown_fields=True):
    by: str
    at: str
    note: str


class Fired(Struct, forbid_unknown_fields=True):
    """A rule that held for an alert, and the values for which it did."""

    name: str
    why: str


class Alert(Struct, forbid_unknown_fields=True):
    """An event whose score reached the threshold. Expired: not decided, and too long ago for a label."""

    sequence: Annotated[int, says("Newer alerts have larger numbers; see 'before'.")]
    id: Any
    src: Any
    dst: Any
    time: Any
    features: dict[str, Any]
    score: float
    reason: str | None
    status: Status
    label: Any
    decided_at: Any
    version: Annotated[int, says("Number of its last change.")]
    model: Annotated[str, says("The generation whose model made the score.")]
    by: Annotated[str, says("The reviewer who decided; empty if a program did.")]
    at: Annotated[str | None, says("When, on the clock of the service's machine.")]
    dismissal: Annotated[str | None, says("Why it was dismissed.")]
    assignee: str | None
    notes: list[Note]
    rules: list[Fired]


class Alerts(Struct, forbid_unknown_fields=True):
    """Alerts, the newest first, and whether there are more."""

    alerts: list[Alert]
    more: bool


class Case(Struct, forbid_unknown_fields=True):
    """Open alerts that share a node: their source, or their destination where this is the common one."""

    id: Annotated[str, says("The role and the node.")]
    role: Annotated[Literal["source", "destination"], says("What the node is in these alerts.")]
    node: Any
    score: Annotated[float, says("The highest one.")]
    alerts: Annotated[list[Alert], says("The highest score first.")]


class Cases(Struct, forbid_unknown_fields=True):
    """Cases, the highest score first, and whether there are more."""

    cases: list[Case]
    more: bool


class WholeCase(Struct, forbid_unknown_fields=True):
    """A case, the reasons for its highest scores, and the latest interactions of its node."""

    case: Case
    explanations: list[Explanation]
    node: Node


class Counts(Struct, forbid_unknown_fields=True):
    """Alerts that have a label were reviewed; those with the positive label were confirmed."""

    events: int
    alerts: int
    reviewed: int
    confirmed: int


class Day(Counts, kw_only=True, forbid_unknown_fields=True):
    day: Any


class Bin(Struct, forbid_unknown_fields=True):
    low: float = field(name="from")
    high: float = field(name="to")
    reviewed: int
    confirmed: int


class OfReviewer(Struct, forbid_unknown_fields=True):
    reviewer: str
    reviewed: int
    confirmed: int


class OfReason(Struct, forbid_unknown_fields=True):
    reason: str
    dismissed: int


class Weeks(Struct, forbid_unknown_fields=True):
    this: Counts
    last: Counts


class Share(Struct, forbid_unknown_fields=True):
    """A share with the ends of its 90 % interval."""

    value: float
    low: float
    high: float


class Random(Struct, forbid_unknown_fields=True):
    """Events below the threshold that were drawn for random review."""

    drawn: int
    reviewed: int
    confirmed: int


class Statistics(Struct, forbid_unknown_fields=True):
    """How much there is to do, and how many alerts were confirmed."""

    events_per_second: float
    events: int
    labels: int
    alerts: Annotated[dict[str, int], says("By status.")]
    threshold: float
    days: list[Day]
    by_score: list[Bin]
    weeks: Weeks
    by_reviewer: list[OfReviewer]
    by_reason: list[OfReason]
    precision: Annotated[Share | None, says("Of the reviewed alerts, the share that was confirmed.")]
    recall: Annotated[Share | None, says("Of all positive events, the share that was an alert: from random review.")]
    random: Random


class Quantity(Struct, forbid_unknown_fields=True):
    """How far one quantity of the last week is from the fit: a population stability index."""

    of: Annotated[str, says("'scores', 'alerts', 'new nodes', 'new categories', 'label delay', or a feature.")]
    value: Annotated[float | None, says("null as long as there are too few events.")]
    threshold: Annotated[
        float | None, says("What chance reaches in one week of a thousand, for all quantities together.")
    ]
    drifts: bool
    words: Annotated[str, says("Where most has changed.")]


class Drift(Struct, forbid_unknown_fields=True):
    """Whether the last week is so far from the fit that the model should be fitted again."""

    refit: bool
    quantities: list[Quantity]
    expected_precision: Annotated[float | None, says("Of the last week's alerts, by the scores.")]
    alerts: Annotated[int, says("How many these are.")]


class About(Struct, forbid_unknown_fields=True):
    """What the scores mean, and which labels confirm and dismiss an alert; none dismisses it if there are several."""

    version: str
    model: str
    classes: list[Any]
    positive: Any
    confirm: Any
    dismiss: Any
    threshold: float
    is_probability: bool
    signed_in: bool


class Rule(Struct, forbid_unknown_fields=True):
    """A rule, and how many of the alerts for which it held were reviewed and confirmed."""

    name: str
    conditions: list[str]
    alerts: int
    reviewed: int
    confirmed: int


class Rules(Struct, forbid_unknown_fields=True):
    """The rules beside the model."""

    text: str
    rules: list[Rule]
    incomplete_since: Annotated[Any, says("Since when events are counted, if less than the longest window; else null.")]


class Rival(Struct, forbid_unknown_fields=True):
    """How good one of two models was on what both saw."""

    alerts: int
    reviewed: int
    confirmed: int
    precision: float | None
    quality: Annotated[float | None, says("Average precision on all labelled events; of a regressor, the error.")]


class Comparison(Struct, forbid_unknown_fields=True):
    """The model in place ('old') beside its challenger ('new')."""

    generation: Annotated[str, says("The name of the challenger.")]
    since: Any
    clock: Any
    n_events: int
    old: Rival
    new: Rival
    n_labelled: int
    n_positive: int | None
    n_of_alerts: Annotated[int, says("Labelled events that the model in place had made alerts.")]
    precision_gain: Annotated[Share | None, says("Difference of precision with its 95 % interval, over days.")]
    gain: Annotated[Share | None, says("Difference of quality with its 95 % interval, over days.")]
    verdict: Literal["better", "worse", "no clear difference", "too few labels", "too few other labels"]
    reason: str


class Challenger(Struct, forbid_unknown_fields=True):
    """The challenger; null without one."""

    challenger: Comparison | None
    generation: Annotated[str, says("The model in place.")]
    failure: Annotated[str | None, says("Why one could not go on, or be fitted.")]


class Reviewer(Struct, forbid_unknown_fields=True):
    name: str
    role: Literal["analyst", "lead"]


class Snoozed(Struct, forbid_unknown_fields=True):
    nodes: list[Any]
    until: Any
    by: str
    at: str
    note: str


class Team(Struct, forbid_unknown_fields=True):
    """Who reviews, why alerts can be dismissed, and what is snoozed. 'me' is empty for who has no name."""

    me: str
    role: Literal["analyst", "lead", "service"]
    people: list[Reviewer]
    reasons: list[str]
    snoozed: list[Snoozed]


class Done(Struct, forbid_unknown_fields=True):
    done: bool


class Audited(Struct):
    """An action of a reviewer, with what it was about."""

    do: str
    by: str
    at: str


class Audit(Struct, forbid_unknown_fields=True):
    """The latest actions of reviewers, the newest first."""

    actions: list[Audited]


class Change(Struct, forbid_unknown_fields=True):
    sequence: int
    kind: Literal["alert", "decision", "change"]
    id: Any
    status: Annotated[Literal["open", "confirmed", "dismissed", "withdrawn"], says("The status of the alert then.")]


class Changes(Struct, forbid_unknown_fields=True):
    """What happened to alerts. If changes after 'since' are missed, read the alerts again."""

    sequence: int
    changes: list[Change]
    missed: Annotated[int, says("Number of changes after 'since' that are not kept any more.")]


class Health(Struct):
    """Whether events can be scored. Without the token 'ok' alone is told; with it, this and more."""

    ok: bool
    reason: Annotated[str | None, says("Why they cannot.")] = None
    clock: Annotated[Any, says("Time of the latest event.")] = None
    waiting: Annotated[int, says("Events and labels that wait.")] = 0
    n_unseen_categories: Annotated[int, says("Events with a category that no fitted edge has.")] = 0
    n_differing: Annotated[int, says("Repeated events whose contents were others, since the start.")] = 0
    set_aside: Annotated[list[Any], says("Records of the log that could not be learnt and are left out.")] = []
    missing_records: Annotated[int, says("Records of the log that were lost before the start.")] = 0
    free_bytes: Annotated[int, says("Free space on the disk of the state.")] = 0


# ---- the addresses


PATHS = {
    "openapi": "/openapi.json",
    "export": "/alerts.csv",
    "case_page": "/case.html",
    "card_page": "/card.html",
}  # others are the name


class Address(NamedTuple):
    """An address for programs; the method of `Api` has its name."""

    method: str
    name: str
    summary: str
    answer: Any
    query: type[Struct] | None = None
    body: type[Struct] | None = None
    refusals: tuple[int, ...] = ()  # besides those of every address
    media: str = JSON
    note: str = ""
    role: Literal["analyst", "lead", "service"] = "analyst"  # who may ask: these and those with more rights

    @property
    def path(self) -> str:
        """The path."""
        return PATHS.get(self.name, f"/{self.name}")


EVERYWHERE = (400, 401, 403, 421, 429, 431, 503)
BODIES = (408, 413, 415, 422)
REFUSALS = {
    400: "The body is not JSON, JSON lines or Arrow, or a header comes more than once.",
    401: "The service has a token, and the request does not show it.",
    403: "The request comes from a page of another site, or needs another role.",
    404: "No event or alert has this id, or it is not kept any more.",
    408: "The request did not arrive in time.",
    409: "Somebody else has changed the alert meanwhile.",
    413: "The body is too large, or holds too many items.",
    415: "The Content-Type is not one that is read, or the body is compressed.",
    421: "The service is not known by the name in the header Host.",
    422: "A field or parameter is wrong; the error names it.",
    429: "Too much is waiting, or too many tokens were wrong. Send it again after Retry-After seconds.",
    431: "The headers are too many or too large.",
    503: "The log cannot be written, or the service is being stopped. Nothing was scored or learnt.",
}
LISTS = (
    "One object is answered by one object, a list by a list in the same order, JSON lines by JSON lines. Refused items have "
    "an error in their place; the status is 200 if at least one was good."
)
FEED = (
    f"With 'Accept: {STREAM}', a stream of server-sent events: 'changes' when something happens, 'pulse' with a few figures "
    "every two seconds. Last-Event-ID continues a stream."
)
CARD = "A copy of the model is fitted for it, which takes about as long as the fit the first time."
ADDRESSES = (
    Address(
        "POST", "score", "Score events and learn from them", Answer, body=Event, refusals=BODIES, note=LISTS, role="service",
    ),
    Address(
        "POST", "labels", "Learn labels of earlier events", LabelAnswer, body=Label, refusals=(*BODIES, 404),
        note=f"The next scores know them. A confirmed or dismissed alert is a label too. {LISTS}", role="service",
    ),
    Address(
        "POST", "withdrawals", "Withdraw earlier events", LabelAnswer, body=Withdrawal, refusals=(*BODIES, 404),
        note=f"Scores that were given stay. {LISTS}", role="service",
    ),
    Address(
        "POST", "decisions", "Confirm, dismiss, assign alerts, and write notes", Alert, body=Decision,
        refusals=(*BODIES, 404, 409), note=LISTS,
    ),
    Address("POST", "actions", "Snooze nodes, set reasons and rules, promote a model", Done, body=Action, refusals=BODIES),
    Address("GET", "rules", "The rules beside the model", Rules),
    Address("GET", "challenger", "A second model beside the one in place", Challenger),
    Address("GET", "card", "The model card: data, quality, slices and limits", dict[str, Any], refusals=(404,), note=CARD),
    Address("GET", "card_page", "The same as a page", str, refusals=(404,), media=HTML, note=CARD),
    Address("GET", "team", "Who reviews, the reasons for dismissals, and what is snoozed", Team),
    Address("GET", "audit", "Who did what", Audit, AuditQuery, refusals=(422,), role="lead"),
    Address("GET", "explain", "The reasons for a score, in words", Explanation, ExplainQuery, refusals=(404, 422)),
    Address("GET", "events", "An event with its score and label", KnownEvent, EventQuery, refusals=(404, 422)),
    Address("GET", "nodes", "The latest interactions of a node", Node, NodeQuery, refusals=(422,)),
    Address("GET", "alerts", "Alerts, the newest first", Alerts, AlertsQuery, refusals=(422,)),
    Address(
        "GET", "cases", "The open alerts as cases", Cases, CasesQuery, refusals=(422,),
        note="Open alerts that share a source are one case; of the others those that share a destination.",
    ),
    Address(
        "GET", "case", "All about the case with an alert", WholeCase, EventQuery, refusals=(404, 422),
        note="An alert that is not open is a case of its own.",
    ),
    Address(
        "GET", "case_page", "The same as a page to keep", str, EventQuery, refusals=(404, 422), media=HTML,
        note="It opens without the service, and holds no script.",
    ),
    Address(
        "GET", "export", "The same alerts as a table, all of them", str, AlertsQuery, refusals=(422,), media=CSV,
        note="'limit' is ignored. Text that a spreadsheet would take for a formula begins with an apostrophe.",
    ),
    Address("GET", "statistics", "How much there is to do, and how many alerts were confirmed", Statistics),
    Address("GET", "drift", "How far the last week is from what the model was fitted on", Drift),
    Address("GET", "about", "What the scores mean", About),
    Address("GET", "changes", "What happened to alerts", Changes, ChangesQuery, refusals=(422,), note=FEED),
    Address("GET", "health", "Whether events can be scored", Health, note="Needs no token."),
    Address("GET", "metrics", "Counts and times for Prometheus", str, media=TEXT, role="service"),
    Address("GET", "openapi", "This description", dict[str, Any]),
)  # fmt: skip


@cache
def properties(kind: type[Struct]) -> dict[str, dict[str, Any]]:
    """The fields of a type as JSON schemas."""
    found: dict[str, dict[str, Any]] = schema_components([kind])[1][kind.__name__]["properties"]
    return found


def document() -> dict[str, Any]:
    """The OpenAPI document."""
    kinds = [Refused, *(kind for address in ADDRESSES for kind in (address.answer, address.body) if kind)]
    found, schemas = schema_components(kinds, ref_template="#/components/schemas/{name}")
    schema_of = dict(zip(kinds, found, strict=True))
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "tdlg",
            "version": __version__,
            "description": "Scores interactions as they happen, learns labels that come later, and keeps alerts for review. "
            "An answer leaves only after the events are on the disk.",
        },
        "security": [{"token": []}, {}],
        "paths": {one.path: {one.method.lower(): _operation(one, schema_of)} for one in ADDRESSES},
        "components": {
            "schemas": schemas,
            "responses": {str(status): _response(text, schema_of[Refused]) for status, text in REFUSALS.items()},
            "securitySchemes": {
                "token": {"type": "http", "scheme": "bearer", "description": "The token, if the service has one."}
            },
        },
    }


def _operation(address: Address, schema_of: dict[Any, dict[str, Any]]) -> dict[str, Any]:
    answer, refused = schema_of[address.answer], schema_of[Refused]
    responses = {
        str(status): {"$ref": f"#/components/responses/{status}"} for status in (*address.refusals, *EVERYWHERE)
    }
    described: dict[str, Any] = {"summary": address.summary, "operationId": address.name, "responses": responses}
    if address.note:
        described["description"] = address.note
    if address.query is not None:
        needed = {name for name, one in properties(address.query).items() if one.get("minLength")}
        described["parameters"] = [
            {"name": name, "in": "query", "required": name in needed, "schema": one}
            for name, one in properties(address.query).items()
        ]
    if address.body is not None:
        text = {"schema": {"type": "string"}}
        sent = {JSON: {"schema": _one_or_list(schema_of[address.body])}, LINES[0]: text, ARROW: text}
        described["requestBody"] = {"required": True, "content": sent}
        answer = {"anyOf": [answer, {"type": "array", "items": {"anyOf": [answer, refused]}}]}
        for status in {404, 409, 422} & {*address.refusals}:
            responses[str(status)] = _response(REFUSALS[status], _one_or_list(refused))
    ok = responses["200"] = _response("The answer.", answer, address.media)
    if address.answer is Health:
        described["security"] = [{}]
        responses["503"] = _response("They cannot, and why.", answer)
    if address.query is ChangesQuery:
        ok["content"][STREAM] = {"schema": {"type": "string"}}
    return described


def _one_or_list(schema: dict[str, Any]) -> dict[str, Any]:
    return {"anyOf": [schema, {"type": "array", "items": schema}]}


def _response(text: str, schema: dict[str, Any], media: str = JSON) -> dict[str, Any]:
    return {"description": text, "content": {media: {"schema": schema}}}
