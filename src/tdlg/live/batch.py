"""The events or labels of one call: which are new and valid, and the answers to all of them. Nothing is learnt here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import takewhile
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from tdlg.clock import duration_in_words
from tdlg.edges import TemporalEdges
from tdlg.live.event import EventError, Events, copies_of, id_problem, made_id
from tdlg.live.records import ALIAS, Mappings, Table
from tdlg.live.scorer import UnknownEventError
from tdlg.live.state import Answer, LabelAnswer, LiveState
from tdlg.tables.ids import id_key

__all__ = ["Batch", "Labels", "rows_in_order", "to_withdraw"]


class Batch:
    """The events of one call.

    source : where they come from; read : those that can be scored, but for their labels; errors, of_labels : what is wrong
    with others, and with labels, by position. Afterwards `read` has the new and valid events, at the positions `places`,
    and `labels` those that came with events that were there before.
    """

    def __init__(
        self,
        state: LiveState,
        source: Mappings | Table,
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
        labels = sorted(self._label_of.items())
        labelled = read._replace(labels=[(k, label) for k, (label, _) in labels], known=[at for _, (_, at) in labels])
        self.read = labelled.some(new)
        self.places = self.read.positions
        self.stored = source.kept(self.places)
        after = state.outcome.time(max([state.clock, *self.read.ticks.tolist()])) if self._labelled else None
        self.labels = Labels(state, list(self._labelled.values()), after)

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
                self._compare(position, scorer.is_same(source.content(position), event.content()))
            elif key in self._first_of and position not in self._aliased:  # an alias is logged with its event
                first = self._first_of[key]
                self._repeats[position] = at = read.positions[first]
                self._compare(position, scorer.is_same(source.content(position), source.content(at)))
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
        ticks, knows = (
            read.ticks.tolist(),
            {k for k in new if read.ids[k] in scorer.pending and scorer.knows(read.ids[k])},
        )
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
        clock = state.clock
        some = [k for k in new if not clock <= ticks[k] <= clock + state.most_ahead and k not in knows]
        if not some:
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


class Labels:
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
    known = np.array([has and state.knows(id) for id, has in zip(ids, edges.labelled.tolist(), strict=True)])
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
