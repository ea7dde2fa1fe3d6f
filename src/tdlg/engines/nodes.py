"""What must be known about nodes before columns are made: usual gaps in time, and whether an id is at both ends.

Both need all edges of a node, which the kept rows of a `Summary` have not: a sample of edges has longer gaps than all edges.
"""

from __future__ import annotations

from concurrent.futures import Executor
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tdlg.engines.buckets import Buckets, bucket_sizes, map_buckets
from tdlg.engines.split_file import read_split
from tdlg.propagate.scales import gaps_of_nodes, usual_gap

__all__ = ["NodesTask", "gaps_in_bucket", "has_shared_nodes", "nodes_are_shared", "usual_gap_of_nodes"]

ENOUGH = 2_000_000  # records from which the usual gap is computed; with fewer, all are used


class NodesTask(NamedTuple):
    """A bucket of nodes to look at: of sources or of destinations, and perhaps only edges with a known label."""

    buckets: Buckets
    bucket: int
    kind: str = "src"
    only_known: bool = False


def usual_gap_of_nodes(engine: Executor, buckets: Buckets, *, only_known: bool) -> float:
    """The usual time between two edges of a node, in ticks; see `tdlg.propagate.scales`.

    Of many edges, those of the first buckets are used, which have the nodes of some ranges of keys with all their edges.
    """
    gaps = []
    for kind in ("src", "dst"):
        n_before = np.append(0, np.cumsum(bucket_sizes(buckets, kind)))
        n = int(np.searchsorted(n_before, ENOUGH, side="left"))
        tasks = [NodesTask(buckets, bucket, kind, only_known) for bucket in range(min(max(n, 1), buckets.n_buckets))]
        gaps.append(usual_gap(np.concatenate(map_buckets(engine, gaps_in_bucket, tasks))))
    return min(gaps)


def gaps_in_bucket(task: NodesTask) -> NDArray[np.float64]:
    """The times between consecutive edges of each node of a bucket."""
    records = read_split(task.buckets.paths(task.kind), range(task.bucket, task.bucket + 1))
    if task.only_known:
        records = records[records["label"] >= 0]
    return gaps_of_nodes(task.buckets.form.times(records["tick"]), records["key"])


def nodes_are_shared(engine: Executor, buckets: Buckets) -> bool:
    """Whether some id is the source of an edge and the destination of an edge."""
    return any(map_buckets(engine, has_shared_nodes, [NodesTask(buckets, k) for k in range(buckets.n_buckets)]))


def has_shared_nodes(task: NodesTask) -> bool:
    """`nodes_are_shared` within a bucket."""
    one = range(task.bucket, task.bucket + 1)
    src, dst = (np.unique(read_split(task.buckets.paths(kind), one)["key"]) for kind in ("src", "dst"))
    return bool(np.isin(src, dst, assume_unique=True).any())
