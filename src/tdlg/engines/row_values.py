"""Values of rows: what the tasks of buckets compute for single rows, sorted back by blocks of rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tdlg.engines.split_file import read_split, write_split
from tdlg.engines.store import joined

__all__ = ["RowValues"]

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class RowValues:
    """Where values of rows go. Plain data, which tasks carry.

    Each task writes one split file, whose destinations are the blocks of the table. A row may have several values.

    Attributes
    ----------
    folder
        The folder of the files.
    n_rows, block
        The number of rows of the table, and of each of its blocks but the last one.
    n_files
        The number of tasks.
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

    def read(self, first_row: int, n: int, combined: np.ufunc) -> Floats:
        """The values of a block; several of one row are combined, by a sum or a maximum. Rows without any have 0.

        Parameters
        ----------
        first_row, n
            The first row of the block, and its number of rows.
        combined
            `numpy.add` or `numpy.maximum`.
        """
        values = np.zeros(n)
        if self.n_files:
            number = first_row // self.block
            records = read_split([self.path(k) for k in range(self.n_files)], range(number, number + 1))
            combined.at(values, records["row"].astype(np.int64) - first_row, records["value"])
        return values
