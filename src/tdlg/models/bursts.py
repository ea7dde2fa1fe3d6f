"""Outlier detection: what all detectors share, and edges that are part of a burst."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, OutlierMixin
from sklearn.utils.validation import check_is_fitted

from tdlg.checks import check_count, is_number
from tdlg.clock import Duration
from tdlg.edges import TemporalEdges
from tdlg.estimator import EdgesEstimator, Scored, all_or_nothing
from tdlg.exceptions import ParameterError
from tdlg.explain.reasons import explain_bursts
from tdlg.linegraph.decay import Decay, Laplace, time_spread
from tdlg.linegraph.events import own_columns
from tdlg.propagate.bursts import KEYS, SurprisePlan, burst_surprises
from tdlg.sampling.index import edge_index, without_repeats
from tdlg.tables.rows import kept_rows

if TYPE_CHECKING:
    import polars as pl

    from tdlg.engines.table import ScannedEdges
    from tdlg.models.files import FilledBursts

Scores = NDArray[np.float64]

LEAST_FAST, SLOW = 0.0003, 1.0  # widths of the counts of bursts, in standard deviations of the times
IN_A_BURST, SHARE_OF_ROWS = (
    500,
    0.02,
)  # how many edges usually come within the fast width: so many, or this share of few


class Detector(EdgesEstimator, OutlierMixin, BaseEstimator):
    """An outlier detector: subclasses set `scores_`, `offset_` and `edges_`, and score edges."""

    contamination: float | Literal["auto"]
    scores_: Scores
    offset_: float

    def score_samples(self, X: Any) -> Scores:
        """Scores of edges, shape (n_edges,); outliers have low scores.

        Fitted edges, which are recognised by source, destination and time in any table, have their score from `scores_`.
        """
        check_is_fitted(self)
        return self._scores_of(self._edges(X, reset=False))

    def scored(self, X: Any) -> Scored:
        """Edges with their scores; see `score_samples`."""
        check_is_fitted(self)
        edges = self._edges(X, reset=False)
        return Scored(edges, self._scores_of(edges))

    def decision_function(self, X: Any) -> Scores:
        """`score_samples` minus `offset_`: negative for outliers."""
        return self.score_samples(X) - self.offset_

    def predict(self, X: Any) -> NDArray[np.int64]:
        """-1 for outliers, 1 for other edges."""
        return np.where(self.decision_function(X) < 0, -1, 1)

    def _scores_of(self, edges: TemporalEdges) -> Scores:
        raise NotImplementedError

    def _check_contamination(self) -> None:
        share = self.contamination
        if share != "auto" and not (is_number(share) and 0 < share <= 0.5):
            raise ParameterError(
                f"The 'contamination' parameter of {type(self).__name__} must be 'auto', or above 0 and at most 0.5. "
                f"Got {share!r} instead.",
                parameter="contamination",
            )

    def _offset(self, auto: float) -> float:
        """The score below which an edge is an outlier; `auto` if no share of outliers is given."""
        share = self.contamination
        return auto if share == "auto" else float(np.percentile(self.scores_, 100.0 * share))


class ContinuingDetector(Detector):
    """A detector that judges each edge by those before it, with a fast and a slow decay; new edges continue the fitted."""

    fast: float | Duration | None
    slow: float | Duration | None
    fast_: Decay
    slow_: Decay
    edges_: TemporalEdges

    def _widths(self, edges: TemporalEdges) -> tuple[Decay, Decay]:
        spread = time_spread(edges.ticks[kept_rows(np.zeros(len(edges), bool))])
        return burst_widths(self.fast, self.slow, spread, len(edges), edges.time_unit)

    def _scores_of(self, edges: TemporalEdges) -> Scores:
        """The scores of fitted edges, and of new ones, which come together: each counts those before it."""
        at = self.places(edges)
        scores: Scores = self.scores_[at]
        new = at < 0
        if new.any():
            scores[new] = self._continued(edges[new])[len(self.edges_) :]
        return scores

    def places(self, edges: TemporalEdges) -> NDArray[np.int64]:
        """Positions among the fitted edges, -1 for new edges and for more copies than there are fitted ones."""
        if edges.same_table(self.edges_):
            return own_columns(edges, self.edges_)
        return without_repeats(edge_index(self.edges_).find_each(edges))

    def _continued(self, more: TemporalEdges | None = None) -> Scores:
        """The scores of the fitted edges, and of more edges after them."""
        raise NotImplementedError


class BurstDetector(ContinuingDetector):
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
        By default the time in which 500 edges usually come (of fewer than 25,000 edges, 2 % of them), and one standard
        deviation of the fitted times, which is 6 weeks for edges spread evenly over 5 months. The defaults use all fitted
        times; give both for scores that depend in no way on later edges.
    groups
        Names of categories among the features, such as an address prefix or a country, by which edges are also counted, so
        that an attack from many sources adds up. None by default: other features are not used.
    contamination
        The share of the fitted edges to mark as outliers, above 0 and at most 0.5. "auto", the default, marks the edges
        whose surprise is too large to be expected once among all fitted edges by chance, that is, whose score is below
        -log10(n_keys * n_edges), where an edge has 3 keys and its groups.
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
    edges_, plan_
        The edges given to `fit`, and what they are counted by.

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
    "53 interactions from 'eve' within 10 time units, where 2.4 are usual"
    """

    def __init__(
        self,
        fast: float | Duration | None = None,
        slow: float | Duration | None = None,
        *,
        groups: Sequence[str] = (),
        contamination: float | Literal["auto"] = "auto",
        n_threads: int | None = None,
    ) -> None:
        self.fast = fast
        self.slow = slow
        self.groups = groups
        self.contamination = contamination
        self.n_threads = n_threads

    @all_or_nothing
    def fit(self, X: Any, y: Any = None) -> Self:
        """Score the edges X, each by those before it; y is ignored."""
        edges = self._edges(X, reset=True)
        if self.n_threads is not None:
            check_count(type(self).__name__, "n_threads", self.n_threads, 1)
        self._check_contamination()
        check_groups(self, edges.feature_categories)
        self.fast_, self.slow_ = self._widths(edges)
        self.edges_, self.plan_ = edges, SurprisePlan.of(edges, self.groups, has_all=False)
        self.scores_ = self._continued()
        self.offset_ = self._offset(-rare_surprise(len(edges), len(self.plan_.kinds)))
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
            What `scan_edges` returned; labels, and features other than `groups`, are not used.
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
            One row per reason, with the columns of `PropagationClassifier.explain` except class; "what" is src, dst, pair
            or category[name] of a group, the score is minus that of `score_samples`, and the effect is the surprise of that
            key: higher is more surprising. An edge without a surprise has no reason.
        """
        check_is_fitted(self)
        edges = X.edges if isinstance(X, Scored) else self._edges(X, reset=False)
        return explain_bursts(self, edges, self.places(edges), top, rows=rows)

    def _continued(self, more: TemporalEdges | None = None) -> Scores:
        arrivals, keys = self.plan_.keyed(self.edges_, more)
        return -burst_surprises(arrivals, keys, *widths_in_ticks(self, arrivals.time_unit), self.n_threads)


def check_groups(detector: Any, categories: Any) -> None:
    """Refuse groups that are no categories among the features."""
    strange = [name for name in detector.groups if name not in categories]
    if strange:
        raise ParameterError(
            f"The 'groups' parameter of {type(detector).__name__} must name categories among the features: "
            f"{', '.join(categories) or 'there are none'}. Got {strange[0]!r} instead.",
            parameter="groups",
        )


def widths_in_ticks(detector: Any, time_unit: str | None) -> tuple[float, float]:
    """The fast and the slow width of a fitted detector."""
    return detector.fast_.parts(time_unit)[0].bandwidth, detector.slow_.parts(time_unit)[0].bandwidth


def rare_surprise(n_edges: int, n_keys: int = len(KEYS)) -> float:
    """The surprise that is expected once among all edges by chance, where each has so many keys."""
    return float(np.log10(n_keys * n_edges))


def burst_widths(fast: Any, slow: Any, spread: float, n_edges: int, time_unit: str | None) -> tuple[Decay, Decay]:
    """The decays of the parameters `fast` and `slow`, for so many times in this unit with this deviation in ticks."""
    decays = []
    even = np.sqrt(12.0) / max(n_edges, 1)  # between two of as many times that are evenly spread
    usual = max(LEAST_FAST, float(even * min(IN_A_BURST, SHARE_OF_ROWS * n_edges)))
    for name, given, relative in (("fast", fast, usual), ("slow", slow, SLOW)):
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
            f"instead. By default they are {usual:.2g} and {SLOW:g} standard deviations of the times.",
            parameter="fast",
        )
    return decays[0], decays[1]
