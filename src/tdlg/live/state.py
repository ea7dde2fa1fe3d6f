"""The state that replaying the log produces: that of the scorer, recent events, alerts, and settings.

The same records in the same order give the same state, so a snapshot and a replay of the later records restore it. The time
of arrival does not matter: a label that comes without a time has the stream's clock written into its record.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from functools import wraps
from typing import Any, Literal, NamedTuple, Self, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from tdlg.checks import check_choice, check_count, check_number, is_number
from tdlg.clock import as_seconds, ticks_per_second
from tdlg.exceptions import EdgesError, ParameterError, TdlgError
from tdlg.live.cases import Alert, Alerts, RecentEvents, StoredEvent
from tdlg.live.event import ROLES, EventError, Events, Fields, id_problem
from tdlg.live.log import Record, StateError
from tdlg.live.outcome import DAY, Outcome, Start, Threshold, saved_start, start_of
from tdlg.live.records import ALIAS, EVENTS, LABELS, SETTINGS, TABLE, WITHDRAWAL, decode, encode, logged_events
from tdlg.live.scorer import StreamScorer, UnknownEventError
from tdlg.propagate.state import Part, SavedArrays
from tdlg.tables.ids import id_key

__all__ = ["Answer", "LabelAnswer", "LiveState", "Settings"]

Arrays = dict[str, NDArray[Any]]
Method = TypeVar("Method", bound=Callable[..., Any])

SNAPSHOT_FORMAT = 4
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
    nightly tables are read.
    """

    columns: dict[str, str] = field(default_factory=dict)
    late: Literal["score", "refuse"] = "score"
    threshold: float | None = None
    alerts_per_day: float | None = None
    ahead: str | float | None = None
    allow_missing: bool = False
    reading: dict[str, Any] = field(default_factory=dict)


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
    log that could not be learnt and are left out, "sequence", "kind", "count" and "error" of each.
    """

    def __init__(
        self, model: Any, scorer: StreamScorer, settings: Settings, n_recent: int, start: Start | None = None
    ) -> None:
        self.model, self.scorer = model, scorer
        self.outcome = Outcome(model, scorer.clock)
        self.recent = RecentEvents(n_recent, model.edges_.bipartite)
        self.alerts = Alerts()
        self.position: Any = None
        self.n_events = self.n_labels = 0
        self.days: dict[int, list[int]] = {}
        self.aliases: dict[Any, Any] = {}
        self.last_fitted = self.outcome.on_clock(model.edges_.ticks, model.edges_.time_unit).max().item()
        self._day = self.outcome.day
        self.is_fresh = True
        self.set_aside: list[dict[str, Any]] = []
        self.use(self._prepared(settings, start))

    # ---- settings

    def _prepared(self, settings: Settings, start: Start | None) -> Prepared:
        start, edges, ahead = start or start_of(self.model, self.outcome), self.model.edges_, settings.ahead
        threshold = Threshold(self.outcome, settings.threshold, settings.alerts_per_day, start)
        features = [*edges.feature_names, *(["weight"] if edges.weight is not None else [])]
        if self.outcome.unit is None and isinstance(ahead, str):
            with suppress(ValueError):  # from the shell
                ahead = float(ahead)
        fields = Fields(settings.columns, features, self.scorer.features)
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
        scores, outcome, recent = self.scorer.process(read), self.outcome, self.recent
        values, has_classes = scores.values.reshape(len(ids), -1), bool(outcome.classes)
        labels = {k: (outcome.label(label), at) for (k, label), at in zip(read.labels, read.known, strict=True)}
        ticks, late, repeated = read.ticks.tolist(), scores.late.tolist(), scores.repeated.tolist()
        found, predicted = outcome.scores(scores.values).tolist(), outcome.predicted(scores.values)
        days, threshold, answers = (read.ticks // self._day).tolist(), self._threshold, []
        for k, (of_event, score) in enumerate(zip(map(tuple, values.tolist()), found, strict=True)):
            id, key = ids[k], read.ids[k]
            if repeated[k]:
                if score != score:  # a fitted edge
                    answers.append(Answer(id, repeated=True))
                    continue
                is_alert = key in self.alerts.of_id
            else:
                label, known = labels.get(k, (None, None))
                ends = read.src[k], read.dst[k]
                event = StoredEvent(0, id, *ends, ticks[k], stored[k], of_event, score, late[k], label, known)
                event.columns = None if scores.columns is None else scores.columns[k]  # a view, which an alert copies
                recent.add(event, (key, id_key(ends[0]), id_key(ends[1])))
                self.n_events += 1
                is_alert = label is None and score >= threshold.value  # one that comes with its label is none
                if is_alert:
                    self._raise_alert(event)
                counts = self.days.setdefault(int(days[k]), [0, 0])
                counts[0] += 1
                counts[1] += is_alert
                threshold.add(ticks[k], score)
            probabilities = of_event if has_classes else ()
            answers.append(Answer(id, score, probabilities, predicted[k], late[k], repeated[k], is_alert))
        while len(self.days) > MOST_DAYS:
            del self.days[min(self.days)]
        return answers

    def _raise_alert(self, event: StoredEvent) -> None:
        features = {name: value for name, value in event.content().items() if name not in NOT_FEATURES}
        content = event.id, event.src, event.dst, self.outcome.time(event.ticks), event.ticks, features, event.score
        self.alerts.add(Alert(0, *content, columns=None if event.columns is None else event.columns.copy()))

    def answer_of(self, event: StoredEvent) -> Answer:
        """The answer that an event got before."""
        probabilities = event.values if self.outcome.classes else ()
        predicted, is_alert = self.outcome.predicted_one(event.values), self.alerts.get(event.id) is not None
        return Answer(event.id, event.score, probabilities, predicted, event.late, True, is_alert)

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
        if event is not None:
            self.recent.remove(event)
        if alert is not None:
            self.alerts.remove(alert)

    # ---- labels

    def label(self, id: Any, label: Any, time: Any) -> LabelAnswer:
        """Set, replace or withdraw the label of an event, which was logged before."""
        error = self.label_error(id, label, time)
        if error is not None:
            return LabelAnswer(id, error)
        ticks = self.scorer.tick_of(time)
        if self.outcome.takes_labels:
            self.scorer.label(id, label, time)
        self.n_labels += 1
        event, alert = self.recent.get(id), self.alerts.get(id)
        if event is not None:
            event.label, event.label_ticks = label, None if label is None else ticks
        if alert is not None:
            self.alerts.decide(alert, label, self.outcome.is_positive(label), self.outcome.time(ticks), ticks)
        return LabelAnswer(id)

    def label_error(self, id: Any, label: Any, time: Any) -> TdlgError | None:
        """What is wrong with a label; None if it would be learnt."""
        try:
            problem = id_problem(id)
            if problem is not None:
                raise ParameterError(f"The id of an event must be {problem}.", parameter="id")
            self.scorer.tick_of(time)
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
                read, errors, of_labels = self.scorer.read_columns(events.columns)
                for error in (errors | of_labels).values():
                    raise EdgesError(error.in_words())
                aliased = zip(events.columns.get(ALIAS, ()), events.ids, strict=False)
                aliases = {id_key(alias): id for alias, id in aliased if alias is not None}
                self.process(read, events.ids, events.kept(range(len(events.ids))), aliases)
        elif record.kind == LABELS:
            for label in decode(record.payload.split(b"\n")):
                self.label(label["id"], label["label"], label["time"])
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
        for alert in state.alerts:
            alert.columns = None  # those of the model before
        return state

    # ---- snapshots

    def arrays(self, *, copy: bool = False) -> dict[str, Any]:
        """The state as arrays without objects, or functions that make them; without `copy`, to be written at once."""
        content = {
            "format": SNAPSHOT_FORMAT,
            "settings": asdict(self.settings),
            "position": self.position,
            "n_events": self.n_events,
            "n_labels": self.n_labels,
            "days": [*self.days.items()],
            "n_recent": self.recent.capacity,
            "aliases": [[alias, id] for alias, id in self.aliases.items() if self.scorer.knows(id)],
        }
        parts: dict[str, dict[str, Any]] = {
            "scorer": self.scorer.saved(copy=copy),
            "recent": self.recent.arrays(),
            "alerts": self.alerts.arrays(),
            "threshold": self._threshold.arrays(),
        }
        arrays = {f"{part}/{name}": array for part, of in parts.items() for name, array in of.items()}
        return {"content": np.frombuffer(encode(content).encode(), np.uint8), **arrays}

    @classmethod
    def restored(cls, model: Any, arrays: SavedArrays, n_recent: int | None = None) -> Self:
        """The state with these arrays, and with as many recent events as before by default."""
        content = decode([arrays["content"].tobytes()])[0]
        if content["format"] != SNAPSHOT_FORMAT:
            raise StateError(
                f"The snapshot has the format {content['format']}; this version of tdlg reads format {SNAPSHOT_FORMAT}.",
                "Install a newer version of tdlg."
                if content["format"] > SNAPSHOT_FORMAT
                else "Open it with the version of tdlg that wrote it, or start a new state directory.",
            )
        n_recent = n_recent or content["n_recent"]
        scorer = StreamScorer.restore(model, Part(arrays, "scorer/"))
        threshold = Part(arrays, "threshold/")
        state = cls(model, scorer, Settings(**content["settings"]), n_recent, saved_start(threshold))
        state._threshold.restore(threshold)
        state.recent = RecentEvents.restored(n_recent, model.edges_.bipartite, Part(arrays, "recent/"))
        state.alerts = Alerts.restored(Part(arrays, "alerts/"))
        state.position = content["position"]
        state.n_events, state.n_labels = content["n_events"], content["n_labels"]
        state.days = {day: counts for day, counts in content["days"]}
        state.aliases = {alias: id for alias, id in content["aliases"]}
        return state


def locked(method: Method) -> Method:
    """Let one thread at a time use a live model."""

    @wraps(method)
    def alone(self: Any, *args: Any, **options: Any) -> Any:
        with self._lock:
            return method(self, *args, **options)

    return cast(Method, alone)


def check_options(
    columns: Any,
    keep: Any,
    late: Any,
    threshold: Any,
    alerts_per_day: Any,
    allow_missing: Any,
    snapshot_every: Any,
    n_recent: Any,
) -> None:
    """Refuse invalid options of `LiveModel.open`; None stands for an option that is not given."""
    if columns is not None and not isinstance(columns, Mapping):
        raise ParameterError(
            f"The 'columns' parameter of LiveModel.open must be a mapping from roles to fields. Got {columns!r} instead.",
            "Pass columns={'src': 'customer', 'dst': 'terminal', 'time': 'when'}, for example.",
            parameter="columns",
        )
    if keep is not None:
        as_seconds(keep)
    if late is not None:
        check_choice("LiveModel.open", "late", late, ("score", "refuse"))
    if alerts_per_day is not None:
        check_number("LiveModel.open", "alerts_per_day", alerts_per_day)
    if threshold is not None and not (is_number(threshold) and -np.inf < threshold < np.inf):
        raise ParameterError(f"The 'threshold' must be a number. Got {threshold!r} instead.", parameter="threshold")
    if allow_missing not in (None, True, False):
        raise ParameterError(
            f"The 'allow_missing' parameter must be True or False. Got {allow_missing!r} instead.",
            parameter="allow_missing",
        )
    if snapshot_every is not None:
        check_count("LiveModel.open", "snapshot_every", snapshot_every, 1)
    if n_recent is not None:
        check_count("LiveModel.open", "n_recent", n_recent, 1)
