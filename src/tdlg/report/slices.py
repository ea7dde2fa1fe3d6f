"""How good a model is on parts of the held-out labels: by the age of a node, and by category."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tdlg.clock import ticks_per_second
from tdlg.judge.holdout import Judged
from tdlg.judge.metrics import auc_and_precision
from tdlg.report.subject import Subject
from tdlg.report.text import Clock, name_of

__all__ = ["FEW", "slices_of"]

Mask = NDArray[np.bool_]
Values = dict[str, Any]

ALERTS_PER_DAY = 20.0  # as in live scoring
LARGEST_SHARE = 0.05  # of the interactions are alerts, at most
DAY = 86_400
FEW = 20  # positive labels of a slice below which its figures are rough
MOST_FEATURES, MOST_CATEGORIES = 3, 6
AGES = 3  # groups of nodes that are not new, equally large


def slices_of(subject: Subject, judged: Judged, alerts_per_day: float = ALERTS_PER_DAY) -> Values:
    """Figures by slice: "k" alerts in all, "few", and the slices by "groups", the first of which is everything.

    An alert is one of the k interactions with the highest scores: `alerts_per_day` of all interactions, of which those
    judged have their share, or a twentieth of them if that is less.
    """
    held = judged.held
    positive, scores = judged.model.is_positive, held.probability[:, judged.positive]
    k = _n_alerts(held.edges.ticks, subject.learnt.ticks, subject.clock, alerts_per_day)
    is_alert = np.zeros(len(scores), bool)
    is_alert[np.argsort(-scores, kind="stable")[:k]] = True
    everything = [("everything", np.ones(len(scores), bool))]
    groups = [("", everything), *_by_age(subject, judged), *_by_category(judged)]
    return {
        "k": k,
        "few": FEW,
        "groups": [
            {"name": name, "rows": [_figures(part, of, positive, scores, is_alert) for part, of in parts if of.any()]}
            for name, parts in groups
        ],
    }


def _n_alerts(ticks: NDArray[Any], of_all: NDArray[Any], clock: Clock, alerts_per_day: float) -> int:
    """How many alerts there would be; where times are numbers, which have no days, the largest share.

    ticks, of_all : the times of the interactions judged, and of all, of which they are a part.
    """
    most = max(1, round(LARGEST_SHARE * len(ticks)))
    if clock.unit is None:
        return most
    first, last = ticks.min(), ticks.max()
    days = float(last - first) / ticks_per_second(clock.unit) / DAY
    share = len(ticks) / max(len(ticks), int(((of_all >= first) & (of_all <= last)).sum()))
    return min(most, max(1, round(alerts_per_day * max(days, 1.0) * share)))


def _figures(name: str, of: Mask, positive: Mask, scores: NDArray[np.float64], is_alert: Mask) -> Values:
    """The figures of a slice; None for those that it has too few labels or alerts for."""
    n_positive, n_alerts = int(positive[of].sum()), int(is_alert[of].sum())
    confirmed = int((positive & is_alert & of).sum())
    has_both = 0 < n_positive < int(of.sum())
    auc, average_precision = auc_and_precision(positive[of], scores[of]) if has_both else (None, None)
    return {
        "name": name,
        "n": int(of.sum()),
        "positive": n_positive,
        "expected": float(scores[of].sum()),
        "auc": auc,
        "average_precision": average_precision,
        "alerts": n_alerts,
        "precision": confirmed / n_alerts if n_alerts else None,
        "recall": confirmed / n_positive if n_positive else None,
    }


def _by_age(subject: Subject, judged: Judged) -> list[tuple[str, list[tuple[str, Mask]]]]:
    """By the time since the first interaction of each end."""
    edges, at = subject.learnt, judged.held.positions
    first = np.full(edges.n_nodes, np.inf)
    for codes in (edges.src_code, edges.dst_code):
        np.minimum.at(first, codes, edges.ticks.astype(np.float64))
    groups = []
    for word, codes in (("source", edges.src_code), ("destination", edges.dst_code)):
        age = edges.ticks[at].astype(np.float64) - first[codes[at]]
        parts = [("first interaction", age == 0)]
        known = age > 0
        bounds = np.quantile(age[known], np.linspace(0, 1, AGES + 1)[1:-1]) if known.any() else np.zeros(0)
        texts = [subject.clock.length(bound) for bound in bounds.tolist()]
        place = np.searchsorted(bounds, age)
        names = [f"up to {texts[0]}", f"{texts[0]} to {texts[1]}", f"over {texts[1]}"] if texts else []
        parts += [(name, known & (place == k)) for k, name in enumerate(names)]
        groups.append((f"Time since the first interaction of the {word}", parts))
    return groups


def _by_category(judged: Judged) -> list[tuple[str, list[tuple[str, Mask]]]]:
    """By the most frequent values of the first features that are words."""
    edges, groups = judged.held.edges, []
    for name, words in list(edges.feature_categories.items())[:MOST_FEATURES]:
        assert edges.features is not None
        codes = edges.features[:, edges.feature_names.index(name)]
        found, counts = np.unique(codes[~np.isnan(codes)], return_counts=True)
        most = found[np.argsort(-counts, kind="stable")][:MOST_CATEGORIES]
        parts = [(name_of(words[int(code)], 40), codes == code) for code in most.tolist()]
        rest = ~np.isnan(codes) & ~np.isin(codes, most)
        groups.append((name_of(name, 40), [*parts, ("other values", rest), ("missing", np.isnan(codes))]))
    return groups
