"""Thirty million payments are classified within 2 GiB of resident memory, and 200 bytes of temporary files per edge.

`python thirty_million_payments_fit_in_two_gigabytes.py 3000000` tries fewer. The files are in the folder that TDLG_SCRATCH
names, else in the system's temporary one.
"""

import os
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

from _bench import Claim

from tdlg import write_payments

LIMIT = 2 * 2**30
n_edges = int(sys.argv[1]) if len(sys.argv) > 1 else 30_000_000


def size_of(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.glob("*")) if folder.exists() else 0


claim = Claim(__doc__.partition("\n")[0])
with tempfile.TemporaryDirectory(dir=os.environ.get("TDLG_SCRATCH")) as scratch:
    table, output = Path(scratch) / "payments.parquet", Path(scratch) / "out.parquet"
    write_payments(table, n_edges, 0, hubs=10)
    command = [
        sys.executable,
        "-m",
        "tdlg",
        "classify",
        str(table),
        "--label",
        "fraud",
        "--memory",
        "2GB",
        "-o",
        str(output),
    ]
    work = subprocess.Popen(command)
    sizes, ended = [0], threading.Event()

    def watch() -> None:
        while not ended.wait(0.5):
            try:
                sizes.append(size_of(output.with_name(f".{output.name}.tdlg-work")))
            except FileNotFoundError:
                continue  # a file was renamed or removed meanwhile

    watcher = threading.Thread(target=watch)
    watcher.start()
    _, status, usage = os.wait4(work.pid, 0)
    work.returncode = os.waitstatus_to_exitcode(status)
    ended.set()
    watcher.join()
    claim.check("exit code", work.returncode, 0)
    claim.check("largest resident memory, GiB", usage.ru_maxrss * 1024 / 2**30, LIMIT / 2**30)
    claim.check("temporary files, bytes per edge", max(sizes) / max(n_edges, 10**6), 200)
    claim.check("files left behind", len(list(Path(scratch).glob(".*"))), 0)
    print(f"  {usage.ru_utime + usage.ru_stime:.0f} processor seconds for {n_edges:,} payments")
claim.exit()
