"""Lock: one process at a time writes to a folder."""

from __future__ import annotations

import errno
import os
import sys
from contextlib import suppress
from pathlib import Path
from weakref import WeakSet

from tdlg.live.log import StateError

__all__ = ["Lock"]

PLACE = 1 << 30  # of the locked byte on Windows, where a locked byte cannot be read: the process id is before it


class Lock:
    """A lock on a file that ends with the process, however it ends. Processes forked from it do not hold it.

    The file holds the id of that process and is never removed. If the lock is held already, a `StateError` says by whom.
    """

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_BINARY", 0), 0o666)
        try:
            _lock(self._file)
        except OSError as error:
            holder = os.read(self._file, 20).decode("ascii", "replace").strip()
            os.close(self._file)
            raise _unlockable(path.parent, holder, error) from error
        _HELD.add(self)
        with suppress(OSError):  # a full disk: the lock holds without a name
            os.ftruncate(self._file, 0)
            os.write(self._file, f"{os.getpid()}\n".encode())

    def release(self) -> None:
        """Let others have the lock. A released lock can be released again."""
        _HELD.discard(self)
        if self._file >= 0:
            os.close(self._file)
        self._file = -1


_HELD: WeakSet[Lock] = WeakSet()


def _release_in_child() -> None:
    for lock in [*_HELD]:
        lock.release()


if sys.platform == "win32":
    import msvcrt

    def _lock(file: int) -> None:
        os.lseek(file, PLACE, os.SEEK_SET)
        try:
            msvcrt.locking(file, msvcrt.LK_NBLCK, 1)
        finally:
            os.lseek(file, 0, os.SEEK_SET)

else:
    import fcntl

    def _lock(file: int) -> None:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)

    os.register_at_fork(after_in_child=_release_in_child)  # closing a copy of the descriptor does not unlock the file


def _unlockable(folder: Path, holder: str, error: OSError) -> StateError:
    if error.errno not in (errno.EAGAIN, errno.EACCES):
        return StateError(f"{folder}: the directory cannot be locked: {error.strerror}. Use a local disk.")
    process = f"process {holder}" if holder else "another process"
    return StateError(
        f"The state directory {str(folder)!r} is in use by {process}.",
        "Stop it first, or pass another state directory.",
    )
