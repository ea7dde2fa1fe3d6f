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
from tdlg.exceptions import ParameterError
from tdlg.judge.run import evaluate
from tdlg.judge.trials import EdgeClassification
from tdlg_paper.baselines.deep import GCRN, VGRNN, DyLink2Vec, DynGEM, DyRep, EvolveGCN, load_networks, neighbourhoods
from tdlg_paper.baselines.snapshots import Snapshots
from tdlg_paper.baselines.vectors import unit_scaled
from tdlg_paper.blocks import make_tsbm

try:
    import torch
except ImportError:
    networks = None
else:
    networks = load_networks()

needs_torch = pytest.mark.needs("torch")

SMALL = {"n_components": 16, "n_snapshots": 4, "epochs": 20, "random_state": 3}
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
    return networks.ActiveGraph(np.arange(12), csr_array((upper | upper.T).astype(float)))


def numbers(rng, *shape):
    return torch.from_numpy(rng.normal(size=shape).astype(np.float32))


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
def test_training_helps(method, sample, monkeypatch):
    losses, train = [], networks.train

    def record(steps, *args):
        def recorded():
            values = []
            for loss in steps():
                values.append(loss.item())
                yield loss
            losses.append(np.mean(values))

        return train(recorded, *args)

    monkeypatch.setattr(networks, "train", record)
    vectors_of(method, sample.edges[sample.period == 0], n_snapshots=1, epochs=40)
    assert losses[-1] < 0.97 * losses[0]


@needs_torch
@pytest.mark.parametrize("method", METHODS)
def test_the_state_of_torch_neither_matters_nor_changes(method, sample):
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
    first, second, third, last = networks.active_graphs(Snapshots(SPARSE, 4))
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


def sigmoid(values):
    return 1 / (1 + np.exp(-values))


def log_sigmoid(values):
    return -np.logaddexp(0, -values)


@needs_torch
def test_walks_have_the_probabilities_of_random_steps(graph, rng):
    first, other = networks.walk_pairs(graph, 20_000, rng)
    step = graph.adjacency.toarray() / graph.degree[:, np.newaxis]
    expected = sum(np.linalg.matrix_power(step, n_steps) for n_steps in range(1, 5)) / 4
    found = np.zeros((12, 12))
    np.add.at(found, (first, other), 1 / 20_000)
    assert np.abs(found - expected).max() < 0.02  # five standard deviations


@needs_torch
def test_walk_loss(graph, rng, monkeypatch):
    monkeypatch.setattr(networks, "PAIRS_PER_NODE", 200_000)
    monkeypatch.setattr(networks, "SHARED_NEGATIVES", 200_000)
    vectors = numbers(rng, 12, 3)
    step = graph.adjacency.toarray() / graph.degree[:, np.newaxis]
    together = sum(np.linalg.matrix_power(step, n_steps) for n_steps in range(1, 5)) / 4
    share = graph.degree**0.75 / (graph.degree**0.75).sum()
    scores = (vectors @ vectors.T).numpy()
    expected = -(together * log_sigmoid(scores)).sum() / 12 - (log_sigmoid(-scores) @ share).mean()
    assert networks.walk_loss(vectors, graph, rng).item() == pytest.approx(expected, rel=0.005)


@needs_torch
def test_link_loss_estimates_that_of_all_pairs(graph, rng):
    z = numbers(rng, 12, 3)
    scores, is_edge = (z @ z.T).numpy(), graph.adjacency.toarray() > 0
    is_apart = ~is_edge & ~np.eye(12, dtype=bool)
    expected = -log_sigmoid(scores[is_edge]).mean() - log_sigmoid(-scores[is_apart]).mean()
    assert networks.link_loss(z, graph, 20_000, rng).item() == pytest.approx(expected, rel=0.01)


@needs_torch
def test_events_know_what_was_before(rng):
    src = rng.integers(0, 7, 90)
    dst = (src + rng.integers(1, 7, 90)) % 7
    time = rng.permutation(90)
    snapshots, order = Snapshots(TemporalEdges(src, dst, time), 3), np.argsort(time)
    batches = networks.event_batches(snapshots, 8)
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


@needs_torch
def test_graph_unit(graph, rng):
    unit = networks.GraphUnit(3, 2)
    W, V, U = (layer.weight.detach().numpy().T for layer in (unit.of_input, unit.of_state, unit.of_reset))
    b, x, h = unit.of_input.bias.detach().numpy(), numbers(rng, 12, 3), numbers(rng, 12, 2)
    mix, state = graph.convolution.to_dense().numpy(), h.numpy()
    of_input = mix @ x.numpy() @ W + b
    reset, update = (sigmoid(of_input[:, at : at + 2] + mix @ state @ V[:, at : at + 2]) for at in (0, 2))
    expected = update * state + (1 - update) * np.tanh(of_input[:, 4:] + mix @ (reset * state) @ U)
    assert np.allclose(unit(x, h, graph.convolution).detach().numpy(), expected, atol=1e-6)


@needs_torch
def test_loss_of_neighbours(graph, rng):
    A, codes = graph.adjacency.toarray(), numbers(rng, 12, 3)
    y = codes.numpy()
    near = sum(A[i, j] * ((y[i] - y[j]) ** 2).sum() for i in range(12) for j in range(12)) / 12
    found = networks.neighbour_loss(codes, torch.from_numpy(A.astype(np.float32)))
    assert found.item() == pytest.approx(near, rel=1e-5)


@needs_torch
def test_columns_of_quiet_nodes_do_not_count():
    model, nodes = networks.Autoencoder((6, 4, 2)), torch.tensor([1, 2, 5])
    x = torch.zeros(3, 6)
    x[:, nodes] = torch.tensor([[0.0, 1.0, 1.0], [1.0, 0.0, 0.0], [1.0, 0.0, 0.0]])
    with torch.no_grad():
        for weights in model.parameters():
            weights.abs_()  # no unit is dead
        part = model.part(nodes)
        assert torch.allclose(part.encode(x[:, nodes]), model.encode(x))
        for weights in part.parameters():
            weights += 0.1
        assert not torch.allclose(part.encode(x[:, nodes]), model.encode(x))
        model.take(nodes, part)
        assert torch.allclose(part.encode(x[:, nodes]), model.encode(x))
        assert torch.allclose(part.decode(part.encode(x[:, nodes])), model.decode(model.encode(x))[:, nodes])


@needs_torch
def test_evolving_weights_get_the_rows_with_the_highest_scores(rng):
    x, layer, still = numbers(rng, 7, 4), networks.EvolvingLayer(4, 3, "H"), networks.EvolvingLayer(4, 3, "O")
    for each in (layer, still):
        networks.with_glorot_weights(each)
    with torch.no_grad():
        direction = layer.direction.numpy()[:, 0]
        score = x.numpy() @ direction / np.linalg.norm(direction)
        at = np.argsort(-score)
        rows = x.numpy()[at] * np.tanh(score[at])[:, np.newaxis]
        assert np.allclose(layer.summary(x, 3).numpy(), rows[:3], atol=1e-6)
        assert np.allclose(layer.summary(x, 9).numpy(), np.vstack([rows, np.zeros((2, 4))]), atol=1e-6)
        assert layer(layer.first, x).shape == (4, 3)
        assert torch.equal(still(still.first, x), still(still.first, 2 * x))


@needs_torch
def test_the_point_process(rng):
    process, memory = networks.PointProcess(5, 3, rng), numbers(rng, 5, 3)
    with torch.no_grad():
        process.log_softness += 0.5
        process.of_gap.weight += 0.3
    W = {name: tensor.detach().numpy().T for name, tensor in process.named_parameters()}
    z, b = memory.numpy(), np.exp(0.5)
    ends = {"src": z[0], "dst": z[1], "product": z[0] * z[1]}
    score = sum(vector @ W[f"of_{name}.weight"][:, 0] for name, vector in ends.items())
    intensity = process.intensity(memory[:1], memory[1:2]).item()
    assert intensity == pytest.approx(b * np.log1p(np.exp(score / b)), rel=1e-5)
    neighbours, gap = torch.tensor([[1, 2, -1], [-1, -1, -1]]), torch.tensor([[0.7], [0.0]])
    batch = networks.Batch(0, None, torch.tensor([0, 4]), neighbours, gap)
    described = sigmoid(z[1:3] @ W["of_neighbours.weight"] + W["rows.weight"].T[1:3]).max(axis=0)
    own = z[[0, 4]] @ W["of_memory.weight"]
    expected = np.tanh([described @ W["of_structure.weight"] + own[0] + 0.7 * 0.3, own[1]])
    assert np.allclose(process.updates(batch, memory).detach().numpy(), expected, atol=1e-5)


# ---- DyLink2Vec


@needs_torch
def test_the_error_of_a_reconstruction(rng):
    x = csr_array(np.where(rng.random((5, 9)) < 0.4, rng.random((5, 9)), 0))
    into, bias, back, mean = (rng.normal(size=shape) for shape in ((9, 3), (3,), (3, 9), (9,)))
    found = networks.reconstruction_error(
        *(torch.from_numpy(each.astype(np.float32)) for each in (into, bias, back, mean)), networks.sparse_tensor(x)
    )
    guess = sigmoid(x.toarray() @ into + bias) @ back + mean
    assert found.item() == pytest.approx(((guess - x.toarray()) ** 2).sum() / 10, rel=1e-5)


def test_neighbourhoods_by_plain_loops(rng):
    edges = TemporalEdges(*rng.integers(0, 8, (2, 60)), np.arange(60))
    snapshots = Snapshots(edges, 3)
    index, src, dst = np.array([0, 2, 1, -1, 1]), np.array([0, 3, 5, 2, -1]), np.array([1, 4, 5, 1, 6])
    found = neighbourhoods(snapshots, index, src, dst).toarray()
    for row, (k, u, v) in enumerate(zip(index, src, dst, strict=True)):
        expected = np.zeros(snapshots.n_nodes)
        for node in (u, v):
            if k >= 0 and node >= 0:
                expected += snapshots.adjacency(k).toarray()[node]
        assert np.allclose(found[row], expected / (np.linalg.norm(expected) or 1))


@needs_torch
def test_features_are_the_codes_of_the_last_snapshots():
    edges = TemporalEdges([0, 1, 2, 0], [1, 2, 0, 2], [0, 1, 2, 3])
    method = DyLink2Vec(5, history=3, epochs=2, n_snapshots=2, random_state=0)
    method.embed(edges)
    weight, bias = method.vectors_
    ends = np.array([0]), np.array([2])
    now, past = (sigmoid(neighbourhoods(method.snapshots_, np.array([k]), *ends) @ weight + bias)[0] for k in (1, 0))
    features = method.features(edges)
    assert features.shape == (4, 15)
    assert np.allclose(features[3], np.hstack([now, past, np.zeros(5)]))


@needs_torch
def test_dylink2vec_finds_the_communities_of_each_period():
    """All edges together show no communities: early ones stay within, late ones go between."""
    sample = make_tsbm(random_state=0)
    is_within = sample.community[sample.edges.src_code] + sample.community[sample.edges.dst_code] == 0
    task = EdgeClassification(sample.edges.with_label(is_within.astype(int)))
    assert evaluate(DyLink2Vec(8, history=1, epochs=20, n_snapshots=4), task, trials=1)["auc"][0] > 0.85


# ---- without PyTorch, and wrong parameters


def test_without_torch_the_error_says_what_to_install():
    code = """
import sys
sys.modules["tdlg_paper.baselines.networks"] = None  # as where PyTorch is not installed
from tdlg import TemporalEdges
from tdlg_paper.baselines.deep import GCRN
GCRN().embed(TemporalEdges([0], [1], [0]))
"""
    run = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True)
    assert (
        'ImportError: This method needs PyTorch. From a clone of tdlg, run: pip install "./paper[deep]"' in run.stderr
    )


@needs_torch
@pytest.mark.parametrize(
    ("method", "name"),
    [
        (DynGEM(epochs=0), "epochs"),
        (DynGEM(hidden=500), "hidden"),
        (DynGEM(hidden=(5, 0)), "hidden"),
        (DynGEM(beta=-1), "beta"),
        (DyRep(batch_size=0), "batch_size"),
        (DyLink2Vec(history=0), "history"),
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
