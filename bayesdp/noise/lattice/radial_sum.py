r"""The normaliser of l2 lattice Laplace noise, as a mixture of Gaussian sums.

``exp(-epsilon r) = int_0^inf epsilon / (2 sqrt(pi)) t**(-3/2) exp(-epsilon**2 / (4 t)) exp(-t r**2) dt``, so that with
``Theta(t) = sum_z exp(-t ||z||**2)`` and ``t = exp(u)``

``Z(epsilon) = 1 + int epsilon / (2 sqrt(pi)) exp(-u / 2 - epsilon**2 exp(-u) / 4) (Theta(exp(u)) - 1) du``.

The integrand is analytic for ``|Im u| < pi / 2`` and falls doubly exponentially, and the trapezoidal rule with step h is
off by at most ``2 N / (exp(2 pi a / h) - 1)``, N the integral of the absolute value on the lines ``Im u = +-a``
(Trefethen and Weideman 2014, Theorem 5.1). Taking absolute values gives ``N <= cos(a)**(-1/2) Z(epsilon cos a)``, and by
Poisson's formula ``epsilon**n Z(epsilon)`` grows with epsilon, so that ``N <= cos(a)**(-n-1/2) Z(epsilon)``. The step is
chosen so that the relative error is below 1e-16, and so are the ends of the range.

For small t, ``Theta(t) = (pi / t)**(n/2) / V`` up to a factor between 1 and ``1 + 1e-13`` below some t_c (V the volume
of a cell). Below a smallest epsilon the first term of Poisson's formula alone is used, which is what that expression
gives: with ``v = epsilon**2 / (4 t_c)`` its relative error is at most ``2 v**((n+1)/2) / Gamma((n+1)/2) + 1e-13``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy.special import gammainccinv, gammaln, logsumexp

from bayesdp.invariants import Invariants
from bayesdp.lattices.sums.sums import Multiples, l2_sums
from bayesdp.noise.base import Floats
from bayesdp.noise.lattice.lattice_gaussian import l2_log_sum

_DIMENSIONS = 5_000
"""Lattices with more dimensions are not computed: they need thousands of Gaussian sums."""

_LOG_ERROR = 37.0  # exp(-37) < 1e-16


@dataclass(frozen=True, eq=False)
class RadialSum:
    """``Z = 1 + epsilon sum_k exp(log_weights[k] - epsilon**2 inverse[k])`` from `smallest` on.

    Parameters
    ----------
    inverse : float64 array
        ``1 / (4 t)`` at the nodes.
    log_weights : float64 array
    smallest : float
        Epsilon below which ``Z = exp(log_scale) epsilon**-dimension``.
    log_scale : float
    dimension : int
    """

    inverse: Floats
    log_weights: Floats
    smallest: float
    log_scale: float
    dimension: int

    def log_sum(self, epsilon: float) -> float:
        """Logarithm of the sum of ``exp(-epsilon ||z||_2)`` over the lattice."""
        if epsilon < self.smallest:
            return self.log_scale - self.dimension * math.log(epsilon)
        others = math.log(epsilon) + float(logsumexp(self.log_weights - epsilon**2 * self.inverse))
        return float(np.logaddexp(0.0, others))


@lru_cache(maxsize=64)
def radial_sum(invariants: Invariants) -> RadialSum | None:
    """Prepare the normaliser of l2 noise on the lattice of the invariants.

    Returns
    -------
    RadialSum or None
        None where Gaussian sums over the lattice are not computed, or where it has no dimension or very many.

    Examples
    --------
    >>> from bayesdp.queries import Totals
    >>> rule = radial_sum(Invariants(Totals({"county": ["Alpha", "Beta"]})))
    >>> print(f"{rule.log_sum(0.5):.10f} {-math.log(math.tanh(0.25 * math.sqrt(2))):.10f}")  # a closed form
    1.0802132970 1.0802132970
    """
    n = invariants.dimension
    if not 0 < n <= _DIMENSIONS or l2_log_sum(invariants, 1.0) is None:
        return None

    def log_theta(t: float) -> float:
        value = l2_log_sum(invariants, math.sqrt(0.5 / t))
        assert value is not None
        return value

    def from_volume(t: float) -> float:
        return log_theta(t) - 0.5 * n * math.log(math.pi / t)

    largest = 64.0  # of lengths 1 and more: Theta(t) - 1 <= exp(-t / 2) Theta(t / 2)
    while log_theta(0.5 * largest) - 0.5 * largest > -_LOG_ERROR:
        largest *= 1.5
    simple = 1.0
    while from_volume(simple) - from_volume(simple / 16.0) > 1e-13:
        simple *= 0.5
    shape = 0.5 * (n + 1)
    bound = math.exp((gammaln(shape) - math.log(2.0) - _LOG_ERROR) / shape)  # of epsilon**2 / (4 simple)
    smallest = 2.0 * math.sqrt(simple * bound)
    # Less than 1e-16 of the mixture is at smaller t, for epsilon from the smallest one on.
    least = simple * bound / float(gammainccinv(shape, math.exp(-_LOG_ERROR)))
    a = np.linspace(0.01, 1.56, 156)
    step = float((2.0 * math.pi * a / (_LOG_ERROR + math.log(2.0) - (n + 0.5) * np.log(np.cos(a)))).max())
    u = np.arange(math.log(least) - step, math.log(largest) + step, step)
    height = np.array([log_theta(math.exp(one)) for one in u])
    u, height = u[height > 0.0], height[height > 0.0]
    weights = math.log(0.5 * step / math.sqrt(math.pi)) - 0.5 * u + height + np.log(-np.expm1(-height))
    scale = 0.5 * (n - 1) * math.log(math.pi) + n * math.log(2.0) + float(gammaln(shape))
    return RadialSum(0.25 * np.exp(-u), weights, smallest, scale + from_volume(simple / 16.0), n)


def radial_log_sum(invariants: Invariants, epsilon: float) -> float | None:
    """Logarithm of the sum of ``exp(-epsilon ||z||_2)`` over the lattice; None where it is not computed."""
    if invariants.dimension <= 1:
        sums = l2_sums(invariants)
        if sums is None:
            return None
        lengths = [part.length for part in sums if isinstance(part, Multiples)]
        return -math.fsum(math.log(math.tanh(0.5 * epsilon * length)) for length in lengths)
    rule = radial_sum(invariants)
    return None if rule is None else rule.log_sum(epsilon)
