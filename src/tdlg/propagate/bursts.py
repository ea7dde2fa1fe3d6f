"""Bursts: more edges of a pair, a source or a destination in a short time than its own longer past suggests."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from tdlg.clock import common_clock
from tdlg.edges import TemporalEdges
from tdlg.linegraph.events import check_span
from tdlg.linegraph.product import default_threads

__all__ = ["KEYS", "Arrivals", "BurstCounts", "burst_counts", "burst_surprises", "surprises_of_key"]

Floats = NDArray[np.float64]
Codes = NDArray[np.int32]

KEYS = ("src", "dst", "pair")
FAST, SLOW, LAST = range(3)  # what the state of a key consists of


class Arrivals(NamedTuple):
    """Edges as a stream sees them: what they are counted by, and the order in which they come.

    Attributes
    ----------
    keys
        For each of `KEYS`, one number from 0 per edge, shape (n_edges,).
    ticks, time_unit
        The times, in ticks of this unit.
    order
        The positions of the edges by time; edges at the same time keep the order of their rows.
    """

    keys: tuple[Codes, ...]
    ticks: NDArray[Any]
    time_unit: str | None
    order: Codes

    @classmethod
    def of(cls, edges: TemporalEdges, more: TemporalEdges | None = None) -> Self:
        """The arrivals of edges and, at the same time after them, of more edges, whose nodes may be new.

        Examples
        --------
        >>> arrivals = Arrivals.of(TemporalEdges([7, 8], [9, 9], [2, 1]), TemporalEdges([5], [9], [2]))
        >>> arrivals.order.tolist(), arrivals.keys[0].tolist()
        ([1, 0, 2], [0, 1, 3])
        """
        from tdlg._kernels.layout import dense_codes, stable_argsort

        src, dst, ticks, unit = edges.src_code, edges.dst_code, edges.ticks, edges.time_unit
        if more is not None:
            known = zip(edges.codes_of(more), (more.src_code, more.dst_code), strict=True)
            new = [np.where(code < 0, edges.n_nodes + own, code).astype(np.int32) for code, own in known]
            src, dst = np.concatenate([src, new[0]]), np.concatenate([dst, new[1]])
            *both, unit = common_clock(ticks, unit, more.ticks, more.time_unit)
            ticks = np.concatenate(both)
        check_span(ticks)
        pairs = src.astype(np.int64) * (int(dst.max(initial=-1)) + 1) + dst
        return cls((src, dst, dense_codes(pairs, stable_argsort(pairs))), ticks, unit, stable_argsort(ticks))


def new_state(n_keys: int) -> Floats:
    """The state of keys that have no edge yet: the fast count, the slow count, and the ticks of the last edge."""
    return np.zeros((n_keys, LAST + 1))


def burst_surprises(arrivals: Arrivals, fast: float, slow: float, n_threads: int | None = None) -> Floats:
    """How surprising each edge is as part of a burst, in decimal digits of a probability, shape (n_edges,).

    Every edge is counted by its source, its destination and its pair, with itself and all edges that come before it; an
    edge that is d ticks old counts exp(-d / width). If a key has the count f for the fast width and s for the slow width,
    and a share p of s was expected in f, the surprise is that of f or more successes among s trials of probability p:

        s * KL(f / s || p) / ln 10      if f > p * s, else 0        (the Chernoff bound of the binomial tail)

    with p = fast * (1 - exp(-a / fast)) / (slow * (1 - exp(-a / slow))), a being the ticks since the first edge of all. The
    result is the largest surprise of the three.

    Parameters
    ----------
    arrivals
        The edges.
    fast, slow
        The widths of the decays, in ticks.
    n_threads
        Number of threads, one per key. By default all cores are used.

    Examples
    --------
    >>> edges = TemporalEdges(["a", "b", "b", "b"], ["x", "y", "z", "x"], [0, 100, 100, 100])
    >>> burst_surprises(Arrivals.of(edges), fast=1.0, slow=100.0).round(1)
    array([0. , 1.8, 3.6, 5.4])
    """
    with ThreadPoolExecutor(min(n_threads or default_threads(), len(KEYS))) as pool:
        each = pool.map(lambda keys: _walk(arrivals, keys, fast, slow, 0)[1], arrivals.keys)  # walks need no lock
    return np.maximum.reduce(list(each))


class BurstCounts(NamedTuple):
    """What some edges are counted by, each of shape (n_rows, 3), in the order of `KEYS`.

    Attributes
    ----------
    surprise
        The surprise of each key; see `burst_surprises`.
    fast
        The fast count, with the edge itself.
    usual
        The fast count that is expected from the edges before; NaN if there is no time before.
    """

    surprise: Floats
    fast: Floats
    usual: Floats


def burst_counts(arrivals: Arrivals, rows: Sequence[int] | NDArray[Any], fast: float, slow: float) -> BurstCounts:
    """The surprises of some edges and the counts behind them, for each key; see `burst_surprises` for the parameters.

    Examples
    --------
    >>> edges = TemporalEdges(["a", "b", "b", "b"], ["x", "y", "z", "x"], [0, 100, 100, 100])
    >>> burst_counts(Arrivals.of(edges), [3], fast=1.0, slow=100.0).fast
    array([[3., 1., 1.]])
    """
    each = [_walk(arrivals, keys, fast, slow, len(arrivals.order)) for keys in arrivals.keys]
    surprise = np.stack([surprises[rows] for _, surprises in each], axis=1)
    count, total = np.moveaxis(np.stack([counts[rows] for counts, _ in each]), -1, 0).transpose(0, 2, 1)
    age = (arrivals.ticks[rows] - _start(arrivals)).astype(np.float64)[:, np.newaxis]
    inside, seen = (-width * np.expm1(-age / width) for width in (fast, slow))
    before = np.where(seen > inside, seen - inside, np.nan)
    return BurstCounts(surprise, count, (total - count) / before * inside)


def _walk(arrivals: Arrivals, keys: Codes, fast: float, slow: float, n_counts: int) -> tuple[Floats, Floats]:
    """The fast and slow counts, (n_counts, 2), and the surprises of one key."""
    counts = np.empty((n_counts, LAST))
    surprises = surprises_of_key(keys, arrivals.ticks, arrivals.order, _start(arrivals), fast, slow, counts)
    return counts, surprises


def surprises_of_key(
    keys: Codes, ticks: NDArray[Any], order: Codes, start: Any, fast: float, slow: float, counts: Floats | None = None
) -> Floats:
    """The surprises of edges that are counted by one key, shape (n_edges,); see `burst_surprises`.

    Parameters
    ----------
    keys, ticks, order
        Keys numbered from 0, and the times of the edges in ticks; the positions of the edges as they come.
    start
        The time of the first edge of all, in ticks.
    fast, slow
        The widths of the decays, in ticks.
    counts
        If given, an array (n_edges, 2) that gets the fast and the slow counts.
    """
    from tdlg._kernels.bursts import walk_bursts

    surprises, state = np.zeros(len(keys)), new_state(int(keys.max(initial=-1)) + 1)
    walk_bursts(
        keys, ticks, order, start, fast, slow, state, np.empty((0, LAST)) if counts is None else counts, surprises
    )
    return surprises


def _start(arrivals: Arrivals) -> Any:
    """The ticks of the first edge; 0 if there are no edges."""
    return arrivals.ticks[arrivals.order[0]] if len(arrivals.order) else 0
