"""The file of a data set: found, unpacked or downloaded, with a check of its sha256."""

from __future__ import annotations

import gzip
import hashlib
import os
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from typing import IO

from tdlg.atomic import put_in_place
from tdlg.datasets.registry import Dataset, named
from tdlg.exceptions import ReadError

__all__ = ["dataset_file", "is_available"]

VARIABLE = "TDLG_DATA"
READ_AT_ONCE = 1 << 20  # bytes
JODIE = b"user_id,item_id,timestamp,"  # the start of a table of the JODIE collection
# RuntimeError is raised for an encrypted archive, ValueError for a field that is not a number.
DAMAGE = (EOFError, zlib.error, gzip.BadGzipFile, zipfile.BadZipFile, RuntimeError, ValueError)


def is_available(name: str) -> bool:
    """Whether the file of a data set is on this machine, unpacked or packed; nothing is read or downloaded.

    Parameters
    ----------
    name
        One of `DATASETS`.

    Raises
    ------
    ParameterError
        If the data set is unknown.
    ReadError
        If the environment variable TDLG_DATA does not name a folder.
    """
    dataset = named(name)
    return _present((*dataset.files, *dataset.packed_files)) is not None


def dataset_file(name: str, *, check: bool = True) -> Path:
    """Return the path of a data set's file, which is unpacked or downloaded into the user's cache if necessary.

    The unpacked file is searched in the folder that the environment variable TDLG_DATA names, then in the cache; then the
    packed file in both; then it is downloaded. A file appears in the cache only when it is complete and its sha256 is
    right.

    Parameters
    ----------
    name
        One of `DATASETS`.
    check
        Whether an unpacked file must have the known sha256. If False, it is used as it is, for example another version
        that you obtained yourself. Files that are unpacked or downloaded here are always checked.

    Returns
    -------
    pathlib.Path
        The unpacked file.

    Raises
    ------
    ParameterError
        If the data set is unknown.
    ReadError
        If the file is not available, is damaged or has another sha256; the message says which file to put where.
    """
    dataset = named(name)
    if found := _present(dataset.files):
        if check:
            _check_sum(found, dataset)
        return found
    if packed := _present(dataset.packed_files):
        return _installed(packed, dataset, str(packed), f"{_removed(dataset)}.")
    return _downloaded(dataset)


# ---- folders


def _folders() -> Iterator[Path]:
    """The folders in which files are searched, in this order."""
    if given := _given_folder():
        yield given
    yield _cache()


def _given_folder() -> Path | None:
    given = os.environ.get(VARIABLE)
    if not given:
        return None
    folder = Path(given).expanduser()
    if not folder.is_dir():
        raise ReadError(f"The environment variable {VARIABLE} must name a folder. Got {given!r}. Correct or unset it.")
    return folder


def _cache() -> Path:
    import pooch

    return Path(pooch.os_cache("tdlg"))


def _present(names: Iterable[str]) -> Path | None:
    """The first of these files, in the first folder that has one."""
    names = tuple(names)
    return next((folder / name for folder in _folders() for name in names if (folder / name).is_file()), None)


@contextmanager
def _scratch() -> Iterator[Path]:
    """A folder inside the cache for incomplete files, so that a rename can move a complete one into place."""
    cache = _cache()
    try:
        cache.mkdir(parents=True, exist_ok=True)
        scratch = TemporaryDirectory(dir=cache, prefix="unfinished-")
    except OSError as error:
        raise ReadError(
            f"{cache}: this folder, the cache, cannot be written to ({error.strerror}). Unpack the file into another "
            f"folder, and set the environment variable {VARIABLE} to that folder."
        ) from error
    with scratch:
        yield Path(scratch.name)


# ---- sums


def _check_sum(path: Path, dataset: Dataset) -> None:
    with path.open("rb") as file:
        found = _sum_of(_chunks(file))
    if found != dataset.sha256:
        raise ReadError(
            f"{path}: this is not the file of the data set {dataset.name!r}, or it is damaged: its sha256 is {found}, "
            f"and should be {dataset.sha256}. {_removed(dataset)}.",
            "Or pass check=False to use it as it is.",
        )


def _removed(dataset: Dataset) -> str:
    again = f"get it again from {dataset.page}" if dataset.address is None else "it is downloaded again"
    return f"Remove it, and {again}"


def _sum_of(chunks: Iterable[bytes], copy: IO[bytes] | None = None) -> str:
    """The sha256 of all chunks together, which can be written to a file at the same time."""
    digest = hashlib.sha256()
    for chunk in chunks:
        digest.update(chunk)
        if copy is not None:
            copy.write(chunk)
    return digest.hexdigest()


def _chunks(file: IO[bytes] | gzip.GzipFile) -> Iterator[bytes]:
    return iter(lambda: file.read(READ_AT_ONCE), b"")


# ---- from a packed file or an address to the cache


def _downloaded(dataset: Dataset) -> Path:
    if dataset.address is None:
        raise ReadError(
            f"The data set {dataset.name!r} is not on this machine, and no address is known that gives its file "
            f"directly. {_by_hand(dataset)}"
        )
    import pooch

    with _scratch() as scratch:
        packed = scratch / "download"
        try:
            pooch.HTTPDownloader(chunk_size=READ_AT_ONCE)(dataset.address, str(packed), None)
        except OSError as error:  # also what requests raises
            if (response := getattr(error, "response", None)) is not None:
                response.close()  # pooch leaves the connection open
            raise ReadError(
                f"The data set {dataset.name!r} is not on this machine and cannot be downloaded from {dataset.address} "
                f"({type(error).__name__}: {str(error)[:200]}). {_by_hand(dataset)}"
            ) from error
        return _installed(packed, dataset, dataset.address, f"Try again later. {_by_hand(dataset)}")


def _by_hand(dataset: Dataset) -> str:
    file, packed = dataset.files[0], dataset.packed_files[-1]
    other = "" if _given_folder() else f", or into any other that the environment variable {VARIABLE} names"
    folder = f"into the folder {_given_folder() or _cache()}{other}"
    if dataset.by_hand:
        return f"It is made from {dataset.page}. {dataset.by_hand} Put the file {file} {folder}."
    get = f"Open {dataset.page} in a browser"
    if dataset.address is not None:
        packed = PurePosixPath(dataset.address).name
        get = f"Open {dataset.address} in a browser (it is described at {dataset.page})"
    return f"{get}, and put the file {packed} as it is, or {file} unpacked, {folder}."


def _installed(packed: Path, dataset: Dataset, origin: str, way_out: str) -> Path:
    """Unpack into a scratch folder, check the sha256, and only then rename into the cache."""
    target = _cache() / dataset.files[0]
    found = {}
    with _scratch() as scratch:
        unpacked = scratch / "unpacked"
        try:
            for member, chunks in _unpacked(packed):
                with unpacked.open("wb") as copy:
                    found[member] = _sum_of(chunks, copy)
                if found[member] == dataset.sha256:
                    put_in_place(unpacked, target)
                    return target
        except DAMAGE as error:
            raise ReadError(f"{origin}: this file is damaged or cut short ({error}). {way_out}") from None
    sums = ", ".join(f"{total} ({member})" if member else total for member, total in found.items())
    raise ReadError(
        f"{origin}: this does not hold the file of the data set {dataset.name!r}:{_looks_like_a_page(packed)} the sha256 "
        f"is {sums}, and should be {dataset.sha256}. {way_out}",
        "Another version can be read all the same, unpacked and with check=False.",
    )


def _looks_like_a_page(path: Path) -> str:
    with path.open("rb") as file:
        is_page = file.read(1000).lstrip().startswith(b"<")
    return " it is a web page," if is_page else ""


def _unpacked(path: Path) -> Iterator[tuple[str, Iterator[bytes]]]:
    """Each file in this one, as chunks. The format is detected by content: servers unpack files, browsers rename them."""
    with path.open("rb") as file:
        start = file.read(len(JODIE))
    if start[:2] == b"\x1f\x8b":
        with gzip.open(path) as unpacked:
            yield "", _chunks(unpacked)
    elif start[:4] == b"PK\x03\x04":
        with zipfile.ZipFile(path) as archive:
            for member in archive.infolist():
                with archive.open(member) as unpacked:
                    yield member.filename, _chunks(unpacked)
    elif start == JODIE:
        yield "edges", _from_jodie(path)
        yield "labels", _labels_from_jodie(path)
    else:
        with path.open("rb") as file:
            yield "", _chunks(file)


def _from_jodie(path: Path) -> Iterator[bytes]:
    """Convert a table of user, page, time and more to lines "user page time", with pages numbered after the users."""
    for user, page, time, _ in _rows_of_jodie(path):
        yield b"%d %d %d\n" % (user + 1, page + 1, time)


def _labels_from_jodie(path: Path) -> Iterator[bytes]:
    """Convert a table of user, page, time, label and more to a csv file of these columns, with numbers from 0."""
    yield b"u,i,ts,label\r\n"
    for row in _rows_of_jodie(path):
        yield b"%d,%d,%d,%d\r\n" % row


def _rows_of_jodie(path: Path) -> Iterator[tuple[int, int, int, int]]:
    with path.open("rb") as file:
        next(file)
        rows = [line.split(b",", 4)[:4] for line in file]
    numbers = [(int(user), int(page), int(float(time)), int(label)) for user, page, time, label in rows]
    n_users = 1 + max((user for user, *_ in numbers), default=-1)
    return ((user, page + n_users, time, label) for user, page, time, label in numbers)
