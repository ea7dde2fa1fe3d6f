"""What the transformers share: the line graph of the fitted edges, of which they make columns."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from tdlg.checks import check_count
from tdlg.estimator import EdgesEstimator
from tdlg.linegraph.operator import LineGraph, NormalizedLineGraph

__all__ = ["EdgeFeatures", "ProductFeatures", "flip_signs", "inverted", "n_resolved"]


class EdgeFeatures(EdgesEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Edges to columns of numbers, made from products with H(edges, fitted edges)."""

    n_components: int
    n_components_: int

    def _fit_edges(self, X: Any) -> LineGraph | NormalizedLineGraph:
        """Keep the edges, and freeze the decay on their times; gives their line graph."""
        check_count(type(self).__name__, "n_components", self.n_components, 1)
        self._check_graph()
        self.edges_ = self._edges(X, reset=True)
        self.decay_ = LineGraph(self.edges_, decay=self.decay).decay
        return self._graph(self.edges_)

    @property
    def _n_features_out(self) -> int:
        return self.n_components_


class ProductFeatures(EdgeFeatures, ABC):
    """Columns that are rows of the line graph times weights."""

    def transform(self, X: Any) -> NDArray[np.float64]:
        """Give the columns of edges.

        Parameters
        ----------
        X
            Edges, fitted or new.
        """
        check_is_fitted(self)
        return self._graph(self._edges(X, reset=False)) @ self._weights()

    @abstractmethod
    def _weights(self) -> NDArray[np.float64]:
        """What rows of the line graph are multiplied by."""


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


def inverted(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """1 / values, and 0 where a value is 0."""
    return np.divide(1.0, values, out=np.zeros_like(values), where=values != 0)
