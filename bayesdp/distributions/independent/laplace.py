"""The Laplace law as a PyMC distribution of noise."""

from __future__ import annotations

import math
from typing import Any

import pymc as pm
import pytensor.tensor as pt
from pymc.distributions.dist_math import check_parameters
from pytensor.tensor.random.basic import LaplaceRV as PlainLaplaceRV

from bayesdp.distributions._parameters import location, scale

__all__ = ["Laplace"]


class LaplaceRV(PlainLaplaceRV):
    """Random variable of `Laplace`: PyTensor's, with a type of its own by which the steps for counts know it."""

    _print_name = ("Laplace", r"\operatorname{Laplace}")


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

    See Also
    --------
    bayesdp.noise.Laplace : the same law without PyMC, for releases.

    Examples
    --------
    >>> import pymc as pm
    >>> with pm.Model():
    ...     level = pm.Normal("level", 10.0, 5.0)
    ...     noisy = Laplace("noisy", mu=level, b=4.0, observed=[7.3, 12.9])
    """

    rv_op = LaplaceRV()

    @classmethod
    def dist(cls, mu: Any, b: Any, **kwargs: Any) -> Any:
        """Make an unregistered variable; see the class for the parameters."""
        return super().dist([location(mu), scale(b, "b")], **kwargs)

    def support_point(rv: Any, size: Any, mu: Any, b: Any) -> Any:  # PyMC passes the variable here
        """Location, where the density is highest."""
        return pm.Laplace.support_point(rv, size, pt.cast(mu, "float64"), b)

    def logp(value: Any, mu: Any, b: Any) -> Any:  # PyMC passes the value here
        """Log-density."""
        return check_parameters(-pt.abs(value - mu) / b - pt.log(2.0 * b), b > 0, msg="b > 0")

    def logcdf(value: Any, mu: Any, b: Any) -> Any:  # PyMC passes the value here
        """Logarithm of the probability of at most `value`."""
        tail = -pt.abs(value - mu) / b - math.log(2.0)
        return check_parameters(pt.switch(value <= mu, tail, pt.log1p(-pt.exp(tail))), b > 0, msg="b > 0")
