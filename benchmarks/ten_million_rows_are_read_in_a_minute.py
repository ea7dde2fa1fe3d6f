"""Ten million rows of csv are read and laid out in well under a minute, with integer or string ids."""

import tempfile
from pathlib import Path
from time import perf_counter

import numpy as np
import polars as pl
from _bench import Claim

from tdlg import read_edges
from tdlg.linegraph.events import build_layout

N = 10_000_000
claim = Claim(__doc__)
rng = np.random.default_rng(0)
ids = rng.integers(0, 1_000_000, (2, N))
time = rng.integers(1_500_000_000, 1_600_000_000, N)
names = pl.Series("name", [f"user-{i:07d}" for i in range(1_000_000)])
with tempfile.TemporaryDirectory() as folder:
    path = Path(folder) / "edges.csv"
    for kind in ("integer", "string"):
        src, dst = ids if kind == "integer" else (names.gather(column) for column in ids)
        pl.DataFrame({"src": src, "dst": dst, "time": time}).write_csv(path)
        size = path.stat().st_size / 1e6
        start = perf_counter()
        edges = read_edges(path)
        read = perf_counter() - start
        build_layout(edges, edges, "any")
        seconds = perf_counter() - start
        claim.check(f"{kind} ids, seconds", seconds, 45, note=f"{size:.0f} MB, {read:.1f} s of them reading; {edges}")
claim.exit()
