"""Ids of events: which are the same, and ids of events without one, made of source, destination and time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

from tdlg.clock import rounded_up
from tdlg.edges import TemporalEdges
from tdlg.live.meaning import time_as_json
from tdlg.tables.ids import id_key

__all__ = ["id_of", "ids_of_edges", "numbered"]


def id_of(src: Any, dst: Any, time: Any) -> str:
    """The id of an event that comes without one; the time is as `Meaning.time` writes it.

    Examples
    --------
    >>> id_of("ann", "007", "2025-01-31T00:00:00")
    'ann>007@2025-01-31T00:00:00'
    """
    return f"{id_key(src)}>{id_key(dst)}@{time}"


def numbered(ids: Iterable[str]) -> list[str]:
    """The ids, with a number for the second and further copies of an id.

    Examples
    --------
    >>> numbered(["a>b@1", "a>c@1", "a>b@1"])
    ['a>b@1', 'a>c@1', 'a>b@1#2']
    """
    seen: Counter[str] = Counter()
    found = []
    for id in ids:
        seen[id] += 1
        found.append(id if seen[id] == 1 else f"{id}#{seen[id]}")
    return found


def ids_of_edges(edges: TemporalEdges, unit: str | None) -> list[str]:
    """The ids that edges have as events without ids, copies of the same edge with a number.

    Parameters
    ----------
    edges
        The edges.
    unit
        The unit of the clock of the stream.
    """
    ticks = rounded_up(edges.ticks, edges.time_unit, unit, edges.ticks.dtype)
    times = [time_as_json(each, unit) for each in ticks.tolist()]
    return numbered(map(id_of, edges.src.tolist(), edges.dst.tolist(), times))
