"""Outlier detection without labels: edges that do not fit their nodes, and one detector for all notions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
from sklearn.metrics import roc_auc_score
from sklearn.utils.validation import check_is_fitted

from tdlg.checks import as_generator, as_seed, check_choice, check_count
from tdlg.clock import Duration
from tdlg.edges import TemporalEdges
from tdlg.estimator import Scored, all_or_nothing
from tdlg.exceptions import EdgesError
from tdlg.linegraph.decay import Decay, Gaussian
from tdlg.models.bursts import BurstDetector, Detector, Scores
from tdlg.models.links import LinkPredictor, check_enough, check_parameters
from tdlg.models.surprise import NOTIONS, RarityDetector, SurpriseDetector
from tdlg.sampling.index import edge_folds, edge_index
from tdlg.sampling.negatives import shuffled_edges

if TYPE_CHECKING:
    import polars as pl

OUTLIER_METHODS = ("any", "burst", "rare", "value", "shuffled", "linegraph")


class MisplacedDetector(Detector):
    """Find single edges that do not fit their nodes, without labels: the paper's temporal link outlier detection.

    A `LinkPredictor` learns to distinguish real edges from synthetic ones, whose sources, destinations and times are
    shuffled or sampled independently. An edge is an outlier if the model takes it for synthetic: its nodes do little else
    around its time, or do not belong together. No edge is scored by a model that was trained on it: the edges are split
    into folds, and each fold is scored by a model of the other folds. Edges with the same source, destination and time are
    in the same fold, so that no edge is scored by a model that has seen a copy of it.

    Parameters
    ----------
    method, decay, C, n_threads
        Those of the `LinkPredictor`. A relative bandwidth is fixed once, on all edges, so that the scores of all folds can
        be compared.
    cv
        The number of folds, 5 by default. There are fewer folds if there are fewer distinct edges.
    contamination
        The share of the fitted edges to mark as outliers, above 0 and at most 0.5. "auto", the default, marks the edges
        that are more likely synthetic than real, that is, whose score is below 0.
    random_state
        Seed for the folds, the synthetic edges and the boosted trees.

    Attributes
    ----------
    scores_
        The scores of the fitted edges, shape (n_edges,): log-odds that an edge is real and not synthetic, each from a model
        that was not trained on that edge.
    offset_
        The score below which an edge is an outlier.
    auc_
        How well the model separates held-out real edges from held-out synthetic ones: the area under the ROC curve.
        Check it first: at 0.5 nothing was learnt and the scores are meaningless.
    model_
        The `LinkPredictor` fitted on all edges, which scores new edges.
    edges_, decay_
        The edges given to `fit` and, for "linegraph", the decay with its bandwidth fixed.

    See Also
    --------
    BurstDetector : find many edges in a short time, which look entirely usual to this detector.

    Examples
    --------
    Ann and Bob are active early, Cat and Dan late; the last edge is at an unusual time.

    >>> from tdlg import MisplacedDetector, TemporalEdges
    >>> src, dst = ["ann", "bob"] * 20 + ["cat", "dan"] * 20, ["bob", "ann"] * 20 + ["dan", "cat"] * 20
    >>> edges = TemporalEdges([*src, "ann"], [*dst, "bob"], [*range(80), 70])
    >>> detector = MisplacedDetector(contamination=0.01, random_state=0).fit(edges)
    >>> detector.predict(edges[77:])
    array([ 1,  1,  1, -1])
    """

    def __init__(
        self,
        method: Literal["propagation", "linegraph"] = "propagation",
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
        """Learn what real edges look like, and score them. X has at least two edges; y is ignored."""
        edges = self._edges(X, reset=True)
        check_parameters(self)
        check_count(type(self).__name__, "cv", self.cv, 2)
        self._check_contamination()
        check_enough(edges)
        if edge_index(edges).at.max() == 0:
            raise EdgesError(
                f"All {len(edges)} edges have the same source, destination and time: none can be scored by a model of the "
                "others. Pass at least two edges that differ."
            )
        rng = as_generator(self.random_state)
        if self.method == "linegraph":
            self.decay_ = (Gaussian() if self.decay is None else self.decay).freeze(edges)
        self.scores_, self.auc_ = self._cross_fitted(edges, rng)
        self.model_ = self._new_model(rng).fit(edges)
        self.offset_ = self._offset(0.0)
        self.edges_ = edges
        return self

    def explain(self, X: Any, top: int = 3, *, rows: Any = None) -> pl.DataFrame:
        """What speaks against each edge, in words: how far away in time its two nodes, and their pair, do anything else.

        Parameters
        ----------
        X
            The edges to explain, fitted or new; or what `scored` returned for them.
        top
            How many reasons to give per edge at most; 3 by default.
        rows
            Positions in X of the edges to explain; by default all edges.

        Returns
        -------
        polars.DataFrame
            One row per reason, with the columns of `PropagationClassifier.explain` except class; "what" is src, dst or
            pair, the least usual first, the score is minus that of `score_samples`, and the effect is not known.
        """
        from tdlg.explain.outliers import explain_misplaced

        scored = X if isinstance(X, Scored) else self.scored(X)
        places = edge_index(self.edges_).find(scored.edges)
        return explain_misplaced(self, scored.edges, places, scored.values, top, rows=rows)

    def _scores_of(self, edges: TemporalEdges) -> Scores:
        """The scores of fitted edges, and of new ones, by the model of all edges."""
        at = edge_index(self.edges_).find(edges)
        scores: Scores = self.scores_[at]
        new = at < 0
        if new.any():
            scores[new] = self.model_.decision_function(edges[new])
        return scores

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
        decay, seed = getattr(self, "decay_", None), as_seed(rng)
        return LinkPredictor(self.method, decay=decay, C=self.C, n_threads=self.n_threads, random_state=seed)


class EdgeOutlierDetector(Detector):
    """Find outliers among edges without labels: what is unusual beside the past, or does not belong.

    By default, three notions give one answer: bursts, new and rare ends, and unusual values; see `SurpriseDetector`. Any of
    them, or the paper's notion of a misplaced edge, can be chosen by the name of a method.

    Parameters
    ----------
    method
        - "any" (default): bursts, new and rare ends, and unusual values as one score: `SurpriseDetector()`. The paper's
          notion joins them `with_misplaced`.
        - "burst": far more edges than usual in a short time: `BurstDetector()`.
        - "rare": ends, pairs, categories and hours that are new or rare: `RarityDetector()`.
        - "value": features that are far from those of their node: `SurpriseDetector(["value"])`.
        - "shuffled": single edges that do not fit their nodes: `MisplacedDetector()`, which takes much longer.
          "linegraph" does the same by the paper's method: `MisplacedDetector("linegraph")`.
    with_misplaced
        Whether "any" also judges, by "linegraph", whether edges fit their nodes, which takes much longer. Not by default.
    decay, C
        For "linegraph", see `MisplacedDetector`.
    cv, random_state
        For "shuffled" and "linegraph", see `MisplacedDetector`.
    fast, slow
        For all others, see `BurstDetector`.
    groups
        For "any" and "burst", see `BurstDetector`.
    contamination
        The share of the fitted edges to mark as outliers, above 0 and at most 0.5. "auto", the default, lets the detector
        decide: at least 3 digits; bursts that chance would not give once among all fitted edges; edges that are more likely
        synthetic than real.
    n_threads
        Number of threads. By default all cores are used.

    Attributes
    ----------
    detector_
        The fitted detector of the method. Its fitted attributes are also those of this estimator.
    scores_
        The scores of the fitted edges, shape (n_edges,); outliers have low ones.
    offset_
        The score below which an edge is an outlier.
    edges_
        The edges given to `fit`.

    Examples
    --------
    Eve does 50 times at once what she did every other day.

    >>> from tdlg import EdgeOutlierDetector, TemporalEdges
    >>> edges = TemporalEdges(["ann", "eve"] * 100 + ["eve"] * 50, ["x", "y"] * 125, [*range(200), *[200] * 50])
    >>> detector = EdgeOutlierDetector(fast=10, slow=100).fit(edges)
    >>> detector.predict(edges[[0, 199, 249]])
    array([ 1,  1, -1])
    """

    detector_: MisplacedDetector | BurstDetector | SurpriseDetector

    def __init__(
        self,
        method: Literal["any", "burst", "rare", "value", "shuffled", "linegraph"] = "any",
        *,
        with_misplaced: bool = False,
        decay: Decay | None = None,
        C: float = 1.0,
        cv: int = 5,
        fast: float | Duration | None = None,
        slow: float | Duration | None = None,
        groups: Sequence[str] = (),
        contamination: float | Literal["auto"] = "auto",
        n_threads: int | None = None,
        random_state: Any = None,
    ) -> None:
        self.method = method
        self.with_misplaced = with_misplaced
        self.decay = decay
        self.C = C
        self.cv = cv
        self.fast = fast
        self.slow = slow
        self.groups = groups
        self.contamination = contamination
        self.n_threads = n_threads
        self.random_state = random_state

    @all_or_nothing
    def fit(self, X: Any, y: Any = None) -> Self:
        """Fit the detector of this method to the edges X.

        X has at least two edges for "shuffled" and "linegraph". Labels y are only used by "any", see `SurpriseDetector.fit`.
        """
        edges = self._edges(X, reset=True)
        check_choice(type(self).__name__, "method", self.method, OUTLIER_METHODS)
        options: Any = {"contamination": self.contamination, "n_threads": self.n_threads}
        alone = options | {"decay": self.decay, "C": self.C, "cv": self.cv, "random_state": self.random_state}
        if self.method in ("shuffled", "linegraph"):
            self.detector_ = MisplacedDetector("linegraph" if self.method == "linegraph" else "propagation", **alone)
        elif self.method == "burst":
            self.detector_ = BurstDetector(self.fast, self.slow, groups=self.groups, **options)
        elif self.method == "rare":
            self.detector_ = RarityDetector(fast=self.fast, slow=self.slow, **options)
        else:
            notions = NOTIONS if self.method == "any" else (self.method,)
            if self.method == "any" and self.with_misplaced:
                options["misplaced"] = MisplacedDetector("linegraph", **alone | {"contamination": "auto"})
            self.detector_ = SurpriseDetector(notions, fast=self.fast, slow=self.slow, groups=self.groups, **options)
        for name, value in vars(self.detector_.fit(edges, y)).items():
            if name.endswith("_"):
                self.__dict__.setdefault(name, value)
        return self

    def explain(self, X: Any, top: int = 3, *, rows: Any = None) -> pl.DataFrame:
        """What makes each edge an outlier, in words; see `explain` of the detectors."""
        check_is_fitted(self)
        return self.detector_.explain(X if isinstance(X, Scored) else self.scored(X), top, rows=rows)

    def _scores_of(self, edges: TemporalEdges) -> Scores:
        return self.detector_._scores_of(edges)
