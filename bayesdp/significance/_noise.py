"""The noise that a test knows, and the laws of weighted sums of independent noise of one kind.

All of it is whole-number noise plus a U(-1/2, 1/2), normal, a sum of Laplace variables of one scale, or something else with a
distribution function. Sums of the first kind are convolutions of masses, all terms positive, so that tails keep their digits;
normal and Laplace variables have closed forms.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
from scipy.special import gammaincc

from bayesdp.noise import DiscreteGaussian
from bayesdp.noise.base import Floats
from bayesdp.privacy.canonical import GaussianNoise, Tulap

_MAX_SCALE = 1e5  # of a discrete Gaussian: its table of tails then has four million entries
_FAR = 1e300
_REACH = 39.0  # exp(-39**2 / 2) is below the smallest double
_TAILS = (1e-100, 1e-30)
"""Masses of whole-number noise below the first share of the largest are left out; below the second, where the sum is long."""
_MOST_PRODUCTS = 2e9
"""Of a convolution: about two seconds."""


class Noise(Protocol):
    """Noise with a continuous distribution function, symmetric about 0."""

    def cdf(self, x: npt.ArrayLike) -> Any:
        """Distribution function, accurate relative to itself in the lower tail."""


@dataclass(frozen=True)
class LaplaceNoise:
    """Sum of `terms` independent Laplace variables of scale b. Not canonical, not for one either: that is Tulap noise.

    With m = terms - 1 the density is ``exp(-s) sum_k (m + k)! / (k! (m - k)! 2**k) s**(m - k) / (m! 2**(m + 1) b)``,
    ``s = |x| / b``: a Bessel function of half-integer order. The tail adds up incomplete gamma functions, all positive.
    """

    b: float
    terms: int = 1

    def cdf(self, x: npt.ArrayLike) -> Any:
        at = np.asarray(x, dtype=np.float64) / self.b
        s, m = np.abs(at), self.terms - 1
        low = np.zeros_like(s)
        for k in range(m + 1):
            # The integral of s**(m - k) exp(-s) from s on is (m - k)! times gammaincc, which cancels the (m - k)! above.
            log_weight = math.lgamma(m + k + 1) - math.lgamma(k + 1) - math.lgamma(m + 1) - (m + 1 + k) * math.log(2.0)
            low = low + math.exp(log_weight) * gammaincc(m - k + 1, s)
        return np.where(at <= 0.0, low, 1.0 - low)


@dataclass(frozen=True)
class WiderNoise:
    """Noise times a number."""

    noise: Noise
    factor: float

    def cdf(self, x: npt.ArrayLike) -> Any:
        return self.noise.cdf(np.asarray(x, dtype=np.float64) / self.factor)


@dataclass(frozen=True, eq=False)
class WholeNoise:
    """Symmetric whole-number noise J plus an independent U(-1/2, 1/2).

    For log-concave masses it is canonical for the trade-off f of J and J shifted by 1: the sum has ``F(-1/2) = P(J < 0) = c``,
    ``f(c) = c`` in the convention of Dong, Roth and Su, is linear between -1/2 and 1/2, and ``F(x - 1) = f(1 - F(x))``, because
    the likelihood ratio is monotone: randomised tests that reject for large J are the best ones, and the uniform is their
    randomisation. That is Lemma 36 of paper 003. Tulap noise is the case of geometric masses.
    """

    mass: Floats  # P(j) for j = 0, 1, ...; what is beyond is negligible
    text: str = "WholeNoise()"

    def __repr__(self) -> str:
        return self.text

    def __eq__(self, other: object) -> bool:
        return isinstance(other, WholeNoise) and np.array_equal(self.mass, other.mass)

    def __hash__(self) -> int:
        return hash(self.mass.tobytes())

    @cached_property
    def _tail(self) -> Floats:
        """``P(J > j)``, added up from the far end: small terms first."""
        return np.append(np.cumsum(self.mass[::-1])[::-1][1:], 0.0)

    def cdf(self, x: npt.ArrayLike) -> Any:
        at = np.clip(np.asarray(x, dtype=np.float64), -_FAR, _FAR)  # infinities have no cell
        z = -np.abs(at)
        steps = np.ceil(-z - 0.5)  # z lies in the unit cell around -steps
        j = np.minimum(steps, self.mass.size - 1.0).astype(np.int64)
        low = np.where(steps > j, 0.0, self._tail[j] + self.mass[j] * np.clip(z + steps + 0.5, 0.0, 1.0))
        return np.where(at <= 0.0, low, 1.0 - low)


def discrete_gaussian(scale: float) -> WholeNoise:
    """The discrete Gaussian plus a uniform."""
    if scale > _MAX_SCALE:
        raise NotImplementedError(
            f"a discrete Gaussian corner of scale {scale:g} is above {_MAX_SCALE:g}, for which tails are not tabulated"
        )
    law = DiscreteGaussian(scale)
    with np.errstate(over="ignore"):
        return WholeNoise(np.exp(law.log_mass(np.arange(math.ceil(_REACH * scale) + 2))), f"{law!r} plus a uniform")


def is_whole(noise: Noise) -> bool:
    """Whether noise is whole-number noise plus an independent U(-1/2, 1/2): discrete noise, and Tulap noise with delta = 0."""
    # Tulap noise with delta > 0 ends within a unit cell, where it is no such sum.
    return isinstance(noise, WholeNoise) or (isinstance(noise, Tulap) and noise.delta == 0.0)


def noise_of_sum(noises: Sequence[Noise], weights: Sequence[float]) -> Noise:
    """The law of `sum w_k N_k` of independent noise; whole-number noise, to whole weights, with one uniform in place of all."""
    if all(map(is_whole, noises)):
        mass = _convolved([(noise, round(weight)) for noise, weight in zip(noises, weights, strict=True)])
        return WholeNoise(mass[mass.size // 2 :])
    parts = list(zip(noises, weights, strict=True))
    if len(parts) == 1:
        return noises[0] if weights[0] == 1.0 else WiderNoise(noises[0], weights[0])
    normal = [weight / noise.mu for noise, weight in parts if isinstance(noise, GaussianNoise)]
    if len(normal) == len(parts):
        return GaussianNoise(1.0 / math.hypot(*normal))
    laplace = [(noise.b * weight, noise.terms) for noise, weight in parts if isinstance(noise, LaplaceNoise)]
    if len(laplace) == len(parts) and all(math.isclose(b, laplace[0][0], rel_tol=1e-12) for b, _ in laplace):
        return LaplaceNoise(laplace[0][0], sum(terms for _, terms in laplace))
    names = ", ".join(f"{noise!r} times {weight:.6g}" for noise, weight in parts)
    raise NotImplementedError(
        f"no exact law is known here of the sum of {names}: noise adds up if it is all of whole numbers, all normal, or Laplace noise "
        "of one scale. Fit a model of all releases instead and look at the posterior"
    )


def _convolved(parts: Sequence[tuple[Noise, int]]) -> Floats:
    """Masses of ``sum a_k J_k`` at -k, ..., k."""
    for negligible in _TAILS:
        spread = [_spread(_whole_masses(noise, negligible), weight) for noise, weight in parts]
        lengths = np.cumsum([masses.size for masses in spread])
        if float(np.dot(lengths[:-1], [masses.size for masses in spread[1:]])) <= _MOST_PRODUCTS:
            return reduce(np.convolve, spread)
    raise NotImplementedError(
        f"the sum of noise so wide ({', '.join(repr(noise) for noise, _ in parts)}) is over more than {_MOST_PRODUCTS:.0e} pairs of "
        "whole numbers, which takes too long. Fit a model of all releases instead and look at the posterior"
    )


def _whole_masses(noise: Any, negligible: float) -> Floats:
    """``P(j)`` for j = 0, 1, ... without the uniform."""
    if isinstance(noise, WholeNoise):
        mass = noise.mass
    else:
        steps = np.arange(math.ceil(-math.log(negligible) / noise.epsilon) + 1)
        mass = math.tanh(0.5 * noise.epsilon) * np.exp(-noise.epsilon * steps)
    return np.asarray(mass[mass > negligible * mass[0]], dtype=np.float64)


def _spread(half: Floats, weight: int) -> Floats:
    """Masses of ``weight J`` at every whole number, from those of J = 0, 1, ..."""
    whole = np.concatenate([half[:0:-1], half])
    found = np.zeros(weight * (whole.size - 1) + 1)
    found[::weight] = whole
    return found


def whole_variance(noise: Noise) -> float:
    """Variance of whole-number noise without its uniform."""
    mass = _whole_masses(noise, _TAILS[0])
    return max(2.0 * float(mass @ np.arange(mass.size) ** 2.0), 1e-300)
