"""An append-only log of records that survives a crash at any moment.

The log is a row of files, the segments, named after the sequence number of their first record. A record is a header and a
payload of bytes, whose meaning is left to the caller:

    mark | CRC32 of the rest | length | sequence | time | count | unsynced | kind | payload

`unsynced` says how many records, up to this one, had not been synced when it was appended. So a whole record proves which
earlier records had been acknowledged: a damaged record before it is an error, while the end of a batch whose sync never
returned is cut off. A damaged record at the very end of the log cannot be told from an unfinished one and is cut as well.

After a failed write or sync, the records since the last sync are dropped, the segment is cut back to its last synced record
and the next batch begins a new segment. The kernel may discard the pages of a failed sync and report success the next time;
in this way no page that holds acknowledged records is ever written again. Whole records of the failed batch can come back
only if the process ends before the cut reaches the disk.

A small file beside the segments, `log.end`, has the number of a late record that had been synced. It is written with each
new segment, every few seconds and at the end. So a newest segment that was removed or cut by somebody else is noticed.

One process may write (see `tdlg.live.store`), and one thread of it at a time. Reading is possible from anywhere.
"""

from __future__ import annotations

import errno
import os
import re
import struct
import sys
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from tdlg.atomic import DRAFT, sync_folder
from tdlg.checks import check_count
from tdlg.exceptions import ParameterError, TdlgError

__all__ = ["Log", "LogError", "LogFullError", "Record", "StateError", "noted_end", "read_records", "sync_file"]

SEGMENT_BYTES = 64 << 20
LARGEST_PAYLOAD = 1 << 30  # bytes of a payload
MARK = b"\xfftdl"  # its first byte never occurs in UTF-8, so no payload of text contains it
HEADER = struct.Struct("<4sIIQdIIB")
CHECKED = struct.Struct("<IQdIIB")  # the header after the CRC
UNCHECKED = HEADER.size - CHECKED.size
NAME = re.compile(r"log-([0-9]{20})\.bin")
FULL = {errno.ENOSPC, errno.EFBIG, getattr(errno, "EDQUOT", errno.ENOSPC)}
FLAGS = os.O_RDWR | os.O_APPEND | getattr(os, "O_BINARY", 0)
RESTORE = "Restore the file from a copy, or start a new state directory."
PROBE, PROBE_BYTES = f".probe{DRAFT}", 1 << 20
PROBE_EVERY = 5.0  # seconds, at least
END, END_EVERY = "log.end", 5.0  # seconds, at least


class StateError(TdlgError):
    """A state directory cannot be used: it is locked, damaged, or of another model or a newer version."""


class LogError(StateError):
    """The log cannot be written, or a record that had been acknowledged is damaged or missing."""


class LogFullError(LogError):
    """The log cannot be written because the disk, the quota or the largest size of a file is exhausted."""


class Record(NamedTuple):
    """One record of the log."""

    sequence: int
    kind: int
    count: int  # type: ignore[assignment]  # of items; it hides the method of tuples
    time: float
    payload: bytes


@dataclass
class Segment:
    """One file of the log: its path, the sequence number of its first record, its size and the time of its newest record."""

    path: Path
    first: int
    size: int
    newest: float | None = None  # None: not read yet


class Log:
    """The log in a folder, open for appending.

    Parameters
    ----------
    folder
        The folder of the segments, which exists. Opening reads the newest segment, cuts an unfinished end and syncs it.
    segment_bytes
        Size in bytes from which a new segment begins. The default, 64 MiB, is read in about half a second.
    clock
        The time in seconds that is stored with each record. By default, seconds since 1970.

    Attributes
    ----------
    synced
        Sequence number of the last record that is on the disk, 0 if there is none. The first record has the number 1.
    cut_bytes
        Bytes of an unfinished batch that were cut when the log was opened.
    n_missing
        Number of records that had been synced, but were not there any more when the log was opened.
    last_sync
        Time of the last successful sync by this object, or None.
    failure
        Why the last sync failed; None if it did not.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder, Log(folder) as log:
    ...     number = log.append(1, b"an event")
    ...     on_disk = log.sync()
    ...     print(number, on_disk, [record.payload for record in log.replay()])
    1 1 [b'an event']
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        *,
        segment_bytes: int = SEGMENT_BYTES,
        clock: Callable[[], float] = time.time,
    ) -> None:
        check_count("Log", "segment_bytes", segment_bytes, 1)
        self.folder = Path(folder)
        self.segment_bytes = segment_bytes
        self.cut_bytes = 0
        self.last_sync: float | None = None
        self.failure: str | None = None
        self._clock = clock
        self._file = -1
        self._pending: list[bytes] = []
        self._n_pending = 0
        self._sealed = False  # the next batch begins a new segment
        self._uncut = False  # a failed batch may have left bytes behind
        self._n_failed = 0  # bytes of the last batch that could not be written
        self._probe_at = self._note_at = 0.0  # when to do it again, on the clock of the machine
        try:
            self._open_newest()
            self.n_missing = max(0, _noted_end(self.folder) - self.synced)
        except OSError as error:
            raise _unwritable(self.folder, error) from error

    # ---- writing

    def append(self, kind: int, payload: bytes, count: int = 1) -> int:
        """Add a record to the batch that the next `sync` writes.

        Parameters
        ----------
        kind
            A number from 0 to 255 that says what the payload is.
        payload
            The bytes, at most 1 GiB.
        count
            How many items the payload holds.

        Returns
        -------
        int
            The sequence number of the record. It is used again if the sync fails.
        """
        if len(payload) > LARGEST_PAYLOAD:
            raise ParameterError(
                f"A 'payload' has at most {LARGEST_PAYLOAD} bytes. Got {len(payload)}: append it in parts.",
                parameter="payload",
            )
        unsynced = self._n_pending + 1
        sequence = self.synced + unsynced
        checked = CHECKED.pack(len(payload), sequence, self._clock(), count, unsynced, kind)
        crc = zlib.crc32(payload, zlib.crc32(checked))
        self._pending += MARK, crc.to_bytes(4, "little"), checked, payload
        self._n_pending = unsynced
        return sequence

    def sync(self) -> int:
        """Write all records appended since the last sync, with one write and one sync of the file.

        Returns
        -------
        int
            The sequence number of the last record, which is now on the disk with all before it.

        Raises
        ------
        LogFullError
            If there is no space. Like after every failure, the records since the last sync are dropped, nothing of them
            stays in the file, and the log can be used again as soon as there is space.
        LogError
            If the system reports another failure.
        """
        if not self._pending:
            return self.synced
        batch = b"".join(self._pending)
        try:
            self._make_ready(len(batch))
            self._write(batch)
            sync_file(self._file)
        except BaseException as error:  # also an interrupt: how much was written is unknown
            self._drop_batch()
            if not isinstance(error, OSError):
                raise
            failure = _unwritable(self._newest.path, error)
            self.failure, self._n_failed = failure.problem, len(batch)
            raise failure from error
        return self._accept(len(batch))

    def probe(self) -> None:
        """After a failure, see by a write beside the log whether there is space again; then `failure` is None.

        It is tried every few seconds at most, with as many bytes as could not be written.
        """
        if self.failure is None or time.monotonic() < self._probe_at:
            return
        path = self.folder / PROBE
        with suppress(OSError):
            try:
                with open(path, "wb", buffering=0) as file:
                    _write_all(file.fileno(), bytes(max(PROBE_BYTES, self._n_failed)))
                    sync_file(file.fileno())
                self.failure = None
            finally:
                path.unlink(missing_ok=True)
                self._probe_at = time.monotonic() + PROBE_EVERY

    def roll(self) -> None:
        """Begin a new segment with the next batch."""
        self._sealed = True

    def close(self) -> None:
        """Sync what was appended, and close the file. A closed log can be closed again."""
        try:
            if self._file >= 0:
                self.sync()
                self._note_end()
        finally:
            if self._file >= 0:
                os.close(self._file)
            self._file = -1

    def __enter__(self) -> Log:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    # ---- reading

    def replay(self, after: int | None = None) -> Iterator[Record]:
        """Read the synced records in their order. Records that are synced while this runs are not included.

        Parameters
        ----------
        after
            Sequence number after which to start. By default, all records that are kept.

        Raises
        ------
        LogError
            If records after `after` have been pruned, or when the iteration reaches a damaged record.
        """
        return _read([*self._segments], after, self.synced)

    @property
    def first(self) -> int:
        """Sequence number of the first record that is kept."""
        return self._segments[0].first

    @property
    def n_segments(self) -> int:
        """Number of files."""
        return len(self._segments)

    @property
    def n_bytes(self) -> int:
        """Size of all segments in bytes."""
        return sum(segment.size for segment in self._segments)

    # ---- forgetting

    def prune(self, before: float, covered: int) -> int:
        """Remove the oldest segments that hold only old records which a snapshot covers; never the newest segment.

        Parameters
        ----------
        before
            Time before which a record is old, on the clock of the log.
        covered
            Sequence number up to which a snapshot makes the records unnecessary.

        Returns
        -------
        int
            Number of bytes that are free again.
        """
        freed = 0
        while len(self._segments) > 1:
            oldest, following = self._segments[:2]
            if following.first > covered + 1 or self._newest_time(oldest, following) >= before:
                break
            oldest.path.unlink(missing_ok=True)
            freed += self._segments.pop(0).size
        if freed:
            sync_folder(self.folder)
        return freed

    def _newest_time(self, segment: Segment, following: Segment) -> float:
        if segment.newest is None:
            records = _read([segment, following], None, following.first - 1)
            segment.newest = max(record.time for record in records)
        return segment.newest

    # ---- the newest segment

    @property
    def _newest(self) -> Segment:
        return self._segments[-1]

    def _open_newest(self) -> None:
        self._segments = _segments_of(self.folder)
        if not self._segments:
            self.synced = 0
            self._begin_segment()
            return
        self._file = os.open(self._newest.path, FLAGS)
        try:
            self._cut_unfinished_end()
        except BaseException:
            os.close(self._file)
            raise

    def _cut_unfinished_end(self) -> None:
        """Find the last record, and make durable what a killed process has written without a sync."""
        segment = self._newest
        data = segment.path.read_bytes()
        self.synced, size = segment.first - 1, 0
        for record in _whole_records(data, segment.first):
            self.synced, size = record.sequence, size + HEADER.size + len(record.payload)
        if _was_synced(data, size, self.synced + 1):
            raise _damaged(segment.path, size, self.synced + 1)
        if len(data) > size:
            os.ftruncate(self._file, size)
        os.fsync(self._file)
        self.cut_bytes, segment.size = len(data) - size, size

    def _make_ready(self, n_bytes: int) -> None:
        """Cut what a failed batch left, and begin a new segment if the newest one is sealed or full."""
        segment = self._newest
        if self._uncut:
            self._cut()
        if segment.size and (self._sealed or segment.size + n_bytes > self.segment_bytes):
            self._begin_segment()

    def _begin_segment(self) -> None:
        first = self.synced + 1
        path = self.folder / f"log-{first:020}.bin"
        file = os.open(path, FLAGS | os.O_CREAT | os.O_EXCL, 0o666)
        try:
            sync_folder(self.folder)
        except BaseException:
            os.close(file)
            path.unlink(missing_ok=True)
            raise
        if self._file >= 0:
            os.close(self._file)
        self._file, self._sealed, self._note_at = file, False, 0.0
        self._segments.append(Segment(path, first, 0))

    def _write(self, batch: bytes) -> None:
        self._uncut = True
        _write_all(self._file, batch)

    def _accept(self, n_bytes: int) -> int:
        self._newest.size += n_bytes
        self.synced += self._n_pending
        self._uncut, self.failure, self.last_sync = False, None, self._clock()
        self._forget_pending()
        if time.monotonic() >= self._note_at:
            self._note_end()
        return self.synced

    def _note_end(self) -> None:
        """Write the number of the last record beside the log, without waiting for the disk."""
        if not self.synced:
            return
        self._note_at = time.monotonic() + END_EVERY
        number = b"%d" % self.synced
        with suppress(OSError):
            file = os.open(self.folder / END, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | getattr(os, "O_BINARY", 0), 0o666)
            try:
                os.write(file, b"%s %08x\n" % (number, zlib.crc32(number)))
            finally:
                os.close(file)

    def _drop_batch(self) -> None:
        self._forget_pending()
        self._sealed = True
        if self._uncut:
            with suppress(OSError):  # the next sync tries again, before it writes anything
                self._cut()

    def _cut(self) -> None:
        os.ftruncate(self._file, self._newest.size)
        os.fsync(self._file)
        self._uncut = False

    def _forget_pending(self) -> None:
        self._pending, self._n_pending = [], 0


def read_records(folder: str | os.PathLike[str], after: int | None = None, last: int | None = None) -> Iterator[Record]:
    """Read the records of a log, also while another process writes it. An unfinished end is left out, and left alone.

    Parameters
    ----------
    folder
        The folder of the segments.
    after
        Sequence number after which to start. By default, all records that are kept.
    last
        Sequence number of the last record to read, which must be there. By default, as far as the log is whole.
    """
    return _read(_segments_of(Path(folder)), after, last)


def noted_end(folder: Path) -> tuple[int, int]:
    """The first record of a log, and a late one that had been synced, by the note that its writer makes now and then."""
    segments = _segments_of(folder)
    return (segments[0].first if segments else 1), _noted_end(folder)


def sync_file(file: int) -> None:
    """Wait until the content of a file is on the disk. Metadata that is not needed to read it may follow later."""
    if sys.platform == "darwin":  # where fsync does not reach beyond the cache of the disk
        import fcntl

        fcntl.fcntl(file, fcntl.F_FULLFSYNC)
    elif hasattr(os, "fdatasync"):
        os.fdatasync(file)
    else:
        os.fsync(file)


def _write_all(file: int, data: bytes) -> None:
    left = memoryview(data)
    while left:
        left = left[os.write(file, left) :]


def _noted_end(folder: Path) -> int:
    """The record that had been synced when the end of the log was noted; 0 if that is not known."""
    with suppress(OSError, ValueError):
        number, crc = (folder / END).read_bytes().split()
        if int(crc, 16) == zlib.crc32(number):
            return int(number)
    return 0


def _segments_of(folder: Path) -> list[Segment]:
    with os.scandir(folder) as entries:
        found = [(match[1], entry.stat().st_size) for entry in entries if (match := NAME.fullmatch(entry.name))]
    return [Segment(folder / f"log-{first}.bin", int(first), size) for first, size in sorted(found)]


def _read(segments: list[Segment], after: int | None, last: int | None) -> Iterator[Record]:
    """The records after `after` up to `last`, all of which must be there; None: as far as the newest segment is whole."""
    if segments and after is not None and after + 1 < segments[0].first:
        raise LogError(
            f"The log in {str(segments[0].path.parent)!r} begins with record {segments[0].first}, but record {after + 1} is"
            " needed: older records have been removed. Start from a newer snapshot, or from a new state directory."
        )
    return _records_of(segments, after or 0, last)


def _records_of(segments: list[Segment], after: int, last: int | None) -> Iterator[Record]:
    ends: list[int | None] = [segment.first - 1 for segment in segments[1:]]
    for segment, end in zip(segments, [*ends, last], strict=False):
        if end is None or end > after:
            yield from _records_in(segment, after, end)


def _records_in(segment: Segment, after: int, last: int | None) -> Iterator[Record]:
    sequence, position = segment.first - 1, 0
    for record in _whole_records(_read_bytes(segment.path), segment.first):
        if sequence == last:
            return
        sequence, position = record.sequence, position + HEADER.size + len(record.payload)
        if sequence > after:
            yield record
    if last is not None and sequence < last:
        raise _damaged(segment.path, position, sequence + 1)


def _whole_records(data: bytes, sequence: int, start: int = 0) -> Iterator[Record]:
    """The records with consecutive numbers from `sequence` on, until the end or the first that is not whole."""
    view, unpack, checksum, header = memoryview(data), HEADER.unpack_from, zlib.crc32, HEADER.size
    while start + header <= len(data):
        mark, crc, length, number, at, count, _, kind = unpack(data, start)
        body, end = start + header, start + header + length
        if mark != MARK or number != sequence or end > len(data) or checksum(view[start + UNCHECKED : end]) != crc:
            return
        yield Record(number, kind, count, at, data[body:end])
        start, sequence = end, sequence + 1


def _was_synced(data: bytes, start: int, sequence: int) -> bool:
    """Whether a whole record behind `start` proves that record `sequence`, missing there, had been synced."""
    while 0 <= (start := data.find(MARK, start + 1)) <= len(data) - HEADER.size:
        _, _, _, later, _, _, unsynced, _ = HEADER.unpack_from(data, start)
        if later - unsynced >= sequence and next(_whole_records(data, later, start), None):
            return True
    return False


def _read_bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise LogError(f"{path}: the log cannot be read: {error.strerror}. {RESTORE}") from error


def _damaged(path: Path, position: int, sequence: int) -> LogError:
    return LogError(f"{path}: record {sequence}, at byte {position}, is damaged or missing. {RESTORE}")


def _unwritable(path: Path, error: OSError) -> LogError:
    problem = f"{path}: the log cannot be written: {error.strerror or error}."
    if error.errno in FULL:
        return LogFullError(problem, "Free some space; nothing that was acknowledged is lost.")
    return LogError(problem, "Check the disk and the permissions; nothing that was acknowledged is lost.")
