"""Time scales that suit the data: from the spread of the times down to the usual gap between the edges of a node."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tdlg.edges import TemporalEdges
from tdlg.exceptions import EdgesError
from tdlg.linegraph.decay import time_spread

FACTOR = 4.0  # between two neighbouring scales
FEWEST, MOST = 4, 6  # numbers of scales


def choose_scales(edges: TemporalEdges, spread: float | None = None) -> list[float]:
    """Time scales in standard deviations of the times: 1, 1/4, 1/16 and so on, down to the usual gap of a node.

    spread : the standard deviation of the times, in ticks; by default that of these edges. Not all times may be equal.
    """
    spread = time_spread(edges.ticks) if spread is None else spread
    gap = min(usual_gap(gaps_of_nodes(edges.ticks, code)) for code in (edges.src_code, edges.dst_code))
    return scales_between(spread, gap)


def scales_between(spread: float, gap: float) -> list[float]:
    """Time scales from the standard deviation of the times down to the usual gap of a node, both in ticks."""
    if not math.isfinite(spread):
        raise EdgesError("The times are too far apart: their spread overflows. Count them in a coarser unit.")
    if spread == 0.0:
        return [FACTOR**-k for k in range(FEWEST)]
    gap = spread if math.isinf(gap) else max(gap, spread / FACTOR**MOST)
    steps = math.ceil(math.log(max(spread / gap, 1.0), FACTOR))
    return [FACTOR**-k for k in range(min(max(steps + 1, FEWEST), MOST))]


def gaps_of_nodes(ticks: NDArray[Any], code: NDArray[np.integer[Any]]) -> NDArray[np.float64]:
    """The times between two consecutive edges of a node, in ticks; `code` says which node an edge has."""
    order = np.lexsort((ticks, code))
    code = code[order]
    return np.diff(ticks[order].astype(np.float64))[code[1:] == code[:-1]]


def usual_gap(gaps: NDArray[np.float64]) -> float:
    """The lower quartile of gaps; infinite if there are none."""
    return float(np.quantile(gaps, 0.25)) if gaps.size else math.inf
