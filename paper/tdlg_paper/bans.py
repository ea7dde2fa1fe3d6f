"""Bans on Wikipedia: the AUC of the last 15 % of the edits, by time, of models fitted on the others."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import roc_auc_score

from tdlg.edges import TemporalEdges
from tdlg.models.propagation import PropagationClassifier

__all__ = ["SEEDS", "SETTINGS", "TRAINED", "VALIDATED", "PastSetting", "bootstrap_interval", "split_scores"]

Floats = NDArray[np.float64]
PastSetting = Literal["forecast", "stream"]

SETTINGS: tuple[PastSetting, ...] = ("forecast", "stream")  # the settings that never look at later edits
SEEDS = (0, 1, 2)
TRAINED, VALIDATED = 0.7, 0.85  # shares of the edits, by time
DRAWS = 1000


def split_scores(
    edges: TemporalEdges, setting: PastSetting, seed: int, start: float = VALIDATED, stop: float = 1.0
) -> tuple[NDArray[Any], Floats]:
    """Labels and scores of the edits between two shares of all, from a model fitted on the edits before."""
    first, last = int(start * len(edges)), int(stop * len(edges))
    model = PropagationClassifier(setting=setting, random_state=seed).fit(edges[:first])
    label: NDArray[Any] = np.asarray(edges.label)[first:last]
    return label, model.predict_proba(edges[first:last])[:, 1]


def bootstrap_interval(label: NDArray[Any], score: Floats, random_state: int = 0) -> tuple[float, float]:
    """A 95 % interval of the AUC over samples of the test rows with replacement."""
    rng = np.random.default_rng(random_state)
    samples = (rng.integers(0, len(label), len(label)) for _ in range(DRAWS))
    aucs = [roc_auc_score(label[rows], score[rows]) for rows in samples if 0 < label[rows].sum() < len(rows)]
    low, high = np.percentile(aucs, [2.5, 97.5])
    return float(low), float(high)
