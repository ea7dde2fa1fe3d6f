"""What the commands with --state share: their options, the live model, and answers as columns and as JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tdlg.cli.answers import answers, spread
from tdlg.cli.output import DIGITS, working

if TYPE_CHECKING:
    from tdlg.edges import TemporalEdges
    from tdlg.live.model import LiveModel
    from tdlg.live.state import Answer

__all__ = [
    "answer_columns",
    "answer_line",
    "open_live",
]


def open_live(folder: Path, model: Path | None, **options: Any) -> LiveModel:
    """Open the state of a live model, or start a new one.

    Parameters
    ----------
    folder, model
        The folder of the state, and the file of the model.
    options
        Further options of `LiveModel.open`.
    """
    from tdlg.live.model import LiveModel

    with working("reading the state"):
        return LiveModel.open(folder, model, **options)


def answer_line(answer: Answer) -> str:
    """An answer as a line of JSON."""
    content = {
        "id": answer.id,
        "score": None if answer.score is None else float(f"{answer.score:.{DIGITS}g}"),
        "predicted": answer.predicted,
        "alert": answer.alert,
        "late": answer.late,
        "repeated": answer.repeated,
        **({"differs": True} if answer.differs else {}),
    }
    return json.dumps(content, ensure_ascii=False, separators=(",", ":"))


def answer_columns(live: LiveModel, edges: TemporalEdges, given: Sequence[Answer]) -> dict[str, Any]:
    """Answers as the columns that the model itself adds to a table; null where an event was refused.

    Parameters
    ----------
    live
        The live model.
    edges, given
        The rows of the table, and one answer per row. A row that the model was fitted on has no score yet.
    """
    import numpy as np

    from tdlg.estimator import Scored

    valid = np.array([answer.error is None for answer in given])
    scored = edges[valid].with_label(None)
    answered = [answer for answer in given if answer.error is None]
    fitted = [k for k, answer in enumerate(answered) if answer.score is None]
    values = np.empty((len(answered), max(1, len(live.classes))))
    for k, answer in enumerate(answered):
        values[k] = np.nan if answer.score is None else live.values_of(answer)
    values = values if live.classes else values[:, 0]
    if fitted:
        values[fitted] = live.model.scored(scored[fitted]).values
    return {name: spread(column, valid) for name, column in answers(live.model, Scored(scored, values)).items()}
