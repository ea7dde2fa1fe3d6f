"""The compared methods that are neural networks: their parameters, and what differs from the originals.

The networks themselves are in `networks`, which needs PyTorch and is imported when one of them learns.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, diags_array, vstack

from tdlg.checks import check_choice, check_count
from tdlg.edges import TemporalEdges
from tdlg.exceptions import ParameterError
from tdlg_paper.baselines.snapshots import Snapshots
from tdlg_paper.baselines.vectors import Callback, EdgeVectorMethod, NodeVectorMethod

Positions = NDArray[np.int64]
Variant = Literal["H", "O"]


def load_networks() -> Any:
    """The module of the networks, or how to install what it needs."""
    try:
        from tdlg_paper.baselines import networks
    except ImportError:
        raise ImportError('This method needs PyTorch. From a clone of tdlg, run: pip install "./paper[deep]"') from None
    return networks


@dataclass(repr=False, eq=False)
class DeepMethod(NodeVectorMethod):
    """A network that learns vectors of nodes with Adam.

    In the end, all vectors are scaled by one number, so that the mean square of their entries is 1. PyTorch computes with
    one thread and random numbers of its own; its random state is neither read nor changed.

    Parameters
    ----------
    epochs
        How often the network sees all snapshots.
    learning_rate
        The learning rate of Adam.
    """

    _: KW_ONLY
    epochs: int = 50
    learning_rate: float = 0.001

    COUNTS: ClassVar[dict[str, int]] = {"epochs": 1}
    NUMBERS: ClassVar[tuple[str, ...]] = ("learning_rate",)

    def _embed(self, snapshots: Snapshots, callback: Callback) -> Any:
        return load_networks().learn_vectors(self, snapshots, callback)


@dataclass(repr=False, eq=False)
class RecurrentMethod(DeepMethod):
    """A network that runs over the snapshots in the order of time, and carries a state from one to the next.

    Adam makes one step per window of snapshots, and gradients go back to the start of the window; the state is carried
    through all windows of an epoch. Snapshots without edges are left out; their vectors are those of the snapshot before.

    Parameters
    ----------
    window
        The number of snapshots per step.
    """

    _: KW_ONLY
    window: int = 5

    COUNTS: ClassVar[dict[str, int]] = {"epochs": 1, "window": 1}


@dataclass(repr=False, eq=False)
class GCRN(RecurrentMethod):
    """Graph convolutions in each snapshot, whose output for a node is the input of a gated recurrent unit over time.

    Two layers of convolutions with the normalised adjacency matrix start from a learnt row per node, that is from
    one-hot identities (Seo et al., "Structured Sequence Modeling with Graph Convolutional Recurrent Networks", 2018;
    this is their first model, with convolutions before the recurrent unit and not inside it). Their output is scaled to
    length 1. The vector of a node is the state of its recurrent unit after layer normalisation.

    What the original leaves open, or is changed: training is unsupervised, with a loss over random walks. The recurrent
    unit is gated (GRU), as in the published settings, not an LSTM. All snapshots share the weights of the convolutions,
    whereas the published settings have other weights for each, with a row per node and snapshot to learn. A node without
    an edge in a snapshot keeps its state and its vector, and has a zero vector before its first edge, so that the cost
    grows with the edges and not with nodes times snapshots. Dropout (0.5, after the first layer) is for training alone.
    The learning rate is larger than in the published settings, since there are few steps.

    Parameters
    ----------
    hidden
        The length of the hidden vectors between the convolutions.
    """

    _: KW_ONLY
    hidden: int = 500
    learning_rate: float = 0.01

    name: ClassVar[str] = "GCRN"
    COUNTS: ClassVar[dict[str, int]] = {"epochs": 1, "window": 1, "hidden": 1}


@dataclass(repr=False, eq=False)
class VGRNN(RecurrentMethod):
    """A variational graph autoencoder per snapshot; its prior, its encoder and a recurrent state depend on each other.

    In each snapshot, the encoder, two graph convolutions, gives every node a normal distribution from its learnt row and
    its recurrent state; the prior distribution comes from the state alone. A sample z of each node then enters the
    state, through a gated unit with graph convolutions (Hajiramezanali et al., "Variational Graph Recurrent Neural
    Networks", NeurIPS 2019). The loss is the divergence of the two distributions plus the cross-entropy of the edges,
    which are decoded as the sigmoid of z_i z_j. The vector of a node is the mean that the encoder gives it.

    What the original leaves open, or is changed: the decoder is evaluated on all edges and on 10 sampled pairs per node
    without an edge, both counting the same as in the original's weighted sum over all pairs, so that no matrix of all
    pairs is formed. Self-loops in the convolutions have weight 1, not 2. A node without an edge in a snapshot keeps its
    state and its vector, and has a zero vector before its first edge. The learning rate is larger than in the published
    settings, since there are few steps.

    Parameters
    ----------
    hidden
        The length of the hidden vectors and of the state: 128 by default, between the 32 of the original and the 500 of
        the published settings of the comparison, which take four times as long.
    """

    _: KW_ONLY
    hidden: int = 128
    learning_rate: float = 0.01

    name: ClassVar[str] = "VGRNN"
    COUNTS: ClassVar[dict[str, int]] = {"epochs": 1, "window": 1, "hidden": 1}


@dataclass(repr=False, eq=False)
class EvolveGCN(RecurrentMethod):
    """A graph convolutional network per snapshot, whose weights a gated recurrent unit carries on to the next snapshot.

    Two layers compute A X W in each snapshot, with the normalised adjacency matrix A (Pareja et al., "EvolveGCN:
    Evolving Graph Convolutional Networks for Dynamic Graphs", AAAI 2020). The weights W are the state of the unit. In
    variant H, its input is the rows of X with the highest scores, X p / |p| with a learnt p; in variant O, its input is
    W itself.

    What the original leaves open, or is changed: training is unsupervised, with a loss over random walks. The input of a
    node is its degree in the snapshot, in each of 64 columns, plus a little fixed noise: so it was in the paper's
    comparison, with more columns. The vectors therefore grow with the degree, and show who is active in a snapshot. The
    first layer has leaky rectified units with a fixed slope, the second is linear. Variant O has a gated unit as in the
    authors' code, not an LSTM as in their paper. A node without an edge in a snapshot has a zero vector in it.

    Parameters
    ----------
    variant
        "H" (default) or "O".
    noise
        The standard deviation of the noise in the input. With the default, that of the paper's comparison, nodes of the same
        degree with neighbours of the same degrees have the same vectors; with larger noise than degrees, vectors show
        communities.
    """

    _: KW_ONLY
    variant: Variant = "H"
    noise: float = 1e-4

    name: ClassVar[str] = "EvolveGCN"
    NUMBERS: ClassVar[tuple[str, ...]] = ("learning_rate", "noise")

    def _check(self) -> None:
        super()._check()
        check_choice("EvolveGCN", "variant", self.variant, ("H", "O"))


def evolvegcn_o(**settings: Any) -> EvolveGCN:
    """`EvolveGCN` in the variant O."""
    return EvolveGCN(**{"variant": "O"} | settings)


@dataclass(repr=False, eq=False)
class DynGEM(DeepMethod):
    """A deep autoencoder of the rows of the adjacency matrix; each snapshot starts from the weights of the one before.

    The vector of a node is the code of its row. The loss is the squared error of the reconstructed rows, in which the
    entries of edges count `beta` times, plus `alpha` times the squared distances of the codes of neighbours, plus small
    penalties of the weights (Goyal et al., "DynGEM: Deep Embedding Method for Dynamic Graphs", 2018). All layers are
    rectified (ReLU), as in the published settings of the comparison.

    What the original leaves open, or is changed: a step reconstructs 512 nodes, and each node once per epoch, where the
    original takes batches of edges. Only nodes with an edge in the snapshot are rows and columns; the others would be
    zeros, and have the code of a row of zeros as their vector. Layers have the same sizes in all snapshots and do not
    grow: new nodes have had untrained weights until then. The callback counts equal shares of all work as epochs, since
    snapshots differ in size.

    Parameters
    ----------
    hidden
        The sizes of the layers between row and code; the decoder has them in reverse.
    alpha, beta
        The weight of the distances between neighbours, and that of the entries of edges.
    """

    _: KW_ONLY
    hidden: tuple[int, ...] = (500, 300)
    alpha: float = 1e-5
    beta: float = 10.0

    name: ClassVar[str] = "DynGEM"
    NUMBERS: ClassVar[tuple[str, ...]] = ("learning_rate", "alpha", "beta")

    def _check(self) -> None:
        super()._check()
        if not isinstance(self.hidden, tuple | list):
            raise ParameterError(
                f"The 'hidden' parameter of DynGEM must be a tuple of sizes, such as (500, 300). Got {self.hidden!r}.",
                parameter="hidden",
            )
        for size in self.hidden:
            check_count("DynGEM", "hidden", size, 1)


@dataclass(repr=False, eq=False)
class DyRep(DeepMethod):
    """A temporal point process of the edges, whose intensity depends on a memory of each node.

    The intensity of an edge between u and v is b log(1 + exp(g / b)), with a learnt score g of the memories of both nodes
    and a learnt b. After the edge, the memory of u becomes tanh of a linear function of three things: the memory of u, the
    time since its last edge, and a description of the latest neighbours of v, of which the largest values count; and the
    same for v (Trivedi et al., "DyRep: Learning Representations over Dynamic Graphs", ICLR 2019). The loss is minus the log
    of the intensities of the edges, plus the intensities of edges that did not happen, with sampled nodes.

    What the original leaves open, or is changed: the vectors of a snapshot are the memories at its end, and a node has a
    zero vector before its first edge. All edges are of one kind. The last 10 neighbours of a node count the same, without
    attention. A neighbour is described by its memory and by a learnt row of its own: nodes have no features here, and
    from random memories alone, the nodes would become more and more alike. The score has the product of the memories, entry
    by entry, beside their concatenation, as a sum over nodes cannot tell which nodes belong together. The time since the
    last edge is the log of 1 + its ratio to the mean. Edges are taken in batches: within one, all see the memories before
    it, and the last edge of a node sets its memory. Gradients go back five batches.

    Parameters
    ----------
    batch_size
        The largest number of edges in a batch; a batch ends with its snapshot.
    """

    _: KW_ONLY
    batch_size: int = 200

    name: ClassVar[str] = "DyRep"
    COUNTS: ClassVar[dict[str, int]] = {"epochs": 1, "batch_size": 1}


@dataclass(repr=False, eq=False)
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
    """

    n_components: int = 32
    _: KW_ONLY
    history: int = 4
    epochs: int = 50
    learning_rate: float = 0.01

    name: ClassVar[str] = "DyLink2Vec"
    COUNTS: ClassVar[dict[str, int]] = {"epochs": 1, "history": 1}
    NUMBERS: ClassVar[tuple[str, ...]] = ("learning_rate",)

    def _embed(self, snapshots: Snapshots, callback: Callback) -> Any:
        pairs = neighbourhoods(snapshots, snapshots.index, snapshots.src, snapshots.dst)
        return load_networks().learn_code(self, pairs, callback)

    def features(self, edges: TemporalEdges) -> NDArray[np.float64]:
        """The codes of the pairs of nodes, shape (n_edges, history * n_components); 0 before the first snapshot."""
        index, (src, dst) = self.snapshots_.index_of(edges), self.snapshots_.nodes_of(edges)
        weight, bias = self.vectors_
        columns = []
        for back in range(self.history):
            pairs = neighbourhoods(self.snapshots_, index - back, src, dst)
            code = 1 / (1 + np.exp(-(pairs @ weight + bias)))
            columns.append(np.where((index >= back)[:, np.newaxis], code, 0.0))
        return np.hstack(columns)


def neighbourhoods(snapshots: Snapshots, index: Positions, src: Positions, dst: Positions) -> csr_array:
    """The sum of the adjacency rows of two nodes in a snapshot, scaled to length 1, shape (n_pairs, n_nodes).

    Negative numbers are unknown snapshots or nodes, which have no links.
    """
    n_nodes = snapshots.n_nodes
    links = vstack([*snapshots.adjacencies, csr_array((1, n_nodes))], format="csr")  # the last row: of what is unknown
    at = [np.where((index >= 0) & (node >= 0), index * n_nodes + node, links.shape[0] - 1) for node in (src, dst)]
    rows = links[at[0]] + links[at[1]]
    length = np.sqrt(rows.multiply(rows).sum(axis=1))
    return csr_array(diags_array(1 / np.where(length > 0, length, 1.0)) @ rows)
