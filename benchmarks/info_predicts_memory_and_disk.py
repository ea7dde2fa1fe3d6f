"""`tdlg info` predicts what classify takes on disk within a factor of two: memory, temporary files.

    python benchmarks/info_predicts_memory_and_disk.py [edges ...]

By default 1, 3 and 10 million payments with a limit of 4 GB, those of 3 million with the amount as a feature. Memory and the
size of the temporary files are watched while the work is done; the bytes of temporary files per edge are shown.
"""

import os
import sys
import tempfile
from pathlib import Path

from _bench import CLASSIFIED, Claim, in_a_process_of_its_own

from tdlg import scan_edges, write_payments
from tdlg.engines.executors import opened_engine
from tdlg.engines.run import Limits
from tdlg.engines.summary import summarise
from tdlg.models.files import needs_of_file

MEMORY = 4_000_000_000
FEATURES = {3_000_000: ["amount"]}


def main(sizes: list[int]) -> None:
    claim = Claim(__doc__.partition("\n")[0])
    with tempfile.TemporaryDirectory(dir=os.environ.get("TDLG_SCRATCH")) as scratch:
        for n_edges in sizes:
            path, features = Path(scratch) / "payments.parquet", FEATURES.get(n_edges, [])
            write_payments(path, n_edges, 0, hubs=10)
            edges = scan_edges(path, label="fraud", features=features)
            with opened_engine(None) as threads:
                seen, limits = summarise(threads, edges, edges.blocks(500_000)), Limits.of(threads, MEMORY)
            needs = needs_of_file(edges, seen, sum(seen.missing), 2, limits)
            found = in_a_process_of_its_own(CLASSIFIED, str(path), f"{scratch}/out.parquet", str(MEMORY), *features)
            disk = max(step["disk_bytes"] for step in found["steps"].values())
            print(f"  {n_edges:,} payments, features: {', '.join(features) or 'none'}")
            print(f"         temporary files at their peak: {disk / n_edges:.0f} bytes per edge")
            for name, predicted, value in (
                ("memory, GB", needs.memory, found["peak_bytes"]),
                ("temporary files, GB", needs.disk, disk),
            ):
                both = f"predicted {predicted / 1e9:.3g}, measured {value / 1e9:.3g}"
                claim.check(f"{name}, either way", max(predicted / value, value / predicted), 2, note=both)
    claim.exit()


if __name__ == "__main__":
    main([int(text) for text in sys.argv[1:]] or [1_000_000, 3_000_000, 10_000_000])
