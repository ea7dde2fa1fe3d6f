"""The temporal stochastic block model of the paper, and the means of its line graph and node embeddings."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tdlg.checks import as_generator, check_choice, check_count, is_number
from tdlg.datasets.block_checks import OWNER, checked_intra, checked_sizes, one_a_period
from tdlg.datasets.block_means import mean_decay, shares_of_degree
from tdlg.edges import TemporalEdges
from tdlg.exceptions import ParameterError
from tdlg.linegraph.decay import Decay

__all__ = ["BlockSample", "BlockValues", "TemporalBlockModel", "make_tsbm"]

Floats = NDArray[np.float64]

LETTERS = "UVWXYZ"  # names of up to six communities, from the paper's U and V


def make_tsbm(
    n_nodes: int = 100,
    degree: int = 40,
    *,
    intra: Sequence[float | ArrayLike] = (0.9, 0.1),
    time_means: Sequence[float] = (-1.0, 1.0),
    time_stds: float | Sequence[float] = 0.5,
    communities: int | Sequence[int] = 2,
    random_state: Any = None,
) -> BlockSample:
    """Make synthetic temporal edges whose communities are visible only if the times are used.

    Each period is a separate stochastic block model over the same nodes. With the defaults, which are those of the paper's
    demonstration, nine tenths of the early edges are within a community and nine tenths of the late edges are between
    communities, so that all edges together look as if there were no communities.

    Parameters
    ----------
    n_nodes
        The number of nodes. Their ids are 0, 1, ..., with those of the first community first.
    degree
        The mean number of edges of a node in each period: a period has exactly n_nodes * degree / 2 edges, which must be a
        whole number.
    intra
        One entry per period: the share of its edges within a community. They are spread evenly over all pairs of nodes in
        the same community, and the other edges over all pairs in different communities; so a community, or a pair of
        communities, has edges in proportion to its pairs of nodes. For any other pattern pass a matrix as the entry: its
        element (a, b), a <= b, is the share of the edges between community a and community b. These elements sum to 1;
        below the diagonal are zeros or the same values.
    time_means, time_stds
        Mean and standard deviation of the normal distribution of the times, one value per period; or one standard
        deviation for all periods. With a standard deviation of 0 all edges of a period have the same time.
    communities
        The number of communities, whose sizes are as equal as possible (the first ones have one more node if necessary);
        or their sizes, which sum to `n_nodes`.
    random_state
        Seed or generator for sampling.

    Returns
    -------
    BlockSample
        The edges, with their kinds (a kind is a block in a period) and the communities of the nodes; its `model` has the
        closed forms.

    Notes
    -----
    The number of edges of a block in a period is not random: it is its share of the period's edges, rounded down, plus one
    for the blocks with the largest remainders until the total is right (for equal remainders, those that come first in
    `TemporalBlockModel.blocks`). The two ends of an edge are distinct, and each pair of distinct nodes of the block is
    equally likely, independently of other edges, so a pair may occur again. In a block of two communities the source is in
    the community named first.

    Examples
    --------
    >>> from tdlg.datasets.blocks import make_tsbm
    >>> sample = make_tsbm(random_state=0)
    >>> sample.edges
    TemporalEdges(4,000 edges, 100 nodes, time -2.4... to 2.5..., label: 6 values)
    >>> dict(zip(sample.model.kinds, np.bincount(sample.kind).tolist()))  # doctest: +NORMALIZE_WHITESPACE
    {'U x U, 1': 900, 'V x V, 1': 900, 'U x V, 1': 200,
     'U x U, 2': 100, 'V x V, 2': 100, 'U x V, 2': 1800}

    Three communities of different sizes; few edges leave them in the first period, most do in the two others:

    >>> make_tsbm(60, 10, communities=(30, 20, 10), intra=(0.9, 0.2, 0.2), time_means=(0, 5, 9)).edges.n_edges
    900
    """
    model = TemporalBlockModel(n_nodes, degree, intra, time_means, time_stds, communities)
    return model.sample(random_state)


@dataclass(frozen=True)
class TemporalBlockModel:
    """A temporal stochastic block model: its blocks, their numbers of edges, and closed forms of their means.

    Parameters
    ----------
    n_nodes, degree, intra, time_means, time_stds, communities
        The same as for `make_tsbm`.

    Examples
    --------
    >>> from tdlg import Gaussian
    >>> from tdlg.datasets.blocks import TemporalBlockModel
    >>> model = TemporalBlockModel(time_stds=0)
    >>> model.counts
    array([[ 900,  900,  200],
           [ 100,  100, 1800]])

    Proposition 1 of the paper, with a distance in time of 2 and a bandwidth of 1:

    >>> model.expected_line_graph(Gaussian(1.0))
              U x U, 1  V x V, 1  U x V, 1  U x U, 2  V x V, 2  U x V, 2
    U x U, 1      0.08         0      0.04   0.01083         0  0.005413
    V x V, 1         0      0.08      0.04         0   0.01083  0.005413
    U x V, 1      0.04      0.04      0.04  0.005413  0.005413  0.005413
    U x U, 2   0.01083         0  0.005413      0.08         0      0.04
    V x V, 2         0   0.01083  0.005413         0      0.08      0.04
    U x V, 2  0.005413  0.005413  0.005413      0.04      0.04      0.04
    """

    n_nodes: int = 100
    degree: int = 40
    intra: Sequence[float | ArrayLike] = (0.9, 0.1)
    time_means: Sequence[float] = (-1.0, 1.0)
    time_stds: float | Sequence[float] = 0.5
    communities: int | Sequence[int] = 2

    def __post_init__(self) -> None:
        check_count(OWNER, "n_nodes", self.n_nodes, 1)
        check_count(OWNER, "degree", self.degree, 1)
        n_nodes, degree = int(self.n_nodes), int(self.degree)
        if n_nodes * degree % 2:
            raise ParameterError(
                f"The 'degree' parameter times 'n_nodes' must be even, as each edge has two ends. "
                f"Got {degree} times {n_nodes} instead: make one of them even.",
                parameter="degree",
            )
        sizes = checked_sizes(self.communities, n_nodes)
        intra = checked_intra(self.intra, len(sizes))
        means = one_a_period("time_means", self.time_means, len(intra))
        given = (self.time_stds,) * len(intra) if is_number(self.time_stds) else self.time_stds
        stds = one_a_period("time_stds", given, len(intra))
        if min(stds) < 0:
            raise ParameterError(
                f"The 'time_stds' parameter must not be negative. Got {self.time_stds!r} instead.",
                parameter="time_stds",
            )
        checked = dict(n_nodes=n_nodes, degree=degree, intra=intra, time_means=means, time_stds=stds, communities=sizes)
        for name, value in checked.items():
            object.__setattr__(self, name, value)
        self._check_pairs()

    # ---- names and sizes

    @property
    def sizes(self) -> tuple[int, ...]:
        """The number of nodes of each community."""
        return self.communities  # type: ignore[return-value]  # __post_init__ has turned a number into sizes

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the communities: U, V, ..., or C1, C2, ... if more than six."""
        many = len(self.sizes)
        return tuple(LETTERS[:many]) if many <= len(LETTERS) else tuple(f"C{at + 1}" for at in range(many))

    @property
    def blocks(self) -> tuple[str, ...]:
        """Names of the blocks: first each community with itself, then each pair of two, such as "U x V"."""
        return tuple(f"{self.names[a]} x {self.names[b]}" for a, b in self._blocks)

    @property
    def kinds(self) -> tuple[str, ...]:
        """Names of the kinds of edges, such as "U x V, 1": every block in period 1, then in period 2, and so on."""
        return tuple(f"{block}, {period + 1}" for period in range(len(self.counts)) for block in self.blocks)

    @cached_property
    def counts(self) -> NDArray[np.int64]:
        """The number of edges of each block in each period, shape (n_periods, n_blocks)."""
        n_edges = self.n_nodes * self.degree // 2
        counts = np.array([_rounded(n_edges * self._shares(entry)) for entry in self.intra])
        counts.flags.writeable = False
        return counts

    @property
    def node_communities(self) -> NDArray[np.int64]:
        """Community of each node id, as its position in `names`, shape (n_nodes,)."""
        return np.repeat(np.arange(len(self.sizes)), self.sizes)

    # ---- sampling

    def sample(self, random_state: Any = None) -> BlockSample:
        """Sample the edges, as `make_tsbm` does."""
        rng = as_generator(random_state)
        kind = np.repeat(np.arange(self.counts.size), self.counts.ravel())
        period, block = np.divmod(kind, len(self._blocks))
        a, b = self._blocks[block].T
        sizes, first = np.array(self.sizes), np.cumsum([0, *self.sizes[:-1]])
        src = rng.integers(sizes[a])
        dst = rng.integers(sizes[b] - (a == b))
        dst += (a == b) & (dst >= src)  # a different node of the community
        time = rng.normal(np.array(self.time_means)[period], np.array(self.time_stds)[period])
        edges = TemporalEdges(src + first[a], dst + first[b], time, label=np.array(self.kinds)[kind])
        return BlockSample(edges, self.node_communities[edges.node_ids], kind, self)

    # ---- closed forms

    def expected_line_graph(self, decay: Decay) -> BlockValues:
        """Compute the mean of H_ij for two different edges of each pair of kinds: the paper's Proposition 1.

        It is exact for any number of nodes, and for times that vary. The diagonal of H is not random: it is 2 times k(0).

        Parameters
        ----------
        decay
            The decay of the line graph, with a bandwidth that does not depend on the sampled times: `Gaussian(0.5)`, not
            `Gaussian(relative=0.1)`.

        Returns
        -------
        BlockValues
            The means, shape (n_kinds, n_kinds). NaN for a block without two distinct nodes.

        Notes
        -----
        An edge with e_c ends in community c, of size s_c, has a given node of it with probability e_c / s_c. So two edges
        share the sum over c of e_c e'_c / s_c nodes on average, for instance 8 / n if both are within the same half of n
        nodes. This is multiplied by the mean of the decay between the two periods: gamma in the paper (also written lambda
        there). Between times N(m1, v1) and N(m2, v2) a Gaussian of bandwidth s has the mean

            s / sqrt(s^2 + v1 + v2) * exp(-(m1 - m2)^2 / (2 (s^2 + v1 + v2))).

        The product is the Kronecker product of the paper, with the factors in the other order, because `kinds` are sorted
        by period first.
        """
        ends = np.where(self._pairs[:, None] > 0, self._ends, math.nan)
        shared = (ends / self.sizes) @ ends.T
        return BlockValues(self.kinds, self.kinds, np.kron(self._gamma(decay), shared).astype(np.float64))

    def expected_node_embeddings(self, decay: Decay, aggregate: Literal["mean", "sum"] = "mean") -> BlockValues:
        """Compute the mean entry of `node_embeddings(edges, H)`: the paper's Proposition 2.

        Each entry is for a node and an edge without that node, as in the paper's proof. It is exact for any number of
        nodes, and for times that vary.

        Parameters
        ----------
        decay
            The same as for `expected_line_graph`.
        aggregate
            "mean" for the mean of the rows of a node's edges, provided that it has edges; "sum" for their sum.

        Returns
        -------
        BlockValues
            The means, shape (n_communities, n_kinds). A kind without edges has the values of one additional edge. NaN if
            every possible edge of the kind contains the node, or if the node can have no edges to average.

        Notes
        -----
        An edge f from the node to some node w contributes the decay if w is an end of the column's edge e, else 0. The
        edges of each kind other than e contain the node with a known probability, and w is any other node of its
        community: this gives the sum. For the mean, the number of edges of a kind that a node has is divided by its total
        number of edges, D, a sum of independent binomials; its mean follows from E[1 / (1 + D)] = the integral of
        E[z^D] over z from 0 to 1. As n grows, the means tend to 2 / n times the paper's matrix, and the sums to 2 degree
        times as much.

        Examples
        --------
        >>> from tdlg import Gaussian
        >>> model = TemporalBlockModel(time_stds=0)
        >>> model.expected_node_embeddings(Gaussian(1.0))
           U x U, 1  V x V, 1  U x V, 1  U x U, 2  V x V, 2  U x V, 2
        U   0.01863  0.004435   0.01154  0.004509   0.01827    0.0114
        V  0.004435   0.01863   0.01154   0.01827  0.004509    0.0114
        """
        check_choice("expected_node_embeddings", "aggregate", aggregate, ("mean", "sum"))
        gamma = self._gamma(decay)
        weigh = shares_of_degree if aggregate == "mean" else np.multiply
        values = [
            [self._node_entry(community, kind, gamma, weigh) for kind in range(self.counts.size)]
            for community in range(len(self.sizes))
        ]
        return BlockValues(self.names, self.kinds, np.array(values))

    def _node_entry(self, community: int, kind: int, gamma: Floats, weigh: Any) -> float:
        """The mean entry of a node of the community and an edge of the kind without that node."""
        period, block = divmod(kind, len(self._blocks))
        own = np.arange(len(self.sizes)) == community
        others = np.array(self.sizes) - own  # number of nodes in each community without the node itself
        if np.any(self._ends[block] > others):
            return math.nan
        n_edges = np.maximum(self.counts - (np.arange(self.counts.size) == kind).reshape(self.counts.shape), 0)
        touching = self._ends[:, community] / self.sizes[community]  # probability that an edge contains the node
        partner = self._ends - own  # the community of its other end
        adjacent = (partner / np.maximum(others, 1)) @ self._ends[block]  # how likely that is an end of the column's
        usable = (touching > 0) & (self._pairs > 0)
        weight = weigh(n_edges[:, usable], touching[usable])
        return float(gamma[period] @ weight @ adjacent[usable])

    def _gamma(self, decay: Decay) -> Floats:
        """The mean of the decay between an edge of each period and another of each, shape (n_periods, n_periods)."""
        if not isinstance(decay, Decay):
            raise ParameterError(
                f"The 'decay' parameter must be a decay such as Gaussian(0.5) or NoDecay(). Got {decay!r} instead.",
                parameter="decay",
            )
        mean, std = np.array(self.time_means, float), np.array(self.time_stds, float)
        return mean_decay(decay, mean[:, None] - mean, std[:, None] ** 2 + std**2)

    # ---- blocks

    @cached_property
    def _blocks(self) -> NDArray[np.int64]:
        """The two communities of each block, shape (n_blocks, 2)."""
        many = range(len(self.sizes))
        return np.array([(a, a) for a in many] + list(combinations(many, 2)))

    @cached_property
    def _ends(self) -> Floats:
        """The number of ends that an edge of each block has in each community, shape (n_blocks, n_communities)."""
        one = np.eye(len(self.sizes))
        return one[self._blocks[:, 0]] + one[self._blocks[:, 1]]

    @property
    def _pairs(self) -> NDArray[np.int64]:
        """The number of pairs of distinct nodes of each block."""
        sizes, (a, b) = np.array(self.sizes), self._blocks.T
        return sizes[a] * (sizes[b] - (a == b)) // (1 + (a == b))

    def _shares(self, entry: Any) -> Floats:
        """The share of each block in a period, from an entry of `intra`."""
        a, b = self._blocks.T
        if not is_number(entry):
            shares = np.array(entry)[a, b]
            return shares / shares.sum()
        of_pairs = [np.where(kept, self._pairs, 0) for kept in (a == b, a != b)]
        within, between = (pairs / max(pairs.sum(), 1) for pairs in of_pairs)
        return entry * within + (1 - entry) * between

    def _check_pairs(self) -> None:
        """Refuse edges in a block without two distinct nodes."""
        n_edges = self.n_nodes * self.degree // 2
        for period, (entry, counts) in enumerate(zip(self.intra, self.counts, strict=True)):
            if counts[self._pairs > 0].sum() != n_edges:
                raise ParameterError(
                    f"The 'intra' parameter has edges in period {period + 1} for a block that has no two distinct nodes: "
                    f"the sizes are {self.sizes}. Got {entry!r}. Move that share to other blocks, or make the "
                    f"communities larger.",
                    parameter="intra",
                )


@dataclass(frozen=True, eq=False)
class BlockSample:
    """Edges sampled from a `TemporalBlockModel`, with their kinds and communities.

    The rows are sorted by kind, that is by period and then by block, and are in random order within a kind. To mix them,
    use `edges[order]` and `kind[order]`.

    Attributes
    ----------
    edges
        The edges; the label of each is the name of its kind, such as "U x V, 1".
    community
        Community of each node as a position in `model.names`, shape (edges.n_nodes,), in the order of `edges.node_ids` and
        of the rows of `node_embeddings`. Nodes without an edge are left out.
    kind
        Kind of each edge as a position in `model.kinds`, shape (n_edges,).
    model
        The model that the edges were sampled from.

    Examples
    --------
    >>> from tdlg import Gaussian, LineGraph
    >>> from tdlg.embed import node_embeddings
    >>> from tdlg.datasets.blocks import make_tsbm
    >>> sample = make_tsbm(random_state=0)
    >>> X = node_embeddings(sample.edges, LineGraph(sample.edges, decay=Gaussian(0.5)).to_csr())
    >>> X.shape, sample.community.shape
    ((100, 4000), (100,))
    """

    edges: TemporalEdges
    community: NDArray[np.int64]
    kind: NDArray[np.int64]
    model: TemporalBlockModel

    @property
    def period(self) -> NDArray[np.int64]:
        """Period of each edge, shape (n_edges,): numbers from 0."""
        return self.kind // len(self.model.blocks)

    @property
    def block(self) -> NDArray[np.int64]:
        """Block of each edge, shape (n_edges,): positions in `model.blocks`."""
        return self.kind % len(self.model.blocks)


@dataclass(frozen=True, eq=False)
class BlockValues:
    """A matrix `values` with the names of its `rows` and `columns`.

    Examples
    --------
    >>> two = BlockValues(("U", "V"), ("U x V, 1",), np.array([[0.25], [0.5]]))
    >>> float(two["V", "U x V, 1"])
    0.5
    """

    rows: tuple[str, ...]
    columns: tuple[str, ...]
    values: Floats

    def __getitem__(self, names: tuple[str, str]) -> np.float64:
        row, column = names
        if row not in self.rows or column not in self.columns:
            raise KeyError(f"{names}: the rows are {', '.join(self.rows)}; the columns are {', '.join(self.columns)}")
        return self.values[self.rows.index(row), self.columns.index(column)]

    def __repr__(self) -> str:
        lines = [["", *self.columns]]
        lines += [[name, *(f"{value:.4g}" for value in row)] for name, row in zip(self.rows, self.values, strict=True)]
        width = [max(map(len, column)) for column in zip(*lines, strict=True)]
        return "\n".join(
            "  ".join([line[0].ljust(width[0]), *map(str.rjust, line[1:], width[1:])]).rstrip() for line in lines
        )


def _rounded(wanted: Floats) -> NDArray[np.int64]:
    """Whole numbers with the same sum: rounded down, plus one for the largest remainders, the first ones if equal."""
    floor = np.floor(wanted).astype(np.int64)
    missing = round(wanted.sum()) - int(floor.sum())
    floor[np.argsort(-np.round(wanted - floor, 9), kind="stable")[:missing]] += 1
    return floor
