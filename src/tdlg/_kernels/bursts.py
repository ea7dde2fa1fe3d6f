"""Counts of a key that fade at a fast and at a slow rate, and how surprising the fast count is beside the slow one.

One walk over the edges in the order of time, with three numbers of state per key: a stream that keeps the state goes on
where the walk stopped.
"""

import numpy as np

from tdlg._kernels.compiled import compiled
from tdlg._kernels.running import decay_and_add, read_sums

_DIGITS = 1.0 / np.log(10.0)


@compiled
def surprise(count, total, share):
    """Decimal digits of the Chernoff bound on P(X >= count) for X binomial with `total` trials of probability `share`.

    total * KL(count / total || share) / ln 10, and 0 where the count is not above total * share.
    """
    inside = count / total
    if inside <= share:
        return 0.0
    nats = count * np.log(inside / share)
    if count < total:
        nats += (total - count) * np.log((1.0 - inside) / (1.0 - share))
    return max(nats, 0.0) * _DIGITS


@compiled
def fast_share(age, fast, slow):
    """The share of a slow count that is expected in the fast one, `age` ticks after the first observation."""
    if age <= 0.0:
        return 1.0
    return min(1.0, fast * np.expm1(-age / fast) / (slow * np.expm1(-age / slow)))


@compiled
def walk_bursts(keys, ticks, order, start, fast, slow, state, counts, surprises):  # out: state, counts, surprises
    """Walk the edges in the given order; each edge counts itself and all before it, those at the same time included.

    keys, ticks : (n_edges,); order : edges by time; start : ticks of the first observation; fast, slow : ticks.
    state : (n_keys, 3), the fast count, the slow count and the ticks since `start` of each key's last edge.
    counts : (n_edges, 2), the fast and the slow count; or no rows, where they are not wanted.
    surprises : (n_edges,), of which the larger of the old and the new value is kept.
    """
    last, share = -1.0, 1.0
    for at in range(order.size):
        edge = order[at]
        age = np.float64(ticks[edge] - start)
        if age != last:
            last, share = age, fast_share(age, fast, slow)
        mine = state[keys[edge]]
        gap = age - mine[2]
        if gap > 0.0:
            mine[0] *= np.exp(-gap / fast)
            mine[1] *= np.exp(-gap / slow)
            mine[2] = age
        mine[0] += 1.0
        mine[1] += 1.0
        if counts.shape[0]:
            counts[edge, 0], counts[edge, 1] = mine[0], mine[1]
        surprises[edge] = max(surprises[edge], surprise(mine[0], mine[1], share))


@compiled
def running_bursts(
    slots, ticks, now, start, fast, slow, rates, time, last, sums, surprises
):  # out: time, sums, surprises
    """The surprises of events as they come: each is counted by its keys, and judged as of `now`, which never decreases.

    slots : (n_events, 3); ticks, now : (n_events,); rates : 1 / fast and 1 / slow; see `running` for time, last and sums.
    """
    one, counts = np.ones(1), np.empty((2, 1))
    for event in range(ticks.size):
        share = fast_share(np.float64(now[event] - start), fast, slow)
        surprises[event] = 0.0
        for k in range(slots.shape[1]):
            slot = slots[event, k]
            decay_and_add(slot, ticks[event], 1.0, one, 0, rates, time, sums)
            last[slot] = max(last[slot], ticks[event])
            read_sums(slot, now[event], rates, time, sums, counts)
            surprises[event] = max(surprises[event], surprise(counts[0, 0], counts[1, 0], share))
