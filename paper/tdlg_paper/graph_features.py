"""Columns of snapml's GraphFeaturePreprocessor, for comparison."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tdlg.edges import TemporalEdges

__all__ = ["graph_columns", "graph_preprocessor", "graph_table"]

BATCH = 128  # payments that are given at once, since the preprocessor sees the whole batch of a payment
WINDOWS = (1, 7, 30)  # days
OFF = ("degree", "scatter-gather", "temp-cycle", "lc-cycle")  # which say nothing in a network of two kinds of nodes


def graph_columns(edges: TemporalEdges) -> NDArray[np.float64]:
    """Statistics of the amounts, times and neighbours of both ends, and fans, in windows of 1, 7 and 30 days."""
    table = graph_table(edges)
    batches = [np.ascontiguousarray(table[first : first + BATCH]) for first in range(0, len(table), BATCH)]
    windows = []
    for days in WINDOWS:
        preprocessor = graph_preprocessor(days * 86_400)
        windows.append(np.vstack([preprocessor.transform(batch)[:, 4:] for batch in batches]))
    return np.hstack(windows)


def graph_table(edges: TemporalEdges) -> NDArray[np.float64]:
    """Payments as the preprocessor takes them: number, source, destination, seconds and amount."""
    time = edges.time.astype("datetime64[s]").astype(float)
    ends = edges.src_code, edges.dst_code + (edges.n_src_nodes or 0)
    amount: NDArray[Any] = np.asarray(edges.features, float)[:, edges.feature_names.index("amount")]
    return np.column_stack([np.arange(len(edges)), *ends, time - time[0], amount]).astype(float)


def graph_preprocessor(seconds: int) -> Any:
    """The preprocessor with one window of this many seconds, on one thread."""
    with warnings.catch_warnings():  # it warns of a newer numpy
        warnings.simplefilter("ignore")
        from snapml import GraphFeaturePreprocessor

        preprocessor = GraphFeaturePreprocessor()
    windows = dict.fromkeys(("time_window", "vertex_stats_tw", "fan_tw"), seconds)
    settings = {**preprocessor.get_params(), **dict.fromkeys(OFF, False), **windows}
    preprocessor.set_params({**settings, "vertex_stats_cols": [3, 4], "num_threads": 1})
    return preprocessor
