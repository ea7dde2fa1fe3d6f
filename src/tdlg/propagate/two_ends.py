r"""Columns about the two ends of an edge together: what nodes like its source have to do with nodes like its destination.

Let y be the label minus the prior, and let the mean of x over some edges be sum(w x) / (sum(w) + 1), w being the Laplace
decay of the time between. "src without pair" are the edges of the same source that lead to another destination; nothing
ever passes through an edge of the same pair, self-loops count nowhere but as rows.

**Step 1** describes the ends of every edge at the time of the edge, with the long bandwidth, from labelled edges:

- `src` = mean of y over src without pair, `dst` = mean of y over dst without pair
- `src_residual` = mean of y - dst over src without pair, `dst_residual` = mean of y - src over dst without pair
- `src_trust` = mean of y * dst over src without pair, `dst_trust` = mean of y * src over dst without pair
- `src_in` = mean of y over the edges to the source, `dst_out` = mean of y over the edges from the destination, both
  without the reversed pair (not if bipartite)

**Step 2**, partners, with both bandwidths. At "dst" over the edges j of other sources to the same destination, dually at
"src" over the edges j of the same source to other destinations (with dst, dst_residual, ... of j):

- partners: mean of src[j] over all edges, labelled or not
- partners-residual, partners-trusted: means of y_j - src_residual[j] and of y_j * src_trust[j] over labelled edges
- partners-reputation, partners-reputed: mean of src_in[j] over all, of y_j * src_in[j] over labelled edges (not if
  bipartite); "src-dst" and "dst-src": partners over the edges to the source and from the destination (not if bipartite)
- trust: `src_trust` and `dst_trust` of the edge itself

**Step 3**, agreement. Each node has its last 32 labelled edges before a time, or with labels on both sides the 32 nearest
to it in time other than the edge itself. For an edge (u, v) and each labelled edge (w, v) of v, w != u: the similarity of u
and w is the sum over the destinations x != v of both of (y - dst)(w, x) * (y - dst)(u, x), divided by their number + 5;
where u has several edges to x, it is their mean. With r = (y - src)(w, v), "src" has

- agreement: sum(similarity r) / (sum |similarity| + 0.02); agreement-sum: sum(similarity r)
- agreement-common: sum(common r) / (sum(common) + 5), common being the number of those x; common: log(1 + sum(common))

and "dst" has the same with sources and destinations exchanged: what u says about destinations like v.

No walk of these steps, at most three hops without turning back, can return to the edge itself, so no column of an edge
depends on its label. With `past_only`, an edge counts from strictly after its time, and its label from strictly after it
became known; a late label decays from then on. The values of step 1 stay those of the time of the edge, so a stream needs
per node the decayed sums, per edge under way its values of step 1, and per node two rings of its last 32 labels (other
end, residuals, time known); labels known at one time enter by the times of their edges.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tdlg.edges import TemporalEdges
from tdlg.linegraph.events import Copies
from tdlg.linegraph.product import default_threads
from tdlg.propagate.columns import Column

__all__ = ["residuals", "two_end_columns", "two_end_names"]

Floats = NDArray[np.float64]
Positions = NDArray[np.int64]

SRC, DST = 0, 1
EDGES_PER_THREAD = 5_000  # fewer edges do not make up for the cost of a thread
LONG = 1  # position of the long bandwidth


def two_end_columns(
    edges: TemporalEdges,
    at: Positions,
    targets: Floats,
    labelled: NDArray[np.bool_],
    widths: Sequence[float] | Floats,
    *,
    past_only: bool,
    label_ticks: NDArray[Any] | None = None,
    only_partners: bool = False,
    n_threads: int | None = None,
) -> Floats:
    """Make the columns about the two ends of edges together, (n_rows, n_columns), in the order of `two_end_names`.

    Parameters
    ----------
    edges
        All edges that count, labelled or not; an edge that is held several times counts once.
    at
        Positions of the edges to score.
    targets
        Labels minus the prior, (n_edges, n_targets): one column for two classes or numbers, else one per class. Values of
        unlabelled edges are not used.
    labelled
        Mask of the known labels, (n_edges,).
    widths
        The short and the long bandwidth, in ticks of the edges; infinite for no decay.
    past_only
        Whether only strictly earlier edges, and labels known strictly earlier, count.
    label_ticks
        Times at which the labels became known, in ticks of the edges, used with `past_only`. By default each label is
        known at the time of its edge.
    only_partners
        Whether to make the columns "partners" of "dst" and "src" alone, which suit forecasts. False by default.
    n_threads
        Number of threads; the result does not depend on it. By default all cores are used.

    Examples
    --------
    Cat agreed with ann about x, and disliked y:

    >>> edges = TemporalEdges(["ann", "cat", "cat", "ann"], ["x", "x", "y", "y"], range(4), bipartite=True)
    >>> targets, labelled = np.array([[0.5], [0.5], [-0.5], [0.0]]), np.array([True, True, True, False])
    >>> columns = two_end_columns(edges, np.array([3]), targets, labelled, [1.0, np.inf], past_only=False)
    >>> names = [column.name for column in two_end_names(bipartite=True)]
    >>> round(float(columns[0, names.index("src:agreement")]), 2)
    -0.26
    """
    from tdlg._kernels.columns import take_zeroing_tiny

    copies = Copies(edges)
    network = copies.distinct.cached(("two ends",), lambda: _Network.of(copies.distinct))
    evidence = _Evidence.of(network, copies, targets, labelled, label_ticks if past_only else None)
    rows, place = np.unique(network.rank[copies.at[at]], return_inverse=True)
    n_threads = max(1, min(n_threads or default_threads(), len(network.ticks) // EDGES_PER_THREAD))
    with ThreadPoolExecutor(n_threads) as pool:
        walks = _Walks(network, evidence, np.asarray(widths, np.float64), past_only, pool, n_threads)
        columns = _columns(walks, rows, edges.bipartite, only_partners)
        lines = np.empty((len(columns), len(at)))  # the rows of a column side by side
        list(pool.map(lambda column, line: take_zeroing_tiny(column, place, line), columns, lines))
    return lines.T


def two_end_names(
    classes: Sequence[Any] = (),
    *,
    bipartite: bool,
    only_partners: bool = False,
    scale_names: Sequence[str] = ("0.03", "1"),
) -> list[Column]:
    """What the columns of `two_end_columns` are about.

    Parameters
    ----------
    classes
        The classes if there are more than two, so that each has its own columns. Empty by default, for one target.
    bipartite, only_partners
        The same as for `two_end_columns`.
    scale_names
        Names of the short and of the long bandwidth. By default "0.03" and "1".
    """
    columns = []
    for code, of in enumerate([f"[{label}]" for label in classes] or [""]):
        of_class = code if len(classes) else -1
        for match, what in _partner_kinds(bipartite, only_partners):
            names = [f"{match}:{what}{of}@{name}" for name in scale_names]
            about = "partners" if what in ("partners", "partners-reputation") else "labels"
            columns += [Column(name, match, about, "", of_class, k) for k, name in enumerate(names)]
        if not only_partners:
            columns += [Column(f"{match}:trust{of}", match, "labels", "", of_class) for match in ("src", "dst")]
            for match in ("src", "dst"):
                kinds = ("agreement", "agreement-sum", "agreement-common")
                columns += [Column(f"{match}:{kind}{of}", match, "agreement", "", of_class) for kind in kinds]
    if not only_partners:
        columns += [Column(f"{match}:common", match, "common") for match in ("src", "dst")]
    return columns


def residuals(
    edges: TemporalEdges,
    targets: Floats,
    labelled: NDArray[np.bool_],
    width: float,
    *,
    past_only: bool,
    label_ticks: NDArray[Any] | None = None,
) -> tuple[Floats, Floats]:
    """Labels minus what the source, and minus what the destination has otherwise: y - src and y - dst, (n_edges, n_targets).

    The parameters are those of `two_end_columns`, with the long bandwidth; unlabelled edges have 0.
    """
    copies = Copies(edges)
    network = copies.distinct.cached(("two ends",), lambda: _Network.of(copies.distinct))
    evidence = _Evidence.of(network, copies, targets, labelled, label_ticks if past_only else None)
    with ThreadPoolExecutor(1) as pool:
        walks = _Walks(network, evidence, np.array([width, width]), past_only, pool, 1)
        ends = [walks.describe(y, only_ends=True) for y in evidence.targets.T]
    found = np.zeros((2, len(edges), evidence.targets.shape[1]))
    mine = network.rank[copies.at]
    for end in (SRC, DST):
        for c, y in enumerate(evidence.targets.T):
            found[end, :, c] = (y - ends[c].ends[end])[mine]
        found[end, ~evidence.labelled[mine]] = 0.0
    return found[SRC], found[DST]


# ---- edges and labels, by time


class _ByNode(NamedTuple):
    """Edges by source or by destination: those of node n are at start[n] to start[n + 1] of the other arrays, by time."""

    start: Positions
    edges: NDArray[np.int32]  # their numbers
    slots: NDArray[np.int32]  # see `partner_slots`
    ticks: NDArray[Any]
    order: NDArray[np.int32]  # positions in the edges that were filed

    @classmethod
    def of(
        cls,
        edges: NDArray[np.int32],
        nodes: NDArray[np.int32],
        slots: NDArray[np.int32],
        ticks: NDArray[Any],
        n_nodes: int,
    ) -> _ByNode:
        """File edges, given by their numbers, that are sorted by time."""
        from tdlg._kernels.two_ends import by_node

        start, order = by_node(nodes[edges], n_nodes)
        filed = edges[order]
        return cls(start, filed, slots[filed], ticks[filed], order)


_BothEnds: TypeAlias = tuple[_ByNode, _ByNode]


class _Network(NamedTuple):
    """The distinct edges, numbered by time; edges at one time in the order of the table."""

    rank: Positions  # number of each edge
    nodes: NDArray[np.int32]  # (2, n_edges), sources and destinations
    ticks: NDArray[Any]
    slots: NDArray[np.int32]  # (2, n_edges), see `partner_slots`
    used: NDArray[np.int32]

    @classmethod
    def of(cls, edges: TemporalEdges) -> _Network:
        """Sort distinct edges."""
        from tdlg._kernels.layout import dense_codes, stable_argsort
        from tdlg._kernels.two_ends import partner_slots

        order = stable_argsort(edges.ticks)
        rank = np.empty(len(edges), np.int64)
        rank[order] = np.arange(len(edges))
        nodes = np.stack([edges.src_code[order], edges.dst_code[order]])
        pairs = nodes.min(axis=0).astype(np.int64) * edges.n_nodes + nodes.max(axis=0)
        codes = dense_codes(pairs, stable_argsort(pairs))
        slots, used = partner_slots(*nodes, codes, int(codes.max(initial=-1)) + 1, edges.n_nodes)
        return cls(rank, nodes, edges.ticks[order], slots, used)

    def by_node(self, edges: NDArray[Any], ticks: NDArray[Any] | None = None) -> _BothEnds:
        """File edges, given by their numbers and sorted by these times (by default their own), at both ends."""
        some, times = edges.astype(np.int32), self.ticks if ticks is None else ticks
        src, dst = (_ByNode.of(some, self.nodes[end], self.slots[end], times, len(self.used)) for end in (SRC, DST))
        return src, dst

    @property
    def is_proper(self) -> NDArray[np.bool_]:
        """Mask of the edges that are not self-loops."""
        return self.nodes[SRC] != self.nodes[DST]


class _Evidence(NamedTuple):
    """Labels of the distinct edges by time, and the labelled edges by node and by the time known."""

    targets: Floats  # 0 for unlabelled edges
    labelled: NDArray[np.bool_]
    by_node: _BothEnds

    @classmethod
    def of(
        cls, network: _Network, copies: Copies, targets: Floats, labelled: NDArray[np.bool_], label_ticks: Any
    ) -> _Evidence:
        """Take one label per edge: of copies that of the first that is labelled."""
        from tdlg._kernels.layout import stable_argsort

        number, ticks = network.rank[copies.at], network.ticks
        chosen = np.empty(len(ticks), np.int64)
        for some in (np.arange(len(number)), np.flatnonzero(labelled)):
            chosen[number[some[::-1]]] = some[::-1]
        labelled = labelled[chosen]
        targets = np.where(labelled[:, np.newaxis], targets[chosen], 0.0)
        counts = labelled & network.is_proper
        if label_ticks is None:
            return cls(targets, labelled, network.by_node(np.flatnonzero(counts)))
        known = np.maximum(label_ticks[chosen].astype(ticks.dtype), ticks)
        # labels that become known after all edges are left out: their times may be far beyond all others
        some = np.flatnonzero(counts & (known < ticks[-1])) if len(ticks) else np.empty(0, np.int64)
        return cls(targets, labelled, network.by_node(some[stable_argsort(known[some])], known))


# ---- steps 1 and 2


class _Ends(NamedTuple):
    """Step 1: what the ends of each edge are like, (n_edges,) each, the source first; None where not needed."""

    ends: tuple[Floats, Floats]  # src, dst
    residual: tuple[Floats, Floats] | None = None
    trust: tuple[Floats, Floats] | None = None
    reversed: tuple[Floats, Floats] | None = None  # src_in, dst_out


class _Walks:
    """Means over the edges around, in threads that take some of the nodes each."""

    def __init__(
        self,
        network: _Network,
        evidence: _Evidence,
        widths: Floats,
        past_only: bool,
        pool: ThreadPoolExecutor,
        n_threads: int,
    ) -> None:
        self.network, self.evidence, self.past_only = network, evidence, past_only
        self.rates = 1.0 / widths
        self._pool, self._n_threads = pool, n_threads
        self.everything = network.by_node(np.arange(len(network.ticks)))
        self._proper = network.by_node(np.flatnonzero(network.is_proper))

    def describe(self, y: Floats, *, only_ends: bool = False, bipartite: bool = True) -> _Ends:
        """Step 1 for the labels of one class."""

        def mean(mine: int, theirs: int, *values: Floats) -> list[Floats]:
            found = self.means(self.everything, mine, theirs, values, self.rates[LONG:], labelled=True)
            return [x[:, 0] for x in found]

        (src,), (dst,) = mean(SRC, SRC, y), mean(DST, DST, y)
        if only_ends:
            return _Ends((src, dst))
        back = None if bipartite else (mean(SRC, DST, y)[0], mean(DST, SRC, y)[0])
        src_residual, src_trust = mean(SRC, SRC, y - dst, y * dst)
        dst_residual, dst_trust = mean(DST, DST, y - src, y * src)
        return _Ends((src, dst), (src_residual, dst_residual), (src_trust, dst_trust), back)

    def means(
        self, rows: _BothEnds, mine: int, theirs: int, values: Sequence[Floats], rates: Floats, *, labelled: bool
    ) -> list[Floats]:
        """The mean of each of the values over the edges whose end `theirs` is the rows' end `mine`, (n_rows, rates) each."""
        from tdlg._kernels.two_ends import sums_without_pair

        asked, added = rows[mine], (self.evidence.by_node if labelled else self._proper)[theirs]
        x = np.column_stack([value[added.edges] for value in values])
        sums = np.zeros((len(asked.edges), rates.size, 1 + len(values)))
        parts = added[:4], x, asked[:4], self.network.used, rates, self.past_only
        self.in_parts(lambda nodes: sums_without_pair(*parts, nodes, sums), asked.start + added.start)
        means = np.empty((len(values), len(sums), rates.size))
        for v, mean in enumerate(means):
            mean[asked.order] = sums[..., 1 + v] / (sums[..., 0] + 1.0)
        return list(means)

    def in_parts(self, run: Callable[[tuple[int, int]], None], cost: Positions) -> None:
        """Run for consecutive ranges of about the same cost, which is given as a cumulative sum."""
        cuts = np.searchsorted(cost, np.linspace(0, cost[-1], self._n_threads + 1)[1:-1])
        bounds = [0, *cuts.tolist(), len(cost) - 1]
        list(self._pool.map(run, pairwise(bounds)))


def _partner_kinds(bipartite: bool, only_partners: bool) -> list[tuple[str, str]]:
    """The columns of step 2 that have scales, as match and name."""
    ends = ("dst", "src")
    if only_partners:
        return [(match, "partners") for match in ends]
    kinds = ["partners", "partners-residual", "partners-trusted"]
    kinds += [] if bipartite else ["partners-reputation", "partners-reputed"]
    found = [(match, kind) for match in ends for kind in kinds]
    return found if bipartite else [*found, ("src-dst", "partners"), ("dst-src", "partners")]


def _columns(walks: _Walks, rows: Positions, bipartite: bool, only_partners: bool) -> list[Floats]:
    """All columns of some of the edges, given by their numbers."""
    everything = len(rows) == len(walks.network.ticks)
    filed = walks.everything if everything else walks.network.by_node(rows)
    targets = walks.evidence.targets
    described = [walks.describe(y, only_ends=only_partners, bipartite=bipartite) for y in targets.T]
    columns = [_partners(walks, filed, y, ends) for y, ends in zip(targets.T, described, strict=True)]
    if only_partners:
        return [column for some in columns for column in some]
    found, common = [], []
    for end in (SRC, DST):
        agreement, n_common = _agreement(walks, rows, filed, end, described)
        found.append(agreement)
        common.append(n_common)
    for c, ends in enumerate(described):
        assert ends.trust is not None
        columns[c] += [trust[rows] for trust in ends.trust]
        columns[c] += [found[end][:, c, k] for end in (SRC, DST) for k in range(3)]
    return [column for some in [*columns, common] for column in some]


def _partners(walks: _Walks, rows: _BothEnds, y: Floats, ends: _Ends) -> list[Floats]:
    """Step 2 for one class: the columns of `_partner_kinds`, each with both scales."""
    columns = []
    for end in (DST, SRC):
        far = 1 - end  # the other end of the edges around, where the partners are
        of_all = [ends.ends[far], *([] if ends.reversed is None else [ends.reversed[far]])]
        found = walks.means(rows, end, end, of_all, walks.rates, labelled=False)
        if ends.residual is not None and ends.trust is not None:
            of_labelled = [y - ends.residual[far], y * ends.trust[far]]
            of_labelled += [] if ends.reversed is None else [y * ends.reversed[far]]
            known = walks.means(rows, end, end, of_labelled, walks.rates, labelled=True)
            found = [found[0], *known[:2], *found[1:], *known[2:]]
        columns += found
    if ends.reversed is not None:
        columns += walks.means(rows, SRC, DST, ends.ends[:1], walks.rates, labelled=False)
        columns += walks.means(rows, DST, SRC, ends.ends[1:], walks.rates, labelled=False)
    return [column[:, scale] for column in columns for scale in range(walks.rates.size)]


# ---- step 3


def _agreement(
    walks: _Walks, rows: Positions, filed: _BothEnds, end: int, described: list[_Ends]
) -> tuple[Floats, Floats]:
    """Step 3 for the nodes like the source (end 0) or like the destination (1): (n_rows, classes, 3), and log of common."""
    from tdlg._kernels.two_ends import agreement

    network, evidence, far = walks.network, walks.evidence, 1 - end
    places = np.full((2, len(network.ticks)), -1, np.int64)
    for side in (SRC, DST):
        edges = evidence.by_node[side].edges
        places[side, edges] = np.arange(len(edges))

    def lists(side: int) -> tuple[Any, ...]:
        found = evidence.by_node[side]  # the lists of sources have labels minus what the destinations have otherwise
        left = [y - ends.ends[1 - side] for y, ends in zip(evidence.targets.T, described, strict=True)]
        return found.start, network.nodes[1 - side][found.edges], found.ticks, np.column_stack(left)[found.edges]

    mine, theirs = lists(end), (*lists(far), places[end, evidence.by_node[far].edges])
    out, common = np.empty((len(rows), evidence.targets.shape[1], 3)), np.empty(len(rows))
    skips = np.stack([places[end, rows], places[far, rows]])
    asked = network.nodes[end][rows], network.nodes[far][rows], skips, network.ticks[rows]
    order = filed[far].order  # neighbouring rows share their lists

    def run(part: tuple[int, int]) -> None:
        agreement(order[slice(*part)], *asked, mine, theirs, walks.past_only, out, common)

    walks.in_parts(run, np.arange(len(order) + 1))
    return out, common
