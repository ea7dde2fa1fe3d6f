"""EvolveGCN: a graph convolutional network whose weights change from snapshot to snapshot."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from tdlg.checks import check_choice, check_number
from tdlg_paper.baselines.node_vectors import Operator
from tdlg_paper.baselines.recurrent import Network, RecurrentMethod, State
from tdlg_paper.baselines.torch_parts import ActiveGraph, GatedUnit, Tensor, Weights, load_torch, walk_loss

__all__ = ["EvolveGCN", "evolvegcn_o"]

Variant = Literal["H", "O"]

INPUT_COLUMNS = 64
SLOPE = 11 / 48  # for negative values: the mean of the original's random slope, between 1/8 and 1/3


class EvolveGCN(RecurrentMethod):
    """A graph convolutional network per snapshot, whose weights a gated recurrent unit carries on to the next snapshot.

    Two layers compute A X W in each snapshot, with the normalised adjacency matrix A (Pareja et al., "EvolveGCN:
    Evolving Graph Convolutional Networks for Dynamic Graphs", AAAI 2020). The weights W are the state of the unit. In
    variant H, its input is the rows of X with the highest scores, X p / |p| with a learnt p; in variant O, its input is
    W itself.

    What the original leaves open, or is changed: training is unsupervised, with a loss over random walks. The input of a
    node is its degree in the snapshot, in each of 64 columns, plus a little fixed noise: so it was in the paper's
    comparison, with more columns. The vectors therefore grow with the degree, and show who is active in a snapshot. The
    first layer has leaky rectified units with a fixed slope, the second is linear. Variant O has a gated unit as in the
    authors' code, not an LSTM as in their paper. A node without an edge in a snapshot has a zero vector in it. In the end,
    all vectors are scaled by one number, so that the mean square of their entries is 1.

    Parameters
    ----------
    n_components
        The length of the vectors, and of the hidden ones.
    variant
        "H" (default) or "O".
    noise
        The standard deviation of the noise in the input. With the default, that of the paper's comparison, nodes of the same
        degree with neighbours of the same degrees have the same vectors; with larger noise than degrees, vectors show
        communities.
    epochs, learning_rate, window
        The same as for `RecurrentMethod`. The learning rate is that of the paper's comparison.
    n_snapshots, operator, class_weight
        The same as for `NodeVectorMethod`.
    random_state
        Seed for the initial weights, the noise and the random walks.
    """

    name: ClassVar[str] = "EvolveGCN"

    def __init__(
        self,
        n_components: int = 128,
        *,
        variant: Variant = "H",
        noise: float = 1e-4,
        epochs: int = 50,
        learning_rate: float = 0.001,
        window: int = 5,
        n_snapshots: int = 20,
        operator: Operator = "hadamard",
        class_weight: Literal["balanced"] | None = "balanced",
        random_state: Any = None,
    ) -> None:
        self.n_components = n_components
        self.variant = variant
        self.noise = noise
        self.epochs = epochs
        self.learning_rate = learning_rate
        self.window = window
        self.n_snapshots = n_snapshots
        self.operator = operator
        self.class_weight = class_weight
        self.random_state = random_state

    def _check(self) -> None:
        super()._check()
        check_choice("EvolveGCN", "variant", self.variant, ("H", "O"))
        check_number("EvolveGCN", "noise", self.noise)

    def _network(self, n_nodes: int, weights: Weights, rng: np.random.Generator) -> Network:
        noise = rng.normal(scale=self.noise, size=(n_nodes, INPUT_COLUMNS))
        return _EvolvingNetwork(noise, self.n_components, self.variant, weights, rng)


def evolvegcn_o(**settings: Any) -> EvolveGCN:
    """`EvolveGCN` in the variant O."""
    return EvolveGCN(**{"variant": "O"} | settings)


class _EvolvingNetwork(Network):
    """Two evolving layers; the state is the weights of each."""

    def __init__(
        self,
        noise: NDArray[np.float64],
        n_components: int,
        variant: Variant,
        weights: Weights,
        rng: np.random.Generator,
    ) -> None:
        torch = load_torch()
        sizes = noise.shape[1], n_components, n_components
        self._rng = rng
        self._shape = len(noise), n_components
        self._noise = torch.from_numpy(noise.astype(np.float32))
        self._layers = [_EvolvingLayer(*pair, variant, weights) for pair in pairwise(sizes)]

    def start(self) -> State:
        return tuple(layer.start for layer in self._layers)

    def loss(self, graph: ActiveGraph, state: State) -> tuple[Tensor, State]:
        active, state = self._run(graph, state)
        return walk_loss(active, graph, self._rng), state

    def vectors(self, graph: ActiveGraph, state: State) -> tuple[Tensor, State]:
        active, state = self._run(graph, state)
        return load_torch().zeros(self._shape).index_copy(0, graph.index, active), state

    def _run(self, graph: ActiveGraph, state: State) -> tuple[Tensor, State]:
        """The vectors of the active nodes, and the weights of the snapshot."""
        first, second = self._layers
        x = self._input(graph)
        of_input = first.evolved(state[0], x)
        hidden = load_torch().nn.functional.leaky_relu(graph.convolution @ (x @ of_input), SLOPE)
        of_hidden = second.evolved(state[1], hidden)
        return graph.convolution @ (hidden @ of_hidden), (of_input, of_hidden)

    def _input(self, graph: ActiveGraph) -> Tensor:
        degree = load_torch().from_numpy(graph.degree.astype(np.float32))
        return degree[:, None] + self._noise[graph.index]


class _EvolvingLayer:
    """The weights of a layer before the first snapshot, and how they change; the unit works on their columns."""

    def __init__(self, n_in: int, n_out: int, variant: Variant, weights: Weights) -> None:
        self.start = weights.glorot(n_in, n_out)
        self._unit = GatedUnit(weights, n_in, n_in)
        self._direction: Tensor = weights.glorot(n_in, 1) if variant == "H" else None

    def evolved(self, current: Tensor, x: Tensor) -> Tensor:
        """The weights for a snapshot with the input x, from those of the snapshot before."""
        columns = current.T
        given = columns if self._direction is None else self._summary(x, len(columns))
        return self._unit(given, columns).T

    def _summary(self, x: Tensor, n_rows: int) -> Tensor:
        """The rows of x with the highest scores, times tanh of the score; zero rows where x has too few."""
        score = (x @ self._direction)[:, 0] / self._direction.norm()
        highest, at = score.topk(min(n_rows, len(x)))
        rows = x[at] * highest.tanh()[:, None]
        return load_torch().nn.functional.pad(rows, (0, 0, 0, n_rows - len(rows)))
