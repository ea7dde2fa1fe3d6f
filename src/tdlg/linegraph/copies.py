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
    """Edges that a selection holds more than once, such as a bootstrap's: laid out once, and told apart again here.

    Attributes
    ----------
    distinct
        Each edge once.
    at
        For each edge of the selection its place among the distinct ones.
    none
        Whether there are no copies.
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
        """Add up what the copies of an edge bring."""
        if self.none:
            return x
        total = np.zeros((len(self.distinct), x.shape[1]), x.dtype)
        np.add.at(total, self.at, x)
        return total

    def repeat(self, y: Any) -> Any:
        """Give every copy its edge's row of an array or sparse matrix."""
        return y if self.none else y[self.at]

    def repeat_columns(self, matrix: csr_array) -> csr_array:
        """Give every copy its edge's column."""
        return matrix if self.none else csr_array(matrix[:, self.at])


def _find_copies(edges: TemporalEdges) -> tuple[NDArray[np.int64], TemporalEdges | None]:
    """Where each edge is among the distinct ones; and these, or None where all are distinct.

    It is kept beside the edges, so it must not refer to them: they would live until the garbage collector comes.
    """
    rows = edges.rows
    if not np.all(rows[1:] > rows[:-1]):  # else surely distinct, and in order: the usual case
        found, first, at = np.unique(rows, return_index=True, return_inverse=True)
        if found.size < rows.size:
            return at, edges[first]
    return np.arange(rows.size), None
