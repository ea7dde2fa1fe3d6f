"""How nodes agree about others, for the columns about both ends of an edge together.

What is filed *by node* has `start` (n_nodes + 1), and the members of each node in the order of time.
"""

import numpy as np

from tdlg._kernels import COMMON_NODES, RECENT
from tdlg._kernels.compiled import compiled
from tdlg._kernels.vectors import pointer, prefetch

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
                n_common += compare(my_other, my_residual, low, high, residual[at], marked, factor, sums, both)
        common[row] = conclude(sums, n_common, n_used, marked, out[row])


@compiled
def new_comparison(n_classes):
    """Memory for `mark`, `compare` and `conclude`: marked nodes, sums of a row, and edges in common with another node."""
    marked = np.full(TABLE, -1, np.int32), np.empty(TABLE), np.empty((TABLE, n_classes)), np.empty(RECENT, np.int64)
    return marked, np.empty((4, n_classes)), np.empty(RECENT + 1, np.int64)


@compiled
def compare(other, residuals, low, high, residual, marked, factor, sums, both):  # out: sums, both
    """Add what a node w has to do with v, its residual there being given, by how it resembles the marked node.

    other, residuals : of all edges, those of w being low to high. Returns the number of edges in common.
    sums : (4, classes), similarities times residuals, sizes of similarities, common edges times residuals; the similarity.
    """
    keys, _, marks, _ = marked
    n_both = 0
    for at in range(low, high):  # without a branch, which could not be predicted
        both[n_both] = at
        n_both += keys[_place(other[at], factor)] == other[at]
    if n_both == 0:
        return 0
    n_classes, similarity = sums.shape[1], sums[3]
    similarity[:] = 0.0
    for k in range(n_both):
        place = _place(other[both[k]], factor)
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
            place = _place(node, factor)
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
def _place(node, factor):
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
