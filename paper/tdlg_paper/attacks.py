"""Attacks among the connections of DARPA 1998: the AUC of an outlier detector that sees no label."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import roc_auc_score

from tdlg.edges import TemporalEdges
from tdlg.models.outliers import EdgeOutlierDetector

__all__ = ["DETECTORS", "attack_auc"]

DETECTORS: dict[str, Callable[[], Any]] = {
    "EdgeOutlierDetector('burst')": lambda: EdgeOutlierDetector("burst", random_state=0),
}


def attack_auc(detector: Any, edges: TemporalEdges) -> float:
    """Fit a detector on all rows without their labels, and give the AUC of its scores, attack against not.

    Parameters
    ----------
    detector
        Has `fit` and, for the fitted edges, `scores_` (low for outliers).
    edges
        The connections, labelled 1 for attacks.

    Returns
    -------
    float
        0.5 for scores without information; outliers are expected to be attacks.
    """
    label: NDArray[Any] = np.asarray(edges.label)
    unlabelled = TemporalEdges(edges.src, edges.dst, edges.time)
    return float(roc_auc_score(label, -np.asarray(detector.fit(unlabelled).scores_)))
