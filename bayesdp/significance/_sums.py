"""Laws of weighted sums of independent noisy counts: of the counts, and of their noise.

Every noise that the tests know is whole-number noise plus a uniform, normal, a sum of Laplace variables of one scale, or something
else with a distribution function. Sums of the first kind are convolutions of masses, all terms positive, so that tails keep their
digits; normal and Laplace variables have closed forms; and whole-number noise plus *one* continuous law is a finite mixture.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import gammaincc

from bayesdp import _validate
from bayesdp.noise.base import Floats
from bayesdp.privacy.canonical import GaussianNoise, Tulap
from bayesdp.significance._families import NEGLIGIBLE, Family, Masses
from bayesdp.significance._noise import (
    DiscreteGaussianNoise,
    LaplaceNoise,
    LaplaceSumNoise,
    Noise,
    WiderNoise,
    tabulated_cdf,
)

_TAILS = (1e-100, 1e-30)
"""Masses of whole-number noise below the first share of the largest are left out; below the second, where the sum is long."""
_MOST_PRODUCTS = 2e9
"""Of a convolution: about two seconds."""
_CHUNK = 4_000_000


@dataclass(frozen=True)
class FamilySum:
    """Sum of independent counts with a common odds ratio: again an exponential family, its masses a convolution."""

    parts: tuple[Family, ...]

    @property
    def low(self) -> int:
        """Smallest sum."""
        return sum(part.low for part in self.parts)

    @property
    def high(self) -> int:
        """Largest sum."""
        return sum(part.high for part in self.parts)

    def masses(self, log_odds: float, negligible: float = NEGLIGIBLE) -> Masses:
        """The law of the sum at some log odds, infinities included."""
        laws = [part.masses(log_odds, negligible) for part in self.parts]
        weights = reduce(np.convolve, (law.weights for law in laws))
        return Masses(sum(law.first for law in laws), weights / math.fsum(weights))


class _ByMasses:
    """Equality and text of laws that hold a table of masses."""

    mass: Floats

    def _key(self) -> tuple[Any, ...]:
        return (type(self), self.mass.tobytes(), getattr(self, "noise", None))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _ByMasses) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key()[:2])


@dataclass(frozen=True, eq=False)
class WholeNoise(_ByMasses):
    """Symmetric whole-number noise plus an independent U(-1/2, 1/2)."""

    mass: Floats = field(repr=False)  # P(j) for j = 0, 1, ...; what is beyond is negligible
    _tail: Floats = field(init=False, repr=False)

    def __post_init__(self) -> None:
        beyond = np.cumsum(self.mass[::-1])[::-1]  # from the far end: small terms first
        object.__setattr__(self, "_tail", np.append(beyond[1:], 0.0))

    def cdf(self, x: npt.ArrayLike) -> Any:
        """Distribution function."""
        return tabulated_cdf(self.mass, self._tail, x)


@dataclass(frozen=True)
class LaplacesNoise:
    """Sum of `terms` independent Laplace variables of scale b.

    With m = terms - 1 the density is ``exp(-s) sum_k (m + k)! / (k! (m - k)! 2**k) s**(m - k) / (m! 2**(m + 1) b)``,
    ``s = |x| / b``: a Bessel function of half-integer order. The tail adds up incomplete gamma functions, all positive.
    """

    b: float
    terms: int

    def cdf(self, x: npt.ArrayLike) -> Any:
        """Distribution function."""
        at = np.asarray(x, dtype=np.float64) / self.b
        s, m = np.abs(at), self.terms - 1
        low = np.zeros_like(s)
        for k in range(m + 1):
            # The integral of s**(m - k) exp(-s) from s on is (m - k)! times gammaincc, which cancels the (m - k)! above.
            log_weight = math.lgamma(m + k + 1) - math.lgamma(k + 1) - math.lgamma(m + 1) - (m + 1 + k) * math.log(2.0)
            low = low + math.exp(log_weight) * gammaincc(m - k + 1, s)
        return np.where(at <= 0.0, low, 1.0 - low)


@dataclass(frozen=True, eq=False)
class MixedNoise(_ByMasses):
    """Symmetric whole-number noise plus independent continuous noise."""

    mass: Floats = field(repr=False)  # P(j) for j = -k, ..., k; what is beyond is negligible
    noise: Noise

    def cdf(self, x: npt.ArrayLike) -> Any:
        """Distribution function."""
        at = np.asarray(x, dtype=np.float64)
        flat = at.reshape(-1)
        shifts = np.arange(self.mass.size) - self.mass.size // 2
        rows = max(1, _CHUNK // self.mass.size)
        found = [
            np.asarray(self.noise.cdf(flat[k : k + rows, None] - shifts)) @ self.mass for k in range(0, flat.size, rows)
        ]
        return np.concatenate([*found, np.empty(0)]).reshape(at.shape)


def is_whole(noise: Noise) -> bool:
    """Whether noise is whole-number noise plus an independent U(-1/2, 1/2): discrete noise, and Tulap noise with delta = 0."""
    # Tulap noise with delta > 0 ends within a unit cell, where it is no such sum.
    return isinstance(noise, (DiscreteGaussianNoise, WholeNoise)) or (isinstance(noise, Tulap) and noise.delta == 0.0)


def laplaces(noise: Noise) -> tuple[float, int] | None:
    """Scale and number of the Laplace variables that noise is the sum of; None for other noise."""
    if isinstance(noise, LaplaceNoise):
        return noise.b, 1
    return (noise.b, 4) if isinstance(noise, LaplaceSumNoise) else None


def noise_of_sum(noises: Sequence[Noise], weights: Sequence[float]) -> Noise:
    """The law of `sum w_k N_k` of independent noise; two continuous laws are normal, or Laplace of one weighted scale."""
    # Whole-number noise counts without its uniforms, to whole weights; one U(-1/2, 1/2) is added if all noise is of that kind.
    whole = [(noise, round(weight)) for noise, weight in zip(noises, weights, strict=True) if is_whole(noise)]
    rest = [(noise, weight) for noise, weight in zip(noises, weights, strict=True) if not is_whole(noise)]
    if not whole:
        return _continuous(rest)
    mass = _convolved(whole)
    if rest:
        return MixedNoise(mass, _continuous(rest))
    return WholeNoise(mass[mass.size // 2 :])


def _continuous(parts: Sequence[tuple[Noise, float]]) -> Noise:
    if len(parts) == 1:
        noise, weight = parts[0]
        return noise if weight == 1.0 else WiderNoise(noise, weight)
    normal = [weight / noise.mu for noise, weight in parts if isinstance(noise, GaussianNoise)]
    if len(normal) == len(parts):
        return GaussianNoise(1.0 / math.hypot(*normal))
    found = [(own[0] * weight, own[1]) for noise, weight in parts if (own := laplaces(noise)) is not None]
    if len(found) == len(parts) and all(math.isclose(b, found[0][0], rel_tol=1e-12) for b, _ in found):
        return LaplacesNoise(found[0][0], sum(terms for _, terms in found))
    names = ", ".join(f"{noise!r} times {weight:.6g}" for noise, weight in parts)
    raise NotImplementedError(
        f"no exact law is known here of the sum of {names}: continuous noise adds up if it is all normal, or Laplace noise of "
        "one scale. Fit a model of all releases instead and look at the posterior"
    )


def _convolved(parts: Sequence[tuple[Noise, int]]) -> Floats:
    """Masses of ``sum a_k J_k`` at -k, ..., k."""
    for negligible in _TAILS:
        spread = [_spread(_whole_masses(noise, negligible), weight) for noise, weight in parts]
        lengths = np.cumsum([own.size for own in spread])
        if float(np.dot(lengths[:-1], [own.size for own in spread[1:]])) <= _MOST_PRODUCTS:
            return reduce(np.convolve, spread)
    raise NotImplementedError(
        f"the sum of noise so wide ({', '.join(repr(noise) for noise, _ in parts)}) is over more than {_MOST_PRODUCTS:.0e} pairs of "
        "whole numbers, which takes too long. Fit a model of all releases instead and look at the posterior"
    )


def _whole_masses(noise: Any, negligible: float) -> Floats:
    """``P(j)`` for j = 0, 1, ... without the uniform."""
    if isinstance(noise, WholeNoise):
        mass = noise.mass
    elif isinstance(noise, DiscreteGaussianNoise):
        mass = noise.masses
    else:
        steps = np.arange(math.ceil(-math.log(negligible) / noise.epsilon) + 1)
        mass = math.tanh(0.5 * noise.epsilon) * np.exp(-noise.epsilon * steps)
    return np.asarray(mass[mass > negligible * mass[0]], dtype=np.float64)


def _spread(half: Floats, weight: int) -> Floats:
    """Masses of ``weight J`` at every whole number, from those of J = 0, 1, ..."""
    whole = np.concatenate([half[:0:-1], half])
    found = np.zeros(weight * (whole.size - 1) + 1)
    found[:: _validate.positive_integer(weight, "weight")] = whole
    return found
