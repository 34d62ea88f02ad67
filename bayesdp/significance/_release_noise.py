"""Which noise the corner of a released 2 x 2 table has, and for which trade-off function it is canonical.

Noise that changes no margin is ``j (1, -1, -1, 1)``: a law of tables becomes the law of one number j.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np

from bayesdp import noise as laws
from bayesdp.invariants import Invariants
from bayesdp.privacy.tradeoffs import TradeOff, approximate_dp, gaussian_dp
from bayesdp.significance._noise import DiscreteGaussianNoise, LaplaceNoise, LaplaceSumNoise, Noise, in_words

__all__ = ["CornerNoise", "corner_noise"]


@dataclass(frozen=True)
class CornerNoise:
    """Noise of the corner.

    Parameters
    ----------
    noise : Noise
        Law of the noise; for an integer law, of its sum with an independent U(-1/2, 1/2).
    tradeoff : str
        The trade-off function between two tables that differ by one move (+1, -1, -1, +1), in words.
    canonical : bool
        Whether the noise is canonical for it.
    integer : bool
        Whether the uniform has to be added.
    """

    noise: Noise
    tradeoff: str
    canonical: bool
    integer: bool = False


def corner_noise(law: laws.NoiseLaw, invariants: Invariants) -> CornerNoise:
    """Work it out.

    Parameters
    ----------
    law : NoiseLaw
    invariants : Invariants
        Under which the noise was drawn: both margins of a 2 x 2 table.

    Raises
    ------
    NotImplementedError
        If the law is not one of noise that changes no margin, or not known here.
    """
    if type(law) not in _KNOWN:
        if law.independent:
            why = (
                "its noise is independent in each cell, so that all four noisy counts are informative and no one number "
                "carries their noise"
            )
        else:
            why = "the law of its corner is not known here"
        known = ", ".join(own.name for own in _KNOWN)
        raise NotImplementedError(
            f"there is no test of a release with the law {law.name!r}: {why}; laws with one are {known}. Fit a model instead "
            "and look at the posterior odds ratio"
        )
    return _KNOWN[type(law)](law, invariants)


def _canonical(tradeoff: TradeOff, *, integer: bool = False) -> CornerNoise:
    return CornerNoise(tradeoff.canonical_noise(), in_words(tradeoff), True, integer)


def _lattice_laplace(law: laws.NoiseLaw, invariants: Invariants) -> CornerNoise:
    """``P(j)`` falls by ``exp(-epsilon ||(1, -1, -1, 1)||)`` a step; with the uniform that is Tulap noise."""
    assert isinstance(law, laws.LatticeLaplace)
    length = 4.0 if law.norm == "l1" else 2.0
    return _canonical(approximate_dp(length * law.epsilon), integer=True)


def _lattice_gaussian(law: laws.NoiseLaw, invariants: Invariants) -> CornerNoise:
    """``exp(-||z||**2 / 2 sigma**2) = exp(-j**2 / (2 (sigma / 2)**2))``."""
    assert isinstance(law, laws.LatticeGaussian)
    scale = 0.5 * law.sigma
    words = f"the trade-off between a discrete Gaussian of scale {scale:.10g} and the same shifted by 1"
    return CornerNoise(DiscreteGaussianNoise(scale), words, True, integer=True)


def _gaussian(law: laws.NoiseLaw, invariants: Invariants) -> CornerNoise:
    """Normal noise of standard deviation s on the corner is canonical for 1/s-GDP."""
    variance = law.variance((2, 2), invariants)
    assert variance is not None
    return _canonical(gaussian_dp(1.0 / math.sqrt(float(variance.reshape(-1)[0]))))


def _laplace_of(scale: float) -> CornerNoise:
    words = (
        f"Laplace noise of scale {scale:.10g} on the corner, which satisfies {in_words(approximate_dp(1.0 / scale))}"
    )
    return CornerNoise(LaplaceNoise(scale), words, canonical=False)


def _extended_laplace(law: laws.NoiseLaw, invariants: Invariants) -> CornerNoise:
    """One orthonormal coordinate, (1, -1, -1, 1) / 2: half of it is the corner."""
    assert isinstance(law, laws.ExtendedLaplace)
    return _laplace_of(0.5 * law.b)


def _k_norm(law: laws.NoiseLaw, invariants: Invariants) -> CornerNoise:
    """In one dimension the norm is ``|c| / max |vertex|``, c the orthonormal coordinate."""
    assert isinstance(law, laws.KNorm)
    return _laplace_of(0.5 * float(np.max(np.abs(law.vertices))) / law.epsilon)


def _projected_laplace(law: laws.NoiseLaw, invariants: Invariants) -> CornerNoise:
    """The corner of the projection is ``(e11 - e12 - e21 + e22) / 4``."""
    assert isinstance(law, laws.ProjectedLaplace)
    scale = 0.25 * law.b
    words = f"the sum of four Laplace variables of scale {scale:.10g} on the corner"
    return CornerNoise(LaplaceSumNoise(scale), words, canonical=False)


_KNOWN: Final[dict[type[laws.NoiseLaw], Callable[[laws.NoiseLaw, Invariants], CornerNoise]]] = {
    laws.LatticeLaplace: _lattice_laplace,
    laws.LatticeGaussian: _lattice_gaussian,
    laws.ProjectedGaussian: _gaussian,
    laws.CorrelatedGaussian: _gaussian,
    laws.ExtendedLaplace: _extended_laplace,
    laws.KNorm: _k_norm,
    laws.ProjectedLaplace: _projected_laplace,
}
