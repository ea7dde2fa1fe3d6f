"""Bursts of a bucket: what `tdlg.propagate.bursts` computes, for the edges of a bucket and one kind of keys."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tdlg.engines.buckets import Buckets
from tdlg.engines.split_file import read_split, write_split
from tdlg.engines.store import exists, joined
from tdlg.propagate.bursts import surprises_of_key

__all__ = ["BurstsTask", "RowValues", "find_bursts"]

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class RowValues:
    """Where the surprises of rows go, sorted back by blocks of rows. Plain data, which tasks carry.

    Each of `n_files` tasks writes one split file into the folder, whose destinations are the blocks of the table: `block`
    rows each, but the last one.
    """

    folder: str
    n_rows: int
    block: int
    n_files: int

    def path(self, number: int) -> str:
        """The file of a task."""
        return joined(self.folder, f"values-{number:06d}")

    def write(self, number: int, rows: NDArray[Any], values: Floats) -> None:
        """Write the values that a task computed."""
        records = np.empty(len(rows), [("row", rows.dtype.str), ("value", "<f8")])
        records["row"], records["value"] = rows, values
        n_blocks = -(-self.n_rows // self.block)
        write_split(self.path(number), records, rows // rows.dtype.type(self.block), n_blocks)

    def largest(self, first_row: int, n: int) -> Floats:
        """The largest value of each of the n rows of a block."""
        values = np.zeros(n)
        number = first_row // self.block
        records = read_split([self.path(k) for k in range(self.n_files)], range(number, number + 1))
        np.maximum.at(values, records["row"].astype(np.int64) - first_row, records["value"])
        return values


@dataclass(frozen=True)
class BurstsTask:
    """Compute the surprises of the edges of one bucket. Plain data, which an engine sends to where it is run.

    Attributes
    ----------
    buckets, kind, bucket
        Where the records are, the kind of keys, and the number of the bucket.
    values, number
        Where the surprises go, and the number of the file.
    fast, slow
        The widths of the decays, in ticks.
    """

    buckets: Buckets
    kind: str
    bucket: int
    values: RowValues
    number: int
    fast: float
    slow: float


def find_bursts(task: BurstsTask) -> None:
    """Write the surprises of a bucket. A file that is there already stays."""
    from tdlg._kernels.ids import factorise_integers
    from tdlg._kernels.layout import stable_argsort

    if exists(task.values.path(task.number)):
        return
    form = task.buckets.form
    records = read_split(task.buckets.paths(task.kind), range(task.bucket, task.bucket + 1))  # in the order of the rows
    keys = np.ascontiguousarray(records["key"]).view(np.int64)
    codes = factorise_integers(keys, keys[:0])[1]
    ticks = np.ascontiguousarray(form.times(records["tick"]))
    start = form.times(form.stored(np.array([form.clock.low])))[0]
    surprises = surprises_of_key(codes, ticks, stable_argsort(ticks), start, task.fast, task.slow)
    task.values.write(task.number, records["row"], surprises)
