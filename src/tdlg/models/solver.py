"""Logistic regression by truncated Newton, which uses the matrix only in products.

The objective is scikit-learn's,

    1/2 |w|^2 + C * sum over rows i of weight_i * loss(y_i, (H w)_i + b),        loss the (multinomial) logistic one.

Long vectors are used only in products with H, sums and `dot`, so the solver works with any operator that has these, also
if it is distributed over several processes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
LEAST_GAIN = 0.4  # the inner solver stops at a step that gains less than this share of the mean gain so far
MOST_INNER_STEPS = 500  # maximum number of steps of the inner solver
MOST_LENGTHS = 50  # maximum number of lengths that the line search tries
MOST_SLOPE = 0.1  # the line search stops when the slope is at most this share of the slope at the start


class Solution(NamedTuple):
    """The solution of a logistic regression.

    coef, intercept : (columns, outputs) and (outputs,), with one output for two classes, else one per class; objective : its
    final value; n_iter, n_products : the numbers of Newton steps, and of products with H or its transpose; converged :
    whether `tol` was reached, or rounding allowed no further progress.
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

    def over(self, scale: Point) -> Point:
        """Divide entry by entry."""
        return Point(self.coef / scale.coef, self.intercept / scale.intercept)

    def dot(self, other: Point) -> float:
        """The sum of products."""
        return float(np.vdot(self.coef, other.coef) + np.vdot(self.intercept, other.intercept))

    def largest(self) -> float:
        """The largest entry, by absolute value."""
        return max(float(np.abs(part).max(initial=0.0)) for part in self)


def solve_logistic(
    H: Any,
    target: Array,
    weight: Array,
    *,
    C: float = 1.0,
    tol: float = 1e-4,
    max_iter: int = 100,
    start: Point | None = None,
) -> Solution:
    """Minimise the objective in at most `max_iter` Newton steps from a starting point, by default 0.

    H : anything with `shape`, `@` and `.T`; target : zeros and ones, (rows,) for two classes, else (rows, classes).
    tol : the solver stops when no entry of the gradient exceeds tol * C * (sum of weights), scikit-learn's rule, and the
    last step neither lowered the objective by more than a share of 10 * tol nor was expected to. With strong hubs, or with
    many edges of few neighbours, the first rule alone stops far from the minimum.
    """
    problem = _Problem(H, target, weight, C)
    point = start or Point(np.zeros((H.shape[1], problem.n_outputs)), np.zeros(problem.n_outputs))
    scores = problem.scores(point) if start else np.zeros((H.shape[0], problem.n_outputs))
    objective = problem.objective(point, scores)
    limit = tol * C * float(weight.sum())
    gained = np.inf
    for n_iter in range(max_iter + 1):
        gradient, probability = problem.gradient(point, scores)
        converged = gradient.largest() <= limit and gained <= 10 * tol
        if converged or n_iter == max_iter:
            break
        direction, change = problem.newton_direction(gradient, probability)
        slope = gradient.dot(direction)
        step = problem.line_search(point, scores, objective, direction, change, slope)
        if step is None:  # rounding allows no further progress
            converged = True
            break
        predicted_decrease = -0.5 * slope  # by the quadratic model
        gained = max(objective - step[2], predicted_decrease) / step[2] if step[2] > 0 else 0.0
        point, scores, objective = step
    return Solution(point.coef, point.intercept, objective, n_iter, problem.n_products, converged)


class _Problem:
    """The objective, its gradient, and products with its Hessian."""

    def __init__(self, H: Any, target: Array, weight: Array, C: float) -> None:
        self.H, self.H_T = H, H.T
        self.two_classes = target.ndim == 1
        self.target = target[:, np.newaxis] if self.two_classes else target
        self.weight = C * weight[:, np.newaxis]
        self.n_outputs = self.target.shape[1]
        self.n_products = 0

    def scores(self, point: Point) -> Array:
        """H w + b."""
        self.n_products += 1
        return self._times(self.H, point.coef) + point.intercept

    @staticmethod
    def _times(H: Any, x: Array) -> Array:
        """H @ x; a single column uses the faster product with a vector."""
        return (H @ x[:, 0])[:, np.newaxis] if x.shape[1] == 1 else H @ x

    def objective(self, point: Point, scores: Array) -> float:
        """The penalty and the weighted loss."""
        if self.two_classes:
            losses = np.logaddexp(0.0, scores) - self.target * scores
        else:
            losses = _log_sum_exp(scores) - (self.target * scores).sum(axis=1, keepdims=True)
        return 0.5 * float(np.vdot(point.coef, point.coef)) + float(np.vdot(self.weight, losses))

    def _loss_gradient(self, scores: Array) -> tuple[Array, Array]:
        """The derivative of the weighted loss with respect to the scores, and the probabilities."""
        probability = _sigmoid(scores) if self.two_classes else np.exp(scores - _log_sum_exp(scores))
        return self.weight * (probability - self.target), probability

    def gradient(self, point: Point, scores: Array) -> tuple[Point, Array]:
        """The gradient, and the probabilities, which the Hessian needs."""
        loss_gradient, probability = self._loss_gradient(scores)
        self.n_products += 1
        return Point(point.coef + self._times(self.H_T, loss_gradient), loss_gradient.sum(axis=0)), probability

    def _loss_hessian(self, probability: Array) -> Callable[[Array], Array]:
        """The second derivative of the loss with respect to the scores, as a function of a change of scores."""
        curvature = self.weight * probability
        if self.two_classes:
            curvature = curvature * (1.0 - probability)
            return lambda change: curvature * change
        return lambda change: curvature * (change - (probability * change).sum(axis=1, keepdims=True))

    def _scale(self, probability: Array) -> Point:
        """An approximation of the diagonal of the Hessian, from one product.

        The diagonal is 1 + the sum over i of curvature_i * H_ij^2. H_ij replaces its square: the entries of H differ far
        less than the sums, which are large at hubs.
        """
        curvature = self.weight * probability * (1.0 - probability)
        self.n_products += 1
        of_coef = 1.0 + np.maximum(self._times(self.H_T, curvature), 0.0)
        return Point(of_coef, np.full(self.n_outputs, max(curvature.sum() / self.n_outputs, 1e-300)))

    def newton_direction(self, gradient: Point, probability: Array) -> tuple[Point, Array]:
        """Solve Hessian * d = -gradient roughly, by conjugate gradients preconditioned by the diagonal.

        It stops at a step that gains much less than the mean step so far, measured by the quadratic that is minimised. The
        residual is a poor measure of the gain if some edges have a thousand times the neighbours of others.

        Returns the direction and the change of scores that it causes. The change needs no further product: it is the same
        linear combination of the scores of the search directions.
        """
        hessian_of_loss, scale = self._loss_hessian(probability), self._scale(probability)
        residual = Point(-gradient.coef, -gradient.intercept)
        search = residual.over(scale)
        found = Point(np.zeros_like(gradient.coef), np.zeros_like(gradient.intercept))
        found_change = np.zeros_like(probability)
        size, gained = residual.dot(search), 0.0
        for n_steps in range(1, MOST_INNER_STEPS + 1):
            change = self.scores(search)
            product = hessian_of_loss(change)
            self.n_products += 1
            hessian_product = Point(search.coef + self._times(self.H_T, product), product.sum(axis=0))
            curvature_along = search.dot(hessian_product)
            if curvature_along <= 0.0:  # rounding: the Hessian is positive definite in the coefficients
                break
            length = size / curvature_along
            found, found_change = found.plus(length, search), found_change + length * change
            gain = 0.5 * length * size
            gained += gain
            if n_steps * gain <= LEAST_GAIN * gained:
                break
            residual = residual.plus(-length, hessian_product)
            scaled = residual.over(scale)
            size, old_size = residual.dot(scaled), size
            search = scaled.plus(size / old_size, search)
        return found, found_change

    def line_search(
        self, point: Point, scores: Array, objective: float, direction: Point, change: Array, slope: float
    ) -> tuple[Point, Array, float] | None:
        """Minimise the objective approximately along the direction, by Newton's method. It needs no product.

        Returns None if the objective does not fall.
        """
        # of the penalty along the direction; those of the loss follow at each length
        slope_of_penalty, curvature = (float(np.vdot(part, direction.coef)) for part in (point.coef, direction.coef))
        least, most, length = 0.0, np.inf, 1.0
        for _ in range(MOST_LENGTHS if slope < 0 else 0):
            there, there_scores = point.plus(length, direction), scores + length * change
            loss_gradient, probability = self._loss_gradient(there_scores)
            here = slope_of_penalty + length * curvature + float(np.vdot(loss_gradient, change))
            if abs(here) <= MOST_SLOPE * abs(slope):
                value = self.objective(there, there_scores)
                below = max(here * (length - least), 0.0)  # bound of what is left to gain if the minimum was passed
                if value < objective and below <= objective - value:
                    return there, there_scores, value
            least, most = (length, most) if here < 0 else (least, length)
            second_derivative = curvature + float(np.vdot(self._loss_hessian(probability)(change), change))
            # Newton's guess may oscillate, so each turn shortens the interval by at least a tenth
            margin = 0.1 * (most - least) if most < np.inf else 0.0
            guess = length - here / max(second_derivative, 1e-300)
            length = float(np.clip(guess, least + margin, min(most - margin, 10 * length)))
        return None


def _sigmoid(scores: Array) -> Array:
    result: Array = 0.5 * (1.0 + np.tanh(0.5 * scores))
    return result


def _log_sum_exp(scores: Array) -> Array:
    largest = scores.max(axis=1, keepdims=True)
    result: Array = largest + np.log(np.exp(scores - largest).sum(axis=1, keepdims=True))
    return result
