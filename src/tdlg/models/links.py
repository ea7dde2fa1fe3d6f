"""Link prediction: how likely an edge is at a time, and which come next."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from tdlg._columns.times import as_times
from tdlg.decay import Decay, Gaussian
from tdlg.edges import TemporalEdges
from tdlg.estimator import EdgesEstimator
from tdlg.exceptions import EdgesError, ParameterError
from tdlg.linegraph import LineGraph
from tdlg.models.rows import LineGraphClassifier
from tdlg.sampling.candidates import candidate_pairs
from tdlg.sampling.index import concatenate_edges, edge_index
from tdlg.sampling.negatives import shuffled_edges

if TYPE_CHECKING:
    import polars as pl

__all__ = ["LinkPredictor", "check_enough", "check_parameters"]

METHODS = ("rows",)
TOL, SHARE_OF_FIRST_GRADIENT = 1e-4, 0.03  # where the solver stops, see `_tol`


class LinkPredictor(EdgesEstimator, BaseEstimator):
    """Score edges that may happen, at a time: the paper's temporal link prediction.

    The edges given to `fit` are told from edges that did not happen, made by shuffling their sources, destinations and
    times independently: logistic regression on the rows of the line graph of both together. A probability is meant
    against such shuffled edges, one an edge: it orders candidates, and is not how often an edge happens.

    A row is the sum of what its two ends did around that time, and so is the score: it says whether both are active, not
    whether two active nodes belong together, nor in which direction.

    Parameters
    ----------
    method
        "rows", the paper's: a candidate's features are its proximities to the fitted and shuffled edges.
    decay
        How proximity fades with time; `Gaussian(relative=0.1)` when not given, the paper's choice.
    C
        Inverse strength of the penalty.
    n_threads
        Threads of a product; every core when not given.
    random_state
        For the shuffled edges.

    Attributes
    ----------
    edges_
        The edges given to `fit`.
    decay_
        The decay with its bandwidth fixed.
    model_
        The fitted `LineGraphClassifier`; its edges are those given and the shuffled ones.
    classes_
        0 (shuffled) and 1 (real): the columns of `predict_proba`.

    See Also
    --------
    EdgeOutlierDetector : which of the edges that happened are odd.

    Examples
    --------
    Ann and Bob are busy early, Cat and Dan late.

    >>> from tdlg import LinkPredictor, TemporalEdges
    >>> src, dst = ["ann", "bob"] * 20 + ["cat", "dan"] * 20, ["bob", "ann"] * 20 + ["dan", "cat"] * 20
    >>> model = LinkPredictor(random_state=0).fit(TemporalEdges(src, dst, range(80)))
    >>> model.predict_proba([["ann", "bob", 79], ["cat", "dan", 79]])[:, 1].round(2)
    array([0.01, 0.63])
    >>> model.top(2)[["src", "dst", "seen"]].rows()
    [('dan', 'cat', True), ('cat', 'dan', True)]
    """

    def __init__(
        self,
        method: Literal["rows"] = "rows",
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
        self.decay_ = (Gaussian() if self.decay is None else self.decay).freeze(edges)
        both = concatenate_edges(edges, shuffled_edges(edges, self.random_state))
        is_real = np.repeat([1, 0], len(edges))
        tol = self._tol(both, is_real)
        classifier = LineGraphClassifier(self.decay_, C=self.C, tol=tol, n_threads=self.n_threads)
        self.model_ = classifier.fit(both, is_real)
        self.edges_, self.classes_ = edges, self.model_.classes_
        return self

    def _tol(self, both: TemporalEdges, is_real: NDArray[np.int64]) -> float:
        """The solver's tolerance: scikit-learn's, or a smaller one where the network is large and sparse.

        That rule is about a mean over all edges, and a coefficient is moved by the few around its own: with many edges it
        would be met before the first step.
        """
        gradient = LineGraph(both, decay=self.decay_, n_threads=self.n_threads) @ (0.5 - is_real)
        first = float(np.abs(gradient).max()) / len(both)
        return min(TOL, SHARE_OF_FIRST_GRADIENT * first) or TOL

    def decision_function(self, X: Any) -> NDArray[np.float64]:
        """The log of the odds that each edge is real and not shuffled, (n_edges,)."""
        check_is_fitted(self)
        return self.model_.decision_function(self._edges(X, reset=False))

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Probabilities that each edge is shuffled, and that it is real, (n_edges, 2)."""
        check_is_fitted(self)
        return self.model_.predict_proba(self._edges(X, reset=False))

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
            The edges to choose from: a 2-D array or dataframe with the columns src and dst, or `TemporalEdges`, which have
            times of their own. When not given, for each of the 1,000 sources that acted last at most 100 destinations: met
            before (the 50 latest), two steps away (the 30 latest) and popular now (20); see
            `tdlg.sampling.candidates.candidate_pairs`.

        Returns
        -------
        polars.DataFrame
            Columns src, dst, time, score (the probability to be real, see `predict_proba`) and seen (whether this pair was
            there at that time or before), the most likely first.

        Raises
        ------
        ParameterError
            If no candidate is near enough in time to any fitted edge of its nodes to tell one from another.
        """
        check_is_fitted(self)
        _check_k(k)
        edges = self._candidates(at, candidates)
        scores = self.decision_function(edges)
        self._check_told_apart(edges)
        best = np.argsort(-scores, kind="stable")[:k]
        return _as_frame(
            edges[best],
            score=self.predict_proba(edges[best])[:, 1],
            seen=edge_index(self.edges_).seen_by(edges[best]),
        )

    def _candidates(self, at: Any, candidates: Any) -> TemporalEdges:
        """The candidates as edges with a time each."""
        if isinstance(candidates, TemporalEdges):
            if at is not None:
                raise ParameterError(
                    f"The 'candidates' have times of their own, and 'at' is {at!r}. Leave out 'at', or give the candidates "
                    "as an array with the columns src and dst."
                )
            return _checked_number(candidates)
        fitted = self.edges_
        time = fitted.time.max(keepdims=True) if at is None else _as_time(at, fitted)
        src, dst = _likely_pairs(fitted, time) if candidates is None else _given_pairs(candidates)
        return _checked_number(TemporalEdges(src, dst, np.repeat(time, len(src)), bipartite=fitted.bipartite))

    def _check_told_apart(self, edges: TemporalEdges) -> None:
        """Refuse to order several candidates whose rows are all zero, within the precision of a product."""
        graph = LineGraph(edges, self.model_.edges_, decay=self.decay_, n_threads=self.n_threads)
        if len(edges) == 1 or graph.row_sums().max() > graph.tol * self._largest_row_sum():
            return
        codes = np.concatenate(self.edges_.codes_of(edges))
        if (codes < 0).all():
            raise ParameterError(
                f"All {len(edges):,} candidates score the same: none of their nodes is among the fitted edges. Give "
                "candidates between nodes that were seen."
            )
        raise ParameterError(
            f"All {len(edges):,} candidates score the same at {_shown(edges.time)}: that is too many bandwidths away from "
            f"what their nodes did. The last fitted edge is at {self.edges_.time.max()}, the decay is {self.decay_!r}. "
            "Ask for a time nearer to it (at=...), or fit with a wider bandwidth, such as decay=Gaussian(relative=1.0)."
        )

    def _largest_row_sum(self) -> float:
        fitted = self.model_.edges_
        return float(LineGraph(fitted, decay=self.decay_, n_threads=self.n_threads).row_sums().max())


# ---- what the outlier detector checks too


def check_parameters(estimator: Any) -> None:
    """Refuse a method, decay or C that there is not."""
    name = type(estimator).__name__
    if estimator.method not in METHODS:
        raise ParameterError(
            f"The 'method' parameter of {name} must be one of {list(METHODS)}. Got {estimator.method!r} instead."
        )
    if not isinstance(estimator.decay, Decay | None):
        raise ParameterError(
            f"The 'decay' parameter of {name} must be Gaussian(...), Laplace(...), Mixture(...) or NoDecay(). "
            f"Got {estimator.decay!r} instead."
        )
    if not (isinstance(estimator.C, (int, float, np.number)) and estimator.C > 0):
        raise ParameterError(f"The 'C' parameter of {name} must be a positive number. Got {estimator.C!r} instead.")


def check_enough(estimator: Any, edges: TemporalEdges) -> None:
    """Refuse a single edge: shuffling its columns gives the edge itself."""
    if len(edges) < 2:
        raise EdgesError(
            f"{type(estimator).__name__} was given one edge (n_samples=1), which shuffling cannot change. "
            "Give at least two, better hundreds."
        )


# ---- what `top` is asked


def _check_k(k: Any) -> None:
    if not (isinstance(k, (int, np.integer)) and k >= 1):
        raise ParameterError(f"The 'k' parameter of top must be a whole number, at least 1. Got {k!r} instead.")


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
    return ticks if unit is None else ticks.view(f"datetime64[{unit}]")


def _likely_pairs(fitted: TemporalEdges, time: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    past = fitted[fitted.time <= time]
    if len(past) == 0:
        raise ParameterError(
            f"The 'at' parameter of top is {time[0]}, before the first of the fitted edges, {fitted.time.min()}: there are "
            "no candidates yet. Ask for a later time, or give candidates."
        )
    src, dst = candidate_pairs(past)
    return fitted.node_ids[src], fitted.node_ids[dst]


def _given_pairs(candidates: Any) -> tuple[list[Any], list[Any]]:
    table = np.asarray(candidates, dtype=object)
    if table.ndim != 2 or table.shape[1] != 2:
        raise ParameterError(
            f"The 'candidates' of top must be TemporalEdges, or have the two columns src and dst. Got shape {table.shape} "
            "instead. For candidates with times of their own, make TemporalEdges(src, dst, time)."
        )
    return table[:, 0].tolist(), table[:, 1].tolist()


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
    return pl.DataFrame({"src": _as_series(edges.src), "dst": _as_series(edges.dst), "time": time, **columns})


def _as_series(ids: NDArray[Any]) -> pl.Series:
    import polars as pl

    alike = ids.dtype != object or all(isinstance(value, str) for value in ids)
    return pl.Series(ids.tolist(), dtype=None if alike else pl.Object)


def _shown(time: NDArray[Any]) -> str:
    first, last = time.min(), time.max()
    return str(first) if first == last else f"{first} to {last}"
