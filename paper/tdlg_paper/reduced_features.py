"""`python -m tdlg_paper reduced-features`: AUC against the number of columns, as the table of docs/results.md.

Random 70/30 edge classification of the networks that are at hand, with logistic regression.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import train_test_split

from tdlg.datasets.load import load_dataset
from tdlg.edges import TemporalEdges
from tdlg.embed.eigenvectors import EdgeEmbedding, LowRankFeatures
from tdlg.linegraph.operator import LineGraph
from tdlg_paper.landmarks import SAMPLINGS, LandmarkFeatures, Sampling
from tdlg_paper.tables import table, write_sections

DATASETS = ("bitcoinalpha", "bitcoinotc")
WIDTHS, SEEDS = (8, 32, 128, 512), (0, 1, 2)

Features = Callable[[int, int], Any]  # of a number of columns and a seed


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
        yield f'`LandmarkFeatures(sampling="{sampling}")`', _landmarks(edges, sampling)


def _landmarks(edges: TemporalEdges, sampling: Sampling) -> Features:
    return lambda k, seed: LandmarkFeatures(k, sampling=sampling, random_state=seed).fit_transform(edges)


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
