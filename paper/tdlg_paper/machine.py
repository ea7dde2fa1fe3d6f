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

__all__ = ["QUIET", "Session", "Watch"]

QUIET = 0.1  # largest share of the cores that other processes may have taken for measured seconds to count as fair


@dataclass(frozen=True)
class Session:
    """One run of a recipe that added rows: on which machine, with which versions, beside how much other work.

    `others` is the share of the machine's cores that other processes took meanwhile; empty if the system does not report it.
    """

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
        self._session = Session(
            recipe=recipe,
            started=datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%S"),
            rows="0",
            others="",
            processor=_processor(),
            cores=str(os.cpu_count() or 1),
            threads=os.environ.get("TDLG_NUM_THREADS", "all"),
            memory_gib=_memory_gib(),
            system=f"{platform.system()} {platform.machine()}",
            python=platform.python_version(),
            numpy=version("numpy"),
            scipy=version("scipy"),
            sklearn=version("scikit-learn"),
            numba=version("numba"),
            tdlg=__version__,
        )

    def session(self, rows: int) -> Session:
        """Return the session so far, with the number of rows that it added."""
        return replace(self._session, rows=str(rows), others=self._others())

    def _others(self) -> str:
        elapsed, busy = perf_counter() - self._clock, _busy_seconds()
        if self._all is None or busy is None or elapsed <= 0:
            return ""
        foreign = (busy - self._all) - (_own_seconds() - self._own)
        return f"{min(max(foreign / elapsed / (os.cpu_count() or 1), 0.0), 1.0):.2f}"


def _own_seconds() -> float:
    """Seconds that this process and its finished children have worked."""
    of_children = os.times()
    return process_time() + of_children.children_user + of_children.children_system


def _busy_seconds() -> float | None:
    """Seconds that all cores together have worked since the machine started; Linux only."""
    try:
        line = Path("/proc/stat").read_text(encoding="utf-8").partition("\n")[0]
        user, nice, system, _idle, _wait, irq, softirq, steal = map(int, line.split()[1:9])
    except (OSError, ValueError):
        return None
    return (user + nice + system + irq + softirq + steal) / float(os.sysconf("SC_CLK_TCK"))


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.machine())


def _memory_gib() -> str:
    try:
        pages, size = os.sysconf("SC_PHYS_PAGES"), os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):
        return ""
    return str(round(pages * size / 2**30))
