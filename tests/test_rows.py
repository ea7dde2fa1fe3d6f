import numpy as np
import pytest
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import GridSearchCV, cross_val_score, train_test_split
from sklearn.utils.estimator_checks import parametrize_with_checks

from tdlg import (
    EdgesError,
    Gaussian,
    Laplace,
    LineGraph,
    LineGraphClassifier,
    Mixture,
    NoDecay,
    ParameterError,
    TemporalEdges,
    read_edges,
)
from tdlg.models.solver import logistic_regression

EXPECTED_FAILURES = {
    "check_sample_weight_equivalence_on_dense_data": "an edge given twice is twice a column of the line graph",
    "check_dtype_object": "ids may be any hashables; one that is none is refused by the package's own error",
}


@parametrize_with_checks(
    [LineGraphClassifier(decay=NoDecay())], expected_failed_checks=lambda estimator: EXPECTED_FAILURES
)
def test_scikit_learn_contract(estimator, check):
    check(estimator)


def network(n_edges=300, n_nodes=20, n_classes=2, seed=0):
    """Labels that depend on the destination, mostly."""
    rng = np.random.default_rng(seed)
    src, dst = rng.integers(0, n_nodes, (2, n_edges))
    label = np.where(rng.random(n_edges) < 0.9, dst % n_classes, rng.integers(0, n_classes, n_edges))
    return TemporalEdges(src, dst, rng.uniform(0, 100, n_edges), label=label)


def matrix(model, edges):
    graph = LineGraph(edges, decay=model.decay_)
    return (graph if model.normalization is None else graph.normalized(model.normalization)).to_csr()


def objective(model, H, target, weight, coef, intercept):
    scores = H @ coef.T + intercept
    losses = np.logaddexp(0, scores[:, 0]) - target * scores[:, 0]
    return 0.5 * (coef**2).sum() + model.C * weight @ losses


@pytest.mark.parametrize("normalization", [None, "spectral", "edge"])
@pytest.mark.parametrize("class_weight", [None, "balanced"])
@pytest.mark.parametrize("C", [0.1, 10.0])
def test_agrees_with_scikit_learn_for_two_classes(normalization, class_weight, C):
    edges = network()
    model = LineGraphClassifier(
        Gaussian(10.0), normalization=normalization, C=C, class_weight=class_weight, tol=1e-9
    ).fit(edges)
    reference = LogisticRegression(C=C, class_weight=class_weight, tol=1e-10, max_iter=10_000)
    H = matrix(model, edges)
    reference.fit(H, edges.label)
    np.testing.assert_allclose(model.coef_, reference.coef_, atol=2e-4)
    np.testing.assert_allclose(model.intercept_, reference.intercept_, atol=2e-4)
    np.testing.assert_allclose(model.predict_proba(edges), reference.predict_proba(H), atol=1e-4)
    weight = np.ones(300)
    if class_weight:
        weight = 150 / np.bincount(edges.label)[edges.label]
    ours = objective(model, H, edges.label, weight, model.coef_, model.intercept_)
    theirs = objective(model, H, edges.label, weight, reference.coef_, reference.intercept_)
    assert ours == pytest.approx(model.objective_, rel=1e-8)
    assert ours <= theirs * (1 + 1e-9)


def test_agrees_with_scikit_learn_for_more_classes():
    edges = network(n_classes=4)
    model = LineGraphClassifier(Laplace(10.0), tol=1e-9).fit(edges)
    reference = LogisticRegression(tol=1e-10, max_iter=10_000).fit(matrix(model, edges), edges.label)
    np.testing.assert_allclose(model.predict_proba(edges), reference.predict_proba(matrix(model, edges)), atol=1e-4)
    np.testing.assert_allclose(model.coef_, reference.coef_, atol=2e-4)
    assert model.decision_function(edges).shape == (300, 4)


def test_missing_labels_are_in_the_graph_but_not_trained_on():
    edges = network()
    train, test = train_test_split(np.arange(300), test_size=0.3, random_state=0)
    hidden = edges.label.astype(float)
    hidden[test] = np.nan
    model = LineGraphClassifier(Gaussian(10.0), tol=1e-8).fit(edges, hidden)
    H = matrix(model, edges)
    reference = LogisticRegression(tol=1e-10, max_iter=10_000).fit(H[train], edges.label[train])
    np.testing.assert_allclose(model.predict_proba(edges[test]), reference.predict_proba(H[test]), atol=1e-4)
    assert np.array_equal(
        LineGraphClassifier(Gaussian(10.0), tol=1e-8).fit(edges.with_label(hidden)).coef_, model.coef_
    )
    assert model.score(edges[test], edges.label[test]) > 0.6


def test_test_labels_change_nothing():
    edges = network()
    first, second = edges.label.astype(float), 1.0 - edges.label
    for labels in (first, second):
        labels[:100] = np.nan
    second[100:] = first[100:]
    models = [LineGraphClassifier(Gaussian(10.0)).fit(edges.with_label(labels)) for labels in (first, second)]
    assert np.array_equal(models[0].coef_, models[1].coef_)


def test_new_edges_are_rows_against_the_fitted_ones():
    edges, new = network(), network(seed=1)
    model = LineGraphClassifier(Gaussian(10.0)).fit(edges)
    rows = LineGraph(new, edges, decay=Gaussian(10.0)).to_csr()
    np.testing.assert_allclose(model.decision_function(new), rows @ model.coef_[0] + model.intercept_[0], atol=1e-8)
    strangers = TemporalEdges([1000, 1001], [2000, 2001], [5.0, 6.0])
    np.testing.assert_allclose(model.decision_function(strangers), model.intercept_[0])


def test_sample_weights_repeat_edges_in_the_loss():
    edges = network()
    weight = np.random.default_rng(0).integers(0, 3, 300).astype(float)
    model = LineGraphClassifier(Gaussian(10.0), tol=1e-9).fit(edges, sample_weight=weight)
    reference = LogisticRegression(tol=1e-10, max_iter=10_000)
    reference.fit(matrix(model, edges), edges.label, sample_weight=weight)
    np.testing.assert_allclose(model.coef_, reference.coef_, atol=2e-4)


def test_warm_start_needs_fewer_products():
    edges = network()
    model = LineGraphClassifier(Gaussian(10.0), warm_start=True, tol=1e-6).fit(edges)
    cold, solution = model.n_products_, model.coef_
    model.fit(edges)
    assert model.n_products_ < cold / 5
    np.testing.assert_allclose(model.coef_, solution, atol=1e-3)
    model.fit(network(n_edges=200))
    assert model.coef_.shape == (1, 200)


def test_bandwidth_is_chosen_on_training_edges_only():
    rng = np.random.default_rng(0)
    time = rng.uniform(0, 1000, 600)
    node = rng.integers(0, 3, 600)
    label = (np.floor(time / 20) + node) % 2  # changes every 20: a wide bandwidth cannot tell
    edges = TemporalEdges(node, 100 + rng.integers(0, 3, 600), time, label=label)
    model = LineGraphClassifier(bandwidth="auto", random_state=0).fit(edges)
    assert model.decay_.bandwidth < 30
    assert set(model.bandwidth_scores_) == {0.001, 0.01, 0.03, 0.1, 0.3, 1.0, 10.0}
    hidden = label.copy()
    hidden[::3] = np.nan
    flipped = np.where(np.isnan(hidden), np.nan, hidden)
    same = [
        LineGraphClassifier(bandwidth="auto", random_state=0).fit(edges, y).bandwidth_scores_ for y in (hidden, flipped)
    ]
    assert same[0] == same[1]
    assert LineGraphClassifier(Laplace(), bandwidth=7.0).fit(edges).decay_ == Laplace(7.0)


def test_decay_is_frozen_at_fit():
    edges = network()
    model = LineGraphClassifier().fit(edges)
    assert model.decay_ == Gaussian(0.1 * edges.time.std())


def test_labels_of_strings_and_dates_as_times():
    edges = network()
    named = TemporalEdges(
        [f"u{i}" for i in edges.src],
        [f"v{i}" for i in edges.dst],
        np.datetime64("2024-01-01") + (edges.time * 3600).astype("timedelta64[s]"),
        label=["good" if y else None if i % 7 == 0 else "bad" for i, y in enumerate(edges.label)],
    )
    model = LineGraphClassifier(Gaussian("10h")).fit(named)
    assert model.classes_.tolist() == ["bad", "good"]
    assert set(model.predict(named)) <= {"bad", "good"}


def test_explanations_add_up():
    for n_classes in (2, 3):
        edges = network(n_classes=n_classes)
        model = LineGraphClassifier(Gaussian(10.0)).fit(edges)
        some = edges[[3, 50, 7]]
        table = model.explain(some, top=4)
        scores = model.decision_function(some)
        scores = scores if n_classes == 2 else scores.max(axis=1)
        for i in range(3):
            part = table.filter(table["edge"] == i)
            assert set(part["part"][:4]) <= {"interaction", "itself"}
            assert part["part"][4:].to_list() == ["others", "intercept"]
            itself = part.filter(part["part"] == "itself")["position"].to_list()
            assert itself in ([], [some.rows[i]])
            assert part["contribution"].sum() == pytest.approx(scores[i], abs=1e-8)
            sizes = part["contribution"][:4].abs().to_list()
            assert sizes == sorted(sizes, reverse=True)
            first = part.row(0, named=True)
            assert first["src"] == edges.src[first["position"]]
            assert first["label"] == edges.label[first["position"]]
            assert first["contribution"] in first["proximity"] * model.coef_[:, first["position"]]
    with pytest.raises(ParameterError, match="'top' parameter"):
        model.explain(some, top=0)


def test_works_in_model_selection():
    edges = network()
    scores = cross_val_score(LineGraphClassifier(Gaussian(10.0)), edges, edges.label, cv=3)
    assert scores.mean() > 0.7
    search = GridSearchCV(LineGraphClassifier(Gaussian(10.0)), {"C": [0.1, 1.0]}, cv=3).fit(edges, edges.label)
    assert search.best_params_["C"] in (0.1, 1.0)


def test_a_table_is_src_dst_time():
    edges = network()
    table = np.column_stack([edges.src, edges.dst, edges.time])
    from_table = LineGraphClassifier(Gaussian(10.0)).fit(table, edges.label)
    assert np.array_equal(from_table.coef_, LineGraphClassifier(Gaussian(10.0)).fit(edges).coef_)
    np.testing.assert_allclose(from_table.predict_proba(table), from_table.predict_proba(edges), atol=1e-9)


@pytest.mark.parametrize(
    ("label", "message"),
    [(np.full(300, np.nan), "All labels are missing"), (np.ones(300), "only 1 class"), (None, "no labels")],
)
def test_labels_that_teach_nothing(label, message):
    edges = network()
    bare = TemporalEdges(edges.src, edges.dst, edges.time)
    with pytest.raises(EdgesError, match=message):
        LineGraphClassifier(Gaussian(10.0)).fit(bare, label)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"C": 0.0}, r"'C' parameter.*Got 0.0"),
        ({"tol": "small"}, r"'tol' parameter.*Got 'small'"),
        ({"normalization": "both"}, r"'normalization' parameter.*Got 'both'"),
        ({"decay": Mixture([Laplace(1.0)]), "bandwidth": 3.0}, r"'bandwidth' parameter.*give the widths in the decay"),
    ],
)
def test_wrong_parameters(options, message):
    with pytest.raises(ParameterError, match=message):
        LineGraphClassifier(**options).fit(network())


def test_constant_times_name_the_way_out():
    edges = TemporalEdges([0, 1, 2], [1, 2, 3], [5, 5, 5], label=[0, 1, 0])
    with pytest.raises(ParameterError, match=r"NoDecay\(\)"):
        LineGraphClassifier().fit(edges)
    assert LineGraphClassifier(NoDecay()).fit(edges).predict(edges).shape == (3,)


def test_no_edges():
    with pytest.raises(EdgesError, match="no edges"):
        LineGraphClassifier().fit(TemporalEdges([], [], [], label=[]))


def test_large_networks_are_trained_although_their_first_gradient_is_small():
    rng = np.random.default_rng(0)
    n = 30_000
    edges = TemporalEdges(*rng.integers(0, 20_000, (2, n)), rng.uniform(0, 1, n))
    model = LineGraphClassifier(Gaussian(1.0)).fit(edges, edges.dst % 2)
    assert model.n_iter_ > 0
    assert model.score(edges, edges.dst % 2) > 0.9


def test_explanations_of_dates():
    edges = TemporalEdges([0, 1, 2], [5, 5, 6], np.array(["2024-01-01", "2024-01-02", "2024-01-03"], "datetime64[ns]"))
    table = LineGraphClassifier(Gaussian("2d")).fit(edges, [1, 1, 0]).explain(edges[:1], top=1)
    assert str(table["time"][0]).startswith("2024-01-0")


def test_a_bipartite_model_takes_a_table():
    edges = TemporalEdges([0, 1, 0, 1], [0, 0, 1, 1], [0, 1, 2, 3], label=[0, 0, 1, 1], bipartite=True)
    model = LineGraphClassifier(Gaussian(5.0)).fit(edges)
    np.testing.assert_allclose(model.decision_function([[0, 0, 0]]), model.decision_function(edges[:1]))


def test_solver_stops_when_asked():
    edges = network()
    H = LineGraph(edges, decay=Gaussian(10.0))
    steps = []
    weight = np.ones(300)
    logistic_regression(
        H, edges.label.astype(float), weight, callback=lambda *step: steps.append(step) or len(steps) == 2
    )
    assert [step for step, _ in steps] == [1, 2]
    limited = logistic_regression(H, edges.label.astype(float), weight, max_iter=1)
    assert (limited.n_iter, limited.converged) == (1, False)
    assert clone(LineGraphClassifier(max_iter=3)).max_iter == 3


@pytest.mark.needs("data")
@pytest.mark.parametrize(("name", "least"), [("bitcoinalpha", 0.90), ("bitcoinotc", 0.92)])
def test_the_papers_edge_classification(name, least, data_dir):
    edges = read_edges(data_dir / f"soc-sign-{name}.csv", src=0, dst=1, label=2, time=3)
    positive = (edges.label > 0).astype(float)
    test = train_test_split(np.arange(len(edges)), test_size=0.3, random_state=0)[1]
    hidden = positive.copy()
    hidden[test] = np.nan
    model = LineGraphClassifier(class_weight="balanced").fit(edges, hidden)
    assert roc_auc_score(positive[test], model.predict_proba(edges[test])[:, 1]) >= least
