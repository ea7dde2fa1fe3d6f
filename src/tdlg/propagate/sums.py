"""Decayed sums over the edges around each edge, for several bandwidths in one pass."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tdlg._kernels import LEAST_SUM
from tdlg.edges import TemporalEdges
from tdlg.exceptions import Hint, ParameterError
from tdlg.linegraph.events import Copies, Layout, build_layout

__all__ = ["Sums", "Walk", "decayed_sums", "walk", "walk_events", "zero_tiny"]

Floats = NDArray[np.float64]


class Sums(NamedTuple):
    """Sums over the edges around each edge, and the gaps to the nearest ones.

    Attributes
    ----------
    values
        The decayed sums over other edges, shape (n_rows, n_widths, n_values).
    before, after
        Ticks to the previous and to the next edge, shape (n_rows,); infinite if it does not exist. Both are 0 if
        another edge has the same time. With `past_only` the previous edge is strictly earlier, and `after` is infinite.
    """

    values: Floats
    before: Floats
    after: Floats


class Walk(NamedTuple):
    """The sums at the events of rows, from which those of rows are taken.

    Attributes
    ----------
    slots
        The number of each row's event among the events of rows, shape (n_rows,); their number for a row without one.
    values, nearest
        The sums, shape (n_slots, n_widths, n_values), and the gaps before and after, shape (2, n_slots).
    """

    slots: NDArray[np.int32]
    values: Floats
    nearest: Floats

    def take(self, rows: slice) -> tuple[Floats, Floats]:
        """The sums of some rows, (n_widths, n_values, n_rows), and the gaps before and after, (2, n_rows)."""
        from tdlg._kernels.scales import gather_scales

        slots = self.slots[rows]
        sums, gaps = np.empty((*self.values.shape[1:], len(slots))), np.empty((2, len(slots)))
        gather_scales(slots, self.values, *self.nearest, sums, gaps)
        return sums, gaps


def decayed_sums(
    rows: TemporalEdges,
    cols: TemporalEdges,
    values: Floats,
    match: str,
    widths: Sequence[float] | Floats,
    *,
    past_only: bool = False,
) -> Sums:
    """Sum values over the other edges that match, for several bandwidths of a Laplace decay.

    The result for a width is `LineGraph(rows, cols, decay=Laplace(width), match=match, include_self=False) @ values`.

    Parameters
    ----------
    rows, cols
        The edges to compute sums for, and the edges to sum over. An edge that is in both does not see itself.
    values
        The values to sum, shape (n_cols, n_values).
    match
        Which nodes must be the same, see `LineGraph`. "any" is not supported.
    widths
        Bandwidths in ticks of the common time unit of rows and columns; infinite for no decay.
    past_only
        Whether only strictly earlier edges count.

    Examples
    --------
    >>> edges = TemporalEdges(["a", "a", "b"], ["x", "y", "x"], [0, 1, 3])
    >>> sums = decayed_sums(edges, edges, np.ones((3, 1)), "src", [np.inf])
    >>> sums.values[:, 0, 0], sums.before, sums.after
    (array([1., 1., 0.]), array([inf,  1., inf]), array([ 1., inf, inf]))
    """
    sums, gaps = walk(rows, cols, values, match, widths, past_only=past_only).take(slice(None))
    return Sums(np.moveaxis(sums, 2, 0), *gaps)


def walk(
    rows: TemporalEdges,
    cols: TemporalEdges,
    values: Floats,
    match: str,
    widths: Sequence[float] | Floats,
    *,
    past_only: bool = False,
) -> Walk:
    """Compute what `decayed_sums` computes, without bringing it to the rows. The parameters are the same."""
    if match == "any":
        raise ParameterError(
            "The 'match' parameter of decayed_sums must say which ends are compared, such as 'src'. Got 'any' instead.",
            Hint("Use {code} for it.", code="LineGraph(..., match='any')"),
            parameter="match",
            value="any",
        )
    row_copies, col_copies = Copies(rows), Copies(cols)
    layout = build_layout(row_copies.distinct, col_copies.distinct, match)
    walked = walk_events(layout, col_copies.add(values), widths, past_only=past_only)
    return walked._replace(slots=row_copies.repeat(walked.slots))


def walk_events(layout: Layout, values: Floats, widths: Sequence[float] | Floats, *, past_only: bool) -> Walk:
    """Compute the sums over sorted events, each row and each column of which has at most one.

    Parameters
    ----------
    layout
        The events.
    values
        The values to sum, shape (n_cols, n_values).
    widths, past_only
        The same as for `decayed_sums`.
    """
    from tdlg._kernels.scales import walk_scales

    n_rows, slots, n_slots = len(layout.row_slots), layout.row_slots[:, 0], layout.n_events
    if not layout.is_square:
        is_row = layout.target < n_rows
        n_slots = int(np.count_nonzero(is_row))
        slots = np.append(np.cumsum(is_row, dtype=np.int32) - np.int32(1), np.int32(n_slots))[slots]
    x, rates = np.ascontiguousarray(values), 1.0 / np.asarray(widths, np.float64)
    sums, nearest = np.empty((n_slots, rates.size, x.shape[1])), np.empty((2, n_slots))
    nearest[1] = np.inf
    events = layout.gap, layout.source, layout.target, n_rows, x, rates, past_only
    walk_scales(*events, 1, True, sums, nearest[0])
    if not past_only:
        walk_scales(*events, -1, False, sums, nearest[1])
    return Walk(slots, sums, nearest)


def zero_tiny(sums: Floats) -> Floats:
    """Set tiny sums to 0, in place."""
    sums[np.abs(sums) < LEAST_SUM] = 0.0
    return sums
