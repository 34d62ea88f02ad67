"""Laws within public bounds: the Laplace and the Gaussian law on reals and on integers, clipped, and all but one of them truncated."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from bayesdp._arrays import Floats
from bayesdp.noise.arrays import finite, special
from bayesdp.noise.bounded import kernels
from bayesdp.noise.bounded.base import BoundedLaw, Clipped, Truncated
from bayesdp.noise.independent.laws import DiscreteGaussian, DiscreteLaplace, Gaussian, Laplace
from bayesdp.noise.kernels import discrete_gaussian, discrete_laplace, gaussian


def within(xp: Any, width: Any, scale: Any) -> Any:
    """``1 - exp(-width / scale)``, for a width that may be infinite."""
    return xp.where(xp.isinf(width), 1.0, -xp.expm1(-finite(xp, width, 1.0) / scale))


_ROOT = math.sqrt(2.0)
_LOG_ROOT = 0.5 * math.log(2.0 * math.pi)
_FAR = 40.0
"""In standard deviations: the error function of this is 1."""

_FEW = tuple(
    (0.5 * (1.0 + float(node)), 0.5 * float(weight))
    for node, weight in zip(*np.polynomial.legendre.leggauss(8), strict=True)
)
"""Places within (0, 1) and weights; exact to 1e-16 for integrands that fall by less than ``exp(-1/2)``."""


@dataclass(frozen=True, eq=False)
class TruncatedLaplace(Truncated):
    r"""Independent real values around mu with density proportional to ``exp(-|y - mu| / b)`` within bounds (c0, c1).

    The normaliser, ``b (2 - exp(-(mu - c0)/b) - exp(-(c1 - mu)/b))``, depends on the location: it belongs in every
    likelihood. A location outside the bounds gives the same law as the nearer bound. The bias is that of Equations 6, 9 and 10;
    the variance is below ``2 b**2``, and where b is large no more than that of a uniform law.

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
    free = Laplace
    draw_one = staticmethod(kernels.truncated_laplace)
    log_density = BoundedLaw.log_each

    @staticmethod
    def log_share(xp: Any, mu: Any, scale: Any, lower: Any, upper: Any) -> Any:
        """See `Truncated`."""
        near = xp.clip(mu, lower, upper)
        return xp.log(within(xp, near - lower, scale) + within(xp, upper - near, scale))

    @staticmethod
    def excess(xp: Any, y: Any, mu: Any, scale: Any, lower: Any, upper: Any) -> Any:
        """See `Truncated`."""
        return abs(y - xp.clip(mu, lower, upper)) / scale


@dataclass(frozen=True, eq=False)
class BoundaryInflatedLaplace(Clipped):
    r"""Laplace values around mu, clipped to bounds (c0, c1): an atom at each finite bound (BIT).

    The probabilities of the atoms are ``exp(-(mu - c0)/b) / 2`` and ``exp(-(c1 - mu)/b) / 2`` for locations within the
    bounds; Equation (5) of the paper misprints the upper one as 1 minus that. Between them the density is that of
    Laplace noise. Densities refer to Lebesgue measure plus a unit point mass at each finite bound: the log-density at a
    bound is the log-probability of its atom. The mean is ``mu + b/2 (exp(-(mu - c0)/b) - exp(-(c1 - mu)/b))``, the variance below
    ``2 b**2``.

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
    free = Laplace
    draw_one = staticmethod(kernels.boundary_inflated_laplace)
    log_density = BoundedLaw.log_each


@dataclass(frozen=True, eq=False)
class TruncatedGaussian(Truncated):
    r"""Independent real values around mu with density proportional to ``exp(-(y - mu)**2 / (2 sigma**2))`` within bounds (c0, c1).

    The normaliser, ``sigma sqrt(2 pi) (Phi((c1 - mu)/sigma) - Phi((c0 - mu)/sigma))``, depends on the location: it belongs in
    every likelihood.

    References
    ----------
    Liu (2019), Section 5, names it as future work; the law is the truncated normal of textbooks.

    Examples
    --------
    >>> law = TruncatedGaussian(sigma=1.0, bounds=(0.0, 1.0))
    >>> print(f"{law.bias(0.3):.6f} {law.mse(0.3):.6f}")
    0.183892 0.114254
    """

    sigma: float | Floats
    bounds: Any

    name = "truncated-gaussian"
    relation = (
        "bounds=LOW:HIGH and sigma of the law without bounds, which truncation keeps: sigma = sensitivity / sqrt(2 rho)"
    )
    free = Gaussian
    draw_one = staticmethod(kernels.truncated_gaussian)
    log_density = BoundedLaw.log_each
    _log_unit = _LOG_ROOT

    @staticmethod
    def log_share(xp: Any, mu: Any, scale: Any, lower: Any, upper: Any) -> Any:
        """See `Truncated`."""
        low, high = finite(xp, (lower - mu) / scale, -_FAR), finite(xp, (upper - mu) / scale, _FAR)
        erf = special(xp)
        # Around a location inside, two positive parts.
        inner = 0.5 * (erf.erf(xp.maximum(high, 0.0) / _ROOT) + erf.erf(-xp.minimum(low, 0.0) / _ROOT))
        # Around one that is d outside, ratios of Mills where the density falls a lot, else quadrature: neither cancels.
        d = xp.maximum(xp.maximum(low, -high), 0.0)
        endless = xp.isinf((upper - lower) / scale)
        width = finite(xp, (upper - lower) / scale, 1.0)
        flat = xp.where(endless, 1.0, width * (d + 0.5 * width)) < 0.5
        w = xp.where(flat, 1.0, width)
        rest = xp.where(endless, 0.0, xp.exp(-w * (d + 0.5 * w)) * erf.erfcx((d + w) / _ROOT))
        steep = 0.5 * (erf.erfcx(d / _ROOT) - rest)
        short, slope = xp.where(flat, width, 0.1), xp.where(flat, d, 0.0)
        even = sum(weight * xp.exp(-place * short * (slope + 0.5 * place * short)) for place, weight in _FEW)
        outer = xp.where(flat, xp.log(short * even) - _LOG_ROOT, xp.log(steep))
        return xp.where(d > 0.0, outer, xp.log(inner))

    @staticmethod
    def excess(xp: Any, y: Any, mu: Any, scale: Any, lower: Any, upper: Any) -> Any:
        """See `Truncated`."""
        near = xp.clip(mu, lower, upper)
        return 0.5 * ((y - near) / scale) * ((y + near - 2.0 * mu) / scale)


@dataclass(frozen=True, eq=False)
class BoundaryInflatedGaussian(Clipped):
    r"""Gaussian values around mu, clipped to bounds (c0, c1): an atom at each finite bound (BIT).

    The probabilities of the atoms are ``Phi((c0 - mu)/sigma)`` and ``Phi((mu - c1)/sigma)``; between them the density is that of
    Gaussian noise. Densities refer to Lebesgue measure plus a unit point mass at each finite bound: the log-density at a
    bound is the log-probability of its atom.

    References
    ----------
    Liu (2019), Definition 2(b), with Gaussian noise, which Section 5 names as future work.

    Examples
    --------
    >>> law = BoundaryInflatedGaussian(sigma=1.0, bounds=(0.0, 1.0))
    >>> print(f"{law.bias(0.3):.6f} {law.atoms(0.3)[1]:.6f}")
    0.123882 0.241964
    """

    sigma: float | Floats
    bounds: Any

    name = "boundary-inflated-gaussian"
    relation = "bounds=LOW:HIGH and sigma of the noise before clipping: sigma = sensitivity / sqrt(2 rho)"
    free = Gaussian
    draw_one = staticmethod(kernels.clipped(gaussian))
    log_density = BoundedLaw.log_each


@dataclass(frozen=True, eq=False)
class TruncatedDiscreteLaplace(Truncated):
    """Independent integers with mass proportional to ``exp(-|k - mu| / b)`` within whole bounds.

    The normaliser depends on the location and belongs in every likelihood.

    References
    ----------
    Liu (2019), Definition 2(a), with the discrete law in place of the continuous one.

    Examples
    --------
    >>> law = TruncatedDiscreteLaplace(b=2.0, bounds=(0, 4))
    >>> np.round(np.exp(law.log_mass([0, 1, 2, 3, 4], 1)), 4)
    array([0.2163, 0.3566, 0.2163, 0.1312, 0.0796])
    >>> print(f"{law.mean(1):.4f}")
    1.5011
    """

    b: float | Floats
    bounds: Any

    name = "truncated-discrete-laplace"
    relation = "bounds=LOW:HIGH and b of the law without bounds, which truncation keeps; what epsilon it has depends on the bounds"
    free = DiscreteLaplace
    draw_one = staticmethod(kernels.truncated_discrete_laplace)
    log_mass = BoundedLaw.log_each

    @staticmethod
    def log_share(xp: Any, mu: Any, scale: Any, lower: Any, upper: Any) -> Any:
        """See `Truncated`."""
        near = xp.clip(mu, lower, upper)  # the law around a location outside is that around the bound
        m = xp.round(near)
        d = near - m
        one = -xp.expm1(-1.0 / scale)
        # How much farther than m its two neighbours are; all others are 1 farther each.
        down = xp.exp(-xp.where(d >= 0.0, 1.0, 1.0 + 2.0 * d) / scale) * within(xp, m - lower, scale) / one
        up = xp.exp(-xp.where(d >= 0.0, 1.0 - 2.0 * d, 1.0) / scale) * within(xp, upper - m, scale) / one
        return xp.log1p(down + up)

    @staticmethod
    def excess(xp: Any, y: Any, mu: Any, scale: Any, lower: Any, upper: Any) -> Any:
        """See `Truncated`."""
        near = xp.clip(mu, lower, upper)
        return (xp.abs(y - near) - xp.abs(near - xp.round(near))) / scale


@dataclass(frozen=True, eq=False)
class BoundaryInflatedDiscreteLaplace(Clipped):
    """Discrete Laplace integers around mu, clipped to whole bounds: an additional mass at each finite bound.

    For a location within the bounds and whole, the log-mass is ``-|k - mu| / b`` and a constant for each k: nothing in
    it depends on how far mu is from the bounds.

    References
    ----------
    Liu (2019), Definition 2(b), with the discrete law in place of the continuous one.

    Examples
    --------
    >>> law = BoundaryInflatedDiscreteLaplace(b=2.0, bounds=(0, 4))
    >>> np.round(np.exp(law.log_mass([0, 1, 2, 3, 4], 1)), 4)
    array([0.3775, 0.2449, 0.1486, 0.0901, 0.1389])
    """

    b: float | Floats
    bounds: Any

    name = "boundary-inflated-discrete-laplace"
    relation = "bounds=LOW:HIGH and b of the noise before clipping: b = sensitivity / epsilon"
    free = DiscreteLaplace
    draw_one = staticmethod(kernels.clipped(discrete_laplace, np.int64))
    log_mass = BoundedLaw.log_each


@dataclass(frozen=True, eq=False)
class BoundaryInflatedDiscreteGaussian(Clipped):
    """Discrete Gaussian integers around mu, clipped to whole bounds: an additional mass at each finite bound.

    Examples
    --------
    >>> law = BoundaryInflatedDiscreteGaussian(sigma=2.0, bounds=(0, 4))
    >>> print(f"{law.mean(1):.4f}")
    1.3275
    """

    sigma: float | Floats
    bounds: Any

    name = "boundary-inflated-discrete-gaussian"
    relation = "bounds=LOW:HIGH and sigma of the noise before clipping: sigma = sensitivity / sqrt(2 rho)"
    free = DiscreteGaussian
    draw_one = staticmethod(kernels.clipped(discrete_gaussian, np.int64))
    log_mass = BoundedLaw.log_each
