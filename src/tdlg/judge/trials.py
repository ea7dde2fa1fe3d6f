"""Evaluation tasks: the edges and labels that a method may see, and the edges that it has to score."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from tdlg.checks import as_generator, check_choice, check_count, check_number, is_number
from tdlg.clock import as_seconds, is_duration, rounded_up, ticks_per_second
from tdlg.edges import TemporalEdges
from tdlg.exceptions import EdgesError, ParameterError
from tdlg.sampling.index import concatenate_edges
from tdlg.sampling.negatives import historical_edges, inductive_edges, shuffled_edges, time_kept_edges
from tdlg.tables.times import as_times

Positions = NDArray[np.int64]
Negatives = Literal["shuffled", "time-kept", "historical", "inductive"]

DAY = 86_400  # seconds
DAYS = 30  # a day is this part of a period where times are numbers
MOST_PERIODS = 10_000
HISTORY = 0.3  # share of the time span before the first period

_NEGATIVES: dict[str, Callable[[TemporalEdges, TemporalEdges, Any], TemporalEdges]] = {
    "shuffled": lambda edges, past, rng: shuffled_edges(edges, rng),
    "time-kept": lambda edges, past, rng: time_kept_edges(edges, rng),
    "historical": historical_edges,
    "inductive": inductive_edges,
}


@dataclass(frozen=True, eq=False)
class Trial:
    """One split of a task: a method sees `edges[columns]` and the labels of `train`, and scores the `tests`.

    If `reveals`, labels become known over time, at their `label_time` or the time of their edge, and count for strictly
    later edges; those of the `pending` edges too, above all of earlier edges whose labels are not known yet at the cut.
    """

    edges: TemporalEdges  # all of the trial, without labels
    y: NDArray[Any]  # their labels
    columns: Positions  # of the edges that fit may see, those of `train` included
    train: Positions
    tests: Mapping[str, Positions]  # by the name of the setting
    reveals: bool = False
    label_time: NDArray[Any] | None = None
    pending: Positions = field(default_factory=lambda: np.empty(0, np.int64))

    def seen(self) -> TemporalEdges:
        """The edges that the method may see in fit, with the training labels only."""
        return self.labelled(self.train)[self.columns]

    def labelled(self, known: Positions) -> TemporalEdges:
        """All edges, with the labels of these positions only."""
        missing = None if self.y.dtype.kind in "OUS" else np.nan
        label = np.full(len(self.edges), missing, object if missing is None else np.float64)
        label[known] = self.y[known]
        return self.edges.with_label(label, self.label_time)

    def revealed(self, test: Positions) -> TemporalEdges:
        """The edges to score, then the pending ones, with the labels that become known over time."""
        at = np.concatenate([test, self.pending])
        return self.labelled(at)[at]

    def blocks(self, test: Positions, n_blocks: int) -> list[Trial]:
        """Split the edges to score by time into one trial per stretch, which may learn from all labels known before it."""
        ticks, later = self.edges.ticks, np.concatenate([self.pending, test])
        known_at = self.labelled(later).known_at
        cuts = np.unique(np.sort(ticks[test])[np.arange(n_blocks) * len(test) // n_blocks])
        trials = []
        for number, start in enumerate(cuts):
            inside = test[np.searchsorted(cuts, ticks[test], "right") == number + 1]
            before = np.concatenate([self.train, later[known_at[later] < start]])
            seen = np.flatnonzero(ticks <= ticks[inside].max())
            trials.append(Trial(self.edges, self.y, seen, before, {"": inside}, label_time=self.label_time))
        return trials


class Task(Protocol):
    """Edges, and a way to make trials from them; a task with a fixed number of trials has the attribute `n_trials`."""

    @property
    def name(self) -> str:
        """A short description, for the header of a table."""
        ...

    def draw(self, random_state: Any = None) -> Trial:
        """Make one trial; the same seed gives the same trial."""
        ...


@dataclass(frozen=True, eq=False)
class EdgeClassification:
    """The paper's edge classification: predict the labels of random edges from the labels of the others; all are visible.

    Edges without a label are visible, but are neither trained on nor scored.

    Parameters
    ----------
    edges
        Edges with labels.
    train_share
        The share of labels to learn from.

    Examples
    --------
    >>> edges = TemporalEdges(range(10), range(1, 11), range(10), label=[0, 1] * 5)
    >>> trial = EdgeClassification(edges).draw(random_state=0)
    >>> len(trial.columns), len(trial.train), len(trial.tests["edge classification"])
    (10, 7, 3)
    """

    edges: TemporalEdges
    train_share: float = 0.7

    name = "edge classification"

    def __post_init__(self) -> None:
        _check(self)

    def draw(self, random_state: Any = None) -> Trial:
        """Split the labelled edges at random, by a seed or generator."""
        labelled = as_generator(random_state).permutation(np.flatnonzero(self.edges.labelled))
        cut = round(self.train_share * len(labelled))
        if not 0 < cut < len(labelled):
            raise EdgesError(
                f"{len(labelled)} labelled edges are too few for a training share of {self.train_share}: no edge is left "
                "to train on or to score. Pass more labels.",
                "Or pass another train_share=.",
            )
        everything = np.arange(len(self.edges))
        tests = {self.name: np.sort(labelled[cut:])}
        return Trial(self.edges.with_label(None), _labels(self.edges), everything, np.sort(labelled[:cut]), tests)


@dataclass(frozen=True, eq=False)
class ForecastClassification:
    """Predict the labels of the latest edges from those of the earlier edges, as in fraud detection.

    If the edges have a `label_time`, only labels that became known before the cut are learnt from.

    Parameters
    ----------
    edges
        Edges with labels.
    train_share
        The share of the labelled edges, by time, to learn from; edges exactly at the time of the cut are scored.
    stream
        Whether each label becomes known after its edge was scored, at its `label_time` if the edges have it, and may be used
        for later edges. By default, all labels of the edges to score stay hidden.

    Examples
    --------
    >>> edges = TemporalEdges(range(10), range(1, 11), range(10), label=[0, 1] * 5)
    >>> trial = ForecastClassification(edges).draw()
    >>> trial.tests["forecast"].tolist()
    [7, 8, 9]
    """

    edges: TemporalEdges
    train_share: float = 0.7
    stream: bool = False

    n_trials = 1

    def __post_init__(self) -> None:
        _check(self)

    @property
    def name(self) -> str:
        """A short description."""
        return "stream" if self.stream else "forecast"

    def draw(self, random_state: Any = None) -> Trial:
        """Split at the cut; there is only one split, whatever the seed."""
        ticks, labelled = self.edges.ticks, np.flatnonzero(self.edges.labelled)
        cut = np.sort(ticks[labelled])[int(self.train_share * len(labelled))]
        is_known = self.edges.known_at[labelled] < cut
        if not is_known.any():
            why = "No labelled edge is before the cut: too many happened at one time."
            if self.edges.label_ticks is not None and (ticks[labelled] < cut).any():
                why = "No label became known before the cut: the labels are too late."
            raise EdgesError(why, "Use `EdgeClassification`.")
        is_later = ticks[labelled] >= cut
        return Trial(
            self.edges.with_label(None),
            _labels(self.edges),
            np.arange(len(self.edges)),
            labelled[is_known],
            {self.name: labelled[is_later]},
            self.stream,
            self.edges.label_time,
            labelled[~is_known & ~is_later],
        )


@dataclass(frozen=True, eq=False)
class LinkPrediction:
    """Distinguish edges that happened from negative edges, during the time of the training edges and after it.

    The training edges are a random part of the edges in the early intervals, and only they are visible. "interpolative"
    (temporal link outlier detection) scores the other early edges, "extrapolative" (temporal link prediction) all edges in
    the last interval. There is one negative per edge, labelled 0.

    Parameters
    ----------
    edges
        The edges that happened, which get the label 1; their own labels are not used.
    negatives
        The type of the negatives: "shuffled" (default, the paper's choice: all three columns are shuffled), "time-kept"
        (only the destinations are shuffled), "historical" (pairs of the early intervals at other times) or "inductive"
        (pairs that only the last interval has, at other times; the negatives of the early intervals, which have no past,
        are "time-kept").
    n_intervals
        The number of equal intervals of the time span; the last one is the late interval.
    train_share
        The share of the early edges to learn from.

    Examples
    --------
    >>> edges = TemporalEdges(range(100), range(1, 101), range(100))
    >>> trial = LinkPrediction(edges).draw(random_state=0)
    >>> len(trial.train), {name: len(test) for name, test in trial.tests.items()}
    (133, {'interpolative': 57, 'extrapolative': 10})
    """

    edges: TemporalEdges
    negatives: Negatives = "shuffled"
    n_intervals: int = 20
    train_share: float = 0.7

    def __post_init__(self) -> None:
        check_number(type(self).__name__, "train_share", self.train_share, below=1)
        check_choice("LinkPrediction", "negatives", self.negatives, _NEGATIVES)
        check_count("LinkPrediction", "n_intervals", self.n_intervals, 2)

    @property
    def name(self) -> str:
        """A short description, with the type of negatives unless it is the paper's."""
        return "link prediction" + (f", {self.negatives} negatives" if self.negatives != "shuffled" else "")

    def draw(self, random_state: Any = None) -> Trial:
        """Make negatives, and split, by a seed or generator."""
        rng = as_generator(random_state)
        negatives = self._negatives(rng)
        edges = concatenate_edges(self.edges, negatives)
        y = np.repeat([1.0, 0.0], [len(self.edges), len(negatives)])
        late = _is_late(edges, self.edges, self.n_intervals)
        early = rng.permutation(np.flatnonzero(~late))
        cut = round(self.train_share * len(early))
        train = np.sort(early[:cut])
        tests = {"interpolative": np.sort(early[cut:]), "extrapolative": np.flatnonzero(late)}
        return Trial(edges, y, train, train, tests)

    def _negatives(self, rng: np.random.Generator) -> TemporalEdges:
        if self.negatives in ("shuffled", "time-kept"):
            return _NEGATIVES[self.negatives](self.edges, self.edges, rng)
        late = _is_late(self.edges, self.edges, self.n_intervals)
        past, later = self.edges[~late], self.edges[late]
        of_past = "historical" if self.negatives == "historical" else "time-kept"
        return concatenate_edges(_NEGATIVES[of_past](past, past, rng), _NEGATIVES[self.negatives](later, past, rng))


class Period(NamedTuple):
    """A period in ticks, from `start` up to, but without, `stop`; and the trial in it, which has one test."""

    start: Any
    stop: Any
    trial: Trial

    @property
    def test(self) -> Positions:
        """Positions of its labelled edges."""
        return next(iter(self.trial.tests.values()))


class Periods:
    """Go through time as in production: each trial is a period, predicted from what was known at its start.

    A method is fitted on the edges before the period and the labels known by then. Labels that become known during the
    period count from then on. A period without labelled edges, or before which labels of two classes were not known, is
    left out.

    Parameters
    ----------
    edges
        Edges with labels. Without a `label_time`, each label counts as known at the time of its edge.
    every
        The length of a period: a duration such as "30d" if the times are datetimes, else a number.
    start
        The start of the first period, like the times of the edges. By default the first multiple of `every` after the
        first 30 % of the time span, counted from the first edge; with datetimes, from the start of its day (UTC).

    Attributes
    ----------
    periods
        The periods, in the order of time.
    length, day
        The lengths of a period and of a day, in ticks. If the times are numbers, a day is a thirtieth of `every`.

    Examples
    --------
    >>> edges = TemporalEdges(range(10), range(1, 11), range(10), label=[0, 1] * 5)
    >>> [(period.start, period.test.tolist()) for period in Periods(edges, 3).periods]
    [(3.0, [3, 4, 5]), (6.0, [6, 7, 8]), (9.0, [9])]
    """

    name = "periods"

    def __init__(self, edges: TemporalEdges, every: Any, start: Any = None) -> None:
        unit = edges.time_unit
        self.edges, self.length = edges, _in_ticks(every, edges)
        self.day = self.length / DAYS if unit is None else round(DAY * ticks_per_second(unit))
        begin = _first_start(edges, self.length, start, self.day)
        n_periods = (edges.ticks.max().item() - begin) / self.length
        if n_periods > MOST_PERIODS:
            raise ParameterError(
                f"These edges have {n_periods:,.0f} periods, more than {MOST_PERIODS:,}.",
                "Pass a longer every=, or a later start=.",
                parameter="every",
            )
        self.periods = list(periods_from(edges, self.length, begin))
        if not self.periods:
            raise EdgesError(
                "There is no period before which labels of two classes were known, and in which edges are labelled.",
                "Pass a shorter every=, or another start=.",
            )

    @property
    def n_trials(self) -> int:
        """The number of periods."""
        return len(self.periods)

    def draw(self, number: int = 0) -> Trial:
        """The trial of a period, by its number."""
        return self.periods[number].trial


def _in_ticks(every: Any, edges: TemporalEdges) -> float:
    """The length of a period, in ticks: a whole number for datetimes."""
    length = 0.0
    if edges.time_unit is not None and is_duration(every):
        length = round(as_seconds(every, "every") * ticks_per_second(edges.time_unit))
    elif edges.time_unit is None and is_number(every):
        length = float(every)
    if not 0 < length < np.inf:
        form = "a number above 0, in the unit of the times" if edges.time_unit is None else "a duration such as '30d'"
        raise ParameterError(f"The 'every' must be {form}. Got {every!r} instead.", parameter="every")
    return length


def _first_start(edges: TemporalEdges, length: float, start: Any, day: float) -> float:
    """The start of the first period, in ticks."""
    if start is None:
        first, last = edges.ticks.min().item(), edges.ticks.max().item()
        first = first if edges.time_unit is None else first // day * day
        return first + max(1, math.ceil(HISTORY * (last - first) / length)) * length
    ticks, unit = as_times([start], "start")
    if (unit is None) != (edges.time_unit is None):
        form = "a number" if edges.time_unit is None else "a datetime"
        raise ParameterError(
            f"The 'start' must be {form}, like the times of the edges. Got {start!r} instead.", parameter="start"
        )
    return rounded_up(ticks, unit, edges.time_unit, edges.ticks.dtype)[0].item()


def periods_from(edges: TemporalEdges, length: float, start: float) -> Iterator[Period]:
    """The periods with labelled edges before which labels of two classes were known."""
    ticks, known_at, labelled = edges.ticks, edges.known_at, np.flatnonzero(edges.labelled)
    y, bare = _labels(edges), edges.with_label(None)
    while len(labelled) and start <= ticks.max():
        begin, stop = start, start + length
        start = stop
        train = labelled[known_at[labelled] < begin]
        test = labelled[(ticks[labelled] >= begin) & (ticks[labelled] < stop)]
        if not len(test) or len(np.unique(y[train])) < 2:
            continue
        inside = (ticks >= begin) & (ticks < stop)
        others = np.flatnonzero(edges.labelled & (ticks < begin) & (known_at >= begin) | inside & ~edges.labelled)
        before, tests = np.flatnonzero(ticks < begin), {Periods.name: test}
        yield Period(begin, stop, Trial(bare, y, before, train, tests, True, edges.label_time, others))


class TimeOrderedSplit:
    """Folds for scikit-learn's `cross_validate` that predict later edges from the labels known before them.

    The labelled edges are cut by time into `n_splits` + 1 parts of equal size. Each part but the first is scored once, by a
    model that learnt from the edges before it whose labels were known by then. Edges at one time are never divided. With
    scikit-learn's `TimeSeriesSplit`, a model would learn from labels that become known only after the cut.

    Parameters
    ----------
    n_splits
        The number of folds, 5 by default.

    Examples
    --------
    >>> edges = TemporalEdges(["a", "b"] * 4, ["x", "y"] * 4, range(8), label=[0, 1] * 4, label_delay=1)
    >>> for train, test in TimeOrderedSplit(3).split(edges):
    ...     print(train, test)
    [0] [2 3]
    [0 1 2] [4 5]
    [0 1 2 3 4] [6 7]
    """

    def __init__(self, n_splits: int = 5) -> None:
        check_count("TimeOrderedSplit", "n_splits", n_splits, 1)
        self.n_splits = n_splits

    def split(self, X: TemporalEdges, y: Any = None, groups: Any = None) -> Iterator[tuple[Positions, Positions]]:
        """The positions to train on and to score, one pair per fold; y is ignored: the labels are those of the edges."""
        labelled = np.flatnonzero(X.labelled)
        if len(labelled) <= self.n_splits:
            raise EdgesError(
                f"{len(labelled):,} labelled edges are too few for {self.n_splits} folds. Pass more labels or fewer folds.",
                parameter="n_splits",
            )
        ticks, known_at = X.ticks[labelled], X.known_at[labelled]
        cuts = np.sort(ticks)[np.arange(1, self.n_splits + 1) * len(labelled) // (self.n_splits + 1)]
        for k, cut in enumerate(cuts):
            is_test = np.searchsorted(cuts, ticks, "right") == k + 1
            is_train = (ticks < cut) & (known_at < cut)
            if not is_train.any() or not is_test.any():
                missing = "score" if is_train.any() else "learn from"
                raise EdgesError(
                    f"Fold {k + 1} of {self.n_splits} has no labels to {missing}: too many edges are at one time, or their "
                    "labels become known too late. Pass fewer folds.",
                    parameter="n_splits",
                )
            yield labelled[is_train], labelled[is_test]

    def get_n_splits(self, X: Any = None, y: Any = None, groups: Any = None) -> int:
        """The number of folds."""
        return self.n_splits


def _is_late(edges: TemporalEdges, whole: TemporalEdges, n_intervals: int) -> NDArray[np.bool_]:
    """Mask of the edges in the last of the equal intervals of the time span."""
    first, last = (float(end) for end in (whole.ticks.min(), whole.ticks.max()))
    if first == last:
        raise EdgesError("All edges happened at one time, so there is no later part to predict.")
    return np.asarray(edges.ticks >= first + (last - first) * (n_intervals - 1) / n_intervals)


def _labels(edges: TemporalEdges) -> NDArray[Any]:
    label = edges.label
    if label is None:
        raise EdgesError("The edges have no labels.", "Pass them with the edges: `TemporalEdges(..., label=...)`.")
    return label


def _check(task: EdgeClassification | ForecastClassification) -> None:
    check_number(type(task).__name__, "train_share", task.train_share, below=1)
    edges = task.edges
    known = np.unique(_labels(edges)[edges.labelled].astype(str)) if edges.label is not None else np.empty(0)
    if len(known) < 2:
        raise EdgesError(
            f"{type(task).__name__} needs at least two different labels. Got {len(known)} instead.",
            "Pass them with the edges: `TemporalEdges(..., label=...)` or `read_edges(..., label=...)`.",
        )
