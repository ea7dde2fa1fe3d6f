"""What all estimators share: they take temporal edges, or a table whose columns are src, dst, time and features."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import column_or_1d, validate_data

from tdlg.edges import TemporalEdges
from tdlg.exceptions import EdgesError

__all__ = ["EdgesEstimator", "known_labels"]

ENDS, ENDS_AND_TIME = 2, 3  # the columns that a table of edges must have, and should have


class EdgesEstimator:
    """A mixin for estimators whose X is `TemporalEdges`, or a 2-D array or dataframe: src, dst, time, features.

    A dataframe's columns are taken by position too, as in an array: to name them, make edges of it with `from_frame`. A
    table of two columns has no times: all its edges happened at once, and want `NoDecay()`.
    """

    def _edges(self, X: Any, *, reset: bool) -> TemporalEdges:
        """X as edges; `reset` when fitting, else X must look as it did then."""
        if isinstance(X, TemporalEdges):
            if len(X) == 0 and reset:
                raise EdgesError(f"{type(self).__name__} was given no edges: at least one is needed to fit.")
            if reset:
                self.n_features_in_ = X.shape[1]
            return X
        table = validate_data(self, X, reset=reset, dtype=None, ensure_min_features=ENDS if reset else 1)
        columns = [_column(table[:, k]) for k in range(table.shape[1])]
        if len(columns) == ENDS:
            columns.append(np.zeros(len(table)))
        features = np.column_stack(columns[ENDS_AND_TIME:]) if len(columns) > ENDS_AND_TIME else None
        fitted = None if reset else getattr(self, "edges_", None)
        bipartite = fitted is not None and fitted.bipartite
        return TemporalEdges(*columns[:ENDS_AND_TIME], features=features, bipartite=bipartite)

    def save(self, path: Any) -> None:
        """Write the fitted model to a file without executable code, which `tdlg.load_model` reads."""
        from tdlg.persist.model import save_model

        save_model(self, path)


def _column(values: NDArray[Any]) -> Any:
    """A column of a mixed table as numbers, where it holds nothing else."""
    if values.dtype != object:
        return values
    if all(isinstance(value, (int, float, np.number)) for value in values):
        return values.astype(np.float64)
    return values.tolist()


def known_labels(edges: TemporalEdges, y: Any) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    """The labels to learn from, y where given and else the edges' own; and the mask of those that are known."""
    if y is not None:
        edges = edges.with_label(column_or_1d(y, warn=True))
    if edges.label is None:
        raise EdgesError(
            "There are no labels to learn from. Give them as y, or with the edges: TemporalEdges(..., label=...), "
            "read_edges(..., label=...). Missing ones (NaN, None) mark edges whose label is to be found."
        )
    return edges.label, edges.labelled
