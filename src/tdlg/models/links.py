"""Link prediction: how likely an edge is at a given time, and which edges come next."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from tdlg.checks import as_generator, check_choice, check_count, check_number
from tdlg.edges import TemporalEdges
from tdlg.estimator import EdgesEstimator, all_or_nothing, check_graph
from tdlg.exceptions import EdgesError, ParameterError
from tdlg.linegraph.decay import Decay, Gaussian
from tdlg.linegraph.operator import LineGraph
from tdlg.models.linegraph import LineGraphClassifier
from tdlg.models.link_columns import LinkModel
from tdlg.models.pairs import best_pairs, candidate_edges
from tdlg.sampling.index import concatenate_edges
from tdlg.sampling.negatives import shuffled_edges

if TYPE_CHECKING:
    import polars as pl

LINK_METHODS = ("propagation", "rows")


class LinkPredictor(EdgesEstimator, BaseEstimator):
    """Score how likely candidate edges are at a given time: temporal link prediction.

    The model learns to distinguish the edges given to `fit` from synthetic edges, whose sources, destinations and times
    are shuffled or sampled independently. A probability compares a real edge with one synthetic edge. Use it to rank
    candidates, not as the frequency of an edge.

    Parameters
    ----------
    method
        The features and the model. "propagation", the default: columns that count the real and synthetic edges around a
        candidate, for each match and five time scales. Candidates earlier than the last fitted edge are scored by boosted
        trees on the edges before and after them; later candidates by logistic regression on the edges before them, which
        is trained on the last part of the fitted edges.
        "rows", the paper's method: logistic regression on a candidate's proximities to the fitted and shuffled edges. Its
        score is a sum over the two nodes: it shows whether both nodes are active at that time, but not whether two active
        nodes belong together, nor in which direction.
    decay
        For "rows", how proximity fades with time. By default `Gaussian(relative=0.1)`, the paper's choice.
    C
        For "rows", the inverse strength of the penalty. Default 1.
    n_threads
        Number of threads. By default all cores are used.
    random_state
        Seed for the synthetic edges and the boosted trees.

    Attributes
    ----------
    edges_
        The edges given to `fit`.
    decay_, model_
        For "rows", the decay with its bandwidth fixed, and the `LineGraphClassifier` fitted on the real and the shuffled
        edges.
    link_model_
        For "propagation", the real and the sampled edges, which of them are real, the decays, and the two fitted
        estimators.
    classes_
        0 (shuffled) and 1 (real): the columns of `predict_proba`.

    See Also
    --------
    MisplacedDetector : find outliers among the edges that happened.
    LinkRanker : rank the next partner of a given node, and all pairs.

    Examples
    --------
    Ann and Bob meet, and Cat and Dan do.

    >>> import numpy as np
    >>> from tdlg import LinkPredictor, TemporalEdges
    >>> src, dst = ["ann", "cat", "bob", "dan"] * 50, ["bob", "dan", "ann", "cat"] * 50
    >>> edges = TemporalEdges(src, dst, np.random.default_rng(0).uniform(0, 100, 200))
    >>> model = LinkPredictor(random_state=0).fit(edges)
    >>> model.predict_proba([["ann", "bob", 50], ["ann", "dan", 50]])[:, 1].round(2)
    array([0.37, 0.  ])
    >>> model.top(2, at=101)["seen"].to_list()
    [True, True]
    """

    def __init__(
        self,
        method: Literal["propagation", "rows"] = "propagation",
        *,
        decay: Decay | None = None,
        C: float = 1.0,
        n_threads: int | None = None,
        random_state: Any = None,
    ) -> None:
        self.method = method
        self.decay = decay
        self.C = C
        self.n_threads = n_threads
        self.random_state = random_state

    @all_or_nothing
    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn to distinguish the edges X, which happened, from synthetic ones. X has at least two edges; y is ignored."""
        edges = self._edges(X, reset=True)
        check_parameters(self)
        check_enough(edges)
        return self._learn(edges)

    def _learn(self, edges: TemporalEdges) -> Self:
        self.edges_, self.classes_ = edges, np.array([0, 1])
        if self.method == "propagation":
            self.link_model_ = LinkModel.learnt(edges, None, as_generator(self.random_state))
            return self
        both = concatenate_edges(edges, shuffled_edges(edges, self.random_state))
        self.decay_ = (Gaussian() if self.decay is None else self.decay).freeze(edges)
        classifier = LineGraphClassifier(self.decay_, C=self.C, n_threads=self.n_threads)
        self.model_ = classifier.fit(both, np.repeat([1, 0], len(edges)))
        return self

    def decision_function(self, X: Any) -> NDArray[np.float64]:
        """Log-odds that each edge is real and not synthetic, shape (n_edges,)."""
        check_is_fitted(self)
        edges = self._edges(X, reset=False)
        if self.method == "rows":
            return self.model_.decision_function(edges)
        return self.link_model_.scores(edges)

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Probabilities that each edge is synthetic, and that it is real, shape (n_edges, 2)."""
        scores = self.decision_function(X)
        return np.column_stack([expit(-scores), expit(scores)])

    def top(self, k: int = 20, at: Any = None, candidates: Any = None) -> pl.DataFrame:
        """Find the most likely edges at a given time.

        `LinkRanker.top` finds the next edges more often; this method ranks them by the same model as `predict_proba`.

        Parameters
        ----------
        k
            The number of edges to return; all candidates if there are fewer.
        at
            The time to predict for, a number or a datetime like the times of the fitted edges. By default the time of the
            last fitted edge. Fitted edges after this time are not used for `candidates` and `seen`.
        candidates
            The edges to choose from: pairs, as a 2-D array, a list or a dataframe with the columns src and dst, or
            `TemporalEdges`, which have their own times. By default at most 120 destinations for each of the 1,000 sources
            that were active last: the 50 latest that it met, 20 that it has not answered yet, the 30 latest that are two
            steps away and the 20 most popular; see `tdlg.sampling.candidates.candidate_pairs`.

        Returns
        -------
        polars.DataFrame
            Columns src, dst, time, score and seen (whether this pair occurred at that time or before), the most likely
            first. Among equal scores, such as those of a pair and its reverse, seen pairs come first; the rest is in the
            order of the candidates. The score is the probability of being real, see `predict_proba`.

        Raises
        ------
        ParameterError
            If none of the nodes is known, or for "rows" if no fitted edge of them is near enough in time.
        """
        check_is_fitted(self)
        check_count("top", "k", k, 1)
        edges = candidate_edges(self.edges_, at, candidates)
        if self.method == "rows":
            self._refuse_equal_scores(edges)
            first, row = self._distinct_rows(edges)
            scores = self.decision_function(edges[first])[row]
        else:
            scores = self.decision_function(edges)
        return best_pairs(self.edges_, edges, expit(scores), k)

    def _distinct_rows(self, edges: TemporalEdges) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The first edge of each distinct row of the line graph, and the row of each edge; an edge and its reverse share it.

        There is one score per row, so that rounding does not order equally likely edges.
        """
        ends = np.sort(self.model_.edges_.codes_of(edges), axis=0).astype(np.int64)
        pair = np.unique(ends[0] * (self.model_.edges_.n_nodes + 1) + ends[1], return_inverse=True)[1]
        times, time = np.unique(edges.ticks, return_inverse=True)
        _, first, row = np.unique(pair * len(times) + time, return_index=True, return_inverse=True)
        return first, row

    def _refuse_equal_scores(self, edges: TemporalEdges) -> None:
        """Refuse to rank candidates whose rows are equal within the precision of a product."""
        if len(edges) == 1 or self._any_within_reach(edges):
            return
        first, last = edges.time.min(), edges.time.max()
        shown = str(first) if first == last else f"{first} to {last}"
        raise ParameterError(
            f"All {len(edges):,} candidates score the same at {shown}: that is too many bandwidths away from "
            f"the fitted edges of their nodes. The last fitted edge is at {self.edges_.time.max()}.",
            "Choose a time nearer to it with at=.",
            "Or fit with decay=Gaussian(relative=1.0), which reaches further.",
            parameter="at",
        )

    def _any_within_reach(self, edges: TemporalEdges) -> bool:
        fitted = self.model_.edges_
        rows = LineGraph(edges, fitted, decay=self.decay_, n_threads=self.n_threads)
        largest = LineGraph(fitted, decay=self.decay_, n_threads=self.n_threads).row_sums().max()
        return bool(rows.row_sums().max() > rows.tol * largest)


# ---- checks that the outlier detector uses too


def check_parameters(estimator: Any) -> None:
    """Refuse an invalid method, decay, C or number of threads."""
    owner = type(estimator).__name__
    check_choice(owner, "method", estimator.method, LINK_METHODS)
    check_number(owner, "C", estimator.C)
    check_graph(estimator)


def check_enough(edges: TemporalEdges) -> None:
    """Refuse a single edge: shuffling its columns gives the edge itself."""
    if len(edges) < 2:
        raise EdgesError(
            "There is only one edge (1 sample), which shuffling cannot change. "
            "Pass at least two edges, better hundreds."
        )
