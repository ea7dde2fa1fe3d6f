"""An edge's own features and weight as numbers that can be averaged: scaled amounts, and indicators of categories."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tdlg.edges import TemporalEdges
from tdlg.exceptions import EdgesError, Hint

__all__ = ["OwnColumn", "category_codes", "fit_own", "own_values", "scaled"]

Floats = NDArray[np.float64]

MOST_CATEGORIES = 16  # maximum number of indicators per column
LARGEST = 1e300  # larger amounts are clipped, so that all results are finite
WEIGHT = "weight"


class OwnColumn(NamedTuple):
    """How a column becomes numbers: arsinh((x - centre) / spread), or indicators of its most common categories."""

    name: str
    categories: tuple[Hashable, ...]  # empty for a number
    centre: float = 0.0
    spread: float = 1.0
    has_more: bool = False  # whether there are further categories

    @property
    def width(self) -> int:
        """The number of columns that it becomes."""
        return len(self.categories) or 1


def fit_own(edges: TemporalEdges) -> list[OwnColumn]:
    """Determine centres, spreads and categories from the features and weights of edges."""
    return [_fit_column(edges, name) for name in _names(edges)]


def own_values(edges: TemporalEdges, columns: list[OwnColumn]) -> Floats:
    """The numbers, (n_edges, sum of widths); NaN where an amount is missing."""
    missing = [column.name for column in columns if column.name not in _names(edges)]
    if missing:
        features = [column.name for column in columns if column.name != WEIGHT]
        raise EdgesError(
            f"The edges lack {', '.join(map(repr, missing))}, which the fitted edges have.",
            Hint("Pass {weight}.", weight=...) if missing == [WEIGHT] else Hint("Pass {features}.", features=features),
        )
    return np.hstack([np.empty((len(edges), 0)), *(_values(edges, column) for column in columns)])


def category_codes(edges: TemporalEdges, fitted: TemporalEdges, names: list[str]) -> NDArray[np.int64]:
    """Integer codes of categorical features, (n_edges, n_names), the same for fitted and other edges; -1 for missing.

    A category that the fitted edges do not have gets a new code.
    """
    codes = np.full((len(edges), len(names)), -1, np.int64)
    for k, name in enumerate(names):
        number = {category: code for code, category in enumerate(fitted.feature_categories.get(name, ()))}
        named = [number.setdefault(category, len(number)) for category in edges.feature_categories.get(name, ())]
        x = _column(edges, name)
        present = np.isfinite(x)
        codes[present, k] = np.array(named, np.int64)[x[present].astype(np.int64)]
    return codes


def scaled(x: NDArray[Any], column: OwnColumn) -> Floats:
    """Scale amounts for the model: arsinh((x - centre) / spread), finite for all finite x."""
    with np.errstate(over="ignore"):
        return np.arcsinh(np.clip(x / column.spread - column.centre / column.spread, -LARGEST, LARGEST))


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
        named = tuple(edges.feature_categories[name][code] for code in sorted(common))
        return OwnColumn(name, named, has_more=len(codes) > MOST_CATEGORIES)
    if not x.size:
        return OwnColumn(name, ())
    x = np.clip(x, -LARGEST, LARGEST)  # so that no difference overflows
    low, centre, high = np.quantile(x, [0.25, 0.5, 0.75])
    largest = np.abs(x).max() or 1.0
    spread = high - low or largest * (x / largest).std() or 1.0
    return OwnColumn(name, (), float(centre), float(spread))


def _values(edges: TemporalEdges, column: OwnColumn) -> Floats:
    x = _column(edges, column.name)
    if bool(column.categories) != (column.name in edges.feature_categories) and np.isfinite(x).any():
        kinds = ("numbers", "categories")[:: -1 if column.categories else 1]
        raise EdgesError(
            f"The feature {column.name!r} has {kinds[1]} here and had {kinds[0]} in the fitted edges. "
            "Pass it with the same type."
        )
    if not column.categories:
        return scaled(x, column)[:, np.newaxis]
    place = {category: k for k, category in enumerate(column.categories)}
    at = np.array([place.get(category, -1) for category in edges.feature_categories.get(column.name, ())], np.int64)
    indicators = np.zeros((len(x), len(place)))
    rows = np.flatnonzero(np.isfinite(x))
    rows = rows[at[x[rows].astype(np.int64)] >= 0]
    indicators[rows, at[x[rows].astype(np.int64)]] = 1.0
    return indicators
