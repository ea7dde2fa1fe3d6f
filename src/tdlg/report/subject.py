"""What a report is about: a fitted model, its edges, the positive class; and which of the edges the page ranks."""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone, is_classifier
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from tdlg.checks import set_missing_seed
from tdlg.clock import check_unit
from tdlg.edges import TemporalEdges
from tdlg.estimator import Explainable, Scored
from tdlg.exceptions import EdgesError, ParameterError
from tdlg.explain.positive import positive_of
from tdlg.judge.holdout import HeldOut, label_codes, with_label_times
from tdlg.report.text import Clock, name_of

GROUPS = 6  # marks that can be distinguished, besides the mark of unlabelled edges
FEWEST = 5  # labels of one class at the end that are worth a word
CHANCE = 1e-6  # probability of that many labels of one class by chance, below which the page mentions them


@dataclass(frozen=True, eq=False)
class Subject:
    """A fitted model and its edges; `learnt` are the edges it was fitted on, with the labels it learnt from."""

    model: Any  # a PropagationClassifier or a LineGraphClassifier
    scored: Scored
    learnt: TemporalEdges
    is_learnt: bool  # whether these are the edges that the page is about
    positive: int  # position of the positive class
    clock: Clock
    seed: int
    label_name: str | None = None
    ids: tuple[str, list[Any]] | None = None  # a heading, and an id for each edge

    @property
    def edges(self) -> TemporalEdges:
        """The edges that the page is about."""
        return self.scored.edges

    @property
    def classes(self) -> NDArray[Any]:
        """The labels that the model knows."""
        return self.model.classes_

    @cached_property
    def names(self) -> list[str]:
        """The classes as text."""
        return [name_of(value, 40) for value in self.classes]

    def called(self, k: int) -> str:
        """A class as prose names it: "is_fraud = 1" where the label's column is known, else "class 1" or "fraud"."""
        if self.label_name is not None:
            return f"{name_of(self.label_name, 40)} = {self.names[k]}"
        return self.names[k] if isinstance(self.classes[k], str) else f"class {self.names[k]}"

    @property
    def wanted(self) -> str:
        """The positive class, as prose names it."""
        return self.called(self.positive)

    @property
    def setting(self) -> str | None:
        """The setting of a propagation model; None for other models."""
        return getattr(self.model, "setting_", None)

    @cached_property
    def codes(self) -> NDArray[np.int64]:
        """The class of each of `edges` as a position in `classes`; -1 where it is unknown, or one never learnt."""
        return label_codes(self.edges, self.classes)

    @cached_property
    def groups(self) -> list[int]:
        """The classes that get a colour of their own, the positive one first; the rest share the last colour."""
        others = [k for k in range(len(self.classes)) if k != self.positive]
        most = GROUPS if len(self.classes) <= GROUPS else GROUPS - 1
        return [self.positive, *others][:most]

    def group_of(self, k: int) -> int:
        """The group that a class is drawn as: 0 the unknown, 1 the positive class."""
        return 0 if k < 0 else self.groups.index(k) + 1 if k in self.groups else GROUPS


def make_subject(
    model: Any,
    edges: Any,
    y: Any = None,
    positive: Any = None,
    time_unit: str | None = None,
    seed: int = 0,
    label_name: str | None = None,
    ids: Any = None,
) -> Subject:
    """Check what was given, and fit the model where it is not fitted yet."""
    if not (isinstance(model, Explainable) and is_classifier(model)):
        raise ParameterError(
            f"The 'model' of a report must be a PropagationClassifier or a LineGraphClassifier. "
            f"Got {type(model).__name__} instead.",
            parameter="model",
        )
    scored = edges if isinstance(edges, Scored) else None
    edges = edges.edges if isinstance(edges, Scored) else edges
    if edges is not None and not isinstance(edges, TemporalEdges):
        raise EdgesError(
            f"The 'edges' of a report must be TemporalEdges. Got {type(edges).__name__} instead.",
            "Make them with `from_frame(table)` or `read_edges(path)`.",
        )
    model = _fitted(model, edges, y, seed)
    learnt = model.edges_.with_label(model.labels_)
    if edges is None:
        edges = learnt
    elif y is not None:
        edges = edges.with_label(y)
    is_learnt = _same(edges, learnt)
    if is_learnt and not edges.labelled.any():
        edges = learnt
    if scored is None or edges is not scored.edges:
        scored = model.scored(with_label_times(edges, model) if is_learnt else edges)
    check_unit("write_report", time_unit)
    clock = Clock(edges.time_unit or time_unit, edges.ticks)
    named_ids = _named_ids(ids, len(edges))
    return Subject(model, scored, learnt, is_learnt, positive_of(model, positive), clock, seed, label_name, named_ids)


def _fitted(model: Any, edges: TemporalEdges | None, y: Any, seed: int) -> Any:
    try:
        check_is_fitted(model)
    except NotFittedError:
        if edges is None:
            raise ParameterError(
                "The 'model' is not fitted, and no 'edges' are given to fit it on.",
                f"Call `{type(model).__name__}.fit` first, or give edges=.",
                parameter="edges",
            ) from None
        model = clone(model)
        set_missing_seed(model, seed)
        model.fit(edges, y)
    return model


def _same(edges: TemporalEdges, other: TemporalEdges) -> bool:
    """Whether two sets of edges are the same, row by row; labels do not matter."""
    if len(edges) != len(other):
        return False
    if edges.same_table(other):
        return np.array_equal(edges.rows, other.rows)
    columns = [(edges.src, other.src), (edges.dst, other.dst), (edges.time, other.time)]
    return all(np.array_equal(mine, theirs) for mine, theirs in columns)


def _named_ids(ids: Any, n_edges: int) -> tuple[str, list[Any]] | None:
    """Ids under the name of their column, where they have one."""
    if ids is None:
        return None
    if len(ids) != n_edges:
        raise ParameterError(
            f"The 'ids' must have one value per edge: {n_edges:,}. Got {len(ids):,} instead.", parameter="ids"
        )
    return name_of(getattr(ids, "name", None) or "Id", 40), list(ids)


# ---- the edges that the page ranks


@dataclass(frozen=True, eq=False)
class Selected:
    """The edges that the page ranks; `model` is the model that scored them, or its copy that did not see their labels."""

    model: Any
    scored: Scored
    score: NDArray[np.float64]  # the probability of the positive class
    truth: NDArray[np.int64]  # their classes as positions where known, else -1
    origin: Literal["unlabelled", "new", "held out", "learnt"]  # "learnt" where the model was shown their labels
    positions: NDArray[np.int64]  # among the edges of the page

    @property
    def edges(self) -> TemporalEdges:
        """The edges."""
        return self.scored.edges

    @property
    def is_to_predict(self) -> bool:
        """Whether the labels of these edges are to be predicted."""
        return self.origin in ("unlabelled", "new")


def select_edges(subject: Subject, held: HeldOut | None) -> Selected:
    """The edges without a label; if there are none, the edges held out; if none were, all edges."""
    positive = subject.positive
    unknown = np.flatnonzero(~subject.edges.labelled)
    if not len(unknown) and subject.is_learnt and held is not None and subject.classes[positive] in held.model.classes_:
        score = held.probability[:, positive]
        return Selected(_named(held.model, subject), held.scored, score, held.truth, "held out", held.positions)
    at = unknown if len(unknown) else np.arange(len(subject.edges))
    origin: Any = "new" if not subject.is_learnt else "unlabelled" if len(unknown) else "learnt"
    score = subject.scored.values[at, positive]
    return Selected(_named(subject.model, subject), subject.scored.some(at), score, subject.codes[at], origin, at)


def _named(model: Any, subject: Subject) -> Any:
    """The model with the name of its label, for the words of its reasons."""
    if subject.label_name is None:
        return model
    named = copy(model)
    named.label_name_ = name_of(subject.label_name, 40)
    return named


# ---- labels of one class at the end


class LastLabels(NamedTuple):
    """The last labels, all of one class, which those before make unlikely."""

    code: int  # the class
    n: int
    start: Any  # the time of the first of them
    share_before: float  # of this class among the labels before


def last_labels(ticks: NDArray[Any], codes: NDArray[np.int64]) -> LastLabels | None:
    """Find labels of one class at the end of time that are no chance; codes: the classes of the edges, -1 where unknown."""
    known = np.flatnonzero(codes >= 0)
    known = known[np.argsort(ticks[known], kind="stable")]
    times, classes = ticks[known], codes[known]
    others = np.flatnonzero(classes != classes[-1:])
    if not len(others):
        return None
    start = int(np.searchsorted(times, times[others[-1]], "right"))  # what happened at that time is not after it
    n, share = len(classes) - start, float(np.mean(classes[:start] == classes[-1]))
    if n < FEWEST or (share > 0 and n * np.log(share) > np.log(CHANCE)):
        return None
    return LastLabels(int(classes[-1]), n, times[start], share)
