"""Outlier detection by what came before: bursts, new and rare ends, and unusual values, as one calibrated answer."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.metrics import roc_auc_score
from sklearn.utils.validation import check_is_fitted

from tdlg.checks import check_count
from tdlg.clock import Duration
from tdlg.edges import TemporalEdges
from tdlg.estimator import Scored, all_or_nothing
from tdlg.exceptions import ParameterError
from tdlg.explain.positive import positive_class
from tdlg.models.bursts import ContinuingDetector, Scores, check_groups, widths_in_ticks
from tdlg.propagate.bursts import SurprisePlan, Surprises

if TYPE_CHECKING:
    import polars as pl

Floats = NDArray[np.float64]

NOTIONS = ("burst", "rare", "value")
NATURAL = 1 / math.log(10)  # digits of one natural unit: a calibrated burst is never more credible than its own digits
LEAST = 1.5  # digits from which on new and rare ends and unusual values speak beside bursts
MOST = 10.0  # digits that count where weights are learnt
OUTLIER = 3.0  # digits from which on an edge is an outlier: one in a thousand
OFTEN = 0.003  # the share of any short time in which new and rare ends, or unusual values, are outliers at most
FEWEST = 5  # outliers that they may have in a table of any size
MISPLACED = "misplaced"


class Calibration(NamedTuple):
    """How digits follow from a surprise: between some points in a line, and beyond the last one by its slope."""

    at: Floats
    digits: Floats
    slope: float

    @classmethod
    def of_scale(cls, surprises: Floats, weight: Floats) -> Calibration:
        """As for exponential tails with the usual median and scale, which are those of most edges and of no flood."""
        middle, scale = usual_scale(surprises, weight)
        at, digits = ([0.0, middle], [0.0, np.log10(2.0)]) if middle > 0 else ([0.0], [0.0])
        return cls(np.array(at), np.array(digits), NATURAL / scale)

    def __call__(self, surprises: Floats) -> Floats:
        """The digits of surprises."""
        beyond = np.maximum(surprises - self.at[-1], 0.0)
        return np.interp(surprises, self.at, self.digits) + self.slope * beyond


def usual_scale(surprises: Floats, weight: Floats) -> tuple[float, float]:
    """The weighted median, and the scale of an exponential tail from there to where a tenth of the weight is above."""
    order = np.argsort(surprises, kind="stable")
    share = np.cumsum(weight[order])
    middle, high = surprises[order][np.searchsorted(share, share[-1] * np.array([0.5, 0.9]))].tolist()
    return middle, max(NATURAL, (high - middle) / np.log(5.0))


class SurpriseDetector(ContinuingDetector):
    """Find edges that are unusual beside what came before them, without labels, in up to three ways at once, or four.

    One pass over the edges in the order of time keeps a few numbers per source, destination, pair and category. Three
    notions are judged by what came strictly before (a burst also counts the edge itself):

    - "burst": far more edges of a source, a destination or a pair in a short time than usual; see `BurstDetector`.
    - "rare": a source, a destination, a pair or a category that was never or hardly ever seen, a category or an hour of the
      day that is rare for its source, and far more newcomers than usual.
    - "value": a number that is far from those of its source or its destination.

    A fourth, "misplaced", joins on request: edges that their two nodes' habits do not explain, see `MisplacedDetector`. It
    takes much longer, and it compares an edge with later ones, too.

    The result is a number of decimal digits: 3 is as unusual as one edge in a thousand. What is rare and which values are
    unusual is compared with the earlier edges, of which a flood of outliers is not taken for usual. Then new and rare ends,
    and unusual values, are scaled so that of the fitted edges not more than three in a thousand of any short time have 3
    digits, or 5 of a small table: in a network that grows, what is new is no outlier. Bursts, and newcomers in mass, are
    compared with those of the fitted edges, where any short time weighs the same, be it calm or full of a flood. The digits
    of an edge are those of its strongest notion: one is enough, and several weak ones are not. Scores of new edges continue
    the fitted ones; what is taken for usual depends on the order of arrival, which for edges at the same time is that of
    rows.

    Parameters
    ----------
    notions
        Which of the three are judged, all by default.
    fast, slow
        See `BurstDetector`.
    groups
        Names of categories among the features, such as an address prefix or a country, whose edges are also counted for
        bursts, so that an attack from many sources adds up.
    contamination
        The share of the fitted edges to mark as outliers, above 0 and at most 0.5. "auto", the default, marks the edges
        with more than 3 digits.
    n_threads
        Number of threads; one is used.
    misplaced
        A `MisplacedDetector` that is not fitted, such as `MisplacedDetector("linegraph")`: it joins as a fourth notion. None
        by default. With it, the detector cannot score a stream.

    Attributes
    ----------
    scores_
        The scores of the fitted edges, shape (n_edges,): minus the digits.
    digits_
        The digits of each notion, shape (n_edges, n_notions).
    offset_
        The score below which an edge is an outlier.
    fast_, slow_, plan_, edges_
        The two decays with their widths fixed, what edges are counted by, and the edges given to `fit`.
    burst_scale_, rush_scale_, scales_
        How digits follow from the surprise of a burst and of newcomers in mass, as the fitted edges have it, and by what
        the digits of rare ends and of values are divided.
    misplaced_, misplaced_scale_
        With `misplaced`, the fitted detector, and how digits follow from how improbable it finds an edge. Else None.
    weights_, auc_
        With labels, how much the digits of each notion count, shape (n_notions,), and the AUC of the later third of the
        labels by weights learnt from the earlier ones, and without weights. None without labels, or if they are too few.

    See Also
    --------
    EdgeOutlierDetector : these notions and the paper's, by name.

    Examples
    --------
    Mallory was never seen before.

    >>> from tdlg import TemporalEdges
    >>> from tdlg.models.surprise import SurpriseDetector
    >>> edges = TemporalEdges([*["ann", "bob", "cat"] * 100, "mallory"], ["x", "y", "z"] * 100 + ["x"], range(301))
    >>> detector = SurpriseDetector(fast=10, slow=200).fit(edges)
    >>> detector.notions_of(edges[-1:]).round(1).tolist()
    [[1.1, 2.6, 0.0]]
    """

    digits_: Floats
    scales_: Floats
    misplaced: Any = None
    misplaced_: Any
    misplaced_scale_: Any
    plan_: SurprisePlan
    weights_: Floats | None
    auc_: tuple[float, float] | None

    def __init__(
        self,
        notions: Sequence[str] = NOTIONS,
        *,
        fast: float | Duration | None = None,
        slow: float | Duration | None = None,
        groups: Sequence[str] = (),
        contamination: float | Literal["auto"] = "auto",
        n_threads: int | None = None,
        misplaced: Any = None,
    ) -> None:
        self.notions = notions
        self.fast = fast
        self.slow = slow
        self.groups = groups
        self.contamination = contamination
        self.n_threads = n_threads
        self.misplaced = misplaced

    @property
    def names(self) -> tuple[str, ...]:
        """The notions that are judged."""
        return (*self.notions, *([] if self.misplaced is None else [MISPLACED]))

    @all_or_nothing
    def fit(self, X: Any, y: Any = None) -> Self:
        """Judge the edges X, each by those before it.

        Labels y, 1 for an outlier, 0 for none and missing where it is not known, weigh the notions against each other.
        """
        edges = self._edges(X, reset=True)
        if self.n_threads is not None:
            check_count(type(self).__name__, "n_threads", self.n_threads, 1)
        self._check_contamination()
        self._check_notions(edges)
        self.fast_, self.slow_ = self._widths(edges)
        self.edges_, self.plan_ = edges, SurprisePlan.of(edges, self.groups)
        found = self.judged()
        self.burst_scale_ = Calibration.of_scale(found.bursts, found.calm)
        self.rush_scale_ = Calibration.of_scale(found.rush.max(axis=1), found.calm)
        self.scales_, parts = np.ones(2), (_of_many(found.rare), _of_many(found.odd))
        self.scales_ = np.array([max(1.0, _often(part, found.calm) / OUTLIER) for part in parts])
        self.misplaced_, self.misplaced_scale_ = None, None
        if self.misplaced is not None:
            self.misplaced_ = clone(self.misplaced).fit(edges)
            self.misplaced_scale_ = Calibration.of_scale(_improbable(self.misplaced_.scores_), found.calm)
        self.digits_ = self.digits_of(found)
        self.weights_, self.auc_ = (None, None) if y is None else self._weighed(edges.with_label(y))
        self.scores_ = self.combined(self.digits_)
        self.offset_ = self._offset(-OUTLIER)
        return self

    def notions_of(self, X: Any) -> Floats:
        """The digits of each notion for edges, fitted or new, shape (n_edges, n_notions)."""
        check_is_fitted(self)
        return self._digits(X.edges if isinstance(X, Scored) else self._edges(X, reset=False))

    def overview(self) -> pl.DataFrame:
        """How many of the fitted edges each notion flags, how many no other flags, and which two to look at.

        Returns
        -------
        polars.DataFrame
            One row per notion: its name, "flagged" and "alone", and "examples", positions of the edge with the most digits
            and of the next one with other ends.
        """
        import polars as pl

        check_is_fitted(self)
        flagged = self.digits_ > -self.offset_
        alone = flagged & (flagged.sum(axis=1) == 1)[:, np.newaxis]
        best = [
            self._two(np.flatnonzero(column)[np.argsort(-of[column], kind="stable")])
            for column, of in zip(flagged.T, self.digits_.T, strict=True)
        ]
        counts = {"flagged": flagged.sum(axis=0), "alone": alone.sum(axis=0)}
        examples = pl.Series(best, dtype=pl.List(pl.Int64))
        return pl.DataFrame({"notion": list(self.names), **counts, "examples": examples})

    def _two(self, rows: NDArray[np.int64]) -> list[int]:
        """The first of some edges, and the next one with other ends."""
        src, dst = self.edges_.src_code[rows], self.edges_.dst_code[rows]
        return [*rows[:1].tolist(), *rows[(src != src[:1]) & (dst != dst[:1])][:1].tolist()]

    def explain(self, X: Any, top: int = 3, *, rows: Any = None) -> pl.DataFrame:
        """What makes each edge unusual, in words.

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
            One row per reason, with the columns of `PropagationClassifier.explain` except class; "what" is the notion and
            what was counted or compared, the score is minus that of `score_samples`, and the effect is a number of digits.
        """
        from tdlg.explain.outliers import explain_surprises

        check_is_fitted(self)
        edges = X.edges if isinstance(X, Scored) else self._edges(X, reset=False)
        return explain_surprises(self, edges, self.places(edges), top, rows=rows)

    def _digits(self, edges: TemporalEdges) -> Floats:
        at = self.places(edges)
        digits: Floats = self.digits_[at]
        new = at < 0
        if new.any():
            digits[new] = self.digits_of(self.judged(edges[new]), edges[new])[len(self.edges_) :]
        return digits

    def _continued(self, more: TemporalEdges | None = None) -> Scores:
        return self.combined(self.digits_of(self.judged(more), more))

    def _check_notions(self, edges: TemporalEdges) -> None:
        if not self.notions or not set(self.notions) <= set(NOTIONS):
            raise ParameterError(
                f"The 'notions' parameter of {type(self).__name__} must have some of {', '.join(NOTIONS)}. "
                f"Got {self.notions!r} instead.",
                parameter="notions",
            )
        check_groups(self, edges.feature_categories)

    def judged(self, more: TemporalEdges | None = None) -> Surprises:
        """How unusual the fitted edges are, and more edges after them."""
        unit = self.edges_.time_unit
        return self.plan_.judged(self.edges_, more, *widths_in_ticks(self, unit))

    def digits_of(self, found: Surprises, more: TemporalEdges | None = None) -> Floats:
        """The calibrated digits of each notion, (n_edges, n_notions); more : the edges after the fitted ones.

        Beside others, rare ends and values speak only from `LEAST` digits on, before they are scaled.
        """
        return np.column_stack([self._of_notion(notion, found, more) for notion in self.names])

    def _of_notion(self, notion: str, found: Surprises, more: TemporalEdges | None) -> Floats:
        if notion == "burst":
            return self.burst_scale_(found.bursts)
        if notion == MISPLACED:
            scores, model = self.misplaced_.scores_, self.misplaced_.model_
            if more is not None:
                scores = np.append(scores, model.decision_function(more))
            return self.misplaced_scale_(_improbable(scores))
        rare, odd = (LEAST if len(self.names) > 1 else 0.0) / self.scales_
        if notion == "value":
            return _largest(self.odd_digits(found), odd)
        return np.maximum(_largest(self.rare_digits(found), rare), self.rush_digits(found).max(axis=1))

    def rare_digits(self, found: Surprises, at: Any = slice(None)) -> Floats:
        """The digits of some edges by each kind of keys, fewer for so many chances."""
        return _of_many(found.rare[at]) / self.scales_[0]

    def rush_digits(self, found: Surprises, at: Any = slice(None)) -> Floats:
        """The calibrated digits of some edges whose source or destination is a newcomer."""
        return np.where(found.rush[at] > 0, self.rush_scale_(found.rush[at]), 0.0)

    def odd_digits(self, found: Surprises, at: Any = slice(None)) -> Floats:
        """The digits of the numbers of some edges, fewer for so many chances."""
        return _of_many(found.odd[at]) / self.scales_[1]

    def combined(self, digits: Floats) -> Scores:
        """The scores: minus the digits of the strongest notion, or of all by their weights."""
        return -digits.max(axis=1) if self.weights_ is None else -digits @ self.weights_

    def _weighed(self, edges: TemporalEdges) -> tuple[Floats, tuple[float, float] | None]:
        """The weights by all labels, and the AUC of the later third by those of the earlier labels, with and without."""
        rows = np.flatnonzero(edges.labelled)
        rows = rows[np.argsort(edges.ticks[rows], kind="stable")]
        labels = np.asarray(edges.label)[rows]
        classes = np.unique(labels)
        if len(classes) != 2:
            raise ParameterError(
                f"The labels 'y' must have two values, 1 for outliers and 0 for others, or be missing. "
                f"Got {classes.tolist()[:5]} instead.",
                parameter="y",
            )
        is_outlier, digits = labels == classes[positive_class(classes, labels)], self.digits_[rows]
        cut, judged = 2 * len(rows) // 3, None
        if all(0 < part.sum() < len(part) for part in (is_outlier[:cut], is_outlier[cut:])):
            weighed = digits[cut:] @ learnt_weights(digits[:cut], is_outlier[:cut])
            by_weights, by_strongest = (roc_auc_score(is_outlier[cut:], s) for s in (weighed, digits[cut:].max(axis=1)))
            judged = float(by_weights), float(by_strongest)
        return learnt_weights(digits, is_outlier), judged


def _often(digits: Floats, calm: Floats) -> float:
    """The digits that a share `OFTEN` of the edges of any short time exceed, or the `FEWEST` of a small table."""
    largest = digits.max(axis=1, initial=0.0)
    order = np.argsort(-largest, kind="stable")
    above = np.cumsum(calm[order]) / calm.sum()
    place = max(int(np.searchsorted(above, OFTEN)), FEWEST)
    return float(largest[order][min(place, len(order) - 1)])


def _improbable(scores: Scores) -> Floats:
    """Digits of the probability of edges that are real rather than synthetic, from its log-odds."""
    return NATURAL * np.logaddexp(0.0, -scores)


def _of_many(digits: Floats) -> Floats:
    return np.maximum(digits - np.log10(max(digits.shape[-1], 1)), 0.0)


def _largest(digits: Floats, least: float) -> Floats:
    largest: Floats = digits.max(axis=1, initial=0.0)
    return np.where(largest >= least, largest, 0.0)


def learnt_weights(digits: Floats, is_outlier: NDArray[np.bool_]) -> Floats:
    """How much the digits of each notion count, at least 0 and at most 1: those of a logistic regression."""
    from sklearn.linear_model import LogisticRegression

    model: Any = LogisticRegression(class_weight="balanced").fit(np.minimum(digits, MOST), is_outlier)
    weights = np.maximum(model.coef_[0], 0.0)
    return weights / weights.max() if weights.any() else np.ones(len(weights))


class RarityDetector(SurpriseDetector):
    """Find what is new or rare, without labels: sources, destinations, pairs, categories and hours that hardly ever come.

    The notion "rare" of `SurpriseDetector` alone: how rarely the source, the destination, the pair and each category were
    seen before, how rarely the source had this category or came at this hour of the day, and how many more newcomers than
    usual came of late. A young network is not punished: what is usual is compared with what it has seen so far.

    Parameters
    ----------
    fast, slow, contamination, n_threads
        See `SurpriseDetector`.

    Attributes
    ----------
    scores_, digits_, offset_, fast_, slow_, plan_, edges_
        See `SurpriseDetector`.

    Examples
    --------
    Mallory was never seen before.

    >>> from tdlg import RarityDetector, TemporalEdges
    >>> edges = TemporalEdges([*["ann", "bob", "cat"] * 400, "mallory"], ["x", "y", "z"] * 400 + ["x"], range(1201))
    >>> detector = RarityDetector().fit(edges)
    >>> detector.predict(edges[1198:])
    array([ 1,  1, -1])
    >>> detector.explain(edges, top=1, rows=1200)["reason"].item()
    "source 'mallory' was never seen among 1,200 earlier interactions"
    """

    notions = ("rare",)
    groups = ()

    def __init__(
        self,
        *,
        fast: float | Duration | None = None,
        slow: float | Duration | None = None,
        contamination: float | Literal["auto"] = "auto",
        n_threads: int | None = None,
    ) -> None:
        self.fast = fast
        self.slow = slow
        self.contamination = contamination
        self.n_threads = n_threads
