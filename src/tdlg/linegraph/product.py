"""y = H x over a layout, on one thread or many.

The events are cut into stretches of equal length, one per thread, wherever the cuts fall: also within the events of a hub.
A stretch needs the state of the walk at its cuts, which depends on the stretches before and behind it; short walks without
output compute it first.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import replace
from functools import cache, partial
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tdlg._kernels import BOTH, FUTURE
from tdlg.linegraph.events import Layout
from tdlg.linegraph.walks import LANES, Floats, Stretch, Walk, empty_on_lines

EVENTS_PER_THREAD = 20_000  # fewer events do not make up for the cost of a thread


def multiply(layout: Layout, walks: Sequence[Walk], x: Floats, view: int, own: float, n_threads: int) -> Floats:
    """H @ x for x of shape (n_cols, columns), in x's own precision; the walks' states are float64.

    own : the weight of the entry of an event with itself.
    """
    n_threads = max(1, min(n_threads, layout.n_events // EVENTS_PER_THREAD))
    y = np.empty((layout.row_slots.shape[0], x.shape[1]), x.dtype)
    if x.shape[1] == 1:
        flat = x[:, 0] if layout.is_square else np.append(x[:, 0], x.dtype.type(0))  # 0 for events without a column
        with layout.one_value_per_event(x.dtype) as per_event:
            _event_sums(layout, walks, flat, view, own, n_threads, per_event)
            _edge_sums(layout, per_event, 0, n_threads, y)
        return y
    lanes = empty_on_lines((x.shape[0] + 1, LANES), x.dtype)
    per_event = empty_on_lines((layout.n_events + 1, LANES), x.dtype)
    lanes[-1] = per_event[-1] = 0.0
    for column in range(0, x.shape[1], LANES):
        _in_shares(n_threads, x.shape[0], partial(_take_lanes, x, column, lanes))
        _event_sums(layout, walks, lanes, view, own, n_threads, per_event)
        _edge_sums(layout, per_event, column, n_threads, y)
    return y


def _take_lanes(x: Floats, column: int, lanes: Floats, first: int, stop: int) -> None:
    """Copy some columns of x, from `column` on, side by side; lanes without a column are 0."""
    n = min(LANES, x.shape[1] - column)
    lanes[first:stop, :n] = x[first:stop, column : column + n]
    lanes[first:stop, n:] = 0.0


def _event_sums(
    layout: Layout, walks: Sequence[Walk], x: Floats, view: int, own: float, n_threads: int, out: Floats
) -> None:
    """For each event, the decayed sum over the other events of its key that it sees, plus its own value times `own`."""
    cuts = _cuts(layout.gap, n_threads)
    step = -1 if view == FUTURE else 1
    n, strict = layout.n_events, view != BOTH
    whole = Stretch(layout, x, first=0, stop=n, step=step, strict=strict, emit=True, own=own, fresh=True)
    for walk in walks:
        stretches = [whole.part(low, high, step) for low, high in pairwise(cuts)]
        outs = [out] * len(stretches)
        if view == BOTH:
            _each(walk.run_both, stretches, *_states_at_cuts(walk, whole, cuts, (1, -1), out), outs)
        else:
            _each(walk.run, stretches, *_states_at_cuts(walk, whole, cuts, (step,), out), outs)
        whole = replace(whole, fresh=False)


def _states_at_cuts(
    walk: Walk, whole: Stretch, cuts: Sequence[int], steps: Sequence[int], out: Floats
) -> list[list[NDArray[Any]]]:
    """The states in which a walk enters each stretch, for each step: from before it (1) or from behind it (-1).

    At every cut, a walk without output covers the events of the cut key in the neighbouring stretch; events further away
    are included through the state of that stretch.
    """
    n_parts = len(cuts) - 1
    states = [[walk.no_state(out.size // out.shape[0]) for _ in range(n_parts)] for _ in steps]
    if n_parts == 1:
        return states
    distances = np.full((len(steps), n_parts), np.nan)  # ticks to the state of the neighbouring stretch, if it counts
    quiet = replace(whole, emit=False)

    def enter(row: int, part: int) -> None:
        low, high, distances[row, part] = _reach_of_cut(walk, whole.layout.gap, cuts, part, steps[row])
        walk.run(quiet.part(low, high, steps[row]), states[row][part], out)

    errands = [(row, part) for row in range(len(steps)) for part in range(n_parts) if 0 <= part - steps[row] < n_parts]
    _each(enter, *zip(*errands, strict=True))
    for row, step in enumerate(steps):
        for part in range(n_parts) if step > 0 else reversed(range(n_parts)):
            if not np.isnan(distances[row, part]):
                states[row][part] += walk.faded(states[row][part - step], distances[row, part])
    return states


def _reach_of_cut(
    walk: Walk, gap: NDArray[np.float64], cuts: Sequence[int], part: int, step: int
) -> tuple[int, int, float]:
    """The events low <= e < high of the stretch before (or behind) that a stretch depends on.

    If they are the whole stretch, also the distance to the events further away; else NaN.
    """
    from tdlg._kernels.recurrence import span

    cut, limit = (cuts[part], cuts[part - 1]) if step > 0 else (cuts[part + 1], cuts[part + 2])
    end, distance = span(gap, cut, limit, -step, walk.reach)
    return min(end, cut), max(end, cut), distance if end == limit else np.nan


def _edge_sums(layout: Layout, per_event: Floats, column: int, n_threads: int, y: Floats) -> None:
    """Write for each row the sum over its events into y, from `column` on."""
    from tdlg._kernels.recurrence import edge_sums, edge_sums_one

    def share(first: int, stop: int) -> None:
        if per_event.ndim == 1:
            edge_sums_one(layout.row_slots, per_event, first, stop, y[:, 0])
        else:
            edge_sums(layout.row_slots, per_event, column, first, stop, y)

    _in_shares(n_threads, y.shape[0], share)


def _cuts(gap: NDArray[np.float64], n_parts: int) -> list[int]:
    """Cut the events into stretches of about the same length, but never between two events at the same time."""
    n_events = gap.size - 1
    cuts = [0]
    for part in range(1, n_parts):
        cut = max(cuts[-1], n_events * part // n_parts)
        while cut < n_events and gap[cut] == 0.0:
            cut += 1
        cuts.append(cut)
    return [*cuts, n_events]


def _in_shares(n_threads: int, size: int, work: Callable[[int, int], None]) -> None:
    """work(first, stop) over equal shares of 0 .. size - 1."""
    ends = [size * part // n_threads for part in range(n_threads + 1)]
    _each(work, ends[:-1], ends[1:])


def _each(work: Callable[..., None], *arguments: Sequence[Any]) -> None:
    """map(work, *arguments), with one thread per call: kernels release the interpreter's lock."""
    calls = list(zip(*arguments, strict=True))
    others = [_pool().submit(work, *call) for call in calls[1:]]
    try:
        work(*calls[0])
    finally:
        wait(others)  # also when interrupted: they still write
    for other in others:
        other.result()


@cache
def _pool() -> ThreadPoolExecutor:
    """Threads for all products; they start when they are first needed."""
    return ThreadPoolExecutor(256, thread_name_prefix="tdlg")


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pool.cache_clear)  # threads do not survive a fork
