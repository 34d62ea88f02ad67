"""The discrete Gaussian law as a PyMC distribution."""

from __future__ import annotations

from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pymc.distributions.dist_math import check_parameters

from bayesdp.distributions import _theta
from bayesdp.distributions._parameters import is_discrete, location, scale
from bayesdp.distributions.independent.scalar import ScalarNoiseRV, register_kernel, rounded_location
from bayesdp.noise import _kernels

__all__ = ["DiscreteGaussian"]


class DiscreteGaussianRV(ScalarNoiseRV):
    """Random variable of `DiscreteGaussian`."""

    name = "discrete_gaussian"
    _print_name = ("DiscreteGaussian", r"\operatorname{DiscreteGaussian}")
    fill = staticmethod(_kernels.fill_discrete_gaussian)


register_kernel(DiscreteGaussianRV, _kernels.discrete_gaussian)


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

    See Also
    --------
    bayesdp.noise.DiscreteGaussian : the same law without PyMC, for releases.

    Examples
    --------
    >>> import pymc as pm
    >>> with pm.Model():
    ...     level = pm.Normal("level", 10.0, 5.0)
    ...     noisy = DiscreteGaussian("noisy", mu=level, sigma=5.0, observed=[7, 12])
    """

    rv_op = DiscreteGaussianRV()

    @classmethod
    def dist(cls, mu: Any, sigma: Any, **kwargs: Any) -> Any:
        """Make an unregistered variable; see the class for the parameters."""
        return super().dist([location(mu), scale(sigma, "sigma")], **kwargs)

    def support_point(rv: Any, size: Any, mu: Any, sigma: Any) -> Any:  # PyMC passes the variable
        """Nearest integer of mu."""
        return rounded_location(size, mu, sigma)

    def logp(value: Any, mu: Any, sigma: Any) -> Any:  # PyMC passes the value here
        """Log-mass, exact for every real mu."""
        if is_discrete(mu):
            mass = -0.5 * ((value - mu) / sigma) ** 2 - _theta.log_sum(None, sigma)
        else:
            centre = pt.round(mu)
            j, offset = value - centre, mu - centre
            mass = -0.5 * j * (j - 2.0 * offset) / sigma**2 - _theta.log_sum(offset, sigma)
        if not is_discrete(value):
            mass = pt.switch(pt.eq(value, pt.floor(value)), mass, -np.inf)
        return check_parameters(mass, sigma > 0, msg="sigma > 0")

    def logcdf(value: Any, mu: Any, sigma: Any) -> Any:  # PyMC passes the value here
        """Logarithm of the probability of at most `value`."""
        value, mu, sigma = pt.broadcast_arrays(pt.floor(value), pt.cast(mu, "float64"), sigma)
        centre = pt.round(mu)
        j, offset = value - centre, mu - centre
        above = j >= 0.0
        # From the nearest integer of mu on, subtract the upper tail from 1; below it, sum the mirrored tail.
        start, side = pt.switch(above, j + 1.0, -j), pt.switch(above, offset, -offset)
        tail = _theta.log_upper_tail(start, side, sigma) - _theta.log_sum(offset, sigma)
        result = pt.switch(above, pt.log1mexp(pt.switch(above, tail, -1.0)), tail)
        return check_parameters(result, sigma > 0, msg="sigma > 0")
