"""The Gaussian law on the real line, around any location."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import log_ndtr

from bayesdp.noise.base import Floats
from bayesdp.noise.independent._scales import GAUSSIAN
from bayesdp.noise.independent.reals import RealLaw

__all__ = ["Gaussian"]


@dataclass(frozen=True, eq=False, init=False)
class Gaussian(RealLaw):
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

    def __init__(
        self,
        sigma: Any = None,
        *,
        rho: Any = None,
        sensitivity: Any = None,
        variance: Any = None,
        standard_deviation: Any = None,
        **wrong: Any,
    ) -> None:
        self._set_scale(
            wrong,
            sigma=sigma,
            rho=rho,
            sensitivity=sensitivity,
            variance=variance,
            standard_deviation=standard_deviation,
        )

    @staticmethod
    def _standard_log_density(z: Floats) -> Floats:
        return -0.5 * z**2 - 0.5 * math.log(2.0 * math.pi)

    @staticmethod
    def _standard_log_cdf(z: Floats) -> Floats:
        return np.asarray(log_ndtr(z))

    @staticmethod
    def _standard_draw(rng: np.random.Generator, shape: tuple[int, ...]) -> Floats:
        return np.asarray(rng.standard_normal(shape))

    @staticmethod
    def _moments(mu: Floats, scale: Floats) -> tuple[Floats, Floats]:
        """Mean and variance around mu."""
        return mu, scale**2
