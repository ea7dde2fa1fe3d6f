"""Bursts of a bucket: what `tdlg.propagate.bursts` computes, for the edges of a bucket and one kind of keys."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tdlg.engines.buckets import Buckets
from tdlg.engines.row_values import RowValues
from tdlg.engines.split_file import read_split
from tdlg.engines.store import exists
from tdlg.propagate.bursts import surprises_of_key

__all__ = ["BurstsTask", "find_bursts"]


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
