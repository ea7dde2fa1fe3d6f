"""PropagationRegressor: a number for each edge by what happened around it, from boosted trees on propagated columns."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import RegressorMixin
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.linear_model import Ridge
from sklearn.metrics import r2_score

from tdlg.estimator import known_and_predicted
from tdlg.exceptions import EdgesError
from tdlg.models.propagation import PropagationModel, member_shares
from tdlg.propagate.columns import single
from tdlg.trees import predict

Floats = NDArray[np.float64]


class PropagationRegressor(RegressorMixin, PropagationModel):
    """Predict a number for each interaction, such as a rating, from the interactions around it.

    It works like `PropagationClassifier`.

    Parameters
    ----------
    estimator
        A scikit-learn regressor to train on the columns. By default boosted trees, for forecasts together with a linear
        model.
    setting, matches, scales, smoothing, two_ends, calendar, n_threads, random_state
        The same as for `PropagationClassifier`.

    Attributes
    ----------
    setting_, features_, estimators_, n_rows_, n_rows_sampled_from_, typical_, edges_, labels_
        The same as for `PropagationClassifier`.

    Examples
    --------
    >>> from tdlg import PropagationRegressor, TemporalEdges
    >>> edges = TemporalEdges(["a", "b", "c", "d"] * 25, ["x", "y"] * 50, range(100), label=[*[5.0, 1.0] * 49, 5.0, None])
    >>> PropagationRegressor(random_state=0).fit(edges).predict(edges[99:]).round()
    array([1.])
    """

    _target = "number"
    _boosting = HistGradientBoostingRegressor
    _linear = Ridge(10.0)

    def predict(self, X: Any, *, label_time: Any = None) -> Floats:
        """The predicted number of each edge, shape (n_edges,)."""
        return self.scored(X, label_time=label_time).values

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """R squared: 1 less the mean squared error over labelled edges, in units of the variance of their labels.

        The parameters are those of `PropagationClassifier.score`.
        """
        known, predicted, weight = known_and_predicted(self, X, y, sample_weight)
        return float(r2_score(known, predicted, sample_weight=weight))

    def _answer(self, columns: Floats) -> Floats:
        if not len(columns):
            return np.empty(0)
        columns = single(columns).astype(np.float64)
        answers = [predict(member, columns) for member in self.estimators_]
        return np.average(answers, axis=0, weights=member_shares(self.estimators_))

    def _check_labels(self, values: NDArray[Any]) -> None:
        if values.dtype.kind not in "fiub":
            raise EdgesError(f"{type(self).__name__} needs labels that are numbers. Got {values[0]!r} instead.")
