"""The state that replaying the log produces: that of the scorer, recent events, alerts, and settings.

The same records in the same order give the same state, so a snapshot and a replay of the later records restore it. The time
of arrival does not matter: a label that comes without a time has the stream's clock written into its record.
"""

from __future__ import annotations

import gc
import hashlib
import shutil
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from tdlg.atomic import as_path, new_file
from tdlg.clock import ticks_per_second
from tdlg.edges import TemporalEdges
from tdlg.exceptions import EdgesError, ParameterError, TdlgError, warn
from tdlg.live.cases import Alert, Alerts, RecentEvents, StoredEvent
from tdlg.live.event import (
    ALIAS,
    ROLES,
    EventError,
    Events,
    Fields,
    decode,
    encode,
    id_problem,
    ids_of_edges,
    logged_events,
)
from tdlg.live.log import Record, StateError
from tdlg.live.outcome import DAY, Outcome, Start, Threshold, saved_start, start_of
from tdlg.live.scorer import StreamScorer, UnknownEventError
from tdlg.live.store import ArrayFile, Generation, StateDirectory, StateReader, write_arrays
from tdlg.persist.model import load_model
from tdlg.propagate.running import stream_clock
from tdlg.propagate.state import Part, SavedArrays
from tdlg.tables.ids import id_key

__all__ = ["Answer", "LabelAnswer", "LiveState", "Settings"]

Arrays = dict[str, NDArray[Any]]

EVENTS, LABELS, SETTINGS, TABLE, WITHDRAWAL, SWITCH = 1, 2, 3, 4, 5, 6  # kinds of records
MODEL, ORIGIN, SCORER, ASIDE = "model.tdlg", "origin.json", "scorer.state", "set-aside.json"
RECORDS_IN_WORDS = {
    EVENTS: "events",
    LABELS: "labels",
    SETTINGS: "settings",
    TABLE: "events",
    WITHDRAWAL: "withdrawals",
    SWITCH: "models",
}
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


def events_payload(position: Any, lines: Sequence[bytes]) -> bytes:
    """The payload of a record of events, each of them as JSON, or of a table."""
    return b"\n".join([encode({"position": position}).encode(), *lines])


def labels_payload(labels: Sequence[Mapping[str, Any]]) -> bytes:
    """The payload of a record of labels."""
    return "\n".join(map(encode, labels)).encode()


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

    # ---- records

    def replay(self, record: Record) -> None:
        """Learn what a record of the log says."""
        if record.kind in (EVENTS, TABLE):
            position, events = logged_events(record.payload, self.outcome.unit, is_table=record.kind == TABLE)
            self.position = self.position if position is None else position
            if isinstance(events, list):
                self._replay_events(events, record.payload.split(b"\n")[1:])
            else:
                read, errors, of_labels = self.scorer.read_columns(events)
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


# ---- in a state directory


class Origin(NamedTuple):
    """What a model was fitted on."""

    sequence: int  # number of the last record of the log that it learnt from; 0 if none
    ids: list[Any]  # of the fitted edges as events
    n_learnt: int = 0  # the last ones, which are events of the log; the ids of the others follow from the edges


def start_generation(generation: Generation, file: Path, settings: Settings, n_recent: int) -> None:
    """Write a model that learnt from no record of the log, and the state that it starts with."""
    model = load_model(file)
    _check_nodes(model.edges_)
    ids = _own_ids(model, len(model.edges_))
    scorer = StreamScorer(model, ids=ids)
    scorer.forget()
    write_state(generation, file, Origin(0, ids), LiveState(model, scorer, settings, n_recent))


def _check_nodes(edges: TemporalEdges) -> None:
    """Refuse ids of nodes that neither events as JSON nor a snapshot can hold."""
    for id in edges.node_ids.tolist():
        if not isinstance(id, str | int | float):
            raise ParameterError(
                f"The nodes of a live model must have text or numbers as ids. The model was fitted with {id!r}, "
                f"a {type(id).__name__}.",
                "Fit it to edges whose ids are text, such as 'a/1' for ('a', 1).",
                parameter="model",
            )


def write_state(generation: Generation, file: Path, origin: Origin, state: LiveState) -> None:
    """Write a model, what it was fitted on, and its state after the last record that it learnt from."""
    shutil.copyfile(file, generation.path / MODEL)
    write_origin(generation.path, origin)
    generation.write_snapshot(origin.sequence, lambda path: write_arrays(path, state.arrays()))


def write_origin(folder: Path, origin: Origin) -> None:
    """Write what a model was fitted on."""
    with new_file(folder / ORIGIN) as opened:
        learnt = origin.ids[len(origin.ids) - origin.n_learnt :]
        opened.write(encode({"sequence": origin.sequence, "ids": learnt}).encode())


def origin_of(generation: Generation, model: Any) -> Origin:
    """What the model of a generation was fitted on."""
    try:
        content = decode([(generation.path / ORIGIN).read_bytes()])[0]
    except (OSError, ValueError) as error:
        raise StateError(
            f"{generation.path / ORIGIN}: the file is missing or damaged. Restore it from a copy."
        ) from error
    learnt = content["ids"]
    ids = [*_own_ids(model, len(model.edges_) - len(learnt)), *learnt]
    return Origin(content["sequence"], ids, len(learnt))


def _own_ids(model: Any, n: int) -> list[str]:
    """The ids of the first fitted edges, which were no events of the log."""
    return ids_of_edges(model.edges_[:n], stream_clock(model.edges_)[0])


def restored_state(
    directory: StateDirectory | StateReader, model: Any, n_recent: int | None = None
) -> tuple[LiveState, int]:
    """The state after all records of the log, and the number of events and labels that came after the newest snapshot.

    A record that cannot be learnt was never answered. It is set aside: the state is as if it had not come, it is noted in
    a file of the directory, and a warning says so.
    """
    snapshot = directory.newest_snapshot()
    if snapshot is None:
        raise StateError(
            f"The generation {str(directory.generation.path)!r} has no whole snapshot.", "Restore one from a copy."
        )
    aside = set_aside(directory)
    while True:
        state = LiveState.restored(model, ArrayFile(snapshot.path), n_recent)
        state.set_aside = aside
        state, n_replayed, failed = _replay(state, directory, snapshot.sequence)
        if failed is None:
            return state, n_replayed
        aside = [*aside, failed]  # and again from the snapshot: the state may have changed before it failed
        if isinstance(directory, StateDirectory):
            with suppress(OSError), new_file(directory.folder / ASIDE) as file:
                file.write(encode(aside).encode())
        what = failed["kind"].removesuffix("s") if failed["count"] == 1 else failed["kind"]
        warn(
            f"Record {failed['sequence']} of the log ({failed['count']:,} {what}) cannot be learnt and is set aside, "
            f"because of {failed['error'].removesuffix('.')}.",
            "It was never answered: if its sender does not send it again, send it yourself without what is wrong with it.",
        )


def set_aside(directory: StateDirectory | StateReader) -> list[dict[str, Any]]:
    """The records of the log that could not be learnt and are left out; see `LiveState`."""
    try:
        found: Any = decode([(directory.folder / ASIDE).read_bytes()])[0]
        return list(found)
    except (OSError, ValueError):  # a damaged list is found again by replaying
        return []


def _replay(
    state: LiveState, directory: StateDirectory | StateReader, after: int
) -> tuple[LiveState, int, dict[str, Any] | None]:
    """Replay the log; the state, the number of events and labels, and what is to be set aside if a record fails."""
    n_replayed, aside = 0, {record["sequence"] for record in state.set_aside}
    with _no_garbage_collection():
        for record in directory.log.replay(after):
            if record.sequence in aside:
                continue
            try:
                if record.kind == SWITCH:
                    new = directory.named(decode([record.payload])[0]["generation"])
                    if new is not None and not new.listed:  # else it was active, and was left by going back
                        successor = Successor(new.path, aside)
                        successor.follow(directory.log, record.sequence)
                        state = successor.state_after(state)
                        directory.adopt(new)
                else:
                    state.replay(record)
            except (MemoryError, OSError, StateError):
                raise  # which are not the fault of the record
            except Exception as error:
                what = {"sequence": record.sequence, "kind": RECORDS_IN_WORDS[record.kind], "count": record.count}
                return state, n_replayed, {**what, "error": f"{type(error).__name__}: {error}"}
            n_replayed += record.count
    return state, n_replayed, None


class Successor:
    """A model that a refit left, and its scorer, which follows the log up to the present. aside : records to leave out."""

    def __init__(self, path: Path, aside: set[int]) -> None:
        self.model, arrays = load_model(path / MODEL), ArrayFile(path / SCORER)
        self._scorer = StreamScorer.restore(self.model, Part(arrays, "scorer/"))
        per_day, n_edges = arrays["counts"].tolist()
        self._start, self._aside = Start(arrays["start"], per_day, int(n_edges)), aside
        self.done = decode([(path / ORIGIN).read_bytes()])[0]["sequence"]

    def follow(self, log: Any, last: int | None = None) -> None:
        """Learn the records of the log up to one, by default all that are synced."""
        for record in log.replay(self.done):
            if last is not None and record.sequence >= last:
                break
            if record.sequence not in self._aside:
                for _ in replayed(self._scorer, [record]):
                    pass
            self.done = record.sequence

    def state_after(self, state: LiveState) -> LiveState:
        """The state of this model after that of the one before."""
        return state.followed_by(self.model, self._scorer, self._start)


def replayed(scorer: StreamScorer, records: Iterable[Record]) -> Iterator[tuple[list[Any], NDArray[np.float64]]]:
    """Replay records with a scorer alone; gives the ids and values of the new events of each record."""
    unit = Outcome(scorer.model, scorer.clock).unit
    for record in records:
        events = events_of(record, unit)
        if events:
            read = scorer.read(events)[0]
            scores = scorer.process(read)
            new = np.flatnonzero(~scores.repeated)
            yield [read.ids[k] for k in new], scores.values[new]
        for given in labels_of(record):
            learn_label(scorer, given["id"], given["label"], given["time"])
        for id in withdrawn_by(record):
            if scorer.knows(id):
                scorer.withdraw(id)


def learn_label(scorer: StreamScorer, id: Any, label: Any, time: Any) -> None:
    """Learn a label, unless it was refused when it came."""
    with suppress(TdlgError):
        scorer.label(id, label, time)


def events_of(record: Record, unit: str | None) -> list[dict[str, Any]]:
    """The events of a record."""
    if record.kind not in (EVENTS, TABLE):
        return []
    events = logged_events(record.payload, unit, is_table=record.kind == TABLE)[1]
    return events if isinstance(events, list) else [events.content(k) for k in range(len(events.ids))]


def labels_of(record: Record) -> list[dict[str, Any]]:
    """The labels of a record."""
    return decode(record.payload.split(b"\n")) if record.kind == LABELS else []


def withdrawn_by(record: Record) -> list[Any]:
    """The ids of the events that a record withdraws."""
    return [one["id"] for one in decode(record.payload.split(b"\n"))] if record.kind == WITHDRAWAL else []


@contextmanager
def _no_garbage_collection() -> Iterator[None]:
    """Do not look for garbage while many objects are made that stay: it would take a tenth of the time."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def fingerprint_of(file: Path) -> str:
    """What identifies the model in a file: a checksum of all its bytes."""
    try:
        with open(file, "rb") as opened:
            digest = hashlib.file_digest(opened, "sha256")
    except OSError as error:
        raise ParameterError(f"{file}: the model cannot be read: {error.strerror}.", parameter="model") from error
    return f"sha256 {digest.hexdigest()}"


@contextmanager
def model_file(model: Any) -> Iterator[Path | None]:
    """The file of a model; a fitted model is written into a temporary one."""
    if model is None or not hasattr(model, "save"):
        yield None if model is None else as_path(model)
        return
    with TemporaryDirectory() as folder:
        model.save(Path(folder) / MODEL)
        yield Path(folder) / MODEL
