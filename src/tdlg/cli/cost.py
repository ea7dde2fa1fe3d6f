"""Rough estimates of the run time and memory of classify, and of the run time of trials in compare."""

from __future__ import annotations

__all__ = ["METHOD_SECONDS", "classify_cost", "in_time", "trial_seconds"]

START_SECONDS, START_BYTES = 3.0, 3.8e8
COLUMN_SECONDS, TREE_SECONDS = 2e-5, 4e-5  # per edge, for two classes
EDGE_BYTES, CLASS_BYTES = 1300, 200  # per edge, and per edge and class
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
    """Estimate seconds and bytes of memory, from measurements on two cores with 20,000 to 107,000 edges.

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
    (9, 530)
    """
    n_outputs, n_columns = 1, 1.0
    if n_classes > 2:
        from tdlg.models.propagation_classifier import FEW_CLASSES  # takes a second to load

        n_outputs = n_classes
        if n_classes <= FEW_CLASSES:  # the trees of each class use the columns of all classes
            n_columns = (18 * n_outputs + 24) / 42
    seconds = n_fits * n_edges * n_outputs * (COLUMN_SECONDS + TREE_SECONDS * n_columns)
    return START_SECONDS + seconds, START_BYTES + n_edges * (EDGE_BYTES + CLASS_BYTES * n_outputs)


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


def in_time(seconds: float) -> str:
    """A duration as text, for example "4 s", "3 min" or "5 h"."""
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.0f} h"
