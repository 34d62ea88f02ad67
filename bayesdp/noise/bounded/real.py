"""The Laplace and the Gaussian law within public bounds: given that they stay inside, or with their tails moved to the bounds."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import gammainc, ndtri

from bayesdp._numba import nb as numba
from bayesdp.noise.base import Floats
from bayesdp.noise.bounded import kernels
from bayesdp.noise.bounded.base import BoundaryInflated, BoundedReal, Moments
from bayesdp.noise.independent.laws import Gaussian, Laplace
from bayesdp.noise.namespace import finite, log1mexp, special


@dataclass(frozen=True, eq=False)
class TruncatedLaplace(BoundedReal):
    r"""Independent real values around mu with density proportional to ``exp(-|y - mu| / b)`` within bounds (c0, c1).

    The normaliser, ``b (2 - exp(-(mu - c0)/b) - exp(-(c1 - mu)/b))``, depends on the location: it belongs in every
    likelihood. A location outside the bounds gives the same law as the nearer bound.

    ========  =========================================================================================
    Support   the interval between the bounds, of which one may be infinite
    Mean      mu plus a bias towards the middle of the interval (Equations 6, 9 and 10)
    Variance  below ``2 b**2``; no more than that of a uniform law where b is large
    ========  =========================================================================================

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
    has_atoms = False
    free = Laplace
    draw_one = staticmethod(kernels.truncated_laplace)

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
class BoundaryInflatedLaplace(BoundaryInflated, BoundedReal):
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


@numba.njit(cache=True)
def boundary_inflated_gaussian(rng, mu, sigma, lower, upper):  # type: ignore[no-untyped-def]  # compiled for what it meets
    """Draw from the Gaussian law and move what is outside to the nearer bound."""
    return min(max(mu + sigma * rng.standard_normal(), lower), upper)


@numba.njit(cache=True)
def truncated_gaussian(rng, mu, sigma, lower, upper):  # type: ignore[no-untyped-def]  # as above
    """Draw from the Gaussian law given the bounds, by rejection that accepts at least one proposal in eight or so.

    Far outside the bounds the law falls almost exponentially from the nearer one; narrow intervals take uniform proposals;
    otherwise the law without bounds seldom leaves them on both sides.
    """
    far = max(lower - mu, mu - upper) / sigma
    width = (upper - lower) / sigma
    if far > 1.0:
        start = lower if mu < lower else upper
        sign = 1.0 if mu < lower else -1.0
        share = -math.expm1(-far * width)
        while True:
            t = -math.log1p(-rng.random() * share) / far
            if rng.standard_exponential() >= 0.5 * t * t:
                return min(max(start + sign * sigma * t, lower), upper)
    if width <= 2.0:
        near = min(max(mu, lower), upper)
        while True:
            y = min(lower + rng.random() * (upper - lower), upper)
            if rng.standard_exponential() >= 0.5 * ((y - near) / sigma) * ((y + near - 2.0 * mu) / sigma):
                return y
    while True:
        y = mu + sigma * rng.standard_normal()
        if lower <= y <= upper:
            return y


_ROOT = math.sqrt(2.0)
_LOG_ROOT = 0.5 * math.log(2.0 * math.pi)
_NEGLIGIBLE = 45.0
_FAR = 40.0
"""In standard deviations: the error function of this is 1."""

_FEW = tuple(
    (0.5 * (1.0 + float(node)), 0.5 * float(weight))
    for node, weight in zip(*np.polynomial.legendre.leggauss(8), strict=True)
)
"""Places within (0, 1) and weights; exact to 1e-16 for integrands that fall by less than ``exp(-1/2)``."""

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(64)


def log_share(xp: Any, mu: Any, scale: Any, lower: Any, upper: Any) -> Any:
    """Logarithm of the integral of the normal density from lower to upper, over its largest value there in units of that at mu.

    That is ``exp(-((y - mu)**2 - (near - mu)**2) / (2 scale**2)) / (scale sqrt(2 pi))``, integrated, where `near` is mu moved into
    the interval. Locations may be anywhere; one end may be infinite. `xp` is NumPy or PyTensor.
    """
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


def log_excess(y: Any, near: Any, mu: Any, scale: Any) -> Any:
    """How much larger the log-density at `near` is than at y, of a normal law around mu, as a product."""
    return 0.5 * ((y - near) / scale) * ((y + near - 2.0 * mu) / scale)


def half_moments(x: Floats, d: Floats) -> tuple[Floats, Floats, Floats]:
    """Integrals of ``t**i exp(-t**2 / 2 - d t)`` from 0 to x, i = 0, 1, 2, for x up to infinity and d of at least 0."""
    end = np.minimum(x, 2.0 * _NEGLIGIBLE / (d + np.sqrt(d**2 + 2.0 * _NEGLIGIBLE)))[..., None]
    t = 0.5 * end * (1.0 + _NODES)
    mass = 0.5 * end * _WEIGHTS * np.exp(-t * (d[..., None] + 0.5 * t))
    return np.sum(mass, axis=-1), np.sum(mass * t, axis=-1), np.sum(mass * t**2, axis=-1)


_REACH = 40.0
"""In standard deviations: where a bound is missing, quantiles of probabilities above 1e-300 are not further away."""


@dataclass(frozen=True, eq=False)
class TruncatedGaussian(BoundedReal):
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
    has_atoms = False
    free = Gaussian
    scale_name = "sigma"
    draw_one = staticmethod(truncated_gaussian)

    @classmethod
    def log_kernel(cls, xp: Any, value: Any, mu: Any, scale: Any, lower: Any, upper: Any) -> Any:
        """Log-density within the bounds."""
        near = xp.clip(mu, lower, upper)
        total = log_share(xp, mu, scale, lower, upper)
        return -log_excess(value, near, mu, scale) - xp.log(scale) - _LOG_ROOT - total

    @classmethod
    def log_cdf_kernel(cls, xp: Any, value: Any, mu: Any, scale: Any, lower: Any, upper: Any) -> Any:
        """Logarithm of the probability of at most `value`, from lower up to below upper."""
        near = xp.clip(mu, lower, upper)
        total = log_share(xp, mu, scale, lower, upper)
        below, above = xp.minimum(near, value), xp.maximum(near, value)
        left = log_share(xp, mu, scale, lower, value) - log_excess(below, near, mu, scale) - total
        right = log_share(xp, mu, scale, value, upper) - log_excess(above, near, mu, scale) - total
        # 1 minus the smaller part keeps all digits.
        low = left <= right
        return xp.where(low, left, log1mexp(xp, xp.where(low, -1.0, xp.minimum(right, 0.0))))

    def _quantile(self, q: Floats, mu: Floats, scale: Floats, lower: Floats, upper: Floats) -> Floats:
        """By bisection of the distribution function, which keeps its digits far out."""
        low = np.where(np.isfinite(lower), lower, np.minimum(mu, upper) - _REACH * scale)
        high = np.where(np.isfinite(upper), upper, np.maximum(mu, lower) + _REACH * scale)
        target = np.log(q)
        while True:
            middle = 0.5 * (low + high)
            done = (middle <= low) | (middle >= high)
            if np.all(done):
                return np.asarray(high)
            with np.errstate(divide="ignore"):
                enough = self._log_cdf(middle, mu, scale, lower, upper) >= target
            low, high = np.where(done | enough, low, middle), np.where(done | ~enough, high, middle)

    def _moments(self, mu: Floats, scale: Floats, lower: Floats, upper: Floats) -> Moments:
        near, up, down, _ = _sides(mu, scale, lower, upper)
        total = up[0] + down[0]
        return near, scale * (up[1] - down[1]) / total, scale**2 * (up[2] + down[2]) / total


@dataclass(frozen=True, eq=False)
class BoundaryInflatedGaussian(BoundaryInflated, BoundedReal):
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
    scale_name = "sigma"
    draw_one = staticmethod(boundary_inflated_gaussian)

    @classmethod
    def icdf_kernel(cls, xp: Any, q: Any, mu: Any, scale: Any, lower: Any, upper: Any) -> Any:
        """Quantiles of the free law, which may be outside of the bounds."""
        if xp is np:
            return mu + scale * ndtri(q)
        low = q < 0.5
        tail = math.sqrt(2.0) * xp.erfcinv(2.0 * xp.where(low, q, 1.0 - q))
        return mu + scale * xp.where(low, -tail, tail)

    def _moments(self, mu: Floats, scale: Floats, lower: Floats, upper: Floats) -> Moments:
        near, up, down, away = _sides(mu, scale, lower, upper)
        density = np.exp(-0.5 * away**2 - _LOG_ROOT)
        at_lower, at_upper = self._beyond(mu, scale, lower, upper)
        fall, rise = (np.where(np.isfinite(side), side - near, 0.0) for side in (lower, upper))
        first = scale * density * (up[1] - down[1]) + at_upper * rise + at_lower * fall
        second = scale**2 * density * (up[2] + down[2]) + at_upper * rise**2 + at_lower * fall**2
        return near, first, second


type _Half = tuple[Floats, Floats, Floats]


def _sides(mu: Floats, scale: Floats, lower: Floats, upper: Floats) -> tuple[Floats, _Half, _Half, Floats]:
    """The location moved within the bounds, the integrals above and below it, and how far it was outside, in scales."""
    near = np.clip(mu, lower, upper)
    below, above = np.maximum(lower - mu, 0.0) / scale, np.maximum(mu - upper, 0.0) / scale
    up, down = half_moments((upper - near) / scale, below), half_moments((near - lower) / scale, above)
    return near, up, down, below + above
