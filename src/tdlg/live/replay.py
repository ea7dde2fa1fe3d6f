"""From a state directory to the state: a snapshot and the records of the log after it, and models that take over."""

from __future__ import annotations

import hashlib
import shutil
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tdlg.atomic import as_path, new_file
from tdlg.edges import TemporalEdges
from tdlg.exceptions import ParameterError, TdlgError, warn
from tdlg.live.challenger import Challenger, generation_in
from tdlg.live.drift import Drift
from tdlg.live.event import (
    RECORDS_IN_WORDS,
    SHADOW,
    SWITCH,
    decode,
    encode,
    events_of,
    ids_of_edges,
    labels_of,
    withdrawn_by,
)
from tdlg.live.explain import Reasons
from tdlg.live.log import Record, StateError
from tdlg.live.outcome import Outcome, Start
from tdlg.live.scorer import StreamScorer
from tdlg.live.state import LiveState, Settings, no_garbage_collection
from tdlg.live.store import REQUEST, ArrayFile, Generation, StateDirectory, StateReader, request_role, write_arrays
from tdlg.persist.model import load_model
from tdlg.propagate.running import stream_clock
from tdlg.propagate.state import PrefixedArrays

__all__ = ["Successor", "Takeover", "TrainedOn", "restored_state"]

MODEL, ORIGIN, SCORER, ASIDE = "model.tdlg", "origin.json", "scorer.state", "set-aside.json"
LOOK_EVERY = 1.0  # seconds, for a model that a refit left
MOST_BEHIND = 20  # records that a new model replays before it takes over; the others while it waits


class TrainedOn(NamedTuple):
    """What a model was fitted on."""

    sequence: int  # number of the last record of the log that it learnt from; 0 if none
    ids: list[Any]  # of the fitted edges as events
    n_learnt: int = 0  # the last ones, which are events of the log; the ids of the others follow from the edges
    chances: Sequence[tuple[Any, float]] = ()  # ids of events that were drawn for random review, with their chances


def start_generation(generation: Generation, file: Path, settings: Settings, n_recent: int) -> None:
    """Write a model that learnt from no record of the log, and the state that it starts with."""
    model = load_model(file)
    _check_nodes(model.edges_)
    ids = _own_ids(model, len(model.edges_))
    scorer = StreamScorer(model, ids=ids)
    scorer.forget()
    write_state(generation, file, TrainedOn(0, ids), LiveState(model, scorer, settings, n_recent))


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


def write_state(generation: Generation, file: Path, origin: TrainedOn, state: LiveState) -> None:
    """Write a model, what it was fitted on, and its state after the last record that it learnt from."""
    shutil.copyfile(file, generation.path / MODEL)
    write_origin(generation.path, origin)
    generation.write_snapshot(origin.sequence, lambda path: write_arrays(path, state.arrays()))


def write_origin(folder: Path, origin: TrainedOn) -> None:
    """Write what a model was fitted on."""
    with new_file(folder / ORIGIN) as opened:
        learnt = origin.ids[len(origin.ids) - origin.n_learnt :]
        content = {"sequence": origin.sequence, "ids": learnt, "chances": [*origin.chances]}
        opened.write(encode(content).encode())


def origin_of(generation: Generation, model: Any) -> TrainedOn:
    """What the model of a generation was fitted on."""
    try:
        content = decode([(generation.path / ORIGIN).read_bytes()])[0]
    except (OSError, ValueError) as error:
        raise StateError(
            f"{generation.path / ORIGIN}: the file is missing or damaged. Restore it from a copy."
        ) from error
    learnt = content["ids"]
    ids = [*_own_ids(model, len(model.edges_) - len(learnt)), *learnt]
    return TrainedOn(content["sequence"], ids, len(learnt), content.get("chances", ()))


def _own_ids(model: Any, n: int) -> list[str]:
    """The ids of the first fitted edges, which were no events of the log."""
    return ids_of_edges(model.edges_[:n], stream_clock(model.edges_)[0])


def restored_state(
    directory: StateDirectory | StateReader, model: Any, n_recent: int | None = None
) -> tuple[LiveState, int]:
    """The state after all records of the log, and the number of events and labels that came after the newest snapshot.

    A record that cannot be learnt was never answered. It is set aside: the state is as if it had not come, it is noted in
    a file of the directory, and a warning says so.
    """
    snapshot = directory.newest_snapshot()
    if snapshot is None:
        raise StateError(
            f"The generation {str(directory.generation.path)!r} has no whole snapshot.", "Restore one from a copy."
        )
    aside = set_aside(directory)
    while True:
        arrays = ArrayFile(snapshot.path)
        state = LiveState.restored(model, arrays, n_recent)
        of_challenger = PrefixedArrays(arrays, "challenger/")
        rival = challenger_called(directory, generation_in(of_challenger))
        if rival is not None:
            state.challenger = Challenger.restored(load_model(rival.path / MODEL), of_challenger, state.settings)
        state.set_aside, state.generation = aside, directory.generation.name
        state, n_replayed, failed = _replay(state, directory, snapshot.sequence)
        if failed is None:
            return state, n_replayed
        aside = [*aside, failed]  # and again from the snapshot: the state may have changed before it failed
        if isinstance(directory, StateDirectory):
            with suppress(OSError), new_file(directory.folder / ASIDE) as file:
                file.write(encode(aside).encode())
        what = failed["kind"].removesuffix("s") if failed["count"] == 1 else failed["kind"]
        warn(
            f"Record {failed['sequence']} of the log ({failed['count']:,} {what}) cannot be learnt and is set aside, "
            f"because of {failed['error'].removesuffix('.')}.",
            "It was never answered: if its sender does not send it again, send it yourself without what is wrong with it.",
        )


def challenger_called(directory: StateDirectory | StateReader, name: str | None) -> Generation | None:
    """The generation of a challenger, if it is there and was never active."""
    found = None if name is None else directory.named(name)
    return None if found is None or found.listed else found


def read_state(folder: Path) -> LiveState:
    """The state of a directory, which another process may use; nothing is written."""
    reader = StateReader(folder)
    return restored_state(reader, load_model(reader.generation.path / MODEL))[0]


def set_aside(directory: StateDirectory | StateReader) -> list[dict[str, Any]]:
    """The records of the log that could not be learnt and are left out; see `LiveState`."""
    try:
        found: Any = decode([(directory.folder / ASIDE).read_bytes()])[0]
        return list(found)
    except (OSError, ValueError):  # a damaged list is found again by replaying
        return []


def _replay(
    state: LiveState, directory: StateDirectory | StateReader, after: int
) -> tuple[LiveState, int, dict[str, Any] | None]:
    """Replay the log; the state, the number of events and labels, and what is to be set aside if a record fails."""
    n_replayed, aside = 0, {record["sequence"] for record in state.set_aside}
    with no_garbage_collection():
        for record in directory.log.replay(after):
            if record.sequence in aside:
                continue
            try:
                if record.kind == SWITCH:
                    new = directory.named(decode([record.payload])[0]["generation"])
                    if new is None or new.listed:
                        continue  # it was active, and was left by going back
                    if state.challenger is not None and state.challenger.generation == new.name:
                        state = state.led_by_challenger()
                    else:
                        successor = Successor(new.path, aside)
                        successor.follow(directory.log, record.sequence)
                        state = successor.state_after(state)
                        state.generation = new.name
                    directory.adopt(new)
                elif record.kind == SHADOW:
                    rival = challenger_called(directory, decode([record.payload])[0]["generation"])
                    if rival is not None:
                        successor = Successor(rival.path, aside)
                        successor.follow(directory.log, record.sequence)
                        state.challenger = successor.challenger(rival.name, state)
                else:
                    state.replay(record)
            except (MemoryError, OSError, StateError):
                raise  # which are not the fault of the record
            except Exception as error:
                what = {"sequence": record.sequence, "kind": RECORDS_IN_WORDS[record.kind], "count": record.count}
                return state, n_replayed, {**what, "error": f"{type(error).__name__}: {error}"}
            n_replayed += record.count
    return state, n_replayed, None


class Successor:
    """A model that a refit left, and its scorer, which follows the log up to the present. aside : records to leave out.

    is_shadow : whether it is to be a challenger, and not to take over.
    """

    def __init__(self, path: Path, aside: set[int]) -> None:
        self.is_shadow = request_role(path) == "shadow"
        self.model, arrays = load_model(path / MODEL), ArrayFile(path / SCORER)
        self.reasons = Reasons(self.model)
        self._scorer = StreamScorer.restore(self.model, PrefixedArrays(arrays, "scorer/"))
        per_day, n_edges = arrays["counts"].tolist()
        drift = PrefixedArrays(arrays, "drift/")
        quantities = Drift.restored(drift, ()).quantities if "content" in drift else None  # of an earlier version
        self._start, self._aside = Start(arrays["start"], per_day, int(n_edges), quantities=quantities), aside
        self.done = decode([(path / ORIGIN).read_bytes()])[0]["sequence"]

    def follow(self, log: Any, last: int | None = None) -> None:
        """Learn the records of the log up to one, by default all that are synced."""
        for record in log.replay(self.done):
            if last is not None and record.sequence >= last:
                break
            if record.sequence not in self._aside:
                for _ in replayed(self._scorer, [record]):
                    pass
            self.done = record.sequence

    def challenger(self, generation: str, state: LiveState) -> Challenger:
        """The challenger of the model in place."""
        return Challenger(self.model, self._scorer, self._start, generation, state.settings, state.clock)

    def state_after(self, state: LiveState) -> LiveState:
        """The state of this model after that of the one before."""
        return state.followed_by(self.model, self._scorer, self._start)


class Takeover:
    """Looks for a model that `refit` left, and prepares it in another thread, which loads it and follows the log."""

    def __init__(self, directory: StateDirectory) -> None:
        self._directory, self.failure = directory, ""
        self._thread: threading.Thread | None = None
        self._ready: Successor | None = None
        self._looked_at = -LOOK_EVERY

    def successor(self, set_aside: list[dict[str, Any]]) -> Successor | None:
        """The model that is to take over now, if there is one; it is called now and then by the owner of the state."""
        log, thread = self._directory.log, self._thread
        if thread is not None and thread.is_alive():
            return None
        if thread is None:
            if time.monotonic() < self._looked_at + LOOK_EVERY:
                return None
            self._looked_at, folder = time.monotonic(), self._directory.request()
            if folder is not None:
                aside = {record["sequence"] for record in set_aside}
                self._begin(lambda: Successor(folder, aside))
            return None
        self._thread, ready = None, self._ready
        if ready is None:  # it failed, and is not tried again
            shutil.rmtree(self._directory.folder / REQUEST, ignore_errors=True)
        elif log.synced - ready.done > MOST_BEHIND:
            self._begin(lambda: ready)
        else:
            self._ready, self.failure = None, ""
            return ready
        return None

    @property
    def is_busy(self) -> bool:
        """Whether a model is being prepared."""
        return self._thread is not None

    def _begin(self, find: Callable[[], Successor]) -> None:
        def run() -> None:
            self._ready = None
            try:
                found = find()
                found.reasons.fitted.prepare()
                found.follow(self._directory.log)
                self._ready = found
            except Exception as error:
                self.failure = f"{type(error).__name__}: {error}"

        self._thread = threading.Thread(target=run, name="tdlg-successor", daemon=True)
        self._thread.start()


def replayed(scorer: StreamScorer, records: Iterable[Record]) -> Iterator[tuple[list[Any], NDArray[np.float64]]]:
    """Replay records with a scorer alone; gives the ids and values of the new events of each record."""
    unit = Outcome(scorer.model).unit
    for record in records:
        events = events_of(record, unit)
        if events:
            read = scorer.read(events)[0]
            scores = scorer.process(read)
            new = np.flatnonzero(~scores.repeated)
            yield [read.ids[k] for k in new], scores.values[new]
        for given in labels_of(record):
            learn_label(scorer, given["id"], given["label"], given["time"])
        for id in withdrawn_by(record):
            if scorer.knows(id):
                scorer.withdraw(id)


def learn_label(scorer: StreamScorer, id: Any, label: Any, time: Any) -> None:
    """Learn a label, unless it was refused when it came."""
    with suppress(TdlgError):
        scorer.label(id, label, time)


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
