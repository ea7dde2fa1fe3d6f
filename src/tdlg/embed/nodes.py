"""Node embeddings from edge embeddings: the paper's definition "Mean-Edge Node Embeddings"."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, issparse

from tdlg.edges import TemporalEdges
from tdlg.exceptions import ParameterError


def node_embeddings(edges: TemporalEdges, Y: Any) -> NDArray[np.float64] | csr_array:
    """Compute for each node the mean of the rows of its edges.

    X = B~ Y, where B is the incidence matrix of nodes and edges, 1 if a node is an end of an edge, and B~ is B with each
    row divided by its sum. A self-loop is one edge of its node.

    Parameters
    ----------
    edges
        The edges.
    Y
        One row per edge, shape (n_edges, k): a numpy array or a scipy sparse matrix, for instance the rows of H.

    Returns
    -------
    X
        One row per node in the order of `edges.node_ids`, shape (n_nodes, k); sparse if Y is sparse. Nodes of the table
        that have none of these edges get zeros.

    Examples
    --------
    >>> import numpy as np
    >>> from tdlg import TemporalEdges
    >>> from tdlg.embed import node_embeddings
    >>> edges = TemporalEdges(["a", "b", "c"], ["b", "c", "c"], [0, 1, 2])
    >>> node_embeddings(edges, np.array([[1.0], [2.0], [6.0]]))
    array([[1. ],
           [1.5],
           [4. ]])
    """
    Y = csr_array(Y) if issparse(Y) else np.asarray(Y)
    if not isinstance(edges, TemporalEdges):
        raise ParameterError(
            f"The 'edges' parameter of node_embeddings must be TemporalEdges. Got {type(edges).__name__} instead.",
            "Wrap columns as `TemporalEdges(src, dst, time)`.",
            parameter="edges",
        )
    if Y.ndim != 2 or Y.shape[0] != edges.n_edges or Y.dtype.kind not in "biuf":
        raise ParameterError(
            f"The 'Y' parameter of node_embeddings must have one row for each of the {edges.n_edges} edges, of "
            f"numbers. Got the shape {Y.shape} of {Y.dtype} instead.",
            parameter="Y",
        )
    src, dst, edge = edges.src_code, edges.dst_code, np.arange(edges.n_edges)
    other = src != dst
    nodes, columns = np.append(src, dst[other]), np.append(edge, edge[other])
    incidence = csr_array((np.ones(nodes.size), (nodes, columns)), shape=(edges.n_nodes, edges.n_edges))
    incidence.data /= np.repeat(np.maximum(incidence.sum(axis=1), 1.0), np.diff(incidence.indptr))
    return incidence @ Y
