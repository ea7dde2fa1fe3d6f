"""Why a propagation model predicts what it predicts, in words."""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp
from sklearn.base import is_regressor

from tdlg.checks import check_count
from tdlg.edges import TemporalEdges
from tdlg.estimator import Scored
from tdlg.explain.positive import positive_of, refuse_positive
from tdlg.explain.reasons import chosen_rows, reasons_table
from tdlg.explain.sentences import Reason, Words
from tdlg.propagate.columns import Query, table_columns
from tdlg.propagate.features import PropagationFeatures
from tdlg.propagate.plan import ANY_CLASS

if TYPE_CHECKING:
    import polars as pl

__all__ = ["explain_propagation", "node_reasons"]

Floats = NDArray[np.float64]
Positions = NDArray[np.int64]

PAIR_MATCHES = ("pair", "reversed")  # about both ends; the others are about the end that they are named after
ROWS_AT_ONCE = 2**16  # of columns, each with one group replaced
NO_EFFECT = 1e-9  # smaller ones are rounding
REASONS_COUNTED = 3  # of each of these, the strongest


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
    at their median over the training rows (`typical_`). Effects need not add up, because two groups may share information.

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
    A sentence that compares agrees with the sign of the effect. There may be several: about the 10 interactions nearest in
    time (the "last" 10 if the model sees only the past), about up to 50, or about fewer. If none agrees, the sentence
    states the values without comparing them. Sentences use only the data that the model may see. A labelled interaction is
    an interaction whose label is known at the time of the edge; an edge's own label is never used. The number of
    interactions is given for the time scale at which it differs most from the median; the usual value of an amount is its
    median. Durations are rounded; if times are numbers, durations are in time units.

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
    best = np.argsort(-np.abs(explained.effects), axis=1, kind="stable")[:, :top]
    asked, rank = np.nonzero(np.take_along_axis(explained.effects, best, axis=1))
    row, group = which[asked], best[asked, rank]
    return reasons_table(
        edges,
        row,
        None if explained.classes is None else explained.classes[asked],
        scores=explained.scores[asked],
        rank=rank + 1,
        what=[explained.groups[g].what for g in group],
        effects=explained.effects[asked, group],
        reasons=[explained.reason(i, g) for i, g in zip(asked.tolist(), group.tolist(), strict=True)],
    )


# ---- groups of columns, and their effects


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
        self,
        model: Any,
        edges: TemporalEdges,
        query: Query,
        which: Positions,
        columns: Floats,
        positive: Any,
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


# ---- nodes


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
    if not having:
        return None
    most = max(having.values(), key=lambda found: (len(found), sum(explained.effects[i, g] for i, g in found)))
    return explained.reason(*most[0])[0]
