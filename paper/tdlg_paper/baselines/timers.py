"""TIMERS: a low-rank approximation of each snapshot, updated step by step and computed anew when its error grows."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.sparse.linalg import LinearOperator, eigsh

from tdlg.checks import as_generator
from tdlg_paper.baselines.snapshots import Snapshots
from tdlg_paper.baselines.vectors import Callback, NodeVectorMethod

Floats = NDArray[np.float64]

SMALL = 4  # below this many times as many nodes as eigenvalues, a dense decomposition is faster
TINY_NORM = 1e-12


@dataclass(repr=False, eq=False)
class TIMERS(NodeVectorMethod):
    """Truncated SVD of each snapshot: updated from snapshot to snapshot, and restarted when its error exceeds a bound.

    The adjacency matrices are symmetric, so the singular vectors are eigenvectors X and the singular values are |lambda|; a
    node has the vector X sqrt(|lambda|) (Zhang et al., "TIMERS: Error-Bounded SVD Restart on Dynamic Networks", AAAI 2018).
    From one snapshot to the next, the eigenvectors get the first-order update of TRIP (Chen and Tong, SDM 2015). They are
    computed anew if the squared error is at least 1 + `theta` times a lower bound of the error of any approximation of
    this rank. A snapshot has the edges of its interval alone, so in sparse networks nearly every snapshot is a restart.

    Parameters
    ----------
    theta
        The tolerated error above the bound, as a share of the bound; 0.17 as in the original.

    Attributes
    ----------
    restarts_
        The snapshots that were decomposed anew; the first snapshot always is.

    Examples
    --------
    >>> from tdlg import TemporalEdges
    >>> edges = TemporalEdges(["a", "b", "c", "d"] * 5, ["b", "a", "d", "c"] * 5, range(20), label=[0, 0, 1, 1] * 5)
    >>> method = TIMERS(4, n_snapshots=2, random_state=0)
    >>> method.embed(edges)
    >>> _ = method.fit(edges)
    >>> method.decision_function(edges[:4]) > 0
    array([False, False,  True,  True])
    """

    _: KW_ONLY
    theta: float = 0.17

    name: ClassVar[str] = "TIMERS"
    NUMBERS: ClassVar[tuple[str, ...]] = ("theta",)

    def _embed(self, snapshots: Snapshots, callback: Callback) -> Floats:
        rng, total = as_generator(self.random_state), snapshots.n_snapshots
        start = latest = snapshots.adjacency(0)
        spectrum = largest(start, self.n_components, rng)
        start_error = squared_error(start, spectrum)
        self.restarts_, vectors = [0], [spectrum.scaled()]
        while not callback(len(vectors), total) and len(vectors) < total:
            previous, latest = latest, snapshots.adjacency(len(vectors))
            bound = error_bound(start, latest, start_error, self.n_components, rng)
            if bound > 0:  # any error reaches a bound below 0, so that no update is needed
                spectrum = updated(spectrum, latest - previous)
            if bound <= 0 or squared_error(latest, spectrum) >= (1 + self.theta) * bound:
                start, spectrum = latest, largest(latest, self.n_components, rng)
                start_error = squared_error(start, spectrum)
                self.restarts_.append(len(vectors))
            vectors.append(spectrum.scaled())
        return np.stack(vectors + vectors[-1:] * (total - len(vectors)))


class Spectrum(NamedTuple):
    """Eigenvalues, shape (n_components,), and eigenvectors, shape (n_nodes, n_components), of a symmetric matrix."""

    values: Floats
    vectors: Floats

    def scaled(self) -> Floats:
        """The vectors of nodes: eigenvectors times the square roots of the singular values."""
        return self.vectors * np.sqrt(np.abs(self.values))


def largest(matrix: csr_array, n_components: int, rng: np.random.Generator) -> Spectrum:
    """The eigenvalues of largest magnitude of a symmetric matrix, largest first; zeros where it has fewer."""
    rows = np.flatnonzero(np.diff(matrix.indptr))
    values, vectors = np.zeros(n_components), np.zeros((matrix.shape[0], n_components))
    found = _eigenpairs(matrix[rows][:, rows], n_components, rng)
    values[: len(found[0])], vectors[rows, : len(found[0])] = found
    return Spectrum(values, vectors)


def _eigenpairs(matrix: csr_array, n_components: int, rng: np.random.Generator) -> tuple[Floats, Floats]:
    """The eigenvalues of largest magnitude, largest first and at most one per row, and their eigenvectors."""
    if matrix.shape[0] > SMALL * n_components:
        values, vectors = eigsh(matrix, n_components, which="LM", v0=rng.standard_normal(matrix.shape[0]))
    else:
        values, vectors = np.linalg.eigh(matrix.toarray())
    order = np.argsort(-np.abs(values), kind="stable")[:n_components]
    return values[order], vectors[:, order]


def squared_error(matrix: csr_array, spectrum: Spectrum) -> float:
    """The squared Frobenius norm of a matrix minus its approximation; the vectors need not be orthogonal."""
    values, vectors = spectrum
    gram = vectors.T @ vectors
    overlap = np.einsum("nk,nk,k->", vectors, matrix @ vectors, values)
    return float((matrix.data**2).sum() - 2 * overlap + values @ (gram**2) @ values)


def updated(spectrum: Spectrum, change: csr_array) -> Spectrum:
    """The first-order update of eigenvalues and eigenvectors when a matrix changes, by TRIP.

    The new vector k is a combination of the old vectors: with T = X' change X, its coefficients besides 1 for itself are
    pinv(diag(lambda_k + T_kk - lambda) - T) T_k. A vector that the update would remove stays as it is.
    """
    values, vectors = spectrum
    inside = vectors.T @ (change @ vectors)
    shifted = values + np.diag(inside)
    coefficients = np.empty_like(inside)
    for k, value in enumerate(shifted):
        coefficients[:, k] = np.linalg.pinv(np.diag(value - values) - inside, hermitian=True) @ inside[:, k]
    moved = vectors + vectors @ coefficients
    norm = np.linalg.norm(moved, axis=0)
    is_lost = norm < TINY_NORM
    return Spectrum(shifted, np.where(is_lost, vectors, moved / np.where(is_lost, 1.0, norm)))


def error_bound(
    before: csr_array, after: csr_array, error: float, n_components: int, rng: np.random.Generator
) -> float:
    """A lower bound of the squared error of every approximation of a matrix of rank `n_components`.

    The error of the best one is trace(A A') minus the sum of the largest eigenvalues of A A'. By Ky Fan's inequality that
    sum grows by at most the sum of the largest eigenvalues of the change of A A'.
    """
    growth = float((after.data**2).sum() - (before.data**2).sum())
    return error + growth - _largest_sum(before, after, n_components, rng)


def _largest_sum(before: csr_array, after: csr_array, n_components: int, rng: np.random.Generator) -> float:
    """The sum of the largest eigenvalues, at most `n_components` of them, of after @ after - before @ before."""
    rows = np.flatnonzero(np.diff(before.indptr) + np.diff(after.indptr))
    old, new = before[rows][:, rows], after[rows][:, rows]
    if len(rows) <= SMALL * n_components:
        values = np.linalg.eigvalsh((new @ new - old @ old).toarray())[::-1][:n_components]
    else:
        change = LinearOperator(old.shape, matvec=lambda x: new @ (new @ x) - old @ (old @ x), dtype=np.float64)
        start = rng.standard_normal(len(rows))
        if not (change @ start).any():  # ARPACK refuses a matrix of zeros
            return 0.0
        values = eigsh(change, n_components, which="LA", v0=start, return_eigenvectors=False)
    return float(values[values > 0].sum())
