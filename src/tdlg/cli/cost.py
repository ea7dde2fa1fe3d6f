"""Rough estimates of the run time and memory of classify, and of the run time of trials in compare."""

from __future__ import annotations

from typing import NamedTuple

from tdlg.engines.sizes import MOST_DISK, MOST_ROWS, SMALL, TRAINING_BYTES, Sizes, in_bytes

__all__ = ["METHOD_SECONDS", "FileCost", "classify_cost", "in_bytes", "in_time", "large_cost", "trial_seconds"]

START_SECONDS, START_BYTES = 3.0, 3.8e8
COLUMN_SECONDS, TREE_SECONDS = 8.5e-6, 5.5e-5  # per edge and per row that the trees learn from, for two classes
EDGE_BYTES, ROW_BYTES, CLASS_BYTES = 430, 1750, 200  # per edge, per row that is learnt from, per such row and class
LEARNT = 300_000  # rows that the trees learn from, at most
PER_EDGES = 10_000
METHOD_SECONDS = {  # of one trial of edge classification per 10,000 edges, measured on 24,000 to 107,000 beside other work
    "propagation": 2.0,
    "tdlg": 0.2,
    "tdlg-dense": 3.0,
    "label-rates": 0.1,
    "edgebank": 0.1,
    "ctdne": 1.2,
    "timers": 7.0,
    "evolvegcn": 14.0,
    "evolvegcn-o": 13.0,
    "dyngem": 54.0,
    "gcrn": 17.0,
    "vgrnn": 19.0,
    "dylink2vec": 24.0,
    "dyrep": 48.0,
}


def classify_cost(n_edges: int, n_classes: int = 2, n_fits: int = 1) -> tuple[float, float]:
    """Estimate seconds and bytes of memory, from measurements on two cores with 100,000, 1 and 3 million edges.

    Parameters
    ----------
    n_edges
        Number of interactions.
    n_classes
        Number of classes of the labels; 2 by default.
    n_fits
        Number of models to fit: one to fill in labels, and one more with --evaluate or --report. 1 by default.

    Examples
    --------
    >>> seconds, memory = classify_cost(100_000)
    >>> round(seconds), round(memory / 1e6)
    (9, 618)
    """
    n_outputs, n_columns = 1, 1.0
    if n_classes > 2:
        from tdlg.models.propagation_classifier import FEW_CLASSES  # takes a second to load

        n_outputs = n_classes
        if n_classes <= FEW_CLASSES:  # the trees of each class use the columns of all classes
            n_columns = (18 * n_outputs + 24) / 42
    n_rows = min(n_edges, LEARNT)
    seconds = n_fits * n_outputs * (n_edges * COLUMN_SECONDS + n_rows * TREE_SECONDS * n_columns)
    memory = n_edges * EDGE_BYTES + n_rows * (ROW_BYTES + CLASS_BYTES * n_outputs)
    return START_SECONDS + seconds, START_BYTES + memory


def trial_seconds(method: str, n_edges: int) -> float:
    """Estimate the seconds of one trial of a method of `METHOD_SECONDS`, for two classes.

    Parameters
    ----------
    method
        Its name.
    n_edges
        Number of interactions.
    """
    return METHOD_SECONDS[method] * n_edges / PER_EDGES


# Of classify by way of files, on two cores: seconds per edge, and per value of an edge, a training row and a scored row.
FILE_EDGE_SECONDS, FILE_VALUE_SECONDS = 1e-6, 3e-8
FILE_TRAINING_SECONDS, FILE_SCORED_SECONDS = 4e-7, 1e-7
TASK_BYTES = 1.5e8  # of the tasks that run at once
SCALES, MATCHES, THREADS = 5, 3, 2  # usual numbers


class FileCost(NamedTuple):
    """Seconds on two cores, bytes of memory and bytes of temporary files."""

    seconds: float
    memory: float
    disk: float


def large_cost(n_edges: int, n_missing: int, n_features: int, memory: float, *, late: bool = False) -> FileCost:
    """Estimate what classify takes by way of temporary files.

    Parameters
    ----------
    n_edges, n_missing, n_features
        The numbers of interactions, of missing labels and of features.
    memory
        The limit of memory, in bytes.
    late
        Whether it is given when labels became known.
    """
    n_columns = MATCHES * (SCALES * (3 + 4 * n_features) + 1) + n_features
    record = 17 + 8 * n_features + (4 if late else 0)
    row = 4 * n_columns + 17
    most_disk = MOST_DISK * max(n_edges, SMALL)
    kept = MATCHES * record * n_edges
    fitting = Sizes(int(memory), THREADS).training_rows(n_columns, MOST_ROWS)
    sample = min(fitting, n_edges - n_missing, max(most_disk - kept, 0) / 2 / row)
    seconds = n_edges * (FILE_EDGE_SECONDS + FILE_VALUE_SECONDS * n_columns)
    seconds += n_columns * (sample * FILE_TRAINING_SECONDS + n_missing * FILE_SCORED_SECONDS)
    disk = min(kept + (sample + n_missing) * row, most_disk)
    return FileCost(
        START_SECONDS + seconds, min(START_BYTES + TRAINING_BYTES * sample * n_columns + TASK_BYTES, memory), disk
    )


def in_time(seconds: float) -> str:
    """A duration as text, for example "4 s", "3 min" or "5 h"."""
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.0f} h"
