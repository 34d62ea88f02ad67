"""Laplace laws within bounds as PyMC distributions: truncated, and with atoms at the bounds."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pymc.distributions.continuous import BoundedContinuous, bounded_cont_transform
from pymc.distributions.dist_math import check_icdf_parameters, check_icdf_value
from pymc.distributions.transforms import _default_transform

from bayesdp.distributions._parameters import location, scale
from bayesdp.distributions.bounded.base import BoundedRV, checked, finite, inner_point, limits, register_sampler

__all__ = ["BoundaryInflatedLaplace", "BoundaryInflatedLaplaceRV", "TruncatedLaplace", "TruncatedLaplaceRV"]


class TruncatedLaplaceRV(BoundedRV):
    """Random variable of `TruncatedLaplace`."""

    name = law = "truncated-laplace"
    dtype = values = "float64"
    _print_name = ("TruncatedLaplace", r"\operatorname{TruncatedLaplace}")


class BoundaryInflatedLaplaceRV(BoundedRV):
    """Random variable of `BoundaryInflatedLaplace`."""

    name = law = "boundary-inflated-laplace"
    dtype = values = "float64"
    _print_name = ("BoundaryInflatedLaplace", r"\operatorname{BoundaryInflatedLaplace}")


register_sampler(TruncatedLaplaceRV)
register_sampler(BoundaryInflatedLaplaceRV)


class TruncatedLaplace(BoundedContinuous):
    r"""Real values between bounds with density proportional to ``exp(-|x - mu| / b)``.

    .. math:: f(x \mid \mu, b) = \frac{\exp(-|x - \mu| / b)}{b\,(2 - e^{-(\mu - l)/b} - e^{-(u - \mu)/b})}

    for locations between the bounds; one outside gives the law of the nearer bound. The normaliser depends on mu: it is
    part of the likelihood of a released statistic. The log-density has a kink at ``mu = x``, as the law itself does.

    ========  =====================================
    Support   :math:`x \in (l, u)`
    Mean      :math:`\mu` plus a bias inwards
    Variance  below :math:`2 b^2`
    ========  =====================================

    Parameters
    ----------
    mu : tensor_like of float or int
        Location: the confidential statistic.
    b : tensor_like of float
        Scale (b > 0), in the unit of the statistic.
    lower, upper : tensor_like of float, optional
        Bounds; None or an infinity where there is none, on one side at most.

    See Also
    --------
    bayesdp.noise.TruncatedLaplace : the same law without PyMC.
    bayesdp.TruncatedLaplace : the mechanism; it takes privacy parameters.

    References
    ----------
    Liu (2019), Definition 2(a).

    Examples
    --------
    >>> import pymc as pm
    >>> with pm.Model():
    ...     share = pm.Beta("share", 1.0, 1.0)
    ...     noisy = TruncatedLaplace("noisy", mu=share, b=0.04, lower=0.0, upper=1.0, observed=0.37)
    """

    rv_op = TruncatedLaplaceRV()
    bound_args_indices = (4, 5)

    @classmethod
    def dist(cls, mu: Any, b: Any, lower: Any = None, upper: Any = None, **kwargs: Any) -> Any:
        """Make an unregistered variable; see the class for the parameters."""
        low, high = limits(lower, upper, integer=False)
        return super().dist([location(mu), scale(b, "b"), low, high], **kwargs)

    def support_point(rv: Any, size: Any, mu: Any, b: Any, lower: Any, upper: Any) -> Any:  # PyMC passes the variable
        """A point between the bounds, near mu."""
        return inner_point(size, mu, b, lower, upper)

    def logp(value: Any, mu: Any, b: Any, lower: Any, upper: Any) -> Any:  # PyMC passes the value here
        """Log-density; ``-inf`` outside the bounds."""
        near, below, above = _sides(mu, b, lower, upper)
        logp = -pt.abs(value - near) / b - pt.log(b) - pt.log(below + above)
        return checked(logp, value, b, lower, upper, "b")

    def logcdf(value: Any, mu: Any, b: Any, lower: Any, upper: Any) -> Any:  # PyMC passes the value here
        """Logarithm of the probability of at most `value`."""
        near, below, above = _sides(mu, b, lower, upper)
        low = value <= near
        # Each side gets an argument that is harmless where the other is taken.
        start, end = pt.switch(low, value, near), pt.switch(low, near, value)
        left = -(near - start) / b + pt.log(_grown(start, lower, b)) - pt.log(below + above)
        right = -(end - near) / b + pt.log(_grown(upper, end, b)) - pt.log(below + above)
        inner = pt.switch(low, left, pt.log1mexp(pt.switch(low, -1.0, right)))
        return pt.switch(pt.lt(value, lower), -np.inf, pt.switch(pt.ge(value, upper), 0.0, inner))

    def icdf(value: Any, mu: Any, b: Any, lower: Any, upper: Any) -> Any:  # PyMC passes the value here
        """Quantile of a probability."""
        near, below, above = _sides(mu, b, lower, upper)
        share = value * (below + above)
        low = share <= below
        down = near + b * pt.log1p(pt.switch(low, share - below, -0.5))
        up = near - b * pt.log1p(-pt.switch(low, 0.5, share - below))
        found = pt.clip(pt.switch(low, down, up), lower, upper)
        found = pt.switch(pt.eq(value, 0.0), lower, pt.switch(pt.eq(value, 1.0), upper, found))
        return check_icdf_parameters(check_icdf_value(found, value), b > 0, msg="b > 0")


@_default_transform.register(TruncatedLaplace)
def _between_the_bounds(op: Any, rv: Any) -> Any:
    return bounded_cont_transform(op, rv, TruncatedLaplace.bound_args_indices)


class BoundaryInflatedLaplace(pm.Continuous):
    r"""Laplace values around mu, clipped to bounds: an atom at each finite bound (the BIT rule).

    The log-density refers to Lebesgue measure plus a unit point mass at each finite bound: at a bound it is the
    log-probability of the atom, :math:`\frac12 e^{-(\mu - l)/b}` and :math:`\frac12 e^{-(u - \mu)/b}` for locations between
    the bounds, and elsewhere that of Laplace noise. Give it ``observed`` values: gradient-based steps cannot move a free
    variable of such a law onto its atoms.

    ========  ==========================================================================
    Support   :math:`x \in [l, u]`, bounds included
    Mean      :math:`\mu + \frac b2 (e^{-(\mu - l)/b} - e^{-(u - \mu)/b})`
    Variance  below :math:`2 b^2`
    ========  ==========================================================================

    Parameters
    ----------
    mu : tensor_like of float or int
        Location: the confidential statistic.
    b : tensor_like of float
        Scale (b > 0), in the unit of the statistic.
    lower, upper : tensor_like of float, optional
        Bounds; None or an infinity where there is none, on one side at most.

    See Also
    --------
    bayesdp.noise.BoundaryInflatedLaplace : the same law without PyMC.
    bayesdp.BoundaryInflatedLaplace : the mechanism; it takes privacy parameters.

    References
    ----------
    Liu (2019), Definition 2(b).

    Examples
    --------
    >>> import pymc as pm
    >>> with pm.Model():
    ...     share = pm.Beta("share", 1.0, 1.0)
    ...     noisy = BoundaryInflatedLaplace("noisy", mu=share, b=0.04, lower=0.0, upper=1.0, observed=[0.0, 0.03])
    """

    rv_op = BoundaryInflatedLaplaceRV()

    @classmethod
    def dist(cls, mu: Any, b: Any, lower: Any = None, upper: Any = None, **kwargs: Any) -> Any:
        """Make an unregistered variable; see the class for the parameters."""
        low, high = limits(lower, upper, integer=False)
        return super().dist([location(mu), scale(b, "b"), low, high], **kwargs)

    def support_point(rv: Any, size: Any, mu: Any, b: Any, lower: Any, upper: Any) -> Any:  # PyMC passes the variable
        """A point between the bounds, near mu."""
        return inner_point(size, mu, b, lower, upper)

    def logp(value: Any, mu: Any, b: Any, lower: Any, upper: Any) -> Any:  # PyMC passes the value here
        """Log-density between the bounds, log-probability at a bound, ``-inf`` outside."""
        below = _log_below((finite(lower, 0.0)[1] - mu) / b)
        above = _log_below((mu - finite(upper, 0.0)[1]) / b)
        inner = -pt.abs(value - mu) / b - pt.log(2.0 * b)
        logp = pt.switch(pt.eq(value, lower), below, pt.switch(pt.eq(value, upper), above, inner))
        return checked(logp, value, b, lower, upper, "b")

    def logcdf(value: Any, mu: Any, b: Any, lower: Any, upper: Any) -> Any:  # PyMC passes the value here
        """Logarithm of the probability of at most `value`."""
        inner = _log_below((value - mu) / b)
        return pt.switch(pt.lt(value, lower), -np.inf, pt.switch(pt.ge(value, upper), 0.0, inner))

    def icdf(value: Any, mu: Any, b: Any, lower: Any, upper: Any) -> Any:  # PyMC passes the value here
        """Smallest value whose probability of not being exceeded is at least that."""
        low = value < 0.5
        down, up = pt.switch(low, value, 0.25), pt.switch(low, 0.25, 1.0 - value)
        found = pt.clip(pt.switch(low, mu + b * pt.log(2.0 * down), mu - b * pt.log(2.0 * up)), lower, upper)
        return check_icdf_parameters(check_icdf_value(found, value), b > 0, msg="b > 0")


def _sides(mu: Any, b: Any, lower: Any, upper: Any) -> tuple[Any, Any, Any]:
    """The location moved between the bounds, and twice the probabilities of the two sides of it."""
    near = pt.clip(mu, lower, upper)
    return near, _grown(near, lower, b), _grown(upper, near, b)


def _grown(high: Any, low: Any, b: Any) -> Any:
    """``1 - exp(-(high - low) / b)``, where either may be infinite."""
    there, width = finite(high - low, 1.0)
    return pt.switch(there, -pt.expm1(-width / b), 1.0)


def _log_below(x: Any) -> Any:
    """Logarithm of the probability that Laplace noise of scale 1 is at most x."""
    return pt.switch(x < 0, x - math.log(2.0), pt.log1p(-0.5 * pt.exp(-pt.abs(x))))
