"""Rows of a file that are scored in ranges, and the file with their scores."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tdlg.atomic import replacing, target_of
from tdlg.engines.buckets import Buckets
from tdlg.engines.columns import ColumnFiles, ColumnPlan, read_columns
from tdlg.engines.split_file import read_split, write_split
from tdlg.engines.store import exists
from tdlg.engines.table import Block, InputTable
from tdlg.exceptions import ParameterError
from tdlg.explain.positive import plain_classes, positive_of
from tdlg.models.propagation_classifier import PropagationClassifier

if TYPE_CHECKING:
    import polars as pl

__all__ = ["ScoreTask", "check_output", "score_range", "write_scores"]

DIGITS = 6  # of probabilities
ROW_GROUP = 250_000
PREDICTED, PROBABILITY = "predicted", "probability"


@dataclass(frozen=True)
class ScoreTask:
    """Score the rows of a range. Plain data, which an engine sends to where it is run.

    Attributes
    ----------
    model
        The fitted model, without edges.
    plan, buckets, files
        The columns, and where they are.
    number
        The number of the range.
    path
        The file to write: row and probabilities.
    """

    model: PropagationClassifier
    plan: ColumnPlan
    buckets: Buckets
    files: ColumnFiles
    number: int
    path: str


def score_range(task: ScoreTask) -> None:
    """Write the probabilities of the rows of a range. A file that is there already stays."""
    if exists(task.path):
        return
    rows, columns = read_columns(task.plan, task.buckets, task.files, range(task.number, task.number + 1))
    scores = np.zeros(len(rows), [("row", "<i8"), ("values", "<f8", (len(task.model.classes_),))])
    scores["row"] = rows["row"]
    scores["values"] = task.model.values_of(columns)
    write_split(task.path, scores, np.zeros(len(rows), np.int64), 1)


def check_output(path: Any) -> Path:
    """Refuse a file that is neither parquet nor csv."""
    target = target_of(path)
    if target.suffix.lower() not in (".parquet", ".pq", ".csv"):
        raise ParameterError(
            f"{path}: a table that is made in blocks is written as .parquet or .csv.", parameter="path", value=path
        )
    return target


def write_scores(
    table: InputTable,
    blocks: list[Block],
    scores: dict[Block, str],
    model: PropagationClassifier,
    path: Path,
    callback: Callable[[int, int], object] | None = None,
) -> None:
    """Write the table with two more columns, "predicted" and "probability", as `tdlg classify` does.

    Parameters
    ----------
    table, blocks
        The table, and its blocks in order.
    scores
        For ranges of rows, the files of their scores.
    model
        The model, for its classes.
    path
        The file to write.
    callback
        Called with the numbers of blocks written and of all blocks.
    """
    from polars.io.plugins import register_io_source

    names = [_free_name(name, table) for name in (PREDICTED, PROBABILITY)]
    open_scores = _Scores(scores)

    def frames(wanted: list[str] | None, *_: Any) -> Iterator[pl.DataFrame]:
        for done, block in enumerate(blocks, start=1):
            frame = table.frame(block)
            answers = _answers(open_scores.of(block), len(frame), block.start, model)
            frame = frame.with_columns(column.alias(name) for name, column in zip(names, answers, strict=True))
            yield frame if wanted is None else frame.select(wanted)
            if callback is not None:
                callback(done, len(blocks))

    none = np.zeros(0, [("row", "<i8"), ("values", "<f8", (len(model.classes_),))])
    empty = table.frame(Block(0, 0))
    empty = empty.with_columns(s.alias(n) for n, s in zip(names, _answers(none, 0, 0, model), strict=True))
    lazy = register_io_source(frames, schema=empty.schema)
    with replacing(path) as draft:
        if path.suffix.lower() == ".csv":
            lazy.sink_csv(draft)
        else:
            lazy.sink_parquet(draft, row_group_size=ROW_GROUP)


class _Scores:
    """The scores of ranges of rows, of which the last one is kept."""

    def __init__(self, paths: dict[Block, str]) -> None:
        self._paths = paths
        self._kept: tuple[Block | None, Any] = None, None

    def of(self, block: Block) -> NDArray[np.void]:
        """The scores of the rows of a block."""
        found = []
        for span, path in self._paths.items():
            if span.start < block.stop and block.start < span.stop:
                if self._kept[0] != span:
                    self._kept = span, read_split([path], range(1))
                rows = self._kept[1]["row"]
                first, stop = np.searchsorted(rows, [block.start, block.stop])
                found.append(self._kept[1][first:stop])
        return np.concatenate(found)


def _answers(scores: NDArray[np.void], n: int, start: int, model: PropagationClassifier) -> list[pl.Series]:
    """The predicted class, and the probability of the positive class or, with more than two, of the predicted class."""
    import polars as pl

    values = scores["values"]
    best = values.argmax(axis=1)
    shown = values[np.arange(len(best)), positive_of(model) if len(model.classes_) == 2 else best]
    place = np.full(n, -1, np.int64)
    place[scores["row"] - start] = np.arange(len(scores))
    where = pl.Series(place, dtype=pl.Int64).set(pl.Series(place < 0), None)
    classes = pl.Series(plain_classes(model.classes_).tolist())
    return [
        classes.gather(pl.Series(best, dtype=pl.UInt32)).gather(where),
        pl.Series(shown, dtype=pl.Float64).round_sig_figs(DIGITS).gather(where),
    ]


def _free_name(name: str, table: InputTable) -> str:
    """The name, with a number if the table has it already."""
    taken = table.frame(Block(0, 0)).columns
    return next(n for n in (name, *(f"{name}_{k}" for k in range(2, 1000))) if n not in taken)
