"""The paper's classifier: logistic regression on the rows of the time-decayed line graph."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, softmax
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import accuracy_score, log_loss, roc_auc_score
from sklearn.model_selection import StratifiedKFold
from sklearn.utils.class_weight import compute_sample_weight
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, check_is_fitted

from tdlg.edges import TemporalEdges
from tdlg.estimator import EdgesEstimator, all_or_nothing, check_count, check_number, known_labels
from tdlg.exceptions import EdgesError, ParameterError, warn
from tdlg.explain.explainable import Explainable
from tdlg.linegraph.decay import Decay, Gaussian, Laplace
from tdlg.models.solver import Point, logistic_regression
from tdlg.sampling.index import as_generator

if TYPE_CHECKING:
    import polars as pl

__all__ = ["LineGraphClassifier"]

RELATIVE_BANDWIDTHS = (0.001, 0.01, 0.03, 0.1, 0.3, 1.0, 10.0)  # tried under bandwidth="auto"


class LineGraphClassifier(EdgesEstimator, Explainable, ClassifierMixin, BaseEstimator):
    """Classify interactions by logistic regression on the rows of the line graph, which is never built.

    An edge's features are its proximities to all edges given to `fit`, with known label or not: the paper's transductive
    setting. Edges whose label is missing (NaN, None) are part of the graph but not trained on; `predict_proba(edges)`
    fills them in. New edges get rows against the fitted ones. The objective is that of scikit-learn's
    `LogisticRegression` on `LineGraph(edges).to_csr()`.

    Parameters
    ----------
    decay
        How proximity fades with time; `Gaussian(relative=0.1)` when not given, the paper's choice.
    bandwidth
        Another width for the decay: a number or duration, or "auto" to choose among 0.001 to 10 standard deviations of
        the times by cross-validation on the labelled edges: area under the curve for two classes, else the log loss.
    normalization
        None (the paper's choice), "spectral" or "edge"; see `LineGraph.normalized`.
    C
        Inverse strength of the penalty.
    class_weight
        None, "balanced" (by the sums of sample weights) or a dict, as in scikit-learn.
    max_iter
        The most Newton steps.
    tol
        Stop when no entry of the gradient exceeds tol * C * (sum of weights), as scikit-learn does, and the last step
        neither lowered the objective by more than a share 10 * tol nor promised to.
    warm_start
        Start a further fit to the same edges from the last solution.
    n_threads
        Threads of a product; every core when not given.
    random_state
        For the folds of `bandwidth="auto"`.

    Attributes
    ----------
    classes_
        The labels seen.
    coef_, intercept_
        Weights of the fitted edges, (1 or n_classes, n_edges), and intercepts.
    edges_, labels_
        The edges given to `fit`, which are the columns, and their labels.
    decay_
        The decay with its bandwidth fixed.
    n_iter_, n_products_, objective_
        Newton steps, products with the line graph, and the objective reached.

    Examples
    --------
    Two customers; one of them is rated badly whoever rates. The label of the last edge is to be found.

    >>> from tdlg import LineGraphClassifier, TemporalEdges
    >>> edges = TemporalEdges(
    ...     ["a", "b", "c", "a", "b", "d"], ["x", "y", "x", "y", "x", "y"], [1, 2, 3, 4, 5, 6],
    ...     label=[1, 0, 1, 0, 1, None],
    ... )
    >>> model = LineGraphClassifier(bandwidth=5.0).fit(edges)
    >>> model.predict(edges[5:])
    array([0.])
    """

    def __init__(
        self,
        decay: Decay | None = None,
        *,
        bandwidth: float | str | None = None,
        normalization: Literal["spectral", "edge"] | None = None,
        C: float = 1.0,
        class_weight: Any = None,
        max_iter: int = 1000,
        tol: float = 1e-4,
        warm_start: bool = False,
        n_threads: int | None = None,
        random_state: Any = None,
    ) -> None:
        self.decay = decay
        self.bandwidth = bandwidth
        self.normalization = normalization
        self.C = C
        self.class_weight = class_weight
        self.max_iter = max_iter
        self.tol = tol
        self.warm_start = warm_start
        self.n_threads = n_threads
        self.random_state = random_state

    @all_or_nothing
    def fit(
        self,
        X: Any,
        y: Any = None,
        sample_weight: Any = None,
        *,
        callback: Callable[[int, float], bool] | None = None,
    ) -> Self:
        """Learn from the edges whose label is known.

        Parameters
        ----------
        X
            Edges, labelled and not.
        y
            Labels, one an edge; those of the edges when not given. Missing ones are not trained on.
        sample_weight
            How much each edge counts.
        callback
            Called with (step, objective) after each Newton step; stops when it returns True.
        """
        if y is None and not isinstance(X, TemporalEdges):
            raise EdgesError(f"{type(self).__name__} requires y to be passed, but the target y is None.")
        self._check()
        edges = self._edges(X, reset=True)
        labels, known, values = _known(edges, y)
        target = self._targets(known, values)
        given = _checked_weight(sample_weight, known)
        start = self._warm_point(edges, target)
        self.decay_ = self._choose_decay(edges, labels, given).freeze(edges)
        self.edges_, self.labels_ = edges, labels
        weight = given.copy()
        weight[known] *= self._class_weights(values, given[known])
        solution = logistic_regression(
            self._graph(edges),
            target,
            weight,
            C=self.C,
            tol=self.tol,
            max_iter=self.max_iter,
            start=start,
            callback=callback,
        )
        if solution.n_iter == self.max_iter and not solution.converged:
            warn(
                f"The solver stopped after max_iter={self.max_iter} steps, short of tol={self.tol}: raise one of them.",
                ConvergenceWarning,
            )
        self.coef_, self.intercept_ = solution.coef.T, solution.intercept
        self.n_iter_, self.n_products_, self.objective_ = solution.n_iter, solution.n_products, solution.objective
        return self

    def decision_function(self, X: Any, *, label_time: None = None) -> NDArray[np.float64]:
        """Scores: (n_edges,) for two classes, above 0 for the second; else (n_edges, n_classes).

        Parameters
        ----------
        X
            Edges, fitted or new.
        label_time
            Only None: this model learns from labels at `fit` alone.
        """
        check_is_fitted(self)
        _refuse_label_time(label_time)
        scores = self._graph(self._edges(X, reset=False)) @ self.coef_.T + self.intercept_
        return scores[:, 0] if len(self.classes_) == 2 else scores

    def predict_proba(self, X: Any, *, label_time: None = None) -> NDArray[np.float64]:
        """Probabilities of the classes, (n_edges, n_classes); see `decision_function`."""
        scores = self.decision_function(X, label_time=label_time)
        if scores.ndim == 1:
            return np.column_stack([expit(-scores), expit(scores)])
        return softmax(scores, axis=1)

    def predict(self, X: Any, *, label_time: None = None) -> NDArray[Any]:
        """The most probable class of each edge; see `decision_function`."""
        scores = self.decision_function(X, label_time=label_time)
        best = (scores > 0).astype(int) if scores.ndim == 1 else scores.argmax(axis=1)
        return self.classes_[best]

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """The share of edges of known label that are predicted right.

        Parameters
        ----------
        X
            Edges.
        y
            Labels, one an edge; those of the edges when not given. Edges whose label is missing are left out.
        sample_weight
            How much each edge counts.
        """
        check_is_fitted(self)
        edges = self._edges(X, reset=False)
        _, known, values = _known(edges, y)
        weight = None if sample_weight is None else np.asarray(sample_weight)[known]
        return float(accuracy_score(values, self.predict(edges[known]), sample_weight=weight))

    def explain(
        self, X: Any, top: int = 3, *, rows: Any = None, positive: Any = None, label_time: Any = None
    ) -> pl.DataFrame:
        """Say in words which interactions moved each score most; see `tdlg.explain.rows.explain_rows`."""
        from tdlg.explain.rows import explain_rows

        check_is_fitted(self)
        _refuse_label_time(label_time)
        return explain_rows(self, self._edges(X, reset=False), top, rows=rows, positive=positive)

    def contributions(self, X: Any, top: int = 5, *, rows: Any = None) -> pl.DataFrame:
        """Take each decision value apart into a sum; see `tdlg.explain.rows.contributions_of_rows`."""
        from tdlg.explain.rows import contributions_of_rows

        check_is_fitted(self)
        return contributions_of_rows(self, self._edges(X, reset=False), top, rows=rows)

    def _node_reasons(
        self,
        edges: TemporalEdges,
        riskiest: NDArray[np.int64],
        sampled: NDArray[np.int64],
        code: int | None,
        label_time: Any,
    ) -> list[str | None]:
        """The reason of each node: the fitted interaction that raised the score of its riskiest edge most."""
        from tdlg.explain.rows import main_interactions

        return main_interactions(self, edges[riskiest], code)

    def _targets(self, known: NDArray[np.bool_], values: NDArray[Any]) -> NDArray[np.float64]:
        """0 and 1, by class: (n_edges,) for two classes, else (n_edges, n_classes); sets `classes_`."""
        check_classification_targets(values)
        self.classes_, codes = np.unique(values, return_inverse=True)
        if len(self.classes_) < 2:
            raise EdgesError(
                f"The known labels have only 1 class, {self.classes_[0]!s}: {type(self).__name__} needs at least two."
            )
        target = np.zeros((len(known), len(self.classes_)))
        target[np.flatnonzero(known), codes] = 1.0
        return target[:, 1] if len(self.classes_) == 2 else target

    def _class_weights(self, values: NDArray[Any], weight: NDArray[np.float64]) -> NDArray[np.float64]:
        """What the weight of each labelled edge is multiplied by; if balanced, so that classes weigh the same."""
        if self.class_weight != "balanced":
            factors: NDArray[np.float64] = compute_sample_weight(self.class_weight, values)
            return factors
        codes = np.searchsorted(self.classes_, values)
        sums = np.bincount(codes, weight, len(self.classes_))
        return (weight.sum() / len(sums) / np.where(sums > 0, sums, 1.0))[codes]

    def _check(self) -> None:
        owner = type(self).__name__
        self._check_graph()
        check_number(owner, "C", self.C)
        check_number(owner, "tol", self.tol)
        check_count(owner, "max_iter", self.max_iter, 1)

    def _fitted_shapes(self) -> dict[str, tuple[int, ...]]:
        n_outputs = 1 if len(self.classes_) == 2 else len(self.classes_)
        return {"coef_": (n_outputs, len(self.edges_)), "intercept_": (n_outputs,)}

    def _warm_point(self, edges: TemporalEdges, target: NDArray[np.float64]) -> Point | None:
        """The last solution, where there is one of the right shape."""
        n_outputs = 1 if target.ndim == 1 else target.shape[1]
        if not self.warm_start or getattr(self, "coef_", np.empty((0, 0))).shape != (n_outputs, len(edges)):
            return None
        return Point(self.coef_.T.copy(), self.intercept_.copy())

    def _choose_decay(self, edges: TemporalEdges, labels: NDArray[Any], weight: NDArray[np.float64]) -> Decay:
        """The decay asked for; under bandwidth="auto" the one that predicts held-out labels best."""
        if self.bandwidth is None:
            return Gaussian() if self.decay is None else self.decay
        kind = Gaussian if self.decay is None else type(self.decay)
        if kind not in (Gaussian, Laplace):
            raise ParameterError(
                f"The 'bandwidth' parameter of {type(self).__name__} goes with a Gaussian or Laplace decay. "
                f"Got bandwidth={self.bandwidth!r} with decay={self.decay!r}: give the widths in the decay."
            )
        if not (isinstance(self.bandwidth, str) and self.bandwidth == "auto"):
            return kind(self.bandwidth)
        candidates = [kind(relative=relative) for relative in RELATIVE_BANDWIDTHS]
        folds = self._folds(labels, weight)
        scores = [self._held_out_score(decay, edges, labels, weight, folds) for decay in candidates]
        self.bandwidth_scores_ = dict(zip(RELATIVE_BANDWIDTHS, scores, strict=True))
        return candidates[int(np.argmax(scores))]

    def _folds(self, labels: NDArray[Any], weight: NDArray[np.float64]) -> list[NDArray[np.int64]]:
        """The positions to hold out, in at most three parts with edges of every class each."""
        rows = np.flatnonzero(weight)
        classes, codes, counts = np.unique(labels[rows], return_inverse=True, return_counts=True)
        if counts.min() < 2:
            raise EdgesError(
                f"With bandwidth='auto' some edges of each class are held out, and {classes[counts.argmin()]!s} has only "
                "one that counts. Give more labels, or a bandwidth."
            )
        seed = int(as_generator(self.random_state).integers(2**31))
        folds = StratifiedKFold(min(3, int(counts.min())), shuffle=True, random_state=seed)
        return [rows[test] for _, test in folds.split(rows, codes)]

    def _held_out_score(
        self,
        decay: Decay,
        edges: TemporalEdges,
        labels: NDArray[Any],
        weight: NDArray[np.float64],
        folds: list[NDArray[np.int64]],
    ) -> float:
        """Mean over the folds: area under the curve for two classes, else minus the log loss."""
        scores = []
        for test in folds:
            model = clone(self).set_params(decay=decay, bandwidth=None, warm_start=False)
            trained_on = weight.copy()
            trained_on[test] = 0.0
            probability = model.fit(edges, labels, trained_on).predict_proba(edges)[test]
            codes = np.searchsorted(model.classes_, labels[test].astype(model.classes_.dtype))
            if len(model.classes_) == 2:
                scores.append(roc_auc_score(codes, probability[:, 1], sample_weight=weight[test]))
            else:
                every = np.arange(len(model.classes_))
                scores.append(-log_loss(codes, probability, labels=every, sample_weight=weight[test]))
        return float(np.mean(scores))


def _refuse_label_time(label_time: Any) -> None:
    if label_time is not None:
        raise ParameterError("A LineGraphClassifier learns from labels at fit only. Leave out 'label_time'.")


def _known(edges: TemporalEdges, y: Any) -> tuple[NDArray[Any], NDArray[np.bool_], NDArray[Any]]:
    """All labels, the mask of the known ones, and these; labels keep their kind beside missing ones."""
    labels, known, values = known_labels(edges, y)
    if not known.any():
        raise EdgesError("All labels are missing: there is nothing to learn from. Give the label of some edges.")
    if values.dtype != labels.dtype:
        labels = np.full(len(known), None, object)
        labels[known] = values
    return labels, known, values


def _checked_weight(sample_weight: Any, known: NDArray[np.bool_]) -> NDArray[np.float64]:
    """How much each edge counts; those of unknown label not at all."""
    weight = np.where(known, _check_sample_weight(sample_weight, known, dtype=np.float64), 0.0)
    if weight.min() < 0 or not weight.any():
        raise ParameterError(
            f"The 'sample_weight' must be at least 0, and above 0 for some edges of known label. "
            f"Got values from {weight.min():g} to {weight.max():g} there."
        )
    return weight
