"""Method: what everything that is judged has in common."""

from __future__ import annotations

import hashlib
import inspect
from abc import ABC, abstractmethod
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

from tdlg.edges import TemporalEdges

__all__ = ["Method", "scores_of"]


class Method(BaseEstimator, ABC):
    """Something that scores edges after having seen others; see `tdlg.judge.evaluate`.

    Three steps, so that each can be timed: `embed`, `fit`, `score`. A method's parameters are those of its constructor, as
    in scikit-learn, and a fresh copy is made for each trial.
    """

    name: ClassVar[str]

    @property
    def settings(self) -> str:
        """The parameters that differ from their defaults, by name, such as "bandwidth=5"; empty where none does.

        Rows of results are found again by it, so it is the same in every process for equal parameters.
        """
        return _changed_parameters(self)

    def embed(self, edges: TemporalEdges) -> None:
        """Make what does not need the labels, such as vectors of nodes.

        Parameters
        ----------
        edges
            The edges that may be seen. Those whose label is missing are not trained on.
        """

    @abstractmethod
    def fit(self, edges: TemporalEdges) -> None:
        """Learn from the known labels.

        Parameters
        ----------
        edges
            The same edges that were embedded.
        """

    @abstractmethod
    def score(self, edges: TemporalEdges) -> NDArray[np.float64]:
        """Score edges: (n_edges,) for two classes, high for the second in sorted order; else (n_edges, n_classes).

        Parameters
        ----------
        edges
            Any edges; among those that were seen, they are rows of the same table.
        """

    def streaming(self) -> Method | None:
        """The same method, for labels that become known as time goes on; None where it has to be fitted anew for them.

        Such a method is asked to `score` edges with labels, and may use each only for strictly later edges.
        """
        return None

    def __repr__(self) -> str:
        return _shown(self)


def _changed_parameters(estimator: BaseEstimator) -> str:
    declared = inspect.signature(type(estimator).__init__).parameters
    shown = {name: _shown(value) for name, value in sorted(estimator.get_params(deep=False).items())}
    return ", ".join(f"{name}={text}" for name, text in shown.items() if text != _shown(declared[name].default))


def _shown(value: Any) -> str:
    """A parameter as text: all of its value, and nothing of where it is in memory."""
    if isinstance(value, BaseEstimator):
        return f"{type(value).__name__}({_changed_parameters(value)})"
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


def scores_of(model: Any, X: Any) -> NDArray[np.float64]:
    """Scores by any scikit-learn classifier: its decision function, or its probabilities (of the second of two classes)."""
    if hasattr(model, "decision_function"):
        return np.asarray(model.decision_function(X))
    probability: NDArray[np.float64] = model.predict_proba(X)
    return probability[:, 1] if probability.shape[1] == 2 else probability
