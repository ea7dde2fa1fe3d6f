"""Simple reference methods: label rates of nodes, and whether the pair was seen before."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from tdlg.checks import as_generator, as_seed, check_choice, is_number
from tdlg.edges import TemporalEdges
from tdlg.exceptions import EdgesError, ParameterError
from tdlg.judge.methods import Method, scores_of
from tdlg.linegraph.events import own_columns
from tdlg.propagate.columns import gather_evidence, table_columns
from tdlg.propagate.features import PropagationFeatures
from tdlg.sampling.index import EdgeIndex

__all__ = ["EdgeBank", "LabelRates"]

Columns = NDArray[np.float64]

FOLDS = 10
MATCHES = ("src", "src-dst", "dst-src", "dst")  # the source as source and as destination; the destination likewise
FOREVER = 1e6  # bandwidth in standard deviations of the times: practically no decay


class LabelRates(Method):
    """A classifier on the label rates of the two nodes of an edge, ignoring time.

    There are four rates per edge and class, with the logs of their counts: the source's rate as a source and as a
    destination, and the destination's likewise. The rates of a training edge come from the other nine tenths of the
    training edges: if only its own label were left out, the rate of an active node would reveal it.

    Parameters
    ----------
    classifier
        "boosting" for boosted trees, or "logistic" for logistic regression.
    smoothing
        Strength of smoothing: the number of pseudo-edges with the average rate that are added to each node.
    stream
        Whether rates use labels known strictly earlier only, including labels of the edges to score.
    random_state
        Seed for the tenths and the boosted trees.

    Examples
    --------
    >>> edges = TemporalEdges(["a", "b", "c", "d"] * 5, ["x", "x", "y", "y"] * 5, range(20), label=[0, 0, 1, 1] * 5)
    >>> method = LabelRates("logistic", random_state=0)
    >>> method.fit(edges)
    >>> method.score(TemporalEdges(["a", "d"], ["x", "y"], [20, 20])) > 0
    array([False,  True])
    """

    name: ClassVar[str] = "label rates"

    def __init__(
        self,
        classifier: Literal["boosting", "logistic"] = "boosting",
        *,
        smoothing: float = 1.0,
        stream: bool = False,
        random_state: Any = None,
    ) -> None:
        self.classifier = classifier
        self.smoothing = smoothing
        self.stream = stream
        self.random_state = random_state

    def fit(self, edges: TemporalEdges) -> None:
        """Count the labels by node, and learn from the rates of the labelled edges."""
        classifier = self._classifier()
        self.edges_ = edges[edges.labelled]
        if self.edges_.label is None or not len(self.edges_):
            raise EdgesError("The edges have no labels to compute rates from. Pass the labels of some edges.")
        classes, code = np.unique(self.edges_.label, return_inverse=True)
        if len(classes) < 2:
            raise EdgesError(f"The known labels have only 1 class, {classes[0]!s}: label rates need at least two.")
        if self.stream:
            self.features_ = PropagationFeatures(MATCHES, scales=[FOREVER], past_only=True, smoothing=self.smoothing)
            self.classifier_ = classifier.fit(self._past(self.features_.fit(self.edges_).edges_), code)
            return
        targets = (code[:, None] == np.arange(len(classes))[len(classes) == 2 :]).astype(np.float64)
        self.prior_ = targets.mean(axis=0)
        self.fold_ = as_generator(self.random_state).permutation(np.arange(len(code)) % FOLDS)
        self.sums_ = [self._by_node(end, targets) for end in (self.edges_.src_code, self.edges_.dst_code)]
        self.classifier_ = classifier.fit(self.columns(self.edges_), code)

    def score(self, edges: TemporalEdges) -> NDArray[np.float64]:
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
        fold, rates, counts = self._fold_of(edges), [], []
        for node in self.edges_.codes_of(edges):
            for by_fold in self.sums_:
                sums = by_fold[-1, node] - np.where(fold[:, None] < FOLDS, by_fold[fold, node], 0.0)
                rates.append((sums[:, 1:] + self.smoothing * self.prior_) / (sums[:, :1] + self.smoothing))
                counts.append(np.log1p(sums[:, :1]))
        return np.hstack(rates + counts)

    def _by_node(self, node: NDArray[np.int32], targets: Columns) -> NDArray[np.float64]:
        """Number of edges and sums of targets by fold and node; all folds together come last, and an unknown node too."""
        values = np.column_stack([np.ones(len(node)), targets])
        sums = np.zeros((FOLDS + 1, self.edges_.n_nodes + 1, values.shape[1]))
        np.add.at(sums, (self.fold_, node), values)
        sums[-1] = sums[:-1].sum(axis=0)
        return sums

    def _fold_of(self, edges: TemporalEdges) -> NDArray[np.int64]:
        """The fold of each training edge; FOLDS for other edges."""
        at = own_columns(edges, self.edges_)
        return np.where(at >= 0, self.fold_[at], FOLDS)

    def _classifier(self) -> Any:
        check_choice("LabelRates", "classifier", self.classifier, ("boosting", "logistic"))
        if self.classifier == "boosting":
            from sklearn.ensemble import HistGradientBoostingClassifier

            return HistGradientBoostingClassifier(random_state=as_seed(self.random_state))
        from sklearn.linear_model import LogisticRegression
        from sklearn.pipeline import make_pipeline
        from sklearn.preprocessing import StandardScaler

        return make_pipeline(StandardScaler(), LogisticRegression(class_weight="balanced", max_iter=1000))


class EdgeBank(Method):
    """Predict an edge between a pair of nodes if the pair was seen before.

    Parameters
    ----------
    window
        The share of the training time span, at its end, whose pairs are remembered. By default the whole time span.

    Examples
    --------
    >>> edges = TemporalEdges(["a", "b", "c"], ["x", "y", "x"], [0, 1, 2], label=[1, 1, 0])  # 0: did not happen
    >>> method = EdgeBank()
    >>> method.fit(edges)
    >>> method.score(TemporalEdges(["a", "c"], ["x", "x"], [3, 3]))
    array([1., 0.])
    """

    name: ClassVar[str] = "EdgeBank"

    def __init__(self, window: float | None = None) -> None:
        self.window = window

    def fit(self, edges: TemporalEdges) -> None:
        """Store the pairs of the edges with the higher label."""
        if self.window is not None and not (is_number(self.window) and 0 < self.window <= 1):
            raise ParameterError(
                f"The 'window' parameter of EdgeBank must be None, or above 0 and at most 1. Got {self.window!r} instead.",
                parameter="window",
            )
        if edges.label is None or not edges.labelled.any():
            raise EdgesError(
                "The edges have no labels. EdgeBank needs labels: 1 for edges that happened, 0 for others."
            )
        seen = edges[edges.labelled]
        seen = seen[np.asarray(seen.label == np.max(np.asarray(seen.label)))]
        if self.window is not None:
            last, span = seen.ticks.max(), float(np.ptp(edges.ticks))
            seen = seen[seen.ticks >= last - self.window * span]
        self.seen_ = EdgeIndex(seen)

    def score(self, edges: TemporalEdges) -> NDArray[np.float64]:
        """1 for pairs that were seen, 0 for others."""
        return self.seen_.has_pair(edges).astype(np.float64)
