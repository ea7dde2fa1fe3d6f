"""The walk of `recurrence.py` for a Gaussian, in vector registers: one lane a term of its sum of complex exponentials.

Real and imaginary parts lie in two vectors. The factors exp(-rates * gap) of all terms are looked up and corrected at once:
with the gap in cells of a table, r = cell + offset and |offset| <= 1/2,

    exp(-rates * r) = table[cell] * (1 + offset * poly(offset)),        poly(z) ~ (exp(-rates * z) - 1) / z.

The form 1 + z * poly(z) makes the factor of a small gap accurate in its distance from 1, so that errors do not add up over
the many small gaps of a hub.
"""

import numpy as np
from numba import jit

from tdlg._kernels import JIT
from tdlg._kernels.vectors import keep_if, lane_sum, load, prefetch, store, vector, zeros

DEGREE = 6  # coefficients of poly, known when compiling so that its loop unrolls
AHEAD = 24  # events between asking for a value of x and using it


@jit(**JIT)
def _factor(gap, per_cell, table, poly, like):
    """exp(-rates * gap), one lane a term: its real and its imaginary part."""
    width = table.shape[1]
    half = width // 2
    r = min(gap * per_cell, float(table.shape[0] - 1))  # the last cell stands for infinity and is 0
    cell = int(r + 0.5)
    z = r - cell
    p_re, p_im = load(poly, (DEGREE - 1) * width, like), load(poly, (DEGREE - 1) * width + half, like)
    for k in range(DEGREE - 2, -1, -1):
        p_re = p_re * z + load(poly, k * width, like)
        p_im = p_im * z + load(poly, k * width + half, like)
    p_re = p_re * z + 1.0
    p_im = p_im * z
    t_re, t_im = load(table, cell * width, like), load(table, cell * width + half, like)
    return t_re * p_re - t_im * p_im, t_re * p_im + t_im * p_re


@jit(**JIT)
def _advance(s_re, s_im, value, gap, c_re, c_im, per_cell, table, poly):
    """S <- exp(-rates * gap) * (s + coefs * value), and 0 where a key begins."""
    d_re, d_im = _factor(gap, per_cell, table, poly, c_re)
    s_re, s_im = s_re + c_re * value, s_im + c_im * value
    n_re, n_im = s_re * d_re - s_im * d_im, s_re * d_im + s_im * d_re
    same_key = gap < np.inf
    return keep_if(same_key, n_re), keep_if(same_key, n_im)


@jit(**JIT)
def walk_both(gap, source, x, first, stop, coefs, wave, own, fresh, before, behind, out):  # out: out
    """Give events first .. stop - 1 the sums of all earlier and all later events of their keys.

    Two walks towards each other in one loop, so that the processor works on one while it waits for the other.

    coefs : real parts, imaginary parts; tuples, one lane a term. wave : cells per tick, table, poly.
    own : what an event's own value counts; fresh : whether `out` starts here, or is added to.
    before, behind : the states at `first` and at `stop - 1` of what lies outside.
    """
    per_cell, table, poly = wave
    c_re, c_im = vector(coefs[0]), vector(coefs[1])
    half = table.shape[1] // 2
    f_re, f_im = load(before, 0, c_re), load(before, half, c_re)
    b_re, b_im = load(behind, 0, c_re), load(behind, half, c_re)
    f_gap, b_gap, f_x, b_x = 0.0, 0.0, 0.0, 0.0
    n = stop - first
    for k in range(n):
        i, j = first + k, stop - 1 - k
        prefetch(x, source[min(i + AHEAD, stop - 1)])
        prefetch(x, source[max(j - AHEAD, first)])
        f_re, f_im = _advance(f_re, f_im, f_x, f_gap, c_re, c_im, per_cell, table, poly)
        b_re, b_im = _advance(b_re, b_im, b_x, b_gap, c_re, c_im, per_cell, table, poly)
        f_x, b_x = float(x[source[i]]), float(x[source[j]])
        f_gap, b_gap = gap[i + 1], gap[j]
        if i < j:  # neither walk was here before
            out[i] = lane_sum(f_re) + (own * f_x if fresh else out[i])
            out[j] = lane_sum(b_re) + (own * b_x if fresh else out[j])
        elif i == j:
            out[i] = lane_sum(f_re) + lane_sum(b_re) + (own * f_x if fresh else out[i])
        else:
            out[i] += lane_sum(f_re)
            out[j] += lane_sum(b_re)


@jit(**JIT)
def walk_one(gap, source, x, first, stop, step, coefs, wave, strict, emit, own, fresh, state, out):  # out: state, out
    """Walk one way only: give the sums of the events passed, or (not emit) only bring the state along to `stop`."""
    per_cell, table, poly = wave
    c_re, c_im = vector(coefs[0]), vector(coefs[1])
    half = table.shape[1] // 2
    s_re, s_im = load(state, 0, c_re), load(state, half, c_re)
    value = 0.0
    shift = 0 if step > 0 else 1
    for i in range(first, stop, step):
        distance = gap[i + shift] if i != first else 0.0
        if not (strict and distance == 0.0):
            s_re, s_im = _advance(s_re, s_im, value, distance, c_re, c_im, per_cell, table, poly)
            value = 0.0
        this = float(x[source[i]])
        if emit:
            out[i] = lane_sum(s_re) + (own * this if fresh else out[i])
        value += this
    s_re, s_im = _advance(s_re, s_im, value, gap[stop + shift], c_re, c_im, per_cell, table, poly)
    store(state, 0, s_re)
    store(state, half, s_im)


@jit(**JIT)
def walk_columns(
    gap, source, x, column, first, stop, step, coefs, wave, strict, emit, own, fresh, state, out
):  # out: state, out
    """As `walk_one` for several columns of x at once, from `column` on: a lane is a column, and the terms take turns.

    out : (events, lanes); state : (terms, 2, lanes). own : a tuple, one lane a column.
    """
    per_cell, table, poly = wave
    c_re, c_im = vector(coefs[0]), vector(coefs[1])
    own_v = vector(own)
    half = table.shape[1] // 2
    lanes = out.shape[1]
    factors, weights = np.empty(2 * half), np.empty(2 * half)
    store(weights, 0, c_re)
    store(weights, half, c_im)
    value = zeros(own_v)
    total = value
    for k in range(state.shape[0]):
        total = total + load(state, 2 * k * lanes, own_v)
    shift = 0 if step > 0 else 1
    for i in range(first, stop, step):
        distance = gap[i + shift] if i != first else 0.0
        if not (strict and distance == 0.0):
            total = _advance_columns(distance, c_re, per_cell, table, poly, weights, factors, value, state)
            value = zeros(own_v)
        this = load(x, source[i] * x.shape[1] + column, own_v)
        if emit:
            store(out, i * lanes, total + (own_v * this if fresh else load(out, i * lanes, own_v)))
        value = value + this
    _advance_columns(gap[stop + shift], c_re, per_cell, table, poly, weights, factors, value, state)


@jit(**JIT)
def _advance_columns(gap, like, per_cell, table, poly, weights, factors, value, state):  # out: factors, state
    """s_k <- exp(-rates[k] * gap) * (s_k + coefs[k] * value) for every term k; returns the sum of the real parts."""
    half = table.shape[1] // 2
    lanes = state.shape[2]
    d_re, d_im = _factor(gap, per_cell, table, poly, like)
    store(factors, 0, d_re)
    store(factors, half, d_im)
    same_key = gap < np.inf
    total = zeros(value)
    for k in range(state.shape[0]):
        s_re = load(state, 2 * k * lanes, value) + weights[k] * value
        s_im = load(state, (2 * k + 1) * lanes, value) + weights[half + k] * value
        n_re = keep_if(same_key, factors[k] * s_re - factors[half + k] * s_im)
        n_im = keep_if(same_key, factors[half + k] * s_re + factors[k] * s_im)
        store(state, 2 * k * lanes, n_re)
        store(state, (2 * k + 1) * lanes, n_im)
        total = total + n_re
    return total
