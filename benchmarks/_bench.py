"""What the benchmarks share: claims and how they are run, networks, interleaved timing, the floor.

A benchmark is a script of claims, functions with `@claim("what holds")` that measure and check against bars. `python
benchmarks/bench_product.py` runs all of its claims, each in a process of its own, and fails if one is missed; with the name
of a claim, and perhaps numbers, it runs that one.
"""

import gzip
import json
import os
import platform
import statistics
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from time import perf_counter, process_time

import numpy as np
from numba import jit

from tdlg import TemporalEdges
from tdlg.linegraph.events import Layout

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from limited import size_of

NOT_RUN = 77  # exit code of a claim whose data are not at hand
CLAIMS: dict[str, tuple[str, dict[str, str], Callable[..., None]]] = {}
PARTS: dict[str, Callable[..., dict]] = {}


class Claim:
    """Collects what was measured against its bar."""

    def __init__(self, sentence: str) -> None:
        self.failed = False
        print(f"{sentence}\n  {machine()}")

    def check(self, what: str, value: float, bar: float, *, at_least: bool = False, note: str = "") -> None:
        held = value >= bar if at_least else value <= bar
        self.failed |= not held
        word = "at least" if at_least else "at most"
        print(f"  {'held  ' if held else 'MISSED'} {what}: {value:.3g} ({word} {bar:g}){'; ' + note if note else ''}")


def claim(sentence: str, **environment: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Add a function to the claims of a script; variables of the environment are set before numpy is loaded."""

    def register(function: Callable[..., None]) -> Callable[..., None]:
        CLAIMS[function.__name__] = sentence, environment, function
        return function

    return register


def part(function: Callable[..., dict]) -> Callable[..., dict]:
    """Let `apart` call a function, whose arguments are text, in a process of its own."""
    PARTS[function.__name__] = function
    return function


def apart(function: Callable[..., dict], *arguments: object) -> dict:
    """What a part gives in a process of its own."""
    command = [sys.executable, sys.argv[0], "--part", function.__name__, *map(str, arguments)]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()[-1])


def main() -> None:
    """Run all claims of this script, or the one that is named, or a part."""
    match sys.argv[1:]:
        case ["--part", name, *arguments]:
            print(json.dumps(PARTS[name](*arguments)), flush=True)
            os._exit(0)  # parts may die on purpose with work to do
        case [name, *numbers] if name in CLAIMS:
            sentence, environment, function = CLAIMS[name]
            if any(os.environ.get(key) != value for key, value in environment.items()):
                os.execve(sys.executable, [sys.executable, *sys.argv], os.environ | environment)
            measured = Claim(sentence)
            function(measured, *map(int, numbers))
            sys.exit(measured.failed)
        case []:
            codes = {name: subprocess.run([sys.executable, sys.argv[0], name]).returncode for name in CLAIMS}
            missed = [name for name, code in codes.items() if code not in (0, NOT_RUN)]
            print(f"{len(codes)} claims" + (f"; missed: {', '.join(missed)}" if missed else ""))
            sys.exit(1 if missed else NOT_RUN if NOT_RUN in codes.values() else 0)
        case other:
            sys.exit(f"There is no claim {' '.join(other)!r}. The claims are: {', '.join(CLAIMS)}.")


def not_run(why: str) -> None:
    """End a claim that cannot be measured here."""
    print(f"  not run: {why}")
    sys.exit(NOT_RUN)


def machine() -> str:
    """The processor, its cores, and the versions that matter."""
    import numba

    name = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists():
        name = next((line.split(":")[1].strip() for line in info.open() if line.startswith("model name")), name)
    versions = f"Python {platform.python_version()}, numpy {np.__version__}, numba {numba.__version__}"
    return f"{name}, {os.cpu_count()} cores; {versions}"


def interleaved(works: dict[str, Callable[[], object]], repeats: int = 15) -> dict[str, float]:
    """Median seconds of each, taking turns, so that a noisy neighbour disturbs all alike; the first turn is not timed."""
    times: dict[str, list[float]] = {name: [] for name in works}
    for turn in range(repeats + 1):
        for name, work in works.items():
            start = perf_counter()
            work()
            if turn:
                times[name].append(perf_counter() - start)
    return {name: statistics.median(values) for name, values in times.items()}


def floor(layout: Layout, n_threads: int) -> Callable[[np.ndarray], np.ndarray]:
    """Touch the data and do nothing with it: gather x over the events, then gather-add the two events of each edge."""
    per_event = np.zeros(layout.n_events + 1)
    y = np.empty(layout.row_slots.shape[0])
    pool = ThreadPoolExecutor(n_threads)

    def run(x: np.ndarray) -> np.ndarray:
        for kernel, arrays, size in (
            (_gather, (layout.source.view(np.uint32), x, per_event), layout.n_events),
            (_gather_add, (layout.row_slots.view(np.uint32), per_event, y), y.size),
        ):
            cuts = [size * part // n_threads for part in range(n_threads + 1)]
            others = [pool.submit(kernel, *arrays, cuts[i], cuts[i + 1]) for i in range(1, n_threads)]
            kernel(*arrays, cuts[0], cuts[1])
            for other in others:
                other.result()
        return y

    return run


@jit(nopython=True, nogil=True)
def _gather(source, x, out, first, stop):
    for i in range(first, stop):
        out[i] = x[source[i]]


@jit(nopython=True, nogil=True)
def _gather_add(slots, per_event, y, first, stop):
    for i in range(first, stop):
        y[i] = per_event[slots[i, 0]] + per_event[slots[i, 1]]


def data_file(name: str) -> Path:
    """A real data set; where it is not at hand, the claim is not run."""
    folder = Path(os.environ.get("TDLG_DATA", Path(__file__).parents[2] / "shared" / "data"))
    if not (folder / name).exists():
        not_run(f"needs {name}; set TDLG_DATA to the folder that holds it")
    return folder / name


@cache
def wikielect() -> TemporalEdges:
    src, dst, sign, time = np.loadtxt(data_file("soc-wiki-elec.edges"), dtype=np.int64).T
    return TemporalEdges(src, dst, time, label=sign > 0)


@cache
def epinions_topology() -> TemporalEdges:
    """Who rates whom on Epinions, with the real signs, at made-up times; in the order of time, as logs are."""
    with gzip.open(data_file("soc-sign-epinions.txt.gz")) as lines:
        src, dst, sign = np.loadtxt(lines, dtype=np.int64).T
    rng = np.random.default_rng(0)
    order = rng.permutation(src.size)
    times = np.sort(rng.uniform(0, 1e8, src.size))
    return TemporalEdges(src[order], dst[order], times, label=sign[order] > 0)


def hide_labels(edges: TemporalEdges, share: float = 0.3, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Labels as 0 and 1 with a random share missing, and where."""
    hidden = np.random.default_rng(seed).permutation(len(edges))[: round(share * len(edges))]
    labels = edges.label.astype(float)
    labels[hidden] = np.nan
    return labels, hidden


def memory(peak: bool) -> int:
    """Bytes of this process now, or at most so far."""
    lines = Path("/proc/self/status").read_text().splitlines()
    name = "VmHWM:" if peak else "VmRSS:"
    return int(next(line for line in lines if line.startswith(name)).split()[1]) * 1024


def power_law(n_edges: int, exponent: float = 0.65, seed: int = 0) -> TemporalEdges:
    """A network with hubs: the r-th of n_edges / 5 nodes has a degree in proportion to r ** -exponent; unsorted times."""
    rng = np.random.default_rng(seed)
    n_nodes = n_edges // 5
    ends = (n_nodes * rng.random((2, n_edges)) ** (1 / (1 - exponent))).astype(np.int32)
    names = rng.permutation(n_nodes).astype(np.int32)
    return TemporalEdges(names[ends[0]], names[ends[1]], rng.uniform(0, 1e8, n_edges))


def star(n_edges: int) -> TemporalEdges:
    """One hub, everybody else seen once; the hub's id is in the middle, so that threads must cut it in time."""
    times = np.sort(np.random.default_rng(0).uniform(0, 1e8, n_edges))
    others = np.delete(np.arange(n_edges + 1), n_edges // 2)
    return TemporalEdges(np.full(n_edges, n_edges // 2), others, times)


def relative_error(H, x: np.ndarray, n_rows: int = 200) -> float:
    """The error of some entries of H @ x against rows written out, in units of max|x| * the largest row sum."""
    y, sums = H @ x, H.row_sums()
    rows = np.append(np.random.default_rng(3).choice(H.shape[0], n_rows, replace=False), np.argsort(sums)[-5:])
    error = max(np.abs(y[i] - H.row(i) @ x).max() for i in rows)
    return float(error / (np.abs(x).max() * sums.max()))


class Watch:
    """Seconds, processor seconds, and the largest resident memory and size of a folder, of each step of a run."""

    def __init__(self, folder: Path | None = None) -> None:
        self.steps: dict[str, dict[str, float]] = {}
        self.base_bytes = memory(peak=False)  # of the process before the work
        self._folder, self._ended = folder, threading.Event()
        self._now, self._start = "reading", (perf_counter(), process_time())
        self._thread = threading.Thread(target=self._sample)
        self._thread.start()

    def say(self, done: int, total: int, text: str) -> None:
        """A callback of `fill`."""
        name = "fitting" if text.startswith("fitting") else text
        if name != self._now:
            self._next(name)

    def end(self) -> dict[str, dict[str, float]]:
        """What was measured."""
        self._next("")
        self._ended.set()
        self._thread.join()
        return {name: step for name, step in self.steps.items() if name}

    def _step(self) -> dict[str, float]:
        return self.steps.setdefault(
            self._now, dict.fromkeys(("seconds", "cpu_seconds", "peak_bytes", "disk_bytes"), 0)
        )

    def _next(self, name: str) -> None:
        step, end = self._step(), (perf_counter(), process_time())
        step["seconds"] += end[0] - self._start[0]
        step["cpu_seconds"] += end[1] - self._start[1]
        step["peak_bytes"] = max(step["peak_bytes"], memory(peak=False))  # it may have been too short to be looked at
        self._now, self._start = name, end

    def _sample(self) -> None:
        turn = 0
        while not self._ended.wait(0.1):
            step, turn = self._step(), turn + 1
            step["peak_bytes"] = max(step["peak_bytes"], memory(peak=False))
            if self._folder is not None and turn % 10 == 0:  # there may be thousands of files
                step["disk_bytes"] = max(step["disk_bytes"], size_of(self._folder))


def work_folder(output: Path) -> Path:
    """Where `fill` has its temporary files, by default."""
    return output.with_name(f".{output.name}.tdlg-work")
