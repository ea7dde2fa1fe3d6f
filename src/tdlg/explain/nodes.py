"""Which nodes have the riskiest interactions, and why."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.base import is_regressor
from sklearn.utils.validation import check_is_fitted

from tdlg.checks import check_choice, check_count
from tdlg.edges import TemporalEdges
from tdlg.estimator import Explainable, Scored
from tdlg.exceptions import ParameterError
from tdlg.explain.positive import positive_of, refuse_positive
from tdlg.explain.reasons import as_series

if TYPE_CHECKING:
    import polars as pl

Floats = NDArray[np.float64]
Positions = NDArray[np.int64]

ADDED = 5  # interactions of average risk that are added to each node
NODES_EXPLAINED = 1000  # the most nodes whose main reason is looked for
SAMPLED = 10  # interactions of a node that are explained to find the reason most of them share


def node_scores(
    model: Any,
    edges: Any,
    positive: Any = None,
    role: Literal["both", "src", "dst"] = "both",
    *,
    top: int | None = None,
    label_time: Any = None,
) -> pl.DataFrame:
    """Order nodes by how risky their interactions are: which account to open first.

    The risk of an interaction is the model's probability of the positive class. Nodes are ordered by the mean risk of their
    interactions, after 5 interactions of average risk are added to each node:

        score = (expected + 5 * mean of all) / (n + 5)

    So a node with 2 risky interactions of 2 ranks above a node with 5 of 500, and below a node with 20 of 20, because 2 of 2
    may be chance. The probabilities of a propagation model never use the interaction's own label; those of
    `LineGraphClassifier` do, for interactions whose label it was fitted on.

    Parameters
    ----------
    model
        A fitted `PropagationClassifier` or `LineGraphClassifier`; or a `PropagationRegressor`, whose predictions are used
        in place of probabilities.
    edges
        The interactions to score, fitted or new; or what `model.scored` returned for them.
    positive
        The class that is risky. By default it is the positive class, see `tdlg.explain.positive.positive_class`. Not for
        a regressor.
    role
        Which interactions of a node count: all ("both"), or only those in which it is the source ("src") or the
        destination ("dst").
    top
        How many nodes to give, the riskiest first; all nodes by default. With fewer nodes, fewer reasons are looked for.
    label_time
        When the labels of the edges become known, for a propagation model under setting="stream".

    Returns
    -------
    polars.DataFrame
        One row per node, the riskiest first: node, role ("src", "dst" or "both": its role in these interactions), n (the
        number of interactions), expected (the sum of their probabilities), mean, highest, score, reason and edge (the
        position in `edges` of the riskiest interaction). Reasons are given for the first 1,000 nodes; the reason is null
        where nothing raised the scores.

    Notes
    -----
    With a propagation model, the reason is the reason that most of the node's interactions share. Ten interactions are
    explained, sampled in proportion to their risk. Each has up to three reasons that raised its score, and two interactions
    share a reason if it is about the same nodes or the same category. The sentence comes from the riskiest interaction with
    this reason. With a `LineGraphClassifier`, the reason is the fitted interaction that raised the score of the riskiest
    interaction most.

    Raises
    ------
    ParameterError
        If the model is of another type, if `positive` is not one of its classes, or if the role is not one of the above.

    Examples
    --------
    >>> from tdlg import PropagationClassifier, TemporalEdges
    >>> from tdlg.explain import node_scores
    >>> edges = TemporalEdges(
    ...     ["ann", "bob", "cat", "dan"] * 25, ["x", "y", "z", "x", "y"] * 20, range(100),
    ...     label=["ok", "ok", "fraud", "ok", "ok"] * 20,
    ... )
    >>> model = PropagationClassifier(random_state=0).fit(edges)
    >>> node_scores(model, edges[80:])["node", "role", "n"].row(0)
    ('z', 'dst', 4)
    """
    import polars as pl

    _check_model(model)
    check_choice("node_scores", "role", role, ("both", "src", "dst"))
    check_is_fitted(model)
    if top is not None:
        check_count("node_scores", "top", top, 1)
    code = _positive(model, positive)
    scored = edges if isinstance(edges, Scored) else model.scored(edges, label_time=label_time)
    edges, values = scored.edges, scored.values if code is None else scored.values[:, code]
    node, edge = _ends(edges, role)
    nodes = _summed(node, edge, values)
    order = np.lexsort((nodes.node, -nodes.expected, -nodes.score))[:top]
    worst = nodes.edge[order]
    first = order[:NODES_EXPLAINED]
    explained = model._node_reasons(scored, nodes.edge[first], nodes.sampled[first], code)
    return pl.DataFrame(
        {
            "node": as_series(edges.node_ids[nodes.node[order]]),
            "role": pl.Series(_roles(nodes.node, edges, role)[order], dtype=pl.String),
            "n": pl.Series(nodes.n[order], dtype=pl.Int64),
            "expected": nodes.expected[order],
            "mean": (nodes.expected / nodes.n)[order],
            "highest": values[worst],
            "score": nodes.score[order],
            "reason": pl.Series([*explained, *[None] * (len(order) - len(explained))], dtype=pl.String),
            "edge": pl.Series(worst, dtype=pl.Int64),
        }
    )


def _check_model(model: Any) -> None:
    if not isinstance(model, Explainable):
        raise ParameterError(
            f"The 'model' parameter of node_scores must be a PropagationClassifier, LineGraphClassifier or "
            f"PropagationRegressor. Got {type(model).__name__} instead: fit one of these.",
            parameter="model",
        )


def _positive(model: Any, given: Any) -> int | None:
    """The position of the positive class; None for a regressor."""
    if is_regressor(model):
        refuse_positive(given)
        return None
    return positive_of(model, given)


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
