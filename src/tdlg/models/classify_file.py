"""classify_file: fill in the missing labels of a file with more edges than memory holds."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tdlg import __version__
from tdlg.checks import as_seed
from tdlg.engines.buckets import Buckets, PartitionTask, bucket_sizes, kinds_of, partition
from tdlg.engines.columns import ColumnFiles, ColumnPlan, ColumnsTask, make_columns, read_columns
from tdlg.engines.local import Engine, Local
from tdlg.engines.nodes import nodes_are_shared, usual_gap_of_nodes
from tdlg.engines.sizes import MOST_DISK, MOST_ROWS, SMALL, Sizes, as_bytes, in_bytes, record_memory
from tdlg.engines.statistics import look
from tdlg.engines.store import free_on_disk, is_remote, joined, make_folder, remove_file, remove_folder
from tdlg.engines.table import Block, InputTable
from tdlg.exceptions import Hint, ParameterError, TooLargeError
from tdlg.explain.positive import positive_by_counts
from tdlg.memory import free_bytes
from tdlg.models.boosting import TrainingRows
from tdlg.models.file_scores import ScoreTask, check_output, score_range, write_scores
from tdlg.models.file_setup import FileSetup, set_up
from tdlg.models.propagation_classifier import PropagationClassifier
from tdlg.propagate.scales import scales_between

__all__ = ["FileAnswer", "classify_file"]

Callback = Callable[[int, int, str], object]

LEAST_ROWS = 1_000  # rows to learn from, whatever the disk
FREE_SHARE = 0.6  # of the free memory that is used by default
MOST_SCALES = 6  # for estimates, before the time scales are known
SPARE_DISK = 1.1


@dataclass
class FileAnswer:
    """What `classify_file` found.

    Attributes
    ----------
    model
        The fitted classifier. It holds no edges: it scores the file that it was fitted on, and nothing else.
    n_rows, n_known, n_scored
        The numbers of rows, of known labels, and of rows that were scored.
    disk_bytes
        The largest size of the temporary files.
    """

    model: PropagationClassifier
    n_rows: int
    n_known: int
    n_scored: int
    disk_bytes: int


def classify_file(
    path: Any,
    output: Any,
    *,
    label: str | int,
    src: str | int | None = None,
    dst: str | int | None = None,
    time: str | int | None = None,
    label_time: str | int | None = None,
    label_delay: Any = None,
    features: Sequence[str | int] = (),
    categories: Sequence[str | int] = (),
    bipartite: bool = False,
    time_format: str | None = None,
    time_unit: str | None = None,
    model: PropagationClassifier | None = None,
    classes: Callable[[list[Any]], tuple[list[Any], Any]] | None = None,
    positive: Any = None,
    memory: Any = None,
    engine: Engine | None = None,
    folder: Any = None,
    callback: Callback | None = None,
) -> FileAnswer:
    """Fill in the missing labels of a parquet file, within a limit of memory.

    The result is the table with the columns "predicted" and "probability" added, as of `tdlg classify`. The columns of
    `PropagationClassifier` are computed by way of temporary files, in buckets by node and pair, except those about both ends
    together, which need arbitrary access. Trees learn from a sample of at most a million rows, which keeps those of rare
    classes; probabilities are corrected for it.

    Parameters
    ----------
    path
        The parquet file.
    output
        The file to write, .parquet or .csv.
    label
        The column of labels, by name or position; missing ones are predicted.
    src, dst, time, label_time, label_delay, features, categories, bipartite, time_format, time_unit
        The same as for `read_edges`.
    model
        A classifier that is not fitted, for its parameters. By default `PropagationClassifier()`.
    classes
        A function from the list of values in the label column to the list of their classes, None for a missing label, and
        the positive class or None. By default each value is a class.
    positive
        The positive class; by default chosen as everywhere.
    memory
        The limit, such as "2GB". By default 60 % of the free memory.
    engine
        What runs the tasks. By default threads of this process.
    folder
        A folder for temporary files, at most 200 bytes per edge, which all workers of the engine see. By default a hidden
        folder beside the output. If a run was killed, the next one with the same parameters goes on from its files.
    callback
        Called with the number of finished tasks, the number of all, and what is done. What it raises stops the work.

    Returns
    -------
    FileAnswer
        The fitted model, and some numbers.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from tdlg import classify_file, write_payments
    >>> home = pathlib.Path(tempfile.mkdtemp())
    >>> write_payments(home / "payments.parquet", 2000, random_state=0)
    >>> answer = classify_file(home / "payments.parquet", home / "filled.parquet", label="fraud", memory="2GB")
    >>> answer.n_scored, answer.model.setting_
    (200, 'forecast')
    """
    target = check_output(output)
    model = PropagationClassifier() if model is None else model
    _check_model(model)
    limit = int(FREE_SHARE * free_bytes()) if memory is None else as_bytes(memory)
    engine = Local(model.n_threads) if engine is None else engine
    wanted = {"src": src, "dst": dst, "time": time, "label": label, "label_time": label_time}
    listed = list(features), list(categories)
    reading = {"bipartite": bipartite, "time_format": time_format, "time_unit": time_unit, "label_delay": label_delay}
    table = InputTable.open(path, wanted, listed, **reading)
    place = str(target.with_name(f".{target.name}.tdlg-work")) if folder is None else str(folder)
    sizes = Sizes(limit, getattr(engine, "n_threads", 1))
    run = _Run(table, model, engine, sizes, place, callback or (lambda done, total, text: None))
    with run.in_folder():
        return run.all(classes, positive, target)


def _check_model(model: PropagationClassifier) -> None:
    if model.two_ends is True:
        raise ParameterError(
            "The columns about both ends of an edge together need all edges in memory at once, and a file is worked on in "
            "buckets.",
            Hint("Leave out {two_ends}.", two_ends=...),
            parameter="two_ends",
            value=True,
        )
    if model.estimator is not None:
        raise ParameterError(
            "The 'estimator' cannot be chosen for files: boosted trees learn from a sample.",
            Hint("Leave out {estimator}.", estimator=...),
            parameter="estimator",
            value=model.estimator,
        )


@dataclass
class _Run:
    """One run of `classify_file`, step by step."""

    table: InputTable
    model: PropagationClassifier
    engine: Engine
    sizes: Sizes
    folder: str
    callback: Callback
    disk: int = field(default=0)

    def in_folder(self) -> Any:
        return _Folder(self.folder, self._fingerprint())

    def _fingerprint(self) -> str:
        """What temporary files depend on: files of another run are not used."""
        facts: list[Any] = [__version__, repr(self.table), repr(self.model), repr(self.sizes)]
        if not is_remote(self.table.path):
            stat = Path(self.table.path).stat()
            facts += [stat.st_size, stat.st_mtime_ns]
        return hashlib.sha256(json.dumps(facts).encode()).hexdigest()

    def all(self, classes: Any, positive: Any, target: Path) -> FileAnswer:
        """All steps."""
        blocks = self.table.blocks(self.sizes.block)
        self._say("reading")
        seen = look(self.engine, self.table, blocks)
        values = list(seen.labels)
        named, chosen = (values, None) if classes is None else classes(values)
        classes_of, positive = dict(zip(values, named, strict=True)), chosen if positive is None else positive
        setup = set_up(self.engine, self.table, blocks, seen, classes_of, self.model)
        buckets = self._partition(setup)
        plan = self._plan(setup, buckets)
        bounds = self._bounds(setup, plan)
        scores: dict[Block, str] = {}
        for k, some in enumerate(self._rounds(setup, buckets, plan, bounds)):
            files = ColumnFiles(self.folder, tuple(some), with_samples=k == 0)
            self._make_columns(plan, buckets, files)
            if k == 0:
                self._fit(setup, plan, buckets, files, positive)
            scores |= self._score(plan, buckets, files)
        self._say("writing")
        write_scores(self.table, blocks, scores, self.model, target, self._progress("writing"))
        return FileAnswer(self.model, self.table.n_rows, int(setup.counts.sum()), setup.n_missing, self.disk)

    # ---- steps

    def _partition(self, setup: FileSetup) -> Buckets:
        """Sort all edges into buckets."""
        model, form = self.model, setup.form
        first = setup.features(model, [1.0] * MOST_SCALES, shared=not self.table.bipartite)
        plan = ColumnPlan.of(first, ())
        share = min((setup.n_missing + MOST_ROWS) / self.table.n_rows, 1.0)
        per_record = max(self._record_memory(plan, form.dtype.itemsize, share, match) for match in plan.matches)
        kinds = kinds_of(plan.matches)
        n_buckets = self.sizes.n_buckets(self.table.n_rows, per_record)
        self._check_disk(len(kinds) * form.dtype.itemsize * self.table.n_rows)
        buckets = Buckets(self.folder, form, kinds, n_buckets, len(setup.blocks))
        tasks = [PartitionTask(self.table, block, k, setup.labels, buckets) for k, block in enumerate(setup.blocks)]
        self.engine.map(partition, tasks, self._progress("sorting into buckets"))
        for kind in kinds:
            largest = int(bucket_sizes(buckets, kind).max())
            if largest * per_record > self.sizes.per_task * self.sizes.n_threads:
                raise self._too_large(kind, largest, largest * per_record)
        return buckets

    def _record_memory(self, plan: ColumnPlan, n_bytes: int, share: float, match: str) -> float:
        n_values = 1 + sum(column.n_sums for column in plan.own) + (1 + plan.n_targets)
        two = 2 if match in ("src-dst", "dst-src") else 1  # these read the records of both ends
        return two * record_memory(n_bytes, n_values, MOST_SCALES, plan.n_columns(match), share)

    def _too_large(self, kind: str, n: int, n_bytes: float) -> TooLargeError:
        return TooLargeError(
            f"A bucket by {kind} has {n:,} edges, which need {in_bytes(n_bytes)} of memory at once: probably one {kind} has "
            f"most of them. The limit is {in_bytes(self.sizes.memory)}.",
            Hint("Pass a larger {memory}.", memory=...),
            parameter="memory",
            value=self.sizes.memory,
        )

    def _plan(self, setup: FileSetup, buckets: Buckets) -> ColumnPlan:
        """The columns: time scales and matches depend on the nodes."""
        model = self.model
        self._say("looking at nodes")
        shared = not self.table.bipartite and nodes_are_shared(self.engine, buckets)
        scales: Any = model.scales
        if isinstance(model.scales, str):
            gap = usual_gap_of_nodes(self.engine, buckets, only_known=setup.past_only and setup.deviation > 0)
            scales = scales_between(setup.deviation, gap)
        features = setup.features(model, scales, shared=shared)
        plan = ColumnPlan.of(features, ())
        most = self.sizes.training_rows(sum(map(plan.n_columns, plan.matches)), MOST_ROWS)
        on_disk = (self._most_disk() - self._kept(setup, buckets)) / 2 / self._row_bytes(setup, plan)
        samples = setup.samples(max(min(most, int(on_disk)), LEAST_ROWS))
        model.features_, model.classes_ = features, setup.classes
        model.setting_, model.setting_reason_ = setup.setting, setup.reason
        seed = as_seed(model.random_state)
        return ColumnPlan.of(features, samples, 0 if seed is None else int(seed))

    def _bounds(self, setup: FileSetup, plan: ColumnPlan) -> list[int]:
        """Rows at which ranges begin: blocks or parts of them, with about as many rows to score as are scored at once."""
        most = self.sizes.scored_rows(sum(map(plan.n_columns, plan.matches)))
        bounds, n = [0], 0
        for block, more in zip(setup.blocks, self._missing_by_block(setup).tolist(), strict=True):
            if n and n + more > most:
                bounds.append(block.start)
                n = 0
            parts = max(math.ceil(more / most), 1)
            bounds += [block.start + k * (block.stop - block.start) // parts for k in range(1, parts)]
            n = more / parts if parts > 1 else n + more
        return [*bounds, self.table.n_rows]

    def _missing_by_block(self, setup: FileSetup) -> NDArray[np.int64]:
        """The number of rows to score in each block; where some labels mean a missing one, an upper bound."""
        if sum(setup.look.missing) == setup.n_missing:
            return np.array(setup.look.missing)
        return np.array([block.stop - block.start for block in setup.blocks])

    def _kept(self, setup: FileSetup, buckets: Buckets) -> int:
        """Bytes of the bucket files."""
        return len(buckets.kinds) * setup.form.dtype.itemsize * self.table.n_rows

    def _row_bytes(self, setup: FileSetup, plan: ColumnPlan) -> int:
        """Bytes of the columns of a row in files."""
        return sum(plan.record(match, setup.form).itemsize for match in plan.matches)

    def _most_disk(self) -> int:
        """Bytes of temporary files, at most; small files may have more per edge."""
        return MOST_DISK * max(self.table.n_rows, SMALL)

    def _rounds(self, setup: FileSetup, buckets: Buckets, plan: ColumnPlan, bounds: list[int]) -> list[list[int]]:
        """Ranges whose columns are on disk at once."""
        kept, per_row = self._kept(setup, buckets), self._row_bytes(setup, plan)
        n_sampled = sum(float(np.dot(s.shares, n)) for s, n in zip(plan.samples, setup.window_counts, strict=True))
        most = max((self._most_disk() - kept) / per_row - n_sampled, 1.0)
        rows = np.array([0, *(block.stop for block in setup.blocks)])
        n_before = np.append(0, np.cumsum(self._missing_by_block(setup)))
        rounds, n, largest = [[bounds[0]]], 0.0, 0.0
        for start, stop in pairwise(bounds):
            more = float(np.diff(np.interp([start, stop], rows, n_before))[0])
            if n and n + more > most:
                rounds.append([start])
                n = 0.0
            rounds[-1].append(stop)
            n += more
            largest = max(largest, n)
        self.disk = int(kept + (n_sampled + largest) * per_row)
        self._check_disk(self.disk - kept)
        return rounds

    def _make_columns(self, plan: ColumnPlan, buckets: Buckets, files: ColumnFiles) -> None:
        tasks = [
            ColumnsTask(plan, buckets, files, match, bucket)
            for match in plan.matches
            for bucket in range(buckets.n_buckets)
        ]
        self.engine.map(make_columns, tasks, self._progress("making columns"))

    def _fit(self, setup: FileSetup, plan: ColumnPlan, buckets: Buckets, files: ColumnFiles, positive: Any) -> None:
        """Fit the trees on the sample."""
        n_ranges = len(files.bounds) - 1
        parts = [
            read_columns(plan, buckets, files, range(n_ranges + k, n_ranges + k + 1)) for k in range(len(plan.samples))
        ]
        rows = np.concatenate([part[0] for part in parts])
        columns = np.vstack([part[1] for part in parts]) if len(parts) > 1 else parts[0][1]
        del parts
        model = self.model
        self._say(f"fitting to {len(rows):,} rows")
        n_all, n_sampled = setup.window_counts.sum(axis=0), np.bincount(rows["label"], minlength=len(setup.classes))
        model.n_rows_, model.n_rows_sampled_from_ = len(rows), int(n_all.sum())
        model.log_shares_ = np.log(n_all / n_sampled)
        model.positive_ = setup.classes.tolist()[positive_by_counts(setup.classes, setup.counts.tolist(), positive)]
        model.labels_ = setup.classes[:0]
        ticks = setup.form.times(rows["tick"])
        model.estimators_ = model.fitted_members(TrainingRows(columns, setup.classes[rows["label"]], None, ticks))

    def _score(self, plan: ColumnPlan, buckets: Buckets, files: ColumnFiles) -> dict[Block, str]:
        """Score the rows of all ranges, and remove their columns."""
        spans = [Block(*ends) for ends in pairwise(files.bounds)]
        paths = [joined(self.folder, f"scores-{span.start}") for span in spans]
        tasks = [ScoreTask(self.model, plan, buckets, files, k, path) for k, path in enumerate(paths)]
        self.engine.map(score_range, tasks, self._progress("scoring"))
        for match in plan.matches:
            for bucket in range(buckets.n_buckets):
                remove_file(files.path(plan, match, bucket))
        return dict(zip(spans, paths, strict=True))

    # ---- around it

    def _check_disk(self, n_bytes: float) -> None:
        """Refuse work whose temporary files do not fit on the disk."""
        free = free_on_disk(self.folder)
        if free is not None and free < SPARE_DISK * n_bytes:
            raise TooLargeError(
                f"{self.folder}: the temporary files need {in_bytes(SPARE_DISK * n_bytes)}, and the disk has "
                f"{in_bytes(free)} free.",
                Hint("Make room, or pass another {folder}.", folder=...),
                parameter="folder",
                value=self.folder,
            )

    def _say(self, text: str) -> None:
        self.callback(0, 1, text)

    def _progress(self, text: str) -> Callable[[int, int], object]:
        return lambda done, total: self.callback(done, total, text)


class _Folder:
    """The folder of temporary files: those of the same run that was killed are used again, and none are left at the end."""

    def __init__(self, path: str, fingerprint: str) -> None:
        self._path, self._fingerprint = path, fingerprint
        self._lock: Any = None

    def __enter__(self) -> None:
        make_folder(self._path)
        if is_remote(self._path):
            return
        note = Path(self._path) / "run"
        self._lock = note.open("a+")
        _lock(self._lock, self._path)
        self._lock.seek(0)
        if self._lock.read() != self._fingerprint:
            for file in note.parent.iterdir():
                if file != note:
                    remove_file(str(file))
            self._lock.truncate(0)
            self._lock.write(self._fingerprint)
            self._lock.flush()

    def __exit__(self, *error: object) -> None:
        remove_folder(self._path)
        if self._lock is not None:
            self._lock.close()


def _lock(file: Any, folder: str) -> None:
    """Refuse a folder that another process works in; systems without such locks are trusted."""
    try:
        import fcntl
    except ImportError:
        return
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.close()
        raise ParameterError(
            f"{folder}: another process works in this folder. Wait until it is done.",
            Hint("Or pass another {folder}.", folder=...),
            parameter="folder",
            value=folder,
        ) from None
