"""Edges larger than memory: `fill` of PropagationClassifier and BurstDetector, and what they take."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from tdlg.checks import as_generator
from tdlg.clock import times_of
from tdlg.edges import TemporalEdges
from tdlg.engines.buckets import (
    BucketPlan,
    Buckets,
    BurstsTask,
    ColumnFiles,
    ColumnsTask,
    RecordForm,
    RowValues,
    find_bursts,
    make_columns,
    map_buckets,
    nodes_are_shared,
    read_columns,
    usual_gap_of_nodes,
)
from tdlg.engines.executors import run_all
from tdlg.engines.files import exists, read_split, reading, write_split, write_whole
from tdlg.engines.run import SCORED_BYTES, TRAINING_BYTES, FileRun, MemoryLimits, record_memory
from tdlg.engines.table import Block, LabelCodes, ScannedEdges, Summary, TableClock, summarise_table
from tdlg.exceptions import EdgesError, ParameterError
from tdlg.explain.positive import positive_by_counts
from tdlg.linegraph.decay import Decay, time_spread
from tdlg.linegraph.match import NODE_MATCHES
from tdlg.memory import most_learnt
from tdlg.models.training import TrainingRows, TrainingWindows
from tdlg.persist.model import load_model, save_model
from tdlg.propagate.bursts import KEYS
from tdlg.propagate.features import PropagationFeatures, check_features, class_targets, useful_matches
from tdlg.propagate.plan import ColumnPlan, OwnColumn, fit_own, plan_decays, scales_between
from tdlg.tables.labels import LabelRule, plain_classes
from tdlg.tables.text import SCORE_DIGITS

if TYPE_CHECKING:
    import polars as pl

CLASSES_TO_FILL = 1000
MOST_SCALES, USUAL_SCALES = 6, 5  # for estimates, before the time scales are known
START_BYTES, WRITE_BYTES = 4.5e8, 6e8  # of the process before the first step, and of what is written at once


class FileNeeds(NamedTuple):
    """What a run on disk takes.

    n_learnt : the rows that the trees learn from; record_bytes : the memory per record of each kind of keys while columns
    are made; memory, disk : the bytes of memory and of temporary files at the peak.
    """

    n_learnt: int
    record_bytes: dict[str, float]
    memory: float
    disk: int

    @classmethod
    def of(cls, plan: BucketPlan, form: RecordForm, n_missing: int, n_known: int, limits: MemoryLimits) -> Self:
        """The needs of these columns, where n_known rows can be learnt from and n_missing rows are scored."""
        n_rows, of_plan = form.n_rows, plan.plan
        n_columns = sum(map(plan.n_columns, plan.matches))
        n_learnt = min(n_known, limits.training_rows(n_rows, n_columns))
        share = min((n_missing + min(n_known, most_learnt(n_rows))) / n_rows, 1.0)
        record_bytes: dict[str, float] = {}
        for match in plan.matches:
            kind, other = of_plan.kinds(match)
            n_values = of_plan.n_edge_values + of_plan.n_label_values
            of_match = form.dtype.itemsize, n_values, len(of_plan.scale_names), plan.n_columns(match), share
            needed = (1 if kind == other else 2) * record_memory(*of_match)
            record_bytes[kind] = max(record_bytes.get(kind, 0.0), needed)
        largest = max(record_bytes.values())
        bucket_bytes = n_rows / limits.n_buckets(n_rows, largest) * largest
        n_scored = min(limits.scored_rows(n_missing, n_columns), n_missing)
        steps = (
            limits.n_threads * min(limits.block(n_rows, len(form.own)), n_rows) * limits.row_bytes(len(form.own)),
            limits.at_once(bucket_bytes) * bucket_bytes,
            TRAINING_BYTES * n_learnt * n_columns,
            limits.n_threads * n_scored * n_columns * SCORED_BYTES,
            WRITE_BYTES,
        )
        row = sum(plan.record(match, form).itemsize for match in plan.matches)
        disk = len(of_plan.all_kinds) * form.dtype.itemsize * n_rows + (n_missing + n_learnt) * row
        disk += n_missing * _score_record(form.n_classes).itemsize
        return cls(n_learnt, record_bytes, min(START_BYTES + max(steps), limits.memory), disk)


def needs_of_file(
    table: ScannedEdges, seen: Summary, n_missing: int, n_classes: int, limits: MemoryLimits
) -> FileNeeds:
    """What `PropagationClassifier.fill` takes; features and ids are looked at in the first rows."""
    edges = table.read(table.blocks(limits.block(table.n_rows, len(table.features)))[0])
    shared = not table.bipartite and bool(np.isin(edges.src, edges.dst).any())
    own, prior = tuple(fit_own(edges)), (0.0,) * (1 if n_classes == 2 else n_classes)
    decays = plan_decays([1.0] * USUAL_SCALES, 1.0, None, as_durations=False)
    matches, classes = tuple(useful_matches(NODE_MATCHES, shared=shared)), np.arange(n_classes)
    plan = ColumnPlan(matches, *decays, own, classes, prior, 1.0, True, 1.0, "none", bipartite=not shared)
    form = RecordForm(table.n_rows, seen.clock, seen.late, n_classes, own)
    return FileNeeds.of(BucketPlan(plan, None), form, n_missing, table.n_rows - n_missing, limits)


# ---- what is decided about a file before its columns are made


@dataclass(frozen=True)
class FileSetup:
    """What is decided about a file.

    clock, late : of the summary; labels, classes, counts : which class each label means, the classes, and how often each
    occurs; rows_to_score, n_to_score : kept rows without a label, and the number of such rows up to each; windows : the
    rows to learn from; own : how features become numbers; spread : the standard deviation of the times that decide the
    scales, in ticks.
    """

    table: ScannedEdges
    clock: TableClock
    late: bool
    labels: LabelCodes
    classes: NDArray[Any]
    counts: NDArray[np.int64]
    rows_to_score: NDArray[np.int64]
    n_to_score: NDArray[np.float64]
    windows: TrainingWindows
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

    def features(self, model: Any, scales: Sequence[float | str], *, shared: bool) -> PropagationFeatures:
        """Fitted features that hold no edges; shared : whether some nodes are both sources and destinations."""
        features = model.unfitted_features("none")
        check_features(features)
        times = times_of(np.empty(0, self.clock.dtype), self.clock.unit)
        features.edges_ = TemporalEdges([], [], times, bipartite=self.table.bipartite)
        features.labels_, features.labelled_, features.label_ticks_ = None, np.zeros(0, bool), None
        decays = plan_decays(scales, self.spread, self.clock.unit, as_durations=isinstance(model.scales, str))
        features.plan_ = features.make_plan(decays, self.own, class_targets(self.classes, self.counts), shared=shared)
        return features


def set_up(table: ScannedEdges, summary: Summary, classes_of: dict[Any, Any], model: Any) -> FileSetup:
    """Decide all that depends on the summary of a file, as `PropagationClassifier.fit` does, and note it in the model.

    classes_of : the class of each value of the label column; None if the value means that the label is missing.
    """
    classes = np.unique(np.array([value for value in classes_of.values() if value is not None]))
    place = {value: code for code, value in enumerate(classes.tolist())}
    labels = LabelCodes(
        tuple(classes_of), tuple(-1 if named is None else place[named] for named in classes_of.values())
    )
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
    own += fit_own(edges, model.calendar, rows=past)
    n_each = np.where(edges.labelled, *(1.0 / share for share in summary.shares))  # rows that a kept one stands for
    to_score = summary.rows[codes < 0], np.cumsum(n_each[codes < 0])
    of_file = table, summary.clock, summary.late
    return FileSetup(*of_file, labels, classes, counts, *to_score, windows, tuple(own), spread)


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
    if len(classes) > CLASSES_TO_FILL:
        raise EdgesError(
            f"The column {name!r} has {len(classes):,} different labels, more than {CLASSES_TO_FILL:,}. Make groups of them."
        )
    if classes.dtype.kind == "f" and (classes != np.floor(classes)).any():
        some = classes[classes != np.floor(classes)][0]
        raise EdgesError(
            f"The column {name!r} has numbers with a fraction, such as {some:g}, and a class is a whole number or a word.",
            "Make groups of them with classes=.",
        )


# ---- classes


@dataclass(frozen=True)
class Filled:
    """What `PropagationClassifier.fill` did.

    Attributes
    ----------
    n_rows, n_known, n_scored
        The numbers of rows, of known labels, and of rows that were scored.
    n_learnt, n_learnt_from
        The number of rows that the trees learnt from, and the number of rows that these were sampled from.
    classes, positive
        The classes, and the positive one.
    setting, setting_reason
        The setting that was used, and why it was chosen; None if it was given.
    scales
        The time scales, in words.
    columns
        The names of the columns that the trees learnt from.
    disk_bytes
        The size of the temporary files at the peak, as computed from the columns.
    """

    n_rows: int
    n_known: int
    n_scored: int
    n_learnt: int
    n_learnt_from: int
    classes: tuple[Any, ...]
    positive: Any
    setting: str
    setting_reason: str | None
    scales: str
    columns: tuple[str, ...]
    disk_bytes: int


def fill_labels(
    model: Any,
    table: ScannedEdges,
    output: Any,
    *,
    positive: Any,
    classes: Callable[[list[Any]], tuple[list[Any], Any]] | None,
    **of_run: Any,
) -> Filled:
    """All steps of `PropagationClassifier.fill`."""
    if model.two_ends is True:
        raise ParameterError(
            "Similarity features need all edges in memory at once, and a file is worked on in buckets.",
            "Leave out two_ends=.",
            parameter="two_ends",
        )
    if model.estimator is not None:
        raise ParameterError(
            "Files are always fitted with the built-in boosted trees, and an 'estimator' is given.",
            "Leave out estimator=, or read the table into memory.",
            parameter="estimator",
        )
    _check_scanned(table)
    if "label" not in table.roles:
        raise ParameterError(
            f"{table.path} was scanned without a label, which is to be filled in.",
            "Use `scan_edges(path, label=...)`.",
            parameter="label",
        )
    seed = model.random_state  # a whole number, because all tasks need the same one
    seed = int(seed if isinstance(seed, int | np.integer) else as_generator(seed).integers(2**31))
    model = clone(model).set_params(random_state=seed)
    with FileRun.opened(table, output, n_threads=model.n_threads, **of_run) as run:
        run.progress("reading")
        summary = summarise_table(run.engine, table, run.blocks)
        values = list(summary.labels)
        if classes is None and table.rule != LabelRule(column=table.rule.column):
            classes = table.rule.classes
        named, chosen = (values, None) if classes is None else classes(values)
        setup = set_up(table, summary, dict(zip(values, named, strict=True)), model)
        del summary  # which holds the kept rows
        buckets = _partition(run, setup, model)
        run.progress("looking at nodes")
        plan, needs, buckets = _plan(run, setup, model, buckets)
        files = ColumnFiles(run.folder, _bounds(run.limits, setup, plan))
        every = [(match, bucket) for match in plan.matches for bucket in range(buckets.n_buckets)]
        tasks = [ColumnsTask(plan, buckets, files, *one) for one in every]
        map_buckets(run.engine, make_columns, tasks, run.progress("making columns"))
        _fit_trees(run, setup, model, plan, buckets, files)
        scores = _score(run, model, plan, buckets, files)
        given = chosen if positive is None else positive
        place = positive_by_counts(setup.classes, setup.counts.tolist(), given)
        plain = tuple(plain_classes(setup.classes).tolist())
        run.write(_ClassAnswers(scores, plain, place if len(plain) == 2 else None))
    in_words = plan.plan.scales_in_words(setup.clock.unit)
    counts = int(setup.counts.sum()), setup.n_missing, model.n_rows_, model.n_rows_sampled_from_
    chosen_setting = model.setting_, model.setting_reason_, in_words, tuple(plan.plan.names())
    return Filled(table.n_rows, *counts, plain, plain[place], *chosen_setting, needs.disk)


def _check_scanned(table: Any) -> None:
    if not isinstance(table, ScannedEdges):
        raise ParameterError(
            f"The 'scanned' must be what scan_edges returns. Got {type(table).__name__} instead.",
            "Use `scan_edges(path)`, or `fit` for edges in memory.",
            parameter="scanned",
        )


def _partition(run: FileRun, setup: FileSetup, model: Any) -> Buckets:
    """Sort all edges into buckets. Those that do not fit, whichever ids are shared, are refused."""

    def needs(shared: bool) -> tuple[BucketPlan, FileNeeds]:
        plan = BucketPlan(setup.features(model, [1.0] * MOST_SCALES, shared=shared).plan_, setup.clock.unit)
        return plan, FileNeeds.of(plan, setup.form, setup.n_missing, int(setup.windows.counts.sum()), run.limits)

    most, at_most = needs(not run.table.bipartite)
    run.check_disk(at_most.disk)
    buckets = run.partition(setup.form, setup.labels, most.plan.all_kinds, max(at_most.record_bytes.values()))
    return run.checked(buckets, needs(False)[1].record_bytes)


def _plan(run: FileRun, setup: FileSetup, model: Any, buckets: Buckets) -> tuple[BucketPlan, FileNeeds, Buckets]:
    """The columns, of which time scales and matches depend on the nodes; their needs; how the buckets are worked on."""
    shared = not run.table.bipartite and nodes_are_shared(run.engine, buckets)
    scales: Any = model.scales
    if isinstance(model.scales, str):
        only_known = model.setting_ != "interpolate" and setup.spread > 0
        scales = scales_between(setup.spread, usual_gap_of_nodes(run.engine, buckets, only_known=only_known))
    model.features_ = setup.features(model, scales, shared=shared)
    plan = BucketPlan(model.features_.plan_, setup.clock.unit)
    needs = FileNeeds.of(plan, setup.form, setup.n_missing, int(setup.windows.counts.sum()), run.limits)
    plan = replace(plan, samples=setup.windows.samples(needs.n_learnt), seed=model.random_state)
    return plan, needs, run.checked(buckets, needs.record_bytes)


def _bounds(limits: MemoryLimits, setup: FileSetup, plan: BucketPlan) -> tuple[int, ...]:
    """Rows at which ranges begin, with about as many rows to score as are scored at once."""
    most = limits.scored_rows(setup.n_missing, sum(map(plan.n_columns, plan.matches)))
    cuts = np.searchsorted(setup.n_to_score, np.arange(most, setup.n_to_score[-1], most))
    inner = np.unique(setup.rows_to_score[cuts])
    return (0, *inner[inner > 0].tolist(), setup.table.n_rows)


def _fit_trees(
    run: FileRun, setup: FileSetup, model: Any, plan: BucketPlan, buckets: Buckets, files: ColumnFiles
) -> None:
    """Fit the trees on the samples."""
    n_ranges = len(files.bounds) - 1
    places = range(n_ranges, n_ranges + len(plan.samples))
    parts = [read_columns(plan, buckets, files, range(place, place + 1)) for place in places]
    rows = np.concatenate([part[0] for part in parts])
    columns = np.vstack([part[1] for part in parts]) if len(parts) > 1 else parts[0][1]
    codes = [part[0]["label"] for part in parts]
    del parts
    run.progress(f"fitting to {len(rows):,} rows")
    ticks = setup.form.times(rows["tick"])
    model.learn(TrainingRows(columns, setup.classes[rows["label"]], None, ticks), plan.samples, codes)


# ---- scores

_LOADING = Lock()


@dataclass(frozen=True)
class ScoreTask:
    """Score the rows of the range with this number, with the fitted model in a file; `path`: the file to write."""

    model: str
    plan: BucketPlan
    buckets: Buckets
    files: ColumnFiles
    number: int
    path: str


def _score(run: FileRun, model: Any, plan: BucketPlan, buckets: Buckets, files: ColumnFiles) -> dict[Block, str]:
    """Score the rows of all ranges; gives the files of their scores."""
    path = f"{run.folder}/model.tdlg"
    _write_model(model, path)
    spans = [Block(*ends) for ends in pairwise(files.bounds)]
    paths = [f"{run.folder}/scores-{span.start}" for span in spans]
    tasks = [ScoreTask(path, plan, buckets, files, k, each) for k, each in enumerate(paths)]
    run_all(run.engine, score_range, tasks, run.progress("scoring"))
    return dict(zip(spans, paths, strict=True))


def score_range(task: ScoreTask) -> None:
    """Write the probabilities of the rows of a range. A file that is there already stays."""
    if exists(task.path):
        return
    with (
        _LOADING
    ):  # once for all threads of a process; Python 3.11 may fail to parse headers of arrays in several at once
        model = _model_of(task.model)
    rows, columns = read_columns(task.plan, task.buckets, task.files, range(task.number, task.number + 1))
    scores = np.zeros(len(rows), _score_record(len(model.classes_)))
    scores["row"] = rows["row"]
    scores["values"] = model.values_of(columns)
    write_split(task.path, scores, np.zeros(len(rows), np.int64), 1)


def _score_record(n_classes: int) -> np.dtype[Any]:
    return np.dtype([("row", "<i8"), ("values", "<f8", (n_classes,))])


def _write_model(model: Any, path: str) -> None:
    """Write a fitted model as a file without executable code, which all tasks read, also to a store."""
    with tempfile.TemporaryDirectory() as folder:
        save_model(model, local := Path(folder) / "model.tdlg")
        write_whole(path, [local.read_bytes()])


@lru_cache(maxsize=1)
def _model_of(path: str) -> Any:
    with tempfile.TemporaryDirectory() as folder, reading(path) as file:
        (local := Path(folder) / "model.tdlg").write_bytes(file.read())
        return load_model(local)


@lru_cache(maxsize=1)
def _scores_in(path: str) -> NDArray[np.void]:
    """The scores of a range; the blocks of the result ask for the same ones several times."""
    return read_split([path], range(1))


@dataclass(frozen=True)
class _ClassAnswers:
    """The columns "predicted" and "probability".

    scores : the files with the scores of ranges of rows; positive : the position of the positive class of two, else None.
    """

    scores: dict[Block, str]
    classes: tuple[Any, ...]
    positive: int | None
    names: tuple[str, ...] = ("predicted", "probability")

    def of_block(self, block: Block) -> Self:
        """Without the scores of other rows."""
        some = {span: path for span, path in self.scores.items() if span.start < block.stop and block.start < span.stop}
        return replace(self, scores=some)

    def columns(self, block: Block) -> list[pl.Series]:
        """The predicted class, and the probability of the positive class or, with more than two, of the predicted class."""
        import polars as pl

        parts = [np.zeros(0, _score_record(len(self.classes)))]
        for path in self.of_block(block).scores.values():
            scores = _scores_in(path)
            first, stop = np.searchsorted(scores["row"], [block.start, block.stop])
            parts.append(scores[first:stop])
        scores = np.concatenate(parts)
        best = scores["values"].argmax(axis=1)
        shown = scores["values"][np.arange(len(best)), best if self.positive is None else self.positive]
        place = np.full(block.stop - block.start, -1, np.int64)
        place[scores["row"] - block.start] = np.arange(len(scores))
        where = pl.Series(place, dtype=pl.Int64).set(pl.Series(place < 0), None)
        return [
            pl.Series(list(self.classes)).gather(pl.Series(best, dtype=pl.UInt32)).gather(where),
            pl.Series(shown, dtype=pl.Float64).round_sig_figs(SCORE_DIGITS).gather(where),
        ]


# ---- bursts


@dataclass(frozen=True)
class FilledBursts:
    """What `BurstDetector.fill` did.

    Attributes
    ----------
    n_rows
        The number of rows.
    threshold
        The outlier score above which a row is an outlier.
    fast, slow
        The two decays with their widths fixed.
    time_unit
        The unit of the times; None for numbers.
    """

    n_rows: int
    threshold: float
    fast: Decay
    slow: Decay
    time_unit: str | None


def fill_bursts(detector: Any, table: ScannedEdges, output: Any, **of_run: Any) -> FilledBursts:
    """All steps of `BurstDetector.fill`."""
    from tdlg.models.bursts import burst_widths, check_groups, rare_surprise

    _check_scanned(table)
    check_groups(detector, table.categories)
    kinds = (*KEYS, *(f"category[{name}]" for name in detector.groups))
    if detector.contamination != "auto":
        raise ParameterError(
            "The 'contamination' cannot be chosen for files: the scores of all edges are never in memory.",
            "Leave out contamination=.",
            parameter="contamination",
        )
    with FileRun.opened(table, output, n_threads=detector.n_threads, **of_run) as run:
        run.progress("reading")
        summary = summarise_table(run.engine, table, run.blocks)
        clock = summary.clock
        spread = time_spread(clock.ticks(summary.kept(table)))
        decays = burst_widths(detector.fast, detector.slow, spread, table.n_rows, clock.unit)
        form = RecordForm(table.n_rows, clock, late=False, n_classes=0)
        run.check_disk(len(kinds) * table.n_rows * (form.dtype.itemsize + 8 + form.dtype["row"].itemsize))
        n_bytes = record_memory(form.dtype.itemsize, 1, 0, 1, 1.0)
        buckets = run.checked(run.partition(form, LabelCodes(), kinds, n_bytes), dict.fromkeys(kinds, n_bytes))
        block_rows = run.blocks[0].stop
        values = RowValues(run.folder, table.n_rows, block_rows, len(kinds) * buckets.n_buckets)
        widths = [decay.parts(clock.unit)[0].bandwidth for decay in decays]
        every = [(kind, bucket) for kind in kinds for bucket in range(buckets.n_buckets)]
        tasks = [BurstsTask(buckets, *one, values, k, *widths) for k, one in enumerate(every)]
        map_buckets(run.engine, find_bursts, tasks, run.progress("looking for bursts"))
        threshold = rare_surprise(table.n_rows, len(kinds))
        run.write(_BurstAnswers(values, threshold))
    return FilledBursts(table.n_rows, threshold, *decays, clock.unit)


@dataclass(frozen=True)
class _BurstAnswers:
    """The columns "outlier_score" and "outlier"."""

    values: RowValues
    threshold: float
    names: tuple[str, ...] = ("outlier_score", "outlier")

    def of_block(self, block: Block) -> Self:
        return self

    def columns(self, block: Block) -> list[pl.Series]:
        import polars as pl

        n = block.stop - block.start
        scores = self.values.largest(block.start, n) if n else np.zeros(0)
        return [pl.Series(scores).round_sig_figs(SCORE_DIGITS), pl.Series((scores > self.threshold).astype(np.int64))]
