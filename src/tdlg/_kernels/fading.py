"""The walk of `recurrence.py` for Laplace decays: real rates, whose sums need no approximation.

Events are taken in chunks that stay in the cache: first the losses exp(-rate * gap) - 1 of a whole chunk (why losses, see
`waves.py`), by a plain loop that the compiler turns into vector instructions; then the recurrence of each rate through the
chunk. Chunks of whole keys are walked both ways at once; a key longer than a chunk is walked up in chunks, then down.

All walks take x to be finite. k(d) = sum of weights * exp(-rates * d); `own`, `fresh`, `strict`, `emit` and `state` mean
what they mean in `recurrence.walk`.
"""

import numpy as np

from tdlg._kernels.compiled import compiled
from tdlg._kernels.layout import chunk_end
from tdlg._kernels.vectors import as_bits, as_float, item, load, pointer, prefetch, store, vector, zeros

FADING_EVENTS = 2048  # events whose losses, values and sums (48 kB) stay in the second cache
AHEAD = 24  # events between asking for a row of x and using it
_LOG2_E = 1.4426950408889634
_LN2_HIGH, _LN2_LOW = 0.693147180369123816490, 1.90821492927058770002e-10
_ROUND = 6755399441055744.0  # 1.5 * 2^52: added to a small float, it leaves the nearest integer in the low bits
_INVERSE_FACTORIALS = tuple(1.0 / float(np.prod(np.arange(1.0, n + 1))) for n in range(15))


@compiled
def loss(r):
    """exp(-r) - 1 for r >= 0, to the last digit or two; without branches, so that loops of it are vectorised.

    exp(-r) = 2^n * exp(z) with n = round(-r / ln 2) and |z| <= ln 2 / 2, where the series to z^14 suffices for exp(z) - 1.
    """
    a = -min(r, 700.0)
    shifted = a * _LOG2_E + _ROUND
    n = shifted - _ROUND
    z = (a - n * _LN2_HIGH) - n * _LN2_LOW
    total = _INVERSE_FACTORIALS[14]
    for k in range(13, 0, -1):
        total = total * z + _INVERSE_FACTORIALS[k]
    power = as_float((as_bits(shifted) + 1023) << 52)
    return (power - 1.0) + power * (total * z)


@compiled
def _find_real_losses(gap, low, high, rate, losses):  # out: losses
    """exp(-rate * gap[q]) - 1 for low <= q < high; -1 where a key begins, whatever the rate."""
    for q in range(high - low):
        distance = gap[low + q]
        losses[q] = loss(rate * distance) if distance < np.inf else -1.0


@compiled
def _take(source, x, low, high, own, fresh, out, values, sums):  # out: values, sums
    for q in range(high - low):
        values[q] = x[source[low + q]]
        sums[q] = own * values[q] if fresh else out[low + q]


@compiled
def _run_up(losses, values, n, weight, s, sums):  # out: sums
    """Give each event the sum of those before it; returns the sum at the event behind the last."""
    for q in range(n):
        sums[q] += weight * s
        s += values[q]
        s += s * losses[q + 1]
    return s


@compiled
def _run_down(losses, values, n, weight, s, sums):  # out: sums
    """Give each event the sum of those behind it; returns the sum at the event before the first."""
    for q in range(n - 1, -1, -1):
        sums[q] += weight * s
        s += values[q]
        s += s * losses[q]
    return s


@compiled
def _meet_real(losses, values, n, weight, up, down, sums):  # out: sums
    """`_run_up` and `_run_down` in one loop, so that the processor works on one while it waits for the other."""
    for q in range(n):
        r = n - 1 - q
        sums[q] += weight * up
        sums[r] += weight * down
        up, down = up + values[q], down + values[r]
        up, down = up + up * losses[q + 1], down + down * losses[r]


@compiled
def fade_both(gap, source, x, first, stop, rates, weights, own, fresh, before, behind, out):  # out: out
    """Give events first .. stop - 1 the sums of all earlier and all later events of their keys.

    before, behind : the states at `first` and at `stop - 1` of what lies outside.
    """
    values, sums, losses = np.empty(FADING_EVENTS), np.empty(FADING_EVENTS), np.empty(FADING_EVENTS + 1)
    nothing = np.zeros(rates.size)
    low = first
    while low < stop:
        high = chunk_end(gap, low, stop, FADING_EVENTS)
        front, back = before if low == first else nothing, behind if high == stop else nothing
        if high - low <= FADING_EVENTS:
            _take(source, x, low, high, own, fresh, out, values, sums)
            for k in range(rates.size):
                _find_real_losses(gap, low, high + 1, rates[k], losses)
                _meet_real(losses, values, high - low, weights[k], front[k], back[k], sums)
            out[low:high] = sums[: high - low]
        else:
            fade(gap, source, x, low, high, 1, rates, weights, False, True, own, fresh, front.copy(), out)
            fade(gap, source, x, high - 1, low - 1, -1, rates, weights, False, True, own, False, back.copy(), out)
        low = high


@compiled
def fade(gap, source, x, first, stop, step, rates, weights, strict, emit, own, fresh, state, out):  # out: state, out
    """Walk one way: give the sums of the events passed, or (not emit) only bring the state along. state : (rates,)."""
    values, sums, losses = np.empty(FADING_EVENTS), np.empty(FADING_EVENTS), np.empty(FADING_EVENTS + 1)
    waiting = np.zeros(rates.size)
    for start in range(first, stop, FADING_EVENTS * step):
        n = min(FADING_EVENTS, (stop - start) * step)
        low = start if step > 0 else start - n + 1
        _take(source, x, low, low + n, own, fresh, out, values, sums)
        for k in range(rates.size):
            _find_real_losses(gap, low, low + n + 1, rates[k], losses)
            if strict:
                state[k], waiting[k] = _run_strictly(
                    gap, low, losses, values, n, step, weights[k], state[k], waiting[k], sums
                )
            elif step > 0:
                state[k] = _run_up(losses, values, n, weights[k], state[k], sums)
            else:
                state[k] = _run_down(losses, values, n, weights[k], state[k], sums)
        if emit:
            out[low : low + n] = sums[:n]


@compiled
def _run_strictly(gap, low, losses, values, n, step, weight, s, waiting, sums):  # out: sums
    """As `_run_up` or `_run_down`, where values at one time wait until time moves on."""
    shift = 1 if step > 0 else 0
    for at in range(n):
        q = at if step > 0 else n - 1 - at
        sums[q] += weight * s
        waiting += values[q]
        if gap[low + q + shift] > 0.0:
            s += waiting
            s += s * losses[q + shift]
            waiting = 0.0
    return s, waiting


@compiled
def fade_columns(
    gap, source, x, first, stop, step, rates, weights, strict, emit, own, fresh, state, out
):  # out: state, out
    """As `fade` for several columns of x at once: a lane is a column, and the rates take turns.

    x : (columns of H, lanes); out : (events, lanes); state : (rates, lanes). own : a tuple, one lane per column.
    """
    losses = np.empty((rates.size, FADING_EVENTS + 1))
    waiting = np.zeros(out.shape[1])
    for start in range(first, stop, FADING_EVENTS * step):
        n = min(FADING_EVENTS, (stop - start) * step)
        low = start if step > 0 else start - n + 1
        for k in range(rates.size):
            _find_real_losses(gap, low, low + n + 1, rates[k], losses[k])
        _fade_chunk(gap, source, x, low, low + n, step, weights, losses, strict, emit, own, fresh, waiting, state, out)


@compiled
def fade_columns_both(gap, source, x, first, stop, rates, weights, own, fresh, before, behind, out):  # out: out
    """As `fade_both` for several columns."""
    losses = np.empty((rates.size, FADING_EVENTS + 1))
    waiting = np.zeros(out.shape[1])
    state = np.empty_like(before)
    low = first
    while low < stop:
        high = chunk_end(gap, low, stop, FADING_EVENTS)
        whole = high - low <= FADING_EVENTS
        if whole:
            for k in range(rates.size):
                _find_real_losses(gap, low, high + 1, rates[k], losses[k])
        for step in (1, -1):
            state[:] = 0.0
            if step > 0 and low == first:
                state[:] = before
            if step < 0 and high == stop:
                state[:] = behind
            start = fresh and step > 0
            if whole:
                _fade_chunk(
                    gap, source, x, low, high, step, weights, losses, False, True, own, start, waiting, state, out
                )
            else:
                way = (low, high, 1) if step > 0 else (high - 1, low - 1, -1)
                fade_columns(gap, source, x, *way, rates, weights, False, True, own, start, state, out)
        low = high


@compiled
def _fade_chunk(
    gap, source, x, low, high, step, weights, losses, strict, emit, own, fresh, waiting, state, out
):  # out: waiting, state, out
    """Walk up or down through the chunk low .. high - 1, whose losses were found."""
    own_v = vector(own)
    gaps, sources, values, sums = pointer(gap), pointer(source), pointer(x), pointer(out)
    states, w, m = pointer(state), pointer(weights), pointer(losses)
    n_rates, lanes, width = state.shape[0], out.shape[1], losses.shape[1]
    shift = 1 if step > 0 else 0
    held = load(pointer(waiting), 0, own_v)
    total = zeros(own_v)
    for k in range(n_rates):
        total = total + item(w, k) * load(states, k * lanes, own_v)
    for at in range(high - low):
        i = low + at if step > 0 else high - 1 - at
        prefetch(values, item(sources, min(max(i + AHEAD * step, low), high - 1)) * lanes)
        value = load(values, item(sources, i) * lanes, own_v)
        if emit:
            store(sums, i * lanes, total + (own_v * value if fresh else load(sums, i * lanes, own_v)))
        held = held + value
        if not (strict and item(gaps, i + shift) == 0.0):
            total = zeros(own_v)
            for k in range(n_rates):  # s_k <- (1 + losses[k]) * (s_k + value)
                s = load(states, k * lanes, held) + held
                s = s + s * item(m, k * width + i + shift - low)
                store(states, k * lanes, s)
                total = total + item(w, k) * s
            held = zeros(own_v)
    store(pointer(waiting), 0, held)
