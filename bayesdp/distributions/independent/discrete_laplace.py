"""The discrete Laplace law as a PyMC distribution."""

from __future__ import annotations

from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pymc.distributions.dist_math import check_parameters

from bayesdp.distributions._parameters import is_discrete, location, scale
from bayesdp.distributions.independent.scalar import ScalarNoiseRV, register_kernel, rounded_location
from bayesdp.noise import _kernels

__all__ = ["DiscreteLaplace"]


class DiscreteLaplaceRV(ScalarNoiseRV):
    """Random variable of `DiscreteLaplace`."""

    name = "discrete_laplace"
    _print_name = ("DiscreteLaplace", r"\operatorname{DiscreteLaplace}")
    fill = staticmethod(_kernels.fill_discrete_laplace)


register_kernel(DiscreteLaplaceRV, _kernels.discrete_laplace)


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

    See Also
    --------
    bayesdp.noise.DiscreteLaplace : the same law without PyMC, for releases.

    Examples
    --------
    >>> import pymc as pm
    >>> with pm.Model():
    ...     level = pm.Normal("level", 10.0, 5.0)
    ...     noisy = DiscreteLaplace("noisy", mu=level, b=4.0, observed=[7, 12])
    """

    rv_op = DiscreteLaplaceRV()

    @classmethod
    def dist(cls, mu: Any, b: Any, **kwargs: Any) -> Any:
        """Make an unregistered variable; see the class for the parameters."""
        return super().dist([location(mu), scale(b, "b")], **kwargs)

    def support_point(rv: Any, size: Any, mu: Any, b: Any) -> Any:  # PyMC passes the variable here
        """Nearest integer of mu."""
        return rounded_location(size, mu, b)

    def logp(value: Any, mu: Any, b: Any) -> Any:  # PyMC passes the value here
        """Log-mass, exact for every real mu."""
        # Relative to the mass of the nearest integer, so that nothing underflows for small b.
        nearest = _distance_to_integer(mu)
        mass = -(pt.abs(value - mu) - nearest) / b + pt.log(-pt.expm1(-1.0 / b))
        mass -= pt.log1p(pt.exp(-(1.0 - 2.0 * nearest) / b))
        if not is_discrete(value):
            mass = pt.switch(pt.eq(value, pt.floor(value)), mass, -np.inf)
        return check_parameters(mass, b > 0, msg="b > 0")

    def logcdf(value: Any, mu: Any, b: Any) -> Any:  # PyMC passes the value here
        """Logarithm of the probability of at most `value`."""
        value, base = pt.floor(value), pt.floor(mu)
        below = value <= base
        distance = pt.switch(below, mu - value, value + 1.0 - mu)
        own = pt.switch(below, mu - base, base + 1.0 - mu)  # distance of the nearest integer on that side
        tail = -(distance - own) / b - pt.softplus((2.0 * own - 1.0) / b)
        result = pt.switch(below, tail, pt.log1mexp(pt.switch(below, -1.0, tail)))
        return check_parameters(result, b > 0, msg="b > 0")


def _distance_to_integer(mu: Any) -> Any:
    """Distance from mu to the nearest integer; a constant for integer types."""
    if is_discrete(mu):
        return 0.0
    return pt.abs(pt.round(mu) - mu)
