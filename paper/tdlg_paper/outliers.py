"""Outliers without labels: attacks in traffic, a simulated slow scan, and random pairs that are mixed into real edges.

Each detector has its defaults on all data sets. Rows are kept in results/outliers.csv as they come.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from statistics import fmean
from time import process_time
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import roc_auc_score

from tdlg import __version__
from tdlg.datasets.fetch import VARIABLE, is_available
from tdlg.datasets.load import load_dataset
from tdlg.edges import TemporalEdges
from tdlg.io.read import read_edges
from tdlg.models.bursts import BurstDetector
from tdlg.models.outliers import EdgeOutlierDetector, MisplacedDetector
from tdlg.models.surprise import RarityDetector
from tdlg_paper.rows import measure
from tdlg_paper.tables import NOT_RUN, Lines, table, write_sections

DETECTORS: dict[str, Callable[[int], Any]] = {
    "EdgeOutlierDetector()": lambda seed: EdgeOutlierDetector(random_state=seed),
    "BurstDetector()": lambda seed: BurstDetector(),
    "RarityDetector()": lambda seed: RarityDetector(),
    "MisplacedDetector('linegraph')": lambda seed: MisplacedDetector("linegraph", random_state=seed),
    "EdgeOutlierDetector(with_misplaced=True)": lambda seed: EdgeOutlierDetector(
        with_misplaced=True, random_state=seed
    ),
}
READINGS = {"MisplacedDetector('linegraph'), by windows": 1000, "MisplacedDetector('linegraph'), first half alone": 0}
OF_TRAFFIC = [*DETECTORS][:3]
OF_PAIRS = ["EdgeOutlierDetector()", *[*DETECTORS][3:]]
PROGRAMS = {  # the authors' programs on the same files, each with one setting
    "MIDAS, 2 x 1024": ("0.904", "0.839"),
    "MIDAS-R, 2 x 1024, decay 0.5": ("0.951", "0.832"),
    "MIDAS-F, 2 x 1024, threshold 1000": ("0.988", "0.744"),
    "AnoEdge-G, decay 0.9": ("0.972", "0.935"),
    "AnoEdge-L, decay 0.9": ("0.969", "0.930"),
}
IOT = "iot23-34-1"
IOT_FEATURES = [
    "port",
    "proto",
    "service",
    "conn_state",
    "duration",
    "orig_bytes",
    "resp_bytes",
    "orig_pkts",
    "resp_pkts",
]
TRAFFIC = {"darpa": "DARPA", IOT: "IoT-23 34-1", f"{IOT}, features": "with features"}
NETWORKS = ("collegemsg", "bitcoinalpha", "bitcoinotc")
SHARES = (0.01, 0.05, 0.1)

RATES = (2, 5, 10)  # addresses an hour
SEEDS = (0, 1, 2)

_HOSTS, _DAYS, _SERVERS, _ADDRESSES = 500, 6, 3000, 60_000
_SESSIONS, _LENGTH = 18.0, 6.0  # of a host: sessions a day, connections a session
_HABITS, _ELSEWHERE = 25, 0.03  # servers of a host, and the share of its connections to others
_HOUR, _DAY = 3600.0, 86_400.0


@dataclass(frozen=True)
class Row:
    """The AUC of a detector; `part` is the share of random pairs or the rate of a scan, and seconds are CPU seconds."""

    dataset: str
    part: str
    seed: str
    method: str
    auc: str
    seconds: str
    tdlg: str

    @property
    def key(self) -> tuple[str, str, str, str]:
        """What was run."""
        return self.dataset, self.part, self.seed, self.method


def outlier_auc(detector: Any, edges: TemporalEdges) -> float:
    """Fit a detector on all edges without their labels: the AUC of its scores on those with a label."""
    labelled = edges.labelled
    label: NDArray[Any] = np.asarray(edges.label)[labelled].astype(int)
    return float(roc_auc_score(label, -detector.fit(edges.with_label(None)).scores_[labelled]))


def auc_by_windows(window: int, seed: int, edges: TemporalEdges) -> float:
    """The AUC of the paper's notion where an edge of the later half is compared with its window and all before it, alone.

    window : distinct edges, 0 to learn from the first half alone.
    """
    half, label = int(np.argmax(edges.labelled)), np.asarray(edges.label)
    unlabelled, scores = edges.with_label(None), np.empty(len(edges))
    for start in range(half, len(edges), window or len(edges)):
        detector = MisplacedDetector("linegraph", random_state=seed)
        if window:
            end = min(start + window, len(edges))
            scores[start:end] = detector.fit(unlabelled[:end]).scores_[start:]
        else:
            scores[half:] = detector.fit(unlabelled[:half]).score_samples(unlabelled[half:])
    return float(roc_auc_score(label[half:].astype(int), -scores[half:]))


def injected(edges: TemporalEdges, share: float, seed: int) -> TemporalEdges:
    """The first edge of each pair of nodes, with random pairs that never occur mixed into the later half.

    The later half is labelled: 1 for random pairs, which have the time of a random edge there, and 0 for real edges.
    """
    rng = np.random.default_rng(seed)
    order = np.argsort(edges.ticks, kind="stable")
    ends = np.sort(np.column_stack([edges.src_code, edges.dst_code])[order], axis=1).astype(np.int64)
    n_nodes = len(edges.node_ids)
    pairs = ends[:, 0] * n_nodes + ends[:, 1]
    first = np.sort(np.unique(pairs, return_index=True)[1])
    first = first[ends[first, 0] != ends[first, 1]]
    real, half = order[first], len(first) // 2
    n_random, seen = round(share * (len(real) - half)), set(pairs.tolist())
    drawn: list[tuple[int, int]] = []
    while len(drawn) < n_random:
        src, dst = rng.integers(n_nodes, size=2).tolist()
        pair = min(src, dst) * n_nodes + max(src, dst)
        if src != dst and pair not in seen:
            seen.add(pair)
            drawn.append((src, dst))
    src, dst = (
        np.append(codes[real], column)
        for codes, column in zip((edges.src_code, edges.dst_code), np.transpose(drawn), strict=True)
    )
    time = np.append(edges.ticks[real], rng.choice(edges.ticks[real[half:]], n_random))
    label = np.repeat([np.nan, 0.0, 1.0], [half, len(real) - half, n_random])
    by_time = np.argsort(time, kind="stable")
    return TemporalEdges(src[by_time], dst[by_time], time[by_time], label=label[by_time])


def slow_scan(rate: float, seed: int) -> TemporalEdges:
    """Connections of 500 hosts in six days, labelled 1 where one of them scans.

    A host connects in sessions, by day more than by night, to 25 servers of its own of which some are liked by all, and
    with one connection in 33 to any other server. After three days one of the hosts, which goes on with what it always did,
    also tries addresses that are drawn from 60,000, at random times.
    """
    rng = np.random.default_rng(seed)
    busy = rng.lognormal(0.0, 0.7, _HOSTS)
    n_sessions = rng.poisson(busy / busy.mean() * _SESSIONS * _DAYS)
    host = np.repeat(np.arange(_HOSTS), n_sessions)
    start = rng.integers(_DAYS, size=len(host)) * _DAY + (rng.normal(13.5, 4.0, len(host)) % 24) * _HOUR
    n_connections = rng.geometric(1 / _LENGTH, len(host))
    session = np.repeat(np.arange(len(host)), n_connections)
    src = host[session]
    time = start[session] + rng.exponential(4 * 60, len(session)) * (1 + rng.random(len(session)))
    liked = 1.0 / np.arange(1, _SERVERS + 1)
    liked /= liked.sum()
    habits = np.array([rng.choice(_SERVERS, _HABITS, replace=False, p=liked) for _ in range(_HOSTS)])
    often = 1.0 / np.arange(1, _HABITS + 1)
    dst = habits[src, rng.choice(_HABITS, len(src), p=often / often.sum())]
    elsewhere = rng.random(len(src)) < _ELSEWHERE
    dst[elsewhere] = rng.choice(_SERVERS, elsewhere.sum(), p=liked)

    scanner = int(np.argsort(busy)[_HOSTS // 2])
    begin = _DAYS / 2 * _DAY
    n_tried = rng.poisson(rate * (_DAYS * _DAY - begin) / _HOUR)
    tried = begin + rng.random(n_tried) * (_DAYS * _DAY - begin)
    src = np.append(src, np.full(n_tried, scanner))
    dst = np.append(dst, _SERVERS + rng.integers(_ADDRESSES, size=n_tried))
    time, label = np.append(time, tried), np.append(np.zeros(len(elsewhere), int), np.ones(n_tried, int))
    order = np.argsort(time, kind="stable")
    names = np.array([f"host {k}" for k in range(_HOSTS)])
    servers = np.array([f"server {k}" for k in range(_SERVERS + _ADDRESSES)])
    return TemporalEdges(names[src[order]], servers[dst[order]], time[order], label=label[order])


def networks() -> Iterator[tuple[str, str, int, list[str], Callable[[], TemporalEdges]]]:
    """What is measured: data set, part, seed, detectors, and the edges."""
    path = Path(os.environ.get(VARIABLE, "")) / f"{IOT}.csv"
    if path.exists():
        for name, features in ((IOT, ()), (f"{IOT}, features", IOT_FEATURES)):
            yield name, "", 0, OF_TRAFFIC, partial(read_edges, path, label="label", features=features)
    for rate in RATES:
        for seed in SEEDS:
            yield "slow scan", str(rate), seed, OF_TRAFFIC, partial(slow_scan, rate, seed)
    if is_available("darpa"):
        yield "darpa", "", 0, OF_TRAFFIC, partial(load_dataset, "darpa")
    for name in filter(is_available, NETWORKS):
        for share in reversed(SHARES):
            for seed in SEEDS:
                more = READINGS if share == SHARES[-1] and seed == SEEDS[0] else ()
                yield name, str(share), seed, [*OF_PAIRS, *more], partial(_injected_into, name, share, seed)


def _injected_into(name: str, share: float, seed: int) -> TemporalEdges:
    return injected(load_dataset(name), share, seed)


def _runs(method: str) -> Iterator[tuple[tuple[str, str, str, str], Callable[[], Row]]]:
    for dataset, part, seed, detectors, make in networks():
        edges = lru_cache(make)  # one network for all its detectors
        for name in detectors:
            if method in f"{dataset} {name}":
                key = dataset, part, str(seed), name
                yield key, partial(_measured, key, name, seed, edges)


def _measured(key: tuple[str, str, str, str], name: str, seed: int, make: Callable[[], TemporalEdges]) -> Row:
    edges, clock = make(), process_time()
    window = READINGS.get(name)
    auc = outlier_auc(DETECTORS[name](seed), edges) if window is None else auc_by_windows(window, seed, edges)
    return Row(*key, f"{auc:.6g}", f"{process_time() - clock:.1f}", __version__)


def main(given: Any) -> None:
    """Measure what has no row yet, and write the tables into the page."""
    rows = measure(given.folder / "outliers.csv", Row, _runs(given.method or ""), given.again)
    write_page(rows, given.page)


def write_page(rows: Sequence[Row], page: Path) -> None:
    """Write the tables into a page. What has no row is shown as not run."""
    write_sections(page, {"outliers": _traffic(rows), "injected": _pairs(rows)})


def _traffic(rows: Sequence[Row]) -> Lines:
    lines: list[tuple[str, ...]] = [
        (f"{name}, the authors' program", *aucs, *[""] * (1 + len(RATES))) for name, aucs in PROGRAMS.items()
    ]
    for name in OF_TRAFFIC:
        of_traffic = [_mean(rows, dataset, "", name) for dataset in TRAFFIC]
        lines.append((name, *of_traffic, *(_mean(rows, "slow scan", str(rate), name) for rate in RATES)))
    return table(("detector", *TRAFFIC.values(), *(f"scan, {rate} an hour" for rate in RATES)), lines)


def _pairs(rows: Sequence[Row]) -> Lines:
    lines = [
        (name, network, *(_mean(rows, network, str(share), name) for share in SHARES))
        for name in [*OF_PAIRS, *READINGS]
        for network in NETWORKS
    ]
    return table(("detector", "data set", *(f"{share:.0%}" for share in SHARES)), lines, left=2)


def _mean(rows: Sequence[Row], dataset: str, part: str, method: str) -> str:
    aucs = [float(row.auc) for row in rows if (row.dataset, row.part, row.method) == (dataset, part, method)]
    return f"{fmean(aucs):.3f}" if aucs else NOT_RUN
