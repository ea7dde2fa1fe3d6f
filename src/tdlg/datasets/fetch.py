"""Data sets: what the registry says of each; its file, unpacked or downloaded by pooch, with a check of its sha256."""

from __future__ import annotations

import difflib
import gzip
import io
import os
import shutil
import tomllib
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from typing import IO, Any

from tdlg.atomic import put_in_place
from tdlg.exceptions import ParameterError, ReadError

ROLES = {"src", "dst", "time", "rating", "label"}


@dataclass(frozen=True)
class Dataset:
    """One public data set: a file with a known sha256, and what is in it."""

    name: str
    files: tuple[str, ...]  # names that the unpacked file may have; the first is its original name
    sha256: str  # of the unpacked file
    # in order: "src", "dst", "time", "rating" (a number whose sign is the label), "label", and the names of features;
    # further columns of the file are not read
    columns: tuple[str, ...]
    page: str  # where it is described
    address: str | None  # of the file, an archive with it, or a table that it is made from; None: get it by hand
    licence: str
    citation: str
    n_nodes: int  # as `load_dataset` counts them by default
    n_edges: int
    days: int | None  # from the first edge to the last, rounded; None if the file has no times
    positive: float | None = None  # per cent of the labels that are 1, to two decimals; None without labels
    label: str | None = None  # the meaning of a label of 1
    bipartite: bool = False  # whether src and dst are nodes of two types by default
    dated: bool = True  # whether times are seconds since 1970, so that their dates are known
    note: str = ""  # what to know before using it
    by_hand: str = ""  # how to make the file, if it is not offered for download as it is

    @property
    def features(self) -> tuple[str, ...]:
        """The columns of the file that are features of the edges."""
        return tuple(column for column in self.columns if column not in ROLES)

    @property
    def packed_files(self) -> tuple[str, ...]:
        """Names that the packed file may have: as downloaded, or as .gz or .zip."""
        packed = [] if self.address is None else [PurePosixPath(self.address).name]
        for file in self.files:
            packed += [f"{file}.gz", f"{PurePosixPath(file).stem}.zip"]
        return tuple(dict.fromkeys(packed))


def named(name: Any) -> Dataset:
    """The data set of this name."""
    if isinstance(name, str) and name in DATASETS:
        return DATASETS[name]
    close = difflib.get_close_matches(str(name), DATASETS, 1, 0.5)
    hint = f"Did you mean {close[0]!r}? " if close else ""
    raise ParameterError(
        f"There is no data set {name!r}. {hint}The names are: {', '.join(DATASETS)}.", parameter="name"
    )


def _read_registry() -> dict[str, Dataset]:
    found = tomllib.loads(files("tdlg.datasets").joinpath("registry.toml").read_text(encoding="utf-8"))
    papers, terms = found["papers"], found["terms"]
    return {
        name: Dataset(
            name,
            **given
            | {
                "files": tuple(given["files"]),
                "columns": tuple(given["columns"]),
                "address": given.get("address"),
                "days": given.get("days"),
                "licence": terms.get(given["licence"], given["licence"]),
                "citation": " ".join(papers.get(paper, paper) for paper in given["citation"]),
            },
        )
        for name, given in found["datasets"].items()
    }


DATASETS: dict[str, Dataset] = _read_registry()


# ---- files

VARIABLE = "TDLG_DATA"
JODIE = b"user_id,item_id,timestamp,"  # the start of a table of the JODIE collection
# RuntimeError is raised for an encrypted archive, ValueError for a field that is not a number.
DAMAGE = (EOFError, zlib.error, gzip.BadGzipFile, zipfile.BadZipFile, RuntimeError, ValueError)


def is_available(name: str) -> bool:
    """Whether the file of a data set is on this machine, unpacked or packed; nothing is read or downloaded."""
    dataset = named(name)
    return _present((*dataset.files, *dataset.packed_files)) is not None


def dataset_file(name: str, *, check: bool = True) -> Path:
    """Return the path of a data set's file, which is unpacked or downloaded into the user's cache if necessary.

    The unpacked file is searched in the folder that the environment variable TDLG_DATA names, then in the cache; then the
    packed file in both; then it is downloaded. A file appears in the cache only when it is complete and its sha256 is
    right. check : whether a file that is unpacked already must have the known sha256.
    """
    from pooch import file_hash

    dataset = named(name)
    again = f"get it again from {dataset.page}" if dataset.address is None else "it is downloaded again"
    if found := _present(dataset.files):
        if check and (total := file_hash(found)) != dataset.sha256:
            raise ReadError(
                f"{found}: this is not the file of the data set {name!r}, or it is damaged: its sha256 is {total}, "
                f"and should be {dataset.sha256}. Remove it, and {again}.",
                "Or pass check=False to use it as it is.",
            )
        return found
    if packed := _present(dataset.packed_files):
        return _installed(packed, dataset, str(packed), f"Remove it, and {again}.")
    return _downloaded(dataset)


# ---- folders


def _folders() -> list[Path]:
    """The folders in which files are searched, in this order: the one that TDLG_DATA names, and the cache."""
    import pooch

    cache = Path(pooch.os_cache("tdlg"))
    given = os.environ.get(VARIABLE)
    if not given:
        return [cache]
    folder = Path(given).expanduser()
    if not folder.is_dir():
        raise ReadError(f"The environment variable {VARIABLE} must name a folder. Got {given!r}. Correct or unset it.")
    return [folder, cache]


def _present(names: Iterable[str]) -> Path | None:
    """The first of these files, in the first folder that has one."""
    paths = (folder / name for folder in _folders() for name in names)
    return next((path for path in paths if path.is_file()), None)


def _scratch() -> TemporaryDirectory[str]:
    """A folder inside the cache for incomplete files, so that a rename can move a complete one into place."""
    cache = _folders()[-1]
    try:
        cache.mkdir(parents=True, exist_ok=True)
        return TemporaryDirectory(dir=cache, prefix="unfinished-")
    except OSError as error:
        raise ReadError(
            f"{cache}: this folder, the cache, cannot be written to ({error.strerror}). Unpack the file into another "
            f"folder, and set the environment variable {VARIABLE} to that folder."
        ) from error


# ---- from an address or a packed file to the cache


def _downloaded(dataset: Dataset) -> Path:
    if dataset.address is None:
        raise ReadError(
            f"The data set {dataset.name!r} is not on this machine, and no address is known that gives its file "
            f"directly. {_by_hand(dataset)}"
        )
    from pooch import HTTPDownloader

    with _scratch() as scratch:
        packed = Path(scratch) / "download"
        try:
            HTTPDownloader()(dataset.address, str(packed), None)
        except OSError as error:  # also what requests raises
            if (response := getattr(error, "response", None)) is not None:
                response.close()  # pooch leaves the connection open
            raise ReadError(
                f"The data set {dataset.name!r} is not on this machine and cannot be downloaded from {dataset.address} "
                f"({type(error).__name__}: {str(error)[:200]}). {_by_hand(dataset)}"
            ) from error
        return _installed(packed, dataset, dataset.address, f"Try again later. {_by_hand(dataset)}")


def _by_hand(dataset: Dataset) -> str:
    """Which file to put where."""
    file, packed, folders = dataset.files[0], dataset.packed_files[-1], _folders()
    other = f", or into any other that the environment variable {VARIABLE} names" if len(folders) == 1 else ""
    where = f"into the folder {folders[0]}{other}"
    if dataset.by_hand:
        return f"It is made from {dataset.page}. {dataset.by_hand} Put the file {file} {where}."
    get = f"Open {dataset.page} in a browser"
    if dataset.address is not None:
        packed = PurePosixPath(dataset.address).name
        get = f"Open {dataset.address} in a browser (it is described at {dataset.page})"
    return f"{get}, and put the file {packed} as it is, or {file} unpacked, {where}."


def _installed(packed: Path, dataset: Dataset, origin: str, way_out: str) -> Path:
    """Unpack into a scratch folder, check the sha256, and only then rename into the cache."""
    from pooch import file_hash

    target, found = _folders()[-1] / dataset.files[0], []
    with _scratch() as scratch:
        unpacked = Path(scratch) / "unpacked"
        try:
            for name, part in _parts(packed):
                with part, unpacked.open("wb") as copy:
                    shutil.copyfileobj(part, copy)
                total = file_hash(unpacked)
                if total == dataset.sha256:
                    put_in_place(unpacked, target)
                    return target
                found.append(f"{total} ({name})" if name else total)
        except DAMAGE as error:
            raise ReadError(f"{origin}: this file is damaged or cut short ({error}). {way_out}") from None
    with packed.open("rb") as file:
        is_page = file.read(1000).lstrip().startswith(b"<")
    raise ReadError(
        f"{origin}: this does not hold the file of the data set {dataset.name!r}:{' it is a web page,' * is_page} the "
        f"sha256 is {', '.join(found)}, and should be {dataset.sha256}. {way_out}",
        "Another version can be read all the same, unpacked and with check=False.",
    )


def _parts(path: Path) -> Iterator[tuple[str, IO[bytes]]]:
    """Each file in this one. The format is detected by content: servers unpack files, browsers rename them."""
    with path.open("rb") as file:
        start = file.read(len(JODIE))
    if start[:2] == b"\x1f\x8b":
        yield "", gzip.open(path)  # type: ignore[misc]  # noqa: SIM115  # closed by who reads it
    elif start[:4] == b"PK\x03\x04":
        with zipfile.ZipFile(path) as archive:
            for member in archive.infolist():
                yield member.filename, archive.open(member)
    elif start == JODIE:
        with path.open("rb") as file:
            next(file)
            texts = [line.split(b",", 4)[:4] for line in file]
        numbers = [(int(user), int(page), int(float(time)), int(label)) for user, page, time, label in texts]
        n_users = 1 + max((user for user, *_ in numbers), default=-1)
        # pages are numbered after users; the first file counts from 1
        rows = [(user, page + n_users, time, label) for user, page, time, label in numbers]
        yield "edges", io.BytesIO(b"".join(b"%d %d %d\n" % (user + 1, page + 1, time) for user, page, time, _ in rows))
        yield "labels", io.BytesIO(b"u,i,ts,label\r\n" + b"".join(b"%d,%d,%d,%d\r\n" % row for row in rows))
    else:
        yield "", path.open("rb")
