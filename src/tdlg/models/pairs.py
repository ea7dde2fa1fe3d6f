"""Pairs of nodes: those to choose from at a time, and the best of them as a table."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tdlg.checks import refusal
from tdlg.clock import times_of
from tdlg.edges import TemporalEdges
from tdlg.exceptions import EdgesError, ParameterError, ReadError
from tdlg.explain.partners import pair_reasons
from tdlg.explain.reasons import as_series
from tdlg.io.columns import usual_at
from tdlg.io.files import is_csv
from tdlg.io.read import file_source
from tdlg.sampling.candidates import candidate_pairs
from tdlg.sampling.index import edge_index
from tdlg.tables.column import eager_frame
from tdlg.tables.times import as_times

if TYPE_CHECKING:
    import polars as pl


def candidate_edges(fitted: TemporalEdges, at: Any, candidates: Any) -> TemporalEdges:
    """The candidates of `top` as temporal edges: likely pairs by default, at the time of the last fitted edge."""
    if isinstance(candidates, TemporalEdges):
        if at is not None:
            raise ParameterError(
                f"The 'candidates' have their own times, but 'at' is {at!r}.",
                "Leave out at=, or pass the candidates as an array with the columns src and dst.",
                parameter="at",
            )
        return _checked_pairs(candidates.with_ids_of(fitted), fitted)
    time = fitted.time.max(keepdims=True) if at is None else as_time(at, fitted, "at", "top")
    src, dst = _likely_pairs(fitted, time) if candidates is None else _given_pairs(candidates)
    pairs = TemporalEdges(src, dst, np.repeat(time, len(src)), bipartite=fitted.bipartite)
    return _checked_pairs(pairs.with_ids_of(fitted), fitted)


def best_pairs(fitted: TemporalEdges, edges: TemporalEdges, scores: NDArray[np.float64], k: int) -> pl.DataFrame:
    """The k candidates with the highest scores; among equal ones, pairs that were seen come first; and why."""
    seen = edge_index(fitted).seen_by(edges)
    best = np.lexsort((~seen, -scores))[:k]
    found = edges[best]
    return pairs_as_frame(found, score=scores[best], seen=seen[best], reason=pair_reasons(fitted, found))


def as_time(at: Any, fitted: TemporalEdges, name: str, owner: str) -> NDArray[Any]:
    """A time as an array of one element, of the same type as the times of the fitted edges; see `as_ticks`."""
    return times_of(*as_ticks(at, fitted, name, owner))


def as_ticks(at: Any, fitted: TemporalEdges, name: str, owner: str) -> tuple[NDArray[Any], str | None]:
    """A time in ticks, as an array of one element, and its unit; it must be a number if the fitted edges' times are."""
    try:
        ticks, unit = as_times([at], name)
    except EdgesError:
        ticks, unit = np.zeros(1), "" if fitted.time_unit is None else None
    if (unit is None) != (fitted.time_unit is None):
        wanted = "a number" if fitted.time_unit is None else "a datetime"
        raise refusal(owner, name, f"{wanted}, as the times of the fitted edges are", at)
    return ticks, unit


def known_before(at: Any, edges: TemporalEdges) -> TemporalEdges:
    """The edges strictly before a time, from which alone may be learnt what is asked about it; all edges for None."""
    if at is None:
        return edges
    known = edges[edges.time < as_time(at, edges, "at", "top")]
    if len(known) == 0:
        raise ParameterError(f"No row happened before {at}. Choose a later time.", parameter="at")
    return known


def read_pairs(
    path: Path, edges: TemporalEdges, src: str | None = None, dst: str | None = None, separator: str | None = None
) -> list[tuple[Any, Any]]:
    """Candidates from a file, with ids of the types of the edges.

    src, dst : names of their columns; by default columns with the usual names, else the first two.
    """
    import polars as pl

    source = file_source(path, separator if is_csv(path) else None, least=2)
    every = list(range(len(source.names)))
    read = source.read(every, set(), set(every))
    at, pairs = [], []
    for place, (role, given, ids) in enumerate((("src", src, edges.src), ("dst", dst, edges.dst))):
        named = [source.names.index(given)] if given in source.names else []
        at.append([*named, *(usual_at(source.names, role) if source.has_names else []), place][0])
        column, name = pl.Series(read[at[-1]]), source.names[at[-1]]
        numbers = column.cast(pl.Int64, strict=False)
        if ids.dtype.kind != "i":
            pairs.append(column.cast(pl.String).to_list())
        elif numbers.null_count():
            wrong = column.filter(numbers.is_null())[0]
            problem = f"the ids of the edges are numbers, but {wrong!r} in the column {name!r} is not a number."
            raise ReadError(f"{path}: {problem}")
        else:
            pairs.append(numbers.to_list())
    first = tuple(source.names[k] for k in at)
    is_pair = source.has_names and first[0] in edges.src and first[1] in edges.dst  # and no column names
    return [*([first] if is_pair else []), *zip(*pairs, strict=True)]


def _likely_pairs(fitted: TemporalEdges, time: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    past = fitted[fitted.time <= time]
    if len(past) == 0:
        raise ParameterError(
            f"The 'at' parameter of top is {time[0]}, before the first of the fitted edges, {fitted.time.min()}: there are "
            "no candidates yet.",
            "Choose a later at=, or pass candidates=.",
            parameter="at",
        )
    src, dst = candidate_pairs(past)
    return fitted.node_ids[src], fitted.node_ids[dst]


def _given_pairs(candidates: Any) -> tuple[Any, Any]:
    """Sources and destinations of a dataframe (by column name if it has the names), an array, or a list of pairs."""
    if hasattr(type(candidates), "columns"):
        frame = eager_frame(candidates, "candidates")
        names = ["src", "dst"] if {"src", "dst"} <= set(frame.columns) else frame.columns
        columns, found = [frame.get_column(name).to_native() for name in names], f"the columns {names}"
    elif isinstance(candidates, np.ndarray):
        columns, found = list(candidates.T) if candidates.ndim == 2 else [], f"shape {candidates.shape}"
    else:
        rows = candidates if isinstance(candidates, list | tuple) else [candidates]
        wrong = [row for row in rows if not isinstance(row, list | tuple | np.ndarray) or len(row) != 2]
        columns = [] if wrong else [[row[0] for row in rows], [row[1] for row in rows]]
        found = repr(wrong[0]) if wrong else ""
    if len(columns) != 2:
        raise ParameterError(
            f"The 'candidates' of top must be TemporalEdges, or have the two columns src and dst. Got {found} instead.",
            "For candidates with their own times, make `TemporalEdges(src, dst, time)`.",
            parameter="candidates",
        )
    return columns[0], columns[1]


def _checked_pairs(edges: TemporalEdges, fitted: TemporalEdges) -> TemporalEdges:
    """Refuse no candidates, and several of which nothing is known."""
    if len(edges) == 0:
        raise no_candidates()
    if len(edges) > 1 and (np.concatenate(fitted.codes_of(edges)) < 0).all():
        raise ParameterError(
            f"All {len(edges):,} candidates score the same: none of their nodes is among the fitted edges. Pass candidates "
            "between nodes of the fitted edges.",
            parameter="candidates",
        )
    return edges


def no_candidates() -> ParameterError:
    """The error of an empty choice."""
    problem = "There are no candidates to choose from. Pass at least one."
    return ParameterError(problem, "Or leave out candidates=.", parameter="candidates")


def pairs_as_frame(edges: TemporalEdges, **columns: Any) -> pl.DataFrame:
    """Edges as a table with the columns src, dst, time and others."""
    import polars as pl

    time = edges.time
    if edges.time_unit == "s":
        time = time.astype("datetime64[ms]")  # the coarsest unit that polars has
    return pl.DataFrame({"src": as_series(edges.src), "dst": as_series(edges.dst), "time": time, **columns})
