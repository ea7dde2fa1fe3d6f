"""LiveModel: a model that scores events as they happen, learns from them, and loses nothing that it answered."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Literal, Self

from tdlg.live.batch import Batch, LabelBatch, lacking_fields
from tdlg.live.directory import Generation, StateDirectory
from tdlg.live.events import EventError
from tdlg.live.fields import Fields, encode, plain
from tdlg.live.generations import (
    MODEL,
    fingerprint_of,
    model_file,
    restored_state,
    start_generation,
    write_arrays,
)
from tdlg.live.log import StateError
from tdlg.live.options import check_options, seconds_of
from tdlg.live.questions import Questions, locked
from tdlg.live.state import (
    EVENTS,
    LABELS,
    SETTINGS,
    Answer,
    LabelAnswer,
    LiveState,
    Settings,
    events_payload,
    labels_payload,
)
from tdlg.persist.model import load_model

__all__ = ["LiveModel"]

SNAPSHOT_EVERY = 100_000
SNAPSHOT_BYTES = 16_000  # written per event at most, so that snapshots of a large state do not hold up the events
N_RECENT = 100_000


class LiveModel(Questions):
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
        super().__init__(state)
        self._directory, self.model = directory, model
        self._keep, self._snapshot_every = keep, snapshot_every
        self._since_snapshot = self._n_differing = 0
        self._failure: BaseException | None = None
        self._snapshot_failure: str | None = None

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
            `EdgeOutlierDetector` with method="burst". Needed for a new directory. A directory of another model is refused.
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
        check_options(columns, keep, late, threshold, alerts_per_day, allow_missing, snapshot_every, n_recent)
        given = {
            "columns": None if columns is None else dict(columns),
            "late": late,
            "ahead": ahead,
            "threshold": threshold,
        }
        given |= {"alerts_per_day": alerts_per_day, "allow_missing": allow_missing}
        chosen: dict[str, Any] = {name: plain(value) for name, value in given.items() if value is not None}
        if alerts_per_day is not None and threshold is None:
            chosen["threshold"] = None  # which was fixed before
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
            live = cls(state, loaded, restored, seconds_of(keep), snapshot_every)
            live._since_snapshot = n_replayed
            if columns is not None:
                chosen["columns"] = {**live._state.settings.columns, **columns}
            live._use({name: value for name, value in chosen.items() if getattr(live._state.settings, name) != value})
        except BaseException:
            state.close()
            raise
        return live

    @locked
    def close(self) -> None:
        """Write a snapshot, and let others open the directory. A closed model can be closed again."""
        try:
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
        """Write the state, so that a restart needs not replay what came before; remove what need not be kept."""
        self._check()
        log = self._directory.log
        newest = self._directory.newest_snapshot()
        if newest is None or newest.sequence < log.synced:
            self._directory.write_snapshot(log.synced, lambda path: write_arrays(path, self._state.arrays()))
        self._since_snapshot, self._snapshot_failure = 0, None
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
        batch = Batch(self._state, events)
        records = [*_labels_record(batch.labels)]
        if batch.events or position is not None:
            records.append((EVENTS, events_payload(position, batch.lines), len(batch.events)))
        self._write(*records)
        with self._learning():
            batch.labels.learn(self._state)
            if position is not None:
                self._state.position = position
            answers = self._state.process(batch.events, batch.lines, batch.read) if batch.events else []
            self._state.is_fresh &= not batch.events
        self._rate.add(len(events))
        self._count(len(batch.events) + len(batch.labels.new))
        found = batch.in_order(answers)
        self._n_differing += sum(answer.differs for answer in found)
        return found

    @locked
    def check(self, events: Sequence[Mapping[str, Any]]) -> list[EventError]:
        """What is wrong with events, in their order; nothing is logged or learnt."""
        fields = self._fields_for(events)
        read = [fields.event(event) for event in events]
        errors = [*self._state.scorer.read(read)[1], *lacking_fields(self._state, fields, events, read)]
        first = {error.position: error for error in reversed(errors)}
        return [first[position] for position in sorted(first)]

    @locked
    def knows(self, id: Any) -> bool:
        """Whether an event with this id came before, and is not forgotten."""
        return self._state.knows(id)

    @locked
    def id_of(self, event: Mapping[str, Any]) -> Any:
        """The id by which an event is known: its own, or one made of source, destination and time; see `submit`."""
        return self._state.with_id(self._state.fields.event(event))["id"]

    @locked
    def remember(self, columns: Mapping[str, str], reading: Mapping[str, Any]) -> None:
        """Store the fields of events, and how the shell reads tables; see `settings`."""
        given = {"columns": dict(columns), "reading": dict(reading)}
        self._use({name: value for name, value in given.items() if value != getattr(self.settings, name)})

    def _fields_for(self, events: Sequence[Mapping[str, Any]]) -> Fields:
        """The fields; before the first event, src, dst and time are found by the names that an event without fault has."""
        fields, scorer = self._state.fields, self._state.scorer
        for event in () if self._state.n_events else events:
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
        batch = LabelBatch(self._state, [_plain_label(given) for given in labels], self._state.now())
        self._write(*_labels_record(batch))
        with self._learning():
            batch.learn(self._state)
        self._count(len(batch.new))
        return batch.in_order()

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
        if self._since_snapshot >= self._events_per_snapshot():
            self._since_snapshot = 0
            self._try_snapshot()

    def _events_per_snapshot(self) -> int:
        return self._snapshot_every or max(SNAPSHOT_EVERY, self._state.scorer.nbytes // SNAPSHOT_BYTES)

    def _try_snapshot(self) -> None:
        try:
            self.snapshot()
        except (StateError, OSError) as error:
            self._snapshot_failure = str(error)

    @contextmanager
    def _learning(self) -> Iterator[None]:
        """Remember an error or an interrupt while the state changes: the state in memory is then behind the log."""
        try:
            yield
        except BaseException as error:
            self._failure = error
            raise

    def _check(self) -> None:
        if self._failure is not None:
            failure = self._failure
            if isinstance(failure, StateError):
                raise failure
            raise StateError(
                f"An event was logged but not learnt, because of {type(failure).__name__}: {failure}.",
                "Open the directory again: the log is replayed, without that event if it cannot be learnt.",
            )

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
        state, of_directory = self._state, self._directory.health()
        reason = None if self._failure is None else str(self._failure) or type(self._failure).__name__
        reason = reason or of_directory.pop("failure")
        return {
            "ok": reason is None,
            "reason": reason,
            "model": type(self.model).__name__,
            "clock": None if state.scorer.clock is None else state.now(),
            "n_events": state.n_events,
            "n_labels": state.n_labels,
            "n_pending": state.scorer.n_pending,
            "n_nodes": state.scorer.n_nodes,
            "n_recent": len(state.recent),
            "n_unseen_categories": state.scorer.n_unseen,
            "n_differing": self._n_differing,
            "state_bytes": state.scorer.nbytes,
            "snapshot_failure": self._snapshot_failure,
            "missing_records": log.n_missing,
            "free_bytes": shutil.disk_usage(log.folder).free,
            "set_aside": state.set_aside,
            **of_directory,
        }


def _plain_label(given: Mapping[str, Any]) -> dict[str, Any]:
    return {name: plain(given.get(name)) for name in ("id", "label", "time")}


def _labels_record(batch: LabelBatch) -> list[tuple[int, bytes, int]]:
    """The record of the labels that are new, if there are any."""
    return [(LABELS, labels_payload(batch.new), len(batch.new))] if batch.new else []
