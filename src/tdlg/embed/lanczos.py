"""The eigenvectors of a symmetric operator with the largest eigenvalues in magnitude: block Lanczos with thick restarts.

The basis grows by multiplying its last block by the operator and orthogonalising the result against the whole basis. When
the basis is full, its best Ritz vectors and the last block start the next one. Blocks as wide as the lanes of a product
make products cheap and turn the orthogonalisation into a matrix product.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse.linalg import LinearOperator

__all__ = ["Eigenpairs", "orthonormal", "top_eigenpairs"]

Array = NDArray[np.float64]
BLOCK = 8  # columns of a block, the lanes of a product: fewer columns cost as much
ROWS = 2048  # rows of the basis that are processed together, so that they stay in the cache
ROUNDING = 1e-13  # if less than this share of a vector is left after orthogonalisation, it is only rounding error
DRIFT = 1e-12  # largest allowed deviation from orthogonality; a larger one would grow from step to step
CONDITION = 0.1  # condition of vectors that their Gram matrix makes orthonormal in one step
MOST_BASES, MOST_COPIES = 300, 64


class Eigenpairs(NamedTuple):
    """Eigenvalues in the order of descending magnitude, their eigenvectors as columns, and whether they are accurate."""

    values: Array
    vectors: Array
    converged: bool


def top_eigenpairs(H: LinearOperator, k: int, tol: float, rng: np.random.Generator) -> Eigenpairs:
    """Find eigenpairs with |H v - l v| <= tol * the largest |l|; k is at most the size of H.

    A basis grown from 8 vectors finds at most 8 copies of a multiple eigenvalue. So the result is accepted only if it stays
    the best after as many new random vectors have joined the last block; else more join, up to 64.
    """
    n, n_kept = H.shape[0], k + k // 4 + 2 * BLOCK
    if n <= 2 * _first_room(k):
        return _dense_eigenpairs(H, k)
    basis, found = _Basis(H, _first_room(k), rng), np.full(k, np.inf)
    for _ in range(MOST_BASES):
        basis.fill()
        values, turns = basis.ritz()
        limit = tol * abs(values[0])
        converged = basis.residuals(turns[:, :k]).max() <= limit
        confirmed = np.abs(values[:k] - found).max() <= limit or basis.width >= MOST_COPIES
        if converged and confirmed:
            return Eigenpairs(values[:k], basis.turned(turns[:, :k]), True)
        n_fresh = basis.width if converged else 0
        if n <= 2 * (basis.room + BLOCK * n_fresh):
            return _dense_eigenpairs(H, k)
        found = values[:k] if converged else found
        basis.restart(values, turns, n_kept, n_fresh)
    return Eigenpairs(values[:k], basis.vectors[:, :k].copy(), False)


def _first_room(k: int) -> int:
    return 2 * k + 8 * BLOCK


def _dense_eigenpairs(H: LinearOperator, k: int) -> Eigenpairs:
    values, vectors = np.linalg.eigh(H @ np.eye(H.shape[0]))
    order = np.argsort(-np.abs(values), kind="stable")[:k]
    return Eigenpairs(values[order], vectors[:, order], True)


class _Basis:
    """Orthonormal vectors. H times the first `filled` lies in the span of the first `stop`, except for `rest`.

    Attributes
    ----------
    vectors
        Shape (n, room and one more block); the first `stop` columns are in use.
    projected
        The upper triangle of vectors.T @ H @ vectors for the first `filled` vectors.
    rest
        The inner products of the part of H times the last multiplied block that is orthogonal to all vectors before.
    """

    def __init__(self, H: LinearOperator, room: int, rng: np.random.Generator) -> None:
        self.H, self.room, self.rng = H, room, rng
        self.vectors = np.empty((H.shape[0], room + BLOCK))
        self.projected = np.zeros((room, room))
        self.rest = np.zeros((BLOCK, BLOCK))
        self.filled = self.stop = 0
        self._append_random(BLOCK)

    @property
    def width(self) -> int:
        """The number of vectors in the last block, which are not multiplied yet."""
        return self.stop - self.filled

    def fill(self) -> None:
        """Multiply block after block until the basis is full."""
        while self.stop <= self.room and self.stop + self.width <= self.vectors.shape[1]:
            self._multiply()

    def _multiply(self) -> None:
        """One step: W = H Q for the last block Q, minus its part within the basis; the rest is the next block."""
        known = self.vectors[:, : self.stop]
        W = self.H @ known[:, self.filled :]
        size = float(np.linalg.norm(W, axis=0).max())
        overlaps, error = _take_away(known, W)
        self.projected[: self.stop, self.filled : self.stop] = overlaps
        self.rest = W.T @ W
        self.filled = self.stop
        self._append(W, size, error)

    def _append(self, W: Array, size: float, error: float) -> None:
        block = orthonormal(W, self.rng, size, self.vectors[:, : self.stop], error)
        self.vectors[:, self.stop : self.stop + W.shape[1]] = block
        self.stop += W.shape[1]

    def _append_random(self, n_vectors: int) -> None:
        W = self.rng.normal(size=(self.vectors.shape[0], n_vectors))
        self._append(W, size=1.0, error=np.inf)

    def ritz(self) -> tuple[Array, Array]:
        """Eigenvalues of H within the basis, largest in magnitude first, and their vectors in terms of the basis."""
        values, turns = np.linalg.eigh(self.projected[: self.filled, : self.filled], UPLO="U")
        order = np.argsort(-np.abs(values), kind="stable")
        return values[order], turns[:, order]

    def residuals(self, turns: Array) -> Array:
        """|H v - l v| of Ritz vectors: only the last block has a part outside the basis."""
        last = turns[-self.rest.shape[0] :]
        squares = np.einsum("ik,ij,jk->k", last, self.rest, last)
        return np.sqrt(np.maximum(squares, 0.0))

    def turned(self, turns: Array) -> Array:
        """The basis times a matrix."""
        return self.vectors[:, : self.filled] @ turns

    def restart(self, values: Array, turns: Array, n_kept: int, n_fresh: int) -> None:
        """Keep the best Ritz vectors and the last block, which new random vectors join, with room for 8 times as many."""
        old, width = self.vectors, self.width
        self.room += BLOCK * n_fresh
        self.vectors = np.empty((old.shape[0], self.room + BLOCK)) if n_fresh else old
        for first in range(0, old.shape[0], ROWS):
            rows = slice(first, first + ROWS)
            best, last = old[rows, : self.filled] @ turns[:, :n_kept], old[rows, self.filled : self.stop].copy()
            self.vectors[rows, :n_kept], self.vectors[rows, n_kept : n_kept + width] = best, last
        self.projected = np.zeros((self.room, self.room))
        np.fill_diagonal(self.projected[:n_kept, :n_kept], values[:n_kept])
        self.filled, self.stop = n_kept, n_kept + width
        if n_fresh:
            self._append_random(n_fresh)


def _take_away(basis: Array, W: Array) -> tuple[Array, float]:
    """W -= basis @ basis.T @ W; returns basis.T @ W, and the largest inner product that rounding has left."""
    overlaps = basis.T @ W
    left = np.zeros_like(overlaps)
    for first in range(0, W.shape[0], ROWS):
        rows = slice(first, first + ROWS)
        W[rows] -= basis[rows] @ overlaps
        left += basis[rows].T @ W[rows]
    return overlaps, float(np.abs(left).max(initial=0.0))


def orthonormal(
    W: Array, rng: np.random.Generator, size: float, basis: Array | None = None, error: float = 0.0
) -> Array:
    """An orthonormal basis of the columns of W, orthogonal to `basis`.

    A direction that is only rounding error is replaced by a random one. The Gram matrix works only if it is well
    conditioned, so the step is repeated until it is.

    Parameters
    ----------
    W
        Vectors, as columns.
    rng
        Generator for the random directions.
    size
        The length of the vectors before orthogonalisation.
    basis
        Orthonormal vectors.
    error
        The largest inner product of W and `basis`.
    """
    while True:
        W = W @ np.linalg.eigh(W.T @ W)[1]  # columns orthogonal to each other
        sizes = np.linalg.norm(W, axis=0)
        lost = sizes <= ROUNDING * size
        W /= np.where(lost, 1.0, sizes)
        W[:, lost] = rng.normal(size=(W.shape[0], int(lost.sum()))) / np.sqrt(W.shape[0])
        if basis is not None and (lost.any() or error > DRIFT * sizes.min()):
            _, error = _take_away(basis, W)
        elif not lost.any() and sizes.min() > CONDITION * sizes.max():
            return W
        size = 1.0
