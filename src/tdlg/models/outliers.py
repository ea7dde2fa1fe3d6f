"""Outlier detection: find edges that look like synthetic ones."""

from __future__ import annotations

from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, OutlierMixin
from sklearn.metrics import roc_auc_score
from sklearn.utils.validation import check_is_fitted

from tdlg.checks import as_generator, as_seed, check_count, is_number
from tdlg.edges import TemporalEdges
from tdlg.estimator import EdgesEstimator, all_or_nothing
from tdlg.exceptions import EdgesError, ParameterError
from tdlg.linegraph.decay import Decay, Gaussian
from tdlg.models.links import LinkPredictor, check_enough, check_parameters
from tdlg.sampling.index import edge_folds, edge_index
from tdlg.sampling.negatives import shuffled_edges

__all__ = ["EdgeOutlierDetector"]

Scores = NDArray[np.float64]


class EdgeOutlierDetector(EdgesEstimator, OutlierMixin, BaseEstimator):
    """Find outliers among edges without labels: the paper's temporal link outlier detection.

    A `LinkPredictor` learns to distinguish real edges from synthetic ones, whose sources, destinations and times are
    shuffled or sampled independently. An edge is an outlier if the model takes it for synthetic: its nodes do little else
    around its time, or do not belong together. (With "rows" the score is a sum over the two nodes and cannot show the
    latter.) No edge is scored by a model that was trained on it: the edges are split into folds, and each fold is scored by
    a model of the other folds. Edges with the same source, destination and time are in the same fold, so that no edge is
    scored by a model that has seen a copy of it.

    Parameters
    ----------
    method
        "propagation" (default), or "rows", the paper's method; see `LinkPredictor`.
    decay
        For "rows", how proximity fades with time. By default `Gaussian(relative=0.1)`, the paper's choice. A relative
        bandwidth is fixed once, on all edges, so that the scores of all folds can be compared.
    C
        For "rows", the inverse strength of the penalty. Default 1.
    cv
        The number of folds, 5 by default. There are fewer folds if there are fewer distinct edges.
    contamination
        The share of the fitted edges to mark as outliers, above 0 and at most 0.5. "auto", the default, marks the edges
        that are more likely synthetic than real, that is, whose score is below 0.
    n_threads
        Number of threads. By default all cores are used.
    random_state
        Seed for the folds, the synthetic edges and the boosted trees.

    Attributes
    ----------
    scores_
        The scores of the fitted edges, shape (n_edges,), each from a model that was not trained on that edge.
    offset_
        The score below which an edge is an outlier.
    auc_
        How well the model separates held-out real edges from held-out synthetic ones: the area under the ROC curve.
        Check it first: at 0.5 nothing was learnt and the scores are meaningless.
    model_
        The `LinkPredictor` fitted on all edges, which scores new edges.
    edges_, decay_
        The edges given to `fit`, and the decay with its bandwidth fixed.

    Examples
    --------
    Ann and Bob are active early, Cat and Dan late; the last edge is at an unusual time.

    >>> from tdlg import EdgeOutlierDetector, TemporalEdges
    >>> src, dst = ["ann", "bob"] * 20 + ["cat", "dan"] * 20, ["bob", "ann"] * 20 + ["dan", "cat"] * 20
    >>> edges = TemporalEdges([*src, "ann"], [*dst, "bob"], [*range(80), 70])
    >>> detector = EdgeOutlierDetector(contamination=0.01, random_state=0).fit(edges)
    >>> detector.predict(edges[77:])
    array([ 1,  1,  1, -1])
    """

    def __init__(
        self,
        method: Literal["propagation", "rows"] = "propagation",
        *,
        decay: Decay | None = None,
        C: float = 1.0,
        cv: int = 5,
        contamination: float | Literal["auto"] = "auto",
        n_threads: int | None = None,
        random_state: Any = None,
    ) -> None:
        self.method = method
        self.decay = decay
        self.C = C
        self.cv = cv
        self.contamination = contamination
        self.n_threads = n_threads
        self.random_state = random_state

    @all_or_nothing
    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn what real edges look like, and score them.

        Parameters
        ----------
        X
            The edges that happened, at least two.
        y
            Ignored.
        """
        edges = self._edges(X, reset=True)
        self._check(edges)
        rng = as_generator(self.random_state)
        decay = Gaussian() if self.decay is None else self.decay
        self.decay_ = decay.freeze(edges) if self.method == "rows" else decay
        self.scores_, self.auc_ = self._cross_fitted(edges, rng)
        self.model_ = self._new_model(rng).fit(edges)
        share = self.contamination
        self.offset_ = 0.0 if share == "auto" else float(np.percentile(self.scores_, 100.0 * share))
        self.edges_ = edges
        return self

    def score_samples(self, X: Any) -> Scores:
        """Log-odds that each edge is real and not synthetic, shape (n_edges,); outliers have low scores.

        Fitted edges, which are recognised by source, destination and time in any table, have their score from `scores_`;
        other edges are scored by the model of all edges.
        """
        check_is_fitted(self)
        edges = self._edges(X, reset=False)
        at = edge_index(self.edges_).find(edges)
        scores: Scores = self.scores_[at]
        new = at < 0
        if new.any():
            scores[new] = self.model_.decision_function(edges[new])
        return scores

    def decision_function(self, X: Any) -> Scores:
        """`score_samples` minus `offset_`: negative for outliers."""
        check_is_fitted(self)
        return self.score_samples(X) - self.offset_

    def predict(self, X: Any) -> NDArray[np.int64]:
        """-1 for outliers, 1 for other edges."""
        return np.where(self.decision_function(X) < 0, -1, 1)

    def _cross_fitted(self, edges: TemporalEdges, rng: np.random.Generator) -> tuple[Scores, float]:
        """The scores of held-out edges, and the AUC of held-out real against synthetic edges."""
        folds = edge_folds(edges, self.cv, rng)
        shuffled = shuffled_edges(edges, rng)
        scores, of_shuffled = np.empty((2, len(edges)))
        for fold in range(folds.max() + 1):
            held_out = folds == fold
            model = self._new_model(rng)._learn(edges[~held_out])
            scores[held_out] = model.decision_function(edges[held_out])
            of_shuffled[held_out] = model.decision_function(shuffled[held_out])
        auc = roc_auc_score(np.repeat([1, 0], len(edges)), np.concatenate([scores, of_shuffled]))
        return scores, float(auc)

    def _new_model(self, rng: np.random.Generator) -> LinkPredictor:
        seed = as_seed(rng)
        return LinkPredictor(self.method, decay=self.decay_, C=self.C, n_threads=self.n_threads, random_state=seed)

    def _check(self, edges: TemporalEdges) -> None:
        check_parameters(self)
        check_enough(self, edges)
        check_count(type(self).__name__, "cv", self.cv, 2)
        share = self.contamination
        if share != "auto" and not (is_number(share) and 0 < share <= 0.5):
            raise ParameterError(
                f"The 'contamination' parameter of EdgeOutlierDetector must be 'auto', or above 0 and at most 0.5. "
                f"Got {share!r} instead.",
                parameter="contamination",
                value=share,
            )
        if edge_index(edges).at.max() == 0:
            raise EdgesError(
                f"All {len(edges)} edges have the same source, destination and time: none can be scored by a model of the "
                "others. Pass at least two edges that differ."
            )
