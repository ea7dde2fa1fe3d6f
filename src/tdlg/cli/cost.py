"""Rough estimates of the run time and memory of classify."""

from __future__ import annotations

__all__ = ["classify_cost", "in_bytes", "in_time"]

START_SECONDS, START_BYTES = 3.0, 3.8e8
COLUMN_SECONDS, TREE_SECONDS = 2e-5, 4e-5  # per edge, for two classes
EDGE_BYTES, CLASS_BYTES = 1300, 200  # per edge, and per edge and class


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


def in_time(seconds: float) -> str:
    """A duration as text, for example "4 s", "3 min" or "5 h"."""
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.0f} h"


def in_bytes(number: float) -> str:
    """A number of bytes as text, for example "3.5 GB"."""
    for unit in ("kB", "MB", "GB"):
        number /= 1000
        if number < 1000:
            return f"{number:.3g} {unit}"
    return f"{number / 1000:.3g} TB"
