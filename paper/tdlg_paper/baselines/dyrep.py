"""DyRep: a memory per node that changes with each of its edges, learnt from the intensity of a point process."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from tdlg.checks import as_generator, check_count, check_number
from tdlg_paper.baselines.node_vectors import Callback, NodeVectorMethod, Operator
from tdlg_paper.baselines.snapshots import Snapshots
from tdlg_paper.baselines.torch_parts import Tensor, Vectors, Weights, load_torch, one_thread, train, unit_scaled

__all__ = ["Batch", "DyRep", "event_batches"]

Positions = NDArray[np.int64]

N_NEIGHBOURS = 10  # latest neighbours that a node is described by
N_OTHERS = 5  # sampled nodes per event and end, for edges that did not happen
BATCHES_PER_STEP = 5
FIRST_SCALE = 0.1  # standard deviation of the entries of the memories before the first event, and of the nodes' rows


class DyRep(NodeVectorMethod):
    """A temporal point process of the edges, whose intensity depends on a memory of each node.

    The intensity of an edge between u and v is b log(1 + exp(g / b)), with a learnt score g of the memories of both nodes
    and a learnt b. After the edge, the memory of u becomes tanh of a linear function of three things: the memory of u, the
    time since its last edge, and a description of the latest neighbours of v, of which the largest values count; and the
    same for v (Trivedi et al., "DyRep: Learning Representations over Dynamic Graphs", ICLR 2019). The loss is minus the log
    of the intensities of the edges, plus the intensities of edges that did not happen, with sampled nodes.

    What the original leaves open, or is changed: the vectors of a snapshot are the memories at its end, and a node has a
    zero vector before its first edge. All edges are of one kind. The last 10 neighbours of a node count the same, without
    attention. A neighbour is described by its memory and by a learnt row of its own: nodes have no features here, and
    from random memories alone, the nodes would become more and more alike. The score has the product of the memories, entry
    by entry, beside their concatenation, as a sum over nodes cannot tell which nodes belong together. The time since the
    last edge is the log of 1 + its ratio to the mean. Edges are taken in batches: within one, all see the memories before
    it, and the last edge of a node sets its memory. Gradients go back five batches. In the end, all vectors are scaled by
    one number, so that the mean square of their entries is 1.

    Parameters
    ----------
    n_components
        The length of the memory.
    batch_size
        The largest number of edges in a batch; a batch ends with its snapshot.
    epochs
        How often the edges are gone through, in the order of time.
    learning_rate
        The learning rate of Adam.
    n_snapshots, operator, class_weight
        The same as for `NodeVectorMethod`.
    random_state
        Seed for the initial weights and memories, and for the edges that did not happen.
    """

    name: ClassVar[str] = "DyRep"

    def __init__(
        self,
        n_components: int = 128,
        *,
        batch_size: int = 200,
        epochs: int = 50,
        learning_rate: float = 0.001,
        n_snapshots: int = 20,
        operator: Operator = "hadamard",
        class_weight: Literal["balanced"] | None = "balanced",
        random_state: Any = None,
    ) -> None:
        self.n_components = n_components
        self.batch_size = batch_size
        self.epochs = epochs
        self.learning_rate = learning_rate
        self.n_snapshots = n_snapshots
        self.operator = operator
        self.class_weight = class_weight
        self.random_state = random_state

    def _embed(self, snapshots: Snapshots, callback: Callback) -> Vectors:
        for name in ("n_components", "batch_size", "epochs"):
            check_count("DyRep", name, getattr(self, name), 1)
        check_number("DyRep", "learning_rate", self.learning_rate)
        rng = as_generator(self.random_state)
        batches, weights = event_batches(snapshots, self.batch_size), Weights(rng)
        with one_thread():
            process = _Process(snapshots.n_nodes, self.n_components, weights, rng)
            train(
                lambda: process.losses(batches),
                weights,
                epochs=self.epochs,
                learning_rate=self.learning_rate,
                callback=callback,
            )
            return unit_scaled(process.vectors(batches, self.n_snapshots))


# ---- events


@dataclass(frozen=True, eq=False)
class Batch:
    """Consecutive events, as tensors.

    Attributes
    ----------
    snapshot
        The snapshot of all events.
    ends
        Numbers of the two nodes of each event, shape (n_events, 2).
    changed
        Numbers of the nodes whose memory changes, each once, shape (n_changed,). Only the last event of each counts.
    neighbours
        Numbers of the latest neighbours that the partner in this event had before it, -1 for none; shape (n_changed, 10).
    gap
        The time from the node's event before to this one, on a log scale, 0 if there is none; shape (n_changed, 1).
    """

    snapshot: int
    ends: Tensor
    changed: Tensor
    neighbours: Tensor
    gap: Tensor


def event_batches(snapshots: Snapshots, batch_size: int) -> list[Batch]:
    """The edges in the order of time, in batches that do not cross the end of a snapshot.

    Parameters
    ----------
    snapshots
        The edges.
    batch_size
        The largest number of edges in a batch.
    """
    order = np.argsort(snapshots.edges.ticks, kind="stable")
    ends = np.column_stack([snapshots.src, snapshots.dst])[order].astype(np.int64)
    neighbours, gap = _before(ends, snapshots.edges.ticks[order])
    index = snapshots.index[order]
    cuts = np.union1d(np.arange(batch_size, len(ends), batch_size), np.flatnonzero(np.diff(index)) + 1)
    parts = (np.split(column, cuts) for column in (index, ends, neighbours, gap))
    return [_batch(int(index[0]), *columns) for index, *columns in zip(*parts, strict=True)]


def _before(ends: Positions, ticks: NDArray[Any]) -> tuple[Positions, NDArray[np.float32]]:
    """The latest neighbours of each end before each event, (n_events, 2, 10), and the time since its last event."""
    node, partner, time = ends.ravel(), ends[:, ::-1].ravel(), np.repeat(ticks.astype(np.float64), 2)
    by_node = np.argsort(node, kind="stable")
    place = np.empty_like(by_node)
    place[by_node] = np.arange(len(node))
    first = np.searchsorted(node[by_node], node)  # the place of the node's first event
    back = place[:, np.newaxis] - 1 - np.arange(N_NEIGHBOURS)
    is_there = back >= first[:, np.newaxis]
    at = by_node[np.maximum(back, 0)]
    gap = np.where(is_there[:, 0], time - time[at[:, 0]], 0.0)
    scaled = np.log1p(gap / (gap.mean() or 1.0)).astype(np.float32)
    return np.where(is_there, partner[at], -1).reshape(*ends.shape, -1), scaled.reshape(ends.shape)


def _batch(snapshot: int, ends: Positions, neighbours: Positions, gap: NDArray[np.float32]) -> Batch:
    tensor = load_torch().from_numpy
    changed, from_end = np.unique(ends.ravel()[::-1], return_index=True)
    event, side = divmod(ends.size - 1 - from_end, 2)
    of_partner = neighbours[event, 1 - side]
    return Batch(snapshot, tensor(ends), tensor(changed), tensor(of_partner), tensor(gap[event, side][:, np.newaxis]))


# ---- the point process


class _Process:
    """The weights of the intensity and of the memory; memories have the shape (n_nodes, n_components)."""

    def __init__(self, n_nodes: int, n_components: int, weights: Weights, rng: np.random.Generator) -> None:
        size = n_components
        self._rng = rng
        first = rng.normal(scale=FIRST_SCALE, size=(n_nodes, size))
        self._first = load_torch().from_numpy(first.astype(np.float32))
        self._of_src, self._of_dst = weights.glorot(size, 1), weights.glorot(size, 1)
        self._of_product = weights.learn(np.full((size, 1), size**-0.5))
        self._log_softness = weights.full(1, 0.0)
        self._of_neighbours, self._neighbour_bias = weights.glorot(size, size), weights.full(size, 0.0)
        self._of_structure, self._of_memory = weights.glorot(size, size), weights.glorot(size, size)
        self._rows = weights.learn(rng.normal(scale=FIRST_SCALE, size=(n_nodes, size)))
        self._of_gap, self._bias = weights.full(size, 0.0), weights.full(size, 0.0)

    def losses(self, batches: list[Batch]) -> Iterator[Tensor]:
        """The mean loss per event of each five batches."""
        memory = self._first
        for start in range(0, len(batches), BATCHES_PER_STEP):
            together = batches[start : start + BATCHES_PER_STEP]
            losses = []
            for batch in together:
                losses.append(self._loss(batch, memory))
                memory = memory.index_copy(0, batch.changed, self._updates(batch, memory))
            yield sum(losses) / sum(len(batch.ends) for batch in together)
            memory = memory.detach()

    def vectors(self, batches: list[Batch], n_snapshots: int) -> Vectors:
        """The memories at the end of each snapshot."""
        torch = load_torch()
        memory, is_known = self._first.clone(), torch.zeros(len(self._first), 1)
        vectors = np.empty((n_snapshots, *self._first.shape), np.float32)
        with torch.no_grad():
            for snapshot, out in enumerate(vectors):
                for batch in (batch for batch in batches if batch.snapshot == snapshot):
                    memory[batch.changed] = self._updates(batch, memory)
                    is_known[batch.changed] = 1.0
                out[:] = (memory * is_known).numpy()
        return vectors

    def _loss(self, batch: Batch, memory: Tensor) -> Tensor:
        """Minus the log of the intensities of the events, plus those of edges that did not happen: the sum over events."""
        src, dst = memory[batch.ends].unbind(dim=1)
        sampled = self._rng.integers(0, len(memory), (2, len(src), N_OTHERS))
        other_src, other_dst = memory[load_torch().from_numpy(sampled)]
        did_not = self._intensity(src[:, None], other_dst) + self._intensity(other_src, dst[:, None])
        return did_not.mean(dim=1).sum() - self._intensity(src, dst).log().sum()

    def _intensity(self, src: Tensor, dst: Tensor) -> Tensor:
        score = src @ self._of_src + dst @ self._of_dst + (src * dst) @ self._of_product
        softness = self._log_softness.exp()
        return softness * load_torch().nn.functional.softplus(score[..., 0] / softness)

    def _updates(self, batch: Batch, memory: Tensor) -> Tensor:
        """The new memories of the nodes that change."""
        neighbours = batch.neighbours.clamp(min=0)
        described = (memory[neighbours] @ self._of_neighbours + self._rows[neighbours] + self._neighbour_bias).sigmoid()
        structure = (described * (batch.neighbours >= 0)[..., None]).amax(dim=1)  # 0 without neighbours
        own = memory[batch.changed] @ self._of_memory
        return (structure @ self._of_structure + own + batch.gap * self._of_gap + self._bias).tanh()
