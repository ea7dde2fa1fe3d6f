"""LinkRanker and StreamRanker: given all that happened before, who comes next."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from tdlg._kernels import DST, SRC
from tdlg._kernels.ranking import NEVER
from tdlg.checks import as_generator, check_choice, check_count
from tdlg.clock import times_of
from tdlg.edges import TemporalEdges, check_alike
from tdlg.estimator import EdgesEstimator, all_or_nothing, edges_of_table
from tdlg.exceptions import EdgesError, ParameterError
from tdlg.explain.partners import Asked, partner_reasons
from tdlg.models.pairs import as_ticks, as_time, best_pairs, candidate_edges, no_candidates, pairs_as_frame
from tdlg.models.trees import Trees
from tdlg.rank import fit as learning
from tdlg.rank.history import COLUMNS, SCALES, Codes, Floats, History
from tdlg.sampling.index import concatenate_edges
from tdlg.tables.ids import as_ids, listed

if TYPE_CHECKING:
    import polars as pl

RANKING_METHODS = ("auto", "trees", "recency", "edgebank")
QUERIES_AT_ONCE = 2000
_GAP = COLUMNS.index("pair:gap")


class LinkRanker(EdgesEstimator, BaseEstimator):
    """Rank the next partner of a node, and the pairs that will meet next, from all that happened before.

    For each candidate, a running state gives 57 columns: how long ago, how often and how lately the pair met, in both
    directions; what is popular at the destination; what the source does; what follows what, and which destinations
    similar sources have. Boosted trees learn from the history to rank the true next destination above others (LambdaMART),
    and which pairs meet soon. What happens later is known to them as soon as it is added with `update`; the trees stay.

    Parameters
    ----------
    method
        "trees": boosted trees, for which LightGBM is needed; from a clone: `pip install ".[rank]"`. "recency": the recency
        rule, which learns nothing: destinations that the source met before, the latest first, then all others, the latest
        active first. "edgebank": all destinations that the source met before are equal, and above all others. "auto", the
        default: "trees" if LightGBM can be loaded, there are at least 589 edges, and trees rank the last of them better
        than the recency rule does, else "recency"; `method_` and `pair_method_` say which.
    n_trees
        The largest number of trees in each of the two rankings; the last edges decide how many are used. Default 150.
    random_state
        Seed for sampling what the trees learn from, and for the trees.

    Attributes
    ----------
    edges_
        The edges that are known: those given to `fit` and `update`.
    method_, pair_method_
        What ranks the destinations of a source, and the pairs of `top`: "trees", "recency" or "edgebank".
    widths_
        Bandwidths of the decayed counts, in the unit of the times of the fitted edges.
    n_queries_
        The number of edges whose destinations the trees learnt to rank, including those held out; 0 without trees.
    next_trees_, pair_trees_
        The trees for `rank` and those for `top`, as arrays; None without trees.

    See Also
    --------
    LinkPredictor : the probability that an edge is real; its `top` uses this class.

    Examples
    --------
    Ann writes to Bob, and Bob answers.

    >>> from tdlg import LinkRanker, TemporalEdges
    >>> edges = TemporalEdges(["ann", "cat", "bob"], ["bob", "dan", "ann"], [1, 2, 3])
    >>> ranker = LinkRanker("recency").fit(edges)
    >>> ranker.rank("ann", 4)["dst"].to_list()
    ['bob', 'dan']
    """

    def __init__(
        self,
        method: Literal["auto", "trees", "recency", "edgebank"] = "auto",
        *,
        n_trees: int = learning.TREES,
        random_state: Any = None,
    ) -> None:
        self.method = method
        self.n_trees = n_trees
        self.random_state = random_state

    @all_or_nothing
    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn from a history, the edges X, which destination was next; y is ignored."""
        edges = self._edges(X, reset=True)
        check_choice("LinkRanker", "method", self.method, RANKING_METHODS)
        check_count("LinkRanker", "n_trees", self.n_trees, 1)
        rng = as_generator(self.random_state)
        of_pairs = rng.spawn(1)[0]
        self.edges_, self.method_ = edges, self._choose(edges)
        spread = float((edges.ticks - edges.ticks.min()).astype(np.float64).std()) or 1.0
        self.widths_ = spread * np.array(SCALES)
        self.next_trees_, self.pair_trees_, self.n_queries_ = None, None, 0
        self._running = History(edges, self.widths_)
        if self.method_ == "trees":
            history, forced = self._running, self.method == "trees"
            self.next_trees_, self.n_queries_ = learning.learn_next(
                history, self.n_trees, rng, not edges.bipartite, forced
            )
            self.pair_trees_ = learning.learn_pairs(edges, history, self.n_trees, of_pairs, forced)
            self.method_ = "recency" if self.next_trees_ is None else "trees"
        return self

    @property
    def pair_method_(self) -> str:
        """What ranks the pairs of `top`."""
        return "trees" if self.pair_trees_ is not None else self.method_.replace("trees", "recency")

    def _choose(self, edges: TemporalEdges) -> str:
        if self.method == "auto":
            return "trees" if learning.is_enough(len(edges)) and learning.missing_lightgbm() is None else "recency"
        missing = learning.missing_lightgbm() if self.method == "trees" else None
        if missing is not None:
            raise ImportError(f'LinkRanker("trees") needs LightGBM: {missing}. Or use method="recency".')
        if self.method == "trees" and not learning.is_enough(len(edges)):
            least = int(learning.FEWEST_QUERIES / (1 - learning.SKIPPED)) + 1
            raise EdgesError(
                f"{len(edges):,} edges are too few to learn a ranking from; {least:,} are needed.",
                "Use method='recency', which learns nothing.",
            )
        return self.method

    def update(self, X: Any) -> Self:
        """Add edges that happened since: later questions know them. The trees stay as they are.

        The cost is that of the new edges, unless one of them is before the last one that was known.

        Parameters
        ----------
        X
            The edges, in any order. Times that are finer than those of the fitted edges are rounded up to their unit.
        """
        check_is_fitted(self)
        edges = X if isinstance(X, TemporalEdges) else edges_of_table(self, X, reset=False)
        if len(edges):  # new nodes are nothing unusual here
            known = self._history.add(edges)
            self._later = self._later or []
            self._later.append(known)
        return self

    def knows(self, src: Any) -> bool:
        """Whether a source is among the known edges."""
        check_is_fitted(self)
        return bool(_codes_of_ends(self._history, listed(as_ids([src], "src")), SRC, "src")[0] >= 0)

    def later(self, edges: TemporalEdges) -> TemporalEdges:
        """Those edges of a table after the last known one, or at the same time and not known: what `update` may add."""
        known = self.edges_
        kinds = ["numbers" if each.time_unit is None else "datetimes" for each in (edges, known)]
        if len(set(kinds)) > 1:
            hints = ["Name the unit that they count, as with time_unit='s'."] * (kinds[0] == "numbers")
            problem = f"The times of the table are {kinds[0]}, and those of the model {kinds[1]}."
            raise ParameterError(problem, *hints, parameter="time")
        check_alike((known, edges))
        last, is_new = known.time.max(), edges.time > known.time.max()
        there, here = (each[each.time == last] for each in (known, edges.with_ids_of(known)))
        left = Counter(zip(there.src.tolist(), there.dst.tolist(), strict=True))
        pairs = zip(here.src.tolist(), here.dst.tolist(), strict=True)
        for row, pair in zip(np.flatnonzero(edges.time == last), pairs, strict=True):
            is_new[row] = left[pair] == 0
            left[pair] -= not is_new[row]
        return edges[is_new]

    @property
    def edges_(self) -> TemporalEdges:
        """The edges that are known: those given to `fit` and `update`."""
        if self._later:
            self.edges_ = concatenate_edges(self.__dict__["edges_"], *self._later)
        try:
            return self.__dict__["edges_"]
        except KeyError:
            raise AttributeError("edges_") from None

    @edges_.setter
    def edges_(self, edges: TemporalEdges) -> None:
        self.__dict__["edges_"] = edges
        self.__dict__.pop("_later", None)

    _later: list[TemporalEdges] | None = None  # those of `update` that `edges_` has not been asked for

    @property
    def _history(self) -> History:
        """The running state of the columns, which is not saved with the model."""
        if "_running" not in self.__dict__:
            self._running = History(self.edges_, self.widths_)
        return self._running

    def __getstate__(self) -> dict[str, Any]:
        if self._later:
            _ = self.edges_
        return {name: value for name, value in super().__getstate__().items() if name != "_running"}

    # ---- the next destination of a source

    def rank(self, src: Any, time: Any = None, candidates: Any = None) -> pl.DataFrame:
        """Rank the destinations that a source may turn to next.

        Parameters
        ----------
        src
            The id of the source. For one that never occurred, what is popular now comes first.
        time
            The time of the next edge, a number or a datetime like those of the fitted edges. Only edges strictly before it
            are known, but the trees have learnt from all fitted edges: fit to earlier ones to judge rankings of the past. By
            default all edges are known, and it is the time of the last one. The running state goes on with time: a question
            that knows fewer edges than the one before it starts anew, about 0.05 s for each 100,000 edges.
        candidates
            The ids of the destinations to rank; a repeated one counts once. By default all destinations that are known by
            then, the latest first, and all that turned to the source, without the source itself unless it was its own
            destination before.

        Returns
        -------
        polars.DataFrame
            Columns src, dst, time, score, seen (whether the source had this destination before) and reason (the strongest
            fact about the two that was known then, in words), the best first; among equal scores in the order of the
            candidates. A score has a meaning only beside others of the same source and time.
        """
        check_is_fitted(self)
        found = self._ranked(self._history, src, time, candidates)
        best = np.argsort(-found.scores, kind="stable")
        dst = [found.ids[k] for k in best.tolist()]
        pairs = TemporalEdges([found.src] * len(dst), dst, np.repeat(found.time, len(dst)), bipartite=True)
        code, when, upto = found.asked
        known = self._history.past(upto)
        n = len(dst)
        asked = Asked(np.full(n, code), found.codes[best], np.full(n, when), np.full(n, upto), [found.src] * n, dst)
        reasons = partner_reasons(known, asked)
        return pairs_as_frame(pairs, score=found.scores[best], seen=found.seen[best], reason=reasons)

    def _ranked(self, history: History, src: Any, time: Any, candidates: Any) -> Ranked:
        """The candidates of a source with their scores, given what a history knows."""
        if time is None:
            ticks, unit, upto = history.ticks[-1:], history.unit, np.array([len(history)])
            when = history.ask(ticks, unit)[1]
        else:
            ticks, unit = as_ticks(time, history.none, "time", "rank")
            upto, when = history.ask(ticks, unit)
        code = _codes_of_ends(history, listed(as_ids([src], "src")), SRC, "src")
        if candidates is None:
            codes = history.candidates(int(code[0]), int(upto[0]))
            ids = [history.nodes.id_of(k) for k in codes.tolist()]
        else:
            ids, codes = _distinct_nodes(history, candidates)
        if not ids and candidates is not None:
            raise no_candidates()
        if not ids:
            problem = "There are no candidates yet: no edge happened before this time."
            raise ParameterError(problem, "Choose a later time=, or pass candidates=.", parameter="time")
        rows = next(history.blocks(code, when, upto, np.array([0, len(codes)]), codes))
        own = src if code[0] < 0 else history.nodes.id_of(int(code[0]))
        asked = int(code[0]), float(when[0]), int(upto[0])
        return Ranked(own, times_of(ticks, unit), ids, codes, asked, self._next_scores(rows), rows[:, _GAP] < NEVER)

    def decision_function(self, X: Any) -> Floats:
        """Scores of the destinations of edges, given their sources and all edges strictly before them, shape (n_edges,).

        They can be compared among edges with the same source and time.
        """
        return self._next_scores(self._rows(self._edges(X, reset=False)))

    def stream_scores(self, queries: TemporalEdges, candidates: Any, known: Any = None) -> Iterator[Floats]:
        """Scores of candidates for many queries, one array per query: for evaluation.

        Parameters
        ----------
        queries
            Sources and times, in the order of time; their destinations are not used.
        candidates
            The destinations to score: ids for all queries, or a list with the ids for each query.
        known
            How many of the known edges, in the order of time, each query may use at most, in ascending order. By default
            all that are strictly before it, which is also the upper limit.
        """
        check_is_fitted(self)
        history = self._history
        if (np.diff(queries.ticks) < 0).any():
            raise ParameterError("The 'queries' must be in the order of time. Sort them.", parameter="queries")
        upto, when = history.ask(queries.ticks, queries.time_unit)
        upto = upto if known is None else np.minimum(upto, known)
        each, sizes = self._candidates_of(queries, candidates)
        src, starts = history.codes_of(queries)[0], np.append(0, np.cumsum(sizes))
        for first in range(0, len(queries), QUERIES_AT_ONCE):
            some = slice(first, first + QUERIES_AT_ONCE)
            ends = starts[first : min(first + QUERIES_AT_ONCE, len(queries)) + 1]
            rows = history.blocks(src[some], when[some], upto[some], ends - ends[0], each(some))
            scores = np.concatenate([self._next_scores(block) for block in rows])
            yield from np.split(scores, ends[1:-1] - ends[0])

    def _candidates_of(self, queries: TemporalEdges, candidates: Any) -> tuple[Callable[[slice], Codes], Codes]:
        """The codes of the candidates of some queries, joined, as a function; and their numbers."""
        if isinstance(candidates, list) and len(candidates) == len(queries) and np.ndim(candidates[0]) == 1:
            sizes = np.array([len(ids) for ids in candidates], np.int64)
            codes = np.split(self._dst_codes(np.concatenate(candidates)), np.cumsum(sizes)[:-1])
            return lambda some: np.concatenate(codes[some]), sizes
        shared = self._dst_codes(candidates)
        return (lambda some: np.tile(shared, len(range(len(queries))[some]))), np.full(len(queries), len(shared))

    def _dst_codes(self, ids: Any) -> Codes:
        """The codes of many destinations, -1 for one that is not known."""
        dst = TemporalEdges(ids, ids, np.zeros(len(ids)), bipartite=True)
        return self._history.codes_of(dst)[1]

    # ---- pairs

    def top(self, k: int = 20, at: Any = None, candidates: Any = None) -> pl.DataFrame:
        """Find the pairs that are most likely to meet soon after a given time.

        Parameters
        ----------
        k
            The number of pairs to return; all candidates if there are fewer.
        at
            The time, a number or a datetime like the times of the fitted edges. By default the time of the last known edge.
            Edges after this time are not used.
        candidates
            The pairs to choose from, as in `LinkPredictor.top`.

        Returns
        -------
        polars.DataFrame
            Columns src, dst, time, score, seen (whether this pair occurred at that time or before) and reason (the
            strongest fact about the two that is known then, in words), the most likely first.
        """
        check_is_fitted(self)
        check_count("top", "k", k, 1)
        edges = candidate_edges(self.edges_, at, candidates)
        return best_pairs(self.edges_, edges, self.pair_scores(edges), k)

    def pair_scores(self, X: Any) -> Floats:
        """How likely pairs are to meet soon after their time, given all edges until then, shape (n_edges,).

        With trees, a number between 0 and 1: the chance to occur among the next edges, 1 % and 5 % as many as were fitted,
        on average over the two. Scores can be compared among all pairs of a time, unlike those of `decision_function`.
        """
        rows = self._rows(self._edges(X, reset=False), with_equal=True)
        return self._rule(rows) if self.pair_trees_ is None else expit(self.pair_trees_.sums(rows)[:, 0])

    # ---- columns

    def _next_scores(self, rows: Floats) -> Floats:
        if self.next_trees_ is None:
            return self._rule(rows)
        return self.next_trees_.sums(rows)[:, 0] + learning.recency_position(rows)

    def _rule(self, rows: Floats) -> Floats:
        return learning.edgebank(rows) if self.method_ == "edgebank" else learning.recency(rows)

    def _rows(self, edges: TemporalEdges, *, with_equal: bool = False) -> Floats:
        """The columns of edges, given what is strictly before each of them, or at its time as well."""
        upto, when = self._history.ask(edges.ticks, edges.time_unit, with_equal=with_equal)
        return self._history.rows(*self._history.codes_of(edges), when, upto)

    def _check_loaded(self) -> None:
        """Refuse trees from a file that cannot be evaluated."""
        for name in ("next_trees_", "pair_trees_"):
            trees = getattr(self, name, None)
            if trees is not None and not isinstance(trees, Trees):
                raise ValueError(f"{name} are not trees")
            if trees is not None:
                trees.check(len(COLUMNS))
        if "edges_" in vars(self) and (self.method_ not in RANKING_METHODS or np.shape(self.widths_) != (len(SCALES),)):
            raise ValueError("the method or the bandwidths are not those of a ranking")


class StreamRanker:
    """Rank the next partner while edges come in: the answers of `LinkRanker`, from the same running state.

    Parameters
    ----------
    ranker
        A fitted `LinkRanker`. It does not change.

    Attributes
    ----------
    n_edges
        The number of edges so far.

    Notes
    -----
    An edge is known to questions about a later time. A question about exactly the time of the last edge, after one about a
    later time, makes the state start anew: about 0.05 s for each 100,000 edges.

    Examples
    --------
    >>> from tdlg import LinkRanker, TemporalEdges
    >>> stream = StreamRanker(LinkRanker("recency").fit(TemporalEdges(["ann"], ["bob"], [1])))
    >>> stream.add("ann", "cat", 2)
    >>> stream.rank("ann", 3, k=1)
    [('cat', 0.5)]
    """

    def __init__(self, ranker: LinkRanker) -> None:
        check_is_fitted(ranker)
        self._ranker, self._history = ranker, History(ranker.edges_, ranker.widths_)
        self._last = ranker.edges_.time.max()

    @property
    def n_edges(self) -> int:
        """The number of edges so far."""
        return len(self._history)

    def add(self, src: Any, dst: Any, time: Any) -> None:
        """Add an edge, which is known to all questions about a later time.

        Parameters
        ----------
        src, dst
            The ids of its nodes.
        time
            Its time, not before that of the last edge.
        """
        when = self._checked(time, "add")
        self._history.add(TemporalEdges([src], [dst], when, bipartite=self._history.none.bipartite))
        self._last = when[0]

    def rank(self, src: Any, time: Any, candidates: Any = None, k: int | None = None) -> list[tuple[Any, float]]:
        """Rank the destinations that a source may turn to next: pairs of an id and a score, the best first.

        Parameters
        ----------
        src, time
            The source and the time, not before that of the last edge. Edges strictly before it are known.
        candidates
            The ids to rank, as in `LinkRanker.rank`.
        k
            How many are returned; all by default.
        """
        self._checked(time, "rank")
        found = self._ranker._ranked(self._history, src, time, candidates)
        best = np.argsort(-found.scores, kind="stable")[:k]
        return [(found.ids[at], float(found.scores[at])) for at in best.tolist()]

    def _checked(self, time: Any, owner: str) -> Any:
        """A time as an array of one element; it must not be in the past."""
        when = as_time(time, self._history.none, "time", owner)
        if when[0] < self._last:
            raise ParameterError(
                f"The 'time' is {time}, before that of the last edge, {self._last}. A stream goes on in the order of time.",
                "Use `LinkRanker` for questions about the past.",
                parameter="time",
            )
        return when


# ---- candidates


class Ranked(NamedTuple):
    """Candidates for the next destination of a source, in their own order."""

    src: Any  # the id of the source
    time: NDArray[Any]  # one element
    ids: list[Any]  # of the candidates
    codes: Codes  # of the candidates, -1 for one that is not known
    asked: tuple[int, float, int]  # the code of the source, the time of the state, and how many edges are known
    scores: Floats
    seen: NDArray[np.bool_]  # whether the source had them before


def _codes_of_ends(history: History, ids: list[Any], end: int, name: str) -> Codes:
    """The codes of sources or destinations; refuses what cannot be an id."""
    try:
        return history.find(ids, end)
    except TypeError:
        raise ParameterError(
            f"An id is a number, text or another hashable object. The '{name}' has {ids!r:.100}.", parameter=name
        ) from None


def _distinct_nodes(history: History, candidates: Any) -> tuple[list[Any], Codes]:
    """The ids of given candidates and their codes, each node once."""
    ids = listed(as_ids(candidates, "candidates"))
    codes = _codes_of_ends(history, ids, DST, "candidates")
    first = {(code, None) if code >= 0 else (code, ids[k]): k for k, code in reversed(list(enumerate(codes.tolist())))}
    at = np.sort(np.array(list(first.values()), np.int64))
    return [ids[k] for k in at.tolist()], codes[at]
