"""What a page says, as one dict of plain values: templates render it, and `--report page.json` writes it."""

from __future__ import annotations

import hashlib
import platform
from collections.abc import Sequence
from importlib.metadata import version
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tdlg import __version__
from tdlg.checks import check_choice, check_count
from tdlg.clock import ticks_per_second, unit_since_1970
from tdlg.edges import TemporalEdges
from tdlg.estimator import Scored
from tdlg.exceptions import EdgesError, TdlgError
from tdlg.explain.nodes import node_scores
from tdlg.judge.holdout import HeldOut, Judged, hold_out, judge, label_codes
from tdlg.judge.metrics import Ranking, auc_and_precision, calibration
from tdlg.report.subject import GROUPS, LastLabels, Selected, Subject, last_labels, make_subject, select_edges
from tdlg.report.text import Clock, in_words, name_of, percent, rounded, share
from tdlg.tables.text import count

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]
Values = dict[str, Any]

MOST_EDGES = 200  # rows of the table of interactions
MOST_FEATURES = 12  # columns of it
MOST_NODES = 60
MOST_DOTS = 1000  # in the chart of scores against time
MOST_POINTS = 250  # of a curve
MOST_CLASSES = 40  # in the table of figures by class
BINS = 48  # stretches of time
LEAST_IN_INTERVAL = 5  # interactions that a share is taken of
REASONS = 3  # for each interaction


def page_model(
    model: Any,
    edges: TemporalEdges | Scored | None = None,
    *,
    y: Any = None,
    title: str | None = None,
    command: str | None = None,
    positive: Any = None,
    label_name: str | None = None,
    ids: Any = None,
    unused: Sequence[str] = (),
    time_unit: str | None = None,
    evaluate: Any = "auto",
    seed: int = 0,
) -> Values:
    """All that a page says; the parameters are those of `write_report`."""
    _check(evaluate, seed, edges)
    subject = make_subject(model, edges, y, positive, time_unit, int(seed), label_name, ids)
    held, judged, why_not = _judged(subject, evaluate)
    selected = select_edges(subject, held)
    last = last_labels(subject.learnt.ticks, label_codes(subject.learnt, subject.classes))
    return _plain(
        {
            "title": "Which interactions to look at first" if title is None else name_of(title, 200),
            "version": __version__,
            "positive": subject.wanted,
            "is_dated": bool(subject.clock.unit),
            "legend": _legend(subject),
            "cautions": _cautions(subject, held, selected, last),
            "interactions": _interactions(subject, selected),
            "nodes": _nodes(subject, selected),
            "quality": {"why_not": why_not} if judged is None else _quality(subject, judged),
            "slices": None if judged is None else slices_of(subject, judged),
            "data": _data(subject, judged, selected, unused),
            "activity": _activity(subject, last),
            "settings": _settings(subject, judged),
            "reproduce": _reproduce(subject, command),
        }
    )


def card_model(
    model: Any, positive: Any, label_name: str | None, alerts_per_day: float, evaluate: Any, seed: int
) -> Values:
    """All that a model card says; the parameters are those of `ModelCard`."""
    subject = make_subject(model, None, None, positive, None, seed, label_name)
    held, judged, why_not = _judged(subject, evaluate)
    selected = select_edges(subject, held)
    last = last_labels(subject.learnt.ticks, label_codes(subject.learnt, subject.classes))
    cautions, slices = _cautions(subject, held, selected, last), None
    if judged is not None:
        slices = slices_of(subject, judged, alerts_per_day)
    quality = {"why_not": why_not} if judged is None else _quality(subject, judged)
    quality.pop("scores", None)  # the dots of single interactions
    said = {
        "title": f"{type(model).__name__} for {subject.wanted}",
        "version": __version__,
        "positive": subject.wanted,
        "is_dated": bool(subject.clock.unit),
        "data": _data(subject, judged, selected, ()),
        "quality": quality,
        "slices": slices,
        "limits": _limits(subject, judged, cautions, slices),
        "settings": _settings(subject, judged),
        "reproduce": _reproduce(subject, None),
    }
    return _plain(said)


def _limits(subject: Subject, judged: Judged | None, cautions: Values, slices: Values | None) -> list[str]:
    """What the figures do not say, in sentences."""
    found = []
    n, n_known = len(subject.learnt), int(subject.learnt.labelled.sum())
    if n_known < n:
        found.append(
            f"{percent(1 - n_known / n)} of the interactions have no label: how good the model is on them is not measured. "
            "If labels are known only for what was looked at, those that nobody looked at may differ."
        )
    if judged is None:
        return [*found, "The quality is not known."]
    found.append(
        f"The figures are of one split: {count(judged.n, 'held-out label')}, "
        f"{int(judged.model.is_positive.sum()):,} of them {subject.wanted}. Other times give other figures."
    )
    if judged.held.how == "random":
        found.append("The labels held out were chosen at random: for later interactions expect less.")
    if cautions["one_class"] is not None:
        one = cautions["one_class"]
        found.append(f"The last {count(one['n'], 'label')}, from {one['start']} on, are all {one['label']}.")
    off = _how_far_off(judged)
    if off is not None:
        word = "high" if off > 1 else "low"
        found.append(f"On the held-out labels the probabilities were {max(off, 1 / off):.2g} times too {word}.")
    if _verdict(judged)["sign"] <= 0:
        found.append(f"It is not clearly better than {_verdict(judged)['reference']}, a simple reference.")
    rows = [row for group in (slices or {"groups": []})["groups"][1:] for row in group["rows"]]
    few = sum(row["positive"] < FEW for row in rows)
    if few:
        found.append(
            f"{few} of the {len(rows)} slices have fewer than {FEW} labels that are {subject.wanted}: too few to compare."
        )
    missing = [row for row in rows if row["alerts"] == 0 and row["positive"]]
    if missing:
        found.append(f"{count(len(missing), 'slice')} with such labels got no alert at all.")
    return found


def _check(evaluate: Any, seed: Any, edges: Any) -> None:
    if not isinstance(evaluate, HeldOut):
        check_choice("write_report", "evaluate", evaluate, ("auto", "random", "time", None))
    check_count("write_report", "seed", seed, 0)
    edges = edges.edges if isinstance(edges, Scored) else edges
    if isinstance(edges, TemporalEdges) and not len(edges):
        raise EdgesError("There are no edges to report on: give at least one.")


def _judged(subject: Subject, evaluate: Any) -> tuple[HeldOut | None, Judged | None, str]:
    """The labels held out, how well they were predicted, and the reason where that is not known."""
    if evaluate is None:
        return None, None, "No labels were held out, as requested (evaluate=None)."
    held = evaluate if isinstance(evaluate, HeldOut) else None
    try:
        held = held or hold_out(subject.model, subject.learnt, evaluate, subject.seed)
        return held, judge(held, subject.positive), ""
    except TdlgError as error:
        return held, None, f"The quality could not be measured: {error}"


def _plain(value: Any) -> Any:
    """Values that JSON has: numbers that are not finite are None."""
    if isinstance(value, dict):
        return {key: _plain(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    if isinstance(value, np.ndarray | np.generic):
        return _plain(value.tolist())
    return None if isinstance(value, float) and not np.isfinite(value) else value


def _span(subject: Subject, edges: TemporalEdges) -> str:
    return subject.clock.span(edges.ticks.min(), edges.ticks.max())


# ---- classes, and what a reader should know before trusting the figures


def _legend(subject: Subject) -> list[Values]:
    """The classes and the group that each is drawn as, the positive one first."""
    items = [{"group": subject.group_of(k), "name": subject.called(k)} for k in subject.groups]
    return [*items, {"group": GROUPS, "name": "other classes"}] if len(subject.classes) > len(items) else items


def _cautions(subject: Subject, held: HeldOut | None, selected: Selected, last: LastLabels | None) -> Values:
    """Labels of one class only at the end; a quality that was measured in another setting."""
    found: Values = {"one_class": None, "other_setting": None}
    if last is not None:
        start, name = subject.clock.short(last.start), subject.called(last.code)
        found["one_class"] = {"n": last.n, "start": start, "label": name, "share_before": last.share_before}
    if selected.is_to_predict and held is not None and held.how == "random":
        n, latest = len(selected.edges), subject.learnt.ticks[subject.learnt.labelled].max()
        n_later = int(np.count_nonzero(selected.edges.ticks > latest))
        if n_later > n / 2:
            found["other_setting"] = {"n_later": n_later, "n": n}
    return found


# ---- interactions and nodes to look at first


def _interactions(subject: Subject, selected: Selected) -> Values:
    """The interactions with the highest scores, with the reasons that the model gives."""
    order = np.argsort(-selected.score, kind="stable")[:MOST_EDGES]
    edges = selected.edges[order]
    names = [*edges.feature_names, *["weight"] * (edges.weight is not None)]
    features = [_feature(edges, name) for name in names[:MOST_FEATURES]]
    reasons = _reasons(subject, selected, order)
    truth = selected.truth[order].tolist()
    rows = [
        {
            "rank": k + 1,
            "row": row + 1,  # as `tdlg explain --row` counts
            "id": None if subject.ids is None else name_of(subject.ids[1][position]),
            "src": name_of(edges.src[k]),
            "dst": name_of(edges.dst[k]),
            "time": subject.clock.text(edges.ticks[k]),
            "tick": float(edges.ticks[k]),
            "probability": float(selected.score[at]),
            "label": subject.names[truth[k]] if truth[k] >= 0 else None,
            "is_positive": truth[k] == subject.positive,
            "features": [feature["values"][k] for feature in features],
            "reasons": reasons[at],
        }
        for k, (at, row, position) in enumerate(
            zip(order.tolist(), edges.rows.tolist(), selected.positions[order].tolist(), strict=True)
        )
    ]
    n_left_out = max(0, len(names) - MOST_FEATURES)
    return {
        "origin": selected.origin,
        "n": len(selected.edges),
        "id_name": None if subject.ids is None else subject.ids[0],
        "label_name": "Label" if subject.label_name is None else name_of(subject.label_name, 40),
        "has_labels": any(k >= 0 for k in truth),
        "has_reasons": any(reasons.values()),
        "features": [{"name": feature["name"], "is_number": feature["is_number"]} for feature in features],
        "n_features_not_shown": n_left_out - (n_left_out > 0 and edges.weight is not None),
        "weight_not_shown": n_left_out > 0 and edges.weight is not None,
        "rows": rows,
    }


def _feature(edges: TemporalEdges, name: str) -> Values:
    """A feature or the weight: numbers, or categories as text, None where missing."""
    at = edges.feature_names.index(name) if name in edges.feature_names else None
    values: Any = edges.weight if at is None or edges.features is None else edges.features[:, at]
    words = edges.feature_categories.get(name)
    if words is None:
        digits = np.finfo(values.dtype).precision
        shown: list[Any] = [None if np.isnan(x) else float(f"{x:.{digits}g}") for x in values]
    else:
        shown = [None if np.isnan(x) else name_of(words[int(x)]) for x in values]
    return {"name": name_of(name, 40), "is_number": words is None, "values": shown}


def _reasons(subject: Subject, selected: Selected, order: NDArray[np.int64]) -> dict[int, list[Values]]:
    """The sentences of the model, and their effect on the score of the positive class."""
    positive = subject.classes[subject.positive]
    found = selected.model.explain(selected.scored, REASONS, rows=order, positive=positive)
    items: dict[int, list[Values]] = {at: [] for at in order.tolist()}
    for edge, reason, effect in found["edge", "reason", "effect"].iter_rows():
        items[edge].append({"reason": name_of(reason, 300), "effect": effect})
    return items


def _nodes(subject: Subject, selected: Selected) -> Values:
    """The nodes whose interactions are the riskiest."""
    positive = subject.classes[subject.positive]
    found = node_scores(selected.model, selected.scored, positive, top=MOST_NODES)
    roles = {"src": "source", "dst": "destination", "both": "both"}
    rows = [
        {
            "rank": k,
            "node": name_of(line["node"]),
            "role": roles[line["role"]],
            **{name: line[name] for name in ("n", "expected", "mean", "highest")},
            "reason": None if line["reason"] is None else name_of(line["reason"], 300),
        }
        for k, line in enumerate(found.to_dicts(), 1)
    ]
    return {"has_reasons": any(row["reason"] for row in rows), "rows": rows}


# ---- quality on held-out labels


def _quality(subject: Subject, judged: Judged) -> Values:
    """Figures and curves on held-out edges, beside references; every list of figures is in the order of `names`."""
    held, rankings = judged.held, judged.by_class[judged.positive]
    auc, precision = zip(*judged.headline.values(), strict=True)
    areas = [
        _area(judged.titled("AUC"), "1 is a perfect order, 0.5 is chance", auc, 0.5),
        _area(judged.titled("Average precision"), "area under the precision-recall curve", precision, judged.chance),
    ]
    if judged.is_mean:
        of_class = [ranking.auc for ranking in rankings.values()], [r.average_precision for r in rankings.values()]
        areas += [
            _area(f"AUC for {subject.wanted}", "against the rest", of_class[0], 0.5),
            _area(f"Average precision for {subject.wanted}", "against the rest", of_class[1], judged.prevalence),
        ]
    return {
        "why_not": "",
        "how": held.how,
        "uses_later_labels": subject.setting == "stream",
        "n": judged.n,
        "n_train": held.n_train,
        "span": _span(subject, held.edges),
        "is_mean": judged.is_mean,
        "prevalence": judged.prevalence,
        "names": ["this model", *judged.references],
        "areas": areas,
        "tops": [
            {
                "k": k,
                "at": [ranking.at(k) for ranking in rankings.values()],
                "chance": [judged.prevalence, k / judged.n],
            }
            for k in judged.tops
        ],
        "top": judged.top,
        "auc": [ranking.auc[0] for ranking in rankings.values()],
        "average_precision": [ranking.average_precision[0] for ranking in rankings.values()],
        "verdict": _verdict(judged),
        "too_high": _how_far_off(judged),
        "by_class": _by_class(subject, judged),
        "roc": [_points(*ranking.roc) for ranking in rankings.values()],
        "precision_recall": [_precision(ranking) for ranking in rankings.values()],
        "calibration": [
            {"probability": mean, "share": rate, "low": low, "high": high, "n": n}
            for mean, rate, low, high, n in calibration(judged.model.is_positive, judged.model.scores)
        ],
        "scores": _score_dots(subject, held),
    }


def _area(name: str, note: str, areas: Any, chance: float) -> Values:
    """A figure of all predictions, each with the ends of its interval."""
    return {"name": name, "note": note, "values": list(areas), "chance": chance}


def _verdict(judged: Judged) -> Values:
    """Whether the model is better (1) than the best reference, as good (0), or worse (-1), on the same samples."""
    name, best = max(judged.references.items(), key=lambda item: item[1].auc[0])
    low, high = np.nanquantile(judged.model.resampled[:, 0] - best.resampled[:, 0], [0.025, 0.975])
    return {"reference": name, "sign": int(low > 0) - int(high < 0)}


def _how_far_off(judged: Judged | None) -> float | None:
    """By which factor held-out probabilities are too high (above 1) or too low; None if it is small or may be chance."""
    if judged is None:
        return None
    predicted, observed = judged.model.scores, judged.model.is_positive
    expected, found = float(predicted.sum()), int(observed.sum())
    chance = 2.0 * float((predicted * (1.0 - predicted)).sum()) ** 0.5
    ratio = max(expected, 1e-9) / max(found, 1e-9)
    if abs(expected - found) <= chance or max(ratio, 1 / ratio) < 1.25:
        return None
    return ratio


def _by_class(subject: Subject, judged: Judged) -> list[Values]:
    """The area of each class against the rest, where there are several."""
    rows = []
    for k, name in enumerate(subject.names[:MOST_CLASSES] if len(subject.names) > 2 else []):
        found = judged.by_class.get(k)
        auc = None if found is None else [found[one].auc[0] for one in judged.by_class[judged.positive]]
        n = int((judged.held.truth == k).sum())
        rows.append({"name": name, "group": subject.group_of(k), "n": n, "auc": auc})
    return rows


def _points(x: Floats, y: Floats) -> list[list[float]]:
    """A curve by at most `MOST_POINTS` of its points, its ends among them."""
    keep = np.unique(np.linspace(0, len(x) - 1, min(len(x), MOST_POINTS)).round().astype(np.int64))
    return [rounded(x[keep], 5), rounded(y[keep], 5)]


def _precision(ranking: Ranking) -> list[list[float]]:
    """The curve at places evenly spread over recall, its first among them."""
    x, y = ranking.precision_recall
    if len(x) > MOST_POINTS:
        keep = np.unique(np.searchsorted(x, np.linspace(0, 1, 200)).clip(0, len(x) - 1))
        x, y = x[keep], y[keep]
    return [rounded(x, 5), rounded(y, 5)]


def _score_dots(subject: Subject, held: HeldOut) -> Values:
    """What the script draws: held-out edges by time and score, a random sample of them if there are many."""
    n = len(held.edges)
    rng = np.random.default_rng(subject.seed)
    at = np.sort(rng.choice(n, MOST_DOTS, replace=False)) if n > MOST_DOTS else np.arange(n)
    edges, score, truth = held.edges[at], held.probability[at, subject.positive], held.truth[at].tolist()
    first, last = float(held.edges.ticks.min()), float(held.edges.ticks.max())
    width = (last - first) or 1.0
    return {
        "group": [subject.group_of(k) for k in truth],
        "score": rounded(score, 3),
        "said": [share(value) for value in score.tolist()],
        "src": [name_of(value) for value in edges.src],
        "dst": [name_of(value) for value in edges.dst],
        "when": subject.clock.texts(edges.ticks),
        "label": [subject.names[k] for k in truth],
        "n": len(edges),
        "x": rounded((edges.ticks.astype(np.float64) - first) / width, 5),
        "y": rounded(score),
        "range": [[-0.01, 1.01], [-0.02, 1.02]],
        "xTicks": [[(value - first) / width, text] for value, text in subject.clock.axis(first, last, 6)],
        "yTicks": [[value, f"{value:g}"] for value in (0.0, 0.25, 0.5, 0.75, 1.0)],
    }


# ---- figures by slice: by the age of a node, and by category

ALERTS_PER_DAY = 20.0  # as in live scoring
LARGEST_SHARE = 0.05  # of the interactions are alerts, at most
DAY = 86_400
FEW = 20  # positive labels of a slice below which its figures are rough
MOST_SLICED, MOST_CATEGORIES = 3, 6
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
    for name, words in list(edges.feature_categories.items())[:MOST_SLICED]:
        assert edges.features is not None
        codes = edges.features[:, edges.feature_names.index(name)]
        found, counts = np.unique(codes[~np.isnan(codes)], return_counts=True)
        most = found[np.argsort(-counts, kind="stable")][:MOST_CATEGORIES]
        parts = [(name_of(words[int(code)], 40), codes == code) for code in most.tolist()]
        rest = ~np.isnan(codes) & ~np.isin(codes, most)
        groups.append((name_of(name, 40), [*parts, ("other values", rest), ("missing", np.isnan(codes))]))
    return groups


# ---- the data, and activity over time


def _data(subject: Subject, judged: Judged | None, selected: Selected, unused: Sequence[str]) -> Values:
    """What was read."""
    edges, codes = subject.edges, subject.codes
    n_known, n_edges = int(edges.labelled.sum()), len(edges)
    labels: list[Values] = [
        {"name": subject.called(k), "group": subject.group_of(k), "n": int((codes == k).sum())} for k in subject.groups
    ]
    n_rest = n_known - sum(label["n"] for label in labels)
    labels += [{"name": "other labels", "group": GROUPS, "n": n_rest}] * (n_rest > 0)
    labels += [{"name": "unlabelled", "group": 0, "n": n_edges - n_known}] * (n_known < n_edges)
    others = edges.dst_code[edges.src_code != edges.dst_code]  # one with itself has the node at an end once
    ends = np.bincount(np.concatenate([edges.src_code, others]), minlength=edges.n_nodes)
    return {
        "n_edges": n_edges,
        "n_nodes": edges.n_nodes,
        "n_src_nodes": edges.n_src_nodes,
        "n_labelled": n_known,
        "n_to_predict": n_edges - n_known,
        "n_expected": float(selected.score.sum()),
        "span": _span(subject, edges),
        "span_ranked": _span(subject, selected.edges),
        "is_datetime": edges.time_unit is not None,
        "as_dates": _as_dates(subject),
        "n_times": len(np.unique(edges.ticks)),
        "busiest": {"node": name_of(edges.node_ids[int(ends.argmax())]), "n": int(ends.max())},
        "features": [name_of(name, 40) for name in edges.feature_names],
        "unused": [name_of(name, 40) for name in unused],
        "has_weight": edges.weight is not None,
        "n_fitted": None if subject.is_learnt else len(subject.learnt),
        "labels": labels,
    }


def _as_dates(subject: Subject) -> list[str] | None:
    """The first and last time as dates, where they are numbers that look like seconds since 1970."""
    ticks = subject.edges.ticks
    if subject.clock.unit is not None or unit_since_1970(ticks) != "s" or ticks.min() == ticks.max():
        return None
    return [str(np.datetime64(int(tick), "s").astype("datetime64[D]")) for tick in (ticks.min(), ticks.max())]


def _activity(subject: Subject, one_class: LastLabels | None) -> Values | None:
    """Interactions by label, and shares of the positive class, in equal intervals of time; None for a single time."""
    edges, codes, clock = subject.edges, subject.codes, subject.clock
    first, last = float(edges.ticks.min()), float(edges.ticks.max())
    if first == last:
        return None
    bounds = np.linspace(first, last, BINS + 1)
    at = np.clip(np.searchsorted(bounds, edges.ticks, side="right") - 1, 0, BINS - 1)
    middles = (bounds[:-1] + bounds[1:]) / 2
    ends, centres = (bounds.astype(np.int64), middles.astype(np.int64)) if clock.unit else (bounds, middles)
    is_known, is_wanted = edges.labelled, codes == subject.positive
    others = [subject.called(k) for k in range(len(subject.classes)) if k != subject.positive]
    layers = [
        {"name": name, "group": group, "n": np.bincount(at[mask], minlength=BINS)}
        for name, group, mask in (
            (subject.wanted, 1, is_wanted),
            (others[0] if len(others) == 1 else "other classes", 2, is_known & ~is_wanted),
            ("unlabelled", 0, ~is_known),
        )
        if mask.any()
    ]
    usual = is_known if one_class is None else is_known & (edges.ticks < one_class.start)
    score = subject.scored.values[:, subject.positive]
    shares = {
        "among the labelled": _shares(at[usual], is_wanted[usual].astype(np.float64)),
        "expected among the unlabelled": _shares(at[~is_known], score[~is_known]),
    }
    start = None if one_class is None or not is_known.any() else clock.short(one_class.start)
    return {
        "length": clock.length((last - first) / BINS),
        "n_bins": BINS,
        "bounds": bounds,
        "spans": [clock.span(ends[k], ends[k + 1]) for k in range(BINS)],
        "middles": middles,
        "times": [clock.short(tick) for tick in centres],
        "ticks": {"long": clock.axis(first, last, 6), "short": clock.axis(first, last, 4)},
        "layers": layers,
        "shares": {name: values for name, values in shares.items() if np.isfinite(values).any()},
        "least": LEAST_IN_INTERVAL,
        "left_out_from": start,
    }


def _shares(at: NDArray[np.int64], values: Floats) -> Floats:
    """Means by interval, NaN where there are too few."""
    n = np.bincount(at, minlength=BINS)
    return np.where(n >= LEAST_IN_INTERVAL, np.bincount(at, values, BINS) / np.maximum(n, 1), np.nan)


# ---- settings, and how to reproduce the page

MEANING = {
    "interpolate": "labels before and after an interaction may be used",
    "forecast": "interactions after the last known label are predicted",
    "stream": "each interaction is scored with the labels known at its time",
}


def _settings(subject: Subject, judged: Judged | None) -> Values:
    """The model's parameters and what was chosen for them: name, value and note of each."""
    model: Any = subject.model
    lines = [("Model", type(model).__name__, "")]
    if subject.setting is not None:
        why = model.setting_reason_
        chosen = "as requested" if why is None else f"chosen because {why}"
        lines.append(("Setting", subject.setting, f"{MEANING[subject.setting]}; {chosen}"))
        lines += _learnt(model)
    decay = getattr(model, "decay_", None)
    if decay is not None:
        how = "chosen by cross-validation" if getattr(model, "bandwidth", None) == "auto" else "fixed at fit"
        lines.append(("Decay", repr(decay), how))
    known = in_words(subject.names) if len(subject.names) <= 8 else count(len(subject.names), "class")
    lines.append(("Predicted class", subject.wanted, f"of {known}"))
    if judged is not None:
        word = "the last 30 % of the labels, by time" if judged.held.how == "time" else "30 % of the labels, at random"
        inner = getattr(judged.held.model, "setting_", None)
        fits = "" if inner == subject.setting else f"the copy’s setting was {inner}, to suit this way of holding out"
        lines.append(("Held out", word, fits))
    parameters = sorted(model.get_params(deep=False).items())
    return {
        "lines": [{"name": name, "value": value, "note": note} for name, value, note in lines],
        "parameters": [
            [name, name_of(repr(value.item() if isinstance(value, np.generic) else value), 200)]
            for name, value in parameters
        ],
    }


def _learnt(model: Any) -> list[tuple[str, str, str]]:
    """The time scales, the rows and the trees of a propagation model."""
    scales = model.features_.plan_.scales_in_words(model.edges_.time_unit)
    how = "chosen from the data" if isinstance(model.scales, str) else "as requested"
    lines = [("Time scales", scales, how)] if scales else []
    whole = model.n_rows_sampled_from_
    sampled = "" if model.n_rows_ == whole else f"sampled from {whole:,}; rare classes were kept"
    lines.append(("Learnt from", count(model.n_rows_, "row"), sampled))
    trees = {(one.n_iter_, one.max_leaf_nodes) for one in model.estimators_ if hasattr(one, "n_iter_")}
    trees = {pair for pair in trees if isinstance(pair[0], int)}
    if trees:
        numbers, leaves = (" to ".join(map(str, sorted({min(of), max(of)}))) for of in zip(*trees, strict=True))
        lines.append(("Boosted trees", f"{numbers} trees with up to {leaves} leaves each", ""))
    return lines


def _reproduce(subject: Subject, command: str | None) -> Values:
    """The command, the versions, the seed, and a digest of the data."""
    versions = {"tdlg": __version__, "Python": platform.python_version()}
    versions |= {name: version(name) for name in ("numpy", "scikit-learn")}
    return {"command": command, "versions": versions, "seed": subject.seed, "data": _fingerprint(subject)}


def _fingerprint(subject: Subject) -> str:
    """A digest of the edges and labels, to tell whether two pages are about the same."""
    edges, digest = subject.edges, hashlib.sha256()
    for column in (edges.src_code, edges.dst_code, edges.ticks, subject.codes):
        digest.update(np.ascontiguousarray(column).tobytes())
    digest.update("\0".join(map(str, edges.node_ids)).encode(errors="surrogatepass"))
    return digest.hexdigest()[:16]
