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
from pathlib import Path

from _bench import CLASSIFIED, Claim, Watch, in_a_process_of_its_own, machine, memory, power_law

RESULTS = Path(__file__).parents[1] / "results" / "scale.csv"
FIELDS = ["what", "n_edges", "seconds", "cpu_seconds", "peak_bytes", "base_bytes", "disk_bytes", "machine"]
MOST_SECONDS, GROWTH, MOST_MEMORY = 2400, 2.5, 24 * 2**30
FIFTY = "50 products"  # about what the paper's classifier needs for few vectors; its solver does little else
SMALLER = (30_000, 100_000, 300_000)  # edges, for the line graph beside its matrix
EXPLICIT = 1_200_000_000  # entries of the matrix up to which it is built: 15 GB


def multiplied(n_edges: int, n_products: int = 50) -> dict:
    """Lay out a power-law network and multiply by its line graph; in a process of its own."""
    import numpy as np

    from tdlg import LineGraph

    LineGraph(power_law(1000)).to_csr()  # compiled
    LineGraph(power_law(1000)) @ np.ones(1000)
    watch = Watch()
    edges = power_law(n_edges)
    _ = edges.src_code
    x = np.random.default_rng(1).normal(size=n_edges)
    degree = np.bincount(np.concatenate([edges.src_code, edges.dst_code])).astype(float)
    watch.say(0, 1, "layout")
    H = LineGraph(edges)
    watch.say(0, 1, FIFTY)
    for _ in range(n_products):
        x = H @ x
        x /= np.abs(x).max()
    peak = memory(peak=True)
    if (degree**2).sum() < EXPLICIT:
        watch.say(0, 1, "explicit matrix")
        H.to_csr()
    steps = watch.end()
    del steps["reading"]
    steps["product"] = steps[FIFTY] | {name: steps[FIFTY][name] / n_products for name in ("seconds", "cpu_seconds")}
    if n_products != 50:
        del steps[FIFTY]
    entries = float((degree**2).sum())
    return {"steps": steps, "peak_bytes": peak, "base_bytes": watch.base_bytes, "entries": entries}


def keep(what: str, n_edges: int, found: dict) -> None:
    """Add rows to the results: one per step, and one for all."""
    every = [step for name, step in found["steps"].items() if name != "product"]  # which is one of the 50
    total = {name: sum(step[name] for step in every) for name in ("seconds", "cpu_seconds")}
    total |= {"peak_bytes": found["peak_bytes"], "disk_bytes": max(step["disk_bytes"] for step in every)}
    with RESULTS.open("a", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        for name, step in {**found["steps"], f"all {what}": total}.items():
            row = {"what": name, "n_edges": n_edges, "base_bytes": found["base_bytes"], **step}
            row |= {field: f"{step[field]:.4g}" for field in ("seconds", "cpu_seconds")}
            writer.writerow([*(row[field] for field in FIELDS[:-1]), machine().partition(";")[0]])


def in_words(steps: dict) -> str:
    return ", ".join(f"{name} {step['seconds']:.3g} s" for name, step in steps.items())


def main(sizes: list[int]) -> None:
    from tdlg import write_payments
    from tdlg.memory import free_bytes

    claim = Claim(__doc__.partition("\n")[0])
    per_edge: dict[str, list[float]] = {"classify": [], "layout": [], "product": []}
    for n_edges in SMALLER:
        keep("products", n_edges, in_a_process_of_its_own(__file__, "multiplied", str(n_edges)))
    with tempfile.TemporaryDirectory(dir=os.environ.get("TDLG_SCRATCH")) as scratch:
        for n_edges in sizes:
            path = Path(scratch) / f"payments-{n_edges}.parquet"
            write_payments(path, n_edges, 0, hubs=10)
            limit = str(int(0.6 * free_bytes()))
            found = in_a_process_of_its_own(CLASSIFIED, str(path), f"{scratch}/out.parquet", limit)
            path.unlink()
            keep("classify", n_edges, found)
            steps = found["steps"].values()
            seconds, cpu = (sum(step[name] for step in steps) for name in ("seconds", "cpu_seconds"))
            per_edge["classify"].append(cpu / n_edges * 1e6)
            print(f"  {n_edges:>11,} payments: {seconds:.0f} s, {per_edge['classify'][-1]:.1f} processor us each")
            print(f"              {in_words(found['steps'])}")
            disk = max(step["disk_bytes"] for step in steps)
            print(f"              temporary files at their peak: {disk / n_edges:.0f} bytes per edge")
            claim.check("memory, GiB", found["peak_bytes"] / 2**30, MOST_MEMORY / 2**30)
            if n_edges >= 10**8:
                claim.check("minutes", seconds / 60, MOST_SECONDS / 60)
            found = in_a_process_of_its_own(__file__, "multiplied", str(n_edges))
            keep("products", n_edges, found)
            for step in ("layout", "product"):
                per_edge[step].append(found["steps"][step]["cpu_seconds"] / n_edges)
            print(f"              line graph of as many edges, power law, {found['entries']:.3g} entries:")
            print(f"              {in_words(found['steps'])}")
    for what, values in per_edge.items():
        claim.check(f"{what}: processor time per edge, largest against smallest", values[-1] / values[0], GROWTH)
    claim.exit()


if sys.argv[1:2] == ["multiplied"]:
    print(json.dumps(multiplied(*map(int, sys.argv[2:]))))
else:
    main([int(text) for text in sys.argv[1:]] or [1_000_000, 5_000_000])
