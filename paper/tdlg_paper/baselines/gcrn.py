"""GCRN: a graph convolutional network in each snapshot, and a gated recurrent unit per node over the snapshots."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import numpy as np

from tdlg.checks import check_count
from tdlg_paper.baselines.node_vectors import Operator
from tdlg_paper.baselines.recurrent import Network, RecurrentMethod, State
from tdlg_paper.baselines.torch_parts import ActiveGraph, GatedUnit, Tensor, Weights, load_torch, walk_loss

__all__ = ["GCRN"]

DROPOUT = 0.5


class GCRN(RecurrentMethod):
    """Graph convolutions in each snapshot, whose output for a node is the input of a gated recurrent unit over time.

    Two layers of convolutions with the normalised adjacency matrix start from a learnt row per node, that is from
    one-hot identities (Seo et al., "Structured Sequence Modeling with Graph Convolutional Recurrent Networks", 2018;
    this is their first model, with convolutions before the recurrent unit and not inside it). Their output is scaled to
    length 1. The vector of a node is the state of its recurrent unit after layer normalisation.

    What the original leaves open, or is changed: training is unsupervised, with a loss over random walks. The recurrent
    unit is gated (GRU), as in the published settings, not an LSTM. All snapshots share the weights of the convolutions,
    whereas the published settings have other weights for each, with a row per node and snapshot to learn. A node without
    an edge in a snapshot keeps its state and its vector, and has a zero vector before its first edge, so that the cost
    grows with the edges and not with nodes times snapshots. Dropout (0.5, after the first layer) is for training alone.
    In the end, all vectors are scaled by one number, so that the mean square of their entries is 1.

    Parameters
    ----------
    n_components
        The length of the vectors.
    hidden
        The length of the hidden vectors between the convolutions.
    epochs, learning_rate, window
        The same as for `RecurrentMethod`. The learning rate is larger than in the published settings, since there are few
        steps: one per window of 5 snapshots.
    n_snapshots, operator, class_weight
        The same as for `NodeVectorMethod`.
    random_state
        Seed for the initial weights, the dropout and the random walks.
    """

    name: ClassVar[str] = "GCRN"

    def __init__(
        self,
        n_components: int = 128,
        *,
        hidden: int = 500,
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
        check_count("GCRN", "hidden", self.hidden, 1)

    def _network(self, n_nodes: int, weights: Weights, rng: np.random.Generator) -> Network:
        return _ConvolvedUnits(n_nodes, self.hidden, self.n_components, weights, rng)


class _ConvolvedUnits(Network):
    """Convolutions, then recurrent units; the state is that of the unit of each node."""

    def __init__(
        self, n_nodes: int, hidden: int, n_components: int, weights: Weights, rng: np.random.Generator
    ) -> None:
        self._rng = rng
        self._shape = n_nodes, n_components
        self._of_nodes = weights.glorot(n_nodes, hidden)
        self._of_hidden = weights.glorot(hidden, n_components)
        self._unit = GatedUnit(weights, n_components, n_components)
        self._gain = weights.full(n_components, 1.0)
        self._shift = weights.full(n_components, 0.0)

    def start(self) -> State:
        return (load_torch().zeros(self._shape),)

    def loss(self, graph: ActiveGraph, state: State) -> tuple[Tensor, State]:
        state = self._run(graph, state, DROPOUT)
        return walk_loss(self._normalised(state[0][graph.index]), graph, self._rng), state

    def vectors(self, graph: ActiveGraph, state: State) -> tuple[Tensor, State]:
        state = self._run(graph, state, dropout=0.0)
        is_known = state[0].any(dim=1, keepdim=True)
        return self._normalised(state[0]) * is_known, state

    def _run(self, graph: ActiveGraph, state: State, dropout: float) -> State:
        hidden = (graph.convolution @ self._of_nodes[graph.index]).relu()
        if dropout:
            hidden = hidden * self._mask(tuple(hidden.shape), dropout)
        x = load_torch().nn.functional.normalize(graph.convolution @ (hidden @ self._of_hidden))
        units = self._unit(x, state[0][graph.index])
        return (state[0].index_copy(0, graph.index, units),)

    def _mask(self, shape: tuple[int, ...], dropout: float) -> Tensor:
        """A random matrix of 0, and of 1 / (1 - dropout) for entries that are kept; its mean is 1."""
        is_kept = self._rng.random(shape, np.float32) >= dropout
        return load_torch().from_numpy(is_kept.astype(np.float32) / np.float32(1 - dropout))

    def _normalised(self, units: Tensor) -> Tensor:
        return load_torch().nn.functional.layer_norm(units, self._shape[1:], self._gain, self._shift)
