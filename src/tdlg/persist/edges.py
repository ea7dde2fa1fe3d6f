"""Temporal edges split into arrays for saving, and rebuilt after a check of every array.

The table of a slice is saved as a whole, with the token that identifies it: a loaded model recognises the edges that it was
fitted to as the model itself does. Kernels trust codes and rows, so those from a file are checked here.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tdlg.clock import UNITS
from tdlg.edges import TemporalEdges
from tdlg.tables.column import read_only
from tdlg.tables.edge_table import EdgeTable
from tdlg.tables.features import Features

__all__ = ["edges_from", "edges_state", "table_from", "table_state"]


def edges_state(edges: TemporalEdges) -> tuple[EdgeTable, dict[str, Any]]:
    """Return the table, the rows of these edges in it, and their labels with their times."""
    table, rows, label, label_ticks = edges.__getstate__()
    return table, {"rows": rows, "label": label, "label_ticks": label_ticks}


def edges_from(table: EdgeTable, rows: Any, label: Any, label_ticks: Any) -> TemporalEdges:
    """Return the edges with this state."""
    n_rows = len(table.ticks)
    if not isinstance(rows, range):
        _check(_is_column(rows, "i") and rows.dtype == np.int64, "rows that are not positions")
        rows = read_only(rows)
    ends = (rows[0], rows[-1]) if isinstance(rows, range) and rows else ()
    if not isinstance(rows, range) and len(rows):
        ends = (rows.min(), rows.max())
    _check(all(0 <= row < n_rows for row in ends), "rows outside the table")
    _check(label is None or (_is_column(label, "iufbO") and len(label) == len(rows)), "labels of other edges")
    _check_column(label_ticks, table.ticks.dtype.kind, len(rows), "times of labels")
    _check(label_ticks is None or label_ticks.itemsize == 8, "times of labels that are not numbers")
    edges = TemporalEdges.__new__(TemporalEdges)
    edges.__setstate__((table, rows, label, label_ticks))
    return edges


def table_state(table: EdgeTable) -> dict[str, Any]:
    """Return the columns of a table; nodes only if they do not follow from integer ids."""
    state = {name: getattr(table, name) for name in ("token", "src", "dst", "ticks", "unit", "weight", "bipartite")}
    is_plain = table.src is not None and table.dst is not None
    spaces = None if is_plain else [list(space) for space in table.spaces]
    features = None if table.features is None else table.features._asdict()
    return {**state, "spaces": spaces, "features": features}


def table_from(state: dict[str, Any]) -> EdgeTable:
    """Return the table with this state."""
    ticks = state["ticks"]
    _check(
        _is_column(ticks, "if") and ticks.itemsize == 8 and bool(np.isfinite(ticks).all()), "times that are not numbers"
    )
    _check(
        state["unit"] in (None, *UNITS) and (state["unit"] is None or ticks.dtype.kind == "i"),
        "times of an unknown unit",
    )
    _check(isinstance(state["bipartite"], bool) and isinstance(state["token"], str), "no table")
    spaces = _checked_spaces(state["spaces"], state["bipartite"], len(ticks))
    _check(spaces is not None or not any(state[end] is None for end in ("src", "dst")), "ends without ids")
    columns = {"ticks": ticks, **{name: state[name] for name in ("src", "dst", "weight")}}
    for name, column in columns.items():
        _check_column(column, "f" if name == "weight" else "if" if name == "ticks" else "i", len(ticks), name)
    held = {name: None if column is None else read_only(column) for name, column in columns.items()}
    same = {name: state[name] for name in ("token", "unit", "bipartite")}
    table = EdgeTable.__new__(EdgeTable)
    table.__setstate__(
        {**held, **same, "features": _checked_features(state["features"], len(ticks)), "_spaces": spaces}
    )
    return table


def _checked_spaces(spaces: Any, bipartite: bool, n_edges: int) -> list[Any] | None:
    """Ids and codes of each type of node: every code must be the position of an id."""
    if spaces is None:
        return None
    _check(len(spaces) == 1 + bipartite, "ids of the wrong number of node types")
    start = 0
    for side, (ids, *codes) in enumerate(spaces):
        _check(_is_column(ids, "ifO"), "ids of an unknown type")
        lengths = [0, 0] if bipartite else [n_edges, n_edges]
        lengths[side] = n_edges
        for code, length in zip(codes, lengths, strict=True):
            _check(_is_column(code, "i") and code.dtype == np.int32 and len(code) == length, "codes of other edges")
            _check(not length or (code.min() >= start and code.max() < start + len(ids)), "codes without ids")
        start += len(ids)
    return [tuple(read_only(array) for array in space) for space in spaces]


def _checked_features(features: Any, n_edges: int) -> Features | None:
    if features is None:
        return None
    matrix, names, categories = features["matrix"], features["names"], features["categories"]
    _check(isinstance(matrix, np.ndarray) and matrix.dtype in (np.float32, np.float64), "features that are not numbers")
    _check(matrix.shape == (n_edges, len(names)) and isinstance(names, tuple), "features of other edges")
    _check(isinstance(categories, dict) and set(categories) <= set(names), "categories of other features")
    return Features(read_only(matrix), names, categories)


def _check_column(column: Any, kinds: str, length: int, name: str) -> None:
    _check(column is None or (_is_column(column, kinds) and len(column) == length), f"{name} of other edges")


def _is_column(array: Any, kinds: str) -> bool:
    return isinstance(array, np.ndarray) and array.ndim == 1 and array.dtype.kind in kinds and array.dtype.isnative


def _check(is_right: bool, complaint: str) -> None:
    if not is_right:
        raise ValueError(f"it holds {complaint}")
