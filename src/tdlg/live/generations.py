"""What a generation of a state directory holds: the file of a model, where it comes from, and snapshots of its state."""

from __future__ import annotations

import gc
import hashlib
import os
import shutil
import struct
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple
from zipfile import ZipFile

import numpy as np
from numpy.typing import NDArray

from tdlg.atomic import as_path, new_file
from tdlg.edges import TemporalEdges
from tdlg.exceptions import ParameterError, warn
from tdlg.live.directory import Generation, StateDirectory
from tdlg.live.event import decode, encode, ids_of_edges
from tdlg.live.log import StateError
from tdlg.live.scorer import StreamScorer
from tdlg.live.state import EVENTS, LABELS, SETTINGS, TABLE, WITHDRAWAL, LiveState, Settings
from tdlg.persist.model import load_model
from tdlg.propagate.running import stream_clock

__all__ = [
    "MODEL",
    "ArrayFile",
    "Origin",
    "fingerprint_of",
    "model_file",
    "origin_of",
    "restored_state",
    "set_aside",
    "start_generation",
    "write_arrays",
    "write_state",
]

MODEL, ORIGIN, ASIDE = "model.tdlg", "origin.json", "set-aside.json"
RECORDS_IN_WORDS = {
    EVENTS: "events",
    LABELS: "labels",
    SETTINGS: "settings",
    TABLE: "events",
    WITHDRAWAL: "withdrawals",
}
LENGTHS = 26  # where the header of a file in a zip archive has the lengths of its name and of its extra field


class Origin(NamedTuple):
    """What a model was fitted on.

    Attributes
    ----------
    sequence
        Number of the last record of the log that it learnt from; 0 if none.
    ids
        The ids of the fitted edges as events.
    n_learnt
        How many of the fitted edges, the last ones, are events of the log. The ids of the others follow from the edges.
    """

    sequence: int
    ids: list[Any]
    n_learnt: int = 0


def start_generation(generation: Generation, file: Path, settings: Settings, n_recent: int) -> None:
    """Write a model that learnt from no record of the log, and the state that it starts with."""
    model = load_model(file)
    _check_nodes(model.edges_)
    ids = _own_ids(model, len(model.edges_))
    scorer = StreamScorer(model, ids=ids)
    scorer.forget()
    write_state(generation, file, Origin(0, ids), LiveState(model, scorer, settings, n_recent))


def _check_nodes(edges: TemporalEdges) -> None:
    """Refuse ids of nodes that neither events as JSON nor a snapshot can hold."""
    for id in edges.node_ids.tolist():
        if not isinstance(id, str | int | float):
            raise ParameterError(
                f"The nodes of a live model must have text or numbers as ids. The model was fitted with {id!r}, "
                f"a {type(id).__name__}.",
                "Fit it to edges whose ids are text, such as 'a/1' for ('a', 1).",
                parameter="model",
            )


def write_state(generation: Generation, file: Path, origin: Origin, state: LiveState) -> None:
    """Write a model, what it was fitted on, and its state.

    Parameters
    ----------
    generation
        A new generation.
    file
        The file of the model, which is copied.
    origin, state
        What the model was fitted on, and the state after the last record that it learnt from.
    """
    shutil.copyfile(file, generation.path / MODEL)
    with new_file(generation.path / ORIGIN) as opened:
        learnt = origin.ids[len(origin.ids) - origin.n_learnt :]
        opened.write(encode({"sequence": origin.sequence, "ids": learnt}).encode())
    generation.write_snapshot(origin.sequence, lambda path: write_arrays(path, state.arrays()))


def origin_of(generation: Generation, model: Any) -> Origin:
    """What the model of a generation was fitted on."""
    try:
        content = decode([(generation.path / ORIGIN).read_bytes()])[0]
    except (OSError, ValueError) as error:
        raise StateError(
            f"{generation.path / ORIGIN}: the file is missing or damaged. Restore it from a copy."
        ) from error
    learnt = content["ids"]
    ids = [*_own_ids(model, len(model.edges_) - len(learnt)), *learnt]
    return Origin(content["sequence"], ids, len(learnt))


def _own_ids(model: Any, n: int) -> list[str]:
    """The ids of the first fitted edges, which were no events of the log."""
    return ids_of_edges(model.edges_[:n], stream_clock(model.edges_)[0])


def restored_state(directory: StateDirectory, model: Any, n_recent: int | None = None) -> tuple[LiveState, int]:
    """The state after all records of the log, and the number of events and labels that came after the newest snapshot.

    A record that cannot be learnt was never answered. It is set aside: the state is as if it had not come, it is noted in
    a file of the directory, and a warning says so.

    Parameters
    ----------
    directory, model
        The state directory, and the model of its active generation.
    n_recent
        The most recent events to keep. By default as many as before.
    """
    snapshot = directory.newest_snapshot()
    if snapshot is None:
        raise StateError(
            f"The generation {str(directory.generation.path)!r} has no whole snapshot.", "Restore one from a copy."
        )
    aside = set_aside(directory)
    while True:
        state = LiveState.restored(model, ArrayFile(snapshot.path), n_recent)
        n_replayed, failed = _replay(state, directory, snapshot.sequence, {record["sequence"] for record in aside})
        state.set_aside = aside
        if failed is None:
            return state, n_replayed
        aside = [*aside, failed]  # and again from the snapshot: the state may have changed before it failed
        with suppress(OSError), new_file(directory.folder / ASIDE) as file:
            file.write(encode(aside).encode())
        what = failed["kind"].removesuffix("s") if failed["count"] == 1 else failed["kind"]
        warn(
            f"Record {failed['sequence']} of the log ({failed['count']:,} {what}) cannot be learnt and is set aside, "
            f"because of {failed['error'].removesuffix('.')}.",
            "It was never answered: if its sender does not send it again, send it yourself without what is wrong with it.",
        )


def set_aside(directory: StateDirectory) -> list[dict[str, Any]]:
    """The records of the log that could not be learnt and are left out; see `LiveState`."""
    try:
        found: Any = decode([(directory.folder / ASIDE).read_bytes()])[0]
        return list(found)
    except (OSError, ValueError):  # a damaged list is found again by replaying
        return []


def _replay(
    state: LiveState, directory: StateDirectory, after: int, aside: set[int]
) -> tuple[int, dict[str, Any] | None]:
    """Replay the log; the number of events and labels, and what is to be set aside if a record fails."""
    n_replayed = 0
    with _no_garbage_collection():
        for record in directory.log.replay(after):
            if record.sequence in aside:
                continue
            try:
                state.replay(record)
            except (MemoryError, OSError, StateError):
                raise  # which are not the fault of the record
            except Exception as error:
                what = {"sequence": record.sequence, "kind": RECORDS_IN_WORDS[record.kind], "count": record.count}
                return n_replayed, {**what, "error": f"{type(error).__name__}: {error}"}
            n_replayed += record.count
    return n_replayed, None


@contextmanager
def _no_garbage_collection() -> Iterator[None]:
    """Do not look for garbage while many objects are made that stay: it would take a tenth of the time."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def write_arrays(path: Path, arrays: dict[str, NDArray[Any]]) -> None:
    """Write arrays without objects."""
    with open(path, "wb") as file:
        np.savez(file, **arrays)  # type: ignore[arg-type]


class ArrayFile(Mapping[str, NDArray[Any]]):
    """The arrays that `write_arrays` wrote; each is read when it is needed, so that they are never in memory twice.

    Each is read from its place in the file, without the checksum of the archive: that of the whole snapshot was compared.

    Parameters
    ----------
    path
        The file.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        with ZipFile(path) as archive:
            self._places = {part.filename.removesuffix(".npy"): part.header_offset for part in archive.infolist()}

    def __getitem__(self, name: str) -> NDArray[Any]:
        with open(self._path, "rb") as file:
            file.seek(self._places[name] + LENGTHS)
            file.seek(sum(struct.unpack("<HH", file.read(4))), os.SEEK_CUR)
            array: NDArray[Any] = np.lib.format.read_array(file, allow_pickle=False)
        return array

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)


def fingerprint_of(file: Path) -> str:
    """What identifies the model in a file: a checksum of all its bytes."""
    try:
        with open(file, "rb") as opened:
            digest = hashlib.file_digest(opened, "sha256")
    except OSError as error:
        raise ParameterError(f"{file}: the model cannot be read: {error.strerror}.", parameter="model") from error
    return f"sha256 {digest.hexdigest()}"


@contextmanager
def model_file(model: Any) -> Iterator[Path | None]:
    """The file of a model; a fitted model is written into a temporary one."""
    if model is None or not hasattr(model, "save"):
        yield None if model is None else as_path(model)
        return
    with TemporaryDirectory() as folder:
        model.save(Path(folder) / MODEL)
        yield Path(folder) / MODEL
