"""Link prediction: how likely an edge is at a given time, and which edges come next.

By "propagation", models of columns that count the real and the synthetic edges around each edge recognise real edges.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit
from sklearn.base import BaseEstimator
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.utils.validation import check_is_fitted
from threadpoolctl import threadpool_limits

from tdlg._kernels import COUNT_UNIT, LEAST_SUM
from tdlg.checks import as_generator, check_choice, check_count, check_number
from tdlg.clock import finest
from tdlg.edges import TemporalEdges
from tdlg.estimator import EdgesEstimator, all_or_nothing, check_graph
from tdlg.exceptions import EdgesError, ParameterError
from tdlg.linegraph.decay import Decay, Gaussian, Laplace
from tdlg.linegraph.match import NODE_MATCHES
from tdlg.linegraph.operator import LineGraph
from tdlg.memory import default_threads, fitting_threads
from tdlg.models.linegraph import LineGraphClassifier
from tdlg.models.pairs import best_pairs, candidate_edges
from tdlg.models.training import boosting_settings, fit_linear
from tdlg.propagate.match import decayed_sums
from tdlg.sampling.index import concatenate_edges, edge_index
from tdlg.sampling.negatives import shuffled_edges

if TYPE_CHECKING:
    import polars as pl

Floats = NDArray[np.float64]

LINK_METHODS = ("propagation", "linegraph")
SCALES = (0.001, 0.01, 0.1, 1.0, 10.0)  # in standard deviations of the times
WINDOW = 1 / 19  # share of the time span, at its end, that the model of the future is trained on
FOLDS = 5  # the columns of an edge are made from the edges of the other folds
MOST_LINK_ROWS = 50_000  # more edges than FOLDS times this number are sampled for training
LEAST_ROWS = 200  # least number of edges in that window; a third of all edges if they are few


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
        "linegraph", the paper's method: logistic regression on a candidate's proximities to the fitted and shuffled edges.
        Its score is a sum over the two nodes: it shows whether both nodes are active at that time, but not whether two
        active nodes belong together, nor in which direction.
    decay
        For "linegraph", how proximity fades with time. By default `Gaussian(relative=0.1)`, the paper's choice.
    C
        For "linegraph", the inverse strength of the penalty. Default 1.
    n_threads
        Number of threads. By default all cores are used.
    random_state
        Seed for the synthetic edges and the boosted trees.

    Attributes
    ----------
    edges_
        The edges given to `fit`.
    decay_, model_
        For "linegraph", the decay with its bandwidth fixed, and the `LineGraphClassifier` fitted on the real and the
        shuffled edges.
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
        method: Literal["propagation", "linegraph"] = "propagation",
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
        edges = self._edges(X, reset=False)
        if self.method == "linegraph":
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
            Columns src, dst, time, score, seen (whether this pair occurred at that time or before) and reason (the
            strongest fact about the two that is known then, in words), the most likely first. Among equal scores, such as
            those of a pair and its reverse, seen pairs come first; the rest is in the order of the candidates. The score is
            the probability of being real, see `predict_proba`.

        Raises
        ------
        ParameterError
            If none of the nodes is known, or for "linegraph" if no fitted edge of them is near enough in time.
        """
        check_is_fitted(self)
        check_count("top", "k", k, 1)
        edges = candidate_edges(self.edges_, at, candidates)
        if self.method == "linegraph":
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


# ---- the model of "propagation"


def link_columns(
    rows: TemporalEdges,
    edges: TemporalEdges,
    is_real: NDArray[Any],
    decays: list[Decay],
    *,
    past_only: bool,
    known: NDArray[np.bool_] | None = None,
) -> Floats:
    """For each match and scale, the smoothed excess of real over synthetic edges around, and the log of all edges' count.

    edges, is_real : real (1) and synthetic (0) edges, of which those in `known` count, by default all, and with `past_only`
    those strictly before a row. A row that is also among the edges does not see itself.
    """
    weight = np.ones(len(edges)) if known is None else known.astype(np.float64)
    values = np.column_stack([weight, weight * (np.asarray(is_real) - 0.5)])
    unit = finest(rows.time_unit, edges.time_unit)  # of the clock of both
    widths = [decay.parts(unit)[0].bandwidth for decay in decays] or [np.inf]

    def of_match(match: str) -> list[Floats]:
        sums, _ = decayed_sums(rows, edges, values, match, widths, past_only=past_only)
        sums[np.abs(sums) < LEAST_SUM] = 0.0
        return [sums[..., 1] / (sums[..., 0] + 1.0), np.log1p(sums[..., 0] / COUNT_UNIT)]

    with ThreadPoolExecutor(default_threads()) as pool:  # the walks release the interpreter's lock
        return np.hstack([column for columns in pool.map(of_match, NODE_MATCHES) for column in columns])


def drawn_edges(edges: TemporalEdges, rng: np.random.Generator, time: NDArray[Any] | None = None) -> TemporalEdges:
    """Synthetic edges, one per edge: sources, destinations and times sampled with replacement, or with the given times.

    They are not shuffled: every node would then have as many shuffled as real edges, and the counts without a held-out edge
    would show whether that edge is real.
    """
    n = len(edges) if time is None else len(time)
    src, dst, when = rng.integers(len(edges), size=(3, n))
    time = edges.time[when] if time is None else time
    return TemporalEdges(edges.src[src], edges.dst[dst], time, bipartite=edges.bipartite)


def inside_model(edges: TemporalEdges, is_real: NDArray[Any], decays: list[Decay], rng: np.random.Generator) -> Any:
    """Boosted trees that separate real from synthetic edges by the edges before and after, none from the same fold.

    Of many edges, a sample is trained on: one fold, whose columns are made from all other edges in a single pass.
    """
    n_folds = min(FOLDS, len(edges))
    fold = rng.permutation(np.arange(len(edges)) % n_folds)
    if len(edges) > n_folds * MOST_LINK_ROWS:
        n_folds = 1
        fold = (rng.permutation(len(edges)) >= MOST_LINK_ROWS).astype(np.int64)
    blocks, rows = [], []
    for number in range(n_folds):
        rows.append(np.flatnonzero(fold == number))
        blocks.append(link_columns(edges[rows[-1]], edges, is_real, decays, past_only=False, known=fold != number))
    settings = boosting_settings(sum(map(len, rows)))
    model = HistGradientBoostingClassifier(**settings, random_state=int(rng.integers(2**31)))
    columns = np.vstack(blocks)
    with threadpool_limits(fitting_threads(columns.size), user_api="openmp"):
        return model.fit(columns, is_real[np.concatenate(rows)])


def future_model(
    rows: TemporalEdges, rows_real: NDArray[Any], past: TemporalEdges, past_real: NDArray[Any], decays: list[Decay]
) -> Any:
    """Logistic regression that separates real from synthetic edges of the window by the edges before it.

    Edges after the last fitted edge are scored in the same situation.
    """
    columns = link_columns(rows, past, past_real, decays, past_only=True)
    return fit_linear(LogisticRegression(C=0.1, max_iter=1000), columns, rows_real)


class LinkModel(NamedTuple):
    """Models of real (1) and synthetic (0) edges: one for the time of the fitted edges, one for later times."""

    edges: TemporalEdges
    is_real: NDArray[Any]
    decays: list[Decay]
    inside: Any
    future: Any

    @classmethod
    def learnt(cls, edges: TemporalEdges, is_real: NDArray[Any] | None, rng: np.random.Generator) -> Self:
        """Learn from real and synthetic edges; if all edges are real, synthetic ones are sampled."""
        decays: list[Decay] = []  # where all edges have the same time
        if np.ptp(edges.ticks) > 0:
            decays = [Laplace(relative=scale).freeze(edges) for scale in SCALES]
        ticks = edges.ticks.astype(np.float64)
        cut = ticks.max() - WINDOW * np.ptp(ticks)  # where the window of the model of the future begins
        late = edges.ticks >= min(cut, np.sort(ticks)[-max(1, min(LEAST_ROWS, len(ticks) // 3))])
        if is_real is None:
            window, past = edges[late], edges[~late]
            rows = concatenate_edges(window, drawn_edges(edges, rng, window.time))
            seen = concatenate_edges(past, drawn_edges(past, rng)) if len(past) else past
            some = rng.permutation(len(rows))[:MOST_LINK_ROWS] if len(rows) > MOST_LINK_ROWS else slice(None)
            future = future_model(rows[some], _halves(rows)[some], seen, _halves(seen), decays)
            edges = concatenate_edges(edges, drawn_edges(edges, rng))
            is_real = _halves(edges)
        else:
            late = late if len(np.unique(is_real[late])) == 2 else np.ones(len(edges), bool)
            future = future_model(edges[late], is_real[late], edges[~late], is_real[~late], decays)
        return cls(edges, is_real, decays, inside_model(edges, is_real, decays, rng), future)

    def scores(self, rows: TemporalEdges) -> Floats:
        """Log-odds that edges are real: from the last fitted edge on by the model of the future, else by the other one."""
        scores = np.empty(len(rows))
        comparable = (rows.time_unit is None) == (self.edges.time_unit is None)  # if not, `link_columns` raises
        later = rows.time >= self.edges.time.max() if comparable else np.zeros(len(rows), bool)
        at = edge_index(self.edges).find_each(rows) if comparable else np.full(len(rows), -1)
        for model, part in ((self.inside, ~later), (self.future, later)):
            for some, known in ((np.flatnonzero(part & (at >= 0)), True), (np.flatnonzero(part & (at < 0)), False)):
                if some.size:
                    these = self.edges[at[some]] if known else rows[some]  # known edges do not see themselves
                    past_only = model is self.future
                    columns = link_columns(these, self.edges, self.is_real, self.decays, past_only=past_only)
                    scores[some] = model.decision_function(columns)
        return scores


def _halves(edges: TemporalEdges) -> NDArray[np.int64]:
    """1 for the first half of the edges, 0 for the second."""
    return np.repeat([1, 0], len(edges) // 2)
