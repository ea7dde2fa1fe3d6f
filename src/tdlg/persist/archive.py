"""The file of a saved model: a zip of arrays, text and bytes with a checksum, written completely or not at all.

Members are stored without compression, so their sizes cannot exceed the file and a small file cannot fill the memory. The
comment of the zip, at the end of the file, is the sha256 of every byte before it.
"""

from __future__ import annotations

import hashlib
import io
import json
import math
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, BinaryIO
from zipfile import ZIP_STORED, ZipFile, ZipInfo, is_zipfile

from numpy.lib import format as npy
from numpy.typing import NDArray

from tdlg.atomic import is_special, new_file, target_of
from tdlg.exceptions import ParameterError, ReadError

__all__ = ["ArchiveReader", "ArchiveWriter", "check_stored", "new_archive", "open_archive"]

MANIFEST = "manifest.json"
MEMBER = re.compile(r"[0-9]{6,9}\.(npy|json|skops)")
MARK = b"tdlg model, sha256 "
DIGITS = 64  # of a sha256 in hexadecimal
CHUNK = 1 << 20
KINDS = "biufcmMUS"  # numpy kinds of arrays that are fully described by their bytes
WRITE_AGAIN = "Copy or download it again, or save the model again."


class ArchiveWriter:
    """Adds members to a new archive; each `add` method returns the name of the member for the manifest."""

    def __init__(self, file: ZipFile) -> None:
        self._file = file
        self._n_members = 0

    def add_array(self, array: NDArray[Any]) -> str:
        """Add an array of numbers, booleans, strings or times as .npy, in the same memory order."""
        with self._open(name := self._next("npy")) as member:
            npy.write_array(member, array, version=(1, 0), allow_pickle=False)
        return name

    def add_json(self, value: Any) -> str:
        """Add a value as json."""
        return self.add_bytes(_json(value), "json")

    def add_bytes(self, data: bytes, suffix: str) -> str:
        """Add bytes of another format."""
        with self._open(name := self._next(suffix)) as member:
            member.write(data)
        return name

    def write_manifest(self, manifest: dict[str, Any]) -> None:
        """Add the member that is read first."""
        with self._open(MANIFEST) as member:
            member.write(_json(manifest))

    def _next(self, suffix: str) -> str:
        self._n_members += 1
        return f"{self._n_members:06}.{suffix}"

    def _open(self, name: str) -> IO[bytes]:
        return self._file.open(ZipInfo(name), "w", force_zip64=True)  # without the current time: same model, same bytes


class ArchiveReader:
    """Reads the members of an archive whose checksum is right."""

    def __init__(self, file: ZipFile) -> None:
        self._file = file

    def manifest(self) -> dict[str, Any]:
        """The manifest, which is read first."""
        manifest = json.loads(self._file.read(MANIFEST))
        if not isinstance(manifest, dict):
            raise ValueError("the manifest is not a table")
        return manifest

    def check_members(self) -> None:
        """Refuse names that `ArchiveWriter` does not use, and sizes that do not match uncompressed members."""
        names = self._file.namelist()
        unknown = [name for name in names if name != MANIFEST and not MEMBER.fullmatch(name)]
        if unknown or len(set(names)) < len(names):
            raise ValueError(f"it has members that no model has: {(unknown or names)[:3]}")
        check_stored(self._file)

    def json(self, name: str) -> Any:
        """A member written by `add_json`."""
        return json.loads(self.data(name, "json"))

    def array(self, name: str) -> NDArray[Any]:
        """A member written by `add_array`; its header must match its size."""
        data = self.data(name, "npy")
        stream = io.BytesIO(data)
        if npy.read_magic(stream) != (1, 0):
            raise ValueError(f"{name} is of another version of npy")
        shape, _, dtype = npy.read_array_header_1_0(stream)
        size = math.prod(shape) * dtype.itemsize
        if dtype.kind not in KINDS or not dtype.itemsize or size != len(data) - stream.tell():
            raise ValueError(f"{name} declares {shape} of {dtype}, but has other content")
        stream.seek(0)
        return npy.read_array(stream, allow_pickle=False)

    def data(self, name: str, suffix: str) -> bytes:
        """A member written by `add_bytes`."""
        if not MEMBER.fullmatch(name) or not name.endswith(f".{suffix}"):
            raise ValueError(f"{name!r} is not a member of type {suffix}")
        return self._file.read(name)


def check_stored(file: ZipFile) -> None:
    """Refuse a zip that compresses its members or declares more bytes than it has."""
    members, size = file.infolist(), _size_of(file)
    packed = [m.filename for m in members if m.compress_type != ZIP_STORED or m.file_size != m.compress_size]
    if packed or sum(member.file_size for member in members) > size:
        raise ValueError(f"its members declare more bytes than the file has: {packed[:3]}")


@contextmanager
def new_archive(path: Any) -> Iterator[ArchiveWriter]:
    """Write an archive to a path. An existing file is replaced only when the new one is complete."""
    target = target_of(path)
    if is_special(target):
        raise ParameterError(
            f"The 'path' of a model must be a file. {str(target)!r} is a device or pipe: pass the name of a file.",
            parameter="path",
            value=path,
        )
    with new_file(target) as file:
        with ZipFile(file, "w", ZIP_STORED) as zipped:
            zipped.comment = MARK + b"0" * DIGITS
            yield ArchiveWriter(zipped)
        file.seek(-DIGITS, os.SEEK_END)
        digest = _digest(file)
        file.seek(-DIGITS, os.SEEK_END)
        file.write(digest)


@contextmanager
def open_archive(path: Path) -> Iterator[ArchiveReader]:
    """Open the archive at a path after a check of its checksum."""
    if not path.is_file():
        what = "this is a folder or device, not a file" if path.exists() else "there is no such file"
        raise ReadError(f"{path}: {what}. Pass the path of a saved model.")
    with open(path, "rb") as file:
        _check_ours(file, path)
        try:
            zipped = ZipFile(file)
        except Exception as error:  # struct.error, NotImplementedError and others, not only BadZipFile
            raise ReadError(f"{path}: the file is damaged ({error}). {WRITE_AGAIN}") from None
        with zipped:
            yield ArchiveReader(zipped)


def _json(value: Any) -> bytes:
    return json.dumps(value, allow_nan=False, separators=(",", ":")).encode()


def _size_of(file: ZipFile) -> int:
    stream: Any = file.fp
    return int(stream.seek(0, os.SEEK_END))


def _digest(file: BinaryIO) -> bytes:
    """The sha256 of all bytes except the last ones, which contain it."""
    left = file.seek(0, os.SEEK_END) - DIGITS
    file.seek(0)
    digest = hashlib.sha256()
    while left > 0 and (chunk := file.read(min(CHUNK, left))):
        digest.update(chunk)
        left -= len(chunk)
    return digest.hexdigest().encode()


def _check_ours(file: BinaryIO, path: Path) -> None:
    size = file.seek(0, os.SEEK_END)
    file.seek(max(0, size - len(MARK) - DIGITS))
    end = file.read()
    file.seek(0)
    start = file.read(4)
    if size == 0:
        raise ReadError(f"{path}: the file is empty. {WRITE_AGAIN}")
    if end.startswith(MARK) and len(end) == len(MARK) + DIGITS:
        if _digest(file) == end[-DIGITS:]:
            return
        raise ReadError(f"{path}: the file is damaged: its checksum does not match. {WRITE_AGAIN}")
    if start.startswith(b"PK") and not is_zipfile(file):
        raise ReadError(f"{path}: the file is truncated or damaged: its end is missing. {WRITE_AGAIN}")
    raise ReadError(f"{path}: this is not a tdlg model. Pass the path of a saved model.")
