from datetime import datetime

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import GridSearchCV, cross_val_score, train_test_split

from tdlg import (
    Gaussian,
    Laplace,
    LineGraph,
    LineGraphClassifier,
    Mixture,
    NoDecay,
    PropagationClassifier,
    TemporalEdges,
    from_frame,
    read_edges,
)
from tdlg.estimator import fitted_graph
from tdlg.exceptions import EdgesError, ParameterError
from tdlg.models.solver import Point, solve_logistic


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


def test_labels_that_do_not_count_change_nothing():
    edges, weight = network(), np.repeat([0.0, 1.0], [100, 200])
    flipped = np.where(weight > 0, edges.label, 1 - edges.label)
    options = {"bandwidth": "auto", "class_weight": "balanced", "random_state": 0}
    models = [LineGraphClassifier(**options).fit(edges, y, weight) for y in (edges.label, flipped)]
    assert np.array_equal(models[0].coef_, models[1].coef_)
    assert models[0].bandwidth_scores_ == models[1].bandwidth_scores_


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


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize("class_weight", [None, "balanced"])
def test_weights_of_edges_and_classes_are_scikit_learns(n_classes, missing, class_weight):
    edges, weight = network(n_classes=n_classes), np.random.default_rng(1).uniform(0, 3, 300)
    known = np.arange(300) % 7 > 0 if missing else np.ones(300, bool)
    y = np.where(known, edges.label, np.nan)
    options = {"class_weight": class_weight, "C": 0.7}
    model = LineGraphClassifier(Gaussian(10.0), tol=1e-9, **options).fit(edges, y, weight)
    H = matrix(model, edges)
    factors = weight[known]
    if class_weight:  # of older versions, those of scikit-learn do not know weights
        factors = factors * factors.sum() / n_classes / np.bincount(y[known].astype(int), factors)[y[known].astype(int)]
    reference = LogisticRegression(C=0.7, tol=1e-10, max_iter=20_000).fit(H[known], y[known], factors)
    np.testing.assert_allclose(model.coef_, reference.coef_, atol=2e-4)
    np.testing.assert_allclose(model.predict_proba(edges), reference.predict_proba(H), atol=1e-4)


def sparse_network(n_edges):
    """Every edge has few neighbours, and labels are clean: at 0 no entry of the gradient is large."""
    rng = np.random.default_rng(0)
    edges = TemporalEdges(*rng.integers(0, 2 * n_edges // 3, (2, n_edges)), rng.uniform(0, 1, n_edges))
    return edges.with_label(edges.dst % 2)


def test_the_optimum_of_a_large_sparse_network_is_not_missed():
    edges = sparse_network(300_000)
    model, best = (LineGraphClassifier(Gaussian(1.0), tol=tol).fit(edges) for tol in (1e-4, 1e-6))
    assert model.objective_ < 1.001 * best.objective_


def test_what_does_not_converge_says_so():
    with pytest.warns(ConvergenceWarning, match=r"after 1 steps, .*tolerance 0\.0001\. Raise max_iter= or tol="):
        LineGraphClassifier(Gaussian(10.0), max_iter=1).fit(network())


def test_bandwidth_is_chosen_on_training_edges_only():
    rng = np.random.default_rng(0)
    time = rng.uniform(0, 1000, 600)
    node = rng.integers(0, 3, 600)
    label = (np.floor(time / 20) + node) % 2  # changes every 20: a wide bandwidth cannot tell
    edges = TemporalEdges(node, 100 + rng.integers(0, 3, 600), time, label=label)
    model = LineGraphClassifier(bandwidth="auto", random_state=0).fit(edges)
    assert model.decay_.bandwidth < 30
    assert set(model.bandwidth_scores_) == {0.001, 0.01, 0.03, 0.1, 0.3, 1.0, 10.0}
    assert LineGraphClassifier(Laplace(), bandwidth=7.0).fit(edges).decay_ == Laplace(7.0)


class TestAutomaticBandwidth:
    """Folds are drawn once, weights count in fitting and judging, and every class is held out."""

    def scores(self, edges, y=None, random_state=0, **options):
        model = LineGraphClassifier(bandwidth="auto", random_state=random_state, max_iter=20).fit(edges, y, **options)
        return np.array(list(model.bandwidth_scores_.values()))

    def test_weights_count(self):
        edges, weight = network(120), np.random.default_rng(0).uniform(0.1, 10, 120)
        assert not np.allclose(self.scores(edges), self.scores(edges, sample_weight=weight))
        np.testing.assert_allclose(self.scores(edges, sample_weight=np.full(120, 1.0)), self.scores(edges))

    def test_weights_are_those_of_the_metric(self):
        """Weights of 3 judge as edges held out three times."""
        edges, weight = network(120), np.where(np.arange(120) % 2, 3.0, 1.0)
        model = LineGraphClassifier(bandwidth="auto", random_state=0)
        folds = model._folds(edges.label, weight)
        by_hand = []
        for test in folds:
            trained_on = weight.copy()
            trained_on[test] = 0
            fold = LineGraphClassifier(Gaussian(relative=0.1)).fit(edges, sample_weight=trained_on)
            repeated = np.repeat(test, weight[test].astype(int))
            by_hand.append(roc_auc_score(edges.label[repeated], fold.predict_proba(edges)[repeated, 1]))
        assert model.fit(edges, sample_weight=weight).bandwidth_scores_[0.1] == pytest.approx(np.mean(by_hand))

    def test_all_candidates_are_judged_on_the_same_folds(self, monkeypatch):
        seen = []
        judge = LineGraphClassifier._held_out_score
        monkeypatch.setattr(
            LineGraphClassifier,
            "_held_out_score",
            lambda self, decay, *args: seen.append(args[-1]) or judge(self, decay, *args),
        )
        for random_state in (None, np.random.RandomState(0), np.random.default_rng(0)):
            seen.clear()
            self.scores(network(60), random_state=random_state)
            assert len(seen) == 7
            assert all(folds is seen[0] for folds in seen)

    @pytest.mark.parametrize("n_classes", [2, 3])
    def test_a_class_of_two_edges(self, n_classes):
        edges = network(120, n_classes=n_classes)
        y = np.where(np.arange(120) < 2, 7, edges.label)
        assert np.isfinite(self.scores(edges, y)).all()

    def test_a_class_of_one_edge_is_too_small(self):
        with pytest.raises(EdgesError, match=r"7 has only one.*Pass more labels. Or set bandwidth="):
            self.scores(network(120), np.where(np.arange(120) < 1, 7, network(120).label))

    @pytest.mark.parametrize("missing", [False, True])
    def test_labels_of_any_kind(self, missing):
        edges = network(120)
        expected = self.scores(edges, np.where(np.arange(120) < 9 * missing, np.nan, edges.label))
        for kind in (lambda label: 2**60 + int(label), bool, "class {}".format):
            y = [None if missing and i < 9 else kind(label) for i, label in enumerate(edges.label.tolist())]
            np.testing.assert_allclose(self.scores(edges, y), expected)


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


@pytest.mark.parametrize("normalization", [None, "spectral", "edge"])
def test_contributions_add_up(normalization):
    for n_classes in (2, 3):
        edges = network(n_classes=n_classes)
        model = LineGraphClassifier(Gaussian(10.0), normalization=normalization).fit(edges)
        some = edges[[3, 50, 7]]
        table = model.contributions(some, top=4)
        scores = model.decision_function(some)
        scores = scores if n_classes == 2 else scores.max(axis=1)
        for i in range(3):
            part = table.filter(table["edge"] == i)
            expected = ["itself" if at == some.rows[i] else "interaction" for at in part["position"][:4]]
            assert part["part"].to_list() == [*expected, "others", "intercept"]
            named = model.predict(some)[i] if n_classes > 2 else 1
            assert part["class"].unique().to_list() == [named]
            assert part["contribution"].sum() == pytest.approx(scores[i], abs=1e-8)
            sizes = part["contribution"][:4].abs().to_list()
            assert sizes == sorted(sizes, reverse=True)
            first = part.row(0, named=True)
            assert first["src"] == edges.src[first["position"]]
            assert first["label"] == edges.label[first["position"]]
            assert first["contribution"] in first["proximity"] * model.coef_[:, first["position"]]
        everything = model.contributions(some, top=300)
        itself = everything.filter(everything["part"] == "itself")
        assert itself[["edge", "position"]].rows() == [(0, 3), (1, 50), (2, 7)]
        copies = TemporalEdges(some.src, some.dst, some.time)
        assert "itself" not in model.contributions(copies, top=300)["part"]
    with pytest.raises(ParameterError, match="'top' parameter"):
        model.contributions(some, top=0)


@pytest.mark.parametrize("normalization", [None, "spectral", "edge"])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_effects_are_contributions_to_the_score(n_classes, normalization):
    edges = network(n_classes=n_classes)
    model = LineGraphClassifier(Gaussian(10.0), normalization=normalization).fit(edges)
    rows = np.array([50, 3])
    for positive in (None, *model.classes_):
        table = model.explain(edges, top=4, rows=rows, positive=positive)
        scores = model.decision_function(edges[rows])
        scores = np.column_stack([-scores, scores]) if n_classes == 2 else scores
        default = [1, 1] if n_classes == 2 else scores.argmax(axis=1)
        codes = default if positive is None else [model.classes_.tolist().index(positive)] * 2
        for k, (row, code) in enumerate(zip(rows, codes, strict=True)):
            mine = table.filter(table["edge"] == row)
            assert set(mine["class"]) == {model.classes_[code]}
            assert mine["score"].to_list() == pytest.approx([scores[k, code]] * 4)
            assert mine["rank"].to_list() == [1, 2, 3, 4]
            assert set(mine["src", "dst", "time"].rows()) == {(edges.src[row], edges.dst[row], edges.time[row])}
            weights = model.coef_[code] if n_classes == 3 else model.coef_[0] * (1 if code else -1)
            every = fitted_graph(model, edges[[row]]).row(0).toarray().ravel() * weights
            assert sorted(np.abs(every))[:-5:-1] == pytest.approx(mine["effect"].abs().to_list())
            for what, effect, reason, (at,) in mine["what", "effect", "reason", "neighbours"].iter_rows():
                assert effect == pytest.approx(every[at])
                assert what == ("itself" if at == row else "interaction")
                assert reason.endswith(f"labelled {edges.label[at]}")
                if at != row:
                    assert reason.startswith(
                        f"near the interaction from node {edges.src[at]} to node {edges.dst[at]}, "
                    )


def test_both_classifiers_explain_with_the_same_table():
    edges = network()
    edges = edges.with_label(np.where(edges.label == 1, "fraud", "fine"))
    models = [LineGraphClassifier().fit(edges), PropagationClassifier(random_state=0).fit(edges)]
    tables = [model.explain(edges, 2, rows=[4], positive="fine") for model in models]
    assert tables[0].schema == tables[1].schema
    same = ["edge", "src", "dst", "time", "class", "rank"]
    assert tables[0][same].equals(tables[1][same])


def test_no_reason_is_without_effect():
    edges = TemporalEdges(["a", "b", "c"], ["x", "y", "z"], [0, 1, 2], label=[0, 1, 1])
    model = LineGraphClassifier(Gaussian(1.0)).fit(edges)
    assert model.explain(edges, top=3)["what"].to_list() == ["itself"] * 3
    assert (
        model.explain(edges[:1])["reason"].item()
        == "this interaction itself, which the model was fitted on, labelled 0"
    )


def test_explanations_refuse_what_is_wrong():
    edges = network()
    model = LineGraphClassifier().fit(edges)
    with pytest.raises(ParameterError, match="'top' parameter of explain"):
        model.explain(edges, top=0)
    with pytest.raises(ParameterError, match=r"'positive' class must be one of the classes \[0, 1\]\. Got 2"):
        model.explain(edges, positive=2)
    with pytest.raises(ParameterError, match="Leave out label_time="):
        model.explain(edges, label_time=edges.time)


@pytest.mark.parametrize(
    ("ids", "dtype"),
    [
        ([1, 2, 3], pl.Int64),
        (["a", "b", "c"], pl.String),
        ([1, "b", ("c", 2)], pl.Object),
        ([0.5, 1.5, 2.5], pl.Float64),
    ],
)
def test_explanations_keep_ids_as_they_are(ids, dtype):
    edges = TemporalEdges(ids, ids[::-1], [0, 1, 2], label=["u", "v", None])
    model = LineGraphClassifier(Gaussian(2.0)).fit(edges)
    table = model.contributions(edges, top=3)
    assert table.schema["src"] == dtype == model.explain(edges).schema["src"]
    assert [type(value) for value in table["src"].to_list() if value == ids[0]] == [type(ids[0])] * 2
    for method, some in ((model.contributions, table), (model.explain, model.explain(edges))):
        none = method(edges[:0])
        assert none.height == 0
        assert none.drop("src", "dst").schema == some.drop("src", "dst").schema


def test_works_in_model_selection():
    edges = network()
    scores = cross_val_score(LineGraphClassifier(Gaussian(10.0)), edges, edges.label, cv=3)
    assert scores.mean() > 0.7
    search = GridSearchCV(LineGraphClassifier(Gaussian(10.0)), {"C": [0.1, 1.0]}, cv=3).fit(edges, edges.label)
    assert search.best_params_["C"] in (0.1, 1.0)


def test_score_looks_at_known_labels():
    edges = network()
    hidden = edges.label.astype(float)
    hidden[::3] = np.nan
    model = LineGraphClassifier(Gaussian(10.0)).fit(edges)
    right = model.predict(edges) == edges.label
    assert model.score(edges) == right.mean()
    assert model.score(edges, hidden) == model.score(edges.with_label(hidden)) == right[~np.isnan(hidden)].mean()
    weight = np.arange(300.0)
    assert model.score(edges, sample_weight=weight) == pytest.approx(np.average(right, weights=weight))
    with pytest.raises(EdgesError, match="All labels are missing"):
        model.score(edges, np.full(300, np.nan))
    scores = cross_val_score(LineGraphClassifier(Gaussian(10.0)), edges.with_label(hidden), cv=3, error_score="raise")
    assert scores.mean() > 0.6


class TestTables:
    """The columns of a dataframe keep their kinds."""

    LARGE = pd.DataFrame({"src": 2**60 + np.arange(4), "dst": [1, 1, 2, 2], "time": [0.5, 1, 2, 3]})
    DATED = LARGE.assign(
        src=[1, 2, 3, 4], time=pd.to_datetime(["2020-01-01", "2020-01-02", "2020-01-03", "2020-01-04"])
    )

    @pytest.mark.parametrize(
        "kind", [lambda frame: frame, pl.from_pandas, lambda frame: pl.from_pandas(frame).to_arrow()]
    )
    @pytest.mark.parametrize("ids", [[1, 1, 2, 2], list("aabb")])
    def test_large_ids_stay_apart(self, kind, ids):
        frame = kind(self.LARGE.assign(dst=ids))
        model = LineGraphClassifier(Gaussian(1.0)).fit(frame, [0, 1, 0, 1])
        assert model.edges_.n_nodes == from_frame(frame).n_nodes == 6
        assert model.edges_.src.tolist() == self.LARGE["src"].tolist()
        assert len(set(model.decision_function(frame))) == 4

    @pytest.mark.filterwarnings("ignore:X has feature names")
    @pytest.mark.parametrize("kind", [lambda frame: frame, pl.from_pandas])
    def test_datetimes_beside_integers(self, kind):
        frame = kind(self.DATED)
        from_table, from_edges = (
            LineGraphClassifier(bandwidth="1d").fit(X, [0, 1, 0, 1]) for X in (frame, from_frame(frame))
        )
        assert from_table.edges_.time.tolist() == from_edges.edges_.time.tolist()
        np.testing.assert_array_equal(from_table.predict(frame), from_edges.predict(frame))
        assert from_edges.decision_function(frame) == pytest.approx(from_edges.decision_function(from_frame(frame)))

    def test_lists_of_rows(self):
        rows = [[2**60 + k, "ab"[k % 2], datetime(2020, 1, 1 + k)] for k in range(4)]
        model = LineGraphClassifier(Gaussian("1d")).fit(rows, [0, 1, 0, 1])
        assert model.edges_.src.tolist() == [2**60 + k for k in range(4)]
        assert model.edges_.time_unit is not None

    def test_ids_that_floats_cannot_tell_apart_are_refused(self):
        with pytest.raises(EdgesError, match=r"'src' has the id 1\.15.*e\+18 in row 0.*as integers or strings"):
            LineGraphClassifier(Gaussian(1.0)).fit(self.LARGE.to_numpy(), [0, 1, 0, 1])
        with pytest.raises(EdgesError, match="float32"):
            TemporalEdges(np.array([2**24], np.float32), [1], [0])
        assert TemporalEdges([2.0**53 - 1], [1], [0]).src.tolist() == [2**53 - 1]

    def test_features_may_be_of_any_kind(self):
        frame = self.LARGE.assign(kind=list("pqpq"), amount=[1, np.nan, 2, 3])
        edges = LineGraphClassifier(Gaussian(1.0)).fit(frame, [0, 1, 0, 1]).edges_
        np.testing.assert_array_equal(edges.features, [[0, 1], [1, np.nan], [0, 2], [1, 3]])

    def test_too_few_columns_or_rows(self):
        with pytest.raises(EdgesError, match="at least 2 columns"):
            LineGraphClassifier().fit(self.LARGE[["src"]], [0, 1, 0, 1])
        with pytest.raises(EdgesError, match="got no edges"):
            LineGraphClassifier().fit(self.LARGE[:0], [])

    def test_names_are_those_of_the_last_fit(self):
        model = LineGraphClassifier(Gaussian(1.0)).fit(self.LARGE, [0, 1, 0, 1])
        assert model.feature_names_in_.tolist() == ["src", "dst", "time"]
        assert not hasattr(model.fit(network()), "feature_names_in_")


@pytest.mark.parametrize(
    "y",
    [
        [None, True, False, True],
        pd.Series([None, True, False, True], dtype="boolean"),
        pl.Series([None, True, False, True]),
        [None, 1, 0, 1],
        [pd.NA, 1, 0, 1],
        np.array([None, 1, 0, 1]),
        pd.Series([None, 1, 0, 1], dtype="Int64"),
        pl.Series([None, 1, 0, 1]),
        [None, 2**60 + 1, 2**60, 2**60 + 1],
        pd.Series([None, 2**60 + 1, 2**60, 2**60 + 1], dtype="Int64"),
        [np.nan, 1.0, 0.0, 1.0],
        [None, "b", "a", "b"],
    ],
    ids=repr,
)
def test_labels_keep_their_kind_beside_missing_ones(y):
    edges = TemporalEdges([1, 2, 3, 4], [5, 5, 6, 6], [0, 1, 2, 3])
    model = LineGraphClassifier(Gaussian(1.0)).fit(edges, y)
    given = (y if isinstance(y, list) else y.tolist() if isinstance(y, np.ndarray) else y.to_list())[1:]
    classes = sorted(set(given))
    assert model.classes_.tolist() == classes
    assert [type(value) for value in model.classes_.tolist()] == [type(value) for value in classes]
    assert model.score(edges, y) in (0, 1 / 3, 2 / 3, 1)
    assert [row for row in model.labels_.tolist() if row == row and row is not None] == given


def test_booleans_with_missing_ones_may_come_with_the_edges():
    edges = TemporalEdges([1, 2, 3], [5, 5, 6], [0, 1, 2], label=[None, True, False])
    assert LineGraphClassifier(Gaussian(1.0)).fit(edges).classes_.dtype == bool


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
        ({"decay": 3.0}, r"'decay' parameter of LineGraphClassifier.*Got 3.0"),
        ({"decay": "gaussian"}, r"'decay' parameter.*Got 'gaussian'"),
        ({"decay": Gaussian}, r"'decay' parameter.*Got <class"),
        ({"max_iter": 2.5}, r"'max_iter' parameter.*Got 2.5"),
        ({"C": np.inf}, r"'C' parameter.*Got inf"),
        ({"C": True}, r"'C' parameter.*Got True"),
        ({"n_threads": 0}, r"'n_threads' parameter of LineGraphClassifier.*Got 0"),
        ({"bandwidth": [1, 2]}, r"'bandwidth' parameter.*Got \[1, 2\]"),
        (
            {"decay": Mixture([Laplace(1.0)]), "bandwidth": 3.0},
            r"'bandwidth' parameter.*Set the bandwidths in the decay",
        ),
    ],
)
def test_wrong_parameters(options, message):
    with pytest.raises(ParameterError, match=message):
        LineGraphClassifier(**options).fit(network())


@pytest.mark.parametrize(
    ("weight", "message"),
    [(-np.ones(300), "must not be negative"), (np.repeat([0.0, 1.0], [100, 200]), "is 0 for all edges of known label")],
)
def test_wrong_weights(weight, message):
    y = np.where(np.arange(300) < 100, network().label, np.nan)
    with pytest.raises(ParameterError, match=f"'sample_weight' {message}"):
        LineGraphClassifier(Gaussian(10.0)).fit(network(), y, weight)


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


@pytest.mark.parametrize("seed", range(10))
def test_solver_finds_the_optimum_from_anywhere(seed):
    """Far from it, probabilities are 0 and 1, and Newton's steps are far too long."""
    edges, rng = network(n_classes=2 + seed % 2), np.random.default_rng(seed)
    H, target = LineGraph(edges, decay=Gaussian(10.0)), np.eye(3)[edges.label][:, : 2 + seed % 2]
    target = target[:, 1] if target.shape[1] == 2 else target
    n_outputs = 1 if target.ndim == 1 else 3
    start = Point(rng.normal(size=(300, n_outputs)) * 10.0 ** (seed % 4 - 1), rng.normal(size=n_outputs))
    cold, warm = (solve_logistic(H, target, np.ones(300), tol=1e-7, start=at) for at in (None, start))
    assert cold.converged
    assert warm.converged
    assert warm.objective == pytest.approx(cold.objective, rel=1e-5)


def test_solver_stops_when_asked():
    edges = network()
    H = LineGraph(edges, decay=Gaussian(10.0))
    limited = solve_logistic(H, edges.label.astype(float), np.ones(300), max_iter=1)
    assert (limited.n_iter, limited.converged) == (1, False)
    assert clone(LineGraphClassifier(max_iter=3)).max_iter == 3


@pytest.mark.needs("data", "time")
@pytest.mark.parametrize(("name", "least"), [("bitcoinalpha", 0.90), ("bitcoinotc", 0.92)])
def test_the_papers_edge_classification(name, least, data_dir):
    edges = read_edges(data_dir / f"soc-sign-{name}.csv", src=0, dst=1, label=2, time=3)
    positive = (edges.label > 0).astype(float)
    test = train_test_split(np.arange(len(edges)), test_size=0.3, random_state=0)[1]
    hidden = positive.copy()
    hidden[test] = np.nan
    model = LineGraphClassifier(class_weight="balanced").fit(edges, hidden)
    assert roc_auc_score(positive[test], model.predict_proba(edges[test])[:, 1]) >= least
