"""What the commands rank and links share: the method, what they say about it, and times."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from tdlg.cli.terminal import count, note
from tdlg.exceptions import ParameterError

if TYPE_CHECKING:
    from tdlg.cli.table import Table
    from tdlg.edges import TemporalEdges
    from tdlg.rank.ranker import LinkRanker

__all__ = ["RankingMethod", "header_of", "known_at", "note_method", "rows_after", "time_of"]

RankingMethod = Annotated[
    Literal["trees", "recency"] | None,
    typer.Option(
        help="trees: learnt from the table, needs LightGBM; recency: the latest partners first. By default trees if "
        "LightGBM is installed and the table is long enough."
    ),
]


def note_method(ranker: LinkRanker, *, pairs: bool = False) -> None:
    """Say what ranks, and why it is only the recency rule if that was not asked for.

    Parameters
    ----------
    ranker
        What ranks.
    pairs
        Whether it ranks pairs; by default the partners of a node.
    """
    from tdlg.rank.fit import is_enough, missing_lightgbm

    method = ranker.pair_method_ if pairs else ranker.method_
    if method == "trees":
        note("ranked by boosted trees" + f", which learnt from {count(ranker.n_queries_, 'row')}" * (not pairs))
    elif ranker.method != "auto":
        note(f"ranked by the {method} rule")
    else:
        few = None if is_enough(len(ranker.edges_)) else "the table is too short to learn from"
        note(
            f"ranked by the recency rule: {missing_lightgbm() or few or 'it ranks the last rows better than trees do'}"
        )


def header_of(method: str | None, table: Table) -> dict[str, str]:
    """New names of the columns of a ranking: those of the table, and a score that says which rule it is of.

    Parameters
    ----------
    method
        What ranks; None for scores of the paper's method.
    table
        The table of the user.
    """
    names = {role: table.names[role] for role in ("src", "dst", "time")}
    if method not in (None, "trees"):
        names["score"] = f"{method}_score"
    taken = {"seen", names.get("score", "score")}
    return {role: name for role, name in names.items() if role == "score" or name not in taken}


def time_of(at: str, edges: TemporalEdges) -> float | int | str:
    """The time given with --at, in the type that the edges use."""
    if edges.time_unit is not None:
        return at
    try:
        return int(at) if at.lstrip("+-").isdecimal() else float(at)
    except ValueError:
        raise ParameterError(
            f"The times of these edges are numbers, but --at {at!r} is not a number.", parameter="at"
        ) from None


def known_at(edges: TemporalEdges, time: Any) -> TemporalEdges:
    """The edges strictly before a time, from which alone may be learnt what is asked about it; all edges for None."""
    from tdlg.models.pairs import as_time

    if time is None:
        return edges
    (at,) = as_time(time, edges, "--at", "tdlg")
    known = edges[edges.time < at]
    if len(known) == 0:
        raise ParameterError(f"No row happened before {time}. Choose a later time.", parameter="at")
    return known


def rows_after(edges: TemporalEdges, known: TemporalEdges) -> TemporalEdges:
    """The edges that happened after known ones, and those at exactly the last known time that are not among them.

    Parameters
    ----------
    edges
        The edges of a table.
    known
        The edges that a model knows.
    """
    import numpy as np

    from tdlg.edges import check_alike

    kinds = ["numbers" if each.time_unit is None else "datetimes" for each in (edges, known)]
    if len(set(kinds)) > 1:
        hints = ["Name the unit that they count, as with time_unit='s'."] * (kinds[0] == "numbers")
        problem = f"The times of the table are {kinds[0]}, and those of the model {kinds[1]}."
        raise ParameterError(problem, *hints, parameter="time")
    check_alike((known, edges))
    last = known.time.max()
    there, at_last = (each[each.time == last] for each in (known, edges.with_ids_of(known)))
    left = Counter(zip(there.src.tolist(), there.dst.tolist(), strict=True))
    is_new = edges.time > last
    for row, pair in zip(
        np.flatnonzero(edges.time == last), zip(at_last.src.tolist(), at_last.dst.tolist(), strict=True), strict=True
    ):
        is_new[row] = left[pair] == 0
        left[pair] -= not is_new[row]
    return edges[is_new]
