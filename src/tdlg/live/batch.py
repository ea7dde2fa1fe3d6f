"""The events or labels of one call: which are new and valid, and the answers to all of them in their order."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from tdlg.clock import duration_in_words
from tdlg.live.events import LABEL_FIELDS, EventError, Events
from tdlg.live.fields import Fields, encode
from tdlg.live.scorer import UnknownEventError
from tdlg.live.state import ALIAS, Answer, LabelAnswer, LiveState
from tdlg.tables.ids import id_key

__all__ = ["Batch", "LabelBatch", "lacking_fields"]


class Batch:
    """The events of one submit. Nothing is learnt here.

    Parameters
    ----------
    state
        The state of the live model.
    given
        The events as they were passed.

    Attributes
    ----------
    events, lines, read
        The events that are new and valid, each of them as JSON, and as the scorer read them.
    labels
        The labels that came with events that were there before.
    """

    def __init__(self, state: LiveState, given: Sequence[Mapping[str, Any]]) -> None:
        events = [state.fields.event(event) for event in given]
        self._given = given
        self._ids = [event.get("id") for event in events]
        self._answers: dict[int, Answer] = {}  # by the position of the event
        self._first_of: dict[int, int] = {}  # position of a repeated event: that of the first one in this batch
        self._labelled: dict[int, dict[str, Any]] = {}  # labels of events that were there before, by position
        self._label_errors: dict[int, EventError] = {}  # by position
        self._differing: set[int] = set()  # positions of repeated events whose content is not that of the first one
        self._at: list[int] = []  # position of each new event
        self.events: list[dict[str, Any]] = []
        aliases: dict[Any, Any] = {}
        self._sort(state, [state.with_id(event, aliases) for event in events])
        self.read = self._checked(state)
        self.lines = [encode(event).encode() for event in self.events]
        self.labels = LabelBatch(state, list(self._labelled.values()), self._time_after(state))

    def _sort(self, state: LiveState, events: list[dict[str, Any]]) -> None:
        """Answer events that are recent, and find those that are new."""
        first_of: dict[Any, int] = {}  # place among the new events, by id
        for place, event in enumerate(events):
            id = id_key(event["id"]) if isinstance(event["id"], Hashable) else None
            stored = state.recent.get(id)
            if _has_label(event) and state.knows(id):
                event = self._without_label(state, place, event)
            if stored is not None and all(event.get(name) is not None for name in ("src", "dst", "time")):
                self._answers[place] = state.answer_of(stored)
                self._compare(place, state.scorer.is_same(event, stored.content()))
            elif id is not None and id in first_of and ALIAS not in event:  # an alias is logged with its event
                self._first_of[place] = self._at[first_of[id]]
                self._compare(place, state.scorer.is_same(event, self.events[first_of[id]]))
                if _has_label(event):
                    self._add_label(state, place, first_of[id], event)
            else:
                first_of[id] = len(self.events)
                self._at.append(place)
                self.events.append(event)

    def _compare(self, place: int, is_same: bool) -> None:
        if not is_same:
            self._differing.add(place)

    def _without_label(self, state: LiveState, place: int, event: dict[str, Any]) -> dict[str, Any]:
        """An event that was there before, without its label, learnt as one that comes later if it is ever known."""
        if state.scorer.becomes_known(event["id"], event.get("label_time")):
            self._labelled[place] = {"id": event["id"], "label": event["label"], "time": event.get("label_time")}
        return {name: value for name, value in event.items() if name not in LABEL_FIELDS}

    def _add_label(self, state: LiveState, place: int, first: int, event: dict[str, Any]) -> None:
        """Give a new event the label of its repetition in the same batch, unless there is an error in the label."""
        whole = {**self.events[first], **{name: event.get(name) for name in LABEL_FIELDS}}
        wrong = [error for error in state.scorer.read([whole])[1] if error.field in LABEL_FIELDS]
        if wrong:
            self._label_errors[place] = wrong[0]._replace(position=place)
        else:
            self.events[first] = whole

    def _checked(self, state: LiveState) -> Events:
        """Read the new events; those with an error get it as their answer and are left out."""
        read, errors = state.scorer.read(self.events)
        timely = _too_late(state, self.events, read) + _too_far_ahead(state, self.events, read)
        lacking = lacking_fields(state, state.fields, [self._given[place] for place in self._at], self.events)
        wrong = {error.position: error for error in [*lacking, *errors, *timely]}
        for k, *content in zip(read.positions, read.ids, read.src, read.dst, read.ticks.tolist(), strict=True):
            if content[0] is not None and state.scorer.knows(content[0]):
                self._compare(self._at[k], state.scorer.has_ends(*content))
        if not wrong:
            return read
        for k, error in wrong.items():
            place = self._at[k]
            self._answers[place] = Answer(self._ids[place], error=error._replace(position=place))
            self._labelled.pop(place, None)
        kept = [k for k in range(len(self.events)) if k not in wrong]
        self._at, self.events = [self._at[k] for k in kept], [self.events[k] for k in kept]
        return read if len(kept) == len(read.positions) else state.scorer.read(self.events)[0]

    def _time_after(self, state: LiveState) -> Any:
        """The stream's clock after these events, when labels without a time become known."""
        return state.meaning.time(max([state.clock, *self.read.ticks.tolist()])) if self._labelled else None

    def in_order(self, answers: Sequence[Answer]) -> list[Answer]:
        """The answers to all events in their order, with the ids that they came with.

        Parameters
        ----------
        answers
            The answers to the new events.
        """
        self._answers |= zip(self._at, answers, strict=True)
        for place, first in self._first_of.items():
            self._answers[place] = replace(self._answers[first], repeated=True)
        for place, found in zip(self._labelled, self.labels.in_order(), strict=True):
            if found.error is not None:
                self._label_errors[place] = _as_event_error(place, found, self._labelled[place])
        for place in self._differing:
            if self._answers[place].error is None:
                self._answers[place] = replace(self._answers[place], differs=True)
        for place, error in self._label_errors.items():
            self._answers[place] = replace(self._answers[place], label_error=error)
        in_order = ((self._answers[place], id) for place, id in enumerate(self._ids))
        return [answer if id is None or answer.id == id else replace(answer, id=id) for answer, id in in_order]


class LabelBatch:
    """Labels of earlier events that come together.

    Parameters
    ----------
    state
        The state of the live model.
    given
        The labels, each with "id", "label" and "time" as plain values.
    now
        When those without a time become known.

    Attributes
    ----------
    new
        The labels that are valid and change something.
    """

    def __init__(self, state: LiveState, given: Sequence[dict[str, Any]], now: Any) -> None:
        self._ids = [one["id"] for one in given]
        self._answers: dict[int, LabelAnswer] = {}  # by the position of the label
        self._at: list[int] = []  # position of each new label
        self.new: list[dict[str, Any]] = []
        latest: dict[Any, Any] = {}
        for place, one in enumerate(given):
            label, time = state.meaning.label(one["label"]), now if one["time"] is None else one["time"]
            id = state.known_as(one["id"])
            error = state.label_error(id, label, time)
            if error is not None:
                self._answers[place] = LabelAnswer(one["id"], error)
                continue
            of = id_key(id)
            is_there = latest[of] == label if of in latest else state.has_label(of, label)
            latest[of] = label
            if not is_there:
                self._at.append(place)
                self.new.append({"id": id, "label": label, "time": time})

    def learn(self, state: LiveState) -> None:
        """Learn the new labels, which were logged before."""
        for place, one in zip(self._at, self.new, strict=True):
            self._answers[place] = replace(state.label(one["id"], one["label"], one["time"]), id=self._ids[place])

    def in_order(self) -> list[LabelAnswer]:
        """The answers to all labels in their order."""
        return [self._answers.get(place, LabelAnswer(id)) for place, id in enumerate(self._ids)]


def lacking_fields(
    state: LiveState, fields: Fields, given: Sequence[Mapping[str, Any]], events: Sequence[dict[str, Any]]
) -> list[EventError]:
    """Errors of events that lack the field of a feature, unless that is allowed, or the event came before.

    Parameters
    ----------
    state, fields
        The state of the live model, and the names that events use.
    given, events
        The events as they were passed, and as `Fields.event` reads them.
    """
    if state.settings.allow_missing:
        return []
    found = [(k, fields.absent(event)) for k, event in enumerate(given)]
    errors = [EventError(k, lacking[0], None, lacking[1]) for k, lacking in found if lacking is not None]
    return [error for error in errors if not state.knows(events[error.position].get("id"))]


def _has_label(event: Mapping[str, Any]) -> bool:
    label = event.get("label")
    return label is not None and label == label


def _as_event_error(place: int, answer: LabelAnswer, given: Mapping[str, Any]) -> EventError:
    """The error of a label as that of the event that it came with."""
    assert answer.error is not None
    if isinstance(answer.error, UnknownEventError):
        return EventError(place, "id", answer.id, str(answer.error))
    name = "time" if answer.error.parameter == "time" else "label"
    return EventError(place, "label_time" if name == "time" else name, given[name], str(answer.error))


def _too_far_ahead(state: LiveState, events: list[dict[str, Any]], read: Events) -> list[EventError]:
    """Errors of events so far ahead that after them all others would be late or too old."""
    ticks, most, latest = read.ticks, state.most_ahead, state.clock
    if not len(ticks) or ticks.max() <= latest + most:
        return []
    free = state.tomorrow()
    if free is None and state.is_fresh:  # numbers: nothing tells how long the model has not been used
        free = ticks.min()
    errors = []
    for tick, k in sorted(zip(ticks.tolist(), read.positions, strict=True)):
        if tick <= latest + most or (free is not None and tick <= free):
            latest = max(latest, tick)
            continue
        gap, allowed = (duration_in_words(float(span), state.meaning.unit) for span in (tick - latest, most))
        message = (
            f"It is {gap} after the latest event, {state.meaning.time(latest)}: after it, all others would be late. If it "
            f"is right, open the live model with a larger 'ahead' (--ahead), which is {allowed} now."
        )
        errors.append(EventError(k, "time", events[k]["time"], message))
    return errors


def _too_late(state: LiveState, events: list[dict[str, Any]], read: Events) -> list[EventError]:
    """Errors of events that are too late: beyond the horizon, or at all if late events are refused."""
    clock, errors = state.clock, []
    for k, tick in zip(read.positions, read.ticks.tolist(), strict=True):
        if tick >= clock or state.scorer.knows(events[k]["id"]):
            continue
        why = "and late events are refused" if state.settings.late == "refuse" else ""
        why = "which is too late: a repetition would not be recognised" if state.scorer.is_too_old(tick) else why
        if why:
            message = f"It is before the latest event, {state.now()}, {why}."
            errors.append(EventError(k, "time", events[k]["time"], message))
    return errors
