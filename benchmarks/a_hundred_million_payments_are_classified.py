"""Payments are classified in a time per edge that hardly grows, up to a hundred million in forty minutes.

Without arguments, 1 and 5 million payments. `python a_hundred_million_payments_are_classified.py 1000000 10000000 100000000`
is the full run: an hour of both cores, 25 GB of disk in the folder that TDLG_SCRATCH names, else in the system's temporary
one. What was measured is added to results/scale.csv, from which `docs/make_scale.py` makes the table and the plot.
"""

import csv
import json
import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

from _bench import Claim, in_a_process_of_its_own, machine, memory, power_law

RESULTS = Path(__file__).parents[1] / "results" / "scale.csv"
FIELDS = ["what", "n_edges", "seconds", "cpu_seconds", "peak_bytes", "disk_bytes", "machine"]
MOST_SECONDS, GROWTH, MOST_DISK, MOST_MEMORY = 2400, 2.5, 200, 24 * 2**30
PRODUCTS = 5  # of the 50 that a classifier with few vectors needs; the rest takes as long each
SMALLER = (30_000, 100_000, 300_000)  # edges, for the line graph beside its matrix
EXPLICIT = 300_000_000  # entries of the matrix up to which it is built


class Stages:
    """Seconds and processor seconds of each step."""

    def __init__(self) -> None:
        self.found: dict[str, list[float]] = {}
        self._now, self._start = "", (0.0, 0.0)
        self._next("reading")

    def _next(self, name: str) -> None:
        end = perf_counter(), process_time()
        if self._now:
            each = self.found.setdefault(self._now, [0.0, 0.0])
            for k in (0, 1):
                each[k] += end[k] - self._start[k]
        self._now, self._start = name, end

    def say(self, done: int, total: int, text: str) -> None:
        name = "fitting" if text.startswith("fitting") else text
        if name != self._now:
            self._next(name)

    def end(self) -> dict[str, list[float]]:
        self._next("")
        return self.found


def classified(n_edges: int, folder: Path) -> dict:
    """Classify payments of which the labels of the last tenth are missing; in a process of its own."""
    from tdlg import PropagationClassifier, classify_file
    from tdlg.memory import free_bytes

    path = folder / f"payments-{n_edges}.parquet"
    limit = int(0.6 * free_bytes())
    stages = Stages()
    options = {"model": PropagationClassifier(random_state=0), "memory": limit, "callback": stages.say}
    answer = classify_file(path, folder / "out.parquet", label="fraud", **options)
    sizes = {"peak_bytes": memory(peak=True), "disk_bytes": answer.disk_bytes, "limit": limit}
    return {"stages": stages.end(), **sizes}


def multiplied(n_edges: int) -> dict:
    """Lay out a power-law network and multiply by its line graph; in a process of its own."""
    import numpy as np

    from tdlg import LineGraph

    edges = power_law(n_edges)
    _ = edges.src_code
    stages: dict[str, list[float]] = {}

    def timed(name: str, work: Callable[[], Any]) -> Any:
        start = perf_counter(), process_time()
        result = work()
        stages[name] = [perf_counter() - start[0], process_time() - start[1]]
        return result

    LineGraph(power_law(1000)) @ np.ones(1000)  # compiled
    x = np.random.default_rng(1).normal(size=n_edges)
    H = timed("layout", lambda: LineGraph(edges))
    timed("product", lambda: [H @ x for _ in range(PRODUCTS)])
    stages["product"] = [part / PRODUCTS for part in stages["product"]]
    peak = memory(peak=True)
    degree = np.bincount(np.concatenate([edges.src_code, edges.dst_code])).astype(float)
    if (degree**2).sum() < EXPLICIT:
        timed("explicit matrix", H.to_csr)
    return {"stages": stages, "peak_bytes": peak, "disk_bytes": 0, "entries": float((degree**2).sum())}


def keep(what: str, n_edges: int, found: dict) -> None:
    """Add rows to the results: one per step, and one for all."""
    total = [sum(each[k] for each in found["stages"].values()) for k in (0, 1)]
    new = not RESULTS.exists()
    with RESULTS.open("a", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        if new:
            writer.writerow(FIELDS)
        for name, (seconds, cpu) in {**found["stages"], f"all {what}": total}.items():
            sizes = found["peak_bytes"], found["disk_bytes"]
            writer.writerow([name, n_edges, f"{seconds:.4g}", f"{cpu:.4g}", *sizes, machine().partition(";")[0]])


def main(sizes: list[int]) -> None:
    from tdlg import write_payments
    from tdlg.cli.cost import large_cost

    claim = Claim(__doc__.partition("\n")[0])
    per_edge = []
    for n_edges in SMALLER:
        keep("products", n_edges, in_a_process_of_its_own(__file__, "multiplied", str(n_edges)))
    with tempfile.TemporaryDirectory(dir=os.environ.get("TDLG_SCRATCH")) as scratch:
        for n_edges in sizes:
            path = Path(scratch) / f"payments-{n_edges}.parquet"
            write_payments(path, n_edges, 0, hubs=10)
            found = in_a_process_of_its_own(__file__, "classified", str(n_edges), scratch)
            path.unlink()
            keep("classify", n_edges, found)
            seconds = sum(each[0] for each in found["stages"].values())
            per_edge.append(seconds / n_edges * 1e6)
            steps = ", ".join(f"{name} {each[0]:.3g} s" for name, each in found["stages"].items())
            print(f"  {n_edges:>11,} payments: {seconds:.0f} s, {per_edge[-1]:.1f} us each ({steps})")
            claim.check("bytes of temporary files per edge", found["disk_bytes"] / max(n_edges, 10**6), MOST_DISK)
            claim.check("memory, GiB", found["peak_bytes"] / 2**30, MOST_MEMORY / 2**30)
            cost = large_cost(n_edges, n_edges // 10, 0, found["limit"])
            measured = {"seconds": seconds, "memory": found["peak_bytes"], "disk": found["disk_bytes"]}
            for name, value in measured.items():
                ratio = getattr(cost, name) / value
                claim.check(
                    f"{name}, predicted against measured, either way", max(ratio, 1 / ratio), 2, note=f"{ratio:.2f}"
                )
            if n_edges >= 10**8:
                claim.check("minutes", seconds / 60, MOST_SECONDS / 60)
            found = in_a_process_of_its_own(__file__, "multiplied", str(n_edges))
            keep("products", n_edges, found)
            steps = ", ".join(f"{name} {each[0]:.3g} s" for name, each in found["stages"].items())
            print(f"              line graph of as many edges, power law: {steps}; {found['entries']:.3g} entries")
            print(f"              50 products, by the mean of {PRODUCTS}: {50 * found['stages']['product'][0]:.0f} s")
    claim.check("time per edge, largest against smallest", per_edge[-1] / per_edge[0], GROWTH)
    claim.exit()


if sys.argv[1:2] == ["classified"]:
    print(json.dumps(classified(int(sys.argv[2]), Path(sys.argv[3]))))
elif sys.argv[1:2] == ["multiplied"]:
    print(json.dumps(multiplied(int(sys.argv[2]))))
else:
    main([int(text) for text in sys.argv[1:]] or [1_000_000, 5_000_000])
