"""What models have in common that give reasons for their predictions."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tdlg.edges import TemporalEdges

if TYPE_CHECKING:
    import polars as pl

__all__ = ["Explainable"]


class Explainable(ABC):
    """A model that gives reasons for its predictions: what `node_scores`, the report and `tdlg explain` rely on."""

    @abstractmethod
    def explain(
        self, X: Any, top: int = 3, *, rows: Any = None, positive: Any = None, label_time: Any = None
    ) -> pl.DataFrame:
        """The reasons that moved each prediction most, one row per reason.

        Parameters
        ----------
        X
            The edges to explain, fitted or new.
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
        self,
        edges: TemporalEdges,
        riskiest: NDArray[np.int64],
        sampled: NDArray[np.int64],
        code: int | None,
        label_time: Any,
    ) -> list[str | None]:
        """One reason per node, given its riskiest edge and some sampled ones; None where nothing raised the score."""
