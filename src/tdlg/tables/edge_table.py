"""EdgeTable: the columns that all slices of a TemporalEdges share, and their nodes; keys that select rows."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Hashable
from contextlib import suppress
from types import EllipsisType
from typing import Any, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from tdlg.checks import read_only
from tdlg.exceptions import EdgesError
from tdlg.tables.column import Column
from tdlg.tables.features import Features
from tdlg.tables.ids import Factors, alike, as_ids, concatenate_ids, factorise, id_key, is_integers

Rows: TypeAlias = "range | NDArray[np.int64]"


class EdgeTable:
    """The columns that all views share, and their nodes, which are computed at first use.

    Integer ids are stored as passed; other ids are stored as codes only, and `src` or `dst` is then None.
    """

    def __init__(
        self,
        src: Column,
        dst: Column,
        ticks: NDArray[Any],
        unit: str | None,
        weight: NDArray[np.float64] | None,
        features: Features | None,
        bipartite: bool,
    ) -> None:
        self.token = uuid.uuid4().hex
        self.ticks, self.unit, self.weight, self.features = ticks, unit, weight, features
        self.bipartite = bipartite
        self._lock = threading.RLock()
        self._index: list[dict[Hashable, int]] | None = None
        are_integers = is_integers(src), is_integers(dst)
        self._spaces = None if all(are_integers) else _spaces(src, dst, bipartite)
        # two forms of one id are one node, which is written as it was first
        keep = are_integers if bipartite else [all(are_integers)] * 2
        self.src, self.dst = (column if kept else None for column, kept in zip((src, dst), keep, strict=True))

    @property
    def spaces(self) -> list[Factors]:
        """Ids, src codes and dst codes: for all nodes together or, if bipartite, for each side."""
        with self._lock:
            if self._spaces is None:
                self._spaces = _spaces(cast(Column, self.src), cast(Column, self.dst), self.bipartite)
            return self._spaces

    @property
    def node_ids(self) -> NDArray[Any]:
        """Distinct ids, those of `src` first if bipartite."""
        ids = [space[0] for space in self.spaces]
        return read_only(ids[0] if len(ids) == 1 else concatenate_ids(ids))

    @property
    def codes(self) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """Position of each src and of each dst in `node_ids`."""
        return self.spaces[0][1], self.spaces[-1][2]

    def at_ticks(self, rows: Any, ticks: NDArray[Any]) -> EdgeTable:
        """A table with other times in some rows and the same nodes."""
        table = EdgeTable.__new__(EdgeTable)
        table.__setstate__({**self.__getstate__(), "_spaces": self.spaces, "token": uuid.uuid4().hex})
        table.ticks = self.ticks.copy()
        table.ticks[rows] = ticks
        return table

    def written_like(self, other: EdgeTable) -> EdgeTable:
        """The same table with ids and categories written as in another one; itself if nothing changes."""
        before = [space[0] for space in self.spaces]
        ids = [_written(mine, other.spaces[side][0], other._found(side, mine)) for side, mine in enumerate(before)]
        features = (
            self.features if other.features is None or self.features is None else self.features.like(other.features)
        )
        if features is self.features and all(new is old for new, old in zip(ids, before, strict=True)):
            return self
        src, dst = ids[0][self.codes[0]], ids[-1][self.codes[1] - (len(ids[0]) if len(ids) == 2 else 0)]
        columns = as_ids(src, "src"), as_ids(dst, "dst")
        return EdgeTable(*columns, self.ticks, self.unit, self.weight, features, self.bipartite)

    def positions_of(self, other: EdgeTable) -> NDArray[np.int32]:
        """Position of each node of another table in the `node_ids` of this table, -1 if it is not there."""
        found, start = [], 0
        for side, (ids, *_) in enumerate(self.spaces):
            codes = self._found(side, other.spaces[side][0])
            found.append(np.where(codes >= 0, codes + start, -1).astype(np.int32))
            start += len(ids)
        return np.concatenate(found)

    def _found(self, side: int, ids: NDArray[Any]) -> NDArray[np.int32]:
        """Position of each id among the ids of one side, however it is written; -1 if it is not there."""
        mine = self.spaces[side][0]
        if mine.dtype.kind == "i":
            return _among_integers(mine, ids)
        with self._lock:
            if self._index is None:
                self._index = [{value: k for k, value in enumerate(ids.tolist())} for ids, _, _ in self.spaces]
        found = (alike(self._index[side], value) for value in ids.tolist())
        return np.fromiter((-1 if code is None else code for code in found), np.int32, len(ids))

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name not in ("_lock", "_index")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _lock=threading.RLock(), _index=None)


def _among_integers(mine: NDArray[Any], ids: NDArray[Any]) -> NDArray[np.int32]:
    """Position of each id among sorted integers, -1 if it is not there."""
    codes, at = np.full(len(ids), -1, np.int32), np.arange(len(ids))
    if ids.dtype.kind != "i":
        keys = list(map(id_key, ids.tolist()))
        at = np.array([k for k, key in enumerate(keys) if isinstance(key, int) and -(2**63) <= key < 2**63], np.int64)
        ids = np.array([keys[k] for k in at], np.int64)
    if len(mine) and len(ids):
        near = np.minimum(np.searchsorted(mine, ids), len(mine) - 1)
        codes[at] = np.where(mine[near] == ids, near, -1)
    return codes


def _written(ids: NDArray[Any], others: NDArray[Any], at: NDArray[np.int32]) -> NDArray[Any]:
    """Ids as others at these positions are written, where there is one; the array itself if nothing changes."""
    known = np.flatnonzero(at >= 0)
    if not (others[at[known]] != ids[known]).any():
        return ids
    written = ids.astype(object)
    written[known] = others[at[known]]
    return written


def _spaces(src: Column, dst: Column, bipartite: bool) -> list[Factors]:
    if not bipartite:
        return [factorise(src, dst)]
    src_space = factorise(src, src[:0])
    dst_ids, none, dst_code = factorise(dst[:0], dst)
    return [src_space, (dst_ids, none, dst_code + np.int32(len(src_space[0])))]


def row_key(key: Any, n_edges: int) -> slice | NDArray[np.int64]:
    """A key that selects rows, as a slice or as checked positions."""
    if isinstance(key, tuple) and len(key) == 2 and key[1] is Ellipsis:
        key = key[0]  # scikit-learn's array[key, ...]
    if isinstance(key, slice | EllipsisType):
        return key if isinstance(key, slice) else slice(None)
    if isinstance(key, int | np.integer) and not isinstance(key, bool):
        raise EdgesError(f"A key of edges must select rows. Got {key} instead.", f"Use `edges[{key}:{key + 1}]`.")
    index: Any = np.empty((0, 0))
    with suppress(ValueError):  # raised for nested lists of different lengths
        index = np.asarray(key)
    if index.dtype.kind == "b" or (index.dtype == object and set(map(type, index.flat)) == {bool}):
        if index.shape != (n_edges,):
            raise EdgesError(
                f"A mask must have one value per edge: {n_edges:,}. Got a mask of shape {index.shape} instead.",
                "Make it from these edges, such as `edges.time < cut`.",
            )
        return np.flatnonzero(index.astype(bool))
    if index.ndim == 1 and (index.dtype.kind in "iu" or not len(index)):
        index = index.astype(np.int64)
        outside = (index < -n_edges) | (index >= n_edges)
        if outside.any():
            raise IndexError(f"Position {index[outside][0]} is out of range for {n_edges:,} edges.")
        return np.where(index < 0, index + n_edges, index)
    raise EdgesError(
        f"A key of edges must be a slice, positions or a mask. Got {type(key).__name__} {key!r} instead.",
        "Use `edges[:10]`, `edges[[0, 5]]` or `edges[edges.time < cut]`.",
    )


def as_slice(rows: Rows) -> slice | NDArray[np.int64]:
    """Evenly spaced rows as a slice, which copies nothing; other rows as they are."""
    if not isinstance(rows, range):
        return rows
    if not rows:
        return slice(0, 0)  # range(-1, -1, -1) is empty, slice(-1, None, -1) is not
    return slice(rows.start, rows.stop if rows.stop >= 0 else None, rows.step)
