"""Who met whom, when and how often, carried along a stream of edges: the state behind rankings of the next destination.

Arrays that go together, in the order of the tuple `state`:

counters : (4,) the numbers of edges, of pairs and of steps so far, and the destination of the last edge.
nodes, node_sums, fresh_sums : by node: `NODE`, decayed counts of its edges as a destination, and of those that were the
first of their pair, (n, scales) each.
pairs, pair_sums, pair_keys, pair_table : by pair of source and destination: `PAIR`, decayed counts (n, scales), and the hash
index of `running`.
steps, step_keys, step_table : by pair of destinations that followed each other at a source: `STEP`, and their hash index.

Lists are chains of pairs: those of a source and those of a destination, the latest first; and a chain of all destinations.
Times are float64, counted from the first edge. Sums are as of the last edge that changed them.
"""

import numpy as np

from tdlg._kernels import CODE_BITS
from tdlg._kernels.compiled import compiled
from tdlg._kernels.running import add_slot, find_slot

EDGES, PAIRS, STEPS, LATEST = range(4)  # counters
NONE = -1
NEVER = 1e30  # gap to something that never happened

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
        ("out_head", np.int32),  # pair of its last edge as a source, and as a destination
        ("in_head", np.int32),
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
        ("src", np.int32),
        ("dst", np.int32),
        ("src_at", np.int32),  # number of edges of the source up to the last one of the pair; of the destination
        ("dst_at", np.int32),
        ("follow", np.int32),  # the destination that the source turned to after this one, the last time
        ("out_newer", np.int32),
        ("out_older", np.int32),
        ("in_newer", np.int32),
        ("in_older", np.int32),
    ]
)
STEP = np.dtype([("last", np.float64), ("sum", np.float64), ("count", np.int32)], align=True)


@compiled
def key_of_pair(a, b):
    """The key of two codes in a hash index."""
    return (np.int64(a) << CODE_BITS) | np.int64(b)


@compiled
def _fade(sums, passed, rates):  # out: sums
    for k in range(rates.size):
        sums[k] *= np.exp(-rates[k] * passed)


# ---- absorbing


@compiled
def absorb(state, src, dst, when, rates):  # out: state
    """Add edges in the order of time; there must be room for their pairs and steps."""
    for k in range(src.size):
        absorb_one(state, src[k], dst[k], when[k], rates)


@compiled
def absorb_one(state, u, v, now, rates):  # out: state
    """Add an edge that is not before the last one."""
    counters, nodes, node_sums, fresh_sums = state[0], state[1], state[2], state[3]
    pairs, pair_sums, pair_keys, pair_table = state[4], state[5], state[6], state[7]
    counters[EDGES] += 1
    slot = add_slot(key_of_pair(u, v), counters[PAIRS], pair_table, pair_keys)
    is_new = slot == counters[PAIRS]
    source, target = nodes[u], nodes[v]
    before = source.out_head  # the pair of the source's edge before this one
    if is_new:
        counters[PAIRS] += 1
        _new_pair(pairs[slot], u, v, now)
        source.out_partners += 1
        target.in_partners += 1
    pair = pairs[slot]
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
    _fade(node_sums[v], now - target.in_last if target.in_count else 0.0, rates)
    node_sums[v] += 1.0
    if is_new:
        _fade(fresh_sums[v], now - target.in_fresh if target.in_partners > 1 else 0.0, rates)
        fresh_sums[v] += 1.0
        target.in_fresh = now
    if target.in_count == 0:
        target.in_first = now
    target.in_before = target.in_last
    target.in_last, target.in_at = now, counters[EDGES]
    target.in_count += 1
    # the pair
    _fade(pair_sums[slot], now - pair.last if pair.count else 0.0, rates)
    pair_sums[slot] += 1.0
    pair.last, pair.src_at, pair.dst_at = now, source.out_count, target.in_count
    pair.count += 1
    pair.open += 1
    back = find_slot(key_of_pair(v, u), pair_table, pair_keys)
    if back >= 0:
        pairs[back].open = 0
        if back == slot:
            pair.open = 1
    if before >= 0 and before != slot:
        pairs[before].follow = v
        _add_step(state, pairs[before].dst, v, now, rates[rates.size - 2])
    _to_front(nodes, pairs, slot, u, v)
    _to_front_of_all(nodes, counters, v)


@compiled
def _new_pair(pair, u, v, now):  # out: pair
    pair.src, pair.dst, pair.first, pair.last = u, v, now, now
    pair.count, pair.runs, pair.open, pair.follow = 0, 0, 0, NONE
    pair.out_newer, pair.out_older, pair.in_newer, pair.in_older = NONE, NONE, NONE, NONE


@compiled
def _add_step(state, a, b, now, rate):  # out: state
    """A source turned from one destination to another."""
    counters, steps, step_keys, step_table = state[0], state[8], state[9], state[10]
    slot = add_slot(key_of_pair(a, b), counters[STEPS], step_table, step_keys)
    step = steps[slot]
    if slot == counters[STEPS]:
        counters[STEPS] += 1
        step.sum, step.count = 0.0, 0
    elif step.count:
        step.sum *= np.exp(-rate * (now - step.last))
    step.sum += 1.0
    step.last = now
    step.count += 1


@compiled
def _to_front(nodes, pairs, slot, u, v):  # out: nodes, pairs
    """Put a pair first in the list of its source and in that of its destination."""
    pair = pairs[slot]
    if nodes[u].out_head != slot:
        if pair.out_newer >= 0:
            pairs[pair.out_newer].out_older = pair.out_older
            if pair.out_older >= 0:
                pairs[pair.out_older].out_newer = pair.out_newer
        head = nodes[u].out_head
        pair.out_newer, pair.out_older = NONE, head
        if head >= 0:
            pairs[head].out_newer = slot
        nodes[u].out_head = slot
    if nodes[v].in_head != slot:
        if pair.in_newer >= 0:
            pairs[pair.in_newer].in_older = pair.in_older
            if pair.in_older >= 0:
                pairs[pair.in_older].in_newer = pair.in_newer
        head = nodes[v].in_head
        pair.in_newer, pair.in_older = NONE, head
        if head >= 0:
            pairs[head].in_newer = slot
        nodes[v].in_head = slot


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


# ---- partners


@compiled
def find_pair(state, u, v):
    """The slot of a pair, -1 if it never met."""
    return find_slot(key_of_pair(u, v), state[7], state[6])


@compiled
def sources_of(state, v, out):  # out: out
    """The sources of a destination, the latest first, (in_partners,)."""
    nodes, pairs = state[1], state[4]
    slot, k = nodes[v].in_head, 0
    while slot >= 0:
        out[k] = pairs[slot].src
        slot = pairs[slot].in_older
        k += 1
