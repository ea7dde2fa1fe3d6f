"""Decayed sums of several values at several rates in one walk, and the columns that are made of them.

The recurrence is that of `recurrence.py`; what differs is that every rate keeps its own sums, and that an event never meets
its own column. Sums are written for the events of rows, one after the other, and brought to their rows at the end: one jump
per event instead of two. They then have the shape (scales, values, rows), and columns are written as lines of the shape
(columns, rows), so that the rows of one value lie side by side.
"""

import numpy as np

from tdlg._kernels import COUNT_UNIT, GAP_UNIT, LEAST_SUM, NO_GAP
from tdlg._kernels.compiled import compiled
from tdlg._kernels.vectors import pointer, prefetch

AHEAD = 16  # events or rows between asking for memory and using it
LEAST_VARIANCE = 1e-6  # of scaled amounts, for the score of an edge among equal ones

MEAN, DEVIATION, SCORE, RATIO, SHARE, SHARE_OF_ALL = range(6)  # how a feature is compared with those around


@compiled
def zero_if_tiny(total):
    return 0.0 if abs(total) < LEAST_SUM else total


@compiled
def write_rates(labels, smoothing, lines):  # out: lines
    """The smoothed rate of each target, and the log of the number of known labels.

    labels : (values, rows), the number of known labels and the sum of each target; lines : (targets + 1, rows).
    """
    n_targets = labels.shape[0] - 1
    for row in range(labels.shape[1]):
        known = zero_if_tiny(labels[0, row])
        for v in range(n_targets):
            lines[v, row] = zero_if_tiny(labels[1 + v, row]) / (known + smoothing)
        lines[n_targets, row] = np.log1p(known / COUNT_UNIT)


@compiled
def write_counts(counts, line):  # out: line
    """The log of decayed counts, (rows,)."""
    for row in range(counts.size):
        line[row] = np.log1p(zero_if_tiny(counts[row]) / COUNT_UNIT)


@compiled
def write_gaps(gaps, spread, line):  # out: line
    """The log of the times to the nearest edge, (rows,), in ticks; `spread` is the standard deviation of the times."""
    for row in range(gaps.size):
        line[row] = np.log1p(min(gaps[row] / spread, NO_GAP) / GAP_UNIT)


@compiled
def write_compared(kind, mine, sums, smoothing, zero, least, line):  # out: line
    """Compare a feature of edges with the edges around.

    kind : one of MEAN, DEVIATION, SCORE, RATIO, SHARE, and SHARE_OF_ALL, where each category has a value. There, an edge
    without a known category has the share of a typical one: 0 would be unusual, a risk of its own that was never learnt.
    mine : the values of the edges, (rows, width).
    sums : (values, rows), how many of the edges around have a value, the sums of their values and, for a number, of squares.
    zero, least : scaled amounts of 0 and of the smallest amount that ratios distinguish.
    """
    for row in range(line.size):
        known = zero_if_tiny(sums[0, row]) + smoothing
        if kind in (SHARE, SHARE_OF_ALL):
            share, typical, has_none = 0.0, 0.0, True
            for w in range(mine.shape[1]):
                of_category = zero_if_tiny(sums[1 + w, row]) / known
                share += mine[row, w] * of_category
                typical += of_category * of_category
                has_none &= mine[row, w] == 0.0
            line[row] = typical if has_none and kind == SHARE_OF_ALL else share
            continue
        usual = zero_if_tiny(sums[1, row]) / known
        more = mine[row, 0] - usual
        if kind == MEAN:
            line[row] = np.arcsinh(usual)
        elif more != more:  # the amount is missing
            line[row] = 0.0
        elif kind == DEVIATION:
            line[row] = np.arcsinh(more)
        elif kind == SCORE:
            variance = (zero_if_tiny(sums[2, row]) + smoothing) / known - usual * usual
            line[row] = more / np.sqrt(max(variance, LEAST_VARIANCE))
        else:
            line[row] = np.log(max(mine[row, 0] - zero, least) / max(usual - zero, least))


@compiled
def write_columns(sums, labels, gaps, mine, compared, amounts, smoothing, spread, start, out):  # out: out
    """All columns of one match: for each scale rates, known labels, counts and comparisons, then the gaps.

    sums : (scales, values, rows), the decayed count, and what `compared` refers to.
    labels : (scales, 1 + targets, rows), or no scales if there are no targets; gaps : (gaps, rows).
    mine : (rows, n_own). compared : (comparisons, 4), of each its kind, the first value and the number of values in `mine`,
    and the first in `sums`; amounts : (comparisons, 2), `zero` and `least` of `write_compared`.
    out : (columns, all rows), of which those from `start` on are written.
    """
    lines = out[:, start : start + sums.shape[2]]
    at = 0
    for k in range(sums.shape[0]):
        if labels.shape[0]:
            write_rates(labels[k], smoothing, lines[at : at + labels.shape[1]])
            at += labels.shape[1]
        write_counts(sums[k, 0], lines[at])
        at += 1
        for c in range(compared.shape[0]):
            kind, first, width, place = compared[c]
            values = mine[:, first : first + width]
            write_compared(kind, values, sums[k, place:], smoothing, amounts[c, 0], amounts[c, 1], lines[at])
            at += 1
    for g in range(gaps.shape[0]):
        write_gaps(gaps[g], spread, lines[at])
        at += 1


@compiled
def walk_scales(gap, source, target, n_rows, x, rates, strict, step, fresh, sums, nearest):  # out: sums, nearest
    """Give each event of a row the decayed sums of the columns passed, and the distance to the last one.

    x : (n_cols, values).
    rates : 1 / width of each scale, in ticks; strict : events at the same time do not see each other.
    step : 1 walks up from the past, -1 down from the future; fresh : whether `sums` start here, or are added to.
    sums : (n_targets, rates, values), for the events of rows one after the other; nearest : (n_targets,), infinite where no
    column was passed.
    """
    n_cols, n_events = x.shape[0], source.size
    n_rates, n_values = rates.size, x.shape[1]
    state, waiting = np.zeros((n_rates, n_values)), np.zeros((n_rates, n_values))
    waits = False
    distance = np.inf
    place = 0 if step > 0 else nearest.size - 1
    to_come = pointer(x)
    for at in range(n_events):
        event = at if step > 0 else n_events - 1 - at
        soon = event + AHEAD * step
        if 0 <= soon < n_events and source[soon] < n_cols:
            prefetch(to_come, source[soon] * n_values)
        passed = gap[event] if step > 0 else gap[event + 1]
        if passed == np.inf:  # another key
            for k in range(n_rates):
                for v in range(n_values):
                    state[k, v] = waiting[k, v] = 0.0
            waits = False
            distance = np.inf
        elif passed > 0.0:
            distance = passed if waits else distance + passed
            for k in range(n_rates):
                factor = np.exp(-rates[k] * passed)
                for v in range(n_values):
                    state[k, v] = factor * (state[k, v] + waiting[k, v])
                    waiting[k, v] = 0.0
            waits = False
        if target[event] < n_rows:
            for k in range(n_rates):
                for v in range(n_values):
                    sums[place, k, v] = state[k, v] if fresh else sums[place, k, v] + state[k, v]
            nearest[place] = distance
            place += step
        col = source[event]
        if col < n_cols:
            into = waiting if strict else state
            for k in range(n_rates):
                for v in range(n_values):
                    into[k, v] += x[col, v]
            waits = strict
            distance = distance if strict else 0.0


@compiled
def gather_scales(slots, sums, before, after, values, gaps):  # out: values, gaps
    """Bring what events have to their rows: values (rates, values, n_rows), and gaps (2, n_rows) before and after.

    slots : the number of each row among the events of rows; their number for a row without an event.

    Of edges at one time each walk meets only some: where one of the gaps is 0, both are.
    """
    n_events = before.size
    rows = pointer(sums)
    size = sums.shape[1] * sums.shape[2]
    for row in range(slots.size):
        soon = slots[min(row + AHEAD, slots.size - 1)]
        if soon < n_events:
            prefetch(rows, soon * size)
            prefetch(rows, soon * size + 8)
        event = slots[row]
        gaps[0, row] = gaps[1, row] = np.inf
        if event < n_events:
            gaps[0, row], gaps[1, row] = before[event], after[event]
            if before[event] == 0.0 or after[event] == 0.0:
                gaps[0, row] = gaps[1, row] = 0.0
        for k in range(values.shape[0]):
            for v in range(values.shape[1]):
                values[k, v, row] = sums[event, k, v] if event < n_events else 0.0
