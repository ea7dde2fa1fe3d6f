"""Rows of a file that are scored in ranges, and the columns with their scores."""

from __future__ import annotations

import pickle
import uuid
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Self, cast

import numpy as np
from numpy.typing import NDArray

from tdlg.engines.buckets import Buckets
from tdlg.engines.columns import BucketPlan, ColumnFiles, read_columns
from tdlg.engines.split_file import read_split, write_split
from tdlg.engines.store import exists, joined, reading, write_whole
from tdlg.engines.table import Block
from tdlg.explain.positive import plain_classes, positive_of
from tdlg.models.propagation_classifier import PropagationClassifier

if TYPE_CHECKING:
    import polars as pl

__all__ = ["ClassAnswers", "ScoreTask", "score_range", "score_record", "write_model"]

DIGITS = 6  # of probabilities


@dataclass(frozen=True)
class ScoreTask:
    """Score the rows of a range. Plain data, which an engine sends to where it is run.

    Attributes
    ----------
    model
        The file of the fitted model, without edges; see `write_model`.
    plan, buckets, files
        The columns, and where they are.
    number
        The number of the range.
    path
        The file to write: row and probabilities.
    """

    model: str
    plan: BucketPlan
    buckets: Buckets
    files: ColumnFiles
    number: int
    path: str


def score_range(task: ScoreTask) -> None:
    """Write the probabilities of the rows of a range. A file that is there already stays."""
    if exists(task.path):
        return
    model = _model_of(task.model)
    rows, columns = read_columns(task.plan, task.buckets, task.files, range(task.number, task.number + 1))
    scores = np.zeros(len(rows), score_record(len(model.classes_)))
    scores["row"] = rows["row"]
    scores["values"] = model.values_of(columns)
    write_split(task.path, scores, np.zeros(len(rows), np.int64), 1)


def write_model(model: PropagationClassifier, folder: str) -> str:
    """Write a fitted model to a new file, which all tasks read, and give its path."""
    path = joined(folder, f"model-{uuid.uuid4().hex}")
    write_whole(path, [pickle.dumps(model)], mode=0o600)  # who may write it could run code in the tasks
    return path


@lru_cache(maxsize=1)
def _model_of(path: str) -> PropagationClassifier:
    """The model in a file, which this process wrote or the client of the cluster to which it belongs."""
    with reading(path) as file:
        return cast(PropagationClassifier, pickle.loads(file.read()))


@dataclass(frozen=True)
class ClassAnswers:
    """The columns "predicted" and "probability", as of `tdlg classify`. Plain data, which tasks carry.

    Attributes
    ----------
    scores
        For ranges of rows, the files of their scores.
    classes, positive
        The classes, and the position of the positive class of two; else None.
    """

    scores: _Scores
    classes: tuple[Any, ...]
    positive: int | None
    names: tuple[str, ...] = ("predicted", "probability")

    @classmethod
    def of(cls, model: PropagationClassifier, scores: dict[Block, str]) -> Self:
        """The answers of a fitted model."""
        positive = positive_of(model) if len(model.classes_) == 2 else None
        return cls(_Scores(scores), tuple(plain_classes(model.classes_).tolist()), positive)

    def of_block(self, block: Block) -> Self:
        """Without the scores of other rows."""
        return replace(self, scores=self.scores.around(block))

    def columns(self, block: Block) -> list[pl.Series]:
        """The predicted class, and the probability of the positive class or, with more than two, of the predicted class."""
        import polars as pl

        n = block.stop - block.start
        scores = self.scores.of(block) if n else np.zeros(0, score_record(len(self.classes)))
        values = scores["values"]
        best = values.argmax(axis=1)
        shown = values[np.arange(len(best)), best if self.positive is None else self.positive]
        place = np.full(n, -1, np.int64)
        place[scores["row"] - block.start] = np.arange(len(scores))
        where = pl.Series(place, dtype=pl.Int64).set(pl.Series(place < 0), None)
        classes = pl.Series(list(self.classes))
        return [
            classes.gather(pl.Series(best, dtype=pl.UInt32)).gather(where),
            pl.Series(shown, dtype=pl.Float64).round_sig_figs(DIGITS).gather(where),
        ]


class _Scores:
    """The scores of ranges of rows, of which the last one is kept."""

    def __init__(self, paths: dict[Block, str]) -> None:
        self._paths = paths
        self._kept: tuple[Block | None, Any] = None, None

    def around(self, block: Block) -> _Scores:
        """The scores of the ranges that have rows of a block."""
        return _Scores({s: path for s, path in self._paths.items() if s.start < block.stop and block.start < s.stop})

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


def score_record(n_classes: int) -> np.dtype[Any]:
    """Type of the scores of rows."""
    return np.dtype([("row", "<i8"), ("values", "<f8", (n_classes,))])
