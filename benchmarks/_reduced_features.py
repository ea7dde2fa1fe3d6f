"""Writes the table of docs/reduced-features.md: AUC against the number of columns, on random 70/30 edge classification."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
from _bench import data_file
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import train_test_split

from tdlg import EdgeEmbedding, LandmarkFeatures, LineGraph, LowRankFeatures, TemporalEdges, read_edges

PAGE = Path(__file__).parents[1] / "docs" / "reduced-features.md"
MARKS = "<!-- table -->", "<!-- end of table -->"
WIDTHS, SEEDS, SAMPLINGS = (8, 32, 128, 512), (0, 1, 2), ("uniform", "degree", "resistance")
NETWORKS = {"bitcoinalpha": "soc-sign-bitcoinalpha.csv", "bitcoinotc": "soc-sign-bitcoinotc.csv"}


def auc(features, y: np.ndarray, seed: int) -> float:
    """Of logistic regression on 70 % of the edges, for the others."""
    train, test = train_test_split(np.arange(len(y)), test_size=0.3, random_state=seed)
    model = LogisticRegression(class_weight="balanced", max_iter=1000).fit(features[train], y[train])
    return roc_auc_score(y[test], model.decision_function(features[test]))


def mean_auc(features_of, y: np.ndarray) -> str:
    """Mean and standard deviation over seeds of split and features, in percent."""
    scores = [100 * auc(features_of(seed), y, seed) for seed in SEEDS]
    return f"{np.mean(scores):.1f} ± {np.std(scores):.1f}"


def methods(edges: TemporalEdges) -> Iterator[tuple[str, object]]:
    """Name, and a function of width and seed that gives features."""
    model = EdgeEmbedding(max(WIDTHS), random_state=0).fit(edges)
    yield "`EdgeEmbedding()`", lambda k, seed: model.embedding_[:, :k]
    scaled = model.embedding_ * np.abs(model.eigenvalues_)
    yield '`EdgeEmbedding(scaling="eigenvalue")`', lambda k, seed: scaled[:, :k]
    yield "`LowRankFeatures()`", lambda k, seed: LowRankFeatures(k, random_state=seed).fit_transform(edges)
    for sampling in SAMPLINGS:
        yield (
            f'`LandmarkFeatures(sampling="{sampling}")`',
            lambda k, seed, s=sampling: LandmarkFeatures(k, sampling=s, random_state=seed).fit_transform(edges),
        )


def lines_of(name: str, edges: TemporalEdges) -> Iterator[str]:
    y = edges.label > 0
    full = LineGraph(edges).to_csr()
    for method, features in methods(edges):
        scores = [mean_auc(lambda seed, k=k: features(k, seed), y) for k in WIDTHS]
        print(name, method, *scores, sep=" | ", flush=True)
        yield f"| {name} | {method} | {' | '.join(scores)} |"
    yield f"| {name} | full rows, {len(edges):,} columns | | | | {mean_auc(lambda seed: full, y)} |"


if __name__ == "__main__":
    table = [f"| network | features | {' | '.join(map(str, WIDTHS))} |", "|---|---|" + "---|" * len(WIDTHS)]
    for name, file in NETWORKS.items():
        table += lines_of(name, read_edges(data_file(file), src=0, dst=1, label=2, time=3))
    before, rest = PAGE.read_text(encoding="utf-8").split(MARKS[0])
    _, after = rest.split(MARKS[1])
    PAGE.write_text("\n".join([before + MARKS[0], *table, MARKS[1] + after]), encoding="utf-8")
