"""The state that replaying the log produces: that of the scorer, recent events, alerts, settings; what a call would change.

The same records in the same order give the same state, so a snapshot and a replay of the later records restore it. The time
of arrival does not matter: a label that comes without a time has the stream's clock written into its record.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from itertools import takewhile
from typing import Any, Literal, NamedTuple, Self, cast

import numpy as np
from numpy.typing import NDArray

from tdlg.clock import duration_in_words, ticks_per_second
from tdlg.edges import TemporalEdges
from tdlg.exceptions import EdgesError, ParameterError, TdlgError
from tdlg.live.cases import Alert, Alerts, RecentEvents, StoredEvent
from tdlg.live.challenger import Challenger, Seen
from tdlg.live.drift import FLAGS, Drift, quantities_of
from tdlg.live.event import (
    ALIAS,
    EVENTS,
    LABELS,
    REVIEW,
    ROLES,
    SETTINGS,
    TABLE,
    WITHDRAWAL,
    EventError,
    Events,
    EventTable,
    Fields,
    Mappings,
    copies_of,
    decode,
    encode,
    id_problem,
    logged_events,
    made_id,
    stored_fields,
)
from tdlg.live.explore import Explorer
from tdlg.live.log import Record, StateError
from tdlg.live.outcome import DAY, Outcome, Start, Threshold, saved_start, start_of
from tdlg.live.review import Review
from tdlg.live.rules import Fired, Rules, RuleState, fitted_history, parse_rules, without_repeats
from tdlg.live.scorer import StreamScorer, UnknownEventError
from tdlg.propagate.state import PrefixedArrays, SavedArrays
from tdlg.tables.ids import id_key

__all__ = ["Answer", "LabelAnswer", "LiveState", "Settings"]

Arrays = dict[str, NDArray[Any]]

OLDEST_FORMAT, SNAPSHOT_FORMAT = 6, 7
MOST_DAYS = 400  # days whose numbers of events and alerts are kept
NOT_FEATURES = frozenset({*ROLES, ALIAS})


@dataclass(slots=True)
class Answer:
    """The answer to one event.

    Attributes
    ----------
    id
        Its id; None if it has none because of an error.
    score
        What alerts are about: the probability of the positive class, the predicted number, or for bursts the digits of
        surprise. None for an event with an error, and for one that the model was fitted on, which was never scored.
    probabilities
        The probabilities of the classes, in the order of `LiveModel.classes`; empty without classes or score.
    predicted
        The predicted class or number; for bursts, whether it is an outlier; None without a score.
    late
        Whether a later event had come before it, so that its score is as of now.
    repeated
        Whether its id was seen before, so that this is the answer of then.
    alert
        Whether it is an alert.
    rules
        Names of the rules that hold for it.
    error
        Why the event was refused; None if it was not.
    label_error
        Why the label that came with a repeated event was refused; None if it was not.
    differs
        Whether it is repeated, but with another source, destination, time or feature than the first event with its id.
    """

    id: Any
    score: float | None = None
    probabilities: tuple[float, ...] = ()
    predicted: Any = None
    late: bool = False
    repeated: bool = False
    alert: bool = False
    rules: tuple[str, ...] = ()
    error: EventError | None = None
    label_error: EventError | None = None
    differs: bool = False


@dataclass(frozen=True, slots=True)
class LabelAnswer:
    """The answer to one label: its event id, and why it was refused; None if it was not."""

    id: Any
    error: TdlgError | None = None


@dataclass(frozen=True)
class Settings:
    """What was chosen for a state directory, and holds until it is changed; None for a default.

    columns : the field of each role and feature; ahead : how far an event may be ahead of the latest one; reading : how
    nightly tables are read; explore, explore_seed : how many events below the threshold are drawn a day, and by what seed.
    """

    columns: dict[str, str] = field(default_factory=dict)
    late: Literal["score", "refuse"] = "score"
    threshold: float | None = None
    alerts_per_day: float | None = None
    ahead: str | float | None = None
    allow_missing: bool = False
    reading: dict[str, Any] = field(default_factory=dict)
    explore: float | None = None
    explore_seed: int | None = None


class Prepared(NamedTuple):
    """Settings, and what follows from them."""

    settings: Settings
    fields: Fields
    most_ahead: float
    threshold: Threshold


class LiveState:
    """The state of a live model in memory.

    recent, alerts : recent events and alerts. position : that of the source, which came with the latest events. n_events,
    n_labels : how many events were answered, without repetitions, and how many labels were set or withdrawn. days : the
    numbers of events and alerts by the number of the day. aliases : ids that fitted edges got as events, and the ids by
    which the edges are known. is_fresh : no event has come since the directory was opened. set_aside : the records of the
    log that could not be learnt and are left out, "sequence", "kind", "count" and "error" of each. review : what people
    did. generation : the name of the model's, which alerts keep. rules : those beside the model, and what they have seen.
    challenger : a second model that scores too, and why one could not go on. drift : counts of the last days.
    """

    def __init__(
        self,
        model: Any,
        scorer: StreamScorer,
        settings: Settings,
        n_recent: int,
        start: Start | None = None,
    ) -> None:
        self.model, self.scorer = model, scorer
        self.outcome = Outcome(model)
        self.recent = RecentEvents(n_recent, model.edges_.bipartite)
        self.alerts, self.review, self.rules = Alerts(), Review(), RuleState()
        self.generation, self.challenger_failure = "", ""
        self.challenger: Challenger | None = None
        self.position: Any = None
        self.n_events = self.n_labels = 0
        self.days: dict[int, list[int]] = {}
        self.aliases: dict[Any, Any] = {}
        self.last_fitted = self.outcome.on_clock(model.edges_.ticks, model.edges_.time_unit).max().item()
        self._day = self.outcome.day
        self.is_fresh = True
        self.set_aside: list[dict[str, Any]] = []
        start = start or start_of(model, self.outcome)
        quantities = start.quantities
        if quantities is None:
            latest = start.latest if len(start.latest[0]) else start_of(model, self.outcome).latest
            quantities = quantities_of(model, self.outcome, scorer.own, *latest)
        self.drift = Drift(quantities, scorer.own, self._day)
        self.use(self._prepared(settings, start))

    # ---- settings

    def _prepared(self, settings: Settings, start: Start) -> Prepared:
        edges, ahead = self.model.edges_, settings.ahead
        threshold = Threshold(self.outcome, settings.threshold, settings.alerts_per_day, start)
        features = [*edges.feature_names, *(["weight"] if edges.weight is not None else [])]
        if self.outcome.unit is None and isinstance(ahead, str):
            with suppress(ValueError):  # from the shell
                ahead = float(ahead)
        fields = Fields(settings.columns, features, self.scorer.reader.features)
        return Prepared(settings, fields, self.scorer.ticks_in("ahead", ahead), threshold)

    def prepared(self, changed: dict[str, Any]) -> Prepared:
        """What follows from other settings, for `use`. Settings that cannot be used are refused here, before the log."""
        before = self._threshold
        found = self._prepared(replace(self.settings, **changed), before.start)
        if "threshold" not in changed and "alerts_per_day" not in changed:
            return found._replace(threshold=before)
        found.threshold.follow(before)
        return found

    def use(self, prepared: Prepared) -> None:
        """Use other settings from now on."""
        self.settings, self.fields, self.most_ahead, self._threshold = prepared
        seed = self.settings.explore_seed
        self._explorer = Explorer(self.settings.explore, seed) if self.settings.explore and seed is not None else None
        if self.challenger is not None:
            self.challenger.use(self.settings)

    @property
    def threshold(self) -> float:
        """The score from which on an event is an alert."""
        return self._threshold.value

    # ---- time

    @property
    def clock(self) -> Any:
        """The stream's clock in ticks."""
        return self.scorer.tick

    def now(self) -> Any:
        """The stream's clock as a record holds it."""
        return self.outcome.time(self.clock)

    def tomorrow(self) -> Any:
        """A day after now in ticks, which leaves room for all time zones; None if times are numbers."""
        unit = self.outcome.unit
        return None if unit is None else (time.time() + DAY) * ticks_per_second(unit)

    @property
    def oldest(self) -> float:
        """The ticks from which on events can be labelled."""
        return self.scorer.oldest if self.outcome.takes_labels else -np.inf

    # ---- events

    def process(
        self, read: Events, ids: Sequence[Any], stored: Sequence[Any], aliases: Mapping[Any, Any] | None = None
    ) -> list[Answer]:
        """Score and learn events, which were logged before.

        ids : as they are shown; stored : what is kept of the events; aliases : to be added.
        """
        if aliases:
            self.aliases |= aliases
        ends = [*zip(map(id_key, read.src), map(id_key, read.dst), strict=True)]
        flags, noted = self._flags(ends, read.unseen), []
        scores, outcome, recent = self.scorer.process(read), self.outcome, self.recent
        values, has_classes = scores.values.reshape(len(ids), -1), bool(outcome.classes)
        labels = {k: (outcome.label(label), at) for (k, label), at in zip(read.labels, read.known, strict=True)}
        ticks, late, repeated = read.ticks.tolist(), scores.late.tolist(), scores.repeated.tolist()
        found, predicted = outcome.scores(scores.values).tolist(), outcome.predicted(scores.values)
        threshold, explorer, answers, seen = self._threshold, self._explorer, [], []
        fired = self._fired(read, stored, found, repeated) if self.rules.rules else {}
        for k, (of_event, score) in enumerate(zip(map(tuple, values.tolist()), found, strict=True)):
            id, key = ids[k], read.ids[k]
            if repeated[k]:
                if score != score:  # a fitted edge
                    answers.append(Answer(id, repeated=True))
                    continue
                is_alert = self._is_alert(key)
            else:
                label, known = labels.get(k, (None, None))
                src, dst = ends[k]
                event = StoredEvent(
                    0, id, read.src[k], read.dst[k], ticks[k], stored[k], of_event, score, late[k], label, known
                )
                event.columns = None if scores.columns is None else scores.columns[k]  # a view, which an alert copies
                recent.add(event, (key, src, dst))
                self.n_events += 1
                by_score = score >= threshold.value
                may_alert = label is None  # one that comes with its label is no alert
                if may_alert and self.review.snoozed:
                    may_alert = not self.review.is_snoozed(src, dst, ticks[k])
                if self.challenger is not None:
                    seen.append((k, Seen(key, ticks[k], score, may_alert, may_alert and by_score, label)))
                is_alert = may_alert and (by_score or k in fired)
                if is_alert:
                    self._raise_alert(event, None if explorer is None else 1.0, rules=fired.get(k, ()))
                elif explorer is not None and label is None and score < threshold.value and k not in fired:
                    self._explore(explorer, event)
                flags[k] += FLAGS["alerts"] * is_alert
                noted.append(k)
                counts = self.days.setdefault(int(ticks[k] // self._day), [0, 0])
                counts[0] += 1
                counts[1] += is_alert
                threshold.add(ticks[k], score)
            probabilities = of_event if has_classes else ()
            rules = tuple(one.name for one in fired.get(k, ()))
            answers.append(Answer(id, score, probabilities, predicted[k], late[k], repeated[k], is_alert, rules))
        while len(self.days) > MOST_DAYS:
            del self.days[min(self.days)]
        if seen:
            self._challenge(lambda one: one.process([stored[k] for k, _ in seen], [event for _, event in seen]))
        if len(noted) == len(ids):
            self.drift.add(ticks, found, read.own, flags)
        else:  # not those that came before
            mine = [[column[k] for k in noted] for column in (ticks, found, flags)]
            self.drift.add(mine[0], mine[1], read.own[noted], mine[2])
        return answers

    def _flags(self, ends: list[tuple[Any, Any]], unseen: NDArray[np.bool_]) -> list[int]:
        """What is noted of events before they are scored: whether they have a new node, and a new category."""
        sources, destinations = self.scorer.nodes.by_key
        new: set[tuple[int, Any]] = set()
        flags = [FLAGS["new categories"] * is_new for is_new in unseen.tolist()]
        for k, (src, dst) in enumerate(ends):
            if src in sources and dst in destinations:  # as nearly always
                continue
            fresh = {(0, src)} if src not in sources else set()
            fresh |= {(sources is not destinations, dst)} if dst not in destinations else set()
            if fresh - new:
                flags[k] += FLAGS["new nodes"]
                new |= fresh
        return flags

    def _challenge(self, act: Callable[[Challenger], object]) -> None:
        """Let the challenger go on; an error is none of the model in place, and ends it."""
        if self.challenger is not None:
            try:
                act(self.challenger)
            except Exception as error:
                self.challenger_failure = f"{self.challenger.generation}: {type(error).__name__}: {error}"
                self.challenger = None

    def challenger_called(self, name: str | None) -> Challenger:
        """The challenger, which must have this name if one is given."""
        if self.challenger is None or name not in (None, self.challenger.generation):
            there = "There is none" if self.challenger is None else f"It is {self.challenger.generation!r}"
            asked = "no challenger" if name is None else f"no challenger {name!r}"
            raise ParameterError(
                f"There is {asked}. {there}.", "`tdlg refit --shadow` fits one.", parameter="generation"
            )
        return self.challenger

    def _fired(
        self, read: Events, stored: Sequence[Any], scores: Sequence[float], repeated: Sequence[bool]
    ) -> dict[int, tuple[Fired, ...]]:
        """The rules that hold for new events, by their places."""
        new = [k for k, is_repeated in enumerate(repeated) if not is_repeated]
        src, dst = ([id_key(ends[k]) for k in new] for ends in (read.src, read.dst))
        fields, ticks = stored_fields([stored[k] for k in new], self.rules.rules.fields), read.ticks.tolist()
        found = self.rules.judge(src, dst, [ticks[k] for k in new], fields, [scores[k] for k in new])
        return {k: fired for k, fired in zip(new, found, strict=True) if fired}

    def checked_rules(self, text: str, file: str = "the rules") -> Rules:
        """Rules about the events of this model; what is wrong with them is refused."""
        words, names = self.model.edges_.feature_categories, self.fields.names[len(ROLES) :]
        return parse_rules(text, {name: name not in words for name in names}, self.outcome.unit, file)

    def _use_rules(self, text: str) -> None:
        """Use other rules; their windows have the fitted edges and the recent events that are in them."""
        rules, edges, recent = parse_rules(text, None, self.outcome.unit), self.model.edges_, self.recent
        widest = max((window.width for window in rules.windows().values()), default=0)
        ticks = self.outcome.on_clock(edges.ticks, edges.time_unit)
        fitted = fitted_history(edges, ticks, rules.fields, self.clock - widest)
        listed = [event for event in recent if event.ticks > self.clock - widest]
        fields = stored_fields([event.stored for event in listed], rules.fields)
        events = (
            (*event.keys[1:], event.ticks, {name: column[k] for name, column in fields.items()})
            for k, event in enumerate(listed)
            if event.keys is not None
        )
        oldest = min((event.ticks for event in recent), default=-np.inf)
        since = oldest if recent.n_added > recent.capacity and oldest > self.last_fitted else -np.inf
        history = [*fitted, *without_repeats(events, fitted)]
        self.rules = self.rules.followed_by(rules, self.clock, history, float(since))

    def rules_in_words(self) -> dict[str, Any]:
        """See `LiveModel.rules`."""
        rules, since = self.rules.rules, self.rules.incomplete_since
        counts = {rule.name: [0, 0, 0] for rule in rules.rules}
        for alert in self.alerts:
            for name in {one["name"] for one in alert.rules} & counts.keys():
                counts[name][0] += 1
                counts[name][1] += alert.status != "open"
                counts[name][2] += alert.status == "confirmed"
        listed = [
            {"name": rule.name, "conditions": [one.text for one in rule.conditions]}
            | dict(zip(("alerts", "reviewed", "confirmed"), counts[rule.name], strict=True))
            for rule in rules.rules
        ]
        return {
            "text": rules.text,
            "rules": listed,
            "incomplete_since": None if since is None else self.outcome.time(since),
        }

    def _explore(self, explorer: Explorer, event: StoredEvent) -> None:
        """Put an event that is no alert on the list if it is drawn, with a score that does not tell it from alerts."""
        assert event.keys is not None
        id, src, dst = event.keys
        chance, (drawn, place) = explorer.chance(self._threshold.events_per_day), explorer.uniforms(id)
        if drawn < chance and not self.review.is_snoozed(src, dst, event.ticks):
            shown = self.alerts.like_others(place, self._threshold.value, self._threshold.start.scores)
            self._raise_alert(event, chance, [event.score, shown])

    def _is_alert(self, key: Any) -> bool:
        alert = self.alerts.of_id.get(key)
        return alert is not None and alert.blind is None

    def _raise_alert(
        self, event: StoredEvent, chance: float | None, blind: list[float] | None = None, rules: Sequence[Fired] = ()
    ) -> None:
        features = {name: value for name, value in event.content().items() if name not in NOT_FEATURES}
        content = event.id, event.src, event.dst, self.outcome.time(event.ticks), event.ticks, features
        score, columns = (
            event.score if blind is None else blind[1],
            None if event.columns is None else event.columns.copy(),
        )
        more: dict[str, Any] = {"chance": chance, "blind": blind, "rules": [one._asdict() for one in rules]}
        self.alerts.add(Alert(0, *content, score, model=self.generation, columns=columns, **more))

    def answer_of(self, event: StoredEvent) -> Answer:
        """The answer that an event got before."""
        probabilities = event.values if self.outcome.classes else ()
        predicted, is_alert = self.outcome.predicted_one(event.values), self._is_alert(id_key(event.id))
        alert = self.alerts.get(event.id)
        rules = () if alert is None else tuple(one["name"] for one in alert.rules)
        return Answer(event.id, event.score, probabilities, predicted, event.late, True, is_alert, rules)

    def known_as(self, id: Any) -> Any:
        """The id by which an event is known: another one than its own if it is a fitted edge."""
        return id if id_problem(id) is not None else self.aliases.get(id_key(id), id)

    def knows(self, id: Any) -> bool:
        """Whether an event with this id is recent, or can still be labelled."""
        id = self.known_as(id)
        return self.recent.get(id) is not None or self.scorer.knows(id)

    def withdraw(self, id: Any) -> None:
        """Take back an event, which was logged before."""
        event, alert = self.recent.get(id), self.alerts.get(id)
        if self.scorer.knows(id):
            self.scorer.withdraw(id)
        self._challenge(lambda one: one.withdraw(id))
        if event is not None:
            self.recent.remove(event)
            if self.rules.rules and event.keys is not None:
                fields = stored_fields([event.stored], self.rules.rules.fields)
                self.rules.withdraw(*event.keys[1:], event.ticks, {name: one for name, (one,) in fields.items()})
        if alert is not None:
            self.alerts.remove(alert)

    # ---- labels

    def label(self, id: Any, label: Any, time: Any, *, is_decision: bool = False) -> LabelAnswer:
        """Set, replace or withdraw the label of an event, which was logged before."""
        error = self.label_error(id, label, time)
        if error is not None:
            return LabelAnswer(id, error)
        ticks = self.scorer.reader.tick_of(time)
        if self.outcome.takes_labels:
            values, at = self.scorer.answered(id) or (None, None)
            self._challenge(lambda one: one.label(id, label, time, values, at))
            self.scorer.label(id, label, time)
            if label is not None and not is_decision:
                self.drift.add_label(self.scorer.tick_of(id), ticks, self.clock)
        self.n_labels += 1
        event, alert = self.recent.get(id), self.alerts.get(id)
        if event is not None:
            self.recent.set_label(event, label, None if label is None else ticks)
        if alert is not None:
            self.alerts.decide(alert, label, self.outcome.is_positive(label), self.outcome.time(ticks), ticks)
        return LabelAnswer(id)

    def label_error(self, id: Any, label: Any, time: Any) -> TdlgError | None:
        """What is wrong with a label; None if it would be learnt."""
        try:
            problem = id_problem(id)
            if problem is not None:
                raise ParameterError(f"The id of an event must be {problem}.", parameter="id")
            self.scorer.reader.tick_of(time)
            if self.outcome.takes_labels:
                self.scorer.check_label(id, label, time)
            elif self.recent.get(id) is None and self.alerts.get(id) is None:  # whose scores use no labels
                raise UnknownEventError(f"There is no recent event and no alert with the id {id!r}.", parameter="id")
        except TdlgError as error:
            return error
        return None

    def has_label(self, id: Any, label: Any) -> bool:
        """Whether an event is known to have this label, so that nothing changes if it comes again."""
        known = self.recent.get(id) or self.alerts.get(id)
        return self.scorer.has_label(id, label) if known is None else known.label == label

    # ---- reviewers

    def change(self, entry: Mapping[str, Any]) -> None:
        """Learn what a reviewer did with an alert, which was logged before."""
        if "label" in entry:
            self.label(entry["id"], entry["label"], entry["time"], is_decision=True)
        self.review.learn_change(entry, self.alerts.get(entry["id"]), self.alerts)

    def act(self, actions: Sequence[Mapping[str, Any]]) -> None:
        """Learn other actions of reviewers, which were logged before, as one record."""
        self.review.forget_before(self.clock)
        for action in actions:
            until = action.get("until")
            self.review.learn_action(action, np.inf if until is None else float(self.scorer.reader.tick_of(until)))
            if action["do"] == "rules":
                self._use_rules(action["text"])
            elif action["do"] == "drop":
                self.challenger = None

    def health(self) -> dict[str, Any]:
        """How much there is in memory."""
        scorer = self.scorer
        return {
            "model": type(self.model).__name__,
            "clock": None if scorer.clock is None else self.now(),
            "n_events": self.n_events,
            "n_labels": self.n_labels,
            "n_pending": scorer.n_pending,
            "n_nodes": scorer.n_nodes,
            "n_recent": len(self.recent),
            "n_unseen_categories": scorer.n_unseen,
            "challenger": None if self.challenger is None else self.challenger.generation,
            "challenger_failure": self.challenger_failure or None,
            "state_bytes": scorer.nbytes,
            "set_aside": self.set_aside,
        }

    # ---- records

    def replay(self, record: Record) -> None:
        """Learn what a record of the log says."""
        if record.kind in (EVENTS, TABLE):
            position, events = logged_events(record.payload, self.outcome.unit, is_table=record.kind == TABLE)
            self.position = self.position if position is None else position
            if isinstance(events, list):
                self._replay_events(events, record.payload.split(b"\n")[1:])
            else:
                read, errors, of_labels = self.scorer.reader.read_columns(events.columns)
                for error in (errors | of_labels).values():
                    raise EdgesError(error.in_words())
                aliased = zip(events.columns.get(ALIAS, ()), events.ids, strict=False)
                aliases = {id_key(alias): id for alias, id in aliased if alias is not None}
                self.process(read, events.ids, events.kept(range(len(events.ids))), aliases)
        elif record.kind == LABELS:
            for label in decode(record.payload.split(b"\n")):
                if "by" in label:
                    self.change(label)
                else:
                    self.label(label["id"], label["label"], label["time"])
        elif record.kind == REVIEW:
            actions = decode(record.payload.split(b"\n"))
            if actions[0]["do"] == "change":  # a record is of one kind
                for action in actions:
                    self.change(action)
            else:
                self.act(actions)
        elif record.kind == SETTINGS:
            self.use(self.prepared(decode([record.payload])[0]))
        elif record.kind == WITHDRAWAL:
            for withdrawn in decode(record.payload.split(b"\n")):
                self.withdraw(withdrawn["id"])
        else:
            raise StateError(
                f"Record {record.sequence} of the log has the kind {record.kind}, which this version does not know.",
                "Install a newer version of tdlg.",
            )

    def _replay_events(self, events: list[dict[str, Any]], lines: list[bytes]) -> None:
        if not events:
            return
        read, errors = self.scorer.read(events)
        if errors:
            raise EdgesError(errors[0].in_words())
        aliases = {id_key(event[ALIAS]): event["id"] for event in events if ALIAS in event}
        self.process(read, [event["id"] for event in events], lines, aliases)

    # ---- other models

    def followed_by(self, model: Any, scorer: StreamScorer, start: Start | None = None) -> LiveState:
        """The state of another model that takes over: recent events and alerts stay, the default threshold is its own."""
        state = LiveState(model, scorer, self.settings, self.recent.capacity, start)
        state.is_fresh, state.set_aside = self.is_fresh, self.set_aside
        state.recent, state.alerts, state.position, state.days = self.recent, self.alerts, self.position, self.days
        state.n_events, state.n_labels, state.aliases = self.n_events, self.n_labels, self.aliases
        state.review, state.rules = self.review, self.rules
        for alert in state.alerts:
            alert.columns = None  # those of the model before
        state.recent.forget_columns()
        return state

    def led_by_challenger(self) -> LiveState:
        """The state in which the challenger is the model in place."""
        challenger = self.challenger_called(None)
        state = self.followed_by(challenger.model, challenger.scorer, challenger.start)
        state._threshold.follow(challenger.threshold)
        state.generation = challenger.generation
        return state

    # ---- snapshots

    def forget_aliases(self) -> None:
        """Forget the ids that fitted edges got as events, once these can no longer be labelled."""
        self.aliases = {alias: id for alias, id in self.aliases.items() if self.scorer.knows(id)}

    def arrays(self) -> dict[str, Any]:
        """The state as arrays without objects, or functions that make them, to be written at once."""
        content = {
            "format": SNAPSHOT_FORMAT,
            "settings": asdict(self.settings),
            "position": self.position,
            "n_events": self.n_events,
            "n_labels": self.n_labels,
            "days": [*self.days.items()],
            "n_recent": self.recent.capacity,
            "aliases": [*self.aliases.items()],
        }
        parts: dict[str, dict[str, Any]] = {
            "scorer": self.scorer.saved(),
            "recent": self.recent.arrays(),
            "alerts": self.alerts.arrays(),
            "threshold": self._threshold.arrays(),
            "review": self.review.arrays(),
            "rules": self.rules.arrays(),
            "challenger": {} if self.challenger is None else self.challenger.arrays(),
            "drift": self.drift.arrays(),
        }
        arrays = {f"{part}/{name}": array for part, of in parts.items() for name, array in of.items()}
        return {"content": np.frombuffer(encode(content).encode(), np.uint8), **arrays}

    @classmethod
    def restored(cls, model: Any, arrays: SavedArrays, n_recent: int | None = None) -> Self:
        """The state with these arrays, and with as many recent events as before by default."""
        content = decode([arrays["content"].tobytes()])[0]
        if not OLDEST_FORMAT <= content["format"] <= SNAPSHOT_FORMAT:
            raise StateError(
                f"The snapshot has the format {content['format']}; this version of tdlg reads format {SNAPSHOT_FORMAT}.",
                "Install a newer version of tdlg."
                if content["format"] > SNAPSHOT_FORMAT
                else "Open it with the version of tdlg that wrote it, or start a new state directory.",
            )
        n_recent = n_recent or content["n_recent"]
        scorer = StreamScorer.restore(model, PrefixedArrays(arrays, "scorer/"))
        threshold, drift = PrefixedArrays(arrays, "threshold/"), PrefixedArrays(arrays, "drift/")
        is_known = "content" in drift  # not in snapshots of earlier versions
        start = saved_start(threshold)._replace(quantities=[] if is_known else None)
        state = cls(model, scorer, Settings(**content["settings"]), n_recent, start)
        if is_known:
            state.drift = Drift.restored(drift, scorer.own)
        state._threshold.restore(threshold)
        state.recent = RecentEvents.restored(n_recent, model.edges_.bipartite, PrefixedArrays(arrays, "recent/"))
        state.alerts = Alerts.restored(PrefixedArrays(arrays, "alerts/"))
        state.review.restore(PrefixedArrays(arrays, "review/"))
        state.rules = RuleState.restored(PrefixedArrays(arrays, "rules/"), state.outcome.unit)
        state.position = content["position"]
        state.n_events, state.n_labels = content["n_events"], content["n_labels"]
        state.days = {day: counts for day, counts in content["days"]}
        state.aliases = {alias: id for alias, id in content["aliases"]}
        return state


# ---- the events or labels of one call: which are new and valid, and the answers to all; nothing is learnt here


class EventBatch:
    """The events of one call.

    source : where they come from; read : those that can be scored, but for their labels; errors, of_labels : what is wrong
    with others, and with labels, by position. Afterwards `read` has the new and valid events, at the positions `places`,
    and `labels` those that came with events that were there before.
    """

    def __init__(
        self,
        state: LiveState,
        source: Mappings | EventTable,
        read: Events,
        errors: dict[int, EventError],
        of_labels: dict[int, EventError],
    ) -> None:
        self._state, self._source, self._read, self._given = state, source, read, list(source.ids)
        self._answers: list[Answer | None] = [None] * len(source.ids)  # by position, as all that follows
        self._repeats: dict[int, int] = {}  # the position of the first event with the same id in this batch
        self._labelled: dict[int, dict[str, Any]] = {}  # labels of events that were there before
        self._label_errors: dict[int, EventError] = {}
        self._differing: set[int] = set()
        self.aliases: dict[Any, Any] = {}
        self._aliased: set[int] = set()
        self._label_of = {k: (label, at) for (k, label), at in zip(read.labels, read.known, strict=True)}
        self._first_of: dict[Any, int] = {}  # place of a new event by its id
        new = self._sorted(errors, of_labels)
        for position in [*errors]:
            if self._is_repeated(position):
                del errors[position]
        self._refuse(new, errors)
        for position, error in errors.items():
            self._answers[position] = Answer(self._given[position], error=error)
            self._labelled.pop(position, None)
        new = [k for k in new if read.positions[k] not in errors]
        if read.labels:
            labels = sorted(self._label_of.items())
            read = read._replace(labels=[(k, label) for k, (label, _) in labels], known=[at for _, (_, at) in labels])
        self.read = read.some(new)
        self.places = self.read.positions
        self.stored = source.kept(self.places)
        after = state.outcome.time(max([state.clock, *self.read.ticks.tolist()])) if self._labelled else None
        self.labels = LabelBatch(state, list(self._labelled.values()), after)

    def _sorted(self, errors: dict[int, EventError], of_labels: dict[int, EventError]) -> list[int]:
        """Answer events that are recent or come twice; the places of the others."""
        state, source, read, new = self._state, self._source, self._read, []
        recent, scorer, aliases = state.recent.number_of, state.scorer, state.aliases
        for k, (position, tick) in enumerate(zip(read.positions, read.ticks.tolist(), strict=True)):
            key = read.ids[k]
            if key is None or tick <= state.last_fitted or key in aliases:
                key = read.ids[k] = self._identified(k, position, key, tick)
            is_recent, has_label = key in recent, k in self._label_of or position in of_labels
            if has_label and (is_recent or scorer.knows(key)):
                has_label = self._take_label(position)
                self._label_of.pop(k, None)
                of_labels.pop(position, None)
            if is_recent:
                event = state.recent.get(key)
                assert event is not None
                self._answers[position] = state.answer_of(event)
                self._compare(position, scorer.reader.is_same(source.content(position), event.content()))
            elif key in self._first_of and position not in self._aliased:  # an alias is logged with its event
                first = self._first_of[key]
                self._repeats[position] = at = read.positions[first]
                self._compare(position, scorer.reader.is_same(source.content(position), source.content(at)))
                if position in of_labels:
                    self._label_errors[position] = of_labels.pop(position)
                elif has_label:
                    self._label_of[first] = self._label_of.pop(k)
                    content = source.content(position)
                    source.change(at, label=content["label"], label_time=content.get("label_time"))
            elif position in of_labels:
                errors[position] = of_labels.pop(position)
            else:
                self._first_of[key] = k
                new.append(k)
        return new

    def _identified(self, k: int, position: int, key: Any, tick: Any) -> Any:
        """The id by which an event is known, as a key.

        That is its own id, or one made of source, destination and time if it has none, or if a fitted edge has these: then
        the event is that edge, and its own id is its alias.
        """
        state, source, aliases = self._state, self._source, self.aliases
        if key is not None:
            known_as = aliases.get(key, state.aliases.get(key))
            if known_as is not None:
                source.change(position, id=known_as)
                return id_key(known_as)
            if tick > state.last_fitted or state.knows(key):
                return key
        made = made_id(self._read.src[k], self._read.dst[k], state.outcome.time(tick))
        if key is None:
            source.change(position, id=made)
            return id_key(made)
        copies = [*takewhile(state.knows, copies_of(made))]
        if not copies:
            return key
        taken = {*state.aliases.values(), *aliases.values()} if len(copies) > 1 else ()
        edge = aliases[key] = next((copy for copy in copies if copy not in taken), made)
        source.change(position, **{"id": edge, ALIAS: self._given[position]})
        self._aliased.add(position)
        return id_key(edge)

    def _take_label(self, position: int) -> bool:
        """Take the label of an event that was there before, to be learnt as one that comes later; False."""
        content = self._source.content(position)
        self._labelled[position] = {name: content.get(name) for name in ("id", "label")}
        self._labelled[position]["time"] = content.get("label_time")
        self._source.change(position, label=None, label_time=None)
        return False

    def _compare(self, position: int, is_same: bool) -> None:
        if not is_same:
            self._differing.add(position)

    def _is_repeated(self, position: int) -> bool:
        """Whether an event that cannot be read has a known id, so that it has the answer of the first one."""
        content, state = self._source.content(position), self._state
        id = content.get("id")
        if id is None or id_problem(id) is not None:
            return False
        key = id_key(state.known_as(id))
        event, first = state.recent.get(key), self._first_of.get(key)
        if event is not None and all(content.get(name) is not None for name in ("src", "dst", "time")):
            self._answers[position] = state.answer_of(event)
            if content.get("label") is not None:
                self._take_label(position)
        elif first is not None and self._read.positions[first] < position:
            self._repeats[position] = self._read.positions[first]
        else:
            return False
        self._differing.add(position)
        return True

    def _refuse(self, new: list[int], errors: dict[int, EventError]) -> None:
        """Refuse new events that lack a field, are too late or too far ahead; compare those that are known."""
        state, read, scorer = self._state, self._read, self._state.scorer
        ticks, pending = read.ticks.tolist(), scorer.pending
        knows = {k for k in new if read.ids[k] in pending and scorer.knows(read.ids[k])}
        for k in knows:
            ends = read.src[k], read.dst[k], ticks[k]
            self._compare(read.positions[k], scorer.has_ends(read.ids[k], *ends))
        if isinstance(self._source, Mappings) and not state.settings.allow_missing:
            fields, given = state.fields, self._source.given
            for k in new:
                position = read.positions[k]
                lacking = fields.absent(given[position])
                if lacking is not None and k not in knows:
                    errors[position] = EventError(position, lacking[0], None, lacking[1])
        clock, most = state.clock, state.clock + state.most_ahead
        if all(clock <= ticks[k] <= most or k in knows for k in new):
            return
        unit, time_of, latest = state.outcome.unit, state.outcome.time, clock
        free = state.tomorrow()
        if free is None and state.is_fresh:  # numbers: nothing tells how long the model has not been used
            free = min(ticks[k] for k in new)
        late, too_late = state.settings.late == "refuse", "which is too late: a repetition would not be recognised"
        for k in sorted(new, key=lambda k: ticks[k]):
            tick, message = ticks[k], ""
            if tick < clock and k not in knows:
                why = too_late if scorer.is_too_old(tick) else "and late events are refused" if late else ""
                message = why and f"It is before the latest event, {state.now()}, {why}."
            elif tick > latest + state.most_ahead and (free is None or tick > free):
                gap, allowed = (duration_in_words(float(x), unit) for x in (tick - latest, state.most_ahead))
                message = (
                    f"The time is {gap} after the latest event, {time_of(latest)}. Accepting it would make every later "
                    "event late. If it is correct, open the live model with a larger 'ahead' (--ahead), which is "
                    f"{allowed} now."
                )
            else:
                latest = max(latest, tick)
            if message:
                position = read.positions[k]
                errors[position] = EventError(position, "time", self._source.content(position)["time"], message)

    def answers(self, of_new: Sequence[Answer]) -> list[Answer]:
        """The answers to all events in their order, with the ids that they came with."""
        for position, answer in zip(self.places, of_new, strict=True):
            self._answers[position] = answer
        answers = cast("list[Answer]", self._answers)
        for position, first in self._repeats.items():
            answers[position] = replace(answers[first], repeated=True)
        for (position, given), found in zip(self._labelled.items(), self.labels.answers(), strict=True):
            if found.error is not None:
                self._label_errors[position] = _as_event_error(position, found, given)
        for position, (answer, id) in enumerate(zip(answers, self._given, strict=True)):
            if id is not None:
                answer.id = id
            answer.differs = position in self._differing and answer.error is None
            answer.label_error = self._label_errors.get(position)
        return answers


class LabelBatch:
    """Labels of earlier events that come together, each with "id", "label" and "time", by default `now`.

    new : those that are valid and change something.
    """

    def __init__(self, state: LiveState, given: Sequence[dict[str, Any]], now: Any) -> None:
        self._ids = [one["id"] for one in given]
        self._answers: dict[int, LabelAnswer] = {}  # by the position of the label
        self._at: list[int] = []  # position of each new label
        self.new: list[dict[str, Any]] = []
        latest: dict[Any, Any] = {}
        for position, one in enumerate(given):
            label, time = state.outcome.label(one["label"]), now if one["time"] is None else one["time"]
            id = state.known_as(one["id"])
            error = state.label_error(id, label, time)
            if error is not None:
                self._answers[position] = LabelAnswer(one["id"], error)
                continue
            key = id_key(id)
            is_there = latest[key] == label if key in latest else state.has_label(id, label)
            latest[key] = label
            if not is_there:
                self._at.append(position)
                self.new.append({"id": id, "label": label, "time": time})

    def learn(self, state: LiveState) -> None:
        """Learn the new labels, which were logged before."""
        for position, one in zip(self._at, self.new, strict=True):
            self._answers[position] = replace(state.label(one["id"], one["label"], one["time"]), id=self._ids[position])

    def answers(self) -> list[LabelAnswer]:
        """The answers to all labels in their order."""
        return [self._answers.get(position, LabelAnswer(id)) for position, id in enumerate(self._ids)]


def rows_in_order(state: LiveState, edges: TemporalEdges, ids: Sequence[Any]) -> NDArray[np.int64]:
    """The rows of a table by time, those that came before and are labelled apart.

    They are first if it is given when the labels became known, so that all new rows see them, else last: they become known
    after the new rows.
    """
    order = np.argsort(edges.ticks, kind="stable")
    if edges.label is None or not edges.labelled.any():
        return order
    known = np.zeros(len(ids), bool)
    for row in np.flatnonzero(edges.labelled).tolist():
        key = id_key(ids[row])
        if key in state.scorer.pending or key in state.recent.number_of or key in state.aliases:
            known[row] = state.knows(key)
    return order[np.argsort(known[order] == (edges.label_time is None), kind="stable")]


def to_withdraw(state: LiveState, ids: Sequence[Any]) -> tuple[list[LabelAnswer], list[Any]]:
    """The answers to ids of events that are to be withdrawn, and the ids by which those that are known are known."""
    answers, known = [], {}
    for given in ids:
        id = state.known_as(given)
        is_known = state.knows(given) and id not in known
        error = None if is_known else UnknownEventError(f"There is no event with the id {given!r}.", parameter="id")
        answers.append(LabelAnswer(given, error))
        if is_known:
            known[id] = True
    return answers, list(known)


def _as_event_error(position: int, answer: LabelAnswer, given: dict[str, Any]) -> EventError:
    """The error of a label as that of the event that it came with."""
    assert answer.error is not None
    if isinstance(answer.error, UnknownEventError):
        return EventError(position, "id", answer.id, str(answer.error))
    name = "time" if answer.error.parameter == "time" else "label"
    return EventError(position, "label_time" if name == "time" else name, given[name], str(answer.error))


class no_garbage_collection:  # noqa: N801
    """Do not look for garbage while many objects are made that stay: it would take a tenth of the time."""

    def __enter__(self) -> None:
        self._was_on = gc.isenabled()
        gc.disable()

    def __exit__(self, *error: object) -> None:
        if self._was_on:
            gc.enable()
