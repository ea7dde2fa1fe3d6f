"""PropagationFeatures: columns that describe what happened around each edge."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Literal, NamedTuple, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from tdlg.checks import check_choice, check_number
from tdlg.clock import times_of
from tdlg.edges import TemporalEdges
from tdlg.estimator import EdgesEstimator, all_or_nothing, known_labels
from tdlg.exceptions import EdgesError, ParameterError
from tdlg.linegraph.decay import Laplace
from tdlg.linegraph.events import Copies, own_columns
from tdlg.linegraph.product import default_threads
from tdlg.propagate.own_features import category_codes, fit_own, own_values
from tdlg.propagate.sums import decayed_sums
from tdlg.sampling.index import concatenate_edges, edge_index

__all__ = [
    "COUNT_UNIT",
    "MATCHES",
    "SCALES",
    "Evidence",
    "PropagationFeatures",
    "Query",
    "category_match",
    "without_dust",
]

Floats = NDArray[np.float64]

MATCHES = ("src", "dst", "src-dst", "dst-src", "pair", "reversed")
SCALES = (0.001, 0.03, 1.0)
OWN_MATCHES = ("src", "dst", "pair")  # matches whose neighbours an edge's own features are compared with
ANY_CLASS = -1
DUST = 1e-9  # smaller decayed sums are set to 0: remnants of edges long ago would be noise to a scaler
COUNT_UNIT = 0.01  # smallest decayed count that is distinguished from 0: the column is log(1 + count / COUNT_UNIT)
GAP_UNIT = 1e-6  # smallest gap that is distinguished from 0, in standard deviations of the times
NO_GAP = 100.0  # gap for an edge without a previous or next one, and upper limit, in the same unit


class Evidence(NamedTuple):
    """The edges and labels from which columns are made.

    Attributes
    ----------
    edges
        All edges that count, in one table.
    own
        Their features as numbers, (n_edges, n_own).
    targets
        Their labels minus the prior, (n_edges, n_targets); values of unlabelled edges are not used.
    labelled
        Mask of the known labels, (n_edges,).
    categories
        Integer codes of the features with many categories, (n_edges, n_features with many categories).
    label_ticks
        Times at which the labels became known, in ticks of the edges; None if each is known at the time of its edge.
    """

    edges: TemporalEdges
    own: Floats
    targets: Floats
    labelled: NDArray[np.bool_]
    categories: NDArray[np.int64]
    label_ticks: NDArray[Any] | None = None


class Query(NamedTuple):
    """Edges to score.

    Attributes
    ----------
    evidence
        The edges and labels from which their columns are made.
    at
        Their positions in the evidence, (n_edges,).
    own, categories
        Their features and categories as passed, (n_edges, n_own) and (n_edges, n_features with many categories). For a
        fitted edge from another table they may differ from those in the evidence.
    """

    evidence: Evidence
    at: NDArray[np.int64]
    own: Floats
    categories: NDArray[np.int64]

    def some(self, which: NDArray[np.int64]) -> Query:
        """Some of these edges, with the same evidence."""
        return Query(self.evidence, self.at[which], self.own[which], self.categories[which])


_LateLabels: TypeAlias = tuple[TemporalEdges, Floats, Floats]
_Around: TypeAlias = tuple[str, TemporalEdges, Floats, TemporalEdges, Floats, _LateLabels | None]


class PropagationFeatures(EdgesEstimator, TransformerMixin, BaseEstimator):
    """Columns that describe what happened around each edge: label rates, counts, times to the nearest edge.

    - For each match and time scale: the smoothed rate of each class (or mean of a numeric target) among the labelled edges
      around, minus the overall rate, and the log of the decayed count of all edges.
    - For each match: the log of the time to the previous and to the next edge.
    - With features or weights: the edge's own values, their decayed mean over the edges around with the same source,
      destination or both, and the deviation of the edge from that mean; for a categorical feature the share of the edge's
      own category.
    - A feature with more than 16 categories has indicators for the 16 most common ones, and the rates, counts and times
      above also over the edges of the same category.

    An edge never sees its own label. With `past_only`, medians, spreads and the most common categories are computed from
    the labelled edges alone, so that the edges to score do not influence them.

    Parameters
    ----------
    matches
        Which nodes of two edges must be the same: some of "src", "dst", "src-dst", "dst-src", "pair" and "reversed", see
        `LineGraph`. All six by default.
    scales
        Bandwidths of the Laplace decays: numbers in standard deviations of the fitted edges' times, or durations such as
        "7d". Default (0.001, 0.03, 1).
    past_only
        Whether only strictly earlier edges count; there is then no column for the time to the next edge. False by default.
    target
        "classes", "number", or "auto" (default): a number if the labels have decimals, else classes.
    smoothing
        Strength of smoothing: the number of pseudo-edges with the average label that are added to each rate. Default 1.
    n_threads
        Number of threads. By default all cores are used.

    Attributes
    ----------
    edges_, labels_
        The edges given to `fit`, and their labels; None without labels.
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
    >>> features = PropagationFeatures(matches=["src", "dst"], scales=[1.0])
    >>> features.fit_transform(edges).round(2)
    array([[ 0.15,  3.83, 18.42, 13.59,  0.  ,  2.3 , 18.42, 14.69],
           [-0.15,  3.83, 13.59, 18.42,  0.  ,  0.  , 18.42, 18.42],
           [ 0.  ,  0.  , 18.42, 18.42, -0.04,  2.3 , 14.69, 18.42]])
    >>> features.get_feature_names_out()[:4].tolist()
    ['src:rate@1', 'src:count@1', 'src:before', 'src:after']
    """

    def __init__(
        self,
        matches: Sequence[str] = MATCHES,
        *,
        scales: Sequence[float | str] = SCALES,
        past_only: bool = False,
        target: Literal["auto", "classes", "number"] = "auto",
        smoothing: float = 1.0,
        n_threads: int | None = None,
    ) -> None:
        self.matches = matches
        self.scales = scales
        self.past_only = past_only
        self.target = target
        self.smoothing = smoothing
        self.n_threads = n_threads

    @all_or_nothing
    def fit(self, X: Any, y: Any = None) -> Self:
        """Store the edges and their labels.

        Parameters
        ----------
        X
            The edges, labelled and unlabelled.
        y
            Labels, one value per edge. By default the labels of the edges, if they have any. Missing labels are unknown.
        """
        self._check()
        edges = self._edges(X, reset=True)
        self.edges_, self.labels_, self.labelled_ = edges, None, np.zeros(len(edges), bool)
        if y is not None or edges.labelled.any():
            self.labels_, self.labelled_ = known_labels(edges, y)[:2]
        self._fit_targets()
        self._fit_clock()
        past = edges[self.labelled_] if self.past_only and self.labelled_.any() else edges
        self.own_ = fit_own(past)
        return self

    def transform(self, X: Any) -> Floats:
        """Make the columns of fitted or new edges. New edges also count as unlabelled neighbours of each other.

        Parameters
        ----------
        X
            The edges. An edge of another table with the same source, destination and time as a fitted edge is treated as
            that edge, so it does not see that edge's label; its features are its own.
        """
        check_is_fitted(self)
        return self.columns(self.evidence(self._edges(X, reset=False)))

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:
        """Names such as "src:rate@0.03", "pair:before" and "dst:mean[amount]@1"."""
        check_is_fitted(self)
        return np.array(self._names(), object)

    # ---- evidence

    def evidence(self, edges: TemporalEdges, labels: NDArray[Any] | None = None) -> Query:
        """What is known when these edges are scored, and their positions in it: fitted edges first, then new ones.

        Parameters
        ----------
        edges
            The edges to score.
        labels
            Their labels, if they become known over time and are to be used from then on; labels given to `fit` stay.
        """
        at = self._find(edges)
        new = np.flatnonzero(at < 0)
        n_fitted = len(self.edges_)
        at[new] = n_fitted + np.arange(new.size)
        known = self.labelled_
        context, targets = self.edges_, self._targets_of(self.labels_, known)
        own, categories = self._own(context), self._categories(context)
        values = (own[at], categories[at]) if edges.same_table(context) and not new.size else self._own_of(edges)
        if new.size:
            added, copies = edges[new], Copies(context)
            places = np.append(copies.at, len(copies.distinct) + np.arange(new.size))
            context = concatenate_edges(copies.distinct, added)[places]  # copies of an edge stay one edge
            own, categories = (
                np.vstack([mine, theirs[new]]) for mine, theirs in zip((own, categories), values, strict=True)
            )
            targets = np.vstack([targets, np.zeros((new.size, targets.shape[1]))])
            known = np.append(known, np.zeros(new.size, bool))
        if labels is not None:
            self._check_classes(edges.with_label(labels))
            is_known = edges.with_label(labels).labelled & ~known[at]
            targets[at[is_known]] = self._targets_of(labels, is_known)[is_known]
            known = known.copy()
            known[at[is_known]] = True
        return Query(Evidence(context, own, targets, known, categories), at, *values)

    def _check_classes(self, edges: TemporalEdges) -> None:
        """Refuse labels that are not among the fitted ones."""
        if self.classes_ is None or edges.label is None:
            return
        found = edges.label[edges.labelled]
        strange = found[~np.isin(found, self.classes_)]
        if len(strange):
            raise EdgesError(
                f"The edges have the label {strange[0]!r}, which is not one of those in fit(): {self.classes_.tolist()}. "
                "Pass the same labels as in fit(), or no labels."
            )

    def _find(self, edges: TemporalEdges) -> NDArray[np.int64]:
        """Position of each edge among the fitted edges; -1 for new edges."""
        if not edges.same_table(self.edges_):
            return edge_index(self.edges_).find_each(edges)
        return own_columns(edges, self.edges_)

    @property
    def _with_many(self) -> list[str]:
        """Names of the features that have too many categories for one indicator per category."""
        return [column.name for column in self.own_ if column.has_more]

    def _own(self, edges: TemporalEdges) -> Floats:
        return own_values(edges, self.own_)

    def _categories(self, edges: TemporalEdges) -> NDArray[np.int64]:
        return category_codes(edges, self.edges_, self._with_many)

    def _own_of(self, edges: TemporalEdges) -> tuple[Floats, NDArray[np.int64]]:
        return self._own(edges), self._categories(edges)

    # ---- what is fitted

    def _fit_targets(self) -> None:
        """Set `classes_`, `prior_` and `target_spread_` from the known labels."""
        self.classes_, self.prior_, self.target_spread_ = None, np.empty(0), 1.0
        if self.labels_ is None or not self.labelled_.any():
            return
        labels = self.labels_[self.labelled_]
        is_number = labels.dtype.kind == "f" and self.target == "auto" and bool((labels % 1 != 0).any())
        if self.target == "number" or is_number:
            numbers = labels.astype(np.float64)
            self.prior_, self.target_spread_ = np.array([numbers.mean()]), float(numbers.std() or 1.0)
            return
        self.classes_ = np.unique(labels)
        n_classes = len(self.classes_)
        self.prior_ = np.array([(labels == label).mean() for label in self.classes_[int(n_classes == 2) :]])

    def _targets_of(self, labels: NDArray[Any] | None, known: NDArray[np.bool_]) -> Floats:
        """Labels as numbers minus their prior, (n_edges, n_targets); 0 where unknown."""
        targets = np.zeros((len(known), len(self.prior_)))
        if labels is None or not len(self.prior_):
            return targets
        if self.classes_ is None:
            targets[known] = labels[known].astype(np.float64)[:, np.newaxis]
        else:
            targets[known] = labels[known][:, np.newaxis] == self.classes_[-len(self.prior_) :]
        targets[known] = (targets[known] - self.prior_) / self.target_spread_
        return targets

    def _fit_clock(self) -> None:
        """Fix the bandwidths of the decays on the times of the fitted edges; if all times are equal, nothing decays."""
        edges = self.edges_
        if self.past_only and self.labelled_.any():  # so that later edges have no influence
            labelled = edges[self.labelled_]
            edges = labelled if float(np.ptp(labelled.ticks)) > 0.0 else edges
        if float(np.ptp(edges.ticks)) == 0.0:
            self.decays_, self.scale_names_ = [], ["all"]
            return
        decays = [Laplace(scale) if isinstance(scale, str) else Laplace(relative=float(scale)) for scale in self.scales]
        self.decays_ = [decay.freeze(edges) for decay in [*decays, Laplace(relative=1.0)]]  # the last is for gaps
        self.scale_names_ = [scale if isinstance(scale, str) else f"{float(scale):g}" for scale in self.scales]

    def _widths(self, time_unit: str | None) -> tuple[Floats, float]:
        """Bandwidths of the decays, and the standard deviation of the times, in ticks."""
        if not self.decays_:
            return np.array([np.inf]), 1.0
        *widths, spread = (decay.parts(time_unit)[0].bandwidth for decay in self.decays_)
        return np.array(widths), spread

    # ---- columns

    def _names(self) -> list[str]:
        return [name for name, _ in self._described()]

    def columns_of_class(self, code: int) -> NDArray[np.int64]:
        """Positions of the columns that are about this class or about no class."""
        return np.array([k for k, (_, of) in enumerate(self._described()) if of in (code, ANY_CLASS)])

    def _described(self) -> list[tuple[str, int]]:
        """The name of each column, and the class that it is about, in the order of `columns`."""
        rates = [("mean" if self.classes_ is None else "rate", ANY_CLASS)] * (len(self.prior_) == 1)
        rates = rates or [(f"rate[{c}]", k) for k, c in enumerate([] if self.classes_ is None else self.classes_)]
        around, own = [], []
        for column in self.own_:
            name = column.name
            around += [f"share[{name}]"] if column.categories else [f"mean[{name}]", f"deviation[{name}]"]
            own += [f"{name}={category}" for category in column.categories] or [name]
        columns = []
        for match in [*self.matches, *map(category_match, self._with_many)]:
            of_scale = [*rates, ("count", ANY_CLASS)]
            of_scale += [(name, ANY_CLASS) for name in around if match in OWN_MATCHES]
            columns += [(f"{match}:{name}@{scale}", of) for scale in self.scale_names_ for name, of in of_scale]
            columns += [(f"{match}:{name}", ANY_CLASS) for name in ("before", "after")[: 1 if self.past_only else 2]]
        return columns + [(name, ANY_CLASS) for name in own]

    def columns(self, query: Query) -> Floats:
        """Make the columns of edges to score."""
        evidence, at, own, _ = query
        everything = len(at) == len(evidence.edges) and np.array_equal(at, np.arange(len(at)))
        rows = evidence.edges if everything else evidence.edges[at]  # the same edges share one layout
        labels = np.hstack([np.ones((len(evidence.own), 1)), evidence.targets]) * evidence.labelled[:, np.newaxis]
        values = np.hstack([np.ones((len(labels), 1)), labels, np.isfinite(evidence.own), np.nan_to_num(evidence.own)])
        names = self._names()
        columns = np.empty((len(at), len(names)))
        columns[:, len(names) - own.shape[1] :] = np.nan_to_num(own)
        late_labels = self._late_labels(evidence)
        around = {match: (match, rows, own, evidence.edges, values, late_labels) for match in self.matches}
        for k, name in enumerate(self._with_many):
            around[category_match(name)] = self._around_category(query, k, values[:, : labels.shape[1] + 1])

        def fill(match: str) -> None:
            mine = [k for k, name in enumerate(names) if name.startswith(f"{match}:")]
            self._fill(*around[match], columns[:, mine[0] : mine[-1] + 1])

        with ThreadPoolExecutor(min(self.n_threads or default_threads(), len(around))) as pool:
            list(pool.map(fill, around))  # the walks release the interpreter's lock
        return columns

    def _around_category(self, query: Query, k: int, values: Floats) -> _Around:
        """Arguments of `_fill` for the k-th feature with many categories, with the categories as source nodes."""
        evidence, at, own, categories = query
        changed = np.flatnonzero(evidence.categories[at, k] != categories[:, k])  # fitted edges with another category
        copies = Copies(evidence.edges)
        first = np.unique(copies.at, return_index=True)[1]
        code = np.concatenate([evidence.categories[first, k], categories[changed, k]])
        time = np.concatenate([copies.distinct.time, evidence.edges[at[changed]].time])
        table = TemporalEdges(code, np.zeros(len(code), np.int64), time, bipartite=True)
        places = copies.at[at]
        places[changed] = len(first) + np.arange(len(changed))
        edges = table[copies.at]
        late = self._late_labels(evidence._replace(edges=edges))
        return "src", table[places], own[:, :0], edges, values, late

    def _fill(
        self,
        match: str,
        rows: TemporalEdges,
        own: Floats,
        edges: TemporalEdges,
        values: Floats,
        late_labels: _LateLabels | None,
        out: Floats,
    ) -> None:  # out: out
        """Write the columns of one match.

        The columns of `values` are: 1; whether the label is known, and the targets; whether each feature is known, and the
        features.
        """
        from tdlg._kernels.scales import log_gaps, rates_and_counts

        widths, spread = self._widths(edges.time_unit)
        n_targets, n_own = len(self.prior_), own.shape[1] if match in OWN_MATCHES else 0
        values = values if n_own else values[:, : 2 + n_targets]
        sums = decayed_sums(rows, edges, values, match, widths, past_only=self.past_only)
        count, around, present, total = np.split(sums.values, np.cumsum([1, 1 + n_targets, n_own]), axis=2)
        if late_labels is not None:
            known, labels, age = late_labels
            around = decayed_sums(rows, known, labels, match, widths, past_only=True, age=age).values
        beside = self._beside(own, without_dust(total) / (without_dust(present) + self.smoothing)) if n_own else []
        width = n_targets + 1 + len(beside)
        rates_and_counts(count[..., 0], around, self.smoothing, COUNT_UNIT, DUST, width, out)
        for k, column in enumerate(beside):
            out[:, n_targets + 1 + k : width * widths.size : width] = column[..., 0]
        for k, gap in enumerate((sums.before,) if self.past_only else (sums.before, sums.after)):
            log_gaps(gap, spread, NO_GAP, GAP_UNIT, out[:, width * widths.size + k])

    def _beside(self, own: Floats, mean: Floats) -> list[Floats]:
        """Compare an edge's own features with those around it: mean and deviation of a number, share of a category."""
        columns, start = [], 0
        for column in self.own_ if own.shape[1] else ():
            stop = start + column.width
            mine, theirs = own[:, np.newaxis, start:stop], mean[..., start:stop]
            columns += (
                [(mine * theirs).sum(axis=2, keepdims=True)]
                if column.categories
                else [theirs, np.nan_to_num(mine - theirs)]
            )
            start = stop
        return columns

    def _late_labels(self, evidence: Evidence) -> _LateLabels | None:
        """The labelled edges with the times when their labels became known, their values, and their ages at that time."""
        if evidence.label_ticks is None:
            return None
        known_at = np.maximum(evidence.label_ticks, evidence.edges.ticks)
        # labels that become known after all edges are left out: their times may be far beyond all others
        known = np.flatnonzero(evidence.labelled & (known_at < evidence.edges.ticks.max()))
        edges, ticks = evidence.edges[known], known_at[known]
        time = times_of(ticks, edges.time_unit)
        values = np.hstack([np.ones((len(known), 1)), evidence.targets[known]])
        age = (ticks - edges.ticks).astype(np.float64)
        return TemporalEdges(edges.src, edges.dst, time, bipartite=edges.bipartite), values, age

    def _check(self) -> None:
        """Refuse invalid parameters."""
        name = type(self).__name__
        known = all(match in MATCHES for match in self.matches)
        if not len(self.matches) or not known or len(set(self.matches)) < len(self.matches):
            raise ParameterError(
                f"The 'matches' parameter of {name} must be some of {', '.join(MATCHES)}, each once. "
                f"Got {self.matches!r} instead."
            )
        if not len(self.scales):
            raise ParameterError(
                f"The 'scales' parameter of {name} must have at least one value. Got {self.scales!r} instead."
            )
        check_choice(name, "target", self.target, ("auto", "classes", "number"))
        check_number(name, "smoothing", self.smoothing)


def category_match(feature: str) -> str:
    """The name of the match of edges that have the same category of a feature."""
    return f"category[{feature}]"


def without_dust(sums: Floats) -> Floats:
    """Set tiny sums to 0, in place: remnants of edges long ago would be noise to a scaler."""
    sums[np.abs(sums) < DUST] = 0.0
    return sums
