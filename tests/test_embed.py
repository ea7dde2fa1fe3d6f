"""Eigenvectors, low-rank features and node embeddings, against scipy and numpy."""

import warnings

import numpy as np
import pytest
from scipy.sparse import csr_array, issparse
from scipy.sparse.linalg import eigsh
from sklearn.exceptions import ConvergenceWarning

import tdlg.embed.eigenvectors
from tdlg import EdgeEmbedding, Gaussian, Laplace, LineGraph, LowRankFeatures, Mixture, NoDecay, TemporalEdges
from tdlg.embed import node_embeddings
from tdlg.embed.eigenvectors import top_eigenpairs
from tdlg.exceptions import ParameterError

TRANSFORMERS = [EdgeEmbedding, LowRankFeatures]


def network(n_edges=400, n_nodes=30, seed=0):
    rng = np.random.default_rng(seed)
    src, dst = rng.integers(0, n_nodes, (2, n_edges)) ** 2 // n_nodes  # some nodes are hubs; there are self-loops
    return TemporalEdges(src, dst, rng.uniform(0, 10, n_edges))


def explicit(edges, normalization=None, **options):
    H = LineGraph(edges, **options)
    return (H if normalization is None else H.normalized(normalization)).to_csr()


def subspace_distance(A, B):
    """The sine of the largest angle between the columns of two matrices."""
    A, B = np.linalg.qr(A)[0], np.linalg.qr(B)[0]
    return np.linalg.norm(A - B @ (B.T @ A), 2)


@pytest.fixture(params=["dense", "lanczos"])
def route(request, monkeypatch):
    """Either way to eigenpairs: small graphs take the dense one."""
    if request.param == "lanczos":
        return network(2000, 200)
    monkeypatch.setattr(tdlg.embed.eigenvectors, "eigsh", lambda *args, **options: pytest.fail("too large a graph"))
    return network(150)


class TestEdgeEmbedding:
    @pytest.mark.parametrize("normalization", [None, "spectral", "edge"])
    def test_agrees_with_eigsh(self, route, normalization):
        k = 12
        model = EdgeEmbedding(k, normalization=normalization, tol=1e-9, random_state=0).fit(route)
        values, vectors = eigsh(explicit(route, normalization), k, which="LM")
        order = np.argsort(-np.abs(values))
        np.testing.assert_allclose(model.eigenvalues_, values[order], rtol=1e-7)
        assert subspace_distance(model.embedding_, vectors) < 1e-4

    def test_negative_eigenvalues(self, route):
        decay = Mixture([Gaussian(1.0), Gaussian(0.2)], weights=[1.0, -2.0])
        model = EdgeEmbedding(10, decay=decay, tol=1e-9, random_state=0).fit(route)
        values = np.linalg.eigvalsh(explicit(route, decay=decay).toarray())
        assert (model.eigenvalues_ < 0).any()
        np.testing.assert_allclose(model.eigenvalues_, values[np.argsort(-np.abs(values))][:10], rtol=1e-7)
        np.testing.assert_allclose(model.transform(route), model.embedding_, atol=1e-6)

    def test_residuals_are_within_tol(self, route):
        model = EdgeEmbedding(20, tol=1e-5, random_state=0).fit(route)
        V, values = model.embedding_, model.eigenvalues_
        residuals = np.linalg.norm(explicit(route) @ V - V * values, axis=0)
        assert residuals.max() <= 1e-5 * values[0] * 1.01
        np.testing.assert_allclose(V.T @ V, np.eye(20), atol=1e-10)
        assert (np.diff(np.abs(values)) <= 0).all()

    @pytest.mark.parametrize("scaling", [None, "eigenvalue"])
    @pytest.mark.parametrize("normalization", [None, "spectral", "edge"])
    def test_fitted_edges_are_found_where_they_are(self, route, scaling, normalization):
        options = {"scaling": scaling, "normalization": normalization, "tol": 1e-9, "random_state": 0}
        model = EdgeEmbedding(8, **options).fit(route)
        np.testing.assert_allclose(model.transform(route), model.embedding_, atol=1e-6)
        np.testing.assert_allclose(model.transform(route[5:9]), model.embedding_[5:9], atol=1e-6)

    def test_scaling(self):
        edges = network()
        raw, scaled = (EdgeEmbedding(5, scaling=scaling, random_state=0).fit(edges) for scaling in (None, "eigenvalue"))
        np.testing.assert_allclose(scaled.embedding_, raw.embedding_ * raw.eigenvalues_)

    def test_all_eigenpairs_give_h(self):
        edges = network(100)
        model = EdgeEmbedding(100, tol=1e-12).fit(edges)
        V = model.embedding_
        np.testing.assert_allclose(V * model.eigenvalues_ @ V.T, explicit(edges).toarray(), atol=1e-7)

    def test_what_fit_transform_gives_is_the_callers_own(self):
        model = EdgeEmbedding(4, random_state=0)
        rows = model.fit_transform(network())
        np.testing.assert_array_equal(rows, model.embedding_)
        placed = model.transform(network())
        rows *= 1000
        np.testing.assert_array_equal(model.transform(network()), placed)

    def test_signs_do_not_hang_on_the_seed(self, route):
        one, other = (EdgeEmbedding(6, tol=1e-10, random_state=seed).fit_transform(route) for seed in (0, 1))
        np.testing.assert_allclose(one, other, atol=1e-5)
        assert (one.max(axis=0) >= -one.min(axis=0)).all()

    def test_no_more_than_the_rank(self):
        edges = TemporalEdges([1, 1, 1, 3], [2, 2, 2, 4], [0, 0, 0, 9])  # three equal edges
        model = EdgeEmbedding(4, decay=Gaussian(1.0)).fit(edges)
        np.testing.assert_allclose(model.eigenvalues_, [6, 2])
        assert model.transform(edges).shape == (4, 2)

    def test_what_does_not_converge_says_so(self, monkeypatch):
        monkeypatch.setattr(tdlg.embed.eigenvectors, "MOST_RESTARTS", 2)
        with pytest.warns(ConvergenceWarning, match="tol"):
            EdgeEmbedding(10, tol=1e-14, random_state=0).fit(network(2000, 200))

    @pytest.mark.parametrize("options", [{"tol": 0}, {"tol": "a"}, {"tol": 2.0}, {"scaling": "sqrt"}])
    def test_parameters(self, options):
        with pytest.raises(ParameterError, match=f"{next(iter(options))!r} parameter of EdgeEmbedding"):
            EdgeEmbedding(**options).fit(network())

    @pytest.mark.needs("data")
    def test_real_edges(self, data_dir):
        edges = tdlg.read_edges(data_dir / "soc-sign-bitcoinalpha.csv", src=0, dst=1, label=2, time=3)
        model = EdgeEmbedding(16, random_state=0).fit(edges)
        values = eigsh(explicit(edges), 16, return_eigenvectors=False)
        np.testing.assert_allclose(model.eigenvalues_, np.sort(values)[::-1], rtol=1e-8)


class TestLanczos:
    @pytest.mark.parametrize("k", [1, 7, 30, 50])
    def test_all_copies_of_a_multiple_eigenvalue(self, k):
        """24 equal parts: Lanczos' method alone misses copies of each eigenvalue."""
        part, copies = network(100), np.repeat(np.arange(24) * 1000, 100)
        edges = TemporalEdges(np.tile(part.src, 24) + copies, np.tile(part.dst, 24) + copies, np.tile(part.time, 24))
        H = LineGraph(edges)
        values, vectors, reached = top_eigenpairs(H, k, 1e-8, np.random.default_rng(0))
        assert reached == 1e-8
        np.testing.assert_allclose(values, np.repeat(np.linalg.eigvalsh(explicit(part).toarray())[::-1], 24)[:k])
        np.testing.assert_allclose(H @ vectors, vectors * values, atol=1e-8 * values[0])

    def test_a_space_that_ends_early(self):
        """A star without decay is a matrix of ones plus the identity: random vectors must go on."""
        H = LineGraph(TemporalEdges(np.zeros(2000, int), np.arange(1, 2001), np.arange(2000)), decay=NoDecay())
        values, vectors, reached = top_eigenpairs(H, 40, 1e-10, np.random.default_rng(0))
        assert reached == 1e-10
        np.testing.assert_allclose(values, [2001] + [1] * 39)
        np.testing.assert_allclose(vectors.T @ vectors, np.eye(40), atol=1e-12)


class TestLowRankFeatures:
    @pytest.mark.parametrize("normalization", [None, "spectral"])
    def test_inner_products_are_nearly_as_good_as_can_be(self, normalization):
        edges = network()
        H = explicit(edges, normalization).toarray()
        F = LowRankFeatures(60, normalization=normalization, random_state=0).fit_transform(edges)
        best = np.linalg.eigvalsh(H)[-61]
        assert np.linalg.norm(F @ F.T - H, 2) < 1.25 * best

    def test_more_iterations_come_closer(self):
        edges, H = network(), explicit(network()).toarray()
        fits = [LowRankFeatures(30, n_iter=n_iter, random_state=0).fit_transform(edges) for n_iter in (0, 2, 8)]
        errors = [np.linalg.norm(F @ F.T - H) for F in fits]
        assert errors[0] > errors[1] > errors[2]

    def test_all_columns_give_h(self):
        edges = network(100)
        F = LowRankFeatures(100, random_state=0).fit_transform(edges)
        np.testing.assert_allclose(F @ F.T, explicit(edges).toarray(), atol=1e-4)

    @pytest.mark.parametrize("n_iter", [-1, 1.5, True])
    def test_parameters(self, n_iter):
        with pytest.raises(ParameterError, match="'n_iter' parameter of LowRankFeatures"):
            LowRankFeatures(n_iter=n_iter).fit(network())


@pytest.mark.parametrize("transformer", TRANSFORMERS)
class TestAllTransformers:
    def test_one_edge(self, transformer):
        edges = TemporalEdges(["a"], ["b"], [5])
        model = transformer(decay=NoDecay(), random_state=0).fit(edges)
        assert model.n_components_ == 1
        assert model.transform(edges).shape == (1, 1)
        assert model.transform(edges)[0, 0] > 0.9

    def test_constant_times_have_a_way_out(self, transformer):
        edges = TemporalEdges([0, 1, 2], [1, 2, 3], [7, 7, 7])
        with pytest.raises(ParameterError, match="NoDecay"):
            transformer().fit(edges)
        assert transformer(decay=NoDecay(), random_state=0).fit_transform(edges).shape == (3, 3)

    def test_unseen_nodes_give_zeros(self, transformer):
        model = transformer(5, random_state=0).fit(network())
        rows = model.transform(TemporalEdges([1000, 1001], [1001, 1002], [1.0, 2.0]))
        np.testing.assert_array_equal(rows, np.zeros((2, 5)))

    def test_no_edges_to_transform(self, transformer):
        model = transformer(5, random_state=0).fit(network())
        assert model.transform(network()[:0]).shape == (0, 5)

    def test_new_edges_use_the_frozen_decay(self, transformer):
        edges = network()
        model = transformer(5, random_state=0).fit(edges)
        one = model.transform(edges[3:4])
        np.testing.assert_allclose(one, model.transform(edges)[3:4], atol=1e-6)

    @pytest.mark.parametrize("normalization", [None, "spectral", "edge"])
    def test_a_table_is_as_good_as_edges(self, transformer, normalization):
        edges = network(100)
        table = np.column_stack([edges.src, edges.dst, edges.time])
        model = transformer(5, normalization=normalization, random_state=0)
        np.testing.assert_allclose(model.fit_transform(table), model.fit_transform(edges), atol=1e-9)

    def test_a_seed_decides(self, transformer):
        edges = network()
        one, same, other = (transformer(5, random_state=seed).fit_transform(edges) for seed in (0, 0, 1))
        np.testing.assert_array_equal(one, same)
        assert (one != other).any() or transformer is EdgeEmbedding

    def test_no_more_columns_than_edges(self, transformer):
        assert transformer(500, random_state=0).fit_transform(network(20)).shape[1] <= 20

    def test_datetimes(self, transformer):
        time = np.datetime64("2020-01-01") + np.arange(50).astype("timedelta64[D]")
        edges = TemporalEdges(np.arange(50) % 7, np.arange(50) % 5 + 7, time)
        model = transformer(4, decay=Laplace("9d"), random_state=0).fit(edges)
        assert model.transform(edges[:3]).shape == (3, 4)

    @pytest.mark.parametrize("n_components", [0, 2.5, "many", True, None])
    def test_n_components_is_checked(self, transformer, n_components):
        with pytest.raises(ParameterError, match=f"'n_components' parameter of {transformer.__name__}"):
            transformer(n_components).fit(network())

    @pytest.mark.parametrize(("name", "value"), [("decay", 3.0), ("decay", Gaussian), ("n_threads", 0)])
    def test_the_graph_is_checked(self, transformer, name, value):
        with pytest.raises(ParameterError, match=f"'{name}' parameter of {transformer.__name__}"):
            transformer(**{name: value}).fit(network())

    def test_threads_change_nothing_but_rounding(self, transformer):
        edges = network()
        one, two = (transformer(5, n_threads=n, random_state=0).fit_transform(edges) for n in (1, 2))
        np.testing.assert_allclose(one, two, atol=1e-8)

    def test_nothing_but_zeros(self, transformer):
        decay = Mixture([Gaussian(1.0), Gaussian(1.0)], weights=[1.0, -1.0])
        model = transformer(3, decay=decay, random_state=0)
        assert np.isfinite(model.fit_transform(network(100))).all()
        assert np.isfinite(model.transform(network(100))).all()

    def test_normalization_is_checked(self, transformer):
        with pytest.raises(ParameterError, match="'normalization' parameter"):
            transformer(normalization="rows").fit(network())


class TestNodeEmbeddings:
    def by_loops(self, edges, Y):
        X, count = np.zeros((edges.n_nodes, Y.shape[1])), np.zeros(edges.n_nodes)
        for u, v, row in zip(edges.src_code, edges.dst_code, Y, strict=True):
            for node in {u, v}:
                X[node] += row
                count[node] += 1
        return X / np.maximum(count, 1)[:, np.newaxis]

    @pytest.mark.parametrize("form", [np.asarray, csr_array])
    def test_the_definition(self, form):
        edges = network(60)[:40]  # some nodes of the table have no edge here
        Y = np.random.default_rng(0).normal(size=(40, 3))
        X = node_embeddings(edges, form(Y))
        assert issparse(X) == (form is csr_array)
        np.testing.assert_allclose(X.toarray() if issparse(X) else X, self.by_loops(edges, Y), atol=1e-12)

    def test_rows_of_h(self):
        edges = network()
        X = node_embeddings(edges, explicit(edges))
        assert X.shape == (edges.n_nodes, len(edges))

    def test_bipartite(self):
        edges = TemporalEdges([1, 1], [1, 2], [0, 1], bipartite=True)
        np.testing.assert_array_equal(node_embeddings(edges, [[2.0], [4.0]]), [[3], [2], [4]])

    @pytest.mark.parametrize("Y", [np.zeros((3, 2)), np.zeros(400)])
    def test_shapes(self, Y):
        with pytest.raises(ParameterError, match="one row for each of the 400 edges"):
            node_embeddings(network(), Y)

    def test_only_edges_and_numbers(self):
        with pytest.raises(ParameterError, match=r"must be TemporalEdges\. Got ndarray"):
            node_embeddings(np.zeros((3, 3)), np.zeros((3, 2)))
        with pytest.raises(ParameterError, match="of numbers"):
            node_embeddings(network(), [["a"]] * 400)


def test_no_warnings_on_plain_data():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for transformer in TRANSFORMERS:
            transformer(8, random_state=0).fit(network()).transform(network(seed=1))
