"""Outlier detection: which of the edges that happened look as if drawn at random."""

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
    """Find the odd ones among edges: the paper's temporal link outlier detection, without labels.

    Real edges are told from edges whose sources, destinations and times were shuffled or drawn independently
    (`LinkPredictor`). An edge is odd where the model takes it for one of those: its nodes do little else around its time,
    or do not belong together. (With "rows" the score is a sum over both ends, which does not say the latter.) No edge is
    scored by a model that has seen it: the edges are cut into folds, and those of a fold are scored by a model of the other
    folds. Edges with the same source, destination and time are in one fold, so that none vouches for its copy.

    Parameters
    ----------
    method
        "propagation", or "rows", the paper's: see `LinkPredictor`.
    decay
        For "rows", how proximity fades with time; `Gaussian(relative=0.1)` when not given, the paper's choice. A relative
        bandwidth is fixed once, on all edges, so that the scores of all folds compare.
    C
        For "rows", the inverse strength of the penalty.
    cv
        The number of folds; fewer where there are fewer edges.
    contamination
        The share of the fitted edges to call odd, above 0 and at most 0.5. "auto": those that are more likely shuffled than
        real, that is, whose score is below 0.
    n_threads
        Threads of a product; every core when not given.
    random_state
        For the folds and the shuffled edges.

    Attributes
    ----------
    scores_
        The scores of the fitted edges, (n_edges,), each by a model that has not seen it.
    offset_
        The score below which an edge is odd.
    auc_
        How well real edges are told from shuffled ones that were not trained on either: the area under the curve, 0.5 where
        nothing was learnt. Look at it first: the scores mean no more than it says.
    model_
        The `LinkPredictor` of all edges, for new ones.
    edges_, decay_
        The edges given to `fit`, and the decay with its bandwidth fixed.

    Examples
    --------
    Ann and Bob are busy early, Cat and Dan late; the last edge is out of its time.

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
            Not used.
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
        """The log of the odds that each edge is real and not shuffled, (n_edges,); low is odd.

        Edges that were fitted, found by their source, destination and time in whatever table, have the score from `scores_`;
        others that of the model of all edges.
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
        """`score_samples` less `offset_`: below 0 is odd."""
        check_is_fitted(self)
        return self.score_samples(X) - self.offset_

    def predict(self, X: Any) -> NDArray[np.int64]:
        """-1 for odd edges, 1 for the others."""
        return np.where(self.decision_function(X) < 0, -1, 1)

    def _cross_fitted(self, edges: TemporalEdges, rng: np.random.Generator) -> tuple[Scores, float]:
        """The scores of edges held out, and how well these are told from shuffled ones."""
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
                f"Got {share!r} instead."
            )
        if edge_index(edges).at.max() == 0:
            raise EdgesError(
                f"All {len(edges)} edges have the same source, destination and time: none can be scored by a model of the "
                "others. Give at least two that differ."
            )
