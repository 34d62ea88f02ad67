"""A law of real noise whose values were rounded before they were published: its density, integrated over the rounding cell."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from bayesdp._arrays import Floats, Ints
from bayesdp._validate import positive_number
from bayesdp.fibers.windows import LogMassWindows
from bayesdp.invariants import Invariants
from bayesdp.noise.arrays import located, log1mexp, special, values_and_location
from bayesdp.noise.base import NoiseLaw
from bayesdp.noise.independent.laws import Gaussian, Laplace
from bayesdp.noise.perturbed.censored import MadeOfAnother, censored_windows

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(12)
_CLOSE = 1e-9  # how far a published number may be from a multiple of the base, relatively: 0.3 is not 3 times 0.1
_FINE = 1000.0  # scales of so many bases have the variance ``variance + base**2 / 12`` to all digits
_TAIL = 40.0  # scales beyond which nothing is summed for a variance


def _laplace_cell(xp: Any, distance: Any, half: Any, scale: Any) -> Any:
    """``exp(-a / b) sinh(h / b)``, or ``1 - exp(-h / b) cosh(a / b)`` where mu is in the cell, from terms of one sign."""
    inside = xp.minimum(distance, half)
    within = xp.log(-0.5 * (xp.expm1(-(half + inside) / scale) + xp.expm1((inside - half) / scale)))
    beyond = (half - xp.maximum(distance, half)) / scale + log1mexp(xp, -2.0 * half / scale) - math.log(2.0)
    return xp.where(distance < half, within, beyond)


def _gaussian_cell(xp: Any, distance: Any, half: Any, scale: Any) -> Any:
    """By Gauss's rule where the density changes little over the cell, else by tails, or by both sides where mu is in the cell."""
    x, w, inside = distance / scale, half / scale, distance < half
    flat = (w < 1.0) & (x * w < 1.0)
    a, c = xp.where(flat, x, 0.5), xp.where(flat, w, 0.5)
    terms = (weight * xp.exp(-c * node * (a + 0.5 * c * node)) for node, weight in zip(_NODES, _WEIGHTS, strict=True))
    smooth = xp.log(c * sum(terms)) - 0.5 * a**2 - 0.5 * math.log(2.0 * math.pi)
    erf = special(xp).erf
    near, far = (xp.where(inside, w + side, 1.0) / math.sqrt(2.0) for side in (-x, x))
    within = xp.log(0.5 * (erf(near) + erf(far)))
    # A difference of two tails, which is not small beside them where the density changes over the cell.
    a, c = xp.where(inside | flat, 2.0, x), xp.where(inside | flat, 1.0, w)
    tail, less = (Gaussian.log_cdf_kernel(xp, side - a, 0.0, 1.0) for side in (c, -c))
    beyond = tail + log1mexp(xp, less - tail)
    return xp.where(flat, smooth, xp.where(inside, within, beyond))


def log_cell(law: type[NoiseLaw], xp: Any, distance: Any, half: Any, scale: Any) -> Any:
    """Log-probability of noise within `half` of a value at some distance from mu, elementwise; see `bayesdp.noise.arrays`."""
    return (_laplace_cell if issubclass(law, Laplace) else _gaussian_cell)(xp, distance, half, scale)


def steps_of(xp: Any, values: Any, base: float) -> tuple[Any, Any]:
    """How many times the base published values are, and whether they are multiples of it."""
    steps = xp.round(values / base)
    # Nothing is a multiple by its size alone: only the last digits of a large number are not known.
    return steps, xp.abs(values - steps * base) <= _CLOSE * base + 4.0 * np.finfo(np.float64).eps * xp.abs(values)


@dataclass(frozen=True, eq=False, init=False)
class Rounded(MadeOfAnother):
    r"""Real noise that was rounded before it was published, with what it was added to, to the nearest multiple of a base.

    With F the distribution function of the noise and h half of the base:

    .. math:: p(y \mid \mu) = F(y + h - \mu) - F(y - h - \mu), \qquad y \in base \cdot \mathbb{Z}

    Ties have probability 0. With the base 1 this is noise of textbooks in a table of whole numbers; with 0.1 one decimal was kept. The
    support is the multiples of the base, the mean near mu, the variance about that of the noise plus ``base**2 / 12``. Rounding is
    post-processing: what the noise hides without it, it hides with it.

    Parameters
    ----------
    law : NoiseLaw, or its description
        `Laplace` or `Gaussian`. Noise that is drawn on the integers is not rounded by this law: rounded to 1 it is itself, and to
        another base it matters which way ties go.
    base : float
        Greater than 0; one number for all answers.
    noise : NoiseLaw, or its description, optional
        The same as `law`, by the name that files have.

    See Also
    --------
    bayesdp.noise.RandomRounding : true counts, without noise, that are rounded at random.
    bayesdp.noise.ConventionalRounding : true counts, without noise, that are rounded to the nearest multiple.
    bayesdp.distributions.Rounded : the same law as a PyMC distribution.

    Examples
    --------
    >>> from bayesdp.noise import Laplace
    >>> law = Rounded(Laplace(b=2.0), base=1)
    >>> np.round(np.exp(law.log_each([3, 4, 5], 4)), 4)
    array([0.1532, 0.2212, 0.1532])
    >>> print(law)
    rounded law=(laplace b=2) base=1
    """

    base: float

    name = "rounded"
    support = "reals"
    full_support = True
    relation = (
        "law=(NAME PARAMETER=VALUE ...), the law of real noise before rounding, and base=BASE, what was rounded to"
    )

    def __init__(self, law: Any = None, base: Any = None, *, noise: Any = None) -> None:
        inner = self._given(law, noise)
        if inner.support == "integers":
            raise TypeError(
                f"law must be of real noise, as Laplace and Gaussian are, got {inner}: rounding to 1 does nothing to its whole "
                "numbers, and rounded to another base they have ties, which go by a rule that this law does not have"
            )
        if not isinstance(inner, Laplace | Gaussian):
            raise TypeError(f"law must be Laplace or Gaussian noise, got {inner}")
        if base is None or np.ndim(base):
            raise TypeError(f"base must be one number greater than 0, such as 1, 5 or 0.1, got {base!r}")
        self._set(noise=inner, base=positive_number(base, "base"))

    @property
    def integer(self) -> bool:  # type: ignore[override]  # a class variable of other laws; here it is as the base is
        """Whether values are integers: whether the base is one."""
        return self.base.is_integer()

    @property
    def additive(self) -> bool:  # type: ignore[override]  # as above
        """Whether the noise of all whole numbers has one law: whether these are multiples of the base."""
        return (1.0 / self.base).is_integer()

    def log_each(self, values: npt.ArrayLike, location: npt.ArrayLike = 0.0) -> Floats:
        """Log-probability of each published value, elementwise; ``-inf`` where that is no multiple of the base."""
        y, mu = values_and_location(values, location)
        steps, known = steps_of(np, y, self.base)
        off, scale = np.abs(steps * self.base - mu), self.noise._scales(y.shape)
        return np.where(known, log_cell(type(self.noise), np, off, 0.5 * self.base, scale), -np.inf)

    def _rounded(self, values: npt.ArrayLike) -> Floats | Ints:
        """The multiples of the base nearest to values."""
        steps = np.rint(np.asarray(values, dtype=np.float64) / self.base)
        if self.integer:
            return np.asarray(steps * self.base, dtype=np.int64)
        return np.asarray(steps / (1.0 / self.base) if self.additive else steps * self.base)  # 0.3, as files have it

    def refusals(self, values: Floats | Ints) -> dict[int, str]:
        """Numbers that are no multiples of the base. See `NoiseLaw.refusals`."""
        odd = np.flatnonzero(~steps_of(np, np.asarray(values, dtype=np.float64).reshape(-1), self.base)[1])
        return {int(i): f"which is no multiple of {self.base:.17g}, the base of the law {self}" for i in odd}

    def _drawn(self, rng: np.random.Generator, location: Floats, count: int, invariants: Any = None) -> Floats | Ints:
        return self._rounded(self.noise.draw(rng, location.shape, count, location=location))

    def variance(
        self, shape: tuple[int, ...], invariants: Invariants | None = None, location: npt.ArrayLike | None = None
    ) -> Floats | None:
        """Variance of each answer around its location, or any whole number; None without one where it depends on it."""
        if location is None and not self.additive:
            return None
        mu = located(location, shape)
        of_one: Any = np.vectorize(cache(self._variance), otypes=[float])
        return np.asarray(of_one(mu - self._rounded(mu), self.noise._scales(shape)))

    def _variance(self, off: float, scale: float) -> float:
        """That of one scale, around `off` from a multiple of the base."""
        if scale > _FINE * self.base:
            return float(self.noise.at_scales(scale).variance(())) + self.base**2 / 12.0
        reach = math.ceil(_TAIL * scale / self.base) + 1
        at = self.base * np.arange(-reach, reach + 1)
        mass = np.exp(self._at(scale).log_each(at, off))
        return float(mass @ (at - mass @ at) ** 2)

    def picture(self, values: Floats, sd: float) -> Floats | None:
        """See `NoiseLaw.picture`: of decimals the mass of each, spread over its cell."""
        return np.exp(self.log_each(self._rounded(values))) / self.base if self.additive else None

    def windows(self, values: npt.NDArray[Any]) -> LogMassWindows | None:
        """See `NoiseLaw.windows`: tails are exact lines of Laplace laws; of Gaussian laws tangents, from 40 sigma on."""
        y = np.asarray(values, dtype=np.float64)
        ends, reach = np.full(y.shape, np.inf), math.ceil(0.5 * self.base)
        return censored_windows(self.noise, y, -ends, ends, family=self._at, reach=reach)

    def cdf(self, values: npt.ArrayLike, location: npt.ArrayLike = 0.0) -> Floats:
        """Probability that at most each value (any real number) is published, elementwise."""
        ends = (np.floor(np.asarray(values) / self.base + _CLOSE) + 0.5) * self.base
        return np.asarray(self.noise.cdf(ends, location))

    def _at(self, scale: npt.ArrayLike) -> Rounded:
        return Rounded(self.noise.at_scales(scale), self.base)

    def of_answer(self, answer: int | Ints, shape: tuple[int, ...]) -> NoiseLaw:
        """The law of one answer. See `NoiseLaw.of_answer`."""
        return Rounded(self.noise.of_answer(answer, shape), self.base)

    def __str__(self) -> str:
        return f"{self.name} law=({self.noise}) base={self.base:.10g}"
