"""The events of one submit: which are new and valid, and the answers to all of them in their order."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from tdlg.live.events import EventError, Events
from tdlg.live.fields import encode
from tdlg.live.state import Answer, LiveState

__all__ = ["Batch"]


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
    """

    def __init__(self, state: LiveState, given: Sequence[Mapping[str, Any]]) -> None:
        events = [state.fields.event(event) for event in given]
        self._ids = [event.get("id") for event in events]
        self._answers: dict[int, Answer] = {}  # by the position of the event
        self._first_of: dict[int, int] = {}  # position of a repeated event: that of the first one in this batch
        self._at: list[int] = []  # position of each new event
        self.events: list[dict[str, Any]] = []
        self._sort(state, [state.with_id(event) for event in events])
        self.read = self._checked(state)
        self.lines = [encode(event).encode() for event in self.events]

    def _sort(self, state: LiveState, events: list[dict[str, Any]]) -> None:
        """Answer events that are recent, and find those that are new."""
        place_of: dict[Any, int] = {}
        for place, event in enumerate(events):
            id = event["id"] if isinstance(event["id"], Hashable) else None
            stored = state.recent.get(id)
            if stored is not None and all(event.get(name) is not None for name in ("src", "dst", "time")):
                self._answers[place] = state.answer_of(stored)
            elif id is not None and id in place_of:
                self._first_of[place] = place_of[id]
            else:
                place_of[id] = place
                self._at.append(place)
                self.events.append(event)

    def _checked(self, state: LiveState) -> Events:
        """Read the new events; those with an error get it as their answer and are left out."""
        read, errors = state.scorer.read(self.events)
        wrong = {error.position: error for error in [*errors, *_too_late(state, self.events, read)]}
        if not wrong:
            return read
        for k, error in wrong.items():
            place = self._at[k]
            self._answers[place] = Answer(self._ids[place], error=error._replace(position=place))
        kept = [k for k in range(len(self.events)) if k not in wrong]
        self._at, self.events = [self._at[k] for k in kept], [self.events[k] for k in kept]
        return read if len(kept) == len(read.positions) else state.scorer.read(self.events)[0]

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
        in_order = ((self._answers[place], id) for place, id in enumerate(self._ids))
        return [answer if id is None or answer.id == id else replace(answer, id=id) for answer, id in in_order]


def _too_late(state: LiveState, events: list[dict[str, Any]], read: Events) -> list[EventError]:
    """Errors of events that are too late: beyond the horizon, or at all if late events are refused."""
    clock, errors = state.clock, []
    for k, tick in zip(read.positions, read.arrived.ticks.tolist(), strict=True):
        if tick >= clock or state.scorer.knows(events[k]["id"]):
            continue
        why = "and late events are refused" if state.settings.late == "refuse" else ""
        why = "which is too late: a repetition would not be recognised" if state.scorer.is_too_old(tick) else why
        if why:
            message = f"It is before the latest event, {state.now()}, {why}."
            errors.append(EventError(k, "time", events[k]["time"], message))
    return errors
