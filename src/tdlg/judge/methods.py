"""Method: the base class of everything that can be evaluated; the methods of this package, and all methods by name.

Further methods come from installed packages: each entry point of the group "tdlg.methods" names a class, or a function that
makes a method. The distribution tdlg-paper, in the folder paper/, brings the published methods that the paper compares with.
"""

from __future__ import annotations

import hashlib
import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable
from importlib import import_module
from importlib.metadata import entry_points
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, clone

from tdlg.checks import as_generator, check_choice
from tdlg.edges import TemporalEdges
from tdlg.embed.eigenvectors import EdgeEmbedding, Scaling
from tdlg.exceptions import ParameterError
from tdlg.linegraph.decay import Decay, Gaussian
from tdlg.linegraph.events import own_columns
from tdlg.linegraph.operator import LineGraph, Normalization
from tdlg.models.linegraph import LineGraphClassifier
from tdlg.models.links import LinkModel
from tdlg.models.propagation import PropagationClassifier
from tdlg.models.training import Setting

__all__ = [
    "COMPARED",
    "METHODS",
    "TDLG",
    "Method",
    "Propagation",
    "PropagationLinks",
    "TDLGDense",
    "logistic_regression",
    "make_method",
    "scores_of",
    "settings_of",
]

TINY_TOL = 1e-8  # entries of vectors may be so small that the default of 1e-4 is reached before the first step
Protocol = Literal["paper", "notebook"]
NOTEBOOK_DECAY = Gaussian(relative=0.1 * 2**0.5)  # its formula has 4 s^2 where the paper has 2 s^2


class Method(BaseEstimator, ABC):
    """A method that learns from some edges and scores others; see `tdlg.judge.run`.

    It has three steps, so that each can be timed: `embed`, `fit` and `score`. Its parameters are those of its constructor,
    as in scikit-learn, and each trial uses a new copy.
    """

    name: ClassVar[str]

    @property
    def settings(self) -> str:
        """The parameters that differ from their defaults, by name, such as "bandwidth=5"; empty if none does.

        It identifies rows of results, so it is the same in every process for equal parameters.
        """
        return settings_of(self)

    def embed(self, edges: TemporalEdges) -> None:
        """Compute everything that does not need the labels, such as node vectors.

        Parameters
        ----------
        edges
            The edges that the method may see. Edges with a missing label are not trained on.
        """

    @abstractmethod
    def fit(self, edges: TemporalEdges) -> None:
        """Learn from the known labels.

        Parameters
        ----------
        edges
            The edges that were passed to `embed`.
        """

    @abstractmethod
    def score(self, edges: TemporalEdges) -> NDArray[np.float64]:
        """Score edges: shape (n_edges,) for two classes, high for the second in sorted order; else (n_edges, n_classes).

        Parameters
        ----------
        edges
            The edges to score; edges that were passed to `embed` are rows of the same table.
        """

    def streaming(self) -> Method | None:
        """The same method for labels that become known over time, or None if it must be fitted again for new labels.

        Its `score` gets edges with labels, and may use each label only for strictly later edges.
        """
        return None

    def __repr__(self) -> str:
        return _shown(self)


def settings_of(estimator: BaseEstimator) -> str:
    """The parameters of an estimator that differ from their defaults, by name; the same text in every process."""
    declared = inspect.signature(type(estimator).__init__).parameters
    shown = {name: _shown(value) for name, value in sorted(estimator.get_params(deep=False).items())}
    return ", ".join(f"{name}={text}" for name, text in shown.items() if text != _shown(declared[name].default))


def _shown(value: Any) -> str:
    """A parameter as text that depends only on its value, not on its memory address."""
    if isinstance(value, BaseEstimator):
        return f"{type(value).__name__}({settings_of(value)})"
    if isinstance(value, np.random.Generator):
        return f"Generator({_digest(_shown(value.bit_generator.state).encode())})"
    if isinstance(value, np.random.RandomState):
        return f"RandomState({_digest(_shown(value.get_state(legacy=False)).encode())})"
    if isinstance(value, np.ndarray) and value.dtype != object:
        return f"array({value.dtype}, {value.shape}, {_digest(value.tobytes())})"
    if isinstance(value, np.bool_ | np.int64 | np.float64 | np.str_):
        return repr(value.item())
    if type(value) in (list, tuple):
        inside = ", ".join(map(_shown, value))
        return f"[{inside}]" if type(value) is list else f"({inside})"
    if type(value) is dict:
        return "{" + ", ".join(f"{_shown(key)}: {_shown(item)}" for key, item in value.items()) + "}"
    return repr(value)


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:16]


def logistic_regression(class_weight: Any) -> Any:
    """The classifier of all methods with dense vectors: scikit-learn's logistic regression with its default penalty."""
    from sklearn.linear_model import LogisticRegression

    return LogisticRegression(class_weight=class_weight, max_iter=1000, tol=TINY_TOL)


def scores_of(model: Any, X: Any) -> NDArray[np.float64]:
    """Scores of any scikit-learn classifier: its decision function or its probabilities (of the second of two classes)."""
    if hasattr(model, "decision_function"):
        return np.asarray(model.decision_function(X))
    probability: NDArray[np.float64] = model.predict_proba(X)
    return probability[:, 1] if probability.shape[1] == 2 else probability


# ---- the methods of this package


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


# ---- all methods by name

# The published methods of tdlg-paper, so that an error can say how to get them.
COMPARED = ("ctdne", "timers", "evolvegcn", "evolvegcn-o", "dyngem", "gcrn", "vgrnn", "dylink2vec", "dyrep")


def _later(load: Callable[[], Any]) -> Callable[..., Method]:
    """A class that is imported when the first object is made, as it may need PyTorch."""
    return lambda **settings: load()(**settings)


def _reference(name: str) -> Callable[..., Method]:
    return _later(lambda: getattr(import_module("tdlg.judge.references"), name))


def _installed() -> dict[str, Callable[..., Method]]:
    """The methods that installed packages bring, in the order of the paper."""
    points = {point.name: point for point in entry_points(group="tdlg.methods")}
    names = [name for name in COMPARED if name in points] + sorted(points.keys() - set(COMPARED))
    return {name: _later(points[name].load) for name in names}


METHODS: dict[str, Callable[..., Method]] = {
    "tdlg": TDLG,
    "tdlg-dense": TDLGDense,
    "propagation": Propagation,
    "propagation-links": PropagationLinks,
    "label-rates": _reference("LabelRates"),
    "windows": _reference("Windows"),
    "edgebank": _reference("EdgeBank"),
    **_installed(),
}


def make_method(name: str, **settings: Any) -> Method:
    """Create a method by its name in `METHODS`.

    Parameters
    ----------
    name
        The name, for example "tdlg" or "label-rates".
    settings
        The parameters of the method.

    Examples
    --------
    >>> make_method("label-rates", classifier="logistic").settings
    "classifier='logistic'"
    """
    if name in COMPARED and name not in METHODS:
        raise ParameterError(
            f"The method {name!r} is one of the published methods to compare with, which are a package of their own. From a "
            "clone: pip install ./paper",
            parameter="name",
        )
    check_choice("make_method", "name", name, METHODS)
    return METHODS[name](**settings)
