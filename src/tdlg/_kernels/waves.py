"""The walk of `recurrence.py` for a Gaussian, in vector registers: one lane a term of its sum of complex exponentials.

Real and imaginary parts lie in two vectors. The factors exp(-rates * gap) of all terms are looked up and corrected at once:
with the gap in cells of a table, r = cell + z and |z| <= 1/2,

    exp(-rates * r) = table[cell] * (1 + z * poly(z)),        poly(z) ~ (exp(-rates * z) - 1) / z.

The form 1 + z * poly(z) makes the factor of a small gap accurate in its distance from 1, so that errors do not add up over
the many small gaps of a hub. Where a key begins, the gap is infinite and the factor is the table's last entry, 0.

All walks take x to be finite. `wave` is (cells per tick, table, poly); `coefs` (real parts, imaginary parts), two tuples with
a lane a term; `own`, `fresh`, `strict`, `emit` and `state` mean what they mean in `recurrence.walk`.
"""

import numpy as np
from numba import jit

from tdlg._kernels import JIT
from tdlg._kernels.layout import chunk_end
from tdlg._kernels.vectors import empty_aligned, item, lane_sum, lane_sums, load, pointer, prefetch, store, vector, zeros

DEGREE = 6  # of 1 + z * poly(z)
AHEAD = 24  # events between asking for a value of x and using it
CHUNK = 1024  # events whose factors (128 kB) stay in the second cache


@jit(**JIT)
def _factor(gap, per_cell, last_cell, table, poly, width, like):
    """exp(-rates * gap), one lane a term: its real and its imaginary part."""
    r = min(gap * per_cell, last_cell)
    cell = int(r + 0.5)
    return _look_up(cell, r - cell, table, poly, width, like)


@jit(**JIT)
def _look_up(cell, z, table, poly, width, like):
    """table[cell] * (1 + z * poly(z))."""
    half = width // 2
    p_re, p_im = load(poly, (DEGREE - 1) * width, like), load(poly, (DEGREE - 1) * width + half, like)
    for k in range(DEGREE - 2, -1, -1):
        p_re = p_re * z + load(poly, k * width, like)
        p_im = p_im * z + load(poly, k * width + half, like)
    return _times(load(table, cell * width, like), load(table, cell * width + half, like), p_re * z + 1.0, p_im * z)


@jit(**JIT)
def walk_both(gap, source, x, first, stop, coefs, wave, own, fresh, before, behind, out):  # out: out
    """Give events first .. stop - 1 the sums of all earlier and all later events of their keys.

    Both walks need the factor of every gap, so in chunks of whole keys it is found once and kept for the other walk.
    before, behind : the states at `first` and at `stop - 1` of what lies outside.
    """
    factors, values = empty_aligned(CHUNK + 1, wave[1].shape[1]), np.empty(CHUNK)
    nothing = np.zeros_like(before)
    low = first
    while low < stop:
        high = chunk_end(gap, low, stop, CHUNK)
        front, back = before if low == first else nothing, behind if high == stop else nothing
        if high - low <= CHUNK:
            _find_factors(gap, low, high + 1, coefs[0], wave, factors)
            for q in range(high - low):
                values[q] = x[source[low + q]]
            _meet(values, low, high, coefs, factors, own, fresh, front, back, out)
        else:
            _meet_in_a_hub(gap, source, x, low, high, coefs, wave, own, fresh, front, back, out)
        low = high


@jit(**JIT)
def _meet(values, low, high, coefs, factors, own, fresh, front, back, out):  # out: out
    """Two walks towards each other in one loop, so that the processor works on one while it waits for the other."""
    width = factors.shape[1]
    half = width // 2
    d, x, sums = pointer(factors), pointer(values), pointer(out)
    c_re, c_im = vector(coefs[0]), vector(coefs[1])
    f_re, f_im = load(pointer(front), 0, c_re), load(pointer(front), half, c_re)
    b_re, b_im = load(pointer(back), 0, c_re), load(pointer(back), half, c_re)
    for k in range(high - low):
        i, j = low + k, high - 1 - k
        f_x, b_x = item(x, i - low), item(x, j - low)
        f_sum, b_sum = lane_sums(f_re, b_re)
        if i < j:  # neither walk was here before
            out[i] = f_sum + (own * f_x if fresh else item(sums, i))
            out[j] = b_sum + (own * b_x if fresh else item(sums, j))
        elif i == j:
            out[i] = f_sum + b_sum + (own * f_x if fresh else item(sums, i))
        else:
            out[i] = item(sums, i) + f_sum
            out[j] = item(sums, j) + b_sum
        f_at, b_at = (i + 1 - low) * width, (j - low) * width
        f_re, f_im = _times(load(d, f_at, c_re), load(d, f_at + half, c_re), f_re + c_re * f_x, f_im + c_im * f_x)
        b_re, b_im = _times(load(d, b_at, c_re), load(d, b_at + half, c_re), b_re + c_re * b_x, b_im + c_im * b_x)


@jit(**JIT)
def _times(a_re, a_im, b_re, b_im):
    """The product of two complex numbers."""
    return a_re * b_re - a_im * b_im, a_re * b_im + a_im * b_re


@jit(**JIT)
def _meet_in_a_hub(gap, source, x, low, high, coefs, wave, own, fresh, front, back, out):  # out: out
    """As `_meet`, for a key too long to keep its factors."""
    per_cell, last_cell, width = wave[0], float(wave[1].shape[0] - 1), wave[1].shape[1]
    table, poly = pointer(wave[1]), pointer(wave[2])
    gaps, sources, values, sums = pointer(gap), pointer(source), pointer(x), pointer(out)
    c_re, c_im = vector(coefs[0]), vector(coefs[1])
    f_re, f_im = load(pointer(front), 0, c_re), load(pointer(front), width // 2, c_re)
    b_re, b_im = load(pointer(back), 0, c_re), load(pointer(back), width // 2, c_re)
    for k in range(high - low):
        i, j = low + k, high - 1 - k
        prefetch(values, item(sources, min(i + AHEAD, high - 1)))
        prefetch(values, item(sources, max(j - AHEAD, low)))
        f_x, b_x = float(item(values, item(sources, i))), float(item(values, item(sources, j)))
        f_sum, b_sum = lane_sums(f_re, b_re)
        if i < j:
            out[i] = f_sum + (own * f_x if fresh else item(sums, i))
            out[j] = b_sum + (own * b_x if fresh else item(sums, j))
        elif i == j:
            out[i] = f_sum + b_sum + (own * f_x if fresh else item(sums, i))
        else:
            out[i] = item(sums, i) + f_sum
            out[j] = item(sums, j) + b_sum
        d_re, d_im = _factor(item(gaps, i + 1), per_cell, last_cell, table, poly, width, c_re)
        f_re, f_im = _times(d_re, d_im, f_re + c_re * f_x, f_im + c_im * f_x)
        d_re, d_im = _factor(item(gaps, j), per_cell, last_cell, table, poly, width, c_re)
        b_re, b_im = _times(d_re, d_im, b_re + c_re * b_x, b_im + c_im * b_x)


@jit(**JIT)
def walk_one(gap, source, x, first, stop, step, coefs, wave, strict, emit, own, fresh, state, out):  # out: state, out
    """Walk one way: give the sums of the events passed, or (not emit) only bring the state along."""
    per_cell, last_cell, width = wave[0], float(wave[1].shape[0] - 1), wave[1].shape[1]
    table, poly, gaps, sources, values = pointer(wave[1]), pointer(wave[2]), pointer(gap), pointer(source), pointer(x)
    c_re, c_im = vector(coefs[0]), vector(coefs[1])
    s_re, s_im = load(pointer(state), 0, c_re), load(pointer(state), width // 2, c_re)
    waiting = 0.0  # values at this event's time, not in the state yet
    shift = 1 if step > 0 else 0
    for i in range(first, stop, step):
        prefetch(values, item(sources, i + AHEAD * step if abs(i - stop) > AHEAD else i))
        value = float(item(values, item(sources, i)))
        if emit:
            out[i] = lane_sum(s_re) + (own * value if fresh else out[i])
        waiting += value
        distance = item(gaps, i + shift)
        if not (strict and distance == 0.0):
            d_re, d_im = _factor(distance, per_cell, last_cell, table, poly, width, c_re)
            s_re, s_im = _times(d_re, d_im, s_re + c_re * waiting, s_im + c_im * waiting)
            waiting = 0.0
    store(pointer(state), 0, s_re)
    store(pointer(state), width // 2, s_im)


@jit(**JIT)
def walk_columns(
    gap, source, x, column, first, stop, step, coefs, wave, strict, emit, own, fresh, state, out
):  # out: state, out
    """As `walk_one` for several columns of x at once, from `column` on: a lane is a column, and the terms take turns.

    out : (events, lanes); state : (terms, 2, lanes). own : a tuple, one lane a column.
    """
    weights = np.array(coefs)
    factors = empty_aligned(CHUNK, wave[1].shape[1])
    waiting = np.zeros(out.shape[1])
    shift = 1 if step > 0 else 0
    for start in range(first, stop, CHUNK * step):
        end = start + step * min(CHUNK, (stop - start) * step)
        low = min(start, end - step) + shift
        _find_factors(gap, low, low + abs(end - start), coefs[0], wave, factors)
        _run_columns(
            gap, source, x, column, start, end, step, weights, factors, low, strict, emit, own, fresh, waiting, state, out
        )


@jit(**JIT)
def walk_columns_both(
    gap, source, x, column, first, stop, coefs, wave, own, fresh, before, behind, out
):  # out: out
    """As `walk_both` for several columns; small keys are walked both ways while their factors and sums are in the cache."""
    weights = np.array(coefs)
    factors = empty_aligned(CHUNK + 1, wave[1].shape[1])
    waiting = np.zeros(out.shape[1])
    state = np.empty_like(before)
    low = first
    while low < stop:
        high = chunk_end(gap, low, stop, CHUNK)
        whole = high - low <= CHUNK
        if whole:
            _find_factors(gap, low, high + 1, coefs[0], wave, factors)
        for step in (1, -1):
            way = (low, high, 1) if step > 0 else (high - 1, low - 1, -1)
            state[:] = 0.0
            if step > 0 and low == first:
                state[:] = before
            if step < 0 and high == stop:
                state[:] = behind
            start = fresh and step > 0
            if whole:
                _run_columns(
                    gap, source, x, column, *way, weights, factors, low, False, True, own, start, waiting, state, out
                )
            else:
                walk_columns(gap, source, x, column, *way, coefs, wave, False, True, own, start, state, out)
        low = high


@jit(**JIT)
def _find_factors(gap, low, high, lanes, wave, factors):  # out: factors
    """exp(-rates * gap[q]) for low <= q < high: real parts, imaginary parts."""
    per_cell, last_cell, width = wave[0], float(wave[1].shape[0] - 1), wave[1].shape[1]
    table, poly, target, like = pointer(wave[1]), pointer(wave[2]), pointer(factors), vector(lanes)
    cells, offsets = np.empty(high - low, np.int64), np.empty(high - low)
    for q in range(high - low):  # a plain loop, which the compiler turns into vector instructions
        r = min(gap[low + q] * per_cell, last_cell)
        cells[q] = int(r + 0.5)
        offsets[q] = r - cells[q]
    for q in range(high - low):
        d_re, d_im = _look_up(cells[q], offsets[q], table, poly, width, like)
        store(target, q * width, d_re)
        store(target, q * width + width // 2, d_im)


@jit(**JIT)
def _run_columns(
    gap, source, x, column, first, stop, step, weights, factors, low, strict, emit, own, fresh, waiting, state, out
):  # out: waiting, state, out
    """Walk through a chunk whose factors were found, those of gap[low] first."""
    own_v = vector(own)
    gaps, sources, values, sums = pointer(gap), pointer(source), pointer(x), pointer(out)
    states, c, d = pointer(state), pointer(weights), pointer(factors)
    n_terms, lanes, n_columns, width = state.shape[0], out.shape[1], x.shape[1], factors.shape[1]
    half = width // 2
    shift = 1 if step > 0 else 0
    held = load(pointer(waiting), 0, own_v)
    total = zeros(own_v)
    for k in range(n_terms):
        total = total + load(states, 2 * k * lanes, own_v)
    for i in range(first, stop, step):
        prefetch(values, item(sources, i + AHEAD * step if abs(i - stop) > AHEAD else i) * n_columns + column)
        value = load(values, item(sources, i) * n_columns + column, own_v)
        if emit:
            store(sums, i * lanes, total + (own_v * value if fresh else load(sums, i * lanes, own_v)))
        held = held + value
        if not (strict and item(gaps, i + shift) == 0.0):
            at = (i + shift - low) * width
            total = zeros(own_v)
            for k in range(n_terms):  # s_k <- factors[k] * (s_k + coefs[k] * value)
                s_re = load(states, 2 * k * lanes, held) + item(c, k) * held
                s_im = load(states, (2 * k + 1) * lanes, held) + item(c, half + k) * held
                n_re = item(d, at + k) * s_re - item(d, at + half + k) * s_im
                n_im = item(d, at + half + k) * s_re + item(d, at + k) * s_im
                store(states, 2 * k * lanes, n_re)
                store(states, (2 * k + 1) * lanes, n_im)
                total = total + n_re
            held = zeros(own_v)
    store(pointer(waiting), 0, held)
