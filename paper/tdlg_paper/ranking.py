"""The next partner, ranked by the protocol of the Temporal Graph Benchmark: rows for results/ranking.csv.

`python -m tdlg_paper ranking` measures what is not yet in ranking.csv, ranking-links.csv and ranking-memory.csv of the
folder results, each row in a process of its own, and writes the tables into docs/results.md. How the settings were chosen,
of which some were revised after test results had been seen, is said there. The rows are of the test part. A ranker
is fitted to the training part, and then knows what happened as it happens. Seconds are processor time on one core. If the
package py-tgb can be imported (`pip install --no-deps py-tgb`), its evaluator gives the MRR.
"""

from __future__ import annotations

import resource
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from math import isnan
from multiprocessing import get_context
from pathlib import Path
from statistics import mean, stdev
from time import process_time
from typing import Any, Literal, TypeVar

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
from tdlg_paper.rows import keep_row, read_rows
from tdlg_paper.tables import NOT_RUN, table, write_sections

__all__ = ["LinksRow", "MemoryRow", "Row", "main", "run_ranking", "sections"]

Floats = NDArray[np.float64]

SEEDS = (0, 1, 2)
LINKS = 100  # pairs of which the share that comes true is measured
HORIZON = 0.01  # the next edges that count, as a share of all; or all of the test part
SYNTHETIC, NEW_SHARES = 2_000_000, (0.1, 1.0)  # edges of the networks whose memory is measured, and shares of new pairs
METHODS = ("edgebank", "recency", "trees")
COSTS = ("fit_seconds", "query_milliseconds", "peak_bytes")
BATCHES = "MRR, batches of 200"


@dataclass(frozen=True)
class Row:
    """One ranker on one data set; NaN where a measure was not taken.

    "tgbl-uci" is collegemsg as TGB has it: receivers are other nodes than senders, and the negatives are those of TGB's
    generator. The ranks are of the test part, each edge known to all strictly later ones, or in batches of 200
    (`batch_mrr`); `evaluator` is what computed the MRR: "py-tgb" with its version, or "tdlg", which agrees with it.
    `new_mrr` is that of the test edges whose pair did not occur before. Seconds are processor time; the memory is the most
    that the process had, from loading the data on.
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


DATASETS: dict[str, Callable[[], RankingTask]] = {
    "wikipedia": lambda: RankingTask(load_dataset("wikipedia")),
    "fb-forum": lambda: RankingTask(load_dataset("fb-forum")),
    "collegemsg": lambda: RankingTask(load_dataset("collegemsg")),
    "tgbl-uci": lambda: _as_tgbl_uci(load_dataset("collegemsg", bipartite=True)),
}
SOURCE = {"tgbl-uci": "collegemsg"}


def _as_tgbl_uci(edges: TemporalEdges) -> RankingTask:
    return RankingTask(edges, tgb_negatives(RankingTask(edges)))


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


def run_ranking(
    folder: Path, tell: Callable[[str], None] = lambda step: None, apart: bool = True
) -> tuple[list[Row], list[LinksRow], list[MemoryRow]]:
    """Measure what is not in the files yet."""
    rows, links, memory = (folder / name for name in ("ranking.csv", "ranking-links.csv", "ranking-memory.csv"))
    for path, kind, measure, without in ((links, LinksRow, _measure_links, SOURCE), (rows, Row, _measure, {})):
        done = {row.key for row in read_rows(path, kind)}  # type: ignore[attr-defined]
        for dataset in DATASETS:
            for method, seed in _methods():
                known = (dataset, method, seed) in done or dataset in without
                if not known and is_available(SOURCE.get(dataset, dataset)):
                    tell(f"{path.name}: {dataset}, {method}, seed {seed}")
                    keep_row(path, _run(apart, measure, dataset, method, seed))
    for share in NEW_SHARES:
        if share not in [row.new_share for row in read_rows(memory, MemoryRow)]:
            tell(f"{memory.name}: {share:.0%} of the pairs are new")
            keep_row(memory, _run(apart, _measure_memory, share))
    return read_rows(rows, Row), read_rows(links, LinksRow), read_rows(memory, MemoryRow)


def _run(apart: bool, measure: Callable[..., Any], *arguments: Any) -> Any:
    if not apart:
        return measure(*arguments)
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as process:
        return process.submit(measure, *arguments).result()


def _methods() -> Iterator[tuple[str, int]]:
    yield from (("edgebank", 0), ("recency", 0), *(("trees", seed) for seed in SEEDS))


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
    return Row(
        dataset=dataset,
        method=method,
        seed=seed,
        mrr=mrr,
        hits_1=metrics.hits[1],
        hits_3=metrics.hits[3],
        hits_10=metrics.hits[10],
        batch_mrr=batch_mrr,
        evaluator=evaluator,
        new_pairs=float(new.mean()),
        new_mrr=RankingMetrics.of(ranks[new]).mrr if new.any() else float("nan"),
        fit_seconds=fit_seconds,
        query_milliseconds=milliseconds,
        peak_bytes=peak,
        n_queries=metrics.n_queries,
        n_candidates=len(np.unique(task.edges.dst_code)) if task.negatives is None else 1001,
        version=__version__,
    )


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


def sections(rows: list[Row], links: list[LinksRow], memory: list[MemoryRow]) -> dict[str, list[str]]:
    """The sections of the page that show the rows."""
    return {
        "ranking": _ranking(rows),
        "ranking-links": _links(links),
        "ranking-new": _new_pairs(rows),
        "ranking-cost": _cost(rows),
        "ranking-memory": _memory(memory),
    }


Judged = TypeVar("Judged", Row, LinksRow)


def _of(rows: list[Judged], dataset: str, method: str) -> list[Judged]:
    return [row for row in rows if (row.dataset, row.method) == (dataset, method)]


def _value(rows: Sequence[Row | LinksRow], name: str, digits: int = 4) -> str:
    values = [getattr(row, name) for row in rows]
    if not values or any(map(isnan, values)):
        return "-" if values else NOT_RUN
    spread = f" ± {stdev(values):.{digits}f}" if len(values) > 1 else ""
    return f"{mean(values):.{digits}f}{spread}"


def _ranking(rows: list[Row]) -> list[str]:
    names = {"mrr": "MRR", "hits_1": "hits@1", "hits_3": "hits@3", "hits_10": "hits@10", "batch_mrr": BATCHES}
    lines = [
        (dataset, method, *(_value(_of(rows, dataset, method), name) for name in names))
        for dataset in DATASETS
        for method in METHODS
    ]
    return table(("data set", "method", *names.values()), lines, left=2)


def _links(rows: list[LinksRow]) -> list[str]:
    lines = []
    for dataset in DATASETS:
        for method in ("recency", "trees"):
            some = _of(rows, dataset, method)
            if some:
                lines.append((dataset, method, _value(some, "soon", 2), _value(some, "later", 2)))
    return table(("data set", "method", "among the next 1 % of the edges", "in the test part"), lines, left=2)


def _new_pairs(rows: list[Row]) -> list[str]:
    lines = []
    for dataset in DATASETS:
        some = [_of(rows, dataset, method) for method in METHODS]
        if all(some):
            share = f"{100 * some[0][0].new_pairs:.1f} %"
            lines.append((dataset, share, *(_value(each, "new_mrr", 3) for each in some)))
    return table(("data set", "test edges of a new pair", "MRR of these: edgebank", "recency", "trees"), lines)


def _cost(rows: list[Row]) -> list[str]:
    lines = []
    for dataset in DATASETS:
        some = _of(rows, dataset, "trees")
        if some:
            fit, query, peak = (max(getattr(row, name) for row in some) for name in COSTS)
            lines.append(
                (dataset, f"{fit:.0f} s", f"{query:.1f} ms", f"{some[0].n_candidates:,}", f"{peak / 1e9:.1f} GB")
            )
    return table(("data set", "fit", "one query", "candidates", "peak memory"), lines)


def _memory(rows: list[MemoryRow]) -> list[str]:
    lines = []
    for row in sorted(rows, key=lambda row: row.new_share):
        sizes = (row.state_bytes, row.state_bytes + row.edges_bytes, row.peak_bytes)
        lines.append((f"{row.new_share:.0%}", *(f"{size / row.n_edges:.0f}" for size in sizes)))
    return table(("new pairs", "bytes per edge: state", "with the edges", "at the peak"), lines)


def main(folder: Path, page: Path) -> None:
    """Measure what is missing, and write the tables into the page."""
    watch, before = Watch("ranking"), len(read_rows(folder / "ranking.csv", Row))
    measured = run_ranking(folder, lambda step: print(step, file=sys.stderr, flush=True))
    if len(measured[0]) > before:
        keep_row(folder / "machines.csv", watch.session(len(measured[0]) - before))
    write_sections(page, sections(*measured))
