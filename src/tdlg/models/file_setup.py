"""What is decided about a file before its columns are made: classes, setting, rows to learn from, features, time scales."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tdlg.clock import times_of
from tdlg.edges import TemporalEdges
from tdlg.engines.buckets import RecordForm
from tdlg.engines.summary import Clock, Labels, Summary
from tdlg.engines.table import Block, ScannedEdges
from tdlg.exceptions import EdgesError, ParameterError
from tdlg.linegraph.decay import time_spread
from tdlg.models.propagation_classifier import PropagationClassifier
from tdlg.models.training import Windows
from tdlg.propagate.features import PropagationFeatures, check_features, class_targets
from tdlg.propagate.own_features import OwnColumn, fit_own
from tdlg.propagate.plan import plan_decays

MOST_CLASSES = 1000


@dataclass(frozen=True)
class FileSetup:
    """What is decided about a file.

    clock, late : of the summary; labels, classes, counts : which class each label means, the classes, and how often each
    occurs; missing : the number of rows to score of each block, about, if the table is large; windows : the rows to learn
    from; own : how features become numbers; spread : the standard deviation of the times that decide the scales, in ticks.
    """

    table: ScannedEdges
    blocks: tuple[Block, ...]
    clock: Clock
    late: bool
    labels: Labels
    classes: NDArray[Any]
    counts: NDArray[np.int64]
    missing: NDArray[np.float64]
    windows: Windows
    own: tuple[OwnColumn, ...]
    spread: float

    @property
    def n_missing(self) -> int:
        """The number of rows to score."""
        return self.table.n_rows - int(self.counts.sum())

    @property
    def form(self) -> RecordForm:
        """What a record of an edge has."""
        return RecordForm(self.table.n_rows, self.clock, self.late, len(self.classes), self.own)

    def features(
        self, model: PropagationClassifier, scales: Sequence[float | str], *, shared: bool
    ) -> PropagationFeatures:
        """Fitted features that hold no edges; shared : whether some nodes are both sources and destinations."""
        features = model.unfitted_features("none")
        check_features(features)
        times = times_of(np.empty(0, self.clock.dtype), self.clock.unit)
        features.edges_ = TemporalEdges([], [], times, bipartite=self.table.bipartite)
        features.labels_, features.labelled_, features.label_ticks_ = None, np.zeros(0, bool), None
        decays = plan_decays(scales, self.spread, self.clock.unit, as_durations=isinstance(model.scales, str))
        features.plan_ = features.make_plan(decays, self.own, class_targets(self.classes, self.counts), shared=shared)
        return features


def set_up(
    table: ScannedEdges,
    blocks: Sequence[Block],
    summary: Summary,
    classes_of: dict[Any, Any],
    model: PropagationClassifier,
) -> FileSetup:
    """Decide all that depends on the summary of a file, as `PropagationClassifier.fit` does, and note it in the model.

    classes_of : the class of each value of the label column; None if the value means that the label is missing.
    """
    classes = np.unique(np.array([value for value in classes_of.values() if value is not None]))
    place = {value: code for code, value in enumerate(classes.tolist())}
    labels = Labels(tuple(classes_of), tuple(-1 if named is None else place[named] for named in classes_of.values()))
    counted: Counter[int] = Counter()
    for value, code in zip(labels.values, labels.codes, strict=True):
        counted[code] += summary.labels[value]
    counts = np.array([counted[code] for code in range(len(classes))], np.int64)
    _check_classes(table, classes, table.n_rows - int(counts.sum()))

    model.set_classes(classes, counts)
    edges = summary.kept(table)
    ticks, codes = summary.clock.ticks(edges), labels.codes_of(edges)
    windows = model.choose_windows(ticks, codes, counts, late=summary.late)
    past = np.arange(len(edges)) if model.setting_ == "interpolate" else np.flatnonzero(codes >= 0)
    spread = next((time_spread(times) for times in (ticks[past], ticks) if np.ptp(times) > 0), 0.0)
    own = [fit_own(summary.kept(table, name), rows=past)[0] for name in table.features]  # each takes memory
    own += fit_own(edges, model.calendar)
    to_score = np.where(edges.labelled, *(1.0 / share for share in summary.shares))[codes < 0]
    block_of = np.searchsorted([block.stop for block in blocks], summary.rows[codes < 0], side="right")
    missing = np.bincount(block_of, to_score, len(blocks)).astype(np.float64)
    of_file = table, tuple(blocks), summary.clock, summary.late
    return FileSetup(*of_file, labels, classes, counts, missing, windows, tuple(own), spread)


def _check_classes(table: ScannedEdges, classes: NDArray[Any], n_missing: int) -> None:
    name = table.roles["label"]
    if n_missing == 0:
        raise ParameterError(
            f"No label is missing in the column {name!r}: there is nothing to fill in. Leave the label empty in the rows to "
            "fill in.",
            parameter="label",
        )
    if len(classes) == 0:
        raise EdgesError("All labels are missing: there is nothing to learn from. Pass the labels of some edges.")
    if len(classes) > MOST_CLASSES:
        raise EdgesError(
            f"The column {name!r} has {len(classes):,} different labels, more than {MOST_CLASSES:,}. Make groups of them."
        )
    if classes.dtype.kind == "f" and (classes != np.floor(classes)).any():
        some = classes[classes != np.floor(classes)][0]
        raise EdgesError(
            f"The column {name!r} has numbers with a fraction, such as {some:g}, and a class is a whole number or a word.",
            "Make groups of them with classes=.",
        )
