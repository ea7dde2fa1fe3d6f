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

AT_ONCE = 10_000  # rows that are logged together


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
            rows = _Rows(live, table, edges, reading.id)
            before = live.n_labels
            answers = rows.submit(path)
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


class _Rows:
    """The rows of a table as events."""

    def __init__(self, live: LiveModel, table: Table, edges: TemporalEdges, id: str | None) -> None:
        self._live, self._edges = live, edges
        self.ids = self._given_ids(table, id) if id is not None else _made_ids(live, edges)
        self._labels = _labels(edges)
        self._events = self._all_events()

    @staticmethod
    def _given_ids(table: Table, id: str) -> list[Any]:
        if id not in table.frame.columns:
            raise ParameterError(
                f"There is no column {id!r} for the ids. The columns are {table.frame.columns}.",
                parameter="id",
            )
        return table.frame[id].to_list()

    def _all_events(self) -> list[dict[str, Any]]:
        """One event per row, with the field names of the state directory."""
        columns = self._live.settings.columns
        edges, names = self._edges, {"id": self.ids}
        names |= {"src": edges.src.tolist(), "dst": edges.dst.tolist(), "time": _as_json(edges.time)}
        names |= {name: _feature(edges, name) for name in edges.feature_names}
        if edges.weight is not None:
            names["weight"] = edges.weight.tolist()
        if self._labels:
            names["label"] = [self._labels.get(row) for row in range(len(edges))]
            if edges.label_time is not None:
                known_at = _as_json(edges.label_time)
                names["label_time"] = [known_at[row] if row in self._labels else None for row in range(len(edges))]
        fields = [columns.get(name, name) for name in names]
        return [dict(zip(fields, values, strict=True)) for values in zip(*names.values(), strict=True)]

    def submit(self, path: Path) -> list[Answer]:
        """Score and learn the rows in the order of time; the answers are in the order of the rows."""
        order = self._order()
        answers: dict[int, Answer] = {}
        with progress() as show:
            for start in range(0, len(order), AT_ONCE):
                part = order[start : start + AT_ONCE]
                position = {"file": path.name, "rows": start + len(part)}
                answers |= zip(part, self._live.submit([self._events[row] for row in part], position), strict=True)
                show(start + len(part), len(order), f"scoring {count(len(order), 'row')}")
        return [answers[row] for row in range(len(order))]

    def _order(self) -> list[int]:
        """Rows in the order of time, but those that came before and are labelled now apart.

        They come first if it is given when the labels became known, so that all new rows see them, else last: the labels
        become known now, after the new rows.
        """
        import numpy as np

        order = np.argsort(self._edges.time, kind="stable").tolist()
        known = {row for row in self._labels if self._live.knows(self._live.id_of(self._events[row]))}
        are_last = self._edges.label_time is None
        return sorted(order, key=lambda row: (row in known) == are_last)


def _made_ids(live: LiveModel, edges: TemporalEdges) -> list[str]:
    from tdlg.live.ids import ids_of_edges

    return ids_of_edges(edges, live.time_unit)


def _labels(edges: TemporalEdges) -> dict[int, Any]:
    """The known labels by row."""
    import numpy as np

    if edges.label is None:
        return {}
    return {int(row): edges.label[row : row + 1].tolist()[0] for row in np.flatnonzero(edges.labelled)}


def _feature(edges: TemporalEdges, name: str) -> list[Any]:
    from tdlg.models.propagation import feature_values

    values = feature_values(edges, name).tolist()
    return [None if value is None or value != value else value for value in values]


def _as_json(times: Any) -> list[Any]:
    import numpy as np

    listed: list[Any] = np.datetime_as_string(times).tolist() if times.dtype.kind == "M" else times.tolist()
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
