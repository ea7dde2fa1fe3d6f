"""Which setting fits the labels: whether they are missing here and there, end at some time, or become known over time."""

from __future__ import annotations

from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from tdlg.checks import check_choice
from tdlg.edges import TemporalEdges
from tdlg.exceptions import ParameterError, warn

__all__ = ["LATEST", "Setting", "choose_setting", "given_setting", "setting_of_times", "warn_of_late_classes"]
__all__ += ["warn_of_copies", "warn_of_late_counts"]

Setting = Literal["auto", "interpolate", "forecast", "stream"]

AFTER = 0.1  # "forecast" if at most this share of the known labels is later than the median unlabelled edge
LATEST = 0.05  # share of the latest known labels that are looked at for a missing class
COPIES, FEWEST_COPIES = 0.3, 100  # share and number of copies from which on a table was probably read twice
LOOKED_AT = 100_000  # edges that are looked at for copies
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
    given = given_setting(owner, setting, late)
    if given is not None:
        return given
    if known.all():
        return setting_of_times(None, None, 0.0)
    times, missing = edges.ticks[known], edges.ticks[~known]
    return setting_of_times((times.min(), times.max()), missing.min(), float((times > np.median(missing)).mean()))


def given_setting(owner: str, setting: str, late: bool) -> tuple[str, str | None] | None:
    """The setting and its reason, as far as they do not depend on where labels are missing; else None."""
    check_choice(owner, "setting", setting, get_args(Setting))
    if late and setting == "interpolate":
        raise ParameterError(
            "The times at which labels became known are given, and the setting 'interpolate' does not use them.",
            "Use setting='stream' or 'forecast', or leave out label_time=.",
            parameter="setting",
        )
    if setting != "auto":
        return setting, None
    if late:
        return "stream", "the times at which labels became known are given"
    return None


def setting_of_times(known: tuple[Any, Any] | None, first_missing: Any, later: float) -> tuple[str, str]:
    """The setting that fits where labels are missing, and the reason for it.

    Parameters
    ----------
    known
        The first and the last time of a known label; None if all edges are labelled.
    first_missing
        The first time of a missing label.
    later
        The share of the known labels that are later than the median time of missing ones.
    """
    if known is None:
        return "forecast", "all edges are labelled, so the edges to score come later"
    first, last = known
    if first_missing >= last > first:
        return "forecast", "all missing labels are after the known ones"
    if later <= AFTER and last > first:
        return "forecast", "the missing labels are the latest"
    return "interpolate", "labels are missing here and there"


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
    values, counts = np.unique(labels, return_counts=True)
    warn_of_late_counts(values, counts, np.array([np.count_nonzero(labels[latest] == value) for value in values]))


def warn_of_late_counts(values: NDArray[Any], counts: NDArray[np.int64], latest: NDArray[np.int64]) -> None:
    """`warn_of_late_classes`, given how often each class occurs among all and among the latest known labels."""
    n_latest = int(latest.sum())
    for value, share, n in zip(values, counts / counts.sum(), latest, strict=True):
        if n == 0 and (1.0 - share) ** n_latest < UNLIKELY:
            warn(
                f"None of the latest {n_latest:,} known labels is {value}, although {share:.1%} of all known labels are: "
                "these labels probably become known later than others.",
                "Pass label_time= or label_delay=,",
                "or set labels that are not final to missing (NaN or None).",
            )
            return


def warn_of_copies(edges: TemporalEdges) -> None:
    """Warn if many edges equal another one in all but their label: a table may have been read twice."""
    every = max(len(edges) // LOOKED_AT, 1)
    some = edges if every == 1 else edges[edges.src_code % every == 0]  # copies have the same source
    values = [some.src_code, some.dst_code, some.ticks, *([] if some.features is None else some.features.T)]
    order = np.lexsort(values[::-1])
    same = [np.isclose(v[order][1:], v[order][:-1], rtol=0, atol=0, equal_nan=v.dtype.kind == "f") for v in values]
    n_copies = int(np.logical_and.reduce(same).sum())
    if n_copies >= FEWEST_COPIES and n_copies > COPIES * len(some):
        warn(
            f"{n_copies / len(some):.0%} of the edges are exact copies of others. If rows were read twice, drop the copies: "
            "they count as further interactions."
        )
