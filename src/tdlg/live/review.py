"""What people do: who reviews, decisions with their reasons, notes, assignments, and what is snoozed.

All of it is learnt from records of the log: a decision is a label with "by" and "at", all else an action with "do".
"""

from __future__ import annotations

import hashlib
import os
import re
import secrets
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from tdlg.atomic import new_file
from tdlg.exceptions import ParameterError, TdlgError, warn
from tdlg.live.event import LABELS, REVIEW, decode, encode, id_problem, plain
from tdlg.live.log import read_records
from tdlg.live.scorer import UnknownEventError
from tdlg.live.store import read_manifest
from tdlg.tables.ids import id_key

if TYPE_CHECKING:
    from tdlg.live.cases import Alert, Alerts
    from tdlg.live.state import LiveState

__all__ = [
    "ChangeAnswer", "ConflictError", "Person", "Review", "Role", "audited", "checked_actions", "checked_changes",
    "hash_of", "leave_action", "new_person", "take_actions", "team_statistics",
]  # fmt: skip

Role = Literal["analyst", "lead"]

REASONS = ("known customer", "confirmed by the customer", "usual for this node", "wrong data", "other")
NAME = re.compile(r"[\w.@+-]{1,64}", re.ASCII)
MOST_AUDITED = 10_000  # actions that are kept
MOST_TEXT = 2_000  # characters of a note
MOST_NOTES = 50  # of an alert that are shown; the log has all
MOST_REASONS = 50
MOST_SNOOZED = 10_000
ACTIONS = "actions"  # folder of the state directory: what is to be done by the process that holds the state
TAKEN = ".json-taken"  # ending of a file of actions that are being done; after a crash they are done again
CHANGE = ("id", "label", "reason", "note", "assignee", "version")  # fields of a change of an alert


class ConflictError(TdlgError):
    """Somebody else changed an alert after it was read."""


class Person(NamedTuple):
    """Who may review: a role, and the checksum of a token."""

    name: str
    role: Role
    token: str


@dataclass
class Snooze:
    """One node or two (from, to) of which no alerts are raised for a while."""

    nodes: list[Any]
    until: Any  # on the clock of the events; None: until it is taken back
    by: str
    at: str
    note: str = ""
    ticks: float = np.inf


def new_person(name: str, role: str = "analyst") -> tuple[dict[str, Any], str]:
    """The action that adds a reviewer, and the token, which is kept nowhere."""
    token = secrets.token_urlsafe(24)
    return {"do": "person", "name": name, "role": role, "token": hash_of(token)}, token


def hash_of(token: str) -> str:
    """What is stored of a token. It is random and long, so that a fast hash is enough."""
    return hashlib.sha256(token.encode(errors="replace")).hexdigest()


def wall_clock() -> str:
    """The time of this machine, in UTC."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


@dataclass(frozen=True, slots=True)
class ChangeAnswer:
    """The answer to a change of an alert: the alert as it is now, or why it was refused."""

    id: Any
    alert: Alert | None = None
    error: TdlgError | None = None


class Review:
    """Reviewers, reasons, snoozes, and the latest actions; `people` is replaced whole, since other threads read it."""

    def __init__(self) -> None:
        self.people: Mapping[str, Person] = {}
        self.reasons: list[str] = [*REASONS]
        self.snoozed: dict[tuple[Any, ...], Snooze] = {}
        self.audit: deque[dict[str, Any]] = deque(maxlen=MOST_AUDITED)

    # ---- what is checked before it is logged

    def check_change(self, alert: Alert, change: Mapping[str, Any], by: str) -> None:
        """Refuse a change of an alert that somebody else changed, or with a wrong field; labels are checked elsewhere."""
        version = change.get("version")
        if version is not None and version != alert.version:
            who = f" by {alert.by}" if alert.by else ""
            raise ConflictError(
                f"The alert was changed{who} meanwhile: it is {alert.status} now. Look at it again.",
                parameter="version",
            )
        _check_text("note", change.get("note"))
        reason, assignee = change.get("reason"), change.get("assignee")
        if reason is not None and reason not in self.reasons:
            raise ParameterError(
                f"The reason must be one of {', '.join(map(repr, self.reasons))}. Got {reason!r} instead.",
                parameter="reason",
            )
        is_known = isinstance(assignee, str) and (assignee in self.people or assignee == by != "")  # named by a proxy
        if assignee is not None and not is_known:
            known = ", ".join(sorted(self.people)) or "none, see 'tdlg token add'"
            raise ParameterError(
                f"An alert is assigned to oneself or to a reviewer ({known}). Got {assignee!r} instead.",
                parameter="assignee",
            )
        if not {"label", "note", "assignee"} & set(change):
            raise ParameterError("A decision needs a label, a note or an assignee.", parameter="label")

    def check_action(self, action: Mapping[str, Any]) -> None:
        """Refuse an action that cannot be done."""
        what = action.get("do")
        if what == "person":
            name, role, token = action.get("name"), action.get("role"), action.get("token")
            if not isinstance(name, str) or not NAME.fullmatch(name):
                raise ParameterError(
                    f"The name of a reviewer has at most 64 letters, digits and .@+-_. Got {name!r} instead.",
                    parameter="name",
                )
            if role not in get_args(Role):
                raise ParameterError(f"The role must be analyst or lead. Got {role!r} instead.", parameter="role")
            if token is None and name not in self.people:
                raise ParameterError(f"There is no reviewer {name!r} to revoke.", parameter="name")
        elif what == "reasons":
            reasons = action.get("reasons")
            if not isinstance(reasons, list) or not 0 < len(reasons) <= MOST_REASONS:
                raise ParameterError(f"The reasons must be a list of 1 to {MOST_REASONS}.", parameter="reasons")
            for reason in reasons:
                _check_text("reasons", reason, most=80, least=1)
        elif what in ("promote", "drop"):
            if action.get("generation") is not None and not isinstance(action["generation"], str):
                raise ParameterError("The generation is the name of the challenger.", parameter="generation")
        elif what == "rules":
            if not isinstance(action.get("text"), str):
                raise ParameterError("The text of the rules is needed; an empty one ends all rules.", parameter="text")
        elif what in ("snooze", "wake"):
            nodes = action.get("nodes")
            if not isinstance(nodes, list) or len(nodes) not in (1, 2):
                raise ParameterError("The nodes must be one, or two: from and to.", parameter="nodes")
            for node in nodes:
                if not isinstance(node, str | int | float) or isinstance(node, bool) or node == "":
                    raise ParameterError(f"A node is text or a number. Got {node!r} instead.", parameter="nodes")
            _check_text("note", action.get("note"))
            if what == "wake" and _key(nodes) not in self.snoozed:
                raise ParameterError(f"{_words(nodes)} is not snoozed.", parameter="nodes")
        else:
            raise ParameterError(
                f"An action is person, reasons, rules, promote, drop, snooze or wake. Got {what!r} instead.",
                parameter="do",
            )

    # ---- what is learnt from the log

    def learn_change(self, entry: Mapping[str, Any], alert: Alert | None, alerts: Alerts) -> None:
        """Learn a change of an alert; its label is learnt before."""
        if alert is not None:
            if "label" in entry:
                alert.by, alert.at = entry["by"], entry["at"]
                alert.dismissal = entry.get("reason")
            else:
                alerts.changed(alert)
            if "assignee" in entry:
                alert.assignee = entry["assignee"]
            if entry.get("note"):
                note = {name: entry[name] for name in ("by", "at", "note")}
                alert.notes = [*alert.notes, note][-MOST_NOTES:]
        self.audit.append({"do": "label" if "label" in entry else "change", **entry})

    def learn_action(self, action: Mapping[str, Any], ticks: float = np.inf) -> None:
        """Learn another action; `ticks` is the end of a snooze."""
        match action["do"]:
            case "person":
                others = {name: one for name, one in self.people.items() if name != action["name"]}
                if action["token"] is None:
                    self.people = others
                else:
                    self.people = {**others, action["name"]: Person(action["name"], action["role"], action["token"])}
            case "reasons":
                self.reasons = [*action["reasons"]]
            case "snooze":
                told = {name: action[name] for name in ("nodes", "until", "by", "at")}
                self.snoozed[_key(action["nodes"])] = Snooze(**told, note=action.get("note") or "", ticks=ticks)
            case "wake":
                self.snoozed.pop(_key(action["nodes"]), None)
        self.audit.append({name: value for name, value in action.items() if name not in ("token", "text")})

    def is_snoozed(self, src: Any, dst: Any, ticks: Any) -> bool:
        """Whether no alert is raised for an event at this time; ends are keys of ids."""
        found = (self.snoozed.get(key) for key in ((src,), (dst,), (src, dst)))
        return any(one is not None and ticks < one.ticks for one in found)

    def forget_before(self, ticks: float) -> None:
        """Forget snoozes that ended."""
        for key in [key for key, one in self.snoozed.items() if one.ticks <= ticks]:
            del self.snoozed[key]

    def snoozed_after(self, ticks: float) -> dict[tuple[Any, ...], Snooze]:
        """The snoozes that have not ended. A question forgets none: a late event can still be in one that has."""
        return {key: one for key, one in self.snoozed.items() if one.ticks > ticks}

    def team(self, ticks: float) -> dict[str, Any]:
        """See `LiveModel.team`."""
        snoozed = [
            {name: value for name, value in vars(one).items() if name != "ticks"}
            for one in self.snoozed_after(ticks).values()
        ]
        people = [{"name": one.name, "role": one.role} for one in self.people.values()]
        return {"people": people, "reasons": self.reasons, "snoozed": snoozed}

    # ---- snapshots

    def arrays(self) -> dict[str, NDArray[Any]]:
        """All that `restored` needs."""
        content = {
            "people": [[*one] for one in self.people.values()],
            "reasons": self.reasons,
            "snoozed": [
                {**vars(one), "ticks": None if one.ticks == np.inf else one.ticks} for one in self.snoozed.values()
            ],
            "audit": [*self.audit],
        }
        return {"content": np.frombuffer(encode(content).encode(), np.uint8)}

    def restore(self, arrays: Mapping[str, Any]) -> None:
        """Be as these arrays say; snapshots of earlier versions have none."""
        if "content" not in arrays:
            return
        content = decode([arrays["content"].tobytes()])[0]
        self.people = {one[0]: Person(*one) for one in content["people"]}
        self.reasons = content["reasons"]
        for one in content["snoozed"]:
            ticks = np.inf if one["ticks"] is None else one["ticks"]
            self.snoozed[_key(one["nodes"])] = Snooze(**{**one, "ticks": ticks})
        self.audit.extend(content["audit"])


def team_statistics(alerts: Iterable[Alert]) -> dict[str, Any]:
    """How many alerts each reviewer decided and confirmed, and how many were dismissed for each reason."""
    decided = [alert for alert in alerts if alert.status in ("confirmed", "dismissed")]
    reviewed, confirmed = (
        Counter(one.by for one in decided),
        Counter(one.by for one in decided if one.status == "confirmed"),
    )
    reasons = Counter(one.dismissal for one in decided if one.status == "dismissed" and one.dismissal)
    return {
        "by_reviewer": [
            {"reviewer": name, "reviewed": n, "confirmed": confirmed[name]} for name, n in reviewed.most_common()
        ],
        "by_reason": [{"reason": reason, "dismissed": n} for reason, n in reasons.most_common()],
    }


def _key(nodes: Iterable[Any]) -> tuple[Any, ...]:
    return tuple(map(id_key, nodes))


def _words(nodes: list[Any]) -> str:
    return " → ".join(map(str, nodes))


def _check_text(name: str, text: Any, most: int = MOST_TEXT, least: int = 0) -> None:
    if text is not None and not (isinstance(text, str) and least <= len(text) <= most):
        raise ParameterError(f"The {name} must be text of at most {most} characters.", parameter=name)
    if isinstance(text, str) and not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            raise ParameterError(f"The {name} holds half of a character.", parameter=name) from None


# ---- from what was asked for to entries of the log


def checked_changes(
    state: LiveState, changes: Sequence[Mapping[str, Any]], by: str
) -> tuple[list[ChangeAnswer], list[dict[str, Any]]]:
    """The answers to changes of alerts, see `LiveModel.decide`, and the entries of those that are good."""
    answers, entries, at = [], {}, wall_clock()
    for given in changes:
        change = {name: plain(given[name]) for name in CHANGE if name in given}
        id = change.get("id")
        try:
            alert = None if id_problem(id) is not None else state.alerts.get(id)
            if alert is None:
                raise UnknownEventError(f"There is no alert with the id {id!r}.", parameter="id")
            if id_key(id) in entries:
                raise ParameterError(f"The alert {id!r} comes twice.", parameter="id")
            state.review.check_change(alert, change, by)
            if "label" in change:
                change["time"] = state.now()
                error = state.label_error(id, change["label"], change["time"])
                if error is not None:
                    raise error
        except TdlgError as error:
            answers.append(ChangeAnswer(id, error=error))
        else:
            change.pop("version", None)
            drawn = {} if alert.blind is None else {"chance": alert.chance}
            entries[id_key(id)] = {**change, "id": alert.id, "by": by, "at": at, "model": alert.model, **drawn}
            answers.append(ChangeAnswer(alert.id, alert))
    return answers, [*entries.values()]


def checked_actions(
    state: LiveState, actions: Sequence[Mapping[str, Any]], by: str
) -> tuple[list[dict[str, Any]], list[Exception]]:
    """The entries of other actions that come together, see `LiveModel.act`, and what is wrong with the rest of them."""
    entries: list[dict[str, Any]] = []
    errors: list[Exception] = []
    snoozed = {*state.review.snoozed_after(state.clock)}
    for action in actions:
        try:
            entry = _checked_action(state, action, by)
            if entry["do"] == "snooze":
                if len(snoozed) >= MOST_SNOOZED and _key(entry["nodes"]) not in snoozed:
                    raise ParameterError(
                        f"{MOST_SNOOZED} nodes and pairs are snoozed, which is the most.", parameter="nodes"
                    )
                snoozed.add(_key(entry["nodes"]))
        except (TdlgError, ValueError) as error:
            errors.append(error)
        else:
            entries.append(entry)
    return entries, errors


def _checked_action(state: LiveState, action: Mapping[str, Any], by: str) -> dict[str, Any]:
    state.review.check_action(action)
    if action["do"] == "rules":
        state.checked_rules(action["text"], action.get("file") or "the rules")
    if action["do"] in ("promote", "drop"):
        action = {**action, "generation": state.challenger_called(action.get("generation")).generation}
    until = action.get("until")
    if isinstance(until, str) and state.outcome.unit is None:
        with suppress(ValueError):  # from a file
            until = float(until)
    if until is not None and state.scorer.reader.tick_of(until) <= state.clock:
        raise ParameterError(f"A snooze ends after now, {state.now()}. Got {until!r} instead.", parameter="until")
    of_snooze = {"until": until} if action["do"] == "snooze" else {}
    return {**action, **of_snooze, "by": by, "at": wall_clock()}


# ---- actions that a command leaves for the process that holds the state


def leave_action(folder: Path, action: Mapping[str, Any] | Sequence[Mapping[str, Any]]) -> None:
    """Leave an action, or several, for the process that holds the state directory, or for the next one that does."""
    place = folder / ACTIONS
    place.mkdir(exist_ok=True)
    is_root = os.name == "posix" and os.geteuid() == 0
    if is_root:  # the process that holds the state may be another user's, and has to remove what it has done
        owner = folder.stat()
        handle = os.open(place, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        os.fchown(handle, owner.st_uid, owner.st_gid)
        os.close(handle)
    with new_file(place / f"{wall_clock().replace(':', '')}-{secrets.token_hex(4)}.json") as file:
        file.write(encode(action).encode())
        if is_root:
            os.fchown(file.fileno(), owner.st_uid, owner.st_gid)


def audited(folder: Path) -> Iterator[dict[str, Any]]:
    """What reviewers did, the oldest first, from the log of a state directory that another process may write to."""
    read_manifest(folder)
    for record in read_records(folder):
        if record.kind in (LABELS, REVIEW):
            for entry in decode(record.payload.split(b"\n")):
                if "by" in entry:
                    yield {"do": "label", **{name: value for name, value in entry.items() if name != "token"}}


def take_actions(folder: Path, act: Callable[[list[dict[str, Any]]], list[Exception]]) -> None:
    """Do what commands left in a state directory, the oldest first; what cannot be done is told and dropped.

    A file gets another name first: one that cannot be removed would be done again and again.
    """
    place = folder / ACTIONS
    for path in sorted([*place.glob("*.json"), *place.glob(f"*{TAKEN}")]):
        taken = path.with_suffix(TAKEN)
        try:
            os.replace(path, taken)
            content = decode([taken.read_bytes()])[0]
        except OSError as error:
            warn(
                f"{path}: an action was left that this user may not take: {error.strerror}.",
                f"Give {ACTIONS}/ to the user of the service (chown -R), or leave actions as that user.",
            )
            continue
        except ValueError as error:
            warn(f"{path.name}: an action was left that cannot be read: {error}")
            content = []
        actions = content if isinstance(content, list) else [content]
        for problem in act([action if isinstance(action, dict) else {} for action in actions]):
            warn(f"{path.name}: an action was left that cannot be done: {problem}")
        taken.unlink(missing_ok=True)
