"""Keys that select rows, checked."""

from __future__ import annotations

from contextlib import suppress
from types import EllipsisType
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tdlg.exceptions import EdgesError, Hint

__all__ = ["Rows", "as_slice", "row_key"]

Rows: TypeAlias = "range | NDArray[np.int64]"


def row_key(key: Any, n_edges: int) -> slice | NDArray[np.int64]:
    """A key that selects rows, as a slice or as checked positions."""
    if isinstance(key, tuple) and len(key) == 2 and key[1] is Ellipsis:
        key = key[0]  # scikit-learn's array[key, ...]
    if isinstance(key, slice | EllipsisType):
        return key if isinstance(key, slice) else slice(None)
    if isinstance(key, int | np.integer) and not isinstance(key, bool):
        raise EdgesError(
            f"A key of edges must select rows. Got {key} instead.", Hint("Use {code}.", code=f"edges[{key}:{key + 1}]")
        )
    index = np.empty((0, 0))
    with suppress(ValueError):  # raised for nested lists of different lengths
        index = np.asarray(key)
    if index.dtype.kind == "b" or (index.dtype == object and set(map(type, index.flat)) == {bool}):
        return _from_mask(index.astype(bool), n_edges)
    if index.ndim == 1 and (index.dtype.kind in "iu" or not len(index)):
        return _from_positions(index.astype(np.int64), n_edges)
    raise EdgesError(
        f"A key of edges must be a slice, positions or a mask. Got {type(key).__name__} {key!r} instead.",
        Hint("Use {code}.", code="edges[:10], edges[[0, 5]] or edges[edges.time < cut]"),
    )


def _from_mask(mask: NDArray[np.bool_], n_edges: int) -> NDArray[np.int64]:
    if mask.shape != (n_edges,):
        raise EdgesError(
            f"A mask must have one value per edge: {n_edges:,}. Got a mask of shape {mask.shape} instead.",
            Hint("Make it from these edges, such as {code}.", code="edges.time < cut"),
        )
    return np.flatnonzero(mask)


def _from_positions(index: NDArray[np.int64], n_edges: int) -> NDArray[np.int64]:
    outside = (index < -n_edges) | (index >= n_edges)
    if outside.any():
        raise IndexError(f"Position {index[outside][0]} is out of range for {n_edges:,} edges.")
    return np.where(index < 0, index + n_edges, index)


def as_slice(rows: Rows) -> slice | NDArray[np.int64]:
    """Evenly spaced rows as a slice, which copies nothing; other rows as they are."""
    if not isinstance(rows, range):
        return rows
    if not rows:
        return slice(0, 0)  # range(-1, -1, -1) is empty, slice(-1, None, -1) is not
    return slice(rows.start, rows.stop if rows.stop >= 0 else None, rows.step)
