"""StreamScorer: score interactions as they come, and learn of labels when they become known."""

from __future__ import annotations

import json
from collections.abc import Hashable, Iterable, Mapping, Sequence
from functools import partial
from itertools import compress
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from tdlg._kernels import DST, SRC
from tdlg.clock import Duration, as_seconds, duration_in_words, is_duration, rounded_up, ticks_per_second, times_of
from tdlg.edges import TemporalEdges
from tdlg.exceptions import EdgesError, ParameterError, TdlgError
from tdlg.live.event import EventError, EventReader, Events
from tdlg.models.bursts import BurstDetector, widths_in_ticks
from tdlg.models.propagation import PropagationClassifier, PropagationRegressor
from tdlg.models.surprise import SurpriseDetector
from tdlg.propagate.bursts import RunningBursts
from tdlg.propagate.plan import OwnColumn
from tdlg.propagate.running import RunningColumns, Updates, stream_clock
from tdlg.propagate.state import EventRows, NodeCodes, PrefixedArrays, SavedArrays, StreamEvents, index_of
from tdlg.tables.ids import id_key

__all__ = ["LiveScores", "StreamScorer", "UnknownEventError"]

Floats = NDArray[np.float64]
Positions = NDArray[np.int64]

HORIZON = 2.0  # of the longest time scale, and of the longest label delay: for how long labels of an event are accepted
FORGET_EVERY = 100_000  # keys or events that are added before memory is looked through
IDS_AT_ONCE = 100_000  # that are written together
STARTED_AT_ONCE = 16_384  # fitted edges
NO_ROW = -1


class UnknownEventError(TdlgError, KeyError):
    """A label for an event that is not known, or was so long ago that it is forgotten."""

    __str__ = TdlgError.__str__


class LiveScores(NamedTuple):
    """What was found for events, in the order in which they were given.

    Attributes
    ----------
    values
        Probabilities of the classes, (n_events, n_classes); predicted numbers or burst scores, (n_events,).
    columns
        The columns of the events, (n_events, n_columns); NaN for repeated events. None for burst scores.
    late
        Whether an event was before the latest one seen, so that its score is as of then, (n_events,).
    repeated
        Whether an event was there before, by its id, so that it has its first score and did not count again, (n_events,). A
        fitted edge that comes as an event without an id was there before too, and is scored.
    """

    values: Floats
    columns: Floats | None
    late: NDArray[np.bool_]
    repeated: NDArray[np.bool_]


class StreamScorer:
    """Score interactions as they come, with the columns of setting="stream", from a few numbers per node and pair.

    The state starts with the edges that the model was fitted on, and their labels. An interaction sees what happened
    strictly before it and the labels that were known by then; interactions at the same time do not see each other. The
    scores of a stream are those that the model gives for the whole table.

    Interactions and labels may come in any order: all decayed sums depend only on the times that the records carry. A late
    interaction, one before the latest time seen, is scored as of now. For the columns about both ends, what is known about
    an interaction stays as it was when the interaction came; a late one enters the history of its nodes at its place in
    time.

    Parameters
    ----------
    model
        A fitted `PropagationClassifier` or `PropagationRegressor` with the setting "stream", or an `EdgeOutlierDetector`
        with one of the methods "any", "burst", "rare" and "value".
    ids
        Ids of the fitted edges, one per edge, so that their labels can come later. By default they have none.
    horizon
        For how long labels of an interaction are accepted and repeated ids are recognised, in the time of the stream: a
        duration such as "90d" for datetimes, else a number. By default twice the longest time scale, or twice the longest
        delay of a fitted label if that is longer.
    forget_after
        Nodes and pairs without an interaction or a label for this time are forgotten, which limits the memory. By default
        they are forgotten when all of their decayed sums are too small to be noticed.
    allow_missing
        Whether `read` accepts events without a field for each feature. False by default: what is unknown is null, so that a
        field that was renamed is noticed.

    Attributes
    ----------
    clock
        The latest time seen, as datetime64 or a number.
    n_pending
        The number of interactions that can still be labelled by their id.
    n_nodes, nbytes
        The number of nodes that are remembered, and the bytes of all arrays.
    n_unseen
        How many events of `process` had a category that no fitted edge has. It is scored as if it were missing.

    Examples
    --------
    >>> from tdlg import PropagationClassifier, TemporalEdges
    >>> past = TemporalEdges(["a", "b", "c", "d"] * 25, ["good", "bad"] * 50, range(100), label=[1, 0] * 50)
    >>> model = PropagationClassifier(setting="stream", random_state=0).fit(past)
    >>> scorer = StreamScorer(model)
    >>> new = TemporalEdges(["a", "x"], ["good", "bad"], [100, 101])
    >>> scorer.score_update(new, ids=["e1", "e2"]).values.argmax(axis=1)
    array([1, 0])
    >>> scorer.label("e2", 0)
    """

    def __init__(
        self,
        model: Any,
        *,
        ids: Iterable[Hashable] | None = None,
        horizon: float | Duration | None = None,
        forget_after: float | Duration | None = None,
        allow_missing: bool = False,
    ) -> None:
        self._set_up(model, horizon, forget_after)
        self.reader.allow_missing = allow_missing
        listed = None if ids is None else [id_key(id) for id in ids]
        if listed is not None and len(set(listed)) != len(model.edges_):
            raise ParameterError(
                f"The 'ids' must have one distinct value per fitted edge: {len(model.edges_):,}. Got {len(set(listed)):,} "
                "distinct values instead.",
                parameter="ids",
            )
        self._start(model.edges_, listed)

    def _set_up(self, model: Any, horizon: Any, forget_after: Any) -> None:
        self.model = model
        self._engine = engine_of(model)
        self._running = self._engine.running
        self.nodes = NodeCodes(model.edges_)
        self.reader = EventReader(model, self._engine, self.nodes)
        self._horizon = self.reader.horizon = self._ticks_of("horizon", horizon, HORIZON * self._engine.longest)
        self._forget_after = self._ticks_of("forget_after", forget_after, None)
        self._rows: dict[Hashable, int] = {}  # of events that can be labelled, by id
        self._n_at_last_look = self.n_unseen = 0
        ticks = self._engine.ticks_of(model.edges_.ticks, model.edges_.time_unit)
        self._fitted_order = np.argsort(ticks, kind="stable")
        self._fitted_ticks = ticks[self._fitted_order]

    def _ticks_of(self, name: str, given: Any, default: float | None) -> float | None:
        """A duration or a number in ticks."""
        unit = self._engine.unit
        if given is None:
            return default
        if unit is not None and is_duration(given):
            return as_seconds(given) * ticks_per_second(unit)
        if unit is None and isinstance(given, int | float) and given > 0:
            return float(given)
        form = "a number above 0, in the unit of the times" if unit is None else "a duration such as '90d'"
        raise ParameterError(
            f"The {name!r} parameter must be {form}. Got {given!r} instead.",
            parameter=name,
        )

    # ---- tables

    def score(self, X: Any) -> Floats:
        """Scores of edges as `score_update` would give them, without keeping anything.

        Parameters
        ----------
        X
            The edges: `TemporalEdges`, or a table with the columns that the model was fitted on. They see each other.
        """
        with self.nodes.borrowed():
            arrived = self.reader.arrived(self.reader.edges(X), keep=False)
            again = self._are_fitted(arrived, [None] * len(arrived.ticks))
            found = np.empty((len(again), self._engine.n_values))
            for part in (np.flatnonzero(again), np.flatnonzero(~again)):
                if len(part):
                    found[part] = self._peek(_some(arrived, part))[0]
        return self._shaped(found)

    def update(self, X: Any, y: Any = None, *, label_time: Any = None, ids: Iterable[Hashable] | None = None) -> None:
        """Absorb edges, and their labels if they are known.

        An edge without an id that has the source, destination and time of a fitted edge is that edge: it does not count
        again, and its label is left out. An edge with an id is known by it.

        Parameters
        ----------
        X
            The edges, as for `score`.
        y
            Labels, one value per edge, missing if unknown. By default the labels of X.
        label_time
            When the labels became known, one value per edge. By default the `label_time` of X, else the `label_delay` that
            the model was fitted with, else the times of the edges.
        ids
            Ids of the interactions, so that labels can come later, and an interaction that is repeated counts once. By
            default they have none.
        """
        self.score_update(X, y, label_time=label_time, ids=ids)

    def score_update(
        self, X: Any, y: Any = None, *, label_time: Any = None, ids: Iterable[Hashable] | None = None
    ) -> LiveScores:
        """Score edges one after the other in the order of time, and absorb them; see `update` for the parameters."""
        edges = self.reader.edges(X, y, label_time)
        listed: list[Hashable | None] = (
            [None] * len(edges) if ids is None else [None if id is None else id_key(id) for id in ids]
        )
        if len(listed) != len(edges):
            raise EdgesError(f"The 'ids' must have one value per edge: {len(edges):,}. Got {len(listed):,} instead.")
        arrived = self.reader.arrived(edges)
        labels, known = self.reader.timely(arrived.ticks, *self.reader.labels(edges))
        return self._process(arrived, listed, labels, known, self._repeated(listed))

    # ---- events

    def read(self, events: Sequence[Mapping[str, Any]]) -> tuple[Events, list[EventError]]:
        """Check events that are mappings, such as JSON gives them; those with a fault are left out and reported.

        Parameters
        ----------
        events
            Each with the fields "src", "dst" and "time", the features that the model was fitted on (null if unknown), and,
            if there are any, "id", "label" and "label_time".
        """
        return self.reader.read(events)

    def process(self, events: Events) -> LiveScores:
        """Score events that were read, one after the other in the order of time, and absorb them."""
        repeated = self._repeated(events.ids)
        new = ~repeated
        self.n_unseen += int(np.count_nonzero(events.unseen & new))
        arrived = self.reader.entered(events, new)
        return self._process(arrived, events.ids, events.labels, events.known, repeated)

    def label(self, id: Hashable, label: Any, time: Any = None) -> None:
        """Learn the label of an interaction that came before. A second label replaces the first.

        Parameters
        ----------
        id
            The id that came with the interaction.
        label
            The label; None takes back the label that the interaction has.
        time
            When it became known. By default now, the latest time of an interaction.
        """
        if not self._engine.takes_labels:
            raise EdgesError("Outlier scores use no labels. Leave them out.")
        row = self._row_of(id)
        rows = self._running.rows
        known = self._running.clock if time is None else self.reader.tick_of(time)
        self._check_known(row, known, time)
        targets = None if label is None else self._engine.targets_of(np.array([self.reader.label_of(label)]))
        if rows["labels"][row, 0]:
            if (
                targets is not None
                and rows["known"][row] == known
                and np.array_equal(targets[0], rows["labels"][row, 1:])
            ):
                return
            self._running.withdraw_label(row, rows["known"][row])
            rows["labels"][row] = 0.0
        if targets is not None:
            self._running.absorb(self._engine.labels(np.array([row]), targets, np.array([known], self._engine.dtype)))

    def _check_known(self, row: int, known: Any, time: Any) -> None:
        if self.reader.is_far_ahead(self._running.rows["ticks"][row], known):
            raise ParameterError(
                f"The label would become known too long after its interaction. Got the time {time!r}: correct it, or pass "
                "the label when it is known.",
                parameter="time",
            )

    def check_label(self, id: Hashable, label: Any, time: Any = None) -> None:
        """Refuse a label that `label` would refuse."""
        row = self._row_of(id)
        if time is not None:
            self._check_known(row, self.reader.tick_of(time), time)
        if label is not None:
            self.reader.label_of(label)

    def withdraw(self, id: Hashable) -> None:
        """Take back an interaction that came before, and its label: sums are as if it had not been.

        What was computed with it before stays: scores, and what the columns about both ends keep of later interactions. The
        time since the last interaction of its nodes counts from it until the next one.
        """
        row, running = self._row_of(id), self._running
        if self._engine.takes_labels:
            self.label(id, None)
        running.withdraw(row)
        del self._rows[id_key(id)]
        running.rows.release(np.array([row]))

    def knows(self, id: Hashable) -> bool:
        """Whether an interaction with this id came before and is not too long ago, so that it can be labelled."""
        row = self._rows.get(id_key(id))
        return row is not None and not self.is_too_old(self._running.rows["ticks"][row])

    def answered(self, id: Hashable) -> tuple[Floats, Any] | None:
        """The values that an interaction got, and its time in ticks; None if it was not scored or is too long ago."""
        row = self._rows.get(id_key(id))
        values = None if row is None else self._running.rows["answer"][row]
        return None if values is None or np.isnan(values).any() else (values, self._running.rows["ticks"][row].item())

    def has_label(self, id: Hashable, label: Any) -> bool:
        """Whether an interaction has this label already; None: whether it has none."""
        if not self.knows(id) or not self._engine.takes_labels:
            return False
        held = self._running.rows["labels"][self._rows[id_key(id)]]
        if label is None or not held[0]:
            return label is None and not held[0]
        try:
            targets = self._engine.targets_of(np.array([self.reader.label_of(label)]))
        except TdlgError:
            return False
        return bool(np.array_equal(targets[0], held[1:]))

    def has_ends(self, id: Hashable, src: Any, dst: Any, tick: Any) -> bool:
        """Whether the interaction with this id, which is known, has this source, destination and time in ticks."""
        rows, row = self._running.rows, self._row_of(id)
        ends = [self.nodes.find(src, SRC), self.nodes.find(dst, DST)]
        return rows["nodes"][row].tolist() == ends and bool(rows["ticks"][row] == tick)

    def ticks_in(self, name: str, given: Any) -> float:
        """A duration or a number in ticks; by default the horizon. Another value is refused as parameter `name`."""
        ticks = self._ticks_of(name, given, self._horizon)
        return np.inf if ticks is None else ticks

    @property
    def own(self) -> list[OwnColumn]:
        """How features become numbers."""
        return self._engine.own

    def tick_of(self, id: Hashable) -> Any:
        """The ticks of the interaction with this id, which is known."""
        return self._running.rows["ticks"][self._row_of(id)].item()

    def _row_of(self, id: Hashable) -> int:
        row = self._rows.get(id_key(id), NO_ROW)
        if row == NO_ROW or self.is_too_old(self._running.rows["ticks"][row]):
            raise UnknownEventError(
                f"There is no interaction with the id {id!r}, or it was too long ago: labels are accepted for "
                f"{duration_in_words(float(self._horizon or np.inf), self._engine.unit)}.",
                parameter="id",
            )
        return row

    # ---- the stream

    def _start(self, edges: TemporalEdges, ids: list[Hashable] | None) -> None:
        """Absorb the fitted edges."""
        engine, running, order = self._engine, self._running, self._fitted_order
        whole, labelled, known = self.reader.fitted(edges)
        labelled = labelled & ~self.reader.is_far_ahead(whole.ticks, known)
        for start in range(0, len(order), STARTED_AT_ONCE):
            part = order[start : start + STARTED_AT_ONCE]
            events, has_label = _some(whole, part), labelled[part]
            rows = running.enter(events)
            labels = None
            if has_label.any():
                some = part[has_label]
                labels = engine.labels(rows[has_label], engine.targets_of(self.model.labels_[some]), known[some])
            engine.start(events, rows, labels)
            if ids is None:
                running.rows.release(rows)
            else:
                running.rows["answer"][rows], running.rows["late"][rows] = np.nan, False
                self._rows.update(zip([ids[k] for k in part.tolist()], rows.tolist(), strict=True))

    def _process(
        self,
        arrived: StreamEvents,
        ids: list[Hashable | None],
        labels: list[tuple[int, Any]],
        known: list[Any],
        repeated: NDArray[np.bool_],
    ) -> LiveScores:
        engine, running, events = self._engine, self._running, arrived
        again, peeked = self._are_fitted(arrived, ids), None
        if True in again.tolist():
            again &= ~repeated
            peeked, repeated = self._peek(_some(arrived, np.flatnonzero(again))), repeated | again
        order: Any = slice(None)  # faster than positions, for one event
        in_order = len(ids) < 2 or bool((arrived.ticks[:-1] <= arrived.ticks[1:]).all())
        in_order = in_order and True not in repeated.tolist()
        if not in_order:
            order = np.flatnonzero(~repeated)
            order = order[np.argsort(arrived.ticks[order], kind="stable")]
            events = _some(arrived, order)
        late = np.zeros(len(ids), bool)
        if running.clock is not None:
            late[order] = events.ticks < running.clock
            if peeked is not None:
                late[again] = arrived.ticks[again] < running.clock
        rows = row_of = running.enter(events)
        if not in_order:
            row_of = np.full(len(ids), NO_ROW)
            row_of[order] = rows
        values, columns = engine.score(events, rows, self._new_labels(row_of, labels, known), keep=True)
        self._remember(ids, row_of, rows, values, late[order])
        if not in_order:
            found = self._first_answers(ids, repeated & ~again, late)
            found[order], values = values, found
            columns = None if columns is None else _in_place(columns, order, len(ids))
            if peeked is not None:
                found[again] = peeked[0]
                if columns is not None:
                    columns[again] = peeked[1]
        if self._size() > 2 * self._n_at_last_look + FORGET_EVERY:
            self.forget()
        return LiveScores(self._shaped(values), columns, late, repeated)

    def _peek(self, arrived: StreamEvents) -> tuple[Floats, Floats | None]:
        """Values and columns of events, of which nothing is kept."""
        order = np.argsort(arrived.ticks, kind="stable")
        events = _some(arrived, order)
        rows = self._running.enter(events)
        values, columns = self._engine.score(events, rows, None, keep=False)
        self._running.rows.release(rows)
        found = np.empty_like(values)
        found[order] = values
        return found, None if columns is None else _in_place(columns, order, len(order))

    def _are_fitted(self, arrived: StreamEvents, ids: list[Hashable | None]) -> NDArray[np.bool_]:
        """Which events without an id are fitted edges, by source, destination and time."""
        found = np.zeros(len(ids), bool)
        if None in ids:
            for k in np.flatnonzero(arrived.ticks <= self._fitted_ticks[-1]).tolist():
                if ids[k] is None:
                    found[k] = self._is_fitted(int(arrived.src[k]), int(arrived.dst[k]), arrived.ticks[k])
        return found

    def _is_fitted(self, src: int, dst: int, tick: Any) -> bool:
        first, last = (int(np.searchsorted(self._fitted_ticks, tick, side)) for side in ("left", "right"))
        edges, rows = self.model.edges_, self._fitted_order[first:last]
        if not ((edges.src_code[rows] == src) & (edges.dst_code[rows] == dst)).any():
            return False
        ids = edges.node_ids[[src, dst]].tolist()  # whose codes may be those of other nodes by now
        return [id_key(id) for id in ids] == [id_key(self.nodes.id_of(code)) for code in (src, dst)]

    def _repeated(self, ids: list[Hashable | None]) -> NDArray[np.bool_]:
        """Which events were there before, or earlier among these."""
        repeated = np.zeros(len(ids), bool)
        seen: set[Hashable] = set()
        for k, id in enumerate(ids):
            if id is None:
                continue
            repeated[k] = id in seen or (
                id in self._rows and not self.is_too_old(self._running.rows["ticks"][self._rows[id]])
            )
            seen.add(id)
        return repeated

    def _new_labels(self, row_of: Positions, labels: list[tuple[int, Any]], known: list[Any]) -> Any:
        """Labels that came with the events."""
        if not labels:
            return None
        row_at = row_of.tolist()
        new = [
            (row_at[at], label, when) for (at, label), when in zip(labels, known, strict=True) if row_at[at] != NO_ROW
        ]
        if not new:
            return None
        rows, values, times = zip(*new, strict=True)
        targets = self._engine.targets_of(np.array(values))
        return self._engine.labels(np.array(rows, np.int64), targets, np.array(times, self._engine.dtype))

    def _remember(
        self, ids: list[Hashable | None], row_of: Positions, rows: Positions, values: Floats, late: NDArray[np.bool_]
    ) -> None:
        """Keep the events that have an id, and their answers."""
        at = index_of(rows)
        self._running.rows["answer"][at], self._running.rows["late"][at] = values, late
        without = []
        for id, row in zip(ids, row_of.tolist(), strict=True):
            if row == NO_ROW:
                continue
            if id is None:
                without.append(row)
                continue
            if id in self._rows:  # it has expired
                without.append(self._rows[id])
            self._rows[id] = row
        if without:
            self._running.rows.release(np.array(without))

    def _first_answers(
        self, ids: list[Hashable | None], repeated: NDArray[np.bool_], late: NDArray[np.bool_]
    ) -> Floats:
        """The values that repeated events got first; whether they were late is written to `late`."""
        found = np.empty((len(ids), self._engine.n_values))
        for k in np.flatnonzero(repeated).tolist():
            row = self._rows[ids[k]]
            found[k], late[k] = self._running.rows["answer"][row], self._running.rows["late"][row]
        return found

    def _shaped(self, values: Floats) -> Floats:
        return values if self._engine.classes is not None else values[:, 0]

    # ---- memory

    @property
    def tick(self) -> Any:
        """The latest time seen, in ticks."""
        now = self._running.clock
        return now.item() if isinstance(now, np.generic) else now

    @property
    def clock(self) -> Any:
        """The latest time seen, as datetime64 or a number."""
        now = self._running.clock
        return now if self._engine.unit is None else times_of(np.array([now]), self._engine.unit)[0]

    @property
    def pending(self) -> Mapping[Hashable, int]:
        """The interactions that are held, by the keys of their ids; some may have expired."""
        return self._rows

    @property
    def n_pending(self) -> int:
        """The number of interactions that can still be labelled by their id."""
        return len(self._rows)

    @property
    def n_nodes(self) -> int:
        """The number of nodes that are remembered."""
        return self.nodes.n_nodes

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        return self._running.nbytes

    def forget(self) -> None:
        """Forget what has faded, and interactions beyond the horizon. It is called now and then by itself."""
        rows = np.fromiter(self._rows.values(), np.int64, len(self._rows))
        is_gone = self._running.rows["ticks"][rows] < self.oldest
        for id in list(compress(self._rows, is_gone.tolist())):
            del self._rows[id]
        self._running.rows.release(rows[is_gone])
        self.nodes.forget(self._running.forget(self.nodes.n_codes, self._forget_after))
        self.reader.forget_categories()
        self._n_at_last_look = self._size()

    def _size(self) -> int:
        return self._running.n_keys + len(self._rows)

    @property
    def oldest(self) -> float:
        """The ticks from which on interactions can be labelled and are recognised."""
        return float("-inf") if self._horizon is None else self._running.clock - self._horizon

    def is_too_old(self, tick: Any) -> bool:
        """Whether an interaction at these ticks is beyond the horizon, where repeated ids are not recognised."""
        return bool(tick < self.oldest)

    def state(self, *, copy: bool = True) -> dict[str, NDArray[Any]]:
        """All that is needed to go on, as arrays; see `restore`.

        Parameters
        ----------
        copy
            Whether to copy the arrays. True by default: otherwise they change with the next event, and are only good for
            writing them to a file at once.
        """
        arrays = self.saved()
        return {name: array() if callable(array) else array.copy() if copy else array for name, array in arrays.items()}

    def saved(self) -> dict[str, Any]:
        """As `state` without copies, with functions in place of arrays that take long to make."""
        ids, rows = list(self._rows), list(self._rows.values())
        settings = {"horizon": self._horizon, "forget_after": self._forget_after, "looked_at": self._n_at_last_look}
        settings |= {"unseen": self.n_unseen, "allow_missing": self.reader.allow_missing}
        listed = {"nodes": self.nodes.listed(), "categories": self.reader.categories(), **settings}
        some = {
            f"ids.{k // IDS_AT_ONCE}": partial(_as_bytes, ids[k : k + IDS_AT_ONCE])
            for k in range(0, len(ids), IDS_AT_ONCE)
        }
        return {**self._running.state(), **some, "listed": _as_bytes(listed), "rows_of_ids": np.array(rows, np.int64)}

    @classmethod
    def restore(cls, model: Any, state: SavedArrays) -> Self:
        """The scorer whose `state` this is, with the same model.

        Parameters
        ----------
        model
            The model that the scorer had.
        state
            What `state` returned. Ids of nodes and interactions must be text or numbers.
        """
        scorer = cls.__new__(cls)
        scorer._set_up(model, None, None)
        listed = json.loads(state["listed"].tobytes())
        scorer._running.restore(state)
        scorer.nodes.restore(*listed["nodes"])
        scorer.reader.restore_categories(listed["categories"])
        ids: list[Hashable] = []
        for k in range(sum(name.startswith("ids.") for name in state)):
            ids += json.loads(state[f"ids.{k}"].tobytes())
        scorer._rows = dict(zip(ids, state["rows_of_ids"].tolist(), strict=True))
        scorer._horizon = scorer.reader.horizon = listed["horizon"]
        scorer._forget_after = listed["forget_after"]
        scorer._n_at_last_look, scorer.n_unseen = listed["looked_at"], listed["unseen"]
        scorer.reader.allow_missing = listed["allow_missing"]
        return scorer


def _some(events: StreamEvents, which: Positions) -> StreamEvents:
    src, dst, ticks, own, categories = events
    return StreamEvents(src[which], dst[which], ticks[which], own[which], categories[which])


def _as_bytes(value: Any) -> NDArray[np.uint8]:
    return np.frombuffer(json.dumps(value).encode(), np.uint8)


def _in_place(columns: Floats, order: Positions, n: int) -> Floats:
    """Columns in the order in which the events were given, NaN for those that were not scored."""
    whole = np.full((n, columns.shape[1]), np.nan)
    whole[order] = columns
    return whole


# ---- what computes the scores: the columns and trees of a propagation model, or how unusual events are


def engine_of(model: Any) -> Any:
    """What computes the scores of a model; a model that cannot be used for streams is refused."""
    check_is_fitted(model)
    if isinstance(detector := getattr(model, "detector_", model), BurstDetector | SurpriseDetector):
        if getattr(detector, "misplaced", None) is not None:
            raise ParameterError(
                "StreamScorer cannot tell whether an interaction is misplaced: that also takes later ones.",
                "Fit the detector without misplaced.",
                parameter="model",
            )
        return _Outliers(detector)
    if isinstance(model, PropagationClassifier | PropagationRegressor):
        if model.setting_ == "stream":
            return _Propagation(model)
        raise ParameterError(
            f"StreamScorer needs a model with the setting 'stream'. This {type(model).__name__} has the setting "
            f"{model.setting_!r}.",
            "Fit with setting='stream'.",
            parameter="model",
        )
    raise ParameterError(
        "StreamScorer needs a fitted PropagationClassifier, PropagationRegressor, or EdgeOutlierDetector with the method "
        f"'any', 'burst', 'rare' or 'value'. Got {type(model).__name__} instead.",
        parameter="model",
    )


class _Clocked:
    """What all have that compute scores: the fitted edges, and ticks on the clock of the stream."""

    classes: NDArray[Any] | None = None
    own: list[OwnColumn]  # how features become numbers
    longest: float  # the longest time scale, in ticks
    n_values = 1  # per event

    def __init__(self, edges: TemporalEdges) -> None:
        self.edges = edges
        self.unit, self.dtype = stream_clock(edges)

    def ticks_of(self, ticks: NDArray[Any], unit: str | None) -> NDArray[Any]:
        """Ticks of another clock on that of the stream."""
        if (unit is None) != (self.unit is None):
            form = "numbers" if self.unit is None else "datetimes"
            raise EdgesError(f"The times must be {form}, like those of the fitted edges. Convert them.")
        if unit == "ns" and self.unit == "us":
            return ticks // 1000
        return rounded_up(ticks, unit, self.unit, self.dtype)


class _Propagation(_Clocked):
    """Columns of a propagation model, which `running` carries along, scored by its trees."""

    takes_labels = True

    def __init__(self, model: PropagationClassifier | PropagationRegressor) -> None:
        super().__init__(model.edges_)
        self._model, self._features = model, model.features_
        self.own = list(self._features.plan_.own)
        self.classes = getattr(model, "classes_", None)
        if self.classes is not None:
            self.n_values = len(self.classes)
            self._targets = dict(zip(self.classes.tolist(), self._features.plan_.class_targets, strict=True))
        self.running = RunningColumns(self._features, self.n_values)
        self.longest = self._longest()

    def _longest(self) -> float:
        """The longest time scale, or the longest delay of a fitted label if that is longer."""
        widths = self._features.plan_.widths(self.unit)
        late, edges = self._features.label_ticks_, self._features.edges_
        if late is None:
            return float(widths.max())
        delay = rounded_up(late - edges.ticks, edges.time_unit, self.unit, self.dtype)[self._features.labelled_]
        ticks = rounded_up(edges.ticks, edges.time_unit, self.unit, self.dtype)
        within = delay[delay <= max(np.ptp(ticks), widths.max())]  # not those that never become known
        return max(float(widths.max()), float(within.max(initial=0)))

    def start(self, events: StreamEvents, rows: Positions, labels: Updates | None) -> None:
        """Absorb the fitted edges without scoring them."""
        self.running.columns(rows, events.own, labels, wanted=False)

    def score(
        self, events: StreamEvents, rows: Positions, labels: Updates | None, *, keep: bool
    ) -> tuple[Floats, Floats | None]:
        """The values, (n_events, n_values), and the columns of events in the order of time."""
        columns = self.running.columns(rows, events.own, labels, keep=keep)
        return self._model.values_of(columns).reshape(len(rows), self.n_values), columns

    def labels(self, rows: Positions, targets: Floats, known: NDArray[Any]) -> Updates:
        """Note the labels of events, to be absorbed."""
        self.running.rows["known"][rows] = known
        return self.running.labels(rows, targets, known)

    def targets_of(self, labels: NDArray[Any]) -> Floats:
        """Labels as numbers minus their prior, (n_labels, n_targets)."""
        if self.classes is None:
            return self._features.plan_.targets_of(labels, np.ones(len(labels), bool))
        strange = [label for label in labels.tolist() if label not in self._targets]
        if strange:
            raise EdgesError(
                f"The label {strange[0]!r} is not one of the fitted labels: {self.classes.tolist()}. Pass one of these."
            )
        return np.array([self._targets[label] for label in labels.tolist()])


class _Outliers(_Clocked):
    """Scores of a detector that continues, as in its `score_samples`; it is its own `running`."""

    takes_labels = False

    def __init__(self, model: BurstDetector | SurpriseDetector) -> None:
        super().__init__(model.edges_)
        self._model, self._plan = model, model.plan_
        self.own, self.running = list(self._plan.own), self
        fast, slow = widths_in_ticks(model, self.unit)
        start = self.ticks_of(np.array([model.edges_.ticks.min()]), model.edges_.time_unit)[0]
        self._bursts = RunningBursts(fast, slow, start, self.dtype, self._plan)
        self.rows = EventRows(
            answer=np.zeros((0, 1)),
            late=np.zeros(0, np.bool_),
            known=np.zeros(0, self.dtype),
            ticks=np.zeros(0, self.dtype),
            nodes=np.zeros((0, 2), np.int64),
            categories=np.zeros((0, len(self._plan.given)), np.int64),
        )
        self.longest = float(slow)

    @property
    def clock(self) -> Any:
        return self._bursts.clock

    def enter(self, events: StreamEvents) -> Positions:
        rows = self.rows.take(len(events.ticks))
        self.rows["ticks"][rows], self.rows["categories"][rows] = events.ticks, events.categories
        self.rows["nodes"][rows, 0], self.rows["nodes"][rows, 1] = events.src, events.dst
        return rows

    def start(self, events: StreamEvents, rows: Positions, labels: Updates | None) -> None:
        self.score(events, rows, labels, keep=True)

    def score(
        self, events: StreamEvents, rows: Positions, labels: Updates | None, *, keep: bool
    ) -> tuple[Floats, Floats | None]:
        """The scores, (n_events, 1), and how unusual events in the order of time are, for their reasons."""
        if isinstance(self._model, BurstDetector):
            return -self._bursts.surprises(events, keep=keep)[:, np.newaxis], None
        found = self._bursts.judged(events, self.unit, keep=keep)
        return self._model.combined(self._model.digits_of(found))[:, np.newaxis], found.columns()

    def targets_of(self, labels: NDArray[Any]) -> Floats:
        raise EdgesError("Outlier scores use no labels. Leave them out.")

    def withdraw(self, row: int) -> None:
        """The counts stay: they fade, and no later event has been scored without it."""

    def forget(self, n_codes: int, after: float | None) -> Positions:
        return self._bursts.forget(n_codes, after, self.rows["nodes"][self.rows.in_use])

    def used_categories(self, feature: int, n_codes: int) -> NDArray[np.bool_]:
        """Which codes of a category, given by its number, are still used, (n_codes,)."""
        used = np.zeros(1 + n_codes, bool)  # first of a missing category: keys have the codes plus 1
        used[1 + self.rows["categories"][self.rows.in_use, feature]] = True
        used[self._bursts.counts.category_codes(feature)] = True
        return used[1:]

    @property
    def n_keys(self) -> int:
        return self._bursts.counts.n

    @property
    def nbytes(self) -> int:
        return self._bursts.counts.nbytes + self.rows.nbytes

    def state(self) -> dict[str, NDArray[Any]]:
        rows = {f"rows.{name}": array for name, array in self.rows.state().items()}
        counts = {f"counts.{name}": array for name, array in self._bursts.counts.state().items()}
        whole = {} if self._bursts.whole is None else self._bursts.whole._asdict()
        of_all = {f"all.{name}": array for name, array in whole.items()}
        return {**rows, **counts, **of_all, "clock": np.array([self.clock], self.dtype)}

    def restore(self, state: SavedArrays) -> None:
        for name, part in (("rows.", self.rows), ("counts.", self._bursts.counts)):
            part.restore(PrefixedArrays(state, name))
        for name, array in ({} if self._bursts.whole is None else self._bursts.whole._asdict()).items():
            array[:] = state[f"all.{name}"]
        self._bursts.clock = state["clock"][0]
