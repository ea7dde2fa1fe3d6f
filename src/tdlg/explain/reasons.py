"""Reasons for scores as tables: of the line-graph classifier, its fitted interactions; of bursts, the counts behind them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tdlg.checks import check_count
from tdlg.clock import round_duration
from tdlg.edges import TemporalEdges
from tdlg.estimator import fitted_graph
from tdlg.exceptions import ParameterError
from tdlg.explain.positive import positive_of
from tdlg.explain.sentences import NAMED, Reason, burst, near_interaction
from tdlg.linegraph.events import own_columns
from tdlg.propagate.bursts import KEYS, Arrivals, surprises_of_key

if TYPE_CHECKING:
    import polars as pl


__all__ = [
    "as_series",
    "burst_counts",
    "chosen_rows",
    "contributions_of_rows",
    "explain_bursts",
    "explain_rows",
    "main_interactions",
    "reasons_table",
]

Floats = NDArray[np.float64]
Positions = NDArray[np.int64]


def explain_rows(
    model: Any, edges: TemporalEdges, top: int = 3, *, rows: Any = None, positive: Any = None
) -> pl.DataFrame:
    """The fitted interactions that moved each score most, in words.

    The decision value of an edge is a sum over the fitted edges j, of H_ij * coef_j, plus the intercept. The effect of a
    fitted interaction is its term of the sum.

    Parameters
    ----------
    model
        A fitted `LineGraphClassifier`.
    edges
        The edges to explain, fitted or new.
    top
        How many interactions to name per edge, those of the largest effect first; fewer where fewer have any effect.
    rows
        Positions in `edges` of the edges to explain; by default all edges.
    positive
        The class to explain. By default, with two classes the positive class (see
        `tdlg.explain.positive.positive_class`), and with more classes the class predicted for each edge.

    Returns
    -------
    polars.DataFrame
        One row per reason, with the columns of `explain_propagation`: edge (position in `edges`), src, dst, time, class
        (the class explained), score (with two classes the log of its odds, with more its decision value), rank, what
        ("interaction", or "itself" where the fitted interaction is the edge explained), effect (on the score), reason,
        and neighbours: the position of the fitted interaction.

    Examples
    --------
    >>> from tdlg import LineGraphClassifier, TemporalEdges
    >>> edges = TemporalEdges(["a", "b", "c"], ["x", "x", "y"], [1, 2, 3], label=["fraud", "fraud", "fine"])
    >>> model = LineGraphClassifier(bandwidth=5.0).fit(edges)
    >>> table = model.explain(TemporalEdges(["d"], ["x"], [4]), positive="fraud")
    >>> table["reason"].to_list()[0]
    "near the interaction from 'b' to 'x', 2 time units before, labelled fraud"
    """
    check_count("explain", "top", top, 1)
    which = chosen_rows(rows, len(edges))
    asked = edges[which]
    code = None if positive is None and len(model.classes_) > 2 else positive_of(model, positive)
    found = _all_terms(model, asked, code)
    lines = [
        (i, rank, terms, at, effect)
        for i, terms in enumerate(found)
        for rank, (at, effect) in enumerate(zip(terms.at[:top], terms.contribution[:top], strict=True))
        if effect
    ]
    asked_row = np.array([i for i, *_ in lines], np.int64)
    own, known = own_columns(asked, model.edges_), _known(model)
    return reasons_table(
        edges,
        which[asked_row],
        model.classes_[np.array([terms.code for _, _, terms, _, _ in lines], np.int64)],
        scores=[terms.score for _, _, terms, _, _ in lines],
        rank=np.array([rank + 1 for _, rank, *_ in lines], np.int64),
        what=["itself" if at == own[i] else "interaction" for i, _, _, at, _ in lines],
        effects=[effect for *_, effect in lines],
        reasons=[
            (near_interaction(model, known[at], asked, i, at, at == own[i]), [int(at)]) for i, _, _, at, _ in lines
        ],
    )


def contributions_of_rows(model: Any, edges: TemporalEdges, top: int = 5, *, rows: Any = None) -> pl.DataFrame:
    """The decision value of each edge as a sum: the largest terms, all other terms together, and the intercept.

    Parameters
    ----------
    model
        A fitted `LineGraphClassifier`.
    edges
        The edges whose decision values are taken apart.
    top
        How many interactions to name per edge, those of the largest contribution first.
    rows
        Positions in `edges` of the edges to take apart; by default all edges.

    Returns
    -------
    polars.DataFrame
        Columns edge (position in `edges`), class (the class that the decision value speaks for: with two classes the
        second, with more the predicted one), part ("interaction", "itself" where the fitted interaction is the edge
        itself, "others", "intercept"), position (of the interaction among the fitted edges), src, dst, time and label of
        the interaction, proximity (H_ij) and contribution. The contributions of one edge add up to its decision value.

    Examples
    --------
    >>> from tdlg import LineGraphClassifier, TemporalEdges
    >>> edges = TemporalEdges(["a", "b", "c"], ["x", "x", "y"], [1, 2, 3], label=[1, 1, 0])
    >>> table = LineGraphClassifier(bandwidth=5.0).fit(edges).contributions(edges[:1], top=1)
    >>> table["part"].to_list()
    ['itself', 'others', 'intercept']
    """
    import polars as pl

    check_count("contributions", "top", top, 1)
    which, fitted = chosen_rows(rows, len(edges)), model.edges_
    asked = edges[which]
    own = own_columns(asked, fitted)
    found = _all_terms(model, asked, 1 if len(model.classes_) == 2 else None)
    lines = [line for i, terms in enumerate(found) for line in _parts(model, terms, int(which[i]), own[i], top)]
    edge, code, part, at, proximity, contribution = zip(*lines, strict=True) if lines else ((),) * 6
    position = np.array(at, int)
    named = position >= 0

    def column(values: NDArray[Any]) -> pl.Series:
        return as_series(values[np.where(named, position, 0)] if lines else values[:0], named)

    return pl.DataFrame(
        {
            "edge": pl.Series(edge, dtype=pl.Int64),
            "class": as_series(model.classes_[np.array(code, int)]),
            "part": pl.Series(part, dtype=pl.String),
            "position": as_series(position, named),
            "src": column(fitted.src),
            "dst": column(fitted.dst),
            "time": column(fitted.time),
            "label": column(model.labels_),
            "proximity": pl.Series(proximity, dtype=pl.Float64),
            "contribution": pl.Series(contribution, dtype=pl.Float64),
        }
    )


def chosen_rows(rows: Any, n_edges: int) -> NDArray[np.int64]:
    """Positions of the edges to explain, by default all; refuses what is not a position."""
    if rows is None:
        return np.arange(n_edges)
    chosen = np.atleast_1d(np.asarray(rows))
    if chosen.size == 0:
        return np.empty(0, np.int64)
    if chosen.ndim > 1 or chosen.dtype.kind not in "iu" or chosen.min() < 0 or chosen.max() >= n_edges:
        raise ParameterError(
            f"The 'rows' must be positions of edges, whole numbers from 0 to {n_edges - 1:,}. Got {rows!r} instead.",
            parameter="rows",
        )
    return chosen.astype(np.int64)


def reasons_table(
    edges: TemporalEdges,
    row: Positions,
    classes: NDArray[Any] | None,
    *,
    scores: Any,
    rank: Positions,
    what: list[str],
    effects: Any,
    reasons: list[Reason],
) -> pl.DataFrame:
    """The table that `explain` of every model gives, one row per reason, for these rows of the edges."""
    import polars as pl

    return pl.DataFrame(
        {
            "edge": pl.Series(row, dtype=pl.Int64),
            "src": as_series(edges.src[row]),
            "dst": as_series(edges.dst[row]),
            "time": as_series(edges.time[row]),
            **({} if classes is None else {"class": as_series(classes)}),
            "score": pl.Series(scores, dtype=pl.Float64),
            "rank": pl.Series(rank, dtype=pl.Int64),
            "what": pl.Series(what, dtype=pl.String),
            "effect": pl.Series(effects, dtype=pl.Float64),
            "reason": pl.Series([sentence for sentence, _ in reasons], dtype=pl.String),
            "neighbours": pl.Series([behind for _, behind in reasons], dtype=pl.List(pl.Int64)),
        }
    )


def as_series(values: NDArray[Any], keep: NDArray[np.bool_] | None = None) -> pl.Series:
    """Ids, times or labels as a column of a frame, null where they are not kept; ids of mixed kinds stay objects."""
    import polars as pl

    if values.dtype.kind == "M":
        unit = np.datetime_data(values.dtype)[0]
        times = values if unit == "ns" else values.astype("datetime64[us]")
        return pl.Series(times if keep is None else np.where(keep, times, np.datetime64("NaT")))
    listed = values.tolist()
    if keep is not None:
        listed = [value if kept else None for value, kept in zip(listed, keep, strict=True)]
    types: dict[Any, Any] = {"b": pl.Boolean, "i": pl.Int64, "f": pl.Float64}
    found = set(map(type, listed)) - {type(None)}
    plain = (
        pl.String if found <= {str} else pl.Boolean if found == {bool} else pl.Int64 if found == {int} else pl.Object
    )
    return pl.Series(listed, dtype=types.get(values.dtype.kind, plain))


# ---- the terms of a decision value


class _Terms(NamedTuple):
    """The terms of one edge's score for a class, the largest first."""

    code: int  # the class, as a position
    score: float
    at: Positions  # the fitted interactions
    proximity: Floats
    contribution: Floats


def _all_terms(model: Any, edges: TemporalEdges, code: int | None) -> list[_Terms]:
    """The terms of each edge for a class, or for the class predicted, of more than two, where that is None."""
    graph = fitted_graph(model, edges)
    return [_terms(model, graph.row(i), code) for i in range(len(edges))]


def _terms(model: Any, row: Any, code: int | None) -> _Terms:
    by_output = model.coef_[:, row.indices] * row.data
    scores = by_output.sum(axis=1) + model.intercept_
    if len(scores) == 1:  # two classes: the one output speaks for the second
        sign = 1.0 if code == 1 else -1.0
        contribution, score = sign * by_output[0], sign * scores[0]
    else:
        code = int(scores.argmax()) if code is None else code
        contribution, score = by_output[code], scores[code]
    order = np.argsort(-np.abs(contribution), kind="stable")
    return _Terms(int(code or 0), float(score), row.indices[order], row.data[order], contribution[order])


def _parts(
    model: Any, terms: _Terms, edge: int, own: int, top: int
) -> list[tuple[int, int, str, int, float | None, float]]:
    """(edge, class, part, position, proximity, contribution) of the first terms, of the others, of the intercept."""
    largest = zip(terms.at[:top], terms.proximity[:top], terms.contribution[:top], strict=True)
    intercept = model.intercept_[0 if len(model.intercept_) == 1 else terms.code]
    return [
        *(
            (edge, terms.code, "itself" if at == own else "interaction", int(at), float(proximity), float(contribution))
            for at, proximity, contribution in largest
        ),
        (edge, terms.code, "others", -1, None, float(terms.contribution[top:].sum())),
        (edge, terms.code, "intercept", -1, None, float(intercept)),
    ]


def main_interactions(model: Any, edges: TemporalEdges, code: int | None) -> list[str | None]:
    """For each edge the fitted interaction, other than itself, that raised its score for the class most."""
    own, known = own_columns(edges, model.edges_), _known(model)
    reasons: list[str | None] = []
    for i, terms in enumerate(_all_terms(model, edges, code)):
        raised = terms.at[(terms.contribution > 0) & (terms.at != own[i])]
        reasons.append(near_interaction(model, known[raised[0]], edges, i, raised[0]) if len(raised) else None)
    return reasons


def _known(model: Any) -> NDArray[np.bool_]:
    known: NDArray[np.bool_] = model.edges_.with_label(model.labels_).labelled
    return known


# ---- bursts


def explain_bursts(
    model: Any, edges: TemporalEdges, places: Positions, top: int = 3, *, rows: Any = None
) -> pl.DataFrame:
    """What makes each edge part of a burst, see `BurstDetector.explain`; places : among the fitted edges, -1 for new ones.

    The neighbours are the latest edges of the burst; positions from the number of fitted edges on are new edges.
    """
    check_count("explain", "top", top, 1)
    which, fitted, new = chosen_rows(rows, len(edges)), model.edges_, np.flatnonzero(places < 0)
    arrivals = Arrivals.of(fitted, edges[new])
    at = places.copy()
    at[new] = len(fitted) + np.arange(len(new))
    fast, slow = (decay.parts(arrivals.time_unit)[0].bandwidth for decay in (model.fast_, model.slow_))
    surprise, usual = burst_counts(arrivals, at[which], fast, slow)
    ranked = np.argsort(-surprise, axis=1, kind="stable")[:, :top]
    lines = [(i, rank, k) for i, keys in enumerate(ranked) for rank, k in enumerate(keys) if surprise[i, k] > 0]
    row, rank, key = np.array(lines, np.int64).reshape(-1, 3).T
    window, words = round_duration(fast, arrivals.time_unit)
    counts = [_Latest(arrivals, k) for k in range(len(KEYS))]
    behind = [counts[k].within(at[which[i]], window) for i, _, k in lines]
    reasons = [
        burst(edges, which[i], KEYS[k], len(there), usual[i, k] * window / fast, words)
        for (i, _, k), there in zip(lines, behind, strict=True)
    ]
    return reasons_table(
        edges,
        which[row],
        None,
        scores=surprise.max(axis=1, initial=0.0)[row],
        rank=rank + 1,
        what=[KEYS[k] for k in key],
        effects=surprise[row, key],
        reasons=[(reason, there[-NAMED:][::-1].tolist()) for reason, there in zip(reasons, behind, strict=True)],
    )


def burst_counts(arrivals: Arrivals, rows: Positions, fast: float, slow: float) -> tuple[Floats, Floats]:
    """The surprises of some edges, and the fast counts expected from the edges before, NaN if there is no time before.

    Both are of shape (n_rows, 3), in the order of `KEYS`; see `tdlg.propagate.bursts.burst_surprises`.
    """
    ticks, order, start = arrivals.ticks, arrivals.order, arrivals.start
    age = (ticks[rows] - start).astype(np.float64)
    inside, seen = (-width * np.expm1(-age / width) for width in (fast, slow))
    before = np.where(seen > inside, seen - inside, np.nan)
    found, usual = np.empty((2, len(rows), len(KEYS)))
    counts = np.empty((len(order), 2))
    for k, keys in enumerate(arrivals.keys):
        found[:, k] = surprises_of_key(keys, ticks, order, start, fast, slow, counts)[rows]
        count, total = counts[rows].T
        usual[:, k] = (total - count) / before * inside
    return found, usual


class _Latest:
    """The edges of a key, in the order in which they come."""

    def __init__(self, arrivals: Arrivals, key: int) -> None:
        self._ticks, self._keys = arrivals.ticks, arrivals.keys[key]
        self._place = np.empty(len(arrivals.order), np.int64)
        self._place[arrivals.order] = np.arange(len(arrivals.order))
        self._order = np.lexsort((self._place, self._keys))
        self._sorted = self._keys[self._order]

    def within(self, edge: int, window: float) -> Positions:
        """Positions of the edges with the same key as an edge, up to this edge and not older than the window."""
        start, stop = np.searchsorted(self._sorted, [self._keys[edge], self._keys[edge] + 1])
        same = self._order[start : np.searchsorted(self._place[self._order[start:stop]], self._place[edge]) + start + 1]
        return same[self._ticks[edge] - self._ticks[same] <= window]
