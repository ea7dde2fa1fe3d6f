"""Ids of events: which are the same, and ids of events without one, made of source, destination and time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import count
from typing import Any

from tdlg.clock import rounded_up
from tdlg.edges import TemporalEdges
from tdlg.live.meaning import time_as_json
from tdlg.tables.ids import id_key

__all__ = ["copies_of", "id_of", "ids_of_edges", "numbered"]


def id_of(src: Any, dst: Any, time: Any) -> str:
    r"""The id of an event that comes without one; the time is as `Meaning.time` writes it, 5.0 as 5.

    A ">" in the id of the source is marked with a backslash, so that no other source and destination have the same id.

    Examples
    --------
    >>> id_of("ann", "007", "2025-01-31T00:00:00"), id_of("a>b", "c>d", 5.0)
    ('ann>007@2025-01-31T00:00:00', 'a\\>b>c>d@5')
    """
    first = str(id_key(src)).replace("\\", r"\\").replace(">", r"\>")
    return f"{first}>{id_key(dst)}@{id_key(time)}"


def copies_of(id: str) -> Iterator[str]:
    """The ids of all edges that would have this one.

    Examples
    --------
    >>> copies = copies_of("a>b@1")
    >>> next(copies), next(copies)
    ('a>b@1', 'a>b@1#2')
    """
    return (id if k == 1 else f"{id}#{k}" for k in count(1))


def numbered(ids: Iterable[str]) -> list[str]:
    """The ids, with a number for the second and further copies of an id.

    Examples
    --------
    >>> numbered(["a>b@1", "a>c@1", "a>b@1"])
    ['a>b@1', 'a>c@1', 'a>b@1#2']
    """
    copies: dict[str, Iterator[str]] = {}
    return [next(copies.setdefault(id, copies_of(id))) for id in ids]


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
