"""The columns of one match: decayed sums over the edges with the same key, for tables and for the buckets of a file."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tdlg._kernels import UNUSUAL
from tdlg.edges import TemporalEdges
from tdlg.linegraph.events import Copies, Layout, build_layout, placed
from tdlg.linegraph.match import SAME_ENDS, Codes
from tdlg.propagate.plan import ColumnPlan, Floats, Positions, levels

BLOCK = 4096  # rows whose columns are written at once, which stay in the cache


class WalkedSums(NamedTuple):
    """Sums at the events of rows, from which those of rows are taken."""

    slots: NDArray[np.int32]  # the number of each row's event among those of rows; their number for a row without one
    values: Floats  # (n_slots, n_widths, n_values)
    nearest: Floats  # ticks to the previous and to the next column, (2, n_slots), infinite for none; both 0 at one time

    def take(self, rows: Any) -> tuple[Floats, Floats]:
        """The sums of some rows, (n_widths, n_values, n_rows), and the gaps before and after, (2, n_rows)."""
        from tdlg._kernels.columns import gather_scales

        slots = self.slots[rows]
        sums, gaps = np.empty((*self.values.shape[1:], len(slots))), np.empty((2, len(slots)))
        gather_scales(slots, self.values, *self.nearest, sums, gaps)
        return sums, gaps


class Keyed(NamedTuple):
    """Rows, and the columns among which those with the same key are summed for each row."""

    row_keys: Codes  # numbered from 0, -1 where nothing matches
    row_ticks: NDArray[Any]  # on the clock of `col_ticks`
    col_keys: Codes
    col_ticks: NDArray[Any]
    n_keys: int
    own: Positions | None = None  # the column that is the row itself, or -1; None if the rows are the columns

    def layout(self) -> Layout:
        """The events of rows and columns, sorted by key and time."""
        keys = self.row_keys[:, np.newaxis], self.col_keys[:, np.newaxis], self.n_keys
        return placed(*keys, self.row_ticks, self.col_ticks, self.own)

    def before(self, rows: Positions, cols: Positions, known: NDArray[Any]) -> Keyed:
        """Some rows, and some columns at the times when something about them became known; a row never sees its own."""
        nothing = np.full(len(rows), -1)
        return Keyed(self.row_keys[rows], self.row_ticks[rows], self.col_keys[cols], known, self.n_keys, nothing)


class Labels(NamedTuple):
    """The known labels."""

    cols: Positions  # the columns that have them, (n_labels,)
    values: Floats  # 1 and the targets, (n_labels, 1 + n_targets)
    is_rare: NDArray[np.bool_]  # whether a column has a label of the rarest class
    known: NDArray[Any] | None = None  # when they became known, in ticks; None if each at the time of its edge


class MatchSums:
    """Decayed sums of one match at groups of rows that know different labels, from which their columns are written.

    values : what is summed over all columns, a count and, if features are compared, their values, (n_cols, n_values).
    groups : rows, and the time before which labels had to be known; None if all count that were known before a row.
    Counts and features are walked once for all groups; so are labels, unless they are late or groups know different ones.

    What is usual for a key is the mean level of its numbers over all of its past, see `tdlg.propagate.plan.levels`.
    An edge whose level is more than 1 above it has an excess, which is summed like other values: how unusual it was lately.
    edge_levels, edge_cols : the levels of all edges, and the column of each; several may be one.

    Of the last known label of the rarest class, the time of its edge counts, and how many edges of the key came since then.
    """

    def __init__(
        self,
        plan: ColumnPlan,
        match: str,
        unit: str | None,
        keyed: Keyed,
        values: Floats,
        labels: Labels,
        groups: Sequence[tuple[Positions, Any]],
        edge_levels: Floats,
        edge_cols: Positions,
    ) -> None:
        self._plan, self._match, self._groups, self._own = plan, match, groups, keyed.own
        self._widths, self._spread = plan.widths(unit), plan.spread(unit)
        self._separate: list[WalkedSums] | None = None
        self._usual, self._since = np.empty((0, len(values))), [np.empty((0, len(rows))) for rows, _ in groups]
        known = keyed.col_ticks[labels.cols] if labels.known is None else labels.known
        if match in SAME_ENDS and (plan.n_edge_values > 1 or plan.rarest is not None):
            edge_levels = edge_levels[:, : len(plan.numbers)]
            n_before, self._usual, excess = self._past(keyed, values[:, 0], edge_levels, edge_cols)
            if plan.numbers:
                values = values.copy()
                values[:, plan.excesses] = excess
            if plan.rarest is not None:
                self._since = [self._last_labels(keyed, labels, known, n_before, *group) for group in groups]
        if plan.n_targets and (labels.known is not None or any(before is not None for _, before in groups)):
            self._separate = [self._walk_labels(keyed, labels, known, *group) for group in groups]
        elif plan.n_targets:
            together = np.zeros((len(values), values.shape[1] + plan.n_label_values))
            together[:, : values.shape[1]] = values
            together[labels.cols, values.shape[1] :] = labels.values
            values = together
        self._walk = walk_events(keyed.layout(), values, self._widths, past_only=plan.past_only)

    def _past(self, keyed: Keyed, n_edges: Floats, levels: Floats, cols: Positions) -> tuple[Floats, Floats, Floats]:
        """All the past of each column: how many edges, (n_cols,), the mean levels, (n_numbers, n_cols); and its excess.

        n_edges : how many edges each column is; the excess is (n_cols, n_numbers).
        """
        n_cols, n_numbers, is_known = len(keyed.col_keys), levels.shape[1], np.isfinite(levels)
        square = keyed._replace(row_keys=keyed.col_keys, row_ticks=keyed.col_ticks, own=None)
        values = np.zeros((n_cols, 1 + 2 * n_numbers))
        values[:, 0] = n_edges
        if n_numbers:
            np.add.at(values[:, 1:], cols, np.hstack([is_known, np.where(is_known, levels, 0.0)]))
        before = walk_events(square.layout(), values, [np.inf], past_only=True).take(slice(None))[0][0]
        usual = before[1 + n_numbers :] / (before[1 : 1 + n_numbers] + self._plan.smoothing)
        excess = np.zeros((n_cols, n_numbers))
        if n_numbers:
            np.add.at(excess, cols, np.where(is_known, np.maximum(levels - usual.T[cols] - UNUSUAL, 0.0), 0.0))
        return before[0], usual, excess

    def _last_labels(
        self, keyed: Keyed, labels: Labels, known: NDArray[Any], n_before: Floats, rows: Positions, before: Any
    ) -> Floats:
        """Ticks since the last edge with a known label of the rarest class, and edges since, (2, n_rows)."""
        from tdlg._kernels.columns import find_last_labels

        some = np.flatnonzero(labels.is_rare if before is None else labels.is_rare & (known < before))
        some = some[np.lexsort((known[some], keyed.col_keys[labels.cols[some]]))]
        cols, own = labels.cols[some], rows if self._own is None else self._own[rows]
        starts = np.searchsorted(keyed.col_keys[cols], np.arange(keyed.n_keys + 1))
        of_labels = known[some], keyed.col_ticks[cols], n_before[cols]
        found = np.empty((2, len(rows)))
        find_last_labels(keyed.row_keys[rows], keyed.row_ticks[rows], n_before[own], starts, *of_labels, found)
        return found

    def _walk_labels(
        self, keyed: Keyed, labels: Labels, known: NDArray[Any], rows: Positions, before: Any
    ) -> WalkedSums:
        # labels that become known after all rows are left out: their times may be far beyond all others
        counts = known < keyed.row_ticks[rows].max() if len(rows) else np.zeros(len(known), bool)
        if before is not None:
            counts &= known < before
        events = keyed.before(rows, labels.cols[counts], known[counts])
        return walk_events(events.layout(), labels.values[counts], self._widths, past_only=True)

    def write(self, group: int, mine: Floats, start: int, out: Floats, some: slice = slice(None)) -> None:
        """Write the columns of (some) rows of a group, with their features, as lines from `start` on, (n_columns, rows)."""
        from tdlg._kernels.columns import write_columns

        plan, rows, offset = self._plan, self._groups[group][0][some], some.start or 0
        compared, amounts = plan.comparisons(self._match)
        for first in range(0, len(rows), BLOCK):
            block = slice(first, first + BLOCK)
            sums, gaps = self._walk.take(rows[block])
            if not plan.n_targets:
                labels = sums[:0, :0]
            elif self._separate is None:
                labels = sums[:, sums.shape[1] - plan.n_label_values :].copy()
            else:
                labels = self._separate[group].take(slice(offset + first, offset + first + len(rows[block])))[0]
            cols = rows[block] if self._own is None else self._own[rows[block]]
            unusual = self._usual[:, cols]
            if len(unusual):
                unusual = np.nan_to_num(levels(mine[block], plan.own).T - unusual)
            since = self._since[group][:, offset + first : offset + first + len(rows[block])]
            of_edges = unusual, since, mine[block], compared, amounts
            written = sums, labels, gaps[: plan.n_gaps], *of_edges, plan.smoothing, self._spread, start + first, out
            write_columns(*written)


def walk_events(layout: Layout, values: Floats, widths: Sequence[float] | Floats, *, past_only: bool) -> WalkedSums:
    """Decayed sums of values, (n_cols, n_values), over the other events of a key, for several bandwidths in ticks."""
    from tdlg._kernels.columns import walk_scales

    n_rows, slots, n_slots = len(layout.row_slots), layout.row_slots[:, 0], layout.n_events
    if not layout.is_square:
        is_row = layout.target < n_rows
        n_slots = int(np.count_nonzero(is_row))
        slots = np.append(np.cumsum(is_row, dtype=np.int32) - np.int32(1), np.int32(n_slots))[slots]
    x, rates = np.ascontiguousarray(values), 1.0 / np.asarray(widths, np.float64)
    sums, nearest = np.empty((n_slots, rates.size, x.shape[1])), np.empty((2, n_slots))
    nearest[1] = np.inf
    events = layout.gap, layout.source, layout.target, n_rows, x, rates, past_only
    walk_scales(*events, 1, True, sums, nearest[0])
    if not past_only:
        walk_scales(*events, -1, False, sums, nearest[1])
    return WalkedSums(slots, sums, nearest)


def decayed_sums(
    rows: TemporalEdges,
    cols: TemporalEdges,
    values: Floats,
    match: str,
    widths: Sequence[float] | Floats,
    *,
    past_only: bool = False,
) -> tuple[Floats, Floats]:
    """Sums of values at Laplace decays, (n_rows, n_widths, n_values), and the gaps before and after, (2, n_rows).

    Those of a width are `LineGraph(rows, cols, decay=Laplace(width), match=match, include_self=False) @ values`.
    """
    row_copies, col_copies = Copies(rows), Copies(cols)
    layout = build_layout(row_copies.distinct, col_copies.distinct, match)
    walked = walk_events(layout, col_copies.add(values), widths, past_only=past_only)
    sums, gaps = walked._replace(slots=row_copies.repeat(walked.slots)).take(slice(None))
    return np.moveaxis(sums, 2, 0), gaps
