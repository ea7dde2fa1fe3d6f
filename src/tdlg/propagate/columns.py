"""The columns of a table in memory: every match over the same edges, both ends together, and the edges' own features."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tdlg.clock import common_clock, rounded_up
from tdlg.edges import TemporalEdges, check_alike
from tdlg.exceptions import EdgesError
from tdlg.linegraph.events import Copies, check_span, own_columns
from tdlg.linegraph.match import MATCHES, match_keys
from tdlg.memory import default_threads
from tdlg.propagate.match import Keyed, Labels, MatchSums
from tdlg.propagate.plan import ColumnPlan, category_codes, category_numbers, levels, own_values, to_sum
from tdlg.propagate.two_ends import two_end_columns

if TYPE_CHECKING:
    from tdlg.propagate.features import PropagationFeatures

Floats = NDArray[np.float64]
Positions = NDArray[np.int64]


def table_columns(
    plan: ColumnPlan, query: Query, groups: Sequence[tuple[Positions, Any]] | None = None, n_threads: int | None = None
) -> Floats:
    """The columns of edges to score, (n_rows, n_columns).

    groups : some of the edges, by their positions in the query, and the time in ticks before which labels had to be known to
    count; None if all do. The rows of the result are those of the groups. By default one group of all edges.
    """
    evidence = query.evidence
    groups = [(np.arange(len(query.at)), None)] if groups is None else groups
    check_span(evidence.edges.ticks)
    table = _Table(plan, query)
    ends = np.cumsum([0, *(len(rows) for rows, _ in groups)])
    lines = np.empty((len(plan.columns), ends[-1]))  # the rows of a column side by side
    *starts, both, own, _ = plan.starts.tolist()
    mine = [query.own[rows] for rows, _ in groups]

    def fill(match: str, first: int, stop: int) -> None:
        sums = table.sums(match, groups)
        for group, start in enumerate(ends[:-1].tolist()):
            sums.write(group, mine[group], start, lines[first:stop])

    def fill_two_ends(group: int) -> None:
        rows, before = groups[group]
        labelled = evidence.labelled if before is None else evidence.labelled & (evidence.known_at < before)
        known = evidence._replace(labelled=labelled)
        lines[both:own, ends[group] : ends[group + 1]] = two_end_columns(plan, known, query.at[rows], n_threads).T

    work = [partial(fill_two_ends, group) for group in range(len(groups) if plan.has_two_ends else 0)]
    work += [partial(fill, *one) for one in zip(plan.all_matches, starts, [*starts[1:], both], strict=True)]
    for group, values in enumerate(mine):
        lines[own:, ends[group] : ends[group + 1]] = plan.compressed(values).T
    if n_threads == 1:
        for do in work:
            do()
    else:
        with ThreadPoolExecutor(n_threads or default_threads()) as pool:  # the walks release the interpreter's lock
            for job in [pool.submit(do) for do in work]:
                job.result()
    return lines.T


class _Table:
    """Distinct edges with what is summed over them, by each match; a copy of an edge counts again."""

    def __init__(self, plan: ColumnPlan, query: Query) -> None:
        evidence, network = query.evidence, query.evidence.edges
        self._plan, self._query, self._network = plan, query, network
        self._codes = network.distinct(network.src), network.distinct(network.dst)
        self._ticks = network.distinct(network.ticks)
        self._rows = network.place[query.at]
        self._is_all = np.array_equal(self._rows, np.arange(len(network.first)))
        count = np.ones((len(network.place), 1))
        self._values = network.added(np.hstack([count, to_sum(evidence.own, plan.own)]))
        self._labels, self._levels = self._labels_of(evidence), levels(evidence.own, plan.own)

    def _labels_of(self, evidence: Evidence) -> Labels:
        values = np.hstack([np.ones((len(evidence.labelled), 1)), evidence.targets])
        is_rare = self._plan.is_rare(evidence.targets)
        if evidence.label_ticks is not None:
            known = np.flatnonzero(evidence.labelled)
            return Labels(self._network.place[known], values[known], is_rare[known], evidence.known_at[known])
        together = self._network.added(np.column_stack([values, is_rare]) * evidence.labelled[:, np.newaxis])
        cols = np.flatnonzero(together[:, 0])
        return Labels(cols, together[cols, :-1], together[cols, -1] > 0.0)

    def sums(self, match: str, groups: Sequence[tuple[Positions, Any]]) -> MatchSums:
        """The sums of a match at the rows of groups."""
        plan, ticks = self._plan, self._ticks
        row_keys, col_keys, n_keys = self._keys(match)
        is_square = self._is_all and row_keys is col_keys
        keyed = Keyed(row_keys, ticks[self._rows], col_keys, ticks, n_keys, None if is_square else self._rows)
        values = self._values if plan.compares(match) else np.ascontiguousarray(self._values[:, :1])
        of_edges = self._levels, self._network.place
        return MatchSums(plan, match, self._network.time_unit, keyed, values, self._labels, groups, *of_edges)

    def _keys(self, match: str) -> tuple[NDArray[np.int32], NDArray[np.int32], int]:
        """Keys of the rows and of the columns, one and the same if the rows are the columns; and their number."""
        if match not in self._plan.category_matches:
            row_keys, col_keys, n_keys = match_keys(self._codes, self._codes, self._network.n_nodes, match)
            row_keys, col_keys = row_keys[:, 0], col_keys[:, 0]
            if self._is_all and MATCHES[match].same_ends:
                return col_keys, col_keys, n_keys
            return row_keys[self._rows], col_keys, n_keys
        from tdlg._kernels.layout import factorise_integers

        feature, end = self._plan.category_matches[match]
        cols = self._query.evidence.categories[self._network.first, feature]
        rows = self._query.categories[:, feature]
        if end:
            nodes = self._codes[("src", "dst").index(end)].astype(np.int64)
            cols, rows = cols * self._network.n_nodes + nodes, rows * self._network.n_nodes + nodes[self._rows]
        same = self._is_all and np.array_equal(cols, rows)
        distinct, col_keys, row_keys = factorise_integers(cols, rows[:0] if same else rows)
        return (col_keys if same else row_keys), col_keys, len(distinct)


# ---- what is known when edges are scored


class Network(NamedTuple):
    """Edges as arrays: codes of nodes, times in ticks, and which of them are one edge."""

    src: NDArray[np.int32]
    dst: NDArray[np.int32]
    ticks: NDArray[Any]
    time_unit: str | None
    n_nodes: int  # all codes are below it
    first: Positions  # positions of the distinct edges, each in its first copy
    place: Positions  # the number of each edge among these, (n_edges,)

    @classmethod
    def of(cls, edges: TemporalEdges, new: TemporalEdges | None = None) -> Network:
        """Edges, and perhaps new ones after them, none of which is a copy; their nodes may be new too."""
        src, dst, ticks, unit, n_nodes = edges.src_code, edges.dst_code, edges.ticks, edges.time_unit, edges.n_nodes
        place, n = Copies(edges).place, len(edges)
        first = np.arange(n) if Copies(edges).none else np.unique(place, return_index=True)[1]
        if new is not None:
            check_alike((edges, new))
            known = zip(edges.codes_of(new), (new.src_code, new.dst_code), strict=True)
            codes = [np.where(code < 0, n_nodes + own, code).astype(np.int32) for code, own in known]
            src, dst, n_nodes = np.append(src, codes[0]), np.append(dst, codes[1]), n_nodes + new.n_nodes
            *both, unit = common_clock(ticks, unit, new.ticks, new.time_unit)
            ticks = np.concatenate(both)
            place = np.append(place, len(first) + np.arange(len(new)))
            first = np.append(first, n + np.arange(len(new)))
        return cls(src, dst, ticks, unit, n_nodes, first, place)

    @property
    def has_copies(self) -> bool:
        """Whether some edges are one."""
        return len(self.first) < len(self.place)

    def distinct(self, values: NDArray[Any]) -> NDArray[Any]:
        """What the distinct edges have of values, (n_edges, ...), which are the same for all copies."""
        return values[self.first] if self.has_copies else values

    def added(self, values: Floats) -> Floats:
        """The sum of values, (n_edges, n_values), over the copies of each distinct edge."""
        if not self.has_copies:
            return values
        total = np.zeros((len(self.first), values.shape[1]))
        np.add.at(total, self.place, values)
        return total


class Evidence(NamedTuple):
    """The edges and labels from which columns are made."""

    edges: Network
    own: Floats  # features of the edges as numbers, (n_edges, n_own)
    targets: Floats  # labels minus the prior, (n_edges, n_targets), not used where unlabelled
    labelled: NDArray[np.bool_]
    categories: Positions  # codes of the features with many categories, (n_edges, n_many), -1 where missing
    label_ticks: NDArray[Any] | None = None  # when labels became known; None if at the times of their edges

    @property
    def known_at(self) -> NDArray[Any]:
        """When the label of each edge became known, in ticks: never before the edge."""
        ticks = self.edges.ticks
        return ticks if self.label_ticks is None else np.maximum(self.label_ticks, ticks)


class Query(NamedTuple):
    """Edges to score: positions in the evidence, and their features and categories as passed.

    For a fitted edge from another table, these may differ from those in the evidence.
    """

    evidence: Evidence
    at: Positions
    own: Floats
    categories: Positions

    @classmethod
    def of(cls, evidence: Evidence, at: Positions) -> Query:
        """Some edges of the evidence, with the features that they have there."""
        return cls(evidence, at, evidence.own[at], evidence.categories[at])

    def some(self, which: Positions) -> Query:
        """Some of these edges, with the same evidence."""
        return Query(self.evidence, self.at[which], self.own[which], self.categories[which])


def find_fitted(features: PropagationFeatures, edges: TemporalEdges) -> Positions:
    """Position of each edge among the fitted edges; -1 for new edges."""
    if not edges.same_table(features.edges_):
        from tdlg.sampling.index import edge_index

        return edge_index(features.edges_).find_each(edges)
    return own_columns(edges, features.edges_)


def is_new_label(features: PropagationFeatures, at: Positions) -> NDArray[np.bool_]:
    """Whether the label of each edge to score, by its position in the evidence, was not given to `fit`."""
    n_fitted = len(features.edges_)
    return (at >= n_fitted) | ~features.labelled_[np.minimum(at, n_fitted - 1)]


def check_classes(plan: ColumnPlan, edges: TemporalEdges) -> None:
    """Refuse labels that are not among the fitted ones."""
    if plan.classes is None or edges.label is None:
        return
    found = edges.label[edges.labelled]
    strange = found[~np.isin(found, plan.classes)]
    if len(strange):
        raise EdgesError(
            f"The edges have the label {strange[:1].tolist()[0]!r}, which is not one of the fitted labels: "
            f"{plan.classes.tolist()}. Pass labels that were fitted, or no labels."
        )


def gather_evidence(features: PropagationFeatures, edges: TemporalEdges, *, use_labels: bool = False) -> Query:
    """What is known when these edges are scored, and their positions in it: fitted edges first, then new ones.

    use_labels : whether the labels of the edges to score become known over time and count from then on; those given to
    `fit` stay.
    """
    plan, fitted, labelled = features.plan_, features.edges_, features.labelled_
    numbers = category_numbers(fitted, plan.many)
    at = find_fitted(features, edges)
    new = np.flatnonzero(at < 0)
    at[new] = len(fitted) + np.arange(new.size)
    targets = plan.targets_of(features.labels_, labelled)
    own, categories = own_values(fitted, plan.own), category_codes(fitted, numbers)
    if edges.same_table(fitted) and not new.size:
        mine = own[at], categories[at]
    else:
        mine = own_values(edges, plan.own), category_codes(edges, numbers)
    if new.size:
        own, categories = np.vstack([own, mine[0][new]]), np.vstack([categories, mine[1][new]])
        targets = np.vstack([targets, np.zeros((new.size, targets.shape[1]))])
        labelled = np.append(labelled, np.zeros(new.size, bool))
    if use_labels:
        check_classes(plan, edges)
        is_known = edges.labelled & ~labelled[at]
        targets[at[is_known]] = plan.targets_of(edges.label, is_known)[is_known]
        labelled = labelled.copy()
        labelled[at[is_known]] = True
    network = Network.of(fitted, edges[new] if new.size else None)
    label_ticks = _evidence_label_ticks(features, network, at, edges if use_labels else None)
    return Query(Evidence(network, own, targets, labelled, categories, label_ticks), at, *mine)


def _evidence_label_ticks(
    features: PropagationFeatures, context: Network, at: Positions, edges: TemporalEdges | None
) -> NDArray[Any] | None:
    """When each label of the evidence became known; `edges` are those to score, if their labels count."""
    fitted, given = features.label_ticks_, None if edges is None else edges.label_ticks
    if not features.plan_.past_only or (fitted is None and given is None):
        return None
    ticks = context.ticks.copy()
    clock = context.time_unit, ticks.dtype
    if fitted is not None:
        ticks[: len(fitted)] = rounded_up(fitted, features.edges_.time_unit, *clock)
    if edges is not None:  # the times of labels given to fit stay
        is_new = is_new_label(features, at)
        ticks[at[is_new]] = context.ticks[at[is_new]]
        if given is not None:
            ticks[at[is_new]] = rounded_up(given, edges.time_unit, *clock)[is_new]
    return ticks
