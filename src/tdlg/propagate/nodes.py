"""NodeCodes: the nodes of a stream, by their ids."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tdlg._kernels import DST, SRC
from tdlg.edges import TemporalEdges
from tdlg.tables.ids import id_key

__all__ = ["DST", "SRC", "NodeCodes"]

Positions = NDArray[np.int64]


class NodeCodes:
    """A code for each node: those of the fitted edges first, then in the order of arrival; free codes are used again.

    Ids are compared by `tdlg.tables.ids.id_key`: 17, 17.0 and "17" are one node, "017" is another.
    """

    def __init__(self, edges: TemporalEdges) -> None:
        self._ids: list[Any] = edges.node_ids.tolist()  # by code, as first written; None where a code is free
        self._free: list[int] = []
        n_src = edges.n_src_nodes
        sources: dict[Hashable, int] = {}
        self._codes = sources, (sources if n_src is None else {})  # by key, of sources and of destinations
        for code, id in enumerate(self._ids):
            self._codes[SRC if n_src is None or code < n_src else DST].setdefault(id_key(id), code)

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
        codes, found = self._codes[end], []
        for id in ids:
            key = id_key(id)
            code = codes.get(key)
            if code is None:
                code = codes[key] = self._free.pop() if self._free else len(self._ids)
                if code == len(self._ids):
                    self._ids.append(id)
                else:
                    self._ids[code] = id
            found.append(code)
        return np.array(found, np.int64)

    def find(self, id: Any, end: int) -> int | None:
        """The code of a node; None if it is not there."""
        return self._codes[end].get(id_key(id))

    @contextmanager
    def borrowed(self) -> Iterator[None]:
        """Take back the codes of all nodes that are added inside."""
        n, free, sizes = len(self._ids), list(self._free), [len(codes) for codes in self._codes]
        try:
            yield
        finally:
            for codes, size in zip(self._codes, sizes, strict=True):
                while len(codes) > size:
                    self._ids[codes.popitem()[1]] = None
            del self._ids[n:]
            self._free = free

    def forget(self, codes: Positions) -> None:
        """Forget nodes; their codes are given to new ones."""
        free = set(self._free)
        for code in codes.tolist():
            if code in free:
                continue
            key = id_key(self._ids[code])
            for of_end in self._codes:
                if of_end.get(key) == code:
                    del of_end[key]
            self._ids[code] = None
            self._free.append(code)

    def listed(self) -> tuple[list[Any], list[Any], list[int]]:
        """Ids and codes of the sources, then of the destinations (empty if both are one), and the free codes."""
        sources, destinations = self._codes
        sides = [[[self._ids[code], code] for code in codes.values()] for codes in self._codes]
        return sides[0], ([] if sources is destinations else sides[1]), list(self._free)

    def restore(self, sources: list[Any], destinations: list[Any], free: list[int]) -> None:
        """Take over what `listed` returned."""
        self._free = list(free)
        used = [*sources, *destinations]
        self._ids = [None] * (1 + max([-1, *free, *(code for _, code in used)]))
        for id, code in used:
            self._ids[code] = id
        of_sources = {id_key(id): code for id, code in sources}
        is_one = self._codes[SRC] is self._codes[DST]
        self._codes = of_sources, (of_sources if is_one else {id_key(id): code for id, code in destinations})
