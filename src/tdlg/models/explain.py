"""Why a model says what it says: the interactions behind a prediction."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tdlg.edges import TemporalEdges
from tdlg.exceptions import ParameterError
from tdlg.layout import own_columns

if TYPE_CHECKING:
    import polars as pl

    from tdlg.models.rows import LineGraphClassifier

__all__ = ["explain_rows"]


def explain_rows(model: LineGraphClassifier, edges: TemporalEdges, top: int = 5) -> pl.DataFrame:
    """The fitted interactions that moved each decision value most.

    The decision value of an edge is a sum over the fitted edges j, of H_ij * coef_j, and the intercept. With more than two
    classes, it is the score of the predicted class.

    Parameters
    ----------
    model
        A fitted `LineGraphClassifier`.
    edges
        The edges to explain.
    top
        How many interactions to name for each edge, by size of contribution.

    Returns
    -------
    polars.DataFrame
        Columns edge (position in `edges`), part ("interaction", "itself" where that is the fitted edge that is explained,
        "others", "intercept"), position (of the interaction among the fitted edges), src, dst, time, label, proximity
        (H_ij) and contribution. The contributions of one edge add up to its decision value.

    Examples
    --------
    >>> from tdlg import LineGraphClassifier, TemporalEdges
    >>> edges = TemporalEdges(["a", "b", "c"], ["x", "x", "y"], [1, 2, 3], label=[1, 1, 0])
    >>> table = LineGraphClassifier(bandwidth=5.0).fit(edges).explain(edges[:1], top=1)
    >>> table["part"].to_list()
    ['interaction', 'others', 'intercept']
    """
    import polars as pl

    if not (isinstance(top, (int, np.integer)) and top >= 1):
        raise ParameterError(f"The 'top' parameter of explain must be a whole number, at least 1. Got {top!r} instead.")
    graph = model._graph(edges)
    scores = model.decision_function(edges)
    outputs = np.zeros(len(edges), int) if scores.ndim == 1 else scores.argmax(axis=1)
    fitted = model.edges_
    own = own_columns(edges, fitted)
    lines = [line for i in range(len(edges)) for line in _lines(model, graph, i, int(outputs[i]), own[i], top)]
    positions = np.array([line[2] for line in lines], int)
    named = positions >= 0

    def column(values: Any) -> list[Any]:
        taken = values[np.where(named, positions, 0)]
        taken = (
            taken.astype("datetime64[us]") if taken.dtype.kind == "M" else taken
        ).tolist()  # ns would become numbers
        return [value if keep else None for value, keep in zip(taken, named, strict=True)]

    return pl.DataFrame(
        {
            "edge": [line[0] for line in lines],
            "part": [line[1] for line in lines],
            "position": [int(p) if keep else None for p, keep in zip(positions, named, strict=True)],
            "src": column(fitted.src),
            "dst": column(fitted.dst),
            "time": column(fitted.time),
            "label": column(model.labels_),
            "proximity": [line[3] for line in lines],
            "contribution": [line[4] for line in lines],
        },
        strict=False,
    )


def _lines(
    model: LineGraphClassifier, graph: Any, i: int, output: int, own: int, top: int
) -> list[tuple[int, str, int, float | None, float]]:
    """(edge, part, position, proximity, contribution) of the interactions behind one score, of the others, the intercept."""
    row = graph.row(i)
    contributions = row.data * model.coef_[output, row.indices]
    order = np.argsort(-np.abs(contributions), kind="stable")
    named = [(i, "interaction", int(row.indices[j]), float(row.data[j]), float(contributions[j])) for j in order[:top]]
    return [
        *named,
        (i, "others", -1, None, float(contributions[order[top:]].sum())),
        (i, "intercept", -1, None, float(model.intercept_[output])),
    ]
