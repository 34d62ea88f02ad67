"""The Laplace law given that it stays within public bounds.

The Laplace law whose values are moved to the nearer bound where they are outside of public bounds.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import gammainc

from bayesdp.noise.base import Floats
from bayesdp.noise.bounded import kernels
from bayesdp.noise.bounded.base import BoundaryInflated, BoundedLaw, Moments
from bayesdp.noise.independent.laws import Laplace
from bayesdp.noise.namespace import finite, log1mexp


@dataclass(frozen=True, eq=False)
class TruncatedLaplace(BoundedLaw):
    r"""Independent real values around mu with density proportional to ``exp(-|y - mu| / b)`` within bounds (c0, c1).

    The normaliser, ``b (2 - exp(-(mu - c0)/b) - exp(-(c1 - mu)/b))``, depends on the location: it belongs in every
    likelihood. A location outside the bounds gives the same law as the nearer bound.

    ========  =========================================================================================
    Support   the interval between the bounds, of which one may be infinite
    Mean      mu plus a bias towards the middle of the interval (Equations 6, 9 and 10)
    Variance  below ``2 b**2``; no more than that of a uniform law where b is large
    ========  =========================================================================================

    Parameters
    ----------
    b : float or array_like
        Scale, in the unit of the values.
    bounds : pair of float or array_like
        Lower and upper bound; None or an infinity where there is none, on one side at most.

    Raises
    ------
    TypeError, ValueError
        If b is not positive and finite, or the bounds are reversed, equal or both infinite.

    See Also
    --------
    bayesdp.TruncatedLaplace : the mechanism; it takes privacy parameters.
    bayesdp.distributions.TruncatedLaplace : the same law as a PyMC distribution.

    References
    ----------
    Liu (2019), Statistical Properties of Sanitized Results from Differentially Private Laplace Mechanism with Univariate
    Bounding Constraints, Definition 2(a), Propositions 1 and 2.

    Examples
    --------
    >>> law = TruncatedLaplace(b=1.0, bounds=(0.0, 1.0))
    >>> print(f"{law.bias(0.3):.6f} {law.mse(0.3):.6f}")
    0.155874 0.098980
    """

    b: float | Floats
    bounds: Any

    name = "truncated-laplace"
    integer = False
    has_atoms = False
    free = Laplace
    draw_one = staticmethod(kernels.truncated_laplace)

    def log_density(self, values: npt.ArrayLike, location: npt.ArrayLike = 0.0) -> Floats:
        """Log-density of each value, elementwise; ``-inf`` outside the bounds."""
        return self.log_each(values, location)

    @classmethod
    def log_kernel(cls, xp: Any, value: Any, mu: Any, scale: Any, lower: Any, upper: Any) -> Any:
        """Log-density within the bounds."""
        near = xp.clip(mu, lower, upper)
        total = within(xp, near - lower, scale) + within(xp, upper - near, scale)
        return -xp.abs(value - near) / scale - xp.log(scale) - xp.log(total)

    @classmethod
    def log_cdf_kernel(cls, xp: Any, value: Any, mu: Any, scale: Any, lower: Any, upper: Any) -> Any:
        """Logarithm of the probability of at most `value`, from lower up to below upper."""
        near = xp.clip(mu, lower, upper)
        total = xp.log(within(xp, near - lower, scale) + within(xp, upper - near, scale))
        low = value <= near
        # Each side gets an argument that is harmless where the other is taken.
        start, end = xp.where(low, value, near), xp.where(low, near, value)
        left = -(near - start) / scale + xp.log(within(xp, start - lower, scale)) - total
        right = -(end - near) / scale + xp.log(within(xp, upper - end, scale)) - total
        return xp.where(low, left, log1mexp(xp, xp.where(low, -1.0, xp.minimum(right, 0.0))))

    @classmethod
    def icdf_kernel(cls, xp: Any, q: Any, mu: Any, scale: Any, lower: Any, upper: Any) -> Any:
        """Quantiles of probabilities above 0; those near 1 may come out beyond the upper bound, by rounding."""
        near = xp.clip(mu, lower, upper)
        left = within(xp, near - lower, scale)
        share = q * (left + within(xp, upper - near, scale))
        # 1 - left, which is added where subtracting from 1 would lose it.
        rest = xp.where(xp.isinf(lower), 0.0, xp.exp(-finite(xp, near - lower, 0.0) / scale))
        down = xp.where(rest < 0.35, xp.log(xp.minimum(share + rest, 1.0)), xp.log1p(xp.clip(share - left, -0.9, 0.0)))
        up = xp.log1p(-xp.clip(share - left, 0.0, _BELOW_ONE))
        return xp.where(share <= left, near + scale * down, near - scale * up)

    def _moments(self, mu: Floats, scale: Floats, lower: Floats, upper: Floats) -> Moments:
        # Incomplete gamma functions keep all digits of what the formulas of Propositions 1 and 2 take differences of.
        near, below, above = sides(mu, scale, lower, upper)
        total = grow(1, below) + grow(1, above)
        first = scale * (grow(2, above) - grow(2, below)) / total
        return near, first, 2.0 * scale**2 * (grow(3, above) + grow(3, below)) / total


_BELOW_ONE = float(np.nextafter(1.0, 0.0))


def sides(mu: Floats, scale: Floats, lower: Floats, upper: Floats) -> tuple[Floats, Floats, Floats]:
    """The location moved within the bounds, and its distances from them in scales."""
    near = np.clip(mu, lower, upper)
    return near, (near - lower) / scale, (upper - near) / scale


def within(xp: Any, width: Any, scale: Any) -> Any:
    """``1 - exp(-width / scale)``, for a width that may be infinite."""
    return xp.where(xp.isinf(width), 1.0, -xp.expm1(-finite(xp, width, 1.0) / scale))


def grow(order: int, x: Floats) -> Floats:
    """Integral of ``t**(order-1) exp(-t) / (order-1)!`` from 0 to x."""
    return np.asarray(-np.expm1(-x) if order == 1 else gammainc(float(order), x))


@dataclass(frozen=True, eq=False)
class BoundaryInflatedLaplace(BoundaryInflated):
    r"""Laplace values around mu, clipped to bounds (c0, c1): an atom at each finite bound (BIT).

    The probabilities of the atoms are ``exp(-(mu - c0)/b) / 2`` and ``exp(-(c1 - mu)/b) / 2`` for locations within the
    bounds; Equation (5) of the paper misprints the upper one as 1 minus that. Between them the density is that of
    Laplace noise. Densities refer to Lebesgue measure plus a unit point mass at each finite bound: the log-density at a
    bound is the log-probability of its atom.

    ========  ========================================================
    Support   the interval between the bounds, bounds included
    Mean      ``mu + b/2 (exp(-(mu - c0)/b) - exp(-(c1 - mu)/b))``
    Variance  below ``2 b**2``
    ========  ========================================================

    Parameters
    ----------
    b : float or array_like
        Scale, in the unit of the values.
    bounds : pair of float or array_like
        Lower and upper bound; None or an infinity where there is none, on one side at most.

    Raises
    ------
    TypeError, ValueError
        If b is not positive and finite, or the bounds are reversed, equal or both infinite.

    See Also
    --------
    bayesdp.BoundaryInflatedLaplace : the mechanism; it takes privacy parameters.
    bayesdp.distributions.BoundaryInflatedLaplace : the same law as a PyMC distribution.

    References
    ----------
    Liu (2019), Definition 2(b), Propositions 1 and 2.

    Examples
    --------
    >>> law = BoundaryInflatedLaplace(b=1.0, bounds=(0.0, 1.0))
    >>> print(f"{law.bias(0.3):.12f} {law.variance((), location=0.3):.12f}")
    0.122116458445 0.177828867245
    """

    b: float | Floats
    bounds: Any

    name = "boundary-inflated-laplace"
    integer = False
    free = Laplace
    draw_one = staticmethod(kernels.boundary_inflated_laplace)

    def log_density(self, values: npt.ArrayLike, location: npt.ArrayLike = 0.0) -> Floats:
        """Log-density between the bounds, log-probability at a bound, ``-inf`` outside; elementwise."""
        return self.log_each(values, location)

    @classmethod
    def icdf_kernel(cls, xp: Any, q: Any, mu: Any, scale: Any, lower: Any, upper: Any) -> Any:
        """Quantiles of the free law, which may be outside of the bounds."""
        low = q < 0.5
        down, up = xp.where(low, q, 0.25), xp.where(low, 0.25, 1.0 - q)
        return xp.where(low, mu + scale * xp.log(2.0 * down), mu - scale * xp.log(2.0 * up))

    def _moments(self, mu: Floats, scale: Floats, lower: Floats, upper: Floats) -> Moments:
        near, below, above = sides(mu, scale, lower, upper)
        # How likely values are to be on either side of `near`: one half each, unless it is a bound that mu is beyond.
        down, up = (
            np.exp(Laplace.log_cdf_kernel(np, near, mu, scale)),
            np.exp(Laplace.log_cdf_kernel(np, -near, -mu, scale)),
        )
        first = scale * (up * grow(1, above) - down * grow(1, below))
        return near, first, 2.0 * scale**2 * (up * grow(2, above) + down * grow(2, below))
