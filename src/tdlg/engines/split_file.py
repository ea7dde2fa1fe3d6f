"""Split files: records for several destinations in one file, those of each destination side by side.

A task that sorts rows into buckets writes one such file, and the task of a bucket reads its part of all of them. So no file
is ever appended to, no two tasks write the same file, and a task that is lost can simply be run again.

The file has the bytes of `MAGIC`; the number of destinations; the position of the first record of each of them, closed by
the number of records; the length of the description of a record, and the description (numpy's, as JSON); and the records.
Numbers are little-endian, 8 bytes each.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tdlg.engines.store import is_remote, read_ranges, reading, write_whole
from tdlg.exceptions import ReadError

__all__ = ["SplitFile", "head_bytes", "read_split", "write_split"]

Records = NDArray[np.void]

MAGIC = b"tdlgspl1"
NUMBER = np.dtype("<u8")
TEXT = 100  # bytes of the description of a record, roughly


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


def head_bytes(n_files: int, n: int) -> int:
    """The bytes of the heads of several files with n destinations each, roughly."""
    return n_files * (len(MAGIC) + 8 * (n + 3) + TEXT)


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
    one = SplitFile.of(paths[0])  # the others have as many destinations and the same type, so their heads are not read
    numbers = [len(MAGIC) + 8 * (1 + place) for place in (destinations.start, destinations.stop + 1)]

    def bounds(part: bytes, path: str) -> tuple[int, int]:
        if len(part) < numbers[1] - numbers[0]:
            raise _ends_early(path)
        first, stop = np.frombuffer(part, NUMBER)[[0, -1]].tolist()
        return one.start + first * one.dtype.itemsize, one.start + stop * one.dtype.itemsize

    if is_remote(paths[0]):
        found = read_ranges(paths, *([number] * len(paths) for number in numbers))
        wanted = [bounds(part, path) for part, path in zip(found, paths, strict=True)]
        parts = read_ranges(paths, [first for first, _ in wanted], [stop for _, stop in wanted])
    else:
        parts, wanted = [], []
        for path in paths:
            with reading(path) as file:
                wanted.append(bounds(_read(file, *numbers), path))
                parts.append(_read(file, *wanted[-1]))
    for part, (first, stop), path in zip(parts, wanted, paths, strict=True):
        if len(part) < stop - first:
            raise _ends_early(path)
    return np.frombuffer(bytearray().join(parts), one.dtype)


def _read(file: BinaryIO, first: int, stop: int) -> bytes:
    """Some bytes of a file, fewer at its end; the system may give fewer at a time."""
    file.seek(first)
    parts = [b""]
    while first < stop and (len(parts) == 1 or parts[-1]):
        parts.append(file.read(stop - first))
        first += len(parts[-1])
    return parts[1] if len(parts) == 2 else b"".join(parts)


def _ends_early(path: str) -> ReadError:
    return ReadError(f"{path}: the bucket file ends too early. Remove it and run again.")


def _as_tuple(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value
