"""A stand-in for the live model, in memory and simple enough to be obvious: the score of an event is the share of confirmed
labels among those known at its two ends."""

import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from sklearn.dummy import DummyClassifier

from tdlg.exceptions import ParameterError, TdlgError
from tdlg.live.explore import share
from tdlg.live.log import LogError
from tdlg.live.review import ChangeAnswer, Review, new_person, team_statistics
from tdlg.live.rules import parse_rules
from tdlg.live.scorer import UnknownEventError
from tdlg.tables.ids import id_key


@dataclass
class Alert:
    sequence: int
    id: Any
    src: Any
    dst: Any
    time: Any
    features: dict[str, Any]
    score: float
    status: str = "open"
    label: Any = None
    decided_at: Any = None
    reason: str = "both ends had frauds"
    model: str = "generation-0001"
    version: int = 0
    by: str = ""
    at: Any = None
    dismissal: Any = None
    assignee: Any = None
    notes: list[Any] = field(default_factory=list)
    rules: list[Any] = field(default_factory=list)
    columns: Any = field(default=None, repr=False)


class ById(dict):
    """By event id, where 17 and "17" are the same."""

    def __setitem__(self, id, value):
        super().__setitem__(id_key(id), value)

    def __getitem__(self, id):
        return super().__getitem__(id_key(id))

    def __contains__(self, id):
        return super().__contains__(id_key(id))

    def get(self, id):
        return super().get(id_key(id))


class FakeLive:
    classes = (0, 1)
    positive, negative = 1, 0
    model = DummyClassifier()

    def __init__(self, threshold=0.5, features=("amount",)):
        self.threshold, self._features = threshold, features
        self._events, self._alerts, self._changes = ById(), ById(), []
        self.sequence, self.review = 0, Review()
        self.disk_is_full = False
        self.rule_text, self.rival = "", None
        self.model_file, self.settings = Path("generation-0001/model.tdlg"), SimpleNamespace(alerts_per_day=None)
        self.clock = None
        self.delay = 0.0
        self.batches = []  # the sizes of what was written with one sync
        self.calls = []

    # ---- events and labels

    def submit(self, events, position=None):
        self._log("submit", len(events))
        return [self._answer(at, event) for at, event in enumerate(events)]

    def _log(self, what, n):
        time.sleep(self.delay)
        if self.disk_is_full:
            raise LogError("The log cannot be written: No space left on device.")
        self.batches.append(n)
        self.calls.append(what)

    def _answer(self, at, event):
        id = event.get("id")
        for name in ("src", "dst", "time"):
            if event.get(name) is None:
                error = SimpleNamespace(
                    position=at, field=name, value=event.get(name), message=f"The field {name!r} is missing."
                )
                return self._said(id, error=error)
        if id in self._events:
            return self._said(id, self._events[id]["score"], repeated=True)
        late = any(event["time"] < other["time"] for other in self._events.values())
        score = self._score(event)
        self._events[id] = {**event, "score": score, "label": None}
        if score >= self.threshold:
            features = {name: event[name] for name in self._features if name in event}
            alert = Alert(len(self._alerts) + 1, id, event["src"], event["dst"], event["time"], features, score)
            name = self.rules()["rules"][0]["name"] if self.rule_text else ""
            alert.rules = [{"name": name, "why": f"amount = {event.get('amount')}"}] if self.rule_text else []
            self._alerts[id] = alert
            self._note("alert", alert)
        return self._said(id, score, late=late)

    def _said(self, id, score=None, late=False, repeated=False, error=None):
        probabilities = () if score is None else (1 - score, score)
        return SimpleNamespace(
            id=id, score=score, probabilities=probabilities, predicted=None if score is None else int(score > 0.5),
            late=late, repeated=repeated, alert=id in self._alerts, error=error,
            label_error=None, differs=False, rules=("large",) if self.rule_text and id in self._alerts else (),
        )  # fmt: skip

    def _score(self, event):
        ends = {event["src"], event["dst"]}
        known = [e["label"] for e in self._events.values() if e["label"] is not None and ends & {e["src"], e["dst"]}]
        given = (event.get("amount") or 0) / 1000
        return min(1.0, max(given, (sum(known) + 0.1) / (len(known) + 1)))

    def label(self, labels):
        self._log("label", len(labels))
        return [SimpleNamespace(id=given["id"], error=self._labelled(given)) for given in labels]

    def withdraw(self, ids):
        self._log("withdraw", len(ids))
        error = UnknownEventError("There is no event with this id.", parameter="id")
        return [SimpleNamespace(id=id, error=None if self._events.pop(id, None) else error) for id in ids]

    def _labelled(self, given):
        id, label = given["id"], given["label"]
        if id not in self._events:
            return UnknownEventError(f"There is no event with the id {id!r}, or it is too old.", parameter="id")
        if label not in (0, 1, None):
            return ParameterError(f"The label must be 0 or 1. Got {label!r} instead.", parameter="label")
        self._events[id]["label"] = label
        if alert := self._alerts.get(id):
            alert.label = label
            alert.status = "open" if label is None else "confirmed" if label else "dismissed"
            alert.decided_at = None if label is None else max(e["time"] for e in self._events.values())
            alert.by, alert.at, alert.dismissal = "", None, None
            self._note("decision", alert)
        return None

    def _note(self, kind, alert):
        self.sequence += 1
        alert.version = self.sequence
        self._changes.append({"sequence": self.sequence, "kind": kind, "id": alert.id, "status": alert.status})

    # ---- reviewers

    @property
    def people(self):
        return self.review.people

    def add(self, *names, role="analyst"):
        """Add reviewers; their tokens."""
        tokens = []
        for name in names:
            action, token = new_person(name, role)
            self.act(action)
            tokens.append(token)
        return tokens

    def decide(self, changes, by=""):
        self._log("decide", len(changes))
        return [self._decided(change, by) for change in changes]

    def _decided(self, change, by):
        id = change.get("id")
        alert = self._alerts.get(id)
        try:
            if alert is None:
                raise UnknownEventError(f"There is no alert with the id {id!r}.", parameter="id")
            self.review.check_change(alert, change, by)
            if "label" in change and (error := self._labelled(change)):
                raise error
        except TdlgError as error:
            return ChangeAnswer(id, error=error)
        entry = {"by": by, "at": "2025-06-01T00:00:00Z", **change}
        self.review.learn_change(entry, alert, SimpleNamespace(changed=lambda alert: self._note("change", alert)))
        return ChangeAnswer(id, alert)

    def act(self, action, by=""):
        self.review.check_action(action)
        if action["do"] == "rules":
            parse_rules(action["text"], None, "s")
            self.rule_text = action["text"]
        elif action["do"] in ("promote", "drop"):
            if self.rival is None:
                raise ParameterError("There is no challenger.", parameter="generation")
            self.rival = None
        self.review.learn_action({"until": None, **action, "by": by, "at": "2025-06-01T00:00:00Z"})

    def rules(self):
        found = parse_rules(self.rule_text, None, "s").rules
        counts = {"alerts": 9, "reviewed": 4, "confirmed": 3}
        listed = [{"name": r.name, "conditions": [one.text for one in r.conditions], **counts} for r in found]
        return {"text": self.rule_text, "rules": listed, "incomplete_since": "2025-01-01T00:00:00" if found else None}

    def evidence(self):
        return self.rival

    def team(self):
        return self.review.team(0.0)

    def audit(self, limit=100):
        return [*self.review.audit][::-1][:limit]

    # ---- what is known

    def explain(self, id, top=3):
        event = self.event(id)
        if event is None:
            raise UnknownEventError(f"There is no event with the id {id!r}, or it is too old.", parameter="id")
        ends = {event["src"], event["dst"]}
        behind = [e for e in self._events.values() if e["id"] != event["id"] and ends & {e["src"], e["dst"]}][-5:]
        confirmed = sum(e["label"] == 1 for e in behind)
        reasons = [
            {
                "what": "label",
                "effect": 1.3,
                "reason": f"{confirmed} of {len(behind)} interactions were frauds",
                "events": behind,
            },
            {"what": "amount", "effect": -0.4, "reason": f"the amount is {event.get('amount')}", "events": []},
        ]
        return {"id": event["id"], "score": event["score"], "reasons": reasons[:top]}

    def work(self, seconds=0.005):
        return False

    def is_positive(self, label):
        return label == 1

    def event(self, id):
        return self._events.get(id)

    def reason(self, id):
        time.sleep(self.delay)
        self.calls.append("reason")
        return "both ends had frauds"

    def alerts(self, status="open", limit=50, before=None, explained=True, where=None, order="newest"):
        statuses = ("confirmed", "dismissed") if status == "decided" else (status,)
        found = [
            a
            for a in reversed(self._alerts.values())
            if (status == "all" or a.status in statuses) and (where is None or where(a))
        ]
        found = sorted(
            found, key={"newest": lambda a: -a.sequence, "highest": lambda a: -a.score}.get(order, lambda a: -a.version)
        )
        return [a for a in found if before is None or a.sequence < before][:limit]

    def node(self, id, limit=100):
        events = [e for e in self._events.values() if str(id) in (str(e["src"]), str(e["dst"]))]
        known = [e["label"] for e in events if e["label"] is not None]
        return {
            "id": id, "events": events[-limit:], "n_live": len(events), "n_fitted": 0, "labelled": len(known),
            "positive": sum(known),
        }  # fmt: skip

    def statistics(self):
        decided = [a for a in self._alerts.values() if a.status != "open"]
        by_day = Counter((str(a.decided_at)[:10], a.status) for a in decided)
        days = [
            {"day": day, "events": 10, "alerts": 4, "reviewed": by_day[day, "confirmed"] + by_day[day, "dismissed"],
             "confirmed": by_day[day, "confirmed"]}
            for day in sorted({day for day, _ in by_day})
        ]  # fmt: skip
        right = sum(a.status == "confirmed" for a in decided)
        statuses = Counter(a.status for a in self._alerts.values())
        week = {"events": len(self._events), "alerts": len(self._alerts), "reviewed": len(decided), "confirmed": right}
        return {
            "events_per_second": 12.5,
            "events": len(self._events),
            "labels": sum(e["label"] is not None for e in self._events.values()),
            "alerts": {name: statuses[name] for name in ("open", "confirmed", "dismissed", "expired")},
            "threshold": self.threshold,
            "days": days,
            "by_score": [{"from": self.threshold, "to": 1.0, "reviewed": len(decided), "confirmed": right}]
            if decided
            else [],
            **team_statistics(decided),
            "precision": share([1.0] * right, [1.0] * (len(decided) - right), 1.0, 1.0),
            "recall": {"value": 0.6, "low": 0.4, "high": 0.9},
            "random": {"drawn": 12, "reviewed": 0, "confirmed": 0},
            "weeks": {"this": week, "last": {"events": 40, "alerts": 10, "reviewed": 8, "confirmed": 4}},
        }

    def drift(self):
        amount = {
            "of": "amount",
            "value": 0.31,
            "threshold": 0.1,
            "drifts": True,
            "words": "part 10 of 10: 9.8% then, 31.0% now",
        }
        delay = {"of": "label delay", "value": None, "threshold": None, "drifts": False, "words": "too few yet"}
        return {"refit": True, "quantities": [amount, delay], "expected_precision": 0.42, "alerts": 21}

    def changes(self, since=0):
        return [change for change in self._changes if change["sequence"] > since]

    def health(self):
        reason = "No space left on device" if self.disk_is_full else None
        return {
            "ok": reason is None, "reason": reason, "model": "Fake", "n_events": len(self._events), "n_labels": 0,
            "clock": self.clock, "n_pending": 3, "n_nodes": 7, "bytes": {"log": 1000, "snapshots": 234}, "last_sync": None,
            "n_unseen_categories": 0, "n_differing": 0, "set_aside": [], "generation": "generation-0001",
            "challenger_failure": None, "refit_failure": None,
        }  # fmt: skip
