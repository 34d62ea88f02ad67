"""Laplace, Gaussian, discrete and Tulap noise as PyMC distributions."""

from __future__ import annotations

from typing import Any

import pymc as pm
import pytensor.tensor as pt
from pymc.distributions.dist_math import check_parameters

from bayesdp import noise
from bayesdp.distributions.independent.scalar import scalar_distribution


@scalar_distribution(noise.Laplace)
class Laplace(pm.Continuous):
    r"""Real numbers with density ``exp(-|x - mu| / b) / (2 b)``: the Laplace mechanism.

    The same law as `pymc.Laplace`, computed in double precision throughout. About counts (`bayesdp.ConfidentialCounts`) it is
    one of the laws with exact conditional steps.

    ========  ======================
    Support   real numbers
    Mean      mu
    Variance  ``2 b**2``
    ========  ======================

    Parameters
    ----------
    mu : tensor_like of float or int
        Location: what the noise was added to. The log-density has a kink where it meets the value.
    b : tensor_like of float
        Scale in counts (b > 0); noise that costs epsilon for a change of one count has ``b = 1/epsilon``.
    """


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


@scalar_distribution(noise.DiscreteLaplace)
class DiscreteLaplace(pm.Discrete):
    r"""Integers with mass proportional to ``exp(-|x - mu| / b)``, mu any real number.

    .. math:: f(x \mid \mu, b) = \frac{1 - q}{q^f + q^{1-f}} \; q^{|x - \mu|},
        \qquad q = e^{-1/b}, \; f = \mu - \lfloor\mu\rfloor

    ========  ===============================================================
    Support   :math:`x \in \mathbb{Z}`
    Mean      :math:`\mu` at integers and half-integers, near it else
    Variance  :math:`2 q / (1 - q)^2` at integer :math:`\mu`
    ========  ===============================================================

    Parameters
    ----------
    mu : tensor_like of float or int
        Location: what the noise was added to. For integer types the normaliser takes its simple form. The
        log-mass has kinks at integer mu, as the law itself does.
    b : tensor_like of float
        Scale in counts (b > 0); noise that costs epsilon for a change of one count has ``b = 1/epsilon``.
    """


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


@scalar_distribution(noise.Tulap)
class Tulap(pm.Continuous):
    r"""Truncated uniform-Laplace noise around mu, canonical for (epsilon, delta)-differential privacy.

    .. math:: f(x \mid \mu, \epsilon, \delta) = \frac{1 - b + 2 \delta b}{1 + b}\; b^{[x - \mu]}
        \qquad b = e^{-\epsilon}, \; [z] = \text{the integer nearest to } |z|

    where delta has not cut the tail off. The density is a step function: it jumps at half-integer distances from mu and is flat
    between them, so that its gradient says nothing about mu. NUTS remains valid (it accepts by the density itself) but moves
    blindly through this term; `pm.Slice` is the better sampler for what is in mu. Counts (`ConfidentialCounts`) move by exact
    conditional steps, and with known epsilon and delta never out of reach.

    With delta > 0 the density is zero far from mu, so that a start of mu out of reach of the data is refused by PyMC; give one
    within reach with ``pm.sample(initvals=...)``. `bayesdp.observe` needs none.

    ========  ==========================================================================
    Support   real numbers; if delta > 0, those within a bounded distance of mu
    Mean      mu
    Variance  ``2 b / (1 - b)**2 + 1/12`` for delta = 0
    ========  ==========================================================================

    Parameters
    ----------
    mu : tensor_like of float or int
        Location: what the noise was added to, for a statistic of sensitivity 1.
    epsilon : tensor_like of float
        Privacy loss (epsilon > 0).
    delta : tensor_like of float, default 0
        (0 <= delta < 1).

    See Also
    --------
    bayesdp.noise.Tulap : the same law without PyMC, for releases.

    Examples
    --------
    >>> import pymc as pm
    >>> with pm.Model():
    ...     level = pm.Normal("level", 10.0, 5.0)
    ...     noisy = Tulap("noisy", mu=level, epsilon=1.0, observed=12.3)
    """

    def logp(value: Any, mu: Any, epsilon: Any, delta: Any) -> Any:  # PyMC passes the value here
        """Log-density; ``-inf`` beyond the ends."""
        return _checked(noise.Tulap.log_kernel(pt, value, mu, epsilon, delta), epsilon, delta)

    def logcdf(value: Any, mu: Any, epsilon: Any, delta: Any) -> Any:  # PyMC passes the value here
        """Logarithm of the probability of at most `value`."""
        return _checked(noise.Tulap.log_cdf_kernel(pt, value, mu, epsilon, delta), epsilon, delta)


TulapRV: Any = Tulap.rv_type


def _checked(found: Any, epsilon: Any, delta: Any) -> Any:
    return check_parameters(found, epsilon > 0, delta >= 0, delta < 1, msg="epsilon > 0, 0 <= delta < 1")
