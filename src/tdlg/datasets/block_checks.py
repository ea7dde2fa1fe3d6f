"""Checks of the parameters of the temporal stochastic block model, and their stored form."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from tdlg.checks import check_count, is_number
from tdlg.exceptions import ParameterError

__all__ = ["OWNER", "Shares", "checked_intra", "checked_sizes", "one_a_period"]

OWNER = "TemporalBlockModel"  # in the messages of checks

Shares = float | tuple[tuple[float, ...], ...]


def _is_list(value: Any) -> bool:
    if isinstance(value, np.ndarray):
        return value.ndim > 0
    return isinstance(value, Sequence) and not isinstance(value, str)


def checked_sizes(communities: Any, n_nodes: int) -> tuple[int, ...]:
    """The sizes of the communities, from their number or their sizes."""
    if not _is_list(communities):
        check_count(OWNER, "communities", communities, 1)
        many = int(communities)
        if many > n_nodes:
            raise ParameterError(
                f"The 'communities' parameter must be at most 'n_nodes', {n_nodes}: each needs a node. Got {many} instead.",
                parameter="communities",
            )
        return tuple(n_nodes // many + (at < n_nodes % many) for at in range(many))
    for size in communities:
        check_count(OWNER, "communities", size, 1)
    sizes = tuple(map(int, communities))
    if sum(sizes) != n_nodes:
        raise ParameterError(
            f"The 'communities' parameter must be sizes that sum to 'n_nodes', {n_nodes}. Got {sizes} instead.",
            f"Pass n_nodes={sum(sizes)!r}, or other sizes.",
            parameter="communities",
        )
    return sizes


def one_a_period(name: str, values: Any, n_periods: int) -> tuple[float, ...]:
    """One finite number per period."""
    numbers = list(values) if _is_list(values) else []
    if len(numbers) != n_periods or not all(is_number(number) and math.isfinite(number) for number in numbers):
        raise ParameterError(
            f"The {name!r} parameter must have a finite number for each of the {n_periods} periods that 'intra' has. "
            f"Got {values!r} instead.",
            parameter=name,
        )
    return tuple(map(float, numbers))


def checked_intra(intra: Any, n_communities: int) -> tuple[Shares, ...]:
    """For each period, the share of edges within communities, or a matrix of shares."""
    if not _is_list(intra) or len(intra) == 0:
        raise ParameterError(
            f"The 'intra' parameter must have one entry per period, such as (0.9, 0.1). Got {intra!r} instead.",
            parameter="intra",
        )
    wrong = [entry for entry in intra if is_number(entry) and not 0 <= entry <= 1]
    if wrong:
        raise ParameterError(
            f"The 'intra' parameter must have shares from 0 to 1. Got {wrong[0]!r} instead.",
            parameter="intra",
        )
    return tuple(float(entry) if is_number(entry) else _matrix(entry, n_communities) for entry in intra)


def _matrix(entry: Any, n_communities: int) -> tuple[tuple[float, ...], ...]:
    try:
        shares = np.array(entry, float)
    except (TypeError, ValueError):
        shares = np.empty(0)
    if shares.shape != (n_communities, n_communities):
        raise ParameterError(
            f"An entry of the 'intra' parameter must be a share, or a matrix of shares with a row and a column for each of "
            f"the {n_communities} communities. Got {entry!r} instead.",
            parameter="intra",
        )
    upper, lower = np.triu(shares), np.tril(shares, -1)
    mirrored = not lower.any() or np.array_equal(lower, np.triu(shares, 1).T)
    if not (mirrored and np.all(shares >= 0) and abs(upper.sum() - 1) < 1e-9):
        raise ParameterError(
            f"A matrix in the 'intra' parameter must have shares of at least 0 that sum to 1 on and above the diagonal, and "
            f"zeros or the same values below it. Got {entry!r} instead, which sums to {upper.sum():.6g} there.",
            parameter="intra",
        )
    return tuple(tuple(row) for row in shares.tolist())
