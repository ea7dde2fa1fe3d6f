"""Metrics of scores against known classes: functions over arrays, for one class against the rest.

The areas have their usual meaning. A tie between an edge of the class and another edge counts half in the area under the
ROC curve; edges with equal scores enter the precision-recall curve together.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tdlg.explain.positive import positive_class

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]
Area = tuple[float, float, float]  # an area, and the ends of its 95 % interval

ALERTS = 100  # edges that a person can check
RESAMPLES = 200  # of the bootstrap behind an interval
FEWEST_BINS, BINS = 3, 10  # of the calibration; fewer if there are few edges


def auc_and_precision(is_positive: Mask, scores: Floats, weight: Floats | None = None) -> tuple[float, float]:
    """Area under the ROC curve, and average precision; NaN where all edges, or none, are of the class.

    Examples
    --------
    >>> auc_and_precision(np.array([True, False, True, False]), np.array([0.9, 0.8, 0.7, 0.1]))
    (0.75, 0.8333333333333333)
    """
    if is_positive.all() or not is_positive.any():
        return float("nan"), float("nan")
    levels, level = np.unique(-scores, return_inverse=True)
    return _areas(*_counts(is_positive, level, len(levels), weight))


def precision_recall_at(is_positive: Mask, scores: Floats, k: int) -> tuple[float, float]:
    """Precision and recall of the k highest scores; equal scores at the border count proportionally.

    Examples
    --------
    >>> precision_recall_at(np.array([True, False, True, False]), np.array([0.9, 0.8, 0.7, 0.1]), 2)
    (0.5, 0.5)
    """
    k, total = min(k, len(scores)), int(is_positive.sum())
    if not k or not total:
        return float("nan"), float("nan")
    border = np.partition(scores, len(scores) - k)[len(scores) - k]
    above, level = scores > border, scores == border
    found = is_positive[above].sum() + (k - above.sum()) * is_positive[level].mean()
    return float(found / k), float(found / total)


def class_metrics(
    labels: NDArray[Any], train: NDArray[np.int64], test: NDArray[np.int64], scores: Floats, positive: Any = None
) -> tuple[float, float, float, float]:
    """Area under the curve and average precision, means over classes; precision and recall of alerts.

    The classes are the labels of `train`; the positive class is chosen by all labels, so it is the same in every trial.
    """
    y, classes = labels[test], np.unique(labels[train])
    by_class = np.column_stack([-scores, scores]) if scores.ndim == 1 else scores
    place = positive_class(classes, labels, positive)
    alerts = precision_recall_at(y == classes[place], by_class[:, place], ALERTS)
    shown = slice(1 if scores.ndim == 1 else 0, None)
    areas = [auc_and_precision(y == label, of) for label, of in zip(classes[shown], by_class.T[shown], strict=True)]
    both = [each for each in areas if not np.isnan(each[0])]
    auc, average_precision = np.mean(both, axis=0).tolist() if both else (float("nan"), float("nan"))
    return auc, average_precision, *alerts


# ---- curves and intervals


class Ranking(NamedTuple):
    """How well scores put one class first; areas have their 95 % interval by the bootstrap over the edges."""

    auc: Area
    average_precision: Area
    resampled: Floats  # both areas in each sample of the bootstrap, NaN where it had edges of one class only
    roc: tuple[Floats, Floats]  # x and y of the points of the curve
    precision_recall: tuple[Floats, Floats]
    is_positive: Mask  # which edges are of the class
    scores: Floats

    def at(self, k: int) -> tuple[float, float]:
        """Precision and recall of the k highest scores."""
        return precision_recall_at(self.is_positive, self.scores, k)


def rank(
    is_positive: Mask,
    scores: Floats,
    seed: int = 0,
    *,
    blocks: NDArray[np.int64] | None = None,
    each: Floats | None = None,
) -> Ranking | None:
    """Curves and areas; None where all edges, or none, are of the class. Edges of a block are resampled together.

    each : how many edges each one stands for.
    """
    if is_positive.all() or not is_positive.any():
        return None
    levels, level = np.unique(-scores, return_inverse=True)  # from the highest score down
    hits, misses = _counts(is_positive, level, len(levels), each)
    tp, fp = np.cumsum(hits), np.cumsum(misses)
    roc = np.r_[0.0, fp / fp[-1]], np.r_[0.0, tp / tp[-1]]
    precision_recall = np.r_[0.0, tp / tp[-1]], np.r_[tp[0] / (tp + fp)[0], tp / (tp + fp)]
    rng = np.random.default_rng(seed)
    resampled = np.full((RESAMPLES, 2), np.nan)
    blocks = np.arange(len(is_positive)) if blocks is None else blocks
    for sample in resampled:
        weight = rng.poisson(1.0, blocks.max() + 1).astype(np.float64)[blocks]
        weight = weight if each is None else weight * each
        sums = _counts(is_positive, level, len(levels), weight)
        if sums[0].any() and sums[1].any():
            sample[:] = _areas(*sums)
    areas = _with_intervals(np.array(_areas(hits, misses)), resampled)
    return Ranking(*areas, resampled, roc, precision_recall, is_positive, scores)


def mean_areas(rankings: list[Ranking]) -> tuple[Area, Area]:
    """Area under the curve and average precision, unweighted means over classes; all rankings must have the same seed."""
    if len(rankings) == 1:
        return rankings[0].auc, rankings[0].average_precision
    areas = np.array([[ranking.auc[0], ranking.average_precision[0]] for ranking in rankings])
    return _with_intervals(areas.mean(axis=0), np.nanmean([ranking.resampled for ranking in rankings], axis=0))


def calibration(is_positive: Mask, probability: Floats) -> list[tuple[float, float, float, float, int]]:
    """Groups of edges by probability: its mean, the share of the class with its 95 % interval (Wilson), and how many.

    The groups are about equally informative: each has the same sum of p (1 - p). So for a rare class the few edges with
    high probabilities are in groups of their own, and not in one tenth with many low ones.

    Examples
    --------
    >>> probability = np.repeat([0.01, 0.5], [1000, 40])
    >>> [(round(mean, 2), n) for mean, *_, n in calibration(probability > np.resize([0.2, 0.6], 1040), probability)]
    [(0.01, 201), (0.01, 201), (0.01, 201), (0.01, 201), (0.01, 196), (0.5, 8), (0.5, 8), (0.5, 8), (0.5, 8), (0.5, 8)]
    """
    order = np.argsort(probability, kind="stable")
    informative = np.cumsum(np.maximum(probability[order] * (1.0 - probability[order]), 1e-9))
    n_parts = int(min(BINS, max(FEWEST_BINS, informative[-1]), max(1, len(order) // 5)))
    group = np.minimum((informative / informative[-1] * n_parts).astype(np.int64), n_parts - 1)
    parts = []
    for part in np.split(order, np.flatnonzero(np.diff(group)) + 1):
        n, rate = len(part), float(is_positive[part].mean())
        middle = (rate + 1.92 / n) / (1 + 3.84 / n)
        half = 1.96 / (1 + 3.84 / n) * float(np.sqrt(rate * (1 - rate) / n + 0.96 / n**2))
        parts.append((float(probability[part].mean()), rate, max(0.0, middle - half), min(1.0, middle + half), n))
    return parts


def _with_intervals(areas: Floats, resampled: Floats) -> tuple[Area, Area]:
    auc, average_precision = np.vstack([areas, np.nanquantile(resampled, [0.025, 0.975], axis=0)]).T.tolist()
    return tuple(auc), tuple(average_precision)


def _counts(
    is_positive: Mask, level: NDArray[Any], n_levels: int, weight: Floats | None = None
) -> tuple[Floats, Floats]:
    """How many edges of the class, and of the rest, have each score."""
    weight = np.ones(len(is_positive)) if weight is None else weight
    hits, misses = (np.bincount(level[mask], weight[mask], n_levels) for mask in (is_positive, ~is_positive))
    return hits.astype(np.float64), misses.astype(np.float64)


def _areas(hits: Floats, misses: Floats) -> tuple[float, float]:
    """Area under the ROC curve, a tie counting for a half; average precision."""
    tp, fp = np.cumsum(hits), np.cumsum(misses)
    auc = (hits * (fp[-1] - fp + misses / 2)).sum() / (tp[-1] * fp[-1])
    average_precision = (hits * tp / np.maximum(tp + fp, 1e-300)).sum() / tp[-1]
    return float(auc), float(average_precision)
