"""Cases: the open alerts that share a node are one item; and which alerts a query wants."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

from tdlg.live.cases import MOST_ALERTS
from tdlg.live.scorer import UnknownEventError
from tdlg.tables.ids import id_key

if TYPE_CHECKING:
    from tdlg.live.cases import Alert, Where
    from tdlg.live.model import LiveModel
    from tdlg.serve.schema import Filter

__all__ = ["Case", "case_with", "cases_of", "line_of", "open_cases", "wanted"]

Role = Literal["source", "destination"]


@dataclass
class Case:
    """Alerts of one node; the first has the highest score."""

    role: Role  # of the node in all alerts of the case
    node: Any
    alerts: list[Alert] = field(default_factory=list)

    @property
    def id(self) -> str:
        """The role and the node."""
        return f"{self.role} {self.node}"


def cases_of(alerts: Iterable[Alert]) -> list[Case]:
    """The cases of open alerts, the highest score first; each alert is in one.

    Alerts of one source are a case. Those that are alone at their source and share a destination with others that are
    are a case of the destination.
    """
    ends = [(one, id_key(one.src), id_key(one.dst)) for one in alerts]
    n_of_source = Counter(src for _, src, _ in ends)
    n_of_destination = Counter(dst for _, src, dst in ends if n_of_source[src] == 1)
    found: dict[tuple[Role, Any], Case] = {}
    for one, src, dst in ends:
        if n_of_source[src] == 1 and n_of_destination[dst] > 1:
            case = found.setdefault(("destination", dst), Case("destination", one.dst))
        else:
            case = found.setdefault(("source", src), Case("source", one.src))
        case.alerts.append(one)
    for case in found.values():
        case.alerts.sort(key=lambda one: (-one.score, -one.sequence))
    return sorted(found.values(), key=lambda case: (-case.alerts[0].score, -case.alerts[0].sequence))


def open_cases(live: LiveModel, where: Where | None = None) -> list[Case]:
    """The cases of the open alerts, each with those of its alerts that are wanted; cases without any are left out."""
    found = cases_of(live.alerts("open", MOST_ALERTS, explained=False))
    if where is None:
        return found
    wanted = [replace(case, alerts=list(filter(where, case.alerts))) for case in found]
    return sorted((case for case in wanted if case.alerts), key=lambda case: -case.alerts[0].score)


def case_with(live: LiveModel, id: Any) -> Case:
    """The case with the alert of this event; an alert that is not open is one of its own."""
    key = id_key(id)
    for case in open_cases(live):
        if any(id_key(one.id) == key for one in case.alerts):
            return case
    closed = live.alerts("all", 1, explained=False, where=lambda one: id_key(one.id) == key)
    if not closed:
        raise UnknownEventError(f"There is no alert with the id {id!r}, or it is not kept any more.")
    return Case("source", closed[0].src, closed)


def line_of(alert: Alert, cases: Sequence[Case]) -> str:
    """An alert and its case in words."""
    by = f" by {alert.by}" if alert.by else ""
    told = f"{alert.status}{by}: {alert.src} → {alert.dst}, score {alert.score:.3g}"
    case = next((case for case in cases if any(one.id == alert.id for one in case.alerts)), None)
    return told if case is None or len(case.alerts) == 1 else f"{told} ({len(case.alerts)} open alerts of {case.id})"


def wanted(asked: Filter) -> Where | None:
    """What a query says of alerts; None if it takes all."""
    tests: list[Where] = []
    text = asked.q.casefold()
    if text:
        tests.append(
            lambda one: any(text in str(v).casefold() for v in (one.id, one.src, one.dst, *one.features.values()))
        )
    if asked.least is not None:
        least = asked.least
        tests.append(lambda one: one.score >= least)
    if asked.since:
        tests.append(lambda one: _is_since(one.time, asked.since))
    if asked.assignee:
        tests.append(lambda one: (one.assignee or "-") == asked.assignee)
    if asked.dismissal:
        tests.append(lambda one: one.dismissal == asked.dismissal)
    if asked.feature and asked.value:
        tests.append(lambda one: str(one.features.get(asked.feature)) == asked.value)
    if asked.feature and (asked.low, asked.high) != (None, None):
        low = -math.inf if asked.low is None else asked.low
        high = math.inf if asked.high is None else asked.high
        tests.append(lambda one: isinstance(x := one.features.get(asked.feature), int | float) and low <= x <= high)
    return (lambda one: all(test(one) for test in tests)) if tests else None


def _is_since(time: Any, since: str) -> bool:
    """Whether a time, as JSON holds it, is not before another one: the beginning of a date, or a number."""
    if isinstance(time, str):
        return time >= since
    try:
        return float(time) >= float(since)
    except ValueError:
        return False
