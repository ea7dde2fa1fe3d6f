"""PropagationClassifier: classes of edges by what happened around them, from boosted trees on propagated columns."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_softmax
from sklearn.base import clone
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.utils.multiclass import check_classification_targets

from tdlg.estimator import EdgesClassifier
from tdlg.exceptions import EdgesError, warn
from tdlg.explain.positive import plain_classes
from tdlg.models import training
from tdlg.models.bins import BinnedColumns, fit_boosting
from tdlg.models.propagation import PropagationModel, member_shares
from tdlg.models.training import TrainingRows, Windows, weights_for
from tdlg.propagate.columns import single
from tdlg.sampling.rows import Sample
from tdlg.trees import predict_one_against_rest, predict_proba, softmax

if TYPE_CHECKING:
    from tdlg.engines.table import ScannedEdges
    from tdlg.models.files import Filled

Floats = NDArray[np.float64]

FEW_CLASSES = 5  # with more classes, each class has its own trees
FEW_LABELS = 10  # of a class, or four times as many in all, which are hardly enough to learn from
MANY_CLASSES = 20  # with more classes, each has fewer trees of larger steps
FEWEST_TREES, LARGEST_RATE = 25, 0.2  # of each of many classes
SURE = 1e-6  # lower bound of probabilities, whose logs are averaged


class PropagationClassifier(EdgesClassifier, PropagationModel):
    """Classify interactions by the labels, counts, times and amounts of the interactions around them.

    Boosted trees are trained on the columns of `PropagationFeatures`, with bins that follow the tails and the rare classes
    as well. Of more than 300,000 training edges a sample is used, which keeps those of rare classes; probabilities are
    corrected for it, so that they stay calibrated. For forecasts, where the future may differ from the past, the
    log-probabilities of the trees are averaged with those of logistic regression, with weights 2 and 1, unless the trees
    alone clearly predict the latest training edges better. Pass all edges to `fit`, with missing labels where they are to be
    predicted, and then call `predict_proba(edges)`. New edges can be scored too; they count as unlabelled neighbours of each
    other. A training edge never sees its own label, however it is passed.

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
        Whether the columns about both ends of an edge together are used; for forecasts, some of them. By default "auto":
        they are used for up to 20 million edges. They need arbitrary access to all edges, which is slow beyond that.
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
        Whether the columns about both ends are used.
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
        are computed on disk, in buckets by node and pair; those about both ends together need arbitrary access and are left
        out. Trees learn from a sample of at most a million rows, which keeps those of rare classes; probabilities are
        corrected for it. This classifier is not changed: it gives the parameters.

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

    def _logs(self, X: Any, label_time: Any) -> Floats:
        return self._answer(self._columns(X, label_time)[2])

    def values_of(self, columns: Floats) -> Floats:
        """Probabilities of the classes, given columns."""
        return softmax(self._answer(columns))

    def _answer(self, columns: Floats) -> Floats:
        """Weighted means of the members' log-probabilities."""
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
        n_trees = max(FEWEST_TREES, settings["max_iter"] * MANY_CLASSES // n_classes)
        rate = min(settings["learning_rate"] * settings["max_iter"] / n_trees, LARGEST_RATE)
        return settings | {"max_iter": n_trees, "learning_rate": rate}

    def _linear_goes_astray(self, members: list[Any], rows: TrainingRows, binned: BinnedColumns) -> bool:
        """Whether the trees alone clearly predict the latest rows better, where both are fitted to the earlier ones.

        Where columns drift, for example because there are more payments in December, a linear model exaggerates.
        """
        if self._is_one_against_rest:
            return False
        code, is_inner = np.searchsorted(self.classes_, rows.target), training.latest(rows.ticks)
        outer = np.flatnonzero(~is_inner)
        if not training.is_enough(code[is_inner], code[outer]):
            return False
        n_outer = np.bincount(code[outer])
        sample = Windows((Sample(),), n_outer[np.newaxis].astype(np.float64)).samples(training.ROWS_TO_COMPARE)[0]
        some = outer[sample.rows(rows.ticks[outer], code[outer], training.sampling_seed(self.random_state), outer)]
        shares = np.log(n_outer / np.bincount(code[some]))
        earlier, inner = rows.some(some), rows.some(is_inner)
        settings = self._settings(earlier)
        trees = fit_boosting(self._boosting, settings, binned.some(some), earlier.target, earlier.weight)
        linear = clone(members[1]).fit(*earlier[:2], **weights_for(members[1], earlier.weight))
        fitted = [trees, linear]
        both, alone = (_mean_logs(some, inner.columns) + shares for some in (fitted, fitted[:1]))
        mine = np.arange(len(both)), code[is_inner]
        return training.is_clear(log_softmax(alone, axis=1)[mine] - log_softmax(both, axis=1)[mine], inner.weight)

    def _check_labels(self, values: NDArray[Any]) -> None:
        check_classification_targets(values)
        self.set_classes(*np.unique(values, return_counts=True))

    def set_classes(self, classes: NDArray[Any], counts: NDArray[np.int64]) -> None:
        """Note the classes, given how often each is known; refuse a single one, and warn of few labels and many classes."""
        self.classes_ = classes
        if len(self.classes_) < 2:
            raise EdgesError(
                f"The known labels have only 1 class, {self.classes_[0]!s}: {type(self).__name__} needs at least two."
            )
        if counts.min() < FEW_LABELS or counts.sum() < 4 * FEW_LABELS:
            rarest = plain_classes(self.classes_)[counts.argmin()]
            warn(
                f"Only {counts.min()} of the {counts.sum():,} known labels are {rarest!s}, which is "
                "hardly enough to learn from. Pass more labels, and judge the model on held-out ones."
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
