"""The networks of the deep methods, in PyTorch, and how they learn. Only `deep` imports this module."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse import csr_array, diags_array, eye_array
from torch import Tensor, nn
from torch.nn import functional

from tdlg.checks import as_generator
from tdlg_paper.baselines.deep import GCRN, VGRNN, DeepMethod, DyLink2Vec, DynGEM, DyRep, EvolveGCN, RecurrentMethod
from tdlg_paper.baselines.snapshots import Snapshots
from tdlg_paper.baselines.vectors import Callback, unit_scaled

__all__ = ["learn_code", "learn_vectors"]

Positions = NDArray[np.int64]
Vectors = NDArray[np.float32]
State = tuple[Tensor, ...]
Rng = np.random.Generator

LARGEST_GRADIENT = 1.0  # the norm of all gradients together; longer ones are shortened
WALK_LENGTH = 5  # nodes
PAIRS_PER_NODE = 10  # per snapshot and epoch
SHARED_NEGATIVES = 256  # per snapshot and epoch
DROPOUT = 0.5  # of GCRN
TINY = 1e-10  # added to standard deviations, of VGRNN
INPUT_COLUMNS = 64  # of EvolveGCN
SLOPE = 11 / 48  # of EvolveGCN for negative values: the mean of the original's random slope, between 1/8 and 1/3
BATCH = 512  # nodes or pairs per step, of DynGEM and DyLink2Vec
PENALTY = 1e-4  # of the absolute values and of the squares of the weights, of DynGEM
N_NEIGHBOURS = 10  # of DyRep: latest neighbours that a node is described by
N_OTHERS = 5  # of DyRep: sampled nodes per event and end, for edges that did not happen
BATCHES_PER_STEP = 5  # of DyRep
FIRST_SCALE = 0.1  # of DyRep: standard deviation of the memories before the first event, and of the nodes' rows


def learn_vectors(method: DeepMethod, snapshots: Snapshots, callback: Callback) -> Vectors:
    """The vectors of nodes in each snapshot, shape (n_snapshots, n_nodes, n_components)."""
    learn: dict[type, Callable[..., Vectors]] = {DynGEM: _learn_dyngem, DyRep: _learn_dyrep}
    with own_random_numbers(method.random_state) as rng:
        return unit_scaled(learn.get(type(method), _learn_recurrent)(method, snapshots, rng, callback))


@contextmanager
def own_random_numbers(random_state: Any) -> Iterator[Rng]:
    """One thread and own random numbers, so that the result is always the same; PyTorch's own are left as they were."""
    rng, n_threads = as_generator(random_state), torch.get_num_threads()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(int(rng.integers(2**62)))
        torch.set_num_threads(1)
        try:
            yield rng
        finally:
            torch.set_num_threads(n_threads)


def train(
    losses: Callable[[], Iterable[Tensor]],
    weights: Iterable[Tensor],
    method: Any,
    callback: Callback,
    largest_gradient: float = LARGEST_GRADIENT,
) -> bool:
    """Minimise what each epoch yields with Adam, one step per loss; whether the callback stopped it."""
    weights = list(weights)
    optimizer = torch.optim.Adam(weights, lr=method.learning_rate, fused=True)
    for epoch in range(method.epochs):
        for loss in losses():
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(weights, largest_gradient)
            optimizer.step()
        if callback(epoch + 1, method.epochs):
            return True
    return False


def with_glorot_weights(module: nn.Module) -> None:
    """Set all matrices uniformly between -b and b, b = sqrt(6 / (n_in + n_out)), and all biases to 0."""
    for name, weights in module.named_parameters():
        if weights.dim() > 1:
            nn.init.xavier_uniform_(weights)
        elif "bias" in name:
            nn.init.zeros_(weights)


def linear(n_in: int, n_out: int) -> nn.Linear:
    """A linear layer without a bias."""
    return nn.Linear(n_in, n_out, bias=False)


# ---- graphs


@dataclass(frozen=True, eq=False)
class ActiveGraph:
    """The nodes with an edge in one snapshot, ascending, and the adjacency matrix between them."""

    nodes: Positions
    adjacency: csr_array

    @cached_property
    def degree(self) -> Positions:
        """The number of neighbours of each node, at least 1."""
        return np.diff(self.adjacency.indptr).astype(np.int64)

    @cached_property
    def index(self) -> Tensor:
        """The numbers of the nodes as a tensor."""
        return torch.from_numpy(self.nodes)

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
    matrix = matrix.tocoo()
    at = torch.from_numpy(np.vstack(matrix.coords).astype(np.int64))
    values = torch.from_numpy(matrix.data.astype(np.float32))
    return torch.sparse_coo_tensor(at, values, matrix.shape, check_invariants=False).coalesce()


def walk_pairs(graph: ActiveGraph, n_pairs: int, rng: Rng) -> tuple[Positions, Positions]:
    """Pairs of nodes of the same random walk of 5 nodes: its first node, and one of the 4 others.

    `n_pairs` walks start in each node; positions in `graph.nodes`, shape (n_active * n_pairs,) each.
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


def walk_loss(vectors: Tensor, graph: ActiveGraph, rng: Rng) -> Tensor:
    """Skip-gram with negative sampling: the mean of -log s(x_i x_j) plus the mean of -log s(-x_i x_k), s the sigmoid.

    The pairs (i, j) are nodes of the same random walk. The nodes k are sampled in proportion to degree**0.75, and are the
    same for every i, so that all their scores are one product of matrices. Both means count the same. With 20 times the
    weight for the second mean, as in the published settings, vectors shrink to zero where nodes are hard to tell apart.
    """
    first, other = map(torch.from_numpy, walk_pairs(graph, PAIRS_PER_NODE, rng))
    share = graph.degree**0.75
    negative = torch.from_numpy(rng.choice(len(share), SHARED_NEGATIVES, p=share / share.sum()))
    together = (vectors[first] * vectors[other]).sum(dim=1)
    return -functional.logsigmoid(together).mean() - functional.logsigmoid(-vectors @ vectors[negative].T).mean()


# ---- networks that run over the snapshots


# Each carries a state from one snapshot to the next: `start()` gives the first one, `loss(graph, state, rng)` and
# `vectors(graph, state)` what a snapshot with at least one edge has, and the state after it.


def _learn_recurrent(method: RecurrentMethod, snapshots: Snapshots, rng: Rng, callback: Callback) -> Vectors:
    graphs, n_nodes = active_graphs(snapshots), snapshots.n_nodes
    network: Any
    if isinstance(method, EvolveGCN):
        noise = rng.normal(scale=method.noise, size=(n_nodes, INPUT_COLUMNS)).astype(np.float32)
        network = EvolvingNetwork(torch.from_numpy(noise), method.n_components, method.variant)
    elif isinstance(method, VGRNN):
        network = VariationalNetwork(n_nodes, method.hidden, method.n_components)
    else:
        assert isinstance(method, GCRN)
        network = ConvolvedUnits(n_nodes, method.hidden, method.n_components)
    with_glorot_weights(network)
    train(lambda: _window_losses(network, graphs, method.window, rng), network.parameters(), method, callback)
    network.eval()
    latest, state, found = torch.zeros(n_nodes, method.n_components), network.start(), []
    with torch.no_grad():
        for graph in graphs:
            if len(graph.nodes):
                latest, state = network.vectors(graph, state)
            found.append(latest.numpy())
    return np.stack(found)


def _window_losses(network: Any, graphs: list[ActiveGraph], window: int, rng: Rng) -> Iterator[Tensor]:
    """The mean loss of each window."""
    filled = [graph for graph in graphs if len(graph.nodes)]
    state = network.start()
    for first in range(0, len(filled), window):
        losses = []
        for graph in filled[first : first + window]:
            loss, state = network.loss(graph, state, rng)
            losses.append(loss)
        yield torch.stack(losses).mean()
        state = tuple(tensor.detach() for tensor in state)


class ConvolvedUnits(nn.Module):
    """GCRN: convolutions, then recurrent units; the state is that of the unit of each node."""

    def __init__(self, n_nodes: int, hidden: int, n_components: int) -> None:
        super().__init__()
        self.shape = n_nodes, n_components
        self.rows = nn.Embedding(n_nodes, hidden)
        self.inner = linear(hidden, n_components)
        self.unit = nn.GRUCell(n_components, n_components)
        self.norm = nn.LayerNorm(n_components)

    def start(self) -> State:
        return (torch.zeros(self.shape),)

    def loss(self, graph: ActiveGraph, state: State, rng: Rng) -> tuple[Tensor, State]:
        state = self.run(graph, state)
        return walk_loss(self.norm(state[0][graph.index]), graph, rng), state

    def vectors(self, graph: ActiveGraph, state: State) -> tuple[Tensor, State]:
        state = self.run(graph, state)
        return self.norm(state[0]) * state[0].any(dim=1, keepdim=True), state

    def run(self, graph: ActiveGraph, state: State) -> State:
        """The state after a snapshot."""
        hidden = functional.dropout((graph.convolution @ self.rows(graph.index)).relu(), DROPOUT, self.training)
        x = functional.normalize(graph.convolution @ self.inner(hidden))
        return (state[0].index_copy(0, graph.index, self.unit(x, state[0][graph.index])),)


class VariationalNetwork(nn.Module):
    """VGRNN: encoder, prior and recurrent unit; the state is that of the unit of each node, and its latest vector."""

    def __init__(self, n_nodes: int, hidden: int, n_components: int) -> None:
        super().__init__()
        self.shapes = (n_nodes, hidden), (n_nodes, n_components)
        self.rows = nn.Embedding(n_nodes, hidden)
        self.prior = nn.Sequential(linear(hidden, hidden), nn.ReLU(), linear(hidden, 2 * n_components))
        self.inner, self.outer = linear(2 * hidden, hidden), linear(hidden, 2 * n_components)
        self.of_samples = linear(n_components, hidden)
        self.unit = GraphUnit(2 * hidden, hidden)

    def start(self) -> State:
        return tuple(map(torch.zeros, self.shapes))

    def loss(self, graph: ActiveGraph, state: State, rng: Rng) -> tuple[Tensor, State]:
        prior, encoded = self.distributions(graph, state[0][graph.index])
        z = encoded.rsample()
        # as in the original, each node's share of the divergence is divided by the number of nodes once more
        divergence = torch.distributions.kl_divergence(encoded, prior).sum(dim=1).mean() / len(z)
        return link_loss(z, graph, PAIRS_PER_NODE, rng) + divergence, self.after(graph, state, z, encoded.mean)

    def vectors(self, graph: ActiveGraph, state: State) -> tuple[Tensor, State]:
        _, encoded = self.distributions(graph, state[0][graph.index])
        state = self.after(graph, state, encoded.mean, encoded.mean)
        return state[1], state

    def distributions(
        self, graph: ActiveGraph, units: Tensor
    ) -> tuple[torch.distributions.Normal, torch.distributions.Normal]:
        """The prior and the encoder's distribution of the active nodes."""
        x = torch.hstack([self.rows(graph.index).relu(), units])
        hidden = (graph.convolution @ self.inner(x)).relu()
        columns = self.prior(units), graph.convolution @ self.outer(hidden)
        parts = (of_one.chunk(2, dim=1) for of_one in columns)
        prior, encoded = (torch.distributions.Normal(mean, functional.softplus(std) + TINY) for mean, std in parts)
        return prior, encoded

    def after(self, graph: ActiveGraph, state: State, z: Tensor, vectors: Tensor) -> State:
        """The state after a snapshot in which the active nodes have the samples z."""
        x = torch.hstack([self.rows(graph.index).relu(), self.of_samples(z).relu()])
        units = self.unit(x, state[0][graph.index], graph.convolution)
        return state[0].index_copy(0, graph.index, units), state[1].index_copy(0, graph.index, vectors)


class GraphUnit(nn.Module):
    """A gated recurrent unit in which all products with weights are convolved with a graph."""

    def __init__(self, n_in: int, n_out: int) -> None:
        super().__init__()
        self.of_input = nn.Linear(n_in, 3 * n_out)
        self.of_state, self.of_reset = linear(n_out, 2 * n_out), linear(n_out, n_out)

    def forward(self, x: Tensor, h: Tensor, convolution: Tensor) -> Tensor:
        """The new state of rows with input x and state h."""
        of_input = convolution @ functional.linear(x, self.of_input.weight) + self.of_input.bias
        gates, candidate = of_input.split([2 * h.shape[1], h.shape[1]], dim=1)
        reset, update = (gates + convolution @ self.of_state(h)).sigmoid().chunk(2, dim=1)
        return update * h + (1 - update) * (candidate + convolution @ self.of_reset(reset * h)).tanh()


def link_loss(z: Tensor, graph: ActiveGraph, n_pairs: int, rng: Rng) -> Tensor:
    """The mean of -log s(z_i z_j) over all edges, plus that of -log s(-z_i z_j) over sampled pairs without an edge.

    `n_pairs` are sampled per node; pairs with an edge, and a node with itself, are left out.
    """
    n_nodes = len(graph.nodes)
    row, column = (coordinate.astype(np.int64) for coordinate in graph.adjacency.tocoo().coords)
    i, j = rng.integers(0, n_nodes, (2, n_pairs * n_nodes))
    is_apart = ~np.isin(i * n_nodes + j, row * n_nodes + column) & (i != j)
    loss = -functional.logsigmoid((z[row] * z[column]).sum(dim=1)).mean()
    return (
        loss - functional.logsigmoid(-(z[i[is_apart]] * z[j[is_apart]]).sum(dim=1)).mean() if is_apart.any() else loss
    )


class EvolvingNetwork(nn.Module):
    """EvolveGCN: two evolving layers; the state is the weights of each."""

    def __init__(self, noise: Tensor, n_components: int, variant: str) -> None:
        super().__init__()
        sizes = noise.shape[1], n_components, n_components
        self.noise, self.shape = noise, (len(noise), n_components)
        self.layers = nn.ModuleList(EvolvingLayer(*pair, variant) for pair in pairwise(sizes))

    def start(self) -> State:
        return tuple(layer.first for layer in self.layers)

    def loss(self, graph: ActiveGraph, state: State, rng: Rng) -> tuple[Tensor, State]:
        active, state = self.run(graph, state)
        return walk_loss(active, graph, rng), state

    def vectors(self, graph: ActiveGraph, state: State) -> tuple[Tensor, State]:
        active, state = self.run(graph, state)
        return torch.zeros(self.shape).index_copy(0, graph.index, active), state

    def run(self, graph: ActiveGraph, state: State) -> tuple[Tensor, State]:
        """The vectors of the active nodes, and the weights of the snapshot."""
        first, second = self.layers
        x = torch.from_numpy(graph.degree.astype(np.float32))[:, None] + self.noise[graph.index]
        of_input = first(state[0], x)
        hidden = functional.leaky_relu(graph.convolution @ (x @ of_input), SLOPE)
        of_hidden = second(state[1], hidden)
        return graph.convolution @ (hidden @ of_hidden), (of_input, of_hidden)


class EvolvingLayer(nn.Module):
    """The weights of a layer before the first snapshot, and how they change; the unit works on their columns."""

    def __init__(self, n_in: int, n_out: int, variant: str) -> None:
        super().__init__()
        self.first = nn.Parameter(torch.empty(n_in, n_out))
        self.unit = nn.GRUCell(n_in, n_in)
        self.direction = nn.Parameter(torch.empty(n_in, 1)) if variant == "H" else None

    def forward(self, current: Tensor, x: Tensor) -> Tensor:
        """The weights for a snapshot with the input x, from those of the snapshot before."""
        columns = current.T
        given = columns if self.direction is None else self.summary(x, len(columns))
        return self.unit(given, columns).T

    def summary(self, x: Tensor, n_rows: int) -> Tensor:
        """The rows of x with the highest scores, times tanh of the score; zero rows where x has too few."""
        assert self.direction is not None
        score = (x @ self.direction)[:, 0] / self.direction.norm()
        highest, at = score.topk(min(n_rows, len(x)))
        rows = x[at] * highest.tanh()[:, None]
        return functional.pad(rows, (0, 0, 0, n_rows - len(rows)))


# ---- DynGEM


def _learn_dyngem(method: DynGEM, snapshots: Snapshots, rng: Rng, callback: Callback) -> Vectors:
    graphs = active_graphs(snapshots)
    sizes = *method.hidden, method.n_components
    work = [len(graph.nodes) * sum(a * b for a, b in pairwise((len(graph.nodes), *sizes))) for graph in graphs]
    vectors = np.empty((len(graphs), snapshots.n_nodes, method.n_components), np.float32)
    model, done, stopped = Autoencoder((snapshots.n_nodes, *sizes)), 0, False

    def progress(of_epoch: int, *_: int) -> bool:  # work of different sizes, reported as equal epochs
        nonlocal done, stopped
        before, done = done, done + of_epoch
        epochs = done // sum(work)
        if epochs > before // sum(work):
            stopped = bool(callback(epochs, method.epochs))
        return stopped

    for graph, of_epoch, adjacency, out in zip(graphs, work, snapshots.adjacencies, vectors, strict=True):
        if len(graph.nodes) and not stopped:
            part = model.part(graph.index)
            losses = partial(_dyngem_losses, method, part, graph, rng)
            train(losses, part.parameters(), method, partial(progress, of_epoch))
            model.take(graph.index, part)
        with torch.no_grad():
            out[:] = model.encode(sparse_tensor(adjacency)).numpy()
    return vectors


def _dyngem_losses(method: DynGEM, model: Autoencoder, graph: ActiveGraph, rng: Rng) -> Iterator[Tensor]:
    n_active = len(graph.nodes)
    for batch in np.split(rng.permutation(n_active), range(BATCH, n_active, BATCH)):
        rows = graph.adjacency[batch]
        x, codes = torch.from_numpy(rows.toarray().astype(np.float32)), model.encode(sparse_tensor(rows))
        of_neighbours = neighbour_loss(codes, x[:, batch]) * n_active / len(batch)  # as many as among all nodes
        error = ((model.decode(codes) - x) * (1 + (method.beta - 1) * x)).square().sum(dim=1).mean()
        yield error + method.alpha * of_neighbours + PENALTY * model.penalty()


def neighbour_loss(codes: Tensor, adjacency: Tensor) -> Tensor:
    """The sum of the squared distances of the codes y of a node's neighbours from its own: the mean over nodes.

    With symmetric A, the sum of A_ij |y_i - y_j|^2 over i and j is 2 (sum of degree_i |y_i|^2 - sum of y_i (A y)_i).
    """
    own = adjacency.sum(dim=1) @ codes.square().sum(dim=1)
    return 2 * (own - (codes * (adjacency @ codes)).sum()) / len(codes)


class Autoencoder(nn.Module):
    """Rectified layers with these sizes from the row to the code, and back."""

    def __init__(self, sizes: tuple[int, ...]) -> None:
        super().__init__()
        self.sizes, both_ways = sizes, (*sizes, *sizes[-2::-1])
        self.matrices = nn.ParameterList(nn.init.xavier_uniform_(torch.empty(pair)) for pair in pairwise(both_ways))
        self.biases = nn.ParameterList(torch.zeros(size) for size in both_ways[1:])

    def part(self, nodes: Tensor) -> Autoencoder:
        """A copy for rows that have entries in the columns of these nodes alone."""
        part = Autoencoder((len(nodes), *self.sizes[1:]))
        with torch.no_grad():
            for mine, other in zip(self._of(nodes), part.parameters(), strict=True):
                other.copy_(mine)
        return part

    def take(self, nodes: Tensor, part: Autoencoder) -> None:
        """Set the weights to those of a part for these nodes."""
        with torch.no_grad():
            for mine, other in zip(self.parameters(), part.parameters(), strict=True):
                if mine.shape == other.shape:
                    mine.copy_(other)
            self.matrices[0][nodes] = part.matrices[0]
            self.matrices[-1][:, nodes] = part.matrices[-1]
            self.biases[-1][nodes] = part.biases[-1]

    def _of(self, nodes: Tensor) -> list[Tensor]:
        first, *inner, last = self.matrices
        *biases, last_bias = self.biases
        return [first[nodes], *inner, last[:, nodes], *biases, last_bias[nodes]]

    def encode(self, x: Tensor) -> Tensor:
        """The codes of rows."""
        half = len(self.matrices) // 2
        return self._run(x, range(half))

    def decode(self, codes: Tensor) -> Tensor:
        """The rows of codes."""
        half = len(self.matrices) // 2
        return self._run(codes, range(half, 2 * half))

    def _run(self, x: Tensor, layers: Iterable[int]) -> Tensor:
        for layer in layers:
            x = (x @ self.matrices[layer] + self.biases[layer]).relu()
        return x

    def penalty(self) -> Tensor:
        """The sum of the absolute values and of the squares of the weights: the mean over layers."""
        return torch.stack([matrix.abs().sum() + matrix.square().sum() for matrix in self.matrices]).mean()


# ---- DyRep


def _learn_dyrep(method: DyRep, snapshots: Snapshots, rng: Rng, callback: Callback) -> Vectors:
    batches = event_batches(snapshots, method.batch_size)
    process = PointProcess(snapshots.n_nodes, method.n_components, rng)
    train(lambda: process.losses(batches), process.parameters(), method, callback)
    return process.vectors(batches, method.n_snapshots)


@dataclass(frozen=True, eq=False)
class Batch:
    """Consecutive events of one snapshot, as tensors.

    `ends` has the two nodes of each event, (n_events, 2), and `changed` the nodes whose memory changes, each once, as only
    the last event of each counts. For these, `neighbours` has the latest neighbours that the partner in this event had
    before it, -1 for none, (n_changed, 10), and `gap` the time from the node's event before on a log scale, 0 if there is
    none, (n_changed, 1).
    """

    snapshot: int
    ends: Tensor
    changed: Tensor
    neighbours: Tensor
    gap: Tensor


def event_batches(snapshots: Snapshots, batch_size: int) -> list[Batch]:
    """The edges in the order of time, in batches that do not cross the end of a snapshot."""
    order = np.argsort(snapshots.edges.ticks, kind="stable")
    ends = np.column_stack([snapshots.src, snapshots.dst])[order].astype(np.int64)
    neighbours, gap = _before(ends, snapshots.edges.ticks[order])
    index = snapshots.index[order]
    cuts = np.union1d(np.arange(batch_size, len(ends), batch_size), np.flatnonzero(np.diff(index)) + 1)
    batches = []
    for of_index, of_ends, of_neighbours, of_gap in zip(
        *(np.split(column, cuts) for column in (index, ends, neighbours, gap)), strict=True
    ):
        changed, from_end = np.unique(of_ends.ravel()[::-1], return_index=True)
        event, side = divmod(of_ends.size - 1 - from_end, 2)
        columns = of_ends, changed, of_neighbours[event, 1 - side], of_gap[event, side][:, np.newaxis]
        batches.append(Batch(int(of_index[0]), *map(torch.from_numpy, columns)))
    return batches


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


class PointProcess(nn.Module):
    """The intensity and the memory; memories have the shape (n_nodes, n_components)."""

    def __init__(self, n_nodes: int, size: int, rng: Rng) -> None:
        super().__init__()
        self.rng = rng
        self.first = FIRST_SCALE * torch.randn(n_nodes, size)
        self.of_src, self.of_dst, self.of_product = (linear(size, 1) for _ in range(3))
        self.log_softness = nn.Parameter(torch.zeros(1))
        self.of_neighbours = nn.Linear(size, size)
        self.of_structure, self.of_memory, self.of_gap = nn.Linear(size, size), linear(size, size), linear(1, size)
        with_glorot_weights(self)
        nn.init.constant_(self.of_product.weight, size**-0.5)
        nn.init.zeros_(self.of_gap.weight)
        self.rows = nn.Embedding(n_nodes, size)
        nn.init.normal_(self.rows.weight, std=FIRST_SCALE)

    def losses(self, batches: list[Batch]) -> Iterator[Tensor]:
        """The mean loss per event of each five batches."""
        memory = self.first
        for start in range(0, len(batches), BATCHES_PER_STEP):
            together = batches[start : start + BATCHES_PER_STEP]
            losses = []
            for batch in together:
                losses.append(self.loss(batch, memory))
                memory = memory.index_copy(0, batch.changed, self.updates(batch, memory))
            yield torch.stack(losses).sum() / sum(len(batch.ends) for batch in together)
            memory = memory.detach()

    def vectors(self, batches: list[Batch], n_snapshots: int) -> Vectors:
        """The memories at the end of each snapshot."""
        memory, is_known = self.first.clone(), torch.zeros(len(self.first), 1)
        vectors = np.empty((n_snapshots, *self.first.shape), np.float32)
        with torch.no_grad():
            for snapshot, out in enumerate(vectors):
                for batch in (batch for batch in batches if batch.snapshot == snapshot):
                    memory[batch.changed] = self.updates(batch, memory)
                    is_known[batch.changed] = 1.0
                out[:] = (memory * is_known).numpy()
        return vectors

    def loss(self, batch: Batch, memory: Tensor) -> Tensor:
        """Minus the log of the intensities of the events, plus those of edges that did not happen: the sum over events."""
        src, dst = memory[batch.ends].unbind(dim=1)
        sampled = self.rng.integers(0, len(memory), (2, len(src), N_OTHERS))
        other_src, other_dst = memory[torch.from_numpy(sampled)]
        did_not = self.intensity(src[:, None], other_dst) + self.intensity(other_src, dst[:, None])
        return did_not.mean(dim=1).sum() - self.intensity(src, dst).log().sum()

    def intensity(self, src: Tensor, dst: Tensor) -> Tensor:
        """The intensity of edges between nodes with these memories."""
        score = self.of_src(src) + self.of_dst(dst) + self.of_product(src * dst)
        softness = self.log_softness.exp()
        return softness * functional.softplus(score[..., 0] / softness)

    def updates(self, batch: Batch, memory: Tensor) -> Tensor:
        """The new memories of the nodes that change."""
        neighbours = batch.neighbours.clamp(min=0)
        described = (self.of_neighbours(memory)[neighbours] + self.rows(neighbours)).sigmoid()
        structure = (described * (batch.neighbours >= 0)[..., None]).amax(dim=1)  # 0 without neighbours
        own = self.of_memory(memory[batch.changed])
        return (self.of_structure(structure) + own + self.of_gap(batch.gap)).tanh()


# ---- DyLink2Vec


def learn_code(method: DyLink2Vec, pairs: csr_array, callback: Callback) -> tuple[Vectors, Vectors]:
    """The weight and the bias of the code of the neighbourhoods of pairs."""
    size, n_nodes = method.n_components, pairs.shape[1]
    with own_random_numbers(method.random_state) as rng:
        into, back = torch.randn(n_nodes, size), torch.randn(size, n_nodes) / n_nodes**0.5
        bias, mean = torch.zeros(size), torch.zeros(n_nodes)
        weights = [each.requires_grad_() for each in (into, bias, back, mean)]

        def losses() -> Iterator[Tensor]:
            order = rng.permutation(pairs.shape[0])
            for start in range(0, len(order), BATCH):
                yield reconstruction_error(into, bias, back, mean, sparse_tensor(pairs[order[start : start + BATCH]]))

        train(losses, weights, method, callback, largest_gradient=np.inf)
    return into.detach().numpy(), bias.detach().numpy()


def reconstruction_error(into: Tensor, bias: Tensor, back: Tensor, mean: Tensor, pairs: Tensor) -> Tensor:
    """The mean over pairs of half the squared distance to their reconstruction.

    The reconstruction h B + m has as many columns as there are nodes, so only products with the short codes h are formed:
    |h B + m - x|^2 = h B B' h' + 2 h B m + m m' - 2 x (B' h' + m) + x x'.
    """
    code = (pairs @ into + bias).sigmoid()
    squares = ((code @ (back @ back.T)) * code).sum() + 2 * (code @ (back @ mean)).sum() + len(code) * (mean @ mean)
    products = ((pairs @ back.T) * code).sum() + (pairs @ mean).sum()
    return (squares - 2 * products + pairs.values().square().sum()) / (2 * len(code))
