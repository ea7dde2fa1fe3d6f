"""EdgeTable: the columns that all slices of a TemporalEdges share, and their nodes."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Hashable
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from tdlg.tables.column import Column, read_only
from tdlg.tables.features import Features
from tdlg.tables.ids import Factors, as_ids, concatenate_ids, factorise, is_integers, positions, written_alike

__all__ = ["EdgeTable"]


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
        self._spaces: list[Factors] | None = None
        self._index: list[dict[Hashable, int]] | None = None
        if not (is_integers(src) and is_integers(dst)):
            self._spaces = _spaces(src, dst, bipartite)
        self.src = src if is_integers(src) else None
        self.dst = dst if is_integers(dst) else None

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
        known = other.positions_of(self) >= 0
        start, ids, changed = 0, [], False
        for mine, theirs in zip(self.spaces, other.spaces, strict=True):
            new = np.flatnonzero(~known[start : start + len(mine[0])])
            start += len(mine[0])
            written = written_alike(mine[0][new], theirs[0].tolist() if _may_match(mine[0][new], theirs[0]) else ())
            changes = written != mine[0][new].tolist()
            ids.append(_replaced(mine[0], new, written) if changes else mine[0])
            changed |= changes
        features = (
            self.features if other.features is None or self.features is None else self.features.like(other.features)
        )
        if not changed and features is self.features:
            return self
        src, dst = ids[0][self.codes[0]], ids[-1][self.codes[1] - (len(ids[0]) if len(ids) == 2 else 0)]
        columns = as_ids(src, "src"), as_ids(dst, "dst")
        return EdgeTable(*columns, self.ticks, self.unit, self.weight, features, self.bipartite)

    def positions_of(self, other: EdgeTable) -> NDArray[np.int32]:
        """Position of each node of another table in the `node_ids` of this table, -1 if it is not there."""
        found, start = [], 0
        for mine, theirs, side in zip(self.spaces, other.spaces, (0, 1), strict=False):
            codes = self._found(mine[0], theirs[0], side)
            found.append(np.where(codes >= 0, codes + start, -1).astype(np.int32))
            start += len(mine[0])
        return np.concatenate(found)

    def _found(self, mine: NDArray[Any], theirs: NDArray[Any], side: int) -> NDArray[np.int32]:
        if mine.dtype.kind != "i" or theirs.dtype.kind != "i":
            return positions(self._indices()[side], theirs)
        if not len(mine):
            return np.full(len(theirs), -1, np.int32)
        at = np.minimum(np.searchsorted(mine, theirs), len(mine) - 1)
        return np.where(mine[at] == theirs, at, -1).astype(np.int32)

    def _indices(self) -> list[dict[Hashable, int]]:
        with self._lock:
            if self._index is None:
                spaces = self.spaces
                self._index = [{value: k for k, value in enumerate(ids.tolist())} for ids, _, _ in spaces]
            return self._index

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name not in ("_lock", "_index")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _lock=threading.RLock(), _index=None)


def _may_match(ids: NDArray[Any], others: NDArray[Any]) -> bool:
    """Whether ids that are not equal may still mean the same; two integers may not."""
    return len(ids) > 0 and not (ids.dtype.kind == "i" and others.dtype.kind == "i")


def _replaced(ids: NDArray[Any], at: NDArray[np.int64], values: list[Any]) -> NDArray[Any]:
    replaced = ids.astype(object)
    for k, value in zip(at.tolist(), values, strict=True):
        replaced[k] = value
    return replaced


def _spaces(src: Column, dst: Column, bipartite: bool) -> list[Factors]:
    if not bipartite:
        return [factorise(src, dst)]
    src_space = factorise(src, src[:0])
    dst_ids, none, dst_code = factorise(dst[:0], dst)
    return [src_space, (dst_ids, none, dst_code + np.int32(len(src_space[0])))]
