"""Logistic regression by truncated Newton: the matrix is only ever multiplied by.

The objective is scikit-learn's,

    1/2 |w|^2 + C * sum over rows i of weight_i * loss(y_i, (H w)_i + b),        loss the (multinomial) logistic one.

Long vectors are touched only by products with H, sums, and `dot`: whatever has these, held by one process or by many, can
be solved with.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["Solution", "logistic_regression"]

Array = NDArray[np.float64]
RESIDUAL = 0.5  # share of the gradient that the inner solver may leave: a rough direction is cheaper than a good one
MOST_INNER_STEPS, MOST_STEPS_BACK = 500, 30  # of the inner solver, of the line search


class Solution(NamedTuple):
    """What was found.

    Attributes
    ----------
    coef, intercept
        (columns, outputs) and (outputs,); one output for two classes, else one a class.
    objective
        The value reached.
    n_iter, n_products
        Newton steps, and products with H or its transpose.
    converged
        Whether the gradient fell below the tolerance.
    """

    coef: Array
    intercept: Array
    objective: float
    n_iter: int
    n_products: int
    converged: bool


class Point(NamedTuple):
    """Coefficients and intercepts; a direction in which to change them."""

    coef: Array
    intercept: Array

    def plus(self, scale: float, other: Point) -> Point:
        """Add scale * other."""
        return Point(self.coef + scale * other.coef, self.intercept + scale * other.intercept)

    def dot(self, other: Point) -> float:
        """The sum of products."""
        return float(np.vdot(self.coef, other.coef) + np.vdot(self.intercept, other.intercept))

    def largest(self) -> float:
        """The largest entry, by absolute value."""
        return max(float(np.abs(part).max(initial=0.0)) for part in self)


def logistic_regression(
    H: Any,
    target: Array,
    weight: Array,
    *,
    C: float = 1.0,
    tol: float = 1e-4,
    max_iter: int = 100,
    start: Point | None = None,
    callback: Callable[[int, float], bool] | None = None,
) -> Solution:
    """Minimise the objective.

    Parameters
    ----------
    H
        Anything with `shape`, `@` and `.T`, of shape (rows, columns).
    target
        (rows,) of 0 and 1 for two classes, or (rows, classes) of 0 and 1.
    weight
        (rows,), at least 0. A row of weight 0 does not count.
    C
        How much the loss weighs against the penalty.
    tol
        Stop when no entry of the gradient exceeds tol * C * (sum of weights), scikit-learn's rule, and the last step lowered
        the objective by no more than a share 10 * tol: with strong hubs, the first rule alone stops far from the minimum.
    max_iter
        The most Newton steps.
    start
        Where to begin; at 0 when not given.
    callback
        Called with (step, objective) after each step; stops the solver when it returns True.
    """
    problem = _Problem(H, target, weight, C)
    at = start or Point(np.zeros((H.shape[1], problem.n_outputs)), np.zeros(problem.n_outputs))
    scores = problem.scores(at) if start else np.zeros((H.shape[0], problem.n_outputs))
    objective = problem.objective(at, scores)
    limit = tol * C * float(weight.sum())
    gained = 0.0
    for n_iter in range(max_iter + 1):
        gradient, probability = problem.gradient(at, scores)
        small = gradient.largest() <= limit and gained <= 10 * tol
        converged = small and (
            n_iter > 0 or start is not None
        )  # of a large network, the gradient at 0 is small already
        if converged or n_iter == max_iter or (n_iter and callback and callback(n_iter, objective)):
            break
        direction, change = problem.newton_direction(gradient, probability)
        step = problem.line_search(at, scores, objective, direction, change, gradient.dot(direction))
        if step is None:  # no digit left to gain
            break
        gained = objective / step[2] - 1.0 if step[2] > 0 else 0.0
        at, scores, objective = step
    return Solution(at.coef, at.intercept, objective, n_iter, problem.n_products, converged)


class _Problem:
    """The objective, its gradient, and products with its Hessian."""

    def __init__(self, H: Any, target: Array, weight: Array, C: float) -> None:
        self.H, self.H_T = H, H.T
        self.two_classes = target.ndim == 1
        self.target = target[:, np.newaxis] if self.two_classes else target
        self.weight = C * weight[:, np.newaxis]
        self.n_outputs = self.target.shape[1]
        self.n_products = 0

    def scores(self, at: Point) -> Array:
        """H w + b."""
        self.n_products += 1
        return self._times(self.H, at.coef) + at.intercept

    @staticmethod
    def _times(H: Any, x: Array) -> Array:
        """H @ x, a single column by the faster product of a vector."""
        return (H @ x[:, 0])[:, np.newaxis] if x.shape[1] == 1 else H @ x

    def objective(self, at: Point, scores: Array) -> float:
        """The penalty and the weighted loss."""
        if self.two_classes:
            losses = np.logaddexp(0.0, scores) - self.target * scores
        else:
            losses = _log_sum_exp(scores) - (self.target * scores).sum(axis=1, keepdims=True)
        return 0.5 * float(np.vdot(at.coef, at.coef)) + float(np.vdot(self.weight, losses))

    def gradient(self, at: Point, scores: Array) -> tuple[Point, Array]:
        """The gradient, and the probabilities that the Hessian is made of."""
        if self.two_classes:
            probability = _sigmoid(scores)
        else:
            probability = np.exp(scores - _log_sum_exp(scores))
        pull = self.weight * (probability - self.target)
        self.n_products += 1
        return Point(at.coef + self._times(self.H_T, pull), pull.sum(axis=0)), probability

    def _bend(self, probability: Array) -> Callable[[Array], Array]:
        """The second derivative of the loss by the scores, as what it makes of a change of scores."""
        curvature = self.weight * probability
        if self.two_classes:
            curvature = curvature * (1.0 - probability)
            return lambda change: curvature * change
        return lambda change: curvature * (change - (probability * change).sum(axis=1, keepdims=True))

    def newton_direction(self, gradient: Point, probability: Array) -> tuple[Point, Array]:
        """Solve Hessian * d = -gradient roughly, by conjugate gradients.

        Returns the direction and the change of scores that it brings, which costs no product: it is the same combination
        of the scores of the search directions.
        """
        bend = self._bend(probability)
        residual = Point(-gradient.coef, -gradient.intercept)
        search = residual
        found = Point(np.zeros_like(gradient.coef), np.zeros_like(gradient.intercept))
        found_change = np.zeros_like(probability)
        size = residual.dot(residual)
        enough = RESIDUAL**2 * size
        for _ in range(MOST_INNER_STEPS):
            change = self.scores(search)
            pull = bend(change)
            self.n_products += 1
            bent = Point(search.coef + self._times(self.H_T, pull), pull.sum(axis=0))
            along = search.dot(bent)
            if along <= 0.0:  # rounding: the Hessian is positive definite in the coefficients
                break
            length = size / along
            found, found_change = found.plus(length, search), found_change + length * change
            residual = residual.plus(-length, bent)
            size, old_size = residual.dot(residual), size
            if size <= enough:
                break
            search = residual.plus(size / old_size, search)
        return found, found_change

    def line_search(
        self, at: Point, scores: Array, objective: float, direction: Point, change: Array, slope: float
    ) -> tuple[Point, Array, float] | None:
        """Halve the step until the objective falls by enough; None where it does not."""
        length = 1.0
        for _ in range(MOST_STEPS_BACK):
            there, there_scores = at.plus(length, direction), scores + length * change
            value = self.objective(there, there_scores)
            if value <= objective + 1e-4 * length * slope and value < objective:
                return there, there_scores, value
            length /= 2
        return None


def _sigmoid(scores: Array) -> Array:
    result: Array = 0.5 * (1.0 + np.tanh(0.5 * scores))
    return result


def _log_sum_exp(scores: Array) -> Array:
    largest = scores.max(axis=1, keepdims=True)
    result: Array = largest + np.log(np.exp(scores - largest).sum(axis=1, keepdims=True))
    return result
