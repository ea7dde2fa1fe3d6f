"""Outlier detection: edges that do not fit their nodes, and edges that are part of a burst."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, OutlierMixin
from sklearn.metrics import roc_auc_score
from sklearn.utils.validation import check_is_fitted

from tdlg.checks import as_generator, as_seed, check_choice, check_count, is_number
from tdlg.clock import Duration
from tdlg.edges import TemporalEdges
from tdlg.estimator import EdgesEstimator, Scored, all_or_nothing
from tdlg.exceptions import EdgesError, ParameterError
from tdlg.explain.reasons import explain_bursts
from tdlg.linegraph.decay import Decay, Gaussian, Laplace, time_spread
from tdlg.linegraph.events import own_columns
from tdlg.models.links import LinkPredictor, check_enough, check_parameters
from tdlg.propagate.bursts import KEYS, Arrivals, burst_surprises
from tdlg.sampling.index import edge_folds, edge_index, without_repeats
from tdlg.sampling.negatives import shuffled_edges
from tdlg.tables.rows import kept_rows

if TYPE_CHECKING:
    import polars as pl

    from tdlg.engines.table import ScannedEdges
    from tdlg.models.files import FilledBursts

Scores = NDArray[np.float64]

OUTLIER_METHODS = ("shuffled", "rows", "burst")
FAST, SLOW = 0.003, 1.0  # widths of the counts of bursts, in standard deviations of the times


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


class MisplacedDetector(Detector):
    """Find single edges that do not fit their nodes, without labels: the paper's temporal link outlier detection.

    A `LinkPredictor` learns to distinguish real edges from synthetic ones, whose sources, destinations and times are
    shuffled or sampled independently. An edge is an outlier if the model takes it for synthetic: its nodes do little else
    around its time, or do not belong together. No edge is scored by a model that was trained on it: the edges are split
    into folds, and each fold is scored by a model of the other folds. Edges with the same source, destination and time are
    in the same fold, so that no edge is scored by a model that has seen a copy of it.

    Parameters
    ----------
    method, decay, C, n_threads
        Those of the `LinkPredictor`. A relative bandwidth is fixed once, on all edges, so that the scores of all folds can
        be compared.
    cv
        The number of folds, 5 by default. There are fewer folds if there are fewer distinct edges.
    contamination
        The share of the fitted edges to mark as outliers, above 0 and at most 0.5. "auto", the default, marks the edges
        that are more likely synthetic than real, that is, whose score is below 0.
    random_state
        Seed for the folds, the synthetic edges and the boosted trees.

    Attributes
    ----------
    scores_
        The scores of the fitted edges, shape (n_edges,): log-odds that an edge is real and not synthetic, each from a model
        that was not trained on that edge.
    offset_
        The score below which an edge is an outlier.
    auc_
        How well the model separates held-out real edges from held-out synthetic ones: the area under the ROC curve.
        Check it first: at 0.5 nothing was learnt and the scores are meaningless.
    model_
        The `LinkPredictor` fitted on all edges, which scores new edges.
    edges_, decay_
        The edges given to `fit` and, for "rows", the decay with its bandwidth fixed.

    See Also
    --------
    BurstDetector : find many edges in a short time, which look entirely usual to this detector.

    Examples
    --------
    Ann and Bob are active early, Cat and Dan late; the last edge is at an unusual time.

    >>> from tdlg import MisplacedDetector, TemporalEdges
    >>> src, dst = ["ann", "bob"] * 20 + ["cat", "dan"] * 20, ["bob", "ann"] * 20 + ["dan", "cat"] * 20
    >>> edges = TemporalEdges([*src, "ann"], [*dst, "bob"], [*range(80), 70])
    >>> detector = MisplacedDetector(contamination=0.01, random_state=0).fit(edges)
    >>> detector.predict(edges[77:])
    array([ 1,  1,  1, -1])
    """

    def __init__(
        self,
        method: Literal["propagation", "rows"] = "propagation",
        *,
        decay: Decay | None = None,
        C: float = 1.0,
        cv: int = 5,
        contamination: float | Literal["auto"] = "auto",
        n_threads: int | None = None,
        random_state: Any = None,
    ) -> None:
        self.method = method
        self.decay = decay
        self.C = C
        self.cv = cv
        self.contamination = contamination
        self.n_threads = n_threads
        self.random_state = random_state

    @all_or_nothing
    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn what real edges look like, and score them. X has at least two edges; y is ignored."""
        edges = self._edges(X, reset=True)
        check_parameters(self)
        check_count(type(self).__name__, "cv", self.cv, 2)
        self._check_contamination()
        check_enough(edges)
        if edge_index(edges).at.max() == 0:
            raise EdgesError(
                f"All {len(edges)} edges have the same source, destination and time: none can be scored by a model of the "
                "others. Pass at least two edges that differ."
            )
        rng = as_generator(self.random_state)
        if self.method == "rows":
            self.decay_ = (Gaussian() if self.decay is None else self.decay).freeze(edges)
        self.scores_, self.auc_ = self._cross_fitted(edges, rng)
        self.model_ = self._new_model(rng).fit(edges)
        self.offset_ = self._offset(0.0)
        self.edges_ = edges
        return self

    def _scores_of(self, edges: TemporalEdges) -> Scores:
        """The scores of fitted edges, and of new ones, by the model of all edges."""
        at = edge_index(self.edges_).find(edges)
        scores: Scores = self.scores_[at]
        new = at < 0
        if new.any():
            scores[new] = self.model_.decision_function(edges[new])
        return scores

    def _cross_fitted(self, edges: TemporalEdges, rng: np.random.Generator) -> tuple[Scores, float]:
        """The scores of held-out edges, and the AUC of held-out real against synthetic edges."""
        folds = edge_folds(edges, self.cv, rng)
        shuffled = shuffled_edges(edges, rng)
        scores, of_shuffled = np.empty((2, len(edges)))
        for fold in range(folds.max() + 1):
            held_out = folds == fold
            model = self._new_model(rng)._learn(edges[~held_out])
            scores[held_out] = model.decision_function(edges[held_out])
            of_shuffled[held_out] = model.decision_function(shuffled[held_out])
        auc = roc_auc_score(np.repeat([1, 0], len(edges)), np.concatenate([scores, of_shuffled]))
        return scores, float(auc)

    def _new_model(self, rng: np.random.Generator) -> LinkPredictor:
        decay, seed = getattr(self, "decay_", None), as_seed(rng)
        return LinkPredictor(self.method, decay=decay, C=self.C, n_threads=self.n_threads, random_state=seed)


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
    Eve does 50 times at once what she did every other day.

    >>> from tdlg import EdgeOutlierDetector, TemporalEdges
    >>> edges = TemporalEdges(["ann", "eve"] * 100 + ["eve"] * 50, ["x", "y"] * 125, [*range(200), *[200] * 50])
    >>> detector = EdgeOutlierDetector("burst", fast=10, slow=100).fit(edges)
    >>> detector.predict(edges[[0, 199, 249]])
    array([ 1,  1, -1])
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
