"""Rows of results/payments.csv: one per data set, method and part (a fold or a seed)."""

from __future__ import annotations

import csv
from dataclasses import asdict, dataclass, fields
from pathlib import Path

__all__ = ["Row", "append_row", "read_rows"]


@dataclass(frozen=True)
class Row:
    """What was measured in one run.

    Attributes
    ----------
    dataset, method, part
        What was run; the part is the number of a fold or a seed.
    auc, average_precision, card_precision
        Metrics of the test rows, as text; empty if a metric does not belong to the data set.
    low, high
        A 95 % bootstrap interval of the AUC over the test rows; empty if none was computed.
    column_seconds, seconds
        CPU seconds of making the columns alone (empty if not measured), and of the whole run.
    tdlg
        The version of the package.
    """

    dataset: str
    method: str
    part: str
    auc: str = ""
    average_precision: str = ""
    card_precision: str = ""
    low: str = ""
    high: str = ""
    column_seconds: str = ""
    seconds: str = ""
    tdlg: str = ""

    @property
    def key(self) -> tuple[str, str, str]:
        """What was run."""
        return self.dataset, self.method, self.part


def read_rows(path: Path) -> list[Row]:
    """Read the rows, of several rows of one run only the last; an empty list if the file does not exist yet.

    Parameters
    ----------
    path
        The csv file.
    """
    if not path.exists():
        return []
    with path.open(encoding="utf-8", newline="") as file:
        return list({row.key: row for row in (Row(**line) for line in csv.DictReader(file))}.values())


def append_row(path: Path, row: Row) -> None:
    """Add a row at the end of the file, which is made if necessary.

    Parameters
    ----------
    path
        The csv file.
    row
        What was measured.
    """
    is_new = not path.exists()
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, [field.name for field in fields(Row)], lineterminator="\n")
        if is_new:
            writer.writeheader()
        writer.writerow(asdict(row))
