"""Ctrl-C, which compiled code may turn into another error, and closed standard streams."""

from __future__ import annotations

import errno
import io
import os
import signal
import sys
from types import FrameType

__all__ = [
    "check_interrupt",
    "heed_interrupts",
    "heed_termination",
    "open_streams",
    "was_interrupted",
    "was_terminated",
]

_was_interrupted = False
_was_terminated = False


def heed_interrupts() -> None:
    """Record Ctrl-C: compiled code that is interrupted may raise another error than KeyboardInterrupt, or none."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # otherwise it is ignored, as with nohup
        signal.signal(signal.SIGINT, _interrupt)


def heed_termination() -> None:
    """Let SIGTERM, by which systems stop services, end a command as Ctrl-C does; a second one does not hurry it."""
    signal.signal(signal.SIGTERM, _terminate)


def _terminate(number: int, frame: FrameType | None) -> None:
    global _was_terminated
    _was_terminated = True
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    _interrupt(number, frame)


def _interrupt(number: int, frame: FrameType | None) -> None:
    global _was_interrupted
    _was_interrupted = True
    raise KeyboardInterrupt


def was_interrupted() -> bool:
    """Whether Ctrl-C was pressed, or SIGTERM came where it is heeded."""
    return _was_interrupted


def was_terminated() -> bool:
    """Whether SIGTERM came where it is heeded."""
    return _was_terminated


def check_interrupt() -> None:
    """Raise KeyboardInterrupt if compiled code swallowed it, so that no incomplete result is used."""
    if _was_interrupted:
        raise KeyboardInterrupt


def open_streams() -> None:
    """Replace standard streams that are closed.

    A closed stdin or stdout is an error only when it is used; messages to a closed stderr are dropped. Descriptors 0 to 2
    are opened too, so that a file that is opened later does not get one of them and receive the output of the stream.
    """
    for descriptor, flags in enumerate(
        (os.O_WRONLY, os.O_RDONLY, os.O_WRONLY)
    ):  # opened in the wrong mode, so that any use fails
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, flags)
    if sys.stdin is None:
        sys.stdin = io.TextIOWrapper(io.BufferedReader(_Closed("stdin", "Give the path of a file.")))
    if sys.stdout is None:
        sys.stdout = io.TextIOWrapper(_Closed("stdout", "Give a file with -o."), write_through=True)
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115


class _Closed(io.RawIOBase):
    """A closed stream, which raises a clear error when it is used."""

    def __init__(self, name: str, way_out: str) -> None:
        self._name, self._way_out = name, way_out

    def readable(self) -> bool:
        return self._name == "stdin"

    def writable(self) -> bool:
        return self._name == "stdout"

    def readinto(self, buffer: object) -> int:
        raise self._error()

    def write(self, data: object) -> int:
        raise self._error()

    def _error(self) -> OSError:
        return OSError(errno.EBADF, f"it is closed. {self._way_out}", self._name)
