"""Payments are sorted by terminal and time, within 2 GB of memory, in no more processor time than DuckDB's sort takes.

    python benchmarks/buckets_are_sorted_as_fast_as_by_duckdb.py [edges ...]

Both read the same parquet file of payments with text ids, by default 10 million rows, and write records of a row number, a
64-bit key of the terminal, the time and the label, sorted by key and time: tdlg by way of bucket files, each of which is
then sorted in memory, and DuckDB with a limit of 2 GB and two threads, to an uncompressed parquet file. Each works in a
process of its own. Without DuckDB (`pip install duckdb`, which tdlg does not need) the claim is not run.
"""

import json
import os
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path
from time import perf_counter, process_time

from _bench import NOT_RUN, Claim, in_a_process_of_its_own, memory, size_of

MEMORY = 2_000_000_000
BLOCK, BUCKET = 500_000, 500_000  # rows, as for classify


def by_buckets(table: Path, folder: Path) -> None:
    from tdlg.engines.buckets import Buckets, PartitionTask, RecordForm, partition
    from tdlg.engines.local import Local
    from tdlg.engines.statistics import Labels, look
    from tdlg.engines.table import InputTable

    edges = InputTable.open(table, {"src": None, "dst": None, "time": None, "label": "fraud"})
    blocks, engine = edges.blocks(BLOCK), Local(2)
    clock = look(engine, edges, blocks).clock
    form, n_buckets = RecordForm(edges.n_rows, clock, False, 2), -(-edges.n_rows // BUCKET)
    buckets = Buckets(str(folder), form, ("dst",), n_buckets, len(blocks))
    labels = Labels((0, 1), (0, 1))
    engine.map(partition, [PartitionTask(edges, block, k, labels, buckets) for k, block in enumerate(blocks)])
    engine.map(sort_bucket, [(buckets, k, str(folder / f"sorted-{k:06d}")) for k in range(n_buckets)])


def sort_bucket(task) -> None:
    import numpy as np

    from tdlg.engines.split_file import read_split

    buckets, number, path = task
    records = read_split(buckets.paths("dst"), range(number, number + 1))
    order = np.lexsort((records["tick"], records["key"]))
    records[order].tofile(path)


def by_duckdb(table: Path, folder: Path) -> None:
    import duckdb

    options = {"memory_limit": f"{MEMORY // 10**6}MB", "threads": 2, "temp_directory": str(folder / "spill")}
    duckdb.connect(config=options).execute(
        "COPY (SELECT file_row_number::UINTEGER AS row, hash(terminal) AS key, time, fraud "
        f"FROM read_parquet('{table}', file_row_number = true) ORDER BY key, time) "
        f"TO '{folder}/sorted.parquet' (FORMAT parquet, COMPRESSION uncompressed)"
    )


def measured(way: str, table: Path, folder: Path) -> dict[str, float]:
    start = perf_counter(), process_time()
    {"buckets": by_buckets, "duckdb": by_duckdb}[way](table, folder)
    spent = {"seconds": perf_counter() - start[0], "cpu_seconds": process_time() - start[1]}
    return spent | {"peak_bytes": memory(peak=True), "disk_bytes": size_of(folder)}


def main(sizes: list[int]) -> None:
    from tdlg import write_payments

    claim = Claim(__doc__.partition("\n")[0])
    if find_spec("duckdb") is None:
        print("  not run: needs duckdb")
        sys.exit(NOT_RUN)
    for n_edges in sizes:
        with tempfile.TemporaryDirectory(dir=os.environ.get("TDLG_SCRATCH")) as scratch:
            table, found = Path(scratch) / "payments.parquet", {}
            write_payments(table, n_edges, 0, hubs=10)
            for way in ("buckets", "duckdb"):
                (Path(scratch) / way).mkdir()
                found[way] = in_a_process_of_its_own(__file__, way, str(table), f"{scratch}/{way}")
                some = found[way]
                print(
                    f"  {n_edges:,} payments, {way}: {some['seconds']:.1f} s, {some['cpu_seconds']:.1f} processor seconds, "
                    f"{some['peak_bytes'] / 1e9:.2f} GB of memory, {some['disk_bytes'] / n_edges:.0f} bytes on disk per edge"
                )
            ours, its = found["buckets"], found["duckdb"]
            claim.check("processor time over DuckDB's", ours["cpu_seconds"] / its["cpu_seconds"], 1)
            claim.check("memory, GB", ours["peak_bytes"] / 1e9, MEMORY / 1e9)
    claim.exit()


if sys.argv[1:2] in (["buckets"], ["duckdb"]):
    print(json.dumps(measured(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]))))
else:
    main([int(text) for text in sys.argv[1:]] or [10_000_000])
