"""free_bytes: the memory that this process can still take."""

from __future__ import annotations

import os
import sys
from pathlib import Path

__all__ = ["free_bytes"]

CGROUPS = (  # limit, use, and what of the use the system can take back: versions 2 and 1
    ("memory.max", "memory.current", "memory.stat", "inactive_file"),
    ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes", "memory/memory.stat", "total_inactive_file"),
)


def free_bytes(system: Path = Path("/")) -> int:
    """Memory that is free now, within the limit of the container if there is one."""
    return min(_free_in_system(system / "proc/meminfo"), _free_in_container(system / "sys/fs/cgroup"))


def _free_in_system(meminfo: Path) -> int:
    try:
        return _fields(meminfo)["MemAvailable:"] * 1024
    except (OSError, KeyError, ValueError):  # not Linux: half of what is built in, which keeps a laptop alive
        names = ("SC_PHYS_PAGES", "SC_PAGE_SIZE")
        pages, page = map(os.sysconf, names) if hasattr(os, "sysconf") else (2**21, 4096)
        return pages * page // 2


def _free_in_container(cgroup: Path) -> int:
    for limit, use, stat, reclaimable in CGROUPS:
        try:
            used = int((cgroup / use).read_text()) - _fields(cgroup / stat)[reclaimable]
            return max(0, int((cgroup / limit).read_text()) - used)
        except (OSError, KeyError, ValueError):  # no such version of cgroups, or "max": no limit
            continue
    return sys.maxsize


def _fields(file: Path) -> dict[str, int]:
    """The numbers of a file with a name and a number on each line."""
    lines = (line.split() for line in file.read_text().splitlines())
    return {words[0]: int(words[1]) for words in lines}
