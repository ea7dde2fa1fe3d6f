"""Method: what everything that is judged has in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

from tdlg.edges import TemporalEdges

__all__ = ["Method", "scores_of"]


class Method(BaseEstimator, ABC):
    """Something that scores edges after having seen others; see `tdlg.evaluate`.

    Three steps, so that each can be timed: `embed`, `fit`, `score`. A method's parameters are those of its constructor, as
    in scikit-learn, and a fresh copy is made for each trial.
    """

    name: ClassVar[str]

    @property
    def settings(self) -> str:
        """The parameters that differ from their defaults, such as "bandwidth=5"; empty where none does."""
        return repr(self).partition("(")[2][:-1]

    def embed(self, edges: TemporalEdges) -> None:
        """Make what does not need the labels, such as vectors of nodes.

        Parameters
        ----------
        edges
            The edges that may be seen. Those whose label is missing are not trained on.
        """

    @abstractmethod
    def fit(self, edges: TemporalEdges) -> None:
        """Learn from the known labels.

        Parameters
        ----------
        edges
            The same edges that were embedded.
        """

    @abstractmethod
    def score(self, edges: TemporalEdges) -> NDArray[np.float64]:
        """Score edges: (n_edges,) for two classes, high for the second in sorted order; else (n_edges, n_classes).

        Parameters
        ----------
        edges
            Any edges; among those that were seen, they are rows of the same table.
        """

    def streaming(self) -> Method | None:
        """The same method, for labels that become known as time goes on; None where it has to be fitted anew for them.

        Such a method is asked to `score` edges with labels, and may use each only for strictly later edges.
        """
        return None

    def __repr__(self) -> str:
        return super().__repr__(N_CHAR_MAX=10**6).replace("\n", " ")


def scores_of(model: Any, X: Any) -> NDArray[np.float64]:
    """Scores by any scikit-learn classifier: its decision function, or its probabilities (of the second of two classes)."""
    if hasattr(model, "decision_function"):
        return np.asarray(model.decision_function(X))
    probability: NDArray[np.float64] = model.predict_proba(X)
    return probability[:, 1] if probability.shape[1] == 2 else probability
