"""What the transformers share: the line graph of the fitted edges, of which they make columns."""

from __future__ import annotations

from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin

from tdlg.decay import Decay
from tdlg.edges import TemporalEdges
from tdlg.estimator import EdgesEstimator
from tdlg.exceptions import ParameterError
from tdlg.linegraph import LineGraph, Normalization, NormalizedLineGraph

__all__ = ["EdgeFeatures", "check_choice", "check_count", "flip_signs", "n_resolved"]


class EdgeFeatures(EdgesEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Edges to columns of numbers, made from products with H(edges, fitted edges)."""

    n_components: int
    decay: Decay | None
    normalization: Normalization | None
    edges_: TemporalEdges
    decay_: Decay
    n_components_: int

    def _fit_edges(self, X: Any) -> LineGraph | NormalizedLineGraph:
        """Keep the edges, and freeze the decay on their times; gives their line graph."""
        check_count(self, "n_components", 1)
        check_choice(self, "normalization", (None, "spectral", "edge"))
        self.edges_ = self._edges(X, reset=True)
        self.decay_ = LineGraph(self.edges_, decay=self.decay).decay
        return self._graph(self.edges_)

    def _graph(self, rows: TemporalEdges) -> LineGraph | NormalizedLineGraph:
        """H(rows, fitted edges), normalised where asked for."""
        H = LineGraph(rows, self.edges_, decay=self.decay_)
        return H if self.normalization is None else H.normalized(self.normalization)

    @property
    def _n_features_out(self) -> int:
        return self.n_components_


def flip_signs(vectors: NDArray[np.float64]) -> NDArray[np.float64]:
    """Each column with the sign that makes its largest entry positive, in place; of about equal ones, the first."""
    sizes = np.abs(vectors)
    largest = (sizes >= (1 - 1e-6) * sizes.max(axis=0)).argmax(axis=0)
    vectors *= np.where(vectors[largest, np.arange(vectors.shape[1])] < 0, -1.0, 1.0)
    return vectors


def n_resolved(values: NDArray[np.float64], tol: float) -> int:
    """How many eigenvalues, the largest in magnitude first, can be told from 0; at least one."""
    sizes = np.abs(values)
    return max(1, int(np.count_nonzero(sizes > tol * sizes[0])))


def check_count(estimator: Any, name: str, least: int) -> None:
    """Refuse a parameter that is not a whole number of at least `least`."""
    value = getattr(estimator, name)
    if isinstance(value, bool) or not isinstance(value, Integral) or value < least:
        raise ParameterError(
            f"The {name!r} parameter of {type(estimator).__name__} must be a whole number, at least {least}. "
            f"Got {value!r} instead."
        )


def check_choice(estimator: Any, name: str, choices: tuple[str | None, ...]) -> None:
    """Refuse a parameter that is none of the choices."""
    value = getattr(estimator, name)
    if not any(value is choice or (isinstance(value, str) and value == choice) for choice in choices):
        raise ParameterError(
            f"The {name!r} parameter of {type(estimator).__name__} must be one of {list(choices)}. Got {value!r} instead."
        )
