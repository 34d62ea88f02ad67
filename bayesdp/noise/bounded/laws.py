"""Laws within public bounds: the Laplace and the Gaussian law on reals and on integers, truncated or clipped."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from scipy.special import gammainc, ndtri

from bayesdp.lattices.secure import bernoulli_exp, system_bits, uniform_integer
from bayesdp.noise.arrays import equal, finite, log1mexp, real, special
from bayesdp.noise.base import Floats, Ints
from bayesdp.noise.bounded import kernels
from bayesdp.noise.bounded.base import BoundedLaw, Moments, WithAtoms
from bayesdp.noise.independent.laws import DiscreteGaussian, DiscreteLaplace, Gaussian, Laplace
from bayesdp.noise.secure import draw_independent

type Half = tuple[Floats, Floats, Floats]


class BoundedReal(BoundedLaw):
    """Real numbers on an interval; `near` is the location moved into it."""

    integer = False
    _excess: ClassVar[Any]
    """Of (y, near, mu, scale): how much larger the free log-density is at `near` than at y."""
    _log_share: ClassVar[Any]
    """Of (xp, mu, scale, lower, upper): logarithm of the integral of the free density, over its value at `near` and the scale."""
    _log_unit: ClassVar[float] = 0.0
    """What is left out of that."""
    _half: ClassVar[Any]
    """Of (x, d): integrals of ``t**i`` times that density for t up to x scales on one side, i = 0, 1, 2, where mu is d outside."""

    @classmethod
    def _sums(cls, mu: Floats, scale: Floats, lower: Floats, upper: Floats) -> tuple[Floats, Floats, Floats, Floats]:
        near = np.clip(mu, lower, upper)
        up = cls._half((upper - near) / scale, np.maximum(lower - mu, 0.0) / scale)
        down = cls._half((near - lower) / scale, np.maximum(mu - upper, 0.0) / scale)
        return near, up[0] + down[0], scale * (up[1] - down[1]), scale**2 * (up[2] + down[2])

    def log_density(self, values: npt.ArrayLike, location: npt.ArrayLike = 0.0) -> Floats:
        """Log-density of each value, elementwise; log-probability at a bound that has an atom, ``-inf`` outside the bounds."""
        return self.log_each(values, location)


class BoundedDiscrete(BoundedLaw):
    """Integers on an interval; m is the likeliest of them."""

    integer = True
    _excess: ClassVar[Any]
    """Of (k, m, mu, scale): how much larger the free log-mass of m is than that of k."""
    _add_up: ClassVar[Any]
    """The compiled form of `_sums`, whose `near` is m; see `laplace_sums`."""

    @staticmethod
    @abstractmethod
    def exact_rate(distance: int, scale: Fraction) -> Fraction:
        """How much larger the log-mass of a whole location is than that of the integer at this distance, without the bounds."""

    def log_mass(self, values: npt.ArrayLike, location: npt.ArrayLike = 0.0) -> Floats:
        """Log-mass of each value, elementwise; ``-inf`` outside the bounds and off the integers."""
        return self.log_each(values, location)

    @classmethod
    def _sums(cls, *arrays: Floats) -> tuple[Floats, Floats, Floats, Floats]:
        out = np.empty((arrays[0].size, 4))
        cls._add_up(*(np.ascontiguousarray(array, dtype=np.float64).reshape(-1) for array in arrays), out)
        s0, s1, s2, m = (column.reshape(arrays[0].shape) for column in out.T)
        return m, s0, s1, s2


class Clipped(WithAtoms):
    """The free law, symmetric about its location, with the mass of each tail at the bound before it."""

    has_atoms = True

    @classmethod
    def log_kernel(cls, xp: Any, value: Any, mu: Any, scale: Any, lower: Any, upper: Any) -> Any:
        """That of the free law between the bounds, the log-probability of the tail at a bound, which belongs to the tail."""
        below = cls.free.log_cdf_kernel(xp, finite(xp, lower, 0.0), mu, scale)
        above = cls.free.log_cdf_kernel(xp, -finite(xp, upper, 0.0), -mu, scale)
        inner = cls.free.log_kernel(xp, value, mu, scale)
        return xp.where(equal(xp, value, lower), below, xp.where(equal(xp, value, upper), above, inner))

    @classmethod
    def log_cdf_kernel(cls, xp: Any, value: Any, mu: Any, scale: Any, lower: Any, upper: Any) -> Any:
        """That of the free law, for values from lower up to below upper."""
        return cls.free.log_cdf_kernel(xp, value, mu, scale)

    def _moments(self, mu: Floats, scale: Floats, lower: Floats, upper: Floats) -> Moments:
        near, _, s1, s2 = self._sums(mu, scale, lower, upper)
        unit = np.exp(self.free.log_kernel(np, near, mu, scale)) * (1.0 if self.integer else scale)
        first, second = unit * s1, unit * s2
        # What is at a bound, beside the mass of an integer there.
        for side, end, centre in ((lower, lower - self.integer, mu), (upper, -upper - self.integer, -mu)):
            beyond = np.exp(self.free.log_cdf_kernel(np, finite(np, end, 0.0), centre, scale))
            away = np.where(np.isinf(side), 0.0, side - near)
            first, second = first + beyond * away, second + beyond * away**2
        return near, first, second


class Truncated(BoundedLaw):
    """The free law given that it is within the bounds."""

    has_atoms = False

    def _moments(self, mu: Floats, scale: Floats, lower: Floats, upper: Floats) -> Moments:
        near, s0, s1, s2 = self._sums(mu, scale, lower, upper)
        return near, s1 / s0, s2 / s0


class TruncatedReal(Truncated, BoundedReal):
    """Its density is that of the free law over the integral of it."""

    @classmethod
    def log_kernel(cls, xp: Any, value: Any, mu: Any, scale: Any, lower: Any, upper: Any) -> Any:
        """Log-density within the bounds."""
        near = xp.clip(mu, lower, upper)
        total = cls._log_share(xp, mu, scale, lower, upper)
        return -cls._excess(value, near, mu, scale) - xp.log(scale) - cls._log_unit - total

    @classmethod
    def log_cdf_kernel(cls, xp: Any, value: Any, mu: Any, scale: Any, lower: Any, upper: Any) -> Any:
        """Logarithm of the probability of at most `value`, from lower up to below upper."""
        near = xp.clip(mu, lower, upper)
        total = cls._log_share(xp, mu, scale, lower, upper)
        below, above = xp.minimum(near, value), xp.maximum(near, value)
        left = cls._log_share(xp, mu, scale, lower, value) - cls._excess(below, near, mu, scale) - total
        right = cls._log_share(xp, mu, scale, value, upper) - cls._excess(above, near, mu, scale) - total
        # 1 minus the smaller part keeps all digits.
        low = left <= right
        return xp.where(low, left, log1mexp(xp, xp.where(low, -1.0, xp.minimum(right, 0.0))))


class TruncatedDiscrete(WithAtoms, Truncated, BoundedDiscrete):
    """Its mass is that of the free law over the sum of it."""

    def _log_cdf(self, y: Floats, mu: Floats, scale: Floats, lower: Floats, upper: Floats) -> Floats:
        m, s0, *_ = self._sums(mu, scale, lower, upper)
        # The side of y that m is not on: it never holds nearly all of the mass, so that 1 minus it has all digits.
        low = y < m
        end, part, *_ = self._sums(mu, scale, np.where(low, lower, y + 1.0), np.where(low, y, upper))
        tail = np.minimum(np.log(part) - self._excess(end, m, mu, scale) - np.log(s0), 0.0)
        return np.asarray(np.where(low, tail, log1mexp(np, np.where(low, -1.0, tail))))


def within(xp: Any, width: Any, scale: Any) -> Any:
    """``1 - exp(-width / scale)``, for a width that may be infinite."""
    return xp.where(xp.isinf(width), 1.0, -xp.expm1(-finite(xp, width, 1.0) / scale))


@dataclass(frozen=True, eq=False)
class RealLaplace(BoundedReal):
    """The Laplace law."""

    b: float | Floats
    bounds: Any

    free = Laplace

    @staticmethod
    def _log_share(xp: Any, mu: Any, scale: Any, lower: Any, upper: Any) -> Any:
        near = xp.clip(mu, lower, upper)
        return xp.log(within(xp, near - lower, scale) + within(xp, upper - near, scale))

    @staticmethod
    def _excess(y: Any, near: Any, mu: Any, scale: Any) -> Any:
        return abs(y - near) / scale

    @staticmethod
    def _half(x: Floats, d: Floats) -> Half:
        # Incomplete gamma functions keep all digits of what the formulas of Propositions 1 and 2 take differences of.
        return -np.expm1(-x), gammainc(2.0, x), 2.0 * gammainc(3.0, x)


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


@dataclass(frozen=True, eq=False)
class RealGaussian(BoundedReal):
    """The normal law; its normaliser is ``exp(-((y - mu)**2 - (near - mu)**2) / (2 scale**2)) / (scale sqrt(2 pi))``, integrated."""

    sigma: float | Floats
    bounds: Any

    free = Gaussian
    scale_name = "sigma"
    _log_unit = _LOG_ROOT

    @staticmethod
    def _log_share(xp: Any, mu: Any, scale: Any, lower: Any, upper: Any) -> Any:
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
    def _excess(y: Any, near: Any, mu: Any, scale: Any) -> Any:
        return 0.5 * ((y - near) / scale) * ((y + near - 2.0 * mu) / scale)

    @staticmethod
    def _half(x: Floats, d: Floats) -> Half:
        # Of exp(-t**2 / 2 - d t), for x up to infinity.
        end = np.minimum(x, 2.0 * _NEGLIGIBLE / (d + np.sqrt(d**2 + 2.0 * _NEGLIGIBLE)))[..., None]
        t = 0.5 * end * (1.0 + _NODES)
        mass = 0.5 * end * _WEIGHTS * np.exp(-t * (d[..., None] + 0.5 * t))
        return np.sum(mass, axis=-1), np.sum(mass * t, axis=-1), np.sum(mass * t**2, axis=-1)


@dataclass(frozen=True, eq=False)
class WholeLaplace(BoundedDiscrete):
    """The discrete Laplace law."""

    b: float | Floats
    bounds: Any

    free = DiscreteLaplace
    _add_up = staticmethod(kernels.laplace_sums)

    @staticmethod
    def _excess(k: Floats, m: Floats, mu: Floats, scale: Floats) -> Floats:
        j, d = k - m, mu - m
        # Beyond a bound, all integers within the bounds are on the same side of mu.
        return np.where(np.abs(d) > 1.0, np.abs(j), np.abs(j - d) - np.abs(d)) / scale

    @staticmethod
    def exact_rate(distance: int, scale: Fraction) -> Fraction:
        """``|distance| / b``."""
        return abs(distance) / scale


@dataclass(frozen=True, eq=False)
class WholeGaussian(BoundedDiscrete):
    """The discrete Gaussian law."""

    sigma: float | Floats
    bounds: Any

    free = DiscreteGaussian
    scale_name = "sigma"
    _add_up = staticmethod(kernels.gaussian_sums)

    @staticmethod
    def _excess(k: Any, m: Any, mu: Any, scale: Any) -> Any:
        j, d = k - m, mu - m
        return 0.5 * (j / scale) * ((j - 2.0 * d) / scale)

    @staticmethod
    def exact_rate(distance: int, scale: Fraction) -> Fraction:
        """``distance**2 / (2 sigma**2)``."""
        return distance**2 / (2 * scale**2)


@dataclass(frozen=True, eq=False)
class TruncatedLaplace(TruncatedReal, RealLaplace):
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

    name = "truncated-laplace"
    draw_one = staticmethod(kernels.truncated_laplace)

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


_BELOW_ONE = float(np.nextafter(1.0, 0.0))


@dataclass(frozen=True, eq=False)
class BoundaryInflatedLaplace(Clipped, RealLaplace):
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

    name = "boundary-inflated-laplace"
    draw_one = staticmethod(kernels.boundary_inflated_laplace)

    @classmethod
    def icdf_kernel(cls, xp: Any, q: Any, mu: Any, scale: Any, lower: Any, upper: Any) -> Any:
        """Quantiles of the free law, which may be outside of the bounds."""
        low = q < 0.5
        down, up = xp.where(low, q, 0.25), xp.where(low, 0.25, 1.0 - q)
        return xp.where(low, mu + scale * xp.log(2.0 * down), mu - scale * xp.log(2.0 * up))


@dataclass(frozen=True, eq=False)
class TruncatedGaussian(TruncatedReal, RealGaussian):
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

    name = "truncated-gaussian"
    relation = (
        "bounds=LOW:HIGH and sigma of the law without bounds, which truncation keeps: sigma = sensitivity / sqrt(2 rho)"
    )
    draw_one = staticmethod(kernels.truncated_gaussian)


@dataclass(frozen=True, eq=False)
class BoundaryInflatedGaussian(Clipped, RealGaussian):
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

    name = "boundary-inflated-gaussian"
    relation = "bounds=LOW:HIGH and sigma of the noise before clipping: sigma = sensitivity / sqrt(2 rho)"
    draw_one = staticmethod(kernels.boundary_inflated_gaussian)

    @classmethod
    def icdf_kernel(cls, xp: Any, q: Any, mu: Any, scale: Any, lower: Any, upper: Any) -> Any:
        """Quantiles of the free law, which may be outside of the bounds."""
        if xp is np:
            return mu + scale * ndtri(q)
        low = q < 0.5
        tail = math.sqrt(2.0) * xp.erfcinv(2.0 * xp.where(low, q, 1.0 - q))
        return mu + scale * xp.where(low, -tail, tail)


@dataclass(frozen=True, eq=False)
class TruncatedDiscreteLaplace(TruncatedDiscrete, WholeLaplace):
    """Independent integers with mass proportional to ``exp(-|k - mu| / b)`` within whole bounds.

    The normaliser depends on the location and belongs in every likelihood.

    Notes
    -----
    Mean and variance are sums of at most 53 positive terms, by doubling (no differences of large numbers).

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

    name = "truncated-discrete-laplace"
    relation = (
        "bounds=LOW:HIGH and b of the law without bounds, which truncation keeps; what epsilon it has depends on the bounds "
        "(mechanisms.TruncatedDiscreteLaplace)"
    )
    draw_one = staticmethod(kernels.truncated_discrete_laplace)

    @classmethod
    def log_kernel(cls, xp: Any, value: Any, mu: Any, scale: Any, lower: Any, upper: Any) -> Any:
        """Log-mass of integers within the bounds."""
        near = xp.clip(mu, lower, upper)  # the law around a location outside is that around the bound
        m = xp.round(near)
        d = near - m
        one = -xp.expm1(-1.0 / scale)
        # How much farther than m its two neighbours are; all others are 1 farther each.
        down = xp.exp(-xp.where(d >= 0.0, 1.0, 1.0 + 2.0 * d) / scale) * within(xp, m - lower, scale) / one
        up = xp.exp(-xp.where(d >= 0.0, 1.0 - 2.0 * d, 1.0) / scale) * within(xp, upper - m, scale) / one
        return -(xp.abs(value - near) - xp.abs(d)) / scale - xp.log1p(down + up)


@dataclass(frozen=True, eq=False)
class BoundaryInflatedDiscreteLaplace(Clipped, WholeLaplace):
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

    name = "boundary-inflated-discrete-laplace"
    relation = "bounds=LOW:HIGH and b of the noise before clipping: b = sensitivity / epsilon"
    draw_one = staticmethod(kernels.boundary_inflated_discrete_laplace)


@dataclass(frozen=True, eq=False)
class TruncatedDiscreteGaussian(TruncatedDiscrete, WholeGaussian):
    """Independent integers with mass proportional to ``exp(-(k - mu)**2 / (2 sigma**2))`` within whole bounds.

    The normaliser depends on the location and belongs in every likelihood.

    Notes
    -----
    Sums have up to 20,000 terms that matter; longer ones are integrals with an Euler-Maclaurin correction, to 1e-12.

    Examples
    --------
    >>> law = TruncatedDiscreteGaussian(sigma=2.0, bounds=(0, 4))
    >>> print(f"{law.mean(1):.4f}")
    1.5917
    """

    name = "truncated-discrete-gaussian"
    relation = "bounds=LOW:HIGH and sigma of the law without bounds, which truncation keeps"
    draw_one = staticmethod(kernels.truncated_discrete_gaussian)

    @classmethod
    def log_kernel(cls, xp: Any, value: Any, mu: Any, scale: Any, lower: Any, upper: Any, log_sums: Any = None) -> Any:
        """Log-mass of integers within the bounds.

        PyTensor has no loop for the normaliser: it needs ``log_sums(mu, scale, lower, upper)``, the logarithm of the first of
        `gaussian_sums`, and m.
        """
        value, mu, scale, lower, upper = xp.broadcast_arrays(value, real(xp, mu), scale, lower, upper)
        total, m = (log_sums or cls._log_sums)(mu, scale, lower, upper)
        return -cls._excess(value, m, mu, scale) - total

    @classmethod
    def _log_sums(cls, *arrays: Floats) -> tuple[Floats, Floats]:
        m, s0, *_ = cls._sums(*arrays)
        return np.log(s0), m


@dataclass(frozen=True, eq=False)
class BoundaryInflatedDiscreteGaussian(Clipped, WholeGaussian):
    """Discrete Gaussian integers around mu, clipped to whole bounds: an additional mass at each finite bound.

    Examples
    --------
    >>> law = BoundaryInflatedDiscreteGaussian(sigma=2.0, bounds=(0, 4))
    >>> print(f"{law.mean(1):.4f}")
    1.3275
    """

    name = "boundary-inflated-discrete-gaussian"
    relation = "bounds=LOW:HIGH and sigma of the noise before clipping: sigma = sensitivity / sqrt(2 rho)"
    draw_one = staticmethod(kernels.boundary_inflated_discrete_gaussian)


def draw_bounded(law: BoundedDiscrete, answers: Ints) -> Ints:
    """Draw a value of a bounded integer law around each answer, from the operating system's entropy.

    Clipping takes the noise of `draw_independent`. Truncation draws again until the value is inside: from the law without
    bounds, or where the interval is narrow uniformly, accepted with exactly the right probability.
    """
    scale: Any = law.scale  # one number
    free = law.free(scale)
    if law.has_atoms:
        clipped = np.clip(answers + draw_independent(free, answers.size).reshape(answers.shape), *law.bounds)
        return np.asarray(clipped, dtype=np.int64)
    centre, low, high = (np.broadcast_to(array, answers.shape).reshape(-1) for array in (answers, *law.bounds))
    out = np.empty(centre.shape, dtype=np.int64)
    narrow = high - low <= 2.0 * scale
    for i in np.flatnonzero(narrow):
        out[i] = _by_acceptance(int(centre[i]), int(low[i]), int(high[i]), scale, law.exact_rate)
    open_cells = np.flatnonzero(~narrow)
    while open_cells.size:
        noisy = centre[open_cells] + draw_independent(free, open_cells.size)
        inside = (noisy >= low[open_cells]) & (noisy <= high[open_cells])
        out[open_cells[inside]] = noisy[inside]
        open_cells = open_cells[~inside]
    return out.reshape(answers.shape)


def _by_acceptance(mu: int, low: int, high: int, scale: float, rate: Callable[[int, Fraction], Fraction]) -> int:
    """Uniform proposals, accepted with the ratio of the masses of the proposal and of mu."""
    exact = Fraction(scale)
    while True:
        k = low + uniform_integer(system_bits, high - low + 1)
        if bernoulli_exp(system_bits, rate(k - mu, exact)):
            return k
