"""Smooth differential privacy: a loss that grows with the distance of two tables.

For all tables x, x' with the same invariants, at distance ``d = ||x - x'||``, and every event E (Dharangutte et al., 2023, Def. 2),

``P(M(x) in E) <= exp(epsilon d) P(M(x') in E) + delta (exp(epsilon d) - 1) / (exp(epsilon) - 1)``.

At d = 1 that is (epsilon, delta); the invariants may leave no two tables at distance 1. Of several releases the epsilons add up, and
so do the deltas, for distances of 1 and more (Proposition 6): ``(exp(epsilon d) - 1) / (exp(epsilon) - 1)`` grows with epsilon.
"""

from __future__ import annotations

import math

from bayesdp import _validate
from bayesdp.privacy.gaussian import gaussian_rho, rho_to_delta
from bayesdp.privacy.losses import ApproximateDP, Loss, PureDP

_MOST = 200_000
"""Squared distances looked at, at most."""
_SMALLEST = 1e-300
"""What smaller deltas are given as."""


def smooth_loss(distance: float, epsilon: float, delta: float = 0.0) -> Loss:
    """The loss of two tables at a distance.

    Parameters
    ----------
    distance : float
        In the norm that epsilon refers to.
    epsilon : float
        Positive: for each unit of distance.
    delta : float, default 0
        At distance 1; it grows as the module says. Below 1.

    References
    ----------
    Dharangutte, Gao, Gong and Yu (2023), Integer Subspace Differential Privacy, Definition 2.

    Examples
    --------
    >>> print(smooth_loss(2, 0.25, 1e-6), "|", smooth_loss(4, 0.25, 1e-6))
    epsilon = 0.5, delta = 2.28403e-06 | epsilon = 1, delta = 6.04975e-06
    """
    d, epsilon = _validate.nonnegative_real(distance, "distance"), _validate.positive_real(epsilon, "epsilon")
    delta = _validate.nonnegative_real(delta, "delta")
    if delta >= 1.0:
        raise ValueError(f"delta must be below 1, got {delta!r}: a delta of 1 protects nothing")
    if not delta:
        return PureDP(epsilon * d)
    log_factor = _log_expm1(epsilon * d) - _log_expm1(epsilon) if d else -math.inf
    return ApproximateDP(epsilon * d, min(1.0, math.exp(min(0.0, math.log(delta) + log_factor))))


def smooth_gaussian_delta(epsilon: float, sigma: float) -> float:
    """A delta with which lattice Gaussian noise is smoothly (epsilon, delta)-differentially private in l2; 1 if none is found.

    Parameters
    ----------
    epsilon : float
        Positive: for each unit of l2 distance.
    sigma : float
        Scale of the noise, in counts.

    Notes
    -----
    Two tables with whole counts at squared distance m are ``m / (2 sigma**2)``-zCDP apart, on every lattice. So the largest of
    ``delta_m (exp(epsilon) - 1) / (exp(epsilon sqrt(m)) - 1)`` over m = 1, 2, ... is enough, delta_m the delta of that loss at
    ``epsilon sqrt(m)``. As delta_m is at most 1, m need not be looked at from where the second factor alone is below the largest;
    nor from where ``exp(-(sigma**2 / 2) max(0, epsilon - sqrt(m) / (2 sigma**2))**2 - epsilon (sqrt(m) - 1))`` is, which is no
    smaller than the product (Bun and Steinke, 2016, Lemma 3.5) and falls in m. What is below 1e-300 is given as that.

    Examples
    --------
    >>> print(f"{smooth_gaussian_delta(0.5, 10.0):.3e}")
    3.449e-08
    """
    epsilon = _validate.positive_real(epsilon, "epsilon")
    sigma = _validate.positive_real(sigma, "sigma")
    largest = _SMALLEST
    for m in range(1, _MOST + 1):
        root = math.sqrt(m)
        log_weight = _log_expm1(epsilon) - _log_expm1(epsilon * root)
        if log_weight < -690.0:  # and so are all that follow
            return max(largest, math.exp(-690.0))
        weight = math.exp(log_weight)
        beyond = -0.5 * (sigma * max(0.0, epsilon - root / (2.0 * sigma**2))) ** 2 - epsilon * (root - 1.0)
        if weight <= largest or beyond <= math.log(largest):
            return min(1.0, largest)
        largest = max(largest, weight * rho_to_delta(gaussian_rho(sigma, root), epsilon * root))
    return 1.0


def _log_expm1(x: float) -> float:
    """``log(exp(x) - 1)`` of a positive x, whose exponential may be too large for a float."""
    return math.log(math.expm1(x)) if x < 50.0 else x + math.log1p(-math.exp(-x))
