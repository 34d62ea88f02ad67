"""Smooth differential privacy: a loss that grows with the distance of two tables (Dharangutte et al., 2023, Definition 2).

For all tables x, x' with the same invariants, at distance ``d = ||x - x'||``, and every event E,

``P(M(x) in E) <= exp(epsilon d) P(M(x') in E) + delta (exp(epsilon d) - 1) / (exp(epsilon) - 1)``.

At d = 1 that is (epsilon, delta); the invariants may leave no two tables at distance 1.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Self

from bayesdp import _validate
from bayesdp.privacy.gaussian import gaussian_rho, rho_to_delta
from bayesdp.privacy.losses import ApproximateDP, Loss, PureDP
from bayesdp.sensitivities.differences import NORMS

_MOST = 200_000
"""Squared distances looked at, at most."""
_SMALLEST = 1e-300
"""What smaller deltas are given as."""


@dataclass(frozen=True)
class SmoothDP:
    """A loss for every distance.

    Parameters
    ----------
    epsilon : float
        Positive: for each unit of distance.
    delta : float, default 0
        At distance 1; it grows as the module says. Below 1.
    norm : {"l1", "l2"}, default "l1"
        Of the difference of two tables, in counts.

    References
    ----------
    Dharangutte, Gao, Gong and Yu (2023), Integer Subspace Differential Privacy, Definition 2 and Proposition 6.

    Examples
    --------
    >>> smooth = SmoothDP(0.25, 1e-6)
    >>> print(smooth.at(2), "|", smooth.at(4))
    epsilon = 0.5, delta = 2.28403e-06 | epsilon = 1, delta = 6.04975e-06
    """

    epsilon: float
    delta: float = 0.0
    norm: str = "l1"

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", _validate.positive_real(self.epsilon, "epsilon"))
        object.__setattr__(self, "delta", _validate.nonnegative_real(self.delta, "delta"))
        if self.delta >= 1.0:
            raise ValueError(f"delta must be below 1, got {self.delta!r}: a delta of 1 protects nothing")
        _validate.choice(self.norm, NORMS, "norm")

    def at(self, distance: float) -> Loss:
        """The loss of two tables at a distance."""
        d = _validate.nonnegative_real(distance, "distance")
        if not self.delta:
            return PureDP(self.epsilon * d)
        grown = self.epsilon * d + math.log(self.delta)  # of exp(epsilon d) delta, which may be too large for a float
        if grown > 1.0 + self.epsilon:
            return ApproximateDP(self.epsilon * d, 1.0)
        factor = math.expm1(self.epsilon * d) / math.expm1(self.epsilon) if self.epsilon * d < 700.0 else math.inf
        return ApproximateDP(self.epsilon * d, min(1.0, self.delta * factor))

    def compose(self, other: Self) -> Self:
        """Both releases together, for tables that agree on the invariants of both and are at distance 1 or more (Proposition 6).

        The epsilons add up, and so do the deltas: ``(exp(epsilon d) - 1) / (exp(epsilon) - 1)`` grows with epsilon for ``d >= 1``.
        """
        if other.norm != self.norm:
            raise ValueError(f"other must have the norm of this loss, {self.norm!r}, got {other.norm!r}")
        return type(self)(self.epsilon + other.epsilon, self.delta + other.delta, self.norm)

    def growth(self, distances: Iterable[float] = (1, 2, 4, 8, 16)) -> str:
        """The losses at several distances in one line, up to the first that says nothing."""
        found = []
        for d in distances:
            loss = self.at(d)
            found.append(f"d = {d:.6g}: {loss}")
            if loss.says_nothing:
                break
        return "; ".join(found)


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
