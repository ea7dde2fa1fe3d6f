"""What this process can use of the machine: the memory that is free, and the cores."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from tdlg.exceptions import ParameterError

__all__ = ["default_threads", "free_bytes", "free_cores"]

CGROUPS = (  # files of limit and usage, and the part of the usage that can be reclaimed: cgroups version 2 and 1
    ("memory.max", "memory.current", "memory.stat", "inactive_file"),
    ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes", "memory/memory.stat", "total_inactive_file"),
)


def free_bytes(system: Path = Path("/")) -> int:
    """Free memory in bytes, within the limit of the container if there is one."""
    return min(_free_in_system(system / "proc/meminfo"), _free_in_container(system / "sys/fs/cgroup"))


def _free_in_system(meminfo: Path) -> int:
    try:
        return _fields(meminfo)["MemAvailable:"] * 1024
    except (OSError, KeyError, ValueError):  # not Linux: half of the physical memory, to leave room for other programs
        names = ("SC_PHYS_PAGES", "SC_PAGE_SIZE")
        pages, page = map(os.sysconf, names) if hasattr(os, "sysconf") else (2**21, 4096)
        return pages * page // 2


def _free_in_container(cgroup: Path) -> int:
    for limit, use, stat, reclaimable in CGROUPS:
        try:
            used = int((cgroup / use).read_text()) - _fields(cgroup / stat)[reclaimable]
            return max(0, int((cgroup / limit).read_text()) - used)
        except (OSError, KeyError, ValueError):  # this version of cgroups is not present, or the limit is "max"
            continue
    return sys.maxsize


def _fields(file: Path) -> dict[str, int]:
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
