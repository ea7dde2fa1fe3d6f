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
depends on its label (where a pair repeats and labels on both sides count, up to rounding in the last bits, which
estimators do not see, see `plan.single`). With `past_only`, an edge counts from strictly after its time, and its label
from strictly after it became known; a late label decays from then on. The values of step 1 stay those of the time of the
edge, so a stream needs per node the decayed sums, per edge under way its values of step 1, and per node two rings of its
last 32 labels (other end, residuals, time known); labels known at one time enter by the times of their edges.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tdlg import _kernels as kernels
from tdlg._kernels import DST, SRC
from tdlg.linegraph.events import Layout
from tdlg.linegraph.match import MATCHES, match_keys
from tdlg.memory import default_threads
from tdlg.propagate.match import Keyed, walk_events
from tdlg.propagate.plan import BOTH_MATCHES, ColumnPlan, Floats, Positions

if TYPE_CHECKING:
    from tdlg.propagate.features import Evidence

EDGES_PER_THREAD = 5_000  # fewer edges do not make up for the cost of a thread
MEAN_DIGITS = 12  # of what describes an end
OF_EDGES = (kernels.ALL, kernels.FIRST + kernels.FAR, kernels.FIRST + kernels.BACK_SUM)  # the other sums are of labels
PAIR_OF = {"src": "pair", "dst": "pair", "src-dst": "reversed", "dst-src": "reversed"}  # what is left out of a match
FAR_END = {  # what of the far end a sum is made of
    kernels.FAR: kernels.MEAN,
    kernels.Y_LESS_FAR: kernels.MEAN,
    kernels.Y_BY_FAR: kernels.MEAN,
    kernels.Y_LESS_RESIDUAL: kernels.RESIDUAL,
    kernels.Y_BY_TRUST: kernels.TRUST,
    kernels.Y_BY_BACK: kernels.BACK,
    kernels.BACK_SUM: kernels.BACK,
}


def two_end_columns(plan: ColumnPlan, known: Evidence, at: Positions, n_threads: int | None = None) -> Floats:
    """The columns about both ends of some edges of the evidence, (n_rows, n_columns), as in `plan.two_end_columns`.

    An edge that is held several times counts once. The result does not depend on the number of threads.
    """
    rows, place = np.unique(known.edges.place[at], return_inverse=True)
    n_threads = max(1, min(n_threads or default_threads(), len(known.edges.first) // EDGES_PER_THREAD))
    with ThreadPoolExecutor(n_threads) as pool:
        walks = _Walks(plan, known, pool.map, n_threads)
        described = [walks.describe(c) for c in range(plan.n_targets)]
        columns = [walks.means(c, described[c], rows) for c in range(plan.n_targets)]
        if plan.two_ends == "all":
            alike = [walks.agreement(described, rows, end) for end in (SRC, DST)]
            for c, of_class in enumerate(columns):
                of_class += [described[c][kernels.TRUST + end][rows] for end in (SRC, DST)]
                of_class += [alike[end][0][:, c, k] for end in (SRC, DST) for k in range(3)]
            columns.append([common for _, common in alike])
        found = [column for some in columns for column in some]
        lines = np.empty((len(found), len(at)))  # the rows of a column side by side

        def fill(line: Floats, column: Floats) -> None:
            line[:] = column[place]
            line[np.abs(line) < kernels.LEAST_SUM] = 0.0

        list(pool.map(fill, lines, found))
    return lines.T


def residuals(plan: ColumnPlan, known: Evidence) -> tuple[Floats, Floats]:
    """Labels minus what the source, and minus what the destination has otherwise: y - src and y - dst, (n_edges, n_targets).

    Unlabelled edges have 0.
    """
    walks = _Walks(plan, known, map, 1)
    described = [walks.describe(c, only_means=True) for c in range(plan.n_targets)]
    found = np.zeros((2, len(known.edges.place), plan.n_targets))
    for end in (SRC, DST):
        for c, of_class in enumerate(described):
            left = walks.targets[:, c] - of_class[kernels.MEAN + end]
            found[end, :, c] = np.where(walks.labelled, left, 0.0)[known.edges.place]
    return found[SRC], found[DST]


class _Walks:
    """The distinct edges with their labels, of copies those of the first that is labelled, and walks over them."""

    def __init__(self, plan: ColumnPlan, known: Evidence, run: Callable[..., Iterable[Any]], n_threads: int) -> None:
        edges = known.edges
        self.plan, self._map, self._n_threads = plan, run, n_threads
        self._codes, self._n_nodes = (edges.distinct(edges.src), edges.distinct(edges.dst)), edges.n_nodes
        self._ticks = edges.distinct(edges.ticks)
        chosen = np.empty(len(edges.first), np.int64)
        for some in (np.arange(len(edges.place)), np.flatnonzero(known.labelled)):
            chosen[edges.place[some[::-1]]] = some[::-1]
        self.labelled = known.labelled[chosen]
        self.targets = np.where(self.labelled[:, np.newaxis], known.targets[chosen], 0.0)
        self._widths = plan.two_end_widths(edges.time_unit)
        self._proper = self._codes[SRC] != self._codes[DST]
        self._known: NDArray[Any] | None = None
        counts = self.labelled & self._proper
        if plan.past_only and known.label_ticks is not None:
            self._known = np.maximum(known.label_ticks[chosen].astype(self._ticks.dtype), self._ticks)
            # labels that become known after all edges are left out: their times may be far beyond all others
            counts &= self._known < self._ticks.max(initial=self._known.min(initial=0))
        self._is_label, self._labels = counts.astype(np.float64), np.flatnonzero(counts)
        self._layouts: dict[tuple[str, bool, bool], Layout] = {}

    # ---- steps 1 and 2

    def describe(self, c: int, *, only_means: bool = False) -> list[Floats]:
        """Step 1: what the ends of each edge are like for a class, (n_edges,) each, in the order of `_kernels.MEAN`."""
        first, long = kernels.FIRST, self._widths[1:]
        has_back = not self.plan.bipartite and not only_means
        counts = {place: [kernels.LABELLED, first + kernels.Y] for place in range(4 if has_back else 2)}
        found = self._sums(c, [], counts, long)
        n = [found[place, kernels.LABELLED][0] + 1.0 for place in counts]
        described = self._rounded([found[place, first + kernels.Y][0] / n[place] for place in (SRC, DST)])
        if only_means or self.plan.two_ends == "partners":
            return described
        kinds = [first + kernels.Y_LESS_FAR, first + kernels.Y_BY_FAR]
        more = self._sums(c, described, {SRC: kinds, DST: kinds}, long)
        described += [more[end, kind][0] / n[end] for kind in kinds for end in (SRC, DST)]
        if has_back:
            described += [found[2 + end, first + kernels.Y][0] / n[2 + end] for end in (SRC, DST)]
        return self._rounded(described)

    def _rounded(self, described: list[Floats]) -> list[Floats]:
        """With labels on both sides, what is left of an edge's own label, when its pair is taken away, is rounded off."""
        return described if self.plan.past_only else [np.round(values, MEAN_DIGITS) for values in described]

    def means(self, c: int, described: list[Floats], rows: Positions) -> list[Floats]:
        """Step 2: the means of a class for some rows, each with both scales."""
        means, first = self.plan.two_end_means.tolist(), kernels.FIRST
        kinds: dict[int, list[int]] = {}
        for place, count, total in means:
            wanted = kinds.setdefault(place, [])
            wanted += [kind for kind in (count, first + total) if kind not in wanted]
        found = self._sums(c, described, kinds, self._widths, rows)
        columns: list[Floats] = []
        for place, count, total in means:
            columns += list(found[place, first + total] / (found[place, count] + 1.0))
        return columns

    def _sums(
        self,
        c: int,
        described: list[Floats],
        kinds: dict[int, list[int]],
        widths: Floats,
        rows: Positions | None = None,
    ) -> dict[tuple[int, int], Floats]:
        """Decayed sums, (n_widths, n_rows), by place in `BOTH_MATCHES` and kind, without the rows' own pairs."""
        jobs: dict[tuple[str, bool], list[tuple[int, int]]] = {}  # what is summed, by match and whether it is of labels
        for place, some in kinds.items():
            for kind in some:
                of_labels = self._known is not None and kind not in OF_EDGES
                for match in (BOTH_MATCHES[place], PAIR_OF[BOTH_MATCHES[place]]):
                    jobs.setdefault((match, of_labels), []).append((place, kind))

        def run(match: str, of_labels: bool) -> Floats:
            some = self._labels if of_labels else slice(None)
            wanted = jobs[match, of_labels]
            values = np.column_stack([self._value(c, described, place, kind)[some] for place, kind in wanted])
            layout = self._layout(match, of_labels, rows)
            return walk_events(layout, values, widths, past_only=self.plan.past_only).take(slice(None))[0]

        done: dict[tuple[str, int, int], Floats] = {}
        for (match, of_labels), sums in zip(jobs, self._map(run, *zip(*jobs, strict=True)), strict=True):
            done |= {(match, *key): sums[:, v] for v, key in enumerate(jobs[match, of_labels])}
        return {
            (place, kind): done[BOTH_MATCHES[place], place, kind] - done[PAIR_OF[BOTH_MATCHES[place]], place, kind]
            for place, some in kinds.items()
            for kind in some
        }

    def _value(self, c: int, described: list[Floats], place: int, kind: int) -> Floats:
        """What is summed of every edge, for the end of it that a place in `BOTH_MATCHES` is about."""
        if kind == kernels.ALL:
            return self._proper.astype(np.float64)
        if kind == kernels.LABELLED:
            return self._is_label
        kind, y = kind - kernels.FIRST, self._is_label * self.targets[:, c]
        if kind == kernels.Y:
            return y
        far = DST if MATCHES[BOTH_MATCHES[place]].col == "src" else SRC
        value = described[FAR_END[kind] + far]
        if kind in (kernels.FAR, kernels.BACK_SUM):
            return self._proper * value
        is_difference = kind in (kernels.Y_LESS_FAR, kernels.Y_LESS_RESIDUAL)
        return y - self._is_label * value if is_difference else y * value

    def _layout(self, match: str, of_labels: bool, rows: Positions | None) -> Layout:
        """The events of all edges, or of some rows, among all edges or among the labels when they became known."""
        everything = rows is None or len(rows) == len(self._ticks)
        name = match, of_labels, everything
        if name not in self._layouts:
            row_keys, col_keys, n_keys = match_keys(self._codes, self._codes, self._n_nodes, match)
            row_keys, col_keys, row_ticks = row_keys[:, 0], col_keys[:, 0], self._ticks
            if match not in BOTH_MATCHES:  # of pairs, those matter that occur again
                n_rows, n_cols = (np.bincount(keys, minlength=n_keys) for keys in (row_keys, col_keys))
                again = (n_rows > 0) & (n_cols > int(MATCHES[match].same_ends))
                row_keys, col_keys = (np.where(again[keys], keys, np.int32(-1)) for keys in (row_keys, col_keys))
            own = None if everything and MATCHES[match].same_ends else np.arange(len(row_keys))
            if not everything:
                row_keys, row_ticks, own = row_keys[rows], row_ticks[rows], rows
            keyed = Keyed(row_keys, row_ticks, col_keys, self._ticks, n_keys, own)
            if of_labels:
                assert self._known is not None
                keyed = keyed.before(np.arange(len(row_keys)), self._labels, self._known[self._labels])
            self._layouts[name] = keyed.layout()
        return self._layouts[name]

    # ---- step 3

    def agreement(self, described: list[list[Floats]], rows: Positions, end: int) -> tuple[Floats, Floats]:
        """What nodes like the source (end 0) or like the destination (1) say: (n_rows, classes, 3), and log of common."""
        from tdlg._kernels.columns import agreement
        from tdlg._kernels.layout import stable_argsort

        known = self._ticks if self._known is None else self._known
        by_time = self._labels[stable_argsort(self._ticks[self._labels])]
        by_time = by_time[stable_argsort(known[by_time])]
        filed, places = [], np.full((2, len(self._ticks)), -1, np.int64)
        for side in (SRC, DST):
            nodes = self._codes[side][by_time].astype(np.int64)
            start = np.append(0, np.cumsum(np.bincount(nodes, minlength=self._n_nodes)))
            some = by_time[stable_argsort(nodes)]
            places[side, some] = np.arange(len(some))
            # the lists of sources have labels minus what the destinations have otherwise
            left = [
                self.targets[some, c] - of_class[kernels.MEAN + 1 - side][some] for c, of_class in enumerate(described)
            ]
            filed.append((start, self._codes[1 - side][some], known[some], np.column_stack(left), some))
        far = 1 - end
        mine, theirs = filed[end][:4], (*filed[far][:4], places[end, filed[far][4]])
        out, common = np.empty((len(rows), self.plan.n_targets, 3)), np.empty(len(rows))
        skips = np.stack([places[end, rows], places[far, rows]])
        asked = self._codes[end][rows], self._codes[far][rows], skips, self._ticks[rows]
        order = stable_argsort(self._codes[far][rows])  # neighbouring rows share their lists

        def run(part: tuple[int, int]) -> None:
            agreement(order[slice(*part)], *asked, mine, theirs, self.plan.past_only, out, common)

        cuts = np.linspace(0, len(order), self._n_threads + 1).astype(int)
        list(self._map(run, pairwise(cuts.tolist())))
        return out, common
