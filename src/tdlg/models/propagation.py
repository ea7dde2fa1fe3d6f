"""PropagationModel: what the classifier and the regressor on propagated columns share."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from copy import copy
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_softmax
from sklearn.base import BaseEstimator, RegressorMixin, clone
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import r2_score
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from tdlg import memory as machine
from tdlg.checks import as_generator, as_seed, refusal
from tdlg.clock import common_clock, duration_in_words, rounded_up, times_of
from tdlg.edges import TemporalEdges
from tdlg.estimator import (
    EdgesClassifier,
    EdgesEstimator,
    Explainable,
    Scored,
    all_or_nothing,
    check_target,
    known_and_predicted,
    known_labels,
)
from tdlg.exceptions import EdgesError, ParameterError, warn
from tdlg.linegraph.match import NODE_MATCHES
from tdlg.memory import most_learnt
from tdlg.models import training
from tdlg.models.training import Setting, TrainingRows, TrainingWindows, checked_weight, weights_for
from tdlg.models.trees import (
    BinnedColumns,
    bin_columns,
    fit_boosting,
    predict,
    predict_one_against_rest,
    predict_proba,
    softmax,
)
from tdlg.propagate.features import (
    PropagationFeatures,
    Query,
    Scales,
    check_classes,
    find_fitted,
    gather_evidence,
    is_new_label,
    table_columns,
)
from tdlg.propagate.plan import TwoEnds, own_values, single
from tdlg.tables.labels import plain_classes
from tdlg.tables.rows import Sample, kept_rows

if TYPE_CHECKING:
    import polars as pl

    from tdlg.engines.table import ScannedEdges
    from tdlg.models.files import Filled

Floats = NDArray[np.float64]
Positions = NDArray[np.int64]

SEVERAL = 20  # least number of edges to score for the warning that all of them precede the labels
FEW_EDGES = 20  # with fewer fitted edges, no pause is unusual
LONGER = 2.0  # a pause is unusual if it is this many times as long as the longest one between fitted edges


class PropagationModel(EdgesEstimator, Explainable, BaseEstimator):
    """Common base of classifier and regressor: which rows to train on, and what is known when they are scored."""

    _target: Literal["classes", "number"]
    _boosting: type
    _linear: BaseEstimator
    classes_: NDArray[Any]

    def __init__(
        self,
        estimator: Any = None,
        *,
        setting: Setting = "auto",
        matches: Sequence[str] = NODE_MATCHES,
        scales: Scales = "auto",
        smoothing: float = 1.0,
        two_ends: bool | Literal["auto"] = "auto",
        calendar: bool | Literal["auto"] = "auto",
        n_threads: int | None = None,
        random_state: Any = None,
    ) -> None:
        self.estimator = estimator
        self.setting = setting
        self.matches = matches
        self.scales = scales
        self.smoothing = smoothing
        self.two_ends = two_ends
        self.calendar = calendar
        self.n_threads = n_threads
        self.random_state = random_state

    @all_or_nothing
    def fit(
        self, X: Any, y: Any = None, sample_weight: Any = None, *, label_time: Any = None, label_delay: Any = None
    ) -> Self:
        """Learn from the edges whose label is known.

        Parameters
        ----------
        X
            The edges, labelled and unlabelled.
        y
            Labels, one value per edge. By default the labels of the edges. Missing labels are the ones to predict.
        sample_weight
            Weight of each edge when the trees are trained, 0 or more. By default all edges have weight 1. The label of an
            edge counts in the columns of other edges whatever its weight: to leave a label out, make it missing.
        label_time
            Times at which the labels became known, one value per edge: numbers or datetimes, like the times of the edges.
            By default the `label_time` of the edges; without it, each label is known at the time of its edge. A missing
            value (NaN, NaT, None) is allowed if the label is missing. A time after all edges, such as infinity or the year
            9999, means that no other edge sees the label. The label is still used to train on its own edge: set
            labels that are not known yet to missing.
        label_delay
            Instead of `label_time`, the time from each edge to its label: a duration such as "7d" if the times are
            datetimes, else a number. It holds for edges to score too.

        Notes
        -----
        The same edges, labels and `random_state` give the same model. If the rows are in another order, the trees may
        choose differently among equally good splits.
        """
        check_target(self, X, y)
        edges = self._edges(X, reset=True)
        labels, known, values = known_labels(edges, y)
        if not known.any():
            raise EdgesError("All labels are missing: there is nothing to learn from. Pass the labels of some edges.")
        self._check_labels(values)
        training.warn_of_copies(edges)
        dated = label_time is not None or label_delay is not None
        if dated or y is not None:
            edges = edges.with_label(labels, label_time, label_delay)
        self.edges_, self.labels_, self.label_delay_ = edges, edges.label, label_delay
        codes = np.full(len(edges), -1, np.int32)
        codes[known] = np.searchsorted(self.classes_, values) if self._target == "classes" else 0
        late = dated or (edges.label_ticks is not None and self.setting != "interpolate")
        kept = kept_rows(known)
        windows = self.choose_windows(edges.ticks[kept], codes[kept], np.bincount(codes[known]), late=late)
        self.features_ = self.unfitted_features(self._used_two_ends(len(edges))).fit(edges)

        samples = windows.samples(most_learnt(len(edges)) if self.estimator is None else np.inf)
        seed = training.sampling_seed(self.random_state)
        chosen = [sample.rows(edges.ticks, codes, seed + k) for k, sample in enumerate(samples)]
        rows, columns = self._training_columns(samples, chosen)
        self.typical_ = training.medians(columns)
        target = np.empty(len(edges), values.dtype)  # without missing labels, which can turn all labels into objects
        target[known] = values
        weight = None if sample_weight is None else checked_weight(sample_weight, edges.rows)[rows]
        training_rows = TrainingRows(columns, target[rows], weight, edges.ticks[rows])
        self.learn(training_rows, samples, [codes[some] for some in chosen])
        return self

    def choose_windows(
        self, ticks: NDArray[Any], codes: NDArray[Any], counts: Positions, *, late: bool
    ) -> TrainingWindows:
        """Choose the setting, and the windows of time to learn from; see `choose_setting` and `training_windows`."""
        chosen = training.choose_setting(type(self).__name__, self.setting, ticks, codes >= 0, late)
        self.setting_, self.setting_reason_ = chosen
        if self._target == "classes" and not late:
            training.warn_of_late_classes(ticks, codes, self.classes_)
        return training.training_windows(self.setting_, ticks, codes, counts)

    def unfitted_features(self, two_ends: TwoEnds) -> PropagationFeatures:
        """The columns that the parameters and the setting ask for."""
        return PropagationFeatures(
            self.matches,
            scales=self.scales,
            past_only=self.setting_ != "interpolate",
            target=self._target,
            smoothing=self.smoothing,
            two_ends=two_ends,
            calendar=self.calendar,
            n_threads=self.n_threads,
        )

    def _training_columns(
        self, samples: Sequence[Sample], chosen: list[Positions]
    ) -> tuple[Positions, NDArray[np.float32]]:
        """The fitted edges of all samples, and their columns, made with the same knowledge as those of edges to score."""
        evidence = gather_evidence(self.features_, self.edges_).evidence
        ends = np.cumsum([0, *map(len, chosen)])
        groups = [(np.arange(*ends[k : k + 2]), sample.before) for k, sample in enumerate(samples)]
        rows = np.concatenate(chosen)
        columns = table_columns(self.features_.plan_, Query.of(evidence, rows), groups, self.n_threads)
        return rows, single(columns)

    def learn(self, rows: TrainingRows, samples: Sequence[Sample], codes: Sequence[NDArray[Any]]) -> None:
        """Fit the estimators to the rows of some samples, and note how these differ from all rows.

        codes : for each sample the classes of its rows, by position among all classes.
        """
        shares = np.array([sample.shares for sample in samples])
        n_sampled = np.array([np.bincount(some, minlength=shares.shape[1]) for some in codes])
        n_rows = (n_sampled / shares).sum(axis=0)
        self.n_rows_, self.n_rows_sampled_from_ = len(rows.target), round(n_rows.sum())
        if self._target == "classes":
            # Adding this to log-odds keeps them calibrated. Weights would do the same, but slow down boosting many times.
            self.log_shares_ = np.log(n_rows / n_sampled.sum(axis=0))
        self.estimators_ = self.fitted_members(rows)

    @all_or_nothing
    def update(self, X: Any, y: Any = None, *, label_time: Any = None) -> Self:
        """Add edges and labels that came since `fit`, so that later edges see them. The trees stay as they are.

        A model with setting="stream" scores an edge by what happened before it. Pass what it was not fitted on, for example
        each day's edges after they were scored, and save the model: predictions are then those of a model that sees all of
        it. To learn from the new labels, fit again.

        Parameters
        ----------
        X
            The edges. An edge with the same source, destination and time as a known one is that edge, so that its label
            can be passed later; more copies of it than are known are new edges.
        y
            Labels, one value per edge. By default the labels of the edges. A missing label changes nothing; a label of a
            known edge replaces the one it had.
        label_time
            Times at which the labels became known, as in `fit`. By default the `label_time` of the edges, else the
            `label_delay` given to `fit`, else the times of the edges.

        Examples
        --------
        >>> from tdlg import PropagationRegressor, TemporalEdges
        >>> edges = TemporalEdges(["a", "b", "c", "d"] * 25, ["x", "y"] * 50, range(100), label=[5.0, 1.0] * 50)
        >>> model = PropagationRegressor(setting="stream", random_state=0).fit(edges[:90])
        >>> model.update(edges[90:]).edges_
        TemporalEdges(100 edges, 6 nodes, time 0 to 99, label: 2 values)
        """
        check_is_fitted(self)
        if self.setting_ != "stream":
            raise ParameterError(
                f"Only a model with the setting 'stream' can be updated. This model has the setting {self.setting_!r}.",
                "Fit with setting='stream', or fit again with all edges.",
                parameter="setting",
            )
        edges = self._edges(X, reset=False)
        if y is not None or label_time is not None:
            edges = edges.with_label(edges.label if y is None else y, label_time)
        if edges.label is not None and edges.label_ticks is None and self.label_delay_ is not None:
            edges = edges.with_label(edges.label, label_delay=self.label_delay_)
        features = self.features_
        check_classes(features.plan_, edges)
        own_values(edges, features.plan_.own)  # refuses edges that lack features
        from tdlg.sampling.index import joined_edges, without_repeats

        at = find_fitted(features, edges)
        if not edges.same_table(features.edges_):
            at = without_repeats(at)  # more copies of an edge than are known are new edges
        features = with_evidence(features, _relabelled(features, edges[at >= 0], at[at >= 0]))
        new, known = edges[at < 0], labelled_edges(features)
        features = with_evidence(features, joined_edges(known, new) if len(new) else known)
        self.features_, self.edges_, self.labels_ = features, features.edges_, features.labels_
        return self

    @property
    def two_ends_(self) -> bool:
        """Whether the columns about both ends of an edge together are used."""
        return bool(self.features_.two_ends != "none")

    def _used_two_ends(self, n_edges: int) -> TwoEnds:
        """Which columns about both ends are made: none with very many edges, and for forecasts some of them."""
        if self.two_ends not in (True, False, "auto"):
            raise refusal(type(self).__name__, "two_ends", "True, False or 'auto'", self.two_ends)
        if self.two_ends is True and n_edges > machine.MOST_TWO_ENDS:
            raise ParameterError(
                f"Similarity features look up edges all over the network, which is too slow for {n_edges:,} edges: they are "
                f"made for at most {machine.MOST_TWO_ENDS:,}.",
                "Leave out two_ends=.",
                parameter="two_ends",
            )
        if not self.two_ends or n_edges > machine.MOST_TWO_ENDS:
            return "none"
        return "partners" if self.setting_ == "forecast" else "all"

    def fitted_members(self, rows: TrainingRows) -> list[Any]:
        """The estimators, fitted to these rows: by default boosted trees, for forecasts together with a linear model."""
        if self.estimator is not None:
            columns = rows.columns.astype(np.float64)
            return [clone(self.estimator).fit(columns, rows.target, **weights_for(self.estimator, rows.weight))]
        rows = rows if rows.weight is None else rows.some(rows.weight > 0)
        rng = as_generator(as_seed(self.random_state))
        binned = bin_columns(rows.columns, rows.target, rng, classes=self._target == "classes")
        boost = partial(fit_boosting, self._boosting, self._settings(rows), binned, rows.target, rows.weight)
        if self.setting_ != "forecast":
            return [boost()]
        if binned.codes.size > machine.FEW_CELLS or (self.n_threads or machine.default_threads()) == 1:
            return [boost(), *self._linear_members(rows, binned)]
        with ThreadPoolExecutor(1) as pool:  # few rows leave a core free
            trees = pool.submit(boost)
            linear = self._linear_members(rows, binned)
        return [trees.result(), *linear]

    def _linear_members(self, rows: TrainingRows, binned: BinnedColumns) -> list[Any]:
        """The linear model of a forecast, unless the trees predict better without it."""
        return [] if self._linear_goes_astray(rows, binned) else [training.fit_linear(self._linear, *rows[:3])]

    def _settings(self, rows: TrainingRows) -> dict[str, Any]:
        target = rows.target if self._target == "classes" else None
        return training.boosting_settings(len(rows.target), 0, target) | {"random_state": as_seed(self.random_state)}

    def _linear_goes_astray(self, rows: TrainingRows, binned: BinnedColumns) -> bool:
        return False

    # ---- what is known, and when

    @property
    def label_ticks_(self) -> NDArray[Any] | None:
        """When each label given to `fit` became known, in ticks; None if each is known at the time of its edge."""
        return self.features_.label_ticks_

    def scored(self, X: Any, *, label_time: Any = None) -> Scored:
        """Edges with their predictions and columns, to pass to `explain` and `node_scores`; see `predict_proba`.

        Parameters
        ----------
        X
            The edges to score, fitted or new. With setting="stream" their labels count for later edges.
        label_time
            With setting="stream", the times at which the labels of X become known. By default the `label_time` of X, else
            the `label_delay` given to `fit`, else the times of the edges.
        """
        edges, query, columns = self._columns(X, label_time)
        return Scored(edges, self.values_of(columns), query, columns)

    def _columns(self, X: Any, label_time: Any) -> tuple[TemporalEdges, Query, Floats]:
        """The edges to score, what is known then, and their columns."""
        edges = self._edges(X, reset=False)
        self._check_asked(edges, label_time)
        query = self._evidence(edges, label_time)
        return edges, query, table_columns(self.features_.plan_, query, n_threads=self.n_threads)

    def _evidence(self, edges: TemporalEdges, label_time: Any) -> Query:
        """What is known when these edges are scored, their positions in it, and their own features."""
        if self.setting_ != "stream" or edges.label is None:
            return gather_evidence(self.features_, edges)
        if label_time is not None:
            edges = edges.with_label(edges.label, label_time)
        elif edges.label_ticks is None and self.label_delay_ is not None:
            edges = edges.with_label(edges.label, label_delay=self.label_delay_)
        query = gather_evidence(self.features_, edges, use_labels=True)
        is_undated = self.features_.label_ticks_ is not None and edges.label_ticks is None
        if is_undated and (is_new_label(self.features_, query.at) & edges.labelled).any():
            warn(
                "The model was fitted with 'label_time', but the edges to score have labels without it: each label is taken "
                "as known at the time of its edge.",
                "Pass label_time= for these edges too.",
            )
        return query

    def _check_asked(self, edges: TemporalEdges, label_time: Any) -> None:
        if label_time is not None and self.setting_ != "stream":
            raise ParameterError(
                "The 'label_time' of edges to score is used only in the setting 'stream'. This model has the setting "
                f"{self.setting_!r}.",
                "Leave out label_time=, or fit with setting='stream'.",
                parameter="label_time",
            )
        comparable = len(edges) > 0 and (edges.time_unit is None) == (self.edges_.time_unit is None)
        if self.setting_ == "interpolate" and comparable and edges.time.min() > self.edges_.time.max():
            warn(
                "All edges to score are later than the fitted ones, but the model learnt from labels before and after "
                "(the setting 'interpolate').",
                "Fit with setting='forecast', or with 'stream' if labels arrive later.",
            )
        if self.setting_ == "stream":
            _warn_of_gap(self.edges_, edges)
        known = edges.labelled
        unknown = edges if known.all() else edges[~known]  # of a whole table, the edges without a label matter
        several = comparable and len(unknown) >= SEVERAL
        labelled = self.features_.labelled_
        if self.setting_ != "interpolate" and several and unknown.time.max() <= self.edges_.time[labelled].min():
            warn(
                f"No edge to score is later than the first label that the model learnt from, and the setting "
                f"{self.setting_!r} uses only earlier labels.",
                "Fit on earlier edges, or with setting='interpolate'.",
                "In scikit-learn, use `cv=TimeSeriesSplit()`.",
            )

    def explain(
        self, X: Any, top: int = 3, *, rows: Any = None, positive: Any = None, label_time: Any = None
    ) -> pl.DataFrame:
        """Say in words what moved each prediction most; see `tdlg.explain.reasons.explain_propagation`."""
        from tdlg.explain.reasons import explain_propagation

        edges = X if isinstance(X, Scored) else self._edges(X, reset=False)
        return explain_propagation(self, edges, top, rows=rows, positive=positive, label_time=label_time)

    def _node_reasons(
        self, scored: Scored, riskiest: Positions, sampled: Positions, code: int | None
    ) -> list[str | None]:
        """The reason for each node: the reason that most of its sampled edges share."""
        from tdlg.explain.reasons import node_reasons

        return node_reasons(self, scored, sampled, code)

    # ---- to be defined by each subclass

    @abstractmethod
    def _check_labels(self, values: NDArray[Any]) -> None:
        """Refuse labels that this estimator cannot learn from."""

    @abstractmethod
    def _answer(self, columns: Floats) -> Floats:
        """Their averaged prediction: log-probabilities, (n_rows, n_classes), or numbers, (n_rows,)."""

    def values_of(self, columns: Floats) -> Floats:
        """What columns give: probabilities of a classifier, numbers of a regressor."""
        return self._answer(columns)


def _warn_of_gap(fitted: TemporalEdges, edges: TemporalEdges) -> None:
    """Warn if much seems to have happened between the last edge that a model knows and the first later edge to score."""
    if len(fitted) < FEW_EDGES or (fitted.time_unit is None) != (edges.time_unit is None):
        return
    later = edges.time > fitted.time.max()
    if not later.any():
        return
    ticks, others, unit = common_clock(
        fitted.ticks.max(keepdims=True), fitted.time_unit, edges.ticks[later].min(keepdims=True), edges.time_unit
    )
    longest = fitted.cached("longest pause", lambda: float(np.diff(np.sort(fitted.time)).max().astype(np.float64)))
    pause = common_clock(np.array([longest]).astype(fitted.ticks.dtype), fitted.time_unit, others, unit)[0][0]
    gap = (others[0] - ticks[0]).item()
    if 0 < LONGER * pause < gap:
        words = duration_in_words(gap, unit)
        warn(
            f"The edges to score begin {words} after the last edge that the model knows: what happened in between is "
            "missing, and scores get worse without it.",
            "Pass it with update() first, or score with a state directory (tdlg score --state), which keeps it.",
        )


def member_shares(members: list[Any]) -> list[float]:
    """Weight of each member in the average: of the two default members, boosting has twice the weight."""
    return [2 / 3, 1 / 3] if len(members) == 2 else [1.0]


# ---- update: new edges and labels for a fitted model


def with_evidence(features: PropagationFeatures, edges: TemporalEdges) -> PropagationFeatures:
    """A copy of fitted columns whose evidence is these edges with their labels; scales, medians and priors stay."""
    changed = copy(features)
    changed.edges_, changed.labels_ = edges, edges.label
    changed.labelled_, changed.label_ticks_ = edges.labelled, edges.label_ticks
    return changed


def labelled_edges(features: PropagationFeatures) -> TemporalEdges:
    """The known edges with the labels and times that count."""
    label, late = features.labels_, features.label_ticks_
    edges = features.edges_
    return edges.with_label(None).with_label(label, None if late is None else times_of(late, edges.time_unit))


def _relabelled(features: PropagationFeatures, edges: TemporalEdges, at: NDArray[np.int64]) -> TemporalEdges:
    """The known edges, with the labels of some of them replaced by those that the edges at these positions have."""
    known = labelled_edges(features)
    if edges.label is None or not edges.labelled.any():
        return known
    at, edges = at[edges.labelled], edges[edges.labelled]
    label = np.asarray(known.label).astype(np.result_type(known.label, edges.label))
    label[at] = edges.label
    if known.label_ticks is None and edges.label_ticks is None:
        return known.with_label(label)
    ticks = known.known_at.copy()
    ticks[at] = rounded_up(edges.known_at, edges.time_unit, known.time_unit, ticks.dtype)
    return known.with_label(label, times_of(ticks, known.time_unit))


# ---- the classifier


FEW_CLASSES = 5  # with more classes, each class has its own trees
FEW_LABELS = 20  # of a class, or twice as many in all, which are hardly enough to learn from
MANY_CLASSES = 20  # with more classes, each has fewer trees of larger steps
FEWEST_PER_CLASS, LARGEST_RATE = 25, 0.2  # of each of many classes
SURE = 1e-6  # lower bound of probabilities, whose logs are averaged


class PropagationClassifier(EdgesClassifier, PropagationModel):
    """Classify interactions by the labels, counts, times and amounts of the interactions around them.

    Boosted trees are trained on the columns of `PropagationFeatures`, with bins that follow the tails and the rare classes
    as well. Of more than 300,000 training edges a sample is used, which keeps those of rare classes; it has a tenth of the
    edges, at least 300,000 and at most a million, and probabilities are corrected for it, so that they stay calibrated. For
    forecasts, where the future may differ from the past, the log-probabilities of the trees are averaged with those of
    logistic regression, with weights 2 and 1, unless the trees alone clearly predict the latest training edges better. Pass
    all edges to `fit`, with missing labels where they are to be predicted, and then call `predict_proba(edges)`. New edges
    can be scored too; they count as unlabelled neighbours of each other. A training edge never sees its own label, however
    it is passed.

    Parameters
    ----------
    estimator
        A scikit-learn classifier to train on the columns. By default boosted trees, for forecasts together with logistic
        regression.
    setting
        What is known when an edge is scored. "interpolate": the labels of other edges before and after it, as in the paper.
        "forecast": all labels up to some time, and only unlabelled edges after it; the model is trained at earlier cuts in
        time. "stream": the labels of all strictly earlier edges, or those known by then according to `label_time`; labels
        of the edges to score count for later edges. "auto", the default: "stream" if the edges have a `label_time`, or if
        `label_time` or `label_delay` is passed; "forecast" if all edges are labelled, or if most unlabelled edges are later
        than nearly all labelled ones; else "interpolate".
    matches, scales, smoothing
        Parameters of the columns, see `PropagationFeatures`.
    calendar
        Whether the time of day and the day of the week, in UTC, are features. By default "auto": if the times are datetimes,
        and those of the labelled edges (with setting="interpolate", of all edges) span two weeks or more.
    two_ends
        Whether similarity features are used: what similar sources did with similar destinations; for forecasts, some of
        them. By default "auto": for up to 20 million edges. They look up edges all over the network, which is slow beyond
        that.
    n_threads
        Number of threads that make the columns. By default all cores are used.
    random_state
        Seed for the boosted trees.

    Attributes
    ----------
    classes_
        The distinct labels, sorted.
    setting_, setting_reason_
        The setting that was used, "interpolate", "forecast" or "stream", and why it was chosen.
    two_ends_
        Whether similarity features are used.
    features_
        The fitted `PropagationFeatures`.
    estimators_
        The estimators that were fitted on its columns.
    n_rows_, n_rows_sampled_from_
        The number of rows that the estimators learnt from, and the number of rows that these were sampled from.
    typical_
        The median of each column over the training rows, with which `explain` compares an edge.
    edges_, labels_
        The edges given to `fit`, and their labels.

    Examples
    --------
    One of two sellers is rated badly by everyone. The label of the last edge is predicted.

    >>> from tdlg import PropagationClassifier, TemporalEdges
    >>> edges = TemporalEdges(
    ...     ["a", "b", "c", "d"] * 25, ["good", "bad"] * 50, range(100), label=[*[1, 0] * 49, 1, None],
    ... )
    >>> model = PropagationClassifier(random_state=0).fit(edges)
    >>> model.setting_, model.predict(edges[98:])
    ('forecast', array([1., 0.]))
    """

    _target = "classes"
    _boosting = HistGradientBoostingClassifier
    _linear = LogisticRegression(C=0.1, max_iter=1000)

    def decision_function(self, X: Any, *, label_time: Any = None) -> Floats:
        """Scores: for two classes the log-odds of the second, shape (n_edges,); else log-probabilities up to a constant."""
        logs = self._answer(self._columns(X, label_time)[2])
        return logs[:, 1] - logs[:, 0] if logs.shape[1] == 2 else logs

    def predict_proba(self, X: Any, *, label_time: Any = None) -> Floats:
        """Probabilities of the classes, shape (n_edges, n_classes); parameters as of `scored`."""
        return self.scored(X, label_time=label_time).values

    def predict(self, X: Any, *, label_time: Any = None) -> NDArray[Any]:
        """The most probable class of each edge."""
        logs = self._answer(self._columns(X, label_time)[2])
        return self.classes_[logs.argmax(axis=1)]

    def fill(
        self,
        scanned: ScannedEdges,
        output: Any,
        *,
        memory: Any = None,
        engine: Executor | str | None = None,
        folder: Any = None,
        positive: Any = None,
        classes: Callable[[list[Any]], tuple[list[Any], Any]] | None = None,
        callback: Callable[[int, int, str], object] | None = None,
    ) -> Filled:
        """Fill in the missing labels of edges that are larger than memory, within a limit of memory.

        The table is written with the columns "predicted" and "probability" added. The columns that the trees learn from
        are computed on disk, in buckets by node and pair; similarity features, which look up edges all over the network,
        are left out. Trees learn from a sample of at most a million rows, which keeps those of rare classes; probabilities
        are corrected for it. This classifier is not changed: it gives the parameters.

        Parameters
        ----------
        scanned
            What `scan_edges` returned, with a label; missing ones are predicted.
        output
            The file to write, .parquet or .csv. A path without such an ending, or an address, is a folder to which the
            workers write one parquet file per block, so that nothing goes through this process.
        memory
            The limit, such as "2GB". By default 60 % of the free memory. On a cluster this is the limit of each worker,
            by default 60 % of what it was started with.
        engine
            What runs the tasks: the address of a Dask scheduler, such as "tcp://host:8786", or any executor of
            `concurrent.futures`. By default threads of this process. On a cluster the trees are fitted in this process,
            and all else is done by the workers.
        folder
            A folder for temporary files, which all workers of the engine see. By default a hidden folder beside the
            output. They are removed at the end; what a killed run left is removed by the next one.
        positive
            The positive class; by default chosen as everywhere.
        classes
            A function from the list of values in the label column to the list of their classes, None for a missing label,
            and the positive class or None. By default each value is a class.
        callback
            Called with the number of finished tasks, the number of all, and what is done. What it raises stops the work.

        Returns
        -------
        Filled
            Some numbers, the classes and the setting. There is no fitted model: it would have no edges to score with.

        Examples
        --------
        >>> import pathlib, tempfile
        >>> from tdlg import PropagationClassifier, scan_edges, write_payments
        >>> home = pathlib.Path(tempfile.mkdtemp())
        >>> write_payments(home / "payments.parquet", 2000, random_state=0)
        >>> edges = scan_edges(home / "payments.parquet", label="fraud")
        >>> filled = PropagationClassifier().fill(edges, home / "filled.parquet", memory="2GB")
        >>> filled.n_scored, filled.setting
        (200, 'forecast')
        """
        from tdlg.models.files import fill_labels

        of_run = {"memory": memory, "engine": engine, "folder": folder, "callback": callback}
        return fill_labels(self, scanned, output, positive=positive, classes=classes, **of_run)

    def values_of(self, columns: Floats) -> Floats:
        """Probabilities of the classes, given columns."""
        return softmax(self._answer(columns))

    def _answer(self, columns: Floats) -> Floats:
        if not len(columns):
            return np.zeros((0, len(self.classes_)))
        columns = single(columns).astype(np.float64)
        if not self._is_one_against_rest:
            return _mean_logs(self.estimators_, columns) + self.log_shares_
        columns_of, n_kinds = self.features_.plan_.columns_of_classes, len(self.estimators_) // len(self.classes_)
        kinds = [self.estimators_[k::n_kinds] for k in range(n_kinds)]  # trees of all classes, then linear models
        answers = [predict_one_against_rest(members, columns, columns_of) for members in kinds]
        return _mean_log(answers) + self.log_shares_

    @property
    def _is_one_against_rest(self) -> bool:
        """Whether each class has its own members; else the time would grow with the square of the number of classes."""
        return self.estimator is None and len(self.classes_) > FEW_CLASSES

    def fitted_members(self, rows: TrainingRows) -> list[Any]:
        """The estimators, fitted to these rows; with many classes, those of each class."""
        if not self._is_one_against_rest:
            return super().fitted_members(rows)
        fitted = []
        for label, of_class in zip(self.classes_, self.features_.plan_.columns_of_classes(), strict=True):
            one = rows._replace(columns=rows.columns[:, of_class], target=rows.target == label)
            fitted += super().fitted_members(one)
        return fitted

    def _settings(self, rows: TrainingRows) -> dict[str, Any]:
        """Settings of the boosted trees; with many classes, each has fewer trees of larger steps."""
        n_classes = len(self.classes_)
        if n_classes <= MANY_CLASSES:
            return super()._settings(rows)
        settings = super()._settings(rows)
        n_trees = max(FEWEST_PER_CLASS, settings["max_iter"] * MANY_CLASSES // n_classes)
        rate = min(settings["learning_rate"] * settings["max_iter"] / n_trees, LARGEST_RATE)
        return settings | {"max_iter": n_trees, "learning_rate": rate}

    def _linear_goes_astray(self, rows: TrainingRows, binned: BinnedColumns) -> bool:
        """Whether the trees alone clearly predict the latest rows better, where both are fitted to the earlier ones.

        Where columns drift, for example because there are more payments in December, a linear model exaggerates.
        """
        if self._is_one_against_rest:
            return False
        code, is_inner = np.searchsorted(self.classes_, rows.target), training.latest(rows.ticks)
        outer = np.flatnonzero(~is_inner)
        if not training.are_comparable(code[is_inner], code[outer]):
            return False
        n_outer = np.bincount(code[outer])
        everything = TrainingWindows((Sample(),), n_outer[np.newaxis].astype(np.float64))
        sample = everything.samples(training.ROWS_TO_COMPARE)[0]
        some = outer[sample.rows(rows.ticks[outer], code[outer], training.sampling_seed(self.random_state), outer)]
        shares = np.log(n_outer / np.bincount(code[some]))
        earlier, inner = rows.some(some), rows.some(is_inner)
        settings = self._settings(earlier)
        trees = fit_boosting(self._boosting, settings, binned.some(some), earlier.target, earlier.weight)
        fitted = [trees, training.fit_linear(self._linear, *earlier[:3])]
        columns = inner.columns.astype(np.float64)
        both, alone = (_mean_logs(some, columns) + shares for some in (fitted, fitted[:1]))
        mine = np.arange(len(both)), code[is_inner]
        return training.is_clear(log_softmax(alone, axis=1)[mine] - log_softmax(both, axis=1)[mine], inner.weight)

    def _check_labels(self, values: NDArray[Any]) -> None:
        check_classification_targets(values)
        self.set_classes(*np.unique(values, return_counts=True))

    def set_classes(self, classes: NDArray[Any], counts: NDArray[np.int64]) -> None:
        """Note the classes, given how often each is known; refuse a single one, and warn of few labels and many classes."""
        self.classes_ = classes
        training.check_two_classes(self)
        n_rarest = int(counts.min())
        if n_rarest < FEW_LABELS or counts.sum() < 2 * FEW_LABELS:
            rarest = plain_classes(self.classes_)[counts.argmin()]
            warn(
                f"Only {n_rarest} of the {counts.sum():,} known labels are {rarest!s}, which is hardly enough to learn "
                f"from. The order of the scores can be useful; their sizes are uncertain by at least {n_rarest**-0.5:.0%}, "
                f"and a quarter held out would have about {max(round(n_rarest / 4), 1)} of them, too few to judge by. "
                "Pass more labels."
            )
        if len(self.classes_) > MANY_CLASSES and self.estimator is None:
            warn(
                f"The labels have {len(self.classes_):,} classes, and each gets its own columns and trees: time and memory "
                "grow with their number. To be faster, make groups of classes."
            )


def _mean_logs(members: list[Any], columns: Floats) -> Floats:
    """Weighted means of the log-probabilities of several classifiers."""
    return _mean_log([predict_proba(member, columns) for member in members])


def _mean_log(probabilities: list[Floats]) -> Floats:
    logs = [np.log(np.maximum(each, SURE)) for each in probabilities]
    return logs[0] if len(logs) == 1 else np.average(logs, axis=0, weights=member_shares(logs))


# ---- the regressor


class PropagationRegressor(RegressorMixin, PropagationModel):
    """Predict a number for each interaction, such as a rating, from the interactions around it.

    It works like `PropagationClassifier`.

    Parameters
    ----------
    estimator
        A scikit-learn regressor to train on the columns. By default boosted trees, for forecasts together with a linear
        model.
    setting, matches, scales, smoothing, two_ends, calendar, n_threads, random_state
        The same as for `PropagationClassifier`.

    Attributes
    ----------
    setting_, features_, estimators_, n_rows_, n_rows_sampled_from_, typical_, edges_, labels_
        The same as for `PropagationClassifier`.

    Examples
    --------
    >>> from tdlg import PropagationRegressor, TemporalEdges
    >>> edges = TemporalEdges(["a", "b", "c", "d"] * 25, ["x", "y"] * 50, range(100), label=[*[5.0, 1.0] * 49, 5.0, None])
    >>> PropagationRegressor(random_state=0).fit(edges).predict(edges[99:]).round()
    array([1.])
    """

    _target = "number"
    _boosting = HistGradientBoostingRegressor
    _linear = Ridge(10.0)

    def predict(self, X: Any, *, label_time: Any = None) -> Floats:
        """The predicted number of each edge, shape (n_edges,)."""
        return self.scored(X, label_time=label_time).values

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """R squared: 1 less the mean squared error over labelled edges, in units of the variance of their labels.

        The parameters are those of `PropagationClassifier.score`.
        """
        known, predicted, weight = known_and_predicted(self, X, y, sample_weight)
        return float(r2_score(known, predicted, sample_weight=weight))

    def _answer(self, columns: Floats) -> Floats:
        if not len(columns):
            return np.empty(0)
        columns = single(columns).astype(np.float64)
        answers = [predict(member, columns) for member in self.estimators_]
        return np.average(answers, axis=0, weights=member_shares(self.estimators_))

    def _check_labels(self, values: NDArray[Any]) -> None:
        if values.dtype.kind not in "fiub":
            raise EdgesError(f"{type(self).__name__} needs labels that are numbers. Got {values[0]!r} instead.")
