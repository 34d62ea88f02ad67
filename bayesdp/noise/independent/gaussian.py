"""The Gaussian law on the real line, around any location."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from bayesdp.invariants import Invariants
from bayesdp.noise import kernels
from bayesdp.noise._verbs import KernelForm, LossByLength, normal_loss
from bayesdp.noise.base import Floats
from bayesdp.noise.independent.scaled import GAUSSIAN, RealLaw, StatedByRho
from bayesdp.noise.namespace import special
from bayesdp.queries import Query


@dataclass(frozen=True, eq=False, init=False)
class Gaussian(StatedByRho, RealLaw):
    r"""Independent real noise with density ``exp(-(y - mu)**2 / (2 sigma**2)) / (sigma sqrt(2 pi))``: the Gaussian mechanism.

    For published numbers with decimals. Noise that was rounded to whole numbers, or drawn as such, is `DiscreteGaussian`; noise
    that changes no exact total is `ProjectedGaussian`. No mechanism of this package adds it: drawn with floating-point numbers
    it gives away more than its guarantee says (Mironov 2012).

    ========  ==============
    Support   real numbers
    Mean      mu
    Variance  ``sigma**2``
    ========  ==============

    Parameters
    ----------
    sigma : float or array_like
        Standard deviation in counts. An array has one per cell of the query, or a shape that broadcasts to it.
    rho, sensitivity : float or array_like
        In place of sigma: the loss of zero-concentrated differential privacy, and the largest l2 change of the answers that
        it is for. ``sigma = sensitivity / sqrt(2 rho)``.
    variance, standard_deviation : float or array_like
        In place of sigma, either: of the noise.

    Raises
    ------
    TypeError, ValueError
        If the scale is not a positive finite number below 2**46, or is not stated in one of these ways.

    See Also
    --------
    bayesdp.distributions.Gaussian : the same law as a PyMC distribution.

    References
    ----------
    Bun and Steinke (2016), Concentrated Differential Privacy, Proposition 1.6, for rho.

    Examples
    --------
    >>> Gaussian(rho=0.02, sensitivity=1.0)
    Gaussian(sigma=5.0)
    >>> print(f"{Gaussian(2.0).logp([3.5, -1.0], [0, 0]):.6f}")  # -13.25 / 8 - 2 log 2 - log(2 pi)
    -4.880421
    """

    sigma: float | Floats

    name = "gaussian"
    ways = GAUSSIAN
    kernel_form = KernelForm("gaussian")
    normal = True
    draw_one = staticmethod(kernels.gaussian)

    @staticmethod
    def _standard_log_density(xp: Any, z: Any) -> Any:
        return -0.5 * z**2 - 0.5 * math.log(2.0 * math.pi)

    @staticmethod
    def _standard_log_cdf(xp: Any, z: Any) -> Any:
        erf, x = special(xp), z / math.sqrt(2.0)
        far = x < -1.0
        below = xp.log(0.5 * erf.erfcx(-xp.where(far, x, -1.0))) - x**2
        return xp.where(far, below, xp.log1p(-0.5 * erf.erfc(xp.where(far, -1.0, x))))

    @staticmethod
    def _standard_draw(rng: np.random.Generator, shape: tuple[int, ...]) -> Floats:
        return np.asarray(rng.standard_normal(shape))

    @staticmethod
    def _moments(mu: Floats, scale: Floats) -> tuple[Floats, Floats]:
        """Mean and variance around mu."""
        return mu, scale**2

    def pair_loss(self, query: Query, invariants: Invariants) -> LossByLength | None:
        """The loss at a length. See `NoiseLaw.pair_loss`; not known here where each answer has a scale of its own."""
        return (
            None
            if np.ndim(self.sigma)
            else LossByLength(("zcdp", "approximate", "gdp"), "l2", normal_loss(float(self.sigma), continuous=True))
        )
