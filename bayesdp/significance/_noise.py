"""Which noise the corner of a released 2 x 2 table has, for which trade-off function it is canonical, and what laws it may have.

Noise that changes no margin is ``j (1, -1, -1, 1)``: a law of tables becomes the law of one number j.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import singledispatch
from typing import Any, ClassVar, Protocol

import numpy as np
import numpy.typing as npt

from bayesdp import _validate
from bayesdp import noise as laws
from bayesdp.invariants import Invariants
from bayesdp.noise.base import Floats
from bayesdp.privacy.tradeoffs.base import TradeOff
from bayesdp.privacy.tradeoffs.laws import ApproximateTradeOff, GaussianTradeOff, approximate_dp, gaussian_dp

_MAX_SCALE = 1e5  # of a discrete Gaussian: its table of tails then has four million entries
_FAR = 1e300
_REACH = 39.0  # exp(-39**2 / 2) is below the smallest double


class Noise(Protocol):
    """Noise with a continuous distribution function, symmetric about 0."""

    def cdf(self, x: npt.ArrayLike) -> Any:
        """Distribution function, accurate relative to itself in the lower tail."""


def in_words(tradeoff: TradeOff) -> str:
    """Name a trade-off function.

    Examples
    --------
    >>> from bayesdp.privacy.tradeoffs import approximate_dp
    >>> in_words(approximate_dp(1.0, 0.01))
    '(1, 0.01)-DP'
    """
    if isinstance(tradeoff, ApproximateTradeOff):
        return f"({tradeoff.epsilon:.10g}, {tradeoff.delta:.10g})-DP"
    if isinstance(tradeoff, GaussianTradeOff):
        return f"{tradeoff.mu:.10g}-GDP"
    return repr(tradeoff)


@dataclass(frozen=True)
class LaplaceNoise:
    """Laplace noise of scale b. Not canonical: the canonical noise of (1/b, 0)-DP is Tulap."""

    b: float
    terms: ClassVar[int] = 1

    def __post_init__(self) -> None:
        object.__setattr__(self, "b", _validate.positive_real(self.b, "b"))

    def cdf(self, x: npt.ArrayLike) -> Any:
        """Distribution function."""
        at = np.asarray(x, dtype=np.float64) / self.b
        low = self._tail(np.abs(at))
        return np.where(at <= 0.0, low, 1.0 - low)

    def _tail(self, s: Floats) -> Floats:
        """Probability beyond s scales, on one side."""
        return np.asarray(0.5 * np.exp(-s))


@dataclass(frozen=True)
class WiderNoise:
    """Noise times a number."""

    noise: Noise
    factor: float

    def cdf(self, x: npt.ArrayLike) -> Any:
        """Distribution function."""
        return self.noise.cdf(np.asarray(x, dtype=np.float64) / self.factor)


@dataclass(frozen=True)
class LaplaceSumNoise(LaplaceNoise):
    """Sum of four independent Laplace variables of scale b: the corner of a projected Laplace release, b a quarter of its.

    As the difference of two gamma variables of shape 4 its density is ``exp(-s) (15 + 15 s + 6 s**2 + s**3) / (96 b)``,
    ``s = |x| / b``.
    """

    terms: ClassVar[int] = 4

    def _tail(self, s: Floats) -> Floats:
        s = np.minimum(s, 1e4)  # exp(-1e4) is 0; the powers must not overflow before that
        return np.asarray(np.exp(-s) * (48.0 + s * (33.0 + s * (9.0 + s))) / 96.0)


@dataclass(frozen=True)
class DiscreteGaussianNoise:
    r"""Discrete Gaussian noise plus an independent U(-1/2, 1/2): canonical for the trade-off of its shift by 1.

    For any symmetric integer law with log-concave masses p, let f be the trade-off of p and p shifted by 1. The sum with
    the uniform has ``F(-1/2) = P(J < 0) = c``, ``f(c) = c`` in the convention of Dong, Roth and Su, is linear between -1/2
    and 1/2, and ``F(x - 1) = f(1 - F(x))``, because the likelihood ratio is monotone: randomised tests that reject for
    large J are the best ones, and the uniform is their randomisation. That is Lemma 36 of paper 003. Tulap noise is the
    case of geometric masses.

    Parameters
    ----------
    scale : float
        ``P(j) \propto exp(-j**2 / (2 scale**2))``.
    """

    scale: float
    _mass: Floats = field(init=False, repr=False, compare=False)
    _tail: Floats = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        scale = _validate.positive_real(self.scale, "scale")
        if scale > _MAX_SCALE:
            raise NotImplementedError(
                f"a discrete Gaussian corner of scale {scale:g} is above {_MAX_SCALE:g}, for which tails are not tabulated"
            )
        with np.errstate(over="ignore", under="ignore"):
            mass = np.exp(-0.5 * (np.arange(math.ceil(_REACH * scale) + 2) / scale) ** 2)
        beyond = np.cumsum(mass[::-1])[::-1]  # from the far end: small terms first
        total = beyond[0] + beyond[1]
        object.__setattr__(self, "_mass", mass / total)
        object.__setattr__(self, "_tail", np.append(beyond[1:], 0.0) / total)  # P(J > j)

    @property
    def masses(self) -> Floats:
        """``P(j)`` for j = 0, 1, ..., without the uniform."""
        return self._mass

    def cdf(self, x: npt.ArrayLike) -> Any:
        """Distribution function."""
        return tabulated_cdf(self._mass, self._tail, x)


def tabulated_cdf(mass: Floats, tail: Floats, x: npt.ArrayLike) -> Any:
    """Distribution function of symmetric whole-number noise plus a U(-1/2, 1/2), from ``P(J = j)`` and ``P(J > j)``."""
    at = np.clip(np.asarray(x, dtype=np.float64), -_FAR, _FAR)  # infinities have no cell
    z = -np.abs(at)
    steps = np.ceil(-z - 0.5)  # z lies in the unit cell around -steps
    j = np.minimum(steps, mass.size - 1.0).astype(np.int64)
    low = np.where(steps > j, 0.0, tail[j] + mass[j] * np.clip(z + steps + 0.5, 0.0, 1.0))
    return np.where(at <= 0.0, low, 1.0 - low)


@dataclass(frozen=True)
class CornerNoise:
    """Noise of the corner."""

    noise: Noise  # for an integer law, that of its sum with an independent U(-1/2, 1/2)
    tradeoff: str  # between two tables that differ by one move (+1, -1, -1, +1), in words
    canonical: bool  # whether the noise is canonical for it
    integer: bool = False  # whether the uniform has to be added


@singledispatch
def corner_noise(law: laws.NoiseLaw, invariants: Invariants) -> CornerNoise:
    """The law of the noise of the corner, both margins being exact; a law without a registered function is refused with the reason."""
    if law.independent:
        why = (
            "its noise is independent in each cell, so that all four noisy counts are informative and no one number "
            "carries their noise (a release of one cell alone has a test, and odds_ratio_test_from_releases combines the cells)"
        )
    else:
        why = "the law of its corner is not known here"
    raise NotImplementedError(
        f"there is no test of a release with the law {law.name!r}: {why}; laws with one are {_known(corner_noise)}. Fit a "
        "model instead and look at the posterior odds ratio"
    )


@singledispatch
def cell_noise(law: laws.NoiseLaw) -> CornerNoise:
    """The law of the noise of one cell that was published alone, the margins being exact (paper 003, Theorem 37)."""
    raise NotImplementedError(
        f"there is no test of a cell released with the law {law.name!r}; laws with one are {_known(cell_noise)}. Fit a model "
        "instead and look at the posterior odds ratio"
    )


def _known(of: Any) -> str:
    """Names of the laws that are registered."""
    return ", ".join(own.name for own in of.registry if own is not object)


def _canonical(tradeoff: TradeOff, *, integer: bool = False) -> CornerNoise:
    return CornerNoise(tradeoff.canonical_noise(), in_words(tradeoff), True, integer)


def _integer_gaussian(scale: float) -> CornerNoise:
    words = f"the trade-off between a discrete Gaussian of scale {scale:.10g} and the same shifted by 1"
    return CornerNoise(DiscreteGaussianNoise(scale), words, True, integer=True)


def _laplace_of(scale: float) -> CornerNoise:
    words = (
        f"Laplace noise of scale {scale:.10g} on the corner, which satisfies {in_words(approximate_dp(1.0 / scale))}"
    )
    return CornerNoise(LaplaceNoise(scale), words, canonical=False)


def _rate(law: laws.NoiseLaw, invariants: Invariants) -> float:
    """The loss of one move, ``epsilon ||(1, -1, -1, 1)||``: every norm is linear along a line, whatever its unit ball."""
    zero, move = np.zeros((2, 2), dtype=np.int64), np.array([[1, -1], [-1, 1]])
    return law.logp(zero, zero, invariants) - law.logp(move, zero, invariants)


@corner_noise.register
def _lattice_laplace(law: laws.LatticeLaplace, invariants: Invariants) -> CornerNoise:
    """``P(j)`` falls by ``exp(-epsilon ||(1, -1, -1, 1)||)`` a step; with the uniform that is Tulap noise."""
    length = 4.0 if law.norm == "l1" else 2.0
    return _canonical(approximate_dp(length * law.epsilon), integer=True)


@corner_noise.register
def _lattice_norm(law: laws.LatticeKNorm, invariants: Invariants) -> CornerNoise:
    """``P(j)`` falls by ``exp(-epsilon ||(1, -1, -1, 1)||_K)`` a step: two-sided geometric, and with the uniform Tulap noise."""
    return _canonical(approximate_dp(_rate(law, invariants)), integer=True)


@corner_noise.register
def _lattice_gaussian(law: laws.LatticeGaussian, invariants: Invariants) -> CornerNoise:
    """``exp(-||z||**2 / 2 sigma**2) = exp(-j**2 / (2 (sigma / 2)**2))``."""
    return _integer_gaussian(0.5 * law.sigma)


@corner_noise.register(laws.ProjectedGaussian)
@corner_noise.register(laws.CorrelatedGaussian)
def _gaussian(law: laws.NoiseLaw, invariants: Invariants) -> CornerNoise:
    """Normal noise of standard deviation s on the corner is canonical for 1/s-GDP."""
    variance = law.variance((2, 2), invariants)
    assert variance is not None
    return _canonical(gaussian_dp(1.0 / math.sqrt(float(variance.reshape(-1)[0]))))


@corner_noise.register(laws.ExtendedLaplace)
@corner_noise.register(laws.KNorm)
@corner_noise.register(laws.SemiKNorm)
@corner_noise.register(laws.SubspaceNorm)
def _norm(law: laws.NoiseLaw, invariants: Invariants) -> CornerNoise:
    """Density ``exp(-epsilon ||u (1, -1, -1, 1)||)`` of the corner u: Laplace."""
    return _laplace_of(1.0 / _rate(law, invariants))


@corner_noise.register
def _projected_laplace(law: laws.ProjectedLaplace, invariants: Invariants) -> CornerNoise:
    """The corner of the projection is ``(e11 - e12 - e21 + e22) / 4``."""
    scale = 0.25 * law.b
    words = f"the sum of four Laplace variables of scale {scale:.10g} on the corner"
    return CornerNoise(LaplaceSumNoise(scale), words, canonical=False)


@cell_noise.register
def _tulap(law: laws.Tulap) -> CornerNoise:
    """Canonical for what one record changes: with another sensitivity the noise is too wide or too narrow for a move."""
    f = approximate_dp(law.epsilon, law.delta)
    if law.sensitivity == 1.0:
        return _canonical(f)
    words = f"{law.sensitivity:.10g} times noise that is canonical for {in_words(f)}"
    return CornerNoise(WiderNoise(f.canonical_noise(), law.sensitivity), words, canonical=False)


@cell_noise.register
def _any_canonical(law: laws.Canonical) -> CornerNoise:
    return _canonical(law.tradeoff)


@cell_noise.register
def _laplace(law: laws.Laplace) -> CornerNoise:
    return _laplace_of(_only(law.b))


@cell_noise.register
def _plain_gaussian(law: laws.Gaussian) -> CornerNoise:
    return _canonical(gaussian_dp(1.0 / _only(law.sigma)))


@cell_noise.register
def _discrete_laplace(law: laws.DiscreteLaplace) -> CornerNoise:
    return _canonical(approximate_dp(1.0 / _only(law.b)), integer=True)


@cell_noise.register
def _discrete_gaussian(law: laws.DiscreteGaussian) -> CornerNoise:
    return _integer_gaussian(_only(law.sigma))


@cell_noise.register
def _projected_gaussian(law: laws.ProjectedGaussian) -> CornerNoise:
    """A single answer has one dimension: nothing is projected away."""
    return _canonical(gaussian_dp(1.0 / law.sigma))


def _only(scale: Any) -> float:
    return float(np.asarray(scale, dtype=np.float64).reshape(-1)[0])
