"""The temporal stochastic block model: what is drawn, and its closed forms against draws and full enumeration."""

from itertools import combinations, product

import numpy as np
import pytest
from scipy.integrate import quad
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold, cross_val_score

from tdlg.embed.nodes import node_embeddings
from tdlg.exceptions import ParameterError
from tdlg.linegraph.decay import Gaussian, Laplace, Mixture, NoDecay, decay_values
from tdlg.linegraph.operator import LineGraph
from tdlg_paper.block_means import expected_line_graph, expected_node_embeddings
from tdlg_paper.blocks import TemporalBlockModel, make_tsbm

SIGMAS = 4.5
TILTED = [[0.5, 0.0, 0.1], [0.0, 0.1, 0.2], [0.1, 0.2, 0.1]]

MODELS = {
    "paper, small": TemporalBlockModel(6, 4, intra=(0.5, 0.25), time_stds=0),
    "times vary": TemporalBlockModel(6, 4, intra=(0.5, 0.25), time_stds=(0.7, 0.3)),
    "unequal": TemporalBlockModel(9, 2, intra=(0.8, 0.3), communities=(6, 3), time_stds=0.4),
    "three by three": TemporalBlockModel(
        12, 3, intra=(0.7, TILTED, 0.2), communities=(5, 4, 3), time_means=(0, 1, 3), time_stds=(0.5, 0, 1)
    ),
}


def over_models(test):
    return pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)(test)


def incidence(n_nodes, src, dst):
    B = np.zeros((n_nodes, len(src)))
    B[src, np.arange(len(src))] = B[dst, np.arange(len(src))] = 1
    return B


def line_graph(B, time, decay):
    return (B.T @ B) * decay_values(decay.parts(None), np.subtract.outer(time, time))


def drawn(model, decay, n_draws, seed):
    """B, H and the kinds of the edges, for many draws."""
    rng = np.random.default_rng(seed)
    for _ in range(n_draws):
        sample = model.sample(rng)
        B = incidence(model.n_nodes, sample.edges.src, sample.edges.dst)
        yield B, line_graph(B, sample.edges.time, decay), sample.kind


def assert_no_bias(excess, scale):
    """That the mean of the draws, the first axis, is 0; `scale` is what they should be exact to."""
    mean, error = excess.mean(axis=0), excess.std(axis=0, ddof=1) / np.sqrt(len(excess))
    assert np.all(np.abs(mean) <= SIGMAS * error + 1e-12)
    assert np.median(error[scale > 0] / scale[scale > 0]) < 0.03  # or the test would pass with wrong values


# ---- what is drawn


def test_the_defaults_are_the_papers_demonstration():
    sample = make_tsbm(random_state=0)
    assert sample.model.kinds == ("U x U, 1", "V x V, 1", "U x V, 1", "U x U, 2", "V x V, 2", "U x V, 2")
    assert np.bincount(sample.kind).tolist() == [900, 900, 200, 100, 100, 1800]
    assert sample.edges.node_ids.tolist() == list(range(100))
    assert sample.community.tolist() == [0] * 50 + [1] * 50
    for period, mean in enumerate((-1, 1)):
        time = sample.edges.time[sample.period == period]
        assert time.mean() == pytest.approx(mean, abs=SIGMAS * 0.5 / np.sqrt(2000))
        assert time.std() == pytest.approx(0.5, abs=SIGMAS * 0.5 / np.sqrt(4000))


@over_models
def test_edges_are_of_their_kind(model):
    for seed in range(20):
        sample = model.sample(seed)
        edges, of_node = sample.edges, dict(zip(sample.edges.node_ids, sample.community, strict=True))
        assert np.bincount(sample.kind, minlength=model.counts.size).tolist() == model.counts.ravel().tolist()
        assert np.bincount(sample.period).tolist() == [model.n_nodes * model.degree // 2] * len(model.counts)
        assert np.all(np.diff(sample.kind) >= 0)
        assert not np.any(edges.src == edges.dst)
        for src, dst, label, period, block in zip(
            edges.src, edges.dst, edges.label, sample.period, sample.block, strict=True
        ):
            ends = f"{model.names[of_node[src]]} x {model.names[of_node[dst]]}"
            assert ends == model.blocks[block]
            assert label == f"{ends}, {period + 1}"


def test_every_pair_of_a_block_is_as_likely():
    model = TemporalBlockModel(7, 20_000, intra=(0.6,), time_means=(0,), communities=(4, 3))
    sample = model.sample(1)
    for block, (n_pairs, ordered) in enumerate([(6, 12), (3, 6), (12, 12)]):
        of = sample.block == block
        pairs, counts = np.unique(np.stack([sample.edges.src[of], sample.edges.dst[of]]), axis=1, return_counts=True)
        assert len(counts) == ordered, n_pairs
        expected = of.sum() / ordered
        assert np.all(np.abs(counts - expected) < SIGMAS * np.sqrt(expected)), pairs


def test_communities_line_up_with_node_embeddings_when_nodes_have_no_edge():
    model = TemporalBlockModel(60, 1, intra=(0.5,), time_means=(0,), communities=(10, 50))
    sample = model.sample(3)
    assert sample.edges.n_nodes < 60
    assert sample.community.tolist() == [int(node >= 10) for node in sample.edges.node_ids]
    assert len(node_embeddings(sample.edges, np.ones((30, 1)))) == len(sample.community)


def test_a_seed_decides():
    first, again, other = (make_tsbm(20, 4, random_state=seed).edges for seed in (5, 5, 6))
    for column in ("src", "dst", "time", "label"):
        assert np.array_equal(getattr(first, column), getattr(again, column))
    assert not np.array_equal(first.src, other.src)
    assert not np.array_equal(first.time, other.time)
    generator = np.random.default_rng(5)
    drawn_twice = [make_tsbm(20, 4, random_state=generator).edges.src.tolist() for _ in range(2)]
    assert drawn_twice[0] == first.src.tolist() != drawn_twice[1]


@pytest.mark.parametrize(
    ("options", "sizes", "counts"),
    [
        (dict(n_nodes=10, degree=3), (5, 5), [[7, 7, 1], [1, 1, 13]]),  # of 6.75, 6.75, 1.5 and .75, .75, 13.5
        (dict(n_nodes=6, degree=1, intra=(0.5, 1)), (3, 3), [[1, 1, 1], [2, 1, 0]]),  # of .75, .75, 1.5 and 1.5, 1.5, 0
        (dict(n_nodes=11, degree=2, communities=3, intra=(0, 0)), (4, 4, 3), [[0, 0, 0, 5, 3, 3], [0, 0, 0, 5, 3, 3]]),
        (dict(n_nodes=6, degree=30, communities=(1, 5), intra=(0.5, 0.1)), (1, 5), [[0, 45, 45], [0, 9, 81]]),
        (dict(n_nodes=4, degree=6, communities=1, intra=(1, 1)), (4,), [[12], [12]]),
        (
            dict(n_nodes=8, degree=5, intra=([[0.2, 0.5], [0.5, 0.3]], [[0.2, 0.5], [0, 0.3]])),
            (4, 4),
            [[4, 6, 10], [4, 6, 10]],
        ),
        (
            dict(n_nodes=12, degree=50, communities=(6, 4, 2), intra=(0.44, 0.44)),
            (6, 4, 2),
            [[90, 36, 6, 92, 46, 30]] * 2,  # in proportion to 15, 6 and 1 pairs, and to 24, 12 and 8 (91.6, 45.8, 30.5)
        ),
    ],
)
def test_counts_and_sizes(options, sizes, counts):
    model = TemporalBlockModel(**options)
    assert model.sizes == sizes
    assert model.counts.tolist() == counts


def test_counts_are_within_one_of_the_shares_and_sum_up():
    rng = np.random.default_rng(0)
    for _ in range(200):
        n_communities, n_periods = rng.integers(1, 5), rng.integers(1, 4)
        shares = [
            np.triu(rng.dirichlet(np.ones(n_communities**2)).reshape(2 * [n_communities])) for _ in range(n_periods)
        ]
        shares = [share / share.sum() for share in shares]
        model = TemporalBlockModel(
            12, int(rng.integers(1, 30)), shares, np.zeros(n_periods), communities=int(n_communities)
        )
        n_edges = 6 * model.degree
        order = [(a, a) for a in range(n_communities)] + list(combinations(range(n_communities), 2))
        wanted = n_edges * np.array([[share[a, b] for a, b in order] for share in shares])
        assert np.all(model.counts.sum(axis=1) == n_edges)
        assert np.all(np.abs(model.counts - wanted) < 1)


def test_names_of_many_communities():
    assert TemporalBlockModel(12, communities=3).blocks == ("U x U", "V x V", "W x W", "U x V", "U x W", "V x W")
    assert TemporalBlockModel(14, communities=7).names == ("C1", "C2", "C3", "C4", "C5", "C6", "C7")


def test_models_are_equal_by_value():
    model = TemporalBlockModel(8, 4, intra=[np.array([[0.5, 0.2], [0.2, 0.3]]), 0.25], time_stds=[1, 1])
    same = TemporalBlockModel(8, 4, intra=(((0.5, 0.2), (0.2, 0.3)), 0.25), time_stds=1, communities=(4, 4))
    assert model == same
    assert hash(model) == hash(same)
    assert model != TemporalBlockModel(8, 4)
    with pytest.raises(ValueError, match="read-only"):
        model.counts[0, 0] = 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (dict(n_nodes=0), r"'n_nodes' parameter of TemporalBlockModel must be a whole number, at least 1. Got 0"),
        (dict(n_nodes=10.5), r"'n_nodes' parameter .* Got 10.5"),
        (dict(n_nodes=True), r"'n_nodes' parameter .* Got True"),
        (dict(degree=-2), r"'degree' parameter .* Got -2"),
        (dict(degree="4"), r"'degree' parameter .* Got '4'"),
        (dict(n_nodes=5, degree=3), r"Got 3 times 5 instead. Make one of them even"),
        (dict(communities=0), r"'communities' parameter .* Got 0"),
        (dict(communities=101), r"must be at most 'n_nodes', 100: .* Got 101"),
        (dict(communities=(10, 20)), r"sum to 'n_nodes', 100. Got \(10, 20\) instead"),
        (dict(communities=(100, 0)), r"'communities' parameter .* Got 0"),
        (dict(communities="UV"), r"'communities' parameter .* Got 'UV'"),
        (dict(intra=0.9), r"one entry per period, such as \(0.9, 0.1\). Got 0.9"),
        (dict(intra=()), r"one entry per period, .* Got \(\)"),
        (dict(intra=np.array(0.9)), r"one entry per period"),
        (dict(intra=(0.9, 1.1)), r"shares from 0 to 1. Got 1.1"),
        (dict(intra=(0.9, float("nan"))), r"shares from 0 to 1. Got nan"),
        (dict(intra=(0.9, "x")), r"for each of the 2 communities. Got 'x'"),
        (dict(intra=[[0.5, 0.2], [0.2, 0.3]]), r"for each of the 2 communities. Got \[0.5, 0.2\]"),
        (dict(intra=(0.9, [[0.25, 0.25], [0.25, 0.25]])), r"sum to 1 on and above"),
        (dict(intra=(0.9, [[0.5, 0.2], [0.1, 0.3]])), r"zeros or the same values below it"),
        (dict(intra=(0.9, [[-0.5, 1.0], [0, 0.5]])), r"at least 0"),
        (dict(intra=(0.9, [[np.nan, 1.0], [0, 0.5]])), r"at least 0"),
        (dict(intra=(0.9, 0.5, 0.1)), r"'time_means' .* each of the 3 periods that 'intra' has. Got \(-1.0, 1.0\)"),
        (dict(time_means=(0, np.inf)), r"'time_means' .* finite number .* Got \(0, inf\)"),
        (dict(time_means="ab"), r"'time_means' .* Got 'ab'"),
        (dict(time_means=0), r"'time_means' .* Got 0"),
        (dict(time_stds=(1, 2, 3)), r"'time_stds' .* Got \(1, 2, 3\)"),
        (dict(time_stds=np.nan), r"'time_stds' .* finite"),
        (dict(time_stds=-1), r"'time_stds' parameter must not be negative. Got -1"),
        (dict(communities=1), r"in period 1 for a block .* the sizes are \(100,\). Got 0.9"),
        (dict(n_nodes=4, communities=4, intra=(0, 0.5)), r"in period 2 .* are \(1, 1, 1, 1\). Got 0.5"),
        (
            dict(n_nodes=4, communities=(1, 3), intra=(0, [[0.5, 0], [0, 0.5]])),
            r"in period 2 .* are \(1, 3\). Got \(\(0.5",
        ),
    ],
)
def test_bad_input(options, message):
    with pytest.raises(ParameterError, match=message):
        make_tsbm(**options)


def test_bad_random_state():
    with pytest.raises(ParameterError, match="'random_state'"):
        make_tsbm(10, 2, random_state="seed")


# ---- Proposition 1


def pairs_of(model):
    """The pairs of nodes of each block, in the order of the paper: within communities, then between them."""
    of = [
        np.flatnonzero(np.repeat(np.arange(len(model.sizes)), model.sizes) == community)
        for community in range(len(model.sizes))
    ]
    return [list(combinations(nodes, 2)) for nodes in of] + [list(product(*two)) for two in combinations(of, 2)]


@over_models
def test_shared_endpoints_are_those_of_all_pairs_of_edges(model):
    pairs = pairs_of(model)
    shared = [[np.mean([len({*i} & {*j}) for i in one for j in other]) for one in pairs] for other in pairs]
    n_periods = len(model.counts)
    expected = expected_line_graph(model, NoDecay())
    np.testing.assert_allclose(expected, np.tile(shared, (n_periods, n_periods)), rtol=1e-13, atol=1e-15)


def test_the_papers_first_matrix():
    for n in (6, 100, 1000):
        model = TemporalBlockModel(n, time_means=(2, 5), time_stds=0)
        found = expected_line_graph(model, Gaussian(3.0))
        gamma = np.exp(-0.5)
        block = np.array([[8, 0, 4], [0, 8, 4], [4, 4, 4]]) / n
        np.testing.assert_allclose(found, np.block([[block, gamma * block], [gamma * block, block]]), rtol=1e-13)


@pytest.mark.parametrize(
    "decay",
    [
        Gaussian(0.5),
        Gaussian(0.01),
        Laplace(0.5),
        Laplace(0.001),
        Laplace(40.0),
        Mixture([Gaussian(0.3), Laplace(2.0), NoDecay()], weights=[0.5, 0.3, 0.2]),
    ],
    ids=repr,
)
def test_the_decay_is_its_mean_over_normal_times(decay):
    means, stds = np.array([0.0, 0.25, -2.0]), np.array([0.5, 0.0, 1.5])
    model = TemporalBlockModel(4, 1, (1, 1, 1), means, stds, communities=1)
    for (p, q), found in np.ndenumerate(expected_line_graph(model, decay)):
        mean, std = means[p] - means[q], np.hypot(stds[p], stds[q])
        if std == 0:
            expected = decay_values(decay.parts(None), np.array([mean]))[0]
        else:
            points = np.unique([*(scale * side for scale in (0.01, 0.1, 1) for side in (-1, 1)), 0, mean])
            expected = quad(
                lambda d, mean=mean, std=std: (
                    decay_values(decay.parts(None), np.array([d]))[0]
                    * np.exp(-0.5 * ((d - mean) / std) ** 2)
                    / (std * np.sqrt(2 * np.pi))
                ),
                min(mean, 0) - 10 * std - 1,
                max(mean, 0) + 10 * std + 1,
                points=points,
                limit=500,
                epsabs=1e-14,
            )[0]
        assert found == pytest.approx(4 / 4 * expected, rel=1e-8), (p, q)  # two pairs of four nodes share 1 on average


def test_a_decay_far_narrower_than_the_times_spread():
    model = TemporalBlockModel(4, 1, (1, 1), (0, 3), 1.0, communities=1)
    width = 1e-9
    density = np.exp([0, -9 / 4]) / np.sqrt(4 * np.pi)
    np.testing.assert_allclose(expected_line_graph(model, Laplace(width))[0], 2 * width * density, rtol=1e-6)
    gauss = expected_line_graph(model, Gaussian(width))[0]
    np.testing.assert_allclose(gauss, np.sqrt(2 * np.pi) * width * density, rtol=1e-6)


def block_means(H, kind, n_kinds):
    """Means of the blocks of H, its diagonal left out."""
    one = np.eye(n_kinds)[:, kind]
    total = one @ (H - np.diag(np.diag(H))) @ one.T
    size = one.sum(axis=1)
    n_entries = np.outer(size, size) - np.diag(size)
    return np.divide(total, n_entries, out=np.full(total.shape, np.nan), where=n_entries > 0)


@over_models
def test_blocks_of_drawn_line_graphs(model):
    decay = Gaussian(0.8)
    expected = expected_line_graph(model, decay)
    found = np.array([block_means(H, kind, len(expected)) for _, H, kind in drawn(model, decay, 2000, seed=0)])
    there = ~np.isnan(found[0])
    assert there.mean() > 0.7
    assert not found[:, there & (expected == 0)].any()
    assert_no_bias((found - expected)[:, there], scale=expected[there])


def test_blocks_of_the_line_graph_operator():
    model, decay = TemporalBlockModel(40, 10, time_stds=(0.5, 0.2)), Gaussian(1.0)
    expected = expected_line_graph(model, decay)
    found = np.array(
        [
            block_means(LineGraph(sample.edges, decay=decay).to_csr().toarray(), sample.kind, len(expected))
            for sample in (model.sample(seed) for seed in range(60))
        ]
    )
    assert_no_bias(found - expected, scale=expected)


@pytest.mark.parametrize("closed_form", [expected_line_graph, expected_node_embeddings])
def test_bad_decays(closed_form):
    model = TemporalBlockModel()
    with pytest.raises(ParameterError, match=r"'decay' parameter .* Got 0.5"):
        closed_form(model, 0.5)
    with pytest.raises(ParameterError, match="freeze"):
        closed_form(model, Gaussian())
    with pytest.raises(ParameterError, match="plain numbers"):
        closed_form(model, Gaussian("7d"))


# ---- Proposition 2


def all_networks(model):
    """The two ends of every edge, for every network that can be drawn; all are as likely."""
    pairs = pairs_of(model)
    return product(*(pairs[block] for counts in model.counts for block, n in enumerate(counts) for _ in range(n)))


ENUMERATED = {
    "two periods": TemporalBlockModel(6, 1, intra=(0.7, [[0.4, 0.6], [0, 0]]), time_means=(0, 1), time_stds=0),
    "unequal": TemporalBlockModel(
        6, 2, intra=([[0.4, 0.4], [0, 0.2]],), time_means=(0,), time_stds=0, communities=(4, 2)
    ),
    "three communities": TemporalBlockModel(
        6, 1, intra=([[0, 0.4, 0.6], [0] * 3, [0] * 3], 0.6), time_means=(0, 1), time_stds=0, communities=(3, 2, 1)
    ),
    "a single edge each": TemporalBlockModel(
        4, 1, intra=(0.5, [[0, 0.5], [0, 0.5]]), time_means=(0, 1), time_stds=0, communities=(1, 3)
    ),
}


@pytest.mark.parametrize("model", ENUMERATED.values(), ids=ENUMERATED)
def test_node_embeddings_of_all_networks(model):
    decay = Gaussian(1.0)
    sample = model.sample(0)
    kind, time = sample.kind, np.array(model.time_means)[sample.period]
    firsts = np.cumsum([0, *model.sizes[:-1]])  # one node of each community
    totals, n_entries = np.zeros((2, len(firsts), model.counts.size)), np.zeros((2, len(firsts), model.counts.size))
    one = np.eye(model.counts.size)[kind]
    for network in all_networks(model):
        B = incidence(model.n_nodes, *np.array(network).T)
        degree = B[firsts].sum(axis=1, keepdims=True)
        sums = B[firsts] @ line_graph(B, time, decay)
        apart = B[firsts] == 0
        for at, (X, kept) in enumerate([(sums, apart), (sums / np.maximum(degree, 1), apart & (degree > 0))]):
            totals[at] += np.where(kept, X, 0) @ one
            n_entries[at] += kept @ one
    there = np.bincount(kind, minlength=model.counts.size) > 0
    for at, aggregate in enumerate(("sum", "mean")):
        found = expected_node_embeddings(model, decay, aggregate)
        assert found.shape == (len(model.names), len(model.kinds))
        with np.errstate(invalid="ignore"):
            expected = totals[at] / n_entries[at]
        np.testing.assert_allclose(found[:, there], expected[:, there], rtol=1e-12, atol=1e-15)


@over_models
def test_node_embeddings_of_draws(model):
    decay = Gaussian(0.8)
    firsts = np.cumsum([0, *model.sizes[:-1]])
    expected = [expected_node_embeddings(model, decay, aggregate) for aggregate in ("sum", "mean")]
    excess = []
    for B, H, kind in drawn(model, decay, 2000, seed=1):
        degree = B[firsts].sum(axis=1, keepdims=True)
        sums, apart, one = B[firsts] @ H, B[firsts] == 0, np.eye(len(model.kinds))[kind]
        means, with_mean = sums / np.maximum(degree, 1), apart & (degree > 0)
        # E[(entry - expected) of those that count] = 0: a mean of the means would weigh networks by how many count
        excess.append(
            [
                np.where(kept, X - value[:, kind], 0) @ one
                for X, kept, value in zip((sums, means), (apart, with_mean), expected, strict=True)
            ]
        )
    assert_no_bias(np.array(excess), scale=np.array(expected) * model.counts.ravel())


def papers_second_matrix(alpha, gamma):
    """The rows of U and V over U x U, V x V and U x V in period 1, then in period 2; without the factor 2 / n."""
    a, b = alpha
    half = (1 + gamma) / 2
    intra, inter = (a + gamma * b, b + gamma * a), (1 - a + gamma * (1 - b), 1 - b + gamma * (1 - a))
    return np.array(
        [
            [intra[0], inter[0], half, intra[1], inter[1], half],
            [inter[0], intra[0], half, inter[1], intra[1], half],
        ]
    )


@pytest.mark.parametrize("degree", [2, 40])
def test_the_papers_second_matrix_is_the_limit(degree):
    decay, gamma = Gaussian(2.0), np.exp(-0.5)
    limit = papers_second_matrix((0.9, 0.1), gamma)
    for aggregate, scale in (("mean", 2), ("sum", 4 * degree)):
        errors = []
        for n in (100, 1000, 10_000, 1_000_000):
            found = expected_node_embeddings(TemporalBlockModel(n, degree, time_stds=0), decay, aggregate)
            errors.append(np.abs(found * n / scale / limit - 1).max())
        assert errors[-1] < 1e-5
        assert errors[0] > 5 * errors[1] > 25 * errors[2]  # of order 1 / n


@pytest.mark.parametrize("aggregate", ["mean", "sum"])
def test_communities_differ_where_the_paper_says_so(aggregate):
    near, far = Gaussian(2.0), Gaussian(1e6)

    def gap(alpha, decay):
        model = TemporalBlockModel(100_000, intra=alpha, time_stds=0.1)
        u, v = expected_node_embeddings(model, decay, aggregate)
        return np.abs(u - v).max() / u.max()

    assert gap((0.9, 0.1), near) > 0.1
    assert gap((0.6, 0.5), near) > 0.01
    assert gap((0.9, 0.2), far) > 0.05
    assert gap((0.9, 0.1), far) < 1e-3
    assert gap((0.5, 0.5), near) < 1e-3
    assert gap((0.5, 0.5), far) < 1e-3


def test_no_entry_is_not_a_number():
    model = TemporalBlockModel(6, 2, intra=(0.5,), time_means=(0,), communities=(1, 2, 3))
    found = expected_node_embeddings(model, NoDecay(), "sum")
    never = {("U", "U x U, 1"), ("U", "U x V, 1"), ("U", "U x W, 1"), ("V", "V x V, 1"), ("V", "U x U, 1")}
    never |= {("W", "U x U, 1")}  # a community of one node has no pair
    for (k, row), (at, column) in product(enumerate(model.names), enumerate(model.kinds)):
        assert np.isnan(found[k, at]) == ((row, column) in never), (row, column)
    shared = expected_line_graph(model, NoDecay())
    for (k, row), (at, column) in product(enumerate(model.kinds), repeat=2):
        assert np.isnan(shared[k, at]) == ("U x U, 1" in (row, column))
    alone = TemporalBlockModel(4, 1, intra=([[0, 0], [0, 1]],), time_means=(0,))  # nobody in U has an edge
    assert expected_node_embeddings(alone, NoDecay(), "sum")[0, alone.kinds.index("V x V, 1")] == 0
    assert np.isnan(expected_node_embeddings(alone, NoDecay(), "mean")[0, alone.kinds.index("V x V, 1")])


def test_large_degrees_keep_their_precision():
    model = TemporalBlockModel(1000, 10_000_000, time_stds=0)
    mean, total = (expected_node_embeddings(model, Gaussian(1.0), aggregate) for aggregate in ("mean", "sum"))
    np.testing.assert_allclose(mean, total / 20_000_000, rtol=1e-6)  # D hardly varies
    assert np.all(mean > 0)


def test_bad_aggregate():
    with pytest.raises(ParameterError, match=r"'aggregate' parameter .* must be one of \['mean', 'sum'\]. Got 'max'"):
        expected_node_embeddings(TemporalBlockModel(), NoDecay(), "max")


# ---- communities from drawn edges


def accuracy(alpha, decay, n_draws=3):
    """Of a logistic regression on the mean-edge node embeddings, cross-validated over the nodes."""
    scores = []
    for seed in range(n_draws):
        sample = make_tsbm(intra=alpha, random_state=seed)
        X = node_embeddings(sample.edges, LineGraph(sample.edges, decay=decay).to_csr()).toarray()
        X = (X - X.mean(axis=0)) * 100
        folds = StratifiedKFold(5, shuffle=True, random_state=seed)
        scores += [cross_val_score(LogisticRegression(), X, sample.community, cv=folds).mean()]
    return np.mean(scores)


def test_communities_are_found_by_time():
    assert accuracy((0.9, 0.1), Gaussian(0.5)) > 0.97
    assert accuracy((0.9, 0.2), NoDecay()) > 0.7
    assert abs(accuracy((0.9, 0.1), NoDecay()) - 0.5) < 0.12
    assert abs(accuracy((0.5, 0.5), Gaussian(0.5)) - 0.5) < 0.12
