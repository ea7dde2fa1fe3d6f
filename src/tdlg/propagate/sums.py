"""Decayed sums over the edges around each edge, for several bandwidths in one pass."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tdlg.edges import TemporalEdges
from tdlg.exceptions import Hint, ParameterError
from tdlg.linegraph.events import Copies, build_layout

__all__ = ["Sums", "decayed_sums"]

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
    from tdlg._kernels.scales import gather_scales, walk_scales

    if match == "any":
        raise ParameterError(
            "The 'match' parameter of decayed_sums must say which ends are compared, such as 'src'. Got 'any' instead.",
            Hint("Use {code} for it.", code="LineGraph(..., match='any')"),
            parameter="match",
            value="any",
        )
    row_copies, col_copies = Copies(rows), Copies(cols)
    layout = build_layout(row_copies.distinct, col_copies.distinct, match)
    x = np.ascontiguousarray(col_copies.add(values))
    rates = 1.0 / np.asarray(widths, np.float64)
    n_rows = len(row_copies.distinct)
    per_event, nearest = np.empty((layout.n_events, rates.size, x.shape[1])), np.empty((2, layout.n_events))
    nearest[1] = np.inf
    events = layout.gap, layout.source, layout.target, n_rows, x, rates, past_only
    walk_scales(*events, 1, True, per_event, nearest[0])
    if not past_only:
        walk_scales(*events, -1, False, per_event, nearest[1])
    sums, gaps = np.empty((n_rows, *per_event.shape[1:])), np.empty((2, n_rows))
    gather_scales(layout.row_slots[:, 0], per_event, *nearest, sums, gaps)
    return Sums(*(row_copies.repeat(part) for part in (sums, *gaps)))
