"""TemporalEdges: what it takes, what it refuses and how, and that slices keep their place in the table."""

import copy
import gc
import pickle
import re
import subprocess
import sys
import threading
import weakref
from concurrent.futures import ThreadPoolExecutor
from xml.etree import ElementTree

import hypothesis.extra.numpy as hnp
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.model_selection import GridSearchCV, StratifiedKFold, cross_val_score, train_test_split

from tdlg._kernels.layout import factorise_integers
from tdlg.edges import TemporalEdges
from tdlg.exceptions import EdgesError
from tdlg.linegraph.decay import Gaussian
from tdlg.linegraph.operator import LineGraph
from tdlg.propagate.match import decayed_sums
from tdlg.sampling.index import edge_index
from tdlg.tables.column import as_column, frozen, sealed
from tdlg.tables.ids import as_ids
from tdlg.tables.times import as_times

SRC, DST, TIME = [3, 1, 3, 7], [1, 7, 3, 3], [4, 2, 2, 9]


def make(**columns):
    return TemporalEdges(**{"src": SRC, "dst": DST, "time": TIME, **columns})


# ---- ids

INTEGERS = st.one_of(st.integers(-5, 5), st.integers(-(2**63), 2**63 - 1))


@given(st.lists(st.tuples(INTEGERS, INTEGERS), max_size=60), st.booleans())
def test_codes_of_integers_are_positions_among_the_distinct_ids(pairs, bipartite):
    src, dst = (np.array([pair[k] for pair in pairs], np.int64) for k in (0, 1))
    edges = TemporalEdges(src, dst, np.zeros(len(pairs)), bipartite=bipartite)
    if bipartite:
        expected = sorted(set(src.tolist())) + sorted(set(dst.tolist()))
        assert edges.n_src_nodes == len(set(src.tolist()))
        assert (edges.src_code < edges.n_src_nodes).all()
        assert (edges.dst_code >= edges.n_src_nodes).all()
    else:
        expected = sorted({*src.tolist(), *dst.tolist()})
        assert edges.n_src_nodes is None
    assert edges.node_ids.tolist() == expected
    assert edges.n_nodes == len(expected)
    np.testing.assert_array_equal(edges.node_ids[edges.src_code], src)
    np.testing.assert_array_equal(edges.node_ids[edges.dst_code], dst)


@given(hnp.arrays(np.int32, st.integers(0, 50), elements=st.integers(-(2**31), 2**31 - 1)))
def test_factorise_integers_equals_numpy_unique(column):
    ids, src_code, dst_code = factorise_integers(column, column[:3])
    expected, inverse = np.unique(column, return_inverse=True)
    np.testing.assert_array_equal(ids, expected)
    np.testing.assert_array_equal(src_code, inverse)
    np.testing.assert_array_equal(dst_code, inverse[:3])


@pytest.mark.parametrize("n_distinct", [1_000, 400_000])
def test_many_scattered_ids_are_factorised(n_distinct):
    rng = np.random.default_rng(0)
    pool = np.append(rng.integers(-(2**63), 2**63 - 1, n_distinct), [-(2**63), 2**63 - 1])  # differences overflow
    src, dst = np.append(pool, rng.choice(pool, 200_000)), rng.choice(pool, 3)
    ids, src_code, dst_code = factorise_integers(src, dst)
    assert (ids[1:] > ids[:-1]).all()
    np.testing.assert_array_equal(ids[src_code], src)
    np.testing.assert_array_equal(ids[dst_code], dst)
    assert len(ids) == len(np.unique(pool))


@given(st.lists(st.tuples(st.text(max_size=3), st.text(max_size=3)), max_size=30))
def test_strings_are_sorted_and_decoded(pairs):
    src, dst = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
    edges = TemporalEdges(src, dst, [0] * len(pairs))
    assert edges.node_ids.tolist() == sorted({*src, *dst})
    assert edges.src.tolist() == src
    assert edges.dst.tolist() == dst


def test_ids_without_a_common_order_come_as_they_appear():
    edges = TemporalEdges(["b", 2, (1, 2)], [2, "a", "b"], [0, 0, 0])
    assert edges.node_ids.tolist() == ["b", 2, "a", (1, 2)]
    assert edges.src.tolist() == ["b", 2, (1, 2)]


def test_tuples_are_ids_in_order():
    edges = TemporalEdges([(2, 1), (1, 1)], [(1, 1), (0, 5)], [0, 1])
    assert edges.node_ids.tolist() == [(0, 5), (1, 1), (2, 1)]


def test_whole_floats_are_integers_and_others_stay():
    whole = TemporalEdges(np.array([1.0, 2.0]), [2.0, 3.0], [0, 1])
    assert whole.src.dtype == np.int64
    assert whole.node_ids.tolist() == [1, 2, 3]
    assert TemporalEdges([0.5, 2.0], [2.0, 3.0], [0, 1]).node_ids.tolist() == [0.5, 2.0, 3.0]


def test_ids_of_128_bits_are_kept():
    ids = pl.Series([2**100, 1], dtype=pl.Int128)
    assert TemporalEdges(ids, [1, 1], [0, 1]).node_ids.tolist() == [1, 2**100]
    assert TemporalEdges(ids[1:], [2], ids[1:]).ticks.tolist() == [1]


def test_unsigned_ids_beyond_int64_are_kept():
    big = 2**64 - 1
    assert TemporalEdges(np.array([big, 1], np.uint64), [1, 1], [0, 1]).node_ids.tolist() == [1, big]


def test_int32_ids_from_0_are_their_own_codes():
    src, dst = (sealed(np.array(ids, np.int32)) for ids in ([0, 2], [1, 0]))
    edges = TemporalEdges(src, dst, [0, 1])
    assert np.shares_memory(edges.src_code, src)
    assert np.shares_memory(edges.dst_code, dst)


def test_bipartite_keeps_equal_ids_apart():
    edges = TemporalEdges([1, 2], ["x", "y"], [0, 1], bipartite=True)
    assert edges.node_ids.tolist() == [1, 2, "x", "y"]
    assert edges.src.tolist() == [1, 2]
    both = TemporalEdges([1, 2], [1, 1], [0, 1], bipartite=True)
    assert both.node_ids.tolist() == [1, 2, 1]
    assert both.dst_code.tolist() == [2, 2]


@pytest.mark.parametrize("nothing", [None, float("nan"), pd.NA, pd.NaT, np.datetime64("NaT")])
@pytest.mark.parametrize("other", ["a", 1, 1.5, (1, 2)])
def test_a_missing_id_shows_its_row(nothing, other):
    with pytest.raises(EdgesError, match=r"'dst' has a missing id in row 1.*Drop that row"):
        TemporalEdges([1, 2], [other, nothing], [0, 1])


def test_an_unhashable_id_shows_its_row():
    with pytest.raises(EdgesError, match=r"'src'.*row 1.*\[2\].*tuples") as error:
        TemporalEdges(["a", [2]], ["b", "c"], [0, 1])
    assert type(error.value) is EdgesError
    assert error.value.row == 1


FORMS = {
    "list": list,
    "tuple": tuple,
    "numpy": np.array,
    "object": lambda v: np.array(v, object),
    "pandas": pd.Series,
    "pandas index": pd.Index,
    "pandas category": lambda v: pd.Series(v).astype("category"),
    "polars": pl.Series,
    "pyarrow": pa.array,
    "pyarrow chunks": lambda v: pa.chunked_array([v[:1], v[1:]]),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("ids", [[5, 3, 5], ["b", "a", "b"]])
def test_columns_of_every_library_are_the_same_edges(form, ids):
    edges = TemporalEdges(FORMS[form](ids), ids, FORMS[form]([1, 2, 3]), label=FORMS[form](ids))
    assert edges.src.tolist() == edges.label.tolist() == ids
    assert edges.src_code.tolist() == [1, 0, 1]
    assert edges.ticks.tolist() == [1, 2, 3]


# ---- lengths and shapes


def test_lengths_that_differ_name_each():
    with pytest.raises(EdgesError, match=r"src has 4, dst has 4, time has 3, label has 2\. Pass one value"):
        make(time=[1, 2, 3], label=[0, 1])


@pytest.mark.parametrize("src", [5, "abc", {"a": 1}, {1, 2, 3, 4}, None, np.zeros((4, 2)), pl.DataFrame({"a": SRC})])
def test_what_is_no_column_is_refused(src):
    with pytest.raises(EdgesError, match=r"'src' must (be a column|have one dimension).*Pass"):
        make(src=src)


# ---- rows


KEYS = [
    slice(1, 3),
    slice(None, None, -1),
    slice(-1, None),
    slice(3, 1),
    [0, 3],
    [],
    (2, 0),
    np.array([-1, 0]),
    np.array([True, False, True, False]),
    [True, False, False, True],
    pd.Series([True, False, True, False]),
    pd.Series([True, False, True, False], dtype="boolean"),
    pl.Series([True, False, True, False]),
    (np.array([1, 2]), Ellipsis),
    Ellipsis,
]


@pytest.mark.parametrize("key", KEYS, ids=repr)
@pytest.mark.parametrize("ids", [SRC, list("cacd")])
def test_a_slice_takes_the_same_rows_of_every_column(key, ids):
    edges = make(src=ids, label=[0, 1, 2, 3], weight=[4, 5, 6, 7], features=np.arange(8.0).reshape(4, 2))
    part = edges[key]
    plain = key[0] if isinstance(key, tuple) and key[-1] is Ellipsis else key
    at = (
        np.arange(4)[list(plain) if isinstance(plain, tuple) else plain]
        if not (isinstance(plain, list) and not plain)
        else np.arange(0)
    )
    np.testing.assert_array_equal(part.rows, at)
    assert part.n_edges == len(part) == len(at)
    for name in ("src", "dst", "time", "ticks", "label", "weight", "features", "src_code", "dst_code", "labelled"):
        np.testing.assert_array_equal(getattr(part, name), getattr(edges, name)[at], err_msg=name)
    assert part.n_nodes == edges.n_nodes
    assert part.same_table(edges)


def test_no_rows_turned_round_are_no_rows():
    nothing = make(label=[0, 1, 2, 3])[:0][::-1]
    for name in ("src", "dst", "time", "label", "rows", "src_code"):
        assert len(getattr(nothing, name)) == 0, name


@given(st.data())
def test_slices_of_slices_compose(data):
    edges = TemporalEdges(np.arange(12), np.arange(12), np.arange(12) * 2.0)
    rows = np.arange(12)
    for _ in range(3):
        n = len(rows)
        bounds = st.none() | st.integers(-n - 2, n + 2)
        step = st.none() | st.sampled_from([-3, -1, 1, 2])
        key = data.draw(
            st.builds(slice, bounds, bounds, step)
            | hnp.arrays(bool, n)
            | (hnp.arrays(np.int64, st.integers(0, 5), elements=st.integers(-n, n - 1)) if n else st.just([]))
        )
        edges, rows = edges[key], rows[np.asarray(key, int) if isinstance(key, list) else key]
    np.testing.assert_array_equal(edges.rows, rows)
    np.testing.assert_array_equal(edges.time, rows * 2.0)


def test_keys_that_choose_no_rows_are_refused():
    with pytest.raises(EdgesError, match=r"Got 2 instead\. Use `edges\[2:3\]"):
        make()[2]
    with pytest.raises(EdgesError, match=r"one value per edge: 4\. Got a mask of shape \(3,\)"):
        make()[[True, False, True]]
    for key in ("src", None, (None, ...), 1.5, [[0, 1]], [0, [1]]):
        with pytest.raises(EdgesError, match=r"slice, positions or a mask.*Use `edges\[:10\]"):
            make()[key]
    with pytest.raises(IndexError, match="Position 4 is out of range for 4 edges"):
        make()[[0, 4]]


def test_with_label_keeps_table_and_rows():
    part = make(label=[0, 1, 0, 1])[1:3]
    hidden = part.with_label(None)
    assert hidden.label is None
    assert hidden.same_table(part)
    assert hidden.rows.tolist() == [1, 2]
    assert part.with_label(["a", "b"])[1:].label.tolist() == ["b"]
    with pytest.raises(EdgesError, match="edges has 2, label has 4"):
        part.with_label([0, 1, 0, 1])


@pytest.mark.parametrize("ids", [SRC, list("cacd")])
def test_pickling_keeps_rows_and_identity_but_no_cache(ids):
    part = make(src=ids, label=[0, 1, 0, 1])[1:3]
    part.cached("heavy", lambda: 1)
    back = pickle.loads(pickle.dumps(part))
    assert back.same_table(part)
    assert back.cached("heavy", lambda: 2) == 2
    for name in ("rows", "src", "time", "label", "src_code", "node_ids"):
        np.testing.assert_array_equal(getattr(back, name), getattr(part, name))
        assert not getattr(back, name).flags.writeable
    assert copy.deepcopy(part) is part


def test_cached_builds_once_for_an_instance():
    edges, built = make(), []
    for _ in range(2):
        assert edges.cached("key", lambda: built.append(1) or "value") == "value"
    assert built == [1]
    assert edges[:2].cached("key", lambda: "other") == "other"


def test_two_keys_are_built_at_the_same_time():
    edges, both_are_built = make(), threading.Barrier(2, timeout=30)
    with ThreadPoolExecutor(2) as pool:
        found = pool.map(lambda key: edges.cached(key, lambda: (key, both_are_built.wait())[0]), ["one", "two"])
        assert list(found) == ["one", "two"]


def test_one_key_is_built_once_whoever_comes_meanwhile():
    edges, built, is_building, may_end = make(), [], threading.Event(), threading.Event()

    def build():
        is_building.set()
        assert may_end.wait(30)
        built.append(1)
        return "value"

    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(edges.cached, "key", build)
        assert is_building.wait(30)
        second = pool.submit(edges.cached, "key", build)
        while not second.running():
            pass
        may_end.set()
        assert [first.result(), second.result(), built] == ["value", "value", [1]]


@pytest.mark.parametrize("columns", ["same", "others"])
@pytest.mark.parametrize("selection", [slice(None), [0, 1, 1, 3]], ids=["distinct", "copies"])
def test_edges_are_freed_with_their_last_user(columns, selection):
    def use():
        edges = make()[selection]
        cols = edges if columns == "same" else make()
        LineGraph(edges, cols, decay=Gaussian(1.0)).normalized("spectral") @ np.ones(len(cols))
        decayed_sums(edges, cols, np.ones((len(cols), 1)), "src", [1.0])
        edge_index(edges).find(cols)
        return weakref.ref(edges)

    use()  # numba keeps what it compiled for until the collector comes
    gc.disable()
    try:
        assert use()() is None
    finally:
        gc.enable()


def test_arrays_are_read_only_and_the_callers_are_not():
    own = {name: np.arange(4) * 1.0 for name in ("src", "time", "weight", "label")}
    own["features"] = np.zeros((4, 2))
    edges = make(**own)
    for part in (edges, edges[1:], edges[[0, 2]]):
        for name in (*own, "dst", "ticks", "rows", "node_ids", "src_code", "dst_code", "labelled"):
            assert not getattr(part, name).flags.writeable, name
    assert all(array.flags.writeable for array in own.values())


FIELDS = {
    "src": "int64",
    "dst": "int32",
    "time": "float64",
    "weight": "float64",
    "label": "int8",
    "features": "float32",
}


def columns_of(as_given):
    shapes = {name: (4, 2) if name == "features" else (4,) for name in FIELDS}
    return {name: as_given(np.ones(shapes[name], dtype), name) for name, dtype in FIELDS.items()}


@pytest.mark.parametrize(
    "form", [lambda a: a, pd.Series, lambda a: a[::-1], memoryview], ids=["array", "series", "backwards", "memoryview"]
)
def test_a_later_change_of_the_given_arrays_changes_no_edges(form):
    given = columns_of(lambda array, _: array)
    columns = {name: form(array) if array.ndim == 1 else array for name, array in given.items()}
    edges = TemporalEdges(**columns)
    labelled = edges.with_label(columns["label"])
    for name, array in given.items():
        array[:] = 77
        if isinstance(columns[name], pd.Series):
            columns[name].iloc[:] = 77
        assert (getattr(edges, name) == 1).all(), name
    assert (labelled.label == 1).all()


@pytest.mark.parametrize("mode", ["r", "r+", "c"])
def test_memory_maps_are_not_copied(tmp_path, mode):
    def mapped(array, name):
        np.save(tmp_path / f"{name}.npy", array)
        return np.load(tmp_path / f"{name}.npy", mmap_mode=mode)

    for as_given in (mapped, lambda array, name: np.asarray(mapped(array, name))[:]):
        columns = columns_of(as_given)
        edges = TemporalEdges(**columns)
        for name, column in columns.items():
            assert np.shares_memory(getattr(edges, name), column), name
            assert np.shares_memory(getattr(edges[1:3], name), column), name


def test_read_only_arrays_are_not_copied():
    columns = columns_of(lambda array, _: sealed(array))
    columns["time"] = pl.Series(columns["time"])
    edges = TemporalEdges(**columns)
    for name, column in columns.items():
        assert np.shares_memory(getattr(edges, name), np.asarray(column)), name


def test_what_is_made_of_the_given_is_not_copied_again():
    for values in ([1, 2], [1.0, 2.0], np.array([1, 2], object), pl.Series([1, None, 3]), np.array([1, 2], ">i8")):
        column = as_column(values, "src")
        assert frozen(column) is column
    for make_array in (as_ids, as_times):
        made = make_array(np.array([1, 2], np.uint16), "src")
        assert not (made if make_array is as_ids else made[0]).flags.writeable


# ---- the nodes of other edges


@pytest.mark.parametrize("as_id", [int, str, lambda k: k * 10**15, lambda k: (k,)])
@pytest.mark.parametrize("bipartite", [False, True])
def test_codes_of_other_edges(as_id, bipartite):
    edges = TemporalEdges([as_id(1), as_id(2)], [as_id(2), as_id(3)], [0, 1], bipartite=bipartite)
    other = TemporalEdges([as_id(k) for k in (9, 3, 2)], [as_id(k) for k in (2, 9, 1)], [0, 1, 2], bipartite=bipartite)
    src_code, dst_code = edges.codes_of(other[1:])
    assert src_code.dtype == dst_code.dtype == np.int32
    assert src_code.tolist() == ([-1, 1] if bipartite else [2, 1])
    assert dst_code.tolist() == ([-1, -1] if bipartite else [-1, 0])


def test_codes_of_a_slice_of_the_same_table_are_its_own():
    edges = make()
    assert edges[:1].codes_of(edges[2:])[0] is not None
    np.testing.assert_array_equal(edges[:1].codes_of(edges[2:])[0], edges.src_code[2:])


def test_codes_of_ids_of_another_type_are_unseen():
    assert make().codes_of(make(src=list("abcd"), dst=list("abcd")))[0].tolist() == [-1] * 4


def test_codes_of_needs_the_same_bipartite():
    with pytest.raises(EdgesError, match=r"edges are bipartite, and .* edges are not\..*same value of bipartite="):
        make().codes_of(make(bipartite=True))


# ---- as an object


def test_a_notebook_shows_edges_over_time():
    times = np.array([0, 0, 0, 0, 30, 59], "datetime64[s]")
    html = TemporalEdges(np.arange(6), np.arange(6), times)._repr_html_()
    root = ElementTree.fromstring(f"<div>{html}</div>")
    assert root.find("code").text.startswith("TemporalEdges(6 edges, 6 nodes, 1970-01-01")
    assert re.findall(r"M(\d+) 40v-(\d+)", root.find("svg/path").get("d")) == [
        ("0", "40"),
        ("120", "10"),
        ("236", "10"),
    ]
    for times in ([5, 5], [-(2**62), 2**62]):
        assert "<svg" in TemporalEdges([0, 1], [1, 2], times)._repr_html_()
    assert "<svg" not in TemporalEdges([], [], [])._repr_html_()


def test_repr_says_what_it_holds():
    edges = TemporalEdges(
        ["a", "b"], ["b", "a"], ["2010-11-08", "2016-01-22"], label=[1, None], weight=[1, 1], features=[[1, 2]] * 2
    )
    assert repr(edges) == (
        "TemporalEdges(2 edges, 2 nodes, 2010-11-08 to 2016-01-22, label: 1 value (1 unknown), weight, 2 features)"
    )
    one = TemporalEdges([1], [1], [1 / 3], features=[[1]])
    assert repr(one) == "TemporalEdges(1 edge, 1 node, time 0.3333333333 to 0.3333333333, 1 feature)"
    assert "time 1577836800 to 1577836801" in repr(TemporalEdges([1, 2], [1, 2], [1577836800.0, 1577836801.25]))
    assert repr(make(bipartite=True)) == "TemporalEdges(4 edges, 6 nodes, time 2 to 9, bipartite)"


@pytest.mark.parametrize("bipartite", [False, True])
def test_no_edges_work_everywhere(bipartite):
    empty = TemporalEdges([], [], [], label=[], weight=[], features=np.empty((0, 2)), bipartite=bipartite)
    assert empty.shape == (0, 5)
    assert empty.n_nodes == 0
    assert len(empty[:0]) == len(empty[[]]) == len(empty.src) == len(empty.dst_code) == len(empty.labelled) == 0
    assert make(bipartite=bipartite).codes_of(empty)[0].tolist() == []
    assert empty.codes_of(make(bipartite=bipartite))[1].tolist() == [-1] * 4
    assert repr(empty).startswith("TemporalEdges(0 edges, 0 nodes")


class LastLabel(ClassifierMixin, BaseEstimator):
    """Predicts the label of the latest training edge: enough to show that slices arrive whole."""

    def __init__(self, shift=0):
        self.shift = shift

    def fit(self, edges, y):
        assert isinstance(edges, TemporalEdges)
        assert len(edges) == len(y)
        np.testing.assert_array_equal(edges.label, y)
        self.classes_ = np.unique(y)
        self.answer_ = (y[np.argmax(edges.ticks)] + self.shift) % 2
        return self

    def predict(self, edges):
        return np.full(len(edges), self.answer_)


@pytest.mark.parametrize("n_jobs", [None, pytest.param(2, marks=pytest.mark.needs("time"))])
def test_scikit_learn_slices_edges_as_it_does_a_matrix(n_jobs):
    y = np.array([0, 1] * 10)
    edges = TemporalEdges(list("abcdefghij") * 2, list("jihgfedcba") * 2, np.arange(20), label=y)
    train, test, y_train, y_test = train_test_split(edges, y, test_size=5, random_state=0)
    np.testing.assert_array_equal(train.label, y_train)
    np.testing.assert_array_equal(test.label, y_test)
    assert sorted([*train.rows, *test.rows]) == list(range(20))
    folds = StratifiedKFold(4).split(y, y)
    expected = [np.mean(y[test] == y[train.max()]) for train, test in folds]
    assert cross_val_score(LastLabel(), edges, y, cv=4, n_jobs=n_jobs).tolist() == expected
    search = GridSearchCV(LastLabel(), {"shift": [0, 1]}, cv=4, n_jobs=n_jobs).fit(edges, y)
    assert search.best_estimator_.predict(edges[:3]).shape == (3,)


def test_importing_edges_is_light():
    heavy = {"polars", "pandas", "narwhals", "sklearn", "numba"}
    code = f"import sys, tdlg.edges, tdlg.io; print(sorted({heavy} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
