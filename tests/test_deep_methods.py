"""The deep methods: planted communities are found; their parts equal plain formulas; quiet nodes and snapshots."""

import subprocess
import sys
from itertools import islice

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_score

from tdlg import TemporalEdges
from tdlg.datasets.blocks import make_tsbm
from tdlg.exceptions import ParameterError
from tdlg_paper.baselines import torch_parts
from tdlg_paper.baselines.dyngem import DynGEM, _Autoencoder, neighbour_loss, reconstruction_loss
from tdlg_paper.baselines.dyrep import Batch, DyRep, _Process, event_batches
from tdlg_paper.baselines.evolvegcn import SLOPE, EvolveGCN, _EvolvingLayer, _EvolvingNetwork
from tdlg_paper.baselines.gcrn import GCRN, _ConvolvedUnits
from tdlg_paper.baselines.snapshots import Snapshots
from tdlg_paper.baselines.torch_parts import (
    ActiveGraph,
    GatedUnit,
    Weights,
    active_graphs,
    load_torch,
    one_thread,
    train,
    unit_scaled,
    walk_loss,
    walk_pairs,
)
from tdlg_paper.baselines.vgrnn import VGRNN, Normal, _VariationalNetwork, divergence, link_loss

needs_torch = pytest.mark.needs("torch")

SMALL = {"n_components": 16, "n_snapshots": 4, "epochs": 20, "random_state": 0}
SMALL_METHODS = {
    "DynGEM": DynGEM(hidden=(64, 32), **SMALL),
    "EvolveGCN-H": EvolveGCN(noise=100, window=3, **SMALL),
    "EvolveGCN-O": EvolveGCN(variant="O", noise=100, window=3, **SMALL),
    "GCRN": GCRN(hidden=32, window=3, **SMALL),
    "VGRNN": VGRNN(hidden=32, window=3, **SMALL),
    "DyRep": DyRep(batch_size=50, **SMALL),
}
METHODS = [pytest.param(method, id=name) for name, method in SMALL_METHODS.items()]
# in even quarters of the time: a-b and c-d, nothing, a self-loop, a-c
SPARSE = TemporalEdges(["a", "c", "b", "a"], ["b", "d", "b", "c"], [0, 1, 50, 100])


def vectors_of(method, edges, **settings):
    method = type(method)(**{**method.get_params(), **settings})
    method.embed(edges)
    return method.vectors_


@pytest.fixture(scope="module")
def sample():
    return make_tsbm(100, 40, random_state=0)


@pytest.fixture
def rng():
    return np.random.default_rng(0)


@pytest.fixture
def graph(rng):
    """A random graph of 12 nodes, of which the first is linked to all others."""
    upper = np.triu(rng.random((12, 12)) < 0.2, 1)
    upper[0, 1:] = True
    return ActiveGraph(np.arange(12), csr_array((upper | upper.T).astype(float)))


def numbers(rng, *shape):
    return load_torch().from_numpy(rng.normal(size=shape).astype(np.float32))


# ---- what is learnt


@needs_torch
@pytest.mark.parametrize("method", METHODS)
def test_communities_are_found(method, sample):
    """Nodes are told apart by their vectors in every snapshot, although all edges together show no communities."""
    shares = [
        cross_val_score(LogisticRegression(max_iter=1000), vectors, sample.community, cv=5).mean()
        for vectors in vectors_of(method, sample.edges)
    ]
    assert np.mean(shares) > 0.85  # by chance 0.5, with a standard deviation of 0.05 in one snapshot
    assert min(shares) > 0.7


@needs_torch
@pytest.mark.parametrize("method", METHODS)
def test_training_helps(method, sample):
    losses = []

    def record(steps, *args, **options):
        def recorded():
            values = []
            for loss in steps():
                values.append(loss.item())
                yield loss
            losses.append(np.mean(values))

        return train(recorded, *args, **options)

    module = sys.modules["tdlg_paper.baselines.recurrent" if hasattr(method, "window") else type(method).__module__]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "train", record)
        vectors_of(method, sample.edges[sample.period == 0], n_snapshots=1, epochs=40)
    assert losses[-1] < 0.97 * losses[0]


@needs_torch
@pytest.mark.parametrize("method", METHODS)
def test_the_state_of_torch_neither_matters_nor_changes(method, sample):
    torch = load_torch()
    kept = torch.get_rng_state(), torch.get_num_threads()
    try:
        torch.manual_seed(1)
        torch.set_num_threads(1)
        one = vectors_of(method, sample.edges, epochs=2)
        torch.manual_seed(2)
        torch.set_num_threads(2)
        before = torch.get_rng_state()
        two = vectors_of(method, sample.edges, epochs=2)
        assert np.array_equal(one, two)
        assert torch.equal(before, torch.get_rng_state())
        assert torch.get_num_threads() == 2
    finally:
        torch.set_rng_state(kept[0])
        torch.set_num_threads(kept[1])


@needs_torch
@pytest.mark.parametrize("method", METHODS)
def test_vectors_have_unit_scale(method, sample):
    vectors = vectors_of(method, sample.edges, epochs=1)
    assert vectors.dtype == np.float32
    assert np.mean(vectors[vectors.any(axis=2)] ** 2) == pytest.approx(1, rel=1e-3)


# ---- snapshots without edges, nodes without edges


@needs_torch
@pytest.mark.parametrize("method", METHODS)
def test_quiet_nodes_and_snapshots(method):
    vectors = vectors_of(method, SPARSE, epochs=2)
    assert vectors.shape == (4, 4, 16)
    assert np.isfinite(vectors).all()
    assert vectors[0].any(axis=1).all()
    if isinstance(method, DynGEM):
        assert np.array_equal(vectors[1], np.repeat(vectors[1, :1], 4, axis=0))  # the code of a row of zeros
        assert np.array_equal(vectors[3, 1], vectors[3, 3])
    elif isinstance(method, EvolveGCN):
        assert np.array_equal(vectors[1], vectors[0])
        assert not vectors[3, [1, 3]].any()
    else:
        assert np.array_equal(vectors[1], vectors[0])
        assert np.array_equal(vectors[3, 3], vectors[0, 3])
    assert not np.array_equal(vectors[3, 0], vectors[0, 0])


@needs_torch
@pytest.mark.parametrize("method", METHODS)
def test_a_node_has_a_zero_vector_before_its_first_edge(method):
    edges = TemporalEdges(["a", "a", "b"], ["b", "c", "d"], [0, 50, 100])
    vectors = vectors_of(method, edges, epochs=2)
    if not isinstance(method, DynGEM):
        assert not vectors[0, 2:].any()
        assert not vectors[2, 3].any()
    assert vectors[3, [1, 3]].any(axis=1).all()


@needs_torch
@pytest.mark.parametrize("method", METHODS)
def test_edges_without_two_nodes_have_vectors(method):
    vectors = vectors_of(method, TemporalEdges(["a"], ["a"], [0]), epochs=2)
    assert vectors.shape == (4, 1, 16)
    assert np.isfinite(vectors).all()


@needs_torch
@pytest.mark.parametrize("variant", ["H", "O"])
def test_evolvegcn_shows_who_is_active(variant, rng):
    """By default its vectors grow with the degree, here of one half of the nodes before noon and of the other after it."""
    busy = [rng.integers(0, 50, (2, 400)), rng.integers(50, 100, (2, 400))]
    calm = [rng.integers(50, 100, (2, 60)), rng.integers(0, 50, (2, 60))]
    src, dst = np.hstack([busy[0], calm[0], busy[1], calm[1]])
    vectors = vectors_of(
        EvolveGCN(variant=variant, **SMALL | {"n_snapshots": 2}), TemporalEdges(src, dst, np.repeat([0, 1], 460))
    )
    length = np.linalg.norm(vectors, axis=2)
    assert np.median(length[0, :50]) > 3 * np.median(length[0, 50:])
    assert np.median(length[1, 50:]) > 3 * np.median(length[1, :50])


# ---- progress


@needs_torch
@pytest.mark.parametrize("method", METHODS)
def test_epochs_are_reported(method, sample):
    told = []
    method = type(method)(**{**method.get_params(), "epochs": 5})
    method.embed(sample.edges, callback=lambda *step: told.append(step))
    assert told == [(1, 5), (2, 5), (3, 5), (4, 5), (5, 5)]


# ---- parts, against plain formulas


@needs_torch
def test_active_graphs():
    first, second, third, last = active_graphs(Snapshots(SPARSE, 4))
    assert first.nodes.tolist() == [0, 1, 2, 3]
    assert first.adjacency.toarray().tolist() == [[0, 1, 0, 0], [1, 0, 0, 0], [0, 0, 0, 1], [0, 0, 1, 0]]
    assert len(second.nodes) == len(third.nodes) == 0
    assert last.nodes.tolist() == last.index.tolist() == [0, 2]
    assert last.degree.tolist() == [1, 1]


@needs_torch
def test_convolution(graph):
    with_loops = graph.adjacency.toarray() + np.eye(12)
    root = np.diag(with_loops.sum(axis=1) ** -0.5)
    assert np.allclose(graph.convolution.to_dense().numpy(), root @ with_loops @ root, atol=1e-6)


@needs_torch
def test_gated_unit(graph, rng):
    weights = Weights(rng)
    unit = GatedUnit(weights, 3, 2)
    of_input, of_state, of_reset, bias = (tensor.detach().numpy() for tensor in weights.tensors)
    bias[:] = rng.normal(size=6)
    x, h, mixer = numbers(rng, 12, 3), numbers(rng, 12, 2), graph.convolution

    def plain(x, h, mix):
        reset = sigmoid(mix @ x @ of_input[:, :2] + mix @ h @ of_state[:, :2] + bias[:2])
        update = sigmoid(mix @ x @ of_input[:, 2:4] + mix @ h @ of_state[:, 2:] + bias[2:4])
        candidate = np.tanh(mix @ x @ of_input[:, 4:] + mix @ (reset * h) @ of_reset + bias[4:])
        return update * h + (1 - update) * candidate

    mixed = unit(x, h, lambda rows: mixer @ rows).detach().numpy()
    assert np.allclose(mixed, plain(x.numpy(), h.numpy(), mixer.to_dense().numpy()), atol=1e-6)
    assert np.allclose(unit(x, h).detach().numpy(), plain(x.numpy(), h.numpy(), np.eye(12)), atol=1e-6)


def sigmoid(values):
    return 1 / (1 + np.exp(-values))


def log_sigmoid(values):
    return -np.logaddexp(0, -values)


@needs_torch
def test_walks_have_the_probabilities_of_random_steps(graph, rng):
    first, other = walk_pairs(graph, 20_000, rng)
    step = graph.adjacency.toarray() / graph.degree[:, np.newaxis]
    expected = sum(np.linalg.matrix_power(step, n_steps) for n_steps in range(1, 5)) / 4
    found = np.zeros((12, 12))
    np.add.at(found, (first, other), 1 / 20_000)
    assert np.abs(found - expected).max() < 0.02  # five standard deviations


@needs_torch
def test_walk_loss(graph, rng, monkeypatch):
    monkeypatch.setattr(torch_parts, "PAIRS_PER_NODE", 200_000)
    monkeypatch.setattr(torch_parts, "SHARED_NEGATIVES", 200_000)
    vectors = numbers(rng, 12, 3)
    step = graph.adjacency.toarray() / graph.degree[:, np.newaxis]
    together = sum(np.linalg.matrix_power(step, n_steps) for n_steps in range(1, 5)) / 4
    share = graph.degree**0.75 / (graph.degree**0.75).sum()
    scores = (vectors @ vectors.T).numpy()
    expected = -(together * log_sigmoid(scores)).sum() / 12 - (log_sigmoid(-scores) @ share).mean()
    assert walk_loss(vectors, graph, rng).item() == pytest.approx(expected, rel=0.005)


@needs_torch
def test_link_loss_estimates_that_of_all_pairs(graph, rng):
    z = numbers(rng, 12, 3)
    scores, is_edge = (z @ z.T).numpy(), graph.adjacency.toarray() > 0
    is_apart = ~is_edge & ~np.eye(12, dtype=bool)
    expected = -log_sigmoid(scores[is_edge]).mean() - log_sigmoid(-scores[is_apart]).mean()
    assert link_loss(z, graph, 20_000, rng).item() == pytest.approx(expected, rel=0.01)


@needs_torch
def test_link_loss_of_a_complete_graph(rng):
    pair = ActiveGraph(np.arange(2), csr_array([[0.0, 1.0], [1.0, 0.0]]))
    z = numbers(rng, 2, 3)
    assert link_loss(z, pair, 5, rng).item() == pytest.approx(-log_sigmoid((z[0] @ z[1]).item()))


@needs_torch
def test_divergence(rng):
    torch = load_torch()
    encoded, prior = (Normal(numbers(rng, 5, 3), numbers(rng, 5, 3).exp()) for _ in range(2))
    expected = torch.distributions.kl_divergence(
        torch.distributions.Normal(*encoded), torch.distributions.Normal(*prior)
    )
    assert divergence(encoded, prior).item() == pytest.approx(expected.sum().item() / 5, rel=1e-5)


@needs_torch
def test_losses_of_the_autoencoder(graph, rng):
    torch = load_torch()
    A, codes, rows = graph.adjacency.toarray(), numbers(rng, 12, 3), numbers(rng, 12, 12)
    x, y, guess = torch.from_numpy(A.astype(np.float32)), codes.numpy(), rows.numpy()
    near = sum(A[i, j] * ((y[i] - y[j]) ** 2).sum() for i in range(12) for j in range(12)) / 12
    error = sum(((guess[i, j] - A[i, j]) * (7 if A[i, j] else 1)) ** 2 for i in range(12) for j in range(12)) / 12
    assert neighbour_loss(codes, x).item() == pytest.approx(near, rel=1e-5)
    assert reconstruction_loss(rows, x, 7.0).item() == pytest.approx(error, rel=1e-5)


@needs_torch
def test_columns_of_quiet_nodes_do_not_count(rng):
    torch = load_torch()
    model, weights, nodes = _Autoencoder.new((6, 4, 2), rng), Weights(rng), torch.tensor([1, 2, 5])
    x = torch.zeros(3, 6)
    x[:, nodes] = torch.tensor([[0.0, 1.0, 1.0], [1.0, 0.0, 0.0], [1.0, 0.0, 0.0]])
    part = model.part(nodes, weights)
    assert torch.allclose(part.encode(x[:, nodes]), model.encode(x))
    assert torch.allclose(part.decode(part.encode(x[:, nodes])), model.decode(model.encode(x))[:, nodes])
    with torch.no_grad():
        for tensor in weights.tensors:
            tensor += 0.1
    assert not torch.allclose(part.encode(x[:, nodes]), model.encode(x))
    model.take(nodes, part)
    assert torch.allclose(part.encode(x[:, nodes]), model.encode(x))
    assert torch.allclose(part.decode(part.encode(x[:, nodes])), model.decode(model.encode(x))[:, nodes])


@needs_torch
def test_evolving_weights_get_the_rows_with_the_highest_scores(rng):
    torch = load_torch()
    x = numbers(rng, 7, 4)
    layer = _EvolvingLayer(4, 3, "H", Weights(rng))
    direction = layer._direction.detach().numpy()[:, 0]
    score = x.numpy() @ direction / np.linalg.norm(direction)
    at = np.argsort(-score)
    rows = x.numpy()[at] * np.tanh(score[at])[:, np.newaxis]
    assert np.allclose(layer._summary(x, 3).detach().numpy(), rows[:3], atol=1e-6)
    assert np.allclose(layer._summary(x, 9).detach().numpy(), np.vstack([rows, np.zeros((2, 4))]), atol=1e-6)
    assert layer.evolved(layer.start, x).shape == (4, 3)
    still = _EvolvingLayer(4, 3, "O", Weights(rng))
    assert torch.equal(still.evolved(still.start, x), still.evolved(still.start, 2 * x))


@needs_torch
def test_run_of_evolvegcn(graph, rng):
    noise = rng.normal(size=(12, 5))
    network = _EvolvingNetwork(noise, 3, "H", Weights(rng), rng)
    active, state = network._run(graph, network.start())
    first, second = (tensor.detach().numpy() for tensor in state)
    A, x = graph.convolution.to_dense().numpy(), network._input(graph).numpy()
    assert np.allclose(x, graph.degree[:, np.newaxis] + noise)
    hidden = A @ x @ first
    assert np.allclose(active.detach().numpy(), A @ np.where(hidden > 0, hidden, SLOPE * hidden) @ second, atol=1e-5)


@needs_torch
def test_run_of_gcrn(graph, rng):
    weights = Weights(rng)
    network, state = _ConvolvedUnits(12, 5, 3, weights, rng), (numbers(rng, 12, 3),)
    of_nodes, of_hidden = (tensor.detach().numpy() for tensor in weights.tensors[:2])
    A = graph.convolution.to_dense().numpy()
    x = A @ np.maximum(A @ of_nodes, 0) @ of_hidden
    x = load_torch().from_numpy(x / np.linalg.norm(x, axis=1, keepdims=True))
    expected = network._unit(x, state[0]).detach().numpy()
    assert np.allclose(network._run(graph, state, dropout=0.0)[0].detach().numpy(), expected, atol=1e-5)
    vectors = network.vectors(graph, state)[0].detach().numpy()
    centred = expected - expected.mean(axis=1, keepdims=True)
    assert np.allclose(vectors, centred / np.sqrt((centred**2).mean(axis=1, keepdims=True) + 1e-5), atol=1e-4)


@needs_torch
def test_dropout_keeps_the_mean(rng):
    mask = _ConvolvedUnits(2, 2, 2, Weights(rng), rng)._mask((200, 200), 0.75).numpy()
    assert sorted(np.unique(mask)) == [0.0, 4.0]
    assert mask.mean() == pytest.approx(1, abs=0.05)


@needs_torch
def test_distributions_of_vgrnn(graph, rng):
    weights, state = Weights(rng), numbers(rng, 12, 5)
    network = _VariationalNetwork(12, 5, 3, weights, rng)
    of_nodes, *others = (tensor.detach().numpy() for tensor in weights.tensors[:5])
    A, h = graph.convolution.to_dense().numpy(), state.numpy()
    x = np.hstack([np.maximum(of_nodes, 0), h])
    columns = [np.maximum(h @ others[0], 0) @ others[1], A @ np.maximum(A @ x @ others[2], 0) @ others[3]]
    for found, expected in zip(network._distributions(graph, state), columns, strict=True):
        assert np.allclose(found.mean.detach().numpy(), expected[:, :3], atol=1e-5)
        assert np.allclose(found.std.detach().numpy(), np.logaddexp(0, expected[:, 3:]), atol=1e-5)


@needs_torch
def test_the_point_process(rng):
    torch = load_torch()
    process, memory = _Process(5, 3, Weights(rng), rng), numbers(rng, 5, 3)
    with torch.no_grad():
        process._log_softness += 0.5
        process._of_gap += 0.3
    W = {name: tensor.detach().numpy() for name, tensor in vars(process).items() if name not in ("_rng", "_first")}
    z, b = memory.numpy(), np.exp(0.5)
    score = z[0] @ W["_of_src"] + z[1] @ W["_of_dst"] + (z[0] * z[1]) @ W["_of_product"]
    intensity = process._intensity(memory[:1], memory[1:2]).item()
    assert intensity == pytest.approx((b * np.log1p(np.exp(score / b))).item(), rel=1e-5)
    batch = Batch(0, None, torch.tensor([0, 4]), torch.tensor([[1, 2, -1], [-1, -1, -1]]), torch.tensor([[0.7], [0.0]]))
    described = sigmoid(z[1:3] @ W["_of_neighbours"] + W["_rows"][1:3]).max(axis=0)
    expected = [
        np.tanh(described @ W["_of_structure"] + z[0] @ W["_of_memory"] + 0.7 * 0.3),
        np.tanh(z[4] @ W["_of_memory"]),
    ]
    assert np.allclose(process._updates(batch, memory).detach().numpy(), expected, atol=1e-5)


@needs_torch
def test_events_know_what_was_before(rng):
    src = rng.integers(0, 7, 90)
    dst = (src + rng.integers(1, 7, 90)) % 7
    time = rng.permutation(90)
    snapshots, order = Snapshots(TemporalEdges(src, dst, time), 3), np.argsort(time)
    batches = event_batches(snapshots, 8)
    sizes = [len(batch.ends) for batch in batches]
    assert max(sizes) == 8
    assert np.array_equal(np.repeat([batch.snapshot for batch in batches], sizes), snapshots.index[order])
    assert np.array_equal(np.vstack([batch.ends for batch in batches]), np.column_stack([src, dst])[order])
    met, latest, gaps, wanted, events = {node: [] for node in range(7)}, {}, [], [], iter(order)
    for batch in batches:
        expected = {}  # the last event of each node wins
        for event in islice(events, len(batch.ends)):
            u, v, now = src[event], dst[event], time[event]
            expected[u] = (met[v][:10], now - latest.get(u, now))
            expected[v] = (met[u][:10], now - latest.get(v, now))
            gaps += [expected[u][1], expected[v][1]]
            met[u], met[v] = [v, *met[u]], [u, *met[v]]
            latest[u] = latest[v] = now
        assert batch.changed.tolist() == sorted(expected)
        for neighbours, (partners, _) in zip(batch.neighbours.tolist(), in_order(expected), strict=True):
            assert neighbours == partners + [-1] * (10 - len(partners))
        wanted += [gap for _, gap in in_order(expected)]
    found = np.vstack([batch.gap for batch in batches])[:, 0]
    assert np.allclose(found, np.log1p(np.array(wanted) / np.mean(gaps)))


def in_order(by_node):
    return [by_node[node] for node in sorted(by_node)]


def test_unit_scale_of_nothing():
    assert not unit_scaled(np.zeros((1, 2, 3), np.float32)).any()


# ---- without PyTorch, and wrong parameters


def test_without_torch_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    for method in SMALL_METHODS.values():
        with pytest.raises(ImportError, match=r'pip install "\./paper\[deep\]"'):
            vectors_of(method, SPARSE)


def test_the_modules_load_without_torch():
    names = ", ".join(
        f"tdlg_paper.baselines.{name}" for name in ("dyngem", "dyrep", "evolvegcn", "gcrn", "vgrnn", "torch_parts")
    )
    code = f"import {names}, sys; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@needs_torch
@pytest.mark.parametrize(
    ("method", "name"),
    [
        (DynGEM(epochs=0), "epochs"),
        (DynGEM(hidden=500), "hidden"),
        (DynGEM(hidden=(5, 0)), "hidden"),
        (DynGEM(beta=-1), "beta"),
        (DyRep(batch_size=0), "batch_size"),
        (DyRep(learning_rate=0), "learning_rate"),
        (EvolveGCN(variant="P"), "variant"),
        (EvolveGCN(window=0), "window"),
        (GCRN(hidden=0), "hidden"),
        (VGRNN(n_components=0), "n_components"),
    ],
)
def test_wrong_parameters(method, name):
    with pytest.raises(ParameterError, match=f"The '{name}' parameter of {type(method).__name__} must be") as caught:
        method.embed(SPARSE)
    assert caught.value.parameter == name


@needs_torch
def test_an_error_gives_the_threads_back():
    torch = load_torch()
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        with pytest.raises(ZeroDivisionError), one_thread():
            _ = 1 / 0
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)
