"""y = H x over a layout, on one thread or many.

The events are cut into equal stretches, one a thread, wherever that falls: a hub is cut in time. What a stretch must know
of those before and behind it is the decayed sum at the cut, which a walk without output brings along first.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tdlg.decay import ExponentialSum
from tdlg.layout import Layout

__all__ = ["BOTH", "FUTURE", "PAST", "default_threads", "multiply"]

PAST, BOTH, FUTURE = -1, 0, 1  # which columns a row sees
EVENTS_A_THREAD = 20_000  # fewer are not worth waking a thread

Floats = NDArray[Any]  # float64 or float32


def multiply(layout: Layout, terms: ExponentialSum, x: Floats, view: int, include_self: bool, n_threads: int) -> Floats:
    """H @ x for x of shape (n_cols, columns), in x's own precision; sums are kept in float64."""
    from tdlg._kernels.recurrence import gather, take_own

    n_threads = max(1, min(n_threads, layout.n_events // EVENTS_A_THREAD))
    if not layout.is_square:
        x = np.concatenate([x, np.zeros_like(x[:1], shape=(1, x.shape[1]))])  # the column of events without one
    cuts = _cuts(layout.gap, n_threads)
    per_event = np.empty((layout.n_events + 1, x.shape[1]), x.dtype)
    per_event[-1] = 0.0
    own = float(terms.coefs.real.sum()) if include_self and view == BOTH else 0.0
    _each(n_threads, lambda i: take_own(layout.source, x, cuts[i], cuts[i + 1], own, per_event))
    for step in (1, -1):
        if view in (BOTH, PAST if step > 0 else FUTURE):
            _walk(layout, terms, x, cuts, step, view != BOTH, per_event)
    n_rows = layout.row_slots.shape[0]
    y = np.empty((n_rows, x.shape[1]), x.dtype)
    shares = [n_rows * i // n_threads for i in range(n_threads + 1)]
    _each(n_threads, lambda i: gather(layout.row_slots, per_event, shares[i], shares[i + 1], y))
    return y


def _walk(
    layout: Layout, terms: ExponentialSum, x: Floats, cuts: Sequence[int], step: int, strict: bool, per_event: Floats
) -> None:
    """Add to every event the decayed sum of what lies before it (step 1) or behind it (step -1)."""
    from tdlg._kernels.recurrence import walk

    n_parts = len(cuts) - 1
    states = np.zeros((n_parts + 1, terms.rates.size, x.shape[1]), complex)
    arguments = layout.gap, layout.source, x, terms.rates, terms.coefs

    def run(part: int, emit: bool) -> None:
        first, stop = (cuts[part], cuts[part + 1]) if step > 0 else (cuts[part + 1] - 1, cuts[part] - 1)
        state = states[part].copy()
        if first != stop:
            walk(*arguments, first, stop, step, strict, emit, state, per_event)
        if not emit:
            states[part + step] += state

    if n_parts > 1:
        order = range(n_parts - 1) if step > 0 else range(n_parts - 1, 0, -1)
        for part in order:
            run(part, emit=False)
    _each(n_parts, lambda part: run(part, emit=True))


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


def _each(n: int, work: Callable[[int], None]) -> None:
    """Do work(0), ..., work(n - 1), each on a thread of its own; kernels release the interpreter's lock."""
    if n == 1:
        work(0)
        return
    futures = [_pool(n).submit(work, i) for i in range(1, n)]
    work(0)
    for future in futures:
        future.result()


@lru_cache(maxsize=1)
def _pool(n_threads: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(n_threads, thread_name_prefix="tdlg")


def default_threads() -> int:
    """TDLG_NUM_THREADS, or the number of cores that this process may use."""
    wish = os.environ.get("TDLG_NUM_THREADS", "")
    if wish.isdecimal() and int(wish) > 0:
        return int(wish)
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
