"""An edge's own features and weight as numbers that can be averaged: amounts tamed, categories as indicators."""

from __future__ import annotations

from collections.abc import Hashable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tdlg.edges import TemporalEdges
from tdlg.exceptions import EdgesError

__all__ = ["OwnColumn", "fit_own", "own_values"]

Floats = NDArray[np.float64]

MOST_CATEGORIES = 16  # of a column; rarer ones are no category at all
WEIGHT = "weight"


class OwnColumn(NamedTuple):
    """How a column becomes numbers: arsinh((x - centre) / spread), or an indicator for each of its commonest categories."""

    name: str
    categories: tuple[Hashable, ...]  # none for a number
    centre: float = 0.0
    spread: float = 1.0

    @property
    def width(self) -> int:
        """How many columns it becomes."""
        return len(self.categories) or 1


def fit_own(edges: TemporalEdges) -> list[OwnColumn]:
    """Look at the features and weights of edges."""
    return [_fit_column(edges, name) for name in _names(edges)]


def own_values(edges: TemporalEdges, columns: list[OwnColumn]) -> Floats:
    """The numbers, (n_edges, sum of widths); NaN where an amount is missing."""
    missing = [column.name for column in columns if column.name not in _names(edges)]
    if missing:
        raise EdgesError(
            f"The edges lack {', '.join(map(repr, missing))}, which the fitted edges had. "
            f"Give the same features: TemporalEdges(..., features=...), read_edges(..., features=[...])."
        )
    return np.hstack([np.empty((len(edges), 0)), *(_values(edges, column) for column in columns)])


def _names(edges: TemporalEdges) -> list[str]:
    names = list(edges.feature_names)
    return names if edges.weight is None or WEIGHT in names else [*names, WEIGHT]


def _column(edges: TemporalEdges, name: str) -> Floats:
    if name in edges.feature_names and edges.features is not None:
        return edges.features[:, edges.feature_names.index(name)].astype(np.float64)
    return np.asarray(edges.weight, np.float64)


def _fit_column(edges: TemporalEdges, name: str) -> OwnColumn:
    x = _column(edges, name)
    x = x[np.isfinite(x)]
    if name in edges.feature_categories:
        codes, counts = np.unique(x.astype(np.int64), return_counts=True)
        common = codes[np.argsort(-counts, kind="stable")[:MOST_CATEGORIES]]
        return OwnColumn(name, tuple(edges.feature_categories[name][code] for code in sorted(common)))
    if not x.size:
        return OwnColumn(name, ())
    low, centre, high = np.quantile(x, [0.25, 0.5, 0.75])
    spread = high - low or x.std() or 1.0
    return OwnColumn(name, (), float(centre), float(spread))


def _values(edges: TemporalEdges, column: OwnColumn) -> Floats:
    x = _column(edges, column.name)
    if bool(column.categories) != (column.name in edges.feature_categories) and np.isfinite(x).any():
        kinds = ("numbers", "categories")[:: -1 if column.categories else 1]
        raise EdgesError(
            f"The feature {column.name!r} has {kinds[1]} here, and had {kinds[0]} where it was fitted. Give it as then."
        )
    if not column.categories:
        return np.arcsinh((x - column.centre) / column.spread)[:, np.newaxis]
    named = edges.feature_categories.get(column.name, ())
    code_of = {category: code for code, category in enumerate(named)}
    wanted = np.array([code_of.get(category, np.nan) for category in column.categories], np.float64)
    return (x[:, np.newaxis] == wanted).astype(np.float64)
