"""`compiled`: numba's jit with a cache on disk that can be missing, damaged or full without stopping anything.

Compiled code is kept in the first of these folders that can be written: NUMBA_CACHE_DIR, `__pycache__` beside the kernels,
numba's folder in the user's cache, and a private folder in the system's temporary directory. Without any of them, every
process compiles anew. The first kernel that has to be compiled is announced, see `_announce`.
"""

import hashlib
import logging
import os
import stat
import sys
import tempfile
import warnings
from contextlib import suppress
from functools import cache
from pathlib import Path

from numba import jit
from numba.core import caching

# No fastmath here: the gap of a first event is infinite, and infinity must stay what it is.
FLAGS = {"nopython": True, "nogil": True, "error_model": "numpy"}


def compiled(function):
    """Compile a kernel when it is first called, or load it from the cache."""
    kernel = jit(**FLAGS)(function)
    kernel._cache = _cache_of(function)
    return kernel


def _cache_of(function):
    try:
        return _Cache(function)
    except (RuntimeError, OSError):  # numba: "no locator available"
        _warn_once()
        return _NoCache()


@cache
def _warn_once() -> None:
    warnings.warn(
        "tdlg finds no folder where it may keep its compiled code, so every process compiles anew, which takes up to half a "
        "minute. Set the environment variable NUMBA_CACHE_DIR to a folder that this user can write.",
        stacklevel=2,
    )


@cache
def _announce(folder: str | None) -> None:
    """Say, once per process, that compiling takes a while: to people at a terminal or in a notebook, and to the log."""
    kept = f"once: the result is kept in {folder}" if folder else "in every process: see NUMBA_CACHE_DIR"
    message = f"tdlg: compiling for this processor, which takes up to half a minute, {kept}."
    logging.getLogger("tdlg").info(message)
    if sys.stderr is not None and (sys.stderr.isatty() or hasattr(sys, "ps1")):  # ps1: interactive, notebooks included
        sys.stderr.write(f"{message}\n")
        sys.stderr.flush()


class _PrivateFolder(caching._SourceFileBackedLocatorMixin, caching._CacheLocator):
    """A folder in the system's temporary directory, of this user alone: what is loaded from a cache is executed."""

    def __init__(self, function, file):
        self._py_file, self._lineno = file, function.__code__.co_firstlineno

    def get_cache_path(self):
        return os.path.join(_private_folder(), self.get_suitable_cache_subpath(self._py_file))


def _private_folder() -> str:
    user = os.geteuid() if hasattr(os, "geteuid") else "user"  # Windows: the temporary directory is each user's own
    folder = os.path.join(tempfile.gettempdir(), f"tdlg-compiled-{user}")
    with suppress(FileExistsError):
        os.mkdir(folder, 0o700)
    found = os.lstat(folder)  # not what a symbolic link points to
    is_own = not hasattr(os, "geteuid") or (found.st_uid == os.geteuid() and not found.st_mode & 0o077)
    if not (stat.S_ISDIR(found.st_mode) and is_own):
        raise PermissionError(f"{folder} is not a folder of this user alone.")
    return folder


class _Locations(caching.CompileResultCacheImpl):
    _locator_classes = (*caching.CompileResultCacheImpl._locator_classes, _PrivateFolder)


class _NoCache(caching.NullCache):
    def load_overload(self, sig, target_context):
        _announce(None)


class _Cache(caching.FunctionCache):
    """Numba's cache, where a damaged file counts as missing and a full disk as no cache."""

    _impl_class = _Locations

    def __init__(self, function):
        super().__init__(function)
        self._cache_file._source_stamp = _digest_of_sources(Path(function.__code__.co_filename).parent)

    def load_overload(self, sig, target_context):
        """The compiled kernel; None has numba compile it."""
        found = None
        try:
            found = super().load_overload(sig, target_context)
        except Exception as error:
            if isinstance(error.__cause__, KeyboardInterrupt):  # Ctrl-C in the middle of unpickling: a SystemError
                raise KeyboardInterrupt from error
            with suppress(OSError):
                self.flush()  # an empty index in place of what cannot be read; saving reads it first
        if found is None:
            _announce(self.cache_path)
        return found

    def save_overload(self, sig, data):
        with suppress(Exception):  # a full disk, or an index that was damaged meanwhile: the kernel itself is there
            super().save_overload(sig, data)


@cache
def _digest_of_sources(folder: Path) -> bytes:
    """Kernels call each other across files, so one that changed makes all caches stale; numba looks at one file only."""
    digest = hashlib.sha256()
    for source in sorted({*Path(__file__).parent.glob("*.py"), *folder.glob("*.py")}):
        digest.update(source.read_bytes())
    return digest.digest()
