"""Held-out labels: a copy of a model is fitted without some labels, and judged on them next to simple references."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from tdlg.checks import set_missing_seed
from tdlg.edges import TemporalEdges
from tdlg.estimator import Scored
from tdlg.exceptions import EdgesError, ParameterError
from tdlg.judge.metrics import Area, Ranking, mean_areas, rank
from tdlg.judge.references import LabelRates, Windows
from tdlg.judge.run import run_trial
from tdlg.judge.trials import EdgeClassification, ForecastClassification, Trial
from tdlg.models.training import choose_setting
from tdlg.propagate.features import find_fitted

Floats = NDArray[np.float64]
Positions = NDArray[np.int64]
How = Literal["random", "time"]

TOPS = (10, 50, 100, 500, 1000)  # lengths of lists that somebody could check
MODEL = "model"  # the name of its predictions, beside those of references
MOST_CLASSES = 16  # up to which plain windows are a reference


# ---- labels are held out, and predicted


@dataclass(frozen=True, eq=False)
class HeldOut:
    """A copy of a model that was fitted without some labels, and its predictions for their edges, beside the references'."""

    how: How  # "time" if the last labels were held out
    model: Any  # the copy
    scored: Scored  # the edges held out; with their labels where these become known as time goes on
    positions: Positions  # of the edges held out among all edges
    classes: NDArray[Any]  # the distinct labels of all edges, sorted
    truth: Positions  # the classes of the edges held out, as positions in `classes`
    predictions: dict[str, Floats]  # (n_edges, n_classes) each: the copy's ("model"), "label rates", often "windows"
    n_train: int  # labels that the copy was fitted on
    seed: int  # of every random choice
    _ranked: dict[int, dict[str, Ranking]] = field(default_factory=dict, repr=False)

    @property
    def edges(self) -> TemporalEdges:
        """The edges held out."""
        return self.scored.edges

    @property
    def probability(self) -> Floats:
        """The predictions of the copy, (n_edges, n_classes)."""
        return self.predictions[MODEL]

    def rankings(self, k: int) -> dict[str, Ranking]:
        """How well each of the predictions puts the k-th class first; none where all edges, or none, are of the class."""
        if k not in self._ranked:
            found = {name: rank(self.truth == k, of[:, k], self.seed) for name, of in self.predictions.items()}
            self._ranked[k] = {name: ranking for name, ranking in found.items() if ranking is not None}
        return self._ranked[k]


def hold_out(model: Any, edges: TemporalEdges, how: How | Literal["auto"] = "auto", seed: int = 0) -> HeldOut:
    """Hide labels from a copy of a model, fit it and predict the hidden labels.

    The copy has the setting of the model, or where the split does not suit it, "interpolate" (at random) or "forecast" (the
    last labels). With a `label_time`, it learns from the labels that were known at the cut; in the setting "stream" each
    later label counts from when it became known.

    Parameters
    ----------
    model
        A `PropagationClassifier` or `LineGraphClassifier`, fitted or not.
    edges
        The edges with the labels to learn from.
    how
        "random" holds out 30 % of the labels at random, "time" the last 30 %. By default "time" if the model predicts
        later edges, or if every unknown label is later than every known label.
    seed
        Seed for the split, the label rates, and a model without a `random_state`; 0 by default.

    Examples
    --------
    >>> from tdlg import PropagationClassifier
    >>> edges = TemporalEdges(["a", "b", "c", "d"] * 25, ["x", "y"] * 50, range(100), label=[1, 0] * 50)
    >>> held = hold_out(PropagationClassifier(), edges)
    >>> held.how, held.n_train, judge(held, positive=1).model.auc[0]
    ('time', 70, 1.0)
    """
    edges = with_label_times(edges, model)
    setting = getattr(model, "setting_", getattr(model, "setting", None))
    if setting == "auto" and edges.label_ticks is not None:
        setting = "stream"  # as the model itself would choose
    how = suitable_split(edges, setting) if how == "auto" else how
    is_stream = setting == "stream" and how == "time"
    task = ForecastClassification(edges, stream=is_stream) if how == "time" else EdgeClassification(edges)
    trial = draw_trial(task, seed, check_test=False)
    (test,) = trial.tests.values()
    copy = _unfitted(model, how, setting, seed).fit(trial.seen())
    to_score = trial.revealed(test) if trial.reveals else trial.edges[test]
    scored = copy.scored(to_score).some(np.arange(len(test)))
    classes = np.unique(np.asarray(edges.label)[edges.labelled])
    references = [LabelRates(random_state=seed)]
    if len(classes) <= MOST_CLASSES:
        references.append(Windows(random_state=seed))
    predictions = {MODEL: for_all_classes(scored.values, copy.classes_, classes)}
    predictions |= {reference.name: _by_class(reference, trial, classes) for reference in references}
    truth = label_codes(edges[test], classes)
    return HeldOut(how, copy, scored, test, classes, truth, predictions, len(trial.train), seed)


def draw_trial(task: Any, seed: int, *, check_test: bool = True) -> Trial:
    """Draw a trial whose labels to fit, and by default also those held out, have more than one class."""
    n_known = int(task.edges.labelled.sum())
    known = f"The {n_known:,} known label{'' if n_known == 1 else 's'}"
    try:
        trial: Trial = task.draw(seed)
    except EdgesError:
        why = "are all at the same time" if isinstance(task, ForecastClassification) else "are too few"
        why = why if task.edges.label_ticks is None else "are all at the same time, or became known too late"
        raise ParameterError(
            f"{known} {why}: no labels can be held out. Give more labels.", parameter="edges"
        ) from None
    (test,) = trial.tests.values()
    for part, what in ((trial.train, "labels to fit"), *([(test, "held-out labels")] if check_test else [])):
        if len(np.unique(trial.y[part])) < 2:
            raise ParameterError(
                f"{known} are too few to hold some out: all {len(part):,} {what} have the same class. Give more labels.",
                parameter="edges",
            )
    return trial


def with_label_times(edges: TemporalEdges, model: Any) -> TemporalEdges:
    """The edges with the label times that were given to the model's `fit`, unless they have their own."""
    times = label_times(model)
    if times is None or edges.label is None or edges.label_ticks is not None:
        return edges
    at = find_fitted(model.features_, edges)
    return edges.with_label(edges.label, times[at]) if (at >= 0).all() else edges


def label_times(model: Any) -> NDArray[Any] | None:
    """When each label that a model learnt became known, as the edges' times are given; None if not given."""
    return None if getattr(model, "label_ticks_", None) is None else model.edges_.label_time


def label_codes(edges: TemporalEdges, classes: NDArray[Any]) -> Positions:
    """The label of each edge as a position in the classes; -1 where it is unknown, or not one of them."""
    place = {value: k for k, value in enumerate(classes.tolist())}
    labels = [None] * len(edges) if edges.label is None else edges.label.tolist()
    known = zip(labels, edges.labelled.tolist(), strict=True)
    return np.array([place.get(value, -1) if is_known else -1 for value, is_known in known], np.int64)


def for_all_classes(values: Floats, learnt: NDArray[Any], classes: NDArray[Any]) -> Floats:
    """Scores of all classes, (n_edges, n_classes), from those of the classes learnt; the others get the lowest score."""
    whole = np.full((len(values), len(classes)), values.min(initial=0.0))
    whole[:, np.isin(classes, learnt)] = values
    return whole


def suitable_split(edges: TemporalEdges, setting: str | None) -> How:
    """By time if the model predicts later edges, or would do so by itself."""
    if setting is None and edges.labelled.all():
        return "random"
    late = edges.label_ticks is not None and setting in (None, "auto")
    chosen, _ = choose_setting("hold_out", setting or "auto", edges.ticks, edges.labelled, late)
    return "random" if chosen == "interpolate" else "time"


def _unfitted(model: Any, how: How, setting: str | None, seed: int) -> Any:
    """A copy with the setting of the model, unless labels are held out in a way that does not suit it."""
    copy = clone(model)
    if setting is not None:
        suits = setting != "auto" and (setting == "interpolate") == (how == "random")
        copy.set_params(setting=setting if suits else "interpolate" if how == "random" else "forecast")
    set_missing_seed(copy, seed)
    return copy


def _by_class(reference: Any, trial: Trial, classes: NDArray[Any]) -> Floats:
    """The scores of a reference, one column per class."""
    ((scores, _),) = run_trial(reference, trial).values()
    columns = np.column_stack([-scores, scores]) if scores.ndim == 1 else scores
    return for_all_classes(columns, np.unique(trial.y[trial.train]), classes)


# ---- the predictions are compared with the labels


@dataclass(frozen=True, eq=False)
class Judged:
    """The held-out edges, ranked by the model and by the references, by each class or, of two, by the positive one."""

    held: HeldOut
    positive: int  # position of the positive class in `held.classes`
    by_class: dict[int, dict[str, Ranking]]  # by the position of a class that is learnt and held out, and by name

    @property
    def model(self) -> Ranking:
        """The ranking of the model by the positive class."""
        return self.by_class[self.positive][MODEL]

    @property
    def references(self) -> dict[str, Ranking]:
        """The rankings of the references by the positive class."""
        return {name: ranking for name, ranking in self.by_class[self.positive].items() if name != MODEL}

    @property
    def n(self) -> int:
        """Number of edges held out."""
        return len(self.held.truth)

    @property
    def prevalence(self) -> float:
        """The share of the positive class among the edges held out: its precision by chance."""
        return float(self.model.is_positive.mean())

    @property
    def is_mean(self) -> bool:
        """Whether the headline is a mean over classes: where there are more than two."""
        return len(self.held.classes) > 2

    def titled(self, metric: str) -> str:
        """The name of a headline figure."""
        return f"{metric} (mean of {len(self.by_class)} classes)" if self.is_mean else metric

    @cached_property
    def headline(self) -> dict[str, tuple[Area, Area]]:
        """Area under the curve and average precision: of the positive class, or with more than two classes the mean."""
        names = self.by_class[self.positive]
        return {name: mean_areas([of_class[name] for of_class in self.by_class.values()]) for name in names}

    @property
    def chance(self) -> float:
        """Average precision of the headline for scores without information."""
        return float(np.mean([of_class[MODEL].is_positive.mean() for of_class in self.by_class.values()]))

    @property
    def tops(self) -> list[int]:
        """Lengths of lists whose precision is reported."""
        most = max(1, self.n // 3)
        return [k for k in TOPS if k <= most][-3:] or [most]

    @property
    def top(self) -> int:
        """The length of list that a summary reports."""
        return 100 if 100 in self.tops else self.tops[-1]


def judge(held: HeldOut, positive: int) -> Judged:
    """Rank the held-out edges by the predictions for each class; `positive` is a position in `held.classes`."""
    found, learnt = {}, held.model.classes_.tolist()
    for k, label in enumerate(held.classes.tolist()):
        if (len(held.classes) > 2 or k == positive) and label in learnt and (rankings := held.rankings(k)):
            found[k] = rankings
    if positive not in found:
        raise ParameterError(
            f"The {len(held.truth):,} held-out labels, or those to fit, are all or none of class "
            f"{held.classes.tolist()[positive]!r}. Give more labels.",
            parameter="positive",
        )
    return Judged(held, positive, found)
