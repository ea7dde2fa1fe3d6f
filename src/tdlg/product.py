"""y = H x over a layout, on one thread or many.

The events are cut into stretches of equal length, one a thread, wherever that falls: a hub is cut in time. What a stretch
must know of those before and behind it is the state of the walk at the cut, which short walks without output bring along
first.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tdlg.layout import Layout
from tdlg.walks import LANES, Stretch, Walk, empty_aligned

__all__ = ["BOTH", "FUTURE", "PAST", "default_threads", "multiply"]

PAST, BOTH, FUTURE = -1, 0, 1  # which columns a row sees
EVENTS_A_THREAD = 20_000  # fewer are not worth waking a thread

Floats = NDArray[Any]  # float64 or float32


def multiply(layout: Layout, walks: Sequence[Walk], x: Floats, view: int, own: float, n_threads: int) -> Floats:
    """H @ x for x of shape (n_cols, columns), in x's own precision; sums are kept in float64.

    own : what the entry of an event with itself counts.
    """
    n_columns = x.shape[1]
    y = np.empty((layout.row_slots.shape[0], n_columns), x.dtype)
    n_threads = max(1, min(n_threads, layout.n_events // EVENTS_A_THREAD))
    cuts = _cuts(layout.gap, n_threads)
    x = _padded(layout, x)
    with layout.one_value_an_event(x.dtype) if x.ndim == 1 else _lanes_an_event(layout, x.dtype) as per_event:
        for column in range(0, n_columns, LANES):
            whole = Stretch(layout, x, column, 0, layout.n_events, 1, view != BOTH, True, own, True)
            _event_sums(whole, walks, view, cuts, per_event)
            _edge_sums(layout, per_event, column, n_threads, y)
    return y


@contextmanager
def _lanes_an_event(layout: Layout, dtype: Any) -> Iterator[Floats]:
    """Work space for several columns, its last row 0; too large to be kept."""
    space = empty_aligned((layout.n_events + 1, LANES), dtype)
    space[-1] = 0.0
    yield space


def _padded(layout: Layout, x: Floats) -> Floats:
    """A single column flat, or columns in full lanes; and where events have no column, a row of zeros for them."""
    n_rows = x.shape[0] + (not layout.is_square)
    if x.shape[1] == 1:
        flat = x[:, 0]
        return flat if layout.is_square else np.append(flat, x.dtype.type(0))
    n_columns = -(-x.shape[1] // LANES) * LANES
    if (n_rows, n_columns) == x.shape:
        return x
    padded = np.zeros((n_rows, n_columns), x.dtype)
    padded[: x.shape[0], : x.shape[1]] = x
    return padded


def _event_sums(whole: Stretch, walks: Sequence[Walk], view: int, cuts: Sequence[int], out: Floats) -> None:
    """For each event the decayed sum of the others of its key that it sees."""
    parts = range(len(cuts) - 1)
    outs = [out] * len(parts)
    step = -1 if view == FUTURE else 1
    for walk in walks:
        stretches = [whole.part(cuts[part], cuts[part + 1], step) for part in parts]
        if view == BOTH:
            before, behind = (_states_at_cuts(walk, whole, cuts, way, out) for way in (1, -1))
            _each(walk.run_both, stretches, before, behind, outs)
        else:
            _each(walk.run, stretches, _states_at_cuts(walk, whole, cuts, step, out), outs)
        whole = replace(whole, fresh=False)


def _states_at_cuts(walk: Walk, whole: Stretch, cuts: Sequence[int], step: int, out: Floats) -> list[NDArray[Any]]:
    """The state in which a walk enters each stretch, from what lies before it (step 1) or behind it (step -1)."""
    from tdlg._kernels.recurrence import span_before, span_behind

    n_parts = len(cuts) - 1
    states = [walk.no_state(out.size // out.shape[0]) for _ in range(n_parts)]
    if n_parts == 1:
        return states
    gap, quiet = whole.layout.gap, replace(whole, emit=False)
    inner = range(1, n_parts)
    if step > 0:
        spans = [span_before(gap, cuts[part], cuts[part - 1], walk.reach) for part in inner]
        stretches = [quiet.part(span[0], cuts[part], 1) for part, span in zip(inner, spans, strict=True)]
        _each(walk.run, stretches, states[1:], [out] * len(inner))
        for part, (first, distance) in zip(inner, spans, strict=True):
            if first == cuts[part - 1]:  # the key began in an earlier stretch
                states[part] += walk.faded(states[part - 1], distance)
    else:
        spans = [span_behind(gap, cuts[part], cuts[part + 1], walk.reach) for part in inner]
        stretches = [quiet.part(cuts[part], span[0], -1) for part, span in zip(inner, spans, strict=True)]
        _each(walk.run, stretches, states[:-1], [out] * len(inner))
        for part, (stop, distance) in reversed(list(zip(inner, spans, strict=True))):
            if stop == cuts[part + 1]:
                states[part - 1] += walk.faded(states[part], distance)
    return states


def _edge_sums(layout: Layout, per_event: Floats, column: int, n_threads: int, y: Floats) -> None:
    from tdlg._kernels.recurrence import edge_sums, edge_sums_one

    shares = [y.shape[0] * part // n_threads for part in range(n_threads + 1)]
    if per_event.ndim == 1:
        flat = y[:, 0]
        _each(
            lambda first, stop: edge_sums_one(layout.row_slots, per_event, first, stop, flat), shares[:-1], shares[1:]
        )
    else:
        _each(
            lambda first, stop: edge_sums(layout.row_slots, per_event, column, first, stop, y), shares[:-1], shares[1:]
        )


def _cuts(gap: NDArray[np.float64], n_parts: int) -> list[int]:
    """Cut the events into stretches of about the same length, but never between two at the same time."""
    n_events = gap.size - 1
    cuts = [0]
    for part in range(1, n_parts):
        cut = max(cuts[-1], n_events * part // n_parts)
        while cut < n_events and gap[cut] == 0.0:
            cut += 1
        cuts.append(cut)
    return [*cuts, n_events]


def _each(work: Callable[..., None], *arguments: Sequence[Any]) -> None:
    """map(work, *arguments), each call on a thread of its own: kernels release the interpreter's lock."""
    calls = list(zip(*arguments, strict=True))
    others = [_pool(len(calls)).submit(work, *call) for call in calls[1:]]
    work(*calls[0])
    for other in others:
        other.result()


@lru_cache(maxsize=1)
def _pool(n_threads: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(n_threads, thread_name_prefix="tdlg")


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pool.cache_clear)  # threads do not survive a fork


def default_threads() -> int:
    """TDLG_NUM_THREADS, or the number of cores that this process may use."""
    wish = os.environ.get("TDLG_NUM_THREADS", "")
    if wish.isdecimal() and int(wish) > 0:
        return int(wish)
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
