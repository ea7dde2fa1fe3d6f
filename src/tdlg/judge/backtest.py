"""backtest: go through time, refit at the start of each period on what was known then, and score the period."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from tdlg.checks import as_seed, check_count, is_number
from tdlg.clock import as_seconds, is_duration, rounded_up, ticks_per_second
from tdlg.edges import TemporalEdges
from tdlg.exceptions import EdgesError, ParameterError, TdlgWarning
from tdlg.explain.positive import positive_class
from tdlg.judge.methods import Propagation
from tdlg.judge.metrics import auc_and_precision, precision_recall_at
from tdlg.judge.references import DAY, WINDOWS, LabelRates, Windows
from tdlg.judge.run import scores_in_time
from tdlg.judge.trials import Trial
from tdlg.tables.times import as_times

if TYPE_CHECKING:
    import polars as pl

__all__ = ["alert_precision", "backtest", "learning_curve"]

Floats = NDArray[np.float64]
Positions = NDArray[np.int64]

DAYS = 30  # a day is this part of a period where times are numbers
MOST_PERIODS = 10_000
HISTORY = 0.3  # share of the time span before the first period
SHORTEST = 7  # days of the first history of a learning curve; each is twice the one before


class _Period(NamedTuple):
    """A period in ticks, from `start` up to, but without, `stop`; and the trial in it."""

    start: Any
    stop: Any
    trial: Trial
    test: Positions


def backtest(
    edges: TemporalEdges,
    every: Any,
    *,
    models: Mapping[str, Any] | None = None,
    start: Any = None,
    alerts_per_day: int = 20,
    positive: Any = None,
    random_state: Any = 0,
    callback: Callable[[int, int], bool | None] | None = None,
) -> pl.DataFrame:
    """Go through time as in production, and measure how well each period was predicted.

    At the start of each period, the methods are fitted on the edges before it and the labels known by then. They score the
    edges of the period in the setting "stream": labels that become known during the period count from then on. A label that
    becomes known after the period counts for nothing in it. By default three models are measured: "propagation"
    (`PropagationClassifier`), "label rates" (`LabelRates`), and "windows" (`Windows`): boosted trees on the counts, the
    means of the features and the rates of known labels of both ends in the last 1, 7 and 30 days.

    Parameters
    ----------
    edges
        Edges with labels. Without a `label_time`, each label counts as known at the time of its edge.
    every
        The length of a period: a duration such as "30d" if the times are datetimes, else a number.
    models
        The models to measure, by name: whatever `tdlg.judge.run.evaluate` takes. One with a parameter `setting` has the
        setting "stream"; one that cannot take in labels is fitted again for six parts of each period. By default the three
        models above.
    start
        The start of the first period, like the times of the edges. By default the first multiple of `every` after the
        first 30 % of the time span, counted from the first edge; with datetimes, from the start of its day (UTC).
    alerts_per_day
        The number of edges per day that somebody can check, 20 by default. A day is a calendar day in UTC. If the times
        are numbers, a day is a thirtieth of `every`, also for the windows.
    positive
        The positive class. By default that of `tdlg.explain.positive.positive_class`; all other classes count as one.
    random_state
        Seed for the boosted trees, 0 by default.
    callback
        A function that is called with (done, total) after each period; the backtest stops when it returns True, and the
        total is that of the periods so far.

    Returns
    -------
    polars.DataFrame
        One row per period and method, then one row per method for all periods, whose `start` and `stop` are null. Columns:
        start, stop, method, n (labelled edges of the period), positives, n_train (labels known at the start), auc,
        average_precision and alert_precision: the share of positives among the `alerts_per_day` highest scores of each day.
        The total ranks the edges of all periods together. A period with no positive or no negative edge has no areas.

    Raises
    ------
    EdgesError
        If there is no period before which labels of two classes were known.

    Examples
    --------
    >>> from tdlg import make_payments
    >>> payments = make_payments(1500, random_state=0)
    >>> edges = payments.edges.with_label(payments.edges.label, payments.label_time)
    >>> table = backtest(edges, "60d", alerts_per_day=2)
    >>> table.select("start", "method", "n")[:3].rows()[0]
    (datetime.datetime(2025, 3, 2, 0, 0), 'propagation', 526)
    """
    check_count("backtest", "alerts_per_day", alerts_per_day, 1)
    edges, is_positive, _, day, periods = _prepared(edges, every, start, positive)
    seed = as_seed(random_state)
    models = _models(models, day, seed)
    rows: list[dict[str, Any]] = []
    scored: list[tuple[Positions, list[Floats]]] = []
    for done, period in enumerate(periods, start=1):
        scores = _scores(period, models)
        scored.append((period.test, scores))
        rows += _rows(models, edges, period.test, scores, is_positive, day, alerts_per_day, period)
        if callback is not None and callback(done, len(periods)):
            break
    test = np.concatenate([test for test, _ in scored])
    together = [np.concatenate(of_method) for of_method in zip(*(scores for _, scores in scored), strict=True)]
    return _table(
        [*rows, *_rows(models, edges, test, together, is_positive, day, alerts_per_day, None)], edges.time_unit
    )


def learning_curve(
    edges: TemporalEdges,
    every: Any,
    *,
    models: Mapping[str, Any] | None = None,
    start: Any = None,
    alerts_per_day: int = 20,
    positive: Any = None,
    random_state: Any = 0,
    callback: Callable[[int, int], bool | None] | None = None,
) -> pl.DataFrame:
    """Measure how the quality grows with the history: each period is predicted from the last days before it only.

    The methods and the periods are those of `backtest`. The histories are 7, 14, 28 days and so on, then all days before
    the period. An edge before the history is seen by no method, neither as a neighbour nor to learn from. Only periods that
    can be predicted from every history are compared; a history is left out if it has labels of both classes before fewer
    than half of the periods.

    Parameters
    ----------
    edges, every, models, start, alerts_per_day, positive, random_state
        As for `backtest`.
    callback
        A function that is called with (done, total) after each period and history.

    Returns
    -------
    polars.DataFrame
        One row per history and method. Columns: history (in words, or "all"), days (null for all), method, n (labelled
        edges of the periods), positives, auc, average_precision and alert_precision, as in the total of `backtest`.

    Examples
    --------
    >>> from tdlg import make_payments
    >>> payments = make_payments(1500, random_state=0)
    >>> edges = payments.edges.with_label(payments.edges.label, payments.label_time)
    >>> learning_curve(edges, "60d")["history"].unique(maintain_order=True).to_list()[-2:]
    ['112 days', 'all']
    """
    check_count("learning_curve", "alerts_per_day", alerts_per_day, 1)
    edges, is_positive, length, day, periods = _prepared(edges, every, start, positive)
    first, models = edges.ticks.min(), _models(models, day, as_seed(random_state))
    longest = max(period.start - first for period in periods)
    n_histories = max(0, math.ceil(math.log2(max(longest / (SHORTEST * day), 1))))
    histories: list[float | None] = [*(float(SHORTEST * 2**k) for k in range(n_histories)), None]
    found: dict[float | None, dict[int, tuple[Positions, list[Floats]]]] = {}
    for at, days in enumerate(histories):
        found[days] = {}
        for k, period in enumerate(periods):
            begin = first if days is None else period.start - days * day
            part = np.flatnonzero((edges.ticks >= begin) & (edges.ticks < period.stop))
            recent = edges[part]
            for short in _periods(recent, length, period.start):
                with warnings.catch_warnings():  # that a few days have few labels is the point of the curve
                    warnings.simplefilter("ignore", TdlgWarning)
                    found[days][k] = part[short.test], _scores(short, models)
            if callback is not None:
                callback(at * len(periods) + k + 1, len(histories) * len(periods))
    found = {days: scored for days, scored in found.items() if 2 * len(scored) >= len(periods)}
    common = sorted(set.intersection(*(set(scored) for scored in found.values())))
    rows = []
    for days, scored in found.items():
        test = np.concatenate([scored[k][0] for k in common])
        together = [np.concatenate(scores) for scores in zip(*(scored[k][1] for k in common), strict=True)]
        shown = "all" if days is None else f"{days:g} days"
        for row in _rows(models, edges, test, together, is_positive, day, alerts_per_day, None):
            kept = {name: value for name, value in row.items() if name not in ("start", "stop", "n_train")}
            rows.append({"history": shown, "days": days, **kept})
    return _table(rows, None)


def alert_precision(is_positive: NDArray[np.bool_], scores: Floats, day: NDArray[Any], k: int) -> float:
    """The share of positives among the k highest scores of each day; equal scores at the border count proportionally.

    Parameters
    ----------
    is_positive
        Which edges are of the positive class.
    scores
        One score per edge, high for the positive class.
    day
        The day of each edge, as a number.
    k
        The number of alerts per day; on a day with fewer edges, all of them.

    Examples
    --------
    >>> is_positive, scores = np.array([True, False, False, True]), np.array([0.9, 0.8, 0.7, 0.1])
    >>> alert_precision(is_positive, scores, np.array([0, 0, 1, 1]), 1)
    0.5
    """
    order = np.argsort(day, kind="stable")
    starts = np.flatnonzero(np.diff(day[order])) + 1
    found = n_alerts = 0.0
    for at in np.split(order, starts):
        alerts = min(k, len(at))
        n_alerts += alerts
        if is_positive[at].any():
            found += alerts * precision_recall_at(is_positive[at], scores[at], alerts)[0]
    return found / n_alerts if n_alerts else float("nan")


# ---- periods


def _prepared(
    edges: TemporalEdges, every: Any, start: Any, positive: Any
) -> tuple[TemporalEdges, NDArray[np.bool_], float, float, list[_Period]]:
    """Edges of two classes, which are positive, the lengths of a period and of a day in ticks, and the periods."""
    length = _in_ticks(every, edges)
    day = round(DAY * ticks_per_second(edges.time_unit)) if edges.time_unit is not None else length / DAYS
    edges, is_positive = _two_classes(edges, positive)
    begin = _start(edges, length, start, day)
    _check_number_of_periods(edges, every, length, begin)
    periods = list(_periods(edges, length, begin))
    if not periods:
        raise EdgesError(
            "There is no period before which labels of two classes were known, and in which edges are labelled.",
            "Pass a shorter every=, or another start=.",
        )
    return edges, is_positive, length, day, periods


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


def _start(edges: TemporalEdges, length: float, start: Any, day: float) -> float:
    """The start of the first period, in ticks."""
    first, last = edges.ticks.min().item(), edges.ticks.max().item()
    if start is None:
        first = first if edges.time_unit is None else first // day * day
        begin = first + max(1, math.ceil(HISTORY * (last - first) / length)) * length
    else:
        ticks, unit = as_times([start], "start")
        if (unit is None) != (edges.time_unit is None):
            form = "a number" if edges.time_unit is None else "a datetime"
            raise ParameterError(
                f"The 'start' must be {form}, like the times of the edges. Got {start!r} instead.",
                parameter="start",
            )
        begin = rounded_up(ticks, unit, edges.time_unit, edges.ticks.dtype)[0].item()
    return begin


def _check_number_of_periods(edges: TemporalEdges, every: Any, length: float, begin: float) -> None:
    n_periods = (edges.ticks.max().item() - begin) / length
    if n_periods > MOST_PERIODS:
        raise ParameterError(
            f"These edges have {n_periods:,.0f} periods, more than {MOST_PERIODS:,}.",
            "Pass a longer every=, or a later start=.",
            parameter="every",
        )


def _periods(edges: TemporalEdges, length: float, start: float) -> Iterator[_Period]:
    """The periods with labelled edges before which labels of both classes were known."""
    ticks, known_at, labelled = edges.ticks, edges.known_at, np.flatnonzero(edges.labelled)
    y, bare = np.asarray(edges.label), edges.with_label(None)
    while len(labelled) and start <= ticks.max():
        begin, stop = start, start + length
        start = stop
        train = labelled[known_at[labelled] < begin]
        test = labelled[(ticks[labelled] >= begin) & (ticks[labelled] < stop)]
        if not len(test) or len(np.unique(y[train])) < 2:
            continue
        inside = (ticks >= begin) & (ticks < stop)
        others = np.flatnonzero(edges.labelled & (ticks < begin) & (known_at >= begin) | inside & ~edges.labelled)
        before = np.flatnonzero(ticks < begin)
        yield _Period(begin, stop, Trial(bare, y, before, train, {"": test}, True, edges.label_time, others), test)


def _two_classes(edges: TemporalEdges, positive: Any) -> tuple[TemporalEdges, NDArray[np.bool_]]:
    """The edges with the labels 1 for the positive class and 0 for all others, and the mask of the positive ones."""
    if edges.label is None:
        raise EdgesError("The edges have no labels.", "Pass them with the edges: `TemporalEdges(..., label=...)`.")
    label = edges.label
    classes = np.unique(label[edges.labelled])
    if len(classes) < 2:
        raise EdgesError(f"A backtest needs labels of at least two classes. Got {len(classes)} instead.")
    is_positive = edges.labelled & (label == classes[positive_class(classes, label, positive)])
    return edges.with_label(np.where(edges.labelled, is_positive, np.nan)), is_positive


# ---- scores


def _models(models: Mapping[str, Any] | None, day: float, seed: Any) -> Mapping[str, Any]:
    """The models given, or the usual three."""
    if models is not None:
        return models
    widths = tuple(days * day for days in WINDOWS)
    usual = Propagation(random_state=seed), LabelRates(random_state=seed), Windows(widths, random_state=seed)
    return {model.name: model for model in usual}


def _scores(period: _Period, models: Mapping[str, Any]) -> list[Floats]:
    """The scores of the labelled edges of a period, by each model."""
    return [scores_in_time(clone(model), period.trial, period.test)[0] for model in models.values()]


def _rows(
    models: Mapping[str, Any],
    edges: TemporalEdges,
    test: Positions,
    scores: list[Floats],
    is_positive: NDArray[np.bool_],
    day: float,
    alerts: int,
    period: _Period | None,
) -> list[dict[str, Any]]:
    """The measurements of all methods on some edges; without a period, those of all periods."""
    truth, day_of = is_positive[test], np.floor_divide(edges.ticks[test], day)
    rows = []
    for method, of_method in zip(models, scores, strict=True):
        auc, precision = auc_and_precision(truth, of_method)
        rows.append(
            {
                "start": None if period is None else period.start,
                "stop": None if period is None else period.stop,
                "method": method,
                "n": len(test),
                "positives": int(truth.sum()),
                "n_train": None if period is None else len(period.trial.train),
                "auc": auc,
                "average_precision": precision,
                "alert_precision": alert_precision(truth, of_method, day_of, alerts),
            }
        )
    return rows


def _table(rows: list[dict[str, Any]], time_unit: Any) -> pl.DataFrame:
    import polars as pl

    frame = pl.DataFrame(rows, infer_schema_length=None)
    if time_unit is not None:
        frame = frame.with_columns(pl.from_epoch(end, time_unit) for end in ("start", "stop"))
    return frame.with_columns(pl.col("auc", "average_precision", "alert_precision").fill_nan(None))
