"""What every form of the line graph must do; `test_linegraph.py` runs it over all of them."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

import oracle
from tdlg import LineGraph, TemporalEdges
from tdlg.linegraph.decay import Decay
from tdlg.linegraph.match import MATCHES


@dataclass(frozen=True)
class Form:
    """A line graph to be made of given edges."""

    decay: Decay
    match: str = "any"
    past_only: bool = False
    include_self: bool = True
    tol: float = 1e-9
    n_threads: int = 1
    dtype: Any = np.float64
    bandwidth_scaled: Any = field(default=None, compare=False)  # decay -> the same decay with a wider bandwidth

    def make(self, rows, cols=None, decay=None):
        return LineGraph(
            rows,
            cols,
            decay=decay or self.decay,
            match=self.match,
            past_only=self.past_only,
            include_self=self.include_self,
            tol=self.tol,
            n_threads=self.n_threads,
        )

    def exact(self, rows, cols=None):
        cols = rows if cols is None else cols
        return oracle.line_graph(rows, cols, self.decay, self.match, self.past_only, self.include_self)

    def allowed(self, cols):
        """The promised error of a product with entries of at most 1: relative to the largest row sum of the columns."""
        match = {"src-dst": "dst", "dst-src": "src", "reversed": "pair"}.get(self.match, self.match)
        largest = oracle.line_graph(cols, cols, self.decay, match).sum(axis=1).max(initial=0.0)
        rounding = 1e-13 if self.dtype == np.float64 else 1e-6
        return (self.tol + rounding) * largest


class Conformance:
    """Checks of one form on one network; rows and columns are the same edges unless cols is given."""

    def __init__(self, form, rows, cols=None, seed=0):
        self.form, self.rows, self.cols = form, rows, rows if cols is None else cols
        self.H = form.make(rows, cols)
        self.exact = form.exact(rows, cols)
        self.allowed = form.allowed(self.cols)
        self.allowed_transposed = form.allowed(self.rows) if self.rows is not self.cols else self.allowed
        self.allowed_transposed = max(self.allowed, self.allowed_transposed)
        self.rng = np.random.default_rng(seed)

    def check_all(self):
        for name in sorted(dir(self)):
            if name.startswith("check_") and name != "check_all":
                getattr(self, name)()

    def vectors(self, n, columns):
        return self.rng.uniform(-1, 1, (n, columns)).astype(self.form.dtype)

    def check_product_equals_the_oracle(self):
        for columns in (1, 2, 8, 11):
            X = self.vectors(self.H.shape[1], columns)
            Y = self.H @ X
            assert Y.dtype == self.form.dtype
            assert Y.shape == (self.H.shape[0], columns)
            np.testing.assert_allclose(Y, self.exact @ X, rtol=0, atol=self.allowed)
        x = X[:, 0]
        assert (self.H @ x).shape == (self.H.shape[0],)
        np.testing.assert_allclose(self.H @ x, self.exact @ x, rtol=0, atol=self.allowed)

    def check_transpose_equals_the_oracle(self):
        X = self.vectors(self.H.shape[0], 3)
        np.testing.assert_allclose(self.H.T @ X, self.exact.T @ X, rtol=0, atol=self.allowed_transposed)
        np.testing.assert_allclose(
            self.H.rmatvec(X[:, 0]), self.exact.T @ X[:, 0], rtol=0, atol=self.allowed_transposed
        )
        assert self.H.T.shape == self.H.shape[::-1]
        np.testing.assert_allclose(self.H.T.to_csr().toarray(), self.exact.T, rtol=1e-12, atol=1e-300)
        X = self.vectors(self.H.shape[1], 2)
        assert np.array_equal(self.H.T.T @ X, self.H @ X)

    def check_dot_test(self):
        x, y = self.vectors(self.H.shape[1], 1)[:, 0], self.vectors(self.H.shape[0], 1)[:, 0]
        gap = abs(y @ (self.H @ x) - x @ (self.H.T @ y))
        assert gap <= 2 * self.allowed_transposed * max(self.H.shape)

    def check_symmetry(self):
        formed = np.asarray(self.H @ np.eye(self.H.shape[1]))
        if self.H.is_symmetric:
            np.testing.assert_allclose(formed, formed.T, rtol=0, atol=self.allowed)
            assert (self.H.to_csr() != self.H.to_csr().T).nnz == 0

    def check_no_negative_eigenvalue(self):
        same = self.H.is_symmetric and MATCHES[self.H.match].same_ends and self.H.include_self
        if same and self.H.shape[0] and all(part.weight >= 0 for part in self.H._parts):
            assert np.linalg.eigvalsh(self.exact).min() >= -1e-12 * max(1.0, self.exact.max())
            formed = np.asarray(self.H @ np.eye(self.H.shape[0]))
            assert np.linalg.eigvalsh(formed).min() >= -self.allowed * self.H.shape[0]

    def check_row_sums_and_diagonal(self):
        np.testing.assert_allclose(self.H.row_sums(), self.exact.sum(axis=1), rtol=0, atol=self.allowed)
        np.testing.assert_allclose(self.H.diagonal(), np.diagonal(self.exact), rtol=1e-12, atol=1e-300)

    def check_explicit_matrix_agrees(self):
        matrix = self.H.to_csr()
        assert matrix.shape == self.H.shape
        np.testing.assert_allclose(matrix.toarray(), self.exact, rtol=1e-12, atol=1e-300)
        assert np.all(matrix.data != 0)
        for i in range(min(3, self.H.shape[0])):
            assert self.H.row(i).shape == (1, self.H.shape[1])
            np.testing.assert_allclose(self.H.row(i).toarray()[0], self.exact[i], rtol=1e-12, atol=1e-300)

    def check_same_call_same_bits(self):
        X = self.vectors(self.H.shape[1], 2)
        again = self.form.make(self.rows, self.cols if self.cols is not self.rows else None)
        assert np.array_equal(self.H @ X, again @ X)

    def check_edge_permutation(self):
        if self.rows is not self.cols:
            return
        order = self.rng.permutation(self.H.shape[0])
        x = self.vectors(self.H.shape[1], 1)[:, 0]
        permuted = self.form.make(self.rows[order]) @ x[order]
        np.testing.assert_allclose(permuted, (self.H @ x)[order], rtol=0, atol=2 * self.allowed)

    def _can_be_rebuilt(self):
        """Whether the same columns in a new table are the same network: copies of an edge would become edges."""
        return self.rows is self.cols and np.unique(self.rows.rows).size == len(self.rows)

    def check_time_shift(self):
        if not self._can_be_rebuilt():
            return
        shifted = _with_times(self.rows, self.rows.ticks + 1024)  # whole numbers, so exact
        x = self.vectors(self.H.shape[1], 1)[:, 0]
        np.testing.assert_allclose(self.form.make(shifted) @ x, self.H @ x, rtol=0, atol=2 * self.allowed)

    def check_time_and_bandwidth_scaled(self):
        if not self._can_be_rebuilt() or self.form.bandwidth_scaled is None:
            return
        scaled = _with_times(self.rows, self.rows.ticks * 4)
        x = self.vectors(self.H.shape[1], 1)[:, 0]
        y = self.form.make(scaled, decay=self.form.bandwidth_scaled(self.form.decay, 4)) @ x
        np.testing.assert_allclose(y, self.H @ x, rtol=0, atol=2 * self.allowed)

    def square(self, edges):
        """The exact square line graph of the rows or of the columns."""
        return self.exact if self.rows is self.cols else self.form.exact(edges)

    def check_normalizations(self):
        columns = self.square(self.cols).sum(axis=0)
        for kind in ("spectral", "edge"):
            N = self.H.normalized(kind)
            expected = oracle.normalized(self.exact, kind, columns)
            unclear = (self.exact.sum(axis=1) < 1e-3)[:, None] | (columns < 1e-3)[None, :]  # too near 0 / 0 to compare
            X = np.eye(self.H.shape[1], dtype=self.form.dtype)
            bound = 1e4 * self.allowed_transposed
            np.testing.assert_allclose(np.where(unclear, 0, N @ X), np.where(unclear, 0, expected), rtol=0, atol=bound)
            np.testing.assert_allclose(N.to_csr().toarray()[~unclear], expected[~unclear], rtol=1e-5, atol=bound)
            np.testing.assert_allclose(N.T @ np.eye(N.shape[0]), (N @ np.eye(N.shape[1])).T, rtol=0, atol=bound)
            self._check_bounds(kind, N)

    def check_normalizations_of_the_transpose(self):
        """As those of any line graph: the degrees of the columns are from their own square, seen the same way."""
        columns = self.square(self.rows).sum(axis=1)
        unclear = (self.exact.sum(axis=0) < 1e-3)[:, None] | (columns < 1e-3)[None, :]
        for kind in ("spectral", "edge"):
            expected = oracle.normalized(self.exact.T, kind, columns)
            formed = self.H.T.normalized(kind).to_csr().toarray()
            np.testing.assert_allclose(
                formed[~unclear], expected[~unclear], rtol=1e-5, atol=1e4 * self.allowed_transposed
            )

    def _check_bounds(self, kind, N):
        """The paper's two properties, for the graph it defines."""
        if (
            not (self.H.is_symmetric and self.form.include_self)
            or self.H.shape[0] == 0
            or not self.exact.diagonal().all()
        ):
            return
        error = 1e-6 + 10 * self.form.tol
        if kind == "edge":
            assert N.row_sums().min() >= 0.5 - error
            np.testing.assert_allclose(N.row_sums().sum(), self.H.shape[0], rtol=error)
        else:
            eigenvalues = np.linalg.eigvalsh(N.to_csr().toarray())
            assert -1 - error <= eigenvalues.min() <= eigenvalues.max() <= 1 + error


def _with_times(edges, ticks):
    return TemporalEdges(edges.src, edges.dst, ticks, bipartite=edges.bipartite)
