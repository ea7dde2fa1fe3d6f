"""DyLink2Vec: a learnt code of the neighbourhoods of pairs of nodes, snapshot by snapshot."""

from __future__ import annotations

from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, diags_array, vstack
from scipy.special import expit

from tdlg.checks import as_generator, check_count, check_number
from tdlg.edges import TemporalEdges
from tdlg_paper.baselines.node_vectors import Callback, EdgeVectorMethod
from tdlg_paper.baselines.snapshots import Snapshots

__all__ = ["Code", "DyLink2Vec", "gradient", "reconstruction_error"]

Floats = NDArray[np.float64]
Positions = NDArray[np.int64]

BATCH = 512  # pairs
FADING = 0.9, 0.999  # of the means of gradients and of their squares, as usual for Adam
TINY = 1e-8


class DyLink2Vec(EdgeVectorMethod):
    """Codes of pair neighbourhoods: an autoencoder learns to compress which nodes the two nodes of an edge are linked to.

    The neighbourhood of a pair in a snapshot is the sum of the two rows of the adjacency matrix, so that common neighbours
    count twice (Rahman et al., "DyLink2Vec: Effective Feature Representation for Link Prediction in Dynamic Networks",
    2018). Its code is sigmoid(x W + b), and the neighbourhood is reconstructed from the code linearly; gradient descent
    makes the squared error small. The features of an edge are the codes of its pair in the snapshot of its time and in the
    snapshots before it.

    Details that the original leaves open, or that are different here: neighbourhoods are scaled to length 1; one code serves
    all snapshots; the features are the codes of the last `history` snapshots instead of all, so that edges of different
    times are comparable, and there are 4 * 32 = 128 of them by default, as in other methods; Adam replaces plain gradient
    descent.

    Parameters
    ----------
    n_components
        The length of the code of one snapshot.
    history
        The number of snapshots whose codes are features: that of the edge, and the ones before it.
    epochs
        How often gradient descent goes through all edges.
    learning_rate
        The size of a step.
    n_snapshots, class_weight
        The same as for `EdgeVectorMethod`.
    random_state
        Seed for the initial weights and the order of the edges.

    Attributes
    ----------
    vectors_
        The weights, a `Code`.
    errors_
        The mean squared error of the reconstruction in each epoch.

    Examples
    --------
    >>> from tdlg import TemporalEdges
    >>> edges = TemporalEdges(["a", "b", "c", "d"] * 5, ["b", "a", "d", "c"] * 5, range(20), label=[0, 0, 1, 1] * 5)
    >>> method = DyLink2Vec(4, history=1, n_snapshots=2, random_state=0)
    >>> method.embed(edges)
    >>> method.fit(edges)
    >>> method.score(edges[:4]) > 0
    array([False, False,  True,  True])
    """

    name: ClassVar[str] = "DyLink2Vec"
    vectors_: Code

    def __init__(
        self,
        n_components: int = 32,
        *,
        history: int = 4,
        epochs: int = 50,
        learning_rate: float = 0.01,
        n_snapshots: int = 20,
        class_weight: Literal["balanced"] | None = "balanced",
        random_state: Any = None,
    ) -> None:
        self.n_components = n_components
        self.history = history
        self.epochs = epochs
        self.learning_rate = learning_rate
        self.n_snapshots = n_snapshots
        self.class_weight = class_weight
        self.random_state = random_state

    def _embed(self, snapshots: Snapshots, callback: Callback) -> Code:
        for parameter in ("n_components", "history", "epochs"):
            check_count("DyLink2Vec", parameter, getattr(self, parameter), 1)
        check_number("DyLink2Vec", "learning_rate", self.learning_rate)
        rng = as_generator(self.random_state)
        pairs = neighbourhoods(snapshots, snapshots.index, snapshots.src, snapshots.dst)
        code = Code.random(snapshots.n_nodes, self.n_components, rng)
        steps = _Adam(self.learning_rate)
        self.errors_: list[float] = []
        for epoch in range(self.epochs):
            order, errors = rng.permutation(pairs.shape[0]), []
            for start in range(0, len(order), BATCH):
                batch = pairs[order[start : start + BATCH]]
                errors.append(reconstruction_error(code, batch) * batch.shape[0])
                code = steps.after(code, gradient(code, batch))
            self.errors_.append(sum(errors) / len(order))
            if callback(epoch + 1, self.epochs):
                break
        return code

    def features(self, edges: TemporalEdges) -> Floats:
        """The codes of the pairs of nodes, shape (n_edges, history * n_components); 0 before the first snapshot.

        Parameters
        ----------
        edges
            Edges of the same or of another table as those passed to `embed`.
        """
        index, (src, dst) = self.snapshots_.index_of(edges), self.snapshots_.nodes_of(edges)
        columns = []
        for back in range(self.history):
            pairs = neighbourhoods(self.snapshots_, index - back, src, dst)
            columns.append(np.where((index >= back)[:, np.newaxis], self.vectors_.of(pairs), 0.0))
        return np.hstack(columns)


class Code(NamedTuple):
    """An autoencoder: the code of x is sigmoid(x @ into + bias), and its reconstruction is code @ back + mean."""

    into: Floats
    bias: Floats
    back: Floats
    mean: Floats

    @classmethod
    def random(cls, n_inputs: int, n_components: int, rng: np.random.Generator) -> Code:
        """Small random weights."""
        into, back = (rng.standard_normal(shape) for shape in ((n_inputs, n_components), (n_components, n_inputs)))
        return cls(into, np.zeros(n_components), back / np.sqrt(n_inputs), np.zeros(n_inputs))

    def of(self, pairs: csr_array) -> Floats:
        """The codes of rows."""
        return expit(pairs @ self.into + self.bias)


def neighbourhoods(snapshots: Snapshots, index: Positions, src: Positions, dst: Positions) -> csr_array:
    """The sum of the adjacency rows of two nodes in a snapshot, scaled to length 1, shape (n_pairs, n_nodes).

    Parameters
    ----------
    snapshots
        The edges.
    index, src, dst
        The snapshot and the two nodes of each pair. Negative numbers are unknown snapshots or nodes, which have no links.
    """
    n_nodes = snapshots.n_nodes
    links = vstack(
        [*snapshots.adjacencies, csr_array((1, n_nodes))], format="csr"
    )  # the last row is of what is unknown
    at = [np.where((index >= 0) & (node >= 0), index * n_nodes + node, links.shape[0] - 1) for node in (src, dst)]
    rows = links[at[0]] + links[at[1]]
    length = np.sqrt(rows.multiply(rows).sum(axis=1))
    return csr_array(diags_array(1 / np.where(length > 0, length, 1.0)) @ rows)


def reconstruction_error(code: Code, pairs: csr_array) -> float:
    """The mean over pairs of half the squared distance to their reconstruction.

    The reconstruction has as many columns as there are nodes, so only products with the short codes are formed:
    |h B + m - x|^2 = h B B' h' + 2 h B m + m m' - 2 x (B' h' + m) + x x'.
    """
    hidden = code.of(pairs)
    squares = ((hidden @ (code.back @ code.back.T)) * hidden).sum() + 2 * (hidden @ (code.back @ code.mean)).sum()
    products = ((pairs @ code.back.T) * hidden).sum() + (pairs @ code.mean).sum()
    total = squares + len(hidden) * (code.mean @ code.mean) - 2 * products + (pairs.data**2).sum()
    return float(total / (2 * len(hidden)))


def gradient(code: Code, pairs: csr_array) -> Code:
    """The derivatives of `reconstruction_error` with respect to all weights."""
    n_pairs = pairs.shape[0]
    hidden = code.of(pairs)
    total = hidden.sum(axis=0)
    of_back = (hidden.T @ hidden) @ code.back + np.outer(total, code.mean) - (pairs.T @ hidden).T
    of_mean = total @ code.back + n_pairs * code.mean - pairs.sum(axis=0)
    of_hidden = hidden @ (code.back @ code.back.T) + code.mean @ code.back.T - pairs @ code.back.T
    of_input = of_hidden * hidden * (1 - hidden)
    return Code(*(value / n_pairs for value in (pairs.T @ of_input, of_input.sum(axis=0), of_back, of_mean)))


class _Adam:
    """Gradient descent whose steps are scaled by the means of past gradients and of their squares."""

    def __init__(self, learning_rate: float) -> None:
        self._rate = learning_rate
        self._n_steps = 0
        self._means: list[tuple[Floats, Floats]] = []

    def after(self, code: Code, slope: Code) -> Code:
        """The weights after one more step."""
        self._n_steps += 1
        self._means = self._means or [(np.zeros_like(part), np.zeros_like(part)) for part in slope]
        self._means = [
            (_mixed(mean, part, FADING[0]), _mixed(square, part**2, FADING[1]))
            for (mean, square), part in zip(self._means, slope, strict=True)
        ]
        early = [1 - fading**self._n_steps for fading in FADING]  # the means started at 0
        steps = [mean / early[0] / (np.sqrt(square / early[1]) + TINY) for mean, square in self._means]
        return Code(*(weight - self._rate * step for weight, step in zip(code, steps, strict=True)))


def _mixed(old: Floats, new: Floats, share: float) -> Floats:
    return share * old + (1 - share) * new
