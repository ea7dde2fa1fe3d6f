"""Why a propagation model says what it says, in words; and which nodes have the riskiest interactions."""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp
from sklearn.utils.validation import check_is_fitted

from tdlg.edges import TemporalEdges
from tdlg.estimator import check_choice, check_count
from tdlg.exceptions import ParameterError
from tdlg.models.explain import as_series, chosen_rows
from tdlg.models.propagation import PropagationClassifier, PropagationRegressor
from tdlg.models.rows import LineGraphClassifier
from tdlg.models.words import Reason, Words, label_in_words, node_in_words, time_in_words
from tdlg.propagate.features import OWN_MATCHES, PropagationFeatures, Query
from tdlg.propagate.own import OwnColumn

if TYPE_CHECKING:
    import polars as pl

__all__ = ["explain_propagation", "node_scores"]

Floats = NDArray[np.float64]
Positions = NDArray[np.int64]
PropagationModel = PropagationClassifier | PropagationRegressor

PAIR_MATCHES = ("pair", "reversed")  # about both ends; the others are about the end that they are named after
ROWS_AT_ONCE = 2**16  # of columns, each with one group replaced
NO_EFFECT = 1e-9  # smaller ones are rounding
ADDED = 5  # how many interactions of average risk a node is given beforehand
NODES_EXPLAINED = 1000  # the most nodes whose main reason is looked for
SAMPLED = 10  # interactions of a node that are explained to find the reason most of them share
REASONS_COUNTED = 3  # of each of these, the strongest
INTERACTIONS_TRIED = 5  # of the rows model, to find one that speaks for the class


def explain_propagation(
    model: PropagationModel,
    edges: TemporalEdges,
    top: int = 3,
    *,
    rows: Any = None,
    label: Any = None,
    label_time: Any = None,
) -> pl.DataFrame:
    """What moved each prediction most, in words.

    The columns that a model learns from are grouped by what they tell: for each match the labels ("src rate", of a number
    "src mean"), how many interactions there are ("src count"), how long ago they were ("src gaps") and each feature ("src
    amount"); and the edge's own features ("amount"). The effect of a group is the score less the score with the group's
    columns as they typically are (`typical_`, the median of the rows learnt from). Effects need not add up: two groups may
    tell the same.

    Parameters
    ----------
    model
        A fitted `PropagationClassifier` or `PropagationRegressor`.
    edges
        The edges to explain, fitted or new.
    top
        How many reasons to give for each edge, by size of effect; fewer where fewer groups have any.
    rows
        Positions in `edges` of those to explain, all when not given. The others are still seen by them.
    label
        The class to explain. When not given, of two classes the second, and of more the predicted one.
    label_time
        Under setting="stream", when the labels of the edges become known, as for `predict_proba`.

    Returns
    -------
    polars.DataFrame
        One row a reason: edge (position in `edges`), src, dst, time, class (that is explained; not for a number), score (the
        log of its odds, or the number), rank, what (the group), effect (on the score), reason, and neighbours: positions of
        at most 5 interactions behind it, the most influential first. A position from len(model.edges_) on is that of
        `edges[position - len(model.edges_)]`.

    Notes
    -----
    Sentences are about the data that the model may see, and name the 10 nearest interactions in time where there are more:
    "last" ones where it sees only the past. A labelled interaction is one whose label is known by then, which an edge's
    own never is. The number of interactions is told for the time scale at which it is most unlike the typical one; what is
    usual of an amount is its median. Durations are rounded; where times are numbers, they are in time units.

    Edges that are new to the model see each other: to explain some as they were scored, give all and `rows`.

    It takes as long as to predict (number of groups + 1) times as many edges, 19 without features, in blocks that bound
    the memory, and some 0.1 ms a reason.

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
    import polars as pl

    check_count("explain", "top", top, 1)
    query = _look(model, edges, label_time)
    which = chosen_rows(rows, len(edges))
    explained = _Explained(model, edges, query, which, label)
    best = np.argsort(-np.abs(explained.effects), axis=1, kind="stable")[:, :top]
    asked, rank = np.nonzero(np.take_along_axis(explained.effects, best, axis=1))
    row, group = which[asked], best[asked, rank]
    told = [explained.reason(i, g) for i, g in zip(asked.tolist(), group.tolist(), strict=True)]
    classes = {} if explained.classes is None else {"class": as_series(explained.classes[asked])}
    return pl.DataFrame(
        {
            "edge": pl.Series(row, dtype=pl.Int64),
            "src": as_series(edges.src[row]),
            "dst": as_series(edges.dst[row]),
            "time": as_series(edges.time[row]),
            **classes,
            "score": pl.Series(explained.scores[asked], dtype=pl.Float64),
            "rank": pl.Series(rank + 1, dtype=pl.Int64),
            "what": pl.Series([explained.groups[g].what for g in group], dtype=pl.String),
            "effect": pl.Series(explained.effects[asked, group], dtype=pl.Float64),
            "reason": pl.Series([sentence for sentence, _ in told], dtype=pl.String),
            "neighbours": pl.Series([behind for _, behind in told], dtype=pl.List(pl.Int64)),
        }
    )


def _look(model: PropagationModel, edges: TemporalEdges, label_time: Any) -> Query:
    model._check_asked(edges, label_time)
    return model._evidence(edges, label_time)


# ---- groups of columns, and their effects


class Group(NamedTuple):
    """Columns that tell the same for several time scales."""

    match: str  # "" for an edge's own feature
    kind: str  # "rate", "mean", "count", "gaps", "feature" or "own"
    feature: str  # "" where it is about none
    columns: list[int]

    @property
    def what(self) -> str:
        """Its name, such as "src rate", "src amount" or "amount"."""
        return " ".join(filter(None, [self.match, self.feature or self.kind]))


def _groups(features: PropagationFeatures) -> list[Group]:
    """The columns by what they tell; they are in the order of `get_feature_names_out`."""
    own = list(map(OwnColumn._make, features.own_))
    of_target = "mean" if features.classes_ is None else "rate"
    told: list[tuple[str, str, str]] = []
    for match in features.matches:
        around = [(match, "feature", column.name) for column in own for _ in range(1 if column.categories else 2)]
        of_scale = [(match, of_target, "")] * len(features.prior_) + [(match, "count", "")]
        told += (of_scale + (around if match in OWN_MATCHES else [])) * len(features.scale_names_)
        told += [(match, "gaps", "")] * (1 if features.past_only else 2)
    n_around = (len(features.prior_) + 1) * len(features.scale_names_) + (1 if features.past_only else 2)
    told += [("", "own", column.name) for column in own if column.has_more for _ in range(n_around)]
    told += [("", "own", column.name) for column in own for _ in range(column.width)]
    columns: dict[tuple[str, str, str], list[int]] = {}
    for position, key in enumerate(told):
        columns.setdefault(key, []).append(position)
    return [Group(*key, positions) for key, positions in columns.items()]


class _Explained:
    """The scores of some of the edges asked for, what each group of columns did to them, and why."""

    def __init__(
        self,
        model: PropagationModel,
        edges: TemporalEdges,
        query: Query,
        which: Positions,
        label: Any,
    ) -> None:
        self.groups = _groups(model.features_)
        self._typical, self._n_scales = model.typical_, len(model.features_.scale_names_)
        self._columns = model.features_.columns(query.some(which))
        codes, self.classes = _codes(model, self._columns, label)
        self.scores = _scores(model, self._columns, codes)
        self.effects = self._effects(model, codes)
        self._edges, self._which, self._codes = edges, which, codes
        self._words = Words(model.features_, edges, query.evidence, query.at)

    def _effects(self, model: PropagationModel, codes: Positions) -> Floats:
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
        if group.match in PAIR_MATCHES:
            return g, ends
        return g, ends[group.match.startswith("dst")]

    def reason(self, i: int, g: int) -> Reason:
        """The reason that the g-th group gives for the i-th edge explained."""
        group, asked, code = self.groups[g], int(self._which[i]), int(self._codes[i])
        if group.kind == "own":
            return self._words.own(asked, group.feature)
        if group.kind == "feature":
            return self._words.feature(asked, group.match, group.feature)
        if group.kind == "gaps":
            return self._words.gaps(asked, group.match)
        if group.kind == "count":
            oddness = np.abs(self._columns[i, group.columns] - self._typical[group.columns])
            return self._words.count(asked, group.match, int(oddness.argmax()) % self._n_scales)
        return self._words.labels(asked, group.match, code)


def _codes(model: PropagationModel, columns: Floats, label: Any) -> tuple[Positions, NDArray[Any] | None]:
    """The class explained for each row, as a position among the classes and as it is; all 0 and None for a number."""
    if isinstance(model, PropagationRegressor):
        return np.zeros(len(columns), int), None
    if label is not None:
        codes = np.full(len(columns), _code_of(label, model.classes_))
    elif len(model.classes_) == 2:
        codes = np.ones(len(columns), int)
    else:
        codes = model._answer(columns).argmax(axis=1)
    return codes, model.classes_[codes]


def _code_of(label: Any, classes: NDArray[Any]) -> int:
    found = [code for code, known in enumerate(classes.tolist()) if known == label]
    if not found:
        raise ParameterError(f"The 'label' must be one of the classes {classes.tolist()}. Got {label!r} instead.")
    return found[0]


def _scores(model: PropagationModel, columns: Floats, codes: Positions) -> Floats:
    """Logs of the odds of the classes explained, or numbers."""
    answers = model._answer(columns)
    if isinstance(model, PropagationRegressor):
        return answers
    mine = np.arange(answers.shape[1]) == codes[:, np.newaxis]
    return answers[mine] - logsumexp(np.where(mine, -np.inf, answers), axis=1)


# ---- nodes


def node_scores(
    model: Any,
    edges: Any,
    label: Any = None,
    role: Literal["both", "src", "dst"] = "both",
    *,
    label_time: Any = None,
) -> pl.DataFrame:
    """Order nodes by how risky their interactions are: which account to open first.

    The risk of an interaction is the model's probability of the risky class. Nodes are ordered by the mean risk of their
    interactions, each node being given 5 of average risk beforehand:

        score = (expected + 5 * mean of all) / (n + 5)

    So a node with 2 of 2 risky interactions is before one with 5 of 500, and after one with 20 of 20: two may be chance.
    The probabilities of a propagation model are never made from the interaction's own label; those of
    `LineGraphClassifier` are, for interactions whose label it learnt from.

    Parameters
    ----------
    model
        A fitted `PropagationClassifier` or `LineGraphClassifier`; or a `PropagationRegressor`, whose numbers then stand
        for probabilities.
    edges
        The interactions to look at, fitted or new.
    label
        The risky class; the rarest among the labels learnt from when not given. Not for a regressor.
    role
        Which interactions of a node count: all ("both"), or only those in which it is the source ("src") or the
        destination ("dst").
    label_time
        Of a propagation model under setting="stream": when the labels of the edges become known.

    Returns
    -------
    polars.DataFrame
        One row a node, the riskiest first: node, role ("src", "dst" or "both": what it is in these interactions), n (how
        many they are), expected (the sum of their probabilities), mean, highest, score, reason and edge (the position of the
        riskiest of them in `edges`). Reasons are given for the first 1,000 nodes; the reason is null where nothing raised
        the scores.

    Notes
    -----
    The reason of a propagation model is the one that most of the node's interactions share. Ten of them are explained,
    sampled in proportion to their risk; each has up to three reasons that raised its score, and two interactions share a
    reason where it is about the same nodes or the same category. The sentence is that of the riskiest one that has this
    reason. The reason of a `LineGraphClassifier` is what raised the riskiest interaction most.

    Raises
    ------
    ParameterError
        If the model is another one, the label none of its classes, or the role none of the above.

    Examples
    --------
    >>> from tdlg import PropagationClassifier, TemporalEdges, node_scores
    >>> edges = TemporalEdges(
    ...     ["ann", "bob", "cat", "dan"] * 25, ["x", "y", "z", "x", "y"] * 20, range(100),
    ...     label=["ok", "ok", "fraud", "ok", "ok"] * 20,
    ... )
    >>> model = PropagationClassifier(random_state=0).fit(edges)
    >>> node_scores(model, edges[80:])["node", "role", "n"].row(0)
    ('z', 'dst', 4)
    """
    import polars as pl

    _check_model(model, label_time)
    check_choice("node_scores", "role", role, ("both", "src", "dst"))
    check_is_fitted(model)
    asked = model._edges(edges, reset=False)
    code = _risky_class(model, label)
    known = {} if label_time is None else {"label_time": label_time}
    values = model.predict(asked, **known) if code is None else model.predict_proba(asked, **known)[:, code]
    node, edge = _ends(asked, role)
    nodes = _summed(node, edge, values)
    order = np.lexsort((nodes.node, -nodes.expected, -nodes.score))
    worst = nodes.edge[order]
    first = order[:NODES_EXPLAINED]
    if isinstance(model, LineGraphClassifier):
        explained = _main_interactions(model, asked[nodes.edge[first]], int(code or 0))
    else:
        explained = _node_reasons(model, asked, nodes.sampled[first], code, label_time)
    return pl.DataFrame(
        {
            "node": as_series(asked.node_ids[nodes.node[order]]),
            "role": pl.Series(_roles(nodes.node, asked, role)[order], dtype=pl.String),
            "n": pl.Series(nodes.n[order], dtype=pl.Int64),
            "expected": nodes.expected[order],
            "mean": (nodes.expected / nodes.n)[order],
            "highest": values[worst],
            "score": nodes.score[order],
            "reason": pl.Series([*explained, *[None] * (len(order) - len(explained))], dtype=pl.String),
            "edge": pl.Series(worst, dtype=pl.Int64),
        }
    )


def _check_model(model: Any, label_time: Any) -> None:
    if not isinstance(model, PropagationClassifier | PropagationRegressor | LineGraphClassifier):
        raise ParameterError(
            f"The 'model' parameter of node_scores must be a PropagationClassifier, LineGraphClassifier or "
            f"PropagationRegressor. Got {type(model).__name__} instead: fit one of these."
        )
    if label_time is not None and isinstance(model, LineGraphClassifier):
        raise ParameterError("A LineGraphClassifier learns from labels at fit only. Leave out 'label_time'.")


def _risky_class(model: Any, label: Any) -> int | None:
    """The position of the risky class; None for a regressor."""
    if isinstance(model, PropagationRegressor):
        if label is not None:
            raise ParameterError(f"The 'label' is of a classifier, and this is a regressor. Leave out label={label!r}.")
        return None
    if label is not None:
        return _code_of(label, model.classes_)
    counts = [(model.labels_ == known).sum() for known in model.classes_]
    return len(counts) - 1 - int(np.argmin(counts[::-1]))  # of as many, the last


class _Nodes(NamedTuple):
    """What the interactions of each node add up to."""

    node: Positions
    n: Positions
    expected: Floats
    score: Floats
    edge: Positions  # the riskiest
    sampled: Positions  # (n_nodes, SAMPLED), in proportion to their risk, the riskiest first; it may be there twice


def _ends(edges: TemporalEdges, role: str) -> tuple[Positions, Positions]:
    """The nodes of interactions and the interactions, once for each end that counts; a self-loop has one end."""
    every = np.arange(len(edges))
    if role != "both":
        return (edges.src_code if role == "src" else edges.dst_code).astype(np.int64), every
    two = edges.src_code != edges.dst_code
    return np.concatenate([edges.src_code, edges.dst_code[two]]).astype(np.int64), np.concatenate([every, every[two]])


def _roles(node: Positions, edges: TemporalEdges, role: str) -> NDArray[Any]:
    """What each node is in these interactions."""
    is_src, is_dst = np.isin(node, edges.src_code), np.isin(node, edges.dst_code)
    return (
        np.where(is_src & is_dst, "both", np.where(is_src, "src", "dst"))
        if role == "both"
        else np.full(len(node), role)
    )


def _summed(node: Positions, edge: Positions, values: Floats) -> _Nodes:
    order = np.lexsort((edge, -values[edge], node))
    edge = edge[order]
    found, first, n = np.unique(node[order], return_index=True, return_counts=True)
    expected = np.zeros(len(found))
    np.add.at(expected, np.repeat(np.arange(len(found)), n), values[edge])
    prior = values.mean() if len(values) else 0.0
    score = (expected + ADDED * prior) / (n + ADDED)
    return _Nodes(found, n, expected, score, edge[first], edge[_sampled(values[edge], first, n)])


def _sampled(values: Floats, first: Positions, n: Positions) -> Positions:
    """Places at even steps of the risk added up over each node's stretch of interactions: (n_nodes, SAMPLED)."""
    if not len(values):
        return np.empty((0, SAMPLED), int)
    risk = values - values.min()
    added_up = np.r_[0.0, np.cumsum(risk + 1e-9 * (risk.max() or 1.0))]  # more than 0 each, so that steps are even
    starts, ends = added_up[first], added_up[first + n]
    steps = (np.arange(SAMPLED) + 0.5) / SAMPLED
    places = np.searchsorted(added_up, starts[:, np.newaxis] + (ends - starts)[:, np.newaxis] * steps, "right") - 1
    return np.clip(places, first[:, np.newaxis], (first + n - 1)[:, np.newaxis])


def _node_reasons(
    model: PropagationModel, edges: TemporalEdges, sampled: Positions, code: int | None, label_time: Any
) -> list[str | None]:
    """The reason that most of the interactions in each row share."""
    label = None if isinstance(model, PropagationRegressor) else model.classes_[code]
    query = model._evidence(edges, label_time)
    which, place = np.unique(sampled, return_inverse=True)
    explained = _Explained(model, edges, query, which, label)
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


def _main_interactions(model: LineGraphClassifier, edges: TemporalEdges, code: int) -> list[str | None]:
    """For each edge the fitted interaction that speaks most for the class, of those that moved its score most."""
    reasons: list[str | None] = [None] * len(edges)
    table = model.explain(edges, top=INTERACTIONS_TRIED)
    sign = -1 if len(model.classes_) == 2 and code == 0 else 1  # scores of two classes speak for the second
    spoken_for = model.classes_[1 if len(model.classes_) == 2 else code]
    for i, of, part, at, contribution in table["edge", "class", "part", "position", "contribution"].iter_rows():
        if part == "interaction" and of == spoken_for and contribution * sign > 0 and reasons[i] is None:
            reasons[i] = _near(model, edges, i, at)
    return reasons


def _near(model: LineGraphClassifier, edges: TemporalEdges, i: int, at: int) -> str:
    fitted, known = model.edges_, model.edges_.with_label(model.labels_).labelled
    gap = fitted.time[at] - edges.time[i]
    unit = None if fitted.time_unit is None else np.datetime_data(gap.dtype)[0]
    when = time_in_words(gap.item() if unit is None else int(gap.astype(np.int64)), unit)
    of = f"labelled {label_in_words(model.labels_[at])}" if known[at] else "of unknown label"
    return f"near the interaction from {node_in_words(fitted.src[at])} to {node_in_words(fitted.dst[at])} {when}, {of}"
