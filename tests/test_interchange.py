"""Graphs of networkx and TemporalData of PyTorch Geometric, there and back, and what is said of the broken ones."""

import datetime
import subprocess
import sys
from types import SimpleNamespace

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tdlg.edges import TemporalEdges
from tdlg.exceptions import EdgesError, ParameterError, ReadError
from tdlg.io import from_networkx, from_pyg, to_networkx, to_pyg


def rows(edges):
    return list(zip(edges.src.tolist(), edges.dst.tolist(), edges.ticks.tolist(), strict=True))


def assert_same(found, edges):
    """The same edges in the same order; missing values are equal to each other."""
    assert rows(found) == rows(edges)
    assert (found.time.dtype, found.bipartite) == (edges.time.dtype, edges.bipartite)
    assert found.node_ids.tolist() == edges.node_ids.tolist()
    assert found.feature_names == edges.feature_names
    assert found.feature_categories == edges.feature_categories
    for name in ("label", "weight", "features"):
        one, other = getattr(found, name), getattr(edges, name)
        assert (one is None) == (other is None)
        if one is not None:
            assert one.dtype == other.dtype
            np.testing.assert_array_equal(one, other)


ENDS = {"src": ["b", "a", "b", "a"], "dst": ["a", "b", "c", "a"], "time": [5, 1, 5, 0]}
FORMS = {
    "plain": ENDS,
    "integers": {**ENDS, "src": [7, 3, 7, 3], "dst": [3, 7, 9, 3]},
    "mixed ids": {**ENDS, "src": [7, "7", 7, (1, 2)], "dst": ["x", 3.5, "x", 7]},
    "floats": {**ENDS, "time": [0.5, 1.5, 0.25, -1]},
    **{f"datetimes in {unit}": {**ENDS, "time": np.array([3, 1, 2, -5], f"M8[{unit}]")} for unit in ("s", "ms", "ns")},
    "labels": {**ENDS, "label": [1, 0, 1, 1]},
    "booleans": {**ENDS, "label": [True, False, True, True]},
    "words, some unknown": {**ENDS, "label": ["x", None, "y", "x"]},
    "numbers, some unknown": {**ENDS, "label": [1, np.nan, 0, 1]},
    "no label known": {**ENDS, "label": [np.nan] * 4},
    "all": {
        **ENDS,
        "label": [0, 1, 1, 0],
        "weight": [1, 2.5, 3, 4],
        "features": {"amount": [1.5, np.nan, 2, 3], "kind": ["rent", None, "food", "rent"]},
    },
    "no edges": {"src": [], "dst": [], "time": []},
}


# ---- networkx


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("bipartite", [False, True])
def test_there_and_back_through_networkx(form, bipartite):
    edges = TemporalEdges(**FORMS[form], bipartite=bipartite)
    names = {name: name for name in ("label", "weight") if getattr(edges, name) is not None}
    found = from_networkx(to_networkx(edges), **names, features=edges.feature_names, bipartite=bipartite)
    if form == "no label known":  # nothing says of which kind they were
        assert not found.labelled.any()
        edges, found = edges.with_label(None), found.with_label(None)
    assert_same(found, edges)


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4), st.integers(-5, 5)), min_size=1), st.booleans())
def test_any_edges_come_back_through_networkx(columns, bipartite):
    edges = TemporalEdges(*map(list, zip(*columns, strict=True)), bipartite=bipartite)
    assert_same(from_networkx(to_networkx(edges), bipartite=bipartite), edges)


def test_the_graph_of_edges():
    edges = TemporalEdges(**FORMS["all"])
    graph = to_networkx(edges)
    assert type(graph) is nx.MultiDiGraph
    assert set(graph.nodes) == {"a", "b", "c"}
    assert graph.edges["b", "c", 2] == {"time": 5, "label": 1, "weight": 3.0, "amount": 2.0, "kind": "food"}
    assert graph.edges["a", "b", 1]["kind"] is None
    part = to_networkx(edges[[2, 0]])
    assert list(part.edges(keys=True)) == [("b", "c", 0), ("b", "a", 1)]


def test_a_datetime_is_one_of_numpy():
    edges = TemporalEdges([1], [2], ["2020-01-31 10:00"])
    assert to_networkx(edges).edges[1, 2, 0]["time"] == np.datetime64("2020-01-31T10:00")


def test_ids_of_two_kinds_are_two_nodes():
    graph = to_networkx(TemporalEdges([1, 2], [1, 1], [0, 5], bipartite=True))
    assert dict(graph.nodes(data="bipartite")) == {("src", 1): 0, ("src", 2): 0, ("dst", 1): 1}
    assert nx.is_bipartite(graph)
    apart = to_networkx(TemporalEdges([1, 2], [7, 7], [0, 5], bipartite=True))
    assert set(apart.nodes) == {("src", 1), ("src", 2), ("dst", 7)}  # the same form where no id is on both sides


@pytest.mark.parametrize("kind", [nx.Graph, nx.DiGraph, nx.MultiGraph, nx.MultiDiGraph])
def test_every_kind_of_graph_is_taken(kind):
    graph = kind()
    graph.add_node("alone")
    graph.add_edge("ann", "bob", sent=datetime.datetime(2020, 1, 31), fraud=1, fee=0.5)
    graph.add_edge("bob", "cat", sent=datetime.datetime(2020, 2, 1), fee=2, channel="web")
    graph.add_edge("bob", "cat", sent=datetime.datetime(2020, 2, 2), fee=3, channel="app")
    edges = from_networkx(graph, time="sent", label="fraud", weight="fee", features=["channel", "fee"])
    days = [2] if kind in (nx.Graph, nx.DiGraph) else [1, 2]  # of parallel edges these keep the last
    assert edges.src.tolist() == ["ann", *["bob"] * len(days)]
    assert edges.time.astype("M8[D]").astype(str).tolist() == ["2020-01-31", *(f"2020-02-0{day}" for day in days)]
    assert edges.labelled.tolist() == [True, *[False] * len(days)]
    assert edges.weight.tolist() == [0.5, *(day + 1.0 for day in days)]
    assert np.isnan(edges.features[0, 0])
    assert edges.node_ids.tolist() == ["ann", "bob", "cat"]
    assert from_networkx(graph, time="sent", features="fee").feature_names == ("fee",)


def test_an_undirected_edge_goes_from_side_0_to_side_1():
    graph = nx.Graph()
    graph.add_nodes_from(["shop", "cafe"], bipartite=1)
    graph.add_nodes_from(["ann", "bob"], bipartite=0)
    graph.add_edge("shop", "ann", time=1)
    graph.add_edge("bob", "cafe", time=2)
    assert sorted(rows(from_networkx(graph, bipartite=True))) == [("ann", "shop", 1), ("bob", "cafe", 2)]
    edges = TemporalEdges([1, 2], [1, 1], [0, 5], bipartite=True)
    assert_same(from_networkx(to_networkx(edges).to_undirected(), bipartite=True), edges)
    graph.add_edge("ann", "bob", time=3)
    with pytest.raises(ReadError, match=r"edge \('ann', 'bob'\) is between nodes.*'bipartite' is 0 and 0. Set it to 0"):
        from_networkx(graph, bipartite=True)
    with pytest.raises(ReadError, match=r"'bipartite' is None and None.*or pass a directed graph"):
        from_networkx(nx.Graph([(1, 2, {"time": 3})]), bipartite=True)


def test_tuples_that_are_ids_stay_ids():
    graph = nx.DiGraph([(("src", 1), ("src", 2), {"time": 3}), (("dst", 1), ("src", 1), {"time": 4})])
    assert from_networkx(graph).src.tolist() == [("src", 1), ("dst", 1)]
    assert from_networkx(graph, bipartite=True).src.tolist() == [("src", 1), ("dst", 1)]


def graph_of(*attributes):
    return nx.MultiDiGraph([("ann", "bob", found) for found in attributes])


@pytest.mark.parametrize(
    ("graph", "options", "message"),
    [
        (
            graph_of({"time": 1}, {"when": 2}),
            {},
            r"edge \('ann', 'bob', 1\) has no attribute 'time' for 'time'.*\['time', 'when'\]. Pass time= with one",
        ),
        (
            graph_of({"time": 1, "fee": 1}, {"time": 2}),
            {"weight": "fee"},
            r"'bob', 1\) has no attribute 'fee' for 'weig",
        ),
        (graph_of({"time": 1, "y": 1}), {"label": "x"}, r"no attribute 'x' for 'label'. .* are \['time', 'y'\]"),
        (graph_of({"time": 1}), {"features": ["x"]}, r"no attribute 'x' for 'features'"),
        (
            graph_of({"time": 1}, {"time": float("nan")}),
            {},
            r"'time' must be finite. Got nan in the edge \('ann', 'bob', 1",
        ),
        (graph_of({"time": "soon"}), {}, r"'time' in the edge \('ann', 'bob', 0\) is 'soon'"),
        (graph_of({"time": 1, "y": 1}, {"time": 1, "y": "1"}), {"label": "y"}, r"'label' mixes int and str.*the edge"),
        ([("ann", "bob", 1)], {}, r"'graph' must be a networkx graph. Got list instead. Use from_frame"),
    ],
)
def test_a_graph_that_cannot_be_taken(graph, options, message):
    with pytest.raises(ReadError, match=message):
        from_networkx(graph, **options)


def test_a_feature_with_a_name_that_is_needed():
    edges = TemporalEdges([1], [2], [3], label=[1], features={"label": [5], "weight": [6]})
    with pytest.raises(EdgesError, match=r"features \['label'\] have the same names.*Rename"):
        to_networkx(edges)
    assert to_networkx(edges.with_label(None)).edges[1, 2, 0] == {"time": 3, "label": 5.0, "weight": 6.0}


def test_networkx_loads_when_it_is_needed(monkeypatch):
    monkeypatch.setitem(sys.modules, "networkx", None)
    with pytest.raises(ImportError, match=r'pip install "\.\[networkx\]"'):
        to_networkx(TemporalEdges([1], [2], [3]))


# ---- PyTorch Geometric


def needs_pyg(test):
    """Mark a test of theirs, which may warn of its own use of torch."""
    return pytest.mark.needs("pyg")(pytest.mark.filterwarnings("ignore:.torch.jit:DeprecationWarning")(test))


def data_of(**tensors):
    """Stands for a TemporalData: what is read of it are its attributes and its keys."""
    return SimpleNamespace(**tensors, keys=lambda: list(tensors))


EVENTS = {"src": [0, 1, 0], "dst": [2, 2, 3], "t": [1, 5, 5]}


def test_events_are_edges():
    edges = from_pyg(data_of(**EVENTS, msg=np.eye(3, dtype=np.float32), y=[[0], [1], [0]], fee=[1, 2, 3]), weight="fee")
    assert rows(edges) == [(0, 2, 1), (1, 2, 5), (0, 3, 5)]
    assert edges.label.tolist() == [0, 1, 0]
    assert edges.weight.tolist() == [1, 2, 3]
    np.testing.assert_array_equal(edges.features, np.eye(3))
    plain = from_pyg(data_of(**EVENTS, msg=np.zeros((3, 0)), y=None))
    assert plain.label is plain.weight is plain.features is None
    both = data_of(**EVENTS, msg=np.eye(3), y=[0, 1, 0], z=[5, 6, 7])
    other = from_pyg(both, label="z", features=None, bipartite=True)
    assert (other.label.tolist(), other.features, other.bipartite) == ([5, 6, 7], None, True)
    assert from_pyg(both, label=None).label is None


def test_times_of_events_may_be_of_a_unit():
    edges = from_pyg(data_of(src=[0], dst=[1], t=[1580428800]), time_unit="s")
    assert edges.time.tolist() == [datetime.datetime(2020, 1, 31)]


@pytest.mark.parametrize(
    ("data", "options", "message"),
    [
        (data_of(src=[0], dst=[1]), {}, r"with src, dst and t. Got SimpleNamespace with \['dst', 'src'\] instead"),
        (5, {}, r"'data' must be a TemporalData of PyTorch Geometric.*Got int with \[\]"),
        (
            data_of(**EVENTS),
            {"label": "z"},
            r"no 'z' for 'label'. It has \['dst', 'src', 't'\]. Pass one of these, or la",
        ),
        (data_of(**EVENTS), {"weight": "w"}, r"no 'w' for 'weight'.*or weight=None"),
        (data_of(**EVENTS), {"features": "x"}, r"no 'x' for 'features'"),
        (data_of(src=[0], dst=[1], t=[np.nan]), {"time_unit": "s"}, r"The data: The 'time' must be finite. Got nan"),
        (data_of(src=[0], dst=[1], t=[np.nan]), {}, r"The data: The 'time' must be finite. Got nan in row 0"),
        (data_of(**EVENTS, y=[0]), {}, r"The data: The columns differ in length: .*label has 1"),
    ],
)
def test_data_that_cannot_be_taken(data, options, message):
    with pytest.raises(ReadError, match=message):
        from_pyg(data, **options)


def test_a_wrong_time_unit():
    with pytest.raises(ParameterError, match=r"'time_unit' parameter of from_pyg must be one of .* Got 'd'"):
        from_pyg(data_of(**EVENTS), time_unit="d")


def test_torch_geometric_loads_when_it_is_needed(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch_geometric.data", None)
    with pytest.raises(ImportError, match=r'needs PyTorch Geometric.*pip install "\.\[pyg\]"'):
        to_pyg(TemporalEdges([1], [2], [3]))


@needs_pyg
@pytest.mark.parametrize("bipartite", [False, True])
@pytest.mark.parametrize("form", FORMS)
def test_there_and_back_through_pyg(form, bipartite):
    edges = TemporalEdges(**FORMS[form], bipartite=bipartite)
    data = to_pyg(edges)
    in_time = edges[np.argsort(edges.ticks, kind="stable")]
    ids = edges.node_ids
    assert [ids[code] for code in data.src.tolist()] == in_time.src.tolist()
    assert [ids[code] for code in data.dst.tolist()] == in_time.dst.tolist()
    assert edges.ticks[data.row.numpy()].tolist() == data.t.tolist() == in_time.ticks.tolist()
    found = from_pyg(data, weight=None if edges.weight is None else "weight", time_unit=edges.time_unit)
    np.testing.assert_array_equal(found.time, in_time.time)
    assert found.src.tolist() == in_time.src_code.tolist()
    assert found.labelled.tolist() == in_time.labelled.tolist()
    for name in ("weight", "features"):
        one, other = getattr(found, name), getattr(in_time, name)
        assert one is other is None or np.array_equal(one, other, equal_nan=True)


@needs_pyg
@pytest.mark.parametrize(
    ("label", "expected", "dtype"),
    [
        ([3, 5, 3], [5, 3, 3], "int64"),
        ([True, False, True], [0, 1, 1], "int64"),
        ([0.5, 2, np.nan], [2, 0.5, np.nan], "float32"),
        (["ok", "bad", "ok"], [0, 1, 1], "int64"),
        (["ok", "bad", None], [0, 1, np.nan], "float32"),
        ([None, "bad", "ok"], [0, np.nan, 1], "float32"),
    ],
)
def test_labels_are_numbers_of_torch(label, expected, dtype):
    data = to_pyg(TemporalEdges([1, 2, 3], [2, 3, 1], [1, 0, 2], label=label))
    assert str(data.y.dtype) == f"torch.{dtype}"
    np.testing.assert_array_equal(data.y.numpy(), expected)


@needs_pyg
def test_tensors_of_a_kind_that_numpy_has_not():
    import torch

    data = to_pyg(TemporalEdges([1, 2], [2, 3], [1, 2], features=[[0.5, 1.0], [1.5, 2.0]]))
    data.msg = data.msg.to(torch.bfloat16)
    assert from_pyg(data).features.tolist() == [[0.5, 1.0], [1.5, 2.0]]


@needs_pyg
def test_the_tools_of_pyg_take_the_data():
    from torch_geometric.loader import TemporalDataLoader

    rng = np.random.default_rng(0)
    time = rng.permutation(100)
    edges = TemporalEdges(rng.integers(0, 9, 100), rng.integers(0, 9, 100), time, features=rng.random((100, 2)))
    data = to_pyg(edges)
    assert (str(data.t.dtype), str(data.msg.dtype)) == ("torch.int64", "torch.float32")
    train, _, test = data.train_val_test_split(0.2, 0.2)
    assert train.t.max() < test.t.min()
    batches = list(TemporalDataLoader(data, batch_size=30))
    assert [len(batch) for batch in batches] == [30, 30, 30, 10]
    np.testing.assert_array_equal(np.concatenate([batch.row for batch in batches]), np.argsort(time))
    assert str(to_pyg(TemporalEdges([1], [2], [0.5])).t.dtype) == "torch.float64"


@needs_pyg
def test_reading_loads_no_torch_of_its_own():
    code = "import sys; from tdlg.io import from_pyg; from types import SimpleNamespace as S; "
    code += "from_pyg(S(src=[0], dst=[1], t=[2])); assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


@needs_pyg
def test_tensors_are_read_and_left_alone():
    import torch
    from torch_geometric.data import TemporalData

    data = TemporalData(
        src=torch.tensor([0, 1]),
        dst=torch.tensor([2, 2]),
        t=torch.tensor([5, 6]),
        msg=torch.ones(2, 3, requires_grad=True),
    )
    edges = from_pyg(data)
    data.t += 1
    assert rows(edges) == [(0, 2, 5), (1, 2, 6)]
    assert edges.features.shape == (2, 3)
    del data.t
    with pytest.raises(ReadError, match=r"Got TemporalData with \['dst', 'msg', 'src'\]"):
        from_pyg(data)
