"""Copies: edges that a selection holds more than once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

if TYPE_CHECKING:
    from tdlg.edges import TemporalEdges

__all__ = ["Copies"]

Floats = NDArray[Any]  # float64 or float32


class Copies:
    """Edges that a selection contains more than once, for example in a bootstrap sample.

    Only the distinct edges have events; this class maps between them and the copies.

    Attributes
    ----------
    distinct
        Each edge once.
    at
        For each edge of the selection, its position in `distinct`.
    none
        Whether all edges are distinct.
    """

    def __init__(self, edges: TemporalEdges) -> None:
        self.at, distinct = edges.cached(("copies",), lambda: _find_copies(edges))
        self.none = distinct is None
        self.distinct = edges if distinct is None else distinct

    @property
    def count(self) -> NDArray[np.int64]:
        """How often each distinct edge occurs."""
        return np.bincount(self.at, minlength=len(self.distinct))

    def add(self, x: Floats) -> Floats:
        """Sum the rows of the copies of each edge."""
        if self.none:
            return x
        total = np.zeros((len(self.distinct), x.shape[1]), x.dtype)
        np.add.at(total, self.at, x)
        return total

    def repeat(self, y: Any) -> Any:
        """Repeat the rows of an array or sparse matrix for every copy of an edge."""
        return y if self.none else y[self.at]

    def repeat_columns(self, matrix: csr_array) -> csr_array:
        """Repeat the columns for every copy of an edge."""
        return matrix if self.none else csr_array(matrix[:, self.at])


def _find_copies(edges: TemporalEdges) -> tuple[NDArray[np.int64], TemporalEdges | None]:
    """The position of each edge among the distinct edges, and the distinct edges, or None if all are distinct.

    The result is cached with the edges, so it must not refer to them: a reference cycle would delay freeing them.
    """
    rows = edges.rows
    if not np.all(rows[1:] > rows[:-1]):  # ascending rows, the usual case, are distinct
        found, first, at = np.unique(rows, return_index=True, return_inverse=True)
        if found.size < rows.size:
            return at, edges[first]
    return np.arange(rows.size), None
