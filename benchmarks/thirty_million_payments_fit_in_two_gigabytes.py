"""Thirty million payments are classified within 2 GiB of resident memory.

The process is killed as soon as it has more memory. `python thirty_million_payments_fit_in_two_gigabytes.py 3000000` tries
fewer payments. The files are in the folder that TDLG_SCRATCH names, else in the system's temporary one.
"""

import os
import sys
import tempfile
from pathlib import Path

from _bench import Claim, work_folder

from tdlg import write_payments

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from limited import run_limited

LIMIT = 2 * 2**30
n_edges = int(sys.argv[1]) if len(sys.argv) > 1 else 30_000_000

claim = Claim(__doc__.partition("\n")[0])
with tempfile.TemporaryDirectory(dir=os.environ.get("TDLG_SCRATCH")) as scratch:
    table, output = Path(scratch) / "payments.parquet", Path(scratch) / "out.parquet"
    write_payments(table, n_edges, 0, hubs=10)
    options = ["--label", "fraud", "--memory", "2GB", "-o", str(output)]
    ended = run_limited([sys.executable, "-m", "tdlg", "classify", str(table), *options], LIMIT, work_folder(output))
    claim.check("exit code", abs(ended.code), 0)
    claim.check("largest resident memory, GiB", ended.peak_bytes / 2**30, LIMIT / 2**30)
    claim.check("files left behind", len(list(Path(scratch).glob(".*"))), 0)
    print(f"  {ended.cpu_seconds:.0f} processor seconds for {n_edges:,} payments")
    print(f"  {ended.disk_bytes / n_edges:.0f} bytes of temporary files per edge at their peak")
claim.exit()
