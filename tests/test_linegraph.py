import math
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import oracle
from conformance import Conformance, Form
from tdlg import Gaussian, Laplace, LineGraph, Mixture, NoDecay, TemporalEdges
from tdlg.exceptions import EdgesError, ParameterError, TooLargeError
from tdlg.linegraph import product as product_module
from tdlg.linegraph import walks as walks_module

MATCHES = ["any", "src", "dst", "src-dst", "dst-src", "pair", "reversed"]


def _wider(decay, factor):
    if isinstance(decay, NoDecay):
        return decay
    if isinstance(decay, Mixture):
        return Mixture([_wider(part, factor) for part in decay.decays], decay.weights)
    return type(decay)(decay.bandwidth * factor)


DECAYS = {
    "gaussian": Gaussian(3.0),
    "laplace": Laplace(2.0),
    "none": NoDecay(),
    "laplaces": Mixture([Laplace(0.5), Laplace(5.0), NoDecay()], [1.0, 0.5, 0.25]),
    "mixture": Mixture(
        [Gaussian(1.0), Laplace(4.0), Mixture([Gaussian(20.0), NoDecay()], [0.5, 0.5])], [2.0, 1.0, 0.5]
    ),
}


def network(n_nodes=8, n_edges=40, seed=0, times=30, **options):
    """A small network with self-loops, parallel edges and equal times."""
    rng = np.random.default_rng(seed)
    src, dst = rng.integers(0, n_nodes, (2, n_edges))
    return TemporalEdges(src, dst, rng.integers(0, times, n_edges), **options)


@pytest.fixture
def many_threads(monkeypatch):
    """Let even a small product use every thread that it is given."""
    monkeypatch.setattr(product_module, "EVENTS_PER_THREAD", 1)


@pytest.mark.parametrize("include_self", [True, False], ids=["self", "no-self"])
@pytest.mark.parametrize("past_only", [False, True], ids=["both", "past"])
@pytest.mark.parametrize("decay", DECAYS)
@pytest.mark.parametrize("match", MATCHES)
def test_every_form(match, decay, past_only, include_self):
    form = Form(DECAYS[decay], match, past_only, include_self, bandwidth_scaled=_wider)
    Conformance(form, network()).check_all()
    edges = network(seed=1)
    Conformance(form, edges[:25], edges[10:]).check_all()
    if include_self:  # two tables have no edge in common that could be left out
        Conformance(form, network(n_nodes=12, seed=2), edges).check_all()


@pytest.mark.parametrize(("decay", "n_threads"), [("mixture", 2), *((decay, 7) for decay in DECAYS)])  # 1: every form
@pytest.mark.parametrize("past_only", [False, True], ids=["both", "past"])
def test_threads(decay, past_only, n_threads, many_threads):
    form = Form(DECAYS[decay], "any", past_only, n_threads=n_threads)
    Conformance(form, network(n_nodes=3, n_edges=50)).check_all()
    star = TemporalEdges(np.zeros(60, int), np.arange(1, 61), np.arange(60) // 3)
    Conformance(form, star).check_all()
    Conformance(form, star[::2], star[::3]).check_all()


@pytest.fixture
def plain_loops(monkeypatch):
    """Walk as on a processor that is not known to like vectors."""
    monkeypatch.setattr(walks_module, "USE_VECTORS", False)


@pytest.mark.parametrize(("dtype", "n_threads"), [(np.float32, 3), (np.float64, 1)])
@pytest.mark.parametrize("past_only", [False, True], ids=["both", "past"])
@pytest.mark.parametrize("decay", DECAYS)
def test_plain_loops(decay, past_only, dtype, n_threads, plain_loops, many_threads):
    form = Form(DECAYS[decay], "any", past_only, n_threads=n_threads, dtype=dtype)
    H = form.make(network())
    assert [type(walk).__name__ for walk in H._walks] == ["Plain"]
    Conformance(form, network()).check_all()
    edges = network(n_nodes=3, seed=1)
    Conformance(form, edges[:25], edges[10:]).check_all()


@pytest.mark.parametrize("columns", [1, 3])
@pytest.mark.parametrize("past_only", [False, True], ids=["both", "past"])
@pytest.mark.parametrize("decay", DECAYS)
@pytest.mark.parametrize("vectors", [True, False], ids=["vectors", "plain"])
def test_what_is_not_a_number_stays_with_its_neighbours(decay, past_only, columns, vectors, monkeypatch):
    monkeypatch.setattr(walks_module, "USE_VECTORS", vectors)
    edges = TemporalEdges([0, 0, 0, 5, 5, 7], [1, 2, 3, 6, 6, 8], [1, 2, 3, 4, 5, 6])
    x = np.ones((6, columns))
    x[1] = np.nan
    y = LineGraph(edges, decay=DECAYS[decay], past_only=past_only) @ x
    assert np.isfinite(y[3:]).all()
    assert np.isnan(y[2]).all()
    assert np.isnan(y[0]).all() != past_only


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("tol", [1e-3, 1e-6, 1e-9, 1e-10])
@pytest.mark.parametrize("past_only", [False, True], ids=["both", "past"])
def test_precisions(dtype, tol, past_only):
    form = Form(Gaussian(3.0), past_only=past_only, tol=tol, dtype=dtype)
    Conformance(form, network(n_nodes=4, n_edges=60)).check_all()


@pytest.mark.parametrize("match", MATCHES)
def test_bipartite_ids_do_not_meet(match):
    Conformance(Form(Gaussian(3.0), match), network(bipartite=True)).check_all()


@pytest.mark.parametrize("match", MATCHES)
@pytest.mark.parametrize("include_self", [True, False])
def test_copies_of_an_edge(match, include_self):
    edges = network()
    form = Form(Gaussian(3.0), match, include_self=include_self)
    drawn = edges[np.random.default_rng(0).integers(0, 40, 40)]
    Conformance(form, drawn).check_all()
    Conformance(form, drawn, edges).check_all()
    Conformance(form, edges, drawn).check_all()


ids = st.integers(0, 4)
forms = st.builds(
    Form,
    decay=st.sampled_from(list(DECAYS.values())),
    match=st.sampled_from(MATCHES),
    past_only=st.booleans(),
    include_self=st.booleans(),
    bandwidth_scaled=st.just(_wider),
)


@settings(max_examples=60)
@given(
    st.lists(st.tuples(ids, ids, st.integers(0, 12)), max_size=14),
    st.sampled_from([0, 10**9, 17 * 10**17]),
    forms,
)
def test_any_small_network(triples, start, form):
    src, dst, time = np.array(triples, int).reshape(-1, 3).T
    edges = TemporalEdges(src, dst, time + start)
    Conformance(form, edges).check_all()
    Conformance(form, edges[::2], edges[1:]).check_all()


@settings(max_examples=30)
@given(st.lists(st.tuples(ids, ids, st.floats(-1e3, 1e3)), max_size=14), forms)
def test_any_fractional_times(triples, form):
    src, dst, time = zip(*triples, strict=True) if triples else ([], [], [])
    edges = TemporalEdges(np.array(src, int), np.array(dst, int), np.array(time, float))
    form = Form(form.decay, form.match, form.past_only, form.include_self)
    H, exact = form.make(edges), form.exact(edges)
    x = np.random.default_rng(0).uniform(-1, 1, len(edges))
    np.testing.assert_allclose(H @ x, exact @ x, rtol=0, atol=form.allowed(edges))
    np.testing.assert_allclose(H.T @ x, exact.T @ x, rtol=0, atol=form.allowed(edges))


def test_nanoseconds_since_1970_lose_nothing():
    start = 1_700_000_000_000_000_000
    small = TemporalEdges([0, 0, 0], [1, 2, 3], [0, 1, 3])
    large = TemporalEdges([0, 0, 0], [1, 2, 3], np.array([0, 1, 3]) + start)
    dates = TemporalEdges([0, 0, 0], [1, 2, 3], (np.array([0, 1, 3]) + start).astype("datetime64[ns]"))
    x = np.array([1.0, -2.0, 0.5])
    expected = LineGraph(small, decay=Gaussian(2.0)) @ x
    assert np.array_equal(LineGraph(large, decay=Gaussian(2.0)) @ x, expected)
    np.testing.assert_allclose(LineGraph(dates, decay=Gaussian("2ns")) @ x, expected, rtol=1e-14)


def test_rows_and_columns_on_different_clocks():
    days = np.array(["2024-01-01", "2024-01-02", "2024-01-05"], "datetime64[s]")
    coarse = TemporalEdges([0, 0, 1], [1, 2, 2], days)
    fine = TemporalEdges([0, 0, 1], [1, 2, 2], days.astype("datetime64[ns]"))
    H = LineGraph(coarse, fine, decay=Gaussian("1d"))
    np.testing.assert_allclose(
        H.to_csr().toarray(), LineGraph(fine, decay=Gaussian("1d")).to_csr().toarray(), rtol=1e-12
    )
    numbers = TemporalEdges([0, 0, 1], [1, 2, 2], [0.5, 1.0, 4.0])
    whole = TemporalEdges([0, 0, 1], [1, 2, 2], [0, 1, 4])
    assert LineGraph(numbers, whole, decay=Laplace(1.0)).to_csr()[0, 0] == pytest.approx(2 * np.exp(-0.5))
    with pytest.raises(EdgesError, match="both as datetimes or both as numbers"):
        LineGraph(numbers, fine, decay=NoDecay())


def test_default_decay_is_a_tenth_of_the_columns_spread():
    edges = network()
    H = LineGraph(edges[:5], edges)
    assert H.decay == Gaussian(bandwidth=0.1 * edges.time.std())


def test_unseen_nodes_give_zero_rows():
    edges = network()
    strangers = TemporalEdges([100, 101], [102, 3], [5, 5])
    H = LineGraph(strangers, edges, decay=NoDecay())
    assert (H @ np.ones(40))[0] == 0
    assert (H @ np.ones(40))[1] == sum(3 in pair for pair in zip(edges.src, edges.dst, strict=True))
    assert H.row(0).nnz == 0


def test_the_layout_is_built_once_and_shared():
    edges = network()
    first, second = LineGraph(edges), LineGraph(edges, decay=Laplace(1.0))
    assert first._layout is second._layout
    assert first.T._layout.gap is first._layout.gap


def test_explicit_matrix_that_does_not_fit_is_refused(monkeypatch):
    H = LineGraph(network(), decay=NoDecay())
    needed = H.to_csr().nnz * 12
    monkeypatch.setattr("tdlg.linegraph.operator.free_bytes", lambda: needed * 2)
    assert H.to_csr().nnz * 12 == needed
    monkeypatch.setattr("tdlg.linegraph.operator.free_bytes", lambda: 100)
    with pytest.raises(TooLargeError, match=r"would need [\d,]+ bytes; 100 are free.*H @ x"):
        H.to_csr()


def test_a_huge_matrix_is_refused_at_once():
    n = 1_000_000  # a hub: 10^12 entries, which must not be counted one by one
    H = LineGraph(TemporalEdges(np.zeros(n, int), np.arange(1, n + 1), np.arange(n)))
    with pytest.raises(TooLargeError, match=r"has 1,000,001,000,000 entries.*row_sums\(\)`\.$"):
        H.to_csr()


def test_copies_count_towards_the_size(monkeypatch):
    copies = network()[np.zeros(2000, int)]
    H = LineGraph(copies, decay=NoDecay())
    monkeypatch.setattr("tdlg.linegraph.operator.free_bytes", lambda: 100_000)
    with pytest.raises(TooLargeError, match=r"has [48],000,000 entries"):
        H.to_csr()


def test_layouts_are_shared_by_every_form():
    edges = network()
    rows, cols, copies = edges[:20], edges[10:], edges[[0, 0, 1, 2]]
    for match in MATCHES:
        for pair in ((edges, None), (rows, cols), (copies, None), (copies, edges)):
            one, other = (LineGraph(*pair, match=match, decay=decay) for decay in (NoDecay(), Laplace(1.0)))
            assert one._layout is other._layout


def test_rows_far_from_many_columns_keep_the_promise():
    n = 20_000
    times = np.random.default_rng(0).uniform(0, 1, n)
    cols = TemporalEdges(np.zeros(n, int), np.zeros(n, int), times)
    rows = TemporalEdges([0, 0], [1, 1], [6.0, 7.0])
    H = LineGraph(rows, cols, decay=Gaussian(1.0))
    largest = LineGraph(cols, decay=Gaussian(1.0)).row_sums().max()
    assert np.abs(H @ np.ones(n) - H.to_csr().sum(axis=1)).max() <= 1e-9 * largest


def test_normalized_keeps_small_but_certain_degrees():
    hub = TemporalEdges(np.append(np.zeros(300, int), 1000), np.append(np.arange(1, 301), 1001), np.arange(301))
    for decay in (NoDecay(), Gaussian(1e6)):
        sums = LineGraph(hub, decay=decay, tol=1e-3).normalized("edge").row_sums()
        assert sums[-1] == pytest.approx(1)
        assert sums.sum() == pytest.approx(301, rel=1e-3)
    faint = LineGraph(network(), decay=Mixture([Laplace(5.0)], [1e-10]))
    assert faint.normalized("edge").row_sums().min() >= 0.5


def test_transposes_are_whole_operators():
    H = LineGraph(network(), decay=Laplace(2.0), match="src-dst", past_only=True)
    assert repr(H.T).startswith("<40x40 LineGraph: dst-src match")
    N = H.normalized("spectral")
    assert np.array_equal(N.T.to_csr().toarray(), N.to_csr().toarray().T)
    np.testing.assert_allclose(N.T.row_sums(), N.to_csr().toarray().sum(axis=0), rtol=0, atol=1e-12)


def test_pickled_operator_gives_the_same_bits():
    H = LineGraph(network(), decay=Gaussian(2.0))
    x = np.random.default_rng(0).normal(size=40)
    assert np.array_equal(pickle.loads(pickle.dumps(H)) @ x, H @ x)
    assert len(pickle.loads(pickle.dumps(H))._layout._spare) == 0


def test_times_that_cannot_be_compared():
    whole = TemporalEdges([0], [1], [2**60])
    with pytest.raises(EdgesError, match="losing digits"):
        LineGraph(whole, TemporalEdges([0], [1], [0.5]), decay=NoDecay())
    ends = TemporalEdges([0, 0], [1, 1], [-(2**63), 2**63 - 1])
    with pytest.raises(EdgesError, match="too far apart"):
        LineGraph(ends, decay=NoDecay())
    with pytest.raises(ParameterError, match="infinite bandwidth"):
        LineGraph(TemporalEdges([0, 0], [1, 1], [-1e308, 1e308]))


def test_row_out_of_range():
    H = LineGraph(network(), decay=NoDecay())
    assert np.array_equal(H.row(-1).toarray(), H.row(39).toarray())
    with pytest.raises(IndexError, match="Row 40 is out of range"):
        H.row(40)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"match": "both"}, "'match' parameter.*'reversed'.*Got 'both'"),
        ({"decay": Gaussian(1.0), "tol": 0.0}, "'tol' parameter.*at least 1e-1.*Got 0.0"),
        ({"decay": Mixture([Gaussian(1.0), Gaussian(2.0)]), "tol": 1e-10}, "'tol' parameter.*for this decay"),
        ({"decay": NoDecay(), "tol": "low"}, "'tol' parameter.*Got 'low'"),
        ({"match": ["any"]}, "'match' parameter"),
        ({"decay": 0.5}, "'decay' parameter.*Got 0.5"),
        ({"n_threads": 0}, "'n_threads' parameter.*Got 0"),
        ({"decay": Gaussian("7d")}, "plain numbers"),
    ],
)
def test_wrong_parameters(options, message):
    with pytest.raises(ParameterError, match=message):
        LineGraph(network(), **options)


def test_wrong_inputs():
    with pytest.raises(ParameterError, match=r"'rows' parameter.*TemporalEdges.*Got ndarray"):
        LineGraph(np.zeros((3, 3)))
    H = LineGraph(network(), decay=NoDecay())
    with pytest.raises(ParameterError, match="real vectors"):
        H @ np.ones(40, complex)
    with pytest.raises(ValueError, match=r"dimension mismatch|shapes"):
        H @ np.ones(39)
    with pytest.raises(ParameterError, match=r"one of \['spectral', 'edge'\]. Got 'both'"):
        H.normalized("both")


def test_constant_times_name_the_way_out():
    edges = TemporalEdges([0, 1], [1, 2], [5, 5])
    with pytest.raises(ParameterError, match=r"same time.*NoDecay\(\)"):
        LineGraph(edges)
    assert np.array_equal(LineGraph(edges, decay=NoDecay()).row_sums(), [3, 3])


def test_no_edges():
    nothing = TemporalEdges([], [], [])
    H = LineGraph(nothing)
    assert H.shape == (0, 0)
    assert (H @ np.ones(0)).shape == (0,)
    assert (H @ np.ones((0, 3))).shape == (0, 3)
    assert LineGraph(network(), nothing).row_sums().tolist() == [0.0] * 40


def test_promises_of_symmetry():
    edges = network()
    assert LineGraph(edges, match="reversed").is_symmetric
    assert not LineGraph(edges, match="src-dst").is_symmetric
    assert not LineGraph(edges, past_only=True).is_symmetric


def test_a_long_hub_within_the_promised_error():
    rng = np.random.default_rng(0)
    n = 20_000
    edges = TemporalEdges(np.zeros(n, int), rng.integers(1, 50, n), np.sort(rng.normal(size=n)))
    x = rng.uniform(-1, 1, n)
    for bandwidth in (1.0, 1e-2, 1e-4):
        H = LineGraph(edges, decay=Gaussian(bandwidth))
        rows = LineGraph(edges[::500], edges, decay=Gaussian(bandwidth)).to_csr()
        assert np.abs((H @ x)[::500] - rows @ x).max() <= 1e-9 * rows.sum(axis=1).max()


@pytest.mark.parametrize("columns", [1, 2])
@pytest.mark.parametrize("n_threads", [1, 2])
@pytest.mark.parametrize("tol", [1e-10, 1e-9])
def test_rounding_does_not_add_up_over_a_hub(columns, n_threads, tol):
    n = 400_000
    options = {"decay": Gaussian(10.0), "match": "src", "tol": tol, "n_threads": n_threads}
    x = np.ones((n, columns))
    at_once = LineGraph(TemporalEdges(np.zeros(n, int), np.ones(n, int), np.zeros(n)), **options)
    assert np.abs(at_once @ x - n).max() <= 0.1 * tol * n  # the approximation itself is far within tol here
    evenly = TemporalEdges(np.zeros(n, int), np.ones(n, int), np.arange(n) // 2 / n)  # two at each time
    for past_only in (False, True):
        H = LineGraph(evenly, past_only=past_only, **options)
        rows = [0, n // 3, n - 1]
        error = (H @ x)[rows] - [[math.fsum(H.row(row).data)] for row in rows]
        assert np.abs(error).max() <= 0.5 * tol * n


def test_oracle_by_hand():
    edges = TemporalEdges(["a", "b", "c"], ["b", "c", "c"], [0.0, 1.0, 1.0])
    k = np.exp(-0.5)
    expected = [[2, k, 0], [k, 2, 1], [0, 1, 1]]
    np.testing.assert_allclose(oracle.line_graph(edges, edges, Gaussian(1.0)), expected)


@pytest.mark.parametrize("match", MATCHES)
def test_no_rows_and_no_columns(match):
    edges = TemporalEdges([1, 2, 1], [2, 3, 2], [0.0, 1.0, 2.0])
    nothing = TemporalEdges([], [], np.empty(0))
    for rows, cols in ((edges[:0], edges), (nothing, edges), (edges, edges[:0]), (edges[:0], edges[:0])):
        product = LineGraph(rows, cols, decay=Gaussian(1.0), match=match) @ np.ones(len(cols))
        np.testing.assert_array_equal(product, np.zeros(len(rows)))
