"""How well the model does on edges whose labels were hidden from it, next to label rates."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from tdlg.checks import set_missing_seed
from tdlg.edges import TemporalEdges
from tdlg.exceptions import TdlgError
from tdlg.judge.evaluate import precision_recall_at
from tdlg.judge.tasks import ChronologicalClassification, EdgeClassification, Trial
from tdlg.methods.references import LabelRates
from tdlg.report.subject import Classifier, Subject, label_times, probabilities

__all__ = ["Area", "Curve", "HeldOut", "Kind", "Ranking", "calibration", "hold_out", "mean_areas", "rank"]

Floats = NDArray[np.float64]
Kind = Literal["random", "time"]
Area = tuple[float, float, float]  # with the ends of its 95 % interval

DRAWS = 200  # of the bootstrap behind an interval
BINS = 10  # of the calibration


@dataclass(frozen=True, eq=False)
class HeldOut:
    """A copy of the model that was fitted without some labels, and its predictions for their edges.

    Attributes
    ----------
    kind
        "random", or "time" if the last labels were held out.
    model
        The copy.
    asked
        The edges held out; with their labels where these become known as time goes on.
    positions
        Their positions among the training edges.
    truth
        Their classes, as positions.
    probability, reference
        The predictions of the copy and of label rates: (n_edges, n_classes).
    n_train
        Number of labels that the copy was fitted on.
    cut
        The first time held out, if labels were held out by time.
    label_time
        When the labels held out become known, if these times were given.
    """

    kind: Kind
    model: Classifier
    asked: TemporalEdges
    positions: NDArray[np.int64]
    truth: NDArray[np.int64]
    probability: Floats
    reference: Floats
    n_train: int
    cut: Any
    label_time: NDArray[Any] | None


@dataclass(frozen=True, eq=False)
class Curve:
    """A curve and what it stands for."""

    x: Floats
    y: Floats


@dataclass(frozen=True, eq=False)
class Ranking:
    """How well scores put one class first.

    Attributes
    ----------
    auc, average_precision
        Areas, each with its 95 % interval by the bootstrap over the held-out edges.
    draws
        Both areas in each draw of the bootstrap, NaN where a draw had edges of one class only: (DRAWS, 2).
    roc, precision_recall
        The curves.
    """

    auc: Area
    average_precision: Area
    draws: Floats
    roc: Curve
    precision_recall: Curve
    is_it: NDArray[np.bool_]
    scores: Floats

    def at(self, k: int) -> tuple[float, float]:
        """Precision and recall of the k highest scores."""
        return precision_recall_at(self.is_it, self.scores, k)


def hold_out(subject: Subject, evaluate: str | None) -> tuple[HeldOut | None, str]:
    """Hide labels, fit a copy of the model and predict them; or None, and the reason why not."""
    if evaluate is None:
        return None, "No labels were held out, as requested (evaluate=None)."
    kind: Kind = _kind(subject) if evaluate == "auto" else "time" if evaluate == "time" else "random"
    try:
        trial = _draw(subject, kind)
        return _judge(subject, kind, trial), ""
    except TdlgError as error:
        return None, f"Labels could not be held out: {error}"


def _kind(subject: Subject) -> Kind:
    """By time if the model predicts later edges, or if every unknown label is later than every known label."""
    if subject.setting is not None:
        return "random" if subject.setting == "interpolate" else "time"
    ticks, known = subject.learnt.ticks, subject.learnt.labelled
    return "time" if not known.all() and ticks[~known].min() > ticks[known].max() else "random"


def _draw(subject: Subject, kind: Kind) -> Trial:
    if kind == "random":
        return EdgeClassification(subject.learnt).draw(subject.seed)
    return ChronologicalClassification(subject.learnt, prequential=subject.setting == "stream").draw(subject.seed)


def _judge(subject: Subject, kind: Kind, trial: Trial) -> HeldOut:
    test = next(iter(trial.tests.values()))
    model, times = _unfitted(subject, kind), label_times(subject.model) if kind == "time" else None
    model.fit(trial.seen(), **({} if times is None else {"label_time": times}))
    asked = (trial.labelled(test) if trial.reveals else trial.edges)[test]
    times = times[test] if times is not None and trial.reveals else None
    probability = probabilities(model, asked, subject.classes, times)
    truth = subject.codes_of(subject.learnt[test])
    reference = _label_rates(subject, trial, asked)
    cut = subject.learnt.ticks[test].min() if kind == "time" else None
    return HeldOut(kind, model, asked, test, truth, probability, reference, len(trial.train), cut, times)


def _unfitted(subject: Subject, kind: Kind) -> Any:
    """A copy with the setting that the model chose, unless labels are held out in a way that does not suit it."""
    model: Any = clone(subject.model)
    if subject.setting is not None:
        suits = (subject.setting == "interpolate") == (kind == "random")
        model.set_params(setting=subject.setting if suits else "interpolate" if kind == "random" else "forecast")
    set_missing_seed(model, subject.seed)
    return model


def _label_rates(subject: Subject, trial: Trial, asked: TemporalEdges) -> Floats:
    """The scores of label rates, one column per class."""
    method = LabelRates(random_state=subject.seed)
    method = method.streaming() if trial.reveals else method
    method.fit(trial.seen())
    scores = method.score(asked)
    by_class = np.column_stack([-scores, scores]) if scores.ndim == 1 else scores
    place = {value: k for k, value in enumerate(subject.classes.tolist())}
    whole = np.full((len(asked), len(subject.classes)), by_class.min(initial=0.0))
    whole[:, [place[value] for value in np.unique(trial.y[trial.train]).tolist()]] = by_class
    return whole


# ---- one class against the rest


def rank(is_it: NDArray[np.bool_], scores: Floats, seed: int = 0) -> Ranking | None:
    """Curves and areas; None where all edges, or none, are of the class."""
    if not 0 < is_it.sum() < len(is_it):
        return None
    levels, level = np.unique(-scores, return_inverse=True)  # from the highest score down
    hits, misses = _found(is_it, level, len(levels))
    tp, fp = np.cumsum(hits), np.cumsum(misses)
    roc = Curve(np.r_[0.0, fp / fp[-1]], np.r_[0.0, tp / tp[-1]])
    precision_recall = Curve(np.r_[0.0, tp / tp[-1]], np.r_[tp[0] / (tp + fp)[0], tp / (tp + fp)])
    areas = np.array(_areas(hits, misses))
    rng = np.random.default_rng(seed)
    draws = np.full((DRAWS, 2), np.nan)
    for draw in draws:
        weight = rng.poisson(1.0, len(is_it)).astype(np.float64)
        sums = _found(is_it, level, len(levels), weight)
        if sums[0].any() and sums[1].any():
            draw[:] = _areas(*sums)
    return Ranking(*_with_intervals(areas, draws), draws, roc, precision_recall, is_it, scores)


def mean_areas(rankings: list[Ranking]) -> tuple[Area, Area]:
    """Area under the curve and average precision, unweighted means over classes; the draws must be of the same seed."""
    areas = np.array([[ranking.auc[0], ranking.average_precision[0]] for ranking in rankings])
    return _with_intervals(areas.mean(axis=0), np.nanmean([ranking.draws for ranking in rankings], axis=0))


def _with_intervals(areas: Floats, draws: Floats) -> tuple[Area, Area]:
    low, high = np.nanquantile(draws, [0.025, 0.975], axis=0)
    auc, average_precision = ((float(areas[k]), float(low[k]), float(high[k])) for k in range(2))
    return auc, average_precision


def _found(
    is_it: NDArray[np.bool_], level: NDArray[Any], n_levels: int, weight: Floats | None = None
) -> tuple[Floats, Floats]:
    """How many edges of the class, and of the rest, have each score."""
    weight = np.ones(len(is_it)) if weight is None else weight
    hits, misses = (np.bincount(level[mask], weight[mask], n_levels).astype(np.float64) for mask in (is_it, ~is_it))
    return hits, misses


def _areas(hits: Floats, misses: Floats) -> tuple[float, float]:
    """Area under the ROC curve, a tie counting for a half; average precision."""
    tp, fp = np.cumsum(hits), np.cumsum(misses)
    auc = (hits * (fp[-1] - fp + misses / 2)).sum() / (tp[-1] * fp[-1])
    average_precision = (hits * tp / np.maximum(tp + fp, 1e-300)).sum() / tp[-1]
    return float(auc), float(average_precision)


def calibration(is_it: NDArray[np.bool_], probability: Floats) -> list[tuple[float, float, float, float, int]]:
    """Tenths of the edges by probability: its mean, the share of the class with its 95 % interval (Wilson), and how many."""
    parts = []
    for part in np.array_split(np.argsort(probability, kind="stable"), min(BINS, max(1, len(is_it) // 5))):
        n, rate = len(part), float(is_it[part].mean())
        middle = (rate + 1.92 / n) / (1 + 3.84 / n)
        half = 1.96 / (1 + 3.84 / n) * float(np.sqrt(rate * (1 - rate) / n + 0.96 / n**2))
        parts.append((float(probability[part].mean()), rate, max(0.0, middle - half), min(1.0, middle + half), n))
    return parts
