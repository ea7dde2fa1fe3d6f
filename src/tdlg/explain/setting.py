"""Why a propagation model has its setting, in words."""

from __future__ import annotations

from typing import Any

__all__ = ["why_setting"]

WHY = {
    "forecast": "every missing label is later than every known one",
    "interpolate": "not all missing labels are later than the known ones",
    "stream": "the times at which labels became known were given",
}


def why_setting(model: Any) -> str | None:
    """The reason for which a fitted propagation model chose its setting; None if the caller chose it.

    Parameters
    ----------
    model
        A fitted `PropagationClassifier` or `PropagationRegressor`.

    Examples
    --------
    >>> from tdlg import PropagationClassifier, TemporalEdges
    >>> edges = TemporalEdges(["a", "b", "c"] * 10, ["x", "y"] * 15, range(30), label=[0, 1] * 14 + [0, None])
    >>> why_setting(PropagationClassifier(random_state=0).fit(edges))
    'every missing label is later than every known one'
    """
    if model.setting != "auto":
        return None
    is_complete = model.setting_ == "forecast" and model.features_.labelled_.all()
    return "no label is missing" if is_complete else WHY[model.setting_]
