"""The state directory of a live model: its log, its snapshots and its models, written by one process at a time.

    lock                 held by the process that writes; the lock ends with the process
    state.json           format of the directory, the version that made it, and the model that it was made for
    current              name of the active generation; then, one per line, those that were active before, the last one first
    log-<number>.bin     the log, shared by all generations; the number of its first record
    log.end              number of a late record, by which a log that was cut by somebody else is recognised
    generation-0001/     a model, its snapshots, and generation.json, which is written last
        snapshot-<number>-<CRC32>.state    the state after that record of the log

A new model and its state are a new generation; replacing the file `current` switches both at once. The log goes on, so that
an earlier generation can be activated again: its newest snapshot and a replay lead to the present. The checksum of a
snapshot is in its name, so that its content can have any format.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Any, TypeAlias

from tdlg import __version__
from tdlg.atomic import DRAFT, as_path, draft_of, new_file, put_in_place, sync_folder, sync_path
from tdlg.exceptions import ParameterError, warn
from tdlg.live.lock import Lock
from tdlg.live.log import SEGMENT_BYTES, Log, LogError, StateError

__all__ = ["Generation", "Snapshot", "StateDirectory"]

DIRECTORY_FORMAT = 1
KEPT_SNAPSHOTS = 2  # of each generation: the older one is used if the newer one is damaged
KEPT_GENERATIONS = 2  # besides the active one
SUMMED_AT_ONCE = 1 << 20  # bytes
GENERATION = re.compile(r"generation-([0-9]{4,})")
SNAPSHOT = re.compile(r"snapshot-([0-9]{20})-([0-9a-f]{8})\.state")
# What an unfinished new directory may hold.
OURS = re.compile(rf"lock|state\.json|\..*{re.escape(DRAFT)}|{GENERATION.pattern}")

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

    def remove(self) -> None:
        """Remove the file."""
        self.path.unlink(missing_ok=True)
        _CHECKED.pop(self.path, None)


@dataclass(frozen=True)
class Generation:
    """A model, in a folder of its own, with the snapshots of its state."""

    path: Path
    fingerprint: str  # of the model
    created: str  # ISO 8601

    @property
    def name(self) -> str:
        """Name of the folder."""
        return self.path.name

    def snapshots(self) -> list[Snapshot]:
        """The snapshots, the newest first, without a check of their content."""
        found = [(SNAPSHOT.fullmatch(name), name) for name in os.listdir(self.path)]
        listed = [Snapshot(self.path / name, int(match[1]), int(match[2], 16)) for match, name in found if match]
        return sorted(listed, key=lambda snapshot: snapshot.sequence, reverse=True)

    def whole_snapshots(self) -> Iterator[Snapshot]:
        """The snapshots whose content is as it was written, the newest first."""
        return (snapshot for snapshot in self.snapshots() if snapshot.is_whole())

    def write_snapshot(self, sequence: int, write: Callable[[Path], object]) -> Snapshot:
        """Write the state after record `sequence`, so that the snapshot appears whole or not at all.

        The newest two snapshots that are whole are kept. If a whole one of this record exists, it is returned instead.
        Record 0 stands for the state of the model before any record. `write` gets the path of the file to write.
        """
        for snapshot in self.snapshots():
            if snapshot.sequence == sequence and snapshot.is_whole():
                return snapshot
        with _clear_errors(self.path, "the snapshot"):
            written = self._written(sequence, write)
        self._remove_old_snapshots()
        return written

    def _written(self, sequence: int, write: Callable[[Path], object]) -> Snapshot:
        draft = draft_of(self.path / "snapshot")
        try:
            write(draft)
            crc = _crc_of(draft)
            path = self.path / f"snapshot-{sequence:020}-{crc:08x}.state"
            put_in_place(draft, path)
            found = path.stat()
            _CHECKED[path] = (found.st_size, found.st_mtime_ns), True
        finally:
            with suppress(OSError):
                draft.unlink()
        return Snapshot(path, sequence, crc)

    def _remove_old_snapshots(self) -> None:
        kept = [*islice(self.whole_snapshots(), KEPT_SNAPSHOTS)]
        for snapshot in self.snapshots():
            if snapshot not in kept:
                snapshot.remove()

    def needed_after(self) -> int:
        """Sequence number after which the log is needed, even if the newest snapshot is damaged later; 0 without any."""
        kept = islice(self.whole_snapshots(), KEPT_SNAPSHOTS)
        return min((snapshot.sequence for snapshot in kept), default=0)


class StateDirectory:
    """A state directory, open for writing, as a context manager.

    Parameters
    ----------
    folder
        The directory. With `fill` it is created if needed.
    fingerprint
        Identifies the model. A directory of another model is refused. By default, any model is accepted.
    fill
        Called with the first `Generation` of a new directory, to write the file of the model into its folder and, if it has
        a state already, a snapshot of record 0. By default, a new directory is refused.
    segment_bytes, clock
        As in `Log`.

    Attributes
    ----------
    log
        The `Log`.
    generation
        The active `Generation`. Its model may be newer than the one that was passed, which is accepted after a switch too.

    Raises
    ------
    StateError
        If another process writes to the directory, or if it is damaged, of another model or of a newer version.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> def fill(generation):
    ...     (generation.path / "model.tdlg").write_bytes(b"a model")
    >>> with TemporaryDirectory() as folder, StateDirectory(folder, "a fingerprint", fill) as state:
    ...     number = state.log.append(1, b"an event")
    ...     number = state.log.sync()
    ...     snapshot = state.write_snapshot(number, lambda path: path.write_bytes(b"the state"))
    ...     print(state.generation.name, state.newest_snapshot() == snapshot, snapshot.sequence)
    generation-0001 True 1
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
        _check_place(self.folder, is_new=fill is not None and fingerprint is not None)
        with _clear_errors(self.folder, "the state directory"):
            self.folder.mkdir(parents=True, exist_ok=True)
            self._lock = Lock(self.folder / "lock")
        try:
            self._open(fingerprint, fill)
            self.log = Log(self.folder, segment_bytes=segment_bytes, clock=clock)
            self._check_log()
        except BaseException:
            self.close()
            raise

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
            if hasattr(self, "log"):
                self.log.close()
        finally:
            self._lock.release()

    def __enter__(self) -> StateDirectory:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def write_snapshot(self, sequence: int, write: Callable[[Path], object]) -> Snapshot:
        """Write a snapshot of the active generation (see `Generation.write_snapshot`); the log goes on in a new segment."""
        if sequence > self.log.synced:
            raise ParameterError(
                f"A snapshot needs synced records. Got {sequence=}; the last is {self.log.synced}.",
                parameter="sequence",
            )
        snapshot = self.generation.write_snapshot(sequence, write)
        self.log.roll()
        return snapshot

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
        return [_read_generation(path) for path in _generation_folders(self.folder) if _is_finished(path)]

    def switch(self, fingerprint: str, fill: Fill) -> Generation:
        """Put a new model and its state in place of the active ones, by one rename. On any error, all is as before.

        As for a new directory, `fill` writes the model into the new generation, and its state by
        `Generation.write_snapshot`; records that came since are to be replayed afterwards. The generation that was active
        and the one before it are kept to go back to; if nothing was active before, the newest of the others is kept.
        """
        generation = self._new_generation(fingerprint, fill)
        try:
            self._activate(generation, [self.generation, *self._before][:KEPT_GENERATIONS])
        except StateError:
            _remove(generation.path)
            raise
        others = [other for other in self.generations() if other not in (generation, *self._before)]
        for old in others[: len(others) - (KEPT_GENERATIONS - len(self._before))]:
            _remove(old.path)
        return generation

    def go_back(self) -> None:
        """Make the generation that was active before the present one active again, by one rename."""
        if not self._before:
            raise StateError(f"There is no generation before {self.generation.name!r} to go back to.")
        self._activate(self._before[0], self._before[1:])

    def _activate(self, generation: Generation, before: list[Generation]) -> None:
        names = [each.name for each in (generation, *before)]
        with _clear_errors(self.folder, "the state directory"), new_file(self.folder / "current") as file:
            file.write("".join(f"{name}\n" for name in names).encode())
        self.generation, self._before = generation, before

    def _new_generation(self, fingerprint: str, fill: Fill) -> Generation:
        existing = _generation_folders(self.folder)
        number = _number_of(existing[-1]) + 1 if existing else 1
        path = self.folder / f"generation-{number:04}"
        generation = Generation(path, fingerprint, self._now())
        try:
            with _clear_errors(path, "the generation"):
                path.mkdir()
                fill(generation)
                for file in filter(Path.is_file, path.rglob("*")):
                    sync_path(file)
                _write_json(path / "generation.json", {"model": fingerprint, "created": generation.created})
                sync_folder(self.folder)
        except BaseException:
            shutil.rmtree(path, ignore_errors=True)
            raise
        return generation

    def disk_use(self) -> dict[str, int]:
        """Size in bytes of the log, the snapshots, and the models with all else in the generations."""
        folders = self.generations()
        snapshots = sum(snapshot.path.stat().st_size for folder in folders for snapshot in folder.snapshots())
        files = sum(path.stat().st_size for folder in folders for path in folder.path.rglob("*"))
        return {"log": self.log.n_bytes, "snapshots": snapshots, "models": files - snapshots}

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

    def _open(self, fingerprint: str | None, fill: Fill | None) -> None:
        if fill and fingerprint is not None and not (self.folder / "current").exists():
            self._create(fingerprint, fill)
        first = self._check_format()
        self.generation, *self._before = self._read_current()
        self._remove_unfinished()
        known = {first, *(generation.fingerprint for generation in self.generations())}
        if fingerprint is not None and fingerprint not in known:
            present = self.generation.fingerprint
            raise StateError(
                f"The state directory {str(self.folder)!r} was made by another model: {present}, not {fingerprint}.",
                f"Pass the model in {str(self.generation.path)!r}, or another state directory.",
            )

    def _create(self, fingerprint: str, fill: Fill) -> None:
        """Make the first generation. The file `current` comes last: without it, the directory is made again."""
        for path in _generation_folders(self.folder):
            _remove(path)
        with _clear_errors(self.folder, "the state directory"):
            made = {"format": DIRECTORY_FORMAT, "tdlg": __version__, "model": fingerprint, "created": self._now()}
            _write_json(self.folder / "state.json", made)
            sync_folder(self.folder.parent)
        self._activate(self._new_generation(fingerprint, fill), [])

    def _check_format(self) -> str:
        """The fingerprint of the model that the directory was made for, if this version can read the directory."""
        state = _read_json(self.folder / "state.json")
        if state.get("format") != DIRECTORY_FORMAT:
            raise StateError(
                f"The state directory {str(self.folder)!r} has the format {state.get('format')!r} of tdlg"
                f" {state.get('tdlg')}; tdlg {__version__} reads format {DIRECTORY_FORMAT}.",
                f"Install tdlg {state.get('tdlg')} or newer, or pass another state directory.",
            )
        return str(state.get("model"))

    def _read_current(self) -> list[Generation]:
        """The active generation, and those that were active before."""
        name, *before = (self.folder / "current").read_text(encoding="utf-8", errors="replace").split() or [""]
        generations = {generation.name: generation for generation in self.generations()}
        if name not in generations:
            raise StateError(
                f"The file {str(self.folder / 'current')!r} names the generation {name!r}, which is missing or damaged.",
                f"Restore it from a copy, or write one of these names into the file: {sorted(generations)}.",
            )
        return [generations[each] for each in (name, *before) if each in generations]

    def _remove_unfinished(self) -> None:
        """Remove generations, snapshots and drafts whose writing or removal was interrupted: nobody else writes here."""
        for draft in self.folder.rglob(f".*{DRAFT}"):
            with suppress(OSError):
                draft.unlink()
        for path in _generation_folders(self.folder):
            if not _is_finished(path):
                _remove(path)

    def _check_log(self) -> None:
        snapshots = (snapshot for generation in self.generations() for snapshot in generation.snapshots())
        newest = max((snapshot.sequence for snapshot in snapshots), default=0)
        if newest > self.log.synced:
            raise LogError(
                f"The log in {str(self.folder)!r} ends with record {self.log.synced}, before the snapshot of {newest}.",
                "Restore the newest segments from a copy, or start a new state directory.",
            )

    def _now(self) -> str:
        return datetime.fromtimestamp(self._clock(), UTC).isoformat(timespec="seconds")


def _check_place(folder: Path, is_new: bool) -> None:
    """Refuse a folder without a state directory, unless a new one can be made there, before anything is written to it."""
    names = os.listdir(folder) if folder.is_dir() else []
    if "current" in names:
        return
    others = [name for name in names if not OURS.fullmatch(name)]
    if others:
        raise StateError(
            f"The folder {str(folder)!r} is not a state directory: it has no file 'current', but {sorted(others)[:3]}.",
            "Pass a new or empty folder, or restore the file from a copy.",
        )
    if not is_new:
        raise StateError(f"There is no state directory at {str(folder)!r}.", "Pass a model to make one.")


def _generation_folders(folder: Path) -> list[Path]:
    return sorted((folder / name for name in os.listdir(folder) if GENERATION.fullmatch(name)), key=_number_of)


def _number_of(generation: Path) -> int:
    return int(generation.name.rpartition("-")[2])


def _is_finished(generation: Path) -> bool:
    return (generation / "generation.json").exists()


def _read_generation(path: Path) -> Generation:
    content = _read_json(path / "generation.json")
    return Generation(path, str(content.get("model")), str(content.get("created")))


def _remove(generation: Path) -> None:
    with suppress(OSError):
        (generation / "generation.json").unlink(missing_ok=True)  # from now on it counts as unfinished
        shutil.rmtree(generation)


def _write_json(path: Path, content: dict[str, Any]) -> None:
    with new_file(path) as file:
        file.write(json.dumps(content, indent=1).encode() + b"\n")


def _read_json(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_bytes())
    except (OSError, ValueError) as error:
        raise StateError(f"{path}: the file is missing or damaged ({error}). Restore it from a copy.") from error
    return content if isinstance(content, dict) else {}


def _crc_of(path: Path) -> int:
    crc = 0
    with open(path, "rb") as file:
        while chunk := file.read(SUMMED_AT_ONCE):
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
