"""The paper's synthetic network, and how well its embeddings separate the kinds of edges and the communities of nodes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linprog
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import recall_score
from sklearn.model_selection import StratifiedKFold, cross_val_predict, cross_val_score
from sklearn.neighbors import KNeighborsClassifier

from tdlg.embed.eigenvectors import EdgeEmbedding
from tdlg.embed.nodes import node_embeddings
from tdlg.linegraph.decay import Decay, Gaussian, NoDecay
from tdlg_paper.blocks import BlockSample, make_tsbm
from tdlg_paper.rows import keep_row, read_rows

BANDWIDTH = 0.5  # the paper's, on this network
DRAWS = 10  # the paper shows one
NEIGHBOURS = 15

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Draw:
    """What was measured on one sample of the network, in the second and third eigenvector, which the paper shows.

    `kinds` is the recall of the worst of the six kinds of edges, of which there are equally many, when the 15 nearest
    neighbours classify them, cross-validated in five folds (chance 1/6); `separable` is 1 if a straight line separates the
    nodes of U and V, else 0; `nodes` is the accuracy of a line on held-out nodes in ten folds (chance 1/2). Those that
    end in "_blind" are without time decay.
    """

    seed: int
    kinds: float
    kinds_blind: float
    separable: int
    separable_blind: int
    nodes: float
    nodes_blind: float

    @property
    def key(self) -> int:
        """The seed."""
        return self.seed


def sample(seed: int = 0) -> BlockSample:
    """Sample the paper's network: 100 nodes in two communities, two periods of 2,000 edges."""
    return make_tsbm(random_state=seed)


def embeddings(drawn: BlockSample, decay: Decay | None = None) -> tuple[Floats, Floats]:
    """Return the second and third eigenvector for edges, and their means for nodes."""
    edges = drawn.edges
    vectors = EdgeEmbedding(3, decay=decay or Gaussian(BANDWIDTH), random_state=0).fit(edges).embedding_[:, 1:3]
    return vectors, np.asarray(node_embeddings(edges, vectors))


def is_separable(X: Floats, y: NDArray[Any]) -> bool:
    """Whether a hyperplane has all points of one class on one side and all others on the other: a linear programme.

    Examples
    --------
    >>> is_separable(np.array([[0.0], [1.0], [2.0]]), np.array([0, 0, 1]))
    True
    >>> is_separable(np.array([[0.0], [1.0], [2.0]]), np.array([0, 1, 0]))
    False
    """
    sign = np.where(y == np.max(y), 1.0, -1.0)
    columns = np.column_stack([_standard(X), np.ones(len(X))])
    answer = linprog(np.zeros(columns.shape[1]), -sign[:, None] * columns, -np.ones(len(X)), bounds=(None, None))
    return bool(answer.status == 0)


def measure(path: Path, draws: int) -> Iterator[int]:
    """Measure a number of samples and write each to the file; samples that the file has are not measured again."""
    known = {draw.seed for draw in read_rows(path, Draw)}
    for seed in range(draws):
        if seed not in known:
            keep_row(path, _measured(seed))
        yield seed


def _measured(seed: int) -> Draw:
    drawn, found = sample(seed), {}
    for suffix, decay in (("", Gaussian(BANDWIDTH)), ("_blind", NoDecay())):
        of_edges, of_nodes = embeddings(drawn, decay)
        found["kinds" + suffix] = _worst_recall(KNeighborsClassifier(NEIGHBOURS), of_edges, drawn.kind)
        found["separable" + suffix] = int(is_separable(of_nodes, drawn.community))
        found["nodes" + suffix] = _accuracy(LogisticRegression(C=100.0), of_nodes, drawn.community, folds=10)
    return Draw(seed=seed, **found)  # type: ignore[arg-type]  # ints and floats, each where it belongs


def _worst_recall(classifier: Any, X: Floats, y: NDArray[Any]) -> float:
    """The recall of the class with the lowest one; every class is reduced to the size of the smallest."""
    rng, size = np.random.default_rng(0), np.unique(y, return_counts=True)[1].min()
    some = np.concatenate([rng.choice(np.flatnonzero(y == kind), size, replace=False) for kind in np.unique(y)])
    parts = StratifiedKFold(5, shuffle=True, random_state=0)
    predicted = cross_val_predict(classifier, _standard(X)[some], y[some], cv=parts)
    return round(float(recall_score(y[some], predicted, average=None).min()), 6)


def _accuracy(classifier: Any, X: Floats, y: NDArray[Any], *, folds: int) -> float:
    parts = StratifiedKFold(folds, shuffle=True, random_state=0)
    return round(float(cross_val_score(classifier, _standard(X), y, cv=parts).mean()), 6)


def _standard(X: Floats) -> Floats:
    """Columns scaled to mean 0 and standard deviation 1, without labels."""
    return (X - X.mean(axis=0)) / np.maximum(X.std(axis=0), 1e-300)
