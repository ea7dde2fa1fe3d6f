"""backtest: go through time, refit at the start of each period on what was known then, and score the period."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tdlg.checks import as_seed, check_count
from tdlg.edges import TemporalEdges
from tdlg.exceptions import EdgesError, TdlgWarning
from tdlg.explain.positive import positive_class
from tdlg.judge.metrics import auc_and_precision, precision_recall_at
from tdlg.judge.references import WINDOWS, LabelRates, Windows
from tdlg.judge.run import run_trial
from tdlg.judge.trials import Period, Periods, Trial, periods_from
from tdlg.models.propagation import PropagationClassifier

if TYPE_CHECKING:
    import polars as pl

Floats = NDArray[np.float64]
Positions = NDArray[np.int64]

SHORTEST = 7  # days of the first history of a learning curve; each is twice the one before


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

    The trials are those of `tdlg.judge.trials.Periods`: at the start of each period, the models are fitted on the edges
    before it and the labels known by then. By default "propagation" (`PropagationClassifier`), "label rates" (`LabelRates`)
    and "windows" (`Windows`) are measured.

    Parameters
    ----------
    edges, every, start
        As for `tdlg.judge.trials.Periods`.
    models
        The models to measure, by name: whatever `tdlg.judge.run.evaluate` takes. One with a parameter `setting` has the
        setting "stream"; one that cannot take in labels is fitted again for six parts of each period.
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

    Examples
    --------
    >>> from tdlg import make_payments
    >>> payments = make_payments(1500, random_state=0)
    >>> edges = payments.edges.with_label(payments.edges.label, payments.label_time)
    >>> table = backtest(edges, "60d", alerts_per_day=2)
    >>> table.select("start", "method", "n")[:3].rows()[0]
    (datetime.datetime(2025, 3, 2, 0, 0), 'propagation', 526)
    """
    task, judge = prepared("backtest", edges, every, models, start, alerts_per_day, positive, random_state)
    rows: list[dict[str, Any]] = []
    scored: list[tuple[Positions, list[Floats]]] = []
    for done, period in enumerate(task.periods, start=1):
        scored.append((period.test, judge.scores(period.trial)))
        rows += judge.rows(scored[-1:], period)
        if callback is not None and callback(done, task.n_trials):
            break
    return _table([*rows, *judge.rows(scored)], task.edges.time_unit)


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

    The histories are 7, 14, 28 days and so on, then all days before the period. An edge before the history is seen by no
    model. Only periods that can be predicted from every history are compared; a history is left out if it has labels of
    both classes before fewer than half of the periods. The parameters are those of `backtest`; `callback` is called after
    each period and history.

    Returns
    -------
    polars.DataFrame
        One row per history and method. Columns: history (in words, or "all"), days (null for all), then as in the total of
        `backtest`.

    Examples
    --------
    >>> from tdlg import make_payments
    >>> payments = make_payments(1500, random_state=0)
    >>> edges = payments.edges.with_label(payments.edges.label, payments.label_time)
    >>> learning_curve(edges, "60d")["history"].unique(maintain_order=True).to_list()[-2:]
    ['112 days', 'all']
    """
    task, judge = prepared("learning_curve", edges, every, models, start, alerts_per_day, positive, random_state)
    edges, periods = task.edges, task.periods
    first = edges.ticks.min()
    longest = max(period.start - first for period in periods)
    n_histories = max(0, math.ceil(math.log2(max(longest / (SHORTEST * task.day), 1))))
    histories: list[float | None] = [*(float(SHORTEST * 2**k) for k in range(n_histories)), None]
    found: dict[float | None, dict[int, tuple[Positions, list[Floats]]]] = {}
    for at, days in enumerate(histories):
        found[days] = {}
        for k, period in enumerate(periods):
            begin = first if days is None else period.start - days * task.day
            part = np.flatnonzero((edges.ticks >= begin) & (edges.ticks < period.stop))
            for short in periods_from(edges[part], task.length, period.start):
                with warnings.catch_warnings():  # that a few days have few labels is the point of the curve
                    warnings.simplefilter("ignore", TdlgWarning)
                    found[days][k] = part[short.test], judge.scores(short.trial)
            if callback is not None:
                callback(at * len(periods) + k + 1, len(histories) * len(periods))
    found = {days: scored for days, scored in found.items() if 2 * len(scored) >= len(periods)}
    common = sorted(set.intersection(*(set(scored) for scored in found.values())))
    rows = []
    for days, scored in found.items():
        shown = "all" if days is None else f"{days:g} days"
        for row in judge.rows([scored[k] for k in common]):
            kept = {name: value for name, value in row.items() if name not in ("start", "stop", "n_train")}
            rows.append({"history": shown, "days": days, **kept})
    return _table(rows, None)


def alert_precision(is_positive: NDArray[np.bool_], scores: Floats, day: NDArray[Any], k: int) -> float:
    """The share of positives among the k highest scores of each day; equal scores at the border count proportionally.

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


# ---- models and measurements


def prepared(
    owner: str,
    edges: TemporalEdges,
    every: Any,
    models: Mapping[str, Any] | None,
    start: Any,
    alerts_per_day: int,
    positive: Any,
    random_state: Any,
) -> tuple[Periods, _Judge]:
    """The periods of the edges with the labels 1 for the positive class and 0 for all others, and who judges them."""
    check_count(owner, "alerts_per_day", alerts_per_day, 1)
    seed = as_seed(random_state)
    if edges.label is None:
        raise EdgesError("The edges have no labels.", "Pass them with the edges: `TemporalEdges(..., label=...)`.")
    label = edges.label
    classes = np.unique(label[edges.labelled])
    if len(classes) < 2:
        raise EdgesError(f"A backtest needs labels of at least two classes. Got {len(classes)} instead.")
    is_positive = edges.labelled & (label == classes[positive_class(classes, label, positive)])
    task = Periods(edges.with_label(np.where(edges.labelled, is_positive, np.nan)), every, start)
    return task, _Judge(task, is_positive, alerts_per_day, usual_models(task.day, seed) if models is None else models)


def usual_models(day: float, seed: Any) -> dict[str, Any]:
    """The models that are measured by default."""
    usual = LabelRates(random_state=seed), Windows(tuple(days * day for days in WINDOWS), random_state=seed)
    return {"propagation": PropagationClassifier(random_state=seed), **{model.name: model for model in usual}}


class _Judge(NamedTuple):
    """The models, and what their scores are measured by."""

    task: Periods
    is_positive: NDArray[np.bool_]
    alerts_per_day: int
    models: Mapping[str, Any]

    def scores(self, trial: Trial) -> list[Floats]:
        """The scores of the labelled edges of a period, by each model."""
        return [scores for model in self.models.values() for scores, _ in run_trial(model, trial).values()]

    def rows(self, scored: list[tuple[Positions, list[Floats]]], period: Period | None = None) -> list[dict[str, Any]]:
        """The measurements of all models on the edges of these periods together."""
        test = np.concatenate([test for test, _ in scored])
        truth, day = self.is_positive[test], np.floor_divide(self.task.edges.ticks[test], self.task.day)
        start, stop, trial = period or (None, None, None)
        rows = []
        for k, name in enumerate(self.models):
            scores = np.concatenate([of_models[k] for _, of_models in scored])
            auc, precision = auc_and_precision(truth, scores)
            rows.append(
                {
                    **{"start": start, "stop": stop, "method": name, "n": len(test), "positives": int(truth.sum())},
                    "n_train": None if trial is None else len(trial.train),
                    "auc": auc,
                    "average_precision": precision,
                    "alert_precision": alert_precision(truth, scores, day, self.alerts_per_day),
                }
            )
        return rows


def _table(rows: list[dict[str, Any]], time_unit: Any) -> pl.DataFrame:
    import polars as pl

    frame = pl.DataFrame(rows, infer_schema_length=None)
    if time_unit is not None:
        frame = frame.with_columns(pl.from_epoch(end, time_unit) for end in ("start", "stop"))
    return frame.with_columns(pl.col("auc", "average_precision", "alert_precision").fill_nan(None))
