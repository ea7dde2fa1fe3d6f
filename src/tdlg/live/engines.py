"""What a stream computes for its events: the columns and trees of a propagation model, or burst scores."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from tdlg.clock import rounded_up
from tdlg.edges import TemporalEdges
from tdlg.exceptions import EdgesError, ParameterError
from tdlg.models.outliers import BurstDetector
from tdlg.models.propagation import PropagationClassifier, PropagationRegressor
from tdlg.propagate.bursts import RunningBursts
from tdlg.propagate.plan import OwnColumn, own_values
from tdlg.propagate.running import Absorptions, RunningColumns, stream_clock
from tdlg.propagate.state import EventRows, Part, SavedArrays, StreamEvents

__all__ = ["engine_of"]

Floats = NDArray[np.float64]
Positions = NDArray[np.int64]


def engine_of(model: Any) -> Any:
    """What computes the scores of a model; a model that cannot be used for streams is refused."""
    check_is_fitted(model)
    if isinstance(detector := getattr(model, "detector_", model), BurstDetector):
        return _Bursts(detector)
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
        "StreamScorer needs a fitted PropagationClassifier, PropagationRegressor, BurstDetector or "
        f"EdgeOutlierDetector(method='burst'). Got {type(model).__name__} instead.",
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

    def own_of(self, edges: TemporalEdges) -> Floats:
        """The features of edges as numbers, (n_edges, n_own)."""
        return own_values(edges, self._features.plan_.own)

    def start(self, events: StreamEvents, rows: Positions, labels: Absorptions | None) -> None:
        """Absorb the fitted edges without scoring them."""
        self.running.columns(rows, events.own, labels, wanted=False)

    def score(
        self, events: StreamEvents, rows: Positions, labels: Absorptions | None, *, keep: bool
    ) -> tuple[Floats, Floats | None]:
        """The values, (n_events, n_values), and the columns of events in the order of time."""
        columns = self.running.columns(rows, events.own, labels, keep=keep)
        return self._model.values_of(columns).reshape(len(rows), self.n_values), columns

    def labels(self, rows: Positions, targets: Floats, known: NDArray[Any]) -> Absorptions:
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


class _Bursts(_Clocked):
    """Burst scores, minus the surprise as in `BurstDetector.score_samples`; it is its own `running`."""

    takes_labels = False

    def __init__(self, model: BurstDetector) -> None:
        super().__init__(model.edges_)
        self.own, self.running = [], self
        fast, slow = (decay.parts(self.unit)[0].bandwidth for decay in (model.fast_, model.slow_))
        start = self.ticks_of(np.array([model.edges_.ticks.min()]), model.edges_.time_unit)[0]
        self._bursts = RunningBursts(fast, slow, start, self.dtype)
        self.rows = EventRows(
            answer=np.zeros((0, 1)),
            late=np.zeros(0, np.bool_),
            known=np.zeros(0, self.dtype),
            ticks=np.zeros(0, self.dtype),
            nodes=np.zeros((0, 2), np.int64),
        )
        self.longest = float(slow)

    @property
    def clock(self) -> Any:
        return self._bursts.clock

    def own_of(self, edges: TemporalEdges) -> Floats:
        return np.empty((len(edges), 0))

    def enter(self, events: StreamEvents) -> Positions:
        rows = self.rows.take(len(events.ticks))
        self.rows["ticks"][rows] = events.ticks
        self.rows["nodes"][rows, 0], self.rows["nodes"][rows, 1] = events.src, events.dst
        return rows

    def start(self, events: StreamEvents, rows: Positions, labels: Absorptions | None) -> None:
        self._bursts.surprises(events)

    def score(
        self, events: StreamEvents, rows: Positions, labels: Absorptions | None, *, keep: bool
    ) -> tuple[Floats, Floats | None]:
        return -self._bursts.surprises(events, keep=keep)[:, np.newaxis], None

    def targets_of(self, labels: NDArray[Any]) -> Floats:
        raise EdgesError("Burst scores use no labels. Leave them out.")

    def withdraw(self, row: int) -> None:
        """The counts of a burst stay: they fade, and no later event has been scored without it."""

    def forget(self, n_codes: int, after: float | None) -> Positions:
        return self._bursts.forget(n_codes, after, self.rows["nodes"][self.rows.in_use])

    @property
    def n_keys(self) -> int:
        return self._bursts.counts.n

    @property
    def nbytes(self) -> int:
        return self._bursts.counts.nbytes + self.rows.nbytes

    def state(self) -> dict[str, NDArray[Any]]:
        rows = {f"rows.{name}": array for name, array in self.rows.state().items()}
        counts = {f"counts.{name}": array for name, array in self._bursts.counts.state().items()}
        return {**rows, **counts, "clock": np.array([self.clock], self.dtype)}

    def restore(self, state: SavedArrays) -> None:
        for name, part in (("rows.", self.rows), ("counts.", self._bursts.counts)):
            part.restore(Part(state, name))
        self._bursts.clock = state["clock"][0]
