"""The service scores and logs 1,000 requests a second, one event each: 99 % within 10 ms, beside 50 askers within 15 ms."""

import asyncio
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from time import perf_counter

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # as the command does: threads of the fit must not spin

import numpy as np
from _bench import Claim

from tdlg import PropagationClassifier, make_payments

RATE = 1_000  # requests per second
SECONDS = 10
WARM_UP = 1_000  # requests that are not counted
CONNECTIONS = 32
ASKERS = 50  # clients that ask for reasons without end, each for its next one when it has an answer
PATIENCE = 60  # seconds until a run is given up
N_FITTED, N_PAYMENTS = 18_000, 18_000 + WARM_UP + 2 * RATE * SECONDS


class Connection(asyncio.Protocol):
    """One connection that is kept: a request is written, and its answer is waited for."""

    def __init__(self) -> None:
        self.answer: asyncio.Future[bytes] | None = None
        self._read = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def ask(self, request: bytes) -> "asyncio.Future[bytes]":
        self.answer = asyncio.get_running_loop().create_future()
        self._transport.write(request)  # type: ignore[attr-defined]
        return self.answer

    def data_received(self, data: bytes) -> None:
        self._read += data
        head, end, body = self._read.partition(b"\r\n\r\n")
        if end and len(body) >= int(head.lower().partition(b"content-length:")[2].split(b"\r\n", 1)[0]):
            self._read = b""
            self.answer.set_result(head[:12] + body)

    def connection_lost(self, error: Exception | None) -> None:
        if self.answer is not None and not self.answer.done():
            self.answer.set_exception(error or ConnectionError("the service closed the connection"))


async def load(host: str, port: int, requests: list[bytes], rate: float) -> tuple[np.ndarray, float, set[bytes]]:
    """Send each request at its time, whatever the answers to others do, and measure from that time on."""
    loop = asyncio.get_running_loop()
    idle: asyncio.Queue[Connection] = asyncio.Queue()
    for _ in range(CONNECTIONS):
        idle.put_nowait((await loop.create_connection(Connection, host, port))[1])
    waited = np.zeros(len(requests))
    statuses = set()

    async def one(k: int, due: float) -> None:
        connection = await idle.get()
        answer = await connection.ask(requests[k])
        waited[k] = perf_counter() - due
        statuses.add(answer[9:12])
        idle.put_nowait(connection)

    start, running = perf_counter(), []
    async with asyncio.timeout(PATIENCE):
        for k in range(len(requests)):
            due = start + k / rate
            if (pause := due - perf_counter()) > 0:
                await asyncio.sleep(pause)
            running.append(asyncio.create_task(one(k, due)))
        await asyncio.gather(*running)
    return waited, len(requests) / (perf_counter() - start), statuses


async def load_beside_askers(
    host: str, port: int, requests: list[bytes], rate: float, questions: list[bytes]
) -> tuple[np.ndarray, float, set[bytes], int]:
    """The same while others ask; also how many questions were answered."""
    loop, n_answered, statuses = asyncio.get_running_loop(), 0, set()

    async def ask(k: int) -> None:
        nonlocal n_answered
        _, connection = await loop.create_connection(Connection, host, port)
        while True:
            statuses.add((await connection.ask(questions[k % len(questions)]))[9:12])
            n_answered += 1
            k += ASKERS

    asking = [asyncio.create_task(ask(k)) for k in range(ASKERS)]
    waited, found, of_scores = await load(host, port, requests, rate)
    for task in asking:
        task.cancel()
    return waited, found, statuses | of_scores, n_answered


def as_request(payments, k: int, host: str) -> bytes:
    edges = payments.edges
    ends = {"src": str(edges.src[k]), "dst": str(edges.dst[k]), "time": str(edges.time[k])}
    body = json.dumps({"id": f"p{k}", **ends, "amount": float(edges.features[k, 0])}).encode()
    head = (
        f"POST /score HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


def main() -> None:
    payments = make_payments(N_PAYMENTS, random_state=0)
    n = N_FITTED
    model = PropagationClassifier(setting="stream", random_state=0)
    model.fit(payments.edges[:n], label_time=payments.label_time[:n])
    claim = Claim(f"{__doc__} Loopback, a sync of the log per batch, {CONNECTIONS} connections, both cores.")
    with tempfile.TemporaryDirectory() as folder:
        model.save(Path(folder) / "model.tdlg")
        command = [
            sys.executable,
            "-m",
            "tdlg",
            "serve",
            f"{folder}/model.tdlg",
            "--state",
            f"{folder}/state",
            "--port",
            "0",
        ]
        server = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        try:
            host = server.stderr.readline().split()[1].removeprefix("http://").rstrip("/")
            address, _, port = host.partition(":")
            assert address == "127.0.0.1"
            requests = [as_request(payments, k, host) for k in range(n, N_PAYMENTS)]
            asyncio.run(load(address, int(port), requests[:WARM_UP], RATE / 2))
            alone, beside = np.split(np.arange(WARM_UP, len(requests)), 2)
            waited, rate, statuses = asyncio.run(load(address, int(port), [requests[k] for k in alone], RATE))
            questions = [
                f"GET /explain?id=p{n + k} HTTP/1.1\r\nHost: {host}\r\n\r\n".encode()
                for k in range(0, len(requests), 7)
            ]
            late = load_beside_askers(address, int(port), [requests[k] for k in beside], RATE, questions[:1000])
            waited_beside, rate_beside, statuses_beside, n_answered = asyncio.run(late)
        finally:
            server.terminate()
            server.wait(30)
    for waiting, per_second, found, most, who in (
        (waited, rate, statuses, 10, "alone"),
        (waited_beside, rate_beside, statuses_beside, 15, f"beside {ASKERS} askers"),
    ):
        median, p99, worst = (float(np.percentile(waiting, share)) * 1000 for share in (50, 99, 100))
        claim.check(f"requests a second {who}", per_second, 0.99 * RATE, at_least=True, note=f"statuses {found}")
        claim.check(f"99th percentile in ms {who}", p99, most, note=f"median {median:.2f}, longest {worst:.1f}")
        claim.check(f"other statuses than 200 {who}", len(found - {b"200"}), 0)
    print(f"  {n_answered / SECONDS:.0f} reasons a second were given beside them")
    claim.exit()


main()
