"""`tdlg info` predicts what classify takes by way of files within a factor of two: processor time, memory, temporary files.

    python benchmarks/info_predicts_time_memory_and_disk.py [edges ...]

By default 1, 3 and 10 million payments with a limit of 4 GB, those of 3 million with the amount as a feature. Memory and the
size of the temporary files are watched while the work is done. Seconds on the wall are shown beside those predicted for two
free cores, and are not checked, because other work may be going on.
"""

import os
import sys
import tempfile
from pathlib import Path

from _bench import CLASSIFIED, Claim, in_a_process_of_its_own

from tdlg import write_payments
from tdlg.cli.cost import file_cost
from tdlg.cli.files import shape_of
from tdlg.engines.executors import opened_engine
from tdlg.engines.summary import summarise
from tdlg.engines.table import InputTable

MEMORY = 4_000_000_000
FEATURES = {3_000_000: ["amount"]}


def main(sizes: list[int]) -> None:
    claim = Claim(__doc__.partition("\n")[0])
    with tempfile.TemporaryDirectory(dir=os.environ.get("TDLG_SCRATCH")) as scratch:
        for n_edges in sizes:
            path, features = Path(scratch) / "payments.parquet", FEATURES.get(n_edges, [])
            write_payments(path, n_edges, 0, hubs=10)
            table = InputTable.open(path, {"src": None, "dst": None, "time": None, "label": "fraud"}, (features, []))
            with opened_engine(None) as threads:
                seen = summarise(threads, table, table.blocks(500_000))
            cost = file_cost(shape_of(table, seen, sum(seen.missing), len(seen.labels)), MEMORY)
            found = in_a_process_of_its_own(CLASSIFIED, str(path), f"{scratch}/out.parquet", str(MEMORY), *features)
            steps = found["steps"].values()
            cpu, seconds = (sum(step[name] for step in steps) for name in ("cpu_seconds", "seconds"))
            disk = max(step["disk_bytes"] for step in steps)
            print(f"  {n_edges:,} payments, features: {', '.join(features) or 'none'}")
            load = f"load {os.getloadavg()[0]:.1f}"
            print(f"         on the wall: predicted {cost.seconds:.0f} s, measured {seconds:.0f} s ({load})")
            for name, predicted, value, unit in (
                ("processor seconds", cost.cpu_seconds, cpu, 1),
                ("memory, GB", cost.memory, found["peak_bytes"], 1e9),
                ("temporary files, GB", cost.disk, disk, 1e9),
            ):
                both = f"predicted {predicted / unit:.3g}, measured {value / unit:.3g}"
                claim.check(f"{name}, either way", max(predicted / value, value / predicted), 2, note=both)
            claim.check("temporary files at their peak, bytes per edge", disk / n_edges, 200)
    claim.exit()


if __name__ == "__main__":
    main([int(text) for text in sys.argv[1:]] or [1_000_000, 3_000_000, 10_000_000])
