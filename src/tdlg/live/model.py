"""LiveModel: a model that scores events as they happen, learns from them, and loses nothing that it answered.

All that comes is checked, then logged, then learnt.
"""

from __future__ import annotations

import secrets
import shutil
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import wraps
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self, TypeVar, cast

import numpy as np

from tdlg.checks import check_choice, check_count, check_number, is_number
from tdlg.clock import as_seconds
from tdlg.exceptions import EdgesError, ParameterError
from tdlg.live.cases import Alert, Order, Rate, Status, Where, statistics_of, status_of
from tdlg.live.challenger import Evidence, Refits
from tdlg.live.drift import drift_of
from tdlg.live.event import (
    EVENTS,
    LABELS,
    REVIEW,
    SETTINGS,
    SHADOW,
    SWITCH,
    TABLE,
    WITHDRAWAL,
    EventError,
    EventTable,
    Fields,
    Mappings,
    encode,
    events_payload,
    ids_of_edges,
    labels_payload,
    plain,
)
from tdlg.live.explain import LiveExplainer, Question, Reasons, main_reason
from tdlg.live.log import StateError
from tdlg.live.replay import (
    LOOK_EVERY,
    MODEL,
    Successor,
    Takeover,
    fingerprint_of,
    model_file,
    restored_state,
    start_generation,
)
from tdlg.live.review import ChangeAnswer, Person, checked_actions, checked_changes, take_actions
from tdlg.live.rules import Rules, parse_rules
from tdlg.live.state import (
    Answer,
    EventBatch,
    LabelAnswer,
    LabelBatch,
    LiveState,
    Settings,
    no_garbage_collection,
    rows_in_order,
    to_withdraw,
)
from tdlg.live.store import FORKS, Generation, StateDirectory, StateReader, write_arrays
from tdlg.persist.model import load_model
from tdlg.propagate.running import stream_clock

__all__ = ["LiveModel", "check_rules"]

Method = TypeVar("Method", bound=Callable[..., Any])

SNAPSHOT_EVERY = 100_000
SNAPSHOT_BYTES = 16_000  # written per event at most, so that snapshots of a large state do not hold up the events
N_RECENT = 100_000
POLL = 0.001  # seconds
AT_ONCE = 10_000  # rows of a table that are logged together


def locked(method: Method) -> Method:
    """Let one thread at a time use a live model."""

    @wraps(method)
    def alone(self: Any, *args: Any, **options: Any) -> Any:
        with self._lock:
            return method(self, *args, **options)

    return cast(Method, alone)


class _Learning:
    """Remembers an error or an interrupt while the state changes: the state in memory is then behind the log."""

    def __init__(self, live: LiveModel) -> None:
        self._live = live

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, at: object) -> None:
        if error is not None:
            self._live._failure = error


class LiveModel:
    """A model with its durable state: events are logged, scored and learnt; labels come later by event id.

    Use `LiveModel.open`. One process can hold a state directory at a time; all methods can be called from several threads.

    Attributes
    ----------
    model
        The fitted model of the active generation.
    classes, positive
        The classes, and the one that scores are about; empty and None if the model has none.
    threshold
        The score from which on an event is an alert.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> from tdlg import PropagationClassifier, make_payments
    >>> payments = make_payments(1500, random_state=0)
    >>> model = PropagationClassifier(random_state=0).fit(payments.edges, label_time=payments.label_time)
    >>> with TemporaryDirectory() as folder, LiveModel.open(folder, model) as live:
    ...     event = {"id": "p1", "src": "customer 3", "dst": "terminal 7", "time": "2025-07-01T10:00:00", "amount": 9.5}
    ...     first, again = live.submit([event])[0], live.submit([event])[0]
    ...     print(first.id, 0 <= first.score <= 1, again.score == first.score, again.repeated)
    p1 True True True
    """

    def __init__(
        self, directory: StateDirectory, model: Any, state: LiveState, keep: float | None, snapshot_every: int | None
    ) -> None:
        self._directory, self.model, self._state = directory, model, state
        self._lock, self._rate, self._explainer = threading.RLock(), Rate(), LiveExplainer(state)
        self._keep, self._snapshot_every = keep, snapshot_every
        self._since_snapshot = self._n_differing = 0
        self.in_steps, self._is_due = False, directory.is_adopting  # snapshots are written by `work`; one is due
        self._writing: Callable[[], bool] | None = None
        self._takeover = Takeover(directory)
        self._refits: Refits | None = None
        self._failure: BaseException | None = None
        self._learning = _Learning(self)
        self._snapshot_failure: str | None = None
        self._looked_at = 0.0

    # ---- opening and closing

    @classmethod
    def open(
        cls,
        directory: Any,
        model: Any = None,
        *,
        columns: Mapping[str, str] | None = None,
        keep: str | None = None,
        late: Literal["score", "refuse"] | None = None,
        ahead: str | float | None = None,
        threshold: float | None = None,
        alerts_per_day: float | None = None,
        explore: float | None = None,
        allow_missing: bool | None = None,
        snapshot_every: int | None = None,
        n_recent: int | None = None,
    ) -> Self:
        """Open a state directory, or make a new one; the state is as it was when the last answer left.

        Parameters
        ----------
        directory
            The folder of the state.
        model
            A fitted model or its file: a `PropagationClassifier` or `PropagationRegressor` with setting="stream", or an
            `EdgeOutlierDetector` of past edges only (not "shuffled", "linegraph" or `with_misplaced`). Needed for a new
            directory. A directory of another model is refused.
        columns
            The field of each role and feature in the events, such as {"src": "customer"}; stored for later. By default a
            role or feature is in the field of its own name, and src, dst and time are also found by common names.
        keep
            How long the log is kept, such as "400d". By default all of it is kept, since `refit` learns from it.
        late
            Whether events that are earlier than the latest event are scored ("score", default) or refused ("refuse").
        ahead
            How far an event may be ahead of the latest one: a duration such as "30d", or a number if times are numbers;
            stored for later. An event beyond it is refused, since one wrong time would make all later events late. By
            default as long as labels are accepted: twice the longest time scale, or more. An event that is not in the
            future by the clock of this machine, give or take a day, is always accepted; if times are numbers, so is the
            first one.
        threshold
            The score from which on an event is an alert; stored for later. By default it is chosen from the scores of the
            latest events, so that there are about `alerts_per_day`.
        alerts_per_day
            How many alerts there are per day, about; stored for later, and undoes a threshold. By default 20, at most a
            twentieth of the events; for bursts, those that the model calls outliers.
        explore
            How many other events a day, about, are drawn and put among the alerts for random review; stored for later. None
            by default, and 0 ends it. They are not marked, and until they are decided have a score like those of the latest
            alerts. Precision and recall of the alerts follow from them, see `statistics`, and `refit` learns from them what
            alerts alone cannot tell.
        allow_missing
            Whether an event may lack the field of a feature, which is then missing; stored for later. By default such an
            event is refused, since a field that was renamed would change all scores: what is unknown is null.
        snapshot_every
            Number of events after which a snapshot is written. By default 100,000, and more if the state is large, so that
            at most 16 kB per event are written.
        n_recent
            Number of recent events that are kept in memory for repeated ids, explanations and histories of nodes. By
            default as many as before; 100,000 in a new directory.
        """
        given = {
            "columns": columns,
            "late": late,
            "ahead": ahead,
            "threshold": threshold,
            "alerts_per_day": alerts_per_day,
            "explore": explore,
            "allow_missing": allow_missing,
        }
        _check_options({**given, "snapshot_every": snapshot_every, "n_recent": n_recent})
        keep_seconds = None if keep is None else as_seconds(keep)
        chosen: dict[str, Any] = {name: plain(value) for name, value in given.items() if value is not None}
        if columns is not None:
            chosen["columns"] = dict(columns)
        if alerts_per_day is not None and threshold is None:
            chosen["threshold"] = None  # which was fixed before
        if explore:
            chosen["explore_seed"] = secrets.randbits(53)  # which JSON holds
        with model_file(model) as file:
            fingerprint = None if file is None else fingerprint_of(file)

            def fill(generation: Generation) -> None:
                assert file is not None
                start_generation(generation, file, Settings(**chosen), n_recent or N_RECENT)

            state = StateDirectory(directory, fingerprint, None if file is None else fill)
        try:
            state.warn_of_losses()
            loaded = load_model(state.generation.path / MODEL)
            restored, n_replayed = restored_state(state, loaded, n_recent)
            live = cls(state, restored.model, restored, keep_seconds, snapshot_every)
            live._since_snapshot = n_replayed
            if columns is not None:
                chosen["columns"] = {**live._state.settings.columns, **columns}
            if live._state.settings.explore_seed is not None:
                chosen.pop("explore_seed", None)
            live._use({name: value for name, value in chosen.items() if getattr(live._state.settings, name) != value})
            live._settle()
            take_actions(state.folder, live._act_all)
        except BaseException:
            state.close()
            raise
        return live

    @locked
    def close(self) -> None:
        """Write a snapshot, and let others open the directory. A closed model can be closed again."""
        try:
            if self._refits is not None:
                self._refits.stop()
            if self._failure is None:
                self._try_snapshot()
        finally:
            self._failure = self._failure or StateError("The live model is closed.", "Open it again.")
            self._directory.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    @locked
    def snapshot(self) -> None:
        """Write the state, so that a restart needs not replay what came before."""
        self._check()
        self._directory.stop_writing()
        self._writing, self._is_due = None, False
        self._state.forget_aliases()
        log, newest = self._directory.log, self._directory.newest_snapshot()
        if newest is None or newest.sequence < log.synced:
            self._directory.write_snapshot(log.synced, self._write_state)
        self._since_snapshot = 0
        self._after_snapshot()

    @locked
    def work(self, seconds: float = 0.0) -> bool:
        """Do what is due besides events; call it between events after setting `in_steps`.

        A snapshot is then written by a forked process, or at once where the system has none, and a model that `refit` left
        takes over. Returns whether to call again soon; `seconds` is how long to wait for a snapshot at most.
        """
        if self._failure is not None:
            return False
        end = time.perf_counter() + seconds
        try:
            if time.monotonic() > self._looked_at + LOOK_EVERY:
                self._looked_at = time.monotonic()
                take_actions(self._directory.folder, self._act_all)
            successor = None if self._writing is not None else self._takeover.successor(self._state.set_aside)
            if successor is not None:
                (self._shadow if successor.is_shadow else self._switch)(successor)
                return True
            if self._refits is not None and self._writing is None:
                self._refit_now_and_then(self._refits)
            if self._writing is None and self._is_due:
                self._is_due = False
                if not FORKS:
                    self.snapshot()
                    return False
                self._state.forget_aliases()
                self._writing = self._directory.begin_snapshot(self._directory.log.synced, self._write_state)
            if self._writing is not None:
                while not self._writing():
                    if time.perf_counter() >= end:
                        return True
                    time.sleep(POLL)
                self._writing = None
                self._after_snapshot()
        except (StateError, OSError) as error:
            self._writing, self._snapshot_failure = None, str(error)
        return False

    def _write_state(self, path: Path) -> None:
        write_arrays(path, self._state.arrays())

    def _switch(self, successor: Successor) -> None:
        """Let the model that a refit left answer from now on, as a record of the log says."""
        successor.follow(self._directory.log)
        generation = self._directory.take_request()
        self._write((SWITCH, encode({"generation": generation.name}).encode(), 1))
        with self._learning:
            state = successor.state_after(self._state)
            state.generation = generation.name
            self._lead(state, generation, successor.reasons)

    def _lead(self, state: LiveState, generation: Generation, reasons: Reasons | None) -> None:
        """Let the state of another model be the present one; a snapshot is due, with which its generation is active."""
        self._state, self.model, self._explainer = state, state.model, LiveExplainer(state, reasons)
        self._directory.adopt(generation)
        self._settle()
        self._is_due = True

    def _shadow(self, successor: Successor) -> None:
        """Let the model that a refit left score beside the one in place, as a record of the log says."""
        successor.follow(self._directory.log)
        generation = self._directory.take_request()
        self._write((SHADOW, encode({"generation": generation.name}).encode(), 1))
        with self._learning:
            self._state.challenger = successor.challenger(generation.name, self._state)
            self._state.challenger.reasons = successor.reasons
            self._state.challenger_failure = ""
            self._settle()

    def _settle(self) -> None:
        """Remove what challengers before left."""
        challenger = self._state.challenger
        self._directory.settle({self._state.generation, "" if challenger is None else challenger.generation})

    def _refit_now_and_then(self, refits: Refits) -> None:
        state, is_waiting = self._state, self._takeover.is_busy or self._directory.request() is not None
        name = refits.better(state.clock, state.last_fitted, state.challenger, is_waiting)
        if name is not None:
            self._act_all([{"do": "promote", "generation": name}], by="tdlg")

    @locked
    def refit_every(self, every: str | float) -> None:
        """Let `work` fit a challenger in a child process now and then, and promote it once it is clearly better.

        Parameters
        ----------
        every
            The time of the events from the latest one that the last model knew to the next fit, such as "7d"; a number if
            times are numbers.
        """
        self._refits = Refits(self.folder, self._state.scorer.ticks_in("refit_every", every))

    @locked
    def challenger(self) -> dict[str, Any] | None:
        """The model in place beside the challenger, see `tdlg.live.challenger.Evidence`; None without one."""
        evidence = self.evidence()
        return None if evidence is None else evidence.compared()

    @locked
    def evidence(self) -> Evidence | None:
        """What the comparison is made of, which takes a moment and needs no live model."""
        return None if self._state.challenger is None else self._state.challenger.evidence()

    def _after_snapshot(self) -> None:
        self._snapshot_failure = None
        if self._keep is not None:
            self._directory.prune(time.time() - self._keep)

    # ---- events

    @locked
    def submit(self, events: Sequence[Mapping[str, Any]], position: Any = None) -> list[Answer]:
        """Log events, score them and learn from them.

        Parameters
        ----------
        events
            One mapping per event, with the fields src, dst, time and the features of the model under their names (see
            `columns` of `open`); "id", by which labels and repetitions are recognised; "label" and "label_time" if the
            label is known already. The label of an event that came before is learnt as by `label`. An event without an
            id gets one from its source, destination and time, so that two such
            events with the same three count as one. An event with the source, destination and time of a fitted edge is
            that edge, so that it does not count again.
        position
            Where the source stands after these events, such as an offset; anything that JSON can hold. It is logged with
            the events: see `position`.

        Returns
        -------
        list of Answer
            One answer per event in the same order. An invalid event has an `error` and is not logged.

        Raises
        ------
        LogError
            If the log cannot be written. Nothing is scored or learnt then.
        """
        self._check()
        fields = self._fields_for(events)
        if fields is not self._state.fields:
            self._use({"columns": fields.columns})
        with no_garbage_collection():
            source = Mappings(events, fields)
            batch = EventBatch(self._state, source, *self._state.scorer.reader.read_all(source.contents))
            return self._learnt(source, batch, position)

    def submit_table(
        self,
        X: Any,
        y: Any = None,
        *,
        label_time: Any = None,
        ids: Sequence[Any] | None = None,
        position: Any = None,
        progress: Callable[[int, int], object] = lambda done, n: None,
    ) -> list[Answer]:
        """Score and learn the rows of a table, in the order of time; the answers are in that of the rows.

        Rows that came before are recognised by their ids, and a label that such a row has now is learnt: before the new
        rows if it is given when the labels became known, else after them, since it then becomes known now.

        Parameters
        ----------
        X
            The rows: `TemporalEdges`, or a table with the columns that the model was fitted on.
        y
            Labels, one value per row, missing if unknown. By default the labels of X.
        label_time
            When the labels became known, one value per row. By default the `label_time` of X, else as for `submit`.
        ids
            Ids of the rows. By default they are made of source, destination and time, with a number for further copies.
        position
            Where the source stands after these rows, see `submit`.
        progress
            A function that is called with the number of rows that are done, and of all rows.
        """
        scorer = self._state.scorer
        edges = scorer.reader.edges(X, y, label_time)
        if not len(edges):
            return []
        listed = ids_of_edges(edges, self.time_unit) if ids is None else [plain(id) for id in ids]
        if len(listed) != len(edges):
            raise EdgesError(f"The 'ids' must have one value per row: {len(edges):,}. Got {len(listed):,} instead.")
        order = rows_in_order(self._state, edges, listed)
        answers: list[Any] = [None] * len(edges)
        for start in range(0, len(order), AT_ONCE):
            rows = order[start : start + AT_ONCE]
            found = self._submit_rows(edges[rows], [listed[row] for row in rows.tolist()], position)
            for row, answer in zip(rows.tolist(), found, strict=True):
                answers[row] = answer
            progress(start + len(rows), len(order))
        return answers

    @locked
    def _submit_rows(self, edges: Any, ids: list[Any], position: Any) -> list[Answer]:
        self._check()
        with no_garbage_collection():
            source = EventTable(self._state.scorer.reader.columns(edges, ids), self.time_unit)
            batch = EventBatch(self._state, source, *self._state.scorer.reader.read_columns(source.columns))
            return self._learnt(source, batch, position)

    def _learnt(self, source: Mappings | EventTable, batch: EventBatch, position: Any) -> list[Answer]:
        """Log what is new in a batch, then learn it."""
        state, places, labels = self._state, batch.places, batch.labels
        kind = EVENTS if isinstance(source, Mappings) else TABLE
        records = [(LABELS, labels_payload(labels.new), len(labels.new))] if labels.new else []
        if places or position is not None:
            lines = source.payload(batch.stored) if places else []
            records.append((kind if places else EVENTS, events_payload(position, lines), len(places)))
        self._write(*records)
        with self._learning:
            labels.learn(state)
            if position is not None:
                state.position = position
            ids = source.ids_at(places)
            answers = state.process(batch.read, ids, batch.stored, batch.aliases) if places else []
            state.is_fresh &= not places
        found = batch.answers(answers)
        self._rate.add(len(found))
        self._count(len(places) + len(labels.new))
        self._n_differing += sum(answer.differs for answer in found)
        return found

    @locked
    def check(self, events: Sequence[Mapping[str, Any]]) -> list[EventError]:
        """What is wrong with events, in their order; nothing is logged or learnt."""
        fields, state = self._fields_for(events), self._state
        source = Mappings(events, fields)
        errors = {error.position: error for error in state.scorer.read(source.contents)[1]}
        for position, event in enumerate([] if state.settings.allow_missing else events):
            lacking = fields.absent(event)
            if lacking is not None and not state.knows(source.ids[position]):
                errors.setdefault(position, EventError(position, lacking[0], None, lacking[1]))
        return [errors[position] for position in sorted(errors)]

    @locked
    def withdraw(self, ids: Sequence[Any]) -> list[LabelAnswer]:
        """Log that events were no events, such as payments that were cancelled, and forget them.

        All decayed sums are then as if the events had not been, and their labels with them. Scores that were given stay,
        and so does what the columns about both ends keep of later events. The time since the last event of a node counts
        from the withdrawn one until the next one comes. Burst counts fade, and are not taken back.

        Parameters
        ----------
        ids
            The ids of the events.

        Returns
        -------
        list
            One answer per id; the error of an unknown or expired id is an `UnknownEventError`.
        """
        self._check()
        answers, known = to_withdraw(self._state, [plain(id) for id in ids])
        if known:
            self._write((WITHDRAWAL, labels_payload([{"id": id} for id in known]), len(known)))
            with self._learning:
                for id in known:
                    self._state.withdraw(id)
            self._count(len(known))
        return answers

    @locked
    def knows(self, id: Any) -> bool:
        """Whether an event with this id came before, and is not forgotten."""
        return self._state.knows(id)

    @locked
    def id_of(self, event: Mapping[str, Any]) -> Any:
        """The id by which an event is known: its own, or one made of source, destination and time; see `submit`."""
        source = Mappings([event], self._state.fields)
        EventBatch(self._state, source, *self._state.scorer.reader.read_all(source.contents))
        return source.content(0).get("id")

    @locked
    def remember(self, columns: Mapping[str, str], reading: Mapping[str, Any]) -> None:
        """Store the fields of events, and how nightly tables are read; see `settings`."""
        given = {"columns": dict(columns), "reading": dict(reading)}
        self._use({name: value for name, value in given.items() if value != getattr(self.settings, name)})

    def _fields_for(self, events: Sequence[Mapping[str, Any]]) -> Fields:
        """The fields; before the first event, src, dst and time are found by the names that an event without fault has."""
        fields, scorer = self._state.fields, self._state.scorer
        if self._state.n_events:
            return fields
        for event in events:
            found = fields.found_in(event) if isinstance(event, Mapping) else fields
            if found is not fields and not scorer.read([found.event(event)])[1]:
                return found
        return fields

    @locked
    def label(self, labels: Sequence[Mapping[str, Any]]) -> list[LabelAnswer]:
        """Log labels of earlier events, and learn them.

        Parameters
        ----------
        labels
            One mapping per label: "id" of the event, "label", and "time", when it became known. Without a time, it
            becomes known now, on the clock of the stream: the time of the latest event. A second label replaces the first
            one, and the log keeps both; the label None withdraws it. A label that the event has already changes nothing.

        Returns
        -------
        list of LabelAnswer
            One answer per label in the same order; the error of an unknown or expired id is an `UnknownEventError`.
        """
        self._check()
        given = [{name: plain(one.get(name)) for name in ("id", "label", "time")} for one in labels]
        batch = LabelBatch(self._state, given, self._state.now())
        if batch.new:
            self._write((LABELS, labels_payload(batch.new), len(batch.new)))
        with self._learning:
            batch.learn(self._state)
        self._count(len(batch.new))
        return batch.answers()

    # ---- reviewers

    @locked
    def decide(self, changes: Sequence[Mapping[str, Any]], by: str = "") -> list[ChangeAnswer]:
        """Log what a reviewer did with alerts, and learn it.

        Parameters
        ----------
        changes
            One mapping per alert: "id", and at least one of "label" (it decides the alert, None opens it again), "note" (a
            text) and "assignee" (the name of a reviewer, None for nobody). Besides, "reason", one of `team`; and
            "version", that of the alert as it was read: if it was changed since, the change is refused.
        by
            The name of the reviewer; empty for a program.

        Returns
        -------
        list of ChangeAnswer
            One answer per change in the same order. The error of a changed alert is a `ConflictError`.
        """
        self._check()
        answers, entries = checked_changes(self._state, changes, by)
        labels = [entry for entry in entries if "label" in entry]
        others = [{"do": "change", **entry} for entry in entries if "label" not in entry]
        records = ((LABELS, labels), (REVIEW, others))
        self._write(*((kind, labels_payload(some), len(some)) for kind, some in records if some))
        with self._learning:
            for entry in (*labels, *others):
                self._state.change(entry)
        self._count(len(entries))
        # the alerts as they are now: a later change of the same turn is not in the answer
        return [one if one.alert is None else replace(one, alert=replace(one.alert)) for one in answers]

    @locked
    def act(self, action: Mapping[str, Any], by: str = "") -> None:
        """Log another action of a reviewer, and learn it.

        Parameters
        ----------
        action
            What to "do": "person" (with "name", "role" and "token", see `tdlg.live.review.new_person`; the token None takes
            it back), "reasons" (the "reasons" of dismissals), "rules" (the "text" of the rules beside the model), "promote"
            (let the challenger be the model in place) or "drop" it, with the "generation" that is meant, "snooze" (no alerts
            of the "nodes", one or a source and a destination, "until" a time of the events or None, with a "note"), or
            "wake", which ends a snooze.
        by
            The name of the reviewer; empty for a command or a program.
        """
        for error in self._act_all([action], by):
            raise error

    @locked
    def _act_all(self, actions: Sequence[Mapping[str, Any]], by: str = "") -> list[Exception]:
        """Log actions with one sync, and learn them; what is wrong with those that cannot be done."""
        self._check()
        entries, errors = checked_actions(self._state, actions, by)
        if entries:
            promoted = [entry["generation"] for entry in entries if entry["do"] == "promote"][:1]
            switches = [(SWITCH, encode({"generation": name}).encode(), 1) for name in promoted]
            self._write((REVIEW, labels_payload(entries), len(entries)), *switches)
            with self._learning:
                self._state.act(entries)
                for generation in filter(None, map(self._directory.named, promoted)):
                    reasons = self._state.challenger_called(None).reasons
                    self._lead(self._state.led_by_challenger(), generation, reasons)
                if any(entry["do"] == "drop" for entry in entries):
                    self._settle()
            self._count(len(entries))
        return errors

    @property
    def people(self) -> Mapping[str, Person]:
        """The reviewers by name; the mapping is never changed, but replaced."""
        return self._state.review.people

    @property
    def model_file(self) -> Path:
        """The file of the model in place."""
        return self.folder / self._state.generation / MODEL

    @property
    def folder(self) -> Path:
        """The state directory."""
        return self._directory.folder

    @locked
    def team(self) -> dict[str, Any]:
        """Who reviews ("people"), why alerts can be dismissed ("reasons"), and what raises no alerts now ("snoozed")."""
        return self._state.review.team(self._state.clock)

    @locked
    def rules(self) -> dict[str, Any]:
        """The rules beside the model.

        Returns
        -------
        dict
            "text"; "rules": a list of {"name", "conditions", "alerts", "reviewed", "confirmed"} over the alerts that are
            kept; "incomplete_since": the time since when events are counted, if that is less than the longest window, else
            None.
        """
        return self._state.rules_in_words()

    @locked
    def audit(self, limit: int = 100) -> list[dict[str, Any]]:
        """The latest actions of reviewers, the newest first; the latest 10,000 are kept, and the log has all of them."""
        return [*self._state.review.audit][::-1][:limit]

    def _write(self, *records: tuple[int, bytes, int]) -> None:
        """Log records (kind, payload and count) with one sync; all of them or none."""
        log = self._directory.log
        for record in records:
            log.append(*record)
        if records:
            log.sync()

    def _use(self, changed: dict[str, Any]) -> None:
        """Log other settings, and use them from now on; settings that cannot be used are refused before."""
        if changed:
            prepared = self._state.prepared(changed)
            self._write((SETTINGS, encode(changed).encode(), 1))
            self._state.use(prepared)

    def _count(self, n: int) -> None:
        """Write a snapshot after enough events. If that fails, the log is longer to replay, and it is tried again later."""
        self._since_snapshot += n
        if self._since_snapshot < (self._snapshot_every or SNAPSHOT_EVERY):
            return
        if self._since_snapshot >= (self._snapshot_every or self._state.scorer.nbytes // SNAPSHOT_BYTES):
            self._since_snapshot, self._is_due = 0, self.in_steps
            if not self.in_steps:
                self._try_snapshot()

    def _try_snapshot(self) -> None:
        try:
            self.snapshot()
        except (StateError, OSError) as error:
            self._snapshot_failure = str(error)

    def _check(self) -> None:
        if self._failure is not None:
            failure = self._failure
            if isinstance(failure, StateError):
                raise failure
            raise StateError(
                f"Internal error: a record was logged but not learnt, because of {type(failure).__name__}: {failure}.",
                "Open the directory again: the log is replayed. A record that fails again is set aside.",
            )

    # ---- questions, none of which changes the state

    @property
    def classes(self) -> list[Any]:
        """The classes of the model, with whole numbers as integers; empty if it has none."""
        return self._state.outcome.classes

    @property
    def positive(self) -> Any:
        """The class that scores are about; None if the model has no classes."""
        return self._state.outcome.positive

    @property
    def negative(self) -> Any:
        """The label of a dismissed alert: the other one of two classes; None if there is no such class."""
        return self._state.outcome.other

    def is_positive(self, label: Any) -> bool:
        """Whether a label is the positive class; any label above 0 for a model without classes."""
        return self._state.outcome.is_positive(label)

    @property
    def threshold(self) -> float:
        """The score from which on an event is an alert."""
        return self._state.threshold

    @property
    def position(self) -> Any:
        """The position of the source that came with the latest events; None if none did."""
        return self._state.position

    @property
    def n_labels(self) -> int:
        """How many labels were set or withdrawn."""
        return self._state.n_labels

    @property
    def time_unit(self) -> str | None:
        """The unit of the stream's clock; None if times are numbers."""
        return self._state.outcome.unit

    def values_of(self, answer: Answer) -> Any:
        """The values that the model gave in an answer: probabilities, a number, or the score of a burst."""
        return self._state.outcome.values(answer.score, answer.probabilities)

    @property
    def settings(self) -> Settings:
        """What was chosen for the directory."""
        return self._state.settings

    @property
    def sequence(self) -> int:
        """Number of changes so far; see `changes`."""
        return self._state.alerts.sequence

    @locked
    def event(self, id: Any) -> dict[str, Any] | None:
        """An event with its score and label; None if it is neither recent nor an alert."""
        return self._explainer.event(id)

    @locked
    def explain(self, id: Any, top: int = 3) -> dict[str, Any]:
        """The reasons for the score of an event, in words.

        Parameters
        ----------
        id
            The id of a recent event or of an alert.
        top
            The most reasons to give, those of the largest effect first.

        Returns
        -------
        dict
            "id", "score", and "reasons": a list of {"what", "effect", "reason", "events"}, see
            `PropagationClassifier.explain`; "events" are the interactions behind a reason. Interactions that are no
            longer recent are missing in the words, though they count in the score.

        Raises
        ------
        UnknownEventError
            If the event is not kept any more, or never was.
        """
        check_count("explain", "top", top, 1)
        return self._explainer.explain(id, top)

    @locked
    def alerts(
        self,
        status: Status = "open",
        limit: int = 50,
        before: int | None = None,
        *,
        explained: bool = True,
        where: Where | None = None,
        order: Order = "newest",
    ) -> list[Alert]:
        """The alerts of a status, the newest first, each with its main reason.

        Parameters
        ----------
        status
            "open", "confirmed", "dismissed", "decided" (either of these two), "expired" (not decided, and too long ago for a
            label) or "all".
        limit
            The most alerts to give.
        before
            The `sequence` of an alert, to continue with older ones. By default the newest alerts.
        explained
            Whether reasons that nobody asked for yet are found, which takes some milliseconds each. See `reason`.
        where
            A function that says whether an alert is wanted; by default all are.
        order
            Which alerts come first: the "newest", those with the "highest" scores, or those with the "latest" change.
        """
        oldest = self._state.oldest
        listed = self._state.alerts.listed(status, limit, before, oldest, where, order)
        if explained:
            for alert in listed:
                self.reason(alert.id)
        return [replace(alert, status=status_of(alert, oldest)) for alert in listed]

    @locked
    def reason(self, id: Any) -> str:
        """The main reason for an alert in words; empty if none stands out, or if the alert is not kept any more."""
        alert = self._state.alerts.get(id)
        if alert is None:
            return ""
        if alert.reason is None:
            alert.reason = main_reason(self._explainer.explain(id, 3))
        return alert.reason

    @locked
    def question(self, id: Any, top: int = 3) -> tuple[str, Question | None]:
        """What `explain` needs, for another process: `Reasons.answer` of the model in this file is what `explain` gives.

        Of the id None, there is no question but the file, and this process looks through the fitted edges now.
        """
        if id is None:
            self._explainer.reasons.fitted.prepare()
        question = None if id is None else self._explainer.question(id, top)
        return str(self.model_file), question

    @locked
    def keep_reason(self, id: Any, reason: str) -> None:
        """Keep the main reason for an alert that was found elsewhere."""
        alert = self._state.alerts.get(id)
        if alert is not None:
            alert.reason = reason

    @locked
    def node(self, id: Any, limit: int = 100) -> dict[str, Any]:
        """The latest interactions of a node, fitted and live.

        Parameters
        ----------
        id
            The node. The text of a number stands for the number.
        limit
            The most interactions to give.

        Returns
        -------
        dict
            "id"; "events", in the order of time, the latest last; "n_live" and "n_fitted", the numbers of its
            interactions among the recent and the fitted ones; "labelled" and "positive", how many of the listed ones have
            a label, and the positive one.
        """
        return self._explainer.node(id, limit)

    @locked
    def statistics(self) -> dict[str, Any]:
        """Numbers for a page; see `tdlg.live.cases.statistics_of`."""
        return statistics_of(self._state, self._rate)

    @locked
    def drift(self) -> dict[str, Any]:
        """How far the last week is from what the model was fitted on; see `tdlg.live.drift.drift_of`."""
        return drift_of(self._state)

    @locked
    def changes(self, since: int = 0) -> list[dict[str, Any]]:
        """What happened to alerts after change number `since`, the oldest first.

        Each change has "sequence", "kind" ("alert" or "decision"), "id" and "status". The latest 10,000 are kept: if the
        first sequence is above `since` + 1, those between are not kept any more.
        """
        return self._state.alerts.changes(since)

    @locked
    def health(self) -> dict[str, Any]:
        """Whether events can be scored, and why not; the state of the log, and what uses disk and memory.

        "set_aside" has the records of the log that could not be learnt, "n_unseen_categories" how many events had a
        category that no fitted edge has, and "n_differing" how many repeated events, since it was opened, had another
        content than the first one with their id.

        If the log could not be written, a small write every 5 seconds at most shows whether it can be written again.
        """
        log = self._directory.log
        log.probe()
        of_directory = self._directory.health()
        reason = None if self._failure is None else str(self._failure) or type(self._failure).__name__
        reason = reason or of_directory.pop("failure")
        return {
            "ok": reason is None,
            "reason": reason,
            **self._state.health(),
            "n_differing": self._n_differing,
            "snapshot_failure": self._snapshot_failure,
            "refit_failure": self._takeover.failure or (self._refits and self._refits.failure) or None,
            "missing_records": log.n_missing,
            "free_bytes": shutil.disk_usage(log.folder).free,
            **of_directory,
        }


def check_rules(folder: Path, text: str, file: str) -> Rules:
    """Rules about the events of the model in a state directory, which another process may use."""
    edges = load_model(StateReader(folder).generation.path / MODEL).edges_
    names = [*edges.feature_names, *(["weight"] if edges.weight is not None else [])]
    fields = {name: name not in edges.feature_categories for name in names}
    return parse_rules(text, fields, stream_clock(edges)[0], file)


def _check_options(options: Mapping[str, Any]) -> None:
    """Refuse invalid options of `LiveModel.open`; None stands for an option that is not given."""
    columns, threshold = options["columns"], options["threshold"]
    if columns is not None and not isinstance(columns, Mapping):
        raise ParameterError(
            f"The 'columns' parameter of LiveModel.open must be a mapping from roles to fields. Got {columns!r} instead.",
            "Pass columns={'src': 'customer', 'dst': 'terminal', 'time': 'when'}, for example.",
            parameter="columns",
        )
    if threshold is not None and not (is_number(threshold) and -np.inf < threshold < np.inf):
        raise ParameterError(f"The 'threshold' must be a number. Got {threshold!r} instead.", parameter="threshold")
    if options["allow_missing"] not in (None, True, False):
        raise ParameterError(
            f"The 'allow_missing' parameter must be True or False. Got {options['allow_missing']!r} instead.",
            parameter="allow_missing",
        )
    if options["late"] is not None:
        check_choice("LiveModel.open", "late", options["late"], ("score", "refuse"))
    if options["alerts_per_day"] is not None:
        check_number("LiveModel.open", "alerts_per_day", options["alerts_per_day"])
    if options["explore"] not in (None, 0):
        check_number("LiveModel.open", "explore", options["explore"])
    for name in ("snapshot_every", "n_recent"):
        if options[name] is not None:
            check_count("LiveModel.open", name, options[name], 1)
