"""VGRNN: a variational graph autoencoder in each snapshot, with a recurrent state that its prior depends on."""

from __future__ import annotations

from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tdlg.checks import check_count
from tdlg_paper.baselines.node_vectors import Operator
from tdlg_paper.baselines.recurrent import Network, RecurrentMethod, State
from tdlg_paper.baselines.torch_parts import ActiveGraph, GatedUnit, Tensor, Weights, load_torch

__all__ = ["VGRNN", "Normal", "divergence", "link_loss"]

Positions = NDArray[np.int64]

TINY = 1e-10  # added to standard deviations
PAIRS_PER_NODE = 10  # sampled for the decoder, per snapshot and epoch


class VGRNN(RecurrentMethod):
    """A variational graph autoencoder per snapshot; its prior, its encoder and a recurrent state depend on each other.

    In each snapshot, the encoder, two graph convolutions, gives every node a normal distribution from its learnt row and
    its recurrent state; the prior distribution comes from the state alone. A sample z of each node then enters the
    state, through a gated unit with graph convolutions (Hajiramezanali et al., "Variational Graph Recurrent Neural
    Networks", NeurIPS 2019). The loss is the divergence of the two distributions plus the cross-entropy of the edges,
    which are decoded as the sigmoid of z_i z_j. The vector of a node is the mean that the encoder gives it.

    What the original leaves open, or is changed: the decoder is evaluated on all edges and on 10 sampled pairs per node
    without an edge, both counting the same as in the original's weighted sum over all pairs, so that no matrix of all
    pairs is formed. Self-loops in the convolutions have weight 1, not 2. A node without an edge in a snapshot keeps its
    state and its vector, and has a zero vector before its first edge. In the end, all vectors are scaled by one number,
    so that the mean square of their entries is 1.

    Parameters
    ----------
    n_components
        The length of the vectors.
    hidden
        The length of the hidden vectors and of the state: 128 by default, between the 32 of the original and the 500 of
        the published settings of the comparison, which take four times as long.
    epochs, learning_rate, window
        The same as for `RecurrentMethod`. The learning rate is larger than in the published settings, since there are few
        steps: one per window of 5 snapshots.
    n_snapshots, operator, class_weight
        The same as for `NodeVectorMethod`.
    random_state
        Seed for the initial weights and for all samples.
    """

    name: ClassVar[str] = "VGRNN"

    def __init__(
        self,
        n_components: int = 128,
        *,
        hidden: int = 128,
        epochs: int = 50,
        learning_rate: float = 0.01,
        window: int = 5,
        n_snapshots: int = 20,
        operator: Operator = "hadamard",
        class_weight: Literal["balanced"] | None = "balanced",
        random_state: Any = None,
    ) -> None:
        self.n_components = n_components
        self.hidden = hidden
        self.epochs = epochs
        self.learning_rate = learning_rate
        self.window = window
        self.n_snapshots = n_snapshots
        self.operator = operator
        self.class_weight = class_weight
        self.random_state = random_state

    def _check(self) -> None:
        super()._check()
        check_count("VGRNN", "hidden", self.hidden, 1)

    def _network(self, n_nodes: int, weights: Weights, rng: np.random.Generator) -> Network:
        return _VariationalNetwork(n_nodes, self.hidden, self.n_components, weights, rng)


class Normal(NamedTuple):
    """Independent normal distributions, one per node and component: shape (n_active, n_components) each."""

    mean: Tensor
    std: Tensor


class _VariationalNetwork(Network):
    """Encoder, prior and recurrent unit; the state is that of the unit of each node, and its latest vector."""

    def __init__(
        self, n_nodes: int, hidden: int, n_components: int, weights: Weights, rng: np.random.Generator
    ) -> None:
        self._rng = rng
        self._shapes = (n_nodes, hidden), (n_nodes, n_components)
        self._of_nodes = weights.glorot(n_nodes, hidden)
        self._prior = weights.glorot(hidden, hidden), weights.glorot(hidden, 2 * n_components)
        self._encoder = weights.glorot(2 * hidden, hidden), weights.glorot(hidden, 2 * n_components)
        self._of_samples = weights.glorot(n_components, hidden)
        self._unit = GatedUnit(weights, 2 * hidden, hidden)

    def start(self) -> State:
        return tuple(map(load_torch().zeros, self._shapes))

    def loss(self, graph: ActiveGraph, state: State) -> tuple[Tensor, State]:
        prior, encoded = self._distributions(graph, state[0][graph.index])
        noise = self._rng.standard_normal(tuple(encoded.mean.shape), np.float32)
        z = encoded.mean + encoded.std * load_torch().from_numpy(noise)
        # as in the original, each node's share of the divergence is divided by the number of nodes once more
        loss = link_loss(z, graph, PAIRS_PER_NODE, self._rng) + divergence(encoded, prior) / len(z)
        return loss, self._after(graph, state, z, encoded.mean)

    def vectors(self, graph: ActiveGraph, state: State) -> tuple[Tensor, State]:
        _, encoded = self._distributions(graph, state[0][graph.index])
        state = self._after(graph, state, encoded.mean, encoded.mean)
        return state[1], state

    def _distributions(self, graph: ActiveGraph, units: Tensor) -> tuple[Normal, Normal]:
        """The prior and the encoder's distribution of the active nodes."""
        x = load_torch().hstack([self._rows(graph), units])
        first, second = self._encoder
        hidden = (graph.convolution @ (x @ first)).relu()
        prior = (units @ self._prior[0]).relu() @ self._prior[1]
        return _as_normal(prior), _as_normal(graph.convolution @ (hidden @ second))

    def _after(self, graph: ActiveGraph, state: State, z: Tensor, vectors: Tensor) -> State:
        """The state after a snapshot in which the active nodes have the samples z."""
        x = load_torch().hstack([self._rows(graph), (z @ self._of_samples).relu()])
        units = self._unit(x, state[0][graph.index], lambda rows: graph.convolution @ rows)
        return state[0].index_copy(0, graph.index, units), state[1].index_copy(0, graph.index, vectors)

    def _rows(self, graph: ActiveGraph) -> Tensor:
        return self._of_nodes[graph.index].relu()


def _as_normal(columns: Tensor) -> Normal:
    mean, std = columns.chunk(2, dim=1)
    return Normal(mean, load_torch().nn.functional.softplus(std) + TINY)


def divergence(encoded: Normal, prior: Normal) -> Tensor:
    """The Kullback-Leibler divergence of the prior from the encoder's distribution: the mean over nodes.

    Parameters
    ----------
    encoded, prior
        The two distributions of each node.
    """
    distance = (encoded.std**2 + (encoded.mean - prior.mean) ** 2) / prior.std**2
    of_components = prior.std.log() - encoded.std.log() + (distance - 1) / 2
    return of_components.sum(dim=1).mean()


def link_loss(z: Tensor, graph: ActiveGraph, n_pairs: int, rng: np.random.Generator) -> Tensor:
    """The mean of -log s(z_i z_j) over all edges, plus that of -log s(-z_i z_j) over sampled pairs without an edge.

    Parameters
    ----------
    z
        Vectors of the active nodes, shape (n_active, n_components); s is the sigmoid.
    graph
        The graph of the snapshot.
    n_pairs
        The number of pairs that are sampled per node. Pairs with an edge, and a node with itself, are left out.
    rng
        The source of the pairs.
    """
    torch = load_torch()
    log_sigmoid = torch.nn.functional.logsigmoid
    i, j = map(torch.from_numpy, _edges(graph))
    loss = -log_sigmoid((z[i] * z[j]).sum(dim=1)).mean()
    i, j = map(torch.from_numpy, _pairs_apart(graph, n_pairs * len(graph.nodes), rng))
    return loss - log_sigmoid(-(z[i] * z[j]).sum(dim=1)).mean() if len(i) else loss


def _edges(graph: ActiveGraph) -> tuple[Positions, Positions]:
    row, column = graph.adjacency.tocoo().coords
    return row.astype(np.int64), column.astype(np.int64)


def _pairs_apart(graph: ActiveGraph, n_pairs: int, rng: np.random.Generator) -> tuple[Positions, Positions]:
    """Random pairs, of which those with an edge, and those of a node with itself, are left out."""
    n_nodes = len(graph.nodes)
    i, j = rng.integers(0, n_nodes, (2, n_pairs))
    row, column = _edges(graph)
    is_apart = ~np.isin(i * n_nodes + j, row * n_nodes + column) & (i != j)
    return i[is_apart], j[is_apart]
