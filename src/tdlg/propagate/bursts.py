"""How unusual each edge is beside those before it: bursts, new and rare ends, unusual values.

Everything comes from counts by key that fade at a fast and at a slow rate; see `tdlg._kernels.bursts` for the state.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from tdlg.edges import TemporalEdges
from tdlg.linegraph.events import check_span
from tdlg.linegraph.match import SAME_ENDS
from tdlg.memory import default_threads
from tdlg.propagate.features import Network
from tdlg.propagate.plan import (
    CALENDAR,
    CATEGORY_ENDS,
    OwnColumn,
    calendar_values,
    category_codes,
    category_numbers,
    fit_own,
    levels,
    own_values,
)
from tdlg.propagate.state import RunningSums, StreamEvents, reads_of, unused_codes

Floats = NDArray[np.float64]
Positions = NDArray[np.int64]
Codes = NDArray[np.int32]

KEYS = SAME_ENDS  # what edges are counted by: source, destination and pair
ENDS = 2  # the first of them are single nodes
HOUR = "hour"  # the category that the hour of the day is


class Arrivals(NamedTuple):
    """Edges as a stream sees them: what they are counted by, and the order in which they come."""

    keys: tuple[Codes, ...]  # for each of `KEYS`, one number from 0 per edge
    ticks: NDArray[Any]
    time_unit: str | None
    order: Codes  # positions of the edges by time, those at the same time in the order of their rows

    @classmethod
    def of(cls, edges: TemporalEdges, more: TemporalEdges | None = None) -> Self:
        """The arrivals of edges and, at the same time after them, of more edges, whose nodes may be new."""
        from tdlg._kernels.layout import stable_argsort

        src, dst, ticks, unit, *_ = Network.of(edges, more)
        check_span(ticks)
        return cls((src, dst, _joint(src, dst)), ticks, unit, stable_argsort(ticks))

    @property
    def start(self) -> Any:
        """The ticks of the first edge; 0 if there are no edges."""
        return self.ticks[self.order[0]] if len(self.order) else 0


def _joint(first: NDArray[Any], second: NDArray[Any]) -> Codes:
    """One number from 0 for each pair of codes that occurs."""
    from tdlg._kernels.layout import dense_codes, stable_argsort

    both = first.astype(np.int64) * (int(second.max(initial=-1)) + 1) + second
    return dense_codes(both, stable_argsort(both))


# ---- bursts


def burst_surprises(
    arrivals: Arrivals, every: Sequence[Any], fast: float, slow: float, n_threads: int | None = None
) -> Floats:
    """How surprising each edge is as part of a burst, in decimal digits of a probability, shape (n_edges,).

    Every edge is counted by its source, its destination, its pair and its groups, whose keys are in `every`, with itself and
    all edges that come before it; an edge that is d ticks old counts exp(-d / width). If a key has the count f for the fast
    width and s for the slow width, and a share p of s was expected in f, the surprise is that of f or more events where
    p * s are expected:

        (f * ln(f / (p * s)) - (f - p * s)) / ln 10      if f > p * s, else 0        (the Chernoff bound of the Poisson tail)

    with p = fast * (1 - exp(-a / fast)) / (slow * (1 - exp(-a / slow))), a being the ticks since the first edge of all. What
    is usual is not learnt from bursts: an edge of 30 digits or more does not count for the slow width of its key. The result
    is the largest surprise of all keys. By default all cores are used, at most one per key.
    """

    def surprises(keys: NDArray[Any]) -> Floats:
        return surprises_of_key(keys, arrivals.ticks, arrivals.order, arrivals.start, fast, slow)

    with ThreadPoolExecutor(min(n_threads or default_threads(), len(every))) as pool:  # walks need no lock
        return np.maximum.reduce(list(pool.map(surprises, every)))


def surprises_of_key(
    keys: NDArray[Any],
    ticks: NDArray[Any],
    order: Codes,
    start: Any,
    fast: float,
    slow: float,
    counts: Floats | None = None,
) -> Floats:
    """The surprises of edges that are counted by one key, shape (n_edges,); see `burst_surprises`.

    keys : numbers from 0; order : positions of the edges as they come; start : ticks of the first edge of all; counts : if
    given, it gets the fast and the slow counts, (n_edges, 2).
    """
    from tdlg._kernels.bursts import count_bursts

    n_keys = int(keys.max(initial=-1)) + 1
    time, sums = np.full(n_keys, start, ticks.dtype), np.zeros((n_keys, 2, 1))
    counts, surprises = np.empty((0, 2)) if counts is None else counts, np.empty(len(keys))
    count_bursts(keys[:, np.newaxis], ticks, ticks, order, start, fast, slow, time, sums, counts, surprises)
    return surprises


# ---- all three notions


class Surprises(NamedTuple):
    """How unusual edges are beside those before them, in decimal digits.

    rare : of the sources, destinations, pairs and what else `SurprisePlan.kinds` has, minus log10 of the share of earlier
    edges whose key was as rare; odd : the same of the numbers, beside those of the source, then of the destination; calm :
    one over the number of edges of late, so that the edges of any short time weigh the same together.
    """

    bursts: Floats  # (n_edges,)
    rare: Floats  # (n_edges, n_kinds)
    rush: Floats  # (n_edges, 2), of sources and destinations that are newcomers: how many more than usual there were
    odd: Floats  # (n_edges, 2 * n_numbers)
    calm: Floats  # (n_edges,)

    @classmethod
    def empty(cls, n: int, n_kinds: int, n_numbers: int) -> Self:
        """For n edges."""
        return cls(
            np.zeros(n), np.zeros((n, n_kinds)), np.zeros((n, ENDS)), np.zeros((n, ENDS * n_numbers)), np.zeros(n)
        )

    def columns(self) -> Floats:
        """All as columns, (n_edges, n_columns)."""
        return np.column_stack(self)

    @classmethod
    def of_columns(cls, columns: Floats, n_kinds: int) -> Self:
        """What `columns` gave."""
        bursts, rare, rush, odd, calm = np.split(columns, [1, 1 + n_kinds, 1 + n_kinds + ENDS, -1], axis=1)
        return cls(bursts[:, 0], rare, rush, odd, calm[:, 0])


@dataclass(frozen=True)
class SurprisePlan:
    """What edges are counted by and compared in.

    own : the features; groups : names of categories whose edges are also counted for bursts; has_hour : whether the hour of
    the day is a category; has_all : whether all three notions are judged, or only bursts.
    """

    own: tuple[OwnColumn, ...]
    groups: tuple[str, ...] = ()
    has_hour: bool = False
    has_all: bool = True

    @classmethod
    def of(cls, edges: TemporalEdges, groups: Sequence[str] = (), *, has_all: bool = True) -> Self:
        """For the features of edges; for bursts alone, only those of groups."""
        own = [
            column._replace(has_more=bool(column.categories), highest=np.inf)
            for column in (fit_own(edges) if has_all or groups else ())
            if has_all or column.name in groups
        ]
        return cls(tuple(own), tuple(groups), has_all and edges.time_unit is not None, has_all)

    @cached_property
    def given(self) -> list[str]:
        """The features that are categories."""
        return [column.name for column in self.own if column.categories]

    @cached_property
    def categories(self) -> list[str]:
        """The categories that edges are counted by, the hour last."""
        return self.given + [HOUR] * self.has_hour

    @cached_property
    def numbers(self) -> list[str]:
        """The numbers that are compared."""
        return [column.name for column in self.own if column.is_scaled]

    @cached_property
    def kinds(self) -> list[str]:
        """What edges are counted by."""
        return [
            *KEYS,
            *(f"category[{name}]" for name in self.given),
            *(f"src+category[{name}]" for name in self.categories if self.has_all),
        ]

    @cached_property
    def parents(self) -> Positions:
        """Within which kind the share of each kind is taken: its source, or -1 for all edges."""
        return np.array([0 if kind.startswith("src+") else -1 for kind in self.kinds])

    @cached_property
    def counted(self) -> NDArray[np.bool_]:
        """Whether the edges of each kind are counted for bursts."""
        return np.array([kind in {*KEYS, *(f"category[{name}]" for name in self.groups)} for kind in self.kinds])

    @property
    def n_values(self) -> int:
        """The number of sums of a key and width."""
        return 1 + 3 * len(self.numbers)

    def values(self, own: Floats) -> Floats:
        """The numbers of edges as they are compared, (n_edges, n_numbers)."""
        return levels(own, self.own)

    def hours(self, ticks: NDArray[Any], unit: str | None) -> Positions:
        """The hour of the day, (n_edges, 1); nothing for times that are numbers."""
        if not self.has_hour or unit is None:
            return np.empty((len(ticks), 0), np.int64)
        return calendar_values(ticks, unit, CALENDAR[0]).astype(np.int64)[:, np.newaxis]

    def keyed(
        self, edges: TemporalEdges, more: TemporalEdges | None
    ) -> tuple[Arrivals, list[NDArray[np.integer[Any]]]]:
        """The arrivals of edges, and after them of more edges, and for each kind the codes of their keys."""
        arrivals, numbers = Arrivals.of(edges, more), category_numbers(edges, self.given)
        codes = (
            np.concatenate([category_codes(part, numbers) for part in _parts(edges, more)]) + 1
        )  # missing is one too
        by_source = [*codes.T, *self.hours(arrivals.ticks, arrivals.time_unit).T] if self.has_all else []
        return arrivals, [*arrivals.keys, *codes.T, *(_joint(arrivals.keys[0], column) for column in by_source)]

    def numbers_of(self, edges: TemporalEdges, more: TemporalEdges | None) -> Floats:
        """The numbers of edges and of more edges as they are compared."""
        return self.values(np.concatenate([own_values(part, self.own) for part in _parts(edges, more)]))

    def judged(self, edges: TemporalEdges, more: TemporalEdges | None, fast: float, slow: float) -> Surprises:
        """How unusual edges are, and after them, at the same time, more edges; widths in ticks."""
        from tdlg._kernels.bursts import judge_events

        arrivals, keys = self.keyed(edges, more)
        starts = np.cumsum([0, *(int(codes.max(initial=-1)) + 1 for codes in keys)])
        slots = np.column_stack([codes + start for codes, start in zip(keys, starts[:-1], strict=True)])
        ticks, start = arrivals.ticks, arrivals.start
        time, sums = np.full(starts[-1], start, ticks.dtype), np.zeros((starts[-1], 2, self.n_values))
        whole = WholeSums.empty(self, start, ticks.dtype)
        found = Surprises.empty(len(ticks), len(self.kinds), len(self.numbers))
        of_events = slots, self.parents, self.counted, self.numbers_of(edges, more), ticks, ticks, arrivals.order
        judge_events(*of_events, start, fast, slow, time, sums, *whole, *found)
        return found


def _parts(edges: TemporalEdges, more: TemporalEdges | None) -> list[TemporalEdges]:
    return [edges] if more is None else [edges, more]


def feature_of(kind: str) -> str:
    """The name of the category in a kind such as "src+category[channel]"."""
    return kind[kind.index("[") + 1 : -1]


class WholeSums(NamedTuple):
    """Counts of all edges, and of those whose end was a newcomer, for each kind, and how surprising edges were so far."""

    time: NDArray[Any]  # when the counts changed last, (n_kinds, 2)
    sums: Floats  # (n_kinds, 2, 2, n_values)
    past: Floats  # (n_kinds + ENDS * n_numbers, 1 + N_STEPS)
    pace: Floats  # (n_kinds + ENDS * n_numbers, 4)

    @classmethod
    def empty(cls, plan: SurprisePlan, start: Any, dtype: np.dtype[Any]) -> Self:
        """Before the first edge."""
        from tdlg._kernels.bursts import N_STEPS

        n, n_past = len(plan.kinds), len(plan.kinds) + ENDS * len(plan.numbers)
        sums = np.zeros((n, 2, 2, plan.n_values))
        return cls(np.full((n, 2), start, dtype), sums, np.zeros((n_past, 1 + N_STEPS)), np.zeros((n_past, 4)))


# ---- the same, event by event


class RunningBursts:
    """The burst scores of a stream, event by event, from counts that are carried along.

    fast, slow : the widths of the decays, in ticks; start : the ticks of the first observation; dtype : of the ticks; plan :
    what events are counted by.
    """

    def __init__(self, fast: float, slow: float, start: Any, dtype: np.dtype[Any], plan: SurprisePlan) -> None:
        self._widths, self._start, self._plan = (fast, slow), start, plan
        self.whole = WholeSums.empty(plan, start, dtype) if plan.has_all else None
        self.counts = RunningSums(np.array([fast, slow]), plan.n_values, dtype)
        categories = {
            f"{prefix}category[{name}]": (k, end)
            for k, name in enumerate(plan.categories)
            for end, prefix in CATEGORY_ENDS.items()
        }
        self._reads = reads_of(plan.kinds, categories)
        self.clock: Any = None

    def surprises(self, events: StreamEvents, *, keep: bool = True) -> Floats:
        """The surprises of events in the order of time, (n_events,); each counts itself and those before it.

        Events before the present time are scored as of now, with all that has happened. They count for later events if
        `keep`.
        """
        from tdlg._kernels.bursts import count_bursts

        with self._counted(events, keep) as (slots, times):
            surprises = np.empty(len(slots))
            count_bursts(slots, *times, *self._widths, self.counts.time, self.counts.sums, np.empty((0, 2)), surprises)
        return surprises

    def judged(self, events: StreamEvents, unit: str | None, *, keep: bool = True) -> Surprises:
        """How unusual events in the order of time are, as `SurprisePlan.judged`; see `surprises`."""
        from tdlg._kernels.bursts import judge_events

        plan, whole = self._plan, self.whole
        assert whole is not None
        found = Surprises.empty(len(events.ticks), len(plan.kinds), len(plan.numbers))
        whole = whole if keep else WholeSums(*(array.copy() for array in whole))
        categories = np.hstack([events.categories, plan.hours(events.ticks, unit)])
        with self._counted(events._replace(categories=categories), keep) as (slots, times):
            judge_events(
                slots, plan.parents, plan.counted, plan.values(events.own), *times, *self._widths,
                self.counts.time, self.counts.sums, *whole, *found,
            )  # fmt: skip
        return found

    @contextmanager
    def _counted(self, events: StreamEvents, keep: bool) -> Iterator[tuple[Positions, tuple[Any, ...]]]:
        """The slots of events and their times, while they are counted; undone after it unless `keep`."""
        ticks, counts, n_before = events.ticks, self.counts, self.counts.n
        now = ticks if self.clock is None else np.maximum(ticks, self.clock)
        nodes, rows = np.column_stack([events.src, events.dst]), np.arange(len(ticks))
        slots = counts.add(self._reads, rows, nodes, events.categories, ticks)
        saved = None if keep else counts.saved(slots, n_before, self.clock)
        yield slots, (ticks, now, rows, self._start)
        if saved is not None:
            counts.put_back(*saved)
        elif len(now):
            counts.last[slots] = np.maximum(counts.last[slots], ticks[:, np.newaxis])  # the latest comes last
            self.clock = now[-1]

    def forget(self, n_codes: int, after: float | None, held: Positions) -> Positions:
        """Forget keys whose counts have faded, and return the codes of nodes that are not used now, except those held."""
        self.counts.forget(self.clock, 0.0, after)
        return unused_codes(n_codes, held, [self.counts])
