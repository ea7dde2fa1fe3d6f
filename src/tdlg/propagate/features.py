"""PropagationFeatures: columns that describe what happened around each edge."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Literal, NamedTuple, Self, get_args

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from tdlg.checks import check_choice, check_number
from tdlg.clock import durations_in_words, rounded_up, short_duration
from tdlg.edges import TemporalEdges
from tdlg.estimator import EdgesEstimator, all_or_nothing, known_labels
from tdlg.exceptions import EdgesError, Hint, ParameterError
from tdlg.linegraph.decay import Laplace, time_spread
from tdlg.linegraph.events import Copies, own_columns
from tdlg.linegraph.product import default_threads
from tdlg.propagate.columns import ANY_CLASS, OWN_MATCHES, Column, Description
from tdlg.propagate.evidence import Around, Evidence, Query, around_category, late_labels
from tdlg.propagate.own_features import OwnColumn, category_codes, category_numbers, fit_own, own_values, tamed, to_sum
from tdlg.propagate.scales import choose_scales
from tdlg.propagate.sums import walk
from tdlg.propagate.two_ends import two_end_columns, two_end_names
from tdlg.propagate.writer import ColumnWriter
from tdlg.sampling.index import concatenate_edges, edge_index

__all__ = ["MATCHES", "PropagationFeatures", "Scales"]

Floats = NDArray[np.float64]
Positions = NDArray[np.int64]
Scales = Sequence[float | str] | Literal["auto"]
TwoEnds = Literal["all", "partners", "none"]

MATCHES = ("src", "dst", "src-dst", "dst-src", "pair", "reversed")
TWO_ENDS = (0.03, 1.0)  # bandwidths of the columns about both ends, in standard deviations of the times
BLOCK = 4096  # rows whose columns are made at once


class _ToSum(NamedTuple):
    """What is summed over the edges around: labels, (n_edges, 1 + n_targets), and features, (n_edges, n_sums)."""

    labels: Floats
    own: Floats

    @classmethod
    def of(cls, evidence: Evidence, own: Sequence[OwnColumn]) -> _ToSum:
        labels = np.hstack([np.ones((len(evidence.own), 1)), evidence.targets]) * evidence.labelled[:, np.newaxis]
        return cls(labels, to_sum(evidence.own, own))

    def values(self, *, with_labels: bool, with_own: bool) -> Floats:
        """A count, then features if wanted, then labels if wanted."""
        parts = [np.ones((len(self.labels), 1)), self.own, self.labels]
        return np.hstack([part for part, wanted in zip(parts, (True, with_own, with_labels), strict=True) if wanted])


class PropagationFeatures(EdgesEstimator, TransformerMixin, BaseEstimator):
    """Columns that describe what happened around each edge: label rates, counts, times to the nearest edge.

    - For each match and time scale: the smoothed rate of each class (or mean of a numeric target) among the labelled edges
      around, minus the overall rate; the log of the decayed number of known labels, and of all edges.
    - For each match: the log of the time to the previous and to the next edge.
    - With features or weights: the edge's own values, and how they compare with those of the edges around with the same
      source, destination or both. For a number: the decayed mean; the deviation from the mean; the deviation in standard
      deviations ("score"); for amounts above 0 the log of the ratio to the mean. For a category: its share. Of a
      feature with at most 16 categories, an edge whose category is missing or was not fitted has the share of a typical one.
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
        `LineGraph`. By default all six; edges of two types of nodes (`bipartite`) can only match by "src", "dst" and "pair".
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
        matches: Sequence[str] = MATCHES,
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
        self.check()
        self._check_label_times(label_time, label_delay)
        edges = self._edges(X, reset=True)
        self.edges_, self.labels_, self.labelled_ = edges, None, np.zeros(len(edges), bool)
        if y is not None or edges.labelled.any():
            self.labels_, self.labelled_ = known_labels(edges, y)[:2]
        dated = edges
        if y is not None or label_time is not None or label_delay is not None:
            dated = edges.with_label(self.labels_, label_time, label_delay)
        self.label_ticks_ = dated.label_ticks if self.past_only else None
        self._fit_targets()
        self._fit_clock()
        past = edges[self.labelled_] if self.past_only and self.labelled_.any() else edges
        self.own_ = fit_own(past, self.calendar, self.as_is)
        self.matches_ = [match for match in self.matches if not edges.bipartite or match in OWN_MATCHES]
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
        """Names such as "src_rate_13d", "pair_before" and "dst_mean_amount_1"; see `scale_names_` for the last part.

        They hold letters, digits and _.+=- only, which LightGBM and XGBoost accept; other characters become "_".
        """
        check_is_fitted(self)
        return np.array(self.description().names(), object)

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
        at = self.find(edges)
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
            labelled = edges.with_label(labels)
            self._check_classes(labelled)
            is_known = labelled.labelled & ~known[at]
            targets[at[is_known]] = self._targets_of(labels, is_known)[is_known]
            known = known.copy()
            known[at[is_known]] = True
        label_ticks = self._label_ticks(context, at, None if labels is None else edges)
        return Query(Evidence(context, own, targets, known, categories, label_ticks), at, *values)

    def _label_ticks(self, context: TemporalEdges, at: Positions, edges: TemporalEdges | None) -> Any:
        """When each label of the evidence became known; None if each is known at the time of its edge.

        The `edges` are those to score, if their labels count.
        """
        given = None if edges is None else edges.label_ticks
        if not self.past_only or (self.label_ticks_ is None and given is None):
            return None
        ticks = context.ticks.copy()
        clock, n_fitted = (context.time_unit, ticks.dtype), len(self.edges_)
        if self.label_ticks_ is not None:
            ticks[:n_fitted] = rounded_up(self.label_ticks_, self.edges_.time_unit, *clock)
        if edges is not None:  # the times of labels given to fit stay
            new = at[self.is_new_label(at)]
            ticks[new] = context.ticks[new]
            if given is not None:
                ticks[new] = rounded_up(given, edges.time_unit, *clock)[self.is_new_label(at)]
        return ticks

    def is_new_label(self, at: Positions) -> NDArray[np.bool_]:
        """Whether the label of each edge to score, by its position in the evidence, was not given to `fit`."""
        return (at >= len(self.edges_)) | ~self.labelled_[np.minimum(at, len(self.edges_) - 1)]

    def _check_classes(self, edges: TemporalEdges) -> None:
        """Refuse labels that are not among the fitted ones."""
        if self.classes_ is None or edges.label is None:
            return
        found = edges.label[edges.labelled]
        strange = found[~np.isin(found, self.classes_)]
        if len(strange):
            raise EdgesError(
                f"The edges have the label {strange[:1].tolist()[0]!r}, which is not one of the fitted labels: "
                f"{self.classes_.tolist()}. Pass labels that were fitted, or no labels."
            )

    def find(self, edges: TemporalEdges) -> NDArray[np.int64]:
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
        return category_codes(edges, category_numbers(self.edges_, self._with_many))

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
        self.classes_, counts = np.unique(labels, return_counts=True)
        self.prior_ = (counts / len(labels))[int(len(counts) == 2) :]

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
            self.fit_scales(0.0, [])
            return
        scales = choose_scales(edges) if isinstance(self.scales, str) else self.scales
        self.fit_scales(time_spread(edges), scales)

    def fit_scales(self, deviation: float, scales: Sequence[float | str]) -> None:
        """Fix the bandwidths of the decays.

        Parameters
        ----------
        deviation
            The standard deviation of the times, in ticks; if it is 0, nothing decays.
        scales
            The scales, as for the parameter of this class.
        """
        if deviation == 0.0:
            self.decays_, self.scale_names_ = [], ["all"]
            self.two_end_scale_names_ = [f"{scale:g}" for scale in TWO_ENDS]
            return
        decays = [Laplace(scale) if isinstance(scale, str) else Laplace(relative=float(scale)) for scale in scales]
        decays += [Laplace(relative=scale) for scale in TWO_ENDS]
        self.decays_ = [decay.at_spread(deviation, self.edges_.time_unit) for decay in decays]
        names = [scale if isinstance(scale, str) else f"{float(scale):.3g}" for scale in [*scales, *TWO_ENDS]]
        if isinstance(self.scales, str):
            names = self._as_durations(names)
        self.scale_names_, self.two_end_scale_names_ = names[: -len(TWO_ENDS)], names[-len(TWO_ENDS) :]

    def _as_durations(self, names: list[str]) -> list[str]:
        """The bandwidths as durations; the given names if the times are numbers, or if two durations would be the same."""
        unit = self.edges_.time_unit
        if unit is None:
            return names
        durations = [short_duration(decay.parts(unit)[0].bandwidth, unit) for decay in self.decays_]
        n_scales = len(names) - len(TWO_ENDS)
        return durations if len(set(durations[:n_scales])) == n_scales else names

    def widths(self, time_unit: str | None) -> tuple[Floats, Floats]:
        """Bandwidths of the scales, and those of the columns about both ends, the last being the spread of times."""
        if not self.decays_:
            return np.array([np.inf]), np.array([np.inf, np.inf])
        widths = np.array([decay.parts(time_unit)[0].bandwidth for decay in self.decays_])
        return widths[: -len(TWO_ENDS)], widths[-len(TWO_ENDS) :]

    def scales_in_words(self) -> str:
        """The time scales, for instance "53 days, 13 days"; empty if all times are equal."""
        check_is_fitted(self)
        unit = self.edges_.time_unit
        return durations_in_words(self.widths(unit)[0].tolist() if self.decays_ else [], unit)

    # ---- columns

    def described(self) -> list[Column]:
        """What each column is about, in the order of `columns`."""
        return self.description().columns()

    def description(self) -> Description:
        """All that determines the columns."""
        rates = [("mean" if self.classes_ is None else "rate", ANY_CLASS)] * (len(self.prior_) == 1)
        rates = rates or [(f"rate[{c}]", k) for k, c in enumerate([] if self.classes_ is None else self.classes_)]
        return Description(self.matches_, self.scale_names_, rates, self.own_, self.past_only, self._two_end_columns())

    def _two_end_columns(self) -> list[Column]:
        if self.two_ends == "none" or not len(self.prior_):
            return []
        classes = self.classes_.tolist() if self.classes_ is not None and len(self.prior_) > 1 else ()
        bipartite, only_partners = self.edges_.bipartite, self.two_ends == "partners"
        names = self.two_end_scale_names_
        columns = two_end_names(classes, bipartite=bipartite, only_partners=only_partners, scale_names=names)
        about = "mean" if self.classes_ is None else "rate"
        return [column._replace(about=about) if column.about == "labels" else column for column in columns]

    def columns_of_classes(self) -> list[NDArray[np.int64]]:
        """For each class, positions of the columns that are about it or about no class."""
        of_class = np.array([column.of_class for column in self.described()])
        n_classes = 0 if self.classes_ is None else len(self.classes_)
        return [np.flatnonzero((of_class == code) | (of_class == ANY_CLASS)) for code in range(n_classes)]

    def columns(self, query: Query) -> Floats:
        """Make the columns of edges to score."""
        description = self.description()
        evidence, rows = query.evidence, query.rows()
        late = late_labels(evidence, evidence.edges)
        around = {match: Around(match, rows, evidence.edges, late) for match in self.matches_}
        for match, (feature, end) in description.category_matches().items():
            around[match] = around_category(query, self._with_many.index(feature), end)
        starts = np.cumsum([0, *(len(description.of_match(match)) for match in around)])
        lines = np.empty((len(description.columns()), len(query.at)))  # the rows of a column side by side
        of_two_ends = slice(starts[-1], starts[-1] + len(description.two_ends))
        lines[of_two_ends.stop :] = tamed(query.own, self.own_).T
        to_sum = _ToSum.of(evidence, self.own_)

        def fill(k: int, match: str) -> None:
            self._fill(around[match], query, to_sum, match in OWN_MATCHES, lines[starts[k] : starts[k + 1]])

        with ThreadPoolExecutor(
            self.n_threads or default_threads()
        ) as pool:  # the walks release the interpreter's lock
            if description.two_ends:
                two_ends = pool.submit(self._fill_two_ends, query, lines[of_two_ends])
            list(pool.map(fill, range(len(around)), around))
            if description.two_ends:
                two_ends.result()
        return lines.T

    def _fill_two_ends(self, query: Query, out: Floats) -> None:
        evidence = query.evidence
        out[:] = two_end_columns(
            evidence.edges,
            query.at,
            evidence.targets,
            evidence.labelled,
            self.widths(evidence.edges.time_unit)[1],
            past_only=self.past_only,
            label_ticks=evidence.label_ticks,
            only_partners=self.two_ends == "partners",
            n_threads=self.n_threads,
        ).T

    def _fill(self, around: Around, query: Query, to_sum: _ToSum, compares: bool, out: Floats) -> None:
        """Write the columns of one match as lines, (n_columns, n_rows)."""
        widths, (_, spread) = self.widths(around.cols.time_unit)
        own = self.own_ if compares else []
        writer = ColumnWriter.of(own, self.smoothing, spread if np.isfinite(spread) else 1.0)
        is_late, n_labels = around.late is not None, to_sum.labels.shape[1]
        values = to_sum.values(with_labels=not is_late, with_own=compares)
        walked = walk(around.rows, around.cols, values, around.match, widths, past_only=self.past_only)
        late = None
        if around.late is not None:
            edges, at = around.late
            late = walk(around.rows, edges, to_sum.labels[at], around.match, widths, past_only=True)
        for start in range(0, len(query.at), BLOCK):  # which stays in the cache
            block = slice(start, start + BLOCK)
            sums, gaps = walked.take(block)
            labels = sums[:, sums.shape[1] - n_labels :].copy() if late is None else late.take(block)[0]
            labels = labels if len(self.prior_) else labels[:0, :0]
            writer.write(sums, labels, gaps[: 1 if self.past_only else 2], query.own[block], start, out)

    def _check_label_times(self, label_time: Any, label_delay: Any) -> None:
        given = {"label_time": label_time, "label_delay": label_delay}
        name = next((name for name, value in given.items() if value is not None), None)
        if name is not None and not self.past_only:
            raise ParameterError(
                f"The {name!r} says when labels became known, which counts only if columns are made of the past.",
                Hint("Use {past_only}, or leave it out.", past_only=True),
                parameter=name,
                value=given[name],
            )

    def check(self) -> None:
        """Refuse invalid parameters."""
        name = type(self).__name__
        known = all(match in MATCHES for match in self.matches)
        if not len(self.matches) or not known or len(set(self.matches)) < len(self.matches):
            raise ParameterError(
                f"The 'matches' parameter of {name} must be some of {', '.join(MATCHES)}, each once. "
                f"Got {self.matches!r} instead.",
                parameter="matches",
                value=self.matches,
            )
        is_list = (
            isinstance(self.scales, Sequence | np.ndarray) and not isinstance(self.scales, str) and len(self.scales)
        )
        if not is_list and self.scales != "auto":
            raise ParameterError(
                f"The 'scales' parameter of {name} must be 'auto' or a list of at least one number or duration. "
                f"Got {self.scales!r} instead.",
                Hint("Pass {scales}.", scales=["30d", "7d"]),
                parameter="scales",
                value=self.scales,
            )
        check_choice(name, "two_ends", self.two_ends, get_args(TwoEnds))
        check_choice(name, "target", self.target, ("auto", "classes", "number"))
        check_number(name, "smoothing", self.smoothing)
