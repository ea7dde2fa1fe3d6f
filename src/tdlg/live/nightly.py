"""Tables that come one after the other: each is scored with all that came before, and its labels are learnt."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from tdlg.edges import TemporalEdges
from tdlg.estimator import Scored
from tdlg.exceptions import ParameterError, ReadError
from tdlg.io.read import Table
from tdlg.live.model import LiveModel
from tdlg.live.state import Answer
from tdlg.models.answers import answer_columns, read_table_for, spread

OF_LABELS = ("label", "positive", "missing", "label_time", "label_delay")


class ScoredTable(NamedTuple):
    """A table, the columns to add to it, one answer per row, and the number of labels of earlier rows that were learnt."""

    table: Table
    columns: dict[str, Any]
    answers: list[Answer]
    n_learnt: int


def score_table(
    live: LiveModel,
    path: str | os.PathLike[str],
    *,
    id: str | None = None,
    progress: Callable[[int, int], object] = lambda done, n: None,
    **columns: Any,
) -> ScoredTable:
    """Score the rows of a table and learn from them; rows that came before count once.

    Parameters
    ----------
    live
        The live model, which keeps how the table is read: what is not given now is as it was for the table before.
    path
        The table. If it lacks the columns of labels that an earlier table had, no labels are read.
    id
        The column of ids, see `LiveModel.submit_table`.
    progress
        A function that is called with the number of rows that are done, and of all rows.
    columns
        Further arguments of `tdlg.io.read_table`: how the table is read.

    Returns
    -------
    ScoredTable
        The table, the columns to add to it, one `Answer` per row, and the number of labels of earlier rows learnt.
    """
    given = {name: value for name, value in {**columns, "id": id}.items() if value not in (None, False)}
    roles = {name: field for name, field in live.settings.columns.items() if name in ("src", "dst", "time", "id")}
    stored = {**roles, **live.settings.reading, **given}
    how = {name: value for name, value in stored.items() if name != "id"}
    try:
        table = read_table_for(live.model, path, **how)
    except ReadError as error:
        column = stored.get(str(error.parameter))
        if error.parameter not in ("label", "label_time") or error.parameter in given or column is None:
            raise
        warnings.warn(f"{Path(path).name} has no column {column!r}: no labels are read", stacklevel=2)
        how = {name: value for name, value in how.items() if name not in OF_LABELS}
        table = read_table_for(live.model, path, **how)
    names = {**table.names, **({"id": stored["id"]} if "id" in stored else {})}
    if "positive" in how:  # then events have classes, not the values of the column
        names.pop("label", None)
    live.remember({**names, **live.settings.columns}, stored)
    ids, before = _ids_of_rows(table, stored["id"]) if "id" in stored else None, live.n_labels
    answers = live.submit_table(table.edges, ids=ids, position={"file": Path(path).name}, progress=progress)
    return ScoredTable(table, _columns_of_answers(live, table.edges, answers), answers, live.n_labels - before)


def _ids_of_rows(table: Table, id: str) -> list[Any]:
    if id not in table.frame.columns:
        problem = f"There is no column {id!r} for the ids. The columns are {table.frame.columns}."
        raise ParameterError(problem, parameter="id")
    return list(table.frame[id].to_list())


def _columns_of_answers(live: LiveModel, edges: TemporalEdges, given: Sequence[Answer]) -> dict[str, Any]:
    """Answers as the columns that the model itself adds to a table; null where an event was refused."""
    valid = np.array([answer.error is None for answer in given])
    scored = edges[valid].with_label(None)
    answered = [answer for answer in given if answer.error is None]
    fitted = [k for k, answer in enumerate(answered) if answer.score is None]  # rows that the model was fitted on
    values = np.empty((len(answered), max(1, len(live.classes))))
    for k, answer in enumerate(answered):
        values[k] = np.nan if answer.score is None else live.values_of(answer)
    values = values if live.classes else values[:, 0]
    if fitted:
        values[fitted] = live.model.scored(scored[fitted]).values
    return {name: spread(column, valid) for name, column in answer_columns(live.model, Scored(scored, values)).items()}
