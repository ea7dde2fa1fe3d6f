"""What a report is about: a fitted model, the edges to report on, its training edges, and the positive class."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from tdlg.checks import set_missing_seed
from tdlg.clock import check_unit
from tdlg.edges import TemporalEdges
from tdlg.estimator import Scored
from tdlg.exceptions import EdgesError, ParameterError
from tdlg.explain.positive import positive_of
from tdlg.judge.holdout import label_codes, with_label_times
from tdlg.models.linegraph import LineGraphClassifier
from tdlg.models.propagation import PropagationClassifier
from tdlg.report.text import Clock, name_of

__all__ = ["Subject", "make_subject"]

Codes = NDArray[np.int64]


Classifier = PropagationClassifier | LineGraphClassifier


@dataclass(frozen=True, eq=False)
class Subject:
    """A model and its edges.

    Attributes
    ----------
    model
        The fitted classifier.
    scored
        The edges that the page is about, with labels where known, as the model scored them.
    learnt
        The edges that the model was fitted on, with the labels it learnt from.
    is_learnt
        Whether these are the edges that the page is about.
    positive
        Position in `classes` of the positive class, see `tdlg.explain.positive.positive_class`.
    clock
        How times are written.
    seed
        Seed of every random choice.
    label_name
        The name of the label's column, where it is known.
    ids
        A heading, and an id for each edge, where the caller gave them.
    """

    model: Classifier
    scored: Scored
    learnt: TemporalEdges
    is_learnt: bool
    positive: int
    clock: Clock
    seed: int
    label_name: str | None = None
    ids: tuple[str, list[Any]] | None = None

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
        """The class looked for, as prose names it."""
        return self.called(self.positive)

    @property
    def setting(self) -> str | None:
        """The setting of a propagation model; None for other models."""
        return getattr(self.model, "setting_", None)

    @cached_property
    def codes(self) -> Codes:
        """The class of each of `edges` as a position in `classes`; -1 where it is unknown, or one never learnt."""
        return label_codes(self.edges, self.classes)


def make_subject(
    model: Any,
    edges: Any,
    y: Any,
    positive: Any,
    time_unit: str | None,
    seed: int,
    label_name: str | None = None,
    ids: Any = None,
) -> Subject:
    """Check what was given, and fit the model where it is not fitted yet."""
    if not isinstance(model, Classifier):
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
    model, edges = _fitted(model, edges, y, seed), None if edges is None else _labelled(edges, y)
    learnt = model.edges_.with_label(model.labels_)
    edges = learnt if edges is None else edges
    is_learnt = _same(edges, learnt)
    if is_learnt and not edges.labelled.any():
        edges = learnt
    if scored is None or edges is not scored.edges:
        scored = model.scored(with_label_times(edges, model) if is_learnt else edges)
    return Subject(
        model,
        scored,
        learnt,
        is_learnt,
        positive_of(model, positive),
        _clock(edges, time_unit),
        seed,
        label_name,
        _named_ids(ids, len(edges)),
    )


def _fitted(model: Classifier, edges: TemporalEdges | None, y: Any, seed: int) -> Classifier:
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


def _labelled(edges: TemporalEdges, y: Any) -> TemporalEdges:
    return edges if y is None else edges.with_label(y)


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
            f"The 'ids' must have one value per edge: {n_edges:,}. Got {len(ids):,} instead.",
            parameter="ids",
        )
    return name_of(getattr(ids, "name", None) or "Id", 40), list(ids)


def _clock(edges: TemporalEdges, time_unit: str | None) -> Clock:
    check_unit("write_report", time_unit)
    return Clock(edges.time_unit or time_unit, edges.ticks)
