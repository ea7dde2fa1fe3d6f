"""Rough estimates of the run time and memory of classify, and of the run time of trials in compare."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from tdlg.engines.sizes import SCORED_BYTES, TRAINING_BYTES, OnDisk, Sizes, in_bytes, record_memory

if TYPE_CHECKING:
    from tdlg.engines.buckets import RecordForm
    from tdlg.engines.columns import BucketPlan
    from tdlg.engines.summary import Clock
    from tdlg.propagate.own_features import OwnColumn

__all__ = [
    "LEARNING",
    "LINE_GRAPH",
    "LINE_GRAPH_OF_LINKS",
    "METHOD_SECONDS",
    "RANKING",
    "SCORING",
    "FileCost",
    "FileShape",
    "Needs",
    "classify_cost",
    "file_cost",
    "in_bytes",
    "in_time",
    "trial_seconds",
    "vectors",
]

START_SECONDS, START_BYTES = 3.0, 3.8e8
COLUMN_SECONDS, TREE_SECONDS = 8.5e-6, 5.5e-5  # per edge and per row that the trees learn from, for two classes
EDGE_BYTES, ROW_BYTES, CLASS_BYTES = 430, 1750, 200  # per edge, per row that is learnt from, per such row and class
LEARNT = 300_000  # rows that the trees learn from, at most
PER_EDGES = 10_000
METHOD_SECONDS = {  # of one trial of edge classification per 10,000 edges, measured on 24,000 to 107,000 beside other work
    "propagation": 3.0,
    "tdlg": 0.2,
    "tdlg-dense": 3.0,
    "label-rates": 0.1,
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


class Needs(NamedTuple):
    """Bytes of memory that a command needs, from measurements with up to a million rows.

    Attributes
    ----------
    start
        Bytes whatever the table.
    row, learnt
        Bytes per row, and per row that the trees learn from.
    """

    start: float
    row: float
    learnt: float = 0.0

    def bytes(self, n_rows: int) -> float:
        """What a table of this number of rows needs."""
        return self.start + self.row * n_rows + self.learnt * min(n_rows, LEARNT)

    def n_rows(self, n_bytes: float) -> int:
        """How many rows fit into this memory."""
        few = (n_bytes - self.start) / (self.row + self.learnt)
        return max(int(few if few <= LEARNT else (n_bytes - self.start - self.learnt * LEARNT) / self.row), 0)


SCORING = Needs(START_BYTES, EDGE_BYTES)  # columns of all rows
LEARNING = SCORING._replace(learnt=ROW_BYTES + CLASS_BYTES)  # and trees that learn from them
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


# Of classify by way of files, in processor seconds: per edge to read, sort and write, per feature of an edge, and per value
# that is summed around an edge; per value of a training row, of a row to score, and of a row that gets columns.
EDGE_SECONDS, FEATURE_SECONDS, SUM_SECONDS = 1.3e-6, 2e-7, 4.5e-8
FIT_SECONDS, SCORE_SECONDS, VALUE_SECONDS = 1.1e-6, 3e-7, 5e-8
CORES = 1.8  # how many of two cores are busy on average
FILE_BYTES, WRITE_BYTES = 4.5e8, 6e8  # of the process before the first step, and of what is written at once
SCALES = 5  # usual number of time scales


class FileCost(NamedTuple):
    """Seconds on two cores, processor seconds, bytes of memory and bytes of temporary files."""

    seconds: float
    cpu_seconds: float
    memory: float
    disk: float


class FileShape(NamedTuple):
    """What the cost of a table that is classified by way of files depends on.

    Attributes
    ----------
    n_edges, n_missing
        The numbers of interactions and of missing labels.
    clock, late
        The clock of the times, and whether it is given when labels became known.
    n_classes
        The number of classes.
    own
        The features, as `tdlg.propagate.own_features.fit_own` finds them in some rows.
    shared
        Whether some ids are both sources and destinations.
    """

    n_edges: int
    n_missing: int
    clock: Clock
    late: bool = False
    n_classes: int = 2
    own: tuple[OwnColumn, ...] = ()
    shared: bool = False

    def plan(self) -> tuple[BucketPlan, RecordForm]:
        """The columns and records, with a usual number of time scales."""
        import numpy as np

        from tdlg.engines.buckets import RecordForm
        from tdlg.engines.columns import BucketPlan
        from tdlg.linegraph.match import NODE_MATCHES
        from tdlg.propagate.features import useful_matches
        from tdlg.propagate.plan import ColumnPlan, plan_decays

        matches = tuple(useful_matches(NODE_MATCHES, shared=self.shared))
        decays = plan_decays([1.0] * SCALES, 1.0, None, as_durations=False)
        prior = (0.0,) * (1 if self.n_classes == 2 else self.n_classes)
        classes = np.arange(self.n_classes)
        plan = ColumnPlan(matches, *decays, self.own, classes, prior, 1.0, True, 1.0, "none", bipartite=not self.shared)
        return BucketPlan(plan, None), RecordForm(self.n_edges, self.clock, self.late, self.n_classes, self.own)


def file_cost(shape: FileShape, memory: float, n_threads: int = 2) -> FileCost:
    """Estimate what classify takes by way of temporary files, from measurements on two cores with 1 to 100 million edges.

    Parameters
    ----------
    shape
        The table.
    memory
        The limit of memory, in bytes.
    n_threads
        The number of threads. 2 by default.
    """
    plan, form = shape.plan()
    n_edges, n_missing, n_columns = shape.n_edges, shape.n_missing, sum(map(plan.n_columns, plan.matches))
    sizes = Sizes(int(memory), n_threads, n_features=len(shape.own))
    kept = len(plan.plan.all_kinds) * form.dtype.itemsize * n_edges
    row = sum(plan.record(match, form).itemsize for match in plan.matches)
    of_rows = kept, row, 8 + 8 * shape.n_classes, sizes.training_rows(n_columns)
    on_disk = OnDisk.of(n_edges, n_missing, n_edges - n_missing, *of_rows)
    n_outputs = plan.plan.n_targets
    n_values = plan.plan.n_edge_values + plan.plan.n_label_values
    chosen = n_missing + on_disk.sampled
    cpu = n_edges * (EDGE_SECONDS + FEATURE_SECONDS * len(shape.own))
    cpu += n_edges * SUM_SECONDS * SCALES * n_values * len(plan.matches) + chosen * n_columns * VALUE_SECONDS
    cpu += n_columns * n_outputs * (on_disk.sampled * FIT_SECONDS + n_missing * SCORE_SECONDS)
    per_record = record_memory(form.dtype.itemsize, n_values, SCALES, n_columns // len(plan.matches), chosen / n_edges)
    at_once = {
        "blocks": n_threads * min(sizes.block, n_edges) * sizes.row_bytes,
        "buckets": n_threads * min(sizes.bucket(per_record), n_edges) * per_record,
        "fit": TRAINING_BYTES * on_disk.sampled * n_columns,
        "scores": n_threads * min(sizes.scored_rows(n_columns, n_missing), n_missing) * n_columns * SCORED_BYTES,
        "writing": WRITE_BYTES,
    }
    used = min(FILE_BYTES + max(at_once.values()), memory)
    return FileCost(START_SECONDS + cpu / CORES, START_SECONDS + cpu, used, on_disk.n_bytes)


def in_time(seconds: float) -> str:
    """A duration as text, for example "4 s", "3 min" or "5 h"."""
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.0f} h"
