"""The temporal stochastic block model of the paper: edges whose communities are visible only if the times are used."""

from __future__ import annotations

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
    n_nodes, degree
        The number of nodes, whose ids are 0, 1, ..., and the mean number of edges of a node in each period.
    intra
        One entry per period: the share of its edges within a community, spread evenly over all pairs of nodes in the same
        community; the other edges are spread over all pairs in different communities. Or a matrix whose element (a, b),
        a <= b, is the share of the edges between community a and community b; these elements sum to 1.
    time_means, time_stds
        Mean and standard deviation of the normal distribution of the times, one value per period; or one standard
        deviation for all periods. With 0, all edges of a period have the same time.
    communities
        The number of communities, whose sizes are as equal as possible, or their sizes, which sum to `n_nodes`.

    Examples
    --------
    >>> from tdlg_paper.blocks import make_tsbm
    >>> sample = make_tsbm(random_state=0)
    >>> sample.edges
    TemporalEdges(4,000 edges, 100 nodes, time -2.4... to 2.5..., label: 6 values)
    >>> dict(zip(sample.model.kinds, np.bincount(sample.kind).tolist()))  # doctest: +NORMALIZE_WHITESPACE
    {'U x U, 1': 900, 'V x V, 1': 900, 'U x V, 1': 200,
     'U x U, 2': 100, 'V x V, 2': 100, 'U x V, 2': 1800}
    """
    model = TemporalBlockModel(n_nodes, degree, intra, time_means, time_stds, communities)
    return model.sample(random_state)


@dataclass(frozen=True)
class TemporalBlockModel:
    """A temporal stochastic block model: its blocks and their numbers of edges; the parameters are those of `make_tsbm`."""

    n_nodes: int = 100
    degree: int = 40
    intra: Sequence[float | ArrayLike] = (0.9, 0.1)
    time_means: Sequence[float] = (-1.0, 1.0)
    time_stds: float | Sequence[float] = 0.5
    communities: int | Sequence[int] = 2

    def __post_init__(self) -> None:
        check_count(OWNER, "n_nodes", self.n_nodes, 1)
        check_count(OWNER, "degree", self.degree, 1)
        if self.n_nodes * self.degree % 2:
            got = f"{self.degree} times {self.n_nodes}"
            raise _wrong(
                "degree", "times 'n_nodes' must be even, as each edge has two ends", got, "Make one of them even."
            )
        sizes = _sizes(self.communities, self.n_nodes)
        if not _is_list(self.intra) or not len(self.intra):
            raise _wrong("intra", "must have one entry per period, such as (0.9, 0.1)", self.intra)
        intra = tuple(_shares(entry, len(sizes)) for entry in self.intra)
        stds = (self.time_stds,) * len(intra) if is_number(self.time_stds) else self.time_stds
        times: dict[str, Any] = {"time_means": self.time_means, "time_stds": stds}
        for name, values in times.items():
            numbers = list(values) if _is_list(values) else []
            if len(numbers) != len(intra) or not all(is_number(one) and np.isfinite(one) for one in numbers):
                problem = f"must have a finite number for each of the {len(intra)} periods that 'intra' has"
                raise _wrong(name, problem, getattr(self, name))
            times[name] = tuple(map(float, numbers))
        if min(times["time_stds"]) < 0:
            raise _wrong("time_stds", "must not be negative", self.time_stds)
        for name, value in {"intra": intra, "communities": sizes, **times}.items():
            object.__setattr__(self, name, value)
        for period, counts in enumerate(self.counts):
            if counts[self.n_pairs > 0].sum() != self.n_nodes * self.degree // 2:
                problem = (
                    f"has edges in period {period + 1} for a block without two distinct nodes: the sizes are {sizes}"
                )
                raise _wrong("intra", problem, intra[period], "Move that share, or make the communities larger.")

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
        return tuple(f"{block}, {period + 1}" for period in range(len(self.intra)) for block in self.blocks)

    @cached_property
    def counts(self) -> NDArray[np.int64]:
        """The number of edges of each block in each period, shape (n_periods, n_blocks)."""
        counts = np.array([_rounded(self.n_nodes * self.degree // 2 * self._shares(entry)) for entry in self.intra])
        counts.flags.writeable = False
        return counts

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
        return BlockSample(edges, np.repeat(np.arange(len(sizes)), sizes)[edges.node_ids], kind, self)

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
    """Edges sampled from a `TemporalBlockModel`, sorted by kind, with their kinds and communities."""

    edges: TemporalEdges  # the label of each is the name of its kind, such as "U x V, 1"
    community: NDArray[
        np.int64
    ]  # of each node with an edge, as a position in `model.names`, in the order of `node_ids`
    kind: NDArray[np.int64]  # of each edge, as a position in `model.kinds`
    model: TemporalBlockModel

    @property
    def period(self) -> NDArray[np.int64]:
        """Period of each edge: numbers from 0."""
        return self.kind // len(self.model.blocks)

    @property
    def block(self) -> NDArray[np.int64]:
        """Block of each edge: positions in `model.blocks`."""
        return self.kind % len(self.model.blocks)


def _rounded(wanted: Floats) -> NDArray[np.int64]:
    """Whole numbers with the same sum: rounded down, plus one for the largest remainders, the first ones if equal."""
    floor = np.floor(wanted).astype(np.int64)
    missing = round(wanted.sum()) - int(floor.sum())
    floor[np.argsort(-np.round(wanted - floor, 9), kind="stable")[:missing]] += 1
    return floor


# ---- checks of the parameters


def _wrong(name: str, problem: str, got: Any, *way_out: str) -> ParameterError:
    got = got if name == "degree" else repr(got)
    return ParameterError(" ".join([f"The {name!r} parameter {problem}. Got {got} instead.", *way_out]), parameter=name)


def _is_list(value: Any) -> bool:
    return value.ndim > 0 if isinstance(value, np.ndarray) else isinstance(value, list | tuple | range)


def _sizes(communities: Any, n_nodes: int) -> tuple[int, ...]:
    """The sizes of the communities, from their number or their sizes."""
    given = list(communities) if _is_list(communities) else [communities]
    for value in given:
        check_count(OWNER, "communities", value, 1)
    if _is_list(communities) and sum(given) != n_nodes:
        raise _wrong("communities", f"must be sizes that sum to 'n_nodes', {n_nodes}", tuple(given))
    if not _is_list(communities) and communities > n_nodes:
        raise _wrong("communities", f"must be at most 'n_nodes', {n_nodes}: each needs a node", communities)
    if _is_list(communities):
        return tuple(map(int, given))
    return tuple(n_nodes // communities + (at < n_nodes % communities) for at in range(communities))


def _shares(entry: Any, n_communities: int) -> float | tuple[tuple[float, ...], ...]:
    """A checked entry of `intra`: the share of edges within communities, or a matrix of shares."""
    if is_number(entry):
        if not 0 <= entry <= 1:
            raise _wrong("intra", "must have shares from 0 to 1", entry)
        return float(entry)
    try:
        shares = np.array(entry, float)
    except (TypeError, ValueError):
        shares = np.empty(0)
    upper, lower = np.triu(shares) if shares.ndim == 2 else shares, np.tril(shares, -1) if shares.ndim == 2 else shares
    if shares.shape != (n_communities, n_communities):
        problem = (
            f"has an entry that is neither a share nor a matrix of shares for each of the {n_communities} communities"
        )
        raise _wrong("intra", problem, entry)
    mirrored = not lower.any() or np.array_equal(lower, np.triu(shares, 1).T)
    if not (mirrored and np.all(shares >= 0) and abs(upper.sum() - 1) < 1e-9):
        problem = "has a matrix whose shares must be at least 0 and sum to 1 on and above the diagonal"
        raise _wrong("intra", f"{problem}, with zeros or the same values below it", entry)
    return tuple(tuple(row) for row in shares.tolist())
