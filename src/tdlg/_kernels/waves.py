"""The walk of `recurrence.py` for a Gaussian, in vector registers: one lane per term of its sum of complex exponentials.

Real and imaginary parts lie in two vectors. The factors exp(-rates * gap) of all terms are looked up and corrected at
once: with the gap in cells of a table, r = cell + z and |z| <= 1/2,

    exp(-rates * r) = table[cell] * (1 + z * poly(z)),        poly(z) ~ (exp(-rates * z) - 1) / z.

What is kept is the *loss*, exp(-rates * gap) - 1. Small gaps have factors near 1, and their rounding would add up over a
hub of equal gaps; the loss of a small gap is right to its last digits. Where a key begins, the gap is infinite and the
loss is -1: the table's last entry is 0.

All walks take x to be finite. `wave` is (cells per tick, table, poly); `coefs` is (real parts, imaginary parts), two
tuples with one lane per term; `own`, `fresh`, `strict`, `emit` and `state` mean what they mean in `recurrence.walk`.
"""

import numpy as np

from tdlg._kernels.compiled import compiled
from tdlg._kernels.layout import chunk_end
from tdlg._kernels.vectors import (
    empty_aligned,
    item,
    lane_sum,
    lane_sums,
    load,
    pointer,
    prefetch,
    store,
    vector,
    zeros,
)

DEGREE = 6  # of 1 + z * poly(z)
AHEAD = 24  # events between asking for a value of x and using it
WAVE_EVENTS = 1024  # events whose losses (128 kB) stay in the second cache
DENSE = 8  # cells of the table: a shorter chunk belongs to so many events that their rounding errors would add up


@compiled
def _find_losses(gap, low, high, lanes, wave, losses):  # out: losses
    """exp(-rates * gap[q]) - 1 for low <= q < high: real parts, imaginary parts."""
    per_cell, last_cell, width = wave[0], float(wave[1].shape[0] - 1), wave[1].shape[1]
    table, poly, target, like = pointer(wave[1]), pointer(wave[2]), pointer(losses), vector(lanes)
    cells, offsets = np.empty(high - low, np.int64), np.empty(high - low)
    for q in range(high - low):  # a plain loop, which the compiler turns into vector instructions
        r = min(gap[low + q] * per_cell, last_cell)
        cells[q] = int(r + 0.5)
        offsets[q] = r - cells[q]
    for q in range(high - low):
        m_re, m_im = _look_up(cells[q], offsets[q], table, poly, width, like)
        store(target, q * width, m_re)
        store(target, q * width + width // 2, m_im)


@compiled
def _look_up(cell, z, table, poly, width, like):
    """table[cell] * (1 + z * poly(z)) - 1, the 1s taken off before anything is rounded."""
    half = width // 2
    p_re, p_im = load(poly, (DEGREE - 1) * width, like), load(poly, (DEGREE - 1) * width + half, like)
    for k in range(DEGREE - 2, -1, -1):
        p_re = p_re * z + load(poly, k * width, like)
        p_im = p_im * z + load(poly, k * width + half, like)
    p_re, p_im = p_re * z, p_im * z
    t_re, t_im = load(table, cell * width, like), load(table, cell * width + half, like)
    return (t_re - 1.0) + t_re * p_re - t_im * p_im, t_im + t_re * p_im + t_im * p_re


@compiled
def walk_both(gap, source, x, first, stop, coefs, wave, own, fresh, before, behind, out):  # out: out
    """Give events first .. stop - 1 the sums of all earlier and all later events of their keys.

    Both walks need the loss of every gap, so in chunks of whole keys it is found once for both; a key longer than a chunk is
    walked up in chunks, then down.
    before, behind : the states at `first` and at `stop - 1` of what lies outside.
    """
    losses, values = empty_aligned(WAVE_EVENTS + 1, wave[1].shape[1]), np.empty(WAVE_EVENTS)
    nothing = np.zeros_like(before)
    low = first
    while low < stop:
        high = chunk_end(gap, low, stop, WAVE_EVENTS)
        front, back = before if low == first else nothing, behind if high == stop else nothing
        if high - low <= WAVE_EVENTS:
            _find_losses(gap, low, high + 1, coefs[0], wave, losses)
            for q in range(high - low):
                values[q] = x[source[low + q]]
            _meet(values, low, high, coefs, losses, own, fresh, front, back, out)
        else:
            walk_one(gap, source, x, low, high, 1, coefs, wave, False, True, own, fresh, front.copy(), out)
            walk_one(gap, source, x, high - 1, low - 1, -1, coefs, wave, False, True, own, False, back.copy(), out)
        low = high


@compiled
def _meet(values, low, high, coefs, losses, own, fresh, front, back, out):  # out: out
    """Two walks towards each other in one loop, so that the processor works on one while it waits for the other."""
    width = losses.shape[1]
    half = width // 2
    m, x, sums = pointer(losses), pointer(values), pointer(out)
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
        f_re, f_im = _fade(load(m, f_at, c_re), load(m, f_at + half, c_re), f_re + c_re * f_x, f_im + c_im * f_x)
        b_re, b_im = _fade(load(m, b_at, c_re), load(m, b_at + half, c_re), b_re + c_re * b_x, b_im + c_im * b_x)


@compiled
def _is_dense(gap, low, n, lanes, wave):
    """Whether a whole chunk of gaps from `low` on is short; not where a key begins in it."""
    if n < WAVE_EVENTS:
        return False
    gaps, total = pointer(gap), zeros(vector(lanes))
    for q in range(0, WAVE_EVENTS, len(lanes)):  # several sums at once: one would wait for each addition
        total = total + load(gaps, low + q, total)
    return lane_sum(total) * wave[0] < DENSE


@compiled
def _fade(m_re, m_im, s_re, s_im):
    """S * (1 + m), for complex s and m."""
    return s_re + s_re * m_re - s_im * m_im, s_im + s_re * m_im + s_im * m_re


@compiled
def walk_one(gap, source, x, first, stop, step, coefs, wave, strict, emit, own, fresh, state, out):  # out: state, out
    """Walk one way: give the sums of the events passed, or (not emit) only bring the state along."""
    losses, values = empty_aligned(WAVE_EVENTS, wave[1].shape[1]), np.empty(WAVE_EVENTS)
    waiting = 0.0
    shift = 1 if step > 0 else 0
    for start in range(first, stop, WAVE_EVENTS * step):
        n = min(WAVE_EVENTS, (stop - start) * step)
        low = start if step > 0 else start - n + 1
        _find_losses(gap, low + shift, low + shift + n, coefs[0], wave, losses)
        for q in range(n):
            values[q] = x[source[low + q]]
        dense = _is_dense(gap, low + shift, n, coefs[0], wave)
        waiting = _run_wave(
            gap, values, low, n, step, coefs, losses, dense, strict, emit, own, fresh, waiting, state, out
        )


@compiled
def _run_wave(
    gap, values, low, n, step, coefs, losses, is_dense, strict, emit, own, fresh, waiting, state, out
):  # out: state, out
    """Walk up or down through the events low .. low + n - 1; returns the values that are not in the state yet.

    If they are dense, what came before them stays as it was, in p, with its loss since then in f, and is added to what comes
    here, in s, only at the end: so the sum of n events is rounded n / WAVE_EVENTS times, not n times.
    """
    width = losses.shape[1]
    half = width // 2
    m, x, gaps, sums = pointer(losses), pointer(values), pointer(gap), pointer(out)
    c_re, c_im = vector(coefs[0]), vector(coefs[1])
    s_re, s_im = load(pointer(state), 0, c_re), load(pointer(state), half, c_re)
    p_re, p_im, f_re, f_im = zeros(c_re), zeros(c_re), zeros(c_re), zeros(c_re)
    if is_dense:
        p_re, p_im, s_re, s_im = s_re, s_im, p_re, p_im
    shift = 1 if step > 0 else 0
    for at in range(n):
        q = at if step > 0 else n - 1 - at
        value = item(x, q)
        if emit:
            total = s_re + _fade(f_re, f_im, p_re, p_im)[0] if is_dense else s_re
            out[low + q] = lane_sum(total) + (own * value if fresh else item(sums, low + q))
        waiting += value
        if not (strict and item(gaps, low + q + shift) == 0.0):
            m_re, m_im = load(m, q * width, c_re), load(m, q * width + half, c_re)
            s_re, s_im = _fade(m_re, m_im, s_re + c_re * waiting, s_im + c_im * waiting)
            if is_dense:
                f_re, f_im = _fade(m_re, m_im, f_re, f_im)
                f_re, f_im = m_re + f_re, m_im + f_im
            waiting = 0.0
    p_re, p_im = _fade(f_re, f_im, p_re, p_im)
    store(pointer(state), 0, p_re + s_re)
    store(pointer(state), half, p_im + s_im)
    return waiting


@compiled
def walk_columns(
    gap, source, x, first, stop, step, coefs, wave, strict, emit, own, fresh, state, out
):  # out: state, out
    """As `walk_one` for several columns of x at once: a lane is a column, and the terms take turns.

    x : (columns of H, lanes); out : (events, lanes); state : (terms, 2, lanes). own : a tuple, one lane per column.
    """
    weights = np.array(coefs)
    losses = empty_aligned(WAVE_EVENTS, wave[1].shape[1])
    waiting, passed = np.zeros(out.shape[1]), np.empty_like(state)
    shift = 1 if step > 0 else 0
    for start in range(first, stop, WAVE_EVENTS * step):
        end = start + step * min(WAVE_EVENTS, (stop - start) * step)
        low = min(start, end - step) + shift
        _find_losses(gap, low, low + abs(end - start), coefs[0], wave, losses)
        is_dense = _is_dense(gap, low, abs(end - start), coefs[0], wave)
        if is_dense:  # as in `_run_wave`, what came before is added apart
            passed[:] = state
            state[:] = 0.0
        _run_columns(
            gap, source, x, start, end, step, weights, losses, low, strict, emit, own, fresh, waiting, state, out
        )
        if is_dense:
            _add_passed(start, end, step, coefs[0], losses, low, emit, own, passed, state, out)


@compiled
def walk_columns_both(gap, source, x, first, stop, coefs, wave, own, fresh, before, behind, out):  # out: out
    """As `walk_both` for several columns; small keys are walked both ways while their losses and sums are in the cache."""
    weights = np.array(coefs)
    losses = empty_aligned(WAVE_EVENTS + 1, wave[1].shape[1])
    waiting = np.zeros(out.shape[1])
    state = np.empty_like(before)
    low = first
    while low < stop:
        high = chunk_end(gap, low, stop, WAVE_EVENTS)
        whole = high - low <= WAVE_EVENTS
        if whole:
            _find_losses(gap, low, high + 1, coefs[0], wave, losses)
        for step in (1, -1):
            way = (low, high, 1) if step > 0 else (high - 1, low - 1, -1)
            state[:] = 0.0
            if step > 0 and low == first:
                state[:] = before
            if step < 0 and high == stop:
                state[:] = behind
            start = fresh and step > 0
            if whole:
                _run_columns(gap, source, x, *way, weights, losses, low, False, True, own, start, waiting, state, out)
            else:
                walk_columns(gap, source, x, *way, coefs, wave, False, True, own, start, state, out)
        low = high


@compiled
def _run_columns(
    gap, source, x, first, stop, step, weights, losses, low, strict, emit, own, fresh, waiting, state, out
):  # out: waiting, state, out
    """Walk through a chunk whose losses were found, those of gap[low] first."""
    own_v = vector(own)
    gaps, sources, values, sums = pointer(gap), pointer(source), pointer(x), pointer(out)
    states, c, m = pointer(state), pointer(weights), pointer(losses)
    n_terms, lanes, width = state.shape[0], out.shape[1], losses.shape[1]
    half = width // 2
    shift = 1 if step > 0 else 0
    held = load(pointer(waiting), 0, own_v)
    total = zeros(own_v)
    for k in range(n_terms):
        total = total + load(states, 2 * k * lanes, own_v)
    for i in range(first, stop, step):
        prefetch(values, item(sources, i + AHEAD * step if abs(i - stop) > AHEAD else i) * lanes)
        value = load(values, item(sources, i) * lanes, own_v)
        if emit:
            store(sums, i * lanes, total + (own_v * value if fresh else load(sums, i * lanes, own_v)))
        held = held + value
        if not (strict and item(gaps, i + shift) == 0.0):
            at = (i + shift - low) * width
            total = zeros(own_v)
            for k in range(n_terms):  # s_k <- (1 + losses[k]) * (s_k + coefs[k] * value)
                s_re = load(states, 2 * k * lanes, held) + item(c, k) * held
                s_im = load(states, (2 * k + 1) * lanes, held) + item(c, half + k) * held
                s_re, s_im = _fade(item(m, at + k), item(m, at + half + k), s_re, s_im)
                store(states, 2 * k * lanes, s_re)
                store(states, (2 * k + 1) * lanes, s_im)
                total = total + s_re
            held = zeros(own_v)
    store(pointer(waiting), 0, held)


@compiled
def _add_passed(first, stop, step, terms, losses, low, emit, own, passed, state, out):  # out: state, out
    """Add what came before a chunk to its sums and to the state behind it."""
    width, lanes = losses.shape[1], out.shape[1]
    half = width // 2
    m, sums, states, before = pointer(losses), pointer(out), pointer(state), pointer(passed)
    loss = np.zeros(width)  # since the chunk began: real parts, imaginary parts, one lane per term
    f, like = pointer(loss), vector(own)
    f_re, f_im = zeros(vector(terms)), zeros(vector(terms))
    shift = 1 if step > 0 else 0
    for i in range(first, stop, step):
        if emit:
            total = load(sums, i * lanes, like)
            for k in range(state.shape[0]):
                p_re, p_im = load(before, 2 * k * lanes, like), load(before, (2 * k + 1) * lanes, like)
                total = total + _fade(item(f, k), item(f, half + k), p_re, p_im)[0]
            store(sums, i * lanes, total)
        at = (i + shift - low) * width
        m_re, m_im = load(m, at, f_re), load(m, at + half, f_re)
        f_re, f_im = _fade(m_re, m_im, f_re, f_im)
        f_re, f_im = m_re + f_re, m_im + f_im
        store(f, 0, f_re)
        store(f, half, f_im)
    for k in range(state.shape[0]):
        p_re, p_im = load(before, 2 * k * lanes, like), load(before, (2 * k + 1) * lanes, like)
        p_re, p_im = _fade(item(f, k), item(f, half + k), p_re, p_im)
        store(states, 2 * k * lanes, load(states, 2 * k * lanes, like) + p_re)
        store(states, (2 * k + 1) * lanes, load(states, (2 * k + 1) * lanes, like) + p_im)
