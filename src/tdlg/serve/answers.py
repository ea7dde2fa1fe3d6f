"""Answers of the live model as JSON: only values that JSON has, times in ISO format."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from datetime import date, datetime
from typing import TYPE_CHECKING, Any

import numpy as np

from tdlg import __version__
from tdlg.live.scorer import UnknownEventError
from tdlg.serve.bodies import Fault

if TYPE_CHECKING:
    from tdlg.live.cases import Alert
    from tdlg.live.event import EventError
    from tdlg.live.model import LiveModel
    from tdlg.live.state import Answer, LabelAnswer

__all__ = ["about", "as_json", "of_alert", "of_answer", "of_fault", "of_label", "plain"]

OF_ALERT = ("sequence", "id", "src", "dst", "time", "features", "score", "reason", "status", "label", "decided_at")


LARGEST_INTEGER = 2**53 - 1  # whole number that a browser holds exactly
LARGE = re.compile(r"(?:^|[:,\[])-?[0-9]{16,}")  # what may be a larger one


def as_json(value: Any) -> bytes:
    """JSON of an answer; numbers that JSON lacks are null, and whole numbers that a browser would round are text."""
    try:
        text = json.dumps(value, default=plain, allow_nan=False, ensure_ascii=False, separators=(",", ":"))
        is_exact = LARGE.search(text) is None
    except ValueError:
        is_exact = False
    if not is_exact:
        text = json.dumps(_exact(value), allow_nan=False, ensure_ascii=False, separators=(",", ":"))
    return text.encode(errors="backslashreplace")  # half of a character, as JSON writes it: \ud800


def plain(value: Any) -> Any:
    """A value that JSON lacks, as one that it has."""
    if isinstance(value, np.datetime64):
        return None if np.isnat(value) else str(value)
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    if isinstance(value, datetime | date):
        return value.isoformat()
    if is_dataclass(value):
        named = ((field.name, getattr(value, field.name)) for field in fields(value))
        return {name: item for name, item in named if item is not None}
    if isinstance(value, tuple | set | frozenset):
        return list(value)
    return str(value)


def _exact(value: Any) -> Any:
    """The same with None in place of NaN and infinity, and text in place of large whole numbers, however deep."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {key: _exact(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_exact(item) for item in value]
    if isinstance(value, int):
        return value if abs(value) <= LARGEST_INTEGER else str(value)
    return value if isinstance(value, str | None) else _exact(plain(value))


# ---- what each address gives


def of_answer(answer: Answer, classes: Sequence[str]) -> dict[str, Any]:
    """The answer to an event.

    Parameters
    ----------
    answer
        What the live model said.
    classes
        The names of the probabilities; empty if there are none.
    """
    if answer.error is not None:
        return {"id": answer.id, "error": _of_error(answer.error)}
    found: dict[str, Any] = {
        "id": answer.id,
        "score": answer.score,
        "alert": answer.alert,
        "predicted": answer.predicted,
        "late": answer.late,
        "repeated": answer.repeated,
    }
    if answer.probabilities:
        found["probabilities"] = dict(zip(classes, answer.probabilities, strict=True))
    if answer.differs:
        found["differs"] = True
    if answer.label_error is not None:
        found["label_error"] = _of_error(answer.label_error)
    return found


def _of_error(error: EventError) -> dict[str, Any]:
    return {"field": error.field, "value": error.value, "message": error.message}


def of_label(answer: LabelAnswer) -> dict[str, Any]:
    """The answer to a label."""
    if answer.error is None:
        return {"id": answer.id}
    field = "id" if isinstance(answer.error, UnknownEventError) else answer.error.parameter
    return {"id": answer.id, "error": {"field": field, "message": str(answer.error)}}


def of_fault(fault: Fault) -> dict[str, Any]:
    """The answer to an item that cannot be read."""
    return {"error": {"field": fault.field, "value": fault.value, "message": fault.message}}


def of_alert(alert: Alert) -> dict[str, Any]:
    """An alert, without what only the live model needs."""
    return {name: getattr(alert, name) for name in OF_ALERT}


def about(live: LiveModel) -> dict[str, Any]:
    """What the scores mean, and which labels confirm and dismiss an alert."""
    return {
        "version": __version__,
        "model": type(live.model).__name__,
        "classes": live.classes,
        "positive": live.positive,
        "confirm": 1 if live.positive is None else live.positive,
        "dismiss": 0 if live.positive is None else live.negative,
        "threshold": live.threshold,
        "is_probability": bool(live.classes),
    }
