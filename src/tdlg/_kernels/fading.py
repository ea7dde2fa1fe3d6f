"""The walk of `recurrence.py` for Laplace decays: real rates, whose sums need no approximation.

Events are taken in blocks that stay in the first cache: first the factors of a whole block, by a plain loop that the
compiler turns into vector instructions, then the recurrence of each rate through the block.
"""

import numpy as np
from numba import jit

from tdlg._kernels import JIT
from tdlg._kernels.vectors import as_bits, as_float, keep_if, load, store, vector, zeros

BLOCK = 128
_LOG2_E = 1.4426950408889634
_LN2_HIGH, _LN2_LOW = 0.693147180369123816490, 1.90821492927058770002e-10
_ROUND = 6755399441055744.0  # 1.5 * 2^52: added to a small float, it leaves the nearest integer in the low bits
_INVERSE_FACTORIALS = tuple(1.0 / float(np.prod(np.arange(1.0, n + 1))) for n in range(14))


@jit(**JIT)
def exp_of_negative(r):
    """exp(-r) for r >= 0, to the last digit or two, and 0 beyond 708; without branches, so that loops of it are vectorised.

    exp(-r) = 2^n * exp(z) with n = round(-r / ln 2) and |z| <= ln 2 / 2, where the Taylor series to z^13 suffices.
    """
    a = -min(r, 708.0)
    shifted = a * _LOG2_E + _ROUND
    n = shifted - _ROUND
    z = (a - n * _LN2_HIGH) - n * _LN2_LOW
    total = _INVERSE_FACTORIALS[13]
    for k in range(12, -1, -1):
        total = total * z + _INVERSE_FACTORIALS[k]
    power = as_float((as_bits(shifted) + 1023) << 52)
    return total * power if r < 708.0 else 0.0


@jit(**JIT)
def walk(gap, source, x, first, stop, step, rates, weights, strict, emit, own, fresh, state, out):  # out: state, out
    """As `recurrence.walk`, for one column and real rates: k(d) = sum of weights * exp(-rates * d).

    own, fresh : as there. state : (rates,).
    """
    gaps, values, sums, factors = np.empty(BLOCK), np.empty(BLOCK), np.empty(BLOCK), np.empty(BLOCK)
    last = np.zeros(rates.size)  # values passed but not yet in the state, of each rate's own walk
    shift = 0 if step > 0 else 1
    for start in range(first, stop, step * BLOCK):
        n = min(BLOCK, (stop - start) * step)
        for q in range(n):
            i = start + step * q
            gaps[q] = gap[i + shift]
            values[q] = x[source[i]]
            sums[q] = own * values[q] if fresh else 0.0
        if start == first:
            gaps[0] = 0.0  # the state is that of the first event already
        for k in range(rates.size):
            _factors(gaps, rates[k], n, factors)
            if strict:
                _run_strict(gaps, factors, values, n, weights[k], k, state, last, sums)
            else:
                _run(gaps, factors, values, n, weights[k], k, state, last, sums)
        if emit:
            for q in range(n):
                i = start + step * q
                out[i] = sums[q] + (0.0 if fresh else out[i])
    distance = gap[stop + shift]
    for k in range(rates.size):
        state[k] = exp_of_negative(rates[k] * distance) * (state[k] + last[k]) if distance < np.inf else 0.0


@jit(**JIT)
def _factors(gaps, rate, n, factors):  # out: factors
    for q in range(n):
        factors[q] = exp_of_negative(rate * gaps[q])


@jit(**JIT)
def _run(gaps, factors, values, n, weight, k, state, last, sums):  # out: state, last, sums
    """S <- factor * (s + value before), through a block."""
    s, value = state[k], last[k]
    for q in range(n):
        s = factors[q] * (s + value) if gaps[q] < np.inf else 0.0
        sums[q] += weight * s
        value = values[q]
    state[k], last[k] = s, value


@jit(**JIT)
def _run_strict(gaps, factors, values, n, weight, k, state, last, sums):  # out: state, last, sums
    """The same, where values at one time wait until time moves on."""
    s, waiting = state[k], last[k]
    for q in range(n):
        if gaps[q] > 0.0:
            s = factors[q] * (s + waiting) if gaps[q] < np.inf else 0.0
            waiting = 0.0
        sums[q] += weight * s
        waiting += values[q]
    state[k], last[k] = s, waiting


@jit(**JIT)
def walk_columns(
    gap, source, x, column, first, stop, step, rates, weights, strict, emit, own, fresh, state, out
):  # out: state, out
    """As `walk` for several columns of x at once, from `column` on, one lane a column.

    out : (events, lanes); state : (rates, lanes). own : a tuple, one lane a column.
    """
    own_v = vector(own)
    lanes = out.shape[1]
    factors = np.empty((rates.size, BLOCK))
    gaps = np.empty(BLOCK)
    value = zeros(own_v)
    total = value
    for k in range(rates.size):
        total = total + weights[k] * load(state, k * lanes, own_v)
    shift = 0 if step > 0 else 1
    for start in range(first, stop, step * BLOCK):
        n = min(BLOCK, (stop - start) * step)
        for q in range(n):
            gaps[q] = gap[start + step * q + shift]
        if start == first:
            gaps[0] = 0.0
        for k in range(rates.size):
            _factors(gaps, rates[k], n, factors[k])
        for q in range(n):
            i = start + step * q
            if not (strict and gaps[q] == 0.0):
                total = _advance_columns(gaps[q] < np.inf, factors[:, q], weights, value, state)
                value = zeros(own_v)
            this = load(x, source[i] * x.shape[1] + column, own_v)
            if emit:
                store(out, i * lanes, total + (own_v * this if fresh else load(out, i * lanes, own_v)))
            value = value + this
    distance = gap[stop + shift]
    for k in range(rates.size):
        factors[k, 0] = exp_of_negative(rates[k] * distance)
    _advance_columns(distance < np.inf, factors[:, 0], weights, value, state)


@jit(**JIT)
def _advance_columns(same_key, factors, weights, value, state):  # out: state
    total = zeros(value)
    lanes = state.shape[1]
    for k in range(factors.size):
        s = load(state, k * lanes, value) + value
        s = keep_if(same_key, s * factors[k])
        store(state, k * lanes, s)
        total = total + weights[k] * s
    return total
