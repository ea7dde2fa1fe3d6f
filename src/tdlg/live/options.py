"""Options of a live model, checked before anything is written."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tdlg.checks import check_choice, check_count, check_number, is_number
from tdlg.clock import as_seconds
from tdlg.exceptions import ParameterError

__all__ = ["check_options", "seconds_of"]


def seconds_of(keep: str | None) -> float | None:
    """The seconds for which the log is kept; None for all time."""
    return None if keep is None else as_seconds(keep)


def check_options(
    columns: Any,
    keep: Any,
    late: Any,
    threshold: Any,
    alerts_per_day: Any,
    allow_missing: Any,
    snapshot_every: Any,
    n_recent: Any,
) -> None:
    """Refuse invalid options of `LiveModel.open`; None stands for an option that is not given."""
    if columns is not None and not isinstance(columns, Mapping):
        raise ParameterError(
            f"The 'columns' parameter of LiveModel.open must be a mapping from roles to fields. Got {columns!r} instead.",
            "Pass columns={'src': 'customer', 'dst': 'terminal', 'time': 'when'}, for example.",
            parameter="columns",
        )
    seconds_of(keep)
    if late is not None:
        check_choice("LiveModel.open", "late", late, ("score", "refuse"))
    if alerts_per_day is not None:
        check_number("LiveModel.open", "alerts_per_day", alerts_per_day)
    if threshold is not None and not (is_number(threshold) and -np.inf < threshold < np.inf):
        raise ParameterError(f"The 'threshold' must be a number. Got {threshold!r} instead.", parameter="threshold")
    if allow_missing not in (None, True, False):
        raise ParameterError(
            f"The 'allow_missing' parameter must be True or False. Got {allow_missing!r} instead.",
            parameter="allow_missing",
        )
    if snapshot_every is not None:
        check_count("LiveModel.open", "snapshot_every", snapshot_every, 1)
    if n_recent is not None:
        check_count("LiveModel.open", "n_recent", n_recent, 1)
