"""Method: the base class of everything that can be evaluated."""

from __future__ import annotations

import hashlib
import inspect
from abc import ABC, abstractmethod
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

from tdlg.edges import TemporalEdges

__all__ = ["Method", "logistic_regression", "scores_of"]

TINY_TOL = 1e-8  # entries of vectors may be so small that the default of 1e-4 is reached before the first step


class Method(BaseEstimator, ABC):
    """A method that learns from some edges and scores others; see `tdlg.judge.evaluate`.

    It has three steps, so that each can be timed: `embed`, `fit` and `score`. Its parameters are those of its constructor,
    as in scikit-learn, and each trial uses a new copy.
    """

    name: ClassVar[str]

    @property
    def settings(self) -> str:
        """The parameters that differ from their defaults, by name, such as "bandwidth=5"; empty if none does.

        It identifies rows of results, so it is the same in every process for equal parameters.
        """
        return _changed_parameters(self)

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


def _changed_parameters(estimator: BaseEstimator) -> str:
    declared = inspect.signature(type(estimator).__init__).parameters
    shown = {name: _shown(value) for name, value in sorted(estimator.get_params(deep=False).items())}
    return ", ".join(f"{name}={text}" for name, text in shown.items() if text != _shown(declared[name].default))


def _shown(value: Any) -> str:
    """A parameter as text that depends only on its value, not on its memory address."""
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
