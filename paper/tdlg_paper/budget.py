"""Trials that would take too long have fewer epochs, and their rows say so."""

from __future__ import annotations

import re
from collections.abc import Iterable
from time import perf_counter
from typing import Any

from sklearn.base import clone

from tdlg.edges import TemporalEdges
from tdlg.judge.run import settings_of
from tdlg_paper.baselines.vectors import EdgeVectorMethod

TRIAL_SECONDS = 25 * 60.0
EPOCHS = re.compile(r"\bepochs=(\d+)")  # in the settings of a row


def within_budget(method: Any, edges: TemporalEdges, seconds: float = TRIAL_SECONDS) -> Any:
    """The method with as many of its epochs as fit into a time, at least one, estimated from the first epoch."""
    epochs = method.get_params().get("epochs", 1)
    if epochs == 1 or not isinstance(method, EdgeVectorMethod):
        return method
    start = perf_counter()
    clone(method).embed(edges, callback=lambda done, total: True)
    possible = max(int(seconds / (perf_counter() - start)), 1)
    return method if possible >= epochs else with_epochs(method, possible)


def as_measured(method: Any, settings: Iterable[str]) -> Any:
    """The method as the rows of a file have it: with all its epochs or with fewer; None if there are no such rows."""
    kept = set(settings)
    if settings_of(method) in kept:
        return method
    numbers = {int(match[1]) for match in map(EPOCHS.search, kept) if match}
    most = method.get_params().get("epochs", 1)
    fewer = [with_epochs(method, number) for number in sorted(numbers, reverse=True) if number < most]
    return next((one for one in fewer if settings_of(one) in kept), None)


def with_epochs(method: Any, epochs: int) -> Any:
    """The method with this number of epochs, if it has epochs."""
    return clone(method).set_params(epochs=epochs) if "epochs" in method.get_params() else method


def in_epochs(number: int) -> str:
    """A number of epochs as text: "1 epoch", "7 epochs"."""
    return "1 epoch" if number == 1 else f"{number} epochs"
