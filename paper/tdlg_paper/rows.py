"""Rows of results: frozen dataclasses, kept in csv files as they come, so that a run that was killed goes on."""

from __future__ import annotations

import csv
import io
import sys
from collections.abc import Callable, Iterable
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any, TypeVar, cast

from tdlg.atomic import new_file

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


def measure(
    path: Path, kind: type[Kind], runs: Iterable[tuple[Any, Callable[[], Kind]]], again: bool = False
) -> list[Kind]:
    """Keep a row of each run, by its key, that has none yet, or of all runs again; all rows of the file."""
    done = set() if again else {row.key for row in read_rows(path, kind)}  # type: ignore[attr-defined]
    for key, run in runs:
        if key not in done:
            print(path.name, *(key if isinstance(key, tuple) else [key]), sep=", ", file=sys.stderr, flush=True)
            keep_row(path, run())
    return read_rows(path, kind)


def _by_key(rows: list[Any]) -> dict[Any, Any]:
    return {row.key: row for row in rows}
