"""Closed-form means under the temporal stochastic block model: of a decay, and of shares of a node's degree."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy.special import erfcx, ndtr

from tdlg._kernels import CONSTANT, GAUSSIAN
from tdlg.linegraph.decay import Decay

__all__ = ["mean_decay", "shares_of_degree"]

Floats = NDArray[np.float64]

FAR = 50.0  # exp(-50) is negligible compared with 1
NODES, WEIGHTS = np.polynomial.legendre.leggauss(100)  # for an integral from -1 to 1


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
