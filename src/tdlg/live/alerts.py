"""Alerts: events with a high score, what was decided about them, and what changed since."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from tdlg.checks import check_choice
from tdlg.live.fields import decode, encode
from tdlg.propagate.state import SavedArrays
from tdlg.tables.ids import id_key

__all__ = ["Alert", "Alerts", "Status", "n_missed", "status_of"]

Arrays = dict[str, NDArray[Any]]
Status = Literal["open", "confirmed", "dismissed", "expired", "all"]

MOST_ALERTS = 10_000  # older ones are dropped
MOST_CHANGES = 10_000
EVENT = ("sequence", "id", "src", "dst", "time", "ticks", "features", "score")
STORED = (*EVENT, "status", "label", "decided_at", "decided_ticks")


@dataclass
class Alert:
    """An event whose score reached the threshold.

    Attributes
    ----------
    sequence
        Number of the alert, from 1. Newer alerts have larger numbers.
    id, src, dst, time, features, ticks
        The event; `ticks` is its time as a number.
    score
        Its score when it was scored.
    reason
        The main reason in words; None as long as nobody asked for it.
    status
        "open", "confirmed" (it has the positive label) or "dismissed" (it has another label). An open alert whose event is
        so long ago that no label is accepted any more is listed and counted as "expired".
    label
        The label; None if the alert is open.
    decided_at, decided_ticks
        When the label became known; None if the alert is open.
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
    columns: NDArray[np.float64] | None = field(default=None, repr=False, compare=False)


def status_of(alert: Alert, oldest: float) -> str:
    """The status of an alert, where no label is accepted for events before `oldest`, in ticks."""
    return "expired" if alert.status == "open" and alert.ticks < oldest else alert.status


def n_missed(changes: list[dict[str, Any]], since: int) -> int:
    """How many changes after number `since` are not kept any more, where these are the ones that are."""
    return max(0, changes[0]["sequence"] - since - 1) if changes else 0


class Alerts:
    """The latest alerts, and a list of what happened to them."""

    def __init__(self) -> None:
        self._of_id: dict[Any, Alert] = {}  # in the order in which they were raised
        self._n_raised = 0
        self._changes: deque[dict[str, Any]] = deque(maxlen=MOST_CHANGES)
        self.sequence = 0  # number of changes so far

    def __len__(self) -> int:
        return len(self._of_id)

    def __iter__(self) -> Iterator[Alert]:
        """The alerts, the oldest first."""
        return iter(self._of_id.values())

    def get(self, id: Any) -> Alert | None:
        """The alert of this event, if it is kept."""
        return self._of_id.get(id_key(id))

    def add(self, alert: Alert) -> None:
        """Add a new alert, whose number is set here."""
        self._n_raised += 1
        alert.sequence = self._n_raised
        self._of_id[id_key(alert.id)] = alert
        if len(self._of_id) > MOST_ALERTS:
            del self._of_id[next(iter(self._of_id))]
        self._note("alert", alert)

    def decide(self, alert: Alert, label: Any, is_positive: bool, time: Any, ticks: Any) -> None:
        """Set the label of an alert; None opens it again."""
        if label is None:
            alert.status, alert.label, alert.decided_at, alert.decided_ticks = "open", None, None, None
        else:
            alert.status = "confirmed" if is_positive else "dismissed"
            alert.label, alert.decided_at, alert.decided_ticks = label, time, ticks
        self._note("decision", alert)

    def listed(self, status: Status, limit: int, before: int | None, oldest: float) -> list[Alert]:
        """The newest alerts of a status, with numbers below `before` if it is given; see `status_of` for `oldest`."""
        check_choice("alerts", "status", status, get_args(Status))
        newest = (
            alert
            for alert in reversed(self._of_id.values())
            if (before is None or alert.sequence < before) and status in ("all", status_of(alert, oldest))
        )
        return [alert for alert, _ in zip(newest, range(limit), strict=False)]

    def counts(self, oldest: float) -> dict[str, int]:
        """The number of kept alerts by status; see `status_of` for `oldest`."""
        counted = dict.fromkeys(("open", "confirmed", "dismissed", "expired"), 0)
        for alert in self:
            counted[status_of(alert, oldest)] += 1
        return counted

    def changes(self, since: int) -> list[dict[str, Any]]:
        """What happened after the change with number `since`, the oldest first."""
        return [change for change in self._changes if change["sequence"] > since]

    def _note(self, kind: str, alert: Alert) -> None:
        self.sequence += 1
        self._changes.append({"sequence": self.sequence, "kind": kind, "id": alert.id, "status": alert.status})

    # ---- snapshots

    def arrays(self) -> Arrays:
        """All that `restored` needs, as arrays."""
        alerts = list(self)
        listed = [{name: getattr(alert, name) for name in STORED} for alert in alerts]
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
        content = decode([arrays["content"].tobytes()])[0]
        alerts = cls()
        listed = [Alert(**stored) for stored in content["alerts"]]
        for k, columns in zip(arrays["explained"], arrays["columns"], strict=True):
            listed[k].columns = columns
        alerts._of_id = {id_key(alert.id): alert for alert in listed}
        alerts._n_raised, alerts.sequence = content["raised"], content["sequence"]
        alerts._changes.extend(content["changes"])
        return alerts
