"""Which noise the corner of a released 2 x 2 table has, and for which trade-off function it is canonical.

Noise that changes no margin is ``j (1, -1, -1, 1)``: a law of tables becomes the law of one number j.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import singledispatch
from typing import Any

import numpy as np

from bayesdp import noise as laws
from bayesdp.invariants import Invariants
from bayesdp.privacy.tradeoffs import TradeOff, approximate_dp, gaussian_dp
from bayesdp.significance._noise import (
    DiscreteGaussianNoise,
    LaplaceNoise,
    LaplaceSumNoise,
    Noise,
    WiderNoise,
    in_words,
)


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
