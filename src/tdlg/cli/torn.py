"""Output that is appended to: a line that a crash or a full disk has torn must not swallow the next one."""

from __future__ import annotations

import json
import os
import stat
import sys

__all__ = ["end_torn_line"]

LONGEST_LINE = 1 << 16  # bytes of a line that is looked at
OURS = b'{"id":'  # how an answer begins
BLANK = b"\n"


def end_torn_line(file: int) -> None:
    """Make what is appended to a file begin on a line of its own.

    A last line without an end is cut off if it is the beginning of an answer, which is written again when its event comes
    again. Any other line is ended. Pipes, terminals and empty files are left alone.

    Parameters
    ----------
    file
        A file descriptor, open for writing.
    """
    status = os.fstat(file)
    if not stat.S_ISREG(status.st_mode) or not status.st_size or not _is_appended_to(file):
        return
    try:
        with open(f"/proc/self/fd/{file}", "rb") as opened:
            opened.seek(max(0, status.st_size - LONGEST_LINE))
            end = opened.read()
    except OSError:  # another system, or the file may not be read: an empty line does no harm
        os.write(file, BLANK)
        return
    last = end[end.rfind(b"\n") + 1 :]
    if last and _is_torn(last):
        os.ftruncate(file, status.st_size - len(last))
    elif last:
        os.write(file, BLANK)


def _is_appended_to(file: int) -> bool:
    if sys.platform == "win32":
        return False
    import fcntl

    return bool(fcntl.fcntl(file, fcntl.F_GETFL) & os.O_APPEND)


def _is_torn(line: bytes) -> bool:
    """Whether this is a part of an answer."""
    if not (line.startswith(OURS) or OURS.startswith(line)):
        return False
    try:
        json.loads(line)
    except ValueError:
        return True
    return False
