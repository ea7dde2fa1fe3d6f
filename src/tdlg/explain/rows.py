"""Why a model says what it says: the interactions behind a prediction."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tdlg.checks import check_count
from tdlg.clock import time_in_words
from tdlg.edges import TemporalEdges
from tdlg.exceptions import ParameterError
from tdlg.explain.sentences import label_in_words, node_in_words
from tdlg.linegraph.events import own_columns

if TYPE_CHECKING:
    import polars as pl


__all__ = ["as_series", "chosen_rows", "explain_rows", "main_interactions"]

INTERACTIONS_TRIED = 5  # to find one that speaks for the class


def explain_rows(model: Any, edges: TemporalEdges, top: int = 5, *, rows: Any = None) -> pl.DataFrame:
    """The fitted interactions that moved each decision value most.

    The decision value of an edge is a sum over the fitted edges j, of H_ij * coef_j, and the intercept. With two classes it
    speaks for the second, where it is above 0; with more, it is the score of the predicted class.

    Parameters
    ----------
    model
        A fitted `LineGraphClassifier`.
    edges
        The edges to explain.
    top
        How many interactions to name for each edge, by size of contribution.
    rows
        Positions in `edges` of those to explain; all when not given.

    Returns
    -------
    polars.DataFrame
        Columns edge (position in `edges`), class (that the decision value speaks for), part ("interaction", "itself" where
        that is the fitted edge that is explained, "others", "intercept"), position (of the interaction among the fitted
        edges), src, dst, time, label, proximity (H_ij) and contribution. The contributions of one edge add up to its
        decision value.

    Examples
    --------
    >>> from tdlg import LineGraphClassifier, TemporalEdges
    >>> edges = TemporalEdges(["a", "b", "c"], ["x", "x", "y"], [1, 2, 3], label=[1, 1, 0])
    >>> table = LineGraphClassifier(bandwidth=5.0).fit(edges).explain(edges[:1], top=1)
    >>> table["part"].to_list()
    ['itself', 'others', 'intercept']
    """
    import polars as pl

    check_count("explain", "top", top, 1)
    chosen = chosen_rows(rows, len(edges)).tolist()
    graph, fitted = model._graph(edges), model.edges_
    scores = model.decision_function(edges)
    outputs = np.zeros(len(edges), int) if scores.ndim == 1 else scores.argmax(axis=1)
    own = own_columns(edges, fitted)
    lines = [line for i in chosen for line in _lines(model, graph, i, int(outputs[i]), own[i], top)]
    edge, part, at, proximity, contribution = zip(*lines, strict=True) if lines else ((),) * 5
    position = np.array(at, int)
    named = position >= 0

    def column(values: NDArray[Any]) -> pl.Series:
        return as_series(values[np.where(named, position, 0)] if lines else values[:0], named)

    classes = model.classes_[outputs + (scores.ndim == 1)]
    return pl.DataFrame(
        {
            "edge": pl.Series(edge, dtype=pl.Int64),
            "class": as_series(classes[np.array(edge, int)]),
            "part": pl.Series(part, dtype=pl.String),
            "position": as_series(position, named),
            "src": column(fitted.src),
            "dst": column(fitted.dst),
            "time": column(fitted.time),
            "label": column(model.labels_),
            "proximity": pl.Series(proximity, dtype=pl.Float64),
            "contribution": pl.Series(contribution, dtype=pl.Float64),
        }
    )


def chosen_rows(rows: Any, n_edges: int) -> NDArray[np.int64]:
    """Positions of the edges to explain, all when none are given; refuses what is no position."""
    if rows is None:
        return np.arange(n_edges)
    chosen = np.atleast_1d(np.asarray(rows))
    if chosen.size == 0:
        return np.empty(0, np.int64)
    if chosen.ndim > 1 or chosen.dtype.kind not in "iu" or chosen.min() < 0 or chosen.max() >= n_edges:
        raise ParameterError(
            f"The 'rows' must be positions of edges, whole numbers from 0 to {n_edges - 1:,}. Got {rows!r} instead."
        )
    return chosen.astype(np.int64)


def as_series(values: NDArray[Any], keep: NDArray[np.bool_] | None = None) -> pl.Series:
    """Ids, times or labels as a column of a frame, null where they are not kept; ids of mixed kinds stay objects."""
    import polars as pl

    if values.dtype.kind == "M":
        unit = np.datetime_data(values.dtype)[0]
        times = values if unit == "ns" else values.astype("datetime64[us]")
        return pl.Series(times if keep is None else np.where(keep, times, np.datetime64("NaT")))
    listed = values.tolist()
    if keep is not None:
        listed = [value if kept else None for value, kept in zip(listed, keep, strict=True)]
    types: dict[Any, Any] = {"b": pl.Boolean, "i": pl.Int64, "f": pl.Float64}
    found = set(map(type, listed)) - {type(None)}
    plain = (
        pl.String if found <= {str} else pl.Boolean if found == {bool} else pl.Int64 if found == {int} else pl.Object
    )
    return pl.Series(listed, dtype=types.get(values.dtype.kind, plain))


def _lines(
    model: Any, graph: Any, i: int, output: int, own: int, top: int
) -> list[tuple[int, str, int, float | None, float]]:
    """(edge, part, position, proximity, contribution) of the interactions behind one score, of the others, the intercept."""
    row = graph.row(i)
    contributions = row.data * model.coef_[output, row.indices]
    order = np.argsort(-np.abs(contributions), kind="stable")
    named = [
        (i, "itself" if at == own else "interaction", int(at), float(row.data[j]), float(contributions[j]))
        for j, at in zip(order[:top], row.indices[order[:top]], strict=True)
    ]
    return [
        *named,
        (i, "others", -1, None, float(contributions[order[top:]].sum())),
        (i, "intercept", -1, None, float(model.intercept_[output])),
    ]


# ---- nodes


def main_interactions(model: Any, edges: TemporalEdges, code: int) -> list[str | None]:
    """For each edge the fitted interaction that speaks most for the class, of those that moved its score most."""
    reasons: list[str | None] = [None] * len(edges)
    table = model.explain(edges, top=INTERACTIONS_TRIED)
    sign = -1 if len(model.classes_) == 2 and code == 0 else 1  # scores of two classes speak for the second
    spoken_for = model.classes_[1 if len(model.classes_) == 2 else code]
    for i, of, part, at, contribution in table["edge", "class", "part", "position", "contribution"].iter_rows():
        if part == "interaction" and of == spoken_for and contribution * sign > 0 and reasons[i] is None:
            reasons[i] = _near(model, edges, i, at)
    return reasons


def _near(model: Any, edges: TemporalEdges, i: int, at: int) -> str:
    fitted, known = model.edges_, model.edges_.with_label(model.labels_).labelled
    gap = fitted.time[at] - edges.time[i]
    unit = None if fitted.time_unit is None else np.datetime_data(gap.dtype)[0]
    when = time_in_words(gap.item() if unit is None else int(gap.astype(np.int64)), unit)
    of = f"labelled {label_in_words(model.labels_[at])}" if known[at] else "of unknown label"
    return f"near the interaction from {node_in_words(fitted.src[at])} to {node_in_words(fitted.dst[at])} {when}, {of}"
