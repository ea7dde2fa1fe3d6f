"""Outlier detection: find edges that look like synthetic ones, or that are part of a burst."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, OutlierMixin
from sklearn.metrics import roc_auc_score
from sklearn.utils.validation import check_is_fitted

from tdlg.checks import as_generator, as_seed, check_choice, check_count, check_number, is_number
from tdlg.clock import Duration
from tdlg.edges import TemporalEdges
from tdlg.estimator import EdgesEstimator, all_or_nothing
from tdlg.exceptions import EdgesError, Hint, ParameterError
from tdlg.explain.bursts import explain_bursts
from tdlg.explain.explainable import Scored
from tdlg.linegraph.decay import Decay, Gaussian, Laplace, time_spread
from tdlg.linegraph.events import own_columns
from tdlg.models.links import LinkPredictor, check_enough
from tdlg.propagate.bursts import KEYS, Arrivals, burst_surprises
from tdlg.sampling.index import edge_folds, edge_index
from tdlg.sampling.negatives import shuffled_edges

if TYPE_CHECKING:
    import polars as pl

__all__ = ["EdgeOutlierDetector"]

Scores = NDArray[np.float64]

LINK_METHODS = {"shuffled": "propagation", "rows": "rows"}  # what `LinkPredictor` calls them
METHODS = (*LINK_METHODS, "burst")
FAST, SLOW = 0.003, 1.0  # widths of the counts, in standard deviations of the times


class EdgeOutlierDetector(EdgesEstimator, OutlierMixin, BaseEstimator):
    """Find outliers among edges without labels: edges that do not belong, or edges that are too many.

    With "shuffled" and "rows" a `LinkPredictor` learns to distinguish real edges from synthetic ones, whose sources,
    destinations and times are shuffled or sampled independently: the paper's temporal link outlier detection. An edge is
    an outlier if the model takes it for synthetic: its nodes do little else around its time, or do not belong together.
    No edge is scored by a model that was trained on it: the edges are split into folds, and each fold is scored by a model
    of the other folds. Edges with the same source, destination and time are in the same fold, so that no edge is scored
    by a model that has seen a copy of it.

    With "burst" an edge is an outlier if its source, its destination or its pair has far more edges in a short time than
    its own longer past suggests: attacks, scans, spam, cards that are tested. One pass over the edges in the order of
    time counts each of the three with two decays, a fast and a slow one, and the score is the logarithm of a probability,
    which can be compared between busy and quiet nodes; see `tdlg.propagate.bursts.burst_surprises`. The score of an edge
    uses this edge and the edges before it, never a later one; edges at the same time come in the order of their rows. New
    edges continue the fitted ones: they count the fitted edges and each other.

    Parameters
    ----------
    method
        "shuffled" (default) finds single edges that do not fit their nodes, with columns that count the edges around an
        edge. "rows" does the same by the paper's method, whose score is a sum over the two nodes and cannot show that two
        active nodes do not belong together; see `LinkPredictor`. "burst" finds many edges in a short time, which look
        entirely usual to the other two, in one pass over the edges.
    decay
        For "rows", how proximity fades with time. By default `Gaussian(relative=0.1)`, the paper's choice. A relative
        bandwidth is fixed once, on all edges, so that the scores of all folds can be compared.
    C
        For "rows", the inverse strength of the penalty. Default 1.
    cv
        For "shuffled" and "rows", the number of folds, 5 by default. There are fewer folds if there are fewer distinct
        edges.
    fast, slow
        For "burst", in which time a burst happens, and the time that shows what is usual: numbers in the unit of the
        times, or durations such as "1h" and "10d" if the times are datetimes. An edge counts exp(-age / fast) and
        exp(-age / slow). By default 0.003 and 1 standard deviations of the fitted times, about 3 hours and 6 weeks for
        edges spread evenly over 5 months. The defaults use all fitted times; give both for scores that depend in no way
        on later edges.
    contamination
        The share of the fitted edges to mark as outliers, above 0 and at most 0.5. "auto", the default, marks the edges
        that are more likely synthetic than real, that is, whose score is below 0; with "burst", the edges whose surprise
        is too large to be expected once among all fitted edges by chance, that is, whose score is below
        -log10(3 * n_edges).
    n_threads
        Number of threads. By default all cores are used.
    random_state
        Seed for the folds, the synthetic edges and the boosted trees.

    Attributes
    ----------
    scores_
        The scores of the fitted edges, shape (n_edges,), each from a model that was not trained on that edge, or, with
        "burst", from the edges before that edge.
    offset_
        The score below which an edge is an outlier.
    auc_
        How well the model separates held-out real edges from held-out synthetic ones: the area under the ROC curve.
        Check it first: at 0.5 nothing was learnt and the scores are meaningless. Not for "burst".
    model_
        The `LinkPredictor` fitted on all edges, which scores new edges. Not for "burst".
    fast_, slow_
        For "burst", the two decays with their widths fixed.
    edges_, decay_
        The edges given to `fit`, and, except for "burst", the decay with its bandwidth fixed.

    Examples
    --------
    Ann and Bob are active early, Cat and Dan late; the last edge is at an unusual time.

    >>> from tdlg import EdgeOutlierDetector, TemporalEdges
    >>> src, dst = ["ann", "bob"] * 20 + ["cat", "dan"] * 20, ["bob", "ann"] * 20 + ["dan", "cat"] * 20
    >>> edges = TemporalEdges([*src, "ann"], [*dst, "bob"], [*range(80), 70])
    >>> detector = EdgeOutlierDetector(contamination=0.01, random_state=0).fit(edges)
    >>> detector.predict(edges[77:])
    array([ 1,  1,  1, -1])

    Eve sends as often as everyone else, and then 50 times at once.

    >>> src, time = ["ann", "bob", "cat", "eve"] * 100 + ["eve"] * 50, [*range(400), *[400] * 50]
    >>> edges = TemporalEdges(src, ["x", "y", "z"] * 150, time)
    >>> detector = EdgeOutlierDetector("burst", fast=10, slow=200).fit(edges)
    >>> detector.predict(edges[[100, 399, 449]])
    array([ 1,  1, -1])
    >>> detector.explain(edges, top=1, rows=449)["reason"].item()
    "53 interactions from 'eve' within 10 time units, where 2.5 are usual"
    """

    def __init__(
        self,
        method: Literal["shuffled", "rows", "burst"] = "shuffled",
        *,
        decay: Decay | None = None,
        C: float = 1.0,
        cv: int = 5,
        fast: float | Duration | None = None,
        slow: float | Duration | None = None,
        contamination: float | Literal["auto"] = "auto",
        n_threads: int | None = None,
        random_state: Any = None,
    ) -> None:
        self.method = method
        self.decay = decay
        self.C = C
        self.cv = cv
        self.fast = fast
        self.slow = slow
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
        if self.method == "burst":
            self.fast_, self.slow_ = burst_widths(self.fast, self.slow, time_spread(edges), edges.time_unit)
            self.scores_ = self._burst_scores(Arrivals.of(edges))
        else:
            rng = as_generator(self.random_state)
            decay = Gaussian() if self.decay is None else self.decay
            self.decay_ = decay.freeze(edges) if self.method == "rows" else decay
            self.scores_, self.auc_ = self._cross_fitted(edges, rng)
            self.model_ = self._new_model(rng).fit(edges)
        self.offset_ = self._offset()
        self.edges_ = edges
        return self

    def score_samples(self, X: Any) -> Scores:
        """Scores of edges, shape (n_edges,); outliers have low scores.

        The score is the log-odds that the edge is real and not synthetic; with "burst", it is minus the surprise, a number
        of decimal digits: -6 is a burst as rare as one in a million, and 0 is none.

        Fitted edges, which are recognised by source, destination and time in any table, have their score from `scores_`;
        other edges are scored by the model of all edges, or, with "burst", as a continuation of the fitted edges in which
        they come together: each counts those that are before it in time, or in these rows at the same time.
        """
        check_is_fitted(self)
        edges = self._edges(X, reset=False)
        at = self._places(edges)
        scores: Scores = self.scores_[at]
        new = at < 0
        if new.any() and self.method == "burst":
            scores[new] = self._burst_scores(Arrivals.of(self.edges_, edges[new]))[len(self.edges_) :]
        elif new.any():
            scores[new] = self.model_.decision_function(edges[new])
        return scores

    def scored(self, X: Any) -> Scored:
        """Edges with their scores, to pass to `explain`; see `score_samples`."""
        check_is_fitted(self)
        edges = self._edges(X, reset=False)
        return Scored(edges, self.score_samples(edges))

    def explain(self, X: Any, top: int = 3, *, rows: Any = None) -> pl.DataFrame:
        """What makes each edge part of a burst, in words, for the method "burst".

        Parameters
        ----------
        X
            The edges to explain, fitted or new; or what `scored` returned for them.
        top
            How many reasons to give per edge at most, the most surprising first; 3 by default.
        rows
            Positions in X of the edges to explain; by default all edges.

        Returns
        -------
        polars.DataFrame
            One row per reason, with the columns of `PropagationClassifier.explain` except class; "what" is src, dst or
            pair, the score is minus that of `score_samples`, and the effect is the surprise of that key: higher is more
            surprising. An edge without a surprise has no reason.
        """
        check_is_fitted(self)
        if self.method != "burst":
            raise ParameterError(
                f"EdgeOutlierDetector has reasons only with the method 'burst'. Got {self.method!r} instead.",
                Hint("Fit with {method}.", method="burst"),
                parameter="method",
                value=self.method,
            )
        edges = X.edges if isinstance(X, Scored) else self._edges(X, reset=False)
        return explain_bursts(self, edges, self._places(edges), top, rows=rows)

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
        method: Any = LINK_METHODS[self.method]
        seed = as_seed(rng)
        return LinkPredictor(method, decay=self.decay_, C=self.C, n_threads=self.n_threads, random_state=seed)

    def _places(self, edges: TemporalEdges) -> NDArray[np.int64]:
        """Positions among the fitted edges, -1 for new edges."""
        if self.method != "burst":
            return edge_index(self.edges_).find(edges)
        if edges.same_table(self.edges_):
            return own_columns(edges, self.edges_)
        at = edge_index(self.edges_).find_each(edges)
        again = np.ones(len(at), bool)  # more copies than there are fitted ones: further edges
        again[np.unique(at, return_index=True)[1]] = False
        return np.where(again, -1, at)

    def _burst_scores(self, arrivals: Arrivals) -> Scores:
        fast, slow = (decay.parts(arrivals.time_unit)[0].bandwidth for decay in (self.fast_, self.slow_))
        return -burst_surprises(arrivals, fast, slow, self.n_threads)

    def _offset(self) -> float:
        if self.contamination != "auto":
            return float(np.percentile(self.scores_, 100.0 * self.contamination))
        return -rare_surprise(len(self.scores_)) if self.method == "burst" else 0.0

    def _check(self, edges: TemporalEdges) -> None:
        owner = type(self).__name__
        check_choice(owner, "method", self.method, METHODS)
        check_number(owner, "C", self.C)
        check_count(owner, "cv", self.cv, 2)
        self._check_graph()
        share = self.contamination
        if share != "auto" and not (is_number(share) and 0 < share <= 0.5):
            raise ParameterError(
                f"The 'contamination' parameter of EdgeOutlierDetector must be 'auto', or above 0 and at most 0.5. "
                f"Got {share!r} instead.",
                parameter="contamination",
                value=share,
            )
        if self.method == "burst":
            return
        check_enough(self, edges)
        if edge_index(edges).at.max() == 0:
            raise EdgesError(
                f"All {len(edges)} edges have the same source, destination and time: none can be scored by a model of the "
                "others. Pass at least two edges that differ."
            )


def rare_surprise(n_edges: int) -> float:
    """The surprise that is expected once among all edges by chance."""
    return float(np.log10(len(KEYS) * n_edges))


def burst_widths(fast: Any, slow: Any, spread: float, time_unit: str | None) -> tuple[Decay, Decay]:
    """The fast and the slow decay of bursts; if all edges have the same time, nothing fades and any width will do.

    Parameters
    ----------
    fast, slow
        The parameters of `EdgeOutlierDetector`.
    spread, time_unit
        The standard deviation of the times in ticks, and their unit.
    """
    decays = []
    for name, given, relative in (("fast", fast, FAST), ("slow", slow, SLOW)):
        anything = relative if time_unit is None else f"{relative}s"
        try:
            default = Laplace(relative=relative) if spread > 0 else Laplace(anything)
            decays.append(default.at_spread(spread, time_unit) if given is None else Laplace(given))
            decays[-1].parts(time_unit)
        except ParameterError as error:
            raise ParameterError(
                f"The {name!r} parameter of EdgeOutlierDetector is {given!r}: {error.problem}",
                *error.args[1:],
                parameter=name,
                value=given,
            ) from None
    widths = [decay.parts(time_unit)[0].bandwidth for decay in decays]
    if not widths[0] < widths[1]:
        raise ParameterError(
            f"The 'fast' parameter of EdgeOutlierDetector must be shorter than 'slow'. Got {decays[0]!r} and "
            f"{decays[1]!r} instead. By default they are {FAST} and {SLOW:g} standard deviations of the times.",
            parameter="fast",
            value=fast,
        )
    return decays[0], decays[1]
