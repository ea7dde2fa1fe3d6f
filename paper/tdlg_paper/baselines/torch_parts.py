"""What the deep methods share: graphs as tensors, weights, gated units, training, and a loss over random walks.

PyTorch is imported by the functions that need it, so that this module loads without it. All random numbers come from one
numpy Generator per method: PyTorch's own random state is neither read nor changed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, diags_array, eye_array

from tdlg_paper.baselines.node_vectors import Callback
from tdlg_paper.baselines.snapshots import Snapshots

__all__ = [
    "ActiveGraph",
    "GatedUnit",
    "Tensor",
    "Vectors",
    "Weights",
    "active_graphs",
    "load_torch",
    "one_thread",
    "sparse_tensor",
    "train",
    "unit_scaled",
    "walk_loss",
    "walk_pairs",
]

Positions = NDArray[np.int64]
Vectors = NDArray[np.float32]
Tensor = Any  # torch.Tensor, which mypy does not know where PyTorch is not installed

LARGEST_GRADIENT = 1.0  # the norm of all gradients together; longer ones are shortened
WALK_LENGTH = 5  # nodes
PAIRS_PER_NODE = 10  # per snapshot and epoch
SHARED_NEGATIVES = 256  # per snapshot and epoch


def load_torch() -> Any:
    """Import PyTorch, or say how to install it."""
    try:
        import torch
    except ImportError:
        raise ImportError('This method needs PyTorch. From a clone of tdlg, run: pip install "./paper[deep]"') from None
    return torch


@contextmanager
def one_thread() -> Iterator[None]:
    """Let PyTorch compute with one thread inside the block: the order of sums, and so the result, is always the same."""
    torch = load_torch()
    n_threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(n_threads)


def unit_scaled(vectors: Vectors) -> Vectors:
    """The vectors divided by one number, so that the mean square of their entries is 1; zero vectors do not count.

    The penalty of logistic regression depends on the scale of the features, which the losses of the methods leave open.

    Parameters
    ----------
    vectors
        Any number of vectors; the last axis holds their entries.
    """
    filled = vectors[vectors.any(axis=-1)]
    return vectors / np.sqrt(np.mean(filled**2)) if len(filled) else vectors


# ---- graphs


@dataclass(frozen=True, eq=False)
class ActiveGraph:
    """The nodes with an edge in one snapshot, and the graph of these nodes alone.

    Attributes
    ----------
    nodes
        Numbers of the nodes, ascending, shape (n_active,).
    adjacency
        The adjacency matrix between them, shape (n_active, n_active).
    """

    nodes: Positions
    adjacency: csr_array

    @cached_property
    def degree(self) -> Positions:
        """The number of neighbours of each node, at least 1, shape (n_active,)."""
        return np.diff(self.adjacency.indptr).astype(np.int64)

    @cached_property
    def index(self) -> Tensor:
        """The numbers of the nodes as a tensor."""
        return load_torch().from_numpy(self.nodes)

    @cached_property
    def convolution(self) -> Tensor:
        """D^-1/2 (A + I) D^-1/2, a sparse tensor; D is the diagonal matrix of the row sums of A + I."""
        with_loops = self.adjacency + eye_array(len(self.nodes), format="csr")
        scale = diags_array(1 / np.sqrt(with_loops.sum(axis=1)))
        return sparse_tensor(scale @ with_loops @ scale)


def active_graphs(snapshots: Snapshots) -> list[ActiveGraph]:
    """One graph per snapshot, in the order of time; a snapshot without edges has a graph without nodes."""
    graphs = []
    for adjacency in snapshots.adjacencies:
        nodes = np.flatnonzero(np.diff(adjacency.indptr)).astype(np.int64)
        graphs.append(ActiveGraph(nodes, adjacency[nodes][:, nodes].tocsr()))
    return graphs


def sparse_tensor(matrix: Any) -> Tensor:
    """A sparse matrix of scipy as a sparse tensor of 32-bit floats."""
    torch, matrix = load_torch(), matrix.tocoo()
    at = torch.from_numpy(np.vstack(matrix.coords).astype(np.int64))
    values = torch.from_numpy(matrix.data.astype(np.float32))
    return torch.sparse_coo_tensor(at, values, matrix.shape, check_invariants=False).coalesce()


# ---- weights, and how they are learnt


class Weights:
    """The tensors that a model learns, in the order in which they were made.

    Parameters
    ----------
    rng
        The source of the initial values.
    """

    def __init__(self, rng: np.random.Generator) -> None:
        self._rng = rng
        self.tensors: list[Tensor] = []

    def glorot(self, n_in: int, n_out: int) -> Tensor:
        """A matrix of shape (n_in, n_out), uniform between -b and b, b = sqrt(6 / (n_in + n_out))."""
        bound = np.sqrt(6 / (n_in + n_out))
        return self.learn(self._rng.uniform(-bound, bound, (n_in, n_out)))

    def full(self, size: int, value: float) -> Tensor:
        """A tensor of one dimension and equal values."""
        return self.learn(np.full(size, value))

    def learn(self, start: Any) -> Tensor:
        """A tensor with these initial values, an array or a tensor, which is not changed."""
        torch = load_torch()
        tensor = torch.as_tensor(start).detach().to(torch.float32, copy=True).requires_grad_()
        self.tensors.append(tensor)
        return tensor


def train(
    losses: Callable[[], Iterable[Tensor]], weights: Weights, *, epochs: int, learning_rate: float, callback: Callback
) -> bool:
    """Minimise losses with Adam, one step per loss.

    Parameters
    ----------
    losses
        Called once per epoch; each loss that it yields is minimised as it comes.
    weights
        The weights to learn.
    epochs
        The number of epochs.
    learning_rate
        The learning rate of Adam.
    callback
        Called with (done, total) after each epoch; training stops if it returns True.

    Returns
    -------
    bool
        Whether the callback stopped training.
    """
    torch = load_torch()
    optimizer = torch.optim.Adam(weights.tensors, lr=learning_rate, fused=True)
    for epoch in range(epochs):
        for loss in losses():
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(weights.tensors, LARGEST_GRADIENT)
            optimizer.step()
        if callback(epoch + 1, epochs):
            return True
    return False


class GatedUnit:
    """A gated recurrent unit: the state h, shape (n, n_out), after an input x, shape (n, n_in).

    With r and u, two gates between 0 and 1, the new state is u * h + (1 - u) * tanh(x W + (r * h) V + b).

    Parameters
    ----------
    weights
        Where the weights of the unit are added.
    n_in, n_out
        The number of columns of the input and of the state.
    """

    def __init__(self, weights: Weights, n_in: int, n_out: int) -> None:
        self._of_input = weights.glorot(n_in, 3 * n_out)
        self._of_state = weights.glorot(n_out, 2 * n_out)
        self._of_reset = weights.glorot(n_out, n_out)
        self._bias = weights.full(3 * n_out, 0.0)
        self._n_out = n_out

    def __call__(self, x: Tensor, h: Tensor, mix: Callable[[Tensor], Tensor] = lambda rows: rows) -> Tensor:
        """The new state; `mix` is applied to every product with weights, for example a graph convolution."""
        of_input = mix(x @ self._of_input) + self._bias
        gates = (of_input[:, : -self._n_out] + mix(h @ self._of_state)).sigmoid()
        reset, update = gates.chunk(2, dim=1)
        candidate = (of_input[:, -self._n_out :] + mix((reset * h) @ self._of_reset)).tanh()
        return update * h + (1 - update) * candidate


# ---- a loss: nodes of the same random walks have similar vectors


def walk_pairs(graph: ActiveGraph, n_pairs: int, rng: np.random.Generator) -> tuple[Positions, Positions]:
    """Pairs of nodes of the same random walk of 5 nodes: its first node, and one of the 4 others.

    Parameters
    ----------
    graph
        The graph, with at least one edge.
    n_pairs
        The number of walks that start in each node.
    rng
        The source of the walks.

    Returns
    -------
    first, other
        Positions in `graph.nodes`, shape (n_active * n_pairs,) each.
    """
    neighbours, start_of_row = graph.adjacency.indices, graph.adjacency.indptr[:-1]
    first = np.repeat(np.arange(len(graph.nodes)), n_pairs)
    n_steps = rng.integers(1, WALK_LENGTH, len(first))
    other = first.copy()
    for step in range(WALK_LENGTH - 1):
        walking = n_steps > step
        here = other[walking]
        chosen = (rng.random(len(here)) * graph.degree[here]).astype(np.int64)
        other[walking] = neighbours[start_of_row[here] + chosen]
    return first, other


def walk_loss(vectors: Tensor, graph: ActiveGraph, rng: np.random.Generator) -> Tensor:
    """Skip-gram with negative sampling: the mean of -log s(x_i x_j) plus the mean of -log s(-x_i x_k), s the sigmoid.

    The pairs (i, j) are nodes of the same random walk. The nodes k are sampled in proportion to degree**0.75, and are the
    same for every i, so that all their scores are one product of matrices. Both means count the same. With 20 times the
    weight for the second mean, as in the published settings, vectors shrink to zero where nodes are hard to tell apart.

    Parameters
    ----------
    vectors
        The vectors x of the active nodes, shape (n_active, n_components).
    graph
        The graph of the snapshot.
    rng
        The source of walks and of the nodes k.
    """
    torch = load_torch()
    first, other = map(torch.from_numpy, walk_pairs(graph, PAIRS_PER_NODE, rng))
    share = graph.degree**0.75
    negative = torch.from_numpy(rng.choice(len(share), SHARED_NEGATIVES, p=share / share.sum()))
    together = (vectors[first] * vectors[other]).sum(dim=1)
    apart = vectors @ vectors[negative].T
    log_sigmoid = torch.nn.functional.logsigmoid
    return -log_sigmoid(together).mean() - log_sigmoid(-apart).mean()
