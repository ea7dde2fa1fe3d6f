"""classify_file: fill in the missing labels of a file with more edges than memory holds."""

from __future__ import annotations

import math
import uuid
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
from sklearn.base import clone

from tdlg.checks import as_generator
from tdlg.engines.buckets import Buckets, map_buckets
from tdlg.engines.columns import BucketPlan, ColumnFiles, ColumnsTask, make_columns, read_columns
from tdlg.engines.executors import run_all
from tdlg.engines.file_run import Callback, FileRun
from tdlg.engines.nodes import nodes_are_shared, usual_gap_of_nodes
from tdlg.engines.output import Output
from tdlg.engines.sizes import OnDisk, Sizes, record_memory
from tdlg.engines.split_file import head_bytes
from tdlg.engines.store import joined, remove_file
from tdlg.engines.summary import summarise
from tdlg.engines.table import Block, InputTable
from tdlg.exceptions import ParameterError
from tdlg.explain.positive import positive_by_counts
from tdlg.models.file_scores import ClassAnswers, ScoreTask, score_range, score_record, write_model
from tdlg.models.file_setup import FileSetup, set_up
from tdlg.models.propagation_classifier import PropagationClassifier
from tdlg.models.training import TrainingRows
from tdlg.propagate.scales import scales_between

__all__ = ["FileAnswer", "classify_file"]

MOST_SCALES = 6  # for estimates, before the time scales are known


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
        The largest size of the temporary files, as computed before the columns were made.
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
    engine: Executor | str | None = None,
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
        The parquet file, or a folder: its files *.parquet, in the order of their names, are one table. They must have the
        same columns.
    output
        The file to write, .parquet or .csv. A path without such an ending, or an address, is a folder to which the workers
        write one parquet file per block, so that nothing goes through this process.
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
        The limit, such as "2GB". By default 60 % of the free memory. On a cluster this is the limit of each worker, by
        default 60 % of what it was started with.
    engine
        What runs the tasks: the address of a Dask scheduler, such as "tcp://host:8786", or any executor of
        `concurrent.futures`. By default threads of this process. On a cluster the trees are fitted in this process, and all
        else is done by the workers.
    folder
        A folder for temporary files, at most 200 bytes per edge, which all workers of the engine see. By default a hidden
        folder beside the output. If a run was killed, the next one with the same parameters goes on from its files and with
        its seed; a function as `classes` cannot be recognised, so such a run starts anew.
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
    target = Output.of(output)
    model = PropagationClassifier() if model is None else model
    _check_model(model)
    model = clone(model).set_params(random_state=_seed_of(model.random_state))
    wanted = {"src": src, "dst": dst, "time": time, "label": label, "label_time": label_time}
    listed = list(features), list(categories)
    reading = {"bipartite": bipartite, "time_format": time_format, "time_unit": time_unit, "label_delay": label_delay}
    table = InputTable.open(path, wanted, listed, **reading)
    of_run = {"engine": engine, "memory": memory, "folder": folder, "callback": callback, "n_threads": model.n_threads}
    with FileRun.opened(table, target, (_identity(model, classes), positive), **of_run) as run:
        if model.random_state is None:
            model.random_state = run.as_before("seed", int(np.random.default_rng().integers(2**31)))
        return _Run(run, model).all(classes, positive)


def _seed_of(random_state: Any) -> int | None:
    """A whole number for any random state, because tasks and a run that goes on need the same one; None stays."""
    if random_state is None:
        return None
    is_seed = isinstance(random_state, int | np.integer)
    return int(random_state if is_seed else as_generator(random_state).integers(2**31))


def _identity(model: PropagationClassifier, classes: Any) -> str:
    """What results depend on; where that cannot be told, no other run has the same."""
    text = f"{sorted(model.get_params().items())} {classes!r}"
    return f"{text} {uuid.uuid4()}" if " at 0x" in text else text


def _check_model(model: Any) -> None:
    if not isinstance(model, PropagationClassifier):
        raise ParameterError(
            f"{type(model).__name__} needs hundreds of products with the line graph, one after the other. For a file in "
            "buckets, on one machine or on a cluster, each product would read and write all edges.",
            "Use `PropagationClassifier()`.",
            "Or take a part of the edges that fits into memory.",
            parameter="model",
        )
    if model.two_ends is True:
        raise ParameterError(
            "The columns about both ends of an edge together need all edges in memory at once, and a file is worked on in "
            "buckets.",
            "Leave out two_ends=.",
            parameter="two_ends",
        )
    if model.estimator is not None:
        raise ParameterError(
            "The 'estimator' cannot be chosen for files: boosted trees learn from a sample.",
            "Leave out estimator=.",
            parameter="estimator",
        )


@dataclass
class _Run:
    """One run of `classify_file`, step by step."""

    run: FileRun
    model: PropagationClassifier
    disk: int = 0
    model_path: str = ""

    def __post_init__(self) -> None:
        run = self.run
        self.table, self.engine, self.sizes, self.folder = run.table, run.engine, run.sizes, run.folder

    def all(self, classes: Any, positive: Any) -> FileAnswer:
        """All steps."""
        blocks = self.run.blocks
        self.run.say("reading")
        summary = summarise(self.engine, self.table, blocks)
        values = list(summary.labels)
        named, chosen = (values, None) if classes is None else classes(values)
        classes_of, positive = dict(zip(values, named, strict=True)), chosen if positive is None else positive
        setup = set_up(self.table, blocks, summary, classes_of, self.model)
        del summary  # its kept rows
        buckets = self._partition(setup)
        plan = self._plan(setup, buckets)
        buckets = self._checked(setup, buckets, plan)
        bounds = self._bounds(setup, plan)
        scores: dict[Block, str] = {}
        for k, some in enumerate(self._rounds(setup, buckets, plan, bounds)):
            files = ColumnFiles(self.folder, tuple(some), with_samples=k == 0)
            self._make_columns(plan, buckets, files)
            if k == 0:
                self._fit(setup, plan, buckets, files, positive)
            scores |= self._score(plan, buckets, files)
        self.run.write(ClassAnswers.of(self.model, scores))
        return FileAnswer(self.model, self.table.n_rows, int(setup.counts.sum()), setup.n_missing, self.disk)

    # ---- steps

    def _partition(self, setup: FileSetup) -> Buckets:
        """Sort all edges into buckets. Those that do not fit, whichever ids are shared, are refused."""
        model, form = self.model, setup.form
        least, most = (
            BucketPlan(setup.features(model, [1.0] * MOST_SCALES, shared=shared).plan_, setup.clock.unit)
            for shared in (False, not self.table.bipartite)
        )
        kinds = most.plan.all_kinds
        per_record = max(self._record_memory(setup, most, self.sizes).values())
        n_buckets, n_ranges = self.sizes.n_buckets(self.table.n_rows, per_record), len(self._bounds(setup, most))
        heads = head_bytes(len(kinds) * len(setup.blocks), n_buckets) + head_bytes(
            len(most.matches) * n_buckets, n_ranges
        )
        self.run.check_disk(self._on_disk(setup, most, len(kinds)).n_bytes + heads)
        buckets = self.run.partition(form, setup.labels, kinds, per_record)
        return self._checked(setup, buckets, least)

    def _checked(self, setup: FileSetup, buckets: Buckets, plan: BucketPlan) -> Buckets:
        """Refuse buckets that do not fit while these columns are made."""
        return self.run.checked(buckets, lambda sizes: self._record_memory(setup, plan, sizes))

    def _record_memory(self, setup: FileSetup, plan: BucketPlan, sizes: Sizes) -> dict[str, float]:
        """Bytes of memory per record of each kind while these columns are made."""
        sampled = self._on_disk(setup, plan, len(plan.plan.all_kinds), sizes).sampled
        share = min((setup.n_missing + sampled) / self.table.n_rows, 1.0)
        n_values = plan.plan.n_edge_values + plan.plan.n_label_values
        found: dict[str, float] = {}
        for match in plan.matches:
            kind, other = plan.plan.kinds(match)
            n_scales = len(plan.plan.scale_names)
            of_match = setup.form.dtype.itemsize, n_values, n_scales, plan.n_columns(match), share
            found[kind] = max(found.get(kind, 0.0), (1 if kind == other else 2) * record_memory(*of_match))
        return found

    def _plan(self, setup: FileSetup, buckets: Buckets) -> BucketPlan:
        """The columns: time scales and matches depend on the nodes."""
        model = self.model
        self.run.say("looking at nodes")
        shared = not self.table.bipartite and nodes_are_shared(self.engine, buckets)
        scales: Any = model.scales
        if isinstance(model.scales, str):
            gap = usual_gap_of_nodes(self.engine, buckets, only_known=model.setting_ != "interpolate")
            scales = scales_between(setup.spread, gap)
        model.features_ = setup.features(model, scales, shared=shared)
        plan = BucketPlan(model.features_.plan_, setup.clock.unit)
        samples = setup.windows.samples(self._on_disk(setup, plan, len(buckets.kinds)).sampled)
        return replace(plan, samples=samples, seed=model.random_state)

    def _bounds(self, setup: FileSetup, plan: BucketPlan) -> list[int]:
        """Rows at which ranges begin: blocks or parts of them, with about as many rows to score as are scored at once."""
        most = self.sizes.scored_rows(sum(map(plan.n_columns, plan.matches)), setup.n_missing)
        bounds, n = [0], 0
        for block, more in zip(setup.blocks, setup.missing.tolist(), strict=True):
            if n and n + more > most:
                bounds.append(block.start)
                n = 0
            parts = max(math.ceil(more / most), 1)
            bounds += [block.start + k * (block.stop - block.start) // parts for k in range(1, parts)]
            n = more / parts if parts > 1 else n + more
        return [*bounds, self.table.n_rows]

    def _on_disk(self, setup: FileSetup, plan: BucketPlan, n_kinds: int, sizes: Sizes | None = None) -> OnDisk:
        """How many rows have columns in files at once, by default with the sizes of this run."""
        form, n_rows, n_columns = setup.form, self.table.n_rows, sum(map(plan.n_columns, plan.matches))
        return OnDisk.of(
            n_rows,
            setup.n_missing,
            int(setup.windows.counts.sum()),
            n_kinds * form.dtype.itemsize * n_rows,
            sum(plan.record(match, form).itemsize for match in plan.matches),
            score_record(len(setup.classes)).itemsize,
            (sizes or self.sizes).training_rows(n_columns),
        )

    def _rounds(self, setup: FileSetup, buckets: Buckets, plan: BucketPlan, bounds: list[int]) -> list[list[int]]:
        """Ranges whose columns are on disk at once."""
        on_disk = self._on_disk(setup, plan, len(buckets.kinds))
        self.disk = on_disk.n_bytes
        rows = np.array([0, *(block.stop for block in setup.blocks)])
        n_before = np.append(0, np.cumsum(setup.missing))
        rounds, n = [[bounds[0]]], 0.0
        for start, stop in pairwise(bounds):
            more = float(np.diff(np.interp([start, stop], rows, n_before))[0])
            if n and n + more > on_disk.scored + 1:  # ranges have rounded numbers of rows
                rounds.append([start])
                n = 0.0
            rounds[-1].append(stop)
            n += more
        return rounds

    def _make_columns(self, plan: BucketPlan, buckets: Buckets, files: ColumnFiles) -> None:
        tasks = [
            ColumnsTask(plan, buckets, files, match, bucket)
            for match in plan.matches
            for bucket in range(buckets.n_buckets)
        ]
        map_buckets(self.engine, make_columns, tasks, self.run.progress("making columns"))

    def _fit(self, setup: FileSetup, plan: BucketPlan, buckets: Buckets, files: ColumnFiles, positive: Any) -> None:
        """Fit the trees on the sample."""
        n_ranges = len(files.bounds) - 1
        parts = [
            read_columns(plan, buckets, files, range(n_ranges + k, n_ranges + k + 1)) for k in range(len(plan.samples))
        ]
        rows = np.concatenate([part[0] for part in parts])
        columns = np.vstack([part[1] for part in parts]) if len(parts) > 1 else parts[0][1]
        codes = [part[0]["label"] for part in parts]
        del parts
        model = self.model
        self.run.say(f"fitting to {len(rows):,} rows")
        model.positive_ = setup.classes.tolist()[positive_by_counts(setup.classes, setup.counts.tolist(), positive)]
        model.labels_ = setup.classes[:0]
        ticks = setup.form.times(rows["tick"])
        model.learn(TrainingRows(columns, setup.classes[rows["label"]], None, ticks), plan.samples, codes)
        self.model_path = write_model(model, self.folder)

    def _score(self, plan: BucketPlan, buckets: Buckets, files: ColumnFiles) -> dict[Block, str]:
        """Score the rows of all ranges, and remove their columns."""
        spans = [Block(*ends) for ends in pairwise(files.bounds)]
        paths = [joined(self.folder, f"scores-{plan.seed}-{span.start}") for span in spans]
        tasks = [ScoreTask(self.model_path, plan, buckets, files, k, path) for k, path in enumerate(paths)]
        run_all(self.engine, score_range, tasks, self.run.progress("scoring"))
        for match in plan.matches:
            for bucket in range(buckets.n_buckets):
                remove_file(files.path(plan, match, bucket))
        return dict(zip(spans, paths, strict=True))
