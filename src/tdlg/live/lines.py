"""Lines of JSON, events and labels in and answers out, and the file to which answers are appended."""

from __future__ import annotations

import json
import os
import stat
import sys
from collections.abc import Callable, Sequence
from itertools import groupby
from typing import Any, NamedTuple

from tdlg.exceptions import ReadError
from tdlg.live.model import LiveModel
from tdlg.live.state import Answer
from tdlg.tables.text import SCORE_DIGITS

SHOWN = 80  # characters of a line in a message
LONGEST_LINE = 1 << 16  # bytes of a line that is looked at
OURS = b'{"id":'  # how an answer begins


class Line(NamedTuple):
    """A line: its number from 1, and its event or label; what is wrong if it is not a JSON object."""

    number: int
    content: Any
    problem: str | None = None


class LineScorer:
    """Scores events and learns labels that come as lines of JSON, in their order.

    A line with an id and a label but no source, destination or time is the label of an earlier event.

    Parameters
    ----------
    live
        The live model, which keeps the number of the last line.
    write
        Gets each answer as a line.
    complain
        Gets what is wrong with a line. With `strict`, it is an error instead, after the lines before it.
    strict
        False by default.
    after
        Number of the line after which to begin, such as `resumed_at` gives; 0 by default.
    """

    def __init__(
        self,
        live: LiveModel,
        write: Callable[[str], object],
        complain: Callable[[str], object],
        *,
        strict: bool = False,
        after: int = 0,
    ) -> None:
        self._live, self._write, self._complain, self._strict = live, write, complain, strict
        self._number, self._after = 0, after

    def give(self, texts: Sequence[bytes]) -> None:
        """Answer lines, which are logged together."""
        batch = [line for line in map(self._parsed, texts) if line is not None]
        if not batch:
            return
        position = {"from": batch[0].number - 1, "line": batch[-1].number}
        for kind, group in groupby(batch, key=self._kind):
            lines = list(group)
            if kind == "problem":
                for line in lines:
                    self._refuse(line, str(line.problem))
            elif kind == "label":
                self._learn(lines)
            else:
                self._score(lines, position)
        self._live.work()  # a new model that a refit left

    def _parsed(self, text: bytes) -> Line | None:
        self._number += 1
        if self._number <= self._after or not text.strip():
            return None
        try:
            content = json.loads(text)
        except (ValueError, RecursionError) as error:
            return Line(self._number, None, f"this is not JSON: {_excerpt(text)} ({getattr(error, 'msg', error)})")
        is_object = isinstance(content, dict)
        return Line(self._number, content, None if is_object else f"this is not a JSON object: {_excerpt(text)}")

    def _kind(self, line: Line) -> str:
        if line.problem is not None:
            return "problem"
        names = self._live.settings.columns
        has = {role: names.get(role, role) in line.content for role in ("src", "dst", "time", "id", "label")}
        return "label" if has["id"] and has["label"] and not (has["src"] or has["dst"] or has["time"]) else "event"

    def _score(self, lines: list[Line], position: dict[str, int]) -> None:
        wrong = self._live.check([line.content for line in lines])[:1] if self._strict else []
        whole = lines[: wrong[0].position] if wrong else lines
        answers = self._live.submit([line.content for line in whole], position)
        for line, answer in zip(whole, answers, strict=True):
            if answer.error is None:
                self._write(answer_line(answer) + "\n")
            if answer.label_error is not None:
                self._refuse(line, answer.label_error.in_words(), "has a label that was refused")
            if answer.error is not None:
                self._refuse(line, answer.error.in_words())
        for error in wrong:
            self._refuse(lines[error.position], error.in_words())

    def _learn(self, lines: list[Line]) -> None:
        names, fields = self._live.settings.columns, {"id": "id", "label": "label", "time": "label_time"}
        labels = [{to: line.content.get(names.get(of, of)) for to, of in fields.items()} for line in lines]
        for line, answer in zip(lines, self._live.label(labels), strict=True):
            if answer.error is not None:
                self._refuse(line, str(answer.error))

    def _refuse(self, line: Line, problem: str, what: str = "is skipped") -> None:
        if self._strict:
            raise ReadError(f"line {line.number:,}: {problem}", "The lines before it are scored and learnt.")
        self._complain(f"line {line.number:,} {what}: {problem}")


def resumed_at(live: LiveModel) -> int:
    """The number of the line after which the same input goes on; the lines logged last are answered again."""
    return int(live.position.get("from", 0)) if isinstance(live.position, dict) else 0


def answer_line(answer: Answer) -> str:
    """An answer as a line of JSON."""
    content = {
        "id": answer.id,
        "score": None if answer.score is None else float(f"{answer.score:.{SCORE_DIGITS}g}"),
        "predicted": answer.predicted,
        "alert": answer.alert,
        "late": answer.late,
        "repeated": answer.repeated,
        **({"differs": True} if answer.differs else {}),
        **({"rules": [*answer.rules]} if answer.rules else {}),
    }
    return json.dumps(content, ensure_ascii=False, separators=(",", ":"))


def _excerpt(text: bytes) -> str:
    shown = text.decode(errors="replace").strip()
    return repr(shown if len(shown) <= SHOWN else shown[: SHOWN - 3] + "...")


def end_torn_line(file: int) -> None:
    """Make what is appended to a file, given by its descriptor, begin on a line of its own.

    A last line without an end is cut off if it is the beginning of an answer, which is written again when its event comes
    again. Any other line is ended. Pipes, terminals and empty files are left alone.
    """
    status = os.fstat(file)
    if sys.platform == "win32" or not stat.S_ISREG(status.st_mode) or not status.st_size:
        return
    import fcntl

    if not fcntl.fcntl(file, fcntl.F_GETFL) & os.O_APPEND:
        return
    try:
        with open(f"/proc/self/fd/{file}", "rb") as opened:
            opened.seek(max(0, status.st_size - LONGEST_LINE))
            last = opened.read().rpartition(b"\n")[2]
    except OSError:  # another system, or the file may not be read: an empty line does no harm
        last = b"?"
    if _is_torn(last):
        os.ftruncate(file, status.st_size - len(last))
    elif last:
        os.write(file, b"\n")


def _is_torn(line: bytes) -> bool:
    """Whether this is a part of an answer."""
    if not line or not (line.startswith(OURS) or OURS.startswith(line)):
        return False
    try:
        json.loads(line)
    except ValueError:
        return True
    return False
