"""Gaussian laws within bounds as PyMC distributions: truncated, and with atoms at the bounds."""

from __future__ import annotations

import pymc as pm
from pymc.distributions.continuous import BoundedContinuous

from bayesdp import noise
from bayesdp.distributions.bounded.base import bounded_distribution


@bounded_distribution(noise.TruncatedGaussian)
class TruncatedGaussian(BoundedContinuous):
    r"""Real values between bounds with density proportional to ``exp(-(x - mu)**2 / (2 sigma**2))``.

    .. math:: f(x \mid \mu, \sigma) = \frac{\varphi((x - \mu)/\sigma)}{\sigma\,(\Phi((u - \mu)/\sigma) - \Phi((l - \mu)/\sigma))}

    The normaliser depends on mu: it is part of the likelihood of a released statistic. Unlike `pymc.TruncatedNormal` it
    keeps its digits for locations far outside of the bounds and for narrow bounds. Quantiles are those of the law
    (`bayesdp.noise.TruncatedGaussian.ppf`); there is no `pymc.icdf`.

    ========  =====================================
    Support   :math:`x \in (l, u)`
    Mean      :math:`\mu` plus a bias inwards
    Variance  below :math:`\sigma^2`
    ========  =====================================

    Parameters
    ----------
    mu : tensor_like of float or int
        Location: the confidential statistic.
    sigma : tensor_like of float
        Standard deviation without bounds (sigma > 0), in the unit of the statistic.

    Examples
    --------
    >>> import pymc as pm
    >>> with pm.Model():
    ...     share = pm.Beta("share", 1.0, 1.0)
    ...     noisy = TruncatedGaussian("noisy", mu=share, sigma=0.04, lower=0.0, upper=1.0, observed=0.37)
    """


@bounded_distribution(noise.BoundaryInflatedGaussian)
class BoundaryInflatedGaussian(pm.Continuous):
    r"""Gaussian values around mu, clipped to bounds: an atom at each finite bound (the BIT rule).

    The log-density refers to Lebesgue measure plus a unit point mass at each finite bound: at a bound it is the
    log-probability of the atom, :math:`\Phi((l - \mu)/\sigma)` or :math:`\Phi((\mu - u)/\sigma)`, and elsewhere that of
    Gaussian noise. Give it ``observed`` values: gradient-based steps cannot move a free variable of such a law onto its
    atoms.

    ========  =====================================
    Support   :math:`x \in [l, u]`, bounds included
    Mean      :math:`\mu` plus a bias inwards
    Variance  below :math:`\sigma^2`
    ========  =====================================

    Parameters
    ----------
    mu : tensor_like of float or int
        Location: the confidential statistic.
    sigma : tensor_like of float
        Standard deviation before clipping (sigma > 0), in the unit of the statistic.

    Examples
    --------
    >>> import pymc as pm
    >>> with pm.Model():
    ...     share = pm.Beta("share", 1.0, 1.0)
    ...     noisy = BoundaryInflatedGaussian("noisy", mu=share, sigma=0.04, lower=0.0, upper=1.0, observed=[0.0, 0.03])
    """
