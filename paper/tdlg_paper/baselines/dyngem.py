"""DynGEM: a deep autoencoder of the rows of the adjacency matrix, which goes on learning from snapshot to snapshot."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any, ClassVar, Literal

import numpy as np

from tdlg.checks import as_generator, check_count, check_number
from tdlg.exceptions import ParameterError
from tdlg_paper.baselines.node_vectors import Callback, NodeVectorMethod, Operator
from tdlg_paper.baselines.snapshots import Snapshots
from tdlg_paper.baselines.torch_parts import (
    ActiveGraph,
    Tensor,
    Vectors,
    Weights,
    active_graphs,
    load_torch,
    one_thread,
    sparse_tensor,
    train,
    unit_scaled,
)

__all__ = ["DynGEM", "neighbour_loss", "reconstruction_loss"]

BATCH = 512  # nodes per step
PENALTY = 1e-4  # of the absolute values and of the squares of the weights


class DynGEM(NodeVectorMethod):
    """A deep autoencoder of the rows of the adjacency matrix; each snapshot starts from the weights of the one before.

    The vector of a node is the code of its row. The loss is the squared error of the reconstructed rows, in which the
    entries of edges count `beta` times, plus `alpha` times the squared distances of the codes of neighbours, plus small
    penalties of the weights (Goyal et al., "DynGEM: Deep Embedding Method for Dynamic Graphs", 2018). All layers are
    rectified (ReLU), as in the published settings of the comparison.

    What the original leaves open, or is changed: a step reconstructs 512 nodes, and each node once per epoch, where the
    original takes batches of edges. Only nodes with an edge in the snapshot are rows and columns; the others would be
    zeros, and have the code of a row of zeros as their vector. Layers have the same sizes in all snapshots and do not
    grow: new nodes have had untrained weights until then. In the end, all vectors are scaled by one number, so that the
    mean square of their entries is 1.

    Parameters
    ----------
    n_components
        The length of the code.
    hidden
        The sizes of the layers between row and code; the decoder has them in reverse.
    alpha, beta
        The weight of the distances between neighbours, and that of the entries of edges.
    epochs
        How often all nodes of a snapshot are reconstructed. The callback counts equal shares of all work as epochs, since
        snapshots differ in size.
    learning_rate
        The learning rate of Adam.
    n_snapshots, operator, class_weight
        The same as for `NodeVectorMethod`.
    random_state
        Seed for the initial weights and the order of the nodes.
    """

    name: ClassVar[str] = "DynGEM"

    def __init__(
        self,
        n_components: int = 128,
        *,
        hidden: tuple[int, ...] = (500, 300),
        alpha: float = 1e-5,
        beta: float = 10.0,
        epochs: int = 50,
        learning_rate: float = 0.001,
        n_snapshots: int = 20,
        operator: Operator = "hadamard",
        class_weight: Literal["balanced"] | None = "balanced",
        random_state: Any = None,
    ) -> None:
        self.n_components = n_components
        self.hidden = hidden
        self.alpha = alpha
        self.beta = beta
        self.epochs = epochs
        self.learning_rate = learning_rate
        self.n_snapshots = n_snapshots
        self.operator = operator
        self.class_weight = class_weight
        self.random_state = random_state

    def _embed(self, snapshots: Snapshots, callback: Callback) -> Vectors:
        self._check()
        rng, graphs = as_generator(self.random_state), active_graphs(snapshots)
        vectors = np.empty((len(graphs), snapshots.n_nodes, self.n_components), np.float32)
        with one_thread():
            model = _Autoencoder.new((snapshots.n_nodes, *self.hidden, self.n_components), rng)
            progress = _Progress(callback, self.epochs, sum(map(self._work, graphs)))
            for graph, adjacency, out in zip(graphs, snapshots.adjacencies, vectors, strict=True):
                if len(graph.nodes) and not progress.is_stopped:
                    self._learn(model, graph, rng, progress)
                out[:] = model.encode(sparse_tensor(adjacency)).numpy()
        return unit_scaled(vectors)

    def _check(self) -> None:
        """Refuse invalid parameters."""
        check_count("DynGEM", "n_components", self.n_components, 1)
        check_count("DynGEM", "epochs", self.epochs, 1)
        if not isinstance(self.hidden, tuple | list):
            raise ParameterError(
                f"The 'hidden' parameter of DynGEM must be a tuple of sizes, such as (500, 300). Got {self.hidden!r}.",
                parameter="hidden",
            )
        for size in self.hidden:
            check_count("DynGEM", "hidden", size, 1)
        for name in ("alpha", "beta", "learning_rate"):
            check_number("DynGEM", name, getattr(self, name))

    def _work(self, graph: ActiveGraph) -> int:
        """The number of multiplications of an epoch, up to a factor."""
        sizes = len(graph.nodes), *self.hidden, self.n_components
        return len(graph.nodes) * sum(a * b for a, b in pairwise(sizes))

    def _learn(self, model: _Autoencoder, graph: ActiveGraph, rng: np.random.Generator, progress: _Progress) -> None:
        """Go on with the weights of the model, in this snapshot."""
        weights, work = Weights(rng), self._work(graph)
        part = model.part(graph.index, weights)
        train(
            lambda: self._losses(part, graph, rng),
            weights,
            epochs=self.epochs,
            learning_rate=self.learning_rate,
            callback=lambda *_: progress.add(work),
        )
        model.take(graph.index, part)

    def _losses(self, model: _Autoencoder, graph: ActiveGraph, rng: np.random.Generator) -> Iterator[Tensor]:
        torch, n_active = load_torch(), len(graph.nodes)
        order = rng.permutation(n_active)
        for batch in np.split(order, range(BATCH, n_active, BATCH)):
            rows = graph.adjacency[batch]
            x = torch.from_numpy(rows.toarray().astype(np.float32))
            codes = model.encode(sparse_tensor(rows))
            between = x[:, torch.from_numpy(batch)]
            of_neighbours = neighbour_loss(codes, between) * n_active / len(batch)  # as many as among all nodes
            error = reconstruction_loss(model.decode(codes), x, self.beta)
            yield error + self.alpha * of_neighbours + PENALTY * model.penalty()


def reconstruction_loss(reconstructed: Tensor, x: Tensor, beta: float) -> Tensor:
    """The squared error of rows of zeros and ones, in which the error of a one counts beta times: the mean over rows."""
    weighted = (reconstructed - x) * (1 + (beta - 1) * x)
    return weighted.square().sum(dim=1).mean()


def neighbour_loss(codes: Tensor, adjacency: Tensor) -> Tensor:
    """The sum of the squared distances of the codes y of a node's neighbours from its own: the mean over nodes.

    With symmetric A, the sum of A_ij |y_i - y_j|^2 over i and j is 2 (sum of degree_i |y_i|^2 - sum of y_i (A y)_i).

    Parameters
    ----------
    codes
        The codes, shape (n, n_components).
    adjacency
        The symmetric adjacency matrix A between these nodes, a dense tensor.
    """
    own = adjacency.sum(dim=1) @ codes.square().sum(dim=1)
    return 2 * (own - (codes * (adjacency @ codes)).sum()) / len(codes)


class _Autoencoder:
    """Weights and biases of the layers, from the row to the code and back."""

    def __init__(self, matrices: list[Tensor], biases: list[Tensor]) -> None:
        self._matrices = matrices
        self._biases = biases

    @classmethod
    def new(cls, sizes: tuple[int, ...], rng: np.random.Generator) -> _Autoencoder:
        """An untrained one; its sizes are those from the row to the code."""
        weights, both_ways = Weights(rng), (*sizes, *sizes[-2::-1])
        matrices = [weights.glorot(*pair).detach() for pair in pairwise(both_ways)]
        return cls(matrices, [weights.full(size, 0.0).detach() for size in both_ways[1:]])

    def part(self, nodes: Tensor, weights: Weights) -> _Autoencoder:
        """A copy to learn, for rows that have entries in the columns of these nodes alone."""
        first, *inner, last = self._matrices
        *biases, last_bias = self._biases
        matrices = [first[nodes], *inner, last[:, nodes]]
        return _Autoencoder(list(map(weights.learn, matrices)), list(map(weights.learn, [*biases, last_bias[nodes]])))

    def take(self, nodes: Tensor, part: _Autoencoder) -> None:
        """Set the weights to those of a part for these nodes."""
        matrices, biases = ([tensor.detach() for tensor in group] for group in (part._matrices, part._biases))
        self._matrices[0][nodes] = matrices[0]
        self._matrices[-1][:, nodes] = matrices[-1]
        self._biases[-1][nodes] = biases[-1]
        self._matrices[1:-1], self._biases[:-1] = matrices[1:-1], biases[:-1]

    def encode(self, x: Tensor) -> Tensor:
        """The codes of rows."""
        half = len(self._matrices) // 2
        return _rectified(x, self._matrices[:half], self._biases[:half])

    def decode(self, codes: Tensor) -> Tensor:
        """The rows of codes."""
        half = len(self._matrices) // 2
        return _rectified(codes, self._matrices[half:], self._biases[half:])

    def penalty(self) -> Tensor:
        """The sum of the absolute values and of the squares of the weights: the mean over layers."""
        return sum(matrix.abs().sum() + matrix.square().sum() for matrix in self._matrices) / len(self._matrices)


def _rectified(x: Tensor, matrices: list[Tensor], biases: list[Tensor]) -> Tensor:
    for matrix, bias in zip(matrices, biases, strict=True):
        x = (x @ matrix + bias).relu()
    return x


class _Progress:
    """Work of different sizes, reported as equal epochs."""

    def __init__(self, callback: Callback, epochs: int, work_per_epoch: int) -> None:
        self._callback = callback
        self._epochs = epochs
        self._work_per_epoch = work_per_epoch
        self._done = 0
        self.is_stopped = False

    def add(self, work: int) -> bool:
        """Count work, and report the epochs that it completed; whether to stop."""
        before, self._done = self._done, self._done + work
        epochs = self._done // self._work_per_epoch
        if epochs > before // self._work_per_epoch:
            self.is_stopped = bool(self._callback(epochs, self._epochs))
        return self.is_stopped
