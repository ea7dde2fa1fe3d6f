"""Counts of a key that fade at a fast and at a slow rate, and how surprising the fast count is beside the slow one.

One walk over the edges in the order of time, with three numbers of state per key: a table starts with empty slots, a stream
goes on with those of its running sums.
"""

import numpy as np

from tdlg._kernels.compiled import compiled

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
def count_bursts(slots, ticks, now, order, start, fast, slow, time, sums, counts, surprises):  # out: the last four
    """Count events by their keys, in the given order, and judge each as of `now`, which never decreases in this order.

    Each event counts itself and all before it, those at the same time included; one before the last change of its key
    counts as it would have decayed.
    slots : (n_events, n_kinds); ticks, now : (n_events,); start : ticks of the first observation; fast, slow : ticks.
    time, sums : by slot, the time of the last change, and the fast and the slow count, (n_slots, 2, 1), see `running`.
    counts : (n_events, 2), the fast and the slow count by the last kind; or no rows, where they are not wanted.
    surprises : (n_events,), the largest of the kinds.
    """
    known, share = np.nan, 1.0
    for event in order:
        tick, present = ticks[event], now[event]
        age = np.float64(present - start)
        if age != known:
            known, share = age, fast_share(age, fast, slow)
        largest = 0.0
        for k in range(slots.shape[1]):
            slot = slots[event, k]
            count, total = sums[slot, 0, 0], sums[slot, 1, 0]
            passed = np.float64(tick - time[slot])
            if passed < 0.0:
                count += np.exp(passed / fast)
                total += np.exp(passed / slow)
            else:
                if passed > 0.0:
                    count *= np.exp(-passed / fast)
                    total *= np.exp(-passed / slow)
                    time[slot] = tick
                count += 1.0
                total += 1.0
            sums[slot, 0, 0], sums[slot, 1, 0] = count, total
            if present != tick:
                waited = np.float64(present - time[slot])
                count *= np.exp(-waited / fast)
                total *= np.exp(-waited / slow)
            if counts.shape[0]:
                counts[event, 0], counts[event, 1] = count, total
            largest = max(largest, surprise(count, total, share))
        surprises[event] = largest
