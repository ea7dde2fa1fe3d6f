"""The last labelled edges of each node, for the columns about both ends together."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tdlg.propagate.saved import SavedArrays
from tdlg.propagate.state import grown

__all__ = ["Rings"]

Positions = NDArray[np.int64]

SIZE = 32  # labelled edges per ring, as in `_kernels.two_ends`
FIRST_NODES, FIRST_RINGS = 1024, 64
BOTH = np.array([0, 1])  # ends
PER_RING = ("n_edges", "other", "known", "residual")


class Rings:
    """Per node and end, its last labelled edges: other end, time known and residuals, the oldest first.

    Parameters
    ----------
    n_targets
        The number of residuals per edge.
    dtype
        Type of the ticks.
    """

    def __init__(self, n_targets: int, dtype: np.dtype[Any]) -> None:
        self.n = 0
        self.of_node = np.full((FIRST_NODES, 2), -1, np.int32)
        self.n_edges = np.zeros(FIRST_RINGS, np.int64)
        self.other = np.zeros((FIRST_RINGS, SIZE), np.int32)
        self.known = np.zeros((FIRST_RINGS, SIZE), dtype)
        self.residual = np.zeros((FIRST_RINGS, SIZE, n_targets))

    @property
    def arrays(self) -> tuple[NDArray[Any], ...]:
        """What the kernels take."""
        return self.of_node, self.n_edges, self.other, self.known, self.residual

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        return sum(array.nbytes for array in self.arrays)

    def make_room(self, n_nodes: int) -> None:
        """Be ready for nodes with codes below this number."""
        size = _doubled(len(self.of_node), n_nodes)
        if size > len(self.of_node):
            self.of_node = grown(self.of_node, size, -1)

    def add(self, nodes: Positions) -> None:
        """Give the sources (column 0) and destinations (1) of labelled edges a ring each, if they have none."""
        lacks = self.of_node[nodes, BOTH] < 0
        if not lacks.any():
            return
        for end in (0, 1):
            new = np.unique(nodes[lacks[:, end], end])
            self._reserve(len(new))
            self.of_node[new, end] = np.arange(self.n, self.n + len(new))
            self.n += len(new)

    def _reserve(self, n_more: int) -> None:
        size = _doubled(len(self.n_edges), self.n + n_more)
        if size > len(self.n_edges):
            for name in PER_RING:
                setattr(self, name, grown(getattr(self, name), size))

    def forget(self, nodes: Positions) -> None:
        """Forget nodes: their rings, and their edges in the rings of others."""
        gone = np.zeros(len(self.of_node), bool)
        gone[nodes] = True
        kept = np.flatnonzero(~gone)
        order = np.unique(self.of_node[kept])
        order = order[order >= 0]
        number = np.full(self.n + 1, -1, np.int32)
        number[order] = np.arange(len(order))
        self.of_node = np.where(gone[:, np.newaxis], -1, number[self.of_node]).astype(np.int32)
        old = {name: getattr(self, name)[order] for name in PER_RING}
        for ring in np.flatnonzero(
            (gone[old["other"]] & (np.arange(SIZE) < old["n_edges"][:, np.newaxis])).any(axis=1)
        ):
            n = int(old["n_edges"][ring])
            stay = np.flatnonzero(~gone[old["other"][ring, :n]])
            for name in ("other", "known", "residual"):
                old[name][ring, : len(stay)] = old[name][ring, stay]
            old["n_edges"][ring] = len(stay)
        self._take(len(order), old)

    def saved(self, nodes: Positions) -> tuple[Positions, tuple[NDArray[Any], ...]]:
        """What the rings of the sources (column 0) and destinations (1) of some edges have, for `put_back`."""
        rings = np.unique(self.of_node[nodes, BOTH].astype(np.int64))
        rings = rings[rings >= 0]
        return rings, (self.n_edges[rings], self.other[rings], self.known[rings], self.residual[rings])

    def put_back(self, rings: Positions, saved: tuple[NDArray[Any], ...]) -> None:
        """Undo changes."""
        self.n_edges[rings], self.other[rings], self.known[rings], self.residual[rings] = saved

    def state(self) -> dict[str, NDArray[Any]]:
        """All that is needed to go on, as arrays, which are not copied."""
        return {"of_node": self.of_node, **{name: getattr(self, name)[: self.n] for name in PER_RING}}

    def restore(self, state: SavedArrays) -> None:
        """Take over what `state` returned."""
        self.of_node = state["of_node"].copy()
        self._take(len(state["n_edges"]), {name: state[name] for name in PER_RING})

    def _take(self, n: int, arrays: dict[str, NDArray[Any]]) -> None:
        """Have these rings and no others."""
        self.n, size = n, _doubled(FIRST_RINGS, n)
        for name, array in arrays.items():
            setattr(self, name, grown(array, size))


def _doubled(size: int, needed: int) -> int:
    """A size, doubled until it is large enough."""
    while size < needed:
        size *= 2
    return size
