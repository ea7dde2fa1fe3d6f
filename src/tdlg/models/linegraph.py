"""The paper's classifier: logistic regression on the rows of the time-decayed line graph."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, softmax
from sklearn.base import BaseEstimator, clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import log_loss, roc_auc_score
from sklearn.model_selection import StratifiedKFold
from sklearn.utils.class_weight import compute_sample_weight
from sklearn.utils.multiclass import check_classification_targets

from tdlg.checks import as_generator, as_seed, check_count, check_number
from tdlg.edges import TemporalEdges
from tdlg.estimator import (
    EdgesClassifier,
    Explainable,
    Scored,
    all_or_nothing,
    check_graph,
    check_shapes,
    check_target,
    fitted_graph,
    known_labels,
)
from tdlg.exceptions import EdgesError, ParameterError, warn
from tdlg.linegraph.decay import Decay, Gaussian, Laplace
from tdlg.models.solver import solve_logistic
from tdlg.models.training import check_two_classes, checked_weight

if TYPE_CHECKING:
    import polars as pl

RELATIVE_BANDWIDTHS = (0.001, 0.01, 0.03, 0.1, 0.3, 1.0, 10.0)  # candidates for bandwidth="auto"


class LineGraphClassifier(EdgesClassifier, Explainable, BaseEstimator):
    """Classify interactions by logistic regression on the rows of the line graph, which is never built.

    The features of an edge are its proximities to all edges given to `fit`, labelled and unlabelled: the paper's
    transductive setting. Edges whose label is missing (NaN, None) are part of the graph but are not trained on;
    `predict_proba(edges)` predicts their labels. The features of a new edge are its proximities to the fitted edges. The
    objective is that of scikit-learn's `LogisticRegression` on `LineGraph(edges).to_csr()`.

    Parameters
    ----------
    decay
        How proximity fades with time. By default `Gaussian(relative=0.1)`, the paper's choice.
    bandwidth
        Replaces the bandwidth of the decay: a number in the unit of the times, a duration such as "7d", or "auto". "auto"
        chooses among 0.001 to 10 standard deviations of the times by cross-validation on the labelled edges, by the area
        under the ROC curve for two classes and else by the log loss. By default the decay keeps its own bandwidth.
    normalization
        None (default, the paper's choice), "spectral" or "edge"; see `LineGraph.normalized`.
    C
        Inverse strength of the penalty. Default 1.
    class_weight
        None (default), "balanced" (by the sums of sample weights) or a dict, as in scikit-learn.
    max_iter
        Maximum number of Newton steps.
    tol
        Tolerance of the solver. It stops when no entry of the gradient exceeds tol * C * (sum of weights), as in
        scikit-learn, and the last step neither lowered the objective by more than a share of 10 * tol nor was expected to.
    n_threads
        Number of threads. By default all cores are used.
    random_state
        Seed for the cross-validation folds of `bandwidth="auto"`.

    Attributes
    ----------
    classes_
        The distinct labels, sorted.
    coef_, intercept_
        Coefficients of the fitted edges, shape (1 or n_classes, n_edges), and intercepts, shape (1 or n_classes,).
    edges_, labels_
        The edges given to `fit`, which are the columns of the line graph, and their labels.
    decay_
        The decay with its bandwidth fixed.
    n_iter_, n_products_, objective_
        The number of Newton steps, the number of products with the line graph, and the final value of the objective.

    Examples
    --------
    One of two sellers is rated badly by everyone. The label of the last edge is predicted.

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
        self.n_threads = n_threads
        self.random_state = random_state

    @all_or_nothing
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Learn from the edges whose label is known.

        Parameters
        ----------
        X
            The edges, labelled and unlabelled.
        y
            Labels, one value per edge. By default the labels of the edges. Edges with a missing label are not trained on.
        sample_weight
            Weight of each edge in the objective. By default all edges have weight 1.
        """
        check_target(self, X, y)
        self._check()
        edges = self._edges(X, reset=True)
        labels, known, values = known_labels(edges, y)
        if not known.any():
            raise EdgesError("All labels are missing: there is nothing to learn from. Give the label of some edges.")
        if values.dtype != labels.dtype:  # missing labels do not change the type of the others
            labels = np.full(len(known), None, object)
            labels[known] = values
        target = self._targets(known, values)
        given = np.where(known, checked_weight(sample_weight, known), 0.0)
        if not given.any():
            problem = "The 'sample_weight' is 0 for all edges of known label. Pass weights above 0 for some of them."
            raise ParameterError(problem, parameter="sample_weight")
        self.decay_ = self._choose_decay(edges, labels, given).freeze(edges)
        self.edges_, self.labels_ = edges, labels
        weight = given.copy()
        weight[known] *= self._class_weights(values, given[known])
        H = fitted_graph(self, edges)
        solution = solve_logistic(H, target, weight, C=self.C, tol=self.tol, max_iter=self.max_iter)
        if solution.n_iter == self.max_iter and not solution.converged:
            warn(
                f"The solver stopped after {self.max_iter} steps, before it reached the tolerance {self.tol}.",
                "Raise max_iter= or tol=.",
                category=ConvergenceWarning,
            )
        self.coef_, self.intercept_ = solution.coef.T, solution.intercept
        self.n_iter_, self.n_products_, self.objective_ = solution.n_iter, solution.n_products, solution.objective
        return self

    def decision_function(self, X: Any, *, label_time: None = None) -> NDArray[np.float64]:
        """Scores: shape (n_edges,) for two classes, positive for the second class; else (n_edges, n_classes).

        Parameters
        ----------
        X
            The edges to score, fitted or new.
        label_time
            Must be None: this model uses only the labels given to `fit`.
        """
        _refuse_label_time(label_time)
        scores = fitted_graph(self, self._edges(X, reset=False)) @ self.coef_.T + self.intercept_
        return scores[:, 0] if len(self.classes_) == 2 else scores

    def predict_proba(self, X: Any, *, label_time: None = None) -> NDArray[np.float64]:
        """Probabilities of the classes, shape (n_edges, n_classes); see `decision_function`."""
        scores = self.decision_function(X, label_time=label_time)
        if scores.ndim == 1:
            return np.column_stack([expit(-scores), expit(scores)])
        return softmax(scores, axis=1)

    def predict(self, X: Any, *, label_time: None = None) -> NDArray[Any]:
        """The most probable class of each edge; see `decision_function`."""
        scores = self.decision_function(X, label_time=label_time)
        best = (scores > 0).astype(int) if scores.ndim == 1 else scores.argmax(axis=1)
        return self.classes_[best]

    def scored(self, X: Any, *, label_time: None = None) -> Scored:
        """Edges with their probabilities, to pass to `explain` and `node_scores`; see `predict_proba`."""
        edges = self._edges(X, reset=False)
        return Scored(edges, self.predict_proba(edges, label_time=label_time))

    def explain(
        self, X: Any, top: int = 3, *, rows: Any = None, positive: Any = None, label_time: Any = None
    ) -> pl.DataFrame:
        """Say in words which interactions moved each score most; see `tdlg.explain.reasons.explain_rows`."""
        from tdlg.explain.reasons import explain_rows

        _refuse_label_time(label_time)
        edges = X.edges if isinstance(X, Scored) else self._edges(X, reset=False)
        return explain_rows(self, edges, top, rows=rows, positive=positive)

    def contributions(self, X: Any, top: int = 5, *, rows: Any = None) -> pl.DataFrame:
        """Take each decision value apart into a sum; see `tdlg.explain.reasons.contributions_of_rows`."""
        from tdlg.explain.reasons import contributions_of_rows

        return contributions_of_rows(self, self._edges(X, reset=False), top, rows=rows)

    def _node_reasons(
        self, scored: Scored, riskiest: NDArray[np.int64], sampled: NDArray[np.int64], code: int | None
    ) -> list[str | None]:
        """The reason for each node: the fitted interaction that raises the score of its riskiest edge most."""
        from tdlg.explain.reasons import main_interactions

        return main_interactions(self, scored.edges[riskiest], code)

    def _targets(self, known: NDArray[np.bool_], values: NDArray[Any]) -> NDArray[np.float64]:
        """Set `classes_`; return 0/1 targets, shape (n_edges,) for two classes, else (n_edges, n_classes)."""
        check_classification_targets(values)
        self.classes_, codes = np.unique(values, return_inverse=True)
        check_two_classes(self)
        target = np.zeros((len(known), len(self.classes_)))
        target[np.flatnonzero(known), codes] = 1.0
        return target[:, 1] if len(self.classes_) == 2 else target

    def _class_weights(self, values: NDArray[Any], weight: NDArray[np.float64]) -> NDArray[np.float64]:
        """Factor of the weight of each labelled edge; if balanced, all classes have the same total weight."""
        if self.class_weight != "balanced":
            factors: NDArray[np.float64] = compute_sample_weight(self.class_weight, values)
            return factors
        codes = np.searchsorted(self.classes_, values)
        sums = np.bincount(codes, weight, len(self.classes_))
        return (weight.sum() / len(sums) / np.where(sums > 0, sums, 1.0))[codes]

    def _check(self) -> None:
        owner = type(self).__name__
        check_graph(self)
        check_number(owner, "C", self.C)
        check_number(owner, "tol", self.tol)
        check_count(owner, "max_iter", self.max_iter, 1)

    def _check_loaded(self) -> None:
        if "edges_" in vars(self):
            n_outputs = 1 if len(self.classes_) == 2 else len(self.classes_)
            check_shapes(self, coef_=(n_outputs, len(self.edges_)), intercept_=(n_outputs,))

    def _choose_decay(self, edges: TemporalEdges, labels: NDArray[Any], weight: NDArray[np.float64]) -> Decay:
        """The decay to use; with bandwidth="auto" the one that predicts held-out labels best."""
        if self.bandwidth is None:
            return Gaussian() if self.decay is None else self.decay
        kind = Gaussian if self.decay is None else type(self.decay)
        if kind not in (Gaussian, Laplace):
            raise ParameterError(
                f"The 'bandwidth' parameter of {type(self).__name__} requires a Gaussian or Laplace decay. "
                f"Got bandwidth={self.bandwidth!r} with decay={self.decay!r}. Set the bandwidths in the decay instead.",
                parameter="bandwidth",
            )
        if not (isinstance(self.bandwidth, str) and self.bandwidth == "auto"):
            return kind(self.bandwidth)
        candidates = [kind(relative=relative) for relative in RELATIVE_BANDWIDTHS]
        folds = self._folds(labels, weight)
        scores = [self._held_out_score(decay, edges, labels, weight, folds) for decay in candidates]
        self.bandwidth_scores_ = dict(zip(RELATIVE_BANDWIDTHS, scores, strict=True))
        return candidates[int(np.argmax(scores))]

    def _folds(self, labels: NDArray[Any], weight: NDArray[np.float64]) -> list[NDArray[np.int64]]:
        """The positions to hold out, in at most three folds, each with edges of every class."""
        rows = np.flatnonzero(weight)
        classes, codes, counts = np.unique(labels[rows], return_inverse=True, return_counts=True)
        if counts.min() < 2:
            raise EdgesError(
                f"To choose the bandwidth, each class needs at least two labelled edges with a positive weight, and the "
                f"class {classes[counts.argmin()]!s} has only one. Pass more labels.",
                "Or set bandwidth=.",
            )
        seed = as_seed(as_generator(self.random_state))
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
        """Mean over the folds: area under the ROC curve for two classes, else minus the log loss."""
        scores = []
        for test in folds:
            model = clone(self).set_params(decay=decay, bandwidth=None)
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
        raise ParameterError(
            "A LineGraphClassifier learns from labels at fit only.", "Leave out label_time=.", parameter="label_time"
        )
