"""The next partner, ranked by the protocol of the Temporal Graph Benchmark: rows for results/ranking.csv.

`python -m tdlg_paper ranking` measures what is not yet in ranking.csv, ranking-links.csv and ranking-memory.csv of the
folder results, each row in a process of its own, and writes the tables into docs/results.md. How the settings were chosen,
of which some were revised after test results had been seen, is said there. The rows are of the test part. A ranker
is fitted to the training part, and then knows what happened as it happens. Seconds are processor time on one core. If the
package py-tgb can be imported (`pip install --no-deps py-tgb`), its evaluator gives the MRR.
"""

from __future__ import annotations

import resource
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from math import isnan
from multiprocessing import get_context
from pathlib import Path
from statistics import mean, stdev
from time import process_time
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from tdlg import __version__
from tdlg.datasets.fetch import is_available
from tdlg.datasets.load import load_dataset
from tdlg.edges import TemporalEdges
from tdlg.judge.ranking import (
    TGB_BATCH,
    RankingMetrics,
    RankingTask,
    rank_of_true,
    true_ranks,
    true_scores,
)
from tdlg.rank.ranker import LinkRanker
from tdlg.sampling.index import edge_index
from tdlg_paper.machine import Watch
from tdlg_paper.rows import keep_row, measure, read_rows
from tdlg_paper.tables import NOT_RUN, Lines, table, write_sections

Floats = NDArray[np.float64]

SEEDS = (0, 1, 2)
LINKS = 100  # pairs of which the share that comes true is measured
HORIZON = 0.01  # the next edges that count, as a share of all; or all of the test part
SYNTHETIC, NEW_SHARES = 2_000_000, (0.1, 1.0)  # edges of the networks whose memory is measured, and shares of new pairs
METHODS = ("edgebank", "recency", "trees")
COSTS = ("fit_seconds", "query_milliseconds", "peak_bytes")
MEASURES = dict(mrr="MRR", hits_1="hits@1", hits_3="hits@3", hits_10="hits@10", batch_mrr="MRR, batches of 200")
SHARES = {"soon": "among the next 1 % of the edges", "later": "in the test part"}
RUNS = (("edgebank", 0), ("recency", 0), *(("trees", seed) for seed in SEEDS))


@dataclass(frozen=True)
class Row:
    """One ranker on one data set; NaN where a measure was not taken.

    The ranks are of the test part, each edge known to all strictly later ones, or in batches of 200 (`batch_mrr`). The MRR
    is by the `evaluator` "py-tgb" with its version, or "tdlg", which agrees with it; `new_mrr` is that of the test edges
    whose pair did not occur before. The memory is the most that the process had, from loading the data on.
    """

    dataset: str
    method: str
    seed: int
    mrr: float
    hits_1: float
    hits_3: float
    hits_10: float
    batch_mrr: float
    evaluator: str
    new_pairs: float
    new_mrr: float
    fit_seconds: float
    query_milliseconds: float
    peak_bytes: float
    n_queries: int
    n_candidates: int
    version: str

    @property
    def key(self) -> Any:
        """What was measured."""
        return self.dataset, self.method, self.seed


@dataclass(frozen=True)
class LinksRow:
    """The 100 pairs that `top` ranks first, fitted to the training and the validation part as `tdlg links` would be.

    `soon` and `later` are the shares of the pairs that occur among the next 1 % of the edges, and in the test part.
    """

    dataset: str
    method: str
    seed: int
    soon: float
    later: float
    version: str

    @property
    def key(self) -> Any:
        """What was measured."""
        return self.dataset, self.method, self.seed


@dataclass(frozen=True)
class MemoryRow:
    """What a ranker needs to know a synthetic network: bytes of its edges, of its state, and at the peak."""

    new_share: float
    n_edges: int
    n_nodes: int
    edges_bytes: float
    state_bytes: float
    peak_bytes: float
    version: str

    @property
    def key(self) -> Any:
        """What was measured."""
        return self.new_share


def _as_tgbl_uci() -> RankingTask:
    """Collegemsg as TGB has it: receivers are other nodes than senders, and the negatives are those of TGB's generator."""
    task = RankingTask(load_dataset("collegemsg", bipartite=True))
    return RankingTask(task.edges, tgb_negatives(task))


DATASETS: dict[str, Callable[[], RankingTask]] = {
    **{name: lambda name=name: RankingTask(load_dataset(name)) for name in ("wikipedia", "fb-forum", "collegemsg")},  # type: ignore[misc]
    "tgbl-uci": _as_tgbl_uci,
}
SOURCE = {"tgbl-uci": "collegemsg"}


def tgb_negatives(
    task: RankingTask, n_negatives: int = 1000, strategy: Literal["hist_rnd", "rnd"] = "hist_rnd"
) -> dict[tuple[Any, Any, Any], NDArray[Any]]:
    """Negatives for the last two parts of a task, sampled step by step as TGB's generator does: same seed, same negatives.

    With "hist_rnd", TGB's choice for tgbl-uci, up to half of them are destinations of the same source in the training part.
    """
    rng = np.random.RandomState(42)  # the generator and the seed that TGB uses
    dst = task.edges.dst
    everyone = np.arange(dst.min(), dst.max() + 1) if dst.dtype.kind in "iu" else np.unique(dst)
    train = task.part("train")
    history = _by_key(train.src.tolist(), train.dst) if strategy == "hist_rnd" else {}
    found: dict[tuple[Any, Any, Any], NDArray[Any]] = {}
    for part in (task.part("val"), task.part("test")):
        sources, times = part.src.tolist(), part.time.tolist()
        true = _by_key(zip(sources, times, strict=True), part.dst)
        for src, own, time in zip(sources, part.dst.tolist(), times, strict=True):
            hidden = np.asarray(true[src, time])
            met = np.asarray(history.get(src, []), everyone.dtype)
            old = np.setdiff1d(met, hidden)
            old = rng.choice(old, min(n_negatives // 2, len(old)), replace=False) if len(met) else old
            new = np.setdiff1d(everyone, np.concatenate([hidden, met]))
            n_new = n_negatives - len(old)
            new = new if n_new > len(new) else rng.choice(new, n_new, replace=False)
            found[src, own, time] = np.concatenate([old, new])
    return found


def _by_key(keys: Iterable[Any], values: NDArray[Any]) -> dict[Any, list[Any]]:
    found: dict[Any, list[Any]] = {}
    for key, value in zip(keys, values.tolist(), strict=True):
        found.setdefault(key, []).append(value)
    return found


def run_ranking(folder: Path, apart: bool = True) -> tuple[list[Row], list[LinksRow], list[MemoryRow]]:
    """Measure what is not in the files yet, each row in a process of its own."""
    runs = [(name, *method) for name in DATASETS if is_available(SOURCE.get(name, name)) for method in RUNS]
    of_links = [(key, partial(_run, apart, _measure_links, *key)) for key in runs if key[0] not in SOURCE]
    links = measure(folder / "ranking-links.csv", LinksRow, of_links)
    rows = measure(folder / "ranking.csv", Row, [(key, partial(_run, apart, _measure, *key)) for key in runs])
    of_memory = [(share, partial(_run, apart, _measure_memory, share)) for share in NEW_SHARES]
    return rows, links, measure(folder / "ranking-memory.csv", MemoryRow, of_memory)


def _run(apart: bool, run: Callable[..., Any], *arguments: Any) -> Any:
    if not apart:
        return run(*arguments)
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as process:
        return process.submit(run, *arguments).result()


def _measure(dataset: str, method: str, seed: int) -> Row:
    task = DATASETS[dataset]()
    start = process_time()
    model = LinkRanker(method, random_state=seed).fit(task.part("train"))  # type: ignore[arg-type]
    fit_seconds = process_time() - start
    for later in ("val", "test"):
        model.update(task.part(later))
    start = process_time()
    batch_mrr = RankingMetrics.of(true_ranks(model, task, batch=TGB_BATCH)).mrr
    milliseconds = 1000 * (process_time() - start) / len(task.part("test"))
    peak = _peak_bytes()
    ranks, mrr, evaluator = _judged(model, task)
    metrics, new = RankingMetrics.of(ranks), _is_new(task)
    new_mrr = RankingMetrics.of(ranks[new]).mrr if new.any() else float("nan")
    n_candidates = len(np.unique(task.edges.dst_code)) if task.negatives is None else 1001
    of_new: tuple[float, float] = float(new.mean()), new_mrr
    costs = fit_seconds, milliseconds, peak
    hits: tuple[float, float, float] = metrics.hits[1], metrics.hits[3], metrics.hits[10]
    counts = metrics.n_queries, n_candidates
    return Row(dataset, method, seed, mrr, *hits, batch_mrr, evaluator, *of_new, *costs, *counts, __version__)


def _peak_bytes() -> float:
    return 1024.0 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def _is_new(task: RankingTask) -> NDArray[np.bool_]:
    """Whether the pair of each test edge did not occur strictly before it."""
    test = task.part("test")
    order = np.argsort(task.edges.ticks, kind="stable")
    key, asked = (each.src_code.astype(np.int64) * task.edges.n_nodes + each.dst_code for each in (task.edges, test))
    pairs, first = np.unique(key[order], return_index=True)
    return test.ticks <= task.edges.ticks[order][first[np.searchsorted(pairs, asked)]]


def _judged(model: LinkRanker, task: RankingTask) -> tuple[Floats, float, str]:
    """The ranks of the test edges, their MRR by py-tgb's evaluator, and its name; our own if the package is not there."""
    try:
        judge = import_module("tgb.linkproppred.evaluate").Evaluator("tgbl-wiki")  # the same for all data sets
        name = f"py-tgb {version('py-tgb')}"
    except (ImportError, PackageNotFoundError):
        judge, name = None, "tdlg"
    ranks, found = [], []
    for true, others in true_scores(model, task):
        ranks.append(rank_of_true(true, others))
        if judge is not None:
            asked = {"y_pred_pos": np.array([true]), "y_pred_neg": others[None], "eval_metric": ["mrr"]}
            found.append(float(judge.eval(asked)["mrr"]))
    mine = RankingMetrics.of(np.array(ranks)).mrr
    theirs = float(np.mean(found)) if found else mine
    if abs(theirs - mine) > 1e-5:
        raise RuntimeError(f"py-tgb's evaluator says {theirs}, and ours {mine}: one of them is wrong.")
    return np.array(ranks), theirs, name


def _measure_links(dataset: str, method: str, seed: int) -> LinksRow:
    task = DATASETS[dataset]()
    test = task.part("test")
    known = task.edges[task.edges.time < test.time.min()]
    found = LinkRanker(method, random_state=seed).fit(known).top(LINKS)  # type: ignore[arg-type]
    pairs = TemporalEdges(*(found[name].to_numpy() for name in ("src", "dst", "time")), bipartite=test.bipartite)
    next_ones = test[: round(HORIZON * len(task.edges))]
    soon, later = (float(edge_index(part).has_pair(pairs).mean()) for part in (next_ones, test))
    return LinksRow(dataset, method, seed, soon, later, __version__)


def _measure_memory(new_share: float, n_edges: int = SYNTHETIC, n_nodes: int = SYNTHETIC // 20) -> MemoryRow:
    LinkRanker("recency").fit(TemporalEdges([0, 1], [1, 0], [0, 1])).rank(0)  # compiled, and loaded
    before = _peak_bytes()
    rng = np.random.default_rng(0)
    src, dst = rng.integers(0, n_nodes, (2, n_edges), np.int32)
    new = np.arange(n_edges) < max(1, round(new_share * n_edges))  # all others repeat one of these
    again = rng.integers(0, new.sum(), n_edges)
    src, dst = np.where(new, src, src[again]), np.where(new, dst, dst[again])
    edges = TemporalEdges(src, dst, np.arange(n_edges))
    ranker = LinkRanker("recency").fit(edges)
    ranker.rank(0, candidates=[1])
    of_edges, of_state = map(float, ranker._history.nbytes)
    return MemoryRow(new_share, n_edges, edges.n_nodes, of_edges, of_state, _peak_bytes() - before, __version__)


# ---- the tables


def sections(rows: list[Row], links: list[LinksRow], memory: list[MemoryRow]) -> dict[str, Lines]:
    """The sections of the page that show the rows."""
    return {
        "ranking": _table(rows, METHODS, MEASURES),
        "ranking-links": _table(links, METHODS[1:], SHARES, 2),
        "ranking-new": _new_pairs(rows),
        "ranking-cost": _cost(rows),
        "ranking-memory": _memory(memory),
    }


def _of(rows: Sequence[Any], dataset: str, method: str) -> list[Any]:
    return [row for row in rows if (row.dataset, row.method) == (dataset, method)]


def _value(rows: Sequence[Row | LinksRow], name: str, digits: int = 4) -> str:
    values = [getattr(row, name) for row in rows]
    if not values or any(map(isnan, values)):
        return "-" if values else NOT_RUN
    spread = f" ± {stdev(values):.{digits}f}" if len(values) > 1 else ""
    return f"{mean(values):.{digits}f}{spread}"


def _table(rows: Sequence[Any], methods: Sequence[str], head: Mapping[str, str], digits: int = 4) -> Lines:
    """One line a data set and method; those without rows only where all methods are shown."""
    lines = [
        (dataset, method, *(_value(found, name, digits) for name in head))
        for dataset in DATASETS
        for method in methods
        if (found := _of(rows, dataset, method)) or methods == METHODS
    ]
    return table(("data set", "method", *head.values()), lines, left=2)


def _new_pairs(rows: list[Row]) -> Lines:
    lines = []
    for dataset in DATASETS:
        some = [_of(rows, dataset, method) for method in METHODS]
        if all(some):
            share = f"{100 * some[0][0].new_pairs:.1f} %"
            lines.append((dataset, share, *(_value(each, "new_mrr", 3) for each in some)))
    return table(("data set", "test edges of a new pair", "MRR of these: edgebank", "recency", "trees"), lines)


def _cost(rows: list[Row]) -> Lines:
    lines = []
    for dataset in DATASETS:
        if some := _of(rows, dataset, "trees"):
            fit, query, peak = (max(getattr(row, name) for row in some) for name in COSTS)
            costs = f"{fit:.0f} s", f"{query:.1f} ms", f"{some[0].n_candidates:,}", f"{peak / 1e9:.1f} GB"
            lines.append((dataset, *costs))
    return table(("data set", "fit", "one query", "candidates", "peak memory"), lines)


def _memory(rows: list[MemoryRow]) -> Lines:
    lines = []
    for row in sorted(rows, key=lambda row: row.new_share):
        sizes = (row.state_bytes, row.state_bytes + row.edges_bytes, row.peak_bytes)
        lines.append((f"{row.new_share:.0%}", *(f"{size / row.n_edges:.0f}" for size in sizes)))
    return table(("new pairs", "bytes per edge: state", "with the edges", "at the peak"), lines)


def main(given: Any) -> None:
    """Measure what is missing, and write the tables into the page."""
    watch, before = Watch("ranking"), len(read_rows(given.folder / "ranking.csv", Row))
    measured = run_ranking(given.folder)
    if len(measured[0]) > before:
        keep_row(given.folder / "machines.csv", watch.session(len(measured[0]) - before))
    write_sections(given.page, sections(*measured))
