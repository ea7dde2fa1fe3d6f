"""Decayed sums of several values at several rates in one walk, and the columns that are made of them.

The recurrence is that of `recurrence.py`; what differs is that every rate keeps its own sums, and that an event never meets
its own column. Sums are written for the events of rows, one after the other, and brought to their rows at the end: one jump
per event instead of two. They then have the shape (scales, values, rows), and columns are written as lines of the shape
(columns, rows), so that the rows of one value lie side by side.
"""

import numpy as np

from tdlg._kernels import COMMON_NODES, COUNT_UNIT, GAP_UNIT, LEAST_SUM, NO_GAP, RECENT
from tdlg._kernels.compiled import compiled
from tdlg._kernels.vectors import pointer, prefetch

AHEAD = 16  # events or rows between asking for memory and using it
LEAST_VARIANCE = 1e-6  # of scaled amounts, for the score of an edge among equal ones

MEAN, DEVIATION, SCORE, RATIO, SHARE, SHARE_OF_ALL, LATELY = range(7)  # how a feature is compared with those around


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
def write_gaps(gaps, spread, line):  # out: line
    """The log of the times to the nearest edge, (rows,), in ticks; `spread` is the standard deviation of the times."""
    for row in range(gaps.size):
        line[row] = np.log1p(min(gaps[row] / spread, NO_GAP) / GAP_UNIT)


@compiled
def write_compared(kind, mine, sums, smoothing, zero, least, line):  # out: line
    """Compare a feature of edges with the edges around.

    kind : one of the codes above. Of SHARE_OF_ALL, each category has a value, and an edge
    without a known category has the share of a typical one: 0 would be unusual, a risk of its own that was never learnt.
    mine : the values of the edges, (rows, width).
    sums : (values, rows), how many of the edges around have a value, the sums of their values and, for a number, of squares
    and of how far they exceeded what was usual then.
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
        if kind == LATELY:
            line[row] = zero_if_tiny(sums[3, row]) / known
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
def write_columns(
    sums, labels, gaps, unusual, since, mine, compared, amounts, smoothing, spread, start, out
):  # out: out
    """All columns of one match: for each scale rates, known labels, counts and comparisons; gaps; what has no scale.

    The last label of the rarest class is told by how recent it is, and by the edges since then, both 0 where there is none.

    sums : (scales, values, rows), the decayed count, and what `compared` refers to.
    labels : (scales, 1 + targets, rows), or no scales if there are no targets; gaps : (gaps, rows); unusual : (numbers,
    rows); since : ticks since that label, infinite for none, and edges since then, (2, rows), or (0, rows) without it.
    mine : (rows, n_own). compared : (comparisons, 4), of each its kind, the first value and the number of values in `mine`,
    and the first in `sums`; amounts : (comparisons, 3), `zero`, `least` and `smoothing` of `write_compared`.
    out : (columns, all rows), of which those from `start` on are written.
    """
    lines = out[:, start : start + sums.shape[2]]
    at = 0
    for k in range(sums.shape[0]):
        if labels.shape[0]:
            write_rates(labels[k], smoothing, lines[at : at + labels.shape[1]])
            at += labels.shape[1]
        for row in range(sums.shape[2]):  # the log of decayed counts
            lines[at, row] = np.log1p(zero_if_tiny(sums[k, 0, row]) / COUNT_UNIT)
        at += 1
        for c in range(compared.shape[0]):
            kind, first, width, place = compared[c]
            values = mine[:, first : first + width]
            zero, least, weight = amounts[c]
            write_compared(kind, values, sums[k, place:], weight, zero, least, lines[at])
            at += 1
    for g in range(gaps.shape[0]):
        write_gaps(gaps[g], spread, lines[at])
        at += 1
    for u in range(unusual.shape[0]):
        for row in range(unusual.shape[1]):
            lines[at, row] = unusual[u, row]
        at += 1
    if since.shape[0]:
        write_gaps(since[0], spread, lines[at])
        longest = np.log1p(NO_GAP / GAP_UNIT)
        for row in range(since.shape[1]):
            lines[at, row] = longest - lines[at, row]
            lines[at + 1, row] = 1.0 + np.log1p(max(since[1, row], 0.0)) if since[0, row] / spread < NO_GAP else 0.0


@compiled
def find_last_labels(keys, ticks, n_before, starts, known, labelled, n_labelled, out):  # out: labelled, n_labelled, out
    """Of rows with these keys, -1 for none: ticks since the last labelled edge whose label was known, and edges since then.

    n_before : how many edges of the key were before each row. Labels are sorted by key, of which each has those from one of
    `starts` on, and by the time at which they became known; labelled, n_labelled : the time of the edge of each, and how
    many edges were before it, which become those of the latest edge up to there.
    """
    for key in range(starts.size - 1):
        for at in range(starts[key] + 1, starts[key + 1]):
            if labelled[at - 1] > labelled[at]:
                labelled[at], n_labelled[at] = labelled[at - 1], n_labelled[at - 1]
    for row in range(keys.size):
        out[0, row], out[1, row] = np.inf, 0.0
        if keys[row] < 0:
            continue
        first = low = starts[keys[row]]
        high = starts[keys[row] + 1]
        while low < high:
            middle = (low + high) // 2
            if known[middle] < ticks[row]:
                low = middle + 1
            else:
                high = middle
        if low > first:
            out[0, row] = np.float64(ticks[row] - labelled[low - 1])
            out[1, row] = n_before[row] - n_labelled[low - 1] - 1.0


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


# ---- how nodes agree about others, for the columns about both ends of an edge


TABLE_BITS = 10
TABLE = 1 << TABLE_BITS  # places for marked nodes, enough that nodes seldom collide
SIMILAR = 0.02  # added to the sum of similarities


@compiled
def agreement(rows, own, opposite, skips, ticks, mine, theirs, strict, out, common):  # out: out, common
    """For rows (u, v): what the nodes that resemble u have to do with v, from the lists of labelled edges of all nodes.

    rows : those to do; own, opposite : u and v per row; skips : (2, n_rows), positions of the row's own edge in the two
    kinds of lists, -1 if it is in none.
    mine : the lists of nodes like u: start, other end, time known, residuals (n_labelled, classes).
    theirs : the lists of nodes like v, and the position of each edge in `mine`.
    out : (n_rows, classes, 3); common : (n_rows,), log(1 + common nodes).
    """
    my_start, my_other, my_known, my_residual = mine
    start, other, known, residual, twin = theirs
    marked, sums, both = new_comparison(residual.shape[1])
    others, others_known = pointer(my_other), pointer(my_known)
    for row in rows:
        u, v, tick = own[row], opposite[row], ticks[row]
        n_common = 0
        sums[:] = 0.0
        first, stop = recent(my_known, my_start[u], my_start[u + 1], my_start[u], tick, skips[0, row], strict)
        n_used, factor = mark(my_other, my_residual, first, stop, skips[0, row], v, marked)
        if n_used > 0:
            first, stop = recent(known, start[v], start[v + 1], start[v], tick, skips[1, row], strict)
            for at in range(first, stop):
                prefetch(others, twin[at])
                prefetch(others_known, twin[at])
            for at in range(first, stop):
                w = other[at]
                if at == skips[1, row] or w == u:
                    continue
                low, high = recent(my_known, my_start[w], my_start[w + 1], twin[at], tick, -1, strict)
                n_common += compare_nodes(my_other, my_residual, low, high, residual[at], marked, factor, sums, both)
        common[row] = conclude(sums, n_common, n_used, marked, out[row])


@compiled
def new_comparison(n_classes):
    """Memory for `mark`, `compare_nodes` and `conclude`: marked nodes, sums of a row, edges in common with another node."""
    marked = np.full(TABLE, -1, np.int32), np.empty(TABLE), np.empty((TABLE, n_classes)), np.empty(RECENT, np.int64)
    return marked, np.empty((4, n_classes)), np.empty(RECENT + 1, np.int64)


@compiled
def compare_nodes(other, residuals, low, high, residual, marked, factor, sums, both):  # out: sums, both
    """Add what a node w has to do with v, its residual there being given, by how it resembles the marked node.

    other, residuals : of all edges, those of w being low to high. Returns the number of edges in common.
    sums : (4, classes), similarities times residuals, sizes of similarities, common edges times residuals; the similarity.
    """
    keys, _, marks, _ = marked
    n_both = 0
    for at in range(low, high):  # without a branch, which could not be predicted
        both[n_both] = at
        n_both += keys[_place_of_node(other[at], factor)] == other[at]
    if n_both == 0:
        return 0
    n_classes, similarity = sums.shape[1], sums[3]
    similarity[:] = 0.0
    for k in range(n_both):
        place = _place_of_node(other[both[k]], factor)
        for c in range(n_classes):
            similarity[c] += residuals[both[k], c] * marks[place, c]
    for c in range(n_classes):
        alike = similarity[c] / (n_both + COMMON_NODES)
        sums[0, c] += alike * residual[c]
        sums[1, c] += abs(alike)
        sums[2, c] += n_both * residual[c]
    return n_both


@compiled
def conclude(sums, n_common, n_used, marked, out):  # out: out, marked
    """The three columns of each class of a row, (classes, 3); removes all marks and returns the log of common edges."""
    for c in range(out.shape[0]):
        out[c, 0] = sums[0, c] / (sums[1, c] + SIMILAR)
        out[c, 1] = sums[0, c]
        out[c, 2] = sums[2, c] / (n_common + COMMON_NODES)
    keys, _, _, used = marked
    for k in range(n_used):
        keys[used[k]] = -1
    return np.log1p(n_common)


@compiled
def mark(other, residual, first, stop, skip, without, table):  # out: table
    """Enter the other ends of some edges into a table, with their mean residuals; each has a place of its own.

    other, residual : of all edges; first, stop : those to enter, without the edge `skip` and those with the node `without`.
    table : node, number of edges and residuals by place, and the places used. Returns the number of places used, and the
    factor for which no two nodes have the same place.
    """
    keys, n_edges, marks, used = table
    factor = np.uint32(2654435769)
    while True:
        n_used, is_clear = 0, True
        for at in range(first, stop):
            node = other[at]
            if at == skip or node == without:
                continue
            place = _place_of_node(node, factor)
            if keys[place] < 0:
                keys[place], n_edges[place] = node, 0.0
                marks[place] = 0.0
                used[n_used] = place
                n_used += 1
            elif keys[place] != node:
                is_clear = False
                break
            n_edges[place] += 1.0
            for c in range(marks.shape[1]):
                marks[place, c] += residual[at, c]
        if is_clear:
            break
        for k in range(n_used):
            keys[used[k]] = -1
        factor = np.uint32(factor * 747796405 + 2891336453) | np.uint32(1)  # another odd number
    for k in range(n_used):
        for c in range(marks.shape[1]):
            marks[used[k], c] /= n_edges[used[k]]
    return n_used, factor


@compiled
def _place_of_node(node, factor):
    """The place of a node in the table of marked nodes."""
    return np.int64(np.uint32(np.uint32(node) * factor) >> np.uint32(32 - TABLE_BITS))


@compiled
def recent(known, start, stop, guess, tick, skip, strict):
    """The range of the last RECENT edges of a list known before a time (strict), or of those nearest to it.

    The edge at `skip` is not counted; it may lie within the range. Of those as near, the earlier ones come first, and of
    those at one time, the ones next to the row's own place.
    """
    near = _first_not_before(known, start, stop, guess, tick)
    if strict:
        return max(start, near - RECENT), near
    is_skipped = start <= skip < stop
    n = stop - start - int(is_skipped)
    if n <= RECENT:
        return start, stop
    skip = skip - start if is_skipped else n
    near -= start + int(skip < near - start)
    low, high = max(0, near - RECENT), min(near, n - RECENT)
    while low < high:
        middle = (low + high) // 2
        last = middle + RECENT
        before = tick - known[start + middle + int(middle >= skip)]
        after = known[start + last + int(last >= skip)] - tick
        if before > after:
            low = middle + 1
        else:
            high = middle
    last = low + RECENT - 1
    return start + low + int(low >= skip), start + last + int(last >= skip) + 1


@compiled
def _first_not_before(known, start, stop, guess, tick):
    """The first position with a time not before `tick`, looked for from `guess` on in growing steps."""
    if start == stop:
        return stop
    low, high, step = start, stop, 1
    if known[guess] < tick:
        low = guess + 1
        while guess + step < stop and known[guess + step] < tick:
            low = guess + step + 1
            step *= 2
        high = min(stop, guess + step)
    else:
        high = guess
        while guess - step >= start and known[guess - step] >= tick:
            high = guess - step
            step *= 2
        low = max(start, guess - step + 1)
    while low < high:
        middle = (low + high) // 2
        if known[middle] < tick:
            low = middle + 1
        else:
            high = middle
    return low
