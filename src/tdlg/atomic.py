"""Files that appear when they are whole: what was there stays until then, and where writing fails or is interrupted.

Devices, pipes and the process's own outputs have nothing to put in their place: they are written into.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import sys
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

from tdlg.exceptions import ParameterError

__all__ = ["as_path", "is_special", "new_file", "replacing", "target_of"]

OUTPUTS = {"/dev/stdout": 1, "/dev/stderr": 2}  # with their descriptors
DRAFT = ".tdlg-tmp"
STALE = 24 * 3600  # seconds without a write: whoever began the draft was killed
LONGEST_NAME = 200  # bytes of a name that leave room for a draft's own, of 255


def as_path(path: Any) -> Path:
    """A path as given, ~ being the user's folder."""
    if not isinstance(path, (str, os.PathLike)):
        raise ParameterError(f"The 'path' must be a string or a Path. Got {type(path).__name__} {path!r} instead.")
    return Path(path).expanduser()


def is_special(path: Path) -> bool:
    """Whether this is a device, a pipe or an output of this process, even one that was sent into a file."""
    return str(path) in OUTPUTS or (path.exists() and not path.is_file() and not path.is_dir())


def target_of(path: Any) -> Path:
    """Where to write: a link is followed, as by `open`; a folder, or a file in one that is not there, is refused."""
    path = as_path(path)
    if is_special(path):
        return path
    target = Path(os.path.realpath(path))
    if not target.parent.is_dir():
        raise ParameterError(
            f"The folder {str(target.parent)!r} of the 'path' does not exist. "
            f"Make it first, with Path({str(target.parent)!r}).mkdir(parents=True)."
        )
    if target.is_dir():
        raise ParameterError(f"The 'path' must be that of a file. {str(target)!r} is a folder: add a name.")
    return target


@contextmanager
def new_file(path: Path) -> Iterator[BinaryIO]:
    """A file open for writing and, where it is no device or pipe, for reading; it has its name once it is whole."""
    with replacing(path) as new, _opened(new) as file:
        if not is_special(new):
            _remove_stale_drafts(new, os.fstat(file.fileno()).st_mtime)
        yield file
        file.flush()
        if not is_special(new):
            os.fsync(file.fileno())


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """The path of a draft, which takes this one's place at the end, and vanishes on any error or interrupt."""
    if is_special(path):
        yield path
        return
    target = Path(os.path.realpath(path))
    draft = _draft_of(target)
    try:
        yield draft
        if target.exists():
            shutil.copymode(target, draft)
        os.replace(draft, target)
    except OSError as error:
        if error.errno is not None and error.filename in (None, str(draft)):  # none where the disk is full
            error.filename = str(path)  # the user's own name of it
        raise
    finally:
        with suppress(OSError):
            draft.unlink()
    _sync_folder(target.parent)


def _draft_of(target: Path) -> Path:
    """A new name beside the target that tells whose draft it is."""
    name = os.fsencode(target.name)
    known = target.name if len(name) <= LONGEST_NAME else hashlib.sha256(name).hexdigest()
    return target.with_name(f".{known}.{uuid.uuid4().hex}{DRAFT}")


def _remove_stale_drafts(draft: Path, now: float) -> None:
    """Remove other drafts of the same target that killed processes left; what another process writes now is newer."""
    prefix = draft.name.removesuffix(DRAFT)[:-32]
    ours = re.compile(re.escape(prefix) + "[0-9a-f]{32}" + re.escape(DRAFT))
    with suppress(OSError), os.scandir(draft.parent) as entries:
        for entry in entries:
            if ours.fullmatch(entry.name) and entry.is_file(follow_symlinks=False):
                with suppress(OSError):
                    if entry.stat(follow_symlinks=False).st_mtime < now - STALE:
                        os.unlink(entry.path)


def _opened(path: Path) -> BinaryIO:
    if not is_special(path):
        return open(path, "x+b")
    if str(path) not in OUTPUTS:
        return open(path, "wb")
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    return open(os.dup(OUTPUTS[str(path)]), "wb")  # opened by name, it would start over where it was sent into a file


def _sync_folder(folder: Path) -> None:
    """Have the new name survive a power cut too, where the system can."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
