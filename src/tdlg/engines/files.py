"""Files of a run, on a local path or at an address such as s3://bucket/folder. A file appears when it is complete.

A task that sorts rows writes one *split file*: records for several destinations, those of each destination side by side. The
task of a destination reads its part of all of them. So no file is ever appended to, no two tasks write the same file, and a
task that is lost can simply be run again: a task whose file is there does nothing.

A split file has the bytes of `MAGIC`; the number of destinations; the position of the first record of each of them, closed
by the number of records; the length of the description of a record, and the description (numpy's, as JSON); and the records.
Numbers are little-endian, 8 bytes each.
"""

from __future__ import annotations

import json
import os
import shutil
import uuid
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from tdlg.exceptions import ParameterError, ReadError

Records = NDArray[np.void]

MAGIC = b"tdlgspl1"
NUMBER = np.dtype("<u8")
TAGS = ("ETag", "etag", "md5Hash", "mtime", "LastModified", "last_modified", "updated", "created")  # of a version


def is_remote(path: str) -> bool:
    """Whether a path is an address such as "s3://bucket/folder"."""
    return "://" in path


def as_place(path: str) -> Any:
    """A local `Path`, or the `UPath` of an address, whose methods are the same."""
    if not is_remote(path):
        return Path(path)
    try:
        from upath import UPath
    except ImportError:
        raise ParameterError(
            f"{path}: files at an address need universal_pathlib, which is not installed. From a clone of tdlg, run: "
            "pip install '.[dask]'.",
            parameter="path",
        ) from None
    place = UPath(path)
    place.fs.invalidate_cache()  # other processes write too
    return place


def exists(path: str) -> bool:
    """Whether there is such a file."""
    return bool(as_place(path).exists())


def files_under(folder: str) -> list[str]:
    """The files in a folder of a store and in its folders, by their paths in it; none if there is no such folder."""
    place = as_place(folder)
    root = place.path.rstrip("/")
    return sorted(file.removeprefix(f"{root}/") for file in place.fs.find(root)) if place.exists() else []


def make_folder(path: str) -> None:
    """Create a folder, if there is none yet."""
    as_place(path).mkdir(parents=True, exist_ok=True)


def remove_file(path: str) -> None:
    """Remove a file, if there is one."""
    with suppress(FileNotFoundError):
        as_place(path).unlink()


def remove_folder(path: str) -> None:
    """Remove a folder with all its files, if there is one."""
    if not is_remote(path):
        shutil.rmtree(path, ignore_errors=True)
        return
    with suppress(FileNotFoundError):
        place = as_place(path)
        place.fs.rm(place.path, recursive=True)


def remove_empty_folder(path: str) -> None:
    """Remove a folder without files, if there is one; most stores have no such folders."""
    with suppress(Exception):  # each store raises its own errors
        place = as_place(path)
        if not is_remote(path):
            place.rmdir()
        elif not files_under(path):
            place.fs.rmdir(place.path)  # that of UPath would remove files too


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
        place = as_place(path)
        info = place.fs.info(place.path)
        known = [str(info[key]) for key in TAGS if info.get(key) is not None]
        return (info.get("size"), *known[:1])
    return ()


@contextmanager
def reading(path: str) -> Iterator[BinaryIO]:
    """A file open for reading, with `seek`."""
    with as_place(path).open("rb") as file:
        yield cast(BinaryIO, file)


def read_ranges(paths: Sequence[str], ranges: Sequence[tuple[int, int]]) -> list[bytes]:
    """The bytes from first to stop of each of several objects of a store, at once; fewer at the end of an object."""
    wanted = [k for k, (first, stop) in enumerate(ranges) if first < stop]
    found = [b""] * len(paths)
    if wanted:
        places = [as_place(paths[k]) for k in wanted]
        firsts, stops = ([ranges[k][end] for k in wanted] for end in (0, 1))
        parts = places[0].fs.cat_ranges([place.path for place in places], firsts, stops, on_error="raise")
        for k, part in zip(wanted, parts, strict=True):
            found[k] = part
    return found


def write_whole(path: str, pieces: Iterable[Any]) -> None:
    """Write pieces of bytes, one after the other. On any error there is no file, and the error names the path.

    Two tasks may write the same file at the same time: one of the two, both complete, remains.
    """
    if is_remote(path):
        place = as_place(path)
        object_ = place.fs.open(place.path, "wb", autocommit=False)  # it appears when it is committed
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
                _write_fully(file, memoryview(piece).cast("B"))
        os.replace(draft, path)
    except OSError as error:
        if error.filename in (None, draft):
            error.filename = path
        raise
    finally:
        with suppress(OSError):
            os.unlink(draft)


def _write_fully(file: Any, view: memoryview) -> None:
    """Write all bytes: the system may take fewer at a time."""
    while len(view):
        view = view[file.write(view) :]


# ---- split files


class SplitFile(NamedTuple):
    """What a split file has.

    first : the position of the first record of each destination, closed by the number of records; dtype : the type of the
    records; start : where they start in the file, in bytes.
    """

    first: NDArray[np.int64]
    dtype: np.dtype[Any]
    start: int

    @classmethod
    def of(cls, path: str) -> SplitFile:
        """Read the description of a file."""
        with reading(path) as file:
            if file.read(len(MAGIC)) != MAGIC:
                raise ReadError(f"{path}: this is not a bucket file, or it is damaged. Remove it and run again.")
            n = int(np.frombuffer(file.read(8), NUMBER)[0])
            numbers = np.frombuffer(file.read(8 * (n + 2)), NUMBER).astype(np.int64)
            text = file.read(int(numbers[-1]))
        fields = [(name, dtype, *map(tuple, shape)) for name, dtype, *shape in json.loads(text)]
        return cls(numbers[:-1], np.dtype(fields), len(MAGIC) + 8 * (n + 3) + len(text))

    @property
    def counts(self) -> NDArray[np.int64]:
        """The number of records of each destination."""
        return np.diff(self.first)


def write_split(path: str, records: Records, destination: NDArray[np.integer[Any]], n: int) -> None:
    """Write records sorted by destination, from 0 to n - 1 and n at most 65,536; those of one keep their order."""
    small = destination.astype(np.uint16)  # which numpy sorts by digits
    order = np.argsort(small, kind="stable")
    first = np.append(0, np.cumsum(np.bincount(small, minlength=n)))
    text = json.dumps([list(field) for field in records.dtype.descr]).encode()
    head = np.concatenate([[n], first, [len(text)]]).astype(NUMBER)
    write_whole(path, [MAGIC, head, text, np.take(records, order)])


def read_split(paths: Sequence[str], destinations: range) -> Records:
    """The records of destinations that follow each other, from files with records of one type, file after file."""
    one = SplitFile.of(paths[0])  # the others have as many destinations and the same type, so their heads are not read
    numbers = len(MAGIC) + 8 * (1 + destinations.start), len(MAGIC) + 8 * (2 + destinations.stop)

    def bounds(part: bytes, path: str) -> tuple[int, int]:
        if len(part) < numbers[1] - numbers[0]:
            raise _ends_early(path)
        first, stop = np.frombuffer(part, NUMBER)[[0, -1]].tolist()
        return one.start + first * one.dtype.itemsize, one.start + stop * one.dtype.itemsize

    if is_remote(paths[0]):
        found = read_ranges(paths, [numbers] * len(paths))
        wanted = [bounds(part, path) for part, path in zip(found, paths, strict=True)]
        parts = read_ranges(paths, wanted)
    else:
        parts, wanted = [], []
        for path in paths:
            with reading(path) as file:
                file.seek(numbers[0])
                first, stop = bounds(file.read(numbers[1] - numbers[0]), path)
                file.seek(first)
                wanted.append((first, stop))
                parts.append(file.read(stop - first))
    for part, (first, stop), path in zip(parts, wanted, paths, strict=True):
        if len(part) < stop - first:
            raise _ends_early(path)
    return np.frombuffer(bytearray().join(parts), one.dtype)


def _ends_early(path: str) -> ReadError:
    return ReadError(f"{path}: the bucket file ends too early. Remove it and run again.")
