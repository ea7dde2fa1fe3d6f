"""What all estimators share: how they read ids and tables, and that a fit which does not end changes nothing."""

import gc
import threading
import warnings
from copy import deepcopy

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone

from tdlg import (
    BurstDetector,
    EdgeEmbedding,
    EdgeOutlierDetector,
    LineGraphClassifier,
    LinkPredictor,
    LinkRanker,
    LowRankFeatures,
    MisplacedDetector,
    NoDecay,
    PropagationClassifier,
    PropagationFeatures,
    PropagationRegressor,
    TemporalEdges,
    from_frame,
    load_model,
)
from tdlg.estimator import ANSWERS, EdgesEstimator, known_labels, new_nodes
from tdlg.exceptions import EdgesError, ReadError, TdlgWarning
from tdlg.linegraph.events import Layout
from tdlg.tables.ids import id_key

pytestmark = pytest.mark.usefixtures("few_trees")

SRC, DST, TIME = np.random.default_rng(0).integers(1, 30, (3, 200))
LABEL = (DST % 3 == 0).astype(int)

ESTIMATORS = [
    PropagationClassifier(random_state=0, setting="interpolate"),
    PropagationRegressor(random_state=0, setting="interpolate"),
    LineGraphClassifier(),
    LinkPredictor(random_state=0),
    LinkPredictor("linegraph", random_state=0),
    LinkRanker("recency"),
    MisplacedDetector(random_state=0),
    BurstDetector(),
    EdgeOutlierDetector(random_state=0),
    PropagationFeatures(),
    EdgeEmbedding(3, random_state=0),
    LowRankFeatures(3, random_state=0),
]

FORMS = {
    "int": lambda ids: ids,
    "int32": lambda ids: ids.astype(np.int32),
    "uint64": lambda ids: ids.astype(np.uint64),
    "float": lambda ids: ids.astype(float),
    "str": lambda ids: ids.astype(str),
    "object": lambda ids: ids.astype(object),
    "text objects": lambda ids: ids.astype(str).astype(object),
    "some are text": lambda ids: np.array([str(k) if k % 3 else int(k) for k in ids], object),
    "pandas": lambda ids: pd.Series(ids, dtype="Int64"),
    "category": lambda ids: pd.Series(ids.astype(str), dtype="category"),
    "polars": lambda ids: pl.Series(ids.astype(str)),
    "bytes": lambda ids: ids.astype(str).astype(bytes),
    "numpy objects": lambda ids: np.array([str(k) if k % 3 else np.int64(k) for k in ids], object),
    "floats and text": lambda ids: np.array([str(k) if k % 3 else float(k) for k in ids], object),
}


def edges_of(form, rows=slice(None), odd=False, **more):
    src, dst = (FORMS[form](np.array(ids)) for ids in (SRC, DST))
    if odd:  # one id that is not a number makes text of all of a csv's ids
        dst = np.array([*list(map(str, dst))[:-1], "NEW-77"], object)
    return TemporalEdges(src, dst, TIME, label=LABEL, **more)[rows]


def answer(model, edges):
    method = next(name for name in ("transform", "decision_function", "predict") if hasattr(model, name))
    return getattr(model, method)(edges)


@pytest.mark.parametrize("fitted", FORMS)
@pytest.mark.parametrize("bipartite", [False, True])
def test_ids_of_another_type_are_the_same_nodes(fitted, bipartite):
    model = PropagationFeatures().fit(edges_of(fitted, bipartite=bipartite))
    expected = model.transform(edges_of(fitted, bipartite=bipartite))
    for form in FORMS:
        asked = edges_of(form, bipartite=bipartite)
        assert new_nodes(model, asked.with_ids_of(model.edges_))[0] == 0, form
        np.testing.assert_allclose(model.transform(asked), expected, atol=1e-12, err_msg=form)


@pytest.mark.parametrize("model", ESTIMATORS, ids=lambda model: type(model).__name__)
def test_one_odd_id_does_not_make_every_node_new(model):
    model.fit(edges_of("int"), *([] if isinstance(model, LinkPredictor | LinkRanker) else [LABEL]))
    expected = answer(model, edges_of("int")[:150])
    got = answer(model, edges_of("int", odd=True)[:150])
    difference = abs(got - expected)
    assert difference.max() < 1e-9


@given(st.lists(st.one_of(st.integers(-5, 5), st.integers(-5, 5).map(str), st.sampled_from(["a", "007", "7", ""]))))
@settings(max_examples=100, deadline=None)
def test_ids_are_written_as_the_fitted_ones(ids):
    like = TemporalEdges([1, 2, "7", "x"], [3, "-3", 4, "07"], range(4))
    written = {id_key(id): id for id in like.node_ids.tolist()}
    asked = TemporalEdges(ids, ids, range(len(ids)))
    for old, new in zip(ids, asked.with_ids_of(like).src.tolist(), strict=True):
        assert id_key(new) == id_key(old)
        expected = written.get(id_key(old), new)
        assert (new, type(new)) == (expected, type(expected))


@pytest.mark.parametrize(
    ("fitted", "asked", "found"),
    [
        (["7", "a7"], [7, 8], [0, -1]),
        ([7, 8], ["007", "8", b"7", 7.0], [-1, 1, 0, 0]),
        ([7, 8], ["x", np.int64(7)], [-1, 0]),
        ([7, 8], ["7", "99999999999999999999", "x"], [0, -1, -1]),
        ([1.5, 2.5], ["1.5", 2.5], [0, 1]),
        ([2**63, -1], [str(2**63), "-1"], [1, 0]),
        ([("a", 1), "7"], [("a", 1), 7, ("a", 2)], [0, 1, -1]),
    ],
)
def test_an_id_is_found_however_it_is_written(fitted, asked, found):
    known, more = (TemporalEdges(ids, ids, range(len(ids))) for ids in (fitted, asked))
    assert known.codes_of(more)[0].tolist() == found


def test_mixed_forms_of_an_id_are_one_node():
    edges = TemporalEdges([7, "7", "007"], [7.0, b"7", "x"], range(3))
    assert edges.node_ids.tolist() == [7, "007", "x"]
    assert edges.src.tolist() == [7, 7, "007"]
    numbers_and_text = TemporalEdges([8, 7], ["7", "8"], [0, 1])
    assert numbers_and_text.n_nodes == 2
    assert numbers_and_text.dst_code.tolist() == numbers_and_text.src_code[::-1].tolist()
    assert TemporalEdges([b"\xff"], [b"\xfe"], [0]).n_nodes == 2


@pytest.mark.parametrize("ids", [[True, False], np.array([True, False]), [1, True], np.array(["x", np.True_], object)])
def test_truth_values_are_no_ids(ids):
    with pytest.raises(
        EdgesError, match=r"'dst' has the id True in row \d .*, a truth value. Pass ids as integers or text"
    ):
        TemporalEdges([1, 2], ids, [0, 1])


def test_an_unknown_id_makes_no_table_of_the_fitted_ids(monkeypatch):
    fitted = TemporalEdges([f"u{k}" for k in range(1000)], [str(k) for k in range(1000)], range(1000))
    fitted.codes_of(TemporalEdges(["u1"], ["u2"], [0]))
    seen = []
    monkeypatch.setattr("tdlg.tables.ids.id_key", lambda value: seen.append(value) or id_key(value))
    assert fitted.codes_of(TemporalEdges(["new"], [3], [0]))[0].tolist() == [-1]
    assert len(seen) < 10


def test_nearly_all_nodes_new_is_said():
    model = PropagationClassifier(random_state=0).fit(edges_of("int"))
    strange = TemporalEdges([f"user {k}" for k in SRC], DST + 1000, TIME + 100)
    with pytest.warns(
        TdlgWarning, match=r"29 of 29 sources are new to the model.* example: \d+; here: 'user \d+'"
    ) as caught:
        model.predict(strange)
    assert caught[0].filename == __file__
    with pytest.warns(TdlgWarning, match=r"29 of 29 destinations are new.* example: \d+; here: 100\d\."):
        model.predict(TemporalEdges(SRC, DST + 1000, TIME + 100))


def test_a_few_new_nodes_are_no_reason_to_warn():
    model = PropagationClassifier(random_state=0).fit(edges_of("int"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.predict(TemporalEdges([1001], [1002], [100]))
        model.predict(TemporalEdges(SRC, np.where(DST > 20, DST + 1000, DST), TIME + 100))


class TestCategories:
    frame = pd.DataFrame({"src": SRC, "dst": DST, "time": TIME, "mcc": pd.Series(5400 + DST % 3).astype("category")})

    def test_of_another_type_are_the_same(self):
        model = PropagationFeatures().fit(from_frame(self.frame, categories=["mcc"]), LABEL)
        asked = from_frame(self.frame.assign(mcc=[f"{5400 + k % 3}" for k in DST]), features=["mcc"])
        np.testing.assert_allclose(model.transform(asked), model.transform(model.edges_), atol=1e-12)
        other = from_frame(self.frame.assign(mcc=[f"0{5400 + k % 3}" for k in DST]), features=["mcc"])
        with pytest.warns(TdlgWarning, match=r"None of the categories .* Fitted: 5400; here: '05400'"):
            model.transform(other)

    def test_of_mixed_types_are_the_same(self):
        mixed = pd.Series([7, "7", "07", 7.0]).astype("category")
        assert TemporalEdges([1] * 4, [2] * 4, range(4), features={"kind": mixed}).features[:, 0].tolist() == [
            0,
            0,
            1,
            0,
        ]
        frame = pl.DataFrame(
            {"src": [1, 1], "dst": [2, 2], "time": [0, 1], "kind": pl.Series([7.0, "x"], dtype=pl.Object)}
        )
        assert from_frame(frame, categories=["kind"]).feature_categories == {"kind": ("7", "x")}

    def test_truth_values_are_refused(self):
        frame = pl.DataFrame({"src": [1], "dst": [2], "time": [0], "kind": [True]})
        with pytest.raises(ReadError, match=r"'kind' has the truth value True in data row 1 .*Pass it as a feature"):
            from_frame(frame, categories=["kind"])

    def test_that_are_all_new_are_said(self):
        model = PropagationFeatures().fit(from_frame(self.frame, categories=["mcc"]), LABEL)
        asked = from_frame(self.frame.assign(mcc=[f"x{k % 3}" for k in DST]), features=["mcc"])
        with pytest.warns(
            TdlgWarning, match=r"None of the categories of the feature 'mcc' .* Fitted: 5400; here: 'x0'"
        ):
            model.transform(asked)


class TestDataframes:
    frame = pd.DataFrame({"amount": SRC / 7, "src": SRC, "dst": DST, "time": TIME})

    def test_names_before_positions(self):
        expected = TemporalEdges(SRC, DST, TIME, features={"amount": SRC / 7}, label=LABEL)
        for frame in (self.frame, pl.from_pandas(self.frame), self.frame.rename(columns={"src": "payer", "dst": "To"})):
            model = PropagationFeatures().fit(frame, LABEL)
            assert model.edges_.src.tolist() == SRC.tolist()
            assert model.edges_.feature_names == ("amount",)
            np.testing.assert_array_equal(model.transform(frame), PropagationFeatures().fit_transform(expected))

    def test_without_usual_names_by_position(self):
        frame = pd.DataFrame({"a": SRC, "b": DST, "c": TIME, "d": SRC / 7})
        model = PropagationFeatures().fit(frame, LABEL)
        assert model.edges_.dst.tolist() == DST.tolist()
        assert model.edges_.feature_names == ("d",)

    def test_names_that_contradict_the_positions_are_refused(self):
        frame = self.frame.rename(columns={"dst": "elsewhere"})
        with pytest.raises(
            EdgesError, match=r"'amount' would be the source.* do not show which column is dst.*from_frame"
        ):
            PropagationFeatures().fit(frame, LABEL)

    def test_two_columns_and_arrays_in_the_order_of_the_dataframe(self):
        pairs = pd.DataFrame({"dst": DST, "src": SRC})
        assert EdgeEmbedding(1, decay=NoDecay()).fit(pairs).edges_.src.tolist() == SRC.tolist()
        model = PropagationFeatures().fit(self.frame, LABEL)
        with pytest.warns(UserWarning, match="does not have valid feature names"):
            columns = model.transform(self.frame.to_numpy())
        np.testing.assert_allclose(columns, model.transform(self.frame))

    def test_some_usual_names_in_their_places(self):
        frame = pd.DataFrame({"who": SRC, "whom": DST, "time": TIME})
        assert PropagationFeatures().fit(frame, LABEL).edges_.src.tolist() == SRC.tolist()

    @pytest.mark.filterwarnings("ignore:X does not have valid feature names")
    def test_an_array_after_a_dataframe(self):
        frame = self.frame[["src", "dst", "time", "amount"]]
        model = PropagationFeatures().fit(frame, LABEL)
        np.testing.assert_allclose(model.transform(frame.to_numpy()), model.transform(frame))


class TestInterruptedFit:
    @pytest.mark.parametrize("model", ESTIMATORS, ids=lambda model: type(model).__name__)
    def test_leaves_the_fitted_model_whole(self, model, monkeypatch, tmp_path):
        model.fit(edges_of("int"), LABEL)
        before = answer(model, edges_of("int"))
        attributes = dict(vars(model))
        other = TemporalEdges(DST, SRC, TIME * 2.0, label=1 - LABEL)
        for step in range(3):  # each fit sets more attributes than these
            with monkeypatch.context() as patched:
                patched.setattr(type(model), "__setattr__", interrupted_after(step), raising=False)
                with pytest.raises(KeyboardInterrupt):
                    model.fit(other, 1 - LABEL)
            assert vars(model).keys() == attributes.keys()
            assert all(vars(model)[key] is value for key, value in attributes.items())
        np.testing.assert_array_equal(answer(model, edges_of("int")), before)
        model.save(tmp_path / "model.tdlg")
        np.testing.assert_array_equal(answer(load_model(tmp_path / "model.tdlg"), edges_of("int")), before)


def interrupted_after(n_attributes):
    """An assignment of attributes that Ctrl-C cuts short."""
    left = iter(range(n_attributes))

    def assign(self, name, value):
        if name.endswith("_") and next(left, None) is None:
            raise KeyboardInterrupt
        object.__setattr__(self, name, value)

    return assign


# ---- a fit beside answers, and after another fit


def answers_of(model, edges):
    """What the methods give that take edges alone."""
    taken = {"get_feature_names_out": [], "rank": [5], "top": [3], "explain": [edges, 1], "contributions": [edges, 1]}
    methods = [name for name in ANSWERS if hasattr(model, name) and name not in ("scored", "score")]
    if getattr(model, "method", "burst") != "burst":
        methods = [name for name in methods if name != "explain"]
    return {name: (lambda name=name: getattr(model, name)(*taken.get(name, [edges]))) for name in methods}


def assert_alike(one, other):
    if isinstance(one, pl.DataFrame):
        assert one.equals(other)
    else:
        np.testing.assert_array_equal(one, other)


@pytest.mark.filterwarnings("ignore::tdlg.exceptions.TdlgWarning")
@pytest.mark.parametrize("model", ESTIMATORS, ids=str)
def test_a_fit_in_the_middle_of_an_answer_does_not_change_it(model, monkeypatch):
    first, second = edges_of("int", slice(0, 150)), edges_of("int", slice(50, 200))
    read = EdgesEstimator._edges
    fitted = clone(model).fit(first)
    for name, old in answers_of(fitted, first).items():
        busy = deepcopy(fitted)

        def fit_meanwhile(self, X, *, reset, busy=busy):
            edges = read(self, X, reset=reset)
            if not reset:
                monkeypatch.setattr(EdgesEstimator, "_edges", read)
                busy.fit(second)
            return edges

        expected = old()
        monkeypatch.setattr(EdgesEstimator, "_edges", fit_meanwhile)
        found = answers_of(busy, first)[name]()
        monkeypatch.setattr(EdgesEstimator, "_edges", read)
        assert_alike(found, expected)


def test_answers_beside_fits_in_a_thread_are_those_of_one_of_the_fits():
    parts = edges_of("int", slice(0, 150)), edges_of("str", slice(20, 200))
    models = [PropagationClassifier(random_state=0, setting="interpolate").fit(part) for part in parts]
    asked = edges_of("int", slice(100, 120))
    expected = [fitted.predict_proba(asked) for fitted in models]
    model, stop = clone(models[0]).fit(parts[0]), threading.Event()

    def fit_again():
        while not stop.is_set():
            for part in parts:
                model.fit(part)

    thread = threading.Thread(target=fit_again)
    thread.start()
    try:
        found = [model.predict_proba(asked) for _ in range(60)]
    finally:
        stop.set()
        thread.join()
    assert all(any(np.array_equal(one, other) for other in expected) for one in found)


@pytest.mark.filterwarnings("ignore::tdlg.exceptions.TdlgWarning")
def test_an_update_appears_at_once(monkeypatch):
    edges = edges_of("int")
    edges = edges[np.argsort(edges.time, kind="stable")]
    model, asked = (
        PropagationClassifier(random_state=0, setting="stream").fit(edges[:150]),
        edges[180:].with_label(None),
    )
    expected, read = model.predict_proba(asked), EdgesEstimator._edges

    def update_meanwhile(self, X, *, reset):
        monkeypatch.setattr(EdgesEstimator, "_edges", read)
        model.update(edges[150:180])
        return read(self, X, reset=reset)

    monkeypatch.setattr(EdgesEstimator, "_edges", update_meanwhile)
    np.testing.assert_array_equal(model.predict_proba(asked), expected)
    assert not np.array_equal(model.predict_proba(asked), expected)


@pytest.mark.parametrize(
    ("model", "then"),
    [
        (EdgeOutlierDetector(random_state=0), {"method": "burst"}),
        (EdgeOutlierDetector("burst"), {"method": "linegraph"}),
        (LineGraphClassifier(bandwidth="auto"), {"bandwidth": 5.0}),
        (LinkPredictor(random_state=0), {"method": "linegraph"}),
    ],
    ids=str,
)
def test_nothing_of_an_earlier_fit_is_left(model, then):
    edges = edges_of("int")
    again = clone(model).fit(edges).set_params(**then).fit(edges)
    assert vars(again).keys() == vars(clone(model).set_params(**then).fit(edges)).keys()


def test_a_fit_keeps_the_kind_of_output():
    features = PropagationFeatures(two_ends="none").set_output(transform="pandas")
    assert isinstance(features.fit(edges_of("int")).transform(edges_of("int")), pd.DataFrame)


# ---- scores


@pytest.mark.parametrize("model", ESTIMATORS[:3], ids=lambda model: type(model).__name__)
class TestScore:
    def test_leaves_out_missing_labels_and_takes_those_of_the_edges(self, model):
        edges = edges_of("int")
        model = clone(model).fit(edges)
        some = edges.with_label(np.where(np.arange(200) < 150, LABEL, np.nan))
        expected = model.score(edges[:150], LABEL[:150])
        assert model.score(edges[:150]) == pytest.approx(expected)
        assert model.score(some) == model.score(edges, some.label) == pytest.approx(expected)
        weight = np.where(np.arange(200) < 75, 1.0, 0.0)
        assert model.score(some, sample_weight=weight) == pytest.approx(model.score(edges[:75]))
        assert np.isfinite(model.score(np.column_stack([SRC, DST, TIME]), LABEL))

    def test_needs_labels(self, model):
        model = clone(model).fit(edges_of("int"))
        with pytest.raises(EdgesError, match="All labels are missing"):
            model.score(edges_of("int").with_label(np.full(200, np.nan)))
        with pytest.raises(EdgesError, match="no labels"):
            model.score(edges_of("int").with_label(None))
        with pytest.raises(EdgesError, match="y is None"):
            model.score(np.column_stack([SRC, DST, TIME]))


@pytest.mark.parametrize("kind", [np.array, pd.Series, pl.Series, lambda y: pd.Series(y, dtype="Float64")])
def test_numbers_with_decimals_are_not_looked_at_one_by_one(kind):
    y = kind([0.0, 1.0, float("nan")] * 10)
    edges = edges_of("int", slice(0, 30)).with_label(None)
    if hasattr(y, "to_list"):
        type(y).to_list, kept = None, type(y).to_list  # it would make a list of all labels
    try:
        assert known_labels(edges, y)[2].dtype == float
    finally:
        if hasattr(y, "to_list"):
            type(y).to_list = kept
    assert known_labels(edges, [0, 1, None] * 10)[2].dtype == int


# ---- memory


def test_a_fitted_model_keeps_no_sorted_events():
    gc.collect()
    before = sum(type(found) is Layout for found in gc.get_objects())
    features, model = PropagationFeatures().fit(edges_of("int")), LineGraphClassifier().fit(edges_of("int"))
    features.transform(features.edges_)
    model.predict(model.edges_)
    gc.collect()
    assert sum(type(found) is Layout for found in gc.get_objects()) == before


@pytest.mark.filterwarnings("ignore:overflow")
@pytest.mark.parametrize("past_only", [False, True])
def test_times_whose_spread_overflows_are_refused(past_only):
    edges = TemporalEdges(SRC, DST, TIME * 1e200, label=LABEL)
    with pytest.raises(EdgesError, match=r"too far apart.*coarser unit"):
        PropagationFeatures(past_only=past_only).fit(edges)
