"""Recent events with their answers, alerts, decisions, and the numbers about them."""

from __future__ import annotations

import math
import time
from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, field
from heapq import nlargest
from itertools import islice
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray

from tdlg.checks import check_choice
from tdlg.live.event import decode, encode, stored_content
from tdlg.live.explore import quality_of
from tdlg.live.review import team_statistics
from tdlg.propagate.state import SavedArrays
from tdlg.tables.ids import id_key

if TYPE_CHECKING:
    from tdlg.live.state import LiveState

__all__ = [
    "Alert", "Alerts", "Order", "Rate", "RecentEvents", "Status", "StoredEvent", "n_missed",
    "statistics_of", "status_of",
]  # fmt: skip

Arrays = dict[str, NDArray[Any]]
Node = list[Any]  # the number of its newest event, how many events it has, and the numbers of those with a label
Where: TypeAlias = "Callable[[Alert], bool]"
Status = Literal["open", "confirmed", "dismissed", "expired", "decided", "all"]
Order = Literal["newest", "highest", "latest"]

WITH_COLUMNS = 10_000  # latest events whose columns are kept, about a kilobyte each
SAVED_OF_EVENTS = "number", "ticks", "score", "late", "values"
MOST_ALERTS = 10_000  # older ones are dropped
MOST_CHANGES = 10_000
LIKE_OTHERS = 100  # latest alerts, among whose scores is that which is shown of a drawn event
SAVED = (
    "sequence", "id", "src", "dst", "time", "ticks", "features", "score", "status", "label", "decided_at", "decided_ticks",
    "model", "version", "by", "at", "dismissal", "assignee", "notes", "chance", "blind", "rules",
)  # fmt: skip
MINUTE = 60.0
SHOWN_DAYS = 30
WEEK = 7
BINS = 10


# ---- recent events


@dataclass(slots=True)
class StoredEvent:
    """An event as it was answered."""

    number: int  # how many events were stored before it
    id: Any
    src: Any
    dst: Any
    ticks: Any
    stored: Any  # the whole event: its line, or its table and its place in it
    values: tuple[float, ...]  # of the model
    score: float
    late: bool
    label: Any = None
    label_ticks: Any = None  # when the label became known
    before_src: int = -1  # number of the event before it at its source, and at its destination
    before_dst: int = -1
    columns: NDArray[np.float64] | None = None  # as it was scored; of the latest events only
    keys: tuple[Any, Any, Any] | None = None  # what its id and its nodes are found by, once it is stored
    is_gone: bool = False  # it was withdrawn

    def content(self) -> dict[str, Any]:
        """The event as it was passed: id, src, dst, time, features, and a label that came with it."""
        return stored_content(self.stored)


class RecentEvents:
    """The latest events, found by id and by node; older ones are dropped."""

    def __init__(self, capacity: int, bipartite: bool) -> None:
        self.capacity = capacity
        self.n_added = 0
        self._slots: list[StoredEvent | None] = [None] * capacity
        self._n_kept = 0
        self.number_of: dict[Any, int] = {}  # of an event by its id
        sources: dict[Hashable, Node] = {}
        self._nodes = sources, ({} if bipartite else sources)  # of sources and destinations, by id

    def __len__(self) -> int:
        return self._n_kept

    def __iter__(self) -> Iterator[StoredEvent]:
        """The events, the oldest first."""
        numbers = range(max(0, self.n_added - self.capacity), self.n_added)
        return (event for number in numbers if (event := self.at(number)) is not None and not event.is_gone)

    def at(self, number: int) -> StoredEvent | None:
        """The event with this number, if it is still there."""
        event = self._slots[number % self.capacity] if number >= 0 else None
        return event if event is not None and event.number == number else None

    def get(self, id: Any) -> StoredEvent | None:
        """The event with this id, if it is recent."""
        number = self.number_of.get(id_key(id)) if isinstance(id, Hashable) else None
        return None if number is None else self.at(number)

    def of_node(self, node: Any, before: int | None = None) -> Iterator[StoredEvent]:
        """The events of a node, the latest first; only those with a number below `before` if it is given."""
        key = id_key(node)
        heads = {found[0] for nodes in self._nodes if (found := nodes.get(key)) is not None}
        while heads:
            number = max(heads)
            heads.remove(number)
            event = self.at(number)
            if event is None or event.keys is None:
                continue
            if not event.is_gone and (before is None or number < before):
                yield event
            heads |= {event.before_src} if event.keys[1] == key else set()
            heads |= {event.before_dst} if event.keys[2] == key else set()

    def n_of_node(self, node: Any) -> int:
        """How many events of a node there are."""
        found = {id(nodes): nodes.get(id_key(node), (0, 0))[1] for nodes in self._nodes}
        return sum(found.values())

    def labelled_of(self, node: Any, most: int, before: int | None = None) -> list[StoredEvent]:
        """The latest events of a node that have a label, the latest first, with numbers below `before` if it is given."""
        key, numbers = id_key(node), set[int]()
        for nodes in self._nodes:
            listed = nodes[key][2] if key in nodes else []
            end = len(listed) if before is None else bisect_left(listed, before)
            numbers.update(listed[max(0, end - most) : end])
        found = map(self.at, sorted(numbers, reverse=True)[:most])
        return [event for event in found if event is not None]

    def set_label(self, event: StoredEvent, label: Any, ticks: Any) -> None:
        """Set the label of an event and when it became known, or take it back."""
        if (event.label is None) != (label is None):
            self._list(event, label is not None)
        event.label, event.label_ticks = label, ticks

    def _list(self, event: StoredEvent, is_labelled: bool) -> None:
        """List an event at its nodes as one with a label, or no more."""
        assert event.keys is not None
        for listed in {id(of): of for of in (nodes[key][2] for nodes, key in self._ends_of(event))}.values():
            place = bisect_left(listed, event.number)
            if is_labelled:
                listed.insert(place, event.number)
            else:
                del listed[place]

    def _ends_of(self, event: StoredEvent) -> list[tuple[dict[Hashable, Node], Any]]:
        """Where the nodes of an event are kept, one of a loop, and their keys."""
        assert event.keys is not None
        (sources, destinations), (_, src, dst) = self._nodes, event.keys
        return [(sources, src), (destinations, dst)][: 1 if sources is destinations and src == dst else 2]

    def add(self, event: StoredEvent, keys: tuple[Any, Any, Any] | None = None) -> None:
        """Store an event, whose number is set here; `keys` are those of its id, source and destination, if known."""
        number = event.number = self.n_added
        place = number % self.capacity
        self._drop(self._slots[place])
        self._slots[place] = event
        self.n_added += 1
        self._n_kept += 1
        older = self._slots[(number - WITH_COLUMNS) % self.capacity]
        if older is not None and older.number == number - WITH_COLUMNS:
            older.columns = None
        key, src, dst = event.keys = keys or (id_key(event.id), id_key(event.src), id_key(event.dst))
        sources, destinations = self._nodes
        source = sources.get(src)
        if source is None:
            source = sources[src] = [-1, 0, []]
        destination = destinations.get(dst)
        if destination is None:
            destination = destinations[dst] = [-1, 0, []]
        event.before_src, event.before_dst = source[0], destination[0]
        source[0] = destination[0] = self.number_of[key] = number
        source[1] += 1
        if source is not destination:
            destination[1] += 1
        if event.label is not None:
            self._list(event, True)

    def remove(self, event: StoredEvent) -> None:
        """Forget an event, but for its place, which leads to those before it."""
        assert event.keys is not None
        event.is_gone = True
        self._n_kept -= 1
        self.number_of.pop(event.keys[0], None)
        self._count(event)

    def forget_columns(self) -> None:
        """Forget the columns of the events: another model has others."""
        for number in range(max(0, self.n_added - WITH_COLUMNS), self.n_added):
            event = self.at(number)
            if event is not None:
                event.columns = None

    def _drop(self, event: StoredEvent | None) -> None:
        if event is not None and event.keys is not None and not event.is_gone:
            self._n_kept -= 1
            if self.number_of.get(event.keys[0]) == event.number:
                del self.number_of[event.keys[0]]
            self._count(event)

    def _count(self, event: StoredEvent) -> None:
        """Count an event no more at its nodes, and forget those without events."""
        if event.label is not None:
            self._list(event, False)
        for nodes, key in self._ends_of(event):
            node = nodes[key]
            node[1] -= 1
            if not node[1]:
                del nodes[key]

    def arrays(self) -> Arrays:
        """All that `restored` needs, as arrays."""
        events = list(self)
        lines = (e.stored if isinstance(e.stored, bytes) else encode(e.content()).encode() for e in events)
        labelled = [(k, event) for k, event in enumerate(events) if event.label is not None]
        return {
            "n_added": np.array(self.n_added),
            "lines": np.frombuffer(b"\n".join(lines), np.uint8),
            **{name: np.array([getattr(event, name) for event in events]) for name in SAVED_OF_EVENTS},
            "labelled": np.array([k for k, _ in labelled], np.int64),
            "labels": np.frombuffer(encode([event.label for _, event in labelled]).encode(), np.uint8),
            "label_ticks": np.array([event.label_ticks for _, event in labelled]),
        }

    @classmethod
    def restored(cls, capacity: int, bipartite: bool, arrays: SavedArrays) -> RecentEvents:
        """The store with these arrays; with a smaller capacity, the newest events."""
        recent, text = cls(capacity, bipartite), arrays["lines"].tobytes()
        lines = text.split(b"\n") if text else []
        columns = (arrays[name].tolist() for name in ("ticks", "values", "score", "late"))
        events = [
            StoredEvent(0, event["id"], event["src"], event["dst"], ticks, line, tuple(values), score, late)
            for line, event, ticks, values, score, late in zip(lines, decode(lines), *columns, strict=True)
        ]
        labels = decode([arrays["labels"].tobytes()])[0]
        for at, label, ticks in zip(arrays["labelled"], labels, arrays["label_ticks"].tolist(), strict=True):
            events[at].label, events[at].label_ticks = label, ticks
        n_added = int(arrays["n_added"])
        for event, recent.n_added in zip(events, arrays["number"].tolist(), strict=True):
            if recent.n_added >= n_added - capacity:
                recent.add(event)
        recent.n_added = n_added
        return recent


# ---- alerts


@dataclass
class Alert:
    """An event whose score reached the threshold, or one that was drawn for random review.

    Attributes
    ----------
    sequence
        Number of the alert, from 1. Newer alerts have larger numbers.
    id, src, dst, time, features, ticks
        The event; `ticks` is its time as a number.
    score
        Its score when it was scored; of a drawn event that is not decided, one like those of the latest alerts.
    reason
        The main reason in words; None as long as nobody asked for it.
    status
        "open", "confirmed" (it has the positive label) or "dismissed" (it has another label). An open alert whose event is
        so long ago that no label is accepted any more is listed and counted as "expired".
    label
        The label; None if the alert is open.
    decided_at, decided_ticks
        When the label became known; None if the alert is open.
    model
        The generation whose model made the score.
    version
        Number of its last change, see `LiveModel.changes`; a decision can name the version that it is about.
    by, at, dismissal
        Who decided, when on the clock of this machine, and the reason of a dismissal; empty if a program sent the label.
    assignee, notes
        Who is to look at it, and the latest 50 notes: a list of {"by", "at", "note"}.
    chance
        The probability with which it came to be here: 1 if its score reached the threshold. None if none were drawn then.
    blind
        Of a drawn event, its own score and the one that is shown until it is decided; None for others.
    rules
        The rules that held for it: a list of {"name", "why"}.
    """

    sequence: int
    id: Any
    src: Any
    dst: Any
    time: Any
    ticks: Any
    features: dict[str, Any]
    score: float
    status: str = "open"
    label: Any = None
    decided_at: Any = None
    decided_ticks: Any = None
    reason: str | None = None
    model: str = ""
    version: int = 0
    by: str = ""
    at: str | None = None
    dismissal: str | None = None
    assignee: str | None = None
    notes: list[dict[str, Any]] = field(default_factory=list)
    chance: float | None = None
    blind: list[float] | None = None
    rules: list[dict[str, str]] = field(default_factory=list)
    columns: NDArray[np.float64] | None = field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.rules and self.reason is None:
            self.reason = "; ".join(f"rule '{one['name']}': {one['why']}" for one in self.rules)


def status_of(alert: Alert, oldest: float) -> str:
    """The status of an alert, where no label is accepted for events before `oldest`, in ticks."""
    return "expired" if alert.status == "open" and alert.ticks < oldest else alert.status


def n_missed(changes: list[dict[str, Any]], since: int) -> int:
    """How many changes after number `since` are not kept any more, where these are the ones that are."""
    return max(0, changes[0]["sequence"] - since - 1) if changes else 0


class Alerts:
    """The latest alerts, and a list of what happened to them; `sequence` is the number of changes so far."""

    def __init__(self) -> None:
        self.of_id: dict[Any, Alert] = {}  # in the order in which they were raised
        self._n_raised = 0
        self._changes: deque[dict[str, Any]] = deque(maxlen=MOST_CHANGES)
        self.sequence = 0

    def __iter__(self) -> Iterator[Alert]:
        """The alerts, the oldest first."""
        return iter(self.of_id.values())

    def get(self, id: Any) -> Alert | None:
        """The alert of this event, if it is kept."""
        return self.of_id.get(id_key(id))

    def add(self, alert: Alert) -> None:
        """Add a new alert, whose number is set here."""
        self._n_raised += 1
        alert.sequence = self._n_raised
        self.of_id[id_key(alert.id)] = alert
        if len(self.of_id) > MOST_ALERTS:
            del self.of_id[next(iter(self.of_id))]
        self._note("alert", alert)

    def decide(self, alert: Alert, label: Any, is_positive: bool, time: Any, ticks: Any) -> None:
        """Set the label of an alert; None opens it again."""
        if label is None:
            alert.status, alert.label, alert.decided_at, alert.decided_ticks = "open", None, None, None
        else:
            alert.status = "confirmed" if is_positive else "dismissed"
            alert.label, alert.decided_at, alert.decided_ticks = label, time, ticks
        if alert.blind is not None:
            alert.score = alert.blind[label is None]
        alert.by, alert.at, alert.dismissal = "", None, None
        self._note("decision", alert)

    def changed(self, alert: Alert) -> None:
        """Tell of a note or an assignment."""
        self._note("change", alert)

    def remove(self, alert: Alert) -> None:
        """Take back an alert whose event was withdrawn."""
        del self.of_id[id_key(alert.id)]
        alert.status = "withdrawn"
        self._note("decision", alert)

    def like_others(self, place: float, least: float, fitted: NDArray[np.float64]) -> float:
        """A score like those of the latest alerts, or where these are few of fitted edges; `place` is from 0 to 1."""
        latest = (one.score for one in reversed(self.of_id.values()) if one.blind is None)
        scores = [*islice(latest, LIKE_OTHERS)]
        scores += fitted[fitted >= least][: LIKE_OTHERS - len(scores)].tolist() if len(scores) < LIKE_OTHERS else []
        scores = sorted([least, *scores])
        at = place * (len(scores) - 1)
        low, high = scores[int(at)], scores[math.ceil(at)]
        return low + (at - int(at)) * (high - low)

    def listed(
        self, status: Status, limit: int, before: int | None, oldest: float, where: Where | None, order: Order
    ) -> list[Alert]:
        """The first alerts of a status in an order, see `LiveModel.alerts`; see `status_of` for `oldest`."""
        check_choice("alerts", "status", status, get_args(Status))
        check_choice("alerts", "order", order, get_args(Order))
        statuses = {"all": get_args(Status), "decided": ("confirmed", "dismissed")}.get(status, (status,))
        newest = (
            alert
            for alert in reversed(self.of_id.values())
            if (before is None or alert.sequence < before)
            and status_of(alert, oldest) in statuses
            and (where is None or where(alert))
        )
        if order == "highest":
            return nlargest(limit, newest, key=lambda alert: alert.score)
        if order == "latest":
            return nlargest(limit, newest, key=lambda alert: alert.version)
        return [alert for alert, _ in zip(newest, range(limit), strict=False)]

    def changes(self, since: int) -> list[dict[str, Any]]:
        """What happened after the change with number `since`, the oldest first."""
        return [change for change in self._changes if change["sequence"] > since]

    def _note(self, kind: str, alert: Alert) -> None:
        self.sequence += 1
        alert.version = self.sequence
        self._changes.append({"sequence": self.sequence, "kind": kind, "id": alert.id, "status": alert.status})

    def arrays(self) -> Arrays:
        """All that `restored` needs, as arrays."""
        alerts = list(self)
        listed = [{name: getattr(alert, name) for name in SAVED} for alert in alerts]
        explained = [k for k, alert in enumerate(alerts) if alert.columns is not None]
        content = {"alerts": listed, "raised": self._n_raised, "changes": [*self._changes], "sequence": self.sequence}
        return {
            "content": np.frombuffer(encode(content).encode(), np.uint8),
            "explained": np.array(explained, np.int64),
            "columns": np.array([alerts[k].columns for k in explained]),
        }

    @classmethod
    def restored(cls, arrays: SavedArrays) -> Alerts:
        """The alerts with these arrays."""
        content, alerts = decode([arrays["content"].tobytes()])[0], cls()
        listed = [Alert(**saved) for saved in content["alerts"]]
        for k, columns in zip(arrays["explained"], arrays["columns"], strict=True):
            listed[k].columns = columns
        alerts.of_id = {id_key(alert.id): alert for alert in listed}
        alerts._n_raised, alerts.sequence = content["raised"], content["sequence"]
        alerts._changes.extend(content["changes"])
        return alerts


# ---- numbers


class Rate:
    """Events per second over the last minute, on a clock in seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock, self._start = clock, clock()
        self._counts: deque[tuple[int, int]] = deque()  # seconds, and events in them

    def add(self, n: int) -> None:
        """Count events that came now."""
        second = int(self._clock())
        if self._counts and self._counts[-1][0] == second:
            n += self._counts.pop()[1]
        self._counts.append((second, n))
        self._forget(second)

    def per_second(self) -> float:
        """The mean over the last minute, or over the time since the start."""
        now = self._clock()
        self._forget(now)
        return sum(n for _, n in self._counts) / min(MINUTE, max(1.0, now - self._start))

    def _forget(self, now: float) -> None:
        while self._counts and self._counts[0][0] < now - MINUTE:
            self._counts.popleft()


def statistics_of(state: LiveState, rate: Rate) -> dict[str, Any]:
    """Numbers for a page.

    Days are those of the stream's clock: of events by their times, of decisions by the times when they were made.

    Returns
    -------
    dict
        "events_per_second"; "events", "labels"; "alerts", by status; "threshold"; "days": a list of {"day", "events",
        "alerts", "reviewed", "confirmed"} for the last 30 days; "by_score": a list of {"from", "to", "reviewed",
        "confirmed"}; "weeks": {"this", "last"}, each with the sums of 7 days; "by_reviewer" and "by_reason"; "precision" and
        "recall", each None or {"value", "low", "high"} with its 90 % interval; "random": how many events were "drawn" for
        random review, "reviewed" and "confirmed". An alert was reviewed if it has a label, and confirmed if this is the
        positive class. Drawn events count in "alerts", "by_reviewer" and "by_reason", since they are on the list, and in
        "recall".
    """
    listed = [alert for alert in state.alerts if alert.status != "open"]
    decided = [alert for alert in listed if alert.blind is None]
    days, counts = _days(state, decided), dict.fromkeys(("open", "confirmed", "dismissed", "expired"), 0)
    for alert in state.alerts:
        counts[status_of(alert, state.oldest)] += 1
    return {
        "events_per_second": rate.per_second(),
        "events": state.n_events,
        "labels": state.n_labels,
        "alerts": counts,
        "threshold": state.threshold,
        "days": days[-SHOWN_DAYS:],
        "by_score": _by_score(decided, state.threshold),
        "weeks": {"this": _summed(days[-WEEK:]), "last": _summed(days[-2 * WEEK : -WEEK])},
        **team_statistics(listed),
        **quality_of(state.alerts),
    }


def _days(state: LiveState, decided: list[Alert]) -> list[dict[str, Any]]:
    """The counts of each day up to the latest one, without gaps."""
    width = state.outcome.day
    found = {day: [*counts, 0, 0] for day, counts in state.days.items()}
    for alert in decided:
        counts = found.setdefault(int(alert.decided_ticks // width), [0, 0, 0, 0])
        counts[2] += 1
        counts[3] += alert.status == "confirmed"
    if not found:
        return []
    latest, names, days = max(found), ("events", "alerts", "reviewed", "confirmed"), []
    for day in range(max(min(found), latest - SHOWN_DAYS + 1), latest + 1):
        start = state.outcome.time(day * width)  # a date, or the number at which a day begins
        named = dict(zip(names, found.get(day, [0] * 4), strict=True))
        days.append({"day": start[:10] if isinstance(start, str) else start, **named})
    return days


def _by_score(decided: list[Alert], threshold: float) -> list[dict[str, Any]]:
    """How many of the reviewed alerts were confirmed, in ten bins of the scores from the threshold up."""
    if not decided:
        return []
    scores = np.array([alert.score for alert in decided])
    is_positive = np.array([alert.status == "confirmed" for alert in decided])
    low, high = min(threshold, scores.min()), scores.max()
    edges = np.linspace(low, high if high > low else low + 1.0, BINS + 1)
    place = np.clip(np.searchsorted(edges, scores, "right") - 1, 0, BINS - 1)
    reviewed, confirmed = np.bincount(place, minlength=BINS), np.bincount(place, is_positive, BINS).astype(int)
    rows = zip(edges[:-1].tolist(), edges[1:].tolist(), reviewed.tolist(), confirmed.tolist(), strict=True)
    return [dict(zip(("from", "to", "reviewed", "confirmed"), row, strict=True)) for row in rows]


def _summed(days: list[dict[str, Any]]) -> dict[str, int]:
    return {name: sum(day[name] for day in days) for name in ("events", "alerts", "reviewed", "confirmed")}
