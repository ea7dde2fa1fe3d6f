"""Who met whom, when and how often, carried along a stream of edges, and columns of the next destination of a source.

Lists are chains of pairs: those of a source and those of a destination, the latest first; and a chain of all destinations.
Fields with two elements are by end, `SRC` and `DST`. Times are float64, counted from the first edge. Sums are as of the last
edge that changed them.
"""

from typing import Any, NamedTuple

import numpy as np

from tdlg._kernels import CODE_BITS, DST, SRC
from tdlg._kernels.compiled import compiled
from tdlg._kernels.running import add_slot, find_slot

EDGES, PAIRS, STEPS, LATEST = range(4)  # counters
NONE = -1
NEVER = 1e30  # gap to something that never happened
LISTED = 100  # entries of a list whose position is looked at
NEAR, SHORT = 10, 5  # entries of a list that a walk follows
FOUND = 4  # what a query finds by node: position among destinations, among sources; sums of walks of 2 and 3 steps
OUT_RANK, IN_RANK, TWO, THREE = range(FOUND)

NODE = np.dtype(
    [
        ("out_last", np.float64),  # time of the last edge as a source, and as a destination
        ("in_last", np.float64),
        ("in_before", np.float64),  # time of the last but one edge as a destination
        ("in_fresh", np.float64),  # time of the last edge as a destination of a new pair
        ("in_first", np.float64),
        ("out_first", np.float64),
        ("out_switched", np.float64),  # when a source last turned to another destination than before
        ("out_count", np.int32),
        ("in_count", np.int32),
        ("out_partners", np.int32),  # number of different destinations, and of different sources
        ("in_partners", np.int32),
        ("out_switches", np.int32),
        ("out_run", np.int32),  # number of edges since then
        ("in_at", np.int32),  # number of all edges up to its last one as a destination
        ("head", np.int32, 2),  # pair of its last edge as a source, and as a destination
        ("newer", np.int32),  # neighbours in the chain of all destinations
        ("older", np.int32),
    ],
    align=True,
)
PAIR = np.dtype(
    [
        ("last", np.float64),
        ("first", np.float64),
        ("count", np.int32),
        ("runs", np.int32),  # how often the source turned to this destination
        ("open", np.int32),  # edges since the last edge in the other direction
        ("src_at", np.int32),  # number of edges of the source up to the last one of the pair; of the destination
        ("dst_at", np.int32),
        ("follow", np.int32),  # the destination that the source turned to after this one, the last time
        ("ends", np.int32, 2),  # source and destination
        ("newer", np.int32, 2),  # neighbours in the lists of both
        ("older", np.int32, 2),
    ],
    align=True,
)
STEP = np.dtype([("last", np.float64), ("sum", np.float64), ("count", np.int32)], align=True)


class RankingArrays(NamedTuple):
    """The arrays of the state."""

    counters: Any  # (4,) the numbers of edges, of pairs and of steps so far, and the destination of the last edge
    nodes: Any  # `NODE`
    node_sums: Any  # (n_nodes, scales), decayed counts of the edges of each node as a destination
    fresh_sums: Any  # the same of those that were the first of their pair
    pairs: Any  # `PAIR`, by pair of source and destination
    pair_sums: Any  # (n_pairs, scales), decayed counts
    pair_keys: Any  # the hash index of `running`
    pair_table: Any
    steps: Any  # `STEP`, by pair of destinations that followed each other at a source
    step_keys: Any
    step_table: Any


class Scratch(NamedTuple):
    """What a query finds."""

    numbers: Any  # (2,) the number of the query, and of nodes touched
    seen: Any  # (n_nodes, 2), the number of the last query that touched a node, and of the last that took it as a candidate
    touched: Any  # (n_nodes,), the nodes touched now
    found: Any  # (n_nodes, FOUND)


@compiled
def _key_of_pair(a, b):
    """The key of two codes in a hash index."""
    return (np.int64(a) << CODE_BITS) | np.int64(b)


@compiled
def find_pair(state, u, v):
    """The slot of a pair, -1 if it never met."""
    return find_slot(_key_of_pair(u, v), state.pair_table, state.pair_keys) if u >= 0 and v >= 0 else NONE


@compiled
def sources_of(state, v, out):  # out: out
    """The sources of a destination, the latest first, (in_partners,)."""
    slot = state.nodes[v].head[DST]
    for k in range(out.size):
        out[k] = state.pairs[slot].ends[SRC]
        slot = state.pairs[slot].older[DST]


# ---- absorbing


@compiled
def absorb_edges(state, edges, done, upto, rates):  # out: state
    """Absorb the edges from `done` to `upto`; there must be room for their pairs and steps. Returns how many are done."""
    src, dst, when = edges
    for k in range(done, upto):
        _absorb_edge(state, src[k], dst[k], when[k], rates)
    return max(done, upto)


@compiled
def _absorb_edge(state, u, v, now, rates):  # out: state
    """Add an edge that is not before the last one."""
    counters, pairs, node_sums, fresh_sums = state.counters, state.pairs, state.node_sums, state.fresh_sums
    counters[EDGES] += 1
    slot = add_slot(_key_of_pair(u, v), counters[PAIRS], state.pair_table, state.pair_keys)
    is_new = slot == counters[PAIRS]
    source, target = state.nodes[u], state.nodes[v]
    pair, before = pairs[slot], source.head[SRC]  # the pair of the source's edge before this one
    if is_new:
        counters[PAIRS] += 1
        pair.first = pair.last = now
        pair.count, pair.runs, pair.open, pair.follow = 0, 0, 0, NONE
        pair.ends[SRC], pair.ends[DST] = u, v
        pair.newer[:] = pair.older[:] = NONE
        source.out_partners += 1
        target.in_partners += 1
    # the source
    if source.out_count == 0:
        source.out_first = now
    if before != slot:
        source.out_switched, source.out_run = now, 0
        source.out_switches += source.out_count > 0
        pair.runs += 1
    source.out_run += 1
    source.out_last = now
    source.out_count += 1
    # the destination
    _fade_sums(node_sums[v], now - target.in_last if target.in_count else 0.0, rates)
    node_sums[v] += 1.0
    if is_new:
        _fade_sums(fresh_sums[v], now - target.in_fresh if target.in_partners > 1 else 0.0, rates)
        fresh_sums[v] += 1.0
        target.in_fresh = now
    if target.in_count == 0:
        target.in_first = now
    target.in_before = target.in_last
    target.in_last, target.in_at = now, counters[EDGES]
    target.in_count += 1
    # the pair
    _fade_sums(state.pair_sums[slot], now - pair.last if pair.count else 0.0, rates)
    state.pair_sums[slot] += 1.0
    pair.last, pair.src_at, pair.dst_at = now, source.out_count, target.in_count
    pair.count += 1
    pair.open += 1
    back = find_slot(_key_of_pair(v, u), state.pair_table, state.pair_keys)
    if back >= 0:
        pairs[back].open = 0
        if back == slot:
            pair.open = 1
    if before >= 0 and before != slot:
        pairs[before].follow = v
        _add_step(state, pairs[before].ends[DST], v, now, rates[rates.size - 2])
    _to_front(source, pairs, slot, SRC)
    _to_front(target, pairs, slot, DST)
    _to_front_of_all(state.nodes, counters, v)


@compiled
def _fade_sums(sums, passed, rates):  # out: sums
    for k in range(rates.size):
        sums[k] *= np.exp(-rates[k] * passed)


@compiled
def _add_step(state, a, b, now, rate):  # out: state
    """A source turned from one destination to another."""
    counters = state.counters
    slot = add_slot(_key_of_pair(a, b), counters[STEPS], state.step_table, state.step_keys)
    step = state.steps[slot]
    if slot == counters[STEPS]:
        counters[STEPS] += 1
        step.sum, step.count = 0.0, 0
    elif step.count:
        step.sum *= np.exp(-rate * (now - step.last))
    step.sum += 1.0
    step.last = now
    step.count += 1


@compiled
def _to_front(node, pairs, slot, end):  # out: node, pairs
    """Put a pair first in the list of its source or in that of its destination."""
    head = node.head[end]
    if head == slot:
        return
    pair = pairs[slot]
    newer, older = pair.newer[end], pair.older[end]
    if newer >= 0:
        pairs[newer].older[end] = older
        if older >= 0:
            pairs[older].newer[end] = newer
    pair.newer[end], pair.older[end] = NONE, head
    if head >= 0:
        pairs[head].newer[end] = slot
    node.head[end] = slot


@compiled
def _to_front_of_all(nodes, counters, v):  # out: nodes, counters
    """Put a destination first in the chain of all."""
    first = counters[LATEST]
    if first == v:
        return
    node = nodes[v]
    if node.newer >= 0:
        nodes[node.newer].older = node.older
        if node.older >= 0:
            nodes[node.older].newer = node.newer
    node.newer, node.older = NONE, first
    if first >= 0:
        nodes[first].newer = v
    counters[LATEST] = v


# ---- a query: what is found from the source


@compiled
def _look_around(state, u, one_type, scratch):  # out: scratch
    """Positions in the lists of a source, and sums of walks from it."""
    nodes, pairs = state.nodes, state.pairs
    scratch.numbers[0] += 1
    scratch.numbers[1] = 0
    if u < 0:
        return
    for end in range(2 if one_type else 1):
        slot, rank = nodes[u].head[end], 0
        while slot >= 0 and rank < LISTED:
            v = pairs[slot].ends[1 - end]
            _touch(v, scratch)
            rank += 1
            scratch.found[v, OUT_RANK + end] = rank
            if rank <= NEAR and end == SRC:
                _walk_similar(nodes, pairs, u, v, 1.0 / rank, scratch)
            if rank <= NEAR and one_type:
                _walk_on(nodes, pairs, u, v, 1.0 / rank, scratch)
            slot = pairs[slot].older[end]


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
    is_found = scratch.seen[v, 0] == scratch.numbers[0] and scratch.found[v, what] > 0.0
    return scratch.found[v, what] if is_found else otherwise


@compiled
def _walk_similar(nodes, pairs, u, q, weight, scratch):  # out: scratch
    """To the latest sources of a destination, and on to their latest destinations."""
    back, i = nodes[q].head[DST], 0
    while back >= 0 and i < NEAR:
        w = pairs[back].ends[SRC]
        if w != u:
            on, k = nodes[w].head[SRC], 0
            while on >= 0 and k < SHORT:
                p = pairs[on].ends[DST]
                _touch(p, scratch)
                scratch.found[p, THREE] += weight / ((1.0 + i) * (1.0 + k))
                on = pairs[on].older[SRC]
                k += 1
        back = pairs[back].older[DST]
        i += 1


@compiled
def _walk_on(nodes, pairs, u, q, weight, scratch):  # out: scratch
    """To the latest destinations and the latest sources of a partner."""
    for end in (SRC, DST):
        on, k = nodes[q].head[end], 0
        while on >= 0 and k < NEAR:
            p = pairs[on].ends[1 - end]
            if p != u:
                _touch(p, scratch)
                scratch.found[p, TWO] += weight / (1.0 + k)
            on = pairs[on].older[end]
            k += 1


# ---- candidates


@compiled
def _gather(state, u, limits, scratch, everyone, picks, out):  # out: scratch, out
    """Candidates for the next destination of a source, each once; returns how many.

    limits : how many of its latest destinations, of its latest sources, of those with the largest walks of each kind, and
    of the latest destinations of all. picks : positions in `everyone`, all possible destinations, for random ones. out :
    room for all of them. `_look_around` comes first.
    """
    nodes, pairs = state.nodes, state.pairs
    n = 0
    if u >= 0:
        for end in (SRC, DST):
            slot, k = nodes[u].head[end], 0
            while slot >= 0 and k < limits[end]:
                v = pairs[slot].ends[1 - end]
                if nodes[v].in_count > 0:
                    n = _take_candidate(v, n, scratch, out)
                slot = pairs[slot].older[end]
                k += 1
        for kind in (TWO, THREE):
            n = _take_best(nodes, u, kind, limits[2 + kind - TWO], scratch, n, out)
    v, k = state.counters[LATEST], 0
    while v >= 0 and k < limits[4]:
        n = _take_candidate(v, n, scratch, out)
        v = nodes[v].older
        k += 1
    for pick in picks:
        n = _take_candidate(everyone[pick], n, scratch, out)
    return n


@compiled
def _take_candidate(v, n, scratch, out):  # out: scratch, out
    number = scratch.numbers[0]
    if scratch.seen[v, 1] == number:
        return n
    scratch.seen[v, 1], out[n] = number, v
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
            n = _take_candidate(best[k], n, scratch, out)
    return n


# ---- columns


@compiled
def _describe_candidates(state, u, candidates, now, rates, scratch, rows):  # out: rows
    """The columns of candidates, (n_candidates, n_columns), see `tdlg.rank.history.COLUMNS`.

    u or a candidate of -1 is a node that never occurred.
    """
    own, n_scales = np.zeros(9), rates.size
    _describe_source(state, u, now, own)
    for k in range(candidates.size):
        v, row = candidates[k], rows[k]
        row[:] = 0.0
        _describe_pair(state, u, v, now, rates, scratch, row)
        _describe_back(state, u, v, now, rates, scratch, row[10 + n_scales :])
        _describe_target(state, u, v, now, rates, row[14 + 2 * n_scales :])
        _describe_walks(state, u, v, now, rates, scratch, row[24 + 4 * n_scales :])
        row[row.size - own.size :] = own


@compiled
def _describe_source(state, u, now, own):  # out: own
    own[0] = own[4] = own[5] = own[8] = NEVER
    if u < 0:
        return
    node = state.nodes[u]
    if node.out_count:
        own[0], own[4], own[8] = now - node.out_last, now - node.out_switched, now - node.out_first
    own[1], own[2], own[3] = node.out_count, node.out_partners, node.out_run
    if node.in_count:
        own[5] = now - node.in_last
    own[6], own[7] = node.in_count, node.out_switches / max(node.out_count, 1)


@compiled
def _describe_pair(state, u, v, now, rates, scratch, row):  # out: row
    nodes, pairs = state.nodes, state.pairs
    row[0] = row[1] = row[5] = row[6] = row[7] = NEVER
    slot = find_pair(state, u, v)
    if u >= 0 and nodes[u].head[SRC] >= 0:
        row[8] = v >= 0 and pairs[nodes[u].head[SRC]].follow == v
    if slot >= 0:
        pair, source = pairs[slot], nodes[u]
        gap = now - pair.last
        row[0] = gap
        row[1] = _found(v, OUT_RANK, scratch, LISTED + 1.0)
        row[2] = pair.count
        row[3] = pair.count / source.out_count
        row[4] = pair.runs
        if pair.count > 1 and pair.last > pair.first:
            row[5] = gap * (pair.count - 1) / (pair.last - pair.first)
        row[6] = source.out_count - pair.src_at
        row[7] = nodes[v].in_count - pair.dst_at
        row[9] = pair.open
        for k in range(rates.size):
            row[10 + k] = state.pair_sums[slot, k] * np.exp(-rates[k] * gap)


@compiled
def _describe_back(state, u, v, now, rates, scratch, row):  # out: row
    """The edges in the other direction: what waits for an answer."""
    row[0] = row[1] = NEVER
    slot = find_pair(state, v, u)
    if slot >= 0:
        pair = state.pairs[slot]
        row[0] = now - pair.last
        row[1] = _found(v, IN_RANK, scratch, LISTED + 1.0)
        row[2], row[3] = pair.count, pair.open
        for k in range(rates.size):
            row[4 + k] = state.pair_sums[slot, k] * np.exp(-rates[k] * (now - pair.last))


@compiled
def _describe_target(state, u, v, now, rates, row):  # out: row
    n_scales = rates.size
    row[0] = row[1] = row[2] = row[5] = row[6] = row[8] = NEVER
    if v < 0:
        return
    node = state.nodes[v]
    if node.in_count > 0:
        gap = now - node.in_last
        row[0], row[1] = gap, state.counters[EDGES] - node.in_at
        if node.in_count > 1:
            row[2] = now - node.in_before
        row[3], row[4] = node.in_count, node.in_partners
        row[5] = now - node.in_fresh
        if node.in_count > 1 and node.in_last > node.in_first:
            row[6] = gap * (node.in_count - 1) / (node.in_last - node.in_first)
        row[7] = state.pairs[node.head[DST]].ends[SRC] == u
        for k in range(rates.size):
            row[10 + k] = state.node_sums[v, k] * np.exp(-rates[k] * gap)
            row[10 + n_scales + k] = state.fresh_sums[v, k] * np.exp(-rates[k] * row[5])
    if node.out_count > 0:
        row[8] = now - node.out_last
        row[9] = node.out_count


@compiled
def _describe_walks(state, u, v, now, rates, scratch, row):  # out: row
    nodes, steps = state.nodes, state.steps
    if v < 0:
        return
    row[0], row[1] = _found(v, TWO, scratch, 0.0), _found(v, THREE, scratch, 0.0)
    if u >= 0 and nodes[u].head[SRC] >= 0:
        before = state.pairs[nodes[u].head[SRC]].ends[DST]
        slot = find_slot(_key_of_pair(before, v), state.step_table, state.step_keys)
        if slot >= 0:
            row[2] = steps[slot].sum * np.exp(-rates[rates.size - 2] * (now - steps[slot].last))
            row[3] = steps[slot].count / nodes[before].in_count


# ---- many queries along the stream


@compiled
def run_queries(
    state, edges, upto, queries, starts, candidates, one_type, rates, scratch, rows
):  # out: state, scratch, rows
    """Columns of many queries, in the order of time, each after absorbing the edges before it.

    edges : src, dst, when, in the order of time; upto : (n_queries,) how many of them each query knows; queries : src, when;
    starts : (n_queries + 1,) where the candidates of each begin.
    """
    done = 0
    for q in range(upto.size):
        done = absorb_edges(state, edges, done, upto[q], rates)
        _look_around(state, queries[0][q], one_type, scratch)
        part = slice(starts[q], starts[q + 1])
        _describe_candidates(state, queries[0][q], candidates[part], queries[1][q], rates, scratch, rows[part])


@compiled
def sample(state, edges, upto, chosen, limits, everyone, picks, one_type, rates, scratch, starts, candidates, rows):
    # out: state, scratch, starts, candidates, rows
    """Columns of the destinations of chosen edges, and of other candidates; the true destination comes first.

    chosen : positions of edges, ascending; upto : (n_chosen,) how many edges each knows; picks : (n_chosen, n_random), see
    `_gather`; starts : (n_chosen + 1,) where the candidates of each begin; rows : room for all candidates.
    """
    src, dst, when = edges
    done, n = 0, 0
    for q in range(chosen.size):
        done = absorb_edges(state, edges, done, upto[q], rates)
        u, now = src[chosen[q]], when[chosen[q]]
        _look_around(state, u, one_type, scratch)
        starts[q] = n
        _take_candidate(dst[chosen[q]], 0, scratch, candidates[n:])
        n += 1 + _gather(state, u, limits, scratch, everyone, picks[q], candidates[n + 1 :])
        part = slice(starts[q], n)
        _describe_candidates(state, u, candidates[part], now, rates, scratch, rows[part])
    starts[chosen.size] = n
    return n
