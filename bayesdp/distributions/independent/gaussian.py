"""The Gaussian law as a PyMC distribution of noise."""

from __future__ import annotations

import pymc as pm

from bayesdp import noise
from bayesdp.distributions.independent.scalar import scalar_distribution

__all__ = ["Gaussian"]


@scalar_distribution(noise.Gaussian)
class Gaussian(pm.Continuous):
    r"""Real numbers with density ``exp(-(x - mu)**2 / (2 sigma**2)) / (sigma sqrt(2 pi))``: the Gaussian mechanism.

    The same law as `pymc.Normal`, computed in double precision throughout. About counts (`bayesdp.ConfidentialCounts`) it is
    one of the laws with exact conditional steps.

    ========  ======================
    Support   real numbers
    Mean      mu
    Variance  ``sigma**2``
    ========  ======================

    Parameters
    ----------
    mu : tensor_like of float or int
        Location: what the noise was added to.
    sigma : tensor_like of float
        Standard deviation in counts (sigma > 0).
    """
