"""Which interactions the page ranks: those without a label, else those held out, else all."""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from tdlg.edges import TemporalEdges
from tdlg.estimator import Scored
from tdlg.judge.holdout import HeldOut
from tdlg.report.subject import Subject
from tdlg.report.text import name_of

__all__ = ["Selected", "select_edges"]


@dataclass(frozen=True, eq=False)
class Selected:
    """The edges that the page ranks.

    Attributes
    ----------
    model
        The model that scored them, or its copy that was not shown their labels.
    scored
        The edges as the model scored them.
    score
        The probability of the positive class.
    truth
        Their classes as positions where known, else -1.
    origin
        "unlabelled", "new", "held out", or "learnt" where the model was shown their labels.
    positions
        Their positions among the edges of the page.
    """

    model: Any
    scored: Scored
    score: NDArray[np.float64]
    truth: NDArray[np.int64]
    origin: Literal["unlabelled", "new", "held out", "learnt"]
    positions: NDArray[np.int64]

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
