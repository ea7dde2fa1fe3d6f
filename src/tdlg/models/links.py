"""Link prediction: how likely an edge is at a time, and which come next."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from tdlg.checks import as_generator, check_choice, check_count, check_number
from tdlg.clock import times_of
from tdlg.edges import TemporalEdges
from tdlg.estimator import EdgesEstimator, all_or_nothing
from tdlg.exceptions import EdgesError, ParameterError
from tdlg.explain.rows import as_series
from tdlg.linegraph.decay import Decay, Gaussian
from tdlg.linegraph.operator import LineGraph
from tdlg.models.linegraph import LineGraphClassifier
from tdlg.models.link_columns import LinkModel
from tdlg.sampling.candidates import candidate_pairs
from tdlg.sampling.index import concatenate_edges, edge_index
from tdlg.sampling.negatives import shuffled_edges
from tdlg.tables.frames import eager_frame
from tdlg.tables.times import as_times

if TYPE_CHECKING:
    import polars as pl

__all__ = ["LinkPredictor", "check_enough", "check_parameters"]

METHODS = ("propagation", "rows")


class LinkPredictor(EdgesEstimator, BaseEstimator):
    """Score edges that may happen, at a time: temporal link prediction.

    The edges given to `fit` are told from edges that did not happen, whose sources, destinations and times are shuffled or
    drawn independently. A probability is meant against such edges, one an edge: it orders candidates, and is not how often
    an edge happens.

    Parameters
    ----------
    method
        "propagation": columns that tell how many real and shuffled edges are around a candidate, for each way to match
        and five time scales. Before the last fitted edge, boosted trees on those before and after; from then on, logistic
        regression on those before, learnt at the end of the fitted edges as if they ended earlier.
        "rows": the paper's, logistic regression on a candidate's proximities to the fitted and shuffled edges. Such a row
        is the sum of what both ends did around that time, and so is the score: it says whether both are active, not whether
        two active nodes belong together, nor in which direction.
    decay
        For "rows", how proximity fades with time; `Gaussian(relative=0.1)` when not given, the paper's choice.
    C
        For "rows", the inverse strength of the penalty.
    n_threads
        Threads of a product; every core when not given.
    random_state
        For the shuffled edges, and for boosting.

    Attributes
    ----------
    edges_
        The edges given to `fit`.
    decay_, model_
        For "rows", the decay with its bandwidth fixed and the fitted `LineGraphClassifier`; its edges are those given and
        the shuffled ones.
    link_model_
        For "propagation", the edges given and drawn, which of them are real, the decays, and the two fitted estimators.
    classes_
        0 (shuffled) and 1 (real): the columns of `predict_proba`.

    See Also
    --------
    EdgeOutlierDetector : which of the edges that happened are odd.

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
        """Learn what tells these edges from shuffled ones.

        Parameters
        ----------
        X
            The edges that happened, at least two.
        y
            Not used: what is learnt is whether an edge is real.
        """
        edges = self._edges(X, reset=True)
        check_parameters(self)
        check_enough(self, edges)
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
        """The log of the odds that each edge is real and not shuffled, (n_edges,)."""
        check_is_fitted(self)
        edges = self._edges(X, reset=False)
        if self.method == "rows":
            return self.model_.decision_function(edges)
        return self.link_model_.scores(edges)

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Probabilities that each edge is shuffled, and that it is real, (n_edges, 2)."""
        scores = self.decision_function(X)
        return np.column_stack([expit(-scores), expit(scores)])

    def top(self, k: int = 20, at: Any = None, candidates: Any = None) -> pl.DataFrame:
        """Find the most likely edges at a time.

        Parameters
        ----------
        k
            How many; all where there are fewer candidates.
        at
            The time, a number or a datetime as the fitted edges have; that of the last one when not given. Nothing later
            makes a pair a candidate or seen.
        candidates
            The edges to choose from: pairs, as a 2-D array, a list or a dataframe with the columns src and dst, or
            `TemporalEdges`, which have times of their own. When not given, for each of the 1,000 sources that acted last at
            most 120 destinations: met before (the 50 latest), heard from and not answered (20), two steps away (the 30
            latest) and popular now (20); see `tdlg.sampling.candidates.candidate_pairs`.

        Returns
        -------
        polars.DataFrame
            Columns src, dst, time, score (the probability to be real, see `predict_proba`) and seen (whether this pair was
            there at that time or before), the most likely first; of those as likely, such as a pair and its reverse, the
            seen before the others, and else in the order of the candidates.

        Raises
        ------
        ParameterError
            If no candidate is near enough in time to any fitted edge of its nodes to tell one from another.
        """
        check_is_fitted(self)
        check_count("top", "k", k, 1)
        edges = self._candidates(at, candidates)
        first, row = self._distinct_rows(edges)
        scores = self.decision_function(edges[first])[row]
        self._check_told_apart(edges, scores)
        seen = edge_index(self.edges_).seen_by(edges)
        best = np.lexsort((~seen, -scores))[:k]
        return _as_frame(edges[best], score=expit(scores[best]), seen=seen[best])

    def _distinct_rows(self, edges: TemporalEdges) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The first edge of each row of the line graph, and the row of each edge: an edge has that of its reverse.

        One score a row, so that rounding does not choose among edges that are as likely.
        """
        if self.method == "propagation":
            return np.arange(len(edges)), np.arange(len(edges))
        ends = np.sort(self.model_.edges_.codes_of(edges), axis=0).astype(np.int64)
        pair = np.unique(ends[0] * (self.model_.edges_.n_nodes + 1) + ends[1], return_inverse=True)[1]
        times, time = np.unique(edges.ticks, return_inverse=True)
        _, first, row = np.unique(pair * len(times) + time, return_index=True, return_inverse=True)
        return first, row

    def _candidates(self, at: Any, candidates: Any) -> TemporalEdges:
        """The candidates as edges with a time each."""
        if isinstance(candidates, TemporalEdges):
            if at is not None:
                raise ParameterError(
                    f"The 'candidates' have times of their own, and 'at' is {at!r}. Leave out 'at', or give the candidates "
                    "as an array with the columns src and dst."
                )
            return _checked_number(candidates.with_ids_of(self.edges_))
        fitted = self.edges_
        time = fitted.time.max(keepdims=True) if at is None else _as_time(at, fitted)
        src, dst = _likely_pairs(fitted, time) if candidates is None else _given_pairs(candidates)
        pairs = TemporalEdges(src, dst, np.repeat(time, len(src)), bipartite=fitted.bipartite)
        return _checked_number(pairs.with_ids_of(fitted))

    def _check_told_apart(self, edges: TemporalEdges, scores: NDArray[np.float64]) -> None:
        """Refuse to order several candidates that have nothing around them, within the precision of a product."""
        if len(edges) == 1 or (self._have_something_near(edges) if self.method == "rows" else np.ptp(scores) > 0):
            return
        codes = np.concatenate(self.edges_.codes_of(edges))
        if (codes < 0).all():
            raise ParameterError(
                f"All {len(edges):,} candidates score the same: none of their nodes is among the fitted edges. Give "
                "candidates between nodes that were seen."
            )
        raise ParameterError(
            f"All {len(edges):,} candidates score the same at {_shown(edges.time)}: that is too many bandwidths away from "
            f"what their nodes did. The last fitted edge is at {self.edges_.time.max()}. Ask for a time nearer to it "
            f"(at=...){self._wider()}."
        )

    def _wider(self) -> str:
        if self.method == "propagation":
            return ""
        return f", or fit with a wider bandwidth than {self.decay_!r}, such as decay=Gaussian(relative=1.0)"

    def _have_something_near(self, edges: TemporalEdges) -> bool:
        fitted = self.model_.edges_
        rows = LineGraph(edges, fitted, decay=self.decay_, n_threads=self.n_threads)
        largest = LineGraph(fitted, decay=self.decay_, n_threads=self.n_threads).row_sums().max()
        return bool(rows.row_sums().max() > rows.tol * largest)


# ---- what the outlier detector checks too


def check_parameters(estimator: Any) -> None:
    """Refuse a method, decay, C or number of threads that there is not."""
    owner = type(estimator).__name__
    check_choice(owner, "method", estimator.method, METHODS)
    check_number(owner, "C", estimator.C)
    estimator._check_graph()


def check_enough(estimator: Any, edges: TemporalEdges) -> None:
    """Refuse a single edge: shuffling its columns gives the edge itself."""
    if len(edges) < 2:
        raise EdgesError(
            f"{type(estimator).__name__} was given one edge (n_samples=1), which shuffling cannot change. "
            "Give at least two, better hundreds."
        )


# ---- what `top` is asked


def _as_time(at: Any, fitted: TemporalEdges) -> NDArray[Any]:
    """The time asked for, as an array of one, of the kind that the fitted edges have."""
    wanted = "a number" if fitted.time_unit is None else "a datetime"
    try:
        ticks, unit = as_times([at], "at")
    except EdgesError:
        ticks, unit = np.zeros(1), "" if fitted.time_unit is None else None
    if (unit is None) != (fitted.time_unit is None):
        raise ParameterError(
            f"The 'at' parameter of top must be {wanted}, as the times of the fitted edges are. Got {at!r} instead."
        )
    return times_of(ticks, unit)


def _likely_pairs(fitted: TemporalEdges, time: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    past = fitted[fitted.time <= time]
    if len(past) == 0:
        raise ParameterError(
            f"The 'at' parameter of top is {time[0]}, before the first of the fitted edges, {fitted.time.min()}: there are "
            "no candidates yet. Ask for a later time, or give candidates."
        )
    src, dst = candidate_pairs(past)
    return fitted.node_ids[src], fitted.node_ids[dst]


def _given_pairs(candidates: Any) -> tuple[Any, Any]:
    """The two columns of a frame, by name where it has the names, or of an array; else the two values of each pair."""
    if hasattr(type(candidates), "columns"):
        frame = eager_frame(candidates, "candidates")
        names = ["src", "dst"] if {"src", "dst"} <= set(frame.columns) else frame.columns
        columns, found = [frame.get_column(name).to_native() for name in names], f"the columns {names}"
    elif isinstance(candidates, np.ndarray):
        columns, found = list(candidates.T) if candidates.ndim == 2 else [], f"shape {candidates.shape}"
    else:
        rows = candidates if isinstance(candidates, list | tuple) else [candidates]
        odd = [row for row in rows if not isinstance(row, list | tuple | np.ndarray) or len(row) != 2]
        columns = [] if odd else [[row[0] for row in rows], [row[1] for row in rows]]
        found = repr(odd[0]) if odd else ""
    if len(columns) != 2:
        raise ParameterError(
            f"The 'candidates' of top must be TemporalEdges, or have the two columns src and dst. Got {found} instead. "
            "For candidates with times of their own, make TemporalEdges(src, dst, time)."
        )
    return columns[0], columns[1]


def _checked_number(edges: TemporalEdges) -> TemporalEdges:
    if len(edges) == 0:
        raise ParameterError(
            "There are no candidates to choose from. Give at least one, or none at all: candidates=None."
        )
    return edges


# ---- what it answers


def _as_frame(edges: TemporalEdges, **columns: Any) -> pl.DataFrame:
    import polars as pl

    time = edges.time
    if edges.time_unit == "s":
        time = time.astype("datetime64[ms]")  # the coarsest that polars has
    return pl.DataFrame({"src": as_series(edges.src), "dst": as_series(edges.dst), "time": time, **columns})


def _shown(time: NDArray[Any]) -> str:
    first, last = time.min(), time.max()
    return str(first) if first == last else f"{first} to {last}"
