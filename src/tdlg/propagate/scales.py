"""Time scales that suit the data: from the spread of the times down to the usual gap between the edges of a node."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from tdlg.edges import TemporalEdges

__all__ = ["choose_scales"]

FACTOR = 4.0  # between two neighbouring scales
FEWEST, MOST = 4, 6  # numbers of scales


def choose_scales(edges: TemporalEdges) -> list[float]:
    """Time scales in standard deviations of the times: 1, 1/4, 1/16 and so on, down to the usual gap of a node.

    Parameters
    ----------
    edges
        The edges whose times are looked at; not all times may be equal.

    Examples
    --------
    >>> choose_scales(TemporalEdges(["a"] * 100, ["b"] * 100, range(100)))
    [1.0, 0.25, 0.0625, 0.015625]
    """
    spread = float((edges.ticks - edges.ticks.min()).astype(np.float64).std())
    if spread == 0.0:
        return [FACTOR**-k for k in range(FEWEST)]
    gap = min(_usual_gap(edges, code) for code in (edges.src_code, edges.dst_code))
    gap = spread if math.isinf(gap) else max(gap, spread / FACTOR**MOST)
    steps = math.ceil(math.log(max(spread / gap, 1.0), FACTOR))
    return [FACTOR**-k for k in range(min(max(steps + 1, FEWEST), MOST))]


def _usual_gap(edges: TemporalEdges, code: NDArray[np.int32]) -> float:
    """The lower quartile of the time between two consecutive edges of a node; infinite if no node has two."""
    order = np.lexsort((edges.ticks, code))
    same = np.diff(code[order]) == 0
    gaps = np.diff(edges.ticks[order].astype(np.float64))[same]
    return float(np.quantile(gaps, 0.25)) if gaps.size else math.inf
