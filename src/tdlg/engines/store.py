"""Files of an engine, on a local path or on a store that fsspec supports. A file appears when it is complete."""

from __future__ import annotations

import math
import os
import shutil
import uuid
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, BinaryIO, cast

__all__ = ["exists", "files_in", "free_on_disk", "is_folder", "is_remote", "joined", "last_writes", "make_folder"]
__all__ += ["names_in", "parted", "read_ranges", "reading", "remove_empty_folder", "remove_file", "remove_folder"]
__all__ += ["same_disk", "size_of", "version_of", "write_whole"]

TAGS = ("ETag", "etag", "md5Hash")  # what stores call a name of the content
TIMES = ("mtime", "LastModified", "last_modified", "updated", "created")  # what stores call the time of modification


def is_remote(path: str) -> bool:
    """Whether a path is an address such as "s3://bucket/folder"."""
    return "://" in path


def joined(folder: str, name: str) -> str:
    """The path of a file in a folder."""
    return f"{folder.rstrip('/')}/{name}"


def parted(path: str) -> tuple[str, str]:
    """The folder of a file, and its name in it."""
    if is_remote(path):
        folder, _, name = path.rpartition("/")
        return folder, name
    return str(Path(path).parent), Path(path).name


def exists(path: str) -> bool:
    """Whether there is such a file."""
    return bool(_remote(path)[0].exists(path)) if is_remote(path) else os.path.exists(path)


def files_in(folder: str) -> dict[str, dict[str, Any]]:
    """The files in a folder of a store, and in its folders: what the store says of each, by its path in the folder."""
    store, name = _remote(folder)
    store.invalidate_cache()  # other processes write too
    found = store.find(name, detail=True) if store.exists(name) else {}
    return {path.removeprefix(f"{name.rstrip('/')}/"): info for path, info in found.items()}


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


def remove_empty_folder(path: str) -> None:
    """Remove a folder of a store, if there is one without files; most stores have no such folders."""
    with suppress(Exception):  # each store raises its own errors
        if not files_in(path):
            _remote(path)[0].rmdir(path)


def last_writes(folder: str) -> dict[str, float]:
    """When a file was last written in each folder that is in a folder of a store, in seconds.

    The time is infinite if the store does not give it for all files.
    """
    found: dict[str, float] = {}
    for path, info in files_in(folder).items():
        inside = path.partition("/")[0]
        found[inside] = max(found.get(inside, -math.inf), _written(info))
    return found


def free_on_disk(folder: str) -> int | None:
    """Free bytes of the disk of a local folder; None for a store."""
    return None if is_remote(folder) else shutil.disk_usage(folder).free


def same_disk(one: str, other: str) -> bool:
    """Whether two local folders are on the same disk."""
    return not is_remote(one) and not is_remote(other) and os.stat(one).st_dev == os.stat(other).st_dev


def size_of(path: str) -> int | None:
    """Bytes of a local file; None for a store."""
    return None if is_remote(path) else os.path.getsize(path)


def version_of(path: str) -> tuple[Any, ...]:
    """What differs between two versions of a file: its size, and its tag or time of modification.

    Empty if there is no such file, or if the store cannot be asked.
    """
    if not is_remote(path):
        with suppress(FileNotFoundError):
            stat = os.stat(path)
            return stat.st_size, stat.st_mtime_ns
        return ()
    # Each store raises its own errors, and fsspec may lack the package of one that polars reads.
    with suppress(Exception):
        store, name = _remote(path)
        store.invalidate_cache()
        info = store.info(name)
        known = [str(info[key]) for key in (*TAGS, *TIMES) if info.get(key) is not None]
        return (info.get("size"), *known[:1])
    return ()


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


def write_whole(path: str, pieces: Iterable[Any], mode: int = 0o666) -> None:
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
        with open(draft, "xb", buffering=0, opener=lambda name, flags: os.open(name, flags, mode)) as file:
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


def _written(info: dict[str, Any]) -> float:
    """When a file of a store was written, in seconds; infinite if the store does not say it."""
    value = next((info[name] for name in TIMES if info.get(name) is not None), math.inf)
    try:
        value = datetime.fromisoformat(value) if isinstance(value, str) else value
        if isinstance(value, datetime):
            value = (value if value.tzinfo else value.replace(tzinfo=UTC)).timestamp()
        return float(value)
    except (TypeError, ValueError):
        return math.inf


def _write_all(file: Any, view: memoryview) -> None:
    """Write all bytes: the system may take fewer at a time."""
    while len(view):
        view = view[file.write(view) :]


def _remote(path: str) -> tuple[Any, str]:
    import fsspec

    return cast("tuple[Any, str]", fsspec.core.url_to_fs(path))
