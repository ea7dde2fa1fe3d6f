"""Decayed sums along sorted events, by recurrences: each event costs the same, however many neighbours it has.

With k(d) = Re sum_k coefs[k] * exp(-rates[k] * d), the sum over all earlier events of one key,

    s_k(i) = sum over j before i of exp(-rates[k] * (t_i - t_j)) * x_j,

follows from the one before it: s_k(i) = exp(-rates[k] * gap_i) * (s_k(i - 1) + x_(i - 1)). The same walk from the other end
gives the later events. At the first event of a key the gap is infinite and the sum starts anew, so the walk needs to know
nothing else of keys.
"""

import numpy as np
from numba import jit

from tdlg._kernels import JIT


@jit(**JIT)
def walk(gap, source, x, rates, coefs, first, stop, step, strict, emit, state, out):  # out: state, out
    """Walk over events first, first + step, ... before stop, adding the decayed sums of what was passed to `out`.

    state : (terms, columns) complex, the sums at `first` of the events passed before the walk; at the end those at `stop`.
    strict : events at the same time do not see each other. emit : whether to add to `out`, or only to bring the state along.
    """
    pending = np.zeros(x.shape[1])  # events not yet in the state: the last one; under `strict` all at the last time
    for i in range(first, stop, step):
        if i != first:
            _advance(state, pending, rates, gap[i] if step > 0 else gap[i + 1], strict)
        if emit:
            for column in range(x.shape[1]):
                total = 0.0
                for k in range(rates.size):
                    total += (coefs[k] * state[k, column]).real
                out[i, column] += total
        for column in range(x.shape[1]):
            pending[column] += x[source[i], column]
    _advance(state, pending, rates, gap[stop] if step > 0 else gap[stop + 1], strict)


@jit(**JIT)
def _advance(state, pending, rates, gap, strict):  # out: state, pending
    if strict and gap == 0.0:
        return
    for k in range(rates.size):
        factor = np.exp(-rates[k] * gap) if gap < np.inf else 0.0j
        for column in range(state.shape[1]):
            state[k, column] = factor * (state[k, column] + pending[column])
    pending[:] = 0.0


@jit(**JIT)
def take_own(source, x, first, stop, weight, out):  # out: out
    """Start each event's sum with its own value, times k(0)."""
    for i in range(first, stop):
        for column in range(x.shape[1]):
            out[i, column] = weight * x[source[i], column]


@jit(**JIT)
def gather(slots, per_event, first, stop, y):  # out: y
    """Y of an edge = the sum over its events; the last entry of `per_event` is 0 and stands for an end that is not there."""
    for i in range(first, stop):
        for column in range(y.shape[1]):
            total = per_event[slots[i, 0], column]
            for end in range(1, slots.shape[1]):
                total += per_event[slots[i, end], column]
            y[i, column] = total
