"""A new process has its first product soon, also where nothing was ever compiled."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from time import perf_counter

from _bench import Claim

CODE = """
import numpy as np
from tdlg import LineGraph, TemporalEdges
rng = np.random.default_rng(0)
edges = TemporalEdges(rng.integers(0, 1000, 50_000), rng.integers(0, 1000, 50_000), rng.uniform(0, 1, 50_000))
LineGraph(edges) @ rng.normal(size=50_000)
"""
claim = Claim(f"{__doc__} 50,000 edges; the whole process is timed.")
with tempfile.TemporaryDirectory() as cache:
    seconds = []
    for _ in range(4):
        start = perf_counter()
        subprocess.run([sys.executable, "-c", CODE], check=True, env={**os.environ, "NUMBA_CACHE_DIR": cache})
        seconds.append(perf_counter() - start)
    kernels = len(list(Path(cache).rglob("*.nbc")))
claim.check("seconds, never compiled", seconds[0], 40, note=f"{kernels} kernels were compiled")
claim.check("seconds, kernels cached", sorted(seconds[1:])[1], 1.5)
claim.exit()
