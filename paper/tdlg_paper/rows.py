"""Rows of results: frozen dataclasses, kept in csv files as they come, so that a run that was killed goes on."""

from __future__ import annotations

import csv
import io
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any, TypeVar, cast

from tdlg.atomic import new_file

__all__ = ["keep_row", "read_rows"]

TYPES = {"str": str, "int": int, "float": float}


Kind = TypeVar("Kind")


def read_rows(path: Path, kind: type[Kind]) -> list[Kind]:
    """The rows of a file, none if it does not exist yet; of several with the same `key` only the last."""
    if not path.exists():
        return []
    types = {field.name: TYPES[str(field.type)] for field in fields(cast(Any, kind))}
    with path.open(encoding="utf-8", newline="") as file:
        rows = [kind(**{name: types[name](text) for name, text in line.items()}) for line in csv.DictReader(file)]
    return list(_by_key(rows).values())


def keep_row(path: Path, row: Any) -> None:
    """Add a row to a file, in the place of an earlier one with the same key."""
    rows = _by_key([*read_rows(path, type(row)), row])
    text = io.StringIO()
    writer = csv.DictWriter(text, [field.name for field in fields(row)], lineterminator="\n")
    writer.writeheader()
    writer.writerows(asdict(each) for each in rows.values())
    path.parent.mkdir(parents=True, exist_ok=True)
    with new_file(path) as draft:
        draft.write(text.getvalue().encode())


def _by_key(rows: list[Any]) -> dict[Any, Any]:
    return {row.key: row for row in rows}
