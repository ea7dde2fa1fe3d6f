"""From decayed sums over the edges around to columns: one definition for batches and streams."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from tdlg.propagate.own_features import OwnColumn, smallest_amounts

__all__ = ["ColumnWriter"]

Floats = NDArray[np.float64]

KINDS = (
    "mean",
    "deviation",
    "score",
    "ratio",
    "share",
    "share of all",
)  # in the order of the codes in `_kernels.columns`


class ColumnWriter(NamedTuple):
    """How the sums of one match become columns.

    Attributes
    ----------
    compared, amounts
        What is compared with the edges around, see `_kernels.columns.write_columns`; no rows if nothing is.
    smoothing
        The number of pseudo-edges that are added to each rate and mean.
    spread
        The standard deviation of the times, in ticks.
    """

    compared: NDArray[np.int64]
    amounts: Floats
    smoothing: float
    spread: float

    @classmethod
    def of(cls, own: Sequence[OwnColumn], smoothing: float, spread: float) -> Self:
        """Describe the comparisons of features; the sums are those of a count and of `to_sum`."""
        compared, amounts = [], []
        first, start = 0, 1
        for column in own:
            for kind in column.beside:
                kind = "share of all" if kind == "share" and not column.has_more else kind
                compared.append((KINDS.index(kind), first, column.width, start))
                amounts.append(smallest_amounts(column))
            first, start = first + column.width, start + column.n_sums
        return cls(np.array(compared, np.int64).reshape(-1, 4), np.array(amounts).reshape(-1, 2), smoothing, spread)

    def write(self, sums: Floats, labels: Floats, gaps: Floats, mine: Floats, start: int, out: Floats) -> None:
        """Write the columns of some rows, in the order of `Description.of_match`.

        Parameters
        ----------
        sums
            Decayed sums over the edges around, (n_scales, n_values, n_rows): the count, then the values of `to_sum`; more
            values are ignored.
        labels
            Decayed number of known labels and sums of targets, (n_scales, 1 + n_targets, n_rows); (0, 0, n_rows) if there
            are no targets.
        gaps
            Ticks to the previous edge, and perhaps to the next edge, (n_gaps, n_rows).
        mine
            The features of the edges themselves, (n_rows, n_own).
        start
            The first row in `out`.
        out
            One line per column, (n_columns, n_all_rows), which is changed.
        """
        from tdlg._kernels.columns import write_columns

        write_columns(sums, labels, gaps, mine, *self, start, out)
