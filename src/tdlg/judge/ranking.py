"""Ranking the true destination of each edge among others, by the protocol of the Temporal Graph Benchmark (TGB).

Edges are split by time at the quantiles 0.70 and 0.85 of their times; an edge exactly at a cut is before it. For each edge
of a later part, its destination is ranked among negatives: given ones, or all destinations but the true ones of the same
source and time. Only what happened strictly before an edge is known when it is ranked, or, where a state is updated in
batches of 200 as TGB's own examples do, only what happened before its batch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from time import process_time
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from tdlg.checks import check_choice, check_count, check_number
from tdlg.edges import TemporalEdges
from tdlg.exceptions import EdgesError, ParameterError

Floats = NDArray[np.float64]
Negatives = Mapping[tuple[Any, Any, Any], Iterable[Any]]
Callback = Callable[[int, int], bool | None]

PARTS = ("train", "val", "test")
HITS = (1, 3, 10)
TGB_BATCH = 200  # edges after which TGB's examples update what they know
PROGRESS = 1000  # queries between two calls of a callback


def rank_of_true(true: float, others: Floats) -> float:
    """The rank of a true destination among others: the mean of the best and the worst rank that ties allow."""
    return 1.0 + (int((others > true).sum()) + int((others >= true).sum())) / 2.0


@dataclass(frozen=True)
class RankingMetrics:
    """The mean of the reciprocal ranks, the shares of the ranks up to 1, 3 and 10, and the number of ranks.

    Examples
    --------
    >>> RankingMetrics.of(np.array([1.0, 4.0]))
    RankingMetrics(mrr=0.625, hits={1: 0.5, 3: 0.5, 10: 1.0}, n_queries=2)
    """

    mrr: float
    hits: dict[int, float]
    n_queries: int

    @classmethod
    def of(cls, ranks: Floats) -> Self:
        """Metrics of ranks, shape (n_queries,)."""
        hits = {k: float((ranks <= k).mean()) for k in HITS}
        return cls(float((1.0 / ranks).mean()), hits, len(ranks))


@dataclass(frozen=True, eq=False)
class RankingTask:
    """Edges split by time, and the negatives of the edges to rank.

    Parameters
    ----------
    edges
        The edges, in any order.
    negatives
        For each edge to rank, the destinations to rank it among: a mapping from (src, dst, time) to ids, as TGB's files of
        negatives have. By default all destinations of the edges, also those that occur only later, but the true ones of
        the same source and time.
    val_share, test_share
        Shares of the edges in the last two parts; 0.15 each by default.

    Examples
    --------
    >>> task = RankingTask(TemporalEdges(["a", "b"] * 10, ["x", "y"] * 10, range(20)))
    >>> [len(task.part(name)) for name in ("train", "val", "test")]
    [14, 3, 3]
    """

    edges: TemporalEdges
    negatives: Negatives | None = None
    val_share: float = 0.15
    test_share: float = 0.15

    def __post_init__(self) -> None:
        for name in ("val_share", "test_share"):
            check_number("RankingTask", name, getattr(self, name), below=1)
        if self.val_share + self.test_share >= 1:
            raise ParameterError(
                f"The 'val_share' is {self.val_share}, the 'test_share' {self.test_share}: nothing is left to learn from.",
                "Choose smaller ones, such as val_share=0.15 and test_share=0.15.",
                parameter="val_share",
            )
        for name in PARTS:
            if len(self.edges) == 0 or len(self.part(name)) == 0:
                raise EdgesError(
                    f"The part {name!r} of {len(self.edges):,} edges has no edges: too many happened at one time, or there "
                    "are too few. Pass more edges."
                )

    def part(self, name: str) -> TemporalEdges:
        """The edges of "train", "val" or "test", in the order of time."""
        check_choice("part", "name", name, PARTS)
        order = np.argsort(self.edges.ticks, kind="stable")
        ticks = self.edges.ticks[order]
        whole = (ticks - ticks[0]).astype(np.float64)
        cuts = np.quantile(whole, [1.0 - self.val_share - self.test_share, 1.0 - self.test_share])
        parts = np.split(order, np.searchsorted(whole, cuts, "right"))
        return self.edges[parts[PARTS.index(name)]]


def true_ranks(
    model: Any,
    task: RankingTask,
    part: Literal["val", "test"] = "test",
    *,
    batch: int | None = None,
    callback: Callback | None = None,
) -> Floats:
    """The rank of the true destination of each edge of a part, in the order of time.

    Parameters
    ----------
    model
        A fitted `LinkRanker`, or a model with its `stream_scores`, that knows all edges of the task through `fit` and
        `update`; it uses those before each edge.
    task, part, callback
        As for `evaluate_ranking`.
    batch
        Edges become known in batches of this number, as they are counted from the start of the part. By default each edge
        is known to all that are strictly later.
    """
    total = len(task.part(part))
    ranks = np.empty(total)
    for k, (true, others) in enumerate(true_scores(model, task, part, batch=batch)):
        ranks[k] = rank_of_true(true, others)
        if callback is not None and (k + 1) % PROGRESS == 0 and callback(k + 1, total):
            return ranks[: k + 1]
    return ranks


def true_scores(
    model: Any, task: RankingTask, part: Literal["val", "test"] = "test", *, batch: int | None = None
) -> Iterator[tuple[float, Floats]]:
    """The score of the true destination of each edge of a part, and those of the others, in the order of time."""
    queries, known = task.part(part), None
    if batch is not None:
        check_count("true_scores", "batch", batch, 1)
        before = len(task.edges) - len(queries) - (len(task.part("test")) if part == "val" else 0)
        known = before + np.arange(len(queries)) // batch * batch
    places = _Places(task, queries)
    for k, scores in enumerate(model.stream_scores(queries, places.candidates, known)):
        yield places.split(k, scores)


class _Places:
    """Which of the candidates of a query is the true one, and which are the others."""

    def __init__(self, task: RankingTask, queries: TemporalEdges) -> None:
        self._given = task.negatives is not None
        if task.negatives is not None:
            self.candidates: Any = [_with_negatives(queries, k, task.negatives) for k in range(len(queries))]
            return
        codes = np.unique(task.edges.dst_code)
        self.candidates = task.edges.node_ids[codes]
        self._true = np.searchsorted(codes, queries.dst_code)
        self._queries = np.unique(np.column_stack([queries.ticks, queries.src_code]), axis=0, return_inverse=True)[1]
        self._order = np.argsort(self._queries, kind="stable")
        self._sorted = self._queries[self._order]

    def split(self, k: int, scores: Floats) -> tuple[float, Floats]:
        """The score of the true destination, and those of the others."""
        if self._given:
            return float(scores[0]), scores[1:]
        alike = slice(*np.searchsorted(self._sorted, [self._queries[k], self._queries[k] + 1]))
        others = np.delete(scores, self._true[self._order[alike]])
        return float(scores[self._true[k]]), others


def _with_negatives(queries: TemporalEdges, k: int, negatives: Negatives) -> NDArray[Any]:
    """The true destination of a query and its negatives."""
    key = queries.src[k], queries.dst[k], queries.time[k]
    if key not in negatives:
        raise ParameterError(
            f"There are no negatives for the edge ({key[0]}, {key[1]}, {key[2]}). Pass negatives for all edges to rank.",
            parameter="negatives",
        )
    return np.append(queries.dst[k : k + 1], np.asarray(negatives[key], queries.dst.dtype))


# ---- a whole evaluation


@dataclass(frozen=True)
class RankingResult:
    """What `evaluate_ranking` measured."""

    by_edge: RankingMetrics  # each edge is known to all strictly later ones
    by_batch: RankingMetrics  # edges become known in batches of 200
    fit_seconds: float  # processor time
    query_milliseconds: float  # processor time of a query with all its candidates


def evaluate_ranking(
    ranker: Any, task: RankingTask, part: Literal["val", "test"] = "test", callback: Callback | None = None
) -> RankingResult:
    """Fit a copy of a ranker to the training part, and rank the edges of a later part.

    Parameters
    ----------
    ranker
        A `LinkRanker`, or a model with the same methods.
    task
        The task.
    part
        "val" or "test", the default.
    callback
        A function that is called with (done, total) now and then; returning True stops each of the two runs.

    Examples
    --------
    >>> from tdlg import LinkRanker
    >>> edges = TemporalEdges(["a", "b"] * 50, ["x", "y"] * 50, range(100))
    >>> evaluate_ranking(LinkRanker("recency"), RankingTask(edges)).by_edge.mrr
    1.0
    """
    start = process_time()
    model = clone(ranker).fit(task.part("train"))
    fit_seconds = process_time() - start
    for later in ("val", "test"):
        model.update(task.part(later))
    start = process_time()
    ranks = true_ranks(model, task, part, callback=callback)
    milliseconds = 1000.0 * (process_time() - start) / len(ranks)
    by_batch = RankingMetrics.of(true_ranks(model, task, part, batch=TGB_BATCH, callback=callback))
    return RankingResult(RankingMetrics.of(ranks), by_batch, fit_seconds, milliseconds)
