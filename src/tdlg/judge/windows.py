"""Columns of plain windows: what each end of an edge did, and which labels it got, in the last days."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tdlg.clock import ticks_per_second
from tdlg.edges import TemporalEdges

__all__ = ["DAY", "WINDOWS", "window_columns", "window_widths"]

Floats = NDArray[np.float64]

WINDOWS = (1, 7, 30)  # days
DAY = 86_400  # seconds
SHARES = (0.01, 0.05, 0.2)  # of the time span, for windows where times are numbers


def window_widths(edges: TemporalEdges) -> tuple[float, ...]:
    """The lengths of plain windows in ticks: 1, 7 and 30 days, or shares of the time span if the times are numbers."""
    if edges.time_unit is not None:
        return tuple(days * DAY * ticks_per_second(edges.time_unit) for days in WINDOWS)
    return tuple(share * float(np.ptp(edges.ticks)) for share in SHARES)


def window_columns(edges: TemporalEdges, is_positive: NDArray[np.bool_], widths: tuple[float, ...]) -> Floats:
    """Make the columns that are usual in fraud detection: counts, means of features and label rates in windows of time.

    For each end of an edge and each window there are the number of its edges, the mean of each feature that is a number, and
    the share of positive labels among those that became known in the window; then come the features of the edge itself. Only
    strictly earlier edges and labels known strictly earlier count, so that the columns may be made for all edges at once.

    Parameters
    ----------
    edges
        The edges, with labels, and with a `label_time` if labels become known late.
    is_positive
        Whether each label is of the positive class, (n_edges,), or of each of several, (n_edges, n_classes).
    widths
        The lengths of the windows, in ticks.

    Returns
    -------
    numpy.ndarray
        Shape (n_edges, n_columns); NaN where a window has no edge or no known label.

    Examples
    --------
    >>> edges = TemporalEdges(["a", "a", "b"], ["x", "y", "x"], [0, 5, 9], label=[1, 0, 0], label_delay=2)
    >>> window_columns(edges, np.array([True, False, False]), (8,))
    array([[ 0., nan,  0., nan],
           [ 1.,  1.,  0., nan],
           [ 0., nan,  0.,  1.]])
    """
    own = np.empty((len(edges), 0)) if edges.features is None else np.asarray(edges.features, np.float64)
    are_numbers = np.array([name not in edges.feature_categories for name in edges.feature_names], bool)
    numbers, labelled = own[:, are_numbers], np.flatnonzero(edges.labelled)
    columns = []
    for node in (edges.src_code, edges.dst_code):
        rows = node, edges.ticks
        amounts = _Events(node, edges.ticks, np.hstack([~np.isnan(numbers), np.nan_to_num(numbers)]))
        labels = _Events(
            node[labelled],
            edges.known_at[labelled],
            is_positive[labelled].reshape(len(labelled), -1).astype(np.float64),
        )
        for width in widths:
            count, sums = amounts.in_window(*rows, width)
            filled, totals = np.split(sums, 2, axis=1)
            n_labels, positives = labels.in_window(*rows, width)
            with np.errstate(divide="ignore", invalid="ignore"):
                columns += [count, *(totals / filled).T, *(positives.T / n_labels)]
    return np.column_stack([*columns, own])


class _Events:
    """Values at nodes and times, to be summed over windows."""

    def __init__(self, node: NDArray[Any], ticks: NDArray[Any], values: Floats) -> None:
        order = np.lexsort((ticks, node))
        self._node, self._ticks = node[order], ticks[order]
        self._sums = np.vstack([np.zeros(values.shape[1]), np.cumsum(values[order], axis=0)])

    def in_window(self, node: NDArray[Any], ticks: NDArray[Any], width: float) -> tuple[Floats, Floats]:
        """The number of events of each node from `width` before each time up to, but without, the time; and their sums."""
        start = ticks - width if ticks.dtype.kind == "f" else ticks - np.int64(np.ceil(width))
        first, stop = self._before(node, start), self._before(node, ticks)
        return (stop - first).astype(np.float64), self._sums[stop] - self._sums[first]

    def _before(self, node: NDArray[Any], ticks: NDArray[Any]) -> NDArray[np.int64]:
        """The number of events of earlier nodes, or of the same node and strictly earlier."""
        is_event = np.repeat([False, True], [len(node), len(self._node)])
        order = np.lexsort((is_event, np.append(ticks, self._ticks), np.append(node, self._node)))
        n_events = np.empty(len(order), np.int64)
        n_events[order] = np.cumsum(is_event[order])
        return n_events[: len(node)]
