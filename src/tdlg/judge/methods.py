"""All methods by name: those of this package, and those of installed packages, by entry points of the group tdlg.methods."""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import entry_points
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

from tdlg.checks import as_generator, check_choice
from tdlg.edges import TemporalEdges
from tdlg.embed.eigenvectors import EdgeEmbedding
from tdlg.exceptions import ParameterError
from tdlg.judge.references import EdgeBank, LabelRates, Windows
from tdlg.judge.run import scores_of
from tdlg.linegraph.decay import Decay, Gaussian
from tdlg.linegraph.events import own_columns
from tdlg.linegraph.operator import Normalization
from tdlg.models.linegraph import LineGraphClassifier
from tdlg.models.links import LinkModel
from tdlg.models.propagation import PropagationClassifier

Protocol = Literal["paper", "notebook"]

TINY_TOL = 1e-8  # entries of vectors may be so small that the default of 1e-4 is reached before the first step
NOTEBOOK_DECAY = Gaussian(relative=0.1 * 2**0.5)  # its formula has 4 s^2 where the paper has 2 s^2


class TDLG(LineGraphClassifier):
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

    name = "TDLG"

    def __init__(
        self,
        decay: Decay | None = None,
        *,
        normalization: Normalization | None = None,
        class_weight: Literal["balanced"] | None = "balanced",
        protocol: Protocol = "paper",
    ) -> None:
        super().__init__(decay, normalization=normalization, class_weight=class_weight)
        self.protocol = protocol

    def _choose_decay(self, *given: Any) -> Decay:
        usual = _usual_decay(self)
        return super()._choose_decay(*given) if self.decay is not None or usual is None else usual


class TDLGDense(BaseEstimator):
    """The paper's dense variant: logistic regression on the top eigenvectors of the line graph.

    Parameters
    ----------
    n_components, random_state
        The same as for `EdgeEmbedding`.
    decay, class_weight, protocol
        The same as for `TDLG`.
    """

    name = "TDLG (Dense)"

    def __init__(
        self,
        n_components: int = 128,
        *,
        decay: Decay | None = None,
        class_weight: Literal["balanced"] | None = "balanced",
        protocol: Protocol = "paper",
        random_state: Any = None,
    ) -> None:
        self.n_components = n_components
        self.decay = decay
        self.class_weight = class_weight
        self.protocol = protocol
        self.random_state = random_state

    def embed(self, edges: TemporalEdges) -> None:
        """Compute the eigenvectors."""
        decay = _usual_decay(self) if self.decay is None else self.decay
        model = EdgeEmbedding(self.n_components, decay=decay, random_state=self.random_state)
        self.embedding_ = model.fit(edges)

    def fit(self, edges: TemporalEdges) -> Self:
        """Learn one weight per eigenvector; `embed` must have been called with the same edges."""
        known = edges[edges.labelled]
        codes = np.unique(np.asarray(known.label), return_inverse=True)[1]
        self.model_ = logistic_regression(self.class_weight).fit(self._vectors(known), codes)
        return self

    def decision_function(self, edges: TemporalEdges) -> NDArray[np.float64]:
        """Score edges by their vectors; new edges are embedded by the Nystrom extension."""
        return scores_of(self.model_, self._vectors(edges))

    def _vectors(self, edges: TemporalEdges) -> NDArray[np.float64]:
        at = own_columns(edges, self.embedding_.edges_)
        vectors = self.embedding_.embedding_[at]
        if (at < 0).any():
            vectors[at < 0] = self.embedding_.transform(edges[at < 0])
        return vectors


class Propagation(PropagationClassifier):
    """`PropagationClassifier`, which rows of results call "propagation"."""

    name = "propagation"


class PropagationLinks(BaseEstimator):
    """Link prediction with the columns of `LinkPredictor`, from the real and shuffled edges of the task."""

    name = "propagation (links)"

    def __init__(self, *, random_state: Any = None) -> None:
        self.random_state = random_state

    def fit(self, edges: TemporalEdges) -> Self:
        """Learn to distinguish edges labelled 1 from edges labelled 0, for the time of these edges and after it."""
        known = edges[edges.labelled]
        self.model_ = LinkModel.learnt(known, np.asarray(known.label).astype(np.int64), as_generator(self.random_state))
        return self

    def decision_function(self, edges: TemporalEdges) -> NDArray[np.float64]:
        """Score edges by the edges around them."""
        return self.model_.scores(edges)


def logistic_regression(class_weight: Any) -> Any:
    """The classifier of all methods with dense vectors: scikit-learn's logistic regression with its default penalty."""
    from sklearn.linear_model import LogisticRegression

    return LogisticRegression(class_weight=class_weight, max_iter=1000, tol=TINY_TOL)


def _usual_decay(method: TDLG | TDLGDense) -> Decay | None:
    """The decay of the method's protocol, None for the default decay of our estimators, which is the paper's."""
    check_choice(type(method).__name__, "protocol", method.protocol, ("paper", "notebook"))
    return NOTEBOOK_DECAY if method.protocol == "notebook" else None


# ---- all methods by name

# The published methods of tdlg-paper, so that an error can say how to get them.
COMPARED = ("ctdne", "timers", "evolvegcn", "evolvegcn-o", "dyngem", "gcrn", "vgrnn", "dylink2vec", "dyrep")


def _installed() -> dict[str, Callable[..., Any]]:
    """The methods that installed packages bring, in the order of the paper; imported when made, as they may need PyTorch."""
    points = {point.name: point for point in entry_points(group="tdlg.methods")}
    names = [name for name in COMPARED if name in points] + sorted(points.keys() - set(COMPARED))
    return {name: lambda point=points[name], **settings: point.load()(**settings) for name in names}


METHODS: dict[str, Callable[..., Any]] = {
    "tdlg": TDLG,
    "tdlg-dense": TDLGDense,
    "propagation": Propagation,
    "propagation-links": PropagationLinks,
    "label-rates": LabelRates,
    "windows": Windows,
    "edgebank": EdgeBank,
    **_installed(),
}


def make_method(name: str, **settings: Any) -> Any:
    """Create a method by its name in `METHODS`, with these parameters.

    Examples
    --------
    >>> make_method("label-rates", stream=True)
    LabelRates(stream=True)
    """
    if name in COMPARED and name not in METHODS:
        raise ParameterError(
            f"The method {name!r} is one of the published methods to compare with, which are a package of their own. From a "
            "clone: pip install ./paper",
            parameter="name",
        )
    check_choice("make_method", "name", name, METHODS)
    return METHODS[name](**settings)
