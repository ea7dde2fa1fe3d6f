"""What all estimators share: they take temporal edges, or a table whose columns are src, dst, time and features."""

from __future__ import annotations

from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import column_or_1d, validate_data

from tdlg._columns.frames import eager_frame
from tdlg.decay import Decay
from tdlg.edges import TemporalEdges
from tdlg.exceptions import EdgesError, ParameterError
from tdlg.linegraph import LineGraph, Normalization, NormalizedLineGraph

__all__ = ["EdgesEstimator", "check_choice", "check_count", "check_number", "known_labels", "new_nodes"]

ENDS, ENDS_AND_TIME = 2, 3  # the columns that a table of edges must have, and should have


class EdgesEstimator:
    """A mixin for estimators whose X is `TemporalEdges`, or a 2-D array or dataframe: src, dst, time, features.

    A dataframe's columns are taken by position too, as in an array: to name them, make edges of it with `from_frame`. A
    table of two columns has no times: all its edges happened at once, and want `NoDecay()`.
    """

    decay: Decay | None
    n_threads: int | None
    normalization: Normalization | None = None
    edges_: TemporalEdges
    decay_: Decay

    def _edges(self, X: Any, *, reset: bool) -> TemporalEdges:
        """X as edges; `reset` when fitting, else X must look as it did then."""
        edges = X if isinstance(X, TemporalEdges) else self._from_table(X, reset)
        if reset and len(edges) == 0:
            raise EdgesError(f"{type(self).__name__} was given no edges: at least one is needed to fit.")
        if reset and edges is X:
            self.n_features_in_ = X.shape[1]
            self.__dict__.pop("feature_names_in_", None)
        return edges

    def _from_table(self, X: Any, reset: bool) -> TemporalEdges:
        columns: list[Any]
        if hasattr(type(X), "columns"):  # of a dataframe, each with a dtype of its own
            frame = eager_frame(X, "X")
            validate_data(self, frame.to_native(), reset=reset, skip_check_array=True)
            columns = [frame.get_column(name).to_native() for name in frame.columns]
        else:
            columns = list(validate_data(self, X, reset=reset, dtype=None, ensure_min_features=ENDS if reset else 1).T)
        if len(columns) < ENDS:
            raise EdgesError(f"A table of edges has at least 2 columns, src and dst. Got {len(columns)} instead.")
        src, dst, time = columns[:ENDS_AND_TIME] if len(columns) > ENDS else (*columns, np.zeros(len(columns[0])))
        features = {f"feature_{k}": column for k, column in enumerate(columns[ENDS_AND_TIME:])}
        bipartite = not reset and hasattr(self, "edges_") and self.edges_.bipartite
        return TemporalEdges(src, dst, time, features=features, bipartite=bipartite)

    def _graph(self, rows: TemporalEdges) -> LineGraph | NormalizedLineGraph:
        """H(rows, fitted edges), normalised where asked for."""
        fitted = self.edges_
        if rows.same_table(fitted) and np.array_equal(rows.rows, fitted.rows):
            rows = fitted
        H = LineGraph(rows, fitted, decay=self.decay_, n_threads=self.n_threads)
        return H if self.normalization is None else H.normalized(self.normalization)

    def _check_graph(self) -> None:
        """Refuse parameters that no line graph has."""
        owner = type(self).__name__
        if not isinstance(self.decay, Decay | None):
            raise ParameterError(
                f"The 'decay' parameter of {owner} must be Gaussian(...), Laplace(...), Mixture(...) or NoDecay(). "
                f"Got {self.decay!r} instead."
            )
        check_choice(owner, "normalization", self.normalization, (None, "spectral", "edge"))
        if self.n_threads is not None:
            check_count(owner, "n_threads", self.n_threads, 1)

    def _fitted_shapes(self) -> dict[str, tuple[int, ...]]:
        """The arrays that a fitted estimator has, and their shapes."""
        return {}

    def _check_loaded(self) -> None:
        """Refuse what was read from a file where it cannot be what was fitted."""
        for name, shape in self._fitted_shapes().items() if "edges_" in vars(self) else ():
            if np.shape(getattr(self, name)) != shape:
                raise ValueError(f"{name} has the shape {np.shape(getattr(self, name))} instead of {shape}")

    def save(self, path: Any) -> None:
        """Write the fitted model to a file without executable code, which `tdlg.load_model` reads."""
        from tdlg.persist.model import save_model

        save_model(self, path)


def known_labels(edges: TemporalEdges, y: Any) -> tuple[NDArray[Any], NDArray[np.bool_], NDArray[Any]]:
    """The labels to learn from, y where given and else the edges' own; the mask of those that are known; and these."""
    if y is not None:
        edges = edges.with_label(y if hasattr(y, "to_list") else column_or_1d(y, warn=True))
    if edges.label is None:
        raise EdgesError(
            "There are no labels to learn from. Give them as y, or with the edges: TemporalEdges(..., label=...), "
            "read_edges(..., label=...). Missing ones (NaN, None) mark edges whose label is to be found."
        )
    return edges.label, edges.labelled, _plain(edges.label[edges.labelled], y, edges.labelled)


def _plain(labels: NDArray[Any], y: Any, known: NDArray[np.bool_]) -> NDArray[Any]:
    """Known labels as what they are: objects as booleans, floats as integers, where only missing ones made them so."""
    if labels.dtype == object and set(map(type, labels)) == {bool}:
        return labels.astype(bool)
    given = y.to_list() if hasattr(y, "to_list") else y
    if labels.dtype.kind != "f" or not isinstance(given, list | np.ndarray) or known.all():
        return labels
    found = [value for value, keep in zip(given, known, strict=True) if keep]
    return np.array(found) if all(isinstance(value, Integral) for value in found) else labels


def check_count(owner: str, name: str, value: Any, least: int) -> None:
    """Refuse a parameter that is not a whole number of at least `least`."""
    if isinstance(value, bool) or not isinstance(value, Integral) or value < least:
        raise ParameterError(
            f"The {name!r} parameter of {owner} must be a whole number, at least {least}. Got {value!r} instead."
        )


def check_number(owner: str, name: str, value: Any, below: float = np.inf) -> None:
    """Refuse a parameter that is not a number above 0, and below what is given."""
    if isinstance(value, bool) or not isinstance(value, int | float | np.number) or not 0 < value < below:
        wanted = "a positive number" if below == np.inf else f"between 0 and {below:g}"
        raise ParameterError(f"The {name!r} parameter of {owner} must be {wanted}. Got {value!r} instead.")


def check_choice(owner: str, name: str, value: Any, choices: tuple[str | None, ...]) -> None:
    """Refuse a parameter that is none of the choices."""
    if not any(value is choice or (isinstance(value, str) and value == choice) for choice in choices):
        raise ParameterError(
            f"The {name!r} parameter of {owner} must be one of {list(choices)}. Got {value!r} instead."
        )


def new_nodes(model: Any, edges: TemporalEdges) -> tuple[int, int]:
    """How many of the distinct nodes of `edges` the fitted model does not know, and how many there are."""
    src, dst = model.edges_.codes_of(edges)
    codes = np.full(edges.n_nodes, -2, np.int64)
    codes[edges.src_code], codes[edges.dst_code] = src, dst
    return int((codes == -1).sum()), int((codes > -2).sum())
