"""One harness for `evaluate`, `hold_out`, `backtest`: an estimator is fitted to what a trial shows, and scores the rest."""

from __future__ import annotations

import csv
import hashlib
import inspect
import io
import os
import pickle
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, clone

from tdlg import __version__
from tdlg.checks import check_count, set_missing_seed
from tdlg.edges import TemporalEdges
from tdlg.exceptions import EdgesError, ParameterError, ReadError
from tdlg.judge.metrics import class_metrics
from tdlg.judge.trials import Task, Trial

if TYPE_CHECKING:
    import polars as pl

Scores = NDArray[np.float64]
Seconds = tuple[float, float, float]  # to embed, to fit and to predict
Key: TypeAlias = tuple[str, str, str, str, int]

BLOCKS = 6  # number of refits of an estimator that cannot add labels one by one


def evaluate(
    method: Any,
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
    """Evaluate a method, or any classifier of edges, on the trials of a task.

    Parameters
    ----------
    method
        A name in `tdlg.judge.methods.METHODS`, or any estimator in the manner of scikit-learn with `fit(edges)` and
        `decision_function(edges)` or `predict_proba(edges)`: such as `PropagationClassifier()`, or a pipeline that begins
        with a transformer of edges. Rows of results name it by its attribute `name`, else by its class. If it has a method
        `embed(edges)`, this is called before `fit`, and timed.
    task
        The task, such as `EdgeClassification(edges)` or `LinkPrediction(edges)`.
    trials
        The number of trials, 10 by default. A task with `n_trials` has so many: one where nothing is drawn at random, or
        one for each of its periods.
    random_state
        Seed of the first trial, 0 by default; each further trial uses the next number.
    positive
        The class that the alerts of `Result` are about, by default that of `tdlg.explain.positive.positive_class`.
    dataset
        A name for the edges, kept in the rows.
    path
        A csv file to which rows are appended after each trial, by default none. Trials that the file already holds are not
        run again, so an interrupted run can be continued. A row of other edges or labels by the same names is an error.
    any_version
        Whether to accept rows of the file that another version of this package measured, or that have no fingerprint. By
        default such a row for the same trial is an error.
    callback
        A function that is called with (done, total) after each trial; evaluation stops when it returns True.

    Returns
    -------
    polars.DataFrame
        One row per trial and setting; see `Result` for the columns, and `summarise` for means.

    Examples
    --------
    >>> from tdlg import TemporalEdges
    >>> from tdlg.judge.trials import EdgeClassification
    >>> edges = TemporalEdges(["a", "b", "c"] * 40, ["x", "y", "z", "x"] * 30, range(120), label=[0, 1, 1, 0] * 30)
    >>> rows = evaluate("label-rates", EdgeClassification(edges), trials=2)
    >>> rows["seed", "auc"].to_dicts()
    [{'seed': 0, 'auc': 1.0}, {'seed': 1, 'auc': 1.0}]
    """
    if isinstance(method, str):
        from tdlg.judge.methods import make_method

        method = make_method(method)
    labels = getattr(method, "name", type(method).__name__), settings_of(method)
    check_count("evaluate", "trials", trials, 1)
    check_count("evaluate", "random_state", random_state, 0)
    fixed = getattr(task, "n_trials", None)
    trials = fixed or trials
    known = {} if path is None else {result.key: result for result in read_rows(Path(path))}
    rows: list[Result] = []
    for done in range(trials):
        seed = random_state + done
        trial = task.draw(done if fixed else seed)
        fingerprint = _fingerprint(trial, positive)
        of_task = _of_task(task, trial)
        keys = {test: (dataset, name, *labels, seed) for test, name in of_task.items()}
        for test, key in keys.items():
            if key in known:
                check_same(path, known[key], (len(trial.train), len(trial.tests[test])), fingerprint, any_version)
        if all(key in known for key in keys.values()):
            rows += [known[key] for key in keys.values()]
        else:
            fresh = clone(method)
            set_missing_seed(fresh, seed)
            start = _start_of_memory()
            results = []
            for test, (scores, seconds) in run_trial(fresh, trial).items():
                at = trial.tests[test]
                metrics = class_metrics(trial.y, trial.train, at, scores, positive)
                growth = max(_memory("VmHWM") - start, 0.0) if start == start else start
                sizes = len(trial.train), len(at)
                results.append(Result(*keys[test], *metrics, *seconds, growth, *sizes, __version__, fingerprint))
            if path is not None:
                append_rows(Path(path), [result for result in results if result.key not in known])
            rows += results
        if callback is not None and callback(done + 1, trials):
            break
    return _as_frame(rows)


# ---- one trial


def run_trial(estimator: Any, trial: Trial) -> dict[str, tuple[Scores, Seconds]]:
    """Fit a copy of an estimator to what a trial shows, and score the edges of each of its tests that has some.

    Where labels become known as time goes on, the estimator takes them in itself if it can: it has a parameter `setting`, or
    a method `streaming` that makes a copy for them. Else it is fitted again for each of six blocks of time.
    """
    tests = {name: test for name, test in trial.tests.items() if len(test)}
    if not trial.reveals:
        fitted, seconds = _fitted(estimator, trial)
        return {name: _scored(fitted, trial.edges[test], seconds) for name, test in tests.items()}
    streaming = _streaming(estimator)
    if streaming is None:
        return {name: _scored_in_blocks(estimator, trial, test) for name, test in tests.items()}
    found = {}
    for name, test in tests.items():
        fitted, seconds = _fitted(streaming, trial)
        scores, spent = _scored(fitted, trial.revealed(test), seconds)
        found[name] = scores[: len(test)], spent
    return found


def _streaming(estimator: Any) -> Any:
    """The same estimator for labels that become known over time, or None if it must be fitted again for new labels."""
    if hasattr(estimator, "streaming"):
        return estimator.streaming()
    has_setting = "setting" in estimator.get_params(deep=False)
    return clone(estimator).set_params(setting="stream") if has_setting else None


def _fitted(estimator: Any, trial: Trial) -> tuple[Any, tuple[float, float]]:
    """A fitted copy, and the seconds to embed and to fit."""
    fresh, seen, embed_seconds = clone(estimator), trial.seen(), 0.0
    if hasattr(fresh, "embed"):
        _, embed_seconds = _timed(lambda: fresh.embed(seen))
    _, fit_seconds = _timed(lambda: fresh.fit(seen))
    return fresh, (embed_seconds, fit_seconds)


def _scored(fitted: Any, to_score: TemporalEdges, seconds: tuple[float, float]) -> tuple[Scores, Seconds]:
    scores, predict_seconds = _timed(lambda: scores_of(fitted, to_score))
    return scores, (*seconds, predict_seconds)


def _scored_in_blocks(estimator: Any, trial: Trial, test: NDArray[np.int64]) -> tuple[Scores, Seconds]:
    """Scores by estimators that are fitted to all labels known before each block."""
    blocks, seconds = trial.blocks(test, BLOCKS), np.zeros(3)
    parts: list[Scores] = []
    for block in blocks:
        ((scores, spent),) = run_trial(estimator, block).values()
        parts.append(scores)
        seconds += spent
    if len({scores.shape[1:] for scores in parts}) > 1:
        raise EdgesError(
            "A class of labels first appears after the cut, so the scores of the blocks do not compare. Join rare "
            "classes, or use a later cut.",
            "Pass a larger train_share= for that.",
        )
    at = np.concatenate([block.tests[""] for block in blocks])
    order = np.argsort(at)
    embed_seconds, fit_seconds, predict_seconds = seconds.tolist()
    place = order[np.searchsorted(at, test, sorter=order)]
    return np.concatenate(parts)[place], (embed_seconds, fit_seconds, predict_seconds)


def _timed(work: Callable[[], Any]) -> tuple[Any, float]:
    start = perf_counter()
    value = work()
    return value, perf_counter() - start


def scores_of(model: Any, X: Any) -> Scores:
    """Scores of any scikit-learn classifier: its decision function or its probabilities (of the second of two classes)."""
    if hasattr(model, "decision_function"):
        return np.asarray(model.decision_function(X))
    probability: Scores = model.predict_proba(X)
    return probability[:, 1] if probability.shape[1] == 2 else probability


def _of_task(task: Task, trial: Trial) -> dict[str, str]:
    """The names of the tests that have edges, and what rows of results call them: by the task and, of several, the test."""
    names = [name for name, test in trial.tests.items() if len(test)]
    return {task.name: task.name} if names == [task.name] else {name: f"{task.name}, {name}" for name in names}


def _fingerprint(trial: Trial, positive: Any) -> str:
    """A digest of all that a trial is made of, and of the positive class where it is given."""
    edges, digest = trial.edges, hashlib.sha256()
    if positive is not None:
        digest.update(repr(positive).encode("utf-8", "surrogatepass"))
    kinds = edges.time_unit, edges.bipartite, edges.feature_names, edges.feature_categories
    digest.update(repr((kinds, trial.reveals, list(trial.tests))).encode("utf-8", "surrogatepass"))
    columns = (edges.src, edges.dst, edges.ticks, edges.weight, edges.features, trial.y, trial.columns, trial.train)
    late = () if trial.label_time is None else (trial.label_time, trial.pending)
    for column in (*columns, *trial.tests.values(), *late):
        if column is None or column.dtype == object:
            digest.update(repr(None if column is None else column.tolist()).encode("utf-8", "surrogatepass"))
        else:
            digest.update(f"{column.dtype}{column.shape}".encode() + np.ascontiguousarray(column).tobytes())
    return digest.hexdigest()[:16]


def _start_of_memory() -> float:
    """The memory of the process in bytes, from which a new peak is measured; NaN where the system is not Linux."""
    try:
        Path("/proc/self/clear_refs").write_text("5")  # the peak starts anew
        return _memory("VmRSS")
    except OSError:
        return float("nan")


def _memory(name: str) -> float:
    lines = Path("/proc/self/status").read_text().splitlines()
    return float(next(line.split()[1] for line in lines if line.startswith(name))) * 1024


# ---- the parameters of an estimator as text, which identifies rows of results


def settings_of(estimator: Any) -> str:
    """The parameters of an estimator that differ from their defaults, by name; the same text in every process."""
    declared = inspect.signature(type(estimator).__init__).parameters
    shown = {name: _as_code(value) for name, value in sorted(estimator.get_params(deep=False).items())}
    return ", ".join(f"{name}={text}" for name, text in shown.items() if text != _as_code(declared[name].default))


def _as_code(value: Any) -> str:
    """A parameter as text that depends only on its value, not on its memory address."""
    if isinstance(value, BaseEstimator):
        return f"{type(value).__name__}({settings_of(value)})"
    if isinstance(value, np.random.Generator | np.random.RandomState | np.ndarray):
        return f"{type(value).__name__}({hashlib.sha256(pickle.dumps(value)).hexdigest()[:16]})"
    if isinstance(value, np.generic):
        return repr(value.item())
    if type(value) in (list, tuple):
        return f"[{', '.join(map(_as_code, value))}]" if type(value) is list else f"({', '.join(map(_as_code, value))})"
    if type(value) is dict:
        return "{" + ", ".join(f"{_as_code(key)}: {_as_code(item)}" for key, item in value.items()) + "}"
    return repr(value)


# ---- rows of results


@dataclass(frozen=True)
class Result:
    """One trial in one setting.

    Attributes
    ----------
    settings
        The parameters of the method that differ from their defaults.
    auc, average_precision
        On the edges to score; with more than two classes, the mean over the classes, each against the rest.
    alert_precision, alert_recall
        Of the 100 edges with the highest scores for the positive class: the alerts that a person can check.
    embed_seconds, fit_seconds, predict_seconds
        Wall-clock time. Settings that share a fit, as in link prediction, have the same embed_seconds and fit_seconds.
    peak_bytes
        Growth of the process's memory during the trial; NaN where the system does not report it.
    version, fingerprint
        The version of tdlg that measured the row, and a digest of the edges, labels and split; empty in old rows.
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


def read_results(path: str | os.PathLike[str]) -> pl.DataFrame:
    """The rows that `evaluate` appended to a csv file, see `Result`; an incomplete last line is ignored."""
    if not Path(path).exists():
        raise ReadError(f"There is no file {str(path)!r}.", "Give the path that `evaluate(..., path=...)` wrote to.")
    return _as_frame(read_rows(Path(path)))


def _as_frame(rows: Sequence[Result]) -> pl.DataFrame:
    """Rows of results as a table."""
    import polars as pl

    types = {str: pl.String, int: pl.Int64, float: pl.Float64}
    return pl.DataFrame([asdict(row) for row in rows], schema={name: types[kind] for name, kind in COLUMNS.items()})


def summarise(
    rows: pl.DataFrame, by: Sequence[str] = ("dataset", "task", "method", "settings"), metric: str = "auc"
) -> pl.DataFrame:
    """Compute means over trials, with the half width of their 95 % confidence interval (Student's t).

    The result has the groups of the rows of `evaluate` in the order of appearance, with the `mean` of the metric, its
    `half_width` (NaN for a single trial), `trials`, and the mean `seconds` of all three steps.

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


def read_rows(path: Path) -> list[Result]:
    """The rows of a file; an empty list if the file does not exist yet."""
    if not path.exists():
        return []
    whole = path.read_text(encoding="utf-8")
    lines = csv.DictReader(io.StringIO(whole[: whole.rfind("\n") + 1]))
    if lines.fieldnames is not None and list(lines.fieldnames) != list(COLUMNS):
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


def append_rows(path: Path, results: Sequence[Result]) -> None:
    """Add rows in one write, after removing a last line that was left unfinished."""
    path.parent.mkdir(parents=True, exist_ok=True)
    whole = path.read_bytes() if path.exists() else b""
    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS, lineterminator="\n")
    if b"\n" not in whole:
        writer.writeheader()
    writer.writerows(_rounded(asdict(result)) for result in results)
    with path.open("a+b") as file:
        file.truncate(whole.rfind(b"\n") + 1)
        file.write(text.getvalue().encode())


def _rounded(row: dict[str, Any]) -> dict[str, Any]:
    """More digits than anybody reads make the files that are kept hard to compare."""
    return {name: float(f"{value:.6g}") if isinstance(value, float) else value for name, value in row.items()}


def check_same(path: Any, row: Result, sizes: tuple[int, int], fingerprint: str, any_version: bool) -> None:
    """Refuse a row of the file that has the names of the trial, but is of another experiment, or of another version."""
    scored = f"learnt from {row.n_train:,} edges and scored {row.n_test:,}, not {sizes[0]:,} and {sizes[1]:,} as here."
    positive = "was measured on other edges, labels or splits, or for another positive class."
    versions = f"tdlg {row.version} measured; this is tdlg {__version__}."
    other = "Give these edges another dataset= name, or pass another path=."
    anyway = "Give another path. Or pass any_version=True to accept rows of other versions."
    for is_refused, why, way_out in (
        ((row.n_train, row.n_test) != sizes, scored, other),
        (row.fingerprint not in ("", fingerprint), positive, other),
        (not any_version and row.version != __version__, versions, anyway),
        (not any_version and not row.fingerprint, "does not say which edges it was measured on.", anyway),
    ):
        if is_refused:
            what = (
                f"The file {str(path)!r} has a row for {row.dataset!r}, {row.task}, {row.method}, seed {row.seed} that"
            )
            raise ParameterError(f"{what} {why}", way_out, parameter="path")
