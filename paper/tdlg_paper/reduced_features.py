"""AUC against the number of columns, by random 70/30 edge classification with logistic regression.

Landmarks, edges whose proximities describe all others, are no part of the package: they lose against eigenvectors.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array, csr_array
from scipy.sparse.csgraph import connected_components, laplacian
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import train_test_split

from tdlg.datasets.load import load_dataset
from tdlg.edges import TemporalEdges
from tdlg.embed.eigenvectors import EdgeEmbedding, LowRankFeatures
from tdlg.linegraph.decay import Decay
from tdlg.linegraph.operator import LineGraph
from tdlg_paper.tables import table, write_sections

DATASETS = ("bitcoinalpha", "bitcoinotc")
WIDTHS, SEEDS = (8, 32, 128, 512), (0, 1, 2)
Sampling = Literal["uniform", "degree", "resistance"]
SAMPLINGS: tuple[Sampling, ...] = ("uniform", "degree", "resistance")

Floats = NDArray[np.float64]
Features = Callable[[int, int], Any]  # of a number of columns and a seed


def landmark_features(
    edges: TemporalEdges, sampling: Sampling, n_components: int, seed: int, decay: Decay | None = None
) -> csr_array:
    """The proximities of edges to landmarks: columns of the line graph, sampled without replacement.

    All edges are equally likely, or in proportion to the row sums of the line graph ("degree"), which prefers edges that are
    close to many others, or to the effective resistance, which prefers the only links between parts of the network.
    """
    H, rng = LineGraph(edges, decay=decay), np.random.default_rng(seed)
    weights = np.ones(len(edges)) if sampling == "uniform" else H.row_sums()
    weights = resistances(edges) if sampling == "resistance" else weights
    with np.errstate(
        divide="ignore"
    ):  # the first of exponential arrival times with these rates; those of rate 0 come last
        arrivals = rng.exponential(size=len(edges)) / np.maximum(weights, 0.0)
    landmarks = np.sort(np.argsort(arrivals, kind="stable")[:n_components])
    return LineGraph(edges, edges[landmarks], decay=H.decay).to_csr()


def resistances(edges: TemporalEdges) -> Floats:
    """The effective resistance of each edge in the undirected multigraph of the edges, each a wire of resistance 1.

    An edge that is the only link between two parts has resistance 1, one of m parallel edges at most 1 / m, and a self-loop
    0. All sum to the number of nodes minus the number of components. They come from a dense inverse of all nodes.

    Examples
    --------
    A triangle with a tail:

    >>> resistances(TemporalEdges(["a", "b", "c", "c"], ["b", "c", "a", "d"], [0, 1, 2, 3])).round(3)
    array([0.667, 0.667, 0.667, 1.   ])
    """
    src, dst, n_nodes = edges.src_code, edges.dst_code, edges.n_nodes
    links = coo_array((np.ones(len(edges)), (src, dst)), (n_nodes, n_nodes)).tocsr()
    component = connected_components(links, directed=False)[1]
    dense = laplacian((links + links.T).toarray())
    inverse = np.linalg.inv(dense + (component[:, None] == component))  # changes no potential difference
    diagonal = inverse.diagonal()
    return np.clip(diagonal[src] + diagonal[dst] - 2 * inverse[src, dst], 0.0, 1.0)


def mean_auc(features_of: Features, width: int, y: NDArray[np.bool_]) -> str:
    """Mean and standard deviation in percent over seeds of split and features, tested on 30 % of the edges."""
    scores = []
    for seed in SEEDS:
        features = features_of(width, seed)
        train, test = train_test_split(np.arange(len(y)), test_size=0.3, random_state=seed)
        model = LogisticRegression(class_weight="balanced", max_iter=1000).fit(features[train], y[train])
        scores.append(100 * roc_auc_score(y[test], model.decision_function(features[test])))
    return f"{np.mean(scores):.1f} ± {np.std(scores):.1f}"


def methods(edges: TemporalEdges) -> Iterator[tuple[str, Features]]:
    """What is compared, by name."""
    model = EdgeEmbedding(max(WIDTHS), random_state=0).fit(edges)
    yield "`EdgeEmbedding()`", lambda k, seed: model.embedding_[:, :k]
    scaled = model.embedding_ * np.abs(model.eigenvalues_)
    yield '`EdgeEmbedding(scaling="eigenvalue")`', lambda k, seed: scaled[:, :k]
    yield "`LowRankFeatures()`", lambda k, seed: LowRankFeatures(k, random_state=seed).fit_transform(edges)
    for sampling in SAMPLINGS:
        yield f"landmarks, {sampling}", partial(landmark_features, edges, sampling)


def measured(dataset: str, edges: TemporalEdges) -> Iterator[tuple[str, ...]]:
    """The rows of one network."""
    y = np.asarray(edges.label) > 0
    for method, features in methods(edges):
        yield dataset, method, *(mean_auc(features, width, y) for width in WIDTHS)
    full, n = LineGraph(edges).to_csr(), len(edges)
    blank = [""] * (len(WIDTHS) - 1)
    yield dataset, f"full rows, {n:,} columns", *blank, mean_auc(lambda width, seed: full, n, y)


def main(given: Any) -> None:
    """Measure, and write the table into the page."""
    rows = []
    for dataset in DATASETS:
        for row in measured(dataset, load_dataset(dataset)):
            print(*row, sep=", ", flush=True)
            rows.append(row)
    write_sections(given.page, {"reduced-features": table(("network", "features", *map(str, WIDTHS)), rows, left=2)})
