"""Outlier detection: find edges that are part of a burst."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from tdlg.checks import check_count
from tdlg.clock import Duration
from tdlg.edges import TemporalEdges
from tdlg.estimator import Scored, all_or_nothing
from tdlg.exceptions import ParameterError
from tdlg.explain.bursts import explain_bursts
from tdlg.linegraph.decay import Decay, Laplace, time_spread
from tdlg.linegraph.events import own_columns
from tdlg.models.detector import Detector, Scores
from tdlg.propagate.bursts import KEYS, Arrivals, burst_surprises
from tdlg.sampling.index import edge_index, without_repeats
from tdlg.tables.rows import kept_rows

if TYPE_CHECKING:
    import polars as pl
    from numpy.typing import NDArray

    from tdlg.engines.table import ScannedEdges
    from tdlg.models.files import FilledBursts

FAST, SLOW = 0.003, 1.0  # widths of the counts, in standard deviations of the times


class BurstDetector(Detector):
    """Find bursts without labels: far more edges of a node or a pair in a short time than its own longer past suggests.

    Attacks, scans, spam, cards that are tested. One pass over the edges in the order of time counts the source, the
    destination and the pair of each edge with two decays, a fast and a slow one, and the score is the logarithm of a
    probability, which can be compared between busy and quiet nodes; see `tdlg.propagate.bursts.burst_surprises`. The score
    of an edge uses this edge and the edges before it, never a later one; edges at the same time come in the order of their
    rows. New edges continue the fitted ones: they count the fitted edges and each other.

    Parameters
    ----------
    fast, slow
        In which time a burst happens, and the time that shows what is usual: numbers in the unit of the times, or
        durations such as "1h" and "10d" if the times are datetimes. An edge counts exp(-age / fast) and exp(-age / slow).
        By default 0.003 and 1 standard deviations of the fitted times, about 3 hours and 6 weeks for edges spread evenly
        over 5 months. The defaults use all fitted times; give both for scores that depend in no way on later edges.
    contamination
        The share of the fitted edges to mark as outliers, above 0 and at most 0.5. "auto", the default, marks the edges
        whose surprise is too large to be expected once among all fitted edges by chance, that is, whose score is below
        -log10(3 * n_edges).
    n_threads
        Number of threads. By default all cores are used.

    Attributes
    ----------
    scores_
        The scores of the fitted edges, shape (n_edges,): minus the surprise, a number of decimal digits. -6 is a burst as
        rare as one in a million, and 0 is none.
    offset_
        The score below which an edge is an outlier.
    fast_, slow_
        The two decays with their widths fixed.
    edges_
        The edges given to `fit`.

    See Also
    --------
    MisplacedDetector : find single edges that do not fit their nodes.

    Examples
    --------
    Eve sends as often as everyone else, and then 50 times at once.

    >>> from tdlg import BurstDetector, TemporalEdges
    >>> src, time = ["ann", "bob", "cat", "eve"] * 100 + ["eve"] * 50, [*range(400), *[400] * 50]
    >>> edges = TemporalEdges(src, ["x", "y", "z"] * 150, time)
    >>> detector = BurstDetector(fast=10, slow=200).fit(edges)
    >>> detector.predict(edges[[100, 399, 449]])
    array([ 1,  1, -1])
    >>> detector.explain(edges, top=1, rows=449)["reason"].item()
    "53 interactions from 'eve' within 10 time units, where 2.5 are usual"
    """

    fast_: Decay
    slow_: Decay

    def __init__(
        self,
        fast: float | Duration | None = None,
        slow: float | Duration | None = None,
        *,
        contamination: float | Literal["auto"] = "auto",
        n_threads: int | None = None,
    ) -> None:
        self.fast = fast
        self.slow = slow
        self.contamination = contamination
        self.n_threads = n_threads

    @all_or_nothing
    def fit(self, X: Any, y: Any = None) -> Self:
        """Score the edges X, each by those before it; y is ignored."""
        edges = self._edges(X, reset=True)
        if self.n_threads is not None:
            check_count(type(self).__name__, "n_threads", self.n_threads, 1)
        self._check_contamination()
        spread = time_spread(edges.ticks[kept_rows(np.zeros(len(edges), bool))])
        self.fast_, self.slow_ = burst_widths(self.fast, self.slow, spread, edges.time_unit)
        self.edges_, self.scores_ = edges, self._continued(Arrivals.of(edges))
        self.offset_ = self._offset(-rare_surprise(len(edges)))
        return self

    def fill(
        self,
        scanned: ScannedEdges,
        output: Any,
        *,
        memory: Any = None,
        engine: Executor | str | None = None,
        folder: Any = None,
        callback: Callable[[int, int, str], object] | None = None,
    ) -> FilledBursts:
        """Score edges that are larger than memory, and write their table with "outlier_score" and "outlier" added.

        The scores are those of `fit`. This detector is not changed.

        Parameters
        ----------
        scanned
            What `scan_edges` returned; labels and features are not used.
        output, memory, engine, folder, callback
            The same as for `PropagationClassifier.fill`.

        Returns
        -------
        FilledBursts
            Some numbers, and the two decays.

        Examples
        --------
        >>> import pathlib, tempfile
        >>> from tdlg import BurstDetector, scan_edges, write_payments
        >>> home = pathlib.Path(tempfile.mkdtemp())
        >>> write_payments(home / "payments.parquet", 2000, random_state=0)
        >>> filled = BurstDetector().fill(scan_edges(home / "payments.parquet"), home / "scored.parquet", memory="2GB")
        >>> filled.n_rows, round(filled.threshold, 2)
        (2000, 3.78)
        """
        from tdlg.models.files import fill_bursts

        of_run = {"memory": memory, "engine": engine, "folder": folder, "callback": callback}
        return fill_bursts(self, scanned, output, **of_run)

    def explain(self, X: Any, top: int = 3, *, rows: Any = None) -> pl.DataFrame:
        """What makes each edge part of a burst, in words.

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
        edges = X.edges if isinstance(X, Scored) else self._edges(X, reset=False)
        return explain_bursts(self, edges, self._places(edges), top, rows=rows)

    def _scores_of(self, edges: TemporalEdges) -> Scores:
        """The scores of fitted edges, and of new ones, which come together: each counts those before it."""
        at = self._places(edges)
        scores: Scores = self.scores_[at]
        new = at < 0
        if new.any():
            scores[new] = self._continued(Arrivals.of(self.edges_, edges[new]))[len(self.edges_) :]
        return scores

    def _places(self, edges: TemporalEdges) -> NDArray[np.int64]:
        """Positions among the fitted edges, -1 for new edges and for more copies than there are fitted ones."""
        if edges.same_table(self.edges_):
            return own_columns(edges, self.edges_)
        return without_repeats(edge_index(self.edges_).find_each(edges))

    def _continued(self, arrivals: Arrivals) -> Scores:
        fast, slow = (decay.parts(arrivals.time_unit)[0].bandwidth for decay in (self.fast_, self.slow_))
        return -burst_surprises(arrivals, fast, slow, self.n_threads)


def rare_surprise(n_edges: int) -> float:
    """The surprise that is expected once among all edges by chance."""
    return float(np.log10(len(KEYS) * n_edges))


def burst_widths(fast: Any, slow: Any, spread: float, time_unit: str | None) -> tuple[Decay, Decay]:
    """The decays of the parameters `fast` and `slow`, for times in this unit with this standard deviation in ticks."""
    decays = []
    for name, given, relative in (("fast", fast, FAST), ("slow", slow, SLOW)):
        anything = relative if time_unit is None else f"{relative}s"  # if all times are equal, nothing fades
        try:
            default = Laplace(relative=relative) if spread > 0 else Laplace(anything)
            decays.append(default.at_spread(spread, time_unit) if given is None else Laplace(given))
            decays[-1].parts(time_unit)
        except ParameterError as error:
            raise ParameterError(
                f"The {name!r} parameter of BurstDetector is {given!r}: {error.problem}",
                *error.args[1:],
                parameter=name,
            ) from None
    widths = [decay.parts(time_unit)[0].bandwidth for decay in decays]
    if not widths[0] < widths[1]:
        raise ParameterError(
            f"The 'fast' parameter of BurstDetector must be shorter than 'slow'. Got {decays[0]!r} and {decays[1]!r} "
            f"instead. By default they are {FAST} and {SLOW:g} standard deviations of the times.",
            parameter="fast",
        )
    return decays[0], decays[1]
