"""Simple references: label rates of nodes, plain windows of time, and whether the pair was seen before."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, clone
from threadpoolctl import threadpool_limits

from tdlg.checks import as_generator, as_seed
from tdlg.clock import rounded_up, ticks_per_second
from tdlg.edges import TemporalEdges
from tdlg.exceptions import EdgesError
from tdlg.judge.run import scores_of
from tdlg.judge.trials import DAY
from tdlg.linegraph.events import own_columns
from tdlg.memory import fitting_threads
from tdlg.models.training import fit_trees
from tdlg.propagate.features import Network, PropagationFeatures, gather_evidence, table_columns
from tdlg.propagate.plan import CALENDAR, calendar_values
from tdlg.sampling.index import EdgeIndex

Columns = NDArray[np.float64]

FOLDS = 10
WINDOWS = (1, 7, 30)  # days
SHARES = (0.01, 0.05, 0.2)  # of the time span, for windows where times are numbers
MATCHES = ("src", "src-dst", "dst-src", "dst")  # the source as source and as destination; the destination likewise
FOREVER = 1e6  # bandwidth in standard deviations of the times: practically no decay


class LabelRates(BaseEstimator):
    """A classifier on the label rates of the two nodes of an edge, ignoring time.

    There are four rates per edge and class, with the logs of their counts: the source's rate as a source and as a
    destination, and the destination's likewise. The rates of a training edge come from the other nine tenths of the
    training edges: if only its own label were left out, the rate of an active node would reveal it.

    Parameters
    ----------
    stream
        Whether rates use labels known strictly earlier only, including labels of the edges to score.
    random_state
        Seed for the tenths and the boosted trees.

    Examples
    --------
    >>> edges = TemporalEdges(["a", "b", "c", "d"] * 25, ["x", "x", "y", "y"] * 25, range(100), label=[0, 0, 1, 1] * 25)
    >>> method = LabelRates(random_state=0).fit(edges)
    >>> method.decision_function(TemporalEdges(["a", "d"], ["x", "y"], [100, 100])) > 0
    array([False,  True])
    """

    name = "label rates"

    def __init__(self, *, stream: bool = False, random_state: Any = None) -> None:
        self.stream = stream
        self.random_state = random_state

    def fit(self, edges: TemporalEdges) -> Self:
        """Count the labels by node, and learn from the rates of the labelled edges."""
        from sklearn.ensemble import HistGradientBoostingClassifier

        trees = HistGradientBoostingClassifier(random_state=as_seed(self.random_state))
        self.edges_ = edges[edges.labelled]
        if self.edges_.label is None or not len(self.edges_):
            raise EdgesError("The edges have no labels to compute rates from. Pass the labels of some edges.")
        classes, code = np.unique(self.edges_.label, return_inverse=True)
        if len(classes) < 2:
            raise EdgesError(f"The known labels have only 1 class, {classes[0]!s}: label rates need at least two.")
        if self.stream:
            self.features_ = PropagationFeatures(MATCHES, scales=[FOREVER], past_only=True)
            columns = self._past(self.features_.fit(self.edges_).edges_)
        else:
            targets = (code[:, None] == np.arange(len(classes))[len(classes) == 2 :]).astype(np.float64)
            self.prior_ = targets.mean(axis=0)
            self.fold_ = as_generator(self.random_state).permutation(np.arange(len(code)) % FOLDS)
            self.sums_ = [self._by_node(end, targets) for end in (self.edges_.src_code, self.edges_.dst_code)]
            columns = self.columns(self.edges_)
        with threadpool_limits(fitting_threads(columns.size)):
            self.classifier_ = trees.fit(columns, code)
        return self

    def decision_function(self, edges: TemporalEdges) -> NDArray[np.float64]:
        """Score edges by the rates of their nodes."""
        return scores_of(self.classifier_, self._past(edges) if self.stream else self.columns(edges))

    def streaming(self) -> LabelRates:
        """The rates of strictly earlier edges."""
        return clone(self).set_params(stream=True)

    def _past(self, edges: TemporalEdges) -> Columns:
        """The same columns from strictly earlier edges."""
        query = gather_evidence(self.features_, edges, use_labels=edges.label is not None)
        columns = table_columns(self.features_.plan_, query)
        wanted = [":rate" in column.name or ":count" in column.name for column in self.features_.plan_.columns]
        return columns[:, wanted]

    def columns(self, edges: TemporalEdges) -> Columns:
        """The rates and the logs of counts, (n_edges, 4 * (1 or n_classes) + 4)."""
        at = own_columns(edges, self.edges_)
        fold, rates, counts = np.where(at >= 0, self.fold_[at], FOLDS), [], []  # of a training edge; of others: FOLDS
        for node in self.edges_.codes_of(edges):
            for by_fold in self.sums_:
                sums = by_fold[-1, node] - np.where(fold[:, None] < FOLDS, by_fold[fold, node], 0.0)
                rates.append((sums[:, 1:] + self.prior_) / (sums[:, :1] + 1.0))
                counts.append(np.log1p(sums[:, :1]))
        return np.hstack(rates + counts)

    def _by_node(self, node: NDArray[np.int32], targets: Columns) -> NDArray[np.float64]:
        """Number of edges and sums of targets by fold and node; all folds together come last, and an unknown node too."""
        values = np.column_stack([np.ones(len(node)), targets])
        sums = np.zeros((FOLDS + 1, self.edges_.n_nodes + 1, values.shape[1]))
        np.add.at(sums, (self.fold_, node), values)
        sums[-1] = sums[:-1].sum(axis=0)
        return sums


class Windows(BaseEstimator):
    """Boosted trees on what is usual in fraud detection: counts, means of features and label rates in windows of time.

    For each end of an edge and each window, there are the number of its earlier edges, the mean of each of their features
    that is a number, and the share of each class among the labels that became known in the window; then come the features
    of the edge itself and, where times are datetimes, the time of day and the day of the week. The trees and their bins are
    those of `PropagationClassifier`.

    Parameters
    ----------
    widths
        The lengths of the windows, in ticks of the edges' clock. By default 1, 7 and 30 days, or 1, 5 and 20 % of the fitted
        edges' time span where times are numbers.
    random_state
        Seed for the boosted trees.

    Examples
    --------
    >>> edges = TemporalEdges(["a", "b", "c", "d"] * 25, ["x", "x", "y", "y"] * 25, range(100), label=[0, 0, 1, 1] * 25)
    >>> method = Windows(random_state=0).fit(edges)
    >>> method.predict_proba(TemporalEdges(["a", "d"], ["x", "y"], [100, 100]))[:, 1] > 0.5
    array([False,  True])
    """

    name = "windows"

    def __init__(self, widths: tuple[float, ...] | None = None, *, random_state: Any = None) -> None:
        self.widths = widths
        self.random_state = random_state

    def fit(self, edges: TemporalEdges) -> Self:
        """Make the columns of the labelled edges, and learn from them."""
        if edges.label is None or not edges.labelled.any():
            raise EdgesError("The edges have no labels to learn from. Pass the labels of some edges.")
        known = edges.labelled
        self.edges_, self.widths_ = edges, self.widths or _usual_widths(edges)
        self.classes_, codes = np.unique(np.asarray(edges.label)[known], return_inverse=True)
        self._fitted_columns = window_columns(edges, _one_hot(edges, self.classes_), self.widths_)
        self.model_ = fit_trees(self._fitted_columns[known], codes, self.random_state)
        return self

    def predict_proba(self, edges: TemporalEdges) -> NDArray[np.float64]:
        """Probabilities by the fitted edges and by earlier ones of these edges, with their labels if they have some."""
        probability: NDArray[np.float64] = self.model_.predict_proba(self._columns(edges))
        return probability

    def streaming(self) -> Windows:
        """The same: labels of the edges to score count from when they are known."""
        return clone(self)

    def _columns(self, edges: TemporalEdges) -> Columns:
        fitted, at = self.edges_, own_columns(edges, self.edges_)
        new = np.flatnonzero(at < 0)
        if not new.size and not edges.labelled.any():
            return self._fitted_columns[at]
        at[new] = len(fitted) + np.arange(new.size)
        network = Network.of(fitted, edges[new])
        n_fitted, clock = len(fitted), (network.time_unit, network.ticks.dtype)
        targets, known_at = _one_hot(fitted, self.classes_), network.ticks.copy()
        targets = np.vstack([targets, np.zeros((new.size, targets.shape[1]), bool)])
        labelled = np.append(fitted.labelled, np.zeros(new.size, bool))
        known_at[:n_fitted] = rounded_up(fitted.known_at, fitted.time_unit, *clock)
        of_new = edges.labelled & ~labelled[at]
        targets[at[of_new]], labelled[at[of_new]] = _one_hot(edges, self.classes_)[of_new], True
        known_at[at[of_new]] = rounded_up(edges.known_at[of_new], edges.time_unit, *clock)
        own, nodes = np.vstack([_features(fitted), _features(edges)[new]]), (network.src, network.dst)
        columns = _columns(nodes, network.ticks, own, _numbers(fitted), labelled, known_at, targets, self.widths_)
        return columns[at]


def _usual_widths(edges: TemporalEdges) -> tuple[float, ...]:
    """1, 7 and 30 days in ticks, or shares of the time span where times are numbers."""
    if edges.time_unit is not None:
        return tuple(days * DAY * ticks_per_second(edges.time_unit) for days in WINDOWS)
    return tuple(share * float(np.ptp(edges.ticks)) for share in SHARES)


def _one_hot(edges: TemporalEdges, classes: NDArray[Any]) -> NDArray[np.bool_]:
    """Whether the label of each edge is each of the classes; with two classes, the second one only."""
    if edges.label is None:
        return np.zeros((len(edges), len(classes) - (len(classes) == 2)), bool)
    shown = classes[len(classes) == 2 :]
    return np.column_stack([edges.labelled & (np.asarray(edges.label) == label) for label in shown])


def _features(edges: TemporalEdges) -> Columns:
    """The features of edges and, where times are datetimes, the time of day and the day of the week."""
    own = np.empty((len(edges), 0)) if edges.features is None else np.asarray(edges.features, np.float64)
    unit = edges.time_unit
    return own if unit is None else np.column_stack([own, *(calendar_values(edges.ticks, unit, c) for c in CALENDAR)])


def _numbers(edges: TemporalEdges) -> NDArray[np.bool_]:
    """Which of these columns are numbers that are averaged."""
    named = [name not in edges.feature_categories for name in edges.feature_names]
    return np.array([*named, *([False] * len(CALENDAR) if edges.time_unit is not None else [])], bool)


def window_columns(edges: TemporalEdges, is_positive: NDArray[np.bool_], widths: tuple[float, ...]) -> Columns:
    """The columns of `Windows` for all edges at once: only strictly earlier edges and labels known by then count."""
    nodes, known = (
        (edges.src_code, edges.dst_code),
        (edges.labelled, edges.known_at, is_positive.reshape(len(edges), -1)),
    )
    return _columns(nodes, edges.ticks, _features(edges), _numbers(edges), *known, widths)


def _columns(
    nodes: tuple[NDArray[Any], NDArray[Any]],
    ticks: NDArray[Any],
    own: Columns,
    are_numbers: NDArray[np.bool_],
    labelled: NDArray[np.bool_],
    known_at: NDArray[Any],
    targets: NDArray[np.bool_],
    widths: tuple[float, ...],
) -> Columns:
    """The columns of `window_columns` from arrays."""
    numbers, known, columns = own[:, are_numbers], np.flatnonzero(labelled), []
    for node in nodes:
        amounts = _Events(node, ticks, np.hstack([~np.isnan(numbers), np.nan_to_num(numbers)]))
        labels = _Events(node[known], known_at[known], targets[known].astype(np.float64))
        in_windows = (events.in_windows(node, ticks, widths) for events in (amounts, labels))
        for (count, sums), (n_labels, positives) in zip(*in_windows, strict=True):
            filled, totals = np.split(sums, 2, axis=1)
            with np.errstate(divide="ignore", invalid="ignore"):
                columns += [count, *(totals / filled).T, *(positives.T / n_labels)]
    return np.column_stack([*columns, own])


class _Events:
    """Values at nodes and times, to be summed over windows."""

    def __init__(self, node: NDArray[Any], ticks: NDArray[Any], values: Columns) -> None:
        order = np.lexsort((ticks, node))
        self._node, self._ticks = node[order], ticks[order]
        self._sums = np.vstack([np.zeros(values.shape[1]), np.cumsum(values[order], axis=0)])

    def in_windows(
        self, node: NDArray[Any], ticks: NDArray[Any], widths: tuple[float, ...]
    ) -> Iterator[tuple[Columns, Columns]]:
        """The number of events of each node from each width before each time up to, but without, the time; their sums."""
        stop = self._before(node, ticks)
        for width in widths:
            first = self._before(node, ticks - (width if ticks.dtype.kind == "f" else np.int64(np.ceil(width))))
            yield (stop - first).astype(np.float64), self._sums[stop] - self._sums[first]

    def _before(self, node: NDArray[Any], ticks: NDArray[Any]) -> NDArray[np.int64]:
        """The number of events of earlier nodes, or of the same node and strictly earlier."""
        is_event = np.repeat([False, True], [len(node), len(self._node)])
        order = np.lexsort((is_event, np.append(ticks, self._ticks), np.append(node, self._node)))
        n_events = np.empty(len(order), np.int64)
        n_events[order] = np.cumsum(is_event[order])
        return n_events[: len(node)]


class EdgeBank(BaseEstimator):
    """Predict an edge between a pair of nodes if the pair was seen before.

    Examples
    --------
    >>> edges = TemporalEdges(["a", "b", "c"], ["x", "y", "x"], [0, 1, 2], label=[1, 1, 0])  # 0: did not happen
    >>> method = EdgeBank().fit(edges)
    >>> method.decision_function(TemporalEdges(["a", "c"], ["x", "x"], [3, 3]))
    array([1., 0.])
    """

    name = "EdgeBank"

    def fit(self, edges: TemporalEdges) -> Self:
        """Store the pairs of the edges with the higher label."""
        if edges.label is None or not edges.labelled.any():
            raise EdgesError(
                "The edges have no labels. EdgeBank needs labels: 1 for edges that happened, 0 for others."
            )
        seen = edges[edges.labelled]
        seen = seen[np.asarray(seen.label == np.max(np.asarray(seen.label)))]
        self.seen_ = EdgeIndex(seen)
        return self

    def decision_function(self, edges: TemporalEdges) -> NDArray[np.float64]:
        """1 for pairs that were seen, 0 for others."""
        return self.seen_.has_pair(edges).astype(np.float64)
