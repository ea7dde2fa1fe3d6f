"""What `EdgeEmbedding` and `LowRankFeatures` share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from tdlg.checks import check_count
from tdlg.estimator import EdgesEstimator, check_graph, fitted_graph
from tdlg.linegraph.decay import Decay
from tdlg.linegraph.operator import LineGraph, NormalizedLineGraph


class EdgeFeatures(EdgesEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator, ABC):
    """A transformer from edges to columns: the rows of H(edges, fitted edges) times weights."""

    decay: Decay | None
    n_components: int
    n_components_: int

    def _fit_edges(self, X: Any) -> LineGraph | NormalizedLineGraph:
        """Store the edges, fix the decay on their times, and return their line graph."""
        check_count(type(self).__name__, "n_components", self.n_components, 1)
        check_graph(self)
        self.edges_ = self._edges(X, reset=True)
        self.decay_ = LineGraph(self.edges_, decay=self.decay).decay
        return fitted_graph(self, self.edges_)

    def transform(self, X: Any) -> NDArray[np.float64]:
        """Compute the columns of edges.

        Parameters
        ----------
        X
            The edges, fitted or new.
        """
        check_is_fitted(self)
        return fitted_graph(self, self._edges(X, reset=False)) @ self._weights()

    @abstractmethod
    def _weights(self) -> NDArray[np.float64]:
        """The matrix by which the rows of the line graph are multiplied."""

    @property
    def _n_features_out(self) -> int:
        return self.n_components_


def flip_signs(vectors: NDArray[np.float64]) -> NDArray[np.float64]:
    """Flip the signs of columns in place, so that the largest entry (the first of about equal ones) is positive."""
    sizes = np.abs(vectors)
    largest = (sizes >= (1 - 1e-6) * sizes.max(axis=0)).argmax(axis=0)
    vectors *= np.where(vectors[largest, np.arange(vectors.shape[1])] < 0, -1.0, 1.0)
    return vectors


def n_resolved(values: NDArray[np.float64], tol: float) -> int:
    """The number of eigenvalues, largest in magnitude first, that differ from 0 within the error; at least one."""
    sizes = np.abs(values)
    return max(1, int(np.count_nonzero(sizes > tol * sizes[0])))


def inverted(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """1 / values, and 0 where a value is 0."""
    return np.divide(1.0, values, out=np.zeros_like(values), where=values != 0)
