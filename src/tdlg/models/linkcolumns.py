"""Which edges are real, by what real and shuffled edges are around them: propagated columns for links."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from tdlg.decay import Decay, Laplace
from tdlg.edges import TemporalEdges
from tdlg.models.propagation import boosting_settings
from tdlg.propagate.features import COUNT_UNIT, MATCHES, without_dust
from tdlg.propagate.sums import decayed_sums

__all__ = ["future_model", "inside_model", "link_columns", "link_decays"]

Floats = NDArray[np.float64]

SCALES = (0.001, 0.01, 0.1, 1.0, 10.0)  # in standard deviations of the times
WINDOW = 1 / 19  # of the time span, at its end: what a model of the future learns from
LEAST_ROWS = 200  # in that window


def link_decays(edges: TemporalEdges) -> list[Decay]:
    """The decays of the columns, fixed on these edges' times; none where all happened at one time."""
    if float(np.ptp(edges.ticks)) == 0.0:
        return []
    return [Laplace(relative=scale).freeze(edges) for scale in SCALES]


def link_columns(
    rows: TemporalEdges,
    edges: TemporalEdges,
    is_real: NDArray[Any],
    decays: list[Decay],
    *,
    past_only: bool,
    known: NDArray[np.bool_] | None = None,
) -> Floats:
    """For each match and scale how real the edges around are, and the log of how many there are.

    Parameters
    ----------
    rows
        The edges asked for; those among `edges` do not see themselves.
    edges, is_real
        Real (1) and shuffled (0) edges.
    decays
        As `link_decays` gives them.
    past_only
        Whether only strictly earlier edges count.
    known
        Which of the edges count at all; all when not given.
    """
    weight = np.ones(len(edges)) if known is None else known.astype(np.float64)
    values = np.column_stack([weight, weight * (np.asarray(is_real) - 0.5)])
    unit = rows.time_unit
    if edges.time_unit is not None and unit != edges.time_unit:  # the finer one is the clock of both
        unit = max(edges.time_unit, unit or "s", key=["s", "ms", "us", "ns"].index)
    widths = [decay.parts(unit)[0].bandwidth for decay in decays] or [np.inf]
    columns = []
    for match in MATCHES:
        sums = without_dust(decayed_sums(rows, edges, values, match, widths, past_only=past_only).values)
        columns += [sums[..., 1] / (sums[..., 0] + 1.0), np.log1p(sums[..., 0] / COUNT_UNIT)]
    return np.hstack(columns)


def inside_model(edges: TemporalEdges, is_real: NDArray[Any], decays: list[Decay], seed: int) -> Any:
    """Boosted trees that tell real from shuffled edges by those before and after."""
    columns = link_columns(edges, edges, is_real, decays, past_only=False)
    return HistGradientBoostingClassifier(**boosting_settings(len(edges)), random_state=seed).fit(columns, is_real)


def future_model(edges: TemporalEdges, is_real: NDArray[Any], decays: list[Decay]) -> Any:
    """Logistic regression that tells real from shuffled edges at the end by those before: as it will be from then on."""
    ticks = edges.ticks.astype(np.float64)
    cut = ticks.max() - WINDOW * np.ptp(ticks)
    cut = min(cut, np.sort(ticks)[-min(LEAST_ROWS, len(ticks))])
    last = np.flatnonzero(ticks >= cut)
    columns = link_columns(edges[last], edges, is_real, decays, past_only=True, known=ticks < cut)
    model = make_pipeline(StandardScaler(), LogisticRegression(C=0.1, max_iter=1000))
    return model.fit(columns, is_real[last])
