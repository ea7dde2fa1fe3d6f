"""The temporal stochastic block model of the paper: edges whose communities are visible only if the times are used."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tdlg.checks import as_generator, check_count, is_number
from tdlg.edges import TemporalEdges
from tdlg.exceptions import ParameterError

Floats = NDArray[np.float64]
Shares = float | tuple[tuple[float, ...], ...]

OWNER = "TemporalBlockModel"  # in the messages of checks

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
        The edges, with their kinds (a kind is a block in a period) and the communities of the nodes.

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
    """A temporal stochastic block model: its blocks and their numbers of edges.

    Parameters
    ----------
    n_nodes, degree, intra, time_means, time_stds, communities
        The same as for `make_tsbm`.

    Examples
    --------
    >>> from tdlg.datasets.blocks import TemporalBlockModel
    >>> model = TemporalBlockModel(time_stds=0)
    >>> model.counts
    array([[ 900,  900,  200],
           [ 100,  100, 1800]])
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
        sizes = _checked_sizes(self.communities, n_nodes)
        intra = _checked_intra(self.intra, len(sizes))
        means = _one_a_period("time_means", self.time_means, len(intra))
        given = (self.time_stds,) * len(intra) if is_number(self.time_stds) else self.time_stds
        stds = _one_a_period("time_stds", given, len(intra))
        if min(stds) < 0:
            raise ParameterError(
                f"The 'time_stds' parameter must not be negative. Got {self.time_stds!r} instead.",
                parameter="time_stds",
            )
        checked = dict(n_nodes=n_nodes, degree=degree, intra=intra, time_means=means, time_stds=stds, communities=sizes)
        for name, value in checked.items():
            object.__setattr__(self, name, value)
        for period, (entry, counts) in enumerate(zip(self.intra, self.counts, strict=True)):
            if counts[self.n_pairs > 0].sum() != n_nodes * degree // 2:
                raise ParameterError(
                    f"The 'intra' parameter has edges in period {period + 1} for a block that has no two distinct nodes: "
                    f"the sizes are {sizes}. Got {entry!r}. Move that share to other blocks, or make the communities "
                    "larger.",
                    parameter="intra",
                )

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
        return tuple(f"{self.names[a]} x {self.names[b]}" for a, b in self.communities_of_blocks)

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
        period, block = np.divmod(kind, len(self.communities_of_blocks))
        a, b = self.communities_of_blocks[block].T
        sizes, first = np.array(self.sizes), np.cumsum([0, *self.sizes[:-1]])
        src = rng.integers(sizes[a])
        dst = rng.integers(sizes[b] - (a == b))
        dst += (a == b) & (dst >= src)  # a different node of the community
        time = rng.normal(np.array(self.time_means)[period], np.array(self.time_stds)[period])
        edges = TemporalEdges(src + first[a], dst + first[b], time, label=np.array(self.kinds)[kind])
        return BlockSample(edges, self.node_communities[edges.node_ids], kind, self)

    # ---- blocks

    @cached_property
    def communities_of_blocks(self) -> NDArray[np.int64]:
        """The two communities of each block, shape (n_blocks, 2)."""
        many = range(len(self.sizes))
        return np.array([(a, a) for a in many] + list(combinations(many, 2)))

    @property
    def n_pairs(self) -> NDArray[np.int64]:
        """The number of pairs of distinct nodes of each block."""
        sizes, (a, b) = np.array(self.sizes), self.communities_of_blocks.T
        return sizes[a] * (sizes[b] - (a == b)) // (1 + (a == b))

    def _shares(self, entry: Any) -> Floats:
        """The share of each block in a period, from an entry of `intra`."""
        a, b = self.communities_of_blocks.T
        if not is_number(entry):
            shares = np.array(entry)[a, b]
            return shares / shares.sum()
        of_pairs = [np.where(kept, self.n_pairs, 0) for kept in (a == b, a != b)]
        within, between = (pairs / max(pairs.sum(), 1) for pairs in of_pairs)
        return entry * within + (1 - entry) * between


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


def _rounded(wanted: Floats) -> NDArray[np.int64]:
    """Whole numbers with the same sum: rounded down, plus one for the largest remainders, the first ones if equal."""
    floor = np.floor(wanted).astype(np.int64)
    missing = round(wanted.sum()) - int(floor.sum())
    floor[np.argsort(-np.round(wanted - floor, 9), kind="stable")[:missing]] += 1
    return floor


# ---- checks of the parameters


def _is_list(value: Any) -> bool:
    return value.ndim > 0 if isinstance(value, np.ndarray) else isinstance(value, list | tuple | range)


def _checked_sizes(communities: Any, n_nodes: int) -> tuple[int, ...]:
    """The sizes of the communities, from their number or their sizes."""
    are_sizes = _is_list(communities)
    for value in communities if are_sizes else [communities]:
        check_count(OWNER, "communities", value, 1)
    if are_sizes:
        sizes = tuple(map(int, communities))
        if sum(sizes) != n_nodes:
            problem = (
                f"The 'communities' parameter must be sizes that sum to 'n_nodes', {n_nodes}. Got {sizes} instead."
            )
            raise ParameterError(problem, f"Pass n_nodes={sum(sizes)!r}, or other sizes.", parameter="communities")
        return sizes
    many = int(communities)
    if many > n_nodes:
        problem = (
            f"The 'communities' parameter must be at most 'n_nodes', {n_nodes}: each needs a node. Got {many} instead."
        )
        raise ParameterError(problem, parameter="communities")
    return tuple(n_nodes // many + (at < n_nodes % many) for at in range(many))


def _one_a_period(name: str, values: Any, n_periods: int) -> tuple[float, ...]:
    """One finite number per period."""
    numbers = list(values) if _is_list(values) else []
    if len(numbers) != n_periods or not all(is_number(number) and math.isfinite(number) for number in numbers):
        raise ParameterError(
            f"The {name!r} parameter must have a finite number for each of the {n_periods} periods that 'intra' has. "
            f"Got {values!r} instead.",
            parameter=name,
        )
    return tuple(map(float, numbers))


def _checked_intra(intra: Any, n_communities: int) -> tuple[Shares, ...]:
    """For each period, the share of edges within communities, or a matrix of shares."""
    if not _is_list(intra) or len(intra) == 0:
        problem = f"The 'intra' parameter must have one entry per period, such as (0.9, 0.1). Got {intra!r} instead."
        raise ParameterError(problem, parameter="intra")
    for entry in intra:
        if is_number(entry) and not 0 <= entry <= 1:
            problem = f"The 'intra' parameter must have shares from 0 to 1. Got {entry!r} instead."
            raise ParameterError(problem, parameter="intra")
    return tuple(float(entry) if is_number(entry) else _matrix(entry, n_communities) for entry in intra)


def _matrix(entry: Any, n_communities: int) -> tuple[tuple[float, ...], ...]:
    try:
        shares = np.array(entry, float)
    except (TypeError, ValueError):
        shares = np.empty(0)
    if shares.shape != (n_communities, n_communities):
        raise ParameterError(
            f"An entry of the 'intra' parameter must be a share, or a matrix of shares with a row and a column for each of "
            f"the {n_communities} communities. Got {entry!r} instead.",
            parameter="intra",
        )
    upper, lower = np.triu(shares), np.tril(shares, -1)
    mirrored = not lower.any() or np.array_equal(lower, np.triu(shares, 1).T)
    if not (mirrored and np.all(shares >= 0) and abs(upper.sum() - 1) < 1e-9):
        raise ParameterError(
            f"A matrix in the 'intra' parameter must have shares of at least 0 that sum to 1 on and above the diagonal, and "
            f"zeros or the same values below it. Got {entry!r} instead, which sums to {upper.sum():.6g} there.",
            parameter="intra",
        )
    return tuple(tuple(row) for row in shares.tolist())
