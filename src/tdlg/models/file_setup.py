"""What is decided about a file before its columns are made: classes, setting, rows to learn from, features, time scales."""

from __future__ import annotations

import math
from collections.abc import Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tdlg.clock import times_of
from tdlg.edges import TemporalEdges
from tdlg.engines.buckets import RecordForm
from tdlg.engines.columns import Sample
from tdlg.engines.statistics import (
    BlockTask,
    Labels,
    Look,
    Range,
    category_counts,
    missing_counts,
    order_statistics,
    quantiles,
    ranges,
    window_counts,
)
from tdlg.engines.table import Block, ScannedEdges
from tdlg.exceptions import EdgesError, ParameterError
from tdlg.models.boosting import quotas
from tdlg.models.propagation import BURN_IN, CUTS, HORIZON
from tdlg.models.propagation_classifier import PropagationClassifier
from tdlg.models.setting import LATEST, given_setting, setting_of_times, warn_of_late_counts
from tdlg.propagate.features import PropagationFeatures, check_features, useful_matches
from tdlg.propagate.own_features import CALENDAR, QUARTILES, OwnColumn, category_column, number_column
from tdlg.propagate.plan import ColumnPlan, plan_decays

__all__ = ["FileSetup", "set_up"]

MOST_CLASSES = 1000


@dataclass(frozen=True)
class FileSetup:
    """What is decided about a file.

    Attributes
    ----------
    table, blocks, look
        The file, its blocks, and the first look at it.
    labels, classes, counts
        Which class each label means, the classes, and how often each occurs.
    missing
        The number of rows of each block that are scored.
    setting, reason
        The setting and why it was chosen; see `PropagationClassifier`.
    windows, window_counts
        The windows of time from which rows to learn from are sampled, as (first, last, known before), in ticks; and the
        number of labels of each class in them, (n_windows, n_classes).
    own
        How features become numbers.
    deviation
        The standard deviation of the times that determine the scales, in ticks.
    """

    table: ScannedEdges
    blocks: tuple[Block, ...]
    look: Look
    labels: Labels
    classes: NDArray[Any]
    counts: NDArray[np.int64]
    missing: NDArray[np.int64]
    setting: str
    reason: str | None
    windows: tuple[tuple[Any, Any, Any], ...]
    window_counts: NDArray[np.int64]
    own: tuple[OwnColumn, ...]
    deviation: float

    @property
    def past_only(self) -> bool:
        """Whether only what happened before an edge counts."""
        return self.setting != "interpolate"

    @property
    def n_missing(self) -> int:
        """The number of rows to score."""
        return self.table.n_rows - int(self.counts.sum())

    @property
    def form(self) -> RecordForm:
        """What a record of an edge has."""
        return RecordForm(self.table.n_rows, self.look.clock, self.look.late, len(self.classes), self.own)

    def plan(self, model: PropagationClassifier, scales: Sequence[float | str], *, shared: bool) -> ColumnPlan:
        """The columns, from the statistics of the file and the time scales.

        shared : whether some nodes are both sources and destinations; else matches of one with the other are left out.
        """
        check_features(self._unfitted(model))
        clock = self.look.clock
        decays = plan_decays(scales, self.deviation, clock.unit, as_durations=isinstance(model.scales, str))
        return ColumnPlan(
            tuple(useful_matches(model.matches, shared=shared)),
            *decays,
            tuple(self.own),
            self.classes,
            tuple((self.counts / self.counts.sum())[int(len(self.classes) == 2) :].tolist()),
            1.0,
            self.past_only,
            float(model.smoothing),
            "none",
            not shared,
        )

    def _unfitted(self, model: PropagationClassifier) -> PropagationFeatures:
        return PropagationFeatures(
            model.matches,
            scales=model.scales,
            past_only=self.past_only,
            target="classes",
            smoothing=model.smoothing,
            two_ends="none",
            calendar=model.calendar,
            n_threads=model.n_threads,
        )

    def features(self, model: PropagationClassifier, plan: ColumnPlan) -> PropagationFeatures:
        """Fitted features that hold no edges."""
        features = self._unfitted(model)
        clock, bipartite = self.look.clock, self.table.bipartite
        features.edges_ = TemporalEdges([], [], times_of(np.empty(0, clock.dtype), clock.unit), bipartite=bipartite)
        features.labels_, features.labelled_, features.label_ticks_ = None, np.zeros(0, bool), None
        features.plan_ = plan
        return features

    def samples(self, most: int) -> list[Sample]:
        """The rows to learn from, at most this number: of each window as many as of the others, rare classes first."""
        samples, form = [], self.form
        each = most if most >= self.window_counts.sum() else most // len(self.windows)
        for (first, last, before), sizes in zip(self.windows, self.window_counts, strict=True):
            quota = quotas(sizes, each) if sizes.sum() > each else sizes
            shares = np.where(sizes > 0, quota / np.maximum(sizes, 1), 0.0)
            ends = [None if tick is None else form.stored(np.array([tick]))[0].item() for tick in (first, last, before)]
            samples.append(Sample(ends[0], ends[1], tuple(shares.tolist()), ends[2]))
        return samples


def set_up(
    engine: Executor,
    table: ScannedEdges,
    blocks: Sequence[Block],
    look: Look,
    classes_of: dict[Any, Any],
    model: PropagationClassifier,
) -> FileSetup:
    """Decide all that depends on statistics of the file.

    Parameters
    ----------
    engine
        What runs the tasks.
    table, blocks, look
        The file, its blocks, and the first look at it.
    classes_of
        The class of each value of the label column; None if the value means that the label is missing.
    model
        The parameters.
    """
    classes = np.unique(np.array([value for value in classes_of.values() if value is not None]))
    place = {value: code for code, value in enumerate(classes.tolist())}
    codes = {value: -1 if named is None else place[named] for value, named in classes_of.items()}
    labels = Labels(tuple(codes), tuple(codes.values()))
    counts = np.zeros(len(classes), np.int64)
    for value, n in look.labels.items():
        if codes[value] >= 0:
            counts[codes[value]] += n
    tasks = [BlockTask(table, block, labels, look.clock) for block in blocks]
    n_known = int(counts.sum())
    _check_classes(table, classes, table.n_rows - n_known)
    missing = np.array(look.missing)
    if missing.sum() != table.n_rows - n_known:  # some values mean a missing label
        missing = missing_counts(engine, tasks)
    has_missing = n_known < table.n_rows
    found = ranges(engine, tasks, ["known", "missing"] if has_missing else ["known"])
    setting, reason, ticks = _setting(engine, tasks, found, model.setting, look)
    windows = _windows(setting, ticks, look)
    latest = ticks["latest"], look.clock.high
    n_of = window_counts(engine, tasks, [*(window[:2] for window in windows), latest], len(classes))
    if not look.late and int(LATEST * n_known):
        warn_of_late_counts(classes, counts, n_of[-1])
    n_of = n_of[:-1]
    if setting == "stream" and (n_of[0] == 0).any():
        windows, n_of = ((look.clock.low, look.clock.high, None),), counts[np.newaxis]
    elif setting == "forecast" and (n_of.sum(axis=0) == 0).any():  # a class is missing: add all labelled edges
        windows, n_of = (*windows, (look.clock.low, look.clock.high, None)), np.vstack([n_of, counts])
    which = "known" if setting != "interpolate" else "all"
    times = found["known"] if which == "known" and found["known"].high > found["known"].low else None
    if times is None:
        times = found["known"].and_more(found["missing"]) if has_missing else found["known"]
    own = _own(engine, tasks, table, look, which, model.calendar)
    fixed = table, tuple(blocks), look, labels, classes, counts, missing, setting, reason, windows, n_of
    return FileSetup(*fixed, own, times.deviation if times.high > times.low else 0.0)


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
    if len(classes) == 1:
        raise EdgesError(f"The known labels have only 1 class, {classes[0]!s}: at least two are needed.")
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


def _setting(
    engine: Executor, tasks: list[BlockTask], found: dict[str, Range], setting: str, look: Look
) -> tuple[str, str | None, dict[str, Any]]:
    """The setting, its reason, and the times that divide the known labels."""
    n_known = found["known"].n
    given = given_setting("PropagationClassifier", setting, look.late)
    shares = [*CUTS, BURN_IN]
    ranks = [int(share * n_known) for share in shares]
    ranks += [min(int((share + HORIZON) * n_known), n_known - 1) for share in CUTS]
    ranks += [max(n_known - max(int(LATEST * n_known), 1), 0)]
    wanted: dict[str, Sequence[int]] = {"known": ranks}
    if given is None and "missing" in found:
        last = found["missing"].n - 1
        wanted["missing"] = [last // 2, (last + 1) // 2]
    values = order_statistics(engine, tasks, found, wanted)
    known = values["known"].tolist()
    ticks = {
        "cuts": known[: len(CUTS)],
        "warm": known[len(CUTS)],
        "stops": known[len(CUTS) + 1 : -1],
        "latest": known[-1],
    }
    if given is not None:
        return *given, ticks
    if "missing" not in found:
        return *setting_of_times(None, None, 0.0), ticks
    median = float(np.mean(values["missing"]))
    after = math.floor(median) + 1 if look.clock.dtype == "i8" else np.nextafter(median, np.inf)
    n_later = window_counts(engine, tasks, [(after, look.clock.high)], max(tasks[0].labels.codes) + 1).sum()
    ends = found["known"].low, found["known"].high
    return *setting_of_times(ends, found["missing"].low, float(n_later) / n_known), ticks


def _windows(setting: str, ticks: dict[str, Any], look: Look) -> tuple[tuple[Any, Any, Any], ...]:
    """From which times rows to learn from are taken, and before which time their labels had to be known."""
    if setting == "forecast":
        return tuple((cut, stop, cut) for cut, stop in zip(ticks["cuts"], ticks["stops"], strict=True))
    first = ticks["warm"] if setting == "stream" else look.clock.low
    return ((first, look.clock.high, None),)


def _own(
    engine: Executor, tasks: list[BlockTask], table: ScannedEdges, look: Look, which: str, calendar: bool
) -> tuple[OwnColumn, ...]:
    """How features become numbers, from those of labelled edges ("known") or of all; see `fit_own`."""
    if calendar and look.clock.unit is None:
        raise ParameterError(
            "The 'calendar' parameter needs times that are datetimes, and these are numbers.",
            "Pass datetimes, or leave out calendar=.",
            parameter="calendar",
        )
    own: dict[str, OwnColumn] = {}
    if look.numbers:
        names = {f"{which} {name}": name for name in look.numbers}
        found = ranges(engine, tasks, list(names))
        some: dict[str, Sequence[float]] = {long: QUARTILES for long in names if found[long].n}
        quartiles = quantiles(engine, tasks, found, some)
        for long, name in names.items():
            own[name] = number_column(name, quartiles.get(long), found[long].low, found[long].deviation)
    if look.categories:
        counted = category_counts(engine, tasks, look.categories, only_known=which == "known")
        for name, counts in counted.items():
            categories = sorted(counts)
            own[name] = category_column(name, categories, [counts[category] for category in categories])
    return tuple(own[name] for name in table.features) + tuple(OwnColumn(name, ()) for name in CALENDAR if calendar)
