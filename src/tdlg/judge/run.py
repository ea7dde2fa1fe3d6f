"""One harness for all that is judged: an estimator is fitted to what a trial shows, and scores the rest.

`evaluate` keeps rows of results as they come; `hold_out` and `backtest` use the same `Fitted` and `scores_in_time`.
"""

from __future__ import annotations

import ctypes
import gc
import hashlib
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from tdlg import __version__
from tdlg.checks import check_count, set_missing_seed
from tdlg.edges import TemporalEdges
from tdlg.exceptions import EdgesError
from tdlg.judge.methods import Method, make_method, scores_of, settings_of
from tdlg.judge.metrics import class_metrics
from tdlg.judge.results import Result, append_rows, as_frame, check_same, read_rows
from tdlg.judge.trials import Task, Trial

if TYPE_CHECKING:
    import polars as pl

__all__ = ["Fitted", "evaluate", "scores_in_time"]

Scores = NDArray[np.float64]
Seconds = tuple[float, float, float]  # to embed, to fit and to predict

BLOCKS = 6  # number of refits of a method that cannot add labels one by one


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
        A name in `tdlg.judge.methods.METHODS`, a `Method`, or any estimator in the manner of scikit-learn with `fit(edges)`
        and `decision_function(edges)` or `predict_proba(edges)`: such as `PropagationClassifier()`, or a pipeline that
        begins with a transformer of edges. Rows of results name it by its `name`, else by its class.
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
    >>> from tdlg.judge.trials import EdgeClassification
    >>> edges = TemporalEdges(["a", "b", "c"] * 40, ["x", "y", "z", "x"] * 30, range(120), label=[0, 1, 1, 0] * 30)
    >>> rows = evaluate("label-rates", EdgeClassification(edges), trials=2)
    >>> rows["seed", "auc"].to_dicts()
    [{'seed': 0, 'auc': 1.0}, {'seed': 1, 'auc': 1.0}]
    """
    method = make_method(method) if isinstance(method, str) else method
    labels = getattr(method, "name", type(method).__name__), settings_of(method)
    check_count("evaluate", "trials", trials, 1)
    check_count("evaluate", "random_state", random_state, 0)
    trials = trials if getattr(task, "is_random", True) else 1
    known = {} if path is None else {result.key: result for result in read_rows(Path(path))}
    rows: list[Result] = []
    for done in range(trials):
        seed = random_state + done
        trial = task.draw(seed)
        fingerprint = _fingerprint(trial, positive)
        keys = [(dataset, name, *labels, seed) for name in _settings(task, trial)]
        for key in known.keys() & keys:
            sizes = len(trial.train), len(_settings(task, trial)[key[1]])
            check_same(path, known[key], sizes, fingerprint, any_version)
        if all(key in known for key in keys):
            rows += [known[key] for key in keys]
        else:
            results = _run(method, labels, task, trial, dataset, seed, fingerprint, positive)
            if path is not None:
                append_rows(Path(path), [result for result in results if result.key not in known])
            rows += results
        if callback is not None and callback(done + 1, trials):
            break
    return as_frame(rows)


# ---- one trial


class Fitted:
    """An estimator that was fitted to what a trial shows, with the seconds that it took."""

    def __init__(self, estimator: Any, trial: Trial) -> None:
        self.estimator, seen = estimator, trial.seen()
        self.embed_seconds = 0.0
        if hasattr(estimator, "embed"):
            _, self.embed_seconds = _timed(lambda: estimator.embed(seen))
        _, self.fit_seconds = _timed(lambda: estimator.fit(seen))

    def score(self, edges: TemporalEdges) -> tuple[Scores, Seconds]:
        """Scores, and the seconds of the three steps."""
        is_method = isinstance(self.estimator, Method)
        score = self.estimator.score if is_method else lambda edges: scores_of(self.estimator, edges)
        scores, predict_seconds = _timed(lambda: score(edges))
        return scores, (self.embed_seconds, self.fit_seconds, predict_seconds)


def scores_in_time(estimator: Any, trial: Trial, test: NDArray[np.int64]) -> tuple[Scores, Seconds]:
    """Scores where labels become known as time goes on: taken in by the estimator itself, or by fitting it to each block."""
    streaming = _streaming(estimator)
    if streaming is not None:
        revealed, took = Fitted(streaming, trial).score(trial.revealed(test))
        return revealed[: len(test)], took
    parts, seconds = [], np.zeros(3)
    for block in trial.blocks(test, BLOCKS):
        to_score = block.tests[""]
        scores, took = Fitted(clone(estimator), block).score(trial.edges[to_score])
        parts.append((to_score, scores))
        seconds += took
    place = np.empty(len(trial.edges), np.int64)
    place[test] = np.arange(len(test))
    whole = np.empty((len(test), *parts[0][1].shape[1:]))
    for to_score, scores in parts:
        if scores.shape[1:] != whole.shape[1:]:
            raise EdgesError(
                "A class of labels first appears after the cut, so the scores of the blocks do not compare. Join rare "
                "classes, or use a later cut.",
                "Pass a larger train_share= for that.",
            )
        whole[place[to_score]] = scores
    embed_seconds, fit_seconds, predict_seconds = seconds.tolist()
    return whole, (embed_seconds, fit_seconds, predict_seconds)


def _streaming(estimator: Any) -> Any:
    """The same estimator for labels that become known over time, or None if it must be fitted again for new labels."""
    if isinstance(estimator, Method):
        return estimator.streaming()
    has_setting = "setting" in estimator.get_params(deep=False)
    return clone(estimator).set_params(setting="stream") if has_setting else None


def _timed(work: Callable[[], Any]) -> tuple[Any, float]:
    start = perf_counter()
    value = work()
    return value, perf_counter() - start


def _run(
    method: Any,
    labels: tuple[str, str],
    task: Task,
    trial: Trial,
    dataset: str,
    seed: int,
    fingerprint: str,
    positive: Any,
) -> list[Result]:
    """The three steps, timed; one result per setting."""
    fresh = clone(method)
    set_missing_seed(fresh, seed)
    memory = _Memory()
    results = []
    fitted = None if trial.reveals else Fitted(fresh, trial)
    for name, test in _settings(task, trial).items():
        scores, seconds = scores_in_time(fresh, trial, test) if fitted is None else fitted.score(trial.edges[test])
        metrics = class_metrics(trial.y, trial.train, test, scores, positive)
        sizes = len(trial.train), len(test)
        results.append(
            Result(dataset, name, *labels, seed, *metrics, *seconds, memory.growth(), *sizes, __version__, fingerprint)
        )
    return results


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


def _settings(task: Task, trial: Trial) -> dict[str, NDArray[np.int64]]:
    """Positions of the edges to score, by the name of the task and, where there are several, of the setting."""
    if list(trial.tests) == [task.name]:
        return dict(trial.tests)
    return {f"{task.name}, {name}": test for name, test in trial.tests.items() if len(test)}


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
