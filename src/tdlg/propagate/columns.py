"""The columns of a table in memory: every match over the same edges, both ends together, and the edges' own features."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tdlg.linegraph.events import check_span
from tdlg.linegraph.match import MATCHES, match_keys
from tdlg.memory import default_threads
from tdlg.propagate.evidence import Evidence, Query
from tdlg.propagate.match import Keyed, Labels, MatchSums
from tdlg.propagate.own_features import levels, to_sum
from tdlg.propagate.plan import ColumnPlan
from tdlg.propagate.two_ends import two_end_columns

Floats = NDArray[np.float64]
Positions = NDArray[np.int64]

LARGEST = 1e38  # number that single precision holds


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

    with ThreadPoolExecutor(n_threads or default_threads()) as pool:  # the walks release the interpreter's lock
        jobs = [pool.submit(fill_two_ends, group) for group in range(len(groups) if plan.has_two_ends else 0)]
        jobs += [pool.submit(fill, *one) for one in zip(plan.all_matches, starts, [*starts[1:], both], strict=True)]
        for group, values in enumerate(mine):
            lines[own:, ends[group] : ends[group + 1]] = plan.compressed(values).T
        for job in jobs:
            job.result()
    return lines.T


def single(columns: Floats) -> NDArray[np.float32]:
    """Columns in single precision, the largest numbers being cut.

    Estimators see all columns so rounded: those made in memory, from files and of a stream are then the same numbers, though
    they are summed in another order, and a last bit could change the shape of trees.
    """
    found = np.empty_like(columns, np.float32)
    return np.clip(columns, -LARGEST, LARGEST, out=found, casting="unsafe")


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
        if evidence.label_ticks is not None:
            known = np.flatnonzero(evidence.labelled)
            return Labels(self._network.place[known], values[known], evidence.known_at[known])
        together = self._network.added(values * evidence.labelled[:, np.newaxis])
        cols = np.flatnonzero(together[:, 0])
        return Labels(cols, together[cols])

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
        from tdlg._kernels.ids import factorise_integers

        feature, end = self._plan.category_matches[match]
        cols = self._query.evidence.categories[self._network.first, feature]
        rows = self._query.categories[:, feature]
        if end:
            nodes = self._codes[("src", "dst").index(end)].astype(np.int64)
            cols, rows = cols * self._network.n_nodes + nodes, rows * self._network.n_nodes + nodes[self._rows]
        same = self._is_all and np.array_equal(cols, rows)
        distinct, col_keys, row_keys = factorise_integers(cols, rows[:0] if same else rows)
        return (col_keys if same else row_keys), col_keys, len(distinct)
