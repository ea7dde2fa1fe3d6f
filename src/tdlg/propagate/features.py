"""PropagationFeatures: columns that describe what happened around each edge, of a table in memory.

All matches walk the same edges; columns about both ends together and the edges' own features are added.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Literal, NamedTuple, Self, get_args

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from tdlg.checks import check_choice, check_number, refusal
from tdlg.clock import common_clock, rounded_up
from tdlg.edges import TemporalEdges, check_alike
from tdlg.estimator import EdgesEstimator, all_or_nothing, known_labels
from tdlg.exceptions import EdgesError, ParameterError
from tdlg.linegraph.decay import Decay, time_spread
from tdlg.linegraph.events import Copies, check_span, own_columns
from tdlg.linegraph.match import MATCHES, NODE_MATCHES, SAME_ENDS, match_keys
from tdlg.memory import default_threads
from tdlg.propagate.match import Keyed, Labels, MatchSums
from tdlg.propagate.plan import (
    ColumnPlan,
    Floats,
    OwnColumn,
    Positions,
    TwoEnds,
    category_codes,
    category_numbers,
    choose_scales,
    fit_own,
    levels,
    own_values,
    plan_decays,
    to_sum,
)
from tdlg.propagate.two_ends import two_end_columns
from tdlg.tables.rows import kept_rows

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
        datetimes, and are in UTC. "auto": if they are datetimes, and the fitted ones span two weeks. False by default.
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
        calendar: bool | Literal["auto"] = False,
        n_threads: int | None = None,
    ) -> None:
        self.matches = matches
        self.scales = scales
        self.past_only = past_only
        self.target = target
        self.smoothing = smoothing
        self.two_ends = two_ends
        self.calendar = calendar
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
        own = tuple(fit_own(edges, self.calendar, past))
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
        return table_columns(self.plan_, gather_evidence(self, self._edges(X, reset=False)), n_threads=self.n_threads)

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
        raise refusal(name, "matches", f"some of {', '.join(NODE_MATCHES)}, each once", features.matches)
    is_text = isinstance(features.scales, str)
    is_list = isinstance(features.scales, Sequence | np.ndarray) and not is_text and len(features.scales)
    if not is_list and not (is_text and features.scales == "auto"):
        wanted = "'auto' or a list of at least one number or duration"
        raise refusal(name, "scales", wanted, features.scales, "Pass scales=['30d', '7d'].")
    check_choice(name, "two_ends", features.two_ends, get_args(TwoEnds))
    if features.calendar not in (True, False, "auto"):
        raise refusal(name, "calendar", "True, False or 'auto'", features.calendar)
    check_choice(name, "target", features.target, ("auto", "classes", "number"))
    check_number(name, "smoothing", features.smoothing)


# ---- the columns of a table in memory


def table_columns(
    plan: ColumnPlan, query: Query, groups: Sequence[tuple[Positions, Any]] | None = None, n_threads: int | None = None
) -> Floats:
    """The columns of edges to score, (n_rows, n_columns).

    groups : some of the edges, by their positions in the query, and the time in ticks before which labels had to be known to
    count; None if all do. The rows of the result are those of the groups. By default one group of all edges.
    """
    evidence = query.evidence
    groups = [(np.arange(len(query.at)), None)] if groups is None else groups
    check_span(evidence.edges.ticks)
    table = _Table(plan, query)
    ends = np.cumsum([0, *(len(rows) for rows, _ in groups)])
    lines = np.empty((len(plan.columns), ends[-1]))  # the rows of a column side by side
    *starts, both, own, _ = plan.starts.tolist()
    mine = [query.own[rows] for rows, _ in groups]

    def fill(match: str, first: int, stop: int) -> None:
        sums = table.sums(match, groups)
        for group, start in enumerate(ends[:-1].tolist()):
            sums.write(group, mine[group], start, lines[first:stop])

    def fill_two_ends(group: int) -> None:
        rows, before = groups[group]
        labelled = evidence.labelled if before is None else evidence.labelled & (evidence.known_at < before)
        known = evidence._replace(labelled=labelled)
        lines[both:own, ends[group] : ends[group + 1]] = two_end_columns(plan, known, query.at[rows], n_threads).T

    work = [partial(fill_two_ends, group) for group in range(len(groups) if plan.has_two_ends else 0)]
    work += [partial(fill, *one) for one in zip(plan.all_matches, starts, [*starts[1:], both], strict=True)]
    for group, values in enumerate(mine):
        lines[own:, ends[group] : ends[group + 1]] = plan.compressed(values).T
    if n_threads == 1:
        for do in work:
            do()
    else:
        with ThreadPoolExecutor(n_threads or default_threads()) as pool:  # the walks release the interpreter's lock
            for job in [pool.submit(do) for do in work]:
                job.result()
    return lines.T


class _Table:
    """Distinct edges with what is summed over them, by each match; a copy of an edge counts again."""

    def __init__(self, plan: ColumnPlan, query: Query) -> None:
        evidence, network = query.evidence, query.evidence.edges
        self._plan, self._query, self._network = plan, query, network
        self._codes = network.distinct(network.src), network.distinct(network.dst)
        self._ticks = network.distinct(network.ticks)
        self._rows = network.place[query.at]
        self._is_all = np.array_equal(self._rows, np.arange(len(network.first)))
        count = np.ones((len(network.place), 1))
        self._values = network.added(np.hstack([count, to_sum(evidence.own, plan.own)]))
        self._labels, self._levels = self._labels_of(evidence), levels(evidence.own, plan.own)

    def _labels_of(self, evidence: Evidence) -> Labels:
        values = np.hstack([np.ones((len(evidence.labelled), 1)), evidence.targets])
        is_rare = self._plan.is_rare(evidence.targets)
        if evidence.label_ticks is not None:
            known = np.flatnonzero(evidence.labelled)
            return Labels(self._network.place[known], values[known], is_rare[known], evidence.known_at[known])
        together = self._network.added(np.column_stack([values, is_rare]) * evidence.labelled[:, np.newaxis])
        cols = np.flatnonzero(together[:, 0])
        return Labels(cols, together[cols, :-1], together[cols, -1] > 0.0)

    def sums(self, match: str, groups: Sequence[tuple[Positions, Any]]) -> MatchSums:
        """The sums of a match at the rows of groups."""
        plan, ticks = self._plan, self._ticks
        row_keys, col_keys, n_keys = self._keys(match)
        is_square = self._is_all and row_keys is col_keys
        keyed = Keyed(row_keys, ticks[self._rows], col_keys, ticks, n_keys, None if is_square else self._rows)
        values = self._values if plan.compares(match) else np.ascontiguousarray(self._values[:, :1])
        of_edges = self._levels, self._network.place
        return MatchSums(plan, match, self._network.time_unit, keyed, values, self._labels, groups, *of_edges)

    def _keys(self, match: str) -> tuple[NDArray[np.int32], NDArray[np.int32], int]:
        """Keys of the rows and of the columns, one and the same if the rows are the columns; and their number."""
        if match not in self._plan.category_matches:
            row_keys, col_keys, n_keys = match_keys(self._codes, self._codes, self._network.n_nodes, match)
            row_keys, col_keys = row_keys[:, 0], col_keys[:, 0]
            if self._is_all and MATCHES[match].same_ends:
                return col_keys, col_keys, n_keys
            return row_keys[self._rows], col_keys, n_keys
        from tdlg._kernels.layout import factorise_integers

        feature, end = self._plan.category_matches[match]
        cols = self._query.evidence.categories[self._network.first, feature]
        rows = self._query.categories[:, feature]
        if end:
            nodes = self._codes[("src", "dst").index(end)].astype(np.int64)
            cols, rows = cols * self._network.n_nodes + nodes, rows * self._network.n_nodes + nodes[self._rows]
        same = self._is_all and np.array_equal(cols, rows)
        distinct, col_keys, row_keys = factorise_integers(cols, rows[:0] if same else rows)
        return (col_keys if same else row_keys), col_keys, len(distinct)


# ---- what is known when edges are scored


class Network(NamedTuple):
    """Edges as arrays: codes of nodes, times in ticks, and which of them are one edge."""

    src: NDArray[np.int32]
    dst: NDArray[np.int32]
    ticks: NDArray[Any]
    time_unit: str | None
    n_nodes: int  # all codes are below it
    first: Positions  # positions of the distinct edges, each in its first copy
    place: Positions  # the number of each edge among these, (n_edges,)

    @classmethod
    def of(cls, edges: TemporalEdges, new: TemporalEdges | None = None) -> Network:
        """Edges, and perhaps new ones after them, none of which is a copy; their nodes may be new too."""
        src, dst, ticks, unit, n_nodes = edges.src_code, edges.dst_code, edges.ticks, edges.time_unit, edges.n_nodes
        place, n = Copies(edges).place, len(edges)
        first = np.arange(n) if Copies(edges).none else np.unique(place, return_index=True)[1]
        if new is not None:
            check_alike((edges, new))
            known = zip(edges.codes_of(new), (new.src_code, new.dst_code), strict=True)
            codes = [np.where(code < 0, n_nodes + own, code).astype(np.int32) for code, own in known]
            src, dst, n_nodes = np.append(src, codes[0]), np.append(dst, codes[1]), n_nodes + new.n_nodes
            *both, unit = common_clock(ticks, unit, new.ticks, new.time_unit)
            ticks = np.concatenate(both)
            place = np.append(place, len(first) + np.arange(len(new)))
            first = np.append(first, n + np.arange(len(new)))
        return cls(src, dst, ticks, unit, n_nodes, first, place)

    @property
    def has_copies(self) -> bool:
        """Whether some edges are one."""
        return len(self.first) < len(self.place)

    def distinct(self, values: NDArray[Any]) -> NDArray[Any]:
        """What the distinct edges have of values, (n_edges, ...), which are the same for all copies."""
        return values[self.first] if self.has_copies else values

    def added(self, values: Floats) -> Floats:
        """The sum of values, (n_edges, n_values), over the copies of each distinct edge."""
        if not self.has_copies:
            return values
        total = np.zeros((len(self.first), values.shape[1]))
        np.add.at(total, self.place, values)
        return total


class Evidence(NamedTuple):
    """The edges and labels from which columns are made."""

    edges: Network
    own: Floats  # features of the edges as numbers, (n_edges, n_own)
    targets: Floats  # labels minus the prior, (n_edges, n_targets), not used where unlabelled
    labelled: NDArray[np.bool_]
    categories: Positions  # codes of the features with many categories, (n_edges, n_many), -1 where missing
    label_ticks: NDArray[Any] | None = None  # when labels became known; None if at the times of their edges

    @property
    def known_at(self) -> NDArray[Any]:
        """When the label of each edge became known, in ticks: never before the edge."""
        ticks = self.edges.ticks
        return ticks if self.label_ticks is None else np.maximum(self.label_ticks, ticks)


class Query(NamedTuple):
    """Edges to score: positions in the evidence, and their features and categories as passed.

    For a fitted edge from another table, these may differ from those in the evidence.
    """

    evidence: Evidence
    at: Positions
    own: Floats
    categories: Positions

    @classmethod
    def of(cls, evidence: Evidence, at: Positions) -> Query:
        """Some edges of the evidence, with the features that they have there."""
        return cls(evidence, at, evidence.own[at], evidence.categories[at])

    def some(self, which: Positions) -> Query:
        """Some of these edges, with the same evidence."""
        return Query(self.evidence, self.at[which], self.own[which], self.categories[which])


def find_fitted(features: PropagationFeatures, edges: TemporalEdges) -> Positions:
    """Position of each edge among the fitted edges; -1 for new edges."""
    if not edges.same_table(features.edges_):
        from tdlg.sampling.index import edge_index

        return edge_index(features.edges_).find_each(edges)
    return own_columns(edges, features.edges_)


def is_new_label(features: PropagationFeatures, at: Positions) -> NDArray[np.bool_]:
    """Whether the label of each edge to score, by its position in the evidence, was not given to `fit`."""
    n_fitted = len(features.edges_)
    return (at >= n_fitted) | ~features.labelled_[np.minimum(at, n_fitted - 1)]


def check_classes(plan: ColumnPlan, edges: TemporalEdges) -> None:
    """Refuse labels that are not among the fitted ones."""
    if plan.classes is None or edges.label is None:
        return
    found = edges.label[edges.labelled]
    strange = found[~np.isin(found, plan.classes)]
    if len(strange):
        raise EdgesError(
            f"The edges have the label {strange[:1].tolist()[0]!r}, which is not one of the fitted labels: "
            f"{plan.classes.tolist()}. Pass labels that were fitted, or no labels."
        )


def gather_evidence(features: PropagationFeatures, edges: TemporalEdges, *, use_labels: bool = False) -> Query:
    """What is known when these edges are scored, and their positions in it: fitted edges first, then new ones.

    use_labels : whether the labels of the edges to score become known over time and count from then on; those given to
    `fit` stay.
    """
    plan, fitted, labelled = features.plan_, features.edges_, features.labelled_
    numbers = category_numbers(fitted, plan.many)
    at = find_fitted(features, edges)
    new = np.flatnonzero(at < 0)
    at[new] = len(fitted) + np.arange(new.size)
    targets = plan.targets_of(features.labels_, labelled)
    own, categories = own_values(fitted, plan.own), category_codes(fitted, numbers)
    if edges.same_table(fitted) and not new.size:
        mine = own[at], categories[at]
    else:
        mine = own_values(edges, plan.own), category_codes(edges, numbers)
    if new.size:
        own, categories = np.vstack([own, mine[0][new]]), np.vstack([categories, mine[1][new]])
        targets = np.vstack([targets, np.zeros((new.size, targets.shape[1]))])
        labelled = np.append(labelled, np.zeros(new.size, bool))
    if use_labels:
        check_classes(plan, edges)
        is_known = edges.labelled & ~labelled[at]
        targets[at[is_known]] = plan.targets_of(edges.label, is_known)[is_known]
        labelled = labelled.copy()
        labelled[at[is_known]] = True
    network = Network.of(fitted, edges[new] if new.size else None)
    label_ticks = _evidence_label_ticks(features, network, at, edges if use_labels else None)
    return Query(Evidence(network, own, targets, labelled, categories, label_ticks), at, *mine)


def _evidence_label_ticks(
    features: PropagationFeatures, context: Network, at: Positions, edges: TemporalEdges | None
) -> NDArray[Any] | None:
    """When each label of the evidence became known; `edges` are those to score, if their labels count."""
    fitted, given = features.label_ticks_, None if edges is None else edges.label_ticks
    if not features.plan_.past_only or (fitted is None and given is None):
        return None
    ticks = context.ticks.copy()
    clock = context.time_unit, ticks.dtype
    if fitted is not None:
        ticks[: len(fitted)] = rounded_up(fitted, features.edges_.time_unit, *clock)
    if edges is not None:  # the times of labels given to fit stay
        is_new = is_new_label(features, at)
        ticks[at[is_new]] = context.ticks[at[is_new]]
        if given is not None:
            ticks[at[is_new]] = rounded_up(given, edges.time_unit, *clock)[is_new]
    return ticks
