"""RecurrentMethod: the base class of methods that run a neural network over the snapshots, in the order of time."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator

import numpy as np

from tdlg.checks import as_generator, check_count, check_number
from tdlg_paper.baselines.node_vectors import Callback, NodeVectorMethod
from tdlg_paper.baselines.snapshots import Snapshots
from tdlg_paper.baselines.torch_parts import (
    ActiveGraph,
    Tensor,
    Vectors,
    Weights,
    active_graphs,
    load_torch,
    one_thread,
    train,
    unit_scaled,
)

__all__ = ["Network", "RecurrentMethod", "State"]

State = tuple[Tensor, ...]


class Network(ABC):
    """A network with a state, which it carries from one snapshot to the next."""

    @abstractmethod
    def start(self) -> State:
        """The state before the first snapshot."""

    @abstractmethod
    def loss(self, graph: ActiveGraph, state: State) -> tuple[Tensor, State]:
        """The loss of a snapshot with at least one edge, and the state after it."""

    @abstractmethod
    def vectors(self, graph: ActiveGraph, state: State) -> tuple[Tensor, State]:
        """The vectors of all nodes in a snapshot with at least one edge, shape (n_nodes, n_components), and the state."""


class RecurrentMethod(NodeVectorMethod):
    """A method whose network runs over the snapshots in the order of time.

    A subclass implements `_network`, and its constructor stores the parameters below and those of `NodeVectorMethod`.
    Adam makes one step per window of snapshots, and gradients go back to the start of the window; the state is carried
    through all windows of an epoch. Snapshots without edges are left out; their vectors are those of the snapshot
    before.

    Attributes
    ----------
    n_components
        The length of the vectors.
    epochs
        How often the network runs over all snapshots.
    learning_rate
        The learning rate of Adam.
    window
        The number of snapshots per step.
    """

    n_components: int
    epochs: int
    learning_rate: float
    window: int

    @abstractmethod
    def _network(self, n_nodes: int, weights: Weights, rng: np.random.Generator) -> Network:
        """A new network, whose weights are added to `weights`."""

    def _embed(self, snapshots: Snapshots, callback: Callback) -> Vectors:
        self._check()
        rng = as_generator(self.random_state)
        graphs, weights = active_graphs(snapshots), Weights(rng)
        with one_thread():
            network = self._network(snapshots.n_nodes, weights, rng)
            train(
                lambda: _losses(network, graphs, self.window),
                weights,
                epochs=self.epochs,
                learning_rate=self.learning_rate,
                callback=callback,
            )
            return _vectors(network, graphs, (snapshots.n_nodes, self.n_components))

    def _check(self) -> None:
        """Refuse invalid parameters."""
        owner = type(self).__name__
        for name in ("n_components", "epochs", "window"):
            check_count(owner, name, getattr(self, name), 1)
        check_number(owner, "learning_rate", self.learning_rate)


def _losses(network: Network, graphs: list[ActiveGraph], window: int) -> Iterator[Tensor]:
    """The mean loss of each window."""
    filled = [graph for graph in graphs if len(graph.nodes)]
    state = network.start()
    for first in range(0, len(filled), window):
        losses = []
        for graph in filled[first : first + window]:
            loss, state = network.loss(graph, state)
            losses.append(loss)
        yield sum(losses) / len(losses)
        state = tuple(tensor.detach() for tensor in state)


def _vectors(network: Network, graphs: list[ActiveGraph], shape: tuple[int, int]) -> Vectors:
    """The vectors of all snapshots, shape (n_snapshots, n_nodes, n_components)."""
    torch = load_torch()
    latest, state, all_vectors = torch.zeros(shape), network.start(), []
    with torch.no_grad():
        for graph in graphs:
            if len(graph.nodes):
                latest, state = network.vectors(graph, state)
            all_vectors.append(latest.numpy())
    return unit_scaled(np.stack(all_vectors))
