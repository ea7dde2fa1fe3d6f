"""The boosted trees of the propagation models: their settings, and the rows that they learn from."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, StandardScaler
from sklearn.utils.validation import has_fit_parameter

from tdlg.exceptions import ParameterError

__all__ = ["MOST_ROWS", "boosting_settings", "linear_member", "sampled_rows", "weights_for"]

Floats = NDArray[np.float64]
Positions = NDArray[np.int64]

MOST_ROWS = 250_000  # more rows to learn from are sampled


def boosting_settings(n_rows: int) -> dict[str, Any]:
    """Settings that suit a few dozen noisy columns; with few rows, a leaf has at least a twentieth of them."""
    return {
        "max_iter": 200,
        "learning_rate": 0.05,
        "max_leaf_nodes": 15,
        "min_samples_leaf": max(1, min(40, n_rows // 20)),
        "l2_regularization": 1.0,
        "max_features": 0.3,
        "early_stopping": False,
    }


def linear_member(estimator: Any) -> Any:
    """A linear model on scaled columns, each clipped to its range in training.

    Without clipping, a column that was nearly constant in training could outweigh all others.
    """
    return make_pipeline(MinMaxScaler(clip=True), StandardScaler(), estimator)


def weights_for(member: Any, weight: Floats | None) -> dict[str, Floats]:
    """Sample weights as keyword arguments for the member's `fit`."""
    if weight is None:
        return {}
    name, last = member.steps[-1] if hasattr(member, "steps") else ("", member)
    if not has_fit_parameter(last, "sample_weight"):
        raise ParameterError(
            f"The estimator {type(last).__name__} does not support 'sample_weight'. Leave it out, or use another estimator."
        )
    return {f"{name}__sample_weight" if name else "sample_weight": weight}


def sampled_rows(group: NDArray[Any], most: int, rng: np.random.Generator) -> tuple[Positions, Floats | None]:
    """At most `most` rows, and the number of rows that each stands for; rows of small groups are all kept.

    The weights keep the shares of the groups, so that probabilities learnt from the sample stay calibrated.

    Parameters
    ----------
    group
        The group of each row: its class, or the same value for all rows.
    most
        The number of rows to keep.
    rng
        Generator for the sample.

    Returns
    -------
    rows, weight
        Positions in ascending order, and one weight per position; None if all rows are kept.

    Examples
    --------
    >>> rows, weight = sampled_rows(np.repeat([0, 1], [98, 2]), 10, np.random.default_rng(0))
    >>> len(rows), weight.tolist()
    (10, [12.25, 12.25, 12.25, 12.25, 12.25, 12.25, 12.25, 12.25, 1.0, 1.0])
    """
    if len(group) <= most:
        return np.arange(len(group)), None
    _, code, size = np.unique(group, return_inverse=True, return_counts=True)
    quota, left = np.zeros(len(size), np.int64), most
    for n_groups, k in zip(range(len(size), 0, -1), np.argsort(size), strict=True):  # small groups first
        quota[k] = min(size[k], left // n_groups)
        left -= quota[k]
    rows = [rng.choice(np.flatnonzero(code == k), n, replace=False) for k, n in enumerate(quota.tolist())]
    kept = np.sort(np.concatenate(rows))
    return kept, (size / np.maximum(quota, 1))[code[kept]]
