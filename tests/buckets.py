"""Small tables as files, and their columns by way of buckets."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import polars as pl

from tdlg.engines.buckets import (
    BucketPlan,
    Buckets,
    ColumnFiles,
    ColumnsTask,
    PartitionTask,
    RecordForm,
    make_columns,
    partition,
    read_columns,
)
from tdlg.engines.executors import run_all
from tdlg.engines.table import LabelCodes, scan_edges, summarise_table


def some_table(seed, n=400, n_nodes=12, *, shared=True, floats=False, categories=False, unlabelled=0.3, late=False):
    """A table with ties, self-loops, parallel edges, missing labels and missing amounts."""
    rng = np.random.default_rng(seed)
    src, dst = rng.integers(0, n_nodes, n), rng.integers(0, n_nodes, n) + (0 if shared else n_nodes)
    time = rng.random(n) * 60 if floats else rng.integers(0, 60, n)
    columns = {
        "source": [f"node {k}" for k in src],
        "target": [f"node {k}" for k in dst],
        "time": time,
        "label": [
            None if gone else int(y) for gone, y in zip(rng.random(n) < unlabelled, rng.integers(0, 2, n), strict=True)
        ],
        "amount": [None if k % 17 == 0 else float(x) for k, x in enumerate(rng.lognormal(2, 1, n))],
    }
    if late:
        columns["known"] = time + rng.integers(0, 30, n)
    if categories:
        columns["kind"] = [None if k % 23 == 0 else f"kind {c}" for k, c in enumerate(rng.integers(0, 25, n))]
        columns["colour"] = [f"colour {c}" for c in rng.integers(0, 3, n)]
    return pl.DataFrame(columns)


def column_files(
    folder,
    path,
    features,
    samples=(),
    *,
    n_buckets=5,
    block=70,
    bounds=None,
    dtype="f8",
    late=False,
    engine=None,
    make=make_columns,
    callback=None,
    **options,
):
    """Make the columns of the unlabelled rows of a file; gives what `read_columns` takes, and the labels."""
    engine = engine or ThreadPoolExecutor(1)
    options |= {"label": "label", "label_time": "known" if late else None}
    table = scan_edges(path, features=list(features.edges_.feature_names), **options)
    blocks = table.blocks(block)
    seen = summarise_table(engine, table, blocks)
    values = sorted(seen.labels)
    labels = LabelCodes(tuple(values), tuple(range(len(values))))
    plan = BucketPlan(features.plan_, features.edges_.time_unit, tuple(samples), dtype=dtype)
    form = RecordForm(table.n_rows, seen.clock, late, len(values), plan.plan.own)
    buckets = Buckets(str(folder), form, plan.plan.all_kinds, n_buckets, len(blocks))
    run_all(engine, partition, [PartitionTask(table, b, k, labels, buckets) for k, b in enumerate(blocks)])
    files = ColumnFiles(str(folder), bounds or (0, table.n_rows))
    tasks = [ColumnsTask(plan, buckets, files, match, k) for match in plan.matches for k in range(n_buckets)]
    run_all(engine, make, tasks, callback)
    return plan, buckets, files


__all__ = ["column_files", "read_columns", "some_table"]
