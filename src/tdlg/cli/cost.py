"""Rough estimates: the memory that commands need, the run time of classify in memory, and of trials in compare."""

from __future__ import annotations

from tdlg.memory import LEARNING, SCORING, Needs, most_learnt

__all__ = ["LEARNING", "LINE_GRAPH", "LINE_GRAPH_OF_LINKS", "METHOD_SECONDS", "RANKING", "SCORING", "Needs"]
__all__ += ["classify_cost", "in_time", "trial_seconds", "vectors"]

START_SECONDS = 3.0
COLUMN_SECONDS, TREE_SECONDS = 8.5e-6, 5.5e-5  # per edge and per row that the trees learn from, for two classes
CLASS_BYTES = 200  # per row that is learnt from and class
PER_EDGES = 10_000
METHOD_SECONDS = {  # of one trial of edge classification per 10,000 edges, measured on 24,000 to 107,000 beside other work
    "propagation": 3.0,
    "tdlg": 0.2,
    "tdlg-dense": 3.0,
    "label-rates": 0.1,
    "windows": 0.5,
    "edgebank": 0.01,
    "ctdne": 1.2,
    "timers": 7.0,
    "evolvegcn": 16.0,
    "evolvegcn-o": 16.0,
    "dyngem": 54.0,
    "gcrn": 17.0,
    "vgrnn": 19.0,
    "dylink2vec": 24.0,
    "dyrep": 48.0,
}


RANKING = Needs(5e8, 250, 2500)  # rank, and links by default
LINE_GRAPH = Needs(5e8, 300)  # the paper's classifier
LINE_GRAPH_OF_LINKS = Needs(4.5e8, 650)  # the paper's link prediction, with as many pairs that are not links
VECTOR_BYTES = 40  # per row and dimension of its vector


def vectors(n_dimensions: int) -> Needs:
    """What embed needs."""
    return Needs(LINE_GRAPH.start, LINE_GRAPH.row + VECTOR_BYTES * n_dimensions)


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
        from tdlg.models.propagation import FEW_CLASSES  # takes a second to load

        n_outputs = n_classes
        if n_classes <= FEW_CLASSES:  # the trees of each class use the columns of all classes
            n_columns = (18 * n_outputs + 24) / 42
    n_rows = most_learnt(n_edges)
    seconds = n_fits * n_outputs * (n_edges * COLUMN_SECONDS + n_rows * TREE_SECONDS * n_columns)
    return START_SECONDS + seconds, LEARNING.bytes(n_edges) + n_rows * CLASS_BYTES * (n_outputs - 1)


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
