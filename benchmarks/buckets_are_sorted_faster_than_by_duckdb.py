"""Payments are sorted by customer, terminal and pair, each by time too, in less processor time and memory than by DuckDB.

    python benchmarks/buckets_are_sorted_faster_than_by_duckdb.py [edges ...]

This is what classify needs of a file. Both read the same parquet file of payments with text ids, by default 10 million rows,
and write records of a row number, a 64-bit key, the time and the label, sorted by key and time: tdlg by way of bucket files,
each of which is then sorted in memory, and DuckDB with a limit of 2 GB and two threads, to uncompressed parquet files. Each
works in a process of its own, which has sorted a few rows before, so that all libraries are loaded. They take turns; the
medians of three turns are compared. Without DuckDB (`pip install duckdb`, which tdlg does not need) the claim is not run.
"""

import json
import os
import shutil
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from time import perf_counter, process_time

from _bench import NOT_RUN, Claim, in_a_process_of_its_own, memory, size_of

MEMORY = 2_000_000_000
BLOCK, BUCKET = 500_000, 500_000  # rows, as for classify
COLUMNS = {"dst": "terminal", "src": "customer", "pair": "customer, terminal"}  # the columns of each kind of keys
KEYS, TURNS = (1, 3), 3  # the numbers of keys; how often each is measured


def by_buckets(table: Path, folder: Path, n_keys: int) -> None:
    from tdlg.engines.buckets import Buckets, PartitionTask, RecordForm, partition
    from tdlg.engines.executors import run_all
    from tdlg.engines.summary import LabelCodes, summarise
    from tdlg.engines.table import scan_edges

    edges = scan_edges(table, label="fraud")
    blocks, engine = edges.blocks(BLOCK), ThreadPoolExecutor(2)
    clock = summarise(engine, edges, blocks[:1] + blocks[-1:]).clock  # the payments are in the order of time
    form, n_buckets = RecordForm(edges.n_rows, clock, False, 2), -(-edges.n_rows // BUCKET)
    buckets = Buckets(str(folder), form, tuple(COLUMNS)[:n_keys], n_buckets, len(blocks))
    labels = LabelCodes((0, 1), (0, 1))
    run_all(engine, partition, [PartitionTask(edges, block, k, labels, buckets) for k, block in enumerate(blocks)])
    run_all(engine, sort_bucket, [(buckets, kind, number) for kind in buckets.kinds for number in range(n_buckets)])


def sort_bucket(task) -> None:
    """Sort as for columns and products."""
    import numpy as np

    from tdlg._kernels.layout import factorise_integers, place_symmetric
    from tdlg.engines.files import read_split

    buckets, kind, number = task
    records = read_split(buckets.paths(kind), range(number, number + 1))
    keys = np.ascontiguousarray(records["key"]).view(np.int64)
    ids, codes, _ = factorise_integers(keys, keys[:0])
    order = place_symmetric(codes[:, np.newaxis], len(ids), records["tick"].astype(np.int64))[0]
    np.take(records, order).tofile(f"{buckets.folder}/sorted-{kind}-{number:06d}")


def by_duckdb(table: Path, folder: Path, n_keys: int) -> None:
    import duckdb

    options = {"memory_limit": f"{MEMORY // 10**6}MB", "threads": 2, "temp_directory": str(folder / "spill")}
    database = duckdb.connect(config=options)
    for kind, columns in list(COLUMNS.items())[:n_keys]:
        database.execute(
            f"COPY (SELECT file_row_number::UINTEGER AS row, hash({columns}) AS key, time, fraud "
            f"FROM read_parquet('{table}', file_row_number = true) ORDER BY key, time) "
            f"TO '{folder}/sorted-{kind}.parquet' (FORMAT parquet, COMPRESSION uncompressed)"
        )


WAYS = {"buckets": by_buckets, "duckdb": by_duckdb}


def measured(way: str, table: Path, folder: Path, n_keys: int) -> dict[str, float]:
    (folder / "few").mkdir()
    WAYS[way](table.with_name("few.parquet"), folder / "few", n_keys)
    shutil.rmtree(folder / "few")
    start = perf_counter(), process_time()
    WAYS[way](table, folder, n_keys)
    spent = {"seconds": perf_counter() - start[0], "cpu_seconds": process_time() - start[1]}
    return spent | {"peak_bytes": memory(peak=True), "disk_bytes": size_of(folder)}


def in_a_folder(way: str, table: Path, n_keys: int) -> dict[str, float]:
    with tempfile.TemporaryDirectory(dir=table.parent) as folder:
        return in_a_process_of_its_own(__file__, way, str(table), folder, str(n_keys))


def main(numbers: list[int]) -> None:
    from tdlg import write_payments

    claim = Claim(__doc__.partition("\n")[0])
    if find_spec("duckdb") is None:
        print("  not run: needs duckdb")
        sys.exit(NOT_RUN)
    for n_edges in numbers:
        with tempfile.TemporaryDirectory(dir=os.environ.get("TDLG_SCRATCH")) as scratch:
            table = Path(scratch) / "payments.parquet"
            write_payments(table, n_edges, 0, hubs=10)
            write_payments(table.with_name("few.parquet"), 2000, 0)
            for n_keys in KEYS:
                turns = [{way: in_a_folder(way, table, n_keys) for way in WAYS} for _ in range(TURNS)]
                found = {w: {k: median(turn[w][k] for turn in turns) for k in turns[0][w]} for w in WAYS}
                for way, some in found.items():
                    words = f"{some['cpu_seconds']:.1f} processor seconds ({some['seconds']:.1f} on the wall)"
                    sizes = f"{some['peak_bytes'] / 1e9:.2f} GB of memory, {some['disk_bytes'] / n_edges:.0f} bytes per edge"
                    print(f"  {n_edges:,} payments, {n_keys} keys, {way}: {words}, {sizes}")
                ours, its = found["buckets"], found["duckdb"]
                claim.check("processor time over DuckDB's", ours["cpu_seconds"] / its["cpu_seconds"], 1)
                claim.check("memory over DuckDB's", ours["peak_bytes"] / its["peak_bytes"], 1)
    claim.exit()


if sys.argv[1:2] and sys.argv[1] in WAYS:
    print(json.dumps(measured(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]), int(sys.argv[4]))))
else:
    main([int(text) for text in sys.argv[1:]] or [10_000_000])
