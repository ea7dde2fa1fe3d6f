"""The table of data sets in a paper: nodes, edges, days and the share of positive labels."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from tdlg.clock import ticks_per_second
from tdlg.datasets.files import is_available
from tdlg.datasets.load import load_dataset
from tdlg.datasets.registry import DATASETS, named
from tdlg.edges import TemporalEdges

__all__ = ["dataset_table", "describe"]

DAY = 86400  # seconds


def describe(edges: TemporalEdges) -> dict[str, int | float | None]:
    """Count nodes, edges and days, and compute the per cent of labels above 0.

    Parameters
    ----------
    edges
        Edges whose times are seconds or datetimes.

    Returns
    -------
    dict
        "n_nodes"; "n_edges"; "days", from the first edge to the last, rounded (None without edges); and "positive", the
        per cent of known labels above 0, to two decimals (None without numeric labels).

    Examples
    --------
    >>> describe(TemporalEdges([1, 2, 1], [2, 3, 3], [0, 86400, 200000], label=[1, 0, 1]))
    {'n_nodes': 3, 'n_edges': 3, 'days': 2, 'positive': 66.67}
    """
    span = float(edges.ticks.max() - edges.ticks.min()) if len(edges) else None
    days = None if span is None else round(span / (DAY * ticks_per_second(edges.time_unit or "s")))
    return {"n_nodes": edges.n_nodes, "n_edges": len(edges), "days": days, "positive": _positive(edges)}


def _positive(edges: TemporalEdges) -> float | None:
    if edges.label is None or edges.label.dtype.kind not in "biuf" or not edges.labelled.any():
        return None
    return round(100 * float(np.mean(edges.label[edges.labelled] > 0)), 2)


def dataset_table(names: Iterable[str] | None = None) -> list[dict[str, Any]]:
    """Recompute the figures of data sets from their files; data sets that are not on this machine have no figures.

    Parameters
    ----------
    names
        The data sets. By default all of `DATASETS`.

    Returns
    -------
    list of dict
        One dict per data set: "name", the figures of `describe`, and "status", which is "measured", or "not run: data" if
        the file is not on this machine (nothing is downloaded) and the figures are None. Synthetic times have no days. The
        published figures are in `DATASETS`.

    Examples
    --------
    >>> from tdlg.datasets import dataset_table
    >>> for row in dataset_table(["bitcoinalpha"]):  # doctest: +SKIP
    ...     print(row["name"], row["n_nodes"], row["n_edges"], row["days"], row["positive"])
    bitcoinalpha 3783 24186 1901 93.65
    """
    return [_row(name) for name in (DATASETS if names is None else names)]


def _row(name: str) -> dict[str, Any]:
    has_times = "time" in named(name).columns
    if not is_available(name):
        nothing = dict.fromkeys(("n_nodes", "n_edges", "days", "positive"))
        return {"name": name, **nothing, "status": "not run: data"}
    row = {"name": name, **describe(load_dataset(name, random_state=None if has_times else 0)), "status": "measured"}
    return row if has_times else {**row, "days": None}
