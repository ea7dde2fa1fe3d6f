"""The command stream: events as lines of JSON from stdin, answers as lines to stdout."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from types import FrameType
from typing import Any

import typer

from tdlg.cli.group import command
from tdlg.cli.options import EventFields, LiveOptions
from tdlg.cli.output import note, warn
from tdlg.cli.serve import opened

MOST_LINES = 1000  # that are logged together
PIPED_AT_ONCE = 1 << 18  # bytes that are read at once
MOST_COMPLAINTS = 20  # that are shown

commands = typer.Typer(rich_markup_mode=None)


@dataclass(frozen=True, kw_only=True)
class LineFields(EventFields):
    """How lines are read, some of which are labels.

    Parameters
    ----------
    label : FIELD
        Field of the label, for example fraud. Stored with the state.
    label_time : FIELD
        Field of the time when the label became known, for example chargeback_at. Stored with the state.
    """

    label: str | None = None
    label_time: str | None = None


@command(commands, "tdlg stream model.tdlg --state live < events.jsonl > scores.jsonl")
def stream(
    model: Path | None = None,
    *,
    state: Path,
    events: LineFields,
    strict: bool = False,
    resume: bool = False,
    options: LiveOptions,
) -> None:
    """Score events as they come: JSON lines from stdin, one line of JSON per event to stdout.

    An event is logged before it is scored, and its answer leaves when the log is on the disk: after a crash nothing that was
    answered is lost, and an event that comes again gets the same answer and counts once. A line with an id and a label but
    no source is the label of an earlier event. Ctrl-C and SIGTERM end the command after the lines that were read.

    Parameters
    ----------
    model : [MODEL]
        Model file that another command wrote with --save; for a new state only.
    strict
        Stop at a line with an error. By default it is reported and skipped.
    resume
        Skip the lines of the same input that were answered before; the last ones are repeated.
    """
    from tdlg.live.lines import LineScorer, end_torn_line, resumed_at

    n_skipped = 0

    def complain(problem: str) -> None:
        nonlocal n_skipped
        n_skipped += 1
        if n_skipped <= MOST_COMPLAINTS:
            warn(problem)

    with _stoppable() as stop, opened(state, model, events, options) as live:
        with suppress(OSError, ValueError):  # an output without a file descriptor
            end_torn_line(sys.stdout.fileno())
        after = resumed_at(live) if resume else 0
        if resume:
            note(f"continuing after line {after:,}")
        scorer = LineScorer(live, sys.stdout.write, complain, strict=strict, after=after)
        for lines in _batches(stop):
            try:
                scorer.give(lines)
            finally:
                sys.stdout.flush()
        if n_skipped > MOST_COMPLAINTS:
            note(f"{n_skipped:,} lines were skipped in all")
    if stop.signal == signal.SIGINT:
        raise KeyboardInterrupt


def _batches(stop: _Stop) -> Iterator[list[bytes]]:
    """The lines of stdin, at most 1,000 at once; a batch is there as soon as its last line is."""
    rest = b""
    while chunk := stop.read(PIPED_AT_ONCE):
        *lines, rest = (rest + chunk).split(b"\n")
        waiting = iter(lines)
        while (batch := list(islice(waiting, MOST_LINES))) and stop.signal is None:
            yield batch
    if stop.signal is None:  # else the rest may be a part of a line
        yield [rest]


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
