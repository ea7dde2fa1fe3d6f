"""Memory and cores: what this process can use of the machine, and what tables in memory need."""

from __future__ import annotations

import os
import re
import sys
from bisect import bisect_right
from pathlib import Path
from typing import Any, NamedTuple

from tdlg.exceptions import ParameterError

LEAST_MEMORY = 1_000_000_000  # bytes with which a table can be worked on on disk
MOST_TWO_ENDS = 20_000_000  # rows up to which similarity features are made
MOST_LEARNT, LEAST_LEARNT = 1_000_000, 300_000  # rows that trees learn from; between them, a tenth of the table
FEW_CELLS = 2_000_000  # numbers to learn from, up to which threads would mostly wait for each other
UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12, "ki": 2**10, "mi": 2**20, "gi": 2**30, "ti": 2**40}

CGROUPS = (  # files of limit and usage, and the part of the usage that can be reclaimed: cgroups version 2 and 1
    ("memory.max", "memory.current", "memory.stat", "inactive_file"),
    ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes", "memory/memory.stat", "total_inactive_file"),
)


def free_bytes(system: Path = Path("/")) -> int:
    """Free memory in bytes, within the limit of the container if there is one."""
    return min(_free_in_system(system / "proc/meminfo"), _free_in_container(system / "sys/fs/cgroup"))


def _free_in_system(meminfo: Path) -> int:
    try:
        return _numbers_in(meminfo)["MemAvailable:"] * 1024
    except (OSError, KeyError, ValueError):  # not Linux: half of the physical memory, to leave room for other programs
        names = ("SC_PHYS_PAGES", "SC_PAGE_SIZE")
        pages, page = map(os.sysconf, names) if hasattr(os, "sysconf") else (2**21, 4096)
        return pages * page // 2


def _free_in_container(cgroup: Path) -> int:
    for limit, use, stat, reclaimable in CGROUPS:
        try:
            used = int((cgroup / use).read_text()) - _numbers_in(cgroup / stat)[reclaimable]
            return max(0, int((cgroup / limit).read_text()) - used)
        except (OSError, KeyError, ValueError):  # this version of cgroups is not present, or the limit is "max"
            continue
    return sys.maxsize


def _numbers_in(file: Path) -> dict[str, int]:
    """The numbers in a file with one name and one number per line."""
    lines = (line.split() for line in file.read_text().splitlines())
    return {words[0]: int(words[1]) for words in lines}


def default_threads() -> int:
    """TDLG_NUM_THREADS, or the number of cores that this process may use."""
    wish = os.environ.get("TDLG_NUM_THREADS")
    if wish:
        if not (wish.isdecimal() and int(wish) > 0):
            raise ParameterError(
                f"The environment variable TDLG_NUM_THREADS must be a positive number. Got {wish!r} instead.",
                parameter="TDLG_NUM_THREADS",
            )
        return int(wish)
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def free_cores() -> int:
    """The number of cores, at most `default_threads`, that were idle in the last minute; at least 1."""
    busy = os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0
    return max(1, min(default_threads(), round((os.cpu_count() or 1) - busy)))


def fitting_threads(n_cells: int) -> int:
    """How many threads fit a model to so many numbers: those of free cores, or one where they would mostly wait."""
    return free_cores() if n_cells > FEW_CELLS else 1


def as_bytes(memory: Any) -> int:
    """A size such as "2GB", "512 MiB" or a number of bytes.

    >>> as_bytes("2GB"), as_bytes("1.5 GiB"), as_bytes(3_000_000_000)
    (2000000000, 1610612736, 3000000000)
    """
    found = re.fullmatch(r"\s*(\d+(?:\.\d*)?)\s*([kmgt]?i?)b?\s*", str(memory).lower())
    n_bytes = int(float(found[1]) * UNITS[found[2]]) if found and found[2] in UNITS else -1
    if n_bytes < LEAST_MEMORY:
        raise ParameterError(
            f"The 'memory' must be a size of at least {in_bytes(LEAST_MEMORY)}, such as '2GB'. Got {memory!r} instead.",
            "Pass memory='2GB'.",
            parameter="memory",
        )
    return n_bytes


def in_bytes(number: float) -> str:
    """A number of bytes as text, for example "3.5 GB"."""
    for unit in ("bytes", "kB", "MB", "GB"):
        if number < 1000:
            return f"{number:.3g} {unit}"
        number /= 1000
    return f"{number:.3g} TB"


def most_learnt(n_rows: int) -> int:
    """How many rows the trees learn from at most, of a table of n_rows in memory or on disk: of more, a sample."""
    return min(MOST_LEARNT, max(n_rows // 10, LEAST_LEARNT))


class Needs(NamedTuple):
    """Bytes of memory that work on a table in memory needs, from measurements with up to a million rows.

    start : bytes whatever the table; row, learnt : bytes per row, and per row that the trees learn from.
    """

    start: float
    row: float
    learnt: float = 0.0

    def bytes(self, n_rows: int) -> float:
        """What a table of this number of rows needs."""
        return self.start + self.row * n_rows + self.learnt * min(n_rows, most_learnt(n_rows))

    def n_rows(self, n_bytes: float) -> int:
        """How many rows fit into this memory."""
        return max(bisect_right(range(int(n_bytes / self.row) + 1), n_bytes, key=self.bytes) - 1, 0)


SCORING = Needs(3.8e8, 430)  # propagated columns of all rows
LEARNING = SCORING._replace(learnt=1950)  # and trees of two classes that learn from them
