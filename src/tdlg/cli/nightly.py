"""Tables that come one after the other: each is scored with all that came before, which a state directory keeps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tdlg.cli.live import answer_columns, open_live
from tdlg.cli.options import Columns, Late
from tdlg.cli.output import count, note, progress, warn
from tdlg.exceptions import ParameterError, ReadError

if TYPE_CHECKING:
    from tdlg.edges import TemporalEdges
    from tdlg.io.read import Table
    from tdlg.live.model import LiveModel
    from tdlg.live.state import Answer

__all__ = ["Nightly"]


class Nightly:
    """Scores the rows of a table and learns from them.

    Parameters
    ----------
    folder, model
        The folder of the state, and the file of the model.
    """

    def __init__(self, folder: Path, model: Path) -> None:
        self._folder, self._model = folder, model

    def score(self, path: Path, columns: Columns, labels: dict[str, str | None], id: str | None, read: Any) -> Any:
        """The table with the answers as columns.

        Parameters
        ----------
        path
            The table.
        columns, labels, id
            How to read it: what is given now. What was given before holds for the rest.
        read
            A function that reads the table: (model, path, columns, column of the label, condition, words, late) -> table and
            edges with labels.
        """
        with open_live(self._folder, self._model) as live:
            reading = _Reading(live, columns, labels, id)
            table, edges = reading.table(path, read)
            live.remember(reading.names(table), reading.stored)
            ids, before = None if reading.id is None else _ids(table, reading.id), live.n_labels
            with progress() as show:
                answers = live.submit_table(
                    edges,
                    ids=ids,
                    position={"file": path.name},
                    progress=lambda done, n: show(done, n, f"scoring {count(n, 'row')}"),
                )
            _report(answers, live.n_labels - before)
            return table, answer_columns(live, edges, answers), live.model


class _Reading:
    """How tables are read: as given now, else as before."""

    def __init__(self, live: LiveModel, columns: Columns, labels: dict[str, str | None], id: str | None) -> None:
        self._live, self._given = live, {**asdict(columns), **labels, "id": id}
        before = {**_of_events(live), **live.settings.reading}
        self.stored = before | {name: value for name, value in self._given.items() if value not in (None, False)}
        self._labels = {name: self.stored.get(name) for name in labels}
        self._columns = Columns(**{name: self.stored.get(name, default) for name, default in asdict(Columns()).items()})
        self.id = self.stored.get("id")

    def names(self, table: Table) -> dict[str, str]:
        """The columns of the table as fields of events, so that events can have the same names."""
        found = {**table.names, **({} if self.id is None else {"id": self.id})}
        if self._labels["positive"] is not None:  # then events have classes, not the values of the column
            found.pop("label", None)
        return {**found, **self._live.settings.columns}

    def table(self, path: Path, read: Any) -> tuple[Table, TemporalEdges]:
        """The table and its edges with labels. A table without the label columns of earlier ones has no labels."""
        labels = self._labels
        while True:
            late = Late(labels["label_time"], labels["label_delay"])
            try:
                found: tuple[Table, TemporalEdges] = read(
                    self._live.model,
                    path,
                    self._columns,
                    labels["label"],
                    labels["positive"],
                    labels["missing"],
                    late,
                )
                return found
            except ReadError as error:
                name = str(error.parameter)
                if name not in ("label", "label_time") or self._given.get(name) is not None or labels[name] is None:
                    raise
                note(f"{path.name} has no column {labels[name]!r}: no labels are read")
                labels = dict.fromkeys(labels)


def _of_events(live: LiveModel) -> dict[str, str]:
    return {name: field for name, field in live.settings.columns.items() if name in ("src", "dst", "time", "id")}


def _ids(table: Table, id: str) -> list[Any]:
    if id not in table.frame.columns:
        raise ParameterError(
            f"There is no column {id!r} for the ids. The columns are {table.frame.columns}.",
            parameter="id",
        )
    listed: list[Any] = table.frame[id].to_list()
    return listed


def _report(answers: Sequence[Answer], learnt: int) -> None:
    """Say what was new, and which rows were refused."""
    repeated = sum(answer.repeated for answer in answers)
    late = sum(answer.late and not answer.repeated for answer in answers)
    refused = [(row, answer.error) for row, answer in enumerate(answers, start=1) if answer.error is not None]
    parts = [count(len(answers) - repeated - len(refused), "new row")]
    parts += [f"{repeated:,} seen before"] * bool(repeated) + [f"{late:,} late"] * bool(late)
    parts += [f"{count(learnt, 'label')} of earlier rows learnt"] * bool(learnt)
    note(", ".join(parts))
    for row, error in refused[:1]:
        more = f" (and {len(refused) - 1:,} more)" * (len(refused) > 1)
        warn(f"row {row} is not scored{more}: {error.in_words()}")
    wrong = [answer.label_error for answer in answers if answer.label_error is not None]
    for error in wrong[:1]:
        warn(f"{count(len(wrong), 'label was', 'labels were')} refused, for example: {error.message}")
