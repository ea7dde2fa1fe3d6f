"""The commands stream, refit and serve, which work on the state of a live model."""

from __future__ import annotations

import gc
import json
import logging
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from itertools import groupby
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from tdlg.cli.group import command
from tdlg.cli.live import answer_line, open_live
from tdlg.cli.options import (
    Ahead,
    AlertsPerDay,
    AllowMissing,
    DstField,
    IdColumn,
    Keep,
    LateEvents,
    ModelOrNot,
    SrcField,
    StateFolder,
    Threshold,
    TimeField,
    field_option,
    wrong,
)
from tdlg.cli.output import aligned, count, is_terminal, note, warn, working
from tdlg.exceptions import ReadError

if TYPE_CHECKING:
    from tdlg.live.model import LiveModel
    from tdlg.live.refit import Figures

MOST_LINES = 1000  # that are logged together
PIPED_AT_ONCE = 1 << 18  # bytes that are read at once
MOST_COMPLAINTS = 20  # that are shown
SHOWN = 80  # characters of a line in a message
SWITCH = 0.0005  # seconds after which a thread lets another one run
HOUR = 3600.0  # seconds
NEVER = 1_000_000  # collections of younger objects, until all objects are looked at

commands = typer.Typer(rich_markup_mode=None)


@command(commands, "tdlg stream model.tdlg --state live < events.jsonl > scores.jsonl")
def stream(
    model: ModelOrNot = None,
    *,
    state: StateFolder,
    src: SrcField = None,
    dst: DstField = None,
    time: TimeField = None,
    id: IdColumn = None,
    label: Annotated[str | None, field_option("label", "fraud")] = None,
    label_time: Annotated[str | None, field_option("time when the label became known", "chargeback_at")] = None,
    strict: Annotated[
        bool, typer.Option("--strict", help="Stop at a line with an error. By default it is reported and skipped.")
    ] = False,
    resume: Annotated[
        bool,
        typer.Option(
            "--resume", help="Skip the lines of the same input that were answered before; the last ones are repeated."
        ),
    ] = False,
    late: LateEvents = None,
    ahead: Ahead = None,
    keep: Keep = None,
    threshold: Threshold = None,
    alerts_per_day: AlertsPerDay = None,
    allow_missing: AllowMissing = None,
) -> None:
    """Score events as they come: JSON lines from stdin, one line of JSON per event to stdout.

    An event is logged before it is scored, and its answer leaves when the log is on the disk: after a crash nothing that was
    answered is lost, and an event that comes again gets the same answer and counts once. A line with an id and a label but
    no source is the label of an earlier event. Ctrl-C and SIGTERM end the command after the lines that were read.
    """
    given = {"src": src, "dst": dst, "time": time, "id": id, "label": label, "label_time": label_time}
    columns = {role: field for role, field in given.items() if field is not None}
    options = {"keep": keep, "late": late, "ahead": ahead, "threshold": threshold}
    options |= {"alerts_per_day": alerts_per_day, "allow_missing": allow_missing}
    with _stoppable() as stop, open_live(state, model, columns=columns or None, **options) as live:
        _begin_line()
        lines, answers = _Lines(stop, _resumed_at(live) if resume else 0), _Answers(live, strict)
        for batch in lines.batches():
            answers.give(batch)
        if answers.n_skipped > MOST_COMPLAINTS:
            note(f"{answers.n_skipped:,} lines were skipped in all")
    if stop.signal == signal.SIGINT:
        raise KeyboardInterrupt


def _begin_line() -> None:
    """Do not append to a line that a crash has torn."""
    from tdlg.cli.torn import end_torn_line

    with suppress(OSError, ValueError):  # an output without a file descriptor
        end_torn_line(sys.stdout.fileno())


def _resumed_at(live: LiveModel) -> int:
    position = live.position
    first = position.get("from", 0) if isinstance(position, dict) else 0
    note(f"continuing after line {first:,}")
    return int(first)


# ---- lines


class _Line(NamedTuple):
    """A line of the input: its number from 1, and its event or label; the text if it is not a JSON object."""

    number: int
    content: Any
    problem: str | None = None


class _Lines:
    """The lines of stdin, in batches of those that are there."""

    def __init__(self, stop: _Stop, first: int) -> None:
        self._stop, self._number, self._first = stop, 0, first

    def batches(self) -> Iterator[list[_Line]]:
        """Lists of at most 1,000 lines; each is there as soon as its last line is."""
        rest = b""
        while chunk := self._stop.read(PIPED_AT_ONCE):
            *lines, rest = (rest + chunk).split(b"\n")
            yield from self._parsed(lines)
        if self._stop.signal is None:  # else the rest may be a part of a line
            yield from self._parsed([rest])

    def _parsed(self, texts: list[bytes]) -> Iterator[list[_Line]]:
        for start in range(0, len(texts), MOST_LINES):
            parsed = [self._line(text) for text in texts[start : start + MOST_LINES]]
            batch = [line for line in parsed if line is not None]
            if batch:
                yield batch
            if self._stop.signal is not None:
                return

    def _line(self, text: bytes) -> _Line | None:
        self._number += 1
        if self._number <= self._first or not text.strip():
            return None
        try:
            content = json.loads(text)
        except (ValueError, RecursionError) as error:
            return _Line(self._number, None, f"this is not JSON: {_shown(text)} ({getattr(error, 'msg', error)})")
        if not isinstance(content, dict):
            return _Line(self._number, None, f"this is not a JSON object: {_shown(text)}")
        return _Line(self._number, content)


def _shown(text: bytes) -> str:
    shown = text.decode(errors="replace").strip()
    return repr(shown if len(shown) <= SHOWN else shown[: SHOWN - 3] + "...")


class _Answers:
    """Answers lines: events and labels in their order, complaints on stderr."""

    def __init__(self, live: LiveModel, strict: bool) -> None:
        self._live, self._strict, self.n_skipped = live, strict, 0

    def give(self, batch: list[_Line]) -> None:
        """Answer the lines of a batch."""
        position = {"from": batch[0].number - 1, "line": batch[-1].number}
        for kind, group in groupby(batch, key=self._kind):
            lines = list(group)
            if kind == "problem":
                for line in lines:
                    self._complain(line.number, str(line.problem))
            elif kind == "label":
                self._label(lines)
            else:
                self._score(lines, position)
        sys.stdout.flush()
        self._live.work()  # a new model that a refit left

    def _kind(self, line: _Line) -> str:
        if line.problem is not None:
            return "problem"
        names = self._live.settings.columns
        has = {role: names.get(role, role) in line.content for role in ("src", "dst", "time", "id", "label")}
        return "label" if has["id"] and has["label"] and not (has["src"] or has["dst"] or has["time"]) else "event"

    def _score(self, lines: list[_Line], position: dict[str, int]) -> None:
        wrong = self._live.check([line.content for line in lines])[:1] if self._strict else []
        whole = lines[: wrong[0].position] if wrong else lines
        answers = self._live.submit([line.content for line in whole], position)
        for line, answer in zip(whole, answers, strict=True):
            if answer.error is None:
                sys.stdout.write(answer_line(answer) + "\n")
            if answer.label_error is not None:
                self._complain(line.number, answer.label_error.in_words(), "has a label that was refused")
            if answer.error is not None:
                self._complain(line.number, answer.error.in_words())
        for error in wrong:
            self._complain(lines[error.position].number, error.in_words())

    def _label(self, lines: list[_Line]) -> None:
        names = self._live.settings.columns
        fields = {"id": "id", "label": "label", "time": "label_time"}
        labels = [{to: line.content.get(names.get(of, of)) for to, of in fields.items()} for line in lines]
        for line, answer in zip(lines, self._live.label(labels), strict=True):
            if answer.error is not None:
                self._complain(line.number, str(answer.error))

    def _complain(self, number: int, problem: str, what: str = "is skipped") -> None:
        if self._strict:
            sys.stdout.flush()
            raise ReadError(f"line {number:,}: {problem}", "The lines before it are scored and learnt.")
        self.n_skipped += 1
        if self.n_skipped <= MOST_COMPLAINTS:
            warn(f"line {number:,} {what}: {problem}")


# ---- signals


class _Stop:
    """Whether a signal asked to stop: while waiting for input at once, else after the lines that were read."""

    def __init__(self) -> None:
        self.signal: int | None = None
        self._is_waiting = False

    def ask(self, number: int, frame: FrameType | None) -> None:
        """Handle a signal."""
        self.signal = number
        if self._is_waiting:
            raise _StoppedError

    def read(self, n_bytes: int) -> bytes:
        """Read at most `n_bytes` from stdin; empty at its end, or when a signal came."""
        try:
            self._is_waiting = True
            if self.signal is not None:
                return b""
            buffer: Any = sys.stdin.buffer
            return bytes(buffer.read1(n_bytes))
        except _StoppedError:
            return b""
        finally:
            self._is_waiting = False


class _StoppedError(Exception):
    """A signal came while waiting."""


@contextmanager
def _stoppable() -> Iterator[_Stop]:
    """Let Ctrl-C and SIGTERM stop a command between two batches."""
    stop = _Stop()
    before = {number: signal.signal(number, stop.ask) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


# ---- refit


@command(commands, "tdlg refit --state live")
def refit(
    *,
    state: Annotated[
        Path, typer.Option(metavar="DIR", help="Folder of the state. A service that uses it takes the new model over.")
    ],
    force: Annotated[
        bool, typer.Option("--force", help="Use the new model even if it is worse, or cannot be compared.")
    ] = False,
    back: Annotated[bool, typer.Option("--back", help="Go back to the model before the present one.")] = False,
) -> None:
    """Learn a new model from all events and labels of a state, and use it unless it is worse.

    Both models are compared on the latest labelled events, each scored with what was known when it came. The old model stays
    if the new one has a smaller average precision (for numbers, a larger error) by more than chance, or if most of these
    labels are of alerts. After a change it is kept: see --back.
    """
    from tdlg.live.refit import go_back
    from tdlg.live.refit import refit as fit_again

    if back:
        if force:
            raise wrong("--force", "it has no meaning with --back. Leave out one of the two.")
        note(f"back to the model of {go_back(state)}")
        return
    with working("learning"):
        found = fit_again(state, force=force, callback=note)
    if found.old is not None and found.new is not None:
        n_positive = "" if found.n_positive is None else f", {found.n_positive:,} of them positive"
        note(f"compared on {count(found.n_events, 'labelled event')}{n_positive}, {found.start} to {found.stop}")
        note(f"{found.n_alerts:,} of them had been alerts, {found.n_events - found.n_alerts:,} had not")
        typer.echo(_compared(found.old, found.new))
    if found.gain is not None:
        what = "average precision" if found.n_positive is not None else "error"
        low, high = (f"{end:+.3g}" for end in found.gain[1:])
        note(f"gain in {what}: {found.gain.value:+.3g} (80 % interval {low} to {high})")
    if found.is_requested:
        note(
            f"the new model waits for the process that uses the state, which takes it over within seconds: {found.reason}"
        )
    elif found.generation is None:
        note(f"the old model stays: {found.reason}; --force uses the new one nevertheless")
    else:
        note(f"the new model is in use, as {found.generation}: {found.reason}; --back returns to the old one")


def _compared(old: Figures, new: Figures) -> str:
    if old.error is not None:
        return aligned([["", "error"], *([name, f"{of.error:.4g}"] for name, of in (("old", old), ("new", new)))])
    rows = [[name, f"{of.auc:.3f}", f"{of.average_precision:.3f}"] for name, of in (("old", old), ("new", new))]
    return aligned([["", "AUC", "average precision"], *rows])


# ---- serve


@command(commands, "tdlg serve model.tdlg --state live", "tdlg serve --state live --port 8080")
def serve(
    model: ModelOrNot = None,
    *,
    state: StateFolder,
    host: Annotated[
        str, typer.Option(help="Address to listen on. An address that other machines can reach needs --token-file.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port to listen on; 0 takes a free one.")] = 8000,
    token_file: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="File with the token that clients and the desk must know. By default none."),
    ] = None,
    allowed_host: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME", help="Name by which the service is reached, such as desk.example.org; repeatable."
        ),
    ] = None,
    alerts_per_day: AlertsPerDay = None,
    threshold: Threshold = None,
    keep: Keep = None,
    late: LateEvents = None,
    ahead: Ahead = None,
    allow_missing: AllowMissing = None,
    src: SrcField = None,
    dst: DstField = None,
    time: TimeField = None,
    id: IdColumn = None,
) -> None:
    """Score events over HTTP as they happen, learn labels that come later, and show a page for those who look at alerts.

    The page, the desk, is at the address that is printed. Events are sent to /score and labels to /labels; /openapi.json
    describes all addresses. An answer leaves when the events are on the disk, so nothing that was answered is lost. Ctrl-C
    and SIGTERM finish what was accepted and stop.
    """
    check_installed("tdlg serve")
    from tdlg.cli.group import heed_termination
    from tdlg.serve.auth import read_token
    from tdlg.serve.service import Service, check_address

    token = None if token_file is None else read_token(token_file)
    check_address(host, token)
    heed_termination()
    given = {"src": src, "dst": dst, "time": time, "id": id}
    columns = {role: field for role, field in given.items() if field is not None}
    options = {"keep": keep, "late": late, "ahead": ahead, "threshold": threshold}
    options |= {"alerts_per_day": alerts_per_day, "allow_missing": allow_missing}
    with (
        _logged(),
        open_live(state, model, columns=columns or None, **options) as live,
        Service(live, host=host, port=port, token=token, allowed_hosts=allowed_host or ()) as service,
    ):
        try:
            avoid_pauses()
            note(f"desk: {service.url} (Ctrl-C stops)")
            while not service.wait(HOUR):
                gc.collect()
        except KeyboardInterrupt:
            note("stopping")


@contextmanager
def _logged() -> Iterator[None]:
    """Where stderr is the log of a supervisor, write there what is otherwise said on a terminal only: that it compiles."""
    if is_terminal(sys.stderr):
        yield
        return
    logger, handler = logging.getLogger("tdlg"), logging.StreamHandler()
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        yield
    finally:
        logger.setLevel(level)
        logger.removeHandler(handler)


def avoid_pauses() -> None:
    """Avoid long pauses: switch threads often, and freeze the garbage collector's old generation, collected once an hour."""
    sys.setswitchinterval(SWITCH)
    gc.collect()
    gc.freeze()
    young, middle, _ = gc.get_threshold()
    gc.set_threshold(young, middle, NEVER)


def check_installed(command: str) -> None:
    """Say what to install if the extra is missing."""
    if any(find_spec(name) is None for name in ("msgspec", "prometheus_client", "starlette", "uvicorn")):
        raise ImportError(
            f"{command} needs starlette, uvicorn, msgspec and prometheus-client. From a clone of tdlg, run: "
            'pip install ".[serve]".'
        )
