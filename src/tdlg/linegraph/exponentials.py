"""Decays as sums of exponentials: the fit to the Gaussian, the bound of its error, and tables to evaluate it fast."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tdlg._kernels import CONSTANT, GAUSSIAN
from tdlg.exceptions import ParameterError
from tdlg.linegraph.decay import DecayPart

SMALLEST_TOL = 1e-10  # below this, rounding errors of long sums exceed the error of the approximation


class ExponentialSum(NamedTuple):
    """k(d) = Re sum of coefs * exp(-rates * |d|), for d in ticks."""

    rates: NDArray[np.complex128]
    coefs: NDArray[np.complex128]


def exponential_sum(parts: Sequence[DecayPart], tol: float) -> ExponentialSum:
    """Write a decay as a sum of exponentials: exact for Laplace and constant parts, within `tol` for Gaussian ones.

    "Within tol" refers to products: |error of H @ x| <= tol * max|x| * (largest row sum of H), see `product_error`.
    """
    n_gaussian = max(1, sum(part.code == GAUSSIAN for part in parts))
    rates, coefs = [], []
    for code, bandwidth, weight in parts:
        unit = gaussian_exponentials(tol / n_gaussian) if code == GAUSSIAN else _ONE_EXPONENTIAL
        rates.append(unit.rates / bandwidth if code != CONSTANT else np.zeros(1, complex))
        coefs.append(unit.coefs * weight)
    return ExponentialSum(np.concatenate(rates), np.concatenate(coefs))


_ONE_EXPONENTIAL = ExponentialSum(np.ones(1, complex), np.ones(1, complex))


@lru_cache
def gaussian_exponentials(tol: float) -> ExponentialSum:
    """exp(-x^2 / 2) on x >= 0 as the real part of the fewest complex exponentials that keep products within tol."""
    for n_terms in range(2, 9):
        terms = _fit_exponentials(n_terms)
        if product_error(terms) <= 0.9 * tol:  # the rest is for the errors of the lookup table and of the threads
            return terms
    raise ParameterError(
        f"The 'tol' parameter must be at least {SMALLEST_TOL:g} per Gaussian part: sums in float64 are not more accurate. "
        f"Got {tol:g} per part instead.",
        parameter="tol",
    )


def _fit_exponentials(n_terms: int, reach: float = 9.0, n_samples: int = 200) -> ExponentialSum:
    """Fit Re sum c_k exp(-l_k x) to exp(-x^2 / 2): rates by ESPRIT, then coefficients by least squares.

    ESPRIT: samples of a sum of exponentials fill a Hankel matrix whose column space is closed under a shift by one
    sample; the eigenvalues of that shift are exp(-l_k * step). Rates come in conjugate pairs, so each term kept stands
    for a pair.
    """
    x = np.linspace(0.0, reach, n_samples)
    half = n_samples // 2
    samples = np.exp(-0.5 * x * x)
    hankel = np.lib.stride_tricks.sliding_window_view(samples, half)
    basis = np.linalg.svd(hankel, full_matrices=False)[0][:, : 2 * n_terms]
    shift = np.linalg.lstsq(basis[:-1], basis[1:], rcond=None)[0]
    rates = -np.log(np.linalg.eigvals(shift).astype(complex)) / x[1]
    rates = np.sort_complex(rates[rates.imag > 0])

    x = np.linspace(0.0, 2 * reach, 4 * n_samples)
    waves = np.exp(-np.outer(x, rates))
    solution = np.linalg.lstsq(np.hstack([waves.real, -waves.imag]), np.exp(-0.5 * x * x), rcond=None)[0]
    return ExponentialSum(rates, solution[: rates.size] + 1j * solution[rates.size :])


def product_error(terms: ExponentialSum) -> float:
    """Bound |error of (H @ x)_i| / (max|x| * largest row sum of H) for a sum of exponentials in place of the Gaussian.

    Cut the time axis around edge i into windows of width h <= 2. The n edges of a node within one window have on average
    a row sum of at least n * (1 + exp(-h^2 / 2)) / 2 (the least is reached with half of them at each border), so n is
    bounded by the largest row sum, and each edge in the window adds at most the window's largest error. Twice, as an
    edge has two ends.
    """
    x = np.linspace(-18.0, 18.0, 3601)
    waves = np.exp(-np.outer(np.abs(x), terms.rates))
    error = np.abs((waves @ terms.coefs).real - np.exp(-0.5 * x * x))
    bounds = []
    for width in (1.0, 1.25, 1.5, 1.75, 2.0):
        for offset in np.linspace(0.0, width, 8, endpoint=False):
            window = np.floor((x - x[0] + offset) / width).astype(int)
            largest = np.maximum.reduceat(error, np.flatnonzero(np.diff(window, prepend=-1)))
            bounds.append(largest.sum() * 2 / (1 + math.exp(-0.5 * width**2)))
    return 2 * min(bounds)


def padded_exponentials(tol: float) -> ExponentialSum:
    """The terms of `gaussian_exponentials`, padded with zeros to the 4 or 8 lanes of a vector."""
    rates, coefs = gaussian_exponentials(tol)
    spare = np.zeros((4 if rates.size <= 4 else 8) - rates.size, complex)
    return ExponentialSum(np.append(rates, spare), np.append(coefs, spare))


def exponential_table(tol: float) -> tuple[int, NDArray[np.complex128], NDArray[np.complex128]]:
    """Cells per bandwidth, table and polynomial, with which `_kernels.waves` computes exp(-rates * gap).

    The cells are as wide as the error allows: a gap of z causes a relative error of z times that of the polynomial, and
    a sum fades within the reach of the decay.
    """
    terms = padded_exponentials(tol)
    scale = np.abs(terms.coefs).max() * 10.0
    allowed = (tol - product_error(terms)) / 2
    for cells_each in (16, 32, 64, 128, 256):
        poly, error = _fit_poly(terms.rates / cells_each)
        if error * cells_each * scale <= allowed:
            break
    slowest = terms.rates.real[terms.rates != 0].min()
    n_cells = math.ceil(cells_each * math.log(100 * scale / tol) / slowest)
    table = np.exp(-np.outer(np.arange(n_cells + 1) / cells_each, terms.rates))
    table[-1] = 0.0
    return cells_each, table, poly


def _fit_poly(rates: NDArray[np.complex128]) -> tuple[NDArray[np.complex128], float]:
    """Interpolate (exp(-rates * z) - 1) / z for |z| <= 1/2 at Chebyshev's points: coefficients, largest error."""
    from tdlg._kernels.waves import DEGREE

    def wanted(z: NDArray[np.float64]) -> NDArray[Any]:
        return np.expm1(-np.outer(z, rates)) / z[:, np.newaxis]

    z = 0.5 * np.cos(np.pi * (np.arange(DEGREE) + 0.5) / DEGREE)
    poly: NDArray[np.complex128] = np.linalg.solve(np.vander(z, DEGREE, increasing=True), wanted(z))
    z = np.linspace(-0.5, 0.5, 400)
    return poly, float(np.abs(np.vander(z, DEGREE, increasing=True) @ poly - wanted(z)).max())
