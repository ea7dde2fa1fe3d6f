"""The columns of events as they come: what is known is read, then what happened is absorbed once time has moved on.

Tuples of arrays that go together:

events : the memory of events that are under way, by their row: nodes (n, 2), values to sum (n, E), known label and targets
(n, 1 + T), step 1 of the columns about both ends (n, T, 8), levels of numbers (n, N), their excesses (n, 3, N) over what
is usual for the source, the destination and the pair, how many edges of these three were before it (n, 3), ticks (n,), and
what its label replaced in these three as the last of the rarest class: time and number of edges before it, both (n, 3).
around : decayed sums by key: rates, time, last, sums (slots, scales, E + 1 + T), and what `last` is without an edge, (1,);
number and sum of the levels of all the past (slots, N, 2); the time of the last edge known to be of the rarest class
(slots, 1), and how many edges there were in all, and before that one (slots, 2), or (slots, 0) without such; the positions
of the excesses among the values, (N,); whether each key of an edge is that of the source, the destination or the pair,
(keys,), -1 for others; and the position and sign of the target that tells the rarest class, (2,).
ends, pairs : the sums of `two_ends` by node and by pair: rates (short, long), time, last (not used), sums (slots, 2, W) and
(slots, 2, 2 W), as in `around`.
rings : the last labelled edges of each node: ring by node and end (n, 2) or -1; by ring the number of edges (n,), the
other ends, times known and residuals (n, 32), (n, 32) and (n, 32, T).

W counts the labelled edges, all edges, and for each class the sums in the order of `tdlg._kernels`, where "far" is the other
end of an edge than the one whose sums these are.
"""

import numpy as np

from tdlg import _kernels as kernels
from tdlg._kernels import ALL, DST, FIRST, LABELLED, MEAN, RECENT, SRC
from tdlg._kernels.columns import compare_nodes, conclude, mark, new_comparison, write_columns, zero_if_tiny
from tdlg._kernels.compiled import compiled
from tdlg._kernels.running import decay_and_add, read_sums
from tdlg._kernels.vectors import pointer, prefetch

EVENTS_WRITTEN = 32  # rows whose columns are written at once


@compiled
def run(
    queries, absorbed, events, around, two_ends, writer, start, columns
):  # out: everything but queries, absorbed and writer
    """Read what is known at the time of each query, after absorbing what happened strictly before it; then the rest.

    queries : in the order of time: ticks (n,), events (n,), slots (n, matches) with -1 for none, slots of nodes (n, 4) and
    of pairs (n, 2) for both ends, own features (n, n_own).
    absorbed : in the order of time: ticks (m,), events (m,), whether a label (m,), sign (m,), slots (m, keys), slots of
    nodes (m, 2) and of pairs (m, 1) for both ends.
    two_ends : ends, pairs, rings, the number of sums per class (0 if there are no such columns), and whether the nodes are
    of one type.
    writer : see `_write_rows`; columns : (n_columns, all rows), or (0, 0) if they are not wanted; start : of the rows.
    """
    ticks, rows, slots, end_slots, pair_slots, own = queries
    rates, time, last, sums, never, usual, labelled, counts, _, _, _ = around
    places, smoothing = writer[0], writer[4][0]
    n_scales, n_values, n_matches, has_rare = sums.shape[1], sums.shape[2], slots.shape[1], counts.shape[1] > 0
    block, gaps = np.empty((n_matches, n_scales, n_values, EVENTS_WRITTEN)), np.empty((n_matches, EVENTS_WRITTEN))
    unusual = np.zeros((n_matches, usual.shape[1], EVENTS_WRITTEN))
    since = np.zeros((n_matches, 2 if has_rare else 0, EVENTS_WRITTEN))
    scratch = _row_memory(two_ends, events)
    wanted = columns.shape[0] > 0
    at, n_absorbed = 0, absorbed[0].size
    for row in range(ticks.size):
        while at < n_absorbed and absorbed[0][at] < ticks[row]:
            _absorb_one(at, absorbed, events, around, two_ends, scratch)
            at += 1
        if two_ends[3] > 0:
            _describe_ends(ticks[row], end_slots[row], pair_slots[row], two_ends, scratch, events[3][rows[row]])
            if wanted:
                _write_two_ends(rows[row], start + row, events, two_ends, scratch, writer[5], writer[7], columns)
        b = row % EVENTS_WRITTEN
        for m in range(n_matches):
            if places[m] >= 0:
                levels, excess = events[4][rows[row]], events[5][rows[row], places[m]]
                _compare_with_usual(slots[row, m], levels, usual, smoothing, unusual[m, :, b], excess)
            if places[m] >= 0 and has_rare:
                slot, n_before = slots[row, m], 0.0
                since[m, 0, b] = np.inf
                if slot >= 0:
                    n_before = counts[slot, 0]
                    if labelled[slot, 0] != never[0]:
                        since[m, 0, b] = np.float64(ticks[row] - labelled[slot, 0])
                        since[m, 1, b] = n_before - counts[slot, 1] - 1.0
                events[6][rows[row], places[m]] = n_before
        if not wanted:
            continue
        for m in range(n_matches):
            slot = slots[row, m]
            gaps[m, b] = np.inf
            if slot < 0:
                block[m, :, :, b] = 0.0
                continue
            if last[slot] != never[0]:
                gaps[m, b] = np.float64(ticks[row] - last[slot])
            passed = np.float64(ticks[row] - time[slot])
            for k in range(n_scales):
                factor = np.exp(-rates[k] * passed) if passed > 0.0 else 1.0
                for v in range(n_values):
                    block[m, k, v, b] = factor * sums[slot, k, v]
        if b == EVENTS_WRITTEN - 1 or row == ticks.size - 1:
            _write_rows(block, gaps, unusual, since, own, row - b, b + 1, writer, start, columns)
    for rest in range(at, n_absorbed):
        _absorb_one(rest, absorbed, events, around, two_ends, scratch)


@compiled
def _compare_with_usual(slot, levels, usual, smoothing, unusual, excess):  # out: unusual, excess
    """How far numbers are above what is usual for a key, and by how much that is unusual; 0 where they are missing."""
    for v in range(levels.size):
        n, total = (usual[slot, v, 0], usual[slot, v, 1]) if slot >= 0 else (0.0, 0.0)
        above = levels[v] - total / (n + smoothing)
        is_known = above == above
        unusual[v] = above if is_known else 0.0
        excess[v] = max(above - kernels.UNUSUAL, 0.0) if is_known else 0.0


@compiled
def _write_rows(block, gaps, unusual, since, own, first_row, n, writer, start, columns):  # out: columns
    """Write the columns of n rows from `first_row` on, which are `start` rows further on in `columns`.

    writer : which of source, destination and pair each match is about (matches,), -1 for others, first column of each
    match, `compared` and `amounts` of `write_columns` for all matches, smoothing and spread, the first column about both
    ends, the number of values that are not labels, the means of `_write_two_ends`, and where each match's `compared` start.
    """
    places, first, compared, amounts, numbers, _, n_own_sums, _, starts = writer
    for m in range(block.shape[0]):
        some, least = compared[starts[m] : starts[m + 1]], amounts[starts[m] : starts[m + 1]]
        above = unusual[m, :, :n] if places[m] >= 0 else unusual[m, :0, :n]
        passed = since[m, :, :n] if places[m] >= 0 else since[m, :0, :n]
        sums, labels = block[m, :, :, :n], block[m, :, n_own_sums:, :n]
        if labels.shape[1] == 1:  # there are no targets
            labels = labels[:0]
        part, smoothing, spread = columns[first[m] : first[m + 1]], numbers[0], numbers[1]
        pauses, mine, place = gaps[m : m + 1, :n], own[first_row:], start + first_row
        write_columns(sums, labels, pauses, above, passed, mine, some, least, smoothing, spread, place, part)


# ---- what happened


@compiled
def absorb(absorbed, events, around, two_ends):  # out: around, two_ends
    """Absorb what happened, without a query."""
    scratch = _row_memory(two_ends, events)
    for at in range(absorbed[0].size):
        _absorb_one(at, absorbed, events, around, two_ends, scratch)


@compiled
def _absorb_one(at, absorbed, events, around, two_ends, scratch):  # out: around, two_ends, scratch
    """Add an edge, or a label that became known, to the sums of all its keys."""
    ticks, rows, is_label, sign, slots, _, _ = absorbed
    rates, time, last, sums, never, usual, labelled, counts, excesses, places, rare = around
    tick, row, values = ticks[at], rows[at], scratch[4]
    for k in range(slots.shape[1]):
        slot = slots[at, k]
        if is_label[at]:
            decay_and_add(slot, tick, sign[at], events[2][row], events[1].shape[1], rates, time, sums)
            if places[k] >= 0 and counts.shape[1] > 0 and rare[1] * events[2][row, 1 + rare[0]] > 0:
                _note_label(slot, sign[at], row, places[k], events, labelled, counts, never)
            continue
        values[:] = events[1][row]
        for v in range(excesses.size if places[k] >= 0 else 0):
            values[excesses[v]] = events[5][row, places[k], v]
            level = events[4][row, v]
            if level == level:
                usual[slot, v, 0] += sign[at]
                usual[slot, v, 1] += sign[at] * level
        decay_and_add(slot, tick, sign[at], values, 0, rates, time, sums)
        last[slot] = max(last[slot], tick)
        if places[k] >= 0 and counts.shape[1] > 0:
            counts[slot, 0] += sign[at]
    if two_ends[3] > 0 and events[0][row, SRC] != events[0][row, DST]:
        _absorb_two_ends(at, absorbed, events, two_ends, scratch)


@compiled
def _note_label(slot, sign, row, place, events, labelled, counts, never):  # out: events, labelled, counts
    """Note the last edge known to be of the rarest class; if its label is taken back, the one that it replaced."""
    edge_tick, replaced, n_replaced = events[7][row], events[8], events[9]
    if sign > 0.0 and (labelled[slot, 0] == never[0] or edge_tick >= labelled[slot, 0]):
        replaced[row, place], n_replaced[row, place] = labelled[slot, 0], counts[slot, 1]
        labelled[slot, 0], counts[slot, 1] = edge_tick, events[6][row, place]
    elif sign < 0.0 and edge_tick == labelled[slot, 0]:
        labelled[slot, 0], counts[slot, 1] = replaced[row, place], n_replaced[row, place]


@compiled
def _absorb_two_ends(at, absorbed, events, two_ends, scratch):  # out: two_ends, scratch
    """Add an edge or a label to the sums at both of its ends and of its pair, and a label to the rings."""
    ticks, rows, is_label, sign, _, end_slots, pair_slots = absorbed
    ends, pairs, rings, per_class, _ = two_ends
    tick, row = ticks[at], rows[at]
    described, targets = events[3][row], events[2][row]
    x = scratch[1]
    width = x.size // 2
    x[:] = 0.0
    for end in (SRC, DST):
        part, far = x[end * width : (end + 1) * width], 1 - end
        part[LABELLED if is_label[at] else ALL] = 1.0
        for c in range(described.shape[0]):
            of, y, first = described[c], targets[1 + c], FIRST + c * per_class
            if not is_label[at]:
                part[first + kernels.FAR] = of[MEAN + far]
                if per_class > kernels.Y_BY_BACK:
                    part[first + kernels.BACK_SUM] = of[kernels.BACK + far]
                continue
            part[first + kernels.Y] = y
            part[first + kernels.Y_LESS_FAR] = y - of[MEAN + far]
            part[first + kernels.Y_BY_FAR] = y * of[MEAN + far]
            part[first + kernels.Y_LESS_RESIDUAL] = y - of[kernels.RESIDUAL + far]
            part[first + kernels.Y_BY_TRUST] = y * of[kernels.TRUST + far]
            if per_class > kernels.Y_BY_BACK:
                part[first + kernels.Y_BY_BACK] = y * of[kernels.BACK + far]
        decay_and_add(end_slots[at, end], tick, sign[at], part, 0, ends[0], ends[1], ends[3])
        if is_label[at]:
            _to_ring(tick, sign[at], events[0][row], end, described, targets, rings)
    decay_and_add(pair_slots[at, 0], tick, sign[at], x, 0, pairs[0], pairs[1], pairs[3])


@compiled
def _to_ring(tick, sign, nodes, end, described, targets, rings):  # out: rings
    """Enter a labelled edge into the ring of one of its ends at its place in time, or remove it; the oldest one leaves."""
    ring_of, n_edges, other, known, residual = rings
    ring, node, n_classes = ring_of[nodes[end], end], nodes[1 - end], residual.shape[2]
    n = n_edges[ring]
    at = n
    while at > 0 and known[ring, at - 1] > tick:
        at -= 1
    if sign < 0.0:
        left = targets[1] - described[0, MEAN + 1 - end]  # tells edges of one pair apart that became known together
        while at > 0 and not (
            known[ring, at - 1] == tick and other[ring, at - 1] == node and residual[ring, at - 1, 0] == left
        ):
            at -= 1
        if at > 0:
            _shift(at - 1, n - 1, 1, other[ring], known[ring], residual[ring])
            n_edges[ring] -= 1
        return
    if n == RECENT:
        if at == 0:
            return
        _shift(0, at - 1, 1, other[ring], known[ring], residual[ring])
        at -= 1
    else:
        _shift(n, at, -1, other[ring], known[ring], residual[ring])
        n_edges[ring] += 1
    other[ring, at], known[ring, at] = node, tick
    for c in range(n_classes):
        residual[ring, at, c] = targets[1 + c] - described[c, MEAN + 1 - end]


@compiled
def _shift(start, stop, step, other, known, residual):  # out: other, known, residual
    """Give the places from `start` to `stop` what the next one in this direction has."""
    for k in range(start, stop, step):
        other[k], known[k] = other[k + step], known[k + step]
        for c in range(residual.shape[1]):
            residual[k, c] = residual[k + step, c]


# ---- both ends together


@compiled
def _row_memory(two_ends, events):
    """Memory for one row: sums at both ends, also backwards; what is added; a comparison; agreements; values of an edge."""
    width, n_classes = two_ends[0][3].shape[2], max(events[2].shape[1] - 1, 1)
    around, values = (np.zeros((4, 2, width)), np.zeros((2, 2 * width))), np.zeros(events[1].shape[1])
    return around, np.zeros(2 * width), new_comparison(n_classes), np.zeros((2, n_classes, 3)), values


@compiled
def _describe_ends(tick, end_slots, pair_slots, two_ends, scratch, described):  # out: scratch, described
    """Step 1: what the ends of an edge are like; the sums that it is made of stay in the scratch memory.

    end_slots : edges from the source, to the destination, to the source, and from the destination;
    pair_slots : the pair, and the pair backwards.
    """
    ends, pairs, _, per_class, is_one_type = two_ends
    sums, of_pair = scratch[0]
    width = sums.shape[2]
    for back in range(2 if is_one_type else 1):
        read_sums(pair_slots[back], tick, pairs[0], pairs[1], pairs[3], of_pair)
        for k in range(2):
            place = 2 * back + k
            read_sums(end_slots[place], tick, ends[0], ends[1], ends[3], sums[place])
            end = k if back == 0 else 1 - k  # backwards, the source's sums are those of a destination
            for scale in range(2):
                for v in range(width):
                    sums[place, scale, v] -= of_pair[scale, end * width + v]
    for c in range(described.shape[0]):
        first = FIRST + c * per_class
        for end in (SRC, DST):
            long = sums[end, kernels.LONG]
            n = long[LABELLED] + 1.0
            described[c, MEAN + end] = long[first + kernels.Y] / n
            described[c, kernels.RESIDUAL + end] = long[first + kernels.Y_LESS_FAR] / n
            described[c, kernels.TRUST + end] = long[first + kernels.Y_BY_FAR] / n
            described[c, kernels.BACK + end] = 0.0
            if is_one_type:
                back = sums[2 + end, kernels.LONG]
                described[c, kernels.BACK + end] = back[first + kernels.Y] / (back[LABELLED] + 1.0)


@compiled
def _write_two_ends(event, row, events, two_ends, scratch, start, means, columns):  # out: columns, scratch
    """Steps 2 and 3, in the order of `ColumnPlan.two_end_columns`.

    means : (n, 3), of each mean the place of its sums (source, destination, and backwards both again), its count and sum.
    """
    _, _, rings, per_class, _ = two_ends
    (sums, _), _, _, alike, _ = scratch
    nodes, described = events[0][event], events[3][event]
    src, dst = nodes[SRC], nodes[DST]
    common = _agreement(src, dst, rings, SRC, scratch), _agreement(dst, src, rings, DST, scratch)
    at = start
    for c in range(described.shape[0]):
        first = FIRST + c * per_class
        for m in range(means.shape[0]):
            of_place = sums[means[m, 0]]
            for scale in range(2):
                total, n = of_place[scale, first + means[m, 2]], of_place[scale, means[m, 1]]
                columns[at + scale, row] = zero_if_tiny(total / (n + 1.0))
            at += 2
        for end in (SRC, DST):
            columns[at + end, row] = zero_if_tiny(described[c, kernels.TRUST + end])
        at += 2
        for end in (SRC, DST):
            for k in range(3):
                columns[at + k, row] = zero_if_tiny(alike[end, c, k])
            at += 3
    columns[at, row], columns[at + 1, row] = common


@compiled
def _agreement(u, v, rings, end, scratch):  # out: scratch
    """Step 3: what the nodes that resemble u have to do with v; returns the log of common edges. end : that of u."""
    ring_of, n_edges, other, _, residual = rings
    marked, sums, both = scratch[2]
    out = scratch[3][end]
    n_common, n_used, factor = 0, 0, np.uint32(0)
    sums[:] = 0.0
    others, residuals = other.reshape(-1), residual.reshape(-1, residual.shape[2])
    mine, theirs = ring_of[u, end], ring_of[v, 1 - end]
    if mine >= 0:
        n_used, factor = mark(others, residuals, mine * RECENT, mine * RECENT + n_edges[mine], -1, v, marked)
    if n_used > 0 and theirs >= 0:
        to_come = pointer(others)
        for k in range(n_edges[theirs]):  # rings lie anywhere in memory
            ring = ring_of[other[theirs, k], end]
            prefetch(to_come, ring * RECENT)
            prefetch(to_come, ring * RECENT + RECENT // 2)
        for k in range(n_edges[theirs]):
            w = other[theirs, k]
            if w == u or ring_of[w, end] < 0:
                continue
            low = ring_of[w, end] * RECENT
            high = low + n_edges[ring_of[w, end]]
            n_common += compare_nodes(others, residuals, low, high, residual[theirs, k], marked, factor, sums, both)
    return conclude(sums, n_common, n_used, marked, out)
