"""The machine that rows were measured on, and how busy other processes kept it."""

from __future__ import annotations

import os
import platform
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from time import perf_counter, process_time

from tdlg import __version__

QUIET = 0.1  # largest share of the cores that other processes may have taken for measured seconds to count as fair


@dataclass(frozen=True)
class Session:
    """One run of a recipe that added rows; `others` is the share of the cores that other processes took, if known."""

    recipe: str
    started: str
    rows: str
    others: str
    processor: str
    cores: str
    threads: str
    memory_gib: str
    system: str
    python: str
    numpy: str
    scipy: str
    sklearn: str
    numba: str
    tdlg: str

    @property
    def key(self) -> tuple[str, str]:
        """What identifies a session."""
        return self.recipe, self.started

    @property
    def is_quiet(self) -> bool:
        """Whether other processes are known to have taken few of the cores."""
        return bool(self.others) and float(self.others) <= QUIET


class Watch:
    """Measures wall time, the CPU time of this process with its children, and that of all, from the start of a recipe."""

    def __init__(self, recipe: str) -> None:
        self._clock, self._own, self._all = perf_counter(), _own_seconds(), _busy_seconds()
        memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 0
        self._session = Session(
            recipe,
            datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%S"),
            "0",
            "",
            _processor(),
            str(os.cpu_count() or 1),
            os.environ.get("TDLG_NUM_THREADS", "all"),
            str(round(memory / 2**30)) if memory else "",
            f"{platform.system()} {platform.machine()}",
            platform.python_version(),
            version("numpy"),
            version("scipy"),
            version("scikit-learn"),
            version("numba"),
            __version__,
        )

    def session(self, rows: int) -> Session:
        """The session so far, with the number of rows that it added."""
        elapsed, busy, cores = perf_counter() - self._clock, _busy_seconds(), os.cpu_count() or 1
        if self._all is None or busy is None or elapsed <= 0:
            return replace(self._session, rows=str(rows))
        share = ((busy - self._all) - (_own_seconds() - self._own)) / elapsed / cores
        return replace(self._session, rows=str(rows), others=f"{min(max(share, 0.0), 1.0):.2f}")


def _own_seconds() -> float:
    """Seconds that this process and its finished children have worked."""
    of_children = os.times()
    return process_time() + of_children.children_user + of_children.children_system


def _busy_seconds() -> float | None:
    """Seconds that all cores together have worked since the machine started; Linux only."""
    try:
        line = Path("/proc/stat").read_text(encoding="utf-8").partition("\n")[0]
    except OSError:
        return None
    user, nice, system, _idle, _wait, irq, softirq, steal = map(int, line.split()[1:9])
    return (user + nice + system + irq + softirq + steal) / float(os.sysconf("SC_CLK_TCK"))


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.machine())
