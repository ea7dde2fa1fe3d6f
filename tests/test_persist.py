"""Saved models: every kind of value comes back, and predictions keep their bits."""

import io
import math
import os
import struct
import subprocess
import sys
import zipfile
from collections import namedtuple
from datetime import date, timedelta

import numpy as np
import pytest
import sklearn
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.testing import assert_array_equal
from sklearn.base import BaseEstimator
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from sklearn.svm import SVC

import tdlg
from saving import N, made_edges, reloaded, round_trip, same
from tdlg import Gaussian, Laplace, LineGraph, LineGraphClassifier, Mixture, NoDecay, TemporalEdges, load_model
from tdlg.exceptions import ParameterError, ReadError
from tdlg.persist import model as persist
from tdlg.persist.model import save_model
from tdlg.propagate.plan import OwnColumn

RNG = np.random.default_rng(0)


@pytest.fixture(scope="module")
def model():
    return LineGraphClassifier(bandwidth=20.0).fit(made_edges())


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.tdlg"


@pytest.fixture
def saved(model, path):
    model.save(path)
    return path


# ---- predictions


KINDS = {
    "integers": {},
    "string ids": {"ids": "node {}".format},
    "tuple ids": {"ids": lambda k: (k // 3, f"part {k}")},
    "mixed ids": {"ids": lambda k: k if k % 2 else f"x{k}"},
    "fractional ids": {"ids": lambda k: k + 0.5},
    "large ids": {"ids": lambda k: k + 2**70},
    "bipartite": {"bipartite": True},
    "bipartite strings": {"ids": str, "bipartite": True},
    "datetimes": {"times": lambda rng: np.datetime64("2020-01-01", "ns") + rng.integers(0, 10**17, N)},
    "float times": {"times": lambda rng: rng.normal(size=N)},
    "three classes": {"label": lambda src, dst: (src + dst) % 3},
    "string labels": {"label": lambda src, dst: np.where(src % 2, "odd", "even")},
    "missing labels": {
        "label": lambda src, dst: [None if s == 0 else ["a", "b", "c"][d % 3] for s, d in zip(src, dst, strict=True)]
    },
    "boolean labels": {"label": lambda src, dst: src > dst},
    "weights and features": {
        "weight": RNG.normal(size=N),
        "features": {"a": RNG.normal(size=N), "b": list("xyz") * 20},
    },
}


@pytest.mark.parametrize("normalization", [None, "spectral", "edge"])
@pytest.mark.parametrize("kind", KINDS)
def test_predictions_keep_their_bits(kind, normalization, path):
    edges = made_edges(**KINDS[kind])
    model = LineGraphClassifier(normalization=normalization).fit(edges[:40])
    loaded = reloaded(model, path)
    new = TemporalEdges(edges.src[::-1], edges.dst, edges.time, bipartite=edges.bipartite)
    for given_ in (edges[:40], edges[40:], edges[10:50:3], edges, new, edges[:0]):
        assert same(loaded.decision_function(given_), model.decision_function(given_))
        assert same(loaded.predict_proba(given_), model.predict_proba(given_))
        assert same(loaded.predict(given_), model.predict(given_))


@pytest.mark.parametrize(
    "decay",
    [
        Gaussian(relative=0.3),
        Laplace(7.5),
        NoDecay(),
        Mixture([Laplace(np.int64(3)), Mixture([Gaussian(9), NoDecay()], [0.5, -0.1])], weights=[0.8, 0.2]),
    ],
)
def test_decays_and_parameters_come_back(decay, path):
    model = LineGraphClassifier(decay, C=1 / 3, class_weight={0: 0.1, 1: 3}, tol=1e-7, n_threads=1).fit(made_edges())
    loaded = reloaded(model, path)
    assert loaded.get_params() == model.get_params()
    assert loaded.decay_ == model.decay_
    assert same(loaded.predict_proba(made_edges()), model.predict_proba(made_edges()))


@pytest.mark.parametrize("bandwidth", ["7d", timedelta(days=7, microseconds=3), np.timedelta64(7, "D")])
def test_durations_come_back(bandwidth, path):
    edges = made_edges(**KINDS["datetimes"])
    model = LineGraphClassifier(Gaussian(bandwidth)).fit(edges)
    loaded = reloaded(model, path)
    assert same(loaded.decay.bandwidth, bandwidth)
    assert same(loaded.predict_proba(edges), model.predict_proba(edges))


@pytest.mark.filterwarnings("ignore:The solver stopped")
def test_a_loaded_model_goes_on(path):
    edges = made_edges()
    model = LineGraphClassifier(bandwidth=20.0, max_iter=3).fit(edges)
    loaded = reloaded(model, path)
    assert repr(loaded) == repr(model)
    assert set(vars(loaded)) == set(vars(model))
    assert loaded.explain(edges[:2]).equals(model.explain(edges[:2]))
    assert same(loaded.fit(edges).coef_, model.fit(edges).coef_)
    assert same(reloaded(loaded, path).coef_, model.coef_)


def test_another_process_gives_the_same_bits(model, saved):
    columns = ", ".join(f"{c.tolist()}" for c in (model.edges_.src, model.edges_.dst, model.edges_.time))
    code = f"import tdlg; e = tdlg.TemporalEdges({columns}); m = tdlg.load_model({str(saved)!r}); "
    code += "print(m.predict_proba(e).tobytes().hex(), m.predict_proba(m.edges_).tobytes().hex())"
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    edges = TemporalEdges(model.edges_.src, model.edges_.dst, model.edges_.time)
    assert answer == [model.predict_proba(rows).tobytes().hex() for rows in (edges, model.edges_)]


# ---- values


scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(st.characters()),
    st.sampled_from([2**63, -(2**63) - 1, 10**400, -0.0, math.inf, math.nan, "\ud800", "\0"]),
)
keys = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), st.text(), st.tuples(st.text()))
dtypes = st.one_of(
    hnp.integer_dtypes(endianness="?"),
    hnp.unsigned_integer_dtypes(),
    hnp.floating_dtypes(),
    hnp.complex_number_dtypes(),
    hnp.boolean_dtypes(),
    hnp.unicode_string_dtypes(),
    hnp.datetime64_dtypes(),
    hnp.timedelta64_dtypes(),
)
arrays = hnp.arrays(dtypes, hnp.array_shapes(min_dims=0, min_side=0, max_side=4))
values = st.recursive(
    st.one_of(scalars, arrays),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4), st.lists(inner, max_size=4).map(tuple), st.dictionaries(keys, inner, max_size=4)
    ),
    max_leaves=12,
)


@settings(max_examples=150)
@given(values)
def test_values_come_back(tmp_path_factory, value):
    assert same(round_trip(value, tmp_path_factory.mktemp("values") / "m"), value)


@pytest.mark.parametrize(
    "value",
    [
        np.float64(0.1),
        np.float32(math.nan),
        np.int8(-3),
        np.uint64(2**64 - 1),
        np.bool_(True),
        np.str_("ü"),
        np.str_(""),
        np.complex128(1 - 2j),
        np.longdouble(1) / 3,
        np.datetime64("2020-01-01T00:00:00.5"),
        np.datetime64("NaT"),
        np.timedelta64(3, "h"),
        timedelta(-1, 5, 7),
        range(7, -2, -3),
        {np.int64(3): 1, 2.5: [], (1, "a"): ()},
        struct.unpack("<d", bytes.fromhex("010000000000f87f"))[0],  # a NaN that carries bits of its own
    ],
    ids=repr,
)
def test_scalars_come_back(value, path):
    assert same(round_trip(value, path), value)


def test_records_come_back(path):
    column = OwnColumn("amount", ("a", 3), 0.5, 2.0)
    loaded = round_trip([column, {"one": column}], path)
    assert same(loaded, [column, {"one": column}])


def test_object_arrays_come_back(path):
    array = np.empty((2, 4), object)
    array.flat[:] = [None, "a", 1, 2.5, True, (1, ("b", None)), np.float32(3), 10**30]
    assert same(round_trip(array, path), array)


def test_arrays_keep_their_order_and_lock(path):
    array = np.arange(6.0).reshape(2, 3).T
    array.flags.writeable = False
    loaded = round_trip([array, array.copy(order="F"), np.arange(10)[::3]], path)
    assert [a.flags.f_contiguous for a in loaded] == [True, True, True]
    assert [a.flags.writeable for a in loaded] == [False, True, True]
    assert loaded[0].strides == array.strides
    assert_array_equal(loaded[2], [0, 3, 6, 9])


def test_one_array_is_saved_once(path):
    array = np.zeros(10_000)
    loaded = round_trip([array, array, array.view()], path)
    assert path.stat().st_size < 1.5 * array.nbytes
    assert loaded[0] is loaded[1]


# ---- edges


def assert_same_edges(loaded, edges):
    for name in (
        "src",
        "dst",
        "time",
        "ticks",
        "label",
        "weight",
        "features",
        "node_ids",
        "rows",
        "src_code",
        "dst_code",
    ):
        a, b = getattr(loaded, name), getattr(edges, name)
        assert same(a, b), name
        assert a is None or not a.flags.writeable, name
    for name in ("time_unit", "feature_names", "feature_categories", "bipartite", "n_nodes", "n_src_nodes"):
        assert getattr(loaded, name) == getattr(edges, name), name


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("key", [slice(None), slice(5, 50, 2), slice(None, None, -1), [3, 3, 1], []])
def test_edges_come_back(kind, key, path):
    edges = made_edges(**KINDS[kind])[key]
    assert_same_edges(round_trip(edges, path), edges)


def test_slices_stay_slices_of_one_table(path):
    edges = made_edges(features=np.zeros((N, 500)))
    loaded = round_trip({"train": edges[:40], "test": edges[40:], "again": (train := edges[:40]), "same": train}, path)
    assert path.stat().st_size < 1.5 * edges.features.nbytes
    assert loaded["train"].same_table(loaded["test"])
    assert loaded["again"] is loaded["same"]
    assert loaded["again"].features.base is not None
    assert_array_equal(loaded["test"].rows, np.arange(40, N))
    assert not loaded["train"].same_table(made_edges())


def test_a_loaded_model_knows_its_edges(path):
    edges = made_edges()
    loaded = round_trip(edges[:40], path)
    assert loaded.same_table(edges)
    graph, expected = (LineGraph(edges[20:], part, include_self=False) for part in (loaded, edges[:40]))
    assert same(graph.to_csr().toarray(), expected.to_csr().toarray())


def test_changed_labels_stay_with_their_slice(path):
    edges = made_edges()
    loaded = round_trip([edges, edges.with_label(None), edges.with_label(["x"] * N)], path)
    assert loaded[1].label is None
    assert loaded[2].label.tolist() == ["x"] * N
    assert_array_equal(loaded[0].label, edges.label)


# ---- estimators inside


X = RNG.normal(size=(120, 4))
X[:, 3] = RNG.integers(0, 4, len(X))
Y = np.digitize(X[:, 0] + (X[:, 3] > 2), [-0.5, 0.5])


@pytest.mark.parametrize(
    "part",
    [
        LogisticRegression(),
        make_pipeline(StandardScaler(), LogisticRegression()),
        HistGradientBoostingClassifier(max_iter=3),
        HistGradientBoostingClassifier(max_iter=3, categorical_features=[3], random_state=0, early_stopping=True),
    ],
    ids=repr,
)
@pytest.mark.parametrize("n_classes", [2, 3])
def test_scikit_learn_parts_come_back(part, n_classes, path):
    part.fit(X, np.minimum(Y, n_classes - 1))
    loaded = round_trip([part, {"again": part}], path)
    assert same(loaded[0].predict_proba(X), part.predict_proba(X))
    assert loaded[0] is loaded[1]["again"]


@pytest.mark.parametrize(
    "part", [HistGradientBoostingClassifier(max_iter=3, categorical_features=[3]), SVC()], ids=repr
)
def test_a_loaded_part_gives_the_same_bytes(part, path):
    """The loaded one has other addresses, and is written at another time."""
    first = persist.part_to_bytes(part.fit(X, Y), "part")
    loaded = persist.part_from_bytes(first)
    assert persist.part_to_bytes(loaded, "part") == first
    with zipfile.ZipFile(io.BytesIO(first)) as file:
        assert {member.date_time for member in file.infolist()} == {(1980, 1, 1, 0, 0, 0)}


def test_estimators_inside_come_back(model, path):
    loaded = round_trip([model, LineGraphClassifier(C=7), model], path)
    assert loaded[0] is loaded[2]
    assert loaded[1].C == 7
    assert not hasattr(loaded[1], "coef_")
    assert same(loaded[0].predict_proba(model.edges_), model.predict_proba(model.edges_))


@pytest.mark.parametrize(
    "field", ["left", "right", "feature_idx", "bitset_idx", "circle", "n_features", "is_categorical"]
)
def test_trees_that_lead_astray_are_refused(field, path):
    trees = HistGradientBoostingClassifier(max_iter=2, categorical_features=[3], min_samples_leaf=5).fit(X, X[:, 3] % 2)
    nodes = max((t.nodes for tree in trees._predictors for t in tree), key=lambda nodes: nodes["is_categorical"].sum())
    categorical = np.flatnonzero(nodes["is_categorical"])[0]
    if field == "circle":
        nodes["left"][categorical] = categorical
    elif field == "n_features":
        trees._n_features = 40
    elif field == "is_categorical":
        trees._bin_mapper.is_categorical_[:] = 0
    else:
        nodes[field][categorical] = 10**6
    with pytest.raises(ReadError, match=r"trees' features|lead outside"):
        round_trip(trees, path)


def test_parts_of_other_types_are_not_read(path, monkeypatch):
    monkeypatch.setattr(persist, "TRUSTED", (*persist.TRUSTED, "posix.system", "nt.system"))
    model = LineGraphClassifier()
    model.classes_ = FunctionTransformer(os.system)
    model.save(path)
    monkeypatch.undo()
    with pytest.raises(ReadError, match=r"Untrusted.*system"):
        load_model(path)


@pytest.mark.parametrize("part", [RandomForestClassifier(2).fit(X, Y), FunctionTransformer(os.getcwd)])
def test_parts_that_could_not_be_read_are_not_written(part, path):
    with pytest.raises(
        ParameterError, match=rf"LineGraphClassifier\.classes_, a {type(part).__name__}, cannot be saved"
    ):
        round_trip(part, path)
    assert not path.exists()


# ---- what is refused on saving


class Own(LineGraphClassifier):
    """A class of the user's."""


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (np.random.RandomState(0), "random_state=0"),
        (np.random.default_rng(0), "random_state=0"),
        (object(), "builtins.object"),
        ([{"a": (1, object())}], r"classes_\[0\]\['a'\]\[1\] is a builtins.object"),
        (lambda: None, "builtins.function"),
        (int, "builtins.type"),
        ({1, 2}, "builtins.set"),
        (date(2020, 1, 1), "datetime.date"),
        (namedtuple("OwnColumn", "name")("a"), r"test_persist\.OwnColumn, which cannot be saved"),
        (np.array([object()]), r"classes_\[0\] is a builtins.object"),
        (np.zeros(2, "i4,f8"), "dtype"),
        (np.ma.masked_array([1.0]), "MaskedArray"),
        (TemporalEdges([date(2020, 1, 1)], [date(2020, 1, 2)], [0]), "datetime.date"),
        (Own(), "not a subclass of one"),
        (LineGraph(made_edges()), "LineGraph"),
    ],
)
def test_what_cannot_be_saved_is_named(value, words, path):
    path.write_text("before")
    with pytest.raises(ParameterError, match=words) as caught:
        round_trip(value, path)
    assert "LineGraphClassifier.classes_" in str(caught.value)
    assert path.read_text() == "before"
    assert os.listdir(path.parent) == [path.name]


def test_what_scikit_learn_routes_is_not_saved(path):
    edges = made_edges()
    with sklearn.config_context(enable_metadata_routing=True):
        model = LineGraphClassifier(bandwidth=20.0).set_fit_request(sample_weight=True).fit(edges)
    assert same(reloaded(model, path).predict_proba(edges), model.predict_proba(edges))


def test_an_unfitted_model_is_refused(path):
    with pytest.raises(NotFittedError, match="LineGraphClassifier is not fitted"):
        LineGraphClassifier().save(path)
    assert not path.exists()


@pytest.mark.parametrize(
    "model", [LogisticRegression().fit(X, Y), Own().fit(made_edges()), {"a": 1}, LineGraphClassifier]
)
def test_only_models_of_this_package_are_saved(model, path):
    with pytest.raises(ParameterError, match="must be an estimator of tdlg"):
        save_model(model, path)


def test_a_missing_folder_is_named(model, tmp_path):
    with pytest.raises(ParameterError, match=r"nowhere.*does not exist.*mkdir"):
        model.save(tmp_path / "nowhere" / "model.tdlg")


@pytest.mark.parametrize("path", [3, None, b"bytes"])
def test_a_path_is_a_path(path, model):
    for use in (model.save, load_model):
        with pytest.raises(ParameterError, match="'path' must be a string or a Path"):
            use(path)


def test_a_folder_is_no_file(model, tmp_path):
    with pytest.raises(ParameterError, match="is a folder: add a file name"):
        model.save(tmp_path)


# ---- all estimators


PUBLIC = {name: kind for name in tdlg.__all__ if isinstance(kind := getattr(tdlg, name), type)}
ESTIMATORS = {name: kind for name, kind in PUBLIC.items() if issubclass(kind, BaseEstimator)}
METHODS = ("predict", "predict_proba", "decision_function", "score_samples", "transform")


@pytest.mark.parametrize("name", ESTIMATORS)
@pytest.mark.filterwarnings("ignore:Only")
def test_every_public_estimator_keeps_its_bits(name, path):
    edges, kind = made_edges(ids=str), ESTIMATORS[name]
    few = {"n_components": 5} if "n_components" in kind().get_params() else {}
    model = kind(**few).fit(edges[:40])
    save_model(model, path)
    loaded, methods = load_model(path), [method for method in METHODS if hasattr(model, method)]
    assert type(loaded) is kind
    assert methods
    save_model(model, again := path.with_name("again"))
    assert again.read_bytes() == path.read_bytes()
    for method in methods:
        for given_ in (edges[:40], edges[40:], edges):
            answers = [getattr(fitted, method)(given_) for fitted in (loaded, model)]
            assert same(*(getattr(answer, "toarray", lambda a=answer: a)() for answer in answers)), method


PROPAGATION = """edges_ estimators_ features_ label_delay_ labels_ n_features_in_ n_rows_ n_rows_sampled_from_ setting_
    setting_reason_ typical_"""
SURPRISE = """auc_ burst_scale_ digits_ edges_ fast_ misplaced_ misplaced_scale_ n_features_in_ offset_ plan_
    rush_scale_ scales_ scores_ slow_ weights_"""
FITTED_IN_VERSION_5 = {
    "BurstDetector": "edges_ fast_ n_features_in_ offset_ plan_ scores_ slow_",
    "EdgeEmbedding": "decay_ edges_ eigenvalues_ embedding_ n_components_ n_features_in_",
    "EdgeOutlierDetector": f"{SURPRISE} detector_",
    "LineGraphClassifier": """classes_ coef_ decay_ edges_ intercept_ labels_ n_features_in_ n_iter_ n_products_
        objective_""",
    "LinkPredictor": "classes_ edges_ link_model_ n_features_in_",
    "LinkRanker": "edges_ method_ n_features_in_ n_queries_ next_trees_ pair_trees_ widths_",
    "LowRankFeatures": "components_ decay_ edges_ n_components_ n_features_in_",
    "MisplacedDetector": "auc_ edges_ model_ n_features_in_ offset_ scores_",
    "PropagationClassifier": f"{PROPAGATION} classes_ log_shares_",
    "RarityDetector": SURPRISE,
    "SurpriseDetector": SURPRISE,
    "PropagationFeatures": "edges_ label_ticks_ labelled_ labels_ n_features_in_ plan_",
    "PropagationRegressor": PROPAGATION,
}


@pytest.mark.parametrize("name", ESTIMATORS)
def test_other_fitted_attributes_need_another_version_of_the_format(name):
    """If this fails, raise `FORMAT_VERSION`: models saved before lack an attribute, or have one too many."""
    kind = ESTIMATORS[name]
    few = {"n_components": 5} if "n_components" in kind().get_params() else {}
    model = kind(**few).fit(made_edges())
    assert set(model.__getstate__()) - set(model.get_params(deep=False)) == set(FITTED_IN_VERSION_5[name].split())
    assert persist.FORMAT_VERSION == 10


def test_only_public_estimators_are_known():
    assert "LineGraphClassifier" in ESTIMATORS
    assert all(map(persist.is_estimator, ESTIMATORS.values()))
    assert not any(map(persist.is_estimator, (Own, BaseEstimator, LogisticRegression, TemporalEdges, dict)))
