"""What models have in common that give reasons for their predictions."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tdlg.edges import TemporalEdges

if TYPE_CHECKING:
    import polars as pl

__all__ = ["Explainable", "Scored"]


@dataclass(frozen=True, eq=False)
class Scored:
    """Edges that a model has scored, with all that it computed for them.

    `explain`, `node_scores` and the report take it in place of the edges, so that nothing is computed twice.

    Attributes
    ----------
    edges
        The edges, with ids as the model has them.
    values
        The probabilities of the classes, (n_edges, n_classes); the predicted numbers of a regressor, (n_edges,).
    query, columns
        What is known when the whole is scored, and the columns of these edges, for a propagation model; else None.
    whole, at
        All edges that were scored together, and the positions of these edges among them; None if these are all.
    """

    edges: TemporalEdges
    values: NDArray[np.float64]
    query: Any = None
    columns: Any = None
    whole: TemporalEdges | None = None
    at: NDArray[np.int64] | None = None

    def some(self, which: NDArray[np.int64]) -> Scored:
        """Some of the edges, by position."""
        columns = None if self.columns is None else self.columns[which]
        whole = self.edges if self.whole is None else self.whole
        return Scored(self.edges[which], self.values[which], self.query, columns, whole, self.places(which))

    def places(self, which: NDArray[np.int64]) -> NDArray[np.int64]:
        """Positions of some of these edges among all that were scored together."""
        return which if self.at is None else self.at[which]


class Explainable(ABC):
    """A model that gives reasons for its predictions: what `node_scores`, the report and `tdlg explain` rely on."""

    @abstractmethod
    def scored(self, X: Any, *, label_time: Any = None) -> Scored:
        """Score edges, and keep what was computed for them.

        Parameters
        ----------
        X
            The edges to score, fitted or new.
        label_time
            When the labels of the edges become known, for a propagation model under setting="stream".
        """

    @abstractmethod
    def explain(
        self, X: Any, top: int = 3, *, rows: Any = None, positive: Any = None, label_time: Any = None
    ) -> pl.DataFrame:
        """The reasons that moved each prediction most, one row per reason.

        Parameters
        ----------
        X
            The edges to explain, fitted or new; or what `scored` returned for them.
        top
            How many reasons to give per edge, those of the largest effect first; 3 by default.
        rows
            Positions in X of the edges to explain; by default all edges.
        positive
            The class to explain, for a classifier. By default, with two classes the positive class (see
            `tdlg.explain.positive.positive_class`), and with more classes the class predicted for each edge.
        label_time
            When the labels of the edges become known, for a propagation model under setting="stream".

        Returns
        -------
        polars.DataFrame
            Columns edge (the position in X), src, dst, time, class (the class explained; not for a regressor), score,
            rank, what, effect (on the score), reason (a sentence) and neighbours (positions of the interactions behind
            the reason among the fitted edges).
        """

    @abstractmethod
    def _node_reasons(
        self, scored: Scored, riskiest: NDArray[np.int64], sampled: NDArray[np.int64], code: int | None
    ) -> list[str | None]:
        """One reason per node, given its riskiest edge and some sampled ones; None where nothing raised the score."""
