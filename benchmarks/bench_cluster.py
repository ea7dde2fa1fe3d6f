"""A Dask cluster does the work of threads: shares_the_work."""

import statistics
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import polars as pl
from _bench import claim, main

from tdlg import PropagationClassifier, memory, scan_edges, write_payments
from tdlg.engines.executors import opened_engine

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from cluster import Cluster, forget_peak_memory, risen_memory

FEW_ROWS = 20_000  # to learn from: the fit is the same for all engines, and not what is measured
STEPS = ("reading", "sorting into buckets", "looking at nodes", "making columns", "fitting", "scoring", "writing")


def run(path, output, engine):
    """Seconds of each step, and processor seconds of this process and of all workers."""
    seconds, last = dict.fromkeys(STEPS, 0.0), ["reading", time.perf_counter()]

    def said(done, total, text):
        now = time.perf_counter()
        seconds[next(step for step in STEPS if last[0].startswith(step))] += now - last[1]
        last[:] = text, now

    def spent():
        workers = engine._client.run(time.process_time).values() if hasattr(engine, "_client") else ()
        return time.process_time(), sum(workers)

    before, edges = spent(), scan_edges(path, label="fraud")
    PropagationClassifier(random_state=0).fill(edges, output, memory="4GB", engine=engine, callback=said)
    said(0, 1, "")
    after = spent()
    clocks = {"processor": sum(after) - sum(before), "of the workers": after[1] - before[1]}
    return seconds | {"all": sum(seconds.values())} | clocks


@claim("A cluster over TCP does the work of threads at little additional cost, and two workers share it evenly.")
def shares_the_work(claim, n_edges=2_000_000, turns=3):
    memory.MOST_LEARNT = memory.LEAST_LEARNT = FEW_ROWS
    with tempfile.TemporaryDirectory(prefix="tdlg-cluster-") as name, ExitStack() as stack:
        home = Path(name)
        write_payments(home / "payments.parquet", n_edges, random_state=0, hubs=1)
        write_payments(home / "few.parquet", 20_000, random_state=0)
        engines = {"local, 1 thread": ThreadPoolExecutor(1), "local, 2 threads": ThreadPoolExecutor(2)}
        for n_workers in (1, 2):
            (home / f"cluster-{n_workers}").mkdir()
            cluster = stack.enter_context(Cluster(home / f"cluster-{n_workers}", n_workers))
            engine = stack.enter_context(opened_engine(cluster.address))
            engine._client.wait_for_workers(n_workers)
            engines[f"cluster, {n_workers} worker{'s' * (n_workers - 1)}"] = engine
        found = {name: [] for name in engines}
        for turn in range(turns + 1):  # the first one loads the kernels, on few payments
            for which, engine in engines.items():
                path = home / ("payments.parquet" if turn else "few.parquet")
                measured = run(path, home / f"{which}.parquet", engine)
                if turn:
                    found[which].append(measured)
                elif hasattr(engine, "_client"):
                    engine._client.run(forget_peak_memory)
        answers = [
            pl.read_parquet(home / f"{which}.parquet")["probability"].drop_nulls().to_numpy() for which in engines
        ]
        peaks = {w: max(e._client.run(risen_memory).values()) for w, e in engines.items() if hasattr(e, "_client")}
    median = {w: {k: statistics.median(m[k] for m in some) for k in some[0]} for w, some in found.items()}
    print(f"  {'microseconds per edge':24}" + "".join(f"{w:>20}" for w in median))
    for step in (*STEPS, "all", "processor", "of the workers"):
        print(f"  {step:24}" + "".join(f"{1e6 * m[step] / n_edges:20.2f}" for m in median.values()))
    print("  bytes that a worker grew by, per edge: " + ", ".join(f"{w}: {p / n_edges:.0f}" for w, p in peaks.items()))
    one, two = median["cluster, 1 worker"], median["cluster, 2 workers"]
    claim.check("largest difference of the answers", max(np.abs(a - answers[0]).max() for a in answers), 1e-10)
    over = one["processor"] / median["local, 1 thread"]["processor"]
    claim.check("processor time of one worker and the client over threads'", over, 1.4)
    claim.check("processor time of two workers over that of one", two["processor"] / one["processor"], 1.3)
    share = peaks["cluster, 2 workers"] / peaks["cluster, 1 worker"]
    claim.check("peak memory of a worker of two over that of one", share, 0.9)
    shared = [step for step in STEPS if step not in ("fitting", "writing")]
    faster = sum(one[step] for step in shared) / sum(two[step] for step in shared)
    claim.check("two workers faster than one, in the steps that workers do", faster, 1.4, at_least=True)


if __name__ == "__main__":
    main()
