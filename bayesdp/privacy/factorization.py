"""Which shape Gaussian noise should have, given the differences that it has to hide.

Neighbouring tables change the answers by vectors ``v_j`` or ``-v_j``. Gaussian noise of covariance ``s**2 Sigma`` tells two
neighbours apart as well as a normal variable of mean ``sqrt(v^T Sigma^-1 v) / s`` and variance 1: if no
``v_j^T Sigma^-1 v_j`` exceeds 1, the mechanism is exactly mu-GDP with ``mu = 1 / s`` (Dong, Roth and Su, 2022). Geometrically:
the ellipsoid ``{x : x^T Sigma^-1 x <= 1}`` has to contain the vectors. The expected squared error is ``s**2 tr(Sigma)``:
`optimal_factorization` finds the ellipsoid of least trace, hence the least error that any Gaussian noise can have.

By duality it is found from the weights w, at least 0 and of sum 1, that maximise ``tr S^(1/2)``, ``S = sum_j w_j v_j v_j^T``.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import scipy.linalg

from bayesdp import _validate
from bayesdp._arrays import Floats

_STEPS = 2000  # multiplicative and Newton steps, in all
_WARM_STEPS = 40  # multiplicative steps on all vectors; they find out roughly which ones matter
_NEARLY = 5.0  # an excess below this many tolerances is left to them
_ROUNDED = 1e-10  # eigenvalues below this share of the largest have fewer than six digits left
_NEWTON_STEPS = 60  # of one interior-point solve; 15 to 25 are usual
_ACTIVE = 1500  # most vectors that an interior-point solve starts with; a step costs their number squared
MAX_VECTORS = 20_000  # most differences that a shape is fitted to,
MAX_DIMENSION = 300  # and most dimensions that they may have
_RANK = 1e-9  # singular values below this share of the largest are zero


def ratios(vectors: Floats, weights: Floats) -> Floats:
    """Derivative of ``tr S^(1/2)`` by each weight over their weighted mean; all are at most 1 at the optimum, and only there."""
    roots, rotated = _eigen(vectors, weights)
    return np.asarray((rotated**2 @ (1.0 / roots)) / roots.sum())


def derivatives(vectors: Floats, weights: Floats) -> tuple[Floats, Floats]:
    """Gradient and the negative of the Hessian of ``2 tr S^(1/2)``, in which scaling the gradient is at most 1 at the optimum.

    The Hessian is ``-sum_kl y_ik y_jk y_il y_jl / (a_k a_l (a_k + a_l))``, with y in the eigenbasis of S and a the
    roots of its eigenvalues. ``1 / (a + b)`` is the integral of ``exp(t - (a + b) exp(t))``, which the trapezoidal
    rule of step 1 gives to 1e-4: a Newton step needs no more, and each node costs one matrix product.
    """
    roots, rotated = _eigen(vectors, weights)
    hessian = np.zeros((len(vectors), len(vectors)))
    for exponent in np.arange(np.log(1e-4 / roots[-1]), np.log(12.0 / roots[0]) + 1.0):
        rate = np.exp(exponent)
        hessian += rate * ((rotated * (np.exp(-roots * rate) / roots)) @ rotated.T) ** 2
    return rotated**2 @ (1.0 / roots), hessian


def _eigen(vectors: Floats, weights: Floats) -> tuple[Floats, Floats]:
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
    """Weights (at least 0, sum 1) of all vectors, the largest ratio minus 1, and the steps until now."""

    weights: Floats
    excess: float
    steps: int


def optimal_design(vectors: Floats, tolerance: float) -> Design:
    """The best weights of vectors that span the space; whether their excess is small enough, the caller judges."""
    # Multiplicative steps on all vectors; then, where few vectors matter, a primal-dual interior-point method on those, to which
    # vectors with a ratio above 1 are added until none has one above `1 + tolerance`; where that fails more multiplicative steps.
    count = len(vectors)
    start = np.full(count, 1.0 / count)
    best = _multiplicative(vectors, tolerance, Design(start, np.inf, 0), start, _WARM_STEPS)
    # Newton steps on many vectors are dear, and where little is missing a few more multiplicative ones may do.
    while count > _ACTIVE and tolerance < best.excess <= _NEARLY * tolerance and best.steps < _STEPS:
        best = _multiplicative(vectors, tolerance, best, best.weights, min(best.steps + _WARM_STEPS, _STEPS))
    if np.count_nonzero(best.weights > 0.1 / count) <= 2 * _ACTIVE:
        best = _growing(vectors, tolerance, best)
    # A weight of zero would stay zero for ever.
    return _multiplicative(vectors, tolerance, best, 0.99 * best.weights + 0.01 / count, _STEPS)


def _multiplicative(vectors: Floats, tolerance: float, best: Design, weights: Floats, limit: int) -> Design:
    """Take multiplicative steps up to a total number of iterations, or until the excess is small enough."""
    for step in range(best.steps + 1, limit + 1):
        if best.excess <= tolerance:
            break
        own = ratios(vectors, weights)
        best = _better(best, weights, own, step)
        # tr S^(1/2) is the nuclear norm of a matrix linear in the roots of the weights, so convex in these; maximising the linear
        # minorant on the sphere gives this step, which never lowers it.
        weights = weights * own**2
        weights /= weights.sum()
    return best


def _growing(vectors: Floats, tolerance: float, best: Design) -> Design:
    """Solve on a set of vectors, add those with a ratio above 1, and so on."""
    count, dimension = vectors.shape
    weights = best.weights
    active = np.sort(np.argsort(-weights, kind="stable")[: min(count, _ACTIVE)])
    while best.excess > tolerance and best.steps < _STEPS:
        # Half a tolerance is left to the vectors outside.
        try:
            found, used = _interior_point(vectors[active], weights[active], 0.5 * tolerance)
            weights = np.zeros(count)
            weights[active] = found
            own = ratios(vectors, weights)
        except np.linalg.LinAlgError:  # the vectors chosen so far do not span the space numerically
            break
        best = _better(best, weights, own, best.steps + used)
        outside = np.setdiff1d(np.flatnonzero(own > 1.0 + 0.5 * tolerance), active)
        if not outside.size:
            break
        worst = outside[np.argsort(-own[outside], kind="stable")[: max(100, 2 * dimension)]]
        kept = active[(weights[active] > 1e-3 / count) | (own[active] > 1.0 - tolerance)]
        active = np.sort(np.concatenate([kept, worst]))
        if len(active) > 2 * _ACTIVE:
            break
    return best


def _better(best: Design, weights: Floats, own: Floats, steps: int) -> Design:
    """Keep the weights with the smaller excess, and count the steps."""
    excess = float(own.max()) - 1.0
    return Design(weights, excess, steps) if excess < best.excess else replace(best, steps=steps)


def _interior_point(vectors: Floats, start: Floats, tolerance: float) -> tuple[Floats, int]:
    """Solve ``gradient_j + z_j = 1, w_j z_j = 0`` for nonnegative w and z, by Newton steps with a falling target."""
    weights = np.maximum(start, 1e-3 / len(start))
    # At the right total weight the weighted mean of the gradient is 1; the gradient falls with the root of that weight.
    gradient, _ = derivatives(vectors, weights / weights.sum())
    weights = weights / weights.sum() * (weights @ gradient / weights.sum()) ** 2
    slack = np.maximum(1.0 - derivatives(vectors, weights)[0], 1e-2)
    for step in range(1, _NEWTON_STEPS + 1):
        gradient, curvature = derivatives(vectors, weights)
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


def spanning(vectors: npt.ArrayLike) -> Floats:
    """Accept vectors that span their space."""
    array = np.asarray(_validate.finite_array(vectors, "vectors"), dtype=np.float64)
    if array.ndim != 2 or not array.size:
        raise ValueError(f"vectors must be a matrix with one vector a row, got an array of shape {array.shape}")
    if array.shape[0] > MAX_VECTORS or array.shape[1] > MAX_DIMENSION:
        raise ValueError(
            f"vectors must be at most {MAX_VECTORS}, of at most {MAX_DIMENSION} dimensions, got {array.shape[0]} of "
            f"{array.shape[1]}"
        )
    singular = np.linalg.svd(np.linalg.qr(array, mode="r"), compute_uv=False)
    rank = int(np.count_nonzero(singular > _RANK * singular[0]))
    if rank < array.shape[1]:
        raise ValueError(
            f"vectors must span the space of dimension {array.shape[1]}, but they span {rank} dimensions only; state them "
            "in coordinates of their span"
        )
    return array


def just_containing(shape: Floats, vectors: Floats) -> Floats:
    """Scale a shape so that the largest ``v^T shape^-1 v`` is 1, symmetric to the last bit and read-only."""
    even = 0.5 * (shape + shape.T)
    white = scipy.linalg.solve_triangular(scipy.linalg.cholesky(even, lower=True), vectors.T, lower=True)
    covariance = np.asarray(even * float(np.max(np.sum(white**2, axis=0))))
    covariance.flags.writeable = False
    return covariance


@dataclass(frozen=True, eq=False)
class Factorization:
    """The covariance of least trace whose ellipsoid contains all vectors.

    Parameters
    ----------
    covariance : numpy.ndarray, shape (n, n)
        Every vector is within its ellipsoid, and one is on its boundary.
    error : float
        Trace of the covariance: the expected squared error of 1-GDP noise.
    bound : float
        No covariance whose ellipsoid contains all vectors has a trace below this.
    gap : float
        How far from the optimum it may be: ``error / bound - 1``.
    """

    covariance: Floats
    error: float
    bound: float
    gap: float


def optimal_factorization(vectors: npt.ArrayLike, *, tolerance: float = 1e-3) -> Factorization:
    """Find the covariance of least trace whose ellipsoid contains the vectors: Gaussian noise of least squared error.

    Minimise ``tr Sigma`` subject to ``v_j^T Sigma^-1 v_j <= 1``. The dual is to maximise ``(tr S^(1/2))**2`` over weights,
    ``S = sum w_j v_j v_j^T``; then ``Sigma = tr(S^(1/2)) S^(1/2)``. (Lagrangian in ``X = Sigma^-1``: the least of
    ``tr X^-1 + sum_j l_j (v_j^T X v_j - 1)`` is at ``X^-2 = S(l)``, of value ``2 tr S(l)^(1/2) - sum_j l_j``; then choose the
    sum of l.) This is the factorization mechanism, whose noise may have any shape, optimised for the total squared error
    (Li et al., 2010; Edmonds, Nikolov and Ullman, 2020).

    Parameters
    ----------
    vectors : array_like, shape (m, n)
        One of each pair v, -v; at most 20,000 vectors in at most 300 dimensions, and they must span the space.
    tolerance : float
        Largest relative gap accepted. ValueError where it is not reached.

    References
    ----------
    Edmonds, Nikolov and Ullman (2020), The Power of Factorization Mechanisms in Local and Central Differential Privacy,
    STOC.

    Examples
    --------
    A box of half sides 3 and 1: the noise has variances 12 and 4, of total ``(3 + 1)**2``.

    >>> found = optimal_factorization([[3.0, 1.0], [3.0, -1.0]])
    >>> print(f"{found.error:.3f}", found.covariance.round(9).tolist())
    16.000 [[12.0, 0.0], [0.0, 4.0]]
    """
    array = spanning(vectors)
    goal = _validate.positive_real(tolerance, "tolerance")
    design = optimal_design(array / np.sqrt(np.mean(np.sum(array**2, axis=1))), goal)
    if design.excess > goal:
        raise ValueError(
            f"the optimal shape of the noise was not found: the relative gap is {design.excess:.3g} after {design.steps} steps, more "
            f"than tolerance={goal!r}; allow a larger gap by tolerance"
        )
    # The roots of the eigenvalues of S are singular values, which have twice as many digits.
    triangle = np.linalg.qr(np.sqrt(design.weights)[:, None] * array, mode="r")
    _, roots, rows = np.linalg.svd(triangle)
    bound = float(roots.sum()) ** 2
    covariance = just_containing((rows.T * (roots * roots.sum())) @ rows, array)
    error = float(np.trace(covariance))
    return Factorization(covariance, error, bound, max(error / bound - 1.0, 0.0))
