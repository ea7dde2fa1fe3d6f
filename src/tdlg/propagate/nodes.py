"""NodeCodes: the nodes of a stream, by their ids."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tdlg.edges import TemporalEdges
from tdlg.tables.ids import id_key

__all__ = ["NodeCodes"]

Positions = NDArray[np.int64]

SRC, DST = 0, 1


class NodeCodes:
    """A code for each node: those of the fitted edges first, then in the order of arrival; free codes are used again.

    Ids are read as the model has them: 17, "17", "00017" and 17.0 are one node if the model has one of them, as in
    `TemporalEdges.with_ids_of`. The same holds for nodes that are new.

    Parameters
    ----------
    edges
        The fitted edges.

    Examples
    --------
    >>> nodes = NodeCodes(TemporalEdges([17], [3], [0]))
    >>> nodes.codes(["17", "new"], SRC).tolist(), nodes.id_of(2)
    ([1, 2], 'new')
    """

    def __init__(self, edges: TemporalEdges) -> None:
        ids = edges.node_ids.tolist()
        n_src = edges.n_src_nodes
        first = {value: code for code, value in enumerate(ids[:n_src])}
        second = first if n_src is None else {value: n_src + k for k, value in enumerate(ids[n_src:])}
        self._index = first, second
        self._alike: tuple[dict[Any, Hashable | None], ...] = tuple(_alike(index) for index in (first, second))
        self._ids: list[Any] = ids
        self._free: list[int] = []

    @property
    def n_codes(self) -> int:
        """The number of codes, used or not."""
        return len(self._ids)

    @property
    def n_nodes(self) -> int:
        """The number of nodes."""
        return len(self._ids) - len(self._free)

    def id_of(self, code: int) -> Any:
        """The id of a node."""
        return self._ids[code]

    def codes(self, ids: Iterable[Any], end: int) -> Positions:
        """The codes of sources (end 0) or destinations (end 1); new ones get a code."""
        index = self._index[end]
        return np.array([index[value] if value in index else self._new(value, end) for value in ids], np.int64)

    def find(self, value: Any, end: int) -> int | None:
        """The code of a node; None if it is not there."""
        index = self._index[end]
        return index[value] if value in index else self._found(value, end)

    def _found(self, value: Any, end: int) -> int | None:
        """The code of a node that is written differently; None if there is none, or more than one."""
        index, alike = self._index[end], self._alike[end]
        number = id_key(value)
        same = [index[number]] if number in index else []
        if number in alike:
            other = alike[number]
            same += [-1] if other is None else [index[other]]
        return same[0] if len(same) == 1 and same[0] >= 0 else None

    def _new(self, value: Any, end: int) -> int:
        found = self._found(value, end)
        if found is not None:
            return found
        if self._free:
            code = self._free.pop()
            self._ids[code] = value
        else:
            code = len(self._ids)
            self._ids.append(value)
        self._index[end][value] = code
        if id_key(value) != value:
            self._alike[end][id_key(value)] = value
        return code

    def forget(self, codes: Positions) -> None:
        """Forget nodes; their codes are given to new ones."""
        free = set(self._free)
        gone = [code for code in codes.tolist() if code not in free]
        for index, alike in zip(self._index, self._alike, strict=True):
            for code in gone:
                value = self._ids[code]
                if index.get(value) == code:
                    del index[value]
                    alike.pop(id_key(value), None)
        for code in gone:
            self._ids[code] = None
        self._free += gone

    def listed(self) -> tuple[list[Any], list[Any], list[int]]:
        """Ids and codes of the sources, then of the destinations (empty if both are one), and the free codes."""
        first, second = self._index
        sides = [[[value, code] for value, code in index.items()] for index in (first, second)]
        return sides[0], ([] if first is second else sides[1]), list(self._free)

    def restore(self, first: list[Any], second: list[Any], free: list[int]) -> None:
        """Take over what `listed` returned."""
        is_one = self._index[SRC] is self._index[DST]
        indices = [{value: code for value, code in side} for side in (first, second)]
        self._index = (indices[0], indices[0] if is_one else indices[1])
        self._alike = tuple(_alike(index) for index in self._index)
        self._free = list(free)
        self._ids = [None] * (sum(map(len, indices)) + len(free))
        for index in indices:
            for value, code in index.items():
                self._ids[code] = value


def _alike(index: dict[Hashable, int]) -> dict[Any, Hashable | None]:
    """The id that means a number or a text in another form; None if there are several."""
    alike: dict[Any, Hashable | None] = {}
    for value in index:
        number = id_key(value)
        if number != value:
            alike[number] = None if number in alike else value
    return alike
