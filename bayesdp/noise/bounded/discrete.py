"""The discrete Laplace and Gaussian laws within public bounds: two families, given that they stay inside or moved to the bound."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from bayesdp.lattices.secure import bernoulli_exp, system_bits, uniform_integer
from bayesdp.noise.base import Floats, Ints
from bayesdp.noise.bounded import kernels
from bayesdp.noise.bounded.base import BoundaryInflated, BoundedLaw, Moments
from bayesdp.noise.bounded.real import within
from bayesdp.noise.independent.laws import DiscreteGaussian, DiscreteLaplace
from bayesdp.noise.namespace import finite, log1mexp, real
from bayesdp.noise.secure import draw_independent


class BoundedDiscrete(BoundedLaw):
    """Integers on an interval."""

    integer = True
    _add_up: ClassVar[Any]
    """Sums of the unnormalised masses and moments about m, in units of the mass of m, and m: see `laplace_sums`."""

    @staticmethod
    @abstractmethod
    def _excess(k: Floats, m: Floats, mu: Floats, scale: Floats) -> Floats:
        """How much larger the log-mass of m is than that of k, without the bounds."""

    @staticmethod
    @abstractmethod
    def exact_rate(distance: int, scale: Fraction) -> Fraction:
        """How much larger the log-mass of a whole location is than that of the integer at this distance, without the bounds."""

    def log_mass(self, values: npt.ArrayLike, location: npt.ArrayLike = 0.0) -> Floats:
        """Log-mass of each value, elementwise; ``-inf`` outside the bounds and off the integers."""
        return self.log_each(values, location)

    @classmethod
    def _sums(cls, *arrays: Floats) -> tuple[Floats, Floats, Floats, Floats]:
        """See `_add_up`; for arrays of any one shape."""
        out = np.empty((arrays[0].size, 4))
        cls._add_up(*(np.ascontiguousarray(array, dtype=np.float64).reshape(-1) for array in arrays), out)
        s0, s1, s2, m = (column.reshape(arrays[0].shape) for column in out.T)
        return s0, s1, s2, m

    def _quantile(self, q: Floats, mu: Floats, scale: Floats, lower: Floats, upper: Floats) -> Floats:
        reach = 800.0 * scale + 2.0
        low = np.where(np.isfinite(lower), lower, np.floor(np.minimum(mu, upper) - reach))
        high = np.where(np.isfinite(upper), upper, np.ceil(np.maximum(mu, lower) + reach))
        target = np.log(q) - 1e-14  # a quantile that is asked for by its own probability is that value
        while np.any(low < high):
            middle = np.floor(0.5 * (low + high))
            enough = (middle >= upper) | (self._log_cdf(middle, mu, scale, lower, upper) >= target)
            low, high = np.where(enough, low, np.minimum(middle + 1.0, high)), np.where(enough, middle, high)
        return low


@dataclass(frozen=True, eq=False)
class OfLaplace(BoundedDiscrete):
    """Laws made from the discrete Laplace by bounds."""

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
class OfGaussian(BoundedDiscrete):
    """Laws made from the discrete Gaussian by bounds."""

    sigma: float | Floats
    bounds: Any

    free = DiscreteGaussian
    scale_name = "sigma"
    _add_up = staticmethod(kernels.gaussian_sums)

    @staticmethod
    def _excess(k: Floats, m: Floats, mu: Floats, scale: Floats) -> Floats:
        j, d = k - m, mu - m
        return np.asarray(0.5 * (j / scale) * ((j - 2.0 * d) / scale))

    @staticmethod
    def exact_rate(distance: int, scale: Fraction) -> Fraction:
        """``distance**2 / (2 sigma**2)``."""
        return distance**2 / (2 * scale**2)


class TruncatedDiscrete(BoundedDiscrete):
    """The free law given that it is within the bounds."""

    has_atoms = False

    def atoms(self, location: npt.ArrayLike = 0.0) -> tuple[Floats, Floats]:
        """Probabilities of the lower and of the upper bound; 0 for one that is infinite."""
        mu = self._prepared(location, 0.0)[0]
        low, high = np.broadcast_to(self.lower, mu.shape), np.broadcast_to(self.upper, mu.shape)
        found = [
            np.where(np.isinf(side), 0.0, np.exp(self.log_each(finite(np, side, 0.0), mu))) for side in (low, high)
        ]
        return found[0], found[1]

    def _log_cdf(self, y: Floats, mu: Floats, scale: Floats, lower: Floats, upper: Floats) -> Floats:
        s0, _, _, m = self._sums(mu, scale, lower, upper)
        # The side of y that m is not on: it never holds nearly all of the mass, so that 1 minus it has all digits.
        low = y < m
        part, _, _, end = self._sums(mu, scale, np.where(low, lower, y + 1.0), np.where(low, y, upper))
        tail = np.minimum(np.log(part) - self._excess(end, m, mu, scale) - np.log(s0), 0.0)
        return np.where(low, tail, log1mexp(np, np.where(low, -1.0, tail)))

    def _moments(self, mu: Floats, scale: Floats, lower: Floats, upper: Floats) -> Moments:
        s0, s1, s2, m = self._sums(mu, scale, lower, upper)
        return m, s1 / s0, s2 / s0


class BoundaryInflatedDiscrete(BoundaryInflated, BoundedDiscrete):
    """The free law, moved to the nearer bound where it is outside."""

    def _moments(self, mu: Floats, scale: Floats, lower: Floats, upper: Floats) -> Moments:
        _, s1, s2, m = self._sums(mu, scale, lower, upper)
        mass = np.exp(self.free.log_kernel(np, m, mu, scale))
        below, above = self._beyond(mu, scale, lower - 1.0, upper + 1.0)
        down, up = (np.where(np.isfinite(side), side - m, 0.0) for side in (lower, upper))
        return m, mass * s1 + below * down + above * up, mass * s2 + below * down**2 + above * up**2


@dataclass(frozen=True, eq=False)
class TruncatedDiscreteLaplace(TruncatedDiscrete, OfLaplace):
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
class BoundaryInflatedDiscreteLaplace(BoundaryInflatedDiscrete, OfLaplace):
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
class TruncatedDiscreteGaussian(TruncatedDiscrete, OfGaussian):
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
        j = value - m
        return -0.5 * (j / scale) * ((j - 2.0 * (mu - m)) / scale) - total

    @classmethod
    def _log_sums(cls, *arrays: Floats) -> tuple[Floats, Floats]:
        s0, _, _, m = cls._sums(*arrays)
        return np.log(s0), m


@dataclass(frozen=True, eq=False)
class BoundaryInflatedDiscreteGaussian(BoundaryInflatedDiscrete, OfGaussian):
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
    scale = law.scale
    if not isinstance(scale, float):
        raise TypeError(f"law must have one scale for all answers, got {law}")
    centre = np.ascontiguousarray(answers, dtype=np.int64).reshape(-1)
    low, high = (np.broadcast_to(side, np.shape(answers)).reshape(-1) for side in law.bounds)
    free = law.free(scale)
    if law.has_atoms:
        noisy = centre + draw_independent(free, centre.size)
        clipped: Ints = np.clip(noisy, low, high).astype(np.int64).reshape(np.shape(answers))
        return clipped
    out = np.empty_like(centre)
    narrow = high - low <= 2.0 * scale
    for i in np.flatnonzero(narrow):
        out[i] = _by_acceptance(int(centre[i]), int(low[i]), int(high[i]), scale, law.exact_rate)
    open_cells = np.flatnonzero(~narrow)
    while open_cells.size:
        noisy = centre[open_cells] + draw_independent(free, open_cells.size)
        inside = (noisy >= low[open_cells]) & (noisy <= high[open_cells])
        out[open_cells[inside]] = noisy[inside]
        open_cells = open_cells[~inside]
    return out.reshape(np.shape(answers))


def _by_acceptance(mu: int, low: int, high: int, scale: float, rate: Callable[[int, Fraction], Fraction]) -> int:
    """Uniform proposals, accepted with the ratio of the masses of the proposal and of mu."""
    exact = Fraction(scale)
    while True:
        k = low + uniform_integer(system_bits, high - low + 1)
        if bernoulli_exp(system_bits, rate(k - mu, exact)):
            return k
