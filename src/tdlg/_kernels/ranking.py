"""The columns of candidates for the next destination of a source, from the state of `ranking_state`."""

import numpy as np

from tdlg._kernels.compiled import compiled
from tdlg._kernels.ranking_state import EDGES, LATEST, NEVER, NONE, absorb_one, key_of_pair
from tdlg._kernels.running import find_slot

LISTED = 100  # entries of a list whose position is looked at
NEAR, SHORT = 10, 5  # entries of a list that a walk follows
FOUND = 4  # what a query finds by node: position among destinations, among sources; sums of walks of 2 and 3 steps
OUT_RANK, IN_RANK, TWO, THREE = range(FOUND)


# ---- a query: what is found from the source


@compiled
def look_around(state, u, one_type, scratch):  # out: scratch
    """Positions in the lists of a source, and sums of walks from it.

    scratch : the number of the query and of nodes touched, (2,); by node, the number of the last query that touched it and
    of the last that took it as a candidate, (n_nodes, 2); the nodes touched now, (n_nodes,); what was found, (n_nodes,
    FOUND).
    """
    nodes, pairs = state[1], state[4]
    scratch[0][0] += 1
    scratch[0][1] = 0
    if u < 0:
        return
    slot, rank = nodes[u].out_head, 0
    while slot >= 0 and rank < LISTED:
        v = pairs[slot].dst
        _touch(v, scratch)
        rank += 1
        scratch[3][v, OUT_RANK] = rank
        if rank <= NEAR:
            _walk_similar(nodes, pairs, u, v, 1.0 / rank, scratch)
            if one_type:
                _walk_on(nodes, pairs, u, v, 1.0 / rank, scratch)
        slot = pairs[slot].out_older
    if not one_type:
        return
    slot, rank = nodes[u].in_head, 0
    while slot >= 0 and rank < LISTED:
        v = pairs[slot].src
        _touch(v, scratch)
        rank += 1
        scratch[3][v, IN_RANK] = rank
        if rank <= NEAR:
            _walk_on(nodes, pairs, u, v, 1.0 / rank, scratch)
        slot = pairs[slot].in_older


@compiled
def _touch(v, scratch):  # out: scratch
    numbers, seen, touched, found = scratch
    if seen[v, 0] != numbers[0]:
        seen[v, 0] = numbers[0]
        touched[numbers[1]] = v
        numbers[1] += 1
        found[v] = 0.0


@compiled
def _found(v, what, scratch, otherwise):
    """What the query found at a node; 0 and nodes that it did not touch count as nothing found."""
    numbers, seen, _, found = scratch
    return found[v, what] if seen[v, 0] == numbers[0] and found[v, what] > 0.0 else otherwise


@compiled
def _walk_similar(nodes, pairs, u, q, weight, scratch):  # out: scratch
    """To the latest sources of a destination, and on to their latest destinations."""
    back, i = nodes[q].in_head, 0
    while back >= 0 and i < NEAR:
        w = pairs[back].src
        if w != u:
            on, k = nodes[w].out_head, 0
            while on >= 0 and k < SHORT:
                p = pairs[on].dst
                _touch(p, scratch)
                scratch[3][p, THREE] += weight / ((1.0 + i) * (1.0 + k))
                on = pairs[on].out_older
                k += 1
        back = pairs[back].in_older
        i += 1


@compiled
def _walk_on(nodes, pairs, u, q, weight, scratch):  # out: scratch
    """To the latest destinations and the latest sources of a partner."""
    on, k = nodes[q].out_head, 0
    while on >= 0 and k < NEAR:
        p = pairs[on].dst
        if p != u:
            _touch(p, scratch)
            scratch[3][p, TWO] += weight / (1.0 + k)
        on = pairs[on].out_older
        k += 1
    on, k = nodes[q].in_head, 0
    while on >= 0 and k < NEAR:
        p = pairs[on].src
        if p != u:
            _touch(p, scratch)
            scratch[3][p, TWO] += weight / (1.0 + k)
        on = pairs[on].in_older
        k += 1


# ---- candidates


@compiled
def gather(state, u, limits, scratch, everyone, picks, out):  # out: scratch, out
    """Candidates for the next destination of a source, each once; returns how many.

    limits : how many of its latest destinations, of its latest sources, of those with the largest walks of each kind, and
    of the latest destinations of all. picks : positions in `everyone`, all possible destinations, for random ones. out :
    room for all of them. `look_around` comes first.
    """
    nodes, pairs = state[1], state[4]
    n = 0
    if u >= 0:
        slot, k = nodes[u].out_head, 0
        while slot >= 0 and k < limits[0]:
            n = _take(pairs[slot].dst, n, scratch, out)
            slot = pairs[slot].out_older
            k += 1
        slot, k = nodes[u].in_head, 0
        while slot >= 0 and k < limits[1]:
            if nodes[pairs[slot].src].in_count > 0:
                n = _take(pairs[slot].src, n, scratch, out)
            slot = pairs[slot].in_older
            k += 1
        for kind in (TWO, THREE):
            n = _take_best(nodes, u, kind, limits[2 + kind - TWO], scratch, n, out)
    v, k = state[0][LATEST], 0
    while v >= 0 and k < limits[4]:
        n = _take(v, n, scratch, out)
        v = nodes[v].older
        k += 1
    for pick in picks:
        n = _take(everyone[pick], n, scratch, out)
    return n


@compiled
def _take(v, n, scratch, out):  # out: scratch, out
    number, seen = scratch[0][0], scratch[1]
    if seen[v, 1] == number:
        return n
    seen[v, 1], out[n] = number, v
    return n + 1


@compiled
def _take_best(nodes, u, kind, limit, scratch, n, out):  # out: scratch, out
    """Those of the destinations around `u` with the largest sum of walks."""
    numbers, seen, touched, found = scratch
    best, weight = np.empty(limit, np.int64), np.zeros(limit)
    for k in range(numbers[1]):
        v = touched[k]
        if seen[v, 1] == numbers[0] or nodes[v].in_count == 0 or v == u:
            continue
        value = found[v, kind]
        if limit == 0 or value <= weight[limit - 1]:
            continue
        at = limit - 1
        while at > 0 and weight[at - 1] < value:
            weight[at], best[at] = weight[at - 1], best[at - 1]
            at -= 1
        weight[at], best[at] = value, v
    for k in range(limit):
        if weight[k] > 0.0:
            n = _take(best[k], n, scratch, out)
    return n


# ---- columns


@compiled
def describe(state, u, candidates, now, rates, scratch, rows):  # out: rows
    """The columns of candidates, (n_candidates, n_columns), see `tdlg.rank.state.COLUMNS`.

    u or a candidate of -1 is a node that never occurred.
    """
    own = np.zeros(9)
    scale = np.empty(rates.size)
    _describe_source(state, u, now, own)
    for k in range(candidates.size):
        v, row = candidates[k], rows[k]
        c = _describe_pair(state, u, v, now, rates, scratch, row, 0)
        c = _describe_back(state, u, v, now, rates, scratch, row, c)
        c = _describe_target(state, u, v, now, rates, scale, row, c)
        c = _describe_walks(state, u, v, now, rates, scratch, row, c)
        row[c : c + own.size] = own


@compiled
def _describe_source(state, u, now, own):  # out: own
    nodes = state[1]
    own[0] = own[4] = own[5] = own[8] = NEVER
    if u < 0:
        return
    node = nodes[u]
    if node.out_count:
        own[0], own[4], own[8] = now - node.out_last, now - node.out_switched, now - node.out_first
    own[1], own[2], own[3] = node.out_count, node.out_partners, node.out_run
    if node.in_count:
        own[5] = now - node.in_last
    own[6], own[7] = node.in_count, node.out_switches / max(node.out_count, 1)


@compiled
def _describe_pair(state, u, v, now, rates, scratch, row, c):  # out: row
    nodes, pairs, pair_sums, pair_keys, pair_table = state[1], state[4], state[5], state[6], state[7]
    n_scales = rates.size
    row[c : c + 10 + n_scales] = 0.0
    row[c] = row[c + 1] = row[c + 5] = row[c + 6] = row[c + 7] = NEVER
    slot = find_slot(key_of_pair(u, v), pair_table, pair_keys) if u >= 0 and v >= 0 else NONE
    if u >= 0 and nodes[u].out_head >= 0:
        row[c + 8] = v >= 0 and pairs[nodes[u].out_head].follow == v
    if slot >= 0:
        pair, source = pairs[slot], nodes[u]
        gap = now - pair.last
        row[c] = gap
        row[c + 1] = _found(v, OUT_RANK, scratch, LISTED + 1.0)
        row[c + 2] = pair.count
        row[c + 3] = pair.count / source.out_count
        row[c + 4] = pair.runs
        if pair.count > 1 and pair.last > pair.first:
            row[c + 5] = gap * (pair.count - 1) / (pair.last - pair.first)
        row[c + 6] = source.out_count - pair.src_at
        row[c + 7] = nodes[v].in_count - pair.dst_at
        row[c + 9] = pair.open
        for k in range(n_scales):
            row[c + 10 + k] = pair_sums[slot, k] * np.exp(-rates[k] * gap)
    return c + 10 + n_scales


@compiled
def _describe_back(state, u, v, now, rates, scratch, row, c):  # out: row
    """The edges in the other direction: what waits for an answer."""
    pairs, pair_sums, pair_keys, pair_table = state[4], state[5], state[6], state[7]
    n_scales = rates.size
    row[c : c + 4 + n_scales] = 0.0
    row[c] = row[c + 1] = NEVER
    slot = find_slot(key_of_pair(v, u), pair_table, pair_keys) if u >= 0 and v >= 0 else NONE
    if slot >= 0:
        pair = pairs[slot]
        row[c] = now - pair.last
        row[c + 1] = _found(v, IN_RANK, scratch, LISTED + 1.0)
        row[c + 2], row[c + 3] = pair.count, pair.open
        for k in range(n_scales):
            row[c + 4 + k] = pair_sums[slot, k] * np.exp(-rates[k] * (now - pair.last))
    return c + 4 + n_scales


@compiled
def _describe_target(state, u, v, now, rates, scale, row, c):  # out: row, scale
    counters, nodes, node_sums, fresh_sums, pairs = state[0], state[1], state[2], state[3], state[4]
    n_scales = rates.size
    row[c : c + 10 + 2 * n_scales] = 0.0
    row[c] = row[c + 1] = row[c + 2] = row[c + 5] = row[c + 6] = row[c + 8] = NEVER
    if v < 0:
        return c + 10 + 2 * n_scales
    node = nodes[v]
    if node.in_count > 0:
        gap = now - node.in_last
        row[c], row[c + 1] = gap, counters[EDGES] - node.in_at
        if node.in_count > 1:
            row[c + 2] = now - node.in_before
        row[c + 3], row[c + 4] = node.in_count, node.in_partners
        row[c + 5] = now - node.in_fresh
        if node.in_count > 1 and node.in_last > node.in_first:
            row[c + 6] = gap * (node.in_count - 1) / (node.in_last - node.in_first)
        row[c + 7] = pairs[node.in_head].src == u
        for k in range(n_scales):
            row[c + 10 + k] = node_sums[v, k] * np.exp(-rates[k] * gap)
            row[c + 10 + n_scales + k] = fresh_sums[v, k] * np.exp(-rates[k] * row[c + 5])
    if node.out_count > 0:
        row[c + 8] = now - node.out_last
        row[c + 9] = node.out_count
    return c + 10 + 2 * n_scales


@compiled
def _describe_walks(state, u, v, now, rates, scratch, row, c):  # out: row
    nodes, pairs, steps, step_keys, step_table = state[1], state[4], state[8], state[9], state[10]
    row[c : c + 4] = 0.0
    if v < 0:
        return c + 4
    row[c], row[c + 1] = _found(v, TWO, scratch, 0.0), _found(v, THREE, scratch, 0.0)
    if u >= 0 and nodes[u].out_head >= 0:
        before = pairs[nodes[u].out_head].dst
        slot = find_slot(key_of_pair(before, v), step_table, step_keys)
        if slot >= 0:
            row[c + 2] = steps[slot].sum * np.exp(-rates[rates.size - 2] * (now - steps[slot].last))
            row[c + 3] = steps[slot].count / nodes[before].in_count
    return c + 4


# ---- many queries along the stream


@compiled
def run(state, edges, upto, queries, starts, candidates, one_type, rates, scratch, rows):  # out: state, scratch, rows
    """Columns of many queries, in the order of time, each after absorbing the edges before it.

    edges : src, dst, when, in the order of time; upto : (n_queries,) how many of them each query knows; queries : src, when;
    starts : (n_queries + 1,) where the candidates of each begin.
    """
    src, dst, when = edges
    done = 0
    for q in range(upto.size):
        for k in range(done, upto[q]):
            absorb_one(state, src[k], dst[k], when[k], rates)
        done = max(done, upto[q])
        u, now = queries[0][q], queries[1][q]
        look_around(state, u, one_type, scratch)
        part = slice(starts[q], starts[q + 1])
        describe(state, u, candidates[part], now, rates, scratch, rows[part])
    return done


@compiled
def sample(state, edges, upto, chosen, limits, everyone, picks, one_type, rates, scratch, starts, candidates, rows):
    # out: state, scratch, starts, candidates, rows
    """Columns of the destinations of chosen edges, and of other candidates; the true destination comes first.

    chosen : positions of edges, ascending; upto : (n_chosen,) how many edges each knows; picks : (n_chosen, n_random), see
    `gather`; starts : (n_chosen + 1,) where the candidates of each begin; rows : room for all candidates.
    """
    src, dst, when = edges
    done, n = 0, 0
    for q in range(chosen.size):
        for k in range(done, upto[q]):
            absorb_one(state, src[k], dst[k], when[k], rates)
        done = max(done, upto[q])
        u, now = src[chosen[q]], when[chosen[q]]
        look_around(state, u, one_type, scratch)
        starts[q] = n
        _take(dst[chosen[q]], 0, scratch, candidates[n:])
        n += 1 + gather(state, u, limits, scratch, everyone, picks[q], candidates[n + 1 :])
        part = slice(starts[q], n)
        describe(state, u, candidates[part], now, rates, scratch, rows[part])
    starts[chosen.size] = n
    return n
