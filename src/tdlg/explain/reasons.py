"""Reasons for scores as tables: of propagation models, of the line-graph classifier, and of bursts."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp
from sklearn.base import is_regressor

from tdlg.checks import check_count
from tdlg.clock import round_duration
from tdlg.edges import TemporalEdges
from tdlg.estimator import Scored, fitted_graph
from tdlg.exceptions import ParameterError
from tdlg.explain.positive import positive_of, refuse_positive
from tdlg.explain.sentences import NAMED, Reason, Words, burst, near_interaction
from tdlg.linegraph.events import own_columns
from tdlg.propagate.bursts import Arrivals, surprises_of_key
from tdlg.propagate.features import PropagationFeatures, Query, table_columns
from tdlg.propagate.plan import ANY_CLASS

if TYPE_CHECKING:
    import polars as pl

Floats = NDArray[np.float64]
Positions = NDArray[np.int64]

PAIR_MATCHES = ("pair", "reversed")  # about both ends; the others are about the end that they are named after
ROWS_AT_ONCE = 2**16  # of columns, each with one group replaced
NO_EFFECT = 1e-9  # smaller ones are rounding
REASONS_COUNTED = 3  # of each of these, the strongest


# ---- propagation models


def explain_propagation(
    model: Any,
    edges: TemporalEdges | Scored,
    top: int = 3,
    *,
    rows: Any = None,
    positive: Any = None,
    label_time: Any = None,
) -> pl.DataFrame:
    """What moved each prediction most, in words.

    The columns that a model learns from are grouped by what they measure. For each match there are the labels ("src rate",
    or "src mean" for a regressor), how much is known ("src known"), the number of interactions ("src count"), how long ago
    they were ("src gaps"), what came after the last label of the rarest class ("src since"), each feature beside theirs
    ("src amount") and theirs alone ("src usual amount"), and the labels of partners elsewhere ("src partners"); in
    addition, there are the edge's own features ("amount") and, for both ends together, the labels of similar nodes ("src
    agreement") and their number ("src common"). The effect of a group is the score minus the score with the group's columns
    at their median over the training rows (`typical_`). Of groups that say the same, the strongest one speaks. Effects need
    not add up, because two groups may share information.

    Parameters
    ----------
    model
        A fitted `PropagationClassifier` or `PropagationRegressor`.
    edges
        The edges to explain, fitted or new; or what `model.scored` returned for them.
    top
        How many reasons to give per edge, those of the largest effect first; 3 by default, fewer if fewer groups have
        an effect.
    rows
        Positions in `edges` of the edges to explain; by default all edges. The other edges still count as neighbours.
    positive
        The class to explain. By default, with two classes the positive class (see
        `tdlg.explain.positive.positive_class`), and with more classes the class predicted for each edge. Not for a
        regressor.
    label_time
        Under setting="stream", when the labels of the edges become known, as for `predict_proba`.

    Returns
    -------
    polars.DataFrame
        One row per reason: edge (position in `edges`), src, dst, time, class (the class explained; not for a regressor),
        score (the log of its odds, or the predicted number), rank, what (the group), effect (on the score), reason, and
        neighbours: positions of at most 5 interactions behind the reason among the fitted edges, the most influential
        first. A position of len(model.edges_) or more stands for `edges[position - len(model.edges_)]`.

    Notes
    -----
    A sentence that compares agrees with the sign of the effect. There may be several: about the 10 interactions nearest
    in time (the "last" 10 if the model sees only the past), about up to 50, or about fewer. If none agrees, the
    sentence states the values without comparing them; a category that is as common as among all is no reason. Sentences
    use only the data that the model may see. A labelled interaction is an interaction whose label is known at the time
    of the edge; an edge's own label is never used. The number of interactions is given for the time scale at which it
    differs most from the median; the usual value of an amount is its median. Durations are rounded; if times are
    numbers, durations are in time units.

    Edges that are new to the model count as neighbours of each other. To explain some edges as they were scored, pass all
    edges and `rows`.

    The time is that of predicting (number of groups + 1) times as many edges, about 30 times without features, plus about
    0.1 ms per reason. Edges are processed in blocks to limit the memory.

    Examples
    --------
    >>> from tdlg import PropagationClassifier, TemporalEdges
    >>> edges = TemporalEdges(
    ...     ["ann", "bob", "cat"] * 34, ["good", "bad"] * 51, range(102), label=[*["fine", "fraud"] * 50, "fine", None]
    ... )
    >>> model = PropagationClassifier(random_state=0).fit(edges)
    >>> table = model.explain(edges[101:], top=1)
    >>> table["what"].item(), table["effect"].item() > 0
    ('dst rate', True)
    >>> table["reason"].item()
    "10 of the last 10 labelled interactions to 'bad' were fraud, the last 2 time units before"
    >>> table["neighbours"].item().to_list()
    [99, 97, 95, 93, 91]
    """
    check_count("explain", "top", top, 1)
    scored, edges = (edges, edges.edges) if isinstance(edges, Scored) else (None, edges)
    which = chosen_rows(rows, len(edges))
    if scored is None:
        model._check_asked(edges, label_time)
        query = model._evidence(edges, label_time)
        explained = _Explained(
            model,
            edges,
            query,
            which,
            table_columns(model.features_.plan_, query.some(which), n_threads=model.n_threads),
            positive,
        )
    else:
        explained = _Explained.of(model, scored, which, positive)
    found = [(i, rank, *reason) for i in range(len(which)) for rank, reason in enumerate(explained.reasons(i, top), 1)]
    asked = np.array([i for i, *_ in found], np.int64)
    return reasons_table(
        edges,
        which[asked],
        None if explained.classes is None else explained.classes[asked],
        scores=explained.scores[asked],
        rank=np.array([rank for _, rank, *_ in found], np.int64),
        what=[what for _, _, what, _, _ in found],
        effects=[effect for *_, effect, _ in found],
        reasons=[reason for *_, reason in found],
    )


def strongest_reasons(model: Any, scored: Scored, top: int, positive: Any) -> list[tuple[str, float, Reason]]:
    """What moved the prediction of the first of these edges most, with the effect and the reason of each."""
    explained = _Explained.of(model, scored, np.zeros(1, np.int64), positive)
    return explained.reasons(0, top)


class Group(NamedTuple):
    """Columns that tell the same for several time scales."""

    match: str  # "" for an edge's own feature
    kind: str  # what it measures, see `Column.about`
    feature: str  # "" where it is about none
    columns: list[int]

    @property
    def what(self) -> str:
        """Its name, such as "src rate", "src amount", "src usual amount" or "amount"."""
        kind = "" if self.kind in ("feature", "own") else self.kind
        return " ".join(filter(None, [self.match, kind, self.feature]))


def _groups(features: PropagationFeatures) -> list[Group]:
    """The columns by what they are about."""
    columns: dict[tuple[str, str, str], list[int]] = {}
    for position, column in enumerate(features.plan_.columns):
        match = "" if column.about == "own" else column.match
        columns.setdefault((match, column.about, column.feature), []).append(position)
    return [Group(*key, positions) for key, positions in columns.items()]


class _Explained:
    """The scores of some of the edges to explain, how each group of columns changed them, and why."""

    def __init__(
        self, model: Any, edges: TemporalEdges, query: Query, which: Positions, columns: Floats, positive: Any
    ) -> None:
        self.groups = _groups(model.features_)
        self._typical, self._n_scales = model.typical_, len(model.features_.scale_names_)
        self._columns, self._described = columns, model.features_.plan_.columns
        codes, self.classes = _codes(model, self._columns, positive)
        self.scores = _scores(model, self._columns, codes)
        self.effects = self._effects(model, codes)
        self._edges, self._which, self._codes = edges, which, codes
        self._words = Words(model.features_, edges, query.evidence, query.at, getattr(model, "label_name_", None))

    @classmethod
    def of(cls, model: Any, scored: Scored, which: Positions, positive: Any) -> Self:
        """Some of the edges that a model has scored."""
        whole = scored.edges if scored.whole is None else scored.whole
        return cls(model, whole, scored.query, scored.places(which), scored.columns[which], positive)

    def _effects(self, model: Any, codes: Positions) -> Floats:
        """(n_edges, n_groups): the scores less those with each group's columns as they typically are."""
        n_rows, n_groups = len(self._columns), len(self.groups)
        effects = np.zeros((n_rows, n_groups))
        step = max(1, ROWS_AT_ONCE // n_groups)
        for start in range(0, n_rows, step):
            part = slice(start, start + step)
            changed = np.repeat(self._columns[part, np.newaxis], n_groups, axis=1)
            for g, group in enumerate(self.groups):
                changed[:, g, group.columns] = self._typical[group.columns]
            without = _scores(model, changed.reshape(-1, changed.shape[2]), np.repeat(codes[part], n_groups))
            effects[part] = self.scores[part, np.newaxis] - without.reshape(-1, n_groups)
        effects[np.abs(effects) < NO_EFFECT] = 0.0
        return effects

    def reasons(self, i: int, top: int) -> list[tuple[str, float, Reason]]:
        """The strongest reasons for the i-th edge: of which group, the effect, and the reason itself.

        Of groups that say the same, such as "first interaction from 'ann'", the strongest one speaks.
        """
        found: dict[str, tuple[str, float, Reason]] = {}
        for g in np.argsort(-np.abs(self.effects[i]), kind="stable").tolist():
            if len(found) == top or not self.effects[i, g]:
                break
            reason = self.reason(i, g)
            if reason[0]:  # else nothing about it is unusual
                found.setdefault(reason[0], (self.groups[g].what, float(self.effects[i, g]), reason))
        return list(found.values())

    def fact(self, i: int, g: int) -> Hashable:
        """What the g-th group's reason for the i-th edge is about; two edges with the same fact share the reason."""
        group, asked = self.groups[g], int(self._which[i])
        ends = int(self._edges.src_code[asked]), int(self._edges.dst_code[asked])
        if group.kind == "own":
            return g, self._words.category(asked, group.feature)
        if group.match in PAIR_MATCHES or group.kind in ("agreement", "common"):
            return g, ends
        return g, ends[group.match.startswith("dst")]

    def reason(self, i: int, g: int) -> Reason:
        """The reason that the g-th group gives for the i-th edge explained."""
        group, asked, code = self.groups[g], int(self._which[i]), int(self._codes[i])
        raises, words = bool(self.effects[i, g] > 0), self._words
        above = self._columns[i, group.columns] - self._typical[group.columns]
        most = int(np.abs(above).argmax())  # the time scale at which it differs most from typical columns
        if group.kind == "own":
            return words.own(asked, group.feature)
        if group.kind == "feature":
            return words.feature(asked, group.match, group.feature, raises)
        if group.kind == "usual":
            return words.usual(asked, group.match, group.feature)
        if group.kind == "since":
            return words.since(asked, group.match)
        if group.kind == "lately":
            return words.lately(asked, group.match, group.feature)
        if group.kind == "gaps":
            return words.gaps(asked, group.match)
        if group.kind == "agreement":
            return words.agreement(asked, group.match, code, raises)
        if group.kind == "common":
            return words.common(asked, group.match, code)
        if group.kind == "count":
            return words.count(asked, group.match, most % self._n_scales)
        if group.kind == "known":
            return words.known(asked, group.match, bool(above[most] > 0))
        if group.kind == "partners":
            return words.partners(asked, group.match, code, raises)
        return words.labels(asked, group.match, code, raises, self._shift(group, above, code))

    def _shift(self, group: Group, above: Floats, code: int) -> float:
        """How much higher than typical the rate of the class is, over all time scales."""
        described = [self._described[k] for k in group.columns]
        is_rate = [column.name.startswith((f"{group.match}:rate", f"{group.match}:mean")) for column in described]
        of_class = [column.of_class in (code, ANY_CLASS) for column in described]
        is_first_of_two = self.classes is not None and described[0].of_class == ANY_CLASS and code == 0
        return float(above[np.array(is_rate) & of_class].mean()) * (-1.0 if is_first_of_two else 1.0)


def _codes(model: Any, columns: Floats, positive: Any) -> tuple[Positions, NDArray[Any] | None]:
    """The class explained for each row, as a position among the classes and as it is; all 0 and None for a number."""
    if is_regressor(model):
        refuse_positive(positive)
        return np.zeros(len(columns), int), None
    if positive is None and len(model.classes_) > 2:
        codes = model._answer(columns).argmax(axis=1)
    else:
        codes = np.full(len(columns), positive_of(model, positive))
    return codes, model.classes_[codes]


def _scores(model: Any, columns: Floats, codes: Positions) -> Floats:
    """Logs of the odds of the classes explained, or numbers."""
    answers = model._answer(columns)
    if is_regressor(model):
        return answers
    mine = np.arange(answers.shape[1]) == codes[:, np.newaxis]
    return answers[mine] - logsumexp(np.where(mine, -np.inf, answers), axis=1)


def node_reasons(model: Any, scored: Scored, sampled: Positions, code: int | None) -> list[str | None]:
    """The reason that most of the interactions in each row share."""
    positive = None if code is None else model.classes_[code]
    which, place = np.unique(sampled, return_inverse=True)
    explained = _Explained.of(model, scored, which, positive)
    return [_shared(explained, mine.tolist()) for mine in place.reshape(sampled.shape)]


def _shared(explained: _Explained, mine: list[int]) -> str | None:
    """The reason that most of these edges have among their strongest; of as many, the one with the larger effects."""
    having: dict[Hashable, list[tuple[int, int]]] = {}
    for i in mine:
        for g in np.argsort(-explained.effects[i], kind="stable")[:REASONS_COUNTED].tolist():
            if explained.effects[i, g] > 0:
                having.setdefault(explained.fact(i, g), []).append((i, g))
    counted = sorted(having.values(), key=lambda found: (-len(found), -sum(explained.effects[i, g] for i, g in found)))
    return next((sentence for found in counted if (sentence := explained.reason(*found[0])[0])), None)


# ---- the line-graph classifier


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
    own = own_columns(edges[which], fitted)
    lines: list[tuple[Any, ...]] = []
    for i, terms in enumerate(_all_terms(model, edges[which], 1 if len(model.classes_) == 2 else None)):
        some = (terms.at[:top].tolist(), terms.proximity[:top].tolist(), terms.contribution[:top].tolist())
        parts = [("itself" if at == own[i] else "interaction", at, *more) for at, *more in zip(*some, strict=True)]
        parts.append(("others", -1, None, float(terms.contribution[top:].sum())))
        parts.append(("intercept", -1, None, float(model.intercept_[0 if len(model.intercept_) == 1 else terms.code])))
        lines += [(int(which[i]), terms.code, *part) for part in parts]
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
    arrivals, every = model.plan_.keyed(fitted, edges[new])
    kinds = model.plan_.kinds
    at = places.copy()
    at[new] = len(fitted) + np.arange(len(new))
    fast, slow = (decay.parts(arrivals.time_unit)[0].bandwidth for decay in (model.fast_, model.slow_))
    surprise, usual = burst_counts(arrivals, every, at[which], fast, slow)
    ranked = np.argsort(-surprise, axis=1, kind="stable")[:, :top]
    lines = [(i, rank, k) for i, keys in enumerate(ranked) for rank, k in enumerate(keys) if surprise[i, k] > 0]
    row, rank, key = np.array(lines, np.int64).reshape(-1, 3).T
    window, words = round_duration(fast, arrivals.time_unit)
    counts = [_Latest(arrivals, keys) for keys in every]
    behind = [counts[k].within(at[which[i]], window) for i, _, k in lines]
    reasons = [
        burst(edges, which[i], kinds[k], len(there), usual[i, k] * window / fast, words)
        for (i, _, k), there in zip(lines, behind, strict=True)
    ]
    return reasons_table(
        edges,
        which[row],
        None,
        scores=surprise.max(axis=1, initial=0.0)[row],
        rank=rank + 1,
        what=[kinds[k] for k in key],
        effects=surprise[row, key],
        reasons=[(reason, there[-NAMED:][::-1].tolist()) for reason, there in zip(reasons, behind, strict=True)],
    )


def burst_counts(
    arrivals: Arrivals, every: Sequence[NDArray[Any]], rows: Positions, fast: float, slow: float
) -> tuple[Floats, Floats]:
    """The surprises of some edges, and the fast counts expected from the edges before, NaN if there is no time before.

    Both are of shape (n_rows, n_keys), in the order of the keys; see `tdlg.propagate.bursts.burst_surprises`.
    """
    ticks, order, start = arrivals.ticks, arrivals.order, arrivals.start
    age = (ticks[rows] - start).astype(np.float64)
    inside, seen = (-width * np.expm1(-age / width) for width in (fast, slow))
    before = np.where(seen > inside, seen - inside, np.nan)
    found, usual = np.empty((2, len(rows), len(every)))
    counts = np.empty((len(order), 2))
    for k, keys in enumerate(every):
        found[:, k] = surprises_of_key(keys, ticks, order, start, fast, slow, counts)[rows]
        count, total = counts[rows].T
        usual[:, k] = (total - count) / before * inside
    return found, usual


class _Latest:
    """The edges of a key, in the order in which they come."""

    def __init__(self, arrivals: Arrivals, keys: NDArray[Any]) -> None:
        self._ticks, self._keys = arrivals.ticks, keys
        self._place = np.empty(len(arrivals.order), np.int64)
        self._place[arrivals.order] = np.arange(len(arrivals.order))
        self._order = np.lexsort((self._place, self._keys))
        self._sorted = self._keys[self._order]

    def within(self, edge: int, window: float) -> Positions:
        """Positions of the edges with the same key as an edge, up to this edge and not older than the window."""
        start, stop = np.searchsorted(self._sorted, [self._keys[edge], self._keys[edge] + 1])
        same = self._order[start : np.searchsorted(self._place[self._order[start:stop]], self._place[edge]) + start + 1]
        return same[self._ticks[edge] - self._ticks[same] <= window]


# ---- tables


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

    from tdlg.explain.notebook import Reasons

    return Reasons(
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
