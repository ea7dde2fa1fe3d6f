"""Tables that are larger than memory: payments_on_disk, memory_beside_disk, within_two_gigabytes, info_predicts.

`bench_files.py payments_on_disk 1000000 10000000 100000000` is the full run of the first claim: an hour of both cores,
25 GB of disk in the folder that TDLG_SCRATCH names, else in the system's temporary one. What it measured is added to
results/scale.csv, from which `docs/make_scale.py` makes the table and the plot.
"""

import csv
import os
import sys
import tempfile
from pathlib import Path
from statistics import median
from time import perf_counter

import numpy as np
from _bench import Watch, apart, claim, machine, main, memory, part, power_law, work_folder

from tdlg import LineGraph, PropagationClassifier, scan_edges, write_payments
from tdlg.memory import free_bytes
from tdlg.models.fits import MOST_IN_MEMORY

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from limited import run_limited

RESULTS = Path(__file__).parents[1] / "results" / "scale.csv"
FIELDS = ["what", "n_edges", "seconds", "cpu_seconds", "peak_bytes", "base_bytes", "disk_bytes", "machine"]
FIFTY = "50 products"  # about what the paper's classifier needs for few vectors; its solver does little else
SMALLER = (30_000, 100_000, 300_000)  # edges, for the line graph beside its matrix
EXPLICIT = 1_200_000_000  # entries of the matrix up to which it is built: 15 GB
LIMIT = 2 * 2**30


@part
def classified(table: str, output: str, limit: str, *features: str) -> dict:
    """Classify payments, and watch memory and disk."""
    watch = Watch(work_folder(Path(output)))
    edges = scan_edges(table, label="fraud", features=list(features))
    PropagationClassifier(random_state=0).fill(edges, output, memory=int(limit), callback=watch.say)
    return {"steps": watch.end(), "peak_bytes": memory(peak=True), "base_bytes": watch.base_bytes}


@part
def multiplied(n_edges: str) -> dict:
    """Lay out a power-law network and multiply 50 times by its line graph."""
    LineGraph(power_law(1000)).to_csr()  # compiled
    LineGraph(power_law(1000)) @ np.ones(1000)
    watch, edges = Watch(), power_law(int(n_edges))
    _ = edges.src_code
    x = np.random.default_rng(1).normal(size=len(edges))
    entries = float((np.bincount(np.concatenate([edges.src_code, edges.dst_code])).astype(float) ** 2).sum())
    watch.say(0, 1, "layout")
    H = LineGraph(edges)
    watch.say(0, 1, FIFTY)
    for _ in range(50):
        x = H @ x
        x /= np.abs(x).max()
    peak = memory(peak=True)
    if entries < EXPLICIT:
        watch.say(0, 1, "explicit matrix")
        H.to_csr()
    steps = watch.end()
    del steps["reading"]
    steps["product"] = steps[FIFTY] | {name: steps[FIFTY][name] / 50 for name in ("seconds", "cpu_seconds")}
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


@claim("Payments are classified in a time per edge that hardly grows, a hundred million of them in 4.5 minutes.")
def payments_on_disk(claim, *sizes):
    per_edge = {"classify": [], "layout": [], "product": []}
    for n_edges in SMALLER:
        keep("products", n_edges, apart(multiplied, n_edges))
    with tempfile.TemporaryDirectory(dir=os.environ.get("TDLG_SCRATCH")) as scratch:
        for n_edges in sizes or (1_000_000, 5_000_000):
            path = Path(scratch) / f"payments-{n_edges}.parquet"
            write_payments(path, n_edges, 0, hubs=10)
            found = apart(classified, path, f"{scratch}/out.parquet", int(0.6 * free_bytes()))
            path.unlink()
            keep("classify", n_edges, found)
            steps = found["steps"].values()
            seconds, cpu = (sum(step[name] for step in steps) for name in ("seconds", "cpu_seconds"))
            disk = max(step["disk_bytes"] for step in steps) / n_edges
            per_edge["classify"].append(cpu / n_edges * 1e6)
            print(f"  {n_edges:>11,} payments: {seconds:.0f} s, {per_edge['classify'][-1]:.1f} processor us each")
            print(f"              {in_words(found['steps'])}; temporary files {disk:.0f} bytes per edge")
            claim.check("memory, GiB", found["peak_bytes"] / 2**30, 24)
            if n_edges >= 10**8:
                claim.check("minutes", seconds / 60, 4.5)
            found = apart(multiplied, n_edges)
            keep("products", n_edges, found)
            for step in ("layout", "product"):
                per_edge[step].append(found["steps"][step]["cpu_seconds"] / n_edges)
            print(f"              line graph of as many edges, power law, {found['entries']:.3g} entries:")
            print(f"              {in_words(found['steps'])}")
    for what, values in per_edge.items():
        claim.check(f"{what}: processor time per edge, largest against smallest", values[-1] / values[0], 2.5)


@claim(
    "Below the size at which tables go to disk, memory with similarity features takes at most twice the processor time."
)
def memory_beside_disk(claim, n_edges=MOST_IN_MEMORY, turns=1):
    found = {"in memory": [], "on disk": []}
    with tempfile.TemporaryDirectory(dir=os.environ.get("TDLG_SCRATCH")) as scratch:
        table, output = Path(scratch) / "payments.parquet", Path(scratch) / "out.parquet"
        write_payments(table, n_edges, 0, hubs=10)
        command = [sys.executable, "-m", "tdlg", "classify", table, "--label", "fraud", "-o", output, "--quiet"]
        for _ in range(turns):
            for name, asked in zip(found, (["--two-ends"], ["--memory", str(free_bytes() // 2)]), strict=True):
                start = perf_counter()
                ended = run_limited([*map(str, command), *asked], free_bytes(), work_folder(output))
                seconds = perf_counter() - start
                claim.check(f"{name}: exit code", abs(ended.code), 0)
                found[name].append(ended.cpu_seconds)
                spent = (
                    f"{seconds:.0f} s, {ended.cpu_seconds:.0f} processor seconds, {ended.peak_bytes / 2**30:.2f} GiB"
                )
                print(f"  {n_edges:,} payments {name}: {spent}")
                output.unlink()
    claim.check("memory over disk", median(found["in memory"]) / median(found["on disk"]), 2)


@claim("Thirty million payments are classified within 2 GiB of resident memory, above which the process is killed.")
def within_two_gigabytes(claim, n_edges=30_000_000):
    with tempfile.TemporaryDirectory(dir=os.environ.get("TDLG_SCRATCH")) as scratch:
        table, output = Path(scratch) / "payments.parquet", Path(scratch) / "out.parquet"
        write_payments(table, n_edges, 0, hubs=10)
        command = [sys.executable, "-m", "tdlg", "classify", str(table), "--label", "fraud", "--memory", "2GB"]
        ended = run_limited([*command, "-o", str(output)], LIMIT, work_folder(output))
        claim.check("exit code", abs(ended.code), 0)
        claim.check("largest resident memory, GiB", ended.peak_bytes / 2**30, LIMIT / 2**30)
        claim.check("files left behind", len(list(Path(scratch).glob(".*"))), 0)
        print(f"  {ended.cpu_seconds:.0f} processor seconds for {n_edges:,} payments")
        print(f"  {ended.disk_bytes / n_edges:.0f} bytes of temporary files per edge at their peak")


@claim("`tdlg info` predicts memory and temporary files of classify on disk within a factor of two. Limit of 4 GB.")
def info_predicts(claim, *sizes):
    from tdlg.engines.executors import opened_engine
    from tdlg.engines.run import MemoryLimits
    from tdlg.engines.table import summarise_table
    from tdlg.models.files import needs_of_file

    with tempfile.TemporaryDirectory(dir=os.environ.get("TDLG_SCRATCH")) as scratch:
        for n_edges in sizes or (1_000_000, 3_000_000, 10_000_000):
            path, features = Path(scratch) / "payments.parquet", ["amount"] if n_edges == 3_000_000 else []
            write_payments(path, n_edges, 0, hubs=10)
            edges = scan_edges(path, label="fraud", features=features)
            with opened_engine(None) as threads:
                seen = summarise_table(threads, edges, edges.blocks(500_000))
                limits = MemoryLimits.of(threads, 4 * 10**9)
            needs = needs_of_file(edges, seen, sum(seen.missing), 2, limits)
            found = apart(classified, path, f"{scratch}/out.parquet", 4 * 10**9, *features)
            disk = max(step["disk_bytes"] for step in found["steps"].values())
            print(f"  {n_edges:,} payments, features: {features}; {disk / n_edges:.0f} bytes per edge")
            for name, said, value in (("memory", needs.memory, found["peak_bytes"]), ("files", needs.disk, disk)):
                both = f"predicted {said / 1e9:.3g} GB, measured {value / 1e9:.3g} GB"
                claim.check(f"{name}, either way", max(said / value, value / said), 2, note=both)


if __name__ == "__main__":
    main()
