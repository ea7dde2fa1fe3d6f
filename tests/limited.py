"""Commands under a limit of resident memory, which ends them."""

import os
import subprocess
import time
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

PAUSE = 0.02  # seconds between two looks


class Ended(NamedTuple):
    """Exit code, -9 if the limit was exceeded; the largest resident memory and size of a folder; processor seconds."""

    code: int
    peak_bytes: int
    disk_bytes: int
    cpu_seconds: float


def run_limited(command, limit, folder=None):
    """Run a command, which is killed as soon as its resident memory has been above a limit in bytes.

    The system has no such limit for single processes, and those for address space count memory that is only reserved. So
    the high-water mark is watched, which no peak escapes.
    """
    work, disk, looks = subprocess.Popen(command), 0, 0
    status = Path(f"/proc/{work.pid}/status")
    while True:
        pid, code, usage = os.wait4(work.pid, os.WNOHANG)
        if pid:
            work.returncode = os.waitstatus_to_exitcode(code)
            return Ended(work.returncode, usage.ru_maxrss * 1024, disk, usage.ru_utime + usage.ru_stime)
        looks += 1
        if folder is not None and looks % 50 == 0:  # there may be thousands of files
            disk = max(disk, size_of(folder))
        with suppress(OSError, StopIteration):
            lines = status.read_text().splitlines()
            if int(next(line for line in lines if line.startswith("VmHWM:")).split()[1]) * 1024 > limit:
                work.kill()
        time.sleep(PAUSE)


def size_of(folder):
    """Bytes of all files in a folder, which may be changing."""
    total = 0
    for path, _, names in os.walk(folder):
        for name in names:
            with suppress(FileNotFoundError):  # renamed or removed meanwhile
                total += os.stat(os.path.join(path, name)).st_size
    return total
