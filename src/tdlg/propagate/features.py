"""PropagationFeatures: columns that describe what happened around each edge."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, Self, get_args

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from tdlg.checks import check_choice, check_number
from tdlg.estimator import EdgesEstimator, all_or_nothing, known_labels
from tdlg.exceptions import ParameterError
from tdlg.linegraph.decay import Decay, time_spread
from tdlg.linegraph.match import NODE_MATCHES, SAME_ENDS
from tdlg.propagate.columns import gather_evidence, table_columns
from tdlg.propagate.plan import ColumnPlan, OwnColumn, TwoEnds, choose_scales, fit_own, plan_decays
from tdlg.tables.rows import kept_rows

Floats = NDArray[np.float64]
Scales = Sequence[float | str] | Literal["auto"]
Decays = tuple[tuple[Decay, ...], tuple[str, ...], tuple[str, ...]]  # and names, see `plan_decays`
Targets = tuple[NDArray[Any] | None, tuple[float, ...], float]  # classes, prior and spread


class PropagationFeatures(EdgesEstimator, TransformerMixin, BaseEstimator):
    """Columns that describe what happened around each edge: label rates, counts, times to the nearest edge.

    - For each match and time scale: the smoothed rate of each class (or mean of a numeric target) among the labelled edges
      around, minus the overall rate; the log of the decayed number of known labels, and of all edges.
    - For each match: the log of the time to the previous and to the next edge.
    - With features or weights: the edge's own values, and how they compare with those of the edges around with the same
      source, destination or both. For a number: the decayed mean; the deviation from the mean; the deviation in standard
      deviations ("score"); for amounts above 0 the log of the ratio to the mean. For a category: its share. Of a
      feature with at most 16 categories, an edge whose category is missing or was not fitted has the share of a typical one.
    - For a number also how far it is above the mean of all earlier ones ("unusual", in logs for amounts), and the decayed
      mean of how far the numbers of the edges around were more than 1 above that at their time ("lately"). No label is used.
    - With `past_only` and classes: how recently an edge with a known label of the rarest class happened ("recency"), and how
      many edges came since ("since"): a card that was defrauded may have been replaced.
    - A feature with more than 16 categories has indicators for the 16 most common ones, and the rates, counts and times
      above also over the edges of the same category, of the same source and category, and of the same destination and
      category.
    - With labels: what is known about both ends together, such as how nodes that agree with the source labelled the
      destination, see `tdlg.propagate.two_ends`.

    An edge never sees its own label. With `past_only`, medians, spreads and the most common categories are computed from
    the labelled edges alone, so that the edges to score do not influence them.

    Parameters
    ----------
    matches
        Which nodes of two edges must be the same: some of "src", "dst", "src-dst", "dst-src", "pair" and "reversed", see
        `LineGraph`. By default all six. If no node is at both ends of the fitted edges, as with two types of nodes, only
        "src", "dst" and "pair" can find something, and the others are left out.
    scales
        Bandwidths of the Laplace decays: numbers in standard deviations of the fitted edges' times, or durations such as
        "7d". By default "auto": from 1 standard deviation down to the usual time between two edges of a node, each a
        quarter of the one before, four to six in number.
    past_only
        Whether only strictly earlier edges count; there is then no column for the time to the next edge. False by default.
    target
        "classes", "number", or "auto" (default): a number if the labels have decimals, else classes.
    smoothing
        Strength of smoothing: the number of pseudo-edges with the average label that are added to each rate. Default 1.
    two_ends
        Which columns about both ends to make: "all" (default), "partners" (those that suit forecasts) or "none".
    calendar
        Whether the time of day, in hours, and the day of the week, 0 for Monday, are columns too. The times must be
        datetimes, and are in UTC. False by default.
    as_is
        Names of numeric features that become columns unchanged, missing values included, and are not compared with those
        around. None by default.
    n_threads
        Number of threads. By default all cores are used.

    Attributes
    ----------
    edges_, labels_
        The edges given to `fit`, and their labels; None without labels.
    scale_names_
        The time scales as they stand in the names of the columns. With scales="auto" and datetimes they are durations such
        as "13d", else numbers in standard deviations of the times.
    classes_
        The distinct labels, sorted, if the target is classes.
    prior_
        The value of a rate where nothing is known: the share of each class that has a rate, or the mean of the numbers.
        It is the same for all edges, so an edge's own label changes the edge's columns only as it changes those of all
        edges, by at most 1 / number of labels.

    Examples
    --------
    >>> from tdlg import PropagationFeatures, TemporalEdges
    >>> edges = TemporalEdges(["a", "a", "b"], ["x", "y", "x"], [0.0, 1.0, 3.0], label=[0, 1, None])
    >>> features = PropagationFeatures(matches=["src"], scales=[1.0], two_ends="none")
    >>> features.fit_transform(edges).round(2)
    array([[ 0.15,  3.83,  3.83, 16.81, 13.59],
           [-0.15,  3.83,  3.83, 13.59, 16.81],
           [ 0.  ,  0.  ,  0.  , 16.81, 16.81]])
    >>> features.get_feature_names_out().tolist()
    ['src_rate_1', 'src_known_1', 'src_count_1', 'src_before', 'src_after']
    """

    def __init__(
        self,
        matches: Sequence[str] = NODE_MATCHES,
        *,
        scales: Scales = "auto",
        past_only: bool = False,
        target: Literal["auto", "classes", "number"] = "auto",
        smoothing: float = 1.0,
        two_ends: TwoEnds = "all",
        calendar: bool = False,
        as_is: Sequence[str] = (),
        n_threads: int | None = None,
    ) -> None:
        self.matches = matches
        self.scales = scales
        self.past_only = past_only
        self.target = target
        self.smoothing = smoothing
        self.two_ends = two_ends
        self.calendar = calendar
        self.as_is = as_is
        self.n_threads = n_threads

    @all_or_nothing
    def fit(self, X: Any, y: Any = None, *, label_time: Any = None, label_delay: Any = None) -> Self:
        """Store the edges and their labels.

        Parameters
        ----------
        X
            The edges, labelled and unlabelled.
        y
            Labels, one value per edge. By default the labels of the edges, if they have any. Missing labels are unknown.
        label_time
            With `past_only`, the times at which the labels became known, one value per edge: a label counts from then on.
            By default each label is known at the time of its edge; see `PropagationClassifier.fit`.
        label_delay
            Instead of `label_time`, the time from each edge to its label: a duration such as "7d" if the times are
            datetimes, else a number.
        """
        check_features(self)
        self._check_label_times(label_time, label_delay)
        edges = self._edges(X, reset=True)
        self.edges_, self.labels_, self.labelled_ = edges, None, np.zeros(len(edges), bool)
        if y is not None:
            self.labels_, self.labelled_ = known_labels(edges, y)[:2]
        elif edges.labelled.any():
            self.labels_, self.labelled_ = edges.label, edges.labelled
        dated = edges
        if y is not None or label_time is not None or label_delay is not None:
            dated = edges.with_label(self.labels_, label_time, label_delay)
        self.label_ticks_ = dated.label_ticks if self.past_only else None
        some = kept_rows(self.labelled_)
        is_past = self.past_only and self.labelled_.any()  # later ones have no influence
        past = some[self.labelled_[some]] if is_past else some
        own = tuple(fit_own(edges, self.calendar, self.as_is, past))
        self.plan_ = self.make_plan(self._decays(some, past), own, self._targets(), shared=edges.shares_nodes)
        return self

    def make_plan(self, decays: Decays, own: tuple[OwnColumn, ...], targets: Targets, *, shared: bool) -> ColumnPlan:
        """The columns, from what was found in edges.

        decays : those of `plan_decays`; targets : the classes, the prior and the spread of the targets; shared : whether
        some nodes are at both ends, else matches of one with the other are left out.
        """
        matches = tuple(useful_matches(self.matches, shared=shared))
        of_past = bool(self.past_only), float(self.smoothing)
        return ColumnPlan(matches, *decays, own, *targets, *of_past, self.two_ends, not shared)

    def transform(self, X: Any) -> Floats:
        """Make the columns of fitted or new edges. New edges also count as unlabelled neighbours of each other.

        Parameters
        ----------
        X
            The edges. An edge of another table with the same source, destination and time as a fitted edge is treated as
            that edge, so it does not see that edge's label; its features are its own.
        """
        check_is_fitted(self)
        query = gather_evidence(self, self._edges(X, reset=False))
        return table_columns(self.plan_, query, n_threads=self.n_threads)

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:
        """Names such as "src_rate_13d", "pair_before" and "dst_mean_amount_1"; see `scale_names_` for the last part.

        They hold letters, digits and _.+=- only, which LightGBM and XGBoost accept; other characters become "_".
        """
        check_is_fitted(self)
        return np.array(self.plan_.names(), object)

    @property
    def classes_(self) -> NDArray[Any] | None:
        """The distinct labels, sorted; None for numbers."""
        return self.plan_.classes

    @property
    def prior_(self) -> Floats:
        """The value of a rate where nothing is known."""
        return np.array(self.plan_.prior)

    @property
    def scale_names_(self) -> list[str]:
        """The time scales as they stand in the names of the columns."""
        return list(self.plan_.scale_names)

    def _targets(self) -> Targets:
        """The classes, the prior and the spread of the targets, from the known labels."""
        if self.labels_ is None or not self.labelled_.any():
            return None, (), 1.0
        labels = self.labels_[self.labelled_]
        is_number = labels.dtype.kind == "f" and self.target == "auto" and bool((labels % 1 != 0).any())
        if self.target == "number" or is_number:
            numbers = labels.astype(np.float64)
            return None, (float(numbers.mean()),), float(numbers.std() or 1.0)
        return class_targets(*np.unique(labels, return_counts=True))

    def _decays(self, some: NDArray[np.int64], past: NDArray[np.int64]) -> Decays:
        """The decays and their names, from the times of past edges or, if these are equal, of some of all edges."""
        edges = self.edges_
        if self.past_only and self.labelled_.any() and np.ptp(edges.ticks[past]) > 0:
            edges = edges[self.labelled_]  # of which the gaps of nodes need all
        else:
            past = some
        ticks, is_auto = self.edges_.ticks[past], isinstance(self.scales, str)
        if float(np.ptp(ticks)) == 0.0:
            return plan_decays([], 0.0, None, as_durations=False)
        spread = time_spread(ticks)
        scales = choose_scales(edges, spread, len(self.edges_)) if is_auto else self.scales
        return plan_decays(scales, spread, edges.time_unit, as_durations=is_auto)

    def _check_label_times(self, label_time: Any, label_delay: Any) -> None:
        given = {"label_time": label_time, "label_delay": label_delay}
        name = next((name for name, value in given.items() if value is not None), None)
        if name is not None and not self.past_only:
            raise ParameterError(
                f"The {name!r} says when labels became known, which counts only if columns are made of the past.",
                "Use past_only=True, or leave it out.",
                parameter=name,
            )


def class_targets(classes: NDArray[Any], counts: NDArray[np.int64]) -> Targets:
    """The classes, the prior and the spread of the targets, given how often each class occurs; two classes have one rate."""
    return classes, tuple((counts / counts.sum())[int(len(counts) == 2) :].tolist()), 1.0


def useful_matches(matches: Sequence[str], *, shared: bool) -> list[str]:
    """The matches that can find something, or all if none can: matches across need nodes that are at both ends."""
    return [match for match in matches if shared or match in SAME_ENDS] or list(matches)


def check_features(features: PropagationFeatures) -> None:
    """Refuse invalid parameters."""
    name = type(features).__name__
    known = all(match in NODE_MATCHES for match in features.matches)
    if not len(features.matches) or not known or len(set(features.matches)) < len(features.matches):
        raise ParameterError(
            f"The 'matches' parameter of {name} must be some of {', '.join(NODE_MATCHES)}, each once. "
            f"Got {features.matches!r} instead.",
            parameter="matches",
        )
    is_text = isinstance(features.scales, str)
    is_list = isinstance(features.scales, Sequence | np.ndarray) and not is_text and len(features.scales)
    if not is_list and not (is_text and features.scales == "auto"):
        raise ParameterError(
            f"The 'scales' parameter of {name} must be 'auto' or a list of at least one number or duration. "
            f"Got {features.scales!r} instead.",
            "Pass scales=['30d', '7d'].",
            parameter="scales",
        )
    check_choice(name, "two_ends", features.two_ends, get_args(TwoEnds))
    check_choice(name, "target", features.target, ("auto", "classes", "number"))
    check_number(name, "smoothing", features.smoothing)
