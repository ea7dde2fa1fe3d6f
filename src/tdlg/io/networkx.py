"""Conversion from and to networkx graphs, whose edges have a time as an attribute."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from tdlg.edges import TemporalEdges
from tdlg.exceptions import EdgesError, ReadError
from tdlg.tables.column import row_name

SIDES = ("src", "dst")


class _Edge(NamedTuple):
    src: Any
    dst: Any
    key: Any
    attributes: dict[Any, Any]

    @property
    def name(self) -> str:
        return f"the edge {self[:2] if self.key is None else self[:3]}"


def from_networkx(
    graph: Any,
    *,
    time: str = "time",
    label: str | None = None,
    weight: str | None = None,
    features: str | Iterable[str] | None = None,
    bipartite: bool = False,
) -> TemporalEdges:
    """Read temporal edges from a networkx graph: Graph, DiGraph, MultiGraph or MultiDiGraph.

    Nodes without edges are left out.

    Parameters
    ----------
    graph
        The graph; its nodes are the ids. An undirected edge is read once, with the node that was added first as source.
    time
        The edge attribute with the time; every edge needs it. Default "time".
    label, weight
        The edge attributes with the label and the weight. By default there is neither. The label of an
        edge without the attribute is unknown.
    features
        The edge attributes with the features, a list or one name. By default the edges have no features. An edge without the
        attribute has a missing value.
    bipartite
        Whether `src` and `dst` are nodes of two types, see `TemporalEdges`. False by default. If True, nodes in the form
        that `to_networkx` writes, ("src", 1) and ("dst", 1), are read as 1 and 1, and the edges of an undirected graph go
        from the nodes whose attribute "bipartite" is 0 to those where it is 1, networkx's convention.

    Returns
    -------
    TemporalEdges
        The edges in the order of the graph; if their keys are distinct integers, as `to_networkx` writes them, in the
        order of the keys.

    Raises
    ------
    ReadError
        If it is not a graph, or an edge lacks the time or the weight; the message names the edge.

    Examples
    --------
    >>> import networkx as nx
    >>> graph = nx.MultiDiGraph()
    >>> _ = graph.add_edge("ann", "bob", sent="2020-01-31", fraud=0), graph.add_edge("ann", "bob", sent="2020-02-01")
    >>> from_networkx(graph, time="sent", label="fraud")
    TemporalEdges(2 edges, 2 nodes, 2020-01-31 to 2020-02-01, label: 1 value (1 unknown))
    """
    edges = _edges_of(graph, bipartite)
    if all(type(edge.key) is int for edge in edges) and len({edge.key for edge in edges}) == len(edges):
        edges.sort(key=lambda edge: edge.key)
    names = [features] if isinstance(features, str) else list(features or [])
    columns = {
        "time": _column(edges, "time", time, required=True),
        "label": None if label is None else _column(edges, "label", label),
        "weight": None if weight is None else _column(edges, "weight", weight, required=True),
        "features": {str(name): _column(edges, "features", name) for name in names},
    }
    src, dst = [edge.src for edge in edges], [edge.dst for edge in edges]
    if bipartite and all(
        isinstance(node, tuple) and len(node) == 2 and node[0] == side
        for side, ids in zip(SIDES, (src, dst), strict=True)
        for node in ids
    ):
        src, dst = ([node[1] for node in ids] for ids in (src, dst))
    try:
        return TemporalEdges(src, dst, **columns, bipartite=bipartite)
    except EdgesError as error:
        problem = error.problem
        if error.row is not None:
            problem = problem.replace(row_name(error.row), edges[error.row].name)
        raise error.as_kind(ReadError, f"The graph: {problem}") from None


def to_networkx(edges: TemporalEdges) -> Any:
    """Convert temporal edges to a networkx MultiDiGraph.

    Its nodes are the ids. The key of an edge is its position in `edges`. Its attributes are "time" and, if present,
    "label", "weight" and the features by their names: times are numbers or numpy datetime64, categorical features are
    their strings, and missing values are NaN or None.

    If `edges.bipartite`, user 1 and item 1 become two nodes, ("src", 1) and ("dst", 1), with the attribute "bipartite" 0
    or 1 as in networkx, even if no id occurs on both sides.

    Parameters
    ----------
    edges
        The edges. For a slice, nodes without an edge in the slice are left out.

    Returns
    -------
    networkx.MultiDiGraph
        The graph; `from_networkx` converts it back to the same edges.

    Examples
    --------
    >>> graph = to_networkx(TemporalEdges(["ann", "bob"], ["bob", "ann"], [1, 5], label=[0, 1]))
    >>> graph.edges["bob", "ann", 1]
    {'time': 5, 'label': 1}
    """
    try:
        import networkx as nx
    except ImportError:
        raise ImportError('to_networkx needs networkx. From a clone of tdlg, run: pip install ".[networkx]".') from None
    graph = nx.MultiDiGraph()
    src, dst = edges.src.tolist(), edges.dst.tolist()
    if edges.bipartite:
        src, dst = ([(side, value) for value in ids] for side, ids in zip(SIDES, (src, dst), strict=True))
        graph.add_nodes_from(src, bipartite=0)
        graph.add_nodes_from(dst, bipartite=1)
    columns = {"time": edges.time.tolist() if edges.time_unit is None else list(edges.time)}
    columns |= {k: c.tolist() for k, c in (("label", edges.label), ("weight", edges.weight)) if c is not None}
    taken = sorted(columns.keys() & set(edges.feature_names))
    if taken:
        raise EdgesError(
            f"The features {taken} have the same names as the graph's own attributes {' and '.join(taken)}. "
            f"Rename these features."
        )
    for k, name in enumerate(edges.feature_names):
        columns[name] = np.asarray(edges.features)[:, k].tolist()
        if name in edges.feature_categories:
            words = edges.feature_categories[name]
            columns[name] = [None if code != code else words[int(code)] for code in columns[name]]
    rows = zip(src, dst, *columns.values(), strict=True)
    graph.add_edges_from((u, v, key, dict(zip(columns, row, strict=True))) for key, (u, v, *row) in enumerate(rows))
    return graph


def _edges_of(graph: Any, bipartite: bool) -> list[_Edge]:
    if not hasattr(graph, "is_multigraph"):
        raise ReadError(
            f"The 'graph' must be a networkx graph. Got {type(graph).__name__} instead.",
            "Use from_frame for a dataframe, `TemporalEdges(src, dst, time)` for arrays and lists.",
        )
    if graph.is_multigraph():
        edges = [_Edge(*edge) for edge in graph.edges(keys=True, data=True)]
    else:
        edges = [_Edge(u, v, None, attributes) for u, v, attributes in graph.edges(data=True)]
    for k, edge in enumerate(edges if bipartite and not graph.is_directed() else []):
        sides = tuple(graph.nodes[node].get("bipartite") for node in edge[:2])
        if sides == (1, 0):
            edges[k] = edge._replace(src=edge.dst, dst=edge.src)
        elif sides != (0, 1):
            raise ReadError(
                f"The graph: it is undirected, and {edge.name} is between nodes whose attribute 'bipartite' is "
                f"{sides[0]} and {sides[1]}. Set it to 0 for sources and to 1 for destinations, or pass a directed graph."
            )
    return edges


def _column(edges: list[_Edge], role: str, name: Any, required: bool = False) -> list[Any]:
    """The attribute of each edge; None if an edge lacks it."""
    without = next((edge for edge in edges if name not in edge.attributes), None)
    if without is not None and (required or not any(name in edge.attributes for edge in edges)):
        present = list(dict.fromkeys(found for edge in edges for found in edge.attributes))
        raise ReadError(
            f"The graph: {without.name} has no attribute {name!r} for '{role}'. The attributes of edges are {present}.",
            f"Pass {role}= with one of them, or add this attribute to every edge.",
            parameter=role,
        )
    return [edge.attributes.get(name) for edge in edges]
