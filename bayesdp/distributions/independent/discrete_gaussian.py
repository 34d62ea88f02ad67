"""The discrete Gaussian law as a PyMC distribution."""

from __future__ import annotations

import pymc as pm

from bayesdp import noise
from bayesdp.distributions.independent.scalar import scalar_distribution

__all__ = ["DiscreteGaussian"]


@scalar_distribution(noise.DiscreteGaussian)
class DiscreteGaussian(pm.Discrete):
    r"""Integers with mass proportional to ``exp(-(x - mu)**2 / (2 sigma**2))``, mu any real number.

    .. math:: f(x \mid \mu, \sigma) = \frac{e^{-(x - \mu)^2 / 2\sigma^2}}
        {\sum_{k \in \mathbb{Z}} e^{-(k - \mu)^2 / 2\sigma^2}}

    The normaliser is exact to double precision: a direct sum for ``sigma < 1/2``, Poisson's summation formula
    from there on.

    ========  ====================================================================
    Support   :math:`x \in \mathbb{Z}`
    Mean      :math:`\mu` at integers and half-integers, near it else
    Variance  a little below :math:`\sigma^2` at integer :math:`\mu`
    ========  ====================================================================

    Parameters
    ----------
    mu : tensor_like of float or int
        Location: what the noise was added to. For integer types the normaliser depends on sigma only.
    sigma : tensor_like of float
        Scale in counts (sigma > 0); near the standard deviation from 1 on.
    """
