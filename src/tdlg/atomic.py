"""Atomic writing of files: an existing file is replaced only once the new file is complete.

If writing fails or is interrupted, the existing file stays. Devices, pipes and the outputs of the process itself
cannot be replaced; they are written to directly.
"""

from __future__ import annotations

import hashlib
import os
import platform
import re
import shutil
import sys
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any, BinaryIO

from tdlg.exceptions import ParameterError

OUTPUTS = {"/dev/stdout": 1, "/dev/stderr": 2}  # path to file descriptor
DRAFT = ".tdlg-tmp"
STALE = 24 * 3600  # seconds without a write after which the writer of a draft is taken to be dead
LONGEST_NAME = 200  # bytes of a file name to which the suffix of a draft can be added, within the usual limit of 255


def as_path(path: Any) -> Path:
    """The path as a Path, with ~ expanded to the user's folder."""
    if not isinstance(path, (str, os.PathLike)):
        raise ParameterError(
            f"The 'path' must be a string or a Path. Got {type(path).__name__} {path!r} instead.", parameter="path"
        )
    return Path(path).expanduser()


def is_special(path: Path) -> bool:
    """Whether this is a device, a pipe or an output of this process, even if that output is redirected to a file."""
    return str(path) in OUTPUTS or (path.exists() and not path.is_file() and not path.is_dir())


def target_of(path: Any) -> Path:
    """The path to write to. Links are followed, as in `open`; a folder, or a file in a missing folder, is refused."""
    path = as_path(path)
    if is_special(path):
        return path
    target = Path(os.path.realpath(path))
    if not target.parent.is_dir():
        raise ParameterError(
            f"The folder {str(target.parent)!r} of the 'path' does not exist. Create it first.",
            f"Use `Path({str(target.parent)!r}).mkdir(parents=True)`.",
            parameter="path",
        )
    if target.is_dir():
        raise ParameterError(
            f"The 'path' must be a file. {str(target)!r} is a folder: add a file name.", parameter="path"
        )
    return target


@contextmanager
def new_file(path: Path) -> Iterator[BinaryIO]:
    """A file open for writing and, unless it is a device or pipe, for reading. It gets its name once it is complete."""
    with replacing(path) as new, _opened(new) as file:
        yield file
        file.flush()
        if not is_special(new):
            os.fsync(file.fileno())


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """The path of an empty draft, which replaces `path` at the end and is removed on any error or interrupt."""
    if is_special(path):
        yield path
        return
    target = Path(os.path.realpath(path))
    draft = draft_of(target)
    try:
        draft.touch(exist_ok=False)
        _remove_stale_drafts(draft, draft.stat().st_mtime)
        yield draft
        if target.exists():
            shutil.copymode(target, draft)
        os.replace(draft, target)
    except OSError as error:
        if error.errno is not None and error.filename in (None, str(draft)):  # None if the disk is full
            error.filename = str(path)  # the path that the user passed
        raise
    finally:
        with suppress(OSError):
            draft.unlink()
    with suppress(OSError):
        sync_folder(target.parent)


def put_in_place(draft: Path, target: Path) -> None:
    """Give a draft that is complete its name: once this returns, both survive a power cut."""
    sync_path(draft)
    os.replace(draft, target)
    sync_folder(target.parent)


def draft_of(target: Path) -> Path:
    """A new hidden name in the target's folder that contains the name of the target, and says which process writes it."""
    name = os.fsencode(target.name)
    known = target.name if len(name) <= LONGEST_NAME else hashlib.sha256(name).hexdigest()
    number = f"{_machine()}{os.getpid() % 2**32:08x}{uuid.uuid4().hex[:16]}"  # machine, process and a random part
    return target.with_name(f".{known}.{number}{DRAFT}")


@cache
def _machine() -> str:
    """Where the id of a process means the same process: the name of the machine, and on Linux the container."""
    container = ""
    with suppress(OSError):
        container = os.readlink("/proc/self/ns/pid")
    return hashlib.sha256(f"{platform.node()} {container}".encode()).hexdigest()[:8]


def _is_dead(number: str) -> bool:
    """Whether the process that wrote a draft with this number has ended; False if that is not known."""
    if os.name == "nt" or not number.startswith(_machine()):
        return False
    try:
        os.kill(int(number[8:16], 16), 0)
    except ProcessLookupError:
        return True
    except (OSError, OverflowError):  # of somebody else, or not a process id
        return False
    return False


def _remove_stale_drafts(draft: Path, now: float) -> None:
    """Remove drafts of the same target that killed processes left: the process has ended, or wrote nothing for a day."""
    prefix = draft.name.removesuffix(DRAFT)[:-32]
    ours = re.compile(re.escape(prefix) + "([0-9a-f]{32})" + re.escape(DRAFT))
    with suppress(OSError), os.scandir(draft.parent) as entries:
        for entry in entries:
            if (found := ours.fullmatch(entry.name)) and entry.is_file(follow_symlinks=False):
                with suppress(OSError):
                    if entry.stat(follow_symlinks=False).st_mtime < now - STALE or _is_dead(found[1]):
                        os.unlink(entry.path)


def _opened(path: Path) -> BinaryIO:
    if not is_special(path):
        return open(path, "w+b")
    if str(path) not in OUTPUTS:
        return open(path, "wb")
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    return open(os.dup(OUTPUTS[str(path)]), "wb")  # opening it by name would truncate a file that it is redirected to


def sync_path(path: Path) -> None:
    """Wait until the content of a file is on the disk."""
    with open(path, "r+b") as file:
        os.fsync(file.fileno())


def sync_folder(folder: Path) -> None:
    """Make new and removed names in a folder survive a power cut. Windows offers no way to wait for it."""
    if sys.platform == "win32":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
