"""The next partner, ranked by the protocol of the Temporal Graph Benchmark: rows for results/ranking.csv.

`python -m paper.ranking` measures what is not yet in ranking.csv and ranking-links.csv of the folder results, and writes the
tables into docs/ranking.md. The ranking trees were chosen on the validation part; the
pair trees were revised twice after test results had been seen. The rows are of the test part. A ranker is
fitted to the training part, and then knows what happened as it happens. Seconds are processor time on one core.
"""

from __future__ import annotations

import csv
import resource
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from statistics import mean, stdev
from time import process_time
from typing import TypeVar

import numpy as np

from paper.leakage import write_table
from paper.machine import Watch, write_session
from tdlg import __version__
from tdlg.datasets.files import is_available
from tdlg.datasets.load import load_dataset
from tdlg.edges import TemporalEdges
from tdlg.judge.ranking import BATCH, RankingMetrics, RankingTask, tgb_negatives, true_ranks
from tdlg.models.ranking import LinkRanker
from tdlg.sampling.index import edge_index

__all__ = ["LinksRow", "Row", "read_rows", "run_ranking", "tables"]

Kind = TypeVar("Kind", bound="Row | LinksRow")

SEEDS = (0, 1, 2)
LINKS = 100  # pairs of which the share that comes true is measured
HORIZON = 0.01  # the next edges that count, as a share of all; or all of the test part
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
    fit_seconds, query_milliseconds, peak_bytes
        Processor time of `fit` and of one query; the most memory that the process had until then.
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


def run_ranking(folder: Path, tell: Callable[[str], None] = lambda step: None) -> tuple[list[Row], list[LinksRow]]:
    """Measure what is not in the files yet.

    Parameters
    ----------
    folder
        The folder of ranking.csv and ranking-links.csv.
    tell
        Called with a description of what is about to run.
    """
    for name, kind, datasets, measure in (
        ("ranking-links.csv", LinksRow, [name for name in DATASETS if name not in SOURCE], _measure_links),
        ("ranking.csv", Row, list(DATASETS), _measure),
    ):
        done = {(row.dataset, row.method, row.seed) for row in read_rows(folder / name, kind)}
        for dataset in datasets:
            wanted = [(method, seed) for method, seed in _methods() if (dataset, method, seed) not in done]
            if not wanted or not is_available(SOURCE.get(dataset, dataset)):
                continue
            task = DATASETS[dataset]()
            for method, seed in wanted:
                tell(f"{name}: {dataset}, {method}, seed {seed}")
                _append(folder / name, measure(dataset, task, method, seed))
    return read_rows(folder / "ranking.csv", Row), read_rows(folder / "ranking-links.csv", LinksRow)


def _methods() -> Iterator[tuple[str, int]]:
    yield from (("edgebank", 0), ("recency", 0), *(("trees", seed) for seed in SEEDS))


def _measure(dataset: str, task: RankingTask, method: str, seed: int) -> Row:
    start = process_time()
    model = LinkRanker(method, random_state=seed).fit(task.part("train"))  # type: ignore[arg-type]
    fit_seconds = process_time() - start
    for later in ("val", "test"):
        model.update(task.part(later))
    start = process_time()
    metrics = RankingMetrics.of(true_ranks(model, task))
    milliseconds = 1000 * (process_time() - start) / metrics.n_queries
    batch = RankingMetrics.of(true_ranks(model, task, batch=BATCH)).mrr
    n_candidates = len(np.unique(task.edges.dst_code)) if task.negatives is None else 1001
    return Row(
        dataset=dataset,
        method=method,
        seed=seed,
        mrr=metrics.mrr,
        hits_1=metrics.hits[1],
        hits_3=metrics.hits[3],
        hits_10=metrics.hits[10],
        batch_mrr=batch,
        fit_seconds=fit_seconds,
        query_milliseconds=milliseconds,
        peak_bytes=1024.0 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss,
        n_queries=metrics.n_queries,
        n_candidates=n_candidates,
        version=__version__,
    )


def _measure_links(dataset: str, task: RankingTask, method: str, seed: int) -> LinksRow:
    test = task.part("test")
    known = task.edges[task.edges.time < test.time.min()]
    found = LinkRanker(method, random_state=seed).fit(known).top(LINKS)  # type: ignore[arg-type]
    pairs = TemporalEdges(*(found[name].to_numpy() for name in ("src", "dst", "time")), bipartite=test.bipartite)
    next_ones = test[: round(HORIZON * len(task.edges))]
    soon, later = (float(edge_index(part).has_pair(pairs).mean()) for part in (next_ones, test))
    return LinksRow(dataset, method, seed, soon, later, __version__)


def _append(path: Path, row: Row | LinksRow) -> None:
    is_new = not path.exists()
    values = asdict(row)
    with path.open("a", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, values, lineterminator="\n")
        if is_new:
            writer.writeheader()
        writer.writerow({k: float(f"{v:.6g}") if isinstance(v, float) else v for k, v in values.items()})


# ---- the page


def tables(rows: list[Row], links: list[LinksRow]) -> str:
    """The tables of docs/ranking.md, in markdown."""
    return "\n".join([*_ranking_lines(rows), "", *_link_lines(links), "", *_cost_lines(rows)])


def _of(rows: list[Kind], dataset: str, method: str) -> list[Kind]:
    return [row for row in rows if (row.dataset, row.method) == (dataset, method)]


def _value(rows: Sequence[Row | LinksRow], name: str, digits: int = 4) -> str:
    values = [getattr(row, name) for row in rows]
    if not values:
        return "not run"
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


def _cost_lines(rows: list[Row]) -> Iterator[str]:
    yield "| data set | fit | one query | candidates | peak memory |"
    yield "|---|---|---|---|---|"
    for dataset in DATASETS:
        some = _of(rows, dataset, "trees")
        if some:
            fit, query = (max(getattr(row, name) for row in some) for name in ("fit_seconds", "query_milliseconds"))
            memory = max(row.peak_bytes for row in some) / 1e9
            yield f"| {dataset} | {fit:.0f} s | {query:.1f} ms | {some[0].n_candidates:,} | {memory:.1f} GB |"


if __name__ == "__main__":
    watch, before = Watch("ranking"), len(read_rows(FOLDER / "ranking.csv", Row))
    measured = run_ranking(FOLDER, lambda step: print(step, file=sys.stderr, flush=True))
    if len(measured[0]) > before:
        write_session(FOLDER / "machines.csv", watch.session(len(measured[0]) - before))
    write_table(PAGE, tables(*measured))
