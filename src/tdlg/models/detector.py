"""What detectors of outliers share: scores become decisions by an offset."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, OutlierMixin
from sklearn.utils.validation import check_is_fitted

from tdlg.checks import is_number
from tdlg.edges import TemporalEdges
from tdlg.estimator import EdgesEstimator, Scored
from tdlg.exceptions import ParameterError

Scores = NDArray[np.float64]


class Detector(EdgesEstimator, OutlierMixin, BaseEstimator):
    """An outlier detector: subclasses set `scores_`, `offset_` and `edges_`, and score edges."""

    contamination: float | Literal["auto"]
    scores_: Scores
    offset_: float

    def score_samples(self, X: Any) -> Scores:
        """Scores of edges, shape (n_edges,); outliers have low scores.

        Fitted edges, which are recognised by source, destination and time in any table, have their score from `scores_`.
        """
        check_is_fitted(self)
        return self._scores_of(self._edges(X, reset=False))

    def scored(self, X: Any) -> Scored:
        """Edges with their scores; see `score_samples`."""
        check_is_fitted(self)
        edges = self._edges(X, reset=False)
        return Scored(edges, self._scores_of(edges))

    def decision_function(self, X: Any) -> Scores:
        """`score_samples` minus `offset_`: negative for outliers."""
        return self.score_samples(X) - self.offset_

    def predict(self, X: Any) -> NDArray[np.int64]:
        """-1 for outliers, 1 for other edges."""
        return np.where(self.decision_function(X) < 0, -1, 1)

    def _scores_of(self, edges: TemporalEdges) -> Scores:
        raise NotImplementedError

    def _check_contamination(self) -> None:
        share = self.contamination
        if share != "auto" and not (is_number(share) and 0 < share <= 0.5):
            raise ParameterError(
                f"The 'contamination' parameter of {type(self).__name__} must be 'auto', or above 0 and at most 0.5. "
                f"Got {share!r} instead.",
                parameter="contamination",
            )

    def _offset(self, auto: float) -> float:
        """The score below which an edge is an outlier; `auto` if no share of outliers is given."""
        share = self.contamination
        return auto if share == "auto" else float(np.percentile(self.scores_, 100.0 * share))
