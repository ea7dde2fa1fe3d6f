"""Counts of keys that fade at a fast and at a slow rate, and how surprising an edge is beside them.

One walk over the edges in the order of time, with a few numbers of state per key: a table starts with empty slots, a stream
goes on with those of its running sums.
"""

import numpy as np

from tdlg._kernels.compiled import compiled

_DIGITS = 1.0 / np.log(10.0)
BURST = 30.0  # digits from which on an edge is not learnt as usual
FEW = 3.0  # with fewer earlier edges an end is a newcomer
OUTLIER = 3.0  # digits under its own past from which on a surprise is an outlier, of which a flood is hardly learnt
STEP = 0.05  # digits of a surprise within which its past makes no difference
N_STEPS = 600
_PRIOR = 2.0  # how many edges with the values of all are added to those of a node
ENDS = 2  # the first kinds, source and destination: those that may be new, and whose values are compared


@compiled
def surprise(count, expected):
    """Decimal digits of the Chernoff bound on P(X >= count) for X Poisson with this mean; 0 if the count is not above it."""
    if count <= expected:
        return 0.0
    return max(count * np.log(count / expected) - (count - expected), 0.0) * _DIGITS


@compiled
def fast_share(age, fast, slow):
    """The share of a slow count that is expected in the fast one, `age` ticks after the first observation."""
    if age <= 0.0:
        return 1.0
    return min(1.0, fast * np.expm1(-age / fast) / (slow * np.expm1(-age / slow)))


@compiled
def _faded(slot, tick, fast, slow, time, sums):
    """Let the sums of a slot fade until a tick, unless they are later, and return what an edge at this tick adds to both."""
    passed = np.float64(tick - time[slot])
    if passed < 0.0:
        return np.exp(passed / fast), np.exp(passed / slow)
    if passed > 0.0:
        by_slow = np.exp(-passed / slow)
        sums[slot, 0, 0] *= np.exp(-passed / fast)
        for v in range(sums.shape[2]):
            sums[slot, 1, v] *= by_slow
        time[slot] = tick
    return 1.0, 1.0


@compiled
def count_bursts(slots, ticks, now, order, start, fast, slow, time, sums, counts, digits):  # out: the last four
    """Count events by their keys, in the given order, and judge each as of `now`, which never decreases in this order.

    Each event counts itself and all before it, those at the same time included; one before the last change of its key
    counts as it would have decayed. An event of `BURST` digits is not learnt by the slow count.
    slots : (n_events, n_kinds); ticks, now : (n_events,); start : ticks of the first observation; fast, slow : ticks.
    time, sums : by slot, the time of the last change, and the fast and the slow count, (n_slots, 2, n_values).
    counts : (n_events, 2), the fast and the slow count by the last kind; or no rows, where they are not wanted.
    digits : (n_events,), the largest surprise of the kinds.
    """
    known, share = np.nan, 1.0
    for event in order:
        tick, present = ticks[event], now[event]
        age = np.float64(present - start)
        if age != known:
            known, share = age, fast_share(age, fast, slow)
        digits[event] = 0.0
        for k in range(slots.shape[1]):
            found, _, count, total = _counted(slots[event, k], tick, present, share, fast, slow, BURST, time, sums)
            digits[event] = max(digits[event], found)
            if counts.shape[0]:
                counts[event, 0], counts[event, 1] = count, total


@compiled
def _counted(slot, tick, present, share, fast, slow, burst, time, sums):
    """Count an edge, slowly only with fewer digits than a burst has.

    Returns its digits, the slow count before it, and the fast and the slow count with it, all as of the present.
    """
    by_fast, by_slow = _faded(slot, tick, fast, slow, time, sums)
    fast_fades, slow_fades = 1.0, 1.0
    if present != time[slot]:
        waited = np.float64(present - time[slot])
        fast_fades, slow_fades = np.exp(-waited / fast), np.exp(-waited / slow)
    before = sums[slot, 1, 0] * slow_fades
    count, total = (sums[slot, 0, 0] + by_fast) * fast_fades, before + by_slow * slow_fades
    digits = surprise(count, total * share)
    sums[slot, 0, 0] += by_fast
    if digits < burst:
        sums[slot, 1, 0] += by_slow
    return digits, before, count, total


@compiled
def judge_events(
    slots,
    parents,
    counted,
    values,
    ticks,
    now,
    order,
    start,
    fast,
    slow,
    time,
    sums,
    all_time,
    all_sums,
    past,
    pace,
    bursts,
    rare,
    rush,
    odd,
    calm,
):  # out: the last eleven
    """Count events as `count_bursts`, and judge in three ways how unusual each is beside those before it.

    slots : (n_events, n_kinds), source and destination first.
    parents : (n_kinds,), the kind within which the share of a kind is taken, which learns what that one learns; or -1.
    counted : (n_kinds,), whether a kind without a parent has bursts.
    values : (n_events, n_numbers), NaN where missing. sums : (n_slots, 2, 1 + 3 * n_numbers), see `_compared`.
    all_time, all_sums : (n_kinds, 2) and (n_kinds, 2, 2, ...), of all events, and of those whose end was a newcomer.
    past, pace : for each kind, then for each value beside its source and its destination, see `_under_its_past`.
    bursts : (n_events,), the largest digits of the kinds. rush : (n_events, ENDS), the digits of newcomers.
    rare : (n_events, n_kinds), how small the share of the key was. odd : (n_events, ENDS * n_numbers), how far values are
    from earlier ones; both in digits under their own past.
    calm : (n_events,), one over the fast count of all events.
    """
    n_kinds, n_numbers = slots.shape[1], values.shape[1]
    learns, earlier = np.zeros(n_kinds, np.bool_), np.zeros(n_kinds)
    known, share = np.nan, 1.0
    for event in order:
        tick, present = ticks[event], now[event]
        age = np.float64(present - start)
        if age != known:
            known, share = age, fast_share(age, fast, slow)
        bursts[event] = 0.0
        for k in range(n_kinds):
            slot, parent = slots[event, k], parents[k]
            if parent >= 0:
                _, by_slow = _faded(slot, tick, fast, slow, time, sums)
                before = sums[slot, 1, 0] * np.exp(-np.float64(present - time[slot]) / slow)
                if learns[parent]:
                    sums[slot, 1, 0] += by_slow
                rarity = np.log10((earlier[parent] + 1.0) / (before + 0.5))
                rare[event, k] = _under_its_past(rarity, age, fast, slow, past[k], pace[k])
                continue
            least = BURST if counted[k] else np.inf
            found, before, _, _ = _counted(slot, tick, present, share, fast, slow, least, time, sums)
            if counted[k]:
                bursts[event] = max(bursts[event], found)
            learns[k], earlier[k] = found < least, before
            by_fast, by_slow = _faded(0, tick, fast, slow, all_time[k], all_sums[k])
            waited = np.float64(present - all_time[k, 0])
            fades = np.exp(-waited / slow)
            rarity = np.log10((all_sums[k, 0, 1, 0] * fades + 1.0) / (before + 0.5))
            rare[event, k] = _under_its_past(rarity, age, fast, slow, past[k], pace[k])
            if k < ENDS:
                weights = np.exp(-np.float64(time[slot] - tick) / slow), by_slow
                for f in range(n_numbers):
                    column, value = k * n_numbers + f, values[event, f]
                    odd[event, column] = 0.0
                    if not np.isnan(value):
                        far, at = (
                            _compared(value, 1 + 3 * f, sums[slot, 1], all_sums[k, 0, 1], weights),
                            n_kinds + column,
                        )
                        odd[event, column] = _under_its_past(far, age, fast, slow, past[at], pace[at])
                rush[event, k] = 0.0
                if before < FEW:  # beside the share of newcomers among all edges, so that a busy hour or year is none
                    lately = (all_sums[k, 0, 0, 0] + by_fast) * np.exp(-waited / fast)
                    of_all = lately / ((all_sums[k, 0, 1, 0] + by_slow) * fades)
                    rush[event, k] = _counted(1, tick, present, of_all, fast, slow, BURST, all_time[k], all_sums[k])[0]
            all_sums[k, 0, 0, 0] += by_fast
            if learns[k]:
                all_sums[k, 0, 1, 0] += by_slow
            if k == 0:
                calm[event] = 1.0 / max(all_sums[k, 0, 0, 0], 1.0)


@compiled
def _compared(x, at, of_node, of_all, weights):
    """Digits of a value beside those of its node before it, to which those of all are added a little; then it is learnt.

    Both have at place `at` how many values there were, their sum and the sum of their squares. A value of `BURST` digits is
    not learnt; more are not told, since values that were all alike make any other one immensely improbable.
    """
    n = of_all[at]
    mean = of_all[at + 1] / n if n > 0.0 else x
    square = of_all[at + 2] / n if n > 0.0 else x * x
    total = of_node[at] + _PRIOR
    mean = (of_node[at + 1] + _PRIOR * mean) / total
    variance = max((of_node[at + 2] + _PRIOR * square) / total - mean * mean, 1e-12 * (1.0 + mean * mean))
    digits = 0.5 * _DIGITS * (x - mean) ** 2 / (variance * (1.0 + 1.0 / total)) if n > _PRIOR else 0.0
    if digits < BURST:
        for sums, weight in ((of_node, weights[0]), (of_all, weights[1])):
            sums[at] += weight
            sums[at + 1] += weight * x
            sums[at + 2] += weight * x * x
    return min(digits, BURST)


@compiled
def _under_its_past(surprise, age, fast, slow, past, pace):
    """Digits of the share of earlier events that were as surprising, which fade at the slow rate; then it is learnt.

    Beyond all that was usual, the digits grow half as fast as the surprise. Of outliers, many at a time teach little more
    than one of them: the one after n others of late counts 1 / (1 + n)^2.
    past : the total, and a binary indexed tree of what came before by `STEP`; both have grown instead of faded.
    pace : how many outliers came of late, the age at the last one, the age at which nothing of `past` has grown, and the
    largest surprise of an edge that was no outlier.
    """
    grown = np.exp((age - pace[2]) / slow)
    if grown > 1e12:
        past /= grown
        pace[2], grown = age, 1.0
    step = min(max(int(surprise / STEP), 0), N_STEPS - 1)
    below, at = 0.0, step
    while at > 0:
        below += past[at]
        at -= at & -at
    tail = max(past[0] - below, 0.0) / grown
    digits = np.log10((past[0] / grown + 1.0) / (tail + 1.0)) + 0.5 * max(surprise - pace[3], 0.0)
    weight = grown
    if digits < OUTLIER:
        pace[3] = max(pace[3], surprise)
    else:
        of_late = pace[0] * np.exp((pace[1] - age) / fast)
        weight = grown / (1.0 + of_late) ** 2
        pace[0], pace[1] = of_late + 1.0, age
    past[0] += weight
    at = step + 1
    while at <= N_STEPS:
        past[at] += weight
        at += at & -at
    return digits
