"""evaluate: a method on a task, trial by trial, as rows of results that are kept as they come."""

from __future__ import annotations

import csv
import ctypes
import gc
import hashlib
import io
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.metrics import average_precision_score, roc_auc_score

from tdlg import __version__
from tdlg.atomic import new_file
from tdlg.checks import check_count, set_missing_seed
from tdlg.edges import TemporalEdges
from tdlg.exceptions import EdgesError, Hint, ParameterError, ReadError
from tdlg.explain.positive import positive_class
from tdlg.judge.tasks import Task, Trial
from tdlg.methods.base import Method
from tdlg.methods.ours import make_method

if TYPE_CHECKING:
    import polars as pl

__all__ = ["Result", "class_metrics", "evaluate", "precision_recall_at", "read_results", "summarise"]

Key: TypeAlias = tuple[str, str, str, str, int]
Scores: TypeAlias = NDArray[np.float64]

ALERTS = 100  # edges that a person can check
BLOCKS = 6  # number of refits of a method that cannot add labels one by one


@dataclass(frozen=True)
class Result:
    """One trial in one setting.

    Attributes
    ----------
    dataset, task, method, settings
        What was done: `settings` are the parameters of the method that differ from their defaults.
    seed
        The seed of the trial.
    auc, average_precision
        Area under the ROC curve and average precision on the edges to score. With more than two classes, the mean over the
        classes, each against the rest.
    embed_seconds, fit_seconds, predict_seconds
        Wall-clock time of the three steps, in seconds. Settings that share a fit, as in link prediction, have the same
        embed_seconds and fit_seconds.
    alert_precision, alert_recall
        Precision and recall of the 100 edges with the highest scores for the positive class: if fraud is rare, these are
        the alerts that a person can check. The positive class is set by `evaluate(positive=...)`; by default it follows
        the rule of `tdlg.explain.positive.positive_class`.
    peak_bytes
        Growth of the process's memory during the trial, in bytes; NaN where the system does not report it.
    n_train, n_test
        Number of training edges and of edges to score.
    version
        The version of tdlg that measured the row.
    fingerprint
        A digest of the edges, their labels, and the split into training edges and edges to score: equal for equal trials.
        Empty in rows of files from before this column existed.
    """

    dataset: str
    task: str
    method: str
    settings: str
    seed: int
    auc: float
    average_precision: float
    alert_precision: float
    alert_recall: float
    embed_seconds: float
    fit_seconds: float
    predict_seconds: float
    peak_bytes: float
    n_train: int
    n_test: int
    version: str
    fingerprint: str = ""

    @property
    def key(self) -> Key:
        """The values that identify a row of a file."""
        return self.dataset, self.task, self.method, self.settings, self.seed


COLUMNS = {field.name: {"str": str, "int": int, "float": float}[str(field.type)] for field in fields(Result)}
OLD_COLUMNS = [name for name in COLUMNS if name != "fingerprint"]  # of files from before there was one


def evaluate(
    method: Method | str,
    task: Task,
    trials: int = 10,
    random_state: int = 0,
    *,
    positive: Any = None,
    dataset: str = "",
    path: str | os.PathLike[str] | None = None,
    any_version: bool = False,
    callback: Callable[[int, int], bool | None] | None = None,
) -> pl.DataFrame:
    """Evaluate a method on the trials of a task.

    Parameters
    ----------
    method
        A method, or its name in `tdlg.methods.ours.METHODS`.
    task
        The task, such as `EdgeClassification(edges)` or `LinkPrediction(edges)`.
    trials
        The number of trials, 10 by default. A task without randomness has one trial.
    random_state
        Seed of the first trial, 0 by default; each further trial uses the next number.
    positive
        The class that the alerts of `Result` are about. By default the positive class, see
        `tdlg.explain.positive.positive_class`: of two numbers the larger one, else the rarest class.
    dataset
        A name for the edges, kept in the rows.
    path
        A csv file to which rows are appended after each trial. Trials that the file already holds are not run again, so an
        interrupted run can be continued. By default no file is written.
    any_version
        Whether to accept rows of the file that another version of this package measured, or that have no fingerprint. By
        default such a row for the same trial is an error.
    callback
        A function that is called with (done, total) after each trial; evaluation stops when it returns True.

    Returns
    -------
    polars.DataFrame
        One row per trial and setting; see `Result` for the columns, and `summarise` for means.

    Raises
    ------
    ParameterError
        If the file has a row with the same names that was measured on other edges or labels, or by another version.

    Examples
    --------
    >>> from tdlg import TemporalEdges
    >>> from tdlg.judge.tasks import EdgeClassification
    >>> edges = TemporalEdges(["a", "b", "c"] * 40, ["x", "y", "z", "x"] * 30, range(120), label=[0, 1, 1, 0] * 30)
    >>> rows = evaluate("label-rates", EdgeClassification(edges), trials=2)
    >>> rows["seed", "auc"].to_dicts()
    [{'seed': 0, 'auc': 1.0}, {'seed': 1, 'auc': 1.0}]
    """
    import polars as pl

    method = make_method(method) if isinstance(method, str) else method
    check_count("evaluate", "trials", trials, 1)
    check_count("evaluate", "random_state", random_state, 0)
    trials = trials if getattr(task, "is_random", True) else 1
    known = {} if path is None else {result.key: result for result in _read(Path(path))}
    rows: list[Result] = []
    for done in range(trials):
        seed = random_state + done
        trial = task.draw(seed)
        fingerprint = _fingerprint(trial, positive)
        keys = [(dataset, name, method.name, method.settings, seed) for name in _settings(task, trial)]
        for key in known.keys() & keys:
            _check_same(path, known[key], trial, _settings(task, trial), fingerprint, any_version)
        if all(key in known for key in keys):
            rows += [known[key] for key in keys]
        else:
            results = _run(method, task, trial, dataset, seed, fingerprint, positive)
            if path is not None:
                _append(Path(path), [result for result in results if result.key not in known])
            rows += results
        if callback is not None and callback(done + 1, trials):
            break
    return pl.DataFrame([asdict(row) for row in rows], schema={name: _dtype(kind) for name, kind in COLUMNS.items()})


def read_results(path: str | os.PathLike[str]) -> pl.DataFrame:
    """Read the rows that `evaluate` appended to a file.

    Parameters
    ----------
    path
        The csv file. An incomplete last line is ignored.

    Returns
    -------
    polars.DataFrame
        See `Result` for the columns.
    """
    import polars as pl

    if not Path(path).exists():
        raise ReadError(
            f"There is no file {str(path)!r}.",
            Hint("Give the path that {code} wrote to.", code="evaluate(..., path=...)"),
        )
    rows = [asdict(result) for result in _read(Path(path))]
    return pl.DataFrame(rows, schema={name: _dtype(kind) for name, kind in COLUMNS.items()})


def summarise(
    rows: pl.DataFrame, by: Sequence[str] = ("dataset", "task", "method", "settings"), metric: str = "auc"
) -> pl.DataFrame:
    """Compute means over trials, with the half width of their 95 % confidence interval (Student's t).

    Parameters
    ----------
    rows
        Rows as returned by `evaluate` or `read_results`.
    by
        The columns to group by.
    metric
        The column to average; "auc" by default.

    Returns
    -------
    polars.DataFrame
        The groups in order of appearance, with `mean`, `half_width` (NaN for a single trial), `trials`, and the mean
        `seconds` of all three steps.

    Examples
    --------
    >>> import polars as pl
    >>> rows = pl.DataFrame({"dataset": ["a"] * 3, "auc": [0.5, 0.75, 1.0],
    ...     "embed_seconds": 1.0, "fit_seconds": 2.0, "predict_seconds": 0.5})
    >>> summarise(rows, by=["dataset"]).to_dicts()
    [{'dataset': 'a', 'mean': 0.75, 'half_width': 0.62103442793758..., 'trials': 3, 'seconds': 3.5}]
    """
    import polars as pl
    from scipy.stats import t

    seconds = pl.col("embed_seconds") + pl.col("fit_seconds") + pl.col("predict_seconds")
    table = rows.group_by(list(by), maintain_order=True).agg(
        pl.col(metric).mean().alias("mean"),
        (pl.col(metric).std() / pl.len().sqrt()).fill_null(float("nan")).alias("half_width"),
        pl.len().cast(pl.Int64).alias("trials"),
        seconds.mean().alias("seconds"),
    )
    quantile = t.ppf(0.975, np.maximum(table["trials"].to_numpy() - 1, 1))
    return table.with_columns(pl.col("half_width") * quantile)


# ---- one trial


def _run(
    method: Method, task: Task, trial: Trial, dataset: str, seed: int, fingerprint: str, positive: Any
) -> list[Result]:
    """The three steps, timed; one result per setting."""
    fresh = clone(method)
    set_missing_seed(fresh, seed)
    memory = _Memory()
    results = []
    fitted = None if trial.reveals else _Fitted(fresh, trial)
    for name, test in _settings(task, trial).items():
        scores, seconds = _in_time(fresh, trial, test) if fitted is None else fitted.score(trial.edges[test])
        metrics = class_metrics(trial.y, trial.train, test, scores, positive)
        results.append(
            Result(
                dataset,
                name,
                method.name,
                method.settings,
                seed,
                *metrics,
                *seconds,
                memory.growth(),
                len(trial.train),
                len(test),
                __version__,
                fingerprint,
            )
        )
    return results


class _Fitted:
    """A method that has seen the edges of a trial, with the seconds that it took."""

    def __init__(self, method: Method, trial: Trial) -> None:
        self.method, seen = method, trial.seen()
        _, self.embed_seconds = _timed(lambda: method.embed(seen))
        _, self.fit_seconds = _timed(lambda: method.fit(seen))

    def score(self, edges: TemporalEdges) -> tuple[Scores, tuple[float, float, float]]:
        """Scores, and the seconds of the three steps."""
        scores, predict_seconds = _timed(lambda: self.method.score(edges))
        return scores, (self.embed_seconds, self.fit_seconds, predict_seconds)


def _in_time(method: Method, trial: Trial, test: NDArray[np.int64]) -> tuple[Scores, tuple[float, float, float]]:
    """Scores where labels become known as time goes on: taken in by the method itself, or by fitting it anew for blocks."""
    streaming = method.streaming()
    if streaming is not None:
        return _Fitted(streaming, trial).score(trial.labelled(test)[test])
    parts, seconds = [], np.zeros(3)
    for block in trial.blocks(test, BLOCKS):
        asked = block.tests[""]
        scores, took = _Fitted(clone(method), block).score(trial.edges[asked])
        parts.append((asked, scores))
        seconds += took
    place = np.empty(len(trial.edges), np.int64)
    place[test] = np.arange(len(test))
    whole = np.empty((len(test), *parts[0][1].shape[1:]))
    for asked, scores in parts:
        if scores.shape[1:] != whole.shape[1:]:
            raise EdgesError(
                "A class of labels first appears after the cut, so the scores of the blocks do not compare. Join rare "
                "classes, or use a later cut.",
                Hint("Pass a larger {train_share} for that.", train_share=...),
            )
        whole[place[asked]] = scores
    embed_seconds, fit_seconds, predict_seconds = seconds.tolist()
    return whole, (embed_seconds, fit_seconds, predict_seconds)


def _check_same(
    path: Any, row: Result, trial: Trial, tests: dict[str, NDArray[np.int64]], fingerprint: str, any_version: bool
) -> None:
    """Refuse a row of another experiment that goes by the same names."""
    what = f"The file {str(path)!r} has a row for {row.dataset!r}, {row.task}, {row.method}, seed {row.seed} that"
    if (row.n_train, row.n_test) != (len(trial.train), len(tests[row.task])):
        raise ParameterError(
            f"{what} learnt from {row.n_train:,} edges and scored {row.n_test:,}, not {len(trial.train):,} and "
            f"{len(tests[row.task]):,} as here.",
            Hint("Give these edges another {dataset} name, or pass another {path}.", dataset=..., path=...),
        )
    if row.fingerprint not in ("", fingerprint):
        raise ParameterError(
            f"{what} was measured on other edges, labels or splits, or for another positive class.",
            Hint("Give these edges another {dataset} name, or pass another {path}.", dataset=..., path=...),
        )
    if not any_version and (row.version != __version__ or not row.fingerprint):
        was = (
            f"tdlg {row.version} measured"
            if row.version != __version__
            else "does not say which edges it was measured on"
        )
        now = f"; this is tdlg {__version__}" if row.version != __version__ else ""
        raise ParameterError(
            f"{what} {was}{now}. Give another path.",
            Hint("Or pass {any_version} to accept rows of other versions.", any_version=True),
        )


def _fingerprint(trial: Trial, positive: Any) -> str:
    """A digest of all that a trial is made of, and of the positive class where it is given."""
    edges, digest = trial.edges, hashlib.sha256()
    if positive is not None:
        digest.update(repr(positive).encode("utf-8", "surrogatepass"))
    kinds = edges.time_unit, edges.bipartite, edges.feature_names, edges.feature_categories
    digest.update(repr((kinds, trial.reveals, list(trial.tests))).encode("utf-8", "surrogatepass"))
    columns = (edges.src, edges.dst, edges.ticks, edges.weight, edges.features, trial.y, trial.columns, trial.train)
    for column in (*columns, *trial.tests.values()):
        if column is None or column.dtype == object:
            digest.update(repr(None if column is None else column.tolist()).encode("utf-8", "surrogatepass"))
        else:
            digest.update(f"{column.dtype}{column.shape}".encode() + np.ascontiguousarray(column).tobytes())
    return digest.hexdigest()[:16]


def _settings(task: Task, trial: Trial) -> dict[str, NDArray[np.int64]]:
    """What is asked for, by the name of the task and of the setting where it has several; none without edges."""
    if list(trial.tests) == [task.name]:
        return dict(trial.tests)
    return {f"{task.name}, {name}": test for name, test in trial.tests.items() if len(test)}


def _timed(work: Callable[[], Any]) -> tuple[Any, float]:
    start = perf_counter()
    value = work()
    return value, perf_counter() - start


def class_metrics(
    labels: NDArray[Any], train: NDArray[np.int64], test: NDArray[np.int64], scores: Scores, positive: Any = None
) -> tuple[float, float, float, float]:
    """Area under the curve and average precision, means over classes; precision and recall of alerts.

    Parameters
    ----------
    labels
        The labels of all edges, by which the positive class is chosen: so it is the same in every trial.
    train
        Positions of the edges learnt from. Their labels are the classes.
    test
        Positions of the edges to score.
    scores
        One score per edge of `test`, high for the second of two classes; or one column per class.
    positive
        The class that alerts are about; by default that of `tdlg.explain.positive.positive_class`.
    """
    y, classes = labels[test], np.unique(labels[train])
    by_class = np.column_stack([-scores, scores]) if scores.ndim == 1 else scores
    place = positive_class(classes, labels, positive)
    alerts = precision_recall_at(y == classes[place], by_class[:, place], ALERTS)
    first = 1 if scores.ndim == 1 else 0
    pairs = [(y == label, column) for label, column in zip(classes[first:], by_class.T[first:], strict=True)]
    pairs = [(is_it, column) for is_it, column in pairs if 0 < is_it.sum() < len(is_it)]
    if not pairs:
        return float("nan"), float("nan"), *alerts
    auc, average_precision = (np.mean([of(*pair) for pair in pairs]) for of in (roc_auc_score, average_precision_score))
    return float(auc), float(average_precision), *alerts


def precision_recall_at(is_positive: NDArray[np.bool_], scores: Scores, k: int) -> tuple[float, float]:
    """Precision and recall of the k highest scores; equal scores at the border count proportionally.

    Parameters
    ----------
    is_positive
        Which edges are of the positive class.
    scores
        One score per edge, high for the positive class.
    k
        The number of edges with the highest scores to count; all edges if there are fewer.

    Examples
    --------
    >>> precision_recall_at(np.array([True, False, True, False]), np.array([0.9, 0.8, 0.7, 0.1]), 2)
    (0.5, 0.5)
    """
    k, total = min(k, len(scores)), int(is_positive.sum())
    if not k or not total:
        return float("nan"), float("nan")
    border = np.partition(scores, len(scores) - k)[len(scores) - k]
    above, level = scores > border, scores == border
    found = is_positive[above].sum() + (k - above.sum()) * is_positive[level].mean()
    return float(found / k), float(found / total)


class _Memory:
    """How far the process's memory grows from here on; only Linux tells the peak of a stretch of time."""

    def __init__(self) -> None:
        try:
            _give_back_free_memory()
            Path("/proc/self/clear_refs").write_text("5")  # the peak starts anew
            self._start = self._status("VmRSS")
        except OSError:
            self._start = float("nan")

    def growth(self) -> float:
        """The peak since, in bytes over the start."""
        return float("nan") if np.isnan(self._start) else max(self._status("VmHWM") - self._start, 0.0)

    def _status(self, name: str) -> float:
        lines = Path("/proc/self/status").read_text().splitlines()
        return float(next(line.split()[1] for line in lines if line.startswith(name))) * 1024


def _give_back_free_memory() -> None:
    """Let go of what earlier trials left, which would hide what this one needs."""
    gc.collect()
    with suppress(AttributeError, OSError):  # of another C library than GNU's
        ctypes.CDLL("libc.so.6").malloc_trim(0)


# ---- files


def _read(path: Path) -> list[Result]:
    """The rows of a file; none where there is no file yet."""
    if not path.exists():
        return []
    whole = path.read_text(encoding="utf-8")
    lines = csv.DictReader(io.StringIO(whole[: whole.rfind("\n") + 1]))
    if lines.fieldnames is not None and list(lines.fieldnames) not in (list(COLUMNS), OLD_COLUMNS):
        raise ReadError(
            f"The file {str(path)!r} does not hold results: its columns are {lines.fieldnames}. "
            f"Expected {list(COLUMNS)}. Give another path, or move that file away."
        )
    try:
        return [Result(**{name: COLUMNS[name](value) for name, value in line.items()}) for line in lines]
    except (TypeError, ValueError):
        raise ReadError(
            f"Line {lines.line_num} of {str(path)!r} does not hold a result. Correct or remove it."
        ) from None


def _append(path: Path, results: Sequence[Result]) -> None:
    """Add rows in one write, after removing a last line that was left unfinished; give an old file the new columns."""
    path.parent.mkdir(parents=True, exist_ok=True)
    whole = path.read_bytes() if path.exists() else b""
    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS, lineterminator="\n")
    is_old = whole.partition(b"\n")[0].rstrip() == ",".join(OLD_COLUMNS).encode()
    if is_old or b"\n" not in whole:
        writer.writeheader()
    writer.writerows(_rounded(asdict(result)) for result in [*(_read(path) if is_old else []), *results])
    if is_old:
        with new_file(path) as file:
            file.write(text.getvalue().encode())
        return
    with path.open("a+b") as file:
        file.truncate(whole.rfind(b"\n") + 1)
        file.write(text.getvalue().encode())


def _rounded(row: dict[str, Any]) -> dict[str, Any]:
    """More digits than anybody reads make the files that are kept hard to compare."""
    return {name: float(f"{value:.6g}") if isinstance(value, float) else value for name, value in row.items()}


def _dtype(kind: type) -> Any:
    import polars as pl

    return {str: pl.String, int: pl.Int64, float: pl.Float64}[kind]
