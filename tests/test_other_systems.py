"""What another system lacks: a process in which Linux's own calls are gone does all the same work.

It stands in for macOS, which is Unix without /proc, fdatasync and affinity. Windows cannot be played on Linux: its locks and
file names are tried by the workflow in .github/ alone.
"""

import subprocess
import sys

import pytest

OTHER_SYSTEM = """
import fcntl, os, sys
import numba, polars, scipy.sparse, skops.io, sklearn.ensemble  # which know this system as it is

sys.platform = "darwin"
for name in ("fdatasync", "sched_getaffinity", "sched_setaffinity", "posix_fadvise", "copy_file_range", "memfd_create"):
    if hasattr(os, name):
        delattr(os, name)
fcntl.F_FULLFSYNC = fcntl.F_GETFD
def forbid(event, arguments):
    if event in ("open", "os.listdir", "os.scandir", "os.readlink") and str(arguments[0]).startswith(("/proc", "/sys")):
        if arguments[0] != "/proc/self/maps":  # threadpoolctl's, which took this system for Linux when it was loaded
            raise FileNotFoundError(arguments[0])
    if event == "os.fork":
        raise RuntimeError("fork")
sys.addaudithook(forbid)

import numpy as np
import tdlg
from tdlg.cli import main
from tdlg import LiveModel

folder = sys.argv.pop()
payments = tdlg.make_payments(1500, random_state=2)
edges = payments.known_at("2025-06-01")
model = tdlg.PropagationClassifier(setting="stream", random_state=0).fit(edges)
model.save(folder + "/model.tdlg")
event = {"src": "customer 1", "dst": "terminal 2", "amount": 5.0}
with LiveModel.open(folder + "/state", model, alerts_per_day=5) as live:
    for k in range(30):
        live.submit([{**event, "id": f"e{k}", "time": f"2025-07-01T{k % 24:02}:00:00"}])
    live.snapshot()
    live.submit([{**event, "id": "late", "time": "2025-07-03"}])
with LiveModel.open(folder + "/state") as live:
    assert live.submit([{**event, "id": "late", "time": "2025-07-03"}])[0].repeated
tdlg.write_payments(folder + "/payments.csv", 1500, random_state=2)
sys.argv[1:] = ["classify", folder + "/payments.csv", "--label", "fraud", "-o", folder + "/filled.csv", "--memory", "1GB"]
try:
    main()
except SystemExit as done:
    assert not done.code, done.code
assert open(folder + "/filled.csv").readline().count(",") >= 4
"""


@pytest.mark.needs("time")
def test_a_system_without_the_calls_of_linux(tmp_path):
    done = subprocess.run([sys.executable, "-c", OTHER_SYSTEM, tmp_path], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
