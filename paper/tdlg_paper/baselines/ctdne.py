"""CTDNE: skip-gram vectors of nodes from random walks in the order of time."""

from __future__ import annotations

import warnings
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from tdlg.checks import as_generator, check_choice
from tdlg.exceptions import TdlgWarning
from tdlg_paper.baselines.snapshots import Snapshots
from tdlg_paper.baselines.temporal_walks import temporal_walks
from tdlg_paper.baselines.vectors import Callback, NodeVectorMethod

Bias = Literal["uniform", "exponential"]

LEAST_WITH_VECTOR = 0.1  # share of nodes with a vector, below which there is a warning
LEARNING_RATES = 0.025, 0.0001  # at the start and at the end, those of word2vec


@dataclass(repr=False, eq=False)
class CTDNE(NodeVectorMethod):
    """Vectors of nodes that are close on walks in the order of time, one vector per node for all times.

    A walk starts with a sampled edge; each next edge leaves the node that was reached, and is not earlier than the edge
    before. Walks of fewer than `min_length` nodes are left out. Then skip-gram learns the vectors from the walks as from
    sentences (Nguyen et al., "Continuous-Time Dynamic Network Embeddings", BigNet 2018). It needs gensim;
    from a clone: `pip install "./paper[deep]"`.

    The original samples walks until it has a number of context windows; here the number of walks is fixed, because few walks
    are long enough in sparse networks. Walks follow the direction of edges: in an undirected network with walks over equal
    times, each edge could be walked back and forth forever. With these defaults the scores are near those that the paper of
    the line graph prints; `directed=False` or a smaller `min_length` often gives higher scores, because more nodes get a
    vector.

    Parameters
    ----------
    n_walks
        The number of walks, per node of the network; each starts with an edge sampled among all edges.
    walk_length
        The largest number of nodes of a walk.
    window
        The largest distance on a walk between two nodes that are learnt from.
    min_length
        The smallest number of nodes of a walk that is used. 10 by default, the window, as in the original.
    walk_bias
        How each next edge is sampled: "uniform" (default), or "exponential" in the time in standard deviations of all times,
        which prefers soon ones. The first edge is sampled uniformly.
    directed
        Whether walks follow edges from src to dst only. True by default.
    epochs
        How often skip-gram goes through the walks.
    n_snapshots
        One, as each node has one vector for all times.

    Examples
    --------
    >>> from tdlg import TemporalEdges
    >>> edges = TemporalEdges(["a", "b", "c", "b"], ["b", "c", "d", "a"], [1, 2, 3, 0])
    >>> CTDNE(n_walks=1, walk_length=5).walks(Snapshots(edges, 1), np.random.default_rng(3))
    array([[ 2,  3, -1, -1, -1],
           [ 0,  1,  2,  3, -1],
           [ 0,  1,  2,  3, -1],
           [ 0,  1,  2,  3, -1]], dtype=int32)
    """

    _: KW_ONLY
    n_walks: int = 10
    walk_length: int = 80
    window: int = 10
    min_length: int = 10
    walk_bias: Bias = "uniform"
    directed: bool = True
    epochs: int = 1
    n_snapshots: int = 1

    name: ClassVar[str] = "CTDNE"
    COUNTS: ClassVar[dict[str, int]] = {"n_walks": 1, "walk_length": 2, "window": 1, "min_length": 2, "epochs": 1}

    def _embed(self, snapshots: Snapshots, callback: Callback) -> NDArray[np.float32]:
        load_word2vec()  # says what is missing before the walks
        rng = as_generator(self.random_state)
        walks = self.walks(snapshots, rng)
        lengths = (walks >= 0).sum(axis=1)
        used = lengths >= self.min_length
        self._warn_of_few(np.unique(walks[used]), snapshots.n_nodes)
        sentences = [walk[:length].tolist() for walk, length in zip(walks[used], lengths[used], strict=True)]
        return self._skip_gram(sentences, snapshots.n_nodes, rng, callback)[np.newaxis]

    def _warn_of_few(self, found: NDArray[np.int32], n_nodes: int) -> None:
        """Say if most nodes are in no walk that is long enough, and so have no vector."""
        share = (found >= 0).sum() / n_nodes
        if share < LEAST_WITH_VECTOR:
            warnings.warn(
                f"Only {share:.0%} of the nodes have a vector: few walks have at least min_length={self.min_length} nodes. "
                "Pass a smaller min_length, or directed=False to follow edges both ways.",
                TdlgWarning,
                stacklevel=2,
            )

    def walks(self, snapshots: Snapshots, rng: np.random.Generator) -> NDArray[np.int32]:
        """Random walks in the order of time, shape (n_walks * n_nodes, walk_length); -1 after the last node of a walk."""
        src, dst, time = snapshots.src, snapshots.dst, snapshots.edges.ticks.astype(np.float64)
        if not self.directed:
            src, dst, time = np.append(src, dst), np.append(dst, src), np.tile(time, 2)
        order = np.lexsort((time, src))
        src, dst, time = src[order], dst[order], time[order]
        scale = float(time.std()) or 1.0
        indptr = np.append(0, np.cumsum(np.bincount(src, minlength=snapshots.n_nodes)))
        chosen = rng.integers(len(time), size=self.n_walks * snapshots.n_nodes)
        walks = np.empty((len(chosen), self.walk_length), np.int32)
        starts = src[chosen], dst[chosen], time[chosen]
        temporal_walks(indptr, dst, time, starts, self.walk_bias == "exponential", scale, rng, walks)
        return walks

    def _skip_gram(
        self, sentences: list[list[int]], n_nodes: int, rng: np.random.Generator, callback: Callback
    ) -> NDArray[np.float32]:
        """The vectors of nodes; zeros for nodes that are on no walk."""
        vectors = np.zeros((n_nodes, self.n_components), np.float32)
        if not sentences:
            return vectors
        words = [[str(node) for node in sentence] for sentence in sentences]
        model = load_word2vec()(
            vector_size=self.n_components,
            window=self.window,
            min_count=1,
            sg=1,
            workers=1,
            seed=int(rng.integers(2**31)),
        )
        model.build_vocab(words)
        rates = np.linspace(*LEARNING_RATES, self.epochs + 1)
        for epoch in range(self.epochs):
            model.train(
                words, total_examples=len(words), epochs=1, start_alpha=rates[epoch], end_alpha=rates[epoch + 1]
            )
            if callback(epoch + 1, self.epochs):
                break
        vectors[np.array(model.wv.index_to_key, np.int64)] = model.wv.vectors
        return vectors

    def _check(self) -> None:
        super()._check()
        check_choice("CTDNE", "walk_bias", self.walk_bias, ("uniform", "exponential"))


def load_word2vec() -> Any:
    """Import gensim's Word2Vec, or say how to install it."""
    try:
        from gensim.models import Word2Vec
    except ImportError:
        raise ImportError('CTDNE needs gensim. From a clone of tdlg, run: pip install "./paper[deep]"') from None
    return Word2Vec
