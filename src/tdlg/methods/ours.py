"""The paper's two methods, and the propagation methods of this package."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from tdlg.checks import as_generator, check_choice
from tdlg.edges import TemporalEdges
from tdlg.embed.eigenvectors import EdgeEmbedding, Scaling
from tdlg.linegraph.decay import Decay, Gaussian
from tdlg.linegraph.events import own_columns
from tdlg.linegraph.operator import LineGraph, Normalization
from tdlg.methods.base import Method, logistic_regression, scores_of
from tdlg.models.linegraph import LineGraphClassifier
from tdlg.models.links import LinkModel
from tdlg.models.propagation import PropagationClassifier
from tdlg.models.training import Setting

__all__ = ["TDLG", "Propagation", "PropagationLinks", "TDLGDense"]

Protocol = Literal["paper", "notebook"]
NOTEBOOK_DECAY = Gaussian(relative=0.1 * 2**0.5)  # its formula has 4 s^2 where the paper has 2 s^2


class TDLG(Method):
    """The paper's method: logistic regression on the rows of the time-decayed line graph.

    Parameters
    ----------
    decay
        How proximity fades with time. By default the decay of the protocol.
    normalization
        None (default), "spectral" or "edge".
    class_weight
        "balanced", which the paper uses for edge classification, or None, which it uses for link prediction.
    protocol
        "paper" for the decay in the paper's text, or "notebook" for the decay in the authors' notebook, whose bandwidth is
        larger by the square root of 2.
    """

    name: ClassVar[str] = "TDLG"

    def __init__(
        self,
        decay: Decay | None = None,
        *,
        normalization: Normalization | None = None,
        class_weight: Literal["balanced"] | None = "balanced",
        protocol: Protocol = "paper",
    ) -> None:
        self.decay = decay
        self.normalization = normalization
        self.class_weight = class_weight
        self.protocol = protocol

    def embed(self, edges: TemporalEdges) -> None:
        """Sort the events of the line graph; its matrix is never built."""
        if len(edges):
            LineGraph(edges, decay=self._decay()).row_sums()

    def fit(self, edges: TemporalEdges) -> None:
        """Learn one weight per edge."""
        self.model_ = LineGraphClassifier(
            self._decay(), normalization=self.normalization, class_weight=self.class_weight
        ).fit(edges)

    def score(self, edges: TemporalEdges) -> NDArray[np.float64]:
        """Sum the weights of an edge's neighbours in the line graph, by their proximity."""
        return self.model_.decision_function(edges)

    def _decay(self) -> Decay:
        return _decay(self.decay, self.protocol, self)


class TDLGDense(Method):
    """The paper's dense variant: logistic regression on the top eigenvectors of the line graph.

    Parameters
    ----------
    n_components
        The number of eigenvectors.
    decay, class_weight, protocol
        The same as for `TDLG`.
    scaling
        None, as in the paper, or "eigenvalue"; see `EdgeEmbedding`.
    random_state
        Seed for the starting vectors of the eigenvectors.
    """

    name: ClassVar[str] = "TDLG (Dense)"

    def __init__(
        self,
        n_components: int = 128,
        *,
        decay: Decay | None = None,
        scaling: Scaling | None = None,
        class_weight: Literal["balanced"] | None = "balanced",
        protocol: Protocol = "paper",
        random_state: Any = None,
    ) -> None:
        self.n_components = n_components
        self.decay = decay
        self.scaling = scaling
        self.class_weight = class_weight
        self.protocol = protocol
        self.random_state = random_state

    def embed(self, edges: TemporalEdges) -> None:
        """Compute the eigenvectors."""
        self.embedding_ = EdgeEmbedding(
            self.n_components,
            decay=_decay(self.decay, self.protocol, self),
            scaling=self.scaling,
            random_state=self.random_state,
        ).fit(edges)

    def fit(self, edges: TemporalEdges) -> None:
        """Learn one weight per eigenvector."""
        known = edges.labelled
        label = np.asarray(edges.label)[known]
        self.model_ = logistic_regression(self.class_weight).fit(
            self._vectors(edges)[known], np.unique(label, return_inverse=True)[1]
        )

    def score(self, edges: TemporalEdges) -> NDArray[np.float64]:
        """Score edges by their vectors; new edges are embedded by the Nystrom extension."""
        return scores_of(self.model_, self._vectors(edges))

    def _vectors(self, edges: TemporalEdges) -> NDArray[np.float64]:
        fitted = self.embedding_.edges_
        if not edges.same_table(fitted):
            return self.embedding_.transform(edges)
        at = own_columns(edges, fitted)
        vectors = self.embedding_.embedding_[at]
        if (at < 0).any():
            vectors[at < 0] = self.embedding_.transform(edges[at < 0])
        return vectors


class Propagation(Method):
    """Boosted trees on the labels and counts of the edges around each edge; see `PropagationClassifier`.

    Parameters
    ----------
    setting
        What is known when an edge is scored: "auto", "interpolate", "forecast" or "stream".
    random_state
        Seed for the boosted trees.
    """

    name: ClassVar[str] = "propagation"

    def __init__(self, setting: Setting = "auto", *, random_state: Any = None) -> None:
        self.setting = setting
        self.random_state = random_state

    def fit(self, edges: TemporalEdges) -> None:
        """Make the columns and learn from them."""
        self.model_ = PropagationClassifier(setting=self.setting, random_state=self.random_state).fit(edges)

    def score(self, edges: TemporalEdges) -> NDArray[np.float64]:
        """Score edges by their columns."""
        return self.model_.decision_function(edges)

    def streaming(self) -> Propagation:
        """With the setting "stream"."""
        return clone(self).set_params(setting="stream")


class PropagationLinks(Method):
    """Link prediction with the columns of `LinkPredictor`, from the real and shuffled edges of the task.

    Parameters
    ----------
    random_state
        Seed for the boosted trees.
    """

    name: ClassVar[str] = "propagation (links)"

    def __init__(self, *, random_state: Any = None) -> None:
        self.random_state = random_state

    def fit(self, edges: TemporalEdges) -> None:
        """Learn to distinguish edges labelled 1 from edges labelled 0, for the time of these edges and after it."""
        known = edges[edges.labelled]
        is_real = np.asarray(known.label).astype(np.int64)
        self.model_ = LinkModel.learnt(known, is_real, as_generator(self.random_state))

    def score(self, edges: TemporalEdges) -> NDArray[np.float64]:
        """Score edges by the edges around them."""
        return self.model_.scores(edges)


def _decay(decay: Decay | None, protocol: str, method: Method) -> Decay:
    check_choice(type(method).__name__, "protocol", protocol, ("paper", "notebook"))
    if decay is not None:
        return decay
    return NOTEBOOK_DECAY if protocol == "notebook" else Gaussian()
