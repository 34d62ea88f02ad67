"""Optimal design: weights of sensitivity vectors at which a concave criterion of ``S = sum w_j v_j v_j^T`` is largest."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import scipy.linalg

__all__ = ["Criterion", "Design", "LogDeterminant", "RootTrace", "optimal_design"]

type Floats = npt.NDArray[np.float64]

_WARM_STEPS = 40  # multiplicative steps on all vectors; they find out roughly which ones matter
_NEARLY = 5.0  # an excess below this many tolerances is left to multiplicative steps
_ROUNDED = 1e-10  # eigenvalues below this share of the largest have fewer than six digits left
_NEWTON_STEPS = 60  # of one interior-point solve; 15 to 25 are usual
_ACTIVE = 1500  # most vectors that an interior-point solve starts with; a step costs their number squared


class Criterion(ABC):
    """A concave function of the weights, homogeneous up to a constant, with its derivatives."""

    exponent: float
    """The multiplicative step ``w_j *= ratio_j ** exponent`` never lowers the criterion."""

    @abstractmethod
    def ratios(self, vectors: Floats, weights: Floats) -> Floats:
        """Derivative by each weight over their weighted mean; all are at most 1 at the optimum, and only there."""

    @abstractmethod
    def derivatives(self, vectors: Floats, weights: Floats) -> tuple[Floats, Floats]:
        """Gradient and the negative of the Hessian, in a scaling where the optimum has a gradient of at most 1."""


class LogDeterminant(Criterion):
    """``log det S``: its optimum is the smallest ellipsoid around the vectors."""

    exponent = 1.0  # Titterington (1976)

    def ratios(self, vectors: Floats, weights: Floats) -> Floats:
        """See `Criterion.ratios`; ``v^T S^-1 v / n``."""
        whitened = self._whitened(vectors, weights)
        return np.asarray(np.einsum("ij,ij->i", whitened, whitened) / vectors.shape[1])

    def derivatives(self, vectors: Floats, weights: Floats) -> tuple[Floats, Floats]:
        """See `Criterion.derivatives`; of ``log det(S) / n``."""
        whitened = self._whitened(vectors, weights)
        inner = whitened @ whitened.T
        return np.diagonal(inner) / vectors.shape[1], inner**2 / vectors.shape[1]

    def _whitened(self, vectors: Floats, weights: Floats) -> Floats:
        root = scipy.linalg.cholesky((vectors.T * weights) @ vectors, lower=True)
        return np.asarray(scipy.linalg.solve_triangular(root, vectors.T, lower=True).T)


class RootTrace(Criterion):
    """``tr S^(1/2)``: its optimum gives the Gaussian noise of least total variance."""

    # tr S^(1/2) is the nuclear norm of a matrix linear in the roots of the weights, so convex in these; maximising
    # the linear minorant on the sphere gives this step.
    exponent = 2.0

    def ratios(self, vectors: Floats, weights: Floats) -> Floats:
        """See `Criterion.ratios`; ``v^T S^(-1/2) v / tr S^(1/2)``."""
        roots, rotated = self._eigen(vectors, weights)
        return np.asarray((rotated**2 @ (1.0 / roots)) / roots.sum())

    def derivatives(self, vectors: Floats, weights: Floats) -> tuple[Floats, Floats]:
        """See `Criterion.derivatives`; of ``2 tr S^(1/2)``.

        The Hessian is ``-sum_kl y_ik y_jk y_il y_jl / (a_k a_l (a_k + a_l))``, with y in the eigenbasis of S and a the
        roots of its eigenvalues. ``1 / (a + b)`` is the integral of ``exp(t - (a + b) exp(t))``, which the trapezoidal
        rule of step 1 gives to 1e-4: a Newton step needs no more, and each node costs one matrix product.
        """
        roots, rotated = self._eigen(vectors, weights)
        hessian = np.zeros((len(vectors), len(vectors)))
        for exponent in np.arange(np.log(1e-4 / roots[-1]), np.log(12.0 / roots[0]) + 1.0):
            rate = np.exp(exponent)
            hessian += rate * ((rotated * (np.exp(-roots * rate) / roots)) @ rotated.T) ** 2
        return rotated**2 @ (1.0 / roots), hessian

    def _eigen(self, vectors: Floats, weights: Floats) -> tuple[Floats, Floats]:
        squares, basis = scipy.linalg.eigh((vectors.T * weights) @ vectors)
        if squares[0] > _ROUNDED * squares[-1]:
            return np.sqrt(squares), vectors @ basis
        # The small eigenvalues are mostly rounding: take their roots from the vectors themselves, at twice the digits.
        triangle = np.linalg.qr(np.sqrt(weights)[:, None] * vectors, mode="r")
        _, roots, rows = np.linalg.svd(triangle)
        if roots[-1] <= 1e-14 * roots[0]:
            raise np.linalg.LinAlgError("the weighted vectors do not span the space")
        return roots[::-1], vectors @ rows[::-1].T


@dataclass(frozen=True, eq=False)
class Design:
    """Weights (at least 0, sum 1) of all vectors, the largest ratio minus 1, and the steps it took."""

    weights: Floats
    excess: float
    iterations: int


def optimal_design(vectors: Floats, criterion: Criterion, tolerance: float, max_iterations: int) -> Design:
    """Maximise a criterion over the weights of vectors that span the space; whether its excess is small enough, the caller judges."""
    # Multiplicative steps on all vectors; then, where few vectors matter, a primal-dual interior-point method on those, to which
    # vectors with a ratio above 1 are added until none has one above `1 + tolerance`; elsewhere more multiplicative steps.
    count = len(vectors)
    start = Design(np.full(count, 1.0 / count), np.inf, 0)
    best = _multiplicative(vectors, criterion, tolerance, start, min(_WARM_STEPS, max_iterations))
    while best.excess > tolerance and best.iterations < max_iterations:
        matter = int(np.count_nonzero(best.weights > 0.1 / count))
        # Many vectors that matter make Newton steps dear, and a few more multiplicative ones may do.
        if count <= _ACTIVE or (matter <= 2 * _ACTIVE and best.excess > _NEARLY * tolerance):
            found = _growing(vectors, criterion, tolerance, best, max_iterations)
            # A weight of zero would stay zero for ever.
            mixed = 0.99 * found.weights + 0.01 / count
            return _multiplicative(vectors, criterion, tolerance, found, max_iterations, mixed)
        best = _multiplicative(vectors, criterion, tolerance, best, min(best.iterations + _WARM_STEPS, max_iterations))
    return best


def _multiplicative(
    vectors: Floats, criterion: Criterion, tolerance: float, best: Design, limit: int, start: Floats | None = None
) -> Design:
    """Take multiplicative steps up to a total number of iterations, or until the excess is small enough."""
    weights = best.weights if start is None else start
    for step in range(best.iterations + 1, limit + 1):
        if best.excess <= tolerance:
            break
        ratios = criterion.ratios(vectors, weights)
        best = _better(best, weights, ratios, step)
        weights = weights * ratios**criterion.exponent
        weights /= weights.sum()
    return best


def _growing(vectors: Floats, criterion: Criterion, tolerance: float, best: Design, limit: int) -> Design:
    """Solve on a set of vectors, add those with a ratio above 1, and so on."""
    count, dimension = vectors.shape
    weights = best.weights
    active = np.sort(np.argsort(-weights, kind="stable")[: min(count, _ACTIVE)])
    while best.iterations < limit:
        # Half a tolerance is left to the vectors outside.
        try:
            found, used = _interior_point(vectors[active], criterion, weights[active], 0.5 * tolerance)
            weights = np.zeros(count)
            weights[active] = found
            ratios = criterion.ratios(vectors, weights)
        except np.linalg.LinAlgError:  # the vectors chosen so far do not span the space numerically
            break
        best = _better(best, weights, ratios, best.iterations + used)
        outside = np.setdiff1d(np.flatnonzero(ratios > 1.0 + 0.5 * tolerance), active)
        if best.excess <= tolerance or not outside.size:
            break
        worst = outside[np.argsort(-ratios[outside], kind="stable")[: max(100, 2 * dimension)]]
        kept = active[(weights[active] > 1e-3 / count) | (ratios[active] > 1.0 - tolerance)]
        active = np.sort(np.concatenate([kept, worst]))
        if len(active) > 2 * _ACTIVE:
            break
    return best


def _better(best: Design, weights: Floats, ratios: Floats, steps: int) -> Design:
    """Keep the weights with the smaller excess, and count the steps."""
    excess = float(ratios.max()) - 1.0
    return Design(weights, excess, steps) if excess < best.excess else replace(best, iterations=steps)


def _interior_point(vectors: Floats, criterion: Criterion, start: Floats, tolerance: float) -> tuple[Floats, int]:
    """Solve ``gradient_j + z_j = 1, w_j z_j = 0`` for nonnegative w and z, by Newton steps with a falling target."""
    weights = np.maximum(start, 1e-3 / len(start))
    # At the right total weight the weighted mean of the gradient is 1; both criteria grow by a known power of it.
    gradient, curvature = criterion.derivatives(vectors, weights / weights.sum())
    weights = weights / weights.sum() * (weights @ gradient / weights.sum()) ** criterion.exponent
    slack = np.maximum(1.0 - criterion.derivatives(vectors, weights)[0], 1e-2)
    for step in range(1, _NEWTON_STEPS + 1):
        gradient, curvature = criterion.derivatives(vectors, weights)
        total = weights.sum()
        complementarity = float(weights @ slack) / total
        if complementarity < 0.5 * tolerance and gradient.max() < 1.0 + 0.5 * tolerance:
            return weights / total, step
        target = 0.1 * complementarity * total / len(weights)
        system = curvature + np.diag(slack / weights)
        move = scipy.linalg.solve(system, gradient - 1.0 + target / weights, assume_a="pos")
        change = (target - slack * move) / weights - slack
        length = 1.0
        for value, direction in ((weights, move), (slack, change)):
            falling = direction < 0
            if falling.any():
                length = min(length, 0.95 * float(np.min(-value[falling] / direction[falling])))
        weights = weights + length * move
        slack = slack + length * change
    return weights / weights.sum(), _NEWTON_STEPS
