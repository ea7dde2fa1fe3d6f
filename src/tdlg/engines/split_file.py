"""Split files: records for several destinations in one file, those of each destination side by side.

A task that sorts rows into buckets writes one such file, and the task of a bucket reads its part of all of them. So no file
is ever appended to, no two tasks write the same file, and a task that is lost can simply be run again.

The file has the bytes of `MAGIC`; the number of destinations; the position of the first record of each of them, closed by
the number of records; the length of the description of a record, and the description (numpy's, as JSON); and the records.
Numbers are little-endian, 8 bytes each.
"""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from typing import Any, BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tdlg.engines.store import is_remote, read_ranges, reading, write_whole
from tdlg.exceptions import ReadError

__all__ = ["SplitFile", "read_split", "write_split"]

Records = NDArray[np.void]

MAGIC = b"tdlgspl1"
NUMBER = np.dtype("<u8")
TEXT = 4096  # bytes, more than the description of a record takes
HEAD = 16_384  # bytes that are read first from a store


class SplitFile(NamedTuple):
    """What a split file has.

    Attributes
    ----------
    path
        The file.
    first
        Position of the first record of each destination, and the number of records, shape (n_destinations + 1,).
    dtype
        The type of the records.
    start
        Position of the first record in the file, in bytes.
    """

    path: str
    first: NDArray[np.int64]
    dtype: np.dtype[Any]
    start: int

    @classmethod
    def of(cls, path: str) -> SplitFile:
        """Read the description of a file."""
        with reading(path) as file:
            return cls._read(path, file)

    @classmethod
    def _read(cls, path: str, file: BinaryIO) -> SplitFile:
        if file.read(len(MAGIC)) != MAGIC:
            raise ReadError(f"{path}: this is not a bucket file, or it is damaged. Remove it and run again.")
        n = int(np.frombuffer(file.read(8), NUMBER)[0])
        numbers = np.frombuffer(file.read(8 * (n + 2)), NUMBER).astype(np.int64)
        text = file.read(int(numbers[-1]))
        fields = [tuple(map(_as_tuple, field)) for field in json.loads(text)]
        return cls(path, numbers[:-1], np.dtype(fields), len(MAGIC) + 8 * (n + 3) + len(text))

    @property
    def counts(self) -> NDArray[np.int64]:
        """The number of records of each destination."""
        return np.diff(self.first)


def write_split(path: str, records: Records, destination: NDArray[np.integer[Any]], n: int) -> None:
    """Write records, sorted by destination; those of one destination keep their order.

    Parameters
    ----------
    path
        The file to write.
    records
        The records, of a structured type.
    destination
        The destination of each record, from 0 to n - 1.
    n
        The number of destinations, at most 65,536.
    """
    small = destination.astype(np.uint16)  # which numpy sorts by digits
    order = np.argsort(small, kind="stable")
    first = np.append(0, np.cumsum(np.bincount(small, minlength=n)))
    text = json.dumps([list(field) for field in records.dtype.descr]).encode()
    head = np.concatenate([[n], first, [len(text)]]).astype(NUMBER)
    write_whole(path, [MAGIC, head, text, np.take(records, order)])


def read_split(paths: Sequence[str], destinations: range) -> Records:
    """The records of some destinations that follow each other, from several files with records of one type.

    Those of each file stand together, in the order of the files.

    Parameters
    ----------
    paths
        The files; at least one.
    destinations
        The destinations, a range with step 1.
    """
    remote = is_remote(paths[0])
    files = _opened(paths) if remote else [SplitFile.of(path) for path in paths]
    bounds = [file.first[[destinations.start, destinations.stop]] for file in files]
    found = np.empty(sum(int(stop - first) for first, stop in bounds), files[0].dtype)
    view = memoryview(found.view(np.uint8).data) if len(found) else memoryview(b"")
    size = files[0].dtype.itemsize
    starts = [file.start + int(first) * size for file, (first, _) in zip(files, bounds, strict=True)]
    stops = [file.start + int(stop) * size for file, (_, stop) in zip(files, bounds, strict=True)]
    parts = read_ranges(paths, starts, stops) if remote else None
    at = 0
    for k, path in enumerate(paths):
        n_bytes = stops[k] - starts[k]
        with io.BytesIO(parts[k]) if parts is not None else reading(path) as opened:
            opened.seek(0 if parts is not None else starts[k])
            _read_into(opened, view[at : at + n_bytes], path)
        at += n_bytes
    return found


def _opened(paths: Sequence[str]) -> list[SplitFile]:
    """The descriptions of several files on a store, with as few requests as possible."""
    heads = read_ranges(paths, [0] * len(paths), [HEAD] * len(paths))
    sizes = [_head_size(head) for head in heads]
    longer = [k for k, size in enumerate(sizes) if size > HEAD]
    more = read_ranges([paths[k] for k in longer], [0] * len(longer), [sizes[k] for k in longer])
    for k, head in zip(longer, more, strict=True):
        heads[k] = head
    return [SplitFile._read(path, io.BytesIO(head)) for path, head in zip(paths, heads, strict=True)]


def _head_size(head: bytes) -> int:
    """Enough bytes for the description of a file, of which the first ones are given."""
    n = int(np.frombuffer(head[len(MAGIC) :][:8].ljust(8, b"\0"), NUMBER)[0]) if head.startswith(MAGIC) else 0
    return len(MAGIC) + 8 * (n + 3) + TEXT


def _read_into(file: BinaryIO, view: memoryview, path: str) -> None:
    while len(view):
        n_read = file.readinto(view)  # type: ignore[attr-defined]
        if not n_read:
            raise ReadError(f"{path}: the bucket file ends too early. Remove it and run again.")
        view = view[n_read:]


def _as_tuple(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value
