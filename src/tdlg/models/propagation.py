"""Classification and regression of edges by what happened around them: boosted trees on propagated columns."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin, clone
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, check_is_fitted

from tdlg.checks import as_generator, as_seed
from tdlg.edges import TemporalEdges
from tdlg.estimator import EdgesEstimator, all_or_nothing, check_target, known_labels
from tdlg.exceptions import EdgesError, Hint, ParameterError, warn
from tdlg.explain.explainable import Explainable, Scored
from tdlg.models.boosting import MOST_ROWS, TrainingRows, linear_member, sampled_rows, tuned_settings, weights_for
from tdlg.models.setting import Setting, choose_setting, warn_of_late_classes
from tdlg.models.update import add_edges, warn_of_gap
from tdlg.propagate.evidence import Evidence, Query
from tdlg.propagate.features import MATCHES, PropagationFeatures, Scales

if TYPE_CHECKING:
    import polars as pl

__all__ = ["PropagationClassifier", "PropagationRegressor"]

Floats = NDArray[np.float64]
Positions = NDArray[np.int64]

CUTS = (2 / 7, 3 / 7, 4 / 7, 5 / 7)  # "forecast" trains at these shares of the labelled edges, by time
HORIZONS = (0.1, 0.5)  # least and most rows to train on after a cut, as shares of the labelled edges
COLD = 1 / 7  # share of the earliest labelled edges that "stream" does not train on: little happened before them
FEW_CLASSES = 5  # with more classes, each class has its own trees
SEVERAL = 20  # least number of edges to score for the warning that all of them precede the labels
SURE = 1e-6  # lower bound of probabilities, whose logs are averaged


class _PropagationModel(EdgesEstimator, Explainable, BaseEstimator):
    """Common base of classifier and regressor: which rows to train on, and what is known when they are scored."""

    _target: Literal["classes", "number"]
    _boosting: type

    def __init__(
        self,
        estimator: Any = None,
        *,
        setting: Setting = "auto",
        matches: Sequence[str] = MATCHES,
        scales: Scales = "auto",
        smoothing: float = 1.0,
        two_ends: bool = True,
        calendar: bool = False,
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
            9999, means that no other edge sees the label. Its own edge is learnt from: make labels missing that are not
            known yet.
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
        target = np.empty(len(edges), values.dtype)  # without missing labels, which can turn all labels into objects
        target[known] = values
        dated = label_time is not None or label_delay is not None
        edges = edges.with_label(labels, label_time, label_delay) if dated else edges
        late = dated or (edges.label_ticks is not None and self.setting != "interpolate")
        self.setting_, self.setting_reason_ = choose_setting(type(self).__name__, self.setting, edges, known, late)
        if self._target == "classes" and not late:
            warn_of_late_classes(edges, known, values)
        self.label_delay_ = label_delay
        self.features_ = PropagationFeatures(
            self.matches,
            scales=self.scales,
            past_only=self.setting_ != "interpolate",
            target=self._target,
            smoothing=self.smoothing,
            two_ends=("partners" if self.setting_ == "forecast" else "all") if self.two_ends else "none",
            calendar=self.calendar,
            n_threads=self.n_threads,
        ).fit(edges, labels)
        self.edges_, self.labels_ = edges, labels
        evidence = self.features_.evidence(edges).evidence
        columns, at = self._rows_to_learn_from(evidence)
        self.typical_ = np.median(columns, axis=0)
        weight = None if sample_weight is None else _checked_weight(sample_weight, edges)[at]
        self.estimators_ = self._fitted_members(TrainingRows(columns, target[at], weight, edges.ticks[at]))
        return self

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
        add_edges(self, X, y, label_time)
        return self

    def _fitted_members(self, rows: TrainingRows) -> list[Any]:
        fitted = [clone(self.estimator)] if self.estimator is not None else self._members(self._settings(rows))
        return [member.fit(rows.columns, rows.target, **weights_for(member, rows.weight)) for member in fitted]

    def _settings(self, rows: TrainingRows) -> dict[str, Any]:
        """Settings of the boosted trees, chosen on the training rows."""
        rng = as_generator(as_seed(self.random_state))
        settings = tuned_settings(self._boosting, rows, self.setting_ != "interpolate", rng)
        return settings | {"random_state": as_seed(self.random_state)}

    # ---- what is known, and when

    @property
    def label_ticks_(self) -> NDArray[Any] | None:
        """When each label given to `fit` became known, in ticks; None if each is known at the time of its edge."""
        return self.features_.label_ticks_

    def _rows_to_learn_from(self, evidence: Evidence) -> tuple[Floats, Positions]:
        """Columns of labelled edges, made with the same knowledge as those of the edges to score; and the edges."""
        known = np.flatnonzero(evidence.labelled)
        if self.setting_ == "interpolate":
            return self._training_columns([(evidence, known)])
        by_time = known[np.argsort(evidence.edges.ticks[known], kind="stable")]
        if self.setting_ == "stream":
            warm = by_time[int(COLD * len(known)) :]
            return self._training_columns([(evidence, warm if self._has_all(warm) else known)])
        parts = self._parts_after_cuts(evidence, by_time)
        if not self._has_all(np.concatenate([rows for _, rows in parts])):  # a class is missing: add all labelled edges
            parts.append((evidence, by_time))
        return self._training_columns(parts)

    def _parts_after_cuts(self, evidence: Evidence, by_time: Positions) -> list[tuple[Evidence, Positions]]:
        """For each of several cuts in time, what was known before it, and the edges after the cut."""
        ticks, n_known = evidence.edges.ticks, len(by_time)
        known_at = ticks if evidence.label_ticks is None else np.maximum(evidence.label_ticks, ticks)
        horizon = np.clip((len(ticks) - n_known) / n_known or HORIZONS[1], *HORIZONS)
        parts = []
        for share in CUTS:
            cut = ticks[by_time[int(share * n_known)]]
            stop = ticks[by_time[min(int((share + horizon) * n_known), n_known - 1)]]
            window = by_time[(ticks[by_time] >= cut) & (ticks[by_time] <= stop)]
            parts.append((evidence._replace(labelled=evidence.labelled & (known_at < cut)), window))
        return parts

    def _training_columns(self, parts: list[tuple[Evidence, Positions]]) -> tuple[Floats, Positions]:
        """Columns of edges from each part, and those edges.

        Above `MOST_ROWS` edges, the default estimators learn from a sample that keeps the edges of rare classes.
        """
        columns, rows = [], []
        most = MOST_ROWS // len(parts) if self.estimator is None else sum(len(at) for _, at in parts)
        rng = as_generator(as_seed(self.random_state))
        for evidence, at in parts:
            some = at[sampled_rows(self._groups(at), most, rng)]
            columns.append(self.features_.columns(Query(evidence, some, evidence.own[some], evidence.categories[some])))
            rows.append(some)
        self.n_rows_, self.n_rows_sampled_from_ = sum(map(len, rows)), sum(len(at) for _, at in parts)
        self._learn_shares(np.concatenate([at for _, at in parts]), np.concatenate(rows))
        return np.vstack(columns), np.concatenate(rows)

    def _learn_shares(self, rows: Positions, sample: Positions) -> None:
        """Note how a sample differs from all rows."""

    def scored(self, X: Any, *, label_time: Any = None) -> Scored:
        """Edges with their predictions and columns, to pass to `explain` and `node_scores`; see `predict_proba`.

        Parameters
        ----------
        X
            The edges to score, fitted or new.
        label_time
            With setting="stream", the times at which the labels of X become known. By default the `label_time` of X, else
            the `label_delay` given to `fit`, else the times of the edges.
        """
        edges, query, columns = self._columns(X, label_time)
        return Scored(edges, self._values(columns), query, columns)

    def _columns(self, X: Any, label_time: Any) -> tuple[TemporalEdges, Query, Floats]:
        """The edges to score, what is known then, and their columns."""
        check_is_fitted(self)
        edges = self._edges(X, reset=False)
        self._check_asked(edges, label_time)
        query = self._evidence(edges, label_time)
        return edges, query, self.features_.columns(query)

    def _evidence(self, edges: TemporalEdges, label_time: Any) -> Query:
        """What is known when these edges are scored, their positions in it, and their own features."""
        if self.setting_ != "stream" or edges.label is None:
            return self.features_.evidence(edges)
        if label_time is not None:
            edges = edges.with_label(edges.label, label_time)
        elif edges.label_ticks is None and self.label_delay_ is not None:
            edges = edges.with_label(edges.label, label_delay=self.label_delay_)
        query = self.features_.evidence(edges, edges.label)
        if self.features_.label_ticks_ is not None and edges.label_ticks is None:
            self._warn_of_undated_labels(edges, query)
        return query

    def _warn_of_undated_labels(self, edges: TemporalEdges, query: Query) -> None:
        if (self.features_.is_new_label(query.at) & edges.labelled).any():
            warn(
                "The model was fitted with 'label_time', but the edges to score have labels without it: each label is taken "
                "as known at the time of its edge.",
                Hint("Pass {label_time} for these edges too.", label_time=...),
            )

    def _check_asked(self, edges: TemporalEdges, label_time: Any) -> None:
        if label_time is not None and self.setting_ != "stream":
            raise ParameterError(
                "The 'label_time' of edges to score is used only in the setting 'stream'. This model has the setting "
                f"{self.setting_!r}.",
                Hint("Leave out {label_time}, or fit with {setting}.", label_time=..., setting="stream"),
                parameter="label_time",
                value=label_time,
            )
        comparable = len(edges) > 0 and (edges.time_unit is None) == (self.edges_.time_unit is None)
        if self.setting_ == "interpolate" and comparable and edges.time.min() > self.edges_.time.max():
            warn(
                "All edges to score are later than the fitted ones, but the model learnt from labels before and after "
                "(the setting 'interpolate').",
                Hint("Fit with {setting}, or with 'stream' if labels arrive later.", setting="forecast"),
            )
        if self.setting_ == "stream":
            warn_of_gap(self.edges_, edges)
        known = edges.labelled
        unknown = edges if known.all() else edges[~known]  # of a whole table, the edges without a label matter
        several = comparable and len(unknown) >= SEVERAL
        if self.setting_ != "interpolate" and several and unknown.time.max() <= self._first_label_time():
            warn(
                f"No edge to score is later than the first label that the model learnt from, and the setting "
                f"{self.setting_!r} uses only earlier labels.",
                Hint("Fit on earlier edges, or with {setting}.", setting="interpolate"),
                Hint("In scikit-learn, use {code}.", code="cv=TimeSeriesSplit()"),
            )

    def _first_label_time(self) -> Any:
        return self.edges_.time[self.features_.labelled_].min()

    def explain(
        self, X: Any, top: int = 3, *, rows: Any = None, positive: Any = None, label_time: Any = None
    ) -> pl.DataFrame:
        """Say in words what moved each prediction most; see `tdlg.explain.propagation.explain_propagation`."""
        from tdlg.explain.propagation import explain_propagation

        check_is_fitted(self)
        edges = X if isinstance(X, Scored) else self._edges(X, reset=False)
        return explain_propagation(self, edges, top, rows=rows, positive=positive, label_time=label_time)

    def _node_reasons(
        self, scored: Scored, riskiest: Positions, sampled: Positions, code: int | None
    ) -> list[str | None]:
        """The reason for each node: the reason that most of its sampled edges share."""
        from tdlg.explain.propagation import node_reasons

        return node_reasons(self, scored, sampled, code)

    # ---- to be defined by each subclass

    @abstractmethod
    def _check_labels(self, values: NDArray[Any]) -> None:
        """Refuse labels that this estimator cannot learn from."""

    @abstractmethod
    def _groups(self, rows: Positions) -> NDArray[Any]:
        """The groups of edges of which a sample keeps the small ones whole."""

    @abstractmethod
    def _has_all(self, rows: Positions) -> bool:
        """Whether these edges are enough to learn from."""

    @abstractmethod
    def _members(self, settings: dict[str, Any]) -> list[Any]:
        """The default estimators, whose predictions are averaged; `settings` are those of the boosted trees."""

    @abstractmethod
    def _answer(self, columns: Floats) -> Floats:
        """Their averaged prediction: log-probabilities, (n_rows, n_classes), or numbers, (n_rows,)."""

    def _values(self, columns: Floats) -> Floats:
        """Probabilities of a classifier, numbers of a regressor."""
        return self._answer(columns)


class PropagationClassifier(ClassifierMixin, _PropagationModel):
    """Classify interactions by the labels, counts, times and amounts of the interactions around them.

    Boosted trees are trained on the columns of `PropagationFeatures`. With 4,000 to 60,000 labels, the number and the size
    of the trees are chosen on a part of the training edges: the latest ones, or for "interpolate" a random part. Of more
    than 300,000 training edges a sample is used, which keeps those of rare classes; probabilities are corrected for it, so
    that they stay calibrated. For forecasts, where the future may differ from the past, the log-probabilities of the trees
    are averaged with those of logistic regression, with weights 2 and 1. Pass all edges to
    `fit`, with missing labels where they are to be predicted, and then call `predict_proba(edges)`. New edges can be scored
    too; they count as unlabelled neighbours of each other. A training edge never sees its own label, however it is passed.

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
    matches, scales, smoothing, calendar
        Parameters of the columns, see `PropagationFeatures`.
    two_ends
        Whether the columns about both ends of an edge together are used; for forecasts, some of them. True by default.
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

    def decision_function(self, X: Any, *, label_time: Any = None) -> Floats:
        """Scores: for two classes the log-odds of the second, shape (n_edges,); else log-probabilities up to a constant."""
        logs = self._logs(X, label_time)
        return logs[:, 1] - logs[:, 0] if logs.shape[1] == 2 else logs

    def predict_proba(self, X: Any, *, label_time: Any = None) -> Floats:
        """Probabilities of the classes, shape (n_edges, n_classes).

        Parameters
        ----------
        X
            The edges to score, fitted or new. With setting="stream" their labels count for later edges.
        label_time
            With setting="stream", the times at which the labels of X become known. By default the `label_time` of X, else
            the `label_delay` given to `fit`, else the times of the edges.
        """
        return self.scored(X, label_time=label_time).values

    def predict(self, X: Any, *, label_time: Any = None) -> NDArray[Any]:
        """The most probable class of each edge."""
        best = self._logs(X, label_time).argmax(axis=1)
        return self.classes_[best]

    def _logs(self, X: Any, label_time: Any) -> Floats:
        return self._answer(self._columns(X, label_time)[2])

    def _values(self, columns: Floats) -> Floats:
        return softmax(self._answer(columns), axis=1)

    def _answer(self, columns: Floats) -> Floats:
        """Weighted means of the members' log-probabilities."""
        if not len(columns):
            return np.zeros((0, len(self.classes_)))
        if not self._is_one_against_rest:
            return _mean_logs(self.estimators_, columns) + self.log_shares_
        by_class = np.array_split(np.arange(len(self.estimators_)), len(self.classes_))
        logs = [
            _mean_logs([self.estimators_[k] for k in members], columns[:, self.features_.columns_of_class(code)])[:, 1]
            for code, members in enumerate(by_class)
        ]
        return np.column_stack(logs) + self.log_shares_

    def _learn_shares(self, rows: Positions, sample: Positions) -> None:
        """Log of the number of rows per sampled row, for each class: adding it to log-odds keeps them calibrated.

        Weights would do the same, but make boosting many times slower.
        """
        if len(rows) == len(sample):
            self.log_shares_ = np.zeros(len(self.classes_))
            return
        n_rows, n_sampled = (np.bincount(self._groups(some), minlength=len(self.classes_)) for some in (rows, sample))
        self.log_shares_ = np.log(n_rows / n_sampled)

    @property
    def _is_one_against_rest(self) -> bool:
        """Whether each class has its own members; else the time would grow with the square of the number of classes."""
        return self.estimator is None and len(self.classes_) > FEW_CLASSES

    def _fitted_members(self, rows: TrainingRows) -> list[Any]:
        if not self._is_one_against_rest:
            return super()._fitted_members(rows)
        fitted = []
        for code, label in enumerate(self.classes_):
            columns = rows.columns[:, self.features_.columns_of_class(code)]
            fitted += super()._fitted_members(rows._replace(columns=columns, target=rows.target == label))
        return fitted

    def _check_labels(self, values: NDArray[Any]) -> None:
        check_classification_targets(values)
        self.classes_ = np.unique(values)
        if len(self.classes_) < 2:
            raise EdgesError(
                f"The known labels have only 1 class, {self.classes_[0]!s}: {type(self).__name__} needs at least two."
            )

    def _groups(self, rows: Positions) -> NDArray[Any]:
        return np.searchsorted(self.classes_, self.labels_[rows].astype(self.classes_.dtype))

    def _has_all(self, rows: Positions) -> bool:
        return len(np.unique(self.labels_[rows])) == len(self.classes_)

    def _members(self, settings: dict[str, Any]) -> list[Any]:
        boosting = HistGradientBoostingClassifier(**settings)
        return [boosting, linear_member(LogisticRegression(C=0.1, max_iter=1000))][: 1 + (self.setting_ == "forecast")]


class PropagationRegressor(RegressorMixin, _PropagationModel):
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

    def predict(self, X: Any, *, label_time: Any = None) -> Floats:
        """The predicted number of each edge, shape (n_edges,)."""
        return self.scored(X, label_time=label_time).values

    def _answer(self, columns: Floats) -> Floats:
        if not len(columns):
            return np.empty(0)
        answers = [member.predict(columns) for member in self.estimators_]
        return np.average(answers, axis=0, weights=_shares(self.estimators_))

    def _check_labels(self, values: NDArray[Any]) -> None:
        if values.dtype.kind not in "fiub":
            raise EdgesError(f"{type(self).__name__} needs labels that are numbers. Got {values[0]!r} instead.")

    def _groups(self, rows: Positions) -> NDArray[Any]:
        return np.zeros(len(rows), np.int64)

    def _has_all(self, rows: Positions) -> bool:
        return len(rows) > 0

    def _members(self, settings: dict[str, Any]) -> list[Any]:
        boosting = HistGradientBoostingRegressor(**settings)
        return [boosting, linear_member(Ridge(10.0))][: 1 + (self.setting_ == "forecast")]


def _mean_logs(members: list[Any], columns: Floats) -> Floats:
    """Weighted means of the log-probabilities of several classifiers."""
    logs = [np.log(np.clip(member.predict_proba(columns), SURE, 1.0)) for member in members]
    return np.average(logs, axis=0, weights=_shares(members))


def _shares(members: list[Any]) -> list[float]:
    """Weight of each member: of the two default members, boosting has twice the weight."""
    return [2 / 3, 1 / 3] if len(members) == 2 else [1.0]


def _checked_weight(sample_weight: Any, edges: TemporalEdges) -> Floats:
    """One weight per edge, none below 0."""
    weight = _check_sample_weight(sample_weight, edges.rows)
    if (weight < 0).any():
        row = int(np.argmax(weight < 0))
        raise ParameterError(
            f"The 'sample_weight' must not be negative. Got {weight[row]} in row {row} (counted from 0). Use 0 for an edge "
            "to ignore in training."
        )
    return weight
