"""Discrete Laplace and Gaussian laws within bounds as PyMC distributions: truncated, and with the tails at the bounds."""

from __future__ import annotations

from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt

from bayesdp.distributions._parameters import location, scale
from bayesdp.distributions.bounded.base import (
    BoundedRV,
    checked,
    finite,
    gaussian_sums,
    inner_point,
    limits,
    register_sampler,
)
from bayesdp.distributions.bounded.laplace import _grown
from bayesdp.distributions.independent.discrete_gaussian import DiscreteGaussian
from bayesdp.distributions.independent.discrete_laplace import DiscreteLaplace

__all__ = [
    "BoundaryInflatedDiscreteGaussian",
    "BoundaryInflatedDiscreteGaussianRV",
    "BoundaryInflatedDiscreteLaplace",
    "BoundaryInflatedDiscreteLaplaceRV",
    "TruncatedDiscreteGaussian",
    "TruncatedDiscreteGaussianRV",
    "TruncatedDiscreteLaplace",
    "TruncatedDiscreteLaplaceRV",
]


class TruncatedDiscreteLaplaceRV(BoundedRV):
    """Random variable of `TruncatedDiscreteLaplace`."""

    name = law = "truncated-discrete-laplace"
    dtype = values = "int64"
    _print_name = ("TruncatedDiscreteLaplace", r"\operatorname{TruncatedDiscreteLaplace}")


class BoundaryInflatedDiscreteLaplaceRV(BoundedRV):
    """Random variable of `BoundaryInflatedDiscreteLaplace`."""

    name = law = "boundary-inflated-discrete-laplace"
    dtype = values = "int64"
    _print_name = ("BoundaryInflatedDiscreteLaplace", r"\operatorname{BoundaryInflatedDiscreteLaplace}")


class TruncatedDiscreteGaussianRV(BoundedRV):
    """Random variable of `TruncatedDiscreteGaussian`."""

    name = law = "truncated-discrete-gaussian"
    dtype = values = "int64"
    _print_name = ("TruncatedDiscreteGaussian", r"\operatorname{TruncatedDiscreteGaussian}")


class BoundaryInflatedDiscreteGaussianRV(BoundedRV):
    """Random variable of `BoundaryInflatedDiscreteGaussian`."""

    name = law = "boundary-inflated-discrete-gaussian"
    dtype = values = "int64"
    _print_name = ("BoundaryInflatedDiscreteGaussian", r"\operatorname{BoundaryInflatedDiscreteGaussian}")


for _kind in (
    TruncatedDiscreteLaplaceRV,
    BoundaryInflatedDiscreteLaplaceRV,
    TruncatedDiscreteGaussianRV,
    BoundaryInflatedDiscreteGaussianRV,
):
    register_sampler(_kind)


class TruncatedDiscreteLaplace(pm.Discrete):
    r"""Integers between bounds with mass proportional to ``exp(-|x - mu| / b)``; the normaliser depends on mu.

    ========  ====================================================
    Support   integers from `lower` to `upper`
    Mean      :math:`\mu` plus a bias inwards
    ========  ====================================================

    Parameters
    ----------
    mu : tensor_like of float or int
        Location: the confidential count.
    b : tensor_like of float
        Scale in counts (b > 0).
    lower, upper : tensor_like, optional
        Whole bounds; None or an infinity where there is none, on one side at most.

    See Also
    --------
    bayesdp.noise.TruncatedDiscreteLaplace : the same law without PyMC.

    Examples
    --------
    >>> import pymc as pm
    >>> with pm.Model():
    ...     count = pm.Binomial("count", 50, 0.3)
    ...     noisy = TruncatedDiscreteLaplace("noisy", mu=count, b=4.0, lower=0, upper=50, observed=12)
    """

    rv_op = TruncatedDiscreteLaplaceRV()

    @classmethod
    def dist(cls, mu: Any, b: Any, lower: Any = None, upper: Any = None, **kwargs: Any) -> Any:
        """Make an unregistered variable; see the class for the parameters."""
        return super().dist([location(mu), scale(b, "b"), *limits(lower, upper, integer=True)], **kwargs)

    def support_point(rv: Any, size: Any, mu: Any, b: Any, lower: Any, upper: Any) -> Any:  # PyMC passes the variable
        """An integer within the bounds, near mu."""
        return pt.cast(pt.clip(pt.round(inner_point(size, mu, b, lower, upper)), lower, upper), "int64")

    def logp(value: Any, mu: Any, b: Any, lower: Any, upper: Any) -> Any:  # PyMC passes the value here
        """Log-mass; ``-inf`` outside the bounds."""
        near = pt.clip(mu, lower, upper)  # the law around a location outside is that around the bound
        m = pt.round(near)
        d = near - m
        one = -pt.expm1(-1.0 / b)
        # How much farther than m its two neighbours are; all others are 1 farther each.
        down = pt.exp(-pt.switch(d >= 0, 1.0, 1.0 + 2.0 * d) / b) * _grown(m, lower, b) / one
        up = pt.exp(-pt.switch(d >= 0, 1.0 - 2.0 * d, 1.0) / b) * _grown(upper, m, b) / one
        mass = -(pt.abs(value - near) - pt.abs(d)) / b - pt.log1p(down + up)
        return checked(_whole(value, mass), value, b, lower, upper, "b")


class TruncatedDiscreteGaussian(pm.Discrete):
    r"""Integers between bounds with mass proportional to ``exp(-(x - mu)**2 / (2 sigma**2))``; the normaliser depends on mu.

    ========  ====================================================
    Support   integers from `lower` to `upper`
    Mean      :math:`\mu` plus a bias inwards
    ========  ====================================================

    Parameters
    ----------
    mu : tensor_like of float or int
        Location: the confidential count. First derivatives are exact, second ones are not available.
    sigma : tensor_like of float
        Scale in counts (sigma > 0).
    lower, upper : tensor_like, optional
        Whole bounds; None or an infinity where there is none, on one side at most.

    See Also
    --------
    bayesdp.noise.TruncatedDiscreteGaussian : the same law without PyMC.

    Examples
    --------
    >>> import pymc as pm
    >>> with pm.Model():
    ...     count = pm.Binomial("count", 50, 0.3)
    ...     noisy = TruncatedDiscreteGaussian("noisy", mu=count, sigma=4.0, lower=0, upper=50, observed=12)
    """

    rv_op = TruncatedDiscreteGaussianRV()

    @classmethod
    def dist(cls, mu: Any, sigma: Any, lower: Any = None, upper: Any = None, **kwargs: Any) -> Any:
        """Make an unregistered variable; see the class for the parameters."""
        return super().dist([location(mu), scale(sigma, "sigma"), *limits(lower, upper, integer=True)], **kwargs)

    def support_point(
        rv: Any, size: Any, mu: Any, sigma: Any, lower: Any, upper: Any
    ) -> Any:  # PyMC passes the variable
        """An integer within the bounds, near mu."""
        return pt.cast(pt.clip(pt.round(inner_point(size, mu, sigma, lower, upper)), lower, upper), "int64")

    def logp(value: Any, mu: Any, sigma: Any, lower: Any, upper: Any) -> Any:  # PyMC passes the value here
        """Log-mass; ``-inf`` outside the bounds."""
        x, at, spread, low, high = pt.broadcast_arrays(value, pt.cast(mu, "float64"), sigma, lower, upper)
        total, m = gaussian_sums(at, spread, low, high)
        j = x - m
        mass = -0.5 * j * (j - 2.0 * (at - m)) / spread**2 - total
        return checked(_whole(value, mass), value, sigma, lower, upper, "sigma")


class BoundaryInflatedDiscreteLaplace(pm.Discrete):
    r"""Discrete Laplace integers around mu, clipped to bounds: each bound has the mass of the tail beyond it as well.

    ========  ====================================================
    Support   integers from `lower` to `upper`
    Mean      :math:`\mu` plus a bias inwards
    ========  ====================================================

    Parameters
    ----------
    mu : tensor_like of float or int
        Location: the confidential count.
    b : tensor_like of float
        Scale in counts (b > 0).
    lower, upper : tensor_like, optional
        Whole bounds; None or an infinity where there is none, on one side at most.

    See Also
    --------
    bayesdp.noise.BoundaryInflatedDiscreteLaplace : the same law without PyMC.

    Examples
    --------
    >>> import pymc as pm
    >>> with pm.Model():
    ...     count = pm.Binomial("count", 50, 0.3)
    ...     noisy = BoundaryInflatedDiscreteLaplace("noisy", mu=count, b=4.0, lower=0, upper=50, observed=0)
    """

    rv_op = BoundaryInflatedDiscreteLaplaceRV()

    @classmethod
    def dist(cls, mu: Any, b: Any, lower: Any = None, upper: Any = None, **kwargs: Any) -> Any:
        """Make an unregistered variable; see the class for the parameters."""
        return super().dist([location(mu), scale(b, "b"), *limits(lower, upper, integer=True)], **kwargs)

    def support_point(rv: Any, size: Any, mu: Any, b: Any, lower: Any, upper: Any) -> Any:  # PyMC passes the variable
        """An integer within the bounds, near mu."""
        return pt.cast(pt.clip(pt.round(inner_point(size, mu, b, lower, upper)), lower, upper), "int64")

    def logp(value: Any, mu: Any, b: Any, lower: Any, upper: Any) -> Any:  # PyMC passes the value here
        """Log-mass; ``-inf`` outside the bounds."""
        return checked(_clipped(DiscreteLaplace, value, mu, b, lower, upper), value, b, lower, upper, "b")

    def logcdf(value: Any, mu: Any, b: Any, lower: Any, upper: Any) -> Any:  # PyMC passes the value here
        """Logarithm of the probability of at most `value`."""
        inner = DiscreteLaplace.logcdf(value, mu, b)
        return pt.switch(pt.lt(value, lower), -np.inf, pt.switch(pt.ge(pt.floor(value), upper), 0.0, inner))


class BoundaryInflatedDiscreteGaussian(pm.Discrete):
    r"""Discrete Gaussian integers around mu, clipped to bounds: each bound has the mass of the tail beyond it as well.

    ========  ====================================================
    Support   integers from `lower` to `upper`
    Mean      :math:`\mu` plus a bias inwards
    ========  ====================================================

    Parameters
    ----------
    mu : tensor_like of float or int
        Location: the confidential count.
    sigma : tensor_like of float
        Scale in counts (sigma > 0).
    lower, upper : tensor_like, optional
        Whole bounds; None or an infinity where there is none, on one side at most.

    See Also
    --------
    bayesdp.noise.BoundaryInflatedDiscreteGaussian : the same law without PyMC.

    Examples
    --------
    >>> import pymc as pm
    >>> with pm.Model():
    ...     count = pm.Binomial("count", 50, 0.3)
    ...     noisy = BoundaryInflatedDiscreteGaussian("noisy", mu=count, sigma=4.0, lower=0, upper=50, observed=0)
    """

    rv_op = BoundaryInflatedDiscreteGaussianRV()

    @classmethod
    def dist(cls, mu: Any, sigma: Any, lower: Any = None, upper: Any = None, **kwargs: Any) -> Any:
        """Make an unregistered variable; see the class for the parameters."""
        return super().dist([location(mu), scale(sigma, "sigma"), *limits(lower, upper, integer=True)], **kwargs)

    def support_point(
        rv: Any, size: Any, mu: Any, sigma: Any, lower: Any, upper: Any
    ) -> Any:  # PyMC passes the variable
        """An integer within the bounds, near mu."""
        return pt.cast(pt.clip(pt.round(inner_point(size, mu, sigma, lower, upper)), lower, upper), "int64")

    def logp(value: Any, mu: Any, sigma: Any, lower: Any, upper: Any) -> Any:  # PyMC passes the value here
        """Log-mass; ``-inf`` outside the bounds."""
        return checked(_clipped(DiscreteGaussian, value, mu, sigma, lower, upper), value, sigma, lower, upper, "sigma")

    def logcdf(value: Any, mu: Any, sigma: Any, lower: Any, upper: Any) -> Any:  # PyMC passes the value here
        """Logarithm of the probability of at most `value`."""
        inner = DiscreteGaussian.logcdf(value, mu, sigma)
        return pt.switch(pt.lt(value, lower), -np.inf, pt.switch(pt.ge(pt.floor(value), upper), 0.0, inner))


def _clipped(free: Any, value: Any, mu: Any, spread: Any, lower: Any, upper: Any) -> Any:
    """Log-mass of a law whose tails stand at the bounds; a bound that is not there gets a harmless number."""
    low, high = finite(lower, 0.0)[1], finite(upper, 0.0)[1]
    below = free.logcdf(low, mu, spread)
    above = free.logcdf(-high, -mu, spread)  # at least the upper bound, mirrored
    return pt.switch(pt.eq(value, lower), below, pt.switch(pt.eq(value, upper), above, free.logp(value, mu, spread)))


def _whole(value: Any, mass: Any) -> Any:
    """The log-mass of a value that is whole; ``-inf`` for others."""
    return mass if value.dtype.startswith(("int", "uint")) else pt.switch(pt.eq(value, pt.floor(value)), mass, -np.inf)
