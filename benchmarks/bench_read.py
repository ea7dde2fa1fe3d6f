"""Files are read, and sorted into buckets.

ten_million_rows, buckets_beside_duckdb
"""

import os
import shutil
import tempfile
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from time import perf_counter, process_time

import numpy as np
import polars as pl
from _bench import apart, claim, main, memory, not_run, part, size_of

from tdlg import read_edges, scan_edges, write_payments
from tdlg.linegraph.events import build_layout

BLOCK, BUCKET = 500_000, 500_000  # rows, as for classify
COLUMNS = {"dst": "terminal", "src": "customer", "pair": "customer, terminal"}  # the columns of each kind of keys
TURNS = 3


@claim("Ten million rows of csv are read and laid out in well under a minute, with integer or string ids.")
def ten_million_rows(claim, n=10_000_000):
    rng = np.random.default_rng(0)
    ids, time = rng.integers(0, 1_000_000, (2, n)), rng.integers(1_500_000_000, 1_600_000_000, n)
    names = pl.Series("name", [f"user-{i:07d}" for i in range(1_000_000)])
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "edges.csv"
        for kind in ("integer", "string"):
            src, dst = ids if kind == "integer" else (names.gather(column) for column in ids)
            pl.DataFrame({"src": src, "dst": dst, "time": time}).write_csv(path)
            start = perf_counter()
            edges = read_edges(path)
            read = perf_counter() - start
            build_layout(edges, edges, "any")
            note = f"{path.stat().st_size / 1e6:.0f} MB, {read:.1f} s of them reading; {edges}"
            claim.check(f"{kind} ids, seconds", perf_counter() - start, 45, note=note)


def by_buckets(table, folder, n_keys):
    from tdlg.engines.buckets import Buckets, PartitionTask, RecordForm, partition
    from tdlg.engines.executors import run_all
    from tdlg.engines.table import LabelCodes, summarise_table

    edges = scan_edges(table, label="fraud")
    blocks, engine = edges.blocks(BLOCK), ThreadPoolExecutor(2)
    clock = summarise_table(engine, edges, blocks[:1] + blocks[-1:]).clock  # the payments are in the order of time
    form, n_buckets = RecordForm(edges.n_rows, clock, False, 2), -(-edges.n_rows // BUCKET)
    buckets = Buckets(str(folder), form, tuple(COLUMNS)[:n_keys], n_buckets, len(blocks))
    labels = LabelCodes((0, 1), (0, 1))
    run_all(engine, partition, [PartitionTask(edges, block, k, labels, buckets) for k, block in enumerate(blocks)])
    run_all(engine, sort_bucket, [(buckets, kind, number) for kind in buckets.kinds for number in range(n_buckets)])


def sort_bucket(task):
    """Sort as for columns and products."""
    from tdlg._kernels.layout import factorise_integers, place_symmetric
    from tdlg.engines.files import read_split

    buckets, kind, number = task
    records = read_split(buckets.paths(kind), range(number, number + 1))
    keys = np.ascontiguousarray(records["key"]).view(np.int64)
    ids, codes, _ = factorise_integers(keys, keys[:0])
    order = place_symmetric(codes[:, np.newaxis], len(ids), records["tick"].astype(np.int64))[0]
    np.take(records, order).tofile(f"{buckets.folder}/sorted-{kind}-{number:06d}")


def by_duckdb(table, folder, n_keys):
    import duckdb

    options = {"memory_limit": "2000MB", "threads": 2, "temp_directory": str(folder / "spill")}
    database = duckdb.connect(config=options)
    for kind, columns in list(COLUMNS.items())[:n_keys]:
        database.execute(
            f"COPY (SELECT file_row_number::UINTEGER AS row, hash({columns}) AS key, time, fraud "
            f"FROM read_parquet('{table}', file_row_number = true) ORDER BY key, time) "
            f"TO '{folder}/sorted-{kind}.parquet' (FORMAT parquet, COMPRESSION uncompressed)"
        )


@part
def is_sorted_by(way: str, table: str, n_keys: str) -> dict:
    """Seconds and bytes of one way; it sorts a few rows before, so that all libraries are loaded."""
    work = {"buckets": by_buckets, "duckdb": by_duckdb}[way]
    with tempfile.TemporaryDirectory(dir=Path(table).parent) as name:
        (few := Path(name) / "few").mkdir()
        work(Path(table).with_name("few.parquet"), few, int(n_keys))
        shutil.rmtree(few)
        start = perf_counter(), process_time()
        work(Path(table), Path(name), int(n_keys))
        spent = {"seconds": perf_counter() - start[0], "cpu_seconds": process_time() - start[1]}
        return spent | {"peak_bytes": memory(peak=True), "disk_bytes": size_of(Path(name))}


@claim("Payments are sorted by key and time, for one and three keys, in less processor time and memory than by DuckDB.")
def buckets_beside_duckdb(claim, n_edges=10_000_000):
    if find_spec("duckdb") is None:
        not_run("needs duckdb")
    with tempfile.TemporaryDirectory(dir=os.environ.get("TDLG_SCRATCH")) as scratch:
        table = Path(scratch) / "payments.parquet"
        write_payments(table, n_edges, 0, hubs=10)
        write_payments(table.with_name("few.parquet"), 2000, 0)
        for n_keys in (1, 3):
            ways = ("buckets", "duckdb")
            turns = [{way: apart(is_sorted_by, way, table, n_keys) for way in ways} for _ in range(TURNS)]
            found = {w: {k: median(turn[w][k] for turn in turns) for k in turns[0][w]} for w in turns[0]}
            for way, some in found.items():
                words = f"{some['cpu_seconds']:.1f} processor seconds ({some['seconds']:.1f} on the wall)"
                print(f"  {n_edges:,} payments, {n_keys} keys, {way}: {words}")
                print(
                    f"    {some['peak_bytes'] / 1e9:.2f} GB of memory, {some['disk_bytes'] / n_edges:.0f} bytes per edge"
                )
            ours, its = found["buckets"], found["duckdb"]
            claim.check("processor time over DuckDB's", ours["cpu_seconds"] / its["cpu_seconds"], 1)
            claim.check("memory over DuckDB's", ours["peak_bytes"] / its["peak_bytes"], 1)


if __name__ == "__main__":
    main()
