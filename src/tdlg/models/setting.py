"""Which setting fits the labels: whether they are missing here and there, end at some time, or become known over time."""

from __future__ import annotations

from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from tdlg.checks import check_choice
from tdlg.edges import TemporalEdges
from tdlg.exceptions import Hint, ParameterError, warn

__all__ = ["Setting", "choose_setting", "warn_of_late_classes"]

Setting = Literal["auto", "interpolate", "forecast", "stream"]

AFTER = 0.1  # "forecast" if at most this share of the known labels is later than the median unlabelled edge
LATEST = 0.05  # share of the latest known labels that are looked at for a missing class
UNLIKELY = 1e-4  # probability below which the latest labels do not lack a class by chance


def choose_setting(
    owner: str, setting: str, edges: TemporalEdges, known: NDArray[np.bool_], late: bool
) -> tuple[str, str | None]:
    """The setting to use, and the reason for it; None if it was given.

    Parameters
    ----------
    owner
        The class that is fitted, for messages.
    setting
        The setting given by the user.
    edges, known
        The edges, and the mask of those whose label is known.
    late
        Whether it is given when the labels became known.
    """
    check_choice(owner, "setting", setting, get_args(Setting))
    if late and setting == "interpolate":
        raise ParameterError(
            "The times at which labels became known are given, and the setting 'interpolate' does not use them.",
            Hint("Use {setting} or 'forecast', or leave out {label_time}.", setting="stream", label_time=...),
            parameter="setting",
            value=setting,
        )
    if setting != "auto":
        return setting, None
    if late:
        return "stream", "the times at which labels became known are given"
    if known.all():
        return "forecast", "all edges are labelled, so the edges to score come later"
    times, missing = edges.ticks[known], edges.ticks[~known]
    if missing.min() >= times.max() > times.min():
        return "forecast", "all missing labels are after the known ones"
    later = float((times > np.median(missing)).mean())
    if later <= AFTER and times.max() > times.min():
        return "forecast", f"only {later:.0%} of the known labels are later than half of the missing labels"
    return (
        "interpolate",
        f"{later:.0%} of the known labels are later than half of the missing labels",
    )


def warn_of_late_classes(edges: TemporalEdges, known: NDArray[np.bool_], labels: NDArray[Any]) -> None:
    """Warn if the latest known labels lack a class that is too frequent for that to be chance: its labels may come later.

    Parameters
    ----------
    edges, known
        The edges, and the mask of those whose label is known.
    labels
        The known labels.
    """
    times = edges.ticks[known]
    n_latest = int(LATEST * len(times))
    if n_latest == 0:
        return
    latest = times >= np.partition(times, len(times) - n_latest)[len(times) - n_latest]  # with all at that time
    n_latest = int(latest.sum())
    values, counts = np.unique(labels, return_counts=True)
    for value, share in zip(values, counts / len(labels), strict=True):
        if (1.0 - share) ** n_latest < UNLIKELY and not (labels[latest] == value).any():
            warn(
                f"None of the latest {n_latest:,} known labels is {value}, although {share:.1%} of all known labels are: "
                "these labels probably become known later than others.",
                Hint("Pass {label_time} or {label_delay},", label_time=..., label_delay=...),
                "or make labels that are not final missing.",
            )
            return
