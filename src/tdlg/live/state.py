"""All that the log of a live model determines: the state of the scorer, recent events, alerts, and settings.

The same records in the same order give the same state, so a snapshot and a replay of the later records restore it. The time
of arrival does not matter: a label that comes without a time has the stream's clock written into its record.
"""

from __future__ import annotations

import time
from collections.abc import Hashable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from itertools import takewhile
from typing import Any, Literal, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from tdlg.clock import ticks_per_second
from tdlg.exceptions import EdgesError, ParameterError, TdlgError
from tdlg.live.alerts import Alert, Alerts
from tdlg.live.events import EventError, Events, id_problem
from tdlg.live.fields import Fields, decode, encode
from tdlg.live.ids import copies_of, id_of
from tdlg.live.log import Record, StateError
from tdlg.live.meaning import DAY, Meaning
from tdlg.live.recent import RecentEvents, StoredEvent
from tdlg.live.scorer import StreamScorer, UnknownEventError
from tdlg.live.threshold import Start, Threshold, saved_start, start_of
from tdlg.propagate.state import Part, SavedArrays
from tdlg.tables.ids import id_key

__all__ = ["ALIAS", "Answer", "LabelAnswer", "LiveState", "Settings", "events_payload", "labels_payload"]

Arrays = dict[str, NDArray[Any]]

EVENTS, LABELS, SETTINGS = 1, 2, 3  # kinds of records
SNAPSHOT_FORMAT = 4
ALIAS = "@id"  # field of a logged event that is a fitted edge: the id that it came with
MOST_DAYS = 400  # days whose numbers of events and alerts are kept
NOT_FEATURES = ("id", "src", "dst", "time", "label", "label_time")


@dataclass(frozen=True, slots=True)
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
    """What was chosen for a state directory, and holds until it is changed.

    Attributes
    ----------
    columns
        The field of each role and feature, see `Fields`.
    late
        "score" or "refuse" late events.
    ahead
        How far an event may be ahead of the latest one; None for the default.
    threshold, alerts_per_day
        What was given; None for the default.
    allow_missing
        Whether events may lack the field of a feature.
    reading
        How the shell reads tables.
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


def events_payload(position: Any, lines: Sequence[bytes]) -> bytes:
    """The payload of a record of events, each of them as JSON."""
    return b"\n".join([encode({"position": position}).encode(), *lines])


def labels_payload(labels: Sequence[Mapping[str, Any]]) -> bytes:
    """The payload of a record of labels."""
    return "\n".join(map(encode, labels)).encode()


class LiveState:
    """The state of a live model in memory.

    Parameters
    ----------
    model, scorer
        The fitted model, and its scorer.
    settings
        What was chosen.
    n_recent
        The most events to keep.
    start
        What the fitted edges tell of the threshold, which is found by default.

    Attributes
    ----------
    recent, alerts
        The recent events and the alerts.
    position
        The position of the source that came with the latest events; None at first.
    n_events, n_labels
        How many events were answered, without repetitions, and how many labels were set or withdrawn.
    days
        The numbers of events and alerts of each day, by the number of the day on the stream's clock.
    most_ahead
        How far an event may be ahead of the latest one, in ticks.
    is_fresh
        Whether no event has come since the directory was opened.
    set_aside
        The records of the log that could not be learnt, and are left out: "sequence", "kind", "count" and "error" of each.
    """

    def __init__(
        self, model: Any, scorer: StreamScorer, settings: Settings, n_recent: int, start: Start | None = None
    ) -> None:
        self.model, self.scorer = model, scorer
        self.meaning = Meaning(model, scorer.clock)
        self.recent = RecentEvents(n_recent, model.edges_.bipartite)
        self.alerts = Alerts()
        self.position: Any = None
        self.n_events = self.n_labels = 0
        self.days: dict[int, list[int]] = {}
        self._aliases: dict[Any, Any] = {}  # ids that fitted edges got as events: the id by which the edge is known
        self._day = self.meaning.day
        self._last_fitted = self.meaning.on_clock(model.edges_.ticks, model.edges_.time_unit).max().item()
        self.is_fresh = True
        self.set_aside: list[dict[str, Any]] = []
        self.use(self._prepared(settings, start))

    def _prepared(self, settings: Settings, start: Start | None) -> Prepared:
        start = start or start_of(self.model, self.meaning)
        threshold = Threshold(self.meaning, settings.threshold, settings.alerts_per_day, start)
        fields = Fields(settings.columns, _features(self.model), self.scorer.features)
        return Prepared(settings, fields, self.ticks_ahead(settings.ahead), threshold)

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

    def ticks_ahead(self, ahead: Any) -> float:
        """How far an event may be ahead of the latest one, in ticks; by default as long as labels are accepted."""
        if self.meaning.unit is None and isinstance(ahead, str):
            with suppress(ValueError):  # from the shell
                ahead = float(ahead)
        return self.scorer.ticks_in("ahead", ahead)

    def tomorrow(self) -> Any:
        """A day after now in ticks, which leaves room for all time zones; None if times are numbers."""
        unit = self.meaning.unit
        return None if unit is None else (time.time() + DAY) * ticks_per_second(unit)

    @property
    def threshold(self) -> float:
        """The score from which on an event is an alert."""
        return self._threshold.value

    # ---- events

    def process(self, events: list[dict[str, Any]], lines: Sequence[bytes], read: Events) -> list[Answer]:
        """Score and learn events, which were logged before.

        Parameters
        ----------
        events, lines, read
            The events, each of them as JSON, and as the scorer read them.
        """
        self._aliases |= {id_key(event[ALIAS]): event["id"] for event in events if ALIAS in event}
        scores = self.scorer.process(read)
        values, classes = scores.values.reshape(len(events), -1), self.meaning.classes
        labels = {k: (label, ticks) for (k, label), ticks in zip(read.labels, read.known, strict=True)}
        columns = zip(
            events,
            lines,
            read.ticks.tolist(),
            map(tuple, values.tolist()),
            self.meaning.scores(scores.values).tolist(),
            self.meaning.predicted(scores.values),
            scores.late.tolist(),
            scores.repeated.tolist(),
            strict=True,
        )
        answers = []
        for k, (event, line, ticks, of_event, score, predicted, late, repeated) in enumerate(columns):
            is_alert = self.alerts.get(event["id"]) is not None
            if not repeated:
                ends = event["id"], event["src"], event["dst"]
                label, known = labels.get(k, (None, None))
                stored = StoredEvent(0, *ends, ticks, line, of_event, score, late, self.meaning.label(label), known)
                is_alert = self._store(stored, event, None if scores.columns is None else scores.columns[k])
            if score != score:  # a fitted edge
                answers.append(Answer(event["id"], repeated=True))
                continue
            probabilities = of_event if classes else ()
            answers.append(Answer(event["id"], score, probabilities, predicted, late, repeated, is_alert))
        return answers

    def _store(self, stored: StoredEvent, event: dict[str, Any], columns: NDArray[np.float64] | None) -> bool:
        """Keep an event with its answer; whether it is a new alert. An event that comes with its label is not an alert."""
        stored.columns = None if columns is None else columns.copy()
        self.recent.add(stored)
        self.n_events += 1
        is_alert = stored.score >= self.threshold and stored.label is None
        if is_alert:
            features = {name: value for name, value in event.items() if name not in NOT_FEATURES}
            time, ends = self.meaning.time(stored.ticks), (stored.id, stored.src, stored.dst)
            self.alerts.add(Alert(0, *ends, time, stored.ticks, features, stored.score, columns=stored.columns))
        self._count_day(stored.ticks, is_alert)
        self._threshold.add(stored.ticks, stored.score)
        return is_alert

    def _count_day(self, ticks: Any, is_alert: bool) -> None:
        counts = self.days.setdefault(int(ticks // self._day), [0, 0])
        counts[0] += 1
        counts[1] += is_alert
        if len(self.days) > MOST_DAYS:
            del self.days[min(self.days)]

    def answer_of(self, stored: StoredEvent) -> Answer:
        """The answer that an event got before."""
        probabilities = stored.values if self.meaning.classes else ()
        is_alert = self.alerts.get(stored.id) is not None
        predicted = self.meaning.predicted_one(stored.values)
        return Answer(stored.id, stored.score, probabilities, predicted, stored.late, True, is_alert)

    def with_id(self, event: dict[str, Any], aliases: dict[Any, Any] | None = None) -> dict[str, Any]:
        """The event with the id by which it is known.

        That is its own id, or one made of source, destination and time if it has none, or if a fitted edge has these: then
        the event is that edge, and its own id is its `ALIAS`.

        Parameters
        ----------
        event
            The event.
        aliases
            Those of events that come with it, to which its own is added.
        """
        given, aliases = event.get("id"), {} if aliases is None else aliases
        if given is not None and id_problem(given) is not None:
            return event  # which is refused
        known_as = None if given is None else aliases.get(id_key(given), self.known_as(given))
        if known_as is not None and (known_as != given or self.knows(known_as)):
            return {**event, "id": known_as}
        try:
            ticks = self.ticks_of(event.get("time"))
        except TdlgError:
            return {"id": None, **event}
        if given is not None and ticks > self._last_fitted:
            return event
        made = id_of(event.get("src"), event.get("dst"), self.meaning.time(ticks))
        if given is None:
            return {**event, "id": made}
        copies = [*takewhile(self.knows, copies_of(made))]
        if not copies:
            return event
        taken = {*self._aliases.values(), *aliases.values()} if len(copies) > 1 else ()
        edge = aliases[id_key(given)] = next((copy for copy in copies if copy not in taken), made)
        return {**event, "id": edge, ALIAS: given}

    def known_as(self, id: Any) -> Any:
        """The id by which an event is known: another one than its own if it is a fitted edge."""
        return self._aliases.get(id_key(id), id) if isinstance(id, Hashable) else id

    def knows(self, id: Any) -> bool:
        """Whether an event with this id is recent, or can still be labelled."""
        id = self.known_as(id)
        return self.recent.get(id) is not None or self.scorer.knows(id)

    # ---- labels

    def label(self, id: Any, label: Any, time: Any) -> LabelAnswer:
        """Set, replace or withdraw the label of an event, which was logged before."""
        stored, alert = self.recent.get(id), self.alerts.get(id)
        try:
            ticks = self.ticks_of(time)
            if self.meaning.kind != "outlier_detector":
                self.scorer.label(id, label, time)
            elif stored is None and alert is None:  # whose scores use no labels
                raise UnknownEventError(f"There is no recent event and no alert with the id {id!r}.", parameter="id")
        except TdlgError as error:
            return LabelAnswer(id, error)
        self.n_labels += 1
        if stored is not None:
            stored.label, stored.label_ticks = label, None if label is None else ticks
        if alert is not None:
            self.alerts.decide(alert, label, self.meaning.is_positive(label), self.meaning.time(ticks), ticks)
        return LabelAnswer(id)

    def label_error(self, id: Any, label: Any, time: Any) -> TdlgError | None:
        """What is wrong with a label; None if it would be learnt."""
        try:
            problem = id_problem(id)
            if problem is not None:
                raise ParameterError(f"The id of an event must be {problem}.", parameter="id")
            self.ticks_of(time)
            if self.meaning.kind != "outlier_detector":
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

    @property
    def oldest(self) -> float:
        """The ticks from which on events can be labelled."""
        return -np.inf if self.meaning.kind == "outlier_detector" else self.scorer.oldest

    def ticks_of(self, time: Any) -> Any:
        """A time in ticks of the stream, or an error."""
        return self.scorer.tick_of(time)

    @property
    def clock(self) -> Any:
        """The stream's clock in ticks."""
        clock = self.scorer.clock
        return int(clock.astype(np.int64)) if isinstance(clock, np.datetime64) else clock

    def now(self) -> Any:
        """The stream's clock as a record holds it."""
        return self.meaning.time(self.clock)

    # ---- records

    def replay(self, record: Record) -> None:
        """Learn what a record of the log says."""
        if record.kind == EVENTS:
            header, *lines = record.payload.split(b"\n")
            position = decode([header])[0]["position"]
            self.position = self.position if position is None else position
            if lines:
                events = decode(lines)
                read, errors = self.scorer.read(events)
                if errors:
                    raise EdgesError(errors[0].in_words())
                self.process(events, lines, read)
        elif record.kind == LABELS:
            for label in decode(record.payload.split(b"\n")):
                self.label(label["id"], label["label"], label["time"])
        elif record.kind == SETTINGS:
            self.use(self.prepared(decode([record.payload])[0]))
        else:
            raise StateError(
                f"Record {record.sequence} of the log has the kind {record.kind}, which this version does not know.",
                "Install a newer version of tdlg.",
            )

    # ---- other models

    def followed_by(self, model: Any, scorer: StreamScorer) -> LiveState:
        """The state of another model that takes over: recent events and alerts stay, the default threshold is its own."""
        state = LiveState(model, scorer, self.settings, self.recent.capacity)
        state.recent, state.alerts, state.position, state.days = self.recent, self.alerts, self.position, self.days
        state.n_events, state.n_labels, state._aliases = self.n_events, self.n_labels, self._aliases
        for alert in state.alerts:
            alert.columns = None  # those of the model before
        return state

    # ---- snapshots

    def arrays(self) -> Arrays:
        """The state as arrays without objects, to be written at once: the next event changes them."""
        content = {
            "format": SNAPSHOT_FORMAT,
            "settings": asdict(self.settings),
            "position": self.position,
            "n_events": self.n_events,
            "n_labels": self.n_labels,
            "days": [*self.days.items()],
            "n_recent": self.recent.capacity,
            "aliases": [[alias, id] for alias, id in self._aliases.items() if self.scorer.knows(id)],
        }
        parts = {
            "scorer": self.scorer.state(copy=False),
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
        state._aliases = {alias: id for alias, id in content["aliases"]}
        return state


def _features(model: Any) -> list[str]:
    """The features of the fitted edges, and their weight if they have one."""
    edges = model.edges_
    return [*edges.feature_names, *(["weight"] if edges.weight is not None else [])]
