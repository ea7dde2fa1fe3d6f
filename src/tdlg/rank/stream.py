"""StreamRanker: the next partner, with edges that become known one by one."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from tdlg.edges import TemporalEdges
from tdlg.exceptions import ParameterError
from tdlg.models.pairs import as_time
from tdlg.rank.history import History
from tdlg.rank.ranker import LinkRanker


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
