"""The state directory of a live model: its log, its models and their snapshots, written by one process at a time.

    lock                 held by the process that writes; the lock ends with the process
    state.json           the manifest: format, version, the generations, which are active, and their snapshots with checksums
    log-<number>.bin     the log, shared by all generations; the number of its first record
    log.end              number of a late record, by which a log that was cut by somebody else is recognised
    generation-0001/     a model, what it was fitted on, and its snapshots
        snapshot-<number>-<CRC32>.state    the state after that record of the log

What counts is what the manifest lists, and it is replaced by one rename: a snapshot that is not listed, or a new model, was
not finished. The log goes on when a new model comes, so that an earlier generation can be activated again: its newest
snapshot and a replay lead to the present.
"""

from __future__ import annotations

import ctypes
import errno
import gc
import json
import os
import re
import shutil
import signal
import sys
import threading
import time
import warnings
import zlib
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Any, TypeAlias
from weakref import WeakSet

import numpy as np
from numpy.typing import NDArray

from tdlg import __version__
from tdlg._kernels.running import spread
from tdlg.atomic import DRAFT, as_path, draft_of, new_file, put_in_place, sync_folder, sync_path
from tdlg.exceptions import ParameterError, warn
from tdlg.live.log import SEGMENT_BYTES, Log, LogError, Record, StateError, noted_end, read_records, sync_file

__all__ = [
    "ArrayFile",
    "Generation",
    "InUseError",
    "Snapshot",
    "StateDirectory",
    "StateReader",
    "request_role",
    "write_arrays",
]

DIRECTORY_FORMAT = 2
KEPT_SNAPSHOTS = 2  # of each generation: the older one is used if the newer one is damaged
KEPT_GENERATIONS = 2  # besides the active one
AT_ONCE = 1 << 22  # bytes that are summed together
WRITTEN_AT_ONCE = 1 << 21  # bytes of a snapshot
REMOVED_AT_ONCE = 1 << 23  # bytes of a file
SPARSE_FROM = 1 << 20  # bytes of an array of which only what is not 0 is written,
LARGEST_SHARE = 0.8  # if that is at most this share
WORD = np.dtype(np.int64)
FORKS = sys.platform == "linux"  # where memory is copied page by page, once it changes
MOST_FILES = 1 << 16  # that a process has open
PR_SET_PDEATHSIG = 1
MANIFEST = "state.json"
REQUEST = "request"  # folder with a new model that a refit beside the writing process has made
GENERATION = re.compile(r"generation-([0-9]{4,})")
SNAPSHOT = re.compile(r"snapshot-([0-9]{20})-([0-9a-f]{8})\.state")
OURS = re.compile(rf"lock|state\.json|\..*{re.escape(DRAFT)}|{GENERATION.pattern}")  # in an unfinished new directory
PLACE = 1 << 30  # of the locked byte on Windows, where a locked byte cannot be read: the process id is before it

_CHECKED: dict[Path, tuple[tuple[int, int], bool]] = {}  # snapshots: size and time of the file, whether it was whole

Fill: TypeAlias = "Callable[[Generation], object]"


@dataclass(frozen=True)
class Snapshot:
    """A file with the state after record `sequence` of the log."""

    path: Path
    sequence: int
    crc: int

    def is_whole(self) -> bool:
        """Whether the file has the content that was written. This reads the file once, and again if it was changed."""
        try:
            found = self.path.stat()
            known = found.st_size, found.st_mtime_ns
            if _CHECKED.get(self.path, (None, False))[0] != known:
                _CHECKED[self.path] = known, _crc_of(self.path) == self.crc
        except OSError:
            return False
        return _CHECKED[self.path][1]


@dataclass(frozen=True)
class Generation:
    """A model, in a folder of its own, with the snapshots of its state."""

    path: Path
    fingerprint: str  # of the model
    created: str  # ISO 8601
    listed: list[Snapshot] = field(default_factory=list, compare=False)  # as in the manifest, the newest first

    @property
    def name(self) -> str:
        """Name of the folder."""
        return self.path.name

    def snapshots(self) -> list[Snapshot]:
        """The snapshots, the newest first, without a check of their content."""
        return [snapshot for snapshot in self.listed if snapshot.path.exists()]

    def whole_snapshots(self) -> Iterator[Snapshot]:
        """The snapshots whose content is as it was written, the newest first."""
        return (snapshot for snapshot in self.listed if snapshot.is_whole())

    def write_snapshot(self, sequence: int, write: Callable[[Path], object]) -> Snapshot:
        """Write the state after record `sequence`, 0 for that before any record; `write` gets the path of the file.

        The manifest is to be written afterwards. If a whole snapshot of this record exists, it is returned instead.
        """
        found = next((one for one in self.listed if one.sequence == sequence and one.is_whole()), None)
        return found or self.add(self.put_snapshot(sequence, write))

    def put_snapshot(self, sequence: int, write: Callable[[Path], object]) -> Snapshot:
        """Write a snapshot that is not listed yet; see `add`."""
        with _clear_errors(self.path, "the snapshot"):
            draft = draft_of(self.path / "snapshot")
            try:
                write(draft)
                crc = _crc_of(draft)
                path = self.path / f"snapshot-{sequence:020}-{crc:08x}.state"
                put_in_place(draft, path)
            finally:
                with suppress(OSError):
                    draft.unlink()
        return Snapshot(path, sequence, crc)

    def add(self, snapshot: Snapshot) -> Snapshot:
        """List a snapshot that was just written."""
        found = snapshot.path.stat()
        _CHECKED[snapshot.path] = (found.st_size, found.st_mtime_ns), True
        kept = [one for one in self.listed if one.sequence != snapshot.sequence]
        self.listed[:] = sorted([snapshot, *kept], key=lambda one: -one.sequence)
        return snapshot

    def needed_after(self) -> int:
        """Sequence number after which the log is needed, even if the newest snapshot is damaged later; 0 without any."""
        return min((snapshot.sequence for snapshot in islice(self.whole_snapshots(), KEPT_SNAPSHOTS)), default=0)


class StateDirectory:
    """A state directory, open for writing, as a context manager.

    fingerprint : of the model; a directory of another one is refused, by default any is accepted. fill : called with the
    first `Generation` of a new directory, to write the file of the model and perhaps a snapshot of record 0; by default a
    new directory is refused. log : the `Log`. generation : the active one, whose model may be newer than the one passed.
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        fingerprint: str | None = None,
        fill: Fill | None = None,
        *,
        segment_bytes: int = SEGMENT_BYTES,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.folder = as_path(folder).absolute()
        self._clock = clock
        self._adopted: Generation | None = None
        self._child: ForkedWriter | None = None
        is_new = _is_new(self.folder, can_be=fill is not None and fingerprint is not None)
        with _clear_errors(self.folder, "the state directory"):
            self.folder.mkdir(parents=True, exist_ok=True)
            self._lock = Lock(self.folder / "lock")
        try:
            if is_new and fill is not None and fingerprint is not None:
                self._create(fingerprint, fill)
            self._read_manifest(fingerprint)
            self._remove_unfinished()
            self.log = Log(self.folder, segment_bytes=segment_bytes, clock=clock)
            self._check_log()
        except BaseException:
            self.close()
            raise

    # ---- the manifest

    def _read_manifest(self, fingerprint: str | None) -> None:
        manifest = read_manifest(self.folder)
        self._made = {name: manifest.get(name) for name in ("format", "tdlg", "model", "created")}
        self._generations = generations_of(self.folder, manifest)
        names = list(map(str, manifest.get("active", []))) or [""]
        if names[0] not in self._generations:
            raise StateError(
                f"The file {str(self.folder / MANIFEST)!r} names the generation {names[0]!r}, which is missing or damaged.",
                f"Restore it from a copy, or make one of these the first of 'active': {sorted(self._generations)}.",
            )
        self.generation, *self._before = (self._generations[name] for name in names if name in self._generations)
        known = {self._made["model"], *(generation.fingerprint for generation in self._generations.values())}
        if fingerprint is not None and fingerprint not in known:
            raise StateError(
                f"The state directory {str(self.folder)!r} was made by another model: {self.generation.fingerprint}, not "
                f"{fingerprint}.",
                f"Pass the model in {str(self.generation.path)!r}, or another state directory.",
            )

    def _write_manifest(self, active: list[Generation], generations: list[Generation]) -> None:
        listed = {
            each.name: {
                "model": each.fingerprint,
                "created": each.created,
                "snapshots": [[snapshot.sequence, snapshot.crc] for snapshot in each.listed],
            }
            for each in generations
        }
        content = {**self._made, "active": [each.name for each in active], "generations": listed}
        with _clear_errors(self.folder, "the state directory"), new_file(self.folder / MANIFEST) as file:
            file.write(json.dumps(content, indent=1).encode() + b"\n")
        self._generations = {each.name: each for each in generations}
        self.generation, *self._before = active

    def _create(self, fingerprint: str, fill: Fill) -> None:
        """Make the first generation. The manifest comes last: without it, the directory is made again."""
        for name in os.listdir(self.folder):
            if GENERATION.fullmatch(name):
                shutil.rmtree(self.folder / name, ignore_errors=True)
        self._generations = {}
        self._made = {"format": DIRECTORY_FORMAT, "tdlg": __version__, "model": fingerprint, "created": self._now()}
        first = self._new_generation(fingerprint, fill)
        self._write_manifest([first], [first])
        sync_folder(self.folder.parent)

    def _remove_unfinished(self) -> None:
        """Remove what the manifest does not list, and drafts: writing or removing them was interrupted."""
        for draft in self.folder.rglob(f".*{DRAFT}"):
            with suppress(OSError):
                draft.unlink()
        shutil.rmtree(self.folder / f".{REQUEST}{DRAFT}", ignore_errors=True)
        for name in os.listdir(self.folder):
            if GENERATION.fullmatch(name) and name not in self._generations:
                shutil.rmtree(self.folder / name, ignore_errors=True)
        for generation in self._generations.values():
            listed = {snapshot.path.name for snapshot in generation.listed}
            for name in os.listdir(generation.path):
                if SNAPSHOT.fullmatch(name) and name not in listed:
                    (generation.path / name).unlink(missing_ok=True)

    def _check_log(self) -> None:
        newest = max((one.sequence for each in self._generations.values() for one in each.snapshots()), default=0)
        if newest > self.log.synced:
            raise LogError(
                f"The log in {str(self.folder)!r} ends with record {self.log.synced}, before the snapshot of {newest}.",
                "Restore the newest segments from a copy, or start a new state directory.",
            )

    def _now(self) -> str:
        return datetime.fromtimestamp(self._clock(), UTC).isoformat(timespec="seconds")

    # ---- using it

    def warn_of_losses(self) -> None:
        """Warn if the log was shorter than before when it was opened, or had an unfinished end."""
        if self.log.n_missing:
            n = "1 record is" if self.log.n_missing == 1 else f"{self.log.n_missing:,} records are"
            warn(
                f"The log in {str(self.folder)!r} is shorter than it was: {n} missing, "
                "each of events or labels that had been answered.",
                "Restore the newest log-*.bin from a copy, or send these events and labels again.",
            )
        elif self.log.cut_bytes:
            warn(
                f"The log in {str(self.folder)!r} had an unfinished end of {self.log.cut_bytes:,} bytes, which was removed.",
                "After a crash this is usual, and nothing that was answered is lost. Otherwise check the disk.",
            )

    def close(self) -> None:
        """Sync and close the log, and release the lock. A closed directory can be closed again."""
        try:
            self.stop_writing()
            if hasattr(self, "log"):
                self.log.close()
        finally:
            self._lock.release()

    def __enter__(self) -> StateDirectory:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def write_snapshot(self, sequence: int, write: Callable[[Path], object]) -> Snapshot:
        """Write a snapshot of the active generation, all or nothing; the log goes on in a new segment.

        The newest two that are whole are kept. If a whole one of this record exists, it is returned instead.
        """
        generation = self._for_snapshot(sequence)
        before = [*generation.listed]
        written = generation.write_snapshot(sequence, write)
        self._list(generation, before)
        return written

    def begin_snapshot(self, sequence: int, write: Callable[[Path], object]) -> Callable[[], bool]:
        """Let a forked process write a snapshot of what is in memory now.

        Returns a function that is to be called now and then: it lists the snapshot once it is written, and says whether
        that is done.
        """
        generation = self._for_snapshot(sequence)
        child = self._child = ForkedWriter(lambda: generation.put_snapshot(sequence, write))

        def is_done() -> bool:
            if not child.is_over():
                return False
            self._child, before = None, [*generation.listed]
            generation.add(Snapshot(child.path(), sequence, int(child.path().stem[-8:], 16)))
            self._list(generation, before)
            return True

        return is_done

    def stop_writing(self) -> None:
        """End the process that writes a snapshot, if there is one; what it wrote is removed."""
        if self._child is not None:
            self._child.stop()
            self._child = None
            self._remove_unfinished()

    def _for_snapshot(self, sequence: int) -> Generation:
        if sequence > self.log.synced:
            raise ParameterError(
                f"A snapshot needs synced records. Got {sequence=}; the last is {self.log.synced}.",
                parameter="sequence",
            )
        return self._adopted or self.generation

    def _list(self, generation: Generation, before: list[Snapshot]) -> None:
        """Write the manifest with a new snapshot, remove those that are not needed, and go on in a new segment."""
        generation.listed[:] = islice(generation.whole_snapshots(), KEPT_SNAPSHOTS)
        new = [snapshot for snapshot in generation.listed if snapshot not in before]
        with _clear_errors(generation.path, "the snapshot"):
            try:
                if self._adopted is None:
                    self._write_manifest([self.generation, *self._before], self.generations())
                else:
                    self._activate(generation)
            except BaseException:
                generation.listed[:], before = before, new
                raise
            finally:
                for snapshot in before:
                    if snapshot not in generation.listed:
                        _CHECKED.pop(snapshot.path, None)
                        _remove(snapshot.path)
        self.log.roll()

    def newest_snapshot(self) -> Snapshot | None:
        """The newest snapshot of the active generation that is whole, None if there is none; replay the log after it."""
        return next(self.generation.whole_snapshots(), None)

    def prune(self, before: float) -> int:
        """Remove segments of the log whose records are all older than `before`, a time on the clock of the log.

        What a generation needs stays: all records after the older of its snapshots, or all if it has no snapshot.
        Returns the number of bytes that are free again.
        """
        return self.log.prune(before, min(generation.needed_after() for generation in self.generations()))

    def generations(self) -> list[Generation]:
        """All generations, the oldest first."""
        return sorted(self._generations.values(), key=lambda generation: _number_of(generation.name))

    def switch(self, fingerprint: str, fill: Fill) -> Generation:
        """Put a new model and its state in place of the active ones, by one rename. On any error, all is as before.

        As for a new directory, `fill` writes the model into the new generation, and its state by
        `Generation.write_snapshot`; records that came since are to be replayed afterwards. The generation that was active
        and the one before it are kept to go back to; if nothing was active before, the newest of the others is kept.
        """
        new = self._new_generation(fingerprint, fill)
        try:
            self._activate(new)
        except StateError:
            shutil.rmtree(new.path, ignore_errors=True)
            raise
        return new

    def _activate(self, new: Generation) -> None:
        active = [new, *[self.generation, *self._before][:KEPT_GENERATIONS]]
        others = [other for other in self.generations() if other not in active]
        n_spare = KEPT_GENERATIONS - len(active[1:])
        kept = [*others[len(others) - n_spare :]] if n_spare else []
        self._write_manifest(active, sorted([*active, *kept], key=lambda one: _number_of(one.name)))
        self._adopted = None
        for old in others:
            if old not in kept:
                shutil.rmtree(old.path, ignore_errors=True)

    def request(self) -> Path | None:
        """The folder with a new model that waits to be taken over."""
        folder = self.folder / REQUEST
        return folder if (folder / MANIFEST).exists() else None

    def take_request(self) -> Generation:
        """Make a generation of the model that waits. It becomes active with its first snapshot, see `adopt`."""
        folder = self.folder / REQUEST
        numbers = [_number_of(name) for name in os.listdir(self.folder) if GENERATION.fullmatch(name)]
        path = self.folder / f"generation-{1 + max(numbers):04}"
        generation = Generation(path, str(_read_json(folder / MANIFEST)["model"]), self._now())
        with _clear_errors(path, "the generation"):
            os.rename(folder, path)
            sync_folder(self.folder)
        self._write_manifest([self.generation, *self._before], [*self.generations(), generation])
        return generation

    def settle(self, used: Collection[str]) -> None:
        """Keep of the generations that were never active those that are used.

        A new model that was taken, and of which no record says so, waits again.
        """
        kept = [one for one in self.generations() if one.listed or one.name in used]
        for marker in filter(Path.exists, (one.path / MANIFEST for one in kept)):
            marker.unlink()
        unused = [one for one in self.generations() if one not in kept]
        for one in unused:
            if (one.path / MANIFEST).exists() and self.request() is None:
                shutil.rmtree(self.folder / REQUEST, ignore_errors=True)
                os.rename(one.path, self.folder / REQUEST)
        if unused:
            self._write_manifest([self.generation, *self._before], kept)
            for one in unused:
                shutil.rmtree(one.path, ignore_errors=True)

    def adopt(self, generation: Generation) -> None:
        """Use a generation from now on, as a record of the log says; the next snapshot is its first and makes it active."""
        self._adopted = generation

    def named(self, name: str) -> Generation | None:
        """The generation with this name, if it is there."""
        return self._generations.get(name)

    def go_back(self) -> None:
        """Make the generation that was active before the present one active again, by one rename."""
        if not self._before:
            raise StateError(f"There is no generation before {self.generation.name!r} to go back to.")
        kept = [one for one in self.generations() if one.listed or one in (self.generation, *self._before)]
        self._write_manifest(self._before, kept)

    def _new_generation(self, fingerprint: str, fill: Fill) -> Generation:
        names = [name for name in os.listdir(self.folder) if GENERATION.fullmatch(name)]
        path = self.folder / f"generation-{1 + max(map(_number_of, names), default=0):04}"
        generation = Generation(path, fingerprint, self._now())
        try:
            with _clear_errors(path, "the generation"):
                path.mkdir()
                fill(generation)
                for file in filter(Path.is_file, path.rglob("*")):
                    sync_path(file)
                sync_folder(path)
                sync_folder(self.folder)
        except BaseException:
            shutil.rmtree(path, ignore_errors=True)
            raise
        return generation

    @property
    def is_adopting(self) -> bool:
        """Whether a generation is used that has no snapshot yet."""
        return self._adopted is not None

    def disk_use(self) -> dict[str, int]:
        """Size in bytes of the log, the snapshots, and the models with all else in the generations."""
        folders = self.generations()
        snapshots = sum(snapshot.path.stat().st_size for folder in folders for snapshot in folder.snapshots())
        files = 0
        for path in (path for folder in folders for path in folder.path.rglob("*")):
            with suppress(FileNotFoundError):  # a draft, which has got its name meanwhile
                files += path.stat().st_size
        manifest = (self.folder / MANIFEST).stat().st_size
        return {"log": self.log.n_bytes, "snapshots": snapshots, "models": manifest + files - snapshots}

    def health(self) -> dict[str, Any]:
        """What a health page shows: where the log stands, why it cannot be written, and what uses the disk."""
        snapshots = self.generation.snapshots()
        return {
            "generation": self.generation.name,
            "first_sequence": self.log.first,
            "last_sequence": self.log.synced,
            "snapshot_sequence": snapshots[0].sequence if snapshots else None,
            "last_sync": self.log.last_sync,
            "failure": self.log.failure,
            "cut_bytes": self.log.cut_bytes,
            "segments": self.log.n_segments,
            "bytes": self.disk_use(),
        }


class StateReader:
    """A state directory that another process may write to, as it stands now; it is its own log, up to a synced record."""

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = as_path(folder).absolute()
        manifest = read_manifest(self.folder)
        self._generations = generations_of(self.folder, manifest)
        self.generation = self._generations[manifest["active"][0]]
        self.first, self.synced = noted_end(self.folder)
        self.log = self

    def replay(self, after: int) -> Iterator[Record]:
        """The records after this one."""
        return read_records(self.folder, after, self.synced) if after < self.synced else iter(())

    def newest_snapshot(self) -> Snapshot | None:
        """The newest snapshot of the active generation that is whole and within the log as it is read here."""
        return next((one for one in self.generation.whole_snapshots() if one.sequence <= self.synced), None)

    def named(self, name: str) -> Generation | None:
        """The generation with this name, if it is there."""
        return self._generations.get(name)

    def adopt(self, generation: Generation) -> None:
        """Nothing is changed here."""

    def leave_request(self, fingerprint: str, role: str, fill: Callable[[Path], object]) -> None:
        """Leave a new model for the process that holds the directory; `fill` writes into the given folder."""
        draft, folder = self.folder / f".{REQUEST}{DRAFT}", self.folder / REQUEST
        with _clear_errors(folder, "the new model"):
            shutil.rmtree(draft, ignore_errors=True)
            draft.mkdir()
            fill(draft)
            (draft / MANIFEST).write_text(json.dumps({"model": fingerprint, "role": role}))
            for file in draft.iterdir():
                sync_path(file)
            shutil.rmtree(folder, ignore_errors=True)
            os.rename(draft, folder)
            sync_folder(self.folder)


def request_role(folder: Path) -> str:
    """What a model that was left is for: to be the "model" in place, or a "shadow" of it."""
    path = folder / MANIFEST
    return str(_read_json(path).get("role", "model")) if path.exists() else "model"


def read_manifest(folder: Path) -> dict[str, Any]:
    """The manifest of a state directory, if this version can read it."""
    if not folder.is_dir():
        raise StateError(f"There is no state directory at {str(folder)!r}. 'tdlg stream' or 'tdlg serve' makes one.")
    manifest = _read_json(folder / MANIFEST)
    made, version = manifest.get("format"), manifest.get("tdlg")
    if made != DIRECTORY_FORMAT:
        is_older = isinstance(made, int) and made < DIRECTORY_FORMAT
        way_out = f"Open it with tdlg {version}" if is_older else f"Install tdlg {version} or newer"
        raise StateError(
            f"The state directory {str(folder)!r} has the format {made!r} of tdlg {version}; "
            f"tdlg {__version__} reads format {DIRECTORY_FORMAT}.",
            f"{way_out}, or pass another state directory.",
        )
    return manifest


def generations_of(folder: Path, manifest: Mapping[str, Any]) -> dict[str, Generation]:
    """The generations that a manifest lists and whose folders exist, by name."""
    found = {}
    for name, of in manifest.get("generations", {}).items():
        path = folder / name
        names = [(number, crc, path / f"snapshot-{number:020}-{crc:08x}.state") for number, crc in of["snapshots"]]
        if path.is_dir():
            found[name] = Generation(path, of["model"], of["created"], [Snapshot(p, n, crc) for n, crc, p in names])
    return found


def _is_new(folder: Path, can_be: bool) -> bool:
    """Whether a folder has no state directory yet; refused if none can be made there, before anything is written to it."""
    names = os.listdir(folder) if folder.is_dir() else []
    if MANIFEST in names:
        return False
    others = [name for name in names if not OURS.fullmatch(name)]
    if others:
        raise StateError(
            f"The folder {str(folder)!r} is not a state directory: it has no file {MANIFEST!r}, but {sorted(others)[:3]}.",
            "Pass a new or empty folder, or restore the file from a copy.",
        )
    if not can_be:
        raise StateError(f"There is no state directory at {str(folder)!r}.", "Pass a model to make one.")
    return True


def _number_of(name: str) -> int:
    return int(name.rpartition("-")[2])


def _read_json(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_bytes())
    except (OSError, ValueError) as error:
        raise StateError(f"{path}: the file is missing or damaged ({error}). Restore it from a copy.") from error
    return content if isinstance(content, dict) else {}


def _remove(path: Path) -> None:
    """Remove a file, a large one part by part beside all else: a sync of the log would wait for it."""

    def shorten() -> None:
        for size in range(path.stat().st_size, 0, -REMOVED_AT_ONCE):
            os.truncate(path, size)
            time.sleep(0.02)
        path.unlink()

    if path.exists() and path.stat().st_size > REMOVED_AT_ONCE:
        threading.Thread(target=shorten, name="tdlg-remove", daemon=True).start()
    else:
        path.unlink(missing_ok=True)


def _crc_of(path: Path) -> int:
    crc = 0
    with open(path, "rb") as file:
        while chunk := file.read(AT_ONCE):
            crc = zlib.crc32(chunk, crc)
    return crc


@contextmanager
def _clear_errors(path: Path, what: str) -> Iterator[None]:
    """Turn an error of the system into one that names what could not be written, and what to do."""
    try:
        yield
    except OSError as error:
        problem = f"{path}: {what} cannot be written: {error.strerror or error}."
        raise StateError(problem, "Check the space on the disk and the permissions.") from error


# ---- the lock


class Lock:
    """A lock on a file that ends with the process, however it ends. Processes forked from it do not hold it.

    The file holds the id of that process, for which `filelock` has no place, and is never removed. If the lock is held
    already, a `StateError` says by whom.
    """

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_BINARY", 0), 0o666)
        try:
            _lock(self._file)
        except OSError as error:
            holder = os.read(self._file, 20).decode("ascii", "replace").strip()
            os.close(self._file)
            if error.errno not in (errno.EAGAIN, errno.EACCES):
                problem = f"{path.parent}: the directory cannot be locked: {error.strerror}. Use a local disk."
                raise StateError(problem) from error
            raise InUseError(
                f"The state directory {str(path.parent)!r} is in use by "
                f"{f'process {holder}' if holder else 'another process'}.",
                "Stop it first, or pass another state directory.",
            ) from error
        _HELD.add(self)
        with suppress(OSError):  # a full disk: the lock holds without a name
            os.ftruncate(self._file, 0)
            os.write(self._file, f"{os.getpid()}\n".encode())

    def release(self) -> None:
        """Let others have the lock. A released lock can be released again."""
        _HELD.discard(self)
        if self._file >= 0:
            os.close(self._file)
        self._file = -1


class InUseError(StateError):
    """Another process holds the state directory."""


_HELD: WeakSet[Lock] = WeakSet()

if sys.platform == "win32":
    import msvcrt

    def _lock(file: int) -> None:
        os.lseek(file, PLACE, os.SEEK_SET)
        try:
            msvcrt.locking(file, msvcrt.LK_NBLCK, 1)
        finally:
            os.lseek(file, 0, os.SEEK_SET)

else:
    import fcntl

    def _lock(file: int) -> None:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def _release_in_child() -> None:
        for lock in [*_HELD]:
            lock.release()

    os.register_at_fork(after_in_child=_release_in_child)  # closing a copy of the descriptor does not unlock the file


# ---- snapshots beside the process that learns


class ForkedWriter:
    """A forked process that writes a file from the memory as it is now; it gives nothing back but the path, or an error.

    It uses nothing but its copy of the memory and the file: no lock, socket or other file of this process, no other thread.
    It ends with this process.
    """

    def __init__(self, write: Callable[[], Snapshot]) -> None:
        self._answer, answer = os.pipe()
        parent, self._prctl = os.getpid(), ctypes.CDLL(None).prctl
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # that there are threads, none of which is needed
            try:
                self._process = os.fork()
                if self._process == 0:
                    self._run(write, answer, parent)
            except OSError:
                os.close(self._answer)
                raise
            finally:
                os.close(answer)

    def _run(self, write: Callable[[], Snapshot], answer: int, parent: int) -> None:
        """In the forked process, which ends here."""
        try:
            gc.disable()
            os.nice(19)  # events go first
            self._prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
            signal.set_wakeup_fd(-1)
            for number in (signal.SIGINT, signal.SIGTERM):
                signal.signal(number, signal.SIG_DFL)
            os.closerange(3, answer)
            os.closerange(answer + 1, MOST_FILES)
            said = str(write().path) if os.getppid() == parent else ""
        except BaseException as error:
            said = f"!{error}"
        with suppress(BaseException):
            os.write(answer, said.encode(errors="replace"))
        os._exit(0)

    def is_over(self) -> bool:
        """Whether it has ended."""
        return os.waitpid(self._process, os.WNOHANG)[0] != 0

    def path(self) -> Path:
        """The path of the file, after the end; or the error."""
        if self._answer >= 0:
            with open(self._answer, "rb") as file:
                self._said, self._answer = file.read().decode(), -1
        if self._said[:1] in ("", "!"):
            raise StateError(self._said[1:] or "The process that wrote the snapshot was ended.")
        return Path(self._said)

    def stop(self) -> None:
        """End it."""
        os.kill(self._process, signal.SIGKILL)
        os.waitpid(self._process, 0)
        os.close(self._answer)


# ---- arrays in a file


def write_arrays(path: Path, arrays: Mapping[str, Any]) -> None:
    """Write arrays without objects, one after the other, then where each is; of large ones, what is not 0, and where.

    A function stands for an array that is made when its turn comes.
    """
    places: dict[str, tuple[Any, ...]] = {}
    at = synced = 0
    with open(path, "wb") as file:
        for name, given in arrays.items():
            array = np.asarray(given() if callable(given) else given)
            places[name] = array.dtype.str, array.shape, at
            content = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
            if array.nbytes >= SPARSE_FROM and array.dtype.itemsize == WORD.itemsize:
                words = content.view(WORD)
                is_set = words != 0
                if np.count_nonzero(is_set) < LARGEST_SHARE * len(words):
                    where = np.packbits(is_set)
                    content = np.concatenate([where, words[is_set].view(np.uint8)])
                    places[name] = *places[name], len(where), len(content)
            for start in range(0, len(content), WRITTEN_AT_ONCE):
                at += file.write(content[start : start + WRITTEN_AT_ONCE].data)
                if at >= synced + WRITTEN_AT_ONCE:  # a sync of the log waits for what is not on the disk yet
                    file.flush()
                    sync_file(file.fileno())
                    synced = at
        file.write(json.dumps(places).encode() + b"%020d" % at)


class ArrayFile(Mapping[str, NDArray[Any]]):
    """The arrays that `write_arrays` wrote; each is read when it is needed, so that they are never in memory twice."""

    def __init__(self, path: Path) -> None:
        self._path = path
        with open(path, "rb") as file:
            end = file.seek(-20, os.SEEK_END)
            start = int(file.read(20))
            file.seek(start)
            self._places = json.loads(file.read(end - start))

    def __getitem__(self, name: str) -> NDArray[Any]:
        kind, shape, start, *packed = self._places[name]
        dtype, n = np.dtype(kind), int(np.prod(shape))
        if not packed:
            return np.fromfile(self._path, dtype, n, offset=start).reshape(shape)
        n_places, size = packed
        content, words = np.fromfile(self._path, np.uint8, size, offset=start), np.zeros(n, WORD)
        spread(content[:n_places], content[n_places:].view(WORD), words)
        return words.view(dtype).reshape(shape)

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)
