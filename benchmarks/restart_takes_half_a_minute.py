"""A live model with 10 million events in its log is there again within 30 seconds after it was killed."""

import json
import os
import sys
import tempfile
from pathlib import Path
from time import perf_counter

import numpy as np
from _bench import Claim, in_a_process_of_its_own, memory

from tdlg import PropagationClassifier, make_payments
from tdlg.live.model import SNAPSHOT_EVERY, LiveModel

N_EVENTS = 10_000_000
BATCH = 10_000
N_CUSTOMERS, N_TERMINALS = 200_000, 20_000
N_USUAL = 10  # terminals of a customer, so that there are 2 million pairs
DAYS = 365


def write(folder: Path, n_events: int) -> None:
    """Submit the events, and die halfway to the next snapshot, so that there is something to replay."""
    start = perf_counter()
    payments = make_payments(18_000, random_state=0)
    model = PropagationClassifier(setting="stream", random_state=0)
    model.fit(payments.edges, label_time=payments.label_time)
    live = LiveModel.open(folder, model)
    rng = np.random.default_rng(0)
    first = np.max(payments.edges.time)
    for done in range(0, n_events + SNAPSHOT_EVERY // 2, BATCH):
        seconds = DAYS * 86_400 * (done + np.arange(BATCH)) / n_events
        times = (first + seconds.astype("timedelta64[s]")).astype(str).tolist()
        customers = rng.integers(N_CUSTOMERS, size=BATCH)
        terminals = (7 * customers + rng.integers(N_USUAL, size=BATCH)) % N_TERMINALS
        amounts = np.round(rng.lognormal(3, 1, BATCH), 2)
        live.submit(
            [
                {"id": done + k, "src": f"customer {c}", "dst": f"terminal {t}", "time": when, "amount": amount}
                for k, (c, t, when, amount) in enumerate(
                    zip(customers.tolist(), terminals.tolist(), times, amounts.tolist(), strict=True)
                )
            ]
        )
    print(json.dumps({"seconds": perf_counter() - start, "memory": memory(peak=True)}), flush=True)
    os._exit(0)  # nothing is closed, as with kill -9


def restart(folder: Path) -> None:
    start = perf_counter()
    with LiveModel.open(folder) as live:
        seconds = perf_counter() - start
        replayed = live.health()["n_events"]
    print(json.dumps({"seconds": seconds, "n_events": replayed, "memory": memory(peak=True)}))


def main() -> None:
    n_events = int(os.environ.get("TDLG_N_EVENTS", N_EVENTS))
    claim = Claim(f"{__doc__} {n_events:,} events, a snapshot every {SNAPSHOT_EVERY:,}.")
    with tempfile.TemporaryDirectory() as folder:
        written = in_a_process_of_its_own(__file__, "write", folder, str(n_events))
        disk = sum(file.stat().st_size for file in Path(folder).rglob("*") if file.is_file())
        print(
            f"  written in {written['seconds']:.0f} s, {written['memory'] / 2**30:.2f} GiB; {disk / 2**30:.2f} GiB on disk"
        )
        again = in_a_process_of_its_own(__file__, "restart", folder)
    claim.check("seconds until it is open", again["seconds"], 30, note=f"{again['memory'] / 2**30:.2f} GiB")
    claim.check("events that it knows", again["n_events"], n_events, at_least=True)
    claim.exit()


if sys.argv[1:2] == ["write"]:
    write(Path(sys.argv[2]), int(sys.argv[3]))
elif sys.argv[1:2] == ["restart"]:
    restart(Path(sys.argv[2]))
else:
    main()
