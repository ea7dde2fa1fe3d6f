"""Live scoring: as_they_come, logged, over_http, while_a_snapshot_is_written, restart."""

import asyncio
import gc
import json
import os
import subprocess
import sys
import tempfile
from contextlib import contextmanager, suppress
from pathlib import Path
from statistics import median
from time import perf_counter, process_time
from types import SimpleNamespace
from unittest.mock import patch

import numpy as np
from _bench import apart, claim, data_file, main, memory, part, wikielect
from sklearn.ensemble import HistGradientBoostingClassifier

from tdlg import LiveModel, PropagationClassifier, StreamScorer, TemporalEdges, make_payments
from tdlg.cli.serve import avoid_pauses
from tdlg.datasets import load_dataset
from tdlg.live.model import SNAPSHOT_BYTES, SNAPSHOT_EVERY
from tdlg.models.training import boosting_settings
from tdlg.serve.service import Service

BATCH, N_BATCHES, N_SINGLE = 1_000, 40, 2_000
RATE, SECONDS, WARM_UP = 1_000, 10, 1_000  # requests per second; how long; requests that are not counted
CONNECTIONS, ASKERS = 32, 50  # an asker asks for its next reasons when it has an answer
PATIENCE = 60  # seconds until a run is given up
N_FITTED = 18_000


# ---- in memory


def networks():
    os.environ["TDLG_DATA"] = str(data_file("handbook.parquet").parent)
    handbook = load_dataset("handbook", dates=True)
    found = {"wikielect": wikielect(), "handbook": handbook[np.argsort(handbook.time, kind="stable")[:300_000]]}
    return {name: edges[np.argsort(edges.time, kind="stable")] for name, edges in found.items()}


def boosting():
    return HistGradientBoostingClassifier(**boosting_settings(20_000, 100), max_bins=63, random_state=0)


def fitted(edges, two_ends):
    """A model of the first half, whose trees are trained on its last 20,000 edges to save time."""
    half = len(edges) // 2
    weight = (np.arange(half) >= half - 20_000).astype(float)
    model = PropagationClassifier(boosting(), setting="stream", two_ends=two_ends)
    return model.fit(edges[:half], edges.label.astype(float)[:half], sample_weight=weight)


def events_of(edges):
    """Edges as a service gets them."""
    times = edges.time.astype(str).tolist() if edges.time_unit else edges.time.tolist()
    columns = {"src": edges.src.tolist(), "dst": edges.dst.tolist(), "time": times}
    if edges.label is not None:
        columns["label"] = edges.label.tolist()
    if edges.features is not None:
        columns |= dict(zip(edges.feature_names, edges.features.T.tolist(), strict=True))
    rows = enumerate(zip(*columns.values(), strict=True))
    return [dict(zip(columns, row, strict=True)) | {"id": k} for k, row in rows]


def seconds(work):
    start = process_time()
    work()
    return process_time() - start


@claim(
    "100,000 events a second are scored and learnt on one core, in batches of 1,000; one in 0.2 ms.",
    OMP_NUM_THREADS="1",
)
def as_they_come(claim):
    bars = {("wikielect", False): 100e3, ("wikielect", True): 45e3, ("handbook", False): 60e3, ("handbook", True): 30e3}
    for name, edges in networks().items():
        for two_ends in (False, True):
            model, new = fitted(edges, two_ends), edges[len(edges) // 2 :]
            scorer, batches = StreamScorer(model), [new[at : at + BATCH] for at in range(0, N_BATCHES * BATCH, BATCH)]
            few = np.vstack([scorer.score_update(batch).values for batch in batches[:2]])
            assert np.abs(few - model.predict_proba(new[: 2 * BATCH])).max() < 1e-9
            rate = BATCH / median(seconds(lambda: scorer.score_update(b)) for b in batches[2:])
            with_or_without = "with" if two_ends else "without"
            n_keys = sum(sums.n for sums in scorer._engine.running._all_sums if sums is not None)
            note = f"{scorer.n_nodes:,} nodes, {scorer.nbytes / n_keys:.0f} bytes per key"
            what = f"{name}, events a second {with_or_without} similarity columns"
            claim.check(what, rate, bars[name, two_ends], at_least=True, note=note)
            events = events_of(new[N_BATCHES * BATCH : N_BATCHES * BATCH + N_SINGLE])
            one = 1e3 * median(seconds(lambda: scorer.process(scorer.read([event])[0])) for event in events)
            if two_ends:
                print(f"         {name}, milliseconds of a single event with these columns: {one:.2f}")
            else:
                claim.check(f"{name}, milliseconds of a single event", one, 0.2)


@claim(
    "Logged and learnt on one core: 60,000 rows of a table a second in batches of 1,000, 25,000 mappings; one in 150 us.",
    OMP_NUM_THREADS="1",
    NUMBA_NUM_THREADS="1",
)
def logged(claim):
    """CPU time, with the sync of a batch, but without that of a single event."""
    n = N_BATCHES * BATCH
    payments = make_payments(N_FITTED + n + N_SINGLE, random_state=0)
    edges, new = payments.edges[:N_FITTED], payments.edges[N_FITTED:].with_label(None)
    events, ids = events_of(new), list(range(len(new)))

    def median_seconds(model, learn, starts):
        with tempfile.TemporaryDirectory() as folder, LiveModel.open(folder, model) as live:
            return median(seconds(lambda: learn(live, at)) for at in starts)

    def rows(live, at):
        live.submit_table(new[at : at + BATCH], ids=ids[at : at + BATCH])

    def mappings(live, at):
        live.submit(events[at : at + BATCH])

    for two_ends in (False, True):
        model = PropagationClassifier(setting="stream", two_ends=two_ends, random_state=0)
        model.fit(edges, label_time=payments.label_time[:N_FITTED])
        for learn, bar in ((rows, 60e3), (mappings, 25e3)):
            rate = BATCH / median_seconds(model, learn, range(0, n, BATCH))
            if two_ends:
                print(f"         {learn.__name__} a second with similarity columns: {rate:,.0f}")
            else:
                claim.check(f"{learn.__name__} a second", rate, bar, at_least=True)
    with patch("tdlg.live.log.sync_file", lambda file: None):
        one = 1e6 * median_seconds(model, lambda live, at: live.submit(events[at : at + 1]), range(n, n + N_SINGLE))
    claim.check("microseconds of a single event, with similarity columns", one, 150)


# ---- over HTTP


class Connection(asyncio.Protocol):
    """One connection that is kept: a request is written, and its answer is waited for."""

    def __init__(self):
        self.answer, self._read = None, b""

    def connection_made(self, transport):
        self._transport = transport

    def ask(self, request):
        self.answer = asyncio.get_running_loop().create_future()
        self._transport.write(request)
        return self.answer

    def data_received(self, data):
        self._read += data
        head, end, body = self._read.partition(b"\r\n\r\n")
        if end and len(body) >= int(head.lower().partition(b"content-length:")[2].split(b"\r\n", 1)[0]):
            self._read = b""
            if not self.answer.done():  # nobody waits any more
                self.answer.set_result(head[:12] + body)

    def connection_lost(self, error):
        if self.answer is not None and not self.answer.done():
            self.answer.set_exception(error or ConnectionError("the service closed the connection"))


async def load(address, requests, rate):
    """Send each request at its time, whatever the answers to others do, and measure from that time on."""
    loop = asyncio.get_running_loop()
    idle, waited, statuses, running = asyncio.Queue(), np.zeros(len(requests)), set(), []
    for _ in range(CONNECTIONS):
        idle.put_nowait((await loop.create_connection(Connection, *address))[1])

    async def one(k, due):
        connection = await idle.get()
        statuses.add((await connection.ask(requests[k]))[9:12])
        waited[k] = perf_counter() - due
        idle.put_nowait(connection)

    start = perf_counter()
    async with asyncio.timeout(PATIENCE):
        for k in range(len(requests)):
            due = start + k / rate
            if (pause := due - perf_counter()) > 0:
                await asyncio.sleep(pause)
            running.append(asyncio.create_task(one(k, due)))
        await asyncio.gather(*running)
    return waited, len(requests) / (perf_counter() - start), statuses


async def load_beside_askers(address, requests, rate, questions):
    """The same while others ask; also how many questions were answered."""
    n_answered, statuses = 0, set()

    async def ask(k):
        nonlocal n_answered
        _, connection = await asyncio.get_running_loop().create_connection(Connection, *address)
        while True:
            statuses.add((await connection.ask(questions[k % len(questions)]))[9:12])
            n_answered += 1
            k += ASKERS

    _, first = await asyncio.get_running_loop().create_connection(Connection, *address)
    await first.ask(questions[0])  # which looks through the fitted edges once
    asking = [asyncio.create_task(ask(k)) for k in range(ASKERS)]
    waited, found, of_scores = await load(address, requests, rate)
    for task in asking:
        task.cancel()
    print(f"  {n_answered / SECONDS:.0f} reasons a second were given beside them")
    return waited, found, statuses | of_scores


def as_request(edges, k, host):
    event = {"id": f"p{k}", "src": str(edges.src[k]), "dst": str(edges.dst[k]), "time": str(edges.time[k])}
    body = json.dumps(event | {"amount": float(edges.features[k, 0])})
    kind = f"Content-Type: application/json\r\nContent-Length: {len(body)}"
    return f"POST /score HTTP/1.1\r\nHost: {host}\r\n{kind}\r\n\r\n{body}".encode()


@contextmanager
def serving(command):
    """The host and address of a service in a process of its own."""
    server = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        line = next(line for line in server.stderr if line.startswith("desk: "))  # the first start compiles before
        host = line.split()[1].removeprefix("http://").rstrip("/")
        assert host.startswith("127.0.0.1:")
        yield host, ("127.0.0.1", int(host.partition(":")[2]))
    finally:
        server.terminate()
        server.wait(60)


def check_load(claim, who, found, most):
    waited, rate, statuses = found
    half, p99, worst = (float(np.percentile(waited, share)) * 1000 for share in (50, 99, 100))
    claim.check(f"requests a second {who}", rate, 0.99 * RATE, at_least=True, note=f"statuses {statuses}")
    claim.check(f"99th percentile in ms {who}", p99, most, note=f"median {half:.2f}, longest {worst:.1f}")
    claim.check(f"other statuses than 200 {who}", len(statuses - {b"200"}), 0)


@claim(
    "1,000 requests a second, one event each, logged with a sync: 99 % within 10 ms, beside 50 askers within 15 ms.",
    OMP_WAIT_POLICY="PASSIVE",  # as the command does: threads of the fit must not spin
)
def over_http(claim):
    n, n_all = N_FITTED, N_FITTED + WARM_UP + 2 * RATE * SECONDS
    payments = make_payments(n_all, random_state=0)
    model = PropagationClassifier(setting="stream", random_state=0)
    model.fit(payments.edges[:n], label_time=payments.label_time[:n])
    with tempfile.TemporaryDirectory() as folder:
        model.save(Path(folder) / "model.tdlg")
        command = [sys.executable, "-m", "tdlg", "serve", f"{folder}/model.tdlg", "--state", f"{folder}/state"]
        with serving([*command, "--port", "0"]) as (host, address):
            requests = [as_request(payments.edges, k, host) for k in range(n, n_all)]
            gc.freeze()  # a collection of garbage here, of a quarter of a second, would count as waiting
            asyncio.run(load(address, requests[:WARM_UP], RATE / 2))
            alone, beside = requests[WARM_UP : WARM_UP + RATE * SECONDS], requests[WARM_UP + RATE * SECONDS :]
            of_alone = asyncio.run(load(address, alone, RATE))
            asked = range(n, n + WARM_UP)
            questions = [f"GET /explain?id=p{k} HTTP/1.1\r\nHost: {host}\r\n\r\n".encode() for k in asked]
            of_beside = asyncio.run(load_beside_askers(address, beside, RATE, questions))
    check_load(claim, "alone", of_alone, 10)
    check_load(claim, f"beside {ASKERS} askers", of_beside, 15)


@part
def serve_with_snapshots(folder: str) -> dict:
    """A service that writes a snapshot after each thousand events, or when it has finished the one before."""
    with LiveModel.open(folder, snapshot_every=WARM_UP) as live, Service(live, port=0) as service:
        avoid_pauses()
        print(f"desk: {service.url}", file=sys.stderr, flush=True)
        with suppress(KeyboardInterrupt):
            service.wait()
    return {}


def snapshots_of(folder):
    return {path.name: path.stat().st_size for path in Path(folder).rglob("snapshot-*.state")}


@claim(
    "While snapshots of 500 MB are written, 99 % of 1,000 requests a second are answered within 50 ms.",
    OMP_WAIT_POLICY="PASSIVE",
)
def while_a_snapshot_is_written(claim, n_events=2_000_000):
    with tempfile.TemporaryDirectory() as folder:
        apart(write, folder, n_events)
        before = snapshots_of(folder)
        with serving([sys.executable, sys.argv[0], "--part", "serve_with_snapshots", folder]) as (host, address):
            later = make_payments(WARM_UP + 2 * RATE * SECONDS, random_state=1).edges
            times = np.datetime64("2026-08-01") + (later.time - later.time[0])  # soon after the last event
            later = SimpleNamespace(src=later.src, dst=later.dst, time=times, features=later.features)
            requests = [as_request(later, k, host) for k in range(len(times))]
            asyncio.run(load(address, requests[:WARM_UP], RATE / 2))  # which makes the first one due
            found = asyncio.run(load(address, requests[WARM_UP:], RATE))
        written = {name: size for name, size in snapshots_of(folder).items() if name not in before}
    claim.check("snapshots that were written", len(written), 1, at_least=True)
    claim.check("megabytes of a snapshot", max(written.values(), default=0) / 1e6, 500, at_least=True)
    check_load(claim, "while they are written", found, 50)


# ---- after a crash


@part
def write(folder: str, n_events: str) -> dict:
    """Events of 200,000 customers in a year, and a snapshot; the process dies halfway to the next one, as with kill -9."""
    start, n = perf_counter(), int(n_events)
    payments = make_payments(18_000, random_state=0)
    model = PropagationClassifier(setting="stream", random_state=0)
    live = LiveModel.open(folder, model.fit(payments.edges, label_time=payments.label_time), snapshot_every=10 * n)
    rng, first, batch = np.random.default_rng(0), np.max(payments.edges.time), 10_000
    done = more = 0
    while done < n + more:
        at = 365 * 86_400 * (done + np.arange(batch)) / n
        customers = rng.integers(200_000, size=batch)
        terminals = (7 * customers + rng.integers(10, size=batch)) % 20_000
        ends = (
            np.char.add(f"{kind} ", some.astype(str))
            for kind, some in (("customer", customers), ("terminal", terminals))
        )
        amounts = {"amount": np.round(rng.lognormal(3, 1, batch), 2)}
        edges = TemporalEdges(*ends, first + at.astype("timedelta64[s]"), features=amounts, bipartite=True)
        live.submit_table(edges, ids=list(range(done, done + batch)))
        done += batch
        if done == n:
            live.snapshot()
            more = max(SNAPSHOT_EVERY, live.health()["state_bytes"] // SNAPSHOT_BYTES) // 2
    return {"seconds": perf_counter() - start, "memory": memory(peak=True)}


@part
def restarted(folder: str) -> dict:
    start = perf_counter()
    with LiveModel.open(folder) as live:
        seconds = perf_counter() - start
        return {"seconds": seconds, "n_events": live.health()["n_events"], "memory": memory(peak=True)}


@claim("A live model with 10 million events in its log is there again within 15 seconds after it was killed.")
def restart(claim, n_events=10_000_000):
    with tempfile.TemporaryDirectory() as folder:
        written = apart(write, folder, n_events)
        disk = sum(file.stat().st_size for file in Path(folder).rglob("*") if file.is_file())
        gib = f"{written['memory'] / 2**30:.2f} GiB; {disk / 2**30:.2f} GiB on disk"
        print(f"  written in {written['seconds']:.0f} s, {gib}")
        again = apart(restarted, folder)
    claim.check("seconds until it is open", again["seconds"], 15, note=f"{again['memory'] / 2**30:.2f} GiB")
    claim.check("events that it knows", again["n_events"], n_events, at_least=True)


if __name__ == "__main__":
    main()
