"""The folder of the temporary files of a run."""

from __future__ import annotations

import hashlib
import json
import math
import os
import uuid
from concurrent.futures import Executor
from contextlib import suppress
from pathlib import Path
from typing import Any

from tdlg import __version__
from tdlg.atomic import STALE
from tdlg.engines.executors import check_sees
from tdlg.engines.store import is_remote, joined, last_writes, make_folder, remove_empty_folder, remove_folder
from tdlg.engines.table import InputTable
from tdlg.exceptions import ClusterError, ParameterError

__all__ = ["WorkFolder", "fingerprint"]


class WorkFolder:
    """A folder of temporary files: those of the same run that was stopped are used again, and none are left at the end.

    If a run was killed, or lost its cluster, the files stay for the next one. Local files of runs with other parameters are
    removed at the start. A store has no locks that would tell whether such a run is still working, so there they are removed
    when a run to the same output has succeeded, if none of them was written within the last day. Where the store does not
    say when files were written, they stay.

    Parameters
    ----------
    path
        The folder, which has no other files: a local path, or an address that fsspec supports.
    identity
        What the files depend on. They are in a folder of this name, so that a task of another run that is still working
        does no harm.
    engine
        What runs the tasks; all of its workers have to see the folder.

    Attributes
    ----------
    owner
        A text that only the run which works in this folder has, one after the other; None where the folder cannot be locked.
    """

    def __init__(self, path: str, identity: str, engine: Executor) -> None:
        self._path, self._identity, self._engine = path, identity, engine
        self._files = joined(path, identity)
        self._lock: Any = None
        self.owner: str | None = None

    def __enter__(self) -> str:
        if is_remote(self._path):
            make_folder(self._files)
            return self._files
        _make_private(self._path)
        make_folder(self._files)
        note = Path(self._path) / "run"
        self._lock = note.open("a+")
        if _lock(self._lock, self._path):
            self.owner = _text_of(self._lock)
        for file in note.parent.iterdir():
            if file not in (note, Path(self._files)):
                remove_folder(str(file))
        try:
            check_sees(self._engine, str(note))
        except BaseException as error:
            self.__exit__(None, error, None)
            raise
        return self._files

    def __exit__(self, _: object, error: object, __: object) -> None:
        if not isinstance(error, ClusterError):
            if is_remote(self._path):
                self._leave_store(succeeded=error is None)
            else:
                remove_folder(self._path)
        if self._lock is not None:
            self._lock.close()

    def _leave_store(self, *, succeeded: bool) -> None:
        """Remove the files of this run and, after success, those of runs that wrote nothing for a day."""
        if succeeded:
            last = last_writes(self._path)
            now = last.get(self._identity, math.inf)  # on the clock of the store
            for name, time in last.items():
                if math.isfinite(now) and time < now - STALE:
                    remove_folder(joined(self._path, name))
        remove_folder(self._files)
        remove_empty_folder(self._path)


def _make_private(folder: str) -> None:
    """Create a folder that only this user can read and write: tasks trust what is in it."""
    os.makedirs(folder, mode=0o700, exist_ok=True)
    if hasattr(os, "getuid") and os.stat(folder).st_uid != os.getuid():
        raise ParameterError(
            f"{folder}: this folder is of another user, who could change the temporary files.",
            "Remove it, or pass another folder=.",
            parameter="folder",
        )
    with suppress(OSError):  # a file system without modes
        os.chmod(folder, 0o700)


def _text_of(file: Any) -> str:
    """The text of a file, which is a new one if the file is empty: another machine may have a folder of the same path."""
    file.seek(0)
    text = str(file.read())
    if not text:
        text = uuid.uuid4().hex
        file.write(text)
        file.flush()
    return text


def _lock(file: Any, folder: str) -> bool:
    """Refuse a folder that another process works in; False on systems without such locks, which are trusted."""
    try:
        import fcntl
    except ImportError:
        return False
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    except BlockingIOError:
        file.close()
        raise ParameterError(
            f"{folder}: another process works in this folder. Wait until it is done.",
            "Or pass another folder=.",
            parameter="folder",
        ) from None
    except OSError:
        return False  # a file system without locks


def fingerprint(table: InputTable, version: tuple[Any, ...], *parameters: Any) -> str:
    """What the temporary files of a run depend on, as text.

    Parameters
    ----------
    table, version
        The table, and the version of its files; see `InputTable.version`.
    parameters
        All else.
    """
    facts = [__version__, repr(table), *map(repr, parameters), *version]
    return hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:16]
