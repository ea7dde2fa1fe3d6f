"""A new model from the log of a live one: put in place unless it would have been worse; the old one is kept."""

from __future__ import annotations

import shutil
import warnings
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from itertools import compress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from tdlg.clock import times_of
from tdlg.edges import TemporalEdges
from tdlg.exceptions import EdgesError, ParameterError, TdlgError, TdlgWarning, warn
from tdlg.judge.metrics import RESAMPLES, auc_and_precision, rank
from tdlg.live.drift import Drift, quantities_of
from tdlg.live.event import events_of, labels_of, withdrawn_by
from tdlg.live.explain import edges_of_contents
from tdlg.live.explore import review_weights
from tdlg.live.log import Record, StateError
from tdlg.live.outcome import Outcome, start_of
from tdlg.live.replay import (
    MODEL,
    SCORER,
    TrainedOn,
    fingerprint_of,
    learn_label,
    origin_of,
    replayed,
    restored_state,
    set_aside,
    write_origin,
    write_state,
)
from tdlg.live.scorer import StreamScorer
from tdlg.live.state import LiveState
from tdlg.live.store import ArrayFile, Generation, InUseError, StateDirectory, StateReader, write_arrays
from tdlg.models.propagation import labelled_edges
from tdlg.persist.model import load_model
from tdlg.sampling.index import joined_edges
from tdlg.tables.ids import id_key

__all__ = ["Comparison", "Gain", "Scores", "go_back", "refit"]

Floats = NDArray[np.float64]

WINDOW = 0.3  # share of the labelled events that both models are compared on, the latest ones
LONGEST_WINDOW = 0.5  # the same at most, if a class is rare: the new model must have learnt something before
LEAST_OF_CLASS = 10  # least number of labelled events of each class in that window
CHANCE = (0.1, 0.9)  # quantiles of the interval of a difference: what nine of ten resamplings agree on is not chance


class Scores(NamedTuple):
    """How well a model did: two areas for a classifier, the root of the mean squared error for a regressor."""

    auc: float | None = None
    average_precision: float | None = None
    error: float | None = None


class Gain(NamedTuple):
    """By how much the new model is better: in average precision, or by how much its error is smaller.

    `low` and `high` are the ends of the 80 % interval, by a bootstrap over the compared events, the same for both models.
    """

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Comparison:
    """What a refit found, and what it did.

    Attributes
    ----------
    old, new
        How good two models were in the evaluation window: the one in place, and one that was fitted on what was known
        before the window. Both scored every event with what was known then. None if there were too few labels.
    n_events, n_positive
        Number of labelled events in the window, and of those of the positive class; None for a regressor.
    n_alerts
        Number of labelled events in the window that had been alerts. The model in place chose them by its own score, which
        therefore differs little among them: on alerts alone, this model looks worse than it is.
    share_of_alerts
        Their share, where an event that was drawn for random review counts as often as its chance says that it stands for.
    gain
        The difference between both models, with its interval; None if there were too few labels.
    start, stop
        Times of the first and the last event of the window.
    reason
        Why the new model is in use, or why the old one stays.
    generation
        Name of the new generation; None if the old model stays, or if another process takes the new one over.
    is_requested
        Whether another process uses the state directory, and takes the new model over.
    """

    old: Scores | None = None
    new: Scores | None = None
    n_events: int = 0
    n_positive: int | None = None
    n_alerts: int = 0
    share_of_alerts: float = 0.0
    gain: Gain | None = None
    start: Any = None
    stop: Any = None
    reason: str = "nothing was compared"
    generation: str | None = None
    is_requested: bool = False

    @property
    def objection(self) -> str | None:
        """Why the old model stays, unless it is forced; None if nothing speaks against the new one."""
        if self.gain is None:
            return None
        if self.share_of_alerts > 0.5:
            return (
                f"{self.n_alerts:,} of the {self.n_events:,} labels are of alerts, which the old model chose by its score; "
                "at least half of them must be of other events, or random review (--explore) must stand for these"
            )
        return "the new model is worse, by more than chance" if self.gain.high < 0 else None


def refit(
    directory: Any,
    *,
    force: bool = False,
    shadow: bool = False,
    callback: Callable[[str], object] = lambda text: None,
) -> Comparison:
    """Fit a new model to all that a state directory holds, and put it in place unless it is worse.

    The new model learns from the edges that the old one was fitted on and from the log: its events, and its labels with the
    times at which they became known. Both are compared on the latest labelled events, as they were scored live: the old one
    by a replay of the log, the new one by a copy that is fitted only on what was known before these events and then sees
    the same records. The new one is fitted on everything and becomes the active generation together with its state if it
    is better, or if there is no clear difference, since it knows the newer labels. The old one stays if the new one is worse
    by more than chance, or if most of the compared labels are of alerts, which say too little about other events. `go_back`
    returns to the old one.

    Parameters
    ----------
    directory
        The state directory. If another process uses it, such as the service, that process takes the new model over,
        within seconds (see `LiveModel.work`).
    force
        Whether to put the new model in place in any case: also if it is worse, if there are too few labels to compare the
        two, or if a part of the log was removed. False by default.
    shadow
        Whether to put the new model beside the old one instead, as its challenger: both score what comes, and the old one
        answers until the challenger is promoted (see `LiveModel.challenger`). Nothing is compared now. False by default.
    callback
        A function that is called with a text before each long step.

    Raises
    ------
    EdgesError
        If there are too few labelled events to compare the models, and it is not forced.
    StateError
        If events that the old model was not fitted on have been removed from the log (`keep`), and it is not forced.
    """
    opened: StateDirectory | StateReader
    try:
        opened = StateReader(directory) if shadow else StateDirectory(directory)
    except InUseError:
        opened = StateReader(directory)
        callback("beside the process that uses the state, which takes over the new model")
    with opened if isinstance(opened, StateDirectory) else nullcontext(opened) as state:
        if isinstance(state, StateDirectory):
            state.warn_of_losses()
        history = _LoggedHistory.read(state)
        _check_hole(history, force)
        window = None if history.n_lost or shadow else _EvaluationWindow.last_of(history, needed=not force)
        found = Comparison() if window is None else _comparison(state, history, window, callback)
        if found.objection is not None and not force:
            return replace(found, reason=found.objection)
        callback("fitting the new model to everything")
        reason = found.reason if found.objection is None else f"it was forced, though {found.objection}"
        if isinstance(state, StateReader):
            _leave_request(state, history, "shadow" if shadow else "model")
            return replace(found, reason=reason, is_requested=True)
        return replace(found, reason=reason, generation=_switched(state, history).name)


def _check_hole(history: _LoggedHistory, force: bool) -> None:
    """Refuse a log of which a part was removed that the model has not learnt; only warn if it is forced."""
    if not history.n_lost:
        return
    problem = (
        f"{history.n_lost:,} records of the log that the model in place was not fitted on have been removed. A new model "
        f"would have a hole in its past, after {history.outcome.time(history.clock_before(0))}."
    )
    keep = "Keep the log for longer than it takes from one refit to the next (keep, --keep)."
    if not force:
        raise StateError(problem, keep, "Or pass force=True, which compares nothing.")
    warn(problem, keep)


def _comparison(
    state: StateDirectory | StateReader,
    history: _LoggedHistory,
    window: _EvaluationWindow,
    callback: Callable[[str], object],
) -> Comparison:
    callback("replaying the log with the old model")
    old = window.scores(history.scorer_before(state, window.first), history.records)
    callback(f"fitting a new model to what was known before {window.start}")
    model, ids = history.fitted(window.first)
    callback("replaying the log with the new model")
    new = window.scores(history.scorer_of(model, ids, window.first), history.records)
    raised = {id_key(one.id) for one in restored_state(state, history.model)[0].alerts if one.blind is None}
    was_alert = np.array([id in raised for id in window.ids])
    gain = window.gain(old, new)
    return Comparison(
        window.measured(old),
        window.measured(new),
        len(window.ids),
        window.n_positive,
        int(was_alert.sum()),
        float(np.average(was_alert, weights=window.each)),
        gain,
        window.start,
        window.stop,
        "the new model is better, by more than chance"
        if gain.low > 0
        else "there is no clear difference, and the new model knows the newer labels",
    )


def go_back(directory: Any) -> str:
    """Make the generation that was active before the present one active again; its state follows from a replay of the log.

    Parameters
    ----------
    directory
        The state directory, which no other process may use now.

    Returns
    -------
    str
        The name of the generation.
    """
    with StateDirectory(directory) as state:
        state.warn_of_losses()
        state.go_back()
        return state.generation.name


# ---- what happened


class _Event(NamedTuple):
    """A logged event: the number of its record, its content, and its time in ticks of the stream."""

    record: int
    content: dict[str, Any]
    ticks: Any


class _Label(NamedTuple):
    """A label, the number of its record, and when it became known in ticks; None withdraws it."""

    record: int
    label: Any
    ticks: Any
    chance: float | None = None  # with which its event was drawn for random review


class _LoggedHistory:
    """The edges that a model was fitted on, and the events and labels of the log that came since."""

    def __init__(self, model: Any, origin: TrainedOn, records: list[Record]) -> None:
        self.model, self.records = model, records
        self.n_lost = 0  # records of the log that were removed, and that the model was not fitted on
        fresh = StreamScorer(model, ids=origin.ids)
        self._scorer, self.outcome = fresh, Outcome(model)
        self._origin = origin
        self.events: dict[Any, _Event] = {}
        self.labels: dict[Any, list[_Label]] = {}
        self.withdrawn: dict[Any, int] = {}  # ids of events that were withdrawn, and the numbers of the records
        known = set(map(id_key, origin.ids))
        for record in records:
            for content in events_of(record, self.outcome.unit):
                id = id_key(content["id"])
                if id not in self.events and id not in known:
                    self._add_event(record.sequence, id, content)
            for given in labels_of(record):
                self._add_label(record.sequence, given)
            self.withdrawn |= {id_key(id): record.sequence for id in withdrawn_by(record)}

    @classmethod
    def read(cls, state: StateDirectory | StateReader) -> _LoggedHistory:
        """What the active generation of a state directory was fitted on, and its log."""
        model = load_model(state.generation.path / MODEL)
        if getattr(model, "setting_", None) != "stream":
            raise ParameterError(
                f"Only models that learn from labels are refitted. This is a {type(model).__name__}.",
                parameter="directory",
            )
        origin = origin_of(state.generation, model)
        after = max(origin.sequence, state.log.first - 1)
        aside = {record["sequence"] for record in set_aside(state)}
        history = cls(model, origin, [record for record in state.log.replay(after) if record.sequence not in aside])
        history.n_lost = after - origin.sequence
        return history

    def _ticks(self, time: Any) -> Any:
        return self._scorer.reader.tick_of(time)

    def _add_event(self, record: int, id: Any, content: dict[str, Any]) -> None:
        ticks = self._ticks(content["time"])
        self.events[id] = _Event(record, content, ticks)
        read = self._scorer.read([content])[0]
        for (_, label), known in zip(read.labels, read.known, strict=True):
            self.labels.setdefault(id, []).append(_Label(record, label, known))

    def _add_label(self, record: int, given: dict[str, Any]) -> None:
        label = given["label"]
        try:
            label = None if label is None else self._scorer.reader.label_of(label)
            ticks = self._ticks(given["time"])
        except TdlgError:
            return  # it was refused when it came
        self.labels.setdefault(id_key(given["id"]), []).append(_Label(record, label, ticks, given.get("chance")))

    @property
    def n_learnt(self) -> int:
        """How many events of the log, of all generations, a model that is fitted on everything learns from."""
        return self._origin.n_learnt + len(self.events)

    # ---- what was known before a record

    def label_before(self, id: Any, record: int) -> _Label | None:
        """The label of an event that was logged before a record."""
        before = [label for label in self.labels.get(id, ()) if label.record < record]
        return before[-1] if before and before[-1].label is not None else None

    def chances_before(self, record: int) -> dict[Any, float]:
        """The events whose label is from random review, and the chance with which each was drawn."""
        before = {id: self.label_before(id, record) for id in self.labels}
        known = {id_key(id): chance for id, chance in self._origin.chances if before.get(id_key(id)) is None}
        return known | {id: one.chance for id, one in before.items() if one is not None and one.chance is not None}

    def clock_before(self, record: int) -> Any:
        """The latest time of an edge or event before a record."""
        fitted = self.outcome.on_clock(self.model.edges_.ticks, self.model.edges_.time_unit).max().item()
        return max([fitted, *(event.ticks for event in self.events.values() if event.record < record)])

    def edges_before(self, record: int) -> tuple[TemporalEdges, list[Any]]:
        """The fitted edges and the events before a record, with the labels that were known then; and their ids."""
        gone = {id for id, number in self.withdrawn.items() if number < record}
        events = [event for id, event in self.events.items() if event.record < record and id not in gone]
        fitted, kept = labelled_edges(self.model.features_), [id_key(id) not in gone for id in self._origin.ids]
        fitted, ids = fitted[np.array(kept, bool)] if gone else fitted, [*compress(self._origin.ids, kept)]
        edges = joined_edges(fitted, self._as_edges(events)) if events else fitted
        ids += [event.content["id"] for event in events]
        return self._labelled(edges, ids, record), ids

    def _labelled(self, edges: TemporalEdges, ids: list[Any], record: int) -> TemporalEdges:
        """The edges with the labels that had become known before a record."""
        clock = self.clock_before(record)
        label = np.full(len(edges), None, object)
        known = edges.labelled
        label[known] = np.asarray(edges.label)[known]
        ticks = self.outcome.on_clock(edges.known_at, edges.time_unit)
        for place, id in enumerate(map(id_key, ids)):
            if id in self.labels:
                given = self.label_before(id, record)
                is_known = given is not None and given.ticks <= clock
                label[place] = given.label if given is not None and is_known else None
                ticks[place] = given.ticks if given is not None and is_known else ticks[place]
        numbers = np.asarray(self.model.labels_).dtype.kind in "iuf"
        typed = np.array([np.nan if one is None else one for one in label], float) if numbers else label
        return edges.with_label(None).with_label(typed, times_of(ticks, self.outcome.unit))

    def _as_edges(self, events: list[_Event]) -> TemporalEdges:
        fitted = self.model.edges_
        times = times_of(np.array([event.ticks for event in events], self._dtype), self.outcome.unit)
        return edges_of_contents([event.content for event in events], times, fitted[:0]).with_ids_of(fitted)

    @property
    def _dtype(self) -> Any:
        return np.int64 if self.outcome.unit is not None else self.model.edges_.ticks.dtype

    # ---- models and scorers

    def fitted(self, record: int) -> tuple[Any, list[Any]]:
        """A new model, fitted on what was known before a record, and the ids of its edges."""
        edges, ids = self.edges_before(record)
        model, chances, weight = clone(self.model).set_params(setting="stream"), self.chances_before(record), None
        if chances:
            n_unlabelled = np.count_nonzero(~edges.labelled[max(0, len(edges) - self.n_learnt) :])
            weight = review_weights([chances.get(id_key(id)) for id in ids], int(n_unlabelled))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", TdlgWarning)  # the labels are as they were when the first model was fitted
            model.fit(edges, sample_weight=weight)
        model.label_delay_ = self.model.label_delay_
        for name in ("positive_", "label_name_", "columns_"):  # which the shell sets
            if hasattr(self.model, name):
                setattr(model, name, getattr(self.model, name))
        return model, ids

    def scorer_of(self, model: Any, ids: list[Any], record: int) -> StreamScorer:
        """The scorer of a model that was fitted on what was known before a record, with the labels that wait."""
        scorer = StreamScorer(model, ids=ids)
        clock = self.clock_before(record)
        for id in self.labels:
            given = self.label_before(id, record)
            if given is not None and given.ticks > clock:
                learn_label(scorer, id, given.label, self.outcome.time(given.ticks))
        return scorer

    def scorer_before(self, state: StateDirectory | StateReader, record: int) -> StreamScorer:
        """The scorer of the old model as it was before a record: from a snapshot, or from the start."""
        for snapshot in state.generation.whole_snapshots():
            if snapshot.sequence < record:
                live = LiveState.restored(self.model, ArrayFile(snapshot.path))
                done, scorer = snapshot.sequence, live.scorer
                break
        else:
            done, scorer = self._origin.sequence, self._scorer
        if state.log.first > done + 1:
            raise StateError("The log does not reach back far enough to replay the old model.", "Keep more of it.")
        for _ in replayed(scorer, (each for each in self.records if done < each.sequence < record)):
            pass
        return scorer


class _EvaluationWindow:
    """The latest labelled events, on which two models are compared."""

    def __init__(self, history: _LoggedHistory, ids: list[Any], labels: list[Any]) -> None:
        self._history = history
        self.ids, self._labels = ids, labels
        self.first = min(history.events[id].record for id in ids)
        ticks = [history.events[id].ticks for id in ids]
        self.start, self.stop = history.outcome.time(min(ticks)), history.outcome.time(max(ticks))
        self._is_positive = np.array([history.outcome.is_positive(label) for label in labels])
        chances = history.chances_before(LAST)
        later = (id for id, event in history.events.items() if event.record >= self.first)
        n_unlabelled = sum(history.label_before(id, LAST) is None for id in later)
        self.each = review_weights([chances.get(id) for id in ids], n_unlabelled)  # how many events each stands for

    @classmethod
    def last_of(cls, history: _LoggedHistory, *, needed: bool) -> _EvaluationWindow | None:
        """The last part of the labelled events; more of them if a class is too rare there. None if that is not enough."""
        final = {id: history.label_before(id, LAST) for id in history.events if id not in history.withdrawn}
        labelled = [(id, found.label) for id, found in final.items() if found is not None]
        start, first = (int((1 - share) * len(labelled)) for share in (WINDOW, LONGEST_WINDOW))
        while start > first and not _is_enough(history, labelled[start:]):
            start = max(first, start - max(1, len(labelled) // 20))
        if not _is_enough(history, labelled[start:]):
            if not needed:
                return None
            raise EdgesError(
                f"The log has {len(labelled):,} labelled events. To compare two models, at least {LEAST_OF_CLASS} of each "
                "class are needed in the latter half of them, or of all if labels are numbers. Wait for more labels.",
                "Or pass force=True, which compares nothing.",
            )
        return cls(history, [id for id, _ in labelled[start:]], [label for _, label in labelled[start:]])

    @property
    def n_positive(self) -> int | None:
        """Number of events of the positive class; None for a regressor."""
        return int(self._is_positive.sum()) if self._history.outcome.classes else None

    def scores(self, scorer: StreamScorer, records: list[Record]) -> Floats:
        """The scores of these events as they would have been live."""
        found: dict[Any, float] = {}
        later = (record for record in records if record.sequence >= self.first)
        for ids, values in replayed(scorer, later):
            found |= zip(ids, self._history.outcome.scores(values).tolist(), strict=True)
        return np.array([found[id] for id in self.ids])

    def measured(self, scores: Floats) -> Scores:
        """How well these scores tell the labels."""
        if self._history.outcome.classes:
            return Scores(*auc_and_precision(self._is_positive, scores, self.each))
        return Scores(error=float(np.sqrt(np.average(self._squares(scores), weights=self.each))))

    def gain(self, old: Floats, new: Floats) -> Gain:
        """By how much the new scores are better than the old ones."""
        if self._history.outcome.classes:
            ranked = [rank(self._is_positive, scores, each=self.each) for scores in (old, new)]
            (was, of_old), (now, of_new) = (
                (of.average_precision[0], of.resampled[:, 1]) for of in ranked if of is not None
            )
            return Gain(now - was, *np.nanquantile(of_new - of_old, CHANCE).tolist())
        squares = np.array([self._squares(old), self._squares(new)])
        weights = (np.random.default_rng(0).poisson(1.0, (RESAMPLES, len(old))) + 1e-12) * self.each
        was, now = np.sqrt(np.average(squares, axis=1, weights=self.each)).tolist()
        of_old, of_new = np.sqrt(squares @ weights.T / weights.sum(axis=1))
        return Gain(was - now, *np.quantile(of_old - of_new, CHANCE).tolist())

    def _squares(self, scores: Floats) -> Floats:
        return (np.array(self._labels, float) - scores) ** 2


LAST = 2**63  # a number after that of all records


def _is_enough(history: _LoggedHistory, labelled: Sequence[tuple[Any, Any]]) -> bool:
    if not history.outcome.classes:
        return len(labelled) >= LEAST_OF_CLASS
    n_positive = sum(history.outcome.is_positive(label) for _, label in labelled)
    return min(n_positive, len(labelled) - n_positive) >= LEAST_OF_CLASS


# ---- the new generation


def _switched(state: StateDirectory, history: _LoggedHistory) -> Generation:
    """Fit a model on everything, and make it the active generation with its state."""
    last = state.log.synced
    model, ids = history.fitted(LAST)
    live, _ = restored_state(state, history.model)
    scorer = history.scorer_of(model, ids, LAST)
    scorer.forget()
    chances = [*history.chances_before(LAST).items()]
    following, origin = live.followed_by(model, scorer), TrainedOn(last, ids, history.n_learnt, chances)
    with TemporaryDirectory() as folder:
        file = Path(folder) / MODEL
        model.save(file)
        return state.switch(fingerprint_of(file), lambda generation: write_state(generation, file, origin, following))


def _leave_request(state: StateReader, history: _LoggedHistory, role: str) -> None:
    """Fit a model on everything, and leave it with its scorer for the process that holds the directory."""
    model, ids = history.fitted(LAST)
    scorer = history.scorer_of(model, ids, LAST)
    scorer.forget()
    outcome = Outcome(model)
    start = start_of(model, outcome)
    drift = Drift(quantities_of(model, outcome, scorer.own, *start.latest), scorer.own, outcome.day)
    arrays = {f"scorer/{name}": array for name, array in scorer.saved().items()}
    arrays |= {f"drift/{name}": array for name, array in drift.arrays().items()}
    arrays |= {"start": start.scores, "counts": np.array([start.per_day, start.n_edges])}

    def fill(folder: Path) -> None:
        write_origin(folder, TrainedOn(state.synced, ids, history.n_learnt, [*history.chances_before(LAST).items()]))
        write_arrays(folder / SCORER, arrays)
        shutil.move(file, folder / MODEL)

    with TemporaryDirectory() as temporary:
        file = Path(temporary) / MODEL
        model.save(file)
        state.leave_request(fingerprint_of(file), role, fill)
