"""The next partner, ranked by the protocol of the Temporal Graph Benchmark: rows for results/ranking.csv.

`python -m tdlg_paper.ranking` measures what is not yet in ranking.csv, ranking-links.csv and ranking-memory.csv of the
folder results, each row in a process of its own, and writes the tables into docs/ranking.md. How the settings were chosen,
of which some were revised after test results had been seen, is said there. The rows are of the test part. A ranker
is fitted to the training part, and then knows what happened as it happens. Seconds are processor time on one core. If the
package py-tgb can be imported (`pip install --no-deps py-tgb`), its evaluator gives the MRR.
"""

from __future__ import annotations

import csv
import resource
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, fields
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from math import isnan
from multiprocessing import get_context
from pathlib import Path
from statistics import mean, stdev
from time import process_time
from typing import Any, TypeVar

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
    tgb_negatives,
    true_ranks,
    true_scores,
)
from tdlg.rank.ranker import LinkRanker
from tdlg.sampling.index import edge_index
from tdlg_paper.leakage import write_table
from tdlg_paper.machine import Watch, write_session

__all__ = ["LinksRow", "MemoryRow", "Row", "read_rows", "run_ranking", "tables"]

Kind = TypeVar("Kind", bound="Row | LinksRow | MemoryRow")

Floats = NDArray[np.float64]

SEEDS = (0, 1, 2)
LINKS = 100  # pairs of which the share that comes true is measured
HORIZON = 0.01  # the next edges that count, as a share of all; or all of the test part
SYNTHETIC, NEW_SHARES = 2_000_000, (0.1, 1.0)  # edges of the networks whose memory is measured, and shares of new pairs
LARGE = {
    "review": 4_873_540,
    "coin": 22_809_486,
    "comment": 44_314_507,
    "flight": 67_169_570,
}  # edges of TGB's data sets
FOLDER, PAGE = Path("results"), Path("docs/ranking.md")


@dataclass(frozen=True)
class Row:
    """One ranker on one data set; NaN where a measure was not taken.

    Attributes
    ----------
    dataset, method, seed
        What was done. "tgbl-uci" is collegemsg as TGB has it: receivers are other nodes than senders, and the negatives
        are those of TGB's generator.
    mrr, hits_1, hits_3, hits_10, batch_mrr
        On the test part, each edge known to all strictly later ones; and where edges become known in batches of 200.
    evaluator
        What computed `mrr`: "py-tgb" with its version, or "tdlg", which agrees with it.
    new_pairs, new_mrr
        The share of the test edges whose pair did not occur before, and the MRR of these.
    fit_seconds, query_milliseconds, peak_bytes
        Processor time of `fit` and of one query; the most memory that the process had, from loading the data on.
    n_queries, n_candidates
        The number of edges ranked, and of the candidates of each.
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


@dataclass(frozen=True)
class LinksRow:
    """The 100 pairs that `top` ranks first, fitted to the training and the validation part as `tdlg links` would be.

    Attributes
    ----------
    dataset, method, seed
        What was done.
    soon, later
        The share of the pairs that occurs among the next 1 % of the edges, and in the test part.
    """

    dataset: str
    method: str
    seed: int
    soon: float
    later: float
    version: str


@dataclass(frozen=True)
class MemoryRow:
    """What a ranker needs to know a synthetic network.

    Attributes
    ----------
    new_share
        The share of the edges whose pair did not occur before.
    n_edges, n_nodes
        The size of the network.
    edges_bytes, state_bytes
        Bytes of the edges in the order of time, and of the running state after all of them.
    peak_bytes
        The most memory that the process had after it made the network and then asked about the last time, above what it
        had before.
    """

    new_share: float
    n_edges: int
    n_nodes: int
    edges_bytes: float
    state_bytes: float
    peak_bytes: float
    version: str


DATASETS: dict[str, Callable[[], RankingTask]] = {
    "wikipedia": lambda: RankingTask(load_dataset("wikipedia")),
    "fb-forum": lambda: RankingTask(load_dataset("fb-forum")),
    "collegemsg": lambda: RankingTask(load_dataset("collegemsg")),
    "tgbl-uci": lambda: _as_tgbl_uci(load_dataset("collegemsg", bipartite=True)),
}
SOURCE = {"tgbl-uci": "collegemsg"}


def _as_tgbl_uci(edges: TemporalEdges) -> RankingTask:
    return RankingTask(edges, tgb_negatives(RankingTask(edges)))


def read_rows(path: Path, kind: type[Kind]) -> list[Kind]:
    """The rows that were measured, of one of the two kinds."""
    types = {field.name: {"str": str, "int": int, "float": float}[str(field.type)] for field in fields(kind)}
    if not path.exists():
        return []
    with path.open(encoding="utf-8") as file:
        return [kind(**{name: types[name](value) for name, value in line.items()}) for line in csv.DictReader(file)]


def run_ranking(
    folder: Path, tell: Callable[[str], None] = lambda step: None, apart: bool = True
) -> tuple[list[Row], list[LinksRow], list[MemoryRow]]:
    """Measure what is not in the files yet.

    Parameters
    ----------
    folder
        The folder of ranking.csv, ranking-links.csv and ranking-memory.csv.
    tell
        Called with a description of what is about to run.
    apart
        Whether each row is measured in a process of its own, whose memory is then that of the row alone. True by default.
    """
    rows, links, memory = (folder / name for name in ("ranking.csv", "ranking-links.csv", "ranking-memory.csv"))
    for path, kind, measure, without in ((links, LinksRow, _measure_links, SOURCE), (rows, Row, _measure, {})):
        done = {tuple(asdict(row)[name] for name in ("dataset", "method", "seed")) for row in read_rows(path, kind)}
        for dataset in DATASETS:
            for method, seed in _methods():
                known = (dataset, method, seed) in done or dataset in without
                if not known and is_available(SOURCE.get(dataset, dataset)):
                    tell(f"{path.name}: {dataset}, {method}, seed {seed}")
                    _append(path, _run(apart, measure, dataset, method, seed))
    for share in NEW_SHARES:
        if share not in [row.new_share for row in read_rows(memory, MemoryRow)]:
            tell(f"{memory.name}: {share:.0%} of the pairs are new")
            _append(memory, _run(apart, _measure_memory, share))
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


def _append(path: Path, row: Row | LinksRow | MemoryRow) -> None:
    is_new = not path.exists()
    values = asdict(row)
    with path.open("a", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, values, lineterminator="\n")
        if is_new:
            writer.writeheader()
        writer.writerow({k: float(f"{v:.6g}") if isinstance(v, float) else v for k, v in values.items()})


# ---- the page


def tables(rows: list[Row], links: list[LinksRow], memory: list[MemoryRow]) -> str:
    """The tables of docs/ranking.md, in markdown."""
    parts = _ranking_lines(rows), _link_lines(links), _new_lines(rows), _cost_lines(rows), _memory_lines(memory)
    return "\n\n".join("\n".join(lines) for lines in parts)


Judged = TypeVar("Judged", Row, LinksRow)


def _of(rows: list[Judged], dataset: str, method: str) -> list[Judged]:
    return [row for row in rows if (row.dataset, row.method) == (dataset, method)]


def _value(rows: Sequence[Row | LinksRow], name: str, digits: int = 4) -> str:
    values = [getattr(row, name) for row in rows]
    if not values or any(map(isnan, values)):
        return "-" if values else "not run"
    spread = f" ± {stdev(values):.{digits}f}" if len(values) > 1 else ""
    return f"{mean(values):.{digits}f}{spread}"


def _ranking_lines(rows: list[Row]) -> Iterator[str]:
    yield "| data set | method | MRR | hits@1 | hits@3 | hits@10 | MRR, batches of 200 |"
    yield "|---|---|---|---|---|---|---|"
    for dataset in DATASETS:
        for method in ("edgebank", "recency", "trees"):
            some = _of(rows, dataset, method)
            cells = [_value(some, name) for name in ("mrr", "hits_1", "hits_3", "hits_10", "batch_mrr")]
            yield f"| {dataset} | {method} | " + " | ".join(cells) + " |"


def _link_lines(rows: list[LinksRow]) -> Iterator[str]:
    yield "| data set | method | among the next 1 % of the edges | in the test part |"
    yield "|---|---|---|---|"
    for dataset in ("wikipedia", "fb-forum", "collegemsg"):
        for method in ("recency", "trees"):
            some = _of(rows, dataset, method)
            yield f"| {dataset} | {method} | {_value(some, 'soon', 2)} | {_value(some, 'later', 2)} |"


def _new_lines(rows: list[Row]) -> Iterator[str]:
    yield "| data set | test edges of a new pair | MRR of these: edgebank | recency | trees |"
    yield "|---|---|---|---|---|"
    for dataset in DATASETS:
        some = [_of(rows, dataset, method) for method in ("edgebank", "recency", "trees")]
        if all(some):
            share = f"{100 * some[0][0].new_pairs:.1f} %"
            yield f"| {dataset} | {share} | " + " | ".join(_value(each, "new_mrr", 3) for each in some) + " |"


def _cost_lines(rows: list[Row]) -> Iterator[str]:
    yield "| data set | fit | one query | candidates | peak memory |"
    yield "|---|---|---|---|---|"
    for dataset in DATASETS:
        some = _of(rows, dataset, "trees")
        if some:
            fit, query = (max(getattr(row, name) for row in some) for name in ("fit_seconds", "query_milliseconds"))
            memory = max(row.peak_bytes for row in some) / 1e9
            yield f"| {dataset} | {fit:.0f} s | {query:.1f} ms | {some[0].n_candidates:,} | {memory:.1f} GB |"


def _memory_lines(rows: list[MemoryRow]) -> Iterator[str]:
    yield "| new pairs | bytes per edge: state | with the edges | at the peak | " + " | ".join(LARGE) + " |"
    yield "|---|---|---|---|" + "---|" * len(LARGE)
    for row in sorted(rows, key=lambda row: row.new_share):
        state, peak = row.state_bytes / row.n_edges, row.peak_bytes / row.n_edges
        sizes = " | ".join(f"{peak * n_edges / 1e9:.1f} GB" for n_edges in LARGE.values())
        both = state + row.edges_bytes / row.n_edges
        yield f"| {row.new_share:.0%} | {state:.0f} | {both:.0f} | {peak:.0f} | {sizes} |"


if __name__ == "__main__":
    watch, before = Watch("ranking"), len(read_rows(FOLDER / "ranking.csv", Row))
    measured = run_ranking(FOLDER, lambda step: print(step, file=sys.stderr, flush=True))
    if len(measured[0]) > before:
        write_session(FOLDER / "machines.csv", watch.session(len(measured[0]) - before))
    write_table(PAGE, tables(*measured))
