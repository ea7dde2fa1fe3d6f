"""Files of an engine, on a local path or on a store that fsspec supports. A file appears when it is complete."""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, BinaryIO, cast

__all__ = ["exists", "free_on_disk", "has_files", "is_folder", "is_remote", "joined", "make_folder", "names_in"]
__all__ += ["read_ranges", "reading", "remove_file", "remove_folder", "same_disk", "size_of", "write_whole"]


def is_remote(path: str) -> bool:
    """Whether a path is an address such as "s3://bucket/folder"."""
    return "://" in path


def joined(folder: str, name: str) -> str:
    """The path of a file in a folder."""
    return f"{folder.rstrip('/')}/{name}"


def exists(path: str) -> bool:
    """Whether there is such a file."""
    return bool(_remote(path)[0].exists(path)) if is_remote(path) else os.path.exists(path)


def has_files(folder: str) -> bool:
    """Whether there are files in a folder of a store."""
    store, name = _remote(folder)
    return bool(store.exists(name)) and bool(store.find(name))


def is_folder(path: str) -> bool:
    """Whether there is such a folder."""
    return bool(_remote(path)[0].isdir(path)) if is_remote(path) else os.path.isdir(path)


def names_in(folder: str) -> list[str]:
    """The names of the files in a folder, in order."""
    if not is_remote(folder):
        return sorted(entry.name for entry in os.scandir(folder) if entry.is_file())
    found = _remote(folder)[0].ls(folder, detail=True, refresh=True)
    return sorted(str(file["name"]).rpartition("/")[2] for file in found if file["type"] == "file")


def make_folder(path: str) -> None:
    """Create a folder, if there is none yet."""
    if is_remote(path):
        _remote(path)[0].makedirs(path, exist_ok=True)
    else:
        os.makedirs(path, exist_ok=True)


def remove_file(path: str) -> None:
    """Remove a file, if there is one."""
    with suppress(FileNotFoundError):
        if is_remote(path):
            _remote(path)[0].rm(path)
        else:
            os.unlink(path)


def remove_folder(path: str) -> None:
    """Remove a folder with all its files, if there is one."""
    if is_remote(path):
        with suppress(FileNotFoundError):
            _remote(path)[0].rm(path, recursive=True)
    else:
        shutil.rmtree(path, ignore_errors=True)


def free_on_disk(folder: str) -> int | None:
    """Free bytes of the disk of a local folder; None for a store."""
    return None if is_remote(folder) else shutil.disk_usage(folder).free


def same_disk(one: str, other: str) -> bool:
    """Whether two local folders are on the same disk."""
    return not is_remote(one) and not is_remote(other) and os.stat(one).st_dev == os.stat(other).st_dev


def size_of(path: str) -> int | None:
    """Bytes of a local file; None for a store."""
    return None if is_remote(path) else os.path.getsize(path)


@contextmanager
def reading(path: str) -> Iterator[BinaryIO]:
    """A file open for reading, with `seek`."""
    if is_remote(path):
        with _remote(path)[0].open(path, "rb") as file:
            yield file
        return
    with open(path, "rb", buffering=0) as file:
        yield cast(BinaryIO, file)


def read_ranges(paths: Sequence[str], starts: Sequence[int], stops: Sequence[int]) -> list[bytes]:
    """Some bytes of each of several objects of a store, at once where the store allows it; fewer at the end of an object."""
    wanted = [k for k, (start, stop) in enumerate(zip(starts, stops, strict=True)) if start < stop]
    found = [b""] * len(paths)
    if wanted:
        store = _remote(paths[0])[0]
        names = [str(store._strip_protocol(paths[k])) for k in wanted]
        parts = store.cat_ranges(names, [starts[k] for k in wanted], [stops[k] for k in wanted], on_error="raise")
        for k, part in zip(wanted, parts, strict=True):
            found[k] = part
    return found


def write_whole(path: str, pieces: Iterable[Any]) -> None:
    """Write pieces of bytes, one after the other. On any error there is no file, and the error names the path.

    Two tasks may write the same file at the same time: one of the two, both complete, remains.
    """
    if is_remote(path):
        object_ = _remote(path)[0].open(path, "wb", autocommit=False)  # it appears when it is committed
        try:
            with object_:
                for piece in pieces:
                    object_.write(piece)
        except BaseException:
            object_.discard()
            raise
        object_.commit()
        return
    draft = f"{path}.{uuid.uuid4().hex}.draft"
    try:
        with open(draft, "xb", buffering=0) as file:
            for piece in pieces:
                _write_all(file, memoryview(piece).cast("B"))
        os.replace(draft, path)
    except OSError as error:
        if error.filename in (None, draft):
            error.filename = path
        raise
    finally:
        with suppress(OSError):
            os.unlink(draft)


def _write_all(file: Any, view: memoryview) -> None:
    """Write all bytes: the system may take fewer at a time."""
    while len(view):
        view = view[file.write(view) :]


def _remote(path: str) -> tuple[Any, str]:
    import fsspec

    return cast("tuple[Any, str]", fsspec.core.url_to_fs(path))
