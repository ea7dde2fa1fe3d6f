"""Closed forms of the temporal stochastic block model: the means of its line graph and of its node embeddings."""

from __future__ import annotations

import math
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import erfcx, ndtr

from tdlg._kernels import CONSTANT, GAUSSIAN
from tdlg.checks import check_choice
from tdlg.exceptions import ParameterError
from tdlg.linegraph.decay import Decay
from tdlg_paper.blocks import TemporalBlockModel

Floats = NDArray[np.float64]

FAR = 50.0  # exp(-50) is negligible compared with 1
NODES, WEIGHTS = np.polynomial.legendre.leggauss(100)  # for an integral from -1 to 1


def expected_line_graph(model: TemporalBlockModel, decay: Decay) -> Floats:
    """The mean of H_ij for two different edges of each pair of `model.kinds`: the paper's Proposition 1.

    It is exact for any number of nodes, and for times that vary. The diagonal of H is not random: it is 2 times k(0).

    Examples
    --------
    >>> from tdlg import Gaussian
    >>> expected_line_graph(TemporalBlockModel(time_stds=0), Gaussian(1.0))[0].round(4)  # a distance in time of 2
    array([0.08  , 0.    , 0.04  , 0.0108, 0.    , 0.0054])
    """
    ends = np.where(model.n_pairs[:, None] > 0, _ends(model), math.nan)
    shared = (ends / model.sizes) @ ends.T
    return np.kron(_gamma(model, decay), shared).astype(np.float64)


def expected_node_embeddings(
    model: TemporalBlockModel, decay: Decay, aggregate: Literal["mean", "sum"] = "mean"
) -> Floats:
    """The mean entry of `node_embeddings(edges, H)`, shape (n_communities, n_kinds): the paper's Proposition 2.

    Each entry is for a node and an edge without that node, as in the paper's proof. It is exact for any number of
    nodes, and for times that vary.
    """
    check_choice("expected_node_embeddings", "aggregate", aggregate, ("mean", "sum"))
    gamma = _gamma(model, decay)
    weigh = shares_of_degree if aggregate == "mean" else np.multiply
    values = [
        [_node_entry(model, community, kind, gamma, weigh) for kind in range(model.counts.size)]
        for community in range(len(model.sizes))
    ]
    return np.array(values)


def _node_entry(model: TemporalBlockModel, community: int, kind: int, gamma: Floats, weigh: Any) -> float:
    """The mean entry of a node of the community and an edge of the kind without that node."""
    period, block = divmod(kind, len(model.communities_of_blocks))
    own = np.arange(len(model.sizes)) == community
    others = np.array(model.sizes) - own  # number of nodes in each community without the node itself
    if np.any(_ends(model)[block] > others):
        return math.nan
    n_edges = np.maximum(model.counts - (np.arange(model.counts.size) == kind).reshape(model.counts.shape), 0)
    touching = _ends(model)[:, community] / model.sizes[community]  # probability that an edge contains the node
    partner = _ends(model) - own  # the community of its other end
    adjacent = (partner / np.maximum(others, 1)) @ _ends(model)[block]  # how likely that is an end of the column's
    usable = (touching > 0) & (model.n_pairs > 0)
    weight = weigh(n_edges[:, usable], touching[usable])
    return float(gamma[period] @ weight @ adjacent[usable])


def _gamma(model: TemporalBlockModel, decay: Decay) -> Floats:
    """The mean of the decay between an edge of each period and another of each, shape (n_periods, n_periods)."""
    if not isinstance(decay, Decay):
        raise ParameterError(
            f"The 'decay' parameter must be a decay such as Gaussian(0.5) or NoDecay(). Got {decay!r} instead.",
            parameter="decay",
        )
    mean, std = np.array(model.time_means, float), np.array(model.time_stds, float)
    return mean_decay(decay, mean[:, None] - mean, std[:, None] ** 2 + std**2)


def _ends(model: TemporalBlockModel) -> Floats:
    """The number of ends that an edge of each block has in each community, shape (n_blocks, n_communities)."""
    one, (a, b) = np.eye(len(model.sizes)), model.communities_of_blocks.T
    return one[a] + one[b]


def mean_decay(decay: Decay, difference: Floats, variance: Floats) -> Floats:
    """The mean of k(d) for normal d with this mean and variance."""
    total = np.zeros(difference.shape)
    for code, bandwidth, weight in decay.parts(None):
        if code == CONSTANT:
            total += weight
        else:
            mean = _mean_gaussian if code == GAUSSIAN else _mean_laplace
            total += weight * mean(difference / bandwidth, variance / bandwidth**2)
    return total


def _mean_gaussian(mean: Floats, variance: Floats) -> Floats:
    """The mean of exp(-d^2 / 2)."""
    return np.exp(-0.5 * mean**2 / (1 + variance)) / np.sqrt(1 + variance)


def _mean_laplace(mean: Floats, variance: Floats) -> Floats:
    """The mean of exp(-|d|): the sum over both signs of exp(variance / 2 -+ mean) * P(normal < +-mean / std - std)."""
    std = np.sqrt(np.maximum(variance, 1e-200))
    total = np.zeros(mean.shape)
    for signed in (mean, -mean):
        x = signed / std - std
        below = 0.5 * np.exp(-0.5 * (signed / std) ** 2) * erfcx(np.maximum(-x, 0) / math.sqrt(2))  # cannot overflow
        above = np.exp(np.minimum(0.5 * variance - signed, 0)) * ndtr(x)  # an exponent of at most 0 where x > 0
        total += np.where(x > 0, above, below)
    return total


def shares_of_degree(n: NDArray[np.int64], p: Floats) -> Floats:
    """E[D_k / D | D > 0], D the sum of independent binomials D_k of n_k trials with probability p_k.

    E[D_k / D] = n_k p_k E[1 / (1 + D')], where D' lacks one trial of k, and the last is the integral of E[(1 - t)^D'],
    a product of powers of 1 - p t, over t from 0 to 1. The integrand is at most exp(-E[D'] t), so it is enough to go to
    `reach`. Summed over k this is P(D > 0).
    """
    reach = FAR / max(FAR, float((n * p).sum()) - 1)
    log_miss = np.log1p(-np.multiply.outer(p, reach * (NODES + 1) / 2))
    log_all = np.einsum("qk,kt->t", n, log_miss)
    shares = n * p * (np.exp(log_all - log_miss) @ WEIGHTS)
    total = shares.sum()
    return shares / total if total > 0 else np.full(shares.shape, math.nan)
