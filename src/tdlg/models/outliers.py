"""Outlier detection: the detectors of misplaced edges and of bursts under one name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, Self

from sklearn.utils.validation import check_is_fitted

from tdlg.checks import check_choice
from tdlg.clock import Duration
from tdlg.edges import TemporalEdges
from tdlg.estimator import Scored, all_or_nothing
from tdlg.exceptions import ParameterError
from tdlg.linegraph.decay import Decay
from tdlg.models.bursts import BurstDetector
from tdlg.models.detector import Detector, Scores
from tdlg.models.misplaced import MisplacedDetector

if TYPE_CHECKING:
    import polars as pl

OUTLIER_METHODS = ("shuffled", "rows", "burst")


class EdgeOutlierDetector(Detector):
    """Find outliers among edges without labels: edges that do not belong, or edges that are too many.

    A `MisplacedDetector` or a `BurstDetector`, by the name of a method.

    Parameters
    ----------
    method
        "shuffled" (default) finds single edges that do not fit their nodes: `MisplacedDetector()`. "rows" does the same by
        the paper's method: `MisplacedDetector("rows")`. "burst" finds many edges in a short time, which look entirely
        usual to the other two: `BurstDetector()`.
    decay, C
        For "rows", see `MisplacedDetector`.
    cv, random_state
        For "shuffled" and "rows", see `MisplacedDetector`.
    fast, slow
        For "burst", see `BurstDetector`.
    contamination
        The share of the fitted edges to mark as outliers, above 0 and at most 0.5. "auto", the default, marks the edges
        that are more likely synthetic than real, or the bursts that chance would not give once among all fitted edges.
    n_threads
        Number of threads. By default all cores are used.

    Attributes
    ----------
    detector_
        The fitted `MisplacedDetector` or `BurstDetector`. Its fitted attributes are also those of this estimator.
    scores_
        The scores of the fitted edges, shape (n_edges,).
    offset_
        The score below which an edge is an outlier.
    edges_
        The edges given to `fit`.

    Examples
    --------
    Ann and Bob are active early, Cat and Dan late; the last edge is at an unusual time.

    >>> from tdlg import EdgeOutlierDetector, TemporalEdges
    >>> src, dst = ["ann", "bob"] * 20 + ["cat", "dan"] * 20, ["bob", "ann"] * 20 + ["dan", "cat"] * 20
    >>> edges = TemporalEdges([*src, "ann"], [*dst, "bob"], [*range(80), 70])
    >>> detector = EdgeOutlierDetector(contamination=0.01, random_state=0).fit(edges)
    >>> detector.predict(edges[77:])
    array([ 1,  1,  1, -1])
    """

    detector_: MisplacedDetector | BurstDetector

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
        """Fit the detector of this method to the edges X, at least two except for "burst"; y is ignored."""
        edges = self._edges(X, reset=True)
        check_choice(type(self).__name__, "method", self.method, OUTLIER_METHODS)
        options: Any = {"contamination": self.contamination, "n_threads": self.n_threads}
        if self.method == "burst":
            self.detector_ = BurstDetector(self.fast, self.slow, **options)
        else:
            options |= {"decay": self.decay, "C": self.C, "cv": self.cv, "random_state": self.random_state}
            self.detector_ = MisplacedDetector("rows" if self.method == "rows" else "propagation", **options)
        for name, value in vars(self.detector_.fit(edges)).items():
            if name.endswith("_"):
                self.__dict__.setdefault(name, value)
        return self

    def explain(self, X: Any, top: int = 3, *, rows: Any = None) -> pl.DataFrame:
        """What makes each edge part of a burst, in words, for the method "burst"; see `BurstDetector.explain`."""
        check_is_fitted(self)
        if not isinstance(self.detector_, BurstDetector):
            raise ParameterError(
                f"EdgeOutlierDetector has reasons only with the method 'burst'. Got {self.method!r} instead.",
                "Fit with method='burst'.",
                parameter="method",
            )
        return self.detector_.explain(X if isinstance(X, Scored) else self.scored(X), top, rows=rows)

    def _scores_of(self, edges: TemporalEdges) -> Scores:
        return self.detector_._scores_of(edges)
